# SPDX-License-Identifier: Apache-2.0
"""A residual sum before a LayerNormalization, which ONNX Runtime must not fuse to its slow SkipLayerNormalization."""

import collections

import numpy as np
import onnx
import pytest
from onnx import helper
from runtime_kernels import Optimized
from test_runtime_kernels import samples, save


def block(path, shape, also=False):
    """x + x w, normalised, times v; also: the sum is an output."""
    rng, width = np.random.default_rng(2), shape[-1]
    tensors = {w: (rng.normal(size=(width, width)) / width**0.5).astype(np.float32) for w in "wv"}
    tensors |= {"gamma": np.ones(width, np.float32), "beta": rng.normal(size=width).astype(np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], "product"),
        helper.make_node("Tanh", ["m"], ["t"], "tanh"),
        helper.make_node("Add", ["x", "t"], ["s"], "residual"),
        helper.make_node("LayerNormalization", ["s", "gamma", "beta"], ["n"], "norm"),
        helper.make_node("MatMul", ["n", "v"], ["y"], "last"),
    ]
    save(path, nodes, tensors, {"x": shape}, {"y": shape} | ({"s": shape} if also else {}))


def quantized(qcalib, folder, shape, form="qdq", **how):
    block(folder / "float.onnx", shape, **how)
    samples(folder / "x.h5", [6, 48] if len(shape) == 3 else [2, 6, 48])
    qcalib("--data", "x.h5", "float.onnx", "-o", "int8.onnx", "--format", form, "--no-report")
    made = {n.name: n.op_type for n in onnx.load(folder / "int8.onnx").graph.node}
    return made["residual"], collections.Counter(n.op_type for n in Optimized(folder / "int8.onnx").graph.node)


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("batch", [1, "N"])
def test_sum_and_normalisation_stay_apart(batch, form, qcalib, tmp_path):
    op, runs = quantized(qcalib, tmp_path, [batch, 6, 48], form)
    assert op == "Sum"
    assert runs["LayerNormalization"] == 1 and runs["SkipLayerNormalization"] == 0
    plain = onnx.load(tmp_path / "int8.onnx")
    for node in plain.graph.node:
        node.op_type = "Add" if node.name == "residual" else node.op_type
    onnx.save(plain, tmp_path / "plain.onnx")
    assert any(n.op_type == "SkipLayerNormalization" for n in Optimized(tmp_path / "plain.onnx").graph.node)
    assert "output y: equal, bit for bit" in qcalib("compare", "int8.onnx", "plain.onnx", "--data", "x.h5").out


@pytest.mark.parametrize("shape, also", [([1, 6, 48], True), ([1, 2, 6, 48], False)], ids=["an output", "four dimensions"])
def test_what_is_not_joined_stays_an_add(shape, also, qcalib, tmp_path):
    op, runs = quantized(qcalib, tmp_path, shape, also=also)
    assert op == "Add" and runs["SkipLayerNormalization"] == 0
