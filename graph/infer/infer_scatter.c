// SPDX-License-Identifier: Apache-2.0
/* Operators that read or write at indices: Scatter*, GatherND, TensorScatter, OneHot, Trilu, EyeLike, ReverseSequence,
   TopK, Compress, NonZero, Unique. */
#include <inttypes.h>

#include "graph/infer/distinct.h"
#include "graph/infer/infer_help.h"

static bool check_update(const struct qc_infer *c, unsigned i, struct qc_status *st)
{
    static const char *const reductions[] = {"none", "add", "mul", "max", "min", NULL};
    if (!qc_infer_one_of(c, "reduction", "none", reductions, QC_BAD_INPUT, st)) return false;
    if (qc_in(c, i)->dtype == qc_in(c, 0)->dtype || qc_infer_affine(c)) return true;
    return qc_fail(st, QC_BAD_INPUT, "updates of type %s for an input of type %s",
                   qc_dtype_info(qc_in(c, i)->dtype)->name, qc_dtype_info(qc_in(c, 0)->dtype)->name);
}

bool qc_infer_scatter_elements(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape, *at = &qc_in(c, 1)->shape;
    int axis = 0;
    if (!qc_infer_index_type(c, 1, "the indices", st) || !check_update(c, 2, st)) return false;
    const struct qc_shape *update = &qc_in(c, 2)->shape;
    int64_t met;
    bool same = at->rank < 0 || update->rank < 0 || at->rank == update->rank;
    for (int i = 0; same && update->rank >= 0 && i < at->rank; i++)
        same = qc_dim_meet(&met, at->dim[i], update->dim[i]);
    if (!same) return qc_infer_misfit(c, 2, "an update", st);
    if (x->rank >= 0 && !qc_axis_of(&axis, qc_attr_int(c->node, "axis", 0), x->rank, st)) return false;
    bool fits = x->rank < 0 || at->rank < 0 || x->rank == at->rank;
    for (int i = 0; fits && i < at->rank && i < x->rank; i++)
        fits = i == axis || at->dim[i] == QC_FREE || x->dim[i] == QC_FREE || at->dim[i] <= x->dim[i];
    return fits ? qc_infer_set(c, 0, qc_in(c, 0)->dtype, x, st) : qc_infer_misfit(c, 1, "a list of indices", st);
}

bool qc_infer_scatter_nd(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape, *at = &qc_in(c, 1)->shape, *u = &qc_in(c, 2)->shape;
    int64_t met;
    if (!qc_infer_index_type(c, 1, "the indices", st) || !check_update(c, 2, st)) return false;
    if (x->rank >= 0 && at->rank >= 0) {
        const int last = at->rank - 1;
        const int64_t depth = last < 0 ? 0 : at->dim[last];
        if (last < 0 || depth > x->rank || (depth == 0 && last < 1))
            return qc_infer_misfit(c, 1, "a list of indices", st);
        if (depth != QC_FREE && u->rank >= 0) {
            bool fits = u->rank == last + x->rank - (int)depth;
            for (int i = 0; fits && i < u->rank; i++)
                fits = qc_dim_meet(&met, u->dim[i], i < last ? at->dim[i] : x->dim[i - last + (int)depth]);
            if (!fits) return qc_infer_misfit(c, 2, "an update", st);
        }
    }
    return qc_infer_set(c, 0, qc_in(c, 0)->dtype, x, st);
}

bool qc_infer_gather_nd(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape, *at = &qc_in(c, 1)->shape;
    const int64_t batch = qc_attr_int(c->node, "batch_dims", 0);
    struct qc_shape s = QC_SHAPE_UNKNOWN;
    int64_t met;
    if (!qc_infer_index_type(c, 1, "the indices", st)) return false;
    if (x->rank >= 0 && at->rank >= 0) {
        const int last = at->rank - 1;
        bool fits = last >= 0 && batch >= 0 && batch <= last && batch < x->rank;
        for (int i = 0; fits && i < batch; i++) fits = qc_dim_meet(&met, x->dim[i], at->dim[i]);
        const int64_t depth = fits ? at->dim[last] : 0;
        if (!fits || (depth != QC_FREE && (depth < 1 || depth > x->rank - batch)))
            return qc_infer_misfit(c, 1, "a list of indices", st);
        if (depth != QC_FREE) {
            const int from = (int)(batch + depth);
            if (!qc_shape_free(&s, last + x->rank - from, st)) return false;
            for (int i = 0; i < last; i++) s.dim[i] = at->dim[i];
            for (int i = from; i < x->rank; i++) s.dim[last + i - from] = x->dim[i];
        }
    }
    return qc_infer_set(c, 0, qc_in(c, 0)->dtype, &s, st);
}

