# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite models with a state: variables and recurrent operators, run by qcalib and by TensorFlow Lite's interpreter.

  QCALIB       the program; build/release/qcalib when unset"""

import h5py
import numpy as np
import pytest

from test_tflite_export import interpreter_of, run
from test_tflite_import import command, ints, program, stored  # noqa: F401
from tflite_ops import model_of

F, I8, I32 = np.float32, np.int8, np.int32
HANDLE = ((), object, None, None, 0, None)


def handle(name, to):
    return ("VAR_HANDLE", [], [to], ("VarHandleOptions", {"SharedName": name}), 1)


def stream():
    """The last three rows seen, in int8: y = rows * weight, and the newer rows are assigned."""
    rng = np.random.default_rng(3)
    tensors = [
        stored((1, 1, 4), 0.05, 3), HANDLE, stored((1, 2, 4), 0.05, 3), stored((1, 3, 4), 0.05, 3), ints([0, 1, 0]), ints([1, 2, 4]), stored((1, 2, 4), 0.05, 3),
        stored((12, 5)[::-1], 0.01, 0, rng.integers(-127, 128, (5, 12))), ((5,), I32, [0.05 * 0.01], [0], 0, rng.integers(-900, 900, 5)), stored((1, 5), 0.04, -20),
        ints([-1, 12]), stored((1, 12), 0.05, 3),
    ]  # fmt: skip
    ops = [
        ("CALL_ONCE", [], [], ("CallOnceOptions", {"InitSubgraphIndex": 1}), 1), handle("rows", 1), ("READ_VARIABLE", [1], [2], None, 1),
        ("CONCATENATION", [2, 0], [3], ("ConcatenationOptions", {"Axis": 1}), 2), ("SLICE", [3, 4, 5], [6], ("SliceOptions", {}), 2),
        ("ASSIGN_VARIABLE", [1, 6], [], None, 1), ("RESHAPE", [3, 10], [11], None, 1), ("FULLY_CONNECTED", [11, 7, 8], [9], ("FullyConnectedOptions", {}), 4),
    ]  # fmt: skip
    first = ([handle("rows", 0), ("ASSIGN_VARIABLE", [0, 1], [], None, 1)], [HANDLE, stored((1, 2, 4), 0.05, 3, np.full((1, 2, 4), 3))], [], [])
    return model_of(ops, tensors, [0], [9], first)


def test_a_variable_is_an_input_and_an_output(program, tmp_path):  # noqa: F811
    """A row after the other through the interpreter; qcalib gets the state that it gave back for the row before."""
    content = stream()
    (tmp_path / "model.tflite").write_bytes(content)
    interpreter, state, seen = interpreter_of(content), np.full((1, 2, 4), 3, I8), set()
    for x in np.random.default_rng(5).integers(-128, 128, (6, 1, 1, 4)).astype(I8):
        with h5py.File(tmp_path / "in.h5", "w") as file:
            file["t0"], file["rows"] = x, state
        command(program, tmp_path, "run", "model.tflite", "--data", "in.h5", "--rounding", "tflite", "-o", "out.h5")
        with h5py.File(tmp_path / "out.h5") as file:
            got, state = file["t9"][:], file["rows_next"][:].astype(I8)
        assert np.array_equal(got.reshape(1, 5), run(interpreter, [x])[0])
        seen |= set(got.ravel().tolist())
    assert len(seen) > 15
    assert "each is an input, and an output" in command(program, tmp_path, "inspect", "-v", "model.tflite")


def test_variables_without_a_handle_and_of_two_types(program, tmp_path):  # noqa: F811
    row = stored((1, 4), 0.05, 3)
    bad = model_of([("READ_VARIABLE", [0], [1], None, 1)], [HANDLE, row], [], [1])
    two = model_of([handle("v", 1), ("ASSIGN_VARIABLE", [1, 0], [], None, 1), ("READ_VARIABLE", [1], [2], None, 1)], [row, HANDLE, stored((1, 4), 0.06, 3)], [0], [2])
    for content, code, text in ((bad, 3, "is not the handle of a variable"), (two, 4, "variable 'v' has several types")):
        (tmp_path / "model.tflite").write_bytes(content)
        assert text in command(program, tmp_path, "inspect", "model.tflite", code=code)


@pytest.mark.parametrize("by_time", [True, False])
@pytest.mark.parametrize("whole", [True, False])
def test_a_sequence_lstm(by_time, whole, program, tmp_path):  # noqa: F811
    """Float; whole: with peepholes. The interpreter keeps the state from run to run until its variables are reset."""
    steps, batch, width, hidden = 6, 1, 3, 5
    rng = np.random.default_rng(7)
    real = lambda *shape: (shape, F, None, None, 0, rng.normal(0, 0.5, shape))
    shape = (steps, batch, width) if by_time else (batch, steps, width)
    state = ((batch, hidden), F, None, None, 0, None, None, True)
    tensors = [(shape, F, None, None, 0, None), *(real(hidden, width) for _ in range(4)), *(real(hidden, hidden) for _ in range(4))]
    tensors += [*(real(hidden) for _ in range(3)), *(real(hidden) for _ in range(4)), state, state, ((*shape[:2], hidden), F, None, None, 0, None)]
    inputs = [*range(9), *(range(9, 12) if whole else [-1] * 3), *range(12, 16), -1, -1, 16, 17, *[-1] * 4]
    options = ("UnidirectionalSequenceLSTMOptions", {"FusedActivationFunction": 4, "TimeMajor": by_time, "CellClip": 10.0})
    content = model_of([("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [18], options, 1)], tensors, [0], [18])
    (tmp_path / "model.tflite").write_bytes(content)
    x = rng.normal(0, 1, (4, *shape)).astype(F)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["t0"] = x if by_time else x[:, 0]
    command(program, tmp_path, "run", "model.tflite", "--data", "in.h5", "-o", "out.h5")
    interpreter = interpreter_of(content)
    with h5py.File(tmp_path / "out.h5") as file:
        for got, v in zip(file["t18"][:], x, strict=True):
            interpreter.reset_all_variables()
            want = run(interpreter, [v])[0]
            assert np.abs(want).max() > 0.1 and 10 * np.log10((want**2).sum() / ((got.reshape(want.shape) - want) ** 2).sum()) > 100


def choice(then=1, other=2):
    """y = x * w if the sum of x is above 0, else x + w; both in int8, and one graph has an IF of its own."""
    row = lambda data=None: stored((1, 4), 0.05, 3, data)
    sign = lambda: [((), F, None, None, 0, None), ((), bool, None, None, 0, None), ((1, 4), F, None, None, 0, None), ints([0, 1]), ((), F, None, None, 0, F(0))]
    test = lambda at: [("DEQUANTIZE", [0], [at + 2], None, 2), ("SUM", [at + 2, at + 3], [at], ("ReducerOptions", {}), 1), ("GREATER", [at, at + 4], [at + 1], None, 1)]
    branch = ("IfOptions", {"ThenSubgraphIndex": then, "ElseSubgraphIndex": other})
    ends = ("IfOptions", {"ThenSubgraphIndex": 3, "ElseSubgraphIndex": 3})
    product = ([("MUL", [0, 1], [2], ("MulOptions", {}), 2)], [row(), row(), row()], [0, 1], [2])
    total = ([*test(3), ("IF", [4, 0, 1], [2], ends, 1)], [row(), row(), row(), *sign()], [0, 1], [2])
    last = ([("ADD", [0, 1], [2], ("AddOptions", {}), 2)], [row(), row(), row()], [0, 1], [2])
    ops = [*test(3), ("IF", [4, 0, 1], [2], branch, 1)]
    return model_of(ops, [row(), row([[40, -50, 90, 11]]), row(), *sign()], [0], [2], product, total, last)


def test_one_of_two_graphs(program, tmp_path):  # noqa: F811
    content = choice()
    (tmp_path / "model.tflite").write_bytes(content)
    x = np.random.default_rng(9).integers(-128, 128, (40, 1, 4)).astype(I8)
    with h5py.File(tmp_path / "in.h5", "w") as file:
        file["t0"] = x
    command(program, tmp_path, "run", "model.tflite", "--data", "in.h5", "--rounding", "tflite", "-o", "out.h5")
    interpreter = interpreter_of(content)
    with h5py.File(tmp_path / "out.h5") as file:
        got = file["t2"][:].reshape(40, 1, 4)
    assert np.array_equal(got, np.stack([run(interpreter, [v])[0] for v in x]))
    above = (x.astype(int) - 3).sum((1, 2)) > 0
    assert 5 < above.sum() < 35


@pytest.mark.parametrize(("graphs", "code", "text"), [((1, 4), 3, "it names subgraph 4 of 4"), ((0, 2), 3, "it names subgraph 0"), ((1, 1), 0, "")])
def test_graphs_that_are_not_there(graphs, code, text, program, tmp_path):  # noqa: F811
    (tmp_path / "model.tflite").write_bytes(choice(*graphs))
    assert text in command(program, tmp_path, "inspect", "model.tflite", code=code)


def test_a_graph_inside_of_itself(program, tmp_path):  # noqa: F811
    flag, row = ((), bool, None, None, 0, None), stored((1, 4), 0.05, 3)
    again = lambda then: ([("IF", [0, 1], [2], ("IfOptions", {"ThenSubgraphIndex": then, "ElseSubgraphIndex": 1}), 1)], [flag, row, row])
    (tmp_path / "model.tflite").write_bytes(model_of(*again(1), [0, 1], [2], (*again(1), [1], [2])))
    assert "graphs nested in IF" in command(program, tmp_path, "inspect", "model.tflite", code=4)


@pytest.mark.parametrize("kind", ["VAR_HANDLE", "READ_VARIABLE", "UNIDIRECTIONAL_SEQUENCE_LSTM", "IF"])
def test_an_operator_without_its_outputs(kind, program, tmp_path):  # noqa: F811
    row = stored((1, 4), 0.05, 3)
    (tmp_path / "model.tflite").write_bytes(model_of([handle("v", 1), (kind, [1, 0], [], None, 1)], [row, HANDLE], [0], [0]))
    assert "has no output" in command(program, tmp_path, "inspect", "model.tflite", code=3)


def test_a_choice_that_is_refused(program, tmp_path):  # noqa: F811
    flag, row = ((), bool, None, None, 0, None), stored((1, 4), 0.05, 3)
    both = ("IfOptions", {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 2})
    same = ([], [row], [0], [0])
    assigns = ([("ASSIGN_VARIABLE", [0, 1], [], None, 1)], [HANDLE, row], [0, 1], [1])
    wide = ([("CONCATENATION", [0, 0], [1], ("ConcatenationOptions", {"Axis": 1}), 2)], [row, stored((1, 8), 0.05, 3)], [0], [1])
    cases = [
        (model_of([handle("v", 2), ("IF", [0, 2, 1], [3], both, 1)], [flag, row, HANDLE, row], [0, 1], [3], assigns, assigns), "is assigned inside of IF"),
        (model_of([("IF", [0, 1], [2], both, 1)], [((1, 4), bool, None, None, 0, None), row, row], [0, 1], [2], same, same), "is not one element"),
        (model_of([("IF", [0, 1], [2], both, 1)], [flag, row, row], [0, 1], [2], same, wide), "differ in shape"),
    ]
    for content, text in cases:
        (tmp_path / "model.tflite").write_bytes(content)
        assert text in command(program, tmp_path, "inspect", "model.tflite", code=4)


def test_weights_larger_than_the_machine(program, tmp_path):  # noqa: F811
    """Weights that no buffer holds take no memory: an input of the model claims their shape."""
    hidden = 2**28
    real = lambda *shape: (shape, F, None, None, 0, None)
    tensors = [real(6, 1, 3), real(hidden, 3), real(hidden, hidden), real(hidden), real(1, hidden), real(6, 1, hidden)]
    inputs = [0, *[1] * 4, *[2] * 4, *[-1] * 3, *[3] * 4, -1, -1, 4, 4, *[-1] * 4]
    options = ("UnidirectionalSequenceLSTMOptions", {"FusedActivationFunction": 4, "TimeMajor": True})
    content = model_of([("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [5], options, 1)], tensors, [0, 1, 2, 3, 4], [5])
    (tmp_path / "model.tflite").write_bytes(content)
    np.savez(tmp_path / "x.npz", t0=np.zeros((1, 6, 1, 3), F))
    assert "memory" in command(program, tmp_path, "run", "model.tflite", "--data", "x.npz", "--memory-limit", "100M", "-o", "y.h5", code=5)
