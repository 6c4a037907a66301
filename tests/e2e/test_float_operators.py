# SPDX-License-Identifier: Apache-2.0
"""Operators that stay in float because that costs neither latency nor bytes, and the outputs gain."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

CHANNELS, SIDE, ROUNDS = 64, 16, 2


def moved(path):
    """Positions that are moved by small steps, as networks for optical flow do it: the output is the sum of the steps, and
    is small beside the positions, which share the levels of 8 bits."""
    rng = np.random.default_rng(3)
    nodes, constants = [], []

    def constant(name, value):
        constants.append(numpy_helper.from_array(np.asarray(value, np.float32), name))
        return name

    def conv(name, x, inputs, outputs):
        w = rng.standard_normal((outputs, inputs, 3, 3)) / np.sqrt(9 * inputs)
        nodes.append(helper.make_node("Conv", [x, constant(f"{name}_w", w)], [f"{name}_y"], name, pads=[1] * 4))
        return f"{name}_y"

    def node(op, name, *inputs):
        nodes.append(helper.make_node(op, inputs, [f"{name}_y"], name))
        return f"{name}_y"

    at = np.stack(np.meshgrid(np.arange(SIDE), np.arange(SIDE))).astype(np.float32)[None] * 8
    grid = constant("grid", at)
    features = node("Relu", "act", conv("first", "x", 8, CHANNELS))
    for k in range(3):
        features = node("Relu", f"act{k}", conv(f"deep{k}", features, CHANNELS, CHANNELS))
    place = grid
    for k in range(ROUNDS):
        flow = node("Sub", f"flow{k}", place, grid)
        inner = node("Add", f"mix{k}", conv(f"look{k}", flow, 2, CHANNELS), features)
        step = conv(f"step{k}", node("Relu", f"on{k}", inner), CHANNELS, 2)
        place = node("Add", f"move{k}", place, step)
    node("Sub", "out", place, grid)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8, SIDE, SIDE])],
        [helper.make_tensor_value_info("out_y", TensorProto.FLOAT, ["N", 2, SIDE, SIDE])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


@pytest.fixture
def job(qcalib, tmp_path):
    """job(OPTION, ...): the report, and the SQNR of the file in ONNX Runtime on samples that the job has not seen."""
    moved(tmp_path / "m.onnx")
    x = np.random.default_rng(4).standard_normal((64, 8, SIDE, SIDE)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x[:48])

    def run(*options):
        report = qcalib("--data", "x.npz", "-o", "q.onnx", "--no-report", "--json", *options, "m.onnx").json
        real, made = (
            onnxruntime.InferenceSession(str(tmp_path / f)).run(None, {"x": x[48:]})[0] for f in ("m.onnx", "q.onnx")
        )
        return report, 10 * np.log10((real**2).sum() / ((real - made) ** 2).sum())

    return run


def floats(report):
    return [o for f in report.get("free_changes", []) if f["kept"] and f["name"] == "float_operators" for o in f["options"]]


def test_sums_of_positions_stay_in_float(job, tmp_path):
    plain, before = job("--effort", "low", "--activation-type", "uint8")  # else wider types help
    report, after = job()
    content = (tmp_path / "q.onnx").read_bytes()
    assert floats(report) and all(o.split("=")[1][:4] in ("move", "flow", "out") for o in floats(report)), report["free_changes"]
    assert after > before + 3, (before, after)
    assert report["cost"]["latency"] <= 1.01 * plain["cost"]["latency"]
    assert report["cost"]["bytes"] <= 1.05 * plain["cost"]["bytes"]
    assert report["integer_share"] == plain["integer_share"]
    job("--threads", "3")
    assert (tmp_path / "q.onnx").read_bytes() == content


@pytest.mark.parametrize(
    "options", [("--prefer", "integers"), ("--prefer", "size"), ("--target", "tflite"), ("--effort", "low")], ids=" ".join
)
def test_not_where_integers_are_demanded(job, options):
    report, _ = job(*options)
    assert not floats(report)


def test_the_summary_claims_no_free_gain(job, qcalib):
    """Operators in float may cost a percent of the latency."""
    job()
    lines = qcalib("--data", "x.npz", "-o", "q.onnx", "--no-report", "m.onnx").out.splitlines()
    (line,) = [l for l in lines if l.startswith("improved")]
    assert "--skip=" in line and line.endswith("at most 1 % slower (estimated)")


def test_the_options_give_the_same_file(job, tmp_path):
    report, _ = job()
    content = (tmp_path / "q.onnx").read_bytes()
    job("--effort", "low", *floats(report))
    assert (tmp_path / "q.onnx").read_bytes() == content


def test_a_convolution_that_begins_a_residual_block_stays_in_integers(qcalib, data):
    """In float it would bring its order of channels into each sum behind it: 350 us instead of 325."""
    given = ("--data", data / "cifar10_calib.h5", data / "models/resnet20_cifar10.onnx", "--no-report", "--json")
    report = qcalib(*given, "--advice", "off", "-o", "q.onnx").json
    tried = [o for f in report.get("free_changes", []) for o in f["options"]]
    assert "--skip=/conv1/Conv" not in tried and report["integer_share"] == 1
