# SPDX-License-Identifier: Apache-2.0
"""--weight-rounding and --bias-correction: what they gain, what they say, and that turned off they change nothing."""
import pytest

OFF = ("--weight-rounding", "nearest", "--bias-correction", "off")


@pytest.fixture
def quantize(qcalib, examples, tmp_path):
    def run(name, *options):
        r = qcalib("--data", examples / "digits_calib.h5", *options, "--json", "--no-report", "-o", f"{name}.onnx", examples / "digits_cnn.onnx")
        return r.json, (tmp_path / f"{name}.onnx").read_bytes()

    return run


def weights(report):
    return [l for l in report["layers"] if l["kind"] == "weight"]


def test_output_comes_nearer(quantize):
    nearest, _ = quantize("nearest", *OFF)
    both, _ = quantize("both")
    assert both["outputs"][0]["sqnr_db"] > nearest["outputs"][0]["sqnr_db"]


def test_report_says_what_was_done(quantize):
    both, _ = quantize("both")
    assert weights(both)
    for l in weights(both):
        r = l["weight_rounding"]
        assert r["reason"] is None and r["judged_on"] == "held back" and r["blocks"] == 1
        assert r["error"] <= r["error_nearest"]
        assert 0 < l["bias_correction"]["rms"] <= l["bias_correction"]["max"]
        assert (r["method"] == "compensated") == (r["outputs_nearest"] < r["outputs"])
    assert any(l["weight_rounding"]["method"] == "compensated" for l in weights(both))


def test_off_takes_no_moments(quantize):
    report, off = quantize("off", *OFF)
    assert all(l["weight_rounding"] is None and l["bias_correction"] is None for l in weights(report))
    assert report["timing"]["rounding_seconds"] == 0
    nearest, corrected = quantize("corrected", "--weight-rounding", "nearest")
    assert corrected != off
    assert all(l["weight_rounding"]["method"] == "nearest" and l["bias_correction"] for l in weights(nearest))
