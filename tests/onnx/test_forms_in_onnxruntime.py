# SPDX-License-Identifier: Apache-2.0
"""Operators in the forms of old and new opsets: the model as written and the model after import and emit (in its own opset,
in 18 and in 21) give the same in ONNX Runtime, pass ONNX's checker, and load without a warning.

  QCALIB_ROUNDTRIP  the program onnx_roundtrip; build/release/tests/onnx/onnx_roundtrip when unset
  QCALIB_DATA       folder with real models, which are compared too
"""

import os
import pathlib
import subprocess

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("QCALIB_ROUNDTRIP", ROOT / "build/release/tests/onnx/onnx_roundtrip"))
MODELS = pathlib.Path(os.environ.get("QCALIB_DATA") or "/nonexistent") / "models"
IR = {
    7: 3,
    8: 3,
    9: 4,
    10: 5,
    11: 6,
    12: 7,
    13: 7,
    14: 7,
    15: 8,
    16: 8,
    17: 8,
    18: 8,
    19: 9,
    20: 9,
    21: 10,
    22: 10,
    23: 11,
    24: 12,
}
CASES = {}
RNG = np.random.default_rng(1)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def i64(*v):
    return np.array(v, np.int64)


def node(op, inputs, outputs="y", **attributes):
    names = [["" if n == "-" else n for n in s.split()] for s in (inputs, outputs)]
    return h.make_node(op, *names, **attributes)


def case(name, opset, shape, nodes, out=T.FLOAT, outputs=("y",), **constants):
    """x of this shape -> nodes -> outputs; constants are initializers (and, in IR version 3, inputs)."""
    inputs = [h.make_tensor_value_info("x", T.FLOAT, shape)]
    tensors = [nh.from_array(np.asarray(v), k) for k, v in constants.items()]
    if IR[opset] < 4:
        inputs += [h.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    graph = h.make_graph(nodes, "g", inputs, [h.make_tensor_value_info(o, out, None) for o in outputs], tensors)
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)], ir_version=IR[opset])
    assert name not in CASES
    CASES[name] = model


