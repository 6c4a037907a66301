// SPDX-License-Identifier: Apache-2.0
#include "graph/infer/infer_help.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"

bool qc_infer_set(struct qc_infer *c, unsigned output, enum qc_dtype dtype, const struct qc_shape *shape,
                  struct qc_status *st)
{
    size_t bytes = qc_dtype_size(dtype);
    for (int i = 0; i < shape->rank; i++) {
        size_t d = shape->dim[i] > 0 ? (size_t)shape->dim[i]
                                     : 1; /* dimensions of 0 are left out, because strides must fit as well */
        if (!qc_mul_size(&bytes, bytes, d) || bytes > SIZE_MAX / 4)
            return qc_fail(st, QC_BAD_INPUT, "result of shape %s does not fit in memory", QC_SHAPE_STR(shape));
    }
    c->out[output].dtype = dtype;
    c->out[output].shape = *shape;
    return true;
}

bool qc_infer_list(struct qc_list *out, const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st)
{
    const struct qc_type *t = qc_in(c, i);
    const struct qc_tensor *k = qc_in_constant(c, i);
    if (!qc_infer_index_type(c, i, what, st)) return false;
    if (t->shape.rank > 1)
        return qc_fail(st, QC_BAD_INPUT, "%s must be a list, got shape %s", what, QC_SHAPE_STR(&t->shape));
    out->known = k != NULL;
    out->count = t->shape.rank < 0 ? QC_FREE : t->shape.rank == 0 ? 1 : t->shape.dim[0];
    if (out->count > QC_LIST_MAX)
        return qc_fail(st, QC_BAD_INPUT, "%s has %" PRId64 " values, expected at most %d", what, out->count,
                       (int)QC_LIST_MAX);
    for (size_t j = 0; k && j < k->count; j++) out->value[j] = qc_tensor_int(k, j);
    return true;
}

bool qc_axis_of(int *axis, int64_t value, int rank, struct qc_status *st)
{
    if (value < -rank || value >= rank)
        return qc_fail(st, QC_BAD_INPUT, "axis %" PRId64 " is outside [%d, %d] for a tensor of rank %d", value, -rank,
                       rank - 1, rank);
    *axis = (int)(value < 0 ? value + rank : value);
    return true;
}

bool qc_infer_axes(bool has[QC_RANK_MAX], size_t count, const int64_t *axes, int rank, struct qc_status *st)
{
    for (int i = 0; i < QC_RANK_MAX; i++) has[i] = false;
    for (size_t j = 0; j < count; j++) {
        int axis = 0;
        if (!qc_axis_of(&axis, axes[j], rank, st)) return false;
        if (has[axis]) return qc_fail(st, QC_BAD_INPUT, "axis %d is given twice", axis);
        has[axis] = true;
    }
    return true;
}

bool qc_dim_times(int64_t *out, int64_t a, int64_t b)
{
    if (a == QC_FREE || b == QC_FREE) {
        *out = QC_FREE;
        return true;
    }
    return qc_mul_i64(out, a, b);
}

bool qc_shape_free(struct qc_shape *out, int64_t rank, struct qc_status *st)
{
    if (rank > QC_RANK_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "tensors of rank %" PRId64 " are not handled; the largest rank is %d", rank,
                       (int)QC_RANK_MAX);
    *out = (struct qc_shape){.rank = rank < 0 ? -1 : (int)rank};
    for (int i = 0; i < out->rank; i++) out->dim[i] = QC_FREE;
    return true;
}

bool qc_infer_affine(const struct qc_infer *c)
{
    for (unsigned i = 0; i < c->node->input_count; i++)
        if (qc_has_in(c, i) && qc_in(c, i)->qparams != QC_REAL) return true;
    return false;
}

