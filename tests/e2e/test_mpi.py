# SPDX-License-Identifier: Apache-2.0
"""qcalib-mpi: the same bytes as one process, and an error if a rank fails or dies."""

import os
import shutil
import signal
import subprocess

import h5py
import numpy as np
import pytest
from conftest import ROOT

ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
}


def shims(program):
    return [folder / "tests/libfail_reader.so" for folder in (program.parent, ROOT / "build/release")]


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
    ):
        mpirun(2, *arguments, code=2)


@pytest.mark.parametrize("odd", ["--help", "--version", "quantize"])
@pytest.mark.parametrize("first", [True, False], ids=["rank 0", "rank 1"])
def test_ranks_with_other_commands_do_not_wait_for_each_other(odd, first, mpirun, program, digits):
    data, model = digits
    job = ["collect", "--data", data, "--samples", 4, model, "-o", "out.h5"]
    other = ["quantize", *job[1:]] if odd == "quantize" else [odd]
    commands = [other, job] if first else [job, other]
    done = mpirun(1, *commands[0], ":", "-n", 1, program.with_name("qcalib-mpi"), *commands[1], code=2)
    assert "the ranks run different commands" in done.stderr
    assert "Usage" in mpirun(2, "--help").stdout or "usage" in mpirun(2, "--help").stdout


@pytest.mark.parametrize("command", ["collect", "quantize"])
def test_dead_rank_is_an_error_and_the_checkpoint_goes_on(command, program, mpirun, qcalib, digits, tmp_path):
    """One of three ranks is killed in the middle of its samples: mpirun says so, nothing is written, and with what the
    other ranks have saved the same command gives the bytes of an undisturbed job."""
    data, model = digits
    with h5py.File(data) as f, h5py.File(tmp_path / "many.h5", "w") as g:
        for key in f:
            g.create_dataset(key, data=np.concatenate([f[key][:]] * 40), chunks=(64, *f[key].shape[1:]))
            g[key].attrs.update(f[key].attrs)
    tail = ["--no-report"] if command == "quantize" else []
    job = [command, "--data", "many.h5", str(model), *tail]
    mpirun(3, *job, "-o", "whole")
    job += ["--checkpoint", "c.h5", "-o", "out"]
    (tmp_path / "answers").write_bytes(bytes(24))
    dies = [
        "env",
        f"LD_PRELOAD={next(s for s in shims(program) if s.exists())}",
        f"QC_READER_REPORT={tmp_path / 'answers'}",
        f"QC_READER_SIGNAL={int(signal.SIGKILL)}",
        "QC_READER_ANSWER=60",
    ]
    path = str(program.with_name("qcalib-mpi"))
    done = subprocess.run(
        ["mpirun", "-n", "2", path, *job, ":", "-n", "1", *dies, path, *job],
        cwd=tmp_path,
        env={**os.environ, **ENVIRONMENT},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode != 0 and "signal 9" in done.stdout + done.stderr, done.stdout + done.stderr
    assert not (tmp_path / "out").exists()
    kept = sorted(p.name for p in tmp_path.glob("c.h5.?-of-3"))
    assert set(kept) <= {"c.h5.0-of-3", "c.h5.1-of-3"}
    for name in kept:
        assert qcalib("inspect", "--json", name).json["samples"] > 0
    mpirun(3, *job)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not list(tmp_path.glob("c.h5*"))


def test_each_rank_goes_on_from_its_checkpoint(mpirun, qcalib, digits, tmp_path):
    """A checkpoint is used: one of another data set is refused by the rank whose it is."""
    data, model = digits
    qcalib("collect", "--data", data, "--shard", "1/2", model, "-o", "c.h5.1-of-2")
    mpirun(2, "collect", "--data", data, model, "--checkpoint", "c.h5", "-o", "out")
    qcalib("collect", "--data", data, model, "-o", "whole")
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    qcalib("collect", "--data", data, "--samples", 5, "--shard", "0/2", model, "-o", "c.h5.1-of-2")
    assert "rank 1" in mpirun(2, "collect", "--data", data, model, "--checkpoint", "c.h5", "-o", "out", code=3).stderr
