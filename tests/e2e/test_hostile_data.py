# SPDX-License-Identifier: Apache-2.0
"""Malicious HDF5 files: files that crash HDF5 itself, endless nesting of groups, values in other files, pipes in place
of files. They are in QCALIB_DATA/hostile or made here. scripts/test runs these tests with sanitizers too."""

import os
import shutil
import time

import h5py
import numpy as np
import onnx
import pytest
from conftest import ROOT
from h5py import h5d, h5p, h5s, h5t
from onnx import TensorProto, helper
from test_bad_input import BAD, MACHINE, UNSUPPORTED, refused
from test_data_types import negate

pytestmark = pytest.mark.bad_input
f32 = np.float32


@pytest.fixture(scope="session")
def hostile(data):
    folder = data / "hostile"
    if not folder.is_dir():
        pytest.skip(f"there is no {folder}")
    return folder


def run(qcalib, model, file, *more):
    return qcalib("run", model, "--data", file, "-o", "out.h5", *more, code=None, timeout=60)


def numbers(folder):
    with h5py.File(folder / "out.h5") as out:
        return out[next(iter(out))][()]


# ---- The files of the afternoon ----


@pytest.mark.parametrize("name", ["prec12", "prec12nbit", "prec16off", "prec32"])
def test_precision_below_size(name, hostile, qcalib, tmp_path):
    assert run(qcalib, hostile / "Abs.onnx", hostile / f"{name}.h5").code == 0
    with h5py.File(hostile / f"{'prec_ref' if name != 'prec32' else name}.h5") as file:
        np.testing.assert_array_equal(numbers(tmp_path), np.abs(file["x"][()].astype(f32)))


@pytest.mark.parametrize("name", ["h5_segv1", "h5_segv2"])
def test_hdf5_crashes(name, hostile, qcalib, tmp_path):
    file = hostile / f"{name}.h5"
    for done in (
        qcalib("inspect", file, code=None),
        run(qcalib, hostile / "Abs.onnx", file),
        qcalib("inspect", "--json", file, code=None),
    ):
        refused(done, BAD, f"{name}.h5", "HDF5 library cannot read it")
    refused(qcalib("merge", file, file, "-o", "out.h5", code=None), BAD, f"{name}.h5")
    refused(qcalib("quantize", hostile / "Conv.onnx", "--stats", file, "-o", "out.onnx", code=None), BAD, f"{name}.h5")


@pytest.mark.parametrize("name", ["deep500", "cycle", "hugechunk", "hugen", "x"])
def test_strange_but_good(name, hostile, qcalib, tmp_path):
    assert qcalib("inspect", hostile / f"{name}.h5", "--json").json["datasets"][0]["name"] == "x"
    assert run(qcalib, hostile / "Abs.onnx", hostile / f"{name}.h5", "--samples", 4).code == 0
    assert numbers(tmp_path).shape == (4, 3, 8, 8)


@pytest.mark.parametrize(
    "name,code,words",
    [
        ("huge", BAD, ["30000"]),
        ("null", BAD, ["'x'"]),
        ("nofilter", UNSUPPORTED, ["'x'", "filter 32015"]),
        ("attr_emptymean", BAD, ["'mean'"]),
        ("attr_infmean", BAD, ["'mean'", "inf"]),
        ("attr_nanscale", BAD, ["'scale'", "nan"]),
        ("attr_strmean", BAD, ["'mean'"]),
        ("attr_zerostd", BAD, ["'std'", "0"]),
    ],
)
def test_refused_as_before(name, code, words, hostile, qcalib):
    assert qcalib("inspect", hostile / f"{name}.h5", code=None).code == 0
    refused(run(qcalib, hostile / "Abs.onnx", hostile / f"{name}.h5"), code, f"{name}.h5", *words)


@pytest.mark.parametrize(
    "name,leads",
    [
        ("ext_passwd", "/etc/passwd"),
        ("ext_fifo", "fifo"),
        ("ext_missing", "/nonexistent"),
        ("extlink", "gen/x.h5"),
        ("extlink2", "gen/x.h5"),
    ],
)
def test_leads_elsewhere(name, leads, hostile, qcalib):
    file = hostile / f"{name}.h5"
    listed = qcalib("inspect", file, "--json").json["datasets"]
    assert all(d["type"] == "elsewhere" and leads in d["storage"] for d in listed)
    refused(run(qcalib, hostile / "Abs.onnx", file), BAD, f"{name}.h5", "'x'", leads, "--follow-links")


