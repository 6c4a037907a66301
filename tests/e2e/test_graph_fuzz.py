# SPDX-License-Identifier: Apache-2.0
"""Random graphs of graph_fuzz.py, and minimized graphs of earlier failures.

QCALIB_GRAPHS  how many random graphs; with QCALIB_LONG, 20,000 from another seed each time, which is printed
QCALIB_GRAPH_SEED  the seed of the first"""

import os
import time

import avx2_runtime
import graph_fuzz
import numpy as np
import onnx
import onnx.parser
import openvino_runtime
import pytest
from conftest import LONG

COUNT = int(os.environ.get("QCALIB_GRAPHS", 20000 if LONG else 600))
SEED = int(os.environ.get("QCALIB_GRAPH_SEED", int(time.time()) * 1000 if LONG else 1))
PARTS = 4 if LONG else 2  # each starts the runtimes anew
AVX2 = 0 if avx2_runtime.missing() else 20  # the default jobs of one graph of so many also run without VNNI
OPENVINO = 0 if openvino_runtime.missing() else 10  # one graph of so many also in OpenVINO
LITERT = 7 if openvino_runtime.PYTHON_OF_LITERT.exists() else 0  # and in LiteRT

FOUND = {
    "gemm_bias_of_one_element": """<ir_version: 8, opset_import: ["" : 13]>
        g (float[3, 1] x) => (float[3, 2] y) <float[1, 2] w = {1.0556, 0.0332}, float[1, 1] b = {-0.0739}>
        { y = Gemm (x, w, b) }""",
    "gemm_without_bias_has_beta": """<ir_version: 8, opset_import: ["" : 13]>
        g (float[3, 2] x) => (float[3, 2] y) <float[2, 2] w = {0.5, -0.25, 1.25, 0.75}>
        { y = Gemm <beta = 0.5> (x, w) }""",
    "average_pool_with_dilations": """<ir_version: 10, opset_import: ["" : 20]>
        g (float[1, 4, 4, 5] x) => (float[1, 4, 2, 3] y) <float[5, 5] w = {0.95, -0.27, -0.32, 0.16, 0.99, -0.68, 0.45, 0.34,
            0.25, 0.9, 0.22, -0.04, -0.2, -0.59, 0.54, 0.07, 0.67, 0.61, 0.88, -0.04, 0.3, 0.2, -0.1, 0.5, -0.7}>
        { m = MatMul (x, w)
          y = AveragePool <dilations = [2, 2], kernel_shape = [2, 2]> (m) }""",
    "average_pool_with_dilations_of_one": """<ir_version: 10, opset_import: ["" : 20]>
        g (float[1, 4, 4, 5] x) => (float[1, 4, 3, 4] y) <float[5, 5] w = {0.95, -0.27, -0.32, 0.16, 0.99, -0.68, 0.45, 0.34,
            0.25, 0.9, 0.22, -0.04, -0.2, -0.59, 0.54, 0.07, 0.67, 0.61, 0.88, -0.04, 0.3, 0.2, -0.1, 0.5, -0.7}>
        { m = MatMul (x, w)
          y = AveragePool <dilations = [1, 1], kernel_shape = [2, 2]> (m) }""",
    "average_pool_that_rounds_up_and_counts_padding": """<ir_version: 8, opset_import: ["" : 14]>
        g (float[1, 4, 4, 5] x) => (float[1, 4, 3, 2] y) <float[5, 5] w = {0.95, -0.27, -0.32, 0.16, 0.99, -0.68, 0.45, 0.34,
            0.25, 0.9, 0.22, -0.04, -0.2, -0.59, 0.54, 0.07, 0.67, 0.61, 0.88, -0.04, 0.3, 0.2, -0.1, 0.5, -0.7}>
        { m = MatMul (x, w)
          y = AveragePool <ceil_mode = 1, count_include_pad = 1, kernel_shape = [2, 3], strides = [1, 3]> (m) }""",
    "average_pool_with_dilations_between_integers": """<ir_version: 10, opset_import: ["" : 20]>
        g (float[1, 2, 6, 6] x) => (float[1, 2, 4, 4] y) <float[2, 2, 1, 1] w = {0.95, -0.27, -0.32, 0.16}>
        { c = Conv (x, w)
          p = AveragePool <dilations = [2, 2], kernel_shape = [2, 2]> (c)
          y = Conv (p, w) }""",
    "average_pool_that_rounds_up_between_integers": """<ir_version: 8, opset_import: ["" : 14]>
        g (float[1, 2, 6, 5] x) => (float[1, 2, 6, 2] y) <float[2, 2, 1, 1] w = {0.95, -0.27, -0.32, 0.16}>
        { c = Conv (x, w)
          p = AveragePool <ceil_mode = 1, count_include_pad = 1, kernel_shape = [1, 3], strides = [1, 3]> (c)
          y = Conv (p, w) }""",
    "product_over_nothing": """<ir_version: 8, opset_import: ["" : 13]>
        g (float[3, 4] x) => (float[3, 5] y) <float[0, 5] k = {}, int64[1] zero = {0}, int64[1] one = {1}, float[4, 5] w = {1, -0.5,
            0.25, 0.75, -1, 0.5, 0.3, 0.1, -0.2, 0.6, 0.7, -0.8, 0.9, 0.4, -0.3, 0.2, 0.15, -0.35, 0.45, 0.55}>
        { e = Slice (x, zero, zero, one)
          n = MatMul (e, k)
          m = MatMul (x, w)
          y = Add (n, m) }""",
    "row_after_a_product_with_a_vector": """<ir_version: 8, opset_import: ["" : 13]>
        g (float[3, 1, 2, 8] x) => (float[3, 1, 2] y, float[3, 1, 2, 2] z) <float[8] v = {-0.5, 0.53, -1.2, 0.14, -0.2, -0.46,
            0.03, -0.13}, float[1, 1, 2] k = {1.12, 0.79}, float[8, 2] w = {1, -0.5, 0.25, 0.75, -1, 0.5, 0.3, 0.1, -0.2, 0.6, 0.7,
            -0.8, 0.9, 0.4, -0.3, 0.2}>
        { m = MatMul (x, v)
          y = Add (k, m)
          z = MatMul (x, w) }""",
    "float16_padding_of_an_old_opset": """<ir_version: 8, opset_import: ["" : 7]>
        g (float16[3, 5] a, float[3, 4] x) => (float16[4, 5] b, float[3, 2] y) <float[4, 2] w = {1, -0.5, 0.25, 0.75, -1, 0.5, 0.3, 0.1}>
        { b = Pad <mode = "constant", pads = [1, 0, 0, 0], value = -1.25> (a)
          y = MatMul (x, w) }""",
    "softmax_of_unknown_rank": """<ir_version: 8, opset_import: ["" : 11]>
        g (float[N, 2, 1, 3] x) => (float y, float[N, 2, 1, 2] z) <float[3, 2] w = {1, -0.5, 0.25, 0.75, -1, 0.5}>
        { s = Squeeze (x)
          y = Softmax <axis = 0> (s)
          z = MatMul (x, w) }""",
    "hardmax_of_unknown_rank": """<ir_version: 8, opset_import: ["" : 11]>
        g (float[N, 2, 1, 3] x) => (float y, float[N, 2, 1, 2] z) <float[3, 2] w = {1, -0.5, 0.25, 0.75, -1, 0.5}>
        { s = Squeeze (x)
          y = Hardmax <axis = -2> (s)
          z = MatMul (x, w) }""",
    "batch_norm_of_an_empty_image": """<ir_version: 8, opset_import: ["" : 11]>
        g (float[1, 2, 0] a, float[3, 4] x) => (float[1, 2, 0] b, float[3, 2] y) <float[2] k = {0.5, 0.25}, float[4, 2] w = {1, -0.5,
            0.25, 0.75, -1, 0.5, 0.3, 0.1}>
        { b = BatchNormalization (a, k, k, k, k)
          y = MatMul (x, w) }""",
    "batch_norm_without_channels": """<ir_version: 8, opset_import: ["" : 11]>
        g (float[1, 0, 3] a, float[3, 4] x) => (float[1, 0, 3] b, float[3, 2] y) <float[0] k = {}, float[4, 2] w = {1, -0.5, 0.25, 0.75,
            -1, 0.5, 0.3, 0.1}>
        { b = BatchNormalization (a, k, k, k, k)
          y = MatMul (x, w) }""",
    "prelu_of_an_empty_volume": """<ir_version: 8, opset_import: ["" : 11]>
        g (float[1, 2, 4, 3, 2] a, float[3, 4] x) => (float[1, 2, 4, 0, 2] b, float[3, 2] y) <float[2, 1, 1, 1] k = {0.5, 0.25},
            int64[1] zero = {0}, int64[1] three = {3}, float[4, 2] w = {1, -0.5, 0.25, 0.75, -1, 0.5, 0.3, 0.1}>
        { e = Slice (a, zero, zero, three)
          b = PRelu (e, k)
          y = MatMul (x, w) }""",
    "batch_norm_of_a_part_without_elements": """<ir_version: 8, opset_import: ["" : 11]>
        g (float[1, 2, 4] a, float[3, 4] x) => (float[1, 2, 0] b, float[3, 2] y) <float[2] k = {0.5, 0.25}, int64[1] zero = {0},
            int64[1] two = {2}, float[4, 2] w = {1, -0.5, 0.25, 0.75, -1, 0.5, 0.3, 0.1}>
        { e = Slice (a, zero, zero, two)
          b = BatchNormalization (e, k, k, k, k)
          y = MatMul (x, w) }""",
    "max_of_three_in_a_function": """<ir_version: 8, opset_import: ["" : 13]>
        g (float[3, 7] x) => (float[3, 1] y) <float k = {-0.14737862}, float[7, 1] w = {1, -0.5, 0.25, 0.75, -1, 0.5, 0.3}>
        { s = Softplus (x)
          m = Max (s, x, k)
          y = MatMul (m, w) }""",
}


