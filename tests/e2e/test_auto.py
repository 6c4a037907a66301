# SPDX-License-Identifier: Apache-2.0
"""--method auto, the default: observers are tried on the quantized network, and judged by its outputs."""

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


NETWORKS = {
    "gates": (gates, heavy),
    "layers": (layers, lambda random, shape: random.normal(size=shape).astype("f4")),
    "heads": (heads, heavy),
}


def make(kind, folder):
    random = np.random.default_rng(11)
    build, draw = NETWORKS[kind]
    nodes, weights, outputs = build(random)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["N", 12])],
        [value(n, TensorProto.FLOAT, ["N", c]) for n, c in outputs],
        [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(weights)],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), folder / "net.onnx")
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = draw(random, (256, 12))
    return draw(random, (2000, 12))


def sqnr(folder, model, x):
    """Of the worst output, dB."""
    run = lambda path: onnxruntime.InferenceSession(str(folder / path), providers=["CPUExecutionProvider"]).run(
        None, {"x": x}
    )
    return min(
        10 * np.log10((w.astype("f8") ** 2).sum() / ((g.astype("f8") - w) ** 2).sum())
        for w, g in zip(run("net.onnx"), run(model))
    )


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
            "net.onnx",
            "-o",
            "q.onnx",
            *(["--no-report"] if method else ["--report", "r"]),
        )
        got[method] = sqnr(tmp_path, "q.onnx", x)
    assert got[None] > max(got[m] for m in OBSERVERS) - 1 and got[None] > got["mse"] - 0.1, got
    report = json.loads((tmp_path / "r/report.json").read_text())
    assert report["options"]["method"] == "auto"
    trials = report["trials"]
    chosen = [t for t in trials if t["chosen"]]
    parts = [t for t in trials if t["part"]]
    trials = [t for t in trials if not t["part"]]
    assert (
        trials[0]["method"] == "mse"
        and trials[0]["gain_db"] == 0
        and sum(t["chosen"] for t in trials) == 1
        and (chosen[0]["samples"] == len(samples) or chosen[0] is trials[0])
    )
    # Probabilities count by their divergence too, all else by its squared error alone.
    other = [t for t in trials[1:] if t["samples"] == trials[0]["samples"]]
    gains = [abs(t["gain_db"] - t["sqnr_db"] + trials[0]["sqnr_db"]) for t in other]
    assert other and (max(gains) > 0.05 if kind == "heads" else max(gains) < 1e-6), trials
    # What is taken has run on all that ranges are made from: what a range cuts off is of a few samples. What has no
    # chance any more is not run on; where that is all others, neither is mse.
    assert any(t["samples"] < len(samples) for t in trials) and max(t["samples"] for t in trials) == chosen[0]["samples"]
    assert all(
        chosen[0]["worth_db"] >= t["worth_db"] or t["worth_db"] <= 0.2 for t in trials if t["samples"] == len(samples)
    ), trials
    # A gain counts less what may be luck. What is taken in a part of the network beside has to hold likewise.
    assert trials[0]["worth_db"] == 0 and all(t["worth_db"] <= t["gain_db"] for t in trials[1:] + parts)
    # Ranges a little wider, last of all, have to gain half as much.
    asked = {None: 0.2, "all": 0.1}
    held = [t for t in parts if t["chosen"]]
    assert all(t["worth_db"] > asked.get(t["part"], 0.2) and t["samples"] == len(samples) for t in held)
    methods = {l["method"] for l in report["layers"] if l["kind"] == "activation" and l["name"] != "x"}
    assert methods <= {t["method"] for t in chosen} and len({t["part"] for t in parts}) > 1, trials


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
    assert "--method auto is mse here" in done.err and "--data" in done.err
    assert (tmp_path / "auto.onnx").read_bytes() == (tmp_path / "mse.onnx").read_bytes()


