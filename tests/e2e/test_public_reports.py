# SPDX-License-Identifier: Apache-2.0
"""Public bug reports of other quantizers and runtimes, rebuilt small: what went wrong there is right here
(docs/public-reports.md). Reference values are the float model's in ONNX Runtime."""

import json

import h5py
import numpy as np
import onnx
import onnx.parser
import onnxruntime as ort
import openvino_runtime
import pytest
from onnx import TensorProto, helper, numpy_helper
from target_model import Graph

RNG = np.random.default_rng
IMAGES = RNG(1).normal(size=(24, 4, 8, 8)).astype("f4")
ROWS = RNG(2).normal(size=(48, 12)).astype("f4")


def session(file, level=None):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    if level is not None:
        options.graph_optimization_level = level
    return ort.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def decibels(want, got):
    want, got = np.asarray(want, np.float64), np.asarray(got, np.float64)
    return 10 * np.log10((want**2).sum() / max(((want - got) ** 2).sum(), 1e-30))


class Case:
    def __init__(self, qcalib, folder, body, constants, shapes="float[n, 4, 8, 8] x", opset=17, outputs="float y", **samples):
        rng, self.folder, self.qcalib, self.samples = RNG(3), folder, qcalib, samples
        self.model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g ({shapes}) => ({outputs}) {{ {body} }}')
        for name, value in constants.items():
            if isinstance(value, tuple):
                value = (rng.normal(size=value) / np.sqrt(max(1, np.prod(value[1:])))).astype("f4")
            self.model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))

    def quantized(self, *options):
        """Writes the model and the samples, quantizes, and returns the graph of the file."""
        onnx.save(self.model, self.folder / "m.onnx")
        with h5py.File(self.folder / "d.h5", "w") as f:
            for name, values in self.samples.items():
                f[name] = values
        self.said = self.qcalib("--advice=off", *options, "--data=d.h5", "m.onnx", "-o", "q.onnx")
        return Graph(self.folder / "q.onnx")

    def outputs(self, file, level=None, batch=1):
        s, count = session(self.folder / file, level), len(next(iter(self.samples.values())))
        parts = [s.run(None, {n: v[i : i + batch] for n, v in self.samples.items()}) for i in range(0, count, batch)]
        return [np.concatenate(p) for p in zip(*parts)]

    def near(self, least=25):
        """The file with and without ONNX Runtime's optimizations, beside the float model."""
        want = self.outputs("m.onnx")
        for level in (ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL):
            for w, g in zip(want, self.outputs("q.onnx", level)):
                assert decibels(w, g) > least, f"{decibels(w, g):.1f} dB"

    def openvino(self):
        if openvino_runtime.missing():
            pytest.skip(openvino_runtime.missing())
        runtime = openvino_runtime.OpenVino()
        got = runtime.run(self.folder / "q.onnx", [{n: v[i : i + 1] for n, v in self.samples.items()} for i in range(8)])
        runtime.close()
        assert not isinstance(got, str), got
        return np.concatenate([g["y"] for g in got])


@pytest.fixture
def case(qcalib, tmp_path):
    return lambda *arguments, **how: Case(qcalib, tmp_path, *arguments, **how)


