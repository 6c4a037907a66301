# SPDX-License-Identifier: Apache-2.0
"""Every command when memory runs out: allocation k fails, once or from then on. The exit code is 5 with a message, or 0
with the usual result. An existing output is unchanged or replaced by a complete one, and no other file appears.

  QC_FAIL_EVERY=1       every k of every job (scripts/test --long), instead of a sample of the places that ask for memory; with one
                        thread by copies of a running job (walk_allocations.py)
  QC_FAIL_EVERY=n       every n-th
  QC_FAIL_EVERY=places  the first k of every place
  QC_FAIL_EVERY=own     every k that is our own code's, not a library's
  QC_FAIL_NETWORK=NAME  another of NETWORKS, for the commands that it passes through

A program under sanitizers has nothing between it and its libraries: there only what our own code asks for fails.
"""

import array
import collections
import json
import os
import random
import re
import resource
import subprocess

import h5py
import numpy as np
import onnx
import onnx.checker
import onnx.parser
import pytest
import walk_allocations
from conftest import ROOT, SANITIZED
from image_files import picture
from onnx import numpy_helper

pytestmark = pytest.mark.bad_input
f32 = np.float32
MACHINE = 5
SAMPLED = 16  # of the places of one job with one number of threads; fewer where sanitizers make it slow
EARLIER = b"what was there before"
EVERY = os.environ.get("QC_FAIL_EVERY", "")
NAME = "tests/libfail_allocations.so"


# x [N,2,6,6] -> y [N,3]. The first has products, a merge, a table, moved elements and a float operator.
NETWORKS = {
    "convolutional": """
        conv = Conv <pads = [1, 1, 1, 1]> (x, w, b) relu = Relu (conv) sum = Add (relu, x) curve = Sigmoid (sum)
        pool = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (curve) flat = Flatten (pool) logits = Gemm <transB = 1> (flat, v, c)
        y = Softmax (logits)""",
    "attention": """
        rows = Reshape (x, shape) q = MatMul (rows, wq) k = MatMul (rows, wk) t = Transpose <perm = [0, 2, 1]> (k) s = MatMul (q, t)
        p = Softmax <axis = 2> (s) r = MatMul (rows, wr) a = MatMul (p, r) h = Add (a, rows) n = LayerNormalization <axis = -1> (h, g, d)
        m = ReduceMean <axes = [1], keepdims = 0> (n) y = MatMul (m, wy)""",
    "recurrent": """
        rows = Reshape (x, shape) steps = Transpose <perm = [1, 0, 2]> (rows) all, last, cell = LSTM <hidden_size = 4> (steps, wl, rl)
        flat = Reshape (last, states) y = MatMul (flat, wo)""",
}
NETWORK = os.environ.get("QC_FAIL_NETWORK", "convolutional")
CONSTANTS = {
    **{"w": (2, 2, 3, 3), "b": (2,), "v": (3, 18), "c": (3,)},
    **{"wq": (6, 4), "wk": (6, 4), "wr": (6, 6), "g": (6,), "d": (6,), "wy": (6, 3)},
    **{"wl": (1, 16, 6), "rl": (1, 16, 4), "wo": (4, 3)},
}


def save_model(path):
    rng = np.random.default_rng(2)
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> g (float[N, 2, 6, 6] x) => (float[N, 3] y) {{ {NETWORKS[NETWORK]} }}')
    constants = {name: (rng.normal(size=s) / (4 if name == "v" else 1)).astype(f32) for name, s in CONSTANTS.items()}
    constants |= {"shape": np.int64([-1, 12, 6]), "states": np.int64([-1, 4])}
    for node in model.graph.node:
        node.name = node.output[0]
    read = {i for node in model.graph.node for i in node.input}
    model.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in constants.items() if name in read)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())


@pytest.fixture(scope="session")
def shim(program):
    """The library that makes allocations fail; that of the release build for a program under sanitizers."""
    for path in (program.parent / NAME, ROOT / "build/release" / NAME):
        if path.exists():
            return path
    return pytest.fail(f"there is no {NAME} in the build: build the tests")


def is_guarded(program, shim):
    """Whether the program has its own malloc, exit and abort between it and its libraries, as all but those under sanitizers do."""
    return shim.is_relative_to(program.parent)


@pytest.fixture
def guarded(program, shim):
    if not is_guarded(program, shim):
        pytest.skip("a program under sanitizers has the sanitizer's allocator")


