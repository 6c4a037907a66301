# SPDX-License-Identifier: Apache-2.0
"""Embedding tables are stored in 8 (or 4) bits with a scale for each row, and ONNX Runtime gives the same bits."""

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

ROWS, WIDTH, LENGTH = 300, 32, 6


def save(folder, axis=0, tied=False, direct=False, rows=ROWS):
    """Rows, a position added, a normalisation, a layer. tied: the table is the weight of the layer too. direct: the layer reads the rows as they are."""
    rng = np.random.default_rng(4)
    table = (rng.normal(size=(rows, WIDTH)) * np.exp(2 * rng.normal(size=(rows, 1)))).astype(np.float32)
    table[7] = 0
    tensors = {
        "table": table if axis == 0 else np.ascontiguousarray(table.T),
        "place": rng.normal(size=(1, LENGTH, WIDTH)).astype(np.float32) / 8,
        "gamma": np.ones(WIDTH, np.float32),
        "w": rng.normal(size=(WIDTH, 20)).astype(np.float32),
    }
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"], axis=axis, name="take")]
    if axis:
        nodes.append(helper.make_node("Transpose", ["rows"], ["turned"], perm=[1, 2, 0]))
    if direct:
        nodes.append(helper.make_node("MatMul", ["rows", "w"], ["y"], name="layer"))
    else:
        nodes += [
            helper.make_node("Add", ["turned" if axis else "rows", "place"], ["sum"]),
            helper.make_node("LayerNormalization", ["sum", "gamma"], ["norm"]),
        ]
        if tied:
            nodes.append(helper.make_node("Transpose", ["table"], ["w_tied"], perm=[1, 0]))
        nodes.append(helper.make_node("MatMul", ["norm", "w_tied" if tied else "w"], ["y"], name="layer"))
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["N", LENGTH])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", LENGTH, ROWS if tied else 20])]
    if not axis and not direct:
        outputs.append(helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["N", LENGTH, WIDTH]))
    graph = helper.make_graph(
        nodes,
        "g",
        inputs,
        outputs,
        [numpy_helper.from_array(v, k) for k, v in tensors.items() if not (k == "w" and tied)],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(folder / "m.onnx")
    )
    ids = rng.integers(-ROWS, ROWS, (16, LENGTH))
    with h5py.File(folder / "ids.h5", "w") as f:
        f["ids"] = ids
    return table, ids


def both(qcalib, folder, ids):
    """What qcalib and ONNX Runtime compute of q.onnx."""
    import onnxruntime

    qcalib("run", "q.onnx", "--data", "ids.h5", "-o", "o.h5")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(folder / "q.onnx"), options, providers=["CPUExecutionProvider"])
    there = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"ids": ids})))
    with h5py.File(folder / "o.h5") as f:
        return {n: f[n][()] for n in there}, there


def types(folder):
    return {i.name: (i.data_type, tuple(i.dims)) for i in onnx.load(str(folder / "q.onnx")).graph.initializer}


def sqnr(truth, got):
    return 10 * np.log10((truth.astype(np.float64) ** 2).sum() / ((got.astype(np.float64) - truth) ** 2).sum())


@pytest.mark.parametrize(
    "form, options",
    (("qdq", ()), ("qoperator", ()), ("qdq", ("--activation-type", "none")), ("qdq", ("--weight-type", "int4:take", "--weight-method", "minmax"))),
)
def test_a_table_is_stored_in_integers(form, options, qcalib, tmp_path):
    table, ids = save(tmp_path)
    qcalib("--data", "ids.h5", "--format", form, *options, "m.onnx", "-o", "q.onnx")
    four = "int4:take" in options
    assert (TensorProto.INT4 if four else TensorProto.INT8, (ROWS, WIDTH)) in types(tmp_path).values()
    assert (TensorProto.FLOAT, (ROWS, WIDTH)) not in types(tmp_path).values()
    here, there = both(qcalib, tmp_path, ids)
    np.testing.assert_array_equal(here["rows"], there["rows"])
    # each row by its own size, a power of two: 127 levels of it, so every row is as exact as any other
    for row in set(ids.flat):
        truth = table[row]
        error = np.abs(there["rows"][ids == row] - truth).max()
        size = 2.0 ** np.ceil(np.log2(np.abs(truth).max()))
        assert error <= size / (7 if four else 127) * 0.51, row


def test_a_table_that_is_a_weight_too(qcalib, tmp_path):
    _, ids = save(tmp_path, tied=True)
    qcalib("--data", "ids.h5", "m.onnx", "-o", "q.onnx")
    assert TensorProto.FLOAT not in {t for t, shape in types(tmp_path).values() if np.prod(shape) >= ROWS * WIDTH}
    here, there = both(qcalib, tmp_path, ids)
    np.testing.assert_array_equal(here["rows"], there["rows"])
    np.testing.assert_allclose(here["y"], there["y"], rtol=1e-5, atol=1e-3)


def test_rows_that_a_layer_reads_move_as_its_integers(qcalib, tmp_path):
    """No float op is between, so there is none behind the table either."""
    _, ids = save(tmp_path, direct=True)
    qcalib("--data", "ids.h5", "m.onnx", "-o", "q.onnx")
    assert "Mul" not in {n.op_type for n in onnx.load(str(tmp_path / "q.onnx")).graph.node}
    here, there = both(qcalib, tmp_path, ids)
    np.testing.assert_array_equal(here["y"], there["y"])


@pytest.mark.parametrize(
    "axis, options, why",
    (
        (0, ("--skip", "take"), "left in float by --skip; its table takes 0.04 MB"),
        (1, (), "rows shorter than 16 elements, are not quantized; its table takes 0.04 MB"),
    ),
)
def test_the_report_says_why_a_table_stays_float(axis, options, why, qcalib, tmp_path):
    save(tmp_path, axis=axis)
    qcalib("--data", "ids.h5", *options, "m.onnx", "-o", "q.onnx", "--report", "report")
    import json

    reasons = {o["name"]: o["reason"] for o in json.loads((tmp_path / "report/report.json").read_text())["float_ops"]}
    assert why in reasons["take"], reasons


def test_a_limit_of_memory_changes_no_large_table(qcalib, tmp_path):
    save(tmp_path, rows=200000)
    files = []
    for limit in ((), ("--memory-limit", "190M")):
        qcalib("--data", "ids.h5", *limit, "m.onnx", "-o", "q.onnx", "--no-report", "--effort=low")
        files.append((tmp_path / "q.onnx").read_bytes())
    assert files[0] == files[1]
    assert (TensorProto.INT8, (200000, WIDTH)) in types(tmp_path).values()
