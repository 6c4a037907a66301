# SPDX-License-Identifier: Apache-2.0
"""`--format tflite`: recurrent operators, unrolled into their steps, and shapes that depend on the batch, in TensorFlow Lite's interpreter.

  QCALIB       the program; build/release/qcalib when unset"""

import h5py
import numpy as np
import onnx
import pytest

from test_tflite_export import array, check_network, interpreter_of, made, node, operators, quantized
from test_tflite_import import command, program  # noqa: F401

F = np.float32
STEPS, WIDTH, HIDDEN = 7, 5, 6
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def model_of(folder, kind, direction, whole, **attributes):
    """x [N, steps, width] -> y, and the last states. whole: with biases and initial states."""
    d, g = 2 if direction == "bidirectional" else 1, GATES[kind]
    weights = {"w": array(d, g * HIDDEN, WIDTH), "r": array(d, g * HIDDEN, HIDDEN, seed=2), "order": np.array([1, 0, 2])}
    inputs, outputs = ["t", "w", "r"], ["s", "h", "c"][: 3 if kind == "LSTM" else 2]
    if whole:
        weights |= {"b": array(d, 2 * g * HIDDEN, seed=3), "h0": array(d, 1, HIDDEN, seed=4), "c0": array(d, 1, HIDDEN, seed=5)}
        inputs += ["b", "", "h0", "c0"][: 4 if kind == "LSTM" else 3]
    cell = onnx.helper.make_node(kind, inputs, outputs, name="cell", direction=direction, hidden_size=HIDDEN, **attributes)
    nodes = [onnx.helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), cell]
    ports = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in (("x", [1, STEPS, WIDTH]), *((o, None) for o in outputs))]
    constants = [onnx.numpy_helper.from_array(v, k) for k, v in weights.items() if k != "order"]
    graph = onnx.helper.make_graph(nodes, "made", ports[:1], ports[1:], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 14)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), folder / "made.onnx")
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = np.random.default_rng(8).normal(0, 1, (16, STEPS, WIDTH)).astype(F)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("kind", "attributes"), [("LSTM", {}), ("GRU", {}), ("GRU", {"linear_before_reset": 1}), ("RNN", {})])
def test_a_recurrent_operator(kind, attributes, direction, whole, program, tmp_path):  # noqa: F811
    """All outputs against qcalib, whose cells the tests compare with ONNX Runtime: both compute in float32, with the same weights."""
    model_of(tmp_path, kind, direction, whole, **attributes)
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    command(program, tmp_path, "run", "made.int8.onnx", "--data", "data.h5", "-o", "out.h5")
    runner = interpreter_of(content).get_signature_runner("serving_default")
    with h5py.File(tmp_path / "data.h5") as file, h5py.File(tmp_path / "out.h5") as wanted:
        for name in wanted:
            got = np.stack([runner(x=v[None])[name] for v in file["x"][:]])
            want = wanted[name][:].reshape(got.shape)
            assert np.abs(want).max() > 0.1 and 10 * np.log10((want**2).sum() / ((got - want) ** 2).sum()) > 100
    assert operators(content).count("TANH") >= STEPS


def test_why_a_recurrent_operator_is_not_written(program, tmp_path):  # noqa: F811
    model_of(tmp_path, "LSTM", "forward", True, clip=3.0)
    said = command(program, tmp_path, "-q", "--no-report", "--data", "data.h5", "--format", "tflite", "made.onnx", code=4)
    assert "LSTM 'cell': only 1 to 256 known steps in float32 are written, without lengths, peepholes, clip" in said


def test_a_shape_without_a_form_makes_a_batch_of_one(program, tmp_path):  # noqa: F811
    """TensorFlow Lite divides no int64, so the shape that is computed from the batch becomes a constant."""
    nodes = [
        node("Conv", ["x", "w"], "c"), node("Shape", ["c"], "s"), node("Gather", ["s", "first"], "n"), node("Div", ["n", "one"], "whole"),
        node("Concat", ["whole", "rest"], "to", axis=0), node("Reshape", ["c", "to"], "f"), node("Gemm", ["f", "v"], "y"),
    ]  # fmt: skip
    made(tmp_path, nodes, (3, 4, 4), {"w": array(4, 3, 1, 1), "v": array(64, 5), "first": np.array([0]), "one": np.array([1]), "rest": np.array([64])})
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    check_network(program, tmp_path, content, tmp_path / "data.h5", 32)
    assert "DIV" not in operators(content) and "SHAPE" not in operators(content)
    assert interpreter_of(content).get_input_details()[0]["shape_signature"][0] == 1


def test_a_mask_as_large_as_float32_is_added_in_float(program, tmp_path):  # noqa: F811
    """TensorFlow Lite's ADD of integers aborts the program if its scales are so far apart."""
    mask = np.where(np.tri(8, dtype=bool), 0, np.finfo(F).min).astype(F)
    nodes = [node("MatMul", ["x", "w"], "a"), node("Add", ["a", "mask"], "m"), node("Softmax", ["m"], "s", axis=-1), node("MatMul", ["s", "v"], "y")]
    made(tmp_path, nodes, (8, 8), {"w": array(8, 8), "v": array(8, 5, seed=2), "mask": mask})
    content = quantized(program, tmp_path, "made.onnx", "data.h5", "--method", "minmax")
    found = operators(content)
    interpreter = interpreter_of(content)
    assert np.isfinite(interpreter.get_signature_runner("serving_default")(x=np.ones((1, 8, 8), F))["y"]).all()
    at = found.index("ADD")
    assert found[at - 1 : at + 2] == ["DEQUANTIZE", "ADD", "SOFTMAX"], found
