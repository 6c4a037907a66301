# SPDX-License-Identifier: Apache-2.0
"""The output of qcalib inspect, list and help."""

import json
import re
import shutil
import subprocess

import h5py
import numpy
import onnx
import pytest
from conftest import ROOT
from onnx import TensorProto, helper, numpy_helper

COMMANDS = ["quantize", "collect", "merge", "run", "eval", "inspect", "list", "help"]
TABLES = ["ops", "observers", "formats", "roundings", "rules", "passes", "targets"]


def test_model(qcalib, examples):
    model = onnx.load(str(examples / "digits_cnn.onnx"))
    done = qcalib("inspect", examples / "digits_cnn.onnx")
    assert len(done.out.splitlines()) <= 15 and "opset" in done.out and "Conv" in done.out
    root = qcalib("inspect", examples / "digits_cnn.onnx", "--json").json
    assert root["kind"] == "model" and root["opset"] == model.opset_import[0].version
    assert [i["name"] for i in root["inputs"]] == [i.name for i in model.graph.input]
    assert [o["name"] for o in root["outputs"]] == [o.name for o in model.graph.output]
    assert root["ops"]["Conv"] == sum(n.op_type == "Conv" for n in model.graph.node)
    assert root["nodes"] == sum(root["ops"].values())
    assert "values" not in root and "values" in qcalib("inspect", examples / "digits_cnn.onnx", "--json", "-v").json


def test_parameters_and_work_by_hand(qcalib, tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 9, 9])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 6])
    rng = numpy.random.default_rng(0)

    def constant(name, *shape):
        return numpy_helper.from_array(rng.normal(size=shape).astype(numpy.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], group=2, strides=[2, 2], pads=[1, 1, 1, 1]),
        helper.make_node("GlobalAveragePool", ["c"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "d"], ["y"], transB=1),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [constant("w", 8, 2, 3, 3), constant("b", 8), constant("d", 6, 8)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), tmp_path / "m.onnx")
    root = qcalib("inspect", "m.onnx", "--json").json
    assert root["parameters"] == 8 * 2 * 9 + 8 + 48 and root["parameter_bytes"] == 4 * root["parameters"]
    assert root["macs"] == 8 * 5 * 5 * 2 * 9 + 48
    assert root["inputs"] == [{"name": "x", "type": "f32", "shape": ["N", 4, 9, 9]}]


def test_quantized_values(qcalib, tmp_path):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    initial = [numpy_helper.from_array(numpy.float32(0.125), "s"), numpy_helper.from_array(numpy.uint8(7), "z")]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], initial)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7), tmp_path / "m.onnx")
    (value,) = qcalib("inspect", "m.onnx", "--json").json["quantized"]
    assert value == {"name": "q", "kind": "activation", "type": "u8", "scale": [0.125], "zero_point": [7]}
    assert "scale 0.125, zero point 7" in qcalib("inspect", "m.onnx", "-v").out


def test_data(qcalib, tmp_path):
    with h5py.File(tmp_path / "d.h5", "w") as file:
        file.create_dataset("group/x", data=numpy.zeros((5, 3, 2), numpy.uint8), chunks=(1, 3, 2), compression=4)
        file["group/x"].attrs["scale"] = 0.5
        file["labels"] = numpy.arange(5)
    done = qcalib("inspect", "d.h5")
    assert "group/x  uint8 [5,3,2]" in done.out and "scale = 0.5" in done.out and "labels  int64 [5]" in done.out
    sets = {d["name"]: d for d in qcalib("inspect", "d.h5", "--json").json["datasets"]}
    assert (
        sets["group/x"]["shape"] == [5, 3, 2]
        and sets["group/x"]["type"] == "uint8"
        and "gzip 4" in sets["group/x"]["storage"]
    )
    assert sets["group/x"]["attributes"] == {"scale": "0.5"}


