# SPDX-License-Identifier: Apache-2.0
"""A sample of the table of docs/targets-measured.md (scripts/target_table): what runtimes give is what `qcalib run` gives under the contract
of the target. tests/tflite/test_tflite_table.py has TensorFlow Lite."""

import json
import platform
import subprocess
import sys

import pytest
from conftest import ROOT
from openvino_runtime import PYTHON

MODELS = ("resnet8_cifar10_mlperf", "dscnn_kws_mlperf")
SAMPLES = 64
# OpenVINO rounds the float results of its convolutions: ties fall the other way, and its averages are not rounded.
BOUND_DB = {"onnxruntime": float("inf"), "openvino": 45}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("target,runtime,python", [("ort", "onnxruntime", sys.executable), ("openvino", "openvino", PYTHON)])
def test_a_runtime_gives_what_the_contract_says(target, runtime, python, model, data, program, tmp_path):
    if runtime == "openvino" and (platform.machine() != "x86_64" or not python.exists()):
        pytest.skip("no OpenVINO for x86-64 (scripts/test makes its Python where a wheel exists)")
    command = [sys.executable, ROOT / "scripts/target_table", "--program", program, "--data", data, "--target", target]
    command += ["--python", f"{runtime}={python}", "--samples", SAMPLES, "--seconds", 0, "--json", "rows.json", model]
    done = subprocess.run([*map(str, command)], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert "error" not in row, row
    assert (row["target"], row["samples"], row["contract"]) == (target, SAMPLES, "onnx")
    assert min(row["noise"]) >= BOUND_DB[runtime], row
    # One answer may differ where the outputs do.
    assert abs(row["value"][1] - row["qcalib"][1]) <= (0 if row["differ"] == 0 else 100 / SAMPLES), row
    assert row["value"][1] >= row["float"][1] - 5, row
