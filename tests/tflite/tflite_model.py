# SPDX-License-Identifier: Apache-2.0
"""Reads the parts of a .tflite file that the tests need, with the schema package `tflite`, and runs it in TensorFlow Lite's
reference interpreter (kernels of BUILTIN_REF, no delegate): package `tflite-runtime` (needs numpy < 2), or `ai-edge-litert`.
"""

import dataclasses

import numpy as np
import tflite

try:
    from tflite_runtime.interpreter import Interpreter, OpResolverType

    RUNTIME, DENSE_CONTRACT = "tflite-runtime", "tflite"
except ImportError:
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    # Its FULLY_CONNECTED (1.4.0 to 2.3.0) rounds once, half away from zero; all other kernels are those of tflite-runtime 2.14.
    RUNTIME, DENSE_CONTRACT = "ai-edge-litert", "qnn-tonearest"

TYPES = {
    tflite.TensorType.FLOAT32: np.float32,
    tflite.TensorType.INT8: np.int8,
    tflite.TensorType.UINT8: np.uint8,
    tflite.TensorType.INT16: np.int16,
    tflite.TensorType.INT32: np.int32,
    tflite.TensorType.INT64: np.int64,
}
OP_NAMES = {v: k for k, v in vars(tflite.BuiltinOperator).items() if not k.startswith("_")}


@dataclasses.dataclass
class Tensor:
    index: int
    name: str
    shape: tuple
    dtype: type
    scale: np.ndarray
    zero_point: np.ndarray
    axis: int
    data: np.ndarray  # None for what is computed

    @property
    def s(self):
        return np.float32(self.scale[0])

    @property
    def z(self):
        return int(self.zero_point[0])


@dataclasses.dataclass
class Op:
    kind: str
    inputs: list
    outputs: list
    options: object


def _options(op, table):
    options = op.BuiltinOptions()
    made = table()
    if options:
        made.Init(options.Bytes, options.Pos)
    return made


OPTIONS = {
    "CONV_2D": tflite.Conv2DOptions,
    "DEPTHWISE_CONV_2D": tflite.DepthwiseConv2DOptions,
    "FULLY_CONNECTED": tflite.FullyConnectedOptions,
    "ADD": tflite.AddOptions,
    "SUB": tflite.SubOptions,
    "MUL": tflite.MulOptions,
    "AVERAGE_POOL_2D": tflite.Pool2DOptions,
    "MAX_POOL_2D": tflite.Pool2DOptions,
    "SOFTMAX": tflite.SoftmaxOptions,
    "RESHAPE": tflite.ReshapeOptions,
}


