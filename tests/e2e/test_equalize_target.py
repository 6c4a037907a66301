# SPDX-License-Identifier: Apache-2.0
"""--equalize on networks that lose all accuracy with one scale per weight, and --target: values between a convolution
and a function. Checked in ONNX Runtime."""

import avx2_runtime
import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from measured_models import REAL_MODELS, Data, infer, top1
from onnx import TensorProto, helper, numpy_helper

THREADS = 2
MOBILENET = next(m for m in REAL_MODELS if m.name.startswith("mobilenetv1"))


@pytest.mark.nightly
def test_equalization_saves_one_scale_per_weight(qcalib, data, tmp_path):
    """Measured: 81.6 % in float, 81.2 % equalized, 74.2 % without (23.4 % before weights made good what the quantized
    network reads)."""
    avx2_runtime.skip_if_emulated()
    test = Data(data / MOBILENET.eval, MOBILENET.preprocess)
    shares, warned = {}, {}
    for how in ("auto", "off"):
        out = tmp_path / f"{how}.onnx"
        done = qcalib("--per-tensor", "--equalize", how, "--no-report", "-o", out, *MOBILENET.options(data))
        warned[how] = "one scale per weight is too coarse" in done.err and "--equalize on" in done.err
        shares[how] = top1(infer(out, test.inputs, THREADS)[0], test.labels)
    assert shares["auto"] > 78.5 > shares["off"]
    assert warned == {"auto": False, "off": True}


@pytest.fixture
def leaky(tmp_path):
    """Two convolutions with LeakyRelu between, and samples."""
    random = np.random.default_rng(1)
    weights = [
        numpy_helper.from_array(random.normal(size=s).astype("f4"), n)
        for n, s in (("w1", (8, 3, 3, 3)), ("b1", (8,)), ("w2", (4, 8, 3, 3)), ("b2", (4,)))
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c"], "first"),
        helper.make_node("LeakyRelu", ["c"], ["l"], "leaky", alpha=0.1),
        helper.make_node("Conv", ["l", "w2", "b2"], ["y"], "last"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["N", 3, 12, 12])],
        [value("y", TensorProto.FLOAT, ["N", 4, 8, 8])],
        weights,
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), tmp_path / "leaky.onnx"
    )
    x = random.normal(size=(64, 3, 12, 12)).astype("f4")
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = x
    return tmp_path / "leaky.onnx", tmp_path / "x.h5", x


@pytest.mark.integers
def test_target_fused_rounds_once(qcalib, leaky, tmp_path):
    model, samples, x = leaky
    run = lambda path: onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, {"x": x})[
        0
    ]
    want, error, between = run(model), {}, {}
    for target in ("ort", "fused"):
        out = tmp_path / f"{target}.onnx"
        qcalib("--target", target, "--no-report", "-o", out, "--data", samples, model)
        nodes = onnx.load(out).graph.node
        read = {i: n.op_type for n in nodes for i in n.input}
        first = next(n for n in nodes if n.name == "first")
        between[target] = read[first.output[0]]
        error[target] = float(((run(out) - want) ** 2).mean())
    assert between == {"ort": "QuantizeLinear", "fused": "LeakyRelu"}
    assert error["fused"] < error["ort"]
