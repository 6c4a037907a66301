// SPDX-License-Identifier: Apache-2.0
/* Parts of outputs that a Concat joins: where they lie, and which elements are compared. */
#include "calib/metrics/compare.h"
#include "calib_case.h"

#define HEADS                                                                                                          \
    "graph \"g\"\ninput %1 \"x\" f32[N,2,3]\ninput %2 \"z\" f32[N,1,3]\n%3 \"a\" = Exp(%1)\n%4 \"b\" = Exp(%2)\n"      \
    "%5 = Concat(%3, %4) {axis=1}\n"

/* The value of each part, and its elements along each axis; -1: to the end. */
static const struct {
    const char *text, *parts;
} cases[] = {
    {HEADS "output \"y\" %5\n", "a 0:-1 0:2 0:-1; b 0:-1 2:-1 0:-1; "},
    {HEADS "%6 = Transpose(%5) {perm=[0,2,1]}\noutput \"y\" %6\n", "a 0:-1 0:-1 0:2; b 0:-1 0:-1 2:-1; "},
    {HEADS "%6 = Flatten(%5) {axis=1}\noutput \"y\" %6\n", "a 0:-1 0:6; b 0:-1 6:-1; "},
    {HEADS "const %6 \"k\" f32[] = {2}\n%7 = Mul(%5, %6)\noutput \"y\" %7\n", "a 0:-1 0:2 0:-1; b 0:-1 2:-1 0:-1; "},
    {HEADS "%6 = Concat(%5, %5) {axis=2}\noutput \"y\" %6\n",
     "a 0:-1 0:2 0:3; b 0:-1 2:-1 0:3; a 0:-1 0:2 3:-1; b 0:-1 2:-1 3:-1; "},
    {HEADS "const %6 \"s\" i64[1] = {1}\nconst %7 \"e\" i64[1] = {3}\nconst %8 \"i\" i64[1] = {1}\n"
           "%9 = Slice(%5, %6, %7, %8)\noutput \"y\" %9\n",
     "y 0:-1 0:-1 0:-1; "},
    {HEADS "%6 = Sigmoid(%5)\noutput \"y\" %6\n", "y 0:-1 0:-1 0:-1; "},
    {"graph \"g\"\ninput %1 \"x\" f32[4,N]\ninput %2 \"z\" f32[4,N]\n%3 \"a\" = Exp(%1)\n%4 \"b\" = Exp(%2)\n"
     "%5 = Concat(%3, %4) {axis=1}\noutput \"y\" %5\n",
     "y 0:-1 0:-1; "},
    {"graph \"g\"\ninput %1 \"x\" f32[4,2]\ninput %2 \"z\" f32[4,N]\n%3 \"a\" = Exp(%1)\n%4 \"b\" = Exp(%2)\n"
     "%5 = Concat(%3, %4) {axis=1}\noutput \"y\" %5\n",
     "a 0:-1 0:2; b 0:-1 2:-1; "},
    {"graph \"g\"\ninput %1 \"x\" f32[2,2]\nconst %2 \"k\" f32[2,1] = {5, 6}\n%3 \"a\" = Exp(%1)\n"
     "%4 = Concat(%3, %2, %1) {axis=1}\noutput \"y\" %4\n",
     "a 0:-1 0:2; x 0:-1 3:-1; "},
};

static void describe(char text[512], const struct qc_graph *g, const struct qc_output_parts *parts)
{
    text[0] = 0;
    for (size_t i = 0; i < parts->count; i++) {
        const struct qc_output_part *p = &parts->of[i];
        const char *name = p->join ? g->values[p->value].name : "y";
        snprintf(text + strlen(text), 512 - strlen(text), "%s ", name);
        for (int k = 0; k < g->values[g->outputs[0].value].type.shape.rank; k++)
            snprintf(text + strlen(text), 512 - strlen(text), "%d:%d ", (int)p->first[k], (int)p->end[k]);
        text[strlen(text) - 1] = 0;
        strcat(text, "; ");
    }
}

Test(output_parts, where_they_lie)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWN(qc_graph) *g = test_graph(cases[i].text);
        struct qc_output_parts parts;
        char text[512];
        MUST(qc_output_parts_of(&parts, g, test_arena(), ST));
        describe(text, g, &parts);
        cr_expect_str_eq(text, cases[i].parts, "%s", cases[i].text);
    }
}

Test(output_parts, too_many_are_one)
{
    char text[4096] = "graph \"g\"\ninput %1 \"x\" f32[2,1]\n%2 = Exp(%1)\n%3 = Concat(%2";
    for (int i = 0; i < QC_OUTPUT_PARTS; i++) strcat(text, ", %2");
    strcat(text, ") {axis=1}\noutput \"y\" %3\n");
    OWN(qc_graph) *g = test_graph(text);
    struct qc_output_parts parts;
    cr_assert(qc_output_parts_of(&parts, g, test_arena(), ST) && parts.count == 1 && !parts.of[0].join);
}

/* Elements 100 * i + 10 * j + k of [2,3,4]; the part is rows 1 and 2 of the middle axis and columns 1 and 2. */
Test(output_parts, elements_of_a_part)
{
    float r[24], x[24], wanted = 0;
    const struct qc_shape shape = qc_shape_of(3, (const int64_t[]){2, 3, 4});
    for (int e = 0; e < 24; e++) {
        const int i = e / 12, j = e / 4 % 3, k = e % 4;
        r[e] = (float)(100 * i + 10 * j + k);
        x[e] = r[e] + 1;
        if (j >= 1 && (k == 1 || k == 2)) wanted += r[e] * r[e];
    }
    const struct qc_view a = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, r),
                         b = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, x);
    const struct qc_output_part part = {.first = {0, 1, 1}, .end = {-1, -1, 3}};
    struct qc_error e = {0};
    qc_compare_part(&part, &a, &b, qc_part_error, &e);
    cr_expect_eq(e.count, 8);
    cr_expect_float_eq(e.signal, (double)wanted, 1e-6);
    cr_expect_float_eq(e.noise, 8, 1e-6);
}

Test(output_parts, the_worst_has_most_noise_for_its_signal)
{
    const size_t first[] = {0, 3};
    const struct qc_output_parts parts = {.count = 3, .first = first};
    const struct qc_error errors[] = {{.count = 1, .signal = 1e6, .noise = 10},
                                      {.count = 1, .signal = 1, .noise = 0.1},
                                      {.count = 1, .signal = 0, .noise = 5}};
    cr_expect_eq(qc_worst_part(&parts, 0, errors), 1, "a part without a signal has no ratio");
}
