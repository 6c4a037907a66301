// SPDX-License-Identifier: Apache-2.0
/* Further window ops: LpPool-22, GlobalLpPool-22, MaxPool-22 with indices, MaxUnpool-22, Col2Im-18; and Det-22. */
#include <math.h>
#include <string.h>

#include "graph/core/infer.h"
#include "simq/core/kernel_util.h"

/* --- Pools --- */

enum { SPATIAL = 3 };

struct pool {
    struct qc_window window;
    double p;
    bool columns; /* column-major indices: the first dimension is the innermost */
};

static bool prepare_unfolded_pool(struct qc_prepare *p, struct qc_status *st)
{
    struct pool *s = QC_NEW_STATE(p, struct pool, st);
    if (!s || !qc_window_of(&s->window, p->graph, p->node, st)) return false;
    s->p = (double)qc_attr_int(p->node, "p", 2);
    s->columns = qc_attr_int(p->node, "storage_order", 0) != 0;
    return p->node->op == QC_OP_MaxPoolIndices || qc_kernel_takes_real(p, st);
}

/* The window of a result: its start, and for each position the offset in the plane. next_inside moves to the next
   position inside the data. */
struct position {
    int64_t at[SPATIAL], element[SPATIAL];
    int64_t offset;
};

static bool locate(struct position *k, const struct qc_window *w, const struct qc_view *x, const int64_t *result)
{
    k->offset = 0;
    for (int d = 0; d < w->spatial; d++) {
        k->element[d] = result[d + 2] * w->stride[d] - w->pad_begin[d] + k->at[d] * w->dilation[d];
        if (k->element[d] < 0 || k->element[d] >= x->dim[d + 2]) return false;
        k->offset += k->element[d] * x->stride[d + 2];
    }
    return true;
}

static bool next_position(struct position *k, const struct qc_window *w)
{
    for (int d = w->spatial; d-- > 0;) {
        if (++k->at[d] < w->kernel[d]) return true;
        k->at[d] = 0;
    }
    return false;
}

static bool run_lp_pool(const struct qc_run *r, struct qc_status *st)
{
    const struct pool *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    QC_WALK(w, 0, y) {
        struct position k = {.offset = 0};
        double sum = 0;
        const int64_t plane = w.index[0] * x->stride[0] + w.index[1] * x->stride[1];
        do {
            if (locate(&k, &s->window, x, w.index)) sum += pow(fabs(qc_kernel_real(x, plane + k.offset)), s->p);
        } while (next_position(&k, &s->window));
        qc_kernel_put_real(y, w.at[0], pow(sum, 1 / s->p));
    }
    return true;
}

/* Indices count the elements of the whole input in row-major order, or column by column within a plane. */
static bool run_max(const struct qc_run *r, struct qc_status *st)
{
    const struct pool *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0], *at = &r->out[1];
    int64_t plane_size = 1;
    for (int d = 2; d < x->rank; d++) plane_size *= x->dim[d];
    QC_WALK(w, 0, y, at) {
        struct position k = {.offset = 0};
        const int64_t plane = w.index[0] * x->stride[0] + w.index[1] * x->stride[1];
        double best = 0;
        int64_t from = -1, index = 0;
        do {
            if (!locate(&k, &s->window, x, w.index)) continue;
            const struct qc_tensor t = {.dtype = x->dtype, .count = 1, .data = qc_at(x, plane + k.offset)};
            const double v = qc_tensor_float(&t, 0);
            if (from >= 0 && !(v > best) && !(v != v && best == best)) continue;
            best = v;
            from = plane + k.offset;
            index = 0;
            for (int d = 0; d < s->window.spatial; d++) {
                const int e = s->columns ? s->window.spatial - 1 - d : d;
                index = index * x->dim[e + 2] + k.element[e];
            }
        } while (next_position(&k, &s->window));
        if (from >= 0) memcpy(qc_at(y, w.at[0]), qc_at(x, from), qc_dtype_size(x->dtype));
        ((int64_t *)at->data)[w.at[1]] = (w.index[0] * x->dim[1] + w.index[1]) * plane_size + index;
    }
    return true;
}

/* --- MaxUnpool: indices refer to the shape that the attributes give, even if output_shape is larger --- */

struct unpool {
    int64_t dim[QC_RANK_MAX];
};

static bool prepare_unpool(struct qc_prepare *p, struct qc_status *st)
{
    const int64_t *kernel = NULL, *strides = NULL, *pads = NULL;
    const size_t n = qc_attr_ints(p->node, "kernel_shape", &kernel);
    struct unpool *s = QC_NEW_STATE(p, struct unpool, st);
    if (!s) return false;
    qc_attr_ints(p->node, "strides", &strides);
    qc_attr_ints(p->node, "pads", &pads);
    for (int d = 0; d < p->in[0].rank; d++) {
        s->dim[d] = p->in[0].dim[d];
        if (d < 2) continue;
        const size_t i = (size_t)d - 2;
        s->dim[d] = (s->dim[d] - 1) * (strides ? strides[i] : 1) + kernel[i] - (pads ? pads[i] + pads[n + i] : 0);
    }
    return true;
}

