# SPDX-License-Identifier: Apache-2.0
"""--propagate and --weight-method output on the command line: their effects, unchanged parts, and refused
combinations."""

import re

import h5py
import measured_models
import numpy as np
import pytest

OFF = ("--weight-rounding", "nearest", "--bias-correction", "off")


@pytest.fixture
def quantize(qcalib, examples, tmp_path):
    def run(name, *options, data=None, **environment):
        r = qcalib(
            "--data",
            data or examples / "digits_calib.h5",
            *options,
            "--json",
            "--no-report",
            "-o",
            f"{name}.onnx",
            examples / "digits_cnn.onnx",
            **environment,
        )
        return r.json, (tmp_path / f"{name}.onnx").read_bytes()

    return run


@pytest.fixture
def many(examples, tmp_path):
    """More activations than a small limit holds."""
    path = tmp_path / "many.h5"
    with h5py.File(examples / "digits_calib.h5") as f, h5py.File(path, "w") as g:
        x = f["input"][:]
        d = g.create_dataset("input", data=np.concatenate([np.roll(x, s, -1) for s in range(12)]))
        for key, value in f["input"].attrs.items():
            d.attrs[key] = value
    return path


@pytest.mark.parametrize("options", [OFF, ()])
def test_propagate_sees_the_errors_and_threads_make_no_difference(quantize, options):
    options = ("--method", "minmax", *options)
    _, without = quantize("without", *options)
    _, one = quantize("one", "--propagate", "--threads", 1, *options)
    _, three = quantize("three", "--propagate", "--threads", 3, *options)
    # With second moments it is left out here.
    assert (one != without) == (OFF[0] in options)
    assert one == three


def test_propagate_is_left_out_where_it_does_not_serve_the_outputs(quantize):
    """It is never worse than without: both are run on samples, and what is not better is not taken."""
    for method in ("auto", "mse"):
        _, without = quantize("without", "--method", method)
        report, propagated = quantize("propagated", "--method", method, "--propagate")
        assert [
            w for w in report["warnings"] if w.startswith("--propagate is left out: on 256 samples")
        ], report["warnings"]
        assert propagated == without


@pytest.mark.integers
def test_what_is_left_out_changes_no_byte(qcalib, data, tmp_path):
    """Its weights are those of the trials of observers, as without --propagate: not rounded anew for the ranges that won there."""
    options = measured_models.BY_NAME["dscnn_kws_mlperf"].options(data)
    for name, more in (("without", ()), ("left_out", ("--propagate",))):
        report = qcalib(*options, *more, "-o", f"{name}.onnx", "--report", "r", "--json").json
        assert [t["method"] for t in report["trials"] if t["chosen"]] == ["percentile"], report["trials"]
    assert any(w.startswith("--propagate is left out") for w in report["warnings"])
    assert (tmp_path / "without.onnx").read_bytes() == (tmp_path / "left_out.onnx").read_bytes()


def test_activations_spilled_to_a_file_give_the_same(quantize, qcalib, examples, many, tmp_path):
    options = ("--propagate", "--threads", 1, *OFF)
    _, free = quantize("free", *options, data=many)
    low = qcalib("--data", many, *options, "--memory-limit", "1M", "--no-report", examples / "digits_cnn.onnx", code=5)
    needs = float(re.search(r"needs ([0-9.]+) MiB", low.err)[1])
    limit = ("--memory-limit", f"{int(needs + 4)}M")
    nowhere = qcalib(
        "--data", many, *options, *limit, "--no-report", examples / "digits_cnn.onnx", code=5, TMPDIR="/nonexistent"
    )
    assert "/nonexistent: cannot make a temporary file" in nowhere.err
    (tmp_path / "spill").mkdir()
    _, spilled = quantize("spilled", *options, *limit, data=many, TMPDIR=str(tmp_path / "spill"))
    assert spilled == free
    assert not list((tmp_path / "spill").iterdir())


def test_propagate_refuses_what_has_not_seen_the_errors(qcalib, examples):
    model = examples / "digits_cnn.onnx"
    qcalib("collect", "--data", examples / "digits_calib.h5", "-o", "s.h5", model)
    assert "was collected in the float network" in qcalib("--stats", "s.h5", "--propagate", model, code=2).err
    data = ("--data", examples / "digits_calib.h5")
    assert "--checkpoint" in qcalib(*data, "--checkpoint", "c.h5", "--propagate", model, code=2).err
    assert "--accumulator" in qcalib(*data, "--accumulator", 20, "--propagate", model, code=2).err


def test_weight_method_output_comes_nearer_than_minmax_with_four_bits(quantize):
    four = ("--weight-type", "int4", "--effort", "low")
    for options in (OFF, ()):
        plain, _ = quantize("plain", *four, *options)
        better, a = quantize("better", "--weight-method", "output", *four, *options, "--threads", 1)
        _, b = quantize("again", "--weight-method", "output", *four, *options, "--threads", 3)
        assert a == b
        assert better["outputs"][0]["sqnr_db"] > plain["outputs"][0]["sqnr_db"]


def test_weight_method_output_and_propagate_go_together(quantize):
    _, a = quantize("a", "--weight-method", "output", "--propagate", "--threads", 1, *OFF)
    _, b = quantize("b", "--weight-method", "output", "--propagate", "--threads", 3, *OFF)
    _, c = quantize("c", "--propagate", *OFF, "--weight-type", "int4")
    _, d = quantize("d", "--propagate", *OFF, "--weight-type", "int4", "--weight-method", "output")
    assert a == b
    assert c != d


def test_weight_method_output_takes_moments_from_a_file_and_refuses_what_has_none(qcalib, quantize, examples, tmp_path):
    model, data = examples / "digits_cnn.onnx", ("--data", examples / "digits_calib.h5")
    qcalib("collect", *data, "-o", "with.h5", model)
    qcalib("collect", *data, "--second-moments", "off", "-o", "none.h5", model)
    _, same = quantize("same", "--method", "mse", "--weight-method", "output", *OFF)
    qcalib(
        "--stats",
        "with.h5",
        "--method",
        "mse",
        "--weight-method",
        "output",
        *OFF,
        "--no-report",
        "-o",
        "stats.onnx",
        model,
    )
    assert (tmp_path / "stats.onnx").read_bytes() == same
    assert "second moments" in qcalib("--stats", "none.h5", "--weight-method", "output", model, code=2).err


def test_advice_is_one_idea_since_each_takes_a_job_of_its_own(quantize):
    """Without --propagate more are tried."""
    coarse = ("--weight-type", "int3", "--samples", 32, "--advice", "auto")
    plain, propagated = (quantize("q", *coarse, *o)[0] for o in ((), ("--propagate",)))
    assert plain["advice_tried"] > 1 and propagated["advice_tried"] == 1
