# SPDX-License-Identifier: Apache-2.0
"""Models with operators that qcalib does not support: the part that does not depend on them is quantized, the rest
stays unchanged, and ONNX Runtime runs the result."""

import subprocess

import h5py
import measured_models
import numpy as np
import onnx
import pytest
from conftest import ROOT, SANITIZED, shared_object
from measured_models import session
from onnx import TensorProto, helper, numpy_helper

SAMPLES = 48
ML = "ai.onnx.ml"


def normal(*shape, seed=1):
    fan = int(np.prod(shape[1:])) or 1
    return np.random.default_rng(seed + sum(shape)).normal(size=shape).astype(np.float32) / np.float32(np.sqrt(fan))


WEIGHTS = {
    "w1": normal(8, 4, 3, 3),
    "b1": normal(8),
    "w2": normal(8, 8, 3, 3),
    "b2": normal(8, seed=2),
    "w3": normal(6, 8, 3, 3),
    "fc": normal(10, 8),
    "gain": np.float32([2]),
    "flat": np.array([-1, 8, 8, 8], np.int64),
    "low": np.float32(-100),
    "axis": np.array([1, 2, 3], np.int64),
}
CONV = {"pads": [1, 1, 1, 1]}


def node(op, inputs, outputs, domain="", **attributes):
    return helper.make_node(
        op,
        inputs,
        outputs if isinstance(outputs, list) else [outputs],
        name=f"n_{outputs if isinstance(outputs, str) else outputs[0]}",
        domain=domain,
        **attributes,
    )


def conv_relu(x, y, k):
    return [node("Conv", [x, f"w{k}", f"b{k}"], f"{y}_sum", **CONV), node("Relu", [f"{y}_sum"], y)]


def classifier(x, y):
    return [
        node("GlobalAveragePool", [x], f"{y}_mean"),
        node("Flatten", [f"{y}_mean"], f"{y}_flat"),
        node("Gemm", [f"{y}_flat", "fc"], y, transB=1),
    ]


TRUNK = conv_relu("x", "a", 1) + conv_relu("a", "b", 2)


def write(path, nodes, outputs, opset=17, inputs=None, extra=(), typed=()):
    used = {i for n in nodes for i in n.input} | set(extra)
    inputs = inputs or [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 8, 8])]
    outputs = [helper.make_tensor_value_info(o, TensorProto.FLOAT, shape) for o, shape in outputs]
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        outputs,
        [numpy_helper.from_array(v, n) for n, v in WEIGHTS.items() if n in used],
        value_info=list(typed),
    )
    domains = sorted({n.domain for n in nodes if n.domain} | {ML})
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 3 if d == ML else 1) for d in domains],
        ir_version=8,
    )
    onnx.save(model, path)
    return model


def samples(folder, name="x"):
    x = np.random.default_rng(3).normal(size=(SAMPLES, 4, 8, 8)).astype(np.float32)
    with h5py.File(folder / "calib.h5", "w") as f:
        f[name] = x
    return x


def outputs_of(path, x):
    s = session(path)
    return dict(zip([o.name for o in s.get_outputs()], s.run(None, {"x": x})))


def sqnr(a, b):
    return measured_models.sqnr([a], [b])[0]


def quantized(qcalib, folder, *options):
    """Quantizes model.onnx of the folder; the written model, the report and what was warned of."""
    x = samples(folder)
    done = qcalib("--data", "calib.h5", "model.onnx", "--json", *options)
    float_out, out = outputs_of(folder / "model.onnx", x), outputs_of(folder / "model.int8.onnx", x)
    assert list(float_out) == list(out)
    for name in out:
        assert sqnr(float_out[name], out[name]) > 20, name
    return onnx.load(folder / "model.int8.onnx"), done.json, done.err


def kept(model, before, *names):
    """These nodes are in the model as they were, with the constants that they read."""
    now, was = ({n.name: n for n in m.graph.node} for m in (model, before))
    constants, old = ({t.name: numpy_helper.to_array(t) for t in m.graph.initializer} for m in (model, before))
    for name in names:
        assert now[name].SerializeToString() == was[name].SerializeToString(), name
        for i in set(now[name].input) & set(old):
            assert np.array_equal(constants[i], old[i])


