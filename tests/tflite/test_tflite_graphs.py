# SPDX-License-Identifier: Apache-2.0
"""The real models as ONNX graphs (tflite_to_onnx.py): each op alone in ONNX Runtime differs from TensorFlow Lite by at
most one level, and `qcalib run --rounding tflite` equals TensorFlow Lite's reference interpreter bit for bit, in every
layer.

  QCALIB  the program; build/release/qcalib when unset"""

import os
import pathlib
import subprocess

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.utils import Extractor

from test_tflite_models import MODELS, model_file
from tflite_model import RUNTIME, Model, Reference
from tflite_ops import one_op
from tflite_to_onnx import Builder

ROOT = pathlib.Path(__file__).resolve().parents[2]


def channels_first(a):
    return a.transpose(0, 3, 1, 2) if a.ndim == 4 else a


def random_input(model, rng, samples=1):
    shape = model.tensors[model.inputs[0]].shape
    return rng.integers(-128, 128, (samples, *shape[1:])).astype(np.int8)


@pytest.mark.parametrize("name", MODELS)
def test_each_op_alone_in_onnx_runtime_is_off_by_one_at_most(name):
    """Rounding contracts differ in ties and double rounding only; a wrong pad, weight order or scale would be far off."""
    model = Model(model_file(name).read_bytes())
    builder, reference = Builder(model, every_layer=True), Reference(model)
    extractor = Extractor(builder.build())
    reference.run(random_input(model, np.random.default_rng(9)))
    for k, op in enumerate(model.ops):
        inputs = {
            builder.quantized[t.index]: channels_first(reference.tensor(t))
            for t in op.inputs
            if t is not None and t.index in builder.quantized
        }
        part = extractor.extract_model(list(inputs), [builder.quantized[op.outputs[0].index]])
        got = onnxruntime.InferenceSession(part.SerializeToString(), providers=["CPUExecutionProvider"]).run(
            None, inputs
        )[0]
        want = channels_first(reference.tensor(op.outputs[0]))
        apart = np.abs(got.astype(np.int32) - want)
        assert got.shape == want.shape and apart.max() <= 1, f"op {k}, {op.kind}: {apart.max()} levels apart"
        assert op.kind == "AVERAGE_POOL_2D" or (apart > 0).sum() <= max(
            1, 0.1 * apart.size
        ), f"op {k}, {op.kind}: {(apart > 0).mean():.1%} are off by one"


@pytest.fixture(scope="module")
def program():
    path = ROOT / os.environ.get("QCALIB", "build/release/qcalib")
    if not path.exists():
        pytest.fail(f"there is no {path}; build it first: cmake --preset release && cmake --build --preset release")
    if "--rounding" not in subprocess.run([path, "help", "run"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("this qcalib run has no --rounding")
    return path


def run_tflite(program, tmp_path, builder, x):
    """The outputs of qcalib under the contract, by name, from samples of the only input."""
    onnx.save(builder.build(), tmp_path / "model.onnx")
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file[f"input{builder.model.inputs[0]}"] = x
    subprocess.run(
        [program, "run", "model.onnx", "--data", "in.h5", "--rounding", "tflite", "-o", "out.h5"],
        cwd=tmp_path,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    with h5py.File(tmp_path / "out.h5") as file:
        return {name: data[:] for name, data in file.items()}


@pytest.mark.parametrize("name", MODELS)
def test_qcalib_run_is_the_reference_interpreter(name, program, tmp_path):
    model = Model(model_file(name).read_bytes())
    builder, reference = Builder(model, every_layer=True), Reference(model)
    x = random_input(model, np.random.default_rng(10), samples=3)
    file = run_tflite(program, tmp_path, builder, x)
    ops = model.ops
    if RUNTIME != "tflite-runtime":  # its FULLY_CONNECTED rounds differently: what comes before the first one
        ops = ops[: next((k for k, op in enumerate(ops) if op.kind == "FULLY_CONNECTED"), len(ops))]
    for sample, value in enumerate(x):
        reference.run(value[None])
        for op in ops:
            got, want = file[builder.quantized[op.outputs[0].index]][sample], channels_first(
                reference.tensor(op.outputs[0])
            )
            wrong = np.count_nonzero(got.reshape(want.shape) != want)
            assert wrong == 0, f"{op.kind} t{op.outputs[0].index}: {wrong} of {want.size} differ"


@pytest.mark.parametrize("name", MODELS)
def test_so_it_is_when_only_the_outputs_are_seen(name, program, tmp_path):
    """Layers that nobody looks at are fused."""
    model = Model(model_file(name).read_bytes())
    if RUNTIME != "tflite-runtime":
        pytest.skip("the other runtime's FULLY_CONNECTED rounds differently")
    x = random_input(model, np.random.default_rng(11), samples=8)
    file, reference = run_tflite(program, tmp_path, Builder(model), x), Reference(model)
    for sample, value in enumerate(x):
        reference.run(value[None])
        for i in model.outputs:
            want = reference.tensor(model.tensors[i])
            assert np.array_equal(file[f"t{i}"][sample].reshape(want.shape), want), f"t{i} of sample {sample}"


@pytest.mark.parametrize("seed", range(3))
def test_softmax_between_integers_is_the_reference_kernel(seed, program, tmp_path):
    """In float32 some 5 in 100,000 would be one step off."""
    rng = np.random.default_rng(seed)
    n, scale = int(rng.integers(12, 40)), float(np.float32(np.exp2(rng.uniform(-6, -3))))
    tensors = [
        ((1, n), np.int8, [scale], [int(rng.integers(-128, 128))], 0, None),
        ((1, n), np.int8, [1 / 256], [-128], 0, None),
    ]
    model = Model(one_op("SOFTMAX", tensors, [0], [1], ("SoftmaxOptions", {"Beta": 1.0}), 2))
    x, reference = rng.integers(-128, 128, (4000, 1, n)).astype(np.int8), Reference(model)
    got, wrong = run_tflite(program, tmp_path, Builder(model), x)["t1"], 0
    for sample, value in enumerate(x):
        reference.run(value)
        wrong += np.count_nonzero(got[sample].ravel() != reference.tensor(model.tensors[1]).ravel())
    assert wrong == 0, f"{wrong} of {got.size} differ"
