# SPDX-License-Identifier: Apache-2.0
"""metric=: a function measures the outputs; a program that computes the same gives the same file."""

import sys

import numpy as np
import pytest
from conftest import DIGITS

import qcalib

PROGRAM = """
import sys
import numpy as np
import qcalib
d = np.load(sys.argv[1])
y = qcalib.run(sys.argv[2], d["x"])["logits"]
print(np.abs(y - d["t"]).mean())
"""


@pytest.fixture(scope="module")
def eval_set(samples):
    x = samples
    return {"input": x, "target": qcalib.run(DIGITS, x)["logits"]}


def distance(outputs, batch):
    return np.abs(outputs["logits"] - batch["target"]).mean()


def test_a_function_and_a_program_give_the_same_file(samples, eval_set, tmp_path):
    (tmp_path / "score.py").write_text(PROGRAM)
    np.savez(tmp_path / "d.npz", x=eval_set["input"], t=eval_set["target"])
    command = f"lower:'{sys.executable}' '{tmp_path}/score.py' '{tmp_path}/d.npz' {{}}"
    given = dict(method="minmax", weight_type="int4", max_drop=0.02)
    by_function = qcalib.quantize(DIGITS, samples, eval=eval_set, metric=("lower", distance), **given)
    by_program = qcalib.quantize(DIGITS, samples, metric=command, **given)
    assert by_function.model == by_program.model
    accuracy = by_function.report["accuracy"]
    assert accuracy["metric"] == "metric" and accuracy["lower_is_better"] and accuracy["fp32"] == 0
    assert accuracy["int8"] == pytest.approx(distance(qcalib.run(by_function, eval_set["input"]), eval_set), rel=1e-5)
    assert accuracy["int8"] <= 0.02
    free = qcalib.quantize(DIGITS, samples, eval=eval_set, metric=("lower", distance), method="minmax", weight_type="int4")
    assert free.report["accuracy"]["int8"] > 0.02 and free.model != by_function.model


def test_a_pair_and_errors(samples, eval_set):
    labels = eval_set["target"].argmax(1)
    right = lambda outputs, batch: (outputs["logits"].argmax(1) == batch["labels"]).mean()
    result = qcalib.quantize(DIGITS, samples, eval=(eval_set["input"], labels), metric=right, method="minmax")
    assert result.report["accuracy"]["fp32"] == 1

    assert qcalib.evaluate(result, (eval_set["input"], labels), metric=right).value == result.report["accuracy"]["int8"]
    worse = qcalib.evaluate(result, eval_set, metric=("lower", distance))
    assert worse.name == "metric" and worse.value > 0

    def broken(outputs, batch):
        raise KeyError("boxes")

    with pytest.raises(KeyError, match="boxes"):
        qcalib.quantize(DIGITS, samples, eval=eval_set, metric=broken)
    with pytest.raises(qcalib.UsageError, match="needs eval="):
        qcalib.quantize(DIGITS, samples, metric=right)
    with pytest.raises(qcalib.UsageError, match="takes a function"):
        qcalib.quantize(DIGITS, samples, metric=("less", right), eval=eval_set)
