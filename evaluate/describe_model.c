// SPDX-License-Identifier: Apache-2.0
/* Describes a model: interface, ops, parameters, multiply-accumulates, quantized values. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "datasets/samples/dataset.h"
#include "evaluate/evaluate.h"
#include "graph/core/multiply_adds.h"
#include "graph/core/pair_order.h"

/* A value read by a DequantizeLinear with constant parameters. */
struct quantized_value {
    const struct qc_graph *graph; /* the model's graph, or a body of a node */
    qc_id value;
    enum qc_dtype dtype;
    const struct qc_tensor *scale, *zero_point; /* zero_point may be NULL: 0 */
    bool weight;
};

struct summary {
    size_t ops[QC_OP_COUNT];
    uint64_t parameters, parameter_bytes, macs;
    size_t nodes; /* including bodies */
    bool macs_known;
    size_t quantized_count;
    struct quantized_value *quantized;
    struct qc_pair_proof proof; /* zero: the model is not quantized or not supported */
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

/* Lists the ports of the graph, or all of a model of which a part is carried through. */
static struct qc_json *ports_json(const struct qc_graph *g, const struct qc_port *ports, size_t count,
                                  const struct qc_carried_port *carried, size_t carried_count)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < (carried ? carried_count : count); i++) {
        const struct qc_carried_port *c = carried ? &carried[i] : NULL;
        size_t k = carried ? 0 : i;
        while (c && k < count && strcmp(ports[k].name, c->name) != 0) k++;
        const struct qc_port *p = k < count ? &ports[k] : NULL;
        const struct qc_type *t = p ? &qc_value(g, p->value)->type : NULL;
        struct qc_json *one = QC_JSON("name %s type %s", p ? p->name : c->name,
                                      t          ? qc_dtype_info(t->dtype)->name
                                      : *c->type ? c->type
                                                 : "?");
        qc_json_set(one, "shape", shape_json(t ? &t->shape : &c->shape, p ? p->symbol : NULL));
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

/* Adds a graph and the bodies of its nodes; how often bodies run is unknown. QC_BODY_DEPTH_MAX bounds the recursion. */
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
    bool *seen = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    if (!seen) return false;
    for (size_t n = 1; n <= g->node_count; n++) {
        const struct qc_node *node = &g->nodes[n];
        const struct qc_tensor *scale = node->op == QC_OP_DequantizeLinear ? qc_constant_of(g, node->inputs[1]) : NULL;
        if (!scale || seen[node->inputs[0]]) continue;
        seen[node->inputs[0]] = true;
        const struct qc_value *v = qc_value(g, node->inputs[0]);
        s->quantized[s->quantized_count++] =
            (struct quantized_value){.graph = g,
                                     .value = node->inputs[0],
                                     .dtype = v->type.dtype,
                                     .scale = scale,
                                     .zero_point = node->input_count > 2 ? qc_constant_of(g, node->inputs[2]) : NULL,
                                     .weight = v->constant != NULL};
    }
    return true;
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

/* most: of lists of scales. */
static struct qc_json *quantized_json(const struct summary *s, size_t most)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < s->quantized_count; i++) {
        const struct quantized_value *q = &s->quantized[i];
        const size_t zero_count = q->zero_point ? q->zero_point->count : 0;
        struct qc_json *one = qc_json_object(), *scales = qc_json_array(), *zeros = qc_json_array();
        for (size_t k = 0; k < q->scale->count && k < most; k++) {
            qc_json_add(scales, qc_json_float((float)qc_tensor_float(q->scale, k)));
            qc_json_add(zeros,
                        qc_json_integer(zero_count ? (int)qc_tensor_int(q->zero_point, k < zero_count ? k : 0) : 0));
        }
        qc_json_put(one, "name %s kind %s type %s", QC_VALUE_LABEL(q->graph, q->value),
                    q->weight ? "constant" : "activation", qc_dtype_info(q->dtype)->name);
        qc_json_set(one, "scale", scales);
        qc_json_set(one, "zero_point", zeros);
        if (most < SIZE_MAX) qc_json_put(one, "scales %zu", q->scale->count);
        qc_json_add(all, one);
    }
    return all;
}

