// SPDX-License-Identifier: Apache-2.0
/* Where-16: numpy broadcasting of all three inputs, elements of any size. */
#include "base/simd.h"
#include "simq/core/kernel_util.h"

/* Loads both sides, so that the selection needs no branch. */
#define QC_FORM(o_, c_, x_, y_)                                                                                        \
    QC_IVDEP                                                                                                           \
    for (int64_t i = 0; i < n; i++) {                                                                                  \
        const T a = x_, b = y_;                                                                                        \
        o_ = c_ ? a : b;                                                                                               \
    }
#define QC_X(BITS)                                                                                                     \
    static QC_INLINE void select_##BITS##_body(void *const data[], const int64_t s[], int64_t n)                       \
    {                                                                                                                  \
        typedef uint##BITS##_t T;                                                                                      \
        T *o = data[0];                                                                                                \
        const uint8_t *c = data[1];                                                                                    \
        const T *x = data[2], *y = data[3];                                                                            \
        const bool dense = s[0] == 1 && s[1] == 1;                                                                     \
        if (dense && s[2] == 1 && s[3] == 1)                                                                           \
            QC_FORM(o[i], c[i], x[i], y[i])                                                                            \
        else if (dense && s[2] == 1 && s[3] == 0)                                                                      \
            QC_FORM(o[i], c[i], x[i], y[0])                                                                            \
        else if (dense && s[2] == 0 && s[3] == 1)                                                                      \
            QC_FORM(o[i], c[i], x[0], y[i])                                                                            \
        else                                                                                                           \
            QC_FORM(o[i * s[0]], c[i * s[1]], x[i * s[2]], y[i * s[3]])                                                \
    }                                                                                                                  \
    QC_SIMD(select_##BITS, (void *const data[], const int64_t s[], int64_t n), (data, s, n))                           \
    static void run_##BITS(void *user, int64_t n, void *const data[], const int64_t stride[])                          \
    {                                                                                                                  \
        (void)user;                                                                                                    \
        select_##BITS(data, stride, n);                                                                                \
    }
QC_X(8)
QC_X(16)
QC_X(32)
QC_X(64)
#undef QC_X

static bool run(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *to = &r->out[0];
    const struct qc_view c = qc_view_broadcast(&r->in[0], to), x = qc_view_broadcast(&r->in[1], to),
                         y = qc_view_broadcast(&r->in[2], to);
    const struct qc_view *const views[] = {to, &c, &x, &y};
    qc_view_run_fn *fn = NULL;
    switch (qc_dtype_size(to->dtype)) {
    case 1: fn = run_8; break;
    case 2: fn = run_16; break;
    case 4: fn = run_32; break;
    case 8: fn = run_64; break;
    }
    if (!fn) return qc_kernel_no_type(to->dtype, st);
    qc_view_each(4, views, fn, NULL);
    return true;
}

QC_KERNEL(where, .halves = true, .order = QC_ORDER_ANY, .in_place = 6, .run = run);
