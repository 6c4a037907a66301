# SPDX-License-Identifier: Apache-2.0
"""`qcalib run MODEL.tflite` equals TensorFlow Lite's reference interpreter: single operators and short sequences, in
float and in integers, and the real models.

  QCALIB       the program; build/release/qcalib when unset
  QCALIB_DATA  real models and data; without it those tests are skipped"""

import json
import os
import pathlib
import re
import subprocess

import h5py
import numpy as np
import pytest

from test_tflite_models import MODELS, model_file
from tflite_model import RUNTIME, Interpreter, Model, OpResolverType
from tflite_ops import model_of, one_op

ROOT = pathlib.Path(__file__).resolve().parents[2]
F, I8, I32 = np.float32, np.int8, np.int32


@pytest.fixture(scope="module")
def program():
    path = ROOT / os.environ.get("QCALIB", "build/release/qcalib")
    if not path.exists():
        pytest.fail(f"there is no {path}; build it first: cmake --preset release && cmake --build --preset release")
    return path


def command(program, folder, *arguments, code=0):
    done = subprocess.run([program, *arguments], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def reference(content, inputs, no_reference=False):
    def interpreter_of(kernels):
        return Interpreter(model_content=content, experimental_op_resolver_type=kernels)

    try:
        if no_reference:
            raise ValueError
        interpreter = interpreter_of(OpResolverType.BUILTIN_REF)
    except ValueError:  # some operators have no reference kernel
        interpreter = interpreter_of(OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]


def ours(program, folder, content, names, inputs, outputs):
    (folder / "model.tflite").write_bytes(content)
    with h5py.File(folder / "in.h5", "w") as file:
        for name, value in zip(names, inputs, strict=True):
            file[name] = value[None]
    command(program, folder, "run", "model.tflite", "--data", "in.h5", "--rounding", "tflite", "-o", "out.h5")
    with h5py.File(folder / "out.h5") as file:
        return [file[name][0] for name in outputs]


def check(program, folder, ops, tensors, inputs, outputs, exact=False, low=-2.0, high=2.0, seed=0, shared=False):
    """Random inputs through both. exact: every byte; else within 1e-5 of the largest number."""
    rng = np.random.default_rng(seed)
    values = []
    for i in inputs:
        shape, dtype = tensors[i][:2]
        if dtype == F:
            values.append(rng.uniform(low, high, shape).astype(F))
        elif dtype == bool:
            values.append(rng.integers(0, 2, shape).astype(bool))
        else:
            edge = np.iinfo(dtype) if dtype in (I8, np.uint8, np.int16) else None
            values.append(rng.integers(edge.min if edge else 0, edge.max + 1 if edge else 3, shape).astype(dtype))
    content = model_of(ops, tensors, inputs, outputs, shared=shared)
    # The reference kernel leaves out the last channel of the window.
    want = reference(content, values, any(op[0] == "LOCAL_RESPONSE_NORMALIZATION" for op in ops))
    got = ours(program, folder, content, [f"t{i}" for i in inputs], values, [f"t{i}" for i in outputs])
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.dtype == b.dtype and a.size == b.size, (a.dtype, a.shape, b.dtype, b.shape)
        a = a.reshape(b.shape)
        if exact or b.dtype != F:
            assert np.array_equal(a, b), f"output {k}: {np.count_nonzero(a != b)} of {b.size} differ"
        else:
            assert np.allclose(a, b, rtol=1e-5, atol=1e-5 * max(1, np.abs(b).max())), np.abs(a - b).max()


def real(shape, data=None):
    return (shape, F, None, None, 0, data)


def stored(shape, scale, zero, data=None, dtype=I8):
    return (shape, dtype, [scale], [zero], 0, data)


def ints(values):
    values = np.asarray(values, I32)
    return (values.shape, I32, None, None, 0, values)


IMAGE = (1, 7, 6, 4)
ONE = {
    "conv same": ("CONV_2D", [(2, 3, 3, 4), (2,)], (1, 4, 3, 2), ("Conv2DOptions", {"Padding": 0, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": 1})),
    "conv valid, dilated": ("CONV_2D", [(5, 2, 3, 4), (5,)], (1, 5, 2, 5), ("Conv2DOptions", {"Padding": 1, "StrideH": 1, "StrideW": 1, "DilationHFactor": 2, "DilationWFactor": 2})),
    "depthwise": ("DEPTHWISE_CONV_2D", [(1, 3, 3, 8), (8,)], (1, 7, 6, 8), ("DepthwiseConv2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 2, "FusedActivationFunction": 3})),
    "average": ("AVERAGE_POOL_2D", [], (1, 4, 3, 4), ("Pool2DOptions", {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 3})),
    "maximum": ("MAX_POOL_2D", [], (1, 3, 3, 4), ("Pool2DOptions", {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2, "FusedActivationFunction": 2})),
    "add channels": ("ADD", [(4,)], IMAGE, ("AddOptions", {"FusedActivationFunction": 1})),
    "sub": ("SUB", [IMAGE], IMAGE, ("SubOptions", {})),
    "mul": ("MUL", [(1, 1, 1, 4)], IMAGE, ("MulOptions", {"FusedActivationFunction": 3})),
    "div": ("DIV", [(1,)], IMAGE, ("DivOptions", {})),
    "maximum of two": ("MAXIMUM", [(6, 4)], IMAGE, ("MaximumMinimumOptions", {})),
    "prelu": ("PRELU", [(1, 1, 4)], IMAGE, None),
    "squared difference": ("SQUARED_DIFFERENCE", [(4,)], IMAGE, ("SquaredDifferenceOptions", {})),
    "square": ("SQUARE", [], IMAGE, ("SquareOptions", {})),
    "abs": ("ABS", [], IMAGE, ("AbsOptions", {})),
    "neg": ("NEG", [], IMAGE, ("NegOptions", {})),
    "exp": ("EXP", [], IMAGE, ("ExpOptions", {})),
    "sin": ("SIN", [], IMAGE, None),
    "cos": ("COS", [], IMAGE, ("CosOptions", {})),
    "floor": ("FLOOR", [], IMAGE, None),
    "ceil": ("CEIL", [], IMAGE, None),
    "round": ("ROUND", [], IMAGE, None),
    "elu": ("ELU", [], IMAGE, None),
    "logistic": ("LOGISTIC", [], IMAGE, None),
    "tanh": ("TANH", [], IMAGE, None),
    "hard swish": ("HARD_SWISH", [], IMAGE, ("HardSwishOptions", {})),
    "leaky relu": ("LEAKY_RELU", [], IMAGE, ("LeakyReluOptions", {"Alpha": 0.3})),
    "gelu": ("GELU", [], IMAGE, ("GeluOptions", {"Approximate": False})),
    "gelu, approximate": ("GELU", [], IMAGE, ("GeluOptions", {"Approximate": True})),
    "relu": ("RELU", [], IMAGE, None),
    "relu6": ("RELU6", [], IMAGE, None),
    "relu -1 to 1": ("RELU_N1_TO_1", [], IMAGE, None),
    "relu 0 to 1": ("RELU_0_TO_1", [], IMAGE, None),
    "softmax": ("SOFTMAX", [], IMAGE, ("SoftmaxOptions", {"Beta": 1.5})),
    "log softmax": ("LOG_SOFTMAX", [], IMAGE, ("LogSoftmaxOptions", {})),
    "l2 normalisation": ("L2_NORMALIZATION", [], IMAGE, ("L2NormOptions", {})),
    "local response": ("LOCAL_RESPONSE_NORMALIZATION", [], IMAGE, ("LocalResponseNormalizationOptions", {"Radius": 2, "Bias": 1.0, "Alpha": 0.5, "Beta": 0.5})),
    "depth to space": ("DEPTH_TO_SPACE", [], (1, 14, 12, 1), ("DepthToSpaceOptions", {"BlockSize": 2})),
}  # fmt: skip

VERSIONS = {"BROADCAST_TO": 2}  # else 1; in integers 2
INTEGER_VERSIONS = {"HARD_SWISH": 1, "RESHAPE": 1, "LOGISTIC": 1}

# What takes constants of integers: kind, inputs ("x" the image), shape of the result, options.
LISTS = {
    "mean over the image": ("MEAN", ["x", [1, 2]], (1, 4), ("ReducerOptions", {"KeepDims": False})),
    "mean, kept": ("MEAN", ["x", [1, 2]], (1, 1, 1, 4), ("ReducerOptions", {"KeepDims": True})),
    "sum over channels": ("SUM", ["x", [-1]], (1, 7, 6), ("ReducerOptions", {"KeepDims": False})),
    "largest of rows": ("REDUCE_MAX", ["x", [1]], (1, 6, 4), ("ReducerOptions", {"KeepDims": False})),
    "least": ("REDUCE_MIN", ["x", [2, 3]], (1, 7), ("ReducerOptions", {"KeepDims": False})),
    "product": ("REDUCE_PROD", ["x", [3]], (1, 7, 6), ("ReducerOptions", {"KeepDims": False})),
    "reshape": ("RESHAPE", ["x", [1, 42, 4]], (1, 42, 4), ("ReshapeOptions", {"NewShape": [1, 42, 4]})),
    "transpose": ("TRANSPOSE", ["x", [0, 3, 2, 1]], (1, 4, 6, 7), ("TransposeOptions", {})),
    "expand": ("EXPAND_DIMS", ["x", [1]], (1, 1, 7, 6, 4), ("ExpandDimsOptions", {})),
    "squeeze": ("SQUEEZE", ["x"], (7, 6, 4), ("SqueezeOptions", {"SqueezeDims": [0]})),
    "pad": ("PAD", ["x", [[0, 0], [1, 2], [0, 1], [0, 3]]], (1, 10, 7, 7), ("PadOptions", {})),
    "mirror": ("MIRROR_PAD", ["x", [[0, 0], [1, 2], [2, 1], [0, 0]]], (1, 10, 9, 4), ("MirrorPadOptions", {"Mode": 0})),
    "slice": ("SLICE", ["x", [0, 1, 2, 0], [1, 3, -1, 2]], (1, 3, 4, 2), ("SliceOptions", {})),
    "strided": ("STRIDED_SLICE", ["x", [0, 6, 1, 0], [1, 0, 5, 4], [1, -2, 2, 1]], (1, 4, 2, 4), ("StridedSliceOptions", {"EndMask": 2})),
    "strided, one row": ("STRIDED_SLICE", ["x", [0, -1, 0, 1], [0, 0, 0, 3], [1, 1, 1, 1]], (1, 6, 2), ("StridedSliceOptions", {"BeginMask": 5, "EndMask": 5, "ShrinkAxisMask": 2})),
    "reversed": ("REVERSE_V2", ["x", [2]], IMAGE, ("ReverseV2Options", {})),
    "tile": ("TILE", ["x", [1, 2, 1, 2]], (1, 14, 6, 8), ("TileOptions", {})),
    "broadcast": ("BROADCAST_TO", ["x", [3, 7, 6, 4]], (3, 7, 6, 4), ("BroadcastToOptions", {})),
    "gather": ("GATHER", ["x", [3, 0, 3]], (1, 7, 6, 3), ("GatherOptions", {"Axis": 3})),
    "gather points": ("GATHER_ND", ["x", [[0, 3], [0, 6]]], (2, 6, 4), ("GatherNdOptions", {})),
    "cumulative": ("CUMSUM", ["x", [2]], IMAGE, ("CumsumOptions", {"Exclusive": True, "Reverse": True})),
    "bilinear": ("RESIZE_BILINEAR", ["x", [9, 13]], (1, 9, 13, 4), ("ResizeBilinearOptions", {})),
    "bilinear, half": ("RESIZE_BILINEAR", ["x", [3, 13]], (1, 3, 13, 4), ("ResizeBilinearOptions", {"HalfPixelCenters": True})),
    "bilinear, corners": ("RESIZE_BILINEAR", ["x", [13, 4]], (1, 13, 4, 4), ("ResizeBilinearOptions", {"AlignCorners": True})),
    "nearest": ("RESIZE_NEAREST_NEIGHBOR", ["x", [9, 13]], (1, 9, 13, 4), ("ResizeNearestNeighborOptions", {})),
    "nearest, half": ("RESIZE_NEAREST_NEIGHBOR", ["x", [3, 13]], (1, 3, 13, 4), ("ResizeNearestNeighborOptions", {"HalfPixelCenters": True})),
    "nearest, corners": ("RESIZE_NEAREST_NEIGHBOR", ["x", [13, 4]], (1, 13, 4, 4), ("ResizeNearestNeighborOptions", {"AlignCorners": True})),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_an_operator_in_float(name, program, tmp_path):
    kind, more, out, options = ONE[name]
    rng = np.random.default_rng(3)
    tensors = [real(IMAGE), *(real(s, rng.uniform(0.2, 1.5, s) * rng.choice([-1, 1], s)) for s in more), real(out)]
    check(
        program,
        tmp_path,
        [(kind, list(range(len(tensors) - 1)), [len(tensors) - 1], options, 1)],
        tensors,
        [0],
        [len(tensors) - 1],
    )


@pytest.mark.parametrize("padding", [0, 1])
def test_a_convolution_of_volumes(padding, program, tmp_path):
    """SAME of even windows has one more element at the end."""
    rng = np.random.default_rng(4)
    weights, bias = rng.normal(size=(2, 3, 2, 3, 5)), rng.normal(size=5)
    out = (1, 2, 2, 4, 5) if padding else (1, 3, 3, 5, 5)
    options = ("Conv3DOptions", {"Padding": padding, "StrideD": 2, "StrideH": 2, "StrideW": 1, "FusedActivationFunction": 1})
    tensors = [real((1, 5, 6, 5, 3)), real(weights.shape, weights), real(bias.shape, bias), real(out)]
    check(program, tmp_path, [("CONV_3D", [0, 1, 2], [3], options, 1)], tensors, [0], [3])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", [0, 1])  # SAME, VALID
@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "AVERAGE_POOL_2D"])
def test_an_image_whose_size_is_computed(kind, padding, stride, program, tmp_path):
    """Its height is known when the model runs, and with it the padding of SAME."""
    rng = np.random.default_rng(4)
    scalar = lambda data=None: ((), I32, None, None, 0, data)
    tensors = [scalar(), scalar(np.array(0)), scalar(np.array(1)), ((168,), I32, None, None, 0, None), real((168,)), ints([1, -1, 7, 4]), real((1, 6, 7, 4)), real((1, 6, 7, 4))]
    ops = [("RANGE", [1, 0, 2], [3], None, 1), ("CAST", [3], [4], ("CastOptions", {}), 1), ("RESHAPE", [4, 5], [6], ("ReshapeOptions", {}), 1)]
    options, inputs = {"Padding": padding, "StrideH": stride, "StrideW": stride}, [6]
    if "POOL" in kind:
        options |= {"FilterHeight": 3, "FilterWidth": 2}
    else:
        inputs += [8, 9]
        shape = (4, 3, 2, 4) if kind == "CONV_2D" else (1, 3, 2, 4)
        tensors += [real(shape, rng.normal(size=shape)), real((4,), rng.normal(size=4))]
        options |= {"DepthMultiplier": 1} if kind != "CONV_2D" else {}
    table = "Pool2DOptions" if "POOL" in kind else "Conv2DOptions" if kind == "CONV_2D" else "DepthwiseConv2DOptions"
    content = model_of([*ops, (kind, inputs, [7], (table, options), 1)], tensors, [0], [7])
    for rows in (6, 5):
        count = np.array(28 * rows, I32)
        (want,) = reference(content, [count])
        (got,) = ours(program, tmp_path, content, ["t0"], [count], ["t7"])
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize("kind", ["LOG", "SQRT", "RSQRT"])
def test_a_function_of_positive_numbers(kind, program, tmp_path):
    check(program, tmp_path, [(kind, [0], [1], None, 1)], [real(IMAGE), real(IMAGE)], [0], [1], low=0.1)


def listed(name):
    kind, inputs, out, options = LISTS[name]
    return kind, [ints(v) for v in inputs[1:]], out, options


@pytest.mark.parametrize("name", LISTS)
def test_an_operator_with_lists(name, program, tmp_path):
    kind, lists, out, options = listed(name)
    tensors = [real(IMAGE), *lists, real(out)]
    last = len(tensors) - 1
    check(program, tmp_path, [(kind, list(range(last)), [last], options, VERSIONS.get(kind, 1))], tensors, [0], [last])


@pytest.mark.parametrize("name", LISTS)
def test_the_same_behind_a_convolution(name, program, tmp_path):
    """Where the channels are first inside."""
    kind, lists, out, options = listed(name)
    rng = np.random.default_rng(4)
    weights, bias = real((4, 1, 1, 4), rng.uniform(-1, 1, (4, 1, 1, 4))), real((4,), rng.uniform(-1, 1, 4))
    tensors = [real(IMAGE), weights, bias, real(IMAGE), *lists, real(out)]
    last = len(tensors) - 1
    ops = [
        ("CONV_2D", [0, 1, 2], [3], ("Conv2DOptions", {"StrideH": 1, "StrideW": 1}), 1),
        (kind, list(range(3, last)), [last], options, VERSIONS.get(kind, 1)),
    ]
    check(program, tmp_path, ops, tensors, [0], [last])


TWO = ["ADD", "SUB", "MUL"]
INT8 = ["TANH", "HARD_SWISH", "LEAKY_RELU", "QUANTIZE", "ABS", "L2_NORMALIZATION"]
BOTH = ["LOGISTIC", "SOFTMAX", "LOG_SOFTMAX", "RELU", "RELU6", "MAXIMUM", "MAX_POOL_2D", "AVERAGE_POOL_2D", "CONCATENATION"]
FIXED = {"LOGISTIC": (1 / 256, -128), "SOFTMAX": (1 / 256, -128), "LOG_SOFTMAX": (16 / 256, 127), "TANH": (1 / 128, 0), "L2_NORMALIZATION": (1 / 128, 0)}
SAME = ["RELU6", "ABS", "MAXIMUM", "MAX_POOL_2D", "AVERAGE_POOL_2D", "CONCATENATION"]  # the parameters stay
SHAPES = {"MAX_POOL_2D": (1, 3, 3, 4), "AVERAGE_POOL_2D": (1, 4, 3, 4), "CONCATENATION": (1, 7, 6, 8)}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "dtype"), [*((k, I8) for k in TWO + INT8 + BOTH), *((k, np.uint8) for k in TWO + BOTH)]
)
def test_an_operator_in_integers(kind, dtype, program, tmp_path):
    options = {
        "ADD": ("AddOptions", {"FusedActivationFunction": 1}),
        "SUB": ("SubOptions", {}),
        "MUL": ("MulOptions", {"FusedActivationFunction": 3}),
        "LEAKY_RELU": ("LeakyReluOptions", {"Alpha": 0.3}),
        "SOFTMAX": ("SoftmaxOptions", {"Beta": 1.0}),
        "CONCATENATION": ("ConcatenationOptions", {"Axis": 3}),
        "MAX_POOL_2D": ("Pool2DOptions", {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}),
        "AVERAGE_POOL_2D": ("Pool2DOptions", {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 3}),
    }  # fmt: skip
    shift = 128 if dtype == np.uint8 else 0
    scale, zero = (0.03, 5) if kind in SAME else FIXED.get(kind, (0.05, -20))
    second = (0.03, 5) if kind in SAME else (0.04, -7)
    tensors = [
        stored(IMAGE, 0.03, 5 + shift, dtype=dtype),
        stored(IMAGE, second[0], second[1] + shift, dtype=dtype),
        stored(SHAPES.get(kind, IMAGE), scale, zero + shift, dtype=dtype),
    ]
    inputs = [0, 1] if kind in (*TWO, "MAXIMUM", "CONCATENATION") else [0]
    version = 1 if shift and kind in (*TWO, "SOFTMAX") else INTEGER_VERSIONS.get(kind, 2)
    check(program, tmp_path, [(kind, inputs, [2], options.get(kind), version)], tensors, inputs, [2], exact=True)


@pytest.mark.parametrize("name", ["mean over the image", "reshape", "transpose", "pad", "slice", "gather", "tile"])
def test_lists_in_integers(name, program, tmp_path):
    kind, lists, out, options = listed(name)
    tensors = [stored(IMAGE, 0.03, 5), *lists, stored(out, 0.03, 5)]
    last = len(tensors) - 1
    ops = [(kind, list(range(last)), [last], options, INTEGER_VERSIONS.get(kind, 2))]
    check(program, tmp_path, ops, tensors, [0], [last], exact=True)


def quantized_conv(rng, shape, per_channel):
    channels = shape[0]
    scales = rng.uniform(0.002, 0.01, channels if per_channel else 1).astype(F)
    return [
        (shape, I8, scales, np.zeros(len(scales)), 0, rng.integers(-127, 128, shape)),
        ((channels,), I32, 0.02 * scales, np.zeros(len(scales)), 0, rng.integers(-2000, 2000, channels)),
    ]


CONV = ("Conv2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1, "FusedActivationFunction": 1})


def test_a_convolution_in_uint8(program, tmp_path):
    rng, byte = np.random.default_rng(3), np.uint8
    tensors = [
        stored(IMAGE, 0.02, 120, dtype=byte),
        stored((5, 3, 3, 4), 0.01, 130, rng.integers(0, 256, (5, 3, 3, 4)), byte),
        ((5,), I32, [2e-4], [0], 0, rng.integers(-2000, 2000, 5)),
        stored((1, 7, 6, 5), 0.05, 100, dtype=byte),
    ]
    check(program, tmp_path, [("CONV_2D", [0, 1, 2], [3], CONV, 1)], tensors, [0], [3], exact=True)


def test_a_transposed_convolution_in_integers(program, tmp_path):
    weights = np.random.default_rng(5).integers(-127, 128, (3, 3, 3, 4))
    tensors = [
        ints([1, 14, 12, 3]),
        ((3, 3, 3, 4), I8, [0.01, 0.02, 0.03], [0, 0, 0], 0, weights),
        stored(IMAGE, 0.02, 12),
        stored((1, 14, 12, 3), 0.05, 10),
    ]
    options = ("TransposeConvOptions", {"Padding": 0, "StrideH": 2, "StrideW": 2})
    check(program, tmp_path, [("TRANSPOSE_CONV", [0, 1, 2], [3], options, 1)], tensors, [2], [3], exact=True)


def test_a_product_of_two_values_in_integers(program, tmp_path):
    tensors = [stored((2, 3, 8), 0.02, 12), stored((2, 8, 5), 0.03, -4), stored((2, 3, 5), 0.05, 10)]
    ops = [("BATCH_MATMUL", [0, 1], [2], ("BatchMatMulOptions", {}), 2)]
    check(program, tmp_path, ops, tensors, [0, 1], [2], exact=True)


@pytest.mark.skipif(RUNTIME != "tflite-runtime", reason="the other runtime's FULLY_CONNECTED rounds differently")
def test_a_dense_layer_that_keeps_its_axes(program, tmp_path):
    rng = np.random.default_rng(6)
    tensors = [
        stored((1, 3, 8), 0.02, 12),
        ((5, 8), I8, [0.01], [0], 0, rng.integers(-127, 128, (5, 8))),
        ((5,), I32, [2e-4], [0], 0, rng.integers(-2000, 2000, 5)),
        stored((1, 3, 5), 0.05, 10),
    ]
    ops = [("FULLY_CONNECTED", [0, 1, 2], [3], ("FullyConnectedOptions", {"KeepNumDims": True}), 5)]
    check(program, tmp_path, ops, tensors, [0], [3], exact=True)


@pytest.mark.parametrize("adjoint", ["AdjX", "AdjY"])
def test_a_product_of_turned_values(adjoint, program, tmp_path):
    shapes = [(2, 8, 3), (2, 8, 5)] if adjoint == "AdjX" else [(2, 3, 8), (2, 5, 8)]
    tensors = [*map(real, shapes), real((2, 3, 5))]
    ops = [("BATCH_MATMUL", [0, 1], [2], ("BatchMatMulOptions", {adjoint: True}), 1)]
    check(program, tmp_path, ops, tensors, [0, 1], [2])


@pytest.mark.parametrize("kind", ["EQUAL", "NOT_EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL"])
def test_comparisons_and_a_choice(kind, program, tmp_path):
    shape = (3, 4)
    tensors = [(shape, I32, None, None, 0, None), ints(np.arange(12).reshape(shape) % 3), (shape, bool, None, None, 0, None)]
    tensors += [real(shape, np.arange(12)), real((4,), [-1, -2, -3, -4]), real(shape)]
    ops = [(kind, [0, 1], [2], None, 1), ("SELECT_V2", [2, 3, 4], [5], None, 1)]
    check(program, tmp_path, ops, tensors, [0], [2, 5])


def test_joining_and_splitting(program, tmp_path):
    """Parts of an image with channels first, packed, unpacked and joined along channels."""
    tensors = [real(IMAGE), real((4, 1, 1, 4), np.eye(4)), real((4,), np.zeros(4)), real(IMAGE)]  # 0 to 3
    tensors += [ints(3), real((1, 7, 6, 2)), real((1, 7, 6, 2)), real(IMAGE)]  # 4 to 7
    tensors += [ints([1, -1]), ints(2), real((1, 7, 1, 4)), real((1, 7, 5, 4))]  # 8 to 11
    tensors += [real((1, 7, 6, 2, 2)), *[real((1, 7, 6, 2)) for _ in range(2)]]  # 12 to 14
    ops = [
        ("CONV_2D", [0, 1, 2], [3], ("Conv2DOptions", {"StrideH": 1, "StrideW": 1}), 1),
        ("SPLIT", [4, 3], [5, 6], ("SplitOptions", {"NumSplits": 2}), 1),
        ("CONCATENATION", [6, 5], [7], ("ConcatenationOptions", {"Axis": -1}), 1),
        ("SPLIT_V", [7, 8, 9], [10, 11], ("SplitVOptions", {"NumSplits": 2}), 1),
        ("PACK", [5, 6], [12], ("PackOptions", {"ValuesCount": 2, "Axis": -1}), 1),
        ("UNPACK", [12], [13, 14], ("UnpackOptions", {"Num": 2, "Axis": 4}), 1),
    ]
    check(program, tmp_path, ops, tensors, [0], [7, 10, 11, 12, 13, 14])


def test_the_largest(program, tmp_path):
    tensors = [real((3, 9)), ints(4), real((3, 4)), (  # 0 to 2
        (3, 4), I32, None, None, 0, None), ints(1), ((3,), I32, None, None, 0, None)]  # fmt: skip
    ops = [
        ("TOPK_V2", [0, 1], [2, 3], ("TopKV2Options", {}), 1),
        ("ARG_MAX", [0, 4], [5], ("ArgMaxOptions", {"OutputType": 2}), 1),
    ]
    check(program, tmp_path, ops, tensors, [0], [2, 3, 5])


def test_the_shape_of_a_value_computes_another(program, tmp_path):
    """As converters write Flatten where the batch is free."""
    tensors = [real((1, 7, 4)), ((3,), I32, None, None, 0, None), ints([0]), ints([1]), ints([1])]
    tensors += [((), I32, None, None, 0, None), ints(-1), ((2,), I32, None, None, 0, None), real((1, 28))]
    ops = [
        ("SHAPE", [0], [1], ("ShapeOptions", {"OutType": 2}), 1),
        ("STRIDED_SLICE", [1, 2, 3, 4], [5], ("StridedSliceOptions", {"ShrinkAxisMask": 1}), 1),
        ("PACK", [5, 6], [7], ("PackOptions", {"ValuesCount": 2}), 1),
        ("RESHAPE", [0, 7], [8], ("ReshapeOptions", {}), 1),
    ]
    check(program, tmp_path, ops, tensors, [0], [8])


def test_the_page_names_the_operators_that_are_read():
    rows = {r for file in (ROOT / "tflite/read").glob("*.c") for r in re.findall(r"\{QC_TFL_OP_(\w+),", file.read_text())}
    page = (ROOT / "docs/tflite.md").read_text()
    listed = page[page.index("Read are: ") :].split(":", 1)[1].split(".\n", 1)[0]
    assert sorted(rows) == [name.strip() for name in listed.split(",")]


def test_a_small_network_in_integers(program, tmp_path):
    """Convolution, residual Add, concatenation, pool, dense layer and softmax: no Transpose but the one of the input."""
    rng = np.random.default_rng(5)
    shape = (1, 8, 8, 4)
    tensors = [
        stored(shape, 0.02, 3),  # 0
        *quantized_conv(rng, (4, 3, 3, 4), True),  # 1, 2
        stored(shape, 0.05, -10),  # 3
        stored(shape, 0.06, -5),  # 4: the sum
        stored(shape, 0.06, -5),  # 5: of another branch
        stored((1, 8, 8, 8), 0.06, -5),  # 6
        stored((1, 1, 1, 8), 0.06, -5),  # 7
        ints([1, 8]),  # 8
        stored((1, 8), 0.06, -5),  # 9
        ((3, 8), I8, [0.01], [0], 0, rng.integers(-127, 128, (3, 8))),  # 10
        ((3,), I32, [0.0006], [0], 0, rng.integers(-99, 99, 3)),  # 11
        stored((1, 3), 0.1, 0),  # 12
        stored((1, 3), 1 / 256, -128),  # 13
    ]
    conv = ("Conv2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1, "FusedActivationFunction": 1})
    window = {"Padding": 1, "StrideH": 8, "StrideW": 8, "FilterHeight": 8, "FilterWidth": 8}
    ops = [
        ("CONV_2D", [0, 1, 2], [3], conv, 3),
        ("ADD", [0, 3], [4], ("AddOptions", {}), 2),
        ("QUANTIZE", [3], [5], ("QuantizeOptions", {}), 2),
        ("CONCATENATION", [4, 5], [6], ("ConcatenationOptions", {"Axis": 3}), 2),
        ("AVERAGE_POOL_2D", [6], [7], ("Pool2DOptions", window), 2),
        ("RESHAPE", [7, 8], [9], ("ReshapeOptions", {"NewShape": [1, 8]}), 1),
        ("FULLY_CONNECTED", [9, 10, 11], [12], ("FullyConnectedOptions", {}), 4),
        ("SOFTMAX", [12], [13], ("SoftmaxOptions", {"Beta": 1.0}), 2),
    ]
    if RUNTIME == "tflite-runtime":  # the other's dense layer rounds once
        check(program, tmp_path, ops, tensors, [0], [13], exact=True)
    else:
        (tmp_path / "model.tflite").write_bytes(model_of(ops, tensors, [0], [13]))
    assert "Transpose 1" in command(program, tmp_path, "inspect", "model.tflite")


def test_weights_alone_in_integers_stay_so(program, tmp_path):
    """Dynamic range: weights are read as they are stored, data stay in float."""
    rng = np.random.default_rng(6)
    weights = rng.integers(-127, 128, (3, 8)).astype(I8)
    tensors = [real((1, 8)), ((3, 8), I8, [0.01], [0], 0, weights), real((1, 3))]
    content = one_op("FULLY_CONNECTED", tensors, [0, 1, -1], [2], ("FullyConnectedOptions", {}), 3)
    x = rng.uniform(-1, 1, (1, 8)).astype(F)
    (got,) = ours(program, tmp_path, content, ["t0"], [x], ["t2"])
    assert np.allclose(got.reshape(1, 3), x @ (weights.T * F(0.01)), rtol=1e-5, atol=1e-5)


def test_half_floats_are_read_as_floats(program, tmp_path):
    rng = np.random.default_rng(7)
    weights = rng.uniform(-1, 1, (3, 8)).astype(np.float16)
    tensors = [real((1, 8)), ((3, 8), np.float16, None, None, 0, weights), real((3, 8)), real((1, 3))]
    ops = [
        ("DEQUANTIZE", [1], [2], ("DequantizeOptions", {}), 3),
        ("FULLY_CONNECTED", [0, 2, -1], [3], ("FullyConnectedOptions", {}), 1),
    ]
    check(program, tmp_path, ops, tensors, [0], [3])


def test_operators_that_are_not_handled_are_all_named(program, tmp_path):
    tensors = [real((1, 8)), real((1, 8)), real((1, 8))]
    ops = [("ATAN2", [0, 0], [1], None, 1), ("SEGMENT_SUM", [1, 1], [2], None, 1)]
    (tmp_path / "model.tflite").write_bytes(model_of(ops, tensors, [0], [2]))
    message = command(program, tmp_path, "inspect", "model.tflite", code=4)
    assert "1 ATAN2, 1 SEGMENT_SUM" in message


def test_a_float_model_is_quantized_by_the_default_job(program, tmp_path):
    rng = np.random.default_rng(8)
    tensors = [
        real((1, 16, 16, 32)),
        real((64, 3, 3, 32), rng.normal(size=(64, 3, 3, 32)) / 17),
        real((64,), rng.normal(size=64)),
        real((1, 16, 16, 64)),
        ints([1, 2]),
        real((1, 64)),
    ]
    ops = [
        ("CONV_2D", [0, 1, 2], [3], ("Conv2DOptions", {"StrideH": 1, "StrideW": 1, "FusedActivationFunction": 3}), 1),
        ("MEAN", [3, 4], [5], ("ReducerOptions", {"KeepDims": False}), 1),
    ]
    (tmp_path / "model.tflite").write_bytes(model_of(ops, tensors, [0], [5]))
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["t0"] = rng.normal(size=(64, 16, 16, 32)).astype(F)
    assert "100.0 %" in command(program, tmp_path, "model.tflite", "--data", "in.h5", "-o", "q.onnx")
    for model in ("model.tflite", "q.onnx"):
        command(program, tmp_path, "run", model, "--data", "in.h5", "-o", f"{model}.h5")
    with h5py.File(tmp_path / "model.tflite.h5") as a, h5py.File(tmp_path / "q.onnx.h5") as b:
        error = np.mean(np.square(a["t5"][:] - b["t5"][:])) / np.mean(np.square(a["t5"][:]))
    assert error < 1e-3


def test_an_output_of_integers_is_scored(program, tmp_path):
    """As the numbers that it stands for: probabilities here, whose logarithm is the loss."""
    path = ROOT / "tests/tflite/corpus_tflite/network.tflite"
    x = np.random.default_rng(9).integers(-128, 128, (40, 4, 4, 2)).astype(I8)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["t0"] = x
    command(program, tmp_path, "run", path, "--data", "in.h5", "--rounding", "tflite", "-o", "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        levels = file["t11"][:].reshape(40, 3)
    labels = levels.argmax(1)
    labels[:10] = (labels[:10] + 1) % 3
    with h5py.File(tmp_path / "in.h5", "a") as file:
        file["labels"] = labels.astype(np.int64)
    found = json.loads(command(program, tmp_path, "eval", path, "--data", "in.h5", "--rounding", "tflite", "--json"))
    probability = (levels[np.arange(40), labels].astype(F) + 128) / 256
    assert found["models"][0]["value"] == 0.75
    assert np.isclose(found["models"][0]["nll"], np.mean(-np.log(np.maximum(probability, 2.0**-24))), rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_real_model_on_real_data(name, program, tmp_path):
    path = model_file(name)
    model = Model(path.read_bytes())
    values = real_samples(name, model)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file[model.tensors[model.inputs[0]].name] = values
    command(program, tmp_path, "run", path, "--data", "in.h5", "--rounding", "tflite", "-o", "out.h5")
    command(program, tmp_path, "convert", path, "--format", "qdq", "-o", "q.onnx")
    command(program, tmp_path, "run", "q.onnx", "--data", "in.h5", "--rounding", "tflite", "-o", "converted.h5")
    output = model.tensors[model.outputs[0]].name
    with h5py.File(tmp_path / "out.h5") as file, h5py.File(tmp_path / "converted.h5") as other:
        got = file[output][:]
        assert np.array_equal(got, other[output][:])
    if RUNTIME != "tflite-runtime":
        pytest.skip("the other runtime's FULLY_CONNECTED rounds differently")
    for x, y in zip(values, got, strict=True):
        (want,) = reference(model.accepted(), [x[None]])
        assert np.array_equal(y.ravel(), want.ravel())


def real_samples(name, model):
    """16 samples of the model's own data, as its input stores them; of person_detect and vww, which have none, of CIFAR-10 enlarged."""
    data = pathlib.Path(os.environ.get("QCALIB_DATA", ROOT.parent / "shared/data"))
    tensor = model.tensors[model.inputs[0]]
    if "kws" in name or "ad01" in name:
        with h5py.File(data / ("kws01_eval872.h5" if "kws" in name else "ad01_one_normal.h5")) as file:
            x = file["input"][:16]
        levels = np.round(x.reshape(16, *tensor.shape[1:]) / tensor.s) + tensor.z
        return np.clip(levels, -128, 127).astype(I8)
    with h5py.File(data / "cifar10_test.h5") as file:
        pixels = file["input"][:16].transpose(0, 2, 3, 1)
    height, channels = tensor.shape[1], tensor.shape[3]
    pixels = pixels.repeat(height // 32, 1).repeat(height // 32, 2)
    if channels == 1:
        pixels = pixels.mean(3, keepdims=True)
    return (pixels.astype(np.int16) - 128).astype(I8)


@pytest.mark.parametrize("op", ["ADD", "MUL", "SUB", "MAXIMUM", "CONCATENATION"])
@pytest.mark.parametrize("shape", [(2,), (4, 2), (1, 5, 5, 2)])
def test_a_constant_of_a_type_that_is_not_handled(op, shape, program, tmp_path):  # noqa: F811
    """Behind a convolution its operands have channels first, and a constant is transposed."""
    constant = (shape, np.complex64, None, None, 0, np.ones(shape, np.complex64))
    tensors = [((1, 5, 5, 2), F, None, None, 0, None), ((2, 1, 1, 2), F, None, None, 0, np.ones((2, 1, 1, 2), F))]
    tensors += [((2,), F, None, None, 0, np.ones(2, F)), ((1, 5, 5, 2), F, None, None, 0, None), constant]
    tensors += [((1, 5, 5, 2), F, None, None, 0, None)]
    conv = ("CONV_2D", [0, 1, 2], [3], ("Conv2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1}), 1)
    (tmp_path / "m.tflite").write_bytes(model_of([conv, (op, [3, 4], [5], None, 1)], tensors, [0], [5]))
    assert "tensor 4 't4' has a type that is not handled" in command(program, tmp_path, "inspect", "m.tflite", code=4)
