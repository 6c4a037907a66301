# SPDX-License-Identifier: Apache-2.0
"""A file is not larger than its model: constants that the model computes from fewer bytes, or has in float16, are written
in that form if folding would make the file larger. References: ONNX Runtime's outputs of the model."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

ROWS, WIDE = 4, 256


class Model:
    """x [ROWS, WIDE] goes through layers; `tables` are computed from constants."""

    def __init__(self):
        self.rng, self.nodes, self.tensors, self.at = np.random.default_rng(5), [], [], "x"

    def constant(self, value):
        self.tensors.append(numpy_helper.from_array(np.asarray(value), f"c{len(self.tensors)}"))
        return self.tensors[-1].name

    def op(self, op, *inputs, **attributes):
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [f"{name}_y"], name, **attributes))
        return f"{name}_y"

    def layer(self, op, value):
        self.at = self.op(op, self.at, value)

    def weights(self, columns):
        w = self.rng.standard_normal((WIDE, columns)) / WIDE**0.5
        self.at = self.op("Relu", self.op("MatMul", self.at, self.constant(w.astype(np.float32))))

    def save(self, folder):
        value = lambda name, dims: helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
        graph = helper.make_graph(self.nodes, "g", [value("x", [ROWS, WIDE])], [value(self.at, None)], self.tensors)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
        np.savez(folder / "d.npz", x=self.rng.standard_normal((6 * ROWS, WIDE)).astype(np.float32))
        return (folder / "m.onnx").stat().st_size


def cosines(m):
    at = m.op("Range", m.constant(np.int64(0)), m.constant(np.int64(WIDE)), m.constant(np.int64(1)))
    square = m.op("Mul", m.op("Unsqueeze", at, m.constant(np.array([0]))), m.op("Unsqueeze", at, m.constant(np.array([1]))))
    angle = m.op("Mul", m.op("Cast", square, to=TensorProto.FLOAT), m.constant(np.float32(np.pi / WIDE)))
    return m.op("Mul", m.op("Cos", angle), m.constant(np.float32(2 / WIDE)))


def filters(m):
    """A matrix with few elements that are not 0."""
    at = m.rng.choice(WIDE * WIDE, 3 * WIDE, replace=False)
    zeros = m.op("ConstantOfShape", m.constant(np.array([WIDE * WIDE])), value=numpy_helper.from_array(np.zeros(1, np.float32)))
    few = m.constant(m.rng.random(len(at)).astype(np.float32))
    return m.op("Reshape", m.op("ScatterElements", zeros, m.constant(at), few), m.constant(np.array([WIDE, WIDE])))


def tiles(m):
    return m.op("Tile", m.constant(m.rng.standard_normal((1, WIDE)).astype(np.float32)), m.constant(np.array([WIDE, 1])))


def expanded(m):
    return m.op("Expand", m.constant(m.rng.standard_normal((WIDE, 1)).astype(np.float32)), m.constant(np.array([WIDE, WIDE])))


def halves(m):
    return m.op("Cast", m.constant(m.rng.standard_normal((WIDE, WIDE)).astype(np.float16)), to=TensorProto.FLOAT)


def resized(m):
    small = m.constant(m.rng.standard_normal((1, 1, 16, 16)).astype(np.float32))
    large = m.op("Resize", small, "", m.constant(np.array([1, 1, 16, 16], np.float32)), mode="nearest")
    return m.op("Reshape", large, m.constant(np.array([WIDE, WIDE])))


def rows(m):
    """Rows of a small table."""
    return m.op("Gather", m.constant(m.rng.standard_normal((8, WIDE)).astype(np.float32)), m.constant(np.arange(WIDE) % 8))


TABLES = {f.__name__: f for f in (cosines, filters, tiles, expanded, halves, resized, rows)}


def outputs(path, x):
    return onnxruntime.InferenceSession(str(path)).run(None, {"x": x})[0]


@pytest.fixture
def check(qcalib, tmp_path):
    """Makes the file, and compares it with the model in bytes and outputs."""

    def run(model, *options):
        source = model.save(tmp_path)
        job = ("--data", "d.npz", "--no-report", "--json", "-o", "q.onnx", *options, "m.onnx")
        report = qcalib(*job).json
        x = np.load(tmp_path / "d.npz")["x"][:ROWS]
        real, got = outputs(tmp_path / "m.onnx", x), outputs(tmp_path / "q.onnx", x)
        assert np.linalg.norm(got - real) < 0.05 * np.linalg.norm(real)
        return source, (tmp_path / "q.onnx").stat().st_size, onnx.load(tmp_path / "q.onnx").graph, report

    return run


@pytest.mark.parametrize("table", TABLES)
def test_a_table_of_float_operators_stays_computed(table, check):
    m = Model()
    m.weights(WIDE)
    row = m.op("Unsqueeze", m.at, m.constant(np.array([1])))
    m.at = m.op("ReduceMax", m.op("Sub", row, TABLES[table](m)), axes=[2], keepdims=0)  # the farthest of each code
    source, size, graph, _ = check(m)
    assert size <= source


@pytest.mark.parametrize("table", [t for t in TABLES if t != "halves"])
def test_a_computed_weight_stays_in_float_if_its_integers_are_larger(table, check):
    m = Model()
    m.weights(WIDE // 4)
    m.at = m.op("Concat", *[m.at] * 4, axis=1)
    for _ in range(2):
        m.layer("MatMul", TABLES[table](m))
    source, size, graph, report = check(m)
    assert size <= source
    why = {n["reason"] for n in report["float_ops"] if n["op"] == "MatMul"}
    assert why == {"the model computes its weight from fewer bytes than its integers would take"}
    large = [t for t in graph.initializer if np.prod(t.dims) >= WIDE * WIDE]
    assert not large


def test_weights_in_float16_that_stay_in_float_are_written_so(check):
    m = Model()
    m.weights(WIDE)
    kept = []
    for _ in range(4):
        m.layer("MatMul", halves(m))
        kept += ["--skip", m.at.removesuffix("_y")]
    source, size, graph, _ = check(m, *kept)
    assert size <= source
    assert sum(n.op_type == "Cast" for n in graph.node) == 4


def test_a_file_that_is_smaller_than_its_model_has_constants(check):
    m = Model()
    for _ in range(4):
        m.weights(WIDE)
    m.at = m.op("Erf", m.at)
    m.layer("Mul", m.op("Slice", cosines(m), m.constant(np.array([0])), m.constant(np.array([ROWS]))))
    source, size, graph, _ = check(m)
    assert size <= source
    assert not {"Cos", "Range", "Slice"} & {n.op_type for n in graph.node}


def test_integers_that_are_asked_for_stay(check):
    m = Model()
    m.weights(WIDE // 4)
    m.at = m.op("Concat", *[m.at] * 4, axis=1)
    m.layer("MatMul", cosines(m))
    _, _, _, report = check(m, "--prefer", "integers")
    assert not [n for n in report["float_ops"] if n["op"] == "MatMul"]
