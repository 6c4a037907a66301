# SPDX-License-Identifier: Apache-2.0
"""Reads an exported QDQ file with onnx and checks the facts that hold for every such file."""

import collections

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

HEAVY = ("Conv", "ConvTranspose", "Gemm", "MatMul")
QDQ = ("QuantizeLinear", "DequantizeLinear")


class QuantizedGraph:
    def __init__(self, path):
        self.model = onnx.load(path)
        self.graph = self.model.graph
        self.nodes = list(self.graph.node)
        self.constants = {t.name: t for t in self.graph.initializer}
        self.maker = {o: n for n in self.nodes for o in n.output if o}

    @property
    def opset(self):
        return next(o.version for o in self.model.opset_import if o.domain in ("", "ai.onnx"))

    def of(self, *ops):
        return [n for n in self.nodes if n.op_type in ops]

    def count(self, *ops):
        return (
            collections.Counter(n.op_type for n in self.of(*ops))
            if ops
            else collections.Counter(n.op_type for n in self.nodes)
        )

    def value(self, name):
        return numpy_helper.to_array(self.constants[name])

    def dequantize(self, name):
        """The DequantizeLinear that makes a value, or None."""
        n = self.maker.get(name)
        return n if n is not None and n.op_type == "DequantizeLinear" else None

    def quantized(self, *ops):
        """Nodes of these ops whose data input is dequantized."""
        return [n for n in self.of(*ops) if self.dequantize(n.input[0]) is not None]

    def scale(self, dequantize):
        return np.atleast_1d(self.value(dequantize.input[1]))

    def axis(self, node, absent=1):
        return next((a.i for a in node.attribute if a.name == "axis"), absent)


def check_names(g):
    """Every value is made once, and no two nodes share a name."""
    names = [n.name for n in g.nodes if n.name]
    assert len(set(names)) == len(names)
    assert all(n.name for n in g.of(*QDQ))
    made = [o for n in g.nodes for o in n.output if o] + list(g.constants) + [i.name for i in g.graph.input]
    assert len(set(made)) == len(made)


def check_pairs(g):
    """One QuantizeLinear and one DequantizeLinear per value, however many read it; nothing is quantized twice in a row."""
    for op in QDQ:
        read = collections.Counter(n.input[0] for n in g.of(op))
        assert all(c == 1 for c in read.values()), f"{op} of one value more than once: {read.most_common(3)}"
    for n in g.of("QuantizeLinear"):
        assert n.input[0] not in g.constants, f"{n.name} quantizes a constant: weights are to be stored as integers"


def check_weights(g, per_channel=True):
    """int8 weights with a scale per output channel, int32 biases with scale f32(sx * sw) exactly and no zero point."""
    for n in g.quantized(*HEAVY):
        x, w = g.dequantize(n.input[0]), g.dequantize(n.input[1])
        assert w is not None, f"{n.name}: the weight is not quantized"
        if w.input[0] not in g.constants:
            continue  # a product of two activations
        q = g.value(w.input[0])
        assert q.dtype == np.int8, n.name
        transposed = any(a.name == "transB" and a.i for a in n.attribute)
        out = 0 if n.op_type == "Conv" or transposed else q.ndim - 1
        sw, sx = g.scale(w), g.scale(x)
        assert sw.dtype == np.float32 and np.all(sw > 0) and np.all(np.isfinite(sw))
        assert sw.size == (q.shape[out] if per_channel else 1), f"{n.name}: {sw.size} scales for {q.shape}"
        if sw.size > 1:
            assert g.axis(w) % q.ndim == out, n.name
        assert len(w.input) < 3 or not np.any(g.value(w.input[2])), f"{n.name}: weights are symmetric"
        assert q.min() >= -127, f"{n.name}: weights are restricted"
        if len(n.input) < 3 or not n.input[2]:
            continue
        b = g.dequantize(n.input[2])
        assert b is not None, f"{n.name}: the bias is not quantized"
        assert g.constants[b.input[0]].data_type == TensorProto.INT32, n.name
        assert len(b.input) == 2 or not np.any(g.value(b.input[2])), n.name
        np.testing.assert_array_equal(g.scale(b), sx.astype(np.float32) * sw.astype(np.float32), err_msg=n.name)


