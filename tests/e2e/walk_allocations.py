# SPDX-License-Identifier: Apache-2.0
"""Every allocation of a command fails once, in one run of it: at each one the process is copied, and the copy's fails
(tests/fail_allocations.c, QC_FAIL_WALK). What cannot be copied (other threads, files being written, processes that read) is a run for
each number.

    walk_allocations.py JOB ...      # jobs of test_failed_allocations.py; all of them with one thread if none is named"""

import collections
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

SECONDS = 120


class Done:
    """The end of a process, as Job.fault reads it."""

    def __init__(self, status, out, err):
        self.returncode = os.waitstatus_to_exitcode(status)
        self.stdout, self.stderr = out, err


class Hangs(Exception):
    pass


class Walk:
    """A job under QC_FAIL_WALK. job: a Job of test_failed_allocations.py."""

    def __init__(self, job):
        self.job = job
        self.out, self.err = (job.folder.parent / name for name in ("printed", "complained"))
        asks, self.to = os.pipe()
        self.of, tells = os.pipe()
        for output in job.outputs:
            (job.folder / output).write_bytes(job.EARLIER)
        self.server = subprocess.Popen(
            job.command,
            cwd=job.folder,
            env={**os.environ, **job.environment, "QC_FAIL_WALK": f"{asks},{tells}", "OMP_WAIT_POLICY": "passive"},
            pass_fds=(asks, tells),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(asks)
        os.close(tells)
        self.rest = b""

    def close(self):
        os.close(self.to)
        self.server.wait()
        os.close(self.of)

    def ask(self, *words):
        os.write(self.to, (" ".join(map(str, words)) + "\n").encode())

    def answer(self):
        while b"\n" not in self.rest:
            if not select.select([self.of], [], [], SECONDS)[0]:
                raise Hangs
            part = os.read(self.of, 1 << 16)
            if not part:
                raise Hangs("it has ended")
            self.rest += part
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode().split()

    def restored(self):
        """Puts back the files that the last run changed; returns whether there were any."""
        changed = False
        for name, content in self.job.files().items():
            path = self.job.folder / name
            if name not in self.job.good:
                path.unlink()
            elif name in self.job.outputs:
                if content != self.job.EARLIER:
                    path.write_bytes(self.job.EARLIER)
                    changed = True
        for name in self.job.outputs:
            if not (self.job.folder / name).exists():
                (self.job.folder / name).write_bytes(self.job.EARLIER)
        return changed

    def fault(self, status, printed_before=""):
        done = Done(int(status), printed_before + self.out.read_text(errors="replace"), self.err.read_text(errors="replace"))
        fault = self.job.fault(done)
        self.restored()
        return done.returncode, fault

    def one(self, mode, number):
        """A run of its own."""
        self.ask(mode, number, self.out, self.err)
        while (said := self.answer())[0] != "end":
            pass
        return self.fault(said[1])

    def all(self):
        """(runs by kind, exit codes, faults)."""
        runs, codes, wrong, left, readers = collections.Counter(), collections.Counter(), [], [], []
        walked = pathlib.Path(f"{self.out}.walk")

        def note(kind, mode, number, code, fault):
            runs[kind] += 1
            codes[code] += 1
            if fault:
                wrong.append((kind, mode, number, fault))

        self.ask("walk", self.out, self.err)
        while (said := self.answer())[0] != "end":
            if said[0] == "skip":
                left.append(int(said[1]))
            elif said[0] == "read":
                readers.append((int(said[1]), int(said[2])))
            else:
                note("copies", said[0], int(said[1]), *self.fault(said[2], walked.read_text(errors="replace")))
                self.ask("on")
        end = Done(int(said[1]), walked.read_text(errors="replace"), pathlib.Path(f"{self.err}.walk").read_text(errors="replace"))
        fault = self.job.fault(end)  # what the walk itself left
        self.restored()
        if fault or end.returncode:
            wrong.append(("walk", "", 0, fault))
        again = [w for w in wrong if w[0] == "copies"]  # only a run of its own counts
        wrong[:] = [w for w in wrong if w[0] != "copies"]
        for _, mode, number, _ in again:
            note("runs again", mode, number, *self.one(mode, number))
        for number in left:
            for mode in ("at", "from"):
                note("runs", mode, number, *self.one(mode, number))
        for first, last in readers:
            for number in range(first, last + 1):
                note("runs of readers", "reader", number, *self.one("reader", number))
        return runs, codes, wrong


def main():
    import test_failed_allocations as t

    program = pathlib.Path(os.environ.get("QCALIB", t.ROOT / "build/release/qcalib")).resolve()
    shim = program.parent / t.NAME
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)

        class Factory:
            def mktemp(self, name):
                (folder / name).mkdir()
                return folder / name

        inputs = t.inputs.__wrapped__(program, Factory())
        failed = False
        for name in sys.argv[1:] or t.JOBS:
            at = folder / name
            (at / "job").mkdir(parents=True)
            job = t.Job(program, shim, inputs, at / "job", name, 1)
            begun, cpu = time.time(), sum(os.times()[:4])
            walk = Walk(job)
            runs, codes, wrong = walk.all()
            walk.close()
            print(f"{name}: {dict(runs)}, exit codes {dict(codes)}, {len(wrong)} wrong, {sum(os.times()[:4]) - cpu:.0f} s of processor time,"
                  f" {time.time() - begun:.0f} s", flush=True)
            for kind, mode, number, fault in wrong[:20]:
                print(f"  {kind} {mode} {number}: {fault}", flush=True)
            failed = failed or bool(wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main())
