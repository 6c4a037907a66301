// SPDX-License-Identifier: Apache-2.0
/* Elementwise operators, and operators that keep the shape of their input. */
#include <inttypes.h>
#include <string.h>

#include "graph/core/function.h"
#include "graph/infer/infer_help.h"

bool qc_infer_float_unary(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    return qc_infer_same_float(c, 0, 1, st) && qc_infer_set(c, 0, x->dtype, &x->shape, st);
}

/* Fails if the attribute is not a valid function, so that every graph with the node can be run and written. */
bool qc_infer_table(struct qc_infer *c, struct qc_status *st)
{
    struct qc_function f;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!qc_function_parse(&f, qc_attr_string(c->node, "f", ""), a, st)) return false;
    if (!qc_infer_affine(c) && qc_in(c, 0)->dtype != QC_F32)
        return qc_fail(st, QC_BAD_INPUT, "f32 expected, got %s", qc_dtype_info(qc_in(c, 0)->dtype)->name);
    return qc_infer_set(c, 0, qc_in(c, 0)->dtype, &qc_in(c, 0)->shape, st);
}

static bool check_parameters(const struct qc_infer *c, const char *const *names, struct qc_status *st)
{
    if (!qc_infer_same_float(c, 0, 1, st)) return false;
    for (unsigned i = 1; i < c->node->input_count; i++) {
        /* One value per channel (dimension 1) of input 0. */
        const struct qc_shape *x = &qc_in(c, 0)->shape, *s = &qc_in(c, i)->shape;
        if (x->rank >= 0 && s->rank >= 0) {
            int64_t channels = x->rank > 1 ? x->dim[1] : 1, met;
            if (s->rank != 1 || !qc_dim_meet(&met, channels, s->dim[0]))
                return qc_fail(st, QC_BAD_INPUT, "%s must have one value per channel of the input %s, got shape %s",
                               names[i - 1], QC_SHAPE_STR(x), QC_SHAPE_STR(s));
        }
    }
    return true;
}

static bool check_same(const struct qc_infer *c, struct qc_status *st)
{
    static const char *const batch_norm[] = {"scale", "bias", "mean", "variance"}, *const instance_norm[] = {"scale",
                                                                                                             "bias"};
    enum qc_op op = c->node->op;
    if (op == QC_OP_Clip)
        return qc_infer_same_dtype(c, 0, c->node->input_count, st) && qc_infer_scalar(c, 1, "the lower bound", st) &&
               qc_infer_scalar(c, 2, "the upper bound", st);
    if (op == QC_OP_BatchNormalization) return check_parameters(c, batch_norm, st);
    if (op == QC_OP_InstanceNormalization) return check_parameters(c, instance_norm, st);
    if (op == QC_OP_LayerNormalization) {
        if (!qc_infer_same_float(c, 0, 1, st)) return false;
        /* Scale and bias must broadcast to the normalised dimensions x[axis:]. */
        const struct qc_shape *x = &qc_in(c, 0)->shape;
        int axis = 0;
        if (x->rank < 0) return true;
        if (!qc_axis_of(&axis, qc_attr_int(c->node, "axis", -1), x->rank, st)) return false;
        for (unsigned i = 1; i < c->node->input_count; i++) {
            if (!qc_has_in(c, i)) continue;
            const struct qc_shape *s = &qc_in(c, i)->shape;
            struct qc_shape both;
            if (s->rank < 0) continue;
            bool fits = qc_shape_broadcast(&both, x, s) && both.rank == x->rank;
            for (int k = 0; fits && k < x->rank; k++) fits = x->dim[k] == QC_FREE || both.dim[k] == x->dim[k];
            if (!fits)
                return qc_fail(st, QC_BAD_INPUT, "%s of shape %s does not broadcast to the input %s from axis %d",
                               i == 1 ? "scale" : "bias", QC_SHAPE_STR(s), QC_SHAPE_STR(x), axis);
        }
        return true;
    }
    if (op == QC_OP_LpNormalization || op == QC_OP_Softmax || op == QC_OP_LogSoftmax || op == QC_OP_Hardmax) {
        if (!qc_infer_same_float(c, 0, 1, st)) return false;
        const struct qc_shape *x = &qc_in(c, 0)->shape;
        int axis = 0;
        if (x->rank <= 0) return true;
        return qc_axis_of(&axis, qc_attr_int(c->node, "axis", -1), x->rank, st);
    }
    if (op == QC_OP_LRN) {
        if (!qc_infer_same_float(c, 0, 1, st)) return false;
        const struct qc_shape *x = &qc_in(c, 0)->shape;
        int64_t size = qc_attr_int(c->node, "size", 0);
        if (size < 1) return qc_fail(st, QC_BAD_INPUT, "attribute size must be at least 1, got %" PRId64, size);
        if (x->rank >= 0 && x->rank < 2)
            return qc_fail(st, QC_BAD_INPUT, "input [N,C,...] expected, got %s", QC_SHAPE_STR(x));
        return true;
    }
    if (op == QC_OP_CumSum || op == QC_OP_CumProd) {
        struct qc_list axis;
        int at;
        if (!qc_infer_list(&axis, c, 1, "the axis", st)) return false;
        if (axis.count != QC_FREE && axis.count != 1)
            return qc_fail(st, QC_BAD_INPUT, "the axis must be one number, got %" PRId64, axis.count);
        return !axis.known || qc_in(c, 0)->shape.rank < 0 ||
               qc_axis_of(&at, axis.value[0], qc_in(c, 0)->shape.rank, st);
    }
    if (op == QC_OP_Not && qc_in(c, 0)->dtype != QC_BOOL)
        return qc_fail(st, QC_BAD_INPUT, "bool input expected, got %s", qc_dtype_info(qc_in(c, 0)->dtype)->name);
    return true;
}

