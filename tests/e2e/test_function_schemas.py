# SPDX-License-Identifier: Apache-2.0
"""Operators that functions replace (functions.rules, functions_ml.rules): each input and attribute of their schemas has
a case that is compared with ONNX Runtime (or with ONNX's reference evaluator), or is refused by its name. A new one in a
schema fails here; tests/rewrite/test_expansion.c checks that a function reads what it declares."""

import pathlib
import re

import numpy
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
from test_functions import (
    B, BIAS, CASES, COS, EMBED, GAMMA, HEADS, K4, LABELS, MS, PAST, Q4, Q8, QKV, R, RAW, SCORES, SEQLENS, SIN, V4, W8, X,
    agrees, c, caches, f, ints, model_of, session, store,
)
from test_run import by_name

ROOT = pathlib.Path(__file__).resolve().parents[2]
U8, I8, I32, F32 = numpy.uint8, numpy.int8, numpy.int32, numpy.float32
SCALES = [c(F32(0.01)), c(F32(0.01))]
ZEROS = [c(U8(120)), c(U8(130))]
NBITS = [f(2, 3, 40), c(ints(0, 256, 6, 3, 8, dtype=U8)), c(f(6, 3))]
NBITS_SIZES = {"K": 40, "N": 6, "bits": 4, "block_size": 16}
LSTM = [c(ints(-64, 65, 2, 8, 16, dtype=I8)), c(ints(-64, 65, 2, 4, 16, dtype=I8)), c(f(2, 32))]
LSTM_SCALES = [c(numpy.full(2, 0.01, F32)), c(numpy.zeros(2, I8)), c(numpy.full(2, 0.02, F32)), c(numpy.zeros(2, I8))]
BOTH = {"hidden_size": 4, "direction": "bidirectional"}
HOLES = numpy.array([[1, 1, 0, 0, 1], [1, 1, 1, 1, 1]], I32)
GQA = {"num_heads": 4, "kv_num_heads": 2}
PROMPT = [f(2, 5, 64), f(2, 5, 32), f(2, 5, 32)]
STEP = [f(2, 1, 64), f(2, 1, 32), f(2, 1, 32), f(2, 2, 7, 16), f(2, 2, 7, 16)]
PACKED = [*STEP[:3], *(ints(0, 256, 2, 2, 7, 8, dtype=U8) for _ in range(2))]
BYTES = [*STEP[:3], *(ints(-128, 128, 2, 2, 7, 16, dtype=numpy.int8) for _ in range(2))]
LATER = [c(numpy.array([7, 7], I32)), c(I32(8))]
PADDED = [c(numpy.array([2, 6], I32)), c(I32(8))]


ML = "ai.onnx.ml"
XI, XF = ints(-3, 9, 6, 4), f(6, 4)
XN = numpy.where(XI == 3, numpy.nan, numpy.where(XI == 2, 2, XF)).astype(F32)


def gqa(inputs, *more, **attributes):
    return "GroupQueryAttention", [*inputs, *more], {**GQA, **attributes}, [0, 1, 2]


def q_embed(segments, mask):
    """A table, its scale and its zero point for words, positions, segments, gamma and beta."""
    tables = [c(ints(0, 256, *shape, dtype=U8)) for shape in ((30, 16), (8, 16), (2, 16), (16,), (16,))]
    scales, zeros = ([c(v) for v in (R.random(5).astype(F32), ints(0, 256, 5, dtype=U8))[k]] for k in (0, 1))
    if not segments:
        tables[2] = scales[2] = zeros[2] = None
    return [EMBED[0], EMBED[1] if segments else None, *tables, mask, *scales, *zeros]


