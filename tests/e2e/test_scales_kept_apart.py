# SPDX-License-Identifier: Apache-2.0
"""Float values stay float in ONNX Runtime, and the parts of a detector's output keep their own scales."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from measured_models import session, sqnr

from quantized_graph import QuantizedGraph
from test_quantize_odd import B, B2, IMAGE, W, W2, Odd, build, conv, feeds_of, ints, node, normal


def unoptimized(path):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def skipping():
    """Layers between integers, with channels of very different sizes: one scale for their weights would show."""
    spread = np.exp(np.random.default_rng(3).normal(size=8)).astype(np.float32)
    wide = W2 * spread[:, None, None, None]
    yield "Conv", Odd(
        [conv("x", "a"), conv("a", "c", "w2", "b2"), conv("c", "y", "w3", "b2")],
        {"w": W, "b": B, "w2": wide, "b2": B2, "w3": W2},
        IMAGE,
        ("y",),
    ), "conv_1"
    yield "Conv and Relu", Odd(
        [conv("x", "a"), conv("a", "c", "w2", "b2"), node("Relu", ["c"], "r"), conv("r", "y", "w3", "b2")],
        {"w": W, "b": B, "w2": wide, "b2": B2, "w3": W2},
        IMAGE,
        ("y",),
    ), "conv_1"
    yield "ConvTranspose", Odd(
        [conv("x", "a"), node("ConvTranspose", ["a", "t", "b2"], "u", group=2), conv("u", "y", "w2", "b2")],
        {"w": W, "b": B, "t": normal(8, 4, 2, 2) * spread[:, None, None, None], "w2": W2, "b2": B2},
        IMAGE,
        ("y",),
    ), None
    yield "Gemm", Odd(
        [node("Gemm", ["x", "w"], "a"), node("Gemm", ["a", "w2", "b"], "c"), node("Gemm", ["c", "w3"], "y")],
        {"w": normal(16, 12), "w2": normal(12, 8) * spread, "b": B, "w3": normal(8, 5)},
        {"x": (16,)},
        ("y",),
    ), "gemm_1"


SKIPPING = {n: (odd, name) for n, odd, name in skipping()}


@pytest.mark.parametrize("form", ("qdq", "qoperator"))
@pytest.mark.parametrize("name", SKIPPING)
def test_float_weights_are_not_rounded_by_the_runtime(name, form, qcalib, tmp_path):
    """ONNX Runtime rounds float weights between DequantizeLinear and QuantizeLinear by itself; the file keeps it from that."""
    odd, skipped = SKIPPING[name]
    feeds = feeds_of(odd)
    onnx.save(build(odd), str(tmp_path / "odd.onnx"))
    with h5py.File(tmp_path / "odd.h5", "w") as f:
        f["x"] = feeds["x"]
    qcalib(
        "--data",
        "odd.h5",
        "odd.onnx",
        "--format",
        form,
        "-o",
        "q.onnx",
        "--no-report",
        *(("--skip", skipped) if skipped else ()),
    )
    plain, fast = (s.run(None, feeds) for s in (unoptimized(tmp_path / "q.onnx"), session(tmp_path / "q.onnx")))
    assert sqnr(plain, fast)[0] > 60
    qcalib("run", "q.onnx", "--data", "odd.h5", "-o", "out.h5")
    with h5py.File(tmp_path / "out.h5") as f:
        assert sqnr([f["y"][...]], fast)[0] > 60


def test_conv_transpose_reads_float_weights_unless_size_counts(qcalib, tmp_path):
    odd = Odd(
        [
            conv("x", "a"),
            node("ConvTranspose", ["a", "t", "b2"], "u", strides=[2, 2]),
            node("Add", ["u", "u"], "v"),
            node("InstanceNormalization", ["v", "b2", "b2"], "y"),
        ],
        {"w": W, "b": B, "t": normal(8, 8, 2, 2), "b2": B2},
        IMAGE,
        ("y",),
    )
    onnx.save(build(odd), str(tmp_path / "odd.onnx"))
    with h5py.File(tmp_path / "odd.h5", "w") as f:
        f["x"] = feeds_of(odd)["x"]
    for prefer, reason in (
        ("speed", "faster in float: ONNX Runtime has no kernel on integers for it"),
        ("size", "ONNX Runtime computes it in float, from quantized weights; in integers with --target fused"),
    ):
        report = qcalib("--data", "odd.h5", "odd.onnx", "--json", "--no-report", "--prefer", prefer, "--weight-type", "int8:Conv").json
        g = QuantizedGraph(tmp_path / "odd.int8.onnx")
        (up,) = g.of("ConvTranspose")
        weight = g.dequantize(up.input[1])
        assert weight is None
        maker = g.maker.get(up.input[1])  # computed from constants, so that ONNX Runtime folds it
        assert (maker is None) == (prefer == "speed")
        assert maker is None or (maker.op_type == "Mul" and g.value(maker.input[1]).shape == (1, 8, 1, 1))
        reasons = {f["op"]: f["reason"] for f in report["float_ops"]}
        assert set(reasons) == {"Add", "ConvTranspose", "InstanceNormalization"}, reasons
        assert reasons["ConvTranspose"] == reason
    assert "slower in ONNX Runtime" in reasons["InstanceNormalization"]


def detector():
    """Boxes of some hundred pixels and scores of at most one, side by side, of two scales of the image."""
    head = lambda i, x: [
        conv(x, f"box{i}", "wb", "bb", pads=[0, 0, 0, 0]),
        conv(x, f"logit{i}", "ws", "bs", pads=[0, 0, 0, 0]),
        node("Sigmoid", [f"logit{i}"], f"score{i}"),
        node("Concat", [f"box{i}", f"score{i}"], f"both{i}", axis=1),
        node("Reshape", [f"both{i}", "rows"], f"rows{i}"),
    ]
    return Odd(
        [
            conv("x", "a"),
            node("Relu", ["a"], "r"),
            node("MaxPool", ["r"], "m", kernel_shape=[2, 2], strides=[2, 2]),
            *head(0, "r"),
            *head(1, "m"),
            node("Concat", ["rows0", "rows1"], "all", axis=2),
            node("Transpose", ["all"], "y", perm=[0, 2, 1]),
        ],
        {
            "w": W,
            "b": B,
            "wb": 200 * normal(4, 8, 1, 1),
            "bb": np.full(4, 100, np.float32),
            "ws": normal(2, 8, 1, 1),
            "bs": normal(2),
            "rows": ints(0, 6, -1),
        },
        IMAGE,
        ("y",),
        decibels=30,
    )


def parts_of(path, feeds):
    (y,) = session(path).run(None, feeds)
    return [y[..., :4], y[..., 4:]]


@pytest.mark.parametrize("statistics", (False, True), ids=["data", "statistics"])
def test_scores_do_not_share_the_scale_of_boxes(statistics, qcalib, tmp_path):
    odd = detector()
    feeds = feeds_of(odd)
    onnx.save(build(odd), str(tmp_path / "odd.onnx"))
    with h5py.File(tmp_path / "odd.h5", "w") as f:
        f["x"] = feeds["x"]
    if statistics:
        qcalib("collect", "odd.onnx", "--data", "odd.h5", "-o", "odd.stats.h5")
    source = ("--stats", "odd.stats.h5") if statistics else ("--data", "odd.h5")
    report = qcalib(*source, "odd.onnx", "--json", "--no-report", "--prefer", "integers").json
    found = sqnr(parts_of(tmp_path / "odd.onnx", feeds), parts_of(tmp_path / "odd.int8.onnx", feeds))
    assert min(found) > 25, found
    reasons = {f["reason"] for f in report["float_ops"] if f["op"] == "Concat"}
    assert "joins results for an output, each with a scale of its own" in reasons, report["float_ops"]
    # Who asks for integers gets them, at that price; with data, wider types make up for it.
    integer = qcalib(*source, "odd.onnx", "--json", "--no-report", "--require-integer", "-o", "integer.onnx").json
    assert integer["float_ops"] == []
    found = sqnr(parts_of(tmp_path / "odd.onnx", feeds), parts_of(tmp_path / "integer.onnx", feeds))
    assert found[1] < 15 if statistics else found[1] > 25 and integer["fallback"]["steps"]


TAILS = {  # from both [N, 6, 12, 12]: boxes, then logits
    "plain": [node("Identity", ["both"], "y")],
    "transpose": [node("Transpose", ["both"], "y", perm=[0, 2, 3, 1])],
    "reshape": [node("Reshape", ["both", "rows"], "r"), node("Transpose", ["r"], "y", perm=[0, 2, 1])],
    "slice": [node("Slice", ["both", "one", "ten", "two"], "y")],
    "mul": [node("Mul", ["both", "factor"], "y")],
    "flatten": [node("Reshape", ["both", "rows"], "r"), node("Flatten", ["r"], "y")],
    "scales": [
        node("Reshape", ["both", "rows"], "r"),
        conv("x", "more_box", "wb", "bb", pads=[0, 0, 0, 0], strides=[2, 2]),
        conv("x", "more_logit", "ws", "bs", pads=[0, 0, 0, 0], strides=[2, 2]),
        node("Concat", ["more_box", "more_logit"], "more", axis=1),
        node("Reshape", ["more", "rows"], "more_r"),
        node("Concat", ["r", "more_r"], "all", axis=2),
        node("Transpose", ["all"], "y", perm=[0, 2, 1]),
    ],
}


def raw_detector(tail):
    """Boxes in pixels and logits, which a Sigmoid outside of the model reads."""
    return Odd(
        [
            conv("x", "box", "wb", "bb", pads=[0, 0, 0, 0]),
            conv("x", "logit", "ws", "bs", pads=[0, 0, 0, 0]),
            node("Concat", ["box", "logit"], "both", axis=1),
            *TAILS[tail],
        ],
        {
            "wb": 50 * normal(4, 4, 1, 1),
            "bb": np.full(4, 150, np.float32),
            "ws": normal(2, 4, 1, 1),
            "bs": np.full(2, -3, np.float32),
            "rows": ints(0, 6, -1),
            "one": ints(1),
            "ten": ints(11),
            "two": ints(2),
            "factor": np.array(2, np.float32),
        },
        IMAGE,
        ("y",),
    )


def boxes_and_logits(y):
    axis = 1 if y.ndim == 4 and y.shape[1] == 6 else y.ndim - 1
    if y.ndim == 2:
        y, axis = y.reshape(len(y), 6, -1), 1
    return np.split(y, [4], axis=axis)


@pytest.mark.parametrize("target", ("ort", "integers", "qnn", "vitis", "tflite", "openvino"))
@pytest.mark.parametrize("tail", TAILS)
def test_logits_do_not_share_the_scale_of_boxes(tail, target, qcalib, tmp_path):
    odd = raw_detector(tail)
    feeds = feeds_of(odd)
    onnx.save(build(odd), str(tmp_path / "odd.onnx"))
    with h5py.File(tmp_path / "odd.h5", "w") as f:
        f["x"] = feeds["x"]
    report = qcalib("--data", "odd.h5", "odd.onnx", "--json", "--no-report", "--target", target, "--prefer", "integers").json
    parts = [boxes_and_logits(session(tmp_path / f).run(None, feeds)[0]) for f in ("odd.onnx", "odd.int8.onnx")]
    assert min(sqnr(*parts)) > 28, sqnr(*parts)
    assert "Conv" not in {f["op"] for f in report["float_ops"]}


@pytest.mark.integers
def test_one_source_needs_no_scales_of_its_own(qcalib, tmp_path):
    """Parts of one result, in another order, have one scale, and the Concat stays an integer operator."""
    odd = Odd(
        [
            conv("x", "a", "w", "b"),
            node("Split", ["a"], ["p", "q"], axis=1),
            node("Concat", ["q", "p"], "y", axis=1),
        ],
        {"w": W, "b": B},
        IMAGE,
        ("y",),
    )
    onnx.save(build(odd), str(tmp_path / "odd.onnx"))
    with h5py.File(tmp_path / "odd.h5", "w") as f:
        f["x"] = feeds_of(odd)["x"]
    assert qcalib("--data", "odd.h5", "odd.onnx", "--json", "--no-report").json["float_ops"] == []


@pytest.mark.parametrize("way", ("apart", "shared"))
@pytest.mark.parametrize("tail", TAILS)
def test_the_measure_is_that_of_the_worst_part(tail, way, qcalib, tmp_path):
    """As ONNX Runtime's outputs have it, part by part; parts that share a scale are told."""
    odd = raw_detector(tail)
    feeds = {n: x[:12] for n, x in feeds_of(odd).items()}  # all are measured
    onnx.save(build(odd), str(tmp_path / "odd.onnx"))
    with h5py.File(tmp_path / "odd.h5", "w") as f:
        f["x"] = feeds["x"]
    options = ("--target", "integers", "--require-integer") if way == "shared" else ("--prefer", "integers")
    done = qcalib("--data", "odd.h5", "odd.onnx", "--json", "--no-report", *options)
    (out,) = done.json["outputs"]
    want, got = (boxes_and_logits(session(tmp_path / f).run(None, feeds)[0]) for f in ("odd.onnx", "odd.int8.onnx"))
    found = sqnr(want, got)
    parts = {p["name"]: p["sqnr_db"] for p in out["parts"]}
    assert out["sqnr_db"] == min(parts.values())
    assert min(v for n, v in parts.items() if "box" in n) == pytest.approx(found[0], abs=1)
    assert min(v for n, v in parts.items() if "logit" in n) == pytest.approx(found[1], abs=1)
    text = "output 'y': its parts share a scale: '"
    assert (text in done.err) == (way == "shared")
    assert way == "apart" or "without --require-integer each has its own" in done.err
    summary = qcalib("--data", "odd.h5", "odd.onnx", "--no-report", *options).out
    assert f"output      y: SQNR {out['sqnr_db']:.2f} dB over 12 samples, of its worst part, " in summary


