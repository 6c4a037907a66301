# SPDX-License-Identifier: Apache-2.0
"""--state with states whose shape changes: caches of a decoder that grow with each step, and a first state of one number that becomes a
feature map (as in RVM). Reference: ONNX Runtime, step by step and in one pass."""

import decoder_model
import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

LENGTHS = [9, 6, 12]
STATES = [f"past_key_values.{k}.{p}=present.{k}.{p}" for k in range(decoder_model.LAYERS) for p in ("key", "value")]
OPTIONS = [a for s in STATES for a in ("--state", s)]


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def sqnr(want, got):
    return 10 * np.log10((want**2).sum() / ((want - got) ** 2).sum())


def computed(qcalib, folder, model, data, *options):
    qcalib("run", model, "--data", data, *options, "-o", "out.h5")
    with h5py.File(folder / "out.h5") as file:
        return {k: v[()] if isinstance(v, h5py.Dataset) else [v[i][()] for i in sorted(v, key=int)] for k, v in file.items()}


def decoder_data(folder, name, form, seed):
    """Sequences of tokens, one step each."""
    rng = np.random.default_rng(seed)
    sequences = [rng.integers(0, decoder_model.VOCABULARY, n) for n in LENGTHS]
    with h5py.File(folder / name, "w") as file:
        file["input_ids"] = np.concatenate(sequences)[:, None]
        file["lengths"] = np.array(LENGTHS)
        if form == "concat":
            file["position_ids"] = np.concatenate([np.arange(n) for n in LENGTHS])[:, None]
        for i, t in enumerate(t for n in LENGTHS for t in range(n)):
            file[f"attention_mask/{i}"] = np.ones(t + 1, np.int64)
    return sequences


def in_sequence(path, sequences, form):
    """The logits of all steps in ONNX Runtime."""
    run, found = session(path), []
    names = [o.name for o in run.get_outputs()]
    for tokens in sequences:
        past = None
        for t in tokens:
            past = dict(zip(names, run.run(None, decoder_model.feeds(np.array([[t]]), past, form))))
            found.append(past["logits"][0])
    return np.stack(found)


@pytest.mark.parametrize("form", ["concat", "gqa"])
def test_caches_of_a_decoder(form, qcalib, tmp_path):
    decoder_model.save(tmp_path / "m.onnx", form)
    decoder_data(tmp_path, "calib.h5", form, 1)
    sequences = decoder_data(tmp_path, "test.h5", form, 2)
    expected = in_sequence(tmp_path / "m.onnx", sequences, form)
    got = computed(qcalib, tmp_path, "m.onnx", "test.h5", *OPTIONS)
    assert sqnr(expected, got["logits"].reshape(expected.shape)) > 80
    assert [v.shape[-2] for v in got["present.0.key"]] == [t + 1 for n in LENGTHS for t in range(n)]
    qcalib("--data", "calib.h5", *OPTIONS, "--no-report", "--advice", "off", "m.onnx", "-o", "q.onnx")
    states = in_sequence(tmp_path / "q.onnx", sequences, form)
    assert sqnr(states, computed(qcalib, tmp_path, "q.onnx", "test.h5", *OPTIONS)["logits"].reshape(states.shape)) > 40
    assert sqnr(expected, states) > 20
    compared = qcalib("compare", "m.onnx", "q.onnx", "--data", "test.h5", *OPTIONS, "--json").json["outputs"]
    assert abs(next(o for o in compared if o["name"] == "logits")["sqnr_db"] - sqnr(expected, states)) < 1.5


def test_a_cache_needs_its_mask(qcalib, tmp_path):
    decoder_model.save(tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", input_ids=np.arange(12)[:, None])
    said = qcalib("run", "m.onnx", "--data", "x.npz", *OPTIONS, "-o", "y.h5", code=3).err
    assert "attention_mask" in said


def recurrent(path):
    """Features of an image, an average with the state, which may have another size, and a mask."""
    rng = np.random.default_rng(3)
    w = {"w": rng.normal(size=(6, 3, 3, 3)) / 3, "u": rng.normal(size=(6, 6, 3, 3)) / 5, "v": rng.normal(size=(1, 6, 1, 1)), "half": np.array(0.5)}
    nodes = [
        helper.make_node("Conv", ["src", "w"], ["f"], pads=[1] * 4), helper.make_node("Shape", ["f"], ["s"]), helper.make_node("Expand", ["r1i", "s"], ["e"]),
        helper.make_node("Conv", ["e", "u"], ["g"], pads=[1] * 4), helper.make_node("Add", ["f", "g"], ["a"]), helper.make_node("Tanh", ["a"], ["r1o"]),
        helper.make_node("Conv", ["r1o", "v"], ["z"]), helper.make_node("Sigmoid", ["z"], ["pha"]),
    ]  # fmt: skip
    port = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)  # noqa: E731
    graph = helper.make_graph(nodes, "g", [port("src", [1, 3, 12, 10]), port("r1i", [1, "C", "H", "W"])], [port("pha", None), port("r1o", None)],
                              [numpy_helper.from_array(v.astype("f"), k) for k, v in w.items()])  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def masks(path, frames, lengths):
    run, found, at = session(path), [], 0
    for n in lengths:
        state = np.zeros((1, 1, 1, 1), np.float32)
        for x in frames[at : at + n]:
            pha, state = run.run(["pha", "r1o"], {"src": x[None], "r1i": state})
            found.append(pha[0])
        at += n
    return np.stack(found)


def test_a_first_state_of_another_shape(qcalib, tmp_path):
    recurrent(tmp_path / "m.onnx")
    frames = {}
    for name, seed in (("calib", 1), ("test", 2)):
        rng = np.random.default_rng(seed)
        frames[name] = np.cumsum(rng.normal(size=(27, 3, 12, 10)) / 4, axis=0).astype("f")
        np.savez(tmp_path / f"{name}.npz", src=frames[name], r1i=np.zeros((1, 1, 1, 1), "f"), lengths=np.array(LENGTHS))
    expected = masks(tmp_path / "m.onnx", frames["test"], LENGTHS)
    got = computed(qcalib, tmp_path, "m.onnx", "test.npz", "--state", "r1i=r1o")["pha"]
    np.testing.assert_allclose(np.reshape(got, expected.shape), expected, rtol=1e-4, atol=1e-5)
    qcalib("--data", "calib.npz", "--state", "r1i=r1o", "--prefer", "integers", "--no-report", "--advice", "off", "m.onnx", "-o", "q.onnx")
    states = masks(tmp_path / "q.onnx", frames["test"], LENGTHS)
    assert sqnr(expected, states) > 25
    compared = qcalib("compare", "m.onnx", "q.onnx", "--data", "test.npz", "--state", "r1i=r1o", "--json").json["outputs"]
    assert abs(next(o for o in compared if o["name"] == "pha")["sqnr_db"] - sqnr(expected, states)) < 0.5
