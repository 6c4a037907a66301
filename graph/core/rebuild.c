// SPDX-License-Identifier: Apache-2.0
#include "graph/core/rebuild.h"

#include <stdlib.h>

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
    if (from->pixels && !(to->pixels = qc_arena_strdup(a, from->pixels, st))) return false;
    for (int i = 0; i < QC_RANK_MAX; i++)
        if (from->symbol[i] && !(to->symbol[i] = qc_arena_strdup(a, from->symbol[i], st))) return false;
    return !from->declared || (to->declared = qc_arena_dup(a, from->declared, 1, sizeof *from->declared, st)) != NULL;
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

bool qc_rebuild_begin_bare(struct qc_rebuild *r, const struct qc_graph *from, struct qc_status *st)
{
    *r = (struct qc_rebuild){.from = from, .map = calloc(from->value_count + 1, sizeof(qc_id))};
    if (!r->map) return qc_fail_memory(st, (from->value_count + 1) * sizeof(qc_id));
    if (!qc_graph_new_like(&r->to, from, st)) return false;
    r->to->simulated = from->simulated;
    r->to->integer_operators = from->integer_operators;
    return qc_graph_copy_qparams(r->to, from, st);
}

static bool add_inputs(struct qc_rebuild *r, struct qc_status *st)
{
    const struct qc_graph *from = r->from;
    struct qc_graph *to = r->to;
    for (size_t i = 0; i < from->input_count; i++) {
        const struct qc_port *p = &from->inputs[i];
        const struct qc_value *v = qc_value(from, p->value);
        if (!(r->map[p->value] = qc_graph_add_input(to, p->name, v->type.dtype, &v->type.shape, st)) ||
            !qc_port_copy(&to->inputs[i], p, to->arena, st))
            return false;
    }
    return true;
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
    *r = (struct qc_rebuild){.from = from, .map = room->map};
    if (!qc_graph_new_like(&r->to, from, st)) return false;
    struct qc_graph *to = r->to;
    to->simulated = from->simulated;
    to->integer_operators = from->integer_operators;
    qc_graph_borrow_qparams(to, from, room->qparams);
    for (size_t i = 0; i < count; i++) {
        const struct qc_node *n = &from->nodes[nodes[i]];
        for (unsigned k = 0; k < n->input_count; k++)
            if (n->inputs[k]) update_qparams(room, from->values[n->inputs[k]].type.qparams);
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
    qc_id first = 0;
    if (!inputs) return qc_fail_memory(st, n->input_count * sizeof *inputs);
    for (unsigned i = 0; i < n->input_count; i++) {
        inputs[i] = QC_ABSENT;
        if (n->inputs[i] && !(inputs[i] = qc_rebuild_value(r, n->inputs[i], st))) goto out;
    }
    const uint64_t identity = from->tables->node_qparams[old_node];
    const struct qc_node_def with = {.inputs = inputs,
                                     .attrs = attrs,
                                     .qparams = (qc_id)(identity >> 8),
                                     .axis = (int)(signed char)(identity & 0xff)};
    first = qc_graph_add_like(r->to, from, n, &with, st);
    for (unsigned i = 0; first && i < n->output_count; i++)
        if (!r->map[n->outputs + i]) r->map[n->outputs + i] = first + i;
out:
    if (inputs != few) free(inputs);
    return first;
}

/* Depth first with an explicit stack: a node is copied once all its inputs are mapped. */
static bool copy_needed(struct qc_rebuild *r, qc_id old, struct qc_status *st)
{
    const struct qc_graph *from = r->from;
    size_t depth = 0, capacity = 256;
    qc_id *stack = malloc(capacity * sizeof *stack);
    bool ok = false;
    if (!stack) return qc_fail_memory(st, capacity * sizeof *stack);
    stack[depth++] = from->values[old].node;
    while (depth) {
        const qc_id id = stack[depth - 1];
        const struct qc_node *n = &from->nodes[id];
        bool ready = true;
        if (r->map[n->outputs]) {
            depth--;
            continue;
        }
        for (unsigned i = 0; i < n->input_count; i++) {
            qc_id v = n->inputs[i];
            if (!v || r->map[v] || from->values[v].kind != QC_VALUE_RESULT) continue;
            if (depth == capacity) {
                qc_id *more = realloc(stack, capacity * 2 * sizeof *stack);
                if (!more) {
                    qc_fail_memory(st, capacity * 2 * sizeof *stack);
                    goto out;
                }
                stack = more;
                capacity *= 2;
            }
            stack[depth++] = from->values[v].node;
            ready = false;
        }
        if (!ready) continue;
        depth--;
        if (!qc_rebuild_node(r, id, st)) goto out;
    }
    ok = true;
out:
    free(stack);
    return ok;
}

qc_id qc_rebuild_value(struct qc_rebuild *r, qc_id old, struct qc_status *st)
{
    if (r->map[old] || st->code != QC_OK) return r->map[old];
    const struct qc_value *v = qc_value(r->from, old);
    switch (v->kind) {
    case QC_VALUE_CONSTANT:
        r->map[old] = v->apart                     ? qc_graph_add_constant_apart(r->to, v->name, v->constant, st)
                      : v->type.qparams == QC_REAL ? qc_graph_add_constant(r->to, v->name, v->constant, st)
                                                   : qc_graph_add_affine_constant(r->to, v->name, v->constant,
                                                                                  v->type.qparams, v->type.axis, st);
        break;
    case QC_VALUE_RESULT:
        if (!copy_needed(r, old, st)) return 0;
        break;
    case QC_VALUE_INPUT: qc_fail(st, QC_BAD_INPUT, "graph input '%s' is not an input of its graph", v->name); break;
    }
    return r->map[old];
}

static bool map_observed(struct qc_rebuild *r, struct qc_status *st)
{
    if (r->to->tables->borrows_qparams) return true;
    for (size_t i = 1; i <= r->from->qparams_count; i++) {
        const struct qc_qparams *s = &r->from->qparams_of[i];
        if (!s->observed_count) continue;
        qc_id *values = QC_NEW_ARRAY(r->to->arena, qc_id, s->observed_count, st);
        size_t count = 0;
        if (!values) return false;
        for (size_t k = 0; k < s->observed_count; k++)
            if (r->map[s->observed[k]]) values[count++] = r->map[s->observed[k]];
        r->to->qparams_of[i].observed = values;
        r->to->qparams_of[i].observed_count = count;
    }
    return true;
}

/* Returns the new value, also that from which an old one is dequantized, or its quantized form; 0: it is gone. */
static qc_id mapped(const struct qc_rebuild *r, const qc_id *stored, qc_id v)
{
    const struct qc_node *n = qc_node_of(r->from, v);
    if (!v || r->map[v]) return r->map[v];
    return n && n->op == QC_OP_Dequantize ? r->map[n->inputs[0]] : stored[v];
}

/* Maps values of a call. Sets *there to false if one is gone. copies: constants and integers that are not mapped yet
   are copied. */
static bool map_values(qc_id *to, bool *there, struct qc_rebuild *r, const qc_id *stored, const qc_id *from,
                       unsigned count, bool copies, struct qc_status *st)
{
    for (unsigned i = 0; i < count; i++) {
        const struct qc_value *v = &r->from->values[from[i]];
        to[i] = mapped(r, stored, from[i]);
        if (!from[i] || to[i]) continue;
        if (!copies || v->type.qparams != QC_REAL || (!v->constant && qc_dtype_info(v->type.dtype)->is_float))
            *there = false;
        else if (!(to[i] = qc_rebuild_value(r, from[i], st)))
            return false;
    }
    return true;
}

/* Gives the new graph the calls of the old one. Inputs that the nodes of a function do not need are copied: integers
   such as the lengths of sequences, with the nodes that compute them, and constants. A call without one of its other
   values is gone. */
static bool map_calls(struct qc_rebuild *r, struct qc_status *st)
{
    if (!r->from->call_count) return true;
    QC_FREED qc_id *stored = calloc(r->from->value_count + 1, sizeof *stored); /* forms in which old values are
                                                                                  quantized */
    if (!stored) return qc_fail_memory(st, (r->from->value_count + 1) * sizeof *stored);
    for (qc_id id = 1; id <= r->from->node_count; id++) {
        const struct qc_node *n = &r->from->nodes[id];
        if (n->op == QC_OP_Quantize && !stored[n->inputs[0]]) stored[n->inputs[0]] = r->map[n->outputs];
    }
    for (size_t i = 0; i < r->from->call_count; i++) {
        struct qc_source_call call = r->from->calls[i];
        qc_id *inputs = QC_NEW_ARRAY(r->to->arena, qc_id, call.input_count, st),
              *outputs = QC_NEW_ARRAY(r->to->arena, qc_id, call.output_count, st);
        bool there = call.op != NULL;
        if (!inputs || !outputs) return false;
        if (there && !map_values(outputs, &there, r, stored, call.outputs, call.output_count, false, st)) return false;
        if (there && !map_values(inputs, &there, r, stored, call.inputs, call.input_count, true, st)) return false;
        call.inputs = inputs;
        call.outputs = outputs;
        if (!there) call.op = NULL;
        if (!qc_graph_copy_source_call(r->to, call, st)) return false;
    }
    return true;
}

bool qc_rebuild_finish(struct qc_graph **out, struct qc_rebuild *r, struct qc_status *st)
{
    return qc_rebuild_finish_with(out, r, NULL, st);
}

bool qc_rebuild_finish_with(struct qc_graph **out, struct qc_rebuild *r, const qc_id *outputs, struct qc_status *st)
{
    for (size_t i = 0; i < r->from->output_count; i++) {
        const struct qc_port *p = &r->from->outputs[i];
        qc_id v = outputs ? outputs[i] : qc_rebuild_value(r, p->value, st);
        if (!v || !qc_graph_add_output(r->to, p->name, v, st) || !qc_port_copy(&r->to->outputs[i], p, r->to->arena, st))
            return false;
    }
    if (!map_observed(r, st) || !map_calls(r, st) || st->code != QC_OK) return false;
    *out = r->to;
    r->to = NULL;
    return true;
}

bool qc_graph_copy(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st)
{
    struct qc_rebuild r = {0};
    const bool ok = qc_rebuild_begin(&r, g, st) && qc_rebuild_finish(out, &r, st);
    qc_rebuild_free(&r);
    return ok;
}

qc_id qc_graph_quantize(struct qc_graph *g, qc_id v, qc_id qparams, int axis, struct qc_status *st)
{
    const struct qc_node_def def = {
        .op = QC_OP_Quantize, .input_count = 1, .inputs = &v, .qparams = qparams, .axis = axis};
    return v ? qc_graph_add(g, &def, st) : 0;
}

qc_id qc_graph_dequantize(struct qc_graph *g, qc_id v, struct qc_status *st)
{
    const struct qc_node_def def = {.op = QC_OP_Dequantize, .input_count = 1, .inputs = &v};
    return v ? qc_graph_add(g, &def, st) : 0;
}

void qc_rebuild_free(struct qc_rebuild *r)
{
    if (!r) return;
    free(r->map);
    qc_graph_free(r->to);
    *r = (struct qc_rebuild){0};
}
