# SPDX-License-Identifier: Apache-2.0
"""Operators that are functions of others: ONNX's own and ONNX Runtime's (com.microsoft), as its optimizer and exporters
write them, and functions defined in a model. Reference: ONNX Runtime."""
import avx2_runtime
import h5py
import ml_dtypes
import numpy
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from test_run import by_name

R = numpy.random.default_rng(7)
MS = "com.microsoft"


def f(*shape, scale=1.0):
    return (R.standard_normal(shape) * scale).astype(numpy.float32)


def ints(low, high, *shape, dtype=numpy.int64):
    return R.integers(low, high, shape).astype(dtype)


class Fixed:
    """An input that is a constant of the model."""

    def __init__(self, value):
        self.value = numpy.asarray(value)


def c(value):
    return Fixed(value)


def caches(rows, size):
    angle = numpy.arange(rows)[:, None] / 10.0 ** numpy.linspace(0, 2, size)
    return c(numpy.cos(angle).astype(numpy.float32)), c(numpy.sin(angle).astype(numpy.float32))


X = f(2, 5, 16)
QKV, BIAS = c(f(16, 48, scale=0.3)), c(f(48))
LENGTHS = numpy.array([3, 5], numpy.int32)
RAW = numpy.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], numpy.int32)
PAST = f(2, 2, 4, 3, 4)
HEADS = f(2, 4, 3, 4), f(2, 4, 3, 4)
COS, SIN = caches(20, 4)
GAMMA, BETA = c(f(16)), c(f(16))
EMBED = [ints(0, 30, 2, 5, dtype=numpy.int32), ints(0, 2, 2, 5, dtype=numpy.int32), c(f(30, 16)), c(f(8, 16)), c(f(2, 16)), GAMMA, BETA]
SEQLENS = [c(numpy.array([4, 4], numpy.int32)), c(numpy.int32(5))]
LATER = [c(numpy.array([7, 7], numpy.int32)), c(numpy.int32(8))]
Q8, W8 = ints(0, 256, 2, 5, 16, dtype=numpy.uint8), c(ints(0, 256, 16, 48, dtype=numpy.uint8))
# name: operator, inputs (arrays are inputs of the model, None is left out), attributes, number of outputs to compare, by index
CASES = {
    "gelu": ("Gelu", [X], {}),
    "bias_gelu": ("BiasGelu", [X, GAMMA], {}),
    "fast_gelu": ("FastGelu", [X], {}),
    "fast_gelu_bias": ("FastGelu", [X, GAMMA], {}),
    "quick_gelu": ("QuickGelu", [X], {}),
    "quick_gelu_alpha": ("QuickGelu", [X], {"alpha": 0.9}),
    "fused_matmul": ("FusedMatMul", [f(2, 3, 5), f(2, 5, 4)], {"alpha": 0.5}),
    "fused_matmul_transposed": ("FusedMatMul", [f(2, 5, 3), f(2, 4, 5)], {"transA": 1, "transB": 1}),
    "fused_matmul_batch": ("FusedMatMul", [f(3, 2, 5), f(2, 5, 4)], {"transBatchA": 1}),
    "fused_matmul_batch_transposed": ("FusedMatMul", [f(2, 3, 6, 5), f(6, 2, 3, 4)], {"transBatchB": 1, "transA": 1}),
    "fused_gemm": ("FusedGemm", [f(3, 5), c(f(4, 5)), c(f(4))], {"transB": 1, "activation": "Relu"}),
    "fused_gemm_leaky": ("FusedGemm", [f(3, 5), c(f(5, 4))], {"activation": "LeakyRelu", "activation_alpha": 0.2}),
    "fused_conv_relu": ("FusedConv", [f(1, 3, 6, 6), c(f(4, 3, 3, 3)), c(f(4))], {"activation": "Relu", "pads": [1, 1, 1, 1]}),
    "fused_conv_clip": ("FusedConv", [f(1, 3, 6, 6), c(f(4, 3, 3, 3)), c(f(4))], {"activation": "Clip", "activation_params": [0.0, 1.5]}),
    "fused_conv_add": ("FusedConv", [f(1, 3, 6, 6), c(f(4, 3, 3, 3)), c(f(4)), f(1, 4, 4, 4)], {"activation": "Relu"}),
    "fused_conv_hard_sigmoid": ("FusedConv", [f(1, 4, 6, 6), c(f(4, 1, 3, 3))], {"activation": "HardSigmoid", "activation_params": [0.2, 0.5], "group": 4}),
    "simplified_layer_norm": ("ai.onnx::SimplifiedLayerNormalization", [X, GAMMA], {"epsilon": 1e-6}),
    "skip_layer_norm": ("SkipLayerNormalization", [X, f(2, 5, 16), GAMMA, BETA, c(f(16))], {}, [0, 3]),
    "skip_layer_norm_no_beta": ("SkipLayerNormalization", [X, f(2, 5, 16), GAMMA], {"epsilon": 1e-5}),
    "skip_layer_norm_broadcast": ("SkipLayerNormalization", [X, f(1, 5, 16), GAMMA, BETA], {}),
    "skip_simplified_layer_norm": ("SkipSimplifiedLayerNormalization", [X, f(2, 5, 16), GAMMA], {}, [0, 3]),
    "embed_layer_norm": ("EmbedLayerNormalization", [*EMBED, RAW], {}, [0, 1]),
    "embed_layer_norm_sum": ("EmbedLayerNormalization", EMBED, {}, [0, 2]),
    "embed_layer_norm_no_segments": ("EmbedLayerNormalization", [EMBED[0], None, EMBED[2], EMBED[3], None, GAMMA, BETA], {}, [0, 1]),
    "embed_layer_norm_positions": ("EmbedLayerNormalization", [*EMBED, None, ints(0, 8, 2, 5, dtype=numpy.int32)], {}, [0, 1]),
    "attention": ("Attention", [X, QKV, BIAS], {"num_heads": 4}),
    "attention_lengths": ("Attention", [X, QKV, BIAS, LENGTHS], {"num_heads": 4}),
    "attention_raw_mask": ("Attention", [X, QKV, BIAS, RAW], {"num_heads": 4}),
    "attention_mask_of_rank_3": ("Attention", [X, QKV, BIAS, ints(0, 2, 2, 5, 5, dtype=numpy.int32) | numpy.eye(5, dtype=numpy.int32)], {"num_heads": 4}),
    "attention_causal": ("Attention", [X, QKV, BIAS], {"num_heads": 4, "unidirectional": 1}),
    "attention_causal_masked": ("Attention", [X, QKV, BIAS, RAW], {"num_heads": 4, "unidirectional": 1}),
    "attention_past": ("Attention", [X, QKV, BIAS, None, PAST], {"num_heads": 4, "unidirectional": 1}, [0, 1]),
    "attention_bias": ("Attention", [X, QKV, BIAS, None, None, f(1, 4, 5, 5)], {"num_heads": 4, "scale": 0.25}),
    "attention_sizes": ("Attention", [X, c(f(16, 40)), c(f(40))], {"num_heads": 4, "qkv_hidden_sizes": [16, 16, 8]}),
    "multi_head_attention": ("MultiHeadAttention", [X, f(2, 7, 16), f(2, 7, 16)], {"num_heads": 4}),
    "multi_head_attention_bias": ("MultiHeadAttention", [X, f(2, 7, 16), f(2, 7, 24), c(f(56))], {"num_heads": 4}),
    "multi_head_attention_mask": ("MultiHeadAttention", [X, f(2, 5, 16), f(2, 5, 16), None, RAW], {"num_heads": 4}),
    "multi_head_attention_lengths": ("MultiHeadAttention", [X, f(2, 5, 16), f(2, 5, 16), None, LENGTHS], {"num_heads": 4}),
    "multi_head_attention_added": ("MultiHeadAttention", [X, f(2, 7, 16), f(2, 7, 16), None, None, f(1, 4, 5, 7)], {"num_heads": 4, "scale": 0.3}),
    "multi_head_attention_past": ("MultiHeadAttention", [X, f(2, 5, 16), f(2, 5, 16), None, None, None, *HEADS], {"num_heads": 4, "unidirectional": 1}, [0, 1, 2]),
    "multi_head_attention_heads": ("MultiHeadAttention", [X, f(2, 4, 7, 4), f(2, 4, 7, 4)], {"num_heads": 4}),
    "group_query_attention": ("GroupQueryAttention", [f(2, 5, 32), f(2, 5, 16), f(2, 5, 16), None, None, *SEQLENS], {"num_heads": 4, "kv_num_heads": 2}, [0, 1, 2]),
    "group_query_attention_packed": ("GroupQueryAttention", [f(2, 5, 64), None, None, None, None, *SEQLENS], {"num_heads": 4, "kv_num_heads": 2}),
    "group_query_attention_rotary": ("GroupQueryAttention", [f(2, 5, 64), f(2, 5, 32), f(2, 5, 32), None, None, *SEQLENS, *caches(20, 8)], {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}),
    "group_query_attention_interleaved": ("GroupQueryAttention", [f(2, 5, 64), f(2, 5, 32), f(2, 5, 32), None, None, *SEQLENS, *caches(20, 8)], {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1, "rotary_interleaved": 1}),
    "group_query_attention_window": ("GroupQueryAttention", [f(2, 5, 32), f(2, 5, 16), f(2, 5, 16), None, None, *SEQLENS], {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 2, "softcap": 5.0}),
    "group_query_attention_past": ("GroupQueryAttention", [f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), f(2, 2, 7, 16), f(2, 2, 7, 16), *LATER, *caches(20, 8)], {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1}, [0, 1, 2]),
    "rotary_embedding": ("RotaryEmbedding", [f(2, 5, 32), ints(0, 15, 2, 5), COS, SIN], {}),
    "rotary_embedding_from": ("RotaryEmbedding", [f(2, 5, 32), c(numpy.array([3])), COS, SIN], {"interleaved": 1}),
    "rotary_embedding_part": ("RotaryEmbedding", [f(2, 5, 32), ints(0, 15, 2, 5), *caches(20, 2)], {"num_heads": 4, "rotary_embedding_dim": 4}),
    "rotary_embedding_heads": ("RotaryEmbedding", [f(2, 4, 5, 8), ints(0, 15, 2, 5), COS, SIN], {}),
    "matmul_4_bits": ("MatMulNBits", [f(2, 3, 40), c(ints(0, 256, 6, 3, 8, dtype=numpy.uint8)), c(f(6, 3))], {"K": 40, "N": 6, "bits": 4, "block_size": 16}),
    "matmul_4_bits_zeros": ("MatMulNBits", [f(3, 48), c(ints(0, 256, 6, 3, 8, dtype=numpy.uint8)), c(f(6, 3)), c(ints(0, 256, 6, 2, dtype=numpy.uint8))], {"K": 48, "N": 6, "bits": 4, "block_size": 16}),
    "matmul_4_bits_float_zeros": ("MatMulNBits", [f(3, 32), c(ints(0, 256, 6, 2, 8, dtype=numpy.uint8)), c(f(6, 2)), c(f(6, 2)), None, c(f(6))], {"K": 32, "N": 6, "bits": 4, "block_size": 16}),
    "matmul_8_bits": ("MatMulNBits", [f(3, 32), c(ints(0, 256, 6, 2, 16, dtype=numpy.uint8)), c(f(6, 2))], {"K": 32, "N": 6, "bits": 8, "block_size": 16}),
    "matmul_2_bits": ("MatMulNBits", [f(3, 32), c(ints(0, 256, 6, 2, 4, dtype=numpy.uint8)), c(f(6, 2))], {"K": 32, "N": 6, "bits": 2, "block_size": 16}),
    "gather_4_bits": ("GatherBlockQuantized", [c(ints(0, 256, 30, 20, dtype=numpy.uint8)), ints(-30, 30, 2, 5), c(f(30, 3)), c(ints(0, 256, 30, 2, dtype=numpy.uint8))], {"block_size": 16}),
    "gather_8_bits": ("GatherBlockQuantized", [c(ints(0, 256, 30, 4, 32, dtype=numpy.uint8)), ints(0, 30, 2, 5), c(f(30, 4, 1))], {"bits": 8, "block_size": 32, "quantize_axis": 2}),
    "gather_2_bits": ("GatherBlockQuantized", [c(ints(0, 256, 30, 10, dtype=numpy.uint8)), ints(0, 30, 7, dtype=numpy.int32), c(f(30, 3))], {"bits": 2, "block_size": 16}),
    "gather_int4": ("GatherBlockQuantized", [c(ints(-8, 8, 30, 20).astype(ml_dtypes.int4)), ints(0, 20, 2, 5), c(f(2, 20)), c(ints(-8, 8, 2, 20).astype(ml_dtypes.int4))], {"block_size": 16, "quantize_axis": 0, "gather_axis": 1}),
    "matmul_integer_to_float": ("MatMulIntegerToFloat", [Q8, W8, c(numpy.float32(0.1)), c(numpy.float32(0.2)), c(numpy.uint8(120)), c(numpy.uint8(130)), BIAS], {}),
    "dynamic_quantize_matmul": ("DynamicQuantizeMatMul", [X, c(ints(-128, 128, 16, 48, dtype=numpy.int8)), c(numpy.full(48, 0.1, numpy.float32)), c(numpy.zeros(48, numpy.int8)), BIAS], {}),
    # No pair of its products leaves 16 bits: --rounding onnx-avx2 computes this operator without pairs (docs/numerics.md).
    "dynamic_quantize_lstm": ("DynamicQuantizeLSTM", [f(5, 2, 8), c(ints(-64, 65, 2, 8, 16, dtype=numpy.int8)), c(ints(-64, 65, 2, 4, 16, dtype=numpy.int8)), c(f(2, 32)), None, None, None,
                              None, c(numpy.full(2, 0.01, numpy.float32)), c(numpy.zeros(2, numpy.int8)), c(numpy.full(2, 0.02, numpy.float32)), c(numpy.zeros(2, numpy.int8))],
                              {"hidden_size": 4, "direction": "bidirectional", "activations": ["Sigmoid", "Tanh", "Tanh"] * 2}, [0, 1, 2]),
    "q_attention": ("QAttention", [Q8, W8, BIAS, c(numpy.float32(0.01)), c(numpy.float32(0.01)), LENGTHS, c(numpy.uint8(120)), c(numpy.uint8(130))], {"num_heads": 4}),
}

