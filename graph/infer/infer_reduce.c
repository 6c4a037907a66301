// SPDX-License-Identifier: Apache-2.0
/* Reductions: ONNX Reduce*-13 with the axes as an attribute, ArgMax-13. */
#include <inttypes.h>

#include "graph/infer/infer_help.h"

static void drop_or_keep(struct qc_shape *out, const struct qc_shape *in, const bool has[QC_RANK_MAX], bool keep)
{
    struct qc_shape s = {.rank = 0};
    for (int i = 0; i < in->rank; i++) {
        if (!has[i])
            s.dim[s.rank++] = in->dim[i];
        else if (keep)
            s.dim[s.rank++] = 1;
    }
    *out = s;
}

/* Sets a result for `count` unknown axes: each is removed, or becomes 1 with `keep`. */
static bool set_unknown(struct qc_infer *c, int64_t count, bool keep, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    struct qc_shape s;
    const int64_t rank = keep ? x->shape.rank : count > 0 && count <= x->shape.rank ? x->shape.rank - count : -1;
    return qc_shape_free(&s, rank, st) && qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_reduce(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const int64_t *axes;
    size_t count = qc_attr_ints(c->node, "axes", &axes);
    bool keep = qc_attr_int(c->node, "keepdims", 1) != 0, noop = qc_attr_int(c->node, "noop_with_empty_axes", 0) != 0;
    bool has[QC_RANK_MAX];
    struct qc_shape s = x->shape;
    struct qc_list given = {.known = true};
    if (x->dtype == QC_BOOL && c->node->op != QC_OP_ReduceMax && c->node->op != QC_OP_ReduceMin)
        return qc_fail(st, QC_UNSUPPORTED, "reduction of bool is not handled");
    if (qc_has_in(c, 1)) {
        if (!qc_infer_list(&given, c, 1, "the axes", st)) return false;
        axes = given.value;
        count = given.known ? (size_t)given.count : 0;
    }
    if (s.rank >= 0 && !given.known) return set_unknown(c, given.count, keep, st);
    if (s.rank < 0) return qc_infer_set(c, 0, x->dtype, &s, st);
    if (!qc_infer_axes(has, count, axes, s.rank, st)) return false;
    for (int i = 0; count == 0 && i < s.rank; i++) has[i] = !noop;
    drop_or_keep(&s, &x->shape, has, keep);
    return qc_infer_set(c, 0, x->dtype, &s, st);
}

bool qc_infer_arg_reduce(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape;
    bool keep = qc_attr_int(c->node, "keepdims", 1) != 0, has[QC_RANK_MAX] = {false};
    char text[QC_SHAPE_TEXT];
    struct qc_shape s = *x;
    int axis = 0;
    if (s.rank < 0) return qc_infer_set(c, 0, QC_I64, &s, st);
    if (!qc_axis_of(&axis, qc_attr_int(c->node, "axis", 0), s.rank, st)) return false;
    if (x->dim[axis] == 0)
        return qc_fail(st, QC_BAD_INPUT, "nothing to choose from along axis %d of %s", axis, qc_shape_text(text, x));
    has[axis] = true;
    drop_or_keep(&s, x, has, keep);
    return qc_infer_set(c, 0, QC_I64, &s, st);
}
