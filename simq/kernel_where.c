// SPDX-License-Identifier: Apache-2.0
/* Where-16: numpy broadcasting of all three, elements of any size. */
#include "simq/kernel_util.h"

#define QC_X(BITS)                                                                                                     \
    static void select_##BITS(void *user, int64_t n, void *const data[], const int64_t stride[])                       \
    {                                                                                                                  \
        uint##BITS##_t *o = data[0];                                                                                   \
        const uint8_t *c = data[1];                                                                                    \
        const uint##BITS##_t *x = data[2], *y = data[3];                                                               \
        (void)user;                                                                                                    \
        for (int64_t i = 0; i < n; i++) o[i * stride[0]] = c[i * stride[1]] ? x[i * stride[2]] : y[i * stride[3]];     \
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
    case 1: fn = select_8; break;
    case 2: fn = select_16; break;
    case 4: fn = select_32; break;
    case 8: fn = select_64; break;
    }
    if (!fn) return qc_kernel_no_type(to->dtype, st);
    qc_view_each(4, views, fn, NULL);
    return true;
}

const struct qc_kernel qc_kernel_where = {.name = "where", .order = QC_ORDER_ANY, .in_place = 6, .run = run};