B = numpy.tril(numpy.ones((5, 7), bool), 1)
Q4, K4, V4 = f(2, 4, 5, 8), f(2, 4, 7, 8), f(2, 4, 7, 6)
SCORES, LABELS = f(3, 5, 4), ints(0, 5, 3, 4)
# ONNX's own, in the opset given (23 unless it says another)
CASES |= {
    "batch_norm_training": ("ai.onnx:15::BatchNormalization", [f(3, 4, 5, 6), c(f(4)), c(f(4)), c(f(4)), c(numpy.abs(f(4)))],
                            {"training_mode": 1, "momentum": 0.7, "epsilon": 1e-3}, [0, 1, 2]),
    "batch_norm_training_rows": ("ai.onnx:15::BatchNormalization", [f(6, 4), c(f(4)), c(f(4)), c(f(4)), c(numpy.abs(f(4)))], {"training_mode": 1}, [0, 1, 2]),
    "group_norm": ("ai.onnx::GroupNormalization", [f(2, 6, 3, 4), c(f(6)), c(f(6))], {"num_groups": 3}),
    "group_norm_1d": ("ai.onnx::GroupNormalization", [f(2, 6, 5), c(f(6)), c(f(6))], {"num_groups": 1, "epsilon": 1e-2}),
    "group_norm_18": ("ai.onnx:18::GroupNormalization", [f(2, 6, 3, 4), c(f(3)), c(f(3))], {"num_groups": 3}),
    "rms_norm": ("ai.onnx::RMSNormalization", [X, GAMMA], {}),
    "rms_norm_axis": ("ai.onnx::RMSNormalization", [X, c(f(5, 16))], {"axis": 1, "epsilon": 1e-3}),
    "layer_norm_outputs": ("ai.onnx::LayerNormalization", [X, GAMMA, BETA], {}, [0, 1, 2]),
    "mean_variance_norm": ("ai.onnx::MeanVarianceNormalization", [f(2, 3, 4, 5)], {}),
    "shrink": ("ai.onnx::Shrink", [X], {"lambd": 0.4, "bias": 0.3}),
    "reduce_log_sum": ("ai.onnx::ReduceLogSum", [numpy.abs(X) + 1, c(numpy.array([1]))], {"keepdims": 0}),
    "reduce_log_sum_all": ("ai.onnx:13::ReduceLogSum", [numpy.abs(X) + 1], {}),
    "center_crop_pad": ("ai.onnx::CenterCropPad", [f(9, 4, 5), c(numpy.array([6, 4, 8]))], {}),
    "center_crop_pad_axes": ("ai.onnx::CenterCropPad", [f(9, 4, 5), c(numpy.array([6, 8]))], {"axes": [-1, 0]}),
    "affine_grid": ("ai.onnx::AffineGrid", [f(2, 2, 3), c(numpy.array([2, 3, 4, 5]))], {}),
    "affine_grid_corners": ("ai.onnx::AffineGrid", [f(2, 3, 4), c(numpy.array([2, 3, 4, 5, 6]))], {"align_corners": 1}),
    "loss": ("ai.onnx:13::NegativeLogLikelihoodLoss", [SCORES, LABELS], {}),
    "loss_weighted": ("ai.onnx:13::NegativeLogLikelihoodLoss", [SCORES, LABELS, c(numpy.abs(f(5)))], {"ignore_index": 2}),
    "loss_each": ("ai.onnx:13::NegativeLogLikelihoodLoss", [SCORES, LABELS], {"reduction": "none", "ignore_index": 1}),
    "cross_entropy": ("ai.onnx:13::SoftmaxCrossEntropyLoss", [SCORES, LABELS, c(numpy.abs(f(5)))], {"reduction": "sum"}, [0, 1]),
    "rotary": ("ai.onnx::RotaryEmbedding", [f(2, 4, 5, 8), COS, SIN, ints(0, 15, 2, 5)], {}),
    "rotary_packed": ("ai.onnx::RotaryEmbedding", [f(2, 5, 32), f(2, 5, 4), f(2, 5, 4)], {"num_heads": 4, "interleaved": 1}),
    "attention_4d": ("ai.onnx::Attention", [Q4, K4, V4], {}),
    "attention_packed": ("ai.onnx::Attention", [f(2, 5, 32), f(2, 7, 16), f(2, 7, 12)], {"q_num_heads": 4, "kv_num_heads": 2, "scale": 0.3}),
    "attention_mask": ("ai.onnx::Attention", [Q4, K4, V4, f(5, 7)], {}),
    "attention_bool": ("ai.onnx::Attention", [Q4, K4, V4, B], {}),
    "attention_triangle": ("ai.onnx::Attention", [Q4, f(2, 2, 5, 8), f(2, 2, 5, 8)], {"is_causal": 1, "softcap": 2.0}),
    "attention_cache": ("ai.onnx::Attention", [Q4, f(2, 4, 2, 8), f(2, 4, 2, 8), f(5, 7), f(2, 4, 5, 8), f(2, 4, 5, 8)], {}, [0, 1, 2]),
    "attention_shown": ("ai.onnx::Attention", [Q4, K4, V4, f(5, 7)], {"qk_matmul_output_mode": 2}, [0, 3]),
}
LOOSE = {"dynamic_quantize_lstm": 2e-3}  # a state beside a step may be rounded to the other side


