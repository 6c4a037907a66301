// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/real/resize_taps.h"

#include <math.h>

#include "base/checked.h"

/* Returns the input position of output i, in elements. */
static float coordinate(const struct qc_resize_axis *x, enum qc_resize_coordinate how, int64_t i)
{
    const float at = (float)i, in = (float)x->in, out = (float)x->out;
    switch (how) {
    case QC_RESIZE_HALF_PIXEL: return (at + 0.5f) / x->scale - 0.5f;
    case QC_RESIZE_HALF_PIXEL_SYMMETRIC: {
        const float adjustment = out / (x->scale * in), center = in / 2;
        return center * (1 - adjustment) + (at + 0.5f) / x->scale - 0.5f;
    }
    case QC_RESIZE_PYTORCH_HALF_PIXEL: return x->out > 1 ? (at + 0.5f) / x->scale - 0.5f : 0;
    case QC_RESIZE_ALIGN_CORNERS: return x->out == 1 || x->length == 1 ? 0 : at * (in - 1) / (x->length - 1);
    case QC_RESIZE_ASYMMETRIC: return at / x->scale;
    case QC_RESIZE_TF_CROP_AND_RESIZE:
        if (x->out > 1) return x->roi_begin * (in - 1) + at * (x->roi_end - x->roi_begin) * (in - 1) / (out - 1);
        return 0.5f * (x->roi_begin + x->roi_end) * (in - 1);
    }
    return at;
}

static float round_nearest(float v, enum qc_resize_nearest how)
{
    switch (how) {
    case QC_RESIZE_ROUND_PREFER_FLOOR: return ceilf(v - 0.5f);
    case QC_RESIZE_ROUND_PREFER_CEIL: return roundf(v); /* ties below 0 do not matter: all are clamped */
    case QC_RESIZE_FLOOR: return floorf(v);
    case QC_RESIZE_CEIL: return ceilf(v);
    }
    return v;
}

static int64_t clamp(float v, int64_t n)
{
    if (!(v > 0)) return 0;
    return v < (float)(n - 1) ? (int64_t)v : n - 1;
}

/* Keys' cubic convolution kernel with free parameter a (IEEE Trans. ASSP 29, 1981). */
static float cubic(float v, float a)
{
    v = fabsf(v);
    if (v <= 1) return ((a + 2) * v - (a + 3)) * v * v + 1;
    return v < 2 ? ((a * v - 5 * a) * v + 8 * a) * v - 4 * a : 0;
}

static void nearest_taps(struct qc_resize_taps *t, const struct qc_resize_axis *x, const struct qc_resize_options *o)
{
    for (int64_t i = 0; i < x->out; i++) {
        t->index[i] = clamp(round_nearest(coordinate(x, o->coordinate, i), o->nearest), x->in);
        t->weight[i] = 1;
    }
}

static void linear_taps(struct qc_resize_taps *t, const struct qc_resize_axis *x, const struct qc_resize_options *o)
{
    for (int64_t i = 0; i < x->out; i++) {
        const float last = (float)(x->in - 1);
        float at = coordinate(x, o->coordinate, i);
        at = at > 0 ? (at < last ? at : last) : 0;
        int64_t *index = &t->index[2 * i];
        float *weight = &t->weight[2 * i];
        index[0] = clamp(at, x->in);
        index[1] = index[0] + 1 < x->in ? index[0] + 1 : x->in - 1;
        weight[1] = index[0] == index[1] ? 0 : at - (float)index[0];
        weight[0] = 1 - weight[1];
    }
}

