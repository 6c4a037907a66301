# SPDX-License-Identifier: Apache-2.0
"""Changes that cost nothing at run time: the default job takes those that gain on other samples, and says so."""

import json
import re

import numpy as np
import onnx
import pytest
from measured_models import Data, infer, sqnr
from onnx import helper, numpy_helper


def wide(path, folder, factor=100):
    """digits_cnn with a channel that is a hundred times as large as before; the next layer takes that back."""
    model = onnx.load(path)
    for t in model.graph.initializer:
        value = numpy_helper.to_array(t).copy()
        if t.name in ("res1_bn_weight", "res1_bn_bias"):
            value[3] *= factor
        if t.name == "res2_weight":
            value[:, 3] /= factor
        t.CopyFrom(numpy_helper.from_array(value, t.name))
    onnx.save(model, folder / "wide.onnx")
    return folder / "wide.onnx"


@pytest.fixture
def job(qcalib, examples, tmp_path):
    """job(MODEL, OPTION, ...): the report of a job on the shipped samples, and the SQNR of its file on the test samples."""

    def run(model, *options):
        qcalib("--data", examples / "digits_calib.h5", "-o", "q.onnx", "--report", "r", *options, model)
        x = Data(examples / "digits_test.h5", "").inputs
        report = json.loads((tmp_path / "r/report.json").read_text())
        return report, sqnr(infer(model, x, 1)[0], infer(tmp_path / "q.onnx", x, 1)[0])[0], (tmp_path / "q.onnx").read_bytes()

    return run


def unequal(folder):
    """Four convolutions with channels of very different sizes, their file and samples."""
    rng, width = np.random.default_rng(2), 16
    weights = [rng.uniform(-1, 1, (width, c, 3, 3)) * np.sqrt(6 / (9 * c)) for c in (3, width, width, width)]
    for made, read in zip(weights, weights[1:]):
        factors = np.exp(rng.normal(size=width))
        made *= factors[:, None, None, None]
        read /= factors[None, :, None, None]
    nodes = []
    for i in range(len(weights)):
        nodes.append(helper.make_node("Conv", [f"x{i}", f"w{i}"], [f"c{i}"], name=f"conv{i}", pads=[1] * 4, strides=[1 + i % 2] * 2))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"x{i + 1}"]))
    nodes.append(helper.make_node("GlobalAveragePool", [f"x{len(weights)}"], ["y"]))
    of = lambda name, shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    constants = [numpy_helper.from_array(w.astype(np.float32), f"w{i}") for i, w in enumerate(weights)]
    graph = helper.make_graph(nodes, "unequal", [of("x0", ["n", 3, 16, 16])], [of("y", ["n", width, 1, 1])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "unequal.onnx")
    np.savez(folder / "unequal.npz", x0=rng.normal(size=(96, 3, 16, 16)).astype(np.float32))
    return folder / "unequal.onnx", folder / "unequal.npz"


def dense(folder):
    """A small MLP with inputs of few directions, which ONNX Runtime computes faster in float; samples, and others."""
    rng, width = np.random.default_rng(3), 32
    nodes, weights, x = [], [], "x"
    for i, outputs in enumerate((width, width, width, 10)):
        made = rng.normal(size=(width, outputs)) * np.sqrt(2 / width)
        weights.append(numpy_helper.from_array(made.astype(np.float32), f"w{i}"))
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"m{i}"], name=f"dense{i}"))
        nodes.append(helper.make_node("Relu", [f"m{i}"], [f"r{i}"]))
        x = f"r{i}"
    of = lambda name, size: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 16, size])
    graph = helper.make_graph(nodes[:-1], "dense", [of("x", width)], [of("m3", 10)], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "dense.onnx")
    mix = rng.normal(size=(6, width))
    for name in ("dense", "other"):
        x = rng.normal(size=(96, 16, 6)) @ mix + 0.1 * rng.normal(size=(96, 16, width))
        np.savez(folder / f"{name}.npz", x=x.astype(np.float32))
    return folder / "dense.onnx", folder / "dense.npz", folder / "other.npz"


def kept(report):
    return [f["name"] for f in report["free_changes"] if f["kept"]]


def test_channels_of_very_different_sizes(job, examples, tmp_path):
    model = wide(examples / "digits_cnn.onnx", tmp_path)
    report, better, content = job(model)
    assert kept(report) == ["equalize"]
    without, plain, _ = job(model, "--effort", "low")
    assert without.get("free_changes", []) == [] and better > plain + 10, (better, plain)
    for options in (("--threads", 1), ("--threads", 3)):
        assert job(model, *options)[2] == content


