// SPDX-License-Identifier: Apache-2.0
#include <float.h>

#include "graph_cases.h"
#include "tests/check.h"

static qc_id quantizer(struct qc_graph *g, const char *name, enum qc_dtype t, bool per_channel)
{
    qc_id s = qc_graph_add_quantizer(g,
                                     &(struct qc_qparams)FIELDS(.name = name, .dtype = t, .per_channel = per_channel,
                                                                .restricted = per_channel, .symmetry = QC_SYMMETRIC),
                                     ST);
    cr_assert_neq(s, 0, "%s", failure.message);
    return s;
}

Test(qparams_of, a_quantizer_is_one_per_name_and_starts_unbound)
{
    OWN(qc_graph) *g = qc_graph_new(ST);
    qc_id a = quantizer(g, "a", QC_U8, false), b = quantizer(g, "b", QC_I8, true);
    cr_expect(a == 1 && b == 2);
    cr_expect_eq(quantizer(g, "a", QC_U8, false), a);
    cr_expect_eq(g->qparams_of[a].state, QC_QPARAMS_UNBOUND);
    struct qc_levels full = qc_qparams_levels(&g->qparams_of[a]), restricted = qc_qparams_levels(&g->qparams_of[b]);
    cr_expect(full.lo == 0 && full.hi == 255 && restricted.lo == -127 && restricted.hi == 127);
}

Test(qparams_of, a_product_multiplies_in_float32_whatever_is_bound_first)
{
    OWN(qc_graph) *g = qc_graph_new(ST);
    qc_id a = quantizer(g, "a", QC_U8, false), w = quantizer(g, "w", QC_I8, true),
          p = qc_graph_add_product(g, a, w, ST);
    cr_expect_eq(qc_graph_add_product(g, a, w, ST), p);
    cr_expect_neq(qc_graph_add_product(g, w, a, ST), p);
    const float sw[] = {0.1f, 0.3f, 1e-3f}, sa = 0.7f;
    MUST(qc_graph_bind_quantizer(g, w, 3, sw, (int32_t[]){0, 0, 0}, ST));
    cr_expect_eq(g->qparams_of[p].state, QC_QPARAMS_UNBOUND);
    MUST(qc_graph_bind_quantizer(g, a, 1, &sa, &(int32_t){7}, ST));
    cr_assert_eq(g->qparams_of[p].state, QC_QPARAMS_BOUND);
    cr_expect(g->qparams_of[p].dtype == QC_I32 && g->qparams_of[p].per_channel && g->qparams_of[p].count == 3);
    for (int i = 0; i < 3; i++)
        cr_expect(g->qparams_of[p].scale[i] == sa * sw[i] && g->qparams_of[p].zero_point[i] == 0);
    MUST(qc_graph_bind_quantizer(g, a, 1, &(float){2}, &(int32_t){0}, ST));
    cr_expect_eq(g->qparams_of[p].scale[1], 2 * sw[1], "binding again changes the product");
    qc_graph_turn_off_quantizer(g, a);
    cr_expect_neq(g->qparams_of[p].state, QC_QPARAMS_BOUND);
}

Test(qparams_of, names_with_a_star_are_not_products)
{
    OWN(qc_graph) *g = qc_graph_new(ST);
    qc_id a = quantizer(g, "a", QC_U8, false), b = quantizer(g, "b", QC_U8, false),
          ab = qc_graph_add_product(g, a, b, ST);
    qc_id star = quantizer(g, "a*b", QC_U8, false), c = quantizer(g, "c", QC_U8, false),
          bc = quantizer(g, "b*c", QC_U8, false);
    cr_expect_eq(g->qparams_of[star].kind, QC_QPARAMS_QUANTIZER);
    qc_id left = qc_graph_add_product(g, star, c, ST), right = qc_graph_add_product(g, a, bc, ST);
    cr_expect(left != right && left != ab, "both are called a*b*c");
    cr_expect_eq(qc_graph_add_product(g, a, bc, ST), right);
    cr_expect_eq(qc_graph_add_product(g, star, c, ST), left);
}

Test(qparams_of, binding_refuses_what_is_no_parameter)
{
    const struct {
        float scale;
        int32_t zero;
        size_t count;
        const char *part;
    } cases[] = {
        {0, 0, 1, "scale 0"},        {-1, 0, 1, "scale -1"},       {INFINITY, 0, 1, "scale inf"},
        {NAN, 0, 1, "nan"},          {FLT_MIN / 2, 0, 1, "scale"}, {1, 256, 1, "zero point 256 is outside u8 [0, 255]"},
        {1, -1, 1, "zero point -1"}, {1, 0, 0, "0 scales"},        {1, 0, 2, "2 scales for a per-tensor quantizer"},
    };
    OWN(qc_graph) *g = qc_graph_new(ST);
    qc_id a = quantizer(g, "a", QC_U8, false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const float scale[] = {cases[i].scale, 1};
        const int32_t zero[] = {cases[i].zero, 0};
        REFUSES(qc_graph_bind_quantizer(g, a, cases[i].count, scale, zero, ST), QC_BAD_INPUT, "");
        cr_expect(strstr(failure.message, cases[i].part) && strstr(failure.message, "'a'"), "expected '%s' in '%s'",
                  cases[i].part, failure.message);
        cr_expect_eq(g->qparams_of[a].state, QC_QPARAMS_UNBOUND);
    }
}

