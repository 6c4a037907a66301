# SPDX-License-Identifier: Apache-2.0
"""Unusual small models, made here: each is quantized, runs in both ONNX Runtimes without a warning and is close to
float."""
import dataclasses

import h5py
import numpy as np
import onnx
import pytest
from measured_models import infer, session, sqnr
from onnx import TensorProto, helper, numpy_helper

from quantized_graph import HEAVY, QuantizedGraph, check_file, check_kept, check_names, check_pairs

SAMPLES = 64


@dataclasses.dataclass
class Odd:
    """A model and what must come of it."""
    nodes: list
    weights: dict
    inputs: dict                      # name: shape without the batch
    outputs: tuple
    opset: int = 13
    exported_opset: int = 13          # at least
    batch: object = "N"
    stay: tuple = ()                  # ops that stay in float
    integer: dict = dataclasses.field(default_factory=dict)  # op of ONNX Runtime's optimized graph: how many
    decibels: float = 20
    ir: int = 7
    named: bool = True


def node(op, inputs, output, **attributes):
    outputs = [output] if isinstance(output, str) else output
    return helper.make_node(op, list(inputs), outputs, **attributes)


def normal(*shape, seed=1):
    fan = int(np.prod(shape[1:])) or 1
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(np.float32) / np.float32(np.sqrt(fan))


def ints(*values):
    return np.array(values, np.int64)


def conv(x, y, w="w", b="b", **attributes):
    return node("Conv", [n for n in (x, w, b) if n], y, **{"pads": [1, 1, 1, 1], **attributes})


IMAGE = {"x": (4, 12, 12)}
W, B = normal(8, 4, 3, 3), normal(8)
W2, B2 = normal(8, 8, 3, 3), normal(8, seed=5)


