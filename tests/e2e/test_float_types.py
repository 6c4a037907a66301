# SPDX-License-Identifier: Apache-2.0
"""Models in float16, bfloat16 and double are quantized: the integers equal those in ONNX Runtime bit for bit; float
values, inputs and outputs keep their type."""

import h5py
import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

TYPES = {
    "float16": (TensorProto.FLOAT16, np.float16),
    "bfloat16": (TensorProto.BFLOAT16, ml_dtypes.bfloat16),
    "double": (TensorProto.DOUBLE, np.float64),
}
SIZE, CLASSES = 24, 10


def tensor(name, values, kind):
    onnx_type, numpy_type = TYPES[kind]
    values = np.asarray(values).astype(numpy_type)
    return helper.make_tensor(name, onnx_type, values.shape, values.tobytes(), raw=True)


def save(path, nodes, inputs, outputs, tensors, opset=13):
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), str(path))


def dense(path, kind, float_ports=False, opset=13):
    """Two layers; between them, and behind, what stays float: a normalisation with a table of its own, Softmax."""
    rng = np.random.default_rng(3)
    own = TYPES[kind][0]
    tensors = [
        tensor("w", rng.normal(size=(SIZE, 96)) / 4, kind),
        tensor("b", rng.normal(size=96), kind),
        tensor("v", rng.normal(size=(96, CLASSES)) / 4, kind),
        tensor("table", rng.normal(size=(96,)), kind),
        tensor("one", 1.0, kind),
        tensor("wide", rng.normal(size=(96, 96)) / 8, kind),
    ]
    nodes = [helper.make_node("Cast", ["x"], ["x_own"], to=own)] if float_ports else []
    nodes += [
        helper.make_node("Gemm", ["x_own" if float_ports else "x", "w", "b"], ["h"], name="first"),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Softmax", ["r"], ["s"], axis=-1),
        helper.make_node("Mul", ["s", "table"], ["m"], name="scale"),
        helper.make_node("MatMul", ["m", "wide"], ["t"], name="kept"),
        helper.make_node("Add", ["r", "t"], ["a"], name="sum"),
        helper.make_node("MatMul", ["a", "v"], ["y_own" if float_ports else "y"], name="second"),
    ]
    nodes += [helper.make_node("Cast", ["y_own"], ["y"], to=TensorProto.FLOAT)] if float_ports else []
    port = TensorProto.FLOAT if float_ports else own
    value = lambda n, d: helper.make_tensor_value_info(n, port, ["N", d])
    save(path, nodes, [value("x", SIZE)], [value("y", CLASSES)], tensors, opset)
    x = rng.normal(size=(32, SIZE)).astype(np.float32)
    with h5py.File(path.with_suffix(".h5"), "w") as f:
        f["x"], f["labels"] = x, rng.integers(0, CLASSES, 32)
    return x


def run(path, feeds):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, feeds)


def initializers(path):
    return {i.name: i.data_type for i in onnx.load(str(path)).graph.initializer}


@pytest.mark.integers
@pytest.mark.parametrize("kind, form", (("float16", "qdq"), ("float16", "qoperator"), ("double", "qdq")))
def test_a_model_keeps_its_type_around_integers(kind, form, qcalib, tmp_path):
    onnx_type, numpy_type = TYPES[kind]
    x = dense(tmp_path / "m.onnx", kind)
    done = qcalib("--data", "m.h5", "--eval", "m.h5", "--skip", "kept", "--format", form, "m.onnx", "-o", "q.onnx")
    assert "stay in float" in done.out and "top-1" in done.out, done.out
    model = onnx.load(str(tmp_path / "q.onnx"))
    onnx.checker.check_model(model, full_check=True)
    assert [p.type.tensor_type.elem_type for p in [*model.graph.input, *model.graph.output]] == [onnx_type] * 2
    kinds = initializers(tmp_path / "q.onnx")
    assert kinds["wide"] == kinds["table"] == onnx_type  # of float operators
    assert TensorProto.INT8 in kinds.values() and TensorProto.INT32 in kinds.values()
    # the float operators between are rounded as the runtime rounds them, to a few units of the type
    truth = run(tmp_path / "m.onnx", {"x": x.astype(numpy_type)})[0].astype(np.float64)
    got = run(tmp_path / "q.onnx", {"x": x.astype(numpy_type)})[0]
    assert got.dtype == numpy_type
    error = got.astype(np.float64) - truth
    assert 10 * np.log10((truth**2).sum() / (error**2).sum()) > 30
    qcalib("run", "q.onnx", "--data", "m.h5", "-o", "q.h5")
    with h5py.File(tmp_path / "q.h5") as f:
        here = f["y"][()]
    assert here.dtype == numpy_type
    np.testing.assert_allclose(here.astype(np.float64), got.astype(np.float64), rtol=4e-3, atol=2e-2)


