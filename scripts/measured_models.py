# SPDX-License-Identifier: Apache-2.0
"""The real models and data for measurements and tests: the data of each model, the conversion of samples to inputs, the
score of outputs, and inference in ONNX Runtime. Used by scripts/accuracy, scripts/benchmark and tests/e2e."""
import dataclasses
import subprocess
import sys
import time

import h5py
import numpy as np
import onnx
import onnx.version_converter

PEER_OPSET = 13
METHODS = ("mse", "minmax", "percentile", "kl")


@dataclasses.dataclass(frozen=True)
class RealModel:
    name: str
    calib: str
    eval: str
    preprocess: str = ""          # overrides the attributes of the data set; "" keeps them

    def options(self, folder):
        """Returns the arguments of qcalib: data and preprocessing, then the model."""
        extra = ["--preprocess", self.preprocess] if self.preprocess else []
        return ["--data", str(folder / self.calib), *extra, str(self.path(folder))]

    def path(self, folder):
        return folder / "models" / f"{self.name}.onnx"


REAL_MODELS = (
    RealModel("resnet20_cifar10", "cifar10_calib.h5", "cifar10_test.h5"),
    RealModel("resnet20_cifar10_bn", "cifar10_calib.h5", "cifar10_test.h5"),
    RealModel("resnet8_cifar10_mlperf", "cifar10_calib.h5", "cifar10_test.h5", preprocess="none"),
    RealModel("dscnn_kws_mlperf", "kws01_calib128.h5", "kws01_eval872.h5"),
    RealModel("dscnn_kws_mlperf_bn", "kws01_calib128.h5", "kws01_eval872.h5"),
    RealModel("mobilenetv1_075_224_imagenet", "imagenet_calib100_224.h5", "imagenet_eval256_224.h5"),
    RealModel("mnist_cntk8", "mnist_calib256.h5", "mnist_eval9744.h5"),
    RealModel("autoencoder_ad_mlperf", "ad01_one_normal.h5", "ad01_one_normal.h5"),
    RealModel("superres_pytorch", "sr_x3_y6.h5", "sr_x3_y6.h5"),
    RealModel("rfb320_face_simplified", "det_unlabelled16_240x320.h5", "det_unlabelled16_240x320.h5"),
)
# Attention stays in float, so statements about all convolutions and matrix products do not hold for these models.
TRANSFORMER = RealModel("text_transformer_agnews", "agnews_calib256.h5", "agnews_eval1600.h5")
LANGUAGE_MODELS = tuple(RealModel(f"{name}_kjv_chars", "kjv_calib96.h5", "kjv_eval192.h5") for name in ("gpt", "lstm"))
BY_NAME = {m.name: m for m in (*REAL_MODELS, TRANSFORMER)}


class Data:
    """A data file: its data set that is neither labels nor target, converted to the model's float32 input."""

    def __init__(self, path, preprocess="", limit=None):
        with h5py.File(path) as f:
            self.key = next(k for k in f if k not in ("labels", "target"))
            self.inputs = self.convert(f[self.key], preprocess, slice(limit))
            self.labels = f["labels"][:limit] if "labels" in f else None
            self.target = self.convert(f["target"], "", slice(limit)) if "target" in f else None
            self.peak = float(f["target"].attrs.get("peak", 1)) if "target" in f else 1.0

    @staticmethod
    def convert(dataset, preprocess, which):
        x = dataset[which]
        if np.issubdtype(x.dtype, np.int64):
            return x
        x = x.astype(np.float32)
        if preprocess == "none":
            return x

        def column(name, absent):
            v = np.atleast_1d(np.asarray(dataset.attrs.get(name, absent), np.float32))
            return v.reshape([1, -1] + [1] * (x.ndim - 2))

        return (x * column("scale", 1) - column("mean", 0)) / column("std", 1)


def for_peers(path):
    """Returns the model at opset 13 or later, for other tools: before opset 13 they refuse per-channel scales or write
    files that do not load."""
    given = onnx.load(path)
    older = next(o.version for o in given.opset_import if o.domain in ("", "ai.onnx")) < PEER_OPSET
    return onnx.version_converter.convert_version(given, PEER_OPSET) if older else given


def spread(total, count):
    """Returns the samples that --samples selects: spread evenly."""
    count = min(count, total)
    return [i * total // count for i in range(count)]


def session(path, threads=1, optimized=None):
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if optimized:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.optimized_model_filepath = str(optimized)
    return ort.InferenceSession(path if isinstance(path, bytes) else str(path), options,
                                providers=["CPUExecutionProvider"])


def infer(path, inputs, threads=1, batch=32):
    """Returns all outputs on all samples, as a list of arrays, and the seconds of the run."""
    s = session(path, threads)
    what = s.get_inputs()[0]
    fixed = what.shape[0] if isinstance(what.shape[0], int) else None
    step = fixed or batch
    begin = time.perf_counter()
    parts = [s.run(None, {what.name: inputs[i:i + step]}) for i in range(0, len(inputs), step)]
    seconds = time.perf_counter() - begin
    return [np.concatenate(p) for p in zip(*parts)], seconds


def top1(outputs, labels):
    """Returns top-1 in percent; position by position if labels have positions."""
    scores = next(o for o in outputs if len(o) == len(labels)).reshape(*labels.shape, -1)
    return 100.0 * float(np.mean(scores.argmax(-1) == labels))


def psnr(outputs, target, peak):
    """Returns PSNR in dB over all elements of all samples."""
    x = np.clip(outputs[0].astype(np.float64), 0, peak)
    return 10 * float(np.log10(peak**2 / np.mean((x - target.astype(np.float64)) ** 2)))


def sqnr(reference, outputs):
    """Returns SQNR in dB for each output: 10 log10(sum r^2 / sum (r - x)^2) over all samples."""
    result = []
    for r, x in zip(reference, outputs):
        r, x = r.astype(np.float64), x.astype(np.float64)
        noise = float(np.sum((r - x) ** 2))
        result.append(10 * float(np.log10(np.sum(r**2) / noise)) if noise else float("inf"))
    return result


def score(outputs, data):
    """Returns (metric, value): top-1 in percent, PSNR in dB, or (None, None)."""
    if data.labels is not None:
        return "top-1", top1(outputs, data.labels)
    if data.target is not None:
        return "PSNR", psnr(outputs, data.target, data.peak)
    return None, None


# The peak memory of a child includes that of its parent at the fork, so a small process starts it. Addresses are not
# randomized and glibc's threshold for mmap is fixed; otherwise the peak varies by 2 MB between runs.
LAUNCHER = """import ctypes, os, sys, time
ctypes.CDLL(None).personality(0x0040000)
os.environ["MALLOC_MMAP_THRESHOLD_"] = "131072"
begin = time.perf_counter()
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
status, usage = os.wait4(child, 0)[1:]
wall = time.perf_counter() - begin
sys.stderr.write(f"{wall} {usage.ru_maxrss * 1024} {os.waitstatus_to_exitcode(status)}\\n")
"""


def run_measured(command, env=None):
    """Returns (stdout, wall seconds, peak resident bytes) of a child process, which must succeed."""
    done = subprocess.run([sys.executable, "-I", "-S", "-c", LAUNCHER, *map(str, command)], capture_output=True,
                          text=True, check=True, env=env)
    said, last = done.stderr.rstrip("\n").rpartition("\n")[::2]
    wall, peak, code = last.split()
    if int(code):
        raise RuntimeError(f"exit {code}: {' '.join(map(str, command))}\n{said}")
    return done.stdout, float(wall), int(peak)
