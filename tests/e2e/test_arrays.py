# SPDX-License-Identifier: Apache-2.0
"""Samples in numpy's files: .npy, .npz and folders of .npy give the same bytes as the same numbers in HDF5, for every
type, order and compression. Messages about damaged files name them. Reference: numpy, which writes the files."""

import struct
import zipfile

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from test_bad_input import BAD, UNSUPPORTED, USAGE, refused

SHAPE = (7, 3, 2, 4)


def identity(path, shape, names=("x",), dtype=TensorProto.FLOAT):
    ports = [[helper.make_tensor_value_info(p + n, dtype, shape) for n in names] for p in ("", "y")]
    nodes = [helper.make_node("Identity", [n], ["y" + n]) for n in names]
    onnx.save(
        helper.make_model(
            helper.make_graph(nodes, "g", *ports), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
        ),
        path,
    )


def read(qcalib, folder, data, *options, names=("x",)):
    qcalib("run", "m.onnx", "--data", data, "-o", "out.h5", *options)
    with h5py.File(folder / "out.h5") as f:
        return [f["y" + n][:] for n in names]


TYPES = ["?", "i1", "<i2", ">i4", "<i8", "u1", ">u2", "<u4", ">u8", "<f2", ">f4", "<f8", ">f8"]


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_npy_of_every_type_and_order(qcalib, tmp_path, version):
    identity(tmp_path / "m.onnx", ["N", *SHAPE[1:]])
    rng = np.random.default_rng(1)
    types = TYPES if version == (1, 0) else TYPES[::5]
    for i, kind in enumerate(types):
        values = rng.integers(0, 2 if kind == "?" else 100, SHAPE).astype(kind)
        with open(tmp_path / "a.npy", "wb") as f:
            np.lib.format.write_array(f, np.asfortranarray(values) if i % 2 else values, version=version)
        assert np.array_equal(read(qcalib, tmp_path, "a.npy")[0], values.astype(np.float32)), kind


def test_npz(qcalib, tmp_path):
    """One array per input, by name; stored and deflated, both orders; what is no sample beside them does no harm."""
    names = ("x", "group/z")
    identity(tmp_path / "m.onnx", ["N", *SHAPE[1:]], names)
    rng = np.random.default_rng(2)
    arrays = {"x": rng.normal(size=SHAPE).astype(np.float32), "group/z": np.asfortranarray(rng.normal(size=SHAPE))}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", note=np.array(["a text"]), step=np.float32(3), **arrays)
        for got, name in zip(read(qcalib, tmp_path, "a.npz", names=names), names):
            assert np.array_equal(got, arrays[name].astype(np.float32))
    refused(
        qcalib("run", "m.onnx", "--data", "a.npz", "-o", "o.h5", "--input", "x=note", code=None),
        UNSUPPORTED,
        "data set 'note'",
        "<U6",
    )
    shown = qcalib("inspect", "a.npz").out
    assert "x  float32 [7,3,2,4]  npz, deflated" in shown and "note  <U6 [1]" in shown


def test_npz_of_64_bit_sizes(qcalib, tmp_path):
    """As numpy writes members of unknown size: zip64 fields though nothing is large."""
    identity(tmp_path / "m.onnx", ["N", *SHAPE[1:]])
    values = np.random.default_rng(3).normal(size=SHAPE).astype(np.float32)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as z, z.open("x.npy", "w", force_zip64=True) as f:
        np.lib.format.write_array(f, values)
    directory = (tmp_path / "a.npz").read_bytes()
    at = directory.index(b"PK\1\2")
    entry = bytearray(directory[at : directory.index(b"PK\5\6")])
    size, name = struct.unpack_from("<I", entry, 24)[0], 5
    struct.pack_into("<II", entry, 20, 0xFFFFFFFF, 0xFFFFFFFF)
    struct.pack_into("<H", entry, 30, 20)
    entry = entry[: 46 + name] + struct.pack("<HHQQ", 1, 16, size, size)
    end64 = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(entry), at)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, at + len(entry), 1)
    end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    (tmp_path / "a.npz").write_bytes(directory[:at] + entry + end64 + locator + end)
    assert np.array_equal(np.load(tmp_path / "a.npz")["x"], values)
    assert np.array_equal(read(qcalib, tmp_path, "a.npz")[0], values)


def test_a_folder_of_npy(qcalib, tmp_path):
    """One sample a file, or batches of different lengths; in the order of names; labels beside them."""
    identity(tmp_path / "m.onnx", ["N", *SHAPE[1:]])
    values = np.random.default_rng(4).normal(size=SHAPE).astype(np.float32)
    for name in ("samples", "batches"):
        (tmp_path / name).mkdir()
    for i, row in enumerate(values):
        np.save(tmp_path / f"samples/{i}.npy", np.asfortranarray(row) if i % 2 else row)
    for i, j in ((0, 1), (1, 5), (5, 7)):
        np.save(tmp_path / f"batches/{i}.npy", np.asfortranarray(values[i:j]))
    for name in ("samples", "batches"):
        assert np.array_equal(read(qcalib, tmp_path, name)[0], values)
    (tmp_path / "samples/3.npy").write_bytes(b"no array")
    result = qcalib("run", "m.onnx", "--data", "samples", "-o", "out.h5")
    assert "samples/3.npy" in result.err and "1 of 7 files" in result.err
    with h5py.File(tmp_path / "out.h5") as f:
        assert np.array_equal(f["yx"][:], np.delete(values, 3, 0))


