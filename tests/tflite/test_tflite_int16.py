# SPDX-License-Identifier: Apache-2.0
"""16-bit activations with 8-bit weights: `qcalib run --rounding tflite` and `--format tflite` against the reference interpreter, every byte.

  QCALIB       the program; build/release/qcalib when unset
  QCALIB_DATA  real models and data; without it those tests are skipped"""

import os
import pathlib

import numpy as np
import pytest

from test_tflite_export import array, check_network, interpreter_of, made, node, operators, quantized, run
from test_tflite_import import CONV, IMAGE, check, command, ints, ours, program, reference, stored  # noqa: F401
from tflite_model import RUNTIME, Interpreter, OpResolverType
from tflite_ops import model_of

F, I8, I16, I32, I64 = np.float32, np.int8, np.int16, np.int32, np.int64
WIDE = (1, 256, 256, 1)  # 65,536 numbers
LAST = 1 / 32768
POOL = {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 3}


def levels(shape, scale, data=None):
    return stored(shape, scale, 0, data, I16)


# name -> shapes and scales of the inputs, those of the result, options, version. Scales are in units of the first one, but those of FIXED.
ONE = {
    "ADD": ([(IMAGE, 1), (IMAGE, 1.5)], (IMAGE, 2), ("AddOptions", {"PotScaleInt16": False}), 3),
    "SUB": ([(IMAGE, 1), (IMAGE, 0.7)], (IMAGE, 1.3), ("SubOptions", {"PotScaleInt16": False}), 5),
    "MUL": ([(IMAGE, 1), (IMAGE, 1.5)], (IMAGE, 2), ("MulOptions", {}), 4),
    "QUANTIZE": ([(IMAGE, 1)], (IMAGE, 1.7), ("QuantizeOptions", {}), 2),
    "RELU": ([(IMAGE, 1)], (IMAGE, 1), None, 3),
    "RELU6": ([(IMAGE, 1)], (IMAGE, 1), None, 3),
    "LEAKY_RELU": ([(WIDE, 1)], (WIDE, 1.3), ("LeakyReluOptions", {"Alpha": 0.3}), 2),
    "LOGISTIC": ([(WIDE, 1)], (WIDE, LAST), None, 3),
    "TANH": ([(WIDE, 1)], (WIDE, LAST), None, 3),
    "SOFTMAX": ([((200, 30), 1)], ((200, 30), LAST), ("SoftmaxOptions", {"Beta": 1.0}), 3),
    "MAX_POOL_2D": ([(IMAGE, 1)], ((1, 4, 3, 4), 1), ("Pool2DOptions", POOL), 3),
    "AVERAGE_POOL_2D": ([(IMAGE, 1)], ((1, 4, 3, 4), 1), ("Pool2DOptions", POOL), 3),
    "MAXIMUM": ([(IMAGE, 1), (IMAGE, 1)], (IMAGE, 1), ("MaximumMinimumOptions", {}), 4),
    "CONCATENATION": ([(IMAGE, 1), (IMAGE, 1)], ((1, 7, 6, 8), 1), ("ConcatenationOptions", {"Axis": 3}), 3),
    "BATCH_MATMUL": ([((2, 30, 2), 1), ((2, 2, 50), 1.5)], ((2, 30, 50), 40), ("BatchMatMulOptions", {}), 3),
}  # fmt: skip
FIXED = ("LOGISTIC", "TANH", "SOFTMAX")


@pytest.mark.parametrize("unit", [1e-3, 2e-4, 2.0**-11, 2.0**-12, 2.0**-15])
@pytest.mark.parametrize("kind", ONE)
def test_an_operator(kind, unit, program, tmp_path):  # noqa: F811
    inputs, (shape, scale), options, version = ONE[kind]
    tensors = [levels(s, unit * k) for s, k in inputs] + [levels(shape, scale if kind in FIXED else unit * scale * (unit * 1e4 if kind == "BATCH_MATMUL" else 1))]
    last = len(tensors) - 1
    check(program, tmp_path, [(kind, list(range(last)), [last], options, version)], tensors, list(range(last)), [last], exact=True)


