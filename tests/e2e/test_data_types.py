# SPDX-License-Identifier: Apache-2.0
"""Every integer and float type that HDF5 can describe is read as the number that was written and that h5py reads:
precision below the size, bit offsets, padding, sizes of 3 and 5 bytes, both byte orders, filters that pack bits.
scripts/test runs these tests with sanitizers too."""

import h5py
import numpy as np
import onnx
import pytest
from h5py import h5d, h5p, h5s, h5t
from onnx import TensorProto, helper
from test_bad_input import UNSUPPORTED, refused

pytestmark = pytest.mark.bad_input
ROWS, COLUMNS = 5, 6


def negate(path, names, dtype=TensorProto.FLOAT):
    """A model that gives each input back with the other sign."""
    ports = [[helper.make_tensor_value_info(p + n, dtype, ["N", COLUMNS]) for n in names] for p in ("", "-")]
    nodes = [helper.make_node("Neg", [n], ["-" + n]) for n in names]
    onnx.save(
        helper.make_model(
            helper.make_graph(nodes, "g", *ports), opset_imports=[helper.make_opsetid("", 13)], ir_version=8
        ),
        path,
    )


def create(file, name, kind, values, memory, layout, shape=None):
    """A data set of any type, written by HDF5 itself."""
    space, creation = h5s.create_simple(shape or values.shape), h5p.create(h5p.DATASET_CREATE)
    if layout == "compact":
        creation.set_layout(h5d.COMPACT)
    elif layout != "contiguous":
        rows, *filters = layout.split()
        creation.set_chunk((int(rows), COLUMNS))
        for f in filters:
            {
                "gzip": lambda: creation.set_deflate(4),
                "shuffle": creation.set_shuffle,
                "fletcher32": creation.set_fletcher32,
                "nbit": lambda: creation.set_filter(5),
            }[f]()
    h5d.create(file.id, name.encode(), kind, space, creation).write(
        h5s.ALL, h5s.ALL, np.ascontiguousarray(values), memory
    )


LAYOUTS = [
    "contiguous",
    "compact",
    "1",
    "2",
    "1 gzip",
    "1 shuffle gzip",
    "3 shuffle gzip",
    "1 fletcher32",
    "2 shuffle gzip fletcher32",
    "1 nbit",
    "2 nbit gzip",
    "1 nbit shuffle",
]


def random_integer(rng):
    """(type, values, their type in memory)"""
    size, signed, big = int(rng.integers(1, 9)), bool(rng.integers(2)), bool(rng.integers(2))
    kind = {
        (False, False): h5t.STD_U64LE,
        (True, False): h5t.STD_I64LE,
        (False, True): h5t.STD_U64BE,
        (True, True): h5t.STD_I64BE,
    }[signed, big].copy()
    bits = int(rng.choice([8 * size, rng.integers(2, 8 * size + 1)]))
    kind.set_precision(bits)
    kind.set_size(size)
    kind.set_offset(int(rng.choice([0, 8 * size - bits, rng.integers(0, 8 * size - bits + 1)])))
    kind.set_pad(*[int(rng.choice([h5t.PAD_ZERO, h5t.PAD_ONE])) for _ in range(2)])
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    dtype = np.int64 if signed else np.uint64
    values = rng.integers(low, high, (ROWS, COLUMNS), dtype, endpoint=True)
    values.flat[:2] = low, high
    return kind, values, h5t.NATIVE_INT64 if signed else h5t.NATIVE_UINT64


def random_float(rng):
    """As above; numbers that the type holds exactly."""
    size, big = int(rng.integers(2, 9)), bool(rng.integers(2))
    kind = (h5t.IEEE_F64BE if big else h5t.IEEE_F64LE).copy()
    exponent = int(rng.integers(3, min(11, 8 * size - 3) + 1))
    mantissa = int(rng.integers(1, min(52, 8 * size - 1 - exponent) + 1))
    used = 1 + exponent + mantissa
    places = {"mantissa last": (used - 1, mantissa, 0), "mantissa first": (exponent, 0, exponent + 1)}[
        str(rng.choice(["mantissa last", "mantissa first"]))
    ]
    sign, exponent_at, mantissa_at = places
    kind.set_fields(sign, exponent_at, exponent, mantissa_at, mantissa)
    kind.set_precision(used)
    kind.set_size(size)
    kind.set_ebias((1 << exponent - 1) - 1)
    bias = kind.get_ebias()
    scale = rng.integers(max(1 - bias, -120), min(bias, 120) + 1, (ROWS, COLUMNS))
    values = np.ldexp(
        1 + rng.integers(0, 1 << min(mantissa, 23), (ROWS, COLUMNS)) / 2.0 ** min(mantissa, 23), scale
    ) * rng.choice([-1, 1], (ROWS, COLUMNS))
    values.flat[0] = 0
    return kind, values, h5t.NATIVE_DOUBLE


