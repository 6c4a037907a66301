// SPDX-License-Identifier: Apache-2.0
/* Trilu-14, EyeLike-22, OneHot-28, ReverseSequence-28, Compress-28, NonZero-13, Unique-28: select, set or reorder
   elements. */
#include <string.h>

#include "graph/infer/boxes.h"
#include "graph/infer/distinct.h"
#include "simq/core/kernel_util.h"

static const uint64_t no_bits;

static struct qc_tensor tensor_of_view(const struct qc_view *v)
{
    return (struct qc_tensor){.dtype = v->dtype,
                              .shape = qc_shape_of(v->rank, v->dim),
                              .count = qc_view_count(v),
                              .data = v->data};
}

/* --- Trilu, EyeLike --- */

static bool run_trilu(const struct qc_run *r, struct qc_status *st)
{
    const bool upper = *(const bool *)r->state, given = r->input_count > 1 && r->in[1].rank >= 0;
    const int64_t k = given && qc_view_count(&r->in[1]) ? qc_kernel_int_at(&r->in[1], 0) : 0;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    const int row = x->rank - 2, column = x->rank - 1;
    const int64_t columns = x->dim[column];
    for (int64_t i = 0; i < x->dim[row]; i++) {
        /* The first element at or right of the diagonal. */
        int64_t at = k < -i ? 0 : k > columns - i ? columns : i + k + !upper;
        at = at > columns ? columns : at;
        const struct qc_view to = qc_view_part(y, row, i, 1), from = qc_view_part(x, row, i, 1);
        const struct qc_view kept = qc_view_part(&to, column, upper ? at : 0, upper ? columns - at : at),
                             of = qc_view_part(&from, column, upper ? at : 0, upper ? columns - at : at),
                             cleared = qc_view_part(&to, column, upper ? 0 : at, upper ? at : columns - at);
        qc_view_copy(&kept, &of);
        qc_view_fill(&cleared, &no_bits);
    }
    return true;
}

static bool prepare_trilu(struct qc_prepare *p, struct qc_status *st)
{
    bool *upper = QC_NEW_STATE(p, bool, st);
    if (upper) *upper = qc_attr_int(p->node, "upper", 1) != 0;
    return upper != NULL;
}

static bool run_eye(const struct qc_run *r, struct qc_status *st)
{
    const int64_t k = *(const int64_t *)r->state;
    const struct qc_view *y = &r->out[0];
    uint64_t one = 0;
    qc_element_of(&one, y->dtype, 1);
    qc_view_fill(y, &no_bits);
    for (int64_t i = 0; i < y->dim[0]; i++)
        if (k >= -i && k < y->dim[1] - i)
            memcpy(qc_at(y, i * y->stride[0] + (i + k) * y->stride[1]), &one, qc_dtype_size(y->dtype));
    return true;
}

static bool prepare_eye(struct qc_prepare *p, struct qc_status *st)
{
    int64_t *k = QC_NEW_STATE(p, int64_t, st);
    if (k) *k = qc_attr_int(p->node, "k", 0);
    return k != NULL;
}

/* --- OneHot --- */

static bool run_one_hot(const struct qc_run *r, struct qc_status *st)
{
    const int axis = *(const int *)r->state;
    const struct qc_view *x = &r->in[0], *values = &r->in[2], *y = &r->out[0];
    const size_t size = qc_dtype_size(y->dtype);
    const int64_t depth = y->dim[axis];
    struct qc_view place = *x;
    for (int d = 0; d < x->rank; d++) place.stride[d] = y->stride[d < axis ? d : d + 1];
    qc_view_fill(y, values->data);
    QC_WALK(w, 0, x, &place) {
        const int64_t given = qc_kernel_integer(x, w.at[0]), i = given < 0 ? given + depth : given;
        if (i < 0 || i >= depth) continue;
        memcpy(qc_at(y, w.at[1] + i * y->stride[axis]), qc_at(values, values->stride[0]), size);
    }
    return true;
}

