# SPDX-License-Identifier: Apache-2.0
"""Activations in blocks: numbers of the op, of the function in the file, and of a reference by ml_dtypes."""

import json

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from format_references import FORMATS, SCALE_LEVELS, edge, nearest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

RANDOM = np.random.default_rng(43)


def power_scale(largest, most):
    """The least power of two by which `largest` is below the most."""
    scale = np.exp2(np.ceil(np.log2(np.maximum(largest, 2.0**-100).astype("f8") / most)))
    return np.where(largest >= scale * most, 2 * scale, scale).astype("f4")


def rounded(x, name):
    """x rounded to a format in blocks along its last axis."""
    _, levels, block, scales = FORMATS[name]
    length = x.shape[-1]
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -length % block)])
    blocks = padded.reshape(*x.shape[:-1], -1, block)
    largest = np.abs(blocks).max(-1, keepdims=True)
    if scales == "float8":
        most = np.float32(levels[-1])
        unit = power_scale(largest.max(-2, keepdims=True) / most, edge(SCALE_LEVELS))
        code = nearest(largest / most / unit, SCALE_LEVELS)
        scale = np.maximum(code, np.float32(2.0**-9)) * unit
    else:
        scale = power_scale(largest, edge(levels))
    return (nearest(blocks / scale, levels) * scale).reshape(padded.shape)[..., :length]


def write(folder, nodes, weights, x, opset=13):
    ports = (
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", *x.shape[1:]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    graph = helper.make_graph(nodes, "g", *ports, [numpy_helper.from_array(v, n) for n, v in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), folder / "m.onnx")
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = x


def numbers(*shape):
    """Magnitudes of many octaves, zeros, a row of zeros and numbers on the edges of steps."""
    x = RANDOM.normal(size=shape) * np.exp(RANDOM.normal(0, 2, (*shape[:-1], 1)))
    x[RANDOM.random(shape) < 0.1] = 0
    x[0] = 0
    x[1] = RANDOM.integers(-40, 41, shape[1:]) / 8
    x[2] *= 2.0**-40
    return x.astype("f4")


def outputs(qcalib, path, x):
    """Outputs of the op in qcalib, of the function in ONNX Runtime, and in onnx's reference."""
    qcalib("run", path, "--data", "data.h5", "-o", "o.h5", "-q")
    with h5py.File(path.parent / "o.h5") as file:
        yield file["y"][:]
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # products in float32
    yield onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    yield ReferenceEvaluator(str(path)).run(None, {"x": x})[0]


def calls(path):
    return [n for n in onnx.load(path).graph.node if n.domain == "qcalib"]


@pytest.mark.parametrize("name", FORMATS)
def test_numbers(qcalib, tmp_path, name):
    """A product with the identity gives the rounded numbers; 70 is no multiple of a block."""
    x = numbers(64, 5, 70)
    write(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": np.eye(70, dtype="f4") * 127}, x)
    qcalib("--activation-type", name, "--no-report", "-q", "-o", "q.onnx", tmp_path / "m.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "q.onnx"), full_check=True)
    assert [n.op_type for n in calls(tmp_path / "q.onnx")] == [name]
    for y in outputs(qcalib, tmp_path / "q.onnx", x):
        np.testing.assert_array_equal(y, rounded(x, name) * 127)


@pytest.mark.parametrize("name", ("mxfp4", "nvfp4"))
def test_channels(qcalib, tmp_path, name):
    """Blocks of a convolution's input lie along the channels."""
    x = numbers(16, 48, 3, 4)
    w = np.eye(48, dtype="f4")[:, :, None, None] * 127
    write(tmp_path, [helper.make_node("Conv", ["x", "w"], ["y"])], {"w": w}, x)
    qcalib("--activation-type", name, "--no-report", "-q", "-o", "q.onnx", tmp_path / "m.onnx")
    want = np.moveaxis(rounded(np.moveaxis(x, 1, -1), name), -1, 1) * 127
    for y in outputs(qcalib, tmp_path / "q.onnx", x):
        np.testing.assert_array_equal(y, want)


def test_nodes_by_name(qcalib, tmp_path):
    """Two formats in a file, products that share a rounding, and a depthwise convolution, whose input stays float."""
    x = RANDOM.normal(size=(20, 64, 6)).astype("f4")
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "d"], ["a"], "depthwise", group=64, pads=[1, 1]),
        node("Conv", ["a", "c"], ["b"], "pointwise"),
        node("MatMul", ["b", "w1"], ["m1"], "left"),
        node("MatMul", ["b", "w2"], ["m2"], "right"),
        node("Add", ["m1", "m2"], ["s"]),
        node("MatMul", ["s", "w3"], ["y"], "plain"),
    ]
    shapes = {"d": (64, 1, 3), "c": (64, 64, 1), "w1": (6, 6), "w2": (6, 6), "w3": (6, 6)}
    write(tmp_path, nodes, {n: RANDOM.normal(size=s).astype("f4") for n, s in shapes.items()}, x)
    types = ("mxfp8", "mxfp4:left", "mxfp4:right", "none:plain")
    choices = [word for t in types for word in ("--activation-type", t)]
    qcalib(*choices, "--no-report", "-q", "-o", "q.onnx", tmp_path / "m.onnx")
    made = calls(tmp_path / "q.onnx")
    assert [(n.op_type, n.input[0]) for n in made] == [("mxfp8", "a"), ("mxfp4", "b")]
    assert sorted(f.name for f in onnx.load(tmp_path / "q.onnx").functions) == ["mxfp4", "mxfp8"]
    first, *others = outputs(qcalib, tmp_path / "q.onnx", x)
    for y in others:
        np.testing.assert_allclose(y, first, rtol=0, atol=1e-4 * np.abs(first).max())