static bool run_unpool(const struct qc_run *r, struct qc_status *st)
{
    const struct unpool *s = r->state;
    const struct qc_view *x = &r->in[0], *at = &r->in[1], *y = &r->out[0];
    const uint64_t zero = 0;
    qc_view_fill(y, &zero);
    QC_WALK(w, 0, x, at) {
        const int64_t given = qc_kernel_integer(at, w.at[1]);
        int64_t rest = given, offset = 0;
        bool inside = given >= 0;
        for (int d = y->rank; d-- > 0;) {
            const int64_t i = d ? rest % s->dim[d] : rest;
            rest = d ? rest / s->dim[d] : 0;
            inside = inside && i < y->dim[d];
            offset += i * y->stride[d];
        }
        if (!inside) return qc_fail(st, QC_BAD_INPUT, "index %lld is outside the result", (long long)given);
        memcpy(qc_at(y, offset), qc_at(x, w.at[0]), qc_dtype_size(y->dtype));
    }
    return true;
}

/* --- Col2Im --- */

static bool prepare_col2im(struct qc_prepare *p, struct qc_status *st)
{
    struct qc_blocks *b = QC_NEW_STATE(p, struct qc_blocks, st);
    return b && qc_kernel_takes_real(p, st) && qc_blocks_of(b, p->graph, p->node, st);
}

/* Converts index i of a box to a position along each dimension. */
static void unravel(int64_t *to, int64_t i, const int64_t *dim, int rank)
{
    for (int d = rank; d-- > 0;) {
        to[d] = i % dim[d];
        i /= dim[d];
    }
}

static bool run_col2im(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_blocks *b = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    const uint64_t zero = 0;
    qc_view_fill(y, &zero);
    for (int64_t row = 0; row < x->dim[1]; row++) {
        int64_t point[QC_RANK_MAX], block[QC_RANK_MAX];
        unravel(point, row % b->points, b->block, b->spatial);
        for (int64_t column = 0; column < x->dim[2]; column++) {
            int64_t to = row / b->points * y->stride[1];
            bool inside = true;
            unravel(block, column, b->steps, b->spatial);
            for (int d = 0; d < b->spatial; d++) {
                const int64_t i = block[d] * b->stride[d] - b->pad_begin[d] + point[d] * b->dilation[d];
                inside = inside && i >= 0 && i < b->image[d];
                to += i * y->stride[d + 2];
            }
            for (int64_t n = 0; n < x->dim[0] && inside; n++) {
                const double v = qc_kernel_real(x, n * x->stride[0] + row * x->stride[1] + column * x->stride[2]);
                qc_kernel_put_real(y, n * y->stride[0] + to, qc_kernel_real(y, n * y->stride[0] + to) + v);
            }
        }
    }
    return true;
}

/* --- Det: by elimination with partial pivoting --- */

static bool prepare_det(struct qc_prepare *p, struct qc_status *st)
{
    const size_t n = (size_t)p->in[0].dim[p->in[0].rank - 1];
    p->scratch = n * n * sizeof(double);
    return qc_kernel_takes_real(p, st);
}

static double determinant(double *a, int64_t n)
{
    double det = 1;
    for (int64_t k = 0; k < n; k++) {
        int64_t pivot = k;
        for (int64_t i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[pivot * n + k])) pivot = i;
        if (a[pivot * n + k] == 0) return 0;
        for (int64_t j = 0; j < n && pivot != k; j++) {
            const double swap = a[k * n + j];
            a[k * n + j] = a[pivot * n + j];
            a[pivot * n + j] = swap;
        }
        det *= pivot != k ? -a[k * n + k] : a[k * n + k];
        for (int64_t i = k + 1; i < n; i++) {
            const double f = a[i * n + k] / a[k * n + k];
            for (int64_t j = k; j < n; j++) a[i * n + j] -= f * a[k * n + j];
        }
    }
    return det;
}

static bool run_det(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    struct qc_view matrices = *x, place = *y;
    const int64_t n = x->dim[x->rank - 1];
    double *a = r->scratch;
    matrices.rank = x->rank - 2;
    QC_WALK(w, 0, &matrices, &place) {
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < n; j++)
                a[i * n + j] = qc_kernel_real(x, w.at[0] + i * x->stride[x->rank - 2] + j * x->stride[x->rank - 1]);
        qc_kernel_put_real(y, w.at[1], determinant(a, n));
    }
    return true;
}

QC_KERNEL(lp_pool, .order = QC_ORDER_ANY, .prepare = prepare_unfolded_pool, .run = run_lp_pool);
QC_KERNEL(max_pool_indices, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_unfolded_pool, .run = run_max);
QC_KERNEL(max_unpool, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_unpool, .run = run_unpool);
QC_KERNEL(col2im, .order = QC_ORDER_ANY, .prepare = prepare_col2im, .run = run_col2im);
QC_KERNEL(det, .order = QC_ORDER_ANY, .prepare = prepare_det, .run = run_det);
