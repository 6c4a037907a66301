# SPDX-License-Identifier: Apache-2.0
"""Decoders with a key/value cache: a file of tokens is enough, a cache may be empty, and results equal those of ONNX
Runtime."""

import decoder_model
import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

FORMS = ("concat", "gqa")
HANDED_ON = helper.make_tensor_value_info("handed_on", TensorProto.INT64, [])
FOUR = ("--activation-type", "none", "--weight-type", "int4", "--weight-block", "32")
TOKENS = np.random.default_rng(3).integers(0, decoder_model.VOCABULARY, (12, 10))


def session(path, plain=False):
    options = onnxruntime.SessionOptions()
    if plain:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def run(path, feeds, plain=False):
    s = session(path, plain)
    return dict(zip([o.name for o in s.get_outputs()], s.run(None, feeds)))


def run_one_by_one(path, feeds, plain=False):
    """GroupQueryAttention of ONNX Runtime 1.32 takes several tokens after a cache only of one sequence."""
    s = session(path, plain)
    rows = [s.run(None, {k: v[i : i + 1] for k, v in feeds.items()}) for i in range(len(feeds["input_ids"]))]
    return {o.name: np.concatenate([r[k] for r in rows]) for k, o in enumerate(s.get_outputs())}


def sqnr(expected, got):
    error = np.square(expected.astype(np.float64) - got).sum()
    return 10 * np.log10(np.square(expected.astype(np.float64)).sum() / max(error, 1e-300))


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


def test_a_file_of_tokens_is_enough(form, qcalib, tmp_path):
    """The cache is empty, every token counts, and positions begin at 0. The size of a head is not in the input's shape, or a name is its number, as in files of onnxruntime-genai and PyTorch."""
    decoder_model.save(tmp_path / "m.onnx", form, "size" if form == "gqa" else str(decoder_model.SIZE), [HANDED_ON])
    np.save(tmp_path / "tokens.npy", TOKENS)
    qcalib("run", "m.onnx", "--data", "tokens.npy", "-o", "y.h5")
    expected = run(tmp_path / "m.onnx", {**decoder_model.feeds(TOKENS, form=form), "handed_on": np.array(1)})
    with h5py.File(tmp_path / "y.h5") as f:
        for name, y in expected.items():
            assert name == "handed_on.out" or sqnr(y, f[name][:]) > 100, name


