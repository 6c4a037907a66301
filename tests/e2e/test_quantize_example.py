# SPDX-License-Identifier: Apache-2.0
"""The shipped example through the whole path: no download, no QCALIB_DATA."""

import json
import math

import h5py
import numpy as np
import pytest
from measured_models import METHODS, Data, infer, session, spread, sqnr, top1

from quantized_graph import QuantizedGraph, check_file, check_kept, check_names, check_pairs, check_weights


@pytest.fixture
def digits(qcalib, examples):
    """digits(OPTION, ...): quantizes the example in the test's folder."""
    return lambda *more, **how: qcalib(
        "quantize", "--data", examples / "digits_calib.h5", *more, examples / "digits_cnn.onnx", **how
    )


@pytest.mark.parametrize("method", ("default", *METHODS))
def test_accuracy_in_onnx_runtime(method, digits, examples, onnxruntime, tmp_path):
    """590 of 597 are right in float. What the report says of the int8 file is what ONNX Runtime finds, old and new."""
    how = ["--method", method] if method != "default" else []
    report = digits(*how, "--eval", examples / "digits_test.h5", "--json").json
    test = Data(examples / "digits_test.h5")
    outputs, said = onnxruntime.run(tmp_path / "digits_cnn.int8.onnx", {test.key: test.inputs}, tmp_path)
    assert said == ""
    found = top1([outputs["logits"]], test.labels)
    assert report["accuracy"]["samples"] == len(test.labels) == 597
    assert abs(100 * report["accuracy"]["fp32"] - 100 * 590 / 597) < 1e-9
    assert abs(100 * report["accuracy"]["int8"] - found) <= 0.2
    assert found >= 100 * 590 / 597 - 0.5


def test_graph(digits, examples, tmp_path):
    digits()
    path = tmp_path / "digits_cnn.int8.onnx"
    check_file(path)
    g = QuantizedGraph(path)
    check_names(g)
    check_pairs(g)
    check_weights(g)
    check_kept(g, examples / "digits_cnn.onnx")
    assert g.quantized("Conv", "Gemm") == g.of("Conv", "Gemm")
    assert not g.count()["BatchNormalization"], "batch norm is folded"
    session(path, optimized=tmp_path / "optimized.onnx")
    after = QuantizedGraph(tmp_path / "optimized.onnx").count()
    assert after["QLinearConv"] == g.count()["Conv"] and after["Conv"] == after["FusedConv"] == 0
    assert after["QLinearAdd"] == 1 and after["QGemm"] == 2


def all_calibrate(samples, count):
    return samples[spread(len(samples), count)]


def others_calibrate(samples, count):
    """The samples that --samples 100 leaves out."""
    rest = np.delete(samples, spread(len(samples), 100), axis=0)
    return rest[spread(len(rest), count)]


@pytest.mark.parametrize(
    "more, measured_on, said, data, chosen",
    (
        ((), "calibration", "over 16 samples\n", "digits_calib.h5", all_calibrate),
        (("--samples", "100"), "not calibrated", "over 16 samples that did not calibrate", "digits_calib.h5", others_calibrate),
        (("--samples", "290"), "calibration", "over 16 samples\n", "digits_calib.h5", all_calibrate),
        (("--eval", "digits_test.h5"), "evaluation", "over 16 samples of --eval", "digits_test.h5", all_calibrate),
    ),
)
def test_report_is_what_onnx_runtime_measures(more, measured_on, said, data, chosen, digits, examples, tmp_path):
    more = [examples / m if m.endswith(".h5") else m for m in more]
    assert said in digits(*more).out
    report = digits(*more, "--json").json
    assert report["measured_on"] == measured_on and report["measured_samples"] == 16
    chosen = chosen(Data(examples / data).inputs, 16)
    reference, outputs = (
        infer(p, chosen)[0] for p in (examples / "digits_cnn.onnx", tmp_path / "digits_cnn.int8.onnx")
    )
    assert abs(report["outputs"][0]["sqnr_db"] - sqnr(reference, outputs)[0]) < 0.5
    assert abs(report["outputs"][0]["max_abs"] - np.abs(reference[0] - outputs[0]).max()) < 0.05


def test_samples_that_statistics_have_seen_are_not_called_new(digits, qcalib, examples, tmp_path):
    data = examples / "digits_calib.h5"
    qcalib("collect", "--data", data, examples / "digits_cnn.onnx", "-o", "all.stats.h5", "-q")
    assert "over 16 samples\n" in digits("--stats", "all.stats.h5", "--samples", "100").out


