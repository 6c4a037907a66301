# SPDX-License-Identifier: Apache-2.0
"""Which `--rounding` is the arithmetic of which runtime and kernels: operators whose results are often halfway between two levels,
and a network.

  QCALIB       the program; build/release/qcalib when unset"""

import h5py
import numpy as np
import pytest

from test_tflite_export import array, made, node, quantized
from test_tflite_import import command, program, stored  # noqa: F401
from tflite_model import RUNTIME, Interpreter, OpResolverType
from tflite_ops import model_of

F, I8, I16, I32, I64 = np.float32, np.int8, np.int16, np.int32, np.int64
ROWS, INNER, CHANNELS = 400, 40, 64
CONTRACTS = ("tflite", "qnn-tonearest", "qnn-upward", "onnx", "xnnpack")
KERNELS = {
    "reference": OpResolverType.BUILTIN_REF,
    "optimized": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "default": OpResolverType.AUTO,
}
OLD = RUNTIME == "tflite-runtime"
# operator, type of the data, kernels -> the contracts with the same bytes; none: up to a step apart. XNNPACK is the default of ai-edge-litert.
EXACT = {
    ("CONV_2D", I8, "reference"): {"tflite"},
    ("CONV_2D", I8, "optimized"): set(),
    ("CONV_2D", I8, "default"): set() if OLD else {"onnx", "xnnpack"},
    ("FULLY_CONNECTED", I8, "reference"): {"tflite"} if OLD else {"qnn-tonearest"},
    ("FULLY_CONNECTED", I8, "optimized"): set(),
    ("FULLY_CONNECTED", I8, "default"): set() if OLD else {"onnx", "xnnpack"},
    **{("CONV_2D", I16, k): {"tflite", "qnn-upward", "xnnpack"} for k in KERNELS},
    **{("FULLY_CONNECTED", I16, k): {"tflite", "qnn-upward"} if OLD else {"qnn-tonearest", "xnnpack"} for k in KERNELS},
}


def layer(kind, dtype):
    """Scales are powers of two, so a 16-bit multiplier is exact too."""
    rng = np.random.default_rng(0)
    dense, zero = kind == "FULLY_CONNECTED", 0 if dtype == I16 else 7
    scale = 2.0**-10 if dtype == I16 else 2.0**-5
    inner, out = ((ROWS, INNER), (ROWS, CHANNELS)) if dense else ((1, ROWS, 1, INNER), (1, ROWS, 1, CHANNELS))
    shape, count = (CHANNELS, INNER) if dense else (CHANNELS, 1, 1, INNER), 1 if dense else CHANNELS
    tensors = [
        stored(inner, scale, zero, dtype=dtype),
        (shape, I8, np.full(count, 2.0**-7), np.zeros(count), 0, rng.integers(-127, 128, shape)),
        ((CHANNELS,), I64 if dtype == I16 else I32, np.full(count, scale / 128), np.zeros(count), 0, rng.integers(-2000, 2000, CHANNELS)),
        stored(out, scale * 4, -zero, dtype=dtype),
    ]
    options = ("FullyConnectedOptions", {}) if dense else ("Conv2DOptions", {"Padding": 1, "StrideH": 1, "StrideW": 1})
    version = {(True, I8): 4, (True, I16): 7, (False, I8): 3, (False, I16): 4}[dense, dtype]
    edge = np.iinfo(dtype)
    return model_of([(kind, [0, 1, 2], [3], options, version)], tensors, [0], [3]), rng.integers(edge.min, edge.max + 1, inner).astype(dtype)