@pytest.fixture(scope="module")
def inputs(program, tmp_path_factory):
    """A folder with what the jobs read."""
    folder = tmp_path_factory.mktemp("inputs")
    save_model(folder / "m.onnx")
    rng = np.random.default_rng(1)
    for name in ("d", "e"):
        with h5py.File(folder / f"{name}.h5", "w") as file:
            file["x"] = rng.normal(size=(4, 2, 6, 6)).astype(f32)
            file["labels"] = np.arange(4) % 3
    np.savez_compressed(folder / "d.npz", x=np.asfortranarray(rng.normal(size=(4, 2, 6, 6))), words=np.array(["a"]))
    for i, name in enumerate(("a.png", "b.jpg", "c.webp")):
        picture(9, 7, i).save(folder / name)
    (folder / "c.json").write_text(
        '{"prefer": "integers", "propagate": true, "sensitivity": true, "equalize": "on", "per-channel": "activations,weights", "method": "output"}'
    )
    for arguments in (
        "-q --prefer integers --data d.h5 m.onnx --no-report -o q.onnx",
        "collect -q --data d.h5 m.onnx -o s.h5",
        "collect -q --data e.h5 m.onnx -o t.h5",
    ):
        subprocess.run([str(program), *arguments.split()], cwd=folder, check=True)
    return folder


# What is run, and the files it writes; {n} is the number of threads.
JOBS = {
    "quantize": (
        "--prefer integers --threads {n} --data d.h5 --eval e.h5 m.onnx -o out.onnx --report rep",
        ["out.onnx", "rep/report.html", "rep/report.json", "rep/layers.csv"],
    ),
    "wide": (
        "--config c.json --threads {n} --data d.h5 --eval e.h5 m.onnx -o out.onnx --report rep",
        ["out.onnx", "rep/report.html", "rep/report.json", "rep/layers.csv"],
    ),
    "stats": ("--threads {n} --stats s.h5 --target vitis m.onnx --no-report -o out.onnx", ["out.onnx"]),
    "collect": ("collect --threads {n} --data d.h5 m.onnx -o out.h5", ["out.h5"]),
    "merge": ("merge s.h5 t.h5 -o out.h5", ["out.h5"]),
    "run": ("run --threads {n} q.onnx --data d.h5 -o out.h5", ["out.h5"]),
    "eval": ("eval --threads {n} m.onnx q.onnx --data e.h5 --json", []),
    "compare": ("compare --threads {n} m.onnx q.onnx --data d.h5 --html page.html", ["page.html"]),
    "convert": ("convert q.onnx --format qoperator -o out.onnx", ["out.onnx"]),
    "forms": ("--threads {n} --stats s.h5 m.onnx --target integers --activation-type int8 --symmetric --no-report --format mnn,trt-cache", ["m.mnn.json", "m.trt.cache"]),
    "inspect": ("inspect m.onnx", []),
    "inspect_data": ("inspect s.h5", []),
    "arrays": ("run --threads {n} q.onnx --data d.npz -o out.h5", ["out.h5"]),
    "pack": ("pack --threads {n} a.png b.jpg c.webp --image crop=4 --preprocess imagenet -o out.h5", ["out.h5"]),
    "list": ("list ops", []),
    "help": ("help quantize", []),
}
TIMES = re.compile(r'[0-9.]+ s\b|"[a-z_]*(seconds|per_second)[a-z_]*": *[-+0-9.e]+|[0-9]+ samples/s|[0-9.]+$', re.M)


