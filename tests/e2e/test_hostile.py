# SPDX-License-Identifier: Apache-2.0
"""Quantized models with invalid parameters, rules that are wrong or never end, and damaged configurations, statistics
and checkpoints: each is refused with one line that names the node and the tensor, or the file and the position.
scripts/test runs these tests with sanitizers too."""

import shutil
import subprocess

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_bad_input import BAD, UNSUPPORTED, USAGE, refused

pytestmark = pytest.mark.bad_input
f32 = np.float32


def tensor(name, value):
    return value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value), name)


def save(path, nodes, constants, opset=13):
    ports = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size])] for name, size in (("x", 4), ("y", 5))
    ]
    graph = helper.make_graph(nodes, "g", *ports, [tensor(*c) for c in constants.items()])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def constants_with(changed):
    return {
        "the_scale": f32(0.1),
        "the_zero": np.uint8(3),
        "the_weight": np.arange(-10, 10, dtype=np.int8).reshape(4, 5),
        "the_w_scale": np.full(5, 0.02, f32),
        "the_w_zero": np.zeros(5, np.int8),
        "the_bias": np.arange(5, dtype=np.int32),
        "the_b_scale": np.full(5, f32(0.1) * f32(0.02)),
        "the_y_scale": f32(0.2),
        "the_y_zero": np.uint8(9),
    } | changed


def qdq(path, changed, **axis):
    """x -> quantize -> dequantize -> product with a weight per channel -> sum with a bias of int32."""
    save(
        path,
        [
            helper.make_node("QuantizeLinear", ["x", "the_scale", "the_zero"], ["stored"], name="the_quantize"),
            helper.make_node(
                "DequantizeLinear", ["stored", "the_scale", "the_zero"], ["x_real"], name="the_dequantize"
            ),
            helper.make_node(
                "DequantizeLinear",
                ["the_weight", "the_w_scale", "the_w_zero"],
                ["w_real"],
                name="of_the_weight",
                **{"axis": 1} | axis,
            ),
            helper.make_node("DequantizeLinear", ["the_bias", "the_b_scale"], ["b_real"], name="of_the_bias", axis=0),
            helper.make_node("MatMul", ["x_real", "w_real"], ["product"], name="the_product"),
            helper.make_node("Add", ["product", "b_real"], ["y"], name="the_sum"),
        ],
        constants_with(changed),
    )


def qoperator(path, changed):
    save(
        path,
        [
            helper.make_node("QuantizeLinear", ["x", "the_x_scale", "the_zero"], ["stored"], name="the_quantize"),
            helper.make_node(
                "QLinearMatMul",
                [
                    "stored",
                    "the_scale",
                    "the_zero",
                    "the_weight",
                    "the_w_scale",
                    "the_w_zero",
                    "the_y_scale",
                    "the_y_zero",
                ],
                ["product"],
                name="the_product",
            ),
            helper.make_node(
                "DequantizeLinear", ["product", "the_out_scale", "the_y_zero"], ["y"], name="the_dequantize"
            ),
        ],
        {"the_x_scale": f32(0.1), "the_out_scale": f32(0.2)} | constants_with(changed),
    )


def channels(value):
    return np.array([0.1, 0.1, value, 0.1, 0.1], f32)


WRONG = {"0": 0, "negative": -0.1, "nan": np.nan, "infinite": np.inf, "denormal": 1e-40}
OUTSIDE = TensorProto(data_type=TensorProto.UINT8, name="the_zero", int32_data=[300])
PARAMETERS = [
    *[
        (f"scale {what}", qdq, {"the_scale": f32(v)}, ["the_quantize", "the_scale", "element 0"])
        for what, v in WRONG.items()
    ],
    *[
        (f"scale of a channel {what}", qdq, {"the_w_scale": channels(v)}, ["of_the_weight", "the_w_scale", "element 2"])
        for what, v in WRONG.items()
    ],
    *[
        (f"scale of a bias {what}", qdq, {"the_b_scale": channels(v)}, ["of_the_bias", "the_b_scale", "element 2"])
        for what, v in WRONG.items()
        if what in ("negative", "nan", "infinite")
    ],
    *[
        (f"operator, scale {what}", qoperator, {"the_scale": f32(v)}, ["the_product", "the_scale"])
        for what, v in WRONG.items()
    ],
    *[
        (
            f"operator, scale of a channel {what}",
            qoperator,
            {"the_w_scale": channels(v)},
            ["the_product", "the_w_scale", "element 2"],
        )
        for what, v in WRONG.items()
    ],
    *[
        (f"operator, scale of the result {what}", qoperator, {"the_y_scale": f32(v)}, ["the_product", "the_y_scale"])
        for what, v in WRONG.items()
    ],
    ("zero point outside its type", qdq, {"the_zero": OUTSIDE}, ["the_zero", "300", "u8"]),
    ("zero point of another type", qdq, {"the_w_zero": np.zeros(5, np.uint8)}, ["of_the_weight", "u8", "i8"]),
    (
        "operator, zero point of another type",
        qoperator,
        {"the_w_zero": np.zeros(5, np.uint8)},
        ["the_product", "u8", "i8"],
    ),
    (
        "too few scales",
        qdq,
        {"the_w_scale": np.full(3, 0.1, f32), "the_w_zero": np.zeros(3, np.int8)},
        ["of_the_weight", "[3]", "[4,5]"],
    ),
    ("too few zero points", qdq, {"the_w_zero": np.zeros(3, np.int8)}, ["of_the_weight", "[3]", "[5]"]),
    ("no scale", qdq, {"the_scale": np.zeros(0, f32)}, ["the_quantize", "[0]"]),
    (
        "scales of two dimensions",
        qdq,
        {"the_w_scale": np.full((5, 1), 0.1, f32), "the_w_zero": np.zeros((5, 1), np.int8)},
        ["of_the_weight", "[5,1]"],
    ),
    ("scale of integers", qdq, {"the_scale": np.int32(1)}, ["the_quantize", "i32"]),
]


