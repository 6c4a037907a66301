# SPDX-License-Identifier: Apache-2.0
"""Observers in the program: ranges against independent computations (NumPy, SciPy, ONNX Runtime's own calibrator) on
ten distributions, the solver and known ranges in the report, and observers from shared objects."""

import json
import shutil
import subprocess

import h5py
import numpy as np
import onnx
import pytest
import scipy.stats
from conftest import ROOT, SANITIZED, shared_object
from onnx import TensorProto, helper, numpy_helper

SAMPLES, SIDE = 16, 40


def draw(name):
    r = np.random.default_rng(5)
    n = SAMPLES * SIDE * SIDE
    return {
        "normal": lambda: r.normal(0, 1, n),
        "shifted": lambda: r.normal(0.8, 0.5, n),
        "laplace": lambda: r.laplace(0, 0.3, n),
        "lognormal": lambda: r.lognormal(0, 1, n),
        "after_relu": lambda: np.maximum(r.normal(0, 2, n), 0),
        "uniform": lambda: r.uniform(-3, 1, n),
        "bimodal": lambda: r.normal(0, 0.3, n) + np.where(r.random(n) < 0.3, 4, -1),
        "student": lambda: r.standard_t(2.5, n),
        "negative": lambda: -r.exponential(5, n),
        "clipped": lambda: np.clip(r.normal(1, 3, n), 0, 6),
    }[name]().astype(np.float32)


DISTRIBUTIONS = [
    "normal",
    "shifted",
    "laplace",
    "lognormal",
    "after_relu",
    "uniform",
    "bimodal",
    "student",
    "negative",
    "clipped",
]


def write_model(path, ops=()):
    """x -> 1x1 Conv -> y, or with unary ops between two of them."""
    w = numpy_helper.from_array(np.array([[[[1.0]]]], np.float32), "w")
    nodes, last = [], "x"
    for i, op in enumerate(["Conv", *ops, "Conv"] if ops else ["Conv"]):
        nodes.append(helper.make_node(op, [last, "w"] if op == "Conv" else [last], [f"v{i}"], name=f"n{i}"))
        last = f"v{i}"
    shape = ["N", 1, SIDE, SIDE]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(last, TensorProto.FLOAT, shape)],
        [w],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def write_data(path, x):
    with h5py.File(path, "w") as f:
        f["x"] = x.reshape(SAMPLES, 1, SIDE, SIDE)


@pytest.fixture
def choose(qcalib, tmp_path):
    """choose(values, method, ...) gives the report's layer of the input."""

    def run(x, method, *more, ops=(), layer="x"):
        write_model(tmp_path / "m.onnx", ops)
        write_data(tmp_path / "x.h5", x)
        qcalib("quantize", "--data", "x.h5", "--method", method, "--effort", "low", "--prefer", "integers", "--report", "r", *more, "m.onnx")
        layers = json.loads((tmp_path / "r/report.json").read_text())["layers"]
        return next(v for v in layers if v["name"] == layer)

    return run


def affine(lo, hi):
    """uint8, as DynamicQuantizeLinear has it."""
    scale = np.float32((hi - lo) / 255)
    return scale, int(np.clip(np.rint(-lo / scale), 0, 255))


CLIP = 16  # of kl


def squared_error(x, lo, hi, clip=1):
    """What is clipped by more than half a step counts `clip` times."""
    scale, zero = affine(lo, hi)
    q = np.clip(np.rint(x / scale) + zero, 0, 255)
    error = np.abs((q - zero) * scale - x.astype(np.float64))
    return float(np.mean(error**2 * np.where(error > 0.5 * scale, clip, 1)))


