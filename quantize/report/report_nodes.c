// SPDX-License-Identifier: Apache-2.0
/* The produced graph as the report draws it. Quantize, requantize and dequantize have no boxes; a fused group is one
   box. */
#include "quantize/report/quantize_report.h"

#include <inttypes.h>
#include <string.h>

#include "graph/core/custom.h"
#include "graph/core/recurrent.h"
#include "quantize/report/layer_detail.h"
#include "rewrite/passes/dynamic.h"
#include "rewrite/passes/groups.h"

static bool is_of_activations(const struct qc_graph *g, const struct qc_node *n)
{
    return n->op == QC_OP_MatMul && !qc_constant_of(g, n->inputs[0]) && !qc_constant_of(g, n->inputs[1]);
}

/* Returns why an op of a quantized pattern computes in float. */
static const char *reason_in_pattern(const struct qc_graph *g, const struct qc_node *n)
{
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_node *d = n->inputs[i] ? qc_node_of(g, n->inputs[i]) : NULL;
        if (!d || d->op != QC_OP_Dequantize) continue;
        if (qc_constant_of(g, d->inputs[0])) return "computes in float, from quantized weights";
        if (g->values[d->inputs[0]].type.dtype == QC_I32)
            return "computes in float on the result of an integer product";
    }
    if (n->op == QC_OP_Min || n->op == QC_OP_Max) return "its bounds differ by channel, between integers";
    return "has no integer form, between integers";
}