/* Adds the nodes and values with their names. */
static void put_values(struct qc_json *root, const struct qc_graph *g)
{
    struct qc_json *nodes = qc_json_array(), *values = qc_json_array();
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        qc_json_add(nodes, QC_JSON("name %s op %s", n->name && *n->name ? n->name : QC_VALUE_LABEL(g, n->outputs),
                                   qc_op_info(n->op)->name));
    }
    for (size_t v = 1; v <= g->value_count; v++) {
        const struct qc_node *n = qc_node_of(g, (qc_id)v);
        struct qc_json *one =
            QC_JSON("name %s type %s", QC_VALUE_LABEL(g, (qc_id)v), qc_dtype_info(g->values[v].type.dtype)->name);
        qc_json_set(one, "shape", shape_json(&g->values[v].type.shape, NULL));
        qc_json_set(one, "op",
                    qc_json_string(n                       ? qc_op_info(n->op)->name
                                   : g->values[v].constant ? "constant"
                                                           : "input"));
        qc_json_add(values, one);
    }
    qc_json_set(root, "node_list", nodes);
    qc_json_set(root, "values", values);
}

bool qc_describe_model(struct qc_json **out, const struct qc_model *m, unsigned more, struct qc_arena *a,
                       struct qc_status *st)
{
    const struct qc_graph *g = m->graph;
    const struct qc_carried *c = g->carried;
    const struct qc_model_info *info = &m->info;
    struct summary s = {.macs_known = !g->depth};
    if (!(s.quantized = QC_NEW_ARRAY(a, struct quantized_value, count_nodes(g), st)) || !add_graph(&s, g, a, st))
        return false;
    /* A model without canonical form has no proof; inspect shows it all the same. */
    struct qc_canonical_model made;
    struct qc_status own = QC_STATUS_INIT;
    if (qc_is_quantized(g) && qc_canonical_model_of(&made, g, &own)) {
        qc_prove_pairs(&s.proof, made.produced);
        qc_canonical_model_free(&made);
    } else if (own.code == QC_MACHINE) {
        *st = own;
        return false;
    }
    struct qc_json *ops = qc_json_object();
    for (unsigned op = 0; op < QC_OP_COUNT; op++)
        if (s.ops[op]) qc_json_set(ops, qc_op_info((enum qc_op)op)->name, qc_json_whole(s.ops[op]));
    const bool onnx = info->format == QC_MODEL_ONNX;
    struct qc_json *root = QC_JSON("file %s kind %s format %s producer %s producer_version %s", m->path, "model",
                                   onnx ? "onnx" : "tflite", info->producer, info->producer_version);
    qc_json_set(root, "ir_version", onnx ? qc_json_integer(info->ir_version) : qc_json_null());
    qc_json_set(root, "opset", onnx ? qc_json_integer(info->opset) : qc_json_null());
    qc_json_set(root, "inputs", ports_json(g, g->inputs, g->input_count, c ? c->inputs : NULL, c ? c->input_count : 0));
    qc_json_set(root, "outputs",
                ports_json(g, g->outputs, g->output_count, c ? c->outputs : NULL, c ? c->model_output_count : 0));
    qc_json_put(root, "nodes %zu", s.nodes);
    qc_json_set(root, "ops", ops);
    if (c) qc_json_set(root, "not_handled", carried_json(c, a, st));
    qc_json_put(root, "parameters %zu parameter_bytes %zu", s.parameters, s.parameter_bytes);
    qc_json_set(root, "macs", s.macs_known ? qc_json_whole(s.macs) : qc_json_null());
    qc_json_set(root, "quantized", quantized_json(&s, more & QC_DESCRIBE_FOR_TEXT ? 1 : SIZE_MAX));
    qc_json_set(root, "exact_without_vnni",
                s.proof.saturating                     ? qc_json_bool(false)
                : s.proof.products && !s.proof.unknown ? qc_json_bool(true)
                                                       : qc_json_null());
    qc_json_set(root, "notes", qc_json_strings(info->notes, info->note_count));
    if (more & QC_DESCRIBE_VALUES) put_values(root, g);
    if (more & QC_DESCRIBE_FOR_TEXT) { /* what the text tells beside the object */
        const struct qc_pair_proof *p = &s.proof;
        char list[QC_CARRIED_TEXT];
        if (c)
            qc_json_put(root, "carried %s followers %zu", qc_carried_text(list, c), c->node_count - c->unknown_count);
        if (p->products || p->unknown)
            qc_json_put(root, "products %zu saturating %zu unknown %zu", p->products, p->saturating, p->unknown);
        if (!onnx) qc_json_put(root, "schema %lld", (long long)info->model_version);
    }
    *out = root;
    return true;
}

