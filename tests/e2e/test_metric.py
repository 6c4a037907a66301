# SPDX-License-Identifier: Apache-2.0
"""--metric: a program of the user's own. The programs run ONNX Runtime, as those of a user do."""

import json
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_quantize_odd import node, normal

RUN = """
import sys
import numpy as np
import onnxruntime as ort
s = ort.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
d = np.load("test.npz")
out = [np.concatenate(v) for v in zip(*(s.run(None, {s.get_inputs()[0].name: d["x"][i:i + 1]}) for i in range(len(d["x"]))))]
"""
F1 = """
p, t = out[0].reshape(len(d["x"]), -1)[:, 0] > 0, d["truth"]
hit = (p & t).sum()
print("f1", 2 * hit / max(p.sum() + t.sum(), 1))
"""
WER = """
def distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for k, y in enumerate(b, 1):
            last, row[k] = row[k], min(row[k] + 1, row[k - 1] + 1, last + (x != y))
    return row[-1]
words = [out[0][i].reshape(-1, 8)[:5].argmax(-1) for i in range(len(d["x"]))]
print(sum(distance(w, t) for w, t in zip(words, d["words"])) / d["words"].size)
"""
RETRIEVAL = """
e = out[0].reshape(len(d["x"]), -1)
e = e / np.linalg.norm(e, axis=1, keepdims=True)
near = np.argsort(-(e @ d["gallery"].T), axis=1)[:, :3]
print("recall at 3:", np.mean([i in n for i, n in enumerate(near)]))
"""
MAP = """
def iou(a, b):
    lo, hi = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    inter = np.prod(np.clip(hi - lo, 0, None))
    area = lambda c: np.prod(np.clip(c[2:] - c[:2], 0, None))
    return inter / max(area(a) + area(b) - inter, 1e-9)
found = []
for i, y in enumerate(out[0].reshape(len(d["x"]), 10, 4)):
    box = np.concatenate([y[:, :2], y[:, :2] + 1 + np.abs(y[:, 2:])], axis=1)
    score, boxes = np.abs(y).sum(1), d["boxes"][i]
    taken = set()
    for k in np.argsort(-score):
        best = max(range(len(boxes)), key=lambda n: iou(box[k], boxes[n]))
        hit = iou(box[k], boxes[best]) > 0.5 and best not in taken
        taken |= {best} if hit else set()
        found.append((score[k], hit))
found.sort(key=lambda f: -f[0])
hits = np.cumsum([h for _, h in found])
recall, precision = hits / d["boxes"][:, :, 0].size, hits / np.arange(1, len(found) + 1)
print("mAP", sum((recall[k] - (recall[k - 1] if k else 0)) * precision[k:].max() for k in range(len(found))))
"""
PROGRAMS = {"f1": (F1, ""), "wer": (WER, "lower:"), "retrieval": (RETRIEVAL, ""), "map": (MAP, "")}


def network(path):
    nodes = [
        node("Conv", ["x", "w", "b"], "c", pads=[1] * 4),
        node("Relu", ["c"], "r"),
        node("Conv", ["r", "v"], "d", strides=[2, 2]),
        node("Flatten", ["d"], "f"),
        node("Gemm", ["f", "g"], "y"),
    ]
    weights = dict(w=normal(16, 3, 3, 3), b=normal(16, 1)[:, 0], v=normal(8, 16, 3, 3), g=normal(72, 40))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 40])],
        [numpy_helper.from_array(w, n) for n, w in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.fixture
def folder(tmp_path):
    """A network, samples, and a truth that the float network meets."""
    import onnxruntime as ort

    network(tmp_path / "m.onnx")
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(32, 3, 8, 8)).astype(np.float32))
    x = rng.normal(size=(48, 3, 8, 8)).astype(np.float32)
    y = ort.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x})[0]
    boxes = y.reshape(-1, 10, 4)
    boxes = np.concatenate([boxes[:, :, :2], boxes[:, :, :2] + 1 + np.abs(boxes[:, :, 2:])], axis=2)
    np.savez(
        tmp_path / "test.npz",
        x=x,
        truth=y[:, 0] > 0,
        words=y.reshape(len(x), -1, 8)[:, :5].argmax(-1),
        gallery=y / np.linalg.norm(y, axis=1, keepdims=True),
        boxes=boxes,
    )
    return tmp_path


def program(folder, name):
    """The value of --metric, for a program that also notes the files that it saw."""
    text, prefix = PROGRAMS[name]
    (folder / f"{name}.py").write_text(RUN + text + "open('seen', 'a').write(sys.argv[1] + '\\n')\n")
    return f"--metric={prefix}{sys.executable} {name}.py {{}}"


