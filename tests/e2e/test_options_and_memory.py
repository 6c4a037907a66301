# SPDX-License-Identifier: Apache-2.0
"""Options that are given many times take memory in proportion to their number, and inspect honours --memory-limit."""

import json

import numpy as np
import onnx
import pytest
from conftest import SANITIZED
from onnx import TensorProto, helper, numpy_helper
from test_bad_input import MACHINE
from test_budget import measured  # noqa: F401

MANY = 20_000
LISTS = {  # an option with a value of an entry
    "skip": lambda i: f"node {i}",
    "only": lambda i: f"node {i}*",
    "weight-type": lambda i: f"int4:node {i}",
    "activation-type": lambda i: f"uint16:node {i}",
    "input": lambda i: f"x{i}=y{i}",
    "format": lambda i: "qdq",
}


@pytest.fixture
def model(tmp_path, rng=np.random.default_rng(0)):
    weights = numpy_helper.from_array(rng.normal(size=(8, 8)).astype(np.float32), "w")
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], "node 0")],
        "g",
        [value("x", TensorProto.FLOAT, ["n", 8])],
        [value("y", TensorProto.FLOAT, None)],
        [weights],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", rng.normal(size=(16, 8)).astype(np.float32))
    return tmp_path


@pytest.mark.skipif(SANITIZED, reason="sanitizers keep freed memory")
@pytest.mark.parametrize("place", ["config", "command line"])
@pytest.mark.parametrize("option", LISTS)
def test_many_entries(option, place, model, measured):  # noqa: F811
    entries = [LISTS[option](i) for i in range(MANY)]
    if place == "config":
        (model / "c.json").write_text(json.dumps({option: entries}))
        more = ["--config", "c.json"]
    else:
        more = [f"--{option}={e}" for e in entries[: MANY // 4]]
    code, text, mib = measured("quantize", "m.onnx", "--data", "x.npy", "-o", "q.onnx", "--no-report", "--advice=off", *more, seconds_most=2)
    assert code in (0, 2) and mib < 40, f"exit {code}, {mib:.0f} MiB, {text}"  # they took 90 to 1,600 MiB


def test_a_list_keeps_its_order(model, qcalib):
    """20 types of one node: the last one that matches holds."""
    types = [f"int{4 + 4 * (i % 2)}:node 0" for i in range(20)]
    (model / "c.json").write_text(json.dumps({"weight-type": types}))
    done = qcalib("quantize", "m.onnx", "--data", "x.npy", "-o", "q.onnx", "--config", "c.json", "--json")
    assert done.json["options"]["weight-type"][1:] == types


def test_inspect_honours_the_limit(model, qcalib):
    report = qcalib("quantize", "m.onnx", "--data", "x.npy", "-o", "q.onnx", "--report", "report").new_files
    assert report
    content = json.loads((model / "report/report.json").read_text())
    content["more"] = ["x" * 100] * 20_000
    (model / "report/report.json").write_text(json.dumps(content))
    model_ = onnx.load(model / "m.onnx")
    model_.graph.initializer.append(numpy_helper.from_array(np.zeros(3_000_000, np.float32), "large"))
    onnx.save(model_, model / "m.onnx")
    for file in ("m.onnx", "report/report.json", "report"):
        qcalib("inspect", file)
        qcalib("inspect", file, "--memory-limit", "2G")
        for more in ((), ("--json",)):
            err = qcalib("inspect", file, *more, "--memory-limit", "20M", code=MACHINE).err
            assert file in err and "--memory-limit 20.0 MiB is too low" in err, err
