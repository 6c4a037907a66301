# SPDX-License-Identifier: Apache-2.0
"""What a reader of the record and the summary needs: shares with free axes, recurrent weights, outputs that are constant,
the evaluation samples, and the accuracy and latency of what is advised. References are NumPy and the commands advised."""

import json
import re

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper


def save(path, nodes, inputs, outputs, **tensors):
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in side.items()] for side in (inputs, outputs)]
    tensors = [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in tensors.items()]
    graph = helper.make_graph(nodes, "g", *ports, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


@pytest.mark.parametrize("axes", [["N", 7], ["N", "T"], [None, None]])
def test_the_share_is_known_with_free_axes(qcalib, tmp_path, axes):
    """Two products of 64 x 128 and one of 128 x 32 for each position; the last is left in float."""
    rng = np.random.default_rng(1)
    nodes = [helper.make_node("MatMul", ["x", "a"], ["p"], "first"), helper.make_node("Relu", ["p"], ["q"], "relu"),
             helper.make_node("MatMul", ["q", "b"], ["r"], "second"), helper.make_node("Tanh", ["r"], ["s"], "tanh"),
             helper.make_node("MatMul", ["s", "c"], ["y"], "third")]
    save(tmp_path / "m.onnx", nodes, {"x": [*axes, 64]}, {"y": [*axes, 32]}, a=rng.normal(size=(64, 128)),
         b=rng.normal(size=(128, 64)), c=rng.normal(size=(64, 32)))
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(12, 7, 64)).astype(np.float32))
    job = ["quantize", "m.onnx", "--data", "d.npz", "--prefer", "integers", "--skip", "third", "--no-report"]
    report, out = qcalib(*job, "--json").json, qcalib(*job).out
    share = 2 * 64 * 128 / (2 * 64 * 128 + 64 * 32)
    assert report["integer_share"] == pytest.approx(share), report["float_ops"]
    assert f"{100 * share:.1f} % of multiply-adds in integers" in out


def recurrent(path, op, gates):
    rng = np.random.default_rng(2)
    nodes = [helper.make_node(op, ["x", "w", "r"], ["h", "last"], "rec", hidden_size=64),
             helper.make_node("Squeeze", ["last", "axes"], ["flat"], "flat"),
             helper.make_node("Gemm", ["flat", "out"], ["y"], "out")]
    axes = numpy_helper.from_array(np.array([0], np.int64), "axes")
    save(path, nodes, {"x": [6, "N", 16]}, {"y": ["N", 4]}, w=rng.normal(size=(1, gates * 64, 16)) / 4,
         r=rng.normal(size=(1, gates * 64, 64)) / 8, out=rng.normal(size=(64, 4)))
    model = onnx.load(str(path))
    model.graph.initializer.append(axes)
    onnx.save(model, str(path))


@pytest.mark.parametrize("op, gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent_weights_point_to_prefer_size(qcalib, tmp_path, op, gates):
    recurrent(tmp_path / "m.onnx", op, gates)
    np.savez(tmp_path / "d.npz", x=np.random.default_rng(3).normal(size=(8, 6, 1, 16)).astype(np.float32))
    job = ["quantize", "m.onnx", "--data", "d.npz", "--no-report", "-o", "q.onnx"]
    report = qcalib(*job, "--json").json
    weights = gates * 64 * (16 + 64)
    found = report["recurrent_in_float"]
    assert (found["operators"], found["op"]) == (1, op)
    assert found["weight_share"] == pytest.approx(weights / (weights + 64 * 4), abs=0.02)
    line = next(l for l in qcalib(*job).out.splitlines() if "--prefer size" in l)
    assert f"1 {op}" in line and f"{100 * found['weight_share']:.0f} % of all" in line
    small = qcalib(*job, "--prefer", "size", "--json").json
    assert "recurrent_in_float" not in small and small["files"][0]["bytes"] < 0.6 * report["files"][0]["bytes"]
    assert "--prefer size" not in qcalib(*job, "--prefer", "size").out


def classifier(path, outputs):
    """Convolution, mean, product: its biases are large against pixels from 0 to 1, not against those from 0 to 255."""
    rng = np.random.default_rng(4)
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"), helper.make_node("Relu", ["c"], ["d"], "relu"),
             helper.make_node("GlobalAveragePool", ["d"], ["e"], "mean"), helper.make_node("Flatten", ["e"], ["f"], "flat"),
             *[helper.make_node("Gemm", ["f", f"v{k}"], [f"y{k}"], f"out{k}") for k in range(outputs)]]
    save(path, nodes, {"x": ["N", 3, 8, 8]}, {f"y{k}": ["N", 10] for k in range(outputs)}, w=rng.normal(size=(16, 3, 3, 3)) / 999,
         b=np.linspace(1, 3, 16), **{f"v{k}": rng.normal(size=(16, 10)) for k in range(outputs)})