def test_tokens_of_different_lengths(qcalib, tmp_path):
    decoder_model.save(tmp_path / "m.onnx")
    with h5py.File(tmp_path / "tokens.h5", "w") as f:
        for i, row in enumerate(TOKENS):
            f[f"input_ids/{i}"] = row[: 3 + i % 4]
    qcalib("run", "m.onnx", "--data", "tokens.h5", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        for i, row in enumerate(TOKENS):
            y = run(tmp_path / "m.onnx", decoder_model.feeds(row[None, : 3 + i % 4]))
            assert sqnr(y["logits"], f[f"logits/{i}"][:].reshape(y["logits"].shape)) > 100
            assert sqnr(y["present.1.key"], f[f"present.1.key/{i}"][:].reshape(y["present.1.key"].shape)) > 100


def test_a_cache_in_the_data_may_be_empty_or_not(form, qcalib, tmp_path):
    """Each sequence gives two samples: its first tokens with an empty cache, the others with the results of that. A number that is only handed on may be missing."""
    decoder_model.save(tmp_path / "m.onnx", form, extra=[HANDED_ON])
    samples = []
    for i, row in enumerate(TOKENS[:4]):
        first = decoder_model.feeds(row[None, : 4 + i], form=form)
        past = run(tmp_path / "m.onnx", {**first, "handed_on": np.array(1)})
        samples += [first, decoder_model.feeds(row[None, 4 + i :], past, form)]
    with h5py.File(tmp_path / "steps.h5", "w") as f:
        for i, sample in enumerate(samples):
            for name, value in sample.items():
                f[f"{name}/{i}"] = value
    qcalib("run", "m.onnx", "--data", "steps.h5", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        for i, sample in enumerate(samples):
            for name, y in run(tmp_path / "m.onnx", {**sample, "handed_on": np.array(1)}).items():
                assert name == "handed_on.out" or sqnr(y, f[f"{name}/{i}"][:].reshape(y.shape)) > 100, (name, i)


def test_a_quantized_decoder_takes_a_cache(form, qcalib, tmp_path):
    """Calibrated on tokens alone, and computed in steps as one does who generates text: as good as in one go, and the same in ONNX Runtime."""
    decoder_model.save(tmp_path / "m.onnx", form)
    np.save(tmp_path / "tokens.npy", TOKENS)
    qcalib("--data", "tokens.npy", "m.onnx", "-o", "q.onnx", "--no-report")
    whole = run(tmp_path / "m.onnx", decoder_model.feeds(TOKENS, form=form))
    once = run(tmp_path / "q.onnx", decoder_model.feeds(TOKENS, form=form))
    first = run(tmp_path / "q.onnx", decoder_model.feeds(TOKENS[:, :6], form=form))
    feeds = decoder_model.feeds(TOKENS[:, 6:], first, form)
    second = run_one_by_one(tmp_path / "q.onnx", feeds)
    steps = np.concatenate([first["logits"], second["logits"]], axis=1)
    assert sqnr(whole["logits"], once["logits"]) > 25
    assert sqnr(whole["logits"], steps) > sqnr(whole["logits"], once["logits"]) - 0.5
    with h5py.File(tmp_path / "step.h5", "w") as f:
        for name, value in feeds.items():
            f[name] = value
    qcalib("run", "q.onnx", "--data", "step.h5", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        assert sqnr(second["logits"], f["logits"][:]) > 60


@pytest.mark.parametrize(
    "options",
    ((), ("--format", "qoperator"), ("--activation-type", "dynamic"), FOUR, (*FOUR, "--format", "qoperator")),
    ids=("qdq", "qoperator", "dynamic", "blocks", "nbits"),
)
def test_attention_of_the_runtime_is_written_again(options, qcalib, tmp_path):
    """The file has the two GroupQueryAttention of the model and none of the nodes that they are imported as, and gives what `run` computes, with an empty cache and after a step."""
    decoder_model.save(tmp_path / "m.onnx", "gqa")
    np.save(tmp_path / "tokens.npy", TOKENS)
    qcalib("--data", "tokens.npy", *options, "m.onnx", "-o", "q.onnx", "--no-report")
    old, new = (onnx.load(str(tmp_path / name)) for name in ("m.onnx", "q.onnx"))
    onnx.checker.check_model(new)
    calls = [[n for n in m.graph.node if n.op_type == "GroupQueryAttention"] for m in (old, new)]
    assert [n.attribute for n in calls[0]] == [n.attribute for n in calls[1]]
    assert [n.name for n in calls[0]] == [n.name for n in calls[1]]
    assert not {n.op_type for n in new.graph.node} & {"Softmax", "Slice", "Range"}
    first = decoder_model.feeds(TOKENS[:4, :6], form="gqa")
    past = run_one_by_one(tmp_path / "q.onnx", first, plain=True)
    for feeds in (first, decoder_model.feeds(TOKENS[:4, 6:], past, "gqa")):
        expected = run_one_by_one(tmp_path / "q.onnx", feeds, plain=True)
        with h5py.File(tmp_path / "x.h5", "w") as f:
            for name, value in feeds.items():
                f[name] = value
        qcalib("run", "q.onnx", "--data", "x.h5", "-o", "y.h5")
        with h5py.File(tmp_path / "y.h5") as f:
            for name, y in expected.items():
                assert sqnr(y, f[name][:].reshape(y.shape)) > 100, name


@pytest.mark.parametrize("options", (("float8e4m3fn",), ("int8", "--target", "openvino")))
def test_attention_with_a_cache_of_8_bits_is_not(options, qcalib, tmp_path):
    """ONNX Runtime has no kernel with a cache of this type, and other runtimes do not have the operator: the file has its nodes."""
    decoder_model.save(tmp_path / "m.onnx", "gqa")
    np.save(tmp_path / "tokens.npy", TOKENS)
    qcalib("--data", "tokens.npy", "--kv-type", *options, "m.onnx", "-o", "q.onnx", "--no-report")
    ops = {n.op_type for n in onnx.load(str(tmp_path / "q.onnx")).graph.node}
    assert "Softmax" in ops and "GroupQueryAttention" not in ops


def test_an_encoder_needs_its_mask(qcalib, tmp_path):
    """Without a cache nothing is made: a mask of ones would count the padding of an encoder's texts."""
    nodes = [
        helper.make_node("Cast", ["attention_mask"], ["m"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["input_ids"], ["x"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["x", "m"], ["y"]),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.INT64, ["N", "T"]) for n in ("input_ids", "attention_mask")]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "T"])
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", ports, [y]), ir_version=10), str(tmp_path / "m.onnx"))
    np.savez(tmp_path / "t.npz", input_ids=TOKENS)
    assert "input 'attention_mask'" in qcalib("run", "m.onnx", "--data", "t.npz", "-o", "y.h5", code=3).err


def test_a_cache_needs_its_mask(qcalib, tmp_path):
    """If the data have a cache, the mask and the positions depend on its length: they must be there too."""
    decoder_model.save(tmp_path / "m.onnx")
    feeds = decoder_model.feeds(TOKENS[:, 4:], run(tmp_path / "m.onnx", decoder_model.feeds(TOKENS[:, :4])))
    np.savez(tmp_path / "t.npz", **{k: v for k, v in feeds.items() if k != "position_ids"})
    assert "input 'position_ids'" in qcalib("run", "m.onnx", "--data", "t.npz", "-o", "y.h5", code=3).err


@pytest.mark.parametrize("form", ("merged", "merged_part", "apart", "apart_part", "apart_unknown", "apart_unknown_part"))
def test_rotary_embedding_of_heads_that_only_it_knows(form, qcalib, tmp_path):
    """The exporter of transformers reshapes heads so that no shape inference knows their number, or the size of all of them: an attribute and the caches do. A part of each head may stay as it is (Phi)."""
    size, part = 8, form.endswith("part")
    angle = np.arange(20)[:, None] / 10.0 ** np.linspace(0, 2, size // 4 if part else size // 2)
    tensors = {"cos": np.cos(angle).astype(np.float32), "sin": np.sin(angle).astype(np.float32)}
    apart = form.startswith("apart")
    attributes = {"num_heads": 3, "rotary_embedding_dim": size // 2} if part else {} if apart else {"num_heads": 3}
    nodes = [
        helper.make_node("RotaryEmbedding", ["x", "p", "cos", "sin"], ["turned"], domain="com.microsoft", **attributes),
        helper.make_node("Relu", ["turned"], ["y"]),
    ]
    shape = ["N", "H", "T", "D" if "unknown" in form else size] if apart else ["N", "T", "D"]
    ports = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, shape),
        helper.make_tensor_value_info("p", TensorProto.INT64, ["N", "T"]),
    ]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "g", ports, [y], [numpy_helper.from_array(v, k) for k, v in tensors.items()])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), str(tmp_path / "m.onnx"))
    random = np.random.default_rng(5)
    x = random.standard_normal((2, 3, 6, size) if apart else (2, 6, 3 * size)).astype(np.float32)
    feeds = {"x": x, "p": random.integers(0, 20, (2, 6))}
    np.savez(tmp_path / "x.npz", **feeds)
    qcalib("run", "m.onnx", "--data", "x.npz", "-o", "y.h5")
    expected = run(tmp_path / "m.onnx", feeds)["y"]
    with h5py.File(tmp_path / "y.h5") as f:
        np.testing.assert_allclose(f["y"][:].reshape(expected.shape), expected, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    (
        (),
        ("--format", "qoperator"),
        ("--activation-type", "dynamic"),
        FOUR,
        (*FOUR, "--format", "qoperator", "--accuracy-level", "1"),
        (*FOUR, "--weight-type", "int4:Gather"),
    ),
    ids=("qdq", "qoperator", "dynamic", "blocks", "nbits", "four"),
)
def test_a_tied_table_is_stored_once(options, qcalib, tmp_path):
    """The rows that are gathered and the last product have the same integers. In blocks of 4 bits both have the 8 bits of tables unless the table is named."""
    decoder_model.save(tmp_path / "m.onnx")
    np.save(tmp_path / "tokens.npy", TOKENS)
    qcalib("--data", "tokens.npy", *options, "--prefer", "integers", "m.onnx", "-o", "q.onnx", "--no-report")
    model = onnx.load(str(tmp_path / "q.onnx"))
    numbers = decoder_model.VOCABULARY * decoder_model.WIDTH
    large = [i for i in model.graph.initializer if np.prod(i.dims) == numbers]
    assert [i.data_type for i in large] == [TensorProto.INT4 if options[-1:] == ("int4:Gather",) else large[0].data_type]
    assert large[0].data_type in (TensorProto.INT8, TensorProto.UINT8, TensorProto.INT4)
    table = large[0].name
    readers = {n.op_type for n in model.graph.node if table in n.input}
    assert len(readers) == 2 and readers & {"Gather", "GatherBlockQuantized", "Cast"} and readers & {"Transpose", "Reshape"}
    feeds = decoder_model.feeds(TOKENS)
    truth, got = run(tmp_path / "m.onnx", feeds)["logits"], run(tmp_path / "q.onnx", feeds)["logits"]
    assert sqnr(truth, got) > (12 if FOUR[3] in options else 25)
    qcalib("run", "q.onnx", "--data", "tokens.npy", "-o", "y.h5")
    first = run(tmp_path / "q.onnx", decoder_model.feeds(TOKENS[:1]), plain=True)["logits"]
    with h5py.File(tmp_path / "y.h5") as f:
        assert sqnr(first, f["logits"][:1]) > 60  # one by one: a dynamic scale is that of a whole input


