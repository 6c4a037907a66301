// SPDX-License-Identifier: Apache-2.0
/* The query of qparams on a graph before and after fold: those that an op reads, computes with and stores. */
#include "graph/core/parameters.h"
#include "tests/check.h"

#define QPARAMS                                                                                                        \
    "qparams @1 quantizer \"x\" u8 asymmetric bound scale 0.5 zero 3\nqparams @2 quantizer \"w\" i4 symmetric weight " \
    "restricted "                                                                                                      \
    "per_channel bound scale 0.25 0.125 zero 0 0\n"                                                                    \
    "qparams @3 product @1 @2\nqparams @4 quantizer \"y\" i16 symmetric bound scale 0.01 zero 0\nqparams @5 "          \
    "quantizer \"off\" u8 "                                                                                            \
    "asymmetric unbound\n"

static const char before[] =
    "graph \"g\" simulated\n" QPARAMS "input %1 \"x\" f32[N,2,2,2]\n%2 : @1 = simulated_quantize(%1)\n"
    "const %3 \"w\" f32[2,2,1,1] = {1,1,1,1}\n%4 : @2 axis 0 = simulated_quantize(%3)\n%5 \"c\" : @3 axis 1 = Conv(%2, "
    "%4)\n"
    "%6 = simulated_dequantize(%5)\n%7 \"s\" = Softmax(%6)\n%8 : @4 = simulated_quantize(%7)\n%9 : @4 = Relu(%8)\n"
    "%10 = simulated_dequantize(%9)\n%11 : @5 = simulated_quantize(%10)\n%12 = simulated_dequantize(%11)\noutput \"o\" "
    "%12\n";

static const char after[] =
    "graph \"g\" simulated\n" QPARAMS "input %1 \"x\" f32[N,2,2,2]\n%2 : @1 = simulated_quantize(%1)\n"
    "const %3 \"w\" f32[2,2,1,1] = {1,1,1,1}\n%4 : @2 axis 0 = simulated_quantize(%3)\n%5 \"c\" : @3 axis 1 = Conv(%2, "
    "%4)\n"
    "%6 : @4 = simulated_requantize(%5)\n%7 = simulated_dequantize(%6)\noutput \"o\" %7\n";

struct question {
    enum qc_op op;
    enum qc_end end;
    unsigned k;
    const char *quantizer; /* NULL: real */
    enum qc_dtype dtype;
    enum qc_qparams_kind kind;
    bool stored;
    size_t count;
    int axis;
};

static void ask(const char *text, const struct question *questions, size_t n)
{
    struct qc_query q;
    OWN(qc_graph) *g = test_graph(text);
    MUST(qc_query_of(&q, g, test_arena(), ST));
    for (size_t i = 0; i < n; i++) {
        const struct question *w = &questions[i];
        qc_id node = 0;
        for (qc_id id = 1; !node && id <= g->node_count; id++)
            if (g->nodes[id].op == w->op) node = id;
        cr_assert(node);
        const struct qc_parameters p = qc_query_end(&q, node, w->end, w->k);
        cr_expect_eq(p.affine, w->quantizer != NULL, "question %zu", i);
        cr_expect_eq(p.dtype, w->dtype, "question %zu", i);
        if (!w->quantizer || !p.affine) continue;
        cr_expect_str_eq(p.quantizer, w->quantizer, "question %zu: %s", i, p.quantizer);
        cr_expect(p.kind == w->kind && p.stored == w->stored && p.count == w->count && p.axis == w->axis,
                  "question %zu", i);
    }
}

Test(parameters, of_each_end_before_requantize)
{
    static const struct question questions[] = {
        {QC_OP_Conv, QC_INPUT, 0, "x", QC_U8, QC_QPARAMS_QUANTIZER, true, 1, -1},
        {QC_OP_Conv, QC_INPUT, 1, "w", QC_I4, QC_QPARAMS_QUANTIZER, true, 2, 0},
        {QC_OP_Conv, QC_OUTPUT, 0, "x*w", QC_I32, QC_QPARAMS_PRODUCT, true, 2, 1},
        {QC_OP_Conv, QC_TAKEN, 0, "x*w", QC_I32, QC_QPARAMS_PRODUCT, true, 2, 1},
        {QC_OP_Softmax, QC_INPUT, 0, "x*w", QC_I32, QC_QPARAMS_PRODUCT, false, 2, 1},
        {QC_OP_Softmax, QC_OUTPUT, 0, NULL, QC_F32, QC_QPARAMS_QUANTIZER, false, 0, -1},
        {QC_OP_Softmax, QC_TAKEN, 0, "y", QC_I16, QC_QPARAMS_QUANTIZER, false, 1, -1},
        {QC_OP_Relu, QC_INPUT, 0, "y", QC_I16, QC_QPARAMS_QUANTIZER, true, 1, -1},
        {QC_OP_Relu, QC_TAKEN, 0, "y", QC_I16, QC_QPARAMS_QUANTIZER, true, 1, -1},
        {QC_OP_Quantize, QC_INPUT, 0, NULL, QC_F32, QC_QPARAMS_QUANTIZER, false, 0, -1},
    };
    ask(before, questions, sizeof questions / sizeof *questions);
}

Test(parameters, of_each_end_behind_requantize)
{
    static const struct question questions[] = {
        {QC_OP_Conv, QC_OUTPUT, 0, "x*w", QC_I32, QC_QPARAMS_PRODUCT, true, 2, 1},
        {QC_OP_Conv, QC_TAKEN, 0, "y", QC_I16, QC_QPARAMS_QUANTIZER, false, 1, -1},
        {QC_OP_Requantize, QC_INPUT, 0, "x*w", QC_I32, QC_QPARAMS_PRODUCT, true, 2, 1},
        {QC_OP_Requantize, QC_OUTPUT, 0, "y", QC_I16, QC_QPARAMS_QUANTIZER, true, 1, -1},
        {QC_OP_Dequantize, QC_OUTPUT, 0, NULL, QC_F32, QC_QPARAMS_QUANTIZER, false, 0, -1},
    };
    ask(after, questions, sizeof questions / sizeof *questions);
}

Test(parameters, of_a_graph_input_and_of_what_is_turned_off)
{
    OWN(qc_graph) *g = NULL;
    struct qc_query q;
    MUST(qc_graph_parse(&g, before, sizeof before - 1, ST));
    MUST(qc_query_of(&q, g, test_arena(), ST));
    const struct qc_parameters in = qc_query_taken(&q, g->inputs[0].value);
    cr_expect(in.affine && !in.stored && in.zero_point[0] == 3 && in.scale[0] == 0.5f && in.levels.lo == 0 &&
              in.levels.hi == 255);
    for (qc_id v = 1; v <= g->value_count; v++)
        if (g->values[v].type.qparams == 5)
            cr_expect(!qc_value_parameters(g, v).affine, "unbound qparams have no parameters");
    const struct qc_parameters absent = qc_value_parameters(g, 0);
    cr_expect(!absent.affine && absent.dtype == QC_NONE);
}
