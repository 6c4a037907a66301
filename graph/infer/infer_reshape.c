// SPDX-License-Identifier: Apache-2.0
/* Operators that change the shape of the same elements, and operators that return shapes. */
#include <inttypes.h>

#include "base/checked.h"
#include "graph/infer/infer_help.h"

/* Gives the product of the fixed dimensions, and the number of free ones. */
static bool product_of(int64_t *fixed, int *freedom, const struct qc_shape *s, struct qc_status *st)
{
    *fixed = 1;
    *freedom = 0;
    for (int i = 0; i < s->rank; i++) {
        if (s->dim[i] == QC_FREE)
            ++*freedom;
        else if (!qc_mul_i64(fixed, *fixed, s->dim[i]))
            return qc_fail(st, QC_BAD_INPUT, "shape %s has too many elements", QC_SHAPE_STR(s));
    }
    return true;
}

bool qc_infer_reshape(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    bool zero_is_zero = qc_attr_int(c->node, "allowzero", 0) != 0;
    struct qc_list list;
    struct qc_shape s;
    int infer_at = -1, copied = 0, zeros = 0;
    if (!qc_infer_list(&list, c, 1, "the shape", st) || !qc_shape_free(&s, list.count, st)) return false;
    if (!list.known) return qc_infer_set(c, 0, x->dtype, &s, st);
    for (int i = 0; i < s.rank; i++) {
        int64_t d = list.value[i];
        if (d < -1)
            return qc_fail(st, QC_BAD_INPUT, "dimension %d of the shape is %" PRId64 ", expected -1 or more", i, d);
        if (d == -1) {
            if (infer_at >= 0) return qc_fail(st, QC_BAD_INPUT, "the shape has -1 twice");
            infer_at = i;
        } else if (d == 0 && !zero_is_zero) {
            if (x->shape.rank >= 0 && i >= x->shape.rank)
                return qc_fail(st, QC_BAD_INPUT, "dimension %d of the shape is 0 (copy), but the input has rank %d", i,
                               x->shape.rank);
            d = x->shape.rank < 0 ? QC_FREE : x->shape.dim[i];
            copied += d == QC_FREE;
        } else {
            zeros += d == 0;
        }
        s.dim[i] = d;
    }
    if (infer_at >= 0 && zeros) return qc_fail(st, QC_BAD_INPUT, "-1 cannot be resolved in a shape with a dimension 0");
    if (x->shape.rank >= 0) {
        /* -1 becomes the quotient if it is known. Free dimensions that are copied from the input cancel. */
        int64_t from, to;
        int free_from, free_to;
        if (!product_of(&from, &free_from, &x->shape, st) || !product_of(&to, &free_to, &s, st)) return false;
        const bool exact = free_from == copied;
        if (infer_at >= 0 && to == 0)
            return qc_fail(st, QC_BAD_INPUT, "-1 cannot be resolved in a shape with a dimension 0");
        if (exact && infer_at >= 0 && from % to == 0)
            s.dim[infer_at] = from / to;
        else if (exact ? infer_at >= 0 || from != to : infer_at < 0 && from != 0 && to % from != 0)
            return qc_fail(st, QC_BAD_INPUT, "input %s cannot be reshaped to %s", QC_SHAPE_STR(&x->shape),
                           QC_SHAPE_STR(&s));
    }
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_flatten(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    int64_t axis = qc_attr_int(c->node, "axis", 1);
    struct qc_shape s = QC_SHAPE(QC_FREE, QC_FREE);
    int rank = x->shape.rank;
    if (rank < 0) return qc_infer_set(c, 0, x->dtype, &s, st);
    if (axis < -rank || axis > rank)
        return qc_fail(st, QC_BAD_INPUT, "axis %" PRId64 " is outside [%d, %d] for %s", axis, -rank, rank,
                       QC_SHAPE_STR(&x->shape));
    if (axis < 0) axis += rank;
    s.dim[0] = s.dim[1] = 1;
    for (int i = 0; i < rank; i++)
        if (!qc_dim_times(&s.dim[i >= axis], s.dim[i >= axis], x->shape.dim[i]))
            return qc_fail(st, QC_BAD_INPUT, "shape %s has too many elements", QC_SHAPE_STR(&x->shape));
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_squeeze(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const struct qc_shape *in = &x->shape;
    struct qc_list axes = {.known = true, .count = 0};
    struct qc_shape s = QC_SHAPE_UNKNOWN;
    bool has[QC_RANK_MAX], given = qc_has_in(c, 1);
    if (given && !qc_infer_list(&axes, c, 1, "axes", st)) return false;
    if (in->rank < 0 || (!given && !qc_shape_fixed(in))) return qc_infer_set(c, 0, x->dtype, &s, st);
    if (!axes.known) {
        if (axes.count > in->rank)
            return qc_fail(st, QC_BAD_INPUT, "%" PRId64 " axes for an input %s", axes.count, QC_SHAPE_STR(in));
        return qc_shape_free(&s, axes.count == QC_FREE ? -1 : in->rank - axes.count, st) &&
               qc_infer_set(c, 0, x->dtype, &s, st);
    }
    if (!qc_infer_axes(has, (size_t)axes.count, axes.value, in->rank, st)) return false;
    s.rank = 0;
    for (int i = 0; i < in->rank; i++) {
        if (!given) has[i] = in->dim[i] == 1;
        if (has[i] && in->dim[i] != 1 && in->dim[i] != QC_FREE)
            return qc_fail(st, QC_BAD_INPUT, "axis %d of %s is not 1 and cannot be squeezed", i, QC_SHAPE_STR(in));
        if (!has[i]) s.dim[s.rank++] = in->dim[i];
    }
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_unsqueeze(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    struct qc_list axes;
    struct qc_shape s;
    bool has[QC_RANK_MAX];
    if (!qc_infer_list(&axes, c, 1, "axes", st)) return false;
    bool ranked = x->shape.rank >= 0 && axes.count != QC_FREE;
    if (!qc_shape_free(&s, ranked ? x->shape.rank + axes.count : -1, st)) return false;
    if (ranked && axes.known) {
        if (!qc_infer_axes(has, (size_t)axes.count, axes.value, s.rank, st)) return false;
        for (int i = 0, from = 0; i < s.rank; i++) s.dim[i] = has[i] ? 1 : x->shape.dim[from++];
    }
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_transpose(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const int64_t *perm;
    size_t count = qc_attr_ints(c->node, "perm", &perm);
    struct qc_shape s = x->shape;
    if (s.rank < 0 && count && !qc_shape_free(&s, (int64_t)count, st)) return false;
    if (count && count != (size_t)s.rank)
        return qc_fail(st, QC_BAD_INPUT, "perm has %zu entries, expected %d for %s", count, s.rank,
                       QC_SHAPE_STR(&x->shape));
    unsigned seen = 0;
    for (int i = 0; i < s.rank; i++) {
        int64_t from = count ? perm[i] : s.rank - 1 - i;
        if (from < 0 || from >= s.rank || seen & 1u << from)
            return qc_fail(st, QC_BAD_INPUT, "perm is not a permutation of 0 to %d: entry %d is %" PRId64, s.rank - 1,
                           i, from);
        seen |= 1u << from;
        s.dim[i] = x->shape.rank < 0 ? QC_FREE : x->shape.dim[from];
    }
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

static bool check_block(int64_t *block, const struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape;
    *block = qc_attr_int(c->node, "blocksize", 0);
    if (*block < 1 || *block > INT16_MAX)
        return qc_fail(st, QC_BAD_INPUT, "blocksize %" PRId64 " is not possible", *block);
    if (x->rank >= 0 && x->rank != 4)
        return qc_fail(st, QC_BAD_INPUT, "input [N,C,H,W] expected, got %s", QC_SHAPE_STR(x));
    return true;
}

bool qc_infer_depth_to_space(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    struct qc_shape s = QC_SHAPE(QC_FREE, QC_FREE, QC_FREE, QC_FREE);
    int64_t block;
    if (!check_block(&block, c, st)) return false;
    if (x->shape.rank >= 0) s = x->shape;
    if (s.dim[1] != QC_FREE) {
        if (s.dim[1] % (block * block))
            return qc_fail(st, QC_BAD_INPUT, "channels of %s do not divide by blocksize^2 = %" PRId64, QC_SHAPE_STR(&s),
                           block * block);
        s.dim[1] /= block * block;
    }
    if (!qc_dim_times(&s.dim[2], s.dim[2], block) || !qc_dim_times(&s.dim[3], s.dim[3], block))
        return qc_fail(st, QC_BAD_INPUT, "%s times blocksize %" PRId64 " is too large", QC_SHAPE_STR(&x->shape), block);
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_space_to_depth(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    struct qc_shape s = QC_SHAPE(QC_FREE, QC_FREE, QC_FREE, QC_FREE);
    int64_t block;
    if (!check_block(&block, c, st)) return false;
    if (x->shape.rank >= 0) s = x->shape;
    for (int i = 2; i < 4; i++) {
        if (s.dim[i] == QC_FREE) continue;
        if (s.dim[i] % block)
            return qc_fail(st, QC_BAD_INPUT, "height and width of %s do not divide by blocksize %" PRId64,
                           QC_SHAPE_STR(&x->shape), block);
        s.dim[i] /= block;
    }
    if (!qc_dim_times(&s.dim[1], s.dim[1], block * block))
        return qc_fail(st, QC_BAD_INPUT, "%s times blocksize %" PRId64 " is too large", QC_SHAPE_STR(&x->shape), block);
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_shape(struct qc_infer *c, struct qc_status *st)
{
    int64_t rank = qc_in(c, 0)->shape.rank, start = qc_attr_int(c->node, "start", 0),
            end = qc_attr_int(c->node, "end", INT64_MAX);
    struct qc_shape s = QC_SHAPE(QC_FREE);
    if (rank >= 0) { /* Shape-15: bounds are clamped to [0, rank] */
        if (start < 0) start += rank;
        if (end < 0) end += rank;
        start = start < 0 ? 0 : start > rank ? rank : start;
        end = end < start ? start : end > rank ? rank : end;
        s.dim[0] = end - start;
    }
    return qc_infer_set(c, 0, QC_I64, &s, st);
}

bool qc_infer_size(struct qc_infer *c, struct qc_status *st)
{
    return qc_infer_set(c, 0, QC_I64, &QC_SCALAR, st);
}