/* Describes a file, whose kind is found by its content. */

/* ---- Data ---- */

/* ---- Statistics ---- */

static struct qc_json *sample_json(uint64_t id)
{
    if (id == QC_NO_SAMPLE) return qc_json_null();
    return QC_JSON("part %zu sample %zu", QC_SAMPLE_PART(id), QC_SAMPLE_NUMBER(id));
}

static struct qc_json *statistics_json(const char *path, const struct qc_collection *c)
{
    struct qc_json *root = QC_JSON("file %s kind %s", path, "statistics"), *parts = qc_json_array(),
                   *tensors = qc_json_array();
    for (size_t i = 0; i < c->part_count; i++) {
        struct qc_json *one = QC_JSON("sha256 %s samples_in_file %zu samples_chosen %zu", c->parts[i].sha256,
                                      c->parts[i].samples, c->parts[i].chosen);
        struct qc_json *seen = qc_json_array();
        for (size_t k = 0; k < c->range_count; k++)
            if (c->ranges[k].part == i)
                qc_json_add(seen, qc_json_pair(qc_json_integer((int64_t)c->ranges[k].first),
                                               qc_json_integer((int64_t)c->ranges[k].count)));
        qc_json_set(one, "seen", seen);
        qc_json_add(parts, one);
    }
    for (size_t i = 0; i < c->count; i++) {
        const struct qc_tally *t = &c->values[i].histogram->tally;
        struct qc_json *one =
            QC_JSON("name %s count %zu zeros %" PRIu64 " nan %zu inf %zu min %g max %g", c->values[i].name, t->count,
                    t->zeros, t->nan, (t->pos_inf + t->neg_inf), (double)t->min, (double)t->max);
        qc_json_set(one, "min_at", sample_json(t->min_sample));
        qc_json_set(one, "max_at", sample_json(t->max_sample));
        qc_json_set(one, "first_bad", sample_json(t->first_bad_sample));
        qc_json_add(tensors, one);
    }
    qc_json_set(root, "version", qc_json_integer(qc_statistics_version(c)));
    qc_json_put(root, "model_sha256 %s inputs %s samples %zu", c->model_sha256, c->inputs, qc_collection_samples(c));
    qc_json_set(root, "parts", parts);
    qc_json_set(root, "tensors", tensors);
    return root;
}

/* ---- Reports ---- */

/* Returns true if the file's text begins with '{'. If it cannot be read, returns false: the import reports why. */
static bool begins_object(const char *path)
{
    struct stat about;
    FILE *f = stat(path, &about) == 0 && S_ISREG(about.st_mode) ? fopen(path, "rb")
                                                                : NULL; /* opening a pipe waits for a writer */
    int c = 0;
    while (f && (c = fgetc(f)) != EOF && strchr(" \t\r\n", c) && c) continue;
    if (f) fclose(f);
    return f && c == '{';
}

bool qc_report_read(struct qc_json **out, const char *path, struct qc_arena *a, struct qc_status *st)
{
    void *bytes;
    size_t size;
    struct qc_json *r = NULL;
    if (!qc_file_read(&bytes, &size, path, a, st)) return false;
    if (!qc_json_parse(&r, bytes, size, st)) return qc_where(st, "%s", path);
    const struct qc_json *tool = qc_json_get(r, "tool");
    const char *name = tool ? qc_json_text(tool) : NULL;
    if (!name || strcmp(name, "qcalib") != 0) {
        qc_json_free(r);
        return qc_fail(st, QC_BAD_INPUT, "%s: JSON, but no report of qcalib (\"tool\" is not \"qcalib\")", path);
    }
    *out = r;
    return true;
}

/* ---- Any ---- */

enum kind { MODEL, DATA, STATISTICS, REPORT };

