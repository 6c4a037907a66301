#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes infer_reference.txt: nodes with random attributes, and the shapes of their results in ONNX Runtime.

Needs numpy, onnx and onnxruntime: make_infer_reference.py [COUNT [SEED]] > infer_reference.txt
One case a line, tabs between: inputs, node, types of the results (the format of graph_cases.h)."""

import random
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

TYPES = {
    "f32": (TensorProto.FLOAT, np.float32),
    "i64": (TensorProto.INT64, np.int64),
    "u8": (TensorProto.UINT8, np.uint8),
    "i8": (TensorProto.INT8, np.int8),
    "bool": (TensorProto.BOOL, np.bool_),
}
NAMES = {np.dtype(v[1]): k for k, v in TYPES.items()}


def shape_text(shape):
    return "[" + ",".join(str(d) for d in shape) + "]"


class Input:
    """A graph input of a type and shape, or a constant with a value."""

    def __init__(self, kind, shape=None, value=None):
        self.kind = kind
        self.value = None if value is None else np.asarray(value, TYPES[kind][1])
        self.shape = self.value.shape if shape is None else tuple(shape)

    def text(self):
        head = self.kind + shape_text(self.shape)
        return (
            head
            if self.value is None
            else head + "={" + ",".join("%g" % v if self.kind == "f32" else str(v) for v in self.value.flat) + "}"
        )


def attr_text(value):
    if isinstance(value, str):
        return '"%s"' % value
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(str, value)) + "]"
    return str(value)


def run(op, inputs, attrs, outputs):
    names = ["" if i is None else "i%d" % k for k, i in enumerate(inputs)]
    onnx_inputs, initializers, onnx_attrs = list(names), [], dict(attrs)
    values, feed = [], {}
    for name, i in zip(names, inputs):
        if i is None:
            continue
        if i.value is not None:
            initializers.append(onnx.numpy_helper.from_array(i.value, name))
        else:
            values.append(helper.make_tensor_value_info(name, TYPES[i.kind][0], i.shape))
            feed[name] = np.ones(i.shape, TYPES[i.kind][1])
    results = ["o%d" % k for k in range(outputs)]
    node = helper.make_node(op, onnx_inputs, results, **onnx_attrs)
    infos = [onnx.ValueInfoProto(name=r) for r in results]
    graph = helper.make_graph([node], "g", values, infos, initializers)
    opset = 18 if "num_outputs" in attrs else 20 if op == "Gelu" else 13
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feed)


def dims(r, rank, high=6):
    return [r.randint(1, high) for _ in range(rank)]


def maybe(r, attrs, name, value, chance=0.6):
    if r.random() < chance:
        attrs[name] = value


def window(r, spatial, pool, transpose=False):
    kernel = dims(r, spatial, 4)
    attrs = {"kernel_shape": kernel} if pool or r.random() < 0.3 else {}
    maybe(r, attrs, "strides", dims(r, spatial, 3))
    if not pool or r.random() < 0.2:
        maybe(r, attrs, "dilations", dims(r, spatial, 2))
    pad = r.randint(0, 4)
    if pad == 0:
        attrs["auto_pad"] = r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        if transpose or (pool and "dilations" in attrs):
            attrs.pop("dilations", None)
    elif pad < 3:
        attrs["pads"] = [r.randint(0, 2) for _ in range(2 * spatial)]
    return kernel, attrs


def conv(r):
    spatial, group = r.randint(1, 3), r.randint(1, 3)
    kernel, attrs = window(r, spatial, False)
    c = group * r.randint(1, 2)
    if group > 1:
        attrs["group"] = group
    m = group * r.randint(1, 3)
    inputs = [Input("f32", [r.randint(1, 2), c] + dims(r, spatial, 12)), Input("f32", [m, c // group] + kernel)]
    if r.random() < 0.5:
        inputs.append(Input("f32", [m]))
    return "Conv", inputs, attrs


def conv_transpose(r):
    spatial, group = r.randint(1, 2), r.randint(1, 2)
    kernel, attrs = window(r, spatial, False, True)
    c, m = group * r.randint(1, 2), r.randint(1, 3)
    attrs["group"] = group
    if "strides" in attrs and r.random() < 0.4:
        attrs["output_padding"] = [r.randint(0, s - 1) for s in attrs["strides"]]
    if "pads" not in attrs and "auto_pad" not in attrs and r.random() < 0.3:
        attrs["output_shape"] = dims(r, spatial, 12)
    return "ConvTranspose", [Input("f32", [1, c] + dims(r, spatial, 6)), Input("f32", [c, m] + kernel)], attrs


def pool(r):
    spatial = r.randint(1, 3)
    kernel, attrs = window(r, spatial, True)
    op = r.choice(["MaxPool", "AveragePool"])
    if op == "AveragePool":
        attrs.pop("dilations", None)
        maybe(r, attrs, "count_include_pad", r.randint(0, 1))
    maybe(r, attrs, "ceil_mode", r.randint(0, 1))
    # A kernel that does not fit: the text of the operator gives no size, the runtime rounds toward zero. ceil_mode lets it stick out.
    slack = attrs.get("strides", [1] * spatial) if attrs.get("ceil_mode") else [1] * spatial
    dilations = attrs.get("dilations", [1] * spatial)
    lowest = [max(1, (k - 1) * d + 2 - s) for k, d, s in zip(kernel, dilations, slack)]
    return op, [Input("f32", [1, r.randint(1, 3)] + [r.randint(n, n + 9) for n in lowest])], attrs


def gemm(r):
    m, k, n, ta, tb = r.randint(1, 5), r.randint(1, 5), r.randint(1, 5), r.randint(0, 1), r.randint(0, 1)
    inputs = [Input("f32", [k, m] if ta else [m, k]), Input("f32", [n, k] if tb else [k, n])]
    if r.random() < 0.7:
        inputs.append(Input("f32", r.choice([[n], [1, n], [m, 1], [m, n], [1], []])))
    return "Gemm", inputs, {"transA": ta, "transB": tb}


def matmul(r):
    k, batch = r.randint(1, 4), dims(r, r.randint(0, 2), 3)
    other = [r.choice([1, d]) for d in batch][r.randint(0, len(batch)) :]
    a = r.choice([[k], batch + [r.randint(1, 4), k]])
    b = r.choice([[k], other + [k, r.randint(1, 4)]])
    return "MatMul", [Input("f32", a), Input("f32", b)], {}


def broadcast(r):
    shape = dims(r, r.randint(0, 4), 4)
    other = [r.choice([1, d]) for d in shape][r.randint(0, len(shape)) :]
    pair = [Input("f32", shape), Input("f32", other)]
    if r.random() < 0.5:
        pair.reverse()
    return r.choice(["Add", "Sub", "Mul", "Div", "Pow", "Equal", "Less", "Max", "Sum", "Mean"]), pair, {}


def reduce_op(r):
    rank = r.randint(1, 5)
    attrs = {"keepdims": r.randint(0, 1)}
    op = r.choice(["ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceProd", "ArgMax", "ArgMin"])
    if op.startswith("Arg"):
        maybe(r, attrs, "axis", r.randint(-rank, rank - 1))
    else:
        maybe(r, attrs, "axes", [a - r.choice([0, rank]) for a in r.sample(range(rank), r.randint(1, rank))])
    return op, [Input("f32", dims(r, rank, 4))], attrs


def reshape(r):
    shape = dims(r, r.randint(1, 4), 6)
    target, left = [], list(shape)
    while left:
        take = r.randint(1, min(2, len(left)))
        target.append(int(np.prod(left[:take])))
        left = left[take:]
    if r.random() < 0.5:
        target[r.randint(0, len(target) - 1)] = -1
    if target[0] == shape[0] and r.random() < 0.5:
        target[0] = 0
    return "Reshape", [Input("f32", shape), Input("i64", value=np.array(target))], {}


def flatten(r):
    rank = r.randint(1, 4)
    return "Flatten", [Input("f32", dims(r, rank))], {"axis": r.randint(-rank, rank)}


def squeeze(r):
    shape = [r.choice([1, 1, 3]) for _ in range(r.randint(1, 5))]
    ones = [i for i, d in enumerate(shape) if d == 1]
    inputs = [Input("f32", shape)]
    if ones and r.random() < 0.7:
        axes = [a - r.choice([0, len(shape)]) for a in r.sample(ones, r.randint(1, len(ones)))]
        inputs.append(Input("i64", value=axes))
    return "Squeeze", inputs, {}


def unsqueeze(r):
    shape = dims(r, r.randint(0, 4))
    count = r.randint(1, 3)
    rank = len(shape) + count
    axes = [a - r.choice([0, rank]) for a in r.sample(range(rank), count)]
    return "Unsqueeze", [Input("f32", shape), Input("i64", value=axes)], {}


def transpose(r):
    rank = r.randint(1, 5)
    attrs = {}
    maybe(r, attrs, "perm", r.sample(range(rank), rank), 0.8)
    return "Transpose", [Input("f32", dims(r, rank))], attrs


def slice_op(r):
    rank = r.randint(1, 4)
    shape = dims(r, rank, 9)
    count = r.randint(1, rank)
    axes = r.sample(range(rank), count)
    bound = lambda: r.choice([r.randint(-12, 12), r.randint(-3, 3), -(2**63)])
    steps = [r.choice([1, 1, 2, 3, -1, -2, 2**40, -(2**40)]) for _ in axes]
    starts = [bound() for _ in axes]
    # 2^63 - 1 as the end of a backward step: the text of the operator and ONNX Runtime disagree
    ends = [2**63 - 1 if s > 0 and r.random() < 0.3 else bound() for s in steps]
    axes = [a - r.choice([0, rank]) for a in axes]
    inputs = [
        Input("f32", shape),
        Input("i64", value=starts),
        Input("i64", value=ends),
        Input("i64", value=axes),
        Input("i64", value=steps),
    ]
    return "Slice", inputs, {}


def split(r):
    rank, parts = r.randint(1, 3), r.randint(1, 4)
    sizes = [r.randint(0 if parts > 1 else 1, 4) for _ in range(parts)]
    shape, axis = dims(r, rank), r.randint(-rank, rank - 1)
    attrs = {"axis": axis}
    kind = r.randint(0, 2)
    if kind == 0:
        shape[axis] = sum(sizes)
        return "Split", [Input("f32", shape), Input("i64", value=sizes)], attrs, parts
    if kind == 1:
        shape[axis] = parts * r.randint(1, 3)
        return "Split", [Input("f32", shape)], attrs, parts
    shape[axis] = r.randint(parts * (parts - 1) + 1, parts * parts + 4)
    attrs["num_outputs"] = parts
    return "Split", [Input("f32", shape)], attrs, parts


def gather(r):
    rank = r.randint(1, 3)
    shape, axis = dims(r, rank), r.randint(-rank, rank - 1)
    index = np.array(r.choices(range(-shape[axis], shape[axis]), k=6)).reshape(r.choice([[6], [2, 3], [1, 6, 1]]))
    if r.random() < 0.2:
        index = np.array(0)
    return "Gather", [Input("f32", shape), Input("i64", value=index)], {"axis": axis}


def expand(r):
    shape = [r.choice([1, 3]) for _ in range(r.randint(0, 4))]
    target = [r.choice([1, 3]) if d == 3 else r.randint(1, 4) for d in shape][r.randint(0, len(shape)) :]
    if len(target) == len(shape):
        target = dims(r, r.randint(0, 2)) + target
    return "Expand", [Input("f32", shape), Input("i64", value=np.array(target, np.int64))], {}


def tile(r):
    rank = r.randint(1, 4)
    return "Tile", [Input("f32", dims(r, rank)), Input("i64", value=[r.randint(0, 3) for _ in range(rank)])], {}


def concat(r):
    rank = r.randint(1, 4)
    shape, axis = dims(r, rank), r.randint(-rank, rank - 1)
    inputs = []
    for _ in range(r.randint(1, 4)):
        one = list(shape)
        one[axis] = r.randint(0, 4)
        inputs.append(Input("f32", one))
    return "Concat", inputs, {"axis": axis}


def pad(r):
    rank = r.randint(1, 4)
    shape = dims(r, rank, 7)
    mode = r.choice(["constant", "constant", "edge", "reflect"])
    low = -1 if mode == "constant" else 0
    pads = [r.randint(low, 3) for _ in range(2 * rank)]
    return "Pad", [Input("f32", shape), Input("i64", value=pads)], {"mode": mode}


def depth(r):
    b = r.randint(1, 3)
    if r.random() < 0.5:
        return (
            "DepthToSpace",
            [Input("f32", [1, b * b * r.randint(1, 3), r.randint(1, 4), r.randint(1, 4)])],
            {"blocksize": b},
        )
    return (
        "SpaceToDepth",
        [Input("f32", [1, r.randint(1, 3), b * r.randint(1, 4), b * r.randint(1, 4)])],
        {"blocksize": b},
    )


def resize(r):
    shape = [1, r.randint(1, 3)] + dims(r, 2, 9)
    attrs = {
        "mode": r.choice(["nearest", "linear"]),
        "coordinate_transformation_mode": r.choice(["half_pixel", "asymmetric", "align_corners"]),
    }
    if r.random() < 0.7:
        scales = [1, 1] + [round(r.uniform(0.3, 3.5), 2) for _ in range(2)]
        return "Resize", [Input("f32", shape), None, Input("f32", value=scales)], attrs
    return "Resize", [Input("f32", shape), None, None, Input("i64", value=shape[:2] + dims(r, 2, 12))], attrs


def shape_op(r):
    return r.choice(["Shape", "Size"]), [Input("f32", dims(r, r.randint(0, 5)))], {}


def make(r):
    if r.random() < 0.3:
        return "ConstantOfShape", [Input("i64", value=np.array(dims(r, r.randint(0, 4)), np.int64))], {}
    delta = r.choice([-3, -2, -1, 1, 2, 5])
    if r.random() < 0.5:
        return "Range", [Input("i64", value=np.array(v)) for v in (r.randint(-9, 9), r.randint(-9, 9), delta)], {}
    return (
        "Range",
        [Input("f32", value=np.array(v)) for v in (r.randint(-9, 9) / 4, r.randint(-9, 9) / 4, delta / 8)],
        {},
    )


def quantize(r):
    shape = dims(r, r.randint(2, 4))
    axis = r.randint(-len(shape), len(shape) - 1)
    count = r.choice([[], [shape[axis]]])
    if r.random() < 0.5:
        return (
            "QuantizeLinear",
            [Input("f32", shape), Input("f32", count), Input(r.choice(["u8", "i8"]), count)],
            {"axis": axis},
        )
    return "DequantizeLinear", [Input("i8", shape), Input("f32", count), Input("i8", count)], {"axis": axis}


MAKERS = [
    conv,
    conv,
    conv_transpose,
    pool,
    pool,
    gemm,
    matmul,
    broadcast,
    reduce_op,
    reshape,
    flatten,
    squeeze,
    unsqueeze,
    transpose,
    slice_op,
    slice_op,
    split,
    gather,
    expand,
    tile,
    concat,
    pad,
    depth,
    resize,
    shape_op,
    make,
    quantize,
]


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 270
    r = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    print("# Made by make_infer_reference.py with ONNX Runtime %s." % onnxruntime.__version__)
    done = 0
    while done < count:
        op, inputs, attrs, *outputs = MAKERS[done % len(MAKERS)](r)
        try:
            results = run(op, inputs, attrs, outputs[0] if outputs else 1)
        except Exception as e:  # noqa: BLE001 - what the runtime refuses is no reference
            if "-v" in sys.argv:
                print(op, [i and i.text() for i in inputs], attrs, str(e)[:200], file=sys.stderr)
            continue
        names, n = [], 0
        for i in inputs:
            n += i is not None
            names.append("-" if i is None else "%%%d" % n)
        node = "%s(%s)" % (op, ", ".join(names))
        if attrs:
            node += " {" + ", ".join("%s=%s" % (k, attr_text(v)) for k, v in attrs.items()) + "}"
        print(
            ";".join(i.text() for i in inputs if i is not None),
            node,
            " ".join(NAMES[np.dtype(v.dtype.str)] + shape_text(v.shape) for v in map(np.asarray, results)),
            sep="\t",
        )
        done += 1


main()
