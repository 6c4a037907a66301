# SPDX-License-Identifier: Apache-2.0
"""Malicious arrays: samples without stored values, wrong checksums, malformed headers, archives whose members share
bytes or names. scripts/test runs these tests with sanitizers too."""

import io
import resource
import struct
import subprocess
import zipfile

import h5py
import numpy as np
import pytest
from onnx import TensorProto, helper
from test_arrays import identity, read
from test_bad_input import BAD, UNSUPPORTED, refused

pytestmark = pytest.mark.bad_input
TRILLION = 10**12


def npy(header):
    text = (header + " " * (118 - len(header) - 1) + "\n").encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def run(qcalib, data, *more):
    return qcalib("run", "m.onnx", "--data", data, "-o", "out.h5", *more, code=None, timeout=60)


# ---- Samples that nobody stored ----


@pytest.mark.parametrize("kind", ["npy", "hdf5", "chunked", "one chunk"])
def test_samples_that_nobody_stored(kind, qcalib, tmp_path):
    width = 0 if kind in ("npy", "hdf5") else 6
    identity(tmp_path / "m.onnx", ["N", width])
    if kind == "npy":
        (tmp_path / "x.npy").write_bytes(npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({TRILLION}, 0), }}"))
        file = "x.npy"
    else:
        file = "x.h5"
        chunks = {"hdf5": None, "chunked": (1, 6), "one chunk": (2**26, 6)}[kind]
        count = 2**26 if kind == "one chunk" else TRILLION
        with h5py.File(tmp_path / file, "w") as f:
            f.create_dataset("x", (count, width), np.float32, chunks=chunks)
    count = 2**26 if kind == "one chunk" else TRILLION
    refused(run(qcalib, file), BAD, file, count, "--samples")
    refused(qcalib("quantize", "m.onnx", "--data", file, code=None, timeout=60), BAD, file, count)
    assert run(qcalib, file, "--samples", 3).code == 0
    with h5py.File(tmp_path / "out.h5") as f:
        assert f["yx"].shape == (3, width)
    if kind == "npy":
        done = qcalib("pack", file, "-o", "p.h5", code=None, timeout=60)
        refused(done, BAD, file, count, "store the values")
        assert "--samples" not in done.err  # which pack does not take


def test_packed_constants_are_samples(qcalib, tmp_path):
    """As many values as deflate makes of a few bytes are no lie."""
    identity(tmp_path / "m.onnx", ["N", 64])
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f.create_dataset("x", data=np.zeros((20000, 64), np.float32), chunks=(20000, 64), compression=9)
    assert run(qcalib, "x.h5", "-q").code == 0


# ---- Archives ----


def flip(path, find):
    data = bytearray(path.read_bytes())
    data[data.index(find)] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("rows", [3, 5000], ids=["small", "large"])
@pytest.mark.parametrize("how", ["value", "sum", "deflated"])
def test_check_sums(how, rows, qcalib, tmp_path, monkeypatch):
    """5000 rows are more than the part of a member that is looked at for its header; the list of members is gone then."""
    monkeypatch.setenv("MALLOC_PERTURB_", "85")
    identity(tmp_path / "m.onnx", ["N", 6])
    x = np.random.default_rng(3).normal(size=(rows, 6)).astype(np.float32)
    save = np.savez_compressed if how == "deflated" else np.savez
    save(tmp_path / "x.npz", x=x)
    np.testing.assert_array_equal(read(qcalib, tmp_path, "x.npz")[0], x)
    with zipfile.ZipFile(tmp_path / "x.npz") as z:
        crc = z.infolist()[0].CRC
    if how == "value":
        flip(tmp_path / "x.npz", x[-1].tobytes())
    else:
        data = (tmp_path / "x.npz").read_bytes()
        at = data.rindex(struct.pack("<I", crc))  # in the list of members
        (tmp_path / "x.npz").write_bytes(data[:at] + struct.pack("<I", crc ^ 1) + data[at + 4 :])
    (tmp_path / "out.h5").unlink()
    refused(run(qcalib, "x.npz"), BAD, "x.npz", "member 'x.npy'", "checksum")


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': Trud, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': true, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': Falsely, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'fortran_order': True, 'shape': (2, 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }",
        "{'descr': 'xf4', 'fortran_order': False, 'shape': (2, 3), }",
    ],
)
def test_headers_that_say_nothing_clear(header, qcalib, tmp_path):
    """numpy refuses them all but the one that says it twice."""
    identity(tmp_path / "m.onnx", ["N", 3])
    (tmp_path / "x.npy").write_bytes(npy(header) + np.arange(6, dtype=np.float32).tobytes())
    refused(run(qcalib, "x.npy"), BAD, "x.npy", "header is damaged")


