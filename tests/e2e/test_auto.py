# SPDX-License-Identifier: Apache-2.0
"""--method auto, the default: observers are tried on the quantized network and compared by its outputs."""

import json

import h5py
import measured_models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

OBSERVERS = ("minmax", "percentile", "mse", "kl", "output")


def heavy(random, shape):
    """Values of which a few are many times as large as most."""
    return (random.normal(size=shape) * np.exp(random.normal(size=shape) * 0.9)).astype("f4")


def gates(random):
    """A few large values carry the signal: they open gates for what is added up."""
    w = [
        (random.normal(size=s) * k).astype("f4")
        for s, k in (((24, 12), 0.4), ((24, 12), 0.4), ((16, 24), 0.3), ((5, 16), 0.4))
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "w0"], ["a"], "a", transB=1),
        helper.make_node("Gemm", ["x", "w1"], ["b"], "b", transB=1),
        helper.make_node("HardSigmoid", ["b"], ["g"], "g"),
        helper.make_node("Mul", ["a", "g"], ["m"], "m"),
        helper.make_node("Gemm", ["m", "w2"], ["c"], "c", transB=1),
        helper.make_node("Relu", ["c"], ["r"], "r"),
        helper.make_node("Gemm", ["r", "w3"], ["y"], "y", transB=1),
    ]
    return nodes, w, [("y", 5)]


def layers(random):
    """A plain network; its values are spread like a bell, so clipping pays."""
    sizes, nodes, w, x = (12, 48, 48, 48, 6), [], [], "x"
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        w.append((random.normal(size=(b, a)) / np.sqrt(a) * 1.4).astype("f4"))
        last = i == len(sizes) - 2
        nodes.append(helper.make_node("Gemm", [x, f"w{i}"], ["y" if last else f"c{i}"], f"fc{i}", transB=1))
        if not last:
            nodes.append(helper.make_node("Relu", [f"c{i}"], [f"r{i}"], f"relu{i}"))
        x = f"r{i}"
    return nodes, w, [("y", 6)]


def heads(random):
    """Two outputs of very different sizes: each counts relative to itself."""
    w = [(random.normal(size=s) * k).astype("f4") for s, k in (((32, 12), 0.4), ((4, 32), 200), ((7, 32), 0.2))]
    nodes = [
        helper.make_node("Gemm", ["x", "w0"], ["a"], "a", transB=1),
        helper.make_node("Relu", ["a"], ["r"], "r"),
        helper.make_node("Gemm", ["r", "w1"], ["boxes"], "boxes", transB=1),
        helper.make_node("Gemm", ["r", "w2"], ["s"], "s", transB=1),
        helper.make_node("Sigmoid", ["s"], ["scores"], "scores"),
    ]
    return nodes, w, [("boxes", 4), ("scores", 7)]


def points(random):
    """A PointNet: of all points the largest values carry the signal, so clipping them costs most of it."""
    sizes = ((64, 3, 1), (128, 64, 1), (64, 128), (10, 64))
    w = [(random.normal(size=s) * np.sqrt(2 / s[1])).astype("f4") for s in sizes]
    nodes = [
        helper.make_node("Reshape", ["x", "w4"], ["p"], "p"),
        helper.make_node("Conv", ["p", "w0"], ["a"], "a"),
        helper.make_node("Relu", ["a"], ["ar"], "ar"),
        helper.make_node("Conv", ["ar", "w1"], ["b"], "b"),
        helper.make_node("Relu", ["b"], ["br"], "br"),
        helper.make_node("ReduceMax", ["br"], ["m"], "m", axes=[2], keepdims=0),
        helper.make_node("Gemm", ["m", "w2"], ["c"], "c", transB=1),
        helper.make_node("Relu", ["c"], ["r"], "r"),
        helper.make_node("Gemm", ["r", "w3"], ["y"], "y", transB=1),
    ]
    return nodes, [*w, np.array([0, 3, 128], np.int64)], [("y", 10)]


WIDTH = {"points": 384}  # elements of a sample; else 12
NETWORKS = {
    "gates": (gates, heavy),
    "layers": (layers, lambda random, shape: random.normal(size=shape).astype("f4")),
    "heads": (heads, heavy),
    "points": (points, lambda random, shape: random.normal(size=shape).astype("f4")),
}


def make(kind, folder):
    random = np.random.default_rng(11)
    build, draw = NETWORKS[kind]
    width = WIDTH.get(kind, 12)
    nodes, weights, outputs = build(random)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["N", width])],
        [value(n, TensorProto.FLOAT, ["N", c]) for n, c in outputs],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), folder / "net.onnx")
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = draw(random, (256, width))
    return draw(random, (2000, width))


