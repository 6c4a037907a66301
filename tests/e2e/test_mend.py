# SPDX-License-Identifier: Apache-2.0
"""Outputs that quantization makes useless: --method auto improves them, and outputs that stay below 10 dB get a
warning."""
import re
import shlex

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from quantized_graph import QuantizedGraph

R = np.random.default_rng(5)
WIDTH, STEPS, HIDDEN = 8, 40, 24


def save(path, nodes, constants, shape, *results):
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *shape])],
        [helper.make_tensor_value_info(result, TensorProto.FLOAT, None) for result in results],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


@pytest.fixture
def unlike(tmp_path):
    return unlike_job(tmp_path, 2.5, 3)


@pytest.fixture
def hopeless(tmp_path):
    return unlike_job(tmp_path, 8, 2, 32)  # no other convolution: in float nothing is left to quantize


def loudness(samples, decades):
    return 10.0 ** -np.linspace(0, decades, samples)[:, None, None, None]


def unlike_job(tmp_path, decades, count, width=WIDTH):
    """A convolution and a normalisation: samples are loud or quiet, by many powers of ten, and all count as much."""
    first, second = (R.normal(size=(width, width, 3, 3)).astype(np.float32) for _ in range(2))
    constants = {"w": first, "v": second, "one": np.ones(width, np.float32), "zero": np.zeros(width, np.float32)}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], name="wide", kernel_shape=[3, 3]),
        helper.make_node("InstanceNormalization", ["a", "one", "zero"], ["b"], name="norm", epsilon=1e-20),
        helper.make_node("Conv", ["b", "v"], ["y"], name="narrow", kernel_shape=[3, 3]),
    ]
    save(tmp_path / "unlike.onnx", nodes[:count], constants, (width, 10, 10), nodes[count - 1].output[0])
    x = R.normal(size=(24, width, 10, 10)) * loudness(24, decades)
    np.savez(tmp_path / "x.npz", x=x.astype(np.float32))
    return ["--data", "x.npz", "unlike.onnx", "-o", "q.onnx", "--json", "--no-report"]


def of_output(result):
    return result.json["outputs"][0]["sqnr_db"]


def warnings_of(result):
    return [w for w in result.json["warnings"] if "too low to be useful" in w]


@pytest.mark.integers
def test_auto_mends(unlike, qcalib, tmp_path):
    """Attempts are sketches; the file is made in full, as by hand."""
    r = qcalib(*unlike)
    assert of_output(r) > 20 and not warnings_of(r)
    assert r.json["fallback"]["met"] and r.json["fallback"]["options"]
    made = (tmp_path / "q.onnx").read_bytes()
    by_hand = qcalib(*unlike, *r.json["fallback"]["options"])
    assert of_output(by_hand) == of_output(r) and (tmp_path / "q.onnx").read_bytes() == made


def test_accuracy_data_change_nothing(unlike, qcalib, tmp_path):
    """What is mended is judged on --data alone."""
    qcalib(*unlike)
    alone = (tmp_path / "q.onnx").read_bytes()
    np.savez(tmp_path / "e.npz", x=R.normal(size=(8, WIDTH, 10, 10)).astype(np.float32), target=np.zeros((8, WIDTH, 6, 6), np.float32))
    r = qcalib(*unlike, "--eval", "e.npz", code=None)
    assert r.code == 0, r.err
    assert (tmp_path / "q.onnx").read_bytes() == alone


@pytest.mark.integers
def test_what_is_not_mended_is_said(unlike, qcalib):
    """The warning names the layer and an option, which mends."""
    r = qcalib(*unlike, "--method", "mse")
    (warning,) = warnings_of(r)
    assert of_output(r) < 10 and f"{of_output(r):.2f} dB" in warning and r.json["fallback"] is None
    assert "most is lost in 'wide'" in warning and warning in r.err and "--min-sqnr 10" in warning
    words = shlex.split(warning.split("or try: ")[1])[2:]
    changed = [w for w in words if w.startswith(("--activation-type", "--skip"))]
    assert changed and of_output(qcalib(*unlike, "--method", "mse", *changed)) > 20
    assert of_output(qcalib(*unlike, "--method", "mse", "--min-sqnr", "10")) > 10


