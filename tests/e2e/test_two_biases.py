# SPDX-License-Identifier: Apache-2.0
"""Two constant rows added after a product, as exporters write the two biases of an LSTM: ONNX Runtime's numbers."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper


@pytest.mark.parametrize("op", ["MatMul", "Gemm"])
def test_both_rows_are_added(op, qcalib, tmp_path):
    rng = np.random.default_rng(1)
    shape = [4, 1, 5] if op == "MatMul" else [4, 5]
    constants = [numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in (("w", (5, 6)), ("a", (1, 6)), ("b", (6,)))]
    nodes = [helper.make_node(op, ["x", "w"], ["p"]), helper.make_node("Add", ["p", "a"], ["q"]), helper.make_node("Add", ["q", "b"], ["y"])]
    graph = helper.make_graph(nodes, "rows", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "model.onnx")
    x = rng.normal(size=shape).astype(np.float32)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = x
    qcalib("run", "model.onnx", "--data", "x.h5", "-o", "y.h5")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    with h5py.File(tmp_path / "y.h5") as file:
        np.testing.assert_allclose(file["y"][:].reshape(*shape[:-1], 6), session.run(None, {"x": x})[0], atol=1e-5)
