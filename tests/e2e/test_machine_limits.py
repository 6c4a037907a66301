# SPDX-License-Identifier: Apache-2.0
"""Every command on a file system that is full, has no more files or is read-only, and under each limit of the shell.

The command gives the result of an undisturbed run, or ends with exit code 5 and one message. Each output is as it was
before or complete, and no other file is left.

  QC_FAIL_EVERY=1       every command and size of the file system, and all values of each limit
"""

import os
import resource
import shlex
import shutil
import subprocess

import pytest
from test_failed_allocations import EARLIER, JOBS, TIMES, inputs  # noqa: F401 (inputs is a fixture)
from test_failed_writes import COLLECT, INTERRUPTED, driver  # noqa: F401 (driver is a fixture)

EVERY = os.environ.get("QC_FAIL_EVERY", "")
MACHINE = 5
PAGE = 4096
WRITING = [name for name, (_, outputs) in JOBS.items() if outputs and (EVERY or name in ("quantize", "collect", "pack"))]
SETUP_FAILED = 99

# In a mount namespace: a file system of a size and a number of files, with links to the inputs and earlier outputs.
SCRIPT = """
cd "$1" && mount -t tmpfs -o "size=$2,nr_inodes=$3" none "$1/disk" && cd disk || exit 98
{ ln -s ../in/* . && mkdir tmp && for o in $OUTPUTS; do mkdir -p "$(dirname $o)" && cp ../earlier $o; done; } 2>../setup || exit 99
[ "$4" = rw ] || mount -o remount,ro none "$1/disk" || exit 98
shift 4
code=0
TMPDIR=$PWD/tmp "$@" >../out 2>../err || code=$?
rm -rf ../after && mkdir ../after && find . -type f >../files && cp -r --parents $OUTPUTS ../after
[ ! -f c.h5 ] || cp c.h5 ../after
exit $code
"""