def value(folder, name, file):
    """What the program prints, run here."""
    import subprocess

    done = subprocess.run([sys.executable, f"{name}.py", file], cwd=folder, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_report_and_eval(name, qcalib, folder):
    metric = program(folder, name)
    best = 0 if name == "wer" else 1
    done = qcalib("--data", "x.npz", "m.onnx", metric, "-o", "q.onnx", "--report", "r", "--weight-type=int4")
    assert "metric      " in done.out
    report = json.loads((folder / "r/report.json").read_text())["accuracy"]
    assert report["metric"] == "metric" and report["fp32"] == pytest.approx(best)
    assert report["int8"] == pytest.approx(value(folder, name, "q.onnx"))
    assert report.get("lower_is_better", False) == (name == "wer")
    models = qcalib("eval", "m.onnx", "q.onnx", metric, "--json").json["models"]
    assert [m["value"] for m in models] == pytest.approx([report["fp32"], report["int8"]])
    assert "metric" in qcalib("eval", "m.onnx", "q.onnx", metric).out
    assert not list((folder / "r").parent.glob("qcalib-*"))


@pytest.mark.parametrize("name", ["map", "wer"])
def test_a_demand_in_the_unit_of_the_program(name, qcalib, folder):
    """2-bit weights lose much; with the demand layers go wider until the program is content."""
    metric = program(folder, name)
    given = ("--data", "x.npz", "m.onnx", metric, "--no-report", "--weight-type=int2", "--json")
    free = qcalib(*given, "-o", "free.onnx").json["accuracy"]
    lost = abs(free["fp32"] - free["int8"])
    assert lost > 0.05
    demand = lost / 3
    met = qcalib(*given, "-o", "met.onnx", f"--max-drop={demand}").json["accuracy"]
    assert abs(met["fp32"] - met["int8"]) <= demand + 1e-9
    assert value(folder, name, "met.onnx") == pytest.approx(met["int8"])
    assert (folder / "met.onnx").read_bytes() != (folder / "free.onnx").read_bytes()


def test_a_demand_that_cannot_be_met(qcalib, folder):
    (folder / "worse.py").write_text("import sys\nprint(1 if sys.argv[1] == 'm.onnx' else 0)\n")
    told = qcalib("--data", "x.npz", "m.onnx", f"--metric={sys.executable} worse.py {{}}", "--max-drop=0.5", code=1)
    assert "the metric falls by 1.00 units (1.00 to 0.00)" in told.err


@pytest.mark.parametrize(
    "text, code, message",
    [
        ("true", 2, "needs a command with {}"),
        ("no-such-program {}", 2, "no-such-program"),
        ("PY -c pass {}", 5, "printed none"),
        ("PY -c 'import sys; sys.exit(\"broken\")' {}", 5, "broken"),
        ("'open {}", 2, "quote"),
    ],
)
@pytest.mark.bad_input
def test_mistakes(text, code, message, qcalib, folder):
    option = f"--metric={text.replace('PY', sys.executable)}"
    for command in (("--data", "x.npz", "m.onnx", "--no-report"), ("eval", "m.onnx")):
        assert message in qcalib(*command, option, code=code).err


def test_temporary_files_go(qcalib, folder):
    metric = program(folder, "f1")
    (folder / "tmp").mkdir()
    qcalib("--data", "x.npz", "m.onnx", metric, "-o", "q.onnx", "--no-report", TMPDIR=str(folder / "tmp"))
    seen = (folder / "seen").read_text().split()
    assert seen[0] == "m.onnx" and seen[1].endswith("model.int8.onnx") and len(seen) == 2
    assert not list((folder / "tmp").glob("qcalib*"))


OUTPUTS = """
import sys
import h5py
with h5py.File(sys.argv[1]) as f:
    y, t = f["y"][:], f["labels"][:]
assert y.shape == (48, 40) and t.shape == (48,), (y.shape, t.shape)
p = y[:, 0] > 0
print(2 * (p & (t == 1)).sum() / max(p.sum() + t.sum(), 1))
"""


def test_outputs_and_labels(qcalib, folder):
    """{outputs} is a file of the outputs with the labels of --eval; the value is that of ONNX Runtime's outputs."""
    program(folder, "f1")
    (folder / "o.py").write_text(OUTPUTS)
    test = np.load(folder / "test.npz")
    np.savez(folder / "e.npz", x=test["x"], labels=test["truth"].astype(np.int64))
    metric = f"--metric={sys.executable} o.py {{outputs}}"
    given = ("--data", "x.npz", "m.onnx", metric, "--no-report", "--weight-type=int2", "--json")
    seen = qcalib(*given, "--eval", "e.npz", "-o", "q.onnx").json["accuracy"]
    assert seen["fp32"] == 1 and seen["int8"] == pytest.approx(value(folder, "f1", "q.onnx")) and seen["int8"] < 1
    (model,) = qcalib("eval", "q.onnx", metric, "--data", "e.npz", "--json").json["models"]
    assert model["value"] == pytest.approx(seen["int8"]) and model["samples"] == 48
    qcalib(*given, "--eval", "e.npz", "-o", "met.onnx", "--max-drop=0.001")
    assert value(folder, "f1", "met.onnx") >= 0.999
    assert "needs --eval" in qcalib(*given, code=2).err


def test_outputs_beside_a_target(qcalib, folder):
    (folder / "o.py").write_text("import sys, h5py\nf = h5py.File(sys.argv[1])\nprint(abs(f['y'][:] - f['target'][:]).max())\n")
    import onnxruntime as ort

    x = np.load(folder / "test.npz")["x"]
    np.savez(folder / "e.npz", x=x, target=ort.InferenceSession(str(folder / "m.onnx")).run(None, {"x": x})[0])
    (model,) = qcalib("eval", "m.onnx", f"--metric=lower:{sys.executable} o.py {{outputs}}", "--data", "e.npz", "--json").json["models"]
    assert model["value"] < 1e-4 and model["lower_is_better"]
