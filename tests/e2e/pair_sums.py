# SPDX-License-Identifier: Apache-2.0
"""Computes the largest sum of two neighbouring int8 weights of one sign in a file, in the order of the kernels of x86
without VNNI: kernel position first, channel last for Conv, the reduced axis for the others. With a sum above 128, uint8
data may saturate 16 bits."""

import numpy as np
import onnx
from onnx import numpy_helper

# Operator -> the input that holds its int8 weights, as integers or behind a DequantizeLinear.
PLACES = {"Conv": 1, "Gemm": 1, "MatMul": 1, "QLinearConv": 3, "QLinearMatMul": 3, "QGemm": 3, "MatMulInteger": 1}
PLACES |= {"DynamicQuantizeMatMul": 1, "MatMulIntegerToFloat": 1, "ConvInteger": 1}


def rows(op, weights, attributes):
    """[rows, columns] in the kernel's order; None for a depthwise convolution, which adds no pairs."""
    if "Conv" in op:
        depthwise = attributes.get("group", 1) == len(weights) > 1 and weights.shape[1] == 1
        return None if depthwise else np.moveaxis(weights, 1, -1).reshape(len(weights), -1)
    if attributes.get("transB"):
        return weights
    return np.moveaxis(weights, -2, -1).reshape(-1, weights.shape[-2])


def largest(path):
    """(products of int8 weights, the largest sum of a pair)."""
    graph = onnx.load(path).graph
    constants = {t.name: t for t in graph.initializer}
    makers = {name: node for node in graph.node for name in node.output}
    found, most = 0, 0
    for node in graph.node:
        if node.op_type not in PLACES:
            continue
        name = node.input[PLACES[node.op_type]]
        while name in makers and makers[name].op_type in ("DequantizeLinear", "Reshape"):
            name = makers[name].input[0]
        if name not in constants or constants[name].data_type != onnx.TensorProto.INT8:
            continue
        weights = numpy_helper.to_array(constants[name]).astype(int)
        row = rows(node.op_type, weights, {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute})
        if row is None:
            continue
        pairs = np.pad(row, ((0, 0), (0, row.shape[1] % 2))).reshape(len(row), -1, 2)
        found += 1
        most = max(most, pairs.clip(0).sum(2).max(), (-pairs).clip(0).sum(2).max())
    return found, most
