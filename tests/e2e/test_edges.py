# SPDX-License-Identifier: Apache-2.0
"""With activations of fewer than 8 bits the first and last layers keep 8 bits."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper


@pytest.fixture
def job(qcalib, examples, tmp_path):
    """job(OPTION, ...): the report, top-1 of the file in ONNX Runtime, and the largest integer that each layer reads."""
    with h5py.File(examples / "digits_test.h5") as f:
        name = next(k for k in f if k != "labels")
        a = f[name].attrs
        x = (f[name][:] * np.float32(a.get("scale", 1)) - np.float32(a.get("mean", 0))) / np.float32(a.get("std", 1))
        labels = f["labels"][:]

    def run(*options):
        fixed = ("--data", examples / "digits_calib.h5", "-o", "q.onnx", "--no-report", "--effort", "low", "--json")
        report = qcalib(*fixed, *options, examples / "digits_cnn.onnx").json
        session = onnxruntime.InferenceSession(str(tmp_path / "q.onnx"))
        found = session.run(None, {session.get_inputs()[0].name: x.astype(np.float32)})[0].argmax(1)
        return report, (found == labels).mean(), levels(tmp_path / "q.onnx")

    return run


def levels(path):
    """The number of levels of the input of each layer: those that a Clip leaves of the stored integers."""
    g = onnx.load(path).graph
    made = {o: n for n in g.node for o in n.output}
    constants = {t.name: numpy_helper.to_array(t) for t in g.initializer}
    counts = {}
    for n in g.node:
        if n.op_type not in ("Conv", "Gemm"):
            continue
        value = n.input[0]
        while made[value].op_type in ("DequantizeLinear", "MaxPool", "Reshape", "Flatten", "Transpose"):
            value = made[value].input[0]
        clip = made[value] if made[value].op_type == "Clip" else None
        counts[n.name] = int(constants[clip.input[2]]) - int(constants[clip.input[1]]) + 1 if clip else 256
    return counts


FEW = ("--activation-type", "uint4")


def test_first_and_last_layer_keep_8_bits(job):
    report, edges, counts = job(*FEW)
    plain, none, all_few = job(*FEW, "--edges-type", "none")
    layers = list(counts)  # the second one reads the result of the first, which has 8 bits
    assert report["edge_layers"] == 2 and "edge_layers" not in plain
    assert [counts[layers[0]], counts[layers[-1]]] == [256, 256], counts
    assert {counts[k] for k in layers[2:-1]} == {16} and set(all_few.values()) == {16}, (counts, all_few)
    assert report["outputs"][0]["sqnr_db"] > plain["outputs"][0]["sqnr_db"] + 1 and edges >= none - 0.01, (edges, none)


def test_8_bits_have_no_edges(job):
    report, _, counts = job()
    assert "edge_layers" not in report and set(counts.values()) == {256}


def test_types_by_name_take_precedence(job):
    report, _, counts = job(*FEW, "--activation-type", "uint4:stem_conv_node")
    assert report["edge_layers"] == 1 and counts["stem_conv_node"] == 16


def test_the_summary_says_so(qcalib, examples):
    fixed = ("--data", examples / "digits_calib.h5", "-o", "q.onnx", "--no-report", *FEW)
    out = qcalib(*fixed, examples / "digits_cnn.onnx").out
    assert "edges       2 first and last layers in 8 bits (--edges-type none: as the others)" in out
    assert "edges" not in qcalib(*fixed, "--edges-type", "none", examples / "digits_cnn.onnx").out.split("written")[0].replace("--edges-type=none", "")
