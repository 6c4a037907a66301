// SPDX-License-Identifier: Apache-2.0
#include "datasets/stream/dataset_impl.h"

#include <math.h>
#include <string.h>

#include "graph/types/number_format.h"

struct step {
    float scale, mean, std;
};

/* An absent step changes nothing: x * 1, x - 0 and x / 1 are x, to the bit. */
static struct step step_of(const struct qc_preprocess *p, size_t channel)
{
    return (struct step){
        .scale = p->scale_count == 0 ? 1.0f : p->scale[p->scale_count > 1 ? channel : 0],
        .mean = p->mean_count == 0 ? 0.0f : p->mean[p->mean_count > 1 ? channel : 0],
        .std = p->std_count == 0 ? 1.0f : p->std[p->std_count > 1 ? channel : 0],
    };
}

static float apply_step(float x, struct step s)
{
    return (x * s.scale - s.mean) / s.std;
}

/* Types and the function that makes a float of an element; the integers of fewer bits are held in bytes. */
#define TO_FLOAT(x) ((float)(x))
#define INTEGERS(X)                                                                                                    \
    X(U8, uint8_t, TO_FLOAT)                                                                                           \
    X(U4, uint8_t, TO_FLOAT)                                                                                           \
    X(U2, uint8_t, TO_FLOAT)                                                                                           \
    X(BOOL, uint8_t, TO_FLOAT)                                                                                         \
    X(I8, int8_t, TO_FLOAT)                                                                                            \
    X(I4, int8_t, TO_FLOAT)                                                                                            \
    X(I2, int8_t, TO_FLOAT)                                                                                            \
    X(U16, uint16_t, TO_FLOAT)                                                                                         \
    X(I16, int16_t, TO_FLOAT)                                                                                          \
    X(U32, uint32_t, TO_FLOAT)                                                                                         \
    X(I32, int32_t, TO_FLOAT)                                                                                          \
    X(I64, int64_t, TO_FLOAT)
#define FLOATS(X)                                                                                                      \
    X(F32, float, TO_FLOAT)                                                                                            \
    X(F16, uint16_t, qc_half_to_float)                                                                                 \
    X(BF16, uint16_t, qc_bfloat_to_float)

/* Converts n values of type t from element `at` of in, preprocessed. */
static void row(float *restrict out, const void *in, size_t at, size_t n, enum qc_dtype t, struct step s)
{
#define ROW(NAME, T, LOAD)                                                                                             \
    case QC_##NAME:                                                                                                    \
        for (size_t i = 0; i < n; i++) out[i] = apply_step(LOAD(((const T *)in)[at + i]), s);                          \
        break;
    switch (t) {
        INTEGERS(ROW)
        ROW(U64, uint64_t, TO_FLOAT)
        FLOATS(ROW)
        ROW(F64, double, TO_FLOAT)
    QC_CASE_SMALL_FLOATS:
        for (size_t i = 0; i < n; i++) out[i] = apply_step(qc_small_to_float(t, ((const uint8_t *)in)[at + i]), s);
        break;
    case QC_NONE:
    case QC_DTYPE_COUNT: break;
    }
#undef ROW
}

/* An integer as sign and magnitude: holds both int64 and uint64. */
struct whole {
    uint64_t magnitude;
    bool negative;
};

static struct whole whole_of(int64_t v)
{
    return (struct whole){.magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v, .negative = v < 0};
}

/* Returns false if v is no integer or beyond 64 bits. */
static bool whole_of_double(struct whole *out, double v)
{
    if (!(fabs(v) < 18446744073709551616.0) || v != trunc(v)) return false;
    *out = (struct whole){.magnitude = (uint64_t)fabs(v), .negative = v < 0};
    return true;
}

static bool load_whole(struct whole *out, double *shown, const void *in, size_t at, enum qc_dtype t)
{
#define INTEGER(NAME, T, LOAD)                                                                                         \
    case QC_##NAME:                                                                                                    \
        *out = whole_of(((const T *)in)[at]);                                                                          \
        break;
#define FLOAT(NAME, T, LOAD)                                                                                           \
    case QC_##NAME: return whole_of_double(out, *shown = (double)LOAD(((const T *)in)[at]));
    switch (t) {
        INTEGERS(INTEGER)
    case QC_U64:
        *out = (struct whole){.magnitude = ((const uint64_t *)in)[at]};
        break;
        FLOATS(FLOAT)
    case QC_F64:
        return whole_of_double(out, *shown = ((const double *)in)[at]);
    QC_CASE_SMALL_FLOATS:
        return whole_of_double(out, *shown = (double)qc_small_to_float(t, ((const uint8_t *)in)[at]));
    case QC_NONE:
    case QC_DTYPE_COUNT: return false;
    }
#undef INTEGER
#undef FLOAT
    *shown = out->negative ? -(double)out->magnitude : (double)out->magnitude;
    return true;
}

