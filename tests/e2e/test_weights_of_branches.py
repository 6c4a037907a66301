# SPDX-License-Identifier: Apache-2.0
"""Weights of the outer graph that both branches of an If read are stored once, also if no sample takes one branch, and
in a Loop around the If. ONNX Runtime loads the files and computes what the float model does."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

SIZE, LAYERS = 64, 3
SAMPLES = [np.random.default_rng(i).standard_normal((3, SIZE)).astype(np.float32) for i in range(32)]


def branch(name, activation, rank):
    nodes, h = [], "x"
    for k in range(LAYERS):
        nodes.append(helper.make_node("MatMul", [h, f"W{k}"], [f"{name}{k}"], name=f"{name}/product{k}"))
        nodes.append(helper.make_node(activation, [f"{name}{k}"], [f"{name}h{k}"], name=f"{name}/activation{k}"))
        h = f"{name}h{k}"
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(h, TensorProto.FLOAT, [None] * rank)])


def choice(output, rank=2):
    return helper.make_node("If", ["cond"], [output], name="choice", then_branch=branch("a", "Relu", rank), else_branch=branch("b", "Tanh", rank))


def looped():
    """The If is in the body of a Loop, which adds its result to a state."""
    value = helper.make_tensor_value_info
    body = [choice("step"), helper.make_node("Add", ["state", "step"], ["next"]), helper.make_node("Identity", ["on"], ["still"])]
    ports = [value("i", TensorProto.INT64, []), value("on", TensorProto.BOOL, []), value("state", TensorProto.FLOAT, None)]
    outputs = [value("still", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, None)]
    return helper.make_node("Loop", ["trips", "", "x"], ["y"], name="loop", body=helper.make_graph(body, "body", ports, outputs))


def save(folder, in_loop, branches):
    weights = [numpy_helper.from_array((np.random.default_rng(k).standard_normal((SIZE, SIZE)) / 8).astype(np.float32), f"W{k}") for k in range(LAYERS)]
    trips = [numpy_helper.from_array(np.array(2), "trips")] if in_loop else []
    ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", SIZE]), helper.make_tensor_value_info("cond", TensorProto.BOOL, [])]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", SIZE])
    graph = helper.make_graph([looped() if in_loop else choice("y")], "g", ports, [y], weights + trips)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(folder / "m.onnx"))
    with h5py.File(folder / "x.h5", "w") as f:
        for i, x in enumerate(SAMPLES):
            f[f"x/{i}"], f[f"cond/{i}"] = x, bool(i % 2) if branches == 2 else True


def constants(graph):
    yield from graph.initializer
    for n in graph.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from constants(a.g)


def computed(path, taken):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return np.concatenate([session.run(None, {"x": x, "cond": np.array(taken)})[0] for x in SAMPLES])


def sqnr(expected, got):
    error = np.square(expected.astype(np.float64) - got).sum()
    return 10 * np.log10(np.square(expected.astype(np.float64)).sum() / max(error, 1e-300))


FOUR = ("--weight-type", "int4", "--activation-type", "none", "--weight-block", "32")
JOBS = {  # options, least SQNR, most of the float file
    "default": ((), 28, 0.42),
    "nearest": (("--weight-rounding", "nearest"), 28, 0.42),
    "per tensor": (("--per-tensor",), 25, 0.4),
    "weights": (("--activation-type", "none"), 30, 0.4),
    "dynamic": (("--activation-type", "dynamic"), 28, 0.42),
    "int4": (("--weight-type", "int4"), 10, 0.32),
    "blocks": (FOUR, 12, 0.32),
    "float8": (("--weight-type", "float8e4m3fn"), 20, 0.4),
    "qoperator": (("--format", "qoperator"), 28, 0.42),
}


@pytest.mark.parametrize("in_loop", (False, True), ids=("if", "loop"))
@pytest.mark.parametrize("branches", (2, 1))
@pytest.mark.parametrize("job", JOBS)
def test_they_are_stored_once(job, branches, in_loop, qcalib, tmp_path):
    options, least, most = JOBS[job]
    save(tmp_path, in_loop, branches)
    qcalib("--data", "x.h5", *options, "m.onnx", "-o", "q.onnx", "--no-report")
    assert (tmp_path / "q.onnx").stat().st_size < most * (tmp_path / "m.onnx").stat().st_size
    found = [c for c in constants(onnx.load(str(tmp_path / "q.onnx")).graph) if list(c.dims) == [SIZE, SIZE]]
    assert len(found) == LAYERS and all(c.data_type != TensorProto.FLOAT for c in found)
    for taken in (True, False):
        assert sqnr(computed(tmp_path / "m.onnx", taken), computed(tmp_path / "q.onnx", taken)) > least


def test_run_computes_what_onnxruntime_does(qcalib, tmp_path):
    save(tmp_path, False, 2)
    qcalib("--data", "x.h5", "m.onnx", "-o", "q.onnx", "--no-report")
    qcalib("run", "q.onnx", "--data", "x.h5", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        for taken in (True, False):
            got = np.concatenate([f["y"][str(i)][()] if isinstance(f["y"], h5py.Group) else f["y"][i] for i in range(32) if i % 2 == taken])
            expected = computed(tmp_path / "q.onnx", taken).reshape(32, 3, SIZE)[int(taken) :: 2].reshape(got.shape)
            assert sqnr(expected, got) > 100


def test_a_skipped_product_keeps_its_numbers(qcalib, tmp_path):
    """Only a branch without samples reads what the other one has rounded."""
    save(tmp_path, False, 2)
    qcalib("--data", "x.h5", "m.onnx", "-o", "q.onnx", "--no-report", "--skip", "choice/else_branch/b/product1")
    types = sorted(c.data_type for c in constants(onnx.load(str(tmp_path / "q.onnx")).graph) if list(c.dims) == [SIZE, SIZE])
    assert types == [TensorProto.FLOAT] + [TensorProto.INT8] * LAYERS
