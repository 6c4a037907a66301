# SPDX-License-Identifier: Apache-2.0
"""The report on a model that loses much, and its advice, which improves the model."""

import html
import json
import re
import shlex

import numpy
import onnx
import pytest
from onnx import numpy_helper


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
        advice = [] if "--advice" in arguments else ["--advice=auto"]
        qcalib("quantize", "-q", "--equalize=off", *advice, "--report", tmp_path / "report", *arguments)
        return json.loads((tmp_path / "report/report.json").read_text())

    return run


def first_screen(page):
    return html.unescape(re.sub(r"<[^>]*>", "", page[page.index("What helps") : page.index("Error along the network")]))


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
    screen = first_screen((tmp_path / "report/report.html").read_text())
    advice = next(a for a in report["advice"] if "--equalize=on" in a["command"])
    assert "--method=mse" in advice["command"], "the branch has ranges of its own, and no trials"
    assert reader_node in screen and maker_node in screen and shlex.join(advice["command"]) in screen
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
        "--data", examples / "digits_calib.h5", "--weight-rounding", "nearest", *given, examples / "digits_cnn.onnx"
    )
    first = next(a for a in before["advice"] if any(option in w for w in a["command"]))
    after = again(qcalib, tmp_path, first)
    assert (
        after["outputs"][0]["sqnr_db"] >= before["outputs"][0]["sqnr_db"] + 0.3
        and after["float_ops"] == before["float_ops"]
    )


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
    assert off["advice"] == [] and off["advice_tried"] == 0
    assert "--advice off" in first_screen((tmp_path / "report/report.html").read_text())
    wide = quantize("--activation-type", "uint16", *arguments)
    assert wide["advice"] == []
    assert "The loss is too small" in first_screen((tmp_path / "report/report.html").read_text())


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
    page = (tmp_path / "report/report.html").read_text()
    assert "All options, including defaults" in page and "&quot;per-tensor&quot;" in page
    assert (
        page.count("</script>") == 1
        and "<b>x" not in page
        and html.escape(name + "res1_conv_node", quote=False)[:20] in page
    )
    # What is suggested names the node as it is, whatever a glob or a shell would read in it.
    advice = next(a for a in report["advice"] if "--skip" in str(a["command"]))
    names = [w for w in advice["command"] if w.startswith("--skip=")]
    assert [f["reason"] for f in again(qcalib, tmp_path, advice)["float_ops"]].count("left in float by --skip") == len(
        names
    )


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
    page = (tmp_path / "report/report.html").read_text()
    assert re.search(r"256\u00a0KB → \d\d\.\d\u00a0KB</div><div class=\"note\">2\d % of it", page)
    assert "100.0 % of multiply-adds are in integers.</p>" in page and "1 of 2 ops. 1 stays in float: <a" in page
    assert [f["reason"] for f in report["float_ops"]] == [
        "it reads an input of the model that nothing else reads in integers"
    ]


def charts(page):
    """Of each curve in the page: where its line begins and ends, and where the choice is, in pixels."""
    found = []
    for chart in re.findall(r"<title>What the solver saw:.*?</svg>", page, re.DOTALL):
        lines = "".join(re.findall(r'<path class="line[^"]*" d="([^"]*)"', chart))
        across = [float(x) for x in re.findall(r"[ML]([0-9.]+) ", lines)]
        found.append((min(across), max(across), float(re.search(r'<path class="limit" d="M([0-9.]+)', chart)[1])))
    return found


@pytest.mark.parametrize("method", ["auto", "kl"])
@pytest.mark.parametrize("name", ["digits", "transformer"])
def test_curves_have_points_and_the_choice(quantize, examples, request, tmp_path, name, method):
    if name == "digits":
        model = ["--data", examples / "digits_calib.h5", "--samples", "50", examples / "digits_cnn.onnx"]
    else:
        data = request.getfixturevalue("data")
        model = ["--data", data / "agnews_calib256.h5", "--samples", "32", data / "models/text_transformer_agnews.onnx"]
    report = quantize("--advice", "off", "--method", method, *model)
    curves = [l for l in report["layers"] if l["solver"]["curve"]]
    found = charts((tmp_path / "report/report.html").read_text())
    assert len(found) == len(curves) > 5, "a chart is missing"
    for layer, (first, last, choice) in zip(curves, found):
        assert last - first > 50 and 46 <= choice <= 320, (layer["name"], first, last, choice)
        whole = layer["chosen"]["max"] >= layer["observed"]["max"] and choice == 320  # nothing is clipped: behind the last candidate
        assert whole or first - 30 <= choice <= last + 30, (layer["name"], first, last, choice)


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
    arguments = ["--data", data / "cifar10_calib.h5", "--method=kl", "--weight-rounding=nearest", "--samples=128"]
    model = data / "models/resnet20_cifar10.onnx"
    some = quantize(*arguments, model)
    page = first_screen((tmp_path / "report/report.html").read_text())
    every = quantize(*arguments, "--advice=on", model)
    assert every["advice_left"] == 0 and some["advice_left"] > 0 and some["advice_tried"] > 0
    assert f"{some['advice_left']} more" in page and "--advice on tries all" in page
    figures = {shlex.join(w for w in a["command"] if "--advice" not in w): a["measured"] for a in every["advice"]}
    assert some["advice"]
    for a in some["advice"]:
        assert figures[shlex.join(w for w in a["command"] if "--advice" not in w)] == a["measured"]


