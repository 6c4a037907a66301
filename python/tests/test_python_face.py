# SPDX-License-Identifier: Apache-2.0
"""The package's interface: samples and labels as a pair, messages with Python's names, a result in a notebook."""

import copy
import errno
import html
import pickle
import re
import sys
import types

import numpy as np
import pytest
from conftest import DIGITS, ROOT

import qcalib
from qcalib import _options, _words


def test_samples_and_labels_as_a_pair(samples, labels):
    pair = qcalib.quantize(DIGITS, samples, method="minmax", eval=(samples, labels))
    named = qcalib.quantize(DIGITS, samples, method="minmax", eval={"input": samples, "labels": labels})
    assert pair.report["accuracy"] == named.report["accuracy"] and pair.report["accuracy"]["samples"] == 64
    assert qcalib.evaluate(DIGITS, (samples, labels)).value == 1
    assert qcalib.evaluate(DIGITS, ({"input": samples}, labels)).value == 1
    assert qcalib.evaluate(DIGITS, (samples, labels.tolist())).value == 1
    assert qcalib.evaluate(DIGITS, [samples, labels]).value == 1
    assert qcalib.evaluate(DIGITS, [samples.tolist(), labels.tolist()]).value == 1
    halves = [{"input": x, "labels": y} for x, y in ((samples[:32], labels[:32]), (samples[32:], labels[32:]))]
    assert qcalib.evaluate(DIGITS, halves).samples == qcalib.evaluate(DIGITS, tuple(halves)).samples == 64
    batches = ((samples[:32], labels[:32]), (samples[32:], labels[32:]))  # a tuple of batches stays one
    assert qcalib.evaluate(DIGITS, batches).samples == 64


def test_a_result_is_a_model(samples, labels):
    result = qcalib.quantize(DIGITS, samples, method="minmax")
    assert qcalib.evaluate(result, (samples, labels))[:2] == qcalib.evaluate(result.model, (samples, labels))[:2]
    np.testing.assert_array_equal(qcalib.run(result, samples)["logits"], qcalib.run(result.model, samples)["logits"])


@pytest.mark.parametrize("wrong, meant", [
    ("stats", "statistics"), ("output", "out"), ("bits", "weight_type"), ("num_samples", "samples"),
    ("quant_format", "format"), ("calibrate_method", "method"), ("op_types_to_quantize", "only"), ("verbose", "progress"),
])
def test_names_lead_to_what_was_meant(samples, wrong, meant):
    with pytest.raises(qcalib.UsageError, match=rf"no option {wrong} \(did you mean '{meant}'"):
        qcalib.quantize(DIGITS, samples, **{wrong: "x"})


@pytest.mark.parametrize("call, wrong", [
    (qcalib.run, "out"), (qcalib.run, "output"), (qcalib.evaluate, "stats"), (qcalib.evaluate, "bits"),
    (qcalib.collect, "test"),
])
def test_no_name_leads_to_a_parameter_that_the_function_lacks(call, wrong, samples):
    with pytest.raises(qcalib.UsageError, match=f"^{call.__name__} takes no option {wrong}: see help") as raised:
        call(DIGITS, samples, **{wrong: "x"})
    assert "did you mean" not in str(raised.value)


def test_a_missing_file(samples, tmp_path):
    for call in (lambda: qcalib.quantize(tmp_path / "no.onnx", samples), lambda: qcalib.run(DIGITS, tmp_path / "no.h5"),
                 lambda: qcalib.inspect(tmp_path / "no.h5"), lambda: qcalib.Statistics.load(tmp_path / "no.h5")):
        with pytest.raises(FileNotFoundError, match="no[.]") as raised:
            call()
        assert isinstance(raised.value, qcalib.BadInputError) and raised.value.code == 3
        assert raised.value.errno == errno.ENOENT
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with pytest.raises(qcalib.BadInputError) as raised:
        qcalib.quantize(tmp_path / "bad.onnx", samples)
    assert not isinstance(raised.value, OSError)