bool qc_infer_tensor_scatter(struct qc_infer *c, struct qc_status *st)
{
    static const char *const modes[] = {"linear", "circular", NULL};
    const struct qc_shape *x = &qc_in(c, 0)->shape, *u = &qc_in(c, 1)->shape;
    int axis = 0;
    int64_t met;
    if (!qc_infer_one_of(c, "mode", "linear", modes, QC_BAD_INPUT, st) || !check_update(c, 1, st)) return false;
    if (x->rank >= 0) {
        if (!qc_axis_of(&axis, qc_attr_int(c->node, "axis", -2), x->rank, st)) return false;
        if (axis == 0) return qc_fail(st, QC_BAD_INPUT, "the axis cannot be that of the samples");
        bool fits = u->rank < 0 || u->rank == x->rank;
        for (int i = 0; fits && i < u->rank; i++)
            fits = i == axis ? u->dim[i] == QC_FREE || x->dim[i] == QC_FREE || u->dim[i] <= x->dim[i]
                             : qc_dim_meet(&met, u->dim[i], x->dim[i]);
        if (!fits) return qc_infer_misfit(c, 1, "an update", st);
    }
    if (qc_has_in(c, 2)) {
        const struct qc_shape *w = &qc_in(c, 2)->shape;
        if (!qc_infer_index_type(c, 2, "the write indices", st)) return false;
        if (w->rank >= 0 && (w->rank != 1 || (x->rank > 0 && !qc_dim_meet(&met, w->dim[0], x->dim[0]))))
            return qc_infer_misfit(c, 2, "a list of write indices", st);
    }
    return qc_infer_set(c, 0, qc_in(c, 0)->dtype, x, st);
}

bool qc_infer_one_hot(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape, *v = &qc_in(c, 2)->shape;
    const struct qc_tensor *depth = qc_in_constant(c, 1);
    struct qc_shape s;
    int axis = 0;
    if (!qc_infer_scalar(c, 1, "the depth", st)) return false;
    if (v->rank >= 0 && (v->rank != 1 || (v->dim[0] != 2 && v->dim[0] != QC_FREE)))
        return qc_fail(st, QC_BAD_INPUT, "two values are expected");
    if (!qc_shape_free(&s, x->rank < 0 ? -1 : x->rank + 1, st)) return false;
    if (s.rank >= 0 && !qc_axis_of(&axis, qc_attr_int(c->node, "axis", -1), s.rank, st)) return false;
    const int64_t n = depth && depth->count ? qc_tensor_int(depth, 0) : QC_FREE;
    if (depth && n < 1) return qc_fail(st, QC_BAD_INPUT, "the depth is %" PRId64, n);
    for (int i = 0; i < s.rank; i++) s.dim[i] = i == axis ? n : x->dim[i < axis ? i : i - 1];
    return qc_infer_set(c, 0, qc_in(c, 2)->dtype, &s, st);
}

bool qc_infer_trilu(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    if (x->shape.rank >= 0 && x->shape.rank < 2) return qc_fail(st, QC_BAD_INPUT, "matrices are expected");
    if (qc_has_in(c, 1) &&
        (!qc_infer_index_type(c, 1, "the diagonal", st) || !qc_infer_scalar(c, 1, "the diagonal", st)))
        return false;
    return qc_infer_set(c, 0, x->dtype, &x->shape, st);
}

bool qc_infer_eye_like(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const int64_t to = qc_attr_int(c->node, "dtype", qc_dtype_info(x->dtype)->onnx);
    const enum qc_dtype t = to > 0 && to < 1000 ? qc_dtype_from_onnx((int)to) : QC_NONE;
    if (t == QC_NONE) return qc_fail(st, QC_UNSUPPORTED, "data type %" PRId64 " is not handled", to);
    if (x->shape.rank >= 0 && x->shape.rank != 2) return qc_fail(st, QC_BAD_INPUT, "a matrix is expected");
    return qc_infer_set(c, 0, t, &x->shape, st);
}