@pytest.mark.parametrize("outputs", [1, 2])
def test_constant_outputs_point_to_the_preparation_of_samples(qcalib, tmp_path, outputs):
    classifier(tmp_path / "m.onnx", outputs)
    x = np.random.default_rng(5).random((32, 3, 1, 1), np.float32) * np.ones((1, 1, 8, 8), np.float32)
    said = {}
    for name, values in {"small": x, "right": 255 * x, "equal": np.repeat(x[:1], 32, axis=0)}.items():
        np.savez(tmp_path / f"{name}.npz", x=values)
        job = ["quantize", "m.onnx", "--data", f"{name}.npz", "--prefer", "integers", "--weight-type", "int4", "--advice", "auto", "--no-report", "--json"]
        said[name] = qcalib(*job).json
    warned = {name: any("nearly the same for all samples" in w for w in r["warnings"]) for name, r in said.items()}
    assert warned == {"small": True, "right": False, "equal": False}
    small, right = said["small"], said["right"]
    assert small["advice_state"] == "outputs constant" and small["advice_tried"] == 0
    assert small["constant_outputs"]["change"] < 0.01 and "constant_outputs" not in right
    assert small["verdict"]["grade"] == "unknown" and "how these are prepared" in small["verdict"]["text"]
    assert right["verdict"]["grade"] != "unknown" and right["advice_state"] != "outputs constant"


def test_the_evaluation_samples_are_described(qcalib, examples, tmp_path):
    with h5py.File(examples / "digits_test.h5") as f, h5py.File(tmp_path / "some.h5", "w") as to:
        labels = f["labels"][:]
        some = np.flatnonzero(labels < 7)[:60]
        x = f["input"][:][some]
        x[3, 0, 0, 0] = 77
        to["input"], to["labels"] = x, labels[some]
        for k, v in f["input"].attrs.items():
            to["input"].attrs[k] = v
    job = ["quantize", "--data", examples / "digits_calib.h5", "--eval", "some.h5", "--no-report", "--json"]
    accuracy = qcalib(*job, examples / "digits_cnn.onnx").json["accuracy"]
    counts = np.bincount(labels[some])[:7]
    assert accuracy["classes"] == {"count": 10, "seen": 7, "least": counts.min(), "most": counts.max()}
    with h5py.File(tmp_path / "some.h5") as f:
        scale, mean, std = (float(np.ravel(f["input"].attrs.get(k, d))[0]) for k, d in (("scale", 1), ("mean", 0), ("std", 1)))
    values = (x * scale - mean) / std
    found = accuracy["inputs"][0]
    assert (found["name"], found["units"], found["not_finite"]) == ("input", 60, 0)
    assert found["min"] == pytest.approx(values.min(), rel=1e-5) and found["max"] == pytest.approx(values.max(), rel=1e-5)


def test_the_accuracy_of_advice_is_that_of_its_command(qcalib, examples):
    data = ["--data", examples / "digits_calib.h5", "--eval", examples / "digits_test.h5"]
    job = ["quantize", *data, "--samples", 64, "--prefer", "integers", "--weight-type", "int2", "--effort", "low", "--no-report"]
    report = qcalib(*job, "--advice", "on", "--json", examples / "digits_cnn.onnx").json
    assert report["advice"]
    for advice in report["advice"][:2]:
        measured = advice["measured"]
        assert measured["accuracy_before"] == report["accuracy"]["int8"]
        then = qcalib(*advice["command"][1:], "--advice", "off", "--json").json
        assert then["accuracy"]["int8"] == measured["accuracy_after"]
    line = next(l for l in qcalib(*job, "--advice", "on", examples / "digits_cnn.onnx").out.splitlines() if l.startswith("advice"))
    assert f"top-1 {100 * report['advice'][0]['measured']['accuracy_after']:.2f} %" in line
    auto = qcalib(*job, "--advice", "auto", "--json", examples / "digits_cnn.onnx").json["advice"]
    assert "accuracy_after" in auto[0]["measured"] and sum("accuracy_after" in a["measured"] for a in auto) <= 2


