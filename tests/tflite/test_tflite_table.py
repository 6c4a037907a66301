# SPDX-License-Identifier: Apache-2.0
"""A sample of the table of docs/targets-measured.md (scripts/target_table) in TensorFlow Lite: with reference kernels the outputs are those of
`qcalib run` under the contract `tflite`, bit for bit. tests/e2e/test_target_table.py has the other runtimes.
  QCALIB_DATA  real models and data; without it these tests are skipped"""

import json
import os
import pathlib
import subprocess
import sys

import pytest
from test_tflite_graphs import ROOT, program  # noqa: F401 a fixture
from tflite_model import RUNTIME

SAMPLES = 64


@pytest.mark.parametrize("model", ["resnet8_cifar10_mlperf", "dscnn_kws_mlperf"])
def test_the_interpreter_gives_what_the_contract_says(model, program, tmp_path):  # noqa: F811
    data = os.environ.get("QCALIB_DATA")
    if not data or not pathlib.Path(data).is_dir():
        pytest.skip("QCALIB_DATA does not name the folder with real models")
    exact = RUNTIME == "tflite-runtime"
    target = "tflite" if exact else "xnnpack"
    command = [sys.executable, ROOT / "scripts/target_table", "--program", program, "--data", data, "--target", target]
    command += ["--samples", SAMPLES, "--seconds", 0, "--json", "rows.json", model]
    done = subprocess.run([*map(str, command)], cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    here = [r for r in json.loads((tmp_path / "rows.json").read_text()) if RUNTIME in r.get("runtime", "")]
    (row,) = here
    assert (row["target"], row["samples"], row["contract"]) == (target, SAMPLES, "tflite" if exact else "onnx")
    assert min(row["noise"]) >= (float("inf") if exact else 45), row
    assert row["differ"] == 0 or not exact, row
    assert abs(row["value"][1] - row["qcalib"][1]) <= (0 if exact else 100 / SAMPLES), row
