// SPDX-License-Identifier: Apache-2.0
/* Gather-13, GatherElements-13 and GatherND-13: elements selected by indices, which are data and therefore checked.
   Expect, which checks what a function demands of data. */
#include <string.h>

#include "simq/core/kernel_util.h"

static bool prepare_gather(struct qc_prepare *p, struct qc_status *st)
{
    if (p->in[1].dtype != QC_I32 && p->in[1].dtype != QC_I64) return qc_kernel_no_type(p->in[1].dtype, st);
    int *axis = QC_NEW_STATE(p, int, st);
    return axis && qc_kernel_axis(axis, p, 0, st);
}

static bool run_gather(const struct qc_run *r, struct qc_status *st)
{
    const int axis = *(const int *)r->state;
    const struct qc_view *data = &r->in[0], *indices = &r->in[1], *to = &r->out[0];
    /* [before, indices..., after]: one part of the output, and of the data, per index. */
    struct qc_view from = *data, part = *to;
    from.rank = part.rank = data->rank - 1;
    for (int d = 0, k = 0; d < data->rank; d++) {
        if (d == axis) continue;
        const int o = d < axis ? d : d - 1 + indices->rank;
        from.dim[k] = data->dim[d];
        from.stride[k] = data->stride[d];
        part.dim[k] = to->dim[o];
        part.stride[k++] = to->stride[o];
    }
    struct qc_view place = *indices; /* starts of the parts in the output */
    for (int d = 0; d < indices->rank; d++) place.stride[d] = to->stride[axis + d];
    QC_WALK(w, 0, indices, &place) {
        int64_t i;
        if (!qc_kernel_index_at(&i, indices, w.at[0], data->dim[axis], axis, st)) return false;
        from.data = qc_at(data, i * data->stride[axis]);
        part.data = qc_at(to, w.at[1]);
        qc_view_copy(&part, &from);
    }
    return true;
}

static bool run_gather_elements(const struct qc_run *r, struct qc_status *st)
{
    const int axis = *(const int *)r->state;
    const struct qc_view *to = &r->out[0], *indices = &r->in[1];
    const size_t size = qc_dtype_size(to->dtype);
    struct qc_view from = r->in[0];
    const int64_t along = from.stride[axis], n = from.dim[axis];
    from.stride[axis] = 0;
    QC_WALK(w, 0, to, indices, &from) {
        int64_t i;
        if (!qc_kernel_index_at(&i, indices, w.at[1], n, axis, st)) return false;
        memcpy(qc_at(to, w.at[0]), qc_at(&from, w.at[2] + i * along), size);
    }
    return true;
}

/* The last dimension of the indices holds positions in the dimensions of the data after the batch. */
static bool run_gather_nd(const struct qc_run *r, struct qc_status *st)
{
    const int batch = *(const int *)r->state;
    const struct qc_view *x = &r->in[0], *indices = &r->in[1], *to = &r->out[0];
    const int last = indices->rank - 1;
    const int depth = (int)indices->dim[last];
    struct qc_view from = *x, part = *to, first = *indices, place = *indices, data = *indices;
    from.rank = part.rank = x->rank - batch - depth;
    for (int d = 0; d < from.rank; d++) {
        from.dim[d] = part.dim[d] = x->dim[batch + depth + d];
        from.stride[d] = x->stride[batch + depth + d];
        part.stride[d] = to->stride[last + d];
    }
    first.rank = place.rank = data.rank = last;
    for (int d = 0; d < last; d++) {
        place.stride[d] = to->stride[d];
        data.stride[d] = d < batch ? x->stride[d] : 0;
    }
    QC_WALK(w, 0, &first, &place, &data) {
        int64_t at = w.at[2];
        for (int d = 0; d < depth; d++) {
            int64_t i;
            if (!qc_kernel_index_at(&i, indices, w.at[0] + d * indices->stride[last], x->dim[batch + d], batch + d, st))
                return false;
            at += i * x->stride[batch + d];
        }
        from.data = qc_at(x, at);
        part.data = qc_at(to, w.at[1]);
        qc_view_copy(&part, &from);
    }
    return true;
}

static bool prepare_gather_nd(struct qc_prepare *p, struct qc_status *st)
{
    int *batch = QC_NEW_STATE(p, int, st);
    if (batch) *batch = (int)qc_attr_int(p->node, "batch_dims", 0);
    return batch != NULL;
}