def h5py_reads(dataset):
    """What h5py gives, None where numpy has no such type."""
    try:
        return dataset[()]
    except TypeError:
        return None


def read_back(qcalib, folder, file, names, as_type=np.float32):
    qcalib("run", "neg.onnx", "--data", file, "-o", "out.h5")
    with h5py.File(folder / "out.h5") as out:
        return {n: -out["-" + n][()].astype(as_type) for n in names}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [random_integer, random_float], ids=["integers", "floats"])
def test_numbers_are_those_that_were_written(make, seed, qcalib, tmp_path):
    rng = np.random.default_rng([seed, make is random_float])
    wanted = {}
    with h5py.File(tmp_path / "data.h5", "w") as file:
        while len(wanted) < 60:
            kind, values, memory = make(rng)
            name, layout = f"x{len(wanted)}", str(rng.choice(LAYOUTS))
            try:
                create(file, name, kind, values, memory, layout)
            except ValueError as error:
                assert "unusual datatype" in str(
                    error
                )  # HDF5 2.0 does not make types that leave most of their bytes unused
                continue
            again = np.empty_like(values)
            file[name].id.read(h5s.ALL, h5s.ALL, again, memory)
            if "nbit" in layout and not np.array_equal(again, values):
                del file[name]  # HDF5 2.0 itself does not get some types back out of its NBIT filter
                continue
            np.testing.assert_array_equal(again, values)
            shown = h5py_reads(file[name])
            # Between types of one size HDF5 swaps bytes at most, so that h5py may show padding as part of the number; a wider type has it right.
            plain = kind.get_precision() == 8 * kind.get_size()
            assert shown is None or not plain or np.array_equal(shown.astype(np.float32), values.astype(np.float32))
            wanted[name] = (values, f"{kind.get_size()} bytes, {layout}")
    negate(tmp_path / "neg.onnx", wanted)
    got = read_back(qcalib, tmp_path, "data.h5", wanted)
    for name, (values, what) in wanted.items():
        np.testing.assert_array_equal(got[name], values.astype(np.float32), err_msg=what)


def test_scale_offset_filter(qcalib, tmp_path):
    rng = np.random.default_rng(1)
    wanted = {}
    with h5py.File(tmp_path / "data.h5", "w") as file:
        for dtype in ("u1", "i1", "<u2", ">u2", "<i2", ">i2", "<u4", ">u4", "<i4", ">i4", "<i8", ">i8"):
            values = rng.integers(-40 if "i" in dtype else 3, 100, (ROWS, COLUMNS)).astype(dtype)
            file.create_dataset(
                name := "x" + dtype[-2:] + ("b" if ">" in dtype else ""),
                data=values,
                chunks=(2, COLUMNS),
                scaleoffset=0,
            )
            wanted[name] = values
    negate(tmp_path / "neg.onnx", wanted)
    for name, got in read_back(qcalib, tmp_path, "data.h5", wanted).items():
        np.testing.assert_array_equal(got, wanted[name].astype(np.float32), err_msg=name)


def test_enumerations_and_long_double(qcalib, tmp_path):
    """Numbers of an enumeration pass whether they have a name or not; a long double is rounded to float32 once, not twice."""
    numbers = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) - 7
    once = np.full(
        (ROWS, COLUMNS), np.longdouble(1) + np.ldexp(np.longdouble(1), -24) + np.ldexp(np.longdouble(1), -60)
    )  # above the middle of two float32
    wanted = {}
    with h5py.File(tmp_path / "data.h5", "w") as file:
        for base in ("i1", "<i2", ">i2", ">i4", "<i8"):
            for chunks in (None, (1, COLUMNS), (2, COLUMNS)):
                wanted[name := f"e{len(wanted)}"] = numbers
                file.create_dataset(
                    name, data=numbers, dtype=h5py.enum_dtype({"three": 3, "nine": 9}, basetype=base), chunks=chunks
                )
        wanted["long"], wanted["bool"] = once, numbers % 3 == 0
        file["long"], file["bool"] = once, wanted["bool"]
    negate(tmp_path / "neg.onnx", wanted)
    for name, got in read_back(qcalib, tmp_path, "data.h5", wanted).items():
        np.testing.assert_array_equal(got, wanted[name].astype(np.float32), err_msg=name)


