# SPDX-License-Identifier: Apache-2.0
"""--bias narrowed: products are stored without their bias, which is then added with the same qparams. The simulated
graph, the produced graph and ONNX Runtime give the same bytes."""

import dataclasses
import sys

import avx2_runtime
import numpy
import onnx
import pytest
from conftest import Runtime
from onnx import numpy_helper
from real_models import CASES, inputs
from test_convert import CALIBRATION, equal
from test_run import by_name

FORMS = {"qdq": "{}.int8.onnx", "qoperator": "{}.qoperator.onnx"}


def check_form(path, form):
    """No product has a bias; every constant that is added is stored with the scale and zero point of what it is added to, and so is the sum."""
    model = onnx.load(path)
    constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    made = {o: n for n in model.graph.node for o in n.output}
    value = lambda name: constants[name].tobytes()
    names = [n.name for n in model.graph.node if n.name]
    assert len(names) == len(set(names))
    products = [
        n for n in model.graph.node if n.op_type in ("Conv", "Gemm", "MatMul", "QLinearConv", "QGemm", "QLinearMatMul")
    ]
    bias_at = {"Conv": 2, "Gemm": 2, "QLinearConv": 8, "QGemm": 6}
    assert products and all(
        len(n.input) <= bias_at.get(n.op_type, 99) or not n.input[bias_at[n.op_type]] for n in products
    )
    if form == "qoperator":
        sums = [n for n in model.graph.node if n.op_type == "QLinearAdd" and n.input[3] in constants]
        assert all(
            value(n.input[1]) == value(n.input[4]) == value(n.input[6])
            and value(n.input[2]) == value(n.input[5]) == value(n.input[7])
            for n in sums
        )
        return len(sums), len(products)
    sums = []
    for n in model.graph.node:
        if (
            n.op_type != "Add"
            or not all(i in made and made[i].op_type == "DequantizeLinear" for i in n.input)
            or made[n.input[1]].input[0] not in constants
        ):
            continue
        a, b = (made[i] for i in n.input)
        assert [value(i) for i in a.input[1:]] == [value(i) for i in b.input[1:]]
        sums.append(n)
    return len(sums), len(products)


@pytest.mark.parametrize("form", FORMS)
def test_digits_is_onnx_runtime(qcalib, examples, tmp_path, form):
    model, data = examples / "digits_cnn.onnx", examples / "digits_test.h5"
    report = qcalib(
        "--data",
        examples / "digits_calib.h5",
        "--eval",
        data,
        "--bias",
        "narrowed",
        "--format",
        form,
        "--prefer",
        "integers",
        "--no-report",
        "--json",
        model,
    ).json
    file = FORMS[form].format("digits_cnn")
    assert check_form(tmp_path / file, form) == (7, 7)
    assert report["options"]["bias"] == "narrowed" and not report["float_ops"]
    assert report["accuracy"]["fp32"] - report["accuracy"]["int8"] < 0.01
    case = dataclasses.replace(
        next(c for c in CASES if c.model == "resnet20_cifar10"), model="digits_cnn", data=data, samples=256
    )
    feeds = inputs(case, examples)
    qcalib("run", file, "--data", data, "--samples", 256, "-o", "out.h5")
    expected, _ = Runtime("newest", sys.executable).run(tmp_path / file, feeds, tmp_path)
    equal(expected, by_name(tmp_path / "out.h5"))


@pytest.mark.parametrize("form", FORMS)
def test_resnet20_is_onnx_runtime(qcalib, data, tmp_path, form):
    case = dataclasses.replace(next(c for c in CASES if c.model == "resnet20_cifar10"), samples=avx2_runtime.samples(256))
    calibration = data / CALIBRATION.get(case.data, case.data)
    qcalib(
        "--data",
        calibration,
        "--samples",
        32,
        "--bias",
        "narrowed",
        "--format",
        form,
        "--prefer",
        "integers",
        "--no-report",
        data / f"models/{case.model}.onnx",
    )
    file = FORMS[form].format(case.model)
    sums, products = check_form(tmp_path / file, form)
    assert sums == products == 20
    how = ("--rounding", avx2_runtime.rounding(), "--samples", case.samples)
    qcalib("run", file, "--data", data / case.data, *how, "-o", "out.h5")
    expected, _ = Runtime("newest", sys.executable).run(tmp_path / file, inputs(case, data), tmp_path)
    equal(expected, by_name(tmp_path / "out.h5"))


def test_on_the_accumulator_is_the_default(qcalib, examples, tmp_path):
    calibrate = lambda file, *more: qcalib(
        "--data", examples / "digits_calib.h5", *more, "--no-report", "-o", file, examples / "digits_cnn.onnx"
    )
    calibrate("a.onnx")
    calibrate("b.onnx", "--bias", "accumulator")
    calibrate("c.onnx", "--bias", "narrowed")
    assert (
        (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes() != (tmp_path / "c.onnx").read_bytes()
    )


def test_statistics_file_says_where_the_bias_was(qcalib, examples, tmp_path):
    model, narrowed = examples / "digits_cnn.onnx", ["--bias", "narrowed"]
    qcalib("collect", "--data", examples / "digits_calib.h5", *narrowed, "-o", "s.h5", model)
    qcalib("collect", "--data", examples / "digits_calib.h5", "-o", "other.h5", model)
    qcalib("--stats", "s.h5", *narrowed, "--no-report", "-o", "a.onnx", model)
    qcalib("--data", examples / "digits_calib.h5", *narrowed, "--method", "mse", "--no-report", "-o", "b.onnx", model)
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert (
        "stem_conv_node_output"
        in qcalib("--stats", "other.h5", *narrowed, "--no-report", "-o", "c.onnx", model, code=3).err
    )


def test_a_bias_that_does_not_fit_saturates(qcalib, tmp_path):
    """One channel: products -6 to -5, bias 6, so that sums are 0 to 1; parameters hold all three, integers are added and cut off."""
    import h5py

    x = numpy.linspace(-6, -5, 64, dtype=numpy.float32).reshape(64, 1, 1, 1)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = x
    graph = onnx.parser.parse_graph(
        "g (float[N,1,1,1] x) => (float[N,1,1,1] y) <float[1,1,1,1] w = {1}, float[1] b = {6}> { y = Conv(x, w, b) }"
    )
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8),
        tmp_path / "m.onnx",
    )
    qcalib("--data", "x.h5", "--method", "minmax", "--bias", "narrowed", "--no-report", "-o", "q.onnx", "m.onnx")
    qcalib("run", "q.onnx", "--data", "x.h5", "-o", "y.h5")
    assert numpy.abs(by_name(tmp_path / "y.h5")["y"] - (x + 6)).max() < 3 * 12 / 255


def test_corrected_biases_have_no_place(qcalib, examples):
    done = qcalib(
        "--data",
        examples / "digits_calib.h5",
        "--bias",
        "narrowed",
        "--bias-correction",
        "on",
        examples / "digits_cnn.onnx",
        code=2,
    )
    assert "--bias-correction" in done.err and "leave out one" in done.err
