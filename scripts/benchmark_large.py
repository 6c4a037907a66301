# SPDX-License-Identifier: Apache-2.0
"""Rows of scripts/benchmark for models of real sizes (scripts/large_models.py). Run as a program it prints them:
scripts/benchmark_large.py PROGRAM FOLDER [ROUNDS [NAME...]], in the environment of scripts/benchmark."""
import pathlib
import statistics
import sys

import h5py

from large_models import LARGE, chain, make, resnet18
from measured_models import run_measured

# Samples are read one at a time, as by qcalib. The time is that of the call, without the start of Python.
QUANTIZE_STATIC = """
import logging, sys, time
import numpy as np
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
logging.disable(logging.CRITICAL)

class Reader(CalibrationDataReader):
    def __init__(self):
        self.samples = iter(np.load(sys.argv[2], mmap_mode="r"))
    def get_next(self):
        x = next(self.samples, None)
        return None if x is None else {"x": np.array(x)[None]}

begin = time.perf_counter()
quantize_static(sys.argv[1], sys.argv[3], Reader(), quant_format=QuantFormat.QDQ, per_channel=True,
                activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8, calibrate_method=CalibrationMethod.MinMax)
print(time.perf_counter() - begin)
"""
NEAREST = ("--weight-rounding", "nearest", "--bias-correction", "off")


def ours(program, folder, model, data, *options):
    """Returns (seconds of the whole process, peak bytes)."""
    return run_measured([program, "-q", "--no-report", "-o", folder / "large.onnx", "--data", data, *options,
                         model])[1:]


def ratio(values):
    values = sorted(values)
    return f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})"


def large_rows(program, folder, rounds, names=tuple(LARGE)):
    """Compares whole jobs with ONNX Runtime's min-max quantizer, with peak memory divided by the size of the model."""
    for name in names:
        model, data = make(*LARGE[name], folder)
        size, runs = model.stat().st_size, []
        for k in range(rounds):
            out, _, peak = run_measured([sys.executable, "-c", QUANTIZE_STATIC, model, data, folder / "peer.onnx"])
            runs.append({"theirs": (float(out.split()[-1]), peak),
                         "one": ours(program, folder, model, data, "--threads", 1),
                         "two": ours(program, folder, model, data, "--threads", 2),
                         "nearest": ours(program, folder, model, data, "--threads", 2, "--method", "kl",
                                     "--advice", "off", *NEAREST)})
            print(f"{name}, round {k + 1}: {runs[-1]}", file=sys.stderr, flush=True)
        middle = lambda what, i: statistics.median(r[what][i] for r in runs)
        yield [name, f"{size / 1e6:.0f}", f"{middle('theirs', 0):.2f}",
               *[f"{middle(w, 0):.2f}, {ratio(r[w][0] / r['theirs'][0] for r in runs)}"
                 for w in ("one", "two", "nearest")],
               *[f"{middle(w, 1) / size:.1f}" for w in ("one", "two", "theirs")]]


def groups(folder, depth):
    """Writes a file of nested groups."""
    path = folder / f"groups_{depth}.h5"
    with h5py.File(path, "w") as f:
        at = f
        for _ in range(depth):
            at = at.create_group("g")
        at["x"] = [0.0]
    return path


def part(what, pairs):
    return [what, *[f"{statistics.median(p[i] for p in pairs):.2f}" for i in (0, 1)], ratio(b / a for a, b in pairs)]


def part_rows(program, folder, rounds):
    """Returns ratios of cost that must stay small: for work that grows only with the model, and for options that must
    not cost more than others."""
    chains = {n: make(chain, 4, folder, n) for n in (300, 600)}
    shape = make(resnet18, 40, folder)
    cases = [(f"--propagate, chain of {n} convolutions", *chains[n], (), ("--propagate",)) for n in chains]
    cases.append(("mse:norm=3 over norm=2, ResNet-18-shaped", *shape, ("--method", "mse", *NEAREST),
                  ("--method", "mse:norm=3", *NEAREST)))
    nested = [[program, "inspect", groups(folder, n)] for n in (250, 500)]
    pairs = [[run_measured(command)[1] for command in nested] for _ in range(rounds)]
    yield part("inspect, 250 and 500 HDF5 groups in each other (more than 512 are refused)", pairs)
    for what, model, data, before, after in cases:
        pairs = [[ours(program, folder, model, data, "--threads", 1, *o)[0] for o in (before, after)]
                 for _ in range(rounds)]
        yield part(what, pairs)


HEADS = {"large": ["model", "MB", "ONNX Runtime, s", "1 thread, s and ratio", "2 threads",
                   "2 threads, `kl`, nearest, no advice",
                   "peak over model, 1 thread", "2 threads", "ONNX Runtime"],
         "parts": ["what", "before, s", "after, s", "ratio"]}


def main():
    program, folder = map(pathlib.Path, sys.argv[1:3])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    for row in large_rows(program, folder, rounds, sys.argv[4:] or tuple(LARGE)):
        print("| " + " | ".join(row) + " |", flush=True)
    for row in part_rows(program, folder, rounds):
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
