// SPDX-License-Identifier: Apache-2.0
/* Groups of folded graphs: complete ones, and the places where others break. */
#include "rewrite/passes/groups.h"
#include "rewrite_passes.h"

#define HEAD                                                                                                           \
    "graph \"g\"\ninput %1 \"x\" f32[N,2,4,4]\nconst %2 \"w\" f32[2,2,1,1] = {0.5, -0.25, 0.125, 1}\n"                 \
    "%3 \"c\" = Conv \"conv\"(%1, %2)\n"

static const struct {
    const char *what, *lines, *rules;
    const char *ops; /* behind the first convolution */
    enum qc_group_break how;
    const char *breaks_at; /* result of the node, "" for none */
} cases[] = {
    {"a convolution between others", "%4 \"y\" = Conv \"next\"(%3, %2)\noutput \"y\" %4\n", NULL, "Requantize ",
     QC_GROUP_WHOLE, ""},
    {"clip", "const %4 f32[] = {1}\n%5 \"k\" = Clip(%3, -, %4)\n%6 \"y\" = Conv \"next\"(%5, %2)\noutput \"y\" %6\n",
     NULL, "Requantize Clip ", QC_GROUP_WHOLE, ""},
    {"leaky relu", "%4 \"l\" = LeakyRelu(%3)\n%5 \"y\" = Conv \"next\"(%4, %2)\noutput \"y\" %5\n", NULL,
     "Requantize LeakyRelu ", QC_GROUP_WHOLE, ""},
    {"hardswish", "%4 \"l\" = HardSwish(%3)\n%5 \"y\" = Conv \"next\"(%4, %2)\noutput \"y\" %5\n", NULL,
     "Requantize HardSwish ", QC_GROUP_WHOLE, ""},
    {"sigmoid", "%4 \"l\" = Sigmoid(%3)\n%5 \"y\" = Conv \"next\"(%4, %2)\noutput \"y\" %5\n", NULL,
     "Requantize Sigmoid ", QC_GROUP_WHOLE, ""},
    {"swish as a table",
     "%4 \"s\" = Sigmoid(%3)\n%5 \"l\" = Mul(%3, %4)\n%6 \"y\" = Conv \"next\"(%5, %2)\noutput \"y\" %6\n",
     "allow table Mul", "Requantize Table ", QC_GROUP_WHOLE, ""},
    {"swish as two ops ends where the value is used twice",
     "%4 \"s\" = Sigmoid(%3)\n%5 \"l\" = Mul(%3, %4)\n%6 \"y\" = Conv \"next\"(%5, %2)\noutput \"y\" %6\n", NULL,
     "Requantize ", QC_GROUP_WHOLE, ""},
    {"a float function behind it", "%4 \"l\" = Erf(%3)\n%5 \"y\" = Conv \"next\"(%4, %2)\noutput \"y\" %5\n", NULL,
     "Requantize ", QC_GROUP_FLOAT_OP, "l"},
    {"softmax is no part of a group", "%4 \"l\" = Softmax(%3)\n%5 \"y\" = Conv \"next\"(%4, %2)\noutput \"y\" %5\n",
     NULL, "Requantize ", QC_GROUP_WHOLE, ""},
    {"a result that stays an accumulator", "%4 \"l\" = Softmax(%3)\noutput \"y\" %4\n",
     "pattern conv2d match Conv(x, const w) affine dq(Conv(q(x : X), q(w : W per 0)) : X*W)", "", QC_GROUP_WIDE, "l"},
    {"and is a graph output", "output \"y\" %3\n",
     "pattern conv2d match Conv(x, const w) affine dq(Conv(q(x : X), q(w : W per 0)) : X*W)", "", QC_GROUP_WIDE, ""},
};

Test(groups, what_is_one_piece_and_where_it_breaks)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pass_setup setup = PASS_SETUP;
        PASSES p;
        char text[1024], ops[256] = "";
        const struct qc_group_info *groups;
        size_t count;
        qc_text(text, sizeof text, "%s%s", HEAD, cases[i].lines);
        OWN(qc_graph) *g = test_graph(text);
        setup.rules = cases[i].rules;
        cr_assert(passes_run(&p, g, &setup, ST), "%s: %s", cases[i].what, failure.message);
        QC_ARENA_SCOPE *a = qc_arena_new();
        MUST(qc_groups_find(&groups, &count, p.produced, a, ST));
        cr_assert_gt(count, 0);
        for (unsigned k = 0; k < groups[0].count; k++) {
            strcat(ops, qc_op_info(p.produced->nodes[groups[0].nodes[k]].op)->name);
            strcat(ops, " ");
        }
        const char *at =
            groups[0].breaks_at ? p.produced->values[p.produced->nodes[groups[0].breaks_at].outputs].name : "";
        cr_expect_str_eq(ops, cases[i].ops, "%s: %s", cases[i].what, ops);
        cr_expect_eq(groups[0].how, cases[i].how, "%s: %s", cases[i].what, qc_group_break_text(groups[0].how));
        cr_expect_str_eq(at ? at : "?", cases[i].breaks_at, "%s: %s", cases[i].what, at);
    }
}

Test(groups, float_ops_and_shared_accumulators)
{
    static const char text[] =
        "graph \"g\" simulated\nqparams @1 quantizer \"x\" u8 asymmetric bound scale 0.5 zero 0\nqparams "
        "@2 quantizer \"w\" i8 symmetric weight bound scale 0.25 zero 0\n"
        "qparams @3 product @1 @2\nqparams @4 quantizer \"y\" u8 asymmetric bound scale 0.25 zero "
        "0\ninput %1 \"x\" f32[N,1,2,2]\n%2 : @1 = simulated_quantize(%1)\n"
        "const %3 \"w\" f32[1,1,1,1] = {1}\n%4 : @2 = simulated_quantize(%3)\n%5 \"c\" : @3 "
        "axis 1 = Conv(%2, %4)\n%6 : @4 = simulated_requantize(%5)\n"
        "%7 = simulated_dequantize(%6)\n%8 = simulated_dequantize(%5)\n%9 \"z\" = Conv(%8, "
        "%3)\noutput \"a\" %7\noutput \"b\" %9\n";
    const struct qc_group_info *groups;
    size_t count;
    OWN(qc_graph) *g = test_graph(text);
    MUST(qc_groups_find(&groups, &count, g, test_arena(), ST));
    cr_assert_eq(count, 2);
    HOLD(groups[0].how == QC_GROUP_SEVERAL_USERS, g->nodes[groups[0].breaks_at].op == QC_OP_Requantize,
         groups[1].how == QC_GROUP_FLOAT);
}
