# SPDX-License-Identifier: Apache-2.0
"""litert_worker.py: answers pickled requests (bytes of a .tflite file, [{input: array} of each run]) on standard input by
[{output: array}], or by the text of an error (openvino_runtime.py). Kernels are the default ones, XNNPACK's. Arrays have their channels
first, as in the ONNX model: an input or output of another shape has them last. Its Python has ai_edge_litert and numpy alone."""

import sys

import numpy
import worker_loop
from ai_edge_litert.interpreter import Interpreter

OTHER_SIZE = "the file has another size of the batch"  # what a shape is computed from has one


def fits(x, shape):
    return x.ndim == len(shape) and all(d in (-1, s) for d, s in zip(shape, x.shape))


def run_each(model, samples):
    interpreter = Interpreter(model_content=model)
    runner = interpreter.get_signature_runner("serving_default")
    shapes = {name: detail["shape_signature"] for name, detail in runner.get_input_details().items()}
    results = []
    for feeds in samples:
        given = {}
        for name, shape in shapes.items():
            x = feeds[name]
            x = x if fits(x, shape) or x.ndim < 3 else numpy.moveaxis(x, 1, -1)
            if not fits(x, shape):
                return OTHER_SIZE
            given[name] = numpy.array(x, order="C")
        results.append({name: numpy.array(y) for name, y in runner(**given).items()})
    return results


if __name__ == "__main__":
    worker_loop.serve(run_each, sys.stdin.buffer, sys.stdout.buffer)
