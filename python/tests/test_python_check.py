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
