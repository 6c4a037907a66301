# SPDX-License-Identifier: Apache-2.0
"""Messages name the file, the node and the tensor, and no line of a file that is a part of the program."""

import pathlib
import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_bad_input import BAD, MACHINE

RULES = pathlib.Path(__file__).resolve().parents[2] / "rewrite/rules"
node, value = helper.make_node, helper.make_tensor_value_info


def save(path, nodes, inputs, constants=(), opset=17, output="y"):
    domains = {n.domain for n in nodes if n.domain}
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    outputs = [value(output, TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in dict(constants).items()])
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)


def functions():
    """(domain, operator, number of inputs) of the functions of the built-in rules."""
    found = {}
    for file in sorted(RULES.glob("functions*.rules")):
        for name, inputs in re.findall(r"^function ([\w.:]+)\(([^)]*)\)", file.read_text(), re.M):
            domain, _, op = name.rpartition("::")
            if domain != "qcalib":
                found[domain, op] = max(found.get((domain, op), 0), len(inputs.split(",")))
    return [(*k, count) for k, count in found.items()]


KINDS = {"scalars": (TensorProto.FLOAT, []), "vectors": (TensorProto.FLOAT, [3]), "integers": (TensorProto.INT64, [2, 3]), "images": (TensorProto.FLOAT, [1, 2, 3, 4])}


@pytest.mark.parametrize("domain,op,count", functions())
def test_no_line_of_built_in_rules(domain, op, count, qcalib, tmp_path):
    """Operators that rules expand, with inputs of other types and shapes than they have, and without some of them."""
    for kind, (dtype, shape) in KINDS.items():
        for given in {1, count}:
            names = [f"x{i}" for i in range(given)]
            inputs = [value(n, dtype, shape) for n in names]
            save(tmp_path / "m.onnx", [node(op, names, ["y"], "the node", domain=domain)], inputs, opset=24)
            done = qcalib("inspect", "m.onnx", code=None)
            assert done.code in (0, 3, 4) and ".rules" not in done.err + done.out, f"{kind}: {done.err}"
            assert not done.code or done.err.startswith("qcalib: m.onnx: "), f"{kind}: {done.err}"


def test_a_missing_input_is_named(qcalib, tmp_path):
    save(tmp_path / "m.onnx", [node("RotaryEmbedding", ["x"], ["y"], "rotary")], [value("x", TensorProto.FLOAT, [1, 2, 3, 4])], opset=23)
    err = qcalib("inspect", "m.onnx", code=3).err
    assert "m.onnx: node 'rotary' (RotaryEmbedding): input 1 (cos) is missing" in err


# Nodes from x to y; the constant of capital letters has a number that is not finite.
LAYERS = {
    "weight 'W'": ([8], [node("MatMul", ["x", "W"], ["y"], "the node")], {"W": (8, 8)}),
    "weight 'WG'": ([8], [node("Gemm", ["x", "WG", "b"], ["y"], "the node")], {"WG": (8, 8), "b": (8,)}),
    "weight 'WC'": ([8, 6, 6], [node("Conv", ["x", "WC"], ["y"], "the node")], {"WC": (4, 8, 3, 3)}),
    "bias 'B'": ([8], [node("Gemm", ["x", "w", "B"], ["y"], "the node")], {"w": (8, 8), "B": (8,)}),
    "bias 'BA'": ([8], [node("MatMul", ["x", "w"], ["a"]), node("Add", ["a", "BA"], ["y"], "the node")], {"w": (8, 8), "BA": (8,)}),
    "bias 'BC'": ([8, 6, 6], [node("Conv", ["x", "w", "BC"], ["y"], "the node")], {"w": (4, 8, 3, 3), "BC": (4,)}),
}


@pytest.mark.integers
@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize("what", LAYERS)
def test_constants_that_are_not_finite(what, number, qcalib, tmp_path):
    shape, nodes, constants = LAYERS[what]
    rng = np.random.default_rng(0)
    numbers = {k: rng.normal(size=s).astype(np.float32) for k, s in constants.items()}
    for k, v in numbers.items():
        if k.isupper():
            v.flat[3] = number
    save(tmp_path / "m.onnx", nodes, [value("x", TensorProto.FLOAT, ["n", *shape])], numbers)
    np.save(tmp_path / "x.npy", rng.normal(size=(32, *shape)).astype(np.float32))
    for more in ((), ("--method", "minmax", "--bias-correction", "off")):
        err = qcalib("quantize", "m.onnx", "--data", "x.npy", "-o", "q.onnx", "--no-report", *more, code=BAD).err
        assert re.search(rf"m\.onnx: node 'the node' \(\w+\): {what} holds NaN or infinity; the model is damaged", err), err


@pytest.mark.parametrize("part", ["input", "node", "initializer", "domain"])
def test_names_with_a_zero_byte(part, qcalib, tmp_path):
    """A string of C ends there, so two names would be one."""
    names = {p: f"{p}-long" for p in ("input", "node", "initializer", "domain")}
    n = node("MatMul", [names["input"], names["initializer"]], ["y"], names["node"])
    save(tmp_path / "m.onnx", [n], [value(names["input"], TensorProto.FLOAT, [1, 4])], {names["initializer"]: np.ones((4, 4), np.float32)})
    content = (tmp_path / "m.onnx").read_bytes() if part != "domain" else None
    if part == "domain":
        n.domain = names[part]
        save(tmp_path / "m.onnx", [n], [value(names["input"], TensorProto.FLOAT, [1, 4])])
        content = (tmp_path / "m.onnx").read_bytes()
    (tmp_path / "m.onnx").write_bytes(content.replace(names[part].encode(), names[part].replace("-", "\0").encode()))
    err = qcalib("inspect", "m.onnx", code=BAD).err
    assert f"m.onnx: field '" in err and f"holds '{part}' and a zero byte; names cannot hold one" in err


@pytest.mark.parametrize("length", [64_000, 64_001, 1_000_000])
def test_output_names_that_hdf5_does_not_hold(length, qcalib, tmp_path):
    name = "y" * length
    save(tmp_path / "m.onnx", [node("Relu", ["x"], [name])], [value("x", TensorProto.FLOAT, [1, 4])], output=name)
    np.save(tmp_path / "x.npy", np.ones((1, 4), np.float32))
    done = qcalib("run", "m.onnx", "--data", "x.npy", "-o", "o.h5", code=BAD if length > 64_000 else 0)
    assert length <= 64_000 or f"o.h5: output '{'y' * 100}...' has a name of {length} bytes" in done.err


@pytest.mark.parametrize("command", ["quantize", "run", "collect", "convert"])
def test_a_pipe_is_no_output(command, program, tmp_path, examples):
    data = () if command == "convert" else ("--data", examples / "digits_calib.h5")
    model = examples / "digits_cnn.onnx"
    done = subprocess.run(
        [program, command, model, *data, "-o", "/dev/stdout"], cwd=tmp_path, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == MACHINE and "cannot write /dev/stdout: it is a pipe; give the name of a file" in done.stderr