def candidates(x, steps):
    """Ranges of a grid inside the extremes, each with 0."""
    lo, hi = min(0.0, float(x.min())), max(0.0, float(x.max()))
    lows = [lo * i / steps for i in range(1, steps + 1)] if lo < 0 else [0.0]
    highs = [hi * i / steps for i in range(1, steps + 1)] if hi > 0 else [0.0]
    return [(a, b) for a in lows for b in highs]


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_percentile_is_numpy_s(choose, name):
    x = draw(name)
    chosen = choose(x, "percentile:p=99")["chosen"]
    tail = 0.5 if x.min() < 0 < x.max() else 1.0
    for end, p in (("min", tail), ("max", 100 - tail)):
        q = float(np.percentile(x, p))
        expected = min(q, 0.0) if end == "min" else max(q, 0.0)
        if (end == "min") == (x.min() < 0) or expected == 0:
            assert chosen[end] == pytest.approx(expected, rel=1 / 128, abs=1e-3 * float(np.abs(x).max())), end


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_mse_is_what_brute_force_finds(choose, name):
    x = draw(name)
    layer = choose(x, "mse")
    real = squared_error(x, layer["chosen"]["min"], layer["chosen"]["max"])
    best = min(squared_error(x, a, b) for a, b in candidates(x, 24 if x.min() < 0 < x.max() else 400))
    assert real <= 1.02 * best
    assert layer["solver"]["objective"] == pytest.approx(real, rel=0.03)


