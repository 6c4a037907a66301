# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN: 8-bit weights with a scale for each row of each gate and direction, computed in float, with the
same results as in ONNX Runtime."""

import h5py
import numpy as np
import onnx
import pytest
from measured_models import session, sqnr
from onnx import TensorProto, helper, numpy_helper

from quantized_graph import QuantizedGraph, check_file, check_names, check_pairs

SAMPLES, STEPS, WIDTH, HIDDEN = 48, 12, 10, 16
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
BOTH = {"direction": "bidirectional"}


def model(op, layers=1, ways=1, **attributes):
    """Batch first as PyTorch exports it: [N,T,I] -> layers -> all states; the last state -> Gemm."""
    rng = np.random.default_rng(sum(map(ord, op)) + layers + 10 * ways)
    normal = lambda *shape: (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)
    nodes, weights, x, width = [helper.make_node("Transpose", ["x"], ["x0"], "t0", perm=[1, 0, 2])], {}, "x0", WIDTH
    for k in range(layers):
        rows = GATES[op] * HIDDEN
        spread = np.exp(rng.normal(size=(ways, rows, 1))).astype(np.float32)  # rows of different sizes
        weights.update(
            {
                f"w{k}": spread * normal(ways, rows, width),
                f"r{k}": normal(ways, rows, HIDDEN),
                f"b{k}": normal(ways, 2 * rows),
            }
        )
        nodes.append(
            helper.make_node(
                op, [x, f"w{k}", f"r{k}", f"b{k}"], [f"y{k}", f"h{k}"], f"rec{k}", hidden_size=HIDDEN, **attributes
            )
        )
        nodes.append(helper.make_node("Transpose", [f"y{k}"], [f"t{k}"], f"turn{k}", perm=[0, 2, 1, 3]))
        nodes.append(helper.make_node("Reshape", [f"t{k}", "rows"], [f"x{k + 1}"], f"join{k}"))
        x, width = f"x{k + 1}", ways * HIDDEN
    weights.update(
        rows=np.array([0, 0, -1], np.int64), out=normal(ways * HIDDEN, 5), flat=np.array([-1, ways * HIDDEN], np.int64)
    )
    nodes += [
        helper.make_node("Transpose", [f"h{layers - 1}"], ["last"], "last", perm=[1, 0, 2]),
        helper.make_node("Reshape", ["last", "flat"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "out"], ["y"], "out"),
        helper.make_node("Transpose", [x], ["s"], "first", perm=[1, 0, 2]),
    ]
    value = lambda n, *shape: helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        nodes,
        op,
        [value("x", "N", STEPS, WIDTH)],
        [value("y", "N", 5), value("s", "N", STEPS, width)],
        [numpy_helper.from_array(v, n) for n, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8)


MODELS = {
    "lstm": ("LSTM", {}),
    "lstm_two_layers": ("LSTM", {"layers": 2}),
    "lstm_both_ways": ("LSTM", {"ways": 2, "layers": 2, **BOTH}),
    "gru_backwards": ("GRU", {"direction": "reverse"}),
    "gru_both_ways": ("GRU", {"ways": 2, "linear_before_reset": 1, **BOTH}),
    "rnn": ("RNN", {"activations": ["Relu"], "clip": 4.0}),
}
X = np.random.default_rng(3).normal(size=(SAMPLES, STEPS, WIDTH)).astype(np.float32)


@pytest.fixture
def quantized(qcalib, tmp_path):
    def run(name, *options, x=X):
        op, made = MODELS[name]
        onnx.save(model(op, **made), str(tmp_path / "float.onnx"))
        with h5py.File(tmp_path / "x.h5", "w") as f:
            f["x"] = x
        files = ["--data", "x.h5", "float.onnx", "-o", "int8.onnx"]
        report = qcalib(*files, "--prefer", "size", "--json", "--no-report", *options).json
        check_file(tmp_path / "int8.onnx")
        return QuantizedGraph(tmp_path / "int8.onnx"), report

    return run


def weights_of(g, node):
    """The integers of W and R as they are stored, with the axis of their scales, [directions, rows, columns]."""
    for name in node.input[1:3]:
        made = g.maker[name]
        real = made.input[0] if made.op_type == "Reshape" else name
        dq, product = g.dequantize(real), g.maker[real]
        if dq:  # with weights alone
            yield g.value(dq.input[0]), g.scale(dq), g.axis(dq), g.value(dq.input[0]).dtype
        else:  # operators that the runtime folds when it loads the file
            q, scale = g.value(g.maker[product.input[0]].input[0]), g.value(product.input[1])
            assert (g.maker[product.input[0]].op_type, product.op_type) == ("Cast", "Mul")
            yield q, scale, int(np.argmax(scale.shape)), q.dtype


@pytest.mark.parametrize("name", MODELS)
def test_quantized(name, quantized, qcalib, onnxruntime, tmp_path):
    g, report = quantized(name)
    check_names(g)
    check_pairs(g)
    op, made = MODELS[name]
    rows = made.get("ways", 1) * GATES[op] * HIDDEN
    for node in g.of(op):
        assert g.dequantize(node.input[0]) is None  # it computes in float, so its input is not rounded for it
        for q, scale, axis, dtype in weights_of(g, node):
            assert dtype == np.int8 and scale.size == rows == q.shape[axis]
            assert (
                np.abs(q).max(axis=tuple(d for d in range(q.ndim) if d != axis)).min() > 90
            )  # each row has its own scale
    assert {n["reason"] for n in report["float_ops"] if n["op"] == op} == {"computed in float from quantized weights"}
    assert not [
        n for n in report["float_ops"] if n["name"].startswith("%")
    ]  # weights that are turned are no work of a run
    outputs, said = onnxruntime.run(tmp_path / "int8.onnx", {"x": X}, tmp_path)
    assert said == ""
    reference = session(tmp_path / "float.onnx").run(None, {"x": X})
    assert min(sqnr(reference, list(outputs.values()))) > 27
    qcalib("run", "int8.onnx", "--data", "x.h5", "-o", "ours.h5")
    with h5py.File(tmp_path / "ours.h5") as f:
        ours = [f[n][()] for n in outputs]
    assert (
        min(sqnr(list(outputs.values()), ours)) > 45
    )  # a state that float32 rounds the other way may be stored a step apart


def test_weights_alone(quantized, qcalib, onnxruntime, tmp_path):
    g, _ = quantized("lstm_both_ways", "--activation-type", "none")
    assert not g.of("QuantizeLinear")
    for node in g.of("LSTM"):
        assert all(dtype == np.int8 and scale.size == 2 * 4 * HIDDEN for _, scale, _, dtype in weights_of(g, node))
    outputs, said = onnxruntime.run(tmp_path / "int8.onnx", {"x": X}, tmp_path)
    assert said == ""
    qcalib("run", "int8.onnx", "--data", "x.h5", "-o", "ours.h5")
    with h5py.File(tmp_path / "ours.h5") as f:
        assert min(sqnr([outputs["s"]], [f["s"][()]])) > 100  # ONNX Runtime rounds what enters the Gemm by itself


def test_left_in_float(quantized):
    for option in (("--skip", "LSTM"), ("--weight-type", "none:LSTM")):
        g, _ = quantized("lstm_two_layers", *option)
        assert all(n in g.constants for node in g.of("LSTM") for n in node.input[1:3])


def test_four_bits(quantized, onnxruntime, tmp_path):
    g, _ = quantized("gru_both_ways", "--weight-type", "int4:GRU")
    assert g.opset == 21
    if onnxruntime.name != "1.16":
        _, said = onnxruntime.run(tmp_path / "int8.onnx", {"x": X}, tmp_path)
        assert said == ""


def test_characters(qcalib, data):
    """A language model of two layers: what a position loses, as numpy counts it on ONNX Runtime's logits."""
    files = [
        data / "models/lstm_kjv_chars.onnx",
        "--data",
        data / "kjv_calib96.h5",
        "--eval",
        data / "kjv_eval192.h5",
        "--no-report",
        "-o",
        "kjv.onnx",
    ]
    accuracy = qcalib(*files, "--json").json["accuracy"]
    assert accuracy["samples"] == 192 and accuracy["positions"] == 192 * 128
    assert abs(accuracy["fp32_nll"] - 1.24935) < 1e-4 and abs(accuracy["fp32"] - 0.62732) < 1e-4  # ONNX Runtime 1.31
    assert accuracy["int8_nll"] - accuracy["fp32_nll"] < 0.01


