# SPDX-License-Identifier: Apache-2.0
"""The summary names the worst layers of a model whose layers are in bodies of If, Loop and Scan."""

import re

import h5py
import numpy as np
import onnx
import pytest

from control_models import MODELS


@pytest.mark.integers
@pytest.mark.parametrize("name, inside", [("conv_in_loop", "n_y/body/"), ("matmul_in_scan", "n_last/body/"), ("conv_in_branches", "n_y0/")])
def test_worst_layers_in_bodies(qcalib, tmp_path, name, inside):
    model = MODELS[name]()
    onnx.save(model, tmp_path / "m.onnx")
    shape = [d.dim_value or 8 for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(3).normal(size=(12, *shape[1:])).astype(np.float32)
    x += (np.arange(12) % 2 - 0.5).reshape(-1, *[1] * (len(shape) - 1)).astype(np.float32)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = x
    out = qcalib("quantize", "m.onnx", "--data", "x.h5").out
    report = qcalib("quantize", "m.onnx", "--data", "x.h5", "--json").json
    listed = re.search(r"^worst .*\n(?: {12}\d.*\n)*", out, re.M)
    assert listed and inside in listed[0], out
    layers = {l["node"]: l["sqnr_db"] for l in report["layers"] if l["kind"] == "activation" and l["sqnr_db"] is not None}
    lines = re.findall(r"([\d.]+) dB  \S+  (\S+) \(SQNR of the tensor, in a body\)", listed[0])
    assert lines and all(float(db) == pytest.approx(layers[node], abs=0.006) for db, node in lines)
    assert [float(db) for db, _ in lines] == sorted(float(db) for db, _ in lines)
