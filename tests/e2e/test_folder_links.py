# SPDX-License-Identifier: Apache-2.0
"""Links in folders of images and of .npy files: links to targets inside the folder are read, links to outside only with
--follow-links, and no folder is listed twice. scripts/test runs these tests with sanitizers too."""

import h5py
import numpy as np
import pytest
from image_files import picture
from test_arrays import identity
from test_bad_input import BAD, UNSUPPORTED, refused

pytestmark = pytest.mark.bad_input
FOLLOW = "--follow-links"


def save(path, kind, seed):
    path.parent.mkdir(exist_ok=True, parents=True)
    if kind == "png":
        picture(9, 7, seed).save(path)
    else:
        np.save(path, np.full((6,), seed, np.float32))


@pytest.fixture(params=["png", "npy"])
def kind(request):
    return request.param


@pytest.fixture
def read(kind, qcalib, tmp_path):
    """The folder d by every command that reads data; how many samples it has."""
    identity(tmp_path / "m.onnx", ["N", 3, 4, 4] if kind == "png" else ["N", 6])
    image = ["--image", "crop=4"] if kind == "png" else []

    def read(*options):
        done = [
            qcalib("run", "m.onnx", "--data", "d", "-o", "out.h5", *image, *options, code=None, timeout=60),
            qcalib("pack", "d", "-o", "packed.h5", *image, *options, code=None, timeout=60),
            qcalib("inspect", "d", *options, code=None, timeout=60),
        ]
        if any(d.code for d in done):
            return done
        with h5py.File(tmp_path / "out.h5") as f:
            return len(f["yx"])

    return read


def test_a_link_inside_is_read(kind, read, tmp_path):
    save(tmp_path / "d" / f"a.{kind}", kind, 1)
    (tmp_path / "d" / f"b.{kind}").symlink_to(f"a.{kind}")
    assert read() == 2


def test_the_folder_itself_may_be_a_link(kind, read, tmp_path):
    save(tmp_path / "there" / f"a.{kind}", kind, 1)
    (tmp_path / "d").symlink_to("there")
    assert read() == 1


@pytest.mark.parametrize("what", ["file", "folder", "only folder", "file by a folder"])
def test_a_link_out_of_the_folder(what, kind, read, tmp_path):
    save(tmp_path / "outside" / f"o.{kind}", kind, 1)
    (tmp_path / "d").mkdir()
    if what != "only folder":
        save(tmp_path / "d" / "a" / f"a.{kind}", kind, 2)
    if what == "file":
        (tmp_path / "d" / "a" / f"b.{kind}").symlink_to(f"../../outside/o.{kind}")
    elif what == "file by a folder":
        (tmp_path / "d" / "a" / f"b.{kind}").symlink_to(tmp_path / "outside" / f"o.{kind}")
    else:
        (tmp_path / "d" / "b").symlink_to("../outside")
    for done in read():
        refused(done, BAD, "d/a/b." if "file" in what else "d/b", "outside of the folder", FOLLOW)
    assert read(FOLLOW) == (1 if what == "only folder" else 2)


def test_a_link_out_to_what_is_no_sample_is_not_looked_at(kind, read, tmp_path):
    save(tmp_path / "d" / f"a.{kind}", kind, 1)
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / "d" / "notes.txt").symlink_to("../notes.txt")
    assert read() == 1


def test_a_link_out_of_one_kind_is_not_read_with_the_other(kind, read, tmp_path):
    """The digest of a folder is over both kinds."""
    other = "npy" if kind == "png" else "png"
    save(tmp_path / "d" / f"a.{kind}", kind, 1)
    save(tmp_path / "outside" / f"o.{other}", other, 1)
    (tmp_path / "d" / f"o.{other}").symlink_to(f"../outside/o.{other}")
    for done in read():
        refused(done, BAD, f"d/o.{other}", "outside of the folder", FOLLOW)


@pytest.mark.parametrize("to", [".", "..", "sister"])
@pytest.mark.parametrize("follow", [[], [FOLLOW]], ids=["", "follow"])
def test_no_folder_is_listed_twice(follow, to, kind, read, tmp_path):
    save(tmp_path / "d" / "sister" / f"a.{kind}", kind, 1)
    (tmp_path / "d" / "inner").mkdir()
    (tmp_path / "d" / "inner" / "link").symlink_to("../sister" if to == "sister" else to)
    for done in read(*follow):
        refused(done, BAD, "listed twice", "d/")


def test_folders_that_name_each_other_end_at_once(kind, read, tmp_path):
    """15 folders with 8 links each to the next one: 8^14 ways."""
    (tmp_path / "d").mkdir()
    for i in range(15):
        (tmp_path / "d" / f"f{i}").mkdir()
        for k in range(8 if i < 14 else 0):
            (tmp_path / "d" / f"f{i}" / f"l{k}").symlink_to(f"../f{i + 1}")
    save(tmp_path / "d" / "f14" / f"a.{kind}", kind, 1)
    for done in read():
        refused(done, BAD, "listed twice")


def test_a_link_to_the_root_is_not_searched(qcalib, tmp_path):
    """Without a sample in the folder nothing behind the link decides what it is."""
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "link").symlink_to("/")
    refused(qcalib("inspect", "d", code=None, timeout=60), BAD, "d/link", "outside of the folder")


def test_depth(kind, read, tmp_path):
    folder = tmp_path / "d"
    for i in range(18):
        folder.mkdir()
        folder = folder / "d"
    save(tmp_path / "d" / f"a.{kind}", kind, 1)
    for done in read():
        refused(done, UNSUPPORTED, "more than 16 deep")
