# SPDX-License-Identifier: Apache-2.0
"""Models with If, Loop and Scan run as in ONNX Runtime."""

import h5py
import numpy as np
import onnx
import onnxruntime
import pytest

import control_models
from control_models import MODELS

pytestmark = pytest.mark.integers
SAMPLES = 12
INSIDE = {  # layers that stand in bodies
    "conv_in_loop": ["n_y/body/"],
    "carried_weights": ["n_w_out/body/"],
    "conv_in_branches": ["n_y0/then_branch/", "n_y0/else_branch/"],
    "matmul_in_scan": ["n_last/body/"],
    "matmul_in_scan_backwards": ["n_last/body/"],
    "loop_in_if": ["n_y/then_branch/n_t/body/"],
    "trips_from_data": [],
    "condition_of_shape": [],
}


@pytest.fixture(params=list(MODELS))
def control(request, tmp_path):
    """A model in a file, with data in which each branch is taken; (name, model, samples)."""
    model = MODELS[request.param]()
    onnx.checker.check_model(model)
    onnx.save(model, tmp_path / "m.onnx")
    shape = [d.dim_value or 8 for d in model.graph.input[0].type.tensor_type.shape.dim]
    rng = np.random.default_rng(3)
    x = rng.normal(size=(SAMPLES, *shape[1:])).astype(np.float32)
    x += (np.arange(SAMPLES) % 2 - 0.5).reshape(-1, *[1] * (len(shape) - 1)).astype(np.float32)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = x
    return request.param, model, x


