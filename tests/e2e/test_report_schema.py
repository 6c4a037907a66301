# SPDX-License-Identifier: Apache-2.0
"""The schema of report.json. The fixture qcalib (conftest.py) validates the report of every job of these tests; here the schema
is seen to name every key, and to refuse what is wrong."""

import copy
import json

import pytest
import report_schema

JOBS = {
    "plain": [],
    "everything": ["--eval", "EVAL", "--sensitivity", "--advice=on", "--weight-type=int4"],
    "demand": ["--weight-type=int3", "--min-sqnr=25", "--effort=low"],
    "size": ["--size=40%"],
    "accumulator": ["--accumulator=14:saturate"],
    "dynamic": ["--activation-type=dynamic"],
    "fp8": ["--weight-type=float8e4m3fn", "--activation-type=float8e4m3fn"],
    "channels": ["--per-channel=activations,weights", "--method=kl"],
    "channels scaled": ["--equalize=on", "--scale-channels=smooth"],
}


@pytest.mark.parametrize("name", JOBS)
def test_every_key_is_named(name, qcalib, examples, tmp_path):
    options = [str(examples / "digits_test.h5") if o == "EVAL" else o for o in JOBS[name]]
    qcalib("quantize", "--data", examples / "digits_calib.h5", "--report", "r", "-o", "q.onnx", *options, examples / "digits_cnn.onnx")
    report = json.loads((tmp_path / "r/report.json").read_text())
    report_schema.check(report)
    assert report_schema.unnamed(report) == [] and report["schema"] == 1


def test_what_is_wrong_is_refused(qcalib, examples):
    report = qcalib("quantize", "--data", examples / "digits_calib.h5", "--no-report", "--prefer", "integers", "-o", "q.onnx", "--json", examples / "digits_cnn.onnx").json
    wrong = {
        "a missing key": lambda r: r.pop("layers"),
        "a text for a number": lambda r: r["layers"][0].update(sqnr_db="31"),
        "an unknown kind": lambda r: r["layers"][0].update(kind="bias"),
        "a negative count": lambda r: r.update(quantized_ops=-1),
        "a curve of numbers": lambda r: r["layers"][0]["solver"].update(curve=[1, 2]),
        "another version": lambda r: r.update(schema=2),
        "an advice without a command": lambda r: r.update(cheaper={"action": "x"}),
        "a scale that is a text": lambda r: r["layers"][1].update(scale="0.1"),
    }
    for what, change in wrong.items():
        broken = copy.deepcopy(report)
        change(broken)
        assert report_schema.breaches(broken), what
