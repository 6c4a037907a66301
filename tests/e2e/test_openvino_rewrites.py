# SPDX-License-Identifier: Apache-2.0
"""Small models whose file of --target openvino has the numbers of ONNX Runtime in OpenVINO too (docs/openvino.md): those that its
passes for low precision compute otherwise in another form, and one for each operator between two convolutions."""

import re

import h5py
import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import openvino_runtime
import pytest
from onnx import numpy_helper
from target_model import Graph
from test_openvino import decibels


@pytest.fixture(scope="module")
def there():
    if openvino_runtime.missing():
        pytest.skip(openvino_runtime.missing())
    runtime = openvino_runtime.OpenVino()
    yield runtime
    runtime.close()


@pytest.fixture
def both(there, qcalib, tmp_path):
    """both(body, weights, shapes, opset=17, **samples) -> (graph of the file, SQNR in ONNX Runtime, in OpenVINO) of `y`, by a
    job for target openvino. `body` is the text of nodes that read x and give y, `weights` has the shapes of constants."""

    def run(body, constants, shapes="float[n, 4, 8, 8] x", opset=17, batch=1, domains="", options=("--prefer", "integers"), **samples):
        rng = np.random.default_rng(4)
        ir = 8 if opset < 19 else 10
        text = f'<ir_version: {ir}, opset_import: ["" : {opset}{domains}]> g ({shapes}) => (float y) {{ {body} }}'
        model = onnx.parser.parse_model(text)
        for name, value in constants.items():
            if isinstance(value, tuple):
                value = (rng.normal(size=value) / np.sqrt(max(1, np.prod(value[1:])))).astype("f4")
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        onnx.save(model, tmp_path / "m.onnx")
        with h5py.File(tmp_path / "d.h5", "w") as f:
            for name, values in samples.items():
                f[name] = values
        qcalib("-q", "--no-report", "--advice", "off", *options, "--target", "openvino", "--data", "d.h5", "m.onnx", "-o", "q.onnx")
        starts = range(0, len(next(iter(samples.values()))), batch)
        parts = [{n: v[i : i + batch] for n, v in samples.items()} for i in starts]

        def in_onnxruntime(file):
            session = ort.InferenceSession(tmp_path / file, providers=["CPUExecutionProvider"])
            return np.concatenate([session.run(["y"], part)[0] for part in parts])

        want, got = in_onnxruntime("m.onnx"), there.run(tmp_path / "q.onnx", parts)
        assert not isinstance(got, str), got
        assert got[0]["y"].ndim == want.ndim
        return Graph(tmp_path / "q.onnx"), decibels(want, in_onnxruntime("q.onnx")), decibels(want, np.concatenate([g["y"] for g in got]))

    return run


IMAGES = np.random.default_rng(6).normal(size=(24, 4, 8, 8)).astype("f4")
ELU = "a = Conv (x, w) b = Elu (a)"


def same(found):
    _, in_onnxruntime, there = found
    assert in_onnxruntime > 20 and abs(in_onnxruntime - there) < 0.5, f"{in_onnxruntime:.1f} dB in ONNX Runtime, {there:.1f} dB in OpenVINO"


@pytest.mark.parametrize("value", [0, -0.7])
@pytest.mark.parametrize("pads", [[0, 0, 0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 2, 0], [0, 1, 0, 0, 0, 3, 0, 0], [0, 0, 1, 1, 0, 0, 1, 1], [0, 0, -1, 0, 0, 0, 2, 0]])
@pytest.mark.parametrize("reader", ["y = Conv (p, v)", "y = MaxPool <kernel_shape = [2, 2]> (p)", "q = AveragePool <kernel_shape = [2, 2]> (p) y = Conv (q, v)", "y = Sin (p)"])
def test_a_pad_along_one_axis(pads, value, reader, both):
    """OpenVINO moves the DequantizeLinear behind it, with numbers for each position. Operators behind it lost 2 to 30 dB."""
    constants = {"w": (8, 4, 3, 3), "v": (8, 8 + pads[1] + pads[5], 2, 2), "pads": np.int64(pads), "value": np.float32(value)}
    same(both(f"{ELU} p = Pad (b, pads, value) {reader}", constants, x=IMAGES))


@pytest.mark.parametrize("mode", ["edge", "reflect"])
def test_a_pad_of_copies_along_one_axis(mode, both):
    constants = {"w": (8, 4, 3, 3), "v": (8, 8, 2, 2), "pads": np.int64([0, 0, 0, 1, 0, 0, 0, 0])}
    same(both(f'{ELU} p = Pad <mode = "{mode}"> (b, pads) y = Conv (p, v)', constants, x=IMAGES))


