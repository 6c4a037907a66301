# SPDX-License-Identifier: Apache-2.0
"""qcalib compare: the matching of layers of two graphs, and their errors. Reference: the values of the graphs, from
`qcalib run` on a copy of the model that has every stored value as an output, and numpy."""

import collections
import html

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from test_run import by_name
from report_page import record_of

KEYS = ["name", "op", "matched", "mse", "sqnr_db", "cosine", "max_abs", "max_steps", "elements", "differing", "steps"]
SAMPLES = 40


@pytest.fixture
def digits(qcalib, examples, tmp_path):
    """The example in all its forms; digits.run(command, ...) on its test data."""
    qcalib(
        "quantize",
        "--data",
        examples / "digits_calib.h5",
        "--format",
        "qdq,qoperator",
        "--no-report",
        examples / "digits_cnn.onnx",
    )
    Forms = collections.namedtuple("Forms", "real qdq qoperator run")
    return Forms(
        examples / "digits_cnn.onnx",
        tmp_path / "digits_cnn.int8.onnx",
        tmp_path / "digits_cnn.qoperator.onnx",
        lambda *a, **how: qcalib(*a, "--data", examples / "digits_test.h5", "--samples", SAMPLES, **how),
    )


def with_all_stored(model, path):
    """The model with the result of every QuantizeLinear as one more output; {float value: (output, scale)}."""
    stored = {}
    types = {v.name: v for v in onnx.shape_inference.infer_shapes(model).graph.value_info}
    constants = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
    for n in model.graph.node:
        if n.op_type == "QuantizeLinear":
            model.graph.output.append(types[n.output[0]])
            stored[n.input[0]] = n.output[0], float(constants[n.input[1]])
    onnx.save(model, path)
    return stored


def test_two_forms_are_equal_layer_by_layer(digits):
    found = digits.run("compare", digits.qdq, digits.qoperator, "--json").json
    assert (
        list(found) == ["rounding", "accumulator", "overflows", "samples", "outputs", "layers", "warnings"]
        and found["samples"] == SAMPLES
        and found["rounding"] == ["onnx", "onnx"]
        and found["accumulator"] == [None, None]
    )
    assert found["outputs"][0]["equal"] and found["outputs"][0]["max_abs"] == 0 and found["outputs"][0]["cosine"] == 1
    layers = found["layers"]
    assert len(layers) >= 8 and all(list(x) == KEYS for x in layers)
    assert all(x["max_abs"] == 0 and x["differing"] == 0 and x["matched"] == "name" and x["mse"] == 0 for x in layers)
    assert all(x["steps"] is None or x["steps"] == [x["elements"], 0, 0, 0] for x in layers)
    assert sum(x["steps"] is not None for x in layers) >= 8


def test_steps_of_two_contracts_are_those_of_the_values(digits, tmp_path):
    """A histogram, layer by layer, against the integers of both runs."""
    stored = with_all_stored(onnx.load(digits.qdq), tmp_path / "all.onnx")
    values = []
    for contract in ("onnx", "tflite"):
        digits.run("run", "all.onnx", "--rounding", contract, "-o", f"{contract}.h5")
        values.append(by_name(tmp_path / f"{contract}.h5"))
    found = digits.run("compare", digits.qdq, digits.qdq, "--rounding", "onnx,tflite", "--json").json
    assert found["rounding"] == ["onnx", "tflite"]
    layers = {x["name"]: x for x in found["layers"]}
    checked, apart = 0, 0
    for name, (output, scale) in stored.items():
        if name not in layers:
            continue  # the input
        a, b = (v[output].astype(np.int64) for v in values)
        d, x = np.abs(a - b), layers[name]
        assert x["steps"] == [int((d == 0).sum()), int((d == 1).sum()), int((d == 2).sum()), int((d > 2).sum())], name
        assert (x["elements"], x["differing"], x["max_steps"]) == (d.size, int((d > 0).sum()), d.max()), name
        assert x["mse"] == pytest.approx((d.astype(float) ** 2).mean() * scale**2, rel=1e-4, abs=1e-12)
        assert x["max_abs"] == pytest.approx(d.max() * scale, rel=1e-4)
        checked, apart = checked + 1, apart + x["differing"]
    assert checked >= 6 and apart > 0


