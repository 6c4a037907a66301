# SPDX-License-Identifier: Apache-2.0
"""Load: many samples, threads, files and nodes. Memory may grow only by the stated amounts. QCALIB_LONG: the large
numbers; the figures are printed (`pytest -rP`) and are in docs/faults.md."""

import resource
import shutil
import subprocess
import sys

import h5py
import numpy as np
import pytest
from chain_models import chain
from conftest import LONG
from image_files import picture
from test_budget import STARTER
from test_images import identity


@pytest.fixture
def measured(program, tmp_path):
    """measured(ARGUMENT, ...) -> (peak MiB, processor seconds) of a successful command, started by a small process."""

    def run(*arguments):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-S", "-E", "-c", STARTER, tmp_path / "peak", program, *map(str, arguments)],
            cwd=tmp_path, stdin=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        code, kib, _ = map(float, (tmp_path / "peak").read_text().split())
        assert code == 0
        return kib / 1024, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    return run


def many_digits(path, examples, samples):
    with h5py.File(examples / "digits_calib.h5") as f, h5py.File(path, "w") as g:
        values = f["input"][()]
        g["input"] = np.resize(values, (samples, *values.shape[1:]))
        g["input"].attrs.update(f["input"].attrs)


@pytest.mark.parametrize("command", ["collect", "quantize", "run"])
def test_many_small_samples(command, measured, examples, tmp_path):
    """Ten times the samples: no more memory than for their numbers."""
    most = 100_000 if LONG else 5_000
    tail = ["--no-report", "--advice", "off"] if command == "quantize" else []
    figures = []
    for samples in (most // 10, most):
        many_digits(tmp_path / "d.h5", examples, samples)
        figures.append(measured(command, "-q", "--data", "d.h5", examples / "digits_cnn.onnx", "-o", "out", *tail))
    print(f"{command}: {most // 10} and {most} samples: " + ", ".join(f"{m:.0f} MiB, {s:.1f} s" for m, s in figures))
    assert figures[1][0] < figures[0][0] + 24, figures


def test_64_threads(measured, examples, tmp_path):
    """On any number of cores: the same bytes as with one thread."""
    for threads in (1, 64):
        job = ("quantize", "-q", "--no-report", "--threads", threads, "--data", examples / "digits_calib.h5")
        memory, seconds = measured(*job, examples / "digits_cnn.onnx", "-o", f"{threads}.onnx")
        print(f"{threads} threads: {memory:.0f} MiB, {seconds:.1f} s of processor time")
    assert (tmp_path / "64.onnx").read_bytes() == (tmp_path / "1.onnx").read_bytes()


def test_64_threads_decode_images(qcalib, tmp_path):
    """Each thread has a process of its own."""
    identity(tmp_path / "m.onnx", ["N", 3, 8, 8])
    (tmp_path / "f").mkdir()
    for i in range(100):
        picture(9, 9, i).save(tmp_path / f"f/{i}.png")
    outputs = []
    for threads in (1, 64):
        qcalib("run", "m.onnx", "--data", "f", "--threads", threads, "-o", "o.h5")
        outputs.append((tmp_path / "o.h5").read_bytes())
    assert outputs[0] == outputs[1]


def test_many_files_in_a_folder(measured, tmp_path):
    """A folder of images of which 64 are chosen, and all of which are decoded; memory per file is that of its name."""
    count = 100_000 if LONG else 3_000
    identity(tmp_path / "m.onnx", ["N", 3, 8, 8])
    (tmp_path / "f").mkdir()
    for i in range(count):
        if i % 20_000 == 0:
            picture(9, 9, i).save(tmp_path / f"{i}.png")  # a file can have some 60,000 names
        (tmp_path / f"f/{i:06}.png").hardlink_to(tmp_path / f"{i // 20_000 * 20_000}.png")
    some = measured("run", "-q", "m.onnx", "--data", "f", "--samples", 64, "-o", "o.h5")
    every = measured("run", "-q", "m.onnx", "--data", "f", "-o", "o.h5")
    print(f"{count} files: 64 chosen: {some[0]:.0f} MiB, {some[1]:.1f} s; all: {every[0]:.0f} MiB, {every[1]:.1f} s")
    assert every[0] < 100 + count * 1500 / 2**20, every
    with h5py.File(tmp_path / "o.h5") as f:
        assert f["y"].shape[0] == count
    shutil.rmtree(tmp_path / "f")


@pytest.mark.nightly
def test_64000_nodes_are_quantized(measured, tmp_path):
    model, samples = chain("conv", 32_000, tmp_path)
    memory, seconds = measured(
        "quantize", "-q", "--threads", 1, "--method", "mse", "--advice", "off", "--no-report", "--data", samples, model,
        "-o", "out.onnx")
    print(f"64,000 nodes: {memory:.0f} MiB, {seconds:.0f} s")
    assert memory < 32_000 * 0.15
