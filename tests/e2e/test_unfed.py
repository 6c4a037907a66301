# SPDX-License-Identifier: Apache-2.0
"""Operators that no calibration sample reaches, because nothing is over a threshold, stay in float and are named."""

import h5py
import numpy as np
import onnx
import pytest
from measured_models import session, sqnr
from onnx import TensorProto, helper, numpy_helper

from test_quantize_odd import conv, node, normal

ROWS, SHAPE = 6, (3, 8, 8)

COUNTED = [
    node("Cast", ["over"], "one", to=TensorProto.INT64),
    node("ReduceSum", ["one"], "sum", keepdims=0),
    node("Reshape", ["sum", "vector"], "count"),
]
CHOSEN = {
    "NonZero": [
        node("NonZero", ["over"], "at"),
        node("Squeeze", ["at", "zero"], "rows"),
        node("Gather", ["f", "rows"], "r", axis=0),
    ],
    "Compress": [node("Compress", ["f", "over"], "r", axis=0)],
    "Slice": [*COUNTED, node("Slice", ["f", "zero", "count", "zero"], "r")],
    "TopK": [*COUNTED, node("TopK", ["s", "count"], ["best", "rows"]), node("Gather", ["f", "rows"], "r", axis=0)],
    "GatherND": [
        node("NonZero", ["over"], "at"),
        node("Transpose", ["at"], "rows", perm=[1, 0]),
        node("GatherND", ["f", "rows"], "r"),
    ],
    "NonMaxSuppression": [
        node("Reshape", ["f", "boxes"], "b"),
        node("Reshape", ["s", "scores"], "c"),
        node("NonMaxSuppression", ["b", "c", "many", "", "least"], "k"),
        node("Slice", ["k", "two", "three", "one_axis"], "last"),
        node("Reshape", ["last", "vector"], "rows"),
        node("Gather", ["f", "rows"], "r", axis=0),
    ],
}


def model(kind):
    """Features f of two convolutions; rows of f with a score s over 0.8 go through two dense layers to y."""
    w = {
        "w": normal(8, 3, 3, 3),
        "w2": normal(4, 8, 3, 3),
        "d": normal(4, 32),
        "d2": normal(32, 16),
        "limit": np.array(0.8, np.float32),
        "least": np.array([0.8], np.float32),
        "many": np.array([ROWS]),
        "zero": np.array([0]),
        "two": np.array([2]),
        "three": np.array([3]),
        "one_axis": np.array([1]),
        "vector": np.array([-1]),
        "boxes": np.array([1, -1, 4]),
        "scores": np.array([1, 1, -1]),
        "rows_of": np.array([0, 4]),
    }
    nodes = [
        conv("x", "a", "w", None),
        node("Relu", ["a"], "b1"),
        conv("b1", "c1", "w2", None),
        node("GlobalAveragePool", ["c1"], "g"),
        node("Reshape", ["g", "rows_of"], "f"),
        node("Greater", ["s", "limit"], "over"),
        *CHOSEN[kind],
        helper.make_node("MatMul", ["r", "d"], ["h1"], name="second"),
        node("Relu", ["h1"], "h2"),
        helper.make_node("MatMul", ["h2", "d2"], ["y"], name="third"),
    ]
    made = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [
                helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *SHAPE]),
                helper.make_tensor_value_info("s", TensorProto.FLOAT, ["N"]),
            ],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["K", 16])],
            [numpy_helper.from_array(v, k) for k, v in w.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.checker.check_model(made)
    return made


def data(path, scores, count=12):
    rng = np.random.default_rng(5)
    with h5py.File(path, "w") as file:
        for i in range(count):
            file[f"x/{i}"] = rng.normal(size=(ROWS, *SHAPE)).astype(np.float32)
            file[f"s/{i}"] = (scores * rng.uniform(0.9, 1, size=ROWS)).astype(np.float32)
    with h5py.File(path) as file:
        return [{n: file[f"{n}/{i}"][()] for n in "xs"} for i in range(count)]


WAYS = {
    "data": (),
    "mse": ("--method", "mse"),
    "integers": ("--target", "integers"),
    "tflite": ("--target", "tflite"),
    "uint16": ("--activation-type", "uint16"),
    "qoperator": ("--format", "qoperator"),
    "propagate": ("--propagate",),
    "demand": ("--min-sqnr", "60"),
    "statistics": None,
}


CASES = [(k, w) for k in CHOSEN for w in WAYS if k == "Compress" or w in ("data", "integers", "statistics")]


@pytest.mark.parametrize("kind,way", CASES)
def test_stays_in_float(kind, way, qcalib, tmp_path):
    onnx.save(model(kind), tmp_path / "m.onnx")
    data(tmp_path / "never.h5", 0.5)
    seen = data(tmp_path / "seen.h5", 1.0)
    source = ("--data", "never.h5")
    if way == "statistics":
        qcalib("collect", *source, "m.onnx", "-o", "m.stats.h5")
        source = ("--stats", "m.stats.h5")
    report = qcalib(*source, *(WAYS[way] or ()), "m.onnx", "--no-report", "--json", "--prefer", "integers", "-o", "q.onnx")
    assert "'second' (MatMul) has no elements in any sample and stays in float" in report.err
    assert {f["reason"] for f in report.json["float_ops"] if f["op"] == "MatMul"} == {"no sample has elements for it"}
    assert "Conv" not in {f["op"] for f in report.json["float_ops"]}
    float_model, quantized = session(tmp_path / "m.onnx"), session(tmp_path / "q.onnx")
    want, got = ([s.run(None, feeds)[0] for feeds in seen] for s in (float_model, quantized))
    assert sum(len(y) for y in want) >= ROWS
    kept = [(a, b) for a, b in zip(want, got) if a.shape == b.shape]
    assert len(kept) > len(want) / 2
    assert sqnr(*([np.concatenate(part)] for part in zip(*kept)))[0] > 25


@pytest.mark.integers
def test_nothing_is_left(qcalib, tmp_path):
    """The rest of the model is left in float by --skip."""
    onnx.save(model("Compress"), tmp_path / "m.onnx")
    data(tmp_path / "never.h5", 0.5)
    failed = qcalib("--data", "never.h5", "m.onnx", "--skip", "Conv", "--skip", "GlobalAveragePool", code=3)
    assert "nothing is left to quantize: 'r' has no elements in any sample" in failed.err
    assert not (tmp_path / "m.int8.onnx").exists()


@pytest.mark.integers
def test_rows_that_are_seen_are_quantized(qcalib, tmp_path):
    onnx.save(model("Compress"), tmp_path / "m.onnx")
    data(tmp_path / "seen.h5", 1.0)
    report = qcalib("--data", "seen.h5", "m.onnx", "--no-report", "--json")
    assert "elements" not in report.err
    assert "MatMul" not in {f["op"] for f in report.json["float_ops"]}