def test_a_product_that_reads_the_table_as_it_is(qcalib, tmp_path):
    """A Gemm with a transposed matrix: one initializer, which both read."""
    decoder_model.save(tmp_path / "m.onnx", gemm=True)
    np.save(tmp_path / "tokens.npy", TOKENS)
    qcalib("--data", "tokens.npy", "m.onnx", "-o", "q.onnx", "--no-report")
    numbers = decoder_model.VOCABULARY * decoder_model.WIDTH
    large = [i for i in onnx.load(str(tmp_path / "q.onnx")).graph.initializer if np.prod(i.dims) == numbers]
    assert [i.data_type for i in large] == [TensorProto.INT8]
    feeds = decoder_model.feeds(TOKENS)
    assert sqnr(run(tmp_path / "m.onnx", feeds)["logits"], run(tmp_path / "q.onnx", feeds)["logits"]) > 25


def test_a_tied_table_is_stored_twice_for_other_runtimes(qcalib, tmp_path):
    """TensorRT's guide shows no Transpose between the integers of weights and their DequantizeLinear."""
    decoder_model.save(tmp_path / "m.onnx")
    np.save(tmp_path / "tokens.npy", TOKENS)
    qcalib("--data", "tokens.npy", "--target", "tensorrt", "m.onnx", "-o", "q.onnx", "--no-report")
    model = onnx.load(str(tmp_path / "q.onnx"))
    numbers = decoder_model.VOCABULARY * decoder_model.WIDTH
    assert [i.data_type for i in model.graph.initializer if np.prod(i.dims) == numbers] == [TensorProto.INT8] * 2


