# SPDX-License-Identifier: Apache-2.0
"""--encodings: parameters of AIMET, QNN and ONNX Runtime. What they mean is computed here from their definitions:
AIMET: real = scale * (q + offset), q unsigned; QuantizeLinear: real = scale * (q - zero point)."""

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_quantize_odd import node, normal

SHAPES = {"w": (8, 3, 3, 3), "t": (8, 4, 2, 2), "g": (100, 10), "m": (10, 6)}
WEIGHT_AXIS = {"w": 0, "t": 1, "g": 1, "m": 1}


def write(path):
    nodes = [
        node("Conv", ["x", "w", "b"], "c"),
        node("Relu", ["c"], "r"),
        node("ConvTranspose", ["r", "t"], "u", strides=[1, 1]),
        node("GlobalAveragePool", ["u"], "p"),
        node("Flatten", ["u"], "f"),
        node("Gemm", ["f", "g"], "d"),
        node("MatMul", ["d", "m"], "y"),
    ]
    weights = {n: normal(*s) for n, s in SHAPES.items()}
    weights["g"], weights["b"] = normal(196, 10), normal(8, 1)[:, 0]
    graph = helper.make_graph(
        [n for n in nodes if n.op_type != "GlobalAveragePool"],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 6])],
        [numpy_helper.from_array(w, n) for n, w in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    np.savez(path.with_name("x.npz"), x=np.random.default_rng(1).normal(size=(16, 3, 8, 8)).astype(np.float32))
    return weights


def channels(weight, axis, bits=8):
    most = np.abs(weight).max(axis=tuple(i for i in range(weight.ndim) if i != axis))
    return (1.3 * most / (2 ** (bits - 1) - 1)).astype(np.float32)


def wanted(weights):
    """{tensor: (type, scales, zero point)}: odd numbers, which no observer would choose."""
    return {
        "x": ("uint8", [0.04321], 111),
        "r": ("uint8", [0.0345], 3),
        "f": ("uint16", [0.00056], 30000),
        "w": ("int8", channels(weights["w"], 0).tolist(), 0),
        "g": ("int8", [0.0123], 0),
    }


def aimet_0_6_1(tensors):
    def one(kind, scale, zero):
        bits = int(kind.lstrip("uint"))
        low = 0 if kind[0] == "u" else -(2 ** (bits - 1))
        offset = low - zero
        return dict(bitwidth=bits, dtype="int", is_symmetric=str(kind[0] == "i"), offset=offset, scale=scale,
                    min=scale * offset, max=scale * (offset + 2**bits - 1))

    encode = lambda names: {n: [one(t, s, z) for s in scales] for n, (t, scales, z) in tensors.items() if n in names}
    bias = {"b": [dict(bitwidth=32, dtype="int", is_symmetric="True", offset=-(2**31), scale=1e-6)]}
    return {"version": "0.6.1", "activation_encodings": encode("xrf"), "param_encodings": encode("wg") | bias}


def qnn(tensors):
    """Only widths and ranges."""
    made = aimet_0_6_1(tensors)
    for part in ("activation_encodings", "param_encodings"):
        for name, entries in made[part].items():
            for e in entries:
                for key in ("offset", "scale", "dtype", *(("is_symmetric",) if name in "xrf" else ())):
                    e.pop(key, None)
    del made["version"]
    return made


def aimet_1_0(tensors):
    def one(name):
        kind, scales, zero = tensors[name]
        bits = int(kind.lstrip("uint"))
        low = 0 if kind[0] == "u" else -(2 ** (bits - 1))
        form = "PER_CHANNEL" if len(scales) > 1 else "PER_TENSOR"
        return dict(name=name, bw=bits, dtype="INT", enc_type=form, is_sym=kind[0] == "i", scale=scales,
                    offset=[low - zero] * len(scales))

    return {"version": "1.0.0", "activation_encodings": [one(n) for n in "xrf"], "param_encodings": [one(n) for n in "wg"]}


def aimet_2_0(tensors):
    def one(name):
        kind, scales, zero = tensors[name]
        many = len(scales) > 1
        return dict(name=name, output_dtype=kind, y_scale=scales if many else scales[0],
                    y_zero_point=None if zero == 0 else [zero] * len(scales) if many else zero, **({"axis": 0} if many else {}))

    return {"version": "2.0.0", "encodings": [one(n) for n in tensors]}


def onnxruntime(tensors):
    names = {"uint8": "QUInt8", "int8": "QuantType.QInt8", "uint16": "QUInt16"}
    return {n: [dict(quant_type=names[t], scale=s, zero_point=z, **({"axis": 0} if len(scales) > 1 else {})) for s in scales]
            for n, (t, scales, z) in tensors.items()}


def parameters(path):
    """{input of a QuantizeLinear, or weight: (type, scales, zero points)}"""
    model, found = onnx.load(path), {}
    constants = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    for n in model.graph.node:
        if n.op_type not in ("QuantizeLinear", "DequantizeLinear") or len(n.input) < 3:
            continue
        weight = n.input[0] in constants
        if (n.op_type == "DequantizeLinear") != weight:
            continue
        name = n.input[0].removesuffix("_quantized")
        scale, zero = constants[n.input[1]], constants[n.input[2]]
        found[name] = (zero.dtype.name, np.atleast_1d(scale), np.atleast_1d(zero))
        if not weight:
            found[n.output[0].removesuffix("_quantized")] = found[name]
    return found


@pytest.mark.parametrize("form", [aimet_0_6_1, qnn, aimet_1_0, aimet_2_0, onnxruntime])
def test_forms(form, qcalib, tmp_path):
    """The named tensors have these parameters in the file, whatever the samples say; others are chosen."""
    weights = write(tmp_path / "m.onnx")
    tensors = wanted(weights)
    (tmp_path / "e.json").write_text(json.dumps(form(tensors)))
    given = ("--data", "x.npz", "m.onnx", "--no-report", "--prefer=integers")
    done = qcalib(*given, "-o", "q.onnx", "--encodings=e.json")
    assert "not used" not in done.err
    qcalib(*given, "-o", "free.onnx")
    made, free = parameters(tmp_path / "q.onnx"), parameters(tmp_path / "free.onnx")
    for name, (kind, scales, zero) in tensors.items():
        seen = made.get(name) or made["c" if name == "r" else "u"]
        assert seen[0] == kind, name
        np.testing.assert_allclose(seen[1], np.float32(scales), rtol=2e-7 if form is not qnn else 1e-5)
        assert (seen[2] == zero).all(), name
    others = set(free) - {"x", "r", "c", "f", "u", "w", "g"}
    assert others and all(made[n][0] == free[n][0] for n in others if n in made)


def test_a_weight_is_rounded_to_nearest(qcalib, tmp_path):
    """With the scale of the file, from the float numbers of the model."""
    weights = write(tmp_path / "m.onnx")
    tensors = wanted(weights)
    (tmp_path / "e.json").write_text(json.dumps(aimet_2_0(tensors)))
    qcalib("--data", "x.npz", "m.onnx", "--no-report", "-o", "q.onnx", "--encodings=e.json")
    made = {i.name: numpy_helper.to_array(i) for i in onnx.load(tmp_path / "q.onnx").graph.initializer}
    scales = np.float32(tensors["w"][1])[:, None, None, None]
    np.testing.assert_array_equal(made["w_quantized"], np.clip(np.rint(weights["w"] / scales), -128, 127))


@pytest.mark.integers
def test_own_encodings_give_the_same_parameters(qcalib, tmp_path):
    write(tmp_path / "m.onnx")
    given = ("--data", "x.npz", "m.onnx", "--no-report", "--weight-rounding=nearest", "--bias-correction=off", "--overflow-fix=off")
    qcalib(*given, "--format=qdq,encodings", "--method=kl")
    qcalib(*given, "--method=minmax", "--encodings=m.encodings.json" if (tmp_path / "m.encodings.json").exists()
           else f"--encodings={next(p.name for p in tmp_path.glob('*encodings*'))}", "-o", "again.onnx")
    first, again = parameters(tmp_path / "m.int8.onnx"), parameters(tmp_path / "again.onnx")
    assert first.keys() == again.keys()
    for name in first:
        assert first[name][0] == again[name][0]
        np.testing.assert_allclose(first[name][1], again[name][1], rtol=1e-6)
        assert (first[name][2] == again[name][2]).all()


@pytest.mark.parametrize("name, axis", WEIGHT_AXIS.items())
def test_axis_of_channels(name, axis, qcalib, tmp_path):
    """AIMET's 0.6.1 does not say the axis: it is that of the output channels of the operator that reads the weight."""
    weights = write(tmp_path / "m.onnx")
    scales = channels(weights[name], axis)
    entry = lambda s: dict(bitwidth=8, dtype="int", is_symmetric="True", offset=-128, scale=float(s))
    (tmp_path / "e.json").write_text(json.dumps({"param_encodings": {name: [entry(s) for s in scales]}}))
    qcalib("--data", "x.npz", "m.onnx", "--no-report", "-o", "q.onnx", "--encodings=e.json", "--prefer=integers", "--target=fused")
    np.testing.assert_allclose(parameters(tmp_path / "q.onnx")[name][1], scales, rtol=1e-6)


def test_what_is_not_used(qcalib, tmp_path):
    write(tmp_path / "m.onnx")
    e = {"activation_encodings": {"nobody": [dict(bitwidth=8, min=-1, max=1)], "x": [dict(bitwidth=16, dtype="float")],
                                  "c": [dict(bitwidth=6, min=-1, max=1)]}, "param_encodings": {}}
    (tmp_path / "e.json").write_text(json.dumps(e))
    told = qcalib("--data", "x.npz", "m.onnx", "--no-report", "--encodings=e.json").err
    for name, why in (("nobody", "no such tensor"), ("x", "stays float"), ("c", "not 4, 8 or 16 bits")):
        assert any(f"'{name}' first" in line and why in line for line in told.splitlines()), told
    (tmp_path / "e.json").write_text(json.dumps({"x": [dict(quant_type="QUInt16")]}))
    assert "a type without a range" in qcalib("--data", "x.npz", "m.onnx", "--no-report", "--encodings=e.json").err


@pytest.mark.bad_input
@pytest.mark.parametrize(
    "content, text",
    [
        ("{", "line 1"),
        ("[]", "expected an object"),
        ('{"version": "0.6.1"}', "'version' is no list"),
        ('{"encodings": [{"output_dtype": "uint8", "y_scale": 1}]}', "has no name"),
        ('{"encodings": [{"name": "x", "output_dtype": "uint8", "y_scale": 0}]}', "scale 0 and zero point 0"),
        ('{"encodings": [{"name": "x", "output_dtype": "uint8", "y_scale": -1}]}', "scale -1"),
        ('{"encodings": [{"name": "x", "output_dtype": "uint8", "y_scale": 1, "y_zero_point": 300}]}', "zero point 300"),
        ('{"encodings": [{"name": "x", "output_dtype": "uint8", "y_scale": "a"}]}', "tensor 'x'"),
        ('{"encodings": [{"name": "w", "output_dtype": "int8", "y_scale": [1, 2, 3], "axis": 0}]}', "has 3 scales"),
        ('{"encodings": [{"name": "w", "output_dtype": "int8", "y_scale": [1, 2, 3], "axis": 9}]}', "another number of channels"),
        ('{"encodings": [{"name": "w", "output_dtype": "int8", "y_scale": []}]}', "has 0 scales"),
        ('{"param_encodings": {"w": []}}', "not used"),
        ('{"activation_encodings": {"x": [{"bitwidth": 8, "min": 1e39, "max": 1e45}]}}', "tensor 'x'"),
    ],
)
def test_mistakes(content, text, qcalib, tmp_path):
    write(tmp_path / "m.onnx")
    (tmp_path / "e.json").write_text(content)
    result = qcalib("--data", "x.npz", "m.onnx", "--no-report", "--encodings=e.json", code=None)
    assert text in result.err
    assert result.code == 0 if text == "not used" else result.code == 3 and not result.new_files


@pytest.mark.parametrize("override", [dict(rmin=-1.37, rmax=3.9), dict(scale=0.031, zero_point=77), dict(rmin=0.5, rmax=2.5)])
def test_as_onnxruntime_reads_overrides(override, qcalib, tmp_path):
    """The same scale and zero point as in the file of ONNX Runtime's quantizer."""
    quantization = pytest.importorskip("onnxruntime.quantization")
    write(tmp_path / "m.onnx")
    x = np.load(tmp_path / "x.npz")["x"]

    class Reader(quantization.CalibrationDataReader):
        def __init__(self):
            self.samples = iter([{"x": s[None]} for s in x])

        def get_next(self):
            return next(self.samples, None)

    numbers = {k: np.array(v, np.uint8 if k == "zero_point" else np.float32) for k, v in override.items()}
    quantization.quantize_static(
        str(tmp_path / "m.onnx"), str(tmp_path / "ort.onnx"), Reader(),
        extra_options={"TensorQuantOverrides": {"x": [dict(quant_type=quantization.QuantType.QUInt8, **numbers)]}},
    )
    (tmp_path / "e.json").write_text(json.dumps({"x": [dict(quant_type="QUInt8", **override)]}))
    qcalib("--data", "x.npz", "m.onnx", "--no-report", "-o", "q.onnx", "--encodings=e.json")
    theirs, ours = parameters(tmp_path / "ort.onnx")["x"], parameters(tmp_path / "q.onnx")["x"]
    assert theirs[0] == ours[0] and (theirs[2] == ours[2]).all()
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-6)
