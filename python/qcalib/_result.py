# SPDX-License-Identifier: Apache-2.0
"""Results of jobs."""

import json
import os
import tempfile
from collections import namedtuple

import numpy as np

from . import _library, _page
from ._errors import UsageError
from ._model import TYPES
from ._words import in_python

Layer = namedtuple("Layer", "name op type axis scale zero_point sqnr_db")
Layer.__doc__ = """A tensor that is quantized: real = scale * (q - zero_point).

scale and zero_point: an array, one entry or one for each channel of `axis` (None: one for all). sqnr_db: signal to
quantization noise, NaN where it was not measured."""

Metric = namedtuple("Metric", "name value low high top5 mse samples seconds")
Metric.__doc__ = """Of a model on labelled data. name: "top1" (0 to 1, 95 % interval low to high) or "psnr" (dB)."""

Difference = namedtuple("Difference", "name sqnr_db cosine max_abs")
Difference.__doc__ = "Of the second model against the first. sqnr_db: infinity where they are equal."


class Rows(list):
    """A list of named tuples."""

    def to_pandas(self):
        """Returns the rows as a pandas.DataFrame."""
        import pandas

        return pandas.DataFrame([row._asdict() for row in self])


def rows_of(handle, kind, struct, make):
    found = Rows()
    for i in range(_library.value(f"{kind}_count", handle.pointer)):
        row = struct()
        _library.call(kind, row, handle.pointer, i)
        found.append(make(row))
    return found


def _layer(row):
    return Layer(_library.text(row.name), _library.text(row.op), TYPES.get(row.type),
                 None if row.axis < 0 else row.axis,
                 np.ctypeslib.as_array(row.scale, (row.count,)).copy() if row.count else np.empty(0, np.float32),
                 np.ctypeslib.as_array(row.zero_point, (row.count,)).copy() if row.count else np.empty(0, np.int32),
                 row.sqnr_db)


