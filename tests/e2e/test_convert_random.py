# SPDX-License-Identifier: Apache-2.0
"""Conversion keeps float values in float and rounded values rounded: random small QDQ models in ONNX Runtime, without
its optimizations, before and after `qcalib convert`, and in `qcalib run`."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from random_qdq import SHAPE, random_model


def run_onnxruntime(path, x):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, {"x": x})))


def check(model, x, qcalib, folder):
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, folder / "m.onnx")
    np.savez(folder / "x.npz", x=x)
    qcalib("convert", "m.onnx", "--format", "qdq", "-o", "c.onnx")
    qcalib("run", "m.onnx", "--data", "x.npz", "-o", "y.h5")
    expected, converted = (run_onnxruntime(folder / f, x) for f in ("m.onnx", "c.onnx"))
    with h5py.File(folder / "y.h5") as f:
        for name, y in expected.items():
            near = {"rtol": 0, "atol": 1e-5 * max(1, np.abs(y).max()), "err_msg": name}
            np.testing.assert_allclose(converted[name], y, **near)
            np.testing.assert_allclose(f[name][()].reshape(y.shape), y, **near)


@pytest.mark.parametrize("seed", range(48))
def test_random_models(seed, qcalib, tmp_path):
    x = np.random.default_rng(seed).normal(size=SHAPE).astype(np.float32)
    check(random_model(seed), x, qcalib, tmp_path)


def test_class_token(qcalib, tmp_path):
    """A constant far smaller than a step of what it is joined with."""
    rng = np.random.default_rng(0)
    constants = {
        "s": np.float32(0.1),
        "z": np.uint8(128),
        "token": (rng.normal(size=(1, 1, 8)) * 0.02).astype(np.float32),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Concat", ["token", "d"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "token",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5, 8])],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    check(model, rng.normal(size=(1, 4, 8)).astype(np.float32), qcalib, tmp_path)