# Nodes that a rule or a pattern makes beside the one that has the name: NAME/OP, and what they make NAME/OP_output.
MADE = {"ReduceMean": ("GlobalAveragePool",), "Gather": ("Mul", "Gather")}


def made_of(before):
    return {f"{n.name}/{op}" for n in before.nodes if n.name for op in MADE.get(n.op_type, ())}


def reads_again(g, n):
    """Is the node the Reshape, to its own shape, of an int8 weight that several nodes read, or the Sum of one value that
    keeps ONNX Runtime from rounding float weights, or the Max of one that keeps a pool of real numbers one, or the copy
    of an input that is an output?"""
    if n.op_type in ("Max", "Sum") and len(n.input) == 1:
        return True
    if n.op_type in ("Cast", "Sub", "Mul") and all(i in g.constants or reads_again(g, g.maker[i]) for i in n.input if i in g.constants or i in g.maker):
        return all(i in g.constants or i in g.maker for i in n.input)  # of a weight that is converted at load
    if n.op_type == "Identity":
        return n.input[0] in {i.name for i in g.graph.input} and n.output[0] in {o.name for o in g.graph.output}
    source = g.maker.get(n.input[0]) if n.op_type == "Reshape" else None
    weight = g.constants.get(n.input[0]) if n.op_type == "Reshape" else None
    if weight is None:
        return source is not None and reads_again(g, source)
    return weight.data_type == TensorProto.INT8 and list(weight.dims) == g.value(n.input[1]).tolist()


def check_kept(g, original, upgraded_to=None):
    """Nothing heavy is added, the interface is the same, and what has a name keeps it. Where a graph output is dequantized, the float
    value that it is made from is called NAME_float."""
    before = QuantizedGraph(original)
    apart = [
        n for n in before.of("BatchNormalization") if getattr(before.maker.get(n.input[0]), "op_type", "") not in HEAVY
    ]
    # A MatMul with a bias may have become a Gemm, arithmetic on channels that folds into nothing a depthwise convolution.
    more = {"Gemm": len(before.of("MatMul")), "Conv": len(apart) + len(before.of("PRelu"))}
    for op in HEAVY:
        assert len(g.of(op)) <= len(before.of(op)) + more.get(op, 0), op
    assert 0 <= len(g.of(*HEAVY)) - len(before.of(*HEAVY)) <= more["Conv"]
    names = {n.name for n in before.nodes if n.name} | {
        f"{n.name}/bias" for n in before.of("MatMul") if n.name
    }  # corrected in an Add of its own
    names |= made_of(before)
    ours = {n.name for n in g.nodes}
    if all(n.name for n in before.nodes):
        for n in g.nodes:
            part = n.name.rpartition("/")[0]  # of an operator that became several
            assert n.op_type in QDQ or reads_again(g, n) or n.name in names or part in names, f"{n.op_type} '{n.name}' is not in the original"
    missing = [n.name for n in before.of(*HEAVY) if n.name and n.name not in ours and n.op_type != "MatMul"]
    assert not missing, f"heavy nodes lost their names: {missing}"
    values = (
        set(before.maker) | {f"{o.name}_float" for o in before.graph.output} | {f"{n}_output" for n in made_of(before)}
    )
    values |= {f"{n.output[0]}_quantized" for n in before.of("Pad")}  # a Pad of integers
    for n in g.nodes:
        assert (
            n.op_type in QDQ or reads_again(g, n) or set(n.output) - {""} <= values
        ), f"{n.name} makes {list(n.output)}, names that the original has not"
    initializers = set(before.constants)
    for old, new in ((before.graph.input, g.graph.input), (before.graph.output, g.graph.output)):
        old = [v for v in old if v.name not in initializers]
        assert [v.name for v in new] == [v.name for v in old]
        for a, b in zip(old, new):
            assert a.type.tensor_type.elem_type == b.type.tensor_type.elem_type
            dims = [[d.dim_value or d.dim_param for d in v.type.tensor_type.shape.dim] for v in (a, b)]
            assert dims[0] == dims[1], f"{a.name}: {dims[0]} became {dims[1]}"
    assert g.opset == (upgraded_to or before.opset)


def check_file(path):
    onnx.checker.check_model(str(path), full_check=True)
