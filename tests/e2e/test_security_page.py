# SPDX-License-Identifier: Apache-2.0
"""SECURITY.md: each line of the threat model names one test, and that test exists."""

import re

from conftest import ROOT

PAGE = (ROOT / "SECURITY.md").read_text()


def test_each_line_names_one_test_that_exists():
    model = PAGE.split("## Threat model")[1].split("\n## ")[0]
    lines = re.findall(r"^- (.*(?:\n  .*)*)", model, re.M)
    assert len(lines) > 40
    for line in lines:
        named = re.findall(r"`(tests/[^`:]+)::([^`]+)`", line)
        assert len(named) == 1 and line.endswith("`"), line
        file, test = named[0]
        text = (ROOT / file).read_text()
        if file.endswith(".py"):
            assert f"\ndef {test}(" in text, line
        elif file.endswith(".c"):
            assert re.search(rf"^Test\({re.escape(test)}[,)]", text, re.M), line
        else:
            assert f'fail "{test}"' in text, line
