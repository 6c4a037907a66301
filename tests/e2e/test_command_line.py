# SPDX-License-Identifier: Apache-2.0
"""The command line: messages about mistakes suggest the correct form, the summary describes the job, and output files
are named after the model."""

import json
import re
import shutil

import h5py
import pytest

USAGE = 2


@pytest.fixture
def job(qcalib, examples, tmp_path):
    """job(OPTION, ...): quantizes the example with a copy of the model as m.onnx."""
    shutil.copy(examples / "digits_cnn.onnx", tmp_path / "m.onnx")

    def run(*options, data=examples / "digits_calib.h5", **how):
        return qcalib("m.onnx", "--data", data, "--method", "mse", *options, **how)

    return run


@pytest.mark.parametrize(
    "words, meant",
    [
        (["list", "methods"], "did you mean 'observers'?"),
        (["list", "backends"], "did you mean 'targets'?"),
        (["m.onnx", "--bits", "4"], "--weight-type int4"),
        (["m.onnx", "--weight-type", "int9"], "did you mean 'int8' or 'int10'?"),
        (["m.onnx", "--data", "a", "--data", "b"], "--data is given twice: a and b"),
    ],
)
def test_mistakes_lead_to_what_was_meant(qcalib, words, meant):
    assert meant in qcalib(*words, code=USAGE).err


@pytest.mark.parametrize("suffix", ["npz", "npy"])
def test_no_hdf5_file_or_model_gets_a_name_of_numpy(qcalib, examples, suffix):
    """numpy.load says of such a file that it has pickled data."""
    model, data = examples / "digits_cnn.onnx", examples / "digits_calib.h5"
    for words in (["run", model, "--data", data], ["collect", model, "--data", data], ["pack", data], ["--data", data, model]):
        done = qcalib(*words, "-o", f"out.{suffix}", code=USAGE)
        assert f"out.{suffix}: qcalib writes no NumPy files" in done.err and done.new_files == []


def test_names_of_observers_of_other_programs(job):
    assert "did you mean 'kl'?" in job("--method", "entropy", code=USAGE).err


def test_version(qcalib):
    assert qcalib("version").out == qcalib("-V").out == qcalib("--version").out != ""


def test_threads_are_capped(job):
    capped = job("--threads", 100000, "--no-report")
    assert re.search(r"warning: --threads 100000: \d+ are used", capped.err)
    assert job("--threads", 100000, "--no-report", "-q").err == ""
    assert "warning" not in job("--threads", 3, "--no-report").err


def test_one_sample_is_too_few(job):
    one = job("--samples", 1, "--no-report")
    assert "too few samples" in one.err and "over 16 samples that did not calibrate\n" in one.out
    assert "too few samples" not in job("--samples", 2, "--no-report").err


def test_eval_on_calibration_data(job, examples, tmp_path):
    (tmp_path / "link.h5").symlink_to(examples / "digits_test.h5")
    same = "--eval reads the samples of --data"
    assert same in job("--eval", "link.h5", "--no-report", data=examples / "digits_test.h5").err
    assert same not in job("--eval", "link.h5", "--no-report").err
    with h5py.File(examples / "digits_test.h5") as f, h5py.File(tmp_path / "two.h5", "w") as to:
        for name in ("first", "second"):
            to[name] = f["input"][:32]
            to[name].attrs.update(f["input"].attrs)
        to["labels"] = f["labels"][:32]
    assert same not in job("--eval", "two.h5:second", "--no-report", data="two.h5:first").err
    assert same in job("--eval", "two.h5:first", "--no-report", data="two.h5:first").err


@pytest.mark.parametrize(
    "options, files",
    [
        ((), {"m.int8.onnx", "m.int8.report"}),
        (("--weight-type", "uint4"), {"m.int4.onnx", "m.int4.report"}),
        (("--weight-type", "int16:res1*"), {"m.int8.onnx", "m.int8.report"}),
        (("--weight-type", "int3", "--format", "qdq,text"), {"m.int3.onnx", "m.int3.txt", "m.int3.report"}),
    ],
)
def test_the_output_is_named_after_its_weights(job, options, files):
    made = job(*options).new_files
    assert {f.split("/")[0] for f in made} == files


