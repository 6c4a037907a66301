// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/file.h"
#include "base/scope.h"
#include "tflite/read/tflite_reading.h"

/* --- Inputs and outputs --- */

/* Gives tensors the names that a list of the signature has for them. The first name of a tensor wins. */
static bool read_port_names(struct qc_tfl_reader *r, const struct qc_fb_table *signature, enum qc_tfl_field field,
                            struct qc_status *st)
{
    const struct qc_fb_vector list = qc_fb_vector(signature, field);
    for (size_t i = 0; i < list.count; i++) {
        const struct qc_fb_table map = qc_fb_vector_table(&list, i);
        const char *name = qc_fb_string(&map, QC_TFL_TensorMap_name);
        const size_t index = (size_t)qc_fb_int(&map, QC_TFL_TensorMap_tensor_index);
        if (!*name || index >= r->value_count) continue;
        struct qc_tfl_value *v = &r->values[index];
        const char **at = field == QC_TFL_SignatureDef_inputs ? &v->input_name : &v->output_name;
        if (*at) continue;
        if (!qc_tfl_refer(r, strlen(name), 1, st)) return qc_where(st, "the signature's name of tensor %zu", index);
        *at = name;
    }
    return true;
}

static struct qc_tfl_value *port(struct qc_tfl_reader *r, const struct qc_fb_vector *list, size_t i, const char *what,
                                 struct qc_status *st)
{
    const int64_t at = qc_fb_vector_int(list, i);
    struct qc_tfl_value *v = at < 0 || at >= (int64_t)r->value_count ? NULL : &r->values[at];
    if (v && v->dtype != QC_NONE) return v;
    if (v)
        qc_fail(st, QC_UNSUPPORTED, "%s '%.200s' has a type that is not handled", what, v->name);
    else
        qc_fail(st, QC_BAD_INPUT, "%s %zu is tensor %lld of %zu", what, i, (long long)at, r->value_count);
    return NULL;
}

static bool add_inputs(struct qc_tfl_reader *r, const struct qc_fb_table *signature, struct qc_status *st)
{
    const struct qc_fb_vector list = qc_fb_vector(&r->subgraph, QC_TFL_SubGraph_inputs);
    if (!read_port_names(r, signature, QC_TFL_SignatureDef_inputs, st)) return false;
    for (size_t i = 0; i < list.count; i++) {
        struct qc_tfl_value *v = port(r, &list, i, "input", st);
        if (!v) return false;
        if (v->data || v->stored[QC_TFL_IN_FILE])
            return qc_fail(st, QC_BAD_INPUT, "input '%.200s' is a constant, or there twice", v->name);
        v->stored[QC_TFL_IN_FILE] =
            qc_graph_add_input(r->g, v->input_name ? v->input_name : v->name, v->dtype, &v->shape, st);
    }
    return st->code == QC_OK;
}

static bool add_outputs(struct qc_tfl_reader *r, const struct qc_fb_table *signature, struct qc_status *st)
{
    const struct qc_fb_vector list = qc_fb_vector(&r->subgraph, QC_TFL_SubGraph_outputs);
    struct qc_tfl_node none = {.r = r};
    if (!list.count) return qc_fail(st, QC_BAD_INPUT, "the model has no output");
    if (!read_port_names(r, signature, QC_TFL_SignatureDef_outputs, st)) return false;
    for (size_t i = 0; i < list.count; i++) {
        struct qc_tfl_value *v = port(r, &list, i, "output", st);
        const qc_id id = qc_tfl_stored(&none, v, QC_TFL_IN_FILE, st);
        if (!id || !qc_tfl_refer(r, strlen(v->name), 1, st) ||
            !qc_graph_add_output(r->g, v->output_name ? v->output_name : v->name, id, st))
            return false;
    }
    return true;
}

/* --- The model --- */

/* The file has sizes for all dimensions. Those that the program chooses may not fit the operators. */
static bool read_operators(struct qc_tfl_reader *r, struct qc_status *st)
{
    const struct qc_fb_vector list = qc_fb_vector(&r->subgraph, QC_TFL_SubGraph_inputs);
    if (qc_tfl_read_operators(r, st)) return true;
    for (size_t i = 0; i < list.count && st->code == QC_BAD_INPUT; i++) {
        const struct qc_tfl_value *v = port(r, &list, i, "input", st);
        if (v && !v->fixed_inside)
            return qc_where(st,
                            "input '%.100s' is read as %s, but its sizes are chosen when the model runs; convert "
                            "the model with fixed sizes",
                            v->name, QC_SHAPE_STR(&v->shape));
    }
    return false;
}

