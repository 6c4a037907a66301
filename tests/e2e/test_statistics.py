# SPDX-License-Identifier: Apache-2.0
"""collect, merge and quantize --stats: the same model as from the data, for any partition; statistics that do not
belong together are refused."""

import json
import os
import random
import re
import signal
import struct
import subprocess

import h5py
import numpy as np
import onnx
import pytest
from conftest import ROOT, nightly
from measured_models import BY_NAME, RealModel

TRANSFORMER = RealModel("text_transformer_agnews", "agnews_calib256.h5", "agnews_eval1600.h5")


@pytest.fixture(params=["digits", "resnet20_cifar10_bn", "text_transformer_agnews", nightly("rfb320_face_simplified")])
def job(request, examples):
    """(calibration file, samples, model)."""
    if request.param == "digits":
        return examples / "digits_calib.h5", 100, examples / "digits_cnn.onnx"
    folder = request.getfixturevalue("data")
    model = {**BY_NAME, TRANSFORMER.name: TRANSFORMER}[request.param]
    return folder / model.calib, 12, model.path(folder)


@pytest.fixture
def digits(examples):
    return examples / "digits_calib.h5", examples / "digits_cnn.onnx"


MSE = ["--method", "mse"]  # the default runs samples
OPTIONS = [
    MSE,
    ["--method", "kl", "--activation-type", "int8"],
    ["--method", "percentile", "--per-tensor", "--equalize", "off", "--symmetric"],
    ["--method", "ema:momentum=0.1"],
    ["--method", "avgmax", "--weight-rounding", "nearest"],
    ["--method", "mse", "--skip", "Add"],
    ["--method", "mse", "--only", "conv2d_bias", "--only", "matmul"],
]


def test_quantize_gives_the_model_of_the_data(job, qcalib, tmp_path):
    """One file serves every method, type and choice of what is quantized."""
    data, samples, model = job
    qcalib("collect", "--data", data, "--samples", samples, model, "-o", "a.stats.h5")
    compared = 0
    for k, options in enumerate(OPTIONS):
        a = qcalib("--data", data, "--samples", samples, *options, "--effort", "low", "--no-report", "-o", f"a{k}.onnx", model, code=None)
        b = qcalib("--stats", "a.stats.h5", *options, "--no-report", "-o", f"b{k}.onnx", model, code=None)
        assert a.code == b.code, (a.err, b.err)
        if a.code == 0:
            assert (tmp_path / f"a{k}.onnx").read_bytes() == (tmp_path / f"b{k}.onnx").read_bytes(), options
            compared += 1
    assert compared >= 3


def test_any_partition_gives_the_same_bytes(digits, qcalib, tmp_path):
    data, model = digits
    rng = random.Random(3)
    qcalib("collect", "--data", data, "--threads", 1, model, "-o", "whole.h5")
    for n in (1, 2, 5, 7):
        files = [f"shard{k}.h5" for k in range(n)]
        for k in range(n):
            qcalib(
                "collect", "--data", data, "--shard", f"{k}/{n}", "--threads", rng.randint(1, 3), model, "-o", files[k]
            )
        while len(files) > 1:  # any tree
            rng.shuffle(files)
            merged = f"merged{n}_{len(files)}.h5"
            qcalib("merge", files.pop(), files.pop(), "-o", merged)
            files.append(merged)
        assert (tmp_path / files[0]).read_bytes() == (tmp_path / "whole.h5").read_bytes()
        order = [f"shard{k}.h5" for k in range(n)]
        rng.shuffle(order)
        qcalib("merge", *order, "-o", "all.h5")
        assert (tmp_path / "all.h5").read_bytes() == (tmp_path / "whole.h5").read_bytes()


def test_two_files_give_the_model_of_one(digits, qcalib, tmp_path):
    data, model = digits
    with h5py.File(data) as f:
        for name, part in (("a", slice(0, 40)), ("b", slice(40, None))):
            with h5py.File(tmp_path / f"{name}.h5", "w") as g:
                for key in f:
                    g[key] = f[key][part]
                    g[key].attrs.update(f[key].attrs)
    for name in "ab":
        qcalib("collect", "--data", f"{name}.h5", model, "-o", f"{name}.stats.h5")
    qcalib("merge", "b.stats.h5", "a.stats.h5", "-o", "all.stats.h5")
    qcalib("--stats", "all.stats.h5", *MSE, "--no-report", "-o", "merged.onnx", model)
    qcalib("--data", data, *MSE, "--no-report", "-o", "whole.onnx", model)
    assert (tmp_path / "merged.onnx").read_bytes() == (tmp_path / "whole.onnx").read_bytes()


