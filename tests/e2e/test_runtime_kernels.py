# SPDX-License-Identifier: Apache-2.0
"""Quantized models in ONNX Runtime's CPU provider: no operator dequantizes weights in every run, and every rounded
value is computed or read by an integer kernel."""

import collections

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from real_models import CASES
from runtime_kernels import Optimized
from test_convert import quantize

ON_INTEGERS = {"MatMulIntegerToFloat", "QGemm", "QLinearMatMul"}


def check(path):
    graph = Optimized(path)
    assert graph.weights() == []
    assert graph.rounded() == []
    return graph


def save(path, nodes, tensors, inputs, outputs, opset=17):
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        nodes,
        "g",
        [value(n, s) for n, s in inputs.items()],
        [value(n, s) for n, s in outputs.items()],
        [numpy_helper.from_array(np.asarray(t), n) for n, t in tensors.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), str(path))


def samples(path, shape, count=24):
    x = np.random.default_rng(7).normal(size=(count, *shape)).astype(np.float32)
    with h5py.File(path, "w") as f:
        f["x"] = x
    return x


# {name: (dimensions of x, of the bias of each of three products; None: it has none)}
PRODUCTS = {
    "of its own": ([1, 12, 48], [(48,), (48,), (48,)]),
    "of one sentence": ([1, 12, 48], [(1, 48), (1, 1, 48), (48,)]),
    "none": ([1, 12, 48], [None, None, None]),
    "of heads": ([1, 3, 12, 48], [(48,), (48,), None]),
    "of free shapes": (["N", 12, 48], [(48,), (48,), None]),
    "of a word": ([1, 48], [(48,), None, (48,)]),
}


def products(path, shape, biases, zero=False):
    """x + sum of sin(x w + b), three times, and one more product that is stored in between."""
    rng = np.random.default_rng(5)
    width = shape[-1]
    nodes, tensors, x = [], {}, "x"
    for k, bias in enumerate(biases):
        tensors[f"w{k}"] = (rng.normal(size=(width, width)) / width**0.5).astype(np.float32)
        nodes.append(helper.make_node("MatMul", [x, f"w{k}"], [f"m{k}"], f"product{k}"))
        summed = f"m{k}"
        if bias:
            name = "zero" if zero else f"b{k}"
            tensors[name] = np.zeros(bias, np.float32) if zero else rng.normal(size=bias).astype(np.float32)
            nodes.append(helper.make_node("Add", [f"m{k}", name], [f"s{k}"], f"bias{k}"))
            summed = f"s{k}"
        nodes += [
            helper.make_node("Sin", [summed], [f"f{k}"], f"sine{k}"),
            helper.make_node("Add", [x, f"f{k}"], [f"x{k + 1}"], f"residual{k}"),
        ]
        x = f"x{k + 1}"
    save(path, nodes, tensors, {"x": shape}, {x: shape})


@pytest.mark.integers
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_are_of_integers(name, qcalib, tmp_path):
    shape, biases = PRODUCTS[name]
    products(tmp_path / "float.onnx", shape, biases)
    samples(tmp_path / "x.h5", shape[1:])
    for form in ("qdq", "qoperator"):
        job = ("--data", "x.h5", "float.onnx", "-o", f"{form}.onnx", "--format", form, "--no-report")
        qcalib(*job, *(("--prefer", "integers") if name in ("of a word", "of heads", "of one sentence") else ()))
        ops = collections.Counter(n.op_type for n in check(tmp_path / f"{form}.onnx").graph.node)
        assert sum(ops[op] for op in ON_INTEGERS) == 3, ops


# {name: (dimensions of x, whether the product is a Gemm, whether it has a bias)}
CLAMPED = {
    "Gemm": (["N", 48], True, True),
    "Gemm without a bias": (["N", 48], True, False),
    "MatMul": ([1, 48], False, False),
    "MatMul and Add": ([1, 48], False, True),
    "MatMul of words": ([1, 12, 48], False, False),
    "MatMul and Add of words": ([1, 12, 48], False, True),
}


