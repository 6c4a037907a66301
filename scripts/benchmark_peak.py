# SPDX-License-Identifier: Apache-2.0
"""Measures which share of the peak multiply-add rate the integer kernels reach, for each instruction set:
scripts/benchmark_peak.py PROGRAM BENCH_PLAN BENCH_PEAK DATA_FOLDER [ROUNDS] [--all], in the environment of
scripts/benchmark; `cmake --build --preset release --target bench_plan bench_peak` builds the two programs.

The peak is the rate of the multiply-add instructions on registers alone (tests/bench/bench_peak.c). Layers are those
with more than a million multiply-adds, except depthwise ones, which do not use these instructions. The time of a layer
includes padding and the conversion of sums to bytes. The bound of a layer is its share of the peak if products ran at the
peak, with channels filled up to blocks of 16, and sums became bytes at the rate of a loop in the first-level cache. With
AMX both run side by side, so the longer of them counts. --all prints every layer."""
import collections
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np

from benchmark_layers import MODELS, RUNS, Ours, describe
from measured_models import BY_NAME, Data, run_measured

LEAST, AIM = 1_000_000, 0.6
BLOCK = 16  # channels
HEAD = ["instructions", "operands", "peak, 10^9 a second", "sums to bytes, 10^9 a second", "layers", "all layers",
        "median layer", "its bound", "layers below 0.6", "of them with a bound above 0.6", "the lowest two of these"]
Layer = collections.namedtuple("Layer", "what operands products results filled seconds")


class Steps(Ours):
    """bench_plan, with only the integer products among the layers."""

    def __call__(self):
        layers = {}
        for seconds, kernel, detail, op, value, *dims in self.steps():
            words = detail.split()
            if kernel not in ("int_conv", "int_product") or "depthwise" in words:
                continue
            weights, out = ([int(d) for d in dims[i].split("x")] for i in (1, -1))
            terms = np.prod(weights[1:]) if op == "Conv" else np.prod(weights) / out[-1]
            if (products := int(terms * np.prod(out))) > LEAST:
                channels = out[1] if op == "Conv" else out[-1]
                layers[value] = Layer(describe(op, detail, dims), (words[0], words[1]), products, int(np.prod(out)),
                                      -(-channels // BLOCK) * BLOCK / channels, float(seconds) / RUNS)
        return layers


def peaks(bench):
    """Returns {(instructions, operands): products per second}."""
    lines = subprocess.run([bench], check=True, capture_output=True, text=True).stdout.splitlines()
    return {(isa, operands): 1e9 * float(rate) for isa, operands, rate in (line.split("\t") for line in lines)}


def bound(layer, top):
    """The part of the peak that a layer can reach."""
    peak, rate = top[layer.operands], top.get((layer.operands[0], "bytes"), np.inf)
    terms = layer.filled * layer.products / peak, layer.filled * layer.results / rate
    return layer.products / peak / (max(terms) if layer.operands[0] == "amx_int8" else sum(terms))


def layers_of(program, bench, data, name, cap, rounds, folder):
    """Returns the layers of a model, each with its minimum seconds over all rounds."""
    model, path, graph = BY_NAME[name], folder / f"{name}.onnx", folder / f"{name}.ir"
    if not graph.exists():
        run_measured([program, "-q", "--no-report", "--method", "mse", "--weight-rounding", "nearest", "--advice",
                      "off", "-o", path, "--dump", f"realise={graph}", *model.options(data)])
        np.ascontiguousarray(Data(data / model.calib, model.preprocess, 1).inputs).tofile(folder / f"{name}.sample")
    steps = Steps(bench, graph, folder / f"{name}.sample", cap)
    steps()
    seen = [steps() for _ in range(rounds)]
    steps.close()
    return [layer._replace(seconds=min(s[value].seconds for s in seen)) for value, layer in seen[0].items()]


def peak_rows(program, bench, peak, data, rounds, every=False):
    """Returns a row for each instruction set and kind of operands: the share of the peak that layers reach."""
    top = peaks(peak)
    with tempfile.TemporaryDirectory() as folder:
        for isa in dict.fromkeys(isa for isa, _ in top):
            found = collections.defaultdict(list)
            for name in MODELS:
                for layer in layers_of(program, bench, data, name, isa, rounds, pathlib.Path(folder)):
                    if layer.operands in top:  # layers too small for an AMX tile are computed and counted with VNNI
                        found[layer.operands].append(layer)
            for key, layers in found.items():
                if key[0] != isa:
                    continue
                parts = sorted((n.products / n.seconds / top[key], bound(n, top), n.what) for n in layers)
                for part, most, what in parts if every else ():
                    print(f"{part:6.2f} of {most:.2f}  {' '.join(key)}  {what}")
                everything = sum(n.products for n in layers) / sum(n.seconds for n in layers) / top[key]
                low = [p for p in parts if p[0] < AIM]
                open_ones = [p for p in low if p[1] > AIM]
                rate = top.get((isa, "bytes"))
                yield [*key, f"{top[key] / 1e9:.0f}", f"{rate / 1e9:.1f}" if rate else "", f"{len(layers)}",
                       f"{everything:.2f}", *[f"{statistics.median(p[i] for p in parts):.2f}" for i in (0, 1)],
                       f"{len(low)}", f"{len(open_ones)}",
                       "; ".join(f"{p:.2f} of {m:.2f}: {w}" for p, m, w in open_ones[:2])]


def main():
    program, bench, peak, data = map(pathlib.Path, sys.argv[1:5])
    rounds = [int(a) for a in sys.argv[5:] if a != "--all"]
    print("| " + " | ".join(HEAD) + " |")
    for row in peak_rows(program, bench, peak, data, rounds[0] if rounds else 5, "--all" in sys.argv):
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
