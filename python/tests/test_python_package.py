# SPDX-License-Identifier: Apache-2.0
"""The wheel: its program, its options and stubs, which come from the table, and its libraries."""
import importlib.metadata
import importlib.util
import inspect
import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
from conftest import DIGITS, ROOT, command_line

import qcalib
from qcalib import _options


def test_versions_agree():
    version = re.search(r"project\(qcalib VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
    assert version == qcalib.__version__ == importlib.metadata.version("qcalib")
    assert command_line("--version") == f"qcalib {version}\n"


def test_it_needs_numpy_alone():
    needed = importlib.metadata.requires("qcalib")
    assert [re.match(r"[\w-]+", n)[0] for n in needed if "extra ==" not in n] == ["numpy"]
    used = 'import sys, qcalib; print(*(m for m in ("onnx", "torch", "tqdm", "pandas") if m in sys.modules))'
    assert subprocess.run([sys.executable, "-c", used], capture_output=True, text=True, check=True).stdout.strip() == ""


def test_the_command_line_is_the_program(tmp_path):
    assert "Conv" in command_line("inspect", DIGITS)
    command_line("inspect", tmp_path / "missing.onnx", code=3)
    script = pathlib.Path(sys.executable).parent / "qcalib"
    if script.exists():  # not where the package was unpacked into a folder
        said = subprocess.run([script, "--version"], capture_output=True, text=True, check=True).stdout
        assert said.startswith("qcalib ")


def test_libraries_come_with_the_wheel():
    """Nothing is loaded but the C library, and of that no version above 2.28."""
    folder = pathlib.Path(qcalib.__file__).parent
    for file in (folder / "libqcalib.so", folder / "_bin/qcalib"):
        shown = subprocess.run(["readelf", "-dVW", file], capture_output=True, text=True, check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", shown)
        assert needed and all(re.fullmatch(r"(ld-linux.*|lib(c|m|dl|rt|pthread))\.so[.\d]*", name) for name in needed), needed
        versions = [tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+[.\d]*)", shown)]
        assert versions and max(versions) <= (2, 28), max(versions)


def test_licences_of_the_libraries_inside_are_there():
    folder = pathlib.Path(qcalib.__file__).parent
    texts = {p.name: p.read_text(errors="replace") for p in (folder / "_licences").iterdir()}
    assert {"hdf5", "libgomp", "libjpeg-turbo", "zlib"} <= set(texts) and "Runtime Library Exception" in texts["libgomp"]
    inside = {c["name"] for c in json.loads((folder / "qcalib.cdx.json").read_text())["components"]}
    assert {"hdf5", "zlib", "jansson", "libgomp", "glibc"} <= inside and "gsl" not in inside


@pytest.mark.parametrize("job", _options.JOBS)
def test_options_are_those_of_the_command_line(job):
    """Compares the options with those in the help of the program."""
    shown = command_line("help", "eval" if job == "evaluate" else job)
    shown = shown[: shown.index("\nOutput")] + shown[shown.index("\nRunning"): shown.index("\nAbout")]
    listed = set(re.findall(r"^  (?:-\w, )?--([\w-]+)", shown, re.M))
    listed -= {"data", "eval", "stats", "config", "output", "json", "quiet", "verbose"}
    if job == "compare":
        listed.remove("target")  # there it is two names, and a model that is quantized twice: of the command line alone
    assert {o.name for o in _options.of_job(job)} == listed
    parameters = inspect.signature(getattr(qcalib, job)).parameters
    assert {n.replace("-", "_") for n in listed} <= set(parameters)
    assert all(f"    {o.keyword}: {_options.about(o)}\n" in getattr(qcalib, job).__doc__ for o in _options.of_job(job))


def test_values_of_options(samples):
    def bytes_with(**options):
        return qcalib.quantize(DIGITS, samples, method="minmax", **options).model

    plain = bytes_with()
    assert plain == bytes_with(per_tensor=False, bias_correction=True, skip=None, symmetric="weights", threads=1)
    assert bytes_with(per_tensor=True) != plain
    assert bytes_with(bias_correction=False) == bytes_with(bias_correction="off") != plain
    last, before = "logits_node", "dense1_out_node"
    assert bytes_with(skip=[last, before]) == bytes_with(skip=(before, last)) != plain
    assert bytes_with(activation_type=["int8", "uint16:res2*"]) != bytes_with(activation_type="int8") != plain
    assert bytes_with(symmetric=["activations", "weights"]) == bytes_with(symmetric=True) != plain
    assert bytes_with(memory_limit=1 << 30) == bytes_with(memory_limit="1G") == plain
    with pytest.raises(qcalib.UsageError, match="per_tensor must be True or False, not 'yes'"):
        bytes_with(per_tensor="yes")


def test_stubs_are_those_of_the_table():
    """The stubs are current; `scripts/bless --python` renews them."""
    spec = importlib.util.spec_from_file_location("python_stubs", ROOT / "scripts/python_stubs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    stubs = pathlib.Path(qcalib.__file__).with_suffix(".pyi").read_text()
    assert stubs == module.stubs()
    names = set(re.findall(r"^(?:def|class) (\w+)", stubs, re.M)) - {"_ModelProto", "_DataReader"}
    assert names == set(qcalib.__all__)
    compile(stubs, "stubs", "exec")
