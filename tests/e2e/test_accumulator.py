# SPDX-License-Identifier: Apache-2.0
"""Narrow accumulators: models that are quantized for them keep their accuracy, other models do not; overflows are
counted."""

import csv
import io
import json

import pytest


@pytest.fixture
def quantize(qcalib, examples):
    """quantize(ARGUMENT, ...) of the shipped example: the report."""

    def run(*arguments, code=0):
        return qcalib(
            "--data",
            examples / "digits_calib.h5",
            *arguments,
            "--no-report",
            "--json",
            examples / "digits_cnn.onnx",
            code=code,
        )

    return run


def evaluate(qcalib, examples, model, accumulator, *more):
    return qcalib(
        "eval", "--data", examples / "digits_test.h5", "--accumulator", accumulator, "--json", *more, model
    ).json["models"][0]


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_accuracy_with_and_without(qcalib, quantize, examples, tmp_path, form):
    quantize("-o", "plain.onnx", "--format", form)
    report = quantize(
        "-o", "fitted.onnx", "--format", form, "--accumulator", "13", "--eval", examples / "digits_test.h5"
    ).json
    plain = evaluate(qcalib, examples, "plain.onnx", "13")
    fitted = evaluate(qcalib, examples, "fitted.onnx", "13")
    assert plain["value"] < 0.3 and fitted["value"] > 0.97
    assert (
        sum(l["overflows"] for l in plain["overflows"]) > 10000
        and sum(l["overflows"] for l in fitted["overflows"]) < 100
    )
    # The report is of the produced graph with this accumulator: what `eval` finds in the file.
    assert report["accuracy"]["int8"] == fitted["value"]
    assert (
        report["accumulator"]["bits"] == 13
        and report["accumulator"]["overflow"] == "wrap"
        and report["accumulator"]["bound"] == "auto"
    )
    assert report["accumulator"]["samples"] == report["accuracy"]["samples"]
    assert report["accumulator"]["layers"] == fitted["overflows"] != []
    weights = [l for l in report["layers"] if l["kind"] == "weight"]
    assert sum(l["scales_raised"] for l in weights) > 0 and all(
        (l["scales_raised"] > 0) == (l["scale_raise_max"] > 1) for l in weights
    )
    assert any("accumulators of 13 bits" in w for w in report["warnings"])


def test_proven_never_overflows(qcalib, quantize, examples):
    report = quantize("-o", "proven.onnx", "--accumulator", "14:saturate", "--accumulator-bound", "proven").json
    assert report["accumulator"]["layers"] == [] and report["accumulator"]["overflow"] == "saturate"
    assert max(l["accumulator_bits"] or 0 for l in report["layers"]) <= 14
    assert any(l["weight_rounding"] and l["weight_rounding"]["method"] == "compensated" for l in report["layers"])
    assert any("are rounded to nearest" in w for w in report["warnings"])
    narrow, wide = (evaluate(qcalib, examples, "proven.onnx", a) for a in ("14:saturate", "32"))
    assert narrow["overflows"] == [] and narrow["value"] == wide["value"] > 0.85


def test_32_bits_change_nothing(quantize, tmp_path):
    plain = quantize("-o", "a.onnx").json
    wide = quantize("-o", "b.onnx", "--accumulator", "32").json
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert plain["accumulator"] is None and wide["accumulator"] is None
    assert all(l["scales_raised"] is None for l in plain["layers"])


def test_same_file_and_counts_for_any_number_of_threads(qcalib, quantize, examples, tmp_path):
    for n in (1, 3):
        quantize("-o", f"{n}.onnx", "--accumulator", "12", "--threads", n)
    assert (tmp_path / "1.onnx").read_bytes() == (tmp_path / "3.onnx").read_bytes()
    quantize("-o", "plain.onnx")
    counts = []
    for n in (1, 3):
        done = qcalib(
            "run",
            "--data",
            examples / "digits_test.h5",
            "--accumulator",
            "13:saturate",
            "--threads",
            n,
            "--json",
            "-o",
            f"{n}.h5",
            "plain.onnx",
        )
        counts.append(done.json["overflows"])
        assert any("overflowed an accumulator of 13 bits" in w for w in done.json["warnings"])
    assert counts[0] == counts[1] == evaluate(qcalib, examples, "plain.onnx", "13:saturate")["overflows"]
    for layer in counts[0]:
        assert 0 <= layer["overflows"] <= layer["results"] and (layer["bits"] > 13) == (layer["overflows"] > 0)


def test_int16_operands_give_the_same_bytes(qcalib, quantize, examples, tmp_path):
    quantize("-o", "m.onnx")
    for lowering in ("int8", "int16"):
        qcalib("run", "--data", examples / "digits_test.h5", "--lowering", lowering, "-o", f"{lowering}.h5", "m.onnx")
    assert (tmp_path / "int8.h5").read_bytes() == (tmp_path / "int16.h5").read_bytes()


@pytest.mark.parametrize("value", ["1", "33", "14:clip", "x"])
def test_bad_width(quantize, value):
    assert "--accumulator" in quantize("--accumulator", value, code=2).err


@pytest.mark.nightly
def test_real_model(qcalib, data, tmp_path):
    """resnet20 needs 23 bits by proof, 22 by what is seen; with 16 it collapses unless it is quantized for them."""
    model, calib, test = data / "models/resnet20_cifar10.onnx", data / "cifar10_calib.h5", data / "cifar10_test.h5"
    value = {}
    for bits in ("32", "16"):
        qcalib(
            "--data",
            calib,
            "--samples",
            "64",
            "--accumulator",
            bits,
            "--advice",
            "off",
            "--no-report",
            "-q",
            "-o",
            f"{bits}.onnx",
            model,
        )
        done = qcalib("eval", "--data", test, "--samples", "300", "--accumulator", "16", "--json", f"{bits}.onnx")
        value[bits] = done.json["models"][0]["value"]
    assert value["32"] < 0.2 and value["16"] > 0.84, value


