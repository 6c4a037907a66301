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

static void emit_take(struct qc_emitter *e, const char *name)
{
    if (*qc_proto_text(name)) qc_texts_set(&e->taken, name, 1, e->arena, e->st);
}

/* Returns NAME_k, or "" if memory is out. */
static const char *numbered(struct qc_emitter *e, const char *name, unsigned k)
{
    const char *s = qc_arena_printf(e->arena, e->st, "%s_%u", name, k);
    return s ? s : "";
}

const char *qc_emit_node_name(struct qc_emitter *e, const char *name)
{
    const char *s = name;
    if (!name || !*name) return NULL;
    for (unsigned k = 1; *s && qc_texts_find(&e->taken_nodes, s); k++) s = numbered(e, name, k);
    qc_texts_set(&e->taken_nodes, s, 1, e->arena, e->st);
    return s;
}

const char *qc_emit_unique_name(struct qc_emitter *e, const char *name)
{
    const char *s = name;
    for (unsigned k = 1; e->st->code == QC_OK && is_taken(e, s); k++) s = numbered(e, name, k);
    emit_take(e, s);
    return s;
}

const char *qc_emit_fresh_name(struct qc_emitter *e, const char *base, const char *suffix)
{
    const char *s = qc_arena_printf(e->arena, e->st, "%s_%s", base, suffix);
    return s ? qc_emit_unique_name(e, s) : "";
}

/* Names all values that are no inputs or outputs. */
static void assign_others(struct qc_emitter *e)
{
    const struct qc_graph *g = e->g;
    for (size_t v = 1; v <= g->value_count; v++)
        if (e->used[v] && !e->names[v] && g->values[v].name) e->names[v] = qc_emit_unique_name(e, g->values[v].name);
    for (qc_id v = 1; v <= g->value_count; v++) {
        if (!e->used[v] || e->names[v]) continue;
        const struct qc_value *value = &g->values[v];
        const char *name;
        if (value->kind != QC_VALUE_RESULT) {
            name = numbered(e, value->constant ? "constant" : "input", v);
        } else {
            const struct qc_node *n = &g->nodes[value->node];
            name = n->name && *n->name ? n->name : numbered(e, qc_op_info(n->op)->name, value->node);
            name = qc_arena_printf(e->arena, e->st, "%s_output", name);
            if (!name) name = "";
            if (n->output_count != 1) name = numbered(e, name, value->output);
        }
        e->names[v] = qc_emit_unique_name(e, name);
    }
}

/* Inputs and outputs of a body are identified by position, so their names may differ from the file's. A value that is
   no result, or that is another output already, becomes an output through an Identity. */
static void assign_body_ports(struct qc_emitter *e)
{
    const struct qc_graph *g = e->g;
    struct qc_port *outputs = qc_arena_dup(e->arena, g->outputs, g->output_count, sizeof *outputs, e->st);
    struct qc_port *inputs = qc_arena_dup(e->arena, g->inputs, g->input_count, sizeof *inputs, e->st);
    if (!inputs || !outputs) return;
    for (size_t i = 0; i < g->input_count; i++)
        e->names[g->inputs[i].value] = inputs[i].name =
            e->captured[i] ? e->captured[i] : qc_emit_unique_name(e, g->inputs[i].name);
    for (size_t i = 0; i < g->output_count; i++) {
        const qc_id v = outputs[i].value;
        const struct qc_value *value = &g->values[v];
        const bool own = value->constant && value->name && strcmp(value->name, outputs[i].name) == 0;
        outputs[i].name = qc_emit_unique_name(e, outputs[i].name);
        if (!e->names[v] && (value->kind == QC_VALUE_RESULT || own)) e->names[v] = outputs[i].name;
    }
    e->inputs = inputs;
    e->outputs = outputs;
}

static void emit_carried_begin(struct qc_emitter *e);

void qc_emit_assign_names(struct qc_emitter *e)
{
    const struct qc_graph *g = e->g;
    e->names = QC_NEW_ARRAY(e->arena, const char *, g->value_count + 1, e->st);
    e->inputs = g->inputs;
    e->outputs = g->outputs;
    if (e->st->code != QC_OK) return;
    if (e->outer) {
        assign_body_ports(e);
        qc_emit_assign_shared(e);
        assign_others(e);
        return;
    }
    for (size_t i = 0; i < g->input_count; i++) {
        e->names[g->inputs[i].value] = g->inputs[i].name;
        emit_take(e, g->inputs[i].name);
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
        emit_take(e, p->name);
    }
    emit_carried_begin(e);
    assign_others(e);
}

typedef void visit_fn(struct qc_emitter *e, Onnx__NodeProto *p);

/* Visits every node, including subgraphs. qc_proto_check bounds the nesting of messages and so the recursion. */
static void each_node(struct qc_emitter *e, Onnx__GraphProto *g, visit_fn *visit)
{
    for (size_t i = 0; i < g->n_node; i++) {
        Onnx__NodeProto *p = g->node[i];
        visit(e, p);
        for (size_t k = 0; k < p->n_attribute; k++) {
            Onnx__AttributeProto *a = p->attribute[k];
            if (a->g) each_node(e, a->g, visit);
            for (size_t n = 0; n < a->n_graphs; n++) each_node(e, a->graphs[n], visit);
        }
    }
}

