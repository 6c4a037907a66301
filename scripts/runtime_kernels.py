# SPDX-License-Identifier: Apache-2.0
"""Lists operators of quantized models that ONNX Runtime computes in float from weights that it dequantizes in every
run, and quantized values that no integer kernel computes or reads.

    python scripts/runtime_kernels.py FILE.onnx ...

Reads the graph after the optimizations of ONNX Runtime's CPU provider. Exits with 1 if it finds any."""

import os
import pathlib
import sys
import tempfile

import onnx
import onnxruntime

COMPUTES = {"Attention", "Conv", "ConvTranspose", "Einsum", "FusedConv", "FusedGemm", "FusedMatMul", "GRU", "Gemm"} | {
    "LSTM", "MatMul", "MultiHeadAttention", "QAttention", "RNN", "TransposeMatMul"
}
# Operators that ONNX Runtime runs on stored integers of any qparams.
MOVES = {"Clip", "Concat", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Pad", "ReorderInput", "ReorderOutput"} | {
    "Reshape", "Slice", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"
}


class Optimized:
    """The graph that ONNX Runtime runs on this processor."""

    def __init__(self, model):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        with tempfile.TemporaryDirectory() as folder:
            options.optimized_model_filepath = os.path.join(folder, "optimized.onnx")
            onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
            self.graph = onnx.load(options.optimized_model_filepath).graph
        self.constants = {t.name for t in self.graph.initializer}
        self.made = {o: n for n in self.graph.node for o in n.output}
        self.readers = {}
        for node in self.graph.node:
            for value in node.input:
                self.readers.setdefault(value, []).append(node)

    def constant(self, value):
        node = self.made.get(value)
        return value in self.constants or (node is not None and all(self.constant(i) for i in node.input if i))

    def dequantized(self, value):
        """True for a constant that is dequantized from stored integers in every run."""
        node = self.made.get(value)
        if node is None or not self.constant(value):
            return False
        return node.op_type == "DequantizeLinear" or any(self.dequantized(i) for i in node.input)

    def weights(self):
        """Returns [(operator, name)] of the nodes that read such constants."""
        return [
            (n.op_type, n.name) for n in self.graph.node if n.op_type in COMPUTES and any(map(self.dequantized, n.input))
        ]

    def readers_of(self, value, stored=True):
        """Returns the readers of a stored value: None for an integer kernel, otherwise the operator. Operators that
        move elements are passed through."""
        found = set()
        for node in self.readers.get(value, []):
            if node.op_type in MOVES:
                for result in node.output:
                    found |= self.readers_of(result, stored)
            elif stored and node.op_type == "DequantizeLinear":
                found |= self.readers_of(node.output[0], False) or {"output"}
            elif not stored and node.op_type == "QuantizeLinear":
                found |= self.readers_of(node.output[0])
            else:
                found.add(None if stored else node.op_type)
        return found

    def rounded(self):
        """Returns [(value, its readers)] of the quantized values that no integer kernel reads."""
        outputs = {o.name for o in self.graph.output}
        found = []
        for node in self.graph.node:
            if node.op_type != "QuantizeLinear" or node.output[0] in outputs:
                continue
            readers = self.readers_of(node.output[0])
            if None not in readers:
                found.append((node.input[0], sorted(readers)))
        return found


def main():
    found = False
    for file in map(pathlib.Path, sys.argv[1:]):
        graph = Optimized(file)
        weights, rounded = graph.weights(), graph.rounded()
        found = found or weights or rounded
        print(f"{file.name}: {len(weights)} operators dequantize weights in every run, {len(rounded)} values are rounded")
        for op, name in weights:
            print(f"    {op} {name}")
        for value, readers in rounded:
            print(f"    {value}, for {', '.join(readers)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