def test_file_is_readable(digits, qcalib, tmp_path):
    """As docs/statistics-file.md says: counts, extremes and the samples that hold them, against numpy."""
    data, model = digits
    qcalib("collect", "--data", data, "--samples", 30, model, "-o", "s.h5")
    with h5py.File(tmp_path / "s.h5") as f, h5py.File(data) as d:
        assert f.attrs["qcalib_statistics"] == 2
        ranges = f["samples/ranges"][:]
        chosen = np.concatenate([np.arange(first, first + count) for _, first, count in ranges])
        assert len(chosen) == 30
        x = d["input"][:][chosen.astype(int)].astype(np.float32)
        for key in ("scale", "mean", "std"):
            value = next((v.attrs[key] for k, v in d.items() if key in v.attrs), None)
            if value is not None:
                value = np.float32(value)
                x = x * value if key == "scale" else x - value if key == "mean" else x / value
        assert f["values/tally"][0][0] == x.size and f["values/tally"][0][1] == (x == 0).sum()
        assert tuple(f["values/extremes"][0]) == (x.min(), x.max())
        where = f["values/where"][0].reshape(3, 2)
        flat = x.reshape(len(x), -1)
        assert where[1][1] == chosen[np.argmax(flat.max(axis=1))] and where[1][0] == 0
        first, bins, counts, e = (f[f"histogram/{k}"][:] for k in ("first_bin", "bin", "count", "exponent"))
        mine = np.zeros(16384, np.uint64)
        mine[bins[first[0] : first[1]]] = counts[first[0] : first[1]]
        values = x[x != 0]
        key = values.view(np.uint32) & 0x7FFFFFFF
        slot = np.maximum((key >> 15).astype(np.int64) - ((int(e[0]) + 1) * 256 - 8192), 0) + np.where(
            values < 0, 8192, 0
        )
        assert np.array_equal(mine, np.bincount(slot, minlength=16384).astype(np.uint64))


def save_product(path, random, columns):
    """A model that is one matrix product with five results."""
    weights = onnx.numpy_helper.from_array(random.normal(size=(columns, 5)).astype(np.float32), "w")
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, ["N", columns])],
        [onnx.helper.make_tensor_value_info("y", 1, ["N", 5])],
        [weights],
    )
    onnx.save(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8),
        path,
    )


def test_moments_are_readable(qcalib, tmp_path):
    """Of a matrix product every row of the data: sums, and sums of products, from the file by its description."""
    random = np.random.default_rng(7)
    columns, samples = 20, 48
    x = random.normal(1, 2, (samples, columns)).astype(np.float32)
    save_product(tmp_path / "m.onnx", random, columns)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = x
    qcalib("collect", "--data", "x.h5", "m.onnx", "-o", "s.h5")
    with h5py.File(tmp_path / "s.h5") as f:
        assert (
            list(f["moments/input"]) == [b"x"]
            and list(f["moments/geometry"]) == [b"rows"]
            and list(f["moments/sizes"][0][:4]) == [1, 5, columns, 1]
        )
        assert f["moments/counts"][:, 0].sum() == samples and f["moments/counts"][:, 2].sum() == 0
        sums, products = np.zeros(columns), np.zeros((columns, columns))
        at = 0
        for k, (_, _, c) in enumerate(f["moments/class"]):
            sums += f["moments/sums"][k * columns : (k + 1) * columns] * 2.0 ** (8 * int(c) - 13)
            for j in range(columns):
                products[: j + 1, j] += f["moments/products"][at : at + j + 1] * 2.0 ** (16 * int(c) - 26)
                at += j + 1
        assert at == len(f["moments/products"])
        assert list(f["series/sample"][:, 1]) == list(range(samples))
        by_name = dict(zip(f["values/name"], f["series/extremes"][:].reshape(-1, samples, 2)))
        assert np.array_equal(by_name[b"x"], np.stack([x.min(1), x.max(1)], axis=1))
    x = x.astype(float)
    step = 2.0**-8  # 11 bits and a sign, below 16
    assert np.abs(sums - x.sum(0)).max() < samples * step
    assert np.abs(products - np.triu(x.T @ x)).max() < 2 * samples * step * np.abs(x).max()