@pytest.fixture(scope="module")
def namespace():
    done = subprocess.run(["unshare", "-rm", "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")


def is_one_message(text):
    lines = text.splitlines()
    return lines[-1].startswith("qcalib: ") and all(line.startswith("qcalib: warning: ") for line in lines[:-1])


class DiskJob:
    def __init__(self, inputs, folder, command, outputs, code=0):  # noqa: F811
        self.command, self.outputs, self.folder = command, outputs, folder
        shutil.copytree(inputs, folder / "in")
        (folder / "disk").mkdir()
        (folder / "earlier").write_bytes(EARLIER)
        assert self.run("64m", 1000) == code, (folder / "err").read_text()
        self.good = self.results()

    def run(self, size, files, mode="rw"):
        return subprocess.run(
            ["unshare", "-rm", "sh", "-c", SCRIPT, "sh", str(self.folder), str(size), str(files), mode, *self.command],
            env={**os.environ, "OUTPUTS": " ".join(self.outputs)}, check=False, timeout=100).returncode

    def results(self):
        return TIMES.sub("", (self.folder / "out").read_text()), {
            name: (self.folder / "after" / name).read_bytes() for name in self.outputs}

    def check(self, *how):
        """Returns the exit code, or None if the file system is too small for what is there at first."""
        code = self.run(*how)
        if code == SETUP_FAILED:
            return None
        where = (how, code, (self.folder / "err").read_text())
        files = {line[2:] for line in (self.folder / "files").read_text().splitlines()}
        assert files == set(self.outputs), where
        out, after = self.results()
        if code == 0:
            assert out == self.good[0], where
        else:
            assert code == MACHINE and is_one_message(where[2]), where
        for name, content in after.items():
            same = content == self.good[1][name] or name.endswith((".html", ".json"))  # these have times
            assert same if code == 0 else content == EARLIER or same, (name, where)
        return code


def chosen(values):
    values = list(values)
    return values if EVERY else values[:: max(1, len(values) // 3)]


@pytest.mark.parametrize("name", WRITING)
def test_full_disk(name, namespace, program, inputs, tmp_path):  # noqa: F811
    text, outputs = JOBS[name]
    job = DiskJob(inputs, tmp_path, [str(program), *shlex.split(text.format(n=1))], outputs)
    smallest = next(n for n in range(1, 1000) if job.check(n * PAGE, 1000) is not None)
    enough = next(n for n in range(10) if job.check((smallest << n) * PAGE, 1000) == 0)
    codes = [job.check(n * PAGE, 1000) for n in chosen(range(smallest, smallest << enough))]
    assert MACHINE in codes or enough == 0
    least = next(n for n in range(1, 1000) if job.check("64m", n) is not None)
    counts = [job.check("64m", n) for n in chosen(range(least, least + 12))]
    assert MACHINE in counts and job.check("64m", 1000) == 0
    print(f"{name}: {len(codes)} sizes from {smallest} pages, {codes.count(MACHINE)} refused; {counts.count(MACHINE)} "
          "numbers of files refused")
    assert job.check("64m", 1000, "ro") == MACHINE


def test_full_disk_when_a_checkpoint_is_saved(namespace, program, driver, inputs, tmp_path):  # noqa: F811
    """SIGTERM after the first sample. The checkpoint is whole, and the job goes on from it, or there is none, and a message."""
    command = [str(driver), "at=0,term=1", str(tmp_path / "report"), str(program), *shlex.split(COLLECT)]
    job = DiskJob(inputs, tmp_path, command, ["out.h5"], INTERRUPTED)
    good = tmp_path / "good"
    shutil.copytree(inputs, good)
    subprocess.run([str(program), *shlex.split(COLLECT)], cwd=good, check=True, capture_output=True)
    smallest = next(n for n in range(1, 1000) if job.run(n * PAGE, 1000) != SETUP_FAILED)
    codes = {}
    for pages in chosen(range(smallest, smallest + 32)):
        code = job.run(pages * PAGE, 1000)
        where = (pages, code, error := (tmp_path / "err").read_text())
        files = {line[2:] for line in (tmp_path / "files").read_text().splitlines()}
        codes[code] = codes.get(code, 0) + 1
        assert (tmp_path / "after/out.h5").read_bytes() == EARLIER, where
        if code == MACHINE:
            assert files == {"out.h5"} and is_one_message(error), where
            continue
        assert code == INTERRUPTED and files == {"out.h5", "c.h5"}, where
        again = tmp_path / f"again{pages}"
        shutil.copytree(inputs, again)
        shutil.copy(tmp_path / "after/c.h5", again)
        subprocess.run([str(program), *shlex.split(COLLECT)], cwd=again, check=True, capture_output=True)
        assert (again / "out.h5").read_bytes() == (good / "out.h5").read_bytes(), where
        assert not list(again.glob("c.h5*")), where
    print(f"checkpoint: sizes from {smallest} pages, exit codes {codes}")
    assert set(codes) == {MACHINE, INTERRUPTED}


KINDS = {
    "AS": [1 << 20, 8 << 20, 32 << 20, 64 << 20, 128 << 20, 256 << 20, 1 << 30],
    "DATA": [0, 1 << 16, 1 << 20, 4 << 20, 16 << 20, 64 << 20],
    "STACK": [0, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 30],
    "NOFILE": [0, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 32],
    "FSIZE": [0, 1, 100, 1000, 4096, 10000, 100000],
    "CPU": [1, 10],
    "CORE": [0],
    "MEMLOCK": [0],
    "RSS": [0, 1 << 20],
    "SIGPENDING": [0],
    "MSGQUEUE": [0],
    "NICE": [0],
    "RTPRIO": [0],
}
LIMITED = ["quantize", "collect", "merge", "run", "pack"] if EVERY else ["quantize"]
# Limits below which the system cannot load a program at all: it is killed or cannot find its libraries.
NOT_STARTED = (-11, -9, -6, 127)


@pytest.mark.parametrize("kind", KINDS)
def test_limits_of_the_shell(kind, program, inputs, tmp_path):  # noqa: F811
    which = getattr(resource, f"RLIMIT_{kind}")
    codes = {}
    for name in LIMITED:
        text, outputs = JOBS[name]
        folder = tmp_path / name
        shutil.copytree(inputs, folder)
        command = [str(program), *shlex.split(text.format(n=2))]
        for output in outputs:
            (folder / output).parent.mkdir(exist_ok=True)
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        good = {output: (folder / output).read_bytes() for output in outputs}
        before = set(folder.rglob("*"))
        for value in chosen(KINDS[kind]):
            for output in outputs:
                (folder / output).write_bytes(EARLIER)
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, check=False, timeout=100,
                preexec_fn=lambda v=value: resource.setrlimit(which, (v, resource.getrlimit(which)[1])))
            where = (name, kind, value, done.returncode, done.stderr)
            assert set(folder.rglob("*")) == before, where
            started = subprocess.run(
                [command[0], "--version"], capture_output=True, check=False,
                preexec_fn=lambda v=value: resource.setrlimit(which, (v, resource.getrlimit(which)[1])))
            codes.setdefault(done.returncode, 0)
            codes[done.returncode] += 1
            for output in outputs:
                same = (folder / output).read_bytes() == good[output] or output.endswith((".html", ".json"))
                assert same if done.returncode == 0 else same or (folder / output).read_bytes() == EARLIER, where
            if done.returncode in NOT_STARTED and started.returncode in NOT_STARTED:
                continue
            assert done.returncode in (0, MACHINE), where
            assert done.returncode == 0 or is_one_message(done.stderr), where
    print(f"{kind}: exit codes {codes}")


def processor_time(command, folder):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_"))}
    subprocess.run(command, cwd=folder, env=environment, check=True,
                   preexec_fn=lambda: os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2]))  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_waiting_threads_sleep(program, tmp_path, examples):
    """As many threads as processors: libgomp's threads would spin for 3 ms after every loop."""
    job = [program, "-q", "--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx", "--no-report"]
    seconds = {t: min(processor_time([*job, "--threads", str(t)], tmp_path) for _ in range(4)) for t in (1, 2)}
    assert seconds[2] < 2 * seconds[1] + 0.02, seconds
