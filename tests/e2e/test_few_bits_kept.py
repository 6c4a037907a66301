# SPDX-License-Identifier: Apache-2.0
"""Operators of ONNX Runtime whose weights have few bits already (MatMulNBits, GatherBlockQuantized), and GroupQueryAttention, stay in the
file when the rest is quantized. Reference: ONNX Runtime, which generates the same tokens."""

import decoder_model
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

KEPT = ["MatMulNBits", "GatherBlockQuantized", "GroupQueryAttention"]


def packed(w, block=32):
    """Rows in blocks of 4 bits around 8, the first of two in the low half."""
    rows = w.reshape(w.shape[0], -1, block)
    scale = np.abs(rows).max(-1, keepdims=True) / 7
    q = np.clip(np.round(rows / scale) + 8, 0, 15).astype(np.uint8)
    return q[..., ::2] | q[..., 1::2] << 4, scale[..., 0].astype(np.float32)


def save(path, level, layers):
    """The decoder of onnxruntime-genai with a table and matrices of 4 bits. layers: names of the matrices."""
    decoder_model.save(path, "gqa")
    model = onnx.load(path)
    tensors = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    new, nodes = {}, []
    for node in model.graph.node:
        if node.op_type == "MatMul" and node.input[1] in layers or node.output[0] == "logits":
            name = node.input[1] if node.output[0] != "logits" else "embedding"
            w = tensors[name].T if name != "embedding" else tensors[name]
            data, new[f"{name}.scales"] = packed(w)
            new[f"{name}.packed"] = data
            more = {} if level is None else {"accuracy_level": level}
            node = helper.make_node("MatMulNBits", [node.input[0], f"{name}.packed", f"{name}.scales"], node.output, name=node.name, domain="com.microsoft",
                                    K=w.shape[1], N=w.shape[0], bits=4, block_size=32, **more)  # fmt: skip
        elif node.op_type == "Gather" and node.input[0] == "embedding":
            data, new["table.scales"] = packed(tensors["embedding"])
            new["table.packed"] = data.reshape(len(data), -1)
            node = helper.make_node("GatherBlockQuantized", ["table.packed", node.input[1], "table.scales"], node.output, name="table", domain="com.microsoft", block_size=32, bits=4, quantize_axis=1, gather_axis=0)
        elif node.op_type == "Transpose":
            continue
        nodes.append(node)
    used = {i for n in nodes for i in n.input}
    constants = [t for t in model.graph.initializer if t.name in used] + [numpy_helper.from_array(v, k) for k, v in new.items()]
    del model.graph.node[:], model.graph.initializer[:]
    model.graph.node.extend(nodes)
    model.graph.initializer.extend(constants)
    onnx.save(model, path)


def generated(path, prompt, count):
    """The most likely tokens, one after another."""
    session, past, tokens, chosen = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]), None, prompt, []
    names = [o.name for o in session.get_outputs()]
    for _ in range(count):
        past = dict(zip(names, session.run(None, decoder_model.feeds(tokens, past, "gqa"))))
        tokens = past["logits"][:, -1:].argmax(-1)
        chosen.append(int(tokens[0, 0]))
    return chosen


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("level", [None, 0, 1, 4])
def test_quantized_around(level, form, qcalib, tmp_path):
    layers = [f"{n}.{k}" for n in ("q", "k", "v", "up") for k in range(2)]
    save(tmp_path / "m.onnx", level, layers)
    np.save(tmp_path / "tokens.npy", np.random.default_rng(3).integers(0, decoder_model.VOCABULARY, (48, 24)))
    done = qcalib("--data", "tokens.npy", "--prefer", "integers", "--format", form, "m.onnx", "-o", "q.onnx", "--no-report", "--advice", "off")
    assert "as in the model, whose weights have few bits" in done.out
    source, made = (onnx.load(tmp_path / n).graph for n in ("m.onnx", "q.onnx"))
    for op in KEPT:
        old, new = ([(n.name, sorted((a.name, helper.get_attribute_value(a)) for a in n.attribute)) for n in g.node if n.op_type == op] for g in (source, made))
        assert old == new and old, op
    kept = {t.raw_data for t in source.initializer if t.name.endswith((".packed", ".scales"))}
    assert kept <= {t.raw_data for t in made.initializer}  # equal ones are stored once
    assert sum(n.op_type in ("QLinearMatMul", "MatMulIntegerToFloat", "QGemm") or n.op_type == "MatMul" for n in made.node) == 4  # o and down
    agreed = [a == b for prompt in np.random.default_rng(5).integers(0, decoder_model.VOCABULARY, (6, 1, 5)) for a, b in zip(generated(tmp_path / "m.onnx", prompt, 8), generated(tmp_path / "q.onnx", prompt, 8))]
    assert np.mean(agreed) > 0.75
    compared = qcalib("compare", "m.onnx", "q.onnx", "--data", "tokens.npy", "--json").json["outputs"]
    assert next(o for o in compared if o["name"] == "logits")["sqnr_db"] > 20


def test_weights_alone_give_the_same_tokens(qcalib, tmp_path):
    """One matrix is left to quantize, to weights of 8 bits: the tokens are those of the model."""
    layers = [f"{n}.{k}" for n in ("q", "k", "v", "o", "up", "down") for k in range(2)][1:]
    save(tmp_path / "m.onnx", 4, layers)
    np.save(tmp_path / "tokens.npy", np.random.default_rng(3).integers(0, decoder_model.VOCABULARY, (48, 24)))
    qcalib("--data", "tokens.npy", "--activation-type", "none", "m.onnx", "-o", "q.onnx", "--no-report", "--advice", "off")
    prompts = np.random.default_rng(5).integers(0, decoder_model.VOCABULARY, (24, 1, 5))
    same = [generated(tmp_path / "m.onnx", p, 1) == generated(tmp_path / "q.onnx", p, 1) for p in prompts]
    assert np.mean(same) > 0.9  # logits of random weights are close to each other
    assert (tmp_path / "q.onnx").stat().st_size < 1.1 * (tmp_path / "m.onnx").stat().st_size


def test_another_type_replaces_them(qcalib, tmp_path):
    save(tmp_path / "m.onnx", None, ["q.0", "up.1"])
    np.save(tmp_path / "tokens.npy", np.random.default_rng(3).integers(0, decoder_model.VOCABULARY, (48, 24)))
    qcalib("--data", "tokens.npy", "--weight-type", "int8", "--prefer", "integers", "m.onnx", "-o", "q.onnx", "--no-report", "--advice", "off")
    assert "MatMulNBits" not in {n.op_type for n in onnx.load(tmp_path / "q.onnx").graph.node}
