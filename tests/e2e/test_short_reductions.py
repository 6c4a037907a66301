# SPDX-License-Identifier: Apache-2.0
"""Reductions over few elements are vectorized, with the same bits as a serial sum in double."""
import functools

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

FOLDS = {
    "ReduceL1": (lambda a, x: a + abs(x), 0.0),
    "ReduceMax": (max, -np.inf),
    "ReduceProd": (lambda a, x: a * x, 1.0),
    "ReduceSumSquare": (lambda a, x: a + x * x, 0.0),
}


@pytest.mark.parametrize("axes", [[3], [1, 3]])
@pytest.mark.parametrize("count", [1, 2, 3, 15, 16])
def test_bits(count, axes, qcalib, tmp_path):
    x = (np.random.default_rng(count).normal(size=(2, 3, 300, count)) * 3).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    nodes = [helper.make_node(op, ["x"], [op], axes=axes, keepdims=0) for op in FOLDS]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *x.shape[1:]])],
        [helper.make_tensor_value_info(op, TensorProto.FLOAT, None) for op in FOLDS],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(tmp_path / "m.onnx"))
    qcalib("run", "m.onnx", "--data", "x.npy", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        for op, (fold, first) in FOLDS.items():
            elements = np.moveaxis(x.astype(np.float64), axes, range(-len(axes), 0))
            elements = elements.reshape(f[op].shape + (-1,))
            serial = functools.reduce(fold if fold is not max else np.maximum, np.moveaxis(elements, -1, 0), np.float64(first))
            assert np.array_equal(f[op][()], serial.astype(np.float32)), op
