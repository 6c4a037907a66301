# SPDX-License-Identifier: Apache-2.0
"""--weight-rounding and --bias-correction: their gains, their messages, and no effect if turned off."""

import signal
import subprocess
import time

import h5py
import numpy as np
import onnx
import pytest
from measured_models import infer
from onnx import TensorProto, helper, numpy_helper

OFF = ("--weight-rounding", "nearest", "--bias-correction", "off")


@pytest.fixture
def quantize(qcalib, examples, tmp_path):
    def run(name, *options):
        r = qcalib(
            "--data",
            examples / "digits_calib.h5",
            *options,
            "--json",
            "--no-report",
            "-o",
            f"{name}.onnx",
            examples / "digits_cnn.onnx",
        )
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


def test_weights_that_are_fine_enough_are_not_solved(quantize):
    """16-bit weights beside 8-bit inputs: the nearest ones are 40 dB below what the inputs' rounding adds. Depthwise layers are no work.
    Where inputs are real, nothing hides the errors."""
    for activations, solved in {"uint8": {"depthwise_weight"}, "none": None}.items():
        report, _ = quantize("q", "--weight-type", "int16", "--activation-type", activations, "--method", "mse")
        of = {l["name"]: l["weight_rounding"] for l in weights(report)}
        compensated = {name for name, r in of.items() if r["method"] == "compensated"}
        assert len(of) == 7 and (compensated == solved if solved else len(compensated) > 4)
        assert all(r["error"] == r["error_nearest"] > 0 for name, r in of.items() if name not in compensated)


def test_off_takes_no_moments(quantize):
    report, off = quantize("off", *OFF)
    assert all(l["weight_rounding"] is None and l["bias_correction"] is None for l in weights(report))
    assert report["timing"]["rounding_seconds"] == 0
    nearest, corrected = quantize("corrected", "--weight-rounding", "nearest")
    assert corrected != off
    assert all(l["weight_rounding"]["method"] == "nearest" and l["bias_correction"] for l in weights(nearest))


@pytest.fixture
def products(tmp_path):
    """Two matrix products without biases, of two dimensions or three; samples whose mean is not zero."""
    random = np.random.default_rng(1)
    value = helper.make_tensor_value_info

    def make(*rows):
        weights = [
            numpy_helper.from_array(random.normal(size=s).astype("f4"), n)
            for n, s in (("w1", (24, 16)), ("w2", (16, 5)))
        ]
        nodes = [
            helper.make_node("MatMul", ["x", "w1"], ["a"], "first"),
            helper.make_node("Relu", ["a"], ["r"], "relu"),
            helper.make_node("MatMul", ["r", "w2"], ["y"], "last"),
        ]
        graph = helper.make_graph(
            nodes,
            "g",
            [value("x", TensorProto.FLOAT, ["N", *rows, 24])],
            [value("y", TensorProto.FLOAT, ["N", *rows, 5])],
            weights,
        )
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8),
            tmp_path / "products.onnx",
        )
        x = (1 + random.normal(size=(256, *rows, 24))).astype("f4")
        with h5py.File(tmp_path / "x.h5", "w") as f:
            f["x"] = x
        return tmp_path / "products.onnx", tmp_path / "x.h5", x

    return make


def to_nearest(how):
    """Options: --bias-correction `how` and the file of that name."""
    return "--weight-rounding", "nearest", "--bias-correction", how, "--no-report", "-o", f"{how}.onnx"


def mean_error(want, got):
    return float(np.abs((got.astype("f8") - want).reshape(-1, want.shape[-1]).mean(0)).max())


@pytest.mark.integers
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_product_without_a_bias_gets_one(form, products, qcalib, tmp_path):
    model, samples, x = products()
    want, ops, off = infer(model, x)[0][0], {}, {}
    for how in ("on", "off"):
        out = tmp_path / f"{how}.onnx"
        qcalib("--data", samples, *to_nearest(how), "--format", form, model)
        ops[how] = {n.op_type for n in onnx.load(out).graph.node}
        got = infer(out, x)[0][0]
        qcalib("run", out, "--data", samples, "-o", f"{how}.h5")
        with h5py.File(tmp_path / f"{how}.h5") as f:
            assert f["y"][:].tobytes() == got.tobytes()
        off[how] = mean_error(want, got)
    assert {"Gemm", "QGemm"} & ops["on"] and not {"Gemm", "QGemm"} & ops["off"]
    assert off["on"] < 0.5 * off["off"]


def corrected(report):
    return [l["bias_correction"] is not None for l in weights(report)]


@pytest.mark.integers
def test_product_of_three_dimensions_gets_an_add_where_it_is_read_in_float(products, qcalib, tmp_path):
    """The first product is stored as integers, which an Add in float would end; the last is an output in float."""
    model, samples, x = products(3)
    want, off = infer(model, x)[0][0], {}
    for how in ("on", "off"):
        report = qcalib("--data", samples, *to_nearest(how), "--json", model).json
        assert corrected(report) == [False, how == "on"]
        got = infer(tmp_path / f"{how}.onnx", x)[0][0]
        off[how] = mean_error(want, got)
    nodes = onnx.load(tmp_path / "on.onnx").graph.node
    (added,) = [n for n in nodes if n.op_type == "Add"]
    assert list(added.output) == ["y"] and added.name == "last/bias"
    assert not [n for n in onnx.load(tmp_path / "off.onnx").graph.node if n.op_type == "Add"]
    assert off["on"] < 0.7 * off["off"], "what is left is the first product's"
    integer = qcalib("--data", samples, "--require-integer", "--json", "--no-report", "-o", "i.onnx", model).json
    assert corrected(integer) == [False, False] and integer["float_ops"] == []


