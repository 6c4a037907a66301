# SPDX-License-Identifier: Apache-2.0
"""Runs another tool's quantizer with its defaults, for scripts/accuracy --peer:

  PYTHON peer.py nncf|quark DATA_FOLDER MODEL_NAME OUT.onnx

Runs in a Python environment that has the tool, onnx, onnxruntime, numpy and h5py; takes all calibration samples, one
at a time."""
import pathlib
import sys

import measured_models
import onnx


def feeds(model, data):
    samples = measured_models.Data(data / model.calib, model.preprocess).inputs
    name = measured_models.session(model.path(data)).get_inputs()[0].name
    return [{name: samples[i:i + 1]} for i in range(len(samples))]


def nncf_quantize(model, data, out):
    import nncf

    samples = feeds(model, data)
    onnx.save(nncf.quantize(measured_models.for_peers(model.path(data)), nncf.Dataset(samples),
                            subset_size=len(samples)), out)


def quark_quantize(model, data, out):
    from onnxruntime.quantization import CalibrationDataReader
    from quark.onnx import ModelQuantizer
    from quark.onnx.quantization.config import Config, get_default_config

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.feeds = iter(feeds(model, data))

        def get_next(self):
            return next(self.feeds, None)

    quantizer = ModelQuantizer(Config(global_quant_config=get_default_config("A8W8")))
    quantizer.quantize_model(measured_models.for_peers(model.path(data)), str(out), Reader())


TOOLS = {"nncf": nncf_quantize, "quark": quark_quantize}
tool, folder, name, output = sys.argv[1:]
TOOLS[tool](measured_models.BY_NAME[name], pathlib.Path(folder), output)
