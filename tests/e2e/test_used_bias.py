# SPDX-License-Identifier: Apache-2.0
"""Biases are corrected where they are used: behind the LeakyRelu, behind the Add to the stream (tests/calib/test_correct_used.c), with --propagate."""

import h5py
import numpy as np
import pytest
from measured_models import infer
from onnx import helper
from pooled_model import save_pooled


def make(folder):
    """Convolutions and LeakyRelu, with a residual branch."""
    random = np.random.default_rng(3)
    nodes, weights, x = [], {}, "x"
    for i, (a, b) in enumerate(((3, 12), (12, 12), (12, 12), (12, 16))):
        weights[f"w{i}"] = (random.normal(size=(b, a, 3, 3)) / np.sqrt(9 * a) * 1.5).astype("f4")
        weights[f"b{i}"] = (random.normal(size=b) * 0.2).astype("f4")
        nodes.append(helper.make_node("Conv", [x, f"w{i}", f"b{i}"], [f"c{i}"], f"conv{i}", pads=[1] * 4))
        if i == 2:
            nodes.append(helper.make_node("Add", ["c2", "r0"], ["s"], "add"))
        nodes.append(helper.make_node("LeakyRelu", ["s" if i == 2 else f"c{i}"], [f"r{i}"], f"act{i}", alpha=0.1))
        x = f"r{i}"
    weights["w"] = (random.normal(size=(8, 16)) * 0.5).astype("f4")
    save_pooled(folder / "net.onnx", nodes, weights, x, (3, 12, 12))
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = random.normal(size=(128, 3, 12, 12)).astype("f4")


@pytest.mark.parametrize(
    "options, tried", [(("--propagate",), True), ((), False), (("--propagate", "--bias-correction", "off"), False)]
)
def test_it_belongs_to_propagate(options, tried, qcalib, tmp_path):
    make(tmp_path)
    report = qcalib(
        "--data",
        "x.h5",
        "--method",
        "mse",
        *options,
        "net.onnx",
        "-o",
        "q.onnx",
        "--no-report",
        "--advice",
        "off",
        "--json",
    ).json
    found = report.get("biases_where_used")
    assert (found is not None) == tried
    if found:
        assert found["layers"] >= 3 and found["gain_error_db"] > 0
        assert found["kept"] == (found["gain_db"] > max(0.1, 2 * found["gain_error_db"])), found


def test_threads_and_order_of_samples_make_no_difference(qcalib, tmp_path):
    make(tmp_path)
    with h5py.File(tmp_path / "x.h5") as f, h5py.File(tmp_path / "turned.h5", "w") as g:
        g["x"] = f["x"][()][::-1]
    reports = [
        qcalib(
            "--data",
            data,
            "--method",
            "mse",
            "--propagate",
            *options,
            "net.onnx",
            "-o",
            f"{i}.onnx",
            "--no-report",
            "--advice",
            "off",
            "--json",
        ).json
        for i, (data, options) in enumerate((("x.h5", ("--threads", 1)), ("turned.h5", ("--threads", 3))))
    ]
    assert reports[0]["biases_where_used"] == reports[1]["biases_where_used"]
    assert (tmp_path / "0.onnx").read_bytes() == (tmp_path / "1.onnx").read_bytes()


def test_the_mean_of_the_outputs_is_right_by_default(qcalib, tmp_path):
    make(tmp_path)
    with h5py.File(tmp_path / "x.h5") as f:
        x = f["x"][()]
    (want,), _ = infer(tmp_path / "net.onnx", x)
    off = {}
    for how in ("on", "off"):
        found = qcalib(
            "--data", "x.h5", "--bias-correction", how, "net.onnx", "-o", "q.onnx", "--no-report", "--json"
        ).json.get("biases_of_outputs")
        assert (found is not None) == (how == "on")
        (got,), _ = infer(tmp_path / "q.onnx", x)
        off[how] = ((got - want).mean(0) ** 2).sum() / ((got - want) ** 2).mean(0).sum()
    assert off["on"] < 0.3 * off["off"], off
    few = qcalib("--data", "x.h5", "--samples", 48, "net.onnx", "-o", "q.onnx", "--no-report", "--json").json
    assert "biases_of_outputs" not in few  # the mean error of samples that ranges and weights were made for alone
