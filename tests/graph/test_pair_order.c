// SPDX-License-Identifier: Apache-2.0
/* The weights that an int8 kernel takes as a pair, and their saturation. */
#include "graph/core/pair_order.h"
#include "tests/check.h"

static const struct {
    const char *data, *weights, *node, *result;
    int64_t channels, count; /* 0: exact */
    int64_t channel, at[6];  /* where the first weights of this channel are */
} orders[] = {
    {"2,3,4,4", "5,3,2,2", "Conv(%1, %2)", "2,5,3,3", 5, 12, 1, {12, 16, 20, 13, 17, 21}},
    {"2,6,4", "4,3,2", "Conv(%1, %2) {group=2}", "2,4,3", 4, 6, 3, {18, 20, 22, 19, 21, 23}},
    {"2,3,4", "3,1,2", "Conv(%1, %2) {group=3}", "2,3,3", 0, 0, 0, {0}},
    {"2,3,4", "6,1,2", "Conv(%1, %2) {group=3}", "2,6,3", 6, 2, 5, {10, 11}},
    {"2,1,4", "1,1,2", "Conv(%1, %2)", "2,1,3", 1, 2, 0, {0, 1}},
    {"2,3,4", "3,2,2", "ConvTranspose(%1, %2)", "2,2,5", 0, 0, 0, {0}},
    {"2,4", "4,3", "Gemm(%1, %2)", "2,3", 3, 4, 1, {1, 4, 7, 10}},
    {"2,4", "3,4", "Gemm(%1, %2) {transB=1}", "2,3", 3, 4, 1, {4, 5, 6, 7}},
    {"2,4", "4", "MatMul(%1, %2)", "2", 1, 4, 0, {0, 1, 2, 3}},
    {"5,2,4", "5,4,3", "MatMul(%1, %2)", "5,2,3", 15, 4, 4, {13, 16, 19, 22}},
    {"2,4", "2,4", "Mul(%1, %2)", "2,4", 0, 0, 0, {0}},
};

Test(pair_order, positions_come_before_channels)
{
    for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
        char text[512];
        sprintf(text,
                "graph \"g\" opset 13\ninput %%1 \"x\" f32[%s]\ninput %%2 \"w\" f32[%s]\n%%3 : f32[%s] = %s\n"
                "output \"y\" %%3\n",
                orders[k].data, orders[k].weights, orders[k].result, orders[k].node);
        OWN(qc_graph) *g = test_graph(text);
        struct qc_pair_order o = {0};
        cr_assert_eq(qc_pair_order_of(&o, g, &g->nodes[1]), orders[k].count > 0, "%s", text);
        cr_expect(o.channels == orders[k].channels && o.count == orders[k].count, "%s", text);
        for (int64_t i = 0; i < o.count && i < 6; i++)
            cr_expect_eq(qc_pair_order_at(&o, orders[k].channel, i), orders[k].at[i], "%s, number %lld", text,
                         (long long)i);
    }
}

/* One product of a produced graph; what stands behind it, and around the integers that it reads. */
#define PRODUCT(X, W, Y, OP, SHAPE, W_SHAPE, TAIL)                                                                     \
    "graph \"g\" opset 13\n"                                                                                           \
    "qparams @1 quantizer \"x\" " X " asymmetric bound scale 1 zero 0\n"                                               \
    "qparams @2 quantizer \"w\" " W " asymmetric bound scale 1 zero 0\n"                                               \
    "qparams @3 product @1 @2\n"                                                                                       \
    "qparams @4 quantizer \"y\" " Y " asymmetric bound scale 1 zero 0\n"                                               \
    "input %1 \"x\" f32[" SHAPE "]\n"                                                                                  \
    "%2 : " X "[" SHAPE "] @1 = Quantize(%1)\n"                                                                        \
    "input %3 \"w\" f32[" W_SHAPE "]\n"                                                                                \
    "%4 : " W "[" W_SHAPE "] @2 = Quantize(%3)\n"                                                                      \
    "%5 : i32[" SHAPE "] @3 axis 1 = " OP "(%2, %4)\n" TAIL
/* Conv of two groups of one channel each, whose weights have these zero points. */
#define DEPTHWISE(ZEROS)                                                                                               \
    "graph \"g\" opset 13\n"                                                                                           \
    "qparams @1 quantizer \"x\" u8 asymmetric bound scale 1 zero 0\n"                                                  \
    "qparams @2 quantizer \"w\" i8 asymmetric per_channel bound scale 1 1 zero " ZEROS "\n"                            \
    "qparams @3 product @1 @2\n"                                                                                       \
    "qparams @4 quantizer \"y\" u8 asymmetric bound scale 1 zero 0\n"                                                  \
    "input %1 \"x\" f32[1,2,1,1]\n%2 : u8[1,2,1,1] @1 = Quantize(%1)\n"                                                \
    "input %3 \"w\" f32[2,1,1,1]\n%4 : i8[2,1,1,1] @2 axis 0 = Quantize(%3)\n"                                         \
    "%5 : i32[1,2,1,1] @3 axis 1 = Conv(%2, %4) {group=2}\n" STORED("u8", "1,2,1,1")
