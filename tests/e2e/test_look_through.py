# SPDX-License-Identifier: Apache-2.0
"""--look-through: ranges of quantizers that are read only by a function of one variable, chosen by the error after the
function. Output SQNR in ONNX Runtime with and without it."""

import json
import re

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

LAYERS, WIDTH = 5, 24
NETWORKS = {  # nodes from %x to %y
    "LeakyRelu": lambda x, y: [helper.make_node("LeakyRelu", [x], [y], alpha=0.1)],
    "HardSwish": lambda x, y: [helper.make_node("HardSwish", [x], [y])],
    "SiLU": lambda x, y: [helper.make_node("Sigmoid", [x], [y + "_s"]), helper.make_node("Mul", [x, y + "_s"], [y])],
    "Tanh": lambda x, y: [helper.make_node("Tanh", [x], [y])],
    "scaled": lambda x, y: [
        helper.make_node("Mul", [x, "two"], [y + "_m"]),
        helper.make_node("HardSigmoid", [y + "_m"], [y]),
    ],
    "Relu": lambda x, y: [helper.make_node("Relu", [x], [y])],
}
BEHIND = {
    "LeakyRelu": {"LeakyRelu(x; alpha=0.1)"},
    "HardSwish": {"HardSwish(x)"},
    "SiLU": {"Mul(x, Sigmoid(x))"},
    "Tanh": {"Tanh(x)"},
    "scaled": {"HardSigmoid(Mul(x, 2))", "HardSigmoid(x)"},
}
GAIN = {
    "LeakyRelu": 0.1,
    "HardSwish": 0.7,
    "SiLU": 0.5,
    "Tanh": 1.5,
    "scaled": 0.5,
}  # dB; measured: 0.2, 1.1, 0.8, 2.4, 0.8


def make(kind, folder):
    """Convolutions of random weights, the function behind each, and samples."""
    random, nodes, weights, x = (
        np.random.default_rng(4),
        [],
        [numpy_helper.from_array(np.float32(2), "two")] if kind == "scaled" else [],
        "x",
    )
    for k in range(LAYERS):
        c = 3 if k == 0 else WIDTH
        weights += [
            numpy_helper.from_array((random.normal(size=(WIDTH, c, 3, 3)) * 2 / np.sqrt(9 * c)).astype("f4"), f"w{k}"),
            numpy_helper.from_array((random.normal(size=WIDTH) * 0.3).astype("f4"), f"b{k}"),
        ]
        nodes += [
            helper.make_node("Conv", [x, f"w{k}", f"b{k}"], [f"c{k}"], f"conv{k}", pads=[1, 1, 1, 1]),
            *NETWORKS[kind](f"c{k}", f"f{k}"),
        ]
        x = f"f{k}"
    weights.append(numpy_helper.from_array((random.normal(size=(8, WIDTH, 1, 1)) / np.sqrt(WIDTH)).astype("f4"), "wy"))
    nodes.append(helper.make_node("Conv", [x, "wy"], ["y"], "last"))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["N", 3, 12, 12])],
        [value("y", TensorProto.FLOAT, ["N", 8, 12, 12])],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), folder / "net.onnx")
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = random.normal(size=(32, 3, 12, 12)).astype("f4")
    return random.normal(size=(64, 3, 12, 12)).astype("f4")


def sqnr(folder, model, x):
    run = (
        lambda path: onnxruntime.InferenceSession(str(folder / path), providers=["CPUExecutionProvider"])
        .run(None, {"x": x})[0]
        .astype("f8")
    )
    want = run("net.onnx")
    return 10 * np.log10((want**2).sum() / ((run(model) - want) ** 2).sum())


@pytest.mark.parametrize("kind", NETWORKS)
def test_it_gains_behind_functions_and_changes_nothing_else(kind, qcalib, tmp_path):
    x, got, behind, causes = make(kind, tmp_path), {}, {}, {}
    for how in ("on", "off"):
        qcalib("--data", "x.h5", "net.onnx", "--look-through", how, "--prefer", "integers", "--effort", "low", "-o", f"{how}.onnx", "--report", how)
        got[how] = sqnr(tmp_path, f"{how}.onnx", x)
        report = json.loads((tmp_path / how / "report.json").read_text())
        layers = report["layers"]
        causes[how] = {n for s in report["suggestions"] for n in re.findall(r"'(c\d)'", s["why"])}
        behind[how] = {
            l["name"]: l["solver"]["behind"] for l in layers if l["kind"] == "activation" and l["solver"]["behind"]
        }
    assert behind["off"] == {}
    if kind == "Relu":
        assert behind["on"] == {} and (tmp_path / "on.onnx").read_bytes() == (tmp_path / "off.onnx").read_bytes()
        return
    assert not causes["on"] & set(behind["on"])  # an error that the function takes away hurts nobody
    assert {f"c{k}" for k in range(LAYERS)} <= set(behind["on"]) and set(behind["on"].values()) == BEHIND[kind]
    assert got["on"] > got["off"] + GAIN[kind]


def test_threads_make_no_difference(qcalib, tmp_path):
    make("SiLU", tmp_path)
    for threads in (1, 3):
        qcalib("--data", "x.h5", "net.onnx", "--no-report", "--threads", threads, "-o", f"{threads}.onnx")
    assert (tmp_path / "1.onnx").read_bytes() == (tmp_path / "3.onnx").read_bytes()
