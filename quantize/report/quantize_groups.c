// SPDX-License-Identifier: Apache-2.0
/* The groups of the produced graph for the report. */
#include "quantize/report/quantize_groups.h"

#include "quantize/report/produced_ops.h"
#include "rewrite/passes/groups.h"

/* Returns why the group breaks; for a float op the reason in the list of float ops. */
static const char *reason_of(const struct qc_pipeline *p, const struct qc_group_info *g)
{
    if (g->how == QC_GROUP_FLOAT) return qc_float_reason(p, &p->produced->nodes[g->head]);
    if (g->how == QC_GROUP_FLOAT_OP) return qc_float_reason(p, &p->produced->nodes[g->breaks_at]);
    return qc_group_break_text(g->how);
}

static bool fill(struct qc_report_group *out, const struct qc_pipeline *p, const struct qc_group_info *from,
                 struct qc_status *st)
{
    const struct qc_graph *g = p->produced;
    qc_id qparams = g->values[from->result].type.qparams;
    const char **ops = QC_NEW_ARRAY(p->arena, const char *, from->count, st);
    if (!ops) return false;
    for (unsigned i = 0; i < from->count; i++) ops[i] = qc_op_info(g->nodes[from->nodes[i]].op)->name;
    *out = (struct qc_report_group){.name = qc_node_name(g, &g->nodes[from->head], p->arena, st),
                                    .op = qc_op_info(g->nodes[from->head].op)->name,
                                    .type = qc_dtype_info(qparams ? g->qparams_of[qparams].dtype : QC_F32)->name,
                                    .op_count = from->count,
                                    .ops = ops,
                                    .one_piece = from->how == QC_GROUP_WHOLE};
    if (!out->name || out->one_piece) return out->name != NULL;
    qc_id at = from->how == QC_GROUP_FLOAT ? from->head : from->breaks_at;
    out->reason = reason_of(p, from);
    out->break_name = at ? qc_node_name(g, &g->nodes[at], p->arena, st) : NULL;
    out->break_op = at ? qc_op_info(g->nodes[at].op)->name : NULL;
    return !at || out->break_name;
}

bool qc_fill_groups(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_group_info *list;
    size_t count;
    if (!qc_groups_find(&list, &count, p->produced, p->arena, st)) return false;
    struct qc_report_group *groups = QC_NEW_ARRAY(p->arena, struct qc_report_group, count, st);
    if (!groups) return false;
    for (size_t i = 0; i < count; i++)
        if (!fill(&groups[i], p, &list[i], st)) return false;
    r->groups = groups;
    r->group_count = count;
    return true;
}