def test_members_that_share_their_bytes(qcalib, tmp_path):
    """One member in the archive, and a list that has it often."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as z:
        z.writestr("aaaa.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1000, 6), }") + bytes(24000))
    data = (tmp_path / "x.npz").read_bytes()
    at = data.index(b"PK\1\2")
    entry, end = data[at:-22], data[-22:]
    entries = b"".join(entry.replace(b"aaaa", b"%04d" % i) for i in range(3000))
    counts = struct.pack("<HHII", 3000, 3000, len(entries), at)
    (tmp_path / "x.npz").write_bytes(data[:at] + entries + end[:8] + counts + end[20:])
    refused(qcalib("pack", "x.npz", "-o", "p.h5", code=None, timeout=60), BAD, "x.npz", "share")


def test_a_list_too_short_for_its_members(qcalib, tmp_path):
    """The count is refused before the first member is read, which would be for another reason."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as z:
        z.writestr("a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 6), }") + bytes(24))
    data = bytearray((tmp_path / "x.npz").read_bytes())
    data[data.index(b"PK\1\2") + 8] |= 1  # encrypted
    data[-12:-10] = struct.pack("<H", 65535)
    (tmp_path / "x.npz").write_bytes(data)
    refused(qcalib("pack", "x.npz", "-o", "p.h5", code=None, timeout=60), BAD, "x.npz", "a member's entry is missing")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("names,word", [(["x", "x"], "two arrays 'x'"), ([""], "no name")])
def test_names_of_members(names, word, qcalib, tmp_path):
    identity(tmp_path / "m.onnx", ["N", 3])
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as z:
        for n in names:
            z.writestr(f"{n}.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }") + bytes(24))
    refused(run(qcalib, "x.npz"), BAD, "x.npz", word)


# ---- Much work for few bytes ----

SECONDS = 10  # of processor time; what is bounded takes less than one


def quick(program, folder, *arguments):
    """The job under a limit of processor time, far above what it takes and far below what it took."""
    return subprocess.run(
        [program, *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5)),
    )


@pytest.fixture(scope="module")
def many_members(tmp_path_factory):
    """As many as an archive may have, each an array of its own."""
    path = tmp_path_factory.mktemp("members") / "x.npz"
    file = io.BytesIO()
    np.save(file, np.ones((2, 4), np.float32))
    with zipfile.ZipFile(path, "w") as z:
        for name in ("x", *(f"array_{i}" for i in range(65534))):
            z.writestr(f"{name}.npy", file.getvalue())
    return path


@pytest.mark.parametrize("command", ["run", "pack", "inspect"])
def test_many_members(command, many_members, program, tmp_path):
    identity(tmp_path / "m.onnx", ["N", 4])
    (tmp_path / "x.npz").symlink_to(many_members)
    arguments = {"run": ["m.onnx", "--data", "x.npz", "-o", "out.h5"], "pack": ["x.npz", "-o", "p.h5"]}
    done = quick(program, tmp_path, command, *arguments.get(command, ["x.npz"]))
    if command == "pack":
        assert done.returncode == UNSUPPORTED and "4096" in done.stderr, done.stderr
    else:
        assert done.returncode == 0, done.stderr


def holes(path, size, head=b""):
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(size)


