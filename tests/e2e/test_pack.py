# SPDX-License-Identifier: Apache-2.0
"""`qcalib pack`: a folder and the packed file are the same data."""

import h5py
import numpy as np
import pytest
from image_files import cover, open_upright, picture
from test_bad_input import BAD, USAGE, refused
from test_images import classifier, pets  # noqa: F401 (a fixture)


def test_the_folder_and_the_file(qcalib, tmp_path, pets):  # noqa: F811
    """The same model bytes and the same accuracy; broken images are left out of both; the file's bytes do not depend on threads."""
    classifier(tmp_path / "m.onnx", ["N", 3, 32, 32])
    (pets / "cow/1.png").write_bytes(b"nothing")
    result = qcalib("pack", "pets", "-o", "p.h5", "--model", "m.onnx", "--preprocess", "imagenet")
    assert "1 of 12 images" in result.err and "cow/1.png" in result.err
    qcalib("pack", "pets", "-o", "p1.h5", "--model", "m.onnx", "--preprocess", "imagenet", "--threads", 1, "-q")
    assert (tmp_path / "p.h5").read_bytes() == (tmp_path / "p1.h5").read_bytes()
    files = [f for f in sorted(pets.rglob("*/*")) if f.name != "1.png" or f.parent.name != "cow"]
    with h5py.File(tmp_path / "p.h5") as f:
        assert f["x"].dtype == np.uint8 and list(f["labels"]) == [0] * 4 + [1] * 3 + [2] * 4
        assert (
            np.abs(
                f["x"][:].astype(int) - np.stack([cover(open_upright(p), 32, 32).transpose(2, 0, 1) for p in files])
            ).max()
            <= 1
        )
        assert (
            np.allclose(f["x"].attrs["std"], [0.229, 0.224, 0.225])
            and np.allclose(f["x"].attrs["scale"], 1 / 255)
            and not f["labels"].attrs.keys() - {"name"}
        )
    qcalib("m.onnx", "--data", "pets", "--eval", "pets", "--preprocess", "imagenet", "-o", "a.onnx", "--no-report")
    qcalib("m.onnx", "--data", "p.h5", "--eval", "p.h5", "-o", "b.onnx", "--no-report")
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    top1 = [
        qcalib("eval", "m.onnx", "--data", *d, "--json").json["models"][0]["value"]
        for d in (["p.h5"], ["pets", "--preprocess", "imagenet"])
    ]
    assert top1[0] == top1[1]
    refused(qcalib("pack", "pets", "-o", "s.h5", "--model", "m.onnx", "--strict", code=None), BAD, "cow/1.png")


def test_channels_last(qcalib, tmp_path, pets):  # noqa: F811
    """Colours on the last axis: the three values of mean and std are theirs, in the folder and in the file."""
    from test_images import identity

    identity(tmp_path / "m.onnx", ["N", 16, 16, 3], 1)
    qcalib("pack", "pets", "-o", "p.h5", "--model", "m.onnx", "--preprocess", "caffe")
    outputs = []
    for name, options in (("pets", ["--preprocess", "caffe"]), ("p.h5", [])):
        qcalib("run", "m.onnx", "--data", name, *options, "-o", "o.h5")
        with h5py.File(tmp_path / "o.h5") as f:
            outputs.append(f["y"][:])
    wanted = np.stack([cover(open_upright(p), 16, 16)[..., ::-1] for p in sorted(pets.rglob("*/*"))]) - np.float32(
        [103.939, 116.779, 123.68]
    )
    assert np.array_equal(*outputs) and np.abs(outputs[0] - wanted).max() <= 1.001


