# SPDX-License-Identifier: Apache-2.0
"""Options of quantize on the shipped example: their effects in the file and in the report."""

import json

import avx2_runtime
import h5py
import numpy as np
import onnx
import pytest
from measured_models import Data, infer, sqnr
from onnx import TensorProto, helper

from quantized_graph import QuantizedGraph, check_pairs, check_weights
from test_run import by_name

EXPORTED = "digits_cnn.int8.onnx"


@pytest.fixture
def digits(qcalib, examples):
    return lambda *more, **how: qcalib(
        "quantize", "--data", examples / "digits_calib.h5", *more, examples / "digits_cnn.onnx", **how
    )


@pytest.fixture
def graph(tmp_path):
    return lambda name=EXPORTED: QuantizedGraph(tmp_path / name)


def close_to_float(examples, path, decibels):
    few = Data(examples / "digits_test.h5", limit=100).inputs
    reference, outputs = infer(examples / "digits_cnn.onnx", few)[0], infer(path, few)[0]
    found = sqnr(reference, outputs)[0]
    assert found > decibels, found
    return found


def test_per_tensor(digits, graph, examples, tmp_path):
    digits("--per-tensor")
    g = graph()
    check_weights(g, per_channel=False)
    close_to_float(examples, tmp_path / EXPORTED, 20)
    digits("--per-tensor", "--per-channel", "-o", "last.onnx")  # the last one wins
    check_weights(graph("last.onnx"))


def test_activation_type(digits, graph, examples, tmp_path):
    digits("--activation-type", "int8")
    g = graph()
    assert {g.value(n.input[2]).dtype for n in g.of("QuantizeLinear")} == {np.dtype(np.int8)}
    close_to_float(examples, tmp_path / EXPORTED, 25)
    digits("-o", "default.onnx")
    d = graph("default.onnx")
    assert {d.value(n.input[2]).dtype for n in d.of("QuantizeLinear")} == {np.dtype(np.uint8)}


def zero_points(g):
    return {n.input[0]: int(g.value(n.input[2])) for n in g.of("QuantizeLinear")}


def test_symmetric_activations(digits, graph, examples, tmp_path):
    digits("--symmetric", "--activation-type", "int8")
    assert set(zero_points(graph()).values()) == {0}
    close_to_float(examples, tmp_path / EXPORTED, 20)
    digits("--symmetric=activations", "--activation-type", "uint8", "-o", "unsigned.onnx")
    assert zero_points(graph("unsigned.onnx"))["input"] == 128
    digits("-o", "default.onnx")
    assert zero_points(graph("default.onnx"))["input"] not in (0, 128)


def test_asymmetric_weights(digits, graph, qcalib, tmp_path, examples):
    """Their pairs are not limited: ONNX Runtime computes what qcalib says of the kernels of this processor, and with exact ones it is
    near the float model."""
    digits("--symmetric=none")
    g = graph()
    weights = [g.dequantize(n.input[1]) for n in g.of("Conv")]
    assert any(np.any(g.value(w.input[2])) for w in weights)
    test = examples / "digits_test.h5"
    qcalib("run", "-q", EXPORTED, "--data", test, "--rounding", avx2_runtime.rounding(), "-o", "out.h5")
    assert np.array_equal(by_name(tmp_path / "out.h5")["logits"], infer(tmp_path / EXPORTED, Data(test).inputs)[0][0])
    near = qcalib("compare", examples / "digits_cnn.onnx", EXPORTED, "--data", test, "--json").json
    assert near["outputs"][0]["sqnr_db"] > 25


def test_range(digits, graph):
    lowest = lambda g: min(int(g.value(g.dequantize(n.input[1]).input[0]).min()) for n in g.of("Conv", "Gemm"))
    digits("--range", "restricted")
    assert lowest(graph()) == -127
    digits("--range", "full", "--symmetric=none")
    assert lowest(graph()) == -128


