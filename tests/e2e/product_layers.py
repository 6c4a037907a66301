# SPDX-License-Identifier: Apache-2.0
"""Small models of one integer product each, in every form for which ONNX Runtime has a kernel, with weights and data so
large that pairs of products exceed 16 bits."""

import dataclasses

import numpy as np
from onnx import TensorProto, helper, numpy_helper

TYPE = {"u8": np.uint8, "s8": np.int8}
PROTO = {"u8": TensorProto.UINT8, "s8": TensorProto.INT8, "f": TensorProto.FLOAT, "i32": TensorProto.INT32}


@dataclasses.dataclass
class Layer:
    name: str
    model: object
    feeds: dict
    in_float: bool = False  # ONNX Runtime has no kernel on integers for it, and computes in float32


class Graph:
    """Collects nodes, initializers, inputs and outputs."""

    def __init__(self):
        self.nodes, self.tensors, self.given, self.made = [], [], [], []

    def const(self, name, value):
        self.tensors.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, op, inputs, outputs, domain="", **attributes):
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def input(self, name, kind, shape):
        self.given.append(helper.make_tensor_value_info(name, PROTO[kind], shape))
        return name

    def output(self, name, kind, shape=None):
        self.made.append(helper.make_tensor_value_info(name, PROTO[kind], shape))

    def model(self):
        graph = helper.make_graph(self.nodes, "g", self.given, self.made, self.tensors)
        opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def levels(rng, kind, shape):
    """Levels of which many are near the ends: a pair leaves 16 bits now and then."""
    low, high = (0, 255) if kind == "u8" else (-128, 127)
    middle, span = (low + high + 1) // 2, 128
    values = np.rint(middle + rng.normal(size=shape) * span * 0.6)
    return np.clip(values, low, high).astype(TYPE[kind])


def zero_of(kind, rng):
    return TYPE[kind](int(rng.integers(100, 150)) - (0 if kind == "u8" else 128))


def parameters(rng, g, a, b, weights, inner, count, offset):
    """Scales and zero points as constants of g: sx, zx of the data, sw, zw of `count` channels (0: of all) of the weights,
    sy, zy of the result, whose 256 levels the sums fill."""
    sx, sw = np.float32(0.02), rng.uniform(0.001, 0.004, count or ()).astype(np.float32)
    zw = np.broadcast_to((128 if b == "u8" else 0) + offset, sw.shape).astype(TYPE[b])
    spread = np.sqrt(inner) * 75 * 75 * 3 / 128
    sy = np.float32(sx * np.mean(sw) * spread)
    for name, value in (("sx", sx), ("zx", zero_of(a, rng)), ("sw", sw), ("zw", zw), ("sy", sy), ("zy", zero_of(a, rng))):
        g.const(name, value)
    g.const("w", weights)
    return sx, sw, zw


def bias_of(rng, g, outputs, sx, sw):
    g.const("b", rng.integers(-20000, 20000, outputs).astype(np.int32))
    g.const("sb", (sx * sw).astype(np.float32))
    g.const("zb", np.zeros(sw.shape, np.int32))


def data_of(g, form, a, x, shape):
    """The data as stored integers; with "quantized" in the form as float behind a QuantizeLinear."""
    if "quantized" not in form:
        return {g.input("x", a, shape): x}
    g.input("xr", "f", shape)
    g.add("QuantizeLinear", ["xr", "sx", "zx"], ["x"])
    zero = next(numpy_helper.to_array(t) for t in g.tensors if t.name == "zx")
    return {"xr": (x.astype(np.float32) - np.float32(zero)) * np.float32(0.02)}


def result_of(g, form, a, shape):
    """What becomes of the float result yf of a QDQ form."""
    if "float" in form:
        g.output("yf", "f", shape)
        return
    g.add("QuantizeLinear", ["yf", "sy", "zy"], ["y"])
    if "quantized" not in form:
        g.output("y", a, shape)
        return
    g.add("DequantizeLinear", ["y", "sy", "zy"], ["yr"])
    g.output("yr", "f", shape)


