// SPDX-License-Identifier: Apache-2.0
/* Writes carried operators (graph/core/carried.h) after the nodes of the graph, under their own names. */
#include <string.h>

#include "onnx/write/emitting.h"

static bool is_taken(const struct qc_emitter *e, const char *name)
{
    for (; e; e = e->outer) /* a body must not hide a name of the graphs around it */
        if (qc_texts_find(&e->taken, name)) return true;
    return false;
}

static bool emit_take(struct qc_emitter *e, const char *name, struct qc_status *st)
{
    return qc_texts_set(&e->taken, name, 1, e->arena, st);
}

static bool emit_take_node(struct qc_emitter *e, const char *name, struct qc_status *st)
{
    return qc_texts_set(&e->taken_nodes, name, 1, e->arena, st);
}

const char *qc_emit_node_name(struct qc_emitter *e, const char *name, struct qc_status *st)
{
    const char *s = name;
    if (!name || !*name) return NULL;
    for (unsigned k = 1; s && qc_texts_find(&e->taken_nodes, s); k++)
        s = qc_arena_printf(e->arena, st, "%s_%u", name, k);
    return s && emit_take_node(e, s, st) ? s : NULL;
}

const char *qc_emit_unique_name(struct qc_emitter *e, const char *name, struct qc_status *st)
{
    const char *s = name;
    for (unsigned k = 1; s && is_taken(e, s); k++) s = qc_arena_printf(e->arena, st, "%s_%u", name, k);
    return s && emit_take(e, s, st) ? s : NULL;
}

const char *qc_emit_fresh_name(struct qc_emitter *e, const char *base, const char *suffix, struct qc_status *st)
{
    const char *s = qc_arena_printf(e->arena, st, "%s_%s", base, suffix);
    return s ? qc_emit_unique_name(e, s, st) : NULL;
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
        if (e->used[v] && !e->names[v] && g->values[v].name &&
            !(e->names[v] = qc_emit_unique_name(e, g->values[v].name, st)))
            return false;
    for (size_t v = 1; v <= g->value_count; v++) {
        if (!e->used[v] || e->names[v]) continue;
        const char *name = derived(e, (qc_id)v, st);
        if (!name || !(e->names[v] = qc_emit_unique_name(e, name, st))) return false;
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
        const char *name = e->captured[i] ? e->captured[i] : qc_emit_unique_name(e, g->inputs[i].name, st);
        if (!name) return false;
        e->names[g->inputs[i].value] = inputs[i].name = name;
    }
    for (size_t i = 0; i < g->output_count; i++) {
        const qc_id v = outputs[i].value;
        const struct qc_value *value = &g->values[v];
        const bool own = value->constant && value->name && strcmp(value->name, outputs[i].name) == 0;
        if (!(outputs[i].name = qc_emit_unique_name(e, outputs[i].name, st))) return false;
        if (!e->names[v] && (value->kind == QC_VALUE_RESULT || own)) e->names[v] = outputs[i].name;
    }
    e->inputs = inputs;
    e->outputs = outputs;
    return true;
}

static bool emit_carried_begin(struct qc_emitter *e, struct qc_status *st);

bool qc_emit_assign_names(struct qc_emitter *e, struct qc_status *st)
{
    const struct qc_graph *g = e->g;
    e->names = QC_NEW_ARRAY(e->arena, const char *, g->value_count + 1, st);
    e->inputs = g->inputs;
    e->outputs = g->outputs;
    if (!e->names) return false;
    if (e->outer) return assign_body_ports(e, st) && qc_emit_assign_shared(e, st) && assign_others(e, st);
    for (size_t i = 0; i < g->input_count; i++) {
        e->names[g->inputs[i].value] = g->inputs[i].name;
        if (!emit_take(e, g->inputs[i].name, st)) return false;
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
        if (!emit_take(e, p->name, st)) return false;
    }
    return emit_carried_begin(e, st) && assign_others(e, st);
}

typedef bool visit_fn(struct qc_emitter *e, Onnx__NodeProto *p, struct qc_status *st);

