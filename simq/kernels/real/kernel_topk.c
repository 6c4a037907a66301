// SPDX-License-Identifier: Apache-2.0
/* TopK-24 and Hardmax-13: the greatest elements of a line. Equal elements keep their order; NaN is greater than any
   number. */
#include <string.h>

#include "simq/core/kernel_util.h"

/* Returns whether a is sorted before b: greater, or less. */
typedef bool before_fn(const void *a, const void *b);

#define QC_X(N, T)                                                                                                     \
    static bool greater_##N(const void *a, const void *b)                                                              \
    {                                                                                                                  \
        const T x = *(const T *)a, y = *(const T *)b;                                                                  \
        return x > y || (x != x && y == y);                                                                            \
    }                                                                                                                  \
    static bool less_##N(const void *a, const void *b)                                                                 \
    {                                                                                                                  \
        const T x = *(const T *)a, y = *(const T *)b;                                                                  \
        return x < y || (y != y && x == x);                                                                            \
    }
QC_KERNEL_FLOATS(QC_X)
QC_KERNEL_SIGNED(QC_X)
QC_KERNEL_UNSIGNED(QC_X)
#undef QC_X

static const struct {
    enum qc_dtype type;
    before_fn *greater, *less;
} rows[] = {
#define QC_X(N, T) {QC_##N, greater_##N, less_##N},
    QC_KERNEL_FLOATS(QC_X) QC_KERNEL_SIGNED(QC_X) QC_KERNEL_UNSIGNED(QC_X)
#undef QC_X
};

struct state {
    int axis;
    before_fn *before;
};

static bool prepare_topk(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s || !qc_kernel_axis(&s->axis, p, -1, st)) return false;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == p->in[0].dtype)
            s->before = qc_attr_int(p->node, "largest", 1) ? rows[i].greater : rows[i].less;
    if (!s->before) return qc_kernel_no_type(p->in[0].dtype, st);
    if (p->node->op == QC_OP_TopK) p->scratch = 2 * (size_t)p->in[0].dim[s->axis] * sizeof(int64_t);
    return true;
}

struct line {
    const char *data;
    int64_t step; /* bytes */
    before_fn *before;
};

static void merge_topk(int64_t *to, const int64_t *from, int64_t half, int64_t n, const struct line *x)
{
    for (int64_t i = 0, k = half, o = 0; o < n; o++) {
        const bool right = i == half || (k < n && x->before(x->data + from[k] * x->step, x->data + from[i] * x->step));
        to[o] = right ? from[k++] : from[i++];
    }
}

/* Returns the sorted positions, in one of the two lists, each [n]. */
static const int64_t *sorted_line(int64_t *order, int64_t *other, int64_t n, const struct line *x)
{
    for (int64_t i = 0; i < n; i++) order[i] = i;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t i = 0; i < n; i += 2 * width) {
            const int64_t count = n - i < 2 * width ? n - i : 2 * width;
            merge_topk(other + i, order + i, count < width ? count : width, count, x);
        }
        int64_t *swap = order;
        order = other;
        other = swap;
    }
    return order;
}

static bool run_topk(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0], *at = r->output_count > 1 ? &r->out[1] : NULL;
    const size_t size = qc_dtype_size(x->dtype);
    const int64_t n = x->dim[s->axis], k = y->dim[s->axis];
    int64_t *order = r->scratch;
    QC_WALK(w, 1U << s->axis, x, y, at ? at : y) {
        const struct line line = {qc_at(x, w.at[0]), x->stride[s->axis] * (int64_t)size, s->before};
        const int64_t *best = sorted_line(order, order + n, n, &line);
        for (int64_t i = 0; i < k; i++) {
            memcpy(qc_at(y, w.at[1] + i * y->stride[s->axis]), line.data + best[i] * line.step, size);
            if (at) ((int64_t *)at->data)[w.at[2] + i * at->stride[s->axis]] = best[i];
        }
    }
    return true;
}

static bool run_hardmax(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    const size_t size = qc_dtype_size(x->dtype);
    const uint64_t zero = 0;
    uint64_t one = 0;
    qc_element_of(&one, y->dtype, 1);
    QC_WALK(w, 1U << s->axis, x, y) {
        const char *line = qc_at(x, w.at[0]);
        const int64_t step = x->stride[s->axis] * (int64_t)size;
        int64_t best = 0;
        for (int64_t i = 1; i < x->dim[s->axis]; i++)
            if (s->before(line + i * step, line + best * step)) best = i;
        for (int64_t i = 0; i < x->dim[s->axis]; i++)
            memcpy(qc_at(y, w.at[1] + i * y->stride[s->axis]), i == best ? &one : &zero, size);
    }
    return true;
}

QC_KERNEL(topk, .order = QC_ORDER_ANY, .prepare = prepare_topk, .run = run_topk);
QC_KERNEL(hardmax, .order = QC_ORDER_ANY, .prepare = prepare_topk, .run = run_hardmax);
