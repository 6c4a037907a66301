# SPDX-License-Identifier: Apache-2.0
"""The report on a model that loses much, and its advice, which improves the model."""

import json
import shlex

import numpy
import onnx
import pytest
from onnx import numpy_helper
from report_page import is_record_of, record_of


def break_channel(source, target, makers, reader, channel, factor):
    """The same function, but channel `channel` between two convolutions is `factor` times as large: an outlier channel.
    makers: what makes the channel linear up to a Relu, [output channel] first; reader: weight [output, input channel, ...].
    """
    model = onnx.load(str(source))
    tensors = {t.name: t for t in model.graph.initializer}
    for name in makers:
        value = numpy_helper.to_array(tensors[name]).copy()
        value[channel] *= factor
        tensors[name].CopyFrom(numpy_helper.from_array(value, name))
    value = numpy_helper.to_array(tensors[reader]).copy()
    value[:, channel] /= factor
    tensors[reader].CopyFrom(numpy_helper.from_array(value, reader))
    onnx.save(model, str(target))


@pytest.fixture
def quantize(qcalib, tmp_path):
    """Quantizes with the channels left as they are; gives the report."""

    def run(*arguments):
        advice = [] if any("--advice" in str(a) for a in arguments) else ["--advice=auto"]
        qcalib("quantize", "-q", "--equalize=off", *advice, "--report", tmp_path / "report", *arguments)
        return json.loads((tmp_path / "report/report.json").read_text())

    return run


def again(qcalib, tmp_path, advice):
    """Runs the command of an advice; the report, whose outputs have the figures that were told."""
    assert advice["command"][:2] == ["qcalib", "quantize"]
    report = json.loads(qcalib(*advice["command"][1:], "--advice=off", "--json", folder=tmp_path).out)
    told = {o["name"]: o["sqnr_db_after"] for o in advice["measured"]["outputs"]}
    assert {o["name"]: o["sqnr_db"] for o in report["outputs"]} == pytest.approx(told, abs=1e-9)
    return report


def check_broken(quantize, qcalib, tmp_path, data, source, case, margin):
    """The outlier is named first, and what is suggested brings back what was lost but for `margin` dB."""
    makers, reader, channel, maker_node, reader_node = case
    sound = quantize("--data", data, source)["outputs"][0]["sqnr_db"]
    break_channel(source, tmp_path / "broken.onnx", makers, reader, channel, 100)
    report = quantize("--data", data, tmp_path / "broken.onnx")
    broken = report["outputs"][0]["sqnr_db"]
    assert broken < sound - 5, "the outlier does no harm: this test shows nothing"
    first = report["suggestions"][0]
    assert first["name"] == reader_node and f"channel {channel} " in first["why"] and maker_node in first["why"], first
    assert is_record_of(tmp_path / "report/report.html", report)
    assert report["layers"][first["layer"]]["node"] == reader_node
    advice = next(a for a in report["advice"] if "--equalize=on" in a["command"])
    assert "--method=mse" in advice["command"], "the branch has ranges of its own, and no trials"
    assert advice["measured"]["sqnr_db_before"] == pytest.approx(broken)
    mended = again(qcalib, tmp_path, advice)
    assert mended["outputs"][0]["sqnr_db"] > sound - margin, (sound, broken, mended["outputs"])


def test_outlier_channel_of_the_example(quantize, qcalib, examples, tmp_path):
    case = (["res1_bn_weight", "res1_bn_bias"], "res2_weight", 3, "res1_conv_node", "res2_conv_node")
    check_broken(quantize, qcalib, tmp_path, examples / "digits_calib.h5", examples / "digits_cnn.onnx", case, 3)


