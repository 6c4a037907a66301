# SPDX-License-Identifier: Apache-2.0
"""`--format tflite`: operators of ONNX that are several of TensorFlow Lite's, and transposed convolutions.

  QCALIB       the program; build/release/qcalib when unset"""

import h5py
import numpy as np
import onnx
import pytest

from test_tflite_export import array, check_close, check_network, interpreter_of, made, near, node, operators, quantized, run
from test_tflite_import import command, program  # noqa: F401
from tflite_model import Interpreter, OpResolverType

F = np.float32

# name -> attributes, shape of the image, shape of the weight
TRANSPOSED = {
    "same": ({"strides": [2, 2], "pads": [0, 0, 1, 1], "output_padding": [0, 0]}, (4, 5, 6), (4, 6, 3, 3)),
    "valid": ({"strides": [2, 3]}, (4, 5, 6), (4, 6, 2, 3)),
    "same, of an even window": ({"strides": [2, 2], "pads": [1, 1, 1, 1]}, (4, 5, 6), (4, 6, 4, 4)),
    "cut": ({"pads": [2, 1, 2, 2]}, (4, 5, 6), (4, 6, 3, 3)),
    "cut in front, more behind": ({"strides": [3, 2], "pads": [1, 0, 0, 1], "output_padding": [1, 1]}, (4, 5, 6), (4, 6, 3, 3)),
    "behind alone": ({"strides": [2, 2], "pads": [0, 0, 2, 2]}, (4, 5, 6), (4, 6, 4, 4)),
    "a window smaller than its steps": ({"strides": [3, 3], "output_padding": [2, 0]}, (3, 4, 4), (3, 5, 2, 2)),
    "one dimension": ({"strides": [2], "pads": [1, 1]}, (4, 9), (4, 6, 4)),
}  # fmt: skip


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", TRANSPOSED)
def test_a_transposed_convolution(name, bias, program, tmp_path):  # noqa: F811
    """In integers, between convolutions."""
    attributes, shape, kernel = TRANSPOSED[name]
    point = (1,) * (len(shape) - 1)
    nodes = [node("Conv", ["x", "v"], "c"), node("ConvTranspose", ["c", "w", "b"] if bias else ["c", "w"], "t", **attributes)]
    nodes += [node("Relu", ["t"], "r"), node("Conv", ["r", "u"], "y")]
    weights = {"v": array(kernel[0], shape[0], *point), "w": array(*kernel, seed=2), "u": array(3, kernel[1], *point, seed=3)}
    made(tmp_path, nodes, shape, weights | ({"b": array(kernel[1], seed=4)} if bias else {}))
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    check_network(program, tmp_path, content, tmp_path / "data.h5", 32)
    Interpreter(model_content=content, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)  # it has all of them
    found = operators(content)
    assert found.count("TRANSPOSE_CONV") == 1 and "TRANSPOSE" not in found and found.count("DEQUANTIZE") == 1
    assert ("STRIDED_SLICE" in found[found.index("TRANSPOSE_CONV") :]) == ("cut" in name or name == "behind alone"), found
    command(program, tmp_path, "convert", "made.int8.tflite", "--format", "tflite", "-o", "again.tflite")
    first, again = interpreter_of(content), interpreter_of((tmp_path / "again.tflite").read_bytes())
    x = np.random.default_rng(6).normal(0, 1, (1, *shape[1:], shape[0])).astype(F)
    assert np.array_equal(run(first, [x])[0], run(again, [x])[0])


def test_a_transposed_convolution_of_another_batch(program, tmp_path):  # noqa: F811
    made(tmp_path, [node("ConvTranspose", ["x", "w"], "y", strides=[2, 2])], (4, 5, 6), {"w": array(4, 6, 2, 2)})
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    interpreter = interpreter_of(content)
    with h5py.File(tmp_path / "data.h5") as file:
        x = np.moveaxis(file["x"][:5], 1, -1)
    alone = np.concatenate([run(interpreter, [v[None]])[0] for v in x])
    detail = interpreter.get_input_details()[0]
    interpreter.resize_tensor_input(detail["index"], x.shape)
    interpreter.allocate_tensors()
    assert np.array_equal(run(interpreter, [np.ascontiguousarray(x)])[0], alone) and len(np.unique(alone)) > 50