def test_it_is_not_for_weights(qcalib, tmp_path):
    make("heads", tmp_path)
    done = qcalib("--data", "x.h5", "--weight-method", "auto", "net.onnx", code=2)
    assert "--weight-method auto" in done.err and "minmax" in done.err


def test_an_input_keeps_what_one_sample_alone_has(qcalib, tmp_path):
    """Walks that go far do so in one sample: what mse cuts off of it tells nothing of the next. Noise that is alike in all samples stays with mse."""
    random = np.random.default_rng(4)
    w = random.normal(size=(40, 6)).astype("f4")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "mm")],
        "g",
        [value("x", TensorProto.FLOAT, [1, 50, 40])],
        [value("y", TensorProto.FLOAT, [1, 50, 6])],
        [numpy_helper.from_array(w, "w")],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), tmp_path / "net.onnx"
    )
    samples = {
        "walks": random.normal(size=(24, 50, 40)).cumsum(1) * 0.3,
        "alike": random.laplace(size=(24, 50, 40)).clip(-4, 4),
    }
    samples["walks"][7] *= 1.5
    samples["far"] = np.random.default_rng(4).normal(size=(40, 50, 40)).cumsum(1) * 0.3  # the next goes further
    samples["odd"] = random.laplace(size=(100, 50, 40)).clip(-4, 4)
    samples["odd"][5, 3, 3:5] = 12, -12  # so far that steps would be half as coarse again for all others
    methods, reach = {}, {}
    for name, x in samples.items():
        with h5py.File(tmp_path / f"{name}.h5", "w") as f:
            f["x"] = x.astype("f4")
        report = qcalib(
            "--data", f"{name}.h5", "net.onnx", "-o", f"{name}.onnx", "--report", f"{name}.report", "--json"
        ).json
        layers = {l["name"]: l for l in report["layers"] if l["kind"] == "activation"}
        methods[name] = layers["x"]["method"]
        reach[name] = layers["x"]["chosen"]["max"] / layers["x"]["observed"]["max"]
        assert (layers["x"]["choice"]["taken_for"] == "tail") == (name in ("walks", "far")), layers["x"]
    assert methods["walks"] == "minmax" and "minmax" not in (methods["alike"], methods["odd"]), methods
    top = samples["far"].max((1, 2))
    beyond = 1 + np.sqrt(6) / np.pi * np.log(2) * top.std(ddof=1) / top.max()  # as far as 80 such walks go
    assert abs(reach["far"] / beyond - 1) < 1e-5 and max(reach["alike"], reach["odd"]) <= 1, (reach, beyond)
    said = qcalib("--data", "walks.h5", "net.onnx", "-o", "walks.onnx", "--no-report").out
    assert "mse, no other was better in the whole network for" in said and "minmax in 1 of 1 tensors: one or" in said


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
    assert "steps of the values themselves in 1 of 1 tensors" in done.out
    levels = x / 0.0117 + layer["zero_point"]
    assert layer["scale"] == pytest.approx(0.0117) and levels.min() > 30 and levels.max() < 225, layer


