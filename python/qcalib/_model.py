# SPDX-License-Identifier: Apache-2.0
"""The library's model object."""

import os

from . import _library
from ._errors import UsageError

# enum qcalib_type, with numpy's names
TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool",
         10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 16: "bfloat16", 21: "uint4", 22: "int4"}


class Model:
    """A model from a path, from the bytes of a file, or from an object that contains one: a Result, an
    onnx.ModelProto, PyTorch's ONNXProgram."""

    def __init__(self, source):
        self._handle = _library.Handle("model")
        self.pointer = self._handle.pointer
        source = getattr(source, "model_proto", source)
        if hasattr(source, "model_of"):  # a Result
            source = source.model_of()
        if hasattr(source, "SerializeToString"):
            source = source.SerializeToString()
        if isinstance(source, (str, os.PathLike)):
            _library.call("model_open", self._handle.out, _library.path_bytes(source))
        elif isinstance(source, (bytes, bytearray, memoryview)):
            source = bytes(source)
            _library.call("model_from_memory", self._handle.out, source, len(source), None)
        else:
            raise UsageError(f"a model must be a path, bytes or an onnx.ModelProto, not {type(source).__name__}")

    @property
    def input_shapes(self):
        """{name: shape} in the model's order. -1: any size; shape None: unknown rank."""
        shapes = {}
        for i in range(_library.value("model_input_count", self.pointer)):
            t = _library.Tensor()
            _library.call("model_input", t, self.pointer, i)
            shapes[_library.text(t.name)] = None if t.rank < 0 else tuple(t.shape[: t.rank])
        return shapes