/* Visits every node, including subgraphs. qc_proto_check bounds the nesting of messages and so the recursion. */
static bool each_node(struct qc_emitter *e, Onnx__GraphProto *g, visit_fn *visit, struct qc_status *st)
{
    for (size_t i = 0; i < g->n_node; i++) {
        Onnx__NodeProto *p = g->node[i];
        if (!visit(e, p, st)) return false;
        for (size_t k = 0; k < p->n_attribute; k++) {
            Onnx__AttributeProto *a = p->attribute[k];
            if (a->g && !each_node(e, a->g, visit, st)) return false;
            for (size_t n = 0; n < a->n_graphs; n++)
                if (!each_node(e, a->graphs[n], visit, st)) return false;
        }
    }
    return true;
}

static bool default_domain(const Onnx__NodeProto *p)
{
    const char *domain = qc_proto_text(p->domain);
    return !*domain || strcmp(domain, "ai.onnx") == 0;
}

static bool take_text(struct qc_emitter *e, const char *name, struct qc_status *st)
{
    return !*qc_proto_text(name) || emit_take(e, name, st);
}

/* Reserves names inside subgraphs too, so that inner and outer names cannot hide each other. */
static bool take_names(struct qc_emitter *e, Onnx__NodeProto *p, struct qc_status *st)
{
    if (*qc_proto_text(p->name) && !emit_take_node(e, p->name, st)) return false;
    for (size_t k = 0; k < p->n_output; k++)
        if (!take_text(e, p->output[k], st)) return false;
    for (size_t i = 0; i < p->n_attribute; i++) {
        const Onnx__AttributeProto *a = p->attribute[i];
        for (size_t n = 0; n < a->n_graphs + (a->g ? 1 : 0); n++) {
            const Onnx__GraphProto *g = n < a->n_graphs ? a->graphs[n] : a->g;
            for (size_t k = 0; k < g->n_input; k++)
                if (!take_text(e, g->input[k]->name, st)) return false;
            for (size_t k = 0; k < g->n_initializer; k++)
                if (!take_text(e, g->initializer[k]->name, st)) return false;
        }
    }
    return true;
}

static bool emit_carried_begin(struct qc_emitter *e, struct qc_status *st)
{
    const struct qc_carried *c = e->g->carried;
    ProtobufCMessage *m;
    if (!c) return true;
    if (!qc_proto_unpack(&m, &onnx__model_proto__descriptor, c->bytes, c->size, "what was carried through", st))
        return false;
    e->carried = (Onnx__ModelProto *)m;
    if (!each_node(e, e->carried->graph, take_names, st)) return false;
    for (size_t i = 0; i < e->carried->graph->n_initializer; i++)
        if (!take_text(e, e->carried->graph->initializer[i]->name, st)) return false;
    for (size_t i = 0; i < c->constant_count; i++) {
        const char *name = c->constants[i].name;
        const qc_id v = qc_graph_find_value(e->g, name);
        const struct qc_tensor *t = qc_constant_of(e->g, v);
        /* Both share one initializer, unless a pass has changed the constant. */
        if (t && e->used[v] && !e->names[v] && !e->g->values[v].type.qparams &&
            qc_tensor_equal(t, c->constants[i].tensor))
            e->names[v] = name;
        if (!emit_take(e, name, st)) return false;
    }
    return true;
}

void qc_emit_carried_end(struct qc_emitter *e)
{
    if (e->carried) onnx__model_proto__free_unpacked(e->carried, NULL);
}

static bool is_written(const struct qc_emitter *e, const char *name)
{
    const qc_id v = qc_graph_find_value(e->g, name);
    return v && e->used[v] && qc_constant_of(e->g, v) && strcmp(e->names[v], name) == 0;
}

/* Ranges of opsets in which an operator means the same. */
static const struct {
    const char *op;
    int first, last;
} meanings[] = {
#define QC_MEANS(op, first, last) {op, first, last},
#include "onnx/write/op_versions.def"
#undef QC_MEANS
};

static bool means_same(const char *op, int one, int other)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        if (strcmp(meanings[i].op, op) == 0 && meanings[i].first <= one && other <= meanings[i].last) return true;
    return one == other;
}

