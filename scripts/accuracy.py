# SPDX-License-Identifier: Apache-2.0
"""See scripts/accuracy. Every number of the page is measured in this run; a failure is written down as one."""
import argparse
import contextlib
import dataclasses
import io
import json
import logging
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort
from onnxruntime import quantization

import measured_models
from measured_models import METHODS, REAL_MODELS, Data, infer, score, sqnr

ROOT = pathlib.Path(__file__).resolve().parents[1]
PEERS = {"ORT minmax": quantization.CalibrationMethod.MinMax, "ORT percentile": quantization.CalibrationMethod.Percentile}
COLUMNS = ("default", *METHODS, *PEERS)


@dataclasses.dataclass
class Cell:
    """One quantized model: its score and SQNRs in ONNX Runtime, or why there is none."""
    value: float = None
    sqnr: list = None
    seconds: float = 0.0
    failure: str = None


class Reader(quantization.CalibrationDataReader):
    def __init__(self, key, inputs):
        self.feeds = ({key: inputs[i:i + 1]} for i in range(len(inputs)))

    def get_next(self):
        return next(self.feeds, None)


def quantize_here(program, model, data, method, out):
    """report.json of one run of qcalib; the exported file is `out`."""
    command = [str(program), *(["--method", method] if method != "default" else []), "--json", "--no-report", "-o", str(out)]
    done = subprocess.run(command + model.options(data), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def quantize_there(model, data, calib, method, out):
    name = measured_models.session(model.path(data)).get_inputs()[0].name
    with contextlib.redirect_stdout(io.StringIO()):
        quantization.quantize_static(str(model.path(data)), str(out), Reader(name, calib.inputs), per_channel=True,
                                     quant_format=quantization.QuantFormat.QDQ, activation_type=quantization.QuantType.QUInt8,
                                     weight_type=quantization.QuantType.QInt8, calibrate_method=method)


def measure(program, model, data, folder):
    """(Data, float Cell, {column: Cell}, {method: report})."""
    test = Data(data / model.eval, model.preprocess)
    calib = Data(data / model.calib, model.preprocess)
    reference, _ = infer(model.path(data), test.inputs)
    base = Cell(value=score(reference, test)[1])
    cells, reports = {}, {}
    for column in COLUMNS:
        out, begin = folder / "quantized.onnx", time.perf_counter()
        cell = cells[column] = Cell()
        try:
            if column in PEERS:
                quantize_there(model, data, calib, PEERS[column], out)
            else:
                reports[column] = quantize_here(program, model, data, column, out)
            cell.seconds = time.perf_counter() - begin
            outputs, _ = infer(out, test.inputs)
            cell.value, cell.sqnr = score(outputs, test)[1], sqnr(reference, outputs)
        except Exception as e:  # whatever a tool does, its row says so
            cell.failure = (str(e).strip().splitlines() or [type(e).__name__])[-1].replace(f"{folder}/", "")[:200]
        shown = cell.failure or f"{'' if cell.value is None else f'{cell.value:.2f}, '}{decibels(cell.sqnr)} dB, {cell.seconds:.1f} s"
        print(f"{model.name:32s} {column:15s} {shown}", file=sys.stderr, flush=True)
        out.unlink(missing_ok=True)
    return test, base, cells, reports


def decibels(values):
    return " / ".join(f"{v:.1f}" for v in values)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(r) + " |" for r in rows]


def best(texts, values, digits):
    """Marks the highest value, and what is equal to it as printed."""
    highest = max(round(v, digits) for v in values if v is not None)
    return [f"**{t}**" if v is not None and round(v, digits) == highest else t for t, v in zip(texts, values)]


def accuracy_rows(results):
    for model, (test, base, cells, _) in results.items():
        if base.value is None:
            continue
        values = [cells[c].value for c in COLUMNS]
        texts = ["fails" if v is None else f"{v:.2f}" for v in values]
        yield [model, f"{len(test.inputs)}", "top-1, %" if test.labels is not None else "PSNR, dB", f"{base.value:.2f}", *best(texts, values, 2)]


def sqnr_rows(results):
    for model, (test, _, cells, _) in results.items():
        values = [cells[c].sqnr and min(cells[c].sqnr) for c in COLUMNS]
        texts = ["fails" if cells[c].sqnr is None else decibels(cells[c].sqnr) for c in COLUMNS]
        yield [model, f"{len(test.inputs)}", *best(texts, values, 1)]


def time_rows(results):
    for model, (_, _, cells, _) in results.items():
        yield [model, *["fails" if cells[c].failure else f"{cells[c].seconds:.1f}" for c in COLUMNS]]


def failures(results):
    return [f"- `{m}`, {c}: {cell.failure}" for m, (_, _, cells, _) in results.items() for c, cell in cells.items() if cell.failure]


def demands(results):
    for m in REAL_MODELS:
        if m.name not in results or np.isnan(m.loss):
            continue
        _, base, cells, _ = results[m.name]
        lost = None if cells["default"].failure else base.value - cells["default"].value
        worst = max((cells["minmax"].value - cells["kl"].value) if not (cells["kl"].failure or cells["minmax"].failure) else float("inf"), 0)
        met = lost is not None and lost <= m.loss and worst <= 0.5
        yield [m.name, "fails" if lost is None else f"{lost:.2f}", f"{m.loss:.1f}", f"{worst:.2f}", "yes" if met else "**no**"]


def page(results, version, seconds):
    default = next((r["options"].get("method") for _, _, _, rs in results.values() for c, r in rs.items() if c == "default"), None)
    text = (ROOT / "scripts/accuracy_text.md").read_text()
    made = [f"`{version}` against ONNX Runtime {ort.__version__}, {os.cpu_count()} threads; the whole run took {seconds / 60:.1f} minutes.",
            f"The column `default` is `qcalib` without `--method`{f', which is `{default}`' if default else ''}."]
    parts = {
        "made": made,
        "accuracy": table(["model", "samples", "metric", "fp32", *COLUMNS], accuracy_rows(results)),
        "sqnr": table(["model", "samples", *COLUMNS], sqnr_rows(results)),
        "time": table(["model", *COLUMNS], time_rows(results)),
        "demands": table(["model", "default loses", "may lose", "kl below minmax by", "met"], demands(results)),
        "failures": failures(results) or ["None."],
    }
    for name, lines in parts.items():
        text = text.replace(f"@{name}@", "\n".join(lines))
    return text


def main():
    arguments = argparse.ArgumentParser(prog="scripts/accuracy")
    arguments.add_argument("data", type=pathlib.Path)
    arguments.add_argument("--only", action="append", choices=[m.name for m in REAL_MODELS])
    arguments.add_argument("--output", type=pathlib.Path, default=ROOT / "docs/accuracy.md")
    given = arguments.parse_args()
    program = ROOT / os.environ.get("QCALIB", "build/release/qcalib")
    if not program.exists():
        sys.exit(f"there is no {program}: cmake --preset release && cmake --build --preset release")
    logging.disable(logging.WARNING)
    ort.set_default_logger_severity(3)
    version = subprocess.run([str(program), "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    begin, results = time.perf_counter(), {}
    with tempfile.TemporaryDirectory() as folder:
        for m in REAL_MODELS:
            if not given.only or m.name in given.only:
                results[m.name] = measure(program, m, given.data, pathlib.Path(folder))
    given.output.write_text(page(results, version, time.perf_counter() - begin))
    print(f"written {given.output}")


main()