@pytest.mark.nightly
def test_outlier_channel_of_resnet20(quantize, qcalib, data, tmp_path):
    source = data / "models/resnet20_cifar10.onnx"
    nodes = {n.name: n for n in onnx.load(str(source)).graph.node}
    maker, reader = "/layer2/layer2.1/conv1/Conv", "/layer2/layer2.1/conv2/Conv"
    case = (list(nodes[maker].input[1:]), nodes[reader].input[1], 5, maker, reader)
    check_broken(quantize, qcalib, tmp_path, data / "cifar10_calib.h5", source, case, 2)


def test_one_scale_for_unlike_channels(quantize, examples, tmp_path):
    model = onnx.load(str(examples / "digits_cnn.onnx"))
    for tensor in model.graph.initializer:
        if tensor.name == "depthwise_weight":
            value = numpy_helper.to_array(tensor).copy()
            value[2] *= 60
            tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
    onnx.save(model, str(tmp_path / "unlike.onnx"))
    arguments = ["--data", examples / "digits_calib.h5", tmp_path / "unlike.onnx"]
    report = quantize("--per-tensor", *arguments)
    found = [s for s in report["suggestions"] if "share one scale" in s["why"]]
    assert [s["name"] for s in found] == ["depthwise_conv_node"] and "channel 2 " in found[0]["why"], found
    mends = next(a for a in report["advice"] if "--per-tensor" not in a["command"])
    assert (
        "--skip" not in str(mends["command"])
        and mends["measured"]["sqnr_db_after"] > mends["measured"]["sqnr_db_before"] + 10
    )
    assert not [s for s in quantize(*arguments)["suggestions"] if "share one scale" in s["why"]]


def test_method_that_cuts_off(quantize, examples):
    report = quantize(
        "--data", examples / "digits_calib.h5", "--method", "percentile:p=90", examples / "digits_cnn.onnx"
    )
    assert any("cuts off" in s["why"] for s in report["suggestions"]), report["suggestions"]
    assert any(
        "--method=mse" in a["command"] and "percentile" not in str(a["command"]) for a in report["advice"]
    ), report["advice"]


@pytest.mark.parametrize(
    "given, option",
    [
        (["--method", "minmax"], "--activation-type=uint16:"),
        (["--weight-type", "int4"], "--weight-rounding=compensated"),
    ],
)
def test_more_bits(quantize, qcalib, examples, tmp_path, given, option):
    before = quantize(
        "--data",
        examples / "digits_calib.h5",
        "--weight-rounding",
        "nearest",
        "--advice=on",
        *given,
        examples / "digits_cnn.onnx",
    )
    first = next(a for a in before["advice"] if any(option in w for w in a["command"]))
    after = again(qcalib, tmp_path, first)
    floats = [[(f["name"], f["op"]) for f in r["float_ops"]] for r in (before, after)]  # --skip says why for the command
    assert after["outputs"][0]["sqnr_db"] >= before["outputs"][0]["sqnr_db"] + 0.3 and floats[0] == floats[1]


def test_digits_in_a_name_are_no_type(quantize, examples):
    arguments = ["--weight-type", "int3", "--advice", "on", "--data", examples / "digits_calib.h5"]
    advice = [
        [(a["action"], [w for w in a["command"][:-1] if not w.startswith(("--report", "--output"))][-1]) for a in quantize("--activation-type", f"uint8:{glob}", *arguments,
                                                           examples / "digits_cnn.onnx")["advice"]]
        for glob in ("res[12]*", "res[162]*")
    ]
    assert advice[0] == advice[1] and any("int16:" in option for _, option in advice[0]), advice


GIVEN = [
    ("resnet8_cifar10_mlperf", "cifar10_calib.h5", ["--preprocess", "none"]),
    ("dscnn_kws_mlperf", "kws01_calib128.h5", []),
    ("mnist_cntk8", "mnist_calib256.h5", []),
    ("autoencoder_ad_mlperf", "ad01_one_normal.h5", []),
    ("text_transformer_agnews", "agnews_calib256.h5", []),
]


