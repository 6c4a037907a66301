# SPDX-License-Identifier: Apache-2.0
"""Every form of data gives the same model as the command line with a file of the same samples."""
import weakref

import numpy as np
import pytest
from conftest import DIGITS

import qcalib


def batches(samples, size=24):  # the last one is smaller
    return [samples[i: i + size] for i in range(0, len(samples), size)]


class Tensor:
    """The part of a PyTorch tensor that the package uses."""

    def __init__(self, array, gradient=True):
        self.array, self.gradient, self.dtype = array, gradient, array.dtype

    def detach(self):
        return Tensor(self.array, gradient=False)

    def cpu(self):
        return self

    def numpy(self):
        if self.gradient:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self.array

    def __array__(self, *_, **__):
        return self.numpy()


class Loader:
    """Like PyTorch's DataLoader: every iteration restarts; batches are lists [images, labels]."""

    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return ([Tensor(b), Tensor(np.zeros(len(b), np.int64))] for b in batches(self.samples))

    def __len__(self):
        return len(batches(self.samples))


class Dataset:
    """Like PyTorch's Dataset: (sample, label) by index; iteration would not end."""

    def __init__(self, samples):
        self.samples = samples

    def __getitem__(self, i):
        return self.samples[i % len(self.samples)], 3

    def __len__(self):
        return len(self.samples)


class Reader:
    """Like ONNX Runtime's CalibrationDataReader."""

    def __init__(self, samples):
        self.left = iter(batches(samples))

    def get_next(self):
        batch = next(self.left, None)
        return None if batch is None else {"input": batch}


FORMS = {
    "array": lambda s: s,
    "tensor": Tensor,
    "arrays by name": lambda s: {"input": s},
    "labels are left out": lambda s: {"input": s, "labels": np.zeros(len(s), np.int64)},
    "channels last in memory": lambda s: s.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2),
    "float64": lambda s: s.astype(np.float64),
    "big endian": lambda s: s.astype(">f4"),
    "list of batches": batches,
    "generator of batches": lambda s: (b for b in batches(s)),
    "batches in tuples": lambda s: [(b,) for b in batches(s)],
    "batches by name": lambda s: [{"input": b} for b in batches(s)],
    "by name, with others": lambda s: [{"input": b, "label": 3, "path": "a.png"} for b in batches(s)],
    "by name, with labels behind": lambda s: [({"input": b}, np.zeros(len(b))) for b in batches(s)],
    "samples one by one": lambda s: list(s),
    "samples with labels": lambda s: [(x, 3) for x in s],
    "samples by name": lambda s: [{"input": x} for x in s],
    "lists of numbers": lambda s: [x.tolist() for x in s],
    "DataLoader": Loader,
    "Dataset": Dataset,
    "CalibrationDataReader": Reader,
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_data(form, samples, reference):
    assert qcalib.quantize(DIGITS, FORMS[form](samples), method="minmax").model == reference


def test_a_file(samples, reference, tmp_path):
    np.savez(tmp_path / "samples.npz", input=samples)
    assert qcalib.quantize(DIGITS, tmp_path / "samples.npz", method="minmax").model == reference
    assert qcalib.quantize(DIGITS, str(tmp_path / "samples.npz"), method="minmax").model == reference


def test_iterables_are_read_no_further_than_asked(samples, reference):
    given = []

    def endless():
        while True:
            for batch in batches(samples, 16):
                given.append(len(batch))
                yield batch

    assert qcalib.quantize(DIGITS, endless(), samples=64, method="minmax").model == reference
    assert sum(given) == 64


def test_batches_are_not_kept(samples):
    alive = []

    def fresh():
        for batch in batches(samples, 8):
            assert sum(a() is not None for a in alive) <= 1  # the one that was given last
            batch = batch.copy()
            alive.append(weakref.ref(batch))
            yield batch

    qcalib.quantize(DIGITS, fresh(), method="minmax")
    assert len(alive) == 8


@pytest.mark.parametrize("form", ["arrays", "loader", "by name", "one by one"])
def test_labels(form, samples, labels):
    forms = {"arrays": {"input": samples, "labels": labels}, "loader": zip(batches(samples), batches(labels)),
             "by name": [{"input": x, "label": y} for x, y in zip(batches(samples), batches(labels))],
             "one by one": zip(samples, labels)}
    metric = qcalib.evaluate(DIGITS, forms[form])
    assert (metric.name, metric.value, metric.samples) == ("top1", 1, 64)