class Job:
    EARLIER = EARLIER
    def __init__(self, program, shim, inputs, folder, name, threads):
        text, self.outputs = JOBS[name]
        self.command = [str(program), *text.format(n=threads).split()]
        self.folder, self.report = folder, folder.parent / "report"
        self.environment = {"LD_PRELOAD": str(shim)}
        self.guarded = is_guarded(program, shim)
        if not self.guarded:
            self.environment |= {
                "ASAN_OPTIONS": "allocator_may_return_null=1:verify_asan_link_order=0",
                "QC_FAIL_OURS": "1",
            }
        for path in inputs.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        for output in self.outputs:
            (folder / output).parent.mkdir(exist_ok=True)
        done = self.run()
        assert done.returncode == 0, done.stderr
        self.out, self.good = self.printed(done), self.files()

    def files(self):
        return {str(p.relative_to(self.folder)): p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}

    @staticmethod
    def printed(done):
        return TIMES.sub("", done.stdout)

    def run(self, space=None, **failing):
        """The job with QC_FAIL_... as told, or with so many bytes of address space."""

        def limit():
            if space:
                resource.setrlimit(resource.RLIMIT_AS, (space, space))

        for output in self.outputs:
            (self.folder / output).write_bytes(EARLIER)
        environment = {
            **os.environ,
            **(self.environment if failing else {}),
            **{f"QC_FAIL_{k.upper()}": str(v) for k, v in failing.items()},
        }
        return subprocess.run(
            self.command,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            stdin=subprocess.DEVNULL,
            preexec_fn=limit if space else None,
            check=False,
        )

    def places(self, **kind):
        """The hash of the call stack of each allocation, in order."""
        done = self.run(report=self.report, **kind)
        assert done.returncode == 0, done.stderr
        numbers = array.array("Q")
        with open(self.report, "rb") as file:
            numbers.frombytes(file.read(8))
            count = numbers.pop()
            numbers.frombytes(file.read(8 * count))
        return list(numbers)

    def whole(self, name, content):
        if not name.endswith(".json"):
            return content == self.good[name]
        try:
            report = json.loads(content)
        except ValueError:
            return False
        return {**report, "timing": 0} == {**json.loads(self.good[name]), "timing": 0}

    def check(self, **failing):
        """One run; returns its exit code and what is wrong with it, or None."""
        done = self.run(**failing)
        return done.returncode, self.fault(done)

    def fault(self, done, after=None):
        """after: files(), if the caller knows them."""
        lines = done.stderr.splitlines()
        if done.returncode not in (0, MACHINE) or "Sanitizer" in done.stderr or "runtime error:" in done.stderr:
            return f"exit {done.returncode}: {done.stderr[-1500:]}"
        if done.returncode == MACHINE and (not lines or not lines[-1].startswith("qcalib: ")):
            return f"exit 5 and {done.stderr[-300:]!r}"
        if done.returncode == 0 and self.printed(done) != self.out:
            return f"exit 0 and other words: {done.stdout[-300:]}"
        after = self.files() if after is None else after
        if set(after) != set(self.good):
            return f"files: {set(after) ^ set(self.good)}, exit {done.returncode}"
        for name, content in after.items():
            earlier = name in self.outputs and done.returncode == MACHINE and content == EARLIER
            if not earlier and not self.whole(name, content):
                return f"{name} is damaged, exit {done.returncode}"
        return None

    def check_all(self, title, numbers, **kind):
        """Runs with each number failing; in a sample the two modes take turns."""
        wrong, codes = [], collections.Counter()
        for i, k in enumerate(numbers):
            for mode in ("at", "from") if EVERY else [("at", "from")[i % 2]]:
                code, fault = self.check(**kind, **{mode: k})
                codes[code] += 1
                if fault:
                    wrong.append(f"{mode} {k}: {fault}")
        print(f"{title}: exit codes {dict(codes)}, {len(wrong)} wrong")
        assert not wrong, "\n".join(wrong[:40])
        return codes


