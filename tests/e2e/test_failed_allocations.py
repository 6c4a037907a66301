# SPDX-License-Identifier: Apache-2.0
"""Every command when memory runs out: allocation number k fails, once or from then on. Exit 5 and one word, or exit 0 with what it gives
otherwise; an earlier output is as it was or replaced by a whole one, and no other file appears.

  QC_FAIL_EVERY=1  every k of every job (scripts/test --long), instead of a sample of the places that ask for memory
  QC_FAIL_EVERY=n  every n-th
"""
import array
import os
import random
import re
import subprocess

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

f32 = np.float32
MACHINE = 5
SAMPLED = 12  # of the places of one job with one number of threads
EARLIER = b"what was there before"
EVERY = int(os.environ.get("QC_FAIL_EVERY", "0"))


def save_model(path):
    """x [N,2,6,6] -> Conv, Relu, Add, Sigmoid, MaxPool, Gemm, Softmax [N,3]: products, a merge, a table, moved elements, a float op."""
    rng = np.random.default_rng(2)
    constants = {"w": rng.normal(size=(2, 2, 3, 3)), "b": rng.normal(size=2), "v": rng.normal(size=(3, 18)) / 4, "c": rng.normal(size=3)}
    graph = helper.make_graph([
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["conv"], ["relu"], name="relu"),
        helper.make_node("Add", ["relu", "x"], ["sum"], name="sum"),
        helper.make_node("Sigmoid", ["sum"], ["curve"], name="curve"),
        helper.make_node("MaxPool", ["curve"], ["pool"], name="pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pool"], ["flat"], name="flat"),
        helper.make_node("Gemm", ["flat", "v", "c"], ["logits"], name="gemm", transB=1),
        helper.make_node("Softmax", ["logits"], ["y"], name="softmax")],
        "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3])],
        [numpy_helper.from_array(a.astype(f32), name) for name, a in constants.items()])
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString())


@pytest.fixture(scope="session")
def shim(program):
    path = program.parent / "tests/libfail_allocations.so"
    if not path.exists():
        pytest.fail(f"there is no {path}: build the tests")
    return path


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
    for arguments in ("-q --data d.h5 m.onnx --no-report -o q.onnx", "collect -q --data d.h5 m.onnx -o s.h5", "collect -q --data e.h5 m.onnx -o t.h5"):
        subprocess.run([str(program), *arguments.split()], cwd=folder, check=True)
    return folder


# What is run, and the files it writes; {n} is the number of threads.
JOBS = {
    "quantize": ("--threads {n} --data d.h5 --eval e.h5 m.onnx -o out.onnx --report rep",
                 ["out.onnx", "rep/report.html", "rep/report.json", "rep/layers.csv"]),
    "stats": ("--stats s.h5 m.onnx --no-report -o out.onnx", ["out.onnx"]),
    "collect": ("collect --threads {n} --data d.h5 m.onnx -o out.h5", ["out.h5"]),
    "merge": ("merge s.h5 t.h5 -o out.h5", ["out.h5"]),
    "run": ("run --threads {n} q.onnx --data d.h5 -o out.h5", ["out.h5"]),
    "eval": ("eval --threads {n} m.onnx q.onnx --data e.h5 --json", []),
    "compare": ("compare --threads {n} m.onnx q.onnx --data d.h5", []),
    "convert": ("convert q.onnx --format qoperator -o out.onnx", ["out.onnx"]),
    "inspect": ("inspect m.onnx", []),
    "inspect_data": ("inspect s.h5", []),
    "list": ("list ops", []),
    "help": ("help quantize", []),
}
TIMES = re.compile(r'[0-9.]+ s\b|"[a-z_]*(seconds|per_second)[a-z_]*": *[-+0-9.e]+|[0-9]+ samples/s|[0-9.]+$', re.M)


