# SPDX-License-Identifier: Apache-2.0
"""See scripts/accuracy. Every number of the page is measured in this run; failures are in the page too."""
import argparse
import concurrent.futures
import contextlib
import dataclasses
import io
import logging
import multiprocessing
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
from measured_models import BY_NAME, METHODS, Data, infer, score, sqnr

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = {"accuracy_text.md": "accuracy.md", "accuracy_weights_text.md": "accuracy-weights.md"}
PEERS = {"ORT minmax": quantization.CalibrationMethod.MinMax,
         "ORT percentile": quantization.CalibrationMethod.Percentile,
         "ORT entropy": quantization.CalibrationMethod.Entropy}
# Options of qcalib for each column. A column in two tables is measured once.
OBSERVERS = {m: ("--method", m)
             for m in (*METHODS, "output", "kl:variant=symmetric", "mse:norm=2.4", "gaussian", "avgmax", "ema")}
BEST_OF = (*METHODS, "output")
ROUNDINGS = {"nearest": ("--weight-rounding", "nearest", "--bias-correction", "off"),
             "+ bias": ("--weight-rounding", "nearest", "--bias-correction", "on"),
             "compensated": ("--weight-rounding", "compensated", "--bias-correction", "off"), "both": ()}


def tensor(options):
    return ("--per-tensor", *options)


def equalized(options, on):
    return (*options, "--equalize", "on" if on else "off")


TABLES = {
    "methods": {"default": (), **OBSERVERS, **{p: p for p in PEERS}},
    "methods-tensor": {"default": tensor(()), **{m: tensor(o) for m, o in OBSERVERS.items()}},
    "rounding": {**{r: equalized(o, False) for r, o in ROUNDINGS.items()}, "both + equalize": equalized((), True),
                 "both + propagate": ("--propagate",)},
    "rounding-tensor": {**{r: tensor(equalized(o, False)) for r, o in ROUNDINGS.items()},
                        "nearest + equalize": tensor(equalized(ROUNDINGS["nearest"], True)),
                        "both + equalize": tensor(equalized((), True))},
    "int4": {"nearest": ("--weight-type", "int4", *ROUNDINGS["nearest"]),
             "+ bias": ("--weight-type", "int4", *ROUNDINGS["+ bias"]),
             "both": ("--weight-type", "int4"),
             "both, ranges by output": ("--weight-type", "int4", "--weight-method", "output")},
}
# Fewer samples, for models whose accuracy depends on their number; results with all samples are in the first table.
FEW_MODELS = ("resnet20_cifar10", "resnet8_cifar10_mlperf", "dscnn_kws_mlperf", "mnist_cntk8",
              "text_transformer_agnews")
FEW = {n: (("--samples", f"{n}"), f"ORT minmax, {n} samples") for n in (4, 8, 16, 32, 64)}
FEW_PEERS = {peer: n for n, (_, peer) in FEW.items()}
# The default options, by name; they give the same model, so they share the cell.
SAME = {equalized((), False): (), tensor(equalized((), True)): tensor(())}


@dataclasses.dataclass
class Cell:
    """One quantized model: its score and SQNRs in ONNX Runtime, or the reason why there are none."""
    value: float = None
    sqnr: list = None
    agrees: float = None  # percent of samples with the same class as in the float model
    seconds: float = 0.0
    failure: str = None


class Reader(quantization.CalibrationDataReader):
    def __init__(self, key, inputs):
        self.feeds = ({key: inputs[i:i + 1]} for i in range(len(inputs)))

    def get_next(self):
        return next(self.feeds, None)


def quantize_here(program, model, data, options, out):
    """Writes the model to `out`."""
    command = [str(program), *options, "-q", "--threads", "1", "--no-report", "-o", str(out)]
    done = subprocess.run(command + model.options(data), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])


def quantize_there(model, data, inputs, method, out):
    """Writes the model of ONNX Runtime's quantize_static to `out`."""
    given = measured_models.for_peers(model.path(data))
    name = measured_models.session(model.path(data)).get_inputs()[0].name
    with contextlib.redirect_stdout(io.StringIO()):
        quantization.quantize_static(given, str(out), Reader(name, inputs), per_channel=True,
                                     quant_format=quantization.QuantFormat.QDQ,
                                     activation_type=quantization.QuantType.QUInt8,
                                     weight_type=quantization.QuantType.QInt8, calibrate_method=method)


