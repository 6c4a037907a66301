// SPDX-License-Identifier: Apache-2.0
/* Reduce* of opset 13 with attribute "axes" (all axes if absent, or none with noop_with_empty_axes). Floats are
   summed in double, integers modulo 2^64, in a fixed order. An empty reduction gives the neutral element. */
#include <math.h>

#include "simq/core/kernel_util.h"
#include "simq/kernels/real/line_math.h"

enum { LANES = 256, PARTS = 16 };

union value {
    double f;
    int64_t i;
    uint64_t u;
};

/* Folds n elements into acc[0], or with `lanes` element j into acc[j]. shift: see ReduceLogSumExp. */
typedef void fold_fn(union value *acc, bool lanes, const union value *shift, const void *x, int64_t n, int64_t stride);
/* Writes n results. */
typedef void finish_fn(void *o, int64_t stride, const union value *acc, const union value *shift, int64_t n,
                       enum qc_op op, int64_t count);

/* Elements are converted to W, the type of the accumulators in acc and shift (members of union value). Sixteen
   partial results hide the latency of a serial sum and can be vectors; JOIN combines them. */
#define QC_FOLD(NAME, T, W, NEUTRAL, EXPRESSION, JOIN)                                                                 \
    static QC_INLINE void NAME##_body(W *acc, bool lanes, const W *shift, const T *p, int64_t n, int64_t stride)       \
    {                                                                                                                  \
        if (lanes && stride == 1) QC_FOLD_LANES(T, W, p[i], EXPRESSION)                                                \
        if (lanes) QC_FOLD_LANES(T, W, p[i * stride], EXPRESSION)                                                      \
        const W s = shift[0];                                                                                          \
        W part[PARTS];                                                                                                 \
        int64_t i = 0;                                                                                                 \
        (void)s;                                                                                                       \
        for (int k = 0; k < PARTS; k++) part[k] = (NEUTRAL);                                                           \
        part[0] = *acc;                                                                                                \
        for (; stride == 1 && i + PARTS <= n; i += PARTS) {                                                            \
            for (int k = 0; k < PARTS; k++) {                                                                          \
                const W a = part[k], x = (W)p[i + k];                                                                  \
                part[k] = (EXPRESSION);                                                                                \
            }                                                                                                          \
        }                                                                                                              \
        for (int k = 0; i < n; i++, k = (k + 1) % PARTS) {                                                             \
            const W a = part[k], x = (W)p[i * stride];                                                                 \
            part[k] = (EXPRESSION);                                                                                    \
        }                                                                                                              \
        for (int k = 1; k < PARTS; k++) {                                                                              \
            const W a = part[0], x = part[k];                                                                          \
            part[0] = (JOIN);                                                                                          \
        }                                                                                                              \
        *acc = part[0];                                                                                                \
    }
#define QC_FOLD_LANES(T, W, ELEMENT, EXPRESSION)                                                                       \
    {                                                                                                                  \
        QC_IVDEP                                                                                                       \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const W a = acc[i], x = (W)ELEMENT, s = shift[i];                                                          \
            (void)s;                                                                                                   \
            acc[i] = (EXPRESSION);                                                                                     \
        }                                                                                                              \
        return;                                                                                                        \
    }