class Result:
    """Result of quantization: models, the report, a row for each tensor."""

    def __init__(self, handle):
        self._handle = handle
        self._report = self._layers = None

    @property
    def formats(self):
        """Formats of the models, in the order of the option `format`."""
        count = _library.value("result_model_count", self._handle.pointer)
        return [_library.value("result_format", self._handle.pointer, i) for i in range(count)]

    def _number(self, format):
        formats = self.formats
        if format is None and formats:
            return 0
        if format not in formats:
            raise UsageError(f"there is no model of format {format!r}; there are: {', '.join(formats) or 'none'}")
        return formats.index(format)

    def model_of(self, format=None):
        """Returns the bytes of the model of a format; None: the first."""
        return _library.taken_bytes("result_model", self._handle.pointer, self._number(format))

    @property
    def model(self):
        """The bytes of the (first) quantized model. A model of more than 2 GB must be saved instead."""
        return self.model_of()

    def save(self, path, format=None):
        """Writes a model; the file appears when it is complete. Above 1.9 GB its tensors go to PATH.data."""
        _library.call("result_write_model", self._handle.pointer, self._number(format), _library.path_bytes(path))

    def save_report(self, folder):
        """Writes report.html, report.json and layers.csv into a folder, which is created if necessary."""
        _library.call("result_write_report", self._handle.pointer, _library.path_bytes(folder))

    @property
    def report(self):
        """The report as a dict: report.json."""
        if self._report is None:
            self._report = json.loads(_library.value("result_report", self._handle.pointer))
        return self._report

    @property
    def latency(self):
        """The measurements of `benchmark` as in the report, or None without that option.

        Keys: "float_ms", "default_ms", "integers_ms", "best_ms"; "default_sqnr_db", "integers_sqnr_db", "best_sqnr_db"
        of the outputs (None: no error, or no samples); "changes"; "placement", options that give the same model without
        measuring (None: everything is in float).
        """
        return self.report["timing"].get("benchmark")

    @property
    def layers(self):
        """A Layer for each quantized tensor, in the order of the network. `.to_pandas()` makes a DataFrame."""
        if self._layers is None:
            self._layers = rows_of(self._handle, "result_layer", _library.Layer, _layer)
        return self._layers

    @property
    def warnings(self):
        count = _library.value("result_warning_count", self._handle.pointer)
        return [in_python(_library.value("result_warning", self._handle.pointer, i)) for i in range(count)]

    def plot(self, most=_page.SHOWN, ax=None):
        """Draws the layers with the largest effect on the outputs, with matplotlib. -> its Axes"""
        try:
            from matplotlib import pyplot
        except ImportError:
            raise ImportError("plot() draws with matplotlib, which is not installed: pip install matplotlib") from None
        rows = _page.worst(self.report, most)[::-1]
        if ax is None:
            _, ax = pyplot.subplots(figsize=(7, 0.4 * len(rows) + 1), layout="constrained")
        ax.barh([node for node, _, _ in rows], [db for _, _, db in rows])
        ax.set_xlabel("output SQNR with this layer alone quantized, dB (lower is worse)")
        ax.set_title(_page.verdict(self.report), fontsize="medium", wrap=True)
        return ax

    def __repr__(self):
        lines = [("model", self.report["model"]["file"]), ("verdict", _page.verdict(self.report))]
        outputs = [(o["sqnr_db"], o["name"]) for o in self.report["outputs"] if o["sqnr_db"] is not None]
        lines += [("output", f"{name}: SQNR {db:.2f} dB") for db, name in sorted(outputs)[:1]]
        lines += [("worst", f"{db:.2f} dB  {op}  {node}") for node, op, db in _page.worst(self.report, 3)]
        for advice in (self.report.get("advice") or ())[:1]:
            where = f": {advice['node']}" if advice["node"] else ""
            gain = "{sqnr_db_before:.2f} -> {sqnr_db_after:.2f} dB".format(**advice["measured"])
            lines.append(("advice", f"{advice['action']}{where}: output SQNR {gain}"))
        if self.latency:
            lines.append(("latency", "{best_ms:.3g} ms; {default_ms:.3g} by default".format(**self.latency)))
        lines += [("warning", text) for text in self.warnings]
        return "qcalib.Result\n" + "\n".join(f"  {name:<8} {text}" for name, text in lines)

    def _repr_html_(self):
        return _page.page(self.report, self.warnings)


class Statistics:
    """Statistics of a network, for quantization without data. Merging is exact in any order."""

    def __init__(self, handle):
        self._handle = handle
        self.pointer = handle.pointer

    @classmethod
    def load(cls, path):
        """Reads a file from `save`, `qcalib collect` or `qcalib merge`."""
        handle = _library.Handle("statistics")
        _library.call("statistics_load", handle.out, _library.path_bytes(path))
        return cls(handle)

    def save(self, path):
        """Writes the file; it appears when it is complete."""
        _library.call("statistics_save", self.pointer, _library.path_bytes(path))

    def __reduce__(self):
        """Pickles the file, so that Dask and Ray can send statistics from one machine to another."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "statistics.h5")
            self.save(path)
            with open(path, "rb") as file:
                return _of_bytes, (file.read(),)

    @property
    def samples(self):
        return _library.value("statistics_samples", self.pointer)

    @property
    def tensors(self):
        return _library.value("statistics_tensors", self.pointer)

    def __repr__(self):
        return f"qcalib.Statistics: {self.samples} samples, {self.tensors} tensors"


def _of_bytes(content):
    """Returns the Statistics from the bytes of a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "statistics.h5")
        with open(path, "wb") as file:
            file.write(content)
        return Statistics.load(path)


class Comparison:
    """Error of one model against another: a Difference for each output and each layer."""

    def __init__(self, outputs, layers):
        self.outputs, self.layers = outputs, layers

    def __repr__(self):
        outputs = "\n".join(f"  output {d.name:<20} {d.sqnr_db:.2f} dB" for d in self.outputs)
        return f"qcalib.Comparison, {len(self.layers)} layers\n{outputs}"


def difference(row):
    return Difference(_library.text(row.name), row.sqnr_db, row.cosine, row.max_abs)