def test_boxes_do_not_hide_logits_from_a_demand(qcalib, tmp_path):
    """Both parts share a scale: 45 dB of all elements together, but not of the logits."""
    odd = raw_detector("transpose")
    onnx.save(build(odd), str(tmp_path / "odd.onnx"))
    with h5py.File(tmp_path / "odd.h5", "w") as f:
        f["x"] = feeds_of(odd)["x"]
    arguments = ("--data", "odd.h5", "odd.onnx", "--json", "--no-report", "--target", "integers", "--require-integer")
    plain = qcalib(*arguments).json["outputs"][0]["sqnr_db"]
    demanded = qcalib(*arguments, "--min-sqnr", str(plain + 10)).json
    assert plain < 30 and demanded["outputs"][0]["sqnr_db"] > plain + 8 and demanded["fallback"]["steps"]


@pytest.mark.integers
def test_sensitivity_is_of_the_parts(qcalib, tmp_path):
    """The head of logits costs as much as that of boxes, although boxes have nearly all of the signal."""
    odd = raw_detector("plain")
    onnx.save(build(odd), str(tmp_path / "odd.onnx"))
    with h5py.File(tmp_path / "odd.h5", "w") as f:
        f["x"] = feeds_of(odd)["x"]
    report = qcalib("--data", "odd.h5", "odd.onnx", "--json", "--no-report", "--sensitivity").json
    ranks = {r["node"]: r["sqnr_db"] for r in report["sensitivity"]}
    assert abs(ranks["conv_0"] - ranks["conv_1"]) < 12, ranks
