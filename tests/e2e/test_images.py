# SPDX-License-Identifier: Apache-2.0
"""Folders of images as data: all common kinds of files give the pixels that Pillow reads; labels come from folders;
broken images are left out with a warning that names them; hostile images do no harm."""

import os
import shutil
import struct
import subprocess
import zlib

import h5py
import numpy as np
import onnx
import pytest
from conftest import SANITIZED
from image_files import cover, crop, open_upright, picture, short_side, write_all
from onnx import TensorProto, helper
from test_bad_input import BAD, USAGE, refused


def identity(path, shape, dtype=TensorProto.UINT8):
    ports = [[helper.make_tensor_value_info(n, dtype, shape)] for n in "xy"]
    onnx.save(
        helper.make_model(
            helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", *ports),
            opset_imports=[helper.make_opsetid("", 13)],
            ir_version=8,
        ),
        path,
    )


def classifier(path, shape, classes=3, seed=5):
    """A convolution, a mean and a product: enough to be quantized and to have classes."""
    rng = np.random.default_rng(seed)
    weights = {"w": rng.normal(0, 0.3, (8, 3, 3, 3)), "b": rng.normal(0, 0.1, 8), "f": rng.normal(0, 1, (8, classes))}
    tensors = [onnx.numpy_helper.from_array(v.astype(np.float32), k) for k, v in weights.items()]
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], strides=[2, 2]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["g"]),
        helper.make_node("Flatten", ["g"], ["v"]),
        helper.make_node("MatMul", ["v", "f"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", classes])],
        tensors,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def read(qcalib, folder, data, *options):
    result = qcalib("run", "m.onnx", "--data", data, "-o", "out.h5", *options)
    with h5py.File(folder / "out.h5") as f:
        return f["y"][:], result


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    write_all(folder)
    return folder


def close(got, wanted):
    assert got.shape == wanted.shape
    assert np.abs(got.astype(int) - wanted.astype(int)).max() <= 1


def test_every_form_is_what_pillow_reads(qcalib, tmp_path, images):
    """Grey, palette, alpha, CMYK, 16 bits, progressive, animated, turned by Exif; fitted to the input, colours first."""
    identity(tmp_path / "m.onnx", ["N", 3, 24, 40])
    got, _ = read(qcalib, tmp_path, images)
    files = sorted(images.iterdir())
    assert len(got) == len(files)
    for path, pixels in zip(files, got):
        close(pixels.transpose(1, 2, 0), cover(open_upright(path), 24, 40))


CASES = [
    (["N", 20, 30, 3], "", lambda p: cover(open_upright(p), 20, 30)),
    (["N", 1, 20, 20], "", lambda p: cover(open_upright(p, "L"), 20, 20)[None]),
    (["N", 28, 28], "", lambda p: cover(open_upright(p, "L"), 28, 28)),
    ([3, 16, 16], "", lambda p: cover(open_upright(p), 16, 16).transpose(2, 0, 1)),
    (["N", 3, 40, 40], "resize=48", lambda p: crop(short_side(open_upright(p), 48), 40, 40).transpose(2, 0, 1)),
    (
        ["N", "c", "h", "w"],
        "resize=48 crop=33x47 color=bgr layout=nchw",
        lambda p: crop(short_side(open_upright(p), 48), 33, 47)[..., ::-1].transpose(2, 0, 1),
    ),
    (["N", "h", "w", "c"], "resize=30x50,layout=nhwc", lambda p: np.asarray(open_upright(p).resize((50, 30), 2))),
    (["N", 3, 16, 16], "resize=none", lambda p: crop(open_upright(p), 16, 16).transpose(2, 0, 1)),
]


@pytest.mark.parametrize("shape,how,wanted", CASES, ids=[c[1] or "x".join(map(str, c[0])) for c in CASES])
def test_size_layout_and_colours(qcalib, tmp_path, images, shape, how, wanted):
    identity(tmp_path / "m.onnx", shape)
    (tmp_path / "some").mkdir()
    for name in ("rgb.png", "turned6.jpg", "alpha.webp"):
        shutil.copy(images / name, tmp_path / "some")
    got, _ = read(qcalib, tmp_path, "some", *(["--image", how] if how else []))
    for path, pixels in zip(sorted((tmp_path / "some").iterdir()), got):
        close(pixels, wanted(path))


@pytest.mark.parametrize(
    "shape,how,says",
    [
        (["N", 3, "h", "w"], "", "crop=224"),
        (["N", 3, 24, 24], "crop=32", "takes 24"),
        (["N", 3, 24, 24], "color=grey", "takes 3 channels"),
        (["N", 3, 24, 24], "resize=20", "smaller than the crop"),
        (["N", 3, 24, 24], "size=20", "'size'"),
        (["N", 3, 24, 24], "crop=0", "crop=0"),
        (["N", 3, 24, 24], "layout=nchw layout=nhwc", "twice"),
    ],
)
def test_wrong_options(qcalib, tmp_path, images, shape, how, says):
    identity(tmp_path / "m.onnx", shape)
    refused(
        qcalib("run", "m.onnx", "--data", images, "-o", "o.h5", *(["--image", how] if how else []), code=None),
        USAGE,
        says,
    )


def test_image_options_for_what_is_no_images(qcalib, examples, tmp_path):
    """They say nothing about arrays: a warning, and the same outputs as without."""
    job = ("run", examples / "digits_cnn.onnx", "--data", examples / "digits_calib.h5", "--samples", 8)
    qcalib(*job, "-o", "plain.h5")
    assert "digits_calib.h5 is not a folder of images" in qcalib(*job, "-o", "o.h5", "--image", "resize=28").err
    with h5py.File(tmp_path / "plain.h5") as a, h5py.File(tmp_path / "o.h5") as b:
        assert (a["logits"][()] == b["logits"][()]).all()


@pytest.fixture
def pets(tmp_path):
    """Three folders of classes, as torchvision's ImageFolder takes them."""
    for k, name in enumerate(("cat", "cow", "dog")):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(4):
            picture(40 + i, 36, 10 * k + i).save(tmp_path / "pets" / name / f"{i}.{'png' if i % 2 else 'jpg'}")
    return tmp_path / "pets"


RECIPE = "scale=1/255 mean=.485,.456,.406 std=.229,.224,.225"


def as_h5(path, folder, skip=()):
    """What qcalib should read the folder as, the way it was done before there were folders."""
    files = [
        p
        for p in sorted(folder.rglob("*"), key=lambda p: p.parts)
        if p.is_file() and "/".join(p.parts[-2:]) not in skip
    ]
    classes = sorted({p.parent.name for p in files})
    with h5py.File(path, "w") as f:
        f["x"] = np.stack([cover(open_upright(p), 32, 32).transpose(2, 0, 1) for p in files])
        f["labels"] = np.array([classes.index(p.parent.name) for p in files])


def test_one_command_from_photographs_to_int8(qcalib, tmp_path, pets):
    """The same bytes as from Pillow's pixels in HDF5, with any number of threads; and the same accuracy."""
    classifier(tmp_path / "m.onnx", ["N", 3, 32, 32])
    as_h5(tmp_path / "pets.h5", pets)
    qcalib("m.onnx", "--data", "pets.h5", "--preprocess", RECIPE, "-o", "want.onnx", "--no-report")
    for threads in (1, 3):
        qcalib(
            "m.onnx", "--data", "pets", "--eval", "pets", "--preprocess", RECIPE, "-o", "got.onnx", "--threads", threads
        )
        assert (tmp_path / "got.onnx").read_bytes() == (tmp_path / "want.onnx").read_bytes()
    top1 = [
        qcalib("eval", "m.onnx", "--data", d, "--preprocess", RECIPE, "--json").json["models"][0]["value"]
        for d in ("pets", "pets.h5")
    ]
    assert top1[0] == top1[1]
    for some in ("5", "7"):
        got = [
            qcalib(
                "run", "m.onnx", "--data", d, "--preprocess", RECIPE, "--samples", some, "-o", f"{d}.out", "--json"
            ).json
            for d in ("pets", "pets.h5")
        ]
        with h5py.File(tmp_path / "pets.out") as a, h5py.File(tmp_path / "pets.h5.out") as b:
            assert got[0]["data"]["samples"] == int(some) and np.array_equal(a["y"][:], b["y"][:])


def test_a_broken_image_is_left_out(qcalib, tmp_path, pets):
    """By name, with how many there are; what is left is as if it had never been there. --strict: an error."""
    classifier(tmp_path / "m.onnx", [2, 3, 32, 32])
    good = (pets / "cow/2.jpg").read_bytes()
    (pets / "cow/2.jpg").write_bytes(good[: len(good) // 2])
    (pets / "dog/9.png").write_bytes(b"nothing")
    (pets / "dog/film.gif").write_bytes(b"GIF89a")
    (pets / "notes.txt").write_text("no image")
    as_h5(tmp_path / "pets.h5", pets, ("cow/2.jpg", "dog/9.png", "dog/film.gif", "pets/notes.txt"))
    wanted, _ = read(qcalib, tmp_path, "pets.h5", "--preprocess", RECIPE)
    for threads in (1, 2):
        got, result = read(qcalib, tmp_path, "pets", "--preprocess", RECIPE, "--threads", threads)
        assert np.array_equal(got, wanted)
        assert (
            "2 of 13 images" in result.err
            and "cow/2.jpg" in result.err
            and "dog/9.png" in result.err
            and "film.gif" in result.err
            and "notes" not in result.err
        )
    top1 = [
        qcalib("eval", "m.onnx", "--data", d, "--preprocess", RECIPE, "--json").json["models"][0]["value"]
        for d in ("pets", "pets.h5")
    ]
    assert top1[0] == top1[1]
    refused(qcalib("run", "m.onnx", "--data", "pets", "--strict", "-o", "o.h5", code=None), BAD, "cow/2.jpg")


def test_shards_leave_out_the_same_images(qcalib, tmp_path, pets):
    """Statistics of two parts, each of which holds a broken image of its own, are those of the whole."""
    classifier(tmp_path / "m.onnx", ["N", 3, 32, 32])
    for name in ("cat/1.png", "dog/2.jpg"):
        (pets / name).write_bytes(b"nothing")
    how = ["--data", "pets", "--preprocess", RECIPE]
    for k in range(2):
        qcalib("collect", "m.onnx", *how, "--shard", f"{k}/2", "-o", f"{k}.h5")
    assert "10 of 10 samples" in qcalib("merge", "0.h5", "1.h5", "-o", "all.h5").out
    qcalib("m.onnx", "--stats", "all.h5", "--method", "minmax", "-o", "a.onnx", "--no-report")
    qcalib("m.onnx", *how, "--method", "minmax", "-o", "b.onnx", "--no-report")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_nothing_but_broken_images(qcalib, tmp_path):
    identity(tmp_path / "m.onnx", ["N", 3, 8, 8])
    (tmp_path / "f").mkdir()
    for i in range(7):
        (tmp_path / f"f/{i}.png").write_bytes(b"nothing")
    result = qcalib("run", "m.onnx", "--data", "f", "-o", "o.h5", code=BAD)
    assert "f: none of its images" in result.err and "0.png: it is not an image" in result.err and not result.new_files


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bomb():
    """A PNG of 60000 x 60000 pixels in a few bytes."""
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(bytes(1000)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.bad_input
def test_hostile_images(qcalib, program, tmp_path, images):
    """Cut short, bytes changed, a bomb: each is left out or read, and none is read or written beyond its end (sanitizers)."""
    # A new reader is forked after each that crashes. The allocator of a sanitizer may be locked then by another thread,
    # and stays locked in the fork without end, as it has no handlers of forks.
    threads = 1 if SANITIZED else 4
    identity(tmp_path / "m.onnx", ["N", 3, 8, 8])
    (tmp_path / "bad").mkdir()
    rng = np.random.default_rng(7)
    shutil.copy(images / "rgb.png", tmp_path / "bad/0.png")
    cut = 0
    for path in sorted(images.iterdir()):
        good = path.read_bytes()
        for k in range(3):
            (tmp_path / f"bad/cut{k}_{path.name}").write_bytes(good[: int(rng.integers(1, len(good) * 2 // 3))])
            cut += 1
        for k in range(4):
            changed = bytearray(good)
            for at in [*rng.integers(0, min(200, len(good)), 2), *rng.integers(0, len(good), 2)]:
                changed[at] = int(rng.integers(256))
            (tmp_path / f"bad/changed{k}_{path.name}").write_bytes(changed)
    (tmp_path / "bad/bomb.png").write_bytes(bomb())
    result = qcalib("run", "m.onnx", "--data", "bad", "-o", "out.h5", "--json", "--threads", threads)
    samples = result.json["data"]["samples"]
    assert (
        f"of {cut + 2 + 4 * len(list(images.iterdir()))} images" in result.err
        and 1 <= samples <= 1 + 4 * len(list(images.iterdir())) + cut // 10
    )
    shutil.rmtree(tmp_path / "bad")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad/bomb.png").write_bytes(bomb())
    assert "60000 x 60000 pixels" in qcalib("run", "m.onnx", "--data", "bad", "-o", "o.h5", code=BAD).err


def test_memory_does_not_depend_on_how_many(program, tmp_path):
    """Four times the images, of which most are decoded again each time: no more memory."""
    classifier(tmp_path / "m.onnx", ["N", 3, 160, 160])
    picture(64, 64, 1).save(tmp_path / "one.png")
    peaks = []
    for count in (250, 1000):
        (tmp_path / f"f{count}").mkdir()
        for i in range(count):
            (tmp_path / f"f{count}/{i}.png").hardlink_to(tmp_path / "one.png")
        arguments = [
            "run",
            "m.onnx",
            "--data",
            f"f{count}",
            "-o",
            "o.h5",
            "--threads",
            "2",
            "--memory-limit",
            "300M",
            "-q",
        ]
        process = subprocess.Popen([program, *arguments], cwd=tmp_path)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0
        peaks.append(used.ru_maxrss >> 10)
    assert peaks[1] <= peaks[0] + 4, peaks