def make_cases():
    case("clip-7", 7, [2, 3], [node("Clip", "x", min=-0.5, max=0.7)])
    case("clip-7-open", 7, [2, 3], [node("Clip", "x", "z"), node("Relu", "z")])
    case("clip-11-rank-1", 11, [2, 3], [node("Clip", "x lo - ")], lo=np.float32(-0.25))
    case("pad-8", 8, [2, 3], [node("Pad", "x", pads=[0, 1, 2, 0], value=1.5)])
    case("pad-10", 10, [2, 3], [node("Pad", "x", pads=[0, 1, 2, 0])])
    case("pad-9-reflect", 9, [4, 3], [node("Pad", "x", pads=[0, 1, 1, 0], mode="reflect")])
    case("pad-11-value", 11, [2, 3], [node("Pad", "x p v")], p=i64(1, 0, 2, 1), v=np.float32(3))
    case("pad-18-axes", 18, [2, 3, 4], [node("Pad", "x p - a")], p=i64(1, 0, 2, 1), a=i64(-1, 0))
    case("slice-9", 9, [4, 3, 5], [node("Slice", "x", starts=[1, 0], ends=[3, -1], axes=[0, 2])])
    case("slice-9-no-axes", 9, [4, 3], [node("Slice", "x", starts=[1, 0], ends=[3, 2])])
    case("slice-10-steps", 10, [4, 3], [node("Slice", "x s e a t")], s=i64(1, 0), e=i64(4, 3), a=i64(0, 1), t=i64(1, 1))
    case("slice-13-back", 13, [4, 3], [node("Slice", "x s e a t")], s=i64(3), e=i64(-9), a=i64(0), t=i64(-2))
    case("squeeze-11", 11, [4, 1, 5], [node("Squeeze", "x", "z", axes=[1]), node("Unsqueeze", "z", axes=[0, 3])])
    case("squeeze-11-all", 11, [4, 1, 5], [node("Squeeze", "x")])
    case("split-11", 11, [2, 4], [node("Split", "x", "a b", split=[1, 3], axis=1), node("Concat", "b a", axis=1)])
    case("split-13", 13, [2, 4], [node("Split", "x", "a b", axis=1), node("Concat", "b a", axis=1)])
    case("split-13-one-used", 13, [2, 4], [node("Split", "x", "a b", axis=1), node("Relu", "b")])
    case("split-18", 18, [2, 4], [node("Split", "x", "a b", axis=1, num_outputs=2), node("Concat", "b a", axis=1)])
    case(
        "split-18-uneven",
        18,
        [2, 8],
        [node("Split", "x", "a b c", axis=1, num_outputs=3), node("Concat", "b a c", axis=1)],
    )
    for op in (
        "ReduceSum",
        "ReduceMean",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceL1",
        "ReduceL2",
        "ReduceSumSquare",
        "ReduceLogSumExp",
    ):
        case(f"{op}-11", 11, [4, 3, 5], [node(op, "x", axes=[1], keepdims=0)])
        case(f"{op}-13-all", 13, [4, 3, 5], [node(op, "x")])
        case(f"{op}-18", 18, [4, 3, 5], [node(op, "x a")], a=i64(-1))
    case("ReduceSum-13-noop", 13, [4, 3], [node("ReduceSum", "x", "z", noop_with_empty_axes=1), node("Relu", "z")])
    for op in ("Softmax", "LogSoftmax"):
        for axis in (None, 0, 1, 2, -1):
            attributes = {} if axis is None else {"axis": axis}
            for kind, shape in (("fixed", [2, 3, 5]), ("batch", ["N", 3, 5]), ("free", ["N", "M", 5])):
                for opset in (11, 13):
                    case(f"{op}-{opset}-{axis}-{kind}", opset, shape, [node(op, "x", **attributes)])
        case(f"{op}-11-pixel", 11, ["N", 7, 1, 1], [node(op, "x", axis=1)])
    image = [1, 2, 4, 4]
    case("upsample-7", 7, image, [node("Upsample", "x", scales=[1.0, 1.0, 2.0, 3.0])])
    case("upsample-8-linear", 8, image, [node("Upsample", "x", scales=[1.0, 1.0, 2.0, 2.0], mode="linear")])
    case("upsample-9", 9, image, [node("Upsample", "x s")], s=np.float32([1, 1, 1.5, 2]))
    case("resize-10", 10, image, [node("Resize", "x s")], s=np.float32([1, 1, 2.5, 2]))
    case("resize-10-down", 10, [1, 2, 8, 8], [node("Resize", "x s")], s=np.float32([1, 1, 0.6, 0.5]))
    case("resize-10-linear", 10, image, [node("Resize", "x s", mode="linear")], s=np.float32([1, 1, 2.5, 2]))
    case("resize-11", 11, image, [node("Resize", "x r s", mode="linear")], r=f32(0), s=np.float32([1, 1, 2.5, 2]))
    case(
        "resize-11-cubic",
        11,
        image,
        [node("Resize", "x r s z", mode="cubic", cubic_coeff_a=-0.5)],
        r=f32(0),
        s=f32(0),
        z=i64(1, 2, 7, 9),
    )
    case("resize-18-axes", 18, ["N", 2, 4, 4], [node("Resize", "x - s", axes=[2, 3])], s=np.float32([2, 3]))
    case("resize-18-sizes", 18, image, [node("Resize", "x - - s", axes=[3, 2], mode="linear")], s=i64(9, 7))
    case("dropout-7", 7, [2, 4], [node("Dropout", "x", "z", ratio=0.3), node("Relu", "z")])
    case(
        "dropout-13",
        13,
        [2, 4],
        [node("Relu", "x", "r"), node("Dropout", "r q t")],
        q=np.float32(0.5),
        t=np.array(False),
    )
    case("identity-chain", 13, [2, 4], [node("Relu", "x", "r"), node("Identity", "r", "s"), node("Identity", "s")])
    case("identity-of-input", 13, [2, 4], [node("Identity", "x"), node("Relu", "x", "z")], outputs=("y", "z"))
    case(
        "identity-of-constant",
        13,
        [2, 4],
        [node("Identity", "k"), node("Relu", "x", "z")],
        outputs=("y", "z"),
        k=f32(2, 2),
    )
    case("identity-of-output", 13, [2, 4], [node("Relu", "x"), node("Identity", "y", "z")], outputs=("y", "z"))
    case("gemm-7", 7, ["N", 4], [node("Gemm", "x w c")], w=f32(4, 3), c=f32(1, 3))
    case("gemm-9", 9, ["N", 4], [node("Gemm", "x w c", alpha=0.5, beta=2.0, transB=1)], w=f32(3, 4), c=f32(1, 3))
    case("gemm-9-one", 9, ["N", 4], [node("Gemm", "x w c")], w=f32(4, 3), c=f32(1))
    case("gemm-11-no-bias", 11, ["N", 4], [node("Gemm", "x w")], w=f32(4, 3))
    for opset in (7, 9, 14, 15):
        case(
            f"batchnorm-{opset}",
            opset,
            ["N", 3, 4, 4],
            [node("BatchNormalization", "x s b m v", epsilon=1e-3, momentum=0.8)],
            s=f32(3),
            b=f32(3),
            m=f32(3),
            v=abs(f32(3)),
        )
    case("shape-15", 15, ["N", 3, 4, 4], [node("Shape", "x", start=1, end=-1)], out=T.INT64)
    case("shape-15-end", 15, ["N", 3, 4, 4], [node("Shape", "x", end=2)], out=T.INT64)
    case("cast-7", 7, [2, 3], [node("Cast", "x", to=T.INT32)], out=T.INT32)
    case("castlike-15", 15, [2, 3], [node("CastLike", "x k")], out=T.INT64, k=i64(1))
    case("sum-of-one", 8, [2, 3], [node("Sum", "x", "z"), node("Max", "z")])
    case("transpose-7", 7, [2, 3, 4], [node("Transpose", "x")])
    case(
        "conv-11",
        11,
        ["N", 2, 8, 8],
        [node("Conv", "x w", kernel_shape=[3, 3], auto_pad="SAME_LOWER", strides=[2, 2])],
        w=f32(4, 2, 3, 3),
    )
    case(
        "convtranspose-11",
        11,
        ["N", 2, 5, 5],
        [node("ConvTranspose", "x w", kernel_shape=[3, 3], strides=[2, 2], output_padding=[1, 1])],
        w=f32(2, 4, 3, 3),
    )
    case("averagepool-19", 19, [1, 2, 8, 8], [node("AveragePool", "x", kernel_shape=[2, 2], dilations=[2, 2])])
    case("maxpool-8", 8, [1, 2, 8, 8], [node("MaxPool", "x", "y indices", kernel_shape=[2, 2], strides=[2, 2])])
    case("hardswish-14", 14, [2, 8], [node("HardSwish", "x")])
    sequence = dict(w=f32(2, 12, 3), r=f32(2, 12, 3), b=f32(2, 24))
    for opset in (7, 14, 22):
        case(
            f"lstm-{opset}",
            opset,
            [5, "N", 3],
            [
                node(
                    "LSTM",
                    "x w r b",
                    "- y c",
                    hidden_size=3,
                    direction="bidirectional",
                    clip=2.0,
                    activation_alpha=[0.1],
                    activations=["Sigmoid", "Tanh", "LeakyRelu", "Sigmoid", "Relu", "Tanh"],
                )
            ],
            **sequence,
        )
    case(
        "gru-7",
        7,
        [5, "N", 3],
        [node("GRU", "x w r - - h", "y", hidden_size=3, linear_before_reset=1)],
        w=f32(1, 9, 3),
        r=f32(1, 9, 3),
        h=f32(1, 2, 3),
    )
    case("layernorm-17", 17, ["N", 8], [node("LayerNormalization", "x s b")], s=f32(8), b=f32(8))
    case("gelu-20", 20, [2, 8], [node("Gelu", "x", approximate="tanh")])
    case("swish-24", 24, ["N", 8], [node("Swish", "x", alpha=1.5)])
    for kind in ("INT8", "INT16", "INT4", "UINT4"):
        case(
            f"quantize-21-{kind}",
            21,
            ["N", 8],
            [node("QuantizeLinear", "x s", "q", output_dtype=getattr(T, kind)), node("DequantizeLinear", "q s")],
            s=np.float32(0.3),
        )
    case(
        "quantize-10",
        10,
        ["N", 8],
        [node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z")],
        s=np.float32(0.1),
        z=np.uint8(7),
    )
    case(
        "quantize-13-axis",
        13,
        ["N", 3, 2],
        [node("QuantizeLinear", "x s z", "q", axis=-2), node("DequantizeLinear", "q s z", axis=1)],
        s=np.float32([0.1, 0.2, 0.3]),
        z=np.int8([0, 1, -5]),
    )
    case("nodes-out-of-order", 13, ["N", 8], [node("Relu", "a"), node("Sigmoid", "x", "a")])
    case(
        "constants-12",
        12,
        ["N", 3],
        [
            node("Constant", "", "k", value_floats=[1.0, 2.0, 3.0]),
            node("Constant", "", "j", value_float=2.0),
            node("Mul", "k j", "p"),
            node("Add", "x p"),
        ],
    )
    case(
        "constantofshape-12",
        12,
        ["N", 3],
        [
            node("Shape", "x", "s"),
            node("ConstantOfShape", "s", "k", value=nh.from_array(np.float32([2]))),
            node("Add", "x k"),
        ],
    )


make_cases()


def run(model, feeds, capfd=None):
    options = ort.SessionOptions()
    options.log_severity_level = 2 if capfd else 3
    session = ort.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    if capfd:
        said = capfd.readouterr().err
        assert not said, said
    if feeds is None:
        feeds = {}
        for i in session.get_inputs():
            shape = [d if isinstance(d, int) else 2 for d in i.shape]
            whole = RNG.integers(0, 5, shape)
            feeds[i.name] = whole if "int64" in i.type else (RNG.standard_normal(shape) * 3).astype(np.float32)
    return session.run(None, feeds), feeds


def compare(original, tmp_path, capfd, opset):
    again = tmp_path / "again.onnx"
    done = subprocess.run(
        [PROGRAM, original, again, *([str(opset)] if opset else [])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    onnx.checker.check_model(onnx.load(again), full_check=True)
    want, feeds = run(original, None)
    got, _ = run(again, feeds, capfd)
    assert len(want) == len(got)
    for a, b in zip(want, got):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("opset", [0, 18, 21])
@pytest.mark.parametrize("name", CASES)
def test_form(name, opset, tmp_path, capfd):
    if opset and opset < CASES[name].opset_import[0].version:
        pytest.skip("the model's own opset is newer")
    original = tmp_path / "original.onnx"
    onnx.save(CASES[name], original)
    if name.startswith("swish"):
        pytest.importorskip("onnxruntime", minversion="1.23")
    compare(original, tmp_path, capfd, opset)


@pytest.mark.parametrize("opset", [0, 18, 21])
@pytest.mark.parametrize(
    "model", sorted(MODELS.glob("*.onnx")) + [ROOT / "datasets/digits_cnn.onnx"], ids=lambda p: p.stem
)
def test_model(model, opset, tmp_path, capfd):
    if opset == 21 and model.stem.endswith("_qdq"):
        # ONNX Runtime 1.31 turns int8 into uint8 zero points but leaves an output_dtype behind that it set itself; the original
        # model fails in the same way once its opset says 21.
        pytest.skip("ONNX Runtime's own optimizer breaks int8 QDQ models of opset 21")
    compare(model, tmp_path, capfd, opset)