def test_one_contract_is_that_of_both_models(digits):
    """A model is equal to itself whatever the arithmetic; two contracts of one model are told apart by naming both."""
    one = digits.run("compare", digits.qdq, digits.qdq, "--rounding", "tflite", "--json").json
    assert one["rounding"] == ["tflite", "tflite"]
    assert one["outputs"][0]["equal"] and not any(x["differing"] for x in one["layers"])
    two = digits.run("compare", digits.qdq, digits.qdq, "--rounding", "onnx,tflite", "--json").json
    assert not two["outputs"][0]["equal"]


def test_page(digits, tmp_path):
    """The page has the numbers of --json, and the same bytes whatever the threads."""
    pages = []
    for threads in (1, 2):
        found = digits.run(
            "compare",
            digits.qdq,
            digits.qdq,
            "--rounding",
            "onnx,tflite",
            "--json",
            "--html",
            "c.html",
            "--threads",
            threads,
        ).json
        pages.append((tmp_path / "c.html").read_text())
    assert pages[0] == pages[1]
    record = record_of(tmp_path / "c.html")
    assert all(record[key] == found[key] for key in found) and record["contracts"]
    command = record["command"]
    assert (
        command.startswith("qcalib compare ")
        and command.count(digits.qdq.name) == 2
        and "--rounding=onnx,tflite" in command
    )
    assert f"{sum(not l['differing'] for l in found['layers'])} of {len(found['layers'])} layers are equal" in record["verdict"]["text"]
    digits.run("compare", digits.qdq, digits.qdq, "--html", "no/such/folder/c.html", code=5)


def test_layers_whose_names_are_lost_are_matched_by_order(digits, tmp_path):
    model = onnx.load(digits.qdq)
    kept = {p.name for p in [*model.graph.input, *model.graph.output]} | {t.name for t in model.graph.initializer}
    for n in model.graph.node:
        n.name = ""
        for names in (n.input, n.output):
            for i, name in enumerate(names):
                if name and name not in kept:
                    names[i] = f"value{sum(map(ord, name)) * 7919 % 100003}_{len(name)}"
    del model.graph.value_info[:]
    onnx.save(model, tmp_path / "nameless.onnx")
    onnx.checker.check_model(model, full_check=True)
    own = digits.run("compare", digits.qdq, digits.qdq, "--json").json["layers"]
    found = digits.run("compare", digits.qdq, "nameless.onnx", "--json").json["layers"]
    assert {x["name"] for x in found if x["matched"] == "name"} <= {"logits"}, "the output keeps its name"
    assert [x["op"] for x in found] == [x["op"] for x in own]
    assert [x["name"] for x in found] == [x["name"] for x in own] and all(x["max_abs"] == 0 for x in found)
    real = [digits.run("compare", digits.real, file, "--json").json["layers"] for file in (digits.qdq, "nameless.onnx")]
    assert [x["mse"] for x in real[0]] == [x["mse"] for x in real[1]], "batch norm and relu belong to the convolution"
    assert sum(x["op"] == "Conv" for x in real[1]) >= 2


def test_the_float_model_against_its_quantized_one(digits):
    found = digits.run("compare", digits.real, digits.qdq, "--json").json
    assert found["outputs"][0]["sqnr_db"] > 20
    for x in found["layers"]:
        assert x["sqnr_db"] > 10 and x["cosine"] > 0.95, x
        assert x["steps"] is None or sum(x["steps"]) == x["elements"]
    table = digits.run("compare", digits.real, digits.qdq).out.splitlines()
    assert len(table) <= 15 and "SQNR dB" in table[1]
    assert (
        len(digits.run("compare", digits.qdq, digits.qdq, "--rounding", "onnx,qnn-upward").out.splitlines()) >= 2 + 8
    ), "all layers, in order"


def test_tolerance_of_numbers(digits):
    assert digits.run("compare", digits.qdq, digits.qoperator, "--tolerance", 0).code == 0
    apart = digits.run("compare", digits.real, digits.qdq, "--json").json["outputs"][0]["max_abs"]
    digits.run("compare", digits.real, digits.qdq, "--tolerance", apart * 1.001)
    failed = digits.run("compare", digits.real, digits.qdq, "--tolerance", apart * 0.999, code=1)
    assert "--tolerance" in failed.err and "logits" in failed.err


