# SPDX-License-Identifier: Apache-2.0
"""Converts samples in Python's forms to the library's data object.

A batch has the rank of the model's input; an array without that first axis is one sample. The library opens files.
Arrays are not copied. The library draws the samples of an iterable one by one. It keeps 64 MiB of them in memory and
the rest in a temporary file, because a job may read samples several times.
"""

import ctypes
import os
import sys
from collections.abc import Mapping

import numpy as np

from . import _library
from ._errors import BadInputError, MachineError, UsageError
from ._model import TYPES

_TRUTH = ("labels", "target")
_CODES = {name: code for code, name in TYPES.items() if code < 21}


def _of_tensor(value):
    """Returns the numpy array of a PyTorch tensor."""
    try:
        value = value.detach().cpu()
        return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    except (TypeError, ValueError, RuntimeError) as error:  # sparse, quantized, on the device "meta"
        raise BadInputError(f"cannot make an array of {type(value).__name__}: {error}") from None


def _row_major(array):
    try:
        # reshape: ascontiguousarray makes scalars 1-dimensional
        return np.ascontiguousarray(array).reshape(array.shape)
    except MemoryError:
        raise MachineError(f"an array of shape {list(array.shape)} needs {array.nbytes} bytes as a copy, as a view that "
                           "repeats or reorders values does; give fewer samples, or an iterable") from None


def as_array(value):
    """Returns a row-major numpy array of a PyTorch tensor, a list or anything else that numpy accepts."""
    if hasattr(value, "detach"):
        value = _of_tensor(value)
    if np.ma.is_masked(value):
        raise BadInputError(f"an array has {np.ma.count_masked(value)} masked values of {value.size}: fill them "
                            "(array.filled) or leave these samples out")
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise BadInputError(f"cannot make an array of {type(value).__name__}: {error}") from None
    if array.dtype.byteorder == (">" if sys.byteorder == "little" else "<"):
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.name not in _CODES:
        raise BadInputError(f"an array of {array.dtype} holds no samples: expected numbers, all of one shape")
    return _row_major(array)


def _is_numbers(value):
    """True for an array in the form of nested lists."""
    while isinstance(value, list) and value:
        value = value[0]
    return isinstance(value, (int, float))


def _are_labels(array):
    """True for integers, one for each sample or word; uint8 with more axes are pixels."""
    return array.dtype.kind in "iub" and array.ndim <= (2 if array.dtype.kind == "i" else 1)


def _add(handle, name, array, shape, values):
    sizes = (ctypes.c_int64 * len(shape))(*shape)
    _library.call("data_add", handle.pointer, _library.Array(
        name=_library.text_bytes(name), type=_CODES[array.dtype.name], rank=len(shape), shape=sizes, values=values))


def _rows(array, rank):
    """Adds the sample axis if it is missing. rank: of the model's input; None: unknown."""
    alone = rank is not None and (array.ndim == rank - 1 or rank == array.ndim == 0)
    return array[np.newaxis] if alone else array


