# SPDX-License-Identifier: Apache-2.0
"""--overflow-fix: no pair of weights saturates the 16 bits of x86 without VNNI, in any form of the file, and ONNX
Runtime gives the same results there as `qcalib run`."""

import avx2_runtime
import h5py
import numpy as np
import onnx
import pair_sums
import pytest
import real_models
from avx2_runtime import Job
from conftest import LONG
from onnx import TensorProto, helper, numpy_helper

LIMIT = 128  # 255 x 128 <= 32767
CALIBRATION = {
    "resnet8_cifar10_mlperf": ("cifar10_calib.h5", 8),
    "dscnn_kws_mlperf": ("kws01_calib128.h5", 8),
    "mnist_cntk8": ("mnist_calib256.h5", 8),
    "text_transformer_agnews": ("agnews_calib256.h5", 4),
}
NIGHTLY = {
    "resnet20_cifar10": ("cifar10_calib.h5", 8),
    "superres_pytorch": ("sr_x3_y6.h5", 1),
    "mobilenetv1_075_224_imagenet": ("imagenet_calib100_224.h5", 2),
}
TRANSFORMER_DB = 45  # its float islands differ in the last bits


@pytest.fixture(name="dense")
def dense_model(tmp_path):
    """Two matrices, one with an odd number of rows, whose neighbouring weights have one sign."""
    rng = np.random.default_rng(11)
    weights = {
        "a": np.abs(rng.normal(size=(37, 24))).astype(np.float32),
        "b": (rng.normal(size=(24, 10)) + 1).astype(np.float32),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["h"], "first"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("MatMul", ["r", "b"], ["y"], "second"),
    ]
    graph = helper.make_graph(
        nodes,
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 37])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "dense.onnx"
    )
    with h5py.File(tmp_path / "dense.h5", "w") as file:
        file["x"] = rng.normal(size=(96, 37)).astype(np.float32)
    return ["--data", tmp_path / "dense.h5", tmp_path / "dense.onnx"]


@pytest.fixture(name="digits")
def digits_model(examples):
    return ["--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx"]


OPTIONS = {
    "default": [],
    "qoperator": ["--format=qoperator"],
    "int8": ["--activation-type=int8"],
    "nearest": ["--weight-rounding=nearest", "--bias-correction=off"],
    "per tensor": ["--per-tensor"],
    "full": ["--range=full"],
    "dynamic": ["--activation-type=dynamic"],
    "dynamic qoperator": ["--activation-type=dynamic", "--format=qoperator"],
    "propagate": ["--propagate"],
    "mse": ["--weight-method=mse"],
    "reduced": ["--overflow-fix=reduce-range"],
    "few samples": ["--samples=3"],
}


@pytest.mark.integers
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("model", ["dense", "digits"])
def test_no_pair_exceeds_the_limit(model, options, qcalib, tmp_path, request):
    source = request.getfixturevalue(model)
    qcalib("-q", *options, *source, "-o", "off.onnx", "--overflow-fix=off")
    qcalib("-q", *options, *source, "-o", "on.onnx")
    products, most = pair_sums.largest(tmp_path / "on.onnx")
    assert products > 0 and most <= LIMIT
    assert pair_sums.largest(tmp_path / "off.onnx")[1] > LIMIT
    found = qcalib("inspect", "on.onnx", "--json").json
    assert found["exact_without_vnni"] is True
    assert qcalib("inspect", "off.onnx", "--json").json["exact_without_vnni"] is False


@pytest.mark.integers
def test_summary_and_report_say_it(dense, qcalib, tmp_path):
    on = qcalib(*dense, "-o", "on.onnx", "--report", "on")
    assert "exact on x86 without VNNI: yes (2 products checked, " in on.out
    off = qcalib(*dense, "-o", "off.onnx", "--report", "off", "--overflow-fix=off", "--json")
    said = off.json["processors"]
    want = {"onnxruntime": True, "estimated": True, "exact_without_vnni": False, "products": 2, "saturating": 2, "first": "first"}
    assert said == want | {"channels_limited": 0}
    assert "without VNNI: no" in qcalib(*dense, "-o", "o.onnx", "--no-report", "--overflow-fix=off").out