def test_labels_of_a_table(qcalib, tmp_path):
    (tmp_path / "f").mkdir()
    for i in range(3):
        picture(20, 20, i).save(tmp_path / f"f/{i}.png")
    (tmp_path / "l.csv").write_text(
        '\ufefffile,label\r\n"2.png",7\r\n0.png,1\r\nother.png,3\r\n./1.png, 0\r\n', encoding="utf-8"
    )
    shown = qcalib("pack", "f", "-o", "p.h5", "--image", "crop=16 color=grey", "--labels", "l.csv").out
    assert "labels int64 [3]" in shown and "input uint8 [3,1,16,16]" in shown
    with h5py.File(tmp_path / "p.h5") as f:
        assert list(f["labels"]) == [1, 0, 7] and not f["input"].attrs.keys() - {"name"}
    for text, says in (
        ("0.png,1\n1.png,2\n", "2.png"),
        ("0.png,cat\n0.png,dog\n", "line 2"),
        ("0.png,1\n0.png,2\n", "two labels"),
        ("0.png,1\nx\n", "line 2"),
    ):
        (tmp_path / "l.csv").write_text(text)
        refused(
            qcalib("pack", "f", "-o", "q.h5", "--image", "crop=16", "--labels", "l.csv", code=None), BAD, "l.csv", says
        )


def test_arrays(qcalib, tmp_path):
    """Array by array, with their types; files behind each other; what cannot be packed is said."""
    rng = np.random.default_rng(1)
    a, b = (
        {
            "ids": rng.integers(0, 9, (n, 5)),
            "mask": rng.random((n, 2, 3)) > 0.5,
            "labels": rng.integers(0, 2, n).astype(np.int32),
        }
        for n in (4, 3)
    )
    np.savez(tmp_path / "a.npz", **a, words=np.array(["x"] * 4))
    np.savez_compressed(tmp_path / "b.npz", **b)
    result = qcalib("pack", "a.npz", "b.npz", "-o", "p.h5")
    assert "'words'" in result.err
    with h5py.File(tmp_path / "p.h5") as f:
        assert sorted(f) == sorted(a)
        for k in a:
            assert f[k].dtype == a[k].dtype and np.array_equal(f[k][:], np.concatenate([a[k], b[k]]))
    for name in ("target", "x"):
        np.save(tmp_path / f"{name}.npy", np.full((4, 2), 1, ">f4"))
    qcalib("pack", "x.npy", "target.npy", "-o", "p.h5", "--preprocess", "scale=2")
    with h5py.File(tmp_path / "p.h5") as f:
        assert "scale" in f["x"].attrs and "scale" not in f["target"].attrs
    np.save(tmp_path / "short.npy", np.zeros((3, 2), np.float32))
    refused(qcalib("pack", "x.npy", "short.npy", "-o", "q.h5", code=None), BAD, "'x'", "'short'", "4 and 3")
    refused(qcalib("pack", "p.h5", "-o", "q.h5", code=None), USAGE, "HDF5 file already")
    refused(qcalib("pack", "x.npy", "-o", "x.npy", code=None), USAGE, "x.npy")
    refused(qcalib("pack", "x.npy", "-o", "q.h5", "--labels", "l.csv", code=None), USAGE, "--labels is for images")
    refused(qcalib("pack", "x.npy", code=None), USAGE, "-o FILE")


@pytest.mark.parametrize(
    "name,scale,mean,std",
    [
        ("imagenet", 1 / 255, [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ("tensorflow", 1 / 127.5, [1], [1]),
        ("yolo", 1 / 255, [0], [1]),
    ],
)
def test_recipes(qcalib, tmp_path, name, scale, mean, std):
    from test_images import identity

    identity(tmp_path / "m.onnx", ["N", 3, 8, 8], 1)
    values = np.random.default_rng(2).integers(0, 256, (2, 3, 8, 8), np.uint8)
    np.save(tmp_path / "x.npy", values)
    qcalib("run", "m.onnx", "--data", "x.npy", "--preprocess", name, "-o", "o.h5")
    shape = (1, -1, 1, 1)
    with h5py.File(tmp_path / "o.h5") as f:
        assert np.allclose(f["y"][:], (values * scale - np.reshape(mean, shape)) / np.reshape(std, shape), atol=1e-5)
