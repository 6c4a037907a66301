# SPDX-License-Identifier: Apache-2.0
"""The helper that runs ONNX Runtime without VNNI runs the saturating kernels, and reports models that do not load."""

import avx2_runtime
import numpy as np
from avx2_runtime import Job
from onnx import TensorProto, helper, numpy_helper, save


def product(path):
    """One row of weights 100, 100 for uint8 inputs: 255 * 100 twice is 51000, which 16 bits hold as 32767."""
    weight = numpy_helper.from_array(np.array([[100], [100]], np.int8), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMulInteger", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, ["N", 2])],
        [helper.make_tensor_value_info("y", TensorProto.INT32, ["N", 1])],
        [weight],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def test_a_pair_of_products_saturates(tmp_path):
    product(tmp_path / "m.onnx")
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    feeds = {"x": np.array([[255, 255], [255, 0], [100, 100], [163, 164]], np.uint8)}
    good, bad = avx2_runtime.try_run([Job(tmp_path / "m.onnx", feeds), Job(tmp_path / "bad.onnx", feeds)])
    assert good["y"].ravel().tolist() == [32767, 25500, 20000, 32700]
    assert isinstance(bad, str) and "bad.onnx" in bad
