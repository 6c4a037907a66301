// SPDX-License-Identifier: Apache-2.0
/* The produced graph as the viewer draws it. Quantize, requantize and dequantize have no boxes; a fused group is one
   box. */
#include "quantize/report/record.h"

#include <inttypes.h>
#include <string.h>

#include "graph/core/custom.h"
#include "graph/core/recurrent.h"
#include "quantize/make/bodies.h"
#include "rewrite/passes/dynamic.h"
#include "rewrite/passes/groups.h"

/* Returns why an op on quantized weights, or on the result of an integer product, computes in float; NULL for others.
 */
/* Returns why an op of the produced graph stays in float. */
static const char *float_reason(const struct qc_network *net, const struct qc_node *n)
{
    const struct qc_graph *g = net->joined;
    const char *name = net->produced->values[n->outputs].name;
    qc_id v = name ? qc_graph_find_value(g, name) : 0;
    const struct qc_node *was = v ? qc_node_of(g, v) : NULL;
    const char *noted = was ? net->partition->reason[g->values[v].node] : NULL;
    if (noted) return noted;
    const bool matched = was && net->partition->matches.at[g->values[v].node];
    if (matched && qc_is_recurrent(n->op)) return "computed in float from quantized weights";
    if (matched && n->op == QC_OP_ConvTranspose && net->scheme.options->graph.runs_on->onnxruntime &&
        qc_attr_int(n, "group", 1) == 1)
        return "ONNX Runtime computes it in float, from quantized weights; in integers with --target fused";
    /* a bias that rounding has added is in no pattern */
    const char *inputs = NULL;
    for (unsigned i = 0; (matched || !was) && !inputs && i < n->input_count; i++) {
        const struct qc_node *d = n->inputs[i] ? qc_node_of(net->produced, n->inputs[i]) : NULL;
        if (!d || d->op != QC_OP_Dequantize) continue;
        if (qc_constant_of(net->produced, d->inputs[0]))
            inputs = "computed in float from quantized weights";
        else if (net->produced->values[d->inputs[0]].type.dtype == QC_I32)
            inputs = "computed in float on the result of an integer product";
    }
    if (inputs) return inputs;
    if (matched)
        return n->op == QC_OP_Min || n->op == QC_OP_Max ? "its bounds differ by channel, between integers"
                                                        : "has no integer form, between integers";
    if (qc_rules_in_table(net->setup->rules, net->produced, n) && net->scheme.options->graph.runs_on->onnxruntime)
        return "ONNX Runtime computes it in float; a table of integers with --target fused";
    if (n->op == QC_OP_MatMul && !qc_constant_of(net->produced, n->inputs[0]) &&
        !qc_constant_of(net->produced, n->inputs[1]) && net->scheme.options->graph.runs_on->onnxruntime)
        return "of two activations, no faster in integers in ONNX Runtime; in integers with --target fused";
    if (n->op == QC_OP_Custom) return "a kernel of your own computes it";
    /* ONNX Runtime 1.31, four convolutions of 64 channels of 64x64 each followed by one: 3.6 ms, with scale and bias as
       convolutions of each channel 4.5 ms. */
    if (n->op == QC_OP_InstanceNormalization && net->scheme.options->graph.runs_on->onnxruntime)
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

bool qc_float_ops(struct qc_json *list, size_t *quantized, const struct qc_network *net, const char *in,
                  struct qc_status *st)
{
    const struct qc_graph *g = net->produced;
    const struct qc_carried *c = g->carried;
    const char *between = in ? "/" : "";
    char label[QC_LABEL], name[2 * QC_LABEL];
    const struct qc_group_info *groups;
    size_t group_count;
    bool *grouped = QC_NEW_ARRAY(net->arena, bool, g->node_count + 1, st);
    /* [value_count + 1]: true for values computed from constants alone (weights dequantized and transposed), which cost
       nothing at run time. */
    bool *constant = QC_NEW_ARRAY(net->arena, bool, g->value_count + 1, st);
    for (qc_id v = 1; constant && v <= g->value_count; v++) constant[v] = qc_constant_of(g, v) != NULL;
    for (qc_id id = 1; constant && id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        bool all = n->input_count > 0;
        for (unsigned i = 0; i < n->input_count; i++) all = all && (!n->inputs[i] || constant[n->inputs[i]]);
        for (unsigned k = 0; k < n->output_count; k++) constant[n->outputs + k] = all;
    }
    if (!constant || !grouped || !qc_groups_find(&groups, &group_count, g, net->arena, st)) return false;
    for (size_t i = 0; i < group_count; i++)
        for (unsigned k = 0; k < groups[i].count; k++) grouped[groups[i].nodes[k]] = true;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        const struct qc_type *t = &g->values[n->outputs].type;
        if (qc_op_is_conversion(n->op)) continue;
        const enum qc_dynamic_part part = qc_dynamic_part_of(g, n);
        if (part == QC_DYNAMIC_REST) continue;
        /* grouped: rounded only after a function */
        if (t->qparams != QC_REAL || grouped[id] || part == QC_DYNAMIC_PRODUCT) {
            ++*quantized;
            continue;
        }
        if (t->dtype != QC_F32 || constant[n->outputs]) continue; /* shape arithmetic, or weights */
        qc_text(name, sizeof name, "%s%s%s", in ? in : "", between, qc_node_label(label, g, n));
        qc_json_add(list,
                    QC_JSON("name %s op %s reason %s", name, qc_custom_name(n, net->arena, st), float_reason(net, n)));
    }
    for (size_t i = 0; c && i < c->node_count; i++) {
        const struct qc_carried_node *n = &c->nodes[i];
        const char *op = *n->domain ? qc_arena_printf(net->arena, st, "%s::%s", n->domain, n->op) : n->op;
        qc_text(name, sizeof name, "%s%s%s", in ? in : "", between, n->name);
        qc_json_add(list, QC_JSON("name %s op %s reason %s", name, op, qc_carried_reason(n, net->arena, st)));
    }
    for (size_t i = 0; net->bodies && i < net->bodies->count; i++) {
        const struct qc_body *b = &net->bodies->of[i];
        const char *own = in ? qc_arena_printf(net->arena, st, "%s/%s", in, b->name) : b->name;
        if (b->network && (!own || !qc_float_ops(list, quantized, b->network, own, st))) return false;
    }
    return st->code == QC_OK;
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

/* ---- Groups ---- */

bool qc_record_groups(struct qc_report *r, const struct qc_network *net, struct qc_status *st)
{
    const struct qc_graph *g = net->produced;
    const struct qc_group_info *groups;
    char label[QC_LABEL];
    size_t count;
    if (!qc_groups_find(&groups, &count, g, net->arena, st)) return false;
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < count; i++) {
        const struct qc_group_info *from = &groups[i];
        const qc_id qparams = g->values[from->result].type.qparams, at = from->how == QC_GROUP_WHOLE ? 0
                                                                         : from->how == QC_GROUP_FLOAT
                                                                             ? from->head
                                                                             : from->breaks_at;
        struct qc_json *o = QC_JSON("name %s op %s", qc_node_label(label, g, &g->nodes[from->head]),
                                    qc_op_info(g->nodes[from->head].op)->name),
                       *ops = qc_json_array();
        for (unsigned k = 0; k < from->count; k++)
            qc_json_add(ops, qc_json_string(qc_op_info(g->nodes[from->nodes[k]].op)->name));
        qc_json_set(o, "ops", ops);
        qc_json_put(o, "type %s one_piece %hhd", qc_dtype_info(qparams ? g->qparams_of[qparams].dtype : QC_F32)->name,
                    (bool)(from->how == QC_GROUP_WHOLE));
        qc_json_set(o, "breaks_at",
                    from->how == QC_GROUP_WHOLE
                        ? qc_json_null()
                        : QC_JSON("name %s op %s reason %s", at ? qc_node_label(label, g, &g->nodes[at]) : NULL,
                                  at ? qc_op_info(g->nodes[at].op)->name : NULL,
                                  from->how == QC_GROUP_FLOAT || from->how == QC_GROUP_FLOAT_OP
                                      ? float_reason(net, &g->nodes[at])
                                      : qc_group_break_text(from->how)));
        qc_json_add(list, o);
    }
    qc_json_set(r->record, "groups", list);
    return true;
}

