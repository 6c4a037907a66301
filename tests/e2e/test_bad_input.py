# SPDX-License-Identifier: Apache-2.0
"""Damaged, hostile or wrong input gives the documented exit code and one message that names the cause and the remedy.
No new file is left and no existing file is changed. scripts/test runs these tests with sanitizers too."""

import os
import shutil
import signal
import subprocess
import time
import zipfile

import h5py
import numpy
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

pytestmark = pytest.mark.bad_input

USAGE, BAD, UNSUPPORTED, MACHINE, INTERRUPTED = 2, 3, 4, 5, 130


def refused(done, code, *words):
    """One line on standard error, with the words in it; nothing on standard output; no new file."""
    lines = done.err.splitlines()
    assert done.code == code, done.err
    assert len(lines) == 1 and lines[0].startswith("qcalib: "), done.err
    for word in words:
        assert str(word) in lines[0], f"{word!r} is not in: {lines[0]}"
    assert done.out == "" and done.new_files == []


@pytest.fixture
def model(examples, tmp_path):
    shutil.copy(examples / "digits_cnn.onnx", tmp_path / "good.onnx")
    shutil.copy(examples / "digits_calib.h5", tmp_path / "good.h5")
    return tmp_path / "good.onnx"


def commands(path, data="good.h5"):
    """Every command that opens a model (and data)."""
    return [("--data", data, path), ("run", path, "--data", data, "-o", "out.h5"), ("eval", path, "--data", data)]


# ---- Models ----

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000a49444154789c6300010000000500010d0a2db4"
)


def make_missing(_path):
    pass


def make_folder(path):
    path.mkdir()


def make_empty(path):
    path.write_bytes(b"")


def make_png(path):
    path.write_bytes(PNG)


def make_text(path):
    path.write_text("This is not a model.\n" * 20)


def make_zip(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", b"x" * 500)


def make_hdf5(path):
    with h5py.File(path, "w") as file:
        file["x"] = numpy.zeros((3, 4), numpy.float32)


def make_json(path):
    path.write_text('{"data": "c.h5"}')


@pytest.mark.parametrize(
    "make",
    [make_missing, make_folder, make_empty, make_png, make_text, make_zip, make_hdf5, make_json],
    ids=lambda f: f.__name__[5:],
)
def test_no_model(make, qcalib, model, tmp_path):
    make(tmp_path / "bad.onnx")
    for command in commands("bad.onnx"):
        refused(qcalib(*command, code=None), BAD, "bad.onnx")
    if make not in (make_hdf5, make_png):  # which inspect reads
        refused(qcalib("inspect", "bad.onnx", code=None), BAD, "bad.onnx")


@pytest.mark.parametrize(
    "make,word", [(make_hdf5, "HDF5"), (make_png, "PNG"), (make_zip, "zip")], ids=["hdf5", "png", "zip"]
)
def test_other_kinds_are_named(make, word, qcalib, model, tmp_path):
    make(tmp_path / "bad.onnx")
    assert word.lower() in qcalib("run", "bad.onnx", "--data", "good.h5", "-o", "out.h5", code=BAD).err.lower()


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.999])
def test_truncated_model(part, qcalib, model, tmp_path):
    whole = model.read_bytes()
    (tmp_path / "cut.onnx").write_bytes(whole[: int(len(whole) * part)])
    for command in [*commands("cut.onnx"), ("inspect", "cut.onnx")]:
        refused(qcalib(*command, code=None), BAD, "cut.onnx")


def test_flipped_bytes(qcalib, model, tmp_path):
    """Whatever a flipped byte does, the program ends in order."""
    whole = bytearray(model.read_bytes())
    rng = numpy.random.default_rng(5)
    for round_ in range(25):
        copy = bytearray(whole)
        for position in rng.integers(0, len(copy), 3):
            copy[position] = rng.integers(0, 256)
        (tmp_path / "flipped.onnx").write_bytes(copy)
        done = qcalib("run", "flipped.onnx", "--data", "good.h5", "-o", f"out{round_}.h5", "--samples", "4", code=None)
        assert done.code in (0, BAD, UNSUPPORTED), done.err
        if done.code:
            refused(done, done.code, "flipped.onnx" if "good.h5" not in done.err else "")


