# SPDX-License-Identifier: Apache-2.0
"""`qcalib run MODEL.tflite` is the reference interpreter: values made from shapes and numbers, blocks of images, sparse weights.

  QCALIB       the program; build/release/qcalib when unset"""

import numpy as np
import pytest

from test_tflite_import import IMAGE, check, command, ints, program, real, stored  # noqa: F401
from tflite_model import RUNTIME
from tflite_ops import model_of

F, I8, I32 = np.float32, np.int8, np.int32
BLOCKS = {
    "SPACE_TO_BATCH_ND": ((2, 7, 6, 4), [[1, 1], [0, 2]], (12, 3, 4, 4)),
    "BATCH_TO_SPACE_ND": ((12, 3, 4, 4), [[1, 1], [0, 2]], (2, 7, 6, 4)),
}


@pytest.mark.parametrize("dtype", [F, I8])
@pytest.mark.parametrize("kind", BLOCKS)
def test_blocks(kind, dtype, program, tmp_path):  # noqa: F811
    shape, edges, out = BLOCKS[kind]
    tensor = real if dtype == F else lambda s: stored(s, 0.03, 5)
    tensors = [tensor(shape), ints([3, 2]), ints(edges), tensor(out)]
    ops = [(kind, [0, 1, 2], [3], (f"{''.join(w.capitalize() for w in kind[:-2].split('_'))}NDOptions", {}), 1 if dtype == F else 2)]
    check(program, tmp_path, ops, tensors, [0], [3], exact=True)


def test_a_dilated_convolution_of_blocks(program, tmp_path):  # noqa: F811
    """As old converters write one."""
    rng = np.random.default_rng(2)
    tensors = [real((1, 8, 8, 4)), ints([2, 2]), ints([[2, 2], [2, 2]]), real((4, 6, 6, 4))]
    tensors += [real((5, 3, 3, 4), rng.normal(size=(5, 3, 3, 4))), real((5,), rng.normal(size=5)), real((4, 4, 4, 5)), ints([[0, 0], [0, 0]]), real((1, 8, 8, 5))]
    ops = [
        ("SPACE_TO_BATCH_ND", [0, 1, 2], [3], None, 1),
        ("CONV_2D", [3, 4, 5], [6], ("Conv2DOptions", {"Padding": 1, "StrideH": 1, "StrideW": 1}), 1),
        ("BATCH_TO_SPACE_ND", [6, 1, 7], [8], None, 1),
    ]
    check(program, tmp_path, ops, tensors, [0], [8])


def numbers(shape, dtype=I32, data=None):
    return (shape, dtype, None, None, 0, data)


def test_values_made_of_shapes(program, tmp_path):  # noqa: F811
    """The shape of the input, filled; zeros like it; a range as long as its rows; its rank."""
    tensors = [real((3, 5)), numbers((2,)), real((), F(1.5)), real((3, 5)), real((3, 5)), numbers(()), ints(0), ints(1), real((3, 5))]  # 0 to 8
    tensors += [numbers((5,)), ints(5), numbers((5,))]  # 9 to 11
    ops = [
        ("SHAPE", [0], [1], ("ShapeOptions", {"OutType": 2}), 1),
        ("FILL", [1, 2], [3], ("FillOptions", {}), 1),
        ("ADD", [0, 3], [4], ("AddOptions", {}), 1),
        ("RANK", [0], [5], ("RankOptions", {}), 1),
        ("ZEROS_LIKE", [0], [8], ("ZerosLikeOptions", {}), 1),
        ("RANGE", [6, 10, 7], [9], ("RangeOptions", {}), 1),
        ("ADD", [9, 5], [11], ("AddOptions", {}), 1),
    ]
    check(program, tmp_path, ops, tensors, [0], [4, 8, 11], exact=True)


@pytest.mark.parametrize("axis", [-1, 0, 1])
def test_one_hot(axis, program, tmp_path):  # noqa: F811
    shape = {-1: (4, 3, 5), 0: (5, 4, 3), 1: (4, 5, 3)}[axis]
    tensors = [numbers((4, 3)), ints(5), real((), F(2.5)), real((), F(-1)), real(shape)]
    check(program, tmp_path, [("ONE_HOT", [0, 1, 2, 3], [4], ("OneHotOptions", {"Axis": axis}), 1)], tensors, [0], [4], exact=True)


@pytest.mark.parametrize("kind", ["FLOOR_DIV", "FLOOR_MOD"])
@pytest.mark.parametrize("dtype", [F, I32])
def test_division_that_rounds_down(kind, dtype, program, tmp_path):  # noqa: F811
    divisor = np.array([3, -3, 2, -2], dtype) / (dtype(1) if dtype == F else 1)
    if dtype == F:
        tensors, inputs = [real((7, 4)), real((4,), divisor * F(0.7)), real((7, 4))], [0]
    else:  # numbers below 0 too
        tensors, inputs = [numbers((7, 4)), ints([7, -5, 6, -8]), numbers((7, 4)), numbers((4,), I32, divisor.astype(I32)), numbers((7, 4))], [0]
    options = ("FloorDivOptions" if kind == "FLOOR_DIV" else "FloorModOptions", {})
    ops = [(kind, [0, 1], [2], options, 1)] if dtype == F else [("SUB", [0, 1], [2], ("SubOptions", {}), 1), (kind, [2, 3], [4], options, 1)]
    check(program, tmp_path, ops, tensors, inputs, [len(tensors) - 1])


