// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/checked.h"
#include "onnx/read/importing.h"

/* Forms of ops that pick, sample or transform: attributes and names that changed between opsets. */

/* Scatter: up to opset 10. */
static bool form_scatter(struct qc_node_import *w, struct qc_status *st)
{
    return qc_import_finish(w, QC_OP_ScatterElements, st);
}

/* MaxPool with the indices of its maxima is a separate op. */
static bool form_max_pool(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr order;
    if (qc_import_output_used(w, 1)) return qc_import_finish(w, QC_OP_MaxPoolIndices, st);
    qc_import_take_attr(&order, w, "storage_order");
    return qc_import_finish(w, QC_OP_MaxPool, st);
}

/* Up to opset 19 the modes had other names. */
static bool form_grid_sample(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr mode;
    if (qc_import_take_attr(&mode, w, "mode")) {
        if (strcmp(mode.s, "bicubic") == 0) mode.s = "cubic";
        if (strcmp(mode.s, "linear") != 0 && strcmp(mode.s, "bilinear") != 0) qc_import_put_attr(w, mode);
    }
    return qc_import_finish(w, QC_OP_GridSample, st);
}

/* Up to opset 15 pixels were not shifted by half a pixel. */
static bool form_roi_align(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr mode;
    const bool given = qc_import_take_attr(&mode, w, "coordinate_transformation_mode");
    const char *name = given ? mode.s : w->im->opset < 16 ? "output_half_pixel" : "half_pixel";
    if (strcmp(name, "half_pixel") != 0) qc_import_put_attr(w, QC_STRING("coordinate_transformation_mode", name));
    return qc_import_finish(w, QC_OP_RoiAlign, st);
}

/* Up to opset 19 the axis was an attribute with default 1. */
static bool form_dft(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr axis = QC_INT("axis", 1);
    const bool given = qc_import_take_attr(&axis, w, "axis");
    if (w->im->opset < 20)
        qc_import_set_tensor(w, 2, "axis", qc_tensor_of(QC_I64, &QC_SCALAR, &axis.i, st), st);
    else if (given)
        return qc_fail(st, QC_BAD_INPUT, "attribute 'axis' is gone since opset 20");
    return qc_import_finish(w, QC_OP_DFT, st);
}

/* K was an attribute up to opset 9. */
static bool form_topk(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr k;
    if (qc_import_take_attr(&k, w, "k")) {
        if (w->im->opset >= 10) return qc_fail(st, QC_BAD_INPUT, "attribute 'k' is gone since opset 10");
        qc_import_set_ints(w, 1, "k", 1, &k.i, st);
    }
    return qc_import_finish(w, QC_OP_TopK, st);
}

/* Of a graph that is only run: the scores. */
static bool form_zip_map(struct qc_node_import *w, struct qc_status *st)
{
    return w->im->indices_for_texts ? qc_import_alias(w, 0, st) : qc_fail(st, QC_UNSUPPORTED, "it makes maps");
}

const struct qc_import_row qc_import_index_forms[] = {
    {"DFT", form_dft},
    {"GridSample", form_grid_sample},
    {"MaxPool", form_max_pool},
    {"RoiAlign", form_roi_align},
    {"Scatter", form_scatter},
    {"TopK", form_topk},
    {"ai.onnx.ml::ZipMap", form_zip_map},
    {.op = NULL},
};

struct qc_onnx_name *qc_import_find(const struct qc_importer *im, const char *name)
{
    const size_t number = qc_texts_find(&im->by_name, name);
    return number ? &im->names[number - 1] : NULL;
}

struct qc_onnx_name *qc_import_resolve(const struct qc_importer *im, const char *name)
{
    struct qc_onnx_name *n = qc_import_find(im, name);
    return n && n->alias ? n->alias : n;
}

static const char *origin_text(enum qc_name_origin origin)
{
    switch (origin) {
    case QC_FROM_INPUT: return "a graph input";
    case QC_FROM_INITIALIZER: return "an initializer";
    case QC_FROM_NODE: return "a node";
    case QC_FROM_OUTSIDE: return "the graph outside";
    }
    return "";
}

