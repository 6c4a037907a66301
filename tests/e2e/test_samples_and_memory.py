# SPDX-License-Identifier: Apache-2.0
"""Peak memory does not grow with the samples, except for a key of each and the table of what --propagate keeps in a
temporary file."""

import h5py
import numpy as np
import onnx
import pytest
from conftest import SANITIZED
from onnx import TensorProto, helper, numpy_helper
from test_budget import SANITIZED_SECONDS, measured  # noqa: F401

FEW, MANY, WIDTH = 1_000, 50_000, 256
SAMPLE = {  # bytes of a sample beside the first 1,000, and MiB that do not depend on the number
    "default": (("quantize", "-o", "q.onnx", "--no-report"), 100, 2),
    "propagate": (("quantize", "-o", "q.onnx", "--no-report", "--propagate"), 500, 14),
    "minmax": (("quantize", "-o", "q.onnx", "--no-report", "--method", "minmax", "--weight-rounding", "nearest", "--bias-correction", "off"), 50, 2),
    "run": (("run", "-o", "o.h5"), 20, 2),
    "collect": (("collect", "-o", "s.h5"), 250, 2),
}


@pytest.fixture
def network(tmp_path):
    """Three layers, and images of integers."""
    rng = np.random.default_rng(0)
    weights = {f"w{i}": (rng.normal(size=s) / 16).astype(np.float32) for i, s in enumerate([(WIDTH, 16), (16, 16), (16, 10)])}
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], "one"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w1"], ["c"], "two"),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "w2"], ["y"], "three"),
    ]
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["n", WIDTH])],
        [value("y", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    for count in (FEW, MANY):
        with h5py.File(tmp_path / f"x{count}.h5", "w") as file:
            file.create_dataset("x", data=rng.integers(0, 256, (count, WIDTH), np.uint8), chunks=(64, WIDTH))
    return tmp_path


@pytest.mark.skipif(SANITIZED, reason="sanitizers keep freed memory")
@pytest.mark.parametrize("kind", SAMPLE)
def test_peak_memory_does_not_grow_with_the_samples(kind, network, measured):  # noqa: F811
    arguments, each, fixed = SAMPLE[kind]
    command, *more = arguments
    if command == "quantize":
        more.append("--advice=off")
    used = []
    for count in (FEW, MANY):
        code, text, mib = measured(command, "m.onnx", "--data", f"x{count}.h5", "--threads", "1", *more, seconds_most=SANITIZED_SECONDS)
        assert code == 0, text
        used.append(mib)
    assert used[1] - used[0] < fixed + each * (MANY - FEW) / 2**20, f"{used[0]:.1f} MiB, then {used[1]:.1f} MiB"
