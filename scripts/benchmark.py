# SPDX-License-Identifier: Apache-2.0
"""See scripts/benchmark. A round is one run of qcalib and one of ONNX Runtime for each number of threads, one after
the other. The page has medians, and ratios within a round: other load on the machine affects both sides of a ratio."""
import argparse
import itertools
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time

import onnxruntime as ort

from benchmark_large import HEADS, large_rows, part_rows
from benchmark_layers import HEAD, layer_rows
from benchmark_peak import HEAD as PEAK_HEAD, peak_rows
from benchmark_run import HEAD as RUN_HEAD, run_rows
from measured_models import BY_NAME, Data, run_measured, session

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGES = {"performance.md": "performance_text.md", "interpreter-speed.md": "interpreter_text.md"}
CASES = ("resnet20_cifar10", "mobilenetv1_075_224_imagenet")
THREADS = (1, 2)
MIB = 1 << 20


# Without second moments: only ranges are chosen.
RANGES = ("--weight-rounding", "nearest", "--bias-correction", "off")


class Calibration:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def __call__(self, model, data, threads, *options):
        out, wall, peak = run_measured([self.program, "--threads", threads, "--no-report", "--json", "-o",
                                        self.folder / "out.onnx",
                                        *options, *model.options(data)])
        timing = json.loads(out)["timing"]
        return {"calibration": timing["collect_seconds"] + timing["solve_seconds"],
                "rounding": timing["rounding_seconds"], "whole": wall, "peak": peak}


class Inference:
    """Inference on preprocessed samples in memory, one at a time. The session is created and has run before the
    measurement."""

    def __init__(self, model, data, path=None, threads=THREADS):
        test = Data(data / model.calib, model.preprocess)
        self.feeds = [{test.key: test.inputs[i:i + 1]} for i in range(len(test.inputs))]
        self.sessions = {t: session(path or model.path(data), t) for t in threads}
        for s in self.sessions.values():
            self.feeds = [{s.get_inputs()[0].name: v for v in f.values()} for f in self.feeds]
            for f in self.feeds[:5]:
                s.run(None, f)

    def __call__(self, threads):
        s, begin = self.sessions[threads], time.perf_counter()
        for f in self.feeds:
            s.run(None, f)
        return time.perf_counter() - begin


# Samples are read one at a time, as by qcalib. The time is that of the call, without the start of Python.
QUANTIZE_STATIC = """
import logging, pathlib, sys, time
sys.path.insert(0, sys.argv[1])
import h5py, measured_models as m
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_static
logging.disable(logging.CRITICAL)
folder, model = pathlib.Path(sys.argv[2]), m.BY_NAME[sys.argv[3]]

class Reader(CalibrationDataReader):
    def __init__(self):
        self.file = h5py.File(folder / model.calib)
        self.data = self.file[next(k for k in self.file if k not in ("labels", "target"))]
        self.name, self.at = m.session(model.path(folder)).get_inputs()[0].name, 0
    def get_next(self):
        if self.at == len(self.data):
            return None
        self.at += 1
        return {self.name: m.Data.convert(self.data, model.preprocess, slice(self.at - 1, self.at))}

reader, begin = Reader(), time.perf_counter()
quantize_static(str(model.path(folder)), sys.argv[5], reader, quant_format=QuantFormat.QDQ, per_channel=True,
                activation_type=QuantType.QUInt8,
                weight_type=QuantType.QInt8, calibrate_method=CalibrationMethod[sys.argv[4]])
print(time.perf_counter() - begin)
"""


def inference_peak(model, data, threads):
    """Returns the peak bytes of a process with only this inference; samples are read one at a time, as by qcalib."""
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import pathlib, h5py, measured_models as m; "
            "folder = pathlib.Path(sys.argv[2])\n"
            "model = m.BY_NAME[sys.argv[3]]; s = m.session(model.path(folder), int(sys.argv[4])); "
            "name = s.get_inputs()[0].name\n"
            "f = h5py.File(folder / model.calib); d = f[next(k for k in f if k not in ('labels', 'target'))]\n"
            "for i in range(len(d)): s.run(None, {name: m.Data.convert(d, model.preprocess, slice(i, i + 1))})\n")
    return run_measured([sys.executable, "-c", code, ROOT / "scripts", data, model.name, threads])[2]


