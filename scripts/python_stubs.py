#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes qcalib/__init__.pyi: the text below, and the options from the library's table.

  python scripts/python_stubs.py          prints it, with the installed package
  python scripts/python_stubs.py --write  writes python/qcalib/__init__.pyi

"""
import pathlib
import sys

from qcalib import _options

FIXED = '''# SPDX-License-Identifier: Apache-2.0
# Made by scripts/python_stubs.py from the table of options; do not edit.
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, Union

import numpy as np

class _ModelProto(Protocol):
    def SerializeToString(self) -> bytes: ...

class _DataReader(Protocol):
    def get_next(self) -> Any: ...

_Path = Union[str, os.PathLike[str]]
_Model = Union[_Path, bytes, bytearray, memoryview, _ModelProto, Any]
_Data = Union[_Path, np.ndarray, Mapping[str, Any], Iterable[Any], _DataReader]
_Progress = Union[bool, Callable[[str, int, int], Any], None]

__version__: str

class QcalibError(Exception):
    code: int

class DemandError(QcalibError):
    result: Union[Result, None]

class UsageError(QcalibError, ValueError): ...
class BadInputError(QcalibError, ValueError): ...
class MissingFileError(BadInputError, FileNotFoundError): ...
class UnsupportedError(QcalibError): ...
class MachineError(QcalibError, OSError): ...
class QcalibWarning(UserWarning): ...

class Layer(NamedTuple):
    name: str
    op: str
    type: str
    axis: Union[int, None]
    scale: np.ndarray
    zero_point: np.ndarray
    sqnr_db: float

class Metric(NamedTuple):
    name: str
    value: float
    low: float
    high: float
    top5: float
    mse: float
    samples: int
    seconds: float

class Difference(NamedTuple):
    name: Union[str, None]
    sqnr_db: float
    cosine: float
    max_abs: float

class Rows(list[Any]):
    def to_pandas(self) -> Any: ...

class Result:
    @property
    def formats(self) -> list[str]: ...
    @property
    def model(self) -> bytes: ...
    def model_of(self, format: Union[str, None] = None) -> bytes: ...
    def save(self, path: _Path, format: Union[str, None] = None) -> None: ...
    def save_report(self, folder: _Path) -> None: ...
    def plot(self, most: int = ..., ax: Any = ...) -> Any: ...
    @property
    def report(self) -> dict[str, Any]: ...
    @property
    def latency(self) -> Union[dict[str, Any], None]: ...
    @property
    def layers(self) -> Rows: ...
    @property
    def warnings(self) -> list[str]: ...

class Statistics:
    @classmethod
    def load(cls, path: _Path) -> Statistics: ...
    def save(self, path: _Path) -> None: ...
    @property
    def samples(self) -> int: ...
    @property
    def tensors(self) -> int: ...

class Comparison:
    outputs: Rows
    layers: Rows

def check(file: _Path, *, target: _Path = "ort", data: Union[_Path, None] = None, **options: Any) -> dict[str, Any]: ...
def convert(file: _Path, *, out: _Path, format: str = "qdq", **options: Any) -> dict[str, Any]: ...
def inspect(file: Union[_Path, _Model]) -> dict[str, Any]: ...
def merge(statistics: Iterable[Union[Statistics, _Path]], *, out: Union[_Path, None] = None) -> Statistics: ...
'''

PROGRESS = "progress: _Progress = None"
OUT = "out: Union[_Path, None] = None"
FUNCTIONS = {
    "quantize": (["model: _Model", "data: Union[_Data, None] = None", "*", OUT, "eval: Union[_Data, None] = None",
                  "statistics: Union[Statistics, _Path, None] = None", PROGRESS], "Result"),
    "collect": (["model: _Model", "data: _Data", "*", OUT, PROGRESS], "Statistics"),
    "run": (["model: _Model", "data: _Data", "*", PROGRESS], "dict[str, Any]"),
    "evaluate": (["model: _Model", "data: _Data", "*", PROGRESS], "Metric"),
    "compare": (["reference: _Model", "model: _Model", "data: _Data", "*", PROGRESS], "Comparison"),
}


def type_of(option):
    words = f"Literal[{', '.join(repr(c) for c in option.choices)}]" if option.choices else "str"
    bare = ["bool"] if (option.argument or "").startswith("[=") or set(option.choices or ()) >= {"on", "off"} else []
    kinds = {
        _options.NONE: ["bool"],
        _options.TEXT: ["str"],
        _options.TEXTS: ["str", "Sequence[str]"],
        _options.CHOICE: [words, *bare],
        _options.CHOICES: ["str", "Sequence[str]", *bare],
        _options.BY_NAME: ["str", "Sequence[str]"],
        _options.COUNT: ["int"],
        _options.INTEGER: ["int"],
        _options.BYTES: ["int", "str"],
        _options.NUMBER: ["float"],
    }
    return f"Union[{', '.join(kinds[option.value])}, None]"


def function(job):
    fixed, result = FUNCTIONS[job]
    lines = [f"{part}," for part in fixed]
    for option in _options.of_job(job):
        lines += [f"# {_options.about(option)}", f"{option.keyword}: {type_of(option)} = None,"]
    return "\n".join([f"def {job}(", *(f"    {line}" for line in lines), f") -> {result}: ..."])


def stubs():
    return FIXED + "\n".join(function(job) for job in FUNCTIONS) + "\n"


if __name__ == "__main__":
    without = {o.keyword for job in FUNCTIONS for o in _options.of_job(job)} - _options.SENTENCES.keys()
    if without:
        sys.exit(f"python_stubs.py: python/qcalib/_help.py has no sentence for {', '.join(sorted(without))}")
    if sys.argv[1:] == ["--write"]:
        (pathlib.Path(__file__).parents[1] / "python/qcalib/__init__.pyi").write_text(stubs())
    else:
        sys.stdout.write(stubs())
