# SPDX-License-Identifier: Apache-2.0
"""Data from 8-bit integers: the model has the same bytes for every order of the samples."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

IMAGES, SIDE, CHANNELS, ORDERS = 40, 12, 3, 6
MEAN, STD = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])

KINDS = {
    "0 to 1": lambda k: k.astype(np.float32) / np.float32(255),
    "0 to 1 in float64": lambda k: (k / 255).astype(np.float32),
    "-1 to 1": lambda k: k.astype(np.float32) / np.float32(127.5) - np.float32(1),
    "around 128": lambda k: (k.astype(np.float32) - 128) / np.float32(128),
    "mean and std": lambda k: (
        (k.astype(np.float32) / 255 - MEAN[:, None, None]) / STD[:, None, None]
    ).astype(np.float32),
    "one std": lambda k: (k.astype(np.float32) / 255 / np.float32(0.226)).astype(np.float32),
}


def make_model(path):
    rng = np.random.default_rng(3)
    w = rng.normal(size=(4, CHANNELS, 3, 3)).astype(np.float32) / 5
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c"], ["y"], name="relu"),
        ],
        "images",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, CHANNELS, SIDE, SIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, SIDE, SIDE])],
        [numpy_helper.from_array(w, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def pixels(values):
    """Dark images and brighter ones, so that few have all values."""
    rng = np.random.default_rng(8)
    top = rng.integers(values // 4, values, IMAGES)
    top[IMAGES // 2] = values
    k = np.stack([rng.integers(0, t, (CHANNELS, SIDE, SIDE)) for t in top])
    k[IMAGES // 2, 0, 0, 0] = values - 1
    return k


@pytest.mark.integers
@pytest.mark.parametrize("values", [201, 256])
@pytest.mark.parametrize("kind", KINDS)
def test_model_of_images(kind, values, qcalib, tmp_path):
    make_model(tmp_path / "m.onnx")
    x = KINDS[kind](pixels(values))
    made, scales = set(), set()
    for order in range(ORDERS):
        np.save(tmp_path / "x.npy", x[np.random.default_rng(order).permutation(IMAGES)] if order else x)
        qcalib("--data", "x.npy", "-o", "q.onnx", "--no-report", "--threads", 1 + order % 2, "m.onnx")
        made.add((tmp_path / "q.onnx").read_bytes())
        weights = {i.name: i for i in onnx.load(tmp_path / "q.onnx").graph.initializer}
        first = next(n for n in onnx.load(tmp_path / "q.onnx").graph.node if n.op_type == "QuantizeLinear")
        scales.add(float(numpy_helper.to_array(weights[first.input[1]])))
    assert len(made) == 1, scales
    if kind.startswith("0 to 1"):
        assert scales == {np.float32(1 / 255)}
