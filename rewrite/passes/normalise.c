// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/simulate.h"

static bool check_end(struct qc_endless *e, const struct qc_graph *g, const struct qc_rules *rules,
                      struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    struct qc_matches m;
    bool ok = a ? qc_matches_find(&m, g, rules, QC_RULE_REWRITE, NULL, NULL, a, st) && qc_endless_check(e, &m, g, st)
                : qc_fail_memory(st, 1);
    qc_arena_free(a);
    return ok;
}

bool qc_normalise(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules, qc_eval_fn *eval,
                  struct qc_status *st)
{
    struct qc_graph *folded, *rewritten;
    struct qc_endless endless;
    struct qc_folding left = qc_folding_begin(&g->budget);
    size_t applied = 0;
    qc_endless_begin(&endless, g);
    if (!qc_fold_constants_within(&folded, g, eval, &left, st)) return false;
    do {
        bool ok = check_end(&endless, folded, rules, st) && qc_rewrite(&rewritten, &applied, folded, rules, st);
        qc_graph_free(folded);
        if (!ok) return false;
        ok = qc_fold_constants_within(&folded, rewritten, eval, &left, st);
        qc_graph_free(rewritten);
        if (!ok) return false;
    } while (applied);
    *out = folded;
    return true;
}