def quantize_elsewhere(python, tool, model, data, out):
    done = subprocess.run([python, str(ROOT / "scripts/peer.py"), tool, str(data), model.name, str(out)],
                          capture_output=True, text=True, check=False,
                          cwd=out.parent)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])


def title(options):
    return options if isinstance(options, str) else " ".join(options) or "default"


def cell_of(options):
    return SAME.get(options, options)


def measure(program, model, data, others):
    """Returns (samples, unit of the score, float Cell, {options or name of a peer: Cell})."""
    test = Data(data / model.eval, model.preprocess)
    calib = Data(data / model.calib, model.preprocess)
    reference, _ = infer(model.path(data), test.inputs)
    cells = {}
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "quantized.onnx"
        few = [o for pair in FEW.values() for o in pair] if model.name in FEW_MODELS else []
        asked = [*(cell_of(o) for columns in TABLES.values() for o in columns.values()), *others, *few]
        for options in dict.fromkeys(asked):
            cell, begin = cells.setdefault(options, Cell()), time.perf_counter()
            try:
                if options in others:
                    quantize_elsewhere(*others[options], model, data, out)
                elif options in PEERS:
                    quantize_there(model, data, calib.inputs, PEERS[options], out)
                elif options in FEW_PEERS:
                    some = calib.inputs[measured_models.spread(len(calib.inputs), FEW_PEERS[options])]
                    quantize_there(model, data, some, PEERS["ORT minmax"], out)
                else:
                    quantize_here(program, model, data, options, out)
                cell.seconds = time.perf_counter() - begin
                outputs, _ = infer(out, test.inputs)
                cell.value, cell.sqnr = score(outputs, test)[1], sqnr(reference, outputs)
                if test.labels is not None:
                    cell.agrees = agreement(reference, outputs, test.labels)
            except Exception as e:  # any failure of a tool is shown in its row
                cell.failure = (str(e).strip().splitlines() or [type(e).__name__])[-1].replace(f"{folder}/", "")[:200]
            value = "" if cell.value is None else f"{cell.value:.2f}, "
            shown = cell.failure or f"{value}{decibels(cell.sqnr)} dB, {cell.seconds:.1f} s"
            print(f"{model.name:32s} {title(options):60s} {shown}", file=sys.stderr, flush=True)
            out.unlink(missing_ok=True)
    unit = "top-1, %" if test.labels is not None else "PSNR, dB"
    return len(test.inputs), unit, Cell(value=score(reference, test)[1]), cells


def agreement(reference, outputs, labels):
    return measured_models.top1(outputs, next(r for r in reference if len(r) == len(labels))
                                .reshape(len(labels), -1).argmax(1))


def decibels(values):
    return " / ".join(f"{v:.1f}" for v in values)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(r) + " |" for r in rows]


def best(texts, values, digits):
    """Marks the highest value and those that print the same."""
    highest = max(round(v, digits) for v in values if v is not None)
    return [f"**{t}**" if v is not None and round(v, digits) == highest else t for t, v in zip(texts, values)]


def value_rows(results, columns):
    for model, (samples, unit, base, cells) in results.items():
        if base.value is None:
            continue
        row = [cells[cell_of(o)] for o in columns.values()]
        texts = ["fails" if c.value is None else f"{c.value:.2f}" for c in row]
        yield [model, f"{samples}", unit, f"{base.value:.2f}", *best(texts, [c.value for c in row], 2)]


def sqnr_rows(results, columns):
    for model, (samples, _, _, cells) in results.items():
        row = [cells[cell_of(o)] for o in columns.values()]
        texts = ["fails" if c.sqnr is None else decibels(c.sqnr) for c in row]
        yield [model, f"{samples}", *best(texts, [c.sqnr and min(c.sqnr) for c in row], 1)]


def worst(cell):
    return None if cell.sqnr is None else min(cell.sqnr)


