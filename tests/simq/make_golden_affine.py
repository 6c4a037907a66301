#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes golden_affine.txt: results of ONNX Runtime's integer kernels, including ties.

    make_golden_affine.py > golden_affine.txt

Needs numpy, onnx and onnxruntime on x86-64. One case is
    case OP NAME [ATTRIBUTE=INTS ...]
    in|weight|bias|out AXIS SCALES ZEROPOINT DIMS VALUES       lists with commas; SCALES as hexadecimal floats"""

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

RNG = np.random.default_rng(20)
MS = "com.microsoft"


def run(op, domain, arrays, order, attrs, out_type):
    """order: names of node inputs; '' for one left out."""
    nodes = [helper.make_node(op, order, ["y"], domain=domain, **attrs)]
    inits = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in arrays.items()]
    graph = helper.make_graph(nodes, "g", [], [helper.make_tensor_value_info("y", out_type, None)], inits)
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid(MS, 1)], ir_version=8
    )
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.log_severity_level = 3
    return ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"]).run(None, {})[0]


def numbers(a):
    return ",".join(str(int(v)) for v in np.asarray(a).reshape(-1)) or "-"


def line(kind, a, scale, zero, axis=0):
    scales = ",".join(float(np.float32(s)).hex() for s in np.atleast_1d(scale))
    print(kind, axis, scales, int(zero), numbers(a.shape), numbers(a))


def case(op, name, **attrs):
    print("case", op, name, *(f"{k}={numbers(v)}" for k, v in attrs.items()))


def u8(*shape):
    return RNG.integers(0, 256, shape, dtype=np.uint8)


def f32(x):
    return np.float32(x)


# Scales that are powers of two make ties; others make none.
BINARY = [
    (0.5, 3, 0.25, 7, 1.0, 100),
    (0.5, 0, 0.5, 128, 1.0, 0),
    (0.0371, 12, 0.0213, 200, 0.05, 31),
    (0.125, 255, 2.0, 1, 4.0, 128),
    (1e-3, 128, 3.0, 5, 0.7, 77),
    (0.0078125, 128, 0.0078125, 128, 0.015625, 128),
]


def binary():
    for op in ("Add", "Mul"):
        for k, (sa, za, sb, zb, sc, zc) in enumerate(BINARY):
            a, b = u8(2, 6, 5, 5), u8(2, 6, 5, 5) if k % 2 else u8(1, 6, 1, 1)
            if op == "Mul":
                sc = sa * sb * 64
            y = run(
                "QLinear" + op,
                MS,
                dict(a=a, sa=f32(sa), za=np.uint8(za), b=b, sb=f32(sb), zb=np.uint8(zb), sc=f32(sc), zc=np.uint8(zc)),
                ["a", "sa", "za", "b", "sb", "zb", "sc", "zc"],
                {},
                TensorProto.UINT8,
            )
            case(op, f"{op.lower()}{k}")
            line("in", a, f32(sa), za)
            line("in", b, f32(sb), zb)
            line("out", y, f32(sc), zc)


def unary():
    x = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
    one = dict(x=x)
    for op, attrs in (("LeakyRelu", {"alpha": 0.01}), ("Sigmoid", {})):
        for k, (sx, zx, sy, zy) in enumerate([(0.05, 128, 1 / 256, 0), (0.25, 100, 0.125, 64), (0.013, 3, 0.02, 200)]):
            y = run(
                "QLinear" + op,
                MS,
                dict(one, sx=f32(sx), zx=np.uint8(zx), sy=f32(sy), zy=np.uint8(zy)),
                ["x", "sx", "zx", "sy", "zy"],
                attrs,
                TensorProto.UINT8,
            )
            case(op, f"{op.lower()}{k}")
            line("in", x, f32(sx), zx)
            line("out", y, f32(sy), zy)
    for k, (sx, zx, sy, zy) in enumerate([(0.5, 10, 1.0, 20), (0.05, 128, 0.031, 0), (0.25, 0, 2.0, 255)]):
        y = run(
            "QLinearConcat",
            MS,
            dict(sy=f32(sy), zy=np.uint8(zy), x=x, sx=f32(sx), zx=np.uint8(zx)),
            ["sy", "zy", "x", "sx", "zx"],
            {"axis": 0},
            TensorProto.UINT8,
        )
        case("Requantize", f"concat{k}")
        line("in", x, f32(sx), zx)
        line("out", y, f32(sy), zy)


def pools():
    for k, (sx, zx, sy, zy, attrs) in enumerate(
        [
            (0.5, 10, 0.5, 10, dict(kernel_shape=[2, 2], strides=[2, 2])),
            (0.25, 128, 0.5, 3, dict(kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1])),
            (0.0391, 7, 0.0277, 90, dict(kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1], count_include_pad=1)),
            (0.25, 128, 0.5, 3, dict(kernel_shape=[5, 1], strides=[1, 3])),
        ]
    ):
        x = u8(1, 5, 9, 9)
        y = run(
            "QLinearAveragePool",
            MS,
            dict(x=x, sx=f32(sx), zx=np.uint8(zx), sy=f32(sy), zy=np.uint8(zy)),
            ["x", "sx", "zx", "sy", "zy"],
            attrs,
            TensorProto.UINT8,
        )
        case("AveragePool", f"average{k}", **attrs)
        line("in", x, f32(sx), zx)
        line("out", y, f32(sy), zy)
    for k, (sx, zx, sy, zy, hw) in enumerate(
        [(0.5, 10, 0.5, 10, 8), (0.25, 128, 0.03125, 200, 4), (0.0391, 7, 0.0277, 90, 7), (1.0, 0, 0.5, 0, 2)]
    ):
        x = u8(2, 12, hw, hw)
        y = run(
            "QLinearGlobalAveragePool",
            MS,
            dict(x=x, sx=f32(sx), zx=np.uint8(zx), sy=f32(sy), zy=np.uint8(zy)),
            ["x", "sx", "zx", "sy", "zy"],
            {},
            TensorProto.UINT8,
        )
        for op, attrs in (("GlobalAveragePool", {}), ("ReduceMean", dict(axes=[2, 3]))):
            case(op, f"{op.lower()}{k}", **attrs)
            line("in", x, f32(sx), zx)
            line("out", y, f32(sy), zy)


def macs():
    for k, (shape, m, ker, attrs, sx, zx, sy, zy) in enumerate(
        [
            ((1, 3, 8, 8), 8, (3, 3), dict(pads=[1, 1, 1, 1]), 0.0312, 114, 0.11, 128),
            ((2, 8, 7, 7), 8, (3, 3), dict(pads=[0, 0, 1, 1], strides=[2, 2], group=8), 0.5, 10, 1.0, 3),
            ((1, 16, 5, 5), 24, (1, 1), {}, 0.25, 0, 0.5, 0),
            ((1, 4, 10, 6), 6, (3, 2), dict(dilations=[2, 1], group=2), 0.0123, 128, 0.02, 100),
        ]
    ):
        c = shape[1] // attrs.get("group", 1)
        x, w = u8(*shape), RNG.integers(-127, 128, (m, c, *ker), dtype=np.int8)
        sw = (
            np.exp2(RNG.integers(-6, -3, m)).astype(np.float32)
            if k % 2
            else RNG.uniform(0.002, 0.02, m).astype(np.float32)
        )
        b = RNG.integers(-3000, 3000, m, dtype=np.int32)
        y = run(
            "QLinearConv",
            "",
            dict(
                x=x, sx=f32(sx), zx=np.uint8(zx), w=w, sw=sw, zw=np.zeros(m, np.int8), sy=f32(sy), zy=np.uint8(zy), b=b
            ),
            ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"],
            attrs,
            TensorProto.UINT8,
        )
        case("Conv", f"conv{k}", **{n: np.atleast_1d(v) for n, v in attrs.items()})
        line("in", x, f32(sx), zx)
        line("weight", w, sw, 0, 0)
        line("bias", b, 1, 0)
        line("out", y, f32(sy), zy)
    for k, (m, n, kk, sx, zx, sy, zy) in enumerate([(5, 10, 64, 0.02, 30, 0.05, 128), (1, 16, 40, 0.5, 128, 1.0, 9)]):
        x, w = u8(m, kk), RNG.integers(-127, 128, (kk, n), dtype=np.int8)
        sw, b = np.exp2(RNG.integers(-6, -3, n)).astype(np.float32), RNG.integers(-3000, 3000, n, dtype=np.int32)
        y = run(
            "QGemm",
            MS,
            dict(
                x=x, sx=f32(sx), zx=np.uint8(zx), w=w, sw=sw, zw=np.zeros(n, np.int8), b=b, sy=f32(sy), zy=np.uint8(zy)
            ),
            ["x", "sx", "zx", "w", "sw", "zw", "b", "sy", "zy"],
            {},
            TensorProto.UINT8,
        )
        case("Gemm", f"gemm{k}")
        line("in", x, f32(sx), zx)
        line("weight", w, sw, 0, 1)
        line("bias", b, 1, 0)
        line("out", y, f32(sy), zy)
        y = run(
            "QLinearMatMul",
            "",
            dict(x=x, sx=f32(sx), zx=np.uint8(zx), w=w, sw=sw, zw=np.zeros(n, np.int8), sy=f32(sy), zy=np.uint8(zy)),
            ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"],
            {},
            TensorProto.UINT8,
        )
        case("MatMul", f"matmul{k}")
        line("in", x, f32(sx), zx)
        line("weight", w, sw, 0, 1)
        line("out", y, f32(sy), zy)


binary()
unary()
pools()
macs()