bool qc_infer_same_dtype(const struct qc_infer *c, unsigned first, unsigned count, struct qc_status *st)
{
    if (qc_infer_affine(c)) return true;
    enum qc_dtype expected = qc_in(c, first)->dtype;
    for (unsigned i = first + 1; i < first + count; i++)
        if (qc_has_in(c, i) && qc_in(c, i)->dtype != expected)
            return qc_fail(st, QC_BAD_INPUT, "inputs of one type expected, got %s and (input %u) %s",
                           qc_dtype_info(expected)->name, i, qc_dtype_info(qc_in(c, i)->dtype)->name);
    return true;
}

bool qc_infer_same_float(const struct qc_infer *c, unsigned first, unsigned count, struct qc_status *st)
{
    enum qc_dtype t = qc_in(c, first)->dtype;
    if (!qc_infer_affine(c) && !qc_dtype_info(t)->is_float)
        return qc_fail(st, QC_BAD_INPUT, "floating-point input expected, got %s", qc_dtype_info(t)->name);
    return qc_infer_same_dtype(c, first, count, st);
}

bool qc_infer_misfit(const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st)
{
    return qc_fail(st, QC_BAD_INPUT, "%s of shape %s does not fit the input %s", what,
                   QC_SHAPE_STR(&qc_in(c, i)->shape), QC_SHAPE_STR(&qc_in(c, 0)->shape));
}

bool qc_infer_index_type(const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st)
{
    enum qc_dtype t = qc_in(c, i)->dtype;
    return t == QC_I64 || t == QC_I32 ||
           qc_fail(st, QC_BAD_INPUT, "%s must be i64, got %s", what, qc_dtype_info(t)->name);
}

bool qc_infer_scalar(const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st)
{
    if (!qc_has_in(c, i)) return true;
    const struct qc_shape *s = &qc_in(c, i)->shape;
    if (s->rank <= 0 || (s->rank == 1 && (s->dim[0] == 1 || s->dim[0] == QC_FREE))) return true;
    return qc_fail(st, QC_BAD_INPUT, "%s must be a scalar, got shape %s", what, QC_SHAPE_STR(s));
}

bool qc_infer_one_element(const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st)
{
    if (!qc_has_in(c, i)) return true;
    const struct qc_shape *s = &qc_in(c, i)->shape;
    for (int d = 0; d < s->rank; d++)
        if (s->dim[d] != 1 && s->dim[d] != QC_FREE)
            return qc_fail(st, QC_BAD_INPUT, "%s must have one element, got shape %s", what, QC_SHAPE_STR(s));
    return true;
}

bool qc_infer_one_of(const struct qc_infer *c, const char *attribute, const char *otherwise, const char *const *handled,
                     enum qc_code code, struct qc_status *st)
{
    const char *s = qc_attr_string(c->node, attribute, otherwise);
    for (; *handled; handled++)
        if (strcmp(s, *handled) == 0) return true;
    return qc_fail(st, code, "%s \"%.40s\" %s", attribute, s,
                   code == QC_UNSUPPORTED ? "is not handled" : "does not exist");
}

enum qc_dtype qc_float_type_of(enum qc_dtype t)
{
    return qc_dtype_info(t)->is_float ? t : QC_F32;
}

bool qc_infer_scales(const struct qc_infer *c, qc_id scale, bool of_int32, struct qc_status *st)
{
    const struct qc_tensor *t = qc_constant_of(c->graph, scale);
    const double least = of_int32 ? 0 : (double)QC_SCALE_MIN;
    if (!t || !qc_dtype_info(t->dtype)->is_float) return true;
    for (size_t i = 0; i < t->count; i++) {
        const double s = qc_tensor_float(t, i);
        if (s >= least && s <= (double)FLT_MAX) continue;
        const char *name = c->graph->values[scale].name;
        return qc_fail(st, QC_BAD_INPUT, "element %zu of scale '%.200s' is %g: it must be finite and %s", i,
                       name ? name : "", s, of_int32 ? "not negative" : "positive, not denormal");
    }
    return true;
}