def test_a_mean(program, tmp_path):  # noqa: F811
    tensors = [levels(IMAGE, 1e-3), ints([1, 2]), levels((1, 4), 4e-4)]
    check(program, tmp_path, [("MEAN", [0, 1], [2], ("ReducerOptions", {"KeepDims": False}), 3)], tensors, [0], [2], exact=True)


# kind -> shape of the weights, axis of the scales, shapes of image and result, unit of the result's scale, options, version
PRODUCTS = {
    "CONV_2D": ((50, 3, 3, 4), 0, IMAGE, (1, 7, 6, 50), 6, CONV, 4),
    "DEPTHWISE_CONV_2D": ((1, 3, 3, 4), 3, IMAGE, IMAGE, 3, ("DepthwiseConv2DOptions", {"Padding": 0, "StrideH": 1, "StrideW": 1, "DepthMultiplier": 1}), 5),
    "FULLY_CONNECTED": ((50, 80), None, (30, 80), (30, 50), 7, ("FullyConnectedOptions", {}), 7),
    "TRANSPOSE_CONV": ((30, 3, 3, 4), 0, IMAGE, (1, 14, 12, 30), 4, ("TransposeConvOptions", {"Padding": 0, "StrideH": 2, "StrideW": 2}), 3),
}  # fmt: skip


def product(kind, unit, bias):
    shape, axis, image, out, scale, options, version = PRODUCTS[kind]
    rng = np.random.default_rng(4)
    channels = 1 if axis is None else shape[axis]
    scales = rng.uniform(0.002, 0.01, channels).astype(F)
    count = out[-1]
    weight = (shape, I8, scales, np.zeros(channels), axis or 0, rng.integers(-127, 128, shape))
    offset = ((count,), bias, (F(unit) * scales).astype(F), np.zeros(channels), 0, rng.integers(-200000, 200000, count))
    tensors = [levels(image, unit), weight, offset, levels(out, unit * scale), ints(out)]
    if bias == I32:
        options = (options[0], options[1] | {"QuantizedBiasType": 2})
    return [(kind, [4, 1, 0, 2] if kind == "TRANSPOSE_CONV" else [0, 1, 2], [3], options, version)], tensors


@pytest.mark.parametrize("unit", [1e-3, 2e-5])
@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_product(kind, unit, program, tmp_path):  # noqa: F811
    """By int8 weights, with a bias of 64 bits."""
    if kind == "FULLY_CONNECTED" and RUNTIME != "tflite-runtime":
        pytest.skip("the other runtime's FULLY_CONNECTED rounds differently: test_tflite_runtimes.py")
    check(program, tmp_path, *product(kind, unit, I64), [0], [3], exact=True)


@pytest.mark.parametrize("kind", ["CONV_2D", "FULLY_CONNECTED"])
def test_a_bias_of_32_bits_is_read_as_one_of_64(kind, program, tmp_path):  # noqa: F811
    """TensorFlow Lite then rounds twice: one step apart at most."""
    ops, tensors = product(kind, 1e-3, I32)
    x = np.random.default_rng(1).integers(-32768, 32768, tensors[0][0]).astype(I16)
    (tmp_path / "narrow.tflite").write_bytes(content := model_of(ops, tensors, [0], [3]))
    (got,), (want,) = ours(program, tmp_path, content, ["t0"], [x], ["t3"]), reference(content, [x])
    assert np.abs(got.reshape(want.shape).astype(I32) - want).max() <= 1


def test_a_bias_that_does_not_fit_32_bits_is_refused(program, tmp_path):  # noqa: F811
    ops, tensors = product("FULLY_CONNECTED", 1e-3, I64)
    tensors[2][5][0] = 1 << 40
    (tmp_path / "model.tflite").write_bytes(model_of(ops, tensors, [0], [3]))
    assert "does not fit 32 bits" in command(program, tmp_path, "inspect", "model.tflite", code=4)


OPTIONS = ["--activation-type", "int16", "--symmetric=activations,weights"]


