// SPDX-License-Identifier: Apache-2.0
#include "evaluate/canonical_model.h"

#include "graph/core/verify.h"
#include "rewrite/passes/functions.h"
#include "simq/plan/plan.h"

bool qc_canonical_model_of(struct qc_canonical_model *out, const struct qc_graph *imported, struct qc_status *st)
{
    struct qc_rules *rules = qc_rules_new(st), *fold = rules ? qc_rules_new(st) : NULL;
    struct qc_canonical_model m = {.produced = NULL};
    struct qc_graph *normalised = NULL, *joined = NULL;
    bool ok = fold && qc_rules_add_builtin(rules, "normalise.rules", st) &&
              qc_rules_add_builtin(rules, "patterns.rules", st) && qc_rules_add_builtin(rules, "allow.rules", st) &&
              qc_rules_add_builtin(fold, "requantize.rules", st);
    ok = ok && qc_normalise(&normalised, imported, rules, qc_evaluate, st) &&
         qc_join_quantized_functions(&joined, normalised, rules, st) &&
         qc_canonical(&m.canonical, &m.notes, joined, rules, st) && qc_graph_verify(m.canonical, st) &&
         qc_canonical_finish(&m.produced, m.canonical, rules, fold, qc_evaluate, st) && qc_graph_verify(m.produced, st);
    qc_graph_free(normalised);
    qc_graph_free(joined);
    qc_rules_free(rules);
    qc_rules_free(fold);
    if (ok)
        *out = m;
    else
        qc_canonical_model_free(&m);
    return ok;
}

void qc_canonical_model_free(struct qc_canonical_model *m)
{
    qc_graph_free(m->produced);
    qc_graph_free(m->canonical);
    *m = (struct qc_canonical_model){.produced = NULL};
}

bool qc_model_canonicalise(struct qc_model *m, struct qc_status *st)
{
    struct qc_canonical_model c;
    if (!qc_is_quantized(m->graph)) return true;
    if (!qc_canonical_model_of(&c, m->graph, st)) return qc_where(st, "%s", m->path);
    if (m->imported)
        qc_graph_free(m->graph); /* the graph of qc_model_widen */
    else
        m->imported = m->graph; /* kept, since it holds the texts of info */
    m->graph = c.produced;
    c.produced = NULL;
    qc_canonical_model_free(&c);
    return true;
}
