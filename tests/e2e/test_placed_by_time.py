# SPDX-License-Identifier: Apache-2.0
"""Operators are placed by estimated times: a network that integers make slower stays in float, one that they make faster
is in integers, and parts of a network each on their side. scripts/file_latency measures whether that holds."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

SIDE = 32


def save(path, layers, data, sides=(SIDE, SIDE)):
    """Convolutions with Relu: (input channels, output channels, kernel, groups, stride)."""
    rng = np.random.default_rng(3)
    nodes, tensors, x = [], [], "x"
    for k, (c_in, c_out, kernel, groups, stride) in enumerate(layers):
        w = rng.standard_normal((c_out, c_in // groups, kernel, kernel)) / (c_in // groups * kernel**2) ** 0.5
        tensors.append(numpy_helper.from_array(w.astype(np.float32), f"w{k}"))
        nodes.append(helper.make_node("Conv", [x, f"w{k}"], [f"c{k}"], f"conv{k}", group=groups, pads=[kernel // 2] * 4, strides=[stride] * 2))
        nodes.append(helper.make_node("Relu", [f"c{k}"], [f"r{k}"], f"relu{k}"))
        x = f"r{k}"
    tensors.append(numpy_helper.from_array(rng.standard_normal((layers[-1][1], 10)).astype(np.float32), "last"))
    nodes.append(helper.make_node("GlobalAveragePool", [x], ["g"], "mean"))
    nodes.append(helper.make_node("Flatten", ["g"], ["f"], "flat"))
    nodes.append(helper.make_node("Gemm", ["f", "last"], ["y"], "classes"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", layers[0][0], *sides])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 10])
    graph = helper.make_graph(nodes, "g", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    np.savez(data, x=rng.standard_normal((8, layers[0][0], SIDE, SIDE)).astype(np.float32))


def depthwise(channels):
    """A first convolution and three pairs of a depthwise and a pointwise convolution."""
    layers, c = [(3, channels[0], 3, 1, 1)], channels[0]
    for k in channels[1:]:
        layers += [(c, c, 3, c, 1), (c, k, 1, 1, 1)]
        c = k
    return layers


SMALL = depthwise([16, 24, 32, 48])
LARGE = [(64, 64, 3, 1, 1)] * 3
# Depthwise convolutions of many elements, and behind them convolutions of many multiply-adds.
MIXED = [*[(16, 16, 5, 16, 1)] * 8, (16, 64, 1, 1, 2), *[(64, 64, 3, 1, 1)] * 2]


@pytest.fixture
def job(qcalib, tmp_path):
    def run(layers, *options, name="q.onnx", sides=(SIDE, SIDE)):
        save(tmp_path / "m.onnx", layers, tmp_path / "d.npz", sides)
        job = ("--data", "d.npz", "--effort", "low", "--advice", "off", "--no-report", "--json", "-o", name, "m.onnx")
        return qcalib(*job, *options)

    return run


def test_a_network_that_integers_make_slower_stays_in_float(job, tmp_path):
    done = job(SMALL)
    floats = done.json["float_ops"]
    assert "Conv" in {n["op"] for n in floats if n["reason"].startswith("faster in float: together")}
    assert sum(n["op"] == "Conv" for n in floats) >= 6, "the depthwise convolutions and most others"
    assert done.json["cost"]["latency"] <= 1.02 < job(SMALL, "--prefer", "integers", name="integers.onnx").json["cost"]["latency"]
    assert (tmp_path / "q.onnx").stat().st_size <= (tmp_path / "m.onnx").stat().st_size


def test_if_nothing_gains_the_file_is_in_float_and_the_job_says_so(job, tmp_path):
    done = job([(16, 16, 3, 16, 1)] * 10)
    assert "nothing is quantized: ONNX Runtime computes all of this model faster in float" in done.err
    assert (done.json["quantized_ops"], done.json["verdict"]["grade"]) == (0, "unknown"), "a float file is not a good result"
    assert done.json["verdict"]["text"].startswith("nothing is quantized")
    assert all(n.op_type not in ("QuantizeLinear", "DequantizeLinear") for n in onnx.load(str(tmp_path / "q.onnx")).graph.node)
    x = np.load(tmp_path / "d.npz")["x"]
    real, written = (onnxruntime.InferenceSession(str(tmp_path / n)).run(None, {"x": x})[0] for n in ("m.onnx", "q.onnx"))
    assert np.abs(real - written).max() <= 1e-5 * np.abs(real).max()


def test_a_network_that_integers_make_faster_is_in_integers(job):
    assert job(LARGE).json["float_ops"] == []


def test_each_part_is_on_its_side(job):
    report = job(MIXED).json
    assert [n["name"] for n in report["float_ops"] if n["op"] == "Conv"] == [f"conv{k}" for k in range(8)]


@pytest.mark.parametrize("options", (("--prefer", "integers"), ("--prefer", "size"), ("--require-integer",), ("--target", "openvino")))
def test_options_keep_integers(options, job):
    floats = job(SMALL, *options).json["float_ops"]
    assert not [n for n in floats if n["op"] in ("Conv", "Gemm")], floats


def test_a_named_type_keeps_its_layer_in_integers(job):
    report = job(SMALL, "--weight-type", "int8:conv3").json
    assert "conv3" not in {n["name"] for n in report["float_ops"]}


def test_a_tiny_network_is_in_float_if_integers_take_longer(job):
    tiny = [(16, 16, 1, 16, 4), (16, 16, 1, 1, 1)]
    report = job(tiny).json
    assert report["quantized_ops"] == 0 and report["cost"]["latency"] == pytest.approx(1, abs=0.01)
    assert job(tiny, "--prefer", "integers").json["cost"]["latency"] > 1.1


@pytest.mark.parametrize("wish", (("--io-type", "uint8"), ("--format", "encodings"), ("--format", "annotated"), ("--format", "qoperator")))
def test_files_that_need_integers_have_them(wish, job):
    report = job([(16, 16, 1, 16, 4), (16, 16, 1, 1, 1)], *wish).json
    assert report["quantized_ops"] >= 2 and not report["float_ops"]


@pytest.mark.parametrize("sides", (("H", "W"), (SIDE, "W")))
def test_free_sizes_are_those_of_the_samples(sides, job):
    fixed, free = job(SMALL).json, job(SMALL, sides=sides).json
    assert [n["name"] for n in free["float_ops"] if n["op"] == "Conv"] == [n["name"] for n in fixed["float_ops"] if n["op"] == "Conv"]
    assert free["cost"]["latency"] == pytest.approx(fixed["cost"]["latency"], abs=0.02)
    assert job(LARGE, sides=sides).json["float_ops"] == []


def test_sizes_of_samples_count_in_any_order_and_from_statistics(qcalib, tmp_path):
    """Placement depends on the largest sample, whatever the order, and statistics of shards know it."""
    save(tmp_path / "m.onnx", MIXED, tmp_path / "d.npz", ("H", "W"))
    rng = np.random.default_rng(5)
    images = [rng.standard_normal((16, 8 * k, 80 - 10 * k)).astype(np.float32) for k in (4, 1, 3, 2, 5, 4)]
    for folder, order in (("ab", images), ("ba", images[::-1])):
        (tmp_path / folder).mkdir()
        for k, image in enumerate(order):
            np.savez(tmp_path / folder / f"{k}.npz", x=image)
        job = ("--method", "mse", "--effort", "low", "--advice", "off", "--no-report", "m.onnx")
        qcalib("--data", folder, *job, "-o", f"{folder}.onnx")
        for shard in range(2):
            qcalib("collect", "--data", folder, "--shard", f"{shard}/2", "m.onnx", "-o", f"{shard}.h5")
        qcalib("merge", "0.h5", "1.h5", "-o", "all.h5")
        qcalib("--stats", "all.h5", *job, "-o", f"{folder}.stats.onnx")
    written = [(tmp_path / f"{name}.onnx").read_bytes() for name in ("ab", "ba", "ab.stats", "ba.stats")]
    assert all(w == written[0] for w in written)
    kinds = [n.op_type for n in onnx.load_from_string(written[0]).graph.node]
    assert "DequantizeLinear" in kinds and "Relu" in kinds, "integers beside float"
    assert qcalib("inspect", "--json", "all.h5").json["version"] == 6


class Matrices:
    """Products with matrices, each with a bias and a Relu, of rows of a sequence."""

    def __init__(self, folder, rows, sizes, free=False):
        rng = np.random.default_rng(5)
        nodes, tensors, x = [], [], "x"
        for k, (c_in, c_out) in enumerate(zip(sizes, sizes[1:])):
            tensors.append(numpy_helper.from_array((rng.standard_normal((c_in, c_out)) / c_in**0.5).astype(np.float32), f"w{k}"))
            tensors.append(numpy_helper.from_array(rng.standard_normal(c_out).astype(np.float32), f"b{k}"))
            nodes.append(helper.make_node("MatMul", [x, f"w{k}"], [f"p{k}"], f"product{k}"))
            nodes.append(helper.make_node("Add", [f"p{k}", f"b{k}"], [f"s{k}"], f"bias{k}"))
            nodes.append(helper.make_node("Relu", [f"s{k}"], [f"r{k}"], f"relu{k}"))
            x = f"r{k}"
        value = lambda name, last: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", "T" if free else rows, last])
        graph = helper.make_graph(nodes, "g", [value("x", sizes[0])], [value(x, sizes[-1])], tensors)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(folder / "m.onnx"))
        self.x = rng.standard_normal((8, rows, sizes[0])).astype(np.float32)
        np.savez(folder / "d.npz", x=self.x)


NARROW = (12, *[32] * 12)  # of 12 products, each of 32 columns


@pytest.mark.parametrize("free", (False, True))
def test_weights_of_float_operators_take_8_bits_and_no_time(free, qcalib, tmp_path):
    """ONNX Runtime folds what converts them when it loads the file: its graph is that of the float model."""
    net = Matrices(tmp_path, 4, NARROW, free)
    done = qcalib("--data", "d.npz", "--json", "--no-report", "-o", "q.onnx", "m.onnx")
    reasons = {n["reason"] for n in done.json["float_ops"] if n["op"] == "MatMul" and n["name"] != "product0"}
    assert len(reasons) == 1 and next(iter(reasons)).startswith("faster in float")
    stored = {l["node"]: l["type"] for l in done.json["layers"] if l["kind"] == "weight"}
    assert {f"product{i}" for i in range(1, len(NARROW) - 1)} <= set(stored) and set(stored.values()) == {"i8"}
    assert "only weights are stored in 8 bits" in done.err
    assert done.json["cost"]["processors"] == {name: pytest.approx(1, abs=0.01) for name in ("avx512-vnni", "avx2", "amx")}
    sizes, graphs, outputs = [], [], []
    for name in ("m.onnx", "q.onnx"):
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        session = onnxruntime.InferenceSession(str(tmp_path / name), options)
        sizes.append((tmp_path / name).stat().st_size)
        graphs.append([n.op_type for n in onnx.load(str(tmp_path / "optimized.onnx")).graph.node])
        outputs.append(session.run(None, {"x": net.x[:1]})[0])
    assert graphs[0] == graphs[1]
    assert sizes[1] < 0.6 * sizes[0]
    assert 0 < np.abs(outputs[0] - outputs[1]).max() < 0.05 * np.abs(outputs[0]).max()


def test_a_run_gives_the_results_of_the_runtime(qcalib, tmp_path):
    """Also of a file whose weights are converted by operators."""
    net = Matrices(tmp_path, 4, NARROW)
    qcalib("--data", "d.npz", "--no-report", "-o", "q.onnx", "m.onnx")
    qcalib("run", "--data", "d.npz", "-o", "y.h5", "q.onnx")
    theirs = onnxruntime.InferenceSession(str(tmp_path / "q.onnx")).run(None, {"x": net.x[:1]})[0]
    with h5py.File(tmp_path / "y.h5") as f:
        (ours,) = (f[name][:1] for name in f)
    assert np.abs(ours - theirs).max() <= 1e-5 * np.abs(theirs).max()


def test_size_keeps_them_in_integers(qcalib, tmp_path):
    Matrices(tmp_path, 4, NARROW)
    done = qcalib("--data", "d.npz", "--json", "--no-report", "--prefer", "size", "-o", "q.onnx", "m.onnx")
    assert not [n for n in done.json["float_ops"] if n["op"] == "MatMul"]
    assert done.json["cost"]["latency"] > 1.05


def test_weights_before_a_logarithm_stay_in_float(qcalib, tmp_path):
    """All layers are faster in float. Of those, weights are stored in 8 bits, but for the last one: a logarithm of its squares follows."""
    layers = [(64, 64, 5, 64, 1)] * 6
    save(tmp_path / "m.onnx", layers, tmp_path / "d.npz")
    model = onnx.load(str(tmp_path / "m.onnx"))
    (mean,) = (n for n in model.graph.node if n.name == "mean")
    last = mean.input[0]
    mean.input[0] = "logarithm"
    at = list(model.graph.node).index(mean)
    model.graph.initializer.append(numpy_helper.from_array(np.array(1e-6, np.float32), "eps"))
    for k, node in enumerate((helper.make_node("Mul", [last, last], ["square"]), helper.make_node("Add", ["square", "eps"], ["sum"]),
                              helper.make_node("Log", ["sum"], ["logarithm"]))):
        model.graph.node.insert(at + k, node)
    onnx.save(model, str(tmp_path / "m.onnx"))
    qcalib("--data", "d.npz", "--effort", "low", "--advice", "off", "--no-report", "-o", "q.onnx", "m.onnx")
    types = {i.name: i.data_type for i in onnx.load(str(tmp_path / "q.onnx")).graph.initializer if np.prod(i.dims) == 64 * 25}
    assert sorted(types.values()) == [TensorProto.FLOAT] + [TensorProto.INT8] * 5, types
    assert types["w5"] == TensorProto.FLOAT


def test_a_float_value_in_a_chain_of_residual_blocks_costs_their_layout(qcalib, tmp_path):
    """ONNX Runtime then moves the channels of every block back and forth, and pools with channels first. The same chain
    between integers keeps channels last."""
    rng, blocks, channels = np.random.default_rng(4), 4, 32
    tensors = {"first": rng.standard_normal((channels, 3, 3, 3)), "last": rng.standard_normal((8, channels, 1, 1))}
    nodes = [helper.make_node("Conv", ["x", "first"], ["r0"], "entry", pads=[1] * 4)]
    for k in range(blocks):
        tensors[f"w{k}"] = rng.standard_normal((channels, channels, 3, 3)) / 30
        nodes.append(helper.make_node("Conv", [f"r{k}", f"w{k}"], [f"c{k}"], f"conv{k}", pads=[1] * 4))
        nodes.append(helper.make_node("Add", [f"r{k}", f"c{k}"], [f"r{k + 1}"], f"sum{k}"))
    nodes.append(helper.make_node("MaxPool", [f"r{blocks}"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]))
    nodes.append(helper.make_node("Conv", ["p", "last"], ["y"], "end"))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 24, 24])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 12, 12])],
        [numpy_helper.from_array(t.astype(np.float32), n) for n, t in tensors.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(tmp_path / "m.onnx"))
    np.savez(tmp_path / "d.npz", x=rng.standard_normal((8, 3, 24, 24)).astype(np.float32))
    job = ("--data", "d.npz", "--effort", "low", "--advice", "off", "--no-report", "--json", "m.onnx", "--prefer", "integers")
    found = {}
    for name, options in {"integers": (), "entered": ("--skip", "entry")}.items():
        cost = qcalib(*job, "-o", f"{name}.onnx", *options).json["cost"]
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / f"{name}.run.onnx")
        onnxruntime.InferenceSession(str(tmp_path / f"{name}.onnx"), options, providers=["CPUExecutionProvider"])
        ops = [n.op_type for n in onnx.load(tmp_path / f"{name}.run.onnx").graph.node]
        found[name] = (cost["latency"], ops.count("Transpose"), "NhwcMaxPool" in ops)
    assert found["integers"][1] <= 2 and found["integers"][2]
    assert found["entered"][1] >= 2 * blocks and not found["entered"][2]
    assert found["entered"][0] > found["integers"][0] + 0.3


def chain(folder, x, nodes, tensors):
    """A network of these nodes, from "x" to "y", and samples like x."""
    rng = np.random.default_rng(4)
    shapes = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *x]), helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    weights = [numpy_helper.from_array(t.astype(np.float32), n) for n, t in tensors.items()]
    graph = helper.make_graph(nodes, "g", shapes[:1], shapes[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(folder / "m.onnx"))
    np.savez(folder / "d.npz", x=rng.standard_normal((8, *x)).astype(np.float32))


def estimates(qcalib, folder):
    """The job's estimates, of the default and of all in integers, and operators of the latter in ONNX Runtime."""
    job = ("--data", "d.npz", "--effort", "low", "--advice", "off", "--no-report", "--json", "m.onnx")
    default = qcalib(*job, "-o", "q.onnx").json
    integers = qcalib(*job, "-o", "i.onnx", "--prefer", "integers").json["cost"]["processors"]
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(folder / "run.onnx")
    onnxruntime.InferenceSession(str(folder / "i.onnx"), options, providers=["CPUExecutionProvider"])
    return default, integers, [n.op_type for n in onnx.load(folder / "run.onnx").graph.node]