static bool enter_name(struct qc_importer *im, const char *name, enum qc_name_origin origin, size_t index,
                       struct qc_status *st)
{
    if (st->code != QC_OK) return false;
    const struct qc_onnx_name *first = qc_import_find(im, name);
    if (first) {
        /* An initializer, entered first, may give a graph input its value. */
        if (first->origin == QC_FROM_INITIALIZER && origin == QC_FROM_INPUT) {
            im->g->overridable = im->g->overridable || im->model->ir_version >= 4; /* else its value is constant */
            return true;
        }
        if (first->origin == origin)
            return qc_fail(st, QC_BAD_INPUT, "the value '%.200s' is made twice, each time by %s", name,
                           origin_text(origin));
        return qc_fail(st, QC_BAD_INPUT, "the value '%.200s' is made by %s and by %s", name, origin_text(first->origin),
                       origin_text(origin));
    }
    im->names[im->name_count] = (struct qc_onnx_name){.name = name, .as = name, .origin = origin, .index = index};
    return qc_texts_set(&im->by_name, name, ++im->name_count, im->arena, st);
}

bool qc_import_enter_names(struct qc_importer *im, const struct qc_outer_names *outside, struct qc_status *st)
{
    const size_t more = outside ? outside->count : 0;
    /* The names that the graph itself makes, with room for `more`. */
    const Onnx__GraphProto *p = im->proto;
    size_t total = p->n_input;
    if (!qc_add_size(&total, total, p->n_initializer) || !qc_add_size(&total, total, more))
        return qc_fail_memory(st, UINT64_MAX);
    for (size_t i = 0; i < p->n_node; i++)
        if (!qc_add_size(&total, total, p->node[i]->n_output)) return qc_fail_memory(st, UINT64_MAX);
    if (total > UINT32_MAX / 4) return qc_fail(st, QC_UNSUPPORTED, "%zu values are more than are handled", total);
    if (!(im->names = QC_NEW_ARRAY(im->arena, struct qc_onnx_name, total, st))) return false;
    for (size_t i = 0; i < p->n_initializer; i++) {
        const char *name = qc_proto_text(p->initializer[i]->name);
        if (!*name) return qc_fail(st, QC_BAD_INPUT, "initializer %zu has no name", i);
        enter_name(im, name, QC_FROM_INITIALIZER, i, st);
    }
    for (size_t i = 0; i < p->n_input; i++) {
        const char *name = qc_proto_text(p->input[i]->name);
        if (!*name) return qc_fail(st, QC_BAD_INPUT, "graph input %zu has no name", i);
        enter_name(im, name, QC_FROM_INPUT, i, st);
    }
    if (st->code != QC_OK) return false;
    unsigned char *seen = QC_NEW_ARRAY(im->arena, unsigned char, im->name_count, st);
    if (!seen) return false;
    for (size_t i = 0; i < p->n_input; i++) {
        const char *name = qc_proto_text(p->input[i]->name);
        const struct qc_onnx_name *n = qc_import_find(im, name);
        if (!n) continue;
        if (seen[n - im->names]) return qc_fail(st, QC_BAD_INPUT, "the graph has two inputs '%.200s'", name);
        seen[n - im->names] = 1;
    }
    for (size_t i = 0; i < p->n_node; i++)
        for (size_t k = 0; k < p->node[i]->n_output; k++)
            if (*p->node[i]->output[k]) enter_name(im, p->node[i]->output[k], QC_FROM_NODE, i, st);
    if (st->code != QC_OK) return false;
    for (size_t i = 0; i < more; i++)
        if (!qc_import_find(im, outside->names[i])) enter_name(im, outside->names[i], QC_FROM_OUTSIDE, i, st);
    return st->code == QC_OK && qc_import_find_outer(im, st);
}

const char *qc_import_fresh_name(struct qc_importer *im, const char *base, const char *suffix, struct qc_status *st)
{
    const char *s = qc_arena_printf(im->g->arena, st, "%s_%s", base, suffix);
    for (unsigned k = 1; s && (qc_import_find(im, s) || qc_graph_find_value(im->g, s)); k++)
        s = qc_arena_printf(im->g->arena, st, "%s_%s_%u", base, suffix, k);
    return s;
}

void qc_import_release_names(struct qc_importer *im)
{
    for (size_t i = 0; i < im->name_count; i++) qc_tensor_unref(im->names[i].constant);
}
