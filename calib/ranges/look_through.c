// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/look_through.h"

#include "calib/ablation.h"
#include "graph/core/function.h"
#include "simq/kernels/real/unary.h"

struct evaluator {
    struct qc_composed *f;
    float *scratch;
};

static void evaluate(void *user, double *y, const double *x, size_t n)
{
    const struct evaluator *e = user;
    float block[QC_COMPOSED_BLOCK];
    for (size_t first = 0; first < n; first += QC_COMPOSED_BLOCK) {
        const size_t count = n - first < QC_COMPOSED_BLOCK ? n - first : QC_COMPOSED_BLOCK;
        for (size_t i = 0; i < count; i++) block[i] = (float)x[first + i];
        qc_composed_run(e->f, block, block, (int64_t)count, e->scratch);
        for (size_t i = 0; i < count; i++) y[first + i] = (double)block[i];
    }
}

static bool prepare(struct qc_look *out, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_attr f = QC_STRING("f", out->text);
    const struct qc_node table = {.op = QC_OP_Table, .attr_count = 1, .attrs = &f};
    struct evaluator *e = QC_NEW(a, struct evaluator, st);
    if (!e || !qc_composed_of(&e->f, &table, a, st) ||
        !(e->scratch = QC_NEW_ARRAY(a, float, qc_composed_scratch(e->f), st)))
        return false;
    out->behind = (struct qc_output_function){.run = evaluate, .user = e};
    return true;
}

bool qc_look_through(struct qc_look **out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    struct qc_uses uses;
    const char **texts;
    struct qc_look *looks = QC_NEW_ARRAY(a, struct qc_look, g->qparams_count + 1, st);
    if (!looks || !qc_uses_of(&uses, g, a, st) || !qc_output_functions(&texts, g, &uses, a, st)) return false;
    for (qc_id s = 1; s <= g->qparams_count; s++) {
        looks[s].text = texts[s] && !qc_ablated("look_through") ? texts[s] : NULL;
        if (looks[s].text && !prepare(&looks[s], a, st)) return qc_where(st, "quantizer '%s'", g->qparams_of[s].name);
    }
    *out = looks;
    return true;
}
