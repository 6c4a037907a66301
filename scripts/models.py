# SPDX-License-Identifier: Apache-2.0
"""Quantizes every network of scripts/zoo.py with no options and with ONNX Runtime's own quantizer, runs all in ONNX
Runtime, and prints the table of docs/models.md with the default's distance from the best of the methods.

    python scripts/models.py FOLDER PROGRAM [--method NAME]... [--options="OPTIONS"]... [--only GLOB] [--peers FILE] [--openvino]

--method and --options each add a column: the default with that method, or with those options (docs/processors.md:
--options="--overflow-fix off"). --peers FILE keeps the results of ONNX Runtime's quantizer (JSON) and reuses them.
--openvino adds the file of --target openvino in ONNX Runtime and in OpenVINO, whose package this Python then needs. --held N
takes the first N held-out samples."""

import argparse
import concurrent.futures
import contextlib
import fnmatch
import io
import json
import logging
import pathlib
import shlex
import subprocess
import tempfile

import h5py
import measured_models
import numpy as np
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

logging.disable(logging.WARNING)
OPENVINO = "target openvino"
PEERS = {"min-max": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile}


def feeds(path, names):
    with h5py.File(path) as f:
        sets = {n: f[n][:] for n in names}
    return [{n: x[i : i + 1] for n, x in sets.items()} for i in range(len(next(iter(sets.values()))))]


def outputs(model, samples):
    session = measured_models.session(model)
    return [np.concatenate([o.reshape(1, -1) for o in part]) for part in zip(*(session.run(None, s) for s in samples))]


def outputs_in_openvino(model, samples):
    import openvino

    exact = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    compiled = openvino.Core().compile_model(str(model), "CPU", exact)
    parts = [[np.array(v).reshape(1, -1) for v in compiled(s).values()] for s in samples]
    return [np.concatenate(p) for p in zip(*parts)]


class Noise:
    """The noise of a file: for each sample of each output, relative to the output's signal."""

    def __init__(self, reference, model, samples, run=outputs):
        self.shares = []
        for r, x in zip(reference, run(model, samples)):
            r, x = (a.astype(np.float64).reshape(len(samples), -1) for a in (r, x))
            self.shares.append(((r - x) ** 2).sum(1) / (r**2).sum())

    def worst(self):
        return max(self.shares, key=np.sum)

    def decibels(self):
        return -10 * float(np.log10(self.worst().sum()))

    def behind(self, other):
        """Returns by how many decibels this file is better than another on these samples, and the standard error."""
        mine, its = self.worst(), other.worst()
        d = mine / mine.sum() - its / its.sum()
        error = 10 / np.log(10) * np.sqrt((d**2).sum() * len(d) / (len(d) - 1))
        return self.decibels() - other.decibels(), float(error)


class Reader(CalibrationDataReader):
    def __init__(self, samples):
        self.left = iter(samples)

    def get_next(self):
        return next(self.left, None)


def peer(model, samples, method, scratch):
    """Runs ONNX Runtime's quantizer as in its manual, with and without its preparation, and returns the better
    result."""
    results = []
    for prepared in (False, True):
        source, out = model, scratch / "peer.onnx"
        try:
            if prepared:
                source = scratch / "prepared.onnx"
                quant_pre_process(str(model), str(source), skip_symbolic_shape=True)
            with contextlib.redirect_stdout(io.StringIO()):
                quantize_static(
                    str(source),
                    str(out),
                    Reader(samples),
                    quant_format=QuantFormat.QDQ,
                    per_channel=True,
                    activation_type=QuantType.QUInt8,
                    weight_type=QuantType.QInt8,
                    calibrate_method=method,
                )
            results.append(out.read_bytes())
        except Exception:  # any limit of the tool: the cell says "fails"
            continue
    return results


