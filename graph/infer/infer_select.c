// SPDX-License-Identifier: Apache-2.0
/* Operators that select, repeat or join elements. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "graph/infer/infer_help.h"

struct slice_lists {
    struct qc_list starts, ends, axes, steps;
    bool known;
};

static bool read_slice(struct slice_lists *l, const struct qc_infer *c, struct qc_status *st)
{
    l->axes = l->steps = (struct qc_list){.known = true};
    bool has_axes = qc_has_in(c, 3), has_steps = qc_has_in(c, 4);
    if (!qc_infer_list(&l->starts, c, 1, "starts", st) || !qc_infer_list(&l->ends, c, 2, "ends", st) ||
        (has_axes && !qc_infer_list(&l->axes, c, 3, "axes", st)) ||
        (has_steps && !qc_infer_list(&l->steps, c, 4, "steps", st)))
        return false;
    l->known = l->starts.known && l->ends.known && l->axes.known && l->steps.known;
    if (!l->known) return true;
    int64_t n = l->starts.count;
    if (l->ends.count != n || (has_axes && l->axes.count != n) || (has_steps && l->steps.count != n))
        return qc_fail(st, QC_BAD_INPUT,
                       "%" PRId64 " starts, %" PRId64 " ends, %" PRId64 " axes and %" PRId64 " steps do not match", n,
                       l->ends.count, has_axes ? l->axes.count : n, has_steps ? l->steps.count : n);
    for (int64_t i = 0; i < n; i++) {
        if (!has_axes) l->axes.value[i] = i;
        if (!has_steps) l->steps.value[i] = 1;
        if (l->steps.value[i] == 0)
            return qc_fail(st, QC_BAD_INPUT, "the step of axis %" PRId64 " is 0", l->axes.value[i]);
    }
    l->axes.count = n;
    return true;
}

/* Resolves known lists on an input of known rank. A free axis that is sliced gets count QC_FREE. */
static bool resolve_slice(struct qc_slice *s, bool *sliced_free, const struct slice_lists *l, const struct qc_shape *x,
                          struct qc_status *st)
{
    bool has[QC_RANK_MAX];
    *sliced_free = false;
    if (!qc_infer_axes(has, (size_t)l->axes.count, l->axes.value, x->rank, st)) return false;
    for (int i = 0; i < QC_RANK_MAX; i++) {
        s->start[i] = 0;
        s->step[i] = 1;
        s->count[i] = x->dim[i];
    }
    for (int64_t i = 0; i < l->axes.count; i++) {
        int axis = 0;
        if (!qc_axis_of(&axis, l->axes.value[i], x->rank, st)) return false;
        if (x->dim[axis] == QC_FREE) {
            bool whole = l->starts.value[i] == 0 && l->steps.value[i] == 1 && l->ends.value[i] >= INT32_MAX;
            *sliced_free = *sliced_free || !whole;
            continue;
        }
        s->start[axis] = l->starts.value[i];
        s->step[axis] = l->steps.value[i];
        /* Slice-13: negative bounds count from the end; then the start is clamped to [0, size] (step > 0) or [0, size -
           1], the end to [0, size] or [-1, size - 1]. size is fixed, step not 0. */
        const int64_t end = l->ends.value[i];
        bool back = s->step[axis] < 0;
        int64_t low = back ? -1 : 0, high = back ? x->dim[axis] - 1 : x->dim[axis];
        int64_t from = s->start[axis] < 0 ? s->start[axis] + x->dim[axis] : s->start[axis],
                to = end < 0 ? end + x->dim[axis] : end;
        from = from < 0 ? 0 : from;
        from = from > high ? high : from; /* -1 if the axis is empty */
        to = to < low ? low : to > high ? high : to;
        uint64_t span = back ? (from > to ? (uint64_t)(from - to) : 0) : (to > from ? (uint64_t)(to - from) : 0);
        uint64_t stride = back ? -(uint64_t)s->step[axis] : (uint64_t)s->step[axis];
        s->count[axis] = span ? (int64_t)((span - 1) / stride) + 1 : 0;
        s->start[axis] = s->count[axis] ? from : 0;
        if (s->count[axis] <= 1) s->step[axis] = back ? -1 : 1; /* the step of a single element does not matter */
    }
    return true;
}

