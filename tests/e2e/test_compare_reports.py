# SPDX-License-Identifier: Apache-2.0
"""compare-reports: the differences of two jobs, and refused reports."""

import json
import re

import onnx
import pytest
from report_page import record_of


def make_jobs(qcalib, examples, folder):
    folder.mkdir()
    model = onnx.load(str(examples / "digits_cnn.onnx"))
    model.doc_string = "another model"
    onnx.save(model, str(folder / "other.onnx"))
    common = ["quantize", "-q", "--advice=off", "--prefer=integers", "--data", examples / "digits_calib.h5", "--samples=40"]
    score = ["--eval", examples / "digits_test.h5"]
    own = examples / "digits_cnn.onnx"
    for name, arguments in {
        "first": [*score, own],
        "second": [*score, "--method=minmax", "--per-tensor", "--skip=logits_node", own],
        "unscored": ["--samples=20", own],
        "other": [*score, folder / "other.onnx"],
    }.items():
        qcalib(*common, "-o", folder / f"{name}.int8.onnx", "--report", folder / name, *arguments)


@pytest.fixture
def jobs(qcalib, examples, once):
    """Folders with reports of the shipped example: by default, with other options, of another model."""
    return once("compared_jobs", lambda folder: make_jobs(qcalib, examples, folder))


def changed(jobs, tmp_path, change):
    """The second report with a change made to it."""
    report = json.loads((jobs / "second/report.json").read_text())
    change(report)
    (tmp_path / "changed.json").write_text(json.dumps(report))
    return tmp_path / "changed.json"


def test_figures_options_and_layers_are_those_of_the_reports(qcalib, jobs):
    files = [jobs / "first/report.json", jobs / "second/report.json"]
    first, second = (json.loads(f.read_text()) for f in files)
    found = json.loads(qcalib("compare-reports", "--json", *files).out)
    assert [r["file"] for r in found["reports"]] == [str(f) for f in files]
    options = {o["name"]: o["values"] for o in found["options"]}
    differing = [k for k in first["options"] if first["options"][k] != second["options"][k]]
    assert set(options) == set(differing) and {"method", "per-tensor", "skip"} <= set(options)
    assert all(options[k] == [first["options"][k], second["options"][k]] for k in differing)
    figures = {f["name"]: f["values"] for f in found["figures"]}
    assert figures["top-1 accuracy, quantized"] == [r["accuracy"]["int8"] for r in (first, second)]
    assert figures["model file"] == [r["files"][0]["bytes"] for r in (first, second)]
    assert figures["worst output, SQNR"] == [min(o["sqnr_db"] for o in r["outputs"]) for r in (first, second)]
    assert figures["multiply-adds in integers"] == [r["integer_share"] for r in (first, second)]
    assert "latency" not in figures and found["notes"] == []
    own, other = ({(l["kind"], l["name"]): l for l in r["layers"]} for r in (first, second))
    assert found["layers_in_both"] == len(own.keys() & other.keys())
    assert found["only_in_first"] and set(found["only_in_first"]) == {n for _, n in own.keys() - other.keys()}
    assert set(found["only_in_second"]) == {n for _, n in other.keys() - own.keys()}
    changed = [l["output_sqnr_db"] for l in found["layers"] if l["change_db"] is not None]
    sizes = [abs(10 ** (-a / 10) - 10 ** (-b / 10)) for a, b in changed]
    assert len(sizes) > 5 and sizes == sorted(sizes, reverse=True)
    for layer in found["layers"]:
        x, y = own[layer["kind"], layer["name"]], other[layer["kind"], layer["name"]]
        assert ("parameters" in layer["changed"]) == ((x["scale"], x["zero_point"]) != (y["scale"], y["zero_point"]))
        assert ("method" in layer["changed"]) == (x["method"] != y["method"])
        assert layer["output_sqnr_db"] == [x["output_sqnr_db"], y["output_sqnr_db"]]
        if x["sqnr_db"] is not None:
            assert layer["sqnr_db"] == [x["sqnr_db"], y["sqnr_db"]]


def test_page_and_summary(qcalib, jobs, tmp_path):
    page = tmp_path / "page.html"
    out = qcalib("compare-reports", jobs / "first", jobs / "second", "-o", page).out
    assert re.search(r'^options +--method: "auto" -> "minmax"$', out, re.M), out
    assert re.search(r"^layers +\d+ of \d+ differ; the largest change of noise first$", out, re.M), out
    assert re.search(r"^ +\d+ quantized in the first report only$", out, re.M) and f"written     {page}" in out
    text, record = page.read_text(), record_of(page)
    verdict = record["verdict"]["text"]
    assert re.match(r"Accuracy: .*; Output SQNR: [−+]\d+\.\d\d dB; File size: .* layers differ, and \d+ (is|are) quantized in one", verdict)
    assert text.index(verdict) < text.index("<table")
    reports = [json.loads((jobs / name / "report.json").read_text()) for name in ("first", "second")]
    assert record["records"] == reports
    assert "per-tensor" in [o["name"] for o in record["options"]] and record["only_in_first"]