class Job:
    def __init__(self, program, shim, inputs, folder, name, threads):
        text, self.outputs = JOBS[name]
        self.command = [str(program), *text.format(n=threads).split()]
        self.folder, self.report, self.shim = folder, folder.parent / "report", shim
        for path in inputs.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())
        for output in self.outputs:
            (folder / output).parent.mkdir(exist_ok=True)
        self.before = self.files()
        done = self.run()
        assert done.returncode == 0, done.stderr
        self.out, self.good = self.printed(done), self.files()
        self.numbers = None

    def files(self):
        return {str(p.relative_to(self.folder)): p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}

    @staticmethod
    def printed(done):
        return TIMES.sub("", done.stdout)

    def run(self, **failing):
        for output in self.outputs:
            (self.folder / output).write_bytes(EARLIER)
        environment = {**os.environ, **{f"QC_FAIL_{k.upper()}": str(v) for k, v in failing.items()}}
        if failing:
            environment["LD_PRELOAD"] = str(self.shim)
        return subprocess.run(self.command, cwd=self.folder, env=environment, capture_output=True, text=True, errors="replace", timeout=60,
                              stdin=subprocess.DEVNULL, check=False)

    def places(self, **kind):
        """The hash of the call stack of each allocation, in order."""
        assert self.run(report=self.report, **kind).returncode == 0
        numbers = array.array("Q")
        with open(self.report, "rb") as file:
            numbers.frombytes(file.read(8))
            count = numbers.pop()
            numbers.frombytes(file.read(8 * count))
        return list(numbers)

    def whole(self, name, content):
        if name.endswith((".json", ".html")):  # has times in it
            return content[-8:] == self.good[name][-8:]
        return content == self.good[name]

    def check(self, **failing):
        """One run; returns what is wrong with it, or None."""
        done = self.run(**failing)
        word = done.stderr.splitlines()
        if done.returncode not in (0, MACHINE):
            return f"exit {done.returncode}: {done.stderr[-300:]}"
        if done.returncode == MACHINE and not (word and all(line.startswith(("qcalib: ", "libgomp: ", "terminate called", "  what():")) for line in word)):
            return f"exit 5 and {done.stderr[-300:]!r}"
        if done.returncode == 0 and self.printed(done) != self.out:
            return f"exit 0 and other words: {done.stdout[-300:]}"
        after = self.files()
        if set(after) != set(self.good):
            return f"files: {set(after) ^ set(self.good)}, exit {done.returncode}"
        for name, content in after.items():
            if name in self.outputs and done.returncode == MACHINE and content == EARLIER:
                continue
            if not self.whole(name, content):
                return f"{name} is damaged, exit {done.returncode}"
        return None


def chosen(places, seed):
    """Which numbers fail: one of each place, of these some; or every n-th of all."""
    if EVERY:
        return range(seed % EVERY + 1, len(places) + 1, EVERY)
    rng = random.Random(seed)
    first = {}
    for number, place in enumerate(places, 1):
        first.setdefault(place, number)
    return sorted(rng.sample(sorted(first.values()), min(SAMPLED, len(first))))


CASES = [(name, threads) for name, (text, _) in JOBS.items() for threads in ((1, 2) if "{n}" in text else (1,))]


@pytest.mark.parametrize("name,threads", CASES, ids=[f"{name}-{threads}" for name, threads in CASES])
def test_memory(name, threads, program, shim, inputs, tmp_path):
    (tmp_path / "job").mkdir()
    job = Job(program, shim, inputs, tmp_path / "job", name, threads)
    places = job.places()
    assert places
    wrong, runs = [], 0
    for k in chosen(places, len(places)):
        for mode in ("at", "from") if EVERY else [("at", "from")[runs % 2]]:
            runs += 1
            fault = job.check(**{mode: k})
            if fault:
                wrong.append(f"{mode} {k}: {fault}")
    print(f"{name}, {threads} threads: {len(places)} allocations, {len(set(places))} places, {runs} runs, {len(wrong)} wrong")
    assert not wrong, "\n".join(wrong[:40])
