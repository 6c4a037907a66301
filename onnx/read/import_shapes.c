// SPDX-License-Identifier: Apache-2.0
/* Forms of ops that move, cut or reduce: mostly attributes that became inputs, or the reverse. */
#include <string.h>

#include "graph/core/infer.h"
#include "onnx/read/importing.h"

/* An attribute of ints, present before opset `until`, becomes input i. */
static bool ints_to_input(struct qc_node_import *w, const char *name, size_t i, int until, struct qc_status *st)
{
    struct qc_attr a;
    if (!qc_import_take_attr(&a, w, name)) return true;
    if (w->im->opset >= until)
        return qc_fail(st, QC_BAD_INPUT, "attribute '%s' does not exist in opset %d", name, w->im->opset);
    return qc_import_set_ints(w, i, name, a.count, a.ints, st);
}

static bool form_squeeze(struct qc_node_import *w, struct qc_status *st)
{
    ints_to_input(w, "axes", 1, 13, st);
    return qc_import_finish(w, qc_op_from_onnx(w->op), st);
}

static bool form_slice(struct qc_node_import *w, struct qc_status *st)
{
    ints_to_input(w, "starts", 1, 10, st);
    ints_to_input(w, "ends", 2, 10, st);
    ints_to_input(w, "axes", 3, 10, st);
    const struct qc_tensor *steps = qc_import_constant(w, 4, st);
    bool ones = steps != NULL;
    for (size_t i = 0; ones && i < steps->count; i++) ones = qc_tensor_int(steps, i) == 1;
    if (ones) qc_import_set(w, 4, QC_ABSENT);
    return qc_import_finish(w, QC_OP_Slice, st);
}

/* --- Pad --- */

/* Adds a constant list of int64 for the node. */
static qc_id list_beside(struct qc_node_import *w, const char *suffix, int64_t count, const int64_t *v,
                         struct qc_status *st)
{
    const struct qc_shape shape = QC_SHAPE(count);
    return qc_graph_add_made_constant(w->im->g, qc_import_fresh_name(w->im, w->label, suffix, st),
                                      qc_tensor_of(QC_I64, &shape, v, st), st);
}

/* Extends pads of some axes (opset 18) to all axes: [begin of each axis, end of each axis]. */
static bool spread_pads(struct qc_node_import *w, struct qc_status *st)
{
    const int64_t *pads, *axes;
    size_t pad_count, axis_count;
    int64_t all[2 * QC_RANK_MAX] = {0};
    const int rank = qc_import_shape(w, 0).rank;
    if (!qc_import_has(w, 3)) return true;
    const struct qc_tensor *known_pads = qc_import_constant(w, 1, st), *known_axes = qc_import_constant(w, 3, st);
    if (rank >= 0 && qc_import_has(w, 1) && (!known_pads || !known_axes)) {
        /* Scatter computed pads or axes into a list of zeros. */
        const int64_t zeros[2 * QC_RANK_MAX] = {0}, size = rank;
        const struct qc_attr to = QC_INT("to", qc_dtype_info(QC_I64)->onnx), axis = QC_INT("axis", 0);
        const qc_id ranks = list_beside(w, "rank", 1, &size, st), none = list_beside(w, "zeros", 2 * rank, zeros, st);
        qc_id places = qc_import_input(w, 3, st);
        const qc_id given = qc_import_input(w, 1, st);
        if (qc_import_dtype(w, 3) != QC_I64) places = qc_import_beside(w, QC_OP_Cast, "axes", 1, &places, 1, &to, st);
        qc_id pair[2] = {places, ranks};
        pair[0] = qc_import_beside(w, QC_OP_Add, "shifted", 2, pair, 0, NULL, st);
        pair[0] = qc_import_beside(w, QC_OP_Mod, "begins", 2, pair, 0, NULL, st);
        pair[1] = qc_import_beside(w, QC_OP_Add, "ends", 2, pair, 0, NULL, st);
        places = qc_import_beside(w, QC_OP_Concat, "places", 2, pair, 1, &axis, st);
        const qc_id in[3] = {none, places, given};
        qc_import_set(w, 1, qc_import_beside(w, QC_OP_ScatterElements, "pads", 3, in, 0, NULL, st));
        w->input_count = 3;
        return true;
    }
    if (!qc_import_ints(&pads, &pad_count, w, 1, "pads", st) || !qc_import_ints(&axes, &axis_count, w, 3, "axes", st))
        return false;
    if (rank < 0) return qc_fail(st, QC_UNSUPPORTED, "axes are handled with an input of known rank only");
    if (pad_count / 2 != axis_count || pad_count % 2)
        return qc_fail(st, QC_BAD_INPUT, "has %zu axes but %zu pads", axis_count, pad_count);
    for (size_t k = 0; k < axis_count; k++) {
        int64_t at = axes[k] < 0 ? axes[k] + rank : axes[k];
        if (at < 0 || at >= rank)
            return qc_fail(st, QC_BAD_INPUT, "axis %lld is outside an input of %d dimensions", (long long)axes[k],
                           rank);
        all[at] = pads[k];
        all[rank + at] = pads[axis_count + k];
    }
    w->input_count = 3;
    return qc_import_set_ints(w, 1, "pads", 2 * (size_t)rank, all, st);
}

