// SPDX-License-Identifier: Apache-2.0
/* Quantize, Dequantize, Requantize: convert from the qparams and representation of the input to those of the output. */
#include <math.h>

#include "base/simd.h"
#include "graph/core/parameters.h"
#include "simq/core/convert.h"

/* A constant with a scale per block, dense and row-major. Real numbers are converted to centred numbers or stored
   integers, and both of these to real numbers. */
struct blocked {
    const struct qc_scales *scales; /* NULL: no blocks */
    struct qc_scale_layout layout;
    bool quantizes;
};

struct state {
    struct blocked blocked;
    bool real; /* float32 on both sides */
    int axis;
    struct qc_rounding rounding;
    struct qc_convert convert;
};

/* As qc_quantize_one, minus the zero point. Scales are `step` (0 or 1) apart. */
QC_VECTOR_ROUND(quantize,
                (float *y, const float *x, size_t n, const float *scale, const int32_t *zero, size_t step,
                 struct qc_levels levels),
                (y, x, n, scale, zero, step, levels))
{
    const float low = (float)(levels.lo - zero[0]), high = (float)(levels.hi - zero[0]), same = scale[0];
    if (step) {
        QC_IVDEP for (size_t i = 0; i < n; i++)
        {
            const float r = qc_round_even(x[i] / scale[i], native), lo = (float)(levels.lo - zero[i]),
                        hi = (float)(levels.hi - zero[i]);
            y[i] = (r > lo ? (r < hi ? r : hi) : lo) + 0.0f; /* no -0 */
        }
    } else {
        QC_IVDEP for (size_t i = 0; i < n; i++)
        {
            const float r = qc_round_even(x[i] / same, native);
            y[i] = (r > low ? (r < high ? r : high) : low) + 0.0f;
        }
    }
}

/* Quantizes to floating-point levels. */
QC_VECTOR(quantize_float,
          (float *y, const float *x, size_t n, const float *scale, size_t step, struct qc_levels levels),
          (y, x, n, scale, step, levels))
{
    const float lo = (float)levels.lo, hi = (float)levels.hi, same = scale[0];
    if (step)
        for (size_t i = 0; i < n; i++) y[i] = qc_float_level(x[i] / scale[i], lo, hi, levels.mantissa, levels.least);
    else
        for (size_t i = 0; i < n; i++) y[i] = qc_float_level(x[i] / same, lo, hi, levels.mantissa, levels.least);
}

/* Dequantizes centred numbers. */
QC_VECTOR(scale_up, (float *y, const float *x, size_t n, const float *scale, size_t step), (y, x, n, scale, step))
{
    const float same = scale[0];
    if (step)
        for (size_t i = 0; i < n; i++) y[i] = x[i] * scale[i];
    else
        for (size_t i = 0; i < n; i++) y[i] = x[i] * same;
}

/* centred: the integers already exclude the zero point. */
QC_VECTOR(dequantize,
          (float *y, const int32_t *q, size_t n, const float *scale, const int32_t *zero, size_t step, int32_t centred),
          (y, q, n, scale, zero, step, centred))
{
    const float same = scale[0];
    const int32_t first = zero[0] & ~centred;
    if (step)
        for (size_t i = 0; i < n; i++) y[i] = (float)(q[i] - (zero[i] & ~centred)) * scale[i];
    else
        for (size_t i = 0; i < n; i++) y[i] = (float)(q[i] - first) * same;
}

/* Returns how many elements from `at` on, at most n, share one scale (*step = 0) or have adjacent scales (*step =
   1). */
static size_t run_of_scales(size_t *step, const struct qc_scale_layout *l, size_t at, size_t n)
{
    size_t left = n;
    *step = l->count > 1 && l->inner > 1;
    if (*step) {
        left = l->inner - at % l->inner;
    } else if (l->count > 1) {
        const size_t place = at % l->size, block = l->block - place % l->block;
        left = block < l->size - place ? block : l->size - place;
    }
    return left < n ? left : n;
}