@pytest.mark.integers
@pytest.mark.parametrize("outputs", [1, 2])
def test_a_command_that_was_measured_is_said(outputs, unlike, qcalib, tmp_path):
    """With the SQNR of the output that is named, not with a mean over all: a second output loses nothing."""
    if outputs == 2:
        model = onnx.load(str(tmp_path / "unlike.onnx"))
        model.graph.node.append(helper.make_node("Neg", ["x"], ["same"], name="same"))
        model.graph.output.append(helper.make_tensor_value_info("same", TensorProto.FLOAT, None))
        onnx.save(model, str(tmp_path / "unlike.onnx"))
    r = qcalib(*unlike, "--method", "mse", "--advice", "on")
    (warning,) = warnings_of(r)
    best = r.json["advice"][0]
    assert best["measured"]["sqnr_db_after"] > 20
    assert shlex.split(warning.split("dB with: ")[1]) == best["command"]
    after = {o["name"]: o["sqnr_db_after"] for o in best["measured"]["outputs"]}
    assert len(after) == outputs and f"; {after['y']:.2f} dB with: " in warning


def test_what_wider_types_do_not_mend_is_said(hopeless, qcalib):
    """No type of 16 bits has room for these samples; floats have."""
    off = "--bias-correction", "off"
    r = qcalib(*hopeless, *off, "--prefer", "integers")
    (warning,) = warnings_of(r)
    assert of_output(r) < 10
    assert warning.endswith("--activation-type none")
    assert of_output(qcalib(*hopeless, *off, "--activation-type", "none")) > 20


def test_a_file_in_float_is_better_than_a_useless_one(hopeless, qcalib, tmp_path):
    r = qcalib(*hopeless)
    assert "nothing is quantized: with integers the worst output has" in r.err and "--prefer integers" in r.err
    assert r.json["fallback"]["met"] and not r.json["fallback"]["options"] and r.json["fallback"]["command"] is None
    x = np.load(tmp_path / "x.npz")["x"]
    real, written = (onnxruntime.InferenceSession(str(tmp_path / n)).run(None, {"x": x})[0] for n in ("unlike.onnx", "q.onnx"))
    assert np.abs(real - written).max() <= 1e-5 * np.abs(real).max()
    said = qcalib(*(a for a in hopeless if a != "--json")).out
    assert "with: equal outputs at 100 % of the float latency" in said and "by hand" not in said and "nan" not in said


@pytest.mark.integers
def test_types_that_are_asked_for_stay(unlike, qcalib):
    r = qcalib(*unlike, "--activation-type", "uint8")
    assert r.json["fallback"] is None and warnings_of(r)


def test_no_word_where_all_is_well(qcalib, examples):
    r = qcalib("--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx", "-o", "q.onnx", "--json", "--no-report")
    assert not warnings_of(r) and r.json["fallback"] is None


# ---- What wider types may cost ----


