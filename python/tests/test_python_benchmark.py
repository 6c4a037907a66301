# SPDX-License-Identifier: Apache-2.0
"""benchmark: a command that measures a model, or the name of a runtime."""

import shlex
import sys

import pytest
from conftest import DIGITS

import qcalib
from qcalib import benchmark


def test_a_command(samples, tmp_path):
    """The command prints the size of the file: integer models are smaller than float, and no change is a gain."""
    script = tmp_path / "size of.py"
    script.write_text("import os, sys\nprint('bytes', os.path.getsize(sys.argv[1]))\n")
    command = f"{shlex.quote(sys.executable)} {shlex.quote(str(script))} {{}}"
    result = qcalib.quantize(DIGITS, samples, advice="off", benchmark=command)
    told = result.latency
    assert told["float_ms"] == DIGITS.stat().st_size and told["best_ms"] == len(result.model) < told["float_ms"]
    assert told["command"] == command and "latency" in repr(result)
    again = qcalib.quantize(DIGITS, samples, advice="off", effort="low", **told["placement"])
    assert again.model == result.model and again.latency is None
    in_memory = qcalib.quantize(DIGITS.read_bytes(), samples, advice="off", benchmark=command)
    assert in_memory.latency["float_ms"] is None and in_memory.model == result.model


def test_a_command_that_fails(samples):
    with pytest.raises(qcalib.MachineError, match="exit code 3"):
        qcalib.quantize(DIGITS, samples, benchmark="sh -c 'exit 3' {}")
    with pytest.raises(qcalib.UsageError, match="model file"):
        qcalib.quantize(DIGITS, samples, benchmark="onnx")


def test_onnxruntime(samples):
    """The runtime measures the model; the test does not check times."""
    pytest.importorskip("onnxruntime")
    few = {"skip": ["Conv", "Add", "AveragePool"], "advice": "off"}
    told = qcalib.quantize(DIGITS, samples, benchmark="onnxruntime", **few).latency
    assert told["command"].endswith("benchmark.py --runtime onnxruntime {}") and told["float_ms"] > 0


def test_least_time_and_shapes(capsys):
    calls = []
    assert benchmark.measure(lambda: calls.append(1), 0) >= 0 and len(calls) >= benchmark.WARM_UP + 3
    assert benchmark.sizes("a=b=1,3") == ("a=b", (1, 3))
    assert benchmark.values("int64", (4,)).max() <= 1 and benchmark.values("float16", (2, 3)).shape == (2, 3)
    with pytest.raises(SystemExit):
        benchmark.main(["m.onnx", "--shape", "x"])
    assert "NAME=D" in capsys.readouterr().err