def float_reasons(report):
    return {f["name"]: (f["op"], f["reason"]) for f in report["float_ops"]}


@pytest.mark.integers
def test_at_the_end(qcalib, tmp_path):
    before = write(
        tmp_path / "model.onnx",
        TRUNK
        + classifier("b", "logits")
        + [
            node("FeatureVectorizer", ["logits"], "scaled", ML, inputdimensions=[10]),
            node("FeatureVectorizer", ["scaled"], "unit", ML, inputdimensions=[10]),
            node("Mul", ["unit", "gain"], "y"),
        ],
        [("y", ["N", 10])],
        typed=[helper.make_tensor_value_info("unit", TensorProto.FLOAT, ["N", 10])],
    )
    model, report, err = quantized(qcalib, tmp_path)
    kept(model, before, "n_scaled", "n_unit", "n_y")
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 17), (ML, 3)]
    assert model.graph.input == before.graph.input and model.graph.output == before.graph.output
    assert [v.name for v in model.graph.value_info] == ["unit"]
    reasons = float_reasons(report)
    assert reasons["n_scaled"][0] == f"{ML}::FeatureVectorizer" and "no kernel" in reasons["n_scaled"][1]
    assert reasons["n_y"] == ("Mul", "follows from 'n_unit', carried through")
    assert sum(n.op_type == "QuantizeLinear" for n in model.graph.node) > 3
    warnings = [w for w in err.splitlines() if "carried through" in w]
    assert (
        len(warnings) == 1
        and f"{ML}::FeatureVectorizer (2 nodes, the first is 'n_scaled'), and 1 node that follows"
        in warnings[0]
    )
    assert [o["name"] for o in report["outputs"]] == ["logits"]


@pytest.mark.integers
def test_summary_says_it_once(qcalib, tmp_path):
    write(
        tmp_path / "model.onnx",
        TRUNK + classifier("b", "logits") + [node("FeatureVectorizer", ["logits"], "y", ML, inputdimensions=[10])],
        [("y", ["N", 10])],
    )
    samples(tmp_path)
    out = qcalib("--data", "calib.h5", "model.onnx").out
    assert out.count(f"{ML}::FeatureVectorizer") == 1 and "1 stays in float" in out
    assert "output      logits: SQNR" in out
    qcalib("--data", "calib.h5", "model.onnx", "--format", "qoperator", "-o", "q.onnx")
    x = samples(tmp_path)
    assert sqnr(outputs_of(tmp_path / "model.onnx", x)["y"], outputs_of(tmp_path / "q.onnx", x)["y"]) > 20


@pytest.mark.parametrize("opset", (11, 12))
def test_of_an_old_opset(opset, qcalib, tmp_path):
    """Operators of other domains do not care, and most of ONNX's mean the same in opset 13, which the quantized part needs."""
    write(
        tmp_path / "model.onnx",
        TRUNK
        + classifier("b", "logits")
        + [
            node("FeatureVectorizer", ["logits"], "scaled", ML, inputdimensions=[10]),
            node("Mul", ["scaled", "gain"], "times"),
            node("Transpose", ["times"], "turned", perm=[1, 0]),
            node("Concat", ["turned", "turned"], "y", axis=0),
        ],
        [("y", [20, "N"])],
        opset=opset,
    )
    x = samples(tmp_path)
    qcalib("--data", "calib.h5", "model.onnx", "-o", "q.onnx")
    model = onnx.load(str(tmp_path / "q.onnx"))
    assert [o.version for o in model.opset_import if not o.domain] == [13] and {"FeatureVectorizer", "Concat"} <= {
        n.op_type for n in model.graph.node
    }
    assert sqnr(outputs_of(tmp_path / "model.onnx", x)["y"], outputs_of(tmp_path / "q.onnx", x)["y"]) > 20


def test_what_means_something_else_now_is_named(qcalib, tmp_path):
    """Softmax of opset 12 is over all dimensions from the second on: in opset 13 it would be over the last."""
    write(
        tmp_path / "model.onnx",
        TRUNK
        + classifier("b", "logits")
        + [
            node("FeatureVectorizer", ["logits"], "scaled", ML, inputdimensions=[10]),
            node("Mul", ["scaled", "gain"], "times"),
            node("Softmax", ["times"], "y"),
        ],
        [("y", ["N", 10])],
        opset=12,
    )
    samples(tmp_path)
    done = qcalib("--data", "calib.h5", "model.onnx", "-o", "q.onnx", code=4)
    assert (
        "Softmax 'n_y' of opset 12 is carried through, but the rest needs opset 13" in done.err and done.new_files == []
    )


