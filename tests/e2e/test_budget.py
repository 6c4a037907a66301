# SPDX-License-Identifier: Apache-2.0
"""A few bytes of shapes cannot exhaust the memory or time of the machine, with and without --memory-limit. A command
refuses such a model before it allocates memory and names node, shape and number; inspect does not allocate it.
scripts/test runs these tests with sanitizers too."""

import os
import pathlib
import re
import subprocess
import sys

import h5py
import numpy as np
import onnx
import pytest
from conftest import SANITIZED
from onnx import TensorProto, helper, numpy_helper
from test_bad_input import BAD, MACHINE, UNSUPPORTED

pytestmark = pytest.mark.bad_input
MIB = 1 << 20
# A child begins with the memory of whom it was forked from, and that counts for its peak: so a small one starts it.
STARTER = """import os, sys
child = os.fork()
if not child: os.execv(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
open(sys.argv[1], "w").write(f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss} {usage.ru_utime + usage.ru_stime}")"""
SECONDS, SANITIZED_SECONDS = 10, 60  # of the processor; most take less than a tenth of it


@pytest.fixture
def hostile():
    """The folder of files that broke something."""
    if "QCALIB_DATA" not in os.environ:
        pytest.skip("QCALIB_DATA is not set")
    return pathlib.Path(os.environ["QCALIB_DATA"]) / "hostile"


def commands(model, data):
    return {
        "inspect": ("inspect", model),
        "run": ("run", model, "--data", data, "-o", "out.h5"),
        "eval": ("eval", model, "--data", data),
        "quantize": ("quantize", "--data", data, model, "-o", "out.onnx", "--report", "out.report"),
        "convert": ("convert", model, "-o", "out.onnx"),
        "compare": ("compare", model, model, "--data", data),
        "collect": ("collect", "--data", data, model, "-o", "out.stats.h5"),
    }


@pytest.fixture
def measured(program, tmp_path):
    """Runs a command: exit code, what it says, and the most memory it had, less what the program has anyway (sanitizers have much)."""

    def peak(*arguments, seconds_most=SANITIZED_SECONDS if SANITIZED else SECONDS):
        env = {**os.environ, "ASAN_OPTIONS": "allocator_may_return_null=1:quarantine_size_mb=1"}
        done = subprocess.run(
            [sys.executable, "-S", "-E", "-c", STARTER, tmp_path / "peak", program, *map(str, arguments)],
            cwd=tmp_path,
            env=env,
            text=True,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=True,
        )
        text = done.stdout + done.stderr
        code, kib, seconds = map(float, (tmp_path / "peak").read_text().split())
        assert "Sanitizer" not in text and "runtime error:" not in text, text
        assert seconds < seconds_most, f"{arguments}: {seconds:.1f} s"
        return int(code), text, kib * 1024

    base = peak("list", "ops")[2]

    def run(*arguments, **limits):
        code, text, bytes_ = peak(*arguments, **limits)
        return code, text, (bytes_ - base) / MIB

    return run


# What each needs for one run, by the node that is named; fold_chain takes what folding may take, and then what is left has no room.
LARGE = {
    "big_cos2": ("ConstantOfShape 'c'", "[2147483648]", "8192.0 MiB"),
    "big_range": ("Range 'r'", "[1000000000]", "3814.7 MiB"),
    "big_resize": ("Resize 't'", "[2,3,80000,80000]", "146484.4 MiB"),
    "big_tile": ("Tile 't'", "[2097152,12,32,32]", "98304.0 MiB"),
    "oom_pad": ("Pad 'n_Pad'", "[2,3,11,16777227]", "4224.0 MiB"),
    "fold_chain": ("Concat 'c24'", "[268435456]", "1024.0 MiB"),
}


@pytest.mark.parametrize("limit", [None, "200M"])
@pytest.mark.parametrize("name", LARGE)
def test_what_shapes_ask_for_is_refused(name, limit, hostile, measured):
    folded = 256 if name == "fold_chain" else 0  # MiB that folding may take
    for command, arguments in commands(hostile / f"{name}.onnx", hostile / "x.h5").items():
        if limit and command in ("inspect", "convert", "eval"):
            continue  # which end before, or as run does
        if folded and command in ("eval", "compare", "collect"):
            continue  # which fold as run does, seconds with sanitizers
        if limit:
            arguments = (*arguments, "--memory-limit", limit)
        code, text, more = measured(*arguments)
        assert more < (180 if limit else 40 + folded), f"{command}: {more:.0f} MiB\n{text}"
        if command == "inspect":
            assert code == 0, text
        elif command == "convert" or command == "quantize" and not (limit and folded):
            assert code == UNSUPPORTED and ("not quantized" in text or "nothing to quantize" in text), text
        else:
            assert code == MACHINE and "--memory-limit" in text, text
            assert (
                all(word in text for word in LARGE[name]) or limit and folded and re.search(r"Concat 'c2\d', computed ahead", text)
            ), text