def test_fewer_levels_of_activations_need_no_limit(dense, qcalib, tmp_path):
    """Pairs of weights times 4-bit data stay inside 16 bits: the weights are those without the limit."""
    qcalib("-q", "--activation-type=uint4", "--edges-type=none", *dense, "-o", "on.onnx")
    qcalib("-q", "--activation-type=uint4", "--edges-type=none", *dense, "-o", "off.onnx", "--overflow-fix=off")
    assert (tmp_path / "on.onnx").read_bytes() == (tmp_path / "off.onnx").read_bytes()


def test_it_is_better_than_seven_bits(digits, examples, qcalib):
    def sqnr(fix):
        qcalib("-q", *digits, "-o", "int8.onnx", "--no-report", f"--overflow-fix={fix}", "--method=mse", "--prefer=integers")
        data = examples / "digits_test.h5"
        shown = qcalib("compare", examples / "digits_cnn.onnx", "int8.onnx", "--data", data, "--json").json
        return shown["outputs"][0]["sqnr_db"]

    found = {fix: sqnr(fix) for fix in ("off", "auto", "reduce-range")}
    assert found["auto"] > found["reduce-range"] + 1, found
    assert found["auto"] > found["off"] - 0.8, found


def outputs(qcalib, file, data, samples, folder, *arguments):
    qcalib("run", file, "--data", data, "--samples", samples, "-o", "out.h5", "-q", *arguments)
    with h5py.File(folder / "out.h5") as found:
        return {k: found[k][:] for k in found}


def test_digits_are_the_same_without_vnni(digits, examples, qcalib, tmp_path):
    qcalib("-q", *digits, "-o", "int8.onnx", "--no-report")
    with h5py.File(examples / "digits_test.h5") as file, h5py.File(tmp_path / "x.h5", "w") as made:
        feeds = {"input": (file["input"][:64] / 255).astype(np.float32)}
        made["input"] = feeds["input"]
    want = outputs(qcalib, "int8.onnx", "x.h5", 64, tmp_path)
    saturating = outputs(qcalib, "int8.onnx", "x.h5", 64, tmp_path, "--rounding=onnx-avx2")
    (found,) = avx2_runtime.run([Job(tmp_path / "int8.onnx", feeds)])
    for name, values in want.items():
        assert np.array_equal(values, saturating[name])
        assert np.array_equal(values.reshape(found[name].shape), found[name])


def test_given_networks_are_the_same_without_vnni(data, qcalib, tmp_path):
    cases = {c.model: c for c in real_models.CASES}
    jobs, wanted = [], []
    networks = CALIBRATION | (NIGHTLY if LONG else {})
    for model, (calibration, samples) in networks.items():
        case = cases[model]
        used = real_models.dataclasses.replace(case, samples=samples)
        preprocess = ["--preprocess", case.preprocess] if case.preprocess else []
        file = tmp_path / f"{model}.onnx"
        few = ["--samples=64"] if model.startswith("mobilenet") else []
        qcalib(
            *["-q", "--no-report", *preprocess, *few, "--data", data / calibration, data / f"models/{model}.onnx"],
            *["-o", file],
        )
        assert pair_sums.largest(file)[1] <= LIMIT
        wanted.append(outputs(qcalib, file, data / case.data, samples, tmp_path, *preprocess))
        jobs.append(Job(file, real_models.inputs(used, data)))
    for model, want, found in zip(networks, wanted, avx2_runtime.run(jobs), strict=True):
        for name, values in want.items():
            is_ = found[name].reshape(values.shape)
            if model.startswith("text"):
                noise = ((values.astype(np.float64) - is_) ** 2).mean() or 1e-30
                assert 10 * np.log10((values.astype(np.float64) ** 2).mean() / noise) >= TRANSFORMER_DB
            else:
                assert np.array_equal(values, is_), model
