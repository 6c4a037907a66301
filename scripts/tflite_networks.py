#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the table of docs/tflite-export.md: `--format tflite` of real networks in TensorFlow Lite's reference interpreter.

  QCALIB_DATA=FOLDER build/venv/tflite/bin/python scripts/tflite_networks.py [--wide] [NETWORK ...]

--wide: 16-bit activations. Every sample runs in the interpreter and in `qcalib run --rounding tflite`."""

import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests/tflite"))

import h5py
import numpy as np

from test_tflite_export import NETWORKS, ROOT, channels_last, command, inputs_of, operators, quantized
from tflite_model import RUNTIME, Interpreter, OpResolverType

SAMPLES = 256


def top1(program, folder, model, data, options):
    said = command(program, folder, "eval", model, "--data", data, *options)
    found = re.search(r"\.onnx +([\d.]+) %", said)
    return f"{found.group(1)} %" if found else ""


def differing(program, folder, content, data, options):
    """Samples, numbers that differ, and all numbers."""
    plain = "none" in options
    command(program, folder, "run", "model.int8.onnx", "--data", data, "--samples", str(SAMPLES), "--rounding", "tflite", *options, "-o", "out.h5")
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    runner = interpreter.get_signature_runner("serving_default")
    ((name, detail),) = runner.get_input_details().items()
    with h5py.File(data) as file, h5py.File(folder / "out.h5") as wanted:
        values = inputs_of(file[name], SAMPLES, plain)
        different = count = 0
        for i, x in enumerate(values):
            for output, y in runner(**{name: np.ascontiguousarray(channels_last(x[None], detail["shape"]))}).items():
                different += np.count_nonzero(y != channels_last(wanted[output][i : i + 1], y.shape))
                count += y.size
    return len(values), different, count


def row(program, network, data, wide):
    options = ["--preprocess", "none"] if network.plain else []
    more = ["--activation-type", "int16", "--symmetric=activations,weights"] if wide else []
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        (folder / "model.onnx").symlink_to(data / "models" / f"{network.name}.onnx")
        content = quantized(program, folder, "model.onnx", data / network.calibration, *options, *more)
        samples, different, count = differing(program, folder, content, data / network.data, options)
        accuracy = [""] * 3
        if network.top1 or network.labelled:
            accuracy[0] = top1(program, folder, "model.int8.onnx", data / network.data, ["--rounding", "tflite", *options])
            accuracy[1] = f"{network.top1} %" if network.top1 else ""
            accuracy[2] = top1(program, folder, "model.onnx", data / network.data, options)
        own = f"{(data / 'tflite' / (network.reference + '.tflite')).stat().st_size:,}" if network.reference else ""
        transposes = operators(content).count("TRANSPOSE")
    cells = [f"`{network.name}`", samples, f"{different} of {count:,}", transposes, f"{len(content):,}", own, *accuracy]
    return "| " + " | ".join(map(str, cells)) + " |"


def main():
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    program, data = ROOT / os.environ.get("QCALIB", "build/release/qcalib"), pathlib.Path(os.environ["QCALIB_DATA"])
    print(f"{RUNTIME}, reference kernels", file=sys.stderr)
    print("| model | samples | numbers that differ | TRANSPOSE | bytes | TensorFlow's own file | top-1 | TensorFlow's own | float |")
    print("|---|---|---|---|---|---|---|---|---|")
    for network in NETWORKS:
        if not names or network.name in names:
            print(row(program, network, data, "--wide" in sys.argv), flush=True)


if __name__ == "__main__":
    main()