def test_parts_of_numpy_have_names_of_their_own(qcalib, digits, tmp_path):
    """A .npy file holds one array without a name: parts in files of other names are parts of the same data."""
    data, model = digits
    with h5py.File(data) as f:
        x = f["input"][()].astype("f4") / 16
    for name, part in (("a", x[:20]), ("b", x[20:50]), ("whole", x[:50])):
        np.save(tmp_path / f"{name}.npy", part)
        qcalib("collect", "--data", f"{name}.npy", model, "-o", f"{name}.stats.h5")
    qcalib("merge", "b.stats.h5", "a.stats.h5", "-o", "all.stats.h5")
    for name in ("all", "whole"):
        qcalib("--stats", f"{name}.stats.h5", *MSE, "--no-report", "-o", f"{name}.onnx", model)
    assert (tmp_path / "all.onnx").read_bytes() == (tmp_path / "whole.onnx").read_bytes()
    qcalib("collect", "--data", "b.npy", "--preprocess", "scale=2", model, "-o", "scaled.stats.h5")
    said = qcalib("merge", "a.stats.h5", "scaled.stats.h5", "-o", "no.h5", code=3).err
    assert "preprocessing" in said and "scale=2'" in said and "x0a" not in said, said


def test_rows_are_readable(qcalib, tmp_path):
    """Of a wide product that sees few rows these rows, from the file by its description; what contradicts is refused."""
    random = np.random.default_rng(8)
    columns, samples = 800, 24
    x = random.normal(1, 2, (samples, columns)).astype(np.float32)
    save_product(tmp_path / "m.onnx", random, columns)
    np.save(tmp_path / "x.npy", x)
    files = []
    for threads in ("1", "2"):
        qcalib("collect", "--data", "x.npy", "m.onnx", "-o", f"{threads}.h5", "--threads", threads)
        files.append((tmp_path / f"{threads}.h5").read_bytes())
    assert files[0] == files[1]
    with h5py.File(tmp_path / "1.h5") as f:
        rows, at, sums = [], 0, 0
        for k, (_, _, c) in enumerate(f["moments/class"]):
            for step in f["moments/steps"][at : at + f["moments/rows"][k]]:
                entries = f["moments/entries"][at * columns : (at + 1) * columns]
                rows.append(entries * 2.0 ** (8 * int(c) - 13 + 2 * int(step)))
                at += 1
            sums = sums + f["moments/sums"][k * columns : (k + 1) * columns] * 2.0 ** (8 * int(c) - 13)
        assert at == samples and len(f["moments/products"]) == 0
        assert np.array_equal(sums, np.sum(rows, axis=0))
    rows = np.array(sorted(rows, key=lambda r: r[0]))
    assert np.abs(rows - x[np.argsort(x[:, 0])]).max() < 2.0**-7
    for key, value in (("entries", 9), ("steps", 4), ("rows", 1), ("steps", 2)):
        (tmp_path / "bad.h5").write_bytes(files[0])
        with h5py.File(tmp_path / "bad.h5", "r+") as f:
            f[f"moments/{key}"][0] = value
        done = qcalib("--stats", "bad.h5", "m.onnx", "-o", "q.onnx", code=3)
        assert "bad.h5" in done.err and not (tmp_path / "q.onnx").exists()


def test_without_moments_weights_are_nearest(digits, qcalib, tmp_path):
    data, model = digits
    qcalib("collect", "--data", data, "--second-moments", "off", model, "-o", "s.h5")
    done = qcalib("--stats", "s.h5", model, "--no-report", "-o", "a.onnx", "--json").json
    assert any("holds no second moments" in w for w in done["warnings"])
    qcalib(
        "--data",
        data,
        *MSE,
        model,
        "--no-report",
        "-o",
        "b.onnx",
        "--weight-rounding",
        "nearest",
        "--bias-correction",
        "off",
    )
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


