# SPDX-License-Identifier: Apache-2.0
"""Forms for other runtimes, made from the same parameters as the QDQ file: TensorRT's calibration cache, MNN's
compression parameters, ncnn's table (examples/ncnn_table.py)."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from target_model import Graph, make

ROOT = Path(__file__).parents[2]
NCNN_TABLE = ROOT / "examples/ncnn_table.py"

# Layers as pnnx writes them: its own names, a type, the number of results (0) and of weights (6 or 2).
NCNN_LAYERS = [
    ("Convolution", "convrelu_0", "0=8 1=3 6=216"),
    ("ConvolutionDepthWise", "convdwrelu_0", "0=8 1=3 6=72 7=8"),
    ("Convolution", "conv_9", "0=8 1=1 6=64"),
    ("Convolution", "conv_10", "0=8 1=3 6=576"),
    ("Convolution", "convrelu_1", "0=8 1=3 6=576"),
    ("Convolution", "convrelu_2", "0=8 1=3 6=576"),
    ("Convolution", "convrelu_3", "0=8 1=3 6=1152"),
    ("InnerProduct", "linear_14", "0=32 1=1 2=256"),
    ("InnerProduct", "linear_15", "0=10 1=0 2=320"),
]


@pytest.fixture
def forms(qcalib, tmp_path):
    make(tmp_path)
    qcalib("quantize", "--target", "tensorrt", "--no-report", "--data", "data.h5", "model.onnx", "--format", "qdq,annotated,encodings,mnn,trt-cache")
    return Graph(tmp_path / "model.int8.onnx"), Graph(tmp_path / "model.onnx")


def activation_scales(quantized, real):
    """{tensor of the float model: scale} of the QDQ file"""
    return {n.input[0]: quantized.scale(n) for n in quantized.of("QuantizeLinear") if n.input[0] in {"x", *real.maker}}


def test_trt_cache(forms, tmp_path):
    """README of NVIDIA's sampleINT8, "Calibration file": `TRT-<version>-<algorithm>`, then `<tensor>: <float32 in hexadecimal>`."""
    header, *lines = (tmp_path / "model.trt.cache").read_text().splitlines()
    assert re.fullmatch(r"TRT-\d{4,6}-EntropyCalibration2", header)
    found = {}
    for line in lines:
        name, bits = re.fullmatch(r"(.+): ([0-9a-f]{8})", line).groups()
        assert name not in found
        found[name] = np.array([int(bits, 16)], np.uint32).view(np.float32)[0]
    scales = activation_scales(*forms)
    assert {"x", "first.relu", "both"} <= set(scales) <= set(found) <= {"x", *forms[1].maker}
    for name, scale in scales.items():
        assert found[name] == scale, name


def test_mnn(forms, tmp_path):
    """MNN_compression.proto, message Pipeline; FullQuantAndCoding.cpp: a layer is found by the name of its output."""
    quantized, real = forms
    root = json.loads((tmp_path / "model.mnn.json").read_text())
    (step,) = root["algo"]
    layers = {layer["output"][0]["name"]: layer for layer in step["quant_params"]["layer"]}
    assert root["version"] and step["type"] == "QUANTIZE" and len(layers) == len(step["quant_params"]["layer"])
    scales = activation_scales(quantized, real)
    assert set(layers) <= set(real.maker) and {"first.relu", "depthwise.relu", "left.relu"} <= set(layers)
    assert "pointwise" not in layers  # the target leaves this branch of the Add in float
    for name in ("first.relu", "depthwise.relu"):
        conv = real.maker[real.maker[name].input[0]]
        (x,), (w,), (y,) = (layers[name][k] for k in ("input", "weight", "output"))
        assert np.float32(x["scales"]) == [scales[conv.input[0]]] and np.float32(y["scales"]) == [scales[name]]
        (same,) = [n for n in quantized.of("Conv") if n.name == conv.name]
        assert np.array_equal(np.float32(w["scales"]), quantized.scale(quantized.weight(same)[0]))
        assert w["clamp_min"] == -127 and all(t["bits"] == 8 and t["clamp_max"] == 127 for t in (x, w, y))


@pytest.mark.parametrize("form", ["mnn", "trt-cache"])
def test_zero_points_are_refused(qcalib, tmp_path, form):
    make(tmp_path)
    failed = qcalib("quantize", "--target", "tflite", "--no-report", "--data", "data.h5", "model.onnx", "--format", form, "-o", "other", code=4)
    assert "is not symmetric int8" in failed.err and "--target tensorrt" in failed.err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("form", ["mnn", "trt-cache"])
def test_a_quantized_model_is_refused(qcalib, forms, form):
    assert "describe a float model" in qcalib("convert", "model.int8.onnx", "--format", form, "-o", "other", code=4).err


