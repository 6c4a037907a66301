# SPDX-License-Identifier: Apache-2.0
"""Output on a terminal: colours and a progress bar, and neither if they are turned off."""

import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from terminal import on_terminal

ESCAPE = "\x1b["


@pytest.fixture
def run_arguments(examples):
    return ["run", examples / "digits_cnn.onnx", "--data", examples / "digits_calib.h5", "-o", "out.h5"]


def test_bar(program, run_arguments, tmp_path):
    code, text = on_terminal(program, tmp_path, *run_arguments)
    assert code == 0 and "running [" in text and "/300" in text and "wrote" in text
    assert text.rindex("running [") < text.index("model ")  # gone before the summary


@pytest.mark.parametrize("extra", [["--progress", "never"], ["-q"]])
def test_no_bar(extra, program, run_arguments, tmp_path):
    code, text = on_terminal(program, tmp_path, *run_arguments, *extra)
    assert code == 0 and "running [" not in text


def test_colours(program, tmp_path):
    assert ESCAPE in on_terminal(program, tmp_path, "--help")[1]
    assert ESCAPE not in on_terminal(program, tmp_path, "--help", NO_COLOR="1")[1]
    assert ESCAPE not in on_terminal(program, tmp_path, "--help", TERM="dumb")[1]
    code, text = on_terminal(program, tmp_path, "--nothing")
    assert code == 2 and ESCAPE in text


def test_none_in_a_pipe(qcalib):
    assert ESCAPE not in qcalib("--help").out and ESCAPE not in qcalib("--nothing", code=2).err


def test_the_summary_wraps_at_spaces(program, examples, tmp_path):
    """No line is wider than the terminal, no number is broken off its unit, and the words are those of a pipe."""
    job = ["quantize", "--data", examples / "digits_calib.h5", "--eval", examples / "digits_test.h5", "--progress=never",
           "--no-report", "-o", tmp_path / "q.onnx", examples / "digits_cnn.onnx"]
    code, text = on_terminal(program, tmp_path, *job, columns=72)
    lines = text.replace("\r\n", "\n").splitlines()
    words = subprocess.run([program, *map(str, job)], capture_output=True, text=True, check=True).stdout.split()
    assert code == 0 and len(lines) > 14
    wide = [line for line in lines if len(line) > 72 and " " in line[12:].strip()]
    assert not wide
    assert not any(line[12:].startswith(("dB", "%", "points", "KB", "s,")) for line in lines), lines
    time = lambda all_words: [w for w in all_words if not w.replace(".", "").isdigit()]
    assert time(text.split()) == time(words)


@pytest.mark.integers
def test_the_summary_has_the_worst_outputs(qcalib, tmp_path):
    """Five outputs, of which some lose more: the three worst have a line, also with labelled data."""
    x = np.random.default_rng(5).standard_normal((32, 8)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x)
    value, nodes, tensors = helper.make_tensor_value_info, [], []
    for k in range(5):
        w = np.random.default_rng(k).standard_normal((8, 4)).astype(np.float32)
        w[:, 0] *= 4.0**k  # one scale for all columns loses more with a wider column
        tensors.append(numpy_helper.from_array(w, f"w{k}"))
        nodes.append(helper.make_node("MatMul", ["x", f"w{k}"], [f"y{k}"], f"m{k}"))
    ports = [value("x", TensorProto.FLOAT, ["n", 8])], [value(f"y{k}", TensorProto.FLOAT, ["n", 4]) for k in range(5)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", *ports, tensors), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    job = ["quantize", "--data", "d.npz", "m.onnx", "--no-report", "-o", "q.onnx"]
    out, report = qcalib(*job).out, qcalib(*job, "--json").json
    worst = sorted(report["outputs"], key=lambda o: o["sqnr_db"])
    shown = [line[12:].split(":")[0] for line in out.splitlines() if ": SQNR " in line]
    assert shown == [o["name"] for o in worst[:3]] and "and 2 more, which are better" in out


@pytest.mark.skipif(sys.platform != "linux", reason="uses the C library's locales")
def test_numbers_do_not_depend_on_the_locale(qcalib, run_arguments):
    assert qcalib(*run_arguments, "--json", LC_ALL="de_DE.UTF-8", LANG="de_DE.UTF-8").json["seconds"] > 0
