// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "onnx/write/emitting.h"

static bool is_taken(const struct qc_emitter *e, const char *name)
{
    for (; e; e = e->outer) /* a body must not hide a name of the graphs around it */
        if (qc_texts_find(&e->taken, name)) return true;
    return false;
}

bool qc_emit_take(struct qc_emitter *e, const char *name, struct qc_status *st)
{
    return qc_texts_set(&e->taken, name, 1, e->arena, st);
}

bool qc_emit_take_node(struct qc_emitter *e, const char *name, struct qc_status *st)
{
    return qc_texts_set(&e->taken_nodes, name, 1, e->arena, st);
}

const char *qc_emit_node_name(struct qc_emitter *e, const char *name, struct qc_status *st)
{
    const char *s = name;
    if (!name || !*name) return NULL;
    for (unsigned k = 1; s && qc_texts_find(&e->taken_nodes, s); k++)
        s = qc_arena_printf(e->arena, st, "%s_%u", name, k);
    return s && qc_emit_take_node(e, s, st) ? s : NULL;
}

static const char *take_unique(struct qc_emitter *e, const char *name, struct qc_status *st)
{
    const char *s = name;
    for (unsigned k = 1; s && is_taken(e, s); k++) s = qc_arena_printf(e->arena, st, "%s_%u", name, k);
    return s && qc_emit_take(e, s, st) ? s : NULL;
}

const char *qc_emit_fresh_name(struct qc_emitter *e, const char *base, const char *suffix, struct qc_status *st)
{
    const char *s = qc_arena_printf(e->arena, st, "%s_%s", base, suffix);
    return s ? take_unique(e, s, st) : NULL;
}

/* Returns a new name for a value without a name. */
static const char *derived(struct qc_emitter *e, qc_id v, struct qc_status *st)
{
    const struct qc_value *value = &e->g->values[v];
    if (value->kind != QC_VALUE_RESULT)
        return qc_arena_printf(e->arena, st, value->constant ? "constant_%u" : "input_%u", v);
    const struct qc_node *n = &e->g->nodes[value->node];
    const char *base =
        n->name && *n->name ? n->name : qc_arena_printf(e->arena, st, "%s_%u", qc_op_info(n->op)->name, value->node);
    if (!base || n->output_count == 1) return base ? qc_arena_printf(e->arena, st, "%s_output", base) : NULL;
    return qc_arena_printf(e->arena, st, "%s_output_%u", base, value->output);
}

/* Names all values that are no inputs or outputs. */
static bool assign_others(struct qc_emitter *e, struct qc_status *st)
{
    const struct qc_graph *g = e->g;
    for (size_t v = 1; v <= g->value_count; v++)
        if (e->used[v] && !e->names[v] && g->values[v].name && !(e->names[v] = take_unique(e, g->values[v].name, st)))
            return false;
    for (size_t v = 1; v <= g->value_count; v++) {
        if (!e->used[v] || e->names[v]) continue;
        const char *name = derived(e, (qc_id)v, st);
        if (!name || !(e->names[v] = take_unique(e, name, st))) return false;
    }
    return true;
}

/* Inputs and outputs of a body are identified by position, so their names may differ from the file's. A value that is
   no result, or that is another output already, becomes an output through an Identity. */
static bool assign_body_ports(struct qc_emitter *e, struct qc_status *st)
{
    const struct qc_graph *g = e->g;
    struct qc_port *outputs = qc_arena_dup(e->arena, g->outputs, g->output_count, sizeof *outputs, st);
    struct qc_port *inputs = qc_arena_dup(e->arena, g->inputs, g->input_count, sizeof *inputs, st);
    if (!inputs || !outputs) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        const char *name = e->captured[i] ? e->captured[i] : take_unique(e, g->inputs[i].name, st);
        if (!name) return false;
        e->names[g->inputs[i].value] = inputs[i].name = name;
    }
    for (size_t i = 0; i < g->output_count; i++) {
        const qc_id v = outputs[i].value;
        const struct qc_value *value = &g->values[v];
        const bool own = value->constant && value->name && strcmp(value->name, outputs[i].name) == 0;
        if (!(outputs[i].name = take_unique(e, outputs[i].name, st))) return false;
        if (!e->names[v] && (value->kind == QC_VALUE_RESULT || own)) e->names[v] = outputs[i].name;
    }
    e->inputs = inputs;
    e->outputs = outputs;
    return true;
}

bool qc_emit_assign_names(struct qc_emitter *e, struct qc_status *st)
{
    const struct qc_graph *g = e->g;
    e->names = QC_NEW_ARRAY(e->arena, const char *, g->value_count + 1, st);
    e->inputs = g->inputs;
    e->outputs = g->outputs;
    if (!e->names) return false;
    if (e->outer) return assign_body_ports(e, st) && assign_others(e, st);
    for (size_t i = 0; i < g->input_count; i++) {
        e->names[g->inputs[i].value] = g->inputs[i].name;
        if (!qc_emit_take(e, g->inputs[i].name, st)) return false;
    }
    for (size_t i = 0; i < g->output_count; i++) {
        const struct qc_port *p = &g->outputs[i];
        const struct qc_value *v = &g->values[p->value];
        /* The value gets the name of the output, unless it is an input, a constant of another name, or another output
           already. */
        const bool own = v->name && strcmp(v->name, p->name) == 0;
        const bool inner = g->carried && i >= g->carried->output_count;
        if (!e->names[p->value] && (v->kind == QC_VALUE_RESULT || own || (inner && v->constant)))
            e->names[p->value] = p->name;
        if (!qc_emit_take(e, p->name, st)) return false;
    }
    return qc_emit_carried_begin(e, st) && assign_others(e, st);
}
