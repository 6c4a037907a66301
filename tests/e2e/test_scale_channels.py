# SPDX-License-Identifier: Apache-2.0
"""--scale-channels: channels are scaled between operators if that lowers the rounding error."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.default_rng(1717)
UNEVEN = np.exp(RANDOM.normal(size=96)).astype("f4")  # of channels of weights
W = {
    n: (RANDOM.standard_t(5, s) * 0.1).astype("f4")
    for n, s in {"wq": (96, 64), "wk": (96, 32), "w1": (96, 80), "w2": (80, 48)}.items()
}
W["wq"] *= UNEVEN[:, None]
W["wk"] *= UNEVEN[:, None]
W["w2"] *= np.exp(RANDOM.normal(size=(80, 1))).astype("f4")
OFF = ("--activation-type", "none", "--weight-type", "int4", "--weight-block", 32, "--advice", "off")


@pytest.fixture
def model(tmp_path):
    """A LayerNormalization that two products read, an RMS norm made of single operators, and two Gemms with a Relu between them."""
    value, node = helper.make_tensor_value_info, helper.make_node
    constants = W | {
        "gain": RANDOM.uniform(0.5, 2, 96).astype("f4"),
        "shift": RANDOM.normal(size=96).astype("f4"),
        "scale": RANDOM.uniform(0.5, 2, 96).astype("f4"),
        "b1": RANDOM.normal(size=80).astype("f4"),
        "eps": np.array([1e-5], "f4"),
        "rows": np.array([-1, 96]),
    }
    nodes = [
        node("LayerNormalization", ["x", "gain", "shift"], ["n"], "norm"),
        node("MatMul", ["n", "wq"], ["q"], "q"),
        node("MatMul", ["n", "wk"], ["k"], "k"),
        node("Mul", ["x", "x"], ["xx"]),
        node("ReduceMean", ["xx"], ["ms"], axes=[-1]),
        node("Add", ["ms", "eps"], ["me"]),
        node("Sqrt", ["me"], ["rms"]),
        node("Div", ["x", "rms"], ["u"]),
        node("Mul", ["u", "scale"], ["v"]),
        node("Reshape", ["v", "rows"], ["vr"]),
        node("Gemm", ["vr", "w1", "b1"], ["h"], "up"),
        node("Relu", ["h"], ["r"]),
        node("Gemm", ["r", "w2"], ["y"], "down"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["n", 6, 96])],
        [
            value("q", TensorProto.FLOAT, ["n", 6, 64]),
            value("k", TensorProto.FLOAT, ["n", 6, 32]),
            value("y", TensorProto.FLOAT, ["rows", 48]),
        ],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "model.onnx"
    )
    mix = RANDOM.normal(size=(24, 96)).astype("f4")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = (
            RANDOM.normal(size=(96, 6, 24)).astype("f4") @ mix + RANDOM.normal(size=(96, 6, 96)).astype("f4") * 0.3
        )
    return tmp_path / "model.onnx"


def test_convolutions(qcalib, tmp_path):
    """One tap, depthwise, one tap, with ReLU between: the depthwise one is scaled with what it stands between, and gains nothing itself."""
    value, node = helper.make_tensor_value_info, helper.make_node
    w = {
        "a": RANDOM.normal(size=(40, 8, 1, 1)),
        "d": RANDOM.normal(size=(40, 1, 3, 3)),
        "b": RANDOM.standard_t(4, size=(32, 40, 1, 1)) * np.exp(RANDOM.normal(size=(1, 40, 1, 1))),
    }
    nodes = [
        node("Conv", ["x", "a"], ["ya"], "a"),
        node("Relu", ["ya"], ["ra"]),
        node("Conv", ["ra", "d"], ["yd"], "d", group=40, pads=[1] * 4),
        node("Relu", ["yd"], ["rd"]),
        node("Conv", ["rd", "b"], ["y"], "b"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["n", 8, 9, 9])],
        [value("y", TensorProto.FLOAT, ["n", 32, 9, 9])],
        [numpy_helper.from_array(v.astype("f4"), n) for n, v in w.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "model.onnx"
    )
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = RANDOM.normal(size=(64, 8, 9, 9)).astype("f4")
    quantize(qcalib, tmp_path / "model.onnx", "off.onnx", "--scale-channels", "off")
    _, groups = quantize(qcalib, tmp_path / "model.onnx", "awq.onnx", "--scale-channels", "awq")
    assert [(g["name"], g["layers"], g["kind"]) for g in groups.values()] == [("yd", ["b"], "awq")]
    assert errors(tmp_path / "awq.onnx")[0] < errors(tmp_path / "off.onnx")[0]
    types = {
        n: onnx.TensorProto.DataType.Name(v.data_type)
        for v in onnx.load(tmp_path / "awq.onnx").graph.initializer
        for n in w
        if v.name.startswith(n + "_") and v.raw_data and v.data_type > 1
    }
    assert types == {"a": "INT8", "d": "INT8", "b": "INT4"}  # 8 and 9 weights for an output are fewer than a block


def run(path):
    with h5py.File(path.parent / "data.h5") as file:
        x = file["x"][:][::-1] + np.float32(0.01)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return [
        onnxruntime.InferenceSession(p, options, providers=["CPUExecutionProvider"]).run(None, {"x": x})
        for p in (path.parent / "model.onnx", path)
    ]


def errors(path):
    """Of each output, in ONNX Runtime: mean square relative to the output's."""
    real, ours = run(path)
    return np.array([np.square(a - b).mean() / np.square(a).mean() for a, b in zip(real, ours)])


def quantize(qcalib, model, out, *options):
    report = qcalib("--data", "data.h5", *OFF, *options, "--json", "--no-report", "-o", out, model).json
    return report, {g["name"]: g for g in report.get("scaled_channels", [])}