static bool prepare_axis_of_result(struct qc_prepare *p, struct qc_status *st)
{
    int *axis = QC_NEW_STATE(p, int, st);
    return axis && qc_axis_of(axis, qc_attr_int(p->node, "axis", -1), p->out[0].rank, st);
}

/* --- ReverseSequence --- */

static bool run_reverse(const struct qc_run *r, struct qc_status *st)
{
    const int time = *(const int *)r->state, batch = 1 - time;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    for (int64_t b = 0; b < x->dim[batch]; b++) {
        const int64_t n = qc_kernel_int_at(&r->in[1], (size_t)b), all = x->dim[time];
        const struct qc_view to = qc_view_part(y, batch, b, 1), from = qc_view_part(x, batch, b, 1);
        if (n < 0 || n > all)
            return qc_fail(st, QC_BAD_INPUT, "sample %lld has the length %lld, expected 0 to %lld", (long long)b,
                           (long long)n, (long long)all);
        const struct qc_view head = qc_view_part(&to, time, 0, n), tail = qc_view_part(&to, time, n, all - n),
                             rest = qc_view_part(&from, time, n, all - n);
        struct qc_view turned = qc_view_part(&from, time, 0, n);
        if (n) {
            turned.data = qc_at(&turned, (n - 1) * turned.stride[time]);
            turned.stride[time] = -turned.stride[time];
        }
        qc_view_copy(&head, &turned);
        qc_view_copy(&tail, &rest);
    }
    return true;
}

static bool prepare_reverse(struct qc_prepare *p, struct qc_status *st)
{
    int *time = QC_NEW_STATE(p, int, st);
    if (time) *time = (int)qc_attr_int(p->node, "time_axis", 0);
    return time != NULL;
}

/* --- Compress, NonZero: the shape of the result gives the number of elements --- */

static bool run_compress(const struct qc_run *r, struct qc_status *st)
{
    const int axis = *(const int *)r->state;
    const struct qc_view *x = &r->in[0], *c = &r->in[1], *y = &r->out[0];
    int64_t to = 0;
    for (size_t i = 0; i < qc_view_count(c); i++) {
        if (!qc_kernel_int_at(c, i)) continue;
        if (to >= y->dim[axis < 0 ? 0 : axis] || i >= (axis < 0 ? qc_view_count(x) : (size_t)x->dim[axis]))
            return qc_fail(st, QC_BAD_INPUT, "the condition selects more elements than the result can hold");
        if (axis >= 0) {
            const struct qc_view slot = qc_view_part(y, axis, to++, 1), from = qc_view_part(x, axis, (int64_t)i, 1);
            qc_view_copy(&slot, &from);
        } else {
            memcpy(qc_at(y, to++ * y->stride[0]), qc_at(x, qc_kernel_offset(x, i)), qc_dtype_size(y->dtype));
        }
    }
    return true;
}

static bool prepare_compress(struct qc_prepare *p, struct qc_status *st)
{
    int *axis = QC_NEW_STATE(p, int, st);
    if (!axis) return false;
    *axis = -1;
    return !qc_attr_find(p->node, "axis") || qc_kernel_axis(axis, p, 0, st);
}

static bool run_non_zero(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    int64_t to = 0;
    QC_WALK(w, 0, x) {
        const struct qc_tensor element = {.dtype = x->dtype, .count = 1, .data = qc_at(x, w.at[0])};
        if (qc_tensor_float(&element, 0) == 0) continue;
        if (to >= y->dim[1]) return qc_fail(st, QC_BAD_INPUT, "more elements are non-zero than the result can hold");
        for (int d = 0; d < x->rank; d++) ((int64_t *)y->data)[d * y->stride[0] + to * y->stride[1]] = w.index[d];
        to++;
    }
    return true;
}

/* --- Unique --- */

struct unique {
    int axis; /* -1: unique elements instead of slices */
    enum qc_distinct_order order;
};

static bool prepare_unique(struct qc_prepare *p, struct qc_status *st)
{
    struct unique *u = QC_NEW_STATE(p, struct unique, st);
    if (!u) return false;
    *u = (struct unique){.axis = -1, .order = qc_attr_int(p->node, "sorted", 1) ? QC_BY_VALUE : QC_BY_APPEARANCE};
    return !qc_attr_find(p->node, "axis") || qc_kernel_axis(&u->axis, p, 0, st);
}

