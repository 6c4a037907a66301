// SPDX-License-Identifier: Apache-2.0
/* Weights that several nodes have in common are packed once. */
#include <criterion/criterion.h>
#include <string.h>

#include "graph/text/text.h"
#include "simq/plan/plan.h"

enum { SIDE = 256, BYTES = SIDE * SIDE * 4, TEXT = 4096 };

/* Bytes that a plan holds of `count` products in a row, all of the same matrix; the results are of the first row. */
static size_t packed_bytes(const char *op, int count, float *y)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_graph *g = NULL;
    struct qc_plan *p;
    struct qc_runner *r;
    const struct qc_shape shape = QC_SHAPE(4, SIDE);
    char text[TEXT];
    size_t at = 0;
    qc_text(text, TEXT,
            "graph \"g\" opset 13\ninput %%1 \"x\" f32[4,%d]\nconst %%2 i64[2] = {%d, %d}\n%%3 = ConstantOfShape(%%2) "
            "{value=f32[1] {0.00390625}}\n",
            SIDE, SIDE, SIDE);
    at = strlen(text);
    for (int i = 0; i < count; i++, at += strlen(text + at))
        qc_text(text + at, (unsigned)(TEXT - at), "%%%d = %s(%%%d, %%3)\n", i + 4, op, i ? i + 3 : 1);
    qc_text(text + at, (unsigned)(TEXT - at), "output \"y\" %%%d\n", count + 3);
    cr_assert(qc_graph_parse(&g, text, strlen(text), &st), "%s\n%s", st.message, text);
    cr_assert(qc_plan_new(&p, g, &shape, NULL, &st) && qc_runner_new(&r, p, &st), "%s", st.message);
    const struct qc_view x = qc_runner_input(r, 0);
    for (int i = 0; i < 4 * SIDE; i++) ((float *)x.data)[i] = 1;
    cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
    *y = *(const float *)qc_runner_output(r, 0).data;
    const size_t bytes = qc_plan_constant_bytes(p);
    qc_runner_free(r);
    qc_plan_free(p);
    qc_graph_free(g);
    return bytes;
}

Test(plan_packed, products_of_one_matrix_pack_it_once)
{
    static const char *const ops[] = {"MatMul", "Gemm"};
    for (int i = 0; i < 2; i++) {
        float one, many;
        const size_t few = packed_bytes(ops[i], 1, &one), all = packed_bytes(ops[i], 12, &many);
        cr_expect_lt(all, few + BYTES, "%s: %zu bytes, and %zu", ops[i], few, all);
        cr_expect_eq(one, 1);
        cr_expect_eq(many, 1);
    }
}