def test_lstm_and_conversion(qcalib, tmp_path):
    """The input of an LSTM is rounded, its state is not. A file that is written again keeps its function."""
    x = RANDOM.normal(size=(7, 4, 40)).astype("f4")
    node = helper.make_node("LSTM", ["x", "w", "r"], ["s"], "lstm", hidden_size=8)
    last = helper.make_node("Squeeze", ["s", "axes"], ["y"])
    weights = {"w": RANDOM.normal(size=(1, 32, 40)).astype("f4"), "r": RANDOM.normal(size=(1, 32, 8)).astype("f4")}
    write(tmp_path, [node, last], {**weights, "axes": np.array([1])}, x)
    qcalib("--activation-type", "mxfp6", "--no-report", "-q", "-o", "q.onnx", tmp_path / "m.onnx")
    assert [n.input[0] for n in calls(tmp_path / "q.onnx")] == ["x"]
    qcalib("convert", tmp_path / "q.onnx", "-o", tmp_path / "again.onnx")
    first, second = ([*outputs(qcalib, tmp_path / f, x)][0] for f in ("q.onnx", "again.onnx"))
    np.testing.assert_array_equal(first, second)
    assert [f.name for f in onnx.load(tmp_path / "again.onnx").functions] == ["mxfp6"]


def test_summary_counts_products_of_blocks(qcalib, tmp_path):
    x = RANDOM.normal(size=(40, 64)).astype("f4")
    write(tmp_path, [helper.make_node("MatMul", ["x", "w"], ["y"])], {"w": RANDOM.normal(size=(64, 8)).astype("f4")}, x)
    job = ("--data", "data.h5", "--activation-type", "mxfp4", "--report", "r", "-o", "q.onnx")
    done = qcalib(*job, tmp_path / "m.onnx")
    assert "quantized   100.0 % of multiply-adds in blocks; 0 ops, 1 stays in float" in done.out
    facts = json.loads((tmp_path / "r/report.json").read_text())
    assert facts["block_share"] == 1
    assert all(a["command"].count("bfp16") == ("bfp16" in a["text"]) for a in facts["advice"])
