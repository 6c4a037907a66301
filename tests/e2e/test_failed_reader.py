# SPDX-License-Identifier: Apache-2.0
"""Every command that reads data when a process that reads files is killed, crashes, exits or is stopped, at a chosen
step of its work (tests/fail_reader.c counts them).

The command ends with one message and exit code 5 if the process was killed and 3 otherwise, or with the result of an
undisturbed run; an image on which the process dies may be left out with a warning. Each output is as it was
before or complete, and no other file is left.

  QC_FAIL_EVERY=1       every step of every job, instead of a sample
"""

import collections
import contextlib
import os
import pathlib
import random
import shlex
import shutil
import signal
import struct
import subprocess
import time

import pytest
from conftest import ROOT
from image_files import picture
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


def state_of(pid):
    """The letter of proc(5), X for a process that has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def children_of(pid):
    return [int(child) for task in pathlib.Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()]


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
        self.written = [self.out, *(self.good[n] for n in self.outputs if not n.endswith((".html", ".json")))]
        self.steps = struct.unpack("qqqq", self.report.read_bytes())[0]

    def files(self):
        return {str(p.relative_to(self.folder)): p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}

    def start(self, **failing):
        for output in self.outputs:
            (self.folder / output).write_bytes(EARLIER)
        self.report.write_bytes(bytes(32))
        environment = {f"QC_READER_{k.upper()}": str(v) for k, v in failing.items()}
        return subprocess.Popen(
            self.command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
            env={**os.environ, "LD_PRELOAD": str(self.shim), "QC_READER_REPORT": str(self.report), **environment})

    @staticmethod
    def end(process):
        out, err = process.communicate(timeout=100)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def run(self, **failing):
        return self.end(self.start(**failing))

    def run_with_pause(self, step, meanwhile):
        """The reader and then the program are stopped at this step, and go on after meanwhile(): the program first."""
        process = self.start(at=step, how="pause")
        while process.poll() is None and not (stopped := [pid for pid in children_of(process.pid) if state_of(pid) == "T"]):
            time.sleep(0.001)
        if process.returncode is not None:  # a job can have a step less than the last time
            return self.end(process)
        process.send_signal(signal.SIGSTOP)
        while state_of(process.pid) != "T":
            time.sleep(0.001)
        meanwhile()
        process.send_signal(signal.SIGCONT)
        time.sleep(0.05)
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        return self.end(process)

    def put_clock_forward(self):
        with open(self.report, "r+b") as file:
            file.seek(24)
            file.write(struct.pack("q", 10 * 60000))

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


@pytest.mark.parametrize("name", READING)
def test_a_stopped_job_goes_on(name, program, shim, inputs, tmp_path):  # noqa: F811
    """Ctrl-Z, or a scheduler that suspends jobs: the time until SIGCONT is not the time that a file takes to be read. The job said
    that the file is damaged."""
    job = ReadingJob(program, shim, inputs, tmp_path / "job", name)
    steps = range(1, job.steps + 1)
    for step in steps if EVERY else random.Random(name).sample(steps, min(12, job.steps)):
        done = job.run_with_pause(step, job.put_clock_forward)
        where = f"step {step} of {job.steps}: {done.returncode} {done.stdout} {done.stderr}"
        assert done.returncode == 0 and TIMES.sub("", done.stdout) == job.out, where
        after = job.files()
        assert set(after) == set(job.good), where
        assert all(after[n] == job.good[n] for n in job.outputs if not n.endswith((".html", ".json"))), where


# What another program does with a file that a job reads.
CHANGES = {
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "emptied": lambda path: os.truncate(path, 0),
    "rewritten": lambda path: path.write_bytes((path.parent / OTHER[path.name]).read_bytes()),
    "replaced": lambda path: os.replace(shutil.copy(path.parent / OTHER[path.name], path.parent / "new"), path),
    "removed": lambda path: path.unlink(),
    "longer": lambda path: path.write_bytes(path.read_bytes() + bytes(5000)),
    "damaged": lambda path: path.write_bytes(path.read_bytes()[::-1]),
}
OTHER = {"d.h5": "e.h5", "e.h5": "d.h5", "s.h5": "t.h5", "t.h5": "s.h5", "b.jpg": "b2.jpg"}
CHANGED = {"stats": "s.h5", "merge": "t.h5", "eval": "e.h5", "inspect_data": "s.h5", "pack": "b.jpg"}


@pytest.mark.parametrize("name", READING)
def test_data_change_meanwhile(name, program, shim, inputs, tmp_path):  # noqa: F811
    """The result is that of the earlier or the later data, or a message says what cannot be read: never that of a mixture."""
    picture(9, 7, 8).save(inputs / "b2.jpg")
    job = ReadingJob(program, shim, inputs, tmp_path / "job", name)
    path = job.folder / CHANGED.get(name, "d.h5")
    earlier, codes = path.read_bytes(), collections.Counter()

    def written(done):
        return [TIMES.sub("", done.stdout), *((job.folder / n).read_bytes() for n in job.outputs if not n.endswith((".html", ".json")))]

    for how, change in CHANGES.items():
        change(path)
        later = written(job.run())
        for step in range(1, job.steps + 1) if EVERY else random.Random(f"{name} {how}").sample(range(1, job.steps + 1), 2):
            path.write_bytes(earlier)
            done = job.run_with_pause(step, lambda change=change: change(path))
            codes[done.returncode] += 1
            where = f"{path.name} {how}, step {step} of {job.steps}: {done.returncode} {done.stdout} {done.stderr}"
            assert set(job.files()) - {path.name} == set(job.good) - {path.name}, where
            if done.returncode == 0 and "left out" not in done.stderr:
                assert written(done) in (job.written, later), where
            elif done.returncode:
                assert done.returncode == BAD and done.stderr.splitlines()[-1].startswith("qcalib: "), where
                assert all((job.folder / n).read_bytes() == EARLIER for n in job.outputs), where
        path.write_bytes(earlier)
    print(f"{name}: {sum(codes.values())} changes, exit codes {dict(codes)}")
    assert codes[BAD], codes


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