def model_of(op, inputs, attributes, outputs, opset=17):
    """The node; every input of the model has an axis of samples before its own."""
    nodes, names, ports, constants = [], [], [], []
    for i, value in enumerate(inputs):
        name = f"i{i}"
        names.append(name if value is not None else "")
        if isinstance(value, Fixed):
            constants.append(numpy_helper.from_array(value.value, name))
        elif value is not None:
            ports.append(helper.make_tensor_value_info(f"in{i}", helper.np_dtype_to_tensor_dtype(value.dtype), [1, *value.shape]))
            constants.append(numpy_helper.from_array(numpy.array(value.shape, numpy.int64), f"shape{i}"))
            nodes.append(helper.make_node("Reshape", [f"in{i}", f"shape{i}"], [name]))
    domain, _, kind = op.rpartition("::")
    domain, _, given = domain.partition(":")
    opset = int(given or 23) if domain == "ai.onnx" else opset
    results = [f"o{k}" if k in outputs else "" for k in range(max(outputs) + 1)]
    nodes.append(helper.make_node(kind, names, results, name="node", domain={"": MS, "ai.onnx": ""}.get(domain, domain), **attributes))
    untyped = [onnx.ValueInfoProto(name=r) for r in results if r]
    if kind == "MultiHeadAttention":  # ONNX Runtime does not infer the type of its scores
        untyped = [helper.make_tensor_value_info(r, TensorProto.FLOAT, None) for r in results if r]
    graph = helper.make_graph(nodes, "g", ports, untyped, constants)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid(MS, 1), helper.make_opsetid("ai.onnx.preview", 1),
               helper.make_opsetid("ai.onnx.ml", int(given or 3) if domain == "ai.onnx.ml" else 3)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    return model, {f"in{i}": v[None] for i, v in enumerate(inputs) if v is not None and not isinstance(v, Fixed)}


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # DynamicQuantizeLSTM rounds the samples of each thread by themselves
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model), options, providers=["CPUExecutionProvider"])