@pytest.mark.parametrize("kind", ["REDUCE_ANY", "REDUCE_ALL"])
@pytest.mark.parametrize("keep", [True, False])
def test_logical_reductions(kind, keep, program, tmp_path):  # noqa: F811
    tensors = [numbers((6, 2, 3), bool), ints([1]), numbers((6, 1, 3) if keep else (6, 3), bool)]
    check(program, tmp_path, [(kind, [0, 1], [2], ("ReducerOptions", {"KeepDims": keep}), 1)], tensors, [0], [2])


def test_the_first_select(program, tmp_path):  # noqa: F811
    tensors = [numbers((3, 4), bool), real((3, 4)), real((3, 4)), real((3, 4))]
    check(program, tmp_path, [("SELECT", [0, 1, 2], [3], ("SelectOptions", {}), 1)], tensors, [0, 1, 2], [3], exact=True)


@pytest.mark.skipif(RUNTIME != "tflite-runtime", reason="the other runtime refuses the size")
def test_a_transposed_convolution_that_ends_early(program, tmp_path):  # noqa: F811
    """VALID leaves out rows and columns behind alone."""
    weights = np.random.default_rng(5).normal(size=(3, 4, 4, 4))
    tensors = [ints([1, 14, 12, 3]), real((3, 4, 4, 4), weights), real(IMAGE), real((1, 14, 12, 3))]
    ops = [("TRANSPOSE_CONV", [0, 1, 2], [3], ("TransposeConvOptions", {"Padding": 1, "StrideH": 2, "StrideW": 2}), 1)]
    check(program, tmp_path, ops, tensors, [2], [3])


def test_sizes_that_the_program_chooses(program, tmp_path):  # noqa: F811
    """Those that the file has beside them may not fit, and the message says where they come from."""
    tensors = [(*real((1, 1, 1, 1)), None, False, "sound", [-1, -1, 1, 1]), real((1, 5, 1, 1), np.ones(5)), real((1,), [0]), real((1, 1, 1, 1))]
    options = ("Conv2DOptions", {"Padding": 1, "StrideH": 1, "StrideW": 1})
    (tmp_path / "model.tflite").write_bytes(model_of([("CONV_2D", [0, 1, 2], [3], options, 1)], tensors, [0], [3]))
    said = command(program, tmp_path, "inspect", "model.tflite", code=3)
    assert "input 'sound' is read as [N,1,1,1], but its sizes are chosen when the model runs; convert the model with fixed sizes" in said


# --- Sparse weights ---


def sparse(dense, index=np.int32):
    """Rows in compressed form: data and (order, blocks, levels)."""
    rows = [np.flatnonzero(r) for r in dense]
    segments = np.cumsum([0, *map(len, rows)]).astype(index)
    return np.concatenate([r[i] for r, i in zip(dense, rows, strict=True)]), ([0, 1], [], [len(dense), (segments, np.concatenate(rows).astype(index))])


def sparse_blocks(dense):
    """Blocks of 1 x 4 in compressed form."""
    rows, columns = dense.shape
    blocks = dense.reshape(rows, columns // 4, 4)
    kept = [np.flatnonzero(b.any(1)) for b in blocks]
    segments = np.cumsum([0, *map(len, kept)]).astype(np.int32)
    data = np.concatenate([b[i].ravel() for b, i in zip(blocks, kept, strict=True)])
    return data, ([0, 1, 2], [1], [rows, (segments, np.concatenate(kept).astype(np.int32)), 4])


def weights(seed=3):
    rng = np.random.default_rng(seed)
    kept = np.repeat(rng.random((6, 4)) < 0.4, 4, 1)
    return np.where(kept, rng.normal(size=(6, 16)), 0).astype(F)


FORMS = {"int32": sparse, "uint16": lambda d: sparse(d, np.uint16), "uint8": lambda d: sparse(d, np.uint8), "blocks": sparse_blocks}


def sparse_model(form):
    data, sparsity = FORMS[form](weights())
    tensors = [real((1, 16)), (*real((6, 16), data), sparsity), real((6, 16)), real((1, 6))]
    return [("DENSIFY", [1], [2], None, 1), ("FULLY_CONNECTED", [0, 2, -1], [3], ("FullyConnectedOptions", {}), 1)], tensors


@pytest.mark.parametrize("form", FORMS)
def test_sparse_weights(form, program, tmp_path):  # noqa: F811
    check(program, tmp_path, *sparse_model(form), [0], [3])


@pytest.mark.parametrize("damage", ["index", "segments", "data", "order"])
def test_sparse_weights_that_do_not_fit_are_refused(damage, program, tmp_path):  # noqa: F811
    ops, tensors = sparse_model("int32")
    order, blocks, (rows, (segments, indices)) = tensors[1][6]
    data = tensors[1][5]
    if damage == "index":
        indices[-1] = 16
    elif damage == "segments":
        segments[2] = len(indices) + 1
    elif damage == "data":
        data = data[:-1]
    else:
        order = [0, 0]
    tensors[1] = (*tensors[1][:5], data, (order, blocks, [rows, (segments, indices)]))
    (tmp_path / "model.tflite").write_bytes(model_of(ops, tensors, [0], [3]))
    assert "its indices do not fit its shape and data" in command(program, tmp_path, "inspect", "model.tflite", code=3)
