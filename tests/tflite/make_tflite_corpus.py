#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small models for tests/tflite/test_tflite_read.c and the fuzz target: `make_tflite_corpus.py tests/tflite/corpus_tflite`."""

import pathlib
import sys

import numpy as np

from tflite_ops import model_of

F, I8, I16, I32, I64 = np.float32, np.int8, np.int16, np.int32, np.int64


def real(shape, data=None):
    return (shape, F, None, None, 0, data)


def stored(shape, scale, zero, dtype=I8, data=None):
    return (shape, dtype, [scale], [zero], 0, data)


def ints(values):
    return (np.shape(values), I32, None, None, 0, np.asarray(values, I32))


def network():
    """A convolution per channel, a residual Add, a pool, a dense layer and softmax, in int8."""
    rng = np.random.default_rng(1)
    scales = np.array([0.01, 0.02], F)
    tensors = [
        stored((1, 4, 4, 2), 0.5, -3),
        ((2, 3, 3, 2), I8, scales, [0, 0], 0, rng.integers(-127, 128, (2, 3, 3, 2))),
        ((2,), I32, 0.5 * scales, [0, 0], 0, [10, -10]),
        stored((1, 4, 4, 2), 0.25, -128),
        stored((1, 4, 4, 2), 0.5, -4),
        stored((1, 1, 1, 2), 0.5, -4),
        ints([-1, 2]),
        stored((1, 2), 0.5, -4),
        stored((3, 2), 0.125, 0, I8, rng.integers(-127, 128, (3, 2))),
        ((3,), I32, [0.0625], [0], 0, [1, 2, 3]),
        stored((1, 3), 0.5, 0),
        stored((1, 3), 1 / 256, -128),
    ]
    window = {"Padding": 1, "StrideH": 4, "StrideW": 4, "FilterHeight": 4, "FilterWidth": 4}
    conv = {"Padding": 0, "StrideH": 1, "StrideW": 1, "FusedActivationFunction": 1}
    ops = [
        ("CONV_2D", [0, 1, 2], [3], ("Conv2DOptions", conv), 3),
        ("ADD", [3, 0], [4], ("AddOptions", {}), 2),
        ("AVERAGE_POOL_2D", [4], [5], ("Pool2DOptions", window), 2),
        ("RESHAPE", [5, 6], [7], ("ReshapeOptions", {"NewShape": [-1, 2]}), 1),
        ("FULLY_CONNECTED", [7, 8, 9], [10], ("FullyConnectedOptions", {}), 4),
        ("SOFTMAX", [10], [11], ("SoftmaxOptions", {"Beta": 1.0}), 2),
    ]
    return model_of(ops, tensors, [0], [11])


def floats():
    """Operators with lists, in float, around a depthwise and a transposed convolution."""
    tensors = [
        real((1, 5, 4, 2)),
        real((1, 3, 3, 4), np.linspace(-1, 1, 36)),
        real((4,), [1, 2, 3, 4]),
        real((1, 5, 4, 4)),
        ints([[0, 0], [1, 1], [0, 0], [0, 0]]),
        real((1, 7, 4, 4)),
        ints([0, 1, 0, 0]),
        ints([1, -1, 2, 4]),
        real((1, 6, 2, 4)),
        ints([1, 12, 4, 3]),
        real((3, 2, 2, 4), np.linspace(-1, 1, 48)),
        real((1, 12, 4, 3)),
        ints(3),
        real((1, 12, 4, 1)),
        real((1, 12, 4, 1)),
        real((1, 12, 4, 1)),
        real((1, 12, 4, 2)),
        ints([1, 2]),
        real((1, 2)),
        real((1, 2, 1)),
        ints([1]),
        real((1, 1, 2)),
    ]
    ops = [
        ("DEPTHWISE_CONV_2D", [0, 1, 2], [3], ("DepthwiseConv2DOptions", {"StrideH": 1, "StrideW": 1, "FusedActivationFunction": 3}), 1),
        ("PAD", [3, 4], [5], ("PadOptions", {}), 1),
        ("SLICE", [5, 6, 7], [8], ("SliceOptions", {}), 1),
        ("TRANSPOSE_CONV", [9, 10, 8], [11], ("TransposeConvOptions", {"StrideH": 2, "StrideW": 2}), 1),
        ("SPLIT", [12, 11], [13, 14, 15], ("SplitOptions", {"NumSplits": 3}), 1),
        ("CONCATENATION", [13, 15], [16], ("ConcatenationOptions", {"Axis": -1}), 1),
        ("MEAN", [16, 17], [18], ("ReducerOptions", {}), 1),
        ("PACK", [18], [19], ("PackOptions", {"ValuesCount": 1, "Axis": 2}), 1),
        ("EXPAND_DIMS", [18, 20], [21], ("ExpandDimsOptions", {}), 1),
    ]  # fmt: skip
    return model_of(ops, tensors, [0], [14, 19, 21])


