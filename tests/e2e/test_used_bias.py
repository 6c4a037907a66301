# SPDX-License-Identifier: Apache-2.0
"""Biases are corrected where they are used: behind the LeakyRelu, behind the Add to the stream, if it helps on other samples."""
import json

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper


def make(folder, kind):
    """Convolutions and LeakyRelu, with a residual branch; or Relu, which is part of the convolution's own rounding."""
    random = np.random.default_rng(3)
    nodes, weights, x = [], {}, "x"
    for i, (a, b) in enumerate(((3, 12), (12, 12), (12, 12), (12, 16))):
        weights[f"w{i}"] = (random.normal(size=(b, a, 3, 3)) / np.sqrt(9 * a) * 1.5).astype("f4")
        weights[f"b{i}"] = (random.normal(size=b) * 0.2).astype("f4")
        nodes.append(helper.make_node("Conv", [x, f"w{i}", f"b{i}"], [f"c{i}"], f"conv{i}", pads=[1] * 4))
        if i == 2:
            nodes.append(helper.make_node("Add", ["c2", "r0"], ["s"], "add"))
        nodes.append(helper.make_node(kind, ["s" if i == 2 else f"c{i}"], [f"r{i}"], f"act{i}", **({"alpha": 0.1} if kind == "LeakyRelu" else {})))
        x = f"r{i}"
    weights["w"] = (random.normal(size=(8, 16)) * 0.5).astype("f4")
    nodes += [helper.make_node("GlobalAveragePool", [x], ["p"]), helper.make_node("Flatten", ["p"], ["f"]), helper.make_node("Gemm", ["f", "w"], ["y"], transB=1)]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "g", [value("x", TensorProto.FLOAT, ["N", 3, 12, 12])], [value("y", TensorProto.FLOAT, ["N", 8])],
                              [numpy_helper.from_array(w, n) for n, w in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), folder / "net.onnx")
    draw = lambda n: (random.normal(size=(n, 3, 12, 12)) * np.exp(random.normal(size=(n, 1, 1, 1)) * 0.5)).astype("f4")
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = draw(128)
    return draw(300)


def run(path, x, names=None):
    model = onnx.load(path)
    for name in names or []:
        model.graph.output.append(helper.make_empty_tensor_value_info(name))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(names, {"x": x})


def constants(path):
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}


def test_the_mean_is_made_right_where_it_is_read(qcalib, tmp_path):
    x = make(tmp_path, "LeakyRelu")
    qcalib("--data", "x.h5", "net.onnx", "-o", "auto.onnx", "--report", "r", "--threads", 1)
    report = json.loads((tmp_path / "r/report.json").read_text())
    method = next(t["method"] for t in report["trials"] if t["chosen"])
    qcalib("--data", "x.h5", "net.onnx", "--method", method, "-o", "named.onnx", "--no-report", "--advice", "off")
    found = report["biases_where_used"]
    assert found["kept"] and found["gain_db"] > 0.1 and found["layers"] >= 3, found
    # Nothing but biases differs, and a mean error behind the functions is less than before by a third.
    old, new = constants(tmp_path / "named.onnx"), constants(tmp_path / "auto.onnx")
    changed = [n for n in new if not np.array_equal(new[n], old[n])]
    assert changed and all(new[n].dtype == np.int32 for n in changed), changed
    names = ["r0", "r1", "r2", "r3"]
    float_means = [v.mean((0, 2, 3), dtype="f8") for v in run(tmp_path / "net.onnx", x, names)]
    off = {f: [np.abs(v.mean((0, 2, 3), dtype="f8") - m).mean() for v, m in zip(run(tmp_path / f, x, [n + "_dequantized" for n in names]), float_means)]
           for f in ("named.onnx", "auto.onnx")}
    assert sum(off["auto.onnx"]) < 0.7 * sum(off["named.onnx"]), off
    want = run(tmp_path / "net.onnx", x)[0].astype("f8")
    noise = {f: ((run(tmp_path / f, x)[0] - want) ** 2).sum() for f in off}
    assert noise["auto.onnx"] < noise["named.onnx"], noise


@pytest.mark.parametrize("kind, options", [("Relu", ()), ("LeakyRelu", ("--bias-correction", "off")), ("LeakyRelu", ("--method", "mse"))])
def test_where_there_is_nothing_to_correct_nothing_is_tried(kind, options, qcalib, tmp_path):
    make(tmp_path, kind)
    report = qcalib("--data", "x.h5", *options, "net.onnx", "-o", "q.onnx", "--no-report", "--advice", "off", "--json").json
    assert ("biases_where_used" in report) == (kind == "Relu"), report.get("biases_where_used")
    if kind == "Relu":  # the branch that is added is stored before the Add
        assert report["biases_where_used"]["layers"] == 1


def test_threads_and_order_of_samples_make_no_difference(qcalib, tmp_path):
    make(tmp_path, "LeakyRelu")
    with h5py.File(tmp_path / "x.h5") as f, h5py.File(tmp_path / "turned.h5", "w") as g:
        g["x"] = f["x"][()][::-1]
    for name, data, options in (("one", "x.h5", ("--threads", 1)), ("three", "turned.h5", ("--threads", 3)), ("small", "x.h5", ("--memory-limit", "200M"))):
        qcalib("--data", data, *options, "net.onnx", "-o", f"{name}.onnx", "--no-report", "--advice", "off")
    assert len({(tmp_path / f"{name}.onnx").read_bytes() for name in ("one", "three", "small")}) == 1
