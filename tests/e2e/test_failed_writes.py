# SPDX-License-Identifier: Apache-2.0
"""Every command when the disk fails or the process is killed: change k of the file system fails, once or from then on, or
the program receives SIGKILL there (tests/fail_writes.c counts the changes and makes them fail).

After a failure the exit code is 5 with a message, or 0 with the usual result. Every output is as it was before or complete, and no
other file or folder is left. After SIGKILL every output is as it was before or complete, and the same command, started
again, gives the result of an undisturbed run and removes its checkpoint. A model and the file of its weights are always of the
same run, or the model is missing.

  QC_FAIL_EVERY=1       every k of every job (scripts/test --long), instead of a sample
"""

import collections
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from conftest import ROOT
from onnx import numpy_helper
from test_failed_allocations import EARLIER, JOBS, MACHINE, Job, inputs  # noqa: F401 (inputs is a fixture)

EVERY = os.environ.get("QC_FAIL_EVERY", "")
SAMPLED = 2  # changes of one job, for each way to fail
KILLED, INTERRUPTED, NO_NOTIFICATIONS = 137, 130, 77
TEMPORARY = re.compile(r"\.tmp-\d+(-\d+)?(-earlier)?$|^tmp/")
COLLECT = "collect --threads 1 --data d.h5 m.onnx --checkpoint c.h5 -o out.h5"
LAYERS = "--threads 1 --data d.h5 m.onnx --activation-type none --weight-type int4 --no-report --checkpoint c.h5 -o out.onnx"
SECONDS = 120
WRITING = {
    **{name: (text.format(n=1), outputs) for name, (text, outputs) in JOBS.items() if outputs},
    "external": ("--data d.h5 big.onnx --advice off --no-report -o out.onnx", ["out.onnx", "out.onnx.data"]),
    "formats": (
        "--prefer integers --stats s.h5 m.onnx --no-report --format qdq,qoperator,encodings,text --dump import=d.txt",
        ["d.txt", "m.int8.onnx", "m.qoperator.onnx", "m.encodings.json", "m.int8.txt"],
    ),
    "convert_dump": ("convert q.onnx --dump canonical=d.txt -o out.onnx", ["out.onnx", "d.txt"]),
    "targets": ("compare --target ort,tflite m.onnx --data d.h5", []),
    "difference": ("compare-reports r1 r2 -o page.html", ["page.html"]),
    "benchmark": (
        "--data d.h5 m.onnx --no-report --advice off --benchmark './one {}' --checkpoint c.h5 -o out.onnx",
        ["out.onnx", "out.placement.json"],
    ),
    "checkpoint": (COLLECT, ["out.h5"]),
    "layers": (LAYERS, ["out.onnx"]),
}


@pytest.fixture(scope="session")
def driver(program):
    name = "tests/fail_writes"
    for path in (program.parent / name, ROOT / "build/release" / name):
        if path.exists():
            return path
    return pytest.fail(f"there is no {name} in the build: build the tests")