def store(path, feeds):
    with h5py.File(path, "w") as file:
        for name, value in feeds.items():
            file[name] = value


def agrees(case, qcalib, folder, computed=None, tolerance=2e-4, part=lambda name, value: value):
    """`run` computes what ONNX Runtime does, or computed(model, feeds). part: of each output, what is compared."""
    op, inputs, attributes, *outputs = case
    model, feeds = model_of(op, inputs, attributes, outputs[0] if outputs else [0])
    names = [o.name for o in model.graph.output]
    expected = dict(zip(names, computed(model, feeds) if computed else session(model).run(names, feeds)))
    for output in model.graph.output:  # ONNX Runtime knew the types; a file has to say them
        value = expected[output.name]
        output.CopyFrom(helper.make_tensor_value_info(output.name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
    onnx.save(model, folder / "m.onnx")
    store(folder / "d.h5", feeds)
    qcalib("run", "m.onnx", "--data", "d.h5", "--rounding", avx2_runtime.rounding(), "-o", "out.h5")
    ours = by_name(folder / "out.h5")
    for output, value in expected.items():
        got, value = (part(output, v) for v in (ours[output].reshape(value.shape), value))
        numpy.testing.assert_allclose(got, value, rtol=tolerance, atol=tolerance * max(1, numpy.abs(value).max()), err_msg=output)


@pytest.mark.parametrize("name", CASES)
def test_functions_equal_onnx_runtime(name, qcalib, tmp_path):
    agrees(CASES[name], qcalib, tmp_path, tolerance=LOOSE.get(name, 2e-4))


# --- Functions that a model brings with it ---


def local(nodes, functions, inputs, outputs, constants=(), opset=17):
    """A model of float32 [1,4] inputs and outputs."""
    ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in names] for names in (inputs, outputs)]
    graph = helper.make_graph(nodes, "g", *ports, list(constants))
    return helper.make_model(graph, functions=functions, ir_version=10, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("my", 1)])


