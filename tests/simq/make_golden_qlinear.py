#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden_qlinear.txt: quantized operators on random numbers, with the results of ONNX Runtime.

    make_golden_qlinear.py > golden_qlinear.txt

Needs numpy, onnx and onnxruntime on x86-64. One case is a graph in text form whose inputs are constants; the constant "want" is the expected
result; cases end with a line ---"""

import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

RNG = np.random.default_rng(int(sys.argv[1]) if len(sys.argv) > 1 else 4)
MS = "com.microsoft"
NAMES = {"float32": "f32", "uint8": "u8", "int8": "i8", "int32": "i32", "bool": "bool"}


def number(v):
    if isinstance(v, np.bool_):
        return "1" if v else "0"
    return "%.9g" % v if isinstance(v, np.floating) else str(int(v))


def constant(label, name, a):
    a = np.asarray(a)
    dims = ",".join(map(str, a.shape))
    print(
        'const %%%d "%s" %s[%s] = {%s}'
        % (label, name, NAMES[a.dtype.name], dims, ", ".join(number(v) for v in a.reshape(-1)))
    )


def attribute(v):
    if isinstance(v, float):
        return "%.9gf" % np.float32(v)
    return "[%s]" % ",".join(map(str, v)) if isinstance(v, list) else '"%s"' % v if isinstance(v, str) else str(v)


def case(op, inputs, attrs=None, domain=MS):
    attrs = attrs or {}
    names = ["" if v is None else "i%d" % k for k, v in enumerate(inputs)]
    inits = [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in zip(names, inputs) if v is not None]
    graph = helper.make_graph(
        [helper.make_node(op, names, ["y"], domain=domain, **attrs)], "g", [], [onnx.ValueInfoProto(name="y")], inits
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid(MS, 1)], ir_version=8
    )
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.log_severity_level = 3
    want = ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"]).run(None, {})[0]
    print('graph "%s" opset 13' % op)
    ids, known = [], {}

    def label_of(name, v):
        """Equal constants are one value of a graph."""
        v = np.asarray(v)
        key = (v.dtype.name, v.shape, v.tobytes())
        if key not in known:
            known[key] = len(known) + 1
            constant(known[key], name, v)
        return known[key]

    for n, v in zip(names, inputs):
        ids.append("-" if v is None else "%%%d" % label_of(n, v))
    expected = label_of("want", want)
    label = len(known) + 1
    text = ", ".join("%s=%s" % (k, attribute(attrs[k])) for k in sorted(attrs))
    print(
        '%%%d "y" : %s[%s] = %s(%s)%s'
        % (
            label,
            NAMES[want.dtype.name],
            ",".join(map(str, want.shape)),
            op,
            ", ".join(ids),
            " {%s}" % text if text else "",
        )
    )
    print('output "y" %%%d\noutput "want" %%%d\n---' % (label, expected))


def q(t, *shape):
    return RNG.integers(0, 256, shape or (1,)).astype(np.uint8).view(t).reshape(shape)


def scale(low=1e-3, high=0.3, count=None):
    """Powers of two now and then: ties."""
    one = lambda: 2.0 ** RNG.integers(-8, 0) if RNG.random() < 0.4 else np.exp(RNG.uniform(np.log(low), np.log(high)))
    return np.float32(one()) if count is None else np.array([one() for _ in range(count)], np.float32)


def p(t):
    return [scale(), q(t)]


def elementwise(t):
    for op in ("QLinearAdd", "QLinearMul"):
        for a, b in (((2, 3, 11), (2, 3, 11)), ((2, 3, 5), (3, 1)), ((7,), (1,)), ((), (5,)), ((1, 4), (3, 1))):
            case(op, [q(t, *a), *p(t), q(t, *b), *p(t), scale(0.01, 2), q(t)])
    for alpha in (0.01, 0.3):
        case("QLinearLeakyRelu", [q(t, 2, 64), *p(t), *p(t)], {"alpha": alpha})
    for _ in range(2):
        case(
            "QLinearSigmoid",
            [np.arange(256).astype(np.uint8).view(t), *p(t), np.float32(1 / 256), t(0 if t is np.uint8 else -128)],
        )
    case("QLinearSigmoid", [q(t, 3, 5), *p(t), *p(t)])
    for axis, shape, opset in ((-1, (3, 10), 13), (1, (2, 5, 3), 13), (1, (2, 5, 3), 12), (0, (6,), 13)):
        case(
            "QLinearSoftmax",
            [q(t, *shape), scale(0.01, 0.2), q(t), np.float32(1 / 256), t(0 if t is np.uint8 else -128)],
            {"axis": axis, "opset": opset},
        )
    case("QLinearConcat", [*p(t), q(t, 2, 3), *p(t), q(t, 2, 1), *p(t), q(t, 2, 4), *p(t)], {"axis": 1})
    case("QLinearConcat", [*p(t), q(t, 2, 3), *p(t), q(t, 1, 3), *p(t)], {"axis": 0})
    case("QLinearWhere", [RNG.random((2, 1, 4)) < 0.5, q(t, 3, 4), *p(t), q(t, 2, 3, 1), *p(t), *p(t)])


def pools(t):
    case("QLinearGlobalAveragePool", [q(t, 2, 3, 5, 4), *p(t), *p(t)])
    case("QLinearGlobalAveragePool", [q(t, 1, 5, 1, 2), scale(), q(t), scale(), q(t)])
    for attrs in (
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "count_include_pad": 1},
        {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
        {"kernel_shape": [2, 3], "auto_pad": "SAME_UPPER", "strides": [2, 1]},
    ):
        case("QLinearAveragePool", [q(t, 1, 2, 7, 6), *p(t), *p(t)], attrs)


def products(t, w):
    m = 4
    for channels in (None, m):
        zero = w(0) if channels is None else np.zeros(m, w)
        case(
            "QLinearConv",
            [
                q(t, 2, 3, 6, 5),
                *p(t),
                q(w, m, 3, 3, 2),
                scale(1e-3, 0.02, channels),
                zero,
                scale(0.05, 3),
                q(t),
                RNG.integers(-4000, 4000, m).astype(np.int32),
            ],
            {"pads": [1, 0, 1, 1], "strides": [2, 1]},
            "",
        )
        case(
            "QLinearMatMul",
            [q(t, 2, 3, 9), *p(t), q(w, 9, m), scale(1e-3, 0.02, channels), zero, scale(0.05, 3), q(t)],
            None,
            "",
        )
        case(
            "QGemm",
            [
                q(t, 3, 9),
                *p(t),
                q(w, m, 9),
                scale(1e-3, 0.02, channels),
                zero,
                RNG.integers(-4000, 4000, m).astype(np.int32),
                scale(0.05, 3),
                q(t),
            ],
            {"transB": 1},
        )
        case("QGemm", [q(t, 3, 9), *p(t), q(w, 9, m), scale(1e-3, 0.02, channels), zero], {"alpha": 0.5})
    case(
        "QLinearConv",
        [q(t, 1, 4, 9), *p(t), q(w, 4, 1, 3), scale(1e-3, 0.02, 4), np.zeros(4, w), scale(0.05, 3), q(t)],
        {"group": 4, "dilations": [2]},
        "",
    )
    case(
        "QLinearConv",
        [q(t, 1, 2, 3, 4, 3), *p(t), q(w, 2, 2, 2, 2, 2), scale(1e-3, 0.02), w(0), scale(0.05, 3), q(t)],
        {"auto_pad": "SAME_LOWER"},
        "",
    )
    case(
        "QLinearMatMul",
        [q(t, 2, 1, 3, 5), *p(t), q(w, 4, 5, 2), scale(1e-3, 0.02), q(w), scale(0.05, 3), q(t)],
        None,
        "",
    )
    case(
        "QGemm",
        [q(t, 9, 3), *p(t), q(w, 9, m), scale(1e-3, 0.02), q(w), RNG.integers(-4000, 4000, (1, m)).astype(np.int32)],
        {"transA": 1},
    )


def integers():
    case(
        "ConvInteger",
        [q(np.uint8, 1, 2, 5, 5), q(np.uint8, 3, 2, 2, 2), np.uint8(7), np.uint8(100)],
        {"pads": [1, 1, 0, 0]},
        "",
    )
    case("MatMulInteger", [q(np.uint8, 3, 6), q(np.int8, 6, 2), np.uint8(9), np.array([3, -4], np.int8)], None, "")
    case("MatMulInteger", [q(np.int8, 2, 3, 6), q(np.int8, 2, 6, 2)], None, "")


for kind in (np.uint8, np.int8):
    elementwise(kind)
    pools(kind)
products(np.uint8, np.int8)
products(np.uint8, np.uint8)
products(np.int8, np.int8)
integers()