def test_only_pads_that_openvino_computes_otherwise_are_of_integers(both):
    body = f"{ELU} p = Pad (b, pads) s = Conv (p, v) t = Conv (p, u) y = Add (s, t)"
    for pads, of in (([0, 0, 0, 1, 0, 0, 0, 0], "QuantizeLinear"), ([0, 0, 1, 1, 0, 0, 1, 1], "DequantizeLinear")):
        g, *_ = found = both(body, {"w": (8, 4, 3, 3), "v": (8, 8, 2, 2), "u": (8, 8, 2, 2), "pads": np.int64(pads)}, x=IMAGES)
        same(found)
        assert g.maker[g.of("Pad")[0].input[0]].op_type == of


@pytest.mark.parametrize("op", ["ReduceMax", "ReduceMin", "ReduceMean", "ReduceL2"])
@pytest.mark.parametrize("behind", ["y = MatMul (r, v)", "s = Sigmoid (r) y = MatMul (s, v)", "s = Mul (r, k) y = MatMul (s, v)", "s = Concat <axis = 1> (r, r) y = MatMul (s, u)"])
@pytest.mark.parametrize("batch", [1, 4])
def test_a_product_behind_a_reduction(op, behind, batch, both):
    """OpenVINO rounds within a maximum or minimum, and to levels of no negative number: 0 to 20 dB."""
    constants = {"w": (6, 4, 1, 1), "v": (6, 8), "u": (12, 8), "k": np.linspace(0.5, 2, 6).astype("f4")}
    same(both(f"a = Conv (x, w) r = {op} <axes = [2, 3], keepdims = 0> (a) {behind}", constants, batch=batch, x=IMAGES))


@pytest.mark.parametrize("op", ["ReduceSum", "ReduceMean"])
@pytest.mark.parametrize("axes", ["axes", "both"])
def test_a_sum_of_rows(op, axes, both):
    """OpenVINO sums integers of three dimensions along the second one for the first sample of a batch alone: 6 to 22 dB."""
    x = np.random.default_rng(3).normal(size=(24, 7, 8)).astype("f4")
    constants = {"w": (8, 8), "axes": np.int64([1]), "both": np.int64([1, 2])}
    same(both(f"s = {op} (x, {axes}) t = Sin (s) z = MatMul (x, w) y = Add (t, z)", constants, "float[n, 7, 8] x", opset=18, batch=4, x=x))


def test_a_maximum_that_is_an_output(both):
    same(both("a = Conv (x, w) y = ReduceMax <axes = [3]> (a)", {"w": (6, 4, 1, 1)}, x=IMAGES))


MASK = {
    "(1 - m) * v + b": "s = Sub (one, mask) k = Mul (s, low) t = Add (k, bias)",
    "b + (m - 1) * -v": "s = Sub (mask, one) k = Mul (s, high) t = Add (bias, k)",
    "(1 - m) / v + b": "s = Sub (one, mask) k = Div (s, tiny) t = Add (k, bias)",
    "m * -v + v + b": "s = Mul (mask, high) k = Add (s, low) t = Add (k, bias)",
    "(1 - m)[:, None] * v + b": "d = Sub (one, f) s = Unsqueeze (d, one_axis) k = Mul (s, low) t = Add (k, bias)",
    "expanded": "s = Sub (one, mask) k = Mul (s, low) e = Expand (k, shape) t = Add (e, bias)",
}


@pytest.mark.parametrize("form,low", [(f, v) for f in MASK for v in (-1e4, -1e9, -1e37, -3.4028235e38) if "/" not in f or v > -1e38])
def test_a_mask_beside_a_bias(form, low, both):
    """OpenVINO adds the constants of both, and the bias is lost in the mask: 6.8 dB."""
    rng = np.random.default_rng(2)
    body = f"""q = MatMul (x, wq) k0 = MatMul (x, wk) v = MatMul (x, wv) kt = Transpose <perm = [0, 2, 1]> (k0) dots = MatMul (q, kt)
        f = Cast <to = 1> (m) mask = Unsqueeze (f, one_axis) {MASK[form]} z = Add (dots, t) p = Softmax (z) h = MatMul (p, v) y = MatMul (h, wo)"""
    constants = dict.fromkeys(("wq", "wk", "wv", "wo"), (8, 8)) | {
        "one": np.float32(1), "low": np.float32(low), "high": np.float32(-low), "tiny": np.float32(1 / low), "one_axis": np.int64([1]),
        "shape": np.int64([1, 6, 1]), "bias": (rng.normal(size=(1, 6, 6)) * 2).astype("f4"),
    }  # fmt: skip
    m = (np.arange(6) < rng.integers(3, 7, 32)[:, None]).astype("i8")
    same(both(body, constants, "float[n, 6, 8] x, int64[n, 6] m", x=rng.normal(size=(32, 6, 8)).astype("f4"), m=m))