static const char affine[] =
    "graph \"g\" opset 13%s\n"
    "qparams @1 quantizer \"x\" u8 asymmetric unbound observed %%1\n"
    "qparams @2 quantizer \"w\" i8 symmetric weight restricted per_channel bound scale 0.5 0.25 zero 0 0 observed %%2\n"
    "qparams @3 product @1 @2\n"
    "qparams @4 quantizer \"y\" u8 asymmetric off\n"
    "input %%1 \"x\" f32[N,1,2,2]\n"
    "const %%2 \"w\" f32[2,1,1,1] = {1, 2}\n"
    "%%3 : @1 = %sQUANTIZE(%%1)\n"
    "%%4 : @2 = %sQUANTIZE(%%2)\n"
    "%%5 : @3 axis 1 = Conv \"conv\"(%%3, %%4)\n"
    "%%6 = Relu(%%5)\n"
    "%%7 : @4 = %sREQUANTIZE(%%6)\n"
    "%%8 = Transpose(%%5) {perm=[0,2,3,1]}\n"
    "%%9 \"y\" = %sDEQUANTIZE(%%7)\n"
    "output \"y\" %%9\n";

/* The graph above, simulated or produced; free() it. */
static char *affine_text(bool simulated)
{
    size_t size = sizeof affine + 200;
    char *text = malloc(size), *at;
    const char *p = simulated ? "simulated_" : "";
    snprintf(text, size, affine, simulated ? " simulated" : "", p, p, p, p);
    static const char *const words[] = {"QUANTIZE", "REQUANTIZE", "DEQUANTIZE"};
    for (size_t w = 3; w-- > 0;)
        while ((at = strstr(text, words[w]))) {
            at[0] = simulated ? (char)(words[w][0] + 32) : words[w][0];
            for (size_t i = 1; i < strlen(words[w]); i++) at[i] = (char)(words[w][i] + 32);
        }
    return text;
}

Test(qparams_of, storage_is_integers_in_a_produced_graph_and_f32_in_a_simulated_one)
{
    for (int simulated = 0; simulated < 2; simulated++) {
        QC_FREED char *text = affine_text(simulated);
        OWN(qc_graph) *g = test_graph(text);
        const enum qc_dtype expected[] = {QC_U8, QC_I8, QC_I32, QC_I32, QC_U8, QC_I32, QC_F32};
        const qc_id qparams_of[] = {1, 2, 3, 3, 4, 3, 0};
        for (qc_id v = 3; v <= 9; v++) {
            const struct qc_type *t = &qc_value(g, v)->type;
            cr_expect_eq(t->dtype, simulated ? QC_F32 : expected[v - 3], "%%%u", v);
            cr_expect_eq(t->qparams, qparams_of[v - 3], "%%%u", v);
        }
        cr_expect_eq(qc_value(g, 5)->type.axis, 1);
        cr_expect_eq(qc_value(g, 6)->type.axis, 1, "a clamp keeps the axis");
        cr_expect_eq(qc_value(g, 8)->type.axis, 3, "a transpose moves it");
        cr_expect_null(qc_graph_parameters(g, 1), "real");
        cr_expect_null(qc_graph_parameters(g, 3), "unbound");
        cr_expect_null(qc_graph_parameters(g, 7), "off");
        cr_expect_eq(qc_graph_parameters(g, 4), &g->qparams_of[2]);
    }
}

/* What an op may not do with affine values: %1 real, %2 in @1, %3 in @2, %4 weights in @3 (per channel). */
static const struct {
    const char *node, *part;
} refused[] = {
    {"%5 = Exp(%2)", "needs a quantizer as its result qparams"},
    {"%5 : @4 = Exp(%2)", "needs a quantizer as its result qparams"},
    {"%5 : @2 = Add(%2, %1)", "mixes real and affine inputs"},
    {"%5 : @2 = Add(%1, %2)", "mixes real and affine inputs"},
    {"%5 = Concat(%2, %3) {axis=0}", "inputs have different qparams"},
    {"%5 = Div(%2, %3)", "has no form on affine values"},
    {"%5 = Softmax(%2)", "has no form on affine values"},
    {"%5 : @2 = Quantize(%2)", "input has the wrong qparams"},
    {"%5 : @2 = Requantize(%1)", "input has the wrong qparams"},
    {"%5 = Dequantize(%1)", "input is real already"},
    {"%5 : @1 = Exp(%1)", "result qparams need affine inputs"},
    {"%5 : @1 = MatMul(%2, %4)", "not the product"},
    {"%5 = MatMul(%2, %4)", "not the product"},
    {"%5 : @4 = MatMul(%3, %4)", "not the product"},
    {"%5 : @4 = MatMul(%2, %1)", "mixes real and affine inputs"},
    {"%5 = Flatten(%4) {axis=2}", "per-channel parameters of qparams 'w' cannot pass through"},
};

