# SPDX-License-Identifier: Apache-2.0
"""--activation-type dynamic, and jobs without data: the same bits as in ONNX Runtime, which fuses them to its own
operators."""

import csv
import json

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from quantized_graph import QuantizedGraph, check_file, check_names

WIDTH, HIDDEN, CLASSES, SAMPLES = 24, 40, 7, 6
X = (
    np.random.default_rng(5).normal(size=(SAMPLES, 3, WIDTH)).astype(np.float32)
    * np.geomspace(0.01, 100, SAMPLES, dtype=np.float32)[:, None, None]
)


def model():
    """Two products that read x, one behind them, and a Gemm: every float op between is exact, so that bits can be compared."""
    rng = np.random.default_rng(1)
    normal = lambda *shape: (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)
    weights = {
        "w1": normal(WIDTH, HIDDEN),
        "w2": normal(WIDTH, HIDDEN),
        "b1": normal(HIDDEN),
        "w3": normal(HIDDEN, WIDTH),
        "w4": normal(CLASSES, 3 * WIDTH),
        "b4": normal(CLASSES),
        "flat": np.array([-1, 3 * WIDTH], np.int64),
        "half": np.full(HIDDEN, 0.5, np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["m1"], "first"),
        helper.make_node("Add", ["m1", "b1"], ["a1"], "bias"),
        helper.make_node("MatMul", ["x", "w2"], ["m2"], "second"),
        helper.make_node("Relu", ["m2"], ["r"], "relu"),
        helper.make_node("Add", ["a1", "r"], ["s"], "sum"),
        helper.make_node("Mul", ["s", "half"], ["h"], "half"),
        helper.make_node("MatMul", ["h", "w3"], ["m3"], "third"),
        helper.make_node("Reshape", ["m3", "flat"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "w4", "b4"], ["y"], "last", transB=1),
    ]
    value = lambda n, *shape: helper.make_tensor_value_info(n, TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        nodes,
        "products",
        [value("x", 1, 3, WIDTH)],
        [value("y", 1, CLASSES)],
        [numpy_helper.from_array(v, n) for n, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.fixture
def files(tmp_path):
    onnx.save(model(), str(tmp_path / "float.onnx"))
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = X
    return tmp_path


def one_by_one(runtime, name, folder):
    """What each sample alone gives: the model's batch is 1, since a larger one has one scale for all of it."""
    outputs, said = runtime.run(folder / name, {"x": X}, folder)
    assert said == ""
    return outputs["y"]


def ours(qcalib, name, folder):
    qcalib("run", name, "--data", "x.h5", "-o", f"{name}.h5")
    with h5py.File(folder / f"{name}.h5") as f:
        return f["y"][()]


@pytest.mark.parametrize(
    "options",
    [(), ("--weight-type", "uint8", "--symmetric=none"), ("--per-tensor",)],
    ids=["int8", "uint8", "per_tensor"],
)
def test_same_bits(options, qcalib, onnxruntime, files):
    report = qcalib("float.onnx", "-o", "int8.onnx", "--activation-type", "dynamic", "--json", *options).json
    check_file(files / "int8.onnx")
    g = QuantizedGraph(files / "int8.onnx")
    check_names(g)
    assert len(g.of("MatMulInteger")) == 4 and not g.of("MatMul", "Gemm")
    assert len(g.of("DynamicQuantizeLinear")) == 3  # two products read x
    assert {n.name for n in g.of("MatMulInteger")} == {"first", "second", "third", "last"}
    assert (
        report["data"]["file"] is None
        and report["data"]["samples"] == 0
        and [o["sqnr_db"] for o in report["outputs"]] == [None]
    )
    with open(files / "int8.report/layers.csv", encoding="ascii") as f:
        rows = list(csv.DictReader(f))
    assert {r["name"] for r in rows} == {"w1", "w2", "w3", "w4"} and {r["sqnr_db"] for r in rows} == {""}
    y = one_by_one(onnxruntime, "int8.onnx", files)
    assert np.array_equal(y, ours(qcalib, "int8.onnx", files))
    reference = one_by_one(onnxruntime, "float.onnx", files)
    assert np.abs(y - reference).max(axis=1).max() <= 0.04 * np.abs(reference).max()


@pytest.mark.parametrize("options", [(), ("--weight-type", "uint8", "--symmetric=none")], ids=["int8", "uint8"])
def test_operators_of_the_runtime(options, qcalib, onnxruntime, files):
    """--format qoperator: the same bits from one operator for each product, which takes its bias too."""
    qcalib("float.onnx", "-o", "int8.onnx", "--activation-type", "dynamic", "--no-report", *options)
    qcalib(
        "float.onnx",
        "-o",
        "named.onnx",
        "--activation-type",
        "dynamic",
        "--no-report",
        "--format",
        "qoperator",
        *options,
    )
    check_file(files / "named.onnx")
    g = QuantizedGraph(files / "named.onnx")
    check_names(g)
    assert sorted(n.name for n in g.of("MatMulIntegerToFloat")) == ["first", "second"] and sorted(
        n.name for n in g.of("DynamicQuantizeMatMul")
    ) == ["last", "third"]
    assert (
        len(g.of("DynamicQuantizeLinear")) == 1
        and not g.of("MatMulInteger", "Cast")
        and [n.name for n in g.of("Add", "Mul")] == ["sum", "half"]
    )  # two products read x
    y = one_by_one(onnxruntime, "named.onnx", files)
    assert np.array_equal(y, one_by_one(onnxruntime, "int8.onnx", files)) and np.array_equal(
        y, ours(qcalib, "named.onnx", files)
    )


def test_data_make_it_better(qcalib, files):
    errors = {}
    for name, options in {"nearest": (), "compensated": ("--data", "x.h5")}.items():
        qcalib(
            "float.onnx",
            "-o",
            f"{name}.onnx",
            "--activation-type",
            "dynamic",
            "--weight-type",
            "int8",
            "--no-report",
            *options,
        )
        compared = qcalib("compare", "float.onnx", f"{name}.onnx", "--data", "x.h5", "--json").json
        errors[name] = compared["outputs"][0]["sqnr_db"]
    assert errors["compensated"] > errors["nearest"]


def test_without_data(qcalib, onnxruntime, files):
    said = qcalib("float.onnx", code=2).err
    assert "--data FILE" in said and "--activation-type dynamic and none" in said
    assert "--data" in qcalib("float.onnx", "--activation-type", "none", "--weight-method", "output", code=2).err
    out = qcalib("float.onnx", "--activation-type", "none", "-o", "weights.onnx").out
    assert (
        "data        none: weights are rounded to nearest; with --data" in out
        and "not measured, there is no --data" in out
    )
    g = QuantizedGraph(files / "weights.onnx")
    assert all(g.dequantize(n.input[1]) is not None for n in g.of("MatMul", "Gemm"))
    report = json.loads((files / "weights.report/report.json").read_text())
    assert report["verdict"]["grade"] == "unknown" and report["measured_samples"] == 0
    reference = one_by_one(onnxruntime, "float.onnx", files)
    assert np.abs(one_by_one(onnxruntime, "weights.onnx", files) - reference).max() < 0.05 * np.abs(reference).max()


def test_some_dynamic_some_not(qcalib, onnxruntime, files):
    """Of one model: integers as ever, integers as they come, and float."""
    out = qcalib(
        "float.onnx",
        "-o",
        "int8.onnx",
        "--data",
        "x.h5",
        "--activation-type",
        "dynamic:third",
        "--activation-type",
        "none:last",
        "--json",
        "--no-report",
    ).json
    g = QuantizedGraph(files / "int8.onnx")
    assert [n.name for n in g.of("MatMulInteger")] == ["third"] and len(g.of("MatMul")) == 2
    assert out["outputs"][0]["sqnr_db"] > 20
    one_by_one(onnxruntime, "int8.onnx", files)


def test_float16(qcalib, onnxruntime, files):
    """Sums of integers are larger than float16 holds: products are scaled in float32."""
    m = model()
    for t in m.graph.initializer:
        if t.data_type == TensorProto.FLOAT:
            t.CopyFrom(numpy_helper.from_array(np.abs(numpy_helper.to_array(t)).astype(np.float16), t.name))
    for v in (*m.graph.input, *m.graph.output):
        v.type.tensor_type.elem_type = TensorProto.FLOAT16
    onnx.save(m, str(files / "half.onnx"))
    qcalib("half.onnx", "-o", "int8.onnx", "--activation-type", "dynamic", "--no-report")
    check_file(files / "int8.onnx")
    x = {"x": np.abs(X[:3]).astype(np.float16)}
    y, reference = (
        onnxruntime.run(files / name, x, files)[0]["y"].astype(np.float32) for name in ("int8.onnx", "half.onnx")
    )
    assert np.abs(y - reference).max() < 0.03 * np.abs(reference).max()