def test_latency_by_operator_adds_up(qcalib, examples):
    job = ["quantize", "--data", examples / "digits_calib.h5", "--prefer", "integers", "--no-report", "--json", examples / "digits_cnn.onnx"]
    report = qcalib(*job).json
    rows = {o["op"]: o for o in report["latency_by_operator"]}
    assert sum(o["float"] for o in rows.values()) == pytest.approx(1)
    assert sum(o["quantized"] for o in rows.values()) == pytest.approx(report["cost"]["latency"])
    assert rows["Quantize"]["float"] == 0 and rows["Conv"]["float"] > 0 and rows["Conv"]["quantized"] > 0
    skipped = qcalib(*job, "--skip", "Gemm").json
    then = {o["op"]: o for o in skipped["latency_by_operator"]}
    assert then["Gemm"]["quantized"] == pytest.approx(then["Gemm"]["float"]) == pytest.approx(rows["Gemm"]["float"])


def test_outputs_of_other_types_are_not_compared(qcalib, tmp_path):
    """Five outputs of which two are float32: the others are named with their types, not as values that are not finite."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "m"), helper.make_node("Neg", ["y"], ["z"], "n"),
             helper.make_node("Cast", ["y"], ["double"], "c", to=TensorProto.DOUBLE),
             helper.make_node("Greater", ["y", "x0"], ["positive"], "g"), helper.make_node("Less", ["y", "x0"], ["negative"], "l")]
    rng = np.random.default_rng(6)
    save(tmp_path / "m.onnx", nodes, {"x": ["N", 8]}, {"y": ["N", 4], "z": ["N", 4]}, w=rng.normal(size=(8, 4)), x0=np.float32(0))
    model = onnx.load(str(tmp_path / "m.onnx"))
    for name, kind in (("double", TensorProto.DOUBLE), ("positive", TensorProto.BOOL), ("negative", TensorProto.BOOL)):
        model.graph.output.append(helper.make_tensor_value_info(name, kind, ["N", 4]))
    onnx.save(model, str(tmp_path / "m.onnx"))
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(20, 8)).astype(np.float32))
    job = ["quantize", "m.onnx", "--data", "d.npz", "--prefer", "integers", "--no-report"]
    out, report = qcalib(*job).out, qcalib(*job, "--json").json
    assert {o["name"]: o.get("type") for o in report["outputs"]} == {
        "y": None, "z": None, "double": "float64", "positive": "bool", "negative": "bool"}
    assert "finite" not in out and out.count(": SQNR ") == 2
    assert "not compared, its type is float64" in out and "and 2 more, not compared" in out


def relabelled(source, path, labels, scale=1):
    """The example's calibration data with other labels, or without."""
    with h5py.File(source) as f, h5py.File(path, "w") as to:
        f.copy("input", to)
        to["input"].attrs["scale"] = f["input"].attrs["scale"] * scale
        if labels is not None:
            to["labels"] = labels(f["labels"][:])


LABELS = {
    "sound": lambda y: y,
    "three": lambda y: np.where(y < 3, y, -1),
    "none": None,
    "of another number": lambda y: y[:-7],
    "not integers": lambda y: y.astype(np.float32),
}


@pytest.mark.parametrize("name", LABELS)
def test_the_classes_of_calibration_samples_are_known_from_sound_labels(qcalib, examples, tmp_path, name):
    relabelled(examples / "digits_calib.h5", tmp_path / "d.h5", LABELS[name])
    job = ["quantize", "--data", "d.h5", "--no-report", "--advice", "off", "-o", "q.onnx", "--json", examples / "digits_cnn.onnx"]
    found = qcalib(*job).json["data"].get("classes")
    with h5py.File(examples / "digits_calib.h5") as f:
        values, counts = np.unique(f["labels"][:], return_counts=True)
    if name == "three":
        values, counts = values[:3], counts[:3]
    expected = {"count": None, "seen": len(values), "least": counts.min(), "most": counts.max()}
    assert found == (expected if name in ("sound", "three") else None)
    scored = qcalib(*job, "--eval", examples / "digits_test.h5", "--samples", "100").json["data"].get("classes")
    assert (scored or {}).get("count") == (10 if found else None)


