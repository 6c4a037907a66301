# SPDX-License-Identifier: Apache-2.0
"""A few bytes of an ONNX file can stand for much: calls of the model's functions, tensors that share a place in a file,
bodies that are read again. Memory and time follow the size of the files, or the model is refused."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_bad_input import BAD, UNSUPPORTED
from conftest import SANITIZED
from test_budget import SANITIZED_SECONDS, measured  # noqa: F401

pytestmark = pytest.mark.bad_input
node, value = helper.make_node, helper.make_tensor_value_info
X, Y = value("x", TensorProto.FLOAT, [1, 4]), value("y", TensorProto.FLOAT, [1, 4])
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
MOST = 300 if SANITIZED else 120  # MiB beside the program's own; each took several times as much, or 5 s


def chain(count, ops=("Relu", "Neg")):
    """Nodes from a to b."""
    names = ["a", *(f"t{i}" for i in range(1, count)), "b"]
    return [node(ops[i % 2], [names[i]], [names[i + 1]]) for i in range(count)]


def function(nodes, name="F", inputs=("a",)):
    return helper.make_function("f", name, list(inputs), ["b"], nodes, OPSETS[:1])


def calls(count, functions, inputs=(), **attributes):
    """A model that calls its functions in turn, one after the other."""
    names = ["x", *(f"v{i}" for i in range(1, count)), "y"]
    nodes = [
        node(functions[i % len(functions)].name, [names[i], *inputs], [names[i + 1]], domain="f", **attributes) for i in range(count)
    ]
    return helper.make_model(helper.make_graph(nodes, "g", [X], [Y]), opset_imports=OPSETS, functions=functions, ir_version=8)


def long_name():
    return calls(1, [function(chain(2000))], name="n" * 100_000)


def many_nodes():
    return calls(400, [function(chain(400))])


REFUSED = {"long_name": long_name, "many_nodes": many_nodes}


@pytest.mark.parametrize("kind", REFUSED)
def test_functions_that_come_to_a_multiple_of_the_file_are_refused(kind, measured, tmp_path):  # noqa: F811
    onnx.save(REFUSED[kind](), tmp_path / "m.onnx")
    code, text, more = measured("inspect", "m.onnx")
    assert code == UNSUPPORTED and "they use each other too often" in text and more < MOST, f"{more:.0f} MiB {text}"


def large_constant():
    constant = numpy_helper.from_array(np.arange(1_000_000, dtype=np.float32), "c")
    return [node("Constant", [], ["k"], value=constant), node("ReduceMax", ["k"], ["r"], keepdims=1, axes=[0])]


def constant_of_a_function(count=300):
    return calls(count, [function([*large_constant(), node("Add", ["a", "r"], ["b"])])])


def constant_of_a_body(count=300):
    """Each branch is a graph of its own, with a constant of its own."""
    result = value("s", TensorProto.FLOAT, [1, 4])
    branches = [helper.make_graph([*large_constant(), node(op, ["a", "r"], ["s"])], "branch", [], [result]) for op in ("Add", "Sub")]
    when = node("ReduceMax", ["a"], ["most"], keepdims=0), node("Cast", ["most"], ["when"], to=TensorProto.BOOL)
    return calls(count, [function([*when, node("If", ["when"], ["b"], then_branch=branches[0], else_branch=branches[1])])])


def calls_of_one_name():
    """Names in the graph are unique, so the second call gets a number."""
    return calls(2000, [function(chain(20))], name="same")


def many_functions():
    return calls(20_000, [function(chain(1), f"F{i}") for i in range(20_000)])


def function_of_many_inputs():
    names = [f"a{i}" for i in range(1, 3000)]
    return calls(300, [function([node("Sum", ["a", *names[:2]], ["t"]), *(node("Neg", [n], [f"n{n}"]) for n in names[3:]), node("Relu", ["t"], ["b"])], inputs=["a", *names])], ["x", "x"])


SHARED = {f.__name__: f for f in (constant_of_a_function, constant_of_a_body, calls_of_one_name, many_functions)}


@pytest.mark.parametrize("kind", SHARED)
def test_parts_of_functions_are_shared(kind, measured, tmp_path):  # noqa: F811
    onnx.save(SHARED[kind](), tmp_path / "m.onnx")
    code, text, more = measured("inspect", "m.onnx", seconds_most=SANITIZED_SECONDS if SANITIZED else 3)
    assert code == 0 and more < MOST, f"{more:.0f} MiB {text}"


@pytest.mark.parametrize("kind", [constant_of_a_function, constant_of_a_body])
def test_shared_parts_compute_the_same(kind, tmp_path, qcalib):
    """ONNX Runtime refuses more than a few of these calls."""
    model = kind(3)
    onnx.save(model, tmp_path / "m.onnx")
    x = np.array([[-1.5, 0.25, 3, 2]], np.float32)
    np.save(tmp_path / "x.npy", x)
    qcalib("run", "m.onnx", "--data", "x.npy", "-o", "out.h5")
    want = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.array_equal(file["y"], want)


def test_inputs_of_functions_are_found_at_once(measured, tmp_path):  # noqa: F811
    onnx.save(function_of_many_inputs(), tmp_path / "m.onnx")
    code, text, more = measured("inspect", "m.onnx", seconds_most=SANITIZED_SECONDS if SANITIZED else 2)
    assert "m.onnx" in text and more < MOST, f"{more:.0f} MiB {text}"


def external(name, shape, offset):
    t = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    for key, text in {"location": "w.bin", "offset": offset, "length": 4 * int(np.prod(shape))}.items():
        t.external_data.add(key=key, value=str(text))
    return t


@pytest.mark.parametrize("step", [0, 4])
def test_overlapping_external_tensors_are_refused_and_equal_ones_shared(step, measured, tmp_path, qcalib):  # noqa: F811
    """50 matrices of 4 MB in a file of 4 MB: at one place, or each 4 bytes behind the other."""
    rows = 4, 250_000
    np.random.default_rng(1).normal(size=1_001_000).astype(np.float32).tofile(tmp_path / "w.bin")
    weights = [external(f"w{i}", rows, step * i) for i in range(50)]
    nodes = [node("MatMul", ["x", w.name], [f"y{i}"]) for i, w in enumerate(weights)]
    nodes += [node("Sum", [f"y{i}" for i in range(50)], ["all"]), node("ReduceMax", ["all"], ["y"], axes=[1])]
    y = value("y", TensorProto.FLOAT, [1, 1])
    model = helper.make_model(helper.make_graph(nodes, "g", [X], [y], weights), opset_imports=OPSETS[:1], ir_version=8)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    x = np.array([[-1.5, 0.25, 3, 2]], np.float32)
    np.save(tmp_path / "x.npy", x)
    if step:
        code, text, more = measured("quantize", "m.onnx", "--data", "x.npy", "-o", "q.onnx", "--no-report")
        assert code == BAD and "m.onnx: node 'y" in text and "tensors share parts of external data" in text and more < 40, text
        return
    assert measured("inspect", "m.onnx")[0] == 0
    qcalib("run", "m.onnx", "--data", "x.npy", "-o", "out.h5")
    w = np.fromfile(tmp_path / "w.bin", np.float32)[: np.prod(rows)].reshape(rows).astype(np.float64)
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.allclose(file["y"], 50 * (x @ w).max(), rtol=1e-5)


def nested_loops(depth, count):
    """A body that fails is read again with less fixed shapes, and the innermost body 4^depth times."""
    types = lambda k: [value(f"i{k}", TensorProto.INT64, []), value(f"c{k}", TensorProto.BOOL, []), value(f"s{k}", TensorProto.FLOAT, None)]
    results = lambda k: [value(f"d{k}", TensorProto.BOOL, []), value(f"o{k}", TensorProto.FLOAT, None), value(f"z{k}", TensorProto.FLOAT, None)]
    steps = lambda k: [node("Identity", [f"c{k}"], [f"d{k}"]), node("Concat", [f"s{k}", f"s{k}"], [f"o{k}"], axis=0)]
    names = ["s0", *(f"q{i}" for i in range(1, count + 1))]
    nodes = [node(("Relu", "Neg")[i % 2], [names[i]], [names[i + 1]]) for i in range(count)]
    body = helper.make_graph([*steps(0), *nodes, node("Gemm", [names[-1], "i0"], ["z0"])], "b0", types(0), results(0))
    for k in range(1, depth):
        loop = node("Loop", ["m", "", f"s{k}"], [f"v{k}", f"w{k}"], body=body)
        body = helper.make_graph([*steps(k), loop, node("ReduceMax", [f"w{k}"], [f"z{k}"], keepdims=0)], f"b{k}", types(k), results(k))
    graph = helper.make_graph([node("Loop", ["m", "", "x"], ["v", "y"], body=body)], "g", [X, value("m", TensorProto.INT64, [])], [value("y", TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=OPSETS[:1], ir_version=8)


def test_nested_bodies_that_are_read_again_are_limited(measured, tmp_path):  # noqa: F811
    onnx.save(nested_loops(7, 5000), tmp_path / "m.onnx")
    code, text, more = measured("inspect", "m.onnx")
    assert code == 0 and "too many bodies within bodies" in text and more < MOST, f"{more:.0f} MiB {text}"


def rule_functions(depth, times):
    """Each function of a file of rules calls the next one this many times."""
    text = [f"function my::F{i}(x)\n  give {f'my::F{i + 1}(' * times}x{')' * times}\n" for i in range(depth)]
    return "".join([*text, f"function my::F{depth}(x)\n  give Neg(x)\n"])


@pytest.mark.parametrize(
    "depth,times,count,words",
    [(14, 8, 1, "node 'y' (F0): b.rules:"), (4, 10, 1000, "the functions of rules come to more than")],
)
def test_functions_of_rules_that_use_each_other_too_often(depth, times, count, words, measured, tmp_path):  # noqa: F811
    names = ["x", *(f"v{i}" for i in range(1, count)), "y"]
    nodes = [node("F0", [names[i]], [names[i + 1]], domain="my") for i in range(count)]
    opsets = [OPSETS[0], helper.make_opsetid("my", 1)]
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [X], [Y]), opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    (tmp_path / "b.rules").write_text(rule_functions(depth, times))
    np.save(tmp_path / "x.npy", np.ones((1, 4), np.float32))
    code, text, more = measured("quantize", "m.onnx", "--rules", "b.rules", "--data", "x.npy", "-o", "q.onnx", "--no-report")
    assert code in (BAD, UNSUPPORTED) and "m.onnx: node '" in text and words in text and more < 4 * MOST, f"{more:.0f} MiB {text}"
