# SPDX-License-Identifier: Apache-2.0
"""Table of docs/number-formats.md: the loss of some networks with each number format, rounded to nearest and by qcalib.

  PYTHON number_formats.py DATA_FOLDER PROGRAM [gpt|lstm|agnews|resnet20|mobilenet|dscnn ...]

PYTHON: 3.10 or later, no packages. `qcalib eval` measures the mean negative log-likelihood in nats if each position has
a label, otherwise top-1 in percent."""
import argparse
import json
import pathlib
import subprocess
import tempfile

MODELS = {
    "gpt": ("gpt_kjv_chars", "kjv_calib96", "kjv_eval192"),
    "lstm": ("lstm_kjv_chars", "kjv_calib96", "kjv_eval192"),
    "agnews": ("text_transformer_agnews", "agnews_calib256", "agnews_eval1600"),
    "resnet20": ("resnet20_cifar10", "cifar10_calib", "cifar10_test"),
    "mobilenet": ("mobilenetv1_075_224_imagenet", "imagenet_calib100_224", "imagenet_eval256_224"),
    "dscnn": ("dscnn_kws_mlperf", "kws01_calib128", "kws01_eval872"),
}
ALONE = ("--activation-type", "none")
FORMATS = {
    "W8A8": (),
    "FP8 (E4M3)": ("--weight-type", "float8e4m3fn", "--activation-type", "float8e4m3fn"),
    "MXFP8": ("--weight-type", "mxfp8", *ALONE),
    "MXFP6": ("--weight-type", "mxfp6", *ALONE),
    "MXFP4": ("--weight-type", "mxfp4", *ALONE),
    "NVFP4": ("--weight-type", "nvfp4", *ALONE),
    "BFP16": ("--weight-type", "bfp16", *ALONE),
    "W4A8": ("--weight-type", "int4", "--weight-block", "32"),
    "W4A16": ("--weight-type", "int4", "--weight-block", "32", *ALONE),
}
NEAREST = ("--weight-rounding", "nearest", "--bias-correction", "off", "--scale-channels", "off")


def measure(program, models, data):
    done = subprocess.run(
        [program, "eval", *models, "--data", data, "--json", "-q"], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)["models"]


def number(row, sequence):
    return f"{row['nll']:.4f}" if sequence else f"{100 * row['value']:.2f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    for name in options.models:
        model, calib, data = MODELS[name]
        model = options.folder / "models" / f"{model}.onnx"
        calib, data = options.folder / f"{calib}.h5", options.folder / f"{data}.h5"
        sequence = name in ("gpt", "lstm")
        print(f"{name}: {number(measure(options.program, [model], data)[0], sequence)}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            for title, how in FORMATS.items():
                cells, size = [], 0
                for way in (NEAREST, ()):
                    out = pathlib.Path(folder) / "q.onnx"
                    job = [options.program, "--data", calib, "-q", "--advice", "off", "--no-report", "-o", out]
                    subprocess.run([*job, *how, *way, model], check=True)
                    cells.append(number(measure(options.program, [out], data)[0], sequence))
                    size = out.stat().st_size
                print(f"| {name} | {title} | {cells[0]} | {cells[1]} | {size:,} |", flush=True)


if __name__ == "__main__":
    main()
