# SPDX-License-Identifier: Apache-2.0
"""A .tflite file refers to names, lists, scales, buffers and sparsities by offset, so a few bytes can refer to a large
part of the file any number of times. Memory and time follow the file's size: shared data are read once, or refused.

  QCALIB       the program; build/release/qcalib when unset"""

import subprocess
import sys

import h5py
import numpy as np
import pytest

from test_tflite_import import check, program, real  # noqa: F401
from test_tflite_made import sparse_model
from tflite_ops import model_of

F, I8 = np.float32, np.int8
MIB = 1 << 20
MOST, SECONDS = 120, 2  # MiB in all, and seconds of the processor; without a limit each takes several times as much
# A child begins with the memory of its parent, so a small process starts the program.
STARTER = """import os, sys
child = os.fork()
if not child: os.execv(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
open(sys.argv[1], "w").write(f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss} {usage.ru_utime + usage.ru_stime}")"""


def measured(program, folder, *arguments, most_seconds=SECONDS):
    """Exit code and messages of a command that stays within MOST and these seconds."""
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", STARTER, folder / "used", program, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    code, kib, seconds = map(float, (folder / "used").read_text().split())
    if "Sanitizer" not in done.stderr and not sanitized(program):
        assert kib * 1024 / MIB < MOST and seconds < most_seconds, f"{arguments}: {kib / 1024:.0f} MiB, {seconds:.1f} s"
    return int(code), done.stdout + done.stderr


def sanitized(program):
    return b"__asan_init" in program.read_bytes()


def chain(count, tensor, kind="RELU", first=1):
    """RELU after RELU of tensors 0 to count."""
    return [(kind, [i], [i + 1], None, 1) for i in range(count)], [tensor(i) for i in range(count + 1)], [0], [count]


def long_names():
    return chain(300, lambda i: (*real((1, 4)), None, False, "n" * 1_000_000))


def long_scales():
    """Constants that share their scales."""
    scales = np.full(100_000, 0.5, F)
    tensors = [real((1, 4)), real((1, 4))] + [((100_000,), I8, scales, np.zeros(1, np.int64), 0, np.zeros(100_000, I8))] * 2_000
    return [("RELU", [0], [1], None, 1)], tensors, [0], [1]


def long_zero_points():
    scales, zeros = np.full(50_000, 0.5, F), np.zeros(50_000, np.int64)
    tensors = [real((1, 4)), real((1, 4))] + [((50_000,), I8, scales, zeros, 0, np.zeros(50_000, I8))] * 4_000
    return [("RELU", [0], [1], None, 1)], tensors, [0], [1]


def graphs_in_ifs(tensors=(), others=0):
    """2,000 IFs of one graph, which has `tensors` beside its result, and then other operators."""
    count = 2_000
    outer = [((), np.dtype(bool), None, None, 0, None), real((1, 4))] + [real((1, 4)) for _ in range(count)]
    options = ("IfOptions", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 1})
    ops = [("IF", [0, i + 1], [i + 2], options, 1) for i in range(count)]
    return ops + [("RELU", [1], [1], None, 1)] * others, outer, [0, 1], [count + 1], ([("RELU", [0], [1], None, 1)], [real((1, 4)), real((1, 4)), *tensors], [0], [1])


def scales_in_ifs():
    return graphs_in_ifs([((20_000,), I8, np.full(20_000, 0.5, F), np.zeros(20_000, np.int64), 0, np.zeros(20_000, I8))])


REFUSED = {f.__name__: f for f in (long_names, long_scales, long_zero_points, scales_in_ifs)}


@pytest.mark.parametrize("kind", REFUSED)
def test_references_that_come_to_a_multiple_of_the_file_are_refused(kind, program, tmp_path):  # noqa: F811
    content = model_of(*REFUSED[kind](), shared=True)
    (tmp_path / "model.tflite").write_bytes(content)
    for command in (("inspect",), ("run", "--data", "x.npy", "-o", "out.h5", "--memory-limit", "200M")):
        np.save(tmp_path / "x.npy", np.zeros((1, 4), F))
        code, text = measured(program, tmp_path, *command, "model.tflite")
        assert code == 3 and "come to more than 4 times the file" in text and "model.tflite: " in text, text


def test_codes_of_operators_are_counted_for_each_inner_graph(program, tmp_path):  # noqa: F811
    content = model_of(*graphs_in_ifs(others=30_000), shared=True)
    (tmp_path / "model.tflite").write_bytes(content)
    code, text = measured(program, tmp_path, "inspect", "model.tflite")
    assert code == 3, text


