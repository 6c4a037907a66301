#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random valid ONNX models against ONNX Runtime: `qcalib run` of the float model, then of the quantized one, by the default job and by
options drawn from the library's table.

    graph_fuzz.py --count 500               # another seed each time, printed first
    graph_fuzz.py --seed 7 --count 1 --keep DIR   # one graph again; what fails is made smaller and written to DIR
    graph_fuzz.py --count 500 --every 20    # the program runs every 20th graph, the library the others (graph_worker.py)
    graph_fuzz.py --count 500 --openvino 2 --litert 4   # every 2nd graph also for OpenVINO and in it, every 4th in LiteRT
    graph_fuzz.py --count 500 --log graphs.jsonl        # goes on where the last run with this file ended, and adds its counts to it
    graph_fuzz.py --count 500 --avx2 10     # the default jobs of every 10th graph also in ONNX Runtime without VNNI (avx2_runtime.py)

A model is made node by node. ONNX Runtime runs each node alone, once on its operands and once on operands that are a little off, so that
the result has a known value and a known uncertainty. A node that it refuses or that is ill-conditioned is left out. The difference that is
allowed is that uncertainty."""

import argparse
import collections
import ctypes
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import avx2_runtime
import graph_worker
import h5py
import numpy as np
import onnx
import openvino_runtime
from onnx import TensorProto, helper, numpy_helper

from graph_failures import ROOT, Failure, cpu, keep, recorded, reduced, text_of
from graph_recipes import RECIPES
from graph_reduce import SAMPLES, inner_names, session

LARGEST = 3000  # elements of a tensor
NOISE = {"float32": 1e-5, "float16": 4e-3, "float64": 1e-5}  # of a result, relative to it and a tenth of it to the largest
DISCRETE = {  # a small difference of an operand may become a large one
    *"Floor Ceil Round Sign Mod ArgMax ArgMin TopK NonZero Unique Hardmax Cast OneHot Equal Greater GreaterOrEqual Less LessOrEqual".split(),
    *"Not And Or Xor If Loop IsNaN IsInf Gather DynamicQuantizeLinear Compress BitShift Det Tan".split(),
}
LEVELS = 0.08  # a quantized model: root mean square of the difference over that of the output, where floats stand between integers
NUMBERS = {"min-sqnr": ["10", "30", "90"], "size": ["30%", "60%"], "samples": ["1", "2"], "seed": ["1"], "threads": ["1", "3"]}
OBSERVERS = "auto minmax ema avgmax percentile percentile:p=99 mse mse:norm=3 output kl kl:variant=tensorrt gaussian fixed:min=-2,max=3".split()
OTHERS = {
    "method": OBSERVERS,
    "weight-method": ["minmax", "mse", "percentile", "kl"],
    "skip": ["Conv", "MatMul", "Add", "n3"],
    "rounding": ["onnx", "onnx-avx2", "tflite", "tflite-single", "qnn-upward", "qnn-tonearest", "xnnpack"],
    "accumulator": ["16", "24", "20:wrap", "18:saturate"],
    "memory-limit": ["64M", "2G"],
    "target": "ort openvino fused ort-arm tensorrt tflite tflm cmsis-nn xnnpack qnn vitis tvm integers".split(),
    "only": ["Conv", "MatMul|Gemm"],
    "weight-type": ["int4:Conv", "int16:Gemm", "mxfp4:MatMul", "none:n3"],
    "activation-type": ["int16:Add", "none:Conv", "int8:n3"],
}
OTHER_FORMS = {"encodings": "json", "mnn": "json", "trt-cache": "cache", "text": "txt", "tflite": "tflite"}  # not ONNX
LEFT = {"advice"}  # costs time; drawn rarely below
IN_LITERT = (  # operators of graphs for LiteRT: --format tflite writes most of their forms
    "Abs Add And ArgMax ArgMin AveragePool BatchNormalization Cast Ceil Clip Concat Conv ConvTranspose Cos DepthToSpace Div Elu Equal Exp Expand"
    " Flatten Floor GRU Gather GatherElements Gelu Gemm GlobalAveragePool GlobalMaxPool Greater GreaterOrEqual HardSigmoid HardSwish Identity"
    " InstanceNormalization IsNaN LSTM LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax LpNormalization MatMul Max MaxPool Min Mul Neg"
    " Not Or PRelu Pad Pow RNN Reciprocal ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
    " Relu Reshape Resize Round Shape Sigmoid Sign Sin Slice Softmax Softplus SpaceToDepth Split Sqrt Squeeze Sub Tanh Tile TopK Transpose"
    " Unsqueeze Where"
).split()


OLDER = (  # (operator, opset in which it changed, the attributes that its operands from the second on were)
    ("Squeeze", 13, ["axes"]),
    ("Unsqueeze", 13, ["axes"]),
    ("ReduceSum", 13, ["axes"]),
    ("Split", 13, ["split"]),
    ("Clip", 11, ["min", "max"]),
    ("Pad", 11, ["pads", "value"]),
    ("Slice", 10, ["starts", "ends", "axes"]),
    ("TopK", 10, ["k"]),
)


class Retry(Exception):
    """The recipe does not fit; another is taken."""


@dataclasses.dataclass(eq=False)
class Value:
    """A tensor: per sample what it is, and what it would be if every result had a small error."""

    name: str
    arrays: list
    shadows: list
    exact: bool
    constant: bool

    @property
    def dtype(self):
        return self.arrays[0].dtype

    @property
    def shape(self):
        return self.arrays[0].shape


class Graph:
    """A model that grows."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.opset = int(self.rng.choice([*range(7, 13), *[13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23] * 2]))
        self.ir = 8 if self.opset < 19 else 10 if self.opset < 23 else 11
        self.dynamic = self.chance(0.3)
        self.empty = self.chance(0.04)  # tensors without elements may come
        self.values, self.inputs, self.nodes, self.functions = [], [], [], []
        self.loose = []
        self.initializers, self.used, self.count = {}, collections.Counter(), 0
        batch = int(self.rng.choice([1, 1, 1, 2, 3]))
        for _ in range(int(self.rng.choice([1, 1, 2, 3]))):
            self.input(batch)

    def chance(self, p):
        return self.rng.random() < p

    def name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    def size(self):
        return int(self.rng.choice([1, 1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17]))

    def input(self, batch):
        rank = int(self.rng.choice([2, 2, 3, 4, 4, 4, 5])) if self.chance(0.9) else int(self.rng.integers(0, 2))
        shape = (batch, *(min(self.size(), {1: 1, 2: 17, 3: 13, 4: 8, 5: 4}[rank]) for _ in range(rank - 1))) if rank else ()
        # Integers as data are drawn too, or the model would have them by Cast alone.
        dtype = self.rng.choice(["float32"] * 12 + ["int64", "int32", "float16", "float64"])
        arrays = [np.asarray(self.numbers(shape, dtype), dtype) for _ in range(SAMPLES)]
        noise = [np.asarray(a + a * self.rng.normal(size=shape) * 1e-5, a.dtype) if a.dtype.kind == "f" else a for a in arrays]
        v = Value(self.name("x"), arrays, noise, True, False)
        self.inputs.append(v)
        self.values.append(v)

    def numbers(self, shape, dtype):
        dtype = np.dtype(dtype)
        if dtype == bool:
            return self.rng.random(shape) < 0.5
        if dtype.kind != "f":
            return self.rng.integers(0 if dtype.kind == "u" else -6, 9, shape).astype(dtype)
        return np.asarray(self.rng.normal(size=shape) * self.rng.choice([0.5, 1, 1, 2])).astype(dtype)

    def constant(self, array):
        array = np.asarray(array)
        same = [
            v for v in self.initializers.values() if v.dtype == array.dtype and v.shape == array.shape and array.dtype.kind == "f" and array.ndim
        ]
        if same and self.chance(0.2):
            return same[0]
        shadow = array + (array * 1e-5).astype(array.dtype) if array.dtype.kind == "f" else array
        v = Value(self.name("k"), [array] * SAMPLES, [shadow] * SAMPLES, True, True)
        self.initializers[v.name] = v
        return v

    def weight(self, shape):
        fan = max(1, int(np.prod(shape)) // max(shape))
        return self.constant((self.rng.normal(size=shape) / np.sqrt(fan)).astype(np.float32))

    def pick(self, dtypes, fits=lambda shape: True):
        """A value of one of the types; float32 first, the newest first, and through a Cast where there is none."""
        found = [v for v in self.values if v.dtype.name in dtypes and fits(v.shape)]
        if not found and "float32" not in dtypes:
            found = [self.cast(v, str(self.rng.choice(dtypes))) for v in self.values[-3:] if fits(v.shape)][:1]
        if not found:
            raise Retry
        newest = 1 + int(self.rng.exponential(2))
        return found[-min(newest, len(found))]

    def others(self, v, fits):
        return [w for w in self.values if w is not v and w.dtype == v.dtype and fits(w.shape)]

    def image(self):
        return self.pick(("float32",), lambda s: len(s) in (3, 4, 4, 5))

    def axis(self, v, negative=True):
        axis = int(self.rng.integers(0, len(v.shape)))
        return axis - len(v.shape) if negative and self.chance(0.3) else axis

    def broadcastable(self, v):
        shape = [d if self.chance(0.6) else 1 for d in v.shape]
        return tuple(shape[int(self.rng.integers(0, len(shape) + 1)) :] if self.chance(0.3) else shape)

    def partner(self, v):
        """Another operand: one that fits, or a constant."""
        same = self.others(v, lambda s: s == v.shape or (len(s) == len(v.shape) and all(1 in (a, b) or a == b for a, b in zip(s, v.shape))))
        if same and self.chance(0.55):
            return same[int(self.rng.integers(len(same)))]
        return v if self.chance(0.05) else self.constant(self.numbers(self.broadcastable(v), v.dtype))

    def condition(self):
        found = [v for v in self.values if v.dtype == bool]
        if found and self.chance(0.7):
            return found[int(self.rng.integers(len(found)))]
        v = self.pick(("float32",))
        return self.op("Greater", v, self.constant(np.array(0.125, v.dtype)))

    def integers(self, dtype=None):
        return self.cast(self.pick(("float32", "int32", "int64")), dtype or str(self.rng.choice(["int32", "int64", "int8"])))

    def cast(self, v, to):
        if to.startswith("u") and v.dtype.kind != "u":
            v = self.op("Abs", v)
        if v.dtype.kind == "f" and not to.startswith(("float", "bool")):
            v = self.op("Mul", v, self.constant(np.array(1.7, v.dtype)))
        return self.op("Cast", v, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))

    def window(self, image, kernel, dilations=True):
        """Attributes of a window that lies on the image; `kernel` is made smaller where it does not."""
        spatial = len(kernel)
        strides = [int(self.rng.choice([1, 1, 2, 3])) for _ in range(spatial)]
        attributes = {"kernel_shape": kernel, "strides": strides}
        kind = self.rng.integers(4)
        if kind == 0:
            attributes["auto_pad"] = str(self.rng.choice(["SAME_UPPER", "SAME_LOWER", "VALID"]))
            strides[:] = [min(s, k) for s, k in zip(strides, kernel)]  # else pools are refused: runtimes differ
        elif kind == 1:
            attributes["pads"] = [int(self.rng.integers(0, k)) for k in kernel * 2]
        if kind != 0:
            kernel[:] = [min(k, d) for k, d in zip(kernel, image.shape[2:])]
            attributes["pads"] = [min(p, k - 1) for p, k in zip(attributes["pads"], kernel * 2)] if kind == 1 else [0] * 2 * spatial
        elif attributes["auto_pad"] == "VALID":
            kernel[:] = [min(k, d) for k, d in zip(kernel, image.shape[2:])]
        if dilations and kind != 0 and self.chance(0.2):
            fits = [(k - 1) * 2 < d for k, d in zip(kernel, image.shape[2:])]
            attributes["dilations"] = [int(self.rng.integers(1, 3)) if f else 1 for f in fits]
        return attributes

    def model(self, nodes, outputs, inputs, constants):
        value_infos = [helper.make_tensor_value_info(v.name, helper.np_dtype_to_tensor_dtype(v.dtype), shape) for v, shape in inputs]
        initializers = [numpy_helper.from_array(v.arrays[0], v.name) for v in constants]
        graph = helper.make_graph(nodes, "random", value_infos, outputs, initializers)
        opsets = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid("local", 1)] * bool(self.functions)
        return helper.make_model(graph, opset_imports=opsets, ir_version=self.ir, functions=self.functions)

    def of_opset(self, op, operands):
        """(operands, attributes) of older operators, whose attributes became operands later."""
        if not any(op == name and self.opset < since for name, since, _ in OLDER):
            return operands, {}
        names = next(names for name, since, names in OLDER if name == op and self.opset < since)
        kept, attributes = operands[: 1 + names.count(None)], {}
        for name, v in zip(names, operands[1:]):
            if name and v is not None:
                if not v.constant:
                    raise Retry
                attributes[name] = v.arrays[0].tolist() if name not in ("k", "to") else int(v.arrays[0].ravel()[0])
        if op == "Slice" and len(operands) > 4 and (operands[4].arrays[0] != 1).any():
            raise Retry
        return kept, attributes

    def op(self, op, *operands, outputs=1, domain="", outer=(), **attributes):
        """Adds a node and returns its results, one Value or a tuple."""
        names = [self.name("t") for _ in range(outputs)]
        operands, more = self.of_opset(op, operands)
        attributes |= more
        node = helper.make_node(
            op, [o.name if o is not None else "" for o in operands], names, name=self.name("n"), domain=domain, **attributes
        )
        known = list({v.name: v for v in (*operands, *outer) if v is not None}.values())
        constants = [v for v in known if v.constant]
        others = [v for v in known if not v.constant]
        infos = [helper.make_empty_tensor_value_info(n) for n in names]
        try:
            fed = [v for v in known if v.dtype.kind == "f" or not v.constant]
            alone = self.model([node], infos, [(v, v.shape) for v in fed], [v for v in constants if v.dtype.kind != "f"])
            runs = session(alone.SerializeToString(), optimized=False)
            arrays = [runs.run(names, {v.name: v.arrays[i] for v in fed}) for i in range(SAMPLES)]
            shadows = [runs.run(names, {v.name: v.shadows[i] for v in fed}) for i in range(SAMPLES)]
            whole = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in zip(names, arrays[0])]
            onnx.checker.check_model(self.model([node], whole, [(v, v.shape) for v in others], constants))
        except Exception as error:
            raise Retry(str(error)) from None
        results = [
            self.accepted(n, [a[k] for a in arrays], [s[k] for s in shadows], all(v.exact for v in known)) for k, n in enumerate(names)
        ]
        self.nodes.append(node)
        self.used[op if domain == "" else "Function"] += 1
        # Sizes that the data give: nothing reads those, for they change when a value is rounded.
        (self.loose if op in ("NonZero", "Unique") else self.values).extend(results)
        return results[0] if outputs == 1 else tuple(results)

    def accepted(self, name, arrays, shadows, exact):
        noisy = []
        for a, s in zip(arrays, shadows):
            if not isinstance(a, np.ndarray) or a.size > LARGEST or a.shape != arrays[0].shape or s.shape != a.shape or a.ndim > 6:
                raise Retry("size")
            if not a.size and not self.empty:
                raise Retry("size")
            if a.dtype.kind == "f" and a.size:
                top = np.abs(a).max()
                if not np.isfinite(a).all() or top > 300 or (0 < top < 1e-3) or not np.isfinite(s).all():
                    raise Retry("range")
                if np.abs(a - s).max() > (2e-3 if a.dtype != np.float16 else 3e-2) * top:
                    raise Retry("ill-conditioned")
                noise = NOISE[a.dtype.name] * (np.abs(a) + 0.1 * top) * self.rng.normal(size=a.shape)
                lost = (a != 0) & (np.abs(a) < NOISE[a.dtype.name] * 0.1 * top)  # another order of a sum may give 0
                s = np.where(lost, 0, s + noise).astype(a.dtype)
            elif not np.array_equal(a, s):
                raise Retry("ill-conditioned")
            elif a.dtype.kind in "iu" and a.dtype.itemsize > 2 and a.size and np.abs(a.astype(np.float64)).max() > 1e6:
                raise Retry("range")  # an overflow wraps or saturates
            noisy.append(s)
        return Value(name, arrays, noisy, exact and arrays[0].dtype.kind != "f", False)