def function(name, inputs, outputs, nodes, attributes=(), defaults=(), opset=17, overload=""):
    made = helper.make_function("my", name, inputs, outputs, nodes, [helper.make_opsetid("", opset), helper.make_opsetid("my", 1)], list(attributes), list(defaults))
    made.overload = overload
    return made


def refers(node, name, reference, kind):
    node.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=reference, type=kind))
    return node


def call(name, inputs, outputs, label=None, **attributes):
    return helper.make_node(name, inputs, outputs, label, domain="my", **attributes)


N = helper.make_node
LEAKY = function("Leaky", ["x"], ["y"], [refers(N("LeakyRelu", ["x"], ["h"]), "alpha", "slope", onnx.AttributeProto.FLOAT), N("Add", ["h", "x"], ["y"])],
                 ["slope"])
DEFAULT = function("Default", ["x"], ["y"], [refers(N("LeakyRelu", ["x"], ["y"]), "alpha", "slope", onnx.AttributeProto.FLOAT)],
                   defaults=[helper.make_attribute("slope", 0.5)])
TWICE = function("Twice", ["x"], ["y"], [refers(call("Leaky", ["x"], ["h"]), "slope", "slope", onnx.AttributeProto.FLOAT), call("Leaky", ["h"], ["y"], slope=0.3)], ["slope"])
BOTH = function("Both", ["a", "b"], ["s", "d"], [N("Add", ["a", "b"], ["s"]), N("Sub", ["a", "b"], ["d"])])
OPTIONAL = function("Optional", ["x", "low"], ["y"], [N("Clip", ["x", "low"], ["y"])])
OLD = function("Old", ["x"], ["y"], [N("Squeeze", ["x"], ["s"], axes=[0]), N("Unsqueeze", ["s"], ["u"], axes=[0]), N("Exp", ["u"], ["y"])], opset=11)
PASS = function("Pass", ["x"], ["x", "y"], [N("Neg", ["x"], ["y"])])
MODELS = {
    "attribute": ([call("Leaky", ["x"], ["y"], "one", slope=0.25)], [LEAKY]),
    "twice": ([call("Leaky", ["x"], ["h"], "one", slope=0.25), call("Leaky", ["h"], ["y"], "one", slope=0.5)], [LEAKY]),
    "default": ([call("Default", ["x"], ["h"]), call("Default", ["h"], ["y"], slope=0.1)], [DEFAULT]),
    "nested": ([call("Twice", ["x"], ["h"], "a", slope=0.2), call("Twice", ["h"], ["y"], "b", slope=0.7)], [TWICE, LEAKY]),
    "several_outputs": ([call("Both", ["x", "x2"], ["s", "d"]), N("Mul", ["s", "d"], ["y"])], [BOTH]),
    "an_output_left_out": ([call("Both", ["x", "x2"], ["", "d"]), N("Neg", ["d"], ["y"])], [BOTH]),
    "an_input_left_out": ([call("Optional", ["x"], ["h"]), call("Optional", ["h", "zero"], ["y"])], [OPTIONAL]),
    "names_that_are_taken": ([N("Neg", ["x"], ["one/h"]), call("Leaky", ["one/h"], ["h"], "one", slope=0.25), N("Mul", ["h", "one/h"], ["y"])], [LEAKY]),
    "an_opset_of_its_own": ([call("Old", ["x"], ["y"])], [OLD], numpy.exp),  # ONNX Runtime takes one opset for all
    "an_input_passed_on": ([call("Pass", ["x"], ["p", "n"]), N("Mul", ["p", "n"], ["y"])], [PASS], lambda x: -x * x),  # nor such names
}


