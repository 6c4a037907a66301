# SPDX-License-Identifier: Apache-2.0
"""Calibration and quantization of neural networks: an fp32 ONNX model and samples go in, an int8 model comes out.

    import qcalib

    result = qcalib.quantize("model.onnx", loader, samples=256, out="model.int8.onnx")
    print(result)
"""

from . import _library
from ._errors import (BadInputError, DemandError, MachineError, MissingFileError, QcalibError, QcalibWarning,
                      UnsupportedError, UsageError)
from ._jobs import check, collect, compare, convert, evaluate, inspect, merge, quantize, run
from ._result import Comparison, Difference, Layer, Metric, Result, Rows, Statistics

__version__ = _library.value("version")

__all__ = [
    "BadInputError", "Comparison", "DemandError", "Difference", "Layer", "MachineError", "Metric", "MissingFileError",
    "QcalibError", "QcalibWarning", "Result", "Rows", "Statistics", "UnsupportedError", "UsageError", "check", "collect",
    "compare", "convert", "evaluate", "inspect", "merge", "quantize", "run",
]