class _Reading:
    """Assigns the arrays of a batch to the inputs of the model."""

    def __init__(self, model, truth, options):
        states = options.get("state") or []
        states = {text.partition("=")[0] for text in ([states] if isinstance(states, str) else states)}
        self.shapes = model.input_shapes
        # the data need not have states
        self.ranks = {name: None if shape is None else len(shape) for name, shape in self.shapes.items()
                      if name not in states}
        self.sizes_differ = any(shape is None or -1 in shape[1:] for shape in self.shapes.values())
        self.truth, self.all_keys = truth, bool(states) or options.get("input") is not None

    def _extra(self, values):
        """Returns the entry after the inputs in a tuple, as labels or a target."""
        named = {}
        for value in values[:1] if self.truth else ():
            array = as_array(value)
            named["labels" if _are_labels(array) else "target"] = array
        return named

    def _chosen(self, batch):
        arrays = dict(batch)
        if "label" in arrays and "labels" not in arrays and "label" not in self.ranks:
            arrays["labels"] = arrays.pop("label")
        if not self.truth:
            arrays = {k: v for k, v in arrays.items() if k not in _TRUTH or k in self.ranks}
        if not self.all_keys and all(name in arrays for name in self.ranks):
            arrays = {k: v for k, v in arrays.items() if k in self.ranks or k in _TRUTH}
        return {k: as_array(v) for k, v in arrays.items()}

    def named(self, batch):
        """Returns {name: array} for an item of an iterable."""
        if isinstance(batch, Mapping):
            return self._chosen(batch)
        if not isinstance(batch, (tuple, list)) or not batch or (_is_numbers(batch) and len(self.ranks) == 1):
            batch = (batch,)
        if isinstance(batch[0], Mapping):
            return {**self._chosen(batch[0]), **self._extra(batch[1:])}
        if len(self.ranks) > 1 and isinstance(batch[0], (tuple, list)) and len(batch[0]) == len(self.ranks):
            batch = (*batch[0], *batch[1:])
        if len(batch) < len(self.ranks):
            raise UsageError(f"a batch has {len(batch)} array{'s' * (len(batch) != 1)}, but the model has "
                             f"{len(self.ranks)} inputs: {', '.join(self.ranks)}")
        inputs = {name: as_array(value) for name, value in zip(self.ranks, batch)}
        return {**inputs, **self._extra(batch[len(self.ranks):])}

    def shape_of(self, name):
        """Returns the shape of the array's input. None: unknown, or the array belongs to no input."""
        if name in self.shapes:
            return self.shapes[name]
        return next(iter(self.shapes.values())) if len(self.shapes) == 1 and name not in _TRUTH else None

    def rank_of(self, name):
        """Returns the rank of a batch of this array; None: unknown."""
        shape = self.shape_of(name)
        return None if shape is None else len(shape)

    def free(self, name, array):
        """Returns for each axis of a sample whether its size may differ between samples."""
        shape = self.shape_of(name)
        if shape is None:
            return [self.sizes_differ] * (array.ndim - 1)
        if array.ndim not in (len(shape), len(shape) + 1):
            return [False] * (array.ndim - 1)
        return [size == -1 for size in shape[len(shape) - (array.ndim - 1):]]

    def samples(self, batches):
        """Yields {name: rows} for each batch; all arrays of a batch have the same number of rows."""
        for number, batch in enumerate(batches):
            arrays = {k: _rows(v, self.rank_of(k)) for k, v in self.named(batch).items()}
            count = max((len(v) for k, v in arrays.items() if k not in _TRUTH and v.ndim), default=1)
            if count == 1:  # labels and target of a single sample may lack the sample axis
                arrays = {k: v[np.newaxis] if k in _TRUTH and (v.ndim == 0 or len(v) != 1) else v
                          for k, v in arrays.items()}
            if any(v.ndim == 0 or len(v) != count for v in arrays.values()):
                shapes = ", ".join(f"{k} {list(v.shape)}" for k, v in arrays.items())
                raise BadInputError(f"batch {number}: arrays of different lengths: {shapes}")
            yield arrays


def _is_whole(source, inputs):
    """True for (inputs..., truth) or ({name: array}, truth) of all samples, where truth is labels or a target.

    Call it only if truth is required: a tuple with this number of arrays cannot be batches, which would have no truth.
    A list counts if its last entry is labels.
    """
    if not isinstance(source, (tuple, list)) or len(source) < 2:
        return False
    if isinstance(source[0], Mapping):
        return len(source) == 2 and not isinstance(source[1], Mapping)
    if len(source) != inputs + 1 or not all(hasattr(a, "shape") or _is_numbers(a) for a in source):
        return False
    return isinstance(source, tuple) or _are_labels(as_array(source[-1]))


def _batches(data):
    """Returns an iterator over any source of samples."""
    if callable(getattr(data, "get_next", None)):  # ONNX Runtime's CalibrationDataReader
        return iter(data.get_next, None)
    if hasattr(data, "__iter__") and not isinstance(data, (bytes, bytearray)):
        return iter(data)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not hasattr(data, "__iter__"):  # PyTorch's Dataset
        return (data[i] for i in range(len(data)))
    raise UsageError(f"data must be a path, arrays by name, or an iterable of them, not {type(data).__name__}")


def _holds(dtype, array):
    """True if the type can hold the values of the array. Rounding to a float of 32 bits or more is accepted, as for
    files."""
    if np.can_cast(array.dtype, dtype):
        return True
    with np.errstate(all="ignore"):
        cast = array.astype(dtype)
    if dtype.kind == "f" and dtype.itemsize >= 4:
        return bool((np.isfinite(cast) == np.isfinite(array)).all())
    if array.dtype.kind == "f" and not np.isfinite(array).all() and dtype.kind != "f":
        return False
    # Comparing after the cast is not enough: 2^63 becomes the largest int64, which converts back to 2^63.
    if array.dtype.kind == "f" and dtype.kind in "iu" and (array >= float(np.iinfo(dtype).max) + 1).any():
        return False
    if array.dtype.kind in "iu" and dtype.kind in "iu" and ((cast < 0) != (array < 0)).any():
        return False
    return np.array_equal(cast.astype(array.dtype), array, equal_nan=array.dtype.kind == "f")


