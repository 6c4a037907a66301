// SPDX-License-Identifier: Apache-2.0
/* Operators along axes: softmax, reductions, ArgMax, Fourier transforms. */
#include "tflite/read/tflite_reading.h"

static bool softmax(struct qc_tfl_node *n, struct qc_status *st)
{
    const float beta = n->info->code == QC_TFL_OP_SOFTMAX ? qc_tfl_option_float(n, "beta") : 1;
    qc_id in[2] = {qc_tfl_real(n, qc_tfl_input(n, 0, st), QC_TFL_IN_FILE, st)};
    if (beta < 1 || beta > 1) {
        in[1] = qc_tfl_number(n, beta, st);
        in[0] = qc_tfl_add(n, QC_OP_Mul, 2, in, NULL, st);
    }
    qc_tfl_attr(n, QC_INT("axis", -1));
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, n->op, 1, in, n->name, st), QC_TFL_IN_FILE, st);
}

static bool l2_normalization(struct qc_tfl_node *n, struct qc_status *st)
{
    if (qc_tfl_option(n, "fused_activation_function"))
        return qc_fail(st, QC_UNSUPPORTED, "its activation is not handled");
    const qc_id x = qc_tfl_real(n, qc_tfl_input(n, 0, st), QC_TFL_IN_FILE, st);
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, n->op, 1, &x, n->name, st), QC_TFL_IN_FILE, st);
}

/* Reads the axes in input 1; repeated axes count once. */
static bool read_axes(bool gone[QC_RANK_MAX], struct qc_tfl_node *n, int rank, struct qc_status *st)
{
    int64_t *axes, own;
    size_t count;
    if (!qc_tfl_ints(&axes, &count, n, 1, "axes", st)) return false;
    for (size_t i = 0; i < count; i++) {
        if (!qc_tfl_axis(&own, axes[i], rank, QC_TFL_IN_FILE, st)) return false;
        gone[own] = true;
    }
    return true;
}

static bool reduce(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *x = qc_tfl_input(n, 0, st);
    const bool keep = qc_tfl_option(n, "keep_dims") != 0;
    bool gone[QC_RANK_MAX] = {false};
    int64_t axes[QC_RANK_MAX];
    size_t count = 0;
    if (!x || !read_axes(gone, n, x->shape.rank, st)) return false;
    const bool stays =
        gone[3] || (gone[1] && gone[2]); /* the remaining axes of channels-first are in the file's order */
    const bool first = !x->data && x->shape.rank == 4 && x->stored[QC_TFL_CHANNELS_FIRST] && (keep || stays);
    const enum qc_tfl_layout layout = first ? QC_TFL_CHANNELS_FIRST : QC_TFL_IN_FILE;
    for (int i = 0; i < x->shape.rank; i++)
        if (gone[first ? qc_tfl_to_first[i] : i]) axes[count++] = i;
    const qc_id id = qc_tfl_real(n, x, layout, st);
    if (!count) return qc_tfl_define_real(n, 0, id, layout, st);
    qc_tfl_attr(n, QC_INTS("axes", count, axes));
    if (!keep) qc_tfl_attr(n, QC_INT("keepdims", 0));
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, n->op, 1, &id, n->name, st), keep ? layout : QC_TFL_IN_FILE, st);
}

/* REDUCE_ANY and REDUCE_ALL: the largest and least of 0 and 1. */
static bool reduce_logical(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *x = qc_tfl_input(n, 0, st);
    bool gone[QC_RANK_MAX] = {false};
    int64_t axes[QC_RANK_MAX];
    size_t count = 0;
    if (!x || !read_axes(gone, n, x->shape.rank, st)) return false;
    for (int i = 0; i < x->shape.rank; i++)
        if (gone[i]) axes[count++] = i;
    qc_id id = qc_tfl_stored(n, x, QC_TFL_IN_FILE, st);
    if (count) {
        id = qc_tfl_cast(n, id, QC_I32, st);
        qc_tfl_attr(n, QC_INTS("axes", count, axes));
        if (!qc_tfl_option(n, "keep_dims")) qc_tfl_attr(n, QC_INT("keepdims", 0));
        id = qc_tfl_cast(n, qc_tfl_add(n, n->op, 1, &id, NULL, st), QC_BOOL, st);
    }
    return qc_tfl_define_stored(n, 0, id, QC_TFL_IN_FILE, st);
}

static bool arg_reduce(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *x = qc_tfl_input(n, 0, st);
    int64_t *axis, own;
    size_t count;
    if (!x || !qc_tfl_ints(&axis, &count, n, 1, "axes", st)) return false;
    if (count != 1) return qc_fail(st, QC_BAD_INPUT, "has %zu axes, expected 1", count);
    if (!qc_tfl_axis(&own, *axis, x->shape.rank, QC_TFL_IN_FILE, st)) return false;
    const qc_id in = qc_tfl_real(n, x, QC_TFL_IN_FILE, st);
    if (own) qc_tfl_attr(n, QC_INT("axis", own));
    qc_tfl_attr(n, QC_INT("keepdims", 0));
    const qc_id id = qc_tfl_add(n, n->op, 1, &in, NULL, st);
    return qc_tfl_define_stored(n, 0, qc_tfl_cast(n, id, n->outputs[0]->dtype, st), QC_TFL_IN_FILE, st);
}