@pytest.mark.integers
@pytest.mark.parametrize("kind", ("float16", "double"))
def test_integers_are_those_of_the_runtime(kind, qcalib, tmp_path):
    """Nothing stays float: what comes out is equal to the bit, before it is stored in 16 bits and behind."""
    numpy_type = TYPES[kind][1]
    rng = np.random.default_rng(5)
    own = TYPES[kind][0]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "v"], ["d"]),
        helper.make_node("GlobalAveragePool", ["d"], ["g"]),
        helper.make_node("Flatten", ["g"], ["y"]),
    ]
    tensors = [
        tensor("w", rng.normal(size=(8, 3, 3, 3)), kind),
        tensor("b", rng.normal(size=8), kind),
        tensor("v", rng.normal(size=(6, 8, 1, 1)), kind),
    ]
    value = lambda n, *d: helper.make_tensor_value_info(n, own, ["N", *d])
    save(tmp_path / "c.onnx", nodes, [value("x", 3, 8, 8)], [value("y", 6)], tensors)
    x = rng.normal(size=(16, 3, 8, 8)).astype(np.float32)
    with h5py.File(tmp_path / "c.h5", "w") as f:
        f["x"] = x
    qcalib("--data", "c.h5", "c.onnx", "-o", "q.onnx")
    qcalib("run", "q.onnx", "--data", "c.h5", "-o", "o.h5")
    got = run(tmp_path / "q.onnx", {"x": x.astype(numpy_type)})[0]
    with h5py.File(tmp_path / "o.h5") as f:
        np.testing.assert_array_equal(f["y"][()], got)


def test_bfloat16_is_kept_in_constants(qcalib, tmp_path):
    """ONNX Runtime has no operators of bfloat16 on a CPU, so the float ones are float32, and constants are widened where they are read."""
    x = dense(tmp_path / "m.onnx", "bfloat16", float_ports=True)
    qcalib("--data", "m.h5", "--skip", "kept", "m.onnx", "-o", "q.onnx")
    kinds = initializers(tmp_path / "q.onnx")
    assert kinds["wide"] == kinds["table"] == TensorProto.BFLOAT16
    got = run(tmp_path / "q.onnx", {"x": x})[0]
    qcalib("run", "q.onnx", "--data", "m.h5", "-o", "q.h5")
    with h5py.File(tmp_path / "q.h5") as f:
        np.testing.assert_allclose(f["y"][()], got, rtol=1e-4, atol=2e-2)


def test_ports_of_bfloat16_are_kept(qcalib, tmp_path):
    dense(tmp_path / "m.onnx", "bfloat16")
    qcalib("--data", "m.h5", "m.onnx", "-o", "q.onnx")
    model = onnx.load(str(tmp_path / "q.onnx"))
    onnx.checker.check_model(model, full_check=True)
    assert [p.type.tensor_type.elem_type for p in [*model.graph.input, *model.graph.output]] == [
        TensorProto.BFLOAT16
    ] * 2