def test_a_report_with_itself(qcalib, jobs, tmp_path):
    found = json.loads(qcalib("compare-reports", "--json", jobs / "first", jobs / "first").out)
    assert found["layers"] == [] and found["options"] == [] and found["only_in_first"] == []
    assert all(f["change"] == 0 for f in found["figures"]) and len(found["figures"]) >= 5
    out = qcalib("compare-reports", jobs / "first", jobs / "first", "-o", tmp_path / "page.html").out
    assert "options     all are the same" in out and re.search(r"layers +0 of \d+ differ$", out, re.M)
    assert record_of(tmp_path / "page.html")["options"] == []


def test_what_is_not_comparable_is_said(qcalib, jobs, tmp_path):
    notes = json.loads(qcalib("compare-reports", "--json", jobs / "first", jobs / "unscored").out)["notes"]
    assert any("Only one of the reports has accuracy" in n for n in notes)
    older = changed(jobs, tmp_path, lambda r: r.update(version="0.0.1"))
    notes = json.loads(qcalib("compare-reports", "--json", jobs / "first", older).out)["notes"]
    assert notes == ["The reports were written by different versions of qcalib."]
    assert "different versions" in qcalib("compare-reports", jobs / "first", older).out
    moved = changed(jobs, tmp_path, lambda r: r["data"].update(sha256="0" * 64))
    notes = json.loads(qcalib("compare-reports", "--json", jobs / "first", moved).out)["notes"]
    assert notes == ["The calibration data differ, so SQNR was measured on different samples."]


def test_latency(qcalib, jobs, tmp_path):
    def measured(ms, name):
        report = json.loads((jobs / "first/report.json").read_text())
        report["timing"]["benchmark"] = {"best_ms": ms}
        (tmp_path / name).write_text(json.dumps(report))
        return tmp_path / name

    out = qcalib("compare-reports", measured(2, "a.json"), measured(1.5, "b.json")).out
    assert "latency: 2 ms -> 1.5 ms (-25.0 %)" in out


BAD = {
    "no JSON": (lambda r: "top-1 98 %", ["changed.json", "line 1"]),
    "empty": (lambda r: "", ["changed.json"]),
    "cut": (lambda r: json.dumps(r)[:5000], ["changed.json", "line 1"]),
    "an array": (lambda r: "[1, 2]", ["no report of qcalib"]),
    "another program": (lambda r: json.dumps({"tool": "lint", "layers": []}), ["no report of qcalib"]),
    "old": (lambda r: json.dumps({k: v for k, v in r.items() if k != "ranking"}), ['"ranking"', "written by qcalib", "anew"]),
    "wrong kind": (lambda r: json.dumps({**r, "layers": {"a": 1}}), ['"layers"']),
    "nameless layer": (lambda r: json.dumps({**r, "layers": [{"op": "Conv"}]}), ['number 1 of "layers"']),
    "layers of numbers": (lambda r: json.dumps({**r, "layers": [1, None]}), ['number 1 of "layers"']),
    "no hash": (lambda r: json.dumps({**r, "model": {"file": "m.onnx"}}), ["SHA-256"]),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("place", [0, 1])
def test_bad_reports(qcalib, jobs, tmp_path, case, place):
    make, words = BAD[case]
    bad = tmp_path / "changed.json"
    bad.write_text(make(json.loads((jobs / "second/report.json").read_text())))
    files = [jobs / "first/report.json", jobs / "first/report.json"]
    files[place] = bad
    err = qcalib("compare-reports", *files, "-o", tmp_path / "page.html", code=3).err
    assert all(w in err for w in words) and len(err.strip().splitlines()) == 1, err
    assert not (tmp_path / "page.html").exists()


def test_reports_of_different_models(qcalib, jobs):
    err = qcalib("compare-reports", jobs / "first", jobs / "other", code=3).err
    assert "different models" in err and "digits_cnn.onnx" in err and "other.onnx" in err


def test_files_and_operands(qcalib, jobs, tmp_path):
    first = jobs / "first/report.json"
    assert "report.json" in qcalib("compare-reports", first, tmp_path, code=3).err  # a folder without a report
    assert "nothing.json" in qcalib("compare-reports", first, tmp_path / "nothing.json", code=3).err
    assert "compare-reports needs REPORT REPORT" in qcalib("compare-reports", first, code=2).err
    assert "is too much" in qcalib("compare-reports", first, first, first, code=2).err
    before = first.read_bytes()
    qcalib("compare-reports", jobs / "first", jobs / "second", "-o", first, code=2)
    assert first.read_bytes() == before
    assert "did you mean 'compare" in qcalib("compare-report", first, first, code=2).err


def test_names_are_escaped(qcalib, jobs, tmp_path):
    hostile = "</script><b>x</b>\x1b[31m"
    bad = changed(jobs, tmp_path, lambda r: r["layers"][0].update(name=hostile))
    out = qcalib("compare-reports", jobs / "first", bad, "-v", "-o", tmp_path / "page.html").out
    record = record_of(tmp_path / "page.html")
    assert hostile in [l["name"] for l in record["records"][1]["layers"]]
    page = (tmp_path / "page.html").read_text()
    assert "<b>x" not in page and "\x1b" not in page + out


def test_help_and_completion(qcalib):
    text = qcalib("help", "compare-reports").out
    assert "qcalib compare-reports [OPTION...] REPORT REPORT" in text and "-o, --output FILE" in text
    assert "compare-reports" in qcalib("--help").out and len(qcalib("--help").out.splitlines()) <= 25
