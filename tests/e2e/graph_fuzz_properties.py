#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Properties of jobs on the random networks of graph_fuzz.py: a change that must not matter does not change the result.

    graph_fuzz_properties.py --count 1000             # all properties; another seed each time, printed first
    graph_fuzz_properties.py --count 1000 --log properties.jsonl float16    # one property; goes on where the last run ended
    graph_fuzz_properties.py --seed 7 --count 1 --keep DIR cut_at_a_tensor    # one network and one property; what fails is made smaller

Each row of PROPERTIES is a function of a Network. It returns True, False if the network has no place for the change, or raises
graph_failures.Failure."""

import argparse
import collections
import dataclasses
import functools
import os
import pathlib
import sys
import tempfile

import graph_fuzz
import graph_worker
import h5py
import numpy as np
import onnx
from graph_failures import ROOT, Failure, keep, recorded, reduced, text_of
from graph_fuzz import DISCRETE, LEVELS
from graph_recipes import RECIPES
from graph_reduce import everything, info, inner_names
from onnx import AttributeProto, TensorProto, numpy_helper

LINEAR = {"Conv", "ConvTranspose", "MatMul", "Gemm"}
HOMOGENEOUS = set("Relu LeakyRelu MaxPool AveragePool GlobalMaxPool GlobalAveragePool Reshape Transpose Flatten Identity Squeeze Unsqueeze Abs Neg".split())
WITH_TYPES = set("Cast CastLike Resize Upsample EyeLike ConstantOfShape QuantizeLinear DequantizeLinear DynamicQuantizeLinear If Loop Scan".split())


@dataclasses.dataclass
class Network:
    """A float model and its samples, and the job of all properties."""

    seed: int
    model: onnx.ModelProto
    feeds: dict
    checks: graph_fuzz.Checks

    @property
    def rng(self):
        return np.random.default_rng(self.seed + 29)

    @property
    def options(self):
        return ("--prefer=integers",) if self.seed % 4 else ()

    def quantize(self, model=None, feeds=None, *options, threads=1):
        """Bytes of the file; None if there is nothing to quantize."""
        given = (f"--threads={threads}", "--advice=off", *self.options, *options)
        code, made = self.checks.job(model or self.model, feeds or self.feeds, *given, fine=(0, 4))
        if code and "nothing to quantize" not in self.checks.said and "quantized already" not in self.checks.said:
            raise Failure(f"quantize exit {code}", self.checks.said)
        return made[0][1] if made else None

    @functools.cached_property
    def base(self):
        return self.quantize()

    def run(self, model, feeds=None):
        model = model if isinstance(model, bytes) else model.SerializeToString()
        return self.checks.outputs(model, feeds or self.feeds)

    def program(self, *arguments, fine=(0,)):
        return self.checks.qcalib(*arguments, fine=fine)

    def written(self, feeds, name):
        with h5py.File(self.checks.folder / name, "w") as file:
            for key, arrays in feeds.items():
                file[key] = np.stack(arrays)
        return name


def same_bytes(have, want, what):
    if have != want:
        raise Failure("other bytes", what)


def same_outputs(have, want, what, within=0.0):
    """Equal outputs, or with `within` those whose root mean square differs by at most this part of their size."""
    for name, w in want.items():
        h = have.get(name)
        if w is None:  # another shape for each sample
            continue
        if h is None or h.size != w.size:
            raise Failure("other shape", f"{what}: {name}: {None if h is None else h.shape}, expected {w.shape}")
        h = h.reshape(w.shape)
        if np.array_equal(h, w, equal_nan=w.dtype.kind == "f") or (within and w.dtype.kind != "f"):
            continue
        apart = h.astype(np.float64) - w
        share = np.sqrt((apart**2).mean() / max(1e-12, (w.astype(np.float64) ** 2).mean()))
        if not within or not share <= within:
            raise Failure("other outputs", f"{what}: {name}: {share:.3g} of its size, by {np.abs(apart).max():.3g} at most")


def graphs_of(graph):
    """A graph and all its bodies."""
    yield graph
    for node in graph.node:
        for a in node.attribute:
            if a.type == AttributeProto.GRAPH:
                yield from graphs_of(a.g)


def renamed(model, value, node):
    """A copy with value(name) and node(name) in place of the names of values and nodes."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for graph in graphs_of(copy.graph):
        for n in graph.node:
            n.name = node(n.name) if n.name else ""
            n.input[:], n.output[:] = ([value(i) if i else "" for i in names] for names in (n.input, n.output))
        for v in (*graph.initializer, *graph.input, *graph.output, *graph.value_info):
            v.name = value(v.name)
    return copy


