// SPDX-License-Identifier: Apache-2.0
/* Describes a model: interface, ops, parameters, multiply-accumulates, quantized values. */
#include <string.h>

#include "evaluate/canonical_model.h"
#include "evaluate/describe.h"
#include "graph/core/multiply_adds.h"
#include "graph/core/pair_order.h"

static struct qc_json *shape_json(const struct qc_shape *s, const char *const *symbols)
{
    if (s->rank < 0) return qc_json_null();
    struct qc_json *dims = qc_json_array();
    for (int i = 0; i < s->rank; i++)
        qc_json_add(dims, s->dim[i] >= 0 ? qc_json_integer(s->dim[i])
                                         : qc_json_string(symbols && symbols[i] ? symbols[i] : "?"));
    return dims;
}

static bool graph_port(struct qc_shown_port *to, const struct qc_graph *g, const struct qc_port *ports, size_t n,
                       const char *name)
{
    for (size_t i = 0; i < n; i++) {
        const struct qc_type *t = &qc_value(g, ports[i].value)->type;
        if (name && strcmp(ports[i].name, name) != 0) continue;
        *to = (struct qc_shown_port){ports[i].name, qc_dtype_info(t->dtype)->name, &t->shape, ports[i].symbol};
        return true;
    }
    return false;
}

static bool list_ports(struct qc_shown_ports *out, const struct qc_graph *g, const struct qc_port *ports, size_t n,
                       const struct qc_carried_port *all, size_t all_count, struct qc_arena *a, struct qc_status *st)
{
    out->count = g->carried ? all_count : n;
    if (!(out->of = QC_NEW_ARRAY(a, struct qc_shown_port, out->count, st))) return false;
    for (size_t i = 0; i < out->count; i++)
        if (!g->carried)
            graph_port(&out->of[i], g, &ports[i], 1, NULL);
        else if (!graph_port(&out->of[i], g, ports, n, all[i].name))
            out->of[i] = (struct qc_shown_port){.name = all[i].name,
                                                .type = *all[i].type ? all[i].type : "?",
                                                .shape = &all[i].shape};
    return true;
}

static struct qc_json *ports_json(const struct qc_shown_ports *ports)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < ports->count; i++) {
        const struct qc_shown_port *p = &ports->of[i];
        struct qc_json *one = qc_json_object();
        qc_json_put(one, "name %s type %s", p->name, p->type);
        qc_json_set(one, "shape", shape_json(p->shape, p->symbols));
        qc_json_add(all, one);
    }
    return all;
}

static size_t count_nodes(const struct qc_graph *g)
{
    size_t count = g->node_count;
    for (size_t n = 1; n <= g->node_count; n++)
        for (unsigned i = 0; i < g->nodes[n].attr_count; i++)
            if (g->nodes[n].attrs[i].kind == QC_ATTR_GRAPH) count += count_nodes(g->nodes[n].attrs[i].graph);
    return count;
}

static bool collect_quantized(struct qc_model_summary *s, const struct qc_graph *g, struct qc_arena *a,
                              struct qc_status *st)
{
    bool *seen = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    if (!seen) return false;
    for (size_t n = 1; n <= g->node_count; n++) {
        const struct qc_node *node = &g->nodes[n];
        const struct qc_tensor *scale = node->op == QC_OP_DequantizeLinear ? qc_constant_of(g, node->inputs[1]) : NULL;
        if (!scale || seen[node->inputs[0]]) continue;
        seen[node->inputs[0]] = true;
        const struct qc_value *v = qc_value(g, node->inputs[0]);
        struct qc_quantized_value *q = &s->quantized[s->quantized_count++];
        *q = (struct qc_quantized_value){.graph = g,
                                         .value = node->inputs[0],
                                         .dtype = v->type.dtype,
                                         .scale = scale,
                                         .weight = v->constant != NULL};
        q->zero_point = node->input_count > 2 ? qc_constant_of(g, node->inputs[2]) : NULL;
        s->weights += q->weight;
        s->activations += !q->weight;
        s->per_channel += scale->count > 1;
    }
    return true;
}

