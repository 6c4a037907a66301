# SPDX-License-Identifier: Apache-2.0
"""An input that never changes, beside an output of its shape, may be a state: the warning names both."""

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_quantize_odd import node, normal

F, H = TensorProto.FLOAT, TensorProto.FLOAT16


def model(path, nodes, inputs, outputs, dtype=F, **weights):
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    port = lambda n, s: helper.make_tensor_value_info(n, dtype, s)
    graph = helper.make_graph(
        nodes,
        "g",
        [port(n, s) for n, s in inputs.items()],
        [port(n, s) for n, s in outputs.items()],
        [numpy_helper.from_array(w.astype(kind), n) for n, w in weights.items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(made, full_check=True)
    onnx.save(made, path)


def cell(path, dtype=F):
    """h' = tanh(w x + u h), c' = c + h'; outputs have names of dimensions of their own, as exporters give them."""
    nodes = [
        node("Gemm", ["x", "w"], "a"),
        node("Gemm", ["h", "u"], "b"),
        node("Add", ["a", "b"], "s"),
        node("Tanh", ["s"], "h_next"),
        node("Add", ["c", "h_next"], "c_next"),
        node("Gemm", ["c_next", "v"], "y"),
    ]
    inputs = {"x": ["N", 8], "h": ["N", 16], "c": ["N", 16]}
    outputs = {"y": ["N", 4], "h_next": ["h_next_dim_0", 16], "c_next": ["c_next_dim_0", 16]}
    model(path, nodes, inputs, outputs, dtype, w=normal(8, 16), u=normal(16, 16), v=normal(16, 4))


def gru(path):
    nodes = [node("GRU", ["x", "w", "r", "", "", "h"], ["all", "last"], hidden_size=16), node("Squeeze", ["all"], "y")]
    inputs, outputs = {"x": [5, 1, 8], "h": [1, 1, 16]}, {"y": [5, 16], "last": [1, 1, 16]}
    model(path, nodes, inputs, outputs, w=normal(1, 48, 8), r=normal(1, 48, 16))


def samples(path, count=10, **others):
    rng = np.random.default_rng(1)
    data = {"x": rng.normal(size=(count, 8)), "h": rng.normal(size=(count, 16)), "c": rng.normal(size=(count, 16))}
    np.savez(path, **{n: np.asarray(v, np.float32) for n, v in {**data, **others}.items()})


def told(result):
    return [line for line in result.err.splitlines() if "if it is a state" in line]


ZEROS, SAME = np.zeros((10, 16)), np.tile(np.linspace(-1, 1, 16), (10, 1))


@pytest.mark.parametrize("dtype", [F, H])
def test_zeros(dtype, qcalib, tmp_path):
    cell(tmp_path / "m.onnx", dtype)
    samples(tmp_path / "z.npz", h=-ZEROS, c=ZEROS)
    for command in (("quantize", "--no-report"), ("collect", "-o", "s.h5")):
        lines = told(qcalib(*command, "--data", "z.npz", "m.onnx"))
        assert len(lines) == 2
        assert "input 'h' is zero in every sample, and output 'h_next' has its shape" in lines[0]
        assert "give --state h=h_next, which runs the samples in order" in lines[0]
        assert "input 'c' is zero in every sample, and output 'c_next' has its shape" in lines[1]


def test_constant(qcalib, tmp_path):
    cell(tmp_path / "m.onnx")
    samples(tmp_path / "z.npz", c=SAME)
    (line,) = told(qcalib("--data", "z.npz", "m.onnx", "--no-report"))
    assert "input 'c' is the same in every sample, and output 'c_next' has its shape" in line


def test_recorded_states(qcalib, tmp_path):
    """Most are zero, but one sample differs; an input without such an output may be constant."""
    cell(tmp_path / "m.onnx")
    late = np.zeros((10, 16))
    late[9, 3] = 1
    samples(tmp_path / "z.npz", h=late, c=late, x=np.zeros((10, 8)))
    assert not told(qcalib("--data", "z.npz", "m.onnx", "--no-report"))


def test_one_sample_says_nothing(qcalib, tmp_path):
    cell(tmp_path / "m.onnx")
    samples(tmp_path / "z.npz", 1, h=ZEROS[:1], c=ZEROS[:1])
    assert not told(qcalib("--data", "z.npz", "m.onnx", "--no-report"))


def test_recurrent_operator(qcalib, tmp_path):
    gru(tmp_path / "m.onnx")
    with h5py.File(tmp_path / "z.h5", "w") as file:
        file["x"] = np.random.default_rng(1).normal(size=(6, 5, 1, 8)).astype(np.float32)
        file["h"] = np.zeros((6, 1, 1, 16), np.float32)
    (line,) = told(qcalib("--data", "z.h5", "m.onnx", "--no-report", "--prefer", "size"))
    assert "'h'" in line and "'last'" in line


def test_an_input_that_is_an_output_is_no_state(qcalib, tmp_path):
    nodes = [node("Gemm", ["x", "w"], "y")]
    model(tmp_path / "m.onnx", nodes, {"x": ["N", 8], "k": ["N", 16]}, {"y": ["N", 4], "k": ["N", 16]}, w=normal(8, 4))
    np.savez(tmp_path / "z.npz", x=np.random.default_rng(1).normal(size=(10, 8)).astype(np.float32), k=np.float32(ZEROS))
    assert not told(qcalib("--data", "z.npz", "m.onnx", "--no-report", "--prefer", "size"))
