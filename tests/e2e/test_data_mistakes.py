# SPDX-License-Identifier: Apache-2.0
"""Common mistakes in data: the message says what is wrong and what to type, and typing it works. Values at another
scale than in training are detected by the first batch norm; there is no warning if they are right."""

import re

import h5py
import numpy as np
import onnx
import pytest
from test_bad_input import BAD, USAGE, refused
from test_images import identity


@pytest.fixture
def digits(examples):
    with h5py.File(examples / "digits_calib.h5") as f:
        return f["input"][:]


HOW = "scale=0.0625 mean=0.30544677 std=0.37608194"


def test_channels_on_the_other_axis(qcalib, tmp_path):
    """Both ways: what the message tells to type gives the same outputs; colours keep their mean and std."""
    values = np.random.default_rng(1).integers(0, 256, (5, 3, 8, 6), np.uint8)
    for shape, stored, layout in (
        (["N", 3, 8, 6], np.moveaxis(values, 1, -1), "nhwc"),
        (["N", 8, 6, 3], values, "nchw"),
    ):
        identity(tmp_path / "m.onnx", shape, 1)
        np.save(tmp_path / "pixels.npy", stored)
        result = qcalib("run", "m.onnx", "--data", "pixels.npy", "-o", "o.h5", code=BAD)
        typed = re.search(r"--input (\S+)", result.err).group(1)
        assert typed == f"x=pixels:{layout}" and str(list(stored.shape)).replace(" ", "") in result.err
        qcalib("run", "m.onnx", "--data", "pixels.npy", "--input", typed, "--preprocess", "mean=1,2,3", "-o", "o.h5")
        want = values - np.float32([1, 2, 3]).reshape(3, 1, 1)
        with h5py.File(tmp_path / "o.h5") as f:
            assert np.array_equal(f["y"][:], want if layout == "nhwc" else np.moveaxis(want, 1, -1))


def test_turned_chunks_of_hdf5(qcalib, tmp_path, examples, digits):
    """Also where chunks are inflated by us, in batches and with whole inputs; statistics of the one are not those of the other."""
    model = examples / "digits_cnn.onnx"
    with h5py.File(tmp_path / "last.h5", "w") as f:
        f.create_dataset("pixels", data=np.moveaxis(digits, 1, -1), chunks=(1, 8, 8, 1), compression="gzip")
        f.create_dataset("whole", data=np.moveaxis(digits, 1, -1)[:, None])
    qcalib(model, "--data", examples / "digits_calib.h5", "-o", "a.onnx", "--no-report")
    for name in ("pixels", "whole"):
        qcalib(
            model,
            "--data",
            "last.h5",
            "--input",
            f"input={name}:nhwc",
            "--preprocess",
            HOW,
            "-o",
            "b.onnx",
            "--no-report",
        )
        assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    refused(qcalib(model, "--data", "last.h5", "--input", "input=pixels:nwhc", code=None), BAD, "'pixels:nwhc'")


def test_names(qcalib, tmp_path, examples):
    model, data = examples / "digits_cnn.onnx", examples / "digits_calib.h5"
    refused(qcalib(model, "--data", data, "--input", "inptu=input", code=None), USAGE, "did you mean 'input'?")
    refused(qcalib(model, "--data", data, "--input", "input=imput", code=None), BAD, "did you mean 'input'?")
    np.savez(tmp_path / "a.npz", inputs=np.zeros((2, 1, 8, 8)), other=np.zeros(2))
    refused(qcalib(model, "--data", "a.npz", code=None), BAD, "did you mean 'inputs'?", "--input input=DATASET")


def test_one_sample(qcalib, tmp_path, examples, digits):
    np.save(tmp_path / "one.npy", digits[0])
    refused(qcalib(examples / "digits_cnn.onnx", "--data", "one.npy", code=None), BAD, "single sample", "x[None]")


def test_labels_out_of_range(qcalib, tmp_path, examples, digits):
    np.savez(tmp_path / "a.npz", input=digits, labels=np.arange(len(digits)) % 10 + 1)
    refused(
        qcalib("eval", examples / "digits_cnn.onnx", "--data", "a.npz", "--preprocess", HOW, code=None),
        BAD,
        "label 10",
        "10 classes",
    )