def rounds_of(count, calibration, model, data):
    inference = Inference(model, data)
    result = {t: [] for t in THREADS}
    for k in range(count):
        for t in THREADS:
            row = calibration(model, data, t, "--method", "kl", *RANGES)
            row["inference"] = inference(t)
            row["minmax"] = calibration(model, data, t, "--method", "minmax", *RANGES)["calibration"]
            row["propagate"] = calibration(model, data, t, "--method", "kl", *RANGES, "--propagate")["calibration"]
            default = calibration(model, data, t)
            row.update({f"default_{k}": v for k, v in default.items()})
            row["unadvised"] = calibration(model, data, t, "--advice", "off")["whole"]
            row["mse"] = calibration(model, data, t, "--advice", "off", "--method", "mse")["whole"]
            result[t].append(row)
            print(f"{model.name} round {k + 1}, {t} thread(s): calibration {row['calibration']:.3f} s, "
                  f"whole {row['whole']:.3f} s, "
                  f"inference {row['inference']:.3f} s", file=sys.stderr, flush=True)
    return len(inference.feeds), result


def middle(rows, key):
    return statistics.median(r[key] for r in rows)


def ratio(rows, key):
    values = sorted(r[key] / r["inference"] for r in rows)
    return f"{statistics.median(values):.2f} ({values[0]:.2f} to {values[-1]:.2f})"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def speed_rows(measured):
    for name, (samples, by_threads) in measured.items():
        for t, rows in by_threads.items():
            yield [name, f"{samples}", f"{t}", f"{middle(rows, 'inference'):.3f}", f"{middle(rows, 'calibration'):.3f}",
                   ratio(rows, "calibration"), ratio(rows, "minmax"), ratio(rows, "propagate"),
                   f"{middle(rows, 'whole'):.3f}", ratio(rows, "whole")]


def default_rows(measured):
    for name, (_, by_threads) in measured.items():
        for t, rows in by_threads.items():
            yield [name, f"{t}", ratio(rows, "default_calibration"), f"{middle(rows, 'default_rounding'):.3f}",
                   f"{middle(rows, 'default_whole'):.3f}",
                   *[ratio(rows, k) for k in ("default_whole", "unadvised", "mse")],
                   f"{middle(rows, 'default_peak') / MIB:.0f}"]


def peer_rows(measured, data, folder, threads=2):
    """Compares ONNX Runtime's quantizer with qcalib; each of its rows is one run, because the slowest take long."""
    for name, (_, by_threads) in measured.items():
        rows = by_threads[threads]
        yield [name, "qcalib, `kl`, nearest", f"{middle(rows, 'whole'):.2f}", f"{middle(rows, 'peak') / MIB:.0f}"]
        yield [name, "qcalib, default", f"{middle(rows, 'default_whole'):.2f}",
               f"{middle(rows, 'default_peak') / MIB:.0f}"]
        for method in ("MinMax", "Percentile", "Entropy"):
            print(f"{name} quantize_static, {method}", file=sys.stderr, flush=True)
            out, _, peak = run_measured([sys.executable, "-c", QUANTIZE_STATIC, ROOT / "scripts", data, name, method,
                                         folder / "peer.onnx"])
            yield [name, f"ONNX Runtime, {method}", f"{float(out.splitlines()[-1]):.2f}", f"{peak / MIB:.0f}"]


def scaling_rows(measured):
    for name, (_, by_threads) in measured.items():
        pairs = list(zip(by_threads[1], by_threads[2]))
        yield [name, *[f"{statistics.median(a[k] / b[k] for a, b in pairs):.2f}"
                       for k in ("calibration", "default_whole", "inference")]]


