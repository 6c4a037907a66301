// SPDX-License-Identifier: Apache-2.0
/* Exported forms of rare integer graphs: each case is one reason in export/formats/lowering.c or
   export/formats/qoperator.c. */
#include "../calib/calib_case.h"
#include "export/formats/exporter.h"
#include "graph/core/verify.h"

#define INPUT "graph \"g\" opset 13\nqparams @1 quantizer \"x\" "
#define CONV "qparams @2 quantizer \"w\" i8 asymmetric weight per_channel bound scale 0.5 0.25 zero 0 "
#define BEHIND_CONV                                                                                                    \
    "\nqparams @3 product @1 @2\nqparams @4 quantizer \"y\" u8 asymmetric bound scale 0.5 zero 9\ninput %1 \"x\" "     \
    "f32[1,1,4,4]\n%2 : u8[1,1,4,4] @1 = Quantize(%1)\n"                                                               \
    "const %3 \"w\" i8[2,1,1,1] @2 = {1, 2}\n%4 \"c\" : i32[1,2,4,4] @3 axis 1 = Conv(%2, %3)\n%5 : u8[1,2,4,4] @4 = " \
    "Requantize(%4)\n"

static const struct {
    const char *name, *format, *graph;
    enum qc_op op; /* that is counted */
    size_t count;
    int64_t level; /* of the first of them, input 1 or 2: a scalar constant; NO_LEVEL: not looked at */
} cases[] = {
#define NO_LEVEL INT64_MIN
    {"four bits in eight are clipped", "qdq",
     INPUT "u4 asymmetric bound scale 0.1 zero 3\ninput %1 \"x\" f32[N,4]\n%2 : u4[N,4] @1 = Quantize(%1)\n%3 \"y\" : "
           "f32[N,4] = Dequantize(%2)\noutput \"y\" %3\n",
     QC_OP_Clip, 1, 0},
    {"eight bits are not", "qdq",
     INPUT "u8 asymmetric bound scale 0.1 zero 3\ninput %1 \"x\" f32[N,4]\n%2 : u8[N,4] @1 = Quantize(%1)\n%3 \"y\" : "
           "f32[N,4] = Dequantize(%2)\noutput \"y\" %3\n",
     QC_OP_Clip, 0, NO_LEVEL},
    {"float weights between integers are kept from being rounded", "qdq",
     INPUT
     "u8 asymmetric bound scale 0.1 zero 3\nqparams @2 quantizer \"c\" u8 asymmetric bound scale 0.2 zero 5\ninput %1 "
     "\"x\" f32[1,1,4,4]\nconst %2 \"w\" f32[1,1,1,1] = {0.5}\n"
     "%3 : u8[1,1,4,4] @1 = Quantize(%1)\n%4 : f32[1,1,4,4] = Dequantize(%3)\n%5 \"c\" : f32[1,1,4,4] = Conv(%4, "
     "%2)\n%6 : u8[1,1,4,4] @2 = Quantize(%5)\n"
     "%7 \"y\" : f32[1,1,4,4] = Dequantize(%6)\noutput \"y\" %7\n",
     QC_OP_Sum, 1, NO_LEVEL},
    {"several scales of an activation are kept apart", "qdq",
     INPUT "u8 asymmetric per_channel bound scale 0.1 0.2 zero 3 4\ninput %1 \"x\" f32[N,2]\n%2 : u8[N,2] @1 axis 1 = "
           "Quantize(%1)\n%3 \"y\" : f32[N,2] = Dequantize(%2)\noutput \"y\" %3\n",
     QC_OP_Max, 2, NO_LEVEL},
    {"a convolution on integers", "qoperator",
     INPUT "u8 asymmetric bound scale 0.1 zero 3\n" CONV "0" BEHIND_CONV
           "%6 \"y\" : f32[1,2,4,4] = Dequantize(%5)\noutput \"y\" %6\n",
     QC_OP_QLinearConv, 1, NO_LEVEL},
    {"weights of two zero points have no QLinearConv", "qoperator",
     INPUT "u8 asymmetric bound scale 0.1 zero 3\n" CONV "1" BEHIND_CONV
           "%6 \"y\" : f32[1,2,4,4] = Dequantize(%5)\noutput \"y\" %6\n",
     QC_OP_QLinearConv, 0, NO_LEVEL},
    {"an accumulator that two read has none either", "qoperator",
     INPUT
     "u8 asymmetric bound scale 0.1 zero 3\n" CONV
     "0\nqparams @3 product @1 @2\nqparams @4 quantizer \"y\" u8 asymmetric bound scale 0.5 zero 9\ninput %1 \"x\" "
     "f32[1,1,4,4]\n%2 : u8[1,1,4,4] @1 = Quantize(%1)\nconst %3 \"w\" i8[2,1,1,1] @2 = {1, 2}\n"
     "%4 \"c\" : i32[1,2,4,4] @3 axis 1 = Conv(%2, %3)\n%5 \"z\" : f32[1,2,4,4] = Dequantize(%4)\n"
     "%6 : u8[1,2,4,4] @4 = Requantize(%4)\n%7 \"y\" : f32[1,2,4,4] = Dequantize(%6)\noutput \"y\" %7\n"
     "output \"z\" %5\n",
     QC_OP_QLinearConv, 0, NO_LEVEL},
    {"relu is a clip at the zero point", "qoperator",
     INPUT "i8 asymmetric bound scale 0.1 zero -10\ninput %1 \"x\" f32[N,4]\n%2 : i8[N,4] @1 = Quantize(%1)\n%3 : "
           "i8[N,4] @1 = Relu(%2)\n%4 \"y\" : f32[N,4] = Dequantize(%3)\noutput \"y\" %4\n",
     QC_OP_Clip, 1, -10},
    {"integers are padded with the zero point", "qoperator",
     INPUT "u8 asymmetric bound scale 0.1 zero 78\ninput %1 \"x\" f32[2,4]\nconst %2 \"pads\" i64[4] = {0, 1, 0, "
           "1}\n%3 : u8[2,4] @1 = Quantize(%1)\n%4 : u8[2,6] @1 = Pad(%3, %2)\n"
           "%5 \"y\" : f32[2,6] = Dequantize(%4)\noutput \"y\" %5\n",
     QC_OP_Pad, 1, 78},
    {"a pool with dilations has no operator on integers", "qoperator",
     INPUT "u8 asymmetric bound scale 0.1 zero 3\ninput %1 \"x\" f32[1,1,6,6]\n%2 : u8[1,1,6,6] @1 = Quantize(%1)\n"
           "%3 : u8[1,1,4,4] @1 = AveragePool(%2) {dilations=[2,2], kernel_shape=[2,2], strides=[1,1]}\n%4 \"y\" : "
           "f32[1,1,4,4] = Dequantize(%3)\noutput \"y\" %4\n",
     QC_OP_QLinearAveragePool, 0, NO_LEVEL},
    {"a pool without has one", "qoperator",
     INPUT "u8 asymmetric bound scale 0.1 zero 3\ninput %1 \"x\" f32[1,1,6,6]\n%2 : u8[1,1,6,6] @1 = Quantize(%1)\n"
           "%3 : u8[1,1,5,5] @1 = AveragePool(%2) {kernel_shape=[2,2], strides=[1,1]}\n%4 \"y\" : f32[1,1,5,5] = "
           "Dequantize(%3)\noutput \"y\" %4\n",
     QC_OP_QLinearAveragePool, 1, NO_LEVEL},
};