@pytest.mark.parametrize("name, samples, options", GIVEN, ids=[g[0] for g in GIVEN])
def test_advice_is_what_its_command_gives(quantize, qcalib, data, tmp_path, name, samples, options):
    report = quantize(
        "--samples", "40", *options, "--method", "kl", "--data", data / samples, data / f"models/{name}.onnx"
    )
    gains = []
    for advice in report["advice"]:
        again(qcalib, tmp_path, advice)
        measured = advice["measured"]
        gains.append(measured["sqnr_db_after"] - measured["sqnr_db_before"])
        assert measured["held_back"]["sqnr_db_after"] - measured["held_back"]["sqnr_db_before"] >= 0.3
    assert len({tuple(a["command"]) for a in report["advice"]}) == len(gains)
    assert gains == sorted(gains, reverse=True) and all(g >= 0.3 for g in gains)
    assert gains or report["outputs"][0]["sqnr_db"] > 25, "nothing helps a network that loses much"


def test_advice_off_and_no_need(quantize, examples, tmp_path):
    arguments = ["--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx"]
    off = quantize("--advice", "off", *arguments)
    assert off["advice"] == [] and off["advice_tried"] == 0 and off["advice_state"] == "off"
    wide = quantize("--activation-type", "uint16", *arguments)
    assert wide["advice"] == [] and wide["advice_state"] == "not needed"


def test_names_of_a_hostile_model(quantize, examples, qcalib, tmp_path):
    name = "</script><b>x</b>'\" *[a]?"
    model = onnx.load(str(examples / "digits_cnn.onnx"))
    for node in model.graph.node:
        node.name = name + node.name
        for names in (node.input, node.output):
            for i, n in enumerate(names):
                names[i] = name + n if n == "res1" else n
    onnx.save(model, str(tmp_path / "hostile.onnx"))
    report = quantize("--data", examples / "digits_calib.h5", "--weight-type", "int3", "--samples", "40", tmp_path / "hostile.onnx")
    assert is_record_of(tmp_path / "report/report.html", report)
    page = (tmp_path / "report/report.html").read_text()
    assert "<b>x" not in page and any(name in l["node"] for l in report["layers"] if l["node"])
    # What is suggested names the node as it is, whatever a glob or a shell would read in it.
    advice = next(a for a in report["advice"] if "--skip" in str(a["command"]))
    names = [w for w in advice["command"] if w.startswith("--skip=")]
    assert [f["reason"] for f in again(qcalib, tmp_path, advice)["float_ops"]].count("left in float by --skip") == len(
        names
    )


