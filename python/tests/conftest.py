# SPDX-License-Identifier: Apache-2.0
"""Tests of the installed package; the package of the checkout is not on the path. They need only numpy and pytest.
QCALIB_ORT_CPU: as in tests/e2e/conftest.py."""
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import qcalib

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "datasets/digits_cnn.onnx"
assert ROOT not in pathlib.Path(qcalib.__file__).resolve().parents or "build" in pathlib.Path(qcalib.__file__).parts

if os.environ.get("QCALIB_ORT_CPU"):
    sys.path.append(str(ROOT / "tests/e2e"))
    import avx2_runtime

    avx2_runtime.install()


def command_line(*arguments, folder=None, code=0):
    """Runs `python -m qcalib ARGUMENTS`."""
    command = [sys.executable, "-m", "qcalib", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def samples():
    """Returns 64 images with blots, similar to digits, normalised for the model."""
    random = np.random.default_rng(7)
    at = random.uniform(2, 6, (64, 2, 1, 1))
    y, x = np.mgrid[:8, :8]
    blot = np.exp(-((y - at[:, :1]) ** 2 + (x - at[:, 1:]) ** 2) / random.uniform(2, 8, (64, 1, 1, 1)))
    return ((blot - 0.3) / 0.376).astype(np.float32)


@pytest.fixture(scope="session")
def labels(samples):
    return qcalib.run(DIGITS, samples)["logits"].argmax(axis=1)


@pytest.fixture(scope="session")
def reference(samples, tmp_path_factory):
    """Returns the quantized model from the command line and a file with the samples."""
    folder = tmp_path_factory.mktemp("reference")
    np.savez(folder / "samples.npz", input=samples)
    command_line("--data", "samples.npz", "--method", "minmax", "--no-report", "-o", "m.onnx", DIGITS, folder=folder)
    return (folder / "m.onnx").read_bytes()
