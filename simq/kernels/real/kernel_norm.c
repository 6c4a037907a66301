// SPDX-License-Identifier: Apache-2.0
/* BatchNormalization-15 (inference), InstanceNormalization-6, LRN-13, LpNormalization-1. Statistics are computed in
 * double. */
#include <math.h>

#include "base/checked.h"
#include "simq/core/kernel_util.h"
#include "simq/kernels/real/line_math.h"

enum { LANES = 64 };

static double weight_of_norm(const struct qc_view *v, int64_t c)
{
    return (double)*(const float *)qc_at(v, c * v->stride[0]);
}

/* --- BatchNormalization: y = a x + b with a = scale / sqrt(var + epsilon), b = B - mean a, for each channel, and a
   clamp --- */

struct batch {
    double epsilon;
    float lo, hi;
    float *factors; /* a and b of all channels if the four inputs are constants, else NULL */
};

static void make_factors(float *factors, const struct qc_view in[5], double epsilon)
{
    const int64_t channels = in[1].dim[0];
    for (int64_t c = 0; c < channels; c++) {
        const double a = weight_of_norm(&in[1], c) / sqrt(weight_of_norm(&in[4], c) + epsilon);
        factors[c] = (float)a;
        factors[channels + c] = (float)(weight_of_norm(&in[2], c) - weight_of_norm(&in[3], c) * a);
    }
}

static bool prepare_batch(struct qc_prepare *p, struct qc_status *st)
{
    static const char *const what[] = {"X", "scale", "B", "input_mean", "input_var"};
    for (unsigned i = 0; i < 5; i++)
        if (p->in[i].dtype != QC_F32) return qc_kernel_no_type(p->in[i].dtype, st);
    const int64_t channels = p->in[0].rank > 1 ? p->in[0].dim[1] : 1;
    bool known = true;
    for (unsigned i = 1; i < 5; i++) {
        if ((int64_t)qc_view_count(&p->in[i]) != channels || p->in[i].rank != 1)
            return qc_fail(st, QC_BAD_INPUT, "input \"%s\" has %zu elements, expected one per channel (%lld)", what[i],
                           qc_view_count(&p->in[i]), (long long)channels);
        known = known && p->in[i].data;
    }
    struct batch *s = QC_NEW_STATE(p, struct batch, st);
    if (!s) return false;
    s->epsilon = (double)qc_attr_float(p->node, "epsilon", 1e-5f);
    s->lo = p->fusion ? p->fusion->lo : -INFINITY;
    s->hi = p->fusion ? p->fusion->hi : INFINITY;
    if (!known) return qc_mul_size(&p->scratch, (size_t)channels, 2 * sizeof(float)) || qc_fail_memory(st, UINT64_MAX);
    s->factors = qc_arena_get(p->arena, (size_t)channels, 2 * sizeof(float), st);
    if (s->factors) make_factors(s->factors, p->in, s->epsilon);
    return s->factors != NULL;
}

/* NaN passes, as in Relu and Clip. */
static QC_INLINE float norm_clamped(float v, float lo, float hi)
{
    v = lo > v ? lo : v;
    return hi < v ? hi : v;
}

QC_VECTOR(scale, (int64_t n, void *const data[], const int64_t stride[], float lo, float hi), (n, data, stride, lo, hi))
{
    float *y = data[0];
    const float *x = data[1], *a = data[2], *b = data[3];
    const bool dense = stride[0] == 1 && stride[1] == 1;
    if (dense && stride[2] == 1 && stride[3] == 1) {
        QC_IVDEP
        for (int64_t i = 0; i < n; i++) y[i] = norm_clamped(x[i] * a[i] + b[i], lo, hi);
    } else if (dense && stride[2] == 0 && stride[3] == 0) {
        const float aa = *a, bb = *b;
        QC_IVDEP
        for (int64_t i = 0; i < n; i++) y[i] = norm_clamped(x[i] * aa + bb, lo, hi);
    } else {
        for (int64_t i = 0; i < n; i++)
            y[i * stride[0]] = norm_clamped(x[i * stride[1]] * a[i * stride[2]] + b[i * stride[3]], lo, hi);
    }
}

static void normalize_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct batch *s = user;
    scale(n, data, stride, s->lo, s->hi);
}

/* Pixels of all channels, with the channels last in memory: result, input, factors and summands as rows. */
QC_VECTOR(scale_pixels, (const struct qc_view *v, float lo, float hi), (v, lo, hi))
{
    float *y = v[0].data;
    const float *x = v[1].data, *a = v[2].data, *b = v[3].data;
    const int64_t rows = v->dim[0], n = v->dim[1], y_step = v[0].stride[0], x_step = v[1].stride[0];
    for (int64_t r = 0; r < rows; r++, y += y_step, x += x_step) {
        QC_IVDEP
        for (int64_t i = 0; i < n; i++) y[i] = norm_clamped(x[i] * a[i] + b[i], lo, hi);
    }
}