def save_experts(path, gathered, op="Gather"):
    """Four matrices: of a product with all of them, or of the one that is gathered for each token."""
    random = np.random.default_rng(9)
    w = (random.standard_normal((4, 64, 96)) * np.array([0.1, 1, 3, 0.5])[:, None, None]).astype(np.float32)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, 64] if gathered else ["N", 4, "T", 64])
    ports, nodes = [x], []
    if gathered:
        shape = ["N"] if op == "Gather" else ["N", 1]
        ports += [helper.make_tensor_value_info("i", TensorProto.INT64, shape)]
        nodes += [helper.make_node(op, ["w", "i"], ["taken"], name="take")]
    nodes += [helper.make_node("MatMul", ["x", "taken" if gathered else "w"], ["y"], name="experts")]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", ports, [y], [numpy_helper.from_array(w, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), str(path))
    if not gathered:
        return {"x": random.standard_normal((16, 4, 5, 64)).astype(np.float32)}
    i = random.integers(-4, 4, (16, 1) if op == "GatherND" else 16)
    return {"x": random.standard_normal((16, 1, 64)).astype(np.float32), "i": i}


def large_types(path):
    return {i.data_type for i in onnx.load(str(path)).graph.initializer if np.prod(i.dims) >= 4096}


@pytest.mark.integers
@pytest.mark.parametrize("options, least", (((), 38), (FOUR, 20)), ids=("int8", "int4"))
def test_a_product_with_the_matrices_of_all_experts(options, least, qcalib, tmp_path):
    """Each matrix has a product and scales of its own: the smallest expert is as exact as the largest."""
    feeds = save_experts(tmp_path / "m.onnx", False)
    np.savez(tmp_path / "x.npz", **feeds)
    qcalib("--data", "x.npz", *options, "m.onnx", "-o", "q.onnx", "--no-report")
    assert large_types(tmp_path / "q.onnx") == {TensorProto.INT4 if options else TensorProto.INT8}
    expected, got = run(tmp_path / "m.onnx", feeds)["y"], run(tmp_path / "q.onnx", feeds, plain=True)["y"]
    assert all(sqnr(expected[:, e], got[:, e]) > least for e in range(4))
    for name, y in (("m.onnx", expected), ("q.onnx", got)):
        qcalib("run", name, "--data", "x.npz", "-o", "y.h5")
        with h5py.File(tmp_path / "y.h5") as f:
            assert sqnr(y, f["y"][:]) > 100


