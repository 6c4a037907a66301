# SPDX-License-Identifier: Apache-2.0
"""run_onnxruntime.py MODEL FEEDS.npz OUTPUTS.npz [KEY=VALUE...]: runs a model on all samples; what ONNX Runtime says goes to standard error.
The rest are entries of the session's configuration.
Runs in the Python of the version under test, so it uses nothing but onnxruntime and numpy."""

import sys

import numpy
import onnxruntime

BATCH = 32


def main(model, given, taken, *entries):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 2  # warnings
    options.intra_op_num_threads = 1
    for entry in entries:
        options.add_session_config_entry(*entry.split("="))
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    with numpy.load(given) as file:
        feeds = {str(n): file[f"a{i}"] for i, n in enumerate(file["names"])}
    count = min(len(v) for v in feeds.values())
    fixed = [i.shape[0] for i in session.get_inputs() if i.shape and isinstance(i.shape[0], int)]
    step = fixed[0] if fixed else BATCH
    names = [o.name for o in session.get_outputs()]
    parts = []
    for start in range(0, count - count % step if fixed else count, step):
        parts.append(session.run(names, {n: v[start : start + step] for n, v in feeds.items()}))
    outputs = [numpy.concatenate([p[i] for p in parts]) for i in range(len(names))]
    numpy.savez(taken, names=numpy.array(names), **{f"a{i}": v for i, v in enumerate(outputs)})


main(*sys.argv[1:])
