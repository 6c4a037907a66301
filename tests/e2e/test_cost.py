# SPDX-License-Identifier: Apache-2.0
"""The estimated cost of a file: bytes are those of the file, and latencies are in the order of the kernels that ONNX
Runtime has. scripts/file_latency compares estimates with measured latencies."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

LAYERS, CHANNELS, SIDE = 4, 64, 24


@pytest.fixture
def model(tmp_path):
    """Four convolutions of 64 channels."""
    rng = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for k in range(LAYERS):
        w = (rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 24).astype(np.float32)
        weights.append(numpy_helper.from_array(w, f"w{k}"))
        nodes.append(helper.make_node("Conv", [x, f"w{k}"], [f"c{k}"], f"conv{k}", pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        x = f"r{k}"
    shape = [1, CHANNELS, SIDE, SIDE]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=rng.standard_normal((8, *shape[1:])).astype(np.float32))
    return tmp_path / "m.onnx"


def test_integers_are_estimated_faster_than_float_and_16_bits_slower(qcalib, tmp_path, model):
    options = {"bytes": (), "half": ("--skip", "conv0", "--skip", "conv1"), "wide": ("--activation-type", "uint16")}
    costs, files = {}, {}
    for name, given in options.items():
        files[name] = tmp_path / f"{name}.onnx"
        job = ("--data", "d.npz", "--effort", "low", "--advice", "off", "--no-report", "--json", *given)
        costs[name] = qcalib(*job, "-o", files[name], model).json["cost"]
        assert costs[name]["bytes"] == files[name].stat().st_size
    assert costs["bytes"]["latency"] < costs["half"]["latency"] < 1 < costs["wide"]["latency"], costs


def test_a_free_dimension_is_that_of_the_samples(qcalib, tmp_path, model):
    free = onnx.load(model)
    for v in (free.graph.input[0], free.graph.output[0]):
        v.type.tensor_type.shape.dim[2].dim_param = "h"
    onnx.save(free, tmp_path / "free.onnx")
    job = ("--data", "d.npz", "--effort", "low", "--advice", "off", "--no-report", "--json", "-o", "q.onnx")
    fixed = qcalib(*job, model).json["cost"]["latency"]
    assert qcalib(*job, tmp_path / "free.onnx").json["cost"]["latency"] == pytest.approx(fixed, rel=1e-6)
