// SPDX-License-Identifier: Apache-2.0
#include "graph/core/rebuild.h"

#include <stdlib.h>

#include "base/array.h"
#include "base/scope.h"
#include "graph/core/custom.h"
#include "graph/core/source_call.h"
#include "graph/core/tables.h"

bool qc_port_copy(struct qc_port *to, const struct qc_port *from, struct qc_arena *a, struct qc_status *st)
{
    to->judging = from->judging;
    to->scale = from->scale;
    to->zero_point = from->zero_point;
    to->channels_last = from->channels_last;
    if (from->pixels) to->pixels = qc_arena_strdup(a, from->pixels, st);
    for (int i = 0; i < QC_RANK_MAX; i++)
        if (from->symbol[i]) to->symbol[i] = qc_arena_strdup(a, from->symbol[i], st);
    if (from->declared) to->declared = qc_arena_dup(a, from->declared, 1, sizeof *from->declared, st);
    return st->code == QC_OK;
}

qc_id qc_graph_add_input_like(struct qc_graph *g, const struct qc_port *like, enum qc_dtype dtype,
                              const struct qc_shape *shape, struct qc_status *st)
{
    const qc_id v = qc_graph_add_input(g, like->name, dtype, shape, st);
    return v && qc_port_copy(&g->inputs[g->input_count - 1], like, g->arena, st) ? v : 0;
}

bool qc_graph_new_like(struct qc_graph **out, const struct qc_graph *from, struct qc_status *st)
{
    struct qc_graph *to = qc_graph_new(st);
    if (!to) return false;
    to->opset = from->opset;
    to->external_data = from->external_data;
    to->spills = from->spills;
    to->budget = from->budget;
    to->carried = qc_carried_ref(from->carried);
    to->custom = qc_custom_ops_ref(from->custom);
    if (!(to->name = qc_arena_strdup(to->arena, from->name, st))) {
        qc_graph_free(to);
        return false;
    }
    *out = to;
    return true;
}

static bool begin_with(struct qc_rebuild *r, const struct qc_graph *from, qc_id *map, struct qc_status *st)
{
    *r = (struct qc_rebuild){.from = from, .map = map};
    if (!map) return qc_fail_memory(st, (from->value_count + 1) * sizeof *map);
    if (!qc_graph_new_like(&r->to, from, st)) return false;
    r->to->simulated = from->simulated;
    r->to->integer_operators = from->integer_operators;
    return true;
}

bool qc_rebuild_begin_bare(struct qc_rebuild *r, const struct qc_graph *from, struct qc_status *st)
{
    return begin_with(r, from, calloc(from->value_count + 1, sizeof *r->map), st) &&
           qc_graph_copy_qparams(r->to, from, st);
}

static bool add_inputs(struct qc_rebuild *r, struct qc_status *st)
{
    for (size_t i = 0; i < r->from->input_count; i++) {
        const struct qc_port *p = &r->from->inputs[i];
        const struct qc_type *t = &r->from->values[p->value].type;
        r->map[p->value] = qc_graph_add_input_like(r->to, p, t->dtype, &t->shape, st);
    }
    return st->code == QC_OK;
}

bool qc_rebuild_begin(struct qc_rebuild *r, const struct qc_graph *from, struct qc_status *st)
{
    return qc_rebuild_begin_bare(r, from, st) && add_inputs(r, st);
}

bool qc_rebuild_room_new(struct qc_rebuild_room *out, const struct qc_graph *from, struct qc_arena *a,
                         struct qc_status *st)
{
    *out = (struct qc_rebuild_room){.from = from,
                                    .map = QC_NEW_ARRAY(a, qc_id, from->value_count + 1, st),
                                    .qparams = QC_NEW_ARRAY(a, struct qc_qparams, from->qparams_count + 1, st)};
    return out->map && out->qparams;
}

static void update_qparams(const struct qc_rebuild_room *room, qc_id id)
{
    const struct qc_qparams *from = &room->from->qparams_of[id];
    if (!id) return;
    room->qparams[id] = *from;
    room->qparams[id].observed = NULL;
    room->qparams[id].observed_count = 0;
    if (from->kind != QC_QPARAMS_PRODUCT) return;
    update_qparams(room, from->a);
    update_qparams(room, from->b);
}