def simple(nodes, inputs=("x",), outputs=("y",), shape=("N", 4), initial=(), opset=13):
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in names] for names in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *ports, list(initial))
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("my.ops", 1)], ir_version=7
    )


def test_all_unsupported_ops_are_named(qcalib, model, tmp_path):
    nodes = [
        helper.make_node("Bogus", ["x"], ["a"], name="first"),
        helper.make_node("NonMaxSuppression", ["a", "a"], ["b"]),
        helper.make_node("Special", ["b"], ["y"], domain="my.ops"),
    ]
    onnx.save(simple(nodes), tmp_path / "ops.onnx")
    for command in commands("ops.onnx"):
        refused(qcalib(*command, code=None), UNSUPPORTED, "ops.onnx", "Bogus", "Special")
    shown = qcalib("inspect", "ops.onnx").out
    assert "Bogus (1 node, 'first')" in shown and "my.ops::Special" in shown


def test_unsupported_opset(qcalib, model, tmp_path):
    onnx.save(simple([helper.make_node("Relu", ["x"], ["y"])], opset=3), tmp_path / "old.onnx")
    refused(qcalib("inspect", "old.onnx", code=None), UNSUPPORTED, "old.onnx", 3)


def test_inconsistent_models(qcalib, model, tmp_path):
    w = numpy_helper.from_array(numpy.zeros((4, 5), numpy.float32), "w")
    short = numpy_helper.from_array(numpy.zeros((4, 4), numpy.float32), "w")
    short.raw_data = short.raw_data[:20]
    huge = TensorProto(data_type=TensorProto.FLOAT, name="w", dims=[2**40, 2**40], raw_data=b"1234")
    away = TensorProto(data_type=TensorProto.FLOAT, name="w", dims=[4, 4], data_location=TensorProto.EXTERNAL)
    away.external_data.add(key="location", value="../../../etc/passwd")
    matmul = helper.make_node("MatMul", ["x", "w"], ["y"], name="the_product")
    cases = {
        "loop": (
            simple(
                [
                    helper.make_node("Add", ["x", "b"], ["a"]),
                    helper.make_node("Relu", ["a"], ["b"]),
                    helper.make_node("Relu", ["b"], ["y"]),
                ]
            ),
            "loop.onnx",
        ),
        "shapes": (
            simple(
                [
                    helper.make_node("MatMul", ["x", "w"], ["a"]),
                    helper.make_node("MatMul", ["a", "w"], ["y"], name="the_product"),
                ],
                initial=[w],
            ),
            "the_product",
        ),
        "nothing": (simple([helper.make_node("Relu", ["nowhere"], ["y"])]), "nowhere"),
        "short": (simple([matmul], initial=[short]), "w"),
        "huge": (simple([matmul], initial=[huge]), "w"),
        "away": (simple([matmul], initial=[away]), "w"),
    }
    for name, (bad, word) in cases.items():
        (tmp_path / f"{name}.onnx").write_bytes(bad.SerializeToString())
        refused(
            qcalib("run", f"{name}.onnx", "--data", "good.h5", "-o", "out.h5", code=None), BAD, f"{name}.onnx", word
        )


def test_name_with_control_characters_stays_on_one_line(qcalib, model, tmp_path):
    (tmp_path / "esc.onnx").write_bytes(simple([helper.make_node("Bo\ngus\x1b[31m", ["x"], ["y"])]).SerializeToString())
    assert "Bo\\x0agus" in qcalib("inspect", "esc.onnx").out
    done = qcalib("run", "esc.onnx", "--data", "good.h5", "-o", "o.h5", code=UNSUPPORTED)
    refused(done, UNSUPPORTED, "esc.onnx")
    assert "\x1b" not in done.err