@pytest.mark.parametrize("group", [1, 2, 4])
def test_transposed_convolution_per_channel_with_a_bias(group, case):
    """onnxruntime 19694, 26456; AIMET 789, 3149: scales along the wrong axis."""
    c = case(f"a = Conv (x, u) y = ConvTranspose <group = {group}, strides = [2, 2]> (a, w, b)", {"u": (8, 4, 3, 3), "w": (8, 16 // group, 3, 3), "b": (16,)}, x=IMAGES)
    c.quantized("--prefer=integers")
    c.near()


def test_a_depthwise_channel_of_tiny_weights(case):
    """onnxruntime 11415, 24711: the scale of such a channel makes its bias leave int32."""
    w = (RNG(4).normal(size=(4, 1, 3, 3)) * np.float32([1, 1e-9, 0, 1]).reshape(4, 1, 1, 1)).astype("f4")
    c = case("a = Conv <group = 4, pads = [1, 1, 1, 1]> (x, w, b) r = Relu (a) y = Conv (r, v)", {"w": w, "b": np.float32([0.1, 2, 3, -0.2]), "v": (6, 4, 1, 1)}, x=IMAGES)
    c.quantized("--prefer=integers")
    c.near()


def test_tensors_without_elements_while_collecting(case):
    """onnxruntime 23600, 16738: the minimum of nothing."""
    body = "e = Slice (a, zero, zero, last) f = Concat <axis = 3> (e, a) y = Conv (f, v)"
    c = case("a = Conv (x, w) " + body, {"w": (8, 4, 3, 3), "v": (4, 8, 1, 1), "zero": np.int64([0]), "last": np.int64([3])}, x=IMAGES)
    c.quantized()
    c.near()


def test_a_concat_of_one_value(case):
    """onnxruntime-inference-examples 84: the operator on integers refuses it."""
    c = case("a = Conv (x, w) r = Relu (a) k = Concat <axis = 1> (r) y = Conv (k, v)", {"w": (8, 4, 3, 3), "v": (4, 8, 1, 1)}, x=IMAGES)
    for form in ("qdq", "qoperator"):
        c.quantized("--format", form)
        c.near()


def test_softmax_of_a_shape_that_is_not_known(case):
    """onnxruntime 13478: a softmax on integers without a rank does not load."""
    c = case("m = MatMul (x, w) s = Shape (x) r = Reshape (m, s) t = Softmax (r) y = MatMul (t, w)", {"w": (12, 12)}, "float[n, k] x", x=ROWS)
    for options in (("--target=integers",), ("--format=qoperator", "--prefer=integers")):
        c.quantized(*options)
        c.near(20)


@pytest.mark.parametrize("alpha,beta", [(2.0, 1.0), (0.5, 3.0), (1.0, 0.0)])
def test_a_gemm_with_factors(alpha, beta, case):
    """onnxruntime 28130: folds alpha into the bias of a QDQ Gemm."""
    c = case(f"a = Gemm <alpha = {alpha}, beta = {beta}> (x, w, b) y = Gemm (a, v)", {"w": (12, 16), "b": (16,), "v": (16, 4)}, "float[n, 12] x", x=ROWS)
    c.quantized("--prefer=integers")
    c.near()


@pytest.mark.parametrize("mode", ["half_pixel", "align_corners", "asymmetric"])
def test_a_linear_resize_between_integers(mode, case):
    """onnxruntime 28448: its kernel on int8 cuts where it has to round: half a step of bias."""
    body = f'a = Conv (x, w) r = Resize <mode = "linear", coordinate_transformation_mode = "{mode}"> (a, , , sizes) y = Conv (r, v)'
    c = case(body, {"w": (8, 4, 3, 3), "v": (4, 8, 1, 1), "sizes": np.int64([1, 8, 11, 13])}, "float[1, 4, 8, 8] x", x=IMAGES)
    c.quantized("--prefer=integers")
    c.near(30)


@pytest.mark.integers
def test_a_weight_that_the_graph_reshapes(case):
    """onnxruntime 28491: Reshape of a dequantized int8 constant gives 0 for negative numbers."""
    c = case("k = Reshape (w, shape) t = Transpose (k) y = MatMul (x, t)", {"w": (4, 4, 12), "shape": np.int64([16, 12])}, "float[n, 12] x", x=ROWS)
    g = c.quantized()
    c.near(30)
    assert "DequantizeLinear" in {n.op_type for n in g.nodes}


@pytest.mark.integers
def test_weights_that_branches_share_through_identities(case):
    """nncf 4172: no node was found for the weight."""
    body = "i = Identity (w) j = Identity (w) a = MatMul (x, i) r = Relu (a) b = MatMul (r, j) y = Add (a, b)"
    c = case(body, {"w": (12, 12)}, "float[n, 12] x", x=ROWS)
    g = c.quantized()
    c.near()
    assert all(g.maker[n.input[1]].op_type == "DequantizeLinear" for n in g.of("MatMul"))


def test_a_recurrent_unit_behind_convolutions_in_openvino(case):
    """nncf 2105: the quantized file of a GRU did not compile."""
    body = "c = Conv <pads = [1, 1]> (x, w) r = Relu (c) t = Transpose <perm = [2, 0, 1]> (r) g = GRU <hidden_size = 6> (t, gw, gr) s = Squeeze (g, one) y = MatMul (s, v)"
    constants = {"w": (8, 4, 3), "gw": (1, 18, 8), "gr": (1, 18, 6), "one": np.int64([1]), "v": (6, 3)}
    c = case(body, constants, "float[1, 4, 10] x", x=RNG(5).normal(size=(24, 4, 10)).astype("f4"))
    c.quantized("--target=openvino")
    c.near()
    want = np.concatenate([session(c.folder / "m.onnx").run(None, {"x": c.samples["x"][i : i + 1]})[0] for i in range(8)])
    assert decibels(want, c.openvino()) > 25


def test_a_bias_that_is_added_apart(case):
    """nncf 1936: bias correction did not find the bias of a node."""
    c = case("a = Conv (x, w) s = Add (a, b) r = Relu (s) y = Conv (r, v)", {"w": (8, 4, 3, 3), "b": (8, 1, 1), "v": (4, 8, 1, 1)}, x=IMAGES)
    g = c.quantized()
    c.near()
    assert "Add" not in {n.op_type for n in g.nodes}


def test_external_weights_of_four_bits(case):
    """Olive 2223: a file with the weights of another place."""
    c = case("a = MatMul (x, w) y = MatMul (a, v)", {"w": (12, 512), "v": (512, 8)}, "float[n, 12] x", x=ROWS)
    onnx.save(c.model, c.folder / "m.onnx", save_as_external_data=True, all_tensors_to_one_file=True, location="w.bin", size_threshold=64)
    with h5py.File(c.folder / "d.h5", "w") as f:
        f["x"] = ROWS
    c.qcalib("--data=d.h5", "--weight-type=int4", "--weight-block=32", "--activation-type=none", "m.onnx", "-o", "q.onnx")
    assert decibels(c.outputs("m.onnx")[0], c.outputs("q.onnx")[0]) > 15
    (c.folder / "w.bin").unlink()
    c.outputs("q.onnx")


@pytest.mark.parametrize("kind", ["int8", "int4", "mxfp8"])
def test_a_block_of_zeros(kind, case):
    """LiteRT: the scale of such a block was 0, which runtimes refuse."""
    w = RNG(6).normal(size=(64, 8)).astype("f4")
    w[:32, :4] = 0
    c = case("y = MatMul (x, w)", {"w": w}, "float[n, 64] x", x=RNG(7).normal(size=(48, 64)).astype("f4"))
    c.quantized(f"--weight-type={kind}", *["--weight-block=32"] * kind.startswith("int"), "--activation-type=none")
    c.near(15)
    assert all((numpy_helper.to_array(k) > 0).all() for k in onnx.load(c.folder / "q.onnx").graph.initializer if k.name.endswith("scale"))


def test_shapes_in_the_file_that_are_not_true(case):
    """ultralytics 13000: shapes that an optimizer left were taken for true, and the file did not run."""
    c = case("a = Conv (x, w) r = Relu (a) y = Conv (r, v)", {"w": (8, 4, 3, 3), "v": (4, 8, 1, 1)}, x=IMAGES)
    c.model.graph.value_info.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, ["n", 8, 9, 9]))
    c.quantized()
    assert decibels(c.outputs("m.onnx")[0], c.outputs("q.onnx")[0]) > 25


@pytest.mark.parametrize("options", [("--target=tensorrt",), ("--target=tensorrt", "--prefer=integers")])
def test_transposed_convolutions_that_tensorrt_refuses(options, case):
    """TensorRT 1934, 4668; Model-Optimizer 688: it has no integer kernel for groups, nor for volumes."""
    body = "a = Conv (x, u) g = ConvTranspose <group = 4> (a, w) e = Unsqueeze (g, axis) y = ConvTranspose (e, v)"
    c = case(body, {"u": (8, 4, 3, 3), "w": (8, 2, 3, 3), "axis": np.int64([2]), "v": (8, 4, 1, 2, 2)}, x=IMAGES)
    g = c.quantized(*options)
    c.near()
    grouped = next(n for n in g.of("ConvTranspose") if "w" in n.input[1])
    assert grouped.input[1] == "w" and grouped.input[0] not in {n.output[0] for n in g.of("DequantizeLinear")}


def test_the_scale_of_a_softmax_in_tflite(case):
    """onnx2tf 942: a softmax whose results sum to 23."""
    c = case("m = MatMul (x, w) y = Softmax (m)", {"w": (12, 10)}, "float[n, 12] x", x=ROWS)
    c.quantized("--target=tflite", "--prefer=integers")
    c.qcalib("run", "-q", "q.onnx", "--data=d.h5", "-o", "o.h5")
    with h5py.File(c.folder / "o.h5") as f:
        assert abs(f["y"][()].sum(-1) - 1).max() < 0.03


def test_encodings_of_every_value(case):
    """AIMET 4071, 4020: values without an encoding get one of the converter's own."""
    body = "a = Conv (x, w) r = Relu (a) p = MaxPool <kernel_shape = [2, 2]> (r) s = Sigmoid (p) k = Concat <axis = 1> (s, p) y = Conv (k, v)"
    c = case(body, {"w": (8, 4, 3, 3), "v": (4, 16, 1, 1)}, x=IMAGES)
    c.quantized()
    c.qcalib("--target=qnn", "--format=encodings", "--data=d.h5", "m.onnx", "-o", "q.json")
    made = json.loads((c.folder / "q.json").read_text())
    assert {"x", "r", "p", "s", "k", "y"} <= set(made["activation_encodings"]) and {"w", "v"} <= set(made["param_encodings"])


@pytest.mark.parametrize("shape", [(), (1,)])
def test_zero_points_that_are_vectors_of_one_element(shape, case):
    """onnxruntime 24518: a QDQ file with such zero points does not run."""
    c = case("q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) a = Conv (d, w) p = QuantizeLinear (a, t, k) y = DequantizeLinear (p, t, k)",
             {"s": np.full(shape, 0.03, "f4"), "z": np.full(shape, 120, "u1"), "t": np.full(shape, 0.02, "f4"), "k": np.full(shape, 128, "u1"), "w": (8, 4, 3, 3)}, x=IMAGES)  # fmt: skip
    c.quantized()
    c.near()


@pytest.mark.integers
def test_a_product_whose_pairs_saturate(case):
    """onnxruntime 16105: QGemm on processors without VNNI adds pairs in 16 bits."""
    c = case("y = Gemm (x, w)", {"w": np.where(np.arange(96).reshape(12, 8) % 3, 0.5, -0.01).astype("f4")}, "float[n, 12] x", x=np.abs(ROWS) + 1)
    g = c.quantized("--format=qoperator")
    c.near()
    worst = max(np.abs(numpy_helper.to_array(k).astype(int)).max() for k in onnx.load(c.folder / "q.onnx").graph.initializer if k.data_type == TensorProto.INT8)
    assert g and worst <= 127
    c.quantized("--overflow-fix=auto")
    pairs = next(numpy_helper.to_array(k).astype(int) for k in onnx.load(c.folder / "q.onnx").graph.initializer if k.name == "w_quantized")
    assert (255 * np.abs(pairs[0::2] + pairs[1::2])).max() <= 32767


def test_a_quantized_file_is_the_same_with_and_without_optimizations(case):
    """onnxruntime 25259, 32132: fused operators are a step of the result apart."""
    body = "a = Conv (x, w) r = Relu (a) b = Conv <pads = [1, 1, 1, 1]> (r, v) s = Add (b, r) m = AveragePool <kernel_shape = [2, 2]> (s) y = Conv (m, u)"
    c = case(body, {"w": (8, 4, 3, 3), "v": (8, 8, 3, 3), "u": (4, 8, 1, 1)}, x=IMAGES)
    c.quantized("--prefer=integers")
    c.near()
    both = [c.outputs("q.onnx", level)[0] for level in (ort.GraphOptimizationLevel.ORT_ENABLE_ALL, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)]
    assert decibels(*both) > 40
