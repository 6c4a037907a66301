# SPDX-License-Identifier: Apache-2.0
"""Advice has a price, its command repeats the job with its files, and there is none where nothing that matters is lost."""

import json
import re

import numpy as np
import pytest

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