QC_KERNEL(gather_nd, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_gather_nd, .run = run_gather_nd);
QC_KERNEL(gather, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_gather, .run = run_gather);
QC_KERNEL(gather_elements, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_gather,
          .run = run_gather_elements);

/* ScatterElements-18, ScatterND-18, TensorScatter-24: a copy of the data with updates written at indices, which are
   data and therefore checked. Updates of the same position are combined in order. */

/* Combines *from into *to; NULL: replaces it. */
typedef void combine_fn(void *to, const void *from);

/* All reductions: QC_COMBINE(name, type, C type, expression). */
#define QC_OF_FLOATS(N, T)                                                                                             \
    QC_COMBINE(add, N, T, a + b)                                                                                       \
    QC_COMBINE(mul, N, T, a *b)                                                                                        \
    QC_COMBINE(max, N, T, a > b || a != a ? a : b)                                                                     \
    QC_COMBINE(min, N, T, a < b || a != a ? a : b)
#define QC_OF_INTEGERS(N, T)                                                                                           \
    QC_COMBINE(add, N, T, (uint64_t)a + (uint64_t)b)                                                                   \
    QC_COMBINE(mul, N, T, (uint64_t)a *(uint64_t)b)                                                                    \
    QC_COMBINE(max, N, T, a > b ? a : b)                                                                               \
    QC_COMBINE(min, N, T, a < b ? a : b)
#define QC_COMBINES QC_KERNEL_FLOATS(QC_OF_FLOATS) QC_KERNEL_SIGNED(QC_OF_INTEGERS) QC_KERNEL_UNSIGNED(QC_OF_INTEGERS)

#define QC_COMBINE(NAME, N, T, EXPRESSION)                                                                             \
    static void NAME##_##N(void *to, const void *from)                                                                 \
    {                                                                                                                  \
        const T a = *(const T *)to, b = *(const T *)from;                                                              \
        *(T *)to = (T)(EXPRESSION);                                                                                    \
    }
QC_COMBINES
#undef QC_COMBINE

static const struct {
    const char *reduction;
    enum qc_dtype type;
    combine_fn *fn;
} rows[] = {
#define QC_COMBINE(NAME, N, T, EXPRESSION) {#NAME, QC_##N, NAME##_##N},
    QC_COMBINES
#undef QC_COMBINE
};

struct scatter {
    int axis;
    combine_fn *combine;
    bool circular; /* TensorScatter */
};

static bool prepare_scatter(struct qc_prepare *p, struct qc_status *st)
{
    const char *reduction = qc_attr_string(p->node, "reduction", "none");
    struct scatter *s = QC_NEW_STATE(p, struct scatter, st);
    if (!s) return false;
    if (p->node->op != QC_OP_ScatterND && !qc_kernel_axis(&s->axis, p, p->node->op == QC_OP_TensorScatter ? -2 : 0, st))
        return false;
    s->circular = strcmp(qc_attr_string(p->node, "mode", "linear"), "circular") == 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == p->out[0].dtype && strcmp(rows[i].reduction, reduction) == 0) s->combine = rows[i].fn;
    if (s->combine || strcmp(reduction, "none") == 0) return true;
    return qc_kernel_no_type(p->out[0].dtype, st);
}

static void combine_one(const struct scatter *s, void *to, const void *from, size_t size)
{
    if (s->combine)
        s->combine(to, from);
    else
        memcpy(to, from, size);
}

static void copy_data_index(const struct qc_run *r)
{
    if (r->out[0].data != r->in[0].data) qc_view_copy(&r->out[0], &r->in[0]);
}

static bool run_scatter_elements(const struct qc_run *r, struct qc_status *st)
{
    const struct scatter *s = r->state;
    const struct qc_view *to = &r->out[0], *indices = &r->in[1], *updates = &r->in[2];
    const size_t size = qc_dtype_size(to->dtype);
    struct qc_view place = *indices; /* positions of the updates in the result, except along the axis */
    copy_data_index(r);
    for (int d = 0; d < to->rank; d++) place.stride[d] = d == s->axis ? 0 : to->stride[d];
    QC_WALK(w, 0, indices, updates, &place) {
        int64_t i;
        if (!qc_kernel_index_at(&i, indices, w.at[0], to->dim[s->axis], s->axis, st)) return false;
        combine_one(s, qc_at(to, w.at[2] + i * to->stride[s->axis]), qc_at(updates, w.at[1]), size);
    }
    return true;
}