/* Returns why an op of the produced graph stays in float. */
static const char *qc_float_reason(const struct qc_network *net, const struct qc_node *n)
{
    const struct qc_graph *g = net->joined;
    const char *name = net->produced->values[n->outputs].name;
    qc_id v = name ? qc_graph_find_value(g, name) : 0;
    const struct qc_node *was = v ? qc_node_of(g, v) : NULL;
    const char *noted = was ? net->partition->reason[g->values[v].node] : NULL;
    if (noted) return noted;
    const bool matched = was && net->partition->matches.at[g->values[v].node];
    if (matched && qc_is_recurrent(n->op)) return "computes in float, from quantized weights";
    if (matched && n->op == QC_OP_ConvTranspose && net->scheme.options->runs_on->onnxruntime &&
        qc_attr_int(n, "group", 1) == 1)
        return "ONNX Runtime computes it in float, from quantized weights; in integers with --target fused";
    if (matched) return reason_in_pattern(net->produced, n);
    if (qc_rules_in_table(net->setup->rules, net->produced, n) && net->scheme.options->runs_on->onnxruntime)
        return "ONNX Runtime computes it in float; a table of integers with --target fused";
    if (is_of_activations(net->produced, n) && net->scheme.options->runs_on->onnxruntime)
        return "of two activations, no faster in integers in ONNX Runtime; in integers with --target fused";
    if (n->op == QC_OP_Custom) return "a kernel of your own computes it";
    /* ONNX Runtime 1.31, four convolutions of 64 channels of 64x64 each followed by one: 3.6 ms, with scale and bias as
       convolutions of each channel 4.5 ms. */
    if (n->op == QC_OP_InstanceNormalization && net->scheme.options->runs_on->onnxruntime)
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

bool qc_float_ops(const struct qc_float_op **out, size_t *count, size_t *quantized, const struct qc_network *net,
                  struct qc_status *st)
{
    const struct qc_graph *g = net->produced;
    const struct qc_carried *c = g->carried;
    struct qc_float_op *list =
        QC_NEW_ARRAY(net->arena, struct qc_float_op, g->node_count + (c ? c->node_count : 0), st);
    char label[QC_LABEL];
    const struct qc_group_info *groups;
    size_t group_count;
    bool *grouped = QC_NEW_ARRAY(net->arena, bool, g->node_count + 1, st);
    const bool *constant = of_constants(g, net->arena, st);
    *count = *quantized = 0;
    if (!constant || !grouped || !qc_groups_find(&groups, &group_count, g, net->arena, st)) return false;
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
        struct qc_float_op f = {.name = qc_arena_strdup(net->arena, name, st),
                                .op = qc_custom_name(n, net->arena, st),
                                .reason = qc_float_reason(net, n)};
        if (!f.name || !f.op) return false;
        list[(*count)++] = f;
    }
    for (size_t i = 0; list && c && i < c->node_count; i++) {
        const struct qc_carried_node *n = &c->nodes[i];
        const char *op = *n->domain ? qc_arena_printf(net->arena, st, "%s::%s", n->domain, n->op) : n->op,
                   *reason = qc_carried_reason(n, net->arena, st);
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

/* The groups of the produced graph for the report. */

/* Returns why the group breaks; for a float op the reason in the list of float ops. */
static const char *reason_of(const struct qc_network *net, const struct qc_group_info *g)
{
    if (g->how == QC_GROUP_FLOAT) return qc_float_reason(net, &net->produced->nodes[g->head]);
    if (g->how == QC_GROUP_FLOAT_OP) return qc_float_reason(net, &net->produced->nodes[g->breaks_at]);
    return qc_group_break_text(g->how);
}

static bool fill_node(struct qc_report_group *out, const struct qc_network *net, const struct qc_group_info *from,
                      struct qc_status *st)
{
    const struct qc_graph *g = net->produced;
    qc_id qparams = g->values[from->result].type.qparams;
    const char **ops = QC_NEW_ARRAY(net->arena, const char *, from->count, st);
    if (!ops) return false;
    for (unsigned i = 0; i < from->count; i++) ops[i] = qc_op_info(g->nodes[from->nodes[i]].op)->name;
    *out = (struct qc_report_group){.name = qc_node_name(g, &g->nodes[from->head], net->arena, st),
                                    .op = qc_op_info(g->nodes[from->head].op)->name,
                                    .type = qc_dtype_info(qparams ? g->qparams_of[qparams].dtype : QC_F32)->name,
                                    .op_count = from->count,
                                    .ops = ops,
                                    .one_piece = from->how == QC_GROUP_WHOLE};
    if (!out->name || out->one_piece) return out->name != NULL;
    qc_id at = from->how == QC_GROUP_FLOAT ? from->head : from->breaks_at;
    out->reason = reason_of(net, from);
    out->break_name = at ? qc_node_name(g, &g->nodes[at], net->arena, st) : NULL;
    out->break_op = at ? qc_op_info(g->nodes[at].op)->name : NULL;
    return !at || out->break_name;
}

bool qc_fill_groups(struct qc_report *r, const struct qc_network *net, struct qc_status *st)
{
    const struct qc_group_info *list;
    size_t count;
    if (!qc_groups_find(&list, &count, net->produced, net->arena, st)) return false;
    struct qc_report_group *groups = QC_NEW_ARRAY(net->arena, struct qc_report_group, count, st);
    if (!groups) return false;
    for (size_t i = 0; i < count; i++)
        if (!fill_node(&groups[i], net, &list[i], st)) return false;
    r->groups = groups;
    r->group_count = count;
    return true;
}

struct drawing {
    const struct qc_network *net;
    const struct qc_graph *g; /* produced */
    struct qc_report *r;
    struct qc_report_node *nodes;
    size_t count;
    size_t *of_value; /* [value_count + 1]: the box that a value comes from, or QC_NO_INDEX */
    qc_id *head_of;   /* [node_count + 1]: the first node of the group, or 0 */
};

static size_t layer_of(const struct drawing *d, qc_id value)
{
    qc_id s = d->g->values[value].type.qparams;
    if (!s || d->g->qparams_of[s].kind != QC_QPARAMS_QUANTIZER) return QC_NO_INDEX;
    return qc_layer_of(d->r, d->g, s);
}

static bool shape_of(struct qc_report_node *box, const struct drawing *d, qc_id value, struct qc_status *st)
{
    const struct qc_shape *s = &d->g->values[value].type.shape;
    const char *text = "[";
    int known = 0;
    for (int i = 0; i < s->rank; i++) known += s->dim[i] != QC_FREE;
    if (s->rank < 0 || (!known && s->rank > 1)) return true; /* "[N,?,?]" is not informative */
    for (int i = 0; text && i < s->rank; i++)
        text = s->dim[i] != QC_FREE ? qc_arena_printf(d->net->arena, st, "%s%s%" PRId64, text, i ? "," : "", s->dim[i])
                                    : qc_arena_printf(d->net->arena, st, "%s%s%s", text, i ? "," : "", i ? "?" : "N");
    box->shape = text ? qc_arena_printf(d->net->arena, st, "%s]", text) : NULL;
    return box->shape != NULL;
}

static void leaves(struct drawing *d, qc_id value, size_t box)
{
    size_t layer = layer_of(d, value);
    d->of_value[value] = box;
    if (box != QC_NO_INDEX && layer != QC_NO_INDEX) d->nodes[box].layer = layer;
}

/* Sets the boxes that the values come from, each once. */
static bool inputs_of(struct qc_report_node *box, const struct drawing *d, const qc_id *values, size_t count,
                      struct qc_status *st)
{
    size_t *list = QC_NEW_ARRAY(d->net->arena, size_t, count, st);
    if (!list) return false;
    for (size_t i = 0; i < count; i++) {
        size_t from = values[i] ? d->of_value[values[i]] : QC_NO_INDEX, k = 0;
        while (k < box->input_count && list[k] != from) k++;
        if (from != QC_NO_INDEX && k == box->input_count) list[box->input_count++] = from;
    }
    box->inputs = list;
    return true;
}

static bool join(struct drawing *d, qc_id id, size_t box, struct qc_status *st)
{
    const char *op = qc_op_info(d->g->nodes[id].op)->name;
    d->nodes[box].label = qc_arena_printf(d->net->arena, st, "%s + %s", d->nodes[box].label, op);
    return d->nodes[box].label != NULL;
}

static bool conversion(enum qc_op op)
{
    return op == QC_OP_Quantize || op == QC_OP_Requantize || op == QC_OP_Dequantize;
}

static bool put(struct drawing *d, qc_id id, struct qc_status *st)
{
    const struct qc_node *n = &d->g->nodes[id];
    const struct qc_type *t = &d->g->values[n->outputs].type;
    qc_id head = d->head_of[id];
    size_t box = QC_NO_INDEX;
    if (conversion(n->op))
        box = d->of_value[n->inputs[0]];
    else if (!head && qc_dynamic_part_of(d->g, n) == QC_DYNAMIC_REST)
        box = d->of_value[n->inputs[0]];
    else if (head && head != id) {
        box = d->of_value[d->g->nodes[head].outputs];
        if (!join(d, id, box, st)) return false;
    } else {
        struct qc_report_node b = {.layer = QC_NO_INDEX};
        const bool integer = t->qparams != QC_REAL || qc_dynamic_part_of(d->g, n) == QC_DYNAMIC_PRODUCT;
        b.kind = integer ? QC_NODE_INTEGER : t->dtype == QC_F32 ? QC_NODE_FLOAT : QC_NODE_SHAPE;
        b.label = qc_op_info(n->op)->name;
        b.name = qc_node_name(d->g, n, d->net->arena, st);
        b.reason = b.kind == QC_NODE_FLOAT ? qc_float_reason(d->net, n) : NULL;
        if (!b.name || !inputs_of(&b, d, n->inputs, n->input_count, st)) return false;
        box = d->count++;
        d->nodes[box] = b;
    }
    if (box != QC_NO_INDEX && !shape_of(&d->nodes[box], d, n->outputs, st)) return false;
    for (unsigned k = 0; k < n->output_count; k++) leaves(d, n->outputs + k, box);
    return true;
}

bool qc_fill_nodes(struct qc_report *r, const struct qc_network *net, struct qc_status *st)
{
    struct drawing d = {.net = net, .g = net->produced, .r = r};
    const struct qc_group_info *groups;
    size_t group_count;
    d.nodes =
        QC_NEW_ARRAY(net->arena, struct qc_report_node, d.g->node_count + d.g->input_count + d.g->output_count, st);
    d.of_value = QC_NEW_ARRAY(net->arena, size_t, d.g->value_count + 1, st);
    d.head_of = QC_NEW_ARRAY(net->arena, qc_id, d.g->node_count + 1, st);
    if (!d.nodes || !d.of_value || !d.head_of || !qc_groups_find(&groups, &group_count, d.g, net->arena, st))
        return false;
    for (size_t i = 0; i < group_count; i++)
        for (unsigned k = 0; k < groups[i].count; k++) d.head_of[groups[i].nodes[k]] = groups[i].head;
    for (qc_id v = 0; v <= d.g->value_count; v++) d.of_value[v] = QC_NO_INDEX;
    for (size_t i = 0; i < d.g->input_count; i++) {
        d.nodes[d.count] = (struct qc_report_node){.kind = QC_NODE_INPUT,
                                                   .name = d.g->inputs[i].name,
                                                   .label = "input",
                                                   .layer = QC_NO_INDEX};
        if (!shape_of(&d.nodes[d.count], &d, d.g->inputs[i].value, st)) return false;
        leaves(&d, d.g->inputs[i].value, d.count++);
    }
    for (qc_id id = 1; id <= d.g->node_count; id++)
        if (!put(&d, id, st)) return false;
    for (size_t i = 0; i < d.g->output_count && d.g->outputs[i].judging != QC_ONLY_JUDGED; i++) {
        struct qc_report_node *b = &d.nodes[d.count];
        *b = (struct qc_report_node){.kind = QC_NODE_OUTPUT,
                                     .name = d.g->outputs[i].name,
                                     .label = "output",
                                     .layer = QC_NO_INDEX};
        if (!inputs_of(b, &d, &d.g->outputs[i].value, 1, st) || !shape_of(b, &d, d.g->outputs[i].value, st))
            return false;
        d.count++;
    }
    r->nodes = d.nodes;
    r->node_count = d.count;
    return true;
}
