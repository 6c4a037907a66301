# SPDX-License-Identifier: Apache-2.0
"""qcalib convert, and both forms of a quantized model, in ONNX Runtime and in qcalib run. Reference: ONNX Runtime on
the other form."""

import dataclasses
import sys

import avx2_runtime
import numpy
import onnx
import pytest
from conftest import Runtime
from onnx import TensorProto, helper, numpy_helper
from real_models import CASES, QUANTIZED, inputs
from test_run import by_name

CALIBRATION = {
    "cifar10_test.h5": "cifar10_calib.h5",
    "kws01_eval872.h5": "kws01_calib128.h5",
    "imagenet_eval256_224.h5": "imagenet_calib100_224.h5",
    "mnist_eval9744.h5": "mnist_calib256.h5",
    "agnews_eval1600.h5": "agnews_calib256.h5",
}
SAMPLES = {"mobilenetv1_075_224_imagenet": 16, "superres_pytorch": 2, "rfb320_face_simplified": 4}


def few(case):
    return dataclasses.replace(case, samples=avx2_runtime.samples(min(case.samples, SAMPLES.get(case.model, 64))))


def quantize(case, qcalib, data, *more):
    """Both forms: MODEL.int8.onnx, MODEL.qoperator.onnx."""
    extra = ["--preprocess", case.preprocess] if case.preprocess else []
    qcalib(
        "quantize",
        data / f"models/{case.model}.onnx",
        "--data",
        data / CALIBRATION.get(case.data, case.data),
        "--samples",
        16,
        "--format",
        "qdq,qoperator",
        "--no-report",
        *extra,
        *more,
    )
    return f"{case.model}.int8.onnx", f"{case.model}.qoperator.onnx"


def equal(first, second):
    """Names and bytes of the outputs."""
    assert sorted(first) == sorted(second)
    for name, expected in first.items():
        different = int((expected != second[name]).sum())
        assert (
            different == 0
        ), f"{name}: {different} of {expected.size} differ, by up to {numpy.abs(expected - second[name]).max()}"


def ops(path):
    return sorted(n.op_type for n in onnx.load(path).graph.node)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.model)
def test_both_forms_are_one_model(case, qcalib, data, tmp_path, onnxruntime):
    case = few(case)
    feeds = inputs(case, data)
    qdq, qoperator = quantize(case, qcalib, data, "--method", "minmax")
    expected, said = onnxruntime.run(tmp_path / qdq, feeds, tmp_path)
    assert said == ""
    for source, form, result in (
        (qdq, "qoperator", "a.onnx"),
        (qoperator, "qdq", "b.onnx"),
        (qdq, "qdq", "c.onnx"),
        (qoperator, "qoperator", "d.onnx"),
    ):
        done = qcalib("convert", source, "--format", form, "-o", result)
        assert done.new_files == [result] and done.err == ""
    for name in (qoperator, "a.onnx", "b.onnx", "c.onnx", "d.onnx"):
        outputs, said = onnxruntime.run(tmp_path / name, feeds, tmp_path)
        assert said == "", name
        equal(expected, outputs)
    assert ops(tmp_path / "c.onnx") == ops(tmp_path / "b.onnx")
    assert ops(tmp_path / "a.onnx") == ops(tmp_path / "d.onnx")


@pytest.mark.parametrize("case", QUANTIZED, ids=lambda c: c.model)
def test_tensorflow_models_convert(case, qcalib, data, tmp_path):
    case = few(case)
    feeds = inputs(case, data)
    path = data / f"models/{case.model}.onnx"
    expected, _ = Runtime("newest", sys.executable).run(path, feeds, tmp_path)
    done = qcalib("convert", path, "-o", "qdq.onnx", "--json")
    assert done.json["float_ops"] == 0 and done.json["notes"] == [] and done.json["files"] == ["qdq.onnx"]
    outputs, said = Runtime("newest", sys.executable).run(tmp_path / "qdq.onnx", feeds, tmp_path)
    assert said == ""
    equal(expected, outputs)
    qcalib("convert", path, "--format", "qoperator", "-o", "qoperator.onnx")
    assert not {"Conv", "Gemm", "MatMul", "Add"} & set(ops(tmp_path / "qoperator.onnx"))


