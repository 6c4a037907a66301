# SPDX-License-Identifier: Apache-2.0
"""Operators that draw random numbers (VITS, Piper): files keep them, and every run draws the same numbers. Reference:
the first run of ONNX Runtime, whose generator the interpreter has."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

F, D, I32, I64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64
RNG = np.random.default_rng(4)


def save(path, nodes, inputs, outputs, weights=(), opset=17):
    constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(weights).items()]
    ports = [[helper.make_tensor_value_info(n, t, s) for n, t, s in p] for p in (inputs, outputs)]
    graph = helper.make_graph(nodes, "random", *ports, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def computed(qcalib, folder, model, data, *options):
    qcalib("run", model, "--data", data, *options, "-o", "out.h5")
    with h5py.File(folder / "out.h5") as file:
        return {k: v[()] for k, v in file.items()}


DRAWN = {
    "RandomNormal": ("RandomNormal", {"shape": [3, 7], "seed": 5.0, "mean": 0.5, "scale": 2.0}, F),
    "RandomNormal of doubles": ("RandomNormal", {"shape": [33], "seed": 9.0, "dtype": D}, D),
    "RandomUniform": ("RandomUniform", {"shape": [2, 9], "seed": 3.0, "low": -1.0, "high": 4.0}, F),
    "RandomUniform of seed 0": ("RandomUniform", {"shape": [5], "seed": 0.0}, F),
    "RandomNormalLike": ("RandomNormalLike", {"seed": 7.0}, F),
    "RandomUniformLike": ("RandomUniformLike", {"seed": 2.0, "high": 0.25}, F),
    "Multinomial": ("Multinomial", {"seed": 11.0, "sample_size": 40, "dtype": I64}, I64),
    "Multinomial of int32": ("Multinomial", {"seed": 1.0, "sample_size": 9}, I32),
    "Bernoulli": ("Bernoulli", {"seed": 6.0}, F),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_seed_gives_the_numbers_of_onnx_runtime(name, qcalib, tmp_path):
    op, attributes, dtype = DRAWN[name]
    reads = [] if "shape" in attributes else ["a"]
    nodes = [helper.make_node("Sigmoid", ["x"], ["a"]), helper.make_node(op, reads, ["y"], **attributes)]
    save(tmp_path / "m.onnx", nodes, [("x", F, [2, 13])], [("y", dtype, None), ("a", F, None)])
    x = RNG.normal(size=(2, 13)).astype("f")
    np.savez(tmp_path / "x.npz", x=x[None])
    expected = session(tmp_path / "m.onnx").run(["y"], {"x": x})[0]
    got = computed(qcalib, tmp_path, "m.onnx", "x.npz")["y"][0]
    assert len(np.unique(expected)) > 1
    np.testing.assert_allclose(got, expected, rtol=2e-6, atol=1e-7)


def conv(x, y, *shape):
    return helper.make_node("Conv", [x, f"w_{y}"], [y], name=y, pads=[1, 1]), (f"w_{y}", (RNG.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype("f"))


def voice(path, seed=None, body="Like"):
    """An encoder gives mean and logarithm of the deviation, noise is added, and a decoder makes sound of it (VITS)."""
    how = {} if seed is None else {"seed": seed}
    parts = [conv("x", "h", 32, 16, 3), conv("r", "m", 24, 32, 3), conv("r", "logs", 24, 32, 3), conv("z", "d", 32, 24, 3), conv("e", "sound", 1, 32, 3)]
    (h, m, logs, d, sound), weights = [p[0] for p in parts], dict(p[1] for p in parts)
    like, shape = ([], {"shape": [1, 24, 40]}) if body == "fixed" else (["m"], {})
    op = "RandomNormal" if body == "fixed" else "RandomNormalLike"
    nodes = [
        h, helper.make_node("Relu", ["h"], ["r"]), m, logs,
        helper.make_node(op, like, ["noise"], name="noise", **shape, **how),
        helper.make_node(op, like, ["other"], name="other", **shape, **how),
        helper.make_node("Exp", ["logs"], ["deviation"]), helper.make_node("Mul", ["noise", "deviation"], ["n"]),
        helper.make_node("Mul", ["n", "loudness"], ["q"]), helper.make_node("Add", ["m", "q"], ["z0"]),
        helper.make_node("Mul", ["other", "loudness"], ["o"]), helper.make_node("Add", ["z0", "o"], ["z"]),
        d, helper.make_node("LeakyRelu", ["d"], ["e"]), sound,
    ]  # fmt: skip
    weights["loudness"] = np.float32(0.667)
    save(path, nodes, [("x", F, ["N", 16, 40 if body == "fixed" else "T"])], [("sound", F, None), ("noise", F, None), ("other", F, None)], weights)


@pytest.mark.parametrize("body", ["Like", "fixed"])
@pytest.mark.parametrize("seed", [None, 3.0])
def test_a_voice_is_quantized_around_its_noise(seed, body, qcalib, tmp_path):
    voice(tmp_path / "voice.onnx", seed, body)
    x = RNG.normal(size=(24, 16, 40)).astype("f")
    np.savez(tmp_path / "x.npz", x=x)
    done = qcalib("--data", "x.npz", "--prefer", "integers", "--no-report", "voice.onnx", "-o", "q.onnx")
    assert "carried" not in done.err and "not handled" not in done.out
    graph = onnx.load(tmp_path / "q.onnx").graph
    kept = [n for n in graph.node if n.op_type.startswith("RandomNormal")]
    assert sorted(n.name for n in kept) == ["noise", "other"]
    assert all([a.f for a in n.attribute if a.name == "seed"] == ([] if seed is None else [seed]) for n in kept)
    made = {o: n.op_type for n in graph.node for o in n.output}
    convs = [n for n in graph.node if n.op_type == "Conv"]
    assert len(convs) == 5 and all(made[n.input[0]] == "DequantizeLinear" for n in convs)
    float_outputs, outputs = (computed(qcalib, tmp_path, m, "x.npz") for m in ("voice.onnx", "q.onnx"))
    for name in ("noise", "other"):
        np.testing.assert_array_equal(float_outputs[name], outputs[name])
        assert abs(outputs[name].mean()) < 0.2 and 0.8 < outputs[name].std() < 1.2
    assert (outputs["noise"] == outputs["other"]).all() == (seed is not None)  # nodes without a seed differ
    error = outputs["sound"] - float_outputs["sound"]
    assert 10 * np.log10((float_outputs["sound"] ** 2).sum() / (error**2).sum()) > 25
    compared = qcalib("compare", "voice.onnx", "q.onnx", "--data", "x.npz", "--json").json["outputs"]
    assert {o["name"]: o["equal"] for o in compared} == {"sound": False, "noise": True, "other": True}
    assert next(o for o in compared if o["name"] == "sound")["sqnr_db"] > 25
    if seed is not None:  # the first run of ONNX Runtime has the same noise
        got = session(tmp_path / "q.onnx").run(None, {"x": x[:1]})
        np.testing.assert_allclose(got[1], outputs["noise"][:1], rtol=2e-6, atol=1e-7)
        assert 10 * np.log10((float_outputs["sound"][:1] ** 2).sum() / ((got[0] - float_outputs["sound"][:1]) ** 2).sum()) > 20


def test_threads_and_runs_draw_the_same(qcalib, tmp_path):
    voice(tmp_path / "voice.onnx")
    np.savez(tmp_path / "x.npz", x=RNG.normal(size=(8, 16, 20)).astype("f"))
    first, again = (computed(qcalib, tmp_path, "voice.onnx", "x.npz", "--threads", n) for n in (1, 2))
    assert all((first[k] == again[k]).all() for k in first)
    for n in (1, 2):
        qcalib("--data", "x.npz", "--no-report", "--threads", n, "voice.onnx", "-o", f"q{n}.onnx")
    assert (tmp_path / "q1.onnx").read_bytes() == (tmp_path / "q2.onnx").read_bytes()