# ---- Files made here ----


def chain(path, depth):
    """Groups in each other, a data set in the innermost."""
    with h5py.File(path, "w", libver="latest") as file:
        group = file
        for _ in range(depth):
            group = group.create_group("g")
        group["x"] = np.ones((2, 6), f32)


def test_listing_is_linear_and_bounded(qcalib, tmp_path):
    seconds = []
    for depth in (250, 500):
        chain(tmp_path / "deep.h5", depth)
        started = time.monotonic()
        listed = qcalib("inspect", "deep.h5", "--json").json["datasets"]
        seconds.append(time.monotonic() - started)
        assert [d["name"] for d in listed] == ["g/" * depth + "x"]
    assert seconds[1] < 2
    for depth in (600, 3000):
        chain(tmp_path / "deep.h5", depth)
        started = time.monotonic()
        refused(qcalib("inspect", "deep.h5", code=None), UNSUPPORTED, "deep.h5", "nested more than 512 deep")
        assert time.monotonic() - started < 2


def test_many_groups_and_cycles(qcalib, tmp_path):
    """4000 groups beside each other, each with hard links back to the first ones: every group is entered once."""
    with h5py.File(tmp_path / "many.h5", "w") as file:
        groups = [file.create_group(f"g{i}") for i in range(400)]
        for g in groups:
            g["top"] = file
            for k in range(10):
                g[f"k{k}"] = groups[k]
        groups[-1]["x"] = np.ones((2, 6), f32)
    started = time.monotonic()
    assert len(qcalib("inspect", "many.h5", "--json").json["datasets"]) == 1
    assert time.monotonic() - started < 5


def external(path, target, size=2 * 6 * 4):
    creation = h5p.create(h5p.DATASET_CREATE)
    creation.set_external(str(target).encode(), 0, size)
    with h5py.File(path, "w") as file:
        h5d.create(file.id, b"x", h5t.IEEE_F32LE, h5s.create_simple((2, 6)), creation)


@pytest.fixture
def elsewhere(tmp_path):
    """other.h5 with x, raw.bin with its bytes, and a model."""
    values = np.arange(12, dtype=f32).reshape(2, 6)
    (tmp_path / "raw.bin").write_bytes(values.tobytes())
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = values
    negate(tmp_path / "neg.onnx", ["x"])
    return values


def lead(kind, path, target):
    """A file whose x is in target."""
    if kind == "storage":
        return external(path, target)
    with h5py.File(path, "w") as file:
        if kind == "virtual":
            layout = h5py.VirtualLayout((2, 6), f32)
            layout[:] = h5py.VirtualSource(str(target), "x", (2, 6))
            file.create_virtual_dataset("x", layout)
        elif kind == "link":
            file["x"] = h5py.ExternalLink(str(target), "/x")
        elif kind == "soft":
            file["hop"] = h5py.ExternalLink(str(target), "/")
            file["x"] = h5py.SoftLink("/hop/x")


KINDS = ["storage", "virtual", "link", "soft"]


@pytest.mark.parametrize("kind", KINDS)
def test_other_files_are_followed_when_asked_for(kind, elsewhere, qcalib, tmp_path):
    target = tmp_path / ("raw.bin" if kind == "storage" else "other.h5")
    lead(kind, tmp_path / "lead.h5", target)
    refused(run(qcalib, "neg.onnx", "lead.h5"), BAD, "lead.h5", "'x'", target.name, "--follow-links")
    refused(qcalib("quantize", "neg.onnx", "--data", "lead.h5", code=None), BAD, "lead.h5", "'x'", target.name)
    assert "elsewhere" in qcalib("inspect", "lead.h5").out
    assert run(qcalib, "neg.onnx", "lead.h5", "--follow-links").code == 0
    np.testing.assert_array_equal(numbers(tmp_path), -elsewhere)
    (listed,) = [
        d for d in qcalib("inspect", "lead.h5", "--json", "--follow-links").json["datasets"] if d["name"] == "x"
    ]
    assert listed["shape"] == [2, 6]