def chosen(places, seed, sampled=SAMPLED):
    """Which numbers fail: some of the places, half of them where our own code asks, or as QC_FAIL_EVERY says."""
    first = {}
    for number, place in enumerate(places, 1):
        first.setdefault(place, number)
    if EVERY == "places":
        return sorted(first.values())
    if EVERY == "own":
        return [number for number, place in enumerate(places, 1) if place & 1]
    if EVERY:
        return range(seed % int(EVERY) + 1, len(places) + 1, int(EVERY))
    sides = [sorted(number for place, number in first.items() if place & 1 == own) for own in (0, 1)]
    return sorted(k for side in sides for k in random.Random(seed).sample(side, min(sampled // 2, len(side))))


# With sanitizers only two threads: their places include almost all of one thread's.
THREADS = (2,) if SANITIZED and not EVERY else (1, 2)
CASES = [(name, threads) for name, (text, _) in JOBS.items() for threads in (THREADS if "{n}" in text else (1,))]


@pytest.fixture
def job(program, shim, inputs, tmp_path):
    def make(name, threads):
        (tmp_path / "job").mkdir()
        return Job(program, shim, inputs, tmp_path / "job", name, threads)

    return make


def every_allocation(one, name):
    walk = walk_allocations.Walk(one)
    runs, codes, wrong = walk.all()
    walk.close()
    print(f"{name}: {dict(runs)}, exit codes {dict(codes)}, {len(wrong)} wrong")
    assert not wrong, "\n".join(map(str, wrong[:40]))
    assert codes[MACHINE]
    return runs


def test_every_allocation_of_a_small_command(job, guarded):
    """The copies of a running job: each allocation fails once alone and once with all later ones."""
    one = job("inspect", 1)
    runs = every_allocation(one, "inspect")
    assert runs["copies"] > 300 and not runs["runs"], runs


def test_a_copy_that_damages_a_file_is_found(job, guarded):
    one = job("list", 1)
    one.environment["QC_FAIL_DAMAGE"] = "m.onnx"
    one.good["m.onnx"] = b"what the job should have left"
    walk = walk_allocations.Walk(one)
    runs, _, wrong = walk.all()
    walk.close()
    assert runs["copies"] == runs["runs again"] > 10 and "m.onnx is damaged" in wrong[1][3], (runs, wrong)


@pytest.mark.nightly
def test_labels_are_not_left_out(job, guarded):
    """The report has the classes of the samples: labels that cannot be bound for want of memory end the job. They are bound here."""
    one = job("quantize", 1)
    count = len(one.places())
    one.environment["QC_FAIL_RANGE"] = f"{count * 14 // 100}-{count * 17 // 100}"
    assert every_allocation(one, "quantize")["copies"] > 600


@pytest.mark.parametrize("name,threads", CASES, ids=[f"{name}-{threads}" for name, threads in CASES])
def test_memory(name, threads, job):
    one = job(name, threads)
    if EVERY == "1" and threads == 1 and one.guarded:
        every_allocation(one, name)
        return
    places = one.places()
    title = f"{name}, {threads} threads: {len(places)} allocations, {len(set(places))} places"
    assert one.check_all(title, chosen(places, len(places), SAMPLED if one.guarded else 8))[MACHINE]


def test_a_record_that_is_not_whole(job, guarded):
    """Advice reads the record of the job. The program crashed if a part of it had no memory, or wrote a report without a suggestion.
    Allocations about the middle of the job make the record; some of our own fail."""
    one = job("quantize", 1)
    places = one.places()
    own = [k for k, place in enumerate(places, 1) if place & 1 and 0.49 < k / len(places) < 0.53]
    assert set(one.check_all("record", own[::4])) <= {0, MACHINE}


@pytest.mark.parametrize("name", ["quantize", "eval"])
def test_threads(name, job, guarded):
    """A thread that is refused is done without or told."""
    one = job(name, 2)
    places = one.places(kind="thread")
    assert places
    one.check_all(f"{name}, threads: {len(places)}", range(1, len(places) + 1), kind="thread")


@pytest.mark.parametrize("by", ["exit", "abort"])
def test_library_that_ends_the_program(by, job, guarded):
    one = job("collect", 2)
    assert set(one.check_all(by, chosen(one.places(), 1, 4), by=by)) == {MACHINE}


@pytest.mark.parametrize("name", ["quantize", "run"])
def test_little_address_space(name, job, guarded):
    """The real thing: from too little to load the program to enough."""
    one = job(name, 2)
    most = 1 << 25
    while one.run(space=most).returncode:
        most *= 2
    codes = collections.Counter()
    wrong = []
    least = most // 4  # half may have been enough as well: what threads take differs from run to run
    for part in range(32):
        done = one.run(space=least + (most - least) * part // 32)
        codes[done.returncode] += 1
        if done.returncode == 127 and re.search(
            "loading shared libraries|cannot allocate TLS", done.stderr
        ):  # the loader's
            continue
        fault = one.fault(done)
        if fault:
            wrong.append(fault)
    print(f"{name}: exit codes {dict(codes)}")
    assert not wrong, "\n".join(wrong)
    assert codes[MACHINE]


def test_a_size_no_machine_has_is_the_fault_of_the_file(qcalib, guarded, tmp_path):
    """A continuation of an object header (HDF5 file format, IV.A.2.q) of 2^60 bytes: HDF5 asks for that many."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.ones((4, 2, 6, 6), f32)
        for i in range(8):
            file["x"].attrs[f"attribute {i}"] = np.ones(3)
    whole = bytearray((tmp_path / "x.h5").read_bytes())
    at = whole.index(bytes.fromhex("1000100000000000")) + 16
    whole[at : at + 8] = (1 << 60).to_bytes(8, "little")
    (tmp_path / "x.h5").write_bytes(whole)
    assert "memory allocation failed" in qcalib("inspect", "x.h5", code=3).err
