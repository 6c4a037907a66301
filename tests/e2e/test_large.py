# SPDX-License-Identifier: Apache-2.0
"""Models with external data: weights are read in place and written beside the new model."""

import os
import re
import subprocess
import sys
import time

import h5py
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from conftest import ROOT

sys.path.append(str(ROOT / "scripts"))
import large_model  # noqa: E402
from large_models import Network  # noqa: E402

LATE = ["--require-integer"]  # fails when all layers are rounded, and leaves the checkpoint
QUICK = ["--method", "mse", "--weight-rounding", "nearest"]  # second moments may take blocks under a limit


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A decoder of 18 MB, weights of 256 KiB to 4 MiB."""
    folder = tmp_path_factory.mktemp("large")
    large_model.write(folder, layers=1, width=256, inner=4096, heads=4, tokens=2000, length=16, samples=4)
    return folder


def outputs(path, tokens):
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(None, {"tokens": tokens})[0]


def graph_of(path):
    """With the weights in it, wherever they were."""
    graph = onnx.load(path).graph
    for t in graph.initializer:
        t.ClearField("data_location")
    return graph


def locations(path):
    model = onnx.load(path, load_external_data=False)
    return {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}


def test_what_comes_beside_goes_beside(small, qcalib, tmp_path):
    before = (small / "large.onnx.data").read_bytes()
    done = qcalib("--data", small / "large.npy", small / "large.onnx", "-o", "q.onnx", "--json", *QUICK)
    assert locations(tmp_path / "q.onnx") == {"q.onnx.data"}
    files = [tmp_path / "q.onnx", tmp_path / "q.onnx.data"]
    assert done.json["files"][0]["bytes"] == sum(f.stat().st_size for f in files)
    assert done.json["model"]["bytes"] >= len(before)
    tokens = np.load(small / "large.npy")
    a, b = outputs(small / "large.onnx", tokens), outputs(tmp_path / "q.onnx", tokens)
    assert 10 * np.log10(np.square(a).sum() / np.square(a - b).sum()) > 20
    # The form does not change the numbers.
    onnx.save(onnx.load(small / "large.onnx"), tmp_path / "one.onnx")
    qcalib("--data", small / "large.npy", "one.onnx", "-o", "q1.onnx", "--no-report", *QUICK)
    assert locations(tmp_path / "q1.onnx") == set()
    assert graph_of(tmp_path / "q.onnx") == graph_of(tmp_path / "q1.onnx")
    # Nor does the limit, under which new weights go to temporary files; in memory they would need 50 MiB more.
    limited = qcalib(
        "--data",
        small / "large.npy",
        small / "large.onnx",
        "-o",
        "l.onnx",
        "--no-report",
        *QUICK,
        "--memory-limit",
        "110M",
    )
    assert limited.new_files == ["l.onnx", "l.onnx.data"]
    assert (tmp_path / "l.onnx.data").read_bytes() == files[1].read_bytes()
    qcalib("convert", "q.onnx", "-o", "c.onnx", "--format", "qoperator")
    assert locations(tmp_path / "c.onnx") == {"c.onnx.data"}
    assert (small / "large.onnx.data").read_bytes() == before


def test_few_positions_keep_their_rows(small, qcalib, tmp_path):
    """Wide layers that see few positions, under a limit that has no room for matrices of products: nothing is cut into
    blocks, in one run, in two shards of files, nor in a run that goes on. Before, a layer of 4096 columns had to fit.
    """
    ask = ["--activation-type", "none", "--weight-type", "int4", "--weight-block", "32", "--method", "mse"]
    ask += ["--scale-channels", "off", "--no-report"]  # which is not tried under a limit
    data, model = small / "large.npy", small / "large.onnx"
    limit = ["--memory-limit", "160M"]
    stopped = qcalib("--data", data, model, "-o", "l.onnx", *ask, *limit, "--checkpoint", "c.h5", *LATE, code=1)
    assert "blocks of columns" not in stopped.err and stopped.new_files == ["c.h5", "c.h5.layers"]
    limited = qcalib("--data", data, model, "-o", "l.onnx", *ask, *limit, "--checkpoint", "c.h5")
    assert "blocks of columns" not in limited.err
    for shard in range(2):
        qcalib("collect", "--data", data, "--shard", f"{shard}/2", model, "-o", f"s{shard}.h5", *limit)
    qcalib("collect", "--data", data, model, "-o", "s.h5")
    qcalib("merge", "s1.h5", "s0.h5", "-o", "m.h5")
    assert (tmp_path / "m.h5").read_bytes() == (tmp_path / "s.h5").read_bytes()
    with h5py.File(tmp_path / "s.h5") as f:
        assert f.attrs["qcalib_statistics"] == 4 and (tmp_path / "s.h5").stat().st_size < 8 << 20
        wide = [i for i, sizes in enumerate(f["moments/sizes"]) if sizes[2] == 4096]
        kept = [n for (i, _, _), n in zip(f["moments/class"], f["moments/rows"]) if i in wide]
        assert len(wide) == 1 and sum(kept) == 64 and sum(f["moments/rows"]) == len(f["moments/steps"])
    # Statistics that were collected without a limit. A job with the data and room for it would also refine weights.
    qcalib("--stats", "s.h5", model, "-o", "w.onnx", *ask)
    qcalib("--stats", "m.h5", model, "-o", "m.onnx", *ask)
    for name in "lm":
        assert (tmp_path / f"{name}.onnx.data").read_bytes() == (tmp_path / "w.onnx.data").read_bytes()


def test_moments_that_do_not_fit_go_to_files(qcalib, tmp_path):
    """Six layers of 512 columns that see 700 rows each: their matrices of products take 26 MB, and these together have no
    room. They were cut into blocks of columns, which gave other weights. Nothing is left in the folder."""
    network, folder = Network(), tmp_path / "temporary"
    folder.mkdir()
    x = "x"
    for _ in range(6):
        x = network.op("Relu", network.op("MatMul", x, network.random(512, 512, fan=512)))
    network.op("MatMul", x, network.random(512, 10, fan=512))
    network.write(tmp_path / "m.onnx", ["n", 512], ["n", 10])
    rng = np.random.default_rng(1)
    np.save(tmp_path / "x.npy", (rng.standard_normal([700, 20]) @ rng.standard_normal([20, 512])).astype(np.float32))
    ask = ["--data", "x.npy", "m.onnx", "--method", "mse", "--no-report"]
    qcalib(*ask, "-o", "free.onnx")
    refused = qcalib(*ask, "-o", "q.onnx", "--memory-limit", "30M", code=5)
    needs = float(re.search("needs ([0-9.]+) MiB", refused.err)[1])
    limited = qcalib(*ask, "-o", "limited.onnx", "--memory-limit", f"{int(needs + 6)}M", TMPDIR=folder)
    assert "blocks of columns" not in limited.err and not list(folder.iterdir())
    assert (tmp_path / "limited.onnx").read_bytes() == (tmp_path / "free.onnx").read_bytes()
    # A checkpoint is written layer by layer: it was made in memory, with room for which they were cut into blocks.
    saving = [*ask, "-o", "saved.onnx", "--memory-limit", f"{int(needs + 16)}M", "--checkpoint", "c.h5"]
    # What a demand changes in the network is collected anew, and leaves the checkpoint for a job that goes on.
    assert "c.h5" in qcalib(*saving, "--min-sqnr", "150", code=1).new_files
    saved = qcalib(*saving)
    assert "blocks of columns" not in saved.err
    assert (tmp_path / "saved.onnx").read_bytes() == (tmp_path / "free.onnx").read_bytes()
    nowhere = qcalib(*ask, "-o", "q.onnx", "--memory-limit", f"{int(needs + 6)}M", TMPDIR=tmp_path / "none", code=5)
    assert "TMPDIR" in nowhere.err and len(nowhere.err.splitlines()) == 1


def test_weights_that_are_read_are_not_written_over(small, qcalib, tmp_path):
    """An output whose weights would come to lie where those of the input are."""
    for name in ("large.onnx.data", "large.npy"):
        (tmp_path / name).write_bytes((small / name).read_bytes())
    (tmp_path / "other.onnx").write_bytes((small / "large.onnx").read_bytes())
    before = (tmp_path / "large.onnx.data").read_bytes()
    done = qcalib("--data", "large.npy", "other.onnx", "-o", "large.onnx", code=2)
    assert "large.onnx.data" in done.err and done.new_files == []
    assert (tmp_path / "large.onnx.data").read_bytes() == before


def test_no_room_for_temporary_files(small, qcalib, tmp_path):
    done = qcalib(
        "--data",
        small / "large.npy",
        small / "large.onnx",
        "-o",
        "q.onnx",
        *QUICK,
        "--memory-limit",
        "100M",
        code=5,
        TMPDIR=tmp_path / "missing",
    )
    assert "TMPDIR" in done.err and done.new_files == []


@pytest.mark.nightly  # 9 GB of disk and 20 minutes of two cores
def test_a_model_that_is_larger_than_the_limit_almost(qcalib, program, tmp_path):
    """2.8 GB of weights under 3 GiB, where float copies of some layers and statistics have to fit too."""
    large_model.write(tmp_path, layers=12, width=2048, inner=5632, heads=16, tokens=24000, length=32, samples=8)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [program, "--data", "large.npy", "large.onnx", "-o", "q.onnx", "--no-report", "--memory-limit", "3G"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment) as job:
        most = 0
        while job.poll() is None:
            with open(f"/proc/{job.pid}/status", encoding="ascii") as status:
                most = max([most, *(int(line.split()[1]) for line in status if line.startswith("RssAnon"))])
            time.sleep(0.05)
    assert job.returncode == 0 and most < 3 << 20, most
    tokens = np.load(tmp_path / "large.npy")
    a, b = outputs(tmp_path / "large.onnx", tokens), outputs(tmp_path / "q.onnx", tokens)
    assert 10 * np.log10(np.square(a).sum() / np.square(a - b).sum()) > 15