def operators(content):
    return sorted(n.op_type for n in onnx.load_model_from_string(content).graph.node)


def order_of_samples(net):
    by = np.roll(np.arange(graph_fuzz.SAMPLES), 1)[:: int(net.rng.choice([-1, 1]))]
    feeds = {n: [a[i] for i in by] for n, a in net.feeds.items()}
    same_bytes(net.quantize(None, feeds), net.base, f"samples in order {by}")
    return True


def threads(net):
    same_bytes(net.quantize(threads=3), net.base, "3 threads")
    return True


def shards(net):
    """Statistics of two parts, merged, and those of all samples."""
    net.checks.library, library = None, net.checks.library
    try:
        net.checks.write(net.model, net.feeds)
        at = int(net.rng.integers(1, graph_fuzz.SAMPLES))
        for name, part in ("whole", slice(None)), ("first", slice(at)), ("second", slice(at, None)):
            net.written({n: a[part] for n, a in net.feeds.items()}, f"{name}.h5")
            net.program("collect", "-q", "--threads=1", f"--data={name}.h5", "m.onnx", "-o", f"{name}.stats.h5")
        net.program("merge", "-q", "first.stats.h5", "second.stats.h5", "-o", "merged.stats.h5")
        made = []
        for name in "whole", "merged":
            how = "-q", "--no-report", "--threads=1", "--advice=off", *net.options, f"--stats={name}.stats.h5"
            net.program("quantize", *how, "m.onnx", "-o", f"{name}.onnx", fine=(0, 4))
            file = net.checks.folder / f"{name}.onnx"
            made.append(file.read_bytes() if file.exists() else None)
        same_bytes(made[1], made[0], f"statistics of {at} and {graph_fuzz.SAMPLES - at} samples")
    finally:
        net.checks.library = library
    return True


def names_of_everything(net):
    """Names that look like those of the program, and such as exporters do not give. With --prefer speed the size of a small file, names
    included, decides what stays in float."""
    rng = net.rng
    old = sorted({i for g in graphs_of(net.model.graph) for n in g.node for i in (*n.input, *n.output) if i} | {v.name for v in (*net.model.graph.input, *net.model.graph.initializer)})
    some = [f"{name}{end}" for name in old for end in ("_quantized", "_scale", "_zero_point", "_dequantized", "_apart")]
    some += [str(i) for i in range(len(old))] + [f"/a/b.{i}/Conv_output_0" for i in range(len(old))] + ["é", "a b", "a:b", "*", "[x]", "k" * 300, "."]
    new = dict(zip(old, rng.permutation(some)[: len(old)].tolist()))
    nodes = {n.name: f"{rng.choice(some)}{i}" for i, g in enumerate(graphs_of(net.model.graph)) for n in g.node}
    feeds = {new[n]: a for n, a in net.feeds.items()}
    other = renamed(net.model, lambda v: new.get(v, v), lambda n: nodes.get(n, n))
    made, base = net.quantize(other, feeds, "--prefer=integers"), net.quantize(None, None, "--prefer=integers")
    if not made or operators(made) != operators(base):
        raise Failure("other operators", "other names")
    same_outputs(net.run(made, feeds), {new.get(n, n): v for n, v in net.run(base).items()}, "other names")
    return True