@pytest.mark.parametrize("name", MODELS)
def test_functions_of_the_model(name, qcalib, tmp_path):
    nodes, functions, *computed = MODELS[name]
    model = local(nodes, functions, ["x", "x2"], ["y"], [numpy_helper.from_array(numpy.float32(0), "zero")])
    onnx.save(model, tmp_path / "m.onnx")
    feeds = {"x": f(1, 4), "x2": f(1, 4)}
    for node in model.graph.node:
        node.name = ""  # ONNX Runtime refuses names that are there twice
    expected = computed[0](feeds["x"]) if computed else session(model).run(["y"], feeds)[0]
    store(tmp_path / "d.h5", feeds)
    qcalib("run", "m.onnx", "--data", "d.h5", "-o", "out.h5")
    numpy.testing.assert_allclose(by_name(tmp_path / "out.h5")["y"], expected, rtol=1e-6)


def test_overloads_are_told_apart(qcalib, tmp_path):
    functions = [function("F", ["x"], ["y"], [N(op, ["x"], ["y"])], overload=op.lower()) for op in ("Neg", "Exp")]
    nodes = [call("F", ["x"], ["h"]), call("F", ["h"], ["y"])]
    nodes[0].overload, nodes[1].overload = "neg", "exp"
    onnx.save(local(nodes, functions, ["x"], ["y"]), tmp_path / "m.onnx")
    feeds = {"x": f(1, 4)}
    store(tmp_path / "d.h5", feeds)
    qcalib("run", "m.onnx", "--data", "d.h5", "-o", "out.h5")
    numpy.testing.assert_allclose(by_name(tmp_path / "out.h5")["y"], numpy.exp(-feeds["x"]), rtol=1e-6)


