# SPDX-License-Identifier: Apache-2.0
"""qcalib check: judges quantized files. What ONNX Runtime fuses is read from the graph that it optimizes."""

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_quantize_odd import node, normal


class File:
    """A QDQ file, node by node."""

    def __init__(self):
        self.nodes, self.constants = [], []

    def constant(self, value, kind=np.float32):
        name = f"k{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def add(self, op, inputs, output, **attributes):
        self.nodes.append(node(op, inputs, output, name=output, **attributes))
        return output

    def pair(self, x, scale=0.02, zero=128, kind=np.uint8):
        """QuantizeLinear and DequantizeLinear of a value."""
        parameters = [self.constant(scale), self.constant(zero, kind)]
        self.add("QuantizeLinear", [x, *parameters], f"{x}_q")
        return self.add("DequantizeLinear", [f"{x}_q", *parameters], f"{x}_dq")

    def weight(self, shape, scale=0.01, levels=None, limit=60):
        """limit: pairs of such weights do not saturate on x86 without VNNI."""
        rng = np.random.default_rng(len(self.constants))
        levels = rng.integers(-limit, limit + 1, shape) if levels is None else levels
        q = self.constant(levels, np.int8)
        return self.add("DequantizeLinear", [q, self.constant(scale), self.constant(0, np.int8)], f"{q}_dq")

    def save(self, path, inputs, outputs):
        port = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        ports = [[port(n, s) for n, s in p.items()] for p in (inputs, outputs)]
        graph = helper.make_graph(self.nodes, "g", *ports, self.constants)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


IN, MIDDLE, OUT = {"x": [1, 3, 8, 8]}, [1, 8, 6, 6], {"y": [1, 4, 4, 4]}


def network(path, middle=True, weight=None, ends=("x", "b"), out=True, scales=(0.02, 0.03, 0.05), kind=np.uint8):
    """Two convolutions. middle: a pair between them; weight(f, shape): of the first one; ends: pairs at x."""
    f = File()
    zero = 128 if kind == np.uint8 else 0
    x = f.pair("x", scales[0], zero, kind) if "x" in ends else "x"
    a = f.add("Conv", [x, (weight or File.weight)(f, (8, 3, 3, 3))], "a")
    r = f.add("Relu", [a], "r")
    m = f.pair("r", scales[1], 0 if kind == np.uint8 else -128, kind) if middle else r
    b = f.add("Conv", [m, f.weight((4, 8, 3, 3))], "b" if out else "y")
    if out:
        f.add("Identity", [f.pair(b, scales[2], zero, kind)], "y")
    f.save(path, IN, OUT)
    return f


def check(qcalib, path="m.onnx", *options, code=None):
    result = qcalib("check", path, "--json", *options, code=code)
    assert result.code == (1 if result.json["findings"] else 0)
    return result.json


def kinds(found):
    return sorted({f["kind"] for f in found["findings"]})


def fused_by_onnxruntime(path, tmp_path):
    """Names of results that an integer operator of ONNX Runtime makes."""
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 3
    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    made = onnx.load(tmp_path / "optimized.onnx")
    return [n.op_type for n in made.graph.node if n.op_type in ("QLinearConv", "Conv", "FusedConv", "NhwcFusedConv")]


def test_nothing_to_find(qcalib, tmp_path):
    network(tmp_path / "m.onnx")
    assert fused_by_onnxruntime(tmp_path / "m.onnx", tmp_path) == ["QLinearConv"] * 2
    found = check(qcalib, code=0)
    assert not found["findings"] and found["integer_products"] == found["products"] == 2
    assert found["integer_share"] == 1 and found["latency"] > 0
    assert "found       nothing" in qcalib("check", "m.onnx", code=0).out


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_files_of_this_program(form, qcalib, examples, tmp_path):
    qcalib("--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx", "-o", "q.onnx", "--format", form, "--no-report")
    found = check(qcalib, "q.onnx", "--data", examples / "digits_test.h5", code=0)
    assert found["integer_products"] == found["products"] and found["samples"] == 597