static bool top_k(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *x = qc_tfl_input(n, 0, st);
    int64_t *k;
    size_t count;
    if (!x || !qc_tfl_ints(&k, &count, n, 1, "numbers of results", st)) return false;
    if (count != 1 || n->output_count != 2) return qc_fail(st, QC_BAD_INPUT, "has not one k and two outputs");
    const qc_id in[2] = {qc_tfl_real(n, x, QC_TFL_IN_FILE, st), qc_tfl_int_list(n, 1, k, st)};
    const qc_id id = qc_tfl_add_results(n, QC_OP_TopK, 2, in, 2, st);
    return qc_tfl_define_real(n, 0, id, QC_TFL_IN_FILE, st) &&
           qc_tfl_define_stored(n, 1, qc_tfl_cast(n, id + 1, n->outputs[1]->dtype, st), QC_TFL_IN_FILE, st);
}

static bool cumsum(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *x = qc_tfl_input(n, 0, st);
    int64_t *axis;
    size_t count;
    if (!x || !qc_tfl_ints(&axis, &count, n, 1, "axes", st)) return false;
    if (count != 1) return qc_fail(st, QC_BAD_INPUT, "has %zu axes, expected 1", count);
    const qc_id in[2] = {qc_tfl_real(n, x, QC_TFL_IN_FILE, st), qc_tfl_int_list(n, 1, axis, st)};
    if (qc_tfl_option(n, "exclusive")) qc_tfl_attr(n, QC_INT("exclusive", 1));
    if (qc_tfl_option(n, "reverse")) qc_tfl_attr(n, QC_INT("reverse", 1));
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, QC_OP_CumSum, 2, in, n->name, st), QC_TFL_IN_FILE, st);
}

/* The half of the spectrum along the last axis, then all frequencies along the one before it. */
static bool rfft2d(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *x = qc_tfl_input(n, 0, st);
    int64_t *lengths;
    size_t count;
    if (!x || !qc_tfl_ints(&lengths, &count, n, 1, "lengths", st)) return false;
    const int rank = x->shape.rank;
    if (count != 2 || rank < 2 || x->dtype != QC_F32) return qc_fail(st, QC_BAD_INPUT, "has not two lengths and axes");
    qc_id id = qc_tfl_real(n, x, QC_TFL_IN_FILE, st);
    for (int k = 1; k >= 0; k--) {
        if (!k && lengths[0] == 1 && x->shape.dim[rank - 2] == 1) break; /* one row */
        const int64_t last = -1;
        const qc_id wide[2] = {id, k ? qc_tfl_int_list(n, 1, &last, st) : 0};
        const qc_id in[3] = {k ? qc_tfl_add(n, QC_OP_Unsqueeze, 2, wide, NULL, st) : id, qc_tfl_int(n, lengths[k], st),
                             qc_tfl_int(n, rank - 2 + k, st)};
        if (k) qc_tfl_attr(n, QC_INT("onesided", 1));
        id = qc_tfl_add(n, QC_OP_DFT, 3, in, NULL, st);
    }
    return qc_tfl_define_real(n, 0, id, QC_TFL_IN_FILE, st);
}

/* Absolute value, real or imaginary part. */
bool qc_tfl_complex_part(struct qc_tfl_node *n, struct qc_status *st)
{
    struct qc_tfl_value *x = qc_tfl_input(n, 0, st);
    const int64_t last = -1;
    if (!x) return false;
    if (!x->complex || n->outputs[0]->dtype != QC_F32 || n->outputs[0]->complex)
        return qc_fail(st, QC_BAD_INPUT, "its input is not complex or its result is not float32");
    const bool absolute = n->op == QC_OP_ReduceL2;
    const qc_id in[2] = {qc_tfl_real(n, x, QC_TFL_IN_FILE, st),
                         absolute ? 0 : qc_tfl_int(n, n->info->code == QC_TFL_OP_IMAG, st)};
    if (absolute) qc_tfl_attr(n, QC_INTS("axes", 1, &last));
    qc_tfl_attr(n, absolute ? QC_INT("keepdims", 0) : QC_INT("axis", -1));
    return qc_tfl_define_real(n, 0, qc_tfl_add(n, n->op, absolute ? 1 : 2, in, n->name, st), QC_TFL_IN_FILE, st);
}

const struct qc_tfl_row qc_tfl_axis_rows[] = {
    {QC_TFL_OP_SOFTMAX, softmax, QC_OP_Softmax},
    {QC_TFL_OP_LOG_SOFTMAX, softmax, QC_OP_LogSoftmax},
    {QC_TFL_OP_L2_NORMALIZATION, l2_normalization, QC_OP_LpNormalization},
    {QC_TFL_OP_MEAN, reduce, QC_OP_ReduceMean},
    {QC_TFL_OP_SUM, reduce, QC_OP_ReduceSum},
    {QC_TFL_OP_REDUCE_MAX, reduce, QC_OP_ReduceMax},
    {QC_TFL_OP_REDUCE_MIN, reduce, QC_OP_ReduceMin},
    {QC_TFL_OP_REDUCE_PROD, reduce, QC_OP_ReduceProd},
    {QC_TFL_OP_REDUCE_ANY, reduce_logical, QC_OP_ReduceMax},
    {QC_TFL_OP_REDUCE_ALL, reduce_logical, QC_OP_ReduceMin},
    {QC_TFL_OP_ARG_MAX, arg_reduce, QC_OP_ArgMax},
    {QC_TFL_OP_ARG_MIN, arg_reduce, QC_OP_ArgMin},
    {QC_TFL_OP_TOPK_V2, top_k, QC_OP_TopK},
    {QC_TFL_OP_CUMSUM, cumsum, QC_OP_CumSum},
    {QC_TFL_OP_RFFT2D, rfft2d, QC_OP_DFT},
    {QC_TFL_OP_COMPLEX_ABS, qc_tfl_complex_part, QC_OP_ReduceL2},
    {QC_TFL_OP_REAL, qc_tfl_complex_part, QC_OP_Gather},
    {QC_TFL_OP_IMAG, qc_tfl_complex_part, QC_OP_Gather},
    {.form = NULL},
};
