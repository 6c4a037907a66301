// SPDX-License-Identifier: Apache-2.0
#include "graph_cases.h"

#include "graph/text/text.h"
#include "tests/check.h"

/* Expected shapes follow the text of the ONNX operator documentation; those without free dimensions are also in
   infer_reference.txt, which ONNX Runtime made. */
const struct graph_case graph_cases[] = {
    /* Convolutions and pools */
    {"f32[N,3,32,32];f32[16,3,3,3];f32[16]", "Conv(%1, %2, %3) {pads=[1,1,1,1]}", "f32[N,16,32,32]", QC_OK},
    {"f32[N,3,32,32];f32[16,3,3,3]", "Conv(%1, %2) {strides=[2,2], pads=[0,0,1,1], kernel_shape=[3,3]}",
     "f32[N,16,16,16]", QC_OK},
    {"f32[1,32,8,8];f32[32,1,3,3]", "Conv(%1, %2) {group=32, dilations=[2,2]}", "f32[1,32,4,4]", QC_OK},
    {"f32[2,4,9];f32[8,4,3]", "Conv(%1, %2) {strides=[4], auto_pad=\"SAME_UPPER\"}", "f32[2,8,3]", QC_OK},
    {"f32[2,4,5,6,7];f32[8,4,2,3,4]", "Conv(%1, %2)", "f32[2,8,4,4,4]", QC_OK},
    {"f32[N,3,N,N];f32[16,3,3,3]", "Conv(%1, %2) {pads=[1,1,1,1]}", "f32[N,16,N,N]", QC_OK},
    {"f32[?];f32[16,3,3,3]", "Conv(%1, %2)", "f32[N,16,N,N]", QC_OK},
    {"f32[1,3,8,8];f32[?]", "Conv(%1, %2)", "f32[1,N,N,N]", QC_OK},
    {"f32[?];f32[?]", "Conv(%1, %2)", "f32[?]", QC_OK},
    {"f16[1,3,8,8];f16[4,3,1,1]", "Conv(%1, %2)", "f16[1,4,8,8]", QC_OK},
    {"f32[0,3,8,8];f32[4,3,1,1]", "Conv(%1, %2)", "f32[0,4,8,8]", QC_OK},
    {"f32[1,3,8,8];f32[3,5,3,3];f32[5]", "ConvTranspose(%1, %2, %3)", "f32[1,5,10,10]", QC_OK},
    {"f32[1,4,8,8];f32[4,5,3,3]",
     "ConvTranspose(%1, %2) {group=2, strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]}", "f32[1,10,16,16]", QC_OK},
    {"f32[1,1,3,3];f32[1,2,3,3]", "ConvTranspose(%1, %2) {strides=[3,2], output_shape=[10,8]}", "f32[1,2,10,8]", QC_OK},
    {"f32[N,1,N,3];f32[1,2,3,3]", "ConvTranspose(%1, %2) {strides=[2,2], auto_pad=\"SAME_UPPER\"}", "f32[N,2,N,6]",
     QC_OK},
    {"f32[N,1,N,3];f32[1,2,3,3]", "ConvTranspose(%1, %2) {output_shape=[7,4]}", "f32[N,2,7,4]", QC_OK},
    {"f32[N,8,32,32]", "MaxPool(%1) {kernel_shape=[2,2], strides=[2,2]}", "f32[N,8,16,16]", QC_OK},
    {"f32[1,1,4,4]", "MaxPool(%1) {kernel_shape=[3,3], strides=[2,2], ceil_mode=1}", "f32[1,1,2,2]", QC_OK},
    /* ONNX AveragePool-19: a window that would start in the right padding is dropped (node test
       maxpool_2d_ceil_output_size_reduce_by_one) */
    {"f32[1,1,2,2]", "MaxPool(%1) {kernel_shape=[1,1], strides=[2,2], ceil_mode=1}", "f32[1,1,1,1]", QC_OK},
    {"u8[1,3,5,5]", "MaxPool(%1) {kernel_shape=[5,5], pads=[2,2,2,2]}", "u8[1,3,5,5]", QC_OK},
    {"f32[?]", "MaxPool(%1) {kernel_shape=[2,2]}", "f32[N,N,N,N]", QC_OK},
    {"f32[N,8,7,7]", "AveragePool(%1) {kernel_shape=[3,3], strides=[2,2], auto_pad=\"SAME_LOWER\"}", "f32[N,8,4,4]",
     QC_OK},
    {"f32[N,8,7,7]", "AveragePool(%1) {kernel_shape=[3,3], strides=[2,2], auto_pad=\"VALID\"}", "f32[N,8,3,3]", QC_OK},
    {"f32[N,8,7,7]", "GlobalAveragePool(%1)", "f32[N,8,1,1]", QC_OK},
    {"f32[N,8,N]", "GlobalMaxPool(%1)", "f32[N,8,1]", QC_OK},
    /* Products */
    {"f32[N,64];f32[64,10];f32[1,10]", "Gemm(%1, %2, %3) {alpha=1f, beta=1f}", "f32[N,10]", QC_OK},
    {"f32[64,N];f32[10,64];f32[10]", "Gemm(%1, %2, %3) {transA=1, transB=1}", "f32[N,10]", QC_OK},
    {"f32[?];f32[10,64]", "Gemm(%1, %2) {transB=1}", "f32[N,10]", QC_OK},
    {"f32[2,64];f32[64,10];f32[]", "Gemm(%1, %2, %3)", "f32[2,10]", QC_OK},
    {"f32[N,64];f32[64,10]", "MatMul(%1, %2)", "f32[N,10]", QC_OK},
    {"f32[64];f32[64,10]", "MatMul(%1, %2)", "f32[10]", QC_OK},
    {"f32[3,64];f32[64]", "MatMul(%1, %2)", "f32[3]", QC_OK},
    {"f32[64];f32[64]", "MatMul(%1, %2)", "f32[]", QC_OK},
    {"f32[N,1,2,3];f32[5,3,4]", "MatMul(%1, %2)", "f32[N,5,2,4]", QC_OK},
    {"f32[?];f32[5,3,4]", "MatMul(%1, %2)", "f32[?]", QC_OK},
    /* Recurrent */
    {"f32[N,2,5];f32[1,3,5];f32[1,3,3]", "RNN(%1, %2, %3) {hidden_size=3}", "f32[N,1,2,3]", QC_OK},
    {"f32[7,N,5];f32[2,12,5];f32[2,12,3];f32[2,24];i32[N];f32[2,N,3];f32[2,N,3];f32[2,9]",
     "LSTM(%1, %2, %3, %4, %5, %6, %7, %8) "
     "{activations=strings[\"Relu\",\"Tanh\",\"Tanh\",\"Relu\",\"Tanh\",\"Tanh\"], "
     "direction=\"bidirectional\"}",
     "f32[7,2,N,3] f32[2,N,3] f32[2,N,3]", QC_OK},
    {"f32[N,7,5];f32[1,9,5];f32[1,9,3]", "GRU(%1, %2, %3) {direction=\"reverse\", layout=1}", "f32[N,7,1,3] f32[N,1,3]",
     QC_OK},
    {"f32[?];f32[?];f32[1,9,3]", "GRU(%1, %2, %3)", "f32[N,1,N,3]", QC_OK},
    /* Elementwise */
    {"f32[N,3]", "Relu(%1)", "f32[N,3]", QC_OK},
    {"f32[N,3];f32[]={0};f32[]={6}", "Clip(%1, %2, %3)", "f32[N,3]", QC_OK},
    {"f32[N,3];f32[1]={6}", "Clip(%1, -, %2)", "f32[N,3]", QC_OK},
    {"f32[N,3,1];f32[4]", "Add(%1, %2)", "f32[N,3,4]", QC_OK},
    {"f32[N];f32[5]", "Sub(%1, %2)", "f32[5]", QC_OK},
    {"f32[1,N];f32[N,1]", "Mul(%1, %2)", "f32[N,N]", QC_OK},
    {"i64[3];i64[]", "Div(%1, %2)", "i64[3]", QC_OK},
    {"f32[3];i64[]", "Pow(%1, %2)", "f32[3]", QC_OK},
    {"f32[3];f32[3]", "Mod(%1, %2) {fmod=1}", "f32[3]", QC_OK},
    {"f32[N,3,4,4];f32[3,1,1]", "PRelu(%1, %2)", "f32[N,3,4,4]", QC_OK},
    {"bool[2,1];bool[3]", "And(%1, %2)", "bool[2,3]", QC_OK},
    {"bool[2];bool[2]", "Or(%1, %2)", "bool[2]", QC_OK},
    {"bool[2];bool[2]", "Xor(%1, %2)", "bool[2]", QC_OK},
    {"f32[2];f32[2]", "Equal(%1, %2)", "bool[2]", QC_OK},
    {"f32[2];f32[1]", "Greater(%1, %2)", "bool[2]", QC_OK},
    {"f32[2];f32[1]", "GreaterOrEqual(%1, %2)", "bool[2]", QC_OK},
    {"i64[2];i64[1]", "Less(%1, %2)", "bool[2]", QC_OK},
    {"i64[2];i64[1]", "LessOrEqual(%1, %2)", "bool[2]", QC_OK},
    {"f32[2,1];f32[3];f32[]", "Max(%1, %2, %3)", "f32[2,3]", QC_OK},
    {"f32[2,1]", "Min(%1)", "f32[2,1]", QC_OK},
    {"f32[2,1];f32[3]", "Sum(%1, %2)", "f32[2,3]", QC_OK},
    {"f32[2,1];f32[?]", "Mean(%1, %2)", "f32[?]", QC_OK},
    {"bool[2,1];f32[3];f32[]", "Where(%1, %2, %3)", "f32[2,3]", QC_OK},
    {"i32[2]", "Abs(%1)", "i32[2]", QC_OK},
    {"f32[2]", "Neg(%1)", "f32[2]", QC_OK},
    {"f32[2]", "Sign(%1)", "f32[2]", QC_OK},
    {"bool[2]", "Not(%1)", "bool[2]", QC_OK},
    {"f32[2]", "IsNaN(%1)", "bool[2]", QC_OK},
    {"f32[N,2]", "Cast(%1) {to=7}", "i64[N,2]", QC_OK},
    {"f32[N,2]", "Gelu(%1) {approximate=\"tanh\"}", "f32[N,2]", QC_OK},
    {"f32[N,2]", "LeakyRelu(%1) {alpha=0.100000001f}", "f32[N,2]", QC_OK},
    /* Normalisation */
    {"f32[N,3,4];f32[3];f32[3];f32[3];f32[3]", "BatchNormalization(%1, %2, %3, %4, %5) {epsilon=1e-05f}", "f32[N,3,4]",
     QC_OK},
    {"f32[N,3,4];f32[3];f32[3]", "InstanceNormalization(%1, %2, %3)", "f32[N,3,4]", QC_OK},
    {"f32[N,3,4];f32[4];f32[4]", "LayerNormalization(%1, %2, %3)", "f32[N,3,4]", QC_OK},
    {"f32[N,3,4]", "LpNormalization(%1) {p=2}", "f32[N,3,4]", QC_OK},
    {"f32[N,3,4,4]", "LRN(%1) {size=5}", "f32[N,3,4,4]", QC_OK},
    {"f32[N,10]", "Softmax(%1) {axis=1}", "f32[N,10]", QC_OK},
    {"f32[N,10]", "LogSoftmax(%1)", "f32[N,10]", QC_OK},
    /* Reductions */
    {"f32[N,3,4,5]", "ReduceMean(%1) {axes=[2,3], keepdims=0}", "f32[N,3]", QC_OK},
    {"f32[N,3,4]", "ReduceSum(%1) {axes=[-1]}", "f32[N,3,1]", QC_OK},
    {"f32[N,3,4]", "ReduceMax(%1)", "f32[1,1,1]", QC_OK},
    {"f32[N,3,4]", "ReduceMin(%1) {keepdims=0}", "f32[]", QC_OK},
    {"f32[N,3,4]", "ReduceProd(%1) {noop_with_empty_axes=1}", "f32[N,3,4]", QC_OK},
    {"f32[N,3]", "ReduceL1(%1) {axes=[1]}", "f32[N,1]", QC_OK},
    {"f32[N,3]", "ReduceL2(%1) {axes=[1]}", "f32[N,1]", QC_OK},
    {"f32[N,3]", "ReduceSumSquare(%1) {axes=[1]}", "f32[N,1]", QC_OK},
    {"f32[?]", "ReduceLogSumExp(%1) {axes=[1]}", "f32[?]", QC_OK},
    {"f32[N,3,4]", "ArgMax(%1) {axis=1, keepdims=0}", "i64[N,4]", QC_OK},
    {"f32[N,3,4]", "ArgMin(%1) {axis=-1}", "i64[N,3,1]", QC_OK},
    {"f32[N,3];i64[]={-1}", "CumSum(%1, %2)", "f32[N,3]", QC_OK},
    {"u8[3];u8[3]", "BitwiseAnd(%1, %2)", "u8[3]", QC_OK},
    {"i32[2,1];i32[3]", "BitwiseOr(%1, %2)", "i32[2,3]", QC_OK},
    {"i64[3];i64[3]", "BitwiseXor(%1, %2)", "i64[3]", QC_OK},
    {"u16[3];u16[]", "BitShift(%1, %2) {direction=\"LEFT\"}", "u16[3]", QC_OK},
    {"u32[3]", "BitwiseNot(%1)", "u32[3]", QC_OK},
    {"f32[N,3]", "IsInf(%1) {detect_negative=0}", "bool[N,3]", QC_OK},
    {"f32[N,3]", "BitCast(%1) {to=12}", "u32[N,3]", QC_OK},
    {"f32[N,3]", "Hardmax(%1) {axis=0}", "f32[N,3]", QC_OK},
    {"f32[N,3,8,8]", "MaxPoolIndices(%1) {kernel_shape=[2,2], strides=[2,2]}", "f32[N,3,4,4] i64[N,3,4,4]", QC_OK},
    {"f32[N,3,8]", "LpPool(%1) {kernel_shape=[3], p=3}", "f32[N,3,6]", QC_OK},
    {"f32[N,3,8,8]", "GlobalLpPool(%1)", "f32[N,3,1,1]", QC_OK},
    {"f32[1,3,4,4];i64[1,3,4,4]", "MaxUnpool(%1, %2) {kernel_shape=[2,2], strides=[2,2]}", "f32[1,3,8,8]", QC_OK},
    {"f32[N,3];i64[]={-1}", "CumProd(%1, %2) {reverse=1}", "f32[N,3]", QC_OK},
    {"f32[N,9];i64[1]={4}", "TopK(%1, %2)", "f32[N,4] i64[N,4]", QC_OK},
    {"f32[N,9];i64[1]", "TopK(%1, %2)", "f32[N,N] i64[N,N]", QC_OK},
    {"f32[N,2,3];f32[N,3,4]", "Einsum(%1, %2) {equation=\"bij,bjk->bik\"}", "f32[N,2,4]", QC_OK},
    {"f32[2,3,4];f32[4]", "Einsum(%1, %2) {equation=\"...k,k\"}", "f32[2,3]", QC_OK},
    {"f32[5,3,3]", "Det(%1)", "f32[5]", QC_OK},
    {"f32[N,16,1];i64[]={20};i64[]={1}", "DFT(%1, %2, %3) {onesided=1}", "f32[N,11,2]", QC_OK},
    {"f32[N,128,1];i64[]={8};f32[16]", "STFT(%1, %2, %3)", "f32[N,15,9,2]", QC_OK},
    {"i64[]={8};i64[]={16};i64[]={8192};f32[];f32[]", "MelWeightMatrix(%1, %2, %3, %4, %5)", "f32[9,8]", QC_OK},
    {"i64[N,6]",
     "TfIdfVectorizer(%1) {mode=\"TF\", ngram_counts=[0,1], ngram_indexes=[0,1,2], pool_int64s=[7,1,2,3,4]}",
     "f32[N,3]", QC_OK},
    {"f32[2,3,4];i64[5,2]", "GatherND(%1, %2)", "f32[5,4]", QC_OK},
    {"f32[2,3,4];i64[2,1]", "GatherND(%1, %2) {batch_dims=1}", "f32[2,4]", QC_OK},
    {"f32[3,3];i64[1,3];f32[1,3]", "ScatterElements(%1, %2, %3) {axis=0}", "f32[3,3]", QC_OK},
    {"f32[4,5];i64[2,1];f32[2,5]", "ScatterND(%1, %2, %3) {reduction=\"add\"}", "f32[4,5]", QC_OK},
    {"f32[2,8,4];f32[2,1,4];i64[2]", "TensorScatter(%1, %2, %3)", "f32[2,8,4]", QC_OK},
    {"i64[N];i64[]={10};f32[2]", "OneHot(%1, %2, %3)", "f32[N,10]", QC_OK},
    {"f32[N,4,4];i64[]", "Trilu(%1, %2) {upper=0}", "f32[N,4,4]", QC_OK},
    {"f32[3,4]", "EyeLike(%1) {dtype=7}", "i64[3,4]", QC_OK},
    {"", "RandomNormal() {shape=[2,3]}", "f32[2,3]", QC_OK},
    {"", "RandomUniform() {shape=[4], dtype=11}", "f64[4]", QC_OK},
    {"f32[N,3]", "RandomNormalLike(%1)", "f32[N,3]", QC_OK},
    {"i64[2,3]", "RandomUniformLike(%1) {dtype=1}", "f32[2,3]", QC_OK},
    {"f32[N,5]", "Multinomial(%1) {sample_size=4}", "i32[N,4]", QC_OK},
    {"f32[N,5]", "TreeEnsembleRegressor(%1) {n_targets=2}", "f32[N,2]", QC_OK},
    {"f32[N,5]", "TreeEnsemble(%1) {n_targets=2}", "f32[N,2]", QC_OK},
    {"f64[N,5]", "TreeEnsemble(%1) {n_targets=2}", "f64[N,2]", QC_OK},
    {"f32[N,5]", "TreeEnsembleClassifier(%1) {classlabels_int64s=[3,4,5]}", "i64[N] f32[N,3]", QC_OK},
    {"f32[5]", "SVMClassifier(%1) {classlabels_ints=[3,4,5,6], vectors_per_class=[1,1,1,1]}", "i64[1] f32[1,6]", QC_OK},
    {"f32[4,2];i64[2]", "ReverseSequence(%1, %2)", "f32[4,2]", QC_OK},
    {"f32[3,2];bool[3]={1,0,1}", "Compress(%1, %2) {axis=0}", "f32[2,2]", QC_OK},
    {"f32[3,2];bool[3]", "Compress(%1, %2)", "f32[N]", QC_OK},
    {"i64[2,2]={1,0,0,3}", "NonZero(%1)", "i64[2,2]", QC_OK},
    {"f32[2,2]", "NonZero(%1)", "i64[2,N]", QC_OK},
    {"f32[5]={2,1,2,3,1}", "Unique(%1)", "f32[3] i64[3] i64[5] i64[3]", QC_OK},
    {"f32[1,6,4];f32[1,2,6];i64[]={3}", "NonMaxSuppression(%1, %2, %3)", "i64[N,3]", QC_OK},
    {"f32[N,5,5];i64[2]={5,5};i64[2]={1,5}", "Col2Im(%1, %2, %3)", "f32[N,1,5,5]", QC_OK},
    {"f32[N,3,8,8];f32[N,5,6,2]", "GridSample(%1, %2)", "f32[N,3,5,6]", QC_OK},
    {"f32[2,3,8,8];f32[7,4];i64[7]", "RoiAlign(%1, %2, %3) {output_height=2, output_width=3}", "f32[7,3,2,3]", QC_OK},
    {"f32[2,3,8,8];f32[7,5]", "MaxRoiPool(%1, %2) {pooled_shape=[2,3]}", "f32[7,3,2,3]", QC_OK},
    {"f32[1,2,5,5];f32[4,2,3,3];f32[1,18,3,3]", "DeformConv(%1, %2, %3)", "f32[1,4,3,3]", QC_OK},
    {"f32[N,3];i64[1]", "ReduceSum(%1, %2)", "f32[N,N]", QC_OK},
    {"f32[N,3,4];i64[1]={-1}", "ReduceMax(%1, %2) {keepdims=0}", "f32[N,3]", QC_OK},
    /* Shapes */
    {"f32[N,64,1,1];i64[2]={-1,64}", "Reshape(%1, %2)", "f32[N,64]", QC_OK},
    {"f32[N,64,1,1];i64[2]={0,-1}", "Reshape(%1, %2)", "f32[N,64]", QC_OK},
    {"f32[N,64,2,2];i64[3]={0,0,-1}", "Reshape(%1, %2)", "f32[N,64,4]", QC_OK},
    {"f32[N,64,1,1];i64[2]={1,64}", "Reshape(%1, %2)", "f32[1,64]", QC_OK},
    {"f32[N,6];i64[2]={-1,4}", "Reshape(%1, %2)", "f32[N,4]", QC_OK},
    {"f32[N,N];i64[2]={0,-1}", "Reshape(%1, %2)", "f32[N,N]", QC_OK},
    {"f32[2,3,4];i64[1]={-1}", "Reshape(%1, %2)", "f32[24]", QC_OK},
    {"f32[1];i64[0]={}", "Reshape(%1, %2)", "f32[]", QC_OK},
    {"f32[0,3];i64[2]={3,0}", "Reshape(%1, %2) {allowzero=1}", "f32[3,0]", QC_OK},
    {"f32[?];i64[3]={0,-1,4}", "Reshape(%1, %2)", "f32[N,N,4]", QC_OK},
    {"f32[2,3];i64[3]", "Reshape(%1, %2)", "f32[N,N,N]", QC_OK},
    {"f32[2,3];i64[N]", "Reshape(%1, %2)", "f32[?]", QC_OK},
    {"f32[N,3,4,5]", "Flatten(%1)", "f32[N,60]", QC_OK},
    {"f32[2,3,4,5]", "Flatten(%1) {axis=-1}", "f32[24,5]", QC_OK},
    {"f32[2,3]", "Flatten(%1) {axis=0}", "f32[1,6]", QC_OK},
    {"f32[?]", "Flatten(%1)", "f32[N,N]", QC_OK},
    {"f32[N,64,1,1];i64[2]={2,-1}", "Squeeze(%1, %2)", "f32[N,64]", QC_OK},
    {"f32[1,64,1]", "Squeeze(%1)", "f32[64]", QC_OK},
    {"f32[N,64,1]", "Squeeze(%1)", "f32[?]", QC_OK},
    {"f32[N,64,1];i64[1]", "Squeeze(%1, %2)", "f32[N,N]", QC_OK},
    {"f32[N,64];i64[2]={-1,0}", "Unsqueeze(%1, %2)", "f32[1,N,64,1]", QC_OK},
    {"f32[N,64];i64[2]", "Unsqueeze(%1, %2)", "f32[N,N,N,N]", QC_OK},
    {"f32[N,3,4,5]", "Transpose(%1) {perm=[0,2,3,1]}", "f32[N,4,5,3]", QC_OK},
    {"f32[2,3,4]", "Transpose(%1)", "f32[4,3,2]", QC_OK},
    {"f32[?]", "Transpose(%1) {perm=[1,0]}", "f32[N,N]", QC_OK},
    {"f32[20,10];i64[2]={0,1};i64[2]={3,9223372036854775807};i64[2]={0,1};i64[2]={1,2}", "Slice(%1, %2, %3, %4, %5)",
     "f32[3,5]", QC_OK},
    {"f32[20];i64[1]={-1};i64[1]={-9223372036854775808};i64[1]={0};i64[1]={-3}", "Slice(%1, %2, %3, %4, %5)", "f32[7]",
     QC_OK},
    {"f32[N,10];i64[1]={2};i64[1]={-2};i64[1]={1}", "Slice(%1, %2, %3, %4)", "f32[N,6]", QC_OK},
    {"f32[N,10];i64[1]={0};i64[1]={1}", "Slice(%1, %2, %3)", "f32[N,10]", QC_OK},
    {"f32[N,10];i64[1];i64[1];i64[1]={1}", "Slice(%1, %2, %3, %4)", "f32[N,N]", QC_OK},
    {"f32[N,6]", "Split(%1) {axis=1}", "f32[N,2] f32[N,2] f32[N,2]", QC_OK},
    {"f32[N,6];i64[2]={1,5}", "Split(%1, %2) {axis=-1}", "f32[N,1] f32[N,5]", QC_OK},
    {"f32[7,2]", "Split(%1) {num_outputs=3}", "f32[3,2] f32[3,2] f32[1,2]", QC_OK},
    {"f32[N,2]", "Split(%1)", "f32[N,2] f32[N,2]", QC_OK},
    {"f32[N,5,3];i64[2,2]={0,1,-5,4}", "Gather(%1, %2) {axis=1}", "f32[N,2,2,3]", QC_OK},
    {"i64[4];i64[]={0}", "Gather(%1, %2)", "i64[]", QC_OK},
    {"f32[3,3];i64[2,3]", "GatherElements(%1, %2) {axis=0}", "f32[2,3]", QC_OK},
    {"f32[3,1];i64[3]={2,1,6}", "Expand(%1, %2)", "f32[2,3,6]", QC_OK},
    {"f32[N,1];i64[2]={1,4}", "Expand(%1, %2)", "f32[N,4]", QC_OK},
    {"f32[3,1];i64[3]", "Expand(%1, %2)", "f32[N,3,N]", QC_OK},
    {"f32[N,2];i64[2]={2,3}", "Tile(%1, %2)", "f32[N,6]", QC_OK},
    {"f32[N,2];f32[N,3];f32[4,1]", "Concat(%1, %2, %3) {axis=1}", "f32[4,6]", QC_OK},
    {"f32[?];f32[5,3]", "Concat(%1, %2) {axis=-1}", "f32[5,N]", QC_OK},
    {"f32[N,3,4,4];i64[8]={0,0,1,2,0,0,3,4};f32[]={0}", "Pad(%1, %2, %3) {mode=\"constant\"}", "f32[N,3,8,10]", QC_OK},
    {"f32[2,5];i64[4]={0,4,0,-1}", "Pad(%1, %2) {mode=\"edge\"}", "f32[2,8]", QC_OK},
    {"f32[2,5];i64[4]={1,4,1,0}", "Pad(%1, %2) {mode=\"reflect\"}", "f32[4,9]", QC_OK},
    {"f32[N,8,2,3]", "DepthToSpace(%1) {blocksize=2, mode=\"CRD\"}", "f32[N,2,4,6]", QC_OK},
    {"f32[N,2,4,6]", "SpaceToDepth(%1) {blocksize=2}", "f32[N,8,2,3]", QC_OK},
    {"f32[N,2,4,6];f32[0]={};f32[4]={1,1,2,0.5}", "Resize(%1, %2, %3)", "f32[N,2,8,3]", QC_OK},
    {"f32[N,2,4,6];i64[4]={1,2,9,9}", "Resize(%1, -, -, %2) {mode=\"linear\"}", "f32[1,2,9,9]", QC_OK},
    {"f32[N,2,4,6];i64[4]", "Resize(%1, -, -, %2)", "f32[N,N,N,N]", QC_OK},
    {"f32[N,2,4]", "Shape(%1)", "i64[3]", QC_OK},
    {"f32[N,2,4]", "Shape(%1) {start=-2, end=100}", "i64[2]", QC_OK},
    {"f32[?]", "Shape(%1)", "i64[N]", QC_OK},
    {"f32[N,2,4]", "Size(%1)", "i64[]", QC_OK},
    {"i64[2]={3,0}", "ConstantOfShape(%1) {value=i32[1]{7}}", "i32[3,0]", QC_OK},
    {"i64[3]", "ConstantOfShape(%1)", "f32[N,N,N]", QC_OK},
    {"i64[]={10};i64[]={4};i64[]={-2}", "Range(%1, %2, %3)", "i64[3]", QC_OK},
    {"f32[]={0};f32[]={1};f32[]={0.3}", "Range(%1, %2, %3)", "f32[4]", QC_OK},
    {"i64[];i64[]={4};i64[]={1}", "Range(%1, %2, %3)", "i64[N]", QC_OK},
    {"i64[N,3];bool[3]", "Expect(%1, %2) {expected = \"small numbers\"}", "i64[N,3]", QC_OK},
    /* Quantization */
    {"f32[N,3,4];f32[];u8[]", "QuantizeLinear(%1, %2, %3)", "u8[N,3,4]", QC_OK},
    {"f32[N,3,4];f32[3];i8[3]", "QuantizeLinear(%1, %2, %3) {axis=1}", "i8[N,3,4]", QC_OK},
    {"f32[N,3,4];f32[]", "QuantizeLinear(%1, %2)", "u8[N,3,4]", QC_OK},
    {"f32[N,3,4];f32[]", "QuantizeLinear(%1, %2) {output_dtype=5}", "i16[N,3,4]", QC_OK},
    {"f32[4,7];f32[4,3]", "QuantizeLinear(%1, %2) {axis=1, block_size=3}", "u8[4,7]", QC_OK},
    /* Operators on integers */
    {"u8[N,3,8,8];f32[];u8[];i8[4,3,3,3];f32[4];i8[4];f32[];u8[];i32[4]",
     "QLinearConv(%1, %2, %3, %4, %5, %6, %7, %8, %9) {pads=[1,1,1,1], strides=[2,2]}", "u8[N,4,4,4]", QC_OK},
    {"i8[1,4,9];f32[];i8[];i8[4,1,3];f32[];i8[];f32[];i8[]", "QLinearConv(%1, %2, %3, %4, %5, %6, %7, %8) {group=4}",
     "i8[1,4,7]", QC_OK},
    {"u8[N,2,3];f32[];u8[];i8[3,4];f32[4];i8[4];f32[];u8[]", "QLinearMatMul(%1, %2, %3, %4, %5, %6, %7, %8)",
     "u8[N,2,4]", QC_OK},
    {"u8[1,1,3,3];u8[2,1,2,2];u8[]", "ConvInteger(%1, %2, %3)", "i32[1,2,2,2]", QC_OK},
    {"u8[4,3];i8[3,2]", "MatMulInteger(%1, %2)", "i32[4,2]", QC_OK},
    {"f32[N,3]", "DynamicQuantizeLinear(%1)", "u8[N,3]", QC_OK},
    {"f32[N,N]", "RoundInBlocks(%1) {axis = -1, format = \"mxfp4\", length = [96]}", "f32[N,96]", QC_OK},
    {"u8[N,8];f32[];u8[];i8[4,8];f32[4];i8[4];i32[4];f32[];u8[]",
     "QGemm(%1, %2, %3, %4, %5, %6, %7, %8, %9) {transB=1}", "u8[N,4]", QC_OK},
    {"i8[N,8];f32[];i8[];i8[8,4];f32[];i8[]", "QGemm(%1, %2, %3, %4, %5, %6)", "f32[N,4]", QC_OK},
    {"f32[N,5,40];i8[40,6];f32[6];i8[6]", "DynamicQuantizeMatMul(%1, %2, %3, %4)", "f32[N,5,6]", QC_OK},
    {"u8[N,5,40];i8[40,6];f32[];f32[6]", "MatMulIntegerToFloat(%1, %2, %3, %4)", "f32[N,5,6]", QC_OK},
    {"f32[7,N,5];i8[2,5,16];i8[2,4,16];f32[2];i8[2];f32[2];i8[2]",
     "DynamicQuantizeLSTM(%1, %2, %3, -, -, -, -, -, %4, %5, %6, %7)", "f32[7,2,N,4]", QC_OK},
    {"u8[9,20];i64[N,5];f32[9,2]", "GatherBlockQuantized(%1, %2, %3) {bits=4, block_size=32}", "f32[N,5,40]", QC_OK},
    {"f32[N,5,40];u8[6,3,8];f32[18]", "MatMulNBits(%1, %2, %3) {K=40, N=6, bits=4, block_size=16}", "f32[N,5,6]",
     QC_OK},
    {"u8[N,3];f32[];u8[];u8[3];f32[];u8[];f32[];u8[]", "QLinearAdd(%1, %2, %3, %4, %5, %6, %7, %8)", "u8[N,3]", QC_OK},
    {"i8[2,1];f32[];i8[];i8[3];f32[];i8[];f32[]", "QLinearMul(%1, %2, %3, %4, %5, %6, %7)", "i8[2,3]", QC_OK},
    {"f32[];u8[];u8[2,3];f32[];u8[];u8[2,5];f32[];u8[]", "QLinearConcat(%1, %2, %3, %4, %5, %6, %7, %8) {axis=1}",
     "u8[2,8]", QC_OK},
    {"bool[2,1];u8[3];f32[];u8[];u8[];f32[];u8[];f32[];u8[]", "QLinearWhere(%1, %2, %3, %4, %5, %6, %7, %8, %9)",
     "u8[2,3]", QC_OK},
    {"u8[N,3];f32[];u8[];f32[];u8[]", "QLinearLeakyRelu(%1, %2, %3, %4, %5) {alpha=0.1f}", "u8[N,3]", QC_OK},
    {"i8[N,3];f32[];i8[];f32[];i8[]", "QLinearSigmoid(%1, %2, %3, %4, %5)", "i8[N,3]", QC_OK},
    {"u8[N,3];f32[];u8[];f32[];u8[]", "QLinearSoftmax(%1, %2, %3, %4, %5) {opset=13}", "u8[N,3]", QC_OK},
    {"u8[N,3,8,8];f32[];u8[];f32[];u8[]", "QLinearAveragePool(%1, %2, %3, %4, %5) {kernel_shape=[2,2], strides=[2,2]}",
     "u8[N,3,4,4]", QC_OK},
    {"u8[N,3,8,8];f32[];u8[];f32[];u8[]", "QLinearGlobalAveragePool(%1, %2, %3, %4, %5)", "u8[N,3,1,1]", QC_OK},
    {"i32[N,3];f32[3]={0,1e-40,1}", "DequantizeLinear(%1, %2)", "f32[N,3]", QC_OK},
    {"i32[N,3];f32[3]", "DequantizeLinear(%1, %2)", "f32[N,3]", QC_OK},
    {"i8[N,3];f16[];i8[]", "DequantizeLinear(%1, %2, %3)", "f16[N,3]", QC_OK},
    /* Nodes with bodies: a capture is an input of the body. */
    {"bool[];f32[2,3]",
     "If(%1, %2) body \"then_branch\" {\ngraph \"t\" opset 13\ninput %1 \"a\" f32[2,3]\n%2 \"b\" = Relu(%1)\n"
     "output \"b\" %2\n} body \"else_branch\" {\ngraph \"e\" opset 13\ninput %1 \"a\" f32[2,3]\n"
     "const %2 f32[4,3] = {1,2,3,4,5,6,7,8,9,10,11,12}\noutput \"c\" %2\n}",
     "f32[N,3]", QC_OK},
    {"i64[]={3};f32[2]",
     "Loop(%1, -, %2) body \"body\" {\ngraph \"b\" opset 13\ninput %1 \"i\" i64[]\ninput %2 \"c\" bool[]\n"
     "input %3 \"s\" f32[2]\n%4 \"n\" = Relu(%3)\noutput \"c\" %2\noutput \"n\" %4\noutput \"p\" %4\n}",
     "f32[2] f32[3,2]", QC_OK},
    {"i64[];bool[];f32[2]",
     "Loop(%1, %2, %3) body \"body\" {\ngraph \"b\" opset 13\ninput %1 \"i\" i64[]\ninput %2 \"c\" bool[]\n"
     "input %3 \"s\" f32[N]\n%4 \"n\" = Concat(%3, %3) {axis=0}\noutput \"c\" %2\noutput \"n\" %4\n"
     "output \"p\" %4\n}",
     "f32[N] f32[N,N]", QC_OK},
    {"f32[2];f32[5,7,2];f32[2]",
     "Scan(%1, %2, %3) {captures=1, num_scan_inputs=1, scan_input_axes=[1], scan_output_axes=[-1]} body \"body\" {\n"
     "graph \"b\" opset 13\ninput %1 \"s\" f32[2]\ninput %2 \"x\" f32[5,2]\ninput %3 \"w\" f32[2]\n"
     "%4 \"n\" = Add(%1, %3)\noutput \"n\" %4\noutput \"p\" %2\n}",
     "f32[2] f32[5,2,7]", QC_OK},
};
const size_t graph_case_count = sizeof graph_cases / sizeof *graph_cases;

