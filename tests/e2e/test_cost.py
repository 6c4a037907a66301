# SPDX-License-Identifier: Apache-2.0
"""The estimated cost of a file: bytes are those of the file, and latencies are in the order of the kernels that ONNX
Runtime has. scripts/file_latency compares estimates with measured latencies."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

LAYERS, CHANNELS, SIDE = 4, 64, 24


@pytest.fixture
def model(tmp_path):
    """Four convolutions of 64 channels."""
    rng = np.random.default_rng(0)
    nodes, weights, x = [], [], "x"
    for k in range(LAYERS):
        w = (rng.standard_normal((CHANNELS, CHANNELS, 3, 3)) / 24).astype(np.float32)
        weights.append(numpy_helper.from_array(w, f"w{k}"))
        nodes.append(helper.make_node("Conv", [x, f"w{k}"], [f"c{k}"], f"conv{k}", pads=[1] * 4))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"]))
        x = f"r{k}"
    shape = [1, CHANNELS, SIDE, SIDE]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, shape)],
        weights,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), tmp_path / "m.onnx")
    np.savez(tmp_path / "d.npz", x=rng.standard_normal((8, *shape[1:])).astype(np.float32))
    return tmp_path / "m.onnx"


def test_integers_are_estimated_faster_than_float_and_16_bits_slower(qcalib, tmp_path, model):
    options = {"bytes": (), "half": ("--skip", "conv0", "--skip", "conv1"), "wide": ("--activation-type", "uint16")}
    costs, files = {}, {}
    for name, given in options.items():
        files[name] = tmp_path / f"{name}.onnx"
        job = ("--data", "d.npz", "--effort", "low", "--advice", "off", "--no-report", "--json", *given)
        costs[name] = qcalib(*job, "-o", files[name], model).json["cost"]
        assert costs[name]["bytes"] == files[name].stat().st_size
    assert costs["bytes"]["latency"] < costs["half"]["latency"] < 1 < costs["wide"]["latency"], costs


def test_a_free_dimension_is_that_of_the_samples(qcalib, tmp_path, model):
    free = onnx.load(model)
    for v in (free.graph.input[0], free.graph.output[0]):
        v.type.tensor_type.shape.dim[2].dim_param = "h"
    onnx.save(free, tmp_path / "free.onnx")
    job = ("--data", "d.npz", "--effort", "low", "--advice", "off", "--no-report", "--json", "-o", "q.onnx")
    fixed = qcalib(*job, model).json["cost"]["latency"]
    assert qcalib(*job, tmp_path / "free.onnx").json["cost"]["latency"] == pytest.approx(fixed, rel=1e-6)


def latency(qcalib, folder, nodes, weights, inputs, shape, kind=TensorProto.FLOAT):
    """The job's estimate for a network of these nodes, from "x" to "y"."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", kind, [1, *inputs.shape[1:]])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "n.onnx")
    np.savez(folder / "n.npz", x=inputs)
    job = ("--data", "n.npz", "--effort", "low", "--advice", "off", "--no-report", "--json", "-o", "n.int8.onnx")
    return qcalib(*job, folder / "n.onnx").json["cost"]["latency"]


def test_rows_that_a_gather_takes_are_dequantized_and_not_the_table(qcalib, tmp_path):
    """ONNX Runtime gathers the integers: a table of 60 rows and one of 20000 take the same time."""
    rng = np.random.default_rng(3)
    nodes = [helper.make_node("Gather", ["t", "x"], ["e"]), helper.make_node("MatMul", ["e", "w"], ["y"])]
    ids = rng.integers(0, 60, (8, 48), dtype=np.int64)

    def of(rows):
        weights = {"t": rng.standard_normal((rows, 64)), "w": rng.standard_normal((64, 512))}
        return latency(qcalib, tmp_path, nodes, weights, ids, [1, 48, 512], TensorProto.INT64)

    assert of(20000) == pytest.approx(of(60), rel=0.01)