@pytest.mark.bad_input
@pytest.mark.parametrize("key", ["moments/products", "moments/sums", "series/extremes", "histogram/count"])
def test_declared_sizes_are_not_believed(digits, qcalib, tmp_path, key):
    """A few bytes that say they are gigabytes: refused before memory is taken for them."""
    data, model = digits
    qcalib("collect", "--data", data, "--samples", 4, model, "-o", "s.h5")
    with h5py.File(tmp_path / "s.h5", "r+") as f:
        old = f[key]
        shape, dtype = (1 << 30, *old.shape[1:]), old.dtype
        del f[key]
        f.create_dataset(key, shape, dtype, chunks=(1 << 16, *shape[1:]), shuffle=True, compression="gzip")
    says = qcalib("--stats", "s.h5", model, code=3).err
    assert key in says and ("more than a file of" in says or "has another shape than expected" in says), says


def test_inspect(digits, qcalib):
    data, model = digits
    qcalib("collect", "--data", data, "--shard", "1/3", model, "-o", "s.h5")
    seen = qcalib("inspect", "--json", "s.h5").json
    assert seen["kind"] == "statistics" and seen["version"] == 2 and seen["tensors"][0]["count"] > 0
    assert sum(count for _, count in seen["parts"][0]["seen"]) == seen["samples"] < seen["parts"][0]["samples_chosen"]
    assert "statistics" in qcalib("inspect", "s.h5").out


def test_report_says_that_nothing_was_measured(digits, qcalib, tmp_path):
    data, model = digits
    qcalib("collect", "--data", data, model, "-o", "s.h5")
    out = qcalib("--stats", "s.h5", model, "-o", "m.onnx").out
    report = json.loads((tmp_path / "m.report/report.json").read_text())
    assert "not measured" in out and report["measured_samples"] == 0
    assert report["outputs"][0]["sqnr_db"] is None and report["statistics"]["file"] == "s.h5"
    assert all(l["sqnr_db"] is None and l["scale"] is not None for l in report["layers"])
    both = qcalib("--stats", "s.h5", "--data", data, "--json", "--no-report", model, "-o", "m.onnx").json
    assert both["measured_samples"] > 0 and both["outputs"][0]["sqnr_db"] > 10


