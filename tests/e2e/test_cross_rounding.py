# SPDX-License-Identifier: Apache-2.0
"""Weights compensate the errors of their quantized inputs (docs/decisions/0045-rounding-on-what-is-read.md): low-bit
weights, and 8-bit weights if the network loses much."""

import avx2_runtime
import h5py
import numpy as np
import pytest
from measured_models import BY_NAME, Data, infer, sqnr
from onnx import helper
from pooled_model import save_pooled

SAMPLES = 96
BLOCKS = ("--weight-type", "int4", "--weight-block", 16)


def make(folder):
    """Six layers, one behind the other, and one beside them; noisy pictures of a few shapes, others to judge by."""
    random = np.random.default_rng(5)
    nodes, weights, x = [], {}, "x"
    for i in range(6):
        weights[f"w{i}"] = (random.normal(size=(24, 24 if i else 3, 3 - 2 * (i % 2), 3 - 2 * (i % 2)))).astype("f4")
        weights[f"w{i}"] *= np.float32(1.4 / np.sqrt(weights[f"w{i}"][0].size))
        weights[f"b{i}"] = (random.normal(size=24) * 0.1).astype("f4")
        nodes.append(helper.make_node("Conv", [x, f"w{i}", f"b{i}"], [f"c{i}"], f"conv{i}", pads=[1 - i % 2] * 4))
        if i == 4:
            nodes.append(helper.make_node("Add", ["c4", "r2"], ["s"], "add"))
        nodes.append(helper.make_node("Relu", ["s" if i == 4 else f"c{i}"], [f"r{i}"]))
        x = f"r{i}"
    weights["w"] = (random.normal(size=(10, 24)) * 0.3).astype("f4")
    save_pooled(folder / "net.onnx", nodes, weights, x, (3, 10, 10))
    shapes = random.normal(size=(12, 3, 10, 10))
    for name in ("x", "other"):
        with h5py.File(folder / f"{name}.h5", "w") as f:
            mixed = np.einsum("sk,kchw->schw", random.normal(size=(SAMPLES, 12)), shapes)
            f["x"] = (0.3 * mixed + 0.3 * random.normal(size=mixed.shape)).astype("f4")


def quantize(qcalib, *options, data="x.h5", output="q.onnx", method="mse"):
    how = ("--data", data, "--method", method, "--no-report", "--advice", "off", "--json", "-o", output)
    return qcalib(*how, *options, "net.onnx").json.get("rounded_on_what_is_read")


def noise(folder, name):
    with h5py.File(folder / "other.h5") as f:
        x = f["x"][()]
    real, got = (infer(folder / n, x)[0][0].astype("f8") for n in ("net.onnx", name))
    return np.square(got - real).mean()


def test_outputs_of_other_samples_are_better(qcalib, tmp_path):
    """With and without: a limit of memory that has no room leaves it out, and says so; one that has changes nothing."""
    make(tmp_path)
    for types in (("--weight-type", "int3"), ("--weight-type", "int3", "--activation-type", "none")):
        found = quantize(qcalib, *types, output="with.onnx")
        assert found["kept"] and found["gain_db"] > 1
        assert quantize(qcalib, *types, "--memory-limit", "2G", output="ample.onnx") == found
        assert (tmp_path / "ample.onnx").read_bytes() == (tmp_path / "with.onnx").read_bytes()
        how = ("--data", "x.h5", "--method", "mse", "--no-report", "--advice", "off", "-o", "without.onnx")
        tight = qcalib(*how, *types, "--memory-limit", "60M", "net.onnx")
        assert "weights are not refined: --memory-limit leaves too little memory" in tight.err
        assert noise(tmp_path, "with.onnx") < 0.6 * noise(tmp_path, "without.onnx")


def test_eight_bits_where_much_is_lost(qcalib, data, tmp_path):
    """MobileNetV1 has 25.0 dB without, and loses 9 images of 256 more or less by luck."""
    avx2_runtime.skip_if_emulated()
    make(tmp_path)
    assert quantize(qcalib, method="auto") is None
    model = BY_NAME["mobilenetv1_075_224_imagenet"]
    found = qcalib("-q", "--no-report", "--json", "-o", "m.onnx", *model.options(data)).json["rounded_on_what_is_read"]
    assert found["kept"] and found["gain_db"] > 0.5
    x = Data(data / model.eval, model.preprocess, 64).inputs
    assert sqnr(infer(model.path(data), x)[0], infer(tmp_path / "m.onnx", x)[0])[0] > 25.6