@pytest.mark.parametrize("options", ((), FOUR, (*FOUR, "--weight-type", "int4:take*")), ids=("int8", "blocks", "int4"))
@pytest.mark.parametrize("op", ("Gather", "GatherND"))
def test_matrices_of_experts_that_are_gathered(op, options, qcalib, tmp_path):
    """They are rows of one table, with a scale for each row or block, in 8 bits unless it is named."""
    feeds = save_experts(tmp_path / "m.onnx", True, op)
    np.savez(tmp_path / "x.npz", **feeds)
    qcalib("--data", "x.npz", *options, "m.onnx", "-o", "q.onnx", "--no-report")
    four = options[-1:] == ("int4:take*",)
    assert large_types(tmp_path / "q.onnx") == {TensorProto.INT4 if four else TensorProto.INT8}
    expected, got = run(tmp_path / "m.onnx", feeds)["y"], run(tmp_path / "q.onnx", feeds, plain=True)["y"]
    assert sqnr(expected, got) > (18 if four else 40)
    for name, y in (("m.onnx", expected), ("q.onnx", got)):
        qcalib("run", name, "--data", "x.npz", "-o", "y.h5")
        with h5py.File(tmp_path / "y.h5") as f:
            assert sqnr(y, f["y"][:].reshape(y.shape)) > 100


@pytest.mark.parametrize(
    "op, node, option",
    (("MatMul", "experts", "--skip"), ("MatMul", "experts", "--weight-type"), ("Gather", "take", "--skip"), ("GatherND", "take", "--skip")),
)
def test_experts_in_float_are_written_as_they_were(op, node, option, qcalib, tmp_path):
    """Options name the node of the file. Its matrices are split only to quantize them."""
    gathered = op != "MatMul"
    save_experts(tmp_path / "m.onnx", gathered, op)
    model = onnx.load(str(tmp_path / "m.onnx"))
    model.graph.node[-1].output[0] = "z"
    model.graph.node.append(helper.make_node("MatMul", ["z", "v"], ["y"], name="last"))
    last = np.random.default_rng(1).standard_normal((96, 64)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(last, "v"))
    onnx.save(model, str(tmp_path / "m.onnx"))
    np.savez(tmp_path / "x.npz", **save_experts(tmp_path / "ignored.onnx", gathered, op))
    value = node if option == "--skip" else f"none:{node}"
    qcalib("--data", "x.npz", option, value, "m.onnx", "-o", "q.onnx", "--no-report")
    written = {n.name: n for n in onnx.load(str(tmp_path / "q.onnx")).graph.node}
    original = {n.name: n for n in model.graph.node}
    assert all(getattr(written[node], f) == getattr(original[node], f) for f in ("op_type", "input", "output", "attribute"))
    assert not [n for n in written if n.startswith(node + "/")]
    assert large_types(tmp_path / "q.onnx") == {TensorProto.FLOAT, TensorProto.INT8}
    count = len(model.graph.node)
    assert sum(qcalib("inspect", "m.onnx", "--json").json["ops"].values()) == count  # run computes the operator itself


