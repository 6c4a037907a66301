# SPDX-License-Identifier: Apache-2.0
"""Two jobs at the same time, with the same output or the same checkpoint. Each output is that of one of them, whole."""

import os
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

MACHINE = 5
LAYERS = ["--threads", "1", "--activation-type", "none", "--weight-type", "int4", "--no-report", "--advice", "off"]


@pytest.fixture
def folder(examples, tmp_path):
    shutil.copy(examples / "digits_cnn.onnx", tmp_path / "m.onnx")
    with h5py.File(examples / "digits_calib.h5") as f:
        for name, part in (("d.h5", slice(0, 100)), ("e.h5", slice(100, 200))):
            with h5py.File(tmp_path / name, "w") as g:
                g["input"] = f["input"][part]
                g["input"].attrs.update(f["input"].attrs)
    return tmp_path


def start(program, folder, *arguments):
    return subprocess.Popen([program, *arguments], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def whole(program, folder, *arguments):
    run = start(program, folder, *arguments)
    assert run.wait() == 0, run.stderr.read()


def files(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def external(folder):
    """A model whose result has a file of weights as well."""
    rng = np.random.default_rng(1)
    weights = [numpy_helper.from_array(rng.normal(size=(64, 64)).astype(np.float32), name) for name in ("v", "w")]
    nodes = [helper.make_node("MatMul", ["x", "v"], ["h"]), helper.make_node("MatMul", ["h", "w"], ["y"])]
    values = [helper.make_tensor_value_info(name, 1, ["N", 64]) for name in "xy"]
    model = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:], weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="m.bin", size_threshold=0)
    for name in ("d.h5", "e.h5"):
        with h5py.File(folder / name, "w") as file:
            file["x"] = rng.normal(size=(16, 64)).astype(np.float32)


@pytest.mark.parametrize("command", ["quantize", "external", "collect"])
def test_one_output(command, program, folder):
    """Jobs with different samples, started at once, several times."""
    if command == "external":
        external(folder)
    tail = ["--no-report", "--advice", "off"] if command != "collect" else []
    job = [command if command == "collect" else "quantize", "-q", "m.onnx", *tail, "--data"]
    singles, before = [], files(folder)
    for data in ("d.h5", "e.h5"):
        whole(program, folder, *job, data, "-o", "out.onnx")
        singles.append({name: content for name, content in files(folder).items() if name not in before})
    assert singles[0] != singles[1] and len(singles[0]) == (2 if command == "external" else 1)
    for _ in range(4):
        runs = [start(program, folder, *job, data, "-o", "out.onnx") for data in ("d.h5", "e.h5", "d.h5", "e.h5")]
        assert [run.wait() for run in runs] == [0] * 4, [run.stderr.read() for run in runs]
        now = files(folder)
        assert {name: content for name, content in now.items() if name not in before} in singles
        assert {name: now[name] for name in before} == before


def test_one_checkpoint_of_rounded_layers(program, folder):
    """A second job is refused while the first has the file, whatever its samples, and does not disturb it."""
    whole(program, folder, "quantize", "-q", *LAYERS, "m.onnx", "--data", "d.h5", "-o", "good.onnx")
    before = set(folder.iterdir())
    job = ["quantize", "-q", *LAYERS, "m.onnx", "--checkpoint", "c.h5"]
    for _ in range(20):
        first = start(program, folder, *job, "--data", "d.h5", "-o", "out.onnx")
        while first.poll() is None and not (folder / "c.h5.layers").exists():
            time.sleep(0.0005)
        first.send_signal(signal.SIGSTOP)
        time.sleep(0.01)
        if first.poll() is None and (folder / "c.h5.layers").exists():
            break
    assert first.poll() is None, "it was never stopped in time"
    for data in ("d.h5", "e.h5"):
        second = start(program, folder, *job, "--data", data, "-o", "other.onnx")
        assert second.wait() == MACHINE
        error = second.stderr.read()
        assert "another job is writing c.h5.layers" in error and error.count("\n") == 1, error
    first.send_signal(signal.SIGCONT)
    assert first.wait() == 0, first.stderr.read()
    assert (folder / "out.onnx").read_bytes() == (folder / "good.onnx").read_bytes()
    assert set(folder.iterdir()) == before | {folder / "out.onnx"}


def test_a_killed_job_leaves_its_checkpoint_to_the_next(program, folder):
    """No file of a lock stays behind: the next job begins where the killed one was."""
    whole(program, folder, "quantize", "-q", *LAYERS, "m.onnx", "--data", "d.h5", "-o", "good.onnx")
    job = ["quantize", "-q", *LAYERS, "m.onnx", "--checkpoint", "c.h5", "--data", "d.h5", "-o", "out.onnx"]
    first = start(program, folder, *job)
    while first.poll() is None and not (folder / "c.h5.layers").exists():
        time.sleep(0.0005)
    first.kill()
    first.wait()
    whole(program, folder, *job)
    assert (folder / "out.onnx").read_bytes() == (folder / "good.onnx").read_bytes()
    left = [f.name for f in folder.glob("c.h5*") if not f.name.endswith(f".tmp-{first.pid}")]
    assert not left, "only what the killed job was writing may be left"


def test_one_checkpoint_of_statistics(program, folder):
    """Two jobs go on from one checkpoint, and both have the bytes of an undisturbed job."""
    with h5py.File(folder / "d.h5", "r+") as file:
        rows, attributes = np.tile(file["input"][:], (40, 1, 1, 1)), dict(file["input"].attrs)
        del file["input"]
        file["input"] = rows
        file["input"].attrs.update(attributes)
    whole(program, folder, "collect", "-q", "m.onnx", "--data", "d.h5", "-o", "good.h5")
    job = ["collect", "-q", "m.onnx", "--data", "d.h5", "--checkpoint", "c.h5", "-o"]
    for part in range(1, 40):
        first = start(program, folder, *job, "a.h5")
        time.sleep(0.02 * part)
        first.send_signal(signal.SIGTERM)
        first.wait()
        if (folder / "c.h5").exists():
            break
    assert (folder / "c.h5").exists() and not (folder / "a.h5").exists()
    runs = [start(program, folder, *job, name) for name in ("a.h5", "b.h5")]
    assert [run.wait() for run in runs] == [0, 0], [run.stderr.read() for run in runs]
    for name in ("a.h5", "b.h5"):
        assert (folder / name).read_bytes() == (folder / "good.h5").read_bytes()
    assert not list(folder.glob("c.h5*")) and os.listdir(folder).count("good.h5") == 1
