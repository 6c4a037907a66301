# SPDX-License-Identifier: Apache-2.0
"""The functions of the package, compared with the same jobs of the command line."""
import json
import os
import pickle
import signal
import sys
import types

import numpy as np
import pytest
from conftest import DIGITS, ROOT, command_line

import qcalib
from qcalib import _library


def test_a_result_has_models_report_and_layers(samples, labels, tmp_path):
    result = qcalib.quantize(DIGITS, samples, eval=[(samples, labels)], out=tmp_path / "m.onnx", method="kl",
                             format=["qdq", "qoperator"])
    assert result.formats == ["qdq", "qoperator"]
    assert (tmp_path / "m.onnx").read_bytes() == result.model == result.model_of("qdq") != result.model_of("qoperator")
    result.save(tmp_path / "q.onnx", format="qoperator")
    assert (tmp_path / "q.onnx").read_bytes() == result.model_of("qoperator")
    assert "QLinearConv" in command_line("inspect", tmp_path / "q.onnx")
    with pytest.raises(qcalib.UsageError, match="no model of format 'tflite'; there are: qdq, qoperator"):
        result.model_of("tflite")

    result.save_report(tmp_path / "report")
    written = json.loads((tmp_path / "report/report.json").read_text())
    assert written["layers"] == result.report["layers"] and (tmp_path / "report/report.html").exists()
    assert result.report["accuracy"]["fp32"] == 1 and result.report["data"]["samples"] == 64

    rows = [r for r in result.report["layers"] if r["name"] == result.layers[0].name]
    assert result.layers[0].scale == pytest.approx([rows[0]["scale"]]) and result.layers[0].type == "uint8"
    assert result.layers[0].zero_point.tolist() == [rows[0]["zero_point"]]
    assert any(len(layer.scale) > 1 and layer.axis == 0 for layer in result.layers)
    page = result._repr_html_()
    node = result.report["ranking"][0]["node"]
    assert "<svg" in page and node in page and "%, 100.00 in float)" in page
    assert "%, 100.00 in float)" in repr(result) and node in repr(result) and "in integers" in repr(result)


def test_no_input_is_overwritten(samples, tmp_path):
    """Refused before any work, as on the command line; also when a result is saved."""
    model, data, eval_data, statistics = (tmp_path / name for name in ("m.onnx", "c.npy", "e.npz", "s.h5"))
    model.write_bytes(DIGITS.read_bytes())
    np.save(data, samples)
    np.savez(eval_data, input=samples, labels=np.zeros(len(samples), np.int64))
    part = qcalib.collect(model, data, out=statistics, shard="0/2")
    other = qcalib.collect(model, data, shard="1/2")
    (tmp_path / "link.onnx").symlink_to(model)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for out in (model, data, eval_data, str(tmp_path / "link.onnx"), os.path.relpath(model)):
        progress = []
        with pytest.raises(qcalib.UsageError, match="would overwrite"):
            qcalib.quantize(model, data, eval=eval_data, out=out, progress=lambda *step: progress.append(step))
        assert not progress
    for out in (model, data):
        with pytest.raises(qcalib.UsageError, match="would overwrite"):
            qcalib.collect(model, data, out=out)
        with pytest.raises(qcalib.UsageError, match="would overwrite"):
            part.save(out)
    whole = qcalib.merge([statistics, other])
    for given in (statistics, whole):
        with pytest.raises(qcalib.UsageError, match="would overwrite"):
            qcalib.quantize(model, data, statistics=given, out=statistics)
    with pytest.raises(qcalib.UsageError, match="would overwrite"):
        qcalib.merge([statistics, other], out=statistics)
    with pytest.raises(qcalib.UsageError, match="would overwrite"):
        qcalib.merge([other, statistics], out=statistics)
    with pytest.raises(qcalib.MachineError):
        qcalib.quantize(model, data, out=tmp_path / "missing" / "m.onnx", progress=lambda *step: progress.append(step))
    assert not progress
    result = qcalib.quantize(model, data, method="minmax", advice="off")
    with pytest.raises(qcalib.UsageError, match="would overwrite"):
        result.save(model)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_rows_become_a_data_frame(samples, monkeypatch):
    pandas = types.ModuleType("pandas")
    pandas.DataFrame = lambda rows: ("frame", rows)
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    layers = qcalib.quantize(DIGITS, samples, method="minmax").layers
    kind, rows = layers.to_pandas()
    assert kind == "frame" and rows[0]["name"] == layers[0].name and len(rows) == len(layers)