def exact_contracts(program, folder, content, kernels, values, out):  # noqa: F811
    """The contracts with the bytes of these kernels; all others are a step apart at most. values: name of an input -> array."""
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=KERNELS[kernels])
    interpreter.allocate_tensors()
    with h5py.File(folder / "in.h5", "w") as file:
        for detail, (name, x) in zip(interpreter.get_input_details(), values.items(), strict=True):
            interpreter.set_tensor(detail["index"], x)
            file[name] = x[None]
    interpreter.invoke()
    want = interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).astype(I32)
    (folder / "model.tflite").write_bytes(content)
    exact = set()
    for contract in CONTRACTS:
        command(program, folder, "run", "model.tflite", "--data", "in.h5", "--rounding", contract, "-o", "out.h5")
        with h5py.File(folder / "out.h5") as file:
            apart = np.abs(file[out][0].reshape(want.shape).astype(I32) - want)
        assert apart.max() <= 1
        if not apart.any():
            exact.add(contract)
    return exact


@pytest.mark.parametrize(("kind", "dtype", "kernels"), EXACT)
def test_a_layer(kind, dtype, kernels, program, tmp_path):  # noqa: F811
    content, x = layer(kind, dtype)
    assert exact_contracts(program, tmp_path, content, kernels, {"t0": x}, "t3") == EXACT[kind, dtype, kernels]


