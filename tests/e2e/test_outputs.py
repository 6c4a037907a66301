# SPDX-License-Identifier: Apache-2.0
"""An output file that is an input or another output, in any spelling, is refused before anything is computed; no input
changes."""

import functools
import os
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from test_bad_input import USAGE, refused
from test_observers import median  # noqa: F401 (a fixture)

pytestmark = pytest.mark.bad_input

DATA, EVAL, MODEL = ["--data", "c.h5"], ["--eval", "t.h5"], "m.onnx"
PARTS = ["--data", "parts"]


@pytest.fixture(scope="session")
def inputs(examples, tmp_path_factory, program):
    """Every kind of input; big.onnx has its weights in w/big.bin."""
    made = tmp_path_factory.mktemp("inputs")
    for name, source in (("m.onnx", "digits_cnn.onnx"), ("c.h5", "digits_calib.h5"), ("t.h5", "digits_test.h5")):
        shutil.copy(examples / source, made / name)
    for command in (
        ["collect", "-q", *DATA, "--samples", "5", MODEL, "-o", "a.stats.h5"],
        ["collect", "-q", *DATA, "--samples", "6", MODEL, "-o", "b.stats.h5"],
        ["--stats", "a.stats.h5", MODEL, "-q", "--no-report", "-o", "q.onnx"],
    ):
        subprocess.run([program, *command], cwd=made, check=True)
    (made / "c.json").write_text('{"samples": 5}')
    (made / "my.rules").write_text("rule again\n  match Neg(Neg(x))\n  give x\n")
    (made / "w").mkdir()
    onnx.save(
        onnx.load(made / "m.onnx"),
        made / "big.onnx",
        save_as_external_data=True,
        location="w/big.bin",
        size_threshold=0,
    )
    (made / "r").mkdir()
    (made / "r/report.json").write_text('{"samples": 5}')
    for part in ("parts/0.npy", "parts/more/1.npy"):
        (made / part).parent.mkdir(exist_ok=True)
        np.save(made / part, np.zeros((2, 1, 8, 8), np.float32))
    return made


@pytest.fixture
def folder(inputs, tmp_path):
    return shutil.copytree(inputs, tmp_path / "work")


@pytest.fixture
def qcalib(qcalib, folder):
    return functools.partial(qcalib, folder=folder)


WRONG = {
    "model": ["quantize", *DATA, MODEL, "-o", "m.onnx"],
    "dots": ["quantize", *DATA, MODEL, "-o", "./w/../m.onnx"],
    "data": ["quantize", *DATA, MODEL, "-o", "c.h5"],
    "data set": ["quantize", "--data", "c.h5:input", MODEL, "-o", "c.h5"],
    "eval": ["quantize", *DATA, *EVAL, MODEL, "-o", "t.h5"],
    "stats": ["quantize", "--stats", "a.stats.h5", MODEL, "-o", "a.stats.h5"],
    "config": ["quantize", *DATA, "--config", "c.json", MODEL, "-o", "c.json"],
    "rules": ["quantize", *DATA, "--rules", "my.rules", MODEL, "-o", "my.rules"],
    "weights": ["quantize", *DATA, "big.onnx", "-o", "w/big.bin"],
    "weights beside": ["quantize", *DATA, "big.onnx", "-o", "w/big.bin", "--format", "text"],
    "report is data": ["quantize", *DATA, MODEL, "--report", "c.h5"],
    "report holds an input": ["quantize", *DATA, "--config", "r/report.json", MODEL, "--report", "r"],
    "report holds the model": ["quantize", *DATA, MODEL, "--report", "r", "-o", "r/layers.csv"],
    "dump": ["quantize", *DATA, MODEL, "--dump", "import=m.onnx"],
    "dump on weights": ["quantize", *DATA, "big.onnx", "--dump", "import=w/big.bin"],
    "dump on the result": ["quantize", *DATA, MODEL, "--dump", "import=out.onnx", "-o", "out.onnx"],
    "dump on the report": ["quantize", *DATA, MODEL, "--dump", "import=r/report.html", "--report", "r"],
    "two dumps": ["quantize", *DATA, MODEL, "--dump", "import=d.txt", "--dump", "fold=./d.txt"],
    "checkpoint is the model": ["quantize", *DATA, MODEL, "--checkpoint", "m.onnx"],
    "checkpoint is the result": ["collect", *DATA, MODEL, "--checkpoint", "s.h5", "-o", "s.h5"],
    "collect on data": ["collect", *DATA, MODEL, "-o", "c.h5"],
    "collect on the model": ["collect", *DATA, MODEL, "-o", "m.onnx"],
    "collect on weights": ["collect", *DATA, "big.onnx", "-o", "w/big.bin"],
    "merge on a part": ["merge", "a.stats.h5", "b.stats.h5", "-o", "b.stats.h5"],
    "run on data": ["run", *DATA, MODEL, "-o", "c.h5"],
    "run on a sample": ["run", *PARTS, MODEL, "-o", "parts/0.npy"],
    "run on a sample below": ["run", *PARTS, MODEL, "-o", "w/../parts/more/1.npy"],
    "dump on a sample": ["quantize", *PARTS, MODEL, "--dump", "import=parts/0.npy"],
    "run on the model": ["run", *DATA, MODEL, "-o", "m.onnx"],
    "run on weights": ["run", *DATA, "big.onnx", "-o", "w/big.bin"],
    "convert on itself": ["convert", "q.onnx", "--format", "qoperator", "-o", "q.onnx"],
    "convert, dump": ["convert", "q.onnx", "--dump", "canonical=q.onnx"],
    "convert, dump on the result": ["convert", "q.onnx", "--dump", "canonical=n.onnx", "-o", "n.onnx"],
    "convert, one format twice": ["convert", "q.onnx", "--format", "qdq,qdq"],
    "page on a model": ["compare", "m.onnx", "q.onnx", *DATA, "--html", "q.onnx"],
}


