# SPDX-License-Identifier: Apache-2.0
"""Files of AMD Quark and NVIDIA ModelOpt in a number format, and their outputs in ONNX Runtime. scripts/formats starts
this in a Python that has amd-quark, nvidia-modelopt, onnxruntime and numpy.

    PYTHON formats_peers.py JOB.pickle RESULT.npy

The job is a dictionary: tool, format, model, folder, calibration and samples (arrays), input. Default options of the
tools, except that ModelOpt leaves the rest of the network in float32 and has blocks of 32. float.json in the folder has
the names of the products that stay float."""
import json
import os
import pathlib
import pickle
import sys

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime

# Names of Quark's configurations; W4A16 is ONNX Runtime's MatMulNBits, so it has no convolutions.
QUARK = {
    "W8A8": "A8W8",
    "FP8": "FP8",
    "MXFP8": "MXFP8E4M3",
    "MXFP6": "MXFP6E2M3",
    "MXFP4": "MXFP4E2M1",
    "BFP16": "BFP16",
    "W4A16": "MATMUL_NBITS",
}
MODELOPT = {"W8A8": "int8", "FP8": "fp8", "W4A16": "int4"}
PRODUCTS = ("Conv", "Gemm", "LSTM", "MatMul")
FORMATS = {"Quark": QUARK, "ModelOpt": MODELOPT}
OPSET = 13


def converted(job):
    """The model at opset 13 or later, which all tools read."""
    model = onnx.load(job["model"])
    if next(o.version for o in model.opset_import if not o.domain) < OPSET:
        model = onnx.version_converter.convert_version(model, OPSET)
    path = pathlib.Path(job["folder"]) / "float.onnx"
    onnx.save(model, path)
    return path


class Reader:
    """Calibration samples, one by one."""

    def __init__(self, job):
        self.job, self.at = job, 0

    def get_next(self):
        self.at += 1
        x = self.job["calibration"][self.at - 1 : self.at]
        return {self.job["input"]: x} if len(x) else None

    def rewind(self):
        self.at = 0

    def __len__(self):
        return len(self.job["calibration"])


def quark(job, given, made):
    from onnxruntime.quantization import CalibrationMethod, QuantType
    from quark.onnx import ModelQuantizer
    from quark.onnx.quantization.config.config import Config, QuantizationConfig
    from quark.onnx.quantization.config.custom_config import get_default_config

    if job["format"] == "FP8":
        config = QuantizationConfig(
            calibrate_method=CalibrationMethod.MinMax,
            activation_type=QuantType.QFLOAT8E4M3FN,
            weight_type=QuantType.QFLOAT8E4M3FN,
            extra_options={"ActivationSymmetric": True},
        )
    else:
        config = get_default_config(QUARK[job["format"]])
    if job["format"] == "W4A16":
        config.extra_options["MatMulNBitsParams"]["GroupSize"] = 32
    ModelQuantizer(Config(global_quant_config=config)).quantize_model(str(given), str(made), Reader(job))


def modelopt(job, given, made):
    from modelopt.onnx.quantization import quantize

    quantize(
        onnx_path=str(given),
        quantize_mode=MODELOPT[job["format"]],
        calibration_data={job["input"]: job["calibration"]},
        calibration_eps=["cpu"],
        output_path=str(made),
        high_precision_dtype="fp32",
        block_size=32 if job["format"] == "W4A16" else None,
        log_level="ERROR",
    )


def is_quantized(node):
    return "uantize" in node.op_type or "Bits" in node.op_type


def float_products(graph, nodes):
    """Names of the products with constant weights that read no quantized value in the file made."""
    makers = {name: n for n in nodes for name in n.output}
    made = {n.name: n for n in nodes}
    constants = {t.name for t in graph.initializer} | {n.output[0] for n in graph.node if n.op_type == "Constant"}
    names = [n.name for n in graph.node if n.op_type in PRODUCTS and n.input[1] in constants]
    return [
        name
        for name in names
        if name in made and not any(is_quantized(makers[i]) for i in made[name].input[:2] if i in makers)
    ]


def outputs(job, made):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")  # float32 activations
    if job["format"] == "FP8":  # optimized, it takes products of 8-bit floats for products of integers
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    if job["tool"] == "Quark":
        from quark.onnx import get_library_path

        options.register_custom_ops_library(get_library_path())
    session = onnxruntime.InferenceSession(str(made), options, providers=["CPUExecutionProvider"])
    samples = job["samples"]
    parts = [session.run(None, {job["input"]: samples[i : i + 16]})[0] for i in range(0, len(samples), 16)]
    return np.concatenate(parts)


def main():
    job = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
    made = pathlib.Path(job["folder"]) / "peer.onnx"
    os.chdir(job["folder"])  # ModelOpt compiles a module, which fails in some folders
    {"Quark": quark, "ModelOpt": modelopt}[job["tool"]](job, converted(job), made)
    nodes = onnx.load(made).graph.node
    if not any(is_quantized(n) for n in nodes):
        sys.exit("the file has nothing quantized")
    pathlib.Path("float.json").write_text(json.dumps(float_products(onnx.load("float.onnx").graph, nodes)))
    np.save(sys.argv[2], outputs(job, made))


if __name__ == "__main__":
    main()
