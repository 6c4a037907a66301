# SPDX-License-Identifier: Apache-2.0
"""Integers at the inputs and outputs of a model: those that it has already, and --io-type."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_quantize_odd import node, normal

SCALE, ZERO, OUT_SCALE, OUT_ZERO = np.float32(0.02), np.uint8(120), np.float32(0.015), np.uint8(128)


def write(path, integer_input=False, integer_output=False):
    x, y = ("xf" if integer_input else "x"), ("yf" if integer_output else "y")
    nodes = [
        node("Conv", [x, "w", "b"], "c"),
        node("Relu", ["c"], "r"),
        node("Conv", ["r", "w2"], y),
    ]
    if integer_input:
        nodes.insert(0, node("DequantizeLinear", ["x", "s", "z"], "xf"))
    if integer_output:
        nodes.append(node("QuantizeLinear", ["yf", "so", "zo"], "y"))
    kind = lambda integer: TensorProto.UINT8 if integer else TensorProto.FLOAT
    weights = dict(w=normal(8, 3, 3, 3), b=normal(8, 1)[:, 0], w2=normal(4, 8, 3, 3))
    weights |= dict(s=SCALE, z=ZERO, so=OUT_SCALE, zo=OUT_ZERO)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind(integer_input), ["N", 3, 12, 12])],
        [helper.make_tensor_value_info("y", kind(integer_output), ["N", 4, 8, 8])],
        [numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def samples(path, integer=False, count=32):
    levels = np.random.default_rng(1).integers(0, 256, (count, 3, 12, 12)).astype(np.uint8)
    x = levels if integer else (levels.astype(np.float32) - ZERO) * SCALE
    np.savez(path, x=x)
    return x


def run(model, feeds, outputs=None):
    """Without rewrites, so that every operator computes what it says."""
    plain = ort.SessionOptions()
    plain.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    made = ort.InferenceSession(model if isinstance(model, bytes) else str(model), plain)
    return made.run(outputs, feeds)


def maker(model, value):
    return next(n for n in model.graph.node if value in n.output)


@pytest.mark.parametrize("integer_input", [False, True])
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_an_integer_output_is_rounded_once(integer_input, form, qcalib, tmp_path):
    """The result of the last convolution has the parameters of the model's QuantizeLinear, and no others before."""
    write(tmp_path / "m.onnx", integer_input, True)
    x = samples(tmp_path / "x.npz", integer_input)
    qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--no-report", "--format", form)
    made = onnx.load(tmp_path / "q.onnx")
    last = maker(made, "y")
    constants = {i.name: numpy_helper.to_array(i) for i in made.graph.initializer}
    if form == "qoperator":
        assert last.op_type == "QLinearConv"
        assert constants[last.input[6]] == OUT_SCALE and constants[last.input[7]] == OUT_ZERO
        return
    assert last.op_type == "QuantizeLinear" and maker(made, last.input[0]).op_type == "Conv"
    assert constants[last.input[1]] == OUT_SCALE and constants[last.input[2]] == OUT_ZERO
    made.graph.output.append(helper.make_tensor_value_info(last.input[0], TensorProto.FLOAT, None))
    y, real = run(made.SerializeToString(), {"x": x}, ["y", last.input[0]])
    once = np.clip(np.rint(real / OUT_SCALE) + OUT_ZERO, 0, 255)
    assert np.array_equal(y, once)