bool qc_slice_of(struct qc_slice *s, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_infer c = {.graph = g, .node = n};
    struct slice_lists l;
    struct qc_slice r;
    bool sliced_free;
    const struct qc_shape *x = &qc_in(&c, 0)->shape;
    if (!read_slice(&l, &c, st)) return false;
    if (!l.known)
        return qc_fail(st, QC_UNSUPPORTED,
                       "starts, ends, axes and steps that are computed while the model runs are not handled");
    if (x->rank < 0) return qc_fail(st, QC_UNSUPPORTED, "slicing a tensor of unknown rank is not handled");
    if (!resolve_slice(&r, &sliced_free, &l, x, st)) return false;
    if (sliced_free)
        return qc_fail(st, QC_UNSUPPORTED, "slicing a free dimension of %s is not handled", QC_SHAPE_STR(x));
    *s = r;
    return true;
}

bool qc_infer_slice(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    struct slice_lists l;
    struct qc_slice s;
    struct qc_shape shape = x->shape;
    bool sliced_free;
    if (!read_slice(&l, c, st)) return false;
    if (shape.rank < 0) return qc_infer_set(c, 0, x->dtype, &shape, st);
    if (!l.known) {
        bool has[QC_RANK_MAX];
        for (int i = 0; i < QC_RANK_MAX; i++) has[i] = true;
        if (l.axes.known && l.axes.count > 0 && !qc_infer_axes(has, (size_t)l.axes.count, l.axes.value, shape.rank, st))
            return false;
        for (int i = 0; i < shape.rank; i++)
            if (has[i]) shape.dim[i] = QC_FREE;
        return qc_infer_set(c, 0, x->dtype, &shape, st);
    }
    if (!resolve_slice(&s, &sliced_free, &l, &shape, st)) return false;
    for (int i = 0; i < shape.rank; i++) shape.dim[i] = s.count[i];
    return qc_infer_set(c, 0, x->dtype, &shape, st);
}

bool qc_infer_split(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    unsigned count = c->node->output_count;
    struct qc_list parts = {.known = false};
    struct qc_shape s = x->shape;
    bool given = qc_has_in(c, 1);
    int64_t sum = 0;
    int axis = 0;
    if (given && !qc_infer_list(&parts, c, 1, "the sizes of the parts", st)) return false;
    if (given && parts.count != QC_FREE && parts.count != (int64_t)count)
        return qc_fail(st, QC_BAD_INPUT, "%" PRId64 " part sizes for %u outputs", parts.count, count);
    if (s.rank >= 0 && !qc_axis_of(&axis, qc_attr_int(c->node, "axis", 0), s.rank, st)) return false;
    for (unsigned k = 0; k < count; k++) {
        int64_t part = parts.known ? parts.value[k] : QC_FREE;
        if (parts.known && (part < 0 || !qc_add_i64(&sum, sum, part)))
            return qc_fail(st, QC_BAD_INPUT, "part %u has the size %" PRId64, k, part);
        if (s.rank >= 0 && !given) {
            /* Split into equal parts; with num_outputs (Split-18) the last one may be smaller. */
            const int64_t size = x->shape.dim[axis], pieces = count,
                          wanted = qc_attr_int(c->node, "num_outputs", pieces);
            const bool uneven = qc_attr_find(c->node, "num_outputs") != NULL;
            if (wanted != pieces)
                return qc_fail(st, QC_BAD_INPUT, "num_outputs is %" PRId64 " but there are %" PRId64 " outputs", wanted,
                               pieces);
            if (size != QC_FREE && size % pieces && !uneven)
                return qc_fail(st, QC_BAD_INPUT, "%" PRId64 " elements do not divide into %" PRId64 " equal parts",
                               size, pieces);
            const int64_t chunk = size / pieces + (size % pieces != 0), left = size - chunk * (int64_t)k;
            part = size == QC_FREE ? QC_FREE : left < 0 ? 0 : left < chunk ? left : chunk;
        }
        if (s.rank >= 0) s.dim[axis] = part;
        if (!qc_infer_set(c, k, x->dtype, &s, st)) return false;
    }
    if (parts.known && s.rank >= 0 && x->shape.dim[axis] != QC_FREE && sum != x->shape.dim[axis])
        return qc_fail(st, QC_BAD_INPUT, "the parts add up to %" PRId64 ", but axis %d has %" PRId64 " elements", sum,
                       axis, x->shape.dim[axis]);
    return true;
}

