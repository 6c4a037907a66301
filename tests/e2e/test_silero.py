# SPDX-License-Identifier: Apache-2.0
"""Silero VAD from its Python package: If, LSTM, several opsets, float16, and a state that is fed back."""
import importlib.util
import pathlib

import h5py
import numpy as np
import onnx
import pytest
from onnx import numpy_helper

ort = pytest.importorskip("onnxruntime")
PACKAGE = importlib.util.find_spec("silero_vad")
RATE, PIECE, PIECES = 16000, 576, 48
pytestmark = pytest.mark.skipif(PACKAGE is None, reason="the package silero-vad is not installed: scripts/test does that")


def sound():
    """A voice that rises and falls, with pauses, and some noise: [PIECES, 1, PIECE]."""
    t = np.arange(PIECES * PIECE) / RATE
    phase = 2 * np.pi * np.cumsum(120 + 40 * np.sin(2 * np.pi * 1.5 * t)) / RATE
    voice = sum(np.sin(k * phase) / k for k in range(1, 12)) * (np.sin(4 * np.pi * t) > -0.2)
    noise = np.random.default_rng(1).standard_normal(len(t))
    return (0.1 * voice + 0.003 * noise).astype(np.float32).reshape(PIECES, 1, PIECE)


def session(path):
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize(
    "name, least",
    [("silero_vad", 30), ("silero_vad_16k_op15", 30), ("silero_vad_op18_ifless", 25), ("silero_vad_half", 30)],
)
def test_whole_job(name, least, qcalib, tmp_path):
    """Each step from the state of the float network; as ONNX Runtime runs the exported file."""
    model = next(iter(map(pathlib.Path, PACKAGE.submodule_search_locations))) / f"data/{name}.onnx"
    if not model.exists():
        pytest.skip(f"this silero-vad has no {model.name}")
    source, state, steps = session(model), np.zeros((2, 1, 128), np.float32), []
    with_rate = any(i.name == "sr" for i in source.get_inputs())
    for piece in sound():
        feed = {"input": piece, "state": state, **({"sr": np.array(RATE, np.int64)} if with_rate else {})}
        steps.append((feed, source.run(None, feed)))
        state = steps[-1][1][1]
    with h5py.File(tmp_path / "d.h5", "w") as f:
        for key in steps[0][0]:
            f[key] = np.stack([feed[key] for feed, _ in steps])
    done = qcalib("--data", "d.h5", model, "-o", "q.onnx", "--no-report", "--json")
    assert any(op["op"] == "LSTM" or op["op"] == "If" for op in done.json["float_ops"]) or name.endswith("ifless")
    made, signal, noise = session(tmp_path / "q.onnx"), 0, 0
    for feed, wanted in steps:
        for a, b in zip(wanted, made.run(None, feed)):
            signal += np.square(a, dtype=np.float64).sum()
            noise += np.square(a.astype(np.float64) - b).sum()
    assert 10 * np.log10(signal / noise) > least


@pytest.mark.parametrize("name", ["silero_vad_16k_op15", "silero_vad_op18_ifless"])
def test_state_fed_back(name, qcalib, tmp_path):
    """The ranges are those of states that ONNX Runtime has recorded; compare gives the error of ONNX Runtime's sequence."""
    model = next(iter(map(pathlib.Path, PACKAGE.submodule_search_locations))) / f"data/{name}.onnx"
    if not model.exists():
        pytest.skip(f"this silero-vad has no {model.name}")
    rate = {"sr": np.array(RATE, np.int64)} if any(i.name == "sr" for i in session(model).get_inputs()) else {}

    def sequence(path):
        run, state, outputs, states = session(path), np.zeros((2, 1, 128), np.float32), [], []
        for piece in sound():
            states.append(state)
            y, state = run.run(None, {"input": piece, "state": state, **rate})
            outputs.append(y)
        return np.stack(outputs).astype(np.float64), np.stack(states)

    wanted, states = sequence(model)
    arrays = {"input": sound(), **{k: np.full(PIECES, v) for k, v in rate.items()}}
    for file, more in (("x.h5", {}), ("all.h5", {"state": states})):
        with h5py.File(tmp_path / file, "w") as f:
            for key, value in {**arrays, **more}.items():
                f[key] = value
    feed = f"--state=state={session(model).get_outputs()[1].name}"
    # Nothing is chosen by trials, whose samples depend on the last bits of the states.
    plain = ("--no-report", "--method=mse", "--weight-method=minmax", "--weight-rounding=nearest", "--bias-correction=off",
             "--equalize=off", "--scale-channels=off")
    qcalib("--data", "x.h5", feed, model, "-o", "fed.onnx", *plain)
    qcalib("--data", "all.h5", model, "-o", "all.onnx", *plain)
    sqnr = lambda got: 10 * np.log10(np.square(wanted).sum() / np.square(wanted - got).sum())
    fed, recorded = (sqnr(sequence(tmp_path / f)[0]) for f in ("fed.onnx", "all.onnx"))
    assert fed > recorded - 3 and fed > 12, (fed, recorded)  # small differences grow in sequence
    ours, theirs = ({i.name: numpy_helper.to_array(i) for i in onnx.load(tmp_path / f).graph.initializer} for f in ("fed.onnx", "all.onnx"))
    assert ours.keys() == theirs.keys()
    for key in ours:
        if key.endswith("_scale"):
            np.testing.assert_allclose(ours[key], theirs[key], rtol=1e-3)
    (output, _) = qcalib("compare", model, "fed.onnx", "--data", "x.h5", feed, "--json").json["outputs"]
    assert output["sqnr_db"] == pytest.approx(fed, abs=1)
    refused = qcalib("--data", "x.h5", model, "--no-report", code=3)
    assert f"give {feed.replace('--state=', '--state ')}" in refused.err