@pytest.mark.parametrize("name", ["lstm", "gru_both_ways", "gru_backwards", "rnn"])
def test_weights_make_good_errors(name, quantized, tmp_path):
    """By the moments of inputs and states over all steps; judged on what the whole model gives, in ONNX Runtime."""
    x = (
        X @ np.random.default_rng(4).normal(size=(WIDTH, 3)) @ np.random.default_rng(5).normal(size=(3, WIDTH)) / 3
        + 0.1 * X
    ).astype(
        np.float32
    )  # numbers of a step go together
    reference, errors = None, []
    for rounding in ("nearest", "compensated"):
        options = [
            "--activation-type",
            "none",
            "--weight-type",
            f"int4:{MODELS[name][0]}",
            "--weight-rounding",
            rounding,
            "--bias-correction",
            "off",
        ]
        _, report = quantized(name, *options, x=x)
        reference = reference or session(tmp_path / "float.onnx").run(None, {"x": x})
        errors.append(sqnr(reference, session(tmp_path / "int8.onnx").run(None, {"x": x}))[1])
    assert errors[1] > errors[0] + 1
    layers = {w["name"]: w["weight_rounding"] for w in report["layers"]}
    assert layers["w0"]["method"] == layers["r0"]["method"] == "compensated"
    if name == "gru_backwards":  # what its third gate multiplies R with is no result of the op
        assert layers["r0"]["outputs_nearest"] >= HIDDEN


