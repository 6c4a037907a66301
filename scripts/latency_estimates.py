#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the rows and the means of docs/latency-estimates.md.

    scripts/latency_estimates.py PROGRAM FOLDER [NAME ...]

FOLDER: the networks of scripts/zoo.py, NAME.onnx with samples in NAME.h5 or NAME.npz. Measures the default file beside
the float model, one thread, the least time of interleaved runs of SECONDS, in a process that has all instructions and
in one without AVX-512 (without_avx512.c). Waits while the load of the machine exceeds LOAD."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

SECONDS, LOAD, SAMPLES = 0.4, 3.0, "32"
AMX = "amx_int8" in pathlib.Path("/proc/cpuinfo").read_text()
PROCESSORS = {"amx" if AMX else "avx512-vnni": False, "avx2": True}  # name in the report: hides AVX-512
MEASURE = """
import sys, time, numpy as np, measured_models as mm, models, pathlib
data, *files = sys.argv[2:]
sessions = [mm.session(f) for f in files]
feed = models.feeds(pathlib.Path(data), [i.name for i in sessions[0].get_inputs()])[0]
least, end = [1e9] * len(files), time.perf_counter() + float(sys.argv[1])
for s in sessions * 5:
    s.run(None, feed)
while time.perf_counter() < end:
    for k, s in enumerate(sessions):
        begin = time.perf_counter()
        s.run(None, feed)
        least[k] = min(least[k], time.perf_counter() - begin)
print(*least)
"""


def measured(data, files, library):
    environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(__file__).parent)}
    if library:
        environment["LD_PRELOAD"] = str(library)
    run = [sys.executable, "-c", MEASURE, str(SECONDS * len(files)), data, *files]
    return [float(t) for t in subprocess.run(run, env=environment, check=True, capture_output=True,
                                             text=True).stdout.split()]


def row(program, path, folder, library):
    """Returns the milliseconds of float, measured and estimated speed for each processor, and the part of the bytes."""
    data = path.parent / f"{path.stem.split('.')[0]}.h5"
    data = data if data.exists() else data.with_suffix(".npz")
    ours = folder / "ours.onnx"
    job = [program, "quantize", "-q", "--json", "--no-report", "--advice", "off", "--samples", SAMPLES, "--data", data]
    said = subprocess.run([*job, "-o", ours, path], check=True, capture_output=True, text=True).stdout
    on, cells, float_ms = json.loads(said)["cost"]["processors"], [], 0.0
    for name, hides in PROCESSORS.items():
        real, quantized = measured(data, [path, ours], library if hides else None)
        float_ms = float_ms or 1e3 * real
        cells += [real / quantized, 1 / on[name]]
    return [float_ms, *cells, ours.stat().st_size / path.stat().st_size]


def main():
    program, networks, names = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3:]
    rows, loads = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        library = folder / "without_avx512.so"
        source = pathlib.Path(__file__).with_name("without_avx512.c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source], check=True)
        for path in sorted(networks.glob("*.onnx")):
            if names and path.stem not in names:
                continue
            while os.getloadavg()[0] > LOAD:
                time.sleep(5)
            try:
                cells = row(program, path, folder, library)
            except subprocess.CalledProcessError as error:  # a network without layers does not stop the others
                print(f"{path.stem} fails: {error.stderr.strip()}", file=sys.stderr, flush=True)
                continue
            rows.append(cells)
            loads.append(os.getloadavg()[0])
            print(f"| {path.stem} | {cells[0]:.3f} | {' | '.join(f'{c:.2f}' for c in cells[1:])} |", flush=True)
    columns = np.log(np.array(rows).T)
    for k, name in enumerate(PROCESSORS):
        measured_speed, estimate = columns[1 + 2 * k], columns[2 + 2 * k]
        print(f"{name}: mean error {100 * np.expm1(np.mean(np.abs(measured_speed - estimate))):.0f} % of {len(rows)}; "
              f"geometric mean {np.exp(np.mean(measured_speed)):.2f}, slower than 0.95: "
              f"{int(np.sum(np.exp(measured_speed) < 0.95))}, slowest {np.exp(np.min(measured_speed)):.2f}")
    print(f"load of the machine: {np.min(loads):.1f} to {np.max(loads):.1f}")


if __name__ == "__main__":
    main()
