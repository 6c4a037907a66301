// SPDX-License-Identifier: Apache-2.0
/* Max-13, Min-13, Sum-13, Mean-13 of any number of inputs with numpy broadcasting, folded from the left. NaN
   propagates. */
#include "simq/core/kernel_util.h"

#define QC_LOOP(NAME, T, EXPRESSION)                                                                                   \
    static void NAME(void *user, int64_t n, void *const data[], const int64_t stride[])                                \
    {                                                                                                                  \
        T *o = data[0];                                                                                                \
        const T *p = data[1];                                                                                          \
        const int64_t so = stride[0], sp = stride[1];                                                                  \
        (void)user;                                                                                                    \
        if (so == 1 && sp == 1) {                                                                                      \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T a = o[i], b = p[i];                                                                            \
                o[i] = (T)(EXPRESSION);                                                                                \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const T a = o[i * so], b = p[i * sp];                                                                  \
                o[i * so] = (T)(EXPRESSION);                                                                           \
            }                                                                                                          \
        }                                                                                                              \
    }

#define QC_X(N, T)                                                                                                     \
    QC_LOOP(max_##N, T, a > b || a != a ? a : b)                                                                       \
    QC_LOOP(min_##N, T, a < b || a != a ? a : b)                                                                       \
    QC_LOOP(sum_##N, T, a + b)                                                                                         \
    static void scale_##N(void *user, int64_t n, void *const data[], const int64_t stride[])                           \
    {                                                                                                                  \
        const T count = (T) * (const unsigned *)user;                                                                  \
        T *o = data[0];                                                                                                \
        for (int64_t i = 0; i < n; i++) o[i * stride[0]] /= count;                                                     \
    }
QC_KERNEL_FLOATS(QC_X)
#undef QC_X
#define QC_X(N, T)                                                                                                     \
    QC_LOOP(max_##N, T, a > b ? a : b)                                                                                 \
    QC_LOOP(min_##N, T, a < b ? a : b)
QC_KERNEL_SIGNED(QC_X)
QC_KERNEL_UNSIGNED(QC_X)
#undef QC_X
QC_LOOP(max_F16, uint16_t,
        qc_half_to_float(a) > qc_half_to_float(b) || qc_half_to_float(a) != qc_half_to_float(a) ? a : b)
QC_LOOP(min_F16, uint16_t,
        qc_half_to_float(a) < qc_half_to_float(b) || qc_half_to_float(a) != qc_half_to_float(a) ? a : b)

static const struct qc_kernel_row rows[] = {
#define QC_X(N, T)                                                                                                     \
    {.op = QC_OP_Sum, .type = QC_##N, .fn = sum_##N},                                                                  \
        {.op = QC_OP_Mean, .type = QC_##N, .fn = sum_##N, .last = scale_##N},
    QC_KERNEL_FLOATS(QC_X)
#undef QC_X
#define QC_X(N, T) {.op = QC_OP_Max, .type = QC_##N, .fn = max_##N}, {.op = QC_OP_Min, .type = QC_##N, .fn = min_##N},
        QC_KERNEL_FLOATS(QC_X) QC_KERNEL_SIGNED(QC_X) QC_KERNEL_UNSIGNED(QC_X) QC_X(F16, uint16_t)
#undef QC_X
};

static bool prepare(struct qc_prepare *p, struct qc_status *st)
{
    return qc_kernel_choose(p, rows, sizeof rows / sizeof *rows, st);
}

static bool run(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
    const struct qc_kernel_row *row = r->state;
    const struct qc_view *to = &r->out[0];
    for (unsigned k = 0; k < r->input_count; k++) {
        const struct qc_view from = qc_view_broadcast(&r->in[k], to);
        const struct qc_view *const views[] = {to, &from};
        if (k)
            qc_view_each(2, views, row->fn, NULL);
        else if (from.data != to->data)
            qc_view_copy(to, &from);
    }
    const struct qc_view *const views[] = {to};
    unsigned count = r->input_count;
    if (row->last) qc_view_each(1, views, row->last, &count);
    return true;
}

QC_KERNEL(variadic, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare, .run = run);