static unsigned result_count(const struct graph_case *c)
{
    unsigned n = 1;
    for (const char *s = c->code == QC_OK ? c->expected : ""; *s; s++) n += *s == ' ';
    return n;
}

char *graph_case_text(const struct graph_case *c)
{
    char *text = NULL;
    size_t size = 0;
    unsigned id = 1;
    FILE *f = open_memstream(&text, &size);
    cr_assert_not_null(f);
    fprintf(f, "graph \"case\" opset 13\n");
    for (const char *s = c->inputs, *end; *s; s = end + (*end == ';'), id++) {
        end = s + strcspn(s, ";");
        const char *equals = memchr(s, '=', (size_t)(end - s));
        if (equals)
            fprintf(f, "const %%%u %.*s = %.*s\n", id, (int)(equals - s), s, (int)(end - equals - 1), equals + 1);
        else
            fprintf(f, "input %%%u \"in%u\" %.*s\n", id, id, (int)(end - s), s);
    }
    for (unsigned k = 0; k < result_count(c); k++) fprintf(f, "%s%%%u \"y%u\"", k ? ", " : "", id + k, k);
    fprintf(f, " = %s\noutput \"y\" %%%u\n", c->node, id);
    cr_assert_eq(fclose(f), 0);
    return text;
}

char *print_graph(const struct qc_graph *g)
{
    char *text = qc_graph_print(g, &QC_TEXT_ALL, ST);
    MUST(text);
    return text;
}

const char *type_text(char buf[160], const struct qc_type *t)
{
    char shape[QC_SHAPE_TEXT];
    snprintf(buf, 160, "%s%s", qc_dtype_info(t->dtype)->name, qc_shape_text(shape, &t->shape));
    if (t->shape.rank < 0) snprintf(buf, 160, "%s[?]", qc_dtype_info(t->dtype)->name);
    return buf;
}