@pytest.mark.parametrize("tail", ["y = Softmax <axis = 0> (h)", "y = Relu (h)"])
def test_a_product_of_one_dimension(tail, both):
    """OpenVINO gives its result a second dimension."""
    rng = np.random.default_rng(3)
    body = f"c = MatMul (x, u) row = Squeeze (c, first) h = MatMul (row, w) {tail}"
    same(both(body, {"u": (6, 8), "w": (8, 8), "first": np.int64([0])}, "float[1, 6] x", x=rng.normal(size=(24, 6)).astype("f4")))


PRODUCTS = {
    "MatMul": "a = MatMul (x, w) y = MatMul (a, v)",
    "Gemm": "a = Gemm <transB = 1> (x, wt) y = Gemm <transB = 1> (a, vt)",
    "one number": "a = Gemm (x, w, k) y = Gemm (a, v, c)",
    "biases": "a = Gemm (x, w, b) y = Gemm (a, v, c)",
    "Relu": "a = MatMul (x, w) e = Relu (a) y = MatMul (e, v)",
    "Sigmoid": "a = MatMul (x, w) e = Sigmoid (a) y = MatMul (e, v)",
    "Reshape": "a = MatMul (x, w) e = Reshape (a, shape) y = MatMul (e, v)",
    "Transpose": "t = Transpose (x) a = MatMul (t, z) d = Relu (a) e = MatMul (d, v) y = Transpose (e)",
    "three": "a = MatMul (x, w) d = Relu (a) e = MatMul (d, u) f = Relu (e) y = MatMul (f, v)",
    "biases of rows": "a = Gemm (x, w, rows) y = Gemm (a, v, rows)",
    "sums of rows": "a = MatMul (x, w) e = Add (a, rows) d = MatMul (e, v) y = Add (d, rows)",
    "negative": "a = Gemm (x, w, b) e = Neg (a) y = Gemm (e, v, c)",
    "negative and rows": "a = Gemm (x, w, b) e = Neg (a) y = Gemm (e, v, rows)",
    "one column": "f = MatMul (x, one) a = Gemm (f, row, rows) y = Gemm (a, v)",
}


@pytest.mark.parametrize("form", PRODUCTS)
@pytest.mark.parametrize("batch", [1, 3, 8, 9])
def test_matrix_products_in_a_row(form, batch, both):
    """OpenVINO computes products of up to 8 rows as one kernel. On one thread its numbers were up to 10^9 times too large."""
    rng = np.random.default_rng(2)
    constants = {n: (rng.normal(size=s) / np.sqrt(s[0])).astype("f4") for n, s in (("w", (6, 13)), ("u", (13, 13)), ("v", (13, 4)), ("z", (batch, 13)))}
    constants |= {"b": rng.normal(size=13).astype("f4"), "c": rng.normal(size=4).astype("f4"), "k": np.full(13, 0.25, "f4")}
    constants |= {"rows": rng.normal(size=(batch, 1)).astype("f4"), "one": constants["w"][:, :1].copy(), "row": constants["u"][:1].copy()}
    constants |= {"wt": constants["w"].T.copy(), "vt": constants["v"].T.copy(), "shape": np.int64([-1, 13])}
    used = {n: c for n, c in constants.items() if n in re.findall(r"\w+", PRODUCTS[form])}
    x = rng.normal(size=(8 * batch, 6)).astype("f4")
    options = ("--prefer", "integers", "--bias-correction", "off")
    same(both(PRODUCTS[form], used, shapes=f"float[{batch}, 6] x", batch=batch, options=options, x=x))


@pytest.mark.parametrize("clip", ["e = Clip (a, low, high)", "e = Clip (a, low)", "e = Clip (a, zero, high)"])
@pytest.mark.parametrize("form", ["a = Gemm (r, w, b) {} y = Gemm (e, v)", "i = Reshape (x, image) a = Conv (i, u) {} y = Conv (e, k)", "i = Reshape (x, image) a = Add (i, i) {} y = Conv (e, k)"])
def test_a_clip_whose_limits_are_no_levels(clip, form, both):
    """OpenVINO makes the limits those of the levels, so the step is another: 2 to 4 dB are lost."""
    rng = np.random.default_rng(2)
    shapes = {"w": (16, 13), "v": (13, 4), "b": (13,), "u": (4, 4, 1, 1), "k": (8, 4, 1, 1)}
    constants = {n: rng.normal(size=s).astype("f4") for n, s in shapes.items()} | {"low": np.float32(-0.513), "high": np.float32(1.731), "zero": np.float32(0)}
    constants |= {"image": np.int64([-1, 4, 2, 2])}
    body = form.format(clip).replace("(r, ", "(x, ")
    used = {n: c for n, c in constants.items() if n in re.findall(r"\w+", body)}
    _, in_onnxruntime, there = both(body, used, shapes="float[n, 16] x", batch=8, x=rng.normal(size=(64, 16)).astype("f4"))
    assert in_onnxruntime > 20 and abs(in_onnxruntime - there) < 0.1, f"{in_onnxruntime:.1f} dB in ONNX Runtime, {there:.1f} dB in OpenVINO"


