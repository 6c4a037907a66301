# SPDX-License-Identifier: Apache-2.0
"""Small models with wider operands than usual: the results of every rounding contract are close to those of the float
model, and int32 numbers that are dequantized and quantized are requantized by the contract."""

import math
from fractions import Fraction as F

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

CONTRACTS = ["onnx", "tflite", "tflite-single", "qnn-tonearest"]


def save(path, nodes, inputs, outputs, constants=()):
    info = lambda rows: [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in rows]
    tensors = [numpy_helper.from_array(np.asarray(v), n) for n, v in constants]
    graph = helper.make_graph(nodes, "g", info(inputs), info(outputs), tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)


def write(path, **arrays):
    with h5py.File(path, "w") as f:
        for name, array in arrays.items():
            f[name] = array


def outputs(qcalib, folder, model, contract):
    qcalib("run", model, "--data", "data.h5", "--rounding", contract, "-o", "out.h5", "-q")
    with h5py.File(folder / "out.h5") as f:
        (key,) = f
        return f[key][:]


def sqnr(reference, found):
    noise = np.sum((np.float64(reference) - found) ** 2)
    return 10 * math.log10(np.sum(np.float64(reference) ** 2) / noise)


def test_a_product_of_16_bit_operands_does_not_wrap(qcalib, tmp_path):
    rng = np.random.default_rng(1)
    x, u, v = rng.normal(size=(64, 20)).astype(np.float32), *rng.normal(size=(2, 20, 40)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "u"], ["xu"]),
        helper.make_node("MatMul", ["x", "v"], ["xv"]),
        helper.make_node("Relu", ["xu"], ["a"]),
        helper.make_node("Relu", ["xv"], ["b"]),
        helper.make_node("Mul", ["a", "b"], ["z"]),
    ]
    save(
        tmp_path / "m.onnx",
        nodes,
        [("x", TensorProto.FLOAT, ["N", 20])],
        [("z", TensorProto.FLOAT, ["N", 40])],
        [("u", u), ("v", v)],
    )
    write(tmp_path / "data.h5", x=x)
    qcalib(
        "quantize",
        "m.onnx",
        "--data",
        "data.h5",
        "--activation-type",
        "uint16",
        "--method",
        "minmax",
        "--no-report",
        "-o",
        "q.onnx",
    )
    reference = np.maximum(x @ u, 0) * np.maximum(x @ v, 0)
    found = {c: sqnr(reference, outputs(qcalib, tmp_path, "q.onnx", c)) for c in CONTRACTS}
    assert found["onnx"] > 40 and max(found.values()) - min(found.values()) < 1, found


def qdq(name, levels, scale, zero):
    """Nodes and constants: NAME -> NAME_r."""
    nodes = [
        helper.make_node("QuantizeLinear", [name, f"{name}_s", f"{name}_z"], [f"{name}_q"]),
        helper.make_node("DequantizeLinear", [f"{name}_q", f"{name}_s", f"{name}_z"], [f"{name}_r"]),
    ]
    return nodes, [(f"{name}_s", np.float32(scale)), (f"{name}_z", levels(zero))]


@pytest.mark.parametrize("op", ["Add", "Sub"])
@pytest.mark.parametrize("operand", [np.uint16, np.int16])
def test_a_sum_of_operands_wider_than_the_result_does_not_overflow(operand, op, qcalib, tmp_path):
    rng = np.random.default_rng(2)
    x, y = (rng.uniform(-4, 4, size=(64, 40)).astype(np.float32) for _ in range(2))
    middle = 32768 if operand == np.uint16 else 0
    parts = [
        qdq("x", operand, 4 / 32768, middle),
        qdq("y", operand, 4.1 / 32768, middle),
        qdq("z", np.uint8, 16.2 / 255, 128),
    ]
    save(
        tmp_path / "m.onnx",
        [*parts[0][0], *parts[1][0], helper.make_node(op, ["x_r", "y_r"], ["z"]), *parts[2][0]],
        [("x", TensorProto.FLOAT, ["N", 40]), ("y", TensorProto.FLOAT, ["N", 40])],
        [("z_r", TensorProto.FLOAT, ["N", 40])],
        sum((p[1] for p in parts), []),
    )
    write(tmp_path / "data.h5", x=x, y=y)
    reference = x + y if op == "Add" else x - y
    found = {c: sqnr(reference, outputs(qcalib, tmp_path, "m.onnx", c)) for c in CONTRACTS}
    # QNN's contracts round each operand to the result's steps first: twice the noise, and 3 dB.
    lost = {c: found["onnx"] - s for c, s in found.items()}
    assert found["onnx"] > 38 and abs(lost["tflite"]) < 1 and all(0 <= s < 4 for s in lost.values()), found