def order_of_nodes(net):
    """Another topological order, and initializers in another order."""
    rng, graph = net.rng, net.model.graph
    left, done, nodes = list(graph.node), {v.name for v in (*graph.input, *graph.initializer)}, []
    made = {o for n in left for o in n.output}
    reads = {id(n): ({i for i in n.input if i} | inner_names([n])) & made for n in left}
    while left:
        ready = [n for n in left if reads[id(n)] <= done]
        nodes.append(ready[int(rng.integers(len(ready)))])
        left.remove(nodes[-1])
        done.update(nodes[-1].output)
    other = onnx.ModelProto()
    other.CopyFrom(net.model)
    del other.graph.node[:], other.graph.initializer[:]
    other.graph.node.extend(nodes)
    other.graph.initializer.extend([graph.initializer[i] for i in rng.permutation(len(graph.initializer))])
    if [n.name for n in other.graph.node] == [n.name for n in graph.node] and len(graph.initializer) < 2:
        return False
    found = net.quantize(other)
    if not found or operators(found) != operators(net.base):
        raise Failure("other operators", "other order of nodes")
    same_outputs(net.run(found), net.run(net.base), "other order of nodes")
    return True


def scaled_part(graph, start, uses, weights):
    """The weights that multiply a value, past operators that scale with it; None if others read it."""
    values, found = [start], []
    for v in values:
        if v in {o.name for o in graph.output} or not uses[v]:
            return None
        for n, i in uses[v]:
            if n.domain or i:
                return None
            if n.op_type in HOMOGENEOUS:
                values += n.output
            elif n.op_type in LINEAR and n.input[1] in weights:
                found.append(n.input[1])
            else:
                return None
    return found


def scaled_inputs_and_weights(net):
    """An input, or the weights of an operator, times a power of two, and the weights that multiply the result divided by it. Mean errors
    and second moments are those of some positions, which the bytes of a sample choose: without them the outputs are equal."""
    graph, rng = net.model.graph, net.rng
    uses = collections.defaultdict(list)
    for n in graph.node:
        for i, name in enumerate(n.input):
            uses[name].append((n, i))
        for name in inner_names([n]):
            uses[name].append((n, len(n.input)))
    ends = {o.name for o in graph.output}
    weights = {k.name for k in graph.initializer if k.data_type == TensorProto.FLOAT and len(uses[k.name]) == 1 and k.name not in ends}
    starts = [(v.name, []) for v in graph.input if net.feeds[v.name][0].dtype == np.float32]
    starts += [(n.output[0], list(n.input[1:])) for n in graph.node if n.op_type in LINEAR and not n.domain and {i for i in n.input[1:] if i} <= weights]
    for k in rng.permutation(len(starts)):
        start, larger = starts[k]
        smaller = scaled_part(graph, start, uses, weights)
        if not smaller:
            continue
        by = np.float32(2.0 ** int(rng.choice([-6, -3, -1, 2, 5])))
        other = onnx.ModelProto()
        other.CopyFrom(net.model)
        for c in other.graph.initializer:
            if c.name in (*larger, *smaller):
                c.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(c) * (by if c.name in larger else 1 / by), c.name))
        feeds = net.feeds if larger else net.feeds | {start: [a * by for a in net.feeds[start]]}
        made, base = (net.quantize(m, f, "--bias-correction=off", "--weight-rounding=nearest") for m, f in ((other, feeds), (net.model, net.feeds)))
        if (made is None) != (base is None):
            raise Failure("quantized or not", f"{start} times {by}")
        if made:
            same_outputs(net.run(made, feeds), net.run(base), f"{start} times {by}")
        return made is not None
    return False


def quantized_twice(net):
    """A quantized file as the model of a job: nothing is left, or what is left is quantized as well as it was."""
    if (DISCRETE | {"LpNormalization"}) & {n.op_type for n in net.model.graph.node}:  # the latter: of one number it is its sign
        return False
    again = net.quantize(onnx.load_model_from_string(net.base))
    if again:
        same_outputs(net.run(again), net.run(net.base), "quantized twice", within=LEVELS)
    return True


