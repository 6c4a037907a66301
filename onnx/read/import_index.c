// SPDX-License-Identifier: Apache-2.0
/* Forms of ops that pick, sample or transform: attributes and names that changed between opsets. */
#include <string.h>

#include "onnx/read/importing.h"

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
    const struct qc_shape scalar = QC_SCALAR;
    const bool given = qc_import_take_attr(&axis, w, "axis");
    if (w->im->opset < 20 && !qc_import_set_tensor(w, 2, "axis", qc_tensor_of(QC_I64, &scalar, &axis.i, st), st))
        return false;
    if (given && w->im->opset >= 20) return qc_fail(st, QC_BAD_INPUT, "attribute 'axis' is gone since opset 20");
    return qc_import_finish(w, QC_OP_DFT, st);
}

/* K was an attribute up to opset 9. */
static bool form_topk(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr k;
    if (qc_import_take_attr(&k, w, "k")) {
        if (w->im->opset >= 10) return qc_fail(st, QC_BAD_INPUT, "attribute 'k' is gone since opset 10");
        if (!qc_import_set_ints(w, 1, "k", 1, &k.i, st)) return false;
    }
    return qc_import_finish(w, QC_OP_TopK, st);
}

const struct qc_import_row qc_import_index_forms[] = {
    {"DFT", form_dft},
    {"GridSample", form_grid_sample},
    {"MaxPool", form_max_pool},
    {"RoiAlign", form_roi_align},
    {"Scatter", form_scatter},
    {"TopK", form_topk},
    {.op = NULL},
};