def test_a_part_of_the_network_has_an_observer_of_its_own(qcalib, data, tmp_path):
    """Of a real network, where that was measured to hold on other samples too (docs/decisions/0030-ranges-by-the-outputs.md)."""
    report = qcalib(
        *measured_models.BY_NAME["resnet8_cifar10_mlperf"].options(data),
        "--samples",
        "512",
        "--overflow-fix",
        "off",  # measured so
        "-o",
        "q.onnx",
        "--report",
        "r",
        "--advice",
        "off",
        "--json",
    ).json
    (whole,) = [t for t in report["trials"] if t["chosen"] and not t["part"]]
    parts = [t for t in report["trials"] if t["chosen"] and t["part"] and t["wider"] == 1]
    assert parts and all(t["worth_db"] > 0.2 and t["method"] != whole["method"] for t in parts), report["trials"]
    layers = [l for l in report["layers"] if l["kind"] == "activation"]
    assert layers[0]["choice"]["taken_for"] == "steps"  # pixels as they are
    methods = [l["method"] for l in layers[1:]]
    assert {whole["method"], *(t["method"] for t in parts)} == set(methods), methods
    assert 0 < sum(m != whole["method"] for m in methods) <= len(parts) * -(-len(methods) // 4), methods
    for t in report["trials"][1:]:  # of parts so many are tried that a gain is luck more often: errors count twice there
        doubt = 2 * min(1, (64 if t["part"] and t["wider"] == 1 else 32) / t["samples"]) if t["samples"] > 32 else 3
        worth = t["gain_db"] - doubt * t["error_db"]
        # or what it is without the one sample that speaks most for it
        assert t["worth_db"] == pytest.approx(worth) or t["worth_db"] < worth, t
    trials = {t["part"] or "network": t for t in (whole, *parts)}
    for layer in layers[1:]:  # each names the trial that it has its observer of, and what that gained
        choice = layer["choice"]
        trial = trials[choice["taken_for"]]
        assert choice["taken_for"] in ("network", choice["part"]), layer
        assert (layer["method"], choice["gain_db"], choice["worth_db"]) == (
            trial["method"],
            trial["gain_db"],
            trial["worth_db"],
        ), layer


def test_ranges_of_up_to_64_samples_reach_toward_what_others_may_have(qcalib, data, tmp_path):
    """Beside the same observer by name: as far or further, but for the input; the same from statistics; and with more
    samples as far as the observer says."""
    model = measured_models.BY_NAME["mnist_cntk8"].path(data)
    further = {}
    for samples in (48, 65):
        some = ["--samples", str(samples), "--data", data / "mnist_calib256.h5", "--advice", "off", "--json"]
        report = qcalib(*some, model, "-o", "q.onnx", "--report", "r").json
        (method,) = {l["method"] for l in report["layers"] if l["kind"] == "activation" and l["node"]}
        wider = max([t["wider"] for t in report["trials"] if t["chosen"] and t["part"] == "all"], default=1)
        alone = qcalib(*some, "--method", method, model, "-o", "p.onnx", "--report", "s").json
        scales = [
            {l["name"]: l["scale"] for l in r["layers"] if l["kind"] == "activation" and l["node"]}
            for r in (report, alone)
        ]
        further[samples] = [scales[0][n] / scales[1][n] / wider for n in scales[1]]
        if samples == 48:
            qcalib("collect", *some[:4], model, "-o", "s.h5")
            qcalib("--stats", "s.h5", *some[:-1], model, "-o", "t.onnx", "--no-report")
            assert (tmp_path / "t.onnx").read_bytes() == (tmp_path / "q.onnx").read_bytes()
    assert min(further[48]) > 1 - 1e-6 and max(further[48]) > 1.005, further
    assert max(abs(r - 1) for r in further[65]) < 1e-6, further


def test_ranges_a_little_wider_are_tried_last(qcalib, data, tmp_path):
    """What is written then is what was tried: the observer's ranges but for inputs and known ends, so much wider."""
    options = measured_models.BY_NAME["dscnn_kws_mlperf"].options(data)
    report = qcalib(*options, "-o", "q.onnx", "--report", "r", "--json").json
    wider = [t for t in report["trials"] if t["part"] == "all"]
    (taken,) = [t for t in wider if t["chosen"]]
    (whole,) = [t for t in report["trials"] if t["chosen"] and not t["part"]]
    assert [t["wider"] for t in wider] == [1.02, 1.03] and taken["worth_db"] > 0.1, wider
    alone = qcalib(*options, "--method", whole["method"], "-o", "p.onnx", "--report", "s", "--json").json
    scales = [
        {l["name"]: l["scale"] for l in r["layers"] if l["kind"] == "activation" and l["node"]}
        for r in (report, alone)
    ]
    ratios = [scales[0][n] / scales[1][n] for n in scales[1]]
    assert max(abs(r - taken["wider"]) for r in ratios) < 1e-6, ratios