def test_groups_are_refused(program, tmp_path):  # noqa: F811
    nodes = [node("Conv", ["x", "v"], "c"), node("ConvTranspose", ["c", "w"], "y", group=2)]
    made(tmp_path, nodes, (4, 5, 6), {"v": array(4, 4, 1, 1), "w": array(4, 3, 2, 2)})
    said = command(program, tmp_path, "--no-report", "--data", "data.h5", "--format", "tflite", "made.onnx", code=4)
    assert "ConvTranspose 'ConvTranspose_y': TRANSPOSE_CONV has no groups" in said


@pytest.mark.parametrize("bias", [True, False])
def test_layer_normalisation(bias, program, tmp_path):  # noqa: F811
    nodes = [node("Gemm", ["x", "w"], "g"), node("LayerNormalization", ["g", "s", "b"] if bias else ["g", "s"], "last", epsilon=1e-3)]
    found = near(program, tmp_path, nodes, {"w": array(8, 8, seed=3), "s": array(8, seed=6) + F(1)} | ({"b": array(8, seed=7)} if bias else {}), opset=17)
    assert found.count("MEAN") == 2 and found.count("RSQRT") == 1


FUNCTIONS = {
    "Reciprocal": ([node("Abs", ["x"], "a"), node("Add", ["a", "one"], "b"), node("Reciprocal", ["b"], "last")], {"one": F(1)}, "DIV"),
    "HardSigmoid": ([node("HardSigmoid", ["x"], "last", alpha=0.4, beta=0.3)], {}, "MINIMUM"),
    "Softplus": ([node("Mul", ["x", "forty"], "a"), node("Softplus", ["a"], "last")], {"forty": F(40)}, "LOG"),
    "IsNaN": ([node("Sqrt", ["x"], "a"), node("IsNaN", ["a"], "b"), node("Where", ["b", "x", "a"], "last")], {}, "NOT_EQUAL"),
    "Sign": ([node("Sign", ["x"], "a"), node("Add", ["a", "x"], "last")], {}, "SIGN"),
    "Tile": ([node("Slice", ["x", "from", "to", "axes"], "a"), node("Tile", ["a", "often"], "b"), node("Mul", ["b", "x"], "last")],
             {"from": np.array([1]), "to": np.array([5]), "axes": np.array([1]), "often": np.array([1, 2])}, "TILE"),
    "ReduceMin": ([node("ReduceMin", ["x"], "a", axes=[1]), node("Add", ["a", "x"], "last")], {}, "REDUCE_MIN"),
    "ReduceProd": ([node("ReduceProd", ["x"], "a", axes=[1]), node("Add", ["a", "x"], "last")], {}, "REDUCE_PROD"),
    **{kind: ([node(kind, ["x"], "a", axes=[1]), node("Add", ["a", "x"], "last")], {}, wanted)
       for kind, wanted in (("ReduceL1", "ABS"), ("ReduceL2", "SQRT"), ("ReduceSumSquare", "SUM"), ("ReduceLogSumExp", "REDUCE_MAX"))},
    "normalised as by PyTorch": ([node("ReduceL2", ["x"], "n", axes=[1], keepdims=1), node("Clip", ["n", "tiny"], "c"), node("Shape", ["x"], "s"),
                                  node("Expand", ["c", "s"], "e"), node("Div", ["x", "e"], "last")], {"tiny": F(1e-12)}, "SQRT"),
    "LpNormalization": ([node("LpNormalization", ["x"], "last", axis=1)], {}, "SQRT"),
    "LpNormalization of sums": ([node("LpNormalization", ["x"], "last", axis=-1, p=1)], {}, "ABS"),
    **{kind: ([node(kind, ["x"], "a", axis=1, keepdims=1), node("Cast", ["a"], "b", to=1), node("Add", ["b", "x"], "last")], {}, wanted)
       for kind, wanted in (("ArgMax", "ARG_MAX"), ("ArgMin", "ARG_MIN"))},
    "ArgMax without axis": ([node("ArgMax", ["x"], "a", axis=1, keepdims=0), node("Gather", ["table", "a"], "b"), node("Add", ["b", "x"], "last")],
                            {"table": array(8, 8, seed=9)}, "ARG_MAX"),
}  # fmt: skip