@pytest.mark.parametrize("follow", [[], ["--follow-links"]], ids=["", "follow"])
@pytest.mark.parametrize("target", ["pipe", "/dev/zero", "missing", "folder"])
@pytest.mark.parametrize("kind", KINDS)
def test_other_files_never_hang(kind, target, follow, elsewhere, qcalib, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    lead(kind, tmp_path / "lead.h5", target if target.startswith("/") else tmp_path / target)
    started = time.monotonic()
    done = run(qcalib, "neg.onnx", "lead.h5", *follow)
    refused(done, BAD, "lead.h5")
    if kind == "virtual" and target == "missing" and follow:  # HDF5 would give the fill value
        assert "does not exist" in done.err
    assert qcalib("inspect", "lead.h5", *follow, code=None, timeout=60).code in (0, BAD)
    assert time.monotonic() - started < 10


def test_labels_and_targets_are_not_taken_from_elsewhere(elsewhere, qcalib, tmp_path):
    for name in ("labels", "target"):
        with h5py.File(tmp_path / "lead.h5", "w") as file:
            file["x"] = elsewhere
            file[name] = h5py.ExternalLink("other.h5", "/x")
        refused(
            qcalib("eval", "neg.onnx", "--data", "lead.h5", code=None),
            BAD,
            "lead.h5",
            name,
            "other.h5",
            "--follow-links",
        )


def test_one_file_in_several_parts_is_not_put_together(elsewhere, qcalib, tmp_path):
    """HDF5's family and split drivers would open files of other names."""
    with h5py.File(tmp_path / "part%d.h5", "w", driver="family", memb_size=4096) as file:
        file["x"] = np.zeros((64, 6), f32)
    with h5py.File(tmp_path / "two", "w", driver="split") as file:
        file["x"] = np.zeros((64, 6), f32)
    for name in ("part0.h5", "two-m.h5"):
        refused(run(qcalib, "neg.onnx", name), BAD, name)


def test_user_block(elsewhere, qcalib, tmp_path):
    with h5py.File(tmp_path / "block.h5", "w", userblock_size=512) as file:
        file.create_dataset("x", data=elsewhere, chunks=(1, 6), compression=4)
    assert run(qcalib, "neg.onnx", "block.h5").code == 0
    np.testing.assert_array_equal(numbers(tmp_path), -elsewhere)


# ---- Pipes, devices and folders for any input ----


@pytest.mark.parametrize("follow", [[], ["--follow-links"]], ids=["", "follow"])
def test_no_input_hangs(follow, elsewhere, qcalib, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for bad in ("pipe", "/dev/zero", "/dev/tty", tmp_path):
        commands = [
            ("inspect", bad, *follow),
            ("run", bad, "--data", "other.h5", "-o", "out.h5", *follow),
            ("run", "neg.onnx", "--data", bad, "-o", "out.h5", *follow),
            ("quantize", "neg.onnx", "--stats", bad, *follow),
            ("quantize", "neg.onnx", "--config", bad, *follow),
            ("convert", bad, "--format", "qdq", "-o", "o.onnx", *follow),
            ("quantize", "neg.onnx", "--data", "other.h5", "--rules", bad, *follow),
            ("merge", bad, bad, "-o", "out.h5"),
            ("collect", "neg.onnx", "--data", "other.h5", "--checkpoint", bad, "-o", "out.h5", *follow),
        ]
        for command in commands:
            done = qcalib(*command, code=None, timeout=20)
            assert done.code in (BAD, MACHINE) and len(done.err.splitlines()) == 1 and done.new_files == [], (
                command,
                done.err,
            )


# ---- External data of models ----


def with_external_data(folder, location):
    w = TensorProto(data_type=TensorProto.FLOAT, name="w", dims=[6], data_location=TensorProto.EXTERNAL)
    w.external_data.add(key="location", value=location)
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 6])] for n in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", *ports, [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())


