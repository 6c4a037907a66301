# SPDX-License-Identifier: Apache-2.0
"""docs/architecture.md: its table has the passes of the program in their order, and its files exist."""

import re

import documentation

PAGE = (documentation.ROOT / "docs/architecture.md").read_text()
FOLDERS = "arith|base|calib|cli|datasets|evaluate|export|graph|include|observers|onnx|quantize|rewrite|simq|tests|tflite"


def test_passes_are_those_of_the_program(qcalib):
    table = PAGE.split("\n## The passes\n")[1].split("\n## ")[0]
    shown = [name for name in re.findall(r"(?m)^\| (\w+) \|", table) if name != "pass"]
    printed = qcalib("list", "passes").out.splitlines()[1:]
    assert shown == [line.split()[0] for line in printed]


def test_files_exist():
    named = re.findall(rf"`((?:{FOLDERS})/[\w./-]*)`", PAGE)
    assert len(named) > 50
    assert [n for n in named if not (documentation.ROOT / n).exists()] == []