@pytest.mark.parametrize("op,gates", [("GRU", 3), ("LSTM", 4)])
@pytest.mark.parametrize("inputs,units", [(1, 5), (3, 1), (1, 1)])
def test_both_directions_of_one_input_or_unit(op, gates, inputs, units, both):
    """OpenVINO loads such an operator behind a product only if its weights are constants."""
    rng = np.random.default_rng(4)
    shapes = {"w": (8, inputs), "k": (2, gates * units, inputs), "r": (2, gates * units, units)}
    body = f'm = MatMul (x, w) y = {op} <hidden_size = {units}, direction = "bidirectional"> (m, k, r)'
    constants = {n: rng.normal(size=s).astype("f4") * 0.5 for n, s in shapes.items()}
    x = rng.normal(size=(64, 2, 8)).astype("f4")
    same(both(body, constants, shapes="float[2, 2, 8] x", batch=2, options=("--prefer", "integers"), x=x))


TO_ONE_COLUMN = [  # (size of the image, kernel, strides, groups)
    ((8, 3), (3, 3), (1, 2), 1), ((8, 4), (3, 3), (1, 2), 2), ((8, 7), (3, 5), (1, 3), 2), ((8, 3), (1, 3), (1, 3), 4),
    ((4, 4, 2), (2, 2, 2), (1, 1, 2), 1), ((4, 4, 4), (2, 2, 2), (1, 2, 3), 2), ((5, 6, 3), (2, 2, 3), (2, 2, 2), 1), ((4, 4, 4), (2, 2, 4), (1, 3, 3), 1),
]  # fmt: skip


