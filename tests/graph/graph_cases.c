// SPDX-License-Identifier: Apache-2.0
#include "graph_cases.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/text.h"

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
    /* ONNX AveragePool-19: a window that would start in the right padding is dropped (node test maxpool_2d_ceil_output_size_reduce_by_one) */
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
    /* Quantization */
    {"f32[N,3,4];f32[];u8[]", "QuantizeLinear(%1, %2, %3)", "u8[N,3,4]", QC_OK},
    {"f32[N,3,4];f32[3];i8[3]", "QuantizeLinear(%1, %2, %3) {axis=1}", "i8[N,3,4]", QC_OK},
    {"f32[N,3,4];f32[]", "QuantizeLinear(%1, %2)", "u8[N,3,4]", QC_OK},
    {"f32[N,3,4];f32[]", "QuantizeLinear(%1, %2) {output_dtype=5}", "i16[N,3,4]", QC_OK},
    {"f32[4,7];f32[4,3]", "QuantizeLinear(%1, %2) {axis=1, block_size=3}", "u8[4,7]", QC_OK},
    {"i32[N,3];f32[3]", "DequantizeLinear(%1, %2)", "f32[N,3]", QC_OK},
    {"i8[N,3];f16[];i8[]", "DequantizeLinear(%1, %2, %3)", "f16[N,3]", QC_OK},
};
const size_t graph_case_count = sizeof graph_cases / sizeof *graph_cases;