bool qc_rebuild_begin_part(struct qc_rebuild *r, struct qc_rebuild_room *room, size_t count, const qc_id *nodes,
                           struct qc_status *st)
{
    const struct qc_graph *from = room->from;
    if (!begin_with(r, from, room->map, st)) return false;
    qc_graph_borrow_qparams(r->to, from, room->qparams);
    for (size_t i = 0; i < count; i++) {
        const struct qc_node *n = &from->nodes[nodes[i]];
        for (unsigned k = 0; k < n->input_count; k++) update_qparams(room, from->values[n->inputs[k]].type.qparams);
        for (unsigned k = 0; k < n->output_count; k++) update_qparams(room, from->values[n->outputs + k].type.qparams);
    }
    return add_inputs(r, st);
}

qc_id qc_rebuild_add_input(struct qc_rebuild *r, struct qc_rebuild_room *room, qc_id v, const char *name,
                           const struct qc_shape *shape, struct qc_status *st)
{
    const struct qc_type *t = &r->from->values[v].type;
    const qc_id input = qc_graph_add_input(r->to, name, QC_F32, shape, st);
    update_qparams(room, t->qparams);
    return r->map[v] = t->qparams ? qc_graph_quantize(r->to, input, t->qparams, t->axis, st) : input;
}

void qc_rebuild_end_part(struct qc_rebuild *r, struct qc_rebuild_room *room, size_t count, const qc_id *nodes)
{
    const struct qc_graph *from = room->from;
    for (size_t i = 0; i < from->input_count; i++) room->map[from->inputs[i].value] = 0;
    for (size_t i = 0; i < count; i++) {
        const struct qc_node *n = &from->nodes[nodes[i]];
        for (unsigned k = 0; k < n->input_count; k++) room->map[n->inputs[k]] = 0;
        for (unsigned k = 0; k < n->output_count; k++) room->map[n->outputs + k] = 0;
    }
    qc_graph_free(r->to);
    *r = (struct qc_rebuild){0};
}

enum { FEW = 16 }; /* most nodes have at most this many inputs and outputs */

qc_id qc_graph_add_like(struct qc_graph *to, const struct qc_graph *from, const struct qc_node *n,
                        const struct qc_node_def *with, struct qc_status *st)
{
    const char *few[FEW], **names = NULL;
    struct qc_node_def def = *with;
    if (!def.output_names) {
        names = n->output_count <= FEW ? few : malloc(n->output_count * sizeof *names);
        if (!names) return qc_fail_memory(st, n->output_count * sizeof *names);
        for (unsigned k = 0; k < n->output_count; k++) names[k] = from->values[n->outputs + k].name;
        def.output_names = names;
    }
    if (def.op == QC_OP_INVALID) def.op = n->op;
    if (!def.input_count) def.input_count = n->input_count;
    def.name = n->name;
    def.output_count = n->output_count;
    def.attr_count = n->attr_count;
    if (!def.attrs) def.attrs = n->attrs;
    const qc_id first = qc_graph_add(to, &def, st);
    if (names != few) free(names);
    return first;
}

qc_id qc_rebuild_map(struct qc_rebuild *r, const struct qc_node *n, qc_id first)
{
    for (unsigned k = 0; first && k < n->output_count; k++) r->map[n->outputs + k] = first + k;
    return first;
}

qc_id *qc_rebuild_inputs(struct qc_rebuild *r, const struct qc_node *n, struct qc_status *st)
{
    qc_id *inputs = QC_NEW_ARRAY(r->to->arena, qc_id, n->input_count, st);
    for (unsigned i = 0; inputs && i < n->input_count; i++) inputs[i] = qc_rebuild_value(r, n->inputs[i], st);
    return inputs;
}

qc_id qc_rebuild_node(struct qc_rebuild *r, qc_id old_node, struct qc_status *st)
{
    return qc_rebuild_node_with(r, old_node, r->from->nodes[old_node].attrs, st);
}