/* Fails unless constant indices are in [-size, size). */
static bool check_indices(const struct qc_infer *c, int64_t size, struct qc_status *st)
{
    const struct qc_tensor *t = qc_in_constant(c, 1);
    for (size_t i = 0; t && size != QC_FREE && i < t->count; i++) {
        int64_t v = qc_tensor_int(t, i);
        if (v < -size || v >= size)
            return qc_fail(st, QC_BAD_INPUT, "index %" PRId64 " is outside the axis of %" PRId64 " elements", v, size);
    }
    return true;
}

bool qc_infer_gather(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0), *at = qc_in(c, 1);
    int axis = 0;
    struct qc_shape s;
    if (!qc_infer_index_type(c, 1, "the indices", st)) return false;
    bool ranked = x->shape.rank >= 0 && at->shape.rank >= 0;
    if (x->shape.rank >= 0 && !qc_axis_of(&axis, qc_attr_int(c->node, "axis", 0), x->shape.rank, st)) return false;
    if (!qc_shape_free(&s, ranked ? x->shape.rank + at->shape.rank - 1 : -1, st)) return false;
    if (ranked) {
        int to = 0;
        if (!check_indices(c, x->shape.dim[axis], st)) return false;
        for (int i = 0; i < axis; i++) s.dim[to++] = x->shape.dim[i];
        for (int i = 0; i < at->shape.rank; i++) s.dim[to++] = at->shape.dim[i];
        for (int i = axis + 1; i < x->shape.rank; i++) s.dim[to++] = x->shape.dim[i];
    }
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_gather_elements(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape, *at = &qc_in(c, 1)->shape;
    int axis = 0;
    if (!qc_infer_index_type(c, 1, "the indices", st)) return false;
    if (x->rank >= 0) {
        if (!qc_axis_of(&axis, qc_attr_int(c->node, "axis", 0), x->rank, st)) return false;
        bool fits = at->rank < 0 || at->rank == x->rank;
        for (int i = 0; fits && i < at->rank; i++)
            fits = i == axis || at->dim[i] == QC_FREE || x->dim[i] == QC_FREE || at->dim[i] <= x->dim[i];
        if (!fits)
            return qc_fail(st, QC_BAD_INPUT, "indices %s do not fit into the input %s", QC_SHAPE_STR(at),
                           QC_SHAPE_STR(x));
        if (!check_indices(c, x->dim[axis], st)) return false;
    }
    return qc_infer_set(c, 0, qc_in(c, 0)->dtype, at, st);
}