static bool run_batch(const struct qc_run *r, struct qc_status *st)
{
    struct batch *s = (struct batch *)(uintptr_t)r->state;
    const struct qc_view *x = &r->in[0];
    float *factors = s->factors ? s->factors : r->scratch;
    if (!s->factors) make_factors(factors, r->in, s->epsilon);
    struct qc_view a = *x, b;
    for (int d = 0; d < x->rank; d++) a.stride[d] = d == 1;
    b = a;
    a.data = factors;
    b.data = factors + r->in[1].dim[0];
    struct qc_view all[] = {r->out[0], *x, a, b};
    unsigned marked = 0;
    if (qc_view_count(x) == 0) return true;
    qc_views_simplify(4, all, &marked);
    bool rows = all[0].rank == 2 && all[2].stride[0] == 0;
    for (int k = 0; k < 4; k++) rows = rows && all[k].stride[1] == 1;
    if (rows)
        scale_pixels(all, s->lo, s->hi);
    else
        qc_view_each(4, QC_VIEWS(&all[0], &all[1], &all[2], &all[3]), normalize_run, s);
    return true;
}

/* --- InstanceNormalization: each channel of each sample has its own mean and variance --- */

static bool prepare_instance(struct qc_prepare *p, struct qc_status *st)
{
    for (unsigned i = 0; i < 3; i++)
        if (p->in[i].dtype != QC_F32) return qc_kernel_no_type(p->in[i].dtype, st);
    if (p->in[0].rank < 3) return qc_fail(st, QC_BAD_INPUT, "input has rank %d, expected at least 3", p->in[0].rank);
    for (unsigned i = 1; i < 3; i++)
        if ((int64_t)qc_view_count(&p->in[i]) != p->in[0].dim[1] || p->in[i].rank != 1)
            return qc_fail(st, QC_BAD_INPUT, "scale or bias has %zu elements, expected one per channel (%lld)",
                           qc_view_count(&p->in[i]), (long long)p->in[0].dim[1]);
    float *epsilon = QC_NEW_STATE(p, float, st);
    if (epsilon) *epsilon = qc_attr_float(p->node, "epsilon", 1e-5f);
    return epsilon != NULL;
}

/* A channel with contiguous elements. */
QC_VECTOR(norm_line, (float *y, const float *x, int64_t n, float scale, float bias, double epsilon),
          (y, x, n, scale, bias, epsilon))
{
    const double mean = qc_line_sum(x, n, 0) / (double)n;
    const double factor = (double)scale / sqrt(qc_line_squares(x, n, mean) / (double)n + epsilon);
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) y[i] = (float)(((double)x[i] - mean) * factor + (double)bias);
}

/* n rows, `step` apart, of `lanes` contiguous channels. */
struct rows {
    int64_t n, step[2], lanes; /* step: of output and input */
};

QC_VECTOR(add_rows, (double *sum, const float *x, const struct rows *r), (sum, x, r))
{
    for (int64_t i = 0; i < r->n; i++)
        for (int64_t j = 0; j < r->lanes; j++) sum[j] += (double)x[i * r->step[1] + j];
}

QC_VECTOR(add_squares, (double *sum, const float *x, const double *mean, const struct rows *r), (sum, x, mean, r))
{
    for (int64_t i = 0; i < r->n; i++) {
        for (int64_t j = 0; j < r->lanes; j++) {
            const double d = (double)x[i * r->step[1] + j] - mean[j];
            sum[j] += d * d;
        }
    }
}

QC_VECTOR(scale_rows,
          (float *y, const float *x, const double *mean, const double *factor, const double *bias,
           const struct rows *r),
          (y, x, mean, factor, bias, r))
{
    for (int64_t i = 0; i < r->n; i++) {
        QC_IVDEP
        for (int64_t j = 0; j < r->lanes; j++)
            y[i * r->step[0] + j] = (float)(((double)x[i * r->step[1] + j] - mean[j]) * factor[j] + bias[j]);
    }
}