class _Source:
    """Passes samples to the library one by one."""

    def __init__(self, batches, limit):
        self._batches, self._limit = batches, limit
        self._rows, self._at, self._left, self.given = None, 0, 0, 0
        self._shapes = None
        self.like = {}  # empty arrays with the types and shapes of the first batch
        self.free = {}  # for each axis of a sample, whether it may differ
        self.error = None
        self.ended = False

    def begin(self, free):
        first = next(self._batches, None)
        if first is None:
            raise BadInputError("the data gave no samples")
        self.like = {name: np.empty((0, *array.shape[1:]), array.dtype) for name, array in first.items()}
        self.free = {name: free(name, array) for name, array in first.items()}
        self._take(first)

    def _take(self, arrays):
        rows = []
        for name, like in self.like.items():
            array = arrays.get(name)
            if array is None:
                raise BadInputError(f"sample {self.given}: '{name}' is missing; the samples before have it")
            shape, before = array.shape[1:], like.shape[1:]
            if len(shape) != len(before) or any(
                    a != b and not free for a, b, free in zip(shape, before, self.free[name])):
                raise BadInputError(f"sample {self.given}: '{name}' has the shape {list(shape)}, but the samples "
                                    f"before have {list(before)}; only sizes that the model leaves free may differ")
            if not _holds(like.dtype, array):
                raise BadInputError(f"sample {self.given}: '{name}' has values of {array.dtype} that {like.dtype}, the "
                                    f"type of the samples before, cannot hold; give all samples one type")
            rows.append(np.ascontiguousarray(array, dtype=like.dtype))
        self._rows, self._at, self._left = rows, 0, len(rows[0])
        self._shapes = [np.array(array.shape[1:] or (1,), np.int64) for array in rows]

    def _next(self, values, shapes):
        while not self._left:
            self._rows = None  # releases the finished batch before the next one is read
            arrays = next(self._batches, None)
            if arrays is None:
                return 0
            self._take(arrays)
        for k, rows in enumerate(self._rows):
            values[k] = rows.ctypes.data + self._at * (rows.nbytes // len(rows))
            shapes[k] = self._shapes[k].ctypes.data
        self._at += 1
        self._left -= 1
        self.given += 1
        return 1

    def next(self, _user, values, shapes):
        try:
            more = self._next(values, shapes) if self._limit is None or self.given < self._limit else 0
            self.ended = not more
            return more
        except BaseException as error:  # cannot pass through C: raised after the call
            self.error = error
            return -1


class Data:
    """The library's data object with the arrays that it borrows. It depends on the options samples, seed and input."""

    def __init__(self, source, model, *, truth, options):
        self._handle = _library.Handle("data")
        self.pointer = self._handle.pointer
        self._arrays = []
        self.whole = False  # True: an array holds a whole input for each sample, with the batch axis
        if isinstance(source, (str, os.PathLike)):
            _library.call("data_open", self._handle.out, _library.path_bytes(source))
            return
        _library.call("data_new", self._handle.out, None)
        reading = _Reading(model, truth, options)
        if truth and _is_whole(source, len(reading.ranks)):
            source = [tuple(source)]
        if hasattr(source, "__array__") or isinstance(source, np.ndarray):
            if len(reading.ranks) != 1:
                raise UsageError(f"one array for {len(reading.ranks)} inputs: name them, as in "
                                 f"{{{', '.join(repr(n) + ': ...' for n in reading.ranks)}}}")
            source = {next(iter(reading.ranks)): source}
        if isinstance(source, Mapping):
            self._borrow({k: as_array(v) for k, v in source.items()}, reading)
        else:
            self._draw(source, reading, options)

    def _note(self, name, array, reading):
        rank = reading.rank_of(name)
        self.whole = self.whole or (rank is not None and array.ndim == rank + 1)

    def _borrow(self, arrays, reading):
        if not arrays:
            raise UsageError("the data have no arrays")
        for name, array in arrays.items():
            array = _rows(array, reading.rank_of(name))
            self._note(name, array, reading)
            self._arrays.append(array)
            _add(self._handle, name, array, array.shape, array.ctypes.data)

    def _draw(self, source, reading, options):
        limit = None if options.get("samples") is None or options.get("seed") is not None else int(options["samples"])
        rows = _Source(reading.samples(_batches(source)), limit)
        rows.begin(reading.free)
        for name, array in rows.like.items():
            self._note(name, array, reading)
            sizes = [-1 if free else size for size, free in zip(array.shape[1:], rows.free[name])]
            _add(self._handle, name, array, (0, *sizes), None)
        failed = _library.outcome("data_draw_sized", self._handle.pointer, _library.NextFunction(rows.next), None, 0)
        if rows.error:
            raise rows.error
        if failed:
            raise failed
        if not rows.ended:  # an interrupt before the callback began
            raise KeyboardInterrupt