static bool read_info(struct qc_model_info *info, struct qc_tfl_reader *r, struct qc_status *st)
{
    *info = (struct qc_model_info){
        .format = QC_MODEL_TFLITE,
        .producer = qc_arena_strdup(r->g->arena, qc_fb_string(&r->model, QC_TFL_Model_description), st),
        .producer_version = "",
        .domain = "",
        .doc = "",
        .model_version = qc_fb_int(&r->model, QC_TFL_Model_version),
        .note_count = r->all->notes.count,
        .notes = r->all->notes.lines,
        .warning_count = r->all->warnings.count,
        .warnings = r->all->warnings.lines,
    };
    return info->producer != NULL;
}

static bool read_model(struct qc_tfl_reader *r, struct qc_model_info *info, struct qc_status *st)
{
    enum { OPSET = 13 }; /* the form of graph/types/ops.def */
    const int64_t version = qc_fb_int(&r->model, QC_TFL_Model_version);
    const struct qc_fb_vector graphs = qc_fb_vector(&r->model, QC_TFL_Model_subgraphs);
    if (version != QC_TFL_VERSION)
        return qc_fail(st, QC_UNSUPPORTED, "version %lld of the schema is not handled, only %d", (long long)version,
                       (int)QC_TFL_VERSION);
    if (!graphs.count) return qc_fail(st, QC_BAD_INPUT, "the model has no graph");
    r->subgraph = qc_fb_vector_table(&graphs, 0);
    if (graphs.count > 1)
        qc_lines_add(&r->all->notes, r->g->arena, st,
                     "has %zu graphs; the first one is read, others belong to its operators or to other signatures",
                     graphs.count);
    /* The signature of the first subgraph; if there is none, or more than one, `at` is 0. */
    const struct qc_fb_vector all = qc_fb_vector(&r->model, QC_TFL_Model_signature_defs);
    struct qc_fb_table signature = {.schema = all.schema};
    size_t count = 0;
    for (size_t i = 0; i < all.count; i++) {
        const struct qc_fb_table one = qc_fb_vector_table(&all, i);
        if (qc_fb_int(&one, QC_TFL_SignatureDef_subgraph_index)) continue;
        signature = one;
        count++;
    }
    if (count != 1) signature.at = 0;
    const char *name = qc_fb_string(&r->subgraph, QC_TFL_SubGraph_name);
    r->g->opset = OPSET;
    r->g->name = qc_arena_strdup(r->g->arena, *name ? name : "main", st);
    return st->code == QC_OK && qc_tfl_read_values(r, st) && add_inputs(r, &signature, st) && read_operators(r, st) &&
           add_outputs(r, &signature, st) && qc_tfl_add_variables(r, st) && read_info(info, r, st);
}

bool qc_tflite_import_memory(struct qc_graph **out, struct qc_model_info *info, const void *bytes, size_t size,
                             size_t memory_limit, struct qc_status *st)
{
    const struct qc_budget budget = {.memory_limit = memory_limit, .model_bytes = size};
    struct qc_tfl_import all = {.size = size};
    struct qc_tfl_reader r = {
        .bytes = bytes, .size = size, .arena = qc_arena_new(), .g = qc_graph_new(st), .all = &all};
    struct qc_model_info found;
    if (r.g) r.g->budget = budget;
    /* The budget: weights are copied into the graph. */
    const bool ok = r.g &&
                    (qc_is_tflite(bytes, size) ||
                     qc_fail(st, QC_BAD_INPUT, "not a TensorFlow Lite model: bytes 4 to 7 are not TFL3")) &&
                    qc_fb_open(&r.model, &qc_tfl_schema, QC_TFL_TABLE_Model, bytes, size, st) &&
                    qc_budget_hold(&budget, size, st) && read_model(&r, &found, st);
    if (ok && info) *info = found;
    qc_arena_free(r.arena);
    qc_index_free(&all.stored_index);
    return QC_HAND_OVER(ok, out, r.g, qc_graph_free);
}

bool qc_tflite_import(struct qc_graph **out, struct qc_model_info *info, const char *path, size_t memory_limit,
                      struct qc_status *st)
{
    const struct qc_budget budget = {.memory_limit = memory_limit};
    QC_ARENA_SCOPE *a = qc_arena_new();
    void *bytes;
    size_t size;
    return (qc_budget_file(&budget, path, 2, st) && qc_file_read(&bytes, &size, path, a, st) &&
            qc_tflite_import_memory(out, info, bytes, size, memory_limit, st)) ||
           qc_where(st, "%s", path);
}
