# SPDX-License-Identifier: Apache-2.0
"""The functions of the package: one for each job of the command line."""

import ctypes
import inspect as _inspect
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping

import numpy as np

from . import _library, _options
from ._data import Data
from ._errors import DemandError, QcalibError, UsageError, of_code
from ._job import perform
from ._metric import Server
from ._model import TYPES, Model
from ._result import Comparison, Metric, Result, Statistics, difference, rows_of
from .benchmark import RUNTIMES

_TEXTS = {
    "MODEL": "a path, the bytes of a file, a Result, an onnx.ModelProto, or what torch.onnx.export gives",
    "DATA": """a path of HDF5, .npz, .npy or a folder of files; arrays by input name; or an iterable of batches or samples
        (dicts, arrays, tuples), as PyTorch's DataLoader or ONNX Runtime's CalibrationDataReader is. A batch has the
        rank of the model's input; without its first axis it is one sample. Iterables are read once, sample by sample,
        and with samples=N no further than that""",
    "PROGRESS": """True, False, or a function (phase, done, total); None: bars of tqdm, where it is installed and a
        terminal or a notebook is there""",
}


def _documented(function):
    """Adds the options of the table to the function's parameters, for help() and editors."""
    job = function.__name__
    text = function.__doc__
    for name, replacement in _TEXTS.items():
        text = text.replace(name, replacement)
    function.__doc__ = f"{text}\n    Options of the command line:\n\n{_options.described(job)}\n    "
    signature = _inspect.signature(function)
    fixed = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    more = [_inspect.Parameter(o.keyword, _inspect.Parameter.KEYWORD_ONLY, default=None) for o in _options.of_job(job)]
    function.__signature__ = signature.replace(parameters=[*fixed, *more])
    return function


def _statistics(given):
    return given if given is None or isinstance(given, Statistics) else Statistics.load(given)


def _benchmark(command):
    """Returns the benchmark command of a runtime that is given by name, otherwise the option unchanged."""
    if command not in RUNTIMES:
        return command
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "benchmark.py")
    return f"{shlex.quote(sys.executable)} {shlex.quote(script)} --runtime {command} {{}}"


def _own_metric(options, eval, model):
    """Makes a function given as metric= a command. Returns its server, or None: a text, or none.

    The function gets the outputs of all held-out samples by name, and the held-out arrays by name.
    """
    metric, prefix = options.get("metric"), ""
    if isinstance(metric, tuple) and len(metric) == 2:
        prefix, metric = f"{metric[0]}:", metric[1]
        if prefix not in ("lower:", "higher:"):
            raise UsageError('metric= takes a function, ("lower", function), or a command with {} for the model file')
    if not callable(metric):
        return None
    if isinstance(eval, (tuple, list)) and len(eval) == 2:
        inputs = eval[0] if isinstance(eval[0], Mapping) else {next(iter(model.input_shapes)): eval[0]}
        batch = {**inputs, "labels": eval[1]}
    elif isinstance(eval, Mapping):
        inputs = {name: eval[name] for name in model.input_shapes if name in eval}
        batch = dict(eval)
    else:
        raise UsageError("metric= with a function needs eval=: arrays by name, or (inputs, labels)")
    same = {name: options[name] for name in ("input", "preprocess", "state") if options.get(name) is not None}
    server = Server(lambda file: metric(run(file, inputs, **same), batch))
    options["metric"] = prefix + server.command()
    return server


def _needed(job, data):
    if data is None:
        raise UsageError(f"{job} needs data=")


@_documented
def quantize(model, data=None, *, out=None, eval=None, statistics=None, progress=None, **options):
    """Calibrates a model on samples and quantizes it: `qcalib quantize`. -> Result

    model: MODEL
    data: DATA
    out: a path, to which the (first) quantized model is written
    eval: held-out samples with labels or a target, like data: (inputs, labels), {"input": ..., "labels": ...}, or a
        loader that gives (inputs, labels). The report then has the accuracy before and after
    statistics: the result of `collect` or `merge`, or the path of a statistics file; instead of data or with it
    progress: PROGRESS
    benchmark: also "onnxruntime" or "openvino", which must be installed; measured with one thread
    metric: also a function of (outputs, batch), the outputs of the samples of eval and eval itself as arrays by name, or
        ("lower", function) if less is better
    """
    _library.check_path(out)
    model = Model(model)
    server = _own_metric(options, eval, model)
    try:
        return _quantize(model, data, out, None if server else eval, statistics, progress, options)
    except QcalibError as error:
        raise (server and server.error) or error
    finally:
        if server:
            server.close()