def half_up(x):
    return math.floor(x + F(1, 2))


def half_away(x):
    return half_up(x) if x >= 0 else -half_up(-x)


def requantized(contract, q, scales):
    """Exact rational arithmetic, as docs/numerics.md has it; uint8."""
    significand, shift = math.frexp(float(F(float(scales[0])) / F(float(scales[1]))))
    exact = F(int(q) * half_away(F(significand) * 2**31), 2**31) * F(2) ** shift
    if contract == "tflite":
        level = half_away(F(half_up(exact / F(2) ** min(shift, 0)), 2 ** max(-shift, 0)))
    else:
        level = half_up(exact) if contract == "tflite-single" else half_away(exact)
    return min(255, max(0, level + ZERO))


ZERO = 77
TAIL = [
    helper.make_node("DequantizeLinear", ["wide", "s"], ["real"]),
    helper.make_node("QuantizeLinear", ["real", "r", "z"], ["level"]),
]


def parameters(scales):
    return [("s", np.float32(scales[0])), ("r", np.float32(scales[1])), ("z", np.uint8(ZERO))]


def check_wide(qcalib, folder, feeds, wide, scales):
    """Under "onnx" the numbers of ONNX Runtime, under the others a requantize of the int32 numbers."""
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"), providers=["CPUExecutionProvider"])
    level = session.run(["level"], feeds)[0]
    assert np.array_equal(outputs(qcalib, folder, "m.onnx", "onnx"), level)
    for contract in CONTRACTS[1:]:
        expected = np.array([requantized(contract, q, scales) for q in wide.ravel()], np.uint8).reshape(wide.shape)
        assert np.array_equal(outputs(qcalib, folder, "m.onnx", contract), expected), contract
        assert np.any(expected != level), "else nothing tells them apart"


@pytest.mark.parametrize("scales", [(np.float32(0.0003), np.float32(0.37)), (2.0**-6, 2.0**-2)])
def test_int32_input_that_is_quantized_again_is_a_requantize(scales, qcalib, tmp_path):
    """Numbers whose results lie next to k + 1/2, and the ends."""
    halves = [round((k + 0.5) * float(scales[1]) / float(scales[0])) + d for k in range(-80, 180) for d in (-1, 0, 1)]
    wide = np.array([[*halves, 0, 2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31)]], np.int32)
    shape = ["N", wide.shape[1]]
    save(
        tmp_path / "m.onnx",
        TAIL,
        [("wide", TensorProto.INT32, shape)],
        [("level", TensorProto.UINT8, shape)],
        parameters(scales),
    )
    write(tmp_path / "data.h5", wide=wide)
    check_wide(qcalib, tmp_path, {"wide": wide}, wide, scales)


@pytest.mark.parametrize("op", ["ConvInteger", "MatMulInteger"])
def test_sums_of_integer_products_are_requantized(op, qcalib, tmp_path):
    rng = np.random.default_rng(3)
    x = rng.integers(0, 16, (4, 6, 5, 5) if op == "ConvInteger" else (4, 30), np.uint8)
    w = rng.integers(-8, 8, (7, 6, 3, 3) if op == "ConvInteger" else (30, 9), np.int8)
    save(
        tmp_path / "m.onnx",
        [helper.make_node(op, ["x", "w"], ["wide"]), *TAIL],
        [("x", TensorProto.UINT8, ["N", *x.shape[1:]])],
        [("level", TensorProto.UINT8, None)],
        [*parameters((2.0**-6, 2.0**-2)), ("w", w)],
    )
    write(tmp_path / "data.h5", x=x)
    if op == "MatMulInteger":
        wide = x.astype(np.int32) @ w
    else:
        windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32), (3, 3), axis=(2, 3))
        wide = np.einsum("ncyxij,ocij->noyx", windows, w.astype(np.int32))
    check_wide(qcalib, tmp_path, {"x": x}, wide, (2.0**-6, 2.0**-2))