def words_of(page):
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page)))


def test_the_verdict_comes_first(quantize, examples, tmp_path):
    arguments = ["--advice", "off", "--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx"]
    report = quantize("--eval", examples / "digits_test.h5", "--weight-type", "int4", *arguments)
    page = (tmp_path / "report/report.html").read_text()
    verdict = re.search(r'<p class="verdict">(.*?)</p>', page)[1]
    lost = 100 * (report["accuracy"]["fp32"] - report["accuracy"]["int8"])
    share = round(100 * report["files"][0]["bytes"] / report["model"]["bytes"])
    assert (f"falls by {lost:.2f} points" in verdict) == (lost > 0) and f"the file is {share} % of the original" in verdict
    assert f"{100 * report['integer_share']:.1f} % of multiply-adds are in integers" in verdict
    text = words_of(page[page.index('id="summary"') :])
    assert text.index("multiply-adds are in integers") < text.index("Top-1 accuracy") < text.index("Where error enters")
    assert "95 % interval of int4" in text and "interval of int8" not in text
    # Types are spelled as the options do.
    assert not re.search(r"\b[ui](4|8|16)\b", text.replace("report.json", "")), re.search(r".{30}\b[ui](4|8|16)\b", text)
    quantize(*arguments)
    (first,) = re.findall(r'<p class="verdict">(.*?)</p>', (tmp_path / "report/report.html").read_text())
    assert re.match(r"The outputs (are close to|differ noticeably from) those of the float model \(\d+\.\d dB\);", first)


def test_accuracy_counts_positions_and_names_the_type(quantize, qcalib, data, tmp_path):
    arguments = ["--data", data / "kjv_calib96.h5", "--samples", "4", "--weight-type", "int4"]
    report = quantize("--advice=off", *arguments, "--eval", data / "kjv_eval192.h5", data / "models/gpt_kjv_chars.onnx")
    samples, positions = report["accuracy"]["samples"], report["accuracy"]["positions"]
    assert (samples, positions) == (192, 192 * 128)
    page = (tmp_path / "report/report.html").read_text()
    assert "Top-1 accuracy on 24,576 positions of 192 samples" in page
    assert ">int4</text>" in page and ">int8</text>" not in page


def test_layers_by_effect_are_the_second_screen(quantize, examples, tmp_path):
    report = quantize("--advice", "off", "--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx")
    page = (tmp_path / "report/report.html").read_text()
    screens = re.findall(r'<section class="screen" id="(\w+)"', page)
    assert screens[:2] == ["summary", "effects"]
    table = page[page.index('id="ranking"') :]
    table = table[: table.index("</table>")]
    rows = re.findall(r"<tr><td class=\"n\" data-v=\"(\d+)\">.*?</tr>", table)
    names = [html.unescape(re.sub("<wbr>", "", n)) for n in re.findall(r'<td class="name"><a href="#L\d+">(.*?)</a>', table)]
    assert len(rows) == len(report["ranking"]) > 5 and names == [r["node"] for r in report["ranking"]]
    assert all(f'data-v="{r["output_sqnr_db"]:.9g}"' in table for r in report["ranking"])


def test_advice_that_was_not_tried_is_one_sentence(quantize, data, tmp_path):
    """Whatever was tried: never "No command was tried. 4 more were not tried", nor "1 commands"."""
    for samples in ("4", "48"):
        report = quantize("--samples", samples, "--data", data / "imagenet_calib100_224.h5", data / "models/mobilenetv1_075_224_imagenet.onnx")
        text = words_of((tmp_path / "report/report.html").read_text())
        assert not re.search(r"\b1 (commands|options|ideas)\b|No command was tried", text)
        if report["advice_left"]:
            left = re.search(r"(\d+) (?:more )?ideas? (?:was|were) not tried, to save time; --advice on tries all ?: .{10}", text)
            assert int(left[1]) == report["advice_left"]
