// SPDX-License-Identifier: Apache-2.0
/* Encodings: JSON with the parameters of each tensor, by its name in the float model, as AIMET writes it (version
   0.6.1) and QNN's converter reads it (--quantization_overrides). Integers there are unsigned and offset is the lowest
   level: real = scale * (q + offset), q from 0. Biases are omitted: the reader derives them from the accumulator's
   scale. docs/targets.md. */
#include "export/formats/encodings.h"

#include "base/json.h"
#include "graph/core/parameters.h"

static struct qc_json *encoding(const struct qc_parameters *p, const struct qc_qparams *s, size_t i)
{
    const struct qc_levels all = qc_levels_of(p->dtype, false);
    const double scale = (double)p->scale[i];
    const int64_t offset = (int64_t)all.lo - p->zero_point[i];
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "bitwidth", qc_json_integer(qc_dtype_info(p->dtype)->bits));
    qc_json_set(o, "dtype", qc_json_string("int"));
    qc_json_set(o, "is_symmetric", qc_json_string(s->symmetry == QC_SYMMETRIC ? "True" : "False"));
    qc_json_set(o, "max", qc_json_number(scale * (double)(all.hi - p->zero_point[i])));
    qc_json_set(o, "min", qc_json_number(scale * (double)offset));
    qc_json_set(o, "offset", qc_json_integer(offset));
    qc_json_set(o, "scale", qc_json_number(scale));
    return o;
}

/* Adds parameters under a name, unless the name exists. */
static void add(struct qc_json *to, const char *name, const struct qc_graph *g, const struct qc_parameters *p)
{
    if (!name || qc_json_get(to, name)) return;
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < p->count; i++) qc_json_add(list, encoding(p, &g->qparams_of[p->qparams], i));
    qc_json_set(to, name, list);
}

static bool is_written(const struct qc_parameters *p)
{
    return p->affine && p->kind == QC_QPARAMS_QUANTIZER && !p->block;
}

static struct qc_json *all_encodings(const struct qc_graph *g, const struct qc_query *query)
{
    struct qc_json *activations = qc_json_object(), *weights = qc_json_object(), *root = qc_json_object();
    for (size_t i = 0; i < g->input_count; i++) {
        const struct qc_parameters p = qc_query_taken(query, g->inputs[i].value);
        if (is_written(&p)) add(activations, g->inputs[i].name, g, &p);
    }
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        const qc_id real = n->op == QC_OP_Quantize ? n->inputs[0] : 0;
        if (real && qc_constant_of(g, real)) {
            const struct qc_parameters p = qc_value_parameters(g, n->outputs);
            if (is_written(&p)) add(weights, g->values[real].name, g, &p);
            continue;
        }
        for (unsigned k = 0; k < n->output_count; k++) {
            const struct qc_parameters p = qc_query_end(query, id, QC_TAKEN, k);
            if (is_written(&p)) add(activations, g->values[n->outputs + k].name, g, &p);
        }
    }
    qc_json_set(root, "version", qc_json_string("0.6.1"));
    qc_json_set(root, "activation_encodings", activations);
    qc_json_set(root, "param_encodings", weights);
    qc_json_set(root, "excluded_layers", qc_json_array());
    return root;
}

bool qc_encodings_of(struct qc_json **out, const struct qc_export_source *source, struct qc_status *st)
{
    *out = NULL;
    if (!qc_export_has_float(source, st)) return false;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_query query;
    if (!a) return qc_fail_memory(st, 1);
    if (!qc_query_of(&query, source->expanded, a, st)) return false;
    *out = all_encodings(source->expanded, &query);
    return qc_json_is_whole(*out) || qc_fail_memory(st, 1);
}

static bool write(size_t *bytes, const char *path, const struct qc_export_source *source, struct qc_status *st)
{
    struct qc_json *root;
    const bool ok = qc_encodings_of(&root, source, st) && qc_export_json(bytes, path, root, st);
    qc_json_free(root);
    return ok;
}

extern const struct qc_exporter qc_exporter_encodings;
const struct qc_exporter qc_exporter_encodings = {
    .name = "encodings",
    .summary = "JSON of the parameters of each tensor, as AIMET writes and QNN's converter reads it",
    .suffix = ".encodings.json",
    .write = write,
};
