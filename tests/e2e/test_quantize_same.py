# SPDX-License-Identifier: Apache-2.0
"""The result does not depend on threads, the order of the samples, the layout of the data file and the memory limit,
and memory does not grow with the number of samples."""

import json

import h5py
import numpy as np
import pytest
from conftest import nightly
from large_models import make, resnet18, starnet
from measured_models import BY_NAME, METHODS, run_measured

SHIPPED = "digits"


def shuffled(source, target, **layout):
    """The same samples in another order."""
    with h5py.File(source) as f, h5py.File(target, "w") as g:
        order = np.random.default_rng(5).permutation(len(f["labels"]))
        for name in f:
            d = g.create_dataset(name, data=f[name][:][order], **layout)
            d.attrs.update(f[name].attrs)


@pytest.fixture(params=[SHIPPED, nightly("resnet20_cifar10"), "dscnn_kws_mlperf_bn"])
def job(request, examples):
    """(calibration file, options and model)."""
    if request.param == SHIPPED:
        return examples / "digits_calib.h5", [examples / "digits_cnn.onnx"]
    folder = request.getfixturevalue("data")
    model = BY_NAME[request.param]
    return folder / model.calib, [model.path(folder)]


def but_timing(report):
    return {k: v for k, v in report.items() if k not in ("timing", "files")}


@pytest.mark.parametrize("method", METHODS)
def test_threads(method, job, qcalib, tmp_path):
    data, model = job
    one, two, five = (
        qcalib(
            "--method",
            method,
            "--threads",
            t,
            "--json",
            "-o",
            f"{t}.onnx",
            "--report",
            f"{t}.report",
            "--data",
            data,
            *model,
        )
        for t in (1, 2, 5)
    )
    assert (
        (tmp_path / "1.onnx").read_bytes() == (tmp_path / "2.onnx").read_bytes() == (tmp_path / "5.onnx").read_bytes()
    )
    assert but_timing(one.json) == but_timing(two.json) == but_timing(five.json)
    csv = [(tmp_path / f"{t}.report/layers.csv").read_bytes() for t in (1, 2, 5)]
    assert csv[0] == csv[1] == csv[2]


@pytest.mark.parametrize("method", METHODS)
def test_order_of_samples(method, job, qcalib, tmp_path):
    data, model = job
    shuffled(data, tmp_path / "shuffled.h5")
    a = qcalib("--method", method, "--threads", 2, "--json", "--no-report", "-o", "a.onnx", "--data", data, *model)
    b = qcalib(
        "--method", method, "--threads", 2, "--json", "--no-report", "-o", "b.onnx", "--data", "shuffled.h5", *model
    )
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    for key in ("scale", "zero_point", "observed", "chosen", "clipped_fraction"):
        assert [l[key] for l in a.json["layers"]] == [l[key] for l in b.json["layers"]]


def test_runs_again_the_same(job, qcalib, tmp_path):
    """The same command twice: report.json is the same text but for the key `timing`."""
    data, model = job
    texts = []
    for _ in range(2):
        qcalib("--data", data, "--threads", 2, "-o", "out.onnx", *model)
        texts.append((tmp_path / "out.report/report.json").read_text())
    first, second = ({k: json.dumps(v) for k, v in json.loads(t).items() if k != "timing"} for t in texts)
    assert first == second and list(first) == list(second)


def test_memory_limit(job, qcalib, tmp_path):
    """A little above what one worker and whole second moments need."""
    data, model = job
    limit = "70M" if "resnet20" in model[0].name else "46M"
    common = ["--data", data, "--threads", 4, "--json", "--no-report"]
    free = qcalib(*common, "-o", "free.onnx", *model).json
    tight = qcalib(*common, "-o", "tight.onnx", "--memory-limit", limit, *model).json
    assert tight["timing"]["workers"] <= free["timing"]["workers"] == 4
    assert (tmp_path / "free.onnx").read_bytes() == (tmp_path / "tight.onnx").read_bytes()


