# SPDX-License-Identifier: Apache-2.0
"""Writes a decoder of a given size with random weights, and tokens for calibration.

    python scripts/large_model.py FOLDER --layers 12 --width 2048 --inner 5632 --heads 16 --tokens 32000

Writes FOLDER/large.onnx, its weights FOLDER/large.onnx.data and FOLDER/large.npy: `--samples` rows of `--length` tokens.
The weights are drawn and written one tensor at a time, to save memory. With 22 layers it has the shape of a language
model of 1.1 billion parameters."""

import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper

ALIGN = 4096
OPSET = 17


class Weights:
    """Initializers whose data are in a file beside the model."""

    def __init__(self, path, seed):
        self.file, self.name = open(path, "wb"), path.name
        self.random = np.random.default_rng(seed)
        self.initializers = []

    def add(self, name, shape, deviation):
        self.file.seek(-self.file.tell() % ALIGN, 1)
        entry = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        rows = self.random.standard_normal(shape, dtype=np.float32)
        rows *= np.float32(deviation)
        for key, value in (("location", self.name), ("offset", self.file.tell()), ("length", rows.nbytes)):
            entry.external_data.add(key=key, value=str(value))
        rows.tofile(self.file)
        self.initializers.append(entry)
        return name

    def inside(self, name, array):
        self.initializers.append(onnx.numpy_helper.from_array(array, name))
        return name


class Decoder:
    def __init__(self, weights, width, heads, length):
        self.weights, self.width, self.heads, self.nodes = weights, width, heads, []
        self.split = weights.inside("split", np.array([0, 0, heads, width // heads], np.int64))
        self.joined = weights.inside("joined", np.array([0, 0, width], np.int64))
        self.scale = weights.inside("scale", np.float32((width // heads) ** -0.5))
        self.mask = weights.inside("mask", np.triu(np.full((length, length), -1e4, np.float32), 1))

    def node(self, op, inputs, name, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def linear(self, x, name, rows, columns):
        return self.node("MatMul", [x, self.weights.add(f"{name}.weight", [rows, columns], rows**-0.5)], name)

    def norm(self, x, name):
        ones = self.weights.inside(f"{name}.weight", np.ones(self.width, np.float32))
        return self.node("LayerNormalization", [x, ones], name, epsilon=1e-5)

    def heads_of(self, x, name, order):
        shaped = self.node("Reshape", [x, self.split], f"{name}.split")
        return self.node("Transpose", [shaped], f"{name}.heads", perm=order)

    def block(self, x, name, inner):
        width = self.width
        y = self.norm(x, f"{name}.norm1")
        q, k, v = (self.linear(y, f"{name}.{n}", width, width) for n in "qkv")
        q, v = (self.heads_of(t, t, [0, 2, 1, 3]) for t in (q, v))
        k = self.heads_of(k, k, [0, 2, 3, 1])
        scores = self.node("Mul", [self.node("MatMul", [q, k], f"{name}.scores"), self.scale], f"{name}.scaled")
        weights = self.node("Softmax", [self.node("Add", [scores, self.mask], f"{name}.masked")], f"{name}.softmax", axis=-1)
        y = self.node("Transpose", [self.node("MatMul", [weights, v], f"{name}.mixed")], f"{name}.rows", perm=[0, 2, 1, 3])
        y = self.linear(self.node("Reshape", [y, self.joined], f"{name}.joined"), f"{name}.o", width, width)
        x = self.node("Add", [x, y], f"{name}.add1")
        y = self.norm(x, f"{name}.norm2")
        gate, up = (self.linear(y, f"{name}.{n}", width, inner) for n in ("gate", "up"))
        gate = self.node("Mul", [gate, self.node("Sigmoid", [gate], f"{name}.sigmoid")], f"{name}.silu")
        y = self.linear(self.node("Mul", [gate, up], f"{name}.product"), f"{name}.down", inner, width)
        return self.node("Add", [x, y], f"{name}.add2")


def write(folder, layers, width, inner, heads, tokens, length, samples, seed=1):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = Weights(folder / "large.onnx.data", seed)
    d = Decoder(weights, width, heads, length)
    x = d.node("Gather", [weights.add("embedding.weight", [tokens, width], 1.0), "tokens"], "embedding")
    for i in range(layers):
        x = d.block(x, f"layer{i}", inner)
    d.linear(d.norm(x, "norm"), "logits", width, tokens)
    weights.file.close()
    ports = [
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["N", length])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", length, tokens])],
    ]
    graph = helper.make_graph(d.nodes, "large", *ports, weights.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    (folder / "large.onnx").write_bytes(model.SerializeToString())
    drawn = np.random.default_rng(seed + 1).integers(0, tokens, (samples, length))
    np.save(folder / "large.npy", drawn.astype(np.int64))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    for name, value in (("layers", 12), ("width", 2048), ("inner", 5632), ("heads", 16), ("tokens", 32000), ("length", 32), ("samples", 8)):
        p.add_argument(f"--{name}", type=int, default=value)
    a = p.parse_args()
    write(**vars(a))


if __name__ == "__main__":
    main()