/* Reserves names inside subgraphs too, so that inner and outer names cannot hide each other. */
static void take_names(struct qc_emitter *e, Onnx__NodeProto *p)
{
    if (*qc_proto_text(p->name)) qc_texts_set(&e->taken_nodes, p->name, 1, e->arena, e->st);
    for (size_t k = 0; k < p->n_output; k++) emit_take(e, p->output[k]);
    for (size_t i = 0; i < p->n_attribute; i++) {
        const Onnx__AttributeProto *a = p->attribute[i];
        for (size_t n = 0; n < a->n_graphs + (a->g ? 1 : 0); n++) {
            const Onnx__GraphProto *g = n < a->n_graphs ? a->graphs[n] : a->g;
            for (size_t k = 0; k < g->n_input; k++) emit_take(e, g->input[k]->name);
            for (size_t k = 0; k < g->n_initializer; k++) emit_take(e, g->initializer[k]->name);
        }
    }
}

static void emit_carried_begin(struct qc_emitter *e)
{
    const struct qc_carried *c = e->g->carried;
    ProtobufCMessage *m;
    if (!c ||
        !qc_proto_unpack(&m, &onnx__model_proto__descriptor, c->bytes, c->size, "what was carried through", e->st))
        return;
    e->carried = (Onnx__ModelProto *)m;
    each_node(e, e->carried->graph, take_names);
    for (size_t i = 0; i < e->carried->graph->n_initializer; i++) emit_take(e, e->carried->graph->initializer[i]->name);
    for (size_t i = 0; i < c->constant_count; i++) {
        const char *name = c->constants[i].name;
        const qc_id v = qc_graph_find_value(e->g, name);
        const struct qc_tensor *t = qc_constant_of(e->g, v);
        /* Both share one initializer, unless a pass has changed the constant. */
        if (t && e->used[v] && !e->names[v] && !e->g->values[v].type.qparams &&
            qc_tensor_equal(t, c->constants[i].tensor))
            e->names[v] = name;
        emit_take(e, name);
    }
}

void qc_emit_carried_end(struct qc_emitter *e)
{
    if (e->carried) onnx__model_proto__free_unpacked(e->carried, NULL);
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

/* Operators of other domains have versions of their own. */
static void check_opset(struct qc_emitter *e, Onnx__NodeProto *p)
{
    const int opset = e->g->carried->opset;
    if (*qc_proto_domain(p->domain)) return;
    if (p->domain) p->domain[0] = '\0';
    bool same = opset == e->opset;
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++)
        same = same || (strcmp(meanings[i].op, qc_proto_text(p->op_type)) == 0 && meanings[i].first <= opset &&
                        e->opset <= meanings[i].last);
    if (!same)
        qc_fail(e->st, QC_UNSUPPORTED,
                "%.80s '%.80s' of opset %d is carried through, but the rest needs opset %d, where the operator is "
                "another or not known to be the same; convert the model with onnx.version_converter first",
                qc_proto_text(p->op_type), qc_proto_text(p->name), opset, e->opset);
}

/* Lists the model's own ports; those that the graph has are written as in the graph. */
static void take_ports(Onnx__ValueInfoProto **to, Onnx__ValueInfoProto *const *from, size_t n,
                       Onnx__ValueInfoProto *const *own, size_t own_count)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = from[i];
        for (size_t k = own_count; k; k--)
            if (strcmp(own[k - 1]->name, qc_proto_text(from[i]->name)) == 0) to[i] = own[k - 1];
    }
}

void qc_emit_carried_graph(Onnx__GraphProto *p, struct qc_emitter *e)
{
    const struct qc_carried *c = e->g->carried;
    if (!c) return;
    Onnx__GraphProto *from = e->carried->graph;
    each_node(e, from, check_opset);
    for (size_t i = 0; i < c->constant_count; i++) {
        const char *name = c->constants[i].name;
        const qc_id v = qc_graph_find_value(e->g, name);
        if (!v || !e->used[v] || !qc_constant_of(e->g, v) || strcmp(e->names[v], name) != 0)
            qc_emit_initializer(e, qc_emit_tensor(e, name, c->constants[i].tensor));
    }
    for (size_t i = 0; i < from->n_initializer; i++) qc_emit_initializer(e, from->initializer[i]);
    for (size_t i = 0; i < from->n_node; i++) qc_emit_append(e, &e->nodes, from->node[i]);
    Onnx__ValueInfoProto **inputs = QC_NEW_ARRAY(e->arena, Onnx__ValueInfoProto *, from->n_input, e->st),
                         **outputs = QC_NEW_ARRAY(e->arena, Onnx__ValueInfoProto *, from->n_output, e->st);
    if (!inputs || !outputs) return;
    take_ports(inputs, from->input, from->n_input, p->input, p->n_input);
    take_ports(outputs, from->output, from->n_output, p->output, c->output_count);
    p->input = inputs;
    p->n_input = from->n_input;
    p->output = outputs;
    p->n_output = from->n_output;
    p->value_info = from->value_info;
    p->n_value_info = from->n_value_info;
}

void qc_emit_carried_domains(struct qc_emitter *e)
{
    const Onnx__ModelProto *m = e->carried;
    for (size_t i = 0; m && i < m->n_opset_import; i++) {
        const char *domain = qc_proto_text(m->opset_import[i]->domain);
        if (strcmp(domain, "ai.onnx") != 0) qc_emit_domain(e, domain, m->opset_import[i]->version);
    }
}

void qc_emit_carried_model(Onnx__ModelProto *m, struct qc_emitter *e)
{
    if (!e->carried) return;
    const size_t own = e->functions.count;
    for (size_t i = 0; i < e->carried->n_functions; i++) {
        Onnx__FunctionProto *f = e->carried->functions[i];
        bool again = false;
        for (size_t k = 0; k < own && strcmp(qc_proto_text(f->domain), QC_EMIT_OWN_DOMAIN) == 0; k++)
            again = again || strcmp(((Onnx__FunctionProto *)e->functions.items[k])->name, qc_proto_text(f->name)) == 0;
        if (!again) qc_emit_append(e, &e->functions, f);
    }
    if (e->carried->ir_version > m->ir_version) m->ir_version = e->carried->ir_version;
}