def test_memory_limit_that_is_too_low(qcalib, examples, tmp_path):
    tiny = qcalib("--data", examples / "digits_calib.h5", "--memory-limit", "1K", examples / "digits_cnn.onnx", code=5)
    assert "--memory-limit 1.0 KiB is too low" in tiny.err and " 0.0 MiB" not in tiny.err
    done = qcalib("--data", examples / "digits_calib.h5", "--memory-limit", "64K", examples / "digits_cnn.onnx", code=5)
    assert done.new_files == [] and "memory" in done.err and len(done.err.splitlines()) == 1


@pytest.mark.parametrize(
    "layout",
    [{}, {"chunks": True}, {"chunks": True, "compression": "gzip", "shuffle": True}],
    ids=["plain", "chunked", "shuffled bytes"],
)
def test_layout_of_the_file(layout, qcalib, examples, tmp_path):
    shuffled(examples / "digits_calib.h5", tmp_path / "copy.h5", **layout)
    qcalib("--data", examples / "digits_calib.h5", "-o", "a.onnx", "--no-report", examples / "digits_cnn.onnx")
    qcalib("--data", "copy.h5", "-o", "b.onnx", "--no-report", examples / "digits_cnn.onnx")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


@pytest.mark.parametrize("method, threads", [nightly("auto", 1), ("auto", 2), ("kl", 1), nightly("kl", 2)])
def test_memory_does_not_grow(method, threads, program, data, tmp_path):
    """Peak resident memory of 256 and of 1000 samples, within 10 %, advice and all: second moments are in it, and
    their sums become 64-bit, once, where they no longer fit into 32 bits; histograms have met most of their bins
    by then. The most of two runs and the least of some, as many as it takes: how far the reader is ahead at the worst
    moment is up to the scheduler."""
    model = BY_NAME["resnet20_cifar10"]

    def peak(samples):
        return run_measured(
            [
                program,
                "--data",
                data / model.eval,
                "--samples",
                samples,
                "--method",
                method,
                "--threads",
                threads,
                "--no-report",
                "-q",
                "-o",
                tmp_path / "out.onnx",
                model.path(data),
            ]
        )[2]

    few = max(peak(256) for _ in range(2))
    for _ in range(6):
        many = peak(1000)
        if many <= 1.1 * few:
            return
    pytest.fail(f"{few} bytes for 256 samples, {many} for 1000")


def test_memory_of_wide_depthwise_convolutions(program, tmp_path):
    """A StarNet-S1 by its shape, 11 MB: the default job takes at most ten times the model, beside what the program has
    anyway. Second moments of its 7x7 depthwise convolutions in whole tiles of 64 bits would be 12 times the model."""
    model, data = make(starnet, 24, tmp_path)
    base = run_measured([program, "list", "ops"])[2]
    _, _, peak = run_measured(
        [program, "--data", data, "--threads", 1, "-q", "--no-report", "-o", tmp_path / "out.onnx", model]
    )
    assert peak - base < 10 * model.stat().st_size, f"{(peak - base) / model.stat().st_size:.1f} times the model"


@pytest.mark.nightly
def test_memory_of_a_residual_network(program, tmp_path):
    """A ResNet-18 by its shape, 47 MB: all of a default job takes at most six times the model, beside what the program has
    anyway; sums of products of its wide columns alone would be 30 times the model."""
    model, data = make(resnet18, 40, tmp_path)
    base = run_measured([program, "list", "ops"])[2]
    _, _, peak = run_measured(
        [program, "--data", data, "--threads", 2, "-q", "--no-report", "-o", tmp_path / "out.onnx", model]
    )
    assert peak - base < 6 * model.stat().st_size, f"{(peak - base) / model.stat().st_size:.1f} times the model"


def test_times_are_parts_of_the_whole(qcalib, examples):
    job = ("--data", examples / "digits_calib.h5", "--json", "--no-report", examples / "digits_cnn.onnx")
    timing = qcalib(*job, "--threads", 2).json["timing"]
    parts = {k: v for k, v in timing.items() if k.endswith("_seconds") and k != "total_seconds"}
    assert parts["rounding_seconds"] > 0
    assert sum(parts.values()) <= timing["total_seconds"], timing