MORE = {
    "swish": ("ai.onnx:24::Swish", [X], {"alpha": 1.7}),
    "group_norm_stash": ("ai.onnx::GroupNormalization", [f(2, 6, 3, 4), c(f(6)), c(f(6))], {"num_groups": 3, "stash_type": 1}),
    "layer_norm_axis": ("ai.onnx::LayerNormalization", [X, c(f(5, 16)), c(f(5, 16))], {"axis": 1, "epsilon": 0.1, "stash_type": 1}, [0, 1, 2]),
    "rms_norm_stash": ("ai.onnx::RMSNormalization", [X, GAMMA], {"stash_type": 11}),
    "simplified_layer_norm_axis": ("ai.onnx::SimplifiedLayerNormalization", [X, c(f(5, 16))], {"axis": 1, "epsilon": 0.1}, [0, 1]),
    "simplified_layer_norm_stash": ("ai.onnx::SimplifiedLayerNormalization", [X, GAMMA], {"stash_type": 11}),
    "mean_variance_norm_axes": ("ai.onnx::MeanVarianceNormalization", [f(2, 3, 4, 5)], {"axes": [0, 1]}),
    "reduce_log_sum_axes": ("ai.onnx:13::ReduceLogSum", [numpy.abs(X) + 1], {"axes": [0, 2]}),
    "reduce_log_sum_noop": ("ai.onnx:18::ReduceLogSum", [numpy.abs(X) + 1], {"noop_with_empty_axes": 1}),
    "cross_entropy_ignored": ("ai.onnx:13::SoftmaxCrossEntropyLoss", [SCORES, LABELS, c(numpy.abs(f(5)))], {"ignore_index": 2}, [0, 1]),
    **{f"window_{w}_{p}": (f"ai.onnx:17::{w}Window", [numpy.array(10)], {"periodic": p, "output_datatype": d})
       for w in ("Hann", "Hamming", "Blackman") for p, d in ((0, 11), (1, 1))},
    "space_to_depth": ("ai.onnx:28::SpaceToDepth", [f(1, 2, 4, 6)], {"blocksize": 2, "mode": "CRD"}),
    "rotary_part": ("ai.onnx::RotaryEmbedding", [f(2, 5, 32), *caches(20, 2), ints(0, 15, 2, 5)], {"rotary_embedding_dim": 4, "num_heads": 4}),
    "attention_nonpad": ("ai.onnx:24::Attention", [Q4, K4, V4, f(5, 7), None, None, numpy.array([6, 7])], {"is_causal": 1}),
    "attention_not_quite_causal": ("ai.onnx::Attention", [Q4, K4, V4], {"is_causal": 2}),
    "attention_left": ("ai.onnx:25::Attention", [Q4, K4, V4], {"left_window_size": 2}),
    "attention_right": ("ai.onnx:25::Attention", [Q4, K4, V4], {"right_window_size": 1}),
    "attention_both": ("ai.onnx:25::Attention", [Q4, K4, V4], {"left_window_size": 0, "right_window_size": 1}),
    "attention_precision": ("ai.onnx::Attention", [Q4, K4, V4], {"softmax_precision": 11}),
    "attention_negative_softcap": ("ai.onnx::Attention", [Q4, K4, V4], {"softcap": -2.0}),
    "attention_softcap_bool": ("ai.onnx::Attention", [Q4, K4, V4, B], {"softcap": 2.0, "is_causal": 1}),
    "attention_causal_past": ("ai.onnx::Attention", [Q4, f(2, 4, 5, 8), f(2, 4, 5, 8), None, f(2, 4, 3, 8), f(2, 4, 3, 8)], {"is_causal": 1}, [0, 1, 2]),
    "attention_causal_few_keys": ("ai.onnx::Attention", [Q4, f(2, 4, 3, 8), f(2, 4, 3, 8)], {"is_causal": 1}),
    "attention_causal_many_keys": ("ai.onnx::Attention", [Q4, K4, V4], {"is_causal": 1}),
    **{f"attention_shown_{m}": ("ai.onnx::Attention", [Q4, K4, V4, f(5, 7)], {"qk_matmul_output_mode": m, "softcap": 2.0}, [0, 3]) for m in range(4)},
    **{f"causal_conv_{a}": ("ai.onnx:27::CausalConvWithState", [f(2, 6, 9), c(f(6, 1, 4)), c(f(6)), f(2, 6, 3)], {"activation": a}, [0, 1])
       for a in ("none", "silu", "swish")},
    **{f"linear_attention_{u}": ("ai.onnx:27::LinearAttention",
                                 [f(2, 6, 16), f(2, 6, 8, scale=0.3), f(2, 6, 8), f(2, 2, 4, 4), -numpy.abs(f(2, 6, 8)) if "gated" in u else None,
                                  numpy.abs(f(2, 6, 2)) if "delta" in u else None],
                                 {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": u, "scale": 0.3, "chunk_size": 4}, [0, 1])
       for u in ("linear", "gated", "delta", "gated_delta")},
    "fused_conv": ("FusedConv", [f(1, 3, 9, 9), c(f(4, 3, 3, 3)), c(f(4))], {"activation": "Sigmoid", "strides": [2, 2], "dilations": [2, 2], "kernel_shape": [3, 3]}),
    "fused_conv_auto": ("FusedConv", [f(1, 3, 9, 9), c(f(4, 3, 3, 3)), c(f(4))], {"activation": "Tanh", "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "fused_conv_hard_swish": ("FusedConv", [f(1, 3, 9, 9), c(f(4, 3, 3, 3)), c(f(4))], {"activation": "HardSwish"}),
    **{f"fused_gemm_{a}": ("FusedGemm", [f(5, 3), c(f(5, 4)), c(f(4))], {"activation": a, "transA": 1, "alpha": 0.5, "beta": 2.0, **more})
       for a, more in (("Tanh", {"activation_gamma": 3.0}), ("LeakyRelu", {"activation_alpha": 0.3}), ("HardSigmoid", {"activation_alpha": 0.3, "activation_beta": 0.4}))},
    "transpose_matmul": ("TransposeMatMul", [f(2, 5, 3), f(2, 4, 5)], {"alpha": 0.5, "transA": 1, "transB": 1}),
    "skip_simplified_layer_norm_bias": ("SkipSimplifiedLayerNormalization", [X, f(2, 5, 16), GAMMA, c(f(16))], {"epsilon": 0.1}, [0, 3]),
    **{f"embed_layer_norm_index_{t}": ("EmbedLayerNormalization", [*EMBED, RAW], {"mask_index_type": t, "epsilon": 0.1}, [0, 1]) for t in (0, 1, 2)},
    "embed_layer_norm_holes": ("EmbedLayerNormalization", [*EMBED, numpy.array([[0, 1, 1, 0, 1], [1, 0, 0, 1, 2]], I32)], {}, [0, 1]),
    "embed_layer_norm_first_segment": ("EmbedLayerNormalization", [EMBED[0], None, *EMBED[2:]], {}, [0, 2]),
    "q_embed_layer_norm": ("QEmbedLayerNormalization", q_embed(True, RAW), {"epsilon": 0.1}, [0, 1]),
    "q_embed_layer_norm_words": ("QEmbedLayerNormalization", q_embed(False, None), {}, [0, 1]),
    "ms_attention_filter": ("Attention", [X, QKV, BIAS, RAW], {"num_heads": 4, "mask_filter_value": -1.0}),
    "ms_attention_default_scale": ("Attention", [X, QKV, BIAS], {"num_heads": 4, "scale": 0.0}),
    "ms_attention_negative_scale": ("Attention", [X, QKV, BIAS], {"num_heads": 4, "scale": -0.3}),
    "ms_attention_rotary_dim": ("Attention", [X, QKV, BIAS], {"num_heads": 4, "rotary_embedding_dim": 32}),
    "ms_attention_past_length": ("Attention", [X, QKV, BIAS, None, PAST, None, numpy.array([2], I32)], {"num_heads": 4}, [0, 1]),
    "ms_attention_past_masked": ("Attention", [X, QKV, BIAS, 1 - numpy.eye(2, 8, dtype=I32), PAST], {"num_heads": 4}, [0, 1]),
    "ms_attention_past_lengths": ("Attention", [X, QKV, BIAS, numpy.array([7, 8], I32), PAST], {"num_heads": 4}, [0, 1]),
    "ms_attention_nothing": ("Attention", [X, QKV, BIAS, numpy.zeros((2, 5), I32)], {"num_heads": 4}),
    "q_attention_causal": ("QAttention", [Q8, W8, BIAS, *SCALES, RAW, *ZEROS], {"num_heads": 4, "unidirectional": 1, "mask_filter_value": -1.0, "scale": 0.3}),
    "q_attention_past": ("QAttention", [Q8, W8, BIAS, *SCALES, None, *ZEROS, PAST], {"num_heads": 4, "unidirectional": 1}, [0, 1]),
    "multi_head_attention_filter": ("MultiHeadAttention", [X, f(2, 5, 16), f(2, 5, 16), None, RAW], {"num_heads": 4, "mask_filter_value": -1.0}),
    "multi_head_attention_mask_of_rank_3": ("MultiHeadAttention", [X, f(2, 7, 16), f(2, 7, 16), None, ints(0, 2, 2, 5, 7, dtype=I32)], {"num_heads": 4}),
    "multi_head_attention_past_masked": ("MultiHeadAttention", [X, f(2, 5, 16), f(2, 5, 16), None, ints(0, 2, 2, 8, dtype=I32), None, *HEADS], {"num_heads": 4}, [0, 1, 2]),
    "multi_head_attention_default_scale": ("MultiHeadAttention", [X, f(2, 5, 16), f(2, 5, 16)], {"num_heads": 4, "scale": 0.0}),
    "multi_head_attention_heads_bias": ("MultiHeadAttention", [X, f(2, 4, 7, 4), f(2, 4, 7, 4), c(f(48))], {"num_heads": 4}),
    "multi_head_attention_few_keys": ("MultiHeadAttention", [X, f(2, 3, 16), f(2, 3, 16)], {"num_heads": 4, "unidirectional": 1}),
    "multi_head_attention_shown": ("MultiHeadAttention", [X, f(2, 5, 16), f(2, 5, 16), None, HOLES, f(1, 4, 5, 5)], {"num_heads": 4}, [0, 3]),
    "rotary_embedding_scale": ("RotaryEmbedding", [f(2, 5, 32), ints(0, 15, 2, 5), COS, SIN], {"scale": 2.0}),
    "matmul_4_bits_accuracy": ("MatMulNBits", NBITS, {**NBITS_SIZES, "accuracy_level": 1}),
    "dynamic_quantize_lstm_states": ("DynamicQuantizeLSTM", [f(5, 2, 8), *LSTM, numpy.array([3, 5], I32), f(2, 2, 4), f(2, 2, 4), c(f(2, 12)), *LSTM_SCALES], BOTH, [0, 1, 2]),
    "dynamic_quantize_lstm_clip": ("DynamicQuantizeLSTM", [f(5, 2, 8), *LSTM, None, None, None, None, *LSTM_SCALES], {**BOTH, "clip": 0.2}, [0, 1, 2]),
    "dynamic_quantize_lstm_coupled": ("DynamicQuantizeLSTM", [f(5, 2, 8), *LSTM, None, None, None, None, *LSTM_SCALES], {**BOTH, "input_forget": 1}, [0, 1, 2]),
    "dynamic_quantize_lstm_activations": ("DynamicQuantizeLSTM", [f(5, 2, 8), *LSTM, None, None, None, None, *LSTM_SCALES],
                                          {**BOTH, "activations": ["HardSigmoid", "LeakyRelu", "Tanh"] * 2, "activation_alpha": [0.3, 0.1] * 2, "activation_beta": [0.4] * 2}, [0, 1, 2]),
    "scaler": (f"{ML}::Scaler", [XF], {"offset": [0.1, 0.2, 0.3, 0.4], "scale": [1.0, 2.0, 3.0, 4.0]}),
    "scaler_of_integers": (f"{ML}::Scaler", [XI], {"offset": [0.1], "scale": [2.0]}),
    **{f"normalizer_{n}": (f"{ML}::Normalizer", [XF], {"norm": n}) for n in ("MAX", "L1", "L2")},
    "binarizer": (f"{ML}::Binarizer", [XF], {"threshold": 0.3}),
    "imputer": (f"{ML}::Imputer", [XN], {"imputed_value_floats": [7.0, 8.0, 9.0, 1.0], "replaced_value_float": 2.0}),
    "imputer_of_nan": (f"{ML}::Imputer", [XN], {"imputed_value_floats": [7.0], "replaced_value_float": float("nan")}),
    "array_feature_extractor": (f"{ML}::ArrayFeatureExtractor", [XF, numpy.array([[3, 0, 1]])], {}),
    "label_encoder": (f"{ML}::LabelEncoder", [XI], {"keys_int64s": [1, 2, 5], "values_floats": [0.5, 0.6, 0.7], "default_float": 9.0}),
    "label_encoder_of_floats": (f"{ML}::LabelEncoder", [XF.round()], {"keys_floats": [1.0, 2.0], "values_int64s": [5, 6], "default_int64": 9}),
    "one_hot_encoder": (f"{ML}::OneHotEncoder", [XI], {"cats_int64s": [1, 2, 5], "zeros": 1}),
    **{f"linear_regressor_{p}": (f"{ML}::LinearRegressor", [XF], {"coefficients": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8], "intercepts": [0.1, 0.2], "targets": 2, "post_transform": p})
       for p in ("NONE", "LOGISTIC", "SOFTMAX")},
    **{f"linear_classifier_{p}": (f"{ML}::LinearClassifier", [XF], {"coefficients": [0.1, -0.2, 0.3, 0.4, 0.5, 0.6, -0.7, 0.8], "intercepts": [0.1, 0.2], "classlabels_ints": [4, 7], "multi_class": 1, "post_transform": p}, [0, 1])
       for p in ("NONE", "LOGISTIC", "SOFTMAX")},
    **{f"svm_regressor_{k}_{o}": (f"{ML}::SVMRegressor", [XF], {"coefficients": [0.3, -0.2, 0.5], "rho": [0.1], "kernel_type": k, "kernel_params": [0.4, 0.1, 2.0], "n_supports": 3, "one_class": o,
                                                              "post_transform": "NONE", "support_vectors": [0.1 * i for i in range(-6, 6)]}) for k, o in (("RBF", 0), ("POLY", 1), ("SIGMOID", 0), ("LINEAR", 0))},
    "bernoulli": ("ai.onnx:15::Bernoulli", [numpy.abs(f(3, 9))], {"dtype": 7, "seed": 4.0}),
    "gqa_not_quite_rotary": gqa(PROMPT, None, None, *SEQLENS, *caches(20, 8), do_rotary=2, rotary_interleaved=2),
    "rotary_not_quite_interleaved": ("RotaryEmbedding", [f(2, 5, 32), ints(0, 15, 2, 5), COS, SIN], {"interleaved": 2}),
    "gqa_both_ways": gqa(PROMPT, None, None, *SEQLENS, causal=0),
    "gqa_scale": gqa(PROMPT, None, None, *SEQLENS, scale=-0.4, softcap=-2.0, smooth_softmax=-1),
    "gqa_window_of_nothing": gqa(PROMPT, None, None, *SEQLENS, local_window_size=0),
    "gqa_positions_of_a_prompt": gqa(PROMPT, None, None, *SEQLENS, *caches(20, 8), ints(0, 15, 2, 5), do_rotary=1),
    "gqa_positions": gqa(STEP, *LATER, *caches(20, 8), ints(0, 15, 2, 1), do_rotary=1, rotary_interleaved=1),
    "gqa_bias": gqa(STEP, *PADDED, None, None, None, f(1, 4, 1, 8)),
    "gqa_sink": gqa(STEP, *PADDED, None, None, None, None, c(f(4)), smooth_softmax=1),
    "gqa_cache_of_8_bits": gqa(BYTES, *PADDED, *[None] * 5, c(F32([0.03])), c(F32([0.02])), k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", kv_cache_bit_width=8),
    "gqa_cache_of_4_bits": gqa(PACKED, *LATER, *[None] * 5, c(0.3 + numpy.abs(f(2, 16)) / 9), c(0.4 + numpy.abs(f(32)) / 9), k_quant_type="PER_CHANNEL", v_quant_type="PER_CHANNEL", kv_cache_bit_width=4),
    "gqa_smooth": gqa(STEP, *PADDED, smooth_softmax=1),
    "gqa_lengths_of_queries": gqa(STEP, *PADDED, *[None] * 9, c(numpy.array([1, 1], I32))),
}
REFERENCE = {  # ONNX Runtime 1.32 has no kernel
    "swiglu": ("ai.onnx:28::SwiGLU", [X, f(2, 5, 16)], {"alpha": 0.7}),
    "attention_short_mask": ("ai.onnx:24::Attention", [Q4, K4, V4, f(5, 6)], {}),
    "flex_attention": ("ai.onnx.preview::FlexAttention", [Q4, K4, V4], {"scale": 0.3, "softmax_precision": 1}),
}
MODIFIER = helper.make_graph([helper.make_node("Identity", ["s"], ["t"])], "m", [helper.make_tensor_value_info("s", 1, None)], [helper.make_tensor_value_info("t", 1, None)])
MHA = "MultiHeadAttention"
REFUSED = {  # and what the message names
    "group_norm": ("ai.onnx::GroupNormalization", [f(2, 6, 3, 4), c(f(6)), c(f(6))], {"num_groups": 3, "stash_type": 11}, "stash_type"),
    "imputer": (f"{ML}::Imputer", [XI], {"imputed_value_int64s": [3], "replaced_value_int64": 4}, "imputed_value_int64s, replaced_value_int64"),
    "label_encoder_of_texts": (f"{ML}::LabelEncoder", [XI], {"keys_strings": ["a"], "values_strings": ["b"], "default_string": "c"}, "default_string, keys_strings, values_strings"),
    "label_encoder_of_classes": (f"{ML}:1::LabelEncoder", [XI], {"classes_strings": ["a"]}, "classes_strings"),
    "label_encoder_of_tensors": (f"{ML}:4::LabelEncoder", [XI], {f"{n}_tensor": onnx.numpy_helper.from_array(numpy.array([1])) for n in ("keys", "values", "default")}, "default_tensor"),
    "linear_classifier_of_texts": (f"{ML}::LinearClassifier", [XF], {"coefficients": [0.1] * 8, "intercepts": [0.1, 0.2], "classlabels_strings": ["a", "b"], "post_transform": "PROBIT"}, "classlabels_strings, coefficients"),
    "one_hot_encoder": (f"{ML}::OneHotEncoder", [XI], {"cats_strings": ["1"], "zeros": 0}, "cats_strings, zeros"),
    "single_target": (f"{ML}::LinearRegressor", [XF], {"coefficients": [0.1, 0.2, 0.3, 0.4], "post_transform": "LOGISTIC"}, "post_transform"),
    "reduction": ("ai.onnx:13::NegativeLogLikelihoodLoss", [SCORES, LABELS], {"reduction": "most"}, "reduction"),
    "update_rule": ("ai.onnx:27::LinearAttention", [f(2, 6, 16), f(2, 6, 8), f(2, 6, 8)], {"q_num_heads": 4, "kv_num_heads": 2, "update_rule": "most"}, "update_rule"),
    "attention_heads": ("ai.onnx::Attention", [f(2, 5, 30), f(2, 7, 16), f(2, 7, 16)], {"q_num_heads": 4, "kv_num_heads": 2}, "q, q_num_heads"),
    "attention_scores": ("ai.onnx::Attention", [Q4, K4, V4], {"qk_matmul_output_mode": 4}, "qk_matmul_output_mode"),
    "rotary_heads": ("ai.onnx::RotaryEmbedding", [f(2, 5, 30), COS, SIN, ints(0, 15, 2, 5)], {"num_heads": 4}, "x, num_heads"),
    "gqa_key_alone": (*gqa([PROMPT[0], PROMPT[1], None], None, None, *SEQLENS)[:3], "key, value, past_key, past_value"),
    "across_channels": ("ai.onnx:8::MeanVarianceNormalization", [f(2, 3, 4, 5)], {"across_channels": 1}, "across_channels"),
    "normalize_variance": ("ai.onnx:8::MeanVarianceNormalization", [f(2, 3, 4, 5)], {"normalize_variance": 0}, "normalize_variance"),
    "attention_scale": ("ai.onnx::Attention", [Q4, K4, V4], {"scale": -0.5}, "scale"),
    "score_mod": ("ai.onnx.preview::FlexAttention", [Q4, K4, V4], {"score_mod": MODIFIER}, "score_mod"),
    "prob_mod": ("ai.onnx.preview::FlexAttention", [Q4, K4, V4], {"prob_mod": MODIFIER}, "prob_mod"),
    "causal_conv": ("ai.onnx:27::CausalConvWithState", [f(2, 6, 9), c(f(6, 1, 4))], {"activation": "relu"}, "activation"),
    "fused_gemm": ("FusedGemm", [f(3, 5), c(f(5, 4))], {"activation": "Elu", "activation_alpha": 0.3}, "activation"),
    "ms_attention_starts": ("Attention", [X, QKV, BIAS, numpy.array([4, 5, 1, 0], I32)], {"num_heads": 4}, "mask"),
    "ms_attention_packed": ("Attention", [X, QKV, BIAS, numpy.array([4, 5, 0, 4, 9, 0, 5, 10], I32)], {"num_heads": 4}, "mask"),
    "ms_attention_mask_of_rank_4": ("Attention", [X, QKV, BIAS, numpy.ones((2, 1, 8, 8), I32)], {"num_heads": 4}, "mask"),
    "ms_attention_rotary": ("Attention", [X, QKV, BIAS], {"num_heads": 4, "do_rotary": 1}, "do_rotary"),
    "ms_attention_in_place": ("Attention", [X, QKV, BIAS, None, PAST], {"num_heads": 4, "past_present_share_buffer": 1}, "past_present_share_buffer"),
    "q_attention_rotary": ("QAttention", [Q8, W8, BIAS, *SCALES, None, *ZEROS], {"num_heads": 4, "do_rotary": 1}, "do_rotary"),
    "q_attention_in_place": ("QAttention", [Q8, W8, BIAS, *SCALES, None, *ZEROS, PAST], {"num_heads": 4, "past_present_share_buffer": 1}, "past_present_share_buffer"),
    "packed": (MHA, [f(2, 5, 4, 3, 4)], {"num_heads": 4}, "query, key, value"),
    "many_keys": (MHA, [X, f(2, 7, 16), f(2, 7, 16)], {"num_heads": 4, "unidirectional": 1}, "unidirectional"),
    "causal_scores": (MHA, [X, X, X], {"num_heads": 4, "unidirectional": 1}, "unidirectional", [0, 3]),
    "mask": (MHA, [X, X, X, None, numpy.array([4, 5, 0, 4, 9, 0, 5, 10], I32)], {"num_heads": 4}, "mask"),
    "past_sequence_length": (MHA, [X, X, X, None, None, None, *HEADS, numpy.array([3], I32)], {"num_heads": 4}, "past_sequence_length"),
    "cache_indirection": (MHA, [X, X, X, *[None] * 6, numpy.zeros((2, 1, 5), I32)], {"num_heads": 4}, "cache_indirection"),
    "gqa_k_quant_type": (*gqa(PROMPT, None, None, *SEQLENS, k_quant_type="PER_TENSOR")[:3], "k_quant_type"),
    "gqa_v_quant_type": (*gqa(PROMPT, None, None, *SEQLENS, v_quant_type="PER_TENSOR")[:3], "v_quant_type"),
    "gqa_kv_cache_bit_width": (*gqa(PROMPT, None, None, *SEQLENS, kv_cache_bit_width=8)[:3], "kv_cache_bit_width"),
    "gqa_bits_of_the_cache": (*gqa(BYTES, *LATER, *[None] * 5, c(f(1)), c(f(1)), k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", kv_cache_bit_width=2)[:3], "kv_cache_bit_width"),
    "gqa_scales": (*gqa(PROMPT, None, None, *SEQLENS, *[None] * 5, c(f(1)), c(f(1)))[:3], "k_scale, v_scale"),
    "gqa_sliding_window_cache": (*gqa(STEP, *LATER, sliding_window_cache=1, local_window_size=4)[:3], "sliding_window_cache"),
    "gqa_qk_output": (*gqa(PROMPT, None, None, *SEQLENS, qk_output=1)[:3], "qk_output"),
    "gqa_heads": (*gqa(PROMPT, None, None, *SEQLENS, kv_num_heads=3)[:3], "num_heads, kv_num_heads"),
    "gqa_causal": (*gqa(PROMPT, None, None, *SEQLENS, causal=0, local_window_size=2)[:3], "local_window_size, causal"),
    "gqa_lengths_without_past": (*gqa(PROMPT, None, None, *SEQLENS, *[None] * 9, c(numpy.array([5, 5], I32)))[:3], "query_seqlens"),
    "packed_batches": ("RotaryEmbedding", [f(2, 5, 32), ints(0, 15, 2, 5), COS, SIN], {"is_packed_batching": 1}, "is_packed_batching"),
    "g_idx": ("MatMulNBits", [*NBITS, None, c(ints(0, 3, 40, dtype=I32))], NBITS_SIZES, "g_idx"),
    "weight_prepacked": ("MatMulNBits", NBITS, {**NBITS_SIZES, "weight_prepacked": 1}, "weight_prepacked"),
}
NORM = [c(1 + 0.1 * f(16)), c(1 + 0.1 * f(16))]
NORMED = {  # ONNX Runtime's kernel of CPUs has no norms
    "one_epsilon": gqa(PROMPT, None, None, *SEQLENS, *[None] * 7, *NORM, qk_norm_epsilon=0.1),
    "two_epsilons": gqa(PROMPT, None, None, *SEQLENS, *[None] * 7, *NORM, q_norm_epsilon=0.1, k_norm_epsilon=0.3),
}


@pytest.mark.parametrize("name", MORE)
def test_attributes_and_inputs(name, qcalib, tmp_path):
    # A state of the LSTM beside a step may be rounded to the other side.
    agrees(MORE[name], qcalib, tmp_path, tolerance=2e-3 if "lstm" in name else 2e-4)


@pytest.mark.parametrize("name", REFERENCE)
def test_operators_without_a_kernel(name, qcalib, tmp_path):
    agrees(REFERENCE[name], qcalib, tmp_path, lambda model, feeds: ReferenceEvaluator(model).run(None, feeds))


def normed(model, feeds):
    """The same with the norms of queries and keys as nodes before the operator."""
    node = model.graph.node[-1]
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    nodes, inputs = list(model.graph.node[:-1]), list(node.input[:7])
    for i, heads, key in ((0, 4, "q_norm_epsilon"), (1, 2, "k_norm_epsilon")):
        for name, shape in ((f"s{i}", [2, 5, heads, 16]), (f"t{i}", [2, 5, heads * 16])):
            model.graph.initializer.append(onnx.numpy_helper.from_array(numpy.array(shape), name))
        nodes += [
            helper.make_node("Reshape", [inputs[i], f"s{i}"], [f"h{i}"]),
            helper.make_node("SimplifiedLayerNormalization", [f"h{i}", node.input[14 + i]], [f"n{i}"], axis=-1, epsilon=given.get(key, given.get("qk_norm_epsilon"))),
            helper.make_node("Reshape", [f"n{i}", f"t{i}"], [f"m{i}"]),
        ]
        inputs[i] = f"m{i}"
    del model.graph.node[:]
    model.graph.node.extend([*nodes, helper.make_node(node.op_type, inputs, node.output, domain=MS, **GQA)])
    return session(model).run(None, feeds)


@pytest.mark.parametrize("name", NORMED)
def test_norms_of_queries_and_keys(name, qcalib, tmp_path):
    agrees(NORMED[name], qcalib, tmp_path, lambda model, feeds: normed(onnx.ModelProto.FromString(model.SerializeToString()), feeds))


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name, qcalib, tmp_path):
    op, inputs, attributes, named, *outputs = REFUSED[name]
    model, feeds = model_of(op, inputs, attributes, outputs[0] if outputs else [0])
    for output in model.graph.output:
        output.CopyFrom(helper.make_tensor_value_info(output.name, onnx.TensorProto.FLOAT, None))
    onnx.save(model, tmp_path / "m.onnx")
    store(tmp_path / "d.h5", feeds)
    said = qcalib("run", "m.onnx", "--data", "d.h5", "-o", "out.h5", code=4).err
    assert "'node'" in said and op.split("::")[-1] in said and named in said and ".rules" not in said


# --- Values that are known while the model runs ---


def padded(seed):
    """A call of GroupQueryAttention on sequences of different lengths in a cache, and which rows of its outputs count."""
    r = numpy.random.default_rng(seed)
    form = ("prompt", "prompt with a cache", "step", "step in a cache", "chunk", "chunk in a cache", "padded chunk")[seed % 7]
    batch, tokens, capacity = (1 if form.startswith("chunk") else 3), 1 if "step" in form else int(r.integers(2, 5)), None
    least = tokens - 1 if form.startswith("chunk") else 0
    if form != "prompt":
        capacity = tokens + int(r.integers(1, 6))
    total = tokens if "prompt" in form else capacity if "in a cache" in form or "padded" in form else capacity + tokens
    last = r.integers(least, total, batch)
    valid = numpy.minimum(tokens, last + 1)
    if form == "padded chunk":
        past = r.integers(0, capacity - tokens + 1, batch)
        valid = r.integers(1, tokens + 1, batch)
        last = past + valid - 1
    normal = lambda *shape: r.standard_normal(shape).astype(F32)
    cache = [None, None] if capacity is None else [normal(batch, 2, capacity, 16), normal(batch, 2, capacity, 16)]
    inputs = [normal(batch, tokens, 64), normal(batch, tokens, 32), normal(batch, tokens, 32), *cache, last.astype(I32), c(I32(total)), *caches(40, 8)]
    bias = normal(1, 4, tokens, total) if r.random() < 0.5 else None
    inputs += [None, bias, *[None] * 5, valid.astype(I32) if form == "padded chunk" else None]
    attributes = {"do_rotary": int(r.integers(0, 2)), "softcap": float(r.choice([0, 2])), "local_window_size": int(r.choice([-1, 0, 1, 2, 3]))}

    def part(name, value):
        value = value.copy()
        for b in range(batch):
            if name == "o0":
                value[b, valid[b] :] = 0
            elif form == "padded chunk":
                value[b, :, last[b] + 1 :] = 0
        return value

    return gqa(inputs, **attributes), part


@pytest.mark.parametrize("seed", range(28))
def test_lengths_in_a_cache(seed, qcalib, tmp_path):
    case, part = padded(seed)
    agrees(case, qcalib, tmp_path, part=part)


LATE = {  # operator, inputs, attributes, what the message says; ONNX Runtime refuses them too, but for the last
    "negative length": (*gqa(STEP, numpy.array([-5, 7], I32), c(I32(8)))[:3], "expected seqlens_k within the cache, got -5"),
    "length behind the cache": (*gqa(STEP, numpy.array([7, 100], I32), c(I32(8)))[:3], "expected seqlens_k within the cache, got 100"),
    "constant length": (*gqa(STEP, c(numpy.array([-5, 7], I32)), c(I32(8)))[:3], "expected seqlens_k within the cache, got -5"),
    "fewer tokens than new ones": (*gqa([v[:1] for v in PROMPT], f(1, 2, 7, 16), f(1, 2, 7, 16), numpy.array([1], I32), c(I32(12)))[:3], "seqlens_k within the cache, got 1"),
    "one length for two sequences": (*gqa(STEP, numpy.array([7], I32), c(I32(8)))[:3], "Reshape"),
    "total between the cache and its growth": (*gqa(PROMPT, f(2, 2, 7, 16), f(2, 2, 7, 16), *LATER[:1], c(I32(9)))[:3], "expected total_sequence_length of the past and the new tokens, got 9"),
    "negative total": (*gqa(PROMPT, None, None, SEQLENS[0], numpy.array(-3, I32))[:3], "expected total_sequence_length of the past and the new tokens, got -3"),
    "total of more than there is": (*gqa(PROMPT, None, None, SEQLENS[0], numpy.array(9, I32))[:3], "expected total_sequence_length of the past and the new tokens, got 9"),
    "negative query length": (*gqa(STEP, *PADDED, *[None] * 9, numpy.array([1, -1], I32))[:3], "expected query_seqlens of tokens of this step, got -1"),
    "negative position": ("RotaryEmbedding", [f(2, 5, 32), ints(-9, 0, 2, 5), COS, SIN], {}, "expected position_ids from 0 on, got -"),
    "position behind the table": ("RotaryEmbedding", [f(2, 5, 32), ints(20, 30, 2, 5), COS, SIN], {}, "is outside axis 0, which has 20 elements"),
    "negative position of ONNX": ("ai.onnx::RotaryEmbedding", [f(2, 4, 5, 8), COS, SIN, ints(-9, 0, 2, 5)], {}, "expected position_ids from 0 on, got -"),
}


@pytest.mark.parametrize("name", LATE)
def test_impossible_values(name, qcalib, tmp_path):
    op, inputs, attributes, message = LATE[name]
    model, feeds = model_of(op, inputs, attributes, [0])
    with pytest.raises(Exception):
        session(model).run(None, feeds)
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("o0", onnx.TensorProto.FLOAT, None))
    onnx.save(model, tmp_path / "m.onnx")
    store(tmp_path / "d.h5", feeds)
    said = qcalib("run", "m.onnx", "--data", "d.h5", "-o", "out.h5", code=3).err
    assert "'node/" in said and message in said and ".rules" not in said


def unsized(op, inputs, attributes, shapes):
    """A model of inputs of free dimensions, as exporters write them."""
    names = [f"i{i}" if v is not None else "" for i, v in enumerate(inputs)]
    ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), s) for n, v, s in zip(names, inputs, shapes) if n]
    node = helper.make_node(op, names, ["y"], name="node", domain=MS, **attributes)
    graph = helper.make_graph([node], "g", ports, [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)], ir_version=10)