def test_convolutions_of_one_dimension_between_float_sums_cost_their_layout(qcalib, tmp_path):
    """Those of integers have channels last: ONNX Runtime transposes what they read and make. A network of three such
    blocks with states took 1.23 of the float time in integers, on an Intel Xeon with AMX."""
    rng, nodes, tensors, value = np.random.default_rng(4), [], {}, "x"
    for k in range(3):
        tensors |= {f"a{k}": rng.standard_normal((48, 24, 3)) / 8, f"b{k}": rng.standard_normal((24, 48, 1)) / 7}
        nodes += [helper.make_node("Conv", [value, f"a{k}"], [f"c{k}"], f"wide{k}", pads=[1, 1]), helper.make_node("Relu", [f"c{k}"], [f"r{k}"])]
        nodes += [helper.make_node("Conv", [f"r{k}", f"b{k}"], [f"d{k}"], f"back{k}"), helper.make_node("Add", [value, f"d{k}"], [f"s{k}"])]
        nodes += [helper.make_node("Softmax", [f"s{k}"], [f"y{k}" if k < 2 else "y"], axis=-1)]
        value = f"y{k}"
    chain(tmp_path, (24, 8), nodes, tensors)
    default, integers, ops = estimates(qcalib, tmp_path)
    assert ops.count("Transpose") >= 4
    assert integers["amx"] > 1.05
    assert default["cost"]["processors"]["amx"] <= 1.05


