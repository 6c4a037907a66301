# SPDX-License-Identifier: Apache-2.0
"""Binding of include/qcalib/qcalib.h with ctypes: structs, functions, and calls that raise exceptions on errors."""

import ctypes
import os
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t
from ctypes import c_uint, c_uint64, c_void_p

from ._errors import UsageError, of_code
from ._words import in_python

RANK_MAX = 8


class Error(Structure):
    _fields_ = [("code", c_int), ("message", c_char * 2048)]


class Sized(Structure):
    """A struct that begins with its size."""

    def __init__(self, **members):
        super().__init__(size=ctypes.sizeof(type(self)), **members)


class Option(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("argument", c_char_p), ("preset", c_char_p),
                ("choices", c_char_p), ("help", c_char_p), ("value", c_int), ("jobs", c_uint)]


class Tensor(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("type", c_int), ("rank", c_int),
                ("shape", c_int64 * RANK_MAX)]


class Array(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("type", c_int), ("rank", c_int), ("shape", POINTER(c_int64)),
                ("values", c_void_p), ("preprocess", c_char_p), ("peak", c_double)]


NextFunction = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p), POINTER(c_void_p))  # qcalib_next_sized_fn
ProgressFunction = ctypes.CFUNCTYPE(c_int, c_void_p, c_char_p, c_size_t, c_size_t)
MessageFunction = ctypes.CFUNCTYPE(None, c_void_p, c_char_p)


class Job(Sized):
    _fields_ = [("size", c_size_t), ("options", c_void_p), ("data", c_void_p), ("eval", c_void_p),
                ("statistics", c_void_p), ("progress", ProgressFunction), ("message", MessageFunction),
                ("user", c_void_p), ("outputs", POINTER(c_char_p)), ("output_count", c_size_t)]


class Layer(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("op", c_char_p), ("type", c_int), ("axis", c_int),
                ("count", c_size_t), ("scale", POINTER(c_float)), ("zero_point", POINTER(c_int32)),
                ("sqnr_db", c_double)]


class Output(Structure):
    _fields_ = [("name", c_char_p), ("type", c_int), ("rank", c_int), ("shape", c_int64 * RANK_MAX),
                ("values", c_void_p)]


OutputFunction = ctypes.CFUNCTYPE(c_int, c_void_p, c_uint64, POINTER(Output), c_size_t)


class Metric(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("value", c_double), ("low", c_double), ("high", c_double),
                ("top5", c_double), ("mse", c_double), ("samples", c_uint64), ("seconds", c_double)]


class Difference(Sized):
    _fields_ = [("size", c_size_t), ("name", c_char_p), ("sqnr_db", c_double), ("cosine", c_double),
                ("max_abs", c_double)]


# Functions that return an error code. The last parameter, a pointer to struct qcalib_error, is left out.
_CALLS = {
    "option_at": [POINTER(Option), c_size_t],
    "options_new": [POINTER(c_void_p)],
    "options_set": [c_void_p, c_char_p, c_char_p],
    "model_open": [POINTER(c_void_p), c_char_p],
    "model_from_memory": [POINTER(c_void_p), c_void_p, c_size_t, c_char_p],
    "model_input": [POINTER(Tensor), c_void_p, c_size_t],
    "data_open": [POINTER(c_void_p), c_char_p],
    "data_new": [POINTER(c_void_p), c_char_p],
    "data_add": [c_void_p, POINTER(Array)],
    "data_draw_sized": [c_void_p, NextFunction, c_void_p, c_size_t],
    "quantize": [POINTER(c_void_p), c_void_p, POINTER(Job)],
    "result_model": [POINTER(c_void_p), POINTER(c_size_t), c_void_p, c_size_t],
    "result_write_model": [c_void_p, c_size_t, c_char_p],
    "result_write_report": [c_void_p, c_char_p],
    "result_layer": [POINTER(Layer), c_void_p, c_size_t],
    "collect": [POINTER(c_void_p), c_void_p, POINTER(Job)],
    "statistics_merge": [c_void_p, c_void_p],
    "statistics_save": [c_void_p, c_char_p],
    "statistics_load": [POINTER(c_void_p), c_char_p],
    "inspect_file": [POINTER(c_void_p), POINTER(c_size_t), c_char_p],
    "inspect_model": [POINTER(c_void_p), POINTER(c_size_t), c_void_p],
    "run": [c_void_p, POINTER(Job), OutputFunction, c_void_p],
    "evaluate": [POINTER(Metric), c_void_p, POINTER(Job)],
    "compare": [POINTER(c_void_p), c_void_p, c_void_p, POINTER(Job)],
    "comparison_output": [POINTER(Difference), c_void_p, c_size_t],
    "comparison_layer": [POINTER(Difference), c_void_p, c_size_t],
}

