# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the end-to-end tests: the program, the shipped example, the real data, and an old and a new ONNX Runtime.

QCALIB       the program; build/release/qcalib when unset
QCALIB_DATA  folder with real models and data; tests that ask for `data` are skipped when it is unset
QCALIB_LONG  set: also tests marked `nightly`, which take minutes or gigabytes (scripts/test --long)
QCALIB_ORT_CPU  a processor of qemu-x86_64 (Haswell): ONNX Runtime runs there, emulated (avx2_runtime.py)
"""

import fcntl
import json
import os
import pathlib
import subprocess
import sys

import avx2_runtime
import numpy as np
import pytest
import report_schema

avx2_runtime.install()  # before a test imports anything from onnxruntime
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts"))  # measured_models
LONG = "QCALIB_LONG" in os.environ
PYTHONS = {"newest": pathlib.Path(sys.executable), "1.16": ROOT / "build/venv/ort116/bin/python"}


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "bad_input: damaged or hostile input; scripts/test runs these with sanitizers too"
    )
    config.addinivalue_line("markers", "integers: jobs have --prefer integers, since small networks are faster in float")
    config.addinivalue_line("markers", "nightly: minutes or gigabytes; scripts/test --long runs these")


STARTS = {}  # of a module: its random generators and their states before any test


def pytest_collection_modifyitems(items):
    for module in {item.module for item in items}:
        generators = [v for v in vars(module).values() if isinstance(v, np.random.Generator)]
        STARTS[module] = [(g, g.bit_generator.state) for g in generators]
    if LONG:
        return
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(pytest.mark.skip(reason="nightly: QCALIB_LONG is not set (scripts/test --long)"))


@pytest.fixture(autouse=True)
def same_numbers(request):
    """Each test draws the numbers that it draws alone, whichever tests run before it."""
    yield
    for generator, state in STARTS[request.module]:
        generator.bit_generator.state = state


def nightly(*values):
    """A case of parametrize that only scripts/test --long runs."""
    return pytest.param(*values, marks=pytest.mark.nightly)


class Result:
    """What one run of the program did: code, out, err, files left in its folder."""

    def __init__(self, run, folder, before):
        self.code, self.out, self.err = run.returncode, run.stdout, run.stderr
        self.new_files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p not in before)

    @property
    def json(self):
        return json.loads(self.out)


OTHER_COMMANDS = {"check", "collect", "merge", "run", "eval", "compare", "convert", "pack", "inspect", "list", "help"}


def shared_object(made, source, include=ROOT / "include", warnings=("-Wall", "-Wextra", "-Werror")):
    """Compiles a plugin as docs/extending.md says."""
    subprocess.run(["cc", "-std=c17", *warnings, "-shared", "-fPIC", "-I", include, source, "-o", made], check=True)
    return made


def has_sanitizers(program):
    """Whether the program was built with sanitizers."""
    return b"__asan_init" in program.read_bytes()


PROGRAM = ROOT / os.environ.get("QCALIB", "build/release/qcalib")
SANITIZED = PROGRAM.exists() and has_sanitizers(PROGRAM)


@pytest.fixture(scope="session")
def program():
    if not PROGRAM.exists():
        pytest.fail(f"there is no {PROGRAM}; build it first: cmake --preset release && cmake --build --preset release")
    return PROGRAM


@pytest.fixture
def qcalib(program, tmp_path, request):
    """qcalib(ARGUMENT, ..., code=0) runs the program in a folder of the test's own and checks its exit code. With the mark
    `integers` its jobs have --prefer integers, since small networks are faster in float."""
    integers = request.node.get_closest_marker("integers")

    def run(*arguments, code=0, timeout=600, folder=tmp_path, **environment):
        arguments = [*map(str, arguments)]
        named = "quantize" in arguments[:1]
        given = any(a.startswith(("--data", "--stats")) for a in arguments)
        is_job = named or (given and arguments[0] not in OTHER_COMMANDS)
        if is_job and not any("--advice" in a for a in arguments):
            arguments.insert(named, "--advice=off")  # tests of it ask for it; the others need not wait
        if is_job and integers and not any("--prefer" in a for a in arguments):
            arguments.insert(named, "--prefer=integers")
        before = set(folder.rglob("*"))
        env = {**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1", **environment}
        done = subprocess.run(
            [str(program), *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=env,
            stdin=subprocess.DEVNULL,
            errors="replace",
            check=False,
        )
        result = Result(done, folder, before)
        shown = f"qcalib {' '.join(arguments)}\nexit {result.code}\n{result.out}\n{result.err}"
        assert "Sanitizer" not in result.err and "runtime error:" not in result.err, shown
        assert code is None or result.code == code, shown
        for name in result.new_files:
            if name.endswith("report.json"):
                report_schema.check(json.loads((folder / name).read_text()))
        return result

    return run


@pytest.fixture(scope="session")
def once(tmp_path_factory):
    """once(NAME, MAKE): a file that MAKE(path) writes, made by the first process of the run that asks for it; the others wait for it."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "once"
    shared.mkdir(exist_ok=True)

    def make(name, maker):
        path = shared / name
        with open(shared / f"{name}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                maker(path.with_name(f"new.{name}"))
                path.with_name(f"new.{name}").rename(path)
        return path

    return make


@pytest.fixture(scope="session")
def examples():
    return ROOT / "datasets"


@pytest.fixture(scope="session")
def data():
    folder = os.environ.get("QCALIB_DATA")
    if not folder or not pathlib.Path(folder).is_dir():
        pytest.skip("QCALIB_DATA does not name the folder with real models")
    return pathlib.Path(folder)


WARNINGS = 2  # log_severity_level


class Runtime:
    """ONNX Runtime in a Python of its own."""

    def __init__(self, name, python):
        self.name, self.python = name, python

    def run(self, model, feeds, folder, *entries):
        """feeds {input: array, first axis = sample}; entries: KEY=VALUE of the session's configuration. Returns ({output: array}, the runtime's warnings and errors as text)."""
        worker = avx2_runtime.worker(self.python, avx2_runtime.emulated())
        pairs = [tuple(e.split("=")) for e in entries]
        try:
            outputs = worker.ask("run_file", str(model), feeds, pairs, 32, WARNINGS)
        except avx2_runtime.RuntimeFailed as error:
            pytest.fail(f"onnxruntime {self.name} does not run {model}:\n{error}\n{worker.stderr()}")
        return outputs, worker.stderr()


@pytest.fixture(params=list(PYTHONS))
def onnxruntime(request):
    """The newest ONNX Runtime, then 1.16."""
    python = PYTHONS[request.param]
    if not python.exists():
        pytest.skip(f"no Python with onnxruntime {request.param} (scripts/test makes it where a wheel exists)")
    return Runtime(request.param, python)