def test_a_made_network(program, tmp_path):  # noqa: F811
    """Functions, a residual Add and a transposed convolution."""
    nodes = [
        node("Conv", ["x", "w", "b"], "c"), node("Sigmoid", ["c"], "s"), node("Mul", ["c", "s"], "m"), node("Tanh", ["m"], "t"),
        node("Add", ["t", "c"], "a"), node("LeakyRelu", ["a"], "l", alpha=0.2), node("ConvTranspose", ["l", "u"], "d", strides=[2, 2]),
        node("MaxPool", ["d"], "p", kernel_shape=[2, 2], strides=[2, 2]), node("Flatten", ["p"], "f"),
        node("Gemm", ["f", "g", "h"], "z"), node("Softmax", ["z"], "y", axis=-1),
    ]  # fmt: skip
    weights = {"w": array(4, 3, 3, 3), "b": array(4), "u": array(4, 4, 2, 2, seed=2), "g": array(144, 5, seed=3), "h": array(5)}
    made(tmp_path, nodes, (3, 8, 8), weights)
    content = quantized(program, tmp_path, "made.onnx", "data.h5", *OPTIONS)
    check_network(program, tmp_path, content, tmp_path / "data.h5", 32)
    Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)  # it has all of them
    found = operators(content)
    assert {"LOGISTIC", "TANH", "LEAKY_RELU", "TRANSPOSE_CONV", "SOFTMAX"} <= set(found) and found.count("DEQUANTIZE") == 1, found
    command(program, tmp_path, "convert", "made.int8.tflite", "--format", "tflite", "-o", "again.tflite")
    again, first = interpreter_of((tmp_path / "again.tflite").read_bytes()), interpreter_of(content)
    for seed in range(4):
        x = np.random.default_rng(seed).normal(0, 1, (1, 8, 8, 3)).astype(F)
        assert np.array_equal(run(first, [x])[0], run(again, [x])[0])


NETWORKS = {
    "resnet8_cifar10_mlperf": ("cifar10_calib.h5", "cifar10_test.h5", ["--preprocess", "none"]),
    "dscnn_kws_mlperf": ("kws01_calib128.h5", "kws01_eval872.h5", []),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_real_network(name, program, tmp_path):  # noqa: F811
    folder = pathlib.Path(os.environ.get("QCALIB_DATA") or "none")
    if not folder.is_dir():
        pytest.skip("QCALIB_DATA does not name the folder with real models")
    calibration, data, options = NETWORKS[name]
    (tmp_path / "model.onnx").symlink_to(folder / "models" / f"{name}.onnx")
    content = quantized(program, tmp_path, "model.onnx", folder / calibration, *OPTIONS, *options)
    check_network(program, tmp_path, content, folder / data, 256 if "QCALIB_LONG" in os.environ else 64, *options)
    assert "TRANSPOSE" not in operators(content)


@pytest.mark.parametrize(("kind", "other"), [("int16", "int8"), ("uint16", "uint8")])
def test_products_of_two_activations_need_8_bits(kind, other, program, tmp_path):  # noqa: F811
    nodes = [node("MatMul", ["x", "w"], "a"), node("MatMul", ["x", "v"], "b"), node("Transpose", ["b"], "t", perm=[0, 2, 1]), node("MatMul", ["a", "t"], "y")]
    made(tmp_path, nodes, (8, 8), {"w": array(8, 8), "v": array(8, 8, seed=2)})
    arguments = ("quantize", "-q", "--no-report", "--data", "data.h5", "--target", "integers", "--activation-type", kind, "made.onnx", "-o", "q.onnx")
    said = command(program, tmp_path, *arguments, code=4)
    name = said.split("('")[1].split("'")[0]
    assert f"products of two 16-bit activations do not fit into a 32-bit accumulator: 1 op ('{name}')" in said and "weight" not in said
    assert f"(--activation-type {other}:NODE)" in said
    command(program, tmp_path, *arguments, "--activation-type", f"{other}:{name}")
    assert "16-bit weights with 16-bit activations" in command(program, tmp_path, *arguments, "--weight-type", "int16", code=4)