/* Adds a graph and the bodies of its nodes; how often bodies run is unknown. QC_BODY_DEPTH_MAX bounds the recursion. */
static bool add_graph(struct qc_model_summary *s, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    for (size_t n = 1; n <= g->node_count; n++) {
        const struct qc_node *node = &g->nodes[n];
        uint64_t macs = 0;
        s->ops[node->op]++;
        s->nodes++;
        for (unsigned i = 0; i < node->attr_count; i++)
            if (node->attrs[i].kind == QC_ATTR_GRAPH && !add_graph(s, node->attrs[i].graph, a, st)) return false;
        if (!qc_multiplies(node->op)) continue;
        s->macs_known =
            s->macs_known && qc_multiply_adds(&macs, g, (qc_id)n) && !__builtin_add_overflow(s->macs, macs, &s->macs);
    }
    uint32_t *uses = qc_graph_uses(g, a, st);
    if (!uses) return false;
    for (size_t v = 1; v <= g->value_count; v++) {
        const struct qc_tensor *t = g->values[v].constant;
        if (!t || !uses[v] || t->dtype == QC_I64) continue; /* i64: shapes and indices */
        s->parameters += t->count;
        s->parameter_bytes += (t->count * qc_dtype_info(t->dtype)->bits + 7) / 8;
    }
    return collect_quantized(s, g, a, st);
}

/* A model without canonical form has no proof; inspect shows it all the same. */
static bool prove_pairs(struct qc_model_summary *s, const struct qc_graph *g, struct qc_status *st)
{
    struct qc_status own = QC_STATUS_INIT;
    struct qc_canonical_model c;
    struct qc_pair_proof proof;
    if (!qc_is_quantized(g)) return true;
    if (!qc_canonical_model_of(&c, g, &own)) {
        if (own.code == QC_MACHINE) *st = own;
        return own.code != QC_MACHINE;
    }
    qc_prove_pairs(&proof, c.produced);
    s->products = proof.products;
    s->saturating = proof.saturating;
    s->unknown = proof.unknown;
    qc_canonical_model_free(&c);
    return true;
}

bool qc_model_summarise(struct qc_model_summary *s, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    *s = (struct qc_model_summary){.parameters = 0};
    const struct qc_carried none = {.node_count = 0}, *c = g->carried ? g->carried : &none;
    s->macs_known = !g->depth;
    return list_ports(&s->inputs, g, g->inputs, g->input_count, c->inputs, c->input_count, a, st) &&
           list_ports(&s->outputs, g, g->outputs, g->output_count, c->outputs, c->model_output_count, a, st) &&
           (s->quantized = QC_NEW_ARRAY(a, struct qc_quantized_value, count_nodes(g), st)) && add_graph(s, g, a, st) &&
           prove_pairs(s, g, st);
}

int qc_quantized_zero_point(const struct qc_quantized_value *q, size_t i)
{
    return q->zero_point && q->zero_point->count ? (int)qc_tensor_int(q->zero_point, i < q->zero_point->count ? i : 0)
                                                 : 0;
}

static struct qc_json *carried_json(const struct qc_carried *c, struct qc_arena *a, struct qc_status *st)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; c && i < c->node_count; i++) {
        const char *reason = qc_carried_reason(&c->nodes[i], a, st);
        if (!c->nodes[i].unknown || !reason) continue;
        qc_json_add(all, QC_JSON("name %s domain %s op %s reason %s", c->nodes[i].name, c->nodes[i].domain,
                                 c->nodes[i].op, reason));
    }
    return all;
}