/* ---- The drawing ---- */

struct drawing {
    const struct qc_graph *g; /* produced */
    const struct qc_report *r;
    struct qc_json **boxes; /* [count] */
    size_t count;
    size_t *of_value; /* [value_count + 1]: the box that a value comes from, or QC_NO_INDEX */
    qc_id *head_of;   /* [node_count + 1]: the first node of the group, or 0 */
};

/* Adds a box that reads from those of `count` values, each once. */
static size_t add_box(struct drawing *d, struct qc_json *o, const char *reason, const qc_id *values, size_t count)
{
    struct qc_json *inputs = qc_json_array();
    qc_json_set(o, "shape", qc_json_null());
    if (reason) qc_json_set(o, "reason", qc_json_string(reason));
    for (size_t i = 0; i < count; i++) {
        const size_t from = values[i] ? d->of_value[values[i]] : QC_NO_INDEX;
        size_t k = 0;
        while (k < qc_json_size(inputs) && (size_t)qc_json_value(qc_json_at(inputs, k)) != from) k++;
        if (from != QC_NO_INDEX && k == qc_json_size(inputs)) qc_json_add(inputs, qc_json_whole(from));
    }
    qc_json_set(o, "inputs", inputs);
    qc_json_set(o, "layer", qc_json_null());
    d->boxes[d->count] = o;
    return d->count++;
}

