# SPDX-License-Identifier: Apache-2.0
"""Models of onnxruntime.quantization.quantize_dynamic: quantized parts are kept, the rest is quantized by the job."""

import collections
import logging

import avx2_runtime
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

DYNAMIC = ("DynamicQuantizeLinear", "MatMulInteger", "ConvInteger")


def network(path):
    """Two convolutions, then two products."""
    rng = np.random.default_rng(0)
    arrays = {
        "w1": rng.normal(size=(8, 3, 3, 3)) / 5,
        "b1": rng.normal(size=8),
        "w2": rng.normal(size=(8, 8, 3, 3)) / 8,
        "b2": rng.normal(size=8),
        "m1": rng.normal(size=(8, 16)) / 3,
        "a1": rng.normal(size=16),
        "m2": rng.normal(size=(16, 10)) / 4,
    }
    nodes = [
        ("Conv", ["x", "w1", "b1"], "c1", {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c1"], "r1", {}),
        ("Conv", ["r1", "w2", "b2"], "c2", {"pads": [1, 1, 1, 1]}),
        ("Relu", ["c2"], "r2", {}),
        ("GlobalAveragePool", ["r2"], "p", {}),
        ("Flatten", ["p"], "f", {}),
        ("MatMul", ["f", "m1"], "h1", {}),
        ("Add", ["h1", "a1"], "h2", {}),
        ("Relu", ["h2"], "h3", {}),
        ("MatMul", ["h3", "m2"], "y", {}),
    ]
    graph = helper.make_graph(
        [helper.make_node(op, inputs, [out], name=f"n_{out}", **a) for op, inputs, out, a in nodes],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 16, 16])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in arrays.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def outputs(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options)
    return np.concatenate([session.run(None, {"x": s[None]})[0] for s in x])


def decibels(want, got):
    return 10 * np.log10((want**2).sum() / ((want - got) ** 2).sum())


WHAT = {
    "products": {"op_types_to_quantize": ["MatMul"], "weight_type": QuantType.QInt8},
    "channels of products": {"op_types_to_quantize": ["MatMul"], "per_channel": True, "weight_type": QuantType.QInt8},
    "a product": {"nodes_to_quantize": ["n_h1"], "weight_type": QuantType.QUInt8},
    "convolutions": {"op_types_to_quantize": ["Conv"], "weight_type": QuantType.QUInt8},
    "a convolution": {"nodes_to_quantize": ["n_c1"], "weight_type": QuantType.QUInt8},
}


@pytest.mark.parametrize("what", WHAT)
def test_the_rest_is_quantized(what, qcalib, tmp_path):
    network(tmp_path / "float.onnx")
    logging.disable(logging.WARNING)
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "m.onnx", **WHAT[what])
    logging.disable(logging.NOTSET)
    x = np.random.default_rng(1).normal(size=(64, 3, 16, 16)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    done = qcalib("--data", "x.npz", "-o", "q.onnx", "m.onnx")
    assert "reference   the given model, which is partly quantized" in done.out
    models = [onnx.load(tmp_path / f) for f in ("m.onnx", "q.onnx")]
    before, after = (collections.Counter(n.op_type for n in m.graph.node) for m in models)
    assert [before[op] for op in DYNAMIC] == [after[op] for op in DYNAMIC] and before["DynamicQuantizeLinear"]
    made = {o: n for n in models[1].graph.node for o in n.output}
    rest = [n for n in models[1].graph.node if n.op_type in ("Conv", "Gemm", "MatMul")]
    assert len(rest) == 4 - before["MatMulInteger"] - before["ConvInteger"]
    assert all(made[i].op_type == "DequantizeLinear" for n in rest for i in n.input[:2])
    real, given, got = (outputs(tmp_path / f, x) for f in ("float.onnx", "m.onnx", "q.onnx"))
    # Without VNNI the given products of int8 may saturate; the file is as far from the float model then as the given one.
    near = 35 if avx2_runtime.kernels() != "saturating" else min(35, decibels(real, given) - 0.5)
    assert decibels(given, got) > 35 and decibels(real, got) > near


def test_all_of_it_is_quantized(qcalib, tmp_path):
    network(tmp_path / "float.onnx")
    logging.disable(logging.WARNING)
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "m.onnx", weight_type=QuantType.QUInt8)
    logging.disable(logging.NOTSET)
    np.savez(tmp_path / "x.npz", x=np.zeros((4, 3, 16, 16), np.float32))
    done = qcalib("--data", "x.npz", "-o", "q.onnx", "m.onnx", code=4)
    assert "is quantized already" in done.err and not done.new_files
