# SPDX-License-Identifier: Apache-2.0
"""The common part of the tests' small convolutional networks: the last layers and the file."""

import onnx
from onnx import TensorProto, helper, numpy_helper


def save_pooled(path, nodes, weights, last, picture):
    """Nodes on input "x" [N, *picture]; `last`, their result, is averaged over its positions and multiplied by weights["w"] [classes, channels]: output "y"."""
    end = [
        helper.make_node("GlobalAveragePool", [last], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "w"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        [*nodes, *end],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *picture])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", len(weights["w"])])],
        [numpy_helper.from_array(w, n) for n, w in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), path)
