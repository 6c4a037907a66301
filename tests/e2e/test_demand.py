# SPDX-License-Identifier: Apache-2.0
"""--min-sqnr and --max-nll: layers are widened until the outputs in ONNX Runtime meet the demand; otherwise the exit
code is 1, and the model is written all the same."""

import json

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from report_page import is_record_of


@pytest.fixture
def digits(qcalib, examples):
    return lambda *more, **how: qcalib(
        "quantize",
        "--data",
        examples / "digits_calib.h5",
        "--method",
        "mse",
        "--samples",
        64,
        "--json",
        *more,
        examples / "digits_cnn.onnx",
        **how,
    )


def sqnr(model, reference, path):
    """Of each output, on all samples, in ONNX Runtime."""
    with h5py.File(path) as f:
        name = next(k for k in f if k not in ("labels", "target"))
        a = f[name].attrs
        x = (f[name][:] * np.float32(a.get("scale", 1)) - np.float32(a.get("mean", 0))) / np.float32(a.get("std", 1))
    sessions = [onnxruntime.InferenceSession(str(m), providers=["CPUExecutionProvider"]) for m in (reference, model)]
    r, y = (s.run(None, {s.get_inputs()[0].name: x.astype(np.float32)}) for s in sessions)
    return [10 * np.log10((a.astype(float) ** 2).sum() / ((a - b).astype(float) ** 2).sum()) for a, b in zip(r, y)]


def test_reasons_say_who_left_an_operator_in_float(digits, examples):
    """Operators that the user skipped, and those that a demand needed."""
    asked = ["--eval", examples / "digits_test.h5", "--no-report", "-o", "a.onnx", "--min-sqnr", 42, "--skip", "stem_conv_node"]
    report = digits(*asked).json
    why = {f["name"]: f["reason"] for f in report["float_ops"]}
    by_job = [name for name, reason in why.items() if reason == "left in float by the job, as by --skip"]
    assert why["stem_conv_node"] == "left in float by --skip"
    assert by_job and {f"--skip={name}" for name in by_job} <= set(report["fallback"]["options"])


def test_outputs_have_the_sqnr_that_is_asked_for(digits, examples, tmp_path):
    asked = ["--eval", examples / "digits_test.h5", "--no-report", "-o", "a.onnx", "--min-sqnr"]
    report = digits(*asked, 42).json
    found, path = report["demand"], report["fallback"]
    assert found["met"] and path["met"] and found["min_sqnr"] == path["min_sqnr"] == 42 and found["samples"] == 597
    assert sqnr(tmp_path / "a.onnx", examples / "digits_cnn.onnx", examples / "digits_test.h5") == [
        pytest.approx(found["sqnr_db"], abs=0.3)
    ]
    first, *steps = path["steps"]
    (chosen,) = [s for s in steps if s["chosen"]]
    assert first["sqnr_db"] < 42 <= chosen["sqnr_db"] == found["sqnr_db"]
    assert all(s["met"] == (s["sqnr_db"] >= 42) for s in path["steps"] if s["sqnr_db"] is not None)
    assert "--min-sqnr" not in path["command"]
    held = digits(*asked, 20).json
    assert held["fallback"] is None and held["demand"]["met"] and held["demand"]["sqnr_db"] == first["sqnr_db"]


def test_without_labels_calibration_samples_serve(digits):
    assert digits("--no-report", "--min-sqnr", 20).json["demand"]["samples"] == 64


def test_what_cannot_be_met_leaves_the_model(digits, tmp_path):
    done = digits("--min-sqnr", 300, "-o", "b.onnx", "--report", "b.report", code=1)
    assert (
        {"b.onnx", "b.report/report.json"} <= set(done.new_files)
        and "--min-sqnr 300" in done.err
        and "'logits'" in done.err
    )
    report = json.loads((tmp_path / "b.report/report.json").read_text())
    assert not report["demand"]["met"] and not report["fallback"]["met"] and len(report["fallback"]["steps"]) > 1
    digits("--no-report", "-o", "plain.onnx")
    assert (tmp_path / "b.onnx").read_bytes() == (tmp_path / "plain.onnx").read_bytes()
    assert report["verdict"]["grade"] == "poor" and is_record_of(tmp_path / "b.report/report.html", report)


def test_nll(digits, examples):
    asked = ["--weight-type", "int4", "--eval", examples / "digits_test.h5", "--no-report", "--max-nll"]
    first = digits(*asked, 9).json
    between = first["demand"]["nll"] - 0.001
    report = digits(*asked, between).json
    assert (
        first["fallback"] is None
        and report["fallback"]["met"]
        and report["demand"]["nll"] <= between < first["demand"]["nll"]
    )
    assert "--max-nll" in digits(*asked, 0, code=1).err


def test_a_demand_finer_than_one_sample_says_so(digits, examples):
    """One of 597 samples is 0.17 points."""
    test = ("--eval", examples / "digits_test.h5", "--no-report")
    fine = digits(*test, "--max-drop", "0.1")
    assert "--max-drop 0.1 is less than one of the 597 samples of --eval, 0.168 points: none may be lost" in fine.err
    assert "less than one" not in digits(*test, "--max-drop", "0.2").err


def test_what_they_need(digits, qcalib, examples):
    assert "--eval" in digits("--max-nll", 1, code=2).err
    qcalib(
        "collect", "--data", examples / "digits_calib.h5", "--samples", 8, examples / "digits_cnn.onnx", "-o", "s.h5"
    )
    for option in (("--min-sqnr", 10), ("--advice", "on")):
        done = qcalib("quantize", "--stats", "s.h5", *option, examples / "digits_cnn.onnx", code=2)
        assert option[0] in done.err and "--data" in done.err


@pytest.mark.integers
def test_each_output_counts_on_its_own(qcalib, tmp_path):
    """A large output that is easy and a small one that is hard: one number over both would not see the second."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(32, 8)).astype(np.float32)
    hard = rng.normal(size=(8, 8)).astype(np.float32)
    hard[:, :4] *= 100  # one scale for channels of very different sizes, and only the small ones are read
    pick = np.zeros((8, 4), np.float32)
    pick[4:] = np.eye(4)
    nodes = [
        helper.make_node("MatMul", ["x", "easy"], ["large"], name="large"),
        helper.make_node("MatMul", ["x", "hard"], ["between"], name="first"),
        helper.make_node("MatMul", ["between", "pick"], ["small"], name="second"),
    ]
    weights = [
        onnx.numpy_helper.from_array(w, n)
        for n, w in (("easy", 1000 * np.eye(8, dtype=np.float32)), ("hard", hard), ("pick", pick))
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", k]) for n, k in (("large", 8), ("small", 4))],
        weights,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "two.onnx"
    )
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = x
    asked = ["quantize", "--data", "x.h5", "--effort", "low", "--no-report", "--json", "-o", "q.onnx", "--min-sqnr"]
    report = qcalib(*asked, 1, "two.onnx").json
    large, small = sqnr(tmp_path / "q.onnx", tmp_path / "two.onnx", tmp_path / "x.h5")
    assert (
        report["demand"]["output"] == "small"
        and report["demand"]["sqnr_db"] == pytest.approx(small, abs=0.1)
        and large > small + 10
    )
    report = qcalib(*asked, 30, "two.onnx").json
    assert report["demand"]["met"] and min(sqnr(tmp_path / "q.onnx", tmp_path / "two.onnx", tmp_path / "x.h5")) >= 30
    assert report["sensitivity"][0]["node"] == "second" and any("second" in o for o in report["fallback"]["options"])
