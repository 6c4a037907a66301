# SPDX-License-Identifier: Apache-2.0
"""A small network with operators that targets treat differently: a residual Add, Conv and Relu, a depthwise Conv,
MaxPool, AveragePool, Concat, Sigmoid, Gemm, MatMul (which becomes a Gemm), Softmax."""

import h5py
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

CHANNELS = 8


def make(folder, samples=24):
    """model.onnx and data.h5"""
    rng = np.random.default_rng(5)
    constants, nodes = [], []

    def constant(name, *shape, scale=None):
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 64
        values = rng.normal(size=shape) * (scale or fan**-0.5)
        constants.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def node(op, inputs, output, **attributes):
        nodes.append(helper.make_node(op, inputs, [output], name=output, **attributes))
        return output

    def conv(x, name, inputs, outputs, kernel=3, group=1):
        w = constant(f"{name}.w", outputs, inputs // group, kernel, kernel)
        b = constant(f"{name}.b", outputs)
        return node("Conv", [x, w, b], name, pads=[kernel // 2] * 4, group=group)

    def relu(x):
        return node("Relu", [x], f"{x}.relu")

    first = relu(conv("x", "first", 3, CHANNELS))
    deep = relu(conv(first, "depthwise", CHANNELS, CHANNELS, group=CHANNELS))
    added = relu(node("Add", [conv(deep, "pointwise", CHANNELS, CHANNELS, kernel=1), first], "residual"))
    pooled = node("MaxPool", [added], "max", kernel_shape=[2, 2], strides=[2, 2])
    gate = node("Sigmoid", [conv(pooled, "gate.conv", CHANNELS, CHANNELS)], "gate")
    mean = node("AveragePool", [pooled], "mean", kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=0)
    both = node("Concat", [relu(conv(mean, "left", CHANNELS, CHANNELS)), relu(conv(pooled, "right", CHANNELS, CHANNELS))], "both", axis=1)
    gated = node("Mul", [relu(conv(both, "joined", 2 * CHANNELS, CHANNELS)), gate], "gated")
    flat = node("Flatten", [node("GlobalAveragePool", [gated], "global")], "flat")
    hidden = relu(node("Gemm", [flat, constant("gemm.w", 32, CHANNELS), constant("gemm.b", 32)], "gemm", transB=1))
    logits = node("MatMul", [hidden, constant("matmul.w", 32, 10, scale=0.3)], "logits")
    node("Softmax", [logits], "y")
    graph = helper.make_graph(
        nodes,
        "targets",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 10]), helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "model.onnx")
    x = rng.normal(size=(samples, 3, 16, 16)).astype(np.float32)
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = x
    return x


class Graph:
    """An ONNX file with the questions that the tests ask."""

    def __init__(self, path):
        self.model = onnx.load(path)
        graph = self.model.graph
        self.nodes = list(graph.node)
        self.constants = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
        self.maker = {o: n for n in graph.node for o in n.output}
        self.outputs = [o.name for o in graph.output]

    def of(self, *ops):
        found = [n for n in self.nodes if n.op_type in ops]
        assert found, ops  # a rule about operators that are not there would hold of nothing
        return found

    def linears(self):
        return self.of("QuantizeLinear", "DequantizeLinear")

    def readers(self, value):
        return [n for n in self.nodes if value in n.input]

    def scale(self, linear):
        return self.constants[linear.input[1]]

    def zero(self, linear):
        return self.constants[linear.input[2]] if len(linear.input) > 2 else None

    def dequantize(self, value):
        """The DequantizeLinear that makes a value, or None."""
        n = self.maker.get(value)
        return n if n is not None and n.op_type == "DequantizeLinear" else None

    def weight(self, node):
        """DequantizeLinear and integers of a node's weight."""
        dq = self.dequantize(node.input[1])
        assert dq is not None, f"{node.name}: its weight is not quantized"
        return dq, self.constants[dq.input[0]]

    def weights(self):
        return [(n, *self.weight(n)) for n in self.of("Conv", "Gemm", "MatMul")]

    def biases(self):
        """DequantizeLinear of int32 constants."""
        return [n for n in self.linears() if n.input[0] in self.constants and self.constants[n.input[0]].dtype == np.int32]

    def activations(self):
        """Q and DQ of values that are computed, or enter."""
        return [n for n in self.linears() if n.input[0] not in self.constants]