def sqnr(folder, model, x):
    """Of the worst output, dB."""
    run = lambda path: onnxruntime.InferenceSession(str(folder / path), providers=["CPUExecutionProvider"]).run(
        None, {"x": x}
    )
    return min(
        10 * np.log10((w.astype("f8") ** 2).sum() / ((g.astype("f8") - w) ** 2).sum())
        for w, g in zip(run("net.onnx"), run(model))
    )


@pytest.mark.integers
@pytest.mark.parametrize("kind", NETWORKS)
def test_it_is_never_the_wrong_choice(kind, qcalib, tmp_path):
    x = make(kind, tmp_path)
    with h5py.File(tmp_path / "x.h5") as f:
        samples = f["x"][:]
    got = {}
    for method in (None, *OBSERVERS):
        qcalib(
            "--data",
            "x.h5",
            *(["--method", method] if method else []),
            "--effort=low",  # the observer alone: a free change gains on most samples and may lose on a few others
            "net.onnx",
            "-o",
            "q.onnx",
            *(["--no-report"] if method else ["--report", "r"]),
        )
        got[method] = sqnr(tmp_path, "q.onnx", x)
    near = 1.5 if kind == "points" else 1
    assert got[None] > max(got[m] for m in OBSERVERS) - near and got[None] > got["mse"] - 0.1, got
    report = json.loads((tmp_path / "r/report.json").read_text())
    assert report["options"]["method"] == "auto"
    trials = report["trials"]
    (chosen,) = [t for t in trials if t["chosen"]]
    assert trials[0]["method"] == "mse" and trials[0]["gain_db"] == 0
    assert chosen["samples"] == len(samples) or chosen is trials[0]
    # Probabilities count by their divergence too, all else by its squared error alone.
    other = [t for t in trials[1:] if t["samples"] == trials[0]["samples"]]
    gains = [abs(t["gain_db"] - t["sqnr_db"] + trials[0]["sqnr_db"]) for t in other]
    assert other and (max(gains) > 0.05 if kind == "heads" else max(gains) < 1e-6), trials
    # What is taken has run on all that ranges are made from: what a range cuts off is of a few samples. What has no
    # chance any more is not run on; where that is all others, neither is mse.
    assert max(t["samples"] for t in trials) == chosen["samples"]
    # A gain counts less what may be luck, and no more than it is without the sample that speaks most for it.
    assert trials[0]["worth_db"] == 0 and all(t["worth_db"] <= t["gain_db"] for t in trials[1:])
    if kind != "heads":
        assert all(t["worth_db"] <= t["gain_db"] - min(64 / t["samples"], 2) * t["error_db"] + 1e-9 for t in trials[1:])
    worth = [t["worth_db"] for t in trials if t["samples"] == len(samples)]
    assert chosen["worth_db"] == max(worth, default=0) if chosen["worth_db"] > 0.2 else max(worth, default=0) <= 0.2
    assert {l["method"] for l in report["layers"] if l["kind"] == "activation"} == {chosen["method"]}


def test_a_free_change_does_not_lose_over_all_elements(qcalib, tmp_path):
    """Equalization gains on the mean sample here, and loses where a sample leaves the ranges of equalized channels."""
    x = make("layers", tmp_path)
    got = {}
    for effort in ("low", "normal"):
        qcalib("--data", "x.h5", "--effort", effort, "net.onnx", "-o", "q.onnx", "--no-report")
        got[effort] = sqnr(tmp_path, "q.onnx", x)
    assert got["normal"] > got["low"] - 0.1, got


@pytest.mark.integers
@pytest.mark.parametrize("samples", (8, 16, 64))
def test_few_samples_choose_an_observer_too(samples, qcalib, tmp_path):
    """All of them run. Below 32 samples no observer that cuts off more than mse is a candidate."""
    x = make("points", tmp_path)
    got = {}
    for method in ("auto", "mse"):
        how = ("--data", "x.h5", "--samples", samples, "--method", method, "--effort=low", "--report", method)
        qcalib(*how, "net.onnx", "-o", "q.onnx")
        got[method] = sqnr(tmp_path, "q.onnx", x)
    trials = json.loads((tmp_path / "auto/report.json").read_text())["trials"]
    names = [t["method"] for t in trials]
    assert names[0] == "mse" and "minmax" in names and ("percentile" in names) == (samples >= 32), trials
    assert {t["samples"] for t in trials} == {samples}, trials
    assert got["auto"] > got["mse"] + 1, (got, trials)