def outlier_job(folder, times, channels=64, layers=8, bad=(1,)):
    """Convolutions. Behind the bad ones a channel is `times` as large as the others, and the next layer takes that back."""
    rng = np.random.default_rng(0)
    nodes, constants, x = [], {}, "x"
    for k in range(layers):
        w = (rng.standard_normal((channels, channels, 3, 3)) / 24).astype(np.float32)
        if k in bad:
            w[0] *= times
        if k - 1 in bad:
            w[:, 0] /= times
        constants[f"w{k}"] = w
        nodes.append(helper.make_node("Conv", [x, f"w{k}"], [f"c{k}"], name=f"conv{k}", pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        x = f"r{k}"
    save(folder / "m.onnx", nodes, constants, (channels, 8, 8), x)
    np.savez(folder / "x.npz", x=np.random.default_rng(1).standard_normal((48, channels, 8, 8)).astype(np.float32))
    return ["--data", "x.npz", "m.onnx", "-o", "q.onnx", "--equalize", "off", "--scale-channels", "off", "--no-report"]


def test_few_layers_before_many(qcalib, tmp_path):
    """Two layers in float, between which nothing is rounded, cost less than one in 16 bits, which ONNX Runtime computes in
    float with conversions. ONNX Runtime agrees on the gain."""
    job = outlier_job(tmp_path, 200)
    x = np.load(tmp_path / "x.npz")["x"][:8]
    y = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x})[0]

    def of_runtime(*options):
        report = qcalib(*job, "--json", *options).json
        z = onnxruntime.InferenceSession(str(tmp_path / "q.onnx")).run(None, {"x": x})[0]
        return report, 10 * np.log10((y**2).sum() / ((y - z) ** 2).sum())

    plain, before = of_runtime("--activation-type", "uint8")
    report, after = of_runtime()
    assert plain["fallback"] is None and before < 10 and after > before + 8, (before, after)
    steps = report["fallback"]["steps"]
    (chosen,) = [s for s in steps if s["chosen"]]
    (wide,) = [s for s in steps if (s["layers"], s["type"]) == (1, "16 bits")]
    assert (chosen["layers"], chosen["type"]) == (2, "float") and chosen["cost"]["latency"] < wide["cost"]["latency"]
    assert report["fallback"]["options"] == ["--skip=conv2", "--skip=conv1"], report["fallback"]["options"]
    assert report["cost"] == chosen["cost"] and report["cost"]["latency"] <= 1
    content = (tmp_path / "q.onnx").read_bytes()
    assert len(content) == report["cost"]["bytes"] < (tmp_path / "m.onnx").stat().st_size
    qcalib(*job, "--threads", 3)
    assert (tmp_path / "q.onnx").read_bytes() == content
    line = qcalib(*job).out.split("without:")[1].splitlines()[0]
    assert re.fullmatch(r" [\d.]+ dB at \d\d % of the float latency; with: [\d.]+ dB at \d\d % of the float latency \(estimated\)", line), line


def test_no_step_at_10_decibels(qcalib, tmp_path):
    """Two files of one network, a little above and below 10 dB, get the same types."""
    reports = []
    for times in (104, 109):
        reports.append(qcalib(*outlier_job(tmp_path, times), "--json").json)
    first = [r["fallback"]["steps"][0]["sqnr_db"] for r in reports]
    assert 11 > first[0] > 10 > first[1] > 9, first
    chosen = [[s["layers"] for s in r["fallback"]["steps"] if s["chosen"]] for r in reports]
    assert chosen[0] == chosen[1] and abs(of(reports[0]) - of(reports[1])) < 2.5, (first, chosen)
    assert reports[0]["cost"]["latency"] == pytest.approx(reports[1]["cost"]["latency"])


def of(report):
    return report["outputs"][0]["sqnr_db"]


def test_many_layers_and_no_cliff(qcalib, tmp_path):
    """Outliers of every second layer: fewer than all of them in wider types help little. The file is useful, and neither
    slower nor larger than the float model; a smaller share of the outliers costs less and never gives a worse file."""
    found = []
    for times, layers in ((30, 8), (200, 8), (200, 12)):
        report = qcalib(*outlier_job(tmp_path, times, layers=layers, bad=range(1, layers - 1, 2)), "--json").json
        first = report["fallback"]["steps"][0] if report["fallback"] else report
        found.append((of(report), report["cost"]["latency"]))
        assert of(report) > 10 and report["cost"]["latency"] <= 1, (times, layers, found)
        assert (tmp_path / "q.onnx").stat().st_size < (tmp_path / "m.onnx").stat().st_size
        assert "sqnr_db" not in first or first["sqnr_db"] < 16
    assert found[0][1] <= found[1][1], found