def test_report(qcalib, tmp_path):
    report = {
        "tool": "qcalib",
        "version": "9.9",
        "command": "quantize",
        "model": {"file": "m.onnx"},
        "data": {"file": "d.h5", "samples": 12},
        "options": {"method": "kl"},
        "accuracy": None,
        "float_ops": [],
        "warnings": [],
        "layers": [{}, {}, {}],
    }
    (tmp_path / "report.json").write_text("\n " + json.dumps(report))
    done = qcalib("inspect", "report.json")
    assert "m.onnx" in done.out and "d.h5" in done.out and "kl" in done.out and "3 quantized values" in done.out
    root = qcalib("inspect", "report.json", "--json").json
    assert root["kind"] == "report" and root["layers"] == 3 and root["options"] == {"method": "kl"}
    assert qcalib("inspect", ".", "--json").json == {**root, "file": "./report.json"}  # the folder of a report
    (tmp_path / "empty").mkdir()
    assert "empty/report.json" in qcalib("inspect", "empty", code=3).err


@pytest.mark.parametrize("table", TABLES)
def test_list(table, qcalib):
    text = qcalib("list", table).out.splitlines()
    rows = qcalib("list", table, "--json").json[table]
    assert len(rows) == len(text) - 1 >= 1
    for line, row in zip(text[1:], rows):
        assert [line.find(str(v)) >= 0 for v in row.values()] == [True] * len(row)


@pytest.mark.parametrize("table, page", [("observers", "observers.md"), ("targets", "targets.md"), ("roundings", "numerics.md")])
def test_pages_name_what_the_lists_have(qcalib, table, page):
    """Each row of a table of the source is on the page of its kind."""
    tables = "".join(re.findall(r"^\|.*", (ROOT / "docs" / page).read_text(), re.M))
    named = set(re.findall(r"`([\w-]+)[:`]", tables))
    first = [next(iter(row.values())) for row in qcalib("list", table, "--json").json[table]]
    rows = {name.split(":")[0] for names in first for name in names.split(", ")}
    assert len(rows) >= 5 and rows <= named, rows - named


def test_lists_are_those_of_the_program(qcalib, examples):
    assert {"minmax", "percentile", "mse", "kl"} <= {
        r["observer"] for r in qcalib("list", "observers", "--json").json["observers"]
    }
    assert {"Conv", "Gemm", "Sigmoid", "QuantizeLinear"} <= {
        r["op"] for r in qcalib("list", "ops", "--json").json["ops"]
    }
    rules = qcalib("list", "rules", "--json").json["rules"]
    text = (examples.parent / "rewrite/rules/sets.rules").read_text()
    sets = {m[1]: m[2].split(" | ") for m in re.finditer(r"^set (\w+) = (.+)$", text, re.M)}
    for file in (examples.parent / "rewrite/rules").rglob("*.rules"):
        listed = [r for r in rules if r["file"].split(":")[0] == file.name]
        for word, kind in (("rule", "rewrite"), ("pattern", "pattern"), ("island", "island"), ("function", "function"), ("refuse", "refuse")):
            written = [
                (name, str(file.read_text()[:at].count("\n") + 1))
                for name, at in ((m[1], m.start()) for m in re.finditer(rf"^{word} ([\w.:]+)", file.read_text(), re.M))
            ]
            assert written == [(r["rule"], r["file"].split(":")[1]) for r in listed if r["kind"] == kind]
        words = re.findall(r"^allow\s+\w+\s+((?:[A-Z]\w*\s+)+)", re.sub("#.*", "", file.read_text()), re.M)
        allowed = [op for word in " ".join(words).split() for op in sets.get(word, [word])]
        assert allowed == [r["rule"] for r in listed if r["kind"].startswith("allow ")]
        assert listed or file.name == "sets.rules" or file.parent.name == "targets"  # some of which say only what others they are like
        assert all(("--bias narrowed" in r["used"]) == file.name.startswith("bias_") for r in listed)