def test_summary_and_table_say_what_it_did(qcalib, examples, tmp_path):
    arguments = [
        "--data",
        examples / "digits_calib.h5",
        "--eval",
        examples / "digits_test.h5",
        "--accumulator",
        "12:saturate",
        "--report",
        "r",
        "-o",
        "q.onnx",
    ]
    done = qcalib(*arguments, examples / "digits_cnn.onnx")
    report = json.loads((tmp_path / "r/report.json").read_text())
    rows = list(csv.DictReader(io.StringIO((tmp_path / "r/layers.csv").read_text())))
    counted = {l["name"]: l["overflows"] for l in report["accumulator"]["layers"]}
    total, results = sum(counted.values()), sum(l["results"] for l in report["accumulator"]["layers"])
    raised = sum(l["scales_raised"] or 0 for l in report["layers"])
    assert total > 0 and raised > 0 and report["accumulator"]["scales_raised"] == raised
    line = f"12 bits, saturate: {total} of {results} results overflowed in the {len(counted)} layers that can; {raised} scales raised, "
    assert f"accumulator {line}{report['accumulator']['channels_bounded']} channel" in done.out
    in_table = {r["name"]: int(r["accumulator_overflows"]) for r in rows if r["accumulator_overflows"]}
    assert (
        sum(in_table.values()) + counted["logits_node"] == total
    ), "logits are not stored as integers, so they are no row"
    assert [r["name"] for r in rows if r["accumulator_bits"]] == list(in_table)
    assert {
        l["name"]: l["accumulator_overflows"] for l in report["layers"] if l["accumulator_overflows"] is not None
    } == in_table
    wide = qcalib("--data", examples / "digits_calib.h5", "--report", "w", "-o", "w.onnx", examples / "digits_cnn.onnx")
    assert "accumulator" not in wide.out
    assert not any(
        r["accumulator_overflows"] for r in csv.DictReader(io.StringIO((tmp_path / "w/layers.csv").read_text()))
    )


def test_compare_takes_one_for_the_model_or_one_for_each(qcalib, quantize, examples):
    quantize("-o", "q.onnx")
    compare = lambda *more: qcalib(
        "compare", "q.onnx", "q.onnx", "--data", examples / "digits_test.h5", "--samples", "64", "--json", *more
    ).json
    one, two, same, other = (
        compare("--accumulator", a) for a in ("14:saturate", "32,14:saturate", "14,14:wrap", "14:saturate,14")
    )
    assert one["accumulator"] == two["accumulator"] == [None, {"bits": 14, "overflow": "saturate"}]
    assert one["outputs"] == two["outputs"] and one["layers"] == two["layers"] and not one["outputs"][0]["equal"]
    assert same["outputs"][0]["equal"] and not other["outputs"][0]["equal"]
    for wrong in ("14,", ",14", "14,x", "14,15,16"):
        assert (
            "--accumulator"
            in qcalib(
                "compare", "q.onnx", "q.onnx", "--data", examples / "digits_test.h5", "--accumulator", wrong, code=2
            ).err
        )


@pytest.mark.parametrize("command", ["run", "eval", "compare"])
def test_warnings_name_the_worst_layers_once(command, qcalib, quantize, examples):
    """At most three layers and a line for the rest, with counts that are those of --json; nothing with 32 bits."""
    quantize("-o", "q.onnx")
    asked = {
        "run": ["run", "q.onnx", "-o", "y.h5"],
        "eval": ["eval", "q.onnx"],
        "compare": ["compare", "q.onnx", "q.onnx"],
    }[command]
    asked += ["--data", examples / "digits_test.h5", "--samples", "64", "--json"]
    done, wide = qcalib(*asked, "--accumulator", "13"), qcalib(*asked)
    counts = {
        "run": lambda j: j["overflows"],
        "eval": lambda j: j["models"][0]["overflows"],
        "compare": lambda j: j["overflows"][1],
    }[command](done.json)
    counts = sorted((l for l in counts if l["overflows"]), key=lambda l: -l["overflows"])
    want = [
        f"{l['overflows']} of {l['results']} results of '{l['name']}' overflowed an accumulator of 13 bits; {l['bits']} bits would hold them"
        for l in counts[:3]
    ]
    rest = counts[3:]
    assert rest
    want.append(
        f"{sum(l['overflows'] for l in rest)} of {sum(l['results'] for l in rest)} results of {len(rest)} more layers overflowed; --json lists them"
    )
    said = lambda lines: [w for w in lines if " overflowed" in w]  # eval has a word to say on such accuracy, too
    assert (
        said(done.json["warnings"]) == want
        and said(line.split("warning: ")[1] for line in done.err.splitlines()) == want
    )
    assert wide.json["warnings"] == [] and wide.err == ""


def test_warnings_say_which_of_two_models(qcalib, quantize, examples):
    quantize("-o", "q.onnx")
    done = qcalib(
        "compare",
        "q.onnx",
        "q.onnx",
        "--data",
        examples / "digits_test.h5",
        "--samples",
        "64",
        "--json",
        "--accumulator",
        "13,14:saturate",
    )
    assert len(done.json["warnings"]) == 8 and all(w.startswith("q.onnx: ") for w in done.json["warnings"])
    assert [sum(l["overflows"] for l in side) > 1000 for side in done.json["overflows"]] == [True, True]
