# SPDX-License-Identifier: Apache-2.0
"""Messages of the library name options as the command line does; here they name keyword arguments."""

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
    """A message with `data=` for --data FILE; a whole command in it stays as it is."""
    words, command, rest = text.partition("qcalib quantize ")
    words = re.sub(r"'qcalib (collect|merge|quantize|run|compare|inspect)'", r"qcalib.\1", words)
    return _OPTION.sub(_keyword, words) + command + rest