def test_ideas_that_gain_are_compared_with_each_other(qcalib, tmp_path):
    """Both ways to make channels equal gain on the samples of a probe: both are made in full, and run on the same samples."""
    model, data = unequal(tmp_path)
    report = qcalib("--data", data, "--prefer", "integers", "--json", "--no-report", "-o", "q.onnx", model).json
    tried = {f["name"]: f for f in report["free_changes"] if f["name"] in ("equalize", "smooth")}
    assert len(tried) == 2 and all(f["gain_db"] > 10 for f in tried.values()), tried
    assert len({f["samples"] for f in tried.values()}) == 1, tried
    (best,) = [f for f in tried.values() if f["kept"]]
    assert best["gain_db"] == max(f["gain_db"] for f in tried.values()), tried


def test_an_option_that_is_given_is_not_overruled(job, examples, tmp_path):
    model = wide(examples / "digits_cnn.onnx", tmp_path)
    assert job(model, "--equalize", "off")[0].get("free_changes", []) == []
    few = ("--weight-type", "int3", "--weight-method", "mse")
    tried = job(examples / "digits_cnn.onnx", *few)[0].get("free_changes", [])
    assert {f["name"] for f in tried} <= {"float_operators"}, tried


def test_weights_of_few_bits(job, examples):
    for bits in ("int2", "int3"):
        report, better, _ = job(examples / "digits_cnn.onnx", "--weight-type", bits)
        _, plain, _ = job(examples / "digits_cnn.onnx", "--weight-type", bits, "--effort", "low")
        tried = {f["name"] for f in report["free_changes"]}
        assert tried >= {"weight_method", "full_range"} and len(set(kept(report)) - {"float_operators"}) <= 1
        assert better > plain - 0.3, (bits, better, plain)


def test_four_samples_are_enough_for_weights_of_few_bits(job, examples):
    """Each has many rows for the second moments. Channels and operators need eight samples."""
    how = ("--weight-type", "int2", "--samples", 4)
    report, better, _ = job(examples / "digits_cnn.onnx", *how)
    assert {f["name"] for f in report["free_changes"]} == {"weight_method", "full_range"} and len(kept(report)) == 1
    assert better > job(examples / "digits_cnn.onnx", *how, "--effort", "low")[1] + 1
    assert "free_changes" not in job(examples / "digits_cnn.onnx", "--weight-type", "int2", "--samples", 2)[0]


def test_weights_of_a_network_in_float(qcalib, tmp_path):
    """All its noise is that of 8-bit weights: they get ranges by the error of the outputs, and a second rounding."""
    model, data, other = dense(tmp_path)
    how = ("--data", data, "--json", "--no-report", "--advice", "off")
    plain = ("--effort", "low", "--weight-rounding", "nearest")
    report = qcalib(*how, "--threads", 1, "-o", "q.onnx", model).json
    assert report["integer_share"] == 0 and kept(report) == ["full_range"]
    assert report["rounded_on_what_is_read"]["kept"]
    qcalib(*how, "--threads", 3, "-o", "again.onnx", model)
    assert (tmp_path / "q.onnx").read_bytes() == (tmp_path / "again.onnx").read_bytes()
    assert "free_changes" not in qcalib(*how, "--weight-method", "mse", "-o", "given.onnx", model).json
    qcalib(*how, *plain, "-o", "nearest.onnx", model)
    x = np.load(other)["x"]
    better, worse = (sqnr(infer(model, x)[0], infer(tmp_path / name, x)[0])[0] for name in ("q.onnx", "nearest.onnx"))
    assert better > worse + 2, (better, worse)


def test_nothing_is_tried_where_nothing_can_gain(job, examples):
    report, _, content = job(examples / "digits_cnn.onnx")
    assert report.get("free_changes", []) == []
    assert job(examples / "digits_cnn.onnx", "--effort", "low")[2] == content


def test_good_outputs_are_enough_for_channels_of_similar_sizes(job, examples, tmp_path):
    """With 35 dB, channels must differ by more."""
    model = wide(examples / "digits_cnn.onnx", tmp_path, 4)
    report, db, _ = job(model)
    assert report.get("free_changes", []) == [] and db > 35, (report["free_changes"], db)
    tried = [f["name"] for f in job(model, "--effort", "high")[0]["free_changes"]]
    assert {"equalize", "smooth"} <= set(tried), tried