def test_eight_bits_where_activations_stay_in_float(qcalib, tmp_path):
    """It is tried, since all noise is that of the weights, and left out where held-out samples lose."""
    make(tmp_path)
    found = quantize(qcalib, "--activation-type", "none", output="tried.onnx")
    assert found["gain_db"] < 0 and not found["kept"]
    quantize(qcalib, "--activation-type", "none", "--memory-limit", "60M", output="without.onnx")
    assert (tmp_path / "tried.onnx").read_bytes() == (tmp_path / "without.onnx").read_bytes()


def test_layers_that_read_one_or_two_channels(qcalib, tmp_path):
    """As gates of a narrow network do: a matrix of 1 x 1 has less room than the means of its pairs."""
    make(tmp_path)
    random = np.random.default_rng(6)
    nodes, weights, x = [], {}, "x"
    for i, (columns, rows) in enumerate(((3, 24), (24, 2), (2, 24), (24, 1), (1, 24), (24, 3), (3, 24))):
        weights[f"w{i}"] = (random.normal(size=(rows, columns, 1, 1)) * np.sqrt(2 / columns)).astype("f4")
        nodes.append(helper.make_node("Conv", [x, f"w{i}"], [f"c{i}"], f"conv{i}"))
        nodes.append(helper.make_node("LeakyRelu", [f"c{i}"], [f"r{i}"], alpha=0.1))
        x = f"r{i}"
    weights["w"] = (random.normal(size=(10, 24)) * 0.3).astype("f4")
    save_pooled(tmp_path / "net.onnx", nodes, weights, x, (3, 10, 10))
    for types in (("--weight-type", "int4"), ("--weight-type", "int4", "--activation-type", "none")):
        assert quantize(qcalib, *types) is not None


@pytest.mark.parametrize("options", ((), ("--weight-type", "int4", "--weight-rounding", "nearest")))
def test_it_belongs_to_compensated_weights_of_few_bits(qcalib, tmp_path, options):
    make(tmp_path)
    assert quantize(qcalib, *options) is None


def test_threads_and_order_of_samples_make_no_difference(qcalib, tmp_path):
    make(tmp_path)
    with h5py.File(tmp_path / "x.h5") as f, h5py.File(tmp_path / "turned.h5", "w") as g:
        g["x"] = f["x"][()][::-1]
    assert quantize(qcalib, *BLOCKS, "--threads", 1, output="0.onnx")["kept"]
    quantize(qcalib, *BLOCKS, "--threads", 3, data="turned.h5", output="1.onnx")
    assert (tmp_path / "0.onnx").read_bytes() == (tmp_path / "1.onnx").read_bytes()


@pytest.mark.parametrize("skipped", (("conv0",), ("conv0", "conv1")))
def test_a_layer_behind_float_operators_has_no_error_to_compensate(qcalib, tmp_path, skipped):
    """Its input is the same node in the float network and in the quantized one."""
    make(tmp_path)
    how = ("--weight-type", "int3", "--activation-type", "none", *(o for name in skipped for o in ("--skip", name)))
    found = quantize(qcalib, *how, "--threads", 1, output="with.onnx")
    assert found["kept"] and found["gain_db"] > 4
    assert quantize(qcalib, *how, "--threads", 3, output="more.onnx") == found
    qcalib("--data", "x.h5", "--method", "mse", "--no-report", "--advice", "off", "-o", "without.onnx", *how,
           "--memory-limit", "60M", "net.onnx")
    assert noise(tmp_path, "with.onnx") < 0.6 * noise(tmp_path, "without.onnx")


@pytest.mark.nightly
def test_mobilenet_in_blocks_of_four_bits(qcalib, data, tmp_path):
    """The least-squares scales of blocks too: divergence 0.030, with scales as they were before 0.035."""
    avx2_runtime.skip_if_emulated()
    model = BY_NAME["mobilenetv1_075_224_imagenet"]
    x = Data(data / model.eval).inputs
    how = ("--weight-type", "int4", "--weight-block", 32, "--no-report", "--json", "-o", "m.onnx")
    found = qcalib(*how, *model.options(data)).json["rounded_on_what_is_read"]
    assert found["kept"] and found["gain_db"] > 0.5
    logits = [infer(path, x, 2)[0][0].astype("f8") for path in (model.path(data), tmp_path / "m.onnx")]
    real, got = (z - np.log(np.exp(z).sum(1, keepdims=True)) for z in logits)
    assert (np.exp(real) * (real - got)).sum(1).mean() < 0.0325