CASES = {
    "no pair between": (dict(middle=False), ["Conv", "Conv"], 2),
    "input not quantized": (dict(ends=()), ["Conv", "QLinearConv"], 1),
    "float result": (dict(out=False), ["QLinearConv", "Conv"], 1),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_not_fused(case, qcalib, tmp_path):
    """The same convolutions stay in float in ONNX Runtime."""
    how, runs, count = CASES[case]
    network(tmp_path / "m.onnx", **how)
    seen = fused_by_onnxruntime(tmp_path / "m.onnx", tmp_path)
    assert [op if op == "QLinearConv" else "Conv" for op in seen] == runs
    found = check(qcalib, code=1)
    assert kinds(found) == ["fusion"] and len(found["findings"]) == count, found["findings"]
    assert found["integer_products"] == runs.count("QLinearConv")


def test_why(qcalib, tmp_path):
    network(tmp_path / "m.onnx", out=False)
    (f,) = check(qcalib, code=1)["findings"]
    assert f["name"] == "y" and "no QuantizeLinear is behind its result" in f["text"] and "'ort'" in f["text"]
    assert not check(qcalib, "m.onnx", "--target", "openvino", code=0)["findings"]  # its results may be float


def test_a_float_weight(qcalib, tmp_path):
    """ONNX Runtime from 1.20 on rounds it itself; other runtimes compute in float."""
    network(tmp_path / "m.onnx", weight=lambda f, s: f.constant(normal(*s)))
    for target in ("ort", "qnn"):
        (f,) = check(qcalib, "m.onnx", "--target", target, code=1)["findings"]
        assert f["kind"] == "fusion" and f["name"] == "a" and "is not quantized" in f["text"]
        assert ("rounds it" in f["text"] or "round it" in f["text"]) == (target == "ort")


@pytest.mark.parametrize("scale, text", [(0, "is 0"), (-0.02, "is -0.02"), (1e-40, "is 9.99995e-41"), (np.nan, "is nan"), (np.inf, "is inf")])
@pytest.mark.parametrize("place", [0, 1])
def test_scales(scale, text, place, qcalib, tmp_path):
    scales = [0.02, 0.03, 0.05]
    scales[place] = scale
    network(tmp_path / "m.onnx", scales=scales)
    (found,) = check(qcalib, code=1)["findings"]
    assert found["kind"] == "scale" and text in found["text"] and f"node '{'xr'[place]}_q'" in found["text"]


def test_weight_scale_of_a_channel(qcalib, tmp_path):
    f = File()
    q = f.constant(np.random.default_rng(1).integers(-60, 61, (8, 3, 3, 3)), np.int8)
    scales = np.full(8, 0.01)
    scales[5] = 0
    w = f.add("DequantizeLinear", [q, f.constant(scales), f.constant(np.zeros(8), np.int8)], "w", axis=0)
    a = f.add("Conv", [f.pair("x"), w], "a")
    f.add("Identity", [f.pair(a)], "y")
    f.save(tmp_path / "m.onnx", IN, {"y": MIDDLE})
    (found,) = check(qcalib, code=1)["findings"]
    assert found["kind"] == "scale" and "element 5 of scale" in found["text"]


def test_repeated_and_unused(qcalib, tmp_path):
    f = File()
    x = f.pair("x")
    parameters = f.nodes[-1].input[1:]
    again = f.add("DequantizeLinear", ["x_q", *parameters], "again")
    a = f.add("Conv", [x, f.weight((8, 3, 3, 3))], "a")
    b = f.add("Conv", [again, f.weight((8, 3, 3, 3))], "b")
    f.add("Relu", [a], "nobody")
    f.add("Concat", [f.pair(a), f.pair(b)], "y", axis=1)
    f.save(tmp_path / "m.onnx", IN, {"y": [1, 16, 6, 6]})
    found = check(qcalib, code=1)
    assert [(f["kind"], f["name"]) for f in found["findings"] if f["kind"] in ("repeated", "unused")] == [
        ("repeated", "again"),
        ("unused", "nobody"),
    ]


def test_pairs_of_products(qcalib, tmp_path):
    network(tmp_path / "m.onnx", weight=lambda f, s: f.weight(s, limit=127))
    found = check(qcalib, code=1)
    assert kinds(found) == ["saturation"] and "1 of 2 products" in found["findings"][0]["text"]
    assert not check(qcalib, "m.onnx", "--target", "qnn", code=0)["findings"]


def test_clipped_weights(qcalib, tmp_path):
    def weight(f, shape):
        levels = np.clip(np.rint(np.random.default_rng(2).normal(size=shape) * 100), -127, 127)
        return f.weight(shape, levels=levels)

    network(tmp_path / "m.onnx", weight=weight)
    texts = [f["text"] for f in check(qcalib, "m.onnx", "--target", "qnn", code=1)["findings"]]
    assert len(texts) == 1 and "of the weights are at the ends of their range" in texts[0]


def test_saturated_activations(qcalib, tmp_path):
    network(tmp_path / "m.onnx", scales=(0.004, 0.03, 0.5))
    x = np.random.default_rng(3).normal(size=(16, 3, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    found = check(qcalib, "m.onnx", "--data", "x.npz", code=1)
    (f,) = found["findings"]
    levels = np.rint(x / np.float32(0.004)) + 128
    share = 100 * max((levels < 0).mean(), (levels > 255).mean())
    assert f["kind"] == "saturation" and f["name"] == "x" and f"{share:.1f} % of its values" in f["text"]


def test_types_of_targets(qcalib, tmp_path):
    network(tmp_path / "m.onnx")
    for target in ("tflite", "tensorrt"):
        found = check(qcalib, "m.onnx", "--target", target, code=1)["findings"]
        assert {f["kind"] for f in found} >= {"type"} and all("int8" in f["text"] for f in found if f["kind"] == "type")
    network(tmp_path / "m.onnx", kind=np.int8)
    assert "type" not in kinds(check(qcalib, "m.onnx", "--target", "tflite"))
    found = check(qcalib, "m.onnx", "--target", "tensorrt", code=1)["findings"]
    assert any("zero point -128, and target 'tensorrt' takes 0" in f["text"] for f in found)


def test_a_bias_of_another_scale(qcalib, tmp_path):
    f = File()
    bias = f.constant(np.arange(8) * 100, np.int32)
    b = f.add("DequantizeLinear", [bias, f.constant(0.001), f.constant(0, np.int32)], "bias")
    a = f.add("Conv", [f.pair("x"), f.weight((8, 3, 3, 3)), b], "a")
    f.add("Identity", [f.pair(a)], "y")
    f.save(tmp_path / "m.onnx", IN, {"y": MIDDLE})
    found = check(qcalib, code=1)["findings"]
    assert [f["kind"] for f in found] == ["form"] and "bias" in found[0]["text"]


def test_float_models_are_refused(qcalib, examples):
    result = qcalib("check", examples / "digits_cnn.onnx", code=4)
    assert "is not quantized" in result.err


def test_files_of_onnxruntime(qcalib, tmp_path, examples):
    """Its quantizer leaves full-range weights, which saturate in pairs; everything is fused."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    x = np.random.default_rng(1).normal(size=(8, 1, 1, 8, 8)).astype(np.float32)

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.samples = iter([{"input": s} for s in x])

        def get_next(self):
            return next(self.samples, None)

    for form in (quantization.QuantFormat.QDQ, quantization.QuantFormat.QOperator):
        quantization.quantize_static(str(examples / "digits_cnn.onnx"), str(tmp_path / "q.onnx"), Reader(), quant_format=form)
        found = check(qcalib, "q.onnx")
        assert set(kinds(found)) <= {"saturation"} and found["integer_products"] == found["products"]
    quantization.quantize_dynamic(str(examples / "digits_cnn.onnx"), str(tmp_path / "q.onnx"))
    found = check(qcalib, "q.onnx")
    assert "fusion" not in kinds(found)