def test_the_same_model(qcalib, tmp_path, examples):
    """From HDF5, .npz and a folder come the same bytes, with any number of threads; eval finds labels."""
    with h5py.File(examples / "digits_test.h5") as f:
        x, labels = f["input"][:], f["labels"][:]
        attributes = {k: np.ravel(f["input"].attrs[k]) for k in ("scale", "mean", "std")}
    how = " ".join(f"{k}={v[0]:.9g}" for k, v in attributes.items())
    np.savez_compressed(tmp_path / "a.npz", input=x, labels=labels)
    (tmp_path / "f").mkdir()
    np.save(tmp_path / "f/0.npy", x)
    np.save(tmp_path / "f/labels.npy", labels)
    model = examples / "digits_cnn.onnx"
    qcalib(model, "--data", examples / "digits_test.h5", "-o", "want.onnx", "--no-report")
    for data, threads in (("a.npz", 1), ("a.npz", 3), ("f", 2)):
        qcalib(model, "--data", data, "--preprocess", how, "-o", "got.onnx", "--threads", threads, "--no-report")
        assert (tmp_path / "got.onnx").read_bytes() == (tmp_path / "want.onnx").read_bytes()
        top1 = qcalib("eval", model, "--data", data, "--preprocess", how, "--json").json["models"][0]["value"]
        assert top1 == qcalib("eval", model, "--data", examples / "digits_test.h5", "--json").json["models"][0]["value"]


def damaged(good):
    """What a download that broke off, or malice, makes of a .npy: (bytes, what the message says)"""
    header = good[: good.index(b"\n") + 1]
    yield good[:-1], "truncated"
    yield good[:5], "not a file of samples"
    yield header[:40], "it is truncated"
    yield good.replace(b"'shape': (7,", b"'shape': (9,"), "truncated"
    yield good.replace(
        b"(7, 3, 2, 4), }" + b" " * 40, b"(9223372036854775807, 9223372036854775807), }" + b" " * 10
    ), "damaged"
    yield good.replace(b"'shape': (7,", b"'shape': (-,"), "damaged"
    yield good.replace(b"<f4", b"|O8"), "O8"
    yield good.replace(b"\x93NUMPY\x01", b"\x93NUMPY\x09"), "version 9"
    yield good[:8] + b"\xff\xff" + good[10:], "damaged"


@pytest.mark.bad_input
def test_damaged_npy(qcalib, tmp_path):
    identity(tmp_path / "m.onnx", ["N", *SHAPE[1:]])
    np.save(tmp_path / "a.npy", np.zeros(SHAPE, np.float32))
    for bad, says in damaged((tmp_path / "a.npy").read_bytes()):
        (tmp_path / "bad.npy").write_bytes(bad)
        result = qcalib("run", "m.onnx", "--data", "bad.npy", "-o", "out.h5", code=None)
        assert result.code in (BAD, UNSUPPORTED) and "bad.npy" in result.err and says in result.err, (says, result.err)
        assert not result.new_files


@pytest.mark.bad_input
def test_damaged_npz(qcalib, tmp_path):
    """Cut anywhere and with any byte of its lists changed it is refused or read; nothing else happens."""
    identity(tmp_path / "m.onnx", ["N", *SHAPE[1:]])
    values = np.ones(SHAPE, np.float32)
    for save, seed in ((np.savez, 1), (np.savez_compressed, 2)):
        save(tmp_path / "a.npz", x=values)
        good = (tmp_path / "a.npz").read_bytes()
        rng = np.random.default_rng(seed)
        cuts = [good[:n] for n in rng.integers(1, len(good), 4)]
        directory = good.index(b"PK\1\2")
        for at in [*rng.integers(directory, len(good), 8), *rng.integers(0, directory, 4)]:
            bad = bytearray(good)
            bad[at] ^= 1 << int(rng.integers(8))
            cuts.append(bytes(bad))
        refusals = 0
        for bad in cuts:
            (tmp_path / "bad.npz").write_bytes(bad)
            code = qcalib("run", "m.onnx", "--data", "bad.npz", "-o", "out.h5", code=None).code
            assert code in (0, BAD, UNSUPPORTED)
            refusals += code != 0
        assert refusals >= 6


@pytest.mark.bad_input
def test_a_bomb_takes_no_room(qcalib, tmp_path):
    """A member that says it unpacks to more than deflate can make is refused before anything is taken."""
    identity(tmp_path / "m.onnx", ["N", 4])
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((4, 4), np.float32))
    bad = bytearray((tmp_path / "a.npz").read_bytes())
    struct.pack_into("<I", bad, bad.index(b"PK\1\2") + 24, 0xFFFFFF00)
    (tmp_path / "a.npz").write_bytes(bad)
    refused(qcalib("run", "m.onnx", "--data", "a.npz", "-o", "o.h5", code=None), BAD, "a.npz", "its compressed data")


def test_one_folder_feeds_one_input(qcalib, tmp_path):
    identity(tmp_path / "m.onnx", ["N", 4], ("x", "z"))
    (tmp_path / "f").mkdir()
    np.save(tmp_path / "f/0.npy", np.zeros(4, np.float32))
    refused(qcalib("run", "m.onnx", "--data", "f", "-o", "o.h5", code=None), USAGE, "the model has 2")
    (tmp_path / "empty").mkdir()
    refused(qcalib("run", "m.onnx", "--data", "empty", "-o", "o.h5", code=None), BAD, "empty is a folder without")
