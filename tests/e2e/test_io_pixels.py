# SPDX-License-Identifier: Apache-2.0
"""--io-type pixels: a file that reads the bytes of images, channels last. It computes what the file with a float input
computes from preprocessed numbers. The numbers are preprocessed by NumPy; both files run in one runtime."""

import json
import subprocess

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import openvino_runtime
from test_io_type import LITERT, run
from test_quantize_odd import node, normal

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
# --preprocess, the operators that compute it in the file, and the numbers of scale, mean and std
EXACT = [("scale=1/255", 1 / 255, 0, 1), ("mean=128 std=128", 1, 128, 128), ("none", 1, 0, 1)]
KEPT = [("imagenet", 1 / 255, MEAN, STD), ("tensorflow", 1 / 127.5, 1, 1), ("yolo mean", 1 / 255, 0.5, 1)]


def preprocessed(x, scale, mean, std, axis=1):
    shape = [-1 if d == axis else 1 for d in range(x.ndim)]
    per = lambda v: np.asarray(v, np.float32).reshape(shape if np.ndim(v) else ())
    return (x.astype(np.float32) * per(scale) - per(mean)) / per(std)


def write(path, channels=3, last=False, dtype=TensorProto.FLOAT):
    """Two convolutions of an image; last: the image has its channels last, as models made of TensorFlow have."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    shape = ["N", 12, 12, channels] if last else ["N", channels, 12, 12]
    first = [node("Transpose", ["x"], "t", perm=[0, 3, 1, 2])] if last else []
    graph = helper.make_graph(
        [*first, node("Conv", ["t" if last else "x", "w"], "c"), node("Relu", ["c"], "r"), node("Conv", ["r", "v"], "y")],
        "g",
        [helper.make_tensor_value_info("x", dtype, shape)],
        [helper.make_tensor_value_info("y", dtype, ["N", 4, 8, 8])],
        [numpy_helper.from_array(normal(*s).astype(kind), n) for n, s in (("w", (8, channels, 3, 3)), ("v", (4, 8, 3, 3)))],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def pixels(path, channels=3, last=False, count=16):
    shape = (count, 12, 12, channels) if last else (count, channels, 12, 12)
    x = np.random.default_rng(1).integers(0, 256, shape).astype(np.uint8)
    np.savez(path, x=x)
    return x


def both(qcalib, text, *options, suffix="onnx", data=("--data", "x.npz")):
    """The file that reads bytes, p, and the file that reads floats, f."""
    given = (*data, "m.onnx", "--preprocess", text, *options)
    qcalib(*given, "-o", f"p.{suffix}", "--io-type", "pixels", "--report", "r")
    qcalib(*given, "-o", f"f.{suffix}", "--no-report")


def entry(path, name="x"):
    (value,) = (p.value for p in onnx.load(path).metadata_props if p.key == f"quantization:{name}")
    return json.loads(value)


def bytes_last(x):
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


@pytest.mark.integers
@pytest.mark.parametrize("form, target", [("qdq", "ort"), ("qoperator", "ort"), ("qdq", "qnn"), ("qdq", "vitis")])
@pytest.mark.parametrize("case", [*EXACT, *KEPT], ids=lambda c: c[0])
def test_the_numbers_of_the_float_input(case, form, target, qcalib, tmp_path):
    text, *numbers = case
    write(tmp_path / "m.onnx")
    x = pixels(tmp_path / "x.npz")
    both(qcalib, "scale=1/255 mean=.5" if text == "yolo mean" else text, "--format", form, "--target", target)
    (wanted,) = run(tmp_path / "f.onnx", {"x": preprocessed(x, *numbers)})
    np.testing.assert_array_equal(run(tmp_path / "p.onnx", {"x": bytes_last(x)})[0], wanted)
    whole = ort.InferenceSession(tmp_path / "p.onnx").run(None, {"x": bytes_last(x)})[0]
    assert np.isfinite(whole).all()
    made = onnx.load(tmp_path / "p.onnx")
    kinds = [n.op_type for n in made.graph.node]
    said, (port,) = entry(tmp_path / "p.onnx"), json.loads((tmp_path / "r/report.json").read_text())["integer_ports"]
    assert said["type"] == port["type"] == "uint8" and said["layout"] == port["layout"] == "nhwc"
    exact = case in (EXACT[1:2] if target == "vitis" else EXACT)  # Vitis has scales that are powers of two
    assert said["preprocess"] == port["preprocess"] and ("scale" in said) == ("scale" in port) == exact
    if exact and target != "vitis":  # the bytes are the integers of the first product
        assert not {"Cast", "Mul", "Sub", "Div"} & set(kinds) and kinds.count("QuantizeLinear") == (0 if form == "qoperator" else 2)
        assert kinds[:2] == ["Transpose", "QLinearConv" if form == "qoperator" else "DequantizeLinear"]
    elif case in KEPT:
        assert kinds[:3] == ["Transpose", "Cast", "Mul"] and "QuantizeLinear" in kinds[3:6]


@pytest.mark.parametrize("case", [EXACT[0], KEPT[0]], ids=lambda c: c[0])
def test_openvino(case, qcalib, tmp_path):
    if openvino_runtime.missing():
        pytest.skip(openvino_runtime.missing())
    text, *numbers = case
    write(tmp_path / "m.onnx")
    x = pixels(tmp_path / "x.npz")
    both(qcalib, text, "--target", "openvino")
    runtime = openvino_runtime.OpenVino()
    got = [
        runtime.run(tmp_path / name, [{"x": given}])[0]["y"]
        for name, given in (("p.onnx", bytes_last(x)), ("f.onnx", preprocessed(x, *numbers)))
    ]
    runtime.close()
    np.testing.assert_array_equal(*got)


WORKER = """
import sys, numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType as R
model = Interpreter(sys.argv[2], experimental_op_resolver_type=R.BUILTIN_REF)
i, o = model.get_input_details()[0], model.get_output_details()[0]
model.allocate_tensors()
out = []
for piece in np.load(sys.argv[1]):
    model.set_tensor(i["index"], piece[None])
    model.invoke()
    out.append(model.get_tensor(o["index"])[0])
