// SPDX-License-Identifier: Apache-2.0
/* If-11, Loop-11, Scan-9: types of the results follow from those of the bodies. */
#include "base/user_code.h"
#include "graph/core/body.h"
#include "graph/core/custom.h"
#include "graph/infer/infer_help.h"

static const struct qc_type *output_of(const struct qc_graph *g, unsigned k)
{
    return &qc_value(g, g->outputs[k].value)->type;
}

/* Sets the type of a state. The types of its initial value and of the body's result must agree; shapes are joined. */
static bool infer_state(struct qc_infer *c, const struct qc_bodies *b, unsigned k, unsigned input, struct qc_status *st)
{
    const struct qc_type *made = output_of(b->graph[0], b->before + k), *given = qc_in(c, input);
    const struct qc_shape shape = qc_shape_join(&given->shape, &made->shape);
    if (made->dtype != given->dtype)
        return qc_fail(st, QC_BAD_INPUT, "state %u is %s, but the body makes it %s", k,
                       qc_dtype_info(given->dtype)->name, qc_dtype_info(made->dtype)->name);
    return qc_infer_set(c, k, made->dtype, &shape, st);
}

static bool infer_stacked(struct qc_infer *c, const struct qc_bodies *b, unsigned k, int64_t count, int64_t axis,
                          struct qc_status *st)
{
    const struct qc_type *part = output_of(b->graph[0], b->before + b->states + k);
    struct qc_shape shape = QC_SHAPE_UNKNOWN;
    if (part->shape.rank >= 0) {
        const int rank = part->shape.rank + 1;
        if (rank > QC_RANK_MAX)
            return qc_fail(st, QC_UNSUPPORTED, "output %u has %d dimensions, at most %d are handled", b->states + k,
                           rank, QC_RANK_MAX);
        if (axis < -rank || axis >= rank)
            return qc_fail(st, QC_BAD_INPUT, "output %u is to be stacked along axis %lld of %d", b->states + k,
                           (long long)axis, rank);
        if (axis < 0) axis += rank;
        shape = (struct qc_shape){.rank = rank};
        for (int i = 0, from = 0; i < rank; i++) shape.dim[i] = i == axis ? count : part->shape.dim[from++];
    }
    return qc_infer_set(c, b->states + k, part->dtype, &shape, st);
}

static bool is_true(const struct qc_tensor *t)
{
    return t && t->count == 1 && qc_tensor_int(t, 0) != 0;
}

static bool infer_loop(struct qc_infer *c, const struct qc_bodies *b, struct qc_status *st)
{
    static const char *const what[] = {"number of trips", "condition"};
    const enum qc_dtype want[] = {QC_I64, QC_BOOL};
    for (unsigned i = 0; i < 2; i++) {
        if (!qc_has_in(c, i)) continue;
        if (qc_in(c, i)->dtype != want[i])
            return qc_fail(st, QC_BAD_INPUT, "its %s is %s", what[i], qc_dtype_info(qc_in(c, i)->dtype)->name);
        if (!qc_infer_one_element(c, i, what[i], st)) return false;
    }
    if (output_of(b->graph[0], 0)->dtype != QC_BOOL)
        return qc_fail(st, QC_BAD_INPUT, "the first output of its body is no condition (bool)");
    /* The number of iterations is known if the condition stays true until the last one. */
    const struct qc_graph *body = b->graph[0];
    const struct qc_tensor *limit = qc_in_constant(c, 0);
    const qc_id next = body->outputs[0].value;
    const bool begins = !qc_has_in(c, 1) || is_true(qc_in_constant(c, 1)),
               goes_on = is_true(qc_constant_of(body, next)) || next == body->inputs[1].value,
               known = limit && limit->count == 1 && begins && goes_on;
    const int64_t trips = known ? qc_tensor_int(limit, 0) : 0, count = !known ? QC_FREE : trips < 0 ? 0 : trips;
    for (unsigned k = 0; k < b->states; k++)
        if (!infer_state(c, b, k, 2 + k, st)) return false;
    for (unsigned k = 0; k < b->stacked; k++)
        if (!infer_stacked(c, b, k, count, 0, st)) return false;
    return true;
}

static bool infer_scan(struct qc_infer *c, const struct qc_bodies *b, struct qc_status *st)
{
    int64_t count = QC_FREE;
    for (unsigned k = 0; k < b->scanned; k++) {
        const struct qc_shape *s = &qc_in(c, b->states + k)->shape;
        const int64_t axis = qc_scan_entry(c->node, "scan_input_axes", k);
        struct qc_shape part;
        if (!qc_scan_part(&part, s, axis, st)) return qc_where(st, "input %u", b->states + k);
        if (s->rank >= 0 && !qc_dim_meet(&count, count, s->dim[axis < 0 ? axis + s->rank : axis]))
            return qc_fail(st, QC_BAD_INPUT, "its scanned inputs have different lengths");
    }
    for (unsigned k = 0; k < b->states; k++)
        if (!infer_state(c, b, k, k, st)) return false;
    for (unsigned k = 0; k < b->stacked; k++)
        if (!infer_stacked(c, b, k, count, qc_scan_entry(c->node, "scan_output_axes", k), st)) return false;
    return true;
}

