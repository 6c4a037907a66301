// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/real/mac.h"

#include <math.h>

struct qc_mac *qc_mac_new(struct qc_product_tail *tail, struct qc_prepare *p, bool scaled, struct qc_status *st)
{
    const struct qc_fusion *f = p->fusion;
    struct qc_mac *m = QC_NEW(p->arena, struct qc_mac, st);
    *tail = (struct qc_product_tail){.lo = -INFINITY, .hi = INFINITY};
    if (!m) return NULL;
    p->state = m;
    m->scaled = scaled;
    if (!f) return m;
    const bool moved =
        f->from->qparams != p->out_scales[0].qparams && !(f->from->identity && p->out_scales[0].identity);
    m->rounded = moved || (scaled && (f->lo > -INFINITY || f->hi < INFINITY));
    if (!m->rounded) {
        *tail = (struct qc_product_tail){.sum = f->residual, .lo = f->lo, .hi = f->hi};
        return m;
    }
    const struct qc_scales *to = &p->out_scales[0];
    const struct qc_scales real = {.identity = true,
                                   .count = 1,
                                   .scale = (const float[]){1},
                                   .zero_point = (const int32_t[]){0}};
    m->axis = f->from->count > 1 ? f->from->axis : to->axis;
    return qc_rounding_of(&m->rounding, moved ? f->from : &real, moved ? to : &real, f->lo, f->hi, p->arena, st) ? m
                                                                                                                 : NULL;
}

void qc_mac_finish(struct qc_mac *m, struct qc_prepare *p, bool packed, bool bias)
{
    m->bias = bias;
    m->packed_weights = packed;
    m->packed_bias = bias && p->in[2].data;
    p->packed = (m->packed_weights ? 2U : 0U) | (m->packed_bias ? 4U : 0U);
    p->scratch = qc_product_scratch(m->product);
    p->constant_bytes = qc_product_bytes(m->product);
    p->detail = qc_product_name(m->product);
}

/* views: result, accumulator (the same memory), c. */
static void scale_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct qc_mac *m = user;
    float *y = data[0];
    const float *c = data[1];
    for (int64_t i = 0; i < n; i++) {
        float *at = y + i * stride[0];
        *at = m->alpha * *at + m->beta * c[i * stride[1]];
    }
}

bool qc_mac_run(const struct qc_run *r, struct qc_status *st)
{
    struct qc_mac m = *(const struct qc_mac *)r->state;
    const struct qc_product_memory memory = {.src = r->in[0].data,
                                             .weights = m.packed_weights ? NULL : r->in[1].data,
                                             .bias = m.bias && !m.packed_bias ? r->in[2].data : NULL,
                                             .dst = r->out[0].data,
                                             .scratch = r->scratch};
    (void)st;
    qc_product_run(m.product, &memory);
    if (m.scaled) {
        static const float zero = 0;
        const bool given = r->input_count > 2 && r->in[2].rank >= 0;
        struct qc_view none = {.dtype = QC_F32, .data = (void *)(uintptr_t)&zero};
        struct qc_view c = qc_view_broadcast(given ? &r->in[2] : &none, &r->out[0]);
        const struct qc_view *const views[] = {&r->out[0], &c};
        qc_view_each(2, views, scale_run, &m);
    }
    if (m.rounded) qc_rounding_view(&m.rounding, m.axis, &r->out[0], &r->out[0]);
    return true;
}

void qc_mac_release(void *state)
{
    struct qc_mac *m = state;
    qc_product_free(m->product);
    m->product = NULL;
}