@pytest.mark.parametrize("kind", ("float16", "bfloat16", "double"))
def test_eval_compare_and_collect(kind, qcalib, tmp_path):
    dense(tmp_path / "m.onnx", kind)
    qcalib("collect", "--data", "m.h5", "m.onnx", "-o", "m.stats.h5")
    qcalib("--stats", "m.stats.h5", "m.onnx", "-o", "q.onnx")
    models = qcalib("eval", "m.onnx", "q.onnx", "--data", "m.h5", "--json").json["models"]
    assert [m["samples"] for m in models] == [32, 32]
    compared = qcalib("compare", "m.onnx", "q.onnx", "--data", "m.h5", "--json").json
    assert all(o["sqnr_db"] > 25 for o in compared["outputs"]), compared["outputs"]
    same = qcalib("compare", "m.onnx", "m.onnx", "--data", "m.h5", "--json").json
    assert all(o["sqnr_db"] is None for o in same["outputs"]), same["outputs"]


@pytest.mark.integers
def test_bodies_and_constants_out_of_range(qcalib, tmp_path):
    """A body in float16 is quantized too; a mask that float16 rounds to minus infinity stays what it is."""
    rng = np.random.default_rng(7)
    own = TensorProto.FLOAT16
    value = lambda n: helper.make_tensor_value_info(n, own, None)
    branch = lambda name, w: helper.make_graph(
        [helper.make_node("MatMul", ["h", w], [name + "_y"])], name, [], [value(name + "_y")]
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["more"]),
        helper.make_node(
            "If", ["more"], ["z"], then_branch=branch("then", "v"), else_branch=branch("else", "u"), name="if"
        ),
        helper.make_node("Add", ["z", "mask"], ["k"]),
        helper.make_node("Softmax", ["k"], ["y"], axis=-1),
    ]
    mask = np.zeros(8)
    mask[5:] = -np.inf
    tensors = [tensor(n, rng.normal(size=(8, 8)), "float16") for n in "wvu"] + [
        tensor("zero", 0.0, "float16"),
        tensor("mask", mask, "float16"),
    ]
    port = lambda n: helper.make_tensor_value_info(n, own, [1, 8])
    save(tmp_path / "i.onnx", nodes, [port("x")], [port("y")], tensors)
    x = rng.normal(size=(16, 8)).astype(np.float32)
    with h5py.File(tmp_path / "i.h5", "w") as f:
        f["x"] = x
    qcalib("--data", "i.h5", "i.onnx", "-o", "q.onnx")
    qcalib("run", "q.onnx", "--data", "i.h5", "-o", "o.h5")
    with h5py.File(tmp_path / "o.h5") as f:
        here = f["y"][()]
    got = np.concatenate([run(tmp_path / "q.onnx", {"x": x[i : i + 1].astype(np.float16)})[0] for i in range(16)])
    truth = np.concatenate([run(tmp_path / "i.onnx", {"x": x[i : i + 1].astype(np.float16)})[0] for i in range(16)])
    np.testing.assert_allclose(here.astype(np.float32), got.astype(np.float32), atol=2e-3)
    np.testing.assert_allclose(got.astype(np.float32), truth.astype(np.float32), atol=0.1)
    bodies = [a.g for n in onnx.load(str(tmp_path / "q.onnx")).graph.node if n.op_type == "If" for a in n.attribute]
    assert all(
        "QuantizeLinear" in {n.op_type for n in b.node} or "DequantizeLinear" in {n.op_type for n in b.node}
        for b in bodies
    )


def test_weights_that_are_shared_are_read_once(qcalib, tmp_path):
    """A model in float32 with constants of float16 behind Casts is what it was."""
    rng = np.random.default_rng(9)
    half = rng.normal(size=(SIZE, CLASSES)).astype(np.float16)
    port = lambda n, d: helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", d])
    nodes = [
        helper.make_node("Cast", ["w"], ["w32"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["x", "w32"], ["y"]),
    ]
    save(tmp_path / "m.onnx", nodes, [port("x", SIZE)], [port("y", CLASSES)], [numpy_helper.from_array(half, "w")])
    with h5py.File(tmp_path / "m.h5", "w") as f:
        f["x"] = rng.normal(size=(8, SIZE)).astype(np.float32)
    qcalib("--data", "m.h5", "m.onnx", "-o", "q.onnx")
    assert "Cast" not in {n.op_type for n in onnx.load(str(tmp_path / "q.onnx")).graph.node}