def test_a_hard_sigmoid_of_integers(program, tmp_path):  # noqa: F811
    """Its result is stored, so it is computed between DEQUANTIZE and QUANTIZE."""
    nodes = [node("Conv", ["x", "w"], "c"), node("HardSigmoid", ["c"], "h"), node("Mul", ["c", "h"], "m"), node("Conv", ["m", "v"], "y")]
    made(tmp_path, nodes, (3, 8, 8), {"w": array(4, 3, 3, 3), "v": array(5, 4, 3, 3, seed=2)})
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    check_network(program, tmp_path, content, tmp_path / "data.h5", 32)
    found = operators(content)
    at = found.index("MAXIMUM")
    assert found[at - 3 : at + 4] == ["DEQUANTIZE", "MUL", "ADD", "MAXIMUM", "MINIMUM", "QUANTIZE", "MUL"], found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function(name, program, tmp_path):  # noqa: F811
    nodes, weights, wanted = FUNCTIONS[name]
    assert wanted in near(program, tmp_path, nodes, weights)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [1, 2])
def test_the_largest_and_elements_at_indices(axis, largest, program, tmp_path):  # noqa: F811
    """Values and indices of TopK; the indices, from the end, choose elements of another tensor."""
    top = onnx.helper.make_node("TopK", ["x", "k"], ["v", "i"], name="top", axis=axis, largest=largest)
    nodes = [top, node("Sin", ["x"], "t"), node("Sub", ["i", "size"], "b"), node("GatherElements", ["t", "b"], "g", axis=axis), node("Mul", ["v", "g"], "m"), node("Cast", ["i"], "c", to=1),
             node("Add", ["m", "c"], "last"), node("Flatten", ["last"], "f"), node("Gemm", ["f", "w"], "y")]  # fmt: skip
    made(tmp_path, nodes, (6, 5), {"k": np.array([3]), "size": np.array((6, 5)[axis - 1]), "w": array(15 if axis == 1 else 18, 7)})
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    found = operators(content)
    assert {"TOPK_V2", "GATHER"} <= set(found) and ("TRANSPOSE" in found) == (axis == 1) and ("NEG" in found) == (not largest)
    check_close(program, tmp_path, content)


@pytest.mark.parametrize("kind", ["ReduceL2", "ReduceMean", "ReduceLogSumExp"])
@pytest.mark.parametrize("axis", [1, 2])
def test_a_reduction_before_a_convolution_of_one_dimension(axis, kind, program, tmp_path):  # noqa: F811
    """Without the reduced axis the channels are others than those of the image."""
    nodes = [node("Conv", ["x", "v"], "c"), node(kind, ["c"], "r", axes=[axis], keepdims=0), node("Conv", ["r", "u"], "z"), node("Flatten", ["z"], "f"), node("Gemm", ["f", "w"], "y")]
    made(tmp_path, nodes, (3, 6, 9), {"v": array(4, 3, 1, 1), "u": array(2, 6 if axis == 1 else 4, 1, seed=2), "w": array(18, 7, seed=3)})
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    command(program, tmp_path, "run", "made.int8.onnx", "--data", "data.h5", "--rounding", "tflite", "-o", "out.h5")
    with h5py.File(tmp_path / "data.h5") as file, h5py.File(tmp_path / "out.h5") as wanted:
        x, want = np.moveaxis(file["x"][:], 1, -1), wanted["y"][:]
    interpreter = interpreter_of(content)
    got = np.concatenate([run(interpreter, [np.ascontiguousarray(v[None])])[0] for v in x])
    step = np.diff(np.unique(want)).min()
    assert np.abs(got - want).max() < 4.01 * step and np.abs(got - want).mean() < step  # LiteRT's MEAN rounds elsewhere