def middle(path):
    """One branch goes through an operator that is not known and joins the other."""
    return write(
        path,
        TRUNK
        + [
            node("Flatten", ["a"], "a_flat"),
            node("FeatureVectorizer", ["a_flat"], "unit", ML, inputdimensions=[512]),
            node("Reshape", ["unit", "flat"], "back"),
            node("Add", ["back", "b"], "join"),
            node("Conv", ["join", "w3"], "y", **CONV),
        ]
        + classifier("b", "z"),
        [("y", ["N", 6, 8, 8]), ("z", ["N", 10])],
    )


def test_in_the_middle_of_a_branch(qcalib, tmp_path):
    before = middle(tmp_path / "model.onnx")
    model, report, _ = quantized(qcalib, tmp_path)
    kept(model, before, "n_unit", "n_back", "n_join", "n_y")
    assert model.graph.output == before.graph.output
    assert set(float_reasons(report)) >= {"n_unit", "n_back", "n_join", "n_y"}
    # outputs that are known and what the carried part reads
    assert [o["name"] for o in report["outputs"]] == ["z", "a_flat", "b"]
    again = qcalib("quantize", "--data", "calib.h5", "model.onnx", "-o", "again.onnx", "--threads", "1").code
    assert again == 0 and (tmp_path / "again.onnx").read_bytes() == (tmp_path / "model.int8.onnx").read_bytes()


def test_at_the_start_there_is_nothing_to_quantize(qcalib, tmp_path):
    write(
        tmp_path / "model.onnx",
        [
            node("Flatten", ["x"], "f"),
            node("FeatureVectorizer", ["f"], "u", ML, inputdimensions=[256]),
            node("Reshape", ["u", "flat"], "r"),
        ]
        + [node("Conv", ["r", "w2"], "y", **CONV)],
        [("y", ["N", 8, 8, 8])],
    )
    samples(tmp_path)
    done = qcalib("--data", "calib.h5", "model.onnx", code=4)
    assert "nothing to quantize" in done.err and not done.new_files
    write(
        tmp_path / "model.onnx",
        [node("Inverse", ["x"], "i", "com.microsoft"), node("Conv", ["i", "w1"], "y", **CONV)],
        [("y", ["N", 8, 8, 8])],
    )
    done = qcalib("--data", "calib.h5", "model.onnx", code=4)
    assert "com.microsoft::Inverse (1 node, 'n_i')" in done.err and not done.new_files
    assert "Inverse" in qcalib("inspect", "model.onnx").out


def test_subgraphs_read_outer_values(qcalib, tmp_path):
    """What only a subgraph reads stays there under its name, in float."""
    out = [helper.make_tensor_value_info("t_out", TensorProto.FLOAT, None)]
    then = helper.make_graph(
        [
            node("Flatten", ["b"], "t_flat"),
            node("FeatureVectorizer", ["t_flat"], "t_unit", ML, inputdimensions=[512]),
            node("Reshape", ["t_unit", "flat"], "t_r"),
            node("Conv", ["t_r", "w3"], "t_out", **CONV),
        ],
        "then",
        [],
        out,
    )
    orelse = helper.make_graph(
        [node("Conv", ["a", "w3"], "e_out", **CONV)],
        "else",
        [],
        [helper.make_tensor_value_info("e_out", TensorProto.FLOAT, None)],
    )
    nodes = (
        TRUNK
        + [
            node("ReduceMean", ["b"], "mean", keepdims=0),
            node("Greater", ["mean", "low"], "cond"),
            node("If", ["cond"], "y", then_branch=then, else_branch=orelse),
        ]
        + classifier("b", "z")
    )
    before = write(tmp_path / "model.onnx", nodes, [("y", ["N", 6, 8, 8]), ("z", ["N", 10])], extra=("w3", "flat"))
    model, report, _ = quantized(qcalib, tmp_path)
    kept(model, before, "n_y")
    assert np.array_equal(
        numpy_helper.to_array(next(t for t in model.graph.initializer if t.name == "w3")), WEIGHTS["w3"]
    )
    assert {o["name"] for o in report["outputs"]} == {"z", "a", "b", "cond"}
    assert float_reasons(report)["n_y"][0] == "If"