@pytest.mark.integers
@pytest.mark.parametrize("target", ["ort", "fused"])
@pytest.mark.parametrize("shape", [(16,), (1, 16)])
def test_the_add_behind_a_product_takes_the_correction(target, shape, products, qcalib, tmp_path):
    model, samples, x = products(3)
    m = onnx.load(model)
    bias = np.random.default_rng(2).normal(size=shape).astype("f4")
    m.graph.initializer.append(numpy_helper.from_array(bias, "b"))
    m.graph.node.insert(1, helper.make_node("Add", ["a", "b"], ["s"], "add"))
    m.graph.node[2].input[0] = "s"
    onnx.save(m, model)
    want, off = infer(model, x)[0][0], {}
    for how in ("on", "off"):
        asked = ["--data", samples, *to_nearest(how), "--target", target, "--json", model]
        report = qcalib(*asked).json
        assert corrected(report) == [how == "on"] * 2
        off[how] = mean_error(want, infer(tmp_path / f"{how}.onnx", x)[0][0])
        propagated = qcalib(*asked, "--propagate").json
        assert corrected(propagated) == [how == "on"] * 2
    assert off["on"] < 0.5 * off["off"]
    constants = {t.name: numpy_helper.to_array(t) for t in onnx.load(tmp_path / "on.onnx").graph.initializer}
    if target == "ort":
        assert constants["b"].shape == shape and 0 < np.abs(constants["b"] - bias).max() < 0.1


@pytest.mark.integers
@pytest.mark.parametrize("rows", [(), (3,)])
def test_sensitivity_is_of_products_with_their_biases(rows, products, qcalib):
    model, samples, _ = products(*rows)
    alone = {
        how: {
            l["node"]: l["weights_sqnr_db"]
            for l in qcalib("--data", samples, "--sensitivity", *to_nearest(how), "--json", model).json["sensitivity"]
        }
        for how in ("on", "off")
    }
    assert set(alone["on"]) == {"first", "last"}
    assert all(alone["on"][node] > alone["off"][node] for node in alone["on"] if not rows or node == "last")


@pytest.mark.parametrize("weight", ["int8", "int4"])
def test_weights_alone_are_rounded_with_regard_to_the_data_too(quantize, examples, tmp_path, weight):
    """--activation-type none: ops stay in float, and their weights are compensated and their biases corrected all the same."""
    alone = ("--activation-type", "none", "--weight-type", weight, "--method", "mse")
    with h5py.File(examples / "digits_test.h5") as f:
        d = f["input"]
        x = (d[:].astype("f4") * d.attrs.get("scale", 1) - d.attrs.get("mean", 0)) / d.attrs.get("std", 1)
    want, got = infer(examples / "digits_cnn.onnx", x.astype("f4"))[0][0], {}
    for name, options in {"nearest": OFF, "compensated": OFF[2:], "both": ()}.items():
        report, _ = quantize(name, *alone, *options)
        noise = infer(tmp_path / f"{name}.onnx", x.astype("f4"))[0][0].astype("f8") - want
        got[name] = 10 * np.log10((want.astype("f8") ** 2).sum() / (noise**2).sum())
    assert got["compensated"] > got["nearest"] + 3 and got["both"] > got["nearest"] + 3, got
    assert all(l["bias_correction"] and l["weight_rounding"]["reason"] is None for l in weights(report))


def test_a_job_that_is_killed_goes_on(qcalib, program, tmp_path):
    """Layers that were rounded before are taken from beside the checkpoint, and the model is the same."""
    width, layers = 160, 10
    random = np.random.default_rng(4)
    weights = [
        numpy_helper.from_array((random.normal(size=(width, width)) * width**-0.5).astype("f4"), f"w{i}")
        for i in range(layers)
    ]
    nodes = [helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"], f"p{i}") for i in range(layers)]
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", width])] for n in ("h0", f"h{layers}")]
    onnx.save(
        helper.make_model(
            helper.make_graph(nodes, "g", *ports, weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ),
        tmp_path / "m.onnx",
    )
    np.save(tmp_path / "h.npy", random.normal(size=(500, width)).astype("f4"))
    job = [
        "--data",
        "h.npy",
        "--activation-type",
        "none",
        "--weight-type",
        "int4",
        "--advice=off",
        "--no-report",
        "--threads",
        "1",
        "m.onnx",
        "-q",
    ]
    kept = tmp_path / "c.layers"
    with subprocess.Popen([str(program), *job, "--checkpoint", "c", "-o", "q.onnx"], cwd=tmp_path) as run:
        while run.poll() is None and (not kept.exists() or kept.stat().st_size < 2 * width * width):
            time.sleep(0.001)
        run.kill()
    assert run.returncode == -signal.SIGKILL and not (tmp_path / "q.onnx").exists()
    whole = layers * width * width
    assert width * width < kept.stat().st_size < whole
    qcalib(*job, "--checkpoint", "c", "-o", "q.onnx")
    assert not kept.exists() and not (tmp_path / "c").exists()
    qcalib(*job, "-o", "whole.onnx")
    assert (tmp_path / "q.onnx").read_bytes() == (tmp_path / "whole.onnx").read_bytes()
    kept.write_text("my thesis")
    assert (
        "c.layers" in qcalib(*job, "--checkpoint", "c", "-o", "other.onnx", code=3).err
        and kept.read_text() == "my thesis"
    )