bool qc_infer_control(struct qc_infer *c, struct qc_status *st)
{
    struct qc_bodies b;
    if (!qc_bodies_of(&b, c->node, st)) return false;
    for (unsigned k = 0; k < b.count; k++) {
        const struct qc_graph *g = b.graph[k];
        for (unsigned i = 0; i < g->input_count; i++) {
            const enum qc_dtype want = qc_value(g, g->inputs[i].value)->type.dtype;
            if (!qc_has_in(c, i + b.first)) continue;
            const enum qc_dtype is = qc_in(c, i + b.first)->dtype;
            if (is != want)
                return qc_fail(st, QC_BAD_INPUT, "input %u is %s, but its body '%s' takes %s", i + b.first,
                               qc_dtype_info(is)->name, b.attr[k], qc_dtype_info(want)->name);
        }
        for (unsigned i = 0; i < g->output_count; i++)
            if (output_of(g, i)->qparams != QC_REAL)
                return qc_fail(st, QC_BAD_INPUT, "output %u of its body '%s' is not real", i, b.attr[k]);
    }
    if (c->node->op == QC_OP_If) {
        if (qc_in(c, 0)->dtype != QC_BOOL)
            return qc_fail(st, QC_BAD_INPUT, "its condition is %s, expected bool",
                           qc_dtype_info(qc_in(c, 0)->dtype)->name);
        if (!qc_infer_one_element(c, 0, "condition", st)) return false;
        for (unsigned k = 0; k < c->node->output_count; k++) {
            const struct qc_type *one = output_of(b.graph[0], k), *other = output_of(b.graph[1], k);
            const struct qc_shape shape = qc_shape_join(&one->shape, &other->shape);
            if (one->dtype != other->dtype)
                return qc_fail(st, QC_BAD_INPUT, "output %u is %s in one branch and %s in the other", k,
                               qc_dtype_info(one->dtype)->name, qc_dtype_info(other->dtype)->name);
            if (!qc_infer_set(c, k, one->dtype, &shape, st)) return false;
        }
        return true;
    }
    return c->node->op == QC_OP_Loop ? infer_loop(c, &b, st) : infer_scan(c, &b, st);
}

/* User-defined operators: their kernels give the types of the results. */

bool qc_infer_custom(struct qc_infer *c, struct qc_status *st)
{
    const struct qc_attr *types = qc_attr_find(c->node, QC_CUSTOM_TYPES);
    if (types) {
        const int64_t *next = types->ints, *end = types->ints + types->count;
        for (unsigned i = 0; i < c->node->output_count; i++) {
            if (end - next < 2 || next[0] <= QC_NONE || next[0] >= QC_DTYPE_COUNT || next[1] < -1 ||
                next[1] > QC_RANK_MAX || end - next - 2 < next[1])
                return qc_fail(st, QC_BAD_INPUT, "its types are incomplete"); /* a file may have this attribute too */
            const enum qc_dtype dtype = (enum qc_dtype) * next++;
            struct qc_shape shape = {.rank = (int)*next++};
            for (int k = 0; k < shape.rank; k++) shape.dim[k] = *next++;
            if (!qc_infer_set(c, i, dtype, &shape, st)) return false;
        }
        return true;
    }
    const struct qcalib_kernel *k;
    struct qcalib_kernel_call call;
    const struct qc_node *n = c->node;
    if (!qc_custom_kernel(&k, c->graph, n, st)) return false;
    if (n->input_count < k->inputs_min || n->input_count > k->inputs_max || n->output_count > k->outputs_max)
        return qc_fail(st, QC_BAD_INPUT, "its kernel takes %u to %u inputs and up to %u outputs, here are %u and %u",
                       k->inputs_min, k->inputs_max, k->outputs_max, n->input_count, n->output_count);
    QC_ARENA_SCOPE *a = qc_arena_new();
    bool ok = qc_custom_call(&call, c->graph, n, a, st);
    qc_user_code_enter("kernel", k->op, "shape");
    const int code = ok ? k->shape(&call) : 0;
    qc_user_code_leave();
    if (code) ok = qc_fail(st, QC_BAD_INPUT, "shape of the kernel of '%s' failed with code %d", k->op, code);
    for (unsigned i = 0; ok && i < n->output_count; i++) {
        const struct qcalib_kernel_tensor *t = &call.outputs[i];
        const enum qc_dtype dtype = t->type < 1 || t->type > 99 ? QC_NONE : qc_dtype_from_onnx(t->type);
        struct qc_shape s = {.rank = t->rank};
        if (dtype == QC_NONE || qc_dtype_info(dtype)->bits < 8)
            return qc_fail(st, QC_BAD_INPUT, "its kernel gave output %u the type %d, which is not handled", i,
                           (int)t->type);
        if (t->rank < -1 || t->rank > QC_RANK_MAX)
            return qc_fail(st, QC_BAD_INPUT, "its kernel gave output %u %d dimensions, at most %d are handled", i,
                           (int)t->rank, QC_RANK_MAX);
        for (int d = 0; d < s.rank; d++) {
            if (t->dims[d] < -1)
                return qc_fail(st, QC_BAD_INPUT, "its kernel gave output %u a dimension of %lld", i,
                               (long long)t->dims[d]);
            s.dim[d] = t->dims[d] < 0 ? QC_FREE : t->dims[d];
        }
        ok = qc_infer_set(c, i, dtype, &s, st);
    }
    return ok;
}