BYTES = np.arange(-128, 128).astype(I8)
ACROSS, DOWN = np.repeat(BYTES, 256).reshape(1, 256, 256, 1), np.tile(BYTES, 256).reshape(1, 256, 256, 1)
ELEMENTS = np.random.default_rng(4).uniform(-1, 1, (1, 64, 64, 4))
MEAN = (stored((1, 5, 6, 2048), 0.07, -9), ((2,), I32, None, None, 0, np.array([1, 2])), stored((1, 1, 1, 2048), 0.035, 61))
# name -> (operators in a row, options, tensors, values of the inputs). Quotients of scales that are powers of two give many ties.
OPERATORS = {
    **{
        f"{kind} {name}": (kind, (f"{kind.title()}Options", {}), [stored(ACROSS.shape, s, z) for s, z in parameters], [ACROSS, DOWN])
        for kind in ("ADD", "SUB", "MUL")
        for name, parameters in (("ties", ((0.25, 3), (0.5, -7), (1, 21))), ("others", ((0.031, 3), (0.47, -70), (0.21, 21))))
    },
    "MEAN": ("MEAN", ("ReducerOptions", {"KeepDims": True}), MEAN, [np.random.default_rng(1).integers(-60, 61, (1, 5, 6, 2048)).astype(I8)]),
    "QUANTIZE reals": ("QUANTIZE RELU", None, [(ELEMENTS.shape, F, None, None, 0, None), stored(ELEMENTS.shape, 0.01, 5), stored(ELEMENTS.shape, 0.01, 5)], [(0.01 * (np.round(ELEMENTS * 100) + 0.5)).astype(F)]),
    "QUANTIZE bytes": ("QUANTIZE", None, [stored(ACROSS.shape, 0.0217, 5), stored(ACROSS.shape, 0.031, -5)], [ACROSS]),
    "AVERAGE_POOL_2D": ("AVERAGE_POOL_2D", ("Pool2DOptions", {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}), [stored((1, 256, 256, 1), 0.1, 3), stored((1, 128, 128, 1), 0.1, 3)], [ACROSS // 2 + DOWN // 2]),
    "LOGISTIC": ("LOGISTIC", None, [stored(ACROSS.shape, 0.043, 3), stored(ACROSS.shape, 1 / 256, -128)], [ACROSS]),
    "LEAKY_RELU": ("LEAKY_RELU", ("LeakyReluOptions", {"Alpha": 0.2}), [stored(ACROSS.shape, 0.043, 3), stored(ACROSS.shape, 0.031, -40)], [ACROSS]),
    "HARD_SWISH": ("HARD_SWISH", None, [stored(ACROSS.shape, 0.043, 3), stored(ACROSS.shape, 0.025, -110)], [ACROSS]),
    "TANH": ("TANH", None, [stored(ACROSS.shape, 0.023, 3), stored(ACROSS.shape, 1 / 128, 0)], [ACROSS]),
    # XNNPACK leaves a product whose second operand has a zero point to TensorFlow Lite's kernels.
    **{
        f"BATCH_MATMUL zero point {zero}": ("BATCH_MATMUL", ("BatchMatMulOptions", {}), [stored((4, 96, 24), 0.0167, 3), stored((4, 24, 40), 0.013, zero), stored((4, 96, 40), 0.111, 11)], [np.random.default_rng(s).integers(-128, 128, (4, *shape)).astype(I8) for s, shape in ((6, (96, 24)), (7, (24, 40)))])
        for zero in (0, -7)
    },
    # Rows of 512 equal numbers have results of half a step.
    **{
        f"SOFTMAX {columns}": ("SOFTMAX", ("SoftmaxOptions", {"Beta": 1.0}), [stored((rows, columns), 0.043, 3), stored((rows, columns), 1 / 256, -128)], [np.random.default_rng(5).integers(low, 128, (rows, columns)).astype(I8)])
        for rows, columns, low in ((2000, 17, -128), (1, 512, 127))
    },
}


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_in_xnnpack(name, program, tmp_path):  # noqa: F811
    if OLD:
        pytest.skip("tflite-runtime 2.14 has another XNNPACK")
    kind, options, tensors, values = OPERATORS[name]
    kinds, last = kind.split(), len(tensors) - 1
    first = last + 1 - len(kinds)  # the result of the first operator
    inputs = [i for i in range(first) if tensors[i][5] is None]
    ops = [(k, [first + i - 1] if i else list(range(first)), [first + i], options, 1 if k == "HARD_SWISH" else 2) for i, k in enumerate(kinds)]
    content = model_of(ops, tensors, inputs, [last])
    assert "xnnpack" in exact_contracts(program, tmp_path, content, "default", {f"t{i}": x for i, x in zip(inputs, values, strict=True)}, f"t{last}")


@pytest.mark.parametrize("kernels", ["reference", "default"])
def test_a_network(kernels, program, tmp_path):  # noqa: F811
    """A residual network: TensorFlow Lite's reference kernels are `tflite`, XNNPACK in ai-edge-litert is `xnnpack`."""
    contract = {"reference": "tflite", "default": "xnnpack"}[kernels]
    if (kernels == "reference") != OLD:
        pytest.skip("no contract has the bytes of these kernels")
    nodes = [
        node("Conv", ["x", "w"], "a", pads=[1, 1, 1, 1]), node("Relu", ["a"], "r"), node("Conv", ["r", "v"], "b", pads=[1, 1, 1, 1]),
        node("Add", ["r", "b"], "s"), node("MaxPool", ["s"], "m", kernel_shape=[2, 2], strides=[2, 2]), node("Conv", ["m", "d"], "c", group=8),
        node("GlobalAveragePool", ["c"], "g"), node("Flatten", ["g"], "f"), node("Gemm", ["f", "e"], "y"),
    ]  # fmt: skip
    weights = {"w": array(8, 3, 3, 3), "v": array(8, 8, 3, 3, seed=2), "d": array(8, 1, 3, 3, seed=3), "e": array(8, 10, seed=4)}
    made(tmp_path, nodes, (3, 16, 16), weights)
    content = quantized(program, tmp_path, "made.onnx", "data.h5", "--target", "tflite" if OLD else "xnnpack")
    command(program, tmp_path, "run", "made.int8.onnx", "--data", "data.h5", "--rounding", contract, "-o", "out.h5")
    runner = Interpreter(model_content=content, experimental_op_resolver_type=KERNELS[kernels]).get_signature_runner("serving_default")
    with h5py.File(tmp_path / "data.h5") as file, h5py.File(tmp_path / "out.h5") as wanted:
        x, want = np.moveaxis(file["x"][:], 1, -1), wanted["y"][:]
    got = np.concatenate([runner(x=np.ascontiguousarray(v[None]))["y"] for v in x])
    assert np.array_equal(got, want) and len(np.unique(want)) > 50
