# SPDX-License-Identifier: Apache-2.0
"""Operators of the tflite contract against TensorFlow Lite's reference kernels, each in a separate model with random
parameters."""

import numpy as np
import pytest

from tflite_layers import Layers, Space, Window
from tflite_model import DENSE_CONTRACT, Interpreter, OpResolverType
from tflite_ops import one_op

COUNT = 20000
f32 = np.float32


@pytest.fixture(scope="module")
def layers():
    return Layers("tflite")


@pytest.fixture(scope="module")
def dense():
    return Layers(DENSE_CONTRACT)


def run(content, *values):
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    interpreter.allocate_tensors()
    for detail, value in zip(interpreter.get_input_details(), values, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


def tensor(shape, space, dtype=np.int8):
    return (shape, dtype, [space.scale], [space.zero_point], 0, None)


def random_space(rng, lowest=0.002, highest=0.9):
    return Space(f32(np.exp(rng.uniform(np.log(lowest), np.log(highest)))), int(rng.integers(-128, 128)), -128, 127)


def random_levels(rng, *shape):
    return rng.integers(-128, 128, shape).astype(np.int8)


def assert_same(got, want, what):
    wrong = np.flatnonzero(got.ravel() != want.ravel())
    assert want.min() < want.max(), f"{what}: every result is {want.flat[0]}: nothing is tested"
    assert (
        wrong.size == 0
    ), f"{what}: {wrong.size} of {want.size} differ, the first {got.flat[wrong[0]]} instead of {want.flat[wrong[0]]}"


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
def test_merges(kind, seed, layers):
    rng = np.random.default_rng(seed)
    a, b = random_space(rng, 0.05), random_space(rng, 0.05)
    reach = a.scale * b.scale if kind == "MUL" else max(a.scale, b.scale)
    c = Space(f32(reach * rng.uniform(0.7, 60 if kind == "MUL" else 3)), int(rng.integers(-128, 128)), -128, 127)
    if seed == 0:  # ties: powers of two
        a, b, c = (
            Space(0.25, 3, -128, 127),
            Space(0.25, -7, -128, 127),
            Space(0.5 if kind != "MUL" else 0.125, 5, -128, 127),
        )
    x, y = random_levels(rng, 1, COUNT), random_levels(rng, 1, COUNT)
    tensors = [tensor(x.shape, a), tensor(y.shape, b), tensor(x.shape, c)]
    want = run(one_op(kind, tensors, [0, 1], [2], (f"{kind.capitalize()}Options", {}), 2), x, y)
    assert_same(layers.merge(kind, x, y, a, b, c), want, f"{a.scale} {b.scale} {c.scale}")


@pytest.mark.parametrize("seed", range(12))
def test_requantize(seed, layers):
    rng = np.random.default_rng(seed)
    a, c = random_space(rng, 0.01), random_space(rng, 0.01)
    if seed < 2:
        c = Space(a.scale if seed else a.scale * 2, c.zero_point, -128, 127)
    x = np.arange(-128, 128).astype(np.int8).reshape(1, -1)
    assert_same(
        layers.rescale(x, a, c),
        run(one_op("QUANTIZE", [tensor(x.shape, a), tensor(x.shape, c)], [0], [1], None, 2), x),
        f"{a.scale} {c.scale}",
    )


@pytest.mark.parametrize("seed", range(6))
def test_quantize_of_real_numbers(seed, layers):
    rng = np.random.default_rng(seed)
    c = random_space(rng, 0.01) if seed else Space(0.5, 3, -128, 127)
    x = (rng.integers(-600, 600, (1, COUNT)) * f32(0.25) * f32(c.scale)).astype(f32)
    want = run(one_op("QUANTIZE", [(x.shape, np.float32, None, None, 0, None), tensor(x.shape, c)], [0], [1]), x)
    assert_same(layers.quantize(x, c), want, f"{c.scale}")


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kind", ["LEAKY_RELU", "RELU", "HARD_SWISH", "LOGISTIC", "TANH"])
def test_unary(kind, seed, layers):
    rng = np.random.default_rng(seed)
    a, c, alpha = random_space(rng, 0.01, 0.2), random_space(rng, 0.01, 0.2), f32(rng.uniform(0.005, 0.5))
    options = {"LEAKY_RELU": ("LeakyReluOptions", {"Alpha": float(alpha)}), "HARD_SWISH": ("HardSwishOptions", {})}.get(
        kind
    )
    if kind == "LOGISTIC":
        c = Space(1 / 256, -128, -128, 127)
    if kind == "TANH":
        c = Space(1 / 128, 0, -128, 127)
    if kind == "RELU":
        c.lo = max(c.lo, c.zero_point)
    if kind == "HARD_SWISH":
        c.scale = f32(a.scale * rng.uniform(0.4, 2))
    x = np.arange(-128, 128).astype(np.int8).reshape(1, -1)
    want = run(
        one_op(kind, [tensor(x.shape, a), tensor(x.shape, c)], [0], [1], options, 1 if kind == "HARD_SWISH" else 2), x
    )
    assert_same(layers.unary(kind, x, a, c, alpha), want, f"{a.scale} {c.scale}")


@pytest.mark.parametrize("seed", range(8))
def test_hard_swish_where_it_rounds(seed, layers):
    """Its products of 16 bits end in ties where the ratio of the scales is 129/256, and are cut or rounded where it is anything."""
    rng = np.random.default_rng(seed)
    x = np.arange(-128, 128).astype(np.int8).reshape(1, -1)
    for _ in range(80):
        a = random_space(rng, 0.01, 0.2)
        c = Space(
            f32(a.scale * 256 / 129 if seed % 2 else a.scale * rng.uniform(0.2, 2)),
            int(rng.integers(-128, 128)),
            -128,
            127,
        )
        want = run(
            one_op("HARD_SWISH", [tensor(x.shape, a), tensor(x.shape, c)], [0], [1], ("HardSwishOptions", {}), 1), x
        )
        assert_same(layers.unary("HARD_SWISH", x, a, c, f32(0)), want, f"{a.scale} {c.scale}")


@pytest.mark.parametrize("seed", range(8))
def test_softmax_of_few(seed, layers):
    """Every difference of two and three levels: large results, where the last term of the exponential counts."""
    rng = np.random.default_rng(seed)
    for _ in range(10):
        a = random_space(rng, 0.005, 0.05)
        x = random_levels(rng, COUNT // 4, 2 + seed % 2)
        tensors = [tensor(x.shape, a), tensor(x.shape, Space(1 / 256, -128, -128, 127))]
        want = run(one_op("SOFTMAX", tensors, [0], [1], ("SoftmaxOptions", {"Beta": 1.0}), 2), x)
        assert_same(layers.softmax(x, a.scale, f32(1), -128), want, f"{a.scale}")


@pytest.mark.parametrize("seed", range(20))
def test_softmax(seed, layers):
    rng = np.random.default_rng(seed)
    a, beta, n = random_space(rng, 0.001, 1.0), f32([1, 1, 0.5, 2][seed % 4]), int([2, 3, 10, 12, 100, 250][seed % 6])
    x = random_levels(rng, 50, n)
    x[0] = 17
    tensors = [tensor(x.shape, a), tensor(x.shape, Space(1 / 256, -128, -128, 127))]
    want = run(one_op("SOFTMAX", tensors, [0], [1], ("SoftmaxOptions", {"Beta": float(beta)}), 2), x)
    assert_same(layers.softmax(x, a.scale, beta, -128), want, f"{a.scale} beta {beta} n {n}")


@pytest.mark.parametrize("seed", range(12))
def test_mean(seed, layers):
    rng = np.random.default_rng(seed)
    a, (h, w) = random_space(rng, 0.01), rng.integers(1, 9, 2)
    c = Space(f32(a.scale * rng.uniform(0.2, 1.5)), int(rng.integers(-128, 128)), -128, 127) if seed else a
    x = random_levels(rng, 1, h, w, 500)
    x[:, :, :, 0], x[:, :, :, 1] = 127, -128
    axes = ((2,), np.int32, None, None, 0, np.array([1, 2]))
    want = run(
        one_op(
            "MEAN",
            [tensor(x.shape, a), axes, tensor((1, 500), c)],
            [0, 1],
            [2],
            ("ReducerOptions", {"KeepDims": False}),
            2,
        ),
        x,
    )
    assert_same(layers.mean(x.reshape(h * w, 500).T, a, c), want, f"{a.scale} {c.scale} {h}x{w}")


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("channels", ["one scale", "a scale per channel"])
@pytest.mark.parametrize("kind", ["CONV_2D", "FULLY_CONNECTED"])
def test_products(kind, channels, seed, layers, dense):
    rng = np.random.default_rng(seed)
    each, depth = channels != "one scale", 8
    a, c = random_space(rng, 0.2), random_space(rng, 0.4)
    scale = rng.uniform(0.01, 0.02, COUNT if each else 1).astype(f32)
    if seed == 0:  # ties
        a.scale, c.scale, scale = 0.5, 1, np.full_like(scale, 1 / 32)
    x, w = random_levels(rng, 1, depth), rng.integers(-127, 128, (COUNT, depth)).astype(np.int8)
    bias = rng.integers(-3000, 3000, COUNT).astype(np.int32)
    zeros, ends = [0] * len(scale), (1,) * (2 if kind == "CONV_2D" else 0)
    tensors = [
        tensor((1, *ends, depth), a),
        ((COUNT, *ends, depth), np.int8, scale, zeros, 0, w),
        ((COUNT,), np.int32, f32(a.scale) * scale, zeros, 0, bias),
        tensor((1, *ends, COUNT), c),
    ]
    options = ("Conv2DOptions", {"StrideH": 1, "StrideW": 1}) if ends else ("FullyConnectedOptions", {})
    want = run(one_op(kind, tensors, [0, 1, 2], [3], options, 5), x.reshape(tensors[0][0]))
    window = Window(1, 1, depth, 1, 1, COUNT, 1, 1, 1, 1, 1, 1, 0, 0)
    assert_same((layers if ends else dense).conv(x, w, bias, window, kind, a, c, scale), want, f"{a.scale} {c.scale}")