def odd_models():
    yield "fixed_batch", Odd([conv("x", "y1"), node("Relu", ["y1"], "y")], {"w": W, "b": B}, IMAGE, ("y",), batch=4)
    yield "fixed_batch_of_one", Odd([conv("x", "y1"), node("Relu", ["y1"], "y")], {"w": W, "b": B}, IMAGE, ("y",), batch=1)
    yield "gemm_bias_as_row", Odd([node("Gemm", ["x", "w", "b"], "h"), node("Relu", ["h"], "r"), node("Gemm", ["r", "w2", "b2"], "y")],
                                  {"w": normal(16, 12), "b": normal(1, 12), "w2": normal(12, 5), "b2": normal(1, 5)}, {"x": (16,)}, ("y",),
                                  integer={"QGemm": 2})
    yield "gemm_scalar_bias_and_alpha", Odd([node("Gemm", ["x", "w", "b"], "h", alpha=0.5, beta=2.0, transB=1), node("Gemm", ["h", "w2"], "y")],
                                            {"w": normal(12, 16), "b": np.array(0.25, np.float32), "w2": normal(12, 5)}, {"x": (16,)}, ("y",))
    yield "gemm_without_bias", Odd([node("Gemm", ["x", "w"], "y", transB=1)], {"w": normal(12, 16)}, {"x": (16,)}, ("y",))
    yield "gemm_empty_bias", Odd([node("Gemm", ["x", "w", ""], "y")], {"w": normal(16, 12)}, {"x": (16,)}, ("y",))
    yield "conv_without_bias", Odd([conv("x", "y1", b=None), node("Relu", ["y1"], "y2"), conv("y2", "y", "w2", None)], {"w": W, "w2": W2}, IMAGE, ("y",))
    yield "conv_empty_bias", Odd([node("Conv", ["x", "w", ""], "y", pads=[1, 1, 1, 1])], {"w": W}, IMAGE, ("y",))
    yield "empty_optional_inputs", Odd([conv("x", "a"), node("Clip", ["a", "", "six"], "c"), node("Pad", ["c", "pads"], "p"),
                                        node("Clip", ["p", "zero", ""], "y")],
                                       {"w": W, "b": B, "six": np.array(2, np.float32), "zero": np.array(0, np.float32),
                                        "pads": ints(0, 0, 1, 1, 0, 0, 1, 1)}, IMAGE, ("y",))
    yield "resize_empty_inputs", Odd([conv("x", "a"), node("Resize", ["a", "", "scales"], "r", mode="nearest"), conv("r", "y", "w2", "b2")],
                                     {"w": W, "b": B, "w2": W2, "b2": B2, "scales": np.array([1, 1, 2, 2], np.float32)}, IMAGE, ("y",))
    yield "output_is_consumed", Odd([conv("x", "a"), node("Relu", ["a"], "mid"), conv("mid", "y", "w2", "b2")],
                                    {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("mid", "y"))
    yield "output_twice_consumed", Odd([conv("x", "mid"), conv("mid", "c", "w2", "b2"), node("Add", ["mid", "c"], "y")],
                                       {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("y", "mid"))
    yield "unnamed_nodes", Odd([conv("x", "a"), node("Relu", ["a"], "r"), conv("r", "c", "w2", "b2"), node("Add", ["r", "c"], "y")],
                               {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("y",), named=False)
    yield "two_inputs", Odd([conv("x", "a"), conv("z", "c"), node("Add", ["a", "c"], "y")], {"w": W, "b": B}, {"x": (4, 12, 12), "z": (4, 12, 12)}, ("y",))
    yield "two_inputs_of_a_product", Odd([node("Gemm", ["a", "w"], "p"), node("Gemm", ["b", "w"], "q"), node("Mul", ["p", "q"], "y")],
                                         {"w": normal(16, 12)}, {"a": (16,), "b": (16,)}, ("y",))
    yield "grouped_conv", Odd([conv("x", "a", group=2), node("Relu", ["a"], "r"), conv("r", "y", "w2", "b2", group=8)],
                              {"w": normal(8, 2, 3, 3), "b": B, "w2": normal(16, 1, 3, 3), "b2": normal(16)}, IMAGE, ("y",))
    yield "depthwise_strided", Odd([conv("x", "y", group=4, strides=[2, 1], dilations=[2, 1], pads=[0, 1, 2, 0])],
                                   {"w": normal(4, 1, 3, 3), "b": normal(4)}, IMAGE, ("y",))
    yield "conv_1d", Odd([conv("x", "a", pads=[1, 1]), node("Relu", ["a"], "r"), conv("r", "y", "w2", "b2", pads=[2, 0])],
                         {"w": normal(8, 4, 3), "b": B, "w2": normal(6, 8, 3), "b2": normal(6)}, {"x": (4, 30)}, ("y",))
    yield "conv_auto_pad", Odd([node("Conv", ["x", "w", "b"], "a", auto_pad="SAME_UPPER", strides=[2, 2]), node("Relu", ["a"], "r"),
                                node("Conv", ["r", "w2", "b2"], "y", auto_pad="VALID")], {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("y",))
    yield "conv_transpose", Odd([conv("x", "a"), node("ConvTranspose", ["a", "t"], "u", strides=[2, 2]), conv("u", "y", "w2", "b2")],
                                {"w": W, "b": B, "t": normal(8, 8, 2, 2), "w2": W2, "b2": B2}, IMAGE, ("y",), stay=("ConvTranspose",))
    yield "concat", Odd([conv("x", "a"), conv("x", "c", "w2", "b2"), node("Concat", ["a", "c"], "k", axis=1), conv("k", "y", "w3", "b3")],
                        {"w": W, "b": B, "w2": 3 * normal(8, 4, 3, 3, seed=9), "b2": B2, "w3": normal(5, 16, 3, 3), "b3": normal(5)}, IMAGE, ("y",))
    yield "concat_of_input_and_itself", Odd([conv("x", "a"), node("Concat", ["x", "a", "x"], "k", axis=1), conv("k", "y", "w2", "b2")],
                                            {"w": W, "b": B, "w2": normal(5, 16, 3, 3), "b2": normal(5)}, IMAGE, ("y",))
    yield "leaky_relu", Odd([conv("x", "a"), node("LeakyRelu", ["a"], "l", alpha=0.1), conv("l", "y", "w2", "b2")],
                            {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("y",), integer={"QLinearLeakyRelu": 1})
    yield "hard_swish", Odd([conv("x", "a"), node("HardSwish", ["a"], "h"), conv("h", "y", "w2", "b2")],
                            {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("y",), opset=14)
    yield "hard_swish_in_parts", Odd([conv("x", "a"), node("HardSigmoid", ["a"], "s", alpha=1 / 6, beta=0.5), node("Mul", ["a", "s"], "h"),
                                      conv("h", "y", "w2", "b2")], {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("y",), exported_opset=14)
    yield "swish", Odd([conv("x", "a"), node("Sigmoid", ["a"], "s"), node("Mul", ["a", "s"], "h"), conv("h", "y", "w2", "b2")],
                       {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("y",))
    yield "softmax_between", Odd([node("Gemm", ["x", "w"], "a"), node("Softmax", ["a"], "s", axis=1), node("Gemm", ["s", "w2"], "y")],
                                 {"w": normal(16, 12), "w2": normal(12, 5)}, {"x": (16,)}, ("y",), stay=("Softmax",))
    yield "matmul_3d", Odd([node("MatMul", ["x", "w"], "a"), node("Add", ["a", "b"], "c"), node("Relu", ["c"], "r"), node("MatMul", ["r", "w2"], "y")],
                           {"w": normal(16, 12), "b": normal(12), "w2": normal(12, 5)}, {"x": (7, 16)}, ("y",), stay=("Add",))
    yield "matmul_with_bias", Odd([node("MatMul", ["x", "w"], "a"), node("Add", ["a", "b"], "c"), node("Relu", ["c"], "r"),
                                   node("MatMul", ["r", "w2"], "d"), node("Add", ["b2", "d"], "y")],
                                  {"w": normal(16, 12), "b": normal(12), "w2": normal(12, 5), "b2": normal(5)}, {"x": (16,)}, ("y",))
    yield "matmul_of_two_activations", Odd([node("MatMul", ["x", "w"], "a"), node("MatMul", ["x", "v"], "c"), node("Transpose", ["c"], "t", perm=[0, 2, 1]),
                                            node("MatMul", ["a", "t"], "y")], {"w": normal(16, 12), "v": normal(16, 12, seed=4)}, {"x": (7, 16)}, ("y",), stay=("MatMul", "Transpose"))
    yield "shared_weight", Odd([conv("x", "a"), node("MaxPool", ["x"], "m", kernel_shape=[2, 2], strides=[2, 2]), conv("m", "c"),
                                node("GlobalAveragePool", ["a"], "g"), node("GlobalAveragePool", ["c"], "h"), node("Add", ["g", "h"], "y")],
                               {"w": W, "b": B}, IMAGE, ("y",))
    yield "shared_bias_of_two_scales", Odd([conv("x", "a"), node("Relu", ["a"], "r"), conv("r", "y", "w2", "b")], {"w": W, "b": B, "w2": W2}, IMAGE, ("y",))
    yield "weight_through_constant_node", Odd([helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(W)), conv("x", "y", b=None)],
                                              {}, IMAGE, ("y",))
    yield "weight_through_identity", Odd([node("Identity", ["w0"], "w"), conv("x", "y")], {"w0": W, "b": B}, IMAGE, ("y",))
    yield "dead_branch", Odd([conv("x", "a"), node("Relu", ["a"], "y"), node("Sigmoid", ["a"], "unused")], {"w": W, "b": B}, IMAGE, ("y",))
    yield "identity_and_dropout", Odd([conv("x", "a"), node("Dropout", ["a"], "d"), node("Identity", ["d"], "i"), conv("i", "y", "w2", "b2")],
                                      {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("y",))
    yield "input_is_output_too", Odd([conv("x", "y"), node("Identity", ["x"], "same")], {"w": W, "b": B}, IMAGE, ("y", "same"))
    yield "batch_norm_first", Odd([node("BatchNormalization", ["x", "s", "o", "m", "v"], "n"), conv("n", "y")],
                                  {"w": W, "b": B, "s": normal(4) + 2, "o": normal(4), "m": normal(4, seed=8), "v": np.abs(normal(4, seed=9)) + 1}, IMAGE,
                                  ("y",))
    yield "residual_through_pad", Odd([conv("x", "a"), node("Relu", ["a"], "r"), conv("r", "c", "w2", "b2"), node("Pad", ["x", "pads", "zero"], "p"),
                                       node("Add", ["c", "p"], "s"), node("Relu", ["s"], "y")],
                                      {"w": W, "b": B, "w2": W2, "b2": B2, "pads": ints(0, 2, 0, 0, 0, 2, 0, 0), "zero": np.array(0, np.float32)}, IMAGE, ("y",))
    yield "sub_and_mul_by_constants", Odd([node("Sub", ["x", "mean"], "a"), node("Mul", ["a", "k"], "n"), conv("n", "y")],
                                          {"w": W, "b": B, "mean": normal(1, 4, 1, 1), "k": np.abs(normal(1, 4, 1, 1)) + 1}, IMAGE, ("y",), stay=("Sub", "Mul"))
    yield "channel_attention", Odd([conv("x", "a"), node("GlobalAveragePool", ["a"], "g"), conv("g", "e", "w2", None, pads=[0, 0, 0, 0]),
                                    node("Sigmoid", ["e"], "s"), node("Mul", ["a", "s"], "y")], {"w": W, "b": B, "w2": normal(8, 8, 1, 1)}, IMAGE, ("y",))
    yield "shuffle", Odd([conv("x", "a"), node("Reshape", ["a", "five"], "r"), node("Transpose", ["r"], "t", perm=[0, 2, 1, 3, 4]),
                          node("Reshape", ["t", "four"], "f"), node("Split", ["f", "halves"], ["l", "h"], axis=1), node("Add", ["l", "h"], "s"),
                          conv("s", "y", "w2", None)],
                         {"w": W, "b": B, "five": ints(0, 2, 4, 12, 12), "four": ints(0, 8, 12, 12), "halves": ints(4, 4), "w2": normal(6, 4, 3, 3)}, IMAGE, ("y",))
    yield "space_to_depth_and_back", Odd([conv("x", "a"), node("SpaceToDepth", ["a"], "s", blocksize=2), conv("s", "c", "w2", None),
                                          node("DepthToSpace", ["c"], "y", blocksize=2)], {"w": W, "b": B, "w2": normal(16, 32, 3, 3)}, IMAGE, ("y",))
    yield "average_pool_with_pads", Odd([conv("x", "a"), node("AveragePool", ["a"], "p", kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2]),
                                         conv("p", "y", "w2", "b2")], {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("y",))
    yield "mean_over_space", Odd([conv("x", "a"), node("ReduceMean", ["a"], "m", axes=[2, 3], keepdims=0), node("Gemm", ["m", "w2"], "y")],
                                 {"w": W, "b": B, "w2": normal(8, 5)}, IMAGE, ("y",))
    for opset, ir in ((7, 3), (8, 3), (9, 4), (10, 5), (11, 6), (12, 7), (13, 7), (17, 8), (21, 10), (22, 10)):
        yield f"opset_{opset}", Odd([conv("x", "a"), node("Relu", ["a"], "r"), node("MaxPool", ["r"], "m", kernel_shape=[2, 2], strides=[2, 2]),
                                     conv("m", "c", "w2", "b2"), node("Add", ["m", "c"], "s"), node("GlobalAveragePool", ["s"], "g"),
                                     node("Flatten", ["g"], "f"), node("Gemm", ["f", "w3", "b3"], "y", transB=1)],
                                    {"w": W, "b": B, "w2": W2, "b2": B2, "w3": normal(5, 8), "b3": normal(5)}, IMAGE, ("y",), opset=opset, ir=ir,
                                    integer={"QLinearConv": 2, "QLinearAdd": 1, "QGemm": 1})
    for opset, ir, axes in ((8, 3, {"axes": [2, 3]}), (12, 7, {"axes": [2, 3]}), (21, 10, None)):
        squeeze = node("Squeeze", ["g"], "f", **axes) if axes else node("Squeeze", ["g", "axes"], "f")
        yield f"squeeze_of_opset_{opset}", Odd([conv("x", "a"), node("GlobalAveragePool", ["a"], "g"), squeeze, node("Gemm", ["f", "w2"], "y") if opset >= 11
                                                else node("Gemm", ["f", "w2", "b2"], "y")],
                                               {"w": W, "b": B, "w2": normal(8, 5), **({} if axes else {"axes": ints(2, 3)}), **({"b2": normal(5)} if opset < 11 else {})},
                                               IMAGE, ("y",), opset=opset, ir=ir)
    yield "clip_and_dropout_of_opset_9", Odd([conv("x", "a"), node("Clip", ["a"], "c", min=0.0, max=6.0), node("Dropout", ["c"], "d", ratio=0.5),
                                              conv("d", "y", "w2", "b2")], {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("y",), opset=9, ir=4)
    yield "pad_and_slice_of_opset_9", Odd([conv("x", "a"), node("Pad", ["a"], "p", pads=[0, 0, 1, 1, 0, 0, 1, 1], value=0.0),
                                           node("Slice", ["p"], "s", axes=[2, 3], starts=[1, 0], ends=[11, 12]), conv("s", "y", "w2", "b2")],
                                          {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("y",), opset=9, ir=4)
    yield "weights_as_inputs", Odd([conv("x", "a"), node("Relu", ["a"], "r"), conv("r", "y", "w2", "b2")],
                                   {"w": W, "b": B, "w2": W2, "b2": B2}, IMAGE, ("y",), opset=9, ir=3)


ODD = dict(odd_models())


def build(odd):
    if odd.named:
        for i, n in enumerate(odd.nodes):
            n.name = f"{n.op_type.lower()}_{i}"
    value = lambda n, shape: helper.make_tensor_value_info(n, TensorProto.FLOAT, [odd.batch, *shape])
    inputs = [value(n, s) for n, s in odd.inputs.items()]
    weights = [numpy_helper.from_array(w, n) for n, w in odd.weights.items()]
    if odd.ir < 4:  # every initializer is an input as well, so that it could be overridden
        inputs += [helper.make_tensor_value_info(t.name, t.data_type, list(t.dims)) for t in weights]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in odd.outputs]
    graph = helper.make_graph(odd.nodes, "odd", inputs, outputs, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", odd.opset)], ir_version=odd.ir)
    few = {n: v[:odd.batch if isinstance(odd.batch, int) else 1] for n, v in feeds_of(odd).items()}
    for o, v in zip(graph.output, session(model.SerializeToString()).run(None, few)):
        o.CopyFrom(value(o.name, v.shape[1:]))
    model.graph.CopyFrom(graph)
    onnx.checker.check_model(model)
    return model


def feeds_of(odd):
    rng = np.random.default_rng(7)
    return {n: rng.normal(size=(SAMPLES, *s)).astype(np.float32) for n, s in odd.inputs.items()}


def reference_of(path, feeds, batch):
    """Float outputs on all samples, in ONNX Runtime."""
    s = session(path)
    step = batch if isinstance(batch, int) else SAMPLES
    parts = [s.run(None, {n: v[i:i + step] for n, v in feeds.items()}) for i in range(0, SAMPLES, step)]
    return [np.concatenate(p) for p in zip(*parts)]


@pytest.fixture
def quantized(qcalib, tmp_path):
    """quantized(odd, OPTION...): report, feeds; the files are odd.onnx and odd.int8.onnx."""

    def run(odd, *more, save=None):
        feeds = feeds_of(odd)
        (save or onnx.save)(build(odd), str(tmp_path / "odd.onnx"))
        with h5py.File(tmp_path / "odd.h5", "w") as f:
            for n, v in feeds.items():
                f[n] = v
        return qcalib("--data", "odd.h5", "odd.onnx", "--json", "--no-report", *more).json, feeds

    return run


@pytest.mark.parametrize("name", ODD)
def test_odd_model(name, quantized, onnxruntime, tmp_path):
    odd = ODD[name]
    report, feeds = quantized(odd, "--prefer", "integers")
    path = tmp_path / "odd.int8.onnx"
    reference = reference_of(tmp_path / "odd.onnx", feeds, odd.batch)
    if onnxruntime.name != "1.16" or odd.opset <= 19:  # the old one refuses newer opsets, in float as well
        outputs, said = onnxruntime.run(path, feeds, tmp_path)
        assert said == ""
        assert list(outputs) == list(odd.outputs)
        found = sqnr(reference, outputs.values())
        assert min(found) > odd.decibels, found
    check_file(path)
    g = QuantizedGraph(path)
    check_names(g)
    check_pairs(g)
    left = {f["op"] for f in report["float_ops"]}
    assert left == set(odd.stay), report["float_ops"]
    for n in g.of(*HEAVY):
        assert n.op_type in odd.stay or g.dequantize(n.input[0]) is not None and g.dequantize(n.input[1]) is not None, n.name
    check_kept(g, tmp_path / "odd.onnx", upgraded_to=max(odd.opset, odd.exported_opset))
    if odd.integer:
        session(path, optimized=tmp_path / "optimized.onnx")
        after = QuantizedGraph(tmp_path / "optimized.onnx").count()
        assert {op: after[op] for op in odd.integer} == odd.integer, after


@pytest.mark.parametrize("inside", (True, False), ids=["one file", "a file each"])
def test_external_data(inside, quantized, tmp_path):
    odd = ODD["opset_13"]

    def save(model, path):
        onnx.save(model, path, save_as_external_data=True, all_tensors_to_one_file=inside, location="weights.bin" if inside else None, size_threshold=16)

    _, feeds = quantized(odd, "-o", "external.onnx", save=save)
    assert any(p.suffix == ".bin" or p.name in odd.weights for p in tmp_path.iterdir())
    quantized(odd, "-o", "inline.onnx")
    a, b = (onnx.load(tmp_path / f"{n}.onnx") for n in ("external", "inline"))
    for t in a.graph.initializer:
        t.ClearField("data_location")  # said of the file that was read
    assert a.graph == b.graph
    reference = reference_of(tmp_path / "odd.onnx", feeds, odd.batch)
    assert sqnr(reference, infer(tmp_path / "external.onnx", feeds["x"])[0])[0] > 20


def test_fixed_batch_drops_what_is_left_over(qcalib, tmp_path):
    """A batch of 4 and 10 samples: two are left over, and a warning says so."""
    odd = ODD["fixed_batch"]
    onnx.save(build(odd), str(tmp_path / "odd.onnx"))
    with h5py.File(tmp_path / "odd.h5", "w") as f:
        f["x"] = feeds_of(odd)["x"][:10]
    done = qcalib("--data", "odd.h5", "odd.onnx", "--json")
    assert done.json["data"]["samples"] == 8 and done.json["data"]["samples_dropped"] == 2
    assert "2 of 10 samples" in done.err and done.json["warnings"]


@pytest.mark.integers
@pytest.mark.parametrize("method", ("minmax", "percentile", "mse", "kl"))
@pytest.mark.parametrize("what", ("zeros", "constant", "tiny", "huge", "one sample"))
def test_odd_data(what, method, qcalib, tmp_path, onnxruntime):
    """Ranges of width zero, and at the ends of float32: finite scales, and a graph that runs."""
    odd = ODD["opset_13"]
    onnx.save(build(odd), str(tmp_path / "odd.onnx"))
    x = feeds_of(odd)["x"]
    x = {"zeros": 0 * x, "constant": 0 * x + np.float32(0.7), "tiny": x * np.float32(1e-30), "huge": x * np.float32(1e30), "one sample": x[:1]}[what]
    with h5py.File(tmp_path / "odd.h5", "w") as f:
        f["x"] = x
    report = qcalib("--data", "odd.h5", "odd.onnx", "--json", "--no-report", "--method", method).json
    scales = np.concatenate([np.atleast_1d(l["scale"]) for l in report["layers"]]).astype(np.float32)
    assert np.all(np.isfinite(scales)) and np.all(scales >= np.finfo(np.float32).tiny)
    outputs, said = onnxruntime.run(tmp_path / "odd.int8.onnx", {"x": x}, tmp_path)
    assert said == "" and np.all(np.isfinite(outputs["y"]))
