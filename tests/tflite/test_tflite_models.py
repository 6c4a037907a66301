# SPDX-License-Identifier: Apache-2.0
"""Every layer of the real int8 models, recomputed from the reference interpreter's own input of that layer: bit for bit."""

import os
import pathlib

import numpy as np
import pytest

from tflite_layers import Layers, Space, Window
from tflite_model import DENSE_CONTRACT, Model, Reference, activation_levels, padding

MODELS = ["ad01_int8", "kws_ref_model", "person_detect", "pretrainedResnet_quant", "vww_96_int8"]


@pytest.fixture(scope="module")
def layers():
    return Layers("tflite")


@pytest.fixture(scope="module")
def dense():
    return Layers(DENSE_CONTRACT)


def model_file(name):
    folder = os.environ.get("QCALIB_DATA")
    path = pathlib.Path(folder or ".") / "tflite" / f"{name}.tflite"
    if not folder or not path.exists():
        pytest.skip("QCALIB_DATA does not name the folder with real models")
    return path


def space(t, lo=-128, hi=127):
    return Space(t.s, t.z, lo, hi)


def windows(x, op, out, fill):
    """[positions, window elements] of a pool, its own numbers first, and how many there are."""
    o = op.options
    top, left = padding(op, x, o.FilterHeight(), o.FilterWidth(), out)
    rows, counts = [], []
    for r in range(out.shape[1]):
        for c in range(out.shape[2]):
            r0, c0 = r * o.StrideH() - top, c * o.StrideW() - left
            part = x[0, max(r0, 0) : r0 + o.FilterHeight(), max(c0, 0) : c0 + o.FilterWidth()]
            for k in range(x.shape[3]):
                own = part[:, :, k].astype(np.int32).ravel()
                rows.append(
                    np.concatenate([own, np.full(o.FilterHeight() * o.FilterWidth() - own.size, fill, np.int32)])
                )
                counts.append(own.size)
    return np.array(rows), np.array(counts)


def recompute(layers, dense, op, value):
    """The result of one op as our contract computes it, from the values of its inputs."""
    out, x = op.outputs[0], op.inputs[0]
    xv = value(x)
    if op.kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        w, bias, o = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None, op.options
        top, left = padding(op, x, w.shape[1], w.shape[2], out)
        window = Window(
            *x.shape[1:],
            *out.shape[1:],
            w.shape[1],
            w.shape[2],
            o.StrideH(),
            o.StrideW(),
            o.DilationHFactor(),
            o.DilationWFactor(),
            top,
            left,
        )
        assert not np.any(w.zero_point)
        return layers.conv(
            xv,
            w.data,
            None if bias is None else bias.data,
            window,
            op.kind,
            space(x),
            space(out, *activation_levels(op, out)),
            w.scale,
        )
    if op.kind == "FULLY_CONNECTED":
        w, bias = op.inputs[1], op.inputs[2] if len(op.inputs) > 2 else None
        window = Window(1, 1, w.shape[1], 1, 1, w.shape[0], 1, 1, 1, 1, 1, 1, 0, 0)
        assert not np.any(w.zero_point) and xv.size == w.shape[1]
        return dense.conv(
            xv,
            w.data,
            None if bias is None else bias.data,
            window,
            op.kind,
            space(x),
            space(out, *activation_levels(op, out)),
            w.scale,
        )
    if op.kind == "ADD":
        b = op.inputs[1]
        return layers.merge("ADD", xv, value(b), space(x), space(b), space(out, *activation_levels(op, out)))
    if op.kind == "AVERAGE_POOL_2D":
        assert x.s == out.s and x.z == out.z
        rows, counts = windows(xv, op, out, 0)
        return layers.average(rows, counts, space(out, *activation_levels(op, out)))
    if op.kind == "MAX_POOL_2D":
        rows, _ = windows(xv, op, out, -128)
        return rows.max(axis=1)
    if op.kind == "SOFTMAX":
        assert (out.s, out.z) == (np.float32(1 / 256), -128)
        return layers.softmax(xv, x.s, op.options.Beta(), -128)
    assert op.kind == "RESHAPE", f"{op.kind} has no recipe here"
    return xv


@pytest.mark.parametrize("name", MODELS)
def test_every_layer_is_that_of_the_reference_kernels(name, layers, dense):
    model = Model(model_file(name).read_bytes())
    reference = Reference(model)
    rng = np.random.default_rng(4)
    checked = {}
    for _ in range(3):
        reference.run(*(rng.integers(-128, 128, model.tensors[i].shape).astype(np.int8) for i in model.inputs))
        for k, op in enumerate(model.ops):
            want = reference.tensor(op.outputs[0])
            got = np.asarray(recompute(layers, dense, op, reference.tensor)).reshape(want.shape)
            wrong = np.flatnonzero(got != want)
            assert (
                wrong.size == 0
            ), f"op {k}, {op.kind}: {wrong.size} of {want.size} differ, the first {got.flat[wrong[0]]} instead of {want.flat[wrong[0]]}"
            checked[op.kind] = checked.get(op.kind, 0) + want.size
    assert sum(checked.values()) > 1000
    print(name, checked)