@pytest.mark.parametrize("readers", ("output", "float", "both", "product"))
@pytest.mark.parametrize("clamp", ("Relu", "Clip"))
@pytest.mark.parametrize("name", CLAMPED)
def test_a_clamp_leaves_the_product_in_integers(name, clamp, readers, qcalib, onnxruntime, tmp_path):
    """ONNX Runtime joins a clamp to the product in front of it, on real numbers, if no QuantizeLinear is behind it."""
    shape, gemm, bias = CLAMPED[name]
    rng, width = np.random.default_rng(12), shape[-1]
    tensors = {"w": (rng.normal(size=(width, width)) / 7).astype(np.float32), "lo": np.float32(0), "hi": np.float32(6)}
    tensors |= {"b": rng.normal(size=width).astype(np.float32), "v": (rng.normal(size=(width, 8)) / 7).astype(np.float32)}
    nodes = [helper.make_node("Gemm", ["x", "w", "b"][: 2 + bias], ["p"])] if gemm else []
    if not gemm:
        nodes = [helper.make_node("MatMul", ["x", "w"], ["m" if bias else "p"])]
        nodes += [helper.make_node("Add", ["m", "b"], ["p"])] if bias else []
    nodes.append(helper.make_node(clamp, ["p", "lo", "hi"] if clamp == "Clip" else ["p"], ["r"]))
    outputs = {"r": shape} if readers in ("output", "both") else {}
    if readers in ("float", "both"):
        nodes.append(helper.make_node("Sin", ["r"], ["y"]))
        outputs["y"] = shape
    elif readers == "product":
        nodes.append(helper.make_node("MatMul", ["r", "v"], ["y"]))
        nodes.append(helper.make_node("Sin", ["r"], ["z"]))
        outputs |= {"y": [*shape[:-1], 8], "z": shape}
    save(tmp_path / "float.onnx", nodes, tensors, {"x": shape}, outputs)
    x = samples(tmp_path / "x.h5", shape[1:])
    for form in ("qdq", "qoperator"):
        qcalib("--data", "x.h5", "float.onnx", "-o", f"{form}.onnx", "--format", form, "--no-report", "--prefer", "integers")
        check(tmp_path / f"{form}.onnx")
        if readers == "product":  # a sum that lies between two levels may go to either
            continue
        qcalib("run", f"{form}.onnx", "--data", "x.h5", "-o", "ours.h5")
        theirs, said = onnxruntime.run(tmp_path / f"{form}.onnx", {"x": x}, tmp_path)
        with h5py.File(tmp_path / "ours.h5") as f:
            assert said == "" and all(np.abs(f[y][()] - theirs[y]).max() < 2e-6 * np.abs(theirs[y]).max() for y in outputs)


@pytest.mark.integers
def test_one_bias_for_a_product(qcalib, tmp_path):
    """The correction joins the model's bias, though three products share that."""
    products(tmp_path / "float.onnx", [1, 12, 48], [(48,)] * 3, zero=True)
    samples(tmp_path / "x.h5", [12, 48])
    qcalib("--data", "x.h5", "float.onnx", "-o", "int8.onnx", "--no-report")
    graph = onnx.load(tmp_path / "int8.onnx").graph
    assert [n.name for n in graph.node if n.op_type == "Add"] == [f"{w}{k}" for k in range(3) for w in ("bias", "residual")]
    known = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
    biases = [next(known[i] for i in n.input if i in known) for n in graph.node if n.name.startswith("bias")]
    assert all(np.abs(b).max() > 0 for b in biases), "each has a correction of its own"


def test_a_bias_of_a_product_is_computed_as_qcalib_does(qcalib, onnxruntime, tmp_path):
    """Bit for bit, where no float operator stands behind it."""
    rng = np.random.default_rng(6)
    tensors = {"w": rng.normal(size=(48, 40)).astype(np.float32), "b": rng.normal(size=40).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["y"])]
    save(tmp_path / "float.onnx", nodes, tensors, {"x": [1, 12, 48]}, {"y": [1, 12, 40]})
    x = samples(tmp_path / "x.h5", [12, 48])
    qcalib("--data", "x.h5", "float.onnx", "-o", "int8.onnx", "--no-report")
    qcalib("run", "int8.onnx", "--data", "x.h5", "-o", "ours.h5")
    theirs, said = onnxruntime.run(tmp_path / "int8.onnx", {"x": x}, tmp_path)
    with h5py.File(tmp_path / "ours.h5") as f:
        assert said == "" and np.array_equal(f["y"][()], theirs["y"])