def test_what_no_type_mends_costs_nothing(qcalib, tmp_path):
    """All layers read or make outliers by thousands: unless all are in float, the output stays useless."""
    r = qcalib(*outlier_job(tmp_path, 3000, layers=10, bad=range(0, 9, 2)), "--json")
    steps = r.json["fallback"]["steps"]
    assert of(r.json) < 3 and not any(s["chosen"] for s in steps) and not r.json["fallback"]["options"]
    assert r.json["cost"] == steps[0]["cost"]
    (warning,) = warnings_of(r)
    best = max((s for s in steps if s["sqnr_db"] is not None), key=lambda s: s["sqnr_db"])
    assert f"wider types reach {best['sqnr_db']:.2f} dB" in warning, warning


def test_no_file_is_slower_than_float(qcalib, tmp_path):
    """Small layers: one of them in wider types would cost what the integers of all others save."""
    report = qcalib(*outlier_job(tmp_path, 200, 16), "--processor", "avx512-vnni", "--json").json
    steps = report["fallback"]["steps"]
    assert steps[0]["cost"]["latency"] > 0.7
    most = max(1, steps[0]["cost"]["latency"])
    assert report["cost"]["latency"] <= most
    assert all(s["reason"] for s in steps if s["cost"]["latency"] > most) and any(s["reason"] for s in steps), steps


# ---- Recurrent operators ----


def lstm(path, read_in_integers=False):
    """Layers with weights in which one of each row is large, so that 8 bits leave little of the others."""
    constants, nodes, width = {"axes": np.array([1])}, [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2])], WIDTH
    value = "t"
    for k in range(2):
        for name, columns in (("w", width), ("r", HIDDEN)):
            weight = R.normal(size=(1, 4 * HIDDEN, columns)).astype(np.float32) * 0.4
            weight[:, :, 0] *= 60
            constants[f"{name}{k}"] = weight
        nodes.append(helper.make_node("LSTM", [value, f"w{k}", f"r{k}"], [f"h{k}"], name=f"lstm{k}", hidden_size=HIDDEN))
        nodes.append(helper.make_node("Squeeze", [f"h{k}", "axes"], [f"s{k}"]))
        value, width = f"s{k}", HIDDEN
    if read_in_integers:
        constants["m"] = R.normal(size=(WIDTH, HIDDEN)).astype(np.float32)
        nodes.append(helper.make_node("MatMul", ["t", "m"], ["d"], name="dense"))
        nodes.append(helper.make_node("Add", ["d", value], ["y"]))
        value = "y"
    save(path, nodes, constants, (STEPS, WIDTH), value)


@pytest.fixture
def energies(tmp_path):
    """What a microphone gives: nearly all is small, a few values are large."""
    x = np.exp(R.normal(size=(24, STEPS, WIDTH)) * 2.5 - 8).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)


def test_input_of_a_float_operator_is_not_rounded(energies, qcalib, tmp_path):
    lstm(tmp_path / "m.onnx")
    qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--no-report", "--weight-type", "int8")
    g = QuantizedGraph(tmp_path / "q.onnx")
    assert len(g.of("LSTM")) == 2 and all(g.dequantize(n.input[0]) is None for n in g.of("LSTM"))
    assert not g.of("QuantizeLinear")


@pytest.mark.integers
def test_input_that_integers_share_is_stored_once(energies, qcalib, tmp_path):
    lstm(tmp_path / "m.onnx", read_in_integers=True)
    qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--no-report", "--weight-type", "int8", "--effort", "low")
    g = QuantizedGraph(tmp_path / "q.onnx")
    assert g.dequantize(g.of("LSTM")[0].input[0]) is not None
    assert {n.input[1] for n in g.of("QuantizeLinear")} == {"x_scale"}  # in front of the transpose and behind it


