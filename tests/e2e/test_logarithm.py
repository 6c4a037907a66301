# SPDX-License-Identifier: Apache-2.0
"""Networks on sound: what feeds a logarithm or a root spans many powers of ten, and is not rounded."""
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

SIZE, BINS, BANDS, FRAMES, OUT = 64, 33, 12, 20, 6


def sounds(count, seed):
    r = np.random.default_rng(seed)
    t = np.arange(SIZE)
    x = r.normal(size=(count, FRAMES, SIZE)) * 1e-3
    for _ in range(3):
        loud = 10 ** r.uniform(-2.5, 0, size=(count, FRAMES, 1))
        x += loud * np.sin(2 * np.pi * r.uniform(0.02, 0.4, size=(count, FRAMES, 1)) * t)
    return x.astype(np.float32)


def features(path, last):
    """Frames to bands by matrix products, a logarithm or a root, cosines of it (as MFCC), one layer."""
    r = np.random.default_rng(4)
    angle = 2 * np.pi * np.arange(SIZE)[:, None] * np.arange(BINS) / SIZE
    window = np.hanning(SIZE)[:, None]
    places = np.linspace(0, BINS - 1, BANDS)
    bands = np.maximum(0, 1 - np.abs(np.arange(BINS)[:, None] - places) / 4)
    constants = {
        "cos": np.cos(angle) * window,
        "sin": np.sin(angle) * window,
        "bands": bands,
        "least": np.array(1e-6),
        "power": np.array(0.25),
        "dct": np.cos(np.pi * (np.arange(BANDS)[:, None] + 0.5) * np.arange(10) / BANDS),
        "w": r.normal(size=(10, OUT)),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "cos"], ["re"], name="re"),
        helper.make_node("MatMul", ["x", "sin"], ["im"], name="im"),
        helper.make_node("Mul", ["re", "re"], ["re2"]),
        helper.make_node("Mul", ["im", "im"], ["im2"]),
        helper.make_node("Add", ["re2", "im2"], ["p"]),
        helper.make_node("MatMul", ["p", "bands"], ["m"], name="bands"),
        helper.make_node("Max", ["m", "least"], ["c"]),
        helper.make_node("Log", ["c"], ["l"]) if last == "Log" else helper.make_node("Pow", ["c", "power"], ["l"]),
        helper.make_node("MatMul", ["l", "dct"], ["d"], name="dct"),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("MatMul", ["e", "w"], ["y"], name="layer"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", FRAMES, SIZE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))


@pytest.mark.parametrize("last", ["Log", "Pow"])
def test_front_end_of_sound(last, qcalib, tmp_path):
    features(tmp_path / "m.onnx", last)
    np.savez(tmp_path / "x.npz", x=sounds(48, 1))
    r = qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--json", "--no-report", "--method", "mse", "--prefer", "integers").json
    held = sounds(32, 2)
    real, got = (onnxruntime.InferenceSession(tmp_path / f).run(None, {"x": held})[0] for f in ("m.onnx", "q.onnx"))
    assert 10 * np.log10((real**2).sum() / ((real - got) ** 2).sum()) > 28
    assert {"bands", "re", "im"} <= {n["name"] for n in r["float_ops"]}
    assert not {"dct", "layer"} & {n["name"] for n in r["float_ops"]}
