# SPDX-License-Identifier: Apache-2.0
"""Every allocation of a command fails once, in one run of it: at each one the process is copied, and the copy's fails
(tests/fail_allocations.c, QC_FAIL_WALK). A process with another thread cannot be copied: these allocations are runs of their own.

    walk_allocations.py JOB ...      # jobs of test_failed_allocations.py; all of them with one thread if none is named
    QC_FAIL_RANGE=5000-6000 walk_allocations.py quantize"""

import collections
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 120
MACHINE = 5
KINDS = {"at": "copies", "from": "copies", "reader": "copies of readers", "whole": "copies of readers"}


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
        self.before, self.marks = job.files(), self.marks_of_files()
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
        self.runs, self.codes, self.wrong = collections.Counter(), collections.Counter(), []

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

    def marks_of_files(self, folder=""):
        """What changes with each change of a file."""
        marks = {}
        for entry in os.scandir(self.job.folder / folder):
            if entry.is_dir(follow_symlinks=False):
                marks.update(self.marks_of_files(entry.path))
            else:
                info = entry.stat(follow_symlinks=False)
                marks[entry.path] = info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns
        return marks

    def restore(self):
        """Puts back the files that the last run changed."""
        now = self.job.files()
        for name in now.keys() - self.before.keys():
            (self.job.folder / name).unlink()
        for name, content in self.before.items():
            if now.get(name) != content:
                (self.job.folder / name).unlink(missing_ok=True)  # the job may still write this file, under another name
                (self.job.folder / name).write_bytes(content)
        self.marks = self.marks_of_files()

    def fault(self, status, printed_before=""):
        done = Done(int(status), printed_before + self.out.read_text(errors="replace"), self.err.read_text(errors="replace"))
        changed = self.marks_of_files() != self.marks
        fault = self.job.fault(done, None if changed else self.before)
        if changed:
            self.restore()
        return done.returncode, fault

    def one(self, mode, number):
        """A run of its own."""
        self.ask(mode, number, self.out, self.err)
        while (said := self.answer())[0] != "end":
            pass
        return self.fault(said[1])

    def all(self):
        """(runs by kind, exit codes, faults)."""
        runs, codes, wrong, left = self.runs, self.codes, self.wrong, []
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
            elif said[0] == "fine":
                note(KINDS[said[1]], said[1], int(said[2]), MACHINE, None)
            else:
                code, fault = self.fault(said[2], walked.read_text(errors="replace"))
                if fault or said[0] != "whole":
                    note(KINDS[said[0]], said[0], int(said[1]), code, fault)
                self.ask("on")
        end = Done(int(said[1]), walked.read_text(errors="replace"), pathlib.Path(f"{self.err}.walk").read_text(errors="replace"))
        fault = self.job.fault(end)  # what the walk itself left
        self.restore()
        if fault or end.returncode:
            wrong.append(("walk", "", 0, fault))
        again = [w for w in wrong if w[0] != "walk" and w[1] != "whole"]
        wrong[:] = [w for w in wrong if w not in again]
        for kind, mode, number, fault in again:
            code, of_run = self.one(mode, number)
            note("runs again", mode, number, code, of_run)
            if not of_run:  # a reading process counts too, and in a run its allocation of this number can fail first
                wrong.append((kind, mode, number, fault))
        for number in left:
            for mode in ("at", "from"):
                note("runs", mode, number, *self.one(mode, number))
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
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a walk that is ended tells how far it came
        for name in sys.argv[1:] or t.JOBS:
            at = folder / name
            (at / "job").mkdir(parents=True)
            job = t.Job(program, shim, inputs, at / "job", name, 1)
            begun, cpu = time.time(), sum(os.times()[:4])
            walk = Walk(job)
            ended = ""
            try:
                runs, codes, wrong = walk.all()
            except KeyboardInterrupt:
                runs, codes, wrong, ended = walk.runs, walk.codes, walk.wrong, ", interrupted"
                walk.server.kill()
            walk.close()
            print(f"{name}{ended}: {dict(runs)}, exit codes {dict(codes)}, {len(wrong)} wrong, {sum(os.times()[:4]) - cpu:.0f} s of processor time,"
                  f" {time.time() - begun:.0f} s", flush=True)
            for kind, mode, number, fault in wrong[:20]:
                print(f"  {kind} {mode} {number}: {fault}", flush=True)
            failed = failed or bool(wrong or ended)
            if ended:
                break
    return failed


if __name__ == "__main__":
    sys.exit(main())
