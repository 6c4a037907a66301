# SPDX-License-Identifier: Apache-2.0
"""Makes .tflite files of one op or a few, so that any parameters can be tried in TensorFlow Lite itself."""

import flatbuffers
import numpy as np
import tflite

TYPES = {
    np.dtype(np.float32): tflite.TensorType.FLOAT32,
    np.dtype(np.int8): tflite.TensorType.INT8,
    np.dtype(np.uint8): tflite.TensorType.UINT8,
    np.dtype(np.int16): tflite.TensorType.INT16,
    np.dtype(np.int32): tflite.TensorType.INT32,
    np.dtype(np.int64): tflite.TensorType.INT64,
    np.dtype(np.float16): tflite.TensorType.FLOAT16,
    np.dtype(np.complex64): tflite.TensorType.COMPLEX64,
    np.dtype(bool): tflite.TensorType.BOOL,
    np.dtype(object): tflite.TensorType.RESOURCE,  # the handle of a variable
}


class Builder(flatbuffers.Builder):
    """With `shared`, equal names, lists, sparsities and data are stored once, and others refer to them."""

    shared = None

    def once(self, make, *key):
        if self.shared is None:
            return make()
        if key not in self.shared:
            self.shared[key] = make()
        return self.shared[key]


def _vector(b, values, kind):
    values = np.asarray(values)
    return b.once(lambda: _new_vector(b, values, kind), kind, values.tobytes())


def _new_vector(b, values, kind):
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


def _table(b, options):
    """The options' table: (union type name, {setter: value}); lists of integers are vectors."""
    name, fields = options
    made = {list: lambda v: _vector(b, v, "i"), str: b.CreateString}
    values = {f: made.get(type(v), lambda v: v)(v) for f, v in fields.items()}
    getattr(tflite, f"{name}Start")(b)
    for field, value in values.items():
        getattr(tflite, f"{name}Add{field}")(b, value)
    return getattr(tflite, f"{name}End")(b)


def _operator(b, inputs, outputs, options, code_index):
    table = _table(b, options) if options else None
    op_in, op_out = _vector(b, inputs, "i"), _vector(b, outputs, "i")
    tflite.OperatorStart(b)
    tflite.OperatorAddOpcodeIndex(b, code_index)
    tflite.OperatorAddInputs(b, op_in)
    tflite.OperatorAddOutputs(b, op_out)
    if table is not None:
        tflite.OperatorAddBuiltinOptionsType(b, getattr(tflite.BuiltinOptions, options[0]))
        tflite.OperatorAddBuiltinOptions(b, table)
    return tflite.OperatorEnd(b)


def _code(b, kind, version):
    number = getattr(tflite.BuiltinOperator, kind)
    tflite.OperatorCodeStart(b)
    tflite.OperatorCodeAddDeprecatedBuiltinCode(b, min(number, 127))
    tflite.OperatorCodeAddBuiltinCode(b, number)
    tflite.OperatorCodeAddVersion(b, version)
    return tflite.OperatorCodeEnd(b)


def _sparsity(b, order, blocks, levels):
    """levels: the size of a dense one, or segments and indices."""
    made = []
    for level in levels:
        vectors = []
        for values in level if isinstance(level, tuple) else ():
            kind = {np.dtype(np.int32): "Int32Vector", np.dtype(np.uint16): "Uint16Vector", np.dtype(np.uint8): "Uint8Vector"}[values.dtype]
            content = b.CreateNumpyVector(values)
            getattr(tflite, f"{kind}Start")(b)
            getattr(tflite, f"{kind}AddValues")(b, content)
            vectors.append((getattr(tflite.SparseIndexVector, kind), getattr(tflite, f"{kind}End")(b)))
        tflite.DimensionMetadataStart(b)
        tflite.DimensionMetadataAddFormat(b, int(bool(vectors)))
        if vectors:
            (kind, segments), (other, indices) = vectors
            tflite.DimensionMetadataAddArraySegmentsType(b, kind)
            tflite.DimensionMetadataAddArraySegments(b, segments)
            tflite.DimensionMetadataAddArrayIndicesType(b, other)
            tflite.DimensionMetadataAddArrayIndices(b, indices)
        else:
            tflite.DimensionMetadataAddDenseSize(b, level)
        made.append(tflite.DimensionMetadataEnd(b))
    all_levels = _offsets(b, tflite.SparsityParametersStartDimMetadataVector, made)
    orders, maps = _vector(b, order, "i"), _vector(b, blocks, "i")
    tflite.SparsityParametersStart(b)
    tflite.SparsityParametersAddTraversalOrder(b, orders)
    if blocks:
        tflite.SparsityParametersAddBlockMap(b, maps)
    tflite.SparsityParametersAddDimMetadata(b, all_levels)
    return tflite.SparsityParametersEnd(b)


