# SPDX-License-Identifier: Apache-2.0
"""Floats of 8 and 4 bits and block formats: levels and scales in the file, and the results of runtimes."""

import json
import re

import h5py
import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import ROOT
from format_references import FORMATS, SCALE_LEVELS
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(31)
WIDTH = 96
WEIGHTS = {"w1": (WIDTH, 64), "w2": (64, 40)}
# ONNX Runtime 1.32 has no FLOAT4E2M1 on a CPU
RUNS = [n for n, f in FORMATS.items() if f.stored != TensorProto.FLOAT4E2M1]


@pytest.fixture
def model(tmp_path):
    """Two products, each with a bias, and a clamp between them; samples are correlated, as activations are."""
    value, node = helper.make_tensor_value_info, helper.make_node
    constants = {n: (RANDOM.standard_t(4, s) * 0.1).astype("f4") for n, s in WEIGHTS.items()}
    constants |= {"b1": RANDOM.normal(size=64).astype("f4"), "b2": RANDOM.normal(size=40).astype("f4")}
    nodes = [
        node("Gemm", ["x", "w1", "b1"], ["g1"], "g1"),
        node("Relu", ["g1"], ["r"]),
        node("MatMul", ["r", "w2"], ["m"], "m"),
        node("Add", ["m", "b2"], ["y"], "y"),
    ]
    ports = [value("x", TensorProto.FLOAT, ["n", WIDTH])], [value("y", TensorProto.FLOAT, ["n", 40])]
    graph = helper.make_graph(nodes, "g", *ports, [numpy_helper.from_array(v, n) for n, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    mix = RANDOM.normal(size=(20, WIDTH)).astype("f4")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = RANDOM.normal(size=(256, 20)).astype("f4") @ mix
    return tmp_path / "m.onnx"


@pytest.fixture
def quantize(qcalib, model):
    def job(*options, out="q.onnx"):
        qcalib("--data", "data.h5", "--no-report", "--advice", "off", "-q", *options, "-o", out, model)
        return model.parent / out

    return job


def samples(folder):
    with h5py.File(folder / "data.h5") as file:
        return file["x"][:]


def ours(qcalib, path):
    qcalib("run", path, "--data", "data.h5", "-o", "o.h5", "-q")
    with h5py.File(path.parent / "o.h5") as file:
        return file["y"][:]


def theirs(path, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # MatMulNBits in float32
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def weight(path, name):
    """The DequantizeLinear of a weight, its levels and its scales as numbers."""
    graph = onnx.load(path).graph
    constants = {i.name: i for i in graph.initializer}
    makers = {n.output[0]: n for n in graph.node}
    (node,) = [n for n in graph.node if n.op_type == "DequantizeLinear" and n.input[0] == f"{name}_quantized"]

    def number(value):
        if value in constants:
            return numpy_helper.to_array(constants[value]).astype("f4")
        return number(makers[value].input[0]) * number(makers[value].input[1])

    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return constants[node.input[0]].data_type, number(node.input[0]), number(node.input[1]), attributes


@pytest.mark.parametrize("run", range(2))
def test_numbers_of_a_test_do_not_depend_on_those_before_it(run):
    assert RANDOM.random() == np.random.default_rng(31).random()


def test_every_format_has_a_reference():
    rows = re.findall(r'X\(c, "(\w+)"', (ROOT / "graph/types/number_format.h").read_text())
    page = (ROOT / "docs/number-formats.md").read_text()
    assert [n for n in rows if f"\n| `{n}` |" not in page] == []
    assert sorted(rows) == sorted(FORMATS), "give each row of QC_NUMBER_FORMATS one in tests/e2e/format_references.py"


@pytest.mark.parametrize("name", FORMATS)
def test_levels_and_scales_are_those_of_the_format(quantize, name):
    stored, allowed, block, scales = FORMATS[name]
    path = quantize("--weight-type", name, "--activation-type", "none")
    dtype, levels, scale, attributes = weight(path, "w1")
    assert dtype == stored and attributes["block_size"] == block
    assert np.isin(np.abs(levels / 8 if name == "mxfp6" else levels), allowed).all()
    assert len(np.unique(levels)) > 6
    if scales == "power":
        assert (np.frexp(scale)[0] == 0.5).all()
    else:
        codes = scale / (scale.max() / 448)
        assert np.isin(codes, SCALE_LEVELS).all() and codes.max() == 448 and len(np.unique(codes)) > 4


@pytest.mark.parametrize("name", RUNS)
def test_formats_run_in_onnxruntime(qcalib, quantize, model, name):
    path = quantize("--weight-type", name, "--activation-type", "none")
    x = samples(model.parent)
    want = ours(qcalib, path)
    np.testing.assert_allclose(theirs(path, x), want, rtol=0, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize(
    "kind, most",
    [("float8e4m3fn", 448), ("float8e4m3fnuz", 240), ("float8e5m2", 57344), ("float8e5m2fnuz", 57344)],
)
def test_float8_is_what_onnxruntime_computes(qcalib, quantize, model, kind, most):
    """ONNX Runtime neither rounds the biases nor joins the clamp to the QuantizeLinear behind it."""
    path = quantize("--weight-type", kind, "--activation-type", kind)
    dtype, levels, scale, _ = weight(path, "w1")
    assert TensorProto.DataType.Name(dtype) == kind.upper()
    assert scale.shape == (64,) and np.abs(levels).max(0).tolist() == [most] * 64
    x = samples(model.parent)
    want = ours(qcalib, path)
    np.testing.assert_allclose(theirs(path, x), want, rtol=0, atol=1e-5 * np.abs(want).max())
    noise = want - theirs(model, x)
    assert 10 * np.log10((want**2).mean() / (noise**2).mean()) > (28 if "e4m3" in kind else 21)


@pytest.mark.parametrize("name, stored, most", [
    ("int5", "int8", 15), ("uint5", "uint8", 31), ("int6", "int8", 31), ("uint6", "uint8", 63), ("int7", "int8", 63),
    ("uint7", "uint8", 127), ("int10", "int16", 511), ("int12", "int16", 2047), ("int14", "int16", 8191),
])  # fmt: skip
def test_integers_of_other_widths_are_levels_of_a_wider_type(qcalib, quantize, model, name, stored, most):
    """A bit more halves the error of the weights: six dB."""
    dtype = np.dtype(stored)
    path = quantize("--weight-type", name, "--activation-type", "none")
    weights = [numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer if len(t.dims) == 2]
    assert [w.dtype for w in weights] == [dtype] * 2
    zero = (most + 1) // 2 if dtype.kind == "u" else 0
    assert all(most - zero <= np.abs(w.astype(int) - zero).max() <= max(most - zero, zero) for w in weights)
    x, want = samples(model.parent), ours(qcalib, model)
    made = ours(qcalib, path)
    whole = ours(qcalib, quantize("--weight-type", stored, "--activation-type", "none"))
    loss = 10 * np.log10(((want - made) ** 2).sum() / ((want - whole) ** 2).sum())
    bits = 8 * dtype.itemsize - int(name.strip("uint"))
    assert 4 * bits < loss < 8 * bits
    path = quantize("--weight-type", name)
    # ONNX Runtime multiplies 16 bits in float32, so that a row may have an input that is one step apart.
    apart = np.abs(theirs(path, x) - ours(qcalib, path)).max(axis=1) > 1e-4 * np.abs(want).max()
    assert apart.mean() < 0.05


def test_summary_counts_products_of_floats(qcalib, model):
    """Both factors of the products are floats; with float weights alone only the weights are."""
    report = model.parent / "r"
    job = ("--data", "data.h5", "--advice", "off", "--report", report, "-o", "q.onnx")
    kind = "float8e4m3fn"
    done = qcalib(*job, "--weight-type", kind, "--activation-type", kind, model)
    assert "quantized   100.0 % of multiply-adds in 8-bit floats; 0 ops," in done.out
    facts = json.loads((report / "report.json").read_text())
    assert facts["small_float_share"] == 1 and facts["integer_share"] == 0
    done = qcalib(*job, "--weight-type", kind, "--activation-type", "none", model)
    assert re.search(r"^quantized   \d+ weight tensors; all \d+ ops compute in float$", done.out, re.MULTILINE)
    own = ("--prefer", "size", "--weight-type", "int8:g1", "--activation-type", "int8:g1")
    done = qcalib(*job, "--weight-type", kind, "--activation-type", kind, *own, model)
    assert "% of multiply-adds in 8-bit floats, " in done.out and "% in integers; " in done.out


def test_float8_quantize_is_that_of_ml_dtypes(qcalib, model):
    """The pair around one value, alone in a graph, and what `run` makes of the two as one step."""
    node, value = helper.make_node, helper.make_tensor_value_info
    x = (RANDOM.standard_normal(4000) * 10 ** RANDOM.uniform(-6, 4, 4000)).astype("f4").reshape(1, -1)
    for name, most in (
        ("float8_e4m3fn", 448),
        ("float8_e4m3fnuz", 240),
        ("float8_e5m2", 57344),
        ("float8_e5m2fnuz", 57344),
    ):
        scale = np.float32(0.0123)
        kind = getattr(TensorProto, name.replace("_", "").upper())
        graph = helper.make_graph(
            [
                node("Mul", ["x", "one"], ["m"]),
                node("QuantizeLinear", ["m", "s", "z"], ["q"]),
                node("DequantizeLinear", ["q", "s", "z"], ["d"]),
                node("Mul", ["d", "one"], ["y"]),
            ],
            "g",
            [value("x", TensorProto.FLOAT, ["n", x.size])],
            [value("y", TensorProto.FLOAT, ["n", x.size])],
            [
                helper.make_tensor("s", TensorProto.FLOAT, (), [scale]),
                helper.make_tensor("z", kind, (), [0.0]),
                helper.make_tensor("one", TensorProto.FLOAT, (1, 1), [1.5]),
            ],
        )
        path = model.parent / "pair.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), path)
        np.savez(model.parent / "x.npz", x=x)
        qcalib("run", path, "--data", "x.npz", "-o", "y.h5", "-q")
        with h5py.File(model.parent / "y.h5") as file:
            got = file["y"][:].reshape(1, -1)
        steps = np.clip(x * np.float32(1.5) / scale, -most, most).astype(getattr(ml_dtypes, name)).astype("f4")
        assert np.array_equal(got, steps * scale * np.float32(1.5))


def test_compensated_rounding_of_floats_is_nearer(quantize, model):
    x, errors = samples(model.parent), {}
    true = theirs(model, x)
    for way in ("nearest", "compensated"):
        for name in ("mxfp6", "mxfp8", "float8e4m3fn"):
            path = quantize("--weight-type", name, "--activation-type", "none", "--weight-rounding", way)
            errors[name, way] = ((theirs(path, x) - true) ** 2).mean()
    for name in ("mxfp6", "mxfp8", "float8e4m3fn"):
        assert errors[name, "compensated"] < 0.8 * errors[name, "nearest"]


def test_files_are_called_what_they_are(qcalib, model):
    for name, suffix in (("float8e5m2", "fp8"), ("float4e2m1", "fp4"), ("nvfp4", "nvfp4")):
        done = qcalib("--data", "data.h5", "--no-report", "--advice", "off", "-q", "--weight-type", name, model)
        assert done.new_files == [f"m.{suffix}.onnx"]


@pytest.mark.parametrize(
    "options, message",
    [
        (["--weight-type=mxfp4", "--format=qoperator"], "give --format qdq"),
        (["--activation-type=float8e4m3fn", "--accumulator=20"], "without an integer accumulator"),
        (["--weight-type=mxfp4:g1"], "are for all weights"),
        (["--weight-type=nvfp4", "--weight-block=32"], "has its own block size"),
        (["--weight-type=bfp16", "--per-tensor"], "a scale for each block"),
        (["--weight-type=float8e4m3fn", "--size=50%"], "bits of integers"),
        (["--activation-type=float8e5m2", "--propagate"], "leave out float types"),
    ],
)
def test_what_does_not_go_together_is_refused(qcalib, model, options, message):
    done = qcalib("--data", "data.h5", *options, model, code=2)
    assert message in done.err