def onnxruntime_outputs(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    parts = [session.run(None, {"x": sample[None]}) for sample in x]
    return {o.name: [p[k] for p in parts] for k, o in enumerate(session.get_outputs())}


def stored(path, name):
    with h5py.File(path) as file:
        return file[name][:]


def test_run_is_onnxruntime(qcalib, tmp_path, control):
    _, model, x = control
    qcalib("run", "m.onnx", "--data", "x.h5", "-o", "y.h5")
    for name, parts in onnxruntime_outputs(tmp_path / "m.onnx", x).items():
        want = np.concatenate([p.reshape(1, *p.shape) if name == "count" else p for p in parts])
        got = stored(tmp_path / "y.h5", name)
        assert np.allclose(
            got.reshape(want.shape), want, atol=1e-5
        ), f"{name}: {np.abs(got.reshape(want.shape) - want).max()}"


def test_quantized_file_is_our_integers(qcalib, tmp_path, control):
    """Bodies are quantized too; ONNX Runtime runs the file and gives what `run` gives, and both are near to float."""
    name, _, x = control
    report = qcalib("--data", "x.h5", "m.onnx", "-o", "m.int8.onnx", "--json", "--method", "mse").json
    quantized = onnx.load(tmp_path / "m.int8.onnx")
    onnx.checker.check_model(quantized)  # all outputs have shapes
    assert sorted(i for i in INSIDE[name] if not any(i in layer["name"] for layer in report["layers"])) == []
    floats = onnxruntime_outputs(tmp_path / "m.onnx", x)
    qcalib("run", "m.int8.onnx", "--data", "x.h5", "-o", "y.h5")
    for output, parts in onnxruntime_outputs(tmp_path / "m.int8.onnx", x).items():
        want = np.concatenate([p.reshape(1, *p.shape) if output == "count" else p for p in parts])
        got = stored(tmp_path / "y.h5", output)
        assert np.array_equal(
            got.reshape(want.shape), want
        ), f"{output}: {np.abs(got.reshape(want.shape) - want).max()}"
        real = np.concatenate([p.reshape(1, *p.shape) if output == "count" else p for p in floats[output]])
        assert 10 * np.log10((real**2).sum() / max(((real - want) ** 2).sum(), 1e-30)) > 25


def operators(graph):
    for n in graph.node:
        yield n.op_type
        for a in n.attribute:
            yield from operators(a.g) if a.type == onnx.AttributeProto.GRAPH else ()


def test_bodies_are_converted(qcalib, tmp_path, control):
    """`convert` writes bodies in the other form too, as the job does, also if only bodies are quantized."""
    common = ["--data", "x.h5", "m.onnx", "--method", "mse", "--no-report", "--advice", "off"]
    qcalib(*common, "-o", "pairs.onnx")
    qcalib(*common, "--format", "qoperator", "-o", "direct.onnx")
    qcalib("convert", "pairs.onnx", "--format", "qoperator", "-o", "whole.onnx")
    ops = [sorted(operators(onnx.load(tmp_path / f"{n}.onnx").graph)) for n in ("direct", "whole")]
    assert ops[0] == ops[1] and any(o.startswith("Q") and o != "QuantizeLinear" for o in ops[1])
    for n in ("pairs", "whole"):
        qcalib("run", f"{n}.onnx", "--data", "x.h5", "-o", f"{n}.h5")
    outputs = [o.name for o in control[1].graph.output]
    assert all(np.array_equal(stored(tmp_path / "pairs.h5", o), stored(tmp_path / "whole.h5", o)) for o in outputs)


def make(tmp_path, name):
    model = MODELS[name]()
    onnx.save(model, tmp_path / "m.onnx")
    return (
        np.random.default_rng(3)
        .normal(size=(SAMPLES, *[d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim][1:]))
        .astype(np.float32)
    )


def save(tmp_path, x):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = x


def test_branch_never_taken_stays_in_float(qcalib, tmp_path):
    save(tmp_path, np.abs(make(tmp_path, "conv_in_branches")))
    done = qcalib("--data", "x.h5", "m.onnx", "-o", "q.onnx", "--json", "--method", "mse")
    assert any("'n_y0/else_branch' is never run on these samples" in w for w in done.json["warnings"])
    names = [layer["name"] for layer in done.json["layers"]]
    assert any(n.startswith("n_y0/then_branch/") for n in names) and not any("else_branch" in n for n in names)


def test_states_that_do_not_change_are_weights(qcalib, tmp_path):
    """The body has its weights, and no state of it is taken for one of the model."""
    save(tmp_path, make(tmp_path, "carried_weights"))
    done = qcalib("--data", "x.h5", "m.onnx", "-o", "q.onnx", "--json", "--method", "mse")
    assert not any("if it is a state" in w for w in done.json["warnings"])
    assert any("13 of 48 runs had other shapes than most" in w for w in done.json["warnings"])  # each first run, and one
    loop = next(n for n in onnx.load(tmp_path / "q.onnx").graph.node if n.op_type == "Loop")
    assert len(loop.input) == 4 and len(loop.output) == 2  # trips, no condition, two states


@pytest.mark.parametrize("name", ["conv_in_loop", "conv_in_branches", "carried_weights"])
def test_bodies_that_are_faster_in_float_stay(qcalib, tmp_path, name):
    x = make(tmp_path, name)
    save(tmp_path, x + np.where(np.arange(SAMPLES) % 2, 1, -1).reshape(-1, 1, 1, 1).astype(np.float32))
    done = qcalib("--data", "x.h5", "m.onnx", "-o", "q.onnx", "--json", "--prefer", "speed")
    ops = {op["name"]: op["reason"] for op in done.json["float_ops"] if op["op"] == "Conv"}
    assert any("/" in inside for inside in ops) and all("faster in float" in reason for reason in ops.values())


def test_large_layer_in_a_loop_has_integers(qcalib, tmp_path):
    """Bodies are placed by their own times: this one gains."""
    inside = control_models.body(
        "again",
        [control_models.node("MatMul", ["s", "w"], "m"), control_models.node("Relu", ["m"], "next")],
        [control_models.value("i", [], control_models.I), control_models.value("go", [], control_models.B), control_models.value("s", [64, 256])],
        [control_models.value("go", [], control_models.B), control_models.value("next", [64, 256])],
    )
    weights = control_models.weights(w=control_models.normal(256, 256) * 8, trips=np.int64(3))
    rows = [control_models.value(name, [64, 256]) for name in ("x", "y")]
    model = control_models.model([control_models.node("Loop", ["trips", "", "x"], "y", body=inside)], rows[:1], rows[1:], weights)
    onnx.save(model, tmp_path / "m.onnx")
    save(tmp_path, np.random.default_rng(1).normal(size=(4, 64, 256)).astype(np.float32))
    report = qcalib("--data", "x.h5", "m.onnx", "-o", "q.onnx", "--json", "--prefer", "speed").json
    assert any(layer["name"].startswith("n_y/body/") for layer in report["layers"])


def test_names_of_nodes_in_bodies(qcalib, tmp_path):
    x = make(tmp_path, "conv_in_branches")
    save(tmp_path, x + np.where(np.arange(SAMPLES) % 2, 1, -1).reshape(-1, 1, 1, 1).astype(np.float32))
    report = qcalib(
        "--data", "x.h5", "m.onnx", "-o", "q.onnx", "--json", "--method", "mse", "--skip", "n_y0/then_branch/*"
    ).json
    names = [layer["name"] for layer in report["layers"]]
    assert any(n.startswith("n_y0/else_branch/") for n in names) and not any("then_branch" in n for n in names)
    shown = qcalib("inspect", "q.onnx", "--json").json
    assert shown["ops"]["If"] == 1 and shown["ops"]["Conv"] == 3 and shown["parameters"] > 3 * 4 * 4 * 9


def test_body_of_an_unknown_operator_is_carried_through(qcalib, tmp_path):
    x = make(tmp_path, "conv_in_loop")
    model = onnx.load(tmp_path / "m.onnx")
    loop = next(n for n in model.graph.node if n.op_type == "Loop")
    strange = onnx.helper.make_node("Strange", ["r"], ["r2"], domain="some.where")
    loop.attribute[0].g.node.insert(2, strange)
    loop.attribute[0].g.node[3].input[0] = "r2"
    model.opset_import.append(onnx.helper.make_opsetid("some.where", 1))
    onnx.save(model, tmp_path / "m.onnx")
    save(tmp_path, x)
    qcalib("--data", "x.h5", "m.onnx", "-o", "q.onnx", "--method", "mse")
    kept = next(n for n in onnx.load(tmp_path / "q.onnx").graph.node if n.op_type == "Loop")
    assert kept.attribute[0].g.node[2].op_type == "Strange"


@pytest.mark.bad_input
def test_deep_and_broken_bodies(qcalib, tmp_path):
    x = make(tmp_path, "conv_in_branches")
    save(tmp_path, x)
    model = onnx.load(tmp_path / "m.onnx")
    choice = next(n for n in model.graph.node if n.op_type == "If")
    del choice.attribute[1]
    onnx.save(model, tmp_path / "one.onnx")
    assert "has no body" in qcalib("run", "one.onnx", "--data", "x.h5", "-o", "y.h5", code=3).err
    inner = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["h"], ["t0"])], "g0", [], [onnx.helper.make_empty_tensor_value_info("t0")]
    )
    for depth in range(1, 20):
        node = onnx.helper.make_node(
            "If",
            ["cond"],
            [f"t{depth}"],
            then_branch=inner,
            else_branch=(
                inner
                if depth < 3
                else onnx.helper.make_graph(
                    [onnx.helper.make_node("Identity", ["h"], [f"e{depth}"])],
                    f"e{depth}",
                    [],
                    [onnx.helper.make_empty_tensor_value_info(f"e{depth}")],
                )
            ),
        )
        inner = onnx.helper.make_graph([node], f"g{depth}", [], [onnx.helper.make_empty_tensor_value_info(f"t{depth}")])
    choice.CopyFrom(onnx.helper.make_node("If", ["cond"], ["y0"], then_branch=inner, else_branch=inner))
    onnx.save(model, tmp_path / "deep.onnx")
    assert "deep" in qcalib("run", "deep.onnx", "--data", "x.h5", "-o", "y.h5", code=None).err