def test_recurrent_weights_that_cost_have_16_bits(energies, qcalib, tmp_path):
    lstm(tmp_path / "m.onnx")
    job = ["--data", "x.npz", "m.onnx", "-o", "q.onnx", "--json", "--no-report"]
    r = qcalib(*job)
    g = QuantizedGraph(tmp_path / "q.onnx")
    types = {g.value(g.maker[g.maker[name].input[0]].input[0]).dtype for n in g.of("LSTM") for name in n.input[1:3]}
    assert types == {np.dtype(np.int16)} and r.json["fallback"]["options"] == ["--weight-type=int16:LSTM"]
    asked = qcalib(*job, "--weight-type", "int8")
    assert asked.json["fallback"] is None and of_output(r) > of_output(asked) + 3


def test_recurrent_weights_that_cost_nothing_have_8_bits(qcalib, tmp_path):
    """The noise is that of the convolution in front, which is what is mended."""
    loud = loudness(24, 2.5)[..., 0]
    constants = {
        "v": R.normal(size=(WIDTH, WIDTH, 3)).astype(np.float32),
        "one": np.ones(WIDTH, np.float32),
        "zero": np.zeros(WIDTH, np.float32),
        "w": R.normal(size=(1, 4 * HIDDEN, WIDTH)).astype(np.float32) * 0.2,
        "r": R.normal(size=(1, 4 * HIDDEN, HIDDEN)).astype(np.float32) * 0.05,
    }
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], name="first", kernel_shape=[3]),
        helper.make_node("InstanceNormalization", ["a", "one", "zero"], ["b"], name="norm", epsilon=1e-20),
        helper.make_node("Transpose", ["b"], ["t"], perm=[2, 0, 1]),
        helper.make_node("LSTM", ["t", "w", "r"], ["y"], name="lstm", hidden_size=HIDDEN),
    ]
    save(tmp_path / "m.onnx", nodes, constants, (WIDTH, STEPS), "y")
    np.savez(tmp_path / "x.npz", x=(R.normal(size=(24, WIDTH, STEPS)) * loud).astype(np.float32))
    r = qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--json", "--prefer", "size")
    g = QuantizedGraph(tmp_path / "q.onnx")
    assert {g.value(g.maker[g.maker[name].input[0]].input[0]).dtype for n in g.of("LSTM") for name in n.input[1:3]} == {np.dtype(np.int8)}
    assert of_output(r) > 20 and r.json["fallback"]["met"]
    assert all("first" in o for o in r.json["fallback"]["options"])


@pytest.mark.integers
@pytest.mark.parametrize("advice", ["off", "on"])
def test_shapes_of_data(advice, qcalib, tmp_path):
    """A useless output, and an output whose shape depends on data, so that no layer can be measured on its own."""
    constants = {"w": R.normal(size=(WIDTH, WIDTH)).astype(np.float32)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
        helper.make_node("Sin", ["m"], ["y"]),  # the step of 8 bits is longer than its period
        helper.make_node("Unique", ["x"], ["some"], sorted=0),
    ]
    save(tmp_path / "m.onnx", nodes, constants, (WIDTH,), "y", "some")
    np.savez(tmp_path / "x.npz", x=R.integers(-9, 9, (6, WIDTH)).astype(np.float32) * 300)
    r = qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--json", "--no-report", "--advice", advice)
    assert of_output(r) < 10 and warnings_of(r)
    assert (tmp_path / "q.onnx").exists()


def test_speaker_encoder(qcalib, data):
    """A trained network of three layers: 0.8 dB with its input in 8 bits; ONNX Runtime's quantizer leaves 32.5."""
    folder = data / "hostile/second"
    if not folder.is_dir():
        pytest.skip("no models of the third round")
    r = qcalib("--data", folder / "lstm_speaker.calib.npz", folder / "lstm_speaker.onnx", "-o", "q.onnx", "--json", "--no-report")
    assert of_output(r) > 35


@pytest.mark.parametrize("name", ["yolos", "yolos_contrib"])
def test_yolos(name, qcalib, data):
    folder = data / "hostile/second"
    if not folder.is_dir():
        pytest.skip("no models of the third round")
    r = qcalib("--data", folder / "yolos.calib.npz", folder / f"{name}.onnx", "-o", "q.onnx", "--json", "--no-report", "--method", "mse")
    assert of_output(r) > 25