/* Stores centred numbers as integers, starting at element `at` of the result. */
static void store_quantize(const struct qc_view *out, size_t at, const float *centred, size_t n, const int32_t *zero,
                           size_t step)
{
    for (size_t i = 0; i < n; i++) {
        const int32_t q = (int32_t)centred[i] + zero[step ? i : 0];
        switch (qc_dtype_size(out->dtype)) {
        case 1: ((uint8_t *)out->data)[at + i] = (uint8_t)q; break;
        case 2: ((uint16_t *)out->data)[at + i] = (uint16_t)q; break;
        default: ((int32_t *)out->data)[at + i] = q; break;
        }
    }
}

static void run_blocks(const struct blocked *b, const struct qc_view *out, const struct qc_view *in)
{
    enum { CHUNK = 256 };
    const struct qc_scales *s = b->scales;
    const struct qc_tensor x = {.dtype = in->dtype, .data = in->data};
    float *y = out->data;
    int32_t q[CHUNK];
    float centred[CHUNK];
    size_t count = 1;
    for (int i = 0; i < in->rank; i++) count *= (size_t)in->dim[i];
    for (size_t at = 0, n, step; at < count; at += n) {
        const size_t k = qc_scale_at(&b->layout, at);
        n = run_of_scales(&step, &b->layout, at, count - at < CHUNK ? count - at : CHUNK);
        if (b->quantizes) {
            float *to = out->dtype == QC_F32 ? y + at : centred;
            const float *real = (const float *)x.data + at;
            if (s->levels.mantissa)
                quantize_float(to, real, n, s->scale + k, step, s->levels);
            else
                quantize(to, real, n, s->scale + k, s->zero_point + k, step, s->levels);
            if (out->dtype != QC_F32) store_quantize(out, at, centred, n, s->zero_point + k, step);
        } else if (x.dtype == QC_F32 && s->levels.mantissa) {
            scale_up(y + at, (const float *)x.data + at, n, s->scale + k, step);
        } else { /* centred numbers are float32, stored integers are not */
            qc_tensor_ints(q, &x, at, n);
            dequantize(y + at, q, n, s->scale + k, s->zero_point + k, step, x.dtype == QC_F32 ? -1 : 0);
        }
    }
}

static bool prepare_quantize(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    const struct qc_scales *from = &p->in_scales[0], *to = &p->out_scales[0];
    if (!s) return false;
    if (from->block || to->block) {
        struct qc_scales *scales = QC_NEW(p->arena, struct qc_scales, st);
        if (!scales) return false;
        *scales = from->block ? *from : *to;
        const struct qc_shape shape = qc_shape_of(p->in[0].rank, p->in[0].dim);
        s->blocked =
            (struct blocked){.scales = scales,
                             .layout = qc_scale_layout_of(&p->graph->qparams_of[scales->qparams], &shape, scales->axis),
                             .quantizes = !from->block};
        return true;
    }
    s->axis = from->count > 1 ? from->axis : to->axis;
    s->real = p->in[0].dtype == QC_F32 && p->out[0].dtype == QC_F32;
    if (s->real) return qc_rounding_of(&s->rounding, from, to, -INFINITY, INFINITY, p->arena, st);
    const struct qc_node *made = p->node ? qc_node_of(p->graph, p->node->inputs[0]) : NULL;
    const bool dense = made && (made->op == QC_OP_Gemm || made->op == QC_OP_MatMul);
    const struct qc_convert_how how = {.contract = p->contract,
                                       .graph = p->graph,
                                       .product = dense ? QC_FROM_DENSE : QC_FROM_PRODUCT};
    return qc_convert_of(&s->convert, (struct qc_convert_end){p->in[0].dtype, from},
                         (struct qc_convert_end){p->out[0].dtype, to}, -INFINITY, INFINITY, &how, p->arena, st);
}

static bool run_quantize(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    if (s->blocked.scales)
        run_blocks(&s->blocked, &r->out[0], &r->in[0]);
    else if (s->real)
        qc_rounding_view(&s->rounding, s->axis, &r->out[0], &r->in[0]);
    else
        qc_convert_view(&s->convert, &r->out[0], &r->in[0]);
    return true;
}

QC_KERNEL(quantize, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_quantize, .run = run_quantize);
QC_KERNEL(dequantize, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_quantize, .run = run_quantize);
QC_KERNEL(requantize, .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare_quantize, .run = run_quantize);