def test_tolerance_of_integer_outputs(qcalib, tmp_path):
    """Outputs that are levels are compared as numbers."""

    def model(add):
        constants = [
            helper.make_tensor("s", TensorProto.FLOAT, [], [0.5]),
            helper.make_tensor("z", TensorProto.UINT8, [], [3]),
            helper.make_tensor("c", TensorProto.FLOAT, [], [add]),
        ]
        nodes = [helper.make_node("Add", ["x", "c"], ["y"]), helper.make_node("QuantizeLinear", ["y", "s", "z"], ["q"])]
        ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])], [
            helper.make_tensor_value_info("q", TensorProto.UINT8, [1, 4])
        ]
        return helper.make_model(
            helper.make_graph(nodes, "g", *ports, constants), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
        )

    onnx.save(model(0.0), tmp_path / "a.onnx")
    onnx.save(model(1.0), tmp_path / "b.onnx")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.arange(8, dtype=np.float32).reshape(2, 4)
    output = qcalib("compare", "a.onnx", "b.onnx", "--data", "x.h5", "--json").json["outputs"][0]
    assert (output["max_abs"], output["differing"], output["elements"], output["equal"]) == (2, 8, 8, False)
    qcalib("compare", "a.onnx", "b.onnx", "--data", "x.h5", "--tolerance", 2)
    assert "'q'" in qcalib("compare", "a.onnx", "b.onnx", "--data", "x.h5", "--tolerance", 1, code=1).err


@pytest.mark.parametrize("contract", ["nearest", "onnx,", ",onnx", "onnx,tflite,onnx"])
def test_a_contract_that_is_none(contract, digits):
    assert "rounding" in digits.run("compare", digits.qdq, digits.qdq, "--rounding", contract, code=2).err


def test_two_contracts_are_for_compare(digits):
    assert "rounding" in digits.run("run", digits.qdq, "--rounding", "onnx,tflite", "-o", "out.h5", code=2).err


def test_canonical_is_a_pass_and_says_of_what(qcalib):
    row = {r["pass"]: r for r in qcalib("list", "passes", "--json").json["passes"]}["canonical"]
    assert "compare" in row["commands"] and "convert" in row["commands"] and "QLinear" in row["summary"]


@pytest.mark.parametrize("order", [("free.onnx", "four.onnx"), ("four.onnx", "free.onnx")])
def test_a_fixed_batch_and_a_free_one(order, qcalib, examples, tmp_path):
    """The fixed batch decides how many samples run at a time; two that differ are refused with both files named."""
    model = onnx.load(examples / "digits_cnn.onnx")
    for name, batch in (("free", "n"), ("four", 4), ("eight", 8)):
        for port in (model.graph.input[0], model.graph.output[0]):
            dim = port.type.tensor_type.shape.dim[0]
            dim.Clear()
            setattr(dim, "dim_param" if batch == "n" else "dim_value", batch)
        onnx.save(model, tmp_path / f"{name}.onnx")
    data = examples / "digits_calib.h5"
    same = qcalib("compare", "--data", data, *order, "--json").json
    assert same["outputs"][0]["equal"] and same["samples"] % 4 == 0
    layers = [layer["name"] for layer in qcalib("compare", "--data", data, "free.onnx", "free.onnx", "--json").json["layers"]]
    assert [layer["name"] for layer in same["layers"]] == layers
    said = qcalib("compare", "--data", data, "four.onnx", "eight.onnx", code=3).err
    assert "four.onnx takes 4 samples at a time and eight.onnx takes 8" in said


def test_a_reference_of_zeros_is_not_equal(qcalib, tmp_path):
    """Without a signal there is no SQNR, though the noise is infinite times the signal."""
    np.save(tmp_path / "x.npy", np.ones((4, 3), np.float32))
    port = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3])  # noqa: E731
    for name, factor in (("zero", 0.0), ("one", 1.0)):
        graph = helper.make_graph(
            [helper.make_node("Mul", ["x", "f"], ["y"], "product")], "g", [port("x")], [port("y")],
            [onnx.numpy_helper.from_array(np.float32([factor]), "f")])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / f"{name}.onnx")
    lines = qcalib("compare", "zero.onnx", "one.onnx", "--data", "x.npy").out.splitlines()
    row = next(line for line in lines if "Mul" in line)
    assert row.split()[0] == "-inf" and "equal" not in row
    assert next(line for line in qcalib("compare", "one.onnx", "one.onnx", "--data", "x.npy").out.splitlines() if "Mul" in line).split()[0] == "equal"
