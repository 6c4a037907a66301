# SPDX-License-Identifier: Apache-2.0
"""`--format tflite` with weights of 4 bits, weights alone in integers, and activations that are rounded at run time. Reference: the
interpreter.

  QCALIB       the program; build/release/qcalib when unset"""

import h5py
import numpy as np
import pytest

from test_tflite_export import array, channels_last, check_network, interpreter_of, made, node, operators, run
from test_tflite_import import command, program  # noqa: F401
from tflite_model import RUNTIME, Interpreter

NEW = RUNTIME != "tflite-runtime"
IMAGE = [
    node("Conv", ["x", "w", "b"], "c", pads=[1, 1, 1, 1]), node("Relu", ["c"], "r"), node("Conv", ["r", "d"], "e", group=8), node("Conv", ["e", "v"], "f"),
    node("MaxPool", ["f"], "m", kernel_shape=[2, 2], strides=[2, 2]), node("Flatten", ["m"], "l"), node("Gemm", ["l", "g"], "y"),
]  # fmt: skip
WEIGHTS = {"w": array(8, 3, 3, 3), "b": array(8), "d": array(8, 1, 3, 3, seed=2), "v": array(16, 8, 1, 1, seed=3), "g": array(144, 10, seed=4)}
ROWS = [node("MatMul", ["x", "w"], "a"), node("Add", ["a", "b"], "c"), node("Relu", ["c"], "r"), node("MatMul", ["r", "v"], "d"), node("Tanh", ["d"], "t"), node("MatMul", ["t", "g"], "y")]
ROW_WEIGHTS = {"w": array(24, 64), "b": array(64), "v": array(64, 48, seed=2), "g": array(48, 5, seed=3)}


def quantized(program, folder, *options):  # noqa: F811
    """The bytes of the .tflite file; the same network as QDQ is made.int8.onnx."""
    for form, name in (("tflite", "made.int8.tflite"), ("qdq", "made.int8.onnx")):
        command(program, folder, "-q", "--no-report", "--advice", "off", "--target", "tflite", "--data", "data.h5", "--format", form, *options, "made.onnx", "-o", name)
    return (folder / "made.int8.tflite").read_bytes()


def float_numbers(program, folder, options=()):  # noqa: F811
    command(program, folder, "run", "made.onnx", "--data", "data.h5", *options, "-o", "float.h5")
    with h5py.File(folder / "float.h5") as file:
        return file["y"][:]


def interpreted(folder, content):
    interpreter = interpreter_of(content)
    shape = interpreter.get_input_details()[0]["shape"]
    with h5py.File(folder / "data.h5") as file:
        return np.concatenate([run(interpreter, [np.ascontiguousarray(channels_last(x[None], shape))])[0] for x in file["x"][:]])


def sqnr(want, got):
    return 10 * np.log10((want**2).sum() / ((want - got) ** 2).sum())


def test_weights_of_4_bits_in_integer_layers(program, tmp_path):  # noqa: F811
    """CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED take them; the result is that of `run`."""
    made(tmp_path, IMAGE, (3, 8, 8), WEIGHTS)
    whole = len(quantized(program, tmp_path))
    content = quantized(program, tmp_path, "--weight-type", "int4")
    check_network(program, tmp_path, content, tmp_path / "data.h5", 32)
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"} <= set(operators(content)) and operators(content).count("DEQUANTIZE") == 1
    assert whole - len(content) > 0.45 * sum(v.size for k, v in WEIGHTS.items() if k != "b")
    command(program, tmp_path, "convert", "made.int8.tflite", "--format", "tflite", "-o", "again.tflite")
    np.testing.assert_array_equal(interpreted(tmp_path, (tmp_path / "again.tflite").read_bytes()), interpreted(tmp_path, content))