def test_auto_lowers_the_error_of_each_group(qcalib, model, tmp_path):
    off, none = quantize(qcalib, model, "off.onnx", "--scale-channels", "off")
    report, groups = quantize(qcalib, model, "auto.onnx")
    assert not none and "scaled_channels" not in off and report["options"]["scale-channels"] == "auto"
    assert {n: (sorted(g["layers"]), g["channels"]) for n, g in groups.items()} == {
        "n": (["k", "q"], 96),
        "v": (["up"], 96),
        "h": (["down"], 80),
    }
    assert all(
        g["kind"] in ("awq", None) and (g["error_ratio"] < 0.97) == (g["kind"] == "awq") for g in groups.values()
    )
    assert groups["n"]["kind"] == groups["h"]["kind"] == "awq"
    before, after = errors(tmp_path / "off.onnx"), errors(tmp_path / "auto.onnx")
    assert (after[:2].sum() < 0.95 * before[:2].sum()) and after[2] < before[2], (before, after)


def test_scales_are_folded_exactly(qcalib, model, tmp_path):
    """The gain and the shift are divided, and the function stays; with 8 bits there is nothing to gain, and nothing changes."""
    quantize(qcalib, model, "awq.onnx", "--scale-channels", "awq", "--weight-type", "int4")
    made, was = (
        {i.name: numpy_helper.to_array(i) for i in onnx.load(tmp_path / f).graph.initializer}
        for f in ("awq.onnx", "model.onnx")
    )
    ratio = was["gain"] / made["gain"]
    assert np.allclose(was["shift"] / made["shift"], ratio, rtol=1e-5) and ratio.max() / ratio.min() > 1.5
    quantize(qcalib, model, "8.onnx", "--weight-type", "int8")
    quantize(qcalib, model, "8off.onnx", "--weight-type", "int8", "--scale-channels", "off")
    assert (tmp_path / "8.onnx").read_bytes() == (tmp_path / "8off.onnx").read_bytes()
    assert errors(tmp_path / "awq.onnx").max() < 0.05


def test_refused(qcalib, model):
    for wrong in (("--propagate",), ("--per-tensor",)):
        assert "--scale-channels" in qcalib("--data", "data.h5", "--scale-channels", "awq", *wrong, model, code=2).err
    assert "--data" in qcalib("--activation-type", "none", "--scale-channels", "awq", model, code=2).err


def test_rounding_to_nearest_gains_too(qcalib, model, tmp_path):
    """Second moments are taken for the scales alone."""
    near = ("--weight-rounding", "nearest", "--bias-correction", "off", "--scale-channels")
    quantize(qcalib, model, "off.onnx", *near, "off")
    _, groups = quantize(qcalib, model, "awq.onnx", *near, "awq")
    assert (
        groups["n"]["kind"] == "awq"
        and errors(tmp_path / "awq.onnx")[:2].sum() < errors(tmp_path / "off.onnx")[:2].sum()
    )


@pytest.mark.integers
def test_statistics_are_as_good_as_data(qcalib, model, tmp_path):
    quantize(qcalib, model, "data.onnx")
    qcalib("collect", "--data", "data.h5", "-o", "s.h5", model)
    qcalib("--stats", "s.h5", "--data", "data.h5", *OFF, "--no-report", "-o", "stats.onnx", model)
    assert (tmp_path / "data.onnx").read_bytes() == (tmp_path / "stats.onnx").read_bytes()


@pytest.mark.integers
@pytest.mark.parametrize("options", [("--activation-type", "dynamic"), ("--scale-channels", "smooth")])
def test_rounded_inputs(qcalib, model, tmp_path, options):
    """Channels of very different sizes: what is rounded by one step becomes more alike. Dynamic by itself, by seen ranges where it is asked for."""
    m = onnx.load(model)
    for i in m.graph.initializer:
        if i.name in ("gain", "shift"):
            i.CopyFrom(
                numpy_helper.from_array(
                    numpy_helper.to_array(i) * np.where(np.arange(96) % 31, 1, 40).astype("f4"), i.name
                )
            )
    onnx.save(m, model)
    base = ("--data", "data.h5", "--advice", "off", "--json", "--no-report", *options)
    off = qcalib(*base, "--scale-channels", "off", "-o", "off.onnx", model).json
    report = qcalib(*base, "-o", "on.onnx", model).json
    groups = {g["name"]: g for g in report["scaled_channels"]}
    assert groups["n"]["kind"] == "smooth" and groups["n"]["error_ratio"] < 0.5 and "scaled_channels" not in off
    before, after = errors(tmp_path / "off.onnx"), errors(tmp_path / "on.onnx")
    assert after[:2].sum() < 0.5 * before[:2].sum(), (before, after)


def test_advice_after_a_warning(qcalib, tmp_path):
    """A sample is left over, which the job warns of before its stages; branches of the job scale channels too."""
    node, value = helper.make_node, helper.make_tensor_value_info
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array((rng.normal(size=(64, 64)) / 8).astype("f4"), f"w{i}") for i in range(4)]
    nodes = [
        n
        for i in range(4)
        for n in (node("MatMul", [f"r{i}", f"w{i}"], [f"h{i}"], f"m{i}"), node("Relu", [f"h{i}"], [f"r{i + 1}"]))
    ]
    graph = helper.make_graph(nodes, "g", [value("r0", 1, [2, 64])], [value("r4", 1, [2, 64])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    np.save(tmp_path / "x.npy", rng.normal(size=(65, 64)).astype("f4"))
    qcalib("--data", "x.npy", *OFF[:4], "--weight-block", 16, "--advice", "on", "-o", "q.onnx", "m.onnx")
