# SPDX-License-Identifier: Apache-2.0
"""runtime_worker.py REQUESTS REPLIES: answers requests for ONNX Runtime, pickled on two pipes given by their numbers, until the first one
closes. avx2_runtime.Worker starts it, emulated or not. It imports nothing but onnxruntime and numpy.

A request is (name of a function below, arguments), a reply (True, result) or (False, (class of the exception, message))."""

import gc
import io
import os
import pickle
import sys

import numpy
import onnxruntime

SESSIONS = {}


def session_options(changes):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    for name, arguments in changes:
        if name.startswith("add_"):
            getattr(options, name)(*arguments)
        else:
            setattr(options, name, *arguments)
    return options


def opened(number, model, changes, more):
    """Opens a session; returns (name, shape, type) of its inputs and of its outputs, and its providers."""
    session = onnxruntime.InferenceSession(model, session_options(changes), **more)
    SESSIONS[number] = session
    arguments = [[(a.name, a.shape, a.type) for a in all_] for all_ in (session.get_inputs(), session.get_outputs())]
    return *arguments, session.get_providers()


def run(number, names, feeds):
    return SESSIONS[number].run(names, feeds)


def close(numbers):
    for number in numbers:
        SESSIONS.pop(number, None)
    gc.collect()


def run_file(model, feeds, entries, batch, severity):
    """The outputs of a model by name. `batch` samples a call, unless the model has a fixed number; the rest of the samples is left out then."""
    changes = [("log_severity_level", (severity,)), *(("add_session_config_entry", e) for e in entries)]
    session = onnxruntime.InferenceSession(model, session_options(changes), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    count = min(len(v) for v in feeds.values())
    fixed = [i.shape[0] for i in session.get_inputs() if i.shape and isinstance(i.shape[0], int)]
    step = fixed[0] if fixed else batch
    starts = range(0, count - count % step if fixed else count, step)
    parts = [session.run(names, {n: v[s : s + step] for n, v in feeds.items()}) for s in starts]
    return {n: numpy.concatenate([p[i] for p in parts]) for i, n in enumerate(names)}


def run_each(model, samples):
    """The outputs of a model by name, a list of what each sample (inputs by name) gives."""
    session = onnxruntime.InferenceSession(model, session_options([("log_severity_level", (4,))]), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    parts = [session.run(names, sample) for sample in samples]
    return {n: [p[i] for p in parts] for i, n in enumerate(names)}


def serve(requests, replies):
    functions = {f.__name__: f for f in (opened, run, close, run_file, run_each)}
    pickle.dump((True, onnxruntime.__version__), replies)
    replies.flush()
    while True:
        try:
            name, arguments = pickle.load(requests)
        except EOFError:
            return
        try:
            reply = True, functions[name](*arguments)
        except Exception as error:  # the caller decides what it means
            reply = False, (type(error).__name__, str(error))
        sys.stderr.flush()
        whole = io.BytesIO()
        pickle.dump(reply, whole, protocol=4)
        replies.write(whole.getbuffer())
        replies.flush()


if __name__ == "__main__":
    serve(os.fdopen(int(sys.argv[1]), "rb"), os.fdopen(int(sys.argv[2]), "wb"))