def test_sequences(qcalib, tmp_path):
    before = write(
        tmp_path / "model.onnx",
        TRUNK + [node("SequenceConstruct", ["a", "b"], "s"), node("ConcatFromSequence", ["s"], "y", axis=1)],
        [("y", ["N", 16, 8, 8])],
    )
    model, _, _ = quantized(qcalib, tmp_path)
    kept(model, before, "n_s", "n_y")


def test_inputs_of_text_need_no_data(qcalib, tmp_path):
    """An input that only what is carried reads is no input of the part that is quantized."""
    word = helper.make_tensor_value_info("word", TensorProto.STRING, [1])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 8, 8])
    model = write(
        tmp_path / "model.onnx",
        TRUNK
        + [node("StringNormalizer", ["word"], "upper", case_change_action="UPPER", locale="C")]
        + classifier("b", "z"),
        [("z", ["N", 10])],
        inputs=[word, x],
    )
    model.graph.output.append(helper.make_tensor_value_info("upper", TensorProto.STRING, [1]))
    onnx.save(model, tmp_path / "model.onnx")
    data = samples(tmp_path)
    qcalib("--data", "calib.h5", "model.onnx")
    results = []
    for name in ("model.onnx", "model.int8.onnx"):
        s = session(tmp_path / name)
        assert [i.name for i in s.get_inputs()] == ["word", "x"] and [o.name for o in s.get_outputs()] == ["z", "upper"]
        results.append(s.run(None, {"word": np.array(["abc"], object), "x": data}))
    assert list(results[1][1]) == ["ABC"] and sqnr(results[0][0], results[1][0]) > 20


def test_an_attribute_that_is_not_handled(qcalib, tmp_path):
    """An operator that is known, but not in this form."""
    WEIGHTS.update({"ratio": np.array(0, np.float32), "training": np.array(True)})
    before = write(
        tmp_path / "model.onnx",
        TRUNK + [node("Dropout", ["b", "ratio", "training"], "small")],
        [("small", [1, 8, 8, 8])],
        opset=18,
        inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
    )
    x = samples(tmp_path)
    report = qcalib("--data", "calib.h5", "model.onnx", "--json").json
    kept(onnx.load(tmp_path / "model.int8.onnx"), before, "n_small")
    assert "training mode" in float_reasons(report)["n_small"][1]
    one = {"x": x[:1]}
    assert sqnr(*(session(tmp_path / f).run(None, one)[0] for f in ("model.onnx", "model.int8.onnx"))) > 20


def test_what_needs_the_whole_graph(qcalib, tmp_path):
    middle(tmp_path / "model.onnx")
    samples(tmp_path)
    with h5py.File(tmp_path / "test.h5", "w") as f:
        f["x"], f["labels"] = np.zeros((4, 4, 8, 8), np.float32), np.zeros(4, np.int64)
    for command in (
        ["run", "model.onnx", "--data", "calib.h5", "-o", "o.h5"],
        ["eval", "model.onnx", "--data", "test.h5"],
        ["compare", "model.onnx", "model.onnx", "--data", "calib.h5"],
    ):
        done = qcalib(*command, code=4)
        assert f"{ML}::FeatureVectorizer (1 node, 'n_unit')" in done.err, command
    done = qcalib("--data", "calib.h5", "model.onnx", "--require-integer", code=1)
    assert f"'n_unit' ({ML}::FeatureVectorizer" in done.err and not done.new_files
    shown = qcalib("inspect", "model.onnx").out
    assert f"{ML}::FeatureVectorizer (1 node, 'n_unit')" in shown and "output   y f32 [N,6,8,8]" in shown
    told = qcalib("inspect", "model.onnx", "--json").json
    assert [o["name"] for o in told["outputs"]] == ["y", "z"]
    assert [(n["name"], n["domain"], n["op"]) for n in told["not_handled"]] == [("n_unit", ML, "FeatureVectorizer")]
    # statistics are of what can be computed
    qcalib("collect", "--data", "calib.h5", "model.onnx", "-o", "s.h5")
    qcalib("quantize", "--stats", "s.h5", "model.onnx", "-o", "from_stats.onnx", "--method", "minmax")
    qcalib("--data", "calib.h5", "model.onnx", "--method", "minmax")
    assert (tmp_path / "from_stats.onnx").read_bytes() == (tmp_path / "model.int8.onnx").read_bytes()


