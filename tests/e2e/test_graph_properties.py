# SPDX-License-Identifier: Apache-2.0
"""Properties of graph_fuzz_properties.py on some random networks.

QCALIB_GRAPHS  how many random graphs, of which less than half have something to quantize; 2,000 with QCALIB_LONG"""

import os
import time

import graph_fuzz
import graph_fuzz_properties
import graph_worker
import numpy as np
import onnx
import onnx.numpy_helper
import onnx.parser
import pytest
from conftest import LONG
from graph_fuzz_properties import PROPERTIES

COUNT = int(os.environ.get("QCALIB_GRAPHS", 2000 if LONG else 24))
SEED = int(os.environ.get("QCALIB_GRAPH_SEED", int(time.time()) * 1000 if LONG else 100))

FEW = "scaled_inputs_and_weights", "quantized_twice", "float16"  # need a network of certain operators


def test_properties(program, tmp_path):
    print(f"tests/e2e/graph_fuzz_properties.py --seed {SEED} --count {COUNT}")
    done, failures = graph_fuzz_properties.campaign(SEED, COUNT, program, tmp_path)
    print(dict(done))
    assert not failures, "\n\n".join(failures)
    assert done["networks"] > COUNT // 4
    for holds in PROPERTIES:
        assert done[holds.__name__] >= COUNT // (20 if holds.__name__ in FEW else 5), holds.__name__


class Drifting(graph_fuzz_properties.Network):
    """A job that writes another file, a run that gives other numbers, and a merge that leaves out a part, each time."""

    asked = 0

    def quantize(self, *arguments, **how):
        made = onnx.load_model_from_string(super().quantize(*arguments, **how) or self.base)
        self.asked += 1
        made.producer_version += f".{self.asked}"
        return made.SerializeToString()

    def run(self, *arguments):
        self.asked += 1
        return {name: v + v.dtype.type(self.asked) for name, v in super().run(*arguments).items()}

    def program(self, *arguments, **how):
        return super().program(*(a for a in arguments if arguments[0] != "merge" or a != "second.stats.h5"), **how)


@pytest.mark.parametrize("holds", PROPERTIES, ids=lambda p: p.__name__)
def test_a_result_that_depends_on_the_change_is_found(holds, program, tmp_path):
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3] x) => (float[2, 2] y, float[2, 2] z) <float[3, 2] w = {0.5, -1, 0.25, 0.75, -0.3, 0.9}, float[2] b = {0.1, -0.2},
            float[2, 2] u = {1, -0.5, 0.3, 0.8}, float[2, 2] v = {-1, 0.6, 0.2, 0.7}>
        { h = Gemm (x, w, b) r = Relu (h) y = MatMul (r, u) t = Tanh (h) z = MatMul (t, v) }""")
    rng = np.random.default_rng(3)
    feeds = {"x": [rng.normal(size=(2, 3)).astype(np.float32) for _ in range(graph_fuzz.SAMPLES)]}
    worker = graph_worker.Worker(program.parent / "libqcalib.so")
    checks = graph_fuzz.Checks(program, tmp_path, worker)
    assert holds(graph_fuzz_properties.Network(1, model, feeds, checks))
    with pytest.raises(graph_fuzz.Failure, match="other"):
        holds(Drifting(1, model, feeds, checks))
    worker.close()


@pytest.mark.parametrize("axis", [1, 2, 3])
@pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "LpNormalization"])
def test_a_function_along_an_axis_of_a_convolution(op, axis, program, tmp_path):
    """The result of a Conv has its channels last in memory, an input of a model first: LogSoftmax differed in the last bit."""
    text = "<ir_version: 8, opset_import: [\"\" : 17]> g (float[2, 4, 9, 7] {}) => ({}) {{ {} y = {} <axis = {}> (c) }}"
    rng = np.random.default_rng(3)
    whole = onnx.parser.parse_model(text.format("x", "float c, float y", "c = Conv (x, w)", op, axis))
    whole.graph.initializer.append(onnx.numpy_helper.from_array(rng.normal(size=(6, 4, 3, 2)).astype(np.float32), "w"))
    alone = onnx.parser.parse_model(text.format("c", "float y", "", op, axis).replace("4, 9, 7", "6, 7, 6"))
    worker = graph_worker.Worker(program.parent / "libqcalib.so")
    checks = graph_fuzz.Checks(program, tmp_path, worker)
    feeds = {"x": [rng.normal(size=(2, 4, 9, 7)).astype(np.float32) for _ in range(graph_fuzz.SAMPLES)]}
    found = checks.outputs(whole.SerializeToString(), feeds)
    again = checks.outputs(alone.SerializeToString(), {"c": list(found["c"].reshape(-1, 2, 6, 7, 6))})
    worker.close()
    np.testing.assert_array_equal(again["y"].ravel(), found["y"].ravel())