/* The last dimension of the indices holds positions in the first dimensions of the data; an update covers the
   remaining dimensions. */
static bool run_scatter_nd(const struct qc_run *r, struct qc_status *st)
{
    const struct scatter *s = r->state;
    const struct qc_view *to = &r->out[0], *indices = &r->in[1], *updates = &r->in[2];
    const size_t size = qc_dtype_size(to->dtype);
    const int last = indices->rank - 1;
    const int depth = (int)indices->dim[last];
    struct qc_view part = *to, from = *updates, first = *indices, place = *indices;
    copy_data_index(r);
    part.rank = from.rank = to->rank - depth;
    for (int d = 0; d < part.rank; d++) {
        part.dim[d] = from.dim[d] = to->dim[depth + d];
        part.stride[d] = to->stride[depth + d];
        from.stride[d] = updates->stride[last + d];
    }
    first.rank = place.rank = last;
    for (int d = 0; d < last; d++) place.stride[d] = updates->stride[d];
    QC_WALK(w, 0, &first, &place) {
        int64_t at = 0;
        for (int d = 0; d < depth; d++) {
            int64_t i;
            if (!qc_kernel_index_at(&i, indices, w.at[0] + d * indices->stride[last], to->dim[d], d, st)) return false;
            at += i * to->stride[d];
        }
        QC_WALK(inner, 0, &part, &from)
            combine_one(s, qc_at(to, at + inner.at[0]), qc_at(updates, w.at[1] + inner.at[1]), size);
    }
    return true;
}

/* One update per sample, starting at its position along the axis. */
static bool run_tensor_scatter(const struct qc_run *r, struct qc_status *st)
{
    const struct scatter *s = r->state;
    const struct qc_view *to = &r->out[0], *update = &r->in[1];
    const bool given = r->input_count > 2 && r->in[2].rank >= 0;
    const int64_t size = to->dim[s->axis], count = update->dim[s->axis];
    copy_data_index(r);
    for (int64_t b = 0; b < to->dim[0]; b++) {
        const int64_t begin_at = given ? qc_kernel_int_at(&r->in[2], (size_t)b) : 0;
        if (begin_at < 0 || begin_at > size || (!s->circular && begin_at > size - count))
            return qc_fail(st, QC_BAD_INPUT, "write index %lld of sample %lld: %lld elements do not fit behind it",
                           (long long)begin_at, (long long)b, (long long)count);
        for (int64_t i = 0; i < count; i++) {
            struct qc_view y = qc_view_part(to, 0, b, 1), x = qc_view_part(update, 0, b, 1);
            y = qc_view_part(&y, s->axis, (begin_at + i) % size, 1);
            x = qc_view_part(&x, s->axis, i, 1);
            qc_view_copy(&y, &x);
        }
    }
    return true;
}

QC_KERNEL(scatter_elements, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_scatter,
          .run = run_scatter_elements);
QC_KERNEL(scatter_nd, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_scatter, .run = run_scatter_nd);
QC_KERNEL(tensor_scatter, .halves = true, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_scatter,
          .run = run_tensor_scatter);

/* Expect (graph/types/ops.def). The message has the first element that fails, if there is one for each condition. */
static bool run_expect(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *x = &r->in[0], *holds = &r->in[1];
    const bool whole = !qc_dtype_info(x->dtype)->is_float && qc_view_count(x) == qc_view_count(holds);
    const char *expected = r->state;
    for (size_t i = 0; i < qc_view_count(holds); i++) {
        if (qc_kernel_int_at(holds, i)) continue;
        if (!whole) return qc_fail(st, QC_BAD_INPUT, "expected %s", expected);
        return qc_fail(st, QC_BAD_INPUT, "expected %s, got %lld", expected, (long long)qc_kernel_int_at(x, i));
    }
    copy_data_index(r);
    return true;
}

static bool prepare_expect(struct qc_prepare *p, struct qc_status *st)
{
    const char *expected = qc_attr_string(p->node, "expected", "another value");
    p->state = qc_arena_dup(p->arena, expected, strlen(expected) + 1, 1, st);
    return p->state != NULL;
}

QC_KERNEL(expect, .halves = true, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_expect, .run = run_expect);