def test_what_does_not_belong_is_refused(digits, qcalib, tmp_path):
    data, model = digits
    for k in range(2):
        qcalib("collect", "--data", data, "--shard", f"{k}/2", model, "-o", f"{k}.h5")
    qcalib("collect", "--data", data, "--preprocess", "scale=2", model, "-o", "scaled.h5")
    qcalib("merge", "0.h5", "1.h5", "-o", "all.h5")
    before = (tmp_path / "all.h5").read_bytes()
    assert "seen already" in qcalib("merge", "0.h5", "1.h5", "0.h5", "-o", "all.h5", code=3).err
    assert "preprocessing" in qcalib("merge", "0.h5", "scaled.h5", "-o", "all.h5", code=3).err
    assert "preprocessing" in qcalib("--stats", "scaled.h5", "--data", data, model, code=3).err
    assert "a shard is missing" in qcalib("--stats", "1.h5", model, code=3).err
    assert "no statistics" in qcalib("merge", data, "-o", "all.h5", code=3).err
    other = tmp_path / "other.onnx"
    other.write_bytes(model.read_bytes() + b"\x12\x00")  # producer name again, empty: another file, the same graph
    assert "another model" in qcalib("--stats", "all.h5", other, code=3).err
    (tmp_path / "cut.h5").write_bytes(before[: len(before) // 2])
    assert "damaged" in qcalib("--stats", "cut.h5", model, code=3).err
    with h5py.File(tmp_path / "all.h5", "r+") as f:
        f.attrs["qcalib_statistics"] = np.uint64(10)
    assert "version 10" in qcalib("--stats", "all.h5", model, code=4).err
    for shard in ("2/2", "x", "1/0", "1", "-1/2", "0/2x"):
        qcalib("collect", "--data", data, "--shard", shard, model, code=2)
    qcalib("merge", "0.h5", code=2)
    qcalib("--stats", "1.h5", "--checkpoint", "c.h5", model, code=2)


@pytest.fixture
def many(digits, tmp_path):
    """The digits again and again."""
    with h5py.File(digits[0]) as f, h5py.File(tmp_path / "many.h5", "w") as g:
        for key in f:
            x = f[key][:]
            n = 40_000 // len(x)
            g.create_dataset(key, data=np.concatenate([x] * n), chunks=(256, *x.shape[1:]))
            g[key].attrs.update(f[key].attrs)
    return tmp_path / "many.h5"


@pytest.mark.parametrize(
    "command, kind",
    [
        ("collect", signal.SIGINT),
        ("quantize", signal.SIGTERM),
        nightly("collect", signal.SIGTERM),
        nightly("quantize", signal.SIGINT),
    ],
)
def test_interrupted_run_goes_on(kind, command, many, digits, program, qcalib, tmp_path):
    """The signal arrives when a given number of answers of the process that reads has been received, not after a time."""
    tail = ["--no-report"] if command == "quantize" else []
    qcalib(command, "--data", many, "-o", "whole", *tail, digits[1])
    arguments = [command, "--data", many, "-o", "out", "--checkpoint", "c.h5", "--threads", 2, *tail, digits[1]]
    shims = [f / "tests/libfail_reader.so" for f in (program.parent, ROOT / "build/release")]
    environment = {
        **os.environ,
        "LD_PRELOAD": str(next(s for s in shims if s.exists())),
        "QC_READER_REPORT": str(tmp_path / "answers"),
    }

    def run(*arguments, **more):
        (tmp_path / "answers").write_bytes(bytes(24))
        done = subprocess.run([str(program), *map(str, arguments)], cwd=tmp_path, env={**environment, **more}, check=False, capture_output=True)
        return done, struct.unpack("qqq", (tmp_path / "answers").read_bytes())[2]

    # Before the first sample, files are opened and there is nothing to save; a checkpoint is compared with them, too.
    opening, whole = (run("collect", "--data", data, "-o", "counted", "--threads", 2, digits[1])[1] for data in (digits[0], many))
    assert whole > opening + 30
    seen = 0
    for answers in (opening + (whole - opening) // 3, whole):
        done, _ = run(*arguments, QC_READER_SIGNAL=str(int(kind)), QC_READER_ANSWER=str(answers))
        assert done.returncode == 130 and not (tmp_path / "out").exists(), done.stderr
        assert done.stderr == b"qcalib: interrupted; the same command continues from c.h5\n"
        before, seen = seen, qcalib("inspect", "--json", "c.h5").json["samples"]
        assert before + 1_000 < seen < 39_900
    assert (
        "other data"
        in qcalib(command, "--data", digits[0], "-o", "out", "--checkpoint", "c.h5", *tail, digits[1], code=3).err
    )
    assert not (tmp_path / "out").exists()
    qcalib(*arguments)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "whole").read_bytes()
    assert not (tmp_path / "c.h5").exists()


def peak(program, folder, arguments):
    """(exit code, peak resident MiB, standard error)"""
    done = subprocess.run(
        [
            "/usr/bin/env",
            "python3",
            "-c",
            "import resource, subprocess, sys\n"
            "r = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)\n"
            "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\nsys.exit(r.returncode)",
            str(program),
            *map(str, arguments),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, int(done.stdout.split()[-1]) / 1024, done.stderr


def expect_same_statistics(path, whole):
    """The same bytes, or second moments in smaller blocks and all else the same."""
    if path.read_bytes() == whole.read_bytes():
        return
    with h5py.File(path) as f, h5py.File(whole) as g:
        blocks, all_blocks = f["moments/sizes"][:, 4], g["moments/sizes"][:, 4]
        assert (blocks <= all_blocks).all() and (blocks < all_blocks).any()
        for group in ("parts", "samples", "values", "histogram", "series"):
            for key in g[group]:
                assert np.array_equal(f[group][key][:], g[group][key][:]), (group, key)
        for key in ("input", "geometry", "counts", "class", "sums"):
            assert np.array_equal(f["moments"][key][:], g["moments"][key][:]), key


def needed(error):
    return float(error.split("needs ")[1].split(" MiB")[0])


def needed_for_all(program, folder, arguments):
    """The number that the plan of all stages names: with a limit that lets the model be read, which a larger model asks for first."""
    limit = 1
    for _ in range(3):
        code, _, error = peak(program, folder, [*arguments, "--memory-limit", f"{limit}M"])
        assert code == 5 and "too low" in error, error
        if "needs " in error:
            return needed(error)
        reading = re.search(r"([\d.]+) MiB are needed (?:for one run|in addition to the ([\d.]+) MiB)", error)
        limit = int(float(reading[1]) + float(reading[2] or 0)) + 2
    raise AssertionError(error)


@pytest.mark.parametrize("command", ["collect", "quantize"])
def test_memory_limit_is_kept(command, digits, program, many, data, tmp_path):
    """Below what is possible: an error that says how much is needed, before anything runs; above it, fewer workers and the same bytes."""
    channels = ["--channel-statistics", "on"] if command == "collect" else ["--method", "output"]
    jobs = [
        ["--data", many, "--samples", 1000, digits[1]],
        ["--data", many, "--samples", 1000, *channels, digits[1]],
        ["--data", data / "sr_x3_y6.h5", "--samples", 8, data / "models/superres_pytorch.onnx"],
    ]
    for job in jobs:
        # Second moments in smaller blocks are other weights.
        weights = (
            ["--no-report", "--advice", "off", "--weight-rounding", "nearest", "--bias-correction", "off"]
            if command == "quantize"
            else []
        )
        arguments = [command, *job, "--threads", 8, "-o", "out", *weights]
        code, _, error = peak(program, tmp_path, [*arguments, "--memory-limit", "1M"])
        assert code == 5 and "too low" in error and not (tmp_path / "out").exists()
        code, free, _ = peak(program, tmp_path, arguments)
        assert code == 0
        (tmp_path / "out").rename(tmp_path / "free")
        limit = needed_for_all(program, tmp_path, arguments) + 1
        code, used, error = peak(program, tmp_path, [*arguments, "--memory-limit", f"{int(limit * 1024)}K"])
        assert code == 0, error
        assert used <= 1.1 * limit + 2, (used, limit, free)
        if command == "collect":
            expect_same_statistics(tmp_path / "out", tmp_path / "free")
        else:
            assert (tmp_path / "out").read_bytes() == (tmp_path / "free").read_bytes()
        (tmp_path / "out").unlink()


@pytest.mark.parametrize("more", [[], ["--eval", "test.h5", "--sensitivity"]], ids=["alone", "eval"])
def test_one_number_is_enough_behind_statistics(more, examples, program, tmp_path):
    (tmp_path / "test.h5").symlink_to(examples / "digits_test.h5")
    assert (
        peak(
            program,
            tmp_path,
            ["collect", "--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx", "-o", "s.h5"],
        )[0]
        == 0
    )
    arguments = ["--stats", "s.h5", *more, "-q", "--no-report", "-o", "out.onnx", examples / "digits_cnn.onnx"]
    number = needed(peak(program, tmp_path, [*arguments, "--memory-limit", "1M"])[2])
    code, _, error = peak(
        program, tmp_path, [*arguments, "--progress", "always", "--memory-limit", f"{int((number - 4) * 1024)}K"]
    )
    assert code == 5 and len(error.splitlines()) == 1 and not (tmp_path / "out.onnx").exists()
    code, used, error = peak(program, tmp_path, [*arguments, "--memory-limit", f"{int((number + 1) * 1024)}K"])
    assert code == 0 and used <= 1.1 * number + 2 and (tmp_path / "out.onnx").exists(), error


@pytest.mark.parametrize(
    "options",
    [(), ("--sensitivity",), ("--propagate",), ("--eval", "--sensitivity"), ("--accumulator", "16")],
    ids=" ".join,
)
@pytest.mark.parametrize("model", ["digits", nightly("mobilenet")])
def test_one_number_is_enough_for_all_stages(model, options, examples, program, request, tmp_path):
    """Just below the number that the error names nothing is run, just above it everything is, and fits."""
    if model == "digits":
        job, labelled = [
            "--data",
            examples / "digits_calib.h5",
            examples / "digits_cnn.onnx",
        ], examples / "digits_test.h5"
    else:
        data = request.getfixturevalue("data")
        job = [
            "--data",
            data / "imagenet_calib100_224.h5",
            "--samples",
            4,
            data / "models/mobilenetv1_075_224_imagenet.onnx",
        ]
        labelled = data / "imagenet_eval256_224.h5"
        if "--eval" in options:
            pytest.skip("minutes, and nothing that the smaller model does not show")
    options = [x for option in options for x in ([option, labelled] if option == "--eval" else [option])]
    arguments = [*job, *options, "--threads", 2, "--progress", "always", "-q", "--report", "report", "-o", "out.onnx"]
    number = needed_for_all(program, tmp_path, arguments)
    code, _, error = peak(program, tmp_path, [*arguments, "--memory-limit", f"{int((number - 4) * 1024)}K"])
    assert (
        code == 5 and len(error.splitlines()) == 1 and abs(needed(error) - number) < 4
    ), "an error and no progress: nothing was run"
    assert list(tmp_path.iterdir()) == []
    limit = number + 1
    code, used, error = peak(program, tmp_path, [*arguments, "--memory-limit", f"{int(limit * 1024)}K"])
    assert code == 0, error
    assert used <= 1.1 * limit + 2 and (tmp_path / "out.onnx").exists() and (tmp_path / "report/report.html").exists()


REFUSING = """
int compress2(unsigned char *to, unsigned long *size, const unsigned char *from, unsigned long n, int level)
{
    (void)to, (void)size, (void)from, (void)n, (void)level;
    return -4; /* Z_MEM_ERROR */
}
"""


def test_statistics_that_could_not_be_read_are_not_written(digits, qcalib, tmp_path):
    """A filter that fails for want of memory: HDF5 leaves an optional one out, and the file was refused as damaged later on."""
    data, model = digits
    (tmp_path / "refusing.c").write_text(REFUSING)
    subprocess.run(["cc", "-shared", "-fPIC", "refusing.c", "-o", "refusing.so"], cwd=tmp_path, check=True)
    qcalib("collect", "--data", data, model, "--samples", 5, "-o", "good.h5")
    for command in (["collect", "--data", data, model, "--samples", "5"], ["merge", "good.h5"]):
        done = qcalib(*command, "-o", "s.h5", code=5, LD_PRELOAD=tmp_path / "refusing.so")
        assert "data set" in done.err and done.new_files == [] and not (tmp_path / "s.h5").exists()
    for name, preload in (("a.h5", ""), ("b.h5", tmp_path / "refusing.so")):  # results of 'run' go no such way
        qcalib("run", model, "--data", data, "--samples", 5, "-o", name, LD_PRELOAD=preload)
    assert (tmp_path / "a.h5").read_bytes() == (tmp_path / "b.h5").read_bytes()


def test_names_too_long_for_statistics(qcalib, tmp_path):
    """All names of values are stored as long as the longest; a reader takes 256 MB of them, so more are not written."""
    names = ["x", *(f"v{k}" for k in range(270)), "y" * (1 << 20)]
    nodes = [onnx.helper.make_node("MatMul", [a, "w"], [b]) for a, b in zip(names, names[1:])]
    ports = [[onnx.helper.make_tensor_value_info(name, 1, ["N", 4])] for name in (names[0], names[-1])]
    weight = onnx.numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    onnx.save(
        onnx.helper.make_model(
            onnx.helper.make_graph(nodes, "g", *ports, [weight]),
            opset_imports=[onnx.helper.make_opsetid("", 13)],
            ir_version=8,
        ),
        tmp_path / "long.onnx",
    )
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["x"] = np.ones((2, 4), np.float32)
    done = qcalib("collect", "--data", "x.h5", "long.onnx", "-o", "s.h5", code=4)
    assert "values/name" in done.err and "shorter names" in done.err and done.new_files == []


def test_many_rows_of_second_moments(qcalib, tmp_path, examples):
    """2^29 rows may have sums of 2^63 and more, so any sum fits. Only the changed content is refused."""
    qcalib("collect", "--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx", "-o", "s.h5")
    with h5py.File(tmp_path / "s.h5", "r+") as file:
        counts = file["moments/counts"][...]
        counts[:, 0] = 2**29
        file["moments/counts"][...] = counts
    assert "does not match its SHA-256" in qcalib("inspect", "s.h5", code=3).err
