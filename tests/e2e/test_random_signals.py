# SPDX-License-Identifier: Apache-2.0
"""Signals of each kind at random moments of a job. Every assertion holds at any moment: a signal that ends the program
leaves each output as it was or complete, and no process; the same command, started again, gives the result of an
undisturbed run. A signal that does not end it changes nothing.

  QC_SIGNALS=500       this many signals, with another seed each time, in place of 24 (QCALIB_LONG: 500)
"""

import collections
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import time

import h5py
import numpy as np
import pytest
from conftest import LONG

COUNT = int(os.environ.get("QC_SIGNALS", "500" if LONG else "24"))
SEED = random.SystemRandom().randrange(1 << 30) if COUNT > 24 else 1
INTERRUPTED = 130
SAVING = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGALRM]  # SIGALRM: it ends without saving
ENDING = [signal.SIGKILL, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGABRT, signal.SIGSEGV]
HARMLESS = [signal.SIGCHLD, signal.SIGWINCH, signal.SIGCONT, signal.SIGURG, signal.SIGPIPE, signal.SIGSTOP]
ALL = SAVING + ENDING + HARMLESS
TEMPORARY = re.compile(r"\.tmp-\d+(-\d+)?(-earlier)?$")
JOBS = {
    "collect": ("collect --threads 2 --data d.h5 m.onnx -q --checkpoint c.h5 -o out.h5", "out.h5"),
    "quantize": ("quantize --threads 2 --data d.h5 m.onnx -q --no-report --checkpoint c.h5 -o out.onnx", "out.onnx"),
    "run": ("run --threads 2 --data d.h5 m.onnx -q -o out.h5", "out.h5"),
}


class Job:
    def __init__(self, program, examples, folder, name):
        text, self.output = JOBS[name]
        self.command, self.folder = [str(program), *text.split()], folder
        folder.mkdir()
        shutil.copy(examples / "digits_cnn.onnx", folder / "m.onnx")
        with h5py.File(examples / "digits_calib.h5") as f, h5py.File(folder / "d.h5", "w") as g:
            g["input"] = np.concatenate([f["input"][()]] * (10 if LONG else 4))
            g["input"].attrs.update(f["input"].attrs)
        self.inputs = set(folder.iterdir())
        self.seconds = min(self.seconds_of_a_run() for _ in range(2))
        self.good = (folder / self.output).read_bytes()

    def start(self):
        return subprocess.Popen(self.command, cwd=self.folder, stderr=subprocess.DEVNULL)

    def seconds_of_a_run(self):
        started = time.monotonic()
        assert self.start().wait() == 0
        return time.monotonic() - started

    def processes(self):
        """Processes in the folder of the job that have not ended."""
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                here = os.readlink(entry / "cwd") == str(self.folder)
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            if here and state not in "ZX":
                found.append(entry.name)
        return found

    def signalled(self, number, moment):
        """Returns the exit code after a signal at this part of the time."""
        (self.folder / self.output).write_bytes(b"earlier")
        process = self.start()
        time.sleep(moment * self.seconds)
        process.send_signal(number)
        if number == signal.SIGSTOP:
            process.send_signal(signal.SIGCONT)
        return process.wait()

    def check(self, number, moment):
        code = self.signalled(number, moment)
        where = f"{signal.Signals(number).name} at {moment:.3f} of {self.seconds:.3f} s: {code}"
        now = (self.folder / self.output).read_bytes()
        left = {p for p in self.folder.iterdir() if p not in self.inputs} - {self.folder / self.output}
        if number in (*SAVING, signal.SIGPIPE):
            # Before the program has set its handlers, the signal ends it as any other does.
            assert code in ((0, INTERRUPTED, -number) if number in SAVING else (0, -number)), where
        else:
            assert code in ((0,) if number in HARMLESS else (0, -number)), where
        assert now == self.good if code == 0 else now in (b"earlier", self.good), where
        allowed = {"c.h5", "c.h5.layers"} if code else set()
        assert all(p.name in allowed or (code < 0 and TEMPORARY.search(p.name)) for p in left), (where, left)
        for _ in range(3000):  # a reader notices that the program is gone when it runs again
            if not self.processes():
                break
            time.sleep(0.01)
        assert not self.processes(), where
        for path in left:
            if path.name not in allowed:
                path.unlink()
        assert self.start().wait() == 0, where
        assert (self.folder / self.output).read_bytes() == self.good, where
        assert set(self.folder.iterdir()) == self.inputs | {self.folder / self.output}, where
        return code


@pytest.mark.parametrize("name", JOBS)
def test_signals_at_random_moments(name, program, examples, tmp_path):
    job = Job(program, examples, tmp_path / "job", name)
    rng = random.Random(f"{SEED} {name}")
    codes = collections.Counter()
    for k in range(-(-COUNT // len(JOBS))):
        if k % len(ALL) == 0:
            numbers = rng.sample(ALL, len(ALL))
        codes[job.check(numbers[k % len(ALL)], rng.random())] += 1
    print(f"{name}, seed {SEED}: {sum(codes.values())} signals, exit codes {dict(sorted(codes.items()))}")
