# SPDX-License-Identifier: Apache-2.0
"""Rows of scripts/benchmark for layers of one shape: steps of qcalib's integer interpreter compared with the nodes of
ONNX Runtime's profile, one thread, interleaved. Run as a program it prints them, and every layer with --all:
scripts/benchmark_layers.py PROGRAM BENCH_PLAN DATA_FOLDER [ROUNDS] [--all], in the environment of scripts/benchmark;
`cmake --build --preset release --target bench_plan` builds BENCH_PLAN."""
import collections
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime as ort

from measured_models import BY_NAME, Data, run_measured

MODELS = ("resnet20_cifar10", "resnet8_cifar10_mlperf", "mobilenetv1_075_224_imagenet", "dscnn_kws_mlperf",
          "superres_pytorch", "rfb320_face_simplified")
RUNS = 10  # in a round
CAPS = {"all": None, "up to AVX-512 VNNI": "avx512_vnni"}  # instructions that qcalib may use
LAYERS = ("Conv", "Gemm", "Add", "AveragePool", "GlobalAveragePool", "MaxPool")
Layer = collections.namedtuple("Layer", "what seconds")


class Ours:
    """The program bench_plan, which answers each line with the seconds of all steps."""

    def __init__(self, bench, graph, sample, cap):
        self.process = subprocess.Popen([bench, graph, "--steps", "--in", sample], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **({"QCALIB_MAX_CPU_ISA": cap} if cap else {})})

    def steps(self):
        """Returns (seconds, kernel, detail, operator, value, dims of each operand...) of each step, as text."""
        self.process.stdin.write(f"{RUNS}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()
        return [line.rstrip("\n").split("\t") for line in iter(self.process.stdout.readline, "\n")]

    def __call__(self):
        """Returns {value: Layer}. Steps that reorder the input of a layer count for the layer."""
        layers = {}
        for seconds, _, detail, op, value, *dims in self.steps():
            before = layers.get(value, Layer("", 0)).seconds
            layers[value] = Layer(describe(op, detail, dims), before + float(seconds) / RUNS)
        return layers

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def describe(op, detail, dims):
    first, out = dims[0].split("x"), dims[-1].split("x")
    size = "x".join(out[2:])
    if op == "Conv":
        w = dims[1].split("x")
        kind = "depthwise" if "depthwise" in detail else "conv"
        return f"{kind} {'x'.join(w[2:])}, {first[1]} to {out[1]}, {'x'.join(first[2:])} to {size}"
    return f"{op} {dims[0]}" + ("" if op == "Add" else f" to {dims[-1]}")


def profiled(path, feed):
    """Returns a function that runs RUNS times, and one that ends it and returns {value: [seconds of each run]}."""
    model = onnx.load(path)
    for node in model.graph.node:
        node.name = node.output[0]
    onnx.save(model, path)
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_profiling, options.profile_file_prefix = True, str(path.with_suffix(""))
    session = ort.InferenceSession(path, options)
    feed = {session.get_inputs()[0].name: feed}

    def end():
        file, took, moved = pathlib.Path(session.end_profiling()), collections.defaultdict(list), 0
        for event in json.loads(file.read_text()):
            if event.get("cat") != "Node" or not event["name"].endswith("_kernel_time"):
                continue
            if event["args"]["op_name"] == "Transpose":  # counts for the layer that reads it, as in qcalib
                moved += event["dur"]
                continue
            name = re.sub(r"(_token_\d+)?(_nhwc)?_kernel_time$", "", event["name"])
            took[name].append((event["dur"] + moved) * 1e-6)
            moved = 0
        file.unlink()
        return took

    return lambda: [session.run(None, feed) for _ in range(RUNS)], end


def shapes_of(program, bench, data, name, rounds, folder):
    """Returns for each of CAPS {shape: [qcalib, ONNX Runtime, layers]}: sums over all layers of that shape."""
    model, path, graph = BY_NAME[name], folder / f"{name}.onnx", folder / f"{name}.ir"
    run_measured([program, "-q", "--no-report", "--method", "mse", "--weight-rounding", "nearest", "--advice", "off",
                  "-o", path, "--dump", f"realise={graph}", *model.options(data)])
    feed = Data(data / model.calib, model.preprocess, 1).inputs
    np.ascontiguousarray(feed).tofile(folder / "sample")
    ours, (run, end) = [Ours(bench, graph, folder / "sample", cap) for cap in CAPS.values()], profiled(path, feed)
    for one in (*ours, run):
        one()
    seen = []
    for _ in range(rounds):
        seen.append([one() for one in ours])
        run()
    for one in ours:
        one.close()
    theirs, result = end(), []
    for k in range(len(CAPS)):
        shapes = collections.defaultdict(lambda: [0, 0, 0])
        for value, layer in seen[0][k].items():
            if value in theirs and layer.what.split()[0] in (*LAYERS, "conv", "depthwise"):
                pair = statistics.median(s[k][value].seconds for s in seen), statistics.median(theirs[value])
                shapes[layer.what] = [a + b for a, b in zip(shapes[layer.what], (*pair, 1))]
        result.append(shapes)
    return result


def layer_rows(program, bench, data, rounds, every=False):
    """Returns a row for each model and cap: speed ratios of all layers, the median shape and the slowest shapes."""
    with tempfile.TemporaryDirectory() as folder:
        for name in MODELS:
            for cap, shapes in zip(CAPS, shapes_of(program, bench, data, name, rounds, pathlib.Path(folder))):
                ratios = {what: b / a for what, (a, b, _) in shapes.items()}
                lowest = sorted((r, what) for what, r in ratios.items())
                ours, theirs = (sum(s[i] for s in shapes.values()) for i in (0, 1))
                for what, (a, b, count) in shapes.items() if every else ():
                    print(f"{1e6 * a / count:8.1f} us, {1e6 * b / count:8.1f} us, {b / a:5.2f}  {count} x {what}")
                yield [name, cap, f"{len(shapes)}", f"{theirs / ours:.2f}", f"{statistics.median(ratios.values()):.2f}",
                       f"{sum(r < 1 for r in ratios.values())}", "; ".join(f"{r:.2f}: {w}" for r, w in lowest[:2])]


HEAD = ["model", "instructions", "shapes", "all layers", "median shape", "slower shapes", "the lowest two"]


def main():
    program, bench, data = map(pathlib.Path, sys.argv[1:4])
    every = "--all" in sys.argv
    rounds = [int(a) for a in sys.argv[4:] if a != "--all"]
    for row in layer_rows(program, bench, data, rounds[0] if rounds else 5, every):
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