/* Channels [c, c + lanes) of one sample; plane: output and input, with spatial dimensions only. */
static void side_by_side_norm(float *y, const float *x, const struct qc_view plane[2], const struct qc_run *r,
                              int64_t c, int64_t lanes)
{
    const double epsilon = (double)*(const float *)r->state, count = (double)qc_view_count(&plane[0]);
    const int inner = plane[0].rank - 1;
    const struct rows rows = {.n = plane[0].dim[inner],
                              .step = {plane[0].stride[inner], plane[1].stride[inner]},
                              .lanes = lanes};
    double mean[LANES] = {0}, factor[LANES] = {0}, bias[LANES];
    QC_WALK(w, 1U << inner, &plane[0], &plane[1]) add_rows(mean, x + w.at[1], &rows);
    for (int64_t j = 0; j < lanes; j++) mean[j] /= count;
    QC_WALK(w, 1U << inner, &plane[0], &plane[1]) add_squares(factor, x + w.at[1], mean, &rows);
    for (int64_t j = 0; j < lanes; j++) {
        factor[j] = weight_of_norm(&r->in[1], c + j) / sqrt(factor[j] / count + epsilon);
        bias[j] = weight_of_norm(&r->in[2], c + j);
    }
    QC_WALK(w, 1U << inner, &plane[0], &plane[1]) scale_rows(y + w.at[0], x + w.at[1], mean, factor, bias, &rows);
}

static bool run_instance(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *y = &r->out[0];
    struct qc_view x = r->in[0];
    if (!qc_view_same_order(y, &x)) { /* rare: copy to the output and work in place */
        qc_view_copy(y, &x);
        x = *y;
    }
    struct qc_view plane[2] = {*y, x};
    for (int k = 0; k < 2; k++) plane[k].dim[0] = plane[k].dim[1] = 1;
    unsigned none = 0;
    qc_views_simplify(2, plane, &none);
    const int64_t step = x.stride[1], count = (int64_t)qc_view_count(&plane[0]);
    const bool lines = plane[0].rank == 1 && (plane[0].stride[0] == 1 || count == 1);
    for (int64_t n = 0; n < x.dim[0]; n++) {
        for (int64_t c = 0; c < x.dim[1]; c += lines ? 1 : LANES) {
            const int64_t lanes = x.dim[1] - c < LANES ? x.dim[1] - c : LANES, at = n * x.stride[0] + c * step;
            if (lines)
                norm_line(qc_at(y, at), qc_at(&x, at), count, (float)weight_of_norm(&r->in[1], c),
                          (float)weight_of_norm(&r->in[2], c), (double)*(const float *)r->state);
            else
                side_by_side_norm(qc_at(y, at), qc_at(&x, at), plane, r, c, lanes);
        }
    }
    return true;
}

/* --- LRN: y = x / (bias + alpha / size * sum of squares over `size` channels around it)^beta --- */

struct lrn {
    int64_t size;
    float alpha, beta, bias;
};

static bool prepare_lrn(struct qc_prepare *p, struct qc_status *st)
{
    struct lrn *s = QC_NEW_STATE(p, struct lrn, st);
    if (!s) return false;
    if (p->in[0].dtype != QC_F32) return qc_kernel_no_type(p->in[0].dtype, st);
    if (p->in[0].rank < 2) return qc_fail(st, QC_BAD_INPUT, "input has rank %d, expected at least 2", p->in[0].rank);
    *s = (struct lrn){.size = qc_attr_int(p->node, "size", 0),
                      .alpha = qc_attr_float(p->node, "alpha", 1e-4f),
                      .beta = qc_attr_float(p->node, "beta", 0.75f),
                      .bias = qc_attr_float(p->node, "bias", 1)};
    if (s->size < 1)
        return qc_fail(st, QC_BAD_INPUT, "attribute size is %lld, expected at least 1", (long long)s->size);
    size_t sums;
    if (qc_add_size(&sums, (size_t)p->in[0].dim[1], 1) && qc_mul_size(&p->scratch, sums, sizeof(double))) return true;
    return qc_fail_memory(st, UINT64_MAX);
}

static bool run_lrn(const struct qc_run *r, struct qc_status *st)
{
    const struct lrn *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    const int64_t channels = x->dim[1], sx = x->stride[1], sy = y->stride[1];
    const int64_t before = (s->size - 1) / 2, after = s->size - 1 - before;
    const float factor = s->alpha / (float)s->size;
    double *sum = r->scratch; /* sum[c]: squares of all channels below c */
    QC_WALK(w, 1U << 1, y, x) {
        const float *from = qc_at(x, w.at[1]);
        float *to = qc_at(y, w.at[0]);
        sum[0] = 0;
        for (int64_t c = 0; c < channels; c++) sum[c + 1] = sum[c] + (double)from[c * sx] * (double)from[c * sx];
        for (int64_t c = 0; c < channels; c++) {
            const double squares =
                sum[c + after < channels ? c + after + 1 : channels] - sum[c > before ? c - before : 0];
            to[c * sy] = from[c * sx] / powf(s->bias + factor * (float)squares, s->beta);
        }
    }
    return true;
}

