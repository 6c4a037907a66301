// SPDX-License-Identifier: Apache-2.0
#include "graph/core/source_call.h"

#include <string.h>

#include "graph/core/tables.h"

bool qc_call_takes_caches(const struct qc_source_call *c)
{
    return c->op && strcmp(c->op, "com.microsoft::GroupQueryAttention") == 0 &&
           c->input_count >= QC_CACHES_PAST + QC_CACHES;
}

bool qc_graph_copy_source_call(struct qc_graph *g, struct qc_source_call call, struct qc_status *st)
{
    struct qc_attr *attrs = QC_NEW_ARRAY(g->arena, struct qc_attr, call.attr_count, st);
    if (!attrs || !qc_attrs_copy(attrs, call.attrs, call.attr_count, g->arena, st)) return false;
    call.attrs = attrs;
    if (call.op && !(call.op = qc_arena_strdup(g->arena, call.op, st))) return false;
    if (!(call.label = qc_arena_strdup(g->arena, call.label, st))) return false;
    if (!qc_grow((void **)&g->calls, &g->tables->call_capacity, g->call_count, sizeof *g->calls, st)) return false;
    g->calls[g->call_count++] = call;
    return true;
}

bool qc_graph_add_source_call(struct qc_graph *g, const struct qc_call *call, const qc_id *outputs,
                              struct qc_status *st)
{
    for (unsigned i = 0; i < call->attr_count; i++)
        if (call->attrs[i].kind == QC_ATTR_TENSOR || call->attrs[i].kind == QC_ATTR_GRAPH) return true;
    const struct qc_source_call to = {.op = call->op,
                                      .label = call->label,
                                      .input_count = call->input_count,
                                      .output_count = call->output_count,
                                      .attr_count = call->attr_count,
                                      .attrs = call->attrs,
                                      .inputs = qc_arena_dup(g->arena, call->inputs, call->input_count,
                                                             sizeof *call->inputs, st),
                                      .outputs =
                                          qc_arena_dup(g->arena, outputs, call->output_count, sizeof *outputs, st)};
    return to.inputs && to.outputs && qc_graph_copy_source_call(g, to, st);
}