static struct qc_graph *lowered(const char *text, const char *format, const char *name)
{
    struct qc_graph *g = test_graph(text), *to = NULL;
    cr_assert(qc_exporter_find(format)->lower(&to, g, NULL, ST), "%s: %s", name, failure.message);
    cr_assert(qc_graph_verify(to, ST), "%s: %s", name, failure.message);
    qc_graph_free(g);
    return to;
}

Test(lowered_forms, are_what_runtimes_take)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWN(qc_graph) *g = lowered(cases[i].graph, cases[i].format, cases[i].name);
        size_t count = 0;
        for (qc_id id = 1; id <= g->node_count; id++) {
            const struct qc_node *n = &g->nodes[id];
            if (n->op != cases[i].op || count++ || cases[i].level == NO_LEVEL) continue;
            const struct qc_tensor *t = qc_constant_of(g, n->inputs[n->op == QC_OP_Pad ? 2 : 1]);
            cr_expect(t && t->count == 1 && qc_tensor_int(t, 0) == cases[i].level, "%s: %lld", cases[i].name,
                      t ? (long long)qc_tensor_int(t, 0) : -999);
        }
        cr_expect_eq(count, cases[i].count, "%s: %zu of %s, not %zu", cases[i].name, count,
                     qc_op_info(cases[i].op)->name, cases[i].count);
    }
}