IMAGES = {
    "InstanceNormalization": (["s", "b"], "RSQRT"),
    "BatchNormalization": (["s", "b", "m", "v"], "MUL"),
}


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("size", [(6, 7), (11,)])
def test_a_normalisation_of_an_image(kind, size, program, tmp_path):  # noqa: F811
    """In float between convolutions on integers, behind a Concat, which no convolution can take in."""
    names, wanted = IMAGES[kind]
    point = (1,) * len(size)
    nodes = [node("Conv", ["x", "u"], "a"), node("Concat", ["a", "x"], "c", axis=1), node(kind, ["c", *names], "n", epsilon=1e-2), node("Conv", ["n", "w"], "y")]
    weights = {"u": array(3, 3, *point), "s": array(6, seed=6) + F(1), "b": array(6, seed=7), "w": array(4, 6, *point)}
    weights |= {"m": array(6, seed=8), "v": np.abs(array(6, seed=9)) + F(0.2)} if len(names) > 2 else {}
    made(tmp_path, nodes, (3, *size), weights)
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    command(program, tmp_path, "run", "made.int8.onnx", "--data", "data.h5", "--rounding", "tflite", "-o", "out.h5")
    with h5py.File(tmp_path / "data.h5") as file, h5py.File(tmp_path / "out.h5") as wanted_values:
        x, want = np.moveaxis(file["x"][:], 1, -1), np.moveaxis(wanted_values["y"][:], 1, -1)
    interpreter = interpreter_of(content)
    got = np.concatenate([run(interpreter, [np.ascontiguousarray(v[None])])[0] for v in x])
    step = np.diff(np.unique(want)).min()
    assert len(np.unique(want)) > 20 and np.abs(got - want).max() < 1.01 * step and np.mean(got != want) < 0.02
    found = operators(content)
    assert wanted in found and "TRANSPOSE" not in found, found


def test_shapes_that_are_computed(program, tmp_path):  # noqa: F811
    """Samples of any length: heads are taken apart and joined, and a token and zeros are made as the batch needs them."""
    helper = onnx.helper
    numbers = {"w": array(8, 8), "v": array(8, 8, seed=2), "token": array(1, 1, 8, seed=3), "zero": np.array(0), "one": np.array(1)}
    numbers |= {"axis": np.array([0]), "two": np.array([2]), "four": np.array([4]), "eight": np.array([8]), "ones": np.array([1])}
    value = onnx.numpy_helper.from_array(np.array([0.25], F))
    nodes = [
        node("MatMul", ["x", "w"], "q"), node("Shape", ["q"], "s"), node("Gather", ["s", "zero"], "b0"), node("Gather", ["s", "one"], "l0"),
        node("Unsqueeze", ["b0", "axis"], "b"), node("Unsqueeze", ["l0", "axis"], "l"), node("Concat", ["b", "l", "two", "four"], "apart", axis=0),
        node("Reshape", ["q", "apart"], "heads"), node("Transpose", ["heads"], "turned", perm=[0, 2, 1, 3]), node("Sigmoid", ["turned"], "g"),
        node("Transpose", ["g"], "back", perm=[0, 2, 1, 3]), node("Concat", ["b", "l", "eight"], "whole", axis=0), node("Reshape", ["back", "whole"], "joined"),
        node("Add", ["b", "ones"], "b1"), node("Mul", ["b1", "two"], "b2"), node("Sub", ["b2", "b"], "b3"), node("Sub", ["b3", "two"], "b4"),
        node("Concat", ["b4", "ones", "eight"], "one_row", axis=0), node("Expand", ["token", "one_row"], "tokens"),
        node("ConstantOfShape", ["whole"], "quarter", value=value), node("Add", ["joined", "quarter"], "sum"),
        node("Concat", ["tokens", "sum"], "all", axis=1), node("MatMul", ["all", "v"], "y"),
    ]  # fmt: skip
    ports = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, ["N", d, 8]) for n, d in (("x", "L"), ("y", "M"))]
    graph = helper.make_graph(nodes, "made", ports[:1], ports[1:], [onnx.numpy_helper.from_array(np.asarray(a), k) for k, a in numbers.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "made.onnx")
    x = np.random.default_rng(8).normal(0, 1, (32, 6, 8)).astype(F)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = x
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    command(program, tmp_path, "run", "made.int8.onnx", "--data", "data.h5", "--rounding", "tflite", "-o", "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        want = file["y"][:]
    assert {"SHAPE", "BROADCAST_TO", "FILL", "CAST"} <= set(operators(content))
    interpreter = interpreter_of(content)
    for rows in (1, 4):
        interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], (rows, 6, 8))
        interpreter.allocate_tensors()
        got = np.concatenate([run(interpreter, [x[i : i + rows]])[0] for i in range(0, 32, rows)])
        assert got.shape == want.shape == (32, 7, 8)
        step = np.diff(np.unique(want)).min()
        assert np.abs(got - want).max() < 1.01 * step and np.mean(got != want) < 0.02, np.mean(got != want)