static bool all_zero_bytes(const struct qc_tensor *t)
{
    for (size_t i = 0; i < t->bytes; i++)
        if (((const unsigned char *)t->data)[i]) return false;
    return true;
}

static bool form_pad(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr value;
    ints_to_input(w, "pads", 1, 11, st);
    if (qc_import_take_attr(&value, w, "value")) {
        if (w->im->opset >= 11)
            return qc_fail(st, QC_BAD_INPUT, "attribute 'value' does not exist in opset %d", w->im->opset);
        const bool zero = memcmp(&value.f, &(float){0}, sizeof value.f) == 0;
        if (!zero) qc_import_set_scalar(w, 2, "value", value.f, st);
    }
    if (!spread_pads(w, st)) return false;
    const struct qc_tensor *fill = qc_import_constant(w, 2, st);
    /* Zero is the default, and only mode "constant" has a fill value. */
    if (qc_import_has(w, 2) && (qc_import_attr(w, "mode") || (fill && fill->count == 1 && all_zero_bytes(fill))))
        qc_import_set(w, 2, QC_ABSENT);
    return qc_import_finish(w, QC_OP_Pad, st);
}

/* --- Split --- */

static bool form_split(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr parts;
    const int64_t n = (int64_t)w->output_count;
    ints_to_input(w, "split", 1, 13, st);
    if (qc_import_take_attr(&parts, w, "num_outputs")) {
        if (parts.i != n)
            return qc_fail(st, QC_BAD_INPUT, "num_outputs is %lld, but there are %lld outputs", (long long)parts.i,
                           (long long)n);
        if (qc_import_has(w, 1)) return qc_fail(st, QC_BAD_INPUT, "has both num_outputs and split");
        const struct qc_attr *axis = qc_import_attr(w, "axis");
        const struct qc_shape s = qc_import_shape(w, 0);
        int64_t at = axis ? axis->i : 0;
        if (at < 0) at += s.rank;
        int64_t size = at >= 0 && at < s.rank ? s.dim[at] : 0;
        if (size > 0 && size % n && n <= 64) { /* the last part is smaller */
            int64_t each = (size - 1) / n + 1, v[64], left = size;
            for (int64_t i = 0; i < n; i++) {
                v[i] = left < each ? left : each;
                left -= v[i];
            }
            qc_import_set_ints(w, 1, "split", (size_t)n, v, st);
        }
    }
    return qc_import_finish(w, QC_OP_Split, st);
}

/* --- Reductions: in the graph axes are an attribute; in files an input from opset 13 (ReduceSum) or 18 on. --- */

static bool form_reduce(struct qc_node_import *w, struct qc_status *st)
{
    const enum qc_op op = qc_op_from_onnx(w->op);
    const int64_t *axes;
    size_t count;
    struct qc_attr a, noop;
    if (qc_import_has(w, 1) && !qc_import_constant(w, 1, st)) return qc_import_finish(w, op, st);
    if (!qc_import_ints(&axes, &count, w, 1, "axes", st)) return false;
    if (w->input_count > 1) w->input_count = 1;
    if (qc_import_take_attr(&a, w, "axes") && !count) {
        axes = a.ints;
        count = a.count;
    }
    if (qc_import_take_attr(&noop, w, "noop_with_empty_axes") && !count) {
        if (qc_reduce_keeps(op)) return qc_import_alias(w, 0, st);
        qc_import_put_attr(w, noop);
    }
    if (count) qc_import_put_attr(w, QC_INTS("axes", count, axes));
    return qc_import_finish(w, op, st);
}

