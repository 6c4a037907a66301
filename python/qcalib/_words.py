# SPDX-License-Identifier: Apache-2.0
"""Translates the names of options in the library's messages to keyword arguments."""

import re

_OPTION = re.compile(r"--([a-z][a-z-]*[a-z])(?:=(?=\S)| ([A-Z][A-Z:,.\[\]]*[A-Z\]]|[a-z0-9-]+)(?=[\s,;:.)]|$))?")
_OTHER = {"stats": "statistics", "output": "out"}


def _keyword(found):
    from ._options import BYTES, COUNT, INTEGER, NUMBER, TABLE  # which is read from the library: not before it is loaded

    name, value = found[1].replace("-", "_"), found[2]
    keyword = _OTHER.get(name, name)
    option = TABLE.get(name)
    if value is None:
        return keyword + ("=" if found[0].endswith("=") else "")
    if value.isupper():
        return f"{keyword}="
    if option and option.value in (COUNT, INTEGER, BYTES, NUMBER) and value.isdigit():
        return f"{keyword}={value}"
    if option and option.choices and value in option.choices:
        return f'{keyword}="{value}"'
    return f"{keyword} {value}"


def in_python(text):
    """Returns the message with `data=` in place of --data FILE. Whole commands in it are not changed."""
    words, command, rest = text.partition("qcalib quantize ")
    words = re.sub(r"'qcalib (collect|merge|quantize|run|compare|inspect)'", r"qcalib.\1", words)
    return _OPTION.sub(_keyword, words) + command + rest
