# SPDX-License-Identifier: Apache-2.0
"""The layers of tflite_layers.c, compiled on the fly from the project's own files, on numpy arrays."""

import ctypes
import os
import pathlib
import re
import subprocess
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARITH = [
    "contract",
    "fixed_point",
    "params",
    "qbinary",
    "real_steps",
    "requantize",
    "tflite",
]
SOURCES = [
    "tests/tflite/tflite_layers.c",
    *(f"arith/{name}.c" for name in ARITH),
    *(f"base/{name}.c" for name in ("arena", "simd", "status")),
]
# In the order of enum qc_contract.
CONTRACTS = re.findall(r'^QC_ROUNDING\(\w+, "([^"]+)"', (ROOT / "arith/roundings.def").read_text(), re.M)
KINDS = ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"]
MERGES = ["ADD", "SUB", "MUL"]
UNARY = ["LEAKY_RELU", "RELU", "HARD_SWISH", "LOGISTIC", "TANH"]


class Window(ctypes.Structure):
    _fields_ = [
        (n, ctypes.c_int32)
        for n in (
            "height width channels out_height out_width out_channels kernel_height kernel_width stride_height "
            "stride_width dilation_height dilation_width top left"
        ).split()
    ]


class Space(ctypes.Structure):
    _fields_ = [
        ("scale", ctypes.c_float),
        ("zero_point", ctypes.c_int32),
        ("lo", ctypes.c_int32),
        ("hi", ctypes.c_int32),
    ]


def _int(a):
    return np.ascontiguousarray(a, np.int32)


def _pointer(a):
    return None if a is None else a.ctypes.data_as(ctypes.c_void_p)


class Layers:
    def __init__(self, contract="tflite"):
        self.contract = CONTRACTS.index(contract)
        folder = tempfile.mkdtemp(prefix="qcalib-layers-")
        path = os.path.join(folder, "layers.so")
        subprocess.run(
            [
                os.environ.get("CC", "cc"),
                "-std=c17",
                "-O2",
                "-ffp-contract=off",
                "-D_XOPEN_SOURCE=700",
                "-shared",
                "-fPIC",
                "-Wall",
                "-Wextra",
                "-Wno-unused-parameter",
                "-Werror",
                f"-I{ROOT}",
                *(str(ROOT / s) for s in SOURCES),
                "-lm",
                "-o",
                path,
            ],
            check=True,
        )
        self.library = ctypes.CDLL(path)
        os.remove(path)
        os.rmdir(folder)

    def _call(self, name, *arguments):
        assert getattr(self.library, name)(*arguments) == 0, f"{name}: the contract refuses the parameters"

    def conv(self, x, w, bias, window, kind, space_in, space_out, scale):
        y = np.empty((window.out_height, window.out_width, window.out_channels), np.int32)
        x, w, scale = _int(x), _int(w), np.ascontiguousarray(scale, np.float32)
        bias = None if bias is None else _int(bias)
        self._call(
            "layer_conv",
            _pointer(y),
            _pointer(x),
            _pointer(w),
            _pointer(bias),
            ctypes.byref(window),
            KINDS.index(kind),
            self.contract,
            ctypes.byref(space_in),
            ctypes.byref(space_out),
            _pointer(scale),
            len(scale),
        )
        return y

    def mean(self, rows, space_in, space_out):
        rows = _int(rows)
        y = np.empty(len(rows), np.int32)
        self._call(
            "layer_mean",
            _pointer(y),
            _pointer(rows),
            len(rows),
            rows.shape[1],
            self.contract,
            ctypes.byref(space_in),
            ctypes.byref(space_out),
        )
        return y

    def average(self, rows, count, space_out):
        rows, count = _int(rows), _int(count)
        y = np.empty(len(rows), np.int32)
        self._call(
            "layer_average",
            _pointer(y),
            _pointer(rows),
            _pointer(count),
            len(rows),
            rows.shape[1],
            ctypes.byref(space_out),
        )
        return y

    def merge(self, kind, a, b, space_a, space_b, space_out):
        a, b = _int(a), _int(b)
        y = np.empty(a.shape, np.int32)
        self._call(
            "layer_merge",
            _pointer(y),
            _pointer(a),
            _pointer(b),
            a.size,
            MERGES.index(kind),
            self.contract,
            ctypes.byref(space_a),
            ctypes.byref(space_b),
            ctypes.byref(space_out),
        )
        return y

    def softmax(self, x, scale, beta, lowest):
        x = _int(x)
        y = np.empty(x.shape, np.int32)
        self._call(
            "layer_softmax",
            _pointer(y),
            _pointer(x),
            x.size // x.shape[-1],
            x.shape[-1],
            ctypes.c_float(scale),
            ctypes.c_float(beta),
            lowest,
        )
        return y

    def rescale(self, x, space_in, space_out):
        x = _int(x)
        y = np.empty(x.shape, np.int32)
        self._call(
            "layer_rescale",
            _pointer(y),
            _pointer(x),
            x.size,
            self.contract,
            ctypes.byref(space_in),
            ctypes.byref(space_out),
        )
        return y

    def quantize(self, x, space_out):
        x = np.ascontiguousarray(x, np.float32)
        y = np.empty(x.shape, np.int32)
        self._call("layer_quantize", _pointer(y), _pointer(x), x.size, self.contract, ctypes.byref(space_out))
        return y

    def unary(self, kind, x, space_in, space_out, alpha=0.0):
        x = _int(x)
        y = np.empty(x.shape, np.int32)
        self._call(
            "layer_unary",
            _pointer(y),
            _pointer(x),
            x.size,
            UNARY.index(kind),
            ctypes.c_float(alpha),
            ctypes.byref(space_in),
            ctypes.byref(space_out),
        )
        return y