@pytest.mark.parametrize("past", (0, 3))
@pytest.mark.parametrize("sink, attributes", ((True, {}), (False, {"smooth_softmax": 1}), (True, {"local_window_size": 2})))
def test_attention_with_a_sink(sink, attributes, past, qcalib, tmp_path):
    """GPT-OSS: each head has a score that no value belongs to; with smooth_softmax alone it is 0."""
    random = np.random.default_rng(8)
    shapes = {"q": [5, 64], "k": [5, 32], "v": [5, 32], **({c: [2, past, 16] for c in ("pk", "pv")} if past else {})}
    feeds = {c: random.standard_normal([1, *s]).astype(np.float32) for c, s in shapes.items()}
    constants = {"last": np.array([4 + past], np.int32), "total": np.array(5 + past, np.int32)}
    constants["sink"] = 3 * random.standard_normal(4).astype(np.float32)
    inputs = ["q", "k", "v", *(("pk", "pv") if past else ("", "")), "last", "total", "", "", "", ""]
    inputs += ["sink"] if sink else []
    attributes = {"num_heads": 4, "kv_num_heads": 2, **attributes}
    outputs = ["y", "keys", "values"]
    nodes = [helper.make_node("GroupQueryAttention", inputs, outputs, domain="com.microsoft", **attributes)]
    ports = [helper.make_tensor_value_info(c, TensorProto.FLOAT, ["N", *s]) for c, s in shapes.items()]
    made = [helper.make_tensor_value_info(c, TensorProto.FLOAT, None) for c in outputs]
    graph = helper.make_graph(nodes, "g", ports, made, [numpy_helper.from_array(v, k) for k, v in constants.items()])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), str(tmp_path / "m.onnx"))
    np.savez(tmp_path / "x.npz", **feeds)
    qcalib("run", "m.onnx", "--data", "x.npz", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        np.testing.assert_allclose(f["y"][:], run(tmp_path / "m.onnx", feeds)["y"], atol=1e-6)


def test_sequences_of_different_lengths_in_one_batch(qcalib, tmp_path):
    """Padded prompts, then a token after each: GroupQueryAttention takes the lengths from the mask."""
    decoder_model.save(tmp_path / "m.onnx", "gqa")
    lengths, width = 4 + np.arange(len(TOKENS)) % 7, TOKENS.shape[1]
    feeds = decoder_model.feeds(TOKENS, form="gqa")
    feeds["attention_mask"] = (np.arange(width) < lengths[:, None]).astype(np.int64)
    valid = feeds["attention_mask"] == 1
    np.savez(tmp_path / "prompt.npz", input_ids=TOKENS, attention_mask=feeds["attention_mask"])
    qcalib("--data", "prompt.npz", "m.onnx", "-o", "q.onnx", "--no-report")
    results = {}
    for name in ("m.onnx", "q.onnx"):
        prompt = run(tmp_path / name, feeds, plain=True)
        after = decoder_model.feeds(TOKENS[:, :1], prompt, "gqa")
        after["attention_mask"] = (np.arange(width + 1) <= lengths[:, None]).astype(np.int64)
        np.savez(tmp_path / "after.npz", **after)
        results[name] = prompt["logits"][valid], run(tmp_path / name, after, plain=True)["logits"]
        for data, y in zip(("prompt.npz", "after.npz"), results[name]):
            qcalib("run", name, "--data", data, "-o", "y.h5")
            with h5py.File(tmp_path / "y.h5") as f:
                got = f["logits"][:][valid] if data == "prompt.npz" else f["logits"][:].reshape(y.shape)
            assert sqnr(y, got) > (100 if name == "m.onnx" else 60)
    assert all(sqnr(a, b) > 25 for a, b in zip(*results.values()))
