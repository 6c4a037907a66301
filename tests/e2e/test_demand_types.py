# SPDX-License-Identifier: Apache-2.0
"""The types that layers get for a demand on accuracy: float, or 16 bits if these are faster or the only possibility."""

import json

import numpy as np
import onnx
import pytest
from onnx import helper
from test_runtime_kernels import samples, save


def layers(path, count, channels=8, side=12):
    rng, nodes, tensors = np.random.default_rng(4), [], {}
    for k in range(count):
        tensors[f"w{k}"] = rng.normal(size=(channels, channels, 3, 3)).astype(np.float32) / 8
        nodes.append(helper.make_node("Conv", [f"x{k}" if k else "x", f"w{k}"], [f"x{k + 1}"], f"layer{k}", pads=[1] * 4))
    save(path, nodes, tensors, {"x": ["N", channels, side, side]}, {f"x{count}": None})
    samples(path.with_name("x.h5"), [channels, side, side])


def steps(qcalib, folder, *options):
    qcalib("--data", "x.h5", "float.onnx", "--method", "minmax", *options)
    return json.loads((folder / "float.int8.report" / "report.json").read_text())["fallback"]["steps"][1:]


def taken(tried):
    return [(s["type"], s["layers"]) for s in tried if s["chosen"]]


def test_float_is_faster_than_16_bits(qcalib, tmp_path):
    """Each way has a search of its own, float first."""
    layers(tmp_path / "float.onnx", 4, channels=16)
    tried = steps(qcalib, tmp_path, "--min-sqnr", "33")
    types = [s["type"] for s in tried]
    assert taken(tried)[0][0] == "float"
    assert set(types) == {"float", "16 bits"} and types == sorted(types, reverse=True)


@pytest.mark.integers
def test_a_layer_in_float_meets_a_demand(qcalib, tmp_path):
    layers(tmp_path / "float.onnx", 4)
    done = qcalib("--data", "x.h5", "float.onnx", "--method", "minmax", "--min-sqnr", "33", "--no-report")
    assert "without: 32.02 dB" in done.out and "with: 33.08 dB" in done.out and "nan" not in done.out


@pytest.mark.integers
def test_a_network_of_one_layer_gets_16_bits(qcalib, tmp_path):
    """Without it nothing would be left to quantize."""
    layers(tmp_path / "float.onnx", 1)
    tried = steps(qcalib, tmp_path, "--min-sqnr", "38")
    assert taken(tried) == [("16 bits", 1)]
    assert [s["type"] for s in tried].count("float") == 1


def test_activations_in_blocks_get_a_wider_format(qcalib, tmp_path):
    """A network of one layer, whose input in blocks of 4 bits loses most. The command by hand names both types."""
    layers(tmp_path / "float.onnx", 1)
    formats = ("--weight-type", "mxfp4", "--activation-type", "mxfp4")
    qcalib("--data", "x.h5", "float.onnx", *formats, "--min-sqnr", "30", "--report", "r", "-o", "q.onnx")
    made = json.loads((tmp_path / "r/report.json").read_text())["fallback"]
    assert made["met"] and taken(made["steps"]) == [("wider types", 1)]
    assert made["options"] == ["--activation-type=bfp16:layer0", "--weight-type=int8:layer0"]
    assert [f.name for f in onnx.load(tmp_path / "q.onnx").functions] == ["bfp16"]


def fork(path):
    """Two convolutions read one tensor: weights lose most in one of them, and the tensor in the other."""
    rng = np.random.default_rng(0)
    tensors = {n: rng.normal(size=(8, 8, 3, 3)).astype(np.float32) / 8 for n in ("w0", "w1", "w2")}
    tensors["w1"][:, :, 0, 0] *= 30
    read = {"conv0": "x", "coarse": "a", "fine": "a"}
    nodes = [helper.make_node("Conv", [x, f"w{k}"], [n], n, pads=[1] * 4) for k, (n, x) in enumerate(read.items())]
    nodes += [helper.make_node("Relu", ["conv0"], ["a"], "relu"), helper.make_node("Add", ["coarse", "fine"], ["y"], "sum")]
    save(path, [nodes[0], nodes[3], *nodes[1:3], nodes[4]], tensors, {"x": ["N", 8, 12, 12]}, {"y": None})
    samples(path.with_name("x.h5"), [8, 12, 12])


def squares(path):
    """A product of two activations."""
    rng = np.random.default_rng(0)
    tensors = {n: rng.normal(size=(16, 16)).astype(np.float32) / 4 for n in ("w0", "w1", "w2")}
    nodes = [helper.make_node("MatMul", ["x", "w0"], ["q"], "q"), helper.make_node("MatMul", ["x", "w1"], ["k"], "k"),
             helper.make_node("Transpose", ["k"], ["t"], "t", perm=[0, 2, 1]), helper.make_node("MatMul", ["q", "t"], ["p"], "p"),
             helper.make_node("MatMul", ["p", "w2"], ["y"], "out")]
    save(path, nodes, tensors, {"x": ["N", 16, 16]}, {"y": None})
    samples(path.with_name("x.h5"), [16, 16])


@pytest.mark.parametrize("model,types", [
    (fork, ["--weight-type", "int4"]),
    (fork, ["--weight-type", "int16"]),
    (fork, ["--weight-type", "int16:coarse"]),
    (fork, ["--activation-type", "uint16:coarse"]),
    (fork, ["--weight-type", "int4", "--activation-type", "uint16"]),
    (squares, []),
    (squares, ["--weight-type", "int4"]),
])
def test_factors_of_16_bits_never_meet(model, types, qcalib, tmp_path):
    """32-bit sums have no room for products of them. Each step widens what has room, whatever types the job begins with."""
    model(tmp_path / "float.onnx")
    job = ("--data", "x.h5", "float.onnx", *types, "--target", "fused", "--effort", "low", "--require-integer")
    qcalib(*job, "--min-sqnr", "99", "--report", "r", code=1)
    tried = json.loads((tmp_path / "r/report.json").read_text())["fallback"]["steps"]
    assert not [s["reason"] for s in tried if s["reason"]], tried
    assert max(s["sqnr_db"] for s in tried) > tried[0]["sqnr_db"] + 3, tried


def test_weights_of_few_bits_beside_wide_inputs_get_8(qcalib, tmp_path):
    fork(tmp_path / "float.onnx")
    job = ("--data", "x.h5", "float.onnx", "--weight-type", "int4", "--activation-type", "uint16", "--require-integer")
    report = qcalib(*job, "--min-sqnr", "30", "--json", "--no-report", "-o", "q.onnx").json["fallback"]
    assert report["met"] and {o.split(":")[0] for o in report["options"]} == {"--weight-type=int8"}, report