/* Reads the head of a graph and more lines. */
static bool reads(struct qc_graph **g, const char *head, const char *lines)
{
    const char *text = qc_arena_printf(test_arena(), ST, "%s%s\n", head, lines);
    return qc_graph_parse(g, text, strlen(text), ST);
}

Test(qparams_of, ops_on_affine_values_are_checked)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        OWN(qc_graph) *g = NULL;
        cr_expect(!reads(&g,
                         "graph\nqparams @1 quantizer \"a\" u8 asymmetric unbound\n"
                         "qparams @2 quantizer \"b\" u8 asymmetric unbound\n"
                         "qparams @3 quantizer \"w\" i8 symmetric per_channel unbound\nqparams @4 product @1 @3\n"
                         "input %1 \"x\" f32[4,4]\n%2 : @1 = Quantize(%1)\n%3 : @2 = Quantize(%1)\n"
                         "%4 : @3 axis 1 = Quantize(%1)\n",
                         refused[i].node) &&
                      (failure.code == QC_BAD_INPUT || failure.code == QC_UNSUPPORTED) &&
                      strstr(failure.message, refused[i].part),
                  "%s: expected '%s' in '%s'", refused[i].node, refused[i].part, failure.message);
    }
}

/* Where the channels of x[2,3,4,4], along axis 1, are behind a node; -1: torn apart. */
static const struct {
    const char *node;
    int axis;
} kept[] = {
    {"%3 = Relu(%2)", 1},
    {"%3 = Clip(%2)", 1},
    {"%3 = Transpose(%2) {perm=[0,2,3,1]}", 3},
    {"%3 = Transpose(%2)", 2},
    {"%3 = MaxPool(%2) {kernel_shape=[2,2]}", 1},
    {"%3 = GlobalMaxPool(%2)", 1},
    {"const %3 i64[3] = {2, 3, 16}\n%4 = Reshape(%2, %3)", 1},
    {"const %3 i64[4] = {1, 2, 3, 16}\n%4 = Reshape(%2, %3)", 2},
    {"const %3 i64[3] = {2, 6, 8}\n%4 = Reshape(%2, %3)", -1},
    {"const %3 i64[3] = {2, 16, 3}\n%4 = Reshape(%2, %3)", -1},
    {"%3 = Flatten(%2)", -1},
    {"const %3 i64[1] = {0}\n%4 = Unsqueeze(%2, %3)", 2},
    {"const %3 i64[1] = {0}\nconst %4 i64[1] = {2}\nconst %5 i64[1] = {2}\n%6 = Slice(%2, %3, %4, %5)", 1},
    {"const %3 i64[1] = {0}\nconst %4 i64[1] = {2}\nconst %5 i64[1] = {1}\n%6 = Slice(%2, %3, %4, %5)", -1},
    {"const %3 i64[1] = {2}\nconst %4 i64[1] = {-9}\nconst %5 i64[1] = {1}\nconst %6 i64[1] = {-1}\n%7 = Slice(%2, %3, "
     "%4, %5, %6)",
     -1},
    {"%3, %4 = Split(%2) {axis=2}", 1},
    {"%3 = Concat(%2, %2) {axis=3}", 1},
    {"%3 = Concat(%2, %2) {axis=1}", -1},
    {"%3 = DepthToSpace(%2) {blocksize=1}", -1},
};

Test(qparams_of, channels_keep_their_places_or_are_refused)
{
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        OWN(qc_graph) *g = NULL;
        const bool ok = reads(&g,
                              "graph\nqparams @1 quantizer \"x\" u8 asymmetric per_channel unbound\n"
                              "input %1 \"x\" f32[2,3,4,4]\n%2 : @1 axis 1 = Quantize(%1)\n",
                              kept[i].node);
        cr_expect_eq(ok, kept[i].axis >= 0, "%s: %s", kept[i].node, failure.message);
        if (!ok) {
            cr_expect(strstr(failure.message, "cannot pass through"), "%s: %s", kept[i].node, failure.message);
            continue;
        }
        const struct qc_type *t = &g->values[g->nodes[g->node_count].outputs].type;
        cr_expect(t->qparams == 1 && t->axis == kept[i].axis, "%s: axis %d", kept[i].node, t->axis);
    }
}
