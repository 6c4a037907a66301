# SPDX-License-Identifier: Apache-2.0
"""Constants that mean "nothing" to a maximum or a minimum take no part in a range. References: ONNX Runtime on the float model."""

import numpy as np
import onnx
import pytest
from measured_models import session, sqnr
from onnx import TensorProto, helper, numpy_helper

from test_quantize_odd import conv, node, normal

LOWEST = float(np.finfo(np.float32).min)
SHAPE = (3, 9, 9)


class Network:
    """Convolution, some nodes on its result h, and a product of theirs; sign -1: the mirror image, with minima."""

    def __init__(self, filler):
        self.sign = 1 if filler < 0 else -1
        self.nodes = [conv("x", "h", "w", "b")]
        self.weights = {
            "w": normal(8, 3, 3, 3),
            "b": normal(8),
            "c": np.array(filler, np.float32),
            "pads": np.array([0, 0, 0, 0, 0, 0, 1, 1]),
            "mask": np.where(np.arange(81).reshape(1, 1, 9, 9) % 3, 0, filler).astype(np.float32),
            "choice": np.arange(81).reshape(1, 1, 9, 9) % 3 != 0,
            "axes": np.array([2, 3]),
            "rows": np.arange(9).reshape(9, 1),
            "first": np.array([0]),
            "second": np.array([1]),
            "eight": np.array([8]),
            "nine": np.array([9]),
            "ten": np.array([10]),
        }

    def add(self, op, inputs, output=None, **attributes):
        output = output or f"v{len(self.nodes)}"
        self.nodes.append(node(op, inputs, output, **attributes))
        return output

    def pad(self, v="h"):
        return self.add("Pad", [v, "pads", "c"])

    def expand(self, *dims):
        """The filler in a shape whose batch is known when the model runs."""
        self.add("Shape", ["x"], "shape")
        self.add("Slice", ["shape", "first", "second"], "n")
        return self.add("Expand", ["c", self.add("Concat", dims, axis=0)])

    def extreme(self, op, v, **attributes):
        """The maximum of v, or the minimum."""
        if op == "Reduce":
            return self.add("ReduceMax" if self.sign > 0 else "ReduceMin", [v], keepdims=1, **attributes)
        if self.sign > 0:
            return self.add(op, [v], **attributes)
        return self.add("Neg", [self.add(op, [self.add("Neg", [v])], **attributes)])

    def pool(self, v):
        return self.extreme("MaxPool", v, kernel_shape=[2, 2], strides=[2, 2])

    def reduced(self, v):
        return self.extreme("Reduce", v, axes=[2, 3])

    def model(self, v):
        self.nodes.append(node("Conv", [v, "w2"], "y"))
        self.weights["w2"] = normal(8, 8, 1, 1)
        made = helper.make_model(
            helper.make_graph(
                self.nodes,
                "g",
                [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", *SHAPE])],
                [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                [numpy_helper.from_array(a, n) for n, a in self.weights.items()],
            ),
            opset_imports=[helper.make_opsetid("", 13)],
            ir_version=7,
        )
        made = onnx.shape_inference.infer_shapes(made)
        onnx.checker.check_model(made)
        return made


def scattered(m):
    """Rows of h in a larger tensor of fillers."""
    rows = m.add("Transpose", ["h"], perm=[2, 0, 1, 3])
    whole = m.add("ScatterND", [m.expand("ten", "n", "eight", "nine"), "rows", rows])
    return m.reduced(m.add("Transpose", [whole], perm=[1, 2, 0, 3]))


def shifted(m):
    """The larger of neighbours, of which the last has none."""
    m.weights |= {"right": np.array([0, 0, 0, 0, 0, 0, 0, 1]), "third": np.array([3])}
    wide = m.add("Pad", ["h", "right", "c"])
    parts = [m.add("Slice", [wide, *ends, "third"]) for ends in (("first", "nine"), ("second", "ten"))]
    return m.add("Max" if m.sign > 0 else "Min", parts)


def exponentials(m):
    """No maximum, but the float op reads the constant itself."""
    v = m.pad()
    return m.add("ReduceSum", [m.add("Exp", [v if m.sign > 0 else m.add("Neg", [v])]), "axes"], keepdims=1)


KINDS = {
    "pad, max pool": lambda m: m.pool(m.pad()),
    "pad, max pools": lambda m: m.pool(m.pool(m.pad())),
    "pad, transpose, max pool": lambda m: m.pool(m.add("Transpose", [m.pad()], perm=[0, 1, 3, 2])),
    "pad, pad, max pool": lambda m: m.pool(m.pad(m.pad())),
    "pad, global max pool": lambda m: m.extreme("GlobalMaxPool", m.pad()),
    "pad, reduction": lambda m: m.reduced(m.pad()),
    "pad, sum of exponentials": exponentials,
    "choice, max pool": lambda m: m.pool(m.add("Where", ["choice", "h", "c"])),
    "choice, reduction": lambda m: m.reduced(m.add("Where", ["choice", "h", "c"])),
    "mask, max pool": lambda m: m.pool(m.add("Add", ["h", "mask"])),
    "mask, reduction": lambda m: m.reduced(m.add("Add", ["h", "mask"])),
    "join, max pool": lambda m: m.pool(m.add("Concat", ["h", m.expand("n", "eight", "second", "nine")], axis=2)),
    "scatter, reduction": scattered,
    "neighbours": shifted,
}


def decibels(kind, filler, qcalib, tmp_path, *options):
    m = Network(filler)
    onnx.save(m.model(KINDS[kind](m)), tmp_path / "m.onnx")
    rng = np.random.default_rng(2)
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(24, *SHAPE)).astype(np.float32))
    source = ("--data", "x.npz")
    if "--stats" in options:
        options = [o for o in options if o != "--stats"]
        qcalib("collect", *source, "m.onnx", "-o", "m.stats.h5")
        source = ("--stats", "m.stats.h5")
    report = qcalib(*source, *options, "m.onnx", "--no-report", "--json", "-o", "q.onnx").json
    assert report["fallback"] is None and "Conv" not in {f["op"] for f in report["float_ops"]}
    feeds = {"x": rng.normal(size=(16, *SHAPE)).astype(np.float32)}
    want, got = (session(tmp_path / f).run(None, feeds) for f in ("m.onnx", "q.onnx"))
    return sqnr(want, got)[0]