# ---- Data ----


def digits(tmp_path):
    with h5py.File(tmp_path / "good.h5") as file:
        name = next(n for n in file if n != "labels")
        return name, file[name][()], file["labels"][()]


def write(path, **sets):
    with h5py.File(path, "w") as file:
        for name, values in sets.items():
            file[name] = values


def test_data_sets_that_do_not_fit(qcalib, model, tmp_path):
    name, values, labels = digits(tmp_path)
    cases = {
        "shape": ({name: values[:, :, :7]}, BAD, [name, "8"]),
        "rank": ({name: values.reshape(len(values), -1)}, BAD, [name]),
        "names": ({"first": values, "second": values}, BAD, ["first", "second"]),
        "none": ({"labels": labels}, BAD, []),
        "samples": ({name: values[:0]}, BAD, [name, "no samples"]),
        "text": ({name: numpy.array([b"one", b"two"])}, UNSUPPORTED, [name]),
        "complex": ({name: values.astype(numpy.complex64)}, UNSUPPORTED, [name]),
        "empty": ({}, BAD, []),
    }
    for case, (sets, code, words) in cases.items():
        write(tmp_path / f"{case}.h5", **sets)
        for command in commands("good.onnx", f"{case}.h5"):
            refused(qcalib(*command, code=None), code, f"{case}.h5", *words)


def test_chosen_data_set_is_not_there(qcalib, model, tmp_path):
    name, _, _ = digits(tmp_path)
    refused(qcalib("--data", "good.h5:nothing", "good.onnx", code=None), BAD, "nothing", name)
    refused(qcalib("--data", "good.h5", "--input", f"{name}=nothing", "good.onnx", code=None), BAD, "nothing", name)
    refused(qcalib("--data", "good.h5", "--input", f"nothing={name}", "good.onnx", code=None), USAGE, "nothing")


def test_labels_that_do_not_fit(qcalib, model, tmp_path):
    name, values, labels = digits(tmp_path)
    for case, wrong in {
        "few": labels[:-1],
        "large": labels + 1000,
        "negative": labels - 100,
        "float": labels + 0.5,
    }.items():
        write(tmp_path / f"{case}.h5", **{name: values, "labels": wrong})
        refused(qcalib("eval", "good.onnx", "--data", f"{case}.h5", code=None), BAD, f"{case}.h5", "label")


def test_nan_is_counted_or_refused(qcalib, model, tmp_path):
    name, values, _ = digits(tmp_path)
    values = values.astype(numpy.float32) / 16
    values[17, 0, 3, 3] = numpy.nan
    write(tmp_path / "nan.h5", **{name: values})
    refused(qcalib("--data", "nan.h5", "--nonfinite", "error", "good.onnx", code=None), BAD, "nan.h5", "NaN", "17")
    done = qcalib("--data", "nan.h5", "--preprocess", "none", "good.onnx")
    assert "NaN" in done.err and "17" in done.err and "good.int8.onnx" in done.new_files


@pytest.mark.parametrize(
    "make", [make_missing, make_folder, make_empty, make_png, make_text], ids=lambda f: f.__name__[5:]
)
def test_no_data(make, qcalib, model, tmp_path):
    make(tmp_path / "bad.h5")
    for command in commands("good.onnx", "bad.h5"):
        refused(qcalib(*command, code=None), BAD, "bad.h5")


def test_model_given_as_data(qcalib, model):
    refused(qcalib("--data", "good.onnx", "good.onnx", code=None), BAD, "good.onnx", "HDF5")