# {name: (pads, inputs of the Pad after them, its attributes, Pads that are left)}
PADS = {
    "of zeros": ([0, 0, 1, 1, 0, 0, 2, 1], [], {}, 0),
    "of a zero": ([0, 0, 1, 1, 0, 0, 2, 1], ["zero"], {}, 0),
    "of another number": ([0, 0, 1, 1, 0, 0, 1, 1], ["half"], {}, 1),
    "of channels": ([0, 0, 0, 0, 0, 8, 0, 0], [], {}, 1),
    "of the image turned": ([0, 0, 1, 1, 0, 0, 1, 1], [], {"mode": "reflect"}, 1),
    "of the edge": ([0, 0, 1, 1, 0, 0, 1, 1], [], {"mode": "edge"}, 1),
}


@pytest.mark.parametrize("form", ("qdq", "qoperator"))
@pytest.mark.parametrize("name", PADS)
def test_pads_join_the_convolution_or_are_of_integers(name, form, qcalib, onnxruntime, tmp_path):
    """ONNX Runtime joins a Pad of zeros to a convolution of floats alone, and computes other Pads of QDQ models in float."""
    pads, value, attributes, left = PADS[name]
    rng, channels = np.random.default_rng(10), 16 + pads[5]
    tensors = {"p": np.array(pads), "zero": np.float32(0), "half": np.float32(0.5)}
    for w, shape in {"v": (16, 3, 3, 3), "w": (16, channels, 3, 3)}.items():
        tensors[w] = (rng.normal(size=shape) / 9).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["r"]),
        helper.make_node("Pad", ["r", "p", *value], ["b"], "pad", **attributes),
        helper.make_node("Conv", ["b", "w"], ["y"], "second", strides=[2, 2], pads=[1, 0, 0, 0]),
    ]
    save(tmp_path / "float.onnx", nodes, tensors, {"x": ["N", 3, 14, 14]}, {"y": None})
    x = samples(tmp_path / "x.h5", [3, 14, 14])
    qcalib("--data", "x.h5", "float.onnx", "-o", "q.onnx", "--no-report", "--format", form, "--prefer", "integers")
    graph = check(tmp_path / "q.onnx")
    made = [graph.made[n.input[0]].op_type for n in graph.graph.node if n.op_type == "Pad"]
    assert len(made) == left and "DequantizeLinear" not in made
    qcalib("run", "q.onnx", "--data", "x.h5", "-o", "ours.h5")
    theirs, said = onnxruntime.run(tmp_path / "q.onnx", {"x": x}, tmp_path)
    with h5py.File(tmp_path / "ours.h5") as f:
        assert said == "" and np.array_equal(f["y"][()], theirs["y"])


def recurrent(path, op, gates):
    """x [N,T,I] -> two layers -> a dense layer."""
    rng, hidden, nodes, tensors, x = np.random.default_rng(8), 32, [], {"axes": np.array([1])}, "turned"
    nodes.append(helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0, 2]))
    for k in range(2):
        for name, shape in (("w", (1, gates * hidden, hidden)), ("r", (1, gates * hidden, hidden))):
            tensors[f"{name}{k}"] = (rng.normal(size=shape) / hidden**0.5).astype(np.float32)
        nodes.append(helper.make_node(op, [x, f"w{k}", f"r{k}"], [f"all{k}"], f"layer{k}", hidden_size=hidden))
        nodes.append(helper.make_node("Squeeze", [f"all{k}", "axes"], [f"s{k}"]))
        x = f"s{k}"
    tensors["d"] = rng.normal(size=(hidden, 64)).astype(np.float32)
    nodes.append(helper.make_node("MatMul", [x, "d"], ["y"], "dense"))
    save(path, nodes, tensors, {"x": ["N", 10, hidden]}, {"y": [10, "N", 64]})
    return [10, hidden]


def transposed(path):
    """Conv -> ConvTranspose -> Conv -> ConvTranspose, the last of a result that no other operator reads."""
    rng, nodes, tensors, x = np.random.default_rng(9), [], {}, "x"
    for k, op in enumerate(("Conv", "ConvTranspose", "Conv", "ConvTranspose")):
        tensors[f"w{k}"] = (rng.normal(size=(16, 16, 2, 2)) / 8).astype(np.float32)
        nodes.append(helper.make_node(op, [x, f"w{k}"], [f"y{k}"], f"layer{k}", strides=[2, 2]))
        x = f"y{k}"
    save(path, nodes, tensors, {"x": ["N", 16, 16, 16]}, {x: ["N", 16, 16, 16]})
    return [16, 16, 16]


