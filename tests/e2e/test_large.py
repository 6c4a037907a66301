# SPDX-License-Identifier: Apache-2.0
"""Models whose weights are in files beside them: read where they lie, written beside the new model."""
import sys

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "scripts"))
import large_model  # noqa: E402


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A decoder of 5 MB, weights of 64 KiB to 1 MiB."""
    folder = tmp_path_factory.mktemp("large")
    large_model.write(folder, layers=2, width=128, inner=352, heads=4, tokens=2000, length=16, samples=4)
    return folder


def outputs(path, tokens):
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"tokens": tokens})[0]


def graph_of(path):
    """With the weights in it, wherever they were."""
    graph = onnx.load(path).graph
    for t in graph.initializer:
        t.ClearField("data_location")
    return graph


def locations(path):
    model = onnx.load(path, load_external_data=False)
    return {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}


def test_what_comes_beside_goes_beside(small, qcalib, tmp_path):
    before = (small / "large.onnx.data").read_bytes()
    done = qcalib("--data", small / "large.npy", small / "large.onnx", "-o", "q.onnx", "--json", "--method", "mse")
    assert locations(tmp_path / "q.onnx") == {"q.onnx.data"}
    files = [tmp_path / "q.onnx", tmp_path / "q.onnx.data"]
    assert done.json["files"][0]["bytes"] == sum(f.stat().st_size for f in files)
    assert done.json["model"]["bytes"] >= len(before)
    tokens = np.load(small / "large.npy")
    a, b = outputs(small / "large.onnx", tokens), outputs(tmp_path / "q.onnx", tokens)
    assert 10 * np.log10(np.square(a).sum() / np.square(a - b).sum()) > 20
    # The form does not change the numbers.
    onnx.save(onnx.load(small / "large.onnx"), tmp_path / "one.onnx")
    qcalib("--data", small / "large.npy", "one.onnx", "-o", "q1.onnx", "--no-report", "--method", "mse")
    assert locations(tmp_path / "q1.onnx") == set()
    assert graph_of(tmp_path / "q.onnx") == graph_of(tmp_path / "q1.onnx")
    qcalib("convert", "q.onnx", "-o", "c.onnx", "--format", "qoperator")
    assert locations(tmp_path / "c.onnx") == {"c.onnx.data"}
    assert (small / "large.onnx.data").read_bytes() == before


def test_weights_that_are_read_are_not_written_over(small, qcalib, tmp_path):
    """An output whose weights would come to lie where those of the input are."""
    for name in ("large.onnx.data", "large.npy"):
        (tmp_path / name).write_bytes((small / name).read_bytes())
    (tmp_path / "other.onnx").write_bytes((small / "large.onnx").read_bytes())
    before = (tmp_path / "large.onnx.data").read_bytes()
    done = qcalib("--data", "large.npy", "other.onnx", "-o", "large.onnx", code=2)
    assert "large.onnx.data" in done.err and done.new_files == []
    assert (tmp_path / "large.onnx.data").read_bytes() == before