def test_an_input_that_is_no_layer_has_its_range(qcalib, tmp_path):
    """The first product stays in float, so its input has no parameters."""
    rng = np.random.default_rng(7)
    nodes = [helper.make_node("MatMul", ["x", "a"], ["p"], "first"), helper.make_node("MatMul", ["p", "b"], ["y"], "second")]
    save(tmp_path / "m.onnx", nodes, {"x": ["N", 64]}, {"y": ["N", 32]}, a=rng.normal(size=(64, 64)), b=rng.normal(size=(64, 32)))
    x = rng.normal(size=(20, 64)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x)
    job = ["quantize", "m.onnx", "--data", "d.npz", "--prefer", "integers", "--no-report", "--json", "-o", "q.onnx"]
    assert qcalib(*job).json["data"]["inputs"] == []
    (found,) = qcalib(*job, "--skip", "first").json["data"]["inputs"]
    assert (found["name"], found["units"], found["not_finite"]) == ("x", 20, 0)
    assert (found["min"], found["max"]) == pytest.approx((x.min(), x.max()))


def test_samples_that_differ_are_the_cause_in_the_verdict(qcalib, examples, tmp_path):
    relabelled(examples / "digits_calib.h5", tmp_path / "dark.h5", None, scale=1 / 64)
    job = ["quantize", "--no-report", "--json", "-o", "q.onnx", "--eval", examples / "digits_test.h5", examples / "digits_cnn.onnx"]
    dark, right = (qcalib(*job, "--data", d).json for d in ("dark.h5", examples / "digits_calib.h5"))
    assert dark["samples_differ"]["calibrated_sqnr_db"] > 30 > 10 > dark["outputs"][0]["sqnr_db"]
    assert "the calibration samples differ from those of --eval" in dark["verdict"]["text"] and "tested change" not in dark["verdict"]["text"]
    assert "samples_differ" not in right and "differ" not in right["verdict"]["text"]
    assert not any("too low to be useful" in w for w in dark["warnings"]), "more bits do not help if the samples are the cause"
    worst = [l for l in qcalib(*job[:2], *job[3:], "--data", "dark.h5").out.splitlines() if l.endswith(", on the samples of --data")]
    assert len(worst) == 3 and worst[0].startswith("worst ")


@pytest.mark.parametrize("moved", [False, True])
def test_weights_name_the_operator_that_computes_with_them(qcalib, tmp_path, moved):
    """Between a weight and its product are DequantizeLinear and, if moved, a Transpose."""
    rng = np.random.default_rng(11)
    nodes = [helper.make_node("Transpose", ["b"], ["t"], "turn", perm=[1, 0])] if moved else []
    nodes += [helper.make_node("MatMul", ["x", "a"], ["p"], "first"), helper.make_node("MatMul", ["p", "t" if moved else "b"], ["y"], "second")]
    save(tmp_path / "m.onnx", nodes, {"x": ["N", 64]}, {"y": ["N", 64]}, a=rng.normal(size=(64, 64)), b=rng.normal(size=(64, 64)))
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(20, 64)).astype(np.float32))
    job = ["quantize", "m.onnx", "--data", "d.npz", "--activation-type", "none", "-o", "q.onnx"]
    report = qcalib(*job, "--no-report", "--json").json
    assert {l["node"] for l in report["layers"]} == {"first", "second"} and all(l["op"] in ("MatMul", "Gemm") for l in report["layers"])
    effects = {e["node"]: e["output_sqnr_db"] for e in report["ranking"]}
    assert len(effects) == 2 and all(l["output_sqnr_db"] == effects[l["node"]] for l in report["layers"])
    assert "quantized   2 weight tensors; all 2 ops compute in float" in qcalib(*job).out


def test_a_failed_demand_ranks_layers_by_what_was_measured(qcalib, examples):
    job = ["quantize", "--data", examples / "digits_calib.h5", "--no-report", "--method", "percentile:p=90", "--require-integer", "--min-sqnr", 60, "-o", "q.onnx"]
    report = qcalib(*job, "--json", examples / "digits_cnn.onnx", code=1).json
    assert not report["fallback"]["met"] and len(report["fallback"]["steps"]) > 1
    ranking = {e["node"]: e["output_sqnr_db"] for e in report["ranking"]}
    assert all(e["measured"] for e in report["ranking"]) and ranking == {e["node"]: e["sqnr_db"] for e in report["sensitivity"]}
    worst = min(ranking.values())
    assert f"sensitive   {worst:.2f} dB" in qcalib(*job, examples / "digits_cnn.onnx", code=1).out