static struct qc_json *quantized_json(const struct qc_model_summary *s)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < s->quantized_count; i++) {
        const struct qc_quantized_value *q = &s->quantized[i];
        struct qc_json *one = qc_json_object(), *scales = qc_json_array(), *zeros = qc_json_array();
        for (size_t k = 0; k < q->scale->count; k++) {
            qc_json_add(scales, qc_json_float((float)qc_tensor_float(q->scale, k)));
            qc_json_add(zeros, qc_json_integer(qc_quantized_zero_point(q, k)));
        }
        qc_json_put(one, "name %s kind %s type %s", QC_VALUE_LABEL(q->graph, q->value),
                    q->weight ? "constant" : "activation", qc_dtype_info(q->dtype)->name);
        qc_json_set(one, "scale", scales);
        qc_json_set(one, "zero_point", zeros);
        qc_json_add(all, one);
    }
    return all;
}

static struct qc_json *nodes_json(const struct qc_graph *g)
{
    struct qc_json *all = qc_json_array();
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        qc_json_add(all, QC_JSON("name %s op %s", n->name && *n->name ? n->name : QC_VALUE_LABEL(g, n->outputs),
                                 qc_op_info(n->op)->name));
    }
    return all;
}

static struct qc_json *values_json(const struct qc_graph *g)
{
    struct qc_json *all = qc_json_array();
    for (size_t v = 1; v <= g->value_count; v++) {
        struct qc_json *one = qc_json_object();
        const struct qc_node *n = qc_node_of(g, (qc_id)v);
        qc_json_put(one, "name %s type %s", QC_VALUE_LABEL(g, (qc_id)v), qc_dtype_info(g->values[v].type.dtype)->name);
        qc_json_set(one, "shape", shape_json(&g->values[v].type.shape, NULL));
        qc_json_set(one, "op",
                    qc_json_string(n                       ? qc_op_info(n->op)->name
                                   : g->values[v].constant ? "constant"
                                                           : "input"));
        qc_json_add(all, one);
    }
    return all;
}

struct qc_json *qc_describe_model(const struct qc_model *m, const struct qc_model_summary *s, bool values,
                                  struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = m->graph;
    struct qc_json *root = qc_json_object(), *ops = qc_json_object(), *notes = qc_json_array();
    for (unsigned op = 0; op < QC_OP_COUNT; op++)
        if (s->ops[op]) qc_json_set(ops, qc_op_info((enum qc_op)op)->name, qc_json_integer((int64_t)s->ops[op]));
    for (size_t i = 0; i < m->info.note_count; i++) qc_json_add(notes, qc_json_string(m->info.notes[i]));
    qc_json_put(root, "file %s kind %s", m->path, "model");
    const bool onnx = m->info.format == QC_MODEL_ONNX;
    qc_json_put(root, "format %s producer %s producer_version %s", onnx ? "onnx" : "tflite", m->info.producer,
                m->info.producer_version);
    qc_json_set(root, "ir_version", onnx ? qc_json_integer(m->info.ir_version) : qc_json_null());
    qc_json_set(root, "opset", onnx ? qc_json_integer(m->info.opset) : qc_json_null());
    qc_json_set(root, "inputs", ports_json(&s->inputs));
    qc_json_set(root, "outputs", ports_json(&s->outputs));
    qc_json_set(root, "nodes", qc_json_integer((int64_t)s->nodes));
    qc_json_set(root, "ops", ops);
    if (g->carried) qc_json_set(root, "not_handled", carried_json(g->carried, a, st));
    qc_json_put(root, "parameters %zu parameter_bytes %zu", s->parameters, s->parameter_bytes);
    qc_json_set(root, "macs", s->macs_known ? qc_json_integer((int64_t)s->macs) : qc_json_null());
    qc_json_set(root, "quantized", quantized_json(s));
    qc_json_set(root, "exact_without_vnni",
                s->saturating                ? qc_json_bool(false)
                : s->products && !s->unknown ? qc_json_bool(true)
                                             : qc_json_null());
    qc_json_set(root, "notes", notes);
    if (values) qc_json_set(root, "node_list", nodes_json(g));
    if (values) qc_json_set(root, "values", values_json(g));
    return root;
}