/* Four neighbours; outside ones take the border value, or are excluded. */
static void cubic_taps(struct qc_resize_taps *t, const struct qc_resize_axis *x, const struct qc_resize_options *o)
{
    for (int64_t i = 0; i < x->out; i++) {
        const float at = coordinate(x, o->coordinate, i), first = floorf(at) - 1;
        float *weight = &t->weight[4 * i], sum = 0;
        for (int k = 0; k < 4; k++) {
            const float place = first + (float)k;
            const bool inside = place >= 0 && place < (float)x->in;
            t->index[4 * i + k] = clamp(place, x->in);
            weight[k] = inside || !o->exclude_outside ? cubic(place - at, o->cubic_a) : 0;
            sum += weight[k];
        }
        for (int k = 0; k < 4 && o->exclude_outside && sum != 0; k++) weight[k] /= sum;
    }
}

/* Returns how many elements on either side a kernel of this reach covers when it is stretched by 1 / scale. */
static int64_t covered(const struct qc_resize_axis *x, float reach)
{
    return -(int64_t)(floorf(-reach / fminf(x->scale, 1)) + 1);
}

/* All neighbours that the stretched kernel covers, with weights normalised to the sum 1. */
static void wide_taps(struct qc_resize_taps *t, const struct qc_resize_axis *x, const struct qc_resize_options *o)
{
    const bool linear = o->mode == QC_RESIZE_LINEAR;
    const float scale = fminf(x->scale, 1);
    const int64_t before = t->taps / 2 - 1;
    for (int64_t i = 0; i < x->out; i++) {
        const float at = coordinate(x, o->coordinate, i), base = ceilf(at) - 1;
        int64_t *index = &t->index[t->taps * i];
        float *weight = &t->weight[t->taps * i], sum = 0, kept = 0;
        for (int64_t k = 0; k < t->taps; k++) {
            const float place = base + (float)(k - before), away = fabsf(place - at) * scale;
            const bool inside = place >= 0 && place < (float)x->in;
            index[k] = clamp(place, x->in);
            weight[k] = linear ? fmaxf(1 - away, 0) : cubic(away, o->cubic_a);
            sum += weight[k];
            if (!inside && o->exclude_outside) weight[k] = 0;
            kept += weight[k];
        }
        if (o->exclude_outside) sum = kept;
        for (int64_t k = 0; k < t->taps && sum != 0; k++) weight[k] /= sum;
    }
}

bool qc_resize_taps_of(struct qc_resize_taps *out, const struct qc_resize_axis *x, const struct qc_resize_options *o,
                       struct qc_arena *a, struct qc_status *st)
{
    const bool crop = o->coordinate == QC_RESIZE_TF_CROP_AND_RESIZE;
    struct qc_resize_taps t = {.taps = o->mode == QC_RESIZE_NEAREST ? 1 : o->mode == QC_RESIZE_LINEAR ? 2 : 4};
    size_t count;
    const bool wide = o->antialias && o->mode != QC_RESIZE_NEAREST;
    if (wide) t.taps = 2 + 2 * covered(x, o->mode == QC_RESIZE_LINEAR ? 1 : 2);
    t.identity = x->in == x->out && x->scale == 1 && !crop;
    if (!qc_mul_size(&count, (size_t)x->out, (size_t)t.taps)) return qc_fail_memory(st, UINT64_MAX);
    t.index = QC_NEW_ARRAY(a, int64_t, count, st);
    t.weight = QC_NEW_ARRAY(a, float, count, st);
    if (!t.index || !t.weight) return false;
    if (crop && !(t.outside = QC_NEW_ARRAY(a, bool, x->out, st))) return false;
    for (int64_t i = 0; t.outside && i < x->out; i++) {
        const float at = coordinate(x, o->coordinate, i);
        t.outside[i] = !(at >= 0 && at <= (float)(x->in - 1));
    }
    if (wide) {
        wide_taps(&t, x, o);
        *out = t;
        return true;
    }
    switch (o->mode) {
    case QC_RESIZE_NEAREST: nearest_taps(&t, x, o); break;
    case QC_RESIZE_LINEAR: linear_taps(&t, x, o); break;
    case QC_RESIZE_CUBIC: cubic_taps(&t, x, o); break;
    }
    *out = t;
    return true;
}
