# SPDX-License-Identifier: Apache-2.0
"""Every command that reads data when a process that reads files is killed, crashes, exits or is stopped, at a chosen
step of its work (tests/fail_reader.c counts them).

The command ends with one message and exit code 5 if the process was killed and 3 otherwise, or with the result of an
undisturbed run; an image on which the process dies may be left out with a warning. Each output is as it was
before or complete, and no other file is left.

  QC_FAIL_EVERY=1       every step of every job, instead of a sample
"""

import os
import random
import shlex
import shutil
import struct
import subprocess

import pytest
from conftest import ROOT
from test_failed_allocations import EARLIER, JOBS, TIMES, inputs  # noqa: F401 (inputs is a fixture)

EVERY = os.environ.get("QC_FAIL_EVERY", "")
SAMPLED = 4  # steps of one job, for each way
BAD, MACHINE = 3, 5
WAYS = {"kill": MACHINE, "crash": BAD, "exit": BAD, "stop": BAD}
READING = ["quantize", "stats", "collect", "merge", "run", "eval", "compare", "inspect_data", "pack"]


@pytest.fixture(scope="session")
def shim(program):
    for path in (program.parent / "tests/libfail_reader.so", ROOT / "build/release/tests/libfail_reader.so"):
        if path.exists():
            return path
    return pytest.fail("there is no libfail_reader.so in the build: build the tests")


class ReadingJob:
    def __init__(self, program, shim, inputs, folder, name):  # noqa: F811
        text, self.outputs = JOBS[name]
        self.command = [str(program), *shlex.split(text.format(n=1))]
        self.shim, self.folder, self.report = shim, folder, folder.parent / "report"
        shutil.copytree(inputs, folder)
        for output in self.outputs:
            (folder / output).parent.mkdir(exist_ok=True)
        done = self.run()
        assert done.returncode == 0, done.stderr
        self.out, self.good = TIMES.sub("", done.stdout), self.files()
        self.steps = struct.unpack("qqq", self.report.read_bytes())[0]

    def files(self):
        return {str(p.relative_to(self.folder)): p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}

    def run(self, **failing):
        for output in self.outputs:
            (self.folder / output).write_bytes(EARLIER)
        self.report.write_bytes(bytes(24))
        environment = {f"QC_READER_{k.upper()}": str(v) for k, v in failing.items()}
        return subprocess.run(
            self.command, cwd=self.folder, capture_output=True, text=True, errors="replace", check=False, timeout=100,
            env={**os.environ, "LD_PRELOAD": str(self.shim), "QC_READER_REPORT": str(self.report), **environment})

    def check(self, step, how):
        """Returns the exit code."""
        done = self.run(at=step, how=how)
        where = f"step {step} of {self.steps}, {how}: {done.returncode} {done.stdout} {done.stderr}"
        after = self.files()
        assert set(after) == set(self.good), where
        if done.returncode == 0:
            left_out = "left out" in done.stderr
            assert left_out or TIMES.sub("", done.stdout) == self.out, where
            for name in self.outputs if not left_out else ():
                assert name.endswith((".html", ".json")) or after[name] == self.good[name], where
            return 0
        lines = done.stderr.splitlines()
        assert done.returncode == WAYS[how] and lines[-1].startswith("qcalib: "), where
        assert all("warning" in line for line in lines[:-1]), where
        assert all(after[name] in (EARLIER, self.good[name]) for name in self.outputs), where
        return done.returncode


@pytest.mark.parametrize("name", READING)
def test_reader_ends(name, program, shim, inputs, tmp_path):  # noqa: F811
    job = ReadingJob(program, shim, inputs, tmp_path / "job", name)
    assert job.steps > 5
    seen = set()
    for how in WAYS:
        steps = range(1, job.steps + 1)
        sampled = [1, *random.Random(f"{name} {how}").sample(steps[1:], min(SAMPLED, job.steps) - 1)]
        chosen = steps if EVERY else sampled
        seen |= {(how, job.check(step, how)) for step in chosen}
    print(f"{name}: {job.steps} steps, each with {len(WAYS)} ways; {sorted(seen)}")
    assert name == "pack" or {how for how, code in seen if code} == set(WAYS)
    assert job.run().returncode == 0


@pytest.mark.parametrize("file", ["digits_calib.h5", "s.h5"])
def test_no_uninitialised_byte_is_sent(file, program, qcalib, examples, tmp_path):
    """Valgrind knows which bytes of a question were never written, such as the padding of a struct."""
    valgrind = shutil.which("valgrind")
    if not valgrind:
        pytest.fail("there is no valgrind: scripts/setup --test")
    shutil.copy(examples / "digits_calib.h5", tmp_path)
    qcalib("collect", "--data", "digits_calib.h5", "--samples", "8", examples / "digits_cnn.onnx", "-o", "s.h5")
    command = [valgrind, "-q", "--error-exitcode=9", program, "inspect", file]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "uninitialised" not in done.stderr, done.stderr