@pytest.mark.parametrize("keys", (3, 5, 7))
def test_causal_attention_of_free_sizes(keys, qcalib, tmp_path):
    """More keys than queries are known only while the model runs."""
    x, k = f(1, 5, 16), f(1, keys, 16)
    model = unsized(MHA, [x, k, k], {"num_heads": 4, "unidirectional": 1}, [["N", "S", 16], ["N", "K", 16], ["N", "K", 16]])
    onnx.save(model, tmp_path / "m.onnx")
    feeds = {"i0": x, "i1": k, "i2": k}
    store(tmp_path / "d.h5", feeds)
    done = qcalib("run", "m.onnx", "--data", "d.h5", "-o", "out.h5", code=3 if keys > 5 else 0)
    if keys > 5:
        assert "'node/Expect'" in done.err and "expected no more keys than queries with unidirectional" in done.err
    else:
        numpy.testing.assert_allclose(by_name(tmp_path / "out.h5")["y"].reshape(x.shape), session(model).run(None, feeds)[0], atol=1e-5)


@pytest.mark.parametrize("lengths", ([3], [3, 0]), ids=str)
def test_lengths_of_free_sizes(lengths, qcalib, tmp_path):
    """A mask of one dimension has a length for each sequence; another form has a start for each too."""
    x, lengths = f(1, 5, 16), numpy.array(lengths, I32)
    model = unsized(MHA, [x, x, x, None, lengths], {"num_heads": 4}, [["N", "S", 16]] * 3 + [None, ["M"]])
    onnx.save(model, tmp_path / "m.onnx")
    store(tmp_path / "d.h5", {f"{name}/0": value for name, value in (("i0", x[0]), ("i1", x[0]), ("i2", x[0]), ("i4", lengths))})
    done = qcalib("run", "m.onnx", "--data", "d.h5", "-o", "out.h5", code=3 if len(lengths) > 1 else 0)
    if len(lengths) > 1:
        assert "'node/Expect'" in done.err and "expected a length for each sequence" in done.err


