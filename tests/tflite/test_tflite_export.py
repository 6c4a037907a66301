# SPDX-License-Identifier: Apache-2.0
"""Files of `--format tflite` in TensorFlow Lite's reference interpreter: byte for byte what `qcalib run --rounding tflite` computes.

  QCALIB       the program; build/release/qcalib when unset
  QCALIB_DATA  real models and data; without it those tests are skipped"""

import dataclasses
import os
import pathlib
import re

import h5py
import numpy as np
import onnx
import pytest
import tflite

from test_tflite_import import CONV, IMAGE, LISTS, ONE, command, ints, listed, program, quantized_conv, real, stored  # noqa: F401
from test_tflite_models import MODELS, model_file
from tflite_model import RUNTIME, Interpreter, Model, OpResolverType
from tflite_ops import model_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
F, I8, I32 = np.float32, np.int8, np.int32


def interpreter_of(content):
    try:
        made = Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    except ValueError:  # some operators have no reference kernel
        made = Interpreter(
            model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        )
    made.allocate_tensors()
    return made


def run(interpreter, inputs):
    for detail, value in zip(interpreter.get_input_details(), inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]


def operators(content):
    """Names of the operators, in order."""
    names = {v: k for k, v in vars(tflite.BuiltinOperator).items() if not k.startswith("_")}
    model = tflite.Model.GetRootAsModel(content, 0)
    graph = model.Subgraphs(0)
    codes = [model.OperatorCodes(i).BuiltinCode() for i in range(model.OperatorCodesLength())]
    return [names[codes[graph.Operators(i).OpcodeIndex()]] for i in range(graph.OperatorsLength())]


def quantized(program, folder, model, data, *options):
    """The bytes of the .tflite file; the same network as QDQ is beside it."""
    command(program, folder, "-q", "--no-report", "--advice", "off", "--data", data, "--format", "tflite,qdq", *options, model)
    return next(pathlib.Path(folder).glob("*.int8.tflite")).read_bytes()


def channels_last(x, shape):
    return x if tuple(x.shape[1:]) == tuple(shape[1:]) else np.moveaxis(x, 1, -1)


def check_network(program, folder, content, data, samples, *options):
    """Every sample through the file and through `qcalib run` of the QDQ file."""
    qdq = next(pathlib.Path(folder).glob("*.int8.onnx"))
    command(program, folder, "run", qdq.name, "--data", data, "--samples", str(samples), "--rounding", "tflite", *options, "-o", "out.h5")
    command(program, folder, "run", qdq.name, "--data", data, "--samples", str(samples), "--rounding", "qnn-tonearest", *options, "-o", "once.h5")
    interpreter = interpreter_of(content)
    runner = interpreter.get_signature_runner("serving_default")
    details = runner.get_input_details()
    with h5py.File(data) as file:
        feeds = {name: inputs_of(file[name], samples, "none" in options) for name in details}
    different, count = 0, len(next(iter(feeds.values())))
    with h5py.File(pathlib.Path(folder) / "out.h5") as wanted:
        for i in range(count):
            got = runner(**{n: np.ascontiguousarray(channels_last(x[i : i + 1], details[n]["shape"])) for n, x in feeds.items()})
            for name, y in got.items():
                want = channels_last(wanted[name][i : i + 1], y.shape)
                different += np.count_nonzero(y != want)
                # ai-edge-litert: FULLY_CONNECTED rounds once (tflite_model.py), so levels may be one step apart.
                assert RUNTIME == "tflite-runtime" or np.abs(y - want).max() <= 0.05 * np.abs(want).max()
    assert RUNTIME != "tflite-runtime" or different == 0, f"{different} numbers differ"
    assert count >= min(samples, 6)


