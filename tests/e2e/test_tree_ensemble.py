# SPDX-License-Identifier: Apache-2.0
"""TreeEnsemble of ai.onnx.ml, opset 5, in run, eval and compare. References: ONNX Runtime, and ONNX's reference for trees
without a transform of the scores."""

import h5py
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

ML, FEATURES, SAMPLES = "ai.onnx.ml", 6, 64
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO, PROBIT = range(5)  # of ONNX Runtime; ONNX: SOFTMAX is 1
AVERAGE, SUM, MIN, MAX = range(4)


def ensemble(targets=1, modes=(LEQ,), count=5, depth=3, aggregate=SUM, transform=NONE, seed=1):
    """A node of random trees; leaves of a tree are shared by both branches now and then."""
    rng = np.random.default_rng(seed)
    a = {k: [] for k in ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs", "missing_value_tracks_true")}
    kinds, splits, members, leaves, weights, roots = [], [], [], [], [], []

    def leaf():
        leaves.append(int(rng.integers(targets)))
        weights.append(abs(rng.normal()) / count / 2 if transform == PROBIT else rng.normal() / count)
        return len(leaves) - 1

    def tree(level):
        at = len(kinds)
        kinds.append(int(rng.choice(modes)))
        splits.append(float(rng.integers(-2, 3) / 2))
        if kinds[-1] == MEMBER:
            members.extend([*rng.choice([1, 2, 3, 4], int(rng.integers(1, 4)), replace=False), np.nan])  # ONNX Runtime: integers
        for k in a.values():
            k.append(0)
        a["featureids"][at], a["missing_value_tracks_true"][at] = int(rng.integers(FEATURES)), int(rng.integers(2))
        for side in ("true", "false"):
            last = level == depth or rng.random() < 0.2
            index = leaf() if last else tree(level + 1)
            a[f"{side}nodeids"][at], a[f"{side}leafs"][at] = index, int(last)
        return at

    for _ in range(count):
        roots.append(tree(1))
    tensor = lambda v, kind: numpy_helper.from_array(np.asarray(v, kind))
    more = {"membership_values": tensor(members, np.float32)} if members else {}
    return helper.make_node(
        "TreeEnsemble", ["x"], ["y"], name="model", domain=ML, n_targets=targets, tree_roots=roots, leaf_targetids=leaves, aggregate_function=aggregate,
        leaf_weights=tensor(weights, np.float32), nodes_splits=tensor(splits, np.float32), nodes_modes=tensor(kinds, np.uint8), post_transform=transform,
        **{f"nodes_{k}": v for k, v in a.items()}, **more,
    )  # fmt: skip


def save(path, node, before=(), weights=()):
    graph = helper.make_graph(
        [*before, node], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", next(a.i for a in node.attribute if a.name == "n_targets")])],
        [numpy_helper.from_array(w, n) for n, w in dict(weights).items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(ML, 5)], ir_version=10), path)


def samples(path):
    """Numbers of which many are splits and members, with NaN."""
    rng = np.random.default_rng(3)
    x = (rng.integers(-3, 8, (SAMPLES, FEATURES)) / 2).astype(np.float32)
    x[rng.random(x.shape) < 0.1] = np.nan
    np.savez(path, x=x)
    return x


def computed(qcalib, folder):
    qcalib("run", "m.onnx", "--data", "x.npz", "-o", "y.h5")
    with h5py.File(folder / "y.h5") as file:
        return file["y"][:]


CASES = {
    "one target": {},
    "all modes": {"targets": 3, "modes": range(7)},
    "sets": {"modes": [MEMBER]},
    "average": {"targets": 2, "aggregate": AVERAGE},
    "least": {"targets": 2, "aggregate": MIN, "count": 7},
    "largest": {"targets": 2, "aggregate": MAX, "count": 7},
    "softmax": {"targets": 3, "transform": SOFTMAX},
    "softmax zero": {"targets": 3, "transform": SOFTMAX_ZERO},
    "logistic": {"targets": 2, "transform": LOGISTIC},
    "probit": {"transform": PROBIT},
    "one node": {"depth": 1, "count": 3},
    "many": {"targets": 4, "count": 60, "depth": 6, "modes": [LT, GTE]},
}


@pytest.mark.parametrize("name", CASES)
def test_run(name, qcalib, tmp_path):
    save(tmp_path / "m.onnx", ensemble(**CASES[name]))
    x = samples(tmp_path / "x.npz")
    got = computed(qcalib, tmp_path)
    np.testing.assert_allclose(got, ort.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)
    if "transform" not in CASES[name] and "aggregate" not in CASES[name]:
        np.testing.assert_allclose(got, ReferenceEvaluator(str(tmp_path / "m.onnx")).run(None, {"x": x})[0], rtol=1e-4, atol=1e-5)