bool qc_infer_same(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    return check_same(c, st) && qc_infer_set(c, 0, x->dtype, &x->shape, st);
}

/* Numpy broadcasting of inputs first .. last. */
static bool broadcast_inputs(struct qc_shape *out, const struct qc_infer *c, unsigned first, unsigned last,
                             struct qc_status *st)
{
    struct qc_shape s = qc_in(c, first)->shape;
    for (unsigned i = first + 1; i <= last; i++) {
        if (!qc_has_in(c, i)) return qc_fail(st, QC_BAD_INPUT, "input %u is missing", i);
        const struct qc_shape *next = &qc_in(c, i)->shape;
        struct qc_shape both;
        if (!qc_shape_broadcast(&both, &s, next))
            return qc_fail(st, QC_BAD_INPUT, "shapes %s and %s do not broadcast", QC_SHAPE_STR(&s), QC_SHAPE_STR(next));
        s = both;
    }
    *out = s;
    return true;
}

bool qc_infer_broadcast(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_shape *x = &qc_in(c, 0)->shape;
    struct qc_shape s;
    enum qc_op op = c->node->op;
    enum qc_dtype t = qc_in(c, 0)->dtype;
    bool logical = op == QC_OP_And || op == QC_OP_Or || op == QC_OP_Xor;
    if (logical != (t == QC_BOOL) && !qc_infer_affine(c))
        return qc_fail(st, QC_BAD_INPUT, "%s inputs expected, got %s", logical ? "bool" : "numeric",
                       qc_dtype_info(t)->name);
    const bool bits = op == QC_OP_BitwiseAnd || op == QC_OP_BitwiseOr || op == QC_OP_BitwiseXor || op == QC_OP_BitShift;
    if (bits && qc_dtype_info(t)->is_float)
        return qc_fail(st, QC_BAD_INPUT, "integers are expected, got %s", qc_dtype_info(t)->name);
    const char *way = qc_attr_string(c->node, "direction", "");
    if (op == QC_OP_BitShift && strcmp(way, "LEFT") != 0 && strcmp(way, "RIGHT") != 0)
        return qc_fail(st, QC_BAD_INPUT, "direction \"%.40s\" is neither LEFT nor RIGHT", way);
    if ((op == QC_OP_PRelu || op == QC_OP_Mean) && !qc_infer_same_float(c, 0, 1, st)) return false;
    if (!qc_infer_same_dtype(c, 0, c->node->input_count, st) ||
        !broadcast_inputs(&s, c, 0, c->node->input_count - 1, st))
        return false;
    if (c->node->op == QC_OP_PRelu) { /* the slope broadcasts to the input, not the other way */
        bool fits = x->rank < 0 || s.rank < 0 || s.rank == x->rank;
        for (int i = 0; fits && i < x->rank && s.rank >= 0; i++) fits = x->dim[i] == QC_FREE || x->dim[i] == s.dim[i];
        if (!fits)
            return qc_fail(st, QC_BAD_INPUT, "slope of shape %s does not broadcast to the input %s",
                           QC_SHAPE_STR(&qc_in(c, 1)->shape), QC_SHAPE_STR(x));
        s = *x;
    }
    return qc_infer_set(c, 0, qc_in(c, 0)->dtype, &s, st);
}

