# SPDX-License-Identifier: Apache-2.0
"""qcalib eval: the accuracies in the README of the data (measured in ONNX Runtime), the JSON output, and metrics
computed by numpy."""

import math

import h5py
import numpy
import onnx
import pytest
from conftest import nightly
from onnx import TensorProto, helper, numpy_helper
from real_models import CASES, QUANTIZED
from test_sensitivity import part

# resnet8_cifar10_mlperf has the same operators and the same 10,000 images, and runs them in a quarter of the time.
NIGHTLY = ("resnet20_cifar10", "resnet20_cifar10_bn")


@pytest.mark.parametrize("case", [nightly(c) if c.model in NIGHTLY else c for c in CASES + QUANTIZED if c.top1], ids=lambda c: c.model)
def test_top1_is_what_onnx_runtime_gives(case, qcalib, data):
    extra = ["--preprocess", case.preprocess] if case.preprocess else []
    done = qcalib("eval", data / f"models/{case.model}.onnx", "--data", data / case.data, "--json", *extra)
    (model,) = done.json["models"]
    assert model["metric"] == "top1" and model["file"].endswith(f"{case.model}.onnx") and model["seconds"] > 0
    # The quantized ones: see test_run.py; two decimals are given.
    slack = 0.25 if case in QUANTIZED else 0.0051
    assert abs(100 * model["value"] - case.top1) <= slack, model


def test_mnist_first_samples(qcalib, data):
    done = qcalib("eval", data / "models/mnist_cntk8.onnx", "--data", data / "mnist_eval9744.h5", "--json")
    assert done.json["models"][0]["samples"] == 9744 and 0.985 < done.json["models"][0]["value"] < 0.995


def test_psnr_of_super_resolution(qcalib, data):
    (model,) = qcalib("eval", data / "models/superres_pytorch.onnx", "--data", data / "sr_x3_y6.h5", "--json").json[
        "models"
    ]
    assert model["metric"] == "psnr" and abs(model["value"] - 30.64) < 0.02
    assert abs(model["value"] - 10 * math.log10(1 / model["mse"])) < 1e-9


def scores_model(path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 8])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), path)


@pytest.fixture
def labelled(tmp_path):
    scores_model(tmp_path / "negate.onnx")
    rng = numpy.random.default_rng(3)
    x = rng.normal(size=(200, 8)).astype(numpy.float32)
    labels = rng.integers(0, 8, 200)
    with h5py.File(tmp_path / "test.h5", "w") as file:
        file["x"], file["labels"] = x, labels
    return x, labels


def test_table_and_json(qcalib, labelled):
    x, labels = labelled
    order = (x).argsort(axis=1)  # y = -x: the largest first
    top1, top5 = (order[:, 0] == labels).mean(), (order[:, :5] == labels[:, None]).any(1).mean()
    done = qcalib("eval", "negate.onnx", "negate.onnx", "--data", "test.h5", "--json")
    assert len(done.json["models"]) == 2
    for model in done.json["models"]:
        assert model["file"] == "negate.onnx" and model["metric"] == "top1" and model["samples"] == 200
        assert abs(model["value"] - top1) < 1e-12 and abs(model["top5"] - top5) < 1e-12
        assert model["interval95"][0] < top1 < model["interval95"][1]
    text = qcalib("eval", "negate.onnx", "negate.onnx", "--data", "test.h5").out.splitlines()
    assert len(text) == 4 and f"{100 * top1:.2f} %" in text[2] and "200" in text[2]
    assert text[2].startswith("negate.onnx") and text[3].startswith("negate.onnx")


def test_target_gives_psnr(qcalib, labelled, tmp_path):
    x, _ = labelled
    target = numpy.random.default_rng(4).random((200, 8), dtype=numpy.float32)
    with h5py.File(tmp_path / "target.h5", "w") as file:
        file["x"], file["target"] = -numpy.abs(x), target
    (model,) = qcalib("eval", "negate.onnx", "--data", "target.h5", "--json").json["models"]
    mse = ((numpy.clip(numpy.abs(x), 0, 1).astype(numpy.float64) - target) ** 2).mean()
    assert (
        model["metric"] == "psnr"
        and abs(model["mse"] - mse) < 1e-9
        and abs(model["value"] - 10 * math.log10(1 / mse)) < 1e-6
    )


def test_no_labels(qcalib, labelled, tmp_path):
    with h5py.File(tmp_path / "bare.h5", "w") as file:
        file["x"] = labelled[0]
    done = qcalib("eval", "negate.onnx", "--data", "bare.h5", code=3)
    assert "labels" in done.err and "target" in done.err and done.out == ""


def test_guessing_is_named(qcalib, data, tmp_path):
    """A float model at chance: the samples are not prepared as for training. Not for a right one, nor where one of the models is right."""
    resnet8, few = data / "models/resnet8_cifar10_mlperf.onnx", part(tmp_path / "few.h5", data / "cifar10_test.h5", 500)
    wrong = qcalib("eval", resnet8, "--data", data / "cifar10_test.h5", "--samples", 500, "--json")
    (warning,) = wrong.json["warnings"]
    assert (
        "no better than guessing among 10 classes" in warning
        and "--preprocess" in warning
        and "cifar10_test.h5" in warning
    )
    assert not qcalib(
        "eval", resnet8, "--data", data / "cifar10_test.h5", "--preprocess", "none", "--samples", 500, "--json"
    ).json["warnings"]
    assert not qcalib(
        "eval",
        resnet8,
        data / "models/resnet20_cifar10.onnx",
        "--data",
        data / "cifar10_test.h5",
        "--samples",
        500,
        "--json",
    ).json["warnings"]
    done = qcalib("--data", data / "cifar10_calib.h5", "--samples", 16, "--eval", few, resnet8)
    assert "no better than guessing" in done.err


def test_of_several_outputs_that_which_has_a_class_for_each_label(qcalib, tmp_path):
    """Two scores, four coordinates, ten classes: labels up to 9 belong to the ten, labels of 0 and 1 to the two."""
    rng = numpy.random.default_rng(2)
    x = rng.normal(size=(200, 16)).astype(numpy.float32)
    weights = {n: rng.normal(size=(16, n)).astype(numpy.float32) for n in (2, 4, 10)}
    value = lambda name, n: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", n])
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", f"w{n}"], [f"y{n}"]) for n in weights],
        "heads",
        [value("x", 16)],
        [value(f"y{n}", n) for n in weights],
        [numpy_helper.from_array(w, f"w{n}") for n, w in weights.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7),
        str(tmp_path / "heads.onnx"),
    )
    for n in (2, 10):
        labels = (x @ weights[n]).argmax(1)
        assert labels.max() == n - 1
        with h5py.File(tmp_path / f"{n}.h5", "w") as f:
            f["x"], f["labels"] = x, labels
        assert qcalib("eval", "heads.onnx", "--data", f"{n}.h5", "--json").json["models"][0]["value"] == 1
    with h5py.File(tmp_path / "10.h5", "r+") as f:
        f["labels"][3] = 10
    error = qcalib("eval", "heads.onnx", "--data", "10.h5", code=3).err
    assert "sample 3: label 10 is outside the 10 classes of output 'y10'" in error