@pytest.mark.integers
@pytest.mark.parametrize("known", [True, False])
def test_accuracy_of_what_is_computed(qcalib, tmp_path, known):
    """labels are of an output that is computed, or of one that is not."""
    nodes = TRUNK + classifier("b", "logits") + [node("FeatureVectorizer", ["logits"], "y", ML, inputdimensions=[10])]
    write(tmp_path / "model.onnx", nodes, [("logits", ["N", 10]), ("y", ["N", 10])][0 if known else 1 :])
    x = samples(tmp_path)
    labels = outputs_of(tmp_path / "model.onnx", x)["y"].argmax(1)
    with h5py.File(tmp_path / "test.h5", "w") as f:
        f["x"], f["labels"] = x, labels
    done = qcalib("--data", "calib.h5", "--eval", "test.h5", "model.onnx", "--json")
    if known:
        assert done.json["accuracy"]["fp32"] == 1
        return
    assert done.json["accuracy"] is None or done.json["accuracy"].get("fp32") is None
    assert "accuracy is not measured" in done.err
    assert done.json["outputs"][0]["name"] == "logits" and done.json["outputs"][0]["sqnr_db"] > 20


# ---- Kernels of the user's own ----


@pytest.fixture(scope="module")
def scaler(tmp_path_factory):
    """The worked example of docs/extending.md."""
    return shared_object(tmp_path_factory.mktemp("kernel") / "scaler.so", ROOT / "tests/install/scaler_kernel.c")


SCALE_EACH = {"offset": [0.25, -0.5] * 5, "scale": [4.0, 0.5, 1.0, -2.0, 3.0] * 2}


def with_scaler(path):
    """Scaler between layers; a kernel for it is taken in place of the function of functions_ml.rules."""
    WEIGHTS.update({"last": normal(10, 6)})
    return write(
        path,
        TRUNK
        + classifier("b", "logits")
        + [node("Scaler", ["logits"], "scaled", ML, **SCALE_EACH), node("Gemm", ["scaled", "last"], "y")],
        [("y", ["N", 6])],
    )


def read(path):
    with h5py.File(path) as f:
        return {n: f[n][()] for n in f}


@pytest.mark.integers
def test_a_kernel_of_ones_own(qcalib, tmp_path, scaler):
    before = with_scaler(tmp_path / "model.onnx")
    x = samples(tmp_path)
    qcalib("run", "model.onnx", "--data", "calib.h5", "-o", "out.h5", "--kernel", scaler)
    expected = outputs_of(tmp_path / "model.onnx", x)["y"]
    assert np.allclose(read(tmp_path / "out.h5")["y"], expected, rtol=1e-4, atol=1e-5)
    done = qcalib("--data", "calib.h5", "model.onnx", "--json", "--kernel", scaler, "--effort=low")
    assert not done.err
    reasons = float_reasons(done.json)
    assert reasons == {"n_scaled": (f"{ML}::Scaler", "a kernel of your own computes it")}
    model = onnx.load(tmp_path / "model.int8.onnx")
    mine = next(n for n in model.graph.node if n.op_type == "Scaler")
    theirs = next(n for n in before.graph.node if n.op_type == "Scaler")
    assert (mine.domain, mine.name, list(mine.attribute)) == (ML, "n_scaled", list(theirs.attribute))
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 17), (ML, 3)]
    assert sqnr(expected, outputs_of(tmp_path / "model.int8.onnx", x)["y"]) > 20
    compared = qcalib(
        "compare", "model.onnx", "model.int8.onnx", "--data", "calib.h5", "--json", "--kernel", scaler
    ).json
    assert compared["outputs"][0]["sqnr_db"] > 20
    with h5py.File(tmp_path / "test.h5", "w") as f:
        f["x"], f["labels"] = x, expected.argmax(1)
    assert (
        qcalib("eval", "model.onnx", "--data", "test.h5", "--json", "--kernel", scaler).json["models"][0]["value"] == 1
    )