def small_qdq(path, bias_scale):
    """x: [N,3,8,8] -> conv with an int32 bias of the given scale -> y."""
    rng = numpy.random.default_rng(3)
    arrays = {
        "s": numpy.float32(0.02),
        "z": numpy.uint8(128),
        "w": rng.integers(-64, 65, (4, 3, 3, 3)).astype(numpy.int8),  # no pair of products leaves 16 bits
        "ws": numpy.float32(0.01),
        "wz": numpy.int8(0),
        "b": rng.integers(-900, 900, 4).astype(numpy.int32),
        "bs": bias_scale,
        "ys": numpy.float32(0.1),
        "yz": numpy.uint8(0),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"]),
        helper.make_node("DequantizeLinear", ["b", "bs"], ["bd"]),
        helper.make_node("Conv", ["xd", "wd", "bd"], ["c"], name="conv"),
        helper.make_node("QuantizeLinear", ["c", "ys", "yz"], ["cq"]),
        helper.make_node("DequantizeLinear", ["cq", "ys", "yz"], ["y"]),
    ]
    ports = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)]
        for n, shape in (("x", ["N", 3, 8, 8]), ("y", ["N", 4, 6, 6]))
    ]
    graph = helper.make_graph(
        nodes, "g", *ports, [numpy_helper.from_array(numpy.asarray(v), k) for k, v in arrays.items()]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)


def test_a_bias_that_does_not_fit_stays_float_and_is_named(qcalib, tmp_path):
    x = numpy.random.default_rng(1).normal(size=(4, 3, 8, 8)).astype(numpy.float32)
    fitting = numpy.float32(0.02) * numpy.float32(0.01)
    for name, scale, notes in (("fits", fitting, 0), ("other", numpy.float32(3 * fitting), 1)):
        small_qdq(tmp_path / f"{name}.onnx", scale)
        done = qcalib("convert", f"{name}.onnx", "--format", "qoperator", "-o", f"{name}.q.onnx", "--json")
        assert len(done.json["notes"]) == notes and ("QLinearConv" in ops(tmp_path / f"{name}.q.onnx")) == (notes == 0)
        if notes:
            assert "'conv' (Conv): its bias is added in float" in done.json["notes"][0]
        # ONNX Runtime takes any int32 bias for one of the accumulator, so the meaning of the file is what it computes unfused: float32 operators.
        reference = numpy.clip(numpy.rint(conv(tmp_path / f"{name}.onnx", x) / numpy.float32(0.1)), 0, 255)
        outputs, _ = Runtime("newest", sys.executable).run(tmp_path / f"{name}.q.onnx", {"x": x}, tmp_path)
        steps = numpy.abs(outputs["y"] / numpy.float32(0.1) - reference)
        assert steps.max() < 1.01 and (steps > 0.01).mean() < 0.001


def conv(path, x):
    """The convolution of small_qdq in float64."""
    arrays = {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}
    q = numpy.clip(numpy.rint(x / arrays["s"]) + 128, 0, 255) - 128.0
    windows = numpy.lib.stride_tricks.sliding_window_view(q, (3, 3), axis=(2, 3))
    acc = numpy.einsum("nchwij,mcij->nmhw", windows, arrays["w"].astype(float))
    return acc * (float(arrays["s"]) * float(arrays["ws"])) + (arrays["b"] * float(arrays["bs"]))[None, :, None, None]


def test_what_is_not_quantized_is_refused(qcalib, examples, tmp_path):
    done = qcalib("convert", examples / "digits_cnn.onnx", "-o", "out.onnx", code=4)
    assert "is not quantized" in done.err and done.new_files == []


def test_two_formats_do_not_fit_one_file(qcalib, tmp_path):
    small_qdq(tmp_path / "m.onnx", numpy.float32(0.02) * numpy.float32(0.01))
    assert (
        "--format asks for 2" in qcalib("convert", "m.onnx", "--format", "qdq,qoperator", "-o", "out.onnx", code=2).err
    )
    assert qcalib("convert", "m.onnx", "--format", "qdq,qoperator").new_files == ["m.int8.onnx", "m.qoperator.onnx"]


def test_the_name_drops_the_form_of_the_source(qcalib, tmp_path):
    """As quantize names files: m.int8.onnx, m.qoperator.onnx. What would overwrite the source is refused."""
    small_qdq(tmp_path / "m.int4.onnx", numpy.float32(0.02) * numpy.float32(0.01))
    assert qcalib("convert", "m.int4.onnx", "--format", "qoperator,text").new_files == ["m.int4.txt", "m.qoperator.onnx"]
    assert qcalib("convert", "m.qoperator.onnx").new_files == ["m.int8.onnx"]
    assert "name another file" in qcalib("convert", "m.int8.onnx", code=2).err
    assert qcalib("convert", "m.int8.onnx", "-o", "again.onnx").new_files == ["again.onnx"]


def test_dumps_parse_back_as_text(qcalib, tmp_path):
    small_qdq(tmp_path / "m.onnx", numpy.float32(0.02) * numpy.float32(0.01))
    qcalib("convert", "m.onnx", "-o", "out.onnx", "--dump", "canonical=c.txt", "--dump", "realise=r.txt")
    assert "Requantize" not in (tmp_path / "c.txt").read_text() and "Requantize" in (tmp_path / "r.txt").read_text()
    assert "convert has the passes" in qcalib("convert", "m.onnx", "-o", "out.onnx", "--dump", "fold", code=2).err
