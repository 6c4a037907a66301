// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/produced_ops.h"

#include <string.h>

#include "graph/core/custom.h"
#include "graph/core/recurrent.h"
#include "rewrite/passes/dynamic.h"
#include "rewrite/passes/groups.h"

static bool is_of_activations(const struct qc_graph *g, const struct qc_node *n)
{
    return n->op == QC_OP_MatMul && !qc_constant_of(g, n->inputs[0]) && !qc_constant_of(g, n->inputs[1]);
}

const char *qc_float_reason(const struct qc_pipeline *p, const struct qc_node *n)
{
    const struct qc_graph *g = p->joined;
    const char *name = p->produced->values[n->outputs].name;
    qc_id v = name ? qc_graph_find_value(g, name) : 0;
    const struct qc_node *was = v ? qc_node_of(g, v) : NULL;
    const char *noted = was ? p->partition->reason[g->values[v].node] : NULL;
    if (noted) return noted;
    const bool matched = was && p->partition->matches.at[g->values[v].node];
    if (matched && qc_is_recurrent(n->op)) return "computes in float, from quantized weights";
    if (matched && n->op == QC_OP_ConvTranspose && p->options->runs_on->onnxruntime)
        return "ONNX Runtime computes it in float, from quantized weights; in integers with --target fused";
    if (matched) return "its pattern computes it in float";
    if (qc_rules_in_table(p->from->rules, p->produced, n) && p->options->runs_on->onnxruntime)
        return "ONNX Runtime computes it in float; a table of integers with --target fused";
    if (is_of_activations(p->produced, n) && p->options->runs_on->onnxruntime)
        return "of two activations, no faster in integers in ONNX Runtime; in integers with --target fused";
    if (n->op == QC_OP_Custom) return "a kernel of your own computes it";
    /* ONNX Runtime 1.31, four convolutions of 64 channels of 64x64 each followed by one: 3.6 ms, with scale and bias as
       convolutions of each channel 4.5 ms. */
    if (n->op == QC_OP_InstanceNormalization && p->options->runs_on->onnxruntime)
        return "has no integer form; its scale and bias alone in integers are slower in ONNX Runtime";
    const struct qc_node *made = was && was->op == QC_OP_BatchNormalization ? qc_node_of(g, was->inputs[0]) : NULL;
    if (made && made->op == QC_OP_Concat)
        return "after a Concat, whose parts would share one scale, although it enlarges the small ones";
    switch (qc_node_affine(n)) {
    case QC_AFFINE_KEEP:
    case QC_AFFINE_BOUND:
    case QC_AFFINE_JOIN: return "between float ops";
    case QC_AFFINE_NONE: return "has no integer form";
    case QC_AFFINE_MERGE:
    case QC_AFFINE_PRODUCT: break;
    }
    return "no pattern matches";
}

/* Returns [value_count + 1]: true for values computed from constants alone (weights dequantized and transposed), which
   cost nothing at run time. */
static const bool *of_constants(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    bool *is = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    for (qc_id v = 1; is && v <= g->value_count; v++) is[v] = qc_constant_of(g, v) != NULL;
    for (qc_id id = 1; is && id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        bool all = n->input_count > 0;
        for (unsigned i = 0; i < n->input_count; i++) all = all && (!n->inputs[i] || is[n->inputs[i]]);
        for (unsigned k = 0; k < n->output_count; k++) is[n->outputs + k] = all;
    }
    return is;
}

bool qc_float_ops(const struct qc_float_op **out, size_t *count, size_t *quantized, const struct qc_pipeline *p,
                  struct qc_status *st)
{
    const struct qc_graph *g = p->produced;
    const struct qc_carried *c = g->carried;
    struct qc_float_op *list = QC_NEW_ARRAY(p->arena, struct qc_float_op, g->node_count + (c ? c->node_count : 0), st);
    char label[QC_LABEL];
    const struct qc_group_info *groups;
    size_t group_count;
    bool *grouped = QC_NEW_ARRAY(p->arena, bool, g->node_count + 1, st);
    const bool *constant = of_constants(g, p->arena, st);
    *count = *quantized = 0;
    if (!constant || !grouped || !qc_groups_find(&groups, &group_count, g, p->arena, st)) return false;
    for (size_t i = 0; i < group_count; i++)
        for (unsigned k = 0; k < groups[i].count; k++) grouped[groups[i].nodes[k]] = true;
    for (qc_id id = 1; list && id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        const struct qc_type *t = &g->values[n->outputs].type;
        if (n->op == QC_OP_Quantize || n->op == QC_OP_Requantize || n->op == QC_OP_Dequantize) continue;
        const enum qc_dynamic_part part = qc_dynamic_part_of(g, n);
        if (part == QC_DYNAMIC_REST) continue;
        /* grouped: rounded only after a function */
        if (t->qparams != QC_REAL || grouped[id] || part == QC_DYNAMIC_PRODUCT) {
            ++*quantized;
            continue;
        }
        if (t->dtype != QC_F32 || constant[n->outputs]) continue; /* shape arithmetic, or weights */
        const char *name = qc_node_label(label, g, n);
        struct qc_float_op f = {.name = qc_arena_strdup(p->arena, name, st),
                                .op = qc_custom_name(n, p->arena, st),
                                .reason = qc_float_reason(p, n)};
        if (!f.name || !f.op) return false;
        list[(*count)++] = f;
    }
    for (size_t i = 0; list && c && i < c->node_count; i++) {
        const struct qc_carried_node *n = &c->nodes[i];
        const char *op = *n->domain ? qc_arena_printf(p->arena, st, "%s::%s", n->domain, n->op) : n->op,
                   *reason = qc_carried_reason(n, p->arena, st);
        if (!op || !reason) return false;
        list[(*count)++] = (struct qc_float_op){.name = n->name, .op = op, .reason = reason};
    }
    *out = list;
    return list != NULL;
}

qc_id qc_maker(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *n = qc_node_of(g, v);
    if (n && (n->op == QC_OP_Requantize || n->op == QC_OP_Quantize)) {
        qc_id from = n->inputs[0];
        return g->values[from].kind == QC_VALUE_RESULT ? g->values[from].node : 0;
    }
    return n ? g->values[v].node : 0;
}