def _buffer(b, buffers, data):
    content = b.CreateByteVector(data)
    tflite.BufferStart(b)
    tflite.BufferAddData(b, content)
    buffers.append(tflite.BufferEnd(b))
    return len(buffers) - 1


def _tensor(b, index, buffers, shape, dtype, scale, zero, axis, data, sparsity=None, is_state=False, name=None, signature=None):
    buffer = 0
    if data is not None:
        content = np.ascontiguousarray(data, dtype).tobytes()
        buffer = b.once(lambda: _buffer(b, buffers, content), "buffer", content)
    parameters = None
    if scale is not None:
        s, z = _vector(b, np.asarray(scale, np.float32), "f"), _vector(b, np.asarray(zero, np.int64), "q")
        tflite.QuantizationParametersStart(b)
        tflite.QuantizationParametersAddScale(b, s)
        tflite.QuantizationParametersAddZeroPoint(b, z)
        tflite.QuantizationParametersAddQuantizedDimension(b, axis)
        parameters = tflite.QuantizationParametersEnd(b)
    sparse = b.once(lambda: _sparsity(b, *sparsity), "sparsity", str(sparsity)) if sparsity else None
    dims, name = _vector(b, np.asarray(shape, np.int32), "i"), name or f"t{index}"
    name = b.once(lambda text=name: b.CreateString(text), "name", name)
    free = _vector(b, np.asarray(signature, np.int32), "i") if signature else None
    tflite.TensorStart(b)
    tflite.TensorAddShape(b, dims)
    if free is not None:
        tflite.TensorAddShapeSignature(b, free)
    tflite.TensorAddType(b, TYPES[np.dtype(dtype)])
    tflite.TensorAddBuffer(b, buffer)
    tflite.TensorAddName(b, name)
    if parameters is not None:
        tflite.TensorAddQuantization(b, parameters)
    if sparse is not None:
        tflite.TensorAddSparsity(b, sparse)
    tflite.TensorAddIsVariable(b, is_state)
    return tflite.TensorEnd(b)


def _graph(b, buffers, first, ops, tensors, inputs, outputs):
    """first: index of the code of its first operator."""
    made = [_tensor(b, i, buffers, *t) for i, t in enumerate(tensors)]
    graph_in, graph_out = _vector(b, inputs, "i"), _vector(b, outputs, "i")
    operators = _offsets(
        b,
        tflite.SubGraphStartOperatorsVector,
        [_operator(b, op_in, op_out, options, first + i) for i, (_, op_in, op_out, options, _) in enumerate(ops)],
    )
    all_tensors = _offsets(b, tflite.SubGraphStartTensorsVector, made)
    tflite.SubGraphStart(b)
    tflite.SubGraphAddTensors(b, all_tensors)
    tflite.SubGraphAddInputs(b, graph_in)
    tflite.SubGraphAddOutputs(b, graph_out)
    tflite.SubGraphAddOperators(b, operators)
    return tflite.SubGraphEnd(b)


def model_of(ops, tensors, inputs, outputs, *others, shared=False):
    """A model. ops: (kind such as "MUL", indices of inputs, -1 for none, of outputs, options or None, version). tensors: (shape, dtype,
    scales or None, zero points or None, axis, data or None, of a sparse one (order of traversal, block map, levels) or None, whether it is a state, its name, its shape with -1 for free sizes). options: (union type name, {setter: value}). others: further graphs, each of these four. shared: equal parts are stored once."""
    b = Builder(1 << 16)
    b.shared = {} if shared else None
    tflite.BufferStart(b)
    buffers = [tflite.BufferEnd(b)]
    made, all_ops = [], []
    for graph in ((ops, tensors, inputs, outputs), *others):
        made.append(_graph(b, buffers, len(all_ops), *graph))
        all_ops += graph[0]
    graphs = _offsets(b, tflite.ModelStartSubgraphsVector, made)
    codes = _offsets(b, tflite.ModelStartOperatorCodesVector, [_code(b, op[0], op[4]) for op in all_ops])
    all_buffers = _offsets(b, tflite.ModelStartBuffersVector, buffers)
    tflite.ModelStart(b)
    tflite.ModelAddVersion(b, 3)
    tflite.ModelAddOperatorCodes(b, codes)
    tflite.ModelAddSubgraphs(b, graphs)
    tflite.ModelAddBuffers(b, all_buffers)
    b.Finish(tflite.ModelEnd(b), b"TFL3")
    return bytes(b.Output())


def one_op(kind, tensors, inputs, outputs, options=None, version=1):
    """A model of one op, as model_of; its inputs are those of the op without data."""
    ports = [i for i in inputs if i >= 0 and tensors[i][5] is None]
    return model_of([(kind, inputs, outputs, options, version)], tensors, ports, outputs)
