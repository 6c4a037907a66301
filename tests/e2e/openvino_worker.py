# SPDX-License-Identifier: Apache-2.0
"""openvino_worker.py JOBS RESULTS: runs models in OpenVINO. JOBS is a pickled list of (model, {input: array}, samples
at a time: 1 if absent), RESULTS one of ({output: array}, the kernels of convolutions and matrix products). ONEDNN_MAX_CPU_ISA caps the instructions of a
process, so each needs its own. Its Python has openvino and numpy alone.

openvino_worker.py: answers pickled requests (model, [{input: array} of each run]) on standard input by [{output: array}], or by
the text of an error (openvino_runtime.py)."""

import functools
import pathlib
import pickle
import sys

import numpy
import openvino
import worker_loop

EXACT = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}


def run(core, path, feeds, batch=1):
    model = core.compile_model(core.read_model(path), "CPU", EXACT)
    count = len(next(iter(feeds.values())))
    parts = [model({name: v[i : i + batch] for name, v in feeds.items()}) for i in range(0, count, batch)]
    outputs = {o.get_any_name(): numpy.concatenate([p[o] for p in parts]) for o in model.outputs}
    about = [op.get_rt_info() for op in model.get_runtime_model().get_ordered_ops()]
    of_products = [a for a in about if a["layerType"].astype(str) in ("Convolution", "FullyConnected", "MatMul")]
    return outputs, sorted({a["primitiveType"].astype(str) for a in of_products})


def run_each(core, model, samples):
    compiled = core.compile_model(core.read_model(model), "CPU", EXACT)
    return [{n: numpy.array(v) for o, v in compiled(feeds).items() for n in o.get_names()} for feeds in samples]


if __name__ == "__main__":
    runtime = openvino.Core()
    if len(sys.argv) == 1:
        worker_loop.serve(functools.partial(run_each, runtime), sys.stdin.buffer, sys.stdout.buffer)
        sys.exit()
    jobs = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
    pathlib.Path(sys.argv[2]).write_bytes(pickle.dumps([run(runtime, *job) for job in jobs]))
