# SPDX-License-Identifier: Apache-2.0
"""--state: states of streaming networks are fed back. ONNX Runtime runs the same networks step by step."""

import h5py
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from test_mpi import mpirun  # noqa: F401
from test_quantize_odd import ints, node, normal

STEPS = 40


def write(path, nodes, inputs, outputs, **weights):
    """inputs and outputs: name -> shape of floats."""
    port = lambda n, s: helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
    constants = [numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items()]
    ports = [[port(n, s) for n, s in p.items()] for p in (inputs, outputs)]
    made = helper.make_model(
        helper.make_graph(nodes, "g", *ports, constants),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    onnx.checker.check_model(made, full_check=True)
    onnx.save(made, path)


def matting(path):
    """A convolutional gate, as in a video matting network."""
    nodes = [
        node("Conv", ["src", "w0", "b0"], "c0", pads=[1] * 4),
        node("Relu", ["c0"], "f"),
        node("Concat", ["f", "r1i"], "k", axis=1),
        node("Conv", ["k", "w1", "b1"], "c1", pads=[1] * 4),
        node("Sigmoid", ["c1"], "z"),
        node("Conv", ["k", "w2", "b2"], "c2", pads=[1] * 4),
        node("Tanh", ["c2"], "n"),
        node("Mul", ["z", "r1i"], "old"),
        node("Sub", ["one", "z"], "rest"),
        node("Mul", ["rest", "n"], "new"),
        node("Add", ["old", "new"], "r1o"),
        node("Conv", ["r1o", "w3", "b3"], "c3", pads=[1] * 4),
        node("Sigmoid", ["c3"], "pha"),
    ]
    state = ["N", 8, 16, 16]
    weights = {f"w{k}": normal(o, i, 3, 3) for k, (i, o) in enumerate([(3, 8), (16, 8), (16, 8), (8, 1)])}
    biases = {f"b{k}": normal(o, 1)[:, 0] / 10 for k, o in enumerate([8, 8, 8, 1])}
    inputs, outputs = {"src": ["N", 3, 16, 16], "r1i": state}, {"pha": ["N", 1, 16, 16], "r1o": state}
    write(path, nodes, inputs, outputs, one=np.float32(1), **weights, **biases)
    return "src", {"r1i": "r1o"}


def lstm(path):
    """Two states [layers, batch, units] with a free batch, as in a transducer's predictor."""
    nodes = [
        node("LSTM", ["x", "w", "r", "", "", "h", "c"], ["all", "h_out", "c_out"], hidden_size=16),
        node("Squeeze", ["all", "axis"], "s"),
        node("MatMul", ["s", "v"], "y"),
    ]
    state = [1, "N", 16]
    inputs, outputs = {"x": [1, "N", 8], "h": state, "c": state}, {"y": [1, "N", 4], "h_out": state, "c_out": state}
    write(path, nodes, inputs, outputs, w=normal(1, 64, 8), r=normal(1, 64, 16), v=normal(16, 4), axis=ints(1))
    return "x", {"h": "h_out", "c": "c_out"}


def gru(path):
    """A GRU cell of single operators."""
    nodes = [
        node("Gemm", ["x", "wz", "bz"], "xz"),
        node("Gemm", ["h", "uz"], "hz"),
        node("Add", ["xz", "hz"], "sz"),
        node("Sigmoid", ["sz"], "z"),
        node("Gemm", ["x", "wn", "bz"], "xn"),
        node("Gemm", ["h", "un"], "hn"),
        node("Add", ["xn", "hn"], "sn"),
        node("Tanh", ["sn"], "n"),
        node("Sub", ["h", "n"], "d"),
        node("Mul", ["z", "d"], "m"),
        node("Add", ["n", "m"], "h_next"),
        node("Gemm", ["h_next", "v"], "y"),
    ]
    weights = dict(wz=normal(8, 24), wn=normal(8, 24), uz=normal(24, 24), un=normal(24, 24), v=normal(24, 5))
    inputs, outputs = {"x": ["N", 8], "h": ["N", 24]}, {"y": ["N", 5], "h_next": ["M", 24]}
    write(path, nodes, inputs, outputs, bz=normal(24, 1)[:, 0], **weights)
    return "x", {"h": "h_next"}


def causal(path):
    """Causal convolutions that keep the last frames, as in a streaming recogniser."""
    nodes = [
        node("Concat", ["past0", "x"], "k0", axis=2),
        node("Conv", ["k0", "w0", "b0"], "c0"),
        node("Relu", ["c0"], "f0"),
        node("Slice", ["k0", "from", "to", "axis"], "next0"),
        node("Concat", ["past1", "f0"], "k1", axis=2),
        node("Conv", ["k1", "w1", "b1"], "c1", dilations=[2]),
        node("Relu", ["c1"], "y"),
        node("Slice", ["k1", "from4", "to", "axis"], "next1"),
    ]
    inputs = {"x": [1, 6, 10], "past0": [1, 6, 2], "past1": [1, 12, 4]}
    outputs = {"y": [1, 8, 10], "next0": [1, 6, 2], "next1": [1, 12, 4]}
    ends = {"from": ints(-2), "from4": ints(-4), "to": ints(10**6), "axis": ints(2)}
    weights = dict(w0=normal(12, 6, 3), b0=normal(12, 1)[:, 0] / 10, w1=normal(8, 12, 3), b1=normal(8, 1)[:, 0] / 10)
    write(path, nodes, inputs, outputs, **ends, **weights)
    return "x", {"past0": "next0", "past1": "next1"}


NETWORKS = [matting, lstm, gru, causal]


def session(path):
    return ort.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def shapes(path, batch=1):
    return {i.name: [d if isinstance(d, int) else batch for d in i.shape] for i in session(path).get_inputs()}


def signal(path, name, steps=STEPS, seed=1):
    """Correlated steps [steps, ...] of the input `name`, as one unit of it takes them."""
    rng, made = np.random.default_rng(seed), []
    last = rng.normal(size=shapes(path)[name]).astype(np.float32)
    for _ in range(steps):
        last = (0.9 * last + 0.44 * rng.normal(size=last.shape)).astype(np.float32)
        made.append(last)
    return np.stack(made)


def sequence(path, name, x, states, first=None):
    """The outputs of each step in ONNX Runtime, in sequence, and the states that each step reads."""
    run, of = session(path), shapes(path)
    state = {k: np.zeros(of[k], np.float32) if first is None else first[k] for k in states}
    names, steps, read = [o.name for o in run.get_outputs()], [], []
    for piece in x:
        read.append(state)
        steps.append(dict(zip(names, run.run(None, {name: piece, **state}))))
        state = {k: steps[-1][o] for k, o in states.items()}
    return steps, read


def sqnr(wanted, got, of):
    a = np.stack([s[of] for s in wanted]).astype(np.float64)
    return 10 * np.log10(np.square(a).sum() / np.square(a - np.stack([s[of] for s in got])).sum())


def save(path, **arrays):
    """Units as the data sets of the program: those whose first axis is a free batch lose it."""
    with h5py.File(path, "w") as file:
        for name, value in arrays.items():
            file[name] = value


def options(states):
    return [f"--state={k}={o}" for k, o in states.items()]


def first_output(path, states):
    return next(o.name for o in session(path).get_outputs() if o.name not in states.values())


@pytest.mark.parametrize("network", NETWORKS)
def test_as_good_as_recorded_states(network, qcalib, tmp_path):
    """In sequence in ONNX Runtime, within 1 dB of a file that was calibrated with the states of ONNX Runtime."""
    name, states = network(tmp_path / "m.onnx")
    x = signal(tmp_path / "m.onnx", name)
    _, read = sequence(tmp_path / "m.onnx", name, x, states)
    save(tmp_path / "x.h5", **{name: x})
    save(tmp_path / "all.h5", **{name: x}, **{k: np.stack([r[k] for r in read]) for k in states})
    save(tmp_path / "zero.h5", **{name: x}, **{k: np.stack([0 * r[k] for r in read]) for k in states})
    rest = ("--no-report", "m.onnx", "--method=mse", "--prefer=integers")  # a choice by 40 samples depends on their order
    fed = qcalib("--data", "x.h5", *options(states), "-o", "fed.onnx", *rest)
    assert "is it a state" not in fed.err and "if it is a state" not in fed.err
    qcalib("--data", "all.h5", "-o", "all.onnx", *rest)
    test = signal(tmp_path / "m.onnx", name, seed=2)
    wanted = sequence(tmp_path / "m.onnx", name, test, states)[0]
    output = first_output(tmp_path / "m.onnx", states)
    fed, known = (
        sqnr(wanted, sequence(tmp_path / f, name, test, states)[0], output) for f in ("fed.onnx", "all.onnx")
    )
    assert fed > known - 1, (fed, known)
    if network is matting:
        qcalib("--data", "zero.h5", "-o", "zero.onnx", *rest)
        assert sqnr(wanted, sequence(tmp_path / "zero.onnx", name, test, states)[0], output) < fed - 3


@pytest.mark.parametrize("network", NETWORKS)
def test_run_and_compare_are_in_sequence(network, qcalib, tmp_path):
    name, states = network(tmp_path / "m.onnx")
    x = signal(tmp_path / "m.onnx", name)
    save(tmp_path / "x.h5", **{name: x})
    given = ("--data", "x.h5", *options(states))
    qcalib(*given, "-o", "q.onnx", "m.onnx", "--no-report", "--prefer=integers")
    wanted = sequence(tmp_path / "m.onnx", name, x, states)[0]
    got = sequence(tmp_path / "q.onnx", name, x, states)[0]
    output = first_output(tmp_path / "m.onnx", states)
    qcalib("run", "m.onnx", *given, "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as file:
        y = np.stack([s[output] for s in wanted])
        np.testing.assert_allclose(file[output][()].reshape(y.shape), y, rtol=1e-4, atol=1e-5)
    compared = qcalib("compare", "m.onnx", "q.onnx", *given, "--json").json
    seen = next(o["sqnr_db"] for o in compared["outputs"] if o["name"] == output)
    assert seen == pytest.approx(sqnr(wanted, got, output), abs=0.5)


@pytest.mark.integers
def test_the_report_measures_in_sequence(qcalib, tmp_path):
    """The last steps of a network that only adds up show the errors of all steps."""
    nodes = [node("Gemm", ["x", "w"], "g"), node("Relu", ["g"], "f"), node("Add", ["s", "f"], "t")]
    write(tmp_path / "m.onnx", nodes, {"x": ["N", 8], "s": ["N", 8]}, {"t": ["M", 8]}, w=normal(8, 8))
    x = np.random.default_rng(1).normal(size=(12, 1, 8)).astype(np.float32)
    save(tmp_path / "x.h5", x=x)
    done = qcalib("--data", "x.h5", "--state=s=t", "-o", "q.onnx", "m.onnx", "--report", "r")
    wanted, got = (sequence(tmp_path / f, "x", x, {"s": "t"})[0] for f in ("m.onnx", "q.onnx"))
    (line,) = (text for text in done.out.splitlines() if text.startswith("output"))
    assert float(line.split("SQNR")[1].split()[0]) == pytest.approx(sqnr(wanted, got, "t"), abs=0.5)


@pytest.mark.parametrize("first", ["one", "each", "steps", "zero"])
def test_lengths_and_first_states(first, qcalib, tmp_path):
    name, states = gru(tmp_path / "m.onnx")
    x, lengths = signal(tmp_path / "m.onnx", name), [7, 1, 20, 12]
    rng = np.random.default_rng(3)
    count = {"one": 1, "each": 4, "steps": STEPS}.get(first, 0)
    h = rng.normal(size=(count, 1, 24)).astype(np.float32)
    save(tmp_path / "x.h5", x=x, lengths=np.array(lengths), **({"h": h} if count else {}))
    qcalib("run", "m.onnx", "--data", "x.h5", "--state=h=h_next", "-o", "y.h5")
    wanted, at = [], 0
    for k, n in enumerate(lengths):
        start = {"one": 0, "each": k, "steps": at}.get(first)
        begin = None if start is None else {"h": h[start]}
        wanted += sequence(tmp_path / "m.onnx", name, x[at : at + n], states, begin)[0]
        at += n
    with h5py.File(tmp_path / "y.h5") as file:
        y = np.stack([s["y"] for s in wanted])
        np.testing.assert_allclose(file["y"][()].reshape(y.shape), y, rtol=1e-4, atol=1e-5)


def test_threads_memory_and_parts(qcalib, tmp_path):
    """The same bytes; statistics of parts hold whole sequences and merge to those of all."""
    name, states = matting(tmp_path / "m.onnx")
    save(tmp_path / "x.h5", **{name: signal(tmp_path / "m.onnx", name)}, lengths=np.array([5, 10, 5, 20]))
    given = ("--data", "x.h5", *options(states))
    made = set()
    for extra in (["--threads=1"], ["--threads=2"], ["--threads=4", "--memory-limit=300M"]):
        qcalib(*given, *extra, "-o", "q.onnx", "m.onnx", "--no-report")
        made.add((tmp_path / "q.onnx").read_bytes())
    assert len(made) == 1
    for k in (0, 1):
        qcalib("collect", *given, f"--shard={k}/2", "m.onnx", "-o", f"{k}.h5")
    qcalib("merge", "0.h5", "1.h5", "-o", "parts.h5")
    qcalib("collect", *given, "m.onnx", "-o", "all.h5")
    for stats in ("all", "parts"):
        qcalib("quantize", "--stats", f"{stats}.h5", "m.onnx", "-o", f"{stats}.onnx", "--no-report")
    assert (tmp_path / "all.onnx").read_bytes() == (tmp_path / "parts.onnx").read_bytes()


def test_eval_is_in_sequence(qcalib, tmp_path):
    """Top-1 of labels that ONNX Runtime's classes in sequence are; single steps give others."""
    name, states = gru(tmp_path / "m.onnx")
    x = signal(tmp_path / "m.onnx", name)
    labels = np.array([s["y"].argmax() for s in sequence(tmp_path / "m.onnx", name, x, states)[0]])
    save(tmp_path / "x.h5", x=x[:, 0], labels=labels)
    top = lambda *o: qcalib("eval", "m.onnx", "--data", "x.h5", *o, "--json").json["models"][0]["value"]
    assert top("--state=h=h_next") == 1
    save(tmp_path / "x.h5", x=x[:, 0], labels=labels, h=np.zeros((STEPS, 24), np.float32))
    assert top() < 1


def test_first_samples(qcalib, tmp_path):
    """--samples takes the first steps, for which the states of the others are not needed."""
    name, states = gru(tmp_path / "m.onnx")
    x = signal(tmp_path / "m.onnx", name)
    save(tmp_path / "x.h5", x=x)
    save(tmp_path / "few.h5", x=x[:12])
    for data, extra in (("x", ["--samples=12"]), ("few", [])):
        qcalib("--data", f"{data}.h5", *extra, *options(states), "-o", f"{data}.onnx", "m.onnx", "--no-report")
    assert (tmp_path / "x.onnx").read_bytes() == (tmp_path / "few.onnx").read_bytes()


def test_proposals(qcalib, tmp_path):
    name, states = matting(tmp_path / "m.onnx")
    x = signal(tmp_path / "m.onnx", name)
    save(tmp_path / "x.h5", src=x)
    refused = qcalib("--data", "x.h5", "m.onnx", "--no-report", code=3)
    assert "if it is the state 'r1o' of the step before, give --state r1i=r1o" in refused.err
    save(tmp_path / "x.h5", src=x, r1i=np.zeros((STEPS, 1, 8, 16, 16), np.float32))
    told = qcalib("--data", "x.h5", "m.onnx", "--no-report").err
    assert "if it is a state, give --state r1i=r1o" in told
    # Of outputs of one shape the one whose name is most similar; the order differs.
    nodes = [node("Add", ["x", s], f"new_{s}") for s in ("c", "h")] + [node("MatMul", ["new_c", "w"], "y")]
    ports = {"x": [1, 4], "h": [1, 4], "c": [1, 4]}
    write(tmp_path / "two.onnx", nodes, ports, {"new_c": [1, 4], "new_h": [1, 4], "y": [1, 4]}, w=normal(4, 4))
    save(tmp_path / "two.h5", x=normal(5, 1, 4), c=np.zeros((5, 1, 4), np.float32), h=np.zeros((5, 1, 4), np.float32))
    told = qcalib("--data", "two.h5", "two.onnx", "--no-report", "--prefer=size").err
    assert "--state c=new_c" in told and "--state h=new_h" in told


@pytest.mark.parametrize(
    "given, data, code, text",
    [
        (["--state=h"], {}, 2, "INPUT=OUTPUT"),
        (["--state=g=h_next"], {}, 2, "no input 'g' ('qcalib inspect' shows them)"),
        (["--state=h=h_nxt"], {}, 2, "no output 'h_nxt' (did you mean 'h_next'?)"),
        (["--state=h=h_next", "--state=h=h_next"], {}, 2, "'h' is given twice"),
        (["--state=h=h_next", "--seed=1", "--samples=4"], {}, 2, "--seed draws them"),
        (["--state=h=h_next"], {"lengths": np.array([4, 4])}, 3, "the sum of the lengths is 8"),
        (["--state=h=h_next"], {"lengths": np.array([40, 0])}, 3, "sequence 1 has the length 0"),
        (["--state=h=h_next"], {"lengths": np.array([-1, 41])}, 3, "sequence 0 has the length -1"),
        (["--state=h=h_next"], {"lengths": np.array([[40]])}, 3, "one number for each sequence"),
        (["--state=h=h_next"], {"h": np.zeros((3, 1, 24), np.float32)}, 3, "it has 3 states"),
        (["--state=h=y"], {}, 3, "the next state of 'h' is f32 [1,5], the state is f32 [1,24]"),
    ],
)
@pytest.mark.bad_input
def test_mistakes(given, data, code, text, qcalib, tmp_path):
    name, _ = gru(tmp_path / "m.onnx")
    save(tmp_path / "x.h5", x=signal(tmp_path / "m.onnx", name), **data)
    result = qcalib("run", "m.onnx", "--data", "x.h5", *given, "-o", "y.h5", code=code)
    assert text in result.err and not result.new_files


def test_integer_ends_leave_states_alone(qcalib, tmp_path):
    """--io-type makes the frames integers; states, whose ends have scales of their own, only if they are named."""
    name, states = causal(tmp_path / "m.onnx")
    save(tmp_path / "x.h5", x=signal(tmp_path / "m.onnx", name))
    given = ("--data", "x.h5", *options(states))
    kinds = lambda: {p.name: p.type.tensor_type.elem_type for p in onnx.load(tmp_path / "q.onnx").graph.input}
    qcalib(*given, "m.onnx", "--no-report", "-o", "q.onnx", "--io-type=uint8")
    assert kinds() == {"x": TensorProto.UINT8, "past0": TensorProto.FLOAT, "past1": TensorProto.FLOAT}
    seen = qcalib("compare", "m.onnx", "q.onnx", *given, "--json").json["outputs"]
    assert all(o["sqnr_db"] > 25 for o in seen)


@pytest.mark.parametrize(
    "more",
    [["--propagate"], ["--accumulator=24"], ["--weight-type=int4"], ["--max-drop=1", "--eval=e.h5"], ["--min-sqnr=20"],
     ["--size=60%"], ["--sensitivity"], ["--advice=on"], ["--activation-type=uint16"], ["--equalize=on"]],
    ids=lambda m: m[0],
)
def test_with_other_options(more, qcalib, tmp_path):
    name, states = gru(tmp_path / "m.onnx")
    x = signal(tmp_path / "m.onnx", name)
    save(tmp_path / "x.h5", x=x)
    labels = np.array([s["y"].argmax() for s in sequence(tmp_path / "m.onnx", name, x, states)[0]])
    save(tmp_path / "e.h5", x=x[:, 0], labels=labels)
    done = qcalib("--data", "x.h5", *options(states), "m.onnx", "--no-report", "-o", "q.onnx", "--prefer=integers", *more, code=None)
    assert done.code in (0, 1) and (tmp_path / "q.onnx").exists(), done.err


def test_processes(mpirun, qcalib, tmp_path):
    """Processes of MPI share whole sequences; the bytes are those of one process."""
    name, states = gru(tmp_path / "m.onnx")
    save(tmp_path / "x.h5", **{name: signal(tmp_path / "m.onnx", name)}, lengths=np.array([11, 9, 20]))
    given = ("--data", "x.h5", *options(states), "m.onnx", "--no-report", "--advice=off", "--prefer=integers")
    qcalib(*given, "-o", "one.onnx")
    mpirun(2, "quantize", *given, "-o", "two.onnx")
    assert (tmp_path / "one.onnx").read_bytes() == (tmp_path / "two.onnx").read_bytes()


def free(path):
    """A state of two free axes."""
    nodes = [node("Conv", ["x", "w"], "c", pads=[1] * 4), node("Relu", ["c"], "f"), node("Add", ["f", "s"], "a"), node("Tanh", ["a"], "t")]
    shape = ["N", 4, "H", "W"]
    write(path, nodes, {"x": ["N", 3, "H", "W"], "s": shape}, {"t": shape}, w=normal(4, 3, 3, 3))


def test_a_first_state_gives_free_axes(qcalib, tmp_path):
    free(tmp_path / "m.onnx")
    x = np.random.default_rng(1).normal(size=(6, 1, 3, 8, 10)).astype(np.float32)
    save(tmp_path / "x.h5", x=x)
    told = qcalib("run", "m.onnx", "--data", "x.h5", "--state=s=t", "-o", "y.h5", code=3).err
    assert "of the state 's' are free in the model; give its first state" in told
    first = np.zeros((1, 1, 4, 8, 10), np.float32)
    save(tmp_path / "x.h5", x=x, s=first)
    qcalib("run", "m.onnx", "--data", "x.h5", "--state=s=t", "-o", "y.h5")
    wanted = sequence(tmp_path / "m.onnx", "x", x, {"s": "t"}, {"s": first[0]})[0]
    with h5py.File(tmp_path / "y.h5") as file:
        y = np.stack([s["t"] for s in wanted])
        np.testing.assert_allclose(file["t"][()].reshape(y.shape), y, atol=1e-5)
    qcalib("--data", "x.h5", "--state=s=t", "m.onnx", "--no-report", "-o", "q.onnx")


def test_integers_as_states(qcalib, tmp_path):
    """A counter of steps in int64, which selects a row of a table."""
    nodes = [
        node("Add", ["n", "one"], "n_next"),
        node("Gather", ["table", "n"], "p", axis=0),
        node("Gemm", ["x", "w"], "g"),
        node("Add", ["g", "p"], "y"),
    ]
    port = lambda n, t, s: helper.make_tensor_value_info(n, t, s)
    weights = dict(one=ints(1), table=normal(50, 6), w=normal(8, 6))
    graph = helper.make_graph(
        nodes,
        "g",
        [port("x", TensorProto.FLOAT, ["N", 8]), port("n", TensorProto.INT64, [1])],
        [port("y", TensorProto.FLOAT, ["N", 6]), port("n_next", TensorProto.INT64, [1])],
        [numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    x = np.random.default_rng(1).normal(size=(20, 1, 8)).astype(np.float32)
    save(tmp_path / "x.h5", x=x)
    qcalib("run", "m.onnx", "--data", "x.h5", "--state=n=n_next", "-o", "y.h5")
    with h5py.File(tmp_path / "y.h5") as file:
        y = x[:, 0] @ weights["w"] + weights["table"][:20]
        np.testing.assert_allclose(file["y"][()].reshape(y.shape), y, atol=1e-5)
    qcalib("--data", "x.h5", "--state=n=n_next", "m.onnx", "--no-report", "--prefer=integers")


def test_half_precision_states(qcalib, tmp_path):
    """Frames and states in float16; ONNX Runtime runs the file step by step."""
    name, states = gru(tmp_path / "f.onnx")
    model = onnx.load(tmp_path / "f.onnx")
    for port in (*model.graph.input, *model.graph.output):
        port.type.tensor_type.elem_type = TensorProto.FLOAT16
    for i in model.graph.initializer:
        i.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(i).astype(np.float16), i.name))
    onnx.save(model, tmp_path / "m.onnx")
    x = signal(tmp_path / "f.onnx", name).astype(np.float16)
    save(tmp_path / "x.h5", x=x)
    given = ("--data", "x.h5", *options(states))
    qcalib(*given, "m.onnx", "--no-report", "-o", "q.onnx", "--prefer=integers")
    first = {"h": np.zeros((1, 24), np.float16)}
    wanted, got = (sequence(tmp_path / f, name, x, states, first)[0] for f in ("m.onnx", "q.onnx"))
    compared = qcalib("compare", "m.onnx", "q.onnx", *given, "--json").json["outputs"]
    seen = next(o["sqnr_db"] for o in compared if o["name"] == "y")
    assert seen > 20 and seen == pytest.approx(sqnr(wanted, got, "y"), abs=1)
