# SPDX-License-Identifier: Apache-2.0
"""Conditions, trip counts, limits and pad values of one element and any rank. Reference: ONNX Runtime."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RANKS = [0, 1, 2, 3]
value, node = helper.make_tensor_value_info, helper.make_node


def constants(**arrays):
    return [numpy_helper.from_array(np.asarray(v), k) for k, v in arrays.items()]


WEIGHTS = {
    "w": np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32),
    "b": np.zeros(4, np.float32),
    "two": np.float32(2),
    "three": np.float32(3),
}


def if_of(rank):
    """The condition is what the samples make of it."""
    branch = lambda name, by: helper.make_graph([node("Mul", ["y", by], [name])], name, [], [value(name, F, None)])
    nodes = [
        node("Gemm", ["x", "w", "b"], ["y"], name="gemm"),
        node("ReduceMax", ["y"], ["m"], keepdims=0),
        node("Reshape", ["m", "shape"], ["m1"]),
        node("Greater", ["m1", "limit"], ["c"]),
        node("If", ["c"], ["o"], then_branch=branch("t", "two"), else_branch=branch("e", "three")),
    ]
    return nodes, {"shape": np.ones(rank, np.int64), "limit": np.full([1] * rank, 1.0, np.float32)}


def loop_of(rank):
    """It ends by its condition, which the body makes with the rank that it gets."""
    body = helper.make_graph(
        [
            node("Add", ["s", "s"], ["twice"]),
            node("ReduceMax", ["twice"], ["m"], keepdims=0),
            node("Reshape", ["m", "shape"], ["m1"]),
            node("Less", ["m1", "limit"], ["on"]),
        ],
        "body",
        [value("i", I, []), value("go", B, [1] * rank), value("s", F, [1, 4])],
        [value("on", B, [1] * rank), value("twice", F, [1, 4])],
    )
    nodes = [node("Gemm", ["x", "w", "b"], ["y"], name="gemm"), node("Loop", ["trips", "begin", "y"], ["o"], body=body)]
    one = [1] * rank
    return nodes, {
        "shape": np.ones(rank, np.int64),
        "limit": np.full(one, 8.0, np.float32),
        "trips": np.full(one, 6, np.int64),
        "begin": np.full(one, True),
    }


def pad_of(rank):
    nodes = [node("Gemm", ["x", "w", "b"], ["y"], name="gemm"), node("Pad", ["y", "pads", "fill"], ["o"])]
    return nodes, {"pads": np.int64([0, 1, 0, 2]), "fill": np.full([1] * rank, 0.5, np.float32)}


def boxes_of(rank):
    """As many rows as boxes are left, of numbers that depend on them alone."""
    nodes = [
        node("Gemm", ["x", "w", "b"], ["y"], name="gemm"),
        node("Reshape", ["y", "one_class"], ["scores"]),
        node("NonMaxSuppression", ["boxes", "scores", "most", "overlap"], ["left"]),
        node("Cast", ["left"], ["f"], to=F),
        node("ReduceMax", ["f"], ["max"], axes=[0], keepdims=1),
        node("Add", ["y", "zero"], ["o"]),
        node("Identity", ["max"], ["p"]),
    ]
    boxes = np.float32([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [2, 2, 3, 3], [5, 5, 6, 6]]])
    one = [1] * rank
    return nodes, {
        "one_class": np.int64([1, 1, 4]),
        "zero": np.float32(0),
        "boxes": boxes,
        "most": np.full(one, 3, np.int64),
        "overlap": np.full(one, 0.5, np.float32),
    }


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("make", [if_of, loop_of, pad_of, boxes_of])
def test_is_onnxruntime(make, rank, qcalib, tmp_path):
    nodes, more = make(rank)
    used = {i for n in nodes for i in n.input} | {"two", "three", "shape", "limit"}
    arrays = {k: v for k, v in (WEIGHTS | more).items() if k in used}
    outputs = [value(n, F, None) for n in ("o", "p") if any(n in k.output for k in nodes)]
    graph = helper.make_graph(nodes, "one", [value("x", F, [1, 8])], outputs, constants(**arrays))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    x = np.random.default_rng(1).normal(size=(16, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    expected = [session.run(None, {"x": s[None]}) for s in x]
    qcalib("run", "m.onnx", "--data", "x.npz", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        for k, output in enumerate(outputs):
            want = np.concatenate([e[k] for e in expected])
            np.testing.assert_allclose(f[output.name][()].reshape(want.shape), want, rtol=1e-5, atol=1e-5)
    qcalib("--data", "x.npz", "-o", "q.onnx", "--no-report", "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "q.onnx"))
    got = [session.run(["o"], {"x": s[None]})[0] for s in x]
    signal, noise = (sum(float((a - b).astype(np.float64).ravel() @ (a - b).ravel()) for a, b in pairs) for pairs in
                     (((e[0], np.zeros_like(e[0])) for e in expected), ((e[0], g) for e, g in zip(expected, got))))
    assert signal > 100 * noise
