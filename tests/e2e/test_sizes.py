# SPDX-License-Identifier: Apache-2.0
"""Samples of different sizes: images for a fully convolutional network, sentences for one with attention. The reference
is ONNX Runtime, sample by sample, bit for bit."""

import json

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxruntime

IMAGES = [(5 + i % 3, 6 + i % 4) for i in range(12)]
LENGTHS = [3 + i % 5 for i in range(15)]
WORDS, CLASSES = 30, 5


def tensor(rng, name, *shape):
    return numpy_helper.from_array((rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32), name)


def save(path, nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        [helper.make_node(op, i, [o], name=o + "_node", **a) for op, i, o, a in nodes], "g", inputs, outputs, constants
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def convolutions(path):
    rng = np.random.default_rng(1)
    pad = {"pads": [1] * 4}
    save(
        path,
        [
            ("Conv", ["x", "w1", "b1"], "c1", pad),
            ("Relu", ["c1"], "r1", {}),
            ("Conv", ["r1", "w2"], "c2", pad),
            ("Add", ["c2", "r1"], "a", {}),
            ("Relu", ["a"], "r2", {}),
            ("Conv", ["r2", "w3"], "y", {}),
        ],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, "H", "W"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES, "H", "W"])],
        [
            tensor(rng, "w1", 8, 3, 3, 3),
            tensor(rng, "b1", 8),
            tensor(rng, "w2", 8, 8, 3, 3),
            tensor(rng, "w3", CLASSES, 8, 1, 1),
        ],
    )


