# SPDX-License-Identifier: Apache-2.0
"""Advice has a price, its command repeats the job with its files, and there is none where nothing that matters is lost."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

JOB = ("--method", "mse", "--samples", 64, "--equalize", "off", "--scale-channels", "off")


def data(examples):
    return ("--data", examples / "digits_calib.h5")


@pytest.fixture
def advised(qcalib, examples, tmp_path):
    """A job that loses much: weights of 3 bits."""
    job = (*data(examples), *JOB, "--weight-type", "int3", "--effort", "low", "--advice", "on")
    run = qcalib(*job, "-o", "q.onnx", "--report", "r", examples / "digits_cnn.onnx")
    return run, json.loads((tmp_path / "r/report.json").read_text())


def test_the_price_is_that_of_the_file(advised, qcalib, tmp_path):
    run, report = advised
    assert report["advice"]
    before = report["cost"]
    line = run.out.split("advice ")[1].splitlines()[0]
    best = report["advice"][0]
    said = re.search(r"([\d.]+) x the latency \(estimated\), ([+-]\d+) % bytes", line)
    assert said, line
    assert float(said[1]) == pytest.approx(best["cost"]["latency"] / before["latency"], abs=0.0051)
    assert float(said[2]) == pytest.approx(100 * (best["cost"]["bytes"] / before["bytes"] - 1), abs=0.51)
    for advice in report["advice"][:3]:
        words = advice["command"]
        assert "--output=q.onnx" in words and "--report=r" in words and "--samples=64" in words, words
        qcalib(*words[1:], "--advice", "off")
        then = json.loads((tmp_path / "r/report.json").read_text())
        assert then["cost"] == advice["cost"] and then["cost"]["bytes"] == (tmp_path / "q.onnx").stat().st_size
        after = advice["measured"]["outputs"][0]["sqnr_db_after"]
        assert then["outputs"][0]["sqnr_db"] == pytest.approx(after, abs=1e-6), words


def test_a_command_without_a_report_has_none(qcalib, examples):
    job = (*data(examples), *JOB, "--weight-type", "int3", "--effort", "low", "--advice", "on", "--json", "--no-report")
    report = qcalib(*job, examples / "digits_cnn.onnx").json
    words = report["advice"][0]["command"]
    assert "--no-report" in words and not any(w.startswith("--output") for w in words)


def test_none_where_nothing_is_lost(qcalib, examples):
    """8 bits lose neither decibels nor digits; the advice of 3 bits above shows that there would be something to say."""
    job = (*data(examples), *JOB, "--advice", "auto", "--json", "--no-report")
    report = qcalib(*job, examples / "digits_cnn.onnx").json
    assert report["outputs"][0]["sqnr_db"] > 35 and report["advice"] == []
    few = qcalib(*job, "--weight-type", "int4", "--eval", examples / "digits_test.h5", examples / "digits_cnn.onnx").json
    lost = few["accuracy"]["fp32"] - few["accuracy"]["int8"]
    samples = few["accuracy"]["samples"]
    assert 20 < few["outputs"][0]["sqnr_db"] < 35
    assert bool(few["advice"]) == (np.round(lost * samples) > 1), (lost, few["advice"])


def recurrent(folder):
    """An LSTM and a product, which is faster and smaller in float: so small a layer is not worth its own operators."""
    rng = np.random.default_rng(0)
    constants = {"axes": np.array([1])}
    for name, shape in (("w", (1, 96, 16)), ("r", (1, 96, 24)), ("m", (24, 10))):
        constants[name] = (rng.normal(size=shape) * 0.4).astype(np.float32)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["t", "w", "r"], ["h"], name="lstm", hidden_size=24),
        helper.make_node("Squeeze", ["h", "axes"], ["s"]),
        helper.make_node("MatMul", ["s", "m"], ["y"], name="dense"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 12, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    x = rng.normal(size=(48, 12, 16)) * 10.0 ** -np.linspace(0, 1, 48)[:, None, None]
    np.savez(folder / "x.npz", x=x.astype(np.float32))
    return ("--data", "x.npz", "--json", "--no-report", "--advice", "on", "m.onnx")


@pytest.mark.parametrize("effort", ("low", "normal"))
def test_what_saves_is_taken(effort, qcalib, tmp_path):
    """A product that is slower and larger in integers is in float, also where the batch is not the first dimension
    inside, and nothing is left to advise."""
    report = qcalib(*recurrent(tmp_path), "--effort", effort).json
    assert "dense" in {f["name"] for f in report["float_ops"]} and not report["advice"]
    assert report["cost"]["latency"] == 1 and report["outputs"][0]["sqnr_db"] is None
