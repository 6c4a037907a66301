# SPDX-License-Identifier: Apache-2.0
"""--kv-type: inputs and outputs that are key/value caches have 8 or 4 bits."""

import decoder_model
import h5py
import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import OrtValue

TOKENS = np.random.default_rng(3).integers(0, decoder_model.VOCABULARY, (12, 10))
STORED = {"int8": TensorProto.INT8, "float8e4m3fn": TensorProto.FLOAT8E4M3FN}


def sqnr(expected, got):
    error = np.square(expected.astype(np.float64) - got).sum()
    return 10 * np.log10(np.square(expected.astype(np.float64)).sum() / max(error, 1e-300))


def step(path, tokens, past=None, form="concat", stored=TensorProto.FLOAT):
    """Results of one step as OrtValues; past: those of the step before. Optimizations are off: ONNX Runtime may round activations of products with 8-bit weights."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    length = {name: np.empty(value.shape()) for name, value in (past or {}).items()}
    feeds = {}
    for name, value in decoder_model.feeds(tokens, length, form).items():
        if not name.startswith("past"):
            feeds[name] = OrtValue.ortvalue_from_numpy(value)
        elif past:
            feeds[name] = past[name.replace("past_key_values", "present")]
        else:
            type_ = {TensorProto.FLOAT: np.float32, TensorProto.INT8: np.int8}.get(stored, np.uint8)
            value = value[..., : decoder_model.SIZE // 2] if stored == TensorProto.UINT8 else value
            feeds[name] = OrtValue.ortvalue_from_numpy_with_onnx_type(value.astype(type_), stored)
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run_with_ort_values(names, feeds)))


def logits(results):
    return results["logits"].numpy()


@pytest.mark.parametrize("activations", ("uint8", "dynamic", "none"))
@pytest.mark.parametrize("form, kind", (("concat", "int8"), ("concat", "float8e4m3fn"), ("gqa", "float8e4m3fn")))
def test_steps_with_a_cache_of_8_bits(form, kind, activations, qcalib, tmp_path):
    """Steps are nearly as good as the whole sequence at once, and a step keeps what earlier steps rounded. `run` takes the file with tokens alone and gives the results of ONNX Runtime."""
    decoder_model.save(tmp_path / "m.onnx", form)
    np.save(tmp_path / "tokens.npy", TOKENS)
    done = qcalib("--data", "tokens.npy", "--activation-type", activations, "--kv-type", kind, "m.onnx", "-o", "q.onnx", "--no-report")
    assert f"4 inputs and outputs are {kind}" in done.out
    graph = onnx.load(str(tmp_path / "q.onnx")).graph
    ports = [p for p in (*graph.input, *graph.output) if p.name.startswith(("past", "present"))]
    assert len(ports) == 8 and {p.type.tensor_type.elem_type for p in ports} == {STORED[kind]}
    scales = {n.input[1] for n in graph.node if n.op_type == "DequantizeLinear" and n.input[0].startswith("past")}
    assert [list(i.dims) for i in graph.initializer if i.name in scales] == [[decoder_model.KV]] * 4
    expected = logits(step(tmp_path / "m.onnx", TOKENS, form=form))
    once = step(tmp_path / "q.onnx", TOKENS, form=form, stored=STORED[kind])
    first = step(tmp_path / "q.onnx", TOKENS[:, :6], form=form, stored=STORED[kind])
    second = step(tmp_path / "q.onnx", TOKENS[:, 6:], first, form, STORED[kind])
    together = np.concatenate([logits(first), logits(second)], axis=1)
    assert sqnr(expected, logits(once)) > (26 if kind == "int8" else 22)
    assert sqnr(expected, together) > sqnr(expected, logits(once)) - 0.5
    if kind == "int8":
        for name, value in first.items():
            if name != "logits":
                np.testing.assert_array_equal(value.numpy(), second[name].numpy()[:, :, :6])
    qcalib("run", "q.onnx", "--data", "tokens.npy", "-o", "y.h5", "--input", "input_ids=tokens")
    plain = step(tmp_path / "q.onnx", TOKENS[:1], form=form, stored=STORED[kind])
    with h5py.File(tmp_path / "y.h5") as f:
        assert sqnr(logits(plain), f["logits"][:1]) > 60
        if kind == "int8":
            np.testing.assert_array_equal(plain["present.1.key"].numpy(), f["present.1.key"][:1])


@pytest.mark.parametrize("activations", ("uint8", "dynamic", "none"))
@pytest.mark.parametrize("kind", ("int8", "int4"))
def test_an_operator_with_a_cache_of_integers(kind, activations, qcalib, tmp_path):
    """GroupQueryAttention stays, with a scale for each element of a head, and rounds the cache itself. ONNX Runtime 1.32 takes several tokens after a cache for one sequence at a time. The model's caches have heads of a free size, or of 16."""
    decoder_model.save(tmp_path / "m.onnx", "gqa", "size" if kind == "int4" else None)
    np.save(tmp_path / "tokens.npy", TOKENS)
    done = qcalib("--data", "tokens.npy", "--activation-type", activations, "--kv-type", kind, "m.onnx", "-o", "q.onnx", "--no-report")
    assert f"4 inputs and outputs are {kind}" in done.out
    graph = onnx.load(str(tmp_path / "q.onnx")).graph
    stored, size = (TensorProto.INT8, decoder_model.SIZE) if kind == "int8" else (TensorProto.UINT8, decoder_model.SIZE // 2)
    ports = [p.type.tensor_type for p in (*graph.input, *graph.output) if p.name.startswith(("past", "present"))]
    assert len(ports) == 8 and all(p.elem_type == stored and p.shape.dim[3].dim_value == size for p in ports)
    nodes = [n for n in graph.node if n.op_type == "GroupQueryAttention"]
    constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
    assert len(nodes) == decoder_model.LAYERS
    for n in nodes:
        attributes = {a.name: helper.get_attribute_value(a) for a in n.attribute}
        assert attributes["k_quant_type"] == attributes["v_quant_type"] == b"PER_CHANNEL" and attributes["kv_cache_bit_width"] == (8 if kind == "int8" else 4)
        assert all(constants[name].shape == (decoder_model.KV * decoder_model.SIZE,) for name in n.input[12:14])
    expected = logits(step(tmp_path / "m.onnx", TOKENS, form="gqa"))
    once = step(tmp_path / "q.onnx", TOKENS, form="gqa", stored=stored)
    together = []
    for tokens in TOKENS[:, None]:
        first = step(tmp_path / "q.onnx", tokens[:, :6], form="gqa", stored=stored)
        second = step(tmp_path / "q.onnx", tokens[:, 6:], first, "gqa", stored)
        together.append(np.concatenate([logits(first), logits(second)], axis=1))
        for name in set(first) - {"logits"}:
            np.testing.assert_array_equal(first[name].numpy(), second[name].numpy()[:, :, :6])
    assert sqnr(expected, logits(once)) > (26 if kind == "int8" else 11)
    assert sqnr(expected, np.concatenate(together)) > sqnr(expected, logits(once)) - 0.5
    # `run` from the tokens, and with a cache
    qcalib("run", "q.onnx", "--data", "tokens.npy", "-o", "y.h5", "--input", "input_ids=tokens")
    alone = step(tmp_path / "q.onnx", TOKENS[:1], form="gqa", stored=stored)
    with h5py.File(tmp_path / "y.h5") as f, h5py.File(tmp_path / "step.h5", "w") as g:
        assert sqnr(logits(alone), f["logits"][:1]) > 60
        np.testing.assert_array_equal(alone["present.0.key"].numpy(), f["present.0.key"][:1])
        for name, value in decoder_model.feeds(tokens[:, 6:], {k: v.numpy() for k, v in first.items()}, "gqa").items():
            g[name] = first[name.replace("past_key_values", "present")].numpy() if name.startswith("past") else value
    qcalib("run", "q.onnx", "--data", "step.h5", "-o", "z.h5")
    with h5py.File(tmp_path / "z.h5") as f:
        assert sqnr(logits(second), f["logits"][:]) > 60
        assert (f["present.1.value"][:, :, :6] == first["present.1.value"].numpy()).all()


def test_a_cache_of_4_bits_needs_an_operator(qcalib, tmp_path):
    decoder_model.save(tmp_path / "m.onnx")
    np.save(tmp_path / "tokens.npy", TOKENS)
    assert "is not one of a GroupQueryAttention" in qcalib("--data", "tokens.npy", "--kv-type", "int4", "m.onnx", code=4).err


def test_only_the_cache(qcalib, tmp_path):
    """Nothing else is quantized: the present cache is within half a step of the float one, and other numbers hardly differ."""
    decoder_model.save(tmp_path / "m.onnx")
    np.save(tmp_path / "tokens.npy", TOKENS)
    options = ("--activation-type", "none", "--weight-type", "none", "--kv-type", "int8", "--method", "minmax")
    qcalib("--data", "tokens.npy", *options, "m.onnx", "-o", "q.onnx", "--no-report")
    expected, got = step(tmp_path / "m.onnx", TOKENS), step(tmp_path / "q.onnx", TOKENS, stored=TensorProto.INT8)
    graph = onnx.load(str(tmp_path / "q.onnx")).graph
    reader = next(n for n in graph.node if n.op_type == "DequantizeLinear" and n.input[0] == "present.0.key")
    scale = numpy_helper.to_array(next(i for i in graph.initializer if i.name == reader.input[1]))
    real = got["present.0.key"].numpy() * scale[:, None, None]
    assert np.abs(real - expected["present.0.key"].numpy()).max() < 0.501 * scale.max()
    assert sqnr(logits(expected), logits(got)) > 32


def test_a_cache_of_8_bits_in_the_data(qcalib, tmp_path):
    """`run` takes the integers of an earlier step."""
    decoder_model.save(tmp_path / "m.onnx")
    np.save(tmp_path / "tokens.npy", TOKENS)
    qcalib("--data", "tokens.npy", "--kv-type", "int8", "m.onnx", "-o", "q.onnx", "--no-report")
    first = step(tmp_path / "q.onnx", TOKENS[:, :6], stored=TensorProto.INT8)
    second = step(tmp_path / "q.onnx", TOKENS[:, 6:], first)
    with h5py.File(tmp_path / "step.h5", "w") as f:
        for name, value in decoder_model.feeds(TOKENS[:, 6:], {k: v.numpy() for k, v in first.items()}).items():
            f[name] = value
    qcalib("run", "q.onnx", "--data", "step.h5", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        assert sqnr(logits(second), f["logits"][:]) > 60
        np.testing.assert_array_equal(second["present.1.key"].numpy(), f["present.1.key"][:])


def test_a_cache_of_8_bits_of_a_float16_model(qcalib, tmp_path):
    """Caches are int8, other ports keep float16."""
    halve = pytest.importorskip("onnxruntime.transformers.float16").convert_float_to_float16
    decoder_model.save(tmp_path / "m.onnx")
    onnx.save(halve(onnx.load(str(tmp_path / "m.onnx"))), str(tmp_path / "half.onnx"))
    np.save(tmp_path / "tokens.npy", TOKENS)
    options = ("--activation-type", "none", "--kv-type", "int8", "--no-report")
    qcalib("--data", "tokens.npy", *options, "half.onnx", "-o", "q.onnx")
    whole = logits(step(tmp_path / "m.onnx", TOKENS))
    first = step(tmp_path / "q.onnx", TOKENS[:, :6], stored=TensorProto.INT8)
    second = step(tmp_path / "q.onnx", TOKENS[:, 6:], first)
    assert logits(second).dtype == np.float16 and second["present.0.key"].numpy().dtype == np.int8
    np.testing.assert_array_equal(first["present.0.key"].numpy(), second["present.0.key"].numpy()[:, :, :6])
    assert sqnr(whole[:, 6:], logits(second)) > 26


def test_no_cache_and_no_samples(qcalib, tmp_path):
    decoder_model.save(tmp_path / "m.onnx")
    assert "--kv-type needs samples" in qcalib("--activation-type", "none", "--kv-type", "int8", "m.onnx", code=2).err
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 16])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 16])
    w = numpy_helper.from_array(np.eye(16, dtype=np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    onnx.save(helper.make_model(graph, ir_version=10), str(tmp_path / "plain.onnx"))
    np.save(tmp_path / "x.npy", np.ones((4, 16), np.float32))
    assert "no input that a Concat extends" in qcalib("--data", "x.npy", "--kv-type", "int8", "plain.onnx", code=2).err


def test_one_head_in_a_file_of_opset_21(qcalib, tmp_path, monkeypatch):
    """One head has one scale. With its optimizations, ONNX Runtime 1.32 moves the DequantizeLinear of such a cache and then refuses its own file."""
    monkeypatch.setattr(decoder_model, "KV", 1)
    decoder_model.save(tmp_path / "old.onnx")
    onnx.save(onnx.version_converter.convert_version(onnx.load(str(tmp_path / "old.onnx")), 21), str(tmp_path / "m.onnx"))
    np.save(tmp_path / "tokens.npy", TOKENS)
    qcalib("--data", "tokens.npy", "--kv-type", "int8", "m.onnx", "-o", "q.onnx", "--no-report")
    session = onnxruntime.InferenceSession(str(tmp_path / "q.onnx"), providers=["CPUExecutionProvider"])
    feeds = {k: v.astype(np.int8) if k.startswith("past") else v for k, v in decoder_model.feeds(TOKENS).items()}
    y = session.run(["logits"], feeds)[0]
    assert sqnr(logits(step(tmp_path / "m.onnx", TOKENS)), y) > 25