@pytest.fixture
def checks(program, tmp_path):
    return graph_fuzz.Checks(program, tmp_path)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_graphs(part, program, tmp_path):
    count = COUNT // PARTS
    first = SEED + part * count
    print(f"tests/e2e/graph_fuzz.py --seed {first} --count {count}")
    checks, used, failures = graph_fuzz.campaign(first, count, program, tmp_path, every=20, avx2=AVX2, openvino=OPENVINO, litert=LITERT)
    print(dict(used), dict(checks.done))
    assert not failures, "\n\n".join(failures)
    # It compared what it is for.
    done = checks.done
    assert done["float models"] > 0.9 * count and done["default jobs"] > 0.6 * count
    assert done["outputs equal"] > count and done["files loaded"] > count // 2
    assert done["outputs equal with AVX2"] or not AVX2
    assert done["outputs near in OpenVINO"] > count // 100 or not OPENVINO
    assert done["outputs near in LiteRT"] or not LITERT


@pytest.mark.parametrize("name", FOUND)
def test_found(name, checks):
    """The default job and that of integers, as for a random graph."""
    model = onnx.parser.parse_model(FOUND[name])
    onnx.checker.check_model(model, full_check=True)
    rng = np.random.default_rng(5)
    feeds = {
        i.name: [
            rng.normal(size=[d.dim_value if d.HasField("dim_value") else 1 for d in i.type.tensor_type.shape.dim]).astype(
                onnx.helper.tensor_dtype_to_np_dtype(i.type.tensor_type.elem_type)
            )
            for _ in range(graph_fuzz.SAMPLES)
        ]
        for i in model.graph.input
    }
    assert checks.float_model(model, feeds, {o.name: 1e-5 for o in model.graph.output})
    for options in ([], ["--prefer=integers"]):
        checks.write(model, feeds)
        checks.quantized(model, feeds, *options, strict=True)
    assert checks.done["files loaded"] and not checks.done["outputs not compared"]


