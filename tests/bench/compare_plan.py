#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares bench_plan with ONNX Runtime: outputs on random inputs, and the time of one thread, interleaved in one run.

    compare_plan.py BENCH_PLAN MODEL.onnx[=GRAPH.ir] [MODEL.onnx[=GRAPH.ir] ...]

With GRAPH.ir (what `qcalib quantize --dump realise=GRAPH.ir` wrote beside MODEL.onnx) the plan of that graph, in integers, is compared
with ONNX Runtime on the quantized model.

Needs numpy and onnxruntime."""

import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnxruntime as ort

TYPES = {
    "tensor(float)": np.float32,
    "tensor(int64)": np.int64,
    "tensor(double)": np.float64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
}


def session(path):
    o = ort.SessionOptions()
    o.intra_op_num_threads = o.inter_op_num_threads = 1
    o.log_severity_level = 3
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def make_inputs(s, rng):
    feeds = {}
    for i in s.get_inputs():
        shape = [d if isinstance(d, int) and d > 0 else 1 for d in i.shape]
        t = TYPES[i.type]
        feeds[i.name] = (
            rng.standard_normal(shape) if np.issubdtype(t, np.floating) else rng.integers(0, 100, shape)
        ).astype(t)
    return feeds


def compare(bench, pair, folder):
    path, _, graph = pair.partition("=")
    s = session(path)
    feeds = make_inputs(s, np.random.default_rng(1))
    args = [bench, graph or path, "--out", os.path.join(folder, "out")]
    for k, v in enumerate(feeds.values()):
        name = os.path.join(folder, f"in{k}")
        v.tofile(name)
        args += ["--in", name]
    p = subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ours(n):
        p.stdin.write(f"{n}\n")
        p.stdin.flush()
        return float(p.stdout.readline()) / n

    def theirs(n):
        t = time.perf_counter()
        for _ in range(n):
            s.run(None, feeds)
        return (time.perf_counter() - t) / n

    want = s.run(None, feeds)
    first = ours(1)
    worst = 0.0
    for k, w in enumerate(want):
        got = np.fromfile(os.path.join(folder, f"out.{k}"), w.dtype).reshape(w.shape)
        if w.size:
            diff = np.abs(got.astype(np.float64) - w.astype(np.float64)).max()
            worst = max(worst, diff / max(np.abs(w.astype(np.float64)).max(), 1e-30))
    n = max(1, int(0.05 / max(first, theirs(2))))
    a, b = [], []
    for _ in range(15):
        a.append(ours(n))
        b.append(theirs(n))
    ratio = statistics.median(x / y for x, y in zip(a, b))
    print(
        f"{os.path.basename(path):40s} error {worst:8.1e}   {statistics.median(a) * 1e3:8.3f} ms against {statistics.median(b) * 1e3:8.3f} ms, "
        f"ratio {ratio:5.2f}",
        flush=True,
    )
    p.stdin.close()
    return p.wait() == 0 and worst <= 1e-4


def main():
    ok = True
    for path in sys.argv[2:]:
        with tempfile.TemporaryDirectory() as folder:
            try:
                ok = compare(sys.argv[1], path, folder) and ok
            except (OSError, ValueError, RuntimeError) as e:
                print(f"{os.path.basename(path):40s} {e}")
                ok = False
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