def content(folder):
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=list(WRONG))
def test_refused(arguments, qcalib, folder):
    before = content(folder)
    refused(qcalib(*arguments, code=None), USAGE, "name another")
    assert content(folder) == before


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
def test_links_are_the_file(link, qcalib, folder):
    link(folder / "m.onnx", folder / "other.onnx")
    link(folder / "c.h5", folder / "other.h5")
    before = content(folder)
    for output in ("other.onnx", "other.h5"):
        for arguments in ([*DATA, MODEL, "--no-report"], ["run", *DATA, MODEL], ["collect", *DATA, MODEL]):
            refused(qcalib(*arguments, "-o", output, code=None), USAGE, output, "name another")
    refused(qcalib("--data", "other.h5", "other.onnx", "-o", "m.onnx", code=None), USAGE, "m.onnx")
    assert content(folder) == before


def test_derived_names(qcalib, folder):
    """Names that were not given are looked at too: of collect, and of several formats."""
    shutil.copy(folder / "c.h5", folder / "m.stats.h5")
    shutil.copy(folder / "c.h5", folder / "m.qoperator.onnx")
    refused(qcalib("collect", "--data", "m.stats.h5", MODEL, code=None), USAGE, "m.stats.h5")
    refused(
        qcalib("--data", "m.qoperator.onnx", MODEL, "--format", "qdq,qoperator", code=None), USAGE, "m.qoperator.onnx"
    )


def test_plugin(qcalib, folder, median):
    shutil.copy(median, folder / "median.so")
    refused(
        qcalib(*DATA, MODEL, "--plugin", "./median.so", "-o", "median.so", code=None),
        USAGE,
        "median.so",
        "name another",
    )


def test_what_is_no_clash(qcalib, folder):
    """Devices take any number of outputs; an earlier output is replaced; a report may lie beside the inputs."""
    qcalib(
        "-q",
        *DATA,
        "--samples",
        5,
        MODEL,
        "-o",
        "/dev/null",
        "--dump",
        "import=/dev/null",
        "--dump",
        "fold=/dev/null",
        "--no-report",
    )
    for _ in range(2):
        qcalib("-q", "--stats", "a.stats.h5", MODEL, "-o", "new.onnx", "--report", ".", "--dump", "import=new.txt")
        qcalib("merge", "-q", "a.stats.h5", "-o", "one.h5")
    assert (folder / "new.onnx").stat().st_size > 1000 and (folder / "report.json").exists()
