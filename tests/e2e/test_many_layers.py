# SPDX-License-Identifier: Apache-2.0
"""Work and memory are proportional to the layers of a model. Work is counted in instructions by valgrind, so it does
not depend on the load of the machine."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
from chain_models import chain
from conftest import LONG, nightly
from test_budget import MACHINE, MIB, STARTER

# An inspection is cheap: valgrind takes most of the time to start.
LAYERS, INSPECTED = ((400, 800, 1600),) * 2 if LONG else ((50, 100, 200), (400, 800, 1600))
# The second step of layers over the first: 2 when linear, 4 when quadratic. Sorting and hash tables that double are within
# this. A job is not if a quarter of it is quadratic at the largest number of layers.
RATIO_MAX = 2.25


@pytest.fixture
def instructions(program, tmp_path):
    """instructions(ARGUMENT, ...) of a command, its start included."""
    valgrind = shutil.which("valgrind")
    if not valgrind:
        pytest.fail("there is no valgrind: scripts/setup --test")

    def run(*arguments):
        done = subprocess.run(
            [valgrind, "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", program, *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        return int(re.search(r"I +refs:\s+([\d,]+)", done.stderr)[1].replace(",", ""))

    return run


def ratio(counts):
    return (counts[2] - counts[1]) / (counts[1] - counts[0])


@pytest.mark.parametrize("kind", ["outputs", nightly("conv"), nightly("residual"), nightly("dense")])
def test_work_grows_with_the_layers(kind, instructions, tmp_path):
    """Ranges are found anew after layers that are quantized (--propagate); nightly also without."""
    work = {"quantize --propagate": [], "run": [], "inspect": []}
    if LONG:
        work["quantize"] = []
    for layers in LAYERS:
        model, samples = chain(kind, layers, tmp_path)
        job = ("--threads", 1, "--method", "mse", "--advice", "off", "--data", samples, model, "-o", f"{layers}.onnx", "--report", "report")
        if LONG:
            work["quantize"].append(instructions(*job))
        work["quantize --propagate"].append(instructions(*job, "--propagate"))
        work["run"].append(instructions("run", "--threads", 1, "--data", samples, f"{layers}.onnx", "-o", "out.h5"))
    for layers in INSPECTED:
        work["inspect"].append(instructions("inspect", chain(kind, layers, tmp_path)[0]))
    for what, counts in work.items():
        assert ratio(counts) < RATIO_MAX, f"{what}: {counts}, {ratio(counts):.2f}"


def test_work_of_refined_weights_grows_with_the_layers(instructions, tmp_path):
    """Weights of 4 bits are rounded a second time. A chain of sums has no real value for its parts to begin with."""
    jobs, samples = [], tmp_path / "samples.npy"
    np.save(samples, np.random.default_rng(0).uniform(0.5, 1.5, (16, 2, 1, 2)).astype(np.float32))
    for layers in (50, 100, 200) if LONG else (25, 50, 100):
        model, _ = chain("sums", layers, tmp_path)
        job = ("--threads", 1, "--method", "mse", "--advice", "off", "--effort", "low", "--weight-type", "int4", "--data", samples, model)
        jobs.append(instructions(*job, "-o", "out.onnx", "--report", tmp_path / f"report{layers}"))
    assert ratio(jobs) < RATIO_MAX, f"{jobs}, {ratio(jobs):.2f}"


@pytest.fixture
def peak(program, tmp_path):
    """peak(ARGUMENT, ...): exit code, what was said, and the most memory the command had, in MiB."""

    def run(*arguments):
        done = subprocess.run(
            [sys.executable, "-S", "-E", "-c", STARTER, tmp_path / "peak", program, *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=True,
        )
        code, kib, _ = map(float, (tmp_path / "peak").read_text().split())
        return int(code), done.stderr, kib * 1024 / MIB

    return run


@pytest.mark.parametrize(
    "layers, most, refused, enough",
    [(2000, 252, (25, 50, 100), 260), nightly(8000, 800, (100, 200, 300), 900)],
)
def test_memory_of_many_layers(layers, most, refused, enough, peak, tmp_path):
    """105 KiB for a layer, 16 of them for the idea that advice always tries. A limit (MiB) that is too low is kept too."""
    model, samples = chain("conv", layers, tmp_path)
    job = ("--threads", 1, "--method", "mse", "--no-report", "--prefer", "integers", "--data", samples, model, "-o", "out.onnx")
    code, text, held = peak(*job)
    assert code == 0, text
    assert held < most, f"{held:.0f} MiB"
    for limit in refused:
        code, text, held = peak(*job, "--memory-limit", f"{limit}M")
        assert code == MACHINE and "--memory-limit" in text, f"{limit}: {code} {text}"
        assert held < limit + 16, f"{limit}: {held:.0f} MiB"
    code, text, held = peak(*job, "--memory-limit", f"{enough}M")
    assert code == 0 and held < enough, f"{held:.0f} MiB\n{text}"


def test_64000_nodes_are_inspected(qcalib, peak, tmp_path):
    model, _ = chain("conv", 32000, tmp_path)
    ops = json.dumps(qcalib("inspect", "--json", model).json)
    assert '"Conv": 32000' in ops or re.search(r'"Conv".{0,40}32000', ops), ops[:2000]
    code, text, most = peak("inspect", model)
    assert code == 0 and most < 400, f"{most:.0f} MiB\n{text}"