def parts_of(model, feeds, at, values):
    """Nodes up to `at` and the others as models, and what the second reads; None if a value in between is no input of a model, or if
    a part would compute in float what the whole computes in integers."""
    first, second = list(model.graph.node)[:at], list(model.graph.node)[at:]
    made = {o: n for n in first for o in n.output if o}
    crossing = sorted(set(made) & ({i for n in second for i in n.input} | inner_names(second)))
    rounded = {i for n in second if n.op_type == "QuantizeLinear" for i in n.input}
    for name in crossing:
        arrays = values.get(name)
        if arrays is None or not arrays[0].ndim or not arrays[0].size or len({a.shape for a in arrays}) > 1:
            return None
        if made[name].op_type in ("DequantizeLinear", "Constant") or name in rounded:
            return None
    parts, ends = [], {o.name for o in model.graph.output}
    for nodes, inputs, outputs in (
        (first, [], [info(n, values[n]) for n in crossing] + [o for o in model.graph.output if o.name in made and o.name not in crossing]),
        (second, [info(n, values[n]) for n in crossing], [o for o in model.graph.output if o.name not in made]),
    ):
        part = onnx.ModelProto()
        part.CopyFrom(model)
        graph, reads = part.graph, {i for n in nodes for i in n.input} | inner_names(nodes) | (ends - set(made))
        del graph.node[:], graph.input[:], graph.output[:], graph.initializer[:], graph.value_info[:]
        graph.node.extend(nodes)
        graph.input.extend([v for v in model.graph.input if v.name in reads] + inputs)
        graph.output.extend(outputs)
        graph.initializer.extend([k for k in model.graph.initializer if k.name in reads])
        if not graph.output or not graph.input:
            return None
        parts.append(part)
    return *parts, crossing


def cut_at_a_tensor(net):
    """Both parts of the quantized file, one after the other, are the whole."""
    model = onnx.load_model_from_string(net.base)
    values = everything(model, net.feeds)
    places = net.rng.permutation(np.arange(1, len(model.graph.node))) if values else ()
    parts = next(filter(None, (parts_of(model, net.feeds, int(at), values) for at in places)), None)
    if not parts:
        return False
    first, second, crossing = parts
    of = lambda m, f: {v.name: f[v.name] for v in m.graph.input}
    half = net.run(first, of(first, net.feeds))
    feeds = {n: list(half[n].reshape(-1, *values[n][0].shape)) for n in crossing}
    found = half | net.run(second, of(second, net.feeds | feeds))
    same_outputs(found, net.run(net.base), f"cut before node {len(first.graph.node)}, {', '.join(crossing)[:200]}")
    return True


