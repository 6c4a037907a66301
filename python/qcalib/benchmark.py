# SPDX-License-Identifier: Apache-2.0
"""The latency of an ONNX model in a runtime, in milliseconds: for `qcalib --benchmark 'python -m qcalib.benchmark {}'`.

The model runs on random values of its inputs' types and shapes; a dimension without a size is 1. The command prints the
minimum time of a run, because other work on the machine affects the minimum least. Of several models it prints a line
each, with the least and the second least minimum of interleaved rounds.
"""

import argparse
import time

import numpy as np

# Runs before measuring: a runtime allocates memory and tunes kernels in its first runs.
WARM_UP = 3
ROUNDS = 3  # of several models


def sizes(text):
    """"x=1,3,224,224" -> ("x", (1, 3, 224, 224))"""
    name, _, shape = text.rpartition("=")
    try:
        return name, tuple(int(d) for d in shape.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=D,D,..") from None


def values(dtype, shape):
    """Returns small integers, so that indices are in range, or normally distributed floats."""
    random = np.random.default_rng(0)
    if np.dtype(dtype).kind == "f":
        return random.normal(size=shape).astype(dtype)
    return random.integers(0, 2, size=shape).astype(dtype)


def onnxruntime(path, threads, shapes):
    """-> a function that runs the model once"""
    import onnxruntime as ort

    types = {"float": "float32", "double": "float64"}
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {}
    for given in session.get_inputs():
        name = given.type.removeprefix("tensor(").removesuffix(")")
        shape = shapes.get(given.name) or [d if isinstance(d, int) and d > 0 else 1 for d in given.shape]
        feeds[given.name] = values(types.get(name, name), shape)
    return lambda: session.run(None, feeds)


def openvino(path, threads, shapes):
    """-> a function that runs the model once"""
    import openvino as ov

    core = ov.Core()
    model = core.read_model(path)
    model.reshape({given.any_name: shapes.get(given.any_name)
                   or [d.get_length() if d.is_static else 1 for d in given.partial_shape] for given in model.inputs})
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY"})
    request = compiled.create_infer_request()
    feeds = {given.any_name: values(given.element_type.to_dtype(), tuple(given.shape)) for given in compiled.inputs}
    return lambda: request.infer(feeds)


RUNTIMES = {"onnxruntime": onnxruntime, "openvino": openvino}


def measure(run, seconds):
    """Returns the minimum time of a run in milliseconds, over the runs in this number of seconds, at least three."""
    for _ in range(WARM_UP):
        run()
    times = []
    end = time.perf_counter() + seconds
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def measure_in_turn(runs, seconds):
    """Returns the two least minima of interleaved rounds for each run."""
    minima = [[] for _ in runs]
    for _ in range(ROUNDS):
        for run, of in zip(runs, minima):
            of.append(measure(run, seconds / ROUNDS))
    return [sorted(of)[:2] for of in minima]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="qcalib.benchmark", description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="+", metavar="model", help="an ONNX file")
    parser.add_argument("--runtime", choices=RUNTIMES, default="onnxruntime")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="default: 1")
    parser.add_argument("--seconds", type=float, default=0.5, metavar="S", help="time of measurement; default: 0.5")
    parser.add_argument("--shape", type=sizes, action="append", default=[], metavar="NAME=D,D,..",
                        help="of an input; repeatable")
    given = parser.parse_args(arguments)
    try:
        runs = [RUNTIMES[given.runtime](m, given.threads, dict(given.shape)) for m in given.models]
    except ImportError as error:
        parser.exit(2, f"{error}: install {given.runtime}\n")
    if len(runs) == 1:
        print(f"{measure(runs[0], given.seconds):.6f}")
        return
    for least, second in measure_in_turn(runs, given.seconds):
        print(f"{least:.6f} {second:.6f}")


if __name__ == "__main__":
    main()
