# SPDX-License-Identifier: Apache-2.0
"""Which `--rounding` is the arithmetic of which runtime and kernels: convolutions and dense layers whose sums are often halfway between two levels,
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
CONTRACTS = ("tflite", "qnn-tonearest", "qnn-upward", "onnx")
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
    ("CONV_2D", I8, "default"): set() if OLD else {"onnx"},
    ("FULLY_CONNECTED", I8, "reference"): {"tflite"} if OLD else {"qnn-tonearest"},
    ("FULLY_CONNECTED", I8, "optimized"): set(),
    ("FULLY_CONNECTED", I8, "default"): set() if OLD else {"onnx"},
    **{("CONV_2D", I16, k): {"tflite", "qnn-upward"} for k in KERNELS},
    **{("FULLY_CONNECTED", I16, k): {"tflite", "qnn-upward"} if OLD else {"qnn-tonearest"} for k in KERNELS},
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


@pytest.mark.parametrize(("kind", "dtype", "kernels"), EXACT)
def test_a_layer(kind, dtype, kernels, program, tmp_path):  # noqa: F811
    content, x = layer(kind, dtype)
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=KERNELS[kernels])
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    want = interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).astype(I32)
    (tmp_path / "model.tflite").write_bytes(content)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["t0"] = x[None]
    exact = set()
    for contract in CONTRACTS:
        command(program, tmp_path, "run", "model.tflite", "--data", "in.h5", "--rounding", contract, "-o", "out.h5")
        with h5py.File(tmp_path / "out.h5") as file:
            apart = np.abs(file["t3"][0].reshape(want.shape).astype(I32) - want)
        assert apart.max() <= 1
        if not apart.any():
            exact.add(contract)
    assert exact == EXACT[kind, dtype, kernels]


@pytest.mark.parametrize("kernels", ["reference", "default"])
def test_a_network(kernels, program, tmp_path):  # noqa: F811
    """A residual network: TensorFlow Lite's reference kernels are `tflite`, XNNPACK in ai-edge-litert is `onnx`."""
    contract = {"reference": "tflite", "default": "onnx"}[kernels]
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