def test_mnn_needs_a_convolution(qcalib, tmp_path):
    make(tmp_path)
    failed = qcalib("quantize", "--target", "tensorrt", "--only", "dense_bias", "--no-report", "--data", "data.h5", "model.onnx", "--format", "mnn", code=4)
    assert "no convolution has integers at both ends" in failed.err


def ncnn_table(folder, layers):
    rows = [f"{kind:24} {name:24} 1 1 {i} {i + 1} {parameters}" for i, (kind, name, parameters) in enumerate(layers)]
    (folder / "model.ncnn.param").write_text("\n".join(["7767517", f"{len(rows) + 1} {len(rows) + 1}", "Input in0 0 1 in0", *rows]) + "\n")
    return subprocess.run(
        [sys.executable, NCNN_TABLE, "model.annotated.onnx", "model.encodings.json", "model.ncnn.param", "model.table"], cwd=folder, capture_output=True, text=True
    )


def test_ncnn_table(forms, tmp_path):
    """ncnn2int8.cpp, read_int8scale_table: `NAME_param_0 scale...` of weights, `NAME scale` of data; a scale is 1 / step."""
    quantized, real = forms
    assert ncnn_table(tmp_path, NCNN_LAYERS).returncode == 0
    found = {k: np.array(v, float) for k, *v in (line.split() for line in (tmp_path / "model.table").read_text().splitlines())}
    named = {n.name: n for n in quantized.of("Conv")}
    for layer, name in (("convrelu_0", "first"), ("convdwrelu_0", "depthwise"), ("conv_9", "pointwise")):
        np.testing.assert_allclose(found[f"{layer}_param_0"], 1 / quantized.scale(quantized.weight(named[name])[0]), rtol=1e-6)
    np.testing.assert_allclose(found["convrelu_0"], [1 / activation_scales(quantized, real)["x"]], rtol=1e-6)
    assert {name for _, name, _ in NCNN_LAYERS} == {k.removesuffix("_param_0") for k in found}


def test_ncnn_table_of_another_network(forms, tmp_path):
    failed = ncnn_table(tmp_path, [NCNN_LAYERS[1], NCNN_LAYERS[0], *NCNN_LAYERS[2:]])
    assert failed.returncode and "its layers are not the products" in failed.stderr
    assert not (tmp_path / "model.table").exists()


RUN_MNN = """
import sys, numpy, _tools, MNN.expr as F, MNN.nn as nn
arguments = ["MNNConvert", "-f", "ONNX", "--modelFile", "digits_cnn.annotated.onnx", "--MNNModel", "digits_cnn.mnn"]
_tools.mnnconvert(arguments + sys.argv[1:])
net = nn.load_module_from_file("digits_cnn.mnn", ["input"], ["logits"])
run = lambda v: F.convert(net.forward([F.const(v, list(v.shape), F.NCHW, F.float)])[0], F.NCHW).read()
numpy.save("y.npy", numpy.concatenate([numpy.array(run(v[None])).reshape(1, -1) for v in numpy.load("x.npy")]))
"""


@pytest.mark.nightly
def test_mnn_runs(qcalib, tmp_path):
    """The package's `mnnconvert` is not called: it installs a telemetry client with pip. `_tools` is the converter itself."""
    if not importlib.util.find_spec("MNN"):
        pytest.skip("no MNN beside pytest (pip install MNN)")
    for name in ("digits_cnn.onnx", "digits_calib.h5", "digits_test.h5"):
        shutil.copy(ROOT / "datasets" / name, tmp_path)
    qcalib("quantize", "--target", "tensorrt", "--no-report", "--data", "digits_calib.h5", "digits_cnn.onnx", "--format", "annotated,mnn")
    with h5py.File(tmp_path / "digits_test.h5") as file:
        x, labels, given = file["input"][:], file["labels"][:], file["input"].attrs
        np.save(tmp_path / "x.npy", ((x * given["scale"] - given["mean"]) / given["std"]).astype(np.float32))
    y = []
    for arguments in ([], ["--compressionParamsFile", "digits_cnn.mnn.json"]):
        subprocess.run([sys.executable, "-c", RUN_MNN, *arguments], cwd=tmp_path, check=True, capture_output=True)
        y.append(np.load(tmp_path / "y.npy"))
    top1 = [(logits.argmax(axis=1) == labels).mean() for logits in y]
    assert top1[0] > 0.98 and top1[1] > top1[0] - 0.01, top1
    assert 30 < 10 * np.log10((y[0] ** 2).sum() / ((y[1] - y[0]) ** 2).sum()) < 60  # integers, and the right ones
