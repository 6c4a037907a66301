# SPDX-License-Identifier: Apache-2.0
"""qcalib-mpi: the same bytes as one process, and an error if a rank fails or dies."""

import os
import shutil
import subprocess
import time

import h5py
import numpy as np
import pytest

ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}


@pytest.fixture
def mpirun(program, tmp_path):
    """mpirun(ranks, ARGUMENT, ..., code=0)"""
    path = program.with_name("qcalib-mpi")
    if not path.exists() or not shutil.which("mpirun"):
        pytest.skip("qcalib-mpi is not built: libopenmpi-dev and openmpi-bin are missing (scripts/setup --test)")

    def run(ranks, *arguments, code=0):
        done = subprocess.run(
            ["mpirun", "-n", str(ranks), str(path), *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


@pytest.fixture
def digits(examples):
    return examples / "digits_calib.h5", examples / "digits_cnn.onnx"


def test_collect_is_that_of_one_process(mpirun, qcalib, digits, tmp_path):
    data, model = digits
    qcalib("collect", "--data", data, "--samples", 50, model, "-o", "one.h5")
    for ranks in (1, 3):
        mpirun(ranks, "collect", "--data", data, "--samples", 50, model, "-o", "mpi.h5")
        assert (tmp_path / "mpi.h5").read_bytes() == (tmp_path / "one.h5").read_bytes()


def test_quantize_is_that_of_one_process(mpirun, qcalib, digits, tmp_path):
    data, model = digits
    qcalib("--data", data, "--report", "one.report", "-o", "one.onnx", model)
    out = mpirun(3, "--data", data, "--report", "mpi.report", "-o", "mpi.onnx", model).stdout
    assert out.count("quantized ") == 1
    assert (tmp_path / "mpi.onnx").read_bytes() == (tmp_path / "one.onnx").read_bytes()
    assert (tmp_path / "mpi.report/layers.csv").read_bytes() == (tmp_path / "one.report/layers.csv").read_bytes()


@pytest.mark.parametrize("method", ["avgmax", "ema:momentum=0.1"])
def test_observers_of_single_samples(mpirun, qcalib, digits, tmp_path, method):
    data, model = digits
    qcalib("--data", data, "--samples", 40, "--method", method, "--no-report", "-o", "one.onnx", model)
    mpirun(3, "--data", data, "--samples", 40, "--method", method, "--no-report", "-o", "mpi.onnx", model)
    assert (tmp_path / "mpi.onnx").read_bytes() == (tmp_path / "one.onnx").read_bytes()


def test_more_ranks_than_samples(mpirun, qcalib, digits, tmp_path):
    data, model = digits
    qcalib("collect", "--data", data, "--samples", 2, model, "-o", "one.h5")
    mpirun(3, "collect", "--data", data, "--samples", 2, model, "-o", "mpi.h5")
    assert (tmp_path / "mpi.h5").read_bytes() == (tmp_path / "one.h5").read_bytes()


def test_errors(mpirun, digits):
    data, model = digits
    assert "rank" in mpirun(2, "collect", "--data", "absent.h5", model, code=3).stderr
    for arguments in (
        ["eval", "--data", data, model],
        ["collect", "--data", data, "--shard", "0/2", model],
        ["collect", "--data", data, "--checkpoint", "c.h5", model],
    ):
        mpirun(2, *arguments, code=2)


def test_dead_rank_is_an_error(program, mpirun, digits, tmp_path):
    """One of three processes is killed: mpirun fails, and no statistics are written."""
    data, model = digits
    assert mpirun
    with h5py.File(data) as f, h5py.File(tmp_path / "many.h5", "w") as g:
        for key in f:
            g.create_dataset(key, data=np.concatenate([f[key][:]] * (200_000 // len(f[key]))))
            g[key].attrs.update(f[key].attrs)
    command = [
        "mpirun",
        "-n",
        "3",
        str(program.with_name("qcalib-mpi")),
        "collect",
        "--data",
        "many.h5",
        str(model),
        "-o",
        "out.h5",
    ]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as run:
        ranks = []
        for _ in range(1000):
            children = subprocess.run(
                ["ps", "-o", "pid=,comm=", "--ppid", str(run.pid)], capture_output=True, text=True, check=False
            ).stdout.split("\n")
            ranks = [int(c.split()[0]) for c in children if "qcalib" in c]
            if len(ranks) == 3:
                break
            time.sleep(0.01)
        assert len(ranks) == 3
        time.sleep(0.1)
        os.kill(ranks[-1], 9)
        run.communicate(timeout=60)
    assert run.returncode != 0 and not (tmp_path / "out.h5").exists()
