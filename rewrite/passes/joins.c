// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/joins.h"

#include <math.h>

#include "graph/core/bounds.h"

/* 4 bits: an input that loses more keeps its own scale. */
#define APART 16

/* Infinite if the bounds are not known. */
static double magnitude(struct qc_bounds b)
{
    return fmax(fabs(b.lo), fabs(b.hi));
}

static bool sizes_differ(const struct qc_node *n, const struct qc_bounds *bounds)
{
    double least = (double)INFINITY, most = 0;
    for (unsigned i = 0; i < n->input_count; i++) {
        const double m = magnitude(bounds[n->inputs[i]]);
        if (m == 0) continue; /* all zeros: any scale is exact */
        least = fmin(least, m);
        most = fmax(most, m);
    }
    return isfinite(least) && least * APART < most;
}

/* Returns [value_count + 1]: a match reads the value, or the result of ops on it that pass parameters on. through:
   matches of patterns that only join pass it on too. */
static bool *read_by_matches(const struct qc_graph *g, const struct qc_rules *rules, const struct qc_matches *matches,
                             bool through, struct qc_arena *a, struct qc_status *st)
{
    bool *read = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    for (qc_id id = (qc_id)g->node_count; read && id >= 1; id--) {
        const struct qc_node *n = &g->nodes[id];
        const struct qc_match *m = matches->at[id];
        const bool joins = through && m && m->rule->joins;
        const bool matched = !joins && (!matches->live[id] || m);
        const bool passes = joins || (!matched && qc_rules_behaviour(rules, g, n) != QC_AFFINE_NONE);
        bool wanted = matched;
        for (unsigned k = 0; k < n->output_count; k++) wanted = wanted || (passes && read[n->outputs + k]);
        for (unsigned i = 0; i < n->input_count; i++) read[n->inputs[i]] = read[n->inputs[i]] || wanted;
    }
    return read;
}

static bool has_joins(const struct qc_graph *g, const struct qc_rules *rules)
{
    for (qc_id id = 1; id <= g->node_count; id++)
        if (qc_rules_behaviour(rules, g, &g->nodes[id]) == QC_AFFINE_JOIN) return true;
    return false;
}

bool *qc_joins_apart(const struct qc_graph *g, const struct qc_rules *rules, const struct qc_matches *matches,
                     bool through, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_bounds *bounds;
    bool *apart = QC_NEW_ARRAY(a, bool, g->node_count + 1, st), *read = NULL;
    if (!apart || !has_joins(g, rules)) return apart; /* computing bounds reads every weight */
    if (!(bounds = qc_graph_bounds(g, a, st)) ||
        (matches && !(read = read_by_matches(g, rules, matches, through, a, st))))
        return NULL;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (qc_rules_behaviour(rules, g, n) == QC_AFFINE_JOIN && (!read || !read[n->outputs]))
            apart[id] = sizes_differ(n, bounds);
    }
    return apart;
}