def wide():
    """int16 data with int8 weights and an int64 bias, and a half float that is read as a float."""
    tensors = [
        stored((1, 2), 0.001, 0, I16),
        stored((2, 2), 0.01, 0, I8, [[1, -2], [3, 4]]),
        ((2,), I64, [1e-5], [0], 0, [5, -6]),
        stored((1, 2), 0.001, 0, I16),
        ((2,), np.float16, None, None, 0, [1, 0.5]),
        real((2,)),
        real((1, 2)),
        real((1, 2)),
    ]
    ops = [
        ("FULLY_CONNECTED", [0, 1, 2], [3], ("FullyConnectedOptions", {}), 7),
        ("DEQUANTIZE", [3], [6], ("DequantizeOptions", {}), 3),
        ("DEQUANTIZE", [4], [5], ("DequantizeOptions", {}), 3),
        ("MUL", [6, 5], [7], ("MulOptions", {}), 1),
    ]
    return model_of(ops, tensors, [0], [7])


def sparse():
    """Sparse weights in rows and in blocks, an image cut into blocks, and values made of shapes."""
    i = lambda *v: np.array(v, I32)
    rows = ([0, 1], [], [2, (i(0, 1, 3), i(2, 0, 3))])
    blocks = ([0, 1, 2], [1], [2, (i(0, 1, 2), i(1, 0)), 2])
    tensors = [
        real((1, 4, 4, 1)),
        ints([2, 2]),
        ints([[0, 0], [0, 0]]),
        real((4, 2, 2, 1)),
        real((1, 4, 4, 1)),
        ints([-1, 4]),
        real((4, 4)),
        (*real((2, 4), [1, 2, 3]), rows),
        (*real((2, 4), [1, 2, 3, 4]), blocks),
        real((2, 4)),
        real((2, 4)),
        real((4, 2)),
        real((4, 2)),
        ((2,), I32, None, None, 0, None),
        real((), 0.5),
        real((4, 2)),
        real((4, 2)),
    ]
    ops = [
        ("SPACE_TO_BATCH_ND", [0, 1, 2], [3], None, 1),
        ("BATCH_TO_SPACE_ND", [3, 1, 2], [4], None, 1),
        ("RESHAPE", [4, 5], [6], None, 1),
        ("DENSIFY", [7], [9], None, 1),
        ("DENSIFY", [8], [10], None, 1),
        ("FULLY_CONNECTED", [6, 9, -1], [11], ("FullyConnectedOptions", {}), 1),
        ("FULLY_CONNECTED", [6, 10, -1], [12], ("FullyConnectedOptions", {}), 1),
        ("SHAPE", [11], [13], ("ShapeOptions", {"OutType": 2}), 1),
        ("FILL", [13, 14], [15], None, 1),
        ("FLOOR_MOD", [12, 15], [16], None, 1),
    ]
    return model_of(ops, tensors, [0], [11, 16])


def states():
    """A variable that is read and assigned, with a graph of its first value, and a recurrent operator with its state."""
    handle = ((), object, None, None, 0, None)
    named = lambda to: ("VAR_HANDLE", [], [to], ("VarHandleOptions", {"SharedName": "last"}), 1)
    gate, state = real((1, 2), [0.5, -1]), (*real((1, 1)), None, True)
    tensors = [real((1, 2, 2)), handle, real((1, 2, 2)), real((1, 2, 2)), *[gate] * 4, *[real((1, 1), [0.5])] * 4, *[real((1,), [0.1])] * 4, state, state, real((1, 2, 1))]
    cell = ("UnidirectionalSequenceLSTMOptions", {"FusedActivationFunction": 4, "CellClip": 10.0})
    ops = [
        ("CALL_ONCE", [], [], ("CallOnceOptions", {"InitSubgraphIndex": 1}), 1),
        named(1),
        ("READ_VARIABLE", [1], [2], None, 1),
        ("ADD", [0, 2], [3], ("AddOptions", {}), 1),
        ("ASSIGN_VARIABLE", [1, 3], [], None, 1),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", [3, *range(4, 12), -1, -1, -1, *range(12, 16), -1, -1, 16, 17], [18], cell, 1),
    ]
    first = ([named(0), ("ASSIGN_VARIABLE", [0, 1], [], None, 1)], [handle, real((1, 2, 2), [0, 0, 0, 0])], [], [])
    return model_of(ops, tensors, [0], [18], first)


def graphs():
    """One of two graphs, of which the second calls the first twice."""
    row, flag = real((1, 3)), ((), bool, None, None, 0, None)
    branch = lambda then, other: ("IfOptions", {"ThenSubgraphIndex": then, "ElseSubgraphIndex": other})
    first = ([("ADD", [0, 1], [2], ("AddOptions", {}), 1)], [row] * 3, [0, 1], [2])
    second = ([("IF", [0, 1, 2], [3], branch(1, 1), 1)], [flag, *[row] * 3], [0, 1, 2], [3])
    third = ([("MUL", [1, 2], [3], ("MulOptions", {}), 1)], [flag, *[row] * 3], [0, 1, 2], [3])
    return model_of([("IF", [0, 0, 1, 2], [3], branch(2, 3), 1)], [flag, row, real((1, 3), [1, 2, 3]), row], [0, 1], [3], first, second, third)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    for make in (network, floats, wide, sparse, states, graphs):
        (folder / f"{make.__name__}.tflite").write_bytes(make())
