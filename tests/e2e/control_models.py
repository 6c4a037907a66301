# SPDX-License-Identifier: Apache-2.0
"""Small models with If, Loop and Scan, for test_control_flow.py. Inputs have a batch of one."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def node(op, inputs, outputs, **attributes):
    outputs = [outputs] if isinstance(outputs, str) else outputs
    return helper.make_node(op, list(inputs), outputs, name=f"n_{outputs[0]}", **attributes)


def value(name, shape, dtype=F):
    return helper.make_tensor_value_info(name, dtype, shape)


def normal(*shape, seed=1):
    fan = int(np.prod(shape[1:])) or 1
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(np.float32) / np.float32(np.sqrt(fan))


def weights(**arrays):
    return [numpy_helper.from_array(np.asarray(v), k) for k, v in arrays.items()]


def body(name, nodes, inputs, outputs, initializers=()):
    return helper.make_graph(nodes, name, inputs, outputs, list(initializers))


def model(nodes, inputs, outputs, initializers, opset=16):
    graph = helper.make_graph(nodes, "control", inputs, outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def conv(x, y, w, b):
    return node("Conv", [x, w, b], y, pads=[1, 1, 1, 1])


IMAGE = [1, 4, 8, 8]
FIRST = weights(w0=normal(4, 4, 3, 3), b0=normal(4))
INNER = weights(w1=normal(4, 4, 3, 3, seed=7), b1=normal(4, seed=3))


def conv_in_loop():
    """The body takes its weights from outside, and a value too."""
    inside = body(
        "again",
        [conv("s", "c", "w1", "b1"), node("Relu", ["c"], "r"), node("Add", ["r", "h"], "next")],
        [value("i", [], I), value("go", [], B), value("s", IMAGE)],
        [value("go", [], B), value("next", IMAGE)],
    )
    return model(
        [conv("x", "h", "w0", "b0"), node("Loop", ["trips", "", "h"], "y", body=inside)],
        [value("x", IMAGE)],
        [value("y", IMAGE)],
        FIRST + INNER + weights(trips=np.int64(3)),
    )


def carried_weights():
    """As Paddle's converter writes a loop: it carries its weights unchanged. A state is a scalar in the first iteration."""
    inside = body(
        "again",
        [conv("s", "c", "w", "b"), node("Relu", ["c"], "r"), node("Add", ["r", "h"], "next"), node("Neg", ["r"], "kept")],
        [value("i", [], I), value("go", [], B), value("w", None), value("s", IMAGE), value("b", None), value("k", None)],
        [value("go", [], B), value("w", None), value("next", IMAGE), value("b", None), value("kept", None)],
    )
    return model(
        [
            conv("x", "h", "w0", "b0"),
            node("Loop", ["trips", "", "w1", "h", "b1", "none"], ["w_out", "y", "b_out", "k_out"], body=inside),
            node("Reshape", ["k_out", "image"], "z"),
        ],
        [value("x", IMAGE)],
        [value("y", IMAGE), value("z", IMAGE)],
        FIRST + INNER + weights(trips=np.int64(4), none=np.float32(0), image=np.array(IMAGE, np.int64)),
    )


def conv_in_branches():
    then = body(
        "bright",
        [conv("h", "t", "wt", "bt")],
        [],
        [value("t", IMAGE)],
        weights(wt=normal(4, 4, 3, 3, seed=5), bt=normal(4, seed=6)),
    )
    other = body("dark", [conv("h", "e0", "w1", "b1"), node("Relu", ["e0"], "e")], [], [value("e", IMAGE)])
    return model(
        [
            conv("x", "h", "w0", "b0"),
            node("ReduceMean", ["x"], "mean", keepdims=0),
            node("Greater", ["mean", "zero"], "cond"),
            node("If", ["cond"], "y0", then_branch=then, else_branch=other),
            node("Relu", ["y0"], "y"),
        ],
        [value("x", IMAGE)],
        [value("y", IMAGE)],
        FIRST + INNER + weights(zero=np.float32(0)),
    )