bool qc_infer_expand(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    struct qc_list list;
    struct qc_shape target, s;
    if (!qc_infer_list(&list, c, 1, "the shape", st) || !qc_shape_free(&target, list.count, st)) return false;
    for (int i = 0; list.known && i < target.rank; i++) {
        if (list.value[i] < 0)
            return qc_fail(st, QC_BAD_INPUT, "dimension %d of the shape is %" PRId64, i, list.value[i]);
        target.dim[i] = list.value[i];
    }
    if (!qc_shape_broadcast(&s, &x->shape, &target))
        return qc_fail(st, QC_BAD_INPUT, "input %s does not expand to %s", QC_SHAPE_STR(&x->shape),
                       QC_SHAPE_STR(&target));
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_tile(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    struct qc_list repeats;
    struct qc_shape s = x->shape;
    if (!qc_infer_list(&repeats, c, 1, "the repeats", st)) return false;
    if (s.rank < 0 && !qc_shape_free(&s, repeats.count, st)) return false;
    if (repeats.count != QC_FREE && repeats.count != s.rank)
        return qc_fail(st, QC_BAD_INPUT, "%" PRId64 " repeats for an input %s", repeats.count, QC_SHAPE_STR(&s));
    for (int i = 0; i < s.rank; i++) {
        int64_t r = repeats.known ? repeats.value[i] : QC_FREE;
        if (r < 0 && repeats.known) return qc_fail(st, QC_BAD_INPUT, "axis %d is repeated %" PRId64 " times", i, r);
        if (!qc_dim_times(&s.dim[i], s.dim[i], r))
            return qc_fail(st, QC_BAD_INPUT, "%s repeated %" PRId64 " times along axis %d is too large",
                           QC_SHAPE_STR(&x->shape), r, i);
    }
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_concat(struct qc_infer *c, struct qc_status *st)
{
    struct qc_shape s = QC_SHAPE_UNKNOWN;
    bool all_known = true;
    int axis = 0;
    if (!qc_attr_find(c->node, "axis")) return qc_fail(st, QC_BAD_INPUT, "attribute axis is missing");
    if (!qc_infer_same_dtype(c, 0, c->node->input_count, st)) return false;
    for (unsigned i = 0; i < c->node->input_count; i++) {
        if (!qc_has_in(c, i)) return qc_fail(st, QC_BAD_INPUT, "input %u is missing", i);
        const struct qc_shape *x = &qc_in(c, i)->shape;
        if (x->rank < 0) {
            all_known = false;
            continue;
        }
        if (s.rank < 0) {
            s = *x;
            if (!qc_axis_of(&axis, qc_attr_int(c->node, "axis", 0), s.rank, st)) return false;
            continue;
        }
        bool fits = x->rank == s.rank;
        for (int k = 0; fits && k < s.rank; k++) {
            if (k != axis)
                fits = qc_dim_meet(&s.dim[k], s.dim[k], x->dim[k]);
            else if (s.dim[k] == QC_FREE || x->dim[k] == QC_FREE)
                s.dim[k] = QC_FREE;
            else
                fits = qc_add_i64(&s.dim[k], s.dim[k], x->dim[k]);
        }
        if (!fits)
            return qc_fail(st, QC_BAD_INPUT, "input %u of shape %s cannot be joined to %s along axis %d", i,
                           QC_SHAPE_STR(x), QC_SHAPE_STR(&s), axis);
    }
    if (s.rank >= 0 && !all_known) s.dim[axis] = QC_FREE;
    return qc_infer_set(c, 0, qc_in(c, 0)->dtype, &s, st);
}

/* Pad-13. Negative pads remove elements. Reflection needs enough elements to copy. */
bool qc_infer_pad(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const char *mode = qc_attr_string(c->node, "mode", "constant");
    bool constant = strcmp(mode, "constant") == 0, reflect = strcmp(mode, "reflect") == 0;
    struct qc_list pads;
    struct qc_shape s = x->shape;
    if (!constant && !reflect && strcmp(mode, "edge") != 0 && strcmp(mode, "wrap") != 0)
        return qc_fail(st, QC_UNSUPPORTED, "mode \"%.40s\" is not handled", mode);
    if (!qc_infer_list(&pads, c, 1, "the pads", st) || !qc_infer_one_element(c, 2, "the pad value", st)) return false;
    if (qc_has_in(c, 2) && !qc_infer_affine(c) && qc_in(c, 2)->dtype != x->dtype)
        return qc_fail(st, QC_BAD_INPUT, "pad value of type %s for an input of type %s",
                       qc_dtype_info(qc_in(c, 2)->dtype)->name, qc_dtype_info(x->dtype)->name);
    if (s.rank < 0 && pads.count != QC_FREE && pads.count % 2 == 0 && !qc_shape_free(&s, pads.count / 2, st))
        return false;
    if (pads.count != QC_FREE && pads.count != 2 * (int64_t)s.rank)
        return qc_fail(st, QC_BAD_INPUT, "%" PRId64 " pads for an input %s, expected twice its rank", pads.count,
                       QC_SHAPE_STR(&s));
    for (int i = 0; i < s.rank; i++) {
        int64_t begin = pads.known ? pads.value[i] : 0, end = pads.known ? pads.value[s.rank + i] : 0, d = s.dim[i];
        if (!pads.known || d == QC_FREE) {
            if (begin || end || !pads.known) s.dim[i] = QC_FREE;
            continue;
        }
        int64_t kept = d;
        bool fits =
            qc_add_i64(&kept, kept, begin < 0 ? begin : 0) && qc_add_i64(&kept, kept, end < 0 ? end : 0) && kept >= 0;
        fits = fits && (constant || kept > 0 || (begin <= 0 && end <= 0));
        fits = fits && (!reflect || ((begin <= 0 || begin < kept) && (end <= 0 || end < kept)));
        if (!fits || !qc_add_i64(&s.dim[i], d, begin) || !qc_add_i64(&s.dim[i], s.dim[i], end) || s.dim[i] < 0)
            return qc_fail(st, QC_BAD_INPUT, "pads of %" PRId64 " and %" PRId64 " are not possible on axis %d of %s",
                           begin, end, i, QC_SHAPE_STR(&x->shape));
    }
    return qc_infer_set(c, 0, x->dtype, &s, st);
}