def inputs_of(dataset, samples, plain):
    n = min(samples, len(dataset))
    values = dataset[[j * len(dataset) // n for j in range(n)]]
    if values.dtype == np.int64:
        return values
    values = values.astype(F)
    if not plain and "scale" in dataset.attrs:
        one = (1, -1) + (1,) * (values.ndim - 2)
        scale, mean, std = (np.asarray(dataset.attrs[k], F).reshape(one) for k in ("scale", "mean", "std"))
        values = (values * scale - mean) / std
    return values


# --- A network of our own ---


@pytest.fixture(scope="module")
def digits(program, tmp_path_factory):  # noqa: F811
    folder = tmp_path_factory.mktemp("digits")
    for file in (ROOT / "datasets").glob("digits_*"):
        (folder / file.name).symlink_to(file)
    return folder, quantized(program, folder, "digits_cnn.onnx", "digits_calib.h5")


def test_a_network_is_the_same_in_the_interpreter(digits, program):  # noqa: F811
    folder, content = digits
    check_network(program, folder, content, folder / "digits_test.h5", 100)
    found = operators(content)
    assert found[0] == "QUANTIZE" and found[-1] == "DEQUANTIZE" and "TRANSPOSE" not in found
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "ADD", "AVERAGE_POOL_2D", "MAX_POOL_2D", "FULLY_CONNECTED"} <= set(found)


def test_names_signature_and_metadata(digits):
    model = tflite.Model.GetRootAsModel(digits[1], 0)
    graph, signature = model.Subgraphs(0), model.SignatureDefs(0)
    names = [graph.Tensors(i).Name().decode() for i in range(graph.TensorsLength())]
    source = onnx.load(ROOT / "datasets/digits_cnn.onnx").graph
    assert (signature.SignatureKey(), model.Description(), model.Version()) == (b"serving_default", b"qcalib", 3)
    for ports, maps, count in (
        (source.input, signature.Inputs, signature.InputsLength()),
        (source.output, signature.Outputs, signature.OutputsLength()),
    ):
        assert [p.name for p in ports] == [maps(i).Name().decode() for i in range(count)]
    assert {"logits", "stem", "res1"} & set(names) and len(set(names)) > len(names) // 2
    assert graph.Tensors(graph.Inputs(0)).ShapeSignature(0) == -1 and graph.Tensors(graph.Inputs(0)).Shape(0) == 1
    assert model.Metadata(0).Name() == b"min_runtime_version"
    version = bytes(model.Buffers(model.Metadata(0).Buffer()).DataAsNumpy()).rstrip(b"\0").decode()
    assert re.fullmatch(r"\d+\.\d+\.\d+", version) and (2, 0, 0) > tuple(map(int, version.split("."))) >= (1, 14, 0)
    for i in range(model.BuffersLength()):  # kernels read them as vectors
        vector = model.Buffers(i)
        assert not vector.DataLength() or vector._tab.Vector(vector._tab.Offset(4)) % 16 == 0


def test_parameters_are_those_of_the_specification(digits):
    model = Model(digits[1])
    seen = set()
    for op in model.ops:
        if op.kind not in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"):
            continue
        x, weight, bias = op.inputs
        axis, many = {"CONV_2D": (0, True), "DEPTHWISE_CONV_2D": (3, True), "FULLY_CONNECTED": (0, False)}[op.kind]
        assert x.dtype == I8 and weight.dtype == I8 and bias.dtype == I32 and weight.data.min() >= -127
        assert not weight.zero_point.any() and not bias.zero_point.any()
        assert len(weight.scale) == (weight.shape[axis] if many else 1) and weight.axis == axis
        assert np.array_equal(bias.scale, F(x.s) * weight.scale.astype(F))
        seen.add(op.kind)
    assert len(seen) == 3


def test_bytes_do_not_depend_on_threads_or_the_run(digits, program, tmp_path):  # noqa: F811
    for threads in ("1", "3"):
        folder = tmp_path / threads
        folder.mkdir()
        for file in (ROOT / "datasets").glob("digits_*"):
            (folder / file.name).symlink_to(file)
        assert quantized(program, folder, "digits_cnn.onnx", "digits_calib.h5", "--threads", threads) == digits[1]


def test_a_batch_of_another_size(digits):
    interpreter = Interpreter(model_content=digits[1], experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    detail = interpreter.get_input_details()[0]
    values = np.random.default_rng(2).uniform(0, 1, (5, *detail["shape"][1:])).astype(F)
    interpreter.resize_tensor_input(detail["index"], values.shape)
    interpreter.allocate_tensors()
    together = run(interpreter, [values])[0]
    alone = interpreter_of(digits[1])
    assert np.array_equal(together, np.concatenate([run(alone, [v[None]])[0] for v in values]))


def test_what_has_no_form_is_refused_all_at_once(digits, program):  # noqa: F811
    folder, _ = digits
    said = command(program, folder, "--no-report", "--data", "digits_calib.h5", "--format", "tflite", "--target", "ort", "-o", "none.tflite", "digits_cnn.onnx", code=4)
    assert "TensorFlow Lite cannot hold" in said and "--activation-type int8" in said
    for name in ("stem", "depthwise", "pool2", "logits_node"):
        assert f"'{name}'" in said, said
    assert not (folder / "none.tflite").exists()
    others = ["--target", "ort", "--activation-type", "int8", "--weight-type", "uint8", "--per-channel=activations,weights"]
    said = command(program, folder, "--no-report", "--data", "digits_calib.h5", "--format", "tflite", "-o", "none.tflite", *others, "digits_cnn.onnx", code=4)
    assert "--weight-type int8" in said and "--per-channel=weights" in said


# --- Made networks ---


def made(folder, nodes, shape, weights, out="y", opset=13):
    """A model and data for it. weights: name -> array."""
    rng = np.random.default_rng(8)
    constants = [onnx.numpy_helper.from_array(np.asarray(v), k) for k, v in weights.items()]
    ports = [
        onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", *shape]),
        onnx.helper.make_tensor_value_info(out, onnx.TensorProto.FLOAT, None),
    ]
    graph = onnx.helper.make_graph(nodes, "made", ports[:1], ports[1:], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), folder / "made.onnx")
    with h5py.File(folder / "data.h5", "w") as file:
        file["x"] = rng.normal(0, 1, (32, *shape)).astype(F)


def node(op, inputs, output, **attributes):
    return onnx.helper.make_node(op, inputs, [output], name=f"{op}_{output}", **attributes)


def array(*shape, seed=1):
    return np.random.default_rng(seed).normal(0, 0.4, shape).astype(F)


def test_paddings_clamps_and_copies(program, tmp_path):  # noqa: F811
    nodes = [
        node("Conv", ["x", "w", "b"], "a", pads=[1, 0, 0, 1], strides=[2, 2]),
        node("MaxPool", ["a"], "m", kernel_shape=[3, 3], strides=[1, 1], pads=[1, 1, 0, 1]),
        node("Clip", ["m", "lo", "hi"], "c"),
        node("Resize", ["c", "", "scales"], "r", mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        node("DepthToSpace", ["r"], "d", blocksize=2, mode="CRD"),
        node("Pad", ["d", "pads"], "p"),
        node("Slice", ["p", "from", "to", "axes", "steps"], "s"),
        node("Conv", ["s", "v"], "y", group=2),
    ]
    weights = {
        "w": array(8, 3, 3, 3), "b": array(8), "v": array(4, 1, 1, 1, seed=2), "lo": F(-0.5), "hi": F(0.7),
        "scales": np.array([1, 1, 2, 2], F), "pads": np.array([0, 0, 1, 0, 0, 0, 2, 1]),
        "from": np.array([1, 0]), "to": np.array([100, -1]), "axes": np.array([2, 3]), "steps": np.array([2, 1]),
    }  # fmt: skip
    made(tmp_path, nodes, (3, 9, 10), weights)
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    check_network(program, tmp_path, content, tmp_path / "data.h5", 32)
    found = operators(content)
    assert {"PAD", "PADV2", "MAXIMUM", "MINIMUM", "RESIZE_NEAREST_NEIGHBOR", "GATHER", "DEPTH_TO_SPACE", "STRIDED_SLICE"} <= set(found)
    assert "TRANSPOSE" not in found


def test_an_input_that_is_an_output_passes_through(program, tmp_path):  # noqa: F811
    made(tmp_path, [node("Conv", ["x", "w"], "y")], (3, 8, 8), {"w": array(4, 3, 3, 3)})
    model = onnx.load(tmp_path / "made.onnx")
    model.graph.output.append(model.graph.input[0])
    onnx.save(model, tmp_path / "made.onnx")
    interpreter = interpreter_of(quantized(program, tmp_path, "made.onnx", "data.h5"))
    x = array(1, 8, 8, 3)
    assert np.array_equal(run(interpreter, [x])[1], x)


@pytest.mark.parametrize("filler", [np.finfo(F).min, F(-65504), F(-100)])
def test_what_a_maximum_never_chooses_saturates(filler, program, tmp_path):  # noqa: F811
    nodes = [
        node("Conv", ["x", "w", "b"], "a", pads=[1, 1, 1, 1]),
        node("Pad", ["a", "pads", "filler"], "p"),
        node("MaxPool", ["p"], "m", kernel_shape=[2, 2], strides=[2, 2]),
        node("Where", ["choice", "m", "filler"], "c"),
        node("MaxPool", ["c"], "n", kernel_shape=[2, 2]),
        node("Conv", ["n", "v"], "y"),
    ]
    weights = {
        "w": array(8, 3, 3, 3), "b": array(8), "v": array(6, 8, 1, 1, seed=2), "filler": filler,
        "pads": np.array([0, 0, 0, 0, 0, 0, 1, 1]), "choice": np.arange(25).reshape(1, 1, 5, 5) % 2 == 0,
    }  # fmt: skip
    made(tmp_path, nodes, (3, 9, 9), weights)
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    check_network(program, tmp_path, content, tmp_path / "data.h5", 32)
    with h5py.File(tmp_path / "data.h5") as file:
        x = file["x"][:16]
    command(program, tmp_path, "run", "made.onnx", "--data", "data.h5", "-o", "real.h5")
    interpreter = interpreter_of(content)
    got = np.concatenate([run(interpreter, [np.moveaxis(v[None], 1, -1)])[0] for v in x])
    with h5py.File(tmp_path / "real.h5") as file:
        want = np.moveaxis(file["y"][:16], 1, -1)
    assert 10 * np.log10(np.square(want).sum() / np.square(got - want).sum()) > 25


def test_a_product_with_its_own_sigmoid_is_two_operators(program, tmp_path):  # noqa: F811
    """In integers: there is no operator for a table."""
    nodes = [node("Conv", ["x", "w"], "c"), node("Sigmoid", ["c"], "s"), node("Mul", ["c", "s"], "m"), node("Conv", ["m", "v"], "y")]
    made(tmp_path, nodes, (3, 8, 8), {"w": array(4, 3, 3, 3), "v": array(5, 4, 3, 3, seed=2)})
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    check_network(program, tmp_path, content, tmp_path / "data.h5", 32)
    assert operators(content) == ["QUANTIZE", "CONV_2D", "LOGISTIC", "MUL", "CONV_2D", "DEQUANTIZE"]


def test_convolutions_of_one_dimension(program, tmp_path):  # noqa: F811
    nodes = [
        node("Conv", ["x", "w", "b"], "a", pads=[1, 1]),
        node("Relu", ["a"], "r"),
        node("MaxPool", ["r"], "m", kernel_shape=[2], strides=[2]),
        node("Conv", ["m", "v"], "c", group=6, pads=[2, 0]),
        node("Add", ["c", "m"], "s"),
        node("Flatten", ["s"], "f"),
        node("Gemm", ["f", "g", "h"], "y"),
    ]
    weights = {"w": array(6, 4, 3), "b": array(6), "v": array(6, 1, 3, seed=2), "g": array(96, 5, seed=3), "h": array(5)}
    made(tmp_path, nodes, (4, 32), weights)
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    check_network(program, tmp_path, content, tmp_path / "data.h5", 32)
    found = operators(content)
    assert {"CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "ADD", "FULLY_CONNECTED"} <= set(found) and "TRANSPOSE" not in found


@pytest.mark.parametrize("second", ["constant", "computed"])
def test_a_product_that_a_pool_reads(second, program, tmp_path):  # noqa: F811
    """Its rows are those of channels first, and the pool reads channels last: the result had the shape of the latter."""
    product = [node("Transpose", ["a"], "t", perm=[0, 1, 3, 2]), node("MatMul", ["a", "t"], "p")] if second == "computed" else []
    nodes = [node("MatMul", ["x", "w"], "a"), *product, node("MaxPool", ["p" if product else "a"], "y", kernel_shape=[2, 2])]
    made(tmp_path, nodes, (3, 6, 8), {"w": array(8, 10)})
    content = quantized(program, tmp_path, "made.onnx", "data.h5", "--prefer", "integers")
    check_network(program, tmp_path, content, tmp_path / "data.h5", 8)


def test_a_product_of_a_vector(program, tmp_path):  # noqa: F811
    """FULLY_CONNECTED gives a result of two dimensions unless it keeps their number."""
    nodes = [node("Squeeze", ["x", "zero"], "v"), node("MatMul", ["v", "w"], "a"), node("ReduceMax", ["a"], "y", axes=[0], keepdims=0)]
    made(tmp_path, nodes, (8,), {"w": array(8, 10), "zero": np.array([0])})
    content = quantized(program, tmp_path, "made.onnx", "data.h5", "--prefer", "integers")
    check_network(program, tmp_path, content, tmp_path / "data.h5", 8)


@pytest.mark.parametrize("op", ["ReduceSumSquare", "ReduceL1", "ReduceL2"])
def test_reductions_that_are_refused(op, program, tmp_path):  # noqa: F811
    """Without axes there is nothing to reduce, but all axes were; no kernel has the magnitudes of integers."""
    product = node("MatMul", ["x", "w"], "a")
    how = ("-q", "--no-report", "--advice", "off", "--prefer", "integers", "--data", "data.h5", "--format", "tflite", "made.onnx")
    made(tmp_path, [product, node(op, ["a"], "y", noop_with_empty_axes=1)], (6, 8), {"w": array(8, 10)}, opset=18)
    assert f"{op} '{op}_y': it reduces no axis" in command(program, tmp_path, *how, code=4)
    if op == "ReduceL1":
        made(tmp_path, [product, node("ArgMax", ["a"], "i", axis=1, keepdims=0), node(op, ["i", "axes"], "y")], (6, 8), {"w": array(8, 10), "axes": np.array([1])}, opset=18)
        assert "it is written in float32 alone" in command(program, tmp_path, *how, code=4)


def check_close(program, folder, content):  # noqa: F811
    """A step of the result apart at most, and only seldom."""
    command(program, folder, "run", "made.int8.onnx", "--data", "data.h5", "--rounding", "tflite", "-o", "out.h5")
    with h5py.File(folder / "data.h5") as file, h5py.File(folder / "out.h5") as wanted:
        x, want = file["x"][:], wanted["y"][:]
    interpreter = interpreter_of(content)
    got = np.concatenate([run(interpreter, [v[None]])[0] for v in x])
    step = np.diff(np.unique(want)).min()
    assert len(np.unique(want)) > 20 and np.abs(got - want).max() < 1.01 * step and np.mean(got != want) < 0.02


def near(program, folder, nodes, weights, out=8, opset=13):  # noqa: F811
    """Operators in float before a dense layer: at most a step of its result apart, and only seldom."""
    nodes = [*nodes, node("Gemm", ["last", "dense", "bias"], "y")]
    made(folder, nodes, (8,), {**weights, "dense": array(8, out, seed=4), "bias": array(out, seed=5)}, opset=opset)
    content = quantized(program, folder, "made.onnx", "data.h5")
    check_close(program, folder, content)
    return operators(content)


@pytest.mark.parametrize("half", ["behind", "before", "beside"])
@pytest.mark.parametrize("root", ["Div", "Mul"])
def test_gelu_written_out_is_one_operator(root, half, program, tmp_path):  # noqa: F811
    nodes = [node("Gemm", ["x", "w"], "g"), node(root, ["g", "root"], "r"), node("Erf", ["r"], "e"), node("Add", ["e", "one"], "a")]
    nodes += {
        "behind": [node("Mul", ["g", "a"], "m"), node("Mul", ["m", "half"], "last")],
        "before": [node("Mul", ["g", "half"], "m"), node("Mul", ["m", "a"], "last")],
        "beside": [node("Mul", ["a", "half"], "m"), node("Mul", ["g", "m"], "last")],
    }[half]
    weights = {"w": array(8, 8, seed=3), "root": F(2**0.5 if root == "Div" else 0.5**0.5), "one": F(1), "half": F(0.5)}
    found = near(program, tmp_path, nodes, weights)
    assert found.count("GELU") == 1 and not {"MUL", "DIV", "ADD"} & set(found)


def test_erf_of_another_function_is_refused(program, tmp_path):  # noqa: F811
    nodes = [node("Div", ["x", "root"], "r"), node("Erf", ["r"], "e"), node("Add", ["e", "one"], "a"), node("Mul", ["x", "a"], "m"), node("Mul", ["m", "half"], "last"), node("Gemm", ["last", "w"], "y")]
    made(tmp_path, nodes, (8,), {"w": array(8, 8), "root": F(2**0.5), "one": F(1), "half": F(0.25)})
    said = command(program, tmp_path, "--no-report", "--data", "data.h5", "--format", "tflite", "made.onnx", code=4)
    assert "Erf 'Erf_e': this operator is written in GELU alone" in said


@pytest.mark.parametrize("kind", ["Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Equal"])
def test_comparisons_and_a_choice(kind, program, tmp_path):  # noqa: F811
    """x where a comparison holds and another does not, else its absolute value."""
    nodes = [
        node("Floor", ["x"], "f"), node(kind, ["f", "at"], "c"), node("Less", ["x", "low"], "d"), node("Not", ["d"], "n"),
        node("And", ["c", "n"], "b"), node("Or", ["b", "d"], "o"), node("Abs", ["x"], "p"), node("Where", ["b", "x", "p"], "w"),
        node("Cast", ["o"], "k", to=1), node("Mul", ["w", "k"], "last"),
    ]  # fmt: skip
    found = near(program, tmp_path, nodes, {"at": F(0), "low": F(-0.4)})
    assert {"LOGICAL_NOT", "LOGICAL_AND", "LOGICAL_OR", "SELECT_V2", "CAST"} <= set(found), found
    assert {"GreaterOrEqual": "GREATER_EQUAL", "LessOrEqual": "LESS_EQUAL"}.get(kind, kind.upper()) in found


@pytest.mark.parametrize("axis", [0, 1])
def test_a_table_is_looked_up(axis, program, tmp_path):  # noqa: F811
    """By integers, from rows or columns."""
    nodes = [
        node("Slice", ["x", "from", "to", "axes"], "s"), node("Clip", ["s", "lo", "hi"], "c"), node("Mul", ["c", "three"], "m"), node("Cast", ["m"], "i", to=7),
        node("Gather", ["table", "i"], "t", axis=axis), *([node("Transpose", ["t"], "u", perm=[1, 2, 0])] if axis else [node("Identity", ["t"], "u")]),
        node("ReduceMean", ["u"], "v", axes=[1], keepdims=0), node("Add", ["v", "x"], "last"),
    ]  # fmt: skip
    weights = {"table": array(6, 8) if axis == 0 else array(8, 6), "from": np.array([0]), "to": np.array([3]), "axes": np.array([1]), "lo": F(0), "hi": F(1.9), "three": F(3)}
    assert {"GATHER", "CAST"} <= set(near(program, tmp_path, nodes, weights))


def test_interpolation_stays_in_float(program, tmp_path):  # noqa: F811
    """Between convolutions on integers."""
    nodes = [
        node("Conv", ["x", "w"], "c"), node("Resize", ["c", "", "scales"], "r", mode="linear", coordinate_transformation_mode="half_pixel"),
        node("Conv", ["r", "v"], "z"), node("Flatten", ["z"], "f"), node("Gemm", ["f", "dense"], "y"),
    ]  # fmt: skip
    weights = {"w": array(4, 3, 3, 3), "v": array(5, 4, 3, 3, seed=2), "scales": np.array([1, 1, 2, 3], F), "dense": array(300, 6, seed=3)}
    made(tmp_path, nodes, (3, 6, 6), weights)
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    command(program, tmp_path, "run", "made.int8.onnx", "--data", "data.h5", "--rounding", "tflite", "-o", "out.h5")
    with h5py.File(tmp_path / "data.h5") as file, h5py.File(tmp_path / "out.h5") as wanted:
        x, want = np.moveaxis(file["x"][:], 1, -1), wanted["y"][:]
    interpreter = interpreter_of(content)
    got = np.concatenate([run(interpreter, [v[None]])[0] for v in x])
    step = np.diff(np.unique(want)).min()
    assert len(np.unique(want)) > 20 and np.abs(got - want).max() < 2.01 * step and np.mean(got != want) < 0.2
    found = operators(content)
    assert found.count("CONV_2D") == 2 and found[found.index("RESIZE_BILINEAR") - 1] == "DEQUANTIZE", found


def test_text_of_a_real_model(program, tmp_path):  # noqa: F811
    """Embedding, attention, LayerNormalization and GELU written out: the same answers, outputs a step of float rounding apart."""
    folder = pathlib.Path(os.environ.get("QCALIB_DATA") or "none")
    if not folder.is_dir():
        pytest.skip("QCALIB_DATA does not name the folder with real models")
    (tmp_path / "model.onnx").symlink_to(folder / "models/text_transformer_agnews.onnx")
    content = quantized(program, tmp_path, "model.onnx", folder / "agnews_calib256.h5")
    with h5py.File(folder / "agnews_eval1600.h5") as file, h5py.File(tmp_path / "in.h5", "w") as some:
        some["input"], labels = file["input"][:200], file["labels"][:200]
    command(program, tmp_path, "run", "model.int8.onnx", "--data", "in.h5", "--rounding", "tflite", "-o", "out.h5")
    interpreter = interpreter_of(content)
    with h5py.File(tmp_path / "in.h5") as file, h5py.File(tmp_path / "out.h5") as wanted:
        got, want = np.concatenate([run(interpreter, [x[None]])[0] for x in file["input"][:]]), wanted["logits"][:]
    assert np.abs(got - want).max() < 0.02 * np.abs(want).max()
    assert np.mean(got.argmax(1) == want.argmax(1)) >= 0.99
    assert abs(np.mean(got.argmax(1) == labels) - np.mean(want.argmax(1) == labels)) <= 0.01
    assert {"GATHER", "GELU", "BATCH_MATMUL", "FULLY_CONNECTED", "SOFTMAX", "LOGICAL_NOT"} <= set(operators(content))


# --- Operators: a file is read and written again ---


def check_again(program, folder, ops, tensors, inputs, outputs, exact=True):  # noqa: F811
    """The file that `convert` writes of a file computes the same."""
    content = model_of(ops, tensors, inputs, outputs)
    (folder / "model.tflite").write_bytes(content)
    command(program, folder, "convert", "model.tflite", "--format", "tflite", "-o", "again.tflite")
    again = (folder / "again.tflite").read_bytes()
    rng = np.random.default_rng(5)
    first, second = interpreter_of(content), interpreter_of(again)
    for _ in range(3):
        values = [rng.integers(-128, 128, tensors[i][0]).astype(I8) for i in inputs]
        for a, b in zip(run(first, values), run(second, values), strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and len(np.unique(a)) > 1
            assert np.array_equal(a, b) if exact else np.allclose(a, b, rtol=1e-5, atol=1e-5), (a, b)
    return operators(again)


FLOAT = [
    "conv same", "conv valid, dilated", "depthwise", "average", "maximum", "add channels", "sub", "mul", "div", "maximum of two", "abs",
    "neg", "exp", "sin", "cos", "floor", "ceil", "round", "elu", "logistic", "tanh", "leaky relu", "gelu", "gelu, approximate", "relu", "relu6",
    "relu -1 to 1", "relu 0 to 1", "depth to space", "prelu", "hard swish", "log softmax",
]  # fmt: skip
FLOAT_LISTS = ["mean over the image", "mean, kept", "largest of rows", "reshape", "transpose", "pad", "mirror", "slice", "bilinear, half", "bilinear, corners"]


@pytest.mark.parametrize("name", FLOAT)
def test_an_operator_in_float(name, program, tmp_path):  # noqa: F811
    """Between DEQUANTIZE and the output."""
    kind, more, out, options = ONE[name]
    rng = np.random.default_rng(3)
    tensors = [stored(IMAGE, 0.02, 3), real(IMAGE), *(real(s, rng.uniform(0.2, 1.5, s) * rng.choice([-1, 1], s)) for s in more), real(out)]
    last = len(tensors) - 1
    ops = [("DEQUANTIZE", [0], [1], None, 2), (kind, list(range(1, last)), [last], options, 1)]
    check_again(program, tmp_path, ops, tensors, [0], [last], exact=False)


@pytest.mark.parametrize("name", FLOAT_LISTS)
def test_an_operator_with_lists(name, program, tmp_path):  # noqa: F811
    kind, lists, out, options = listed(name)
    tensors = [stored(IMAGE, 0.02, 3), real(IMAGE), *lists, real(out)]
    last = len(tensors) - 1
    ops = [("DEQUANTIZE", [0], [1], None, 2), (kind, list(range(1, last)), [last], options, 1)]
    check_again(program, tmp_path, ops, tensors, [0], [last], exact=False)


FIXED = {"LOGISTIC": (1 / 256, -128), "SOFTMAX": (1 / 256, -128), "TANH": (1 / 128, 0), "LOG_SOFTMAX": (16 / 256, 127)}
SAME = ["RELU6", "MAX_POOL_2D", "AVERAGE_POOL_2D"]
INTEGERS = {
    "ADD": ("AddOptions", {"FusedActivationFunction": 1}), "SUB": ("SubOptions", {}), "MUL": ("MulOptions", {"FusedActivationFunction": 3}),
    "LEAKY_RELU": ("LeakyReluOptions", {"Alpha": 0.3}), "HARD_SWISH": ("HardSwishOptions", {}), "LOGISTIC": None, "TANH": None,
    "SOFTMAX": ("SoftmaxOptions", {"Beta": 1.0}), "RELU": None, "RELU6": None, "QUANTIZE": None,
    "MAX_POOL_2D": ("Pool2DOptions", {"Padding": 1, "StrideH": 2, "StrideW": 2, "FilterHeight": 2, "FilterWidth": 2}),
    "AVERAGE_POOL_2D": ("Pool2DOptions", {"Padding": 0, "StrideH": 2, "StrideW": 2, "FilterHeight": 3, "FilterWidth": 3}),
}  # fmt: skip


@pytest.mark.parametrize("kind", INTEGERS)
def test_an_operator_in_integers(kind, program, tmp_path):  # noqa: F811
    scale, zero = (0.03, 5) if kind in SAME else FIXED.get(kind, (0.05, -20))
    second = (0.03, 5) if kind in SAME else (0.04, -7)
    shapes = {"MAX_POOL_2D": (1, 3, 3, 4), "AVERAGE_POOL_2D": (1, 4, 3, 4)}
    tensors = [stored(IMAGE, 0.03, 5), stored(IMAGE, *second), stored(shapes.get(kind, IMAGE), scale, zero)]
    inputs = [0, 1] if kind in ("ADD", "SUB", "MUL") else [0]
    ops = [(kind, inputs, [2], INTEGERS[kind], {"HARD_SWISH": 1, "QUANTIZE": 1, "LEAKY_RELU": 1}.get(kind, 2))]
    found = check_again(program, tmp_path, ops, tensors, inputs, [2])
    assert kind in found and "DEQUANTIZE" not in found, found


@pytest.mark.parametrize("name", ["mean over the image", "reshape", "transpose", "pad", "slice"])
def test_lists_in_integers(name, program, tmp_path):  # noqa: F811
    kind, lists, out, options = listed(name)
    scale = 0.05 if kind == "MEAN" else 0.03
    tensors = [stored(IMAGE, 0.02, 3), stored(IMAGE, 0.03, 5), *lists, stored(out, scale, 5)]
    last = len(tensors) - 1
    ops = [("QUANTIZE", [0], [1], None, 1), (kind, list(range(1, last)), [last], options, 1 if kind == "RESHAPE" else 2)]
    check_again(program, tmp_path, ops, tensors, [0], [last])


def test_joining_along_channels(program, tmp_path):  # noqa: F811
    tensors = [stored(IMAGE, 0.02, 3), stored(IMAGE, 0.04, -7), stored(IMAGE, 0.03, 5), stored(IMAGE, 0.03, 5), stored((1, 7, 6, 8), 0.03, 5)]
    ops = [
        ("QUANTIZE", [0], [2], None, 1),
        ("QUANTIZE", [1], [3], None, 1),
        ("CONCATENATION", [2, 3], [4], ("ConcatenationOptions", {"Axis": 3}), 2),
    ]
    check_again(program, tmp_path, ops, tensors, [0, 1], [4])


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("padding", [0, 1])
def test_a_convolution_in_integers(padding, groups, program, tmp_path):  # noqa: F811
    rng = np.random.default_rng(4)
    out = (1, 4, 3, 6) if padding == 0 else (1, 3, 2, 6)
    tensors = [stored(IMAGE, 0.02, 3), *quantized_conv(rng, (6, 3, 3, 4 // groups), True), stored(out, 0.05, -10)]
    options = ("Conv2DOptions", {"Padding": padding, "StrideH": 2, "StrideW": 2, "FusedActivationFunction": 1})
    ops = [("CONV_2D", [0, 1, 2], [3], options, 6 if groups > 1 else 3)]
    assert check_again(program, tmp_path, ops, tensors, [0], [3]) == ["CONV_2D"]


def test_a_flattened_image_needs_no_transpose(program, tmp_path):  # noqa: F811
    """The columns of the dense layer are sorted instead."""
    rng = np.random.default_rng(6)
    tensors = [
        stored(IMAGE, 0.02, 3),
        *quantized_conv(rng, (4, 3, 3, 4), True),
        stored(IMAGE, 0.05, -10),
        ints([1, 168]),
        stored((1, 168), 0.05, -10),
        ((5, 168), I8, [0.01], [0], 0, rng.integers(-127, 128, (5, 168))),
        ((5,), I32, [5e-4], [0], 0, rng.integers(-2000, 2000, 5)),
        stored((1, 5), 0.4, 10),
    ]
    ops = [
        ("CONV_2D", [0, 1, 2], [3], CONV, 3),
        ("RESHAPE", [3, 4], [5], ("ReshapeOptions", {}), 1),
        ("FULLY_CONNECTED", [5, 6, 7], [8], ("FullyConnectedOptions", {}), 4),
    ]
    assert check_again(program, tmp_path, ops, tensors, [0], [8]) == ["CONV_2D", "RESHAPE", "FULLY_CONNECTED"]


def test_the_page_names_the_operators_that_are_written():
    rows = re.findall(r"^QC_TFL_VERSIONS_OF\((\w+),", (ROOT / "tflite/write/tflite_versions.def").read_text(), re.M)
    used = {n for f in (ROOT / "tflite/write").glob("write_*.c") for n in re.findall(r"QC_TFL_OP_(\w+)", f.read_text())} - {"name"}
    page = (ROOT / "docs/tflite-export.md").read_text()
    listed_there = page[page.index("These operators are written: ") :].split(":", 1)[1].strip().rstrip(".")
    assert sorted(rows) == sorted(used - {""}) == sorted(name.strip() for name in listed_there.split(","))


# --- Real models ---


@dataclasses.dataclass(frozen=True)
class Network:
    name: str
    calibration: str
    data: str
    samples: int
    plain: bool = False  # data as they are in the file
    reference: str = ""  # TensorFlow's own int8 file of it
    top1: float = 0  # of that file
    labelled: bool = False


LONG = "QCALIB_LONG" in os.environ
NETWORKS = [
    Network("resnet8_cifar10_mlperf", "cifar10_calib.h5", "cifar10_test.h5", 256 if LONG else 64, True, "pretrainedResnet_quant", 87.07),
    Network("dscnn_kws_mlperf", "kws01_calib128.h5", "kws01_eval872.h5", 256, reference="kws_ref_model", top1=89.33),
    Network("mobilenetv1_075_224_imagenet", "imagenet_calib100_224.h5", "imagenet_eval256_224.h5", 8 if LONG else 4, labelled=True),
    Network("autoencoder_ad_mlperf", "ad01_one_normal.h5", "ad01_one_normal.h5", 196, reference="ad01_int8"),
    Network("superres_pytorch", "sr_x3_y6.h5", "sr_x3_y6.h5", 6 if LONG else 1),
    Network("resnet20_cifar10", "cifar10_calib.h5", "cifar10_test.h5", 64 if LONG else 16, labelled=True),
    Network("mnist_cntk8", "mnist_calib256.h5", "mnist_eval9744.h5", 256, labelled=True),
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.name)
def test_a_real_network(network, program, tmp_path):  # noqa: F811
    folder = pathlib.Path(os.environ.get("QCALIB_DATA") or "none")
    if not folder.is_dir():
        pytest.skip("QCALIB_DATA does not name the folder with real models")
    (tmp_path / "model.onnx").symlink_to(folder / "models" / f"{network.name}.onnx")
    options = ["--preprocess", "none"] if network.plain else []
    content = quantized(program, tmp_path, "model.onnx", folder / network.calibration, *options)
    check_network(program, tmp_path, content, folder / network.data, network.samples, *options)
    assert "TRANSPOSE" not in operators(content)
    if network.reference:
        size = (folder / "tflite" / f"{network.reference}.tflite").stat().st_size
        assert len(content) <= 1.02 * size, (len(content), size)
    if network.top1:
        said = command(program, tmp_path, "eval", "model.int8.onnx", "--data", folder / network.data, "--rounding", "tflite", *options)
        assert float(re.search(r"model\.int8\.onnx +([\d.]+) %", said).group(1)) >= network.top1, said


@pytest.mark.parametrize("through", ["tflite", "qdq"])
@pytest.mark.parametrize("name", MODELS)
def test_a_real_file_again(name, through, program, tmp_path):  # noqa: F811
    """TensorFlow's own int8 file, read, written as QDQ or not, and written again: the same bytes come out of it."""
    source = Model(model_file(name).read_bytes()).accepted()
    (tmp_path / "model.tflite").write_bytes(source)
    last = "model.tflite"
    if through == "qdq":
        command(program, tmp_path, "convert", last, "--format", "qdq", "-o", "model.onnx")
        last = "model.onnx"
    command(program, tmp_path, "convert", last, "--format", "tflite", "-o", "again.tflite")
    again = (tmp_path / "again.tflite").read_bytes()
    first, second = interpreter_of(bytes(source)), interpreter_of(again)
    for a, b in zip(first.get_input_details() + first.get_output_details(), second.get_input_details() + second.get_output_details(), strict=True):
        assert tuple(a["shape"]) == tuple(b["shape"]) and a["dtype"] == b["dtype"] and a["quantization"] == b["quantization"]
    rng = np.random.default_rng(7)
    for _ in range(4):
        values = rng.integers(-128, 128, first.get_input_details()[0]["shape"]).astype(I8)
        assert np.array_equal(run(first, [values])[0], run(second, [values])[0])
    assert "TRANSPOSE" not in operators(again) and len(again) <= 1.02 * len(source)