@pytest.mark.bad_input
@pytest.mark.parametrize("name, message", [("itself", "function 'A' uses itself"), ("another", "function 'A' uses itself"),
                                           ("bomb", "they use each other too often"), ("arguments", "has 1 inputs and 1 outputs, called with 2 and 1")])
def test_functions_without_end(name, message, qcalib, tmp_path):
    a = function("A", ["x"], ["y"], [call("A" if name == "itself" else "B", ["x"], ["y"])])
    b = function("B", ["x"], ["y"], [call("A", ["x"], ["y"])])
    bomb = [function(f"F{i}", ["x"], ["y"], [call(f"F{i + 1}", ["x"], ["h"]), call(f"F{i + 1}", ["h"], ["y"])]) for i in range(40)]
    bomb.append(function("F40", ["x"], ["y"], [N("Neg", ["x"], ["y"])]))
    nodes, functions = {"itself": ([call("A", ["x"], ["y"])], [a]), "another": ([call("A", ["x"], ["y"])], [a, b]),
                        "bomb": ([call("F0", ["x"], ["y"])], bomb), "arguments": ([call("F40", ["x", "x"], ["y"])], bomb)}[name]
    onnx.save(local(nodes, functions, ["x"], ["y"]), tmp_path / "m.onnx")
    done = qcalib("inspect", "m.onnx", code=None)
    assert done.code in (3, 4) and message in done.err


