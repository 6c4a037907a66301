# SPDX-License-Identifier: Apache-2.0
"""Files of every form (storage of activations, weights and scales) run in ONNX Runtime, 8-bit files also in 1.16, and
give the same results as qcalib run."""

import itertools
import json
import subprocess

import avx2_runtime
import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from conftest import PYTHONS

WIDTH, HIDDEN, SAMPLES, LENGTH = 64, 16, 3, 4
FORMATS, WEIGHTS, BLOCKS, ACTIVATIONS = (
    ("qdq", "qoperator"),
    ("int8", "int4", "int3", "int2"),
    ("none", "16"),
    ("uint8", "dynamic", "none"),
)
RUN = """
import json, sys, numpy, onnxruntime
for path in json.loads(sys.argv[2]):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    numpy.save(path + ".npy", numpy.concatenate([session.run(["y"], {"ids": i[None]})[0] for i in numpy.load(sys.argv[1])]))
"""


def save(folder):
    """An embedding, a product with its bias, an LSTM, and a Gemm of the last state."""
    rng = np.random.default_rng(7)
    normal = lambda *shape: (rng.normal(size=shape) / np.sqrt(shape[-1])).astype(np.float32)
    tensors = {
        "table": 8 * normal(80, WIDTH),
        "w1": normal(WIDTH, 32),
        "b1": normal(32),
        "wx": normal(1, 4 * HIDDEN, 32),
        "wh": normal(1, 4 * HIDDEN, HIDDEN),
        "b": normal(1, 8 * HIDDEN),
        "w2": 3 * normal(HIDDEN, 8),
        "b2": normal(8),
        "flat": np.array([-1, HIDDEN], np.int64),
    }
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], "take"),
        helper.make_node("Sin", ["rows"], ["sin"]),
        helper.make_node("MatMul", ["sin", "w1"], ["m"], "first"),
        helper.make_node("Add", ["m", "b1"], ["a"]),
        helper.make_node("Transpose", ["a"], ["t"], perm=[1, 0, 2]),
        helper.make_node("LSTM", ["t", "wx", "wh", "b"], ["", "h"], "lstm", hidden_size=HIDDEN),
        helper.make_node("Reshape", ["h", "flat"], ["f"]),
        helper.make_node("Gemm", ["f", "w2", "b2"], ["y"], "last"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["N", LENGTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 8])],
        [numpy_helper.from_array(v, k) for k, v in tensors.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), str(folder / "m.onnx")
    )
    ids = rng.integers(0, 80, (SAMPLES, LENGTH))
    np.save(folder / "ids.npy", ids)
    with h5py.File(folder / "ids.h5", "w") as file:
        file["ids"] = ids


def test_every_form(qcalib, tmp_path):
    save(tmp_path)
    old, every, ours = [], [], {}
    for weights, block, activations in itertools.product(WEIGHTS, BLOCKS, ACTIVATIONS):
        qcalib(
            "--data",
            "ids.h5",
            "--weight-type",
            weights,
            "--weight-block",
            block,
            "--activation-type",
            activations,
            "--format",
            ",".join(FORMATS),
            "--method",
            "minmax",
            "--accuracy-level",
            1,
            "--advice",
            "off",
            "--no-report",
            "-q",
            "m.onnx",
        )
        for form, suffix in zip(FORMATS, (f".{weights.removeprefix('u')}.onnx", ".qoperator.onnx")):
            name = f"{form}_{weights}_{block}_{activations}.onnx"
            (tmp_path / f"m{suffix}").rename(tmp_path / name)
            every.append(name)
            old += [name] * (weights == "int8" and block == "none")
            qcalib("run", name, "--data", "ids.h5", "-o", "y.h5")
            with h5py.File(tmp_path / "y.h5") as file:
                ours[name] = file["y"][:]
    assert len(every) == 48 and len(old) == 6
    ops = {name: {n.op_type for n in onnx.load(str(tmp_path / name)).graph.node} for name in every}
    for name in every:
        form, _, block, activations = name.removesuffix(".onnx").split("_")
        named = form == "qoperator"
        assert ("GatherBlockQuantized" in ops[name]) == (named and block == "16"), name
        assert ("MatMulNBits" in ops[name]) == (named and block == "16"), name
        assert ("DynamicQuantizeLSTM" in ops[name]) == (named and activations == "dynamic" and "int8" in name), name
    for runtime, names in (("newest", every), ("1.16", old)):
        python = PYTHONS[runtime]
        if not python.exists():
            pytest.skip(f"no Python with onnxruntime {runtime} (scripts/test makes it where a wheel exists)")
        done = subprocess.run(
            [*avx2_runtime.interpreter(python), "-c", RUN, "ids.npy", json.dumps(names)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        theirs = {name: np.load(tmp_path / f"{name}.npy") for name in names}
        apart = {name: np.abs(theirs[name] - ours[name]).max() / np.abs(theirs[name]).max() for name in names}
        assert {name: a for name, a in apart.items() if a > 0.02} == {}, runtime
