# SPDX-License-Identifier: Apache-2.0
"""Options as keyword arguments, from the library's table: --weight-method is weight_method."""

import os
from collections import namedtuple

from . import _library
from ._errors import UsageError
from ._help import SENTENCES

# enum qcalib_value
NONE, TEXT, TEXTS, CHOICE, CHOICES, BY_NAME, COUNT, INTEGER, BYTES, NUMBER = range(10)

# enum qcalib_job_bit, by the name of the function
JOBS = {"quantize": 1, "collect": 2, "run": 4, "evaluate": 8, "compare": 16}

Option = namedtuple("Option", "name keyword argument preset choices help value jobs")


def _read_table():
    table = {}
    for i in range(_library.value("option_count")):
        row = _library.Option()
        _library.call("option_at", row, i)
        name = _library.text(row.name)
        choices = _library.text(row.choices)
        table[name.replace("-", "_")] = Option(
            name, name.replace("-", "_"), _library.text(row.argument), _library.text(row.preset),
            choices.split("|") if choices else None, _library.text(row.help), row.value, row.jobs)
    return table


TABLE = _read_table()


def of_job(job):
    """Returns the options that a function takes, in the order of the table."""
    return [option for option in TABLE.values() if option.jobs & JOBS[job]]


def _text(value):
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return repr(value) if isinstance(value, float) else str(value)


def _texts(option, value):
    """Returns the values to set, one for each entry of a list. None: the option has no value."""
    several = isinstance(value, (list, tuple, set, frozenset))
    if option.value == NONE or value is True or value is False:
        switch = option.choices and set(option.choices) >= {"on", "off"}
        if value is True:
            return ["on" if switch else None]
        if value is False:
            return ["off"] if switch else ["none"] if option.choices and "none" in option.choices else []
        raise UsageError(f"{option.keyword} must be True or False, not {value!r}")
    if several and option.value in (TEXTS, BY_NAME):
        return [_text(v) for v in value]
    if several and (option.value == CHOICES or option.value == TEXT):
        return [",".join(_text(v) for v in value)]
    return [_text(value)]


# Common other names of parameters and options.
_MEANT = {"stats": "statistics", "output": "out", "output_path": "out", "save": "out", "path": "out", "out": "out",
          "calibration_data": "data", "dataset": "data", "loader": "data", "eval_data": "eval", "test": "eval",
          "validation": "eval", "bits": "weight_type", "num_samples": "samples", "verbose": "progress",
          "quant_format": "format", "calibrate_method": "method", "op_types_to_quantize": "only",
          "nodes_to_exclude": "skip", "reduce_range": "overflow_fix"}
# Parameters that are not in the table.
_PARAMETERS = {"quantize": {"data", "out", "eval", "statistics", "progress"}, "collect": {"data", "out", "progress"},
               "run": {"data", "progress"}, "evaluate": {"data", "progress"}, "compare": {"data", "progress"}}


def make(job, keywords):
    """Returns the library's options object. A keyword whose value is None is ignored."""
    handle = _library.Handle("options")
    _library.call("options_new", handle.out)
    for keyword, value in keywords.items():
        if value is None:
            continue
        option = TABLE.get(keyword)
        if (option or keyword in _MEANT) and not (option and option.jobs & JOBS[job]):
            meant = _MEANT.get(keyword)
            known = meant in _PARAMETERS[job] or meant in (o.keyword for o in of_job(job))
            raise UsageError(f"{job} takes no option {keyword}" +
                             (f" (did you mean '{meant}'?)" if known else f": see help(qcalib.{job})"))
        texts = _texts(option, value) if option else [_text(value)]
        name = option.name if option else keyword.replace("_", "-")
        for text in texts:
            _library.call("options_set", handle.pointer, _library.text_bytes(name),
                          None if text is None else _library.path_bytes(text))
    return handle


def _sentence(text):
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def about(option):
    """Returns the description of an option in one line."""
    sentence = SENTENCES.get(option.keyword)
    parts = [sentence or _sentence(option.help)]
    if option.choices:
        parts.append(f"One of {', '.join(option.choices)}.")
    if option.preset:
        parts.append(_sentence(f"Default: {option.preset}"))
    return " ".join(parts)


def described(job):
    """Returns the descriptions of a function's options, for its docstring."""
    return "\n".join(f"    {option.keyword}: {about(option)}" for option in of_job(job))
