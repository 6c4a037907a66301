// SPDX-License-Identifier: Apache-2.0
/* Ops along one axis: ArgMax-13, ArgMin-13, CumSum-14, CumProd-26. */
#include "simq/core/kernel_util.h"

enum { LANES = 64 };

/* Returns the position of the greatest or least of n > 0 elements: the first or the last of equal ones. NaN is never
   selected over a number. */
typedef int64_t arg_fn(const void *data, int64_t n, int64_t stride, bool least, bool last);

#define QC_X(N, T)                                                                                                     \
    static int64_t arg_##N(const void *data, int64_t n, int64_t stride, bool least, bool last)                         \
    {                                                                                                                  \
        const T *p = data;                                                                                             \
        int64_t best = 0;                                                                                              \
        for (int64_t i = 1; i < n; i++) {                                                                              \
            const T a = p[i * stride], b = p[best * stride];                                                           \
            if ((least ? a < b : a > b) || (last && a == b)) best = i;                                                 \
        }                                                                                                              \
        return best;                                                                                                   \
    }                                                                                                                  \
    /* The same for `lanes` adjacent lines. */                                                                         \
    static void args_##N(int64_t best[LANES], const void *data, int64_t n, int64_t stride, int64_t lanes, bool least,  \
                         bool last)                                                                                    \
    {                                                                                                                  \
        const T *p = data;                                                                                             \
        T top[LANES];                                                                                                  \
        for (int64_t j = 0; j < lanes; j++) {                                                                          \
            top[j] = p[j];                                                                                             \
            best[j] = 0;                                                                                               \
        }                                                                                                              \
        for (int64_t i = 1; i < n; i++) {                                                                              \
            for (int64_t j = 0; j < lanes; j++) {                                                                      \
                const T a = p[i * stride + j], b = top[j];                                                             \
                const bool better = (least ? a < b : a > b) | (last & (a == b));                                       \
                top[j] = better ? a : b;                                                                               \
                best[j] = better ? i : best[j];                                                                        \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void sum_##N(void *to_, const void *from_, int64_t n, int64_t to_step, int64_t step, bool exclusive,        \
                        bool product)                                                                                  \
    {                                                                                                                  \
        T *to = to_;                                                                                                   \
        const T *from = from_;                                                                                         \
        QC_SUM_TYPE(T) sum = product;                                                                                  \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            const QC_SUM_TYPE(T) before = sum;                                                                         \
            const QC_SUM_TYPE(T) x = (QC_SUM_TYPE(T))from[i * step];                                                   \
            sum = product ? sum * x : sum + x;                                                                         \
            to[i * to_step] = (T)(exclusive ? before : sum);                                                           \
        }                                                                                                              \
    }
#define QC_SUM_TYPE(T) double
QC_KERNEL_FLOATS(QC_X)
#undef QC_SUM_TYPE
#define QC_SUM_TYPE(T) uint64_t
QC_KERNEL_SIGNED(QC_X)
QC_KERNEL_UNSIGNED(QC_X)
#undef QC_SUM_TYPE
#undef QC_X

typedef void args_fn(int64_t best[LANES], const void *data, int64_t n, int64_t stride, int64_t lanes, bool least,
                     bool last);
typedef void sum_fn(void *to, const void *from, int64_t n, int64_t to_step, int64_t step, bool exclusive, bool product);

struct row {
    enum qc_dtype type;
    arg_fn *arg;
    args_fn *args;
    sum_fn *sum;
};

static const struct row rows[] = {
#define QC_X(N, T) {.type = QC_##N, .arg = arg_##N, .args = args_##N, .sum = sum_##N},
    QC_KERNEL_FLOATS(QC_X) QC_KERNEL_SIGNED(QC_X) QC_KERNEL_UNSIGNED(QC_X)
#undef QC_X
};

struct state {
    const struct row *row;
    int axis;
    bool least, last, keep;           /* Arg* */
    bool exclusive, reverse, product; /* CumSum, CumProd */
};

static struct state *begin_scan(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s) return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == p->in[0].dtype) s->row = &rows[i];
    if (s->row) return s;
    qc_kernel_no_type(p->in[0].dtype, st);
    return NULL;
}

static bool prepare_arg(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = begin_scan(p, st);
    if (!s || !qc_kernel_axis(&s->axis, p, 0, st)) return false;
    s->least = p->node->op == QC_OP_ArgMin;
    s->last = qc_attr_int(p->node, "select_last_index", 0) != 0;
    s->keep = qc_attr_int(p->node, "keepdims", 1) != 0;
    return true;
}

static bool run_arg(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    const struct qc_view *x = &r->in[0];
    if (qc_view_count(&r->out[0]) == 0) return true;
    struct qc_view to = *x;
    to.dtype = r->out[0].dtype;
    to.data = r->out[0].data;
    for (int d = 0, k = 0; d < x->rank; d++) {
        to.stride[d] = d == s->axis ? 0 : r->out[0].stride[k];
        if (d != s->axis || s->keep) k++;
    }
    const int64_t n = x->dim[s->axis], stride = x->stride[s->axis];
    int lane = s->axis; /* a dimension along which lines are adjacent */
    for (int d = 0; d < x->rank; d++)
        if (d != s->axis && x->stride[d] == 1 && x->dim[d] > 1) lane = d;
    const int64_t lanes = lane == s->axis ? 1 : x->dim[lane];
    QC_WALK(w, 1U << s->axis | 1U << lane, &to, x) {
        int64_t *o = qc_at(&to, w.at[0]);
        const int64_t step = to.stride[lane];
        if (lanes == 1) {
            *o = s->row->arg(qc_at(x, w.at[1]), n, stride, s->least, s->last);
            continue;
        }
        for (int64_t j = 0; j < lanes; j += LANES) {
            int64_t best[LANES];
            const int64_t count = lanes - j < LANES ? lanes - j : LANES;
            s->row->args(best, qc_at(x, w.at[1] + j), n, stride, count, s->least, s->last);
            for (int64_t k = 0; k < count; k++) o[(j + k) * step] = best[k];
        }
    }
    return true;
}

static bool prepare_sum(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = begin_scan(p, st);
    if (!s) return false;
    if (qc_view_count(&p->in[1]) != 1) return qc_fail(st, QC_BAD_INPUT, "input \"axis\" has no element");
    s->product = p->node->op == QC_OP_CumProd;
    s->exclusive = qc_attr_int(p->node, "exclusive", 0) != 0;
    s->reverse = qc_attr_int(p->node, "reverse", 0) != 0;
    return true;
}

static void sum_line(const void *user, void *y, const void *x, int64_t n, int64_t sy, int64_t sx)
{
    const struct state *s = user;
    const int64_t size = (int64_t)qc_dtype_size(s->row->type), last = s->reverse ? n - 1 : 0;
    const int64_t sign = s->reverse ? -1 : 1;
    s->row->sum((char *)y + last * sy * size, (const char *)x + last * sx * size, n, sign * sy, sign * sx, s->exclusive,
                s->product);
}

static bool run_sum(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    int axis;
    if (!qc_axis_of(&axis, qc_kernel_int_at(&r->in[1], 0), r->in[0].rank, st)) return false;
    qc_lines_each(&r->out[0], &r->in[0], axis, sum_line, s);
    return true;
}

QC_KERNEL(arg_reduce, .order = QC_ORDER_ANY, .prepare = prepare_arg, .run = run_arg);
QC_KERNEL(cumsum, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_sum, .run = run_sum);
