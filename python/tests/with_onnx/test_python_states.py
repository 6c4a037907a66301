# SPDX-License-Identifier: Apache-2.0
"""state=: a network whose output is an input of the next sample. Reference: the same recurrence in numpy."""

import numpy as np
import pytest

import qcalib

onnx = pytest.importorskip("onnx")
STEPS = 12


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(1)
    return {n: rng.normal(size=(6, 6)).astype(np.float32) / 3 for n in ("w", "u")}


@pytest.fixture(scope="module")
def network(weights):
    h = onnx.helper
    port = lambda name: h.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 6])
    nodes = [
        h.make_node("Gemm", ["x", "w"], ["a"]),
        h.make_node("Gemm", ["h", "u"], ["b"]),
        h.make_node("Add", ["a", "b"], ["s"]),
        h.make_node("Tanh", ["s"], ["h_next"]),
    ]
    constants = [onnx.numpy_helper.from_array(v, n) for n, v in weights.items()]
    graph = h.make_graph(nodes, "g", [port("x"), port("h")], [port("h_next")], constants)
    return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8)


def sequence(x, weights, h=None):
    h, made = np.zeros(6, np.float32) if h is None else h, []
    for piece in x:
        h = np.tanh(piece @ weights["w"] + h @ weights["u"])
        made.append(h)
    return np.stack(made)


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(2).normal(size=(STEPS, 6)).astype(np.float32)


@pytest.mark.parametrize("form", ["array", "names", "iterable", "lengths", "first"])
def test_run(form, network, weights, x):
    wanted = sequence(x, weights)
    first = np.ones((1, 6), np.float32)
    data = {"array": x, "names": {"x": x}, "iterable": (piece[None] for piece in x)}.get(form)
    if form == "lengths":
        data = {"x": x, "lengths": np.array([5, 7])}
        wanted = np.concatenate([sequence(x[:5], weights), sequence(x[5:], weights)])
    if form == "first":
        data, wanted = {"x": x, "h": first}, sequence(x, weights, first[0])
    made = qcalib.run(network, data, state="h=h_next")["h_next"]
    np.testing.assert_allclose(made.reshape(wanted.shape), wanted, atol=1e-5)


def test_quantize_evaluate_compare(network, weights, x):
    target = sequence(x, weights)
    result = qcalib.quantize(network, x, state=["h=h_next"], eval=({"x": x}, target), prefer="integers")
    psnr = qcalib.evaluate(network, ({"x": x}, target), state="h=h_next").value
    assert psnr > 100 > qcalib.evaluate(result, ({"x": x}, target), state="h=h_next").value > 20
    compared = qcalib.compare(network, result, x, state="h=h_next")
    assert compared.outputs
    statistics = qcalib.collect(network, x, state="h=h_next")
    assert qcalib.quantize(network, statistics=statistics).model