static void put_list(const struct qc_view *y, const int64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++) ((int64_t *)y->data)[(int64_t)i * y->stride[0]] = from[i];
}

static bool run_unique(const struct qc_run *r, struct qc_status *st)
{
    const struct unique *u = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    const struct qc_tensor t = tensor_of_view(x);
    struct qc_arena *a = qc_arena_new();
    struct qc_distinct d;
    bool ok = a ? qc_distinct_of(&d, &t, u->axis, u->order, a, st) : qc_fail_memory(st, t.count);
    if (ok && y->dim[u->axis < 0 ? 0 : u->axis] != (int64_t)d.count)
        ok = qc_fail(st, QC_BAD_INPUT, "%zu elements are distinct, which does not match the shape of the result",
                     d.count);
    for (size_t k = 0; ok && k < d.count; k++) {
        if (u->axis < 0) {
            memcpy(qc_at(y, (int64_t)k * y->stride[0]), qc_at(x, d.first[k]), qc_dtype_size(y->dtype));
            continue;
        }
        const struct qc_view to = qc_view_part(y, u->axis, (int64_t)k, 1),
                             from = qc_view_part(x, u->axis, d.first[k], 1);
        qc_view_copy(&to, &from);
    }
    if (ok && r->output_count > 1) put_list(&r->out[1], d.first, d.count);
    if (ok && r->output_count > 2) put_list(&r->out[2], d.inverse, d.items);
    if (ok && r->output_count > 3) put_list(&r->out[3], d.repeats, d.count);
    qc_arena_free(a);
    return ok;
}

QC_KERNEL(trilu, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_trilu, .run = run_trilu);
QC_KERNEL(eye_like, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_eye, .run = run_eye);
QC_KERNEL(one_hot, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_axis_of_result, .run = run_one_hot);
QC_KERNEL(reverse_sequence, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_reverse, .run = run_reverse);
QC_KERNEL(compress, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_compress, .run = run_compress);
QC_KERNEL(non_zero, .halves = true, .order = QC_ORDER_ANY, .run = run_non_zero);
QC_KERNEL(unique, .halves = true, .order = QC_ORDER_ROW, .prepare = prepare_unique, .run = run_unique);

/* NonMaxSuppression-11: the shape of the result gives the number of selected boxes. */

static bool prepare_boxes(struct qc_prepare *p, struct qc_status *st)
{
    bool *centred = QC_NEW_STATE(p, bool, st);
    if (centred) *centred = qc_attr_int(p->node, "center_point_box", 0) != 0;
    return centred != NULL;
}

static bool run_boxes(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *y = &r->out[0];
    struct qc_tensor in[5];
    const struct qc_tensor *limit[3] = {NULL};
    for (unsigned i = 0; i < r->input_count && i < 5; i++) {
        in[i] = tensor_of_view(&r->in[i]);
        if (i > 1 && r->in[i].rank >= 0) limit[i - 2] = &in[i];
    }
    struct qc_boxes b = {.boxes = &in[0], .scores = &in[1], .centred = *(const bool *)r->state};
    qc_boxes_limits(&b, limit[0], limit[1], limit[2]);
    struct qc_arena *a = qc_arena_new();
    int64_t *list = NULL;
    size_t count = 0;
    bool ok = a ? qc_boxes_select(&list, &count, &b, a, st) : qc_fail_memory(st, sizeof b);
    if (ok && (int64_t)count != y->dim[0])
        ok = qc_fail(st, QC_BAD_INPUT, "%zu boxes are selected, which does not match the shape of the result", count);
    for (size_t i = 0; ok && i < 3 * count; i++)
        ((int64_t *)y->data)[(int64_t)(i / 3) * y->stride[0] + (int64_t)(i % 3) * y->stride[1]] = list[i];
    qc_arena_free(a);
    return ok;
}

QC_KERNEL(non_max_suppression, .order = QC_ORDER_ROW, .prepare = prepare_boxes, .run = run_boxes);
