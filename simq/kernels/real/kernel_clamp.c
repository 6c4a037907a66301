// SPDX-License-Identifier: Apache-2.0
/* Relu and Clip. On centred integers, zero is 0, and the bounds of Clip are quantized with the parameters of the
   data. */
#include <math.h>

#include "simq/core/convert.h"
#include "simq/core/kernel_util.h"

struct state {
    bool relu;
    bool affine;
    struct qc_affine parameters;
    struct qc_levels levels;
    struct qc_rounding channels; /* bounds of a Clip with one scale per channel; else count is 0 */
    int axis;
};

static float bound_in_levels(float bound, const struct qc_scales *q, size_t c)
{
    const struct qc_affine p = {.scale = q->scale[c], .zero_point = q->zero_point[c]};
    return isinf(bound) ? bound : (float)(qc_quantize_one(bound, p, q->levels) - p.zero_point);
}

/* Reads the constant bound i; `otherwise` if it is absent. */
static bool known_bound(float *out, const struct qc_prepare *p, unsigned i, float otherwise)
{
    *out = otherwise;
    if (!qc_kernel_has(p, i)) return true;
    if (!p->in[i].data || p->in[i].dtype != QC_F32) return false;
    *out = *(const float *)p->in[i].data;
    return true;
}

struct bounds {
    const void *lo, *hi; /* one element of the data's type; NULL: none */
};

#define QC_CLAMP(NAME, T)                                                                                              \
    static void clamp_##NAME(void *user, int64_t n, void *const data[], const int64_t stride[])                        \
    {                                                                                                                  \
        const struct bounds *b = user;                                                                                 \
        T *y = data[0];                                                                                                \
        const T *x = data[1];                                                                                          \
        for (int64_t i = 0; i < n; i++) {                                                                              \
            T v = x[i * stride[1]];                                                                                    \
            if (b->lo && v < *(const T *)b->lo) v = *(const T *)b->lo;                                                 \
            if (b->hi && v > *(const T *)b->hi) v = *(const T *)b->hi;                                                 \
            y[i * stride[0]] = v;                                                                                      \
        }                                                                                                              \
    }
QC_CLAMP(F64, double)
QC_KERNEL_SIGNED(QC_CLAMP)
QC_KERNEL_UNSIGNED(QC_CLAMP)

/* For all types except float32. */
static qc_view_run_fn *const loops[QC_DTYPE_COUNT] = {
#define QC_LOOP(NAME, T) [QC_##NAME] = clamp_##NAME,
    QC_LOOP(F64, double) QC_KERNEL_SIGNED(QC_LOOP) QC_KERNEL_UNSIGNED(QC_LOOP)
#undef QC_LOOP
};

static bool prepare_clamp(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    const struct qc_scales *q = &p->in_scales[0];
    if (!s) return false;
    s->relu = p->node->op == QC_OP_Relu;
    s->affine = !q->identity;
    if (s->affine && !s->relu && q->count != 1) {
        float lo, hi, *all = QC_NEW_ARRAY(p->arena, float, 4 * q->count, st);
        if (!all) return false;
        if (!known_bound(&lo, p, 1, -INFINITY) || !known_bound(&hi, p, 2, INFINITY))
            return qc_fail(st, QC_UNSUPPORTED, "computed bounds cannot be quantized with one scale per channel");
        for (size_t c = 0; c < q->count; c++) {
            all[c] = all[q->count + c] = 1;
            all[2 * q->count + c] = bound_in_levels(lo, q, c);
            all[3 * q->count + c] = bound_in_levels(hi, q, c);
        }
        s->axis = q->axis;
        s->channels = (struct qc_rounding){.kind = QC_ROUNDING_COPY,
                                           .count = q->count,
                                           .a = all,
                                           .b = all + q->count,
                                           .lo = all + 2 * q->count,
                                           .hi = all + 3 * q->count};
    }
    s->parameters = (struct qc_affine){.scale = q->scale[0], .zero_point = q->zero_point[0]};
    s->levels = q->levels;
    return p->in[0].dtype == QC_F32 || loops[p->in[0].dtype] || qc_kernel_no_type(p->in[0].dtype, st);
}

static bool run_clamp(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    const uint64_t zero = 0; /* zero in every type */
    struct bounds b = {.lo = s->relu ? &zero : NULL};
    if (!s->relu && r->input_count > 1 && r->in[1].rank >= 0) b.lo = r->in[1].data;
    if (!s->relu && r->input_count > 2 && r->in[2].rank >= 0) b.hi = r->in[2].data;
    if (s->channels.count) {
        qc_rounding_view(&s->channels, s->axis, &r->out[0], &r->in[0]);
        return true;
    }
    if (r->in[0].dtype != QC_F32) {
        qc_view_each(2, QC_VIEWS(&r->out[0], &r->in[0]), loops[r->in[0].dtype], &b);
        return true;
    }
    const float one = 1;
    float lo = b.lo ? *(const float *)b.lo : -INFINITY, hi = b.hi ? *(const float *)b.hi : INFINITY;
    if (s->affine && !s->relu) {
        lo = lo > -INFINITY ? (float)(qc_quantize_one(lo, s->parameters, s->levels) - s->parameters.zero_point) : lo;
        hi = hi < INFINITY ? (float)(qc_quantize_one(hi, s->parameters, s->levels) - s->parameters.zero_point) : hi;
    }
    const struct qc_rounding clamp = {.kind = QC_ROUNDING_COPY, .count = 1, .a = &one, .b = &one, .lo = &lo, .hi = &hi};
    qc_rounding_view(&clamp, 0, &r->out[0], &r->in[0]);
    return true;
}

QC_KERNEL(relu, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_clamp, .run = run_clamp);
QC_KERNEL(clip, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_clamp, .run = run_clamp);
