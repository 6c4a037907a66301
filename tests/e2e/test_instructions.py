# SPDX-License-Identifier: Apache-2.0
"""A job with samples writes the same bytes of the model and the same report (except times and memory) with every
instruction set."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

CAPS = ("amx_int8", "avx512", "avx2", "plain")


class Network:
    """Nodes in a row, with weights drawn where they are asked for."""

    def __init__(self):
        self.random, self.nodes, self.weights, self.count = np.random.default_rng(4), [], [], 0

    def weight(self, *shape, scale=None):
        scale = scale or 1.5 / np.sqrt(np.prod(shape[1:]) or 1)
        return self.constant((self.random.standard_normal(shape) * scale).astype(np.float32))

    def constant(self, array):
        self.count += 1
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{self.count}"))
        return f"w{self.count}"

    def __call__(self, op, *inputs, **attributes):
        self.count += 1
        self.nodes.append(helper.make_node(op, inputs, [f"{op}_{self.count}"], **attributes))
        return f"{op}_{self.count}"

    def save(self, path, shape, output):
        graph = helper.make_graph(
            self.nodes,
            "mixed",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self.weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), path)


def pictures(path):
    """Convolutions of all kinds, pools, resizing and normalisation."""
    n = Network()
    x = n("Conv", "x", n.weight(24, 3, 3, 3), n.weight(24), strides=[2, 2], pads=[1, 1, 1, 1])
    x = n("HardSwish", x)
    x = n("Relu", n("Conv", x, n.weight(24, 1, 3, 3), group=24, pads=[1, 1, 1, 1]))
    side = n("Conv", x, n.weight(20, 24, 1, 1), n.weight(20))
    x = n("Conv", side, n.weight(20, 20, 3, 3), n.weight(20), dilations=[2, 2], pads=[2, 2, 2, 2])
    x = n("LeakyRelu", n("Add", x, side))
    x = n("Sigmoid", n("ConvTranspose", x, n.weight(20, 9, 3, 3), strides=[2, 2], pads=[1, 1, 0, 0]))
    x = n("InstanceNormalization", x, n.weight(9, scale=1), n.weight(9))
    x = n("Resize", x, "", n.constant(np.float32([1, 1, 0.6, 0.6])), mode="linear")
    x = n("AveragePool", x, kernel_shape=[3, 3], strides=[2, 2])
    x = n("Elu", n("Conv", x, n.weight(12, 3, 2, 2), group=3))
    n.save(path, [1, 3, 21, 23], n("Gemm", n("Flatten", x), n.weight(10, 12 * 5 * 5), transB=1))
    return [3, 21, 23]


def words(path):
    """Attention, normalisation, gates."""
    n = Network()
    x = n("LayerNormalization", "x", n.weight(40, scale=1), n.weight(40))
    heads = [
        n("Reshape", n("MatMul", x, n.weight(40, 40)), n.constant(np.int64([1, 19, 4, 10]))) for _ in range(3)
    ]
    query, value = (n("Transpose", h, perm=[0, 2, 1, 3]) for h in heads[::2])
    x = n("Softmax", n("MatMul", query, n("Transpose", heads[1], perm=[0, 2, 3, 1])))
    x = n("Reshape", n("Transpose", n("MatMul", x, value), perm=[0, 2, 1, 3]), n.constant(np.int64([1, 19, 40])))
    x = n("Add", "x", n("Add", n("MatMul", x, n.weight(40, 40)), n.weight(40)))
    y = n("Add", n("MatMul", x, n.weight(40, 96)), n.weight(96))
    y = n("Mul", n("Mul", y, n.constant(np.float32(0.5))), n("Add", n("Erf", y), n.constant(np.float32(1))))
    x = n("Add", x, n("MatMul", n("Tanh", y), n.weight(96, 40)))
    x = n("Transpose", x, perm=[1, 0, 2])
    for op, gates in (("LSTM", 4), ("GRU", 3)):
        x = n(op, x, n.weight(1, gates * 40, 40), n.weight(1, gates * 40, 40), hidden_size=40)
        x = n("Squeeze", x, n.constant(np.int64([1])))
    x = n("Log", n("Add", n("Exp", n("ReduceMean", x, axes=[0], keepdims=0)), n.constant(np.float32(1))))
    n.save(path, [1, 19, 40], n("Gemm", x, n.weight(40, 7)))
    return [19, 40]


@pytest.mark.parametrize("make", [pictures, words])
def test_the_same_bytes_with_all_instructions(make, qcalib, tmp_path):
    shape = make(tmp_path / "m.onnx")
    samples = np.random.default_rng(1).standard_normal((6, *shape)).astype(np.float32)
    np.save(tmp_path / "x.npy", samples)
    models, reports = set(), set()
    for cap in CAPS:
        qcalib("--data", "x.npy", "-o", "out.onnx", "m.onnx", QCALIB_MAX_CPU_ISA=cap)
        models.add((tmp_path / "out.onnx").read_bytes())
        report = json.loads((tmp_path / "out.report/report.json").read_text())
        reports.add(json.dumps({k: v for k, v in report.items() if k not in ("timing", "memory")}))
    assert len(models) == 1
    assert len(reports) == 1