/* The body as a fold_fn: for floats compiled for several processors, for integers only once. */
#define QC_FOLD_FLOAT(NAME, T, NEUTRAL, EXPRESSION, JOIN)                                                              \
    QC_FOLD(NAME##_simd, T, double, NEUTRAL, EXPRESSION, JOIN)                                                         \
    QC_SIMD(NAME##_simd, (double *acc, bool lanes, const double *shift, const T *p, int64_t n, int64_t stride),        \
            (acc, lanes, shift, p, n, stride))                                                                         \
    static void NAME(union value *acc, bool lanes, const union value *shift, const void *x, int64_t n, int64_t stride) \
    {                                                                                                                  \
        NAME##_simd(&acc->f, lanes, &shift->f, x, n, stride);                                                          \
    }
#define QC_FOLD_INTEGER(NAME, T, W, M, NEUTRAL, EXPRESSION, JOIN)                                                      \
    QC_FOLD(NAME, T, W, NEUTRAL, EXPRESSION, JOIN)                                                                     \
    static void NAME(union value *acc, bool lanes, const union value *shift, const void *x, int64_t n, int64_t stride) \
    {                                                                                                                  \
        NAME##_body(&acc->M, lanes, &shift->M, x, n, stride);                                                          \
    }

/* NaN propagates. */
#define QC_MAX_F (((x > a) | (x != x)) ? x : a)
#define QC_MIN_F (((x < a) | (x != x)) ? x : a)
#define QC_X(N, T)                                                                                                     \
    QC_FOLD_FLOAT(sum_##N, T, 0, a + x, a + x)                                                                         \
    QC_FOLD_FLOAT(prod_##N, T, 1, a *x, a *x)                                                                          \
    QC_FOLD_FLOAT(max_##N, T, -HUGE_VAL, QC_MAX_F, QC_MAX_F)                                                           \
    QC_FOLD_FLOAT(min_##N, T, HUGE_VAL, QC_MIN_F, QC_MIN_F)                                                            \
    QC_FOLD_FLOAT(abs_##N, T, 0, a + fabs(x), a + x)                                                                   \
    QC_FOLD_FLOAT(square_##N, T, 0, a + x * x, a + x)                                                                  \
    QC_FOLD_FLOAT(exp_##N, T, 0, a + exp(x - s), a + x)                                                                \
    static void finish_##N(void *data, int64_t stride, const union value *acc, const union value *shift, int64_t n,    \
                           enum qc_op op, int64_t count)                                                               \
    {                                                                                                                  \
        T *o = data;                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            double v = acc[i].f;                                                                                       \
            if (op == QC_OP_ReduceMean) v /= (double)count;                                                            \
            if (op == QC_OP_ReduceL2) v = sqrt(v);                                                                     \
            if (op == QC_OP_ReduceLogSumExp) v = log(v) + shift[i].f;                                                  \
            o[i * stride] = (T)v;                                                                                      \
        }                                                                                                              \
    }
QC_KERNEL_FLOATS(QC_X)
#undef QC_X

/* Modulo 2^64, sums and products of signed and unsigned numbers are equal. */
#define QC_WRAP(W, OP) ((W)((uint64_t)a OP(uint64_t) x))
#define QC_INTEGER(N, T, M, W)                                                                                         \
    QC_FOLD_INTEGER(sum_##N, T, W, M, 0, QC_WRAP(W, +), QC_WRAP(W, +))                                                 \
    QC_FOLD_INTEGER(prod_##N, T, W, M, 1, QC_WRAP(W, *), QC_WRAP(W, *))                                                \
    QC_FOLD_INTEGER(max_##N, T, W, M, *acc, x > a ? x : a, x > a ? x : a)                                              \
    QC_FOLD_INTEGER(min_##N, T, W, M, *acc, x < a ? x : a, x < a ? x : a)                                              \
    QC_FOLD_INTEGER(square_##N, T, W, M, 0, (W)((uint64_t)a + (uint64_t)x * (uint64_t)x), QC_WRAP(W, +))               \
    static void finish_##N(void *data, int64_t stride, const union value *acc, const union value *shift, int64_t n,    \
                           enum qc_op op, int64_t count)                                                               \
    {                                                                                                                  \
        T *o = data;                                                                                                   \
        (void)shift;                                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            union value v = acc[i];                                                                                    \
            if (op == QC_OP_ReduceMean) v.M = count ? v.M / (W)count : 0;                                              \
            if (op == QC_OP_ReduceL2) v.M = (W)sqrt((double)v.M);                                                      \
            o[i * stride] = (T)v.M;                                                                                    \
        }                                                                                                              \
    }
#define QC_ABS_I ((int64_t)((uint64_t)a + (x < 0 ? 0 - (uint64_t)x : (uint64_t)x)))
#define QC_X(N, T)                                                                                                     \
    QC_INTEGER(N, T, i, int64_t) QC_FOLD_INTEGER(abs_##N, T, int64_t, i, 0, QC_ABS_I, QC_WRAP(int64_t, +))
QC_KERNEL_SIGNED(QC_X)
#undef QC_X
#define QC_X(N, T) QC_INTEGER(N, T, u, uint64_t)
QC_KERNEL_UNSIGNED(QC_X)
#undef QC_X

struct row {
    enum qc_op op;
    enum qc_dtype type;
    fold_fn *fold, *shift;
    finish_fn *finish;
    union value first; /* neutral element; if there is a `shift`, its neutral element (that of `fold` is then 0) */
};

#define QC_ROW(OP, N, FOLD, M, FIRST)                                                                                  \
    {.op = QC_OP_##OP, .type = QC_##N, .fold = FOLD##_##N, .finish = finish_##N, .first = {.M = (FIRST)}},
#define QC_ROWS(N, M, LOW, HIGH)                                                                                       \
    QC_ROW(ReduceSum, N, sum, M, 0)                                                                                    \
    QC_ROW(ReduceMean, N, sum, M, 0)                                                                                   \
    QC_ROW(ReduceProd, N, prod, M, 1)                                                                                  \
    QC_ROW(ReduceMax, N, max, M, LOW)                                                                                  \
    QC_ROW(ReduceMin, N, min, M, HIGH) QC_ROW(ReduceL2, N, square, M, 0) QC_ROW(ReduceSumSquare, N, square, M, 0)
static const struct row rows[] = {
#define QC_X(N, T)                                                                                                     \
    QC_ROWS(N, f, -HUGE_VAL, HUGE_VAL)                                                                                 \
    QC_ROW(ReduceL1, N, abs, f, 0){.op = QC_OP_ReduceLogSumExp,                                                        \
                                   .type = QC_##N,                                                                     \
                                   .fold = exp_##N,                                                                    \
                                   .shift = max_##N,                                                                   \
                                   .finish = finish_##N,                                                               \
                                   .first = {.f = -HUGE_VAL}},
    QC_KERNEL_FLOATS(QC_X)
#undef QC_X
        QC_ROWS(I8, i, INT8_MIN, INT8_MAX) QC_ROWS(I16, i, INT16_MIN, INT16_MAX) QC_ROWS(I32, i, INT32_MIN, INT32_MAX)
            QC_ROWS(I64, i, INT64_MIN, INT64_MAX) QC_ROWS(U8, u, 0, UINT8_MAX) QC_ROWS(U16, u, 0, UINT16_MAX)
                QC_ROWS(U32, u, 0, UINT32_MAX)
                    QC_ROWS(U64, u, 0,
                            UINT64_MAX){.op = QC_OP_ReduceMax, .type = QC_BOOL, .fold = max_U8, .finish = finish_U8},
    {.op = QC_OP_ReduceMin, .type = QC_BOOL, .fold = min_U8, .finish = finish_U8, .first = {.u = 1}},

#define QC_X(N, T) QC_ROW(ReduceL1, N, abs, i, 0)
    QC_KERNEL_SIGNED(QC_X)
#undef QC_X
#define QC_X(N, T) QC_ROW(ReduceL1, N, sum, u, 0)
        QC_KERNEL_UNSIGNED(QC_X)
#undef QC_X
};

struct state {
    const struct row *row;
    unsigned reduced; /* bit set of axes */
    bool copy, keep;  /* copy: nothing is reduced */
};

static bool prepare_reduce(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s) return false;
    const enum qc_dtype t = p->in[0].dtype;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].op == p->node->op && rows[i].type == t) s->row = &rows[i];
    if (!s->row) return qc_kernel_no_type(t, st);
    const int64_t *axes;
    int64_t given[QC_RANK_MAX];
    size_t n = qc_attr_ints(p->node, "axes", &axes);
    if (qc_kernel_has(p, 1)) {
        if (!qc_kernel_ints(given, &n, QC_RANK_MAX, p, 1, "axes", st)) return false;
        axes = given;
    }
    for (size_t i = 0; i < n; i++) {
        int axis;
        if (!qc_axis_of(&axis, axes[i], p->in[0].rank, st)) return false;
        s->reduced |= 1U << axis;
    }
    const bool nothing = n == 0 && qc_attr_int(p->node, "noop_with_empty_axes", 0) != 0;
    s->copy = nothing && qc_reduce_keeps(p->node->op);
    if (n == 0 && !nothing) s->reduced = (1U << p->in[0].rank) - 1;
    s->keep = qc_attr_int(p->node, "keepdims", 1) != 0;
    return true;
}

/* Folds all reduced elements from `offset` on, for `lanes` contiguous results. `along` has size 1 in the dimensions
   that are kept. */
static void fold_all(union value *acc, fold_fn *fold, const union value *shift, const struct qc_view *along,
                     int64_t offset, int64_t lanes, bool lanes_inside)
{
    const int inner = along->rank - 1;
    bool line = true; /* the usual case, without a walk */
    for (int d = 0; d < inner; d++) line = line && along->dim[d] == 1;
    if (line) {
        fold(acc, lanes_inside, shift, qc_at(along, offset), lanes_inside ? lanes : along->dim[inner],
             along->stride[inner]);
        return;
    }
    QC_WALK(w, 1U << inner, along) {
        const void *x = qc_at(along, offset + w.at[0]);
        fold(acc, lanes_inside, shift, x, lanes_inside ? lanes : along->dim[inner], along->stride[inner]);
    }
}

/* Swaps the last two dimensions if the last one is reduced and short: many short sums then run in parallel. Up to
   PARTS elements are added in the same order either way. */
static void turn_short(struct qc_view views[2], unsigned *reduced)
{
    const int inner = views[0].rank - 1, outer = inner - 1;
    if (outer < 0 || !(*reduced >> inner & 1) || *reduced >> outer & 1 || views[0].dim[inner] > PARTS) return;
    for (int k = 0; k < 2; k++) {
        const int64_t dim = views[k].dim[inner], stride = views[k].stride[inner];
        views[k].dim[inner] = views[k].dim[outer];
        views[k].stride[inner] = views[k].stride[outer];
        views[k].dim[outer] = dim;
        views[k].stride[outer] = stride;
    }
    *reduced ^= 1U << inner | 1U << outer;
}

static bool run_reduce(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    if (qc_view_count(&r->out[0]) == 0) return true;
    if (s->copy) {
        qc_view_copy(&r->out[0], &r->in[0]);
        return true;
    }
    const struct row *row = s->row;
    /* The output has the dims of the input; reduced ones have stride 0. */
    struct qc_view views[2] = {r->in[0], {.dtype = r->out[0].dtype, .rank = r->in[0].rank, .data = r->out[0].data}};
    for (int d = 0, k = 0; d < r->in[0].rank; d++) {
        views[1].dim[d] = r->in[0].dim[d];
        if (!(s->reduced >> d & 1))
            views[1].stride[d] = r->out[0].stride[k++];
        else if (s->keep)
            k++;
    }
    unsigned reduced = s->reduced;
    int64_t count = 1;
    for (int d = 0; d < views[0].rank; d++)
        if (reduced >> d & 1) count *= views[0].dim[d];
    qc_views_simplify(2, views, &reduced);
    turn_short(views, &reduced);
    const int inner = views[0].rank - 1;
    const bool lanes_inside = !(reduced >> inner & 1);
    struct qc_view along = views[0], to = views[1];
    for (int d = 0; d < along.rank; d++)
        if (reduced >> d & 1)
            to.dim[d] = 1;
        else if (d != inner)
            along.dim[d] = 1;
    const int64_t lanes = lanes_inside ? to.dim[inner] : 1;
    union value acc[LANES], shift[LANES] = {{.f = 0}};
    QC_WALK(w, 1U << inner, &to, &views[0]) {
        for (int64_t j = 0; j < lanes; j += LANES) {
            const int64_t n = lanes - j < LANES ? lanes - j : LANES;
            const int64_t offset = w.at[1] + j * along.stride[inner];
            for (int64_t i = 0; i < n; i++) acc[i] = row->first;
            if (row->shift) {
                fold_all(acc, row->shift, shift, &along, offset, n, lanes_inside);
                for (int64_t i = 0; i < n; i++) {
                    shift[i].f = isfinite(acc[i].f) ? acc[i].f : 0; /* exp(inf - inf) would be NaN */
                    acc[i].f = 0;
                }
            }
            fold_all(acc, row->fold, shift, &along, offset, n, lanes_inside);
            row->finish(qc_at(&to, w.at[0] + j * to.stride[inner]), to.stride[inner], acc, shift, n, row->op, count);
        }
    }
    return true;
}

QC_KERNEL(reduce, .order = QC_ORDER_ANY, .prepare = prepare_reduce, .run = run_reduce);
