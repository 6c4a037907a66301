# SPDX-License-Identifier: Apache-2.0
"""Shows which int8 kernels ONNX Runtime uses, and runs ONNX Runtime with the kernels of x86 without VNNI, which add
pairs of products in 16 bits with saturation.

    outputs = avx2_runtime.run([Job(model, {"x": array}), ...])    # [{output: array}, ...], with the saturating kernels

A processor without VNNI runs the jobs itself; elsewhere `qemu-x86_64 -cpu Haswell` emulates one. A process of pytest starts one process of
ONNX Runtime (runtime_worker.py) and keeps it, since the emulated start takes many seconds.

QCALIB_ORT_CPU=Haswell makes every session of the tests run in such a process: `install` replaces onnxruntime.InferenceSession, and the
class Runtime of conftest.py asks `worker`. `rounding()` is the option of qcalib that has the arithmetic of these sessions."""

import atexit
import builtins
import dataclasses
import os
import pathlib
import pickle
import platform
import select
import shutil
import subprocess
import sys
import tempfile
import types

EMULATOR = "qemu-x86_64"
# QEMU warns of each feature of Haswell that it lacks; none of them matters here.
LACKING = {"Haswell": ",-pcid,-x2apic,-tsc-deadline,-hle,-rtm,-invpcid"}
EXACT = {"avx512_vnni", "avx_vnni", "avx_vnni_int8", "amx_int8"}
PATIENCE = 1800  # seconds for one answer


@dataclasses.dataclass
class Job:
    """A model, its inputs (first axis = sample), entries of the session's configuration, samples per call where the model leaves it open."""

    model: str | pathlib.Path
    feeds: dict
    entries: dict = dataclasses.field(default_factory=dict)
    batch: int = 32


def processor():
    """The int8 kernels that ONNX Runtime takes on this processor: "exact" (VNNI, AMX), "saturating", or "other" (not x86-64, or without AVX2)."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return "other"
    flags = set()
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith("flags"):
            flags = set(line.partition(":")[2].split())
            break
    return "exact" if flags & EXACT else "saturating" if "avx2" in flags else "other"


def emulated():
    """The processor that QCALIB_ORT_CPU names, or None."""
    return os.environ.get("QCALIB_ORT_CPU") or None


def kernels():
    """The int8 kernels of the tests' sessions, as `processor` names them. Every processor that QEMU 7.2 emulates lacks VNNI."""
    return "saturating" if emulated() else processor()


