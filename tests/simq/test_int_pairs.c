// SPDX-License-Identifier: Apache-2.0
/* Products under the contract "onnx-avx2", by hand: which weights are a pair, what saturates and what does not. All
   scales are 1, so that results are the sums. */
#include "one_number.h"
#include "tests/check.h"

/* The sum of a Gemm is read in float, that of a Conv is stored. */
#define HEADER(X, X_ZERO, W, W_ZERO)                                                                                   \
    "graph \"g\" opset 13\n"                                                                                           \
    "qparams @1 quantizer \"x\" " X " asymmetric bound scale 1 zero " X_ZERO "\n"                                      \
    "qparams @2 quantizer \"w\" " W " asymmetric bound scale 1 zero " W_ZERO "\n"                                      \
    "qparams @3 product @1 @2\n"                                                                                       \
    "qparams @4 quantizer \"y\" " X " asymmetric bound scale 1 zero " X_ZERO "\n"
#define GEMM(X, X_ZERO, W, W_ZERO, WEIGHTS)                                                                            \
    HEADER(X, X_ZERO, W, W_ZERO)                                                                                       \
    "input %1 \"x\" f32[1,4]\n"                                                                                        \
    "%2 : " X "[1,4] @1 = Quantize(%1)\n"                                                                              \
    "const %3 \"w\" " W "[4,1] @2 = {" WEIGHTS "}\n"                                                                   \
    "%4 : i32[1,1] @3 axis 1 = Gemm(%2, %3)\n"                                                                         \
    "%5 : f32[1,1] = Dequantize(%4)\n"                                                                                 \
    "output \"y\" %5\n"
#define CONV(SHAPE, WEIGHT_SHAPE, OUT_SHAPE, WEIGHTS, ATTRIBUTES)                                                      \
    HEADER("u8", "128", "i8", "0")                                                                                     \
    "input %1 \"x\" f32[" SHAPE "]\n"                                                                                  \
    "%2 : u8[" SHAPE "] @1 = Quantize(%1)\n"                                                                           \
    "const %3 \"w\" i8[" WEIGHT_SHAPE "] @2 = {" WEIGHTS "}\n"                                                         \
    "%4 : i32[" OUT_SHAPE "] @3 axis 1 = Conv(%2, %3)" ATTRIBUTES "\n"                                                 \
    "%5 : u8[" OUT_SHAPE "] @4 = Requantize(%4)\n"                                                                     \
    "%6 : f32[" OUT_SHAPE "] = Dequantize(%5)\n"                                                                       \
    "output \"y\" %6\n"

static const struct {
    const char *name, *graph;
    float data[8], exact, pairs;
} cases[] = {
    {"each pair by itself", GEMM("u8", "0", "i8", "0", "100, 100, 100, 100"), {255, 255, 255, 255}, 102000, 65534},
    {"down", GEMM("u8", "0", "i8", "0", "-100, -100, 1, 0"), {255, 255, 7, 9}, -50993, -32761},
    {"signs that cancel", GEMM("u8", "0", "i8", "0", "127, -128, 127, -128"), {255, 255, 255, 255}, -510, -510},
    {"small data", GEMM("u8", "0", "i8", "0", "127, 127, 127, 127"), {129, 129, 129, 129}, 65532, 65532},
    /* 255 * 100 * 2 as stored; the zero point's share, 200 * 55, comes off exactly. */
    {"zero point of the data", GEMM("u8", "55", "i8", "0", "100, 100, 0, 0"), {200, 200, 0, 0}, 40000, 21767},
    /* Stored weights are 103; 255 * 3 comes off for each. */
    {"zero point of the weights", GEMM("u8", "0", "i8", "3", "103, 103, 3, 3"), {255, 255, 9, 9}, 51000, 31237},
    {"uint8 weights", GEMM("u8", "0", "u8", "128", "228, 228, 228, 228"), {255, 255, 255, 255}, 102000, 102000},
    /* 127 is 255 above -128: 255 * 200 -> 32767, and 128 * 200 comes off. */
    {"int8 data", GEMM("i8", "0", "i8", "0", "100, 100, 0, 0"), {127, 127, 0, 0}, 25400, 7167},
    /* Channels of a position are a pair: 32767 - 32768, and not what lies side by side in the file. */
    {"positions before channels",
     CONV("1,2,1,2", "1,2,1,2", "1,1,1,1", "100, -100, 100, -100", ""),
     {127, 127, 127, 127},
     0,
     -1},
    /* The third channel of a position is a pair with the first of the next: 0 and 0, 100 and 100, -100 and -100. */
    {"pairs across positions",
     CONV("1,3,1,2", "1,3,1,2", "1,1,1,1", "0, 100, 0, -100, 100, -100", ""),
     {127, 127, 127, 127, 127, 127},
     0,
     -1},
    {"depthwise",
     CONV("1,2,1,4", "2,1,1,4", "1,2,1,1", "100, 100, -100, -100, 100, 100, -100, -100", " {group=2}"),
     {127, 127, 127, 127, 127, 127, 127, 127},
     0,
     0},
    {"one channel and one group",
     CONV("1,1,1,4", "1,1,1,4", "1,1,1,1", "100, 100, -100, -100", ""),
     {127, 127, 127, 127},
     0,
     -1},
};

static float result_of(const char *text, const float *data, enum qc_contract contract, const char *name)
{
    return one_number(NULL, text, data, &(struct qc_plan_options){.rounding = contract}, name);
}

Test(int_pairs, sums_are_those_of_the_saturating_kernels)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const float exact = result_of(cases[i].graph, cases[i].data, QC_CONTRACT_ONNX, cases[i].name),
                    pairs = result_of(cases[i].graph, cases[i].data, QC_CONTRACT_ONNX_AVX2, cases[i].name);
        cr_expect_eq(exact, cases[i].exact, "%s: %g", cases[i].name, (double)exact);
        cr_expect_eq(pairs, cases[i].pairs, "%s in pairs: %g", cases[i].name, (double)pairs);
    }
}