def test_parameters_in_file_and_report_are_the_same(digits, tmp_path):
    """And the observed range is that of the data, which numpy finds as well."""
    report = digits("--json", "--method", "minmax").json
    g = QuantizedGraph(tmp_path / "digits_cnn.int8.onnx")
    layers = {l["name"]: l for l in report["layers"]}
    first = layers["input"]
    q = next(n for n in g.of("QuantizeLinear") if n.input[0] == "input")
    assert np.float32(first["scale"]) == g.value(q.input[1]) and first["zero_point"] == g.value(q.input[2])
    scales = {float(s) for n in g.of("QuantizeLinear") for s in g.scale(n)}
    assert {float(np.float32(l["scale"])) for l in report["layers"] if l["kind"] == "activation"} == scales
    low, high = first["observed"]["min"], first["observed"]["max"]
    assert math.isclose(first["scale"], (high - low) / 255, rel_tol=1e-6)


def test_observed_is_what_numpy_sees(digits, examples):
    layers = {l["name"]: l for l in digits("--json", "--method", "minmax").json["layers"]}
    x = Data(examples / "digits_calib.h5").inputs
    seen = layers["input"]["observed"]
    assert (np.float32(seen["min"]), np.float32(seen["max"]), seen["count"]) == (x.min(), x.max(), x.size)
    logits = layers.get("logits")
    assert logits is None, "the last dense layer's result stays in float"


def test_files_of_the_report(digits, tmp_path):
    done = digits("--eval", str(tmp_path / "test.h5"), code=3)
    assert done.new_files == []
    done = digits()
    assert done.new_files == [
        "digits_cnn.int8.onnx",
        "digits_cnn.int8.report",
        "digits_cnn.int8.report/layers.csv",
        "digits_cnn.int8.report/report.html",
        "digits_cnn.int8.report/report.json",
    ]
    assert 3 < len(done.out.splitlines()) <= 15 and done.err == ""
    report = json.loads((tmp_path / "digits_cnn.int8.report/report.json").read_text())
    rows = (tmp_path / "digits_cnn.int8.report/layers.csv").read_text().splitlines()
    assert len(rows) == 1 + len(report["layers"])
    for key in (
        "tool",
        "version",
        "command",
        "model",
        "data",
        "options",
        "accuracy",
        "float_ops",
        "warnings",
        "layers",
    ):
        assert key in report
    for key in (
        "name",
        "op",
        "type",
        "scale",
        "zero_point",
        "axis",
        "method",
        "observed",
        "chosen",
        "clipped_fraction",
        "sqnr_db",
        "cosine",
        "max_abs",
        "saturated_fraction",
        "accumulator_bits",
    ):
        assert all(key in l for l in report["layers"]), key


def test_sha256(digits, examples):
    import hashlib

    report = digits("--json").json
    for key, name in (("model", "digits_cnn.onnx"), ("data", "digits_calib.h5")):
        assert report[key]["sha256"] == hashlib.sha256((examples / name).read_bytes()).hexdigest()


def test_chosen_samples(digits, examples, qcalib, tmp_path):
    """--samples N takes floor(j * all / N): the same file as from a data set of just these."""
    digits("--samples", 50, "-o", "some.onnx")
    with h5py.File(examples / "digits_calib.h5") as f, h5py.File(tmp_path / "few.h5", "w") as g:
        d = g.create_dataset("input", data=f["input"][spread(300, 50)])
        d.attrs.update(f["input"].attrs)
    qcalib("--data", "few.h5", examples / "digits_cnn.onnx", "-o", "few.onnx")
    assert (tmp_path / "some.onnx").read_bytes() == (tmp_path / "few.onnx").read_bytes()
    digits("-o", "all.onnx")
    assert (tmp_path / "some.onnx").read_bytes() != (tmp_path / "all.onnx").read_bytes()
    digits("--samples", 50, "--seed", 1, "-o", "drawn.onnx")
    digits("--samples", 50, "--seed", 1, "-o", "again.onnx")
    assert (
        (tmp_path / "drawn.onnx").read_bytes()
        == (tmp_path / "again.onnx").read_bytes()
        != (tmp_path / "some.onnx").read_bytes()
    )
