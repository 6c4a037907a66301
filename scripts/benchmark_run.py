# SPDX-License-Identifier: Apache-2.0
"""Rows of scripts/benchmark for whole models: `qcalib run` beside ONNX Runtime on the same file, float and int8, one
thread, processor time, interleaved, the least of all rounds. Alone it prints them:
scripts/benchmark_run.py PROGRAM DATA_FOLDER [ROUNDS] [MODEL...], in the environment of scripts/benchmark.

Samples are repeated until ONNX Runtime needs SECONDS for them. Ours is the process with all samples less the process
with one sample, so reading HDF5 and preprocessing count. Theirs is the loop of session.run on inputs in memory."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

from measured_models import LANGUAGE_MODELS, REAL_MODELS, TRANSFORMER, Data, session

HEAD = ["model", "float: qcalib, ms", "ONNX Runtime, ms", "times as fast", "int8: qcalib, ms", "ONNX Runtime, ms",
        "times as fast"]
SECONDS, LEAST = 0.25, 8
RUN_MODELS = (*REAL_MODELS, TRANSFORMER, *LANGUAGE_MODELS)


def repeated(source, target, count):
    """Copies a data file; every data set has `count` samples, those of the source over and over."""
    with h5py.File(source) as a, h5py.File(target, "w") as b:
        for name, data in a.items():
            if name in ("labels", "target"):
                continue
            new = b.create_dataset(name, data=np.resize(data[...], (count, *data.shape[1:])),
                                   chunks=(1, *data.shape[1:]))
            new.attrs.update(data.attrs)


def processor_seconds(command):
    """User and system time of a child that must succeed."""
    with open(os.devnull, "w") as null:
        child = subprocess.Popen([str(c) for c in command], stdout=null)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"exit {child.returncode}: {' '.join(map(str, command))}")
    return usage.ru_utime + usage.ru_stime


class Case:
    """A model file with its samples, for both programs."""

    def __init__(self, program, path, model, data, folder):
        self.session = session(path)
        name, inputs = self.session.get_inputs()[0].name, Data(data / model.calib, model.preprocess, 32).inputs
        self.feeds = [{name: inputs[i:i + 1]} for i in range(len(inputs))]
        self.count = LEAST
        self.theirs()
        self.count = int(max(LEAST, SECONDS / (self.theirs() / LEAST)))
        file = folder / f"{model.name}-{self.count}.h5"
        repeated(data / model.calib, file, self.count)
        self.command = [program, "run", "-q", "--threads", 1, "-o", folder / "out.h5", "--data", file,
                        *(["--preprocess", model.preprocess] if model.preprocess else []), path]

    def theirs(self):
        begin = time.process_time()
        for i in range(self.count):
            self.session.run(None, self.feeds[i % len(self.feeds)])
        return time.process_time() - begin

    def ours(self):
        return processor_seconds(self.command) - processor_seconds([*self.command, "--samples", 1])

    def least(self, rounds):
        """Seconds of a sample, ours and theirs."""
        seen = [(self.ours() / (self.count - 1), self.theirs() / self.count) for _ in range(rounds)]
        return [min(column) for column in zip(*seen)]


def run_rows(program, data, rounds, names=()):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for model in RUN_MODELS:
            if names and model.name not in names:
                continue
            quantized = folder / f"{model.name}.onnx"
            subprocess.run([program, "-q", "--no-report", "--method", "mse", "--weight-rounding", "nearest", "--advice",
                            "off", "-o", quantized, *model.options(data)], check=True)
            row = [model.name]
            for path in (model.path(data), quantized):
                ours, theirs = Case(program, path, model, data, folder).least(rounds)
                row += [f"{1e3 * ours:.3f}", f"{1e3 * theirs:.3f}", f"{theirs / ours:.2f}"]
            yield row


def main():
    program, data = map(pathlib.Path, sys.argv[1:3])
    rounds = [int(a) for a in sys.argv[3:] if a.isdigit()]
    for row in (HEAD, *run_rows(program.resolve(), data, rounds[0] if rounds else 5,
                                [a for a in sys.argv[3:] if not a.isdigit()])):
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