def test_advice_has_its_figures_and_its_command(qcalib, examples, tmp_path):
    job = ["quantize", "--data", examples / "digits_calib.h5", "--method", "percentile:p=95", "--effort", "low", "--advice", "auto", "-o", "q.onnx", examples / "digits_cnn.onnx"]
    done = qcalib(*job, "--report", "r")
    lines = done.out.splitlines()
    at = next(i for i, l in enumerate(lines) if l.startswith("advice "))
    report = json.loads((tmp_path / "r/report.json").read_text())
    best = report["advice"][0]
    (output,) = best["measured"]["outputs"]
    assert f"output SQNR {output['sqnr_db_before']:.2f} -> {output['sqnr_db_after']:.2f} dB" in lines[at]
    assert f"logits: SQNR {output['sqnr_db_before']:.2f} dB" in done.out, "the figure of the line above"
    assert lines[at + 1].strip() == best["shell"]
    assert ("more idea" in lines[at]) == (len(report["advice"]) > 1)


@pytest.mark.parametrize("kinds", [3, 4, 5])
def test_no_line_hides_a_single_reason(qcalib, tmp_path, kinds):
    """Operators stay in float for several reasons; the summary lists up to five, or four and the number of the others."""
    rng = np.random.default_rng(3)
    nodes = [helper.make_node("Conv", ["x", "w"], ["v0"], "conv"), helper.make_node("Conv", ["v0", "w"], ["v1"], "skipped")]
    nodes += [helper.make_node("Softmax", ["v1"], ["v2"], "soft"), helper.make_node("Sigmoid", ["v2"], ["v3"], "sigmoid"),
              helper.make_node("InstanceNormalization", ["v3", "one", "zero"], ["v4"], "norm"),
              helper.make_node("MatMul", ["v4", "v1"], ["v5"], "product"), helper.make_node("Relu", ["v5"], ["v6"], "relu")][: kinds]
    nodes[-1].output[0] = "y"
    save(tmp_path / "m.onnx", nodes, {"x": ["N", 4, 8, 8]}, {"y": ["N", 4, 8, 8]}, w=rng.normal(size=(4, 4, 1, 1)), one=np.ones(4), zero=np.zeros(4))
    np.savez(tmp_path / "d.npz", x=rng.normal(size=(8, 4, 8, 8)).astype(np.float32))
    job = ["quantize", "m.onnx", "--data", "d.npz", "--prefer", "integers", "--skip", "skipped", "--advice", "off", "--no-report", "-o", "q.onnx"]
    reasons = {f["reason"] for f in qcalib(*job, "--json").json["float_ops"]}
    lines = [l.strip() for l in qcalib(*job).out.splitlines() if l.strip().startswith("float: ")]
    rest = [l for l in lines if " more, see " in l]
    assert len(reasons) == kinds + 1 and len(lines) == min(len(reasons), 5) and len(rest) == (len(reasons) > 5), (reasons, lines)


@pytest.mark.parametrize("target, x86, timed", [("ort", True, True), ("openvino", True, False), *[(t, False, False) for t in ("ort-arm", "tensorrt", "tflite", "cmsis-nn", "qnn", "vitis", "tvm", "fused")]])
def test_lines_about_x86_are_for_targets_on_x86(qcalib, examples, target, x86, timed):
    """Saturation without VNNI concerns ONNX Runtime and OpenVINO on x86, estimated times ONNX Runtime there."""
    job = ["quantize", "--data", examples / "digits_calib.h5", "--samples", 32, "--target", target, "--effort", "low", "--advice", "off", "--no-report", "-o", "q.onnx"]
    said = qcalib(*job, examples / "digits_cnn.onnx").out
    assert ("VNNI" in said.replace("avx512-vnni", ""), re.search("^latency ", said, re.MULTILINE) is not None) == (x86, timed)
    report = qcalib(*job, "--json", examples / "digits_cnn.onnx").json
    assert report["processors"]["estimated"] == timed and ("avx2" in report["verdict"]["text"]) == timed
