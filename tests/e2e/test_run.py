# SPDX-License-Identifier: Apache-2.0
"""qcalib run against ONNX Runtime: real models on real data, and the shipped example."""

import dataclasses
import sys

import avx2_runtime
import h5py
import numpy
import onnx
import pytest
from conftest import Runtime
from real_models import CASES, QUANTIZED, inputs
from onnx import TensorProto, helper


def by_name(path):
    """{output: array}: each data set has the output's exact name as an attribute."""
    found = {}

    def visit(_, item):
        if isinstance(item, h5py.Dataset):
            found[item.attrs["name"].decode()] = item[()]

    with h5py.File(path) as file:
        file.visititems(visit)
    return found


def reference(model, feeds, folder):
    outputs, _ = Runtime("newest", sys.executable).run(model, feeds, folder)
    return outputs


def shorter(case, **how):
    return dataclasses.replace(case, samples=avx2_runtime.samples(case.samples, **how))


def arguments(case, data):
    extra = ["--preprocess", case.preprocess] if case.preprocess else []
    return [data / f"models/{case.model}.onnx", "--data", data / case.data, "--samples", case.samples, *extra]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.model)
def test_fp32_equals_onnx_runtime(case, qcalib, data, tmp_path):
    case = shorter(case, less=128)
    done = qcalib("run", *arguments(case, data), "-o", "out.h5")
    assert done.new_files == ["out.h5"] and len(done.out.splitlines()) <= 15 and done.err == ""
    ours = by_name(tmp_path / "out.h5")
    theirs = reference(data / f"models/{case.model}.onnx", inputs(case, data), tmp_path)
    assert sorted(ours) == sorted(theirs)
    for name, expected in theirs.items():
        got = ours[name]
        assert got.shape == expected.shape and got.dtype == expected.dtype, name
        error = numpy.abs(got - expected).max() / numpy.abs(expected).max()
        assert error <= case.tolerance, f"{name}: relative error {error:.2e}"
        if expected.ndim == 2:
            assert (got.argmax(1) == expected.argmax(1)).all(), f"{name}: another top-1"


@pytest.mark.parametrize("case", QUANTIZED, ids=lambda c: c.model)
def test_qdq_model_equals_onnx_runtime(case, qcalib, data, tmp_path):
    """Bit for bit, where ONNX Runtime fuses all: by default it leaves some convolutions of int8 values in float
    (docs/decisions/0006-forms-differ-where-onnxruntime-leaves-floats.md). With that setting it does not shift int8 data to
    uint8, and its kernels are exact without VNNI, too."""
    case = shorter(case)
    qcalib("run", *arguments(case, data), "--rounding", "onnx", "-o", "out.h5")
    path = data / f"models/{case.model}.onnx"
    theirs, _ = Runtime("newest", sys.executable).run(path, inputs(case, data), tmp_path, "session.qdqisint8allowed=1")
    for name, expected in theirs.items():
        assert (by_name(tmp_path / "out.h5")[name] == expected).all(), name


def test_example_equals_onnx_runtime(qcalib, examples, tmp_path):
    qcalib("run", examples / "digits_cnn.onnx", "--data", examples / "digits_test.h5", "-o", "out.h5")
    with h5py.File(examples / "digits_test.h5") as file:
        name = next(n for n in file if n not in ("labels", "target"))
        values = file[name][()].astype(numpy.float32)
        attrs = file[name].attrs
        one = (1, -1) + (1,) * (values.ndim - 2)
        values = values * numpy.asarray(attrs.get("scale", 1), numpy.float32).reshape(one)
        values = values - numpy.asarray(attrs.get("mean", 0), numpy.float32).reshape(one)
        values = values / numpy.asarray(attrs.get("std", 1), numpy.float32).reshape(one)
    theirs = reference(examples / "digits_cnn.onnx", {name: values}, tmp_path)
    ours = by_name(tmp_path / "out.h5")
    for output, expected in theirs.items():
        assert numpy.abs(ours[output] - expected).max() <= 1e-4 * numpy.abs(expected).max()
        assert (ours[output].argmax(1) == expected.argmax(1)).all()


def two_outputs(path):
    """(a, b: [N,4]) -> sum: [N,4], and the int64 position of the largest: [N]."""
    a, b = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 4]) for n in "ab")
    outputs = [
        helper.make_tensor_value_info("layer/sum", TensorProto.FLOAT, ["N", 4]),
        helper.make_tensor_value_info("best", TensorProto.INT64, ["N"]),
    ]
    nodes = [
        helper.make_node("Add", ["a", "b"], ["layer/sum"]),
        helper.make_node("ArgMax", ["layer/sum"], ["best"], axis=1, keepdims=0),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [a, b], outputs), opset_imports=[helper.make_opsetid("", 13)], ir_version=7
    )
    onnx.save(model, path)