def test_behind_a_network(qcalib, tmp_path):
    """The layers are quantized; the file keeps the operator, in its opset, and ONNX Runtime computes what `run` does."""
    rng = np.random.default_rng(5)
    before = [helper.make_node("Gemm", ["x", "w", "b"], ["h"], name="h"), helper.make_node("Relu", ["h"], ["r"], name="r"), helper.make_node("Gemm", ["r", "v"], ["z"], name="z")]
    weights = {k: rng.normal(size=s).astype(np.float32) / 3 for k, s in (("w", (FEATURES, 32)), ("b", 32), ("v", (32, FEATURES)))}
    node = ensemble(targets=3, count=40, depth=5)
    node.input[0] = "z"
    save(tmp_path / "m.onnx", node, before, weights)
    x = rng.normal(size=(SAMPLES, FEATURES)).astype(np.float32)
    want = ort.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x})[0]
    np.savez(tmp_path / "x.npz", x=x, labels=want.argmax(1))
    qcalib("--data", "x.npz", "--prefer", "integers", "--no-report", "-o", "q.onnx", "m.onnx")
    made = onnx.load(tmp_path / "q.onnx")
    assert {o.domain: o.version for o in made.opset_import}[ML] == 5 and "QuantizeLinear" in {n.op_type for n in made.graph.node}
    got = ort.InferenceSession(tmp_path / "q.onnx").run(None, {"x": x})[0]
    assert np.mean(got.argmax(1) == want.argmax(1)) > 0.85
    values = [m["value"] for m in qcalib("eval", "m.onnx", "q.onnx", "--data", "x.npz", "--json").json["models"]]
    assert values == pytest.approx([1, np.mean(got.argmax(1) == want.argmax(1))])
    (out,) = qcalib("compare", "m.onnx", "q.onnx", "--data", "x.npz", "--json").json["outputs"]
    error = (got.astype(float) - want) ** 2
    assert out["sqnr_db"] == pytest.approx(10 * np.log10((want.astype(float) ** 2).sum() / error.sum()), abs=0.2)


@pytest.mark.parametrize("change", ["cycle", "feature", "node", "leaf", "target", "root", "sets", "mode"])
def test_damaged(change, qcalib, tmp_path):
    node = ensemble(modes=[MEMBER])
    values = {a.name: a for a in node.attribute}
    if change == "cycle":
        for side in ("true", "false"):
            values[f"nodes_{side}nodeids"].ints[:] = [0] * len(values["nodes_modes"].t.raw_data)
            values[f"nodes_{side}leafs"].ints[:] = [0] * len(values["nodes_modes"].t.raw_data)
    elif change == "feature":
        values["nodes_featureids"].ints[:] = [FEATURES] * len(values["nodes_featureids"].ints)
    elif change in ("node", "leaf"):
        values["nodes_trueleafs"].ints[0] = int(change == "leaf")
        values["nodes_truenodeids"].ints[0] = 1000
    elif change == "target":
        values["leaf_targetids"].ints[0] = 1
    elif change == "root":
        values["tree_roots"].ints[0] = -1
    elif change == "sets":
        values["membership_values"].t.CopyFrom(numpy_helper.from_array(np.float32([1, np.nan, 2])))
    else:
        values["nodes_modes"].t.CopyFrom(numpy_helper.from_array(np.full(len(values["nodes_modes"].t.raw_data), 7, np.uint8)))
    save(tmp_path / "m.onnx", node)
    samples(tmp_path / "x.npz")
    said = qcalib("run", "m.onnx", "--data", "x.npz", "-o", "y.h5", code=4 if change == "mode" else 3).err
    assert "model" in said and any(t in said for t in ("cycle", "feature 6 of 6", "the trees are damaged", "mode 7"))


@pytest.mark.parametrize("named", [False, True])
def test_a_model_of_other_domains_alone(named, qcalib, tmp_path):
    """opset_import need not name the ONNX domain if no operator is of it."""
    node = ensemble()
    save(tmp_path / "m.onnx", node)
    model = onnx.load(tmp_path / "m.onnx")
    x = samples(tmp_path / "x.npz")
    want = ort.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x})[0]
    del model.opset_import[0]
    if named:
        model.graph.node.append(helper.make_node("Neg", ["y"], ["z"]))
        model.graph.output[0].name = "z"
    onnx.save(model, tmp_path / "m.onnx")
    if named:
        assert "opset_import does not name it" in qcalib("run", "m.onnx", "--data", "x.npz", "-o", "y.h5", code=4).err
    else:
        np.testing.assert_allclose(computed(qcalib, tmp_path), want, rtol=1e-5, atol=1e-6)
