# SPDX-License-Identifier: Apache-2.0
"""Models of onnxruntime.quantization.quantize_dynamic: quantized parts are kept, the rest is quantized by the job."""

import collections
import logging

import avx2_runtime
import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from test_contrib_forms import TOKENS, WIDTH, Net, attention
from test_restored_calls import positions

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


def outputs(path, x, plain=False):
    options = onnxruntime.SessionOptions()
    if plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
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
    done = qcalib("--prefer", "integers", "--data", "x.npz", "-o", "q.onnx", "m.onnx")
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


# --- Operators of ONNX Runtime ---


def lstm(n):
    x = n.add("Relu", n.add("Conv", "x", n.weight(TOKENS, TOKENS, 3), kernel_shape=[3], pads=[1, 1]))
    for width in (WIDTH, HIDDEN):
        weights = n.weight(1, 4 * HIDDEN, width), n.weight(1, 4 * HIDDEN, HIDDEN), n.weight(1, 8 * HIDDEN)
        x = n.add("LSTM", x, *weights, hidden_size=HIDDEN, outputs=3)[0]
        x = n.add("Squeeze", x, n.const(np.array([1])))
    return n.linear(x, HIDDEN)


def embedding(n):
    """Words whose numbers no job changes: nothing in front of them is quantized."""
    tables = n.weight(61, WIDTH, scale=3), n.weight(TOKENS, WIDTH)
    norm = n.const(np.ones(WIDTH, np.float32)), n.weight(WIDTH)
    y = n.fused("EmbedLayerNormalization", n.add("Cast", positions(n), to=TensorProto.INT32), "", *tables, "", *norm, outputs=2, epsilon=1e-5)
    return n.linear(y[0])


HIDDEN = 32
FORMS = {
    "LSTM": (lstm, "DynamicQuantizeLSTM"),
    "Attention": (lambda n: attention(n, True), "QAttention"),
    "EmbedLayerNormalization": (embedding, "QEmbedLayerNormalization"),
}
SAMPLES = np.random.default_rng(3).normal(size=(48, TOKENS, WIDTH)).astype(np.float32)


def dynamic(folder, form, **what):
    """Writes m.onnx, a network of which quantize_dynamic quantized these parts, and its samples x.npz."""
    n = Net()
    n.save(folder / "float.onnx", form(n))
    logging.disable(logging.WARNING)
    options = {"DefaultTensorType": TensorProto.FLOAT}
    quantize_dynamic(folder / "float.onnx", folder / "m.onnx", extra_options=options, **what)
    logging.disable(logging.NOTSET)
    np.savez(folder / "x.npz", x=SAMPLES)
    return onnx.load(folder / "m.onnx")


def integers(model, kind):
    """The constants of these nodes, by the place of the input."""
    held = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    return [{k: held[i] for k, i in enumerate(n.input) if i in held} for n in model.graph.node if n.op_type == kind]


JOBS = {
    "default": (),
    "weights": ("--activation-type", "none"),
    "size": ("--prefer", "size"),
    "int4": ("--weight-type", "int4"),
    "dynamic": ("--activation-type", "dynamic", "--format", "qoperator"),
}


@pytest.mark.integers
@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
@pytest.mark.parametrize("op", FORMS)
def test_operators_of_the_runtime_stay(op, job, qcalib, tmp_path):
    """With their integers; each keeps zero points of its own (export/formats/unshared.c)."""
    form, kind = FORMS[op]
    given = dynamic(tmp_path, form, op_types_to_quantize=[op], weight_type=QuantType.QInt8)
    done = qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--no-report", *job)
    assert "faster in float" not in done.err
    made = onnx.load(tmp_path / "q.onnx")
    before, after = integers(given, kind), integers(made, kind)
    assert len(before) == len(after) == (2 if op == "LSTM" else 1)
    for a, b in zip(before, after):
        assert a.keys() == b.keys() and all(np.array_equal(a[i], b[i]) for i in a)
    if op == "LSTM":
        zeros = [n.input[i] for n in made.graph.node if n.op_type == kind for i in (9, 11)]
        assert len(set(zeros)) == 4
    assert (tmp_path / "q.onnx").stat().st_size < (tmp_path / "m.onnx").stat().st_size
    assert any(n.op_type in ("DequantizeLinear", "DynamicQuantizeMatMul") for n in made.graph.node)
    want, got = (outputs(tmp_path / f, SAMPLES) for f in ("m.onnx", "q.onnx"))
    assert decibels(want, got) > (14 if "int4" in job else 30)
    qcalib("run", "q.onnx", "--data", "x.npz", "-o", "y.h5")
    got = outputs(tmp_path / "q.onnx", SAMPLES, plain=True)
    with h5py.File(tmp_path / "y.h5") as f:
        assert decibels(got, next(iter(f.values()))[:].reshape(got.shape)) > 45


@pytest.mark.parametrize("op", FORMS)
def test_all_of_a_network_with_operators_of_the_runtime(op, qcalib, tmp_path):
    kinds = {n.op_type for n in dynamic(tmp_path, FORMS[op][0]).graph.node}
    assert FORMS[op][1] in kinds and "MatMulInteger" in kinds and not kinds & {"MatMul", "LSTM", "Conv"}
    done = qcalib("--data", "x.npz", "-o", "q.onnx", "m.onnx", code=4)
    assert "is quantized already; give the float model it was made from" in done.err and not done.new_files


def test_what_is_left_in_float_is_slow_in_integers(qcalib, tmp_path):
    """The warning is not of the whole model, whose products are in integers."""
    dynamic(tmp_path, lambda n: n.linear(n.add("Squeeze", n.add("LSTM", "x", n.weight(1, 128, WIDTH), n.weight(1, 128, HIDDEN), hidden_size=HIDDEN, outputs=3)[0],
                                               n.const(np.array([1]))), HIDDEN), op_types_to_quantize=["MatMul"])
    done = qcalib("--data", "x.npz", "-o", "q.onnx", "m.onnx", "--no-report")
    assert "ONNX Runtime computes all that the model has in float faster in float" in done.err
