# SPDX-License-Identifier: Apache-2.0
"""The package with onnx, ONNX Runtime and, if installed, PyTorch; results are compared with ONNX Runtime."""
import pathlib
import re
import shutil

import numpy as np
import onnx
import onnxruntime
import pytest
from conftest import DIGITS, ROOT
from onnx import TensorProto, helper
from onnxruntime.quantization import CalibrationDataReader

import qcalib


class Reader(CalibrationDataReader):
    """Restarts after its end, so that several quantizers can read it."""

    def __init__(self, arrays):
        self.arrays, self.left = arrays, iter(arrays)

    def get_next(self):
        array = next(self.left, None)
        if array is None:
            self.left = iter(self.arrays)
        return None if array is None else {"input": array}


def test_onnx_runtimes_own_reader_and_model_proto(samples, reference):
    proto = onnx.load(DIGITS)
    batches = [samples[i: i + 1] for i in range(len(samples))]
    assert qcalib.quantize(proto, Reader(batches), method="minmax").model == reference
    outputs = onnxruntime.InferenceSession(reference).run(None, {"input": samples})[0]
    ours = qcalib.run(onnx.load_model_from_string(reference), Reader(batches))["logits"]
    np.testing.assert_allclose(ours, outputs, atol=1e-5)
    exact = onnxruntime.InferenceSession(str(DIGITS)).run(None, {"input": samples})[0]
    labels = exact.argmax(axis=1)
    metric = qcalib.evaluate(reference, [(samples, labels)])
    assert metric.value == (outputs.argmax(axis=1) == labels).mean()


@pytest.fixture(scope="module")
def two_inputs():
    weights = np.random.default_rng(1).normal(size=(6, 6)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["a", "w"], ["x"]), helper.make_node("Add", ["x", "b"], ["sum"])], "two",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 6]) for n in "ab"],
        [helper.make_tensor_value_info("sum", TensorProto.FLOAT, ["N", 6])],
        [onnx.numpy_helper.from_array(weights, "w")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_several_inputs(two_inputs):
    random = np.random.default_rng(2)
    a, b = random.normal(size=(2, 32, 6)).astype(np.float32)
    first = onnxruntime.InferenceSession(two_inputs.SerializeToString()).run(None, {"a": a, "b": b})[0]
    parts = [(a[i: i + 8], b[i: i + 8]) for i in range(0, 32, 8)]
    forms = [{"a": a, "b": b}, parts, [list(p) for p in parts], [(p, np.zeros(8)) for p in parts], list(zip(a, b)),
             [{"b": y, "a": x, "other": "left out"} for x, y in parts], [({"a": x, "b": y}, 1) for x, y in zip(a, b)]]
    for data in forms:
        np.testing.assert_allclose(qcalib.run(two_inputs, data)["sum"], first, atol=1e-5)
    with pytest.raises(qcalib.UsageError, match="a batch has 1 array, but the model has 2 inputs: a, b"):
        qcalib.run(two_inputs, [(x,) for x, _ in parts])
    with pytest.raises(qcalib.UsageError, match=r"one array for 2 inputs: name them, as in {'a': ..., 'b': ...}"):
        qcalib.run(two_inputs, a)


def test_outputs_of_what_has_no_batch(tmp_path):
    """The model's first axis is not the sample: data and outputs have one more axis."""
    graph = helper.make_graph([helper.make_node("ReduceSum", ["x"], ["y"], keepdims=0)], "sum",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    x = np.arange(30, dtype=np.float32).reshape(5, 3, 2)
    np.testing.assert_array_equal(qcalib.run(model, x)["y"], x.sum(axis=(1, 2)))


def test_samples_of_different_sizes():
    """An iterable may have samples of different sizes, as files may. The model leaves the length free, and each batch
    may be padded to its own length."""
    weights = onnx.numpy_helper.from_array(np.random.default_rng(3).normal(size=(4, 3)).astype(np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "words",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", "L", 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "L", 3])], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    random = np.random.default_rng(4)
    sentences = [random.normal(size=(length, 4)).astype(np.float32) for length in (5, 2, 7, 5)]
    session = onnxruntime.InferenceSession(model.SerializeToString())
    for ours, x in zip(qcalib.run(model, iter(sentences))["y"], sentences):
        np.testing.assert_allclose(ours.reshape(-1, 3), session.run(None, {"x": x[np.newaxis]})[0][0], atol=1e-5)
    batches = [np.stack([sentences[0], sentences[3]]), sentences[1][np.newaxis], (sentences[2], "left out")]
    alone = qcalib.quantize(model, [sentences[i] for i in (0, 3, 1, 2)], method="minmax")
    assert alone.model == qcalib.quantize(model, batches, method="minmax").model
    with pytest.raises(qcalib.BadInputError, match=r"'x' has the shape \[2, 5\], but the samples before have \[5, 4\]"):
        qcalib.run(model, [sentences[0], np.zeros((2, 5), np.float32)])


def blocks(page):
    """Returns [(file or None, Python)] without the blocks that are marked as not run."""
    text = (ROOT / "docs" / page).read_text()
    found = re.findall(r"^(?:<!-- ([\w ]+): ([^\n]*) -->\n)?```python\n(.*?)^```$", text, re.M | re.S)
    return [(name if mark == "file" else None, text) for mark, name, text in found if mark != "not run"]


def run_page(page, folder, monkeypatch, **names):
    """Runs the Python of a page in one folder, in order, as a reader would type it."""
    for file in ("digits_cnn.onnx", "digits_calib.h5", "digits_test.h5"):
        shutil.copy(ROOT / "datasets" / file, folder)
    shutil.copy(DIGITS, folder / "model.onnx")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    scope = {"qcalib": qcalib, **names}
    for file, block in blocks(page):
        if file:
            (folder / file).write_text(block)
        exec(compile(block, page, "exec"), scope)  # noqa: S102


def test_the_page_is_right(samples, labels, tmp_path, monkeypatch, capsys):
    loader = [(samples, labels)]
    for page in ("python.md", "data-loader.md"):
        run_page(page, tmp_path, monkeypatch, train_loader=loader, test_loader=loader,
                 reader=Reader([samples[:32], samples[32:]]))
    assert "98.83 in float" in capsys.readouterr().out
    made = {p.name for p in pathlib.Path.cwd().iterdir()}
    assert {"digits.int8.onnx", "model.int8.onnx", "digits.report", "calib.npz"} <= made


def test_a_data_loader_of_pytorch(samples, labels, reference):
    torch = pytest.importorskip("torch")
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(samples), torch.from_numpy(labels))
    loader = torch.utils.data.DataLoader(pairs, batch_size=24, num_workers=2)
    assert qcalib.quantize(DIGITS, loader, method="minmax").model == reference
    assert qcalib.quantize(DIGITS, pairs, method="minmax").model == reference
    assert qcalib.quantize(DIGITS, torch.from_numpy(samples).requires_grad_(), method="minmax").model == reference
    assert qcalib.evaluate(DIGITS, loader).value == 1
    half = torch.from_numpy(samples).to(torch.bfloat16)
    one, two = (qcalib.quantize(DIGITS, x, method="minmax").model for x in (half, half.float()))
    assert one == two
