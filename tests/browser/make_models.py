# SPDX-License-Identifier: Apache-2.0
"""Small networks with many nodes, and their data, for pages of reports: python make_models.py FOLDER
makes encoder.onnx (24 blocks of attention), long.onnx (more layers than a page shows at once), encoder.h5, long.h5."""

import sys
from pathlib import Path

import h5py
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

random = np.random.default_rng(24)


class Network:
    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, name, value):
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, name, *shape):
        return self.constant(name, (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def add(self, op, name, *inputs, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [name + "_output"], name, **attributes))
        return name + "_output"

    def save(self, path, result, shape):
        self.nodes[-1].output[0] = "output"
        value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *shape])
        graph = helper.make_graph(self.nodes, path.stem, [value("input")], [value("output")], self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        with h5py.File(path.with_suffix(".h5"), "w") as f:
            f["input"] = random.standard_normal((4, *shape)).astype(np.float32)


def encoder(path, blocks=24, words=6, width=16, heads=2):
    n = Network()
    apart = n.constant("apart", np.array([0, words, heads, width // heads]))
    joined = n.constant("joined", np.array([0, words, width]))
    root = n.constant("root", np.float32(np.sqrt(width // heads)))
    two, one, half = (n.constant(k, np.float32(v)) for k, v in (("two", np.sqrt(2)), ("one", 1), ("half", 0.5)))

    def linear(name, x, rows, columns):
        product = n.add("MatMul", f"{name}/MatMul", x, n.weight(f"{name}/weight", rows, columns))
        return n.add("Add", f"{name}/Add", product, n.constant(f"{name}/bias", np.zeros(columns, np.float32)))

    def norm(name, x):
        scale = n.constant(f"{name}/scale", np.ones(width, np.float32))
        return n.add("LayerNormalization", f"{name}/LayerNormalization", x, scale, axis=-1)

    x = "input"
    for b in range(blocks):
        at = f"/encoder/layer.{b}"
        parts = []
        for part, order in (("query", [0, 2, 1, 3]), ("key", [0, 2, 3, 1]), ("value", [0, 2, 1, 3])):
            y = linear(f"{at}/attention/{part}", x, width, width)
            y = n.add("Reshape", f"{at}/attention/{part}/Reshape", y, apart)
            parts.append(n.add("Transpose", f"{at}/attention/{part}/Transpose", y, perm=order))
        y = n.add("MatMul", f"{at}/attention/MatMul", parts[0], parts[1])
        y = n.add("Softmax", f"{at}/attention/Softmax", n.add("Div", f"{at}/attention/Div", y, root), axis=-1)
        y = n.add("MatMul", f"{at}/attention/MatMul_1", y, parts[2])
        y = n.add("Transpose", f"{at}/attention/Transpose", y, perm=[0, 2, 1, 3])
        y = linear(f"{at}/attention/output", n.add("Reshape", f"{at}/attention/Reshape", y, joined), width, width)
        x = norm(f"{at}/attention/LayerNorm", n.add("Add", f"{at}/attention/Add", y, x))
        y = linear(f"{at}/intermediate", x, width, 2 * width)
        erf = n.add("Erf", f"{at}/gelu/Erf", n.add("Div", f"{at}/gelu/Div", y, two))
        y = n.add("Mul", f"{at}/gelu/Mul", y, n.add("Add", f"{at}/gelu/Add", erf, one))
        y = linear(f"{at}/output", n.add("Mul", f"{at}/gelu/Mul_1", y, half), 2 * width, width)
        x = norm(f"{at}/output/LayerNorm", n.add("Add", f"{at}/output/Add_1", y, x))
    n.save(path, x, [words, width])


def long(path, blocks=440, channels=4):
    n = Network()
    x = "input"
    for b in range(blocks):
        y = n.add("Conv", f"/stage{b}/conv", x, n.weight(f"/stage{b}/weight", channels, channels, 1, 1))
        # Not the same in each block, so that hardly anything is folded.
        y = n.add(["Relu", "Tanh", "Sigmoid", "HardSigmoid", "Softplus"][random.integers(5)], f"/stage{b}/act", y)
        x = n.add("Add" if b % 3 else "Mul", f"/stage{b}/join", x, y)
        if b % 4 == 3:
            x = n.add("Tanh", f"/stage{b}/tanh", x)
    n.save(path, x, [channels, 2, 2])


folder = Path(sys.argv[1])
encoder(folder / "encoder.onnx")
long(folder / "long.onnx")