def samples(count, less=32):
    """How many of `count` samples of a real network are run: fewer where the processor is emulated, most of all of float models,
    whose multiply-add QEMU computes without the processor's."""
    return max(1, count // less) if emulated() else count


def skip_if_emulated():
    """For tests of the top-1 of float and quantized models; test_overflow_fix.py compares the outputs of such models on few samples."""
    if emulated():
        import pytest

        pytest.skip("top-1 on all samples takes hours on an emulated processor")


def interpreter(python=sys.executable):
    """The command that runs a Python whose ONNX Runtime is that of the tests' sessions."""
    cpu = emulated()
    return [EMULATOR, "-cpu", cpu + LACKING.get(cpu, ""), str(python)] if cpu else [str(python)]


def rounding():
    """The `--rounding` of qcalib that equals the tests' sessions."""
    return "onnx-avx2" if kernels() == "saturating" else "onnx"


def described():
    """One line: the processor and the kernels that ONNX Runtime takes there, for scripts/test."""
    name = platform.machine()
    if pathlib.Path("/proc/cpuinfo").exists():
        for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    if cpu := emulated():
        name = f"{cpu}, emulated by {EMULATOR}"
    meaning = {
        "exact": "computes int8 products exactly (VNNI or AMX)",
        "saturating": "saturates pairs of int8 products (no VNNI; docs/processors.md)",
        "other": "has kernels for a processor without AVX2",
    }
    return f"{name}; ONNX Runtime {meaning[kernels()]}"


def missing():
    """Why the saturating kernels cannot run here, or None."""
    if processor() == "saturating":
        return None
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"the saturating kernels need Python for x86-64, this is one for {platform.machine()}"
    return None if shutil.which(EMULATOR) else f"there is no {EMULATOR} to emulate a processor without VNNI (qemu-user)"


class RuntimeFailed(Exception):
    """What ONNX Runtime raised in a worker: the class of its exception and the message."""

    def __init__(self, kind, message):
        super().__init__(f"{kind}: {message}")
        self.kind, self.message = kind, message


class Worker:
    """A process of ONNX Runtime; `cpu` names the processor to emulate, None is this one."""

    def __init__(self, python, cpu):
        self.said = tempfile.TemporaryFile()  # its standard error
        to_worker, requests = os.pipe()
        replies, from_worker = os.pipe()
        command = [EMULATOR, "-cpu", cpu + LACKING.get(cpu, "")] if cpu else []
        command += [str(python), str(pathlib.Path(__file__).with_name("runtime_worker.py"))]
        self.process = subprocess.Popen(
            [*command, str(to_worker), str(from_worker)],
            pass_fds=(to_worker, from_worker),
            stdin=subprocess.DEVNULL,
            stdout=self.said,
            stderr=self.said,
            start_new_session=True,  # an interrupt is for pytest, which ends the worker
        )
        os.close(to_worker)
        os.close(from_worker)
        self.requests, self.replies = os.fdopen(requests, "wb"), os.fdopen(replies, "rb")
        self.seen = 0  # bytes of standard error that `stderr` has given
        self.numbers, self.dead = iter(range(sys.maxsize)), []
        self.answer()
        self.stderr()

    def stderr(self):
        """What it has printed since the last call."""
        end = os.fstat(self.said.fileno()).st_size
        text = os.pread(self.said.fileno(), end - self.seen, self.seen) if end > self.seen else b""
        self.seen = end
        return text.decode(errors="replace")

    def answer(self):
        ready, _, _ = select.select([self.replies], [], [], PATIENCE)
        try:
            if not ready:
                raise EOFError("no answer")
            return pickle.load(self.replies)
        except EOFError:
            self.end()
            raise RuntimeError(f"the process of ONNX Runtime ended ({self.process.returncode}):\n{self.stderr()}") from None

    def ask(self, name, *arguments):
        """The result of a function of runtime_worker.py; RuntimeFailed if it raised."""
        dead, self.dead = self.dead, []
        for question in ([("close", (dead,))] if dead else []) + [(name, arguments)]:
            pickle.dump(question, self.requests, protocol=4)
            self.requests.flush()
            good, result = self.answer()
        if not good:
            raise RuntimeFailed(*result)
        return result

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


WORKERS = {}


def worker(python, cpu):
    """The worker of a Python and a processor (as in Worker), started once."""
    key = str(python), cpu
    if key not in WORKERS or WORKERS[key].process.poll() is not None:
        WORKERS[key] = Worker(python, cpu)
        atexit.register(WORKERS[key].end)
    return WORKERS[key]


def run(jobs):
    """The outputs of each job, {name: array}; skips the test where the kernels cannot run. A model that does not load or run is an
    AssertionError with ONNX Runtime's message; `try_run` gives it as a result."""
    results = try_run(jobs)
    for job, result in zip(jobs, results, strict=True):
        assert not isinstance(result, str), f"{job.model}: {result}"
    return results


def saturating_worker():
    """The worker with the saturating kernels; skips the test where they cannot run."""
    if reason := missing():
        import pytest

        pytest.skip(reason)
    return worker(sys.executable, emulated() or (None if processor() == "saturating" else "Haswell"))


def try_run(jobs):
    """As `run`, but what fails has ONNX Runtime's message (a str) as its result."""
    results = []
    for job in jobs:
        try:
            results.append(saturating_worker().ask("run_file", str(job.model), job.feeds, list(job.entries.items()), job.batch, 3))
        except RuntimeFailed as error:
            results.append(str(error))
    return results


def install():
    """With QCALIB_ORT_CPU: replaces InferenceSession and SessionOptions of onnxruntime in this process by ones that ask the worker."""
    if not emulated():
        return
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    class SessionOptions(onnxruntime.SessionOptions):
        """Options that remember what was changed."""

        def __init__(self):
            super().__init__()
            object.__setattr__(self, "changes", [])

        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            self.changes.append((name, (value,)))

        def add_session_config_entry(self, *entry):
            super().add_session_config_entry(*entry)
            self.changes.append(("add_session_config_entry", entry))

        def add_free_dimension_override_by_name(self, *dimension):
            super().add_free_dimension_override_by_name(*dimension)
            self.changes.append(("add_free_dimension_override_by_name", dimension))

    class InferenceSession:
        """A session of the worker."""

        def __init__(self, path_or_bytes, sess_options=None, providers=None, provider_options=None, **more):
            changes = list(sess_options.changes) if sess_options else []
            model = path_or_bytes if isinstance(path_or_bytes, bytes) else os.path.abspath(path_or_bytes)
            more |= {"providers": providers, "provider_options": provider_options}
            self.worker = worker(sys.executable, emulated())
            self.number = next(self.worker.numbers)
            inputs, outputs, self.providers = self.ask("opened", model, changes, more)
            self.arguments = [
                [types.SimpleNamespace(name=name, shape=shape, type=type_) for name, shape, type_ in all_]
                for all_ in (inputs, outputs)
            ]

        def ask(self, name, *arguments):
            try:
                return self.worker.ask(name, self.number, *arguments)
            except RuntimeFailed as error:
                kind = getattr(state, error.kind, None) or getattr(builtins, error.kind, RuntimeError)
                raise kind(error.message) from None
            finally:
                os.write(2, self.worker.stderr().encode())  # a test that reads standard error finds warnings there

        def __del__(self):
            self.worker.dead.append(self.number)

        def run(self, output_names, input_feed):
            return self.ask("run", output_names, input_feed)

        def get_inputs(self):
            return self.arguments[0]

        def get_outputs(self):
            return self.arguments[1]

        def get_providers(self):
            return self.providers

    onnxruntime.InferenceSession, onnxruntime.SessionOptions = InferenceSession, SessionOptions


if __name__ == "__main__":
    print(described())