@pytest.mark.parametrize(
    "what, floats",
    [
        ("depthwise_conv_node", {"depthwise_conv_node"}),
        ("Gemm", {"dense1_out_node", "logits_node"}),
        ("res?_conv*", {"res1_conv_node", "res2_conv_node"}),
    ],
)
def test_skip(what, floats, digits, graph, examples, tmp_path):
    """By the name of a node, an op, a glob. What is skipped is float, in the file and in the report, with the reason; the rest is not."""
    report = digits("--skip", what, "--prefer", "integers", "--json").json
    g = graph()
    quantized = {n.name for n in g.quantized("Conv", "Gemm") if g.dequantize(n.input[1]) is not None}
    every = {n.name for n in g.of("Conv", "Gemm")}
    assert every - quantized == floats
    assert floats <= {f["name"] for f in report["float_ops"]}
    assert all("skip" in f["reason"] for f in report["float_ops"] if f["name"] in floats), report["float_ops"]
    close_to_float(examples, tmp_path / EXPORTED, 25)


def test_skip_is_repeatable(digits, graph):
    digits("--skip", "stem_conv_node", "--skip", "logits_node")
    g = graph()
    assert {n.name for n in g.of("Conv", "Gemm") if g.dequantize(n.input[1]) is None} == {
        "stem_conv_node",
        "logits_node",
    }


def test_skip_that_fits_nothing(digits):
    done = digits("--skip", "no_such_node", code=None)
    assert done.code == 2 or "no_such_node" in done.err, "a name that fits nothing is told"


def test_only(digits, graph):
    digits("--only", "conv2d_bias")
    g = graph()
    assert g.quantized("Conv") == g.of("Conv") and not g.quantized("Gemm") and not g.quantized("AveragePool")
    check_pairs(g)


def test_only_with_an_unknown_pattern(digits):
    done = digits("--only", "conv2d_biass", code=2)
    assert "conv2d_biass" in done.err and "conv2d_bias" in done.err and done.new_files == []


def test_everything_skipped(digits):
    done = digits("--skip", "Conv", "--skip", "Gemm", code=4)
    assert "nothing to quantize" in done.err and done.new_files == []


def test_require_integer(digits, qcalib, examples, tmp_path):
    assert digits("--require-integer").code == 0
    done = digits("--require-integer", "--skip", "depthwise_conv_node", "-o", "demand.onnx", code=1)
    assert "depthwise_conv_node" in done.err and "Conv" in done.err and done.new_files == []


def test_max_drop(digits, examples, tmp_path):
    assert digits("--max-drop", 1, "--eval", examples / "digits_test.h5").code == 0
    # A single image shows the range, and a tenth of its values are cut: accuracy falls.
    bad = ["--samples", 1, "--per-tensor", "--method", "percentile:p=90", "--eval", examples / "digits_test.h5"]
    worse = digits(*bad, "--require-integer", "--json", "-o", "worse.onnx").json["accuracy"]
    drop = 100 * (worse["fp32"] - worse["int8"])
    assert drop > 1
    # Ranges that cut do so in 16 bits as well, and nothing may stay in float.
    done = digits(*bad, "--max-drop", 1, "--require-integer", "-o", "demand.onnx", "--report", "demand.report", code=1)
    assert "demand.onnx" not in done.new_files and f"{drop:.2f}" in done.err
    assert "demand.report/report.json" in done.new_files
    path = json.loads((tmp_path / "demand.report/report.json").read_text())["fallback"]
    assert (
        not path["met"]
        and path["options"] == []
        and path["steps"][0]["drop"] == pytest.approx(drop)
        and len(path["steps"]) > 1
    )
    assert all(not s["met"] and not s["chosen"] and (s["reason"] or s["drop"] > 1) for s in path["steps"])
    assert digits(*bad, "--max-drop", drop + 0.01, "-o", "demand.onnx").code == 0


def test_max_drop_needs_labels(digits):
    assert "--eval" in digits("--max-drop", 1, code=2).err


def test_a_demand_that_is_not_met_leaves_the_earlier_file(digits, tmp_path):
    (tmp_path / EXPORTED).write_text("mine")
    digits("--require-integer", "--skip", "Gemm", code=1)
    assert (tmp_path / EXPORTED).read_text() == "mine"


def test_output_and_report(digits, tmp_path):
    (tmp_path / "there").mkdir()
    assert digits("-o", "there/a.onnx").new_files == [
        "there/a.onnx",
        "there/a.report",
        "there/a.report/layers.csv",
        "there/a.report/report.html",
        "there/a.report/report.json",
    ]
    assert digits("-o", "b.onnx", "--report", "r").new_files == [
        "b.onnx",
        "r",
        "r/layers.csv",
        "r/report.html",
        "r/report.json",
    ]
    assert digits("--output=c.onnx", "--no-report").new_files == ["c.onnx"]


