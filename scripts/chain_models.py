# SPDX-License-Identifier: Apache-2.0
"""Models of many small layers, for tests and benchmarks of costs that depend on the size of the graph."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KINDS = ("conv", "outputs", "residual", "matmul", "dense", "gemm", "sums")


def chain(kind, layers, folder):
    """Returns (model, samples): `layers` layers of two channels, each with a Relu. "residual" has Add and Mul around
    every second layer, in "outputs" every Relu is an output, in "dense" a layer is MatMul and Add. "sums" adds every second
    layer to the sum of those before, which no other operator changes. Layers average their
    two channels, so values of the last layer are like those of the first. No two constants are equal."""
    nodes, constants, ends, x, skip = [], [], [], "x", "x"

    def node(op, inputs, name, **attributes):
        nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def constant(value, name):
        constants.append(numpy_helper.from_array(np.float32(value), name))
        return name

    if kind == "residual":
        constant(0.5, "half")
    for i in range(layers):
        weight = np.float32([[0.5 + 1e-4 * (i % 7 + 1), 0.5], [0.5, 0.5 - 1e-7 * i]])
        if kind == "sums" and i % 2:
            weight = weight * np.float32([[0.1], [-0.1]])
        bias = [1e-6 * (i + 1), 0.01]
        if kind == "matmul":
            x = node("MatMul", [x, constant(weight, f"w{i}")], f"m{i}")
        elif kind == "dense":
            x = node("MatMul", [x, constant(weight, f"w{i}")], f"m{i}")
            x = node("Add", [x, constant(bias, f"b{i}")], f"a{i}")
        elif kind == "gemm":
            x = node("Gemm", [x, constant(weight, f"w{i}"), constant(bias, f"b{i}")], f"g{i}")
        else:
            x = node("Conv", [x, constant(weight.reshape(2, 2, 1, 1), f"w{i}"), constant(bias, f"b{i}")], f"c{i}")
        if kind == "residual" and i % 2:
            x = node("Mul", [node("Add", [x, skip], f"a{i}"), "half"], f"h{i}")
        if kind == "sums" and i % 2:
            x = skip = node("Add", [x, skip], f"s{i}")
        else:
            x = node("Relu", [x], f"r{i}")
        if kind == "residual" and i % 2:
            skip = x
        if kind == "outputs" or i == layers - 1:
            ends.append(x)
    shape = [1, 2] if kind in ("matmul", "dense", "gemm") else [1, 2, 1, 2]
    inputs, outputs = ([helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in names] for names in (["x"], ends))
    graph = helper.make_graph(nodes, "chain", inputs, outputs, constants)
    model, samples = folder / f"{kind}{layers}.onnx", folder / f"{kind}{layers}.npy"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), model)
    np.save(samples, np.random.default_rng(0).uniform(0.5, 1.5, (2, *shape[1:])).astype(np.float32))
    return model, samples