def test_an_exception_of_the_iterable_comes_through(samples):
    def breaks():
        yield samples[:8]
        raise ZeroDivisionError("of my own")

    with pytest.raises(ZeroDivisionError, match="of my own"):
        qcalib.quantize(DIGITS, breaks())


WRONG = {
    "gave no samples": lambda s: [],
    r"sample 8: 'input' has the shape \[1, 8, 4\], but the samples before have \[1, 8, 8\]; only sizes":
        lambda s: [s[:8], s[:8, :, :, :4]],
    r"arrays of different lengths: input \[8, 1, 8, 8\], labels \[4\]":
        lambda s: [{"input": s[:8], "labels": s[:4, 0, 0, 0]}],
    "sample 8: 'input' is missing": lambda s: [{"input": s[:8]}, {"other": s[:8]}],
    "an array of <U1 holds no samples": lambda s: ["a"],
    "data must be a path, arrays by name, or an iterable of them, not int": lambda s: 3,
}


@pytest.mark.parametrize("message", WRONG)
def test_what_is_wrong_with_data_is_said(message, samples):
    with pytest.raises(qcalib.QcalibError, match=message) as raised:
        qcalib.evaluate(DIGITS, WRONG[message](samples))
    assert isinstance(raised.value, ValueError)


# ---- Types that differ from batch to batch, and names that C would cut ----


def image(values, dtype=None):
    return np.resize(np.array(values, dtype), (1, 1, 8, 8))


@pytest.mark.parametrize("first, second", [
    (image([1, 2, 3]), image([0.5, 1, 2])),
    (image([1, 2, 3]).tolist(), image([0.5, 1, 2]).tolist()),
    (image([1, 2, 3]), image([np.nan, 1, 2])),
    (image([1, 2, 3], np.uint8), image([-1, 2, 3])),
    (image([1, 2, 3], np.uint8), image([256, 2, 3])),
    (image([1, 2, 3], np.int64), image([2**63 + 1, 2, 3], np.uint64)),
    (image([1, 2, 3], np.int64), image([2.0**63, 2, 3])),
    (image([True, False]), image([2, 0, 1])),
    (image([1, 2, 3], np.float16), image([1e5, 2, 3])),
    (image([1, 2, 3], np.float32), image([1e300, 2, 3])),
])
def test_values_that_the_type_of_the_first_batch_does_not_hold(first, second):
    with pytest.raises(qcalib.BadInputError, match=r"sample 1: 'input' .*type"):
        qcalib.run(DIGITS, iter([first, second]))


@pytest.mark.parametrize("first, second", [
    (image([1, 2, 3]), image([5.0, 6, 7])),
    (image([1, 2, 3], np.uint8), image([255, 0, 7])),
    (image([1, 2, 3], np.float32), image([0.1, 1e30, 3])),
    (image([0.5, 1, 2]).tolist(), image([1, 2, 3]).tolist()),
])
def test_values_that_it_holds(first, second):
    both = np.concatenate([np.asarray(v, np.float32) for v in (first, second)])
    given = qcalib.run(DIGITS, iter([first, second]))
    np.testing.assert_array_equal(given["logits"], qcalib.run(DIGITS, both)["logits"])


@pytest.mark.parametrize("name", ["a\0b", "\0", "a\ud800"])
def test_names_that_c_would_cut(name, samples, tmp_path):
    there = str(tmp_path / name)
    result = qcalib.quantize(DIGITS, data=samples, advice="off")
    for call in (
        lambda: qcalib.run(DIGITS, there),
        lambda: qcalib.run(there, samples),
        lambda: qcalib.run(DIGITS, {name: samples}),
        lambda: qcalib.run(DIGITS, [{name: samples}]),
        lambda: qcalib.run(DIGITS, samples, input="input=" + name),
        lambda: qcalib.run(DIGITS, samples, **{name: 1}),
        lambda: qcalib.quantize(DIGITS, data=samples, observer=name),
        lambda: qcalib.quantize(DIGITS, data=samples, out=there),
        lambda: result.save(there),
        lambda: result.save_report(there),
        lambda: qcalib.inspect(there),
    ):
        with pytest.raises(qcalib.UsageError, match="NUL" if "\0" in name else "not valid text"):
            call()
    assert list(tmp_path.iterdir()) == []
