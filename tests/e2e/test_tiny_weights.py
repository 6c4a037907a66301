# SPDX-License-Identifier: Apache-2.0
"""Weights of tiny or denormal numbers are valid: their scales have a floor, and no form fails."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node
FACTORS = [1e-37, 1e-45]
OPTIONS = {
    "default": (),
    "int4": ("--weight-type", "int4"),
    "nvfp4": ("--weight-type", "nvfp4", "--activation-type", "none"),
    "mxfp4": ("--weight-type", "mxfp4", "--activation-type", "none"),
    "float8": ("--weight-type", "float8e4m3fn", "--activation-type", "float8e4m3fn"),
    "weights": ("--activation-type", "none"),
    "dynamic": ("--activation-type", "dynamic"),
    "qoperator": ("--format", "qoperator", "--prefer", "size"),
    "tensorrt": ("--target", "tensorrt"),
}
# Shape of a sample, nodes from x to y, and shapes of the constants; capitals are tiny.
LAYERS = {
    "MatMul": ([8], [node("MatMul", ["x", "W"], ["y"], "n")], {"W": (8, 8)}),
    "Gemm": ([8], [node("Gemm", ["x", "W", "b"], ["y"], "n")], {"W": (8, 8), "b": (8,)}),
    "bias": ([8], [node("Gemm", ["x", "w", "B"], ["y"], "n")], {"w": (8, 8), "B": (8,)}),
    "Conv": ([8, 6, 6], [node("Conv", ["x", "W"], ["y"], "n")], {"W": (4, 8, 3, 3)}),
    "ConvTranspose": ([8, 6, 6], [node("ConvTranspose", ["x", "W"], ["y"], "n")], {"W": (8, 4, 3, 3)}),
    "depthwise": (
        [8, 6, 6],
        [node("Conv", ["x", "W"], ["a"], "n", group=8), node("Conv", ["a", "w"], ["y"], "o")],
        {"W": (8, 1, 3, 3), "w": (4, 8, 1, 1)},
    ),
    "two": ([8], [node("MatMul", ["x", "W"], ["a"], "n"), node("MatMul", ["a", "w"], ["y"], "o")], {"W": (8, 8), "w": (8, 8)}),
    "Add": ([8], [node("MatMul", ["x", "w"], ["a"], "n"), node("Add", ["a", "B"], ["y"], "o")], {"w": (8, 8), "B": (8,)}),
}


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("layer", LAYERS)
def test_a_floor_of_the_scales(layer, factor, qcalib, tmp_path):
    shape, nodes, constants = LAYERS[layer]
    rng = np.random.default_rng(0)
    numbers = {k: (rng.normal(size=s) * (factor if k.isupper() else 1)).astype(np.float32) for k, s in constants.items()}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["n", *shape])],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v, k) for k, v in numbers.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    x = rng.normal(size=(32, *shape)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    want = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x})[0]
    for name, options in OPTIONS.items():
        qcalib("quantize", "m.onnx", "--data", "x.npy", "-o", "q.onnx", "--no-report", *options)
        if name == "nvfp4" or name == "mxfp4" or name == "tensorrt":  # ONNX Runtime's processor kernels do not read these
            scales = [numpy_helper.to_array(t) for t in onnx.load(tmp_path / "q.onnx").graph.initializer if t.name.endswith(("scale", "scale_over"))]
            assert all((s.astype(np.float32) >= np.finfo(np.float32).tiny).all() for s in scales if s.dtype == np.float32), name
            continue
        got = onnxruntime.InferenceSession(str(tmp_path / "q.onnx")).run(None, {"x": x})[0]
        # Products below 2^-100 of an integer accumulator round to 0.
        near = np.abs(got - want) <= 0.2 * np.abs(want).max() + 1e-28
        assert np.isfinite(got).all() and near.mean() > 0.97, f"{name}: {np.abs(got - want).max()} of {np.abs(want).max()}"