/* Notes that a value comes from a box: its shape and its layer are those of the box. */
static void leaves(struct drawing *d, qc_id value, size_t box)
{
    const struct qc_type *t = &d->g->values[value].type;
    const struct qc_shape *s = &t->shape;
    char text[32 * QC_RANK_MAX] = "[";
    int known = 0;
    d->of_value[value] = box;
    if (box == QC_NO_INDEX) return;
    for (int i = 0; i < s->rank; i++) {
        const size_t at = strlen(text);
        known += s->dim[i] != QC_FREE;
        if (s->dim[i] != QC_FREE)
            qc_text(text + at, (unsigned)(sizeof text - at), "%s%" PRId64, i ? "," : "", s->dim[i]);
        else
            qc_text(text + at, (unsigned)(sizeof text - at), "%s%s", i ? "," : "", i ? "?" : "N");
    }
    if (s->rank == 0 || s->rank == 1 || known) { /* "[N,?,?]" is not informative */
        strcat(text, "]");
        qc_json_set(d->boxes[box], "shape", qc_json_string(text));
    }
    const size_t layer = t->qparams && d->g->qparams_of[t->qparams].kind == QC_QPARAMS_QUANTIZER
                             ? qc_layer_of(d->r, d->g, t->qparams)
                             : QC_NO_INDEX;
    if (layer != QC_NO_INDEX) qc_json_set(d->boxes[box], "layer", qc_json_whole(layer));
}

/* Draws a node: a box of its own, or a part of the one before it. */
static void put(struct drawing *d, const struct qc_network *net, qc_id id)
{
    const struct qc_graph *g = d->g;
    const struct qc_node *n = &g->nodes[id];
    const struct qc_type *t = &g->values[n->outputs].type;
    const qc_id head = d->head_of[id];
    const char *op = qc_op_info(n->op)->name;
    const enum qc_dynamic_part part = qc_dynamic_part_of(g, n);
    size_t box;
    if (qc_op_is_conversion(n->op) || (!head && part == QC_DYNAMIC_REST)) {
        box = d->of_value[n->inputs[0]];
    } else if (head && head != id) {
        box = d->of_value[g->nodes[head].outputs];
        const char *before = qc_json_find_text(d->boxes[box], "op");
        char label[200];
        qc_json_set(d->boxes[box], "op",
                    qc_json_string(qc_text(label, sizeof label, "%s + %s", before ? before : "", op)));
    } else {
        const bool integer = t->qparams != QC_REAL || part == QC_DYNAMIC_PRODUCT, real = !integer && t->dtype == QC_F32;
        box = add_box(d,
                      QC_JSON("kind %s name %s op %s",
                              integer ? "integer"
                              : real  ? "float"
                                      : "shape",
                              QC_NODE_LABEL(g, n), op),
                      real ? float_reason(net, n) : NULL, n->inputs, n->input_count);
    }
    for (unsigned k = n->output_count; k-- > 0;)
        leaves(d, n->outputs + k, box); /* last the first, whose shape it has */
}

bool qc_record_graph(struct qc_report *r, const struct qc_network *net, struct qc_status *st)
{
    const struct qc_graph *g = net->produced;
    struct drawing d = {.g = g, .r = r};
    const struct qc_group_info *groups;
    size_t group_count;
    d.boxes = QC_NEW_ARRAY(net->arena, struct qc_json *, g->node_count + g->input_count + g->output_count, st);
    d.of_value = QC_NEW_ARRAY(net->arena, size_t, g->value_count + 1, st);
    d.head_of = QC_NEW_ARRAY(net->arena, qc_id, g->node_count + 1, st);
    if (!d.boxes || !d.of_value || !d.head_of || !qc_groups_find(&groups, &group_count, g, net->arena, st))
        return false;
    for (size_t i = 0; i < group_count; i++)
        for (unsigned k = 0; k < groups[i].count; k++) d.head_of[groups[i].nodes[k]] = groups[i].head;
    for (qc_id v = 0; v <= g->value_count; v++) d.of_value[v] = QC_NO_INDEX;
    for (size_t i = 0; i < g->input_count; i++)
        leaves(&d, g->inputs[i].value,
               add_box(&d, QC_JSON("kind %s name %s op %s", "input", g->inputs[i].name, "input"), NULL, NULL, 0));
    for (qc_id id = 1; id <= g->node_count; id++) put(&d, net, id);
    for (size_t i = 0; i < g->output_count && g->outputs[i].judging != QC_ONLY_JUDGED; i++) {
        const qc_id value = g->outputs[i].value;
        const size_t from = d.of_value[value],
                     box = add_box(&d, QC_JSON("kind %s name %s op %s", "output", g->outputs[i].name, "output"), NULL,
                                   &value, 1);
        leaves(&d, value, box);
        qc_json_set(d.boxes[box], "layer", qc_json_null());
        d.of_value[value] = from;
    }
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < d.count; i++) qc_json_add(list, d.boxes[i]);
    qc_json_set(r->record, "graph", list);
    return true;
}
