// SPDX-License-Identifier: Apache-2.0
/* What is in a model: interface, ops, parameters, multiply-accumulates, quantized values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands/inspect.h"
#include "cli/terminal/print_warnings.h"
#include "cli/terminal/screen.h"
#include "graph/core/multiply_adds.h"
#include "quantize/model.h"

/* A value that a DequantizeLinear reads with constant parameters. */
struct quantized {
    const struct qc_graph *graph; /* the model's, or a body of a node */
    qc_id value;
    enum qc_dtype dtype;
    const struct qc_tensor *scale, *zero_point; /* zero_point may be NULL: 0 */
    bool weight;
};

struct ports {
    size_t count;
    struct shown_port *of;
};

struct summary {
    struct ports inputs, outputs;
    size_t ops[QC_OP_COUNT];
    uint64_t parameters, parameter_bytes, macs;
    size_t nodes; /* in bodies too */
    bool macs_known;
    size_t quantized_count, weights, activations, per_channel;
    struct quantized *quantized;
};

static struct qc_json *shape_json(const struct qc_shape *s, const char *const *symbols)
{
    if (s->rank < 0) return qc_json_null();
    struct qc_json *dims = qc_json_array();
    for (int i = 0; i < s->rank; i++)
        qc_json_add(dims, s->dim[i] >= 0 ? qc_json_integer(s->dim[i])
                                         : qc_json_string(symbols && symbols[i] ? symbols[i] : "?"));
    return dims;
}

/* An input or output of the model, whether the graph has it or it belongs to what is not handled. */
struct shown_port {
    const char *name, *type;
    const struct qc_shape *shape;
    const char *const *symbols; /* NULL: no names of dimensions */
};

static bool graph_port(struct shown_port *to, const struct qc_graph *g, const struct qc_port *ports, size_t n,
                       const char *name)
{
    for (size_t i = 0; i < n; i++) {
        const struct qc_type *t = &qc_value(g, ports[i].value)->type;
        if (name && strcmp(ports[i].name, name) != 0) continue;
        *to = (struct shown_port){ports[i].name, qc_dtype_info(t->dtype)->name, &t->shape, ports[i].symbol};
        return true;
    }
    return false;
}

static bool list_ports(struct ports *out, const struct qc_graph *g, const struct qc_port *ports, size_t n,
                       const struct qc_carried_port *all, size_t all_count, struct qc_arena *a, struct qc_status *st)
{
    out->count = g->carried ? all_count : n;
    if (!(out->of = QC_NEW_ARRAY(a, struct shown_port, out->count, st))) return false;
    for (size_t i = 0; i < out->count; i++)
        if (!g->carried)
            graph_port(&out->of[i], g, &ports[i], 1, NULL);
        else if (!graph_port(&out->of[i], g, ports, n, all[i].name))
            out->of[i] = (struct shown_port){.name = all[i].name,
                                             .type = *all[i].type ? all[i].type : "?",
                                             .shape = &all[i].shape};
    return true;
}