class Model:
    def __init__(self, content):
        self.content = bytes(content)
        model = tflite.Model.GetRootAsModel(self.content, 0)
        graph = model.Subgraphs(0)
        assert model.SubgraphsLength() == 1
        self.tensors = [self._tensor(model, graph.Tensors(i), i) for i in range(graph.TensorsLength())]
        self.inputs, self.outputs = list(graph.InputsAsNumpy()), list(graph.OutputsAsNumpy())
        self.ops = [self._op(model, graph.Operators(i)) for i in range(graph.OperatorsLength())]

    @staticmethod
    def _tensor(model, t, index):
        q = t.Quantization()
        scale = q.ScaleAsNumpy() if q and q.ScaleLength() else np.zeros(0, np.float32)
        zero = q.ZeroPointAsNumpy() if q and q.ZeroPointLength() else np.zeros(len(scale), np.int64)
        shape = tuple(int(n) for n in t.ShapeAsNumpy()) if t.ShapeLength() else ()
        dtype = TYPES[t.Type()]
        buffer = model.Buffers(t.Buffer())
        data = buffer.DataAsNumpy().view(dtype).reshape(shape) if buffer.DataLength() else None
        return Tensor(index, t.Name().decode(), shape, dtype, scale, zero, q.QuantizedDimension() if q else 0, data)

    def _op(self, model, op):
        code = model.OperatorCodes(op.OpcodeIndex())
        kind = OP_NAMES[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]
        tensor = lambda i: self.tensors[i] if i >= 0 else None
        options = _options(op, OPTIONS[kind]) if kind in OPTIONS else None
        return Op(kind, [tensor(i) for i in op.InputsAsNumpy()], [tensor(i) for i in op.OutputsAsNumpy()], options)

    def accepted(self, ends=None):
        """The file's bytes as today's interpreter accepts them: old converters wrote quantized_dimension 3 for biases, which
        have one dimension; it means nothing where the parameters are those of a vector. ends: a tensor that becomes the first output.
        """
        content = bytearray(self.content)
        graph = tflite.Model.GetRootAsModel(content, 0).Subgraphs(0)
        for i in range(graph.TensorsLength()):
            q, rank = graph.Tensors(i).Quantization(), graph.Tensors(i).ShapeLength()
            if q and rank and q.QuantizedDimension() >= rank:
                at = q._tab.Pos + q._tab.Offset(16)  # field 6 of QuantizationParameters: quantized_dimension
                content[at : at + 4] = bytes(4)
                assert q.QuantizedDimension() == 0
        if ends is not None:
            at = graph._tab.Vector(graph._tab.Offset(8))  # field 2 of SubGraph: outputs
            content[at : at + 4] = int(ends).to_bytes(4, "little")
            assert graph.Outputs(0) == ends
        return bytes(content)


class Reference:
    """The reference interpreter, keeping every tensor of a run."""

    def __init__(self, model):
        self.model = model
        self.whole = self._interpreter(model.accepted())
        # tflite-runtime lets ADD write over an operand; such a tensor is read from a copy of the model that ends there.
        shared = {t.index for op in model.ops if op.kind == "ADD" for t in op.inputs if t.data is None} - set(
            model.inputs
        )
        self.ending = (
            {i: self._interpreter(model.accepted(ends=i)) for i in sorted(shared)}
            if RUNTIME == "tflite-runtime"
            else {}
        )

    @staticmethod
    def _interpreter(content):
        made = Interpreter(
            model_content=content,
            experimental_op_resolver_type=OpResolverType.BUILTIN_REF,
            experimental_preserve_all_tensors=True,
        )
        made.allocate_tensors()
        return made

    def run(self, *values):
        for interpreter in (self.whole, *self.ending.values()):
            for index, value in zip(self.model.inputs, values, strict=True):
                interpreter.set_tensor(index, value)
            interpreter.invoke()

    def tensor(self, t):
        return self.ending.get(t.index, self.whole).get_tensor(t.index)


def padding(op, x, w_height, w_width, out):
    """(top, left) of TensorFlow's SAME and VALID."""
    o = op.options
    if o.Padding() == tflite.Padding.VALID:
        return 0, 0
    dh = getattr(o, "DilationHFactor", lambda: 1)()
    dw = getattr(o, "DilationWFactor", lambda: 1)()
    down = (out.shape[1] - 1) * o.StrideH() + (w_height - 1) * dh + 1 - x.shape[1]
    across = (out.shape[2] - 1) * o.StrideW() + (w_width - 1) * dw + 1 - x.shape[2]
    return max(down, 0) // 2, max(across, 0) // 2


def activation_levels(op, out):
    """Lowest and highest level of the result with the fused activation."""
    info = np.iinfo(out.dtype)
    lo, hi, kind = info.min, info.max, op.options.FusedActivationFunction()
    level = lambda x: out.z + int(np.trunc(np.float32(x) / out.s + np.copysign(np.float32(0.5), np.float32(x))))
    if kind in (tflite.ActivationFunctionType.RELU, tflite.ActivationFunctionType.RELU6):
        lo = max(lo, out.z)
        if kind == tflite.ActivationFunctionType.RELU6:
            hi = min(hi, level(6))
    else:
        assert kind == tflite.ActivationFunctionType.NONE, kind
    return lo, hi
