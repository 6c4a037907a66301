# SPDX-License-Identifier: Apache-2.0
"""A folder of .npz files, one a sample, for models of one and of several inputs. Reference: the same samples in one
.npz."""

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(2)
SAMPLES = 12


def model(path, free=False):
    """Two inputs, an image and a list, and ten scores."""
    size = ["H", "W"] if free else [6, 5]
    weights = {"w": RNG.normal(size=(8, 3, 3, 3)), "v": RNG.normal(size=(8, 10)), "u": RNG.normal(size=(4, 10))}
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("ReduceMean", ["r"], ["m"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["m", "v"], ["a"]),
        helper.make_node("MatMul", ["list", "u"], ["b"]),
        helper.make_node("Add", ["a", "b"], ["y"]),
    ]
    port = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)  # noqa: E731
    constants = [numpy_helper.from_array(v.astype("f"), k) for k, v in weights.items()]
    graph = helper.make_graph(nodes, "g", [port("image", ["N", 3, *size]), port("list", ["N", 4])], [port("y", ["N", 10])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def sample(size=(6, 5)):
    return {"image": RNG.normal(size=(3, *size)).astype("f"), "list": RNG.normal(size=4).astype("f"), "labels": np.int64(RNG.integers(10))}


def outputs(folder, name):
    with h5py.File(folder / name) as file:
        return file["y"][()]


@pytest.mark.parametrize("form", ["samples", "batches of one", "deflated"])
def test_as_one_file(form, qcalib, tmp_path):
    model(tmp_path / "m.onnx")
    samples = [sample() for _ in range(SAMPLES)]
    np.savez(tmp_path / "all.npz", **{k: np.stack([s[k] for s in samples]) for k in samples[0]})
    (tmp_path / "set").mkdir()
    for i, s in enumerate(samples):
        s = {k: v[None] for k, v in s.items()} if form == "batches of one" else s
        (np.savez_compressed if form == "deflated" else np.savez)(tmp_path / f"set/{i:04}.npz", **s)
    for data, out in (("all.npz", "a.h5"), ("set", "b.h5")):
        qcalib("run", "m.onnx", "--data", data, "-o", out)
        qcalib("--data", data, "--no-report", "m.onnx", "-o", f"{out}.onnx")
    assert (outputs(tmp_path, "a.h5") == outputs(tmp_path, "b.h5")).all()
    assert (tmp_path / "a.h5.onnx").read_bytes() == (tmp_path / "b.h5.onnx").read_bytes()
    results = [qcalib("eval", "m.onnx", "--data", d, "--json").json["models"][0] for d in ("all.npz", "set")]
    assert results[0]["value"] == results[1]["value"] and results[1]["samples"] == SAMPLES


def test_other_names_and_sizes(qcalib, tmp_path):
    """--input names the arrays; images of different sizes."""
    model(tmp_path / "m.onnx", free=True)
    samples = [sample((4 + i % 3, 5)) for i in range(SAMPLES)]
    (tmp_path / "set/inner").mkdir(parents=True)
    for i, s in enumerate(samples):
        np.savez(tmp_path / f"set/inner/{i:04}.npz", photo=s["image"], features=s["list"])
    qcalib("run", "m.onnx", "--data", "set", "--input", "image=photo", "--input", "list=features", "-o", "y.h5")
    got = outputs(tmp_path, "y.h5")
    for i in (0, 1, 5):
        np.savez(tmp_path / "one.npz", image=samples[i]["image"][None], list=samples[i]["list"][None])
        qcalib("run", "m.onnx", "--data", "one.npz", "-o", "one.h5")
        assert (outputs(tmp_path, "one.h5")[0] == got[i]).all()
    assert "photo float32" in qcalib("inspect", "set").out.replace("  ", " ")


@pytest.mark.parametrize(
    "change,text",
    [
        (lambda s: {k: v for k, v in s.items() if k != "list"}, "it has no array 'list'"),
        (lambda s: s | {"image": s["image"][:, :4]}, "it has another type or shape than"),
        (lambda s: s | {"image": s["image"].astype("d")}, "it has another type or shape than"),
        (None, "0007.npz"),
    ],
    ids=["missing", "shape", "type", "damaged"],
)
def test_a_file_that_does_not_fit_is_named(change, text, qcalib, tmp_path):
    model(tmp_path / "m.onnx")
    (tmp_path / "set").mkdir()
    for i in range(SAMPLES):
        s = sample()
        np.savez(tmp_path / f"set/{i:04}.npz", **(change(s) if change and i == 7 else s))
    if not change:
        path = tmp_path / "set/0007.npz"
        path.write_bytes(path.read_bytes()[:200])
    said = qcalib("--data", "set", "m.onnx", code=3).err
    assert text in said and "0007.npz" in said
