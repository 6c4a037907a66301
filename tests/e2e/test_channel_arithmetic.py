# SPDX-License-Identifier: Apache-2.0
"""Batch norms that are not folded into a layer, and PRelu, are computed in integers, bit for bit as in ONNX Runtime."""

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

CHANNELS = 12


def save(folder, middle, tensors, shape=(CHANNELS, 9, 9)):
    """Two convolutions with a pool, which nothing is folded into, and `middle` between them."""
    rng = np.random.default_rng(6)
    rank = len(shape) - 1
    tensors = {
        **tensors,
        "w1": rng.normal(size=(CHANNELS, CHANNELS) + (3,) * rank) / 8,
        "w2": rng.normal(size=(5, CHANNELS) + (1,) * rank),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1] * 2 * rank, name="first"),
        helper.make_node("MaxPool", ["a"], ["p"], kernel_shape=[2] * rank, strides=[2] * rank),
        middle,
        helper.make_node("Conv", ["m", "w2"], ["y"], name="last"),
    ]
    value = lambda n: helper.make_tensor_value_info(
        n, TensorProto.FLOAT, ["N", CHANNELS, *shape[1:]] if n == "x" else None
    )
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x")],
        [value("y")],
        [numpy_helper.from_array(np.asarray(v, np.float32), k) for k, v in tensors.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(folder / "m.onnx")
    )
    x = rng.normal(size=(24, *shape)).astype(np.float32)
    with h5py.File(folder / "x.h5", "w") as f:
        f["x"] = x
    return x


def run(path, x):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]


def norm(rng):
    tensors = {
        "s": rng.uniform(-1.5, 1.5, CHANNELS),
        "o": rng.normal(size=CHANNELS),
        "mean": rng.normal(size=CHANNELS),
        "var": rng.uniform(0.2, 2, CHANNELS),
    }
    tensors["s"][3] = 0
    return helper.make_node("BatchNormalization", ["p", *tensors], ["m"], epsilon=1e-3, name="norm"), tensors


def slopes(rng, one):
    return helper.make_node("PRelu", ["p", "slope"], ["m"], name="prelu"), {
        "slope": rng.uniform(-0.2, 0.6, (1, 1, 1) if one else (CHANNELS, 1, 1))
    }


CASES = {
    "batch norm": (norm, (CHANNELS, 9, 9)),
    "batch norm of a sequence": (norm, (CHANNELS, 16)),
    "slopes": (lambda r: slopes(r, False), (CHANNELS, 9, 9)),
    "one slope": (lambda r: slopes(r, True), (CHANNELS, 9, 9)),
}


@pytest.mark.integers
@pytest.mark.parametrize("case", CASES)
def test_nothing_stays_float(case, qcalib, tmp_path):
    make, shape = CASES[case]
    x = save(tmp_path, *make(np.random.default_rng(2)), shape=shape)
    done = qcalib("--data", "x.h5", "m.onnx", "-o", "q.onnx")
    assert ", 0 stay in float" in done.out, done.out
    assert not {"BatchNormalization", "PRelu"} & {n.op_type for n in onnx.load(str(tmp_path / "q.onnx")).graph.node}
    qcalib("run", "q.onnx", "--data", "x.h5", "-o", "o.h5")
    got, truth = run(tmp_path / "q.onnx", x), run(tmp_path / "m.onnx", x)
    with h5py.File(tmp_path / "o.h5") as f:
        np.testing.assert_array_equal(f["y"][()], got)
    assert 10 * np.log10((truth**2).sum() / ((got - truth) ** 2).sum()) > 30


@pytest.mark.parametrize("op", ("Tanh", "Elu", "Softplus", "Exp"))
def test_a_refusal_says_which_target_has_a_table(op, qcalib, tmp_path):
    save(tmp_path, helper.make_node(op, ["p"], ["m"], name="unary"), {})
    done = qcalib("--data", "x.h5", "--require-integer", "m.onnx", "-o", "q.onnx", code=1)
    assert f"'unary' ({op}: ONNX Runtime computes it in float; a table of integers with --target fused)" in done.err
    assert (
        ", 0 stay in float"
        in qcalib("--data", "x.h5", "--require-integer", "--target", "fused", "m.onnx", "-o", "q.onnx").out
    )


def test_weights_alone_leave_them(qcalib, tmp_path):
    """Float operators stay what they are."""
    save(tmp_path, *norm(np.random.default_rng(2)))
    qcalib("--data", "x.h5", "--activation-type", "none", "m.onnx", "-o", "q.onnx")
    assert "BatchNormalization" in {n.op_type for n in onnx.load(str(tmp_path / "q.onnx")).graph.node}
