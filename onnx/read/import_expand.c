// SPDX-License-Identifier: Apache-2.0
/* Expands nodes whose operator is a function of others (graph/core/call.h). */
#include "onnx/read/importing.h"

/* Names the values of the function after its nodes ("attn/MatMul_1"), and its outputs as in the file. */
static bool name_values(struct qc_node_import *w, size_t first, struct qc_status *st)
{
    struct qc_graph *g = w->im->g;
    for (qc_id v = (qc_id)first + 1; v <= g->value_count; v++) {
        const struct qc_node *n = qc_node_of(g, v);
        if (g->values[v].name || !n || !n->name) continue;
        const char *name =
            n->output_count > 1 ? qc_arena_printf(w->im->arena, st, "%s.%u", n->name, g->values[v].output) : n->name;
        if (!name) return false;
        if (qc_import_find(w->im, name) || qc_graph_find_value(g, name))
            name = qc_import_fresh_name(w->im, name, "of", st);
        if (!name || !qc_graph_name_value(g, v, name, st)) return false;
    }
    return true;
}

bool qc_import_expand(bool *fits, struct qc_node_import *w, const Onnx__NodeProto *p, struct qc_status *st)
{
    struct qc_importer *im = w->im;
    const struct qc_expander *x = im->expander;
    const size_t before = im->g->value_count;
    *fits = false;
    if (!x || !x->knows(x->user, w->op, im->opset)) return true;
    struct qc_attr *attrs = QC_NEW_ARRAY(im->arena, struct qc_attr, QC_NODE_ATTRS, st);
    qc_id *inputs = QC_NEW_ARRAY(im->arena, qc_id, w->input_count, st),
          *outputs = QC_NEW_ARRAY(im->arena, qc_id, w->output_count, st);
    bool *wanted = QC_NEW_ARRAY(im->arena, bool, w->output_count, st);
    if (!attrs || !inputs || !outputs || !wanted || !qc_import_raw_attrs(attrs, w, p, st)) return false;
    for (size_t i = 0; i < w->input_count; i++)
        if (qc_import_has(w, i) && !(inputs[i] = qc_import_input(w, i, st))) return false;
    for (size_t k = 0; k < w->output_count; k++) wanted[k] = qc_import_output_used(w, k);
    const struct qc_call call = {.op = w->op,
                                 .label = w->label,
                                 .opset = im->opset,
                                 .input_count = (unsigned)w->input_count,
                                 .output_count = (unsigned)w->output_count,
                                 .attr_count = (unsigned)p->n_attribute,
                                 .inputs = inputs,
                                 .attrs = attrs,
                                 .wanted = wanted};
    if (!x->expand(outputs, fits, x->user, im->g, &call, st)) return false;
    if (!*fits) return true;
    for (size_t k = 0; k < w->output_count; k++)
        if (wanted[k]) {
            w->outputs[k]->id = outputs[k];
            if (!qc_graph_name_value(im->g, outputs[k], w->outputs[k]->as, st)) return false;
        }
    return name_values(w, before, st);
}
