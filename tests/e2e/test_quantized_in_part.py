# SPDX-License-Identifier: Apache-2.0
"""Models that are partly quantized or were trained with quantization: existing parameters are kept, the rest is
calibrated."""

import h5py
import measured_models
import numpy as np
import onnx
import pytest
from measured_models import session
from onnx import TensorProto, helper, numpy_helper

from quantized_graph import QuantizedGraph

SAMPLES = 48
RNG = np.random.default_rng(7)


def normal(*shape):
    return (RNG.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


class Model:
    """Nodes with pairs of QuantizeLinear and DequantizeLinear where they are asked for."""

    def __init__(self):
        self.nodes, self.weights, self.given = [], {}, {}

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"n_{output}", **attributes))
        return output

    def linear(self, op, x, name, scale, zero, **attributes):
        self.weights.update({f"{name}_scale": np.float32(scale), f"{name}_zero": zero})
        return self.node(op, [x, f"{name}_scale", f"{name}_zero"], f"{name}_{op[0]}", **attributes)

    def pair(self, x, scale, zero, **attributes):
        """Fake quantization, as training with quantization exports it."""
        self.given[x] = (np.float32(scale), zero)
        self.linear("QuantizeLinear", x, x, scale, zero, **attributes)
        return self.linear("DequantizeLinear", f"{x}_Q", x, scale, zero, **attributes)

    def save(self, path, outputs, shape=("N", 4, 8, 8)):
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        outputs = [helper.make_tensor_value_info(o, TensorProto.FLOAT, s) for o, s in outputs]
        graph = helper.make_graph(
            self.nodes,
            "g",
            inputs,
            outputs,
            [numpy_helper.from_array(np.asarray(v), n) for n, v in self.weights.items()],
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def samples(folder):
    x = np.random.default_rng(3).normal(size=(SAMPLES, 4, 8, 8)).astype(np.float32)
    with h5py.File(folder / "calib.h5", "w") as f:
        f["x"] = x
    return x


def integers(w, axis, dtype=np.int8):
    around = tuple(i for i in range(w.ndim) if i != axis)
    scale = (np.abs(w).max(around) / 100).astype(np.float32)  # no scale that qcalib would choose
    shape = [-1 if i == axis else 1 for i in range(w.ndim)]
    return np.round(w / scale.reshape(shape)).astype(dtype), scale


def half(path):
    """The first convolution is quantized, the second and the classifier are not."""
    m = Model()
    w, scale = integers(normal(8, 4, 3, 3), 0)
    m.weights.update({"w": w, "b": normal(8), "w2": normal(8, 8, 3, 3), "fc": normal(10, 8)})
    x = m.pair("x", 0.031, np.uint8(127))
    read = m.linear("DequantizeLinear", "w", "w", scale, np.zeros(8, np.int8), axis=0)
    m.node("Relu", [m.node("Conv", [x, read, "b"], "c", pads=[1] * 4)], "r")
    r = m.pair("r", 0.0217, np.uint8(0))
    m.node("Relu", [m.node("Conv", [r, "w2"], "c2", pads=[1] * 4)], "r2")
    m.node("Gemm", [m.node("Flatten", [m.node("GlobalAveragePool", ["r2"], "mean")], "flat"), "fc"], "y", transB=1)
    m.save(path, [("y", ["N", 10])])
    return w, scale


def parameters(graph, name):
    """Scale and zero point of the quantizer of a value, by the names that they are written under."""
    return graph.value(f"{name}_scale"), graph.value(f"{name}_zero_point")


def test_what_is_there_is_kept(qcalib, tmp_path):
    w, scale = half(tmp_path / "model.onnx")
    x = samples(tmp_path)
    out = qcalib("--data", "calib.h5", "model.onnx").out
    assert "kept        3 of 7 quantizers have the parameters of the model" in out
    graph = QuantizedGraph(tmp_path / "model.int8.onnx")
    assert parameters(graph, "x") == (np.float32(0.031), 127) and parameters(graph, "r") == (np.float32(0.0217), 0)
    conv = next(n for n in graph.of("Conv") if n.name == "n_c")
    weight = graph.dequantize(conv.input[1])
    assert np.array_equal(graph.value(weight.input[0]), w) and np.array_equal(graph.value(weight.input[1]), scale)
    assert all(
        graph.dequantize(n.input[0]) is not None and graph.dequantize(n.input[1]) is not None
        for n in graph.of("Conv", "Gemm")
    )
    before, after = (session(tmp_path / f).run(None, {"x": x})[0] for f in ("model.onnx", "model.int8.onnx"))
    assert measured_models.sqnr([before], [after])[0] > 30
    # the same from statistics
    qcalib("--data", "calib.h5", "model.onnx", "--method", "minmax")
    qcalib("collect", "--data", "calib.h5", "model.onnx", "-o", "s.h5", "--threads", "1")
    qcalib("quantize", "--stats", "s.h5", "model.onnx", "-o", "again.onnx", "--method", "minmax")
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "model.int8.onnx").read_bytes()


def test_all_of_it_is_quantized(qcalib, tmp_path):
    half(tmp_path / "model.onnx")
    samples(tmp_path)
    qcalib("--data", "calib.h5", "model.onnx")
    done = qcalib("--data", "calib.h5", "model.int8.onnx", code=4)
    assert "is quantized already, all 7 quantizers" in done.err and "qcalib convert" in done.err and not done.new_files


