# SPDX-License-Identifier: Apache-2.0
"""Linear models, trees and support vectors of ai.onnx.ml, as skl2onnx writes them: `run`, `compare` and `quantize`.
Reference: ONNX Runtime."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

ML, FEATURES, SAMPLES = "ai.onnx.ml", 6, 64
F, I, S = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def floats(rng, *shape):
    return rng.normal(size=shape).astype("f").ravel().tolist()


def trees(prefix, targets, modes=MODES[:1], count=5, depth=3, one=False, sign=1, seed=3):
    """Attributes of random trees. one: the weights of every leaf are of target 0; sign 0: of both signs."""
    rng = np.random.default_rng(seed)
    a = {f"nodes_{k}": [] for k in ("treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true")}
    a |= {f"{prefix}_{k}": [] for k in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(count):
        last = 2**depth - 1
        for node in range(2 * last + 1):
            leaf = node >= last
            for key, value in {
                "treeids": tree, "nodeids": node, "featureids": 0 if leaf else int(rng.integers(FEATURES)),
                "modes": "LEAF" if leaf else str(rng.choice(modes)), "values": 0.0 if leaf else float(rng.integers(-2, 3) / 2),
                "truenodeids": 0 if leaf else 2 * node + 1, "falsenodeids": 0 if leaf else 2 * node + 2,
                "missing_value_tracks_true": int(rng.integers(2)),
            }.items():  # fmt: skip
                a[f"nodes_{key}"].append(value)
            for target in [] if not leaf else [0] if one else range(targets) if tree % 2 else [int(rng.integers(targets))]:
                weight = abs(rng.normal()) / count if sign else rng.normal()
                for key, value in {"treeids": tree, "nodeids": node, "ids": target, "weights": float(np.float32(weight))}.items():
                    a[f"{prefix}_{key}"].append(value)
    return a


def machine(classes, kernel="RBF", probabilities=False, seed=5):
    """Attributes of a SVMClassifier."""
    rng = np.random.default_rng(seed)
    per_class = [3 + i for i in range(classes)]
    pairs = classes * (classes - 1) // 2
    a = {"kernel_type": kernel, "kernel_params": [0.1, 0.2, 3.0], "vectors_per_class": per_class, "rho": (rng.normal(size=pairs) / 9).tolist(),
         "support_vectors": floats(rng, sum(per_class), FEATURES), "coefficients": floats(rng, classes - 1, sum(per_class))}  # fmt: skip
    return a | ({"prob_a": (-abs(rng.normal(size=pairs)) - 0.5).tolist(), "prob_b": floats(rng, pairs)} if probabilities else {})


def regressor(kernel, seed=7, **more):
    rng = np.random.default_rng(seed)
    return {"kernel_type": kernel, "kernel_params": [0.3, 0.2, 2.0], "n_supports": 9, "support_vectors": floats(rng, 9, FEATURES),
            "coefficients": floats(rng, 9), "rho": [0.02]} | more  # fmt: skip


def linear(rows, seed=9, **more):
    rng = np.random.default_rng(seed)
    return {"coefficients": floats(rng, rows, FEATURES), "intercepts": floats(rng, rows)} | more


LABELS = [3, 5, 7, 11]
CLASSIFIERS = {
    "LinearClassifier": ("LinearClassifier", linear(4), "classlabels_ints", 4),
    "LinearClassifier SOFTMAX": ("LinearClassifier", linear(3, post_transform="SOFTMAX"), "classlabels_ints", 3),
    "LinearClassifier LOGISTIC": ("LinearClassifier", linear(2, post_transform="LOGISTIC", multi_class=1), "classlabels_ints", 2),
    "LinearClassifier of one row": ("LinearClassifier", linear(1), "classlabels_ints", 2),
    "LinearClassifier of one row LOGISTIC": ("LinearClassifier", linear(1, post_transform="LOGISTIC"), "classlabels_ints", 2),
    "trees": ("TreeEnsembleClassifier", trees("class", 4), "classlabels_int64s", 4),
    "trees of all modes": ("TreeEnsembleClassifier", trees("class", 3, MODES), "classlabels_int64s", 3),
    "trees with a base": ("TreeEnsembleClassifier", trees("class", 3, sign=0) | {"base_values": [0.5, -0.25, 0.1], "post_transform": "SOFTMAX"}, "classlabels_int64s", 3),
    "trees of two classes": ("TreeEnsembleClassifier", trees("class", 2, sign=0), "classlabels_int64s", 2),
    "boosted trees of two classes": ("TreeEnsembleClassifier", trees("class", 2, one=True, sign=0) | {"base_values": [0.2], "post_transform": "LOGISTIC"}, "classlabels_int64s", 2),
    "boosted trees without base": ("TreeEnsembleClassifier", trees("class", 2, one=True, sign=0), "classlabels_int64s", 2),
    **{f"boosted trees of class {ids}, base {base}": ("TreeEnsembleClassifier", (lambda a: a | {"class_ids": [ids] * len(a["class_ids"])})(trees("class", 2, one=True, sign=0)) | base, "classlabels_int64s", 2)
       for ids, base in ((1, {}), (0, {"base_values": [0.1, 0.2]}), (1, {"base_values": [0.2]}))},
    "positive trees of one class": ("TreeEnsembleClassifier", trees("class", 2, one=True), "classlabels_int64s", 2),
    **{f"SVMClassifier {k}": ("SVMClassifier", machine(4, k), "classlabels_ints", 4) for k in ("LINEAR", "POLY", "RBF", "SIGMOID")},
    "SVMClassifier of two": ("SVMClassifier", machine(2, "LINEAR"), "classlabels_ints", 2),
    "SVMClassifier of two LOGISTIC": ("SVMClassifier", machine(2, "LINEAR") | {"post_transform": "LOGISTIC"}, "classlabels_ints", 2),
    "SVMClassifier with probabilities": ("SVMClassifier", machine(4, probabilities=True), "classlabels_ints", 4),
    "SVMClassifier of two with probabilities": ("SVMClassifier", machine(2, "POLY", probabilities=True), "classlabels_ints", 2),
    "SVMClassifier without vectors": ("SVMClassifier", {"coefficients": floats(np.random.default_rng(3), 3, FEATURES), "rho": [0.1], "kernel_params": [0.0] * 3}, "classlabels_ints", 3),
}  # fmt: skip
REGRESSORS = {
    "trees": ("TreeEnsembleRegressor", trees("target", 1) | {"n_targets": 1}),
    "trees of all modes": ("TreeEnsembleRegressor", trees("target", 2, MODES) | {"n_targets": 2}),
    "trees with a base": ("TreeEnsembleRegressor", trees("target", 1) | {"n_targets": 1, "base_values": [1.5]}),
    **{f"trees {k}": ("TreeEnsembleRegressor", trees("target", 2, count=4) | {"n_targets": 2, "aggregate_function": k}) for k in ("AVERAGE", "MIN", "MAX")},
    "trees SOFTMAX": ("TreeEnsembleRegressor", trees("target", 3) | {"n_targets": 3, "post_transform": "SOFTMAX"}),
    **{f"SVMRegressor {k}": ("SVMRegressor", regressor(k)) for k in ("LINEAR", "POLY", "RBF", "SIGMOID")},
    "SVMRegressor of one class": ("SVMRegressor", regressor("RBF", one_class=1)),
    "SVMRegressor without vectors": ("SVMRegressor", {"coefficients": floats(np.random.default_rng(3), FEATURES), "rho": [0.4], "kernel_params": [0.0] * 3, "n_supports": 0}),
}  # fmt: skip


def save(path, nodes, outputs, before=(), weights=(), dtype=F):
    constants = [numpy_helper.from_array(np.asarray(v), k) for k, v in dict(weights).items()]
    outputs = [o if isinstance(o, onnx.ValueInfoProto) else helper.make_tensor_value_info(*o) for o in outputs]
    graph = helper.make_graph([*before, *nodes], "ml", [helper.make_tensor_value_info("x", dtype, ["N", FEATURES])], outputs, constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)], ir_version=8), path)


def session(path):
    return onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def samples(path, missing=False):
    x = np.random.default_rng(5).normal(size=(SAMPLES, FEATURES)).astype("f").round(1)  # some on the thresholds
    if missing:
        x[::7, 2] = np.nan
    np.savez(path, x=x)
    return x


def computed(qcalib, folder, model):
    qcalib("run", model, "--data", "x.npz", "-o", "y.h5")
    with h5py.File(folder / "y.h5") as f:
        return {k: v[()] for k, v in f.items()}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier(name, qcalib, tmp_path):
    op, attributes, labels, count = CLASSIFIERS[name]
    node = helper.make_node(op, ["x"], ["label", "scores"], name="model", domain=ML, **attributes, **{labels: LABELS[:count]})
    save(tmp_path / "m.onnx", [node], [("label", I, ["N"]), ("scores", F, None)])
    x = samples(tmp_path / "x.npz", "all modes" in name)
    label, scores = session(tmp_path / "m.onnx").run(None, {"x": x})
    got = computed(qcalib, tmp_path, "m.onnx")
    assert len(np.unique(label)) > 1
    np.testing.assert_allclose(got["scores"].reshape(scores.shape), scores, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(got["label"].ravel(), label)


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor(name, qcalib, tmp_path):
    op, attributes = REGRESSORS[name]
    save(tmp_path / "m.onnx", [helper.make_node(op, ["x"], ["y"], name="model", domain=ML, **attributes)], [("y", F, None)])
    x = samples(tmp_path / "x.npz", "all modes" in name)
    expected = session(tmp_path / "m.onnx").run(None, {"x": x})[0]
    got = computed(qcalib, tmp_path, "m.onnx")["y"].reshape(expected.shape)
    assert len(np.unique(expected)) > 1
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


NETWORK = [
    helper.make_node("MatMul", ["x", "w1"], ["h1"], name="m1"),
    helper.make_node("Relu", ["h1"], ["h2"], name="r"),
    helper.make_node("MatMul", ["h2", "w2"], ["z"], name="m2"),
]
WEIGHTS = {k: np.random.default_rng(1).normal(size=s).astype("f") / 2 for k, s in {"w1": (FEATURES, 32), "w2": (32, FEATURES)}.items()}


@pytest.mark.parametrize("name", ["trees", "SVMClassifier RBF", "LinearClassifier"])
def test_behind_a_network(name, qcalib, tmp_path):
    """The network is quantized, the file keeps trees and vectors, and a linear model is a product like others."""
    op, attributes, labels, count = CLASSIFIERS[name]
    node = helper.make_node(op, ["z"], ["label", "scores"], name="model", domain=ML, **attributes, **{labels: LABELS[:count]})
    save(tmp_path / "m.onnx", [node], [("label", I, ["N"]), ("scores", F, None)], NETWORK, WEIGHTS)
    x = samples(tmp_path / "x.npz")
    expected = session(tmp_path / "m.onnx").run(None, {"x": x})
    done = qcalib("--data", "x.npz", "--prefer", "integers", "--no-report", "-o", "q.onnx", "m.onnx")
    assert "carried" not in done.err
    model = onnx.load(tmp_path / "q.onnx")
    made = {o: n.op_type for n in model.graph.node for o in n.output}
    products = [n for n in model.graph.node if n.op_type in ("MatMul", "Gemm")]
    assert len(products) == 2 + (op == "LinearClassifier") and all(made[n.input[0]] == "DequantizeLinear" for n in products)
    assert [n.domain for n in model.graph.node if n.op_type == op] == ([] if op == "LinearClassifier" else [ML])
    got, run = session(tmp_path / "q.onnx").run(None, {"x": x}), computed(qcalib, tmp_path, "q.onnx")
    assert np.mean(expected[0] == got[0]) > 0.85
    np.testing.assert_allclose(run["scores"].reshape(got[1].shape), got[1], rtol=1e-3, atol=1e-3)
    compared = qcalib("compare", "m.onnx", "q.onnx", "--data", "x.npz", "--json").json["outputs"]
    assert {o["name"] for o in compared} == {"label", "scores"}


def maps(kind):
    return helper.make_value_info("maps", helper.make_sequence_type_proto(helper.make_map_type_proto(kind, helper.make_tensor_type_proto(F, []))))


@pytest.mark.parametrize("kind", ["numbers", "texts"])
@pytest.mark.parametrize("name", ["trees", "SVMClassifier with probabilities", "LinearClassifier", "network"])
def test_labels_of_texts_and_maps(name, kind, qcalib, tmp_path):
    """`run` and `compare` give the index of a text, and the scores of a map; files keep texts and maps."""
    texts = [f"class {v}" for v in LABELS]
    given = texts if kind == "texts" else LABELS
    zip_map = helper.make_node("ZipMap", ["scores"], ["maps"], name="zip", domain=ML, **{"classlabels_strings" if kind == "texts" else "classlabels_int64s": given})
    if name == "network":
        nodes = [
            helper.make_node("MatMul", ["z", "w3"], ["scores"], name="m3"),
            helper.make_node("ArgMax", ["scores"], ["best"], axis=1, keepdims=0),
            helper.make_node("ArrayFeatureExtractor", ["classes", "best"], ["found"], domain=ML),
            helper.make_node("Reshape", ["found", "flat"], ["label"]),
        ]
        more = {"w3": WEIGHTS["w1"][:, :4], "classes": np.array(given, object if kind == "texts" else np.int64), "flat": np.int64([-1])}
    else:
        op, attributes, labels, count = CLASSIFIERS[name]
        key = "classlabels_strings" if kind == "texts" else labels
        nodes, more = [helper.make_node(op, ["z"], ["label", "scores"], name="model", domain=ML, **attributes, **{key: given})], {}
    save(tmp_path / "m.onnx", [*nodes, zip_map], [("label", S if kind == "texts" else I, ["N"]), maps(S if kind == "texts" else I)], NETWORK, WEIGHTS | more)
    x = samples(tmp_path / "x.npz")
    label, listed = session(tmp_path / "m.onnx").run(None, {"x": x})
    got = computed(qcalib, tmp_path, "m.onnx")
    expected = [given.index(v) for v in label] if kind == "texts" else label
    np.testing.assert_array_equal(got["label"].ravel(), expected)
    np.testing.assert_allclose(got["maps"].reshape(SAMPLES, -1), [[m[k] for k in given] for m in listed], rtol=1e-4, atol=1e-4)
    qcalib("--data", "x.npz", "--prefer", "integers", "--no-report", "-o", "q.onnx", "m.onnx")
    again, _ = session(tmp_path / "q.onnx").run(None, {"x": x})
    assert again.dtype == label.dtype and np.mean(again == label) > 0.85
    compared = qcalib("compare", "m.onnx", "q.onnx", "--data", "x.npz", "--json").json["outputs"]
    assert {o["name"] for o in compared} == {"label", "maps"}


@pytest.mark.parametrize("change", ["cycle", "feature", "node", "weight"])
def test_damaged_trees(change, qcalib, tmp_path):
    a = trees("target", 1) | {"n_targets": 1}
    if change == "cycle":
        a["nodes_truenodeids"] = a["nodes_falsenodeids"] = [0] * len(a["nodes_modes"])
    elif change == "feature":
        a["nodes_featureids"] = [FEATURES] * len(a["nodes_modes"])
    elif change == "node":
        a["nodes_truenodeids"] = [99] * len(a["nodes_modes"])
    else:
        a["target_ids"] = [1] * len(a["target_ids"])
    save(tmp_path / "m.onnx", [helper.make_node("TreeEnsembleRegressor", ["x"], ["y"], name="model", domain=ML, **a)], [("y", F, None)])
    samples(tmp_path / "x.npz")
    said = qcalib("run", "m.onnx", "--data", "x.npz", "-o", "y.h5", code=3).err
    assert "model" in said and ("cycle" in said or "feature 6 of 6" in said or "the trees are damaged" in said)