@pytest.mark.parametrize("name", ("lstm_two_layers", "lstm_both_ways"))
def test_dynamic(name, quantized, qcalib, onnxruntime, tmp_path):
    """Products of integers, what they read rounded as it comes, in the operator that ONNX Runtime has for it."""
    g, report = quantized(name, "--activation-type", "dynamic", "--format", "qoperator")
    check_names(g)
    op, made = MODELS[name]
    ways = made.get("ways", 1)
    layers = g.of("DynamicQuantizeLSTM")
    assert len(layers) == 2 and not g.of("LSTM", "DequantizeLinear")
    for k, node in enumerate(layers):
        assert g.value(node.input[1]).shape == (ways, (WIDTH, ways * HIDDEN)[k], 4 * HIDDEN) and g.value(
            node.input[2]
        ).shape == (ways, HIDDEN, 4 * HIDDEN)
        for weights in (g.value(node.input[i]).astype(int) for i in (1, 2)):
            pairs = weights.reshape(ways, -1, 2, 4 * HIDDEN)  # neighbours along the inputs
            assert max(pairs.clip(0).sum(2).max(), (-pairs).clip(0).sum(2).max()) <= 128
        for i in (8, 10):
            assert (
                g.value(node.input[i]).shape == g.value(node.input[i + 1]).shape == (ways, 4 * HIDDEN)
                and not g.value(node.input[i + 1]).any()
            )
    assert {n["reason"] for n in report["float_ops"] if n["op"] == op} == {"its input is quantized at run time"}
    assert "exact without VNNI: not known" in qcalib("inspect", "int8.onnx").out
    assert qcalib("inspect", "--json", "int8.onnx").json["exact_without_vnni"] is None
    qcalib("run", "int8.onnx", "--data", "x.h5", "-o", "ours.h5")
    first, said = onnxruntime.run(tmp_path / "int8.onnx", {"x": X[:1]}, tmp_path)
    assert said == ""
    with h5py.File(tmp_path / "ours.h5") as f:
        for output, value in first.items():  # a level flips where functions differ in their last bit
            assert sqnr([value], [f[output][:1]])[0] > 45
    assert min(sqnr(session(tmp_path / "float.onnx").run(None, {"x": X[:1]}), list(first.values()))) > 27


def block_scales(g, node):
    """W and R: the stored integers, the scales and the block length of each."""
    for name in node.input[1:3]:
        made = g.maker[name]
        dq = g.dequantize(made.input[0] if made.op_type == "Reshape" else name)
        attributes = {a.name: helper.get_attribute_value(a) for a in dq.attribute}
        yield g.value(dq.input[0]), g.scale(dq), attributes


BLOCKS = [("lstm_two_layers", "int4"), ("lstm_both_ways", "int4"), ("gru_both_ways", "int8"), ("gru_backwards", "mxfp8"), ("rnn", "mxint8")]


