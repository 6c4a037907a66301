# SPDX-License-Identifier: Apache-2.0
"""Makes an ONNX model smaller as long as it still fails (graph_fuzz.py)."""

import onnx
import onnxruntime
from onnx import helper

SAMPLES = 3


def session(model, optimized=True):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = model if isinstance(model, bytes) else str(model)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def inner_names(nodes):
    """All names that bodies of the nodes read."""
    found = set()
    for node in nodes:
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                found |= {i for n in a.g.node for i in n.input} | inner_names(a.g.node)
    return found


def shrunk(model, feeds, fails):
    """The smallest model and inputs for which fails(model, feeds) still holds: fewer outputs, later starts, earlier ends."""
    changed = True
    while changed:
        changed = False
        for candidate in candidates(model, feeds):
            if fails(*candidate):
                model, feeds = candidate
                changed = True
                break
    return model, feeds


def candidates(model, feeds):
    graph = model.graph
    for o in graph.output:
        if len(graph.output) > 1:
            yield pruned(model, feeds, [o])
    values = everything(model, feeds)
    if values is None:
        return
    known = {v.name for v in graph.input} | {o.name for o in graph.output} | {k.name for k in graph.initializer}
    for name, arrays in values.items():  # an earlier end
        if name not in known and arrays[0].size:
            yield pruned(model, feeds, [info(name, arrays)])
    for node in reversed(graph.node):  # a later start: results as inputs of the model
        cut = onnx.ModelProto()
        cut.CopyFrom(model)
        names = [o for o in node.output if o in values]
        if not names or set(names) & {o.name for o in graph.output} or any(not values[n][0].ndim for n in names):
            continue
        cut.graph.node.remove(next(n for n in cut.graph.node if n.output == node.output))
        cut.graph.input.extend(info(n, values[n]) for n in names)
        yield pruned(cut, feeds | {n: values[n] for n in names}, list(cut.graph.output))


def info(name, arrays):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(arrays[0].dtype), arrays[0].shape)


def everything(model, feeds):
    """All values of the nodes, per sample."""
    all_ = onnx.ModelProto()
    all_.CopyFrom(model)
    del all_.graph.output[:]
    names = [o for n in model.graph.node if n.op_type != "Constant" for o in n.output if o]
    all_.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names)
    try:
        runs = session(all_.SerializeToString(), optimized=False)
        parts = [runs.run(names, {v.name: feeds[v.name][i] for v in model.graph.input}) for i in range(SAMPLES)]
    except Exception:
        return None
    return {n: [p[k] for p in parts] for k, n in enumerate(names)}


def pruned(model, feeds, outputs):
    """The model with these outputs and what they need."""
    small = onnx.ModelProto()
    small.CopyFrom(model)
    graph = small.graph
    needed, kept = {o.name for o in outputs}, []
    for node in reversed(model.graph.node):
        if set(node.output) & needed:
            kept.insert(0, node)
            needed |= set(node.input) | inner_names([node])
    for field, values in (
        (graph.output, outputs),
        (graph.node, kept),
        (graph.initializer, [k for k in model.graph.initializer if k.name in needed]),
        (graph.input, [v for v in model.graph.input if v.name in needed]),
    ):
        values = [type(v).FromString(v.SerializeToString()) for v in values]
        del field[:]
        field.extend(values)
    calls = {n.op_type for n in kept if n.domain == "local"}
    functions = [f for f in model.functions if f.name in calls]
    del small.functions[:]
    small.functions.extend(functions)
    return small, {v.name: feeds[v.name] for v in graph.input}