def test_threads_and_order_of_samples_make_no_difference(qcalib, tmp_path):
    make("gates", tmp_path)
    with h5py.File(tmp_path / "x.h5") as f, h5py.File(tmp_path / "turned.h5", "w") as g:
        g["x"] = f["x"][()][::-1]
    for name, options in {
        "one": ["--threads", 1],
        "four": ["--threads", 4],
        "small": ["--memory-limit", "200M"],
        "turned": [],
    }.items():
        qcalib(
            "--data",
            "turned.h5" if name == "turned" else "x.h5",
            *options,
            "net.onnx",
            "-o",
            f"{name}.onnx",
            "--no-report",
        )
    first = (tmp_path / "one.onnx").read_bytes()
    assert all((tmp_path / f"{name}.onnx").read_bytes() == first for name in ("four", "small", "turned"))


@pytest.mark.integers
def test_the_same_samples_are_drawn_whether_they_were_run_before_or_not(qcalib, tmp_path):
    """Their keys are kept from collecting; with statistics at hand nothing was collected, and they are read for it."""
    make("gates", tmp_path)
    qcalib("collect", "--data", "x.h5", "net.onnx", "-o", "s.h5")
    reports = [
        qcalib(
            "quantize", *given, "--data", "x.h5", "net.onnx", "-o", f"{len(given)}.onnx", "--no-report", "--json"
        ).json
        for given in ([], ["--stats", "s.h5"])
    ]
    assert reports[0]["trials"] == reports[1]["trials"] and len(reports[0]["trials"]) > 1
    assert (tmp_path / "0.onnx").read_bytes() == (tmp_path / "2.onnx").read_bytes()


def test_without_data_it_is_mse_and_says_so(qcalib, tmp_path):
    make("gates", tmp_path)
    qcalib("collect", "--data", "x.h5", "net.onnx", "-o", "s.h5")
    done = qcalib("quantize", "--stats", "s.h5", "net.onnx", "-o", "auto.onnx", "--no-report")
    qcalib("quantize", "--stats", "s.h5", "--method", "mse", "net.onnx", "-o", "mse.onnx", "--no-report")
    assert "--method auto uses mse" in done.err and "--data" in done.err
    assert (tmp_path / "auto.onnx").read_bytes() == (tmp_path / "mse.onnx").read_bytes()


def test_it_is_not_for_weights(qcalib, tmp_path):
    make("heads", tmp_path)
    done = qcalib("--data", "x.h5", "--weight-method", "auto", "net.onnx", code=2)
    assert "--weight-method auto" in done.err and "minmax" in done.err


@pytest.mark.integers
def test_an_input_that_was_integers_has_its_steps(qcalib, tmp_path):
    """Sound in 8 bits, times something: with that as its scale nothing of it is rounded, and what is left of the levels lies on both sides."""
    random = np.random.default_rng(5)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "mm")],
        "g",
        [value("x", TensorProto.FLOAT, [1, 20, 30])],
        [value("y", TensorProto.FLOAT, [1, 20, 6])],
        [numpy_helper.from_array(random.normal(size=(30, 6)).astype("f4"), "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), tmp_path / "net.onnx"
    )
    x = (random.laplace(scale=12, size=(40, 20, 30)).clip(-90, 70).round() * 0.0117).astype("f4")
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = x
    done = qcalib("--data", "x.h5", "net.onnx", "-o", "q.onnx", "--report", "r")
    report = json.loads((tmp_path / "r/report.json").read_text())
    (layer,) = [l for l in report["layers"] if l["name"] == "x"]
    assert layer["choice"]["taken_for"] == "steps" and layer["method"].startswith("fixed:min="), layer
    assert "1 input is on an integer grid" in done.out
    levels = x / 0.0117 + layer["zero_point"]
    assert layer["scale"] == pytest.approx(0.0117) and levels.min() > 30 and levels.max() < 225, layer


def test_ranges_of_mse_reach_toward_what_other_samples_may_have(qcalib, data, tmp_path):
    """As far or further than what the samples themselves say, which another norm than 2 stands for; the same by name, by
    --method auto and from statistics."""
    model = measured_models.BY_NAME["mnist_cntk8"].path(data)
    some = ["--samples", "48", "--data", data / "mnist_calib256.h5", "--advice", "off", "--json"]
    scales = {}
    for method in ("mse", "mse:norm=2.0001"):
        report = qcalib(*some, "--method", method, model, "-o", "q.onnx", "--report", "r").json
        scales[method] = {l["name"]: l["scale"] for l in report["layers"] if l["kind"] == "activation" and l["node"]}
        if method == "mse":
            qcalib("collect", *some[:4], model, "-o", "s.h5")
            qcalib("--stats", "s.h5", *some[:-1], "--method", method, model, "-o", "t.onnx", "--no-report")
            assert (tmp_path / "t.onnx").read_bytes() == (tmp_path / "q.onnx").read_bytes()
    further = [scales["mse"][n] / scales["mse:norm=2.0001"][n] for n in scales["mse"]]
    assert min(further) > 1 - 1e-3 and max(further) > 1.005, further
