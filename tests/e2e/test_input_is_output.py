# SPDX-License-Identifier: Apache-2.0
"""An input that is also an output passes through unchanged, with every target and form; ONNX Runtime loads the file."""

import numpy as np
import onnx
import pytest
from measured_models import session, sqnr
from onnx import TensorProto, helper, numpy_helper

from control_models import body, value
from test_quantize_odd import W2, B, W, conv, node, normal

SAMPLES = 16
SHAPE = (4, 12, 12)
FORMS = {
    "ort": (),
    **{t: ("--target", t) for t in ("openvino", "fused", "tensorrt", "qnn", "vitis", "tflite", "integers")},
    "uint16": ("--activation-type", "uint16"),
    "float8": ("--activation-type", "float8e4m3fn", "--weight-type", "float8e4m3fn"),
    "dynamic": ("--activation-type", "dynamic"),
    "weights": ("--activation-type", "none"),
    "qoperator": ("--format", "qoperator"),
    "annotated": ("--format", "annotated"),
    "integers only": ("--require-integer",),
}


def model(nodes, outputs, dtype=TensorProto.FLOAT, **weights):
    """y is computed; the other outputs are the input x."""
    shape = lambda channels: ["N", channels, *SHAPE[1:]]
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    made = helper.make_model(
        helper.make_graph(
            nodes,
            "g",
            [helper.make_tensor_value_info("x", dtype, shape(4))],
            [helper.make_tensor_value_info(n, dtype, shape(8 if n == "y" else 4)) for n in outputs],
            [numpy_helper.from_array(a.astype(kind) if a.dtype == np.float32 else a, n) for n, a in weights.items()],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.checker.check_model(made, full_check=True)
    return made


def in_loop():
    """A state of the body passes through, and so does the state that a convolution reads."""
    inner = body(
        "body",
        [conv("s", "c", "w3", None), node("Identity", ["going"], "goes")],
        [value("i", (), TensorProto.INT64), value("going", (), TensorProto.BOOL), value("s", (None,) * 4), value("k", (None,) * 4)],
        [value("goes", (), TensorProto.BOOL), value("c", (None,) * 4), value("k", (None,) * 4), value("s", (None,) * 4)],
    )
    return model(
        [node("Loop", ["trips", "on", "x", "x"], ["l", "k2", "all"], body=inner), conv("l", "y"), node("Identity", ["k2"], "z")],
        ("y", "z", "x"),
        w=W,
        b=B,
        w3=normal(4, 4, 3, 3),
        trips=np.array(1),
        on=np.array(True),
    )


MODELS = {
    "itself": lambda: model([conv("x", "y")], ("y", "x"), w=W, b=B),
    "first": lambda: model([conv("x", "y")], ("x", "y"), w=W, b=B),
    "copy": lambda: model([conv("x", "y"), node("Identity", ["x"], "z")], ("y", "z", "x"), w=W, b=B),
    "read twice": lambda: model(
        [conv("x", "a"), node("Relu", ["a"], "r"), conv("r", "c", "w2"), conv("x", "d"), node("Add", ["c", "d"], "y")],
        ("y", "x"),
        w=W,
        w2=W2,
        b=B,
    ),
    "float16": lambda: model([conv("x", "y")], ("y", "x"), TensorProto.FLOAT16, w=W, b=B),
    "loop": in_loop,
}


@pytest.fixture(params=MODELS)
def made(request, tmp_path):
    """The name of a model in m.onnx, and its samples, which are in x.npz."""
    m = MODELS[request.param]()
    onnx.save(m, tmp_path / "m.onnx")
    x = np.random.default_rng(1).normal(size=(SAMPLES, *SHAPE))
    x = x.astype(helper.tensor_dtype_to_np_dtype(m.graph.input[0].type.tensor_type.elem_type))
    np.savez(tmp_path / "x.npz", x=x)
    return request.param, x


def check(path, original, x):
    """Every output that is x has its bits; y is close."""
    s = session(path)
    got = dict(zip([o.name for o in s.get_outputs()], s.run(None, {"x": x})))
    s = session(original)
    want = dict(zip([o.name for o in s.get_outputs()], s.run(None, {"x": x})))
    assert list(got) == list(want)
    for name, values in want.items():
        if name == "y":
            assert sqnr([values], [got[name]])[0] > 20
        else:
            assert np.array_equal(values, x) and np.array_equal(got[name], x) and got[name].dtype == x.dtype, name


@pytest.mark.parametrize("form", FORMS)
def test_passes_through(form, made, qcalib, tmp_path):
    name, x = made
    if form == "annotated" and name == "float16":
        pytest.skip("the annotated graph is a float32 model")
    if form in ("annotated", "integers only") and name == "loop":
        pytest.skip("a Loop has no annotated and no integer form")
    qcalib("--data", "x.npz", "m.onnx", "--no-report", "-o", "q.onnx", *FORMS[form])
    check(tmp_path / "q.onnx", tmp_path / "m.onnx", x)


def test_statistics_and_convert(made, qcalib, tmp_path):
    name, x = made
    qcalib("collect", "--data", "x.npz", "m.onnx", "-o", "m.stats.h5")
    if name != "loop":  # bodies need the data themselves
        qcalib("--stats", "m.stats.h5", "m.onnx", "--no-report", "-o", "s.onnx")
        check(tmp_path / "s.onnx", tmp_path / "m.onnx", x)
    qcalib("--data", "x.npz", "m.onnx", "--no-report", "--prefer", "integers", "-o", "q.onnx")
    for form in ("qdq", "qoperator"):
        qcalib("convert", "q.onnx", "--format", form, "-o", "c.onnx")
        check(tmp_path / "c.onnx", tmp_path / "m.onnx", x)
    report = qcalib("compare", "m.onnx", "q.onnx", "--data", "x.npz")
    assert "output x: equal, bit for bit" in report.out
