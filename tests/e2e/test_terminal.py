# SPDX-License-Identifier: Apache-2.0
"""Output on a terminal: colours and a progress bar, and neither if they are turned off."""

import subprocess
import sys

import pytest
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


@pytest.mark.skipif(sys.platform != "linux", reason="uses the C library's locales")
def test_numbers_do_not_depend_on_the_locale(qcalib, run_arguments):
    assert qcalib(*run_arguments, "--json", LC_ALL="de_DE.UTF-8", LANG="de_DE.UTF-8").json["seconds"] > 0
