# SPDX-License-Identifier: Apache-2.0
"""A network on grey images: if its first convolution stays in float, its pool computes in float, in qcalib and in ONNX
Runtime."""

import h5py
import numpy as np
import pytest
from onnx import helper
from test_runtime_kernels import check, samples, save


def grey(path, size):
    """Conv of one channel, Relu, MaxPool, Conv, MaxPool, Conv."""
    rng = np.random.default_rng(4)
    tensors = {
        "w0": rng.normal(size=(8, 1, 3, 3)).astype(np.float32),
        "w1": (rng.normal(size=(64, 8, 3, 3)) / 8).astype(np.float32),
        "w2": (rng.normal(size=(64, 64, 3, 3)) / 24).astype(np.float32),
    }
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], "first", pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("MaxPool", ["r"], ["p"], "pool", **pool),
        helper.make_node("Conv", ["p", "w1"], ["b"], "second", pads=[1] * 4),
        helper.make_node("MaxPool", ["b"], ["q"], "pool2", **pool),
        helper.make_node("Conv", ["q", "w2"], ["y"], "third", pads=[1] * 4),
    ]
    save(path, nodes, tensors, {"x": ["N", 1, size, size]}, {"y": ["N", 64, size // 4, size // 4]})


@pytest.mark.parametrize("form", ("qdq", "qoperator"))
def test_first_convolution_and_its_pool_are_real(form, qcalib, onnxruntime, tmp_path):
    grey(tmp_path / "float.onnx", 48)
    x = samples(tmp_path / "x.h5", [1, 48, 48])
    job = ("--data", "x.h5", "float.onnx", "-o", "int8.onnx", "--format", form, "--no-report", "--json")
    report = qcalib(*job, "--skip", "first").json
    assert ("Conv", "first") in [(n["op"], n["name"]) for n in report["float_ops"]]
    graph = check(tmp_path / "int8.onnx")
    first = next(n for n in graph.graph.node if n.op_type in ("MaxPool", "NhwcMaxPool"))
    assert graph.readers_of(first.output[0], False) == {"Max"}, "it reads and gives real numbers"
    assert sum(n.op_type == "QLinearConv" for n in graph.graph.node) == 2
    qcalib("run", "int8.onnx", "--data", "x.h5", "-o", "ours.h5")
    theirs, said = onnxruntime.run(tmp_path / "int8.onnx", {"x": x}, tmp_path)
    with h5py.File(tmp_path / "ours.h5") as f:
        assert said == "" and np.abs(f["y"][()] - theirs["y"]).max() <= 0.02 * np.abs(theirs["y"]).max()


def test_a_small_picture_is_of_integers(qcalib, tmp_path):
    grey(tmp_path / "float.onnx", 8)
    samples(tmp_path / "x.h5", [1, 8, 8])
    job = ("--data", "x.h5", "float.onnx", "-o", "int8.onnx", "--effort", "low", "--no-report", "--json")
    assert qcalib(*job).json["float_ops"] == []


def test_integers_for_all_where_they_count(qcalib, tmp_path):
    grey(tmp_path / "float.onnx", 16)
    samples(tmp_path / "x.h5", [1, 16, 16])
    job = ("--data", "x.h5", "float.onnx", "-o", "int8.onnx", "--no-report", "--json", "--prefer", "integers")
    assert qcalib(*job).json["float_ops"] == []