qc_id qc_rebuild_node_with(struct qc_rebuild *r, qc_id old_node, const struct qc_attr *attrs, struct qc_status *st)
{
    const struct qc_graph *from = r->from;
    const struct qc_node *n = &from->nodes[old_node];
    qc_id few[FEW];
    qc_id *inputs = n->input_count <= FEW ? few : malloc(n->input_count * sizeof *inputs);
    if (!inputs) return qc_fail_memory(st, n->input_count * sizeof *inputs);
    for (unsigned i = 0; i < n->input_count; i++) inputs[i] = qc_rebuild_value(r, n->inputs[i], st);
    const uint64_t identity = from->tables->node_qparams[old_node];
    const struct qc_node_def with = {.inputs = inputs,
                                     .attrs = attrs,
                                     .qparams = (qc_id)(identity >> 8),
                                     .axis = (int)(signed char)(identity & 0xff)};
    const qc_id first = qc_graph_add_like(r->to, from, n, &with, st);
    for (unsigned i = 0; first && i < n->output_count; i++)
        if (!r->map[n->outputs + i]) r->map[n->outputs + i] = first + i;
    if (inputs != few) free(inputs);
    return first;
}

/* Depth first with an explicit stack: a node is copied once all its inputs are mapped. */
static void copy_needed(struct qc_rebuild *r, qc_id old, struct qc_status *st)
{
    const struct qc_graph *from = r->from;
    size_t depth = 0, capacity = 0;
    qc_id *stack = NULL, *more = qc_grown(stack, depth, &capacity, sizeof *stack, st);
    if (more) (stack = more)[depth++] = from->values[old].node;
    while (depth && st->code == QC_OK) {
        const qc_id id = stack[depth - 1];
        const struct qc_node *n = &from->nodes[id];
        const size_t before = depth;
        for (unsigned i = 0; !r->map[n->outputs] && i < n->input_count; i++) {
            const qc_id v = n->inputs[i];
            if (!v || r->map[v] || from->values[v].kind != QC_VALUE_RESULT) continue;
            if (!(more = qc_grown(stack, depth, &capacity, sizeof *stack, st))) break;
            (stack = more)[depth++] = from->values[v].node;
        }
        if (depth > before) continue;
        depth--;
        if (!r->map[n->outputs]) qc_rebuild_node(r, id, st);
    }
    free(stack);
}

qc_id qc_rebuild_value(struct qc_rebuild *r, qc_id old, struct qc_status *st)
{
    if (!old || r->map[old] || st->code != QC_OK) return r->map[old];
    const struct qc_value *v = qc_value(r->from, old);
    switch (v->kind) {
    case QC_VALUE_CONSTANT:
        r->map[old] = v->apart                     ? qc_graph_add_constant_apart(r->to, v->name, v->constant, st)
                      : v->type.qparams == QC_REAL ? qc_graph_add_constant(r->to, v->name, v->constant, st)
                                                   : qc_graph_add_affine_constant(r->to, v->name, v->constant,
                                                                                  v->type.qparams, v->type.axis, st);
        break;
    case QC_VALUE_RESULT: copy_needed(r, old, st); break;
    case QC_VALUE_INPUT: qc_fail(st, QC_BAD_INPUT, "graph input '%s' is not an input of its graph", v->name); break;
    }
    return r->map[old];
}

/* Returns the new values of a call. Sets *there to false if one is gone. copies: constants and integers that are not
   mapped yet are copied. Returns NULL if out of memory. */
static qc_id *map_values(bool *there, struct qc_rebuild *r, const qc_id *stored, const qc_id *from, unsigned count,
                         bool copies, struct qc_status *st)
{
    qc_id *to = QC_NEW_ARRAY(r->to->arena, qc_id, count, st);
    for (unsigned i = 0; to && *there && i < count; i++) {
        const struct qc_value *v = &r->from->values[from[i]];
        /* The new value, also that from which an old one is dequantized, or its quantized form; 0: it is gone. */
        const struct qc_node *n = qc_node_of(r->from, from[i]);
        to[i] = !from[i] || r->map[from[i]]      ? r->map[from[i]]
                : n && n->op == QC_OP_Dequantize ? r->map[n->inputs[0]]
                                                 : stored[from[i]];
        if (!from[i] || to[i]) continue;
        if (!copies || v->type.qparams != QC_REAL || (!v->constant && qc_dtype_info(v->type.dtype)->is_float))
            *there = false;
        else
            to[i] = qc_rebuild_value(r, from[i], st);
    }
    return to;
}