bool qc_infer_reverse_sequence(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const struct qc_shape *n = &qc_in(c, 1)->shape;
    const int64_t batch = qc_attr_int(c->node, "batch_axis", 1), time = qc_attr_int(c->node, "time_axis", 0);
    int64_t met;
    if (!qc_infer_index_type(c, 1, "the lengths", st)) return false;
    if ((batch != 0 && batch != 1) || time != 1 - batch || (x->shape.rank >= 0 && x->shape.rank < 2))
        return qc_fail(st, QC_BAD_INPUT, "batch_axis and time_axis must be 0 and 1 of an input of two or more axes");
    if (n->rank >= 0 && x->shape.rank >= 0 && (n->rank != 1 || !qc_dim_meet(&met, n->dim[0], x->shape.dim[batch])))
        return qc_infer_misfit(c, 1, "a list of lengths", st);
    return qc_infer_set(c, 0, x->dtype, &x->shape, st);
}

bool qc_infer_topk(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    struct qc_shape s = x->shape;
    struct qc_list k;
    int axis = 0;
    if (!qc_infer_list(&k, c, 1, "K", st) || !qc_infer_scalar(c, 1, "K", st)) return false;
    if (s.rank >= 0) {
        if (!qc_axis_of(&axis, qc_attr_int(c->node, "axis", -1), s.rank, st)) return false;
        const int64_t n = k.known ? k.value[0] : QC_FREE;
        if (k.known && (n < 0 || (s.dim[axis] != QC_FREE && n > s.dim[axis])))
            return qc_fail(st, QC_BAD_INPUT, "K is %" PRId64 " for axis %d of %s", n, axis, QC_SHAPE_STR(&x->shape));
        s.dim[axis] = n;
    }
    return qc_infer_set(c, 0, x->dtype, &s, st) && (c->node->output_count < 2 || qc_infer_set(c, 1, QC_I64, &s, st));
}

/* The number of selected elements is known if the condition is a constant. */
bool qc_infer_compress(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const struct qc_tensor *condition = qc_in_constant(c, 1);
    const struct qc_attr *axis = qc_attr_find(c->node, "axis");
    struct qc_shape s = axis ? x->shape : QC_SHAPE(QC_FREE);
    int at = 0;
    if (qc_in(c, 1)->dtype != QC_BOOL) return qc_fail(st, QC_BAD_INPUT, "a bool condition is expected");
    if (qc_in(c, 1)->shape.rank > 1) return qc_infer_misfit(c, 1, "a condition", st);
    if (s.rank < 0) return qc_infer_set(c, 0, x->dtype, &s, st);
    if (axis && !qc_axis_of(&at, axis->i, s.rank, st)) return false;
    size_t all = 0;
    const bool sized = axis ? s.dim[at] != QC_FREE : qc_shape_count(&all, &x->shape);
    if (axis && sized) all = (size_t)s.dim[at];
    s.dim[at] = QC_FREE;
    if (condition && sized) {
        if (condition->count > all) return qc_infer_misfit(c, 1, "a condition", st);
        s.dim[at] = 0;
        for (size_t i = 0; i < condition->count; i++) s.dim[at] += qc_tensor_int(condition, i) != 0;
    }
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_non_zero(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape;
    const struct qc_tensor *t = qc_in_constant(c, 0);
    struct qc_shape s = QC_SHAPE(x->rank < 0 ? QC_FREE : x->rank, QC_FREE);
    if (t) {
        s.dim[1] = 0;
        for (size_t i = 0; i < t->count; i++) s.dim[1] += qc_tensor_float(t, i) != 0;
    }
    return qc_infer_set(c, 0, QC_I64, &s, st);
}

bool qc_infer_unique(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const struct qc_tensor *t = qc_in_constant(c, 0);
    const struct qc_attr *axis = qc_attr_find(c->node, "axis");
    struct qc_shape s = axis ? x->shape : QC_SHAPE(QC_FREE), list = QC_SHAPE(QC_FREE), inverse = QC_SHAPE(QC_FREE);
    size_t all;
    int at = 0;
    if (axis && s.rank >= 0) {
        if (!qc_axis_of(&at, axis->i, s.rank, st)) return false;
        inverse.dim[0] = s.dim[at];
    } else if (!axis && qc_shape_count(&all, &x->shape)) {
        inverse.dim[0] = (int64_t)all;
    }
    if (s.rank > 0) s.dim[at] = QC_FREE;
    if (t) {
        struct qc_distinct d;
        QC_ARENA_SCOPE *a = qc_arena_new();
        if (!qc_distinct_of(&d, t, axis ? at : -1, QC_BY_VALUE, a, st)) return false;
        s.dim[at] = list.dim[0] = (int64_t)d.count;
    }
    if (!qc_infer_set(c, 0, x->dtype, &s, st)) return false;
    for (unsigned k = 1; k < c->node->output_count; k++)
        if (!qc_infer_set(c, k, QC_I64, k == 2 ? &inverse : &list, st)) return false;
    return true;
}
