# SPDX-License-Identifier: Apache-2.0
"""Outputs whose rows an operator puts in order are judged by what enters it; the file has the model's outputs alone."""

import json

import numpy as np
import onnx
import pytest
from measured_models import session
from onnx import TensorProto, helper, numpy_helper

from test_quantize_odd import node

SAMPLES, CLASSES, SIDE = 64, 3, 12
BOXES = SIDE * SIDE
FORMS = {
    "ort": (),
    **{t: ("--target", t) for t in ("openvino", "fused", "tensorrt", "tflite", "integers")},
    "qoperator": ("--format", "qoperator"),
    "annotated": ("--format", "annotated"),
    "uint16": ("--activation-type", "uint16"),
    "demand": ("--min-sqnr", "20"),
    "propagate": ("--propagate",),
    "scaled": ("--equalize", "on", "--scale-channels", "auto"),
    "sensitivity": ("--sensitivity",),
}


def weights():
    r = np.random.default_rng(3)
    return {
        "w": r.normal(0, 0.3, (16, 4, 3, 3)).astype(np.float32),
        "ws": r.normal(0, 0.4, (CLASSES, 16, 1, 1)).astype(np.float32),
        "wb": r.normal(0, 0.4, (4, 16, 1, 1)).astype(np.float32),
        "k": np.array([20]),
        "score_rows": np.array([0, CLASSES, BOXES]),
        "box_rows": np.array([0, 4, BOXES]),
        "four": np.array([1, 1, 4]),
        "last": np.array([-1]),
        "two": np.array([2]),
        "most": np.array([20], np.int64),
        "iou": np.array([0.5], np.float32),
        "least": np.array([0.2], np.float32),
        "head": r.normal(0, 0.4, (4, 6)).astype(np.float32),
    }


NECK = (
    node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
    node("Relu", ["c"], ["a"]),
    node("Conv", ["a", "ws"], ["logits"]),
    node("Conv", ["a", "wb"], ["b"]),
    node("Reshape", ["logits", "score_rows"], ["rows"]),
    node("Sigmoid", ["rows"], ["scores"]),
    node("Reshape", ["b", "box_rows"], ["b3"]),
    node("Transpose", ["b3"], ["boxes"], perm=[0, 2, 1]),
)
CHOOSE = (
    node("ReduceMax", ["scores"], ["best"], axes=[1], keepdims=0),
    node("TopK", ["best", "k"], ["tv", "ti"]),
    node("Unsqueeze", ["ti", "last"], ["ti1"]),
    node("Tile", ["ti1", "four"], ["i4"]),
    node("GatherElements", ["boxes", "i4"], ["ob"], axis=1),
)
SUPPRESS = (
    node("NonMaxSuppression", ["boxes", "scores", "most", "iou", "least"], ["chosen"]),
    node("Gather", ["chosen", "two"], ["which"], axis=1),
)
# nodes, outputs with their shapes, the values that are judged in place of outputs
MODELS = {
    "TopK": ((*NECK, *CHOOSE), {"tv": [1, 20], "ob": [1, 20, 4]}, {"best", "boxes"}),
    "TopK of an output": ((*NECK, *CHOOSE), {"tv": [1, 20], "ob": [1, 20, 4], "boxes": [1, BOXES, 4]}, {"best"}),
    "ArgMax": ((*NECK, node("ArgMax", ["scores"], ["y"], axis=1, keepdims=0)), {"y": [1, BOXES]}, {"scores"}),
    "NonMaxSuppression": ((*NECK, *SUPPRESS), {"which": ["n", 1]}, {"boxes", "scores"}),
    "a product follows": (
        (*NECK, *CHOOSE, node("MatMul", ["ob", "head"], ["y"])),
        {"tv": [1, 20], "y": [1, 20, 6]},
        {"best"},
    ),
    "only products follow": ((*NECK, *CHOOSE, node("MatMul", ["ob", "head"], ["y"])), {"y": [1, 20, 6]}, set()),
    "order of an input": (
        (*NECK, node("ArgMax", ["x"], ["at"], axis=1, keepdims=0), node("Cast", ["at"], ["y"], to=TensorProto.FLOAT)),
        {"y": [1, SIDE, SIDE], "scores": [1, CLASSES, BOXES]},
        set(),
    ),
}
INTEGERS = {"ArgMax": {"y"}, "NonMaxSuppression": {"which"}}


def made(name):
    nodes, outputs, judged = MODELS[name]
    kind = lambda o: TensorProto.INT64 if o in INTEGERS.get(name, ()) else TensorProto.FLOAT
    read = {i for n in nodes for i in n.input}
    model = helper.make_model(
        helper.make_graph(
            [onnx.NodeProto.FromString(n.SerializeToString()) for n in nodes],
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, SIDE, SIDE])],
            [helper.make_tensor_value_info(o, kind(o), shape) for o, shape in outputs.items()],
            [numpy_helper.from_array(v, k) for k, v in weights().items() if k in read],
        ),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    onnx.checker.check_model(model, full_check=True)
    return model, judged


@pytest.fixture
def samples(tmp_path):
    x = np.random.default_rng(5).normal(0, 1, (SAMPLES, 4, SIDE, SIDE)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    return x


@pytest.mark.parametrize("name", MODELS)
def test_it_is_judged_before_the_ordering(name, samples, qcalib, tmp_path):
    model, judged = made(name)
    onnx.save(model, tmp_path / "m.onnx")
    run = qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--report", "r")
    report = json.loads((tmp_path / "r/report.json").read_text())
    outputs = {o["name"]: o for o in report["outputs"]}
    assert {n for n, o in outputs.items() if o.get("written") is False} == judged
    for output, o in outputs.items():
        if o.get("ordered"):
            assert o["sqnr_db"] is None
        elif output not in INTEGERS.get(name, ()):
            assert "follow" in name or o["sqnr_db"] is None or o["sqnr_db"] > 20, (output, o)  # None: it is equal
    assert report["fallback"] is None or "follow" in name
    assert ("judged before" in run.out) == any(o.get("ordered") for o in list(outputs.values())[:2])
    written = session(tmp_path / "q.onnx")
    assert [o.name for o in written.get_outputs()] == [o.name for o in model.graph.output]
    written.run(None, {"x": samples[:1]})


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_outputs_of_the_model(form, samples, qcalib, tmp_path):
    model, _ = made("TopK")
    onnx.save(model, tmp_path / "m.onnx")
    qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--no-report", *FORMS[form])
    assert [o.name for o in onnx.load(tmp_path / "q.onnx").graph.output] == ["tv", "ob"]