def shared_sparse(used):
    """100 tensors of 1 x 2,000,000 that share data of 200 elements, and their sparsity."""
    width = 2_000_000
    sparsity = ([0, 1], [], [1, (np.array([0, 200], np.int32), np.arange(200, dtype=np.int32))])
    tensors = [real((1, 1))]
    ops = []
    for i in range(100):
        tensors += [(*real((1, width), np.full(200, 2.5, F)), sparsity), real((1, width)), real((1, 1))]
        if used:
            ops += [("DENSIFY", [1 + 3 * i], [2 + 3 * i], None, 1), ("MAXIMUM", [2 + 3 * i, 0], [3 + 3 * i], None, 1)]
    return ops, tensors, width


def test_a_shared_sparse_constant_is_expanded_once(program, tmp_path):  # noqa: F811
    """It is not expanded without a use. With uses it is expanded once."""
    _, tensors, width = shared_sparse(False)
    (tmp_path / "model.tflite").write_bytes(model_of([("RELU", [0], [3], None, 1)], tensors, [0], [3], shared=True))
    code, text = measured(program, tmp_path, "inspect", "model.tflite")
    assert code == 0, text
    ops, tensors, _ = shared_sparse(True)
    for i in range(100):
        tensors[3 + 3 * i] = real((1, width))
    (tmp_path / "model.tflite").write_bytes(model_of(ops, tensors, [0], [3, 300], shared=True))
    code, text = measured(program, tmp_path, "inspect", "model.tflite")
    assert code == 0 and "parameters" in text, text


def test_shared_sparse_weights_compute_the_same(program, tmp_path):  # noqa: F811
    ops, tensors = sparse_model("int32")
    ops = [*ops, ("DENSIFY", [4], [5], None, 1), ("FULLY_CONNECTED", [0, 5, -1], [6], ("FullyConnectedOptions", {}), 1)]
    tensors = [*tensors, tensors[1], real((6, 16)), real((1, 6))]
    check(program, tmp_path, ops, tensors, [0], [3, 6], shared=True)


@pytest.mark.parametrize("width,shared", [(40_000_000, False), (4_000_000, True)])
def test_sparse_constants_beyond_the_budget_are_refused(width, shared, program, tmp_path):  # noqa: F811
    """One of 160 MB, or ten of 16 MB with shapes of their own, in a file of 20 KB."""
    tensors, ops, leaves = [real((1, 1))], [], width // 16_000
    for i in range(10 if shared else 1):
        one = ([0, 1], [], [1, (np.array([0, leaves], np.int32), np.arange(leaves, dtype=np.int32))])
        tensors += [(*real((1, width + i), np.full(leaves, 2.5, F)), one), real((1, width + i)), real((1, width + i))]
        ops += [("DENSIFY", [1 + 3 * i], [2 + 3 * i], None, 1), ("MAXIMUM", [2 + 3 * i, 0], [3 + 3 * i], None, 1)]
    (tmp_path / "model.tflite").write_bytes(model_of(ops, tensors, [0], [3], shared=shared))
    code, text = measured(program, tmp_path, "inspect", "model.tflite")
    assert code == 3 and "the constants come to more than 16 MB and 64 times the file" in text and "model.tflite: " in text, text


def test_a_constant_that_many_tensors_share_is_read_once(program, tmp_path):  # noqa: F811
    """2,000 tensors share a buffer of 4 MB."""
    data = np.random.default_rng(3).normal(size=(1, 1_000_000)).astype(F)
    tensors, ops = [real((1, 1_000_000))], []
    for i in range(2_000):
        tensors += [real((1, 1_000_000), data), real((1, 1_000_000))]
        ops.append(("MAXIMUM", [2 * i, 2 * i + 1], [2 * i + 2], None, 1))
    (tmp_path / "model.tflite").write_bytes(model_of(ops, tensors, [0], [4_000], shared=True))
    code, text = measured(program, tmp_path, "inspect", "model.tflite", most_seconds=0.5)
    assert code == 0, text


def test_many_variables_and_names_of_a_signature_are_found_at_once(program, tmp_path):  # noqa: F811
    """40,000 variables take time in proportion to their number."""
    tensors, ops = [real((1, 4)), real((1, 4))], [("RELU", [0], [1], None, 1)]
    for i in range(40_000):
        tensors.append(((), np.dtype(object), None, None, 0, None))
        ops.append(("VAR_HANDLE", [], [i + 2], ("VarHandleOptions", {"SharedName": f"variable with a common prefix {i}"}), 1))
    (tmp_path / "model.tflite").write_bytes(model_of(ops, tensors, [0], [1], shared=True))
    code, text = measured(program, tmp_path, "inspect", "model.tflite")
    assert code == 0, text
