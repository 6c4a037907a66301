# SPDX-License-Identifier: Apache-2.0
"""--benchmark: the placement that a command measures as the fastest. The tests' command computes a latency from the
operators in the file, so no test depends on time."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from report_page import record_of

ROOT = Path(__file__).resolve().parents[2]
USAGE, BAD_INPUT, MACHINE, INTERRUPTED = 2, 3, 5, 130

# What an operator costs, by the number of its weights: integers are faster for large layers, and slower for some kinds.
# It reads the file without a library, since it is started some hundred times.
COST = '''
import sys

def fields(data):
    "(number, value) of a message in protocol buffers."
    at = 0
    def whole():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = whole()
        value = whole() if key & 7 in (0, 2) else 4 if key & 7 == 5 else 8
        if key & 7:
            at += value
            value = data[at - value : at]
        yield key >> 3, value

def tensor(data):
    name, dims = b"", []
    for number, value in fields(data):
        name = value if number == 8 else name
        if number == 1 and isinstance(value, int):
            dims.append(value)
        elif number == 1:
            dims += value
    return name, dims

def latency(path):
    graph = next(v for n, v in fields(open(path, "rb").read()) if n == 7)
    size = dict(tensor(v) for n, v in fields(graph) if n == 5)
    nodes, made = [], {}
    for number, value in fields(graph):
        if number == 1:
            node = [], [], []
            for n, v in fields(value):
                if n in (1, 2, 4):
                    node[{1: 0, 2: 1, 4: 2}[n]].append(v)
            nodes.append((node[2][0].decode(), node[0]))
            made.update((v, nodes[-1]) for v in node[1])
    total = 0
    for op, inputs in nodes:
        read = [made[v][1][0] if v in made and made[v][0] == "DequantizeLinear" else None for v in inputs]
        weights = [size.get(r or v, []) for v, r in zip(inputs, read)]
        dims = next((w for w in weights if len(w) > 1), [])
        if op in ("QuantizeLinear", "DequantizeLinear"):
            total += 0 if inputs[0] in size else 40
        elif op in ("Conv", "MatMul", "Gemm") and dims:
            count, ratio = 1, 0.4
            for d in dims:
                count *= d
            if op == "Conv" and dims[1] == 1:
                ratio = 1.5
            elif len(dims) == 5 and dims[1] < 24 or len(dims) == 4 and dims[2:] == [1, 1]:
                ratio = 1.2
            total += count * (ratio if read[0] and read[1] else 1)
        else:
            total += 20
    return total
'''


@pytest.fixture(scope="module")
def cost():
    """The latency that the fake command prints."""
    scope = {}
    exec(COST, scope)  # pylint: disable=exec-used
    return scope["latency"]


@pytest.fixture
def command(tmp_path):
    """The command, which notes each run in runs.txt."""
    script = tmp_path / "cost.py"
    script.write_text(
        COST + "open('runs.txt', 'a').write('x')\nprint('of int8', sys.argv[1], latency(sys.argv[1]), 'ms')\n"
    )
    return f"{shlex.quote(sys.executable)} -I -S {script.name} {{}}"


class Network:
    def __init__(self, seed, shape):
        self.random, self.shape = np.random.default_rng(seed), shape
        self.nodes, self.tensors, self.count = [], [], 0

    def constant(self, value):
        self.tensors.append(numpy_helper.from_array(value, f"c{len(self.tensors)}"))
        return self.tensors[-1].name

    def weight(self, *shape):
        scale = np.sqrt(2 / max(1, np.prod(shape[1:]) if len(shape) > 2 else shape[0]))
        return self.constant((self.random.normal(size=shape) * scale).astype("f4"))

    def add(self, op, *inputs, **attributes):
        self.count += 1
        name = f"{op.lower()}{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [f"v{self.count}"], name, **attributes))
        return f"v{self.count}"

    def conv(self, x, inputs, outputs, window, groups=1, **more):
        pads = [w // 2 for w in window] * 2
        y = self.add("Conv", x, self.weight(outputs, inputs // groups, *window), group=groups, pads=pads, **more)
        return self.add("Relu", y)

    def save(self, folder, *outputs):
        ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)]
        results = [helper.make_tensor_value_info(y, TensorProto.FLOAT, None) for y in outputs]
        graph = helper.make_graph(self.nodes, "g", ports, results, self.tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(onnx.shape_inference.infer_shapes(model), folder / "m.onnx")
        with h5py.File(folder / "data.h5", "w") as file:
            file["x"] = self.random.normal(size=(6, *self.shape[1:])).astype("f4")


def conv3d_like(folder):
    n, x = Network(1, [1, 3, 4, 8, 8]), "x"
    for inputs, outputs in ((3, 8), (8, 16), (16, 32), (32, 32)):
        x = n.conv(x, inputs, outputs, (3, 3, 3))
    x = n.add("Flatten", n.add("GlobalAveragePool", x))
    n.save(folder, n.add("Gemm", x, n.weight(32, 10)))


def llama_like(folder):
    n, x, width = Network(2, [1, 8, 32]), "x", 32
    for _ in range(2):
        q, k, v = (n.add("MatMul", x, n.weight(width, width)) for _ in range(3))
        scores = n.add("Softmax", n.add("MatMul", q, n.add("Transpose", k, perm=[0, 2, 1])))
        x = n.add("Add", x, n.add("MatMul", n.add("MatMul", scores, v), n.weight(width, width)))
        gate, up = (n.add("MatMul", x, n.weight(width, 3 * width)) for _ in range(2))
        gate = n.add("Mul", n.add("Mul", gate, n.add("Sigmoid", gate)), up)
        x = n.add("Add", x, n.add("MatMul", gate, n.weight(3 * width, width)))
    n.save(folder, n.add("MatMul", x, n.weight(width, 128)))


def detector_like(folder):
    n = Network(3, [1, 3, 16, 16])
    fine = n.conv("x", 3, 32, (3, 3))
    for _ in range(2):
        fine = n.conv(n.conv(fine, 32, 32, (3, 3), groups=32), 32, 32, (1, 1))
    coarse = n.conv(fine, 32, 64, (3, 3), strides=[2, 2])
    up = n.add("Resize", coarse, "", n.constant(np.array([1, 1, 2, 2], "f4")), mode="nearest")
    joined = n.conv(n.add("Concat", up, fine, axis=1), 96, 32, (3, 3))
    heads = [n.add("Sigmoid", n.add("Conv", y, n.weight(6, c, 1, 1))) for y, c in ((joined, 32), (coarse, 64))]
    n.save(folder, *heads)


def small(folder):
    """Its layers are smaller than what it costs to come to integers."""
    n = Network(4, [1, 4, 8, 8])
    n.save(folder, n.conv(n.conv("x", 4, 4, (3, 3)), 4, 4, (1, 1)))


def job(qcalib, command, *more, code=0):
    return qcalib("m.onnx", "--data", "data.h5", "--benchmark", command, "-o", "b.onnx", *more, code=code)


def check_errors(told, outputs):
    """The SQNR of what is written is that of the outputs in the report; every placement that was made has one."""
    if told["all_float"]:
        assert told["best_sqnr_db"] is None
    elif len(outputs) == 1:
        assert told["best_sqnr_db"] == pytest.approx(outputs[0]["sqnr_db"], abs=1e-3)
    assert told["default_sqnr_db"] is None or told["default_sqnr_db"] > 0  # None: all of it is faster in float
    assert told["integers_sqnr_db"] > 0
    for c in told["changes"]:  # None: nothing is left in integers
        assert c["sqnr_db"] is None or c["sqnr_db"] > 0 and c["reason"] is None


@pytest.mark.parametrize("make", [conv3d_like, llama_like, detector_like, small])
def test_no_placement_is_faster(make, qcalib, command, cost, tmp_path):
    """As fast as the float model, the default and everything in integers, or faster."""
    make(tmp_path)
    same = ("--method", "mse")  # with auto, a file below 10 dB is mended, which changes its placement
    plain = {"m.onnx": []}
    for name, options in {"default.onnx": [], "integers.onnx": ["--prefer", "integers"]}.items():
        qcalib("m.onnx", "--data", "data.h5", "-o", name, *same, *options)
        plain[name] = options
    known = {name: cost(tmp_path / name) for name in plain}
    out = job(qcalib, command, "--report", "r", *same).out
    found = cost(tmp_path / "b.onnx")
    told = json.loads((tmp_path / "r/report.json").read_text())["timing"]["benchmark"]
    assert found <= min(known.values()), (found, known)
    assert told["best_ms"] == found
    assert [told[f"{n}_ms"] for n in ("float", "default", "integers")] == list(known.values())
    assert f"latency     {found:.3g} ms: float {known['m.onnx']:.3g}, default {known['default.onnx']:.3g}" in out
    assert record_of(tmp_path / "r/report.html")["timing"] == {"benchmark": told}
    check_errors(told, json.loads((tmp_path / "r/report.json").read_text())["outputs"])
    kept = [c for c in told["changes"] if c["kept"]]
    assert all(c["after_ms"] < 0.98 * c["before_ms"] for c in kept)
    placement = tmp_path / "b.placement.json"
    assert told["all_float"] == (make is small) == (not placement.exists())
    if make is small:
        assert "QuantizeLinear" not in {n.op_type for n in onnx.load(tmp_path / "b.onnx").graph.node}
        assert "nothing is quantized" in out
        return
    assert json.loads(placement.read_text()) == told["placement"]
    if make is detector_like:
        assert kept and found < 0.98 * min(known.values()), (found, known)
    # The configuration makes the same model without any measurement, and so does the command of the report.
    qcalib("--config", placement, "m.onnx", "--data", "data.h5", "-o", "again.onnx", *same)
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    report = json.loads((tmp_path / "r/report.json").read_text())
    qcalib(*shlex.split(report["command"])[1:], "-o", "shown.onnx")
    assert (tmp_path / "shown.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_errors_are_of_the_samples_of_the_report(qcalib, command, tmp_path):
    """Of many samples they are few; ranges are chosen on all of them before and afterwards."""
    llama_like(tmp_path)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = np.random.default_rng(7).normal(size=(40, 8, 32)).astype("f4")
    same = ("--method", "mse")
    job(qcalib, command, "--report", "r", *same)
    report = json.loads((tmp_path / "r/report.json").read_text())
    told = report["timing"]["benchmark"]
    assert any(c["kept"] for c in told["changes"])
    check_errors(told, report["outputs"])
    qcalib("--config", "b.placement.json", "m.onnx", "--data", "data.h5", "-o", "again.onnx", *same)
    assert (tmp_path / "again.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


def test_a_stopped_job_goes_on(qcalib, command, tmp_path):
    """A command that fails after some runs: with --checkpoint the next job measures only the rest, and again the two
    comparisons, of 12 runs at most, that were not written whole."""
    detector_like(tmp_path)
    job(qcalib, command)
    whole, model = len((tmp_path / "runs.txt").read_text()), (tmp_path / "b.onnx").read_bytes()
    (tmp_path / "runs.txt").unlink()
    (tmp_path / "b.onnx").unlink()
    script = tmp_path / "cost.py"
    good = script.read_text()
    script.write_text(good + f"if len(open('runs.txt').read()) > {whole // 2}: sys.exit('broken')\n")
    stopped = job(qcalib, command, "--checkpoint", "c", "--no-report", code=MACHINE)
    assert "--benchmark: it ended with exit code 1: broken" in stopped.err and not (tmp_path / "b.onnx").exists()
    assert {"c", "c.benchmark"} <= set(stopped.new_files)
    script.write_text(good)
    (tmp_path / "runs.txt").unlink()
    latencies = tmp_path / "c.benchmark"
    latencies.write_bytes(latencies.read_bytes()[:-8])  # the machine went down while the last line was written
    done = job(qcalib, command, "--checkpoint", "c")
    rest = len((tmp_path / "runs.txt").read_text())
    assert rest <= whole - whole // 2 + 24 and (tmp_path / "b.onnx").read_bytes() == model
    assert not {p.name for p in tmp_path.iterdir()} & {"c", "c.benchmark"}, done.out
    (tmp_path / "c.benchmark").write_text("other\n")
    assert "not a file of latencies" in job(qcalib, command, "--checkpoint", "c", code=BAD_INPUT).err
    (tmp_path / "c.benchmark").write_text("qcalib lat")  # the machine went down while the first line was written
    job(qcalib, command, "--checkpoint", "c")
    assert (tmp_path / "b.onnx").read_bytes() == model and not (tmp_path / "c.benchmark").exists()


@pytest.mark.parametrize(
    "command, code, said",
    [
        ("sh -c 'echo no kernel >&2; exit 3' {}", MACHINE, "exit code 3: no kernel"),
        ("sh -c 'kill -9 $$' {}", MACHINE, "signal 9"),
        ("echo fast: int8 of", MACHINE, None),
        ("sh -c 'echo fast' {}", MACHINE, "printed none"),
        ("sh -c 'echo 0' {}", MACHINE, "it is 0"),
        ("./no-such-program {}", USAGE, "cannot start './no-such-program'"),
        ("echo 'open {}", USAGE, "is not closed"),
        ("echo 5", USAGE, "{} in place of the model file"),
    ],
)
def test_commands_that_fail(command, code, said, qcalib, tmp_path):
    """They are known before the samples are read, and nothing is left behind."""
    small(tmp_path)
    (tmp_path / "data.h5").write_bytes(b"no data")
    done = job(qcalib, command, code=code if said else USAGE)
    assert done.new_files == [] and (said or "{}") in done.err and len(done.err.splitlines()) == 1


def test_a_command_that_fails_later_leaves_nothing(qcalib, command, tmp_path):
    detector_like(tmp_path)
    script = tmp_path / "cost.py"
    script.write_text(script.read_text() + "if len(open('runs.txt').read()) > 9: sys.exit('lost')\n")
    done = job(qcalib, command, code=MACHINE)
    assert done.new_files == ["runs.txt"] and "exit code 1: lost" in done.err


def test_interrupted(program, tmp_path):
    """The command ends with the job."""
    detector_like(tmp_path)
    before = set(tmp_path.iterdir())
    run = subprocess.Popen(
        [program, "m.onnx", "--data", "data.h5", "--benchmark", "sh -c 'echo $$ >pid; exec sleep 600' {}"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    pid = tmp_path / "pid"
    while not (pid.exists() and pid.read_text().endswith("\n")):
        assert run.poll() is None
        time.sleep(0.02)
    run.send_signal(signal.SIGTERM)
    _, err = run.communicate(timeout=60)
    assert run.returncode == INTERRUPTED and "interrupted" in err
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)
    assert set(tmp_path.iterdir()) == before | {pid}


@pytest.mark.parametrize(
    "options", [["--size", "50%"], ["--propagate"], ["--require-integer"], ["--only", "conv"], ["--format", "text"], ["--activation-type", "dynamic"]]
)
def test_options_that_do_not_go_with_it(options, qcalib, tmp_path):
    small(tmp_path)
    done = job(qcalib, "echo 5 {}", *options, code=USAGE)
    assert "--benchmark" in done.err and done.new_files == []


def test_no_configuration_names_a_command(qcalib, tmp_path):
    """What is run is only what the user typed."""
    small(tmp_path)
    (tmp_path / "c.json").write_text(json.dumps({"benchmark": "touch run {}"}))
    done = qcalib("--config", "c.json", "m.onnx", "--data", "data.h5", code=USAGE)
    assert "benchmark" in done.err and done.new_files == []


def test_a_step_of_a_function_can_be_left_in_float(qcalib, tmp_path):
    """--skip names an operator that no pattern takes alone: it is quantized only as a part of a table."""
    n = Network(5, [1, 8])
    x = n.add("MatMul", "x", n.weight(8, 8))
    y = n.add("Sqrt", n.add("Abs", x))
    n.save(tmp_path, n.add("MatMul", y, n.weight(8, 8)))
    arguments = ["--target", "fused", "m.onnx", "--data", "data.h5"]
    assert "Abs" not in {o["op"] for o in qcalib(*arguments, "--json").json["float_ops"]}
    assert "Abs" in {o["op"] for o in qcalib(*arguments, "--skip", "abs2", "--json").json["float_ops"]}


def test_latency_of_wider_types(qcalib, command, cost, tmp_path):
    """A demand changes the file after it was placed: the report has the latency of what is written."""
    detector_like(tmp_path)
    job(qcalib, command, "--report", "r")
    before = json.loads((tmp_path / "r/report.json").read_text())["timing"]["benchmark"]["best_ms"]
    job(qcalib, command, "--min-sqnr", "48", "--report", "r")
    report = json.loads((tmp_path / "r/report.json").read_text())
    assert report["fallback"]["met"] and report["timing"]["benchmark"]["best_ms"] == cost(tmp_path / "b.onnx") != before


def test_onnxruntime(qcalib, tmp_path):
    """The command of the package, in ONNX Runtime: which placement is fastest is not for a test to say."""
    small(tmp_path)
    script = ROOT / "python/qcalib/benchmark.py"
    job(qcalib, f"{shlex.quote(sys.executable)} {shlex.quote(str(script))} --seconds 0 {{}}", "--report", "r")
    told = json.loads((tmp_path / "r/report.json").read_text())["timing"]["benchmark"]
    assert told["changes"] and min(told["float_ms"], told["default_ms"], told["best_ms"]) > 0