FLOATS = {
    "LSTM": lambda path: recurrent(path, "LSTM", 4),
    "GRU": lambda path: recurrent(path, "GRU", 3),
    "RNN": lambda path: recurrent(path, "RNN", 1),
    "ConvTranspose": transposed,
}


@pytest.mark.parametrize("op", FLOATS)
def test_weights_of_float_kernels_are_converted_at_load(op, qcalib, tmp_path):
    samples(tmp_path / "x.h5", FLOATS[op](tmp_path / "float.onnx"))
    for form in ("qdq", "qoperator"):
        job = ["--data", "x.h5", "float.onnx", "-o", f"{form}.onnx", "--format", form, "--json", "--no-report"]
        report = qcalib(*job).json
        check(tmp_path / f"{form}.onnx")
        assert [n["reason"][:16] for n in report["float_ops"] if n["op"] == op] == ["faster in float:"] * 2
        qcalib(*job, "--prefer", "size")
        check(tmp_path / f"{form}.onnx")
        assert Optimized(tmp_path / f"{form}.onnx").weights() == []
        assert (tmp_path / f"{form}.onnx").stat().st_size < 0.7 * (tmp_path / "float.onnx").stat().st_size


def test_a_model_that_is_faster_in_float_is_made_smaller(qcalib, tmp_path):
    """There is nothing else to gain, and the program says so."""
    weight = np.random.default_rng(3).normal(size=(16, 16, 2, 2)).astype(np.float32)
    nodes = [helper.make_node("ConvTranspose", ["x", "w"], ["y"], "up", strides=[2, 2])]
    save(tmp_path / "float.onnx", nodes, {"w": weight}, {"x": ["N", 16, 8, 8]}, {"y": ["N", 16, 16, 16]})
    samples(tmp_path / "x.h5", [16, 8, 8])
    said = qcalib("--data", "x.h5", "float.onnx", "-o", "int8.onnx", "--no-report").err
    assert "faster in float" in said and "--prefer size" in said
    assert Optimized(tmp_path / "int8.onnx").weights() == []
    x = np.random.default_rng(4).normal(size=(1, 16, 8, 8)).astype(np.float32)
    real, written = (onnxruntime.InferenceSession(tmp_path / n).run(None, {"x": x})[0] for n in ("float.onnx", "int8.onnx"))
    assert 0 < np.abs(real - written).max() < 0.02 * np.abs(real).max()


def test_a_model_that_is_faster_in_float_and_too_small_to_store(qcalib, tmp_path):
    """Nothing is stored and nothing warns of it; the error names the option that quantizes it, if there is one."""
    norm = {k: np.abs(np.random.default_rng(i).normal(size=8)).astype(np.float32) + 0.1 for i, k in enumerate("sbmv")}
    weight = np.random.default_rng(3).normal(size=(4, 8, 1, 1, 1)).astype(np.float32)
    nodes = [helper.make_node("BatchNormalization", ["x", *norm], ["n"], "norm"), helper.make_node("Conv", ["n", "w"], ["y"], "conv")]
    save(tmp_path / "float.onnx", nodes, {**norm, "w": weight}, {"x": ["N", 8, 4, 4, 4]}, {"y": ["N", 4, 4, 4, 4]})
    samples(tmp_path / "x.h5", [8, 4, 4, 4])
    job = ("--data", "x.h5", "float.onnx", "-o", "int8.onnx", "--no-report")
    for options in ((), ("--prefer", "size")):
        said = qcalib(*job, *options, code=4).err
        assert said.count("\n") == 1 and "faster in float" in said and "--prefer integers" in said
    qcalib(*job, "--prefer", "integers")
    assert [n.op_type for n in onnx.load(str(tmp_path / "int8.onnx")).graph.node].count("Conv") == 2
    resize = [helper.make_node("Resize", ["x", "", "sizes"], ["y"], "up", mode="linear")]
    save(tmp_path / "float.onnx", resize, {"sizes": np.array([1, 1, 2, 2], np.float32)}, {"x": ["N", 8, 4, 4]}, {"y": ["N", 8, 8, 8]})
    samples(tmp_path / "x.h5", [8, 4, 4])
    assert "--prefer" not in qcalib(*job, code=4).err


@pytest.mark.parametrize("model", [c.model for c in CASES])
def test_given_models(model, qcalib, data, tmp_path):
    case = next(c for c in CASES if c.model == model)
    for file in quantize(case, qcalib, data, "--method", "minmax", "--weight-rounding", "nearest"):
        check(tmp_path / file)
