// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/refused.h"

#include <string.h>

bool qc_check_refused(const struct qc_graph *g, const struct qc_rules *rules, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    struct qc_matches found;
    char list[1500] = "", label[QC_LABEL];
    size_t used = 0, count = 0;
    bool ok = a ? qc_matches_find(&found, g, rules, QC_RULE_REFUSE, NULL, NULL, a, st) : qc_fail_memory(st, 1);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (!found.at[id]) continue;
        count++;
        if (used + 200 > sizeof list) continue;
        qc_text(list + used, (unsigned)(sizeof list - used), "%s'%.60s' (%s: %.80s)", used ? ", " : "",
                n->name && *n->name ? n->name : qc_value_label(label, g, n->outputs), qc_op_info(n->op)->name,
                found.at[id]->rule->inside);
        used += strlen(list + used);
    }
    qc_arena_free(a);
    return ok && (!count ||
                  qc_fail(st, QC_UNSUPPORTED, "the target refuses %zu op%s: %s", count, count == 1 ? "" : "s", list));
}
