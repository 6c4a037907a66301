# SPDX-License-Identifier: Apache-2.0
"""--rounding onnx-avx2 equals ONNX Runtime on x86 without VNNI, byte for byte: random layers in every form, and whole
networks that saturate. Reference: ONNX Runtime on such a processor, or on an emulated one. QCALIB_LONG adds all layers
and more samples."""

import dataclasses
import json

import avx2_runtime
import h5py
import numpy as np
import onnx
from avx2_runtime import Job
from conftest import LONG
from onnx import TensorProto, helper, numpy_helper
from product_layers import layers
from real_models import CASES, QUANTIZED, inputs
from test_convert import CALIBRATION, quantize

EXACT, PAIRS = "onnx", "onnx-avx2"


def run(qcalib, folder, model, data, rounding, *more):
    """The outputs by name."""
    qcalib("run", "-q", "--rounding", rounding, model, "--data", data, "-o", "out.h5", *more)
    with h5py.File(folder / "out.h5") as file:
        return {name: value[()] for name, value in file.items()}


def only(outputs):
    (value,) = outputs.values()
    return value


def nearly(first, second):
    """As two ways to sum in float32 differ: integers now and then by one level."""
    apart = np.abs(first.astype(np.float64) - second)
    if first.dtype == np.float32:
        return apart.max() <= 1e-5 * np.abs(second).max()
    return apart.max() <= 1 and (apart > 0).mean() < 0.05


# Each was seen to saturate, so that the comparison says something.
SATURATING = (
    "conv qlinear u8 s8",
    "conv qdq u8 s8",
    "conv qdq quantized u8 s8",
    "conv qdq quantized s8 s8",
    "conv integer s8 u8",
    "conv qlinear u8 s8 depthwise of several zero points",
    "matmul qlinear u8 s8",
    "matmul integer u8 s8",
    "matmul dynamic u8 s8",
    "matmul dynamic op u8 s8",
    "matmul to float u8 s8",
    "matmul qdq u8 s8",
    "matmul qdq float u8 s8",
    "matmul qdq quantized s8 s8",
    "gemm qgemm u8 s8",
    "gemm qgemm float u8 s8",
    "gemm qdq float u8 s8",
    "gemm qdq quantized s8 s8",
)


def some(made):
    """One of five, those of several zero points, and the first two of each form that saturates: 5 has no factor in common with the numbers of
    types, forms and shapes."""
    firsts = {id(layer) for start in SATURATING for layer in [m for m in made if m.name.startswith(start)][:2]}
    return [layer for i, layer in enumerate(made) if i % 5 == 0 or "several" in layer.name or id(layer) in firsts]


def test_every_form_of_a_product(qcalib, tmp_path):
    made = layers() if LONG else some(layers())
    for i, layer in enumerate(made):
        onnx.save(layer.model, tmp_path / f"{i}.onnx")
    # DynamicQuantizeLinear looks at all that it is given, and qcalib at one sample.
    jobs = [Job(tmp_path / f"{i}.onnx", layer.feeds, batch=1) for i, layer in enumerate(made)]
    expected = avx2_runtime.run(jobs)
    wrong, wanted = [], set(SATURATING)
    for i, layer in enumerate(made):
        np.savez(tmp_path / "x.npz", **layer.feeds)
        got = only(run(qcalib, tmp_path, f"{i}.onnx", "x.npz", PAIRS))
        want = only(expected[i])
        if layer.in_float:
            exact = only(run(qcalib, tmp_path, f"{i}.onnx", "x.npz", EXACT))
            right = np.array_equal(got, exact) and nearly(got, want)
        else:
            right = got.dtype == want.dtype and np.array_equal(got, want)
            of = {start for start in wanted if layer.name.startswith(start)}
            if of and not np.array_equal(want, only(run(qcalib, tmp_path, f"{i}.onnx", "x.npz", EXACT))):
                wanted -= of
        if not right:
            wrong.append(f"{layer.name}: {(got != want).mean():.1%} differ")
    assert not wrong, "\n".join(wrong)
    assert not wanted, f"nothing saturates in {sorted(wanted)}, so the comparison says little"


def case_of(model, samples):
    return dataclasses.replace(next(c for c in CASES + QUANTIZED if c.model == model), samples=samples)


class Samples:
    """What quantize_static calibrates on."""

    def __init__(self, feeds):
        self.feeds = iter([{k: v[i : i + 1] for k, v in feeds.items()} for i in range(len(next(iter(feeds.values()))))])

    def get_next(self):
        return next(self.feeds, None)