@pytest.mark.parametrize("name, weights", BLOCKS)
def test_blocks(name, weights, quantized, qcalib, tmp_path):
    """W in blocks along the input, R along the state, also where the last block is short: ONNX Runtime, run and the
    converted file read the weights of the simulated graph."""
    length = 32 if weights.startswith("mx") else 16
    block = [] if weights.startswith("mx") else ["--weight-block", str(length)]
    options = ["--activation-type", "none", "--weight-type", weights, *block, "--weight-type", "none:out"]
    g, report = quantized(name, *options)
    check_names(g)
    op, made = MODELS[name]
    for k, node in enumerate(g.of(op)):
        for (stored, scale, attributes), columns in zip(
            block_scales(g, node), (made.get("ways", 1) * HIDDEN if k else WIDTH, HIDDEN)
        ):
            assert attributes == {"axis": 2, "block_size": length}
            assert stored.shape[2] == columns and scale.shape == (*stored.shape[:2], -(-columns // length))
    blocks = [l for l in report["layers"] if l["kind"] == "weight"]
    assert {l["block"] for l in blocks} == {length} and len(blocks) == 2 * made.get("layers", 1)
    assert "compensated" in {l["weight_rounding"]["method"] for l in blocks}
    reference = session(tmp_path / "float.onnx").run(None, {"x": X})
    qcalib("run", "int8.onnx", "--data", "x.h5", "-o", "ours.h5")
    qcalib("convert", "int8.onnx", "-o", "converted.onnx")
    qcalib("run", "converted.onnx", "--data", "x.h5", "-o", "converted.h5")
    assert QuantizedGraph(tmp_path / "converted.onnx").of(op) and qcalib("inspect", "int8.onnx").out
    with h5py.File(tmp_path / "ours.h5") as f, h5py.File(tmp_path / "converted.h5") as c:
        ours = [f[n][()] for n in ("y", "s")]
        assert all(np.array_equal(f[n][()], c[n][()]) for n in ("y", "s"))
    measured = {o["name"]: o["sqnr_db"] for o in report["outputs"]}
    for n, found in zip(("y", "s"), sqnr(reference, ours)):
        assert abs(found - measured[n]) < 3, n  # the report's is of fewer samples
    assert min(sqnr(session(tmp_path / "int8.onnx").run(None, {"x": X}), ours)) > 100


def test_small_product_beside(quantized):
    """Recurrent weights count as weights: a product of a twentieth of them is among the smallest, which have 8 bits."""
    g, _ = quantized("lstm", "--activation-type", "none", "--weight-type", "int4", "--weight-block", "16")
    assert g.value(g.dequantize(g.of("Gemm")[0].input[1]).input[0]).dtype == np.int8


def test_scales_of_blocks(quantized, tmp_path):
    """They weigh the error of a weight by the second moment of its input, or of its direction's state."""
    x = (X * np.linspace(0.05, 4, WIDTH)).astype(np.float32)
    common = ["--activation-type", "none", "--weight-type", "int4", "--weight-block", "16", "--weight-rounding", "nearest"]
    errors = []
    for options in ([], ["--weight-method", "mse"]):  # the named method does not know the input
        g, _ = quantized("gru_both_ways", *common, *options, x=x)
        constants = {i.name: numpy_helper.to_array(i) for i in model("GRU", ways=2).graph.initializer}
        states = session(tmp_path / "float.onnx").run(["s"], {"x": x})[0].reshape(-1, 2, 1, HIDDEN)
        moments = np.square(x).mean((0, 1)), np.square(states).mean(0)
        for (stored, scale, _), name, moment in zip(block_scales(g, g.of("GRU")[0]), ("w0", "r0"), moments):
            dequantize = next(n for n in g.of("DequantizeLinear") if np.array_equal(g.scale(n), scale))
            zero = g.value(dequantize.input[2]).astype("f4") if len(dequantize.input) > 2 else 0
            made = ((stored.astype("f4") - zero) * scale).reshape(constants[name].shape)
            errors.append((np.square(made - constants[name]) * moment).sum((1, 2)))
    ours, unaware = errors[:2], errors[2:]
    assert all((a < 0.97 * b).all() for a, b in zip(ours, unaware))


@pytest.mark.parametrize("name", ["lstm_both_ways", "gru_backwards"])
def test_rounding_in_blocks(name, quantized, tmp_path):
    common = ["--activation-type", "none", "--weight-type", "int4", "--weight-block", "16", "--weight-type", "none:out"]
    x = (X * np.linspace(0.05, 4, WIDTH)).astype(np.float32)
    errors = []
    for options in ([], ["--weight-rounding", "nearest", "--bias-correction", "off"]):
        quantized(name, *common, *options, x=x)
        reference = session(tmp_path / "float.onnx").run(None, {"x": x})
        errors.append(sqnr(reference, session(tmp_path / "int8.onnx").run(None, {"x": x}))[1])
    assert errors[0] > errors[1] + 0.5
