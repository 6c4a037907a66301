# SPDX-License-Identifier: Apache-2.0
"""Names in files may have any bytes: printed and written text never controls a terminal, reorders a line, becomes
markup or a formula, or breaks JSON. Every command is run with such names."""

import csv
import html.parser
import io
import json
import os
import pathlib
import re
import subprocess
import unicodedata

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from terminal import on_terminal

pytestmark = pytest.mark.bad_input
ROOT = pathlib.Path(__file__).resolve().parents[2]

# Escapes of terminals (ESC, the C1 form of CSI), line ends, bell, overrides and marks of direction, zero width, tags, markup, quotes, and a
# place for bytes that are no UTF-8, which protobuf's own strings cannot hold.
EVIL = (
    "\x1b[31m\x07\r\n\t\x9b31m\x85\u202eesrever\u2066\u200b\ufeff\u2028\U000e0001<script>alert(1)</script>&\"',\\"
    + "NOTUTF8!"
)
RAW = b"\xff\xfe\xc3(\x80\xed\xa0\x80"
assert len(RAW) == len("NOTUTF8!")
FILE = "\x1b[2J\u202e\n"  # of a file's name


def evil(prefix):
    return prefix + EVIL


def unprintable(text, allowed=""):
    return [
        c
        for c in text
        if c not in allowed
        and (unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Co", "Cs") or ord(c) & 0xFFFE == 0xFFFE)
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A model and data in which every name is one of those; samples and target."""
    folder = tmp_path_factory.mktemp("names")
    rng = np.random.default_rng(5)
    names = {k: evil(k) for k in ("=x", "+conv", "-relu", "@y", "w", "b", "s")}
    nodes = [
        helper.make_node(
            "Conv",
            [names["=x"], names["w"], names["b"]],
            [names["+conv"]],
            name=evil("=node"),
            doc_string=evil("doc"),
            pads=[1, 1, 1, 1],
        ),
        helper.make_node("Relu", [names["+conv"]], [names["-relu"]], name=evil("@node")),
        helper.make_node("Softmax", [names["-relu"]], [names["s"]], name=evil("soft"), axis=1),
        helper.make_node("Conv", [names["s"], names["w"] + "2"], [names["@y"]], name=evil("+node")),
    ]
    weights = [
        numpy_helper.from_array(rng.normal(size=(4, 3, 3, 3)).astype(np.float32), names["w"]),
        numpy_helper.from_array(np.zeros(4, np.float32), names["b"]),
        numpy_helper.from_array(rng.normal(size=(5, 4, 1, 1)).astype(np.float32), names["w"] + "2"),
    ]
    ports = [
        [helper.make_tensor_value_info(names["=x"], TensorProto.FLOAT, [evil("N"), 3, 6, 6])],
        [helper.make_tensor_value_info(names["@y"], TensorProto.FLOAT, [evil("M"), 5, 6, 6])],
    ]
    graph = helper.make_graph(nodes, evil("graph"), *ports, weights, doc_string=evil("doc"))
    model = helper.make_model(
        graph,
        producer_name=evil("producer"),
        producer_version=evil("1"),
        domain=evil("domain"),
        doc_string=evil("doc"),
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid(evil("set"), 1)],
    )
    helper.set_model_props(model, {evil("key"): evil("value")})
    (folder / f"m{FILE}.onnx").write_bytes(model.SerializeToString().replace(b"NOTUTF8!", RAW))
    with h5py.File(folder / f"c{FILE}.h5", "w") as file:
        x = file.create_dataset(
            b"=x" + EVIL.encode().replace(b"NOTUTF8!", RAW).replace(b"/", b"|"),
            data=rng.normal(size=(6, 3, 6, 6)).astype(np.float32),
        )
        x.attrs["name"] = np.bytes_(names["=x"].encode().replace(b"NOTUTF8!", RAW))
        x.attrs[evil("attribute")] = evil("text")
        file["target"] = rng.normal(size=(6, 5, 6, 6)).astype(np.float32)
    (folder / "bad.rules").write_bytes(b"rule " + EVIL.encode().replace(b"NOTUTF8!", RAW))
    (folder / "bad.json").write_text(json.dumps({evil("key"): 1}))
    bad = onnx.ModelProto.FromString(model.SerializeToString())
    bad.graph.node[1].op_type = evil("Op")
    bad.graph.node[2].domain = evil("set")
    bad.graph.initializer[0].dims[0] = 5
    (folder / "bad.onnx").write_bytes(bad.SerializeToString().replace(b"NOTUTF8!", RAW))
    return folder


M, C = f"m{FILE}.onnx", f"c{FILE}.h5"
Q, S = f"q{FILE}.onnx", f"s{FILE}.h5"
DUMPS = [
    f"--dump={stage}"
    for stage in (
        "import",
        "normalise",
        "functions",
        "partition",
        "simulate",
        "bind",
        "correct",
        "expand",
        "fold",
        "realise",
        "export",
    )
]
GOOD = [
    ["inspect", M],
    ["inspect", "-v", M],
    ["inspect", C],
    ["inspect", "-v", C],
    ["collect", "--data", C, M, "-o", S, "--progress", "always"],
    ["inspect", S],
    ["inspect", "-v", S],
    ["merge", S, "-o", f"all{FILE}.h5"],
    [
        "quantize",
        "--data",
        C,
        M,
        "-o",
        Q,
        "--report",
        f"r{FILE}",
        "-v",
        "--sensitivity",
        "--eval",
        C,
        "--progress",
        "always",
        "--skip",
        "+node\x1b*",
        "--prefer",
        "integers",
    ],
    ["inspect", f"r{FILE}"],
    ["quantize", "--prefer", "integers", "--data", C, M, "--format", "qdq,qoperator,annotated,text", "--no-report", *DUMPS],
    ["quantize", "--data", C, M, "-o", "d.onnx", "--no-report", *[f"{d}={FILE}{k}.txt" for k, d in enumerate(DUMPS)]],
    ["run", M, "--data", C, "-o", f"out{FILE}.h5"],
    ["inspect", f"out{FILE}.h5"],
    ["eval", M, Q, "--data", C],
    ["compare", M, Q, "--data", C, "-v", "--html", f"page{FILE}.html"],
    ["convert", Q, "--format", "qoperator", "-o", f"o{FILE}.onnx", "--dump", "canonical"],
]
FAILING = [
    [f"nothing{FILE}"],
    ["inspect", f"nothing{FILE}"],
    ["list", evil("ops")[:-8]],
    ["quantize", M, "--data", f"no{FILE}.h5"],
    ["quantize", M, "--" + evil("o")[:-8]],
    ["quantize", M, "--data", C, "--method", evil("kl")[:-8]],
    ["quantize", M, "--data", C, "--input", evil("a")[:-8] + "=b"],
    ["inspect", "bad.onnx"],
    ["quantize", "bad.onnx", "--data", C],
    ["quantize", M, "--data", C, "--rules", "bad.rules"],
    ["quantize", M, "--data", C, "--config", "bad.json"],
    ["quantize", M, "--data", C, "--require-integer"],
    ["quantize", M, "--data", C, "-o", f"no{FILE}/m.onnx"],
    ["quantize", M, "--data", C, "--preprocess", evil("scale")[:-8]],
    ["run", M, "--data", f"{C}:nothing{FILE}", "-o", "out.h5"],
    ["merge", M, "-o", "all.h5"],
    ["compare", M, Q, "--data", C, "--tolerance", "0"],
]


class Page(html.parser.HTMLParser):
    """Counts what is markup."""

    def __init__(self):
        super().__init__()
        self.scripts, self.alerts, self.events = 0, 0, 0

    def handle_starttag(self, tag, attrs):
        self.scripts += tag == "script"
        self.events += sum(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data):
        self.alerts += "alert(1)" in data


@pytest.fixture(scope="module")
def walked(made, program):
    """Every command that succeeds, as text and as JSON: [(arguments, what it printed)]. A dump without a file is text."""
    printed = []
    for command in GOOD:
        prints = any(a.startswith("--dump") and "=" not in a[7:] for a in command)
        for more in [[]] if prints else ([], ["--json"]):
            done = subprocess.run(
                [program, *command, *more], cwd=made, capture_output=True, stdin=subprocess.DEVNULL, check=False
            )
            assert done.returncode == 0, (command, done.stderr)
            assert b"Sanitizer" not in done.stderr and b"runtime error:" not in done.stderr, done.stderr
            printed.append((command + more, done.stdout, done.stderr))
    return printed


def test_terminal(walked):
    for command, out, err in walked:
        assert not unprintable(out.decode(), "\n"), (command, out)
        err = err.decode().replace("\x1b[K", "").replace("\r", "")  # the progress bar is ours
        assert not unprintable(err, "\n"), (command, err)


def test_names_are_there(walked):
    """Shown, not left out: what was escaped can be told."""
    shown = (
        r"\x1b[31m\x07\x0d\x0a\x09\u009b31m\u0085\u202eesrever\u2066\u200b\ufeff\u2028\U000e0001<script>alert(1)</script>&"
        + "\"',\\"
    )
    text = dict((tuple(c), o.decode()) for c, o, _ in walked)
    out = text[("inspect", "-v", M)]
    assert (
        "=x" + shown + r"\xff\xfe\xc3(\x80\xed\xa0\x80" in out and f"file     m\\x1b[2J\\u202e\\x0a.onnx: ONNX" in out
    )
    assert "=x" + shown.replace("/", "|") in text[("inspect", "-v", C)]


def test_json(walked, made):
    """Valid, and the names come back: what JSON can hold as it is, the rest spelled out."""
    texts = [(c, o) for c, o, _ in walked if "--json" in c]
    assert len(texts) >= 14
    for command, out in texts:
        assert isinstance(json.loads(out), dict), command
    model = json.loads(dict((tuple(c), o) for c, o in texts)[("inspect", M, "--json")])
    assert model["inputs"][0]["name"] == ("=x" + EVIL).replace("NOTUTF8!", r"\xff\xfe\xc3(\x80\xed\xa0\x80")
    report = (made / f"r{FILE}" / "report.json").read_bytes().decode()
    assert not unprintable(report, "\n") and len(json.loads(report)["layers"]) >= 3


def test_csv(walked, made):
    text = (made / f"r{FILE}" / "layers.csv").read_bytes().decode()
    assert not unprintable(text.replace("\r\n", "\n"), "\n")
    rows = list(csv.reader(io.StringIO(text, newline="")))
    names = [r[0] for r in rows[1:]]
    assert len({len(r) for r in rows}) == 1 and any(n.startswith(("'=", "'+", "'-", "'@")) for n in names)
    for row in rows[1:]:
        for cell in row:
            assert cell[:1] not in ("=", "+", "-", "@") or re.fullmatch(r"-[0-9.]+(e[-+]?[0-9]+)?", cell), cell


def test_html(walked, made):
    for path in (made / f"r{FILE}" / "report.html", made / f"page{FILE}.html"):
        text = path.read_bytes().decode()
        assert not unprintable(text, "\n\t")
        page = Page()
        page.feed(text)
        # Two scripts: the record and the viewer. The names are in the record, and as text where there is no JavaScript.
        assert page.scripts == 2 and page.events == 0 and page.alerts > 0
        assert r"\u202eesrever" in text


def test_dumps(walked, made):
    files = sorted(made.glob("*.txt"))
    assert len(files) >= len(DUMPS)
    for path in files:
        assert not unprintable(path.read_bytes().decode(), "\n"), path


@pytest.mark.parametrize("command", FAILING, ids=[f"{c[0].split(chr(27))[0]} {k}" for k, c in enumerate(FAILING)])
def test_messages(command, walked, made, program):
    for more in ([], ["--json"]):
        done = subprocess.run(
            [program, *command, *more], cwd=made, capture_output=True, stdin=subprocess.DEVNULL, check=False
        )
        assert done.returncode in (1, 2, 3, 4, 5), done
        assert not unprintable(done.stdout.decode(), "\n") and not unprintable(done.stderr.decode(), "\n"), done
        assert (
            len(
                [
                    line
                    for line in done.stderr.decode().splitlines()
                    if line.startswith("qcalib: ") and "warning" not in line
                ]
            )
            == 1
        )


def test_colours_stay(made, program):
    """Our own sequences reach a terminal, those of names do not."""
    code, text = on_terminal(program, made, "quantize", M, "--data", f"no{FILE}.h5")
    assert code == 3
    assert (
        text.startswith("\x1b[1;31mqcalib:\x1b[0m ") and r"no\x1b[2J\u202e\x0a.h5" in text and text.count("\x1b") == 2
    )


def test_every_character(made, program, tmp_path):
    """What is escaped is what Unicode calls a control, a format character, a separator of lines or private; the reference is Python's table."""
    wanted = [c for c in map(chr, range(1, 0x110000)) if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp")] + [
        "\ue000",
        "\uf8ff",
        "\U000f0000",
        "\U0010fffd",
    ]
    fine = list("aZ~é層ß€😀\u0301\u00a0\u3000\u0600"[:-1]) + ["\U0001f1e9"]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for k, c in enumerate(wanted + fine):
            file.create_dataset(f"d{k:04}<{c}>", data=np.zeros(1, np.float32))
    done = subprocess.run([program, "inspect", "-v", "x.h5"], cwd=tmp_path, capture_output=True, check=True)
    shown = dict(re.findall(r"d(\d{4})<(.*)>  float32", done.stdout.decode()))
    for k, c in enumerate(wanted):
        code = ord(c)
        assert shown[f"{k:04}"] == (
            f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
        ), hex(code)
    for k, c in enumerate(fine):
        assert shown[f"{len(wanted) + k:04}"] == c


def test_one_way_to_print():
    """In cli/ names are printed through qc_say and qc_print; printf is left to what prints the tables of the program alone."""
    for path in (ROOT / "cli").glob("*.c"):
        if path.name not in ("help.c", "help_man.c", "completion.c", "cmd_help.c", "command_text.c"):
            assert not re.search(r"(?<![\w])(f|v|vf|d)?printf\s*\(", path.read_text()), path