def test_a_memory_limit_without_room_for_them_says_so(qcalib, examples):
    """The file may differ from that of a job with more memory, so a warning and the report say what was left out."""
    job = ("--data", examples / "digits_calib.h5", "--weight-type", "int3", "--json", "--no-report", examples / "digits_cnn.onnx")
    tight = qcalib("--memory-limit", "60M", *job)
    said = [w for w in tight.json["warnings"] if "changes that cost nothing at run time are not tried: --memory-limit" in w]
    assert len(said) == 1 and said[0] in tight.err
    left = tight.json["free_changes"]
    assert {f["name"] for f in left} >= {"equalize", "smooth", "weight_method", "full_range", "float_operators"}
    assert all("--memory-limit" in f["reason"] and not f["kept"] and f["gain_db"] is None for f in left)
    ample = qcalib("--memory-limit", "4G", *job)
    assert kept(ample.json) and not any("reason" in f for f in ample.json["free_changes"])
    low = qcalib("--memory-limit", "60M", "--effort", "low", *job)
    assert "are not tried" not in low.err and low.json.get("free_changes", []) == []


def test_a_command_of_advice_gives_its_figure(qcalib, examples, tmp_path):
    job = ("--data", examples / "digits_calib.h5", "--weight-type", "int3", "--advice", "on", "--json", "--no-report")
    report = qcalib(*job, "-o", "q.onnx", examples / "digits_cnn.onnx").json
    assert kept(report) and report["advice"]
    for advice in report["advice"][:2]:
        words = advice["command"]
        assert words[0] == "qcalib" and "--effort=low" in words
        then = qcalib(*words[1:], "--advice", "off", "--json", "--no-report", "-o", "then.onnx").json
        said = advice["measured"]["outputs"][0]["sqnr_db_after"]
        assert then["outputs"][0]["sqnr_db"] == pytest.approx(said, abs=1e-6), words


def test_the_summary_names_them(qcalib, examples, tmp_path):
    model = wide(examples / "digits_cnn.onnx", tmp_path)
    run = qcalib("--data", examples / "digits_calib.h5", "-o", "q.onnx", "--no-report", model)
    (line,) = [l for l in run.out.splitlines() if l.startswith("improved")]
    gain = re.fullmatch(r"improved +--equalize=free: \+([\d.]+) dB on \d+ samples, at no cost at run time", line)
    assert gain and float(gain[1]) > 10, line
    assert np.isfinite(float(gain[1]))


def test_compare_knows_scaled_channels(qcalib, examples, tmp_path):
    """Layers whose channels have other factors are named, with the factors, and are not among the worst."""
    model, test = wide(examples / "digits_cnn.onnx", tmp_path), examples / "digits_test.h5"
    qcalib("--data", examples / "digits_calib.h5", "-o", "q.onnx", "--no-report", model)
    text = qcalib("compare", model, "q.onnx", "--data", test, "--html", "c.html").out
    (line,) = [l for l in text.splitlines() if l.startswith("not compared") and "res1" in l]
    assert float(re.search(r"scaled by ([\d.]+) to", line)[1]) < 0.1, line
    assert all("res1_bn" not in l for l in text.splitlines() if re.match(r" +-?[\d.]+ ", l))
    layers = {l["name"]: l for l in qcalib("compare", model, "q.onnx", "--data", test, "--json").json["layers"]}
    assert layers["res1_bn"]["channels_scaled"]["most"] > 1.2
    assert all(l["sqnr_db"] > 30 for l in layers.values() if "channels_scaled" not in l)
    plain = examples / "digits_cnn.onnx"
    qcalib("--data", examples / "digits_calib.h5", "-o", "p.onnx", "--no-report", "--weight-type", "int4", plain)
    assert "not compared" not in qcalib("compare", plain, "p.onnx", "--data", test).out


@pytest.mark.parametrize("options, kind", [((), "smooth"), (("--weight-type", "int3"), "equalize"), (("--prefer", "speed", "--effort", "high"), "smooth")])
def test_another_order_of_the_samples_gives_the_same_file(options, kind, qcalib, tmp_path):
    """Probes, extremes of channels and effects of operators are measured on a part of the samples, which their keys
    choose."""
    model, data = unequal(tmp_path)
    x = np.load(data)["x0"]
    files = []
    for seed in (None, 1, 2):
        np.savez(tmp_path / "d.npz", x0=x if seed is None else np.random.default_rng(seed).permutation(x))
        report = qcalib("--data", "d.npz", "--json", "--no-report", "-o", "q.onnx", *options, model).json
        files.append((tmp_path / "q.onnx").read_bytes())
    assert kind in {c["name"] for c in report["free_changes"]}, report["free_changes"]
    assert files[0] == files[1] == files[2]
