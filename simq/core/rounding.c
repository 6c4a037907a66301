// SPDX-License-Identifier: Apache-2.0
#include "simq/core/convert.h"

#include "base/pool.h"

/* The largest float32 that fits in int32: the highest 32-bit level is not a float32 number. */
#define INT32_TOP 2147483520.0f

static enum qc_rounding_kind kind_of(const struct qc_scales *from, const struct qc_scales *to)
{
    if (to->identity) return from->identity ? QC_ROUNDING_COPY : QC_ROUNDING_DEQUANTIZE;
    if (to->rounds && to->levels.mantissa) return QC_ROUNDING_FLOAT;
    if (from->identity) return to->rounds ? QC_ROUNDING_QUANTIZE : QC_ROUNDING_DIVIDE;
    if (!to->rounds) return QC_ROUNDING_RESCALE;
    return from->product ? QC_ROUNDING_REQUANTIZE : QC_ROUNDING_RESCALE;
}

bool qc_rounding_of(struct qc_rounding *out, const struct qc_scales *from, const struct qc_scales *to, float lo,
                    float hi, struct qc_arena *a, struct qc_status *st)
{
    const enum qc_rounding_kind kind = kind_of(from, to);
    const size_t count = from->count > to->count ? from->count : to->count;
    if (kind == QC_ROUNDING_FLOAT && !from->identity)
        return qc_fail(st, QC_UNSUPPORTED, "floating-point levels are made of real numbers, not of other levels");
    if ((from->count != 1 && from->count != count) || (to->count != 1 && to->count != count))
        return qc_fail(st, QC_BAD_INPUT, "qparams with %zu and %zu channels do not fit", from->count, to->count);
    if (from->count > 1 && to->count > 1 && from->axis != to->axis)
        return qc_fail(st, QC_BAD_INPUT, "qparams with channels along axes %d and %d do not fit", from->axis, to->axis);
    float *factor = QC_NEW_ARRAY(a, float, 4 * count, st);
    if (!factor) return false;
    float *step = factor + count, *least = factor + 2 * count, *most = factor + 3 * count;
    for (size_t c = 0; c < count; c++) {
        const float sx = from->scale[from->count > 1 ? c : 0], sy = to->scale[to->count > 1 ? c : 0];
        const int64_t zero = to->rounds ? to->zero_point[to->count > 1 ? c : 0] : 0;
        const float low = (float)(to->levels.lo - zero), top = (float)(to->levels.hi - zero);
        const float high = top < INT32_TOP ? top : INT32_TOP;
        least[c] = to->rounds ? qc_clamp(lo, low, high) : lo;
        most[c] = to->rounds ? qc_clamp(hi, low, high) : hi;
        factor[c] = kind == QC_ROUNDING_REQUANTIZE ? sx / sy : sx;
        step[c] = sy;
    }
    *out = (struct qc_rounding){.kind = kind,
                                .count = count,
                                .a = factor,
                                .b = step,
                                .lo = least,
                                .hi = most,
                                .mantissa = to->levels.mantissa,
                                .least = to->levels.least};
    return true;
}

static void strided_rounding(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    enum { BLOCK = 256 };
    const struct qc_rounding *r = user;
    float *y = data[0], block[BLOCK];
    const float *x = data[1];
    if (stride[0] == 1 && stride[1] == 1) {
        qc_rounding_run(r, y, x, (size_t)n);
        return;
    }
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
        for (int64_t k = 0; k < count; k++) block[k] = x[(i + k) * stride[1]];
        qc_rounding_run(r, block, block, (size_t)count);
        for (int64_t k = 0; k < count; k++) y[(i + k) * stride[0]] = block[k];
    }
}

/* Fewer elements than this are rounded faster on one thread than with channels in parallel. */
enum { SHARED_LEAST = 1 << 18 };

struct by_channel {
    const struct qc_rounding *r;
    int axis;
    const struct qc_view *y, *x;
};

static void round_channel(void *user, size_t c)
{
    const struct by_channel *of = user;
    const int axis = of->axis;
    struct qc_rounding one = qc_rounding_channel(of->r, c);
    struct qc_view y = *of->y, x = *of->x;
    if (of->r->count > 1) {
        y.dim[axis] = x.dim[axis] = 1;
        y.data = (float *)y.data + (int64_t)c * y.stride[axis];
        x.data = (float *)x.data + (int64_t)c * x.stride[axis];
    }
    qc_view_each(2, QC_VIEWS(&y, &x), strided_rounding, &one);
}

void qc_rounding_view(const struct qc_rounding *r, int axis, const struct qc_view *y, const struct qc_view *x)
{
    const bool flat = qc_view_same_order(y, x);
    if (flat && (r->count == 1 || y->stride[axis] == 1)) {
        qc_rounding_run(r, y->data, x->data, qc_view_count(y));
        return;
    }
    struct by_channel of = {.r = r, .axis = axis, .y = y, .x = x};
    if (r->count > 1 && qc_view_count(y) >= SHARED_LEAST)
        qc_pool_loop(r->count, round_channel, &of);
    else
        for (size_t c = 0; c < r->count; c++) round_channel(&of, c);
}