def trained(path):
    """As training with quantization exports a model: fake quantization of float weights, which a Transpose turns, and of values, int8; ranges differ
    around a clamp and on both sides of a residual addition. The last layer is left in float."""
    m = Model()
    w, b = normal(4, 4, 3, 3), normal(4)
    dense = normal(16, 256)
    _, scale = integers(w, 0)
    m.weights.update({"w": w, "b": b, "dense": dense, "last": normal(16, 10)})
    x = m.pair("x", 0.03, np.int8(-3))
    weight = m.pair("w", scale, np.zeros(4, np.int8), axis=0)
    c = m.pair(m.node("Conv", [x, weight, "b"], "c", pads=[1] * 4), 0.04, np.int8(5))
    r = m.pair(m.node("Relu", [c], "r"), 0.015, np.int8(-128))
    a = m.pair(m.node("Add", [r, x], "a"), 0.05, np.int8(-20))
    flat = m.node("Flatten", [a], "flat")
    turned = m.node("Transpose", [m.pair("dense", np.abs(dense).max() / 90, np.int8(0))], "turned", perm=[1, 0])
    h = m.pair(m.node("MatMul", [flat, turned], "h"), 0.025, np.int8(1))
    m.node("MatMul", [h, "last"], "y")
    m.save(path, [("y", ["N", 10])])
    return m


def test_trained_with_quantization(qcalib, tmp_path):
    m = trained(tmp_path / "model.onnx")
    x = samples(tmp_path)
    done = qcalib("--data", "calib.h5", "model.onnx", "--json")
    assert "are not kept" not in done.err and done.json["given"] == {"kept": 7, "quantizers": 8}
    graph = QuantizedGraph(tmp_path / "model.int8.onnx")
    for name in ("x", "r", "a", "h"):  # what c stores, r cuts: no requantize is left there
        assert parameters(graph, name) == m.given[name], name
    for node, weight in (("n_c", "w"), ("n_h", "dense")):
        read = graph.dequantize(next(n for n in graph.nodes if n.name == node).input[1])
        assert np.array_equal(graph.value(read.input[1]), np.float32(m.given[weight][0]))
    layers = {layer["name"]: layer for layer in done.json["layers"]}
    assert {n for n, layer in layers.items() if layer["method"] == "given"} >= {"x", "r", "a", "h", "turned"}
    assert {layer["type"] for layer in layers.values() if layer["name"] != "y"} == {"i8"}  # what is added too
    before, after = (session(tmp_path / f).run(None, {"x": x})[0] for f in ("model.onnx", "model.int8.onnx"))
    assert measured_models.sqnr([before], [after])[0] > 25
    assert "quantized in part" in qcalib("--data", "calib.h5", "model.onnx", "--equalize", "on", code=2).err


@pytest.mark.parametrize("name", ["resnet8_cifar10", "dscnn_kws"])
def test_models_of_tensorflow_are_quantized_already(qcalib, data, tmp_path, name):
    calib = {"resnet8_cifar10": "cifar10_calib", "dscnn_kws": "kws01_calib128"}[name]
    done = qcalib("--data", data / f"{calib}.h5", data / f"models/{name}_mlperf_tfint8_qdq.onnx", code=4)
    assert "is quantized already, all" in done.err and "qcalib convert" in done.err


def node_names(path):
    return [n.name for n in onnx.load(path).graph.node if n.name]


@pytest.mark.parametrize(
    "first", [["--per-channel=activations,weights"], ["--skip", "dense*"]], ids=["channels of activations", "two layers"]
)
def test_a_job_on_the_result_of_another(first, qcalib, examples, tmp_path):
    """A relu that saturation has taken the place of belongs to the reference too, which is not called float."""
    common = ["--data", examples / "digits_calib.h5", "--eval", examples / "digits_test.h5", "--json"]
    one = qcalib(*common, *first, "-o", "one.onnx", examples / "digits_cnn.onnx").json
    again = [*first] if "--skip" not in first else []
    two = qcalib(*common, *again, "-o", "two.onnx", "one.onnx").json
    names = node_names(tmp_path / "two.onnx")
    assert len(names) == len(set(names))
    session(tmp_path / "two.onnx")
    assert one["accuracy"]["fp32"] > 0.95 and two["accuracy"]["fp32"] > 0.95 and two["accuracy"]["int8"] > 0.95
    assert "reference" not in one and two["reference"] == "quantized in part"
    said = qcalib(*common[:-1], *again, "-o", "two.onnx", "one.onnx").out
    accuracy = next(line for line in said.splitlines() if line.startswith("accuracy"))
    assert " % reference, " in accuracy and "float" not in accuracy
    assert "reference   the model without the rounding of " in said


@pytest.mark.parametrize("zero", [0, 100])
def test_a_quantizer_saturates_for_its_own_readers(zero, qcalib, tmp_path):
    """Another reader of the value got the saturated one: 5 dB. The range of a quantizer may be that of a Clip."""
    m = Model()
    m.weights.update(w=normal(8, 6), v=normal(8, 5))
    m.node("MatMul", [m.pair("x", 0.005, np.uint8(zero)), m.pair("w", 0.01, np.int8(0))], "y")
    m.node("MatMul", ["x", "v"], "z")
    m.node("Tanh", ["x"], "t")
    m.save(tmp_path / "m.onnx", [("y", ["N", 6]), ("z", ["N", 5]), ("t", ["N", 8])], shape=["N", 8])
    x = np.random.default_rng(3).normal(size=(SAMPLES, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    qcalib("--data=x.npy", "--advice=off", "--no-report", "--prefer=integers", "m.onnx", "-o", "q.onnx")
    want, got = (session(tmp_path / f).run(["y", "z", "t"], {"x": x}) for f in ("m.onnx", "q.onnx"))
    for a, b in zip(want, got):
        assert 10 * np.log10((a**2).sum() / ((a - b) ** 2).sum()) > 35