# --- The schemas ---

TEXT = re.sub(r"#.*", "", "".join((ROOT / f"rewrite/rules/{name}.rules").read_text() for name in ("functions", "functions_ml")))
HEAD = re.compile(r"^function ([\w.:]+)\(([^)]*)\)\s*(?:opset (\d+)(?: to (\d+))?\s*)?(?:\{([^}]*)\})?", re.M)


def declared():
    """Operator -> the opsets of its functions, the number of inputs and the names of attributes that they declare."""
    found = {}
    for name, inputs, first, last, attributes in HEAD.findall(TEXT):
        if name.startswith("qcalib::"):
            continue
        opsets, count, names = found.get(name, ([], 0, set()))
        names = names | {re.match(r"\s*(\w+)", a)[1] for a in re.sub(r"\[[^]]*\]", "", attributes).split(",") if a.strip()}
        found[name] = opsets + [(int(first or 7), int(last or 1000))], max(count, len(inputs.split(","))), names
    return found


def schemas(name, opsets):
    """Names of the inputs and attributes of an operator in the versions that its functions are of."""
    domain, _, op = name.rpartition("::")
    all_of = [s for s in [*get_all_operator_schema(), *onnx.defs.get_all_schemas_with_history()] if s.name == op and s.domain.replace("ai.onnx", "", s.domain == "ai.onnx") == domain]
    inputs, attributes = [], set()
    for s in all_of:
        later = [t.since_version for t in all_of if t.since_version > s.since_version]
        if not domain and not any(s.since_version <= last and (not later or min(later) > first) for first, last in opsets):
            continue
        inputs += [i.name for i in s.inputs][len(inputs) :]
        attributes |= set(s.attributes)
    return inputs, attributes


def used():
    """Operator -> indices of the inputs and names of the attributes in the cases."""
    found = {}
    random = {f"padded {s}": padded(s)[0] for s in range(28)}
    for case in [*(CASES | MORE | REFERENCE | NORMED | random).values(), *REFUSED.values()]:
        domain, _, op = case[0].rpartition("::")
        domain = domain.partition(":")[0]
        name = op if domain == "ai.onnx" else f"{domain or MS}::{op}"
        places, names = found.setdefault(name, (set(), set()))
        places |= {i for i, v in enumerate(case[1]) if v is not None}
        names |= set(case[2])
    return found


@pytest.mark.parametrize("name", declared())
def test_schemas(name):
    opsets, count, names = declared()[name]
    inputs, attributes = schemas(name, opsets)
    places, given = used()[name]
    assert inputs, "no schema"
    assert not {i for k, i in enumerate(inputs) if k not in places}, "inputs without a case"
    assert not attributes - given, "attributes without a case"
    assert count <= len(inputs) and not names - attributes, "declared, but not in a schema"