def test_values_of_another_scale(qcalib, tmp_path, examples, digits):
    """The shipped model's first batch norm: 15 times and a hundredth of what it was trained on are said; what is right is not."""
    model = examples / "digits_cnn.onnx"
    np.save(tmp_path / "x.npy", digits)
    for how, says in (("scale=15", "0 to 240, are about"), ("scale=.001", "are about 1/"), (HOW, None)):
        err = qcalib(model, "--data", "x.npy", "--preprocess", how, "--no-report").err
        assert ("trained on" in err) == bool(says) and (
            not says or (says in err and "--preprocess" in err and "stem_bn_node" in err)
        )


def test_pixels_of_which_nothing_is_said(qcalib, tmp_path):
    """No batch norm remembers anything: pixels are said to be pixels, unless somebody has said what becomes of them."""
    conv = onnx.helper.make_node("Conv", ["x", "w"], ["y"])
    value = lambda n: onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["N", 3, 8, 8])
    weight = onnx.numpy_helper.from_array(np.ones((3, 3, 1, 1), np.float32), "w")
    graph = onnx.helper.make_graph([conv], "g", [value("x")], [value("y")], [weight])
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "m.onnx",
    )
    pixels = np.random.default_rng(1).integers(0, 256, (4, 3, 8, 8), np.uint8)
    np.save(tmp_path / "bytes.npy", pixels)
    np.save(tmp_path / "floats.npy", pixels.astype(np.float32))
    np.save(tmp_path / "normalised.npy", pixels.astype(np.float32) / 128 - 1)
    with h5py.File(tmp_path / "said.h5", "w") as f:
        f["x"] = pixels
        f["x"].attrs["scale"] = np.float32(1.0)
    for file, more, warned in (
        ("bytes.npy", [], True),
        ("floats.npy", [], True),
        ("normalised.npy", [], False),
        ("bytes.npy", ["--preprocess", "none"], False),
        ("bytes.npy", ["--preprocess", "imagenet"], False),
        ("said.h5", [], False),
    ):
        err = qcalib("m.onnx", "--data", file, "--method", "minmax", "--no-report", *more).err
        assert ("look like pixels" in err and "--preprocess none" in err) == warned, (file, more, err)


@pytest.mark.parametrize("name", ["resnet20_cifar10_bn", "dscnn_kws_mlperf_bn"])
def test_no_false_alarm(name, qcalib, data):
    """Real models whose batch norms are there, with their own data and with others."""
    calib = {"resnet20_cifar10_bn": "cifar10_calib.h5", "dscnn_kws_mlperf_bn": "kws01_calib128.h5"}[name]
    model = data / "models" / f"{name}.onnx"
    assert "trained on" not in qcalib("collect", model, "--data", data / calib, "--samples", 8, "-o", "s.h5").err
    assert (
        "trained on"
        in qcalib(
            "collect", model, "--data", data / calib, "--samples", 8, "-o", "s.h5", "--preprocess", "scale=255"
        ).err
    )


def test_evaluation_prepared_otherwise(qcalib, tmp_path, examples):
    """Samples of calibration that are scaled by mistake: the first warning names both files; right ones have none."""
    model, calib, test = (examples / f"digits_{name}" for name in ("cnn.onnx", "calib.h5", "test.h5"))
    right = qcalib("--data", calib, "--eval", test, "--no-report", "-o", "q.onnx", model)
    assert "prepared differently" not in right.err
    for scale in (0.004, 0.3, 255):
        with h5py.File(calib) as f, h5py.File(tmp_path / "scaled.h5", "w") as to:
            stored = to.create_dataset("input", data=f["input"][:].astype(np.float32))
            stored.attrs.update({k: v for k, v in f["input"].attrs.items()})
            stored.attrs["scale"] = f["input"].attrs.get("scale", 1) * scale
        wrong = qcalib("--data", "scaled.h5", "--eval", test, "--prefer", "integers", "--no-report", "-o", "q.onnx", model)
        said = [line for line in wrong.err.splitlines() if "prepared differently" in line]
        assert len(said) == (scale != 0.3), wrong.err
        assert all("scaled.h5" in line and "digits_test.h5" in line for line in said), wrong.err
        assert "though the outputs have" in wrong.err and "their samples differ" in wrong.err, wrong.err