static void store_whole(void *out, size_t at, size_t size, struct whole w)
{
    uint64_t v = w.negative ? 0 - w.magnitude : w.magnitude;
    char *p = (char *)out + at * size;
    if (size == 1)
        memcpy(p, &(uint8_t){(uint8_t)v}, 1);
    else if (size == 2)
        memcpy(p, &(uint16_t){(uint16_t)v}, 2);
    else if (size == 4)
        memcpy(p, &(uint32_t){(uint32_t)v}, 4);
    else
        memcpy(p, &v, 8);
}

/* Converts element by element, for every target type but float32. */
static bool convert_slowly(void *out, const void *in, const struct qc_conversion *c, struct qc_status *st)
{
    const bool none = qc_preprocess_is_none(&c->preprocess), is_float = qc_dtype_info(c->to)->is_float;
    /* Real numbers that the input stores quantized. */
    const bool quantized = c->scale > 0 && (qc_dtype_info(c->from)->is_float || !none);
    const size_t total = c->outer * c->channels * c->inner, size = qc_dtype_size(c->to);
    uint64_t positive = 0, negative = 0;
    if (!is_float) {
        /* The largest magnitudes above and below 0. */
        const struct qc_dtype_info *info = qc_dtype_info(c->to);
        negative = info->is_signed ? UINT64_C(1) << (info->bits - 1) : 0;
        positive = c->to == QC_BOOL ? 1 : info->is_signed ? negative - 1 : UINT64_MAX >> (64 - info->bits);
    }
    for (size_t i = 0; i < total; i++) {
        float y = 0.0f;
        double shown;
        struct whole w = {.magnitude = 0};
        row(&y, in, i, 1, c->from, step_of(&c->preprocess, i / c->inner % c->channels));
        if (is_float) {
            double exact = (double)y;
            if (none && c->to == QC_F64 && !qc_dtype_info(c->from)->is_float) load_whole(&w, &exact, in, i, c->from);
            if (c->to == QC_F16)
                ((uint16_t *)out)[i] = qc_float_to_half(y);
            else if (c->to == QC_BF16)
                ((uint16_t *)out)[i] = qc_float_to_bfloat(y);
            else if (qc_is_small_float(c->to))
                ((uint8_t *)out)[i] = qc_float_to_small(c->to, (double)y, QC_SMALL_SATURATES, QC_SMALL_NEAREST);
            else
                ((double *)out)[i] = exact;
            continue;
        }
        if (quantized) {
            const double low = -(double)negative, high = (double)positive;
            const double level = nearbyint((double)(y / c->scale)) + (double)c->zero_point;
            if (isnan(level) || !whole_of_double(&w, level < low ? low : level > high ? high : level))
                return qc_fail(st, QC_BAD_INPUT, "element %zu is not a number", i);
            store_whole(out, i, size, w);
            continue;
        }
        bool fits = none ? load_whole(&w, &shown, in, i, c->from) : whole_of_double(&w, shown = (double)y);
        if (!fits || w.magnitude > (w.negative ? negative : positive))
            return qc_fail(st, QC_BAD_INPUT, "element %zu is %.17g, which type %s does not hold%s", i, shown,
                           qc_dtype_info(c->to)->name,
                           c->scale > 0 ? "; if it is a real number to be quantized, give --preprocess scale=1" : "");
        store_whole(out, i, size, w);
    }
    return true;
}

bool qc_conversion_is_copy(const struct qc_conversion *c)
{
    return c->from == c->to && c->to != QC_BOOL && qc_preprocess_is_none(&c->preprocess);
}

bool qc_convert_sample(void *out, const void *in, const struct qc_conversion *c, struct qc_status *st)
{
    if (qc_conversion_is_copy(c)) {
        memcpy(out, in, c->outer * c->channels * c->inner * qc_dtype_size(c->to));
        return true;
    }
    if (c->to != QC_F32) return convert_slowly(out, in, c, st);
    float *y = out;
    for (size_t n = 0; n < c->outer; n++)
        for (size_t k = 0; k < c->channels; k++) {
            size_t at = (n * c->channels + k) * c->inner;
            row(y + at, in, at, c->inner, c->from, step_of(&c->preprocess, k));
        }
    return true;
}
