# SPDX-License-Identifier: Apache-2.0
"""Products of 8-bit floats one by one: those that are left in float, and what each of them costs."""

import json

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

FLOAT8 = ("--weight-type", "float8e4m3fn", "--activation-type", "float8e4m3fn")
PLAIN = ("--method", "minmax", "--weight-rounding", "nearest", "--bias-correction", "off", "--scale-channels", "off")
PRODUCTS = ("first", "gate", "value", "last")
WIDTH = 24


@pytest.fixture
def model(tmp_path):
    """`gate` and `value` read the same value, as does an Add. An error of `gate` costs most: it is multiplied by 20."""
    random = np.random.default_rng(5)
    value, node = helper.make_tensor_value_info, helper.make_node
    constants = {f"w{p}": random.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5 for p in PRODUCTS}
    constants |= {f"b{p}": random.normal(size=WIDTH) for p in PRODUCTS} | {"twenty": np.array(20.0)}
    constants["bfirst"] += 3
    nodes = [
        *(n for p, x in (("first", "x"), ("gate", "r"), ("value", "r"), ("last", "s"))
          for n in (node("MatMul", [x, f"w{p}"], [f"m{p}"], p), node("Add", [f"m{p}", f"b{p}"], [p]))),
        node("Relu", ["first"], ["r"]),
        node("Mul", ["gate", "twenty"], ["g"]),
        node("Add", ["g", "value"], ["a"]),
        node("Add", ["a", "r"], ["s"]),
    ]  # fmt: skip
    order = ("first", "mfirst", "r", "mgate", "gate", "g", "mvalue", "value", "a", "s", "mlast", "last")
    nodes.sort(key=lambda n: order.index(n.output[0]) if n.output[0] != "first" else 1.5)
    ports = [value("x", TensorProto.FLOAT, ["n", WIDTH])], [value("last", TensorProto.FLOAT, ["n", WIDTH])]
    graph = helper.make_graph(nodes, "g", *ports, [numpy_helper.from_array(v.astype("f4"), k) for k, v in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = random.normal(size=(16, WIDTH)).astype("f4")
    return tmp_path / "m.onnx"


def outputs(qcalib, path):
    qcalib("run", path, "--data", "data.h5", "-o", "o.h5", "-q")
    with h5py.File(path.parent / "o.h5") as file:
        return file["last"][:].astype("f8")


def quantize(qcalib, model, *options):
    advice = () if "--advice" in options else ("--advice", "off")
    qcalib("--data", "data.h5", "-q", *advice, *FLOAT8, *options, "-o", "q.onnx", model)
    return model.parent / "q.onnx", json.loads((model.parent / "q.report/report.json").read_text())


def sources(path):
    """Of each product: the operators from its input up to the Relu or the input of the model."""
    made = {n.output[0]: n for n in onnx.load(path).graph.node}
    found = {}
    for n in made.values():
        if n.op_type not in ("MatMul", "Gemm"):
            continue
        ops, v = [], n.input[0]
        while v in made and v not in ("r", "s"):
            ops.append(made[v].op_type)
            v = made[v].input[0]
        found[n.output[0].removeprefix("m")] = ops
    return found


def test_a_product_in_float_reads_the_value_itself(qcalib, model):
    """The other product that reads the value keeps its centred input."""
    path, report = quantize(qcalib, model, "--skip", "gate")
    assert sources(path)["gate"] == []
    assert {"Sub", "QuantizeLinear", "DequantizeLinear"} <= set(sources(path)["value"])
    assert {c["name"]: c["layers"] for c in report["centred_inputs"]}["r"] == 1
    (add,) = (n for n in onnx.load(path).graph.node if n.output[0] == "s")
    assert add.input[1] == "r"


def test_sensitivity_is_that_of_a_network_with_one_product_quantized(qcalib, model):
    """The rounding of a value that two products read counts at each of them alone."""
    want = outputs(qcalib, model)
    _, report = quantize(qcalib, model, *PLAIN, "--sensitivity")
    measured = {s["node"]: s for s in report["sensitivity"]}
    assert set(measured) == set(PRODUCTS)
    for p in PRODUCTS:
        skip = [o for q in PRODUCTS if q != p for o in ("--skip", q)]
        path, _ = quantize(qcalib, model, *PLAIN, *skip)
        alone = 10 * np.log10((want**2).sum() / ((want - outputs(qcalib, path)) ** 2).sum())
        assert measured[p]["sqnr_db"] == pytest.approx(alone, abs=0.01)
        assert measured[p]["sqnr_db"] < measured[p]["weights_sqnr_db"]
    assert measured["gate"]["sqnr_db"] < measured["value"]["sqnr_db"] - 10


@pytest.mark.parametrize("least, kind, options", [
    (38, "float with quantized weights", ["--activation-type=none:first", "--activation-type=none:gate"]),
    (60, "float", ["--skip=first", "--skip=gate", "--skip=last"]),
])  # fmt: skip
def test_a_demand_changes_the_worst_products(least, kind, options, qcalib, model):
    """The input is float, and if that is not enough the weights too. No type of 16 bits is tried."""
    _, report = quantize(qcalib, model, "--min-sqnr", str(least))
    steps = report["fallback"]["steps"]
    assert {s["type"] for s in steps[1:]} <= {"float", "float with quantized weights"}
    assert next(s["type"] for s in steps if s["chosen"]) == kind
    assert report["fallback"]["options"] == options


def test_advice_is_to_leave_inputs_in_float(qcalib, model):
    _, report = quantize(qcalib, model, "--advice", "on")
    assert report["advice"] and all("16" not in a["action"] for a in report["advice"])
    assert any("--activation-type=none:first" in a["command"] for a in report["advice"])


@pytest.mark.bad_input  # with sanitizers: values behind the end of an array were read
def test_functions_of_a_network_that_is_simulated_anew(qcalib, data, tmp_path):
    """Centring makes another graph, with more values than the one whose shapes are known."""
    model, samples = data / "models/gpt_kjv_chars.onnx", data / "kjv_calib96.h5"
    qcalib("-q", "--no-report", "--advice", "off", "--samples", 2, "--data", samples, *FLOAT8, "-o", "q.onnx", model)
