# SPDX-License-Identifier: Apache-2.0
"""ONNX's functions that ONNX Runtime (1.32) computes only in files of some opsets, beside weights that need a newer one. Reference: ONNX Runtime with the float model."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

R = np.random.default_rng(5)
REAL = 3 * R.standard_normal((20, 8))
# name: opset, operator, attributes, input
WIDE = {
    "elu": (18, "Elu", {"alpha": 0.7}, REAL),
    "hard_sigmoid": (18, "HardSigmoid", {"alpha": 0.3, "beta": 0.4}, REAL),
    "leaky_relu": (17, "LeakyRelu", {"alpha": 0.2}, REAL),
    "mish": (18, "Mish", {}, REAL),
    "prelu": (16, "PRelu", {}, REAL),
    "selu": (18, "Selu", {}, REAL),
    "selu_given": (18, "Selu", {"alpha": 1.5, "gamma": 0.9}, REAL),
    "softplus": (18, "Softplus", {}, REAL),
    "softsign": (18, "Softsign", {}, REAL),
    "thresholded_relu": (18, "ThresholdedRelu", {"alpha": 0.3}, REAL),
    "relu": (18, "Relu", {}, (5 * REAL).astype(np.int64)),
}


def port(name, value):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), ["N", *value.shape[1:]])


def save(path, opset, operator, attributes, value, result, body=False):
    """A product of x beside the operator of d, or an If with it."""
    x = R.standard_normal((20, 32)).astype(np.float32)
    constants = [numpy_helper.from_array(R.standard_normal((32, 8)).astype(np.float32), "w"), numpy_helper.from_array(np.float32(-100), "low")]
    inputs = ["d", "slope"] if operator == "PRelu" else ["d"]
    if operator == "PRelu":
        constants.append(numpy_helper.from_array(R.standard_normal(8).astype(value.dtype), "slope"))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    make = lambda name: helper.make_node(operator, inputs, [name], name="act", **attributes)
    if body:
        then = helper.make_graph([make("t")], "then", [], [port("t", result)])
        other = helper.make_graph([helper.make_node("Identity", ["d"], ["e"])], "other", [], [port("e", result)])
        nodes += [
            helper.make_node("ReduceMax", ["x"], ["most"], keepdims=0),
            helper.make_node("Greater", ["most", "low"], ["holds"]),
            helper.make_node("If", ["holds"], ["z"], then_branch=then, else_branch=other),
        ]
    else:
        nodes.append(make("z"))
    graph = helper.make_graph(nodes, "g", [port("x", x), port("d", value)], [port("y", np.zeros((1, 8), np.float32)), port("z", result)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return {"x": x, "d": value}


def check(qcalib, folder, data, opset, *options, within=0.0):
    np.savez(folder / "x.npz", **data)
    qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--no-report", *options)
    model = onnx.load(str(folder / "q.onnx"))
    onnx.checker.check_model(model, full_check=True)
    assert model.opset_import[0].version == opset
    run = lambda name: onnxruntime.InferenceSession(str(folder / name), providers=["CPUExecutionProvider"]).run(["z"], data)[0]
    expected = run("m.onnx")
    np.testing.assert_allclose(run("q.onnx"), expected, rtol=within, atol=0)
    qcalib("run", "q.onnx", "--data", "x.npz", "-o", "y.h5")
    with h5py.File(folder / "y.h5") as f:
        np.testing.assert_allclose(f["z"][()], expected, rtol=1e-6 if within else 1e-14, atol=1e-14)


@pytest.mark.parametrize("body", (False, True), ids=("graph", "body"))
@pytest.mark.parametrize("name", WIDE)
def test_a_type_without_a_kernel(name, body, qcalib, tmp_path):
    """Weights of 16 bits need opset 21."""
    opset, operator, attributes, value = WIDE[name]
    data = save(tmp_path / "m.onnx", opset, operator, attributes, value, value, body)
    check(qcalib, tmp_path, data, 21, "--weight-type", "int16")


@pytest.mark.parametrize("p", (1, 2, 3))
def test_an_opset_without_a_kernel(p, qcalib, tmp_path):
    """Weights of 2 bits need opset 25; GlobalLpPool has a kernel up to 21."""
    images = R.standard_normal((20, 3, 4, 5)).astype(np.float32)
    data = save(tmp_path / "m.onnx", 13, "GlobalLpPool", {"p": p}, images, np.zeros((1, 3, 1, 1), np.float32))
    check(qcalib, tmp_path, data, 25, "--weight-type", "int2", "--weight-block", "16", "--activation-type", "none", within=1e-6)


def test_the_operator_stays_where_it_runs(qcalib, tmp_path):
    data = save(tmp_path / "m.onnx", 18, "Elu", {}, REAL, REAL)
    check(qcalib, tmp_path, data, 18)
    assert "Elu" in {n.op_type for n in onnx.load(str(tmp_path / "q.onnx")).graph.node}


def test_weights_of_2_bits_are_held_in_4(qcalib, tmp_path):
    """RoiAlign has a kernel up to opset 21, and its definition is no function."""
    x, images = R.standard_normal((8, 32)).astype(np.float32), R.standard_normal((8, 3, 8, 8)).astype(np.float32)
    constants = {"w": R.standard_normal((32, 8)).astype(np.float32), "boxes": np.float32([[0, 0, 5, 6], [1, 2, 7, 7]]), "of": np.int64([0, 0])}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("RoiAlign", ["d", "boxes", "of"], ["z"], output_height=2, output_width=2)]
    outputs = [port("y", np.zeros((1, 8), np.float32)), helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 3, 2, 2])]
    graph = helper.make_graph(nodes, "g", [port("x", x), port("d", images)], outputs, [numpy_helper.from_array(v, k) for k, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=x, d=images)
    options = ("--weight-type", "int2", "--weight-block", "16", "--activation-type", "none", "--no-report")
    qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", *options)
    feeds = {"x": x[:1], "d": images[:1]}
    expected, got = (onnxruntime.InferenceSession(str(tmp_path / n), providers=["CPUExecutionProvider"]).run(["z"], feeds)[0] for n in ("m.onnx", "q.onnx"))
    np.testing.assert_array_equal(got, expected)
    stored = {i.name: i.data_type for i in onnx.load(str(tmp_path / "q.onnx")).graph.initializer}
    assert TensorProto.INT4 in stored.values() or TensorProto.UINT4 in stored.values()