const struct graph_case bad_graph_cases[] = {
    /* Sizes that do not go together */
    {"f32[N,3,32,32];f32[16,4,3,3]", "Conv(%1, %2)", "take 4 input channels, got input [N,3,32,32]", QC_BAD_INPUT},
    {"f32[N,4,32,32];f32[16,2,3,3]", "Conv(%1, %2) {group=3}", "do not divide into 3 groups", QC_BAD_INPUT},
    {"f32[N,4,32,32];f32[16,2,3,3]", "Conv(%1, %2) {group=0}", "group is 0", QC_BAD_INPUT},
    {"f32[N,4,32,32];f32[16,2,3,3]", "Conv(%1, %2) {group=-2}", "group is -2", QC_BAD_INPUT},
    {"f32[N,4,32,32];f32[0,4,3,3]", "Conv(%1, %2)", "do not divide", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[16,3,3,3];f32[15]", "Conv(%1, %2, %3)", "16 output channels, got shape [15]", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[16,3,3,3];f32[16,1]", "Conv(%1, %2, %3)", "bias", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[16,3,3,3]", "Conv(%1, %2) {kernel_shape=[3,5]}", "kernel_shape[1] is 5", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[16,3,3]", "Conv(%1, %2)", "differ in rank", QC_BAD_INPUT},
    {"f32[N,3];f32[16,3]", "Conv(%1, %2)", "expected [N,C,spatial...]", QC_BAD_INPUT},
    {"f32[1,3,2,2,2,2];f32[1,3,1,1,1,1]", "Conv(%1, %2)", "4 spatial dimensions", QC_UNSUPPORTED},
    {"f32[N,3,2,8];f32[16,3,3,3]", "Conv(%1, %2)", "does not fit into spatial dimension 0", QC_BAD_INPUT},
    {"f32[N,3,0,8];f32[16,3,3,3]", "Conv(%1, %2) {pads=[9,9,9,9]}", "does not fit", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[16,3,0,3]", "Conv(%1, %2)", "kernel size 0", QC_BAD_INPUT},
    {"i64[N,3,8,8];i64[16,3,3,3]", "Conv(%1, %2)", "floating-point input expected, got i64", QC_BAD_INPUT},
    {"f32[N,3,8,8];f16[16,3,3,3]", "Conv(%1, %2)", "inputs of one type expected, got f32 and (input 1) f16",
     QC_BAD_INPUT},
    /* Hostile attributes */
    {"f32[N,3,8,8];f32[16,3,3,3]", "Conv(%1, %2) {strides=[0,1]}", "strides[0] is 0", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[16,3,3,3]", "Conv(%1, %2) {strides=[1,9223372036854775807]}",
     "strides[1] is 9223372036854775807", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[16,3,3,3]", "Conv(%1, %2) {strides=[1]}", "strides has 1 numbers, expected 2", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[16,3,3,3]", "Conv(%1, %2) {pads=[1,1,-1,1]}", "pads[2] is -1", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[16,3,3,3]", "Conv(%1, %2) {pads=[1,1]}", "pads has 2 numbers, expected 4", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[16,3,3,3]", "Conv(%1, %2) {dilations=[0,0]}", "dilations[0] is 0", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[16,3,3,3]", "Conv(%1, %2) {dilations=[2147483647,2147483647]}", "does not fit", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[16,3,3,3]", "Conv(%1, %2) {auto_pad=\"SAME\"}", "auto_pad must be", QC_BAD_INPUT},
    {"f32[N,3,9223372036854775807,8];f32[16,3,3,3]", "Conv(%1, %2)",
     "spatial dimension 0 of size 9223372036854775807 is too large", QC_BAD_INPUT},
    {"f32[0,3,9223372036854775807,8];f32[16,3,3,3]", "Conv(%1, %2)", "too large", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[3,4,3,3]", "ConvTranspose(%1, %2) {output_padding=[1,0]}", "output_padding[0] is 1",
     QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[3,4,3,3]", "ConvTranspose(%1, %2) {pads=[9,0,9,0]}", "leaves nothing", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[3,4,3,3]", "ConvTranspose(%1, %2) {output_shape=[0,10]}", "output_shape[0] is 0", QC_BAD_INPUT},
    {"f32[N,3,8,8];f32[4,3,3,3]", "ConvTranspose(%1, %2)", "take 4 input channels", QC_BAD_INPUT},
    {"f32[N,3,1099511627776];f32[3,1,1]", "ConvTranspose(%1, %2) {strides=[2147483647]}", "", QC_BAD_INPUT},
    {"f32[N,3,8,8]", "MaxPool(%1)", "kernel_shape is missing", QC_BAD_INPUT},
    {"f32[N,3,8,8]", "MaxPool(%1) {kernel_shape=[3,3,3]}", "kernel_shape has 3", QC_BAD_INPUT},
    {"f32[N,3,8,8]", "MaxPool(%1) {kernel_shape=[3,3], pads=[3,0,0,0]}", "less than the kernel's size 3", QC_BAD_INPUT},
    {"f32[N,3,8,8]", "MaxPool(%1) {kernel_shape=[9,9]}", "does not fit", QC_BAD_INPUT},
    {"f32[N,3,8,8]", "AveragePool(%1) {kernel_shape=[0,1]}", "kernel_shape[0] is 0", QC_BAD_INPUT},
    {"i32[N,3,8,8]", "AveragePool(%1) {kernel_shape=[1,1]}", "floating-point", QC_BAD_INPUT},
    {"f32[N,3]", "GlobalAveragePool(%1)", "expected [N,C,spatial...]", QC_BAD_INPUT},
    /* Products */
    {"f32[N,64];f32[63,10]", "Gemm(%1, %2)", "inner dimensions", QC_BAD_INPUT},
    {"f32[N,64];f32[64,10];f32[11]", "Gemm(%1, %2, %3)", "bias of shape [11]", QC_BAD_INPUT},
    {"f32[1,64];f32[64,10];f32[4,10]", "Gemm(%1, %2, %3)", "bias of shape [4,10]", QC_BAD_INPUT},
    {"f32[1,64];f32[64,10];f32[1,1,10]", "Gemm(%1, %2, %3)", "bias of shape [1,1,10]", QC_BAD_INPUT},
    {"f32[1,4,64];f32[64,10]", "Gemm(%1, %2)", "must be a matrix", QC_BAD_INPUT},
    {"f32[2,3];f32[4,5]", "MatMul(%1, %2)", "cannot be multiplied", QC_BAD_INPUT},
    {"f32[2,3,4];f32[3,4,5]", "MatMul(%1, %2)", "cannot be multiplied", QC_BAD_INPUT},
    {"f32[];f32[4]", "MatMul(%1, %2)", "vectors or matrices", QC_BAD_INPUT},
    {"f32[3037000500,3];f32[3,3037000500]", "MatMul(%1, %2)", "does not fit in memory", QC_BAD_INPUT},
    /* Elementwise */
    {"f32[2];f32[3]", "Add(%1, %2)", "shapes [2] and [3] do not broadcast", QC_BAD_INPUT},
    {"f32[2];i64[2]", "Add(%1, %2)", "one type", QC_BAD_INPUT},
    {"f32[2];f32[2]", "Add(%1, -)", "input 1 is missing", QC_BAD_INPUT},
    {"f32[2];f32[2]", "Sum(%1, -, %2)", "input 1 is missing", QC_BAD_INPUT},
    {"f32[2]", "Add(%1)", "has 1 inputs, expected 2 to 2", QC_BAD_INPUT},
    {"f32[2];f32[2]", "Relu(%1, %2)", "has 2 inputs, expected 1 to 1", QC_BAD_INPUT},
    {"bool[2];bool[2]", "Add(%1, %2)", "numeric inputs expected", QC_BAD_INPUT},
    {"f32[2];f32[2]", "And(%1, %2)", "bool inputs expected", QC_BAD_INPUT},
    {"f32[3];f32[3]", "Mod(%1, %2)", "fmod", QC_BAD_INPUT},
    {"f32[3];f32[2,3]", "PRelu(%1, %2)", "slope of shape [2,3]", QC_BAD_INPUT},
    {"f32[1,3];f32[2,3]", "PRelu(%1, %2)", "slope of shape [2,3]", QC_BAD_INPUT},
    {"f32[3];f32[3];f32[3]", "Where(%1, %2, %3)", "bool condition expected, got f32", QC_BAD_INPUT},
    {"f32[3];f32[2]", "Clip(%1, %2)", "the lower bound must be a scalar, got shape [2]", QC_BAD_INPUT},
    {"f32[3];i64[]", "Clip(%1, %2)", "one type", QC_BAD_INPUT},
    {"f32[3]", "Not(%1)", "bool input expected, got f32", QC_BAD_INPUT},
    {"i64[3]", "Sigmoid(%1)", "floating-point", QC_BAD_INPUT},
    {"f32[3]", "Cast(%1) {to=8}", "data type 8", QC_UNSUPPORTED},
    {"f32[3]", "Cast(%1) {to=4294967297}", "data type 4294967297", QC_UNSUPPORTED},
    {"f32[3]", "Cast(%1)", "data type 0", QC_UNSUPPORTED},
    /* Normalisation */
    {"f32[N,3,4];f32[3];f32[3];f32[4];f32[3]", "BatchNormalization(%1, %2, %3, %4, %5)",
     "mean must have one value per channel", QC_BAD_INPUT},
    {"f32[N,3,4];f32[3];f32[3,1]", "InstanceNormalization(%1, %2, %3)", "bias must have", QC_BAD_INPUT},
    {"f32[N,3,4];f32[3]", "LayerNormalization(%1, %2)", "scale of shape [3] does not broadcast", QC_BAD_INPUT},
    {"f32[N,3,4];f32[4]", "LayerNormalization(%1, %2) {axis=3}", "axis 3 is outside [-3, 2]", QC_BAD_INPUT},
    {"f32[N,3]", "Softmax(%1) {axis=2}", "axis 2 is outside [-2, 1]", QC_BAD_INPUT},
    {"f32[N,3]", "Softmax(%1) {axis=-9223372036854775808}", "outside", QC_BAD_INPUT},
    {"f32[N,3]", "LRN(%1) {size=0}", "size", QC_BAD_INPUT},
    {"f32[3];i64[]={1}", "CumSum(%1, %2)", "axis 1 is outside", QC_BAD_INPUT},
    {"f32[3];i64[2]={0,0}", "CumSum(%1, %2)", "must be one number", QC_BAD_INPUT},
    {"f32[3];f32[]={0}", "CumSum(%1, %2)", "must be i64, got f32", QC_BAD_INPUT},
    /* Reductions */
    {"f32[N,3]", "ReduceMean(%1) {axes=[2]}", "axis 2 is outside [-2, 1]", QC_BAD_INPUT},
    {"f32[N,3]", "ReduceMean(%1) {axes=[1,-1]}", "axis 1 is given twice", QC_BAD_INPUT},
    {"f32[N,3]", "ArgMax(%1) {axis=-3}", "axis -3", QC_BAD_INPUT},
    {"f32[N,0]", "ArgMax(%1) {axis=1}", "nothing to choose from", QC_BAD_INPUT},
    /* Shapes */
    {"f32[2,3];i64[2]={4,2}", "Reshape(%1, %2)", "input [2,3] cannot be reshaped to [4,2]", QC_BAD_INPUT},
    {"f32[2,3];i64[2]={-1,4}", "Reshape(%1, %2)", "cannot be reshaped", QC_BAD_INPUT},
    {"f32[N,3];i64[2]={2,4}", "Reshape(%1, %2)", "cannot be reshaped", QC_BAD_INPUT},
    {"f32[2,3];i64[2]={-1,-1}", "Reshape(%1, %2)", "-1 twice", QC_BAD_INPUT},
    {"f32[2,3];i64[2]={-2,3}", "Reshape(%1, %2)", "is -2", QC_BAD_INPUT},
    {"f32[2,3];i64[3]={2,3,0}", "Reshape(%1, %2)", "the input has rank 2", QC_BAD_INPUT},
    {"f32[2,0];i64[2]={-1,0}", "Reshape(%1, %2)", "-1 cannot be resolved", QC_BAD_INPUT},
    {"f32[0];i64[2]={-1,0}", "Reshape(%1, %2) {allowzero=1}", "-1 cannot be resolved", QC_BAD_INPUT},
    {"f32[N];i64[3]={9223372036854775807,9223372036854775807,-1}", "Reshape(%1, %2)", "too many elements",
     QC_BAD_INPUT},
    {"f32[1];i64[9]={1,1,1,1,1,1,1,1,1}", "Reshape(%1, %2)", "rank 9", QC_UNSUPPORTED},
    {"f32[1];f32[1]={1}", "Reshape(%1, %2)", "the shape must be i64, got f32", QC_BAD_INPUT},
    {"f32[1];i64[1,1]={1}", "Reshape(%1, %2)", "must be a list", QC_BAD_INPUT},
    {"f32[1];i64[65]", "Reshape(%1, %2)", "has 65 values", QC_BAD_INPUT},
    {"f32[1];i64[9223372036854775807]", "Reshape(%1, %2)", "has 9223372036854775807 values", QC_BAD_INPUT},
    {"f32[2,3]", "Flatten(%1) {axis=3}", "axis 3 is outside [-2, 2]", QC_BAD_INPUT},
    {"f32[2,3];i64[1]={0}", "Squeeze(%1, %2)", "axis 0 of [2,3] is not 1", QC_BAD_INPUT},
    {"f32[1,3];i64[2]={0,-2}", "Squeeze(%1, %2)", "twice", QC_BAD_INPUT},
    {"f32[2,3];i64[3]", "Squeeze(%1, %2)", "3 axes for an input [2,3]", QC_BAD_INPUT},
    {"f32[2];i64[1]={2}", "Unsqueeze(%1, %2)", "axis 2 is outside [-2, 1]", QC_BAD_INPUT},
    {"f32[2];i64[8]={0,1,2,3,4,5,6,7}", "Unsqueeze(%1, %2)", "rank 9", QC_UNSUPPORTED},
    {"f32[2,3]", "Transpose(%1) {perm=[0,0]}", "not a permutation", QC_BAD_INPUT},
    {"f32[2,3]", "Transpose(%1) {perm=[0,2]}", "not a permutation", QC_BAD_INPUT},
    {"f32[2,3]", "Transpose(%1) {perm=[0]}", "perm has 1 entries, expected 2", QC_BAD_INPUT},
    {"f32[?]", "Transpose(%1) {perm=[-1,0]}", "not a permutation", QC_BAD_INPUT},
    {"f32[9];i64[1]={0};i64[1]={5};i64[1]={0};i64[1]={0}", "Slice(%1, %2, %3, %4, %5)", "the step of axis 0 is 0",
     QC_BAD_INPUT},
    {"f32[9];i64[1]={0};i64[2]={5,5}", "Slice(%1, %2, %3)", "do not match", QC_BAD_INPUT},
    {"f32[9];i64[1]={0};i64[1]={5};i64[1]={1}", "Slice(%1, %2, %3, %4)", "axis 1 is outside", QC_BAD_INPUT},
    {"f32[9];i64[2]={0,0};i64[2]={5,5}", "Slice(%1, %2, %3)", "axis 1 is outside", QC_BAD_INPUT},
    {"f32[9];i64[2]={0,0};i64[2]={5,5};i64[2]={0,-1}", "Slice(%1, %2, %3, %4)", "twice", QC_BAD_INPUT},
    {"f32[9];f32[1]={0};i64[1]={5}", "Slice(%1, %2, %3)", "starts must be i64, got f32", QC_BAD_INPUT},
    {"f32[7];i64[1]={3}", "Split(%1, %2)", "the parts add up to 3, but axis 0 has 7", QC_BAD_INPUT},
    {"f32[7];i64[1]={-1}", "Split(%1, %2)", "part 0 has the size -1", QC_BAD_INPUT},
    {"f32[7];i64[2]={3,4}", "Split(%1, %2)", "2 part sizes for 1 outputs", QC_BAD_INPUT},
    {"f32[7]", "Split(%1) {num_outputs=2}", "num_outputs is 2", QC_BAD_INPUT},
    {"f32[5];i64[1]={5}", "Gather(%1, %2)", "index 5 is outside the axis of 5", QC_BAD_INPUT},
    {"f32[5];i64[1]={-6}", "Gather(%1, %2)", "index -6", QC_BAD_INPUT},
    {"f32[5];f32[1]", "Gather(%1, %2)", "the indices must be i64, got f32", QC_BAD_INPUT},
    {"f32[];i64[1]", "Gather(%1, %2)", "axis 0 is outside", QC_BAD_INPUT},
    {"f32[1,1,1,1,1,1,1,1];i64[1,1]", "Gather(%1, %2)", "rank 9", QC_UNSUPPORTED},
    {"f32[3,3];i64[3]", "GatherElements(%1, %2)", "indices [3] do not fit", QC_BAD_INPUT},
    {"f32[3,3];i64[3,4]", "GatherElements(%1, %2) {axis=0}", "indices [3,4] do not fit", QC_BAD_INPUT},
    {"f32[3];i64[1]={4}", "Expand(%1, %2)", "input [3] does not expand to [4]", QC_BAD_INPUT},
    {"f32[3];i64[1]={-1}", "Expand(%1, %2)", "is -1", QC_BAD_INPUT},
    {"f32[1];i64[3]={4294967296,4294967296,4294967296}", "Expand(%1, %2)", "does not fit in memory", QC_BAD_INPUT},
    {"f32[3];i64[2]={1,1}", "Tile(%1, %2)", "2 repeats", QC_BAD_INPUT},
    {"f32[3];i64[1]={-1}", "Tile(%1, %2)", "repeated -1 times", QC_BAD_INPUT},
    {"f32[3];i64[1]={4611686018427387904}", "Tile(%1, %2)", "too large", QC_BAD_INPUT},
    {"f32[N,2];f32[N,3]", "Concat(%1, %2) {axis=0}", "input 1 of shape [N,3] cannot be joined", QC_BAD_INPUT},
    {"f32[2];f32[2,1]", "Concat(%1, %2) {axis=0}", "cannot be joined", QC_BAD_INPUT},
    {"f32[2];f32[2]", "Concat(%1, %2)", "axis is missing", QC_BAD_INPUT},
    {"f32[2];f32[2]", "Concat(%1, %2) {axis=1}", "axis 1 is outside", QC_BAD_INPUT},
    {"f32[2];f32[2]", "Concat(%1, %2, -) {axis=0}", "input 2 is missing", QC_BAD_INPUT},
    {"f32[2];i32[2]", "Concat(%1, %2) {axis=0}", "one type", QC_BAD_INPUT},
    {"u8[9223372036854775807];u8[9223372036854775807]", "Concat(%1, %2) {axis=0}", "cannot be joined", QC_BAD_INPUT},
    {"f32[2];i64[2]={0,9223372036854775807}", "Pad(%1, %2)", "not possible", QC_BAD_INPUT},
    {"f32[2];i64[2]={0,-9223372036854775808}", "Pad(%1, %2)", "not possible", QC_BAD_INPUT},
    {"f32[2];i64[2]={-2,-1}", "Pad(%1, %2)", "not possible", QC_BAD_INPUT},
    {"f32[2];i64[1]={1}", "Pad(%1, %2)", "1 pads", QC_BAD_INPUT},
    {"f32[2];i64[2]={2,0}", "Pad(%1, %2) {mode=\"reflect\"}", "not possible", QC_BAD_INPUT},
    {"f32[0];i64[2]={1,0}", "Pad(%1, %2) {mode=\"edge\"}", "not possible", QC_BAD_INPUT},
    {"f32[2];i64[2]={2,0}", "Pad(%1, %2) {mode=\"mirror\"}", "mode \"mirror\"", QC_UNSUPPORTED},
    {"f32[2];i64[2]={2,0};i32[]", "Pad(%1, %2, %3)", "pad value of type i32", QC_BAD_INPUT},
    {"f32[N,6,2,2]", "DepthToSpace(%1) {blocksize=2}", "do not divide", QC_BAD_INPUT},
    {"f32[N,8,2,2]", "DepthToSpace(%1) {blocksize=0}", "blocksize 0", QC_BAD_INPUT},
    {"f32[N,8,2,2]", "DepthToSpace(%1) {blocksize=9223372036854775807}", "blocksize", QC_BAD_INPUT},
    {"f32[N,8,2]", "DepthToSpace(%1) {blocksize=2}", "input [N,C,H,W] expected", QC_BAD_INPUT},
    {"f32[N,8,3,2]", "SpaceToDepth(%1) {blocksize=2}", "do not divide", QC_BAD_INPUT},
    {"f32[N,2]", "Resize(%1)", "either scales or sizes must be given, got none", QC_BAD_INPUT},
    {"f32[N,2];f32[2]={1,2};i64[2]={3,4}", "Resize(%1, -, %2, %3)", "got both", QC_BAD_INPUT},
    {"f32[N,2];f32[2]={1,-2}", "Resize(%1, -, %2)", "the scale of axis 1 is -2", QC_BAD_INPUT},
    {"f32[N,2];f32[2]={1,nan}", "Resize(%1, -, %2)", "the scale of axis 1 is nan", QC_BAD_INPUT},
    {"f32[N,2];f32[2]={1,1e30}", "Resize(%1, -, %2)", "too large", QC_BAD_INPUT},
    {"f32[N,2];f32[3]={1,2,2}", "Resize(%1, -, %2)", "scales of shape [3]", QC_BAD_INPUT},
    {"f32[N,2];i64[2]={1,-1}", "Resize(%1, -, -, %2)", "the size of axis 1 is -1", QC_BAD_INPUT},
    {"f32[N,2];f32[2]={1,2}", "Resize(%1, -, %2) {mode=\"lanczos\"}", "mode \"lanczos\"", QC_UNSUPPORTED},
    {"i64[1]={-1}", "ConstantOfShape(%1)", "is -1", QC_BAD_INPUT},
    {"i64[1]={9223372036854775807}", "ConstantOfShape(%1)", "does not fit in memory", QC_BAD_INPUT},
    {"i64[1]={1}", "ConstantOfShape(%1) {value=f32[2]{1,2}}", "one element", QC_BAD_INPUT},
    {"i64[]={0};i64[]={1};i64[]={0}", "Range(%1, %2, %3)", "delta is 0", QC_BAD_INPUT},
    {"f32[]={0};f32[]={1};f32[]={0}", "Range(%1, %2, %3)", "no possible number", QC_BAD_INPUT},
    {"i64[]={-9223372036854775808};i64[]={9223372036854775807};i64[]={1}", "Range(%1, %2, %3)", "no possible number",
     QC_BAD_INPUT},
    {"i64[];f32[];i64[]", "Range(%1, %2, %3)", "one type", QC_BAD_INPUT},
    /* Quantization */
    {"f32[N,3,4];f32[4];u8[4]", "QuantizeLinear(%1, %2, %3)", "scales [4] do not fit axis 1", QC_BAD_INPUT},
    {"f32[N,3,4];f32[3];u8[4]", "QuantizeLinear(%1, %2, %3)", "differ in shape", QC_BAD_INPUT},
    {"f32[N,3,4];f32[3];u8[3]", "QuantizeLinear(%1, %2, %3) {axis=3}", "axis 3 is outside", QC_BAD_INPUT},
    {"f32[N,3,4];f32[];f32[]", "QuantizeLinear(%1, %2, %3)", "quantizing to f32", QC_UNSUPPORTED},
    {"f32[N,3,4];f32[];u8[]", "QuantizeLinear(%1, %2, %3) {output_dtype=3}",
     "output_dtype is i8 but the zero point is u8", QC_BAD_INPUT},
    {"i64[N,3,4];f32[]", "QuantizeLinear(%1, %2)", "floating-point input expected, got i64", QC_BAD_INPUT},
    {"f32[N,3];f32[]", "DequantizeLinear(%1, %2)", "dequantizing f32", QC_UNSUPPORTED},
    {"u8[N,3];f32[];i8[]", "DequantizeLinear(%1, %2, %3)", "the zero point is i8 but the input is u8", QC_BAD_INPUT},
    {"u8[N,3];i32[]", "DequantizeLinear(%1, %2)", "the scale must be a float, got i32", QC_BAD_INPUT},
    {"u8[4,7];f32[4,2]", "DequantizeLinear(%1, %2) {block_size=3}", "do not fit", QC_BAD_INPUT},
    {"u8[4,7];f32[4,2]", "DequantizeLinear(%1, %2) {block_size=-3}", "block_size is -3", QC_BAD_INPUT},
    /* Ours, without spaces */
    {"f32[N,3]", "Quantize(%1)", "no result space given", QC_BAD_INPUT},
    {"f32[N,3]", "Dequantize(%1)", "input is real already", QC_BAD_INPUT},
    {"f32[N,3]", "Requantize(%1)", "no result space given", QC_BAD_INPUT},
};
const size_t bad_graph_case_count = sizeof bad_graph_cases / sizeof *bad_graph_cases;

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

struct qc_graph *parse_graph(const char *text)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_graph *g = NULL;
    cr_assert(qc_graph_parse(&g, text, strlen(text), &st), "%s\nin:\n%s", st.message, text);
    return g;
}

char *print_graph(const struct qc_graph *g)
{
    struct qc_status st = QC_STATUS_INIT;
    char *text = qc_graph_print(g, &QC_TEXT_ALL, &st);
    cr_assert_not_null(text, "%s", st.message);
    return text;
}

const char *type_text(char buf[160], const struct qc_type *t)
{
    char shape[QC_SHAPE_TEXT];
    snprintf(buf, 160, "%s%s", qc_dtype_info(t->dtype)->name, qc_shape_text(shape, &t->shape));
    if (t->shape.rank < 0) snprintf(buf, 160, "%s[?]", qc_dtype_info(t->dtype)->name);
    return buf;
}