@pytest.mark.parametrize("how", ["file", "folder", "hidden"])
def test_external_data_of_a_model_stays_in_its_folder(how, elsewhere, qcalib, tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "models"
    outside.mkdir()
    inside.mkdir()
    (outside / "w.bin").write_bytes(np.full(6, 5, f32).tobytes())
    if how == "file":
        (inside / "w.bin").symlink_to(outside / "w.bin")
    elif how == "folder":
        (inside / "sub").symlink_to(outside)
    else:
        (inside / "sub").mkdir()
        (inside / "sub" / "w.bin").symlink_to("../../outside/w.bin")
    location = "w.bin" if how == "file" else "sub/w.bin"
    with_external_data(inside, location)
    for command in [
        ("run", "models/model.onnx", "--data", "other.h5", "-o", "out.h5"),
        ("inspect", "models/model.onnx"),
        ("quantize", "models/model.onnx", "--data", "other.h5"),
        ("convert", "models/model.onnx", "--format", "qdq", "-o", "out.onnx"),
        ("eval", "models/model.onnx", "--data", "other.h5"),
        ("compare", "models/model.onnx", "neg.onnx", "--data", "other.h5"),
    ]:
        refused(qcalib(*command, code=None), BAD, "model.onnx", "'w'", location, "--follow-links")
    assert qcalib("run", "models/model.onnx", "--data", "other.h5", "-o", "out.h5", "--follow-links").code == 0
    np.testing.assert_array_equal(numbers(tmp_path), elsewhere + 5)


def test_external_data_through_links_that_stay(elsewhere, qcalib, tmp_path):
    """A link to a file of the folder, and a folder that is a link itself, lead nowhere else."""
    inside = tmp_path / "models"
    inside.mkdir()
    (inside / "real.bin").write_bytes(np.full(6, 5, f32).tobytes())
    (inside / "w.bin").symlink_to("real.bin")
    (tmp_path / "named").symlink_to(inside)
    with_external_data(inside, "w.bin")
    for folder in ("models", "named"):
        assert qcalib("run", f"{folder}/model.onnx", "--data", "other.h5", "-o", "out.h5").code == 0
        np.testing.assert_array_equal(numbers(tmp_path), elsewhere + 5)


@pytest.mark.parametrize("follow", [[], ["--follow-links"]], ids=["", "follow"])
def test_external_data_that_is_a_pipe(follow, elsewhere, qcalib, tmp_path):
    os.mkfifo(tmp_path / "w.bin")
    with_external_data(tmp_path, "w.bin")
    refused(qcalib("inspect", "model.onnx", *follow, code=None, timeout=20), BAD, "model.onnx", "w.bin", "regular file")


# ---- Damage ----


def test_flipped_bytes_of_structure(qcalib, tmp_path):
    """Whatever a flipped byte does to HDF5, the program ends in order and names the file."""
    negate(tmp_path / "neg.onnx", ["x"])
    rng = np.random.default_rng(8)
    with h5py.File(tmp_path / "good.h5", "w") as file:
        values = rng.normal(size=(6, 6)).astype(f32)
        x = file.create_dataset("x", data=values, chunks=(2, 6), compression=4, shuffle=True, fletcher32=True)
        x.attrs["mean"], x.attrs["note"] = [0.5], "words"
        file.create_group("g/h")["y"] = values
        file["link"] = h5py.SoftLink("/g/h/y")
    whole = (tmp_path / "good.h5").read_bytes()
    used = np.flatnonzero(np.frombuffer(whole, np.uint8))
    for round_ in range(40):
        copy = bytearray(whole)
        for place in rng.choice(used, 1 + round_ % 4):
            copy[place] = rng.integers(0, 256)
        (tmp_path / "bad.h5").write_bytes(copy)
        for command in [("inspect", "bad.h5"), ("run", "neg.onnx", "--data", "bad.h5", "-o", f"out{round_}.h5")]:
            done = qcalib(*command, code=None, timeout=60)
            assert done.code in (0, BAD, UNSUPPORTED), (done.code, done.err)
            assert done.code == 0 or "bad.h5" in done.err


def test_reading_without_end(qcalib, tmp_path):
    """A name index that leads HDF5 in a circle."""
    shutil.copy(ROOT / "tests/datasets/corpus_hdf5/loop.h5", tmp_path / "loop.h5")
    refused(qcalib("inspect", "loop.h5", code=None, timeout=100), BAD, "loop.h5", "reading does not end")


def test_no_more_processes(program, elsewhere, tmp_path):
    """Where there can be no process to read in, the machine is to blame. Root has no such limit, so it is another user's."""
    import subprocess

    if os.getuid() != 0:
        pytest.skip("needs another user's processes")
    for folder in [tmp_path, *list(tmp_path.parents)[:3]]:
        if folder.stat().st_mode & 0o055 != 0o055:
            folder.chmod(folder.stat().st_mode | 0o055)
    shutil.copy(program, tmp_path / "qcalib")
    done = subprocess.run(
        ["bash", "-c", 'ulimit -u 1; exec "$@"', "bash", "./qcalib", "inspect", "other.h5"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        user=65533,
        group=65533,
        extra_groups=[],
        check=False,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
    )  # which needs a process of its own
    assert done.returncode == MACHINE and "other.h5" in done.stderr and "process" in done.stderr, done.stderr