def test_overview_fits_one_screen(qcalib):
    for arguments in (["--help"], ["help"], ["-h"]):
        lines = qcalib(*arguments).out.splitlines()
        assert len(lines) <= 24 and max(map(len, lines)) <= 80
        assert all(any(line.split()[:1] == [c] for line in lines) for c in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command(command, qcalib):
    text = qcalib("help", command).out
    assert text == qcalib(command, "--help").out and max(map(len, text.splitlines())) <= 80
    assert text.splitlines()[1].strip().startswith("qcalib")


def test_help_lists_the_contract(qcalib):
    text = qcalib("help", "quantize").out
    for option in (
        "data",
        "input",
        "preprocess",
        "samples",
        "seed",
        "eval",
        "method",
        "weight-method",
        "activation-type",
        "weight-type",
        "per-tensor",
        "per-channel",
        "symmetric",
        "range",
        "format",
        "only",
        "skip",
        "rules",
        "require-integer",
        "max-drop",
        "output",
        "report",
        "no-report",
        "dump",
        "threads",
        "memory-limit",
        "config",
        "json",
        "quiet",
        "verbose",
        "progress",
        "nonfinite",
    ):
        assert f"--{option}" in text, option


def test_version(qcalib):
    assert re.fullmatch(r"qcalib \d+\.\d+\.\d+\n", qcalib("--version").out)
    assert qcalib("run", "--version").out == qcalib("--version").out


def test_manual(qcalib, tmp_path):
    page = qcalib("help", "--man").out
    assert page.startswith(".TH QCALIB 1") and r"\-\-weight\-method" in page and ".SH EXIT STATUS" in page
    if not shutil.which("groff"):
        pytest.skip("no groff")
    (tmp_path / "qcalib.1").write_text(page)
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww", tmp_path / "qcalib.1"], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""


COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _qcalib; printf '%s\\n' "${COMPREPLY[@]}"
"""


def test_bash_completion(qcalib, tmp_path):
    script = tmp_path / "completion"
    script.write_text(qcalib("help", "--completion", "bash").out)

    def complete(*words):
        done = subprocess.run(
            ["bash", "-c", COMPLETE, "bash", script, *words], capture_output=True, text=True, check=True, cwd=tmp_path
        )
        assert done.stderr == ""
        return [w.strip() for w in done.stdout.split()]

    assert "quantize" in complete("qcalib", "qu")
    assert complete("qcalib", "quantize", "--meth") == ["--method"]
    assert complete("qcalib", "run", "--meth") == []
    formats = re.findall(r'X\(c, "(\w+)"', (ROOT / "graph/types/number_format.h").read_text())
    types = complete("qcalib", "--activation-type", "")
    assert types[0] == "uint8" and types[-2:] == ["dynamic", "none"] and len(set(types)) == len(types)
    assert {"float8e4m3fn", "bfp16", *formats} < set(types)
    assert complete("qcalib", "--activation-type", "=", "ui") == ["uint8", "uint16", "uint4"]
    assert complete("qcalib", "list", "obs") == ["observers"]
    assert complete("qcalib", "inspect", "compl") == ["completion"]
    assert complete("qcalib", "--rules", "compl") == ["completion"]


def test_every_option_and_command_is_everywhere(qcalib):
    """The tables themselves, read as text, against the manual, help and completion that are made from them."""
    names = re.findall(r'\.name = "([a-z-]+)"', (ROOT / "quantize/options/options.def").read_text())
    commands = re.findall(r'^QC_COMMAND\(\w+, "([a-z-]+)"', (ROOT / "cli/options/commands.def").read_text(), re.M)
    manual, shells = qcalib("help", "--man").out.replace("\\-", "-"), [
        qcalib("help", "--completion", s).out for s in ("bash", "zsh", "fish")
    ]
    help_pages = "".join(qcalib("help", c).out for c in commands)
    assert len(names) > 40 and len(commands) >= 10
    for name in names:
        assert f"--{name}" in manual and f"--{name}" in help_pages, name
        assert all(re.search(rf"(--|-l ){name}\b", text) for text in shells), name
    pages = "".join(p.read_text() for p in [ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
    assert [n for n in names if not re.search(rf"--{n}\b", pages)] == [], "give each option a place on a page of docs/"
    for command in commands:
        assert f".B {command}\n" in manual and all(command in text for text in shells), command


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_parses(shell, qcalib, tmp_path):
    text = qcalib("help", "--completion", shell).out
    assert "activation-type" in text and "uint8" in text
    (tmp_path / "script").write_text(text)
    if not shutil.which(shell):
        pytest.skip(f"no {shell}")
    assert subprocess.run([shell, "-n", tmp_path / "script"], capture_output=True, text=True, check=True).stderr == ""
