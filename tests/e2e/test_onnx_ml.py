# SPDX-License-Identifier: Apache-2.0
"""ONNX-ML operators around a neural network, as in scikit-learn's models: numeric operators are computed, those on
texts and maps are carried through, and the network between them is quantized. Reference: ONNX Runtime."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

ML, SAMPLES, FEATURES, CLASSES = "ai.onnx.ml", 64, 6, 4
F, I, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
RNG = np.random.default_rng(11)
WEIGHTS = {
    "w1": (RNG.normal(size=(FEATURES, 16)) / 2).astype(np.float32),
    "b1": RNG.normal(size=16).astype(np.float32),
    "w2": (RNG.normal(size=(16, CLASSES)) / 4).astype(np.float32),
    "b2": RNG.normal(size=CLASSES).astype(np.float32),
}
HIDDEN = ["MatMul", "Add", "Relu", "MatMul", "Add"]


def ml(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=f"n_{outputs[0]}", domain=ML, **attributes)


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=f"n_{outputs[0]}", **attributes)


def network(x, y):
    return [
        node("MatMul", [x, "w1"], ["h1"]),
        node("Add", ["h1", "b1"], ["h2"]),
        node("Relu", ["h2"], ["h3"]),
        node("MatMul", ["h3", "w2"], ["h4"]),
        node("Add", ["h4", "b2"], [y]),
    ]


def save(path, nodes, inputs, outputs, **more):
    constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in (WEIGHTS | more).items()]
    graph = helper.make_graph(nodes, "ml", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def ops(path):
    return [n.op_type for n in onnx.load(path).graph.node]


def is_quantized(path):
    """Both products read integers."""
    model = onnx.load(path)
    made = {o: n for n in model.graph.node for o in n.output}
    products = [n for n in model.graph.node if n.op_type in ("MatMul", "Gemm")]
    return len(products) == 2 and all(made[n.input[0]].op_type == "DequantizeLinear" for n in products)


FRONTS = {
    "Scaler": (
        [
            ml(
                "Scaler",
                ["x"],
                ["z"],
                offset=RNG.normal(size=FEATURES).tolist(),
                scale=RNG.uniform(0.5, 2, FEATURES).tolist(),
            )
        ],
        F,
    ),
    "Scaler of integers": ([ml("Scaler", ["x"], ["z"], offset=[3.0], scale=[0.25])], I),
    "Normalizer L1": ([ml("Normalizer", ["x"], ["z"], norm="L1")], F),
    "Normalizer L2": ([ml("Normalizer", ["x"], ["z"], norm="L2")], F),
    "Normalizer MAX": ([node("Abs", ["x"], ["a"]), ml("Normalizer", ["a"], ["z"], norm="MAX")], F),
    "Binarizer": ([ml("Binarizer", ["x"], ["z"], threshold=0.3)], F),
    "Imputer": (
        [
            ml(
                "Imputer",
                ["x"],
                ["z"],
                imputed_value_floats=RNG.normal(size=FEATURES).tolist(),
                replaced_value_float=float("nan"),
            )
        ],
        F,
    ),
    "Imputer of a number": (
        [ml("Imputer", ["x"], ["z"], imputed_value_floats=[0.5], replaced_value_float=2.0)],
        F,
    ),
    "ArrayFeatureExtractor": ([ml("ArrayFeatureExtractor", ["x", "which"], ["z"])], F),
    "LabelEncoder": (
        [
            ml(
                "LabelEncoder",
                ["x"],
                ["z"],
                keys_int64s=[1, 2, 5, 7],
                values_floats=[0.5, -1.0, 2.0, 3.5],
                default_float=9.0,
            )
        ],
        I,
    ),
    "LabelEncoder into integers": (
        [
            ml("LabelEncoder", ["x"], ["c"], keys_int64s=[1, 2, 5, 7], values_int64s=[4, 3, 2, 1], default_int64=-3),
            node("Cast", ["c"], ["z"], to=F),
        ],
        I,
    ),
    "OneHotEncoder": (
        [
            ml("OneHotEncoder", ["x"], ["o"], cats_int64s=[0, 2, 3, 5, 7, 8]),
            node("ReduceMean", ["o"], ["z"], axes=[1], keepdims=0),
        ],
        I,
    ),
    "LinearRegressor": (
        [
            ml(
                "LinearRegressor",
                ["x"],
                ["z"],
                coefficients=RNG.normal(size=FEATURES * FEATURES).tolist(),
                intercepts=RNG.normal(size=FEATURES).tolist(),
                targets=FEATURES,
            )
        ],
        F,
    ),
}


def samples(name, dtype):
    x = np.random.default_rng(5).normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    if dtype == I:
        return np.random.default_rng(5).integers(0, 9, (SAMPLES, FEATURES))
    x[3] = 0 if "Normalizer" in name else x[3]
    if name == "Imputer":
        x[::5, 2] = np.nan
    if name == "Imputer of a number":
        x[::5, 2] = 2
    return x


@pytest.mark.integers
@pytest.mark.parametrize("name", FRONTS)
def test_in_front_of_a_network(name, qcalib, tmp_path):
    nodes, dtype = FRONTS[name]
    x = samples(name, dtype)
    which = {"which": np.int64([5, 0, 2, 2, 1, 3])} if name == "ArrayFeatureExtractor" else {}
    save(
        tmp_path / "m.onnx",
        nodes + network("z", "y"),
        [value("x", dtype, ["N", FEATURES])],
        [value("y", F, ["N", CLASSES])],
        **which,
    )
    expected = session(tmp_path / "m.onnx").run(None, {"x": x})[0]
    np.savez(tmp_path / "x.npz", x=x)
    qcalib("run", "m.onnx", "--data", "x.npz", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as f:
        np.testing.assert_allclose(f["y"][()].reshape(expected.shape), expected, rtol=1e-5, atol=1e-5)
    done = qcalib("--data", "x.npz", "-o", "q.onnx", "m.onnx")
    assert "not handled" not in done.err
    got = session(tmp_path / "q.onnx").run(None, {"x": x})[0]
    assert 10 * np.log10((expected**2).sum() / ((expected - got) ** 2).sum()) > 25
    graph = onnx.load(tmp_path / "q.onnx").graph
    made = {o: n for n in graph.node for o in n.output}
    products = [n for n in graph.node if n.op_type in ("MatMul", "Gemm")]
    assert len(products) >= 2 and all(made[n.input[0]].op_type == "DequantizeLinear" for n in products[-2:])


def test_many_features(qcalib, tmp_path):
    """A list for each of 3000 features, and a table of as many classes of words."""
    count = 3000
    rng = np.random.default_rng(9)
    values, offset, scale = rng.normal(size=count), rng.normal(size=count), rng.uniform(0.5, 2, count)
    values, offset, scale = (v.tolist() for v in (values, offset, scale))
    save(
        tmp_path / "m.onnx",
        [
            ml("LabelEncoder", ["x"], ["e"], keys_int64s=list(range(0, 2 * count, 2)), values_floats=values),
            ml("Scaler", ["e"], ["s"], offset=offset, scale=scale),
            node("MatMul", ["s", "wide"], ["z"]),
            *network("z", "y"),
        ],
        [value("x", I, ["N", count])],
        [value("y", F, ["N", CLASSES])],
        wide=(rng.normal(size=(count, FEATURES)) / 60).astype(np.float32),
    )
    x = rng.integers(0, 2 * count, (8, count))
    np.savez(tmp_path / "x.npz", x=x)
    qcalib("run", "m.onnx", "--data", "x.npz", "-o", "y.h5")
    expected = session(tmp_path / "m.onnx").run(None, {"x": x})[0]
    with h5py.File(tmp_path / "y.h5") as f:
        np.testing.assert_allclose(f["y"][()].reshape(expected.shape), expected, rtol=1e-4, atol=1e-4)


def classifier(path, classes):
    """As skl2onnx writes a MLPClassifier behind a StandardScaler: labels and a list of maps."""
    texts = classes.dtype.kind in "US"
    label = {"classlabels_strings" if texts else "classlabels_int64s": [str(c) if texts else int(c) for c in classes]}
    save(
        path,
        [
            ml("Scaler", ["x"], ["z"], offset=[0.1] * FEATURES, scale=[0.7] * FEATURES),
            *network("z", "logits"),
            node("Softmax", ["logits"], ["p"], axis=1),
            node("ArgMax", ["p"], ["best"], axis=1, keepdims=0),
            ml("ArrayFeatureExtractor", ["classes", "best"], ["found"]),
            node("Reshape", ["found", "flat"], ["label"]),
            ml("ZipMap", ["p"], ["maps"], **label),
        ],
        [value("x", F, ["N", FEATURES])],
        [
            value("label", S if texts else I, ["N"]),
            helper.make_value_info(
                "maps",
                helper.make_sequence_type_proto(
                    helper.make_map_type_proto(S if texts else I, helper.make_tensor_type_proto(F, []))
                ),
            ),
        ],
        classes=classes.astype(object) if texts else classes,
        flat=np.int64([-1]),
    )


@pytest.mark.integers
@pytest.mark.parametrize("classes", [np.array([3, 5, 7, 11]), np.array(["a", "bb", "c", "dd"])], ids=["numbers", "texts"])
def test_classifier(classes, qcalib, tmp_path):
    classifier(tmp_path / "m.onnx", classes)
    x = samples("x", F)
    np.savez(tmp_path / "x.npz", x=x)
    labels, maps = session(tmp_path / "m.onnx").run(None, {"x": x})
    qcalib("--data", "x.npz", "-o", "q.onnx", "m.onnx")
    got, found = session(tmp_path / "q.onnx").run(None, {"x": x})
    assert is_quantized(tmp_path / "q.onnx") and "ZipMap" in ops(tmp_path / "q.onnx")
    assert np.mean(labels == got) > 0.9
    assert max(abs(a[k] - b[k]) for a, b in zip(maps, found) for k in a) < 0.1