def memory_rows(measured, data):
    for name, (_, by_threads) in measured.items():
        for t, rows in by_threads.items():
            ours, theirs = middle(rows, "peak"), inference_peak(BY_NAME[name], data, t)
            yield [name, f"{t}", f"{ours / MIB:.0f}", f"{theirs / MIB:.0f}"]


def growth_rows(calibration, data):
    model = BY_NAME["resnet20_cifar10"]
    given = type(model)(model.name, model.eval, model.eval, model.preprocess)
    jobs = {"`kl`, nearest": ("--method", "kl", *RANGES), "default": ()}
    for (job, options), t in itertools.product(jobs.items(), THREADS):
        peaks = [[calibration(given, data, t, *options, "--samples", n)["peak"] for n in (64, 1000)]
                 for _ in range(3)]
        few, many = (statistics.median(p[i] for p in peaks) for i in (0, 1))
        yield [job, f"{t}", f"{few / MIB:.1f}", f"{many / MIB:.1f}", f"{100 * (many / few - 1):+.1f} %"]


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    arguments = argparse.ArgumentParser(prog="scripts/benchmark")
    arguments.add_argument("data", type=pathlib.Path)
    arguments.add_argument("--rounds", type=int, default=7)
    arguments.add_argument("--large-rounds", type=int, default=3)
    arguments.add_argument("--only", action="append", choices=CASES)
    arguments.add_argument("--output", type=pathlib.Path, default=ROOT / "docs", help="the folder of the pages")
    given = arguments.parse_args()
    program = ROOT / os.environ.get("QCALIB", "build/release/qcalib")
    if not program.exists():
        sys.exit(f"there is no {program}: cmake --preset release && cmake --build --preset release")
    bench = program.parent / "tests/simq/bench_plan"
    peak = bench.with_name("bench_peak")
    for one in (bench, peak):
        if not one.exists():
            sys.exit(f"there is no {one}: cmake --build --preset release --target bench_plan bench_peak")
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        calibration = Calibration(program, pathlib.Path(folder))
        measured = {n: rounds_of(given.rounds, calibration, BY_NAME[n], given.data) for n in given.only or CASES}
        parts = {
            "made": f"{processor()}, {os.cpu_count()} processors, ONNX Runtime {ort.__version__}, "
                    f"{given.rounds} rounds, {given.large_rounds} of large models; "
                    f"load of the machine when it began: {before:.1f}.",
            "speed": table(["model", "samples", "threads", "inference, s", "calibration, s", "ratio", "ratio of minmax",
                            "ratio with `--propagate`", "whole process, s", "ratio"], speed_rows(measured)),
            "runs": table(RUN_HEAD, run_rows(program, given.data, given.rounds)),
            "layers": table(HEAD, layer_rows(program, bench, given.data, given.rounds)),
            "peak": table(PEAK_HEAD, peak_rows(program, bench, peak, given.data, given.rounds)),
            "default": table(["model", "threads", "statistics, ratio", "rounding, s", "whole process, s", "ratio",
                              "`--advice off`", "and `--method mse`", "peak, MiB"], default_rows(measured)),
            "peers": table(["model", "quantizer", "time, s", "peak, MiB"],
                           peer_rows(measured, given.data, pathlib.Path(folder))),
            "scaling": table(["model", "ranges by `kl`", "whole default job", "ONNX Runtime's inference"],
                             scaling_rows(measured)),
            "memory": table(["model", "threads", "qcalib, MiB", "ONNX Runtime in Python, MiB"],
                            memory_rows(measured, given.data)),
            "growth": table(["job", "threads", "64 samples, MiB", "1000 samples, MiB", "growth"],
                            growth_rows(calibration, given.data)),
            "large": table(HEADS["large"], large_rows(program, pathlib.Path(folder), given.large_rounds)),
            "parts": table(HEADS["parts"], part_rows(program, pathlib.Path(folder), given.large_rounds)),
        }
    for page, source in PAGES.items():
        text = (ROOT / "scripts" / source).read_text()
        for name, part in parts.items():
            text = text.replace(f"@{name}@", part)
        (given.output / page).write_text(text)
        print(f"written {given.output / page}")


main()