def test_kernels_that_are_none(qcalib, tmp_path, scaler):
    with_scaler(tmp_path / "model.onnx")
    samples(tmp_path)
    (tmp_path / "text.so").write_text("no library")
    for wrong, says in (("text.so", "shared object"), ("missing.so", "shared object")):
        assert says in qcalib("--data", "calib.h5", "model.onnx", "--kernel", wrong, code=3).err
    assert "already" in qcalib("--data", "calib.h5", "model.onnx", "--kernel", scaler, "--kernel", scaler, code=3).err
    source = (ROOT / "tests/install/scaler_kernel.c").read_text()
    for change, says in (
        ((".abi = QCALIB_KERNEL_ABI", ".abi = 99"), "version 99"),
        ((".compute = compute,", ""), "no function 'compute'"),
        (
            ("    return 0;\n}\n\nstatic float", "    return 7;\n}\n\nstatic float"),
            "shape of the kernel of 'Scaler' failed with code 7",
        ),
        (
            ("call->outputs[0] = call->inputs[0];", "call->outputs[0].type = 77; call->outputs[0].rank = 0;"),
            "the type 77",
        ),
    ):
        assert change[0] in source
        (tmp_path / "wrong.c").write_text(source.replace(*change))
        shared_object(tmp_path / "wrong.so", tmp_path / "wrong.c", warnings=())
        assert says in qcalib("--data", "calib.h5", "model.onnx", "--kernel", "./wrong.so", code=3).err


# What a kernel does instead of returning. assert() calls the C library's own abort.
ENDINGS = {
    "exit(0)": "compute of the kernel 'Scaler' called exit",
    "_Exit(0)": "compute of the kernel 'Scaler' called exit",
    "abort()": "compute of the kernel 'Scaler' aborted or threw an exception",
    "assert(0)": "compute of the kernel 'Scaler' aborted or threw an exception",
    "*(volatile int *)0 = 1": "compute of the kernel 'Scaler' crashed",
    "volatile int zero = 0; zero = 9 / zero": "compute of the kernel 'Scaler' crashed",
}


@pytest.mark.skipif(SANITIZED, reason="sanitizers handle crashes, and the program has no exit of its own")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("ending", list(ENDINGS), ids=lambda e: e.split("(")[0])
def test_a_kernel_that_ends_the_program(ending, threads, qcalib, tmp_path):
    with_scaler(tmp_path / "model.onnx")
    samples(tmp_path)
    source = (ROOT / "tests/install/scaler_kernel.c").read_text()
    at = "    const float *from = x->data;"
    assert at in source
    head = "#include <assert.h>\n#include <stdlib.h>\n"
    (tmp_path / "wrong.c").write_text(head + source.replace(at, f"    {ending};\n{at}"))
    shared_object(tmp_path / "wrong.so", tmp_path / "wrong.c", warnings=())
    done = qcalib("--data", "calib.h5", "model.onnx", "--kernel", "./wrong.so", "--threads", threads, code=3)
    assert done.err.splitlines()[-1] == f"qcalib: {ENDINGS[ending]}"
    assert not done.new_files


@pytest.mark.skipif(SANITIZED, reason="as above")
def test_a_kernel_that_throws(qcalib, tmp_path):
    with_scaler(tmp_path / "model.onnx")
    samples(tmp_path)
    source = (ROOT / "tests/install/scaler_kernel.c").read_text()
    at = "    const float *from = x->data;\n    float *to = call->outputs[0].data;"
    assert at in source
    body = '    throw std::runtime_error("boom");\n' + at.replace("= x", "= (const float *)x").replace("= c", "= (float *)c")
    (tmp_path / "wrong.cc").write_text("#include <stdexcept>\n" + source.replace(at, body))
    subprocess.run(["c++", "-std=c++20", "-w", "-shared", "-fPIC", "-I", ROOT / "include", "wrong.cc", "-o", "wrong.so"],
                   cwd=tmp_path, check=True)  # fmt: skip
    done = qcalib("--data", "calib.h5", "model.onnx", "--kernel", "./wrong.so", "--threads", 1, code=3)  # two would both throw
    assert done.err.splitlines()[-1] == "qcalib: compute of the kernel 'Scaler' aborted or threw an exception"
    assert "boom" in done.err