def matmul_in_scan(directions=(0,)):
    inside = body(
        "cell",
        [
            node("MatMul", ["s", "u"], "su"),
            node("MatMul", ["xt", "v"], "xv"),
            node("Add", ["su", "xv"], "a"),
            node("Tanh", ["a"], "next"),
            node("Mul", ["next", "two"], "out"),
        ],
        [value("s", [1, 8]), value("xt", [1, 6])],
        [value("next", [1, 8]), value("out", [1, 8])],
    )
    return model(
        [
            node(
                "Scan",
                ["start", "x"],
                ["last", "y"],
                body=inside,
                num_scan_inputs=1,
                scan_input_axes=[1],
                scan_output_axes=[1],
                scan_input_directions=list(directions),
                scan_output_directions=list(directions),
            )
        ],
        [value("x", [1, 10, 6])],
        [value("y", [1, 10, 8]), value("last", [1, 8])],
        weights(u=normal(8, 8), v=normal(6, 8), two=np.float32(2), start=np.zeros((1, 8), np.float32)),
    )


def loop_in_if():
    inside = body(
        "again",
        [conv("s", "c", "w1", "b1"), node("Relu", ["c"], "next")],
        [value("i", [], I), value("go", [], B), value("s", IMAGE)],
        [value("go", [], B), value("next", IMAGE)],
    )
    then = body("long", [node("Loop", ["trips", "", "h"], "t", body=inside)], [], [value("t", IMAGE)])
    other = body("short", [node("Identity", ["h"], "e")], [], [value("e", IMAGE)])
    return model(
        [
            conv("x", "h", "w0", "b0"),
            node("ReduceMean", ["x"], "mean", keepdims=0),
            node("Greater", ["mean", "zero"], "cond"),
            node("If", ["cond"], "y", then_branch=then, else_branch=other),
        ],
        [value("x", IMAGE)],
        [value("y", IMAGE)],
        FIRST + INNER + weights(zero=np.float32(0), trips=np.int64(2)),
    )


def trips_from_data():
    """The number of iterations, and with it a shape, is known only when the model runs; what follows is a convolution."""
    inside = body(
        "again",
        [
            node("Mul", ["s", "half"], "next"),
            node("Unsqueeze", ["i", "axis0"], "i1"),
            node("Add", ["i1", "axis1"], "i2"),
            node("Slice", ["h", "i1", "i2", "axis1"], "part"),
            node("ReduceMax", ["next"], "most", keepdims=0),
            node("Greater", ["most", "limit"], "go"),
        ],
        [value("i", [], I), value("c", [], B), value("s", IMAGE)],
        [value("go", [], B), value("next", IMAGE), value("part", None)],
    )
    return model(
        [
            conv("x", "h", "w0", "b0"),
            node("Loop", ["four", "", "x"], ["last", "parts"], body=inside),
            node("Shape", ["parts"], "shape"),
            node("ReduceMean", ["parts"], "p", axes=[0], keepdims=0),
            node("Add", ["p", "last"], "sum"),
            conv("sum", "y", "w1", "b1"),
            node("Cast", ["shape"], "count", to=F),
        ],
        [value("x", IMAGE)],
        [value("y", IMAGE), value("count", [5])],
        FIRST
        + INNER
        + weights(
            four=np.int64(4),
            half=np.float32(0.5),
            limit=np.float32(0.4),
            axis0=np.array([0], np.int64),
            axis1=np.array([1], np.int64),
        ),
    )


def condition_of_shape():
    """As exporters write a Squeeze that depends on a size: with the shapes of the data one branch is left."""
    then = body("squeeze", [node("Squeeze", ["h", "axis2"], "t")], [], [value("t", None)])
    other = body("keep", [node("Identity", ["h"], "e")], [], [value("e", None)])
    return model(
        [
            conv("x", "h", "w0", "b0"),
            node("Shape", ["h"], "s"),
            node("Gather", ["s", "two"], "d"),
            node("Equal", ["d", "one"], "cond"),
            node("If", ["cond"], "k", then_branch=then, else_branch=other),
            conv("k", "y", "w1", "b1"),
        ],
        [value("x", [1, 4, "h", 8])],
        [value("y", [1, 4, "h", 8]), value("k", [1, 4, "h", 8])],
        FIRST + INNER + weights(two=np.int64(2), one=np.int64(1), axis2=np.array([2], np.int64)),
    )


MODELS = {
    f.__name__: f
    for f in (
        conv_in_loop,
        carried_weights,
        conv_in_branches,
        matmul_in_scan,
        loop_in_if,
        trips_from_data,
        condition_of_shape,
    )
}
MODELS["matmul_in_scan_backwards"] = lambda: matmul_in_scan((1,))