#define STORED(Y, SHAPE)                                                                                               \
    "%6 : " Y "[" SHAPE "] @4 = Requantize(%5)\n%7 : f32[" SHAPE "] = Dequantize(%6)\noutput \"y\" %7\n"
#define CLAMPED(Y, SHAPE)                                                                                              \
    "%6 : i32[" SHAPE "] @3 axis 1 = Relu(%5)\n%7 : " Y "[" SHAPE "] @4 = Requantize(%6)\n%8 : f32[" SHAPE             \
    "] = Dequantize(%7)\noutput \"y\" %8\n"
#define FLOAT(SHAPE) "%6 : f32[" SHAPE "] = Dequantize(%5)\noutput \"y\" %6\n"
/* The data have a second reader. */
#define SHARED(Y, SHAPE)                                                                                               \
    "%6 : " Y "[" SHAPE "] @4 = Requantize(%5)\n%7 : f32[" SHAPE "] = Dequantize(%6)\n%8 : f32[" SHAPE                 \
    "] = Dequantize(%2)\noutput \"y\" %7\noutput \"z\" %8\n"

static const struct {
    const char *name, *graph;
    bool saturates;
} kernels[] = {
    {"Conv u8 i8", PRODUCT("u8", "i8", "u8", "Conv", "1,1,1,1", "1,1,1,1", STORED("u8", "1,1,1,1")), true},
    {"Conv with a Relu", PRODUCT("u8", "i8", "u8", "Conv", "1,1,1,1", "1,1,1,1", CLAMPED("u8", "1,1,1,1")), true},
    {"Conv u8 u8", PRODUCT("u8", "u8", "u8", "Conv", "1,1,1,1", "1,1,1,1", STORED("u8", "1,1,1,1")), false},
    {"Conv in float", PRODUCT("u8", "i8", "u8", "Conv", "1,1,1,1", "1,1,1,1", FLOAT("1,1,1,1")), false},
    {"Conv into int8", PRODUCT("u8", "i8", "i8", "Conv", "1,1,1,1", "1,1,1,1", STORED("i8", "1,1,1,1")), false},
    {"Conv u8 i4", PRODUCT("u8", "i4", "u8", "Conv", "1,1,1,1", "1,1,1,1", STORED("u8", "1,1,1,1")), false},
    {"Conv u16 i8", PRODUCT("u16", "i8", "u16", "Conv", "1,1,1,1", "1,1,1,1", STORED("u16", "1,1,1,1")), false},
    {"Conv i8 i8", PRODUCT("i8", "i8", "i8", "Conv", "1,1,1,1", "1,1,1,1", STORED("i8", "1,1,1,1")), true},
    {"Conv i8 i8 of shared data", PRODUCT("i8", "i8", "i8", "Conv", "1,1,1,1", "1,1,1,1", SHARED("i8", "1,1,1,1")),
     false},
    {"Conv u8 i8 of shared data", PRODUCT("u8", "i8", "u8", "Conv", "1,1,1,1", "1,1,1,1", SHARED("u8", "1,1,1,1")),
     true},
    {"depthwise", DEPTHWISE("3 3"), false},
    {"depthwise of several zero points", DEPTHWISE("3 4"), true},
    {"MatMul u8 i8", PRODUCT("u8", "i8", "u8", "MatMul", "1,1", "1,1", STORED("u8", "1,1")), true},
    {"MatMul in float", PRODUCT("u8", "i8", "u8", "MatMul", "1,1", "1,1", FLOAT("1,1")), true},
    {"Gemm in float", PRODUCT("u8", "i8", "u8", "Gemm", "1,1", "1,1", FLOAT("1,1")), true},
    {"Gemm i8 u8", PRODUCT("i8", "u8", "i8", "Gemm", "1,1", "1,1", FLOAT("1,1")), false},
};

static bool saturates(const struct qc_graph *g, const struct qc_node *n)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_uses uses;
    MUST(a && qc_uses_of(&uses, g, a, ST));
    const bool found = qc_saturates_in_pairs(&uses, n);
    return found;
}

Test(pair_order, types_and_results_decide_where_pairs_saturate)
{
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        OWN(qc_graph) *g = test_graph(kernels[i].graph);
        const struct qc_node *n = NULL;
        for (size_t k = 1; k <= g->node_count; k++)
            if (qc_op_info(g->nodes[k].op)->affine == QC_AFFINE_PRODUCT) n = &g->nodes[k];
        cr_assert(n);
        cr_expect_eq(saturates(g, n), kernels[i].saturates, "%s", kernels[i].name);
    }
}

/* QLinear operators keep int8 data. */
Test(pair_order, integer_operators_multiply_int8_exactly)
{
    OWN(qc_graph) *g = test_graph(PRODUCT("i8", "i8", "i8", "Conv", "1,1,1,1", "1,1,1,1", STORED("i8", "1,1,1,1")));
    g->integer_operators = true;
    for (size_t k = 1; k <= g->node_count; k++)
        if (g->nodes[k].op == QC_OP_Conv) cr_expect(!saturates(g, &g->nodes[k]));
}
