# SPDX-License-Identifier: Apache-2.0
"""qcalib run equals ONNX Runtime, byte for byte: every real model, quantized, in both forms, on 256 samples (MobileNet: 32, nightly 256), with the
processor's best instructions and with AVX2 only (set with QCALIB_MAX_CPU_ISA). With float operators the results may
differ: FLOAT says which results, by how much and why, and a test shows that only those operators are the reason."""

import dataclasses
import sys

import avx2_runtime
import numpy
import onnx
import pytest
from conftest import Runtime, nightly
from real_models import CASES, inputs
from test_convert import equal, quantize
from test_run import by_name

SAMPLES = 256
FEWER = {
    "mobilenetv1_075_224_imagenet": 32,
    # all that the data have
    "autoencoder_ad_mlperf": 196,
    "superres_pytorch": 6,
    "rfb320_face_simplified": 16,
}
# {model: (results that may differ, share of elements, largest difference, the operators that are the reason)}
FLOAT = {
    # exponentials differ in the last place, and nothing rounds behind them
    "rfb320_face_simplified": ({"scores"}, 1, 2e-7, {"Softmax"}),
    # ... as do means of layer norm and the error function of GELU; the next quantize falls the other way now and then
    "text_transformer_agnews": ({"logits"}, 0.05, 0.01, {"Softmax", "ReduceMean", "Erf"}),
}
# How parameters were found is of no account here; float products round their sums in another order than qcalib run.
QUICK = ("--method", "minmax", "--weight-rounding", "nearest", "--prefer", "integers")
CAPPED = {"QCALIB_MAX_CPU_ISA": "avx2"}


def case_of(model, most=None, **how):
    samples = avx2_runtime.samples(most or FEWER.get(model, SAMPLES), **how)
    return dataclasses.replace(next(c for c in CASES if c.model == model), samples=samples)


def run(qcalib, model, case, data, folder, **environment):
    extra = ["--preprocess", case.preprocess] if case.preprocess else []
    how = ("--rounding", avx2_runtime.rounding(), "--samples", case.samples, *extra)
    qcalib("run", model, "--data", data / case.data, *how, "-o", "out.h5", **environment)
    outputs = by_name(folder / "out.h5")
    (folder / "out.h5").unlink()
    return outputs


@pytest.mark.parametrize("model, most", [*((c.model, None) for c in CASES), nightly("mobilenetv1_075_224_imagenet", SAMPLES)])
def test_every_byte_of_the_outputs(model, most, qcalib, data, tmp_path):
    case = case_of(model, most)
    feeds = inputs(case, data)
    assert min(len(v) for v in feeds.values()) == case.samples
    loose, share, most, _ = FLOAT.get(model, (set(), 0, 0, None))
    for file in quantize(case, qcalib, data, *QUICK):
        expected, _ = Runtime("newest", sys.executable).run(tmp_path / file, feeds, tmp_path)
        best, capped = (run(qcalib, file, case, data, tmp_path, **how) for how in ({}, CAPPED))
        assert loose <= set(expected)
        for name in loose:
            apart = numpy.abs(expected[name] - best[name])
            assert (
                apart > 0
            ).mean() <= share and apart.max() <= most, (
                f"{file}, {name}: {(apart > 0).mean():.1%} differ, by up to {apart.max()}"
            )
        equal({n: v for n, v in expected.items() if n not in loose}, {n: v for n, v in best.items() if n not in loose})
        equal(best, capped)


def islands(model):
    """{result: (names of the stored integers that it is computed from, operators in between)} of a QDQ graph's integers and outputs."""
    made = {o: n for n in model.graph.node for o in n.output}
    results = {n.output[0]: n.input[0] for n in model.graph.node if n.op_type == "QuantizeLinear"}
    results |= {o.name: o.name for o in model.graph.output if o.name not in results}
    found = {}
    for result, start in results.items():
        stored, ops, todo, seen = set(), set(), [start], set()
        while todo:
            value = todo.pop()
            node = made.get(value)
            if value in seen or node is None:
                continue
            seen.add(value)
            if node.op_type == "DequantizeLinear":
                stored |= {node.input[0]} & set(results)
            else:
                ops.add(node.op_type)
                todo.extend(node.input)
        found[result] = stored, ops
    return found


@pytest.mark.parametrize("model", FLOAT)
def test_only_float_operators_make_a_difference(model, qcalib, data, tmp_path):
    """All stored integers as outputs: where a result differs in a sample while all integers that it comes from are equal there, one of the
    operators of the table is between them."""
    case = case_of(model, less=4)  # in few samples no result differs
    graph = onnx.load(tmp_path / quantize(case, qcalib, data, *QUICK)[0])
    found = islands(graph)
    types = {v.name: v for v in onnx.shape_inference.infer_shapes(graph).graph.value_info}
    known = {o.name for o in graph.graph.output}
    graph.graph.output.extend(types[name] for name in found if name not in known)
    onnx.save(graph, tmp_path / "all.onnx")
    feeds = inputs(case, data)
    expected, _ = Runtime("newest", sys.executable).run(tmp_path / "all.onnx", feeds, tmp_path)
    got = run(qcalib, "all.onnx", case, data, tmp_path)
    differs = {}
    for name, value in expected.items():
        assert value.shape == got[name].shape and len(value) == case.samples, name
        differs[name] = (value != got[name]).reshape(case.samples, -1).any(axis=1)
    reasons, exact = set(), 0
    for name, (stored, ops) in found.items():
        own = differs[name] & ~numpy.any([differs[s] for s in stored], axis=0) if stored else differs[name]
        explained = ops & FLOAT[model][3]
        assert explained or not own.any(), f"{name} differs in {own.sum()} samples of its own, behind {sorted(ops)}"
        exact += not explained and bool(ops & {"Conv", "MatMul", "Gemm"})
        reasons |= explained if own.any() else set()
    assert reasons and exact, f"{reasons}; {exact} products of integers are exact"