@pytest.fixture
def pair(tmp_path):
    two_outputs(tmp_path / "two.onnx")
    rng = numpy.random.default_rng(7)
    a, b = rng.normal(size=(2, 37, 4)).astype(numpy.float32)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["a"], file["second"] = a, b
    return a, b


def test_several_inputs_and_outputs(qcalib, pair, tmp_path):
    a, b = pair
    done = qcalib("run", "two.onnx", "--data", "in.h5", "--input", "b=second", "-o", "out.h5", "--json")
    outputs = by_name(tmp_path / "out.h5")
    assert (outputs["layer/sum"] == a + b).all() and (outputs["best"] == (a + b).argmax(1)).all()
    assert outputs["best"].dtype == numpy.int64
    assert [(o["name"], o["shape"], o["type"]) for o in done.json["outputs"]] == [
        ("layer/sum", [37, 4], "f32"),
        ("best", [37], "i64"),
    ]
    with h5py.File(tmp_path / "out.h5") as file:
        assert all(o["dataset"].strip("/") in file for o in done.json["outputs"])
    assert done.json["data"]["samples"] == 37 and done.json["file"] == "out.h5" and done.json["warnings"] == []


@pytest.mark.parametrize("extra", [["--threads", "1"], ["--threads", "2"], ["--threads=2", "--memory-limit", "1G"]])
def test_bytes_do_not_depend_on_threads(extra, qcalib, pair, tmp_path):
    qcalib("run", "two.onnx", "--data", "in.h5", "--input", "b=second", "-o", "one.h5", "--threads", "1")
    qcalib("run", "two.onnx", "--data", "in.h5", "--input", "b=second", "-o", "other.h5", *extra)
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "other.h5").read_bytes()


def test_outputs_are_compressed_on_request(qcalib, pair, tmp_path):
    common = ["run", "two.onnx", "--data", "in.h5", "--input", "b=second"]
    qcalib(*common, "-o", "plain.h5")
    qcalib(*common, "-o", "packed.h5", "--compress")
    plain, packed = by_name(tmp_path / "plain.h5"), by_name(tmp_path / "packed.h5")
    assert plain.keys() == packed.keys() and all((plain[k] == packed[k]).all() for k in plain)
    with h5py.File(tmp_path / "plain.h5") as one, h5py.File(tmp_path / "packed.h5") as other:
        assert one["layer/sum"].compression is None and other["layer/sum"].compression == "gzip"


def test_samples_and_seed(qcalib, pair, tmp_path):
    a, b = pair
    common = ["run", "two.onnx", "--data", "in.h5", "--input=b=second", "--samples", "10", "-q"]
    assert qcalib(*common, "-o", "even.h5").out == ""
    even = [j * 37 // 10 for j in range(10)]
    assert (by_name(tmp_path / "even.h5")["layer/sum"] == (a + b)[even]).all()
    qcalib(*common, "-o", "s1.h5", "--seed", "1")
    qcalib(*common, "-o", "s1again.h5", "--seed", "1")
    qcalib(*common, "-o", "s2.h5", "--seed", "2")
    one, again, two = (by_name(tmp_path / f)["layer/sum"] for f in ("s1.h5", "s1again.h5", "s2.h5"))
    assert (one == again).all() and not (one == two).all() and len(one) == 10


def test_left_over_samples_are_a_warning(qcalib, tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), tmp_path / "four.onnx"
    )
    values = numpy.linspace(-1, 1, 30, dtype=numpy.float32).reshape(10, 3)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["x"] = values
    done = qcalib("run", "four.onnx", "--data", "in.h5", "-o", "out.h5")
    assert done.err.splitlines() == ["qcalib: warning: in.h5: 2 of 10 samples left over: the model takes 4 at a time"]
    assert (by_name(tmp_path / "out.h5")["y"] == numpy.maximum(values[:8], 0)).all()


def test_an_earlier_file_is_replaced_at_the_end_only(qcalib, pair, tmp_path):
    (tmp_path / "out.h5").write_bytes(b"earlier")
    qcalib("run", "two.onnx", "--data", "in.h5", "-o", "out.h5", code=3)  # `b` has no data set
    assert (tmp_path / "out.h5").read_bytes() == b"earlier"
    qcalib("run", "two.onnx", "--data", "in.h5", "--input", "b=second", "-o", "out.h5")
    assert set(by_name(tmp_path / "out.h5")) == {"layer/sum", "best"}


def test_progress_only_where_asked(qcalib, pair):
    common = ["run", "two.onnx", "--data", "in.h5", "--input", "b=second", "-o", "out.h5"]
    assert qcalib(*common).err == "" and qcalib(*common, "--progress", "never").err == ""
    assert "37/37" in qcalib(*common, "--progress=always").err