def _quantize(model, data, out, eval, statistics, progress, options):
    made = _library.Handle("result")
    options["benchmark"] = _benchmark(options.get("benchmark"))
    said = _options.make("quantize", options)
    samples = None if data is None else Data(data, model, truth=False, options=options)
    # samples and seed apply only to data
    kept = {name: options.get(name) for name in ("input", "state")}
    held_out = None if eval is None else Data(eval, model, truth=True, options=kept)
    error = perform("quantize", [made.out, model.pointer], [], options=said, data=samples, eval=held_out,
                    statistics=_statistics(statistics), progress=progress, out=out)
    if error:
        if isinstance(error, DemandError) and made.pointer:
            error.result = Result(made)
        raise error
    result = Result(made)
    if out is not None:
        result.save(out)
    return result


@_documented
def collect(model, data, *, out=None, progress=None, **options):
    """Runs samples through the float model and collects statistics for quantization: `qcalib collect`. -> Statistics

    model: MODEL
    data: DATA
    out: a path, to which the statistics are written
    progress: PROGRESS
    """
    _needed("collect", data)
    _library.check_path(out)
    made = _library.Handle("statistics")
    said = _options.make("collect", options)
    model = Model(model)
    error = perform("collect", [made.out, model.pointer], [], options=said, progress=progress, out=out,
                    data=Data(data, model, truth=False, options=options))
    if error:
        raise error
    statistics = Statistics(made)
    if out is not None:
        statistics.save(out)
    return statistics


def merge(statistics, *, out=None):
    """Merges statistics of parts of the data. The result is exact and does not depend on the order. -> Statistics

    statistics: an iterable of Statistics or of paths; they are not changed
    out: a path, to which the sum is written
    """
    _library.check_path(out)
    if isinstance(statistics, (str, bytes, os.PathLike, Statistics)) or not hasattr(statistics, "__iter__"):
        raise UsageError(f"merge needs a list of statistics or paths, not {type(statistics).__name__}")
    parts = list(statistics)
    if not parts:
        raise UsageError("merge needs statistics")
    with tempfile.TemporaryDirectory() as folder:
        first = parts[0]
        if isinstance(first, Statistics):
            path = os.path.join(folder, "first.stats.h5")
            first.save(path)
            first = path
        total = Statistics.load(first)
    for part in parts[1:]:
        more = _statistics(part)
        _library.call("statistics_merge", total.pointer, more.pointer)
    if out is not None:
        total.save(out)
    return total


def _dtype(code):
    """Returns the numpy type of an output. Types that numpy lacks become integers with the same bits (4 bits: a
    byte)."""
    return np.dtype({"bfloat16": "uint16", "uint4": "uint8", "int4": "int8"}.get(TYPES[code], TYPES[code]))


class _Outputs:
    """Collects the outputs of each unit of data and joins them."""

    def __init__(self, whole):
        self._whole = whole  # a unit is one sample, not a batch
        self._units = {}
        self.error = None
        self.function = _library.OutputFunction(self._take)

    def _take(self, _user, sample, outputs, count):
        try:
            unit = {}
            for output in outputs[:count]:
                shape = tuple(output.shape[: output.rank])
                dtype = _dtype(output.type)
                size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
                data = ctypes.string_at(output.values, size) if size else b""
                unit[_library.text(output.name)] = np.frombuffer(data, dtype).reshape(shape)
            self._units[sample] = unit
            return 0
        except BaseException as error:  # cannot pass through C: raised after the call
            self.error = error
            return 1

    def joined(self):
        """Returns {name: array}, with a list of arrays for outputs that differ in shape."""
        order = sorted(self._units)
        if not order:
            return {}
        step = order[1] - order[0] if len(order) > 1 else None
        outputs = {}
        for name in self._units[order[0]]:
            arrays = [self._units[k][name] for k in order]
            shape = arrays[0].shape
            batch = not self._whole and len(shape) > 0 and (step is None or shape[0] == step)
            if any(a.shape != shape for a in arrays):
                outputs[name] = arrays
            else:
                outputs[name] = np.concatenate(arrays) if batch else np.stack(arrays)
        return outputs


