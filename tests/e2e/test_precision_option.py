# SPDX-License-Identifier: Apache-2.0
"""Files load in ONNX Runtime with session.x64quantprecision=1, which rewrites int8 weights to uint8 on x86 without
VNNI."""

import avx2_runtime
import h5py
import numpy as np
import onnx
import pytest
from avx2_runtime import Job
from onnx import TensorProto, helper, numpy_helper

PRECISE = {"session.x64quantprecision": "1"}
SAMPLES = 2


def tied(path):
    """Three products and two convolutions that share their weights."""
    rng = np.random.default_rng(3)
    kernel = rng.normal(size=(4, 4, 3, 3)).astype(np.float32) / 6
    weight = rng.normal(size=(16, 16)).astype(np.float32) / 4
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["c1"], "c1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "kernel"], ["c2"], "c2", pads=[1, 1, 1, 1]),
        *(helper.make_node("MatMul", [a, "weight"], [b], b) for a, b in (("c2", "m1"), ("m1", "m2"), ("m2", "y"))),
    ]
    graph = helper.make_graph(
        nodes,
        "tied",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4, 16, 16])],
        [numpy_helper.from_array(kernel, "kernel"), numpy_helper.from_array(weight, "weight")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def lstm(path):
    rng = np.random.default_rng(4)
    weights = {
        "w": rng.normal(size=(1, 64, 8)).astype(np.float32) / 3,
        "r": rng.normal(size=(1, 64, 16)).astype(np.float32) / 4,
        "v": rng.normal(size=(16, 8)).astype(np.float32) / 4,
    }
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r"], ["h"], "lstm", hidden_size=16),
        helper.make_node("MatMul", ["h", "v"], ["y"], "product"),
    ]
    graph = helper.make_graph(
        nodes,
        "recurrent",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, 1, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 1, 1, 8])],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def save_data(path, key, values):
    with h5py.File(path, "w") as file:
        file[key] = values


def outputs(qcalib, file, data, folder, *arguments):
    qcalib("run", file, "--data", data, "--samples", SAMPLES, "-o", "out.h5", "-q", *arguments)
    with h5py.File(folder / "out.h5") as found:
        (key,) = found
        return found[key][:]


def initializers(path):
    return {t.name: t for t in onnx.load(path).graph.initializer}


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_small_networks_load_and_are_exact(form, qcalib, examples, tmp_path):
    """Rewritten weights cannot saturate, so the runtime computes what `qcalib run` does, whatever the weights."""
    rng = np.random.default_rng(5)
    tied(tmp_path / "tied.onnx")
    save_data(tmp_path / "tied.h5", "x", rng.normal(size=(8, 4, 16, 16)).astype(np.float32))
    with h5py.File(examples / "digits_calib.h5") as file:
        (key,) = (k for k in file if k != "labels")
        digits = file[key][:8].astype(np.float32)
    save_data(tmp_path / "digits.h5", key, digits)
    sources = {"tied": tmp_path / "tied.onnx", "digits": examples / "digits_cnn.onnx"}
    cases = [
        ("tied", []),
        ("tied", ["--per-tensor"]),
        ("digits", []),
        ("digits", ["--per-tensor"]),
        ("digits", ["--weight-type=int4"]),
        *([("digits", ["--activation-type=int8"])] if form == "qdq" else []),  # no QGemm of int8 and uint8
    ]
    jobs, expected = [], []
    for i, (name, options) in enumerate(cases):
        file, data = tmp_path / f"{i}.onnx", tmp_path / f"{name}.h5"
        qcalib("-q", "--no-report", "--prefer=integers", "--format", form, *options, "--data", data, sources[name], "-o", file)
        expected.append(outputs(qcalib, file, data, tmp_path))
        with h5py.File(data) as given:
            (k,) = given
            jobs.append(Job(file, {k: given[k][[0, 4]]}, PRECISE))
    for case, want, found in zip(cases, expected, avx2_runtime.run(jobs), strict=True):
        (found,) = found.values()
        assert np.array_equal(want.reshape(found.shape), found), case


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_products_of_dynamic_inputs_load(form, qcalib, tmp_path):
    """Their inputs are quantized by ONNX Runtime, which fuses them as it likes: the option makes no difference on processors that need no rewriting."""
    rng = np.random.default_rng(6)
    tied(tmp_path / "tied.onnx")
    save_data(tmp_path / "tied.h5", "x", rng.normal(size=(4, 4, 16, 16)).astype(np.float32))
    lstm(tmp_path / "lstm.onnx")
    save_data(tmp_path / "lstm.h5", "x", rng.normal(size=(4, 6, 1, 8)).astype(np.float32))
    cases = [
        ("tied", "--activation-type=dynamic"),
        ("lstm", "--activation-type=dynamic"),
        ("lstm", "--activation-type=uint8"),
        ("tied", "--weight-block=16"),
    ]
    jobs, expected = [], []
    for i, (name, option) in enumerate(cases):
        file, data = tmp_path / f"{i}.onnx", tmp_path / f"{name}.h5"
        source = tmp_path / f"{name}.onnx"
        options = [option, "--activation-type=none"] if "block" in option else [option]
        qcalib("-q", "--no-report", "--format", form, *options, "--data", data, source, "-o", file)
        expected.append(outputs(qcalib, file, data, tmp_path)[:1])
        with h5py.File(data) as given:
            x = given["x"][0] if name == "lstm" else given["x"][:1]
            jobs.append(Job(file, {"x": x}, PRECISE))
    for case, want, found in zip(cases, expected, avx2_runtime.run(jobs), strict=True):
        (found,) = found.values()
        np.testing.assert_allclose(found, want.reshape(found.shape), atol=0.02 * np.abs(want).max(), err_msg=str(case))


