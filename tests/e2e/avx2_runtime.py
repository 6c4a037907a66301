# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime with the int8 kernels of x86 without VNNI, which add pairs of products in 16 bits with saturation.

    outputs = avx2_runtime.run([Job(model, {"x": array}), ...], tmp_path)    # [{output: array}, ...]

A processor without VNNI runs the jobs itself; elsewhere `qemu-x86_64 -cpu Haswell` emulates one. All jobs share one
process, since the emulated start takes many seconds. `processor()` says which int8 kernels ONNX Runtime takes natively.
The child process imports nothing but onnxruntime and numpy."""

import dataclasses
import pathlib
import pickle
import platform
import shutil
import subprocess
import sys

EMULATOR = "qemu-x86_64"
# QEMU warns of each feature of Haswell that it lacks; none of them matters here.
PROCESSOR = "Haswell,-pcid,-x2apic,-tsc-deadline,-hle,-rtm,-invpcid"
EXACT = {"avx512_vnni", "avx_vnni", "avx_vnni_int8", "amx_int8"}


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


def missing():
    """Why the saturating kernels cannot run here, or None."""
    if processor() == "saturating":
        return None
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"the saturating kernels need Python for x86-64, this is one for {platform.machine()}"
    return None if shutil.which(EMULATOR) else f"there is no {EMULATOR} to emulate a processor without VNNI (qemu-user)"


def run(jobs, folder, timeout=1800):
    """The outputs of each job, {name: array}; skips the test where the kernels cannot run. A model that does not load or run is an
    AssertionError with ONNX Runtime's message; `try_run` gives it as a result."""
    results = try_run(jobs, folder, timeout)
    for job, result in zip(jobs, results, strict=True):
        assert not isinstance(result, str), f"{job.model}: {result}"
    return results


def try_run(jobs, folder, timeout=1800):
    """As `run`, but what fails has ONNX Runtime's message (a str) as its result."""
    if reason := missing():
        import pytest

        pytest.skip(reason)
    given, taken = pathlib.Path(folder) / "avx2_jobs.pickle", pathlib.Path(folder) / "avx2_results.pickle"
    plain = [(str(job.model), job.feeds, job.entries, job.batch) for job in jobs]
    given.write_bytes(pickle.dumps(plain))
    emulated = [] if processor() == "saturating" else [EMULATOR, "-cpu", PROCESSOR]
    done = subprocess.run(
        [*emulated, sys.executable, __file__, str(given), str(taken)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, f"onnxruntime without VNNI:\n{done.stdout}\n{done.stderr}"
    results = pickle.loads(taken.read_bytes())
    given.unlink()
    taken.unlink()
    return results


def run_one(onnxruntime, numpy, model, feeds, entries, batch):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    options.intra_op_num_threads = 1
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    count = min(len(v) for v in feeds.values())
    fixed = [i.shape[0] for i in session.get_inputs() if i.shape and isinstance(i.shape[0], int)]
    step = fixed[0] if fixed else batch
    starts = range(0, count - count % step if fixed else count, step)
    parts = [session.run(names, {n: v[s : s + step] for n, v in feeds.items()}) for s in starts]
    return {n: numpy.concatenate([p[i] for p in parts]) for i, n in enumerate(names)}


def child(given, taken):
    import numpy
    import onnxruntime

    results = []
    for job in pickle.loads(pathlib.Path(given).read_bytes()):
        try:
            results.append(run_one(onnxruntime, numpy, *job))
        except Exception as error:  # the caller decides what a model that does not run means
            results.append(f"{type(error).__name__}: {error}")
    pathlib.Path(taken).write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    child(*sys.argv[1:])