def conv(rng, name, form, a, b, channels, outputs, kernel, size, group=1, per_channel=True, offset=0, **attributes):
    """form: "qlinear", "integer" (ConvInteger), "qdq", "qdq float" (nothing is quantized behind it), "qdq quantized"
    (float in and out of the model). a, b: types of data and weights; offset: the weights' zero point less the usual, or those of the channels."""
    g = Graph()
    x, w = levels(rng, a, (2, channels, *size)), levels(rng, b, (outputs, channels // group, *kernel))
    sx, sw, zw = parameters(rng, g, a, b, w, w[0].size, outputs * per_channel, offset)
    bias_of(rng, g, outputs, sx, sw)
    feeds = data_of(g, form, a, x, ["N", channels, *size])
    shape = ["N", outputs] + [None] * len(size)
    if form == "integer":
        g.const("zw0", zw.reshape(-1)[0])
        g.add("ConvInteger", ["x", "w", "zx", "zw0"], ["y"], group=group, **attributes)
        g.output("y", "i32", shape)
    elif form == "qlinear":
        inputs = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"]
        g.add("QLinearConv", inputs, ["y"], group=group, **attributes)
        g.output("y", a, shape)
    else:
        axis = {"axis": 0} if per_channel else {}
        g.add("DequantizeLinear", ["x", "sx", "zx"], ["xf"])
        g.add("DequantizeLinear", ["w", "sw", "zw"], ["wf"], **axis)
        g.add("DequantizeLinear", ["b", "sb", "zb"], ["bf"], **axis)
        g.add("Conv", ["xf", "wf", "bf"], ["yf"], group=group, **attributes)
        result_of(g, form, a, shape)
    return Layer(name, g.model(), feeds, form == "qdq float" or (form == "qdq" and a == "s8"))


def matmul(rng, name, form, a, b, rows, inner, columns, batch=(), other=False, per_column=False, offset=0):
    """form: "qlinear", "integer" (MatMulInteger), "dynamic" (of a float input), "dynamic op" (DynamicQuantizeMatMul), "to
    float" (MatMulIntegerToFloat), "qdq", "qdq float", "qdq quantized".
    batch: dimensions between samples and rows; other: the second operand is data too."""
    g = Graph()
    x = levels(rng, a, (2, *batch, rows, inner))
    w = levels(rng, b, ((2, *batch) if other else ()) + (inner, columns))
    parameters(rng, g, a, b, w, inner, columns * per_column, offset)
    shape, out = ["N", *x.shape[1:]], ["N", *batch, rows, columns]
    if form.startswith("dynamic"):
        g.input("x", "f", shape)
        feeds = {"x": ((x.astype(np.float32) - 100) * np.float32(0.02))}
    else:
        feeds = data_of(g, form, a, x, shape)
    if other:
        g.tensors = [t for t in g.tensors if t.name != "w"]
        feeds[g.input("w", b, ["N", *w.shape[1:]])] = w
    if form == "dynamic op":
        g.add("DynamicQuantizeMatMul", ["x", "w", "sw", "zw"], ["y"], "com.microsoft")
        g.output("y", "f", out)
    elif form == "to float":
        g.add("MatMulIntegerToFloat", ["x", "w", "sx", "sw", "zx", "zw"], ["y"], "com.microsoft")
        g.output("y", "f", out)
    elif form == "dynamic":
        g.add("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
        g.add("MatMulInteger", ["q", "w", "z", "zw"], ["i"])
        g.add("Cast", ["i"], ["c"], to=TensorProto.FLOAT)
        g.add("Mul", ["s", "sw"], ["m"])
        g.add("Mul", ["c", "m"], ["y"])
        g.output("y", "f", out)
    elif form == "integer":
        g.add("MatMulInteger", ["x", "w", "zx", "zw"], ["y"])
        g.output("y", "i32", out)
    elif form == "qlinear":
        g.add("QLinearMatMul", ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy"], ["y"])
        g.output("y", a, out)
    else:
        g.add("DequantizeLinear", ["x", "sx", "zx"], ["xf"])
        g.add("DequantizeLinear", ["w", "sw", "zw"], ["wf"], **({"axis": w.ndim - 1} if per_column else {}))
        g.add("MatMul", ["xf", "wf"], ["yf"])
        result_of(g, form, a, out)
    return Layer(name, g.model(), feeds, form in ("qdq", "qdq float") and a == "s8")


def gemm(rng, name, form, a, b, rows, inner, columns, per_column=False, offset=0):
    """form: "qgemm", "qgemm float", "qdq", "qdq float", "qdq quantized". The weights are [columns, inner]."""
    g = Graph()
    x, w = levels(rng, a, (rows, inner)), levels(rng, b, (columns, inner))
    sx, sw, _ = parameters(rng, g, a, b, w, inner, columns * per_column, offset)
    bias_of(rng, g, columns, sx, sw)
    feeds = data_of(g, form, a, x, ["N", inner])
    out = ["N", columns]
    if form.startswith("qgemm"):
        result = [] if "float" in form else ["sy", "zy"]
        g.add("QGemm", ["x", "sx", "zx", "w", "sw", "zw", "b", *result], ["y"], "com.microsoft", transB=1)
        g.output("y", a if result else "f", out)
    else:
        axis = {"axis": 0} if per_column else {}
        g.add("DequantizeLinear", ["x", "sx", "zx"], ["xf"])
        g.add("DequantizeLinear", ["w", "sw", "zw"], ["wf"], **axis)
        g.add("DequantizeLinear", ["b", "sb", "zb"], ["bf"], **axis)
        g.add("Gemm", ["xf", "wf", "bf"], ["yf"], transB=1)
        result_of(g, form, a, out)
    return Layer(name, g.model(), feeds, form in ("qdq", "qdq float") and a == "s8")


SHAPES = {  # channels, outputs, kernel, size, attributes
    "pointwise": (8, 24, (1, 1), (5, 6), {}),
    "pointwise odd": (5, 7, (1, 1), (5, 6), {}),
    "direct": (8, 24, (3, 3), (7, 6), {"pads": [1, 1, 1, 1]}),
    "direct strided": (4, 16, (3, 3), (9, 8), {"strides": [2, 2], "dilations": [1, 2], "pads": [0, 1, 1, 0]}),
    "few outputs": (8, 6, (3, 3), (7, 6), {"pads": [1, 1, 1, 1]}),
    "three channels": (3, 16, (3, 3), (8, 8), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "one channel": (1, 8, (5, 3), (12, 9), {"pads": [2, 1, 2, 1]}),
    "groups": (12, 18, (3, 3), (6, 6), {"group": 3, "pads": [1, 1, 1, 1]}),
    "groups of odd channels": (9, 6, (3, 2), (6, 6), {"group": 3, "pads": [1, 1, 1, 1]}),
    "depthwise 16": (16, 16, (3, 3), (7, 7), {"group": 16, "pads": [1, 1, 1, 1]}),
    "depthwise 6": (6, 6, (3, 3), (7, 7), {"group": 6, "pads": [1, 1, 1, 1]}),
    "depthwise twice": (8, 16, (3, 3), (7, 7), {"group": 8, "pads": [1, 1, 1, 1]}),
    "line": (6, 10, (5,), (20,), {"pads": [2, 2]}),
    "line depthwise": (6, 6, (5,), (20,), {"group": 6, "pads": [2, 2]}),
    "volume": (3, 5, (3, 2, 3), (5, 6, 5), {"pads": [1, 0, 1, 1, 1, 1]}),
    "volume depthwise": (4, 4, (3, 3, 3), (5, 5, 5), {"group": 4, "pads": [1] * 6}),
    "whole plane": (16, 32, (4, 4), (4, 4), {}),
    "many": (96, 40, (3, 3), (4, 4), {"pads": [1, 1, 1, 1]}),
}
MATRICES = {  # rows, inner, columns, what else
    "odd": (5, 37, 19, {}),
    "one row": (1, 64, 24, {}),
    "one row and odd": (1, 7, 3, {}),
    "long": (3, 1201, 17, {}),
    "per column": (5, 38, 19, {"per_column": True}),
    "zero point": (5, 38, 19, {"offset": 3}),
}
BATCHES = {
    "batch": (5, 37, 19, {"batch": (3,)}),
    "two of data": (5, 37, 19, {"other": True}),
    "batches of both": (5, 36, 19, {"other": True, "batch": (2,)}),
    "one row of both": (1, 37, 19, {"other": True}),
}


def layers(seed=1):
    """Every form, pair of types and shape that ONNX Runtime 1.32 has a kernel for, or computes in float; 799 of them."""
    rng = np.random.default_rng(seed)
    made = []
    types = [("u8", "s8"), ("u8", "u8"), ("s8", "s8"), ("s8", "u8")]
    for shape, (channels, outputs, kernel, size, attributes) in SHAPES.items():
        for form in ("qlinear", "qdq", "qdq float", "qdq quantized", "integer"):
            for a, b in types:
                if (form, a, b) == ("qlinear", "s8", "u8"):
                    continue
                for offset in (0, 3) if shape in ("direct", "groups") else (0,):
                    name = f"conv {form} {a} {b} {shape}" + " per tensor" * bool(offset)
                    more = {"per_channel": not offset, "offset": offset, **attributes}
                    made.append(conv(rng, name, form, a, b, channels, outputs, kernel, size, **more))
    for form in ("qlinear", "qdq", "qdq quantized"):
        channels, outputs, kernel, size, attributes = SHAPES["depthwise 16"]
        for a, b in types:
            if (form, a, b) != ("qlinear", "s8", "u8"):
                name, more = f"conv {form} {a} {b} depthwise of several zero points", {"offset": np.arange(16) % 5}
                made.append(conv(rng, name, form, a, b, channels, outputs, kernel, size, **more, **attributes))
    for shape, (rows, inner, columns, more) in {**MATRICES, **BATCHES}.items():
        for form in ("qlinear", "integer", "dynamic", "dynamic op", "to float", "qdq", "qdq float", "qdq quantized"):
            for a, b in types:
                if form in ("qlinear", "to float") and (a, b) == ("s8", "u8"):
                    continue
                made.append(matmul(rng, f"matmul {form} {a} {b} {shape}", form, a, b, rows, inner, columns, **more))
        for form in ("qgemm", "qgemm float", "qdq", "qdq float", "qdq quantized") if shape in MATRICES else ():
            for a, b in types:
                if form.startswith("qgemm") and (a, b) == ("s8", "u8"):
                    continue
                made.append(gemm(rng, f"gemm {form} {a} {b} {shape}", form, a, b, rows, inner, columns, **more))
    return made
