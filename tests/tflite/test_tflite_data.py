# SPDX-License-Identifier: Apache-2.0
"""Data for models whose inputs are quantized integers.

  QCALIB       the program; build/release/qcalib when unset
  QCALIB_DATA  real models and data; without it those tests are skipped"""

import json
import os
import subprocess

import h5py
import numpy as np
import pytest

from test_tflite_export import interpreter_of, run
from test_tflite_import import command, program, stored  # noqa: F401
from test_tflite_models import model_file
from tflite_model import RUNTIME, Model
from tflite_ops import model_of

F, I8 = np.float32, np.int8
SHAPE, SCALE, ZERO = (1, 4, 4, 2), F(0.05), 3
SHIFTED = model_of([("QUANTIZE", [0], [1], None, 2)], [stored(SHAPE, SCALE, ZERO), stored(SHAPE, SCALE, -4)], [0], [1])


def forms(program, folder):  # noqa: F811
    """A network that shows its input levels, in every form."""
    (folder / "model.tflite").write_bytes(SHIFTED)
    for form in ("qdq", "qoperator"):
        command(program, folder, "convert", "model.tflite", "--format", form, "-o", f"{form}.onnx")
    return ["model.tflite", "qdq.onnx", "qoperator.onnx"]


def outputs(program, folder, model, values, attributes=None, *options):  # noqa: F811
    with h5py.File(folder / "in.h5", "w") as file:
        file["t0"] = values
        file["t0"].attrs.update(attributes or {})
    command(program, folder, "run", model, "--data", "in.h5", *options, "-o", "out.h5")
    with h5py.File(folder / "out.h5") as file:
        return file["t1"][:]


def test_real_numbers_are_quantized(program, tmp_path):  # noqa: F811
    """Half to even, saturated: float data, and pixels with attributes or --preprocess."""
    rng = np.random.default_rng(11)
    pixels = rng.integers(0, 256, (20, 4, 4, 2)).astype(np.uint8)
    halves = rng.integers(-300, 300, (20, 4, 4, 2)).astype(F) / 2 * SCALE  # many halves, many beyond the levels
    for model in forms(program, tmp_path):
        for values, attributes, options, numbers in (
            (halves, {}, (), halves),
            (halves.astype(np.float64), {}, (), halves),
            (pixels, {"scale": F(1 / 16), "mean": F(8)}, (), pixels.astype(F) * F(1 / 16) - F(8)),
            (pixels, {}, ("--preprocess", "scale=1/16"), pixels.astype(F) * F(1 / 16)),
        ):
            levels = np.rint((numbers / SCALE).astype(np.float64)) + ZERO
            assert levels.min() < -128 or levels.max() > 127
            want = outputs(program, tmp_path, model, np.clip(levels, -128, 127).astype(I8))
            assert np.array_equal(outputs(program, tmp_path, model, values, attributes, *options), want)
            assert len(np.unique(want)) > 50


def test_levels_are_taken_as_they_are(program, tmp_path):  # noqa: F811
    levels = np.random.default_rng(12).integers(-128, 128, (20, 4, 4, 2)).astype(I8)
    for model in forms(program, tmp_path):
        for values in (levels, levels.astype(np.int64)):
            assert np.array_equal(outputs(program, tmp_path, model, values), np.maximum(levels.astype(int) - 7, -128))


def refusal(program, folder, values):  # noqa: F811
    (folder / "model.tflite").write_bytes(SHIFTED)
    with h5py.File(folder / "in.h5", "w") as file:
        file["t0"] = values
    return command(program, folder, "run", "model.tflite", "--data", "in.h5", "-o", "out.h5", code=3)


def test_what_is_no_level_and_no_number(program, tmp_path):  # noqa: F811
    pixels = np.full((2, 4, 4, 2), 200, np.uint8)
    assert "is 200, which type i8 does not hold" in (said := refusal(program, tmp_path, pixels)) and "--preprocess scale=1" in said
    numbers = np.zeros((2, 4, 4, 2), F)
    numbers[1, 2, 3, 1] = np.nan
    said = refusal(program, tmp_path, numbers)
    assert "sample 1" in said and "element 23 is not a number" in said
    assert "its channels are first: read it with --input t0=t0:nchw" in refusal(program, tmp_path, np.zeros((2, 2, 4, 4), F))


LONG = "QCALIB_LONG" in os.environ
REAL = [
    ("kws_ref_model", "kws01_eval872.h5", "input_1", (), 0, 0.8933),
    ("pretrainedResnet_quant", "cifar10_test.h5", "input_1_int8", ("--preprocess", "scale=1"), 1000 if LONG else 150, 0.8707),
]


@pytest.mark.parametrize(("name", "data", "port", "options", "samples", "top1"), REAL, ids=lambda v: v if isinstance(v, str) else None)
def test_top1_of_a_real_file_on_data_of_the_float_model(name, data, port, options, samples, top1, program, tmp_path):  # noqa: F811
    """On all labelled samples; on `samples` of them (0: all) the same as in the interpreter."""
    path = model_file(name)
    data = path.parent.parent / data
    options = ["--data", data, "--input", f"{port}=input:nchw", *options, "--rounding", "tflite"]
    found = json.loads(command(program, tmp_path, "eval", path, *options, "--json"))
    assert round(found["models"][0]["value"], 4) == top1
    model = Model(path.read_bytes())
    tensor = model.tensors[model.inputs[0]]
    with h5py.File(data) as file:
        count = samples or len(file["labels"])
        chosen = [i * len(file["labels"]) // count for i in range(count)]
        x, labels = np.moveaxis(file["input"][:][chosen].astype(F), 1, -1), file["labels"][:][chosen]
    levels = np.clip(np.rint(x / F(tensor.s)) + tensor.z, -128, 127).astype(I8)
    with h5py.File(tmp_path / "levels.h5", "w") as file:
        file[port], file["labels"] = levels, labels
    given = json.loads(command(program, tmp_path, "eval", path, "--data", "levels.h5", "--rounding", "tflite", "--json"))
    if RUNTIME != "tflite-runtime":
        pytest.skip("the other runtime's FULLY_CONNECTED rounds differently")
    interpreter = interpreter_of(bytes(model.accepted()))
    got = np.array([run(interpreter, [v[None]])[0].argmax() for v in levels])
    assert given["models"][0]["value"] == np.mean(got == labels)
    if not samples:
        assert given["models"][0]["value"] == found["models"][0]["value"]


@pytest.mark.parametrize(("name", "data", "port", "options", "samples", "top1"), REAL, ids=lambda v: v if isinstance(v, str) else None)
def test_a_real_file_is_equal_to_itself(name, data, port, options, samples, top1, program, tmp_path):  # noqa: F811
    path = model_file(name)
    data = ["--data", path.parent.parent / data, "--samples", "16", "--input", f"{port}=input:nchw", *options]
    found = json.loads(command(program, tmp_path, "compare", path, path, *data, "--rounding", "tflite", "--json"))
    assert found["outputs"][0]["equal"] and not any(x["differing"] for x in found["layers"]) and len(found["layers"]) > 8


def test_what_is_quantized_is_not_quantized_again(program, tmp_path):  # noqa: F811
    """`quantize` of an int8 file has nothing to choose, and says what to do."""
    path = model_file("kws_ref_model")
    data = ["--data", path.parent.parent / "kws01_calib128.h5", "--input", "input_1=input:nchw"]
    done = subprocess.run([program, "quantize", path, *data, "--target", "tflite", "-o", "again.onnx"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 4 and "is quantized already, all" in done.stderr and "qcalib convert" in done.stderr
    assert list(tmp_path.iterdir()) == []