@pytest.mark.parametrize("unknown", ["rank = -1", "dims[0] = -1", "dims[1] = -1"])
def test_a_kernel_that_leaves_a_shape_unknown(unknown, qcalib, tmp_path):
    with_scaler(tmp_path / "model.onnx")
    samples(tmp_path)
    source = (ROOT / "tests/install/scaler_kernel.c").read_text()
    at = "call->outputs[0] = call->inputs[0];"
    (tmp_path / "wrong.c").write_text(source.replace(at, f"{at} call->outputs[0].{unknown};"))
    shared_object(tmp_path / "wrong.so", tmp_path / "wrong.c", warnings=())
    for command in (["quantize"], ["run", "-o", "out.h5"]):
        done = qcalib(*command, "model.onnx", "--data", "calib.h5", "--kernel", "./wrong.so", code=3)
        assert "'n_scaled': shape of the kernel of 'Scaler' gave output 0 the shape" in done.err


REPEAT = r"""
#include "qcalib/qcalib_kernel.h"

/* y[i] = x, as often as `times` says; its value is known when a sample runs. */
static int shape(const struct qcalib_kernel_call *call)
{
    const int64_t *times = call->inputs[1].data;
    call->outputs[0].type = 1;
    call->outputs[0].rank = 2;
    call->outputs[0].dims[0] = times ? *times : -1;
    call->outputs[0].dims[1] = call->inputs[0].dims[1];
    return 0;
}

static int compute(const struct qcalib_kernel_call *call)
{
    const size_t n = qcalib_kernel_elements(&call->outputs[0]), columns = (size_t)call->inputs[0].dims[1];
    for (size_t i = 0; i < n; i++) ((float *)call->outputs[0].data)[i] = ((const float *)call->inputs[0].data)[i % columns];
    return 0;
}

const struct qcalib_kernel qcalib_kernel_entry = {.abi = QCALIB_KERNEL_ABI, .inputs_min = 2, .inputs_max = 2,
    .outputs_max = 1, .domain = "own", .op = "Repeat", .shape = shape, .compute = compute};
"""


def test_a_kernel_whose_shape_depends_on_data(qcalib, tmp_path):
    (tmp_path / "repeat.c").write_text(REPEAT)
    shared_object(tmp_path / "repeat.so", tmp_path / "repeat.c")
    nodes = [node("Abs", ["n"], "times"), node("Repeat", ["x", "times"], "y", "own")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 6])
    n = helper.make_tensor_value_info("n", TensorProto.INT64, [1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["K", 6])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x, n], [y]), opset_imports=opsets, ir_version=8)
    onnx.save(model, tmp_path / "model.onnx")
    rows = np.random.default_rng(2).normal(size=(3, 1, 6)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=rows, n=np.int64([[2], [-5], [1]]))
    qcalib("run", "model.onnx", "--data", "x.npz", "-o", "out.h5", "--kernel", "./repeat.so")
    with h5py.File(tmp_path / "out.h5") as f:
        outputs = [f["y"][str(i)][()] for i in range(3)]
    for row, times, got in zip(rows, (2, 5, 1), outputs):
        assert np.array_equal(got, np.repeat(row, times, axis=0))


def test_an_opset_that_is_newer_than_known(qcalib, tmp_path):
    """A warning while every operator is known."""
    model = write(tmp_path / "model.onnx", TRUNK + classifier("b", "z"), [("z", ["N", 10])])
    x = samples(tmp_path)
    expected = outputs_of(tmp_path / "model.onnx", x)["z"]
    model.opset_import[0].version = 99
    onnx.save(model, tmp_path / "new.onnx")
    done = qcalib("run", "new.onnx", "--data", "calib.h5", "-o", "out.h5")
    assert "opset 99 is newer than 28" in done.err
    assert np.allclose(read(tmp_path / "out.h5")["z"], expected, rtol=1e-4, atol=1e-5)
    qcalib("--data", "calib.h5", "new.onnx")
    model.graph.node.append(node("SomethingNew", ["z"], "w"))
    model.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, None))
    onnx.save(model, tmp_path / "new.onnx")
    assert "SomethingNew" in qcalib("run", "new.onnx", "--data", "calib.h5", "-o", "out.h5", code=4).err