@pytest.mark.parametrize("part", [0.01, 0.3, 0.6, 0.99])
def test_truncated_data(part, qcalib, model, tmp_path):
    whole = (tmp_path / "good.h5").read_bytes()
    (tmp_path / "cut.h5").write_bytes(whole[: int(len(whole) * part)])
    for command in [*commands("good.onnx", "cut.h5"), ("inspect", "cut.h5")]:
        refused(qcalib(*command, code=None), BAD, "cut.h5")


def test_damaged_chunks(qcalib, model, tmp_path):
    name, values, _ = digits(tmp_path)
    with h5py.File(tmp_path / "damaged.h5", "w") as file:
        data = file.create_dataset(name, data=values, chunks=(1, *values.shape[1:]), compression=4)
        offset, size = data.id.get_chunk_info(20).byte_offset, data.id.get_chunk_info(20).size
    with open(tmp_path / "damaged.h5", "r+b") as file:
        file.seek(offset)
        file.write(b"\xff" * size)
    for command in commands("good.onnx", "damaged.h5")[:2]:
        refused(qcalib(*command, code=None), BAD, "damaged.h5", name, "20")


def test_preprocessing_that_makes_no_sense(qcalib, model, tmp_path):
    for text in ("std=0", "scale=abc", "mean=1,2,3,4,5", "nothing=1", "scale=1/0"):
        refused(qcalib("--data", "good.h5", "--preprocess", text, "good.onnx", code=None), USAGE, text.split("=")[0])


def test_the_attribute_preprocess(qcalib, model, tmp_path):
    """A text as for the option, or the formula of the other attributes; no other text is ignored."""
    name, values, _ = digits(tmp_path)
    how = "scale=2 mean=.3"

    def data(file, text, scale=None):
        with h5py.File(tmp_path / file, "w") as f:
            one = f.create_dataset(name, data=values)
            one.attrs["preprocess"] = text
            if scale:
                one.attrs["scale"] = scale

    def written(*arguments):
        qcalib("-q", "--no-report", *arguments, "good.onnx", "-o", "p.onnx")
        return (tmp_path / "p.onnx").read_bytes()

    data("option.h5", how)
    assert written("--data", "option.h5") == written("--data", "good.h5", "--preprocess", how)
    for formula in ("y=(x*scale-mean)/std per channel (axis 1)", "y = (x*scale - mean) / std", "(x*scale-mean)/std"):
        data("formula.h5", formula, 2.0)
        assert written("--data", "formula.h5") == written("--data", "good.h5", "--preprocess", "scale=2")
    for text, scale in (("x/255", None), ("y=x*scale", 2.0), (how, 2.0), (3.0, None)):
        data("odd.h5", text, scale)
        refused(qcalib("--data", "odd.h5", "good.onnx", code=None), BAD, "odd.h5", name, "'preprocess'")
        assert written("--data", "odd.h5", "--preprocess", how) == written("--data", "option.h5")


# ---- Command line ----


@pytest.mark.parametrize(
    "arguments,words",
    [
        (["--dta", "x.h5", "good.onnx"], ["--dta", "--data"]),
        (["--data", "good.h5", "good.onnx", "--method", "minimax"], ["minimax", "minmax"]),
        (["--data", "good.h5", "good.onnx", "--method", "kl:bin=3"], ["bin"]),
        (["--data", "good.h5", "good.onnx", "--method", "percentile:p=200"], ["200"]),
        (["--data", "good.h5", "good.onnx", "--weight-method", "nope"], ["nope", "mse"]),
        (["--data", "good.h5", "good.onnx", "--only", "nopattern"], ["nopattern"]),
        (["--data", "good.h5", "good.onnx", "--skip", "nonode"], ["nonode"]),
        (["--data", "good.h5", "good.onnx", "--dump", "nostage"], ["nostage"]),
        (["--data", "good.h5", "good.onnx", "--max-drop", "1"], ["--max-drop", "--eval"]),
        (["--data", "good.h5", "good.onnx", "--format", "tensorflow"], ["tensorflow", "tflite"]),
        (["evall", "good.onnx"], ["evall", "eval"]),
        (["good.onnx"], ["--data"]),
        (["eval", "good.onnx"], ["--data"]),
        (["run", "good.onnx", "--data", "good.h5"], ["-o"]),
        (["run", "--data", "good.h5", "-o", "out.h5"], ["MODEL"]),
        (["list", "observer"], ["observer", "observers"]),
        (["help", "evall"], ["evall", "eval"]),
        (["inspect", "good.onnx", "good.h5"], ["good.h5"]),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) and v[0].startswith("-") or "good" in v[0] else None,
)
def test_wrong_command_line(arguments, words, qcalib, model):
    refused(qcalib(*arguments, code=None), USAGE, *words)


