# SPDX-License-Identifier: Apache-2.0
"""The node tests of the newest onnx in the import and interpreter of `qcalib run` (tests/quantize/test_node_tests.c),
and the page with their counts."""

import os
import pathlib
import re
import subprocess
import sys

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from conftest import ROOT

PROGRAM = ROOT / "build/release/tests/quantize/test_quantize_node_tests"
LEAST = 0.97


def run(*arguments, **environment):
    return subprocess.run(arguments, capture_output=True, text=True, env={**os.environ, **environment})


@pytest.fixture(scope="module")
def tests(tmp_path_factory):
    """What the program says, and its file of results."""
    if not PROGRAM.exists():
        pytest.skip("the test programs are not built")
    folder = tmp_path_factory.mktemp("node_tests")
    made = run(sys.executable, ROOT / "tests/quantize/make_node_tests.py", folder / "cases")
    assert made.returncode == 0, made.stderr
    results = folder / "results"
    return run(PROGRAM, QC_NODE_TESTS=str(folder / "cases"), QC_NODE_RESULTS=str(results)), results


def test_all_but_those_that_are_listed_pass(tests):
    assert tests[0].returncode == 0, tests[0].stderr[-4000:]


def test_the_page_of_operators_is_current_and_counts_enough(tests):
    page = run(sys.executable, ROOT / "scripts/operators", tests[1])
    assert page.returncode == 0, page.stderr
    assert (
        page.stdout == pathlib.Path(ROOT / "docs/operators.md").read_text()
    ), "scripts/bless --operators"
    passed, number = re.search(r"(\d+) of (\d+) of ONNX's node tests", page.stdout).groups()
    assert int(passed) >= LEAST * int(number)


def test_what_is_found_in_large_inputs(program, tmp_path):
    """Sizes of results that come from thousands of numbers: more than a list of axes has."""
    x = (np.random.default_rng(3).random((40, 50)) > 0.5).astype(np.float32)
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Unique", ["x"], ["values", "", "", "counts"]),
    ]
    outputs = [
        helper.make_tensor_value_info(n, t, None)
        for n, t in (("places", TensorProto.INT64), ("values", TensorProto.FLOAT), ("counts", TensorProto.INT64))
    ]
    graph = helper.make_graph(
        nodes, "found", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [40, 50])], outputs
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "m.onnx")
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = x[None]
    made = run(program, "run", tmp_path / "m.onnx", "--data", tmp_path / "x.h5", "-o", tmp_path / "y.h5")
    assert made.returncode == 0, made.stderr
    with h5py.File(tmp_path / "y.h5") as f:
        assert np.array_equal(f["places"][0], np.nonzero(x))
        assert np.array_equal(f["values"][0], [0, 1])
        assert np.array_equal(f["counts"][0], [(x == 0).sum(), (x == 1).sum()])
