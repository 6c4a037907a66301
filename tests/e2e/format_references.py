# SPDX-License-Identifier: Apache-2.0
"""The number formats in blocks, for tests: one row each. Levels come from ml_dtypes or from a definition."""

from typing import NamedTuple

import ml_dtypes
import numpy as np
from onnx import TensorProto


def of_type(name):
    """The numbers of a type of ml_dtypes that are not negative, ascending."""
    kind = getattr(ml_dtypes, name)
    codes = np.arange(2 ** (ml_dtypes.finfo(kind).bits - 1), dtype=np.uint8).view(kind).astype("f4")
    return codes[np.isfinite(codes)]


class Format(NamedTuple):
    stored: int  # type in a file
    levels: np.ndarray  # that are not negative, ascending from 0
    block: int  # elements that share a scale
    scales: str = "power"  # of two, or "float8"


FORMATS = {
    "mxfp8": Format(TensorProto.FLOAT8E4M3FN, of_type("float8_e4m3fn"), 32),
    "mxfp8e5m2": Format(TensorProto.FLOAT8E5M2, of_type("float8_e5m2"), 32),
    "mxfp6": Format(TensorProto.INT8, of_type("float6_e2m3fn"), 32),
    "mxfp6e3m2": Format(TensorProto.FLOAT8E4M3FN, of_type("float6_e3m2fn"), 32),
    "mxfp4": Format(TensorProto.FLOAT4E2M1, of_type("float4_e2m1fn"), 32),
    "nvfp4": Format(TensorProto.FLOAT4E2M1, of_type("float4_e2m1fn"), 16, "float8"),
    "mxint8": Format(TensorProto.INT8, np.arange(128.0), 32),
    "bfp16": Format(TensorProto.INT8, np.arange(128.0), 8),
}
SCALE_LEVELS = of_type("float8_e4m3fn")


def edge(levels):
    """The middle between the highest level and the next one in the same steps."""
    return (3 * levels[-1] - levels[-2]) / 2


def nearest(x, levels):
    """The levels nearest to x, half to the even code, limited to the highest."""
    size = np.abs(x).astype("f8")
    above = np.clip(np.searchsorted(levels, size), 1, len(levels) - 1)
    middle = (levels[above - 1].astype("f8") + levels[above]) / 2
    up = (size > middle) | ((size == middle) & (above % 2 == 0))
    return np.copysign(levels[above - ~up], x).astype("f4")
