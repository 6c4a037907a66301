# SPDX-License-Identifier: Apache-2.0
"""Models with If, Loop and Scan run as in ONNX Runtime."""
import h5py
import numpy as np
import onnx
import onnxruntime
import pytest

from control_models import MODELS

SAMPLES = 12
INSIDE = {  # layers that stand in bodies
    "conv_in_loop": ["n_y/body/"],
    "conv_in_branches": ["n_y0/then_branch/", "n_y0/else_branch/"],
    "matmul_in_scan": ["n_last/body/"],
    "matmul_in_scan_backwards": ["n_last/body/"],
    "loop_in_if": ["n_y/then_branch/n_t/body/"],
    "trips_from_data": [],
    "condition_of_shape": [],
}


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
    """Bodies are quantized too; ONNX Runtime runs the file and gives what `run` gives, and both are near to float."""
    name, _, x = control
    report = qcalib("--data", "x.h5", "m.onnx", "-o", "m.int8.onnx", "--json").json
    quantized = onnx.load(tmp_path / "m.int8.onnx")
    onnx.checker.check_model(quantized)
    assert sorted(i for i in INSIDE[name] if not any(i in layer["name"] for layer in report["layers"])) == []
    floats = onnxruntime_outputs(tmp_path / "m.onnx", x)
    qcalib("run", "m.int8.onnx", "--data", "x.h5", "-o", "y.h5")
    for output, parts in onnxruntime_outputs(tmp_path / "m.int8.onnx", x).items():
        want = np.concatenate([p.reshape(1, *p.shape) if output == "count" else p for p in parts])
        got = stored(tmp_path / "y.h5", output)
        assert np.array_equal(got.reshape(want.shape), want), f"{output}: {np.abs(got.reshape(want.shape) - want).max()}"
        real = np.concatenate([p.reshape(1, *p.shape) if output == "count" else p for p in floats[output]])
        assert 10 * np.log10((real**2).sum() / max(((real - want) ** 2).sum(), 1e-30)) > 25
