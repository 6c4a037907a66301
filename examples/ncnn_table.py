#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of scales that ncnn2int8 reads, from the encodings of a model and the .param file that pnnx made of it.

  ncnn_table.py model.annotated.onnx model.encodings.json model.ncnn.param model.table

pnnx gives layers names of its own but keeps their order, so the products of both files are matched in order and by the
number of their weights. A scale of ncnn is levels per unit: 1 / scale. Needs onnx.
"""
import json
import sys

import onnx

TYPES = {"Convolution": "6", "ConvolutionDepthWise": "6", "InnerProduct": "2"}  # parameter: the number of weights


def read_layers(path):
    """Returns (name, number of results, number of weights) of each product of a .param file."""
    layers = []
    for line in open(path).read().splitlines()[2:]:
        kind, name, *rest = line.split()
        if kind in TYPES:
            parameters = dict(word.split("=", 1) for word in rest if "=" in word)
            layers.append((name, int(parameters["0"]), int(parameters[TYPES[kind]])))
    return layers


def read_products(path):
    """Returns (data, weight, number of weights) of each product of an ONNX file with a constant weight."""
    graph = onnx.load(path).graph
    sizes = {t.name: onnx.numpy_helper.to_array(t).size for t in graph.initializer}
    products = [n for n in graph.node if n.op_type in ("Conv", "Gemm", "MatMul") and n.input[1] in sizes]
    return [(n.input[0], n.input[1], sizes[n.input[1]]) for n in products]


def table(model, encodings, param):
    """Returns the lines of the table. A product without encodings has none and stays float."""
    layers, products = read_layers(param), read_products(model)
    if [n for _, _, n in layers] != [n for _, _, n in products]:
        raise SystemExit(f"{param}: its layers are not the products of {model}")
    weights, activations = [], []
    for (name, results, _), (x, w, _) in zip(layers, products):
        scales, data = encodings["param_encodings"].get(w), encodings["activation_encodings"].get(x)
        if not scales or not data:
            continue
        if any(e["bitwidth"] != 8 or e["offset"] != -128 for e in scales + data):
            raise SystemExit(f"{name}: ncnn needs symmetric int8: use --target tensorrt")
        scales = [e["scale"] for e in scales] * (results if len(scales) == 1 else 1)
        weights.append(f"{name}_param_0 " + " ".join(f"{1 / s:.9g}" for s in scales))
        activations.append(f"{name} {1 / data[0]['scale']:.9g}")
    return weights + activations


if __name__ == "__main__":
    model, encodings, param, output = sys.argv[1:]
    lines = table(model, json.load(open(encodings)), param)
    open(output, "w").write("".join(line + "\n" for line in lines))
