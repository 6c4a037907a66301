# SPDX-License-Identifier: Apache-2.0
"""--target: the files of each target against the rules of the target's documents, which are named beside each; targets
in files."""

import json
import pathlib

import decoder_model
import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from target_model import CHANNELS, Graph, make

TARGETS = sorted(f.stem for f in (pathlib.Path(__file__).resolve().parents[2] / "rewrite/rules/targets").glob("*.rules"))


@pytest.fixture
def made(tmp_path):
    return make(tmp_path)


@pytest.fixture
def quantized(qcalib, made, tmp_path):
    """quantized(target, ...) -> the graph of the file"""

    def run(target, *arguments):
        qcalib("quantize", "--target", target, *arguments, "--no-report", "--data", "data.h5", "model.onnx", "-o", "q.onnx")
        return Graph(tmp_path / "q.onnx")

    return run


def session(path):
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def outputs(path, samples):
    s = session(path)
    return [np.concatenate(y) for y in zip(*(s.run(None, {"x": x[None]}) for x in samples))]


def sqnr(reference, other):
    noise = ((reference - other) ** 2).sum()
    return 10 * np.log10((reference**2).sum() / noise) if noise else np.inf


def test_list_has_them_all(qcalib):
    listed = qcalib("list", "targets", "--json").json["targets"]
    assert listed[0]["target"] == "ort", "the default comes first"
    assert sorted(t["target"] for t in listed) == TARGETS and all(t["summary"] for t in listed)


def convolutions(folder):
    """Feeds of model.onnx, and a data file."""
    return [{"x": x[None]} for x in make(folder)], "data.h5"


def decoder(folder):
    decoder_model.save(folder / "model.onnx", "concat")
    tokens = np.random.default_rng(3).integers(0, decoder_model.VOCABULARY, (12, 10))
    np.save(folder / "tokens.npy", tokens)
    return [decoder_model.feeds(tokens)], "tokens.npy"


