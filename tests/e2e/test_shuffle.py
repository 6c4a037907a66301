# SPDX-License-Identifier: Apache-2.0
"""A channel shuffle between convolutions, in the form that is fast in ONNX Runtime."""

import h5py
import numpy as np
import pytest
from onnx import helper
from quantized_graph import QuantizedGraph
from runtime_kernels import Optimized
from test_runtime_kernels import samples, save


def shuffle(path, apart, joined, batch="N", perm=(0, 2, 1, 3, 4), output=None):
    """Two convolutions, their channels shuffled, and a third one; output: a value between that is one of the graph."""
    rng, nodes = np.random.default_rng(3), []
    tensors = {"apart": np.array(apart), "joined": np.array(joined)}
    for k, (x, channels) in enumerate((("x", 8), ("x", 8), ("shuffled", 16))):
        tensors[f"w{k}"] = (rng.normal(size=(8, channels, 3, 3)) / channels).astype(np.float32)
        nodes.append(helper.make_node("Conv", [x, f"w{k}"], [f"y{k}"], f"layer{k}", pads=[1, 1, 1, 1]))
    nodes[2:2] = [
        helper.make_node("Concat", ["y0", "y1"], ["both"], "both", axis=1),
        helper.make_node("Reshape", ["both", "apart"], ["groups"], "groups"),
        helper.make_node("Transpose", ["groups"], ["turned"], "turn", perm=perm),
        helper.make_node("Reshape", ["turned", "joined"], ["shuffled"], "shuffled"),
    ]
    save(path, nodes, tensors, {"x": [batch, 8, 12, 10]}, {"y2": None} | ({output: None} if output else {}))


def dimensions(graph, model):
    turn = next(n for n in graph.nodes if n.name == "turn")
    assert "turn" in {n.name for n in Optimized(model).graph.node}
    return list(turn.attribute[0].ints)


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("batch, apart, joined", [(1, [1, 2, 8, 12, 10], [1, 16, 12, 10]), ("N", [-1, 2, 8, 12, 10], [-1, 16, 12, 10])])
def test_an_image_is_one_dimension(form, batch, apart, joined, qcalib, onnxruntime, tmp_path):
    shuffle(tmp_path / "float.onnx", apart, joined, batch)
    x = samples(tmp_path / "x.h5", [8, 12, 10])
    qcalib("--data", "x.h5", "float.onnx", "-o", "int8.onnx", "--format", form, "--prefer", "integers", "--no-report")
    assert dimensions(QuantizedGraph(tmp_path / "int8.onnx"), tmp_path / "int8.onnx") == [0, 2, 1, 3]
    qcalib("run", "int8.onnx", "--data", "x.h5", "-o", "ours.h5")
    theirs, said = onnxruntime.run(tmp_path / "int8.onnx", {"x": x}, tmp_path)
    with h5py.File(tmp_path / "ours.h5") as f:
        assert said == "" and np.array_equal(f["y2"][()], theirs["y2"])


@pytest.mark.parametrize(
    "apart, joined, perm, output",
    [
        ([1, 2, 8, 10, 12], [1, 16, -1, 0], (0, 2, 1, 3, 4), None),
        ([1, 2, 8, 12, 10], [1, 16, 12, 10], (0, 2, 1, 3, 4), "turned"),
        ([1, 2, 8, 10, 12], [1, 16, 12, 10], (0, 2, 1, 4, 3), None),
    ],
    ids=["a size is copied", "an output", "the image is turned"],
)
def test_other_shuffles_stay_as_they_are(apart, joined, perm, output, qcalib, tmp_path):
    shuffle(tmp_path / "float.onnx", apart, joined, 1, perm, output)
    samples(tmp_path / "x.h5", [8, 12, 10])
    qcalib("--data", "x.h5", "float.onnx", "-o", "int8.onnx", "--no-report")
    turn = next(n for n in QuantizedGraph(tmp_path / "int8.onnx").nodes if n.op_type == "Transpose")
    assert tuple(turn.attribute[0].ints) == perm