def in_type(model, feeds, dtype):
    """A model and its samples with all floats rounded to float16, as numbers of a type."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    rounded = lambda a: a.astype(np.float16).astype(dtype) if a.dtype == np.float32 else a
    for k in (*copy.graph.initializer, *(a.t for n in copy.graph.node for a in n.attribute if a.type == AttributeProto.TENSOR)):
        k.CopyFrom(numpy_helper.from_array(rounded(numpy_helper.to_array(k)), k.name))
    for v in (*copy.graph.input, *copy.graph.output):
        if v.type.tensor_type.elem_type == TensorProto.FLOAT:
            v.type.tensor_type.elem_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return copy, {n: [rounded(a) for a in arrays] for n, arrays in feeds.items()}


def float16(net):
    """The model with all floats in float16, and in float32 with the same numbers. Without a product, float16 is not raised to float32."""
    model, ops = net.model, {n.op_type for n in net.model.graph.node}
    types = {a[0].dtype.name for a in net.feeds.values()} | {numpy_helper.to_array(k).dtype.name for k in model.graph.initializer}
    if not LINEAR & ops or (WITH_TYPES | DISCRETE) & ops or model.functions or {"float16", "float64"} & types or model.opset_import[0].version < 13:
        return False
    forms = [in_type(model, net.feeds, dtype) for dtype in (np.float16, np.float32)]
    if any(isinstance(net.checks.runtime(m.SerializeToString(), f, optimized=False), str) for m, f in forms):
        return False
    made = [net.quantize(*form) for form in forms]
    if (made[0] is None) != (made[1] is None):
        raise Failure("quantized or not", "in float16")
    if made[0]:
        small, wide = (net.run(file, f) for file, (_, f) in zip(made, forms))
        same_outputs(small, wide, "float16 and float32", within=LEVELS)
    return made[0] is not None


def forms(net):
    """QDQ, QOperator and QDQ again give the same numbers."""
    (net.checks.folder / "q.onnx").write_bytes(net.base)
    for source, form, result in ("q.onnx", "qoperator", "o.onnx"), ("o.onnx", "qdq", "d.onnx"):
        if net.program("convert", source, f"--format={form}", "-o", result, fine=(0, 2, 4)):
            return False
    want = net.run(net.base)
    for file in "o.onnx", "d.onnx":
        same_outputs(net.run((net.checks.folder / file).read_bytes()), want, file)
    return True


# Operators of the networks if one of these properties alone is asked for: most other networks have no place for the change.
OPERATORS = {
    scaled_inputs_and_weights: sorted((LINEAR | HOMOGENEOUS) & set(RECIPES)),
    quantized_twice: sorted(set(RECIPES) - DISCRETE),
    float16: sorted(set(RECIPES) - DISCRETE - WITH_TYPES - {"Function"}),
}
PROPERTIES = (order_of_samples, threads, shards, names_of_everything, order_of_nodes, scaled_inputs_and_weights, quantized_twice, cut_at_a_tensor, float16, forms)


def quantized(net):
    """Returns true if the file has integers. graph_fuzz.py finds what is wrong with the job itself."""
    try:
        return net.base is not None and "DequantizeLinear" in operators(net.base)
    except Failure:
        return False


def campaign(first, count, program, folder, wanted=PROPERTIES, keep_in=None, shrink=True):
    """Returns ({property: networks}, failures as texts)."""
    worker = graph_worker.Worker(pathlib.Path(program).parent / "libqcalib.so")
    checks = graph_fuzz.Checks(program, folder, worker)
    done, failures = collections.Counter(), []
    names = OPERATORS.get(wanted[0]) if len(wanted) == 1 else None
    for seed in range(first, first + count):
        g, model, _ = graph_fuzz.random_graph(seed, names=names)
        feeds = {v.name: v.arrays for v in g.inputs if v.name in {i.name for i in model.graph.input}}
        if not any(a[0].dtype.kind == "f" for a in feeds.values()) or isinstance(checks.runtime(model.SerializeToString(), feeds), str):
            continue
        net = Network(seed, model, feeds, checks)
        if not quantized(net):
            continue
        done["networks"] += 1
        for holds in wanted:
            try:
                done[holds.__name__] += holds(net)
            except Failure as failure:
                if "element type" in str(failure):  # docs/operators.md does not promise every type
                    continue
                done[holds.__name__ + " fails"] += 1
                if shrink:
                    again = lambda m, f, holds=holds, seed=seed: quantized(part := Network(seed, m, f, checks)) and holds(part)
                    model, feeds = reduced(failure, model, feeds, again)
                text = f"seed {seed} {holds.__name__}: {failure}\n{' '.join(net.options)}\n{text_of(model)[:3000]}"
                failures.append(text)
                print(text, end="\n\n", flush=True)
                if keep_in:
                    keep(keep_in, f"{seed}.{holds.__name__}", failure, model, feeds, net.options)
                model, feeds = net.model, net.feeds
    worker.close()
    return done, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("properties", nargs="*", help="names of PROPERTIES; all if left out")
    parser.add_argument("--seed", type=int, help="of the first network; one that the clock gives if left out")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--log", help="file of the seeds and counts of all runs; the next run goes on after its last seed")
    parser.add_argument("--keep", help="folder for what fails")
    parser.add_argument("--whole", action="store_true", help="do not make smaller what fails")
    parser.add_argument("--program", default=os.environ.get("QCALIB", str(ROOT / "build/release/qcalib")))
    how = parser.parse_args()
    known = {p.__name__: p for p in PROPERTIES}
    if unknown := set(how.properties) - set(known):
        parser.error(f"no property {min(unknown)}; there are {', '.join(known)}")
    wanted = [known[p] for p in how.properties] or PROPERTIES
    with tempfile.TemporaryDirectory() as folder:
        run = lambda first, count: campaign(first, count, pathlib.Path(how.program).resolve(), folder, wanted, how.keep, not how.whole)
        done, failures = recorded(how.log, " ".join(how.properties) or "properties", how.seed, how.count, run)
    print("\n".join(f"{c:8} {n}" for n, c in done.items()))
    print(f"{len(failures)} failures")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