def slopes(folder):
    """PRelu and BatchNormalization in front of Relu: arithmetic per channel that no layer takes in."""
    rng = np.random.default_rng(6)
    shapes = {"w": (8, 3, 3, 3), "v": (4, 8, 3, 3), "slope": (8, 1, 1), **dict.fromkeys(("scale", "offset", "mean", "variance"), (8,))}
    constants = [numpy_helper.from_array(np.abs(rng.normal(0.5, 0.2, s)).astype(np.float32), n) for n, s in shapes.items()]
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("PRelu", ["c", "slope"], ["p"]), helper.make_node("MaxPool", ["p"], ["m"], kernel_shape=[2, 2]),
             helper.make_node("BatchNormalization", ["m", "scale", "offset", "mean", "variance"], ["n"]), helper.make_node("Relu", ["n"], ["r"]),
             helper.make_node("Conv", ["r", "v"], ["y"])]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", *s]) for n, s in (("x", [3, 12, 12]), ("y", [4, 7, 7]))]
    graph = helper.make_graph(nodes, "slopes", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    x = rng.normal(size=(16, 3, 12, 12)).astype(np.float32)
    np.save(folder / "x.npy", x)
    return [{"x": x}], "x.npy"


@pytest.mark.parametrize("network", [convolutions, decoder, slopes])
def test_one_collection_serves_every_target(network, qcalib, tmp_path):
    feeds, data = network(tmp_path)

    def results(path):
        s = session(path)
        names = [o.name for o in s.get_outputs() if not o.name.startswith("present.")]
        return [np.concatenate(y) for y in zip(*(s.run(names, f) for f in feeds))]

    qcalib("collect", "--data", data, "model.onnx", "-o", "all.stats.h5")
    reference = results(tmp_path / "model.onnx")
    for target in TARGETS:
        qcalib("quantize", "--target", target, "--no-report", "--stats", "all.stats.h5", "model.onnx", "-o", "q.onnx")
        # 8 bits with one scale for each weight, and powers of two, reach least
        for real, got in zip(reference, results(tmp_path / "q.onnx")):
            assert sqnr(real, got) > 18, target


def test_the_default_is_ort(quantized, tmp_path):
    named = quantized("ort").model.SerializeToString()
    assert quantized("ort").model.SerializeToString() == named
    assert quantized("openvino").model.SerializeToString() != named


# ---- TensorRT: Developer Guide, "Working with Quantized Types" ----


@pytest.fixture
def tensorrt(quantized):
    return quantized("tensorrt")


def test_tensorrt_is_symmetric(tensorrt):
    """Guide, "Quantization Workflows": integers are signed, zero points are 0."""
    for n in tensorrt.linears():
        assert tensorrt.zero(n).dtype == np.int8 and not tensorrt.zero(n).any(), n.name


def test_tensorrt_scales(tensorrt):
    """Guide, "Quantization Granularities": activations per tensor, weights of convolutions per output channel."""
    assert all(tensorrt.scale(n).ndim == 0 for n in tensorrt.activations())
    for n, dq, w in tensorrt.weights():
        axis = {a.name: a.i for a in dq.attribute}["axis"]
        assert tensorrt.scale(dq).shape == (w.shape[axis],) and (n.op_type != "Conv" or axis == 0), n.name
        assert w.dtype == np.int8 and w.min() >= -127


def test_tensorrt_quantizes_all_inputs_of_products(tensorrt):
    """Guide, "Q/DQ Layer-Placement Recommendations": quantize all inputs of weighted operations."""
    for n in tensorrt.of("Conv", "Gemm", "MatMul"):
        assert all(tensorrt.dequantize(v) is not None for v in n.input[:2]), n.name


def test_tensorrt_has_float_biases(tensorrt):
    """ModelOpt 0.47, modelopt/onnx/quantization/int8.py: no Q/DQ at biases."""
    biased = [n for n in tensorrt.of("Conv", "Gemm") if len(n.input) > 2]
    assert biased and not tensorrt.biases()
    assert all(tensorrt.constants[n.input[2]].dtype == np.float32 for n in biased)


def test_tensorrt_leaves_outputs_alone(tensorrt):
    """Guide: do not quantize the outputs of weighted operations by default; nor those of the network."""
    assert {tensorrt.maker[o].op_type for o in tensorrt.outputs} == {"Gemm", "Softmax"}


def test_tensorrt_quantizes_one_branch_of_a_residual_add(tensorrt):
    """Guide, "Q/DQ Layer-Placement Recommendations": quantize the residual input in skip connections."""
    (add,) = tensorrt.of("Add")
    branches = [tensorrt.dequantize(v) is not None for v in add.input]
    assert sorted(branches) == [False, True]
    assert tensorrt.maker[add.input[branches.index(False)]].op_type == "Conv"


def test_tensorrt_fuses_clamps(tensorrt):
    """Guide, "Q/DQ Layer-Placement Recommendations": leave Conv and Relu together."""
    for n in tensorrt.of("Relu"):
        assert tensorrt.maker[n.input[0]].op_type in ("Conv", "Add", "Gemm"), n.name


def test_a_float_bias_is_what_its_integers_stand_for(tensorrt, quantized):
    """So that the file computes what was simulated."""
    for n in tensorrt.of("Conv"):
        step = tensorrt.scale(tensorrt.dequantize(n.input[0])) * tensorrt.scale(tensorrt.weight(n)[0])
        levels = tensorrt.constants[n.input[2]] / step
        assert np.abs(levels - np.round(levels)).max() < 1e-2 + np.abs(levels).max() * 1e-6, n.name


def test_tensorrt_has_no_16_bits(qcalib, made, tmp_path):
    """Guide, "Supported Types": a demand that 8 bits miss leaves layers in float."""
    done = qcalib("quantize", "--target", "tensorrt", "--min-sqnr", "50", "--no-report", "--data", "data.h5", "model.onnx", "-o", "q.onnx", code=None)
    assert done.code in (0, 1)
    g = Graph(tmp_path / "q.onnx")
    assert {g.zero(n).dtype for n in g.linears()} == {np.dtype(np.int8)}
    assert any(g.dequantize(n.input[1]) is None for n in g.of("Conv", "Gemm"))


# ---- TensorFlow Lite: 8-bit quantization specification ----


def after(graph, op):
    """The QuantizeLinear behind a node of this op"""
    (n,) = graph.of(op)
    return next(r for r in graph.readers(n.output[0]) if r.op_type == "QuantizeLinear")


@pytest.mark.parametrize("target", ["tflite", "tflm", "cmsis-nn", "xnnpack"])
def test_tflite_types(target, quantized):
    """Specification, "Specification summary": int8 with zero points, weights in [-127, 127] with zero point 0, int32 biases."""
    g = quantized(target)
    assert {g.zero(n).dtype for n in g.activations()} == {np.dtype(np.int8)}
    assert any(g.zero(n) != 0 for n in g.activations())
    for n, dq, w in g.weights():
        assert w.dtype == np.int8 and w.min() >= -127 and not g.zero(dq).any(), n.name
        if n.op_type == "Conv":
            assert g.scale(dq).shape == (w.shape[0],)
        elif target in ("tflm", "cmsis-nn"):  # FULLY_CONNECTED of TensorFlow Lite Micro
            assert g.scale(dq).ndim == 0
    assert g.biases()


def test_tflite_fixed_parameters(quantized):
    """Specification, "Int8 quantized operator specifications": LOGISTIC and SOFTMAX have scale 1/256 and zero point -128, AVERAGE_POOL_2D,
    MAX_POOL_2D and CONCATENATION one scale and zero point for inputs and output."""
    g = quantized("tflite")
    for op in ("Sigmoid", "Softmax"):
        q = after(g, op)
        assert g.scale(q) == 1 / 256 and g.zero(q) == -128, op
    for op in ("AveragePool", "MaxPool", "Concat"):
        (n,) = g.of(op)
        stored = {(float(g.scale(q)), int(g.zero(q))) for q in [after(g, op), *map(g.dequantize, n.input)]}
        assert len(stored) == 1, op


@pytest.mark.parametrize("target", ["tflite", "tflm", "cmsis-nn", "xnnpack"])
def test_tflite_products_with_a_bias(target, qcalib, tmp_path):
    """A file of TensorFlow Lite holds what the target makes of MatMul and Add: each result is stored."""
    rng = np.random.default_rng(4)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Add", ["product", "b"], ["y"])]
    constants = [numpy_helper.from_array(rng.normal(size=s).astype(np.float32), n) for n, s in (("w", (16, 24)), ("b", (24,)))]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 5, c]) for n, c in (("x", 16), ("y", 24))]
    graph = helper.make_graph(nodes, "dense", values[:1], values[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "model.onnx")
    np.save(tmp_path / "x.npy", rng.normal(size=(32, 5, 16)).astype(np.float32))
    qcalib("quantize", "--target", target, "--format", "tflite", "--no-report", "--data", "x.npy", "model.onnx", "-o", "q.tflite")
    qcalib("run", "q.tflite", "--data", "x.npy", "-o", "y.h5")


def test_tflite_is_measured_by_its_arithmetic(qcalib, made, tmp_path):
    qcalib("--target", "tflite", "--data", "data.h5", "model.onnx", "-o", "q.onnx", "--report", "r")
    options = json.loads((tmp_path / "r/report.json").read_text())["options"]
    assert (options["target"], options["rounding"], options["activation-type"]) == ("tflite", "tflite", "int8")


# ---- QNN: operator definitions; ONNX Runtime's QNN execution provider ----


@pytest.mark.parametrize("type", ["uint8", "uint16"])
def test_qnn_types(type, quantized):
    """quant_config.py of the provider: unsigned activations; no scale per channel for MatMul; Conv per channel has symmetric int8."""
    g = quantized("qnn", *(["--activation-type", type] if type == "uint16" else []))
    assert {g.zero(n).dtype for n in g.activations()} == {np.dtype(type)}
    for n, dq, w in g.weights():
        assert w.dtype == np.int8 and not g.zero(dq).any(), n.name
        assert g.scale(dq).shape == ((w.shape[0],) if n.op_type == "Conv" else ()), n.name


def test_qnn_is_measured_by_onnxruntime(qcalib, made, tmp_path):
    """The file is for ONNX Runtime, and Qualcomm publishes no arithmetic: the report says what ONNX Runtime computes."""
    qcalib("quantize", "--target", "qnn", "--data", "data.h5", "model.onnx", "-o", "q.onnx", "--report", "r")
    rounding = json.loads((tmp_path / "r/report.json").read_text())["options"]["rounding"]
    qcalib("run", "q.onnx", "--data", "data.h5", "--rounding", rounding or "onnx", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as file:  # the other output is a Softmax, which ONNX Runtime rounds in its own way
        np.testing.assert_array_equal(file["logits"][:], outputs(tmp_path / "q.onnx", made)[0])


def test_qnn_products_of_activations_have_8_bits(qcalib, tmp_path):
    """Sums of products of 16 by 16 bits do not fit into the 32 bits of an accumulator."""
    rng = np.random.default_rng(2)
    nodes = [helper.make_node("MatMul", ["x", name], [name.upper()], name=name) for name in "qkv"]
    nodes += [helper.make_node("Transpose", ["K"], ["T"], perm=[0, 2, 1]), helper.make_node("MatMul", ["Q", "T"], ["scores"])]
    nodes += [helper.make_node("Softmax", ["scores"], ["shares"]), helper.make_node("MatMul", ["shares", "V"], ["y"])]
    weights = [numpy_helper.from_array(rng.normal(size=(16, 16)).astype(np.float32) / 4, name) for name in "qkv"]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 8, 16]) for name in "xy"]
    graph = helper.make_graph(nodes, "attention", values[:1], values[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "model.onnx")
    x = rng.normal(size=(32, 8, 16)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    qcalib("quantize", "--target", "qnn", "--activation-type", "uint16", "--no-report", "--data", "x.npy", "model.onnx", "-o", "q.onnx")
    g = Graph(tmp_path / "q.onnx")
    types = {n.output[0]: [g.zero(g.dequantize(v)).dtype for v in n.input] for n in g.of("MatMul")}
    assert types.pop("scores") == [np.uint8] * 2 and types.pop("y") == [np.uint8] * 2
    assert len(types) == 3 and all(t == [np.uint16, np.int8] for t in types.values())
    assert sqnr(outputs(tmp_path / "model.onnx", x)[0], outputs(tmp_path / "q.onnx", x)[0]) > 30


def test_qnn_sigmoid_of_16_bits(quantized):
    """quant_config.py, _process_sigmoid: uint16 has scale 1/65536 and zero point 0."""
    g = quantized("qnn", "--activation-type", "uint16")
    q = after(g, "Sigmoid")
    assert g.scale(q) == 1 / 65536 and g.zero(q) == 0


def test_qnn_has_whole_units(quantized):
    """The provider takes nodes between DequantizeLinear and QuantizeLinear: "QDQ node units"."""
    g = quantized("qnn")
    for n in g.nodes:
        if n.op_type in ("QuantizeLinear", "DequantizeLinear"):
            continue
        data = [v for v in n.input if v not in g.constants]
        assert all(g.dequantize(v) is not None for v in data), n.name
        assert any(r.op_type == "QuantizeLinear" for r in g.readers(n.output[0])) or n.output[0] in g.outputs, n.name


def test_encodings(qcalib, made, tmp_path):
    """AIMET 2.42, aimet_onnx/_encoding.py, version 0.6.1: lists of encodings by tensor; integers from 0, real = scale * (q + offset)."""
    qcalib("quantize", "--target", "qnn", "--no-report", "--data", "data.h5", "model.onnx", "--format", "qdq,encodings")
    found = json.loads((tmp_path / "model.encodings.json").read_text())
    g, real = Graph(tmp_path / "model.int8.onnx"), Graph(tmp_path / "model.onnx")
    assert found["version"] == "0.6.1" and found["excluded_layers"] == []
    assert set(found["activation_encodings"]) <= {"x", *real.maker} and set(found["param_encodings"]) <= set(real.constants)
    assert {"x", "first.relu", "residual.relu", "both", "gate"} <= set(found["activation_encodings"])
    for name, encodings in {**found["activation_encodings"], **found["param_encodings"]}.items():
        for e in encodings:
            assert e["bitwidth"] == 8 and e["dtype"] == "int" and e["is_symmetric"] in ("True", "False")
            assert np.isclose(e["min"], e["scale"] * e["offset"]) and np.isclose(e["max"], e["scale"] * (e["offset"] + 255)), name
    (x,) = found["activation_encodings"]["x"]
    q = next(n for n in g.of("QuantizeLinear") if n.input[0] == "x")
    assert np.float32(x["scale"]) == g.scale(q) and x["offset"] == -int(g.zero(q)) and x["is_symmetric"] == "False"
    first = found["param_encodings"]["first.w"]
    assert len(first) == CHANNELS and {e["offset"] for e in first} == {-128} and {e["is_symmetric"] for e in first} == {"True"}
    (conv,) = [n for n in g.of("Conv") if n.name == "first"]
    assert np.array_equal(np.float32([e["scale"] for e in first]), g.scale(g.weight(conv)[0]))


def test_encodings_go_beside_a_float_model(qcalib, made):
    qcalib("quantize", "--no-report", "--prefer", "integers", "--data", "data.h5", "model.onnx", "-o", "q.onnx")
    assert "describe a float model" in qcalib("convert", "q.onnx", "--format", "encodings", "-o", "e.json", code=4).err


# ---- Vitis AI: AMD Quark 0.13, XINT8 ----


def test_vitis(quantized):
    """quark/onnx/quantization/config/custom_config.py, XINT8_CONFIG: symmetric, PowerOfTwoMethod; quantizers/npu_cnn_quantizer.py: per tensor."""
    g = quantized("vitis")
    for n in g.linears():
        assert (np.frexp(g.scale(n))[0] == 0.5).all() and g.scale(n).ndim == 0, n.name
        assert g.zero(n).dtype == np.int8 and not g.zero(n).any(), n.name


def position(graph, n):
    """Fraction bits of the scale of a Q or DQ: pos of quant_utils.py, scale2pos."""
    return -int(np.log2(graph.scale(n).max()))


def stored(graph, value):
    """The first QuantizeLinear behind a value."""
    readers = graph.readers(value)
    found = [n for n in readers if n.op_type == "QuantizeLinear"]
    return found[0] if found else stored(graph, readers[0].output[0])


def test_vitis_biases(quantized):
    """npu_cnn_quantizer.py, quantize_bias_tensor: without Int32Bias a bias is int8 with a scale of its own, a power of two.
    postprocess/refinement/refine.py, adjust_shift_bias: input and weight have at most 15 fraction bits more, and none less."""
    g = quantized("vitis")
    layers = [n for n in g.of("Conv", "Gemm") if len(n.input) > 2]
    assert len(layers) > 5
    for n in layers:
        x, w, b = map(g.dequantize, n.input)
        assert g.constants[b.input[0]].dtype == np.int8 and not g.zero(b).any() and np.frexp(g.scale(b))[0] == 0.5, n.name
        assert 0 <= position(g, x) + position(g, w) - position(g, b) <= 15, n.name
    assert any(np.abs(g.constants[g.dequantize(n.input[2]).input[0]]).max() > 64 for n in layers)


def test_vitis_shifts(quantized):
    """refine.py, adjust_shift_cut: 0 to 16; adjust_shift_read: 0 to 7 between the operands of an Add; adjust_shift_write: -7 to 25,
    of a Mul 0 to 32; align_concat and align_pool: one scale for inputs and result."""
    g = quantized("vitis")
    for n in g.of("Conv", "Gemm", "MatMul"):
        if n.output[0] not in g.outputs:
            x, w = map(g.dequantize, n.input[:2])
            assert 0 <= position(g, x) + position(g, w) - position(g, stored(g, n.output[0])) <= 16, n.name
    (add,), (mul,) = g.of("Add"), g.of("Mul")
    operands, factors = ([position(g, g.dequantize(v)) for v in n.input] for n in (add, mul))
    assert max(operands) - min(operands) <= 7 and -7 <= min(operands) - position(g, stored(g, add.output[0])) <= 25
    assert 0 <= sum(factors) - position(g, stored(g, mul.output[0])) <= 32
    for n in g.of("MaxPool", "AveragePool", "GlobalAveragePool", "Concat"):
        assert {position(g, q) for q in [stored(g, n.output[0]), *map(g.dequantize, n.input)]} == {position(g, stored(g, n.output[0]))}, n.name


def test_powers_of_two_are_the_better_ones(quantized, qcalib, tmp_path):
    """Of the two powers of two around a scale the one that loses less is taken: some are below it. Ranges of --method minmax stay covered."""
    free = tmp_path / "free.rules"
    free.write_text('target free "vitis without its powers of two"\n  like vitis\n  scales any\n')
    for method, least in (("mse", 0.5), ("minmax", 1)):
        powers, other = (quantized(t, "--method", method, "--equalize", "off") for t in ("vitis", free))
        scales = [{n.input[0]: float(g.scale(n)) for n in g.of("QuantizeLinear")} for g in (powers, other)]
        ratio = [scales[0][v] / scales[1][v] for v in scales[0]]
        assert least <= min(ratio) and max(ratio) < 2 and (min(ratio) < 1) == (method == "mse"), (method, ratio)


def test_powers_of_two_are_exact_in_the_simulation(qcalib, quantized, made, tmp_path):
    """Multipliers that are shifts: ONNX Runtime and `qcalib run` give the same numbers."""
    quantized("vitis")
    qcalib("run", "q.onnx", "--data", "data.h5", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as file:
        for name, runtime in zip(("logits", "y"), outputs(tmp_path / "q.onnx", made)):
            assert sqnr(runtime, file[name][:].reshape(runtime.shape)) > 60, name


# ---- A target of one's own ----

STRANGER = """
# An accelerator: convolutions and their clamps alone, 7 bits of weights with one scale, no pools.
target stranger "an accelerator for convolutions"
  like   integers
  scheme activation int8 symmetric
  scheme weight int8 symmetric full per_tensor
  option rounding "qnn-tonearest"
  results float
drop pattern *
pattern convolution
  match  Conv(x, const w, const b)
  affine dq(Conv(q(x : X), q(w : W per 0), q(b : X*W)) : X*W)
"""


def test_a_stranger_needs_no_program(quantized, tmp_path):
    path = tmp_path / "stranger.rules"
    path.write_text(STRANGER)
    g = quantized(path)
    assert {g.zero(n).dtype for n in g.activations()} == {np.dtype(np.int8)} and not any(g.zero(n).any() for n in g.activations())
    for n in g.of("Conv"):
        assert g.dequantize(n.input[0]) is not None and g.scale(g.weight(n)[0]).ndim == 0
    for n in g.of("Gemm", "MatMul", "Softmax", "Add"):
        assert n.op_type == "Add" or n.input[1:2] == [] or g.dequantize(n.input[1]) is None, n.name


def test_collect_for_a_target_in_a_file(qcalib, made, tmp_path):
    """The statistics of a convolution before its clamp are for this target alone; the others need no more than without it."""
    (tmp_path / "t.rules").write_text('target apart "clamps are float"\n  like integers\ndrop allow bound *\n')
    job = ["--stats", "all.stats.h5", "--no-report", "model.onnx", "-o", "q.onnx"]
    qcalib("collect", "--data", "data.h5", "model.onnx", "-o", "all.stats.h5")
    advice = qcalib("quantize", "--target", "./t.rules", *job, code=3).err
    assert "has no statistics of tensor 'first'; collect again with the same model, --rules and --target" in advice
    qcalib("collect", "--target", "./t.rules", "--data", "data.h5", "model.onnx", "-o", "all.stats.h5")
    for target in (*TARGETS, "./t.rules"):
        qcalib("quantize", "--target", target, *job)
    assert any(r.op_type == "QuantizeLinear" for r in Graph(tmp_path / "q.onnx").readers("first"))


def test_a_target_refuses(qcalib, made, tmp_path):
    """All of it at once, by name and reason."""
    (tmp_path / "t.rules").write_text(
        STRANGER + 'refuse gate match Sigmoid(x) because "there is no exponential"\nrefuse end match Softmax(x) because "nor a division"\n'
    )
    err = qcalib("--target", "./t.rules", "--data", "data.h5", "model.onnx", code=4).err
    assert "refuses 2 ops: 'gate' (Sigmoid: there is no exponential), 'y' (Softmax: nor a division)" in err


def test_a_target_reads_opsets(qcalib, made, tmp_path):
    (tmp_path / "t.rules").write_text('target old "reads little"\n  like ort\n  opset 16\n')
    done = qcalib("--target", "./t.rules", "--data", "data.h5", "model.onnx", code=4)
    assert "the file needs opset 17, and target 'old' reads up to 16" in done.err and not done.new_files


def test_given_options_win_and_contradictions_are_said(qcalib, made, tmp_path):
    done = qcalib(
        *("quantize", "--target", "vitis", "--per-channel", "--weight-type", "int16:gemm", "--data", "data.h5", "model.onnx"),
        *("-o", "q.onnx", "--no-report"),
    )
    assert "--per-channel weights holds, though target 'vitis' has none" in done.err
    g = Graph(tmp_path / "q.onnx")
    assert all(g.scale(g.weight(n)[0]).ndim == 1 for n in g.of("Conv"))
    assert {g.zero(n).dtype for n in g.activations()} >= {np.dtype(np.int8)}  # a type by name leaves the target's to the others
    quiet = qcalib("quantize", "--symmetric=activations,weights", "--target", "vitis", "--data", "data.h5", "model.onnx", "-o", "r.onnx", "--no-report")
    assert "holds, though" not in quiet.err


def test_a_later_target_takes_the_place_of_an_earlier(qcalib, made, tmp_path):
    (tmp_path / "c.json").write_text('{"target": "vitis"}')
    arguments = ["--data", "data.h5", "model.onnx", "--no-report"]
    qcalib("quantize", *arguments, "--config", "c.json", "--target", "ort", "-o", "a.onnx")
    qcalib("quantize", *arguments, "-o", "b.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


@pytest.mark.parametrize(
    "text,message",
    [
        ("pattern a match Relu(x) affine dq(Relu(q(x : X)) : X)", "begins with 'target NAME"),
        ('target a "b"\n  like a.rules', "there is no target 'a'"),
        ('target a "b"\n  like nothing', "there is no target 'nothing'"),
        ('target a "b"\n  like "./t.rules"', "like itself"),
        ('target a "b"\n  option samples "3"', "'option samples' is none that a target decides"),
        ('target a "b"\n  option range "wide"', "unknown value 'wide'"),
        ('target a "b"\n  scales even', "t.rules:2:10: expected power_of_two or any, got 'even'"),
        ('target a "b"\n  bias int4', "t.rules:2:8: expected int32, float or int8, got 'int4'"),
        ('target a "b"\n  fixed none\n  results maybe', "t.rules:3:11: expected float or quantized"),
        ('target a "b"\ndrop pattern conv9', "expected the name of a rule that is there, got 'conv9'"),
        ('target a "b"\ndrop allow table Convolve', "expected an op"),
        ('target a "b"\ntarget c "d"', "expected one target in a file"),
    ],
)
def test_mistakes_in_a_target(text, message, qcalib, made, tmp_path):
    (tmp_path / "t.rules").write_text(text)
    done = qcalib("--target", "./t.rules", "--data", "data.h5", "model.onnx", code=None)
    assert done.code in (2, 3) and message in done.err and not done.new_files


def test_names(qcalib, made, tmp_path):
    assert "did you mean 'tensorrt'?" in qcalib("--target", "tensort", "--data", "data.h5", "model.onnx", code=2).err
    (tmp_path / "t.rules").write_text(STRANGER)
    assert "is for --target" in qcalib("--rules", "t.rules", "--data", "data.h5", "model.onnx", code=3).err


# ---- compare --target ----


def test_compare_targets(qcalib, made, tmp_path):
    qcalib("collect", "--data", "data.h5", "model.onnx", "-o", "all.stats.h5")
    (tmp_path / "whole.rules").write_text('target whole "ONNX Runtime, nothing in float for its speed"\n  like ort\n  option prefer "integers"\n')
    arguments = ["compare", "--target", "./whole.rules,tensorrt", "model.onnx", "--stats", "all.stats.h5", "--data", "data.h5"]
    done = qcalib(*arguments, "--json", TMPDIR=str(tmp_path))
    assert done.new_files == []
    one, two = done.json["targets"]
    assert (one["target"], one["activation-type"], one["biases"]) == ("./whole.rules", "uint8", "int32")
    assert (two["target"], two["activation-type"], two["biases"]) == ("tensorrt", "int8", "float")
    layers = {layer["name"]: layer for layer in done.json["layers"]}
    assert layers["first"]["sqnr_db"] > 20 and layers["logits"]["sqnr_db"] > 15  # the clamp is in both
    files = []
    for target in ("./whole.rules", "tensorrt"):
        files.append(f"{target}.onnx")
        qcalib("quantize", "--target", target, "--no-report", "--stats", "all.stats.h5", "model.onnx", "-o", files[-1])
    assert qcalib("compare", *files, "--data", "data.h5", "--json").json["outputs"] == done.json["outputs"]
    assert done.json["warnings"] == []  # --data is for the comparison
    text = qcalib(*arguments).out
    assert "biases" in text and "range" not in text.split("output")[0]  # what is the same is left out


def test_compare_targets_uses_each_ones_arithmetic(qcalib, made):
    done = qcalib("compare", "--target", "ort,tflite", "model.onnx", "--data", "data.h5", "--json")
    assert done.json["rounding"] == ["onnx", "tflite"]


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["--target", "ort", "model.onnx"], "takes two targets"),
        (["--target", "ort,tvm", "model.onnx", "model.onnx"], "takes one MODEL"),
        (["--target", "ort,nothing", "model.onnx"], "there is no target 'nothing'"),
        (["model.onnx"], "compare needs REFERENCE MODEL"),
        (["model.onnx", "model.onnx", "--stats", "all.stats.h5"], "--stats is for compare --target"),
    ],
)
def test_compare_targets_refuses(arguments, message, qcalib, made):
    done = qcalib("compare", *arguments, "--data", "data.h5", code=2)
    assert message in done.err and not done.new_files