def test_models_in_memory(samples, reference):
    content = DIGITS.read_bytes()
    proto = types.SimpleNamespace(SerializeToString=lambda: content)  # as onnx.ModelProto
    for model in (bytearray(content), proto, types.SimpleNamespace(model_proto=proto), str(DIGITS)):
        assert qcalib.quantize(model, samples, method="minmax").model == reference
    with pytest.raises(qcalib.UsageError, match="a model must be a path, bytes or an onnx.ModelProto, not int"):
        qcalib.quantize(3, samples)


def test_statistics_of_parts_give_the_model_of_the_whole(samples, tmp_path):
    whole = qcalib.collect(DIGITS, samples, out=tmp_path / "whole.h5")
    parts = [qcalib.collect(DIGITS, samples, shard=f"{k}/2") for k in range(2)]
    parts[1].save(tmp_path / "part.h5")
    total = qcalib.merge([parts[0], tmp_path / "part.h5"], out=tmp_path / "total.h5")
    assert (whole.samples, total.samples, parts[0].samples) == (64, 64, 32)  # parts stay as they are
    assert (tmp_path / "total.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()
    one, two = (qcalib.quantize(DIGITS, statistics=s, method="minmax").model for s in (total, tmp_path / "whole.h5"))
    assert one == two
    with pytest.raises(qcalib.BadInputError):
        qcalib.merge([parts[0], parts[0]])
    overlapping = [qcalib.collect(DIGITS, samples[a:b]) for a, b in ((0, 40), (30, 64))]
    assert qcalib.merge(overlapping).samples == 74  # docs/cluster.md


def test_statistics_can_be_pickled(samples, tmp_path):
    statistics = qcalib.collect(DIGITS, samples, out=tmp_path / "sent.h5")
    received = pickle.loads(pickle.dumps(statistics))
    assert (received.samples, received.tensors) == (statistics.samples, statistics.tensors)
    received.save(tmp_path / "received.h5")
    assert (tmp_path / "received.h5").read_bytes() == (tmp_path / "sent.h5").read_bytes()


def test_run_evaluate_and_compare(samples, labels):
    result = qcalib.quantize(DIGITS, samples, method="minmax")
    exact, quantized = qcalib.run(DIGITS, iter(samples))["logits"], qcalib.run(result.model, samples)["logits"]
    assert exact.shape == quantized.shape == (64, 10) and exact.dtype == np.float32
    comparison = qcalib.compare(DIGITS, result.model, samples)
    noise = 10 * np.log10((exact.astype(float) ** 2).sum() / ((exact.astype(float) - quantized) ** 2).sum())
    assert comparison.outputs[0].name == "logits" and comparison.outputs[0].sqnr_db == pytest.approx(noise, abs=1e-3)
    assert len(comparison.layers) > 5
    metric = qcalib.evaluate(result.model, {"input": samples, "labels": labels})
    assert metric.value == (quantized.argmax(axis=1) == labels).mean()
    assert qcalib.run(DIGITS, samples[0])["logits"].shape == (1, 10)  # one sample without its batch axis
    np.testing.assert_array_equal(qcalib.run(DIGITS, samples[:1])["logits"], exact[:1])


def test_inspect_is_the_command_lines(tmp_path):
    for file in (DIGITS, ROOT / "datasets/digits_calib.h5"):
        assert qcalib.inspect(file) == json.loads(command_line("inspect", "--json", file))
    in_memory = qcalib.inspect(DIGITS.read_bytes())
    assert in_memory["inputs"] == [{"name": "input", "type": "f32", "shape": ["N", 1, 8, 8]}]
    with pytest.raises(qcalib.BadInputError, match="missing.onnx"):
        qcalib.inspect(tmp_path / "missing.onnx")


def test_errors_by_kind(samples, tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"not a model")
    with pytest.raises(qcalib.BadInputError, match="bad.onnx") as raised:
        qcalib.quantize(tmp_path / "bad.onnx", samples)
    assert raised.value.code == 3
    with pytest.raises(qcalib.UsageError, match=r"unknown option methd \(did you mean 'method'\?\)"):
        qcalib.quantize(DIGITS, samples, methd="kl")
    with pytest.raises(qcalib.UsageError, match="quantize takes no option tolerance"):
        qcalib.quantize(DIGITS, samples, tolerance=1)
    with pytest.raises(qcalib.UsageError, match="^bias_correction: unknown value 'perhaps'"):
        qcalib.quantize(DIGITS, samples, bias_correction="perhaps")
    with pytest.raises(qcalib.UsageError, match="run needs data="):
        qcalib.run(DIGITS, None)
    with pytest.raises(qcalib.MachineError):
        qcalib.quantize(DIGITS, samples, out=tmp_path / "no/folder/m.onnx")
    with pytest.raises(qcalib.DemandError) as raised:
        qcalib.quantize(DIGITS, samples, eval=ROOT / "datasets/digits_test.h5", samples=1, per_tensor=True, max_drop=1,
                        method="percentile:p=90", require_integer=True)
    assert raised.value.result.report["accuracy"] and raised.value.result.formats == []


def test_warnings_are_warnings(samples):
    with pytest.warns(qcalib.QcalibWarning, match="infinit|NaN"):
        result = qcalib.quantize(DIGITS, np.where(samples > 1.8, np.inf, samples), method="minmax", prefer="integers")
    assert result.warnings


def test_progress_is_told_in_this_thread(samples):
    seen = []
    qcalib.quantize(DIGITS, samples, method="minmax", progress=lambda *what: seen.append(what))
    assert ("calibrating", 64, 64) in seen and all(phase for phase, _, _ in seen)


def test_bars_where_tqdm_is(samples, monkeypatch):
    made = []

    class Bar:
        def __init__(self, total, desc, leave):
            self.total, self.desc, self.n, self.closed = total, desc, 0, False
            made.append(self)

        def update(self, more):
            self.n += more

        def close(self):
            self.closed = True

    tqdm = types.ModuleType("tqdm.auto")
    tqdm.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", tqdm)
    qcalib.collect(DIGITS, samples, progress=True)
    assert [(b.desc, b.n, b.total, b.closed) for b in made] == [("collecting", 64, 64, True)]
    qcalib.collect(DIGITS, samples, progress=False)
    assert len(made) == 1


@pytest.mark.parametrize("how", ["ctrl-c", "exception"])
def test_a_job_is_stopped(how, samples, monkeypatch):
    ends = []
    outcome = _library.outcome
    monkeypatch.setattr(_library, "outcome", lambda *a: ends.append(outcome(*a)) or ends[-1])

    def stop(_phase, done, total):
        if total and done:
            if how == "exception":
                raise ZeroDivisionError
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt if how == "ctrl-c" else ZeroDivisionError):
        qcalib.collect(DIGITS, np.tile(samples, (300, 1, 1, 1)), progress=stop)
    assert isinstance(ends[-1], KeyboardInterrupt)  # the library ended its work, and said why


def test_ctrl_c_while_samples_are_read(samples):
    def endless():
        while True:
            yield samples
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        qcalib.quantize(DIGITS, endless())
