# SPDX-License-Identifier: Apache-2.0
"""The programs in examples/ run unchanged, and the numbers that they print agree with the files that they write."""
import os
import pathlib
import re
import subprocess
import sys

import onnx
import pytest
from conftest import ROOT

import qcalib

LONG = "scripts/test --long installs it"
FILES = {"pytorch_classifier": ("classifier.onnx", "classifier.int8.onnx"),
         "optimum_text": ("text_onnx/model.onnx", "text_onnx/model.int8.onnx")}


ELSEWHERE = {"ncnn_table"}  # tests/e2e/test_other_forms.py


def test_every_example_is_tested():
    assert {path.stem for path in (ROOT / "examples").iterdir()} == {*FILES, "torch_encodings", *ELSEWHERE}


def output_of(name, folder):
    """Runs a program of examples/ in a folder and returns what it prints."""
    package = pathlib.Path(qcalib.__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": str(package), "HF_HUB_OFFLINE": "1", "MPLBACKEND": "Agg"}
    done = subprocess.run([sys.executable, ROOT / "examples" / f"{name}.py"], cwd=folder, env=environment,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_encodings_in_torch_give_the_numbers_of_the_file(tmp_path):
    pytest.importorskip("torch", reason=f"PyTorch is not installed: {LONG}")
    printed = output_of("torch_encodings", tmp_path)
    torch_ao, file, between = (float(value) for value in re.findall(r"^SQNR .*: (\S+) dB$", printed, re.M))
    assert "encodings without a place: []" in printed
    assert 30 < torch_ao < 60 and abs(torch_ao - file) < 1  # quantized, and as well as the file
    assert between > max(torch_ao, file) + 6  # the same rounding errors, not others of the same size


@pytest.mark.parametrize("name, module", [("pytorch_classifier", "torch"), ("optimum_text", "optimum.exporters.onnx")])
def test_an_example_quantizes_without_loss(name, module, tmp_path):
    pytest.importorskip("torch", reason=f"PyTorch is not installed: {LONG}")
    pytest.importorskip(module, reason=f"{module} is not installed: {LONG}", exc_type=ImportError)
    printed = output_of(name, tmp_path)
    given, made = FILES[name]
    accuracy = {file: float(value) for file, value in re.findall(r"^(\S+): (\S+) % in ONNX Runtime$", printed, re.M)}
    assert accuracy.keys() == {given, made}
    assert accuracy[given] > 85 and abs(accuracy[made] - accuracy[given]) <= 1
    said = re.search(r"top1 (\S+) in float, (\S+) quantized", printed)
    assert 100 * float(said[1]) == pytest.approx(accuracy[given], abs=0.11)  # 0.1: one of 1000 samples
    assert 100 * float(said[2]) == pytest.approx(accuracy[made], abs=0.41)  # a tie falls differently; 0.2: one of 500
    assert any(node.op_type == "QuantizeLinear" for node in onnx.load(tmp_path / made).graph.node)
    assert (tmp_path / made).stat().st_size < 0.5 * (tmp_path / given).stat().st_size