def density(x, bins=2048):
    """observers/kl.c's P: nonzero values on equal bins over the extremes with 0, smoothed by two mirrored boxes."""
    x = x[x != 0].astype(np.float64)
    a, b = min(0.0, x.min()), max(0.0, x.max())
    counts, edges = np.histogram(x, bins, (a, b))
    spread = scipy.stats.iqr(x) / 1.349
    h = 0.9 * min(x.std(), spread if spread > 0 else np.inf) * len(x) ** -0.2
    w = min(int(np.rint((np.sqrt(6 * (h / (edges[1] - edges[0])) ** 2 + 1) - 1) / 2)), bins // 4)
    p = counts.astype(np.float64)
    for _ in range(2 if w else 0):
        p = np.convolve(np.pad(p, w, mode="symmetric"), np.full(2 * w + 1, 1 / (2 * w + 1)), "valid")
    return p / p.sum(), edges


def divergence(p, edges, lo, hi):
    """SciPy's relative entropy of P and of each cell's mass spread evenly, on 8 sub-bins a bin (cells end where they end)."""
    scale, zero = affine(lo, hi)
    fine = np.linspace(edges[0], edges[-1], 8 * len(p) + 1)
    middle = (fine[1:] + fine[:-1]) / 2
    mass = np.repeat(p / 8, 8)
    level = np.clip(np.rint(middle / scale) + zero, 0, 255).astype(int)
    sums, sizes = np.bincount(level, mass, 256), np.bincount(level, minlength=256)
    return float(scipy.stats.entropy(mass, (sums / np.maximum(sizes, 1))[level]))


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_kl_is_what_brute_force_with_scipy_finds(choose, name):
    x = draw(name)
    layer = choose(x, "kl")
    lo, hi = layer["chosen"]["min"], layer["chosen"]["max"]
    p, edges = density(x)
    limit = squared_error(x, min(0.0, float(x.min())), max(0.0, float(x.max())))
    best = min(
        divergence(p, edges, a, b)
        for a, b in candidates(x, 24 if x.min() < 0 < x.max() else 200)
        if squared_error(x, a, b, CLIP) <= 0.97 * limit
        or (a, b) == (min(0.0, float(x.min())), max(0.0, float(x.max())))
    )
    mine = divergence(p, edges, lo, hi)
    assert squared_error(x, lo, hi, CLIP) <= 1.03 * limit
    assert mine <= 1.05 * best + 2e-5, (mine, best)
    assert layer["solver"]["objective"] == pytest.approx(mine, rel=0.1, abs=1e-4)


def nvidia_entropy(x, levels, bins=2048, start=128):
    """The thresholds and divergences of NVIDIA's pytorch-quantization (calib/histogram.py, _compute_amax_entropy), written anew."""
    counts, edges = np.histogram(np.abs(x), bins, (0, float(np.abs(x).max())))
    counts[0] = counts[1]
    result = {}
    for i in range(start, bins + 1):
        level = np.arange(i) * levels // i
        used = counts[:i] != 0
        sums = np.bincount(level[used], counts[:i][used], levels)
        sizes = np.bincount(level[used], minlength=levels)
        q = np.where(used, sums[level] / np.maximum(sizes[level], 1), 0)
        p = counts[:i].astype(np.float64)
        p[-1] += counts[i:].sum()
        result[i] = scipy.stats.entropy(p, q)
    return edges, result


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_tensorrt_s_kl_is_nvidia_s(choose, name):
    x = draw(name)
    layer = choose(x, "kl:variant=tensorrt")
    edges, found = nvidia_entropy(x, 256 if x.min() >= 0 else 128)
    t = max(-layer["chosen"]["min"], layer["chosen"]["max"])
    if t >= 0.999 * float(np.abs(x).max()):
        t = edges[-1]
    i = int(np.clip(np.searchsorted(edges, t * (1 - 1e-6)), 128, 2048))
    near = [
        found[k] for k in range(max(128, i - 12), min(2048, i + 12) + 1)
    ]  # our counts come from bins of 1/256 octave
    best = min(found.values())
    assert min(near) <= 1.1 * best + 1e-3, (t, min(near), best)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_onnxruntime_s_entropy_is_onnxruntime_s(choose, name):
    calibrate = pytest.importorskip("onnxruntime.quantization.calibrate")
    x = draw(name)
    collector = calibrate.HistogramCollector("entropy", False, 128, 128, 99.99, None)
    top = float(np.abs(x).max())
    for bins in (128, 401):
        counts, edges = np.histogram(x, bins, (-top, top))
        lo, hi = collector.get_entropy_threshold((counts, edges, x.min(), x.max(), top), 128)
        layer = choose(x, f"kl:variant=onnxruntime,bins={bins}")
        step = 2 * top / bins
        assert abs(layer["chosen"]["min"] - min(float(lo), 0)) <= 3 * step, bins
        assert abs(layer["chosen"]["max"] - max(float(hi), 0)) <= 3 * step, bins


def test_the_report_says_what_the_solver_tried(choose):
    x = draw("student")
    layer = choose(x, "mse")
    solver, chosen = layer["solver"], layer["chosen"]
    curve = solver["curve"]
    assert 8 <= len(curve) <= 64
    thresholds = [t for t, _ in curve]
    assert thresholds == sorted(thresholds, reverse=True)
    assert thresholds[0] == pytest.approx(float(np.abs(x).max()))
    assert curve[0][1] == solver["objective_minmax"] and min(v for _, v in curve) >= solver["objective"] * 0.999999
    lo, hi = min(0.0, float(x.min())), max(0.0, float(x.max()))
    for t, v in curve[:20:5]:
        f = t / thresholds[0]
        assert v == pytest.approx(squared_error(x, lo * f, hi * f), rel=0.03)
    other = solver["runner_up"]
    assert other["objective"] >= solver["objective"]
    far = max(-other["min"], other["max"]) / max(-chosen["min"], chosen["max"])
    assert not 0.92 < far < 1.08
    half = layer["scale"] / 2
    beyond = float(np.mean((x < chosen["min"] - half) | (x > chosen["max"] + half)))
    assert layer["clipped_fraction"] == pytest.approx(beyond, abs=2e-4)
    for method in ("minmax", "percentile", "ema"):
        layer = choose(x, method)
        assert (
            layer["solver"]["curve"] is None
            and layer["solver"]["objective"] is None
            and layer["solver"]["runner_up"] is None
        )


@pytest.mark.parametrize(
    "op, lo, hi",
    [
        ("Sigmoid", 0, 1),
        ("Tanh", -1, 1),
        ("Relu", 0, None),
        ("Softmax", 0, 1),
        ("HardSigmoid", 0, 1),
        ("LeakyRelu", None, None),
    ],
)
def test_the_report_says_what_is_known(choose, op, lo, hi):
    layer = choose(draw("normal"), "minmax", ops=(op,), layer="v1")
    assert layer["solver"]["known"] == {"min": lo, "max": hi}


def test_ema_and_average_are_their_formulas(choose):
    x = draw("student")
    rows = x.reshape(SAMPLES, -1).astype(np.float64)
    low, high = rows[0].min(), rows[0].max()
    for r in rows[1:]:
        low, high = 0.8 * low + 0.2 * r.min(), 0.8 * high + 0.2 * r.max()
    layer = choose(x, "ema:momentum=0.8", "--threads", "2")
    assert (layer["chosen"]["min"], layer["chosen"]["max"]) == (pytest.approx(low), pytest.approx(high))
    layer = choose(x, "avgmax")
    assert (layer["chosen"]["min"], layer["chosen"]["max"]) == (
        pytest.approx(rows.min(1).mean()),
        pytest.approx(rows.max(1).mean()),
    )
    layer = choose(x, "fixed:min=-1,max=3")
    assert layer["chosen"] == {"min": -1, "max": 3}


@pytest.mark.parametrize(
    "method", ["mse:norm=2.4", "kl", "kl:variant=tensorrt", "gaussian", "avgmax", "percentile:p=99.9"]
)
def test_weights_take_every_method(qcalib, examples, tmp_path, method):
    qcalib(
        "quantize",
        "--data",
        examples / "digits_calib.h5",
        "--method",
        "minmax",
        "--weight-method",
        method,
        "--report",
        "r",
        examples / "digits_cnn.onnx",
    )
    layers = json.loads((tmp_path / "r/report.json").read_text())["layers"]
    weights = [v for v in layers if v["kind"] == "weight"]
    assert weights and all(v["method"] == method.split(":")[0] and v["axis"] is not None for v in weights)


# ---- Observers from shared objects ----


@pytest.fixture(scope="session")
def median(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "qcalib").mkdir()
    shutil.copy(ROOT / "include/qcalib/qcalib_observer.h", folder / "qcalib")  # nothing else of the tree
    return shared_object(folder / "median.so", ROOT / "tests/install/median_observer.c", include=folder)


def test_plugin_is_listed_and_used(choose, qcalib, median, tmp_path):
    rows = {
        r["observer"]: r["summary"] for r in qcalib("list", "observers", "--plugin", median, "--json").json["observers"]
    }
    assert rows["median"] == "median of the samples' minima and maxima"
    assert rows["median:widen="] == "factor on the median (default 1; 0.1 to 10)"
    x = draw("student")
    rows = x.reshape(SAMPLES, -1)
    models = []
    for threads in ("1", "2"):
        layer = choose(x, "median:widen=0.5", "--plugin", median, "--threads", threads)
        assert layer["chosen"]["min"] == pytest.approx(0.5 * float(np.sort(rows.min(1))[SAMPLES // 2]))
        assert layer["chosen"]["max"] == pytest.approx(0.5 * float(np.sort(rows.max(1))[SAMPLES // 2]))
        assert layer["method"] == "median"
        models.append((tmp_path / "m.int8.onnx").read_bytes())
    assert models[0] == models[1]
    layer = choose(x, "minmax", "--plugin", median, "--weight-method", "median")
    assert layer["method"] == "minmax"


def test_plugin_needs_the_data(qcalib, examples, median, tmp_path):
    """Its states are in no file: what that means is said, with what to do."""
    data, model = examples / "digits_calib.h5", examples / "digits_cnn.onnx"
    qcalib("collect", "--data", data, "--samples", 8, model, "-o", "s.h5")
    own = ["--plugin", median, "--method", "median", model]
    assert "use --data, in one run" in qcalib("--stats", "s.h5", *own, code=2).err
    assert "leave out --checkpoint" in qcalib("--data", data, "--checkpoint", "c.h5", *own, code=2).err


def test_plugin_chooses_again_for_a_demand(qcalib, examples, median, tmp_path):
    """The states of a plugin are used up by a choice: each further network collects them again."""
    data, model = examples / "digits_calib.h5", examples / "digits_cnn.onnx"
    demand = ("--min-sqnr", 28, "--report", "r")
    qcalib("--data", data, "--samples", 16, "--plugin", median, "--method", "median", *demand, model)
    steps = json.loads((tmp_path / "r/report.json").read_text())["fallback"]["steps"]
    assert len(steps) > 1 and any(s["met"] for s in steps)


@pytest.mark.bad_input
def test_plugins_that_are_none_are_refused(qcalib, examples, tmp_path, median):
    (tmp_path / "text.so").write_text("not a shared object\n")
    (tmp_path / "empty.c").write_text("int nothing;\n")
    subprocess.run(["cc", "-shared", "-fPIC", "empty.c", "-o", "empty.so"], cwd=tmp_path, check=True)
    arguments = ["quantize", "--data", examples / "digits_calib.h5", examples / "digits_cnn.onnx"]
    for file, says in (
        ("text.so", "not a shared object"),
        ("missing.so", "not a shared object"),
        ("empty.so", "does not export 'qcalib_observer_entry'"),
    ):
        for command in (arguments, ["list", "observers"]):
            done = qcalib(*command, "--plugin", file, code=3)
            assert says in done.err and file in done.err and not done.new_files
    done = qcalib(*arguments, "--plugin", median, "--plugin", median, code=3)
    assert "there is an observer 'median' already" in done.err
    done = qcalib(*arguments, "--method", "median", code=2)
    assert "unknown observer 'median'" in done.err


SCAN, MERGE = "if (!n) return 0;", "return s->count ? append(into, s->samples, s->count) : 0;"
FINISH = "if (!s->count) return 2;"

# A change of the example, options, and how the message goes on after "qcalib: ".
FAILURES = {
    "scan": (SCAN, "return 9;", ["--method", "median"], "tensor 'input': plugin 'median': scan failed with code 9"),
    "scan, in order": (
        SCAN,
        "return 9;",
        ["--method", "median", "--propagate"],
        "tensor 'input': plugin 'median': scan failed with code 9",
    ),
    "merge": (MERGE, "return 4;", ["--method", "median"], "tensor 'input': plugin 'median': merge failed with code 4"),
    "finish": (FINISH, "return 2;", ["--method", "median"], "quantizer 'input': observer 'median': plugin 'median': finish"),
    "weights": (SCAN, "return 9;", ["--weight-method", "median"], "weight 'stem_weight': plugin 'median': scan failed"),
    "finish of weights": (FINISH, "return 2;", ["--weight-method", "median"], "weight 'stem_weight': observer 'median'"),
    "scan exits": (SCAN, "exit(0);", ["--method", "median"], "scan of the plugin 'median' called exit"),
    "merge exits": (MERGE, "_Exit(0);", ["--method", "median"], "merge of the plugin 'median' called exit"),
    "finish aborts": (FINISH, "abort();", ["--method", "median"], "finish of the plugin 'median' aborted"),
    "weights abort": (SCAN, "abort();", ["--weight-method", "median"], "scan of the plugin 'median' aborted"),
    "scan crashes": (SCAN, "*(volatile int *)0 = 1;", ["--method", "median"], "scan of the plugin 'median' crashed"),
    "loading exits": (
        "static int append",
        "__attribute__((constructor)) static void away(void) { exit(0); }\nstatic int append",
        [],
        "loading of the plugin './wrong.so' called exit",
    ),
}


@pytest.mark.parametrize("case", list(FAILURES))
def test_failures_of_a_plugin_name_it(case, qcalib, examples, tmp_path):
    """By a code: also the tensor. By ending the program: the function that did."""
    old, new, options, says = FAILURES[case]
    if SANITIZED and "code" not in says and "observer" not in says and "failed" not in says:
        pytest.skip("sanitizers handle crashes, and the program has no exit of its own")
    source = (ROOT / "tests/install/median_observer.c").read_text()
    assert old in source
    (tmp_path / "wrong.c").write_text(source.replace(old, new))
    shared_object(tmp_path / "wrong.so", tmp_path / "wrong.c", warnings=())
    arguments = ["--data", examples / "digits_calib.h5", "--samples", 8, examples / "digits_cnn.onnx"]
    done = qcalib(*arguments, "--plugin", "./wrong.so", *options, code=3)
    assert says in done.err and not done.new_files
