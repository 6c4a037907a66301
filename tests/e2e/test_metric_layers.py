# SPDX-License-Identifier: Apache-2.0
"""--sensitivity with --metric: each layer alone in integers is measured by the program, in ONNX Runtime."""

import json
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import ROOT
from test_metric import PROGRAMS, folder, program  # noqa: F401
from test_quantize_odd import node, normal

KEEP = """
import pathlib, shutil
kept = pathlib.Path("kept")
kept.mkdir(exist_ok=True)
shutil.copy(sys.argv[1], kept / f"{len(list(kept.iterdir()))}.onnx")
"""


def effects(folder, report="m.int3.report"):
    return json.loads((folder / report / "report.json").read_text())["sensitivity"]


def in_integers(path):
    """The products of a file whose weight is dequantized."""
    graph = onnx.load(path).graph
    made = {o: n for n in graph.node for o in n.output}
    names = set()
    for n in graph.node:
        by = made.get(n.input[1]) if n.op_type in ("Conv", "Gemm", "MatMul") else None
        if by and by.op_type in ("DequantizeLinear", "Cast", "Reshape", "Transpose"):
            names.add(n.output[0])
    return names


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_layer_alone(name, qcalib, folder):  # noqa: F811
    """The program gets a file for each layer, in which only this layer is in integers; the largest loss comes first."""
    text = program(folder, name)
    source = next(folder.glob("*.py"))
    source.write_text(source.read_text() + KEEP)
    qcalib("--data", "x.npz", "m.onnx", "--weight-type", "int3", "--sensitivity", "--effort", "low", text)
    found = effects(folder)
    report = json.loads((folder / "m.int3.report/report.json").read_text())["accuracy"]
    assert [e["drop"] for e in found] == sorted((e["drop"] for e in found), reverse=True)
    assert name == "retrieval" or len({e["value"] for e in found}) > 1, "the program tells layers apart"
    sign = -1 if "lower:" in text else 1
    for e in found:
        assert e["drop"] == pytest.approx(sign * (report["fp32"] - e["value"]))
    alone = [frozenset(in_integers(f)) for f in (folder / "kept").iterdir()]
    assert {frozenset([e["node"]]) for e in found} <= set(alone), alone


def test_the_accuracy_of_the_program_is_that_of_eval(qcalib, tmp_path):
    """Top-1 by ONNX Runtime on a file with one layer in integers, and by a program that reads outputs."""
    (tmp_path / "acc.py").write_text(
        "import sys, h5py, numpy as np, onnxruntime as ort\n"
        f"f = h5py.File('{ROOT}/datasets/digits_test.h5')\n"
        "x = (f['input'][:].astype('f') / 16 - np.float32(0.30544677)) / np.float32(0.37608194)\n"
        "s = ort.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])\n"
        "print(np.mean(s.run(None, {'input': x})[0].argmax(1) == f['labels'][:]))\n"
    )
    (tmp_path / "out.py").write_text(
        "import sys, h5py\nf = h5py.File(sys.argv[1])\nprint((f['logits'][:].argmax(1) == f['labels'][:]).mean())\n"
    )
    found = {}
    data = [f"{ROOT}/datasets/digits_calib.h5", "--eval", f"{ROOT}/datasets/digits_test.h5"]
    for name, more in (("own", []), ("file", ["--metric", f"'{sys.executable}' acc.py {{}}"]), ("outputs", ["--metric", f"'{sys.executable}' out.py {{outputs}}"])):
        given = ["--data", *data, "--weight-type", "int3", "--sensitivity", "--advice", "off", *more]
        qcalib(*given, f"{ROOT}/datasets/digits_cnn.onnx", "-o", "q.onnx", "--report", name)
        found[name] = {e["node"]: e["value"] for e in effects(tmp_path, name)}
    assert len(set(found["own"].values())) > 2
    for name in ("file", "outputs"):
        assert found[name] == pytest.approx(found["own"], abs=1.01 / 597), name