@pytest.mark.integers
def test_products_inside_of_functions_are_quantized(qcalib, tmp_path):
    """What comes out has ONNX's operators, but for the norm, which stays in float. The names are those of the functions' nodes, and ONNX
    Runtime is near the float model."""
    weights = {"qkv": f(32, 96, scale=0.2), "bias": f(96, scale=0.1), "up": f(32, 64, scale=0.2), "down": f(64, 32, scale=0.2), "gamma": f(32) * 0.1 + 1,
               "packed": ints(0, 256, 32, 2, 8, dtype=numpy.uint8), "scales": numpy.full((32, 2), 0.01, numpy.float32)}
    nodes = [N("Attention", ["x", "qkv", "bias"], ["a"], "attn", domain=MS, num_heads=4, unidirectional=1),
             N("SkipSimplifiedLayerNormalization", ["x", "a", "gamma"], ["n"], "norm", domain=MS),
             N("FusedMatMul", ["n", "up"], ["u"], "up", domain=MS, alpha=0.5), N("QuickGelu", ["u"], ["g"], "act", domain=MS),
             N("MatMul", ["g", "down"], ["d"], "down"), N("MatMulNBits", ["d", "packed", "scales"], ["y"], "head", domain=MS, K=32, N=32, bits=4, block_size=16)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 6, 32])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 6, 32])], [numpy_helper.from_array(v, k) for k, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    x = f(32, 6, 32)
    store(tmp_path / "d.h5", {"x": x})
    qcalib("quantize", "m.onnx", "--data", "d.h5", "--weight-type", "int8", "-o", "q.onnx")
    made = onnx.load(tmp_path / "q.onnx")
    assert {n.op_type for n in made.graph.node if n.domain == MS} == {"SkipSimplifiedLayerNormalization"}
    wide = {n.name for n in made.graph.node if n.op_type in ("MatMul", "Gemm")}
    assert {"attn/MatMul", "up/MatMul", "down", "head/MatMul"} <= wide
    quantized = {n.output[0] for n in made.graph.node if n.op_type == "DequantizeLinear"}
    for node in made.graph.node:
        if node.name in ("attn/MatMul", "up/MatMul", "down", "head/MatMul"):
            assert set(node.input[:2]) <= quantized, node.name
    expected, got = (session(tmp_path / name).run(None, {"x": x})[0] for name in ("m.onnx", "q.onnx"))
    assert 10 * numpy.log10((expected**2).sum() / ((expected - got) ** 2).sum()) > 25