# Functions that return a value: its type, then the parameters.
_VALUES = {
    "version": (c_char_p, []),
    "option_count": (c_size_t, []),
    "model_input_count": (c_size_t, [c_void_p]),
    "result_model_count": (c_size_t, [c_void_p]),
    "result_format": (c_char_p, [c_void_p, c_size_t]),
    "result_report": (c_char_p, [c_void_p]),
    "result_layer_count": (c_size_t, [c_void_p]),
    "result_warning_count": (c_size_t, [c_void_p]),
    "result_warning": (c_char_p, [c_void_p, c_size_t]),
    "statistics_samples": (c_uint64, [c_void_p]),
    "statistics_tensors": (c_size_t, [c_void_p]),
    "comparison_output_count": (c_size_t, [c_void_p]),
    "comparison_layer_count": (c_size_t, [c_void_p]),
}

_KINDS = ("options", "model", "data", "result", "statistics", "comparison", "bytes")

_FOLDER = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(_FOLDER, "_bin", "qcalib")


def _load():
    library = ctypes.CDLL(os.path.join(_FOLDER, "libqcalib.so"))
    for name, parameters in _CALLS.items():
        function = getattr(library, "qcalib_" + name)
        function.restype, function.argtypes = c_int, [*parameters, POINTER(Error)]
    for name, (result, parameters) in _VALUES.items():
        function = getattr(library, "qcalib_" + name)
        function.restype, function.argtypes = result, parameters
    for kind in _KINDS:
        function = getattr(library, f"qcalib_{kind}_free")
        function.restype, function.argtypes = None, [c_void_p]
    return library


_library = _load()


def outcome(name, *arguments):
    """Calls qcalib_NAME. Returns the exception for its error, or None."""
    error = Error()
    code = getattr(_library, "qcalib_" + name)(*arguments, byref(error))
    return of_code(code, in_python(error.message.decode("utf-8", "replace"))) if code else None


def call(name, *arguments):
    error = outcome(name, *arguments)
    if error:
        raise error


def value(name, *arguments):
    found = getattr(_library, "qcalib_" + name)(*arguments)
    return text(found) if isinstance(found, bytes) else found


def text(found):
    """Converts a string of the library; NULL becomes None."""
    return None if found is None else found.decode("utf-8", "replace")


def text_bytes(given, encode=str.encode):
    """Converts a string for the library. Fails if it is none, or has a NUL, where the library would cut it."""
    if not isinstance(given, str) and encode is str.encode:
        raise UsageError(f"{given!r} is not a text: names are of type str, not {type(given).__name__}")
    try:
        made = encode(given)
    except UnicodeEncodeError:
        raise UsageError(f"{given!r} is not valid text: it has half of a surrogate pair") from None
    if b"\0" in made:
        raise UsageError(f"{given!r} has a NUL, which names and paths cannot contain")
    return made


def path_bytes(path):
    """Converts a path for the library."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise UsageError(f"{path!r} is not a path: expected str, bytes or os.PathLike, not {type(path).__name__}")
    return text_bytes(path, os.fsencode)


def check_path(out):
    """Checks an output path before any work begins. None: no file."""
    if out is not None:
        path_bytes(out)


class Handle:
    """Owns one object of the library; `pointer` is NULL until a call sets it."""

    pointer = None  # of an object that was not initialised

    def __init__(self, kind):
        self.kind = kind
        self.pointer = c_void_p()
        self._free = getattr(_library, f"qcalib_{kind}_free")

    @property
    def out(self):
        return byref(self.pointer)

    def __reduce__(self):
        """Objects of the library cannot leave the process. Statistics are pickled as their file."""
        raise UsageError(f"a {self.kind} of qcalib cannot be pickled or copied deeply: send its parts, such as "
                         "result.model, result.report and result.layers")

    def __del__(self):
        if self.pointer:
            self._free(self.pointer)


def taken_bytes(name, *arguments):
    """Returns the bytes from a call whose outputs are (bytes, size)."""
    made, size = Handle("bytes"), c_size_t()
    call(name, made.out, byref(size), *arguments)
    return ctypes.string_at(made.pointer, size.value)
