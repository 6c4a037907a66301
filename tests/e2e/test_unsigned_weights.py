# SPDX-License-Identifier: Apache-2.0
"""--weight-type uint8: one zero point for a whole weight, for which ONNX Runtime has fused kernels."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper


def network(path):
    """Two convolutions; the first channel has no negative weight, the second no positive one, the last is empty."""
    rng = np.random.default_rng(8)
    first = rng.normal(size=(4, 2, 3, 3)).astype(np.float32) / 4
    first[0], first[1], first[3] = abs(first[0]), -abs(first[1]), 0
    second = abs(rng.normal(size=(3, 4, 1, 1)).astype(np.float32)) / 2
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w1"], ["c"], "c"), helper.make_node("Conv", ["c", "w2"], ["y"], "y")],
        "signs",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3, 4, 4])],
        [numpy_helper.from_array(first, "w1"), numpy_helper.from_array(second, "w2")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.integers
def test_signs_of_channels_make_no_difference(qcalib, tmp_path):
    network(tmp_path / "m.onnx")
    samples = np.random.default_rng(9).normal(size=(8, 2, 6, 6)).astype(np.float32)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = samples
    qcalib("-q", "--no-report", "--weight-type=uint8", "--data=x.h5", "m.onnx", "-o", "u8.onnx")
    graph = onnx.load(tmp_path / "u8.onnx").graph
    stored = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    weights = [n for n in graph.node if n.op_type == "DequantizeLinear" and stored.get(n.input[0], samples).ndim == 4]
    weights = [n for n in weights if n.input[0] in stored]
    assert [set(stored[n.input[2]].tolist()) for n in weights] == [{128}, {128}]

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(tmp_path / "u8.onnx", options, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": samples})
    fused = [n.op_type for n in onnx.load(tmp_path / "fused.onnx").graph.node]
    assert fused.count("QLinearConv") == 2 and "Conv" not in fused
    qcalib("run", "u8.onnx", "--data=x.h5", "-o", "out.h5", "-q")
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.array_equal(file["y"][:], found)
