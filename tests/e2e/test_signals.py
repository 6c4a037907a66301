# SPDX-License-Identifier: Apache-2.0
"""Signals (test_bad_input.py has those that end a job): ignored signals stay ignored, and a second signal ends the
program at once. Standard output: closed by the reader, full, or not open."""

import os
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest

INTERRUPTED, MACHINE = 130, 5
ENDING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture
def folder(examples, tmp_path):
    shutil.copy(examples / "digits_cnn.onnx", tmp_path / "m.onnx")
    shutil.copy(examples / "digits_calib.h5", tmp_path / "c.h5")
    shutil.copy(examples / "digits_test.h5", tmp_path / "t.h5")
    return tmp_path


def make_long(folder, times):
    with h5py.File(folder / "c.h5") as f, h5py.File(folder / "long.h5", "w") as g:
        key = next(k for k in f if f[k].ndim == 4)
        g[key] = np.tile(f[key][:], (times, 1, 1, 1))
        g[key].attrs.update(f[key].attrs)


def start(program, folder, *arguments, **more):
    """Returns when the progress bar shows that it is running."""
    run = subprocess.Popen(
        [program, *arguments, "--progress", "always"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )
    assert run.stderr.read(1)
    return run


@pytest.mark.parametrize("number", ENDING, ids=[n.name for n in ENDING])
def test_what_the_parent_ignores_is_ignored(number, program, folder):
    """As in a background job of a script, or under nohup."""
    make_long(folder, 30)
    run = start(
        program,
        folder,
        "run",
        "m.onnx",
        "--data",
        "long.h5",
        "-o",
        "out",
        preexec_fn=lambda: signal.signal(number, signal.SIG_IGN),
    )
    run.send_signal(number)
    _, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert (folder / "out").stat().st_size > 1000


def test_a_second_signal_ends_at_once(program, folder):
    """The first would let the work be saved."""
    make_long(folder, 400)
    before = set(folder.rglob("*"))
    run = start(program, folder, "collect", "m.onnx", "--data", "long.h5", "--checkpoint", "half.h5", "-o", "s.h5")
    run.send_signal(signal.SIGSTOP)  # so that both are there when it goes on
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGCONT):
        run.send_signal(number)
    started = time.monotonic()
    _, err = run.communicate(timeout=20)
    assert run.returncode == INTERRUPTED and "qcalib: interrupted" in err and time.monotonic() - started < 5
    assert set(folder.rglob("*")) == before  # nothing was saved, and no temporary file is left


PRINTING = {
    "list": ["list", "ops"],
    "list --json": ["list", "ops", "--json"],
    "help": ["help"],
    "help quantize": ["help", "quantize"],
    "man": ["help", "--man"],
    "completion": ["help", "--completion", "bash"],
    "version": ["--version"],
    "inspect": ["inspect", "-v", "m.onnx"],
    "inspect --json": ["inspect", "--json", "m.onnx"],
    "inspect data": ["inspect", "-v", "c.h5"],
    "eval": ["eval", "m.onnx", "--data", "t.h5", "--samples", "50"],
    "compare": ["compare", "m.onnx", "m.onnx", "--data", "c.h5", "--samples", "5"],
    "run": ["run", "m.onnx", "--data", "c.h5", "-o", "out", "--json", "--samples", "5"],
    "quantize": ["m.onnx", "--data", "c.h5", "-o", "out", "--samples", "5", "--dump", "import"],
}


def with_output(program, folder, arguments, stdout, **more):
    return subprocess.run(
        [program, *arguments],
        cwd=folder,
        stdout=stdout,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        check=False,
        **more,
    )


@pytest.mark.parametrize("arguments", PRINTING.values(), ids=list(PRINTING))
def test_nobody_reads(arguments, program, folder):
    """qcalib list ops | head -1, where head has gone before the first byte: silent, and the work is done."""
    reader, writer = os.pipe()
    os.close(reader)
    done = with_output(program, folder, arguments, writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "out").exists() == ("out" in arguments)


@pytest.mark.parametrize("arguments", PRINTING.values(), ids=list(PRINTING))
def test_full(arguments, program, folder):
    with open("/dev/full", "w") as full:
        done = with_output(program, folder, arguments, full)
    assert (
        done.returncode == MACHINE
        and done.stderr.startswith("qcalib: cannot write standard output")
        and done.stderr.count("\n") == 1
    )


def test_closed(program, folder):
    """No file that is opened takes the place of standard output or error: nothing of ours is printed into it."""
    arguments = ["run", "m.onnx", "--data", "c.h5", "--samples", "5", "-o"]
    assert with_output(program, folder, [*arguments, "good.h5"], subprocess.DEVNULL).returncode == 0
    done = with_output(program, folder, [*arguments, "no_output.h5"], None, preexec_fn=lambda: os.close(1))
    assert done.returncode == MACHINE and "standard output" in done.stderr
    assert (
        subprocess.run(
            [program, *arguments, "no_error.h5", "--progress", "always"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            check=False,
            preexec_fn=lambda: (os.close(0), os.close(2)),
        ).returncode
        == 0
    )
    for name in ("no_output.h5", "no_error.h5"):
        assert (folder / name).read_bytes() == (folder / "good.h5").read_bytes()