@pytest.mark.parametrize("options", [(), ("--weight-type=uint4", "--symmetric=none"), ("--weight-type=int16",)])
def test_blocks_of_weights_by_a_contract_of_integers(options, checks, qcalib, tmp_path):
    """Weights in blocks were stored as if each were a float: more bytes than there are. What the report measures is what a run of the
    file by the same contract is."""
    rng = np.random.default_rng(3)
    weight = onnx.numpy_helper.from_array(rng.normal(size=(40, 64)).astype(np.float32), "w")
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]>
        g (float[6, 40] x) => (float[6, 64] y) { y = Gemm (x, w) }""")
    model.graph.initializer.append(weight)
    feeds = {"x": [rng.normal(size=(6, 40)).astype(np.float32) for _ in range(graph_fuzz.SAMPLES)]}
    checks.write(model, feeds)
    how = ("--data=x.h5", "--weight-block=16", "--prefer=integers", "--rounding=qnn-upward", *options)
    said = qcalib("quantize", *how, "--json", "m.onnx", "-o", "q.onnx").json
    qcalib("run", "q.onnx", "--data=x.h5", "--rounding=qnn-upward", "-o", "q.h5")
    with graph_fuzz.h5py.File(tmp_path / "q.h5") as file:
        got = file["y"][()].reshape(-1, 64)
    want = np.concatenate(feeds["x"]) @ onnx.numpy_helper.to_array(weight)
    sqnr = 10 * np.log10((want**2).sum() / ((want - got) ** 2).sum())
    assert abs(said["outputs"][0]["sqnr_db"] - sqnr) < 0.2


def test_a_wrong_result_is_found_and_made_smaller(program, tmp_path):
    """A program whose results are off: the failure is of one kind, and the smallest model has one node."""

    class Off(graph_fuzz.Checks):
        def outputs(self, model, feeds):
            return {n: v + v.dtype.type(1) if v.dtype.kind == "f" else v for n, v in super().outputs(model, feeds).items()}

    checks = Off(program, tmp_path)
    for seed in range(40):
        g, failure, repeat = graph_fuzz.checked(seed, checks)
        if failure and len(g.nodes) > 5:
            break
    assert failure.kind == "run differs"
    model, feeds, check, _ = repeat
    small, fed = graph_fuzz.reduced(failure, model, feeds, check)
    assert len(small.graph.node) == 1 < len(model.graph.node), graph_fuzz.text_of(small)
    with pytest.raises(graph_fuzz.Failure, match="run differs"):
        check(small, fed)


def test_every_operator_has_a_recipe_or_is_named(qcalib):
    """What `qcalib list ops` names and no recipe makes is listed here."""
    without = set(
        "BitCast STFT MelWeightMatrix TfIdfVectorizer TensorScatter NonMaxSuppression Col2Im RoiAlign MaxRoiPool DeformConv"
        " MaxUnpool DequantizeLinear QLinearConv QLinearMatMul RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial".split()
    )
    listed = {o["op"] for o in qcalib("list", "ops", "--json").json["ops"]}
    assert {o for o in listed if "::" not in o} - set(graph_fuzz.RECIPES) == without


@pytest.mark.parametrize(("groups", "outputs"), [(12, 1), (3, 4)])
def test_transposed_convolution_in_groups(groups, outputs, qcalib, tmp_path):
    """No pattern took it. Axis 1 of its weight has the output channels of one group, so scales are along axis 0."""
    rng = np.random.default_rng(9)
    weight = onnx.numpy_helper.from_array(rng.normal(size=(12, outputs, 3, 3)).astype(np.float32), "w")
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 12, 6, 6] x) => (float[n, {groups * outputs}, 12, 12] y)
        {{ y = ConvTranspose <group = {groups}, strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]> (x, w) }}""")
    model.graph.initializer.append(weight)
    onnx.save(model, tmp_path / "m.onnx")
    x = rng.normal(size=(8, 12, 6, 6)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    qcalib("--data=x.npy", "--advice=off", "--no-report", "m.onnx", "-o", "q.onnx")
    made = onnx.load(tmp_path / "q.onnx")
    assert {k.name: [d for d in k.dims if d > 1] for k in made.graph.initializer}["w_scale"] == [12]
    want, got = ([s.run(None, {"x": x})[0] for s in [graph_fuzz.session(tmp_path / name)]][0] for name in ("m.onnx", "q.onnx"))
    assert 10 * np.log10((want**2).sum() / ((want - got) ** 2).sum()) > 40