def test_errors_speak_python(samples, tmp_path):
    with pytest.raises(qcalib.UsageError) as raised:
        qcalib.quantize(DIGITS)
    text = str(raised.value)
    assert "data= with samples" in text and "statistics= from qcalib.collect" in text and "--" not in text
    assert 'activation_type="dynamic"' in text
    with pytest.raises(qcalib.UsageError, match='^advice="on" runs samples: give data='):
        qcalib.quantize(DIGITS, advice="on", activation_type="none")
    with pytest.warns(qcalib.QcalibWarning, match="too few samples"):
        qcalib.quantize(DIGITS, samples[:1], method="minmax")
    np.savez(tmp_path / "same.npz", input=samples, labels=np.zeros(len(samples), np.int64))
    with pytest.warns(qcalib.QcalibWarning, match="^eval reads the samples of data") as told:
        result = qcalib.quantize(DIGITS, tmp_path / "same.npz", eval=tmp_path / "same.npz", method="minmax")
    assert str(told[0].message) in result.warnings
    assert not any("--eval" in text for text in (*result.warnings, repr(result), result._repr_html_()))


@pytest.mark.parametrize("key", [b"input", 0, None, ("a", "b")])
def test_names_are_text(key, samples):
    for data in ({key: samples}, [{key: samples}]):
        with pytest.raises(qcalib.UsageError, match="is not a text: names are of type str"):
            qcalib.quantize(DIGITS, data)


def test_paths_are_paths(samples):
    statistics = qcalib.collect(DIGITS, samples)
    result = qcalib.quantize(DIGITS, samples, method="minmax", advice="off")
    for call in (lambda: qcalib.quantize(DIGITS, samples, out=3), lambda: qcalib.quantize(DIGITS, statistics=3),
                 lambda: qcalib.merge([1, 2]), lambda: statistics.save(None), lambda: result.save(3),
                 lambda: result.save_report(3), lambda: qcalib.Statistics.load(3)):
        with pytest.raises(qcalib.UsageError, match="is not a path"):
            call()
    for wrong in (None, "a.h5", statistics, 3):
        with pytest.raises(qcalib.UsageError, match="merge needs a list of statistics or paths"):
            qcalib.merge(wrong)
    with pytest.raises(qcalib.UsageError, match="data must be a path, arrays by name, or an iterable of them, not bytes"):
        qcalib.quantize(DIGITS, b"digits.h5")


def test_results_stay_in_their_process(samples):
    """Their parts can be sent, statistics too, and errors without the result."""
    result = qcalib.quantize(DIGITS, samples, method="minmax", advice="off")
    for call in (pickle.dumps, copy.deepcopy):
        with pytest.raises(qcalib.UsageError, match="a result of qcalib cannot be pickled"):
            call(result)
    assert copy.copy(result).model == result.model
    layers, report = pickle.loads(pickle.dumps((result.layers, result.report)))
    assert layers[0].name == result.layers[0].name and report == result.report
    comparison = pickle.loads(pickle.dumps(qcalib.compare(DIGITS, result, samples)))
    assert comparison.outputs[0].name == "logits"
    with pytest.raises(qcalib.DemandError) as raised:
        qcalib.quantize(DIGITS, samples, eval=ROOT / "datasets/digits_test.h5", samples=1, per_tensor=True, max_drop=1,
                        method="percentile:p=90", require_integer=True)
    assert raised.value.result.report["accuracy"]
    sent = pickle.loads(pickle.dumps(raised.value))
    assert str(sent) == str(raised.value) and isinstance(sent, qcalib.DemandError) and sent.result is None


def test_arrays_that_are_not_what_they_seem(samples):
    """Masked values have no number, and a view that repeats values may be larger than any memory."""
    masked = np.ma.masked_array(samples, mask=samples > 1)
    count = int((samples > 1).sum())
    assert count
    for data in (masked, {"input": masked}, [masked], [{"input": masked}]):
        with pytest.raises(qcalib.BadInputError, match=f"{count} masked values of {samples.size}"):
            qcalib.quantize(DIGITS, data)
    plain = qcalib.quantize(DIGITS, samples, method="minmax", advice="off").model
    assert qcalib.quantize(DIGITS, np.ma.masked_array(samples), method="minmax", advice="off").model == plain
    twice = np.broadcast_to(samples[:, None], (64, 2, 1, 8, 8)).reshape(128, 1, 8, 8)
    assert qcalib.collect(DIGITS, np.broadcast_to(samples[:1], (3, 1, 8, 8))).samples == 3
    assert qcalib.collect(DIGITS, twice[::-1]).samples == 128
    for huge in (np.broadcast_to(samples[:1], (1 << 40, 1, 8, 8)), np.broadcast_to(np.float32(1), (1 << 40, 1, 8, 8))):
        with pytest.raises(qcalib.MachineError, match="1099511627776, 1, 8, 8. needs 281474976710656 bytes as a copy"):
            qcalib.quantize(DIGITS, huge, samples=4)