np.save(sys.argv[3], np.stack(out))
print(i["dtype"].__name__)
"""


@pytest.mark.skipif(not LITERT.exists(), reason="LiteRT is not installed: scripts/test makes build/venv/litert")
@pytest.mark.parametrize("case", [EXACT[0], KEPT[0]], ids=lambda c: c[0])
def test_tflite(case, qcalib, tmp_path):
    text, *numbers = case
    write(tmp_path / "m.onnx")
    x = pixels(tmp_path / "x.npz", count=8)
    both(qcalib, text, "--format", "tflite", suffix="tflite")
    made = {}
    for name, given, kind in (("p", x, "uint8"), ("f", preprocessed(x, *numbers), "float32")):
        np.save(tmp_path / f"{name}.npy", bytes_last(given))
        command = [LITERT, "-c", WORKER, f"{name}.npy", f"{name}.tflite", f"{name}_out.npy"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [kind]
        made[name] = np.load(tmp_path / f"{name}_out.npy")
    np.testing.assert_array_equal(made["p"], made["f"])


@pytest.mark.integers
@pytest.mark.parametrize("kind", ["grey", "last", "half", "stats", "float first"])
def test_other_models(kind, qcalib, tmp_path):
    """Grey images, channels that are last in the model, float16, statistics in place of data, a first layer in float."""
    channels, last = (1 if kind == "grey" else 3), kind == "last"
    text, scale, mean, std = ("scale=1/255 mean=.3 std=.4", 1 / 255, 0.3, 0.4) if kind == "grey" else KEPT[0]
    write(tmp_path / "m.onnx", channels, last, TensorProto.FLOAT16 if kind == "half" else TensorProto.FLOAT)
    x = pixels(tmp_path / "x.npz", channels, last)
    data = ("--data", "x.npz")
    if kind == "stats":
        qcalib("collect", *data, "m.onnx", "--preprocess", text, "-o", "x.stats.h5")
        data = ("--stats", "x.stats.h5")
        told = qcalib(*data, "m.onnx", "--io-type", "pixels", "--no-report", code=2)
        assert "it needs --preprocess" in told.err
    both(qcalib, text, *(["--skip", "c"] if kind == "float first" else []), data=data)
    floats = preprocessed(x, scale, mean, std, 3 if last else 1)
    if kind == "half":
        floats = floats.astype(np.float16)
    (wanted,) = run(tmp_path / "f.onnx", {"x": floats})
    np.testing.assert_array_equal(run(tmp_path / "p.onnx", {"x": x if last else bytes_last(x)})[0], wanted)
    assert ("layout" in entry(tmp_path / "p.onnx")) != last
    assert [d.dim_param or d.dim_value for d in onnx.load(tmp_path / "p.onnx").graph.input[0].type.tensor_type.shape.dim] == ["N", 12, 12, channels]


@pytest.mark.integers
@pytest.mark.parametrize("case", [EXACT[0], KEPT[0]], ids=lambda c: c[0])
def test_programs_take_the_samples_of_the_model(case, qcalib, tmp_path):
    write(tmp_path / "m.onnx")
    x = pixels(tmp_path / "x.npz")
    both(qcalib, case[0])
    given = ("--data", "x.npz", "--preprocess", case[0])
    seen = [qcalib("compare", "m.onnx", f"{n}.onnx", *given, "--json").json["outputs"][0]["sqnr_db"] for n in "pf"]
    assert seen[0] == seen[1] > 30
    np.savez(tmp_path / "t.npz", x=x, target=run(tmp_path / "m.onnx", {"x": preprocessed(x, *case[1:])})[0])
    told = qcalib("eval", "p.onnx", "f.onnx", "--data", "t.npz", "--preprocess", case[0], "--json").json["models"]
    assert told[0]["mse"] == told[1]["mse"]
    assert "x u8 [N,12,12,3]" in qcalib("inspect", "p.onnx").out


def test_what_is_no_image(qcalib, tmp_path):
    """Other inputs stay float with a warning; one that is named is an error, and so is an output."""
    nodes = [node("Conv", ["x", "w"], "c"), node("MatMul", ["e", "v"], "q")]
    port = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
    graph = helper.make_graph(
        nodes, "g", [port("x", ["N", 3, 8, 8]), port("e", ["N", 4])], [port("c", ["N", 4, 6, 6]), port("q", ["N", 5])],
        [numpy_helper.from_array(normal(4, 3, 3, 3), "w"), numpy_helper.from_array(normal(4, 5), "v")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "x.npz", x=rng.integers(0, 256, (8, 3, 8, 8)).astype(np.uint8), e=rng.normal(size=(8, 4)).astype("f"))
    given = ("--data", "x.npz", "m.onnx", "--no-report", "-o", "q.onnx")
    assert "input 'e' stays float: pixels are an input" in qcalib(*given, "--io-type=pixels").err
    made = onnx.load(tmp_path / "q.onnx").graph
    assert [p.type.tensor_type.elem_type for p in (*made.input, *made.output)] == [TensorProto.UINT8, *[TensorProto.FLOAT] * 3]
    assert "stays float" not in qcalib(*given, "--io-type=pixels:x").err
    assert "input 'e' cannot be integers: pixels are an input" in qcalib(*given, "--io-type=pixels:e", code=4).err
    assert "output 'q' cannot be integers" in qcalib(*given, "--io-type=pixels:q", code=4).err


@pytest.mark.parametrize("value", ["[", '{"preprocess": "= = = = = ="}', '{"preprocess": 3}', '{"preprocess": "", "layout": "nhwc"}'])
def test_metadata_that_the_graph_does_not_follow(value, qcalib, tmp_path):
    """The file is taken as it is."""
    write(tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=normal(4, 3, 12, 12))
    model = onnx.load(tmp_path / "m.onnx")
    model.metadata_props.add(key="quantization:x", value=value)
    onnx.save(model, tmp_path / "n.onnx")
    assert qcalib("compare", "m.onnx", "n.onnx", "--data", "x.npz", "--json").json["outputs"][0]["equal"]