/* Gives the new graph the calls of the old one. Inputs that the nodes of a function do not need are copied: integers
   such as the lengths of sequences, with the nodes that compute them, and constants. A call without one of its other
   values is gone. */
static void map_calls(struct qc_rebuild *r, struct qc_status *st)
{
    if (!r->from->call_count) return;
    QC_FREED qc_id *stored = calloc(r->from->value_count + 1, sizeof *stored); /* forms in which old values are
                                                                                  quantized */
    if (!stored) qc_fail_memory(st, (r->from->value_count + 1) * sizeof *stored);
    QC_EACH_NODE(n, r->from)
        if (stored && n->op == QC_OP_Quantize && !stored[n->inputs[0]]) stored[n->inputs[0]] = r->map[n->outputs];
    for (size_t i = 0; st->code == QC_OK && i < r->from->call_count; i++) {
        struct qc_source_call call = r->from->calls[i];
        bool there = call.op != NULL;
        call.outputs = map_values(&there, r, stored, call.outputs, call.output_count, false, st);
        call.inputs = map_values(&there, r, stored, call.inputs, call.input_count, true, st);
        if (!there) call.op = NULL;
        if (st->code == QC_OK) qc_graph_copy_source_call(r->to, call, st);
    }
}

bool qc_rebuild_finish(struct qc_graph **out, struct qc_rebuild *r, struct qc_status *st)
{
    return qc_rebuild_finish_with(out, r, NULL, st);
}

bool qc_rebuild_finish_with(struct qc_graph **out, struct qc_rebuild *r, const qc_id *outputs, struct qc_status *st)
{
    for (size_t i = 0; st->code == QC_OK && i < r->from->output_count; i++) {
        const struct qc_port *p = &r->from->outputs[i];
        const qc_id v = outputs ? outputs[i] : qc_rebuild_value(r, p->value, st);
        if (outputs && !v) continue;
        if (qc_graph_add_output(r->to, p->name, v, st))
            qc_port_copy(&r->to->outputs[r->to->output_count - 1], p, r->to->arena, st);
    }
    if (st->code != QC_OK) return false;
    for (size_t i = 1; !r->to->tables->borrows_qparams && i <= r->from->qparams_count; i++) {
        const struct qc_qparams *s = &r->from->qparams_of[i];
        if (!s->observed_count) continue;
        qc_id *values = QC_NEW_ARRAY(r->to->arena, qc_id, s->observed_count, st);
        size_t count = 0;
        for (size_t k = 0; values && k < s->observed_count; k++)
            if (r->map[s->observed[k]]) values[count++] = r->map[s->observed[k]];
        r->to->qparams_of[i].observed = values;
        r->to->qparams_of[i].observed_count = count;
    }
    if (st->code == QC_OK) map_calls(r, st);
    if (st->code != QC_OK) return false;
    *out = r->to;
    r->to = NULL;
    return true;
}

bool qc_graph_copy(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    return qc_rebuild_begin(&r, g, st) && qc_rebuild_finish(out, &r, st);
}

qc_id qc_graph_quantize(struct qc_graph *g, qc_id v, qc_id qparams, int axis, struct qc_status *st)
{
    return v ? qc_graph_add(g, QC_NODE(QC_OP_Quantize, QC_INPUTS(v), .qparams = qparams, .axis = axis), st) : 0;
}

qc_id qc_graph_dequantize(struct qc_graph *g, qc_id v, struct qc_status *st)
{
    return v ? qc_graph_add(g, QC_NODE(QC_OP_Dequantize, QC_INPUTS(v)), st) : 0;
}

void qc_rebuild_free(struct qc_rebuild *r)
{
    if (!r) return;
    free(r->map);
    qc_graph_free(r->to);
    *r = (struct qc_rebuild){0};
}
