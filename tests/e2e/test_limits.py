# SPDX-License-Identifier: Apache-2.0
"""Limits of the shell (ulimit): a job that meets one ends with exit code 5 and one message, and leaves no file behind."""

import resource
import shutil
import subprocess

import h5py
import numpy as np
import pytest
from test_bad_input import MACHINE

pytestmark = pytest.mark.bad_input


@pytest.fixture
def folder(examples, tmp_path):
    shutil.copy(examples / "digits_cnn.onnx", tmp_path / "m.onnx")
    shutil.copy(examples / "digits_calib.h5", tmp_path / "x.h5")
    return tmp_path


def limited(program, folder, which, soft, hard, *arguments):
    """One line, and no new file."""
    before = set(folder.rglob("*"))
    done = subprocess.run(
        [program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(which, (soft, hard)),
    )
    assert done.returncode == MACHINE, (done.returncode, done.stderr)
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("qcalib: "), done.stderr
    assert set(folder.rglob("*")) == before
    return done.stderr


@pytest.mark.parametrize("command", [["quantize", "--advice=off"], ["run"]], ids=["quantize", "run"])
def test_size_of_files(command, program, folder):
    """SIGXFSZ keeps its default in the shell."""
    arguments = [*command, "m.onnx", "--data", "x.h5", "-o", "out"]
    assert "File too large" in limited(program, folder, resource.RLIMIT_FSIZE, 8192, 8192, *arguments)


@pytest.mark.parametrize("hard", [2, 60])
def test_processor_time(hard, program, folder):
    """With equal limits the kernel sends SIGKILL in place of SIGXCPU."""
    with h5py.File(folder / "x.h5", "r+") as file:
        name = next(k for k in file if file[k].ndim == 4)
        values = np.tile(file[name][()], (800, 1, 1, 1))
        for key in list(file):
            del file[key]
        file[name] = values
    arguments = ["run", "m.onnx", "--data", "x.h5", "-o", "out", "-q"]
    assert "ulimit -t" in limited(program, folder, resource.RLIMIT_CPU, 2 if hard == 2 else 1, hard, *arguments)


def test_stack(program, folder):
    arguments = ["m.onnx", "--data", "x.h5", "-o", "out", "--advice=off"]
    hard = resource.getrlimit(resource.RLIMIT_STACK)[1]
    message = limited(program, folder, resource.RLIMIT_STACK, 65536, hard, *arguments)
    assert "64 KiB" in message and "ulimit -s" in message
