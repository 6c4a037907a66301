// SPDX-License-Identifier: Apache-2.0
/* Constants of stored integers with qparams. */
#include "graph/core/rebuild.h"
#include "graph/core/verify.h"
#include "graph/text/text.h"
#include "tests/check.h"
#include "tests/graph_reader/graph_reader.h"

static const char model[] = "graph \"g\" opset 13\n"
                            "qparams @1 quantizer \"w\" i8 symmetric weight per_channel bound scale 0.5 0.25 zero 0 0\n"
                            "qparams @2 quantizer \"x\" u8 asymmetric bound scale 0.5 zero 3\n"
                            "qparams @3 product @2 @1\n"
                            "input %1 \"x\" f32[N,3]\n"
                            "%2 : u8[N,3] @2 = Quantize(%1)\n"
                            "const %3 \"w\" i8[3,2] @1 axis 1 = {1, -2, 3, 4, 5, -128}\n"
                            "const %4 \"b\" i32[2] @3 = {70000, -8}\n"
                            "%5 \"y\" : i32[N,2] @3 axis 1 = Gemm(%2, %3, %4)\n"
                            "%6 : f32[N,2] = Dequantize(%5)\n"
                            "output \"y\" %6\n";

static struct qc_graph *parse(const char *text, struct qc_status *st)
{
    struct qc_graph *g = NULL;
    return qc_graph_parse(&g, text, strlen(text), st) ? g : NULL;
}

Test(affine_constant, text_parses_back_and_verifies)
{
    const struct qc_text_options all = QC_TEXT_ALL;
    OWN(qc_graph) *g = parse(model, ST);
    MUST(g);
    SHOULD(qc_graph_verify(g, ST));
    QC_FREED char *text = qc_graph_print(g, &all, ST);
    cr_expect_str_eq(text, model);
    const struct qc_value *w = qc_value(g, qc_graph_find_value(g, "w"));
    cr_expect(w->type.qparams == 1 && w->type.axis == 1 && w->type.dtype == QC_I8);
    cr_expect_eq(qc_graph_parameters(g, qc_graph_find_value(g, "w")), &g->qparams_of[1]);
}

Test(affine_constant, a_pass_copies_it_with_its_qparams)
{
    const struct qc_text_options all = QC_TEXT_ALL;
    OWN(qc_graph) *g = parse(model, ST), *copy = NULL;
    struct qc_rebuild r = {0};
    MUST(g && qc_rebuild_begin(&r, g, ST) && qc_rebuild_finish(&copy, &r, ST));
    qc_rebuild_free(&r);
    SHOULD(qc_graph_verify(copy, ST));
    QC_FREED char *text = qc_graph_print(copy, &all, ST);
    cr_expect(strstr(text, "i8[3,2] @1 axis 1 = {1, -2, 3, 4, 5, -128}"), "%s", text);
}

Test(affine_constant, equal_integers_in_different_qparams_are_different)
{
    OWN(qc_graph) *g = qc_graph_new(ST);
    const struct qc_shape shape = QC_SHAPE(2);
    OWN(qc_tensor) *t = qc_tensor_of(QC_I8, &shape, (const int8_t[]){1, 2}, ST);
    qc_id quantizer[2], id[2];
    for (int i = 0; i < 2; i++) {
        quantizer[i] = qc_graph_add_quantizer(g, &(struct qc_qparams){.name = i ? "b" : "a", .dtype = QC_I8}, ST);
        MUST(qc_graph_bind_quantizer(g, quantizer[i], 1, (const float[]){1}, (const int32_t[]){0}, ST));
        id[i] = qc_graph_add_affine_constant(g, "c", t, quantizer[i], 0, ST);
        cr_expect_eq(qc_graph_add_affine_constant(g, "again", t, quantizer[i], 0, ST), id[i]);
    }
    const qc_id real = qc_graph_add_constant(g, "c", t, ST);
    cr_expect(id[0] && id[1] && real && id[0] != id[1] && id[0] != real && id[1] != real);
}

Test(affine_constant, simulated_ones_are_held_in_f32)
{
    OWN(qc_graph) *g = qc_graph_new(ST);
    const struct qc_shape shape = QC_SHAPE(2);
    OWN(qc_tensor) *t = qc_tensor_of(QC_U8, &shape, (const uint8_t[]){1, 255}, ST);
    g->simulated = true;
    const qc_id quantizer = qc_graph_add_quantizer(g, &(struct qc_qparams){.name = "a", .dtype = QC_U8}, ST);
    MUST(qc_graph_bind_quantizer(g, quantizer, 1, (const float[]){1}, (const int32_t[]){7}, ST));
    const qc_id id = qc_graph_add_affine_constant(g, "c", t, quantizer, 0, ST);
    cr_assert(id && qc_graph_add_output(g, "c", id, ST));
    HOLD(qc_value(g, id)->type.dtype == QC_F32, qc_constant_of(g, id)->dtype == QC_U8);
    SHOULD(qc_graph_verify(g, ST));
}

Test(affine_constant, what_does_not_fit_is_an_error)
{
    static const struct {
        const char *from, *to, *expected;
    } cases[] = {
        {"bound scale 0.5 0.25 zero 0 0", "unbound", "have no parameters"},
        {"@1 axis 1 = {1", "@1 axis 0 = {1", "have 2 channels, which axis 0 of the constant does not have"},
        {"i8[3,2] @1 axis 1 = {1, -2, 3, 4, 5, -128}", "u8[3,2] @1 axis 1 = {1, 2, 3, 4, 5, 128}",
         "the constant is u8, its qparams 'w' are i8"},
        {"weight per_channel", "weight restricted per_channel",
         "element 5 of the constant is -128, outside the levels"},
        {"i8[3,2] @1 axis 1", "i8[3,2] @9 axis 1", "qparams @9 does not exist"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2 * sizeof model];
        const char *at = strstr(model, cases[i].from);
        cr_assert(at, "%s", cases[i].from);
        qc_text(text, sizeof text, "%.*s%s%s", (int)(at - model), model, cases[i].to, at + strlen(cases[i].from));
        OWN(qc_graph) *g = parse(text, ST);
        cr_expect_null(g, "case %zu", i);
        cr_expect_eq(failure.code, QC_BAD_INPUT);
        cr_expect(strstr(failure.message, cases[i].expected), "expected '%s' in '%s'", cases[i].expected,
                  failure.message);
    }
}