@pytest.mark.parametrize("bits", ["int8", "int4"])
@pytest.mark.parametrize("kind", ["image", "rows"])
def test_weights_alone(kind, bits, program, tmp_path):  # noqa: F811
    nodes, shape, weights = (IMAGE, (3, 8, 8), WEIGHTS) if kind == "image" else (ROWS, (24,), ROW_WEIGHTS)
    made(tmp_path, nodes, shape, weights)
    content = quantized(program, tmp_path, "--activation-type", "none", "--weight-type", bits)
    assert "QUANTIZE" not in operators(content) and operators(content).count("DEQUANTIZE") == (4 if kind == "image" else 3)
    if bits == "int4" and not NEW:
        with pytest.raises((ValueError, RuntimeError)):
            interpreter_of(content)
        return
    command(program, tmp_path, "run", "made.int8.onnx", "--data", "data.h5", "-o", "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        np.testing.assert_allclose(interpreted(tmp_path, content), file["y"][:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("inner", [24, 25])
@pytest.mark.parametrize("scales", ["channel", "tensor"])
def test_activations_rounded_at_run_time_beside_weights_of_4_bits(scales, inner, program, tmp_path):  # noqa: F811
    """The weights take half of the bytes, also where a row ends within a byte. `run` reads the file as float layers with these weights."""
    made(tmp_path, ROWS, (inner,), {**ROW_WEIGHTS, "w": array(inner, 64)})
    options = ("--activation-type", "dynamic", *(["--per-tensor"] if scales == "tensor" else []))
    whole = len(quantized(program, tmp_path, *options))
    content = quantized(program, tmp_path, *options, "--weight-type", "int4")
    found, weights = operators(content), inner * 64 + 64 * 48 + 48 * 5
    assert found.count("FULLY_CONNECTED") == 3 and not {"QUANTIZE", "DEQUANTIZE", "CAST"} & set(found)
    assert abs(whole - len(content) - weights / 2) < 64
    if scales == "channel" and not NEW:
        with pytest.raises((ValueError, RuntimeError)):
            Interpreter(model_content=content).allocate_tensors()
        return
    got = interpreted(tmp_path, content)
    assert sqnr(float_numbers(program, tmp_path), got) > 13
    command(program, tmp_path, "run", "made.int8.tflite", "--data", "data.h5", "-o", "read.h5")
    with h5py.File(tmp_path / "read.h5") as file:
        assert sqnr(file["y"][:], got) > 35


@pytest.mark.parametrize("scales", ["channel", "tensor"])
def test_activations_rounded_at_run_time(scales, program, tmp_path):  # noqa: F811
    """Dense layers of floats with integer weights: the runtime rounds their inputs. Versions that read one scale refuse several."""
    made(tmp_path, ROWS, (24,), ROW_WEIGHTS)
    content = quantized(program, tmp_path, "--activation-type", "dynamic", *(["--per-tensor"] if scales == "tensor" else []))
    found = operators(content)
    assert found.count("FULLY_CONNECTED") == 3 and not {"QUANTIZE", "DEQUANTIZE", "CAST"} & set(found)
    if scales == "channel" and not NEW:
        with pytest.raises((ValueError, RuntimeError)):
            Interpreter(model_content=content).allocate_tensors()
        return
    assert sqnr(float_numbers(program, tmp_path), interpreted(tmp_path, content)) > (30 if scales == "channel" else 24)


@pytest.mark.parametrize("block", [32, 64])
@pytest.mark.parametrize("activation", ["none", "dynamic"])
def test_weights_of_4_bits_in_blocks(activation, block, program, tmp_path):  # noqa: F811
    """Dense layers of floats read them, with scales of half precision; the runtime rounds their rows. What is read again is an
    error, not other numbers. LiteRT 2.3 computes them with XNNPACK."""
    nodes = [node("MatMul", ["x", "w"], "a"), node("Add", ["a", "b"], "c"), node("Relu", ["c"], "r"), node("Gemm", ["r", "v"], "y", transB=1)]
    made(tmp_path, nodes, (64,), {"w": array(64, 128), "b": array(128), "v": array(10, 128, seed=2)})
    short = ["--target", "tflite", "--data", "data.h5", "--format", "tflite", "--activation-type", activation, "--weight-type", "int4", "--weight-block", "16", "--symmetric=weights"]
    assert "has blocks of scales that have no form" in command(program, tmp_path, "-q", "--no-report", *short, "made.onnx", code=4)
    content = quantized(program, tmp_path, "--activation-type", activation, "--weight-type", "int4", "--weight-block", str(block), "--symmetric=weights")
    plain = len(quantized(program, tmp_path, "--activation-type", "none", "--weight-type", "int4"))
    found = operators(content)
    assert found.count("FULLY_CONNECTED") == 2 and "DEQUANTIZE" not in found and len(content) < plain + 2 * (64 * 128 + 10 * 128) // block + 1000
    if not NEW:
        with pytest.raises((ValueError, RuntimeError)):
            Interpreter(model_content=content).allocate_tensors()
        return
    (tmp_path / "blocks.tflite").write_bytes(content)
    assert "scales in blocks" in command(program, tmp_path, "inspect", "blocks.tflite", code=4)
    command(program, tmp_path, "-q", "--no-report", "--advice", "off", "--data", "data.h5", "--activation-type", "none", "--weight-type", "int4", "--weight-block", str(block), "--symmetric=weights", "made.onnx", "-o", "blocks.onnx")
    command(program, tmp_path, "run", "blocks.onnx", "--data", "data.h5", "-o", "blocks.h5")
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    with h5py.File(tmp_path / "data.h5") as file, h5py.File(tmp_path / "blocks.h5") as wanted:
        got = np.concatenate([run(interpreter, [x[None]])[0] for x in file["x"][:]])
        assert sqnr(wanted["y"][:], got) > 35


def test_int16_layers_of_all_kinds_in_one_file(program, tmp_path):  # noqa: F811
    """With dense layers, sums, products and pools: every number is that of LiteRT's default kernels."""
    if not NEW:
        pytest.skip("the contract is that of ai-edge-litert")
    nodes = [
        node("Conv", ["x", "w", "b"], "c", pads=[1, 1, 1, 1]), node("Relu", ["c"], "r"), node("Conv", ["r", "d"], "e", group=8, pads=[1, 1, 1, 1]), node("Add", ["e", "r"], "s"),
        node("Sigmoid", ["s"], "k"), node("Mul", ["s", "k"], "u"), node("MaxPool", ["u"], "m", kernel_shape=[2, 2], strides=[2, 2]), node("Flatten", ["m"], "l"),
        node("Gemm", ["l", "g"], "h"), node("Tanh", ["h"], "t"), node("Gemm", ["t", "o"], "p"), node("LeakyRelu", ["p"], "q", alpha=0.1), node("Gemm", ["q", "z"], "y"),
    ]  # fmt: skip
    weights = {"w": array(8, 3, 3, 3), "b": array(8), "d": array(8, 1, 3, 3, seed=2), "g": array(128, 24, seed=4), "o": array(24, 16, seed=5), "z": array(16, 6, seed=6)}
    made(tmp_path, nodes, (3, 8, 8), weights)
    content = quantized(program, tmp_path, "--activation-type", "int16", "--symmetric=activations,weights")
    assert {"CONV_2D", "FULLY_CONNECTED", "ADD", "MUL", "LOGISTIC", "TANH"} <= set(operators(content))
    command(program, tmp_path, "run", "made.int8.onnx", "--data", "data.h5", "--rounding", "xnnpack", "-o", "out.h5")
    interpreter = Interpreter(model_content=content)
    interpreter.allocate_tensors()
    with h5py.File(tmp_path / "data.h5") as file, h5py.File(tmp_path / "out.h5") as wanted:
        got = np.concatenate([run(interpreter, [np.ascontiguousarray(np.moveaxis(x[None], 1, -1))])[0] for x in file["x"][:]])
        np.testing.assert_array_equal(got, wanted["y"][:])