@pytest.mark.parametrize("command", ["quantize", "run", "inspect"])
@pytest.mark.parametrize("limit", [[], ["--memory-limit", "500M"]], ids=["", "limit"])
def test_external_data_that_nobody_stored(limit, command, program, tmp_path):
    """1024 x 2^28 weights in a file of holes."""
    weight = TensorProto(name="w", data_type=1, dims=[1 << 10, 1 << 28], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="w.data")
    ports = [helper.make_tensor_value_info(name, 1, ["N", size]) for name, size in (("x", 1 << 10), ("y", 1 << 28))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ports[:1], ports[1:], [weight])
    (tmp_path / "m.onnx").write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8).SerializeToString()
    )
    holes(tmp_path / "w.data", 1 << 40)
    np.save(tmp_path / "x.npy", np.ones((2, 1 << 10), np.float32))
    before = set(tmp_path.iterdir())
    data = [] if command == "inspect" else ["--data", "x.npy", *limit, "-o", "out"]
    done = quick(program, tmp_path, command, "m.onnx", *data)
    assert done.returncode == BAD and set(tmp_path.iterdir()) == before, (done.returncode, done.stderr)
    assert len(done.stderr.splitlines()) == 1
    for word in ("'w'", "w.data", 1 << 40, "stores 0 "):
        assert str(word) in done.stderr, done.stderr


@pytest.mark.parametrize("kind", ["npy", "npz", "hdf5"])
def test_files_of_holes(kind, program, tmp_path):
    identity(tmp_path / "m.onnx", ["N", 256])
    rows = 1 << 30
    if kind == "hdf5":
        file = "x.h5"
        with h5py.File(tmp_path / file, "w") as f:
            properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
            properties.set_layout(h5py.h5d.CONTIGUOUS)
            properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
            properties.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
            h5py.h5d.create(f.id, b"x", h5py.h5t.NATIVE_FLOAT, h5py.h5s.create_simple((rows, 256)), properties)
    else:
        array = npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 256), }}")
        size = len(array) + rows * 1024
        file = f"x.{kind}"
        holes(tmp_path / file, size, array)
        if kind == "npz":
            local = struct.pack("<4sHHHHHIIIHH", b"PK\3\4", 20, 0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, 5, 0) + b"x.npy"
            holes(tmp_path / file, len(local) + size, local + array)
            extra = struct.pack("<HHQQ", 1, 16, size, size)
            entry = struct.pack("<4sHHHHHHIIIHHHHHII", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, 5,
                                len(extra), 0, 0, 0, 0, 0) + b"x.npy" + extra  # fmt: skip
            at = len(local) + size
            end64 = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 20, 20, 0, 0, 1, 1, len(entry), at)
            locator = struct.pack("<4sIQI", b"PK\6\7", 0, at + len(entry), 1)
            end = struct.pack("<4sHHHHIIH", b"PK\5\6", 0, 0, 1, 1, len(entry), 0xFFFFFFFF, 0)
            with open(tmp_path / file, "ab") as f:
                f.write(entry + end64 + locator + end)
    before = set(tmp_path.iterdir())
    for arguments in (["run", "m.onnx", "--data", file, "-o", "out.h5"], ["--data", file, "m.onnx", "-o", "out"]):
        done = quick(program, tmp_path, *arguments)
        assert done.returncode == BAD and set(tmp_path.iterdir()) == before, (done.returncode, done.stderr)
        assert len(done.stderr.splitlines()) == 1 and file in done.stderr and "stores" in done.stderr, done.stderr


def test_long_names_are_whole(qcalib, tmp_path):
    """They differ in their last character alone."""
    identity(tmp_path / "m.onnx", ["N", 6])
    x = np.random.default_rng(3).normal(size=(3, 6)).astype(np.float32)
    np.savez(tmp_path / "x.npz", **{"a" * 2000 + end: x * float(end) for end in "12"})
    names = [d["name"] for d in qcalib("inspect", "x.npz", "--json").json["datasets"]]
    assert names == ["a" * 2000 + end for end in "12"]
    got = read(qcalib, tmp_path, "x.npz", "--input", "x=" + names[1])[0]
    np.testing.assert_array_equal(got, 2 * x)