@pytest.mark.parametrize("bias", [True, False])
def test_a_convolution_in_three_dimensions(bias, program, tmp_path):  # noqa: F811
    """In float: CONV_3D has no integer kernel."""
    weights = {"w": array(4, 2, 3, 2, 3), "v": array(5, 4, 1, 3, 3, seed=2), "b": array(4, seed=3), "d": array(5, 6, seed=4)}
    nodes = [
        node("Conv", ["x", "w", "b"] if bias else ["x", "w"], "a", pads=[1, 0, 1, 1, 1, 1], strides=[1, 2, 1]), node("Relu", ["a"], "r"),
        node("Conv", ["r", "v"], "c", strides=[2, 1, 1]), node("GlobalAveragePool", ["c"], "g"), node("Flatten", ["g"], "f"), node("Gemm", ["f", "d"], "y"),
    ]  # fmt: skip
    made(tmp_path, nodes, (2, 5, 8, 7), weights)
    content = quantized(program, tmp_path, "made.onnx", "data.h5")
    check_network(program, tmp_path, content, tmp_path / "data.h5", 32)
    found = operators(content)
    assert found.count("CONV_3D") == 2 and found.count("PAD") == 1 and "TRANSPOSE" not in found and "RELU" not in found, found


def test_what_conv_3d_lacks_is_refused(program, tmp_path):  # noqa: F811
    nodes = [node("Conv", ["x", "w"], "a", dilations=[2, 1, 1]), node("Conv", ["a", "v"], "b", group=2), node("GlobalAveragePool", ["b"], "g")]
    nodes += [node("Flatten", ["g"], "f"), node("Gemm", ["f", "d"], "y")]
    made(tmp_path, nodes, (2, 5, 5, 5), {"w": array(4, 2, 2, 2, 2), "v": array(4, 2, 2, 2, 2), "d": array(4, 6)})
    said = command(program, tmp_path, "--no-report", "--data", "data.h5", "--format", "tflite", "made.onnx", code=4)
    assert said.count("CONV_3D has neither groups nor dilations") == 2


# name -> nodes behind the Conv "c" [4, 7, 9], constants, operators of the file
MOVED = {
    "softmax of channels": ([node("Softmax", ["c"], "y", axis=1)], {}, {"SOFTMAX"}),
    "padding with a number": ([node("Pad", ["c", "p", "half"], "q"), node("Conv", ["q", "u"], "y")],
                              {"p": np.array([0, 0, 1, 2, 0, 0, 0, 3]), "half": F(0.5), "u": array(3, 4, 1, 1, seed=3)}, {"PADV2"}),
    "padding with the border": ([node("Pad", ["c", "p"], "q", mode="edge"), node("Conv", ["q", "u"], "y")],
                                {"p": np.array([0, 0, 1, 2, 0, 0, 0, 3]), "u": array(3, 4, 1, 1, seed=3)}, {"GATHER"}),
    "averages of sizes rounded up": ([node("AveragePool", ["c"], "q", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1), node("Conv", ["q", "u"], "y")],
                                     {"u": array(3, 4, 1, 1, seed=3)}, {"AVERAGE_POOL_2D"}),
}  # fmt: skip


@pytest.mark.parametrize("options", [(), ("--activation-type", "int16", "--symmetric=activations,weights")])
@pytest.mark.parametrize("name", MOVED)
def test_elements_of_an_image(name, options, program, tmp_path):  # noqa: F811
    nodes, weights, wanted = MOVED[name]
    made(tmp_path, [node("Conv", ["x", "v"], "c"), *nodes], (4, 7, 9), weights | {"v": array(4, 4, 1, 1)})
    content = quantized(program, tmp_path, "made.onnx", "data.h5", *options)
    found = operators(content)
    assert wanted <= set(found) and "TRANSPOSE" not in found, found
    if not (options and "SOFTMAX" in found):
        check_network(program, tmp_path, content, tmp_path / "data.h5", 32)


def test_an_index_from_the_end(program, tmp_path):  # noqa: F811
    nodes = [node("MatMul", ["x", "w"], "m"), node("Gather", ["m", "i"], "g", axis=1), node("Gemm", ["g", "u"], "y")]
    made(tmp_path, nodes, (5, 8), {"w": array(8, 8), "i": np.array(-1), "u": array(8, 3, seed=2)})
    check_network(program, tmp_path, quantized(program, tmp_path, "made.onnx", "data.h5"), tmp_path / "data.h5", 32)
