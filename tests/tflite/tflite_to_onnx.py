#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The network of an int8 .tflite file as ONNX in QDQ form: the same integers, scales (the file's float32 bits) and zero points, int8 activations,
int8 weights per channel, int32 biases. Inputs and outputs are the int8 tensors themselves, channels last as in TFLite; inside, channels are first.

    python3 tests/tflite/tflite_to_onnx.py MODEL.tflite MODEL.onnx [--every-layer]

--every-layer makes the result of each op an output, named t<tensor> (rank 4: channels first)."""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import tflite

from tflite_model import Model, activation_levels, padding


class Builder:
    def __init__(self, model, every_layer=False):
        self.model, self.nodes, self.constants, self.every_layer = model, [], {}, every_layer
        self.quantized, self.real, self.outputs = {}, {}, []

    def constant(self, name, value):
        self.constants[name] = numpy_helper.from_array(np.array(value, order="C"), name)
        return name

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], name=f"{op}_{output}", **attributes))
        return output

    def parameters(self, t):
        return [self.constant(f"t{t.index}_scale", t.s), self.constant(f"t{t.index}_zero", np.array(t.z, np.int8))]

    def dequantized(self, t):
        """The real value of an activation; one DequantizeLinear whatever the number of its users."""
        if t.index not in self.real:
            self.real[t.index] = self.node(
                "DequantizeLinear", [self.quantized[t.index], *self.parameters(t)], f"t{t.index}_real"
            )
        return self.real[t.index]

    def weight(self, t, value, scale, axis):
        """A constant behind its DequantizeLinear; one scale, or one per channel."""
        q, name = self.constant(f"t{t.index}", value), f"t{t.index}_real"
        each = len(scale) > 1
        s = self.constant(f"t{t.index}_scale", scale.astype(np.float32) if each else np.float32(scale[0]))
        z = self.constant(f"t{t.index}_zero", np.zeros(len(scale) if each else (), value.dtype))
        return self.node("DequantizeLinear", [q, s, z], name, **({"axis": axis} if each else {}))

    def finish(self, op, real):
        """The fused activation, where saturation does not do it, and QuantizeLinear."""
        out = op.outputs[0]
        if op.kind not in ("SOFTMAX", "RESHAPE"):
            lo, hi = activation_levels(op, out)
            kind = op.options.FusedActivationFunction()
            if kind == tflite.ActivationFunctionType.RELU6 and (lo, hi) != (-128, 127):
                zero, six = self.constant("zero", np.float32(0)), self.constant("six", np.float32(6))
                real = self.node("Clip", [real, zero, six], f"t{out.index}_clipped")
            elif lo != -128:
                real = self.node("Relu", [real], f"t{out.index}_clipped")
        self.quantized[out.index] = self.node("QuantizeLinear", [real, *self.parameters(out)], f"t{out.index}")

    def window(self, op, height, width):
        x, out, o = op.inputs[0], op.outputs[0], op.options
        top, left = padding(op, x, height, width, out)
        dh, dw = getattr(o, "DilationHFactor", lambda: 1)(), getattr(o, "DilationWFactor", lambda: 1)()
        down = max((out.shape[1] - 1) * o.StrideH() + (height - 1) * dh + 1 - x.shape[1], 0)
        across = max((out.shape[2] - 1) * o.StrideW() + (width - 1) * dw + 1 - x.shape[2], 0)
        if o.Padding() == tflite.Padding.VALID:
            down = across = 0
        return {
            "kernel_shape": [height, width],
            "strides": [o.StrideH(), o.StrideW()],
            "pads": [top, left, down - top, across - left],
        }, [dh, dw]

    def bias(self, op):
        b = op.inputs[2] if len(op.inputs) > 2 else None
        if b is None:
            return []
        scale = b.scale if len(b.scale) else np.float32(op.inputs[0].s) * op.inputs[1].scale
        return [self.weight(b, b.data, scale, 0)]

    def add(self, op):
        x, out = op.inputs[0], op.outputs[0]
        real = f"t{out.index}_op"
        if op.kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            w = op.inputs[1]
            window, dilations = self.window(op, w.shape[1], w.shape[2])
            depthwise = op.kind == "DEPTHWISE_CONV_2D"
            data = w.data.transpose(3, 0, 1, 2) if depthwise else w.data.transpose(0, 3, 1, 2)
            self.finish(
                op,
                self.node(
                    "Conv",
                    [self.dequantized(x), self.weight(w, data, w.scale, 0), *self.bias(op)],
                    real,
                    group=x.shape[3] if depthwise else 1,
                    dilations=dilations,
                    **window,
                ),
            )
        elif op.kind == "FULLY_CONNECTED":
            w = op.inputs[1]
            self.finish(
                op,
                self.node(
                    "Gemm", [self.dequantized(x), self.weight(w, w.data, w.scale, 0), *self.bias(op)], real, transB=1
                ),
            )
        elif op.kind in ("ADD", "SUB", "MUL"):
            self.finish(op, self.node(op.kind.capitalize(), [self.dequantized(t) for t in op.inputs], real))
        elif op.kind in ("AVERAGE_POOL_2D", "MAX_POOL_2D"):
            window, _ = self.window(op, op.options.FilterHeight(), op.options.FilterWidth())
            kind = "AveragePool" if op.kind == "AVERAGE_POOL_2D" else "MaxPool"
            self.finish(op, self.node(kind, [self.dequantized(x)], real, **window))
        elif op.kind == "SOFTMAX":
            assert op.options.Beta() == 1
            self.finish(op, self.node("Softmax", [self.dequantized(x)], real, axis=-1))
        else:
            assert op.kind == "RESHAPE" and len(out.shape) < 4, f"{op.kind} has no ONNX form here"
            q = self.quantized[x.index]
            if len(x.shape) == 4 and x.shape[1] * x.shape[2] > 1:
                q = self.node("Transpose", [q], f"t{x.index}_last", perm=[0, 2, 3, 1])
            shape = self.constant(f"t{out.index}_shape", np.array(out.shape, np.int64))
            self.quantized[out.index] = self.node("Reshape", [q, shape], f"t{out.index}")

    def port(self, name, t, first=False):
        shape = [t.shape[i] for i in (0, 3, 1, 2)] if first and len(t.shape) == 4 else t.shape
        return helper.make_tensor_value_info(name, TensorProto.INT8, shape)

    def build(self):
        inputs = []
        for i in self.model.inputs:
            t = self.model.tensors[i]
            inputs.append(self.port(f"input{i}", t))
            self.quantized[i] = (
                self.node("Transpose", [f"input{i}"], f"t{i}", perm=[0, 3, 1, 2]) if len(t.shape) == 4 else f"input{i}"
            )
        for op in self.model.ops:
            self.add(op)
            if self.every_layer:
                self.outputs.append(self.port(self.quantized[op.outputs[0].index], op.outputs[0], True))
        if not self.every_layer:
            for i in self.model.outputs:
                assert len(self.model.tensors[i].shape) < 4
                self.outputs.append(self.port(self.quantized[i], self.model.tensors[i]))
        ports = {p.name for p in inputs + self.outputs}
        inner = [
            self.port(name, self.model.tensors[i], True) for i, name in self.quantized.items() if name not in ports
        ]
        graph = helper.make_graph(
            self.nodes, "tflite", inputs, self.outputs, list(self.constants.values()), value_info=inner
        )
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.checker.check_model(made, full_check=True)
        return made


def convert(model, every_layer=False):
    return Builder(model, every_layer).build()


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        onnx.save(convert(Model(file.read()), "--every-layer" in sys.argv[3:]), sys.argv[2])