def test_resize_of_the_nearest_element_is_slow_on_integers(qcalib, tmp_path):
    """With channels last, 1 ns for each result in place of 0.1: a decoder took 1.16 of the float time in integers, on an
    Intel Xeon with AMX."""
    rng, nodes, value, channels = np.random.default_rng(4), [], "x", (24, 16, 8, 8)
    tensors = {"scales": np.array([1, 1, 2, 2])}
    for k, (read, made) in enumerate(zip(channels, channels[1:])):
        tensors[f"w{k}"] = rng.standard_normal((made, read, 1, 1)) / read**0.5
        nodes += [helper.make_node("Conv", [value, f"w{k}"], [f"c{k}"], f"conv{k}"), helper.make_node("Relu", [f"c{k}"], [f"r{k}"])]
        value = "y" if k == 2 else f"u{k}"
        nodes += [helper.make_node("Resize", [f"r{k}", "", "scales"], [value], f"up{k}", mode="nearest", nearest_mode="floor", coordinate_transformation_mode="asymmetric")]
    chain(tmp_path, (24, 8, 8), nodes, tensors)
    default, integers, _ = estimates(qcalib, tmp_path)
    assert min(integers.values()) > 1.05
    assert max(default["cost"]["processors"].values()) <= 1.05


@pytest.mark.parametrize("channels, copied", [(12, True), (16, False)])
def test_integer_convolutions_of_few_channels_copy_their_windows(channels, copied, qcalib, tmp_path):
    """ONNX Runtime copies each row of a window, if a convolution makes fewer than 16 channels: 7 rows of 12 elements take
    twice the time of the whole convolution in float. A pitch detector of such layers took 1.14 of the float time in
    integers, on an Intel Xeon with AMX."""
    rng, nodes, tensors, value = np.random.default_rng(4), [], {}, "x"
    for k in range(4):
        tensors[f"w{k}"] = rng.standard_normal((channels, channels, 7, 1)) / 9
        nodes.append(helper.make_node("Conv", [value, f"w{k}"], [f"c{k}"], f"conv{k}", pads=[3, 0, 3, 0]))
        value = "y" if k == 3 else f"r{k}"
        nodes.append(helper.make_node("Relu", [f"c{k}"], [value]))
    chain(tmp_path, (channels, 32, 32), nodes, tensors)
    default, integers, _ = estimates(qcalib, tmp_path)
    assert integers["amx"] > 1.5 if copied else integers["amx"] < 0.9, integers
    assert (default["cost"]["latency"] == 1) == copied, default["cost"]