def default_rows(results):
    """Compares the default with the best single observer and ONNX Runtime's best method, by the worst output."""
    for model, (_, _, _, cells) in results.items():
        row = {"default": cells[()], **{m: cells[OBSERVERS[m]] for m in BEST_OF}, **{p: cells[p] for p in PEERS}}
        db = {name: worst(c) for name, c in row.items() if worst(c) is not None}
        if "default" not in db:
            yield [model, "fails", "", "", "", ""]
            continue

        def beside(names):
            best_name = max((n for n in names if n in db), key=db.get, default=None)
            return [f"{db['default'] - db[best_name]:+.1f} ({best_name})"] if best_name else ["fails"]

        agrees = "" if row["default"].agrees is None else f"{row['default'].agrees:.2f}"
        yield [model, f"{db['default']:.1f}", agrees, *beside(BEST_OF), *beside(["mse"]), *beside(PEERS)]


def few_rows(results):
    for model, (_, _, _, cells) in results.items():
        if model not in FEW_MODELS:
            continue
        pairs = [*((cells[a], cells[b]) for a, b in FEW.values()), (cells[()], cells["ORT minmax"])]
        yield [model, *(", ".join("fails" if worst(c) is None else f"{worst(c):.1f}" for c in p) for p in pairs)]


def failures(results):
    return [f"- `{m}`, {title(c)}: {cell.failure}" for m, (_, _, _, cells) in results.items()
            for c, cell in cells.items() if cell.failure]


def pages(results, version, seconds):
    """Returns the pages by the names of their texts."""
    parts = {
        "made": [f"`{version}` against ONNX Runtime {ort.__version__}, {os.cpu_count()} processors; "
                 f"the whole run took {seconds / 60:.0f} minutes."],
        "default": table(["model", "SQNR, dB", "agrees with float, %", "to the best of five", "to mse",
                          "to the best of ORT's"], default_rows(results)),
        "few": table(["model", *(f"{n} samples" for n in FEW), "all"], few_rows(results)),
        "failures": failures(results) or ["None."],
    }
    for name, columns in TABLES.items():
        parts[name] = table(["model", "samples", "metric", "fp32", *columns], value_rows(results, columns))
        parts[f"{name}-sqnr"] = table(["model", "samples", *columns], sqnr_rows(results, columns))
    texts = {name: (ROOT / "scripts" / name).read_text() for name in PAGES}
    for name, lines in parts.items():
        texts = {of: text.replace(f"@{name}@", "\n".join(lines)) for of, text in texts.items()}
    return texts


def main():
    arguments = argparse.ArgumentParser(prog="scripts/accuracy")
    arguments.add_argument("data", type=pathlib.Path)
    arguments.add_argument("--only", action="append", choices=list(BY_NAME))
    arguments.add_argument("--output", type=pathlib.Path, default=ROOT / "docs", help="folder of the pages")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count(), help="models at a time")
    arguments.add_argument("--peer", action="append", default=[],
                           help="TOOL=PYTHON: another tool (scripts/peer.py) in a Python environment that has it")
    given = arguments.parse_args()
    others = {t.upper() if t == "nncf" else t.capitalize(): (python, t)
              for t, python in (p.split("=", 1) for p in given.peer)}
    TABLES["methods"].update({name: name for name in others})
    program = ROOT / os.environ.get("QCALIB", "build/release/qcalib")
    if not program.exists():
        sys.exit(f"there is no {program}: cmake --preset release && cmake --build --preset release")
    version = subprocess.run([str(program), "--version"], capture_output=True, text=True,
                             check=True).stdout.splitlines()[0]
    begin = time.perf_counter()
    chosen = [m for m in BY_NAME.values() if not given.only or m.name in given.only]
    with concurrent.futures.ProcessPoolExecutor(given.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = {m.name: pool.submit(measure, program, m, given.data, others) for m in chosen}
        results = {name: w.result() for name, w in waiting.items()}
    for name, text in pages(results, version, time.perf_counter() - begin).items():
        (given.output / PAGES[name]).write_text(text)
        print(f"written {given.output / PAGES[name]}")


logging.disable(logging.WARNING)
ort.set_default_logger_severity(3)
if __name__ == "__main__":
    main()
