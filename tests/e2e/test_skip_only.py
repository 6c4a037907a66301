# SPDX-License-Identifier: Apache-2.0
"""--skip and --only take the operators of the model, also those that rules have rewritten. What --skip cannot change it
says, and names the node that stands for a fused one."""

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(7)


def normal(*shape):
    return (RANDOM.standard_normal(shape) / np.sqrt(np.prod(shape[1:]) or 1)).astype(np.float32)


NORM = {k: np.abs(normal(8)) + np.float32(0.5) for k in ("scale", "shift", "mean", "variance")}


@pytest.fixture
def model(tmp_path):
    """Conv, BatchNormalization, PRelu, MaxPool, BatchNormalization, GlobalAveragePool, Flatten, MatMul and Add, Softmax"""
    constants = {"w": normal(8, 3, 3, 3), **NORM, "slopes": np.abs(normal(8, 1, 1)), "m": normal(8, 16), "b": normal(16), "turn": normal(4, 8)}
    norm = list(NORM)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv"),
        helper.make_node("BatchNormalization", ["c", *norm], ["n"], "folded"),
        helper.make_node("PRelu", ["n", "slopes"], ["p"], "prelu"),
        helper.make_node("MaxPool", ["p"], ["q"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("BatchNormalization", ["q", *norm], ["o"], "norm"),
        helper.make_node("GlobalAveragePool", ["o"], ["g"], "mean"),
        helper.make_node("Flatten", ["g"], ["f"], "flat"),
        helper.make_node("MatMul", ["f", "m"], ["t"], "product"),
        helper.make_node("Add", ["t", "b"], ["s"], "sum"),
        helper.make_node("Softmax", ["s"], ["y"], "softmax"),
        helper.make_node("Reshape", ["o", "to"], ["r"], "rows"),
        helper.make_node("MatMul", ["turn", "r"], ["z"], "left"),
    ]
    initializers = [numpy_helper.from_array(v, k) for k, v in constants.items()] + [numpy_helper.from_array(np.array([-1, 8, 9]), "to")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8])
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "yz"]
    graph = helper.make_graph(nodes, "g", [x], outputs, initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(tmp_path / "m.onnx"))
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = RANDOM.standard_normal((24, 3, 8, 8)).astype(np.float32)
    return tmp_path / "m.onnx"


@pytest.fixture
def job(model, qcalib, tmp_path):
    def run(*options, **how):
        return qcalib("--data", "x.h5", "--method", "minmax", "--effort", "low", "--prefer", "integers", "--advice", "off", "m.onnx", "-o", "q.onnx", "--no-report", *options, **how)

    return run


def weights(tmp_path):
    """The products of the file whose weights are stored in integers."""
    g = onnx.load(str(tmp_path / "q.onnx")).graph
    rounded = {n.output[0] for n in g.node if n.op_type == "QuantizeLinear"}
    made = {n.output[0] for n in g.node if n.op_type == "DequantizeLinear" and n.input[0] not in rounded}
    return {n.name for n in g.node if n.op_type in ("Conv", "Gemm", "MatMul") and n.input[1] in made}


ALL = {"conv", "prelu/Conv", "prelu/Conv_1", "norm", "sum", "left"}
OPS = {
    "Conv": {"sum"},
    "PRelu": {"conv", "norm", "sum", "left"},
    "BatchNormalization": ALL - {"norm"},
    "MatMul": ALL - {"sum", "left"},
    "Gemm": ALL - {"sum"},
    "prelu": {"conv", "norm", "sum", "left"},
    "left": ALL - {"left"},
}


@pytest.mark.parametrize("name", OPS)
def test_skip_takes_operators_of_the_model(name, job, tmp_path):
    job()
    assert weights(tmp_path) == ALL
    job("--skip", name)
    assert weights(tmp_path) == OPS[name]


@pytest.mark.parametrize(
    "name, nodes",
    (
        ("Conv", ALL - {"sum"}),
        ("MatMul", {"sum", "left"}),
        ("Gemm", {"sum"}),
        ("PRelu", {"prelu/Conv", "prelu/Conv_1"}),
        ("BatchNormalization", {"norm"}),
        ("dense_bias", {"sum"}),
    ),
)
def test_only_takes_operators(name, nodes, job, tmp_path):
    job("--only", name)
    assert weights(tmp_path) == nodes


def test_types_take_operators_of_the_model(job, tmp_path):
    job("--weight-type", "none:PRelu", "--weight-type", "none:MatMul")
    assert weights(tmp_path) == {"conv", "norm"}


@pytest.mark.parametrize("name, said", (("product", "'product' (MatMul) is a part of 'sum' (Gemm)"), ("folded", "'folded' (BatchNormalization) is a part of 'conv' (Conv)")))
def test_a_fused_node_is_named(name, said, job):
    assert said in job("--skip", name, code=2).err


@pytest.mark.parametrize("name, node", (("pool", "'pool' (MaxPool)"), ("MaxPool", "'pool' (MaxPool)"), ("f*t", "'flat' (Flatten)")))
def test_operators_that_only_move_values(name, node, job):
    said = job("--skip", name, code=2).err
    assert node in said and "only moves" in said and "--skip these" in said


def test_what_is_float_in_any_case(job):
    assert "'softmax' (Softmax) stays in float without it" in job("--skip", "Softmax", code=2).err


def test_a_skip_that_changes_nothing_is_told(job, tmp_path):
    """GlobalAveragePool between two integer operators: the runtime fuses it with their DequantizeLinear and QuantizeLinear."""
    job()
    plain = (tmp_path / "q.onnx").read_bytes()
    assert "--skip does not change how 'mean' (GlobalAveragePool) is computed" in job("--skip", "GlobalAveragePool").err
    assert (tmp_path / "q.onnx").read_bytes() == plain
    assert "does not change" not in job("--skip", "mean", "--skip", "norm", "--skip", "left").err
    assert (tmp_path / "q.onnx").read_bytes() != plain


def test_unknown_names(job):
    assert "there is no such pattern or operator (did you mean 'Conv'?)" in job("--only", "Conw", code=2).err
    assert "no quantizable node of that name, op or glob" in job("--skip", "nothing", code=2).err