def attention(path):
    """Classes of a sentence, and of each of its words."""
    rng, e = np.random.default_rng(2), 8
    save(
        path,
        [
            ("Gather", ["words", "x"], "e", {}),
            ("MatMul", ["e", "wq"], "q", {}),
            ("MatMul", ["e", "wk"], "k", {}),
            ("MatMul", ["e", "wv"], "v", {}),
            ("Transpose", ["k"], "kt", {"perm": [0, 2, 1]}),
            ("MatMul", ["q", "kt"], "s", {}),
            ("Softmax", ["s"], "p", {"axis": -1}),
            ("MatMul", ["p", "v"], "o", {}),
            ("Add", ["o", "e"], "r", {}),
            ("MatMul", ["r", "wt"], "tags", {}),
            ("ReduceMean", ["r"], "m", {"axes": [1], "keepdims": 0}),
            ("Gemm", ["m", "wc"], "logits", {}),
        ],
        [helper.make_tensor_value_info("x", TensorProto.INT64, ["N", "L"])],
        [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", CLASSES]),
            helper.make_tensor_value_info("tags", TensorProto.FLOAT, ["N", "L", CLASSES + 2]),
        ],
        [tensor(rng, "words", WORDS, e)]
        + [tensor(rng, n, e, e) for n in ("wq", "wk", "wv")]
        + [tensor(rng, "wc", e, CLASSES), tensor(rng, "wt", e, CLASSES + 2)],
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The models and their samples in all forms that are read."""
    at = tmp_path_factory.mktemp("sizes")
    convolutions(at / "images.onnx")
    attention(at / "text.onnx")
    rng = np.random.default_rng(3)
    images = [rng.standard_normal((3, *s)).astype(np.float32) for s in IMAGES]
    texts = [rng.integers(0, WORDS, n) for n in LENGTHS]
    tags = [rng.integers(0, CLASSES + 2, n) for n in LENGTHS]
    (at / "folder/labels").mkdir(parents=True)
    with h5py.File(at / "images.h5", "w") as f, h5py.File(at / "batch1.h5", "w") as g:
        for i, x in enumerate(images):
            f[f"x/{i}"] = x
            g.create_dataset(f"x/photo {i}", data=x[None], chunks=True, compression="gzip", shuffle=True)
    with h5py.File(at / "text.h5", "w") as f, h5py.File(at / "tags.h5", "w") as g:
        rows = f.create_dataset("x", (len(texts),), dtype=h5py.vlen_dtype(np.uint16))
        f["labels"] = np.arange(len(texts)) % CLASSES
        more = g.create_dataset("labels", (len(texts),), dtype=h5py.vlen_dtype(np.int64))
        for i, (x, t) in enumerate(zip(texts, tags)):
            rows[i] = x
            g[f"x/{i:02}"] = x.astype(np.int32)
            more[i] = t
            np.save(at / f"folder/{i:02}.npy", x)
            np.save(at / f"folder/labels/{i:02}.npy", t)
    return at, images, texts, tags


def runtime(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def test_images_run_and_quantize_as_in_onnxruntime(qcalib, made, tmp_path):
    at, images, _, _ = made
    said = qcalib(at / "images.onnx", "--data", at / "images.h5", "-o", "q.onnx", "--report", "r", "-v").out
    assert f"{len(images)} of {len(images)} samples" in said
    session = runtime(tmp_path / "q.onnx")
    shape = qcalib("run", "q.onnx", "--data", at / "images.h5", "-o", "y.h5", "--json").json["outputs"][0]["shape"]
    assert shape == [len(images), 1, CLASSES, None, None]
    with h5py.File(tmp_path / "y.h5") as f:
        assert len(f["y"]) == len(images)
        for i, x in enumerate(images):
            np.testing.assert_array_equal(f[f"y/{i}"][()], session.run(None, {"x": x[None]})[0])
    for name, options in (("threads", ("--threads", 1)), ("batch1", ())):  # and the other form of the data
        data = at / ("images.h5" if options else "batch1.h5")
        qcalib(at / "images.onnx", "--data", data, "-o", f"{name}.onnx", "--advice", "off", *options)
        assert (tmp_path / f"{name}.onnx").read_bytes() == (tmp_path / "q.onnx").read_bytes()
    qcalib("run", "q.onnx", "--data", at / "images.h5", "-o", "one.h5", "--threads", 1)
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "y.h5").read_bytes()
    qcalib("run", "q.onnx", "--data", "y.h5:y", "-o", "again.h5", code=3)  # y has 5 channels
    pairs = qcalib("compare", at / "images.onnx", "q.onnx", "--data", at / "images.h5", "--json").json
    assert pairs["outputs"][0]["sqnr_db"] > 25


def test_float_text_is_that_of_onnxruntime(qcalib, made, tmp_path):
    at, _, texts, _ = made
    session = runtime(at / "text.onnx")
    qcalib("run", at / "text.onnx", "--data", at / "text.h5", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        for i, x in enumerate(texts):
            logits, tags = session.run(None, {"x": x[None]})
            np.testing.assert_allclose(f["logits"][i], logits[0], rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(f[f"tags/{i}"][()], tags, rtol=1e-5, atol=1e-6)


def test_text_is_quantized_and_scored(qcalib, made, tmp_path):
    at, _, texts, tags = made
    job = ("--data", at / "text.h5", "--eval", at / "text.h5", "--method", "kl", "--advice", "off")
    qcalib(at / "text.onnx", *job, "-o", "q.onnx", "--report", "r")
    session = runtime(tmp_path / "q.onnx")
    got = [session.run(None, {"x": x[None]}) for x in texts]
    right = [int(y[0].argmax() == i % CLASSES) for i, y in enumerate(got)]
    report = qcalib("eval", "q.onnx", "--data", at / "text.h5", "--json").json["models"][0]
    assert report["value"] == pytest.approx(np.mean(right))
    # Labels of each word, of different count; from HDF5 and from folders of .npy.
    words = np.concatenate([y[1][0].argmax(1) == t for y, t in zip(got, tags)])
    for data in (at / "tags.h5", at / "folder"):
        report = qcalib("eval", "q.onnx", "--data", data, "--json").json["models"][0]
        assert report["value"] == pytest.approx(np.mean(words)), data


def test_shards_merge_to_the_same_bytes(qcalib, made, tmp_path):
    at = made[0]
    for k in range(3):
        qcalib("collect", at / "text.onnx", "--data", at / "text.h5", "--shard", f"{k}/3", "-o", f"s{k}")
    qcalib("merge", "s0", "s1", "s2", "-o", "all")
    qcalib("collect", at / "text.onnx", "--data", at / "text.h5", "-o", "whole", "--threads", 1)
    assert (tmp_path / "all").read_bytes() == (tmp_path / "whole").read_bytes()


def test_one_size_in_a_group_gives_the_same_model(qcalib, made, tmp_path):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((10, 3, 6, 7)).astype(np.float32)
    with h5py.File(tmp_path / "rows.h5", "w") as f, h5py.File(tmp_path / "group.h5", "w") as g:
        f["x"] = x
        for i, one in enumerate(x):
            g[f"x/{i}"] = one[None]
    for name in ("rows", "group"):
        qcalib(made[0] / "images.onnx", "--data", f"{name}.h5", "-o", f"{name}.onnx", "--advice", "off")
    assert (tmp_path / "rows.onnx").read_bytes() == (tmp_path / "group.onnx").read_bytes()


@pytest.mark.integers
def test_bodies_see_all_sizes(qcalib, tmp_path):
    """A loop over sequences of different length: what its body is calibrated with has no shape in common."""
    rng = np.random.default_rng(5)
    shaped = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 6, "L"]) for n in ("c", "d", "x", "y")]
    body = helper.make_graph(
        [
            helper.make_node("Conv", ["c", "w"], ["m"], pads=[1, 1]),
            helper.make_node("Relu", ["m"], ["d"]),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            shaped[0],
        ],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), shaped[1]],
    )
    save(
        tmp_path / "m.onnx",
        [("Loop", ["trip", "", "x"], "y", {"body": body})],
        [shaped[2]],
        [shaped[3]],
        [tensor(rng, "w", 6, 6, 3), numpy_helper.from_array(np.array(3), "trip")],
    )
    xs = [rng.standard_normal((6, 3 + i % 4)).astype(np.float32) for i in range(12)]
    with h5py.File(tmp_path / "d.h5", "w") as f:
        for i, x in enumerate(xs):
            f[f"x/{i}"] = x
    done = qcalib("m.onnx", "--data", "d.h5", "-o", "q.onnx", "--no-report", "--advice", "off")
    assert "other shapes" not in done.err and "quantized   1 op" in done.out
    qcalib("run", "q.onnx", "--data", "d.h5", "-o", "y.h5")
    session = runtime(tmp_path / "q.onnx")
    with h5py.File(tmp_path / "y.h5") as f:
        for i, x in enumerate(xs):
            np.testing.assert_array_equal(f[f"y/{i}"][()], session.run(None, {"x": x[None]})[0])


def test_sensitivity_of_two_sizes_is_that_of_each_by_its_part_of_the_output(qcalib, made, tmp_path):
    """Noise adds up over samples; each size alone is an array, and ONNX Runtime says how large its output is."""
    at, images, _, _ = made
    rng, real = np.random.default_rng(4), runtime(at / "images.onnx")
    sizes = [np.stack([x for x in images if x.shape[1:] == s]) for s in sorted({x.shape[1:] for x in images})[:2]]
    outs = [real.run(None, {"x": x})[0].astype(np.float64) for x in sizes]
    both = [(x, y + rng.standard_normal(y.shape)) for xs, ys in zip(sizes, outs) for x, y in zip(xs, ys)]
    with h5py.File(tmp_path / "both.h5", "w") as f:
        for i, (x, y) in enumerate(reversed(both)):
            f[f"x/{i}"], f[f"target/{i}"] = x, y.astype(np.float32)
    for k, x in enumerate(sizes):
        with h5py.File(tmp_path / f"{k}.h5", "w") as f:
            f["x"], f["target"] = x, np.stack([y for v, y in both if v.shape == x.shape[1:]]).astype(np.float32)
    qcalib("collect", at / "images.onnx", "--data", "both.h5", "-o", "s.qcstats")
    noise = {}
    for name in ("both", "0", "1"):
        found = qcalib(
            at / "images.onnx",
            "--stats",
            "s.qcstats",
            "--eval",
            f"{name}.h5",
            "--sensitivity",
            "--advice",
            "off",
            "--json",
            "-o",
            "q.onnx",
        ).json["sensitivity"]
        noise[name] = {e["node"]: 10 ** (-e["sqnr_db"] / 10) for e in found}
        assert all(e["drop"] is not None for e in found)
    signal = [np.sum(y**2) for y in outs]
    assert len(noise["both"]) == 4
    for node, n in noise["both"].items():
        parts = (noise["0"][node] * signal[0] + noise["1"][node] * signal[1]) / sum(signal)
        assert n == pytest.approx(parts, rel=1e-4), node
    assert noise["0"] != noise["1"]


@pytest.mark.parametrize("prefer, types", [("speed", "float"), ("size", "16 bits")])
def test_demands_widen_layers(prefer, types, qcalib, made, tmp_path):
    """In the target 16 bits are slower than float."""
    at, _, _, _ = made
    demand = ("--min-sqnr", "36", "--prefer", prefer, "--advice", "off")
    said = qcalib(at / "images.onnx", "--data", at / "images.h5", *demand, "-o", "q.onnx").out
    assert f"in {types} after" in said and "nan" not in said
    done = qcalib(
        at / "text.onnx",
        "--data",
        at / "text.h5",
        "--eval",
        at / "text.h5",
        "--max-drop",
        "100",
        "--advice",
        "off",
        "--json",
        "--no-report",
        "-o",
        "t.onnx",
    ).json
    assert done["accuracy"]["samples"] == len(LENGTHS)


@pytest.mark.parametrize("option", [["--propagate"], ["--accumulator", "16"]])
def test_what_needs_one_size_says_so_at_once(qcalib, made, option):
    said = qcalib(made[0] / "images.onnx", "--data", made[0] / "images.h5", *option, code=4).err
    assert "needs samples of one size" in said and option[0] in said


def broken(kind, path):
    with h5py.File(path, "w") as f:
        g = f.create_group("x")
        for i in range(3):
            g[str(i)] = np.zeros((3, 5, 6 + i), np.float32)
        if kind == "rank":
            g["3"] = np.zeros((5, 6), np.float32)
        elif kind == "type":
            g["3"] = np.zeros((3, 5, 6), np.uint8)
        elif kind == "channels":
            g["3"] = np.zeros((4, 5, 6), np.float32)
        elif kind == "empty":
            g["3"] = np.zeros((3, 0, 6), np.float32)
        elif kind == "text":
            g["3"] = "zero"
        elif kind == "nested":
            g["3/0"] = np.zeros((3, 5, 6), np.float32)
        elif kind == "dangling":
            g["3"] = h5py.SoftLink("/nowhere")
        elif kind == "elsewhere":
            g["3"] = h5py.ExternalLink("other.h5", "/x")
        elif kind == "huge":
            g.create_dataset("3", (3, 1 << 20, 1 << 20), np.float32, chunks=(1, 16, 16))
        elif kind == "labels":
            f["labels"] = np.zeros(2, np.int64)
        elif kind == "sequences":
            f.create_dataset("labels", (3,), dtype=h5py.vlen_dtype(np.int64))


SAID = {
    "rank": "sample '3': it has 2 axes",
    "type": "sample '3'",
    "channels": "sample 3 does not fit",
    "empty": "sample 3 has no elements",
    "text": "sample '3'",
    "nested": "not a data set",
    "dangling": "broken link",
    "elsewhere": "other.h5",
    "huge": "were never written, the first with sample 3",
    "labels": "one label for each of 3",
    "sequences": "expected one label",
}


@pytest.mark.bad_input
@pytest.mark.parametrize("kind", SAID)
def test_broken_groups_are_named(qcalib, made, tmp_path, kind):
    broken(kind, tmp_path / "d.h5")
    use = (
        ["eval", made[0] / "images.onnx"]
        if kind in ("labels", "sequences")
        else ["run", made[0] / "images.onnx", "-o", "y.h5"]
    )
    result = qcalib(*use, "--data", "d.h5", code=None)
    assert result.code in (3, 4, 5) and SAID[kind] in result.err, result.err
    assert not result.new_files


@pytest.mark.bad_input
@pytest.mark.parametrize("truth", ["labels", "target"])
def test_truth_of_different_sizes_with_a_batch(qcalib, tmp_path, truth):
    save(
        tmp_path / "m.onnx",
        [("Relu", ["x"], "y", {})],
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [],
    )
    with h5py.File(tmp_path / "d.h5", "w") as f:
        f["x"] = np.zeros((4, 3), np.float32)
        for i in range(4):
            f[f"{truth}/{i}"] = np.zeros(2 + i % 2, np.int64)
    said = qcalib("eval", "m.onnx", "--data", "d.h5", code=3).err
    assert f"'{truth}'" in said and "the model takes 2 at a time" in said


@pytest.mark.bad_input
def test_links_of_a_group_lead_to_no_other_file(qcalib, made, tmp_path):
    """Not even the first, whose attributes are asked for."""
    with h5py.File(tmp_path / "other.h5", "w") as f:
        f["x"] = np.zeros((3, 5, 6), np.float32)
    with h5py.File(tmp_path / "d.h5", "w") as f:
        f["x/0"] = h5py.ExternalLink("other.h5", "/x")
        f["x/1"] = np.zeros((3, 5, 7), np.float32)
    job = ("run", made[0] / "images.onnx", "--data", "d.h5", "-o", "y.h5")
    assert "--follow-links" in qcalib(*job, code=3).err
    qcalib(*job, "--follow-links")


def test_the_memory_limit_names_the_largest_sample(qcalib, made, tmp_path):
    with h5py.File(tmp_path / "d.h5", "w") as f:
        for i, n in enumerate((8, 2000, 9)):
            f[f"x/{i}"] = np.zeros((3, 8, n * 8), np.float32)
    said = qcalib("run", made[0] / "images.onnx", "--data", "d.h5", "-o", "y.h5", "--memory-limit", "24M", code=None)
    assert said.code == 5 and "--memory-limit" in said.err, said.err


def test_a_folder_is_packed_and_run(qcalib, made, tmp_path):
    at, images, _, _ = made
    (tmp_path / "f").mkdir()
    for i, x in enumerate(images):
        np.save(tmp_path / f"f/{i:02}.npy", x)
    assert f"input float32 [{len(images)},3,?,?]" in qcalib("pack", "f", "-o", "p.h5").out
    for data, out in (("p.h5", "a.h5"), ("f", "b.h5"), (at / "images.h5", "c.h5")):
        qcalib("run", at / "images.onnx", "--data", data, "-o", out)
    assert len({(tmp_path / n).read_bytes() for n in ("a.h5", "b.h5", "c.h5")}) == 1
