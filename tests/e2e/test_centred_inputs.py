# SPDX-License-Identifier: Apache-2.0
"""Inputs of products in 8-bit floats without the mean of each channel: what is in the file, and what it computes."""

import json

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

FLOAT8 = ("--weight-type", "float8e4m3fn", "--activation-type", "float8e4m3fn")
CHANNELS = 12


@pytest.fixture
def model(tmp_path):
    """Channels of large means: an unequally padded convolution with strides, a depthwise one, one of single elements
    beside one of three that read the same value, a MatMul with and one without an addition, and a Gemm."""
    random = np.random.default_rng(7)
    value, node = helper.make_tensor_value_info, helper.make_node
    shapes = {"w0": (CHANNELS, 3, 3, 3), "w1": (CHANNELS, 1, 3, 3)}
    shapes |= {"w2": (8, CHANNELS, 1, 1), "w3": (8, CHANNELS, 3, 3)}
    constants = {k: random.normal(size=s) / np.sqrt(np.prod(s[1:])) for k, s in shapes.items()}
    for name in ("w1", "w2", "w3"):  # they read differences: a constant of all channels and elements cancels
        constants[name] -= constants[name].mean(axis=(1, 2, 3), keepdims=True)
    constants |= {"m1": random.normal(size=(8, 16)) / 3, "m2": random.normal(size=(16, 10)) / 4}
    constants |= {"g": random.normal(size=(5, 10)) / 3, "b1": random.normal(size=16) + 3}
    constants |= {"b0": random.normal(size=CHANNELS) + 5}
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["c0"], "c0", pads=[0, 1, 1, 0], strides=[2, 1]),
        node("Relu", ["c0"], ["r0"]),
        node("Conv", ["r0", "w1", "b0"], ["c1"], "c1", pads=[1, 1, 1, 1], group=CHANNELS),
        node("Relu", ["c1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], "c2"),
        node("Conv", ["r1", "w3"], ["c3"], "c3", auto_pad="SAME_UPPER"),
        node("Add", ["c2", "c3"], ["a"]),
        node("Relu", ["a"], ["r2"]),
        node("ReduceMean", ["r2"], ["mean"], axes=[2, 3], keepdims=0),
        node("MatMul", ["mean", "m1"], ["p1"], "p1"),
        node("Add", ["p1", "b1"], ["s1"]),
        node("Relu", ["s1"], ["r3"]),
        node("MatMul", ["r3", "m2"], ["p2"], "p2"),
        node("Relu", ["p2"], ["r4"]),
        node("Gemm", ["r4", "g"], ["y"], "y", transB=1),
    ]
    ports = [value("x", TensorProto.FLOAT, ["n", 3, 8, 8])], [value("y", TensorProto.FLOAT, ["n", 5])]
    tensors = [numpy_helper.from_array(v.astype("f4"), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "g", *ports, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = random.normal(size=(200, 3, 8, 8)).astype("f4") * 2
    return tmp_path / "m.onnx"


def theirs(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def job(qcalib, model, out, *options, types=FLOAT8):
    qcalib("--data", "data.h5", "--advice", "off", "-q", *types, *options, "-o", out, model)
    report = json.loads((model.parent / out).with_suffix(".report").joinpath("report.json").read_text())
    return model.parent / out, {c["name"]: c for c in report.get("centred_inputs", [])}


def test_products_read_centred_inputs(qcalib, model):
    path, centred = job(qcalib, model, "q.onnx")
    graph = onnx.load(path).graph
    makers = {n.output[0]: n for n in graph.node}

    def source(product):
        n = makers[product.input[0]]
        while n.op_type in ("Sum", "Max", "DequantizeLinear", "QuantizeLinear"):
            n = makers[n.input[0]]
        return n

    products = {n.name: source(n) for n in graph.node if n.op_type in ("Conv", "MatMul", "Gemm") and n.name != "c0"}
    convolutions = {n.name: n for n in graph.node if n.op_type == "Conv"}
    assert {"r0", "r1"} <= set(centred) and centred["r1"]["layers"] == 2
    assert all(c["error_ratio"] < 0.9 for c in centred.values())
    assert all(products[name].op_type == "Sub" for name in ("c1", "c2", "c3"))
    assert makers[products["c1"].input[0]].op_type == "Pad" and makers[products["c3"].input[0]].op_type == "Pad"
    assert products["c2"].input[0] == "r1"
    for name in ("c1", "c3"):
        pads = [helper.get_attribute_value(a) for a in convolutions[name].attribute if a.name == "pads"]
        assert pads in ([], [[0, 0, 0, 0]])
    with h5py.File(model.parent / "data.h5") as file:
        x = file["x"][:]
    qcalib("run", path, "--data", "data.h5", "-o", "o.h5", "-q")
    with h5py.File(model.parent / "o.h5") as file:
        ours = file["y"][:]
    np.testing.assert_allclose(theirs(path, x), ours, rtol=0, atol=1e-5 * np.abs(ours).max())


def test_centring_lowers_the_error(qcalib, model):
    """Without second moments there are no means, and nothing is centred."""
    plain = ("--weight-rounding", "nearest", "--bias-correction", "off", "--scale-channels", "off")
    path, centred = job(qcalib, model, "q.onnx")
    other, none = job(qcalib, model, "p.onnx", *plain)
    with h5py.File(model.parent / "data.h5") as file:
        x = file["x"][:]
    want = theirs(model, x)
    errors = [((theirs(p, x) - want) ** 2).mean() for p in (path, other)]
    assert centred and not none
    assert errors[0] < 0.5 * errors[1]


@pytest.mark.parametrize("kind", ["mxfp8", "nvfp4", "bfp16"])
def test_blocks_are_centred(qcalib, model, kind):
    """The constant is subtracted in front of the function that rounds in blocks. The input of a depthwise convolution is
    not rounded, so it is not centred."""
    plain = ("--weight-rounding", "nearest", "--bias-correction", "off", "--scale-channels", "off")
    types = ("--weight-type", "int8", "--activation-type", kind)
    path, centred = job(qcalib, model, "q.onnx", types=types)
    other, none = job(qcalib, model, "p.onnx", *plain, types=types)
    nodes = onnx.load(path).graph.node
    makers = {n.output[0]: n for n in nodes}
    assert {"r1", "r2"} & set(centred) and "r0" not in centred and not none
    assert all(c["error_ratio"] < 0.9 for c in centred.values())
    assert [n for n in nodes if n.domain == "qcalib" and n.input[0] in makers and makers[n.input[0]].op_type == "Sub"]
    with h5py.File(model.parent / "data.h5") as file:
        x = file["x"][:]
    qcalib("run", path, "--data", "data.h5", "-o", "o.h5", "-q")
    with h5py.File(model.parent / "o.h5") as file:
        ours = file["y"][:]
    want, there = theirs(model, x), theirs(path, x)
    errors = [((theirs(p, x) - want) ** 2).mean() for p in (path, other)]
    assert errors[0] < 0.7 * errors[1]
    assert ((there - ours) ** 2).mean() < errors[0] / 20  # sums in another order move some numbers to the next level


def test_statistics_alone_are_enough(qcalib, model):
    """Means are in the statistics: the file is that of the job with samples."""
    qcalib("collect", "--data", "data.h5", "-q", "-o", "s.h5", model)
    options = ("--advice", "off", "-q", "--no-report", "--method", "mse", *FLOAT8)
    qcalib("--stats", "s.h5", *options, "-o", "a.onnx", model)
    qcalib("--data", "data.h5", *options, "-o", "b.onnx", model)
    a, b = (onnx.load(model.parent / f) for f in ("a.onnx", "b.onnx"))
    assert sum(n.op_type == "Sub" for n in a.graph.node) == sum(n.op_type == "Sub" for n in b.graph.node) > 0


def test_integers_are_not_centred(qcalib, model):
    """Integers have a zero point: nothing is subtracted."""
    qcalib("--data", "data.h5", "--advice", "off", "-q", "--no-report", "-o", "i.onnx", model)
    assert not [n for n in onnx.load(model.parent / "i.onnx").graph.node if n.op_type == "Sub"]


@pytest.mark.parametrize("target", ["ort", "fused", "integers", "tvm", "qnn"])
def test_targets_that_quantize_additions(target, qcalib, tmp_path):
    """The Add that takes W c behind a MatMul would make the target observe the product, which has no statistics."""
    random = np.random.default_rng(3)
    nodes = [helper.make_node("Add", ["x", "c"], ["v"]), helper.make_node("MatMul", ["v", "w"], ["y"], "product")]
    constants = {"c": 10 + random.normal(size=64), "w": random.normal(size=(64, 32))}
    ports = [helper.make_tensor_value_info(k, TensorProto.FLOAT, ["n", d]) for k, d in (("x", 64), ("y", 32))]
    tensors = [numpy_helper.from_array(v.astype("f4"), k) for k, v in constants.items()]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", random.normal(size=(40, 64)).astype("f4"))
    r = qcalib(*FLOAT8, "--target", target, "--data", "x.npy", "m.onnx", "-o", "q.onnx", "--json")
    assert r.json["outputs"][0]["sqnr_db"] > 15
    assert target != "ort" or r.json["centred_inputs"]


@pytest.mark.parametrize("kind", ["float8e4m3fn", "mxfp8"])
def test_a_difference_of_the_model_that_is_padded(kind, qcalib, tmp_path):
    """The padding around x - c is zero, not -c: the errors are those of a model that reads the difference."""
    random = np.random.default_rng(5)
    x = (random.normal(size=(64, 4, 6, 6)) @ random.normal(size=(6, 6))).astype("f4")
    constants = {"w": random.normal(size=(16, 4, 3, 3)) / 6, "c": np.full((4, 1, 1), 1000.0)}
    tensors = [numpy_helper.from_array(v.astype("f4"), k) for k, v in constants.items()]
    ports = [helper.make_tensor_value_info(k, TensorProto.FLOAT, ["n", d, 6, 6]) for k, d in (("x", 4), ("y", 16))]
    errors = []
    for name, nodes, data in (
        ("with", [helper.make_node("Sub", ["x", "c"], ["d"])], x + 1000),
        ("without", [], (x + 1000) - np.float32(1000)),
    ):
        nodes = [*nodes, helper.make_node("Conv", ["d" if nodes else "x", "w"], ["y"], pads=[1] * 4)]
        graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], tensors[: len(nodes)])
        path = tmp_path / f"{name}.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
        np.save(tmp_path / "x.npy", data)
        qcalib("--weight-type", kind, "--activation-type", kind, "--data", "x.npy", path, "-o", "q.onnx", "-q")
        errors.append(((theirs(tmp_path / "q.onnx", data) - theirs(path, data)) ** 2).mean())
    assert errors[0] < 1.2 * errors[1]
