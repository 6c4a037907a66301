# SPDX-License-Identifier: Apache-2.0
"""`qcalib convert` of float models between ONNX and TensorFlow Lite. Reference: ONNX Runtime and TensorFlow Lite's interpreter on
the other file.

  QCALIB       the program; build/release/qcalib when unset"""

import numpy as np
import onnx
import pytest

from test_tflite_export import array, interpreter_of, made, node, operators, run
from test_tflite_import import command, program  # noqa: F401

import onnxruntime  # noqa: E402
F = np.float32
IMAGE = [
    node("Conv", ["x", "w", "b"], "c", pads=[1, 1, 1, 1]), node("Relu", ["c"], "r"), node("Conv", ["r", "d"], "e", group=8, strides=[2, 2]),
    node("HardSwish", ["e"], "h"), node("MaxPool", ["h"], "m", kernel_shape=[2, 2], strides=[2, 2]), node("ConvTranspose", ["m", "t"], "u", strides=[2, 2]),
    node("GlobalAveragePool", ["u"], "g"), node("Flatten", ["g"], "f"), node("Gemm", ["f", "v"], "z"), node("Softmax", ["z"], "y", axis=-1),
]  # fmt: skip
NETWORKS = {
    "image": (IMAGE, (3, 14, 14), {"w": array(8, 3, 3, 3), "b": array(8), "d": array(8, 1, 3, 3), "t": array(8, 6, 2, 2), "v": array(6, 5)}),
    "rows": ([node("MatMul", ["x", "w"], "a"), node("LayerNormalization", ["a", "s", "o"], "n"), node("Gelu", ["n"], "g"), node("MatMul", ["g", "v"], "p"), node("Add", ["p", "x"], "y")],
             (7, 12), {"w": array(12, 20), "s": array(20), "o": array(20, seed=2), "v": array(20, 12)}),
}  # fmt: skip


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def as_in_file(x, shape):
    return np.ascontiguousarray(x if tuple(x.shape[1:]) == tuple(shape[1:]) else np.moveaxis(x, 1, -1))


@pytest.mark.parametrize("name", ["image", "rows"])
def test_there_and_back(name, program, tmp_path):  # noqa: F811
    nodes, shape, weights = NETWORKS[name]
    made(tmp_path, nodes, shape, weights, opset=20)
    said = command(program, tmp_path, "convert", "made.onnx", "--format", "tflite", "-o", "made.tflite")
    assert "0 ops on integers" in said
    command(program, tmp_path, "convert", "made.tflite", "-o", "back.onnx")
    assert not any("Quantize" in n.op_type for n in onnx.load(tmp_path / "back.onnx").graph.node)
    interpreter = interpreter_of((tmp_path / "made.tflite").read_bytes())
    source, back = session(tmp_path / "made.onnx"), session(tmp_path / "back.onnx")
    for seed in range(3):
        x = np.random.default_rng(seed).normal(0, 1, (1, *shape)).astype(F)
        want = source.run(None, {"x": x})[0]
        inside = as_in_file(x, interpreter.get_input_details()[0]["shape"])
        got, again = run(interpreter, [inside])[0], back.run(None, {back.get_inputs()[0].name: inside})[0]
        np.testing.assert_allclose(got.reshape(want.shape), want, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(again, got, rtol=1e-4, atol=1e-5)
    assert back.get_inputs()[0].name == "x" and len(np.unique(want)) > 4


def test_a_network_that_needs_a_name(program, tmp_path):  # noqa: F811
    nodes, shape, weights = NETWORKS["image"]
    made(tmp_path, nodes, shape, weights, opset=20)
    assert "name the result with -o" in command(program, tmp_path, "convert", "made.onnx", "--format", "tflite", code=2)
    command(program, tmp_path, "convert", "made.onnx", "--format", "tflite", "-o", "made.tflite")
    assert "name the result with -o" in command(program, tmp_path, "convert", "made.tflite", code=2)
    assert "is not quantized" in command(program, tmp_path, "convert", "made.onnx", "-o", "same.onnx", code=4)
    assert "is not quantized" in command(program, tmp_path, "convert", "made.tflite", "--format", "tflite", "-o", "same.tflite", code=4)


def test_a_converted_model_is_quantized_as_its_source(program, tmp_path):  # noqa: F811
    """The ONNX file of a float .tflite file and the file itself give the same numbers when they are quantized."""
    nodes, shape, weights = NETWORKS["image"]
    made(tmp_path, nodes, shape, weights, opset=20)
    command(program, tmp_path, "convert", "made.onnx", "--format", "tflite", "-o", "made.tflite")
    command(program, tmp_path, "convert", "made.tflite", "-o", "back.onnx")
    for source in ("made.tflite", "back.onnx"):
        command(program, tmp_path, "-q", "--no-report", "--advice", "off", "--data", "data.h5", "--input", "x=x:nchw", source, "-o", f"{source}.q.onnx")
    x = np.random.default_rng(1).normal(0, 1, (4, 14, 14, 3)).astype(F)
    first, second = (session(tmp_path / f"{s}.q.onnx").run(None, {"x": x})[0] for s in ("made.tflite", "back.onnx"))
    np.testing.assert_array_equal(first, second)
    assert "CONV_2D" in operators((tmp_path / "made.tflite").read_bytes())