def test_shared_weights_are_stored_once(qcalib, tmp_path):
    """The second reader of a weight has a Reshape of it: the file grows by less than the weight."""
    tied(tmp_path / "tied.onnx")
    save_data(tmp_path / "tied.h5", "x", np.random.default_rng(7).normal(size=(8, 4, 16, 16)).astype(np.float32))
    qcalib("-q", "--no-report", "--prefer=integers", "--data", "tied.h5", "tied.onnx", "-o", "int8.onnx")
    stored = [t for t in initializers(tmp_path / "int8.onnx").values() if t.data_type == TensorProto.INT8]
    assert sorted(tuple(t.dims) for t in stored if len(t.dims) > 1) == [(4, 4, 3, 3), (16, 16)]
    nodes = onnx.load(tmp_path / "int8.onnx").graph.node
    read = [n.input[2] for n in nodes if n.op_type == "DequantizeLinear" and n.input[2] in {t.name for t in stored}]
    assert len(read) == len(set(read)) == 5, read


def branching(path):
    """The tied network, and an If whose branches have products with the same weight."""
    tied(path)
    model = onnx.load(path)
    graph = model.graph

    def branch(name, op):
        nodes = [
            helper.make_node("MatMul", ["y", "weight"], [f"{name}_1"], f"{name}_1"),
            helper.make_node("MatMul", [f"{name}_1", "weight"], [f"{name}_2"], f"{name}_2"),
            helper.make_node(op, [f"{name}_2"], [name], f"{name}_end"),
        ]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])

    graph.initializer.append(numpy_helper.from_array(np.float32(0), "zero"))
    graph.node.extend(
        [
            helper.make_node("ReduceMax", ["y"], ["top"], "top", keepdims=0),
            helper.make_node("Greater", ["top", "zero"], ["positive"], "positive"),
            helper.make_node(
                "If", ["positive"], ["z"], "if", then_branch=branch("then", "Relu"), else_branch=branch("else", "Neg")
            ),
        ]
    )
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", 4, 16, 16]))
    onnx.save(model, path)


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_networks_with_branches_load(form, qcalib, tmp_path):
    branching(tmp_path / "if.onnx")
    x = np.random.default_rng(8).normal(size=(8, 4, 16, 16)).astype(np.float32)
    save_data(tmp_path / "if.h5", "x", x)
    qcalib("-q", "--no-report", "--format", form, "--prefer=integers", "--data", "if.h5", "if.onnx", "-o", "int8.onnx")
    want = outputs(qcalib, "int8.onnx", "if.h5", tmp_path)[:1]
    ((found,),) = (r.values() for r in avx2_runtime.run([Job(tmp_path / "int8.onnx", {"x": x[:1]}, PRECISE)]))
    np.testing.assert_allclose(found, want.reshape(found.shape), atol=0.02 * np.abs(want).max())
    nodes = onnx.load(tmp_path / "int8.onnx").graph.node
    stored = {name for name, t in initializers(tmp_path / "int8.onnx").items() if t.data_type == TensorProto.INT8}
    read = [n.input[2] for n in nodes if n.op_type == "DequantizeLinear" and n.input[2] in stored]
    assert len(read) == len(set(read)), read


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_given_models_load_and_are_exact(form, qcalib, data, tmp_path):
    from measured_models import BY_NAME, Data

    names = ["resnet8_cifar10_mlperf", "dscnn_kws_mlperf", "mnist_cntk8", "autoencoder_ad_mlperf"]
    jobs, expected = [], []
    for name in names:
        model, file = BY_NAME[name], tmp_path / f"{name}.onnx"
        qcalib("-q", "--no-report", "--samples=8", "--format", form, *model.options(data), "-o", file)
        given = ["--preprocess", model.preprocess] if model.preprocess else []
        expected.append(outputs(qcalib, file, data / model.calib, tmp_path, *given))
        samples = Data(data / model.calib, model.preprocess)
        (feed,) = (i.name for i in onnx.load(file).graph.input)
        inputs = samples.inputs[[j * len(samples.inputs) // SAMPLES for j in range(SAMPLES)]]
        jobs.append(Job(file, {feed: inputs}, PRECISE))
    for name, want, found in zip(names, expected, avx2_runtime.run(jobs), strict=True):
        (found,) = found.values()
        assert np.array_equal(want.reshape(found.shape), found), name