@pytest.mark.parametrize("said, spoken", [
    ("--max-drop needs --eval FILE with labels", "max_drop needs eval= with labels"),
    ("--threads: '0' is not a positive integer", "threads: '0' is not a positive integer"),
    ("leave out --per-tensor, or --weight-block", "leave out per_tensor, or weight_block"),
    ("--bias-correction on changes biases", 'bias_correction="on" changes biases'),
    ("--min-sqnr 10 widens the worst layers", "min_sqnr=10 widens the worst layers"),
    ("try: qcalib quantize --data=x m.onnx", "try: qcalib quantize --data=x m.onnx"),
])
def test_words_of_options(said, spoken):
    assert _words.in_python(said) == spoken


def test_progress_is_told_of_steps_alone(samples):
    seen = []
    qcalib.quantize(DIGITS, samples, progress=lambda *what: seen.append(what))
    assert seen and all(phase and total and 0 <= done <= total for phase, done, total in seen)
    assert all(a != b for a, b in zip(seen, seen[1:]))


def test_a_notebook_shows_verdict_plot_layers_and_advice(samples):
    coarse = qcalib.quantize(DIGITS, samples, weight_type="int3", method="minmax", advice="on", per_tensor=True)
    page, report = coarse._repr_html_(), coarse.report
    assert "output SQNR" in page and html.escape(report["verdict"]["grade"] + ": " + report["verdict"]["text"]) in page
    shown = [e["node"] for e in report["ranking"] if e["output_sqnr_db"] is not None][:10]
    assert len(shown) > 3 and page.count("<rect") == len(shown)
    assert all(page.index(f"<td style='text-align:left'>{a}") < page.index(f"<td style='text-align:left'>{b}")
               for a, b in zip(shown, shown[1:]))
    assert report["advice"] and report["advice"][0]["action"] in page
    gain = report["advice"][0]["measured"]
    assert f"SQNR {gain['sqnr_db_before']:.2f} -> {gain['sqnr_db_after']:.2f} dB" in repr(coarse)
    assert "&lt;" not in page and page.count("<tr>") == page.count("</tr>")


def test_plot_needs_matplotlib_only_when_it_is_called(samples, monkeypatch):
    result = qcalib.quantize(DIGITS, samples, method="minmax")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match="pip install matplotlib"):
        result.plot()
    drawn = {}
    axes = types.SimpleNamespace(barh=lambda names, values: drawn.update(zip(names, values)),
                                 set_xlabel=lambda text: None, set_title=lambda text, **how: drawn.update(title=text))
    matplotlib = types.ModuleType("matplotlib")
    matplotlib.pyplot = types.ModuleType("matplotlib.pyplot")
    matplotlib.pyplot.subplots = lambda **how: (None, axes)
    monkeypatch.setitem(sys.modules, "matplotlib", matplotlib)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", matplotlib.pyplot)
    assert result.plot(most=3) is axes and len(drawn) == 4 and result.report["verdict"]["text"] in drawn["title"]
    worst = result.report["ranking"][0]
    assert drawn[worst["node"]] == worst["output_sqnr_db"]


def test_help_reads_as_sentences():
    assert _options.SENTENCES.keys() == {option.keyword for job in _options.JOBS for option in _options.of_job(job)}
    for job in _options.JOBS:
        text = getattr(qcalib, job).__doc__
        assert "--" not in text
        lines = [line.strip() for line in text.split("Options of the command line:")[1].splitlines()]
        for line in filter(None, lines):
            keyword, about = line.split(": ", 1)
            verb = about.split()[0]
            assert verb[0].isupper() and verb.endswith("s"), line  # "Sets", "Keeps": the option is the subject
            assert about.endswith(".") and len(about.split(". ")[0].split()) <= 25, line
            assert all(re.search(rf"\b{re.escape(c)}\b", about) for c in _options.TABLE[keyword].choices or ()), line


def test_the_pages_promise_no_package_index():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        assert not re.search(r"(pip3?|uv|pipx|conda) +(add|install)[^\n]* qcalib\b(?![-.])", page.read_text()), page.name
