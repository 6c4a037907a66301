# SPDX-License-Identifier: Apache-2.0
"""The programs for Dask and Ray in docs/cluster.md run unchanged and print the output that the page shows.

scripts/test runs `-k dask`, scripts/test --long `-k ray`, each in an environment with that package and h5py.
QCALIB_BLESS=1 writes the output into the page."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from conftest import ROOT

import qcalib

PAGE = (ROOT / "docs/cluster.md").read_text()
BLOCK = r"```{}\n(.*?)```"


def shown(name):
    """Returns the program of that name on the page, and its output."""
    at = PAGE.index(f"<!-- file: {name} -->")
    program = re.compile(BLOCK.format("python"), re.DOTALL).search(PAGE, at)
    output = re.compile(BLOCK.format("text"), re.DOTALL).search(PAGE, program.end())
    return program[1], output[1]


@pytest.mark.parametrize("tool", ["dask", "ray"])
def test_the_page_runs_and_gives_the_model_of_one_machine(tool, tmp_path):
    for file in (ROOT / "datasets").glob("digits_*"):
        shutil.copy(file, tmp_path)
    program, output = shown(f"with_{tool}.py")
    (tmp_path / "program.py").write_text(program)
    package = pathlib.Path(qcalib.__file__).parents[1]
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
                          timeout=300, env={**os.environ, "PYTHONPATH": str(package), "RAY_AUTH_MODE": "disabled"})
    assert done.returncode == 0, done.stderr
    if os.environ.get("QCALIB_BLESS"):
        (ROOT / "docs/cluster.md").write_text(PAGE.replace(output, done.stdout))
    assert done.stdout == output

    import h5py

    with h5py.File(tmp_path / "digits_calib.h5") as f:
        images = ((f["input"][:] / 16 - 0.30544677) / 0.37608194).astype("float32")
    alone = qcalib.quantize(tmp_path / "digits_cnn.onnx", images[::2], statistics=qcalib.collect(
        tmp_path / "digits_cnn.onnx", images))
    assert (tmp_path / f"from_{tool}.onnx").read_bytes() == alone.model