def random_graph(seed, steps=None, names=None):
    """(Graph, model, outputs). One operator of each graph is drawn evenly, so that rare ones come too. names: of the operators; then
    the first one is a product."""
    g = Graph(seed)
    product = 1 if names else 0.4
    names = names or list(RECIPES)
    weights = np.array([RECIPES[n][1] for n in names], float)
    steps = steps or int(g.rng.choice([1, 2, 4, 6, 9, 12]))
    made = tries = 0
    while made < steps and tries < 12 * steps:
        tries += 1
        even = made == 1 or steps == 1
        op = str(g.rng.choice(names, p=None if even else weights / weights.sum()))
        op = str(g.rng.choice(["Conv", "MatMul", "Gemm"])) if not made and steps > 1 and g.chance(product) else op  # else nothing is quantized
        before = len(g.nodes), len(g.values)
        try:
            RECIPES[op][0](g, op)
            made += 1
        except (Retry, ValueError, IndexError):  # the latter: a recipe for other shapes
            del g.nodes[before[0] :], g.values[before[1] :]
    if not g.nodes:
        return random_graph(seed + 1_000_003, steps, names if product == 1 else None)
    read = {i for n in g.nodes for i in n.input}
    results = [v for v in g.values + g.loose if v not in g.inputs]
    ends = [v for v in results if v.name not in read]
    more = [v for v in results if v.name in read and g.chance(0.1)]
    ends = (ends + more)[:6]
    shape = lambda v: [("N" if g.dynamic and i == 0 else d) for i, d in enumerate(v.shape)]
    read = {i for n in g.nodes for i in n.input} | inner_names(g.nodes)
    unused = g.chance(0.1)
    inputs = [(v, shape(v)) for v in g.inputs if v.name in read or unused]
    constants = [v for v in g.initializers.values() if v.name in read]
    if ends and g.chance(0.03):
        ends.append(g.op("Identity", ends[0]))  # one value as two outputs
    given = [v for v in constants if v.dtype.name in ("float32", "int64")]
    if given and g.chance(0.05):  # an initializer as an output
        ends.append(given[int(g.rng.integers(len(given)))])
    elif g.chance(0.15):  # some constants as nodes
        for v in constants[: len(constants) // 2]:
            g.nodes.insert(0, helper.make_node("Constant", [], [v.name], value=numpy_helper.from_array(v.arrays[0]), name=g.name("n")))
        constants = constants[len(constants) // 2 :]
    outputs = [helper.make_tensor_value_info(v.name, helper.np_dtype_to_tensor_dtype(v.dtype), [None] * len(v.shape) if g.dynamic else v.shape) for v in ends]
    model = g.model(g.nodes, outputs, inputs, constants)
    return g, model, ends


def option_table(library):
    """[(name, argument, choices)] of the options of `quantize`."""

    class Option(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), *((n, ctypes.c_char_p) for n in ("name", "argument", "preset", "choices", "help")),
                    ("value", ctypes.c_int), ("jobs", ctypes.c_uint)]

    loaded = ctypes.CDLL(str(library))
    loaded.qcalib_option_count.restype = ctypes.c_size_t
    rows = []
    for i in range(loaded.qcalib_option_count()):
        row = Option(size=ctypes.sizeof(Option))
        assert loaded.qcalib_option_at(ctypes.byref(row), ctypes.c_size_t(i), None) == 0
        if row.jobs & 1:
            rows.append((row.name.decode(), (row.argument or b"").decode(), row.choices.decode().split("|") if row.choices else []))
    return rows


def random_options(rng, table):
    chosen = []
    for i in rng.permutation(len(table))[: int(rng.integers(1, 8))]:
        name, argument, choices = table[i]
        values = choices + NUMBERS.get(name, []) + OTHERS.get(name, [])
        if name == "io-type" or name in LEFT and rng.random() < 0.8 or not values and argument:  # inputs are fed as the model has them
            continue
        chosen.append(f"--{name}={rng.choice(values)}" if values else f"--{name}")
    speed = any(o.startswith("--prefer=") for o in chosen) or rng.random() < 0.3  # which leaves most small networks in float
    return chosen if speed or not chosen else [*chosen, "--prefer=integers"]


class Checks:
    """Runs the program in a folder, or the library (a graph_worker.Worker) without files."""

    def __init__(self, program, folder, library=None):
        self.program, self.folder, self.library = str(program), pathlib.Path(folder), library
        self.table = option_table(pathlib.Path(program).parent / "libqcalib.so")
        self.done, self.said = collections.Counter(), ""
        self.avx2 = False  # default jobs also in ONNX Runtime with the kernels that saturate
        self.openvino = self.litert = None  # an OpenVino, a LiteRt: jobs for these targets also run there
        self.ran = set()  # the runtimes in which a file of this graph ran

    def qcalib(self, *arguments, fine=(0,)):
        try:
            made = subprocess.run([self.program, *arguments], cwd=self.folder, capture_output=True, text=True, errors="replace", timeout=300,
                                  stdin=subprocess.DEVNULL, check=False)
        except subprocess.TimeoutExpired:
            raise Failure("hangs", " ".join(arguments)) from None
        self.said = said = f"qcalib {' '.join(arguments)}\n{made.stderr.strip()[-1500:]}"
        if made.returncode < 0:
            raise Failure(f"{arguments[0]} {signal.Signals(-made.returncode).name}", said)
        if "Sanitizer" in made.stderr or "runtime error:" in made.stderr:
            raise Failure(f"{arguments[0]} sanitizer", said)
        if made.returncode not in fine:
            raise Failure(f"{arguments[0]} exit {made.returncode}", said)
        if made.returncode and "qcalib: " not in made.stderr:
            raise Failure(f"{arguments[0]} says nothing", said)
        return made.returncode

    def asked(self, job, model, feeds, *options, fine=(0,)):
        """The same by the library; the results of the job."""
        arrays = {name: np.stack(parts) for name, parts in feeds.items()}
        code, text, results = self.library.ask(job, model, arrays, options)
        self.said = said = f"{job} {' '.join(options)} by the library\n{text[-1500:]}"
        if code == -signal.SIGALRM:
            raise Failure("hangs", said)
        if code < 0 or (code and not text):
            raise Failure(f"{job} {signal.Signals(-code).name if code < 0 else 'ends the process'}", said)
        if code not in fine:
            raise Failure(f"{job} exit {code}", said)
        return code, results

    def outputs(self, model, feeds):
        """Of a model, {name: all samples}. model: a file of the folder, or its bytes."""
        if self.library:
            found = self.asked("run", model, feeds, "--threads=1")[1]
            return {n: np.stack(parts) if len({p.shape for p in parts}) == 1 else None for n, parts in found.items()}
        self.qcalib("run", "--threads=1", model, "--data=x.h5", "-o", "y.h5")
        with h5py.File(self.folder / "y.h5") as file:
            found = {}
            file.visititems(lambda name, at: found.update({name: at[()]}) if isinstance(at, h5py.Dataset) else None)
            return found

    def channels_last(self, model, feeds):
        """Runs a .tflite file, unless it asks for a layout of the samples that shapes do not tell."""
        try:
            self.outputs(model, feeds)
        except Failure as failure:
            volumes = any(a[0].ndim == 5 for a in feeds.values())  # no layout is proposed for these
            if "its channels are first: read it with" not in str(failure) and not (volumes and "its shape does not fit" in str(failure)):
                raise

    def write(self, model, feeds):
        """The float model and its samples as files. Returns what the jobs are given."""
        if self.library:
            return model.SerializeToString()
        for old in self.folder.glob("*"):
            if old.is_file():
                old.unlink()
        onnx.save(model, self.folder / "m.onnx")
        with h5py.File(self.folder / "x.h5", "w") as file:
            for name, arrays in feeds.items():
                file[name] = np.stack(arrays)
        return "m.onnx"

    def runtime(self, model, feeds, **how):
        try:
            loaded = session(model if isinstance(model, bytes) else self.folder / model, **how)
            names = [o.name for o in loaded.get_outputs()]
            floats = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
            types = {v.name: floats.get(v.type) for v in loaded.get_inputs()}  # of annotated files they differ: docs/annotated.md
            parts = [loaded.run(names, {n: feeds[n][i].astype(t or feeds[n][i].dtype) for n, t in types.items()}) for i in range(SAMPLES)]
        except Exception as error:
            return str(error)
        self.ran.add("ONNX Runtime")
        return {n: [p[k] for p in parts] for k, n in enumerate(names)}

    @staticmethod
    def near(have, want, allowed):
        if want.dtype.kind != "f":
            return np.array_equal(have, want)
        most = allowed + 1e-5 * max(1e-3, np.abs(want).max(initial=0))
        return bool((np.abs(have.astype(np.float64) - want) <= most).all())

    def float_model(self, model, feeds, allowed):
        """`allowed`: {output: per sample what may differ, an array}."""
        written = self.write(model, feeds)
        onnx.checker.check_model(model)
        want, plain = self.runtime(written, feeds), None
        if isinstance(want, str):
            self.done["refused by ONNX Runtime"] += 1
            return False
        try:
            got = self.outputs(written, feeds)
        except Failure as failure:
            if "element type" not in str(failure):
                raise
            self.done["types without a kernel"] += 1  # docs/operators.md does not promise every type
            return False
        for name, arrays in want.items():
            w, have = np.stack(arrays), got.get(name)
            if have is None or have.size != w.size:
                raise Failure("run shape", f"{name}: {None if have is None else have.shape}, expected {w.shape}")
            have = have.reshape(w.shape)
            if self.near(have, w, allowed[name]):
                continue
            plain = plain or self.runtime(written, feeds, optimized=False)  # its optimized kernels differ more
            if isinstance(plain, str):
                self.done["refused by ONNX Runtime"] += 1
                return False
            p = np.stack(plain[name])
            if not self.near(have, w, allowed[name] + np.abs(w - p) if w.dtype.kind == "f" else 0) and not (w.dtype.kind != "f" and np.array_equal(have, p)):
                raise Failure("run differs", f"{name}: {w.ravel()[:8]} expected, {have.ravel()[:8]}; largest {np.abs(w).max()}")
        self.done["float models"] += 1
        return True

    def quantized(self, model, feeds, *options, strict=False):
        """The job and what it writes. Options may be refused; the default job may not."""
        fine = (0, 4) if strict else (0, 1, 2, 3, 4, 5) if "--memory-limit=64M" in options else (0, 1, 2, 3, 4)
        advice = [] if any("--advice" in o for o in options) else ["--advice=off"]
        threads = [] if any("--threads" in o for o in options) else ["--threads=1"]
        code, made = self.job(model, feeds, *advice, *threads, *options, fine=fine)
        if code:
            if strict and "nothing to quantize" not in self.said:
                raise Failure(f"quantize exit {code}", self.said)
            self.done["nothing to quantize" if "nothing to quantize" in self.said else f"options refused, exit {code}"] += 1
            return
        if not made:
            raise Failure("nothing written", " ".join(options))
        for file, content in made:
            if not file.endswith(".onnx"):
                if file.endswith(".tflite"):
                    self.channels_last(content, feeds)
                self.done["files of other forms"] += 1
                continue
            graph = (onnx.load_model_from_string(content) if isinstance(content, bytes) else onnx.load(self.folder / content)).graph
            if any(k.data_type == TensorProto.FLOAT4E2M1 for k in graph.initializer):  # ONNX Runtime has no kernel for it
                self.done["files not loaded"] += 1
                continue
            want = self.runtime(content, feeds)
            if isinstance(want, str):
                raise Failure("does not load", f"{file}: {want[:600]}")
            self.done["files loaded"] += 1
            if ".annotated." in file:
                continue
            got = self.outputs(content, feeds)
            other = any(o.startswith(("--rounding", "--accumulator=")) for o in options)
            # One bit of a float32 sum decides between levels of few bits, which are far apart.
            other = other or any(re.search("-type=(float|mx|nvfp|bfp)", o) for o in options)
            other = other or "--overflow-fix=off" in options and avx2_runtime.kernels() == "saturating"
            self.compared(file, graph, want, got, bound=strict, values=not other)
            if self.avx2 and strict:
                given = content if isinstance(content, bytes) else str(self.folder / content)
                try:
                    want = avx2_runtime.saturating_worker().ask("run_each", given, [{n: a[i] for n, a in feeds.items()} for i in range(SAMPLES)])
                except avx2_runtime.RuntimeFailed as error:
                    raise Failure("does not load with AVX2", f"{file}: {error}") from None
                self.ran.add("ONNX Runtime with AVX2")
                self.compared(file, graph, want, got, bound=strict, values=True, where=" with AVX2")

    def job(self, model, feeds, *options, fine):
        """(exit code, [(name, content)] of the files): content is as for `outputs`."""
        if not self.library:
            code = self.qcalib("quantize", *options, "--no-report", "--data=x.h5", "m.onnx", fine=fine)
            return code, sorted((p.name, p.name) for p in self.folder.glob("m.*") if p.name != "m.onnx")
        code, results = self.asked("quantize", model.SerializeToString(), feeds, *options, fine=fine)
        return code, [(f"m.{form}.{OTHER_FORMS.get(form, 'onnx')}", content) for form, content in results or ()]

    def in_openvino(self, model, feeds):
        """The file of --target=openvino in OpenVINO is as near to the float model as in ONNX Runtime. What OpenVINO computes
        otherwise in the float model is left out."""
        samples = [{n: a[i] for n, a in feeds.items()} for i in range(SAMPLES)]
        given = model.SerializeToString()
        doubles = any(a[0].dtype == np.float64 for a in feeds.values()) or any(
            a.name == "to" and a.i == TensorProto.DOUBLE for n in model.graph.node for a in n.attribute
        )
        real, floats = self.runtime(given, feeds), "of doubles" if doubles else self.openvino.run(given, samples)
        if isinstance(floats, str) or isinstance(real, str):
            self.done["refused by OpenVINO"] += 1
            return
        code, made = self.job(model, feeds, "--advice=off", "--threads=1", "--target=openvino", "--prefer=integers", fine=(0, 4))
        for _, content in made if not code else ():
            content = content if isinstance(content, bytes) else (self.folder / content).read_bytes()
            read = {i for n in onnx.load_model_from_string(content).graph.node for i in n.input}  # it has no other inputs
            got = self.openvino.run(content, [{n: v for n, v in sample.items() if n in read} for sample in samples])
            want = self.runtime(content, feeds)
            if isinstance(got, str):
                raise Failure("does not load in OpenVINO", got[:600])
            if isinstance(want, str):
                want = self.runtime(content, feeds, optimized=False)  # its optimizations refuse an int8 MaxPool with indices
            if isinstance(want, str):
                raise Failure("file for OpenVINO does not load", want[:600])
            self.ran.add("OpenVINO")
            self.nearly(model, real, want, got, "OpenVINO", floats)

    def in_litert(self, model, feeds):
        """The .tflite file in LiteRT is as near to the float model as the same network in ONNX Runtime. Shapes tell which axis has the
        channels, so a model with an input of equal sizes is left out."""
        if any(self.ambiguous(a[0].shape) for a in feeds.values()):
            self.done["layout unknown in LiteRT"] += 1
            return
        options = ("--advice=off", "--threads=1", "--format=tflite,qdq", "--prefer=integers")
        code, made = self.job(model, feeds, *options, fine=(0, 2, 3, 4))
        if code:
            self.done["refused for LiteRT"] += 1
            return
        read = [c if isinstance(c, bytes) else (self.folder / c).read_bytes() for form in (".tflite", ".onnx") for n, c in made if n.endswith(form)]
        got = self.litert.run(read[0], [{n: a[i] for n, a in feeds.items()} for i in range(SAMPLES)])
        if got == "the file has another size of the batch":
            self.done["batch fixed in LiteRT"] += 1
            return
        if isinstance(got, str):
            raise Failure("does not load in LiteRT", got[:600])
        self.ran.add("LiteRT")
        real, want = self.runtime(model.SerializeToString(), feeds), self.runtime(read[1], feeds)
        for part in got:
            for name, arrays in real.items():
                shape = arrays[0].shape
                if name in part and part[name].shape != shape and part[name].ndim == len(shape) > 2:
                    part[name] = np.moveaxis(part[name], -1, 1)
        self.nearly(model, {n: a for n, a in real.items() if not self.ambiguous(a[0].shape)}, want, got, "LiteRT")

    @staticmethod
    def ambiguous(shape):
        return len(shape) > 2 and shape[1] > 1 and len(set(shape[1:])) == 1

    def nearly(self, model, real, want, got, where, floats=None):
        """Outputs of another runtime are as near to those of the float model as in ONNX Runtime. floats: of the float model there."""
        discrete = DISCRETE & {n.op_type for n in model.graph.node}
        for name, arrays in real.items():
            if discrete or arrays[0].dtype.kind != "f" or len({a.shape for a in arrays}) > 1 or not arrays[0].size:
                self.done[f"outputs not compared in {where}"] += 1
                continue
            exact, theirs, ours, both = (
                np.stack([np.asarray(p, np.float64) for p in parts])
                for parts in (arrays, [f[name] for f in floats] if floats else arrays, want[name], [g[name] for g in got])
            )
            if both.shape != exact.shape == theirs.shape:
                raise Failure(f"shape in {where}", f"{name}: {both.shape}, expected {exact.shape}")
            size = np.sqrt(max(1e-12, (exact**2).mean()))
            apart = [np.sqrt(((x - exact) ** 2).mean()) / size if x.shape == exact.shape else np.inf for x in (theirs, ours, both)]
            if not apart[0] < 1e-3:
                self.done[f"outputs of the float model differ in {where}"] += 1
            elif not apart[2] <= 1.5 * apart[1] + 0.02:
                raise Failure(f"{where} differs", f"{name}: {apart[2]:.3g} of its size from the float model, {apart[1]:.3g} in ONNX Runtime")
            else:
                self.done[f"outputs near in {where}"] += 1

    def compared(self, file, graph, want, got, bound, values, where=""):
        ops = {n.op_type for n in graph.node}
        for name, arrays in want.items():
            if len({a.shape for a in arrays}) > 1:  # by the data
                self.done["outputs not compared" + where] += 1
                continue
            w, have = np.stack(arrays), got.get(name)
            if have is None and ops & {"NonZero", "Unique"}:  # the size of a sample depends on its data
                self.done["outputs not compared" + where] += 1
                continue
            if have is None or have.size != w.size:
                raise Failure("shape of the quantized" + where, f"{file}, {name}: {None if have is None else have.shape}, expected {w.shape}")
            have = have.reshape(w.shape)
            if np.array_equal(have, w, equal_nan=w.dtype.kind == "f"):
                self.done["outputs equal" + where] += 1
            elif w.dtype.kind != "f" or ops & DISCRETE or not values:
                self.done["outputs not compared" + where] += 1
            else:
                apart = (have.astype(np.float64) - w).ravel()
                share = np.sqrt((apart**2).mean() / max(1e-12, (w.astype(np.float64) ** 2).mean()))
                if not share <= (LEVELS if bound else 4 * LEVELS):
                    raise Failure("quantized differs" + where, f"{file}, {name}: {share:.3g} of its size, by {np.abs(apart).max():.3g} at most")
                self.done["outputs near" + where] += 1


def checked(seed, checks):
    """Makes and checks the graph of a seed. Returns (Graph, Failure or None, and what repeats it: model, inputs, check)."""
    g, model, ends = random_graph(seed, names=IN_LITERT if checks.litert else None)
    feeds = {v.name: v.arrays for v in g.inputs if v.name in {i.name for i in model.graph.input}}
    if not feeds:
        return g, None, None
    allowed = {v.name: np.abs(np.stack(v.arrays).astype(np.float64) - np.stack(v.shadows)) * 4 + 1e-4 * np.abs(v.arrays).max(initial=0) * (v.dtype.kind == "f")
               * (30 if v.dtype == np.float16 else 1) for v in ends}
    options = random_options(np.random.default_rng(seed + 17), checks.table)
    mixed = {"float16": 3e-2, "float64": 1e-3}

    def of_float(m, f):
        scales = {o.name: allowed.get(o.name, np.array(mixed.get(helper.tensor_dtype_to_np_dtype(o.type.tensor_type.elem_type).name, 1e-3))) for o in m.graph.output}
        return checks.float_model(m, f, scales)

    def of_default(m, f):
        checks.write(m, f)
        checks.quantized(m, f, strict=True)

    def of_integers(m, f):
        checks.write(m, f)
        checks.quantized(m, f, "--prefer=integers", strict=True)

    def of_options(m, f):
        checks.write(m, f)
        checks.quantized(m, f, *options)

    def of_openvino(m, f):
        checks.write(m, f)
        checks.in_openvino(m, f)

    def of_litert(m, f):
        checks.write(m, f)
        checks.in_litert(m, f)

    current = of_float
    try:
        if of_float(model, feeds):
            already = {"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"} & {n.op_type for n in model.graph.node}
            if not already and any(a[0].dtype.kind == "f" for a in feeds.values()):
                current = of_default
                of_default(model, feeds)
                checks.done["default jobs"] += 1
                current = of_integers
                of_integers(model, feeds)
                if checks.openvino:
                    current = of_openvino
                    of_openvino(model, feeds)
                if checks.litert:
                    current = of_litert
                    of_litert(model, feeds)
                if options:
                    current = of_options
                    of_options(model, feeds)
                    checks.done["jobs with options"] += 1
    except Failure as failure:
        return g, failure, (model, feeds, current, options if current is of_options else [])
    return g, None, None


def campaign(first, count, program, folder, keep_in=None, seconds=None, shrink=True, every=1, avx2=0, openvino=0, litert=0):
    """Checks `count` graphs from a seed on, those that `every` divides by the program, those that `avx2` divides also without VNNI, and
    those that `openvino` and `litert` divide also in OpenVINO and LiteRT. Returns (Checks, operators, failures as texts)."""
    checks, used, failures = Checks(program, folder), collections.Counter(), []
    worker = graph_worker.Worker(pathlib.Path(program).parent / "libqcalib.so")
    runtimes = openvino_runtime.OpenVino(), openvino_runtime.LiteRt()
    begun = cpu()
    for seed in range(first, first + count):
        if seconds and cpu() - begun > seconds:
            break
        checks.done["graphs"] += 1
        checks.library = worker if seed % every else None
        checks.avx2 = avx2 and seed % avx2 == 0
        checks.openvino = runtimes[0] if openvino and seed % openvino == 0 else None
        checks.litert = runtimes[1] if litert and seed % litert == 0 else None
        checks.ran.clear()
        g, failure, repeat = checked(seed, checks)
        used.update(g.used)
        checks.done.update(f"graphs in {runtime}" for runtime in checks.ran)
        if failure:
            model, feeds, check, options = repeat
            if shrink:
                model, feeds = reduced(failure, model, feeds, check)
            text = f"seed {seed}: {failure}\n{' '.join(options)}\n{text_of(model)[:3000]}"
            failures.append(text)
            print(text, end="\n\n", flush=True)
            if keep_in:
                keep(keep_in, seed, failure, model, feeds, options)
    for process in worker, *runtimes:
        process.close()
    return checks, used, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, help="of the first graph; one that the clock gives if left out")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seconds", type=float, help="end after so much processor time")
    parser.add_argument("--every", type=int, default=20, help="the program runs one graph of so many, the library the others")
    parser.add_argument("--avx2", type=int, default=0, help="one graph of so many also in ONNX Runtime without VNNI")
    parser.add_argument("--openvino", type=int, default=0, help="one graph of so many also in OpenVINO")
    parser.add_argument("--litert", type=int, default=0, help="one graph of so many also in LiteRT, made of operators that it has")
    parser.add_argument("--log", help="file of the seeds and counts of all runs; the next run goes on after its last seed")
    parser.add_argument("--keep", help="folder for what fails")
    parser.add_argument("--program", default=os.environ.get("QCALIB", str(ROOT / "build/release/qcalib")))
    how = parser.parse_args()
    used, begun = collections.Counter(), cpu()
    with tempfile.TemporaryDirectory() as folder:

        def run(first, count):
            left = how.seconds - (cpu() - begun) if how.seconds else None
            if left is not None and left <= 0:
                return None, []
            checks, operators, failures = campaign(first, count, pathlib.Path(how.program).resolve(), folder, how.keep, left, every=how.every,
                                                   avx2=how.avx2, openvino=how.openvino, litert=how.litert)
            used.update(operators)
            return checks.done, failures

        done, failures = recorded(how.log, "graphs", how.seed, how.count, run)
    print("operators:", ", ".join(f"{n} {c}" for n, c in sorted(used.items())))
    print("\n".join(f"{c:8} {n}" for n, c in done.items()))
    print(f"{len(failures)} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