@pytest.mark.parametrize(
    "name,words",
    {"big_cos": ("'y' (Add)", "[1048576,3,8,8]"), "tile_ub": ("'n_Tile' (Tile)", "does not fit in memory")}.items(),
)
def test_shapes_that_do_not_fit_anything(name, words, hostile, measured):
    for command, arguments in commands(hostile / f"{name}.onnx", hostile / "x.h5").items():
        code, text, more = measured(*arguments)
        assert code == BAD and all(word in text for word in words) and more < 40, f"{command}: {more:.0f} MiB\n{text}"


TAKEN = 8 * MIB  # bytes of one result


def model_of_results(path, kind):
    """A model of a few hundred bytes whose sizes depend on its data: 40 results, alone or of a Loop, or one that doubles in each iteration."""
    value, node, constant = helper.make_tensor_value_info, helper.make_node, numpy_helper.from_array
    nodes = [
        node("ReduceSum", ["x"], ["sum"], keepdims=0),
        node("Cast", ["sum"], ["four"], to=TensorProto.INT64),
        node("Mul", ["four", "times"], ["count"]),
    ]
    times, results = 6, [f"r{i}" for i in range(40)]
    passed = [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, [])], [value("on", TensorProto.BOOL, [])]
    steps = [node("Identity", ["go"], ["on"])]
    if kind == "alone":
        times = TAKEN // 16
        nodes += [node("Unsqueeze", ["count", "zero"], ["s0"])]
        nodes += [node("Add", [f"s{i}", "one"], [f"s{i + 1}"]) for i in range(40)]  # equal ones would be one
        nodes += [node("ConstantOfShape", [f"s{i}"], [r]) for i, r in enumerate(results)]
    elif kind == "loop":
        steps += [node("Identity", ["v"], ["w"]), node("Expand", ["v", "s"], ["p0"])]
        steps += [node("Identity", ["p0"], [f"p{i}"]) for i in range(1, 40)]
        parts = [value(f"p{i}", TensorProto.FLOAT, [TAKEN // 16, 4]) for i in range(40)]
        wide = constant(np.array([TAKEN // 16, 4]), "s")
        ports = [[*a, b] for a, b in zip(passed, (value("v", TensorProto.FLOAT, [1, 4]), value("w", TensorProto.FLOAT, [1, 4])))]
        body = helper.make_graph(steps, "body", ports[0], [*ports[1], *parts], [wide])
        nodes += [node("Loop", ["count", "", "x"], ["last", *results], body=body)]
    else:
        times, results = 15, ["r"]
        steps += [node("Concat", ["v", "v"], ["w"], axis=0)]
        ports = [[*a, b] for a, b in zip(passed, (value("v", TensorProto.FLOAT, ["k", 4]), value("w", TensorProto.FLOAT, ["m", 4])))]
        nodes += [node("Loop", ["count", "", "x"], ["r"], body=helper.make_graph(steps, "body", *ports))]
    nodes += [node("ReduceMax", [r], [f"{r}m"], keepdims=0) for r in results]
    nodes += [node("Sum", [f"{r}m" for r in results], ["most"]), node("Add", ["x", "most"], ["y"])]
    constants = [constant(np.array(times), "times"), constant(np.array([0]), "zero"), constant(np.array([1]), "one")]
    port = [[value(n, TensorProto.FLOAT, [1, 4])] for n in "xy"]
    graph = helper.make_graph(nodes, "g", *port, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    "kind,limit,most", [("alone", "100M", 120), ("loop", "100M", 120), ("loop", None, 640), ("doubles", "100M", 120)]
)
def test_results_whose_sizes_are_in_the_data(kind, limit, most, measured, tmp_path):
    model_of_results(tmp_path / "m.onnx", kind)
    np.save(tmp_path / "x.npy", np.ones((1, 4), np.float32))
    limited = ["--memory-limit", limit] if limit else []
    code, text, more = measured("run", "m.onnx", "--data", "x.npy", "-o", "out.h5", "--threads", 1, *limited)
    assert more < most, f"{more:.0f} MiB\n{text}"
    assert code == MACHINE and "--memory-limit" in text, text


def test_what_has_room_is_run(hostile, measured, tmp_path):
    """200 MB of a value are no attack; under a limit they are refused with the number."""
    code, text, more = measured(
        "collect", "--data", hostile / "x.h5", hostile / "big_pad.onnx", "-o", "out.stats.h5", "--threads", "1"
    )
    assert code == 0 and more < 700, f"{more:.0f} MiB\n{text}"
    for command, arguments in commands(hostile / "big_pad.onnx", hostile / "x.h5").items():
        if command in ("run", "eval", "compare", "collect"):
            code, text, more = measured(*arguments, "--memory-limit", "200M")
            assert (
                code == MACHINE and "Pad 't'" in text and "290.0 MiB" in text and more < 40
            ), f"{command}: {more:.0f} MiB\n{text}"
    for command, arguments in commands(hostile / "rewrite_bomb.onnx", hostile / "x.h5").items():
        code, text, more = measured(*arguments)
        assert (
            code == {"eval": BAD, "quantize": UNSUPPORTED, "convert": UNSUPPORTED}.get(command, 0) and more < 60
        ), f"{command}: {more:.0f} MiB\n{text}"


def masked(path, size):
    """y = x + the sum of a mask that is made of shapes, as exporters of attention write it: Range, Less, Where, with Expand."""
    constants = {
        "zero": np.int64(0),
        "one": np.int64(1),
        "size": np.int64(size),
        "row": np.array([1], np.int64),
        "column": np.array([0], np.int64),
        "none": np.float32(0),
        "much": np.float32(-1),
        "full": np.array([size, size], np.int64),
    }
    nodes = [
        helper.make_node("Range", ["zero", "size", "one"], ["r"]),
        helper.make_node("Unsqueeze", ["r", "row"], ["rows"]),
        helper.make_node("Unsqueeze", ["r", "column"], ["columns"]),
        helper.make_node("Less", ["rows", "columns"], ["later"]),
        helper.make_node("Where", ["later", "much", "none"], ["mask"]),
        helper.make_node("Expand", ["mask", "full"], ["expanded"]),
        helper.make_node("ReduceSum", ["expanded"], ["sum"], keepdims=0),
        helper.make_node("Add", ["x", "sum"], ["y"]),
    ]
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 4])] for n in "xy"]
    graph = helper.make_graph(
        nodes, "g", *ports, [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def test_masks_are_folded(qcalib, tmp_path):
    """What people have: a mask of 2048 x 2048 is computed once, ahead."""
    masked(tmp_path / "masked.onnx", 2048)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.ones((3, 4), np.float32)
    qcalib("run", "masked.onnx", "--data", "x.h5", "-o", "out.h5")
    with h5py.File(tmp_path / "out.h5") as file:
        assert np.all(file["y"][()] == np.float32(1 - 2048 * 2047 / 2))


def test_the_limit_holds_for_the_model_file(measured, tmp_path):
    """Large weights stay in the file, whichever it is."""
    weight = np.zeros((64, 1 << 18), np.float32)  # 64 MiB
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="product")
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", d])] for n, d in (("x", 64), ("y", 1 << 18))]
    graph = helper.make_graph([node], "g", *ports, [numpy_helper.from_array(weight, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "inside.onnx")
    onnx.save(model, tmp_path / "outside.onnx", save_as_external_data=True, location="weights.bin")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.ones((2, 64), np.float32)
    for file in ("inside.onnx", "outside.onnx"):
        arguments = ("--data", "x.h5", "-o", "out.h5", "--memory-limit", "80M")  # a sanitizer takes ten of them
        code, text, more = measured("run", file, *arguments)
        assert code == 0 and more < 64 + 20, f"{file}: {more:.0f} MiB, of which the weights are 64\n{text}"


def test_the_limit_holds_for_statistics(measured, examples, tmp_path):
    with open(tmp_path / "all.stats.h5", "wb") as file:
        file.truncate(80 * MIB)
    code, text, more = measured(
        "quantize",
        "--stats",
        "all.stats.h5",
        examples / "digits_cnn.onnx",
        "-o",
        "out.onnx",
        "--no-report",
        "--memory-limit",
        "90M",
    )
    assert code == MACHINE and "all.stats.h5" in text and "160.0 MiB" in text and more < 20, f"{more:.0f} MiB\n{text}"