bool qc_infer_power(struct qc_infer *c, struct qc_status *st)
{
    struct qc_shape s; /* the exponent may be of another type */
    return broadcast_inputs(&s, c, 0, 1, st) && qc_infer_set(c, 0, qc_in(c, 0)->dtype, &s, st);
}

bool qc_infer_compare(struct qc_infer *c, struct qc_status *st)
{
    struct qc_shape s;
    return qc_infer_same_dtype(c, 0, 2, st) && broadcast_inputs(&s, c, 0, 1, st) && qc_infer_set(c, 0, QC_BOOL, &s, st);
}

bool qc_infer_where(struct qc_infer *c, struct qc_status *st)
{
    struct qc_shape s;
    if (qc_in(c, 0)->dtype != QC_BOOL)
        return qc_fail(st, QC_BAD_INPUT, "bool condition expected, got %s", qc_dtype_info(qc_in(c, 0)->dtype)->name);
    return qc_infer_same_dtype(c, 1, 2, st) && broadcast_inputs(&s, c, 0, 2, st) &&
           qc_infer_set(c, 0, qc_in(c, 1)->dtype, &s, st);
}

bool qc_infer_bit_cast(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_type *x = qc_in(c, 0);
    const int64_t to = qc_attr_int(c->node, "to", 0);
    const enum qc_dtype t = to > 0 && to < 1000 ? qc_dtype_from_onnx((int)to) : QC_NONE;
    if (t == QC_NONE) return qc_fail(st, QC_UNSUPPORTED, "data type %" PRId64 " is not handled", to);
    if (qc_dtype_info(t)->bits != qc_dtype_info(x->dtype)->bits)
        return qc_fail(st, QC_BAD_INPUT, "%s and %s differ in size", qc_dtype_info(x->dtype)->name,
                       qc_dtype_info(t)->name);
    return qc_infer_set(c, 0, t, &x->shape, st);
}

bool qc_infer_to_bool(struct qc_infer *c, struct qc_status *st)
{
    return qc_infer_same_float(c, 0, 1, st) && qc_infer_set(c, 0, QC_BOOL, &qc_in(c, 0)->shape, st);
}

bool qc_infer_cast(struct qc_infer *c, struct qc_status *st)
{
    int64_t to = qc_attr_int(c->node, "to", 0);
    enum qc_dtype t = to > 0 && to < 1000 ? qc_dtype_from_onnx((int)to) : QC_NONE;
    if (t == QC_NONE) return qc_fail(st, QC_UNSUPPORTED, "cast to data type %" PRId64 " is not handled", to);
    return qc_infer_set(c, 0, t, &qc_in(c, 0)->shape, st);
}

/* Reductions: ONNX Reduce*-13 with the axes as an attribute, ArgMax-13. */

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
    if (s.rank >= 0 && !given.known) {
        /* The axes are unknown: each is removed, or becomes 1 with `keep`. */
        struct qc_shape result;
        const int64_t rank = keep                                              ? x->shape.rank
                             : given.count > 0 && given.count <= x->shape.rank ? x->shape.rank - given.count
                                                                               : -1;
        return qc_shape_free(&result, rank, st) && qc_infer_set(c, 0, x->dtype, &result, st);
    }
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
    struct qc_shape s = *x;
    int axis = 0;
    if (s.rank < 0) return qc_infer_set(c, 0, QC_I64, &s, st);
    if (!qc_axis_of(&axis, qc_attr_int(c->node, "axis", 0), s.rank, st)) return false;
    if (x->dim[axis] == 0)
        return qc_fail(st, QC_BAD_INPUT, "nothing to choose from along axis %d of %s", axis, QC_SHAPE_STR(x));
    has[axis] = true;
    drop_or_keep(&s, x, has, keep);
    return qc_infer_set(c, 0, QC_I64, &s, st);
}