def commands(model):
    return [
        ("inspect", model),
        ("run", model, "--data", "x.h5", "-o", "out.h5"),
        ("convert", model, "--format", "qdq", "-o", "out.onnx"),
        ("convert", model, "--format", "qoperator", "-o", "out.onnx"),
        ("compare", model, model, "--data", "x.h5"),
    ]


@pytest.fixture
def folder(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.random.default_rng(1).normal(size=(3, 4)).astype(f32)
    return tmp_path


@pytest.mark.parametrize("make", [qdq, qoperator], ids=["qdq", "qoperator"])
def test_models_of_these_tests_are_good(make, qcalib, folder):
    """What the others change one thing of; a bias may have scales that vanish, as the product of two small ones."""
    make(folder / "good.onnx", {"the_b_scale": channels(0)} if make is qdq else {})
    for command in commands("good.onnx"):
        qcalib(*command)


@pytest.mark.parametrize("make,changed,words", [p[1:] for p in PARAMETERS], ids=[p[0] for p in PARAMETERS])
def test_parameters_that_are_none(make, changed, words, qcalib, folder):
    make(folder / "bad.onnx", changed)
    for command in commands("bad.onnx"):
        refused(qcalib(*command, code=None), BAD, "bad.onnx", *words)


@pytest.mark.parametrize("axis,words", [(2, ["2"]), (-3, ["-3"]), (2**40, [str(2**40)]), (0, ["axis 0", "[5]"])])
def test_axis_out_of_range(axis, words, qcalib, folder):
    qdq(folder / "bad.onnx", {}, axis=axis)
    for command in commands("bad.onnx"):
        refused(qcalib(*command, code=None), BAD, "bad.onnx", "of_the_weight", *words)


def test_quantized_graph_with_a_cycle(qcalib, folder):
    save(
        folder / "bad.onnx",
        [
            helper.make_node("QuantizeLinear", ["y", "the_scale", "the_zero"], ["stored"], name="the_quantize"),
            helper.make_node("DequantizeLinear", ["stored", "the_scale", "the_zero"], ["y"], name="the_dequantize"),
        ],
        constants_with({}),
    )
    for command in commands("bad.onnx"):
        refused(qcalib(*command, code=None), BAD, "bad.onnx", "cycle", "node 'the_", "stored")


# ---- Rules ----

RULES = {
    "undoes itself": (
        "rule again\n  match Relu(x)\n  give Relu(Relu(x))\n",
        ["my.rules:1", "again", "undoes itself or another rule"],
    ),
    "grows": ("rule grow\n  match Conv(x, w, b)\n  give Neg(Neg(Conv(x, w, b)))\n", ["my.rules:1", "grow"]),
    "undoes another": (
        "rule there\n  match Relu(x)\n  give Max(x, Neg(x))\nrule back\n  match Max(x, Neg(x))\n  give Relu(x)\n",
        ["my.rules:", "undoes itself or another rule"],
    ),
    "op": ("rule a\n  match Foo(x)\n  give x\n", ["my.rules:2:9", "Foo"]),
    "unbound": ("rule a\n  match Relu(x)\n  give Relu(y)\n", ["my.rules:3:", "'y'"]),
    "guard": ("rule a\n  match Relu(x)\n  when nothing(x)\n  give x\n", ["my.rules:3:8", "nothing"]),
    "cut": ("pattern p\n  match Conv(x, \n", ["my.rules:"]),
    "zeros": ("\0\1\2", ["my.rules:1:1"]),
    "allow": ("allow keep Nothing\n", ["my.rules:1:12", "Nothing"]),
    "deep": ("rule a\n  match " + "(" * 5000 + "x", ["my.rules:2:"]),
}


@pytest.fixture
def digits(examples, tmp_path):
    shutil.copy(examples / "digits_cnn.onnx", tmp_path / "good.onnx")
    shutil.copy(examples / "digits_calib.h5", tmp_path / "good.h5")
    return tmp_path


@pytest.mark.parametrize("text,words", RULES.values(), ids=list(RULES))
def test_rules(text, words, qcalib, digits):
    (digits / "my.rules").write_text(text)
    refused(qcalib("--data", "good.h5", "good.onnx", "--rules", "my.rules", code=None, timeout=120), BAD, *words)


# ---- Configurations ----

CONFIGURATIONS = {
    "empty": (b"", BAD, ["c.json", "line 1"]),
    "cut": (b'{"data": ', BAD, ["c.json", "line 1"]),
    "list": (b"[1]", USAGE, ["c.json", "JSON object"]),
    "deep": (b"[" * 100000, BAD, ["c.json", "depth"]),
    "twice": (b'{"data": "good.h5", "data": "x.h5"}', BAD, ["c.json", "duplicate", "data"]),
    "large": (b'{"data": "good.h5", "threads": 1e99}', USAGE, ["c.json", "threads"]),
    "negative": (b'{"data": "good.h5", "samples": -4}', USAGE, ["c.json", "samples", "-4"]),
    "bytes": (b'{"data": "\xff\xfe"}', BAD, ["c.json", "line 1", "0xff"]),
    "itself": (b'{"data": "good.h5", "config": "c.json"}', USAGE, ["c.json", "config"]),
}


@pytest.mark.parametrize("content,code,words", CONFIGURATIONS.values(), ids=list(CONFIGURATIONS))
def test_configurations(content, code, words, qcalib, digits):
    (digits / "c.json").write_bytes(content)
    refused(qcalib("--config", "c.json", "good.onnx", code=None), code, *words)


# ---- Statistics ----


@pytest.fixture(scope="module")
def made(program, examples, tmp_path_factory):
    """Statistics, and the model that is quantized with them."""
    folder = tmp_path_factory.mktemp("statistics")
    shutil.copy(examples / "digits_cnn.onnx", folder / "good.onnx")
    for arguments in (
        ("collect", "--data", examples / "digits_calib.h5", "good.onnx", "--samples", "20", "-o", "s.h5"),
        ("--stats", "s.h5", "good.onnx", "--no-report", "-o", "good.int8.onnx"),
    ):
        subprocess.run([program, *arguments], cwd=folder, check=True, capture_output=True)
    return (folder / "s.h5").read_bytes(), (folder / "good.int8.onnx").read_bytes()


@pytest.fixture
def statistics(made, digits):
    (digits / "s.h5").write_bytes(made[0])
    return made


@pytest.mark.parametrize("part", [0, 0.01, 0.2, 0.5, 0.9, 0.999])
def test_truncated_statistics(part, statistics, qcalib, digits):
    whole, _ = statistics
    (digits / "cut.h5").write_bytes(whole[: int(len(whole) * part)])
    for command in [
        ("--stats", "cut.h5", "good.onnx", "-o", "out.onnx"),
        ("merge", "s.h5", "cut.h5", "-o", "out.h5"),
        ("inspect", "cut.h5"),
        ("collect", "--data", "good.h5", "good.onnx", "--samples", 20, "--checkpoint", "cut.h5", "-o", "out.h5"),
    ]:
        refused(qcalib(*command, code=None), BAD, "cut.h5")
    assert (digits / "cut.h5").read_bytes() == whole[: int(len(whole) * part)]


def test_flipped_bits_of_statistics(statistics, qcalib, digits):
    """Refused, or of no consequence: space in the file that nothing reads. Nothing between."""
    whole, model = statistics
    rng = np.random.default_rng(8)
    met = 0
    (digits / "hdf5.supp").write_text(
        "leak:libhdf5\n"
    )  # HDF5 1.10 loses a buffer of its own where a checksum does not hold
    for flips in [1] * 20 + [3] * 10 + [50] * 5:
        copy = bytearray(whole)
        for place in rng.integers(0, len(copy), flips):
            copy[place] ^= 1 << rng.integers(0, 8)
        (digits / "bad.h5").write_bytes(copy)
        done = qcalib(
            "--stats",
            "bad.h5",
            "good.onnx",
            "--no-report",
            "-o",
            "out.onnx",
            code=None,
            LSAN_OPTIONS=f"suppressions={digits}/hdf5.supp:print_suppressions=0",
        )
        if done.code:
            met += 1
            refused(done, done.code, "bad.h5")
            assert done.code in (BAD, UNSUPPORTED)
        else:
            assert (digits / "out.onnx").read_bytes() == model
            (digits / "out.onnx").unlink()
    assert met >= 10


def test_other_files_as_statistics_and_checkpoints(statistics, qcalib, digits):
    for other in ("good.onnx", "good.h5"):
        before = (digits / other).read_bytes()
        refused(qcalib("--stats", other, "good.onnx", "-o", "out.onnx", code=None), BAD, other)
        refused(
            qcalib("collect", "--data", "good.h5", "good.onnx", "--checkpoint", other, "-o", "out.h5", code=None),
            USAGE,
            other,
        )
        shutil.copy(digits / other, digits / "other")
        refused(
            qcalib("collect", "--data", "good.h5", "good.onnx", "--checkpoint", "other", "-o", "out.h5", code=None),
            BAD,
            "other",
        )
        (digits / "other").unlink()
        assert (digits / other).read_bytes() == before