/* Operators of other domains have versions of their own. */
static bool check_opset(struct qc_emitter *e, Onnx__NodeProto *p, struct qc_status *st)
{
    const int opset = e->g->carried->opset;
    if (!default_domain(p)) return true;
    if (p->domain) p->domain[0] = '\0';
    return means_same(qc_proto_text(p->op_type), opset, e->opset) ||
           qc_fail(st, QC_UNSUPPORTED,
                   "%.80s '%.80s' of opset %d is carried through, but the rest needs opset %d, where the operator is "
                   "another or not known to be the same; convert the model with onnx.version_converter first",
                   qc_proto_text(p->op_type), qc_proto_text(p->name), opset, e->opset);
}

/* Returns the graph's port of this name; only outputs of the model count. */
static Onnx__ValueInfoProto *find_port(Onnx__ValueInfoProto *const *ports, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(ports[i]->name, name) == 0) return ports[i];
    return NULL;
}

/* Lists the model's own ports; those that the graph has are written as in the graph. */
static void take_ports(Onnx__ValueInfoProto **to, Onnx__ValueInfoProto *const *from, size_t n,
                       Onnx__ValueInfoProto *const *own, size_t own_count)
{
    for (size_t i = 0; i < n; i++) {
        Onnx__ValueInfoProto *port = find_port(own, own_count, qc_proto_text(from[i]->name));
        to[i] = port ? port : from[i];
    }
}

bool qc_emit_carried_graph(Onnx__GraphProto *p, struct qc_emitter *e, struct qc_status *st)
{
    const struct qc_carried *c = e->g->carried;
    if (!c) return true;
    Onnx__GraphProto *from = e->carried->graph;
    if (!each_node(e, from, check_opset, st)) return false;
    for (size_t i = 0; i < c->constant_count; i++) {
        if (is_written(e, c->constants[i].name)) continue;
        Onnx__TensorProto *t = qc_emit_tensor(e->arena, c->constants[i].name, c->constants[i].tensor, st);
        if (!t || !qc_emit_initializer(e, t, st)) return false;
    }
    for (size_t i = 0; i < from->n_initializer; i++)
        if (!qc_emit_initializer(e, from->initializer[i], st)) return false;
    for (size_t i = 0; i < from->n_node; i++)
        if (!qc_emit_append(e, &e->nodes, from->node[i], st)) return false;
    Onnx__ValueInfoProto **inputs = QC_NEW_ARRAY(e->arena, Onnx__ValueInfoProto *, from->n_input, st),
                         **outputs = QC_NEW_ARRAY(e->arena, Onnx__ValueInfoProto *, from->n_output, st);
    if (!inputs || !outputs) return false;
    take_ports(inputs, from->input, from->n_input, p->input, p->n_input);
    take_ports(outputs, from->output, from->n_output, p->output, c->output_count);
    p->input = inputs;
    p->n_input = from->n_input;
    p->output = outputs;
    p->n_output = from->n_output;
    p->value_info = from->value_info;
    p->n_value_info = from->n_value_info;
    return true;
}

bool qc_emit_carried_domains(struct qc_emitter *e, struct qc_status *st)
{
    const Onnx__ModelProto *m = e->carried;
    for (size_t i = 0; m && i < m->n_opset_import; i++) {
        const char *domain = qc_proto_text(m->opset_import[i]->domain);
        if (strcmp(domain, "ai.onnx") != 0 && !qc_emit_domain(e, domain, m->opset_import[i]->version, st)) return false;
    }
    return true;
}

bool qc_emit_carried_model(Onnx__ModelProto *m, struct qc_emitter *e, struct qc_status *st)
{
    if (!e->carried) return true;
    const size_t own = e->functions.count;
    for (size_t i = 0; i < e->carried->n_functions; i++) {
        Onnx__FunctionProto *f = e->carried->functions[i];
        bool again = false;
        for (size_t k = 0; k < own && strcmp(qc_proto_text(f->domain), QC_EMIT_OWN_DOMAIN) == 0; k++)
            again = again || strcmp(((Onnx__FunctionProto *)e->functions.items[k])->name, qc_proto_text(f->name)) == 0;
        if (!again && !qc_emit_append(e, &e->functions, f, st)) return false;
    }
    if (e->carried->ir_version > m->ir_version) m->ir_version = e->carried->ir_version;
    return true;
}