def chain(path, layers, dtype=TensorProto.FLOAT):
    """Convolutions with sums and pools between them, so that quantized values have several readers."""
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    nodes, weights, x = [], {}, "x"
    for i in range(layers):
        weights[f"w{i}"] = (np.random.default_rng(i).normal(size=(4, 4, 3, 3)) / 4).astype(kind)
        nodes.append(node("Conv", [x, f"w{i}"], f"c{i}", pads=[1] * 4))
        y = f"c{i}"
        if i % 4 == 0:
            nodes.append(node("Relu", [y], f"r{i}"))
        elif i % 4 == 1:
            nodes.append(node("Add", [y, x], f"r{i}"))
        elif i % 4 == 2:
            nodes.append(node("AveragePool", [y], f"r{i}", kernel_shape=[3, 3], pads=[1] * 4))
        else:
            nodes.append(node("MaxPool", [y], f"r{i}", kernel_shape=[3, 3], pads=[1] * 4))
        x = f"r{i}"
    weights["v"] = np.random.default_rng(layers).normal(size=(8, 4, 1, 1)).astype(kind)
    nodes.append(node("Conv", [x, "v"], "y"))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", dtype, ["N", 4, 8, 8])],
        [helper.make_tensor_value_info("y", dtype, ["N", 8, 8, 8])],
        [numpy_helper.from_array(w, n) for n, w in weights.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    np.savez(path.parent / "x.npz", x=np.random.default_rng(1).normal(size=(16, 4, 8, 8)).astype(kind))


ERROR = """
import sys
import numpy as np
import onnxruntime as ort
run = lambda f: ort.InferenceSession(f, providers=["CPUExecutionProvider"]).run(None, dict(np.load("x.npz")))[0].astype(float)
want, got = run("m.onnx"), run(sys.argv[1])
print(10 * np.log10((want ** 2).sum() / max(((want - got) ** 2).sum(), 1e-12)))
"""


@pytest.mark.parametrize(
    "options",
    [[], ["--format=qoperator"], ["--activation-type=none"], ["--activation-type=int8"], ["half"]],
    ids=lambda o: " ".join(o),
)
def test_the_sqnr_of_the_program_is_that_of_the_report(options, qcalib, tmp_path):
    """A program that computes the SQNR of the outputs in ONNX Runtime finds that of --sensitivity."""
    half = options == ["half"]
    chain(tmp_path / "m.onnx", 4, TensorProto.FLOAT16 if half else TensorProto.FLOAT)
    (tmp_path / "db.py").write_text(ERROR)
    more = [] if half else options
    qcalib("--data", "x.npz", "m.onnx", "--sensitivity", "--prefer", "integers", "--effort", "low", "--advice", "off", "--overflow-fix", "off", *more, "--metric", f"'{sys.executable}' db.py {{}}", "-o", "q.onnx", "--report", "r")
    found = effects(tmp_path, "r")
    assert len(found) >= 4
    for e in found:
        if e["sqnr_db"] is None or e["sqnr_db"] > (50 if half else 90):
            continue
        assert e["value"] == pytest.approx(e["sqnr_db"], abs=1.5), e


def test_the_program_runs_for_the_noisiest_layers_alone(qcalib, tmp_path):
    """A run of the program for each of 24 layers, the float model and the file."""
    chain(tmp_path / "m.onnx", 30)
    (tmp_path / "db.py").write_text(ERROR + "open('runs', 'a').write('run\\n')\n")
    qcalib("--data", "x.npz", "m.onnx", "--sensitivity", "--advice", "off", "--prefer", "integers", "--effort", "low", "--metric", f"'{sys.executable}' db.py {{}}", "-o", "q.onnx", "--report", "r")
    found = effects(tmp_path, "r")
    known = [e["drop"] is not None for e in found]
    assert len(found) > 30 and known == [True] * 24 + [False] * (len(found) - 24)
    assert len((tmp_path / "runs").read_text().split()) == 26


def test_a_format_without_float_layers(qcalib, tmp_path):
    chain(tmp_path / "m.onnx", 3)
    told = qcalib("--data", "x.npz", "m.onnx", "--sensitivity", "--advice", "off", "--format", "tflite", "--metric", f"'{sys.executable}' -c 'print(1)' {{}}", "-o", "q.tflite", "--report", "r")
    assert "--metric does not measure" in told.err and "format tflite" in told.err
    assert any(e["drop"] is None for e in effects(tmp_path, "r"))