class WritingJob(Job):
    """A job that is run under fail_writes."""

    def __init__(self, program, driver, inputs, folder, name):
        text, self.outputs = WRITING[name]
        self.command = [str(program), *shlex.split(text)]
        self.folder, self.driver, self.report = folder, driver, folder.parent / "report"
        shutil.copytree(inputs, folder)
        (folder / "tmp").mkdir()
        self.prepare(program, name)
        self.inputs = self.files()
        done = self.run(earlier=False)
        assert done.returncode == 0, done.stderr
        self.out, self.good = self.printed(done), self.files()
        assert set(self.good) == set(self.inputs) | set(self.outputs)

    def prepare(self, program, name):
        if name == "external":  # weights of 1 KiB at least lie beside the result as well
            model = onnx.load(self.folder / "m.onnx")
            wide = {"v": np.ones((64, 18), np.float32), "c": np.ones(64, np.float32)}
            for i, tensor in enumerate(model.graph.initializer):
                if tensor.name in wide:
                    model.graph.initializer[i].CopyFrom(numpy_helper.from_array(wide[tensor.name], tensor.name))
            model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 64
            onnx.save(model, self.folder / "big.onnx", save_as_external_data=True, location="big.bin", size_threshold=0)
        if name == "benchmark":
            (self.folder / "one").write_text('#!/bin/sh\ngrep -q QuantizeLinear "$1" && echo 1 || echo 2\n')
            (self.folder / "one").chmod(0o755)
        for report, method in (("r1", "mse"), ("r2", "minmax")) if name == "difference" else ():
            job = f"-q --data d.h5 m.onnx --method {method} -o x.onnx --report {report}"
            subprocess.run([str(program), *job.split()], cwd=self.folder, check=True)
            (self.folder / "x.onnx").unlink()

    def restore(self, earlier):
        """Removes what earlier runs wrote; each output then exists with other bytes, or not at all."""
        for path in self.folder.iterdir():
            if path.name == "tmp" or (path.is_dir() and not any(n.startswith(f"{path.name}/") for n in self.inputs)):
                shutil.rmtree(path)
            elif path.is_file() and path.name not in self.inputs:
                path.unlink()
        (self.folder / "tmp").mkdir()
        for output in self.outputs if earlier else ():
            (self.folder / output).parent.mkdir(exist_ok=True)
            (self.folder / output).write_bytes(EARLIER)

    def run(self, how=None, earlier=True, keep=False):
        if not keep:
            self.restore(earlier)
        self.earlier = earlier
        driven = [str(self.driver), how, str(self.report)] if how else []
        done = subprocess.run(
            [*driven, *self.command],
            cwd=self.folder,
            env={**os.environ, "TMPDIR": str(self.folder / "tmp")},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=SECONDS,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        if how and done.returncode == NO_NOTIFICATIONS:
            pytest.skip("this kernel or container has no seccomp notifications")
        return done

    def changes(self):
        """What the job changes: (kind, path, second path) each."""
        return [tuple(line.split("\t")) for line in self.report.read_text().splitlines()]

    def is_as_before_or_whole(self, name, content):
        return self.whole(name, content) or (self.earlier and content == EARLIER)

    def state(self, name):
        path = self.folder / name
        return ("earlier" if path.read_bytes() == EARLIER else "new") if path.exists() else None

    def fault(self, done, how=""):
        killed = how.startswith("kill")
        left = {n for n in self.files() if n not in self.good and not n.startswith("c.h5")}
        left = {n for n in left if not TEMPORARY.search(n) or not (killed or f"is now {n}" in done.stderr)}
        if left:
            return f"left: {left}, exit {done.returncode}"
        for name, content in self.files().items():
            if name not in self.outputs:
                if name in self.inputs and content != self.inputs[name]:
                    return f"{name}, an input, is changed"
            elif not self.is_as_before_or_whole(name, content):
                return f"{name} is damaged, exit {done.returncode}"
            elif done.returncode == 0 and not self.whole(name, content):
                return f"exit 0 and {name} is the earlier one"
        model, weights = (self.state(n) for n in ("out.onnx", "out.onnx.data"))
        pair = "out.onnx.data" in self.outputs
        if pair and model not in (None, weights):
            return f"the {model} model beside the {weights} weights, exit {done.returncode}"
        lost = [n for n in self.outputs if self.earlier and not (self.folder / n).exists()]
        if lost and not (pair and lost == ["out.onnx"]):
            return f"lost: {lost}, exit {done.returncode}"
        if killed:
            return None if done.returncode in (KILLED, 0) else f"exit {done.returncode}: {done.stderr[-600:]}"
        return self.fault_of_end(done)

    def fault_of_end(self, done):
        lines = done.stderr.splitlines()
        if done.returncode not in (0, MACHINE, INTERRUPTED):
            return f"exit {done.returncode}: {done.stderr[-600:]}"
        if done.returncode and (not lines or not lines[-1].startswith("qcalib: ")):
            return f"exit {done.returncode} and {done.stderr[-300:]!r}"
        if done.returncode == 0 and self.printed(done) != self.out:
            return f"exit 0 and other words: {done.stdout[-300:]}"
        if done.returncode == 0 and not set(self.outputs) <= set(self.files()):
            return "exit 0 and an output is missing"
        if not self.earlier:
            folders = {p for p in self.folder.rglob("*") if p.is_dir() and not any(p.iterdir()) and p.name != "tmp"}
            if folders:
                return f"empty folders: {folders}, exit {done.returncode}"
        return None

    def try_again(self):
        """The same command once more, with whatever the last one left."""
        done = self.run(keep=True)
        if done.returncode:
            return f"again: exit {done.returncode}: {done.stderr[-600:]}"
        wrong = [n for n in self.outputs if not self.whole(n, (self.folder / n).read_bytes())]
        left = [n for n in self.files() if n.startswith("c.h5") and not TEMPORARY.search(n)]
        return f"again: {wrong} differ, {left} left" if wrong or left else None

    def check(self, how, earlier=True):
        done = self.run(how, earlier)
        return done.returncode, self.fault(done, how) or (self.try_again() if done.returncode else None)


def chosen(count, seed):
    if EVERY:
        return range(seed % int(EVERY) + 1, count + 1, int(EVERY))
    return sorted(random.Random(seed).sample(range(1, count + 1), min(SAMPLED, count)))


@pytest.fixture
def job(program, driver, inputs, tmp_path):  # noqa: F811
    return lambda name: WritingJob(program, driver, inputs, tmp_path / "job", name)


def check_all(one, name, count, tail=""):
    wrong, codes = [], collections.Counter()
    for how in ("at", "from", "kill"):
        for i, k in enumerate(chosen(count, count + len(how))):
            for earlier in (True, False) if EVERY else [bool(i % 2)]:
                code, fault = one.check(f"{how}={k}{tail}", earlier)
                codes[how, code] += 1
                if fault:
                    change = one.changes()[k - 1] if not fault.startswith("again") else ""
                    wrong.append(f"{how} {k} {change}, {earlier}: {fault}")
    print(f"{name}: {count} changes, exit codes {dict(codes)}, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong[:40])
    return codes


@pytest.mark.parametrize("name", WRITING)
def test_a_change_fails(name, job):
    one = job(name)
    assert one.run("at=0").returncode == 0
    codes = check_all(one, name, len(one.changes()))
    assert codes["kill", KILLED] and codes["from", MACHINE], codes


def test_layers_of_a_measured_network_are_not_written(job):
    """The search of --benchmark builds networks. It crashed if the rounded layers of one could not be saved."""
    one = job("benchmark")
    assert one.run("at=0").returncode == 0
    last = max(k for k, (kind, path, _) in enumerate(one.changes(), 1) if kind == "write" and path.endswith("c.h5.layers"))
    assert one.check(f"at={last}") == (MACHINE, None)


def test_saving_a_checkpoint_fails(job):
    """SIGTERM at the first change: the job saves its checkpoint and ends."""
    one = job("checkpoint")
    assert one.run("at=0,term=1").returncode == INTERRUPTED
    changes = one.changes()
    assert "rename" in {kind for kind, _, _ in changes} and (one.folder / "c.h5").exists(), changes
    codes = check_all(one, "checkpoint, saved", len(changes), ",term=1")
    assert codes["at", MACHINE] and codes["at", INTERRUPTED], codes


@pytest.mark.parametrize("name", WRITING)
def test_synced_before_and_after_the_rename(name, job):
    """The last write to a file is synced before the file is renamed, and its folder is synced after that."""
    one = job(name)
    assert one.run("at=0", earlier=False).returncode == 0
    written, renamed = set(), set()
    for kind, path, target in one.changes():
        full = os.path.normpath(one.folder / path)
        if kind in ("write", "resize"):
            written.add(full)
        if kind == "sync":
            written.discard(full)
            renamed.discard(full)
        if kind == "rename":
            assert full not in written, f"{path} is renamed before it is synced"
            renamed.add(str(pathlib.Path(os.path.normpath(one.folder / target)).parent))
        if kind == "folder" and path.startswith("rep"):
            renamed.add(str(pathlib.Path(full).parent))
    assert not renamed, f"not synced: {renamed}"