def test_integers_of_a_model_are_exact(qcalib, tmp_path):
    """Inputs of int64, where float32 would round."""
    rng = np.random.default_rng(3)
    wanted = {}
    with h5py.File(tmp_path / "data.h5", "w") as file:
        for size, bits, offset in [(8, 64, 0), (8, 60, 3), (7, 56, 0), (5, 33, 7)]:
            for order in (h5t.STD_I64LE, h5t.STD_I64BE):
                kind = order.copy()
                kind.set_precision(bits)
                kind.set_size(size)
                kind.set_offset(offset)
                values = rng.integers(1 - (1 << bits - 1), 1 << bits - 1, (ROWS, COLUMNS), np.int64)
                wanted[name := f"x{len(wanted)}"] = values
                create(file, name, kind, values, h5t.NATIVE_INT64, "2")
    negate(tmp_path / "neg.onnx", wanted, TensorProto.INT64)
    for name, got in read_back(qcalib, tmp_path, "data.h5", wanted, np.int64).items():
        np.testing.assert_array_equal(got, wanted[name], err_msg=name)


@pytest.mark.parametrize("layout", ["contiguous", "1 nbit gzip"])
def test_labels_target_and_attributes(layout, qcalib, tmp_path):
    """What stands beside the samples is read by the same place: labels and a target of 12 bits, attributes of 12 bits at an offset."""
    rng = np.random.default_rng(2)
    kind = h5t.STD_U32BE.copy()
    kind.set_precision(12)
    kind.set_offset(4)
    x, labels, target = (
        rng.integers(0, 4096, (ROWS, COLUMNS), np.uint16),
        rng.integers(0, COLUMNS, ROWS, np.uint16),
        rng.integers(0, 4096, (ROWS, COLUMNS), np.uint16),
    )
    results = []
    for plain in (False, True):
        with h5py.File(tmp_path / f"{plain}.h5", "w") as file:
            for name, values in (("x", x), ("target", target)):
                create(
                    file,
                    name,
                    h5t.NATIVE_UINT32 if plain else kind,
                    values,
                    h5t.NATIVE_UINT16,
                    "contiguous" if plain else layout,
                )
                for key, value in (("scale", 3), ("mean", 17), ("std", 5)):
                    attribute = h5py.h5a.create(
                        file[name].id, key.encode(), h5t.NATIVE_UINT32 if plain else kind, h5s.create(h5s.SCALAR)
                    )
                    attribute.write(np.array(value, np.uint16), h5t.NATIVE_UINT16)
            create(file, "labels", h5t.NATIVE_UINT32 if plain else kind, labels, h5t.NATIVE_UINT16, "contiguous")
        negate(tmp_path / "neg.onnx", ["x"])
        got = read_back(qcalib, tmp_path, f"{plain}.h5", ["x"])["x"]
        np.testing.assert_array_equal(got, (x.astype(np.float32) * np.float32(3) - np.float32(17)) / np.float32(5))
        eval_ = qcalib("eval", "neg.onnx", "--data", f"{plain}.h5", "--json").json
        results.append({k: v for k, v in eval_["models"][0].items() if "second" not in k and "per" not in k})
    assert results[0] == results[1] and results[0]


ODD = {
    "bitfield": h5t.STD_B16LE,
    "reference": h5t.STD_REF_OBJ,
    "array": h5t.array_create(h5t.STD_I16LE, (2,)),
    "string": h5t.C_S1,
    "opaque": h5t.create(h5t.OPAQUE, 3),
}


@pytest.mark.parametrize("kind", ODD.values(), ids=list(ODD))
def test_what_is_no_number_is_named(kind, request, qcalib, tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        h5d.create(file.id, b"x", kind, h5s.create_simple((ROWS, COLUMNS)))
    negate(tmp_path / "neg.onnx", ["x"])
    refused(
        qcalib("run", "neg.onnx", "--data", "data.h5", "-o", "out.h5", code=None),
        UNSUPPORTED,
        "data.h5",
        "'x'",
        request.node.callspec.id,
    )


def test_integers_beyond_64_bits_are_refused(qcalib, tmp_path):
    kind = h5t.STD_U64LE.copy()
    kind.set_size(16)
    kind.set_precision(100)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        h5d.create(file.id, b"x", kind, h5s.create_simple((ROWS, COLUMNS)))
    negate(tmp_path / "neg.onnx", ["x"])
    refused(
        qcalib("run", "neg.onnx", "--data", "data.h5", "-o", "out.h5", code=None),
        UNSUPPORTED,
        "data.h5",
        "'x'",
        "64 bits",
    )
