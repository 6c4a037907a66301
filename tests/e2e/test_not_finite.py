# SPDX-License-Identifier: Apache-2.0
"""Samples without finite values, networks that overflow, and parameters that ONNX Runtime's kernels refuse: the job
fails."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

SAMPLES = 20


def save(path, nodes, shape, **constants):
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, shape)],
        [value("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def convolution(path, factor=1.0):
    rng = np.random.default_rng(2)
    w = (rng.normal(size=(4, 3, 3, 3)) * factor).astype(np.float32)
    save(path, [helper.make_node("Conv", ["x", "w"], ["y"], "conv")], [1, 3, 8, 8], w=w)


def images(factor=1.0):
    return (np.clip(np.random.default_rng(1).normal(size=(SAMPLES, 3, 8, 8)), -1, 1) * factor).astype(np.float32)


@pytest.mark.integers
@pytest.mark.parametrize("method", ["auto", "minmax"])
def test_all_samples_are_nan(method, qcalib, tmp_path):
    convolution(tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=np.full_like(images(), np.nan))
    done = qcalib("--data", "x.npz", "--method", method, "m.onnx", code=3)
    assert not done.new_files and "tensor 'x' has no finite value in any sample" in done.err


@pytest.mark.integers
def test_some_samples_are_nan(qcalib, tmp_path):
    """They are left out, with a warning; the error is that of the others."""
    convolution(tmp_path / "m.onnx")
    x = images()
    np.savez(tmp_path / "clean.npz", x=x)
    x[1] = np.nan
    x[7, 0] = np.inf
    np.savez(tmp_path / "x.npz", x=x)
    clean, done = (qcalib("--data", f, "--json", "-o", "q.onnx", "m.onnx") for f in ("clean.npz", "x.npz"))
    assert abs(done.json["outputs"][0]["sqnr_db"] - clean.json["outputs"][0]["sqnr_db"]) < 3
    assert done.err.count("NaN") == 1 and "values left out, first in sample 1" in done.err and "NaN" not in clean.err


def test_the_network_overflows(qcalib, tmp_path):
    convolution(tmp_path / "m.onnx", 1e30)
    save(
        tmp_path / "exp.onnx",
        [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), helper.make_node("Exp", ["c"], ["y"], "exp")],
        [1, 3, 8, 8],
        w=np.ones((4, 3, 3, 3), np.float32),
    )
    np.savez(tmp_path / "x.npz", x=images(1e20))
    assert not qcalib("--data", "x.npz", "m.onnx", code=3).new_files
    np.savez(tmp_path / "x.npz", x=np.abs(images()) * 1e6 + 1e5)
    done = qcalib("--data", "x.npz", "exp.onnx", code=3)
    assert not done.new_files and "has only NaN or infinite values" in done.err


@pytest.mark.integers
def test_one_output_of_two_is_infinite(qcalib, tmp_path):
    convolution(tmp_path / "one.onnx")
    model = onnx.load(tmp_path / "one.onnx")
    model.graph.initializer.append(numpy_helper.from_array(np.float32(0), "zero"))
    model.graph.node.append(helper.make_node("Div", ["y", "zero"], ["far"], "div"))
    model.graph.output.append(helper.make_tensor_value_info("far", TensorProto.FLOAT, None))
    onnx.save(model, tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=images())
    done = qcalib("--data", "x.npz", "m.onnx")
    assert "output 'far'" in done.err and "output      y: SQNR" in done.out and "far: equal" not in done.out


def pooled(path):
    """A convolution that changes nothing, the mean of each plane, and a convolution."""
    rng = np.random.default_rng(4)
    save(
        path,
        [
            helper.make_node("Conv", ["x", "one"], ["c"], "same"),
            helper.make_node("GlobalAveragePool", ["c"], ["p"], "gap"),
            helper.make_node("Conv", ["p", "w"], ["y"], "last"),
        ],
        [1, 3, 8, 8],
        one=np.eye(3, dtype=np.float32)[:, :, None, None],
        w=rng.normal(size=(4, 3, 1, 1)).astype(np.float32),
    )


def runs(path, x):
    session = onnxruntime.InferenceSession(str(path))
    return all(np.isfinite(session.run(None, {"x": s[None]})[0]).all() for s in x)


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("mean", [1e-1, 1e-4, 1e-6])
@pytest.mark.parametrize("more", [[], ["--skip", "gap"], ["--propagate"]], ids=["quantized", "in float", "propagated"])
def test_mean_far_below_its_values(more, mean, form, qcalib, tmp_path):
    x = images()
    x[:, :, 1::2] = -x[:, :, ::2]
    x += np.float32(mean) * np.random.default_rng(5).uniform(-1, 1, size=(SAMPLES, 3, 1, 1)).astype(np.float32)
    pooled(tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=x)
    qcalib("--data", "x.npz", "--format", form, *more, "-o", "q.onnx", "m.onnx")
    assert runs(tmp_path / "q.onnx", x)


@pytest.mark.parametrize("form", ["qdq", "qoperator"])
@pytest.mark.parametrize("factor", [1e30, 1e36, 1e37, 1e38])
def test_mean_of_planes_that_overflow(factor, form, qcalib, tmp_path):
    pooled(tmp_path / "m.onnx")
    x = np.abs(images(factor))
    np.savez(tmp_path / "x.npz", x=x)
    done = qcalib("--data", "x.npz", "--format", form, "-o", "q.onnx", "m.onnx", code=None)
    assert done.code in (0, 3, 4)
    if done.code:
        assert factor > 1e36 and not done.new_files
    else:
        assert runs(tmp_path / "q.onnx", x)
