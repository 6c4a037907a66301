# SPDX-License-Identifier: Apache-2.0
"""RFFT2D with REAL, IMAG and COMPLEX_ABS, as models of sound have them: `run`, `convert` to ONNX, and `quantize`. Reference: numpy's
transform, the interpreter where it has the operator, and ONNX Runtime.

  QCALIB       the program; build/release/qcalib when unset"""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest

from test_tflite_export import interpreter_of, run
from test_tflite_import import command, program  # noqa: F401
from tflite_ops import model_of

F, I32, C = np.float32, np.int32, np.complex64
# name -> shape of the input, lengths
FORMS = {"rows": ((1, 6, 1, 32), (1, 32)), "images": ((2, 8, 16), (8, 16)), "cut": ((1, 3, 1, 40), (1, 32)), "padded": ((1, 5, 12), (8, 16))}


def spectrum(x, lengths):
    return np.fft.rfft2(x.astype(np.float64), s=lengths)


def model(shape, lengths, part):
    out = (*shape[:-2], lengths[0], lengths[1] // 2 + 1)
    tensors = [(shape, F, None, None, 0, None), ((2,), I32, None, None, 0, np.array(lengths)), (out, C, None, None, 0, None), (out, F, None, None, 0, None)]
    return model_of([("RFFT2D", [0, 1], [2], None, 1), (part, [2], [3], None, 1)], tensors, [0], [3])


@pytest.mark.parametrize("part", ["COMPLEX_ABS", "REAL", "IMAG"])
@pytest.mark.parametrize("form", FORMS)
def test_a_part_of_the_spectrum(form, part, program, tmp_path):  # noqa: F811
    shape, lengths = FORMS[form]
    content = model(shape, lengths, part)
    (tmp_path / "m.tflite").write_bytes(content)
    x = np.random.default_rng(2).normal(size=(4, *shape)).astype(F)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["t0"] = x
    want = {"COMPLEX_ABS": np.abs, "REAL": np.real, "IMAG": np.imag}[part](spectrum(x, lengths))
    command(program, tmp_path, "run", "m.tflite", "--data", "x.h5", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as file:
        np.testing.assert_allclose(file["t3"][:].reshape(want.shape), want, rtol=1e-4, atol=2e-5)
    try:
        got = run(interpreter_of(content), [x[0]])[0]
    except (ValueError, RuntimeError):
        got = None  # the interpreter has no kernel for this form
    if got is not None:
        np.testing.assert_allclose(got, want[0], rtol=1e-3, atol=1e-4)
    command(program, tmp_path, "convert", "m.tflite", "-o", "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {session.get_inputs()[0].name: x[0]})[0], want[0], rtol=1e-3, atol=1e-4)
    assert "DFT" in {n.op_type for n in onnx.load(tmp_path / "m.onnx").graph.node}


def test_a_network_on_a_spectrum_is_quantized(program, tmp_path):  # noqa: F811
    """Frames of sound, their spectrum and two dense layers."""
    rng = np.random.default_rng(3)
    tensors = [
        ((1, 4, 1, 32), F, None, None, 0, None), ((2,), I32, None, None, 0, np.array([1, 32])), ((1, 4, 1, 17), C, None, None, 0, None), ((1, 4, 1, 17), F, None, None, 0, None),
        ((2,), I32, None, None, 0, np.array([1, 68])), ((1, 68), F, None, None, 0, None), ((24, 68), F, None, None, 0, rng.normal(size=(24, 68)) / 20), ((1, 24), F, None, None, 0, None),
        ((5, 24), F, None, None, 0, rng.normal(size=(5, 24)) / 5), ((1, 5), F, None, None, 0, None),
    ]  # fmt: skip
    ops = [("RFFT2D", [0, 1], [2], None, 1), ("COMPLEX_ABS", [2], [3], None, 1), ("RESHAPE", [3, 4], [5], None, 1),
           ("FULLY_CONNECTED", [5, 6, -1], [7], ("FullyConnectedOptions", {"FusedActivationFunction": 1}), 1), ("FULLY_CONNECTED", [7, 8, -1], [9], ("FullyConnectedOptions", {}), 1)]  # fmt: skip
    (tmp_path / "m.tflite").write_bytes(model_of(ops, tensors, [0], [9]))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["t0"] = rng.normal(size=(64, 1, 4, 1, 32)).astype(F)
    said = command(program, tmp_path, "--data", "x.h5", "--prefer", "integers", "--no-report", "m.tflite", "-o", "q.onnx")
    assert "100.0 % of multiply-adds in integers" in said
    x = rng.normal(size=(1, 4, 1, 32)).astype(F)
    hidden = np.maximum(np.abs(spectrum(x, (1, 32))).reshape(1, 68) @ (np.asarray(tensors[6][5]).astype(F).T), 0)
    want = hidden @ np.asarray(tensors[8][5]).astype(F).T
    got = onnxruntime.InferenceSession(str(tmp_path / "q.onnx"), providers=["CPUExecutionProvider"]).run(None, {"t0": x})[0]
    assert 10 * np.log10((want**2).sum() / ((want - got) ** 2).sum()) > 25


def test_a_cast_takes_the_real_part_after_a_squeeze(program, tmp_path):  # noqa: F811
    """As tf.signal.rfft and tf.cast are written; -2 counts the axes of the complex tensor."""
    tensors = [((3, 1, 32), F, None, None, 0, None), ((2,), I32, None, None, 0, np.array([1, 32])), ((3, 1, 17), C, None, None, 0, None), ((3, 17), C, None, None, 0, None), ((3, 17), F, None, None, 0, None)]
    ops = [("RFFT2D", [0, 1], [2], None, 1), ("SQUEEZE", [2], [3], ("SqueezeOptions", {"SqueezeDims": [-2]}), 1), ("CAST", [3], [4], None, 1)]
    (tmp_path / "m.tflite").write_bytes(model_of(ops, tensors, [0], [4]))
    x = np.random.default_rng(5).normal(size=(2, 3, 1, 32)).astype(F)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["t0"] = x
    command(program, tmp_path, "run", "m.tflite", "--data", "x.h5", "-o", "y.h5")
    want = spectrum(x, (1, 32)).real
    with h5py.File(tmp_path / "y.h5") as file:
        np.testing.assert_allclose(file["t4"][:].reshape(-1, 17), want.reshape(-1, 17), rtol=1e-4, atol=2e-5)


def test_products_of_complex_numbers_are_refused(program, tmp_path):  # noqa: F811
    tensors = [((3, 1, 32), F, None, None, 0, None), ((2,), I32, None, None, 0, np.array([1, 32])), ((3, 1, 17), C, None, None, 0, None), ((3, 1, 17), C, None, None, 0, None), ((3, 1, 17), F, None, None, 0, None)]
    ops = [("RFFT2D", [0, 1], [2], None, 1), ("MUL", [2, 2], [3], ("MulOptions", {}), 1), ("REAL", [3], [4], None, 1)]
    (tmp_path / "m.tflite").write_bytes(model_of(ops, tensors, [0], [4]))
    assert "MUL of complex numbers is not handled" in command(program, tmp_path, "inspect", "m.tflite", code=4)
