# SPDX-License-Identifier: Apache-2.0
"""Failures of random graphs (graph_fuzz.py, graph_fuzz_properties.py): they are made smaller and kept, and the seeds of a run recorded."""

import collections
import json
import os
import pathlib
import subprocess
import time

import h5py
import numpy as np
import onnx

from graph_reduce import shrunk

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Failure(Exception):
    """What is wrong: a kind, by which the shrinker knows the same failure again, and the words."""

    def __init__(self, kind, words):
        super().__init__(f"{kind}: {words}")
        self.kind = kind


def cpu():
    """Processor time of this process and of the programs that it ran."""
    return sum(os.times()[:4])


def reduced(failure, model, feeds, check, seconds=15):
    """The shrunken model and inputs."""
    until = cpu() + seconds

    def fails(m, f):
        if not f or cpu() > until:
            return False
        try:
            onnx.checker.check_model(m)
            check(m, f)
        except Failure as again:
            return again.kind == failure.kind
        except Exception:
            return False
        return False

    return shrunk(model, feeds, fails)


def text_of(model):
    """The model as ONNX text, its bulky constants left to the file."""
    return onnx.printer.to_text(model)


def keep(folder, seed, failure, model, feeds, options):
    """Writes what repeats a failure."""
    made = pathlib.Path(folder) / str(seed)
    made.mkdir(parents=True, exist_ok=True)
    onnx.save(model, made / "m.onnx")
    with h5py.File(made / "x.h5", "w") as file:
        for name, arrays in feeds.items():
            file[name] = np.stack(arrays)
    (made / "why.txt").write_text(f"{failure}\noptions: {' '.join(options)}\n{text_of(model)}\n")


def recorded(path, kind, seed, count, run, part=100):
    """Calls run(first, count), which returns (counts, failures as texts), for parts of `count` seeds, and returns the sums. Each part is
    a line of the file `path`. Without a seed the first one follows the last line of this kind; without such a line the clock gives it."""
    file = path and pathlib.Path(path)
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file and file.exists() else []
    known = [line["first"] + line["count"] for line in lines if line["kind"] == kind]
    first = seed if seed is not None else known[-1] if known else int(time.time()) * 1000
    print(f"seed {first}", flush=True)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"], capture_output=True, text=True, check=False).stdout.strip()
    total, failures = collections.Counter(), []
    for at in range(first, first + count, part):
        done, failed = run(at, min(part, first + count - at))
        if done is None:
            break
        total.update(done)
        failures += failed
        if file:
            line = {"kind": kind, "first": at, "count": min(part, first + count - at), "commit": commit, "done": done, "failures": len(failed)}
            with file.open("a") as end:
                print(json.dumps(line), file=end)
    return total, failures