def ours(program, model, data, out, options):
    report = out.with_suffix(".report")
    command = [
        program,
        "-q",
        "--advice",
        "off",
        "--data",
        data,
        str(model),
        "-o",
        str(out),
        "--report",
        str(report),
        *options,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit {done.returncode}"
    return json.loads((report / "report.json").read_text()), None


def measured_there(reference, file, samples):
    try:
        return Noise(reference, file, samples, outputs_in_openvino).decibels()
    except Exception as error:  # the file does not load: the cell says why
        return str(error).strip().splitlines()[-1][:80]


def measure(arguments):
    program, model, variants, peers, known, held_count = arguments
    row = {"model": model.stem, "bytes": model.stat().st_size}
    base = model.stem.rsplit(".", 1)[0]
    session = measured_models.session(model)
    names = [i.name for i in session.get_inputs()]
    calib, held = (feeds(model.parent / f"{base}{suffix}", names) for suffix in (".h5", ".held.h5"))
    held = held[:held_count]
    reference = outputs(model, held)
    with tempfile.TemporaryDirectory() as folder:
        scratch = pathlib.Path(folder)
        noise = {}
        for name, options in {"default": [], **variants}.items():
            out = scratch / f"{len(noise)}.onnx"
            report, error = ours(program, model, model.parent / f"{base}.h5", out, options)
            if error:
                row[name] = error
                continue
            noise[name] = Noise(reference, out, held)
            row[name] = noise[name].decibels()
            if name == OPENVINO:
                row[f"{OPENVINO}, there"] = measured_there(reference, out, held)
            if name == "default":
                row.update(
                    quantized=report["quantized_ops"],
                    float=len(report["float_ops"]),
                    share=report["int8_share"],
                    bytes_int8=out.stat().st_size,
                    seconds=report["timing"]["total_seconds"],
                )
        if "default" in noise:
            better = [noise["default"].behind(noise[v]) for v in variants if v in noise and v != OPENVINO]
            row["behind"] = min(better, default=None)
        if peers:
            row.update(known)
            for name, method in PEERS.items():
                if f"ort {name}" in known:
                    continue
                found = []
                for made in peer(model, calib, method, scratch):
                    try:
                        found.append(Noise(reference, made, held).decibels())
                    except Exception:
                        continue
                row[f"ort {name}"] = max(found) if found else "fails"
    return row


def cell(value):
    if isinstance(value, float):
        return f"{value:.1f}"
    if isinstance(value, tuple):
        return f"{value[0]:+.1f} ± {value[1]:.1f}"
    return "" if value is None else str(value)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("program")
    parser.add_argument("--method", action="append", default=[])
    parser.add_argument("--options", action="append", default=[])
    parser.add_argument("--only", default="*")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--peers", type=pathlib.Path)
    parser.add_argument("--openvino", action="store_true")
    parser.add_argument("--held", type=int)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    models = [m for m in sorted(options.folder.glob("*.onnx")) if fnmatch.fnmatch(m.stem, options.only)]
    peers = [] if options.no_peers else [f"ort {p}" for p in PEERS]
    variants = {m: ["--method", m] for m in options.method} | {o: shlex.split(o) for o in options.options}
    variants |= {OPENVINO: ["--target", "openvino"]} if options.openvino else {}
    there = [f"{OPENVINO}, there"] if options.openvino else []
    columns = ["default", *variants, *there, "to the best of these", *peers]
    known = json.loads(options.peers.read_text()) if options.peers and options.peers.exists() else {}
    print("| network | " + " | ".join(columns) + " | quantized | in float | multiply-adds in int8 | size |")
    print("|---|" + "---|" * (len(columns) + 4))
    jobs = [(options.program, m, variants, bool(peers), known.get(m.stem, {}), options.held) for m in models]
    behind = []
    with concurrent.futures.ProcessPoolExecutor(options.workers) as pool:
        for row in pool.map(measure, jobs):
            row["to the best of these"] = row.get("behind")
            behind += [row["behind"][0]] if row.get("behind") else []
            if options.peers and peers:
                known[row["model"]] = {p: row[p] for p in peers}
                options.peers.write_text(json.dumps(known, indent=1))
            tail = [
                row.get("quantized"),
                row.get("float"),
                f"{100 * row['share']:.0f} %" if row.get("share") is not None else None,
                f"{row['bytes'] / 1e6:.1f} -> {row['bytes_int8'] / 1e6:.1f} MB" if "bytes_int8" in row else None,
            ]
            print(
                f"| {row['model']} | "
                + " | ".join(cell(row.get(c)) for c in (*columns,))
                + " | "
                + " | ".join(map(cell, tail))
                + " |",
                flush=True,
            )
    if behind:
        print(f"\nTo the best of these {len(variants)}: mean {np.mean(behind):+.2f}, worst {min(behind):+.2f} dB")


if __name__ == "__main__":
    main()
