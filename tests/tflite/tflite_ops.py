# SPDX-License-Identifier: Apache-2.0
"""Makes .tflite files of one op, so that any parameters can be tried in TensorFlow Lite itself."""

import flatbuffers
import numpy as np
import tflite

TYPES = {
    np.dtype(np.float32): tflite.TensorType.FLOAT32,
    np.dtype(np.int8): tflite.TensorType.INT8,
    np.dtype(np.uint8): tflite.TensorType.UINT8,
    np.dtype(np.int32): tflite.TensorType.INT32,
}


def _vector(b, values, kind):
    values = np.asarray(values)
    start = {
        "f": tflite.QuantizationParametersStartScaleVector,
        "q": tflite.QuantizationParametersStartZeroPointVector,
        "i": tflite.TensorStartShapeVector,
    }[kind]
    start(b, len(values))
    for v in reversed(values.tolist()):
        {"f": b.PrependFloat32, "q": b.PrependInt64, "i": b.PrependInt32}[kind](v)
    return b.EndVector()


def _offsets(b, start, offsets):
    start(b, len(offsets))
    for o in reversed(offsets):
        b.PrependUOffsetTRelative(o)
    return b.EndVector()


def one_op(kind, tensors, inputs, outputs, options=None, version=1):
    """kind: "MUL". tensors: (shape, dtype, scales or None, zero points or None, axis, data or None); inputs: indices of the op's inputs, -1 for
    none; outputs likewise; the model's inputs are those without data. options: (union type name, {setter: value})."""
    b = flatbuffers.Builder(1 << 16)
    buffers, made = [], []
    tflite.BufferStart(b)
    buffers.append(tflite.BufferEnd(b))
    for shape, dtype, scale, zero, axis, data in tensors:
        index = 0
        if data is not None:
            content = b.CreateByteVector(np.ascontiguousarray(data, dtype).tobytes())
            tflite.BufferStart(b)
            tflite.BufferAddData(b, content)
            buffers.append(tflite.BufferEnd(b))
            index = len(buffers) - 1
        parameters = None
        if scale is not None:
            s, z = _vector(b, np.asarray(scale, np.float32), "f"), _vector(b, np.asarray(zero, np.int64), "q")
            tflite.QuantizationParametersStart(b)
            tflite.QuantizationParametersAddScale(b, s)
            tflite.QuantizationParametersAddZeroPoint(b, z)
            tflite.QuantizationParametersAddQuantizedDimension(b, axis)
            parameters = tflite.QuantizationParametersEnd(b)
        dims, name = _vector(b, np.asarray(shape, np.int32), "i"), b.CreateString(f"t{len(made)}")
        tflite.TensorStart(b)
        tflite.TensorAddShape(b, dims)
        tflite.TensorAddType(b, TYPES[np.dtype(dtype)])
        tflite.TensorAddBuffer(b, index)
        tflite.TensorAddName(b, name)
        if parameters is not None:
            tflite.TensorAddQuantization(b, parameters)
        made.append(tflite.TensorEnd(b))
    table = None
    if options:
        name, fields = options
        getattr(tflite, f"{name}Start")(b)
        for field, value in fields.items():
            getattr(tflite, f"{name}Add{field}")(b, value)
        table = getattr(tflite, f"{name}End")(b)
    op_in, op_out = _vector(b, inputs, "i"), _vector(b, outputs, "i")
    graph_in, graph_out = _vector(b, [i for i in inputs if i >= 0 and tensors[i][5] is None], "i"), _vector(
        b, outputs, "i"
    )
    code_number = getattr(tflite.BuiltinOperator, kind)
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, 0)
    tflite.OperatorAddInputs(b, op_in)
    tflite.OperatorAddOutputs(b, op_out)
    if table is not None:
        tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, options[0]))
        tflite.OperatorAddBuiltinOptions(b, table)
    operators = _offsets(b, tflite.SubGraphStartOperatorsVector, [tflite.OperatorEnd(b)])
    all_tensors = _offsets(b, tflite.SubGraphStartTensorsVector, made)
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, all_tensors)
    tflite.SubGraphAddInputs(b, graph_in)
    tflite.SubGraphAddOutputs(b, graph_out)
    tflite.SubGraphAddOperators(b, operators)
    graphs = _offsets(b, tflite.ModelStartSubgraphsVector, [tflite.SubGraphEnd(b)])
    tflite.OperatorCodeStart(b)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(code_number, 127))
    tflite.OperatorCodeAddBuiltinCode(b, code_number)
    tflite.OperatorCodeAddVersion(b, version)
    codes = _offsets(b, tflite.ModelStartOperatorCodesVector, [tflite.OperatorCodeEnd(b)])
    all_buffers = _offsets(b, tflite.ModelStartBuffersVector, buffers)
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, codes)
    tflite.ModelAddSubgraphs(b, graphs)
    tflite.ModelAddBuffers(b, all_buffers)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())