@_documented
def run(model, data, *, progress=None, **options):
    """Runs a model, float or quantized, in the integer arithmetic of a runtime: `qcalib run`. -> {name: array}

    An output that differs in shape from sample to sample is a list of arrays.

    model: MODEL
    data: DATA
    progress: PROGRESS
    """
    _needed("run", data)
    said = _options.make("run", options)
    model = Model(model)
    samples = Data(data, model, truth=False, options=options)
    outputs = _Outputs(samples.whole)
    error = perform("run", [model.pointer], [outputs.function, None], options=said, data=samples, progress=progress)
    if outputs.error or error:
        raise outputs.error or error
    return outputs.joined()


@_documented
def evaluate(model, data, *, progress=None, **options):
    """Top-1 or PSNR of a model on labelled samples: `qcalib eval`. -> Metric

    model: MODEL
    data: DATA. With "labels" or "target", or a tuple in which they follow the inputs
    progress: PROGRESS
    metric: as for `quantize`; with a command, data may be None
    """
    model = Model(model)
    server = _own_metric(options, data, model)
    own = options.get("metric") is not None and "{outputs}" not in options["metric"]
    if not own:
        _needed("evaluate", data)
    said = _options.make("evaluate", options)
    metric = _library.Metric()
    try:
        error = perform("evaluate", [ctypes.byref(metric), model.pointer], [], options=said, progress=progress,
                        data=None if own else Data(data, model, truth=True, options=options))
        if error:
            raise (server and server.error) or error
    finally:
        if server:
            server.close()
    return Metric(_library.text(metric.name), *(getattr(metric, name) for name in Metric._fields[1:]))


@_documented
def compare(reference, model, data, *, progress=None, **options):
    """Error of a model against another, output by output and layer by layer: `qcalib compare`. -> Comparison

    reference: MODEL
    model: the same
    data: DATA
    progress: PROGRESS
    """
    _needed("compare", data)
    made = _library.Handle("comparison")
    said = _options.make("compare", options)
    reference, model = Model(reference), Model(model)
    error = perform("compare", [made.out, reference.pointer, model.pointer], [], options=said, progress=progress,
                    data=Data(data, reference, truth=False, options=options))
    if error:
        raise error
    return Comparison(rows_of(made, "comparison_output", _library.Difference, difference),
                      rows_of(made, "comparison_layer", _library.Difference, difference))


def _program(command, file, given):
    """Runs a command of the program on a file, with options by their Python names. -> what it prints, as a dict"""
    words = [f"--{name.replace('_', '-')}={os.fspath(item)}" if isinstance(item, os.PathLike)
             else f"--{name.replace('_', '-')}={item}"
             for name, value in given.items() if value is not None
             for item in (value if isinstance(value, (list, tuple)) else [value])]
    done = subprocess.run([_library.PROGRAM, command, "--json", *words, "--", os.fspath(file)], capture_output=True,
                          text=True, check=False, stdin=subprocess.DEVNULL)
    if not done.stdout:
        raise of_code(done.returncode, done.stderr.strip().removeprefix("qcalib: "))
    return json.loads(done.stdout)


def check(file, *, target="ort", data=None, **options):
    """Judges a quantized model file of any tool: `qcalib check --json`. -> dict

    file: a path
    target: the runtime or accelerator, or a file of rules
    data: the path of samples, which show values outside their ranges
    options: those of `qcalib check` for data, such as input, preprocess, samples, state
    """
    return _program("check", file, {"target": target, "data": data, **options})


def convert(file, *, out, format="qdq", **options):
    """Writes a quantized model in another form, or a float one as ONNX or TensorFlow Lite: `qcalib convert --json`. -> dict

    file: a path
    out: the path of the file
    format: of the file, as for `quantize`
    options: those of `qcalib convert`, such as memory_limit
    """
    return _program("convert", file, {"output": out, "format": format, **options})


def inspect(file):
    """Describes a model, data, statistics or a report: `qcalib inspect --json`. -> dict

    file: a path of any of them, or a model as for `quantize`; its "inputs" and "outputs" have name, type and shape
    """
    if isinstance(file, (str, os.PathLike)):
        text = _library.taken_bytes("inspect_file", _library.path_bytes(file))
    else:
        model = Model(file)
        text = _library.taken_bytes("inspect_model", model.pointer)
    return json.loads(text)
