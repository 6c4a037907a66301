# SPDX-License-Identifier: Apache-2.0
"""Operators that are calibrated as functions of others are in the file again if nothing inside is quantized: for each of
them in float32 and float16, after `convert`, and in bodies. ONNX Runtime and `run` agree on the
file."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from test_contrib_forms import HEADS, MS, TOKENS, WIDTH, Net

X = np.random.default_rng(3).normal(size=(48, TOKENS, WIDTH)).astype(np.float32)


def tables(n, half):
    angle = np.arange(64)[:, None] / 10.0 ** np.linspace(0, 2, half)
    return n.const(np.cos(angle).astype(np.float32)), n.const(np.sin(angle).astype(np.float32))


def positions(n):
    """Positions that depend on the input, so that nothing of the function is constant."""
    sums = n.add("ReduceSum", n.add("Abs", "x"), n.const(np.array([-1])), keepdims=0)
    return n.add("Cast", n.add("Clip", sums, n.const(np.float32(0)), n.const(np.float32(60))), to=TensorProto.INT64)


def skip(n, op, *more):
    y, _, _, total = n.fused(op, n.linear("x"), n.dense("x"), *more, outputs=4, epsilon=1e-5)
    return n.add("Add", n.linear(y), total)


def skip_layer_normalization(n):
    return skip(n, "SkipLayerNormalization", n.weight(WIDTH), n.weight(WIDTH))


def skip_simplified_layer_normalization(n):
    return skip(n, "SkipSimplifiedLayerNormalization", n.weight(WIDTH))


def simplified_layer_normalization(n):
    return n.add("SimplifiedLayerNormalization", n.linear("x"), n.weight(WIDTH), axis=-1, epsilon=1e-5, stash_type=1)


def multi_head_attention(n):
    q, k, v = (n.dense(n.linear("x")) for _ in range(3))
    return n.fused("MultiHeadAttention", q, k, v, num_heads=HEADS, unidirectional=1)


def group_query_attention(n):
    q, k, v = n.dense("x", WIDTH, 4 * 16), n.dense("x", WIDTH, 2 * 16), n.dense("x", WIDTH, 2 * 16)
    lengths = n.const(np.full(1, TOKENS - 1, np.int32)), n.const(np.int32(TOKENS))
    y = n.fused("GroupQueryAttention", q, k, v, "", "", *lengths, outputs=3, num_heads=4, kv_num_heads=2)[0]
    return n.dense(y, 4 * 16)


def rotary_embedding(n):
    return n.fused("RotaryEmbedding", n.dense("x"), positions(n), *tables(n, 2), num_heads=HEADS)


def onnx_attention(n):
    q, k, v = (n.dense(n.linear("x")) for _ in range(3))
    return n.add("Attention", q, k, v, q_num_heads=HEADS, kv_num_heads=HEADS, is_causal=1)


def onnx_rotary_embedding(n):
    return n.add("RotaryEmbedding", n.dense("x"), *tables(n, 2), positions(n), num_heads=HEADS)


def onnx_rms_normalization(n):
    return n.add("RMSNormalization", n.linear("x"), n.weight(WIDTH), axis=-1)


def onnx_mean_variance_normalization(n):
    return n.add("MeanVarianceNormalization", n.linear("x"), axes=[2])


def onnx_shrink(n):
    return n.add("Shrink", n.linear("x"), lambd=0.125, bias=0.125)


def onnx_affine_grid(n):
    means = n.add("ReduceMean", n.linear("x", WIDTH, 6), n.const(np.array([1])), keepdims=0)
    theta = n.add("Reshape", means, n.const(np.array([1, 2, 3])))
    grid = n.add("AffineGrid", theta, n.const(np.array([1, 1, TOKENS * 8, WIDTH * 3])))
    image = n.add("GridSample", n.add("Reshape", "x", n.const(np.array([1, 1, TOKENS, WIDTH]))), grid)
    pooled = n.add("AveragePool", image, kernel_shape=[8, 3], strides=[8, 3])
    return n.add("Reshape", pooled, n.const(np.array([1, TOKENS, WIDTH])))


FORMS = [
    skip_layer_normalization,
    skip_simplified_layer_normalization,
    simplified_layer_normalization,
    multi_head_attention,
    group_query_attention,
    rotary_embedding,
    onnx_attention,
    onnx_rotary_embedding,
    onnx_rms_normalization,
    onnx_mean_variance_normalization,
    onnx_shrink,
    onnx_affine_grid,
]
OPS = {
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
    "SimplifiedLayerNormalization",
    "MultiHeadAttention",
    "GroupQueryAttention",
    "RotaryEmbedding",
    "Attention",
    "RMSNormalization",
    "MeanVarianceNormalization",
    "Shrink",
    "AffineGrid",
}
JOBS = {
    "int8": ("--data", "x.npz", "--prefer", "integers", "--effort", "low"),
    "int4": ("--activation-type", "none", "--weight-type", "int4", "--weight-block", "16"),
}


def save(path, form, half=False):
    n = Net()
    n.save(path, n.linear(form(n)))
    model = onnx.load(str(path))
    model.opset_import[0].version, model.ir_version = 24 if form.__name__.startswith("onnx") else 20, 11
    if half:
        convert = pytest.importorskip("onnxruntime.transformers.float16").convert_float_to_float16
        model = convert(model, keep_io_types=True, disable_shape_infer=True)
    onnx.save(model, str(path))


def nodes(graph):
    for n in graph.node:
        yield n
        for a in n.attribute:
            yield from nodes(a.g) if a.type == onnx.AttributeProto.GRAPH else ()


def calls(path):
    """The operators and their attributes."""
    return [(n.op_type, n.domain, sorted(map(str, n.attribute))) for n in nodes(onnx.load(str(path)).graph) if n.op_type in OPS]


def sqnr(expected, got):
    error = np.square(expected.astype(np.float64) - got).sum()
    return 10 * np.log10(np.square(expected.astype(np.float64)).sum() / max(error, 1e-300))


def computed(path, name="x", **more):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: X[:1], **more})[0]


def check(path, expected, least, qcalib, tmp_path, **more):
    """`run` agrees with ONNX Runtime, and both with the float model. In float16 sums of 16 bits differ."""
    model = onnx.load(str(tmp_path / "m.onnx"))
    half = any(i.data_type == TensorProto.FLOAT16 for i in model.graph.initializer)
    got = computed(path, **more)
    assert sqnr(expected, got) > least
    qcalib("run", path, "--data", "one.npz", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        assert sqnr(got, f[next(iter(f))][:]) > (38 if half else 100)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("half", (False, True), ids=("float32", "float16"))
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_the_operator_stays(form, half, job, qcalib, tmp_path):
    if half and job == "int8" and form is onnx_shrink:
        pytest.skip("its comparisons are in float32, its other operators in float16: the file has them")
    np.savez(tmp_path / "x.npz", x=X)
    np.savez(tmp_path / "one.npz", x=X[:1])
    save(tmp_path / "m.onnx", form, half)
    qcalib(*JOBS[job], "m.onnx", "-o", "q.onnx", "--no-report", "--advice", "off")
    assert calls(tmp_path / "m.onnx") == calls(tmp_path / "q.onnx") != []
    expected = computed(tmp_path / "m.onnx")
    least = 29 if job == "int8" else 14
    check(tmp_path / "q.onnx", expected, least, qcalib, tmp_path)
    if job == "int8":
        qcalib("convert", "q.onnx", "-o", "c.onnx")
        assert calls(tmp_path / "m.onnx") == calls(tmp_path / "c.onnx")
        check(tmp_path / "c.onnx", expected, least, qcalib, tmp_path)


def branch(form, k):
    n = Net()
    n.random = np.random.default_rng(k)
    y = n.linear(form(n))
    own = {v: f"{v}_{k}" for node in n.nodes for v in (*node.output, *node.input) if v not in ("", "x")}
    for node in n.nodes:
        node.name += f"_{k}"
        node.input[:] = [own.get(v, v) for v in node.input]
        node.output[:] = [own[v] for v in node.output]
    outputs = [helper.make_tensor_value_info(own[y], TensorProto.FLOAT, None)]
    constants = [onnx.numpy_helper.from_array(v, own[c]) for c, v in n.constants.items()]
    return helper.make_graph(n.nodes, f"g{k}", [], outputs, constants)


@pytest.mark.parametrize("form", (FORMS[1], FORMS[3], FORMS[4]), ids=lambda f: f.__name__)
def test_the_operator_stays_in_bodies(form, qcalib, tmp_path):
    """As in merged decoders. A branch that never runs on the samples stays in float, with its operator."""
    both = {"then_branch": branch(form, 1), "else_branch": branch(form, 2)}
    made = [helper.make_node("Squeeze", ["c"], ["one"]), helper.make_node("If", ["one"], ["y"], name="branch", **both)]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", TOKENS, WIDTH]),
        helper.make_tensor_value_info("c", TensorProto.BOOL, ["N"]),
    ]
    graph = helper.make_graph(made, "g", ports, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(tmp_path / "m.onnx"))
    np.savez(tmp_path / "x.npz", x=X, c=np.ones(48, bool))
    for c in (True, False):
        np.savez(tmp_path / "one.npz", x=X[:1], c=np.array([c]))
        qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--no-report", "--advice", "off")
        assert calls(tmp_path / "m.onnx") == calls(tmp_path / "q.onnx") != []
        expected = computed(tmp_path / "m.onnx", c=np.array([c]))
        check(tmp_path / "q.onnx", expected, 29 if c else 100, qcalib, tmp_path, c=np.array([c]))


def test_the_operator_is_skipped_by_its_name(qcalib, tmp_path):
    """--skip takes the name of the operator in the file for all nodes of its function."""
    np.savez(tmp_path / "x.npz", x=X)
    save(tmp_path / "m.onnx", onnx_attention)
    name = next(n.name for n in onnx.load(str(tmp_path / "m.onnx")).graph.node if n.op_type == "Attention")
    common = ["--data", "x.npz", "--target", "fused", "m.onnx", "-o", "q.onnx", "--no-report", "--advice", "off"]
    qcalib(*common)
    assert not calls(tmp_path / "q.onnx")
    qcalib(*common, "--skip", name)
    assert calls(tmp_path / "q.onnx") == calls(tmp_path / "m.onnx")


def loop(form):
    """A Loop whose state goes through the form in each of two turns."""
    n = Net()
    y = n.linear(form(n))
    n.nodes.append(helper.make_node("Identity", ["on"], ["on_then"]))
    state = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", TOKENS, WIDTH])
    turn = helper.make_tensor_value_info("turn", TensorProto.INT64, [])
    on, then = (helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("on", "on_then"))
    outputs = [then, helper.make_tensor_value_info(y, TensorProto.FLOAT, None)]
    constants = [onnx.numpy_helper.from_array(v, c) for c, v in n.constants.items()]
    return helper.make_graph(n.nodes, "body", [turn, on, state], outputs, constants)


@pytest.mark.integers
@pytest.mark.parametrize("form", (FORMS[1], FORMS[3], FORMS[4]), ids=lambda f: f.__name__)
def test_the_operator_stays_in_loops(form, qcalib, tmp_path):
    made = [helper.make_node("Loop", ["turns", "", "first"], ["y"], name="loop", body=loop(form))]
    port = helper.make_tensor_value_info("first", TensorProto.FLOAT, ["N", TOKENS, WIDTH])
    graph = helper.make_graph(made, "g", [port], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    graph.initializer.append(onnx.numpy_helper.from_array(np.array(2), "turns"))
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(MS, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), str(tmp_path / "m.onnx"))
    np.savez(tmp_path / "x.npz", first=X)
    np.savez(tmp_path / "one.npz", first=X[:1])
    qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--no-report", "--advice", "off")
    assert calls(tmp_path / "m.onnx") == calls(tmp_path / "q.onnx") != []
    assert any(n.op_type == "QuantizeLinear" for n in nodes(onnx.load(str(tmp_path / "q.onnx")).graph))
    expected = computed(tmp_path / "m.onnx", name="first")
    check(tmp_path / "q.onnx", expected, 20, qcalib, tmp_path, name="first")
    qcalib("convert", "q.onnx", "-o", "c.onnx")
    assert calls(tmp_path / "m.onnx") == calls(tmp_path / "c.onnx")
    check(tmp_path / "c.onnx", expected, 20, qcalib, tmp_path, name="first")


@pytest.mark.parametrize("form", (rotary_embedding, onnx_rotary_embedding, group_query_attention), ids=lambda f: f.__name__)
def test_a_file_has_no_checks_of_data(form, qcalib, tmp_path):
    """Positions and lengths are checked (Expect) while samples run. TensorFlow Lite has no operator for that."""
    np.savez(tmp_path / "x.npz", x=X)
    np.savez(tmp_path / "one.npz", x=X[:1])
    save(tmp_path / "m.onnx", form)
    qcalib("--data", "x.npz", "--format", "tflite", "m.onnx", "-o", "q.tflite", "--no-report")
    qcalib("run", "q.tflite", "--data", "one.npz", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        assert sqnr(computed(tmp_path / "m.onnx"), next(iter(f.values()))[:]) > 20