/* If *path is the folder of a report, it becomes the path of the report. */
static bool kind_of(enum kind *kind, const char **path, const struct qc_options *o, struct qc_status *st)
{
    /* The file and what is read from it; models and data ask for their own memory. */
    static const size_t times[] = {[MODEL] = 0, [DATA] = 0, [STATISTICS] = 2, [REPORT] = 24};
    const struct qc_budget budget = {.memory_limit = (size_t)o->run.memory_limit};
    struct stat about;
    bool statistics;
    const char *file = *path;
    if (stat(file, &about) == 0 && S_ISDIR(about.st_mode)) {
        const char *inside = qc_arena_printf(o->arena, st, "%s/report.json", file);
        if (!inside) return false;
        if (stat(inside, &about) != 0 && qc_data_is_known(file)) {
            *kind = DATA;
            return true;
        }
        file = inside; /* a report's folder */
    }
    if (!qc_statistics_is(&statistics, file, st)) return false;
    *kind = statistics ? STATISTICS : qc_data_is_known(file) ? DATA : begins_object(file) ? REPORT : MODEL;
    *path = file;
    return qc_budget_file(&budget, file, times[*kind], st) || qc_where(st, "%s", file);
}

static bool describe_data_file(struct qc_json **out, const char *path, const struct qc_options *o, struct qc_status *st)
{
    struct qc_data_list list;
    if (!qc_data_list(&list, path, qc_options_follow(o), o->arena, st)) return false;
    struct qc_json *sets = qc_json_array();
    for (size_t i = 0; i < list.count; i++) {
        const struct qc_data_entry *e = &list.entries[i];
        struct qc_json *one = QC_JSON("name %s type %s", e->name, e->type), *attributes = qc_json_object(),
                       *dims = qc_json_array();
        for (unsigned d = 0; d < e->rank; d++)
            qc_json_add(dims, e->dims[d] < 0 ? qc_json_null() : qc_json_integer(e->dims[d]));
        for (size_t k = 0; k < e->attribute_count; k++)
            qc_json_set(attributes, e->attributes[k].name, qc_json_string(e->attributes[k].text));
        qc_json_set(one, "shape", dims);
        qc_json_put(one, "storage %s", e->storage);
        qc_json_set(one, "attributes", attributes);
        qc_json_add(sets, one);
    }
    *out = QC_JSON("file %s kind %s", path, "data");
    qc_json_set(*out, "datasets", sets);
    return true;
}

bool qc_describe_file(struct qc_json **out, const char *path, const struct qc_options *o, unsigned more,
                      struct qc_warnings *w, struct qc_status *st)
{
    /* Members of a report; the last one that is counted is for the text. */
    static const char *const head[] = {"tool", "version", "command", "model", "data", "options", "accuracy"};
    static const char *const counted[] = {"layers", "float_ops", "warnings"};
    enum kind kind;
    struct qc_model m = {0};
    struct qc_collection *c = NULL;
    struct qc_json *r = NULL;
    bool ok = false;
    *out = NULL;
    if (!kind_of(&kind, &path, o, st)) return false;
    switch (kind) {
    case MODEL:
        ok = qc_model_open(&m, &(struct qc_model_source){.file = path}, o, w, st) &&
             qc_describe_model(out, &m, more, o->arena, st);
        qc_model_close(&m);
        break;
    case DATA: ok = describe_data_file(out, path, o, st); break;
    case STATISTICS:
        if ((ok = qc_statistics_load(&c, path, st))) *out = statistics_json(path, c);
        qc_collection_free(c);
        break;
    case REPORT:
        if ((ok = qc_report_read(&r, path, o->arena, st))) {
            const bool for_text = more & QC_DESCRIBE_FOR_TEXT;
            *out = QC_JSON("file %s kind %s", path, "report");
            for (size_t k = 0; k < sizeof head / sizeof *head; k++)
                qc_json_set(*out, head[k], qc_json_copy(qc_json_get(r, head[k])));
            for (size_t k = 0; k < sizeof counted / sizeof *counted - !for_text; k++)
                qc_json_set(*out, counted[k], qc_json_whole(qc_json_size(qc_json_get(r, counted[k]))));
            if (for_text) qc_json_set(*out, "reference", qc_json_copy(qc_json_get(r, "reference")));
        }
        qc_json_free(r);
        break;
    }
    return ok && (*out || qc_fail_memory(st, 1));
}
