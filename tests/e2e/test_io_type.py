# SPDX-License-Identifier: Apache-2.0
"""Integers at the inputs and outputs of a model: those that it has already, and --io-type."""

import json
import subprocess

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import ROOT
from test_quantize_odd import node, normal

SCALE, ZERO, OUT_SCALE, OUT_ZERO = np.float32(0.02), np.uint8(120), np.float32(0.015), np.uint8(128)


def write(path, integer_input=False, integer_output=False):
    x, y = ("xf" if integer_input else "x"), ("yf" if integer_output else "y")
    nodes = [
        node("Conv", [x, "w", "b"], "c"),
        node("Relu", ["c"], "r"),
        node("Conv", ["r", "w2"], y),
    ]
    if integer_input:
        nodes.insert(0, node("DequantizeLinear", ["x", "s", "z"], "xf"))
    if integer_output:
        nodes.append(node("QuantizeLinear", ["yf", "so", "zo"], "y"))
    kind = lambda integer: TensorProto.UINT8 if integer else TensorProto.FLOAT
    weights = dict(w=normal(8, 3, 3, 3), b=normal(8, 1)[:, 0], w2=normal(4, 8, 3, 3))
    weights |= dict(s=SCALE, z=ZERO, so=OUT_SCALE, zo=OUT_ZERO)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind(integer_input), ["N", 3, 12, 12])],
        [helper.make_tensor_value_info("y", kind(integer_output), ["N", 4, 8, 8])],
        [numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def samples(path, integer=False, count=32):
    levels = np.random.default_rng(1).integers(0, 256, (count, 3, 12, 12)).astype(np.uint8)
    x = levels if integer else (levels.astype(np.float32) - ZERO) * SCALE
    np.savez(path, x=x)
    return x


def run(model, feeds, outputs=None, level=ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
    """By default without rewrites, so that every operator computes what it says."""
    plain = ort.SessionOptions()
    plain.graph_optimization_level = level
    made = ort.InferenceSession(model if isinstance(model, bytes) else str(model), plain)
    return made.run(outputs, feeds)


def maker(model, value):
    return next(n for n in model.graph.node if value in n.output)


@pytest.mark.parametrize("integer_input", [False, True])
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_an_integer_output_is_rounded_once(integer_input, form, qcalib, tmp_path):
    """The result of the last convolution has the parameters of the model's QuantizeLinear, and no others before."""
    write(tmp_path / "m.onnx", integer_input, True)
    x = samples(tmp_path / "x.npz", integer_input)
    qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--no-report", "--format", form)
    made = onnx.load(tmp_path / "q.onnx")
    last = maker(made, "y")
    constants = {i.name: numpy_helper.to_array(i) for i in made.graph.initializer}
    if form == "qoperator":
        assert last.op_type == "QLinearConv"
        assert constants[last.input[6]] == OUT_SCALE and constants[last.input[7]] == OUT_ZERO
        return
    assert last.op_type == "QuantizeLinear" and maker(made, last.input[0]).op_type == "Conv"
    assert constants[last.input[1]] == OUT_SCALE and constants[last.input[2]] == OUT_ZERO
    made.graph.output.append(helper.make_tensor_value_info(last.input[0], TensorProto.FLOAT, None))
    y, real = run(made.SerializeToString(), {"x": x}, ["y", last.input[0]])
    once = np.clip(np.rint(real / OUT_SCALE) + OUT_ZERO, 0, 255)
    assert np.array_equal(y, once)


def parameters(path):
    """{name: (type, scale, zero point)} of metadata_props."""


    entries = {p.key: json.loads(p.value) for p in onnx.load(path).metadata_props}
    return {k.removeprefix("quantization:"): (v["type"], v["scale"], v["zero_point"]) for k, v in entries.items()}


def quantized(x, parameters):
    kind, scale, zero = parameters
    info = np.iinfo(kind)
    return np.clip(np.rint(x / np.float32(scale)) + zero, info.min, info.max).astype(kind)


def kinds(path):
    graph = onnx.load(path).graph
    name = lambda p: helper.tensor_dtype_to_np_dtype(p.type.tensor_type.elem_type).name
    return {p.name: name(p) for p in (*graph.input, *graph.output)}


@pytest.mark.integers
@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("kind", ["uint8", "int8", "model"])
@pytest.mark.parametrize("target", ["ort", "qnn", "vitis", "qnn uint16", "vitis uint16"])
def test_the_same_numbers_without_ends(target, kind, form, qcalib, tmp_path):
    """The file of --io-type is the file without it, minus the QuantizeLinear in front and the DequantizeLinear behind. Files for QNN and Vitis run in ONNX Runtime, with its optimizations too."""
    target, *activations = target.split()
    if form == "qoperator" and target != "ort":
        pytest.skip("these targets read QDQ")
    if activations and kind != "model":
        pytest.skip("integers of 16 bits have no form in 8")
    write(tmp_path / "m.onnx")
    x = samples(tmp_path / "x.npz")
    common = ("--data", "x.npz", "m.onnx", "--target", target, "--format", form, "--activation-type", *(activations or ["uint8"]))
    qcalib(*common, "-o", "f.onnx", "--no-report")
    qcalib(*common, "-o", "i.onnx", "--io-type", kind, "--report", "r")
    given = parameters(tmp_path / "i.onnx")
    seen = kinds(tmp_path / "i.onnx")
    assert {k: v[0] for k, v in given.items()} == seen and set(seen) == {"x", "y"}
    assert set(seen.values()) == ({kind} if kind != "model" else set(activations) or {"uint8"})
    dtype, scale, zero = given["y"]
    for level in ort.GraphOptimizationLevel.ORT_DISABLE_ALL, ort.GraphOptimizationLevel.ORT_ENABLE_ALL:
        (y,) = run(tmp_path / "i.onnx", {"x": quantized(x, given["x"])}, level=level)
        (real,) = run(tmp_path / "f.onnx", {"x": x}, level=level)
        np.testing.assert_array_equal((y.astype(np.float32) - zero) * np.float32(scale), real)


    listed = json.loads((tmp_path / "r/report.json").read_text())["integer_ports"]
    assert [(p["name"], p["direction"]) for p in listed] == [("x", "input"), ("y", "output")]
    for p in listed:
        assert (p["type"], p["zero_point"]) == given[p["name"]][::2] and p["scale"] == pytest.approx(given[p["name"]][1])


@pytest.mark.parametrize("kind", ["uint8", "int8"])
def test_nothing_is_left_at_the_ends(kind, qcalib, tmp_path):
    """With the type of the quantizers no operator is in front of the first product or behind the last one."""
    write(tmp_path / "m.onnx")
    samples(tmp_path / "x.npz")
    given = ("--data", "x.npz", "m.onnx", "--no-report", "--activation-type", kind, "--io-type", kind)
    qcalib(*given, "--format=qoperator", "-o", "q.onnx")
    assert [n.op_type for n in onnx.load(tmp_path / "q.onnx").graph.node] == ["QLinearConv"] * 2
    qcalib(*given, "-o", "q.onnx")
    made = onnx.load(tmp_path / "q.onnx")
    (first,) = (n for n in made.graph.node if "x" in n.input)
    last = maker(made, "y")
    assert first.op_type == "DequantizeLinear" and last.op_type == "QuantizeLinear"
    assert any(n.op_type == "Conv" and first.output[0] in n.input for n in made.graph.node)
    assert maker(made, last.input[0]).op_type == "Conv"


@pytest.mark.integers
def test_by_name_and_programs(qcalib, tmp_path):
    """One port; run, eval and compare take float data for integer inputs."""
    write(tmp_path / "m.onnx")
    x = samples(tmp_path / "x.npz")
    qcalib("--data", "x.npz", "m.onnx", "--no-report", "-o", "in.onnx", "--io-type", "model:x")
    assert kinds(tmp_path / "in.onnx") == {"x": "uint8", "y": "float32"}
    qcalib("--data", "x.npz", "m.onnx", "--no-report", "-o", "both.onnx", "--io-type", "model")
    qcalib("--data", "x.npz", "m.onnx", "--no-report", "-o", "f.onnx")
    assert parameters(tmp_path / "f.onnx") == {}
    seen = [
        qcalib("compare", "m.onnx", f"{name}.onnx", "--data", "x.npz", "--json").json["outputs"][0]["sqnr_db"]
        for name in ("f", "in", "both")
    ]
    assert seen[0] == seen[1] == seen[2] > 30
    np.savez(tmp_path / "t.npz", x=x, target=run(tmp_path / "m.onnx", {"x": x})[0])
    values = [
        qcalib("eval", f"{name}.onnx", "--data", "t.npz", "--json").json["models"][0]["mse"] for name in ("f", "both")
    ]
    assert values[0] == pytest.approx(values[1])


LITERT = ROOT / "build/venv/litert/bin/python"
WORKER = """
import sys, numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType as R
x, model = np.load(sys.argv[1]), Interpreter(sys.argv[2], experimental_op_resolver_type=R.BUILTIN_REF)
i, o = model.get_input_details()[0], model.get_output_details()[0]
model.allocate_tensors()
out = []
for piece in x:
    if i["dtype"] != np.float32:
        scale, zero = i["quantization"]
        piece = np.clip(np.rint(piece / np.float32(scale)) + zero, -128, 127).astype(i["dtype"])
    model.set_tensor(i["index"], piece[None])
    model.invoke()
    y = model.get_tensor(o["index"])[0]
    out.append((y.astype(np.float32) - o["quantization"][1]) * np.float32(o["quantization"][0]) if y.dtype == np.int8 else y)
np.save(sys.argv[3], np.stack(out))
print(i["dtype"].__name__, o["dtype"].__name__)
"""


@pytest.mark.skipif(not LITERT.exists(), reason="LiteRT is not installed: scripts/test makes build/venv/litert")
def test_tflite(qcalib, tmp_path):
    """int8 ends of a TensorFlow Lite file: LiteRT computes the numbers of the file with float ends."""
    write(tmp_path / "m.onnx")
    x = samples(tmp_path / "x.npz", count=8)
    np.save(tmp_path / "x.npy", np.ascontiguousarray(np.moveaxis(x, 1, -1)))
    made = {}
    for name, more, kind in (("f", (), "float32"), ("i", ("--io-type=int8",), "int8")):
        qcalib("--data", "x.npz", "m.onnx", "--no-report", "--format=tflite", "-o", f"{name}.tflite", *more)
        command = [LITERT, "-c", WORKER, "x.npy", f"{name}.tflite", f"{name}.npy"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.split() == [kind, kind]
        made[name] = np.load(tmp_path / f"{name}.npy")
    np.testing.assert_array_equal(made["i"], made["f"])


@pytest.mark.integers
def test_what_only_float_operators_read_or_make(qcalib, tmp_path):
    """With `model` such a port stays float; with a type it is rounded for the file, and the operator stays float."""
    nodes = [node("Conv", ["x", "w"], "c"), node("Softmax", ["c"], "p", axis=1), node("Erf", ["e"], "q")]
    port = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
    graph = helper.make_graph(
        nodes,
        "g",
        [port("x", ["N", 3, 8, 8]), port("e", ["N", 4])],
        [port("p", ["N", 4, 6, 6]), port("q", ["N", 4])],
        [numpy_helper.from_array(normal(4, 3, 3, 3), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(8, 3, 8, 8)).astype("f"), e=rng.normal(size=(8, 4)).astype("f"))
    given = ("--data", "x.npz", "m.onnx", "--no-report", "-o", "q.onnx")
    told = qcalib(*given, "--io-type=model").err
    assert "input 'e' stays float" in told and "output 'p' stays float" in told
    refused = qcalib(*given, "--io-type=model:p", code=4)
    assert "output 'p' cannot be integers" in refused.err
    assert qcalib(*given, "--io-type=uint8").err == ""
    made = onnx.load(tmp_path / "q.onnx")
    levels = {p.key.partition(":")[2]: json.loads(p.value) for p in made.metadata_props if p.key.startswith("quantization:")}
    assert set(levels) == {"x", "e", "p", "q"}
    assert all(v.type.tensor_type.elem_type == TensorProto.UINT8 for v in (*made.graph.input, *made.graph.output))
    feeds = dict(np.load(tmp_path / "x.npz"))
    real = dict(zip("pq", run(tmp_path / "m.onnx", feeds)))
    ints = {n: np.clip(np.rint(v / np.float32(levels[n]["scale"])) + levels[n]["zero_point"], 0, 255).astype(np.uint8) for n, v in feeds.items()}
    for name, q in zip("pq", run(tmp_path / "q.onnx", ints)):
        error = (q.astype(float) - levels[name]["zero_point"]) * levels[name]["scale"] - real[name]
        assert 10 * np.log10((real[name] ** 2).sum() / (error**2).sum()) > 25



def test_readers_in_float_read_the_integers(qcalib, tmp_path):
    """An input that a float operator reads too, in float16: it reads the rounded numbers."""
    nodes = [node("Conv", ["x", "w"], "c"), node("Erf", ["x"], "e")]
    port = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
    graph = helper.make_graph(
        nodes, "g", [port("x", [1, 3, 8, 8])], [port("c", [1, 4, 6, 6]), port("e", [1, 3, 8, 8])],
        [numpy_helper.from_array(normal(4, 3, 3, 3), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    x = np.random.default_rng(1).normal(size=(8, 3, 8, 8)).astype("f")
    np.savez(tmp_path / "x.npz", x=x)
    qcalib("--data", "x.npz", "m.onnx", "--no-report", "-o", "q.onnx", "--io-type=uint8:x")
    kind, scale, zero = given = parameters(tmp_path / "q.onnx")["x"]
    q = quantized(x[:1], given)
    real = (q.astype(np.float32) - zero) * np.float32(scale)
    (wanted,) = run(tmp_path / "m.onnx", {"x": real}, ["e"])
    np.testing.assert_allclose(run(tmp_path / "q.onnx", {"x": q}, ["e"])[0], wanted, atol=1e-6)


@pytest.mark.integers
@pytest.mark.parametrize("dtype", [TensorProto.FLOAT16])
def test_half_precision(dtype, qcalib, tmp_path):
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    graph = helper.make_graph(
        [node("Conv", ["x", "w"], "c"), node("Relu", ["c"], "y")],
        "g",
        [helper.make_tensor_value_info("x", dtype, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", dtype, [1, 4, 6, 6])],
        [numpy_helper.from_array(normal(4, 3, 3, 3).astype(kind), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    x = np.random.default_rng(1).normal(size=(8, 3, 8, 8)).astype(kind)
    np.savez(tmp_path / "x.npz", x=x)
    given = ("--data", "x.npz", "m.onnx", "--no-report")
    qcalib(*given, "-o", "i.onnx", "--io-type=model")
    qcalib(*given, "-o", "f.onnx")
    ports = parameters(tmp_path / "i.onnx")
    assert kinds(tmp_path / "i.onnx") == {"x": "uint8", "y": "uint8"}
    (y,) = run(tmp_path / "i.onnx", {"x": quantized(x[:1].astype(np.float32), ports["x"])})
    (real,) = run(tmp_path / "f.onnx", {"x": x[:1]})
    np.testing.assert_allclose((y.astype(np.float32) - ports["y"][2]) * ports["y"][1], real, atol=2e-3, rtol=2e-3)
