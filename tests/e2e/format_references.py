# SPDX-License-Identifier: Apache-2.0
"""The number formats in blocks, for tests: one row each. Levels are numbers of ml_dtypes or numpy."""

from typing import NamedTuple

import ml_dtypes
import numpy as np
from onnx import TensorProto


class Format(NamedTuple):
    stored: int  # type in a file
    kind: str  # type of ml_dtypes or numpy that has the levels
    block: int  # elements that share a scale
    scales: str = "power"  # of two, or "float8"


FORMATS = {
    "mxfp8": Format(TensorProto.FLOAT8E4M3FN, "float8_e4m3fn", 32),
    "mxfp8e5m2": Format(TensorProto.FLOAT8E5M2, "float8_e5m2", 32),
    "mxfp6": Format(TensorProto.INT8, "float6_e2m3fn", 32),
    "mxfp6e3m2": Format(TensorProto.FLOAT8E4M3FN, "float6_e3m2fn", 32),
    "mxfp4": Format(TensorProto.FLOAT4E2M1, "float4_e2m1fn", 32),
    "nvfp4": Format(TensorProto.FLOAT4E2M1, "float4_e2m1fn", 16, "float8"),
    "mxint8": Format(TensorProto.INT8, "int8", 32),
    "bfp16": Format(TensorProto.INT8, "int8", 8),
}


def highest(kind):
    """The highest level, and the middle between it and the next one in the same steps."""
    if kind == "int8":
        return 127.0, 127.5
    kind = getattr(ml_dtypes, kind)
    most = np.array(ml_dtypes.finfo(kind).max, kind)
    before = (most.view(np.uint8) - np.uint8(1)).view(kind)
    return float(most), (3 * float(most) - float(before)) / 2


def nearest(x, kind):
    """The levels nearest to x, half to even, limited to the highest."""
    x = np.clip(x, -highest(kind)[0], highest(kind)[0])
    return (np.rint(x) if kind == "int8" else x.astype(getattr(ml_dtypes, kind))).astype("f4")
