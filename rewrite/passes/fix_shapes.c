// SPDX-License-Identifier: Apache-2.0
#include "graph/core/rebuild.h"
#include "rewrite/passes/simulate.h"

static bool fix_input(struct qc_type *t, const char *name, const struct qc_shape *s, struct qc_status *st)
{
    char given[QC_SHAPE_TEXT], declared[QC_SHAPE_TEXT];
    bool fits = qc_shape_fixed(s) && (t->shape.rank < 0 || t->shape.rank == s->rank);
    for (int d = 0; fits && d < t->shape.rank; d++) fits = t->shape.dim[d] == QC_FREE || t->shape.dim[d] == s->dim[d];
    if (!fits)
        return qc_fail(st, QC_BAD_INPUT, "input '%s' cannot have shape %s: the model declares %s", name,
                       qc_shape_text(given, s), qc_shape_text(declared, &t->shape));
    t->shape = *s;
    return true;
}

bool qc_fix_shapes(struct qc_graph **out, const struct qc_graph *g, const struct qc_shape *shapes, qc_eval_fn *eval,
                   struct qc_status *st)
{
    struct qc_rebuild r = {0};
    struct qc_graph *fixed = NULL;
    bool ok = qc_rebuild_begin(&r, g, st);
    for (size_t i = 0; ok && i < g->input_count; i++)
        ok = fix_input(&r.to->values[r.to->inputs[i].value].type, g->inputs[i].name, &shapes[i], st);
    ok = ok && qc_rebuild_finish(&fixed, &r, st) && qc_fold_constants(out, fixed, eval, st);
    qc_rebuild_free(&r);
    qc_graph_free(fixed);
    return ok;
}
