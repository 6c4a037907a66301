# SPDX-License-Identifier: Apache-2.0
"""--weight-block: weights with a scale for each block, as DequantizeLinear with block_size and as MatMulNBits."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

WEIGHTS = {"wq": (72, 48), "wk": (72, 40), "wg": (20, 48), "wc": (12, 72, 1, 1)}
RANDOM = np.random.default_rng(17)
VALUES = {n: RANDOM.standard_t(4, s).astype("f4") * 0.1 for n, s in WEIGHTS.items()}


@pytest.fixture
def model(tmp_path):
    """A product of rank 3 with its bias, one without, a Gemm that reads its weight turned, and a convolution of one tap; what they read is correlated, as activations are."""
    value, node = helper.make_tensor_value_info, helper.make_node
    constants = VALUES | {"bq": RANDOM.normal(size=48).astype("f4"), "bg": RANDOM.normal(size=20).astype("f4")}
    nodes = [
        node("MatMul", ["x", "wq"], ["q"], "q"),
        node("Add", ["q", "bq"], ["qb"]),
        node("Relu", ["qb"], ["r"]),
        node("MatMul", ["x", "wk"], ["k"], "k"),
        node("ReduceMean", ["r"], ["m"], axes=[1], keepdims=0),
        node("Gemm", ["m", "wg", "bg"], ["g"], "g", transB=1),
        node("Conv", ["im", "wc"], ["c"], "c"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["n", 5, 72]), value("im", TensorProto.FLOAT, ["n", 72, 3, 3])],
        [
            value("k", TensorProto.FLOAT, ["n", 5, 40]),
            value("g", TensorProto.FLOAT, ["n", 20]),
            value("c", TensorProto.FLOAT, ["n", 12, 3, 3]),
        ],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "model.onnx"
    )
    mix = RANDOM.normal(size=(20, 72)).astype("f4")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = RANDOM.normal(size=(64, 5, 20)).astype("f4") @ mix
        file["im"] = (RANDOM.normal(size=(64, 9, 20)).astype("f4") @ mix).transpose(0, 2, 1).reshape(64, 72, 3, 3)
    return tmp_path / "model.onnx"


def feeds(folder):
    with h5py.File(folder / "data.h5") as file:
        return {n: file[n][:] for n in ("x", "im")}


def session(path, *taken, optimize=False):
    """With initializers and inner values as outputs too."""
    m = onnx.load(path)
    for name in taken:
        if name not in {o.name for o in m.graph.output}:
            m.graph.output.append(onnx.ValueInfoProto(name=name))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    if not optimize:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(m.SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(path, folder, *taken, **how):
    s = session(path, *taken, **how)
    names = [o.name for o in s.get_outputs()]
    return dict(zip(names, s.run(names, feeds(folder))))


def quantize(qcalib, model, out, *options):
    return qcalib("--data", "data.h5", "--weight-block", 32, *options, "--json", "--no-report", "-o", out, model).json


def blocks_of(path):
    """Name of the real weight: node, integers, scales and zero points, in the shape of the weight."""
    graph, found = onnx.load(path).graph, {}
    constants = {i.name: i for i in graph.initializer}
    for n in graph.node:
        attrs = {a.name: helper.get_attribute_value(a) for a in n.attribute}
        if n.op_type != "DequantizeLinear" or "block_size" not in attrs:
            continue
        stored = numpy_helper.to_array(constants[n.input[0]]).astype("i4")
        spread = [
            np.repeat(numpy_helper.to_array(constants[i]), attrs["block_size"], attrs["axis"]).take(
                range(stored.shape[attrs["axis"]]), attrs["axis"]
            )
            for i in n.input[1:]
        ]
        found[n.output[0]] = (
            constants[n.input[0]].data_type,
            stored,
            spread[0],
            spread[1].astype("i4") if len(spread) > 1 else 0,
            attrs,
        )
    return found


TYPES = {
    "int4": (TensorProto.INT4, -8, 7),
    "uint4": (TensorProto.UINT4, 0, 15),
    "int3": (TensorProto.INT4, -4, 3),
    "int2": (TensorProto.INT2, -2, 1),
    "int8": (TensorProto.INT8, -128, 127),
}


@pytest.mark.parametrize("name", TYPES)
def test_qdq(qcalib, model, tmp_path, name):
    stored_as, lowest, highest = TYPES[name]
    report = quantize(
        qcalib,
        model,
        "q.onnx",
        "--activation-type",
        "none",
        "--weight-type",
        name,
        *(["--symmetric=none"] if name == "uint4" else []),
    )
    found = blocks_of(tmp_path / "q.onnx")
    assert sorted(v[1].shape for v in found.values()) == sorted(WEIGHTS.values())
    real = run(tmp_path / "q.onnx", tmp_path, *found)
    for output, (dtype, stored, scale, zero, attrs) in found.items():
        wide = stored.shape[-1] % 4 and name == "int2"  # rows of int2 that do not fill bytes
        assert dtype == (TensorProto.INT4 if wide else stored_as) and attrs["block_size"] == 32
        assert attrs["axis"] == (1 if len(stored.shape) == 4 or stored.shape == (20, 48) else 0)
        assert lowest <= stored.min() and stored.max() <= highest and stored.min() != stored.max()
        assert np.array_equal(real[output], (stored - zero).astype("f4") * scale)  # bit for bit
        weight = next(v for v in VALUES.values() if v.shape == stored.shape)
        assert (
            np.square(real[output] - weight).sum()
            < {"int8": 1e-3, "int4": 0.1, "uint4": 0.1}.get(name, 1) * np.square(weight).sum()
        )
    ours = qcalib("run", "q.onnx", "--data", "data.h5", "-o", "ours.h5")
    with h5py.File(tmp_path / "ours.h5") as file:
        for n in ("k", "g", "c"):
            assert np.abs(file[n][:] - real[n]).max() < 1e-5 * np.abs(real[n]).max(), n
    layers = [l for l in report["layers"] if l["kind"] == "weight"]
    assert {l["block"] for l in layers} == {32} and len(layers) == 4
    for l in layers:
        assert (
            l["weight_rounding"]["method"] == "compensated"
            and l["weight_rounding"]["error"] < l["weight_rounding"]["error_nearest"]
        )
    assert "quantized" not in ours.err


def test_zero_points(qcalib, model, tmp_path):
    """Blocks of fewer than 8 bits have zero points unless --symmetric is given, and are the more accurate for it."""
    errors = {}
    for name, options in {"zeros": [], "symmetric": ["--symmetric"]}.items():
        quantize(qcalib, model, "q.onnx", "--activation-type", "none", "--weight-type", "int4", *options)
        found = blocks_of(tmp_path / "q.onnx")
        assert {np.any(zero) for *_, zero, _ in found.values()} == {name == "zeros"}
        real, float_outputs = run(tmp_path / "q.onnx", tmp_path), run(model, tmp_path)
        errors[name] = {n: np.square(real[n] - float_outputs[n]).sum() for n in ("k", "g", "c")}
    for n, error in errors["zeros"].items():
        assert error < 0.9 * errors["symmetric"][n], n


@pytest.mark.parametrize("options, small", [([], TensorProto.INT8), (["--weight-type", "int4:small"], TensorProto.INT4)])
def test_smallest_in_8_bits(qcalib, tmp_path, options, small):
    """The smallest products, a fifteenth of all weights together, have 8 bits beside others of fewer."""
    value, node = helper.make_tensor_value_info, helper.make_node
    constants = {"a": (72, 96), "b": (96, 40), "c": (40, 5)}
    graph = helper.make_graph(
        [node("MatMul", ["x", "a"], ["y"], "large"), node("MatMul", ["y", "b"], ["z"], "middle"), node("MatMul", ["z", "c"], ["w"], "small")],
        "g",
        [value("x", TensorProto.FLOAT, ["n", 5, 72])],
        [value("w", TensorProto.FLOAT, ["n", 5, 5])],
        [numpy_helper.from_array(RANDOM.normal(size=s).astype("f4"), n) for n, s in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), tmp_path / "model.onnx")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = RANDOM.normal(size=(16, 5, 72)).astype("f4")
    quantize(qcalib, "model.onnx", "q.onnx", "--activation-type", "none", "--weight-type", "int4", *options)
    stored = {v[1].shape: v[0] for v in blocks_of(tmp_path / "q.onnx").values()}
    assert stored == {(72, 96): TensorProto.INT4, (96, 40): TensorProto.INT4, (40, 5): small}


@pytest.mark.parametrize("name, bits", [("int4", 4), ("uint4", 4), ("int3", 4), ("uint2", 2), ("uint8", 8)])
def test_matmul_nbits(qcalib, model, tmp_path, name, bits):
    options = ["--activation-type", "none", "--weight-type", name] + (["--symmetric=none"] if name[0] == "u" else [])
    quantize(qcalib, model, "q.onnx", *options)
    quantize(qcalib, model, "o.onnx", *options, "--format", "qoperator", "--accuracy-level", 1)
    nodes = [n for n in onnx.load(tmp_path / "o.onnx").graph.node if n.op_type == "MatMulNBits"]
    assert len(nodes) == 3
    for n in nodes:
        attrs = {a.name: a.i for a in n.attribute}
        assert attrs["bits"] == bits and attrs["block_size"] == 32 and attrs["accuracy_level"] == 1
    expected, fused = run(tmp_path / "q.onnx", tmp_path), run(tmp_path / "o.onnx", tmp_path, optimize=True)
    qcalib("run", "o.onnx", "--data", "data.h5", "-o", "ours.h5")
    with h5py.File(tmp_path / "ours.h5") as file:
        for n in ("k", "g", "c"):
            bound = 2e-5 * np.abs(expected[n]).max()
            assert np.abs(fused[n] - expected[n]).max() < bound and np.abs(file[n][:] - expected[n]).max() < bound, n


def test_fused_by_the_runtime(qcalib, model, tmp_path):
    """The QDQ form becomes MatMulNBits, but for the weight that is read turned."""
    quantize(qcalib, model, "q.onnx", "--activation-type", "none", "--weight-type", "int4")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "q.onnx"), options, providers=["CPUExecutionProvider"])
    assert sum(n.op_type == "MatMulNBits" for n in onnx.load(tmp_path / "fused.onnx").graph.node) == 2


def test_activations_in_8_bits(qcalib, model, tmp_path):
    """Products and the convolution of one tap read quantized activations and weights in blocks as real numbers; with 8 bits the convolution has integers, per channel."""
    quantize(qcalib, model, "q.onnx", "--weight-type", "int4", "--weight-type", "int8:c")
    assert sorted(v[1].shape for v in blocks_of(tmp_path / "q.onnx").values()) == sorted(
        s for n, s in WEIGHTS.items() if n != "wc"
    )
    quantize(qcalib, model, "q.onnx", "--weight-type", "int4")
    found, graph = blocks_of(tmp_path / "q.onnx"), onnx.load(tmp_path / "q.onnx").graph
    assert sorted(v[1].shape for v in found.values()) == sorted(WEIGHTS.values())
    made = {o: n for n in graph.node for o in n.output}
    for n in graph.node:
        if n.op_type in ("MatMul", "Gemm", "Conv"):
            assert made[n.input[0]].op_type == "DequantizeLinear" and n.input[1] in found
    real = run(tmp_path / "q.onnx", tmp_path)
    qcalib("run", "q.onnx", "--data", "data.h5", "-o", "ours.h5")
    with h5py.File(tmp_path / "ours.h5") as file:
        for n in ("k", "g", "c"):
            assert np.abs(file[n][:] - real[n]).max() < 0.02 * np.abs(real[n]).max(), n


def test_types_by_name(qcalib, model, tmp_path):
    quantize(
        qcalib,
        model,
        "q.onnx",
        "--activation-type",
        "none",
        "--weight-type",
        "int4",
        "--weight-type",
        "int8:k",
        "--weight-type",
        "int16:q",
    )
    assert {v[1].shape: v[0] for v in blocks_of(tmp_path / "q.onnx").values()} == {
        (72, 40): TensorProto.INT8,
        (20, 48): TensorProto.INT4,
        (12, 72, 1, 1): TensorProto.INT4,
    }


def test_hardware_of_integers_has_no_blocks(qcalib, model, tmp_path):
    report = quantize(qcalib, model, "q.onnx", "--weight-type", "int4", "--target", "fused")
    assert any("--weight-block" in w for w in report["warnings"]) and not blocks_of(tmp_path / "q.onnx")


TABLE = RANDOM.standard_t(4, (80, 72)).astype("f4") * RANDOM.gamma(1, size=(80, 1)).astype("f4")


def save_table(tmp_path, outputs):
    """Rows that leave the model, and a product of them; some are counted from the end."""
    constants = {"table": TABLE, "w": RANDOM.normal(size=(72, outputs)).astype("f4")}
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "ids"], ["rows"], "take"),
            helper.make_node("MatMul", ["rows", "w"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n", 5])],
        [
            helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", 5, 72]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 5, outputs]),
        ],
        [numpy_helper.from_array(v, n) for n, v in constants.items()],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), tmp_path / "model.onnx"
    )
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["ids"] = RANDOM.integers(-80, 80, (32, 5))
    return tmp_path / "model.onnx"


@pytest.fixture
def table(tmp_path):
    return save_table(tmp_path, 9)


@pytest.mark.parametrize(
    "name, bits, least_db", (("int8", 8, 42), ("int4:Gather", 4, 18), ("uint4:take", 4, 19), ("int2:Gather", 2, 4))
)
def test_tables(qcalib, table, tmp_path, name, bits, least_db):
    """Rows of a table in blocks: of both forms the same bits, here and there; of fewer than 8 bits only where that is said by name."""
    with h5py.File(tmp_path / "data.h5") as file:
        ids = file["ids"][:]
    found = {}
    for form in ("qdq", "qoperator"):
        quantize(
            qcalib,
            table,
            f"{form}.onnx",
            "--activation-type",
            "none",
            "--weight-type",
            "int4",
            *(["--weight-type", name] if ":" in name else []),
            *(["--symmetric=none"] if name[0] == "u" else []),
            "--format",
            form,
            "--accuracy-level",
            1,
        )
        found[form] = session(tmp_path / f"{form}.onnx", optimize=True).run(["rows"], {"ids": ids})[0]
        qcalib("run", f"{form}.onnx", "--data", "data.h5", "-o", "ours.h5")
        with h5py.File(tmp_path / "ours.h5") as file:
            assert np.array_equal(file["rows"][:], found[form]), form
    assert np.array_equal(found["qdq"], found["qoperator"])
    error = found["qdq"] - TABLE[ids]
    assert 10 * np.log10(np.square(TABLE[ids]).sum() / np.square(error).sum()) > least_db
    stored = {(i.data_type, *i.dims) for i in onnx.load(tmp_path / "qdq.onnx").graph.initializer}
    kind = TensorProto.INT8 if bits == 8 else TensorProto.UINT4 if name[0] == "u" else TensorProto.INT4
    assert stored >= {(kind, 80, 72), (TensorProto.FLOAT, 80, 3)} | ({(kind, 80, 3)} if bits < 8 else set())
    (taken,) = [n for n in onnx.load(tmp_path / "qoperator.onnx").graph.node if n.op_type == "GatherBlockQuantized"]
    assert {a.name: a.i for a in taken.attribute} == {
        "bits": bits,
        "block_size": 32,
        "gather_axis": 0,
        "quantize_axis": 1,
    } and len(taken.input) == 3 + (bits < 8)
    assert {
        tuple(i.dims)
        for i in onnx.load(tmp_path / "qoperator.onnx").graph.initializer
        if i.data_type == TensorProto.UINT8
    } >= {(80, 9 * bits)}


@pytest.mark.parametrize("form", ("qdq", "qoperator"))
def test_a_small_table_has_16_bits_beside_8(qcalib, tmp_path, form):
    """A hundredth of the weights that loses more than all others; 8 where that is said by name, or it is not small."""
    model = save_table(tmp_path, 8100)
    rows = {}
    for name, more in {"as it is": [], "by name": ["--weight-type", "int8:Gather"]}.items():
        how = ["--weight-type", "int8", "--activation-type", "none", "--weight-rounding", "nearest", *more]
        quantize(qcalib, model, "q.onnx", *how, "--format", form)
        with h5py.File(tmp_path / "data.h5") as file:
            ids = file["ids"][:]
        rows[name] = session(tmp_path / "q.onnx", optimize=True).run(["rows"], {"ids": ids})[0]
    error = {name: np.square(v - TABLE[ids]).sum() for name, v in rows.items()}
    assert 0 < error["as it is"] < 1e-3 * error["by name"]


def test_a_scale_of_all_is_no_block(qcalib, model):
    assert "--weight-block" in qcalib("--data", "data.h5", "--weight-block", 32, "--per-tensor", model, code=2).err