/* A model may have a value of the very name that a quantized one would get. */
Test(lowered_forms, names_that_exist_are_left_to_their_values)
{
    OWN(qc_graph) *g = lowered(INPUT "u8 asymmetric bound scale 0.1 zero 3\ninput %1 \"x\" f32[N,4]\ninput %2 "
                                     "\"x_quantized\" f32[N,4]\n%3 : u8[N,4] @1 = Quantize(%1)\n"
                                     "%4 \"y\" : f32[N,4] = Dequantize(%3)\noutput \"y\" %4\noutput \"z\" %2\n",
                               "qdq", "names");
    size_t of_that_name = 0;
    for (qc_id v = 1; v <= g->value_count; v++)
        of_that_name += g->values[v].name && strcmp(g->values[v].name, "x_quantized") == 0;
    cr_expect_eq(of_that_name, 1);
    cr_expect(qc_graph_find_value(g, "x_1_quantized"), "the quantized one has a name of its own");
}

/* A product of integers, its bias, and what reads the sum. DIMS: of the input before its last two. */
#define PRODUCT(dims)                                                                                                  \
    INPUT "u8 asymmetric bound scale 0.1 zero 3\nqparams @2 quantizer \"w\" i8 symmetric weight per_channel bound "    \
          "scale 0.5 "                                                                                                 \
          "0.25 zero 0 0\nqparams @3 product @1 @2\nqparams @4 quantizer \"y\" u8 asymmetric bound scale 0.5 zero 9\n" \
          "input %1 \"x\" f32[" dims "3,2]\n%2 : u8[" dims "3,2] @1 = Quantize(%1)\n"                                  \
          "const %3 \"w\" i8[2,2] @2 axis 1 = {1, 2, 3, 4}\nconst %4 \"b\" f32[2] = {0.5, 1}\n"                        \
          "%5 : i32[" dims "3,2] @3 axis 2 = MatMul(%2, %3)\n%6 : f32[" dims "3,2] = Dequantize(%5)\n"                 \
          "%7 \"s\" : f32[" dims "3,2] = Add(%6, %4)\n"

Test(lowered_forms, a_bias_is_written_such_that_onnxruntime_makes_no_float_gemm_of_it)
{
    static const struct {
        const char *name, *graph;
        int rank; /* of the bias in the file */
    } biases[] = {
        {"fixed shapes, a sum in float", PRODUCT("1,") "%8 \"y\" : f32[1,3,2] = Exp(%7)\noutput \"y\" %8\n", 3},
        {"a sum that is an output", PRODUCT("1,") "output \"s\" %7\n", 3},
        {"a sum that is stored",
         PRODUCT("1,") "%8 : u8[1,3,2] @4 = Quantize(%7)\n%9 \"y\" : f32[1,3,2] = Dequantize(%8)\noutput \"y\" %9\n",
         1},
        {"a sum that is stored and read in float",
         PRODUCT("1,") "%8 : u8[1,3,2] @4 = Quantize(%7)\n%9 \"y\" : f32[1,3,2] = Dequantize(%8)\noutput \"y\" %9\n"
                       "output \"s\" %7\n",
         3},
        {"a free shape", PRODUCT("N,") "output \"s\" %7\n", 1},
    };
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++) {
        OWN(qc_graph) *g = lowered(biases[i].graph, "qdq", biases[i].name);
        size_t count = 0;
        for (qc_id id = 1; id <= g->node_count; id++) {
            if (g->nodes[id].op != QC_OP_Add) continue;
            const struct qc_tensor *t = qc_constant_of(g, g->nodes[id].inputs[1]);
            const qc_id result = g->nodes[id].outputs;
            cr_expect(t && t->shape.rank == biases[i].rank && t->count == 2, "%s: %d", biases[i].name,
                      t ? t->shape.rank : -1);
            cr_expect_eq(g->values[result].type.shape.rank, 3, "%s", biases[i].name);
            count++;
        }
        cr_expect_eq(count, 1, "%s", biases[i].name);
    }
}
