// SPDX-License-Identifier: Apache-2.0
/* LayerNormalization-17: over axes [axis, rank), (x - mean) / sqrt(var + epsilon) * Scale + B. Statistics in double. */
#include <math.h>

#include "simq/core/kernel_util.h"
#include "simq/kernels/real/line_math.h"

struct state {
    int axis;
    double epsilon;
    bool plain; /* Scale and B have one number per normalised element */
};

static bool fits(const struct qc_prepare *p, unsigned i)
{
    const struct qc_view *v = &p->in[i], *x = &p->in[0];
    for (int d = 1; d <= v->rank; d++)
        if (d > x->rank || (v->dim[v->rank - d] != 1 && v->dim[v->rank - d] != x->dim[x->rank - d])) return false;
    return true;
}

static bool prepare(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s || !qc_kernel_axis(&s->axis, p, -1, st)) return false;
    s->epsilon = (double)qc_attr_float(p->node, "epsilon", 1e-5f);
    s->plain = true;
    for (unsigned i = 0; i < p->input_count; i++) {
        if (!qc_kernel_has(p, i)) continue;
        if (p->in[i].dtype != QC_F32) return qc_kernel_no_type(p->in[i].dtype, st);
        if (i == 0) continue;
        if (!fits(p, i))
            return qc_fail(st, QC_BAD_INPUT, "input \"%s\" does not broadcast to the shape of X",
                           i == 1 ? "Scale" : "B");
        if (p->in[i].rank != p->in[0].rank - s->axis) s->plain = false;
        for (int d = 0; d < p->in[i].rank && s->plain; d++) s->plain = p->in[i].dim[d] == p->in[0].dim[s->axis + d];
        s->plain = s->plain && qc_view_row_major(&p->in[i]);
    }
    return true;
}

static QC_INLINE void normalise_body(float *y, const float *x, int64_t n, double epsilon, const float *scale,
                                     const float *bias)
{
    const double mean = qc_line_sum(x, n, 0) / (double)n;
    const double factor = 1 / sqrt(qc_line_squares(x, n, mean) / (double)n + epsilon);
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)(((double)x[i] - mean) * factor);
        y[i] = (scale ? v * scale[i] : v) + (bias ? bias[i] : 0);
    }
}
QC_SIMD(normalise, (float *y, const float *x, int64_t n, double epsilon, const float *scale, const float *bias),
        (y, x, n, epsilon, scale, bias))

static void multiply(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    (void)user;
    for (int64_t i = 0; i < n; i++) ((float *)data[0])[i * stride[0]] *= ((const float *)data[1])[i * stride[1]];
}

static void add(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    (void)user;
    for (int64_t i = 0; i < n; i++) ((float *)data[0])[i * stride[0]] += ((const float *)data[1])[i * stride[1]];
}

static bool run(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
    const struct state *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    const bool has_bias = r->input_count > 2 && r->in[2].rank >= 0;
    int64_t lines = 1, n = 1;
    for (int d = 0; d < x->rank; d++) *(d < s->axis ? &lines : &n) *= x->dim[d];
    for (int64_t i = 0; i < lines; i++)
        normalise((float *)y->data + i * n, (const float *)x->data + i * n, n, s->epsilon,
                  s->plain ? r->in[1].data : NULL, s->plain && has_bias ? r->in[2].data : NULL);
    if (s->plain) return true;
    const struct qc_view scale = qc_view_broadcast(&r->in[1], y);
    const struct qc_view *views[] = {y, &scale};
    qc_view_each(2, views, multiply, NULL);
    if (!has_bias) return true;
    const struct qc_view bias = qc_view_broadcast(&r->in[2], y);
    views[1] = &bias;
    qc_view_each(2, views, add, NULL);
    return true;
}

QC_KERNEL(layer_norm, .order = QC_ORDER_ROW, .in_place = 1, .prepare = prepare, .run = run);