@pytest.mark.integers
def test_what_stays_in_float_and_the_size_with_external_data(quantize, tmp_path):
    w = numpy.linspace(-1, 1, 256 * 256, dtype=numpy.float32).reshape(256, 256)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["y"], name="m"),
        onnx.helper.make_node("Add", ["y", "x2"], ["z"], name="a"),
    ]
    names = [[onnx.helper.make_tensor_value_info(n, 1, ["N", 256]) for n in many] for many in (["x", "x2"], ["z"])]
    graph = onnx.helper.make_graph(nodes, "g", *names, [numpy_helper.from_array(w, "w")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(tmp_path / "m.onnx"), save_as_external_data=True, location="m.bin", size_threshold=0)
    numpy.savez(tmp_path / "d.npz", x=w[:8], x2=w[8:16])
    report = quantize("--advice", "off", "--data", tmp_path / "d.npz", "-o", tmp_path / "q.onnx", tmp_path / "m.onnx")
    assert report["model"]["bytes"] == 256 * 1024 + (tmp_path / "m.onnx").stat().st_size, "with its external data"
    share = round(100 * report["files"][0]["bytes"] / report["model"]["bytes"])
    assert f"The file is {share} % of the original; 100.0 % of multiply-adds" in report["verdict"]["text"] and share < 30
    assert [f["reason"] for f in report["float_ops"]] == [
        "it reads an input of the model that nothing else reads in integers"
    ]


@pytest.mark.parametrize("method", ["auto", "kl"])
def test_curves_have_points_and_the_choice(quantize, examples, method):
    """The choice is among the thresholds of the curve, or behind the last one if nothing is clipped."""
    data = ["--data", examples / "digits_calib.h5", "--samples", "50", examples / "digits_cnn.onnx"]
    report = quantize("--advice", "off", "--method", method, *data)
    curves = [l for l in report["layers"] if l["solver"]["curve"]]
    assert len(curves) > 5
    for layer in curves:
        tried = sorted(p[0] for p in [*layer["solver"]["curve"], *layer["solver"].get("refused", [])] if p[1] is not None)
        choice = max(-layer["chosen"]["min"], layer["chosen"]["max"])
        room = (tried[-1] - tried[0]) / 5
        whole = layer["chosen"]["max"] >= layer["observed"]["max"]
        assert len(tried) > 1 and (whole or tried[0] - room <= choice <= tried[-1] + room), (layer["name"], tried, choice)


def test_weights_have_the_range_of_each_channel(quantize, examples):
    model = onnx.load(str(examples / "digits_cnn.onnx"))
    weights = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    report = quantize("--advice=off", "--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx")
    layers = {l["name"]: l for l in report["layers"] if l["kind"] == "weight"}
    channels = layers["dense1_weight"]["channels"]  # no batch norm is folded into it
    whole = weights["dense1_weight"].reshape(channels["count"], -1)
    assert channels["min"] == pytest.approx(whole.min(axis=1)) and channels["max"] == pytest.approx(whole.max(axis=1))


def test_same_bytes(qcalib, examples, tmp_path):
    pages = []
    for threads in ("1", "2"):
        folder = tmp_path / threads
        folder.mkdir()
        qcalib(
            "quantize",
            "-q",
            "--threads",
            threads,
            "--data",
            examples / "digits_calib.h5",
            "-o",
            "m.onnx",
            examples / "digits_cnn.onnx",
            folder=folder,
        )
        pages.append((folder / "m.report/report.html").read_bytes())
    assert pages[0] == pages[1]
    assert numpy.frombuffer(pages[0], dtype=numpy.uint8).size < 1_000_000


def test_advice_counts_what_auto_chooses_anew(quantize, data):
    """With fewer than 32 samples ranges reach beyond those of an observer by name, so each idea needs a choice of its
    own: the best one is tried all the same."""
    arguments = ["--data", data / "imagenet_calib100_224.h5", data / "models/mobilenetv1_075_224_imagenet.onnx"]
    tried = [quantize("--advice=auto", f"--samples={n}", *arguments)["advice_tried"] for n in (24, 72)]
    assert tried[0] == 1 < tried[1]


def test_advice_takes_a_tenth_of_the_work(quantize, data, tmp_path):
    """What is tried without being asked for is among what is tried at most, with the same figures; what is left out is
    said."""
    arguments = ["--data", data / "cifar10_calib.h5", "--method=minmax", "--weight-rounding=nearest", "--samples=64"]
    model = data / "models/resnet20_cifar10.onnx"
    some = quantize(*arguments, model)
    every = quantize(*arguments, "--advice=on", model)
    assert every["advice_left"] == 0 and some["advice_left"] > 0 and some["advice_tried"] > 0
    assert len(some["advice_left_out"]) == some["advice_left"] and all(a["action"] for a in some["advice_left_out"])
    figures = {shlex.join(w for w in a["command"] if "--advice" not in w): a["measured"] for a in every["advice"]}
    assert some["advice"]
    for a in some["advice"]:
        assert figures[shlex.join(w for w in a["command"] if "--advice" not in w)] == a["measured"]


def test_the_verdict_comes_first(quantize, examples, tmp_path):
    arguments = ["--advice", "off", "--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx"]
    report = quantize("--eval", examples / "digits_test.h5", "--weight-type", "int4", *arguments)
    verdict, lost = report["verdict"]["text"], 100 * (report["accuracy"]["fp32"] - report["accuracy"]["int8"])
    share = round(100 * report["files"][0]["bytes"] / report["model"]["bytes"])
    assert (f"falls by {lost:.2f} points" in verdict) == (lost > 0) and f"The file is {share} % of the original" in verdict
    assert f"{100 * report['integer_share']:.1f} % of multiply-adds are in integers" in verdict
    assert report["network"] == "int4" and f'<p class="verdict">{verdict}.</p>' in (tmp_path / "report/report.html").read_text()
    report = quantize(*arguments)
    db = report["outputs"][0]["sqnr_db"]
    assert report["verdict"]["grade"] == "good" and f"the outputs are close to those of the float model ({db:.1f} dB: an error of {100 * 10 ** (-db / 20):.2g} %)" in report["verdict"]["text"]
    poor = quantize("--weight-type=int2", *arguments)
    assert poor["verdict"]["grade"] in ("usable", "poor") and poor["outputs"][0]["sqnr_db"] < 30


def test_a_layer_has_the_effect_that_the_ranking_has(quantize, examples):
    report = quantize("--advice", "off", "--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx")
    ranking = {e["node"]: e["output_sqnr_db"] for e in report["ranking"]}
    assert len(ranking) > 5 and {l["node"]: l["output_sqnr_db"] for l in report["layers"] if l["node"] in ranking} == ranking
    assert all(l["output_sqnr_db"] is None for l in report["layers"] if l["node"] not in ranking)


def test_the_graph_is_that_of_the_model(quantize, examples, tmp_path):
    report = quantize("--advice", "off", "--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx")
    model, graph = onnx.load(str(examples / "digits_cnn.onnx")), report["graph"]
    assert [n["name"] for n in graph if n["kind"] == "input"] == ["input"] and graph[-1]["kind"] == "output"
    assert all(k < i for i, n in enumerate(graph) for k in n["inputs"])
    names = {n.name for n in model.graph.node}
    made = [n for n in graph if n["kind"] in ("integer", "float")]
    assert len(made) > 5 and {n["name"] for n in made} <= names
    layers = [report["layers"][n["layer"]] for n in made if n["layer"] is not None]
    assert {l["name"] for l in layers} >= {l["name"] for l in report["layers"] if l["kind"] == "activation" and l["op"] != "Input"}
    assert record_of(tmp_path / "report/report.html")["graph"] == graph


def test_ops_of_a_pattern_that_stay_in_float_say_why(qcalib, data, examples):
    """A clamp whose bounds equalization makes differ by channel, a table of quantized weights, and biases."""
    reasons = lambda report: {f["op"]: f["reason"] for f in report["float_ops"]}
    options = ["--per-tensor", "--equalize=on", "--method=minmax", "--prefer=integers", "--no-report", "--json", "-o", "e.onnx"]
    report = qcalib("quantize", "--data", examples / "digits_calib.h5", *options, examples / "digits_cnn.onnx").json
    assert reasons(report) == {"Min": "its bounds differ by channel, between integers"}
    options = ["--samples", 2, "--weight-type=int4", "--no-report", "--json", "-o", "g.onnx"]
    report = qcalib("quantize", "--data", data / "kjv_calib96.h5", *options, data / "models/gpt_kjv_chars.onnx").json
    why = {f["name"]: f["reason"] for f in report["float_ops"]}
    assert why["/e/Gather"] == "computed in float from quantized weights"
    products = {layer["node"] for layer in report["layers"] if layer["op"] == "MatMul" and layer["kind"] == "weight"}
    added = [name for name, reason in why.items() if reason == "computed in float on the result of an integer product"]
    assert len(added) > 20 and all(name.replace("Add", "MatMul") in products for name in added)