def convolution(image, kernel, how, groups, channels, both):
    """A Conv of this kernel behind one of a single position, so that one of them is of integers."""
    body = f"c = Conv (x, u) y = Conv <{how}, group = {groups}> (c, w)"
    constants = {"u": (channels, 4, *[1] * len(image)), "w": (8, channels // groups, *kernel)}
    x = np.random.default_rng(3).normal(size=(16, 4, *image)).astype("f4")
    return both(body, constants, f"float[1, 4, {', '.join(map(str, image))}] x", x=x)


@pytest.mark.parametrize("image,kernel,strides,groups", TO_ONE_COLUMN)
def test_a_convolution_to_one_column(image, kernel, strides, groups, both):
    """OpenVINO computes it with wrong numbers from integers, -10 to 3 dB, if it has a stride along the last axis."""
    g, *_ = found = convolution(image, kernel, f"strides = {list(strides)}", groups, 8, both)
    same(found)
    assert g.of("Conv")[1].input[1] not in g.maker  # its weights are float


@pytest.mark.parametrize("kernel,depth_pads", [((3, 3, 3), 1), ((5, 1, 3), 2), ((7, 3, 3), 3)])
@pytest.mark.parametrize("channels", [1, 2, 3])
def test_a_convolution_of_one_depth(kernel, depth_pads, channels, both):
    """OpenVINO computes it with wrong numbers from integers of less than four channels: 0 dB."""
    pads = [depth_pads, kernel[1] // 2, 1] * 2
    same(convolution((1, 4, 4), kernel, f"pads = {pads}", 1, channels, both))


@pytest.mark.parametrize("spatial", [(1, 1), (1, 1, 1)])
@pytest.mark.parametrize("tail", ["y = PRelu (r, k)", "p = PRelu (r, k) y = Relu (p)", "c = Conv <group = 4> (r, u) d = Conv <group = 4> (r, v) y = Add (c, d)"])
def test_a_sum_of_convolutions_of_one_pixel(spatial, tail, both):
    """OpenVINO computes both as one kernel, which gives wrong numbers for a free batch of one: -98 to -7 dB."""
    rng = np.random.default_rng(1)
    ones = [1] * len(spatial)
    constants = {"k": rng.normal(size=(4, *ones)).astype("f4") * 2, "u": (4, 1, *ones), "v": (4, 1, *ones)}
    used = {n: c for n, c in constants.items() if n in re.findall(r"\w+", tail)}
    same(both(f"r = Relu (x) {tail}", used, f"float[n, 4, {', '.join(map(str, spatial))}] x", x=rng.normal(size=(24, 4, *spatial)).astype("f4")))


@pytest.mark.parametrize("epsilon", [1e-5, 1e-2])
@pytest.mark.parametrize("form", ["t = LayerNormalization <epsilon = {}> (x, s, b)", "t = InstanceNormalization <epsilon = {}> (x, sc, bc)"])
def test_an_epsilon_of_a_normalization(form, epsilon, both):
    """OpenVINO normalizes integers, so that an epsilon that is large beside their variance is lost: 6 to 17 dB."""
    rng = np.random.default_rng(1)
    constants = {"s": (6,), "b": (6,), "sc": (4,), "bc": (4,), "w": (6, 8)}
    body = f"{form.format(epsilon)} z = MatMul (x, w) u = MatMul (t, w) y = Add (u, z)"
    used = {n: c for n, c in constants.items() if n in re.findall(r"\w+", body)}
    x = (rng.normal(size=(24, 4, 6)) * np.array([1, 0.2, 0.1, 0.3])[:, None]).astype("f4")
    same(both(body, used, "float[n, 4, 6] x", opset=17, x=x))


@pytest.mark.parametrize("form", ["p = Conv (x, c) y = InstanceNormalization <epsilon = 0.01> (p, s, b)", "r = Reshape (x, image) p = MatMul (r, v) y = InstanceNormalization <epsilon = 0.01> (p, one, one)", "r = Reshape (x, image) p = MatMul (r, v) y = LayerNormalization <epsilon = 0.01> (p, k)"])
def test_an_epsilon_of_a_normalization_behind_a_product(form, both):
    """OpenVINO normalizes the accumulator, and the epsilon is lost: 7 to 13 dB."""
    rng = np.random.default_rng(1)
    shapes = {"s": (8,), "b": (8,), "c": (8, 4, 1), "v": (6,), "one": (1,), "k": (4,)}
    constants = {n: (rng.normal(size=s) * 0.1).astype("f4") for n, s in shapes.items()} | {"image": np.int64([-1, 1, 4, 6])}
    used = {n: c for n, c in constants.items() if n in re.findall(r"\w+", form)}
    x = (rng.normal(size=(24, 4, 6)) * np.array([1, 0.2, 0.1, 0.3])[:, None]).astype("f4")
    same(both(form, used, "float[n, 4, 6] x", opset=17, x=x))


@pytest.mark.parametrize("form", ["y = Div (p, rows)", "q = Neg (p) y = Mul (q, rows)"])
@pytest.mark.parametrize("shape,rows", [((8, 5, 8), (1, 8, 1, 1)), ((4, 8), (4, 1))])
@pytest.mark.parametrize("outputs", [1, 6])
def test_rows_of_a_product_that_are_scaled(form, shape, rows, outputs, both):
    """OpenVINO takes the numbers of rows for those of columns, 3 to 8 dB, or refuses the file."""
    rng = np.random.default_rng(1)
    constants = {"w": (8, outputs), "rows": rng.uniform(0.5, 2, rows).astype("f4")}
    same(both(f"p = MatMul (x, w) {form}", constants, f"float[n, {', '.join(map(str, shape))}] x", x=rng.normal(size=(24, *shape)).astype("f4")))


def test_a_batch_normalization_behind_a_product(both):
    """As scaled rows: OpenVINO refuses the file."""
    body = "c = Conv <strides = [2, 2]> (x, k) p = MatMul (c, w) q = Concat <axis = 1> (p) y = BatchNormalization (q, s, s, s, s)"
    constants = {"k": (4, 7, 2, 2), "w": (2, 16), "s": np.linspace(0.5, 2, 4).astype("f4")}
    same(both(body, constants, "float[n, 7, 4, 4] x", x=np.random.default_rng(1).normal(size=(24, 7, 4, 4)).astype("f4")))


COLUMNS = {
    "Unsqueeze": "y = Unsqueeze (p, last)",
    "Reshape": "y = Reshape (p, shape)",
    "Neg": "q = Neg (p) y = Unsqueeze (q, last)",
    "Add and Mul": "h = Add (p, b) q = Mul (h, k) y = Unsqueeze (q, last)",
    "MaxPool": "y = MaxPool <kernel_shape = [1, 2]> (p)",
    "Resize": 'y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric"> (p, , scales)',
    "Resize to sizes": 'y = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric"> (p, , , sizes)',
}


@pytest.mark.parametrize("form", COLUMNS)
@pytest.mark.parametrize("inputs,outputs", [(6, 8), (1, 6), (8, 1)])
@pytest.mark.parametrize("product", ["p = MatMul (x, w)", "p = Conv (x, c)"])
def test_columns_of_a_product_that_move(form, inputs, outputs, product, both):
    """OpenVINO refuses the file: it applies the scales of columns behind the operator."""
    rng = np.random.default_rng(1)
    columns = outputs if "MatMul" in product else inputs
    constants = {
        "w": (inputs, outputs), "c": (5, 5, 1, 1), "last": np.int64([-1]), "shape": np.int64([-1, 5, 3, columns, 1]), "b": (columns,), "k": np.linspace(0.5, 2, columns).astype("f4"),
        "scales": np.float32([1, 1, 1, 2]), "sizes": np.int64([1, 5, 4, 2 * columns]),
    }  # fmt: skip
    used = {n: c for n, c in constants.items() if n in re.findall(r"\w+", f"{product} {COLUMNS[form]}")}
    if form == "MaxPool" and columns == 1:
        pytest.skip("a pool of two columns has no result")
    same(both(f"{product} {COLUMNS[form]}", used, f"float[1, 5, 3, {inputs}] x", x=rng.normal(size=(24, 5, 3, inputs)).astype("f4")))


@pytest.mark.parametrize("channels,length", [(2, 6), (3, 4), (4, 2), (4, 3)])
@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_a_small_depthwise_convolution(channels, length, outputs, both):
    """OpenVINO reads wrong numbers where a channel has several outputs."""
    rng = np.random.default_rng(3)
    body = f"c = Conv (x, u) y = Conv <group = {channels}, pads = [1, 1]> (c, w)"
    constants = {"u": (channels, 4, 1), "w": (channels * outputs, 1, 3)}
    same(both(body, constants, "float[n, 4, l] x", x=rng.normal(size=(24, 4, length)).astype("f4")))


@pytest.mark.parametrize("op", ["ReduceL1", "ReduceLogSumExp", "ReduceLogSum", "ReduceSumSquare"])
def test_reductions_that_openvino_reads_from_newer_files(op, both):
    """In files of opset 13 to 17 it gives some no type, and refuses what is behind them."""
    body = f"a = Conv (x, w) p = Exp (a) r = {op} <axes = [2, 3], keepdims = 0> (p) y = Gemm (r, v)"
    same(both(body, {"w": (6, 4, 1, 1), "v": (6, 8)}, opset=11, x=IMAGES))


@pytest.mark.parametrize("op,gates", [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
@pytest.mark.parametrize("shape,weight,pool", [("n, 4, 8, 8", (8, 4, 3, 3), "p = ReduceMean <axes = [2], keepdims = 0> (q)"), ("n, 4, 12", (8, 4, 3), "p = Relu (q)")])
def test_a_convolution_with_a_bias_before_a_recurrent_unit(shape, weight, pool, op, gates, both):
    """If the batch is free, OpenVINO computes the convolution without its bias: 4 to 15 dB."""
    body = f"""c = Conv (x, w, b) r = Relu (c) d = Conv (r, v, b) q = Relu (d) {pool} t = Transpose <perm = [2, 0, 1]> (p)
        z = {op} <hidden_size = 6> (t, gw, gr) s = Squeeze (z, one) y = MatMul (s, o)"""
    constants = {"w": weight, "b": np.linspace(-1, 1, 8).astype("f4"), "v": (8, 8, *weight[2:]), "gw": (1, gates * 6, 8), "gr": (1, gates * 6, 6)}
    x = np.random.default_rng(9).normal(size=(24, *map(int, shape.split(", ")[1:]))).astype("f4")
    same(both(body, constants | {"one": np.int64([1]), "o": (6, 3)}, f"float[{shape}] x", x=x))


@pytest.mark.parametrize("node,domain", [("n = ai.onnx.ml.Normalizer (h)", "ai.onnx.ml"), ("n = com.microsoft.QuickGelu (h)", "com.microsoft")])
def test_operators_of_other_domains_are_written_as_their_functions(node, domain, both):
    """OpenVINO does not know most of them. For ONNX Runtime the file has them again."""
    body = f"h = MatMul (x, w) {node} y = MatMul (n, v)"
    version = 3 if domain == "ai.onnx.ml" else 1
    g, *_ = found = both(body, {"w": (6, 8), "v": (8, 4)}, "float[n, 6] x", domains=f', "{domain}" : {version}', options=("--skip", "y"), x=np.random.default_rng(3).normal(size=(32, 6)).astype("f4"))
    same(found)
    assert all(n.domain == "" for n in g.nodes)


@pytest.mark.parametrize("axis,channels", [(1, 16), (2, 8), (3, 8)])
@pytest.mark.parametrize("second", ["Relu", "Sigmoid", "Elu"])
def test_a_concat_that_a_convolution_reads(axis, channels, second, both):
    """If its values are int8, OpenVINO reads others: 9 to 19 dB. Values of both signs of nearly the same size are int8."""
    body = f"{ELU} c = Conv (x, v) d = {second} (c) k = Concat <axis = {axis}> (b, d) y = Conv (k, u)"
    same(both(body, {"w": (8, 4, 3, 3), "v": (8, 4, 3, 3), "u": (6, channels, 1, 1)}, x=IMAGES))


@pytest.mark.parametrize("how", ["pads = [1, 1, 1, 1]", "pads = [0, 0, 1, 0]", 'auto_pad = "SAME_UPPER"'])
@pytest.mark.parametrize("counted", [0, 1])
def test_an_average_pool_with_padding(how, counted, both):
    """OpenVINO pads integers with 0 instead of the zero point where padding counts: 0.7 dB."""
    body = f"{ELU} p = AveragePool <kernel_shape = [3, 3], {how}, count_include_pad = {counted}> (b) y = Conv (p, v)"
    same(both(body, {"w": (8, 4, 3, 3), "v": (6, 8, 1, 1)}, x=IMAGES))


@pytest.mark.parametrize("product,shape", [("p = MatMul (x, w)", "float[n, 4, 6, 6] x"), ("p = Conv (x, c)", "float[n, 4, 6, 6] x"), ("q = Conv (x, c) p = Relu (q)", "float[n, 4, 6, 6] x")])
@pytest.mark.parametrize("index", [1, [1], [[1, 0]]])
@pytest.mark.parametrize("axis", [1, 2, 3])
def test_a_gather_of_a_product(product, shape, index, axis, both):
    """OpenVINO gives it other dimensions, or ends with a signal: it applies the scales of channels behind it."""
    body = f"{product} g = Gather <axis = {axis}> (p, index) y = Sin (g)"
    constants = {"w": (6, 8)} if "MatMul" in product else {"c": (8, 4, 1, 1)}
    same(both(body, constants | {"index": np.int64(index)}, shape, options=(), x=np.random.default_rng(3).normal(size=(24, 4, 6, 6)).astype("f4")))


BETWEEN = {
    "concat const": "k = Concat <axis = 1> (b, cc) y = Conv (k, v12)",
    "concat const first": "k = Concat <axis = 1> (cc, b) y = Conv (k, v12)",
    "concat const axis3": "k = Concat <axis = 3> (b, c3) y = Conv (k, v8)",
    "concat two": "d = Conv (x, w2) e = Relu (d) k = Concat <axis = 1> (b, e) y = Conv (k, v16)",
    "concat two axis2": "d = Conv (x, w2) e = Relu (d) k = Concat <axis = 2> (b, e) y = Conv (k, v8)",
    "slice": "k = Slice (b, one, three, axis3) y = Conv (k, v8)",
    "slice c": "k = Slice (b, one, three, axis1) y = Conv (k, v2)",
    "split": "k, l = Split <axis = 1> (b) m = Conv (k, v4) n = Conv (l, v4) y = Add (m, n)",
    "gather": "k = Gather <axis = 1> (b, idx) y = Conv (k, v3)",
    "tile": "k = Tile (b, reps) y = Conv (k, v8)",
    "d2s": "k = DepthToSpace <blocksize = 2> (b) y = Conv (k, v2)",
    "s2d": "k = SpaceToDepth <blocksize = 2> (b) y = Conv (k, v32)",
    "resize near": 'k = Resize <mode = "nearest"> (b, , sc) y = Conv (k, v8)',
    "resize lin": 'k = Resize <mode = "linear"> (b, , sc) y = Conv (k, v8)',
    "avgpool": "k = AveragePool <kernel_shape = [2, 2]> (b) y = Conv (k, v8)",
    "avgpool pad": "k = AveragePool <kernel_shape = [3, 3], pads = [1,1,1,1]> (b) y = Conv (k, v8)",
    "avgpool pad incl": "k = AveragePool <kernel_shape = [3, 3], pads = [1,1,1,1], count_include_pad = 1> (b) y = Conv (k, v8)",
    "gap": "k = GlobalAveragePool (b) y = Conv (k, v8)",
    "mean": "k = ReduceMean <axes = [2, 3]> (b) y = Conv (k, v8)",
    "mean3": "k = ReduceMean <axes = [3]> (b) y = Conv (k, v8)",
    "maxpool pad": "k = MaxPool <kernel_shape = [3, 3], pads = [1,1,1,1]> (b) y = Conv (k, v8)",
    "mul": "d = Conv (x, w2) e = Sigmoid (d) k = Mul (b, e) y = Conv (k, v8)",
    "add": "d = Conv (x, w2) e = Relu (d) k = Add (b, e) y = Conv (k, v8)",
    "sub": "d = Conv (x, w2) e = Relu (d) k = Sub (b, e) y = Conv (k, v8)",
    "add const": "k = Add (b, ch) y = Conv (k, v8)",
    "mul const": "k = Mul (b, ch) y = Conv (k, v8)",
    "clip": "k = Clip (b, lo, hi) y = Conv (k, v8)",
    "leaky": "k = LeakyRelu (b) y = Conv (k, v8)",
    "prelu": "k = PRelu (b, ch) y = Conv (k, v8)",
    "convT": "y = ConvTranspose <strides = [2, 2]> (b, vt)",
    "convT2": "k = ConvTranspose <strides = [2, 2]> (b, vt) r = Relu (k) y = Conv (r, v4)",
    "group conv": "y = Conv <group = 2, pads = [1,1,1,1]> (b, vg)",
    "depthwise": "y = Conv <group = 8, pads = [1,1,1,1]> (b, vd)",
    "dilated": "y = Conv <dilations = [2, 2], pads = [2,2,2,2]> (b, v83)",
    "squeeze exc": "g = GlobalAveragePool (b) h = Conv (g, v88) s = Sigmoid (h) k = Mul (b, s) y = Conv (k, v8)",
    "reshape mm": "k = Reshape (b, sh) y = MatMul (k, vm)",
    "transpose mm": "k = Transpose <perm = [0, 2, 3, 1]> (b) y = MatMul (k, vm8)",
    "matmul act": "k = Reshape (b, sh) t = Transpose <perm = [0, 2, 1]> (k) y = MatMul (k, t)",
    "where": "k = Where (mask, b, zero) y = Conv (k, v8)",
    "expand": "g = GlobalAveragePool (b) k = Expand (g, eshape) y = Conv (k, v8)",
    "shuffle": "p = Reshape (b, shuf) q = Transpose <perm = [0, 2, 1, 3, 4]> (p) k = Reshape (q, unshuf) y = Conv (k, v8)",
    "softmax": "k = Softmax <axis = 1> (b) y = Conv (k, v8)",
    "lrn": "k = LRN <size = 3> (b) y = Conv (k, v8)",
    "instnorm": "k = InstanceNormalization (b, s8, s8) y = Conv (k, v8)",
    "pow": "k = Abs (b) l = Pow (k, two) y = Conv (l, v8)",
    "sum3": "d = Conv (x, w2) e = Conv (x, w3) k = Sum (b, d, e) y = Conv (k, v8)",
    "gelu": "k = Erf (b) y = Conv (k, v8)",
    "neg pad": "k = Pad (b, npads) y = Conv (k, v8)",
}
ROW = np.linspace(-1, 1, 8).astype("f4")
CONSTANTS = {
    "w": (8, 4, 3, 3), "w2": (8, 4, 3, 3), "w3": (8, 4, 3, 3), "v12": (6, 12, 1, 1), "v16": (6, 16, 1, 1), "v8": (6, 8, 1, 1), "v88": (8, 8, 1, 1),
    "v2": (6, 2, 1, 1), "v4": (6, 4, 1, 1), "v3": (6, 3, 1, 1), "v32": (6, 32, 1, 1), "v83": (6, 8, 3, 3), "vt": (8, 4, 2, 2),
    "vg": (6, 4, 3, 3), "vd": (8, 1, 3, 3), "vm": (36, 7), "vm8": (8, 7), "cc": (1, 4, 6, 6), "c3": (1, 8, 6, 2), "one": np.int64([1]),
    "three": np.int64([3]), "axis3": np.int64([3]), "axis1": np.int64([1]), "idx": np.int64([0, 5, 2]), "reps": np.int64([1, 1, 2, 1]),
    "sc": np.float32([1, 1, 2, 2]), "ch": ROW.reshape(8, 1, 1), "lo": np.float32(-0.3), "hi": np.float32(0.8), "sh": np.int64([1, 8, 36]),
    "mask": np.arange(36).reshape(1, 1, 6, 6) % 3 > 0, "zero": np.float32(0), "eshape": np.int64([1, 8, 3, 3]),
    "shuf": np.int64([1, 2, 4, 6, 6]), "unshuf": np.int64([1, 8, 6, 6]), "s8": np.abs(ROW) + np.float32(0.5), "two": np.float32(2),
    "npads": np.int64([0, 0, -1, 0, 0, 0, 0, -1]),
}  # fmt: skip


@pytest.mark.parametrize("name", BETWEEN)
def test_an_operator_between_convolutions(name, both):
    body = f"{ELU} {BETWEEN[name]}"
    used = {k: v for k, v in CONSTANTS.items() if re.search(rf"\b{k}\b", body)}
    free = list(BETWEEN).index(name) % 2 and "const" not in name  # a free batch
    same(both(body, used, f"float[{'n' if free else 1}, 4, 8, 8] x", x=IMAGES))