/* --- Others --- */

/* perm is always present if the rank is known. */
static bool form_transpose(struct qc_node_import *w, struct qc_status *st)
{
    int64_t perm[QC_RANK_MAX];
    const int rank = qc_import_shape(w, 0).rank;
    for (int i = 0; i < rank; i++) perm[i] = rank - 1 - i;
    if (rank > 0 && !qc_import_attr(w, "perm")) qc_import_put_attr(w, QC_INTS("perm", (size_t)rank, perm));
    return qc_import_finish(w, QC_OP_Transpose, st);
}

/* start and end (opset 15) become a Slice of the shape. */
static bool form_shape(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr start = QC_INT("start", 0), end = QC_INT("end", INT64_MAX);
    const int64_t axis = 0;
    const bool has_start = qc_import_take_attr(&start, w, "start"), has_end = qc_import_take_attr(&end, w, "end");
    if (!has_start && !has_end) return qc_import_finish(w, QC_OP_Shape, st);
    const qc_id x = qc_import_input(w, 0, st);
    if (!x) return qc_fail(st, QC_BAD_INPUT, "input 0 is missing");
    qc_import_set(w, 0, qc_import_beside(w, QC_OP_Shape, "shape", 1, &x, 0, NULL, st));
    qc_import_set_ints(w, 1, "starts", 1, &start.i, st);
    qc_import_set_ints(w, 2, "ends", 1, &end.i, st);
    qc_import_set_ints(w, 3, "axes", 1, &axis, st);
    return qc_import_finish(w, QC_OP_Slice, st);
}

static bool form_constant_of_shape(struct qc_node_import *w, struct qc_status *st)
{
    struct qc_attr dropped;
    const struct qc_attr *value = qc_import_attr(w, "value");
    if (value && value->tensor->dtype == QC_F32 && value->tensor->count == 1 && all_zero_bytes(value->tensor))
        qc_import_take_attr(&dropped, w, "value");
    return qc_import_finish(w, QC_OP_ConstantOfShape, st);
}

static bool form_constant(struct qc_node_import *w, struct qc_status *st)
{
    if (w->attr_count != 1) return qc_fail(st, QC_BAD_INPUT, "has %zu values instead of one", w->attr_count);
    const struct qc_attr *a = &w->attrs[0];
    const struct qc_shape scalar = QC_SCALAR, list = QC_SHAPE((int64_t)a->count);
    switch (a->kind) {
    case QC_ATTR_TENSOR: return qc_import_become_constant(w, qc_tensor_ref(a->tensor), st);
    case QC_ATTR_INT: return qc_import_become_constant(w, qc_tensor_of(QC_I64, &scalar, &a->i, st), st);
    case QC_ATTR_FLOAT: return qc_import_become_constant(w, qc_tensor_of(QC_F32, &scalar, &a->f, st), st);
    case QC_ATTR_INTS: return qc_import_become_constant(w, qc_tensor_of(QC_I64, &list, a->ints, st), st);
    case QC_ATTR_FLOATS: return qc_import_become_constant(w, qc_tensor_of(QC_F32, &list, a->floats, st), st);
    case QC_ATTR_STRING:
    case QC_ATTR_STRINGS:
    case QC_ATTR_GRAPH: break;
    }
    return qc_fail(st, QC_UNSUPPORTED, "holds text, which is not handled");
}

const struct qc_import_row qc_import_shape_forms[] = {
    {"Constant", form_constant},
    {"ConstantOfShape", form_constant_of_shape},
    {"Pad", form_pad},
    {"ReduceL1", form_reduce},
    {"ReduceL2", form_reduce},
    {"ReduceLogSumExp", form_reduce},
    {"ReduceMax", form_reduce},
    {"ReduceMean", form_reduce},
    {"ReduceMin", form_reduce},
    {"ReduceProd", form_reduce},
    {"ReduceSum", form_reduce},
    {"ReduceSumSquare", form_reduce},
    {"Shape", form_shape},
    {"Slice", form_slice},
    {"Split", form_split},
    {"Squeeze", form_squeeze},
    {"Transpose", form_transpose},
    {"Unsqueeze", form_squeeze},
    {.op = NULL},
};