def of_onnxruntime(made, case, data, form, activations):
    """The model as ONNX Runtime's own quantizer makes it."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    samples = dataclasses.replace(case, data=CALIBRATION[case.data], samples=32)
    quantize_static(
        data / f"models/{case.model}.onnx",
        made,
        Samples(inputs(samples, data)),
        quant_format=QuantFormat[form],
        per_channel=True,
        activation_type=QuantType[activations],
        weight_type=QuantType.QInt8,
    )


# int8 that two operators read stay int8 between QuantizeLinear and DequantizeLinear, and the convolutions around them are
# computed in float32 (docs/decisions/0006): a rounding falls the other way now and then, on every processor.
IN_FLOAT = {"resnet8_cifar10_mlperf_tfint8_qdq.onnx", "resnet8_cifar10_mlperf.QDQ.QInt8.onnx"}


def test_whole_networks(qcalib, data, tmp_path):
    """qcalib's files in both forms, those of other tools, and those of ONNX Runtime's own quantizer, which saturate."""
    wanted = []  # file, case, must it saturate
    for model, samples in (
        ("dscnn_kws_mlperf", 16 if LONG else 4),
        ("resnet8_cifar10_mlperf", 16 if LONG else 2),
        ("mnist_cntk8", 64 if LONG else 16),
        ("autoencoder_ad_mlperf", 64 if LONG else 16),
        *([("resnet20_cifar10", 16), ("mobilenetv1_075_224_imagenet", 2)] if LONG else []),
    ):
        case = case_of(model, samples)
        wanted += [(tmp_path / file, case, False) for file in quantize(case, qcalib, data, "--method", "minmax")]
    for model in ("resnet8_cifar10_mlperf_tfint8_qdq", "dscnn_kws_mlperf_tfint8_qdq"):
        wanted.append((data / f"models/{model}.onnx", case_of(model, 32 if LONG else 4), model.startswith("dscnn")))
    for model in ("dscnn_kws_mlperf", "resnet8_cifar10_mlperf")[: 2 if LONG else 1]:
        for form, activations in (("QDQ", "QUInt8"), ("QOperator", "QUInt8"), ("QDQ", "QInt8"), ("QOperator", "QInt8")):
            file, case = tmp_path / f"{model}.{form}.{activations}.onnx", case_of(model, 32 if LONG else 8)
            of_onnxruntime(file, case, data, form, activations)
            wanted.append((file, case, (form, activations) != ("QOperator", "QInt8")))
    expected = avx2_runtime.run([Job(file, inputs(case, data)) for file, case, _ in wanted])
    wrong = []
    for (file, case, saturates), want in zip(wanted, expected, strict=True):
        more = ["--samples", case.samples] + (["--preprocess", case.preprocess] if case.preprocess else [])
        got, exact = (run(qcalib, tmp_path, file, data / case.data, how, *more) for how in (PAIRS, EXACT))
        for name, value in want.items():
            share, most = (got[name] != value).mean(), np.abs(got[name] - value).max()
            if share > (0.05 if file.name in IN_FLOAT else 0):
                wrong.append(f"{file.name}, {name}: {share:.2%} differ, by up to {most}")
            if saturates and np.array_equal(got[name], exact[name]):
                wrong.append(f"{file.name}, {name}: nothing saturates")
    assert not wrong, "\n".join(wrong)


def test_the_report_measures_what_saturates(qcalib, tmp_path):
    """Weights at the ends of the levels and data that are large: `compare` and the report of the job see the loss, and the file is the
    same."""
    rng = np.random.default_rng(5)
    weights = rng.choice([-1, 1], (8, 8, 3, 3)).astype(np.float32)
    weights[:, ::2] = np.abs(weights[:, ::2])
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["c"], name="conv"), helper.make_node("Relu", ["c"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 8, 6, 6])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 8, 4, 4])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=rng.uniform(0, 1, (24, 8, 6, 6)).astype(np.float32))
    files, errors = {}, {}
    for rounding in (EXACT, PAIRS):
        qcalib("--data", "x.npz", "m.onnx", "-o", f"{rounding}.onnx", "--report", rounding, "--rounding", rounding,
               "--overflow-fix=off", "--prefer=integers", "--activation-type=uint8")
        files[rounding] = (tmp_path / f"{rounding}.onnx").read_bytes()
        errors[rounding] = json.loads((tmp_path / rounding / "report.json").read_text())["outputs"][0]
    assert files[EXACT] == files[PAIRS]
    assert errors[EXACT]["sqnr_db"] > 35 > 20 > errors[PAIRS]["sqnr_db"], errors
    both = ("--rounding", f"{EXACT},{PAIRS}", "onnx.onnx", "onnx.onnx", "--data", "x.npz")
    assert qcalib("compare", "--json", *both).json["outputs"][0]["sqnr_db"] < 20