/* --- LpNormalization: along one axis, x / (sum |x|^p)^(1/p), p 1 or 2; a line of zeros stays --- */

struct lp {
    int axis;
    int64_t p;
};

static bool prepare_lp(struct qc_prepare *p, struct qc_status *st)
{
    struct lp *s = QC_NEW_STATE(p, struct lp, st);
    if (!s) return false;
    if (p->in[0].dtype != QC_F32) return qc_kernel_no_type(p->in[0].dtype, st);
    s->p = qc_attr_int(p->node, "p", 2);
    if (s->p != 1 && s->p != 2)
        return qc_fail(st, QC_BAD_INPUT, "attribute p is %lld, expected 1 or 2", (long long)s->p);
    return qc_kernel_axis(&s->axis, p, -1, st);
}

static void lp_line(const void *user, void *y, const void *x, int64_t n, int64_t sy, int64_t sx)
{
    const struct lp *s = user;
    const float *from = x;
    float *to = y;
    double norm = 0;
    for (int64_t i = 0; i < n; i++) {
        const double v = (double)from[i * sx];
        norm += s->p == 1 ? fabs(v) : v * v;
    }
    if (s->p == 2) norm = sqrt(norm);
    for (int64_t i = 0; i < n; i++) to[i * sy] = norm != 0 ? (float)((double)from[i * sx] / norm) : 0;
}

static bool run_lp(const struct qc_run *r, struct qc_status *st)
{
    const struct lp *s = r->state;
    qc_lines_each(&r->out[0], &r->in[0], s->axis, lp_line, s);
    return true;
}

QC_KERNEL(batch_norm, .order = QC_ORDER_ANY, .fuses = true, .in_place = 1, .prepare = prepare_batch, .run = run_batch);
QC_KERNEL(instance_norm, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_instance, .run = run_instance);
QC_KERNEL(lrn, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_lrn, .run = run_lrn);
QC_KERNEL(lp_norm, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_lp, .run = run_lp);

/* LayerNormalization-17: over axes [axis, rank), (x - mean) / sqrt(var + epsilon) * Scale + B. Statistics in double. */

struct state {
    int axis;
    double epsilon;
    bool plain; /* Scale and B have one number per normalised element */
};

static bool prepare_layer(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s || !qc_kernel_axis(&s->axis, p, -1, st)) return false;
    s->epsilon = (double)qc_attr_float(p->node, "epsilon", 1e-5f);
    s->plain = true;
    for (unsigned i = 0; i < p->input_count; i++) {
        const struct qc_view *v = &p->in[i], *x = &p->in[0];
        if (!qc_kernel_has(p, i)) continue;
        if (v->dtype != QC_F32) return qc_kernel_no_type(v->dtype, st);
        if (i == 0) continue;
        bool fits = v->rank <= x->rank;
        for (int d = 1; fits && d <= v->rank; d++)
            fits = v->dim[v->rank - d] == 1 || v->dim[v->rank - d] == x->dim[x->rank - d];
        if (!fits)
            return qc_fail(st, QC_BAD_INPUT, "input \"%s\" does not broadcast to the shape of X",
                           i == 1 ? "Scale" : "B");
        if (v->rank != x->rank - s->axis) s->plain = false;
        for (int d = 0; d < v->rank && s->plain; d++) s->plain = v->dim[d] == x->dim[s->axis + d];
        s->plain = s->plain && qc_view_row_major(v);
    }
    return true;
}

QC_VECTOR(normalise, (float *y, const float *x, int64_t n, double epsilon, const float *scale, const float *bias),
          (y, x, n, epsilon, scale, bias))
{
    const double mean = qc_line_sum(x, n, 0) / (double)n;
    const double factor = 1 / sqrt(qc_line_squares(x, n, mean) / (double)n + epsilon);
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)(((double)x[i] - mean) * factor);
        y[i] = (scale ? v * scale[i] : v) + (bias ? bias[i] : 0);
    }
}

static void multiply_row(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    for (int64_t i = 0; i < n; i++) ((float *)data[0])[i * stride[0]] *= ((const float *)data[1])[i * stride[1]];
}

static void add_row(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    for (int64_t i = 0; i < n; i++) ((float *)data[0])[i * stride[0]] += ((const float *)data[1])[i * stride[1]];
}

static bool run_layer(const struct qc_run *r, struct qc_status *st)
{
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
    qc_view_each(2, views, multiply_row, NULL);
    if (!has_bias) return true;
    const struct qc_view bias = qc_view_broadcast(&r->in[2], y);
    views[1] = &bias;
    qc_view_each(2, views, add_row, NULL);
    return true;
}

QC_KERNEL(layer_norm, .order = QC_ORDER_ROW, .in_place = 1, .prepare = prepare_layer, .run = run_layer);