def test_format(digits, tmp_path):
    digits("--format", "qdq", "-o", "a.onnx")
    digits("-o", "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert digits("--format", "no_such", code=2).new_files == []


def test_json(digits, tmp_path):
    """One object on standard output, and it is the report."""
    done = digits("--json")
    assert done.json == json.loads((tmp_path / "digits_cnn.int8.report/report.json").read_text())
    quiet = digits("-q")
    assert quiet.out == "" and quiet.err == ""


def numbers(x):
    if isinstance(x, dict):
        return [n for v in x.values() for n in numbers(v)]
    if isinstance(x, list):
        return [n for v in x for n in numbers(v)]
    return [x] if isinstance(x, float) else []


def test_json_is_strict(digits):
    """No NaN and no Infinity: Python would take them, other readers do not."""
    text = digits("--json").out

    def refuse(name):
        raise AssertionError(name)

    assert np.all(np.isfinite(numbers(json.loads(text, parse_constant=refuse))))


def test_config(digits, qcalib, examples, tmp_path):
    (tmp_path / "config.json").write_text(
        json.dumps({"method": "minmax", "per-tensor": True, "samples": 60, "skip": ["logits_node"]})
    )
    from_file = digits("--config", "config.json", "-o", "a.onnx", "--json").json
    digits("--method", "minmax", "--per-tensor", "--samples", 60, "--skip", "logits_node", "-o", "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert from_file["options"]["method"] == "minmax" and from_file["options"]["samples"] == 60
    over = digits("--config", "config.json", "--method", "kl", "-o", "c.onnx", "--json").json
    assert over["options"]["method"] == "kl" and over["options"]["samples"] == 60


def test_options_of_the_report_make_the_same_file(digits, qcalib, examples, tmp_path):
    """The report holds the effective options, which --config takes."""
    first = digits("--method", "kl:bins=512", "--symmetric", "--samples", 77, "-o", "a.onnx", "--json").json
    given = {k: v for k, v in first["options"].items() if v not in (None, [], False)}
    (tmp_path / "again.json").write_text(json.dumps(given))
    qcalib("--config", "again.json", examples / "digits_cnn.onnx", "-o", "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_rules(digits, graph, tmp_path):
    """A pattern of one's own, the only one that is used: nothing but the average pool is quantized. And a mistake in it is told."""
    (tmp_path / "mine.rules").write_text(
        "pattern my_pool\n  match  AveragePool(x)\n  affine dq(AveragePool(q(x : X)) : Z)\n"
    )
    digits("--rules", "mine.rules", "--only", "my_pool")
    g = graph()
    assert len(g.quantized("AveragePool")) == 1
    assert all(g.dequantize(n.input[1]) is None for n in g.of("Conv", "Gemm"))
    (tmp_path / "broken.rules").write_text("pattern my_pool\n  match AveragePool(x\n")
    done = digits("--rules", "broken.rules", "-o", "none.onnx", code=None)
    assert done.code in (2, 3) and "broken.rules" in done.err and "none.onnx" not in done.new_files


STAGES = (
    "import",
    "normalise",
    "functions",
    "partition",
    "simulate",
    "collect",
    "scale",
    "choose",
    "bind",
    "round",
    "refine",
    "correct",
    "expand",
    "fold",
    "realise",
    "export",
)


@pytest.mark.parametrize("stage", STAGES)
def test_dump(stage, digits, tmp_path):
    shown = digits("--dump", stage, "--no-report").out
    assert "Conv" in shown and len(shown.splitlines()) > 20
    done = digits("--dump", f"{stage}=dump.txt", "--no-report")
    assert "dump.txt" in done.new_files and "Conv" in (tmp_path / "dump.txt").read_text()
    assert len(done.out.splitlines()) <= 15


def test_dump_of_an_unknown_stage(digits):
    done = digits("--dump", "fould", code=2)
    assert "fold" in done.err and done.new_files == []


def test_dump_beside_json(digits, qcalib):
    """--json prints one JSON object and nothing else."""
    done = digits("--dump", "fold", "--json", code=2)
    assert "--dump fold=FILE" in done.err and done.out == "" and done.new_files == []
    assert digits("--dump", "fold=dump.txt", "--json", "-o", "q.onnx", "--no-report").json["tool"] == "qcalib"
    assert "--dump realise=FILE" in qcalib("convert", "q.onnx", "--json", "--dump", "realise", code=2).err


def test_preprocess(qcalib, examples, tmp_path):
    """The text given is the same as the attributes of the data set; and it is used, since another one gives another file."""
    import h5py

    with h5py.File(examples / "digits_calib.h5") as f, h5py.File(tmp_path / "bare.h5", "w") as g:
        g["input"] = f["input"][:]
        values = {
            k: ",".join(repr(float(v)) for v in np.atleast_1d(f["input"].attrs[k])) for k in ("scale", "mean", "std")
        }
    text = " ".join(f"{k}={v}" for k, v in values.items())
    model = examples / "digits_cnn.onnx"
    qcalib("--data", examples / "digits_calib.h5", model, "-o", "a.onnx")
    qcalib("--data", "bare.h5", "--preprocess", text, model, "-o", "b.onnx")
    qcalib("--data", "bare.h5", model, "-o", "c.onnx")
    qcalib("--data", examples / "digits_calib.h5", "--preprocess", "none", model, "-o", "d.onnx")
    a, b, c, d = ((tmp_path / f"{x}.onnx").read_bytes() for x in "abcd")
    assert a == b and c == d and a != c


def test_nonfinite(qcalib, examples, tmp_path):
    import h5py

    x = Data(examples / "digits_calib.h5").inputs[:20]
    with h5py.File(tmp_path / "clean.h5", "w") as f:
        f["input"] = x
    x = x.copy()
    x[7, 0, 0, 0], x[9, 0, 3, 3] = np.nan, -np.inf
    with h5py.File(tmp_path / "dirty.h5", "w") as f:
        f["input"] = x
    model = examples / "digits_cnn.onnx"
    done = qcalib("--data", "dirty.h5", model, "--json")
    first = next(l for l in done.json["layers"] if l["name"] == "input")
    assert (first["observed"]["nan"], first["observed"]["inf"]) == (1, 1)
    assert "sample 7" in done.err and "input" in done.err and done.json["warnings"]
    done = qcalib("--data", "dirty.h5", model, "--nonfinite", "error", "-o", "none.onnx", code=3)
    assert "sample 7" in done.err and "none.onnx" not in done.new_files
    assert qcalib("--data", "clean.h5", model, "--nonfinite", "error").code == 0


def two_inputs(path):
    w = np.random.default_rng(2).normal(size=(8, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Gemm", ["a", "w"], ["p"], name="p"),
        helper.make_node("Gemm", ["b", "w"], ["q"], name="q"),
        helper.make_node("Add", ["p", "q"], ["y"], name="y"),
    ]
    value = lambda n, c: helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", c])
    graph = helper.make_graph(
        nodes, "g", [value("a", 8), value("b", 8)], [value("y", 4)], [onnx.numpy_helper.from_array(w, "w")]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)


@pytest.mark.integers
def test_input(qcalib, tmp_path):
    """--input NAME=DATASET names the set of each input; swapped, the ranges are swapped."""
    import h5py

    two_inputs(tmp_path / "two.onnx")
    rng = np.random.default_rng(3)
    with h5py.File(tmp_path / "two.h5", "w") as f:
        f["small"], f["large"] = rng.uniform(-1, 1, (64, 8)).astype(np.float32), rng.uniform(-50, 50, (64, 8)).astype(
            np.float32
        )

    def ranges(*named):
        how = [t for n in named for t in ("--input", n)]
        layers = {
            l["name"]: l
            for l in qcalib("--data", "two.h5", *how, "two.onnx", "--json", "--method", "minmax").json["layers"]
        }
        return layers["a"]["chosen"]["max"] > 40, layers["b"]["chosen"]["max"] > 40

    assert ranges("a=small", "b=large") == (False, True)
    assert ranges("a=large", "b=small") == (True, False)
    done = qcalib("--data", "two.h5", "two.onnx", code=None)
    assert done.code in (2, 3) and "--input" in done.err


def test_rounding_is_what_the_report_goes_by(digits, examples, tmp_path):
    """The file is the same whatever the contract; what is measured of it, accuracy too, is by the one that is named."""
    reports = {}
    for rounding in ("onnx", "tflite", "tflite-single", "qnn-upward", "qnn-tonearest", "xnnpack"):
        digits(
            "--rounding",
            rounding,
            "--eval",
            examples / "digits_test.h5",
            "--sensitivity",
            "-o",
            f"{rounding}.onnx",
            "--report",
            rounding,
        )
        reports[rounding] = json.loads((tmp_path / rounding / "report.json").read_text())
        assert reports[rounding]["options"]["rounding"] == rounding
        assert (tmp_path / f"{rounding}.onnx").read_bytes() == (tmp_path / "onnx.onnx").read_bytes()
    errors = {r: [l["sqnr_db"] for l in report["layers"]] for r, report in reports.items()}
    assert errors["onnx"] != errors["tflite"] and errors["tflite-single"] == errors["qnn-upward"]
    bits = {r: [l["accumulator_bits"] for l in report["layers"]] for r, report in reports.items()}
    assert all(b == bits["onnx"] for b in bits.values())  # sums are exact in any contract
    for a, b in zip(errors["onnx"], errors["tflite"]):
        assert (a is None) == (b is None) and (a is None or abs(a - b) < 3), (a, b)
    assert "tflte" in digits("--rounding", "tflte", code=2).err


def test_a_quantized_model_is_not_quantized_again(digits, qcalib, examples):
    digits()
    done = qcalib("--data", examples / "digits_calib.h5", EXPORTED, "-o", "again.onnx", code=4)
    assert "is quantized already" in done.err and EXPORTED in done.err and done.new_files == []


def test_per_tensor_with_statistics_says_what_is_not_done(digits, qcalib, examples):
    qcalib("collect", "--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx", "-o", "digits.stats.h5")
    quantize = lambda *more: qcalib(
        "--stats", "digits.stats.h5", *more, examples / "digits_cnn.onnx", "--no-report"
    ).err
    assert "channels are not equalized" in quantize("--per-tensor")
    assert "channels are not equalized" not in quantize("--per-tensor", "--equalize", "off") + quantize()


@pytest.mark.integers
def test_a_bad_sample_is_one_warning(qcalib, tmp_path):
    """NaN in one sample is NaN in all that is computed from it: the first tensor and sample are named, the rest counted."""
    rng = np.random.default_rng(4)
    value = lambda n: helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 6])
    nodes = [helper.make_node("Gemm", [a, "w"], [b]) for a, b in (("x", "g"), ("g", "h"), ("h", "y"))]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [6, 6], rng.normal(size=36))
    onnx.save(
        helper.make_model(
            helper.make_graph(nodes, "three", [value("x")], [value("y")], [weight]),
            opset_imports=[helper.make_opsetid("", 13)],
            ir_version=7,
        ),
        str(tmp_path / "three.onnx"),
    )
    x = rng.normal(size=(40, 6)).astype(np.float32)
    x[7] = np.nan
    with h5py.File(tmp_path / "bad.h5", "w") as f:
        f["x"] = x
    done = qcalib("--data", "bad.h5", "three.onnx", "--json", "--no-report")
    warnings = [w for w in done.json["warnings"] if "NaN" in w]
    seen = [l["name"] for l in done.json["layers"] if l["observed"] and l["observed"]["nan"]]
    assert seen[:3] == ["x", "g", "h"] and len(warnings) == 1 == done.err.count("NaN"), done.err
    assert (
        "tensor 'x': 6 NaN" in warnings[0]
        and "first in sample 7" in warnings[0]
        and f"{len(seen) - 1} more tensor" in warnings[0]
    )
    with h5py.File(tmp_path / "zero.h5", "w") as f:
        f["x"] = 0 * x[:7]
    state, warning = qcalib("--data", "zero.h5", "three.onnx", "--json", "--no-report").json["warnings"]
    assert "if it is a state" in state
    assert (
        warning
        == "tensor 'x' is zero in every sample; it gets scale 1, zero point 0, and so do 2 more tensors (--json and the report have each)"
    )