static struct qc_json *ports_json(const struct ports *ports)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < ports->count; i++) {
        const struct shown_port *p = &ports->of[i];
        struct qc_json *one = qc_json_object();
        qc_json_set(one, "name", qc_json_string(p->name));
        qc_json_set(one, "type", qc_json_string(p->type));
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

static bool collect_quantized(struct summary *s, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    bool *seen = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    if (!seen) return false;
    for (size_t n = 1; n <= g->node_count; n++) {
        const struct qc_node *node = &g->nodes[n];
        const struct qc_tensor *scale = node->op == QC_OP_DequantizeLinear ? qc_constant_of(g, node->inputs[1]) : NULL;
        if (!scale || seen[node->inputs[0]]) continue;
        seen[node->inputs[0]] = true;
        const struct qc_value *v = qc_value(g, node->inputs[0]);
        struct quantized *q = &s->quantized[s->quantized_count++];
        *q = (struct quantized){.graph = g,
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

/* A graph and the bodies of its nodes, which are run nobody knows how often. Recursion is bounded by
   QC_BODY_DEPTH_MAX. */
static bool add_graph(struct summary *s, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
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

static bool summarise(struct summary *s, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_carried none = {.node_count = 0}, *c = g->carried ? g->carried : &none;
    s->macs_known = !g->depth;
    return list_ports(&s->inputs, g, g->inputs, g->input_count, c->inputs, c->input_count, a, st) &&
           list_ports(&s->outputs, g, g->outputs, g->output_count, c->outputs, c->model_output_count, a, st) &&
           (s->quantized = QC_NEW_ARRAY(a, struct quantized, count_nodes(g), st)) && add_graph(s, g, a, st);
}

static int zero_point_of(const struct quantized *q, size_t i)
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
        struct qc_json *one = qc_json_object();
        qc_json_set(one, "name", qc_json_string(c->nodes[i].name));
        qc_json_set(one, "domain", qc_json_string(c->nodes[i].domain));
        qc_json_set(one, "op", qc_json_string(c->nodes[i].op));
        qc_json_set(one, "reason", qc_json_string(reason));
        qc_json_add(all, one);
    }
    return all;
}

static struct qc_json *quantized_json(const struct summary *s)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < s->quantized_count; i++) {
        const struct quantized *q = &s->quantized[i];
        char label[QC_LABEL];
        struct qc_json *one = qc_json_object(), *scales = qc_json_array(), *zeros = qc_json_array();
        for (size_t k = 0; k < q->scale->count; k++) {
            qc_json_add(scales, qc_json_float((float)qc_tensor_float(q->scale, k)));
            qc_json_add(zeros, qc_json_integer(zero_point_of(q, k)));
        }
        qc_json_set(one, "name", qc_json_string(qc_value_label(label, q->graph, q->value)));
        qc_json_set(one, "kind", qc_json_string(q->weight ? "constant" : "activation"));
        qc_json_set(one, "type", qc_json_string(qc_dtype_info(q->dtype)->name));
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
        char label[QC_LABEL];
        const struct qc_node *n = &g->nodes[id];
        struct qc_json *one = qc_json_object();
        qc_json_set(one, "name", qc_json_string(n->name && *n->name ? n->name : qc_value_label(label, g, n->outputs)));
        qc_json_set(one, "op", qc_json_string(qc_op_info(n->op)->name));
        qc_json_add(all, one);
    }
    return all;
}

static struct qc_json *values_json(const struct qc_graph *g)
{
    struct qc_json *all = qc_json_array();
    for (size_t v = 1; v <= g->value_count; v++) {
        char label[QC_LABEL];
        struct qc_json *one = qc_json_object();
        const struct qc_node *n = qc_node_of(g, (qc_id)v);
        qc_json_set(one, "name", qc_json_string(qc_value_label(label, g, (qc_id)v)));
        qc_json_set(one, "type", qc_json_string(qc_dtype_info(g->values[v].type.dtype)->name));
        qc_json_set(one, "shape", shape_json(&g->values[v].type.shape, NULL));
        qc_json_set(one, "op",
                    qc_json_string(n                       ? qc_op_info(n->op)->name
                                   : g->values[v].constant ? "constant"
                                                           : "input"));
        qc_json_add(all, one);
    }
    return all;
}

static bool print_json(const struct qc_model *m, const struct summary *s, const struct qc_cli_options *o,
                       struct qc_status *st)
{
    const struct qc_graph *g = m->graph;
    struct qc_json *root = qc_json_object(), *ops = qc_json_object(), *notes = qc_json_array();
    for (unsigned op = 0; op < QC_OP_COUNT; op++)
        if (s->ops[op]) qc_json_set(ops, qc_op_info((enum qc_op)op)->name, qc_json_integer((int64_t)s->ops[op]));
    for (size_t i = 0; i < m->info.note_count; i++) qc_json_add(notes, qc_json_string(m->info.notes[i]));
    qc_json_set(root, "file", qc_json_string(m->path));
    qc_json_set(root, "kind", qc_json_string("model"));
    qc_json_set(root, "format", qc_json_string("onnx"));
    qc_json_set(root, "producer", qc_json_string(m->info.producer));
    qc_json_set(root, "producer_version", qc_json_string(m->info.producer_version));
    qc_json_set(root, "ir_version", qc_json_integer(m->info.ir_version));
    qc_json_set(root, "opset", qc_json_integer(m->info.opset));
    qc_json_set(root, "inputs", ports_json(&s->inputs));
    qc_json_set(root, "outputs", ports_json(&s->outputs));
    qc_json_set(root, "nodes", qc_json_integer((int64_t)s->nodes));
    qc_json_set(root, "ops", ops);
    if (g->carried) qc_json_set(root, "not_handled", carried_json(g->carried, o->job.arena, st));
    qc_json_set(root, "parameters", qc_json_integer((int64_t)s->parameters));
    qc_json_set(root, "parameter_bytes", qc_json_integer((int64_t)s->parameter_bytes));
    qc_json_set(root, "macs", s->macs_known ? qc_json_integer((int64_t)s->macs) : qc_json_null());
    qc_json_set(root, "quantized", quantized_json(s));
    qc_json_set(root, "notes", notes);
    if (o->verbose) qc_json_set(root, "node_list", nodes_json(g));
    if (o->verbose) qc_json_set(root, "values", values_json(g));
    return qc_print_json(root, st);
}

static void print_ports(const char *label, const struct ports *ports, bool all)
{
    enum { LISTED = 3 };
    const size_t n = ports->count;
    for (size_t i = 0; i < n && (all || i < LISTED || n == LISTED + 1); i++) {
        const struct shown_port *p = &ports->of[i];
        char shape[QC_SHAPE_TEXT];
        qc_say("%-9s%s %s %s\n", label, p->name, p->type, qc_shape_text(shape, p->shape));
    }
    if (!all && n > LISTED + 1) qc_say("         and %zu more %ss; -v lists them\n", n - LISTED, label);
}

static void print_carried(const struct qc_carried *c)
{
    char list[QC_CARRIED_TEXT];
    const size_t behind = c->node_count - c->unknown_count;
    qc_say("not handled: %s", qc_carried_text(list, c));
    if (behind) qc_say("; %zu node%s follow%s from them", behind, behind == 1 ? "" : "s", behind == 1 ? "s" : "");
    putchar('\n');
}

static void print_ops(const struct summary *s, size_t nodes)
{
    int at = qc_say("ops      %zu:", nodes);
    for (size_t most = nodes; most > 0; most--) {
        for (unsigned op = 0; op < QC_OP_COUNT; op++) {
            if (s->ops[op] != most) continue;
            if (at > 90) at = qc_say("\n        ") - 1;
            at += qc_say(" %s %zu", qc_op_info((enum qc_op)op)->name, most);
        }
    }
    putchar('\n');
}

static void print_quantized(const struct summary *s)
{
    for (size_t i = 0; i < s->quantized_count; i++) {
        const struct quantized *q = &s->quantized[i];
        char label[QC_LABEL];
        qc_say("  %s  %s %s  ", qc_value_label(label, q->graph, q->value), q->weight ? "constant" : "activation",
               qc_dtype_info(q->dtype)->name);
        if (q->scale->count == 0)
            qc_say("no scale\n");
        else if (q->scale->count > 1)
            qc_say("%zu scales, first %.6g, zero point %d\n", q->scale->count, qc_tensor_float(q->scale, 0),
                   zero_point_of(q, 0));
        else
            qc_say("scale %.6g, zero point %d\n", qc_tensor_float(q->scale, 0), zero_point_of(q, 0));
    }
}

static void print_values(const struct qc_graph *g)
{
    for (size_t v = 1; v <= g->value_count; v++) {
        char label[QC_LABEL], shape[QC_SHAPE_TEXT];
        const struct qc_node *n = qc_node_of(g, (qc_id)v);
        qc_say("  %s  %s %s  %s\n", qc_value_label(label, g, (qc_id)v), qc_dtype_info(g->values[v].type.dtype)->name,
               qc_shape_text(shape, &g->values[v].type.shape),
               n                       ? qc_op_info(n->op)->name
               : g->values[v].constant ? "constant"
                                       : "input");
    }
}

/* As options name them. */
static void print_nodes(const struct qc_graph *g)
{
    for (qc_id id = 1; id <= g->node_count; id++) {
        char label[QC_LABEL];
        const struct qc_node *n = &g->nodes[id];
        qc_say("  %s  %s\n", n->name && *n->name ? n->name : qc_value_label(label, g, n->outputs),
               qc_op_info(n->op)->name);
    }
}

static void print_text(const struct qc_model *m, const struct summary *s, bool verbose)
{
    const struct qc_graph *g = m->graph;
    char count[QC_NUMBER_TEXT], bytes[QC_NUMBER_TEXT];
    qc_say("file     %s: ONNX, opset %d, IR %lld%s%s%s%s\n", m->path, m->info.opset, (long long)m->info.ir_version,
           *m->info.producer ? ", made by " : "", m->info.producer, *m->info.producer_version ? " " : "",
           m->info.producer_version);
    print_ports("input", &s->inputs, verbose);
    print_ports("output", &s->outputs, verbose);
    print_ops(s, s->nodes);
    if (g->carried) print_carried(g->carried);
    qc_say("weights  %s parameters, %s\n", qc_count_text(count, s->parameters),
           qc_bytes_text(bytes, s->parameter_bytes));
    if (s->macs_known) qc_say("work     %s multiply-accumulates (batch 1)\n", qc_count_text(count, s->macs));
    if (s->quantized_count) {
        qc_say("int      %zu quantized values: %zu activations, %zu constants, %zu per channel%s\n", s->quantized_count,
               s->activations, s->weights, s->per_channel, verbose ? "" : "; -v lists them");
    }
    if (!verbose) return;
    for (size_t i = 0; i < m->info.note_count; i++) {
        qc_say("note     %s\n", m->info.notes[i]);
    }
    if (s->quantized_count) qc_say("quantized values\n");
    print_quantized(s);
    qc_say("nodes\n");
    print_nodes(g);
    qc_say("values\n");
    print_values(g);
}

bool qc_inspect_model(const char *path, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_model m = {0};
    struct qc_warnings *w = NULL;
    struct summary s = {.parameters = 0};
    bool ok = qc_warnings_new(&w, st) && qc_model_open(&m, &(struct qc_model_source){.file = path}, &o->job, w, st) &&
              summarise(&s, m.graph, o->job.arena, st);
    if (ok && o->json)
        ok = print_json(&m, &s, o, st);
    else if (ok)
        print_text(&m, &s, o->verbose);
    if (ok) qc_warnings_print(w, o->verbose ? QC_WARNINGS_ALL : QC_WARNINGS_SOME);
    qc_model_close(&m);
    qc_warnings_free(w);
    return ok;
}
