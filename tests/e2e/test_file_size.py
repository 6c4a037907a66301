# SPDX-License-Identifier: Apache-2.0
"""--size: bits per layer so that the file has at most this size. The result in ONNX Runtime is better than with the
same bits in all layers."""

import json
import re
import shlex

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from report_page import is_record_of

WIDTH, LAYERS = 96, 6


@pytest.fixture
def model(tmp_path):
    """Layers beside each other whose results are added up, each with a factor of its own: the first counts a thousand times as much as the last."""
    random, node = np.random.default_rng(8), helper.make_node
    constants, nodes = [], []
    for i in range(LAYERS):
        constants += [
            numpy_helper.from_array((random.standard_t(5, (WIDTH, WIDTH)) * 0.1).astype("f4"), f"w{i}"),
            numpy_helper.from_array(np.float32(4.0**-i), f"f{i}"),
        ]
        nodes += [
            node("MatMul", ["x", f"w{i}"], [f"p{i}"], f"product{i}"),
            node("Tanh", [f"p{i}"], [f"t{i}"]),
            node("Mul", [f"t{i}", f"f{i}"], [f"s{i}"]),
        ]
    nodes.append(node("Sum", [f"s{i}" for i in range(LAYERS)], ["y"]))
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", WIDTH])] for n in "xy"]
    onnx.save(
        helper.make_model(
            helper.make_graph(nodes, "g", *ports, constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
        ),
        tmp_path / "m.onnx",
    )
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = (random.normal(size=(64, 24)) @ random.normal(size=(24, WIDTH)) * 0.3).astype("f4")
    return tmp_path / "m.onnx"


def noise(folder, name):
    with h5py.File(folder / "data.h5") as file:
        x = file["x"][:]
    y, exact = (
        onnxruntime.InferenceSession(str(folder / n), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        for n in (name, "m.onnx")
    )
    return np.square(y - exact).sum() / np.square(exact).sum()


def size_of(path):
    return path.stat().st_size


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
def test_better_than_uniform(qcalib, model, tmp_path, form):
    common = ["--data", "data.h5", "--activation-type", "none", "--weight-block", 32, "--format", form, model]
    qcalib(*common, "--weight-type", "int4", "--no-report", "-o", "four.onnx")
    limit = size_of(tmp_path / "four.onnx")
    report = qcalib(*common, "--size", limit, "--report", "r", "--json", "-o", "sized.onnx").json
    assert size_of(tmp_path / "sized.onnx") == report["size"]["bytes"] <= limit == report["size"]["limit"]
    assert noise(tmp_path, "sized.onnx") < noise(tmp_path, "four.onnx") / 4
    bits = {l["node"]: l["bits"] for l in report["size"]["layers"]}
    assert bits["product0"] == 8 and bits[f"product{LAYERS - 1}"] == 2 and len(bits) == LAYERS
    rows = report["frontier"]
    assert [r["bytes"] for r in rows] == sorted(r["bytes"] for r in rows) and all(
        a["expected_error"] >= b["expected_error"] for a, b in zip(rows, rows[1:])
    )
    (chosen,) = [r for r in rows if r["chosen"]]
    assert chosen["bytes"] == report["size"]["bytes"] and rows[0]["bytes"] < chosen["bytes"] < rows[-1]["bytes"]
    # errors as expected, but that they add up by chance; all of the same width as qcalib wrote it
    assert noise(tmp_path, "sized.onnx") == pytest.approx(chosen["expected_error"], rel=0.6)
    four = next(u for u in report["size"]["uniform"] if u["bits"] == 4)
    assert four["bytes"] == limit and noise(tmp_path, "four.onnx") == pytest.approx(four["expected_error"], rel=0.3)
    assert is_record_of(tmp_path / "r/report.html", report)
    words = [w for w in shlex.split(report["size"]["command"])[1:]]
    assert not any(w.startswith("--size") for w in words)
    qcalib(*words, "--no-report", "-o", "by_hand.onnx")
    assert (tmp_path / "by_hand.onnx").read_bytes() == (tmp_path / "sized.onnx").read_bytes()


def save_look_up(folder, seed, sizes, nodes):
    """m.onnx: nodes from tokens x to y, with matrices of these sizes; data.h5: 32 samples of 8 tokens."""
    random, value = np.random.default_rng(seed), helper.make_tensor_value_info
    tensors = [numpy_helper.from_array((random.normal(size=s) / s[0] ** 0.5).astype("f4"), n) for n, s in sizes.items()]
    width = list(sizes.values())[-1][1]
    ports = [value("x", TensorProto.INT64, ["n", 8])], [value("y", TensorProto.FLOAT, ["n", 8, width])]
    graph = helper.make_graph(nodes, "g", *ports, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = random.integers(0, 80, (32, 8))


def test_a_file_that_fits_to_the_byte(qcalib, tmp_path):
    """4 bits of the table need more operators than 8, which the product does not have: an equal share for each layer would be too much for 8 bits."""
    nodes = [helper.make_node("Gather", ["table", "x"], ["e"], "gather"), helper.make_node("MatMul", ["e", "w"], ["y"], "product")]
    save_look_up(tmp_path, 5, {"table": (80, 64), "w": (64, 704)}, nodes)
    common = ["--data", "data.h5", "--activation-type", "none", "--weight-block", 32, "--no-report", "m.onnx"]
    qcalib(*common, "--weight-type", "int4", "-o", "four.onnx")
    limit = size_of(tmp_path / "four.onnx")
    assert "layers 1 in 8 bits, 1 in 4 bits" in qcalib(*common, "--size", limit, "-o", "sized.onnx").out
    assert size_of(tmp_path / "sized.onnx") == limit


def test_a_table_of_16_bits(qcalib, tmp_path):
    """With all products in 8 bits, 8 bits of the table are most of the error; files of uniform 8 bits have 16 for it."""
    node = helper.make_node
    nodes = [node("Gather", ["table", "x"], ["e"], "gather"), node("MatMul", ["e", "w0"], ["a"], "m0")]
    nodes += [node("Tanh", ["a"], ["b"]), node("MatMul", ["b", "w1"], ["c"], "m1")]
    nodes += [node("Tanh", ["c"], ["d"]), node("MatMul", ["d", "w2"], ["y"], "m2")]
    save_look_up(tmp_path, 3, {"table": (80, 64), "w0": (64, 704), "w1": (704, 704), "w2": (704, 64)}, nodes)
    common = ["--data", "data.h5", "--activation-type", "none", "--weight-block", 32, "m.onnx"]
    qcalib(*common, "--no-report", "-o", "eight.onnx")
    limit = size_of(tmp_path / "eight.onnx")
    done = qcalib(*common, "--size", limit, "--report", "r", "-o", "sized.onnx")
    assert "layers 1 in 16 bits, 3 in 8 bits" in done.out
    assert noise(tmp_path, "sized.onnx") < noise(tmp_path, "eight.onnx") * 1.01
    report = qcalib(*common, "--size", "20%", "--json", "--report", "r", "-o", "small.onnx").json
    bits = {l["node"]: l["bits"] for l in report["size"]["layers"]}
    assert size_of(tmp_path / "small.onnx") <= size_of(tmp_path / "m.onnx") // 5 and max(bits.values()) > min(bits.values())
    assert [u["bits"] for u in report["size"]["uniform"]] == [8, 4, 2]


def test_too_small(qcalib, model, tmp_path):
    common = ["--data", "data.h5", "--activation-type", "none", "--no-report", model, "-o", "q.onnx"]

    def least(*options):
        done = qcalib(*common, "--size", 1000, *options, code=1)
        assert not (tmp_path / "q.onnx").exists() and ("2 bits)" in done.err) == ("none" in options)
        return int(re.search(r"--size 1000: .* the smallest possible file has (\d+)", done.err)[1])

    channels, blocks, wide = least("--weight-block", "none"), least("--weight-block", 32), least("--weight-block", 256)
    assert channels > blocks > wide == least()
    qcalib(*common, "--size", wide - 1, code=1)
    qcalib(*common, "--size", wide)
    assert size_of(tmp_path / "q.onnx") == wide


def test_the_best_blocks(qcalib, model, tmp_path):
    """Without --weight-block lengths of blocks are compared, and the choice is the same as if the best were given."""
    common = ["--data", "data.h5", "--activation-type", "none", "--no-report", "--json", model, "--size", "19%"]
    report = qcalib(*common, "-o", "chosen.onnx").json
    size = report["size"]
    tried = {b["weight_block"]: b["expected_error"] for b in size["blocks"] if b["fits"]}
    assert list(tried) == [0, 32, 64, 128, 256]
    errors, written = {}, {}
    for block, expected in tried.items():
        one = qcalib(*common, "--weight-block", block or "none", "-o", "one.onnx").json["size"]
        errors[block], written[block] = one["expected_error"], (tmp_path / "one.onnx").read_bytes()
        assert "blocks" not in one and errors[block] >= expected * (1 - 1e-6)
    assert size["weight_block"] == min(errors, key=errors.get) and len(set(written.values())) == 5
    chosen = (tmp_path / "chosen.onnx").read_bytes()
    assert chosen == written[size["weight_block"]]
    qcalib(*shlex.split(size["command"])[1:], "--no-report", "-o", "by_hand.onnx")
    assert (tmp_path / "by_hand.onnx").read_bytes() == chosen


@pytest.mark.parametrize(
    "options", [[], ["--format", "qoperator"], ["--activation-type", "dynamic"]], ids=["qdq", "qoperator", "dynamic"]
)
def test_per_channel(qcalib, examples, tmp_path, options):
    """A share of the model's file; activations are quantized as ever."""
    model = examples / "digits_cnn.onnx"
    report = qcalib(
        "--data",
        examples / "digits_calib.h5",
        "--samples",
        48,
        "--method",
        "mse",
        *options,
        "--size",
        "29%",
        model,
        "--json",
        "--no-report",
        "-o",
        "q.onnx",
    ).json
    assert size_of(tmp_path / "q.onnx") <= 0.29 * size_of(model) == pytest.approx(report["size"]["limit"], abs=1)
    assert {l["bits"] for l in report["size"]["layers"]} == {4, 8}
    assert report["advice"] == [] and report["options"]["size"] == "29%"
    qcalib("run", "q.onnx", "--data", examples / "digits_calib.h5", "-o", "out.h5")


def test_without_data(qcalib, model, tmp_path):
    report = qcalib(
        "--activation-type",
        "none",
        "--weight-block",
        64,
        "--weight-type",
        "int16:product2",
        "--size",
        "20%",
        model,
        "--json",
        "--no-report",
        "-o",
        "q.onnx",
    ).json
    assert size_of(tmp_path / "q.onnx") <= size_of(model) // 5 and report["size"]["error_of"] == "weights"
    assert any("--size: without samples" in w for w in report["warnings"])
    types = {l["name"]: l["type"] for l in report["layers"] if l["kind"] == "weight"}
    assert types["w2"] == "i16"  # what is asked for by name holds


@pytest.mark.parametrize(
    "options, words",
    [
        (["--max-drop", 1, "--eval", "data.h5"], "leave out one"),
        (["--weight-type", "int16"], "int16:NODE"),
        (["--format", "annotated"], "qoperator"),
        (["--propagate"], "--propagate"),
    ],
)
def test_refused(qcalib, model, options, words):
    done = qcalib("--data", "data.h5", "--size", "20%", *options, model, code=2)
    assert words in done.err and "--size" in done.err