def test_slow_forms_of_the_model_count_in_its_time(qcalib, tmp_path):
    """ONNX Runtime computes an Add before a LayerNormalization with it, and PRelu, slowly; files have other forms."""
    rng = np.random.default_rng(4)
    x = rng.standard_normal((8, 64, 128)).astype(np.float32)
    weights = {"w": rng.standard_normal((128, 128)), "g": np.ones(128), "b": np.zeros(128), "s": np.full(1, 0.2)}

    def of(*behind):
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), *behind]
        used = {i for n in nodes for i in n.input}
        return latency(qcalib, tmp_path, nodes, {k: w for k, w in weights.items() if k in used}, x, [1, 64, 128])

    def norm(op):
        add = helper.make_node(op, ["p", "x"], ["a"])
        return of(add, helper.make_node("LayerNormalization", ["a", "g", "b"], ["y"]))

    slow = helper.make_node("SkipLayerNormalization", ["p", "x", "g", "b"], ["y"], domain="com.microsoft")
    assert norm("Add") < 0.7 * norm("Sum")
    assert norm("Add") < 0.8 * of(slow)  # the file has it again
    leaky = of(helper.make_node("LeakyRelu", ["p"], ["y"], alpha=0.2))
    assert of(helper.make_node("PRelu", ["p", "s"], ["y"])) < 0.8 * leaky


def test_a_function_of_float_convolutions_costs_more_behind_integers(qcalib, tmp_path):
    """ONNX Runtime computes HardSwish with a float convolution, and as two operators behind one of integers: the
    default of such networks with depthwise convolutions is all in float."""
    rng = np.random.default_rng(5)
    nodes, weights, value = [], {}, "x"
    for k, (made, read, group) in enumerate([(64, 32, 1), (64, 1, 64), (96, 64, 1), (96, 1, 96), (128, 96, 1)]):
        side = 1 if group == 1 else 3
        weights[f"w{k}"] = rng.standard_normal((made, read, side, side)) / (read * side * side) ** 0.5
        how = {"group": group, "pads": [side // 2] * 4, "strides": [1 + side // 3] * 2}
        nodes.append(helper.make_node("Conv", [value, f"w{k}"], [f"c{k}"], **how))
        nodes.append(helper.make_node("HardSwish", [f"c{k}"], [f"h{k}"]))
        value = f"h{k}"
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["y"]))
    x = rng.standard_normal((8, 32, 24, 24)).astype(np.float32)
    assert latency(qcalib, tmp_path, nodes, weights, x, [1, 128, 1, 1]) == pytest.approx(1, abs=0.005)
    assert "QuantizeLinear" not in {n.op_type for n in onnx.load(tmp_path / "n.int8.onnx").graph.node}


def optimized(path):
    """The operators that ONNX Runtime makes of a file."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path.with_suffix(".run.onnx"))
    onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [n.op_type for n in onnx.load(options.optimized_model_filepath).graph.node]


@pytest.mark.parametrize("width", (4, 128))
def test_a_sum_is_fused_with_the_normalization_of_short_rows_alone(width, qcalib, tmp_path):
    """16 rows of 16 take 1.1 us as SkipLayerNormalization and 0.9 as two operators, of 128 9.3 and 1.6."""
    rng = np.random.default_rng(4)
    weights = {"w": rng.standard_normal((width, width)), "g": np.ones(width), "b": np.zeros(width)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "x"], ["a"]),
        helper.make_node("LayerNormalization", ["a", "g", "b"], ["y"]),
    ]
    x = rng.standard_normal((8, 16, width)).astype(np.float32)
    latency(qcalib, tmp_path, nodes, weights, x, [1, 16, width])
    made = optimized(tmp_path / "n.int8.onnx")
    assert "SkipLayerNormalization" in optimized(tmp_path / "n.onnx")
    assert ("SkipLayerNormalization" in made, "Sum" in made) == (width == 4, width == 128)