@pytest.mark.integers
@pytest.mark.parametrize("filler", (LOWEST, -np.inf, -100.0, 10000.0))
@pytest.mark.parametrize("kind", KINDS)
def test_numbers(kind, filler, qcalib, tmp_path):
    assert decibels(kind, filler, qcalib, tmp_path) > 25


@pytest.mark.parametrize("target", ("integers", "tflite", "tensorrt", "fused"))
@pytest.mark.parametrize("kind", KINDS)
def test_targets(kind, target, qcalib, tmp_path):
    assert decibels(kind, -65504.0, qcalib, tmp_path, "--target", target) > 25


@pytest.mark.integers
@pytest.mark.parametrize("kind", ("pad, max pool", "choice, reduction", "join, max pool"))
@pytest.mark.parametrize(
    "options", (("--stats",), ("--activation-type", "uint16"), ("--format", "qoperator"), ("--target", "vitis"))
)
def test_ways(kind, options, qcalib, tmp_path):
    assert decibels(kind, LOWEST, qcalib, tmp_path, *options) > 25


def test_a_filler_that_is_chosen_has_a_level(qcalib, tmp_path):
    """All of some windows is padding, so its number is a result like others."""
    m = Network(-4.0)
    m.weights["pads"] = np.array([0, 0, 0, 0, 0, 0, 3, 3])
    onnx.save(m.model(m.pool(m.add("Pad", [m.add("Relu", ["h"]), "pads", "c"]))), tmp_path / "m.onnx")
    x = np.random.default_rng(2).normal(size=(24, *SHAPE)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    qcalib("--data", "x.npz", "m.onnx", "--no-report", "-o", "q.onnx")
    want, got = (session(tmp_path / f).run(None, {"x": x})[0][:, :, -1, -1] for f in ("m.onnx", "q.onnx"))
    assert sqnr([want], [got])[0] > 25
