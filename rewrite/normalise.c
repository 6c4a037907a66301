// SPDX-License-Identifier: Apache-2.0
#include "rewrite/simulate.h"

bool qc_normalise(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules, qc_eval_fn *eval, struct qc_status *st)
{
    struct qc_graph *folded, *rewritten;
    size_t applied = 0;
    if (!qc_fold_constants(&folded, g, eval, st)) return false;
    do {
        bool ok = qc_rewrite(&rewritten, &applied, folded, rules, st);
        qc_graph_free(folded);
        if (!ok) return false;
        ok = qc_fold_constants(&folded, rewritten, eval, st);
        qc_graph_free(rewritten);
        if (!ok) return false;
    } while (applied);
    *out = folded;
    return true;
}
