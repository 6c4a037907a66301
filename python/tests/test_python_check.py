# SPDX-License-Identifier: Apache-2.0
"""check: the findings that the command prints, as a dict."""

import numpy as np
import pytest
from conftest import DIGITS

import qcalib


def test_check(samples, tmp_path):
    file = tmp_path / "q.onnx"
    qcalib.quantize(DIGITS, samples, method="minmax", out=file, overflow_fix="off")
    found = qcalib.check(file)
    assert found["products"] == found["integer_products"] == 7
    assert [f["kind"] for f in found["findings"]] == ["saturation"]
    np.savez(tmp_path / "x.npz", input=100 * samples[:, None])
    kinds = [f["kind"] for f in qcalib.check(file, target="qnn", data=tmp_path / "x.npz", samples=8)["findings"]]
    assert "saturation" in kinds


def test_errors(tmp_path):
    with pytest.raises(qcalib.UnsupportedError, match="is not quantized"):
        qcalib.check(DIGITS)
    with pytest.raises(qcalib.UsageError, match="there is no target 'nowhere'"):
        qcalib.check(DIGITS, target="nowhere")
    with pytest.raises(qcalib.MissingFileError):
        qcalib.check(tmp_path / "none.onnx")


def test_convert(samples, tmp_path):
    """A quantized model in another form gives the same numbers, a float one goes to TensorFlow Lite and back; a model that
    cannot be read is an error of its kind."""
    qcalib.quantize(DIGITS, samples, out=tmp_path / "q.onnx")
    told = qcalib.convert(tmp_path / "q.onnx", out=tmp_path / "o.onnx", format="qoperator")
    assert told["files"] == [str(tmp_path / "o.onnx")] and told["integer_ops"] > 0
    np.testing.assert_array_equal(*(qcalib.run(tmp_path / n, samples)["logits"] for n in ("q.onnx", "o.onnx")))
    qcalib.convert(DIGITS, out=tmp_path / "f.tflite", format="tflite")
    qcalib.convert(tmp_path / "f.tflite", out=tmp_path / "f.onnx")
    last = np.moveaxis(samples, 1, -1)
    np.testing.assert_allclose(qcalib.run(tmp_path / "f.onnx", last)["logits"], qcalib.run(DIGITS, samples)["logits"], atol=1e-4)
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    with pytest.raises(qcalib.BadInputError):
        qcalib.convert(tmp_path / "bad.onnx", out=tmp_path / "x.onnx")
