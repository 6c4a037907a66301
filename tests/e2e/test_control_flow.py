# SPDX-License-Identifier: Apache-2.0
"""Models with If, Loop and Scan run as in ONNX Runtime."""
import h5py
import numpy as np
import onnx
import onnxruntime
import pytest

from control_models import MODELS

SAMPLES = 12


@pytest.fixture(params=list(MODELS))
def control(request, tmp_path):
    """A model in a file, with data in which each branch is taken; (name, model, samples)."""
    model = MODELS[request.param]()
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "m.onnx")
    shape = [d.dim_value or 8 for d in model.graph.input[0].type.tensor_type.shape.dim]
    rng = np.random.default_rng(3)
    x = rng.normal(size=(SAMPLES, *shape[1:])).astype(np.float32)
    x += (np.arange(SAMPLES) % 2 - 0.5).reshape(-1, *[1] * (len(shape) - 1)).astype(np.float32)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = x
    return request.param, model, x


def onnxruntime_outputs(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    parts = [session.run(None, {"x": sample[None]}) for sample in x]
    return {o.name: [p[k] for p in parts] for k, o in enumerate(session.get_outputs())}


def stored(path, name):
    with h5py.File(path) as file:
        return file[name][:]


def test_run_is_onnxruntime(qcalib, tmp_path, control):
    _, model, x = control
    qcalib("run", "m.onnx", "--data", "x.h5", "-o", "y.h5")
    for name, parts in onnxruntime_outputs(tmp_path / "m.onnx", x).items():
        want = np.concatenate([p.reshape(1, *p.shape) if name == "count" else p for p in parts])
        got = stored(tmp_path / "y.h5", name)
        assert np.allclose(got.reshape(want.shape), want, atol=1e-5), f"{name}: {np.abs(got.reshape(want.shape) - want).max()}"


def test_quantized_file_is_our_integers(qcalib, tmp_path, control):
    """What stands outside of bodies is quantized at least; ONNX Runtime runs the file and gives what `run` gives."""
    name, _, x = control
    if name.startswith("matmul_in_scan"):
        pytest.skip("all of its products are in the body")
    qcalib("--data", "x.h5", "m.onnx", "-o", "m.int8.onnx")
    onnx.checker.check_model(onnx.load(tmp_path / "m.int8.onnx"))
    qcalib("run", "m.int8.onnx", "--data", "x.h5", "-o", "y.h5")
    for output, parts in onnxruntime_outputs(tmp_path / "m.int8.onnx", x).items():
        want = np.concatenate([p.reshape(1, *p.shape) if output == "count" else p for p in parts])
        got = stored(tmp_path / "y.h5", output)
        assert np.allclose(got.reshape(want.shape), want, atol=1e-5), f"{output}: {np.abs(got.reshape(want.shape) - want).max()}"