def test_share_of_multiply_adds(job, tmp_path):
    """Also of 16 bits, which int8_share leaves out."""
    assert "quantized   100.0 % of multiply-adds in integers; 11 ops, 0 stay in float" in job("--no-report").out
    wide = job("--activation-type", "uint16", "--json").json
    assert wide["integer_share"] == 1 and wide["int8_share"] == 0
    assert "100.0 % of multiply-adds are in integers" in (tmp_path / "m.int8.report/report.html").read_text()
    part = job("--skip", "res1_conv_node", "--prefer", "integers", "--json", "--no-report").json
    assert 0 < part["integer_share"] == part["int8_share"] < 1


def test_no_word_of_a_report_that_is_not_written(job, qcalib):
    coarse = ("--weight-type", "int3", "--advice", "on")
    assert "the report" not in job(*coarse, "--no-report").out
    assert "the report" in job(*coarse).out
    weights = ("quantize", "m.onnx", "--activation-type", "none")
    assert "report" not in qcalib(*weights, "--no-report").out
    assert "the report measures" in qcalib(*weights).out


def test_a_configuration_loads_no_code(job, tmp_path):
    for key in ("plugin", "kernel"):
        (tmp_path / "c.json").write_text(json.dumps({key: ["./x.so"]}))
        assert f'c.json: "{key}" loads code' in job("--config", "c.json", code=USAGE).err
    (tmp_path / "c.json").write_text(json.dumps({"plugin": [], "kernel": []}))
    job("--config", "c.json", "--no-report")


def test_the_manual_knows_images_and_arrays(qcalib):
    page = qcalib("help", "--man").out
    assert ".SH IMAGES" in page and "--image" in page.replace("\\-", "-") and ".npz" in page and ".SH ARRAYS" in page


@pytest.mark.parametrize("advice", ["on", "off"])
def test_one_ranking_of_layers(job, examples, tmp_path, advice):
    """The summary, the places where error enters and the first advice name the worst layers."""
    done = job("--weight-type", "int4", "--advice", advice)
    report = json.loads((tmp_path / "m.int4.report/report.json").read_text())
    ranking = report["ranking"]
    names = [e["node"] for e in ranking]
    assert len(set(names)) == len(names)
    worst = re.findall(r"^(?:worst  |       ) +([\d.]+) dB  (\S+)  (\S+)$", done.out, re.MULTILINE)
    assert [w[2] for w in worst] == names[:3] == [s["name"] for s in report["suggestions"]]
    assert [float(w[0]) for w in worst] == pytest.approx([e["output_sqnr_db"] for e in ranking[:3]], abs=0.006)
    for measured in (True, False):  # those that were run come first, each part in its order
        part = [e["output_sqnr_db"] for e in ranking if e["measured"] == measured and e["output_sqnr_db"] is not None]
        assert part == sorted(part)
    assert [e["measured"] for e in ranking] == sorted((e["measured"] for e in ranking), reverse=True)
    if advice == "on":
        advice = done.out.split("advice  ")[1].split("\n")[0]
        assert ranking[0]["measured"] and any(name in advice for name in names[:3])
        sensitive = job("--weight-type", "int4", "--sensitivity", "--json", "--no-report").json
        assert [e["node"] for e in sensitive["ranking"]] == [e["node"] for e in sensitive["sensitivity"]]


def test_the_best_idea_is_always_tried(qcalib, data):
    """Also where a tenth of the work has no room for it; the others are listed in one line."""
    job = ["--method", "auto", "--samples", 48, "--data", data / "imagenet_calib100_224.h5", "--no-report"]
    done = qcalib(data / "models/mobilenetv1_075_224_imagenet.onnx", *job, "--advice", "auto")
    assert len(re.findall("not tried", done.out)) == 1
    assert re.search(r"^not tried +\d+ ideas?, to save time \(--advice on tries all\): \w.*: \S+", done.out, re.MULTILINE)