def test_weights_that_are_inputs_make_the_float_model_slower(qcalib, tmp_path):
    """A caller may replace them from IR version 4 on, so ONNX Runtime does not order them in blocks of channels: a face
    detector takes 2.7 times as long as with constants."""
    rng, nodes, tensors, value = np.random.default_rng(4), [], {}, "x"
    for k in range(3):
        tensors[f"w{k}"] = rng.standard_normal((32, 32, 3, 3)) / 17
        nodes.append(helper.make_node("Conv", [value, f"w{k}"], [value := f"c{k}" if k < 2 else "y"], f"conv{k}", pads=[1] * 4))
    chain(tmp_path, (32, 32, 32), nodes, tensors)
    model, found = onnx.load(tmp_path / "m.onnx"), {}
    model.opset_import[0].version = 9
    weights = [helper.make_tensor_value_info(n, TensorProto.FLOAT, t.shape) for n, t in tensors.items()]
    for name, version, inputs in (("constant", 4, []), ("old", 3, weights), ("given", 4, weights)):
        model.ir_version = version
        del model.graph.input[1:]
        model.graph.input.extend(inputs)
        onnx.save(model, str(tmp_path / "m.onnx"))
        job = ("--data", "d.npz", "--effort", "low", "--advice", "off", "--no-report", "--json", "m.onnx", "-o", f"{name}.onnx")
        found[name] = qcalib(*job).json["cost"]["processors"]["amx"]
    assert found["old"] == found["constant"]
    assert found["given"] < 0.75 * found["constant"]


def test_hard_swish_as_four_operators_makes_the_float_model_slower(qcalib, tmp_path):
    """The file has HardSwish, which ONNX Runtime computes with a float convolution: a layout detector takes 0.49 of the time."""
    rng, found = np.random.default_rng(4), {}
    tensors = {"w": rng.standard_normal((32, 32, 1, 1)) / 6, "three": np.array(3.0), "zero": np.array(0.0), "six": np.array(6.0)}
    one = [helper.make_node("HardSwish", ["c"], ["y"])]
    four = [helper.make_node("Add", ["c", "three"], ["s"]), helper.make_node("Clip", ["s", "zero", "six"], ["r"])]
    four += [helper.make_node("Mul", ["c", "r"], ["p"]), helper.make_node("Div", ["p", "six"], ["y"])]
    for name, nodes in {"one": one, "four": four}.items():
        chain(tmp_path, (32, 32, 32), [helper.make_node("Conv", ["x", "w"], ["c"], "conv"), *nodes], tensors)
        job = ("--data", "d.npz", "--effort", "low", "--advice", "off", "--no-report", "--json", "m.onnx", "-o", f"{name}.onnx")
        found[name] = qcalib(*job).json["cost"]["latency"]
    assert found["four"] < 0.9 * found["one"]