def test_damaged_rules_and_configuration(qcalib, model, tmp_path):
    (tmp_path / "my.rules").write_text("pattern p\n  match Conv(x, \n")
    (tmp_path / "c.json").write_text('{"data": "good.h5", "metod": "kl"}')
    refused(qcalib("--data", "good.h5", "--rules", "my.rules", "good.onnx", code=None), BAD, "my.rules")
    refused(qcalib("--data", "good.h5", "--rules", "none.rules", "good.onnx", code=None), BAD, "none.rules")
    refused(qcalib("--config", "c.json", "good.onnx", code=None), USAGE, "c.json", "metod", "method")


# ---- The machine ----


def test_output_that_cannot_be_written(qcalib, model, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    for target in ("folder", "nowhere/out", "file/out", "folder/"):
        refused(qcalib("run", "good.onnx", "--data", "good.h5", "-o", target, code=None), MACHINE, target)
        refused(qcalib("--data", "good.h5", "good.onnx", "-o", target, code=None), MACHINE, target)
    refused(qcalib("--data", "good.h5", "good.onnx", "--report", "file", code=None), MACHINE, "file")
    assert (tmp_path / "file").read_text() == "x"


def as_nobody(program, tmp_path, *arguments):
    """Runs a copy of the program as another user in a folder that everyone may read."""
    if os.getuid() != 0:
        return subprocess.run([program, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)
    for folder in [tmp_path, *list(tmp_path.parents)[:3]]:  # pytest's, one more where tests run side by side
        if folder.stat().st_mode & 0o055 != 0o055:
            folder.chmod(folder.stat().st_mode | 0o055)
    shutil.copy(program, tmp_path / "qcalib")
    return subprocess.run(
        [tmp_path / "qcalib", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        user=65534,
        group=65534,
        extra_groups=[],
        check=False,
        env={**os.environ, "HOME": "/"},
    )


def test_permissions(program, model, tmp_path):
    (tmp_path / "secret.onnx").write_bytes(model.read_bytes())
    (tmp_path / "secret.onnx").chmod(0)
    (tmp_path / "closed").mkdir()
    (tmp_path / "closed").chmod(0o555)
    model.chmod(0o644)
    (tmp_path / "good.h5").chmod(0o644)
    for arguments, word in [
        (["inspect", "secret.onnx"], "secret.onnx"),
        (["--data", "good.h5", "secret.onnx", "-o", "/tmp/qcalib-never"], "secret.onnx"),
        (["run", "good.onnx", "--data", "good.h5", "-o", "closed/out.h5"], "closed/out.h5"),
        (["--data", "good.h5", "good.onnx", "-o", "closed/out.onnx"], "closed/out.onnx"),
        (["--data", "good.h5", "good.onnx", "-o", "/tmp/qcalib-never", "--report", "closed/r"], "closed/r"),
    ]:
        done = as_nobody(program, tmp_path, *arguments)
        assert done.returncode == MACHINE, done.stderr
        assert len(done.stderr.splitlines()) == 1 and word in done.stderr and "ermission" in done.stderr
    assert list((tmp_path / "closed").iterdir()) == [] and not os.path.exists("/tmp/qcalib-never")


def limited(program, tmp_path, blocks, *arguments):
    """Files may grow to so many blocks of 1024 bytes, then writing fails as on a full disk."""
    before = set(tmp_path.rglob("*"))
    # HDF5 1.10 loses a few names when it cannot write: no leaks of ours are looked for here.
    done = subprocess.run(
        ["bash", "-c", f'trap "" XFSZ; ulimit -f {blocks}; exec "$@"', "bash", program, *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"},
    )
    return done, set(tmp_path.rglob("*")) - before


def test_full_disk(program, model, tmp_path):
    (tmp_path / "good.int8.onnx").write_bytes(b"earlier")
    for arguments in (["--data", "good.h5", "good.onnx"], ["run", "good.onnx", "--data", "good.h5", "-o", "out.h5"]):
        done, new = limited(program, tmp_path, 8, *arguments)
        assert done.returncode == MACHINE, done.stderr
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("qcalib: ") and new == set(), (
            done.stderr,
            new,
        )
    assert (tmp_path / "good.int8.onnx").read_bytes() == b"earlier"


@pytest.mark.parametrize("formats, earlier", [("qdq", True), ("qdq,qoperator", False)], ids=["earlier", "new"])
def test_a_disk_that_is_full_when_the_report_is_written(formats, earlier, program, model, tmp_path):
    """The report is there whole or not at all, and what was written before it is named."""
    report = ["report.html", "report.json", "layers.csv"]
    # The least work before the files are written, which is what the test is about.
    quick = ["--method", "minmax", "--weight-rounding", "nearest", "--samples", "8", "--advice", "off"]
    job = ["--data", "good.h5", "good.onnx", "--format", formats, "--report", "r", *quick]
    models = {tmp_path / f"good.{'int8' if f == 'qdq' else 'qoperator'}.onnx" for f in formats.split(",")}
    files = {tmp_path / "r" / name for name in report}
    if earlier:
        (tmp_path / "r").mkdir()
        for path in files:
            path.write_bytes(b"earlier")
    seen = set()
    for blocks in (1, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024):
        done, new = limited(program, tmp_path, blocks, *job)
        assert (done.returncode, len(done.stderr.splitlines())) in ((0, 0), (MACHINE, 1)), done.stderr
        written = new & models
        seen.add((done.returncode, len(written)))
        if done.returncode == 0:
            assert written == models and new - models == (set() if earlier else files | {tmp_path / "r"})
            break
        assert new == written, (done.stderr, new)
        assert ("is written" in done.stderr) == (len(written) == 1), done.stderr
        assert ("are written" in done.stderr) == (len(written) > 1), done.stderr
        for path in written:
            assert path.name in done.stderr, done.stderr
            path.unlink()
        assert not earlier or {path.read_bytes() for path in files} == {b"earlier"}
    assert {(MACHINE, 0), (MACHINE, len(models)), (0, len(models))} <= seen, seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["int", "term", "hup"])
@pytest.mark.parametrize("command", [["run"], ["quantize", "--method", "kl"]], ids=["run", "quantize"])
def test_interrupted(command, number, program, model, tmp_path):
    name, values, _ = digits(tmp_path)
    write(tmp_path / "long.h5", **{name: numpy.tile(values, (400, 1, 1, 1))})
    (tmp_path / "out").write_bytes(b"earlier")
    before = set(tmp_path.rglob("*"))
    run = subprocess.Popen(
        [program, *command, "good.onnx", "--data", "long.h5", "-o", "out", "--progress", "always"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert run.stderr.read(1)  # the bar: it is running
    run.send_signal(number)
    started = time.monotonic()
    _, err = run.communicate(timeout=20)
    assert run.returncode == INTERRUPTED and "qcalib: interrupted" in err
    assert time.monotonic() - started < 10
    assert set(tmp_path.rglob("*")) == before and (tmp_path / "out").read_bytes() == b"earlier"
