# SPDX-License-Identifier: Apache-2.0
"""Tables of docs/accuracy-language.md: losses of language models and of a text classifier with low-bit weights in ONNX Runtime,
compared with its own quantizers.

  PYTHON few_bits.py DATA_FOLDER PROGRAM [gpt|lstm|agnews ...]

PYTHON: an environment with onnx, onnxruntime 1.31, numpy and h5py; with torch HQQ is measured too. The negative
log-likelihood is a mean over all positions of all evaluation samples; +- is the standard error of the loss, from the
differences of samples. KL is the mean Kullback-Leibler divergence from the float outputs; it needs no labels and is
less noisy."""
import argparse
import pathlib
import subprocess
import tempfile

import h5py
import numpy as np
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic, quant_pre_process

MODELS = {
    "gpt": ("gpt_kjv_chars", "kjv_calib96", "kjv_eval192", "tokens"),
    "lstm": ("lstm_kjv_chars", "kjv_calib96", "kjv_eval192", "tokens"),
    "agnews": ("text_transformer_agnews", "agnews_calib256", "agnews_eval1600", "input"),
}
BLOCKED = [("int8", 32), ("int4", 32), ("int4", 128), ("int3", 32), ("int2", 32)]
WAYS = [
    ("nearest", ["--weight-rounding", "nearest", "--bias-correction", "off", "--scale-channels", "off"]),
    ("compensated", ["--scale-channels", "off"]),
    ("and scaled", []),
]


class Eval:
    def __init__(self, folder, name):
        self.model, self.calib, data, self.input = MODELS[name]
        self.model, self.calib = folder / "models" / f"{self.model}.onnx", folder / f"{self.calib}.h5"
        with h5py.File(folder / f"{data}.h5") as file:
            self.x, self.labels = file[self.input][:], file["labels"][:]
        self.truth = None
        self.float, _ = self.measure(self.model)

    def measure(self, path, batch=16):
        """Returns the negative log-likelihood of each sample, and the mean divergence from the first measured model."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
        s = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        found, outputs = [], []
        for i in range(0, len(self.x), batch):
            z = s.run(None, {self.input: self.x[i : i + batch]})[0].astype("f8")
            z -= z.max(-1, keepdims=True)
            z -= np.log(np.exp(z).sum(-1, keepdims=True))
            outputs.append(z.astype("f4"))
            y = self.labels[i : i + batch]
            found.append(-np.take_along_axis(z, y[..., None], -1)[..., 0].reshape(len(y), -1).mean(1))
        outputs = np.concatenate(outputs)
        if self.truth is None:
            self.truth = outputs
        divergence = (np.exp(self.truth) * (self.truth - outputs)).sum(-1).mean()
        return np.concatenate(found), divergence

    def row(self, path, batch=16):
        found, divergence = self.measure(path, batch)
        lost = found - self.float
        error = lost.std(ddof=1) / len(lost) ** 0.5
        return f"{lost.mean():+.4f} +- {error:.4f}; KL {divergence:.5f}", f"{path.stat().st_size:,}"


def print_row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def ours(e, program, out, *options):
    subprocess.run(
        [program, "--data", e.calib, "--quiet", "--advice", "off", "--no-report", "-o", out, *options, e.model], check=True
    )
    return out


def theirs(e, out, bits, block, kind):
    from onnxruntime.quantization import matmul_nbits_quantizer as nbits

    config = nbits.HQQWeightOnlyQuantConfig(block_size=block, bits=bits) if kind == "HQQ" else None
    q = nbits.MatMulNBitsQuantizer(
        str(e.model), bits=bits, block_size=block, is_symmetric=kind == "symmetric", accuracy_level=1, algo_config=config
    )
    q.process()
    q.model.save_model_to_file(str(out))
    return out


def blocks(e, program, out, has_torch):
    print_row("weights", *(w for w, _ in WAYS), "bytes")
    print_row(*["---"] * 5)
    for kind, block in BLOCKED:
        for symmetric in [[]] if kind in ("int8", "int2") else [[], ["--symmetric=weights"]]:
            how = ["--activation-type", "none", "--weight-type", kind, "--weight-block", str(block), *symmetric]
            rows = [e.row(ours(e, program, out / "w.onnx", *how, *way)) for _, way in WAYS]
            print_row(f"{kind}, {block}{', symmetric' if symmetric else ''}", *(r[0] for r in rows), rows[-1][1])
    print()
    print_row("ONNX Runtime's MatMulNBitsQuantizer", "symmetric", "bytes", "default", "bytes", "HQQ", "bytes")
    print_row(*["---"] * 7)
    for bits, block in [(8, 32), (4, 32), (4, 128), (2, 32)]:
        cells = []
        for kind in ("symmetric", "default", "HQQ"):
            try:
                if kind == "HQQ" and not has_torch:
                    raise NotImplementedError
                cells += e.row(theirs(e, out / "t.onnx", bits, block, kind))
            except Exception as error:  # forms that it does not support
                cells += [f"none ({type(error).__name__})", ""]
        print_row(f"{bits} bits, {block}", *cells)
    print()


def whole(e, program, out):
    """8 bits for weights and activations."""
    print_row("weights and activations", "nats lost", "bytes")
    print_row(*["---"] * 3)
    for title, options in {
        "W8A8": [],
        "W4A8, per channel": ["--weight-type", "int4"],
        "W4A8, blocks of 32": ["--weight-type", "int4", "--weight-block", "32"],
        "W4, per channel": ["--activation-type", "none", "--weight-type", "int4"],
    }.items():
        print_row(title, *e.row(ours(e, program, out / "w.onnx", *options)))
    dynamic = ours(e, program, out / "d.onnx", "--activation-type", "dynamic")
    print_row("dynamic, a sample at a time", *e.row(dynamic, 1))
    print_row("dynamic, batches of 16", *e.row(dynamic))
    prepared, peer = out / "p.onnx", out / "q.onnx"
    try:
        quant_pre_process(str(e.model), str(prepared))
    except Exception:  # shapes that it cannot infer
        prepared = e.model
    for per_channel in (False, True):
        quantize_dynamic(str(prepared), str(peer), weight_type=QuantType.QInt8, per_channel=per_channel)
        for batch in (1, 16):
            title = f"ONNX Runtime's quantize_dynamic{', per channel' if per_channel else ''}, batches of {batch}"
            print_row(title, *e.row(peer, batch))
    print()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    options = parser.parse_args()
    try:
        import torch  # noqa: F401

        has_torch = True
    except ImportError:
        has_torch = False
    for name in options.models:
        e = Eval(options.folder, name)
        print(f"{name}: {e.float.mean():.4f} nats in float, {e.model.stat().st_size:,} bytes\n")
        with tempfile.TemporaryDirectory() as folder:
            if name != "lstm":
                blocks(e, options.program.resolve(), pathlib.Path(folder), has_torch)
            whole(e, options.program.resolve(), pathlib.Path(folder))


if __name__ == "__main__":
    main()
