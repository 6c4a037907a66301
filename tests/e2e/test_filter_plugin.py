# SPDX-License-Identifier: Apache-2.0
"""Filters of HDF5 in shared libraries: the sandboxed process that reads the file may load them, from the folders in
HDF5_PLUGIN_PATH only."""

import os
import subprocess
import sys

import pytest

# H5Z_class2_t and the two functions of a plugin, as H5Zpublic.h and H5PLextern.h declare them. The filter inverts bytes.
PLUGIN = """
#include <stddef.h>
static size_t invert(unsigned flags, size_t n, const unsigned *values, size_t bytes, size_t *size, void **buffer)
{
    (void)flags, (void)n, (void)values, (void)size;
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)*buffer)[i] ^= 0xff;
    return bytes;
}
static const struct {
    int version, id;
    unsigned encoder, decoder;
    const char *name;
    void *can, *set;
    size_t (*filter)(unsigned, size_t, const unsigned *, size_t, size_t *, void **);
} about = {1, 32123, 1, 1, "invert", NULL, NULL, invert};
int H5PLget_plugin_type(void) { return 0; }
const void *H5PLget_plugin_info(void) { return &about; }
"""
WRITE = """
import h5py, numpy as np
with h5py.File("digits.h5") as source, h5py.File("inverted.h5", "w") as f:
    x = source["input"]
    f.create_dataset("input", data=x[()], chunks=(1, *x.shape[1:]), compression=32123).attrs.update(x.attrs)
"""


@pytest.fixture
def folder(examples, tmp_path):
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugin.c").write_text(PLUGIN)
    subprocess.run(["cc", "-shared", "-fPIC", "plugin.c", "-o", "plugins/libinvert.so"], cwd=tmp_path, check=True)
    (tmp_path / "digits.h5").symlink_to(examples / "digits_calib.h5")
    environment = {**os.environ, "HDF5_PLUGIN_PATH": str(tmp_path / "plugins")}
    subprocess.run([sys.executable, "-c", WRITE], cwd=tmp_path, env=environment, check=True)
    return tmp_path


def test_a_filter_of_a_plugin_is_loaded(examples, folder, qcalib, monkeypatch):
    run = ["run", examples / "digits_cnn.onnx", "--samples", 20, "-o", "out.h5"]
    qcalib(*run, "--data", "digits.h5")
    wanted = (folder / "out.h5").read_bytes()
    without = qcalib(*run, "--data", "inverted.h5", code=None)
    assert without.code == 4 and "HDF5_PLUGIN_PATH" in without.err, without.err
    monkeypatch.setenv("HDF5_PLUGIN_PATH", "plugins")
    qcalib(*run, "--data", "inverted.h5")
    assert (folder / "out.h5").read_bytes() == wanted
