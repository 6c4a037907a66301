# SPDX-License-Identifier: Apache-2.0
"""Products with constants in every form that ONNX has are quantized: the weight on the left, with more dimensions, as a
vector, in an Einsum, in a Gemm with factors. ONNX Runtime computes what `run` computes, and the float file has the
operator as it was. Reference: ONNX Runtime with the float model."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

K, M = 64, 96  # summed; channels of the result


def weight(*shape, seed=1):
    return (np.random.default_rng(seed).standard_normal(shape) / np.sqrt(K)).astype(np.float32)


# name: shape of x ("N": free), operator, its constants, where x stands among them, attributes
FORMS = {
    "left": (["N", K, 20], "MatMul", [weight(M, K)], 1, {}),
    "left of a matrix": ([K, 20], "MatMul", [weight(M, K)], 1, {}),
    "left of an image": (["N", 3, K, 20], "MatMul", [weight(M, K)], 1, {}),
    "left of a vector": ([K], "MatMul", [weight(M, K)], 1, {}),
    "left with dimensions of one": ([K, 20], "MatMul", [weight(1, 1, M, K)], 1, {}),
    "left with more dimensions of one": (["N", 3, K, 20], "MatMul", [weight(1, 1, M, K)], 1, {}),
    "left in groups": (["N", 4, K, 20], "MatMul", [weight(4, M, K)], 1, {}),
    "left Gemm": ([K, 20], "Gemm", [weight(M, K), weight(M, 1, seed=2)], 1, {"alpha": 0.5, "beta": 2.0}),
    "left Gemm of its transpose": ([20, K], "Gemm", [weight(K, M), weight(20, seed=2)], 1, {"transA": 1, "transB": 1}),
    "dimensions of one": (["N", 7, K], "MatMul", [weight(1, 1, K, M)], 0, {}),
    "small matrices": (["N", 3, 7, K], "MatMul", [weight(3, K, 12)], 0, {}),
    "small matrices for each": (["N", 1, 7, K], "MatMul", [weight(3, K, 12)], 0, {}),
    "vector": (["N", 7, K], "MatMul", [weight(K)], 0, {}),
    "Gemm with a matrix of biases": ([20, K], "Gemm", [weight(M, K), weight(20, M, seed=2)], 0, {"transB": 1}),
    "Gemm with a row of biases": ([20, K], "Gemm", [weight(K, M), weight(1, M, seed=2)], 0, {}),
    "Gemm with one bias": ([20, K], "Gemm", [weight(K, M), np.float32(0.3)], 0, {}),
    "Gemm with factors": ([20, K], "Gemm", [weight(K, M), weight(M, seed=2)], 0, {"alpha": 0.5, "beta": 0.25}),
    "Gemm of a transpose": ([K, 20], "Gemm", [weight(K, M), weight(M, seed=2)], 0, {"transA": 1}),
    "Einsum": (["N", 7, K], "Einsum", [weight(M, K)], 0, {"equation": "bsd,fd->bsf"}),
    "Einsum, implicit": (["N", 7, K], "Einsum", [weight(K, M)], 0, {"equation": "...d,df"}),
    "Einsum to heads": (["N", 7, K], "Einsum", [weight(4, K, 24)], 0, {"equation": "bsd,hdk->bhsk"}),
    "Einsum of heads": (["N", 7, 4, 16], "Einsum", [weight(4, 16, M)], 0, {"equation": "bshk,hkd->bsd"}),
    "Einsum of channels": (["N", K, 6, 8], "Einsum", [weight(M, K)], 1, {"equation": "oc,bchw->bohw"}),
    "Einsum of groups": (["N", 4, 16, 9], "Einsum", [weight(4, 16, M)], 0, {"equation": "bgct,gco->bot"}),
    "Einsum for each": (["N", 7, 4, K], "Einsum", [weight(4, K, M)], 0, {"equation": "bshd,hde->bshe"}),
    "Einsum with a vector": (["N", 7, K], "Einsum", [weight(K)], 0, {"equation": "bsd,d->bs"}),
}
# Nothing of these is a product of matrices, or a product that integers make slower.
FLOAT = {
    "matrices on the left for one": (["N", 1, K, 20], "MatMul", [weight(1, 4, M, K)], 1, {}),
    "a small matrix for each on the left": (["N", 3, 25, 20], "MatMul", [weight(3, 25, 25)], 1, {}),
    "Einsum of one vector each": (["N", 7, K], "Einsum", [weight(K)], 0, {"equation": "bsd,d->bsd"}),
    "Einsum with a sum of x": (["N", 7, K], "Einsum", [weight(K, M)], 0, {"equation": "bsd,df->bf"}),
}


def save(path, form, transposed=False, half=False):
    """The product, a relu, and a product of a usual form, so that something is quantized in any case."""
    shape, op, constants, at, attributes = form
    initializers = [numpy_helper.from_array(c, f"c{i}") for i, c in enumerate(constants)]
    names = [i.name for i in initializers]
    nodes = []
    if transposed:  # computed from a constant
        initializers[0] = numpy_helper.from_array(constants[0].T.copy(), "turned")
        nodes.append(helper.make_node("Transpose", ["turned"], ["c0"], name="turn", perm=[1, 0]))
    names.insert(at, "x")
    nodes += [helper.make_node(op, names, ["p"], name="product", **attributes), helper.make_node("Relu", ["p"], ["r"])]
    out = helper.make_empty_tensor_value_info("y")
    nodes += [helper.make_node("Flatten", ["x"], ["flat"], axis=-1), helper.make_node("MatMul", ["flat", "v"], ["z"], name="usual")]
    initializers.append(numpy_helper.from_array(weight(shape[-1], 8, seed=3), "v"))
    nodes.append(helper.make_node("Identity", ["r"], ["y"]))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], [out, helper.make_empty_tensor_value_info("z")], initializers
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if len(shape) == 1:  # Flatten of a vector
        del model.graph.node[-3:-1], model.graph.output[1]
    if half:
        convert = pytest.importorskip("onnxruntime.transformers.float16").convert_float_to_float16
        model = convert(onnx.shape_inference.infer_shapes(model), keep_io_types=True, disable_shape_infer=True)
    onnx.save(model, str(path))
    x = np.random.default_rng(4).standard_normal([24, *(2 if d == "N" else d for d in shape)]).astype(np.float32)
    np.savez(path.with_name("x.npz"), x=x if shape[0] != "N" else x.reshape(-1, *x.shape[2:]))
    return x


def computed(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return np.stack([session.run(["y"], {"x": sample})[0] for sample in x])


def sqnr(expected, got):
    assert expected.shape == got.shape
    error = np.square(expected.astype(np.float64) - got).sum()
    return 10 * np.log10(np.square(expected.astype(np.float64)).sum() / max(error, 1e-300))


def weight_types(path, form):
    """Types of the constants with at least as many elements as a matrix of the weight."""
    return {i.data_type for i in onnx.load(str(path)).graph.initializer if np.prod(i.dims) >= np.prod(form[2][0].shape[-2:]) and not i.name.startswith("v")}


def check(form, least, qcalib, tmp_path, *options, **how):
    x = save(tmp_path / "m.onnx", form, **how)
    qcalib("--data", "x.npz", *options, "m.onnx", "-o", "q.onnx", "--no-report")
    got = computed(tmp_path / "q.onnx", x)
    assert sqnr(computed(tmp_path / "m.onnx", x), got) > least
    qcalib("run", "q.onnx", "--data", "x.npz", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        assert sqnr(got, f["y"][:].reshape(got.shape)) > 100
    return x


@pytest.mark.integers
@pytest.mark.parametrize("name", FORMS)
def test_it_is_quantized(name, qcalib, tmp_path):
    check(FORMS[name], 33, qcalib, tmp_path)
    assert weight_types(tmp_path / "q.onnx", FORMS[name]) == {TensorProto.INT8}
    ops = {n.op_type for n in onnx.load(str(tmp_path / "q.onnx")).graph.node}
    assert "Einsum" not in ops and not ops & {"Shape", "Gather"}  # sizes are not computed while the model runs


@pytest.mark.parametrize("options", (("--prefer", "integers", "--target", "integers"), ("--format", "qoperator"), ("--per-tensor",)), ids=lambda o: o[-1])
@pytest.mark.parametrize("name", ("left", "left of an image", "left in groups", "left Gemm", "small matrices", "vector", "Einsum for each"))
def test_other_options(name, options, qcalib, tmp_path):
    check(FORMS[name], 30, qcalib, tmp_path, *options)


@pytest.mark.parametrize("half", (False, True), ids=("float32", "float16"))
@pytest.mark.parametrize("name", ("left", "left of an image", "Gemm with factors", "Einsum to heads", "vector", "dimensions of one"))
def test_in_float_it_is_written_as_it_was(name, half, qcalib, tmp_path):
    save(tmp_path / "m.onnx", FORMS[name], half=half)
    qcalib("--data", "x.npz", "--skip", "product", "m.onnx", "-o", "q.onnx", "--no-report")
    original, written = ({n.name: n for n in onnx.load(str(tmp_path / f"{f}.onnx")).graph.node}["product"] for f in "mq")
    assert (written.op_type, len(written.input)) == (original.op_type, len(original.input))
    assert sorted(map(str, written.attribute)) == sorted(map(str, original.attribute))
    assert weight_types(tmp_path / "q.onnx", FORMS[name]) == {TensorProto.FLOAT16 if half else TensorProto.FLOAT}


@pytest.mark.parametrize("name", ("left", "Einsum"))
def test_a_weight_that_is_computed_from_constants(name, qcalib, tmp_path):
    check(FORMS[name], 33, qcalib, tmp_path, transposed=True)
    assert weight_types(tmp_path / "q.onnx", FORMS[name]) == {TensorProto.INT8}


@pytest.mark.parametrize("name", FLOAT)
def test_what_is_no_product_stays(name, qcalib, tmp_path):
    check(FLOAT[name], 100, qcalib, tmp_path)
    shape, op, constants, _, _ = FLOAT[name]
    assert {n.name: n.op_type for n in onnx.load(str(tmp_path / "q.onnx")).graph.node}["product"] == op


@pytest.mark.parametrize("target", ("integers", "qnn", "tflite"))
@pytest.mark.parametrize("group", (2, 8))
def test_transposed_convolutions_in_groups(target, group, qcalib, tmp_path):
    """Targets with integers throughout have them; TensorFlow Lite has none in groups."""
    w = weight(8, 4, 3, 3, seed=5)
    form = (["N", 8, 6, 6], "ConvTranspose", [w, weight(4 * group, seed=6)], 0, {"group": group, "strides": [2, 2]})
    check(form, 30, qcalib, tmp_path, "--target", target)
    stored = {i.data_type for i in onnx.load(str(tmp_path / "q.onnx")).graph.initializer if np.prod(i.dims) == w.size}
    assert stored == {TensorProto.FLOAT if target == "tflite" else TensorProto.INT8}


def test_bands_of_a_spectrum_stay_in_float(qcalib, tmp_path):
    """A logarithm makes small values matter, on which side of the spectrum its matrix stands."""
    for shape, w in ((["N", 65, 20], weight(24, 65)), ([65, 20], weight(24, 65)), (["N", 2, 65, 20], weight(1, 1, 24, 65))):
        form = (shape, "MatMul", [np.abs(w)], 1, {})
        save(tmp_path / "m.onnx", form)
        model = onnx.load(str(tmp_path / "m.onnx"))
        relu = next(n for n in model.graph.node if n.op_type == "Relu")
        relu.op_type, relu.output[0] = "Clip", "clipped"
        relu.input.extend(["least"])
        model.graph.initializer.append(numpy_helper.from_array(np.float32(1e-3), "least"))
        model.graph.node.insert(2, helper.make_node("Log", ["clipped"], ["r"]))
        onnx.save(model, str(tmp_path / "m.onnx"))
        qcalib("--data", "x.npz", "m.onnx", "-o", "q.onnx", "--no-report")
        assert weight_types(tmp_path / "q.onnx", form) == {TensorProto.FLOAT}
