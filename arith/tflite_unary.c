// SPDX-License-Identifier: Apache-2.0
#include "arith/tflite_unary.h"

#include <float.h>

static int32_t saturate16(int32_t x)
{
    if (x < INT16_MIN) return INT16_MIN;
    return x > INT16_MAX ? INT16_MAX : x;
}

/* The 16-bit forms of qc_high_mul: half upward, and truncating. */
static int32_t high_mul16(int32_t a, int32_t b)
{
    if (a == INT16_MIN && b == INT16_MIN) return INT16_MAX;
    const int32_t ab = a * b, nudge = ab >= 0 ? 1 << 14 : 1 - (1 << 14);
    return (ab + nudge) / (1 << 15);
}

static int32_t high_mul16_truncated(int32_t a, int32_t b)
{
    if (a == INT16_MIN && b == INT16_MIN) return INT16_MAX;
    return a * b / (1 << 15);
}

/* The upper 16 bits of a multiplier, half upward. */
static int32_t multiplier16(int32_t m)
{
    return m >= INT32_MAX - (1 << 15) ? INT16_MAX : (m + (1 << 15)) >> 16;
}

/* x * relu6(x + 3) / 6, with relu6(x + 3) / 6 in Q0.15. */
static int32_t hard_swish(const struct qc_tflite_unary *u, int32_t q)
{
    const int32_t fine = (q - u->input.zero_point) * (1 << 7), exponent = u->negative.shift;
    const int32_t scaled = high_mul16(fine, multiplier16(u->identity.multiplier));
    int32_t factor = fine;
    if (exponent > 0)
        factor = saturate16(exponent - 1 > 16 ? qc_fixed_raise(factor, 16) : qc_fixed_raise(factor, exponent - 1));
    factor = high_mul16(factor, multiplier16(u->negative.multiplier));
    if (exponent > 0) factor = saturate16(factor * 2);
    if (exponent < 0) factor = qc_divide_by_pot(factor, -exponent);
    factor = (factor + (1 << 15)) >> 1;
    const int32_t product = high_mul16_truncated(factor, scaled);
    return qc_divide_by_pot(product, -u->identity.shift) + u->output.zero_point;
}

static bool ratio_of(struct qc_fixed *out, float m, float most, struct qc_status *st)
{
    if (!(m > 0) || !(m < most))
        return qc_fail(st, QC_BAD_INPUT, "ratio %g of two scales is not in (0, %g)", (double)m, (double)most);
    *out = qc_fixed_of((double)m);
    return true;
}

bool qc_tflite_unary_of(struct qc_tflite_unary *u, struct qc_status *st)
{
    const float si = u->input.scale, so = u->output.scale;
    if (!(si > 0 && si <= FLT_MAX && so > 0 && so <= FLT_MAX))
        return qc_fail(st, QC_BAD_INPUT, "scales %g and %g: they must be positive and finite", (double)si, (double)so);
    if (u->kind == QC_TFLITE_HARD_SWISH) {
        const float fine = (1.0f / 128.0f) * si;
        return ratio_of(&u->identity, fine / so, 1.0f, st) &&
               ratio_of(&u->negative, fine / (3.0f / 32768.0f), 0x1p30f, st);
    }
    if (u->kind == QC_TFLITE_LEAKY_RELU) {
        u->negative = (struct qc_fixed){0};
        if (!ratio_of(&u->identity, si / so, 0x1p22f, st)) return false;
        if (u->alpha == 0) return true;
        const float m = si * u->alpha / so;
        if (!ratio_of(&u->negative, fabsf(m), 0x1p22f, st)) return false;
        if (m < 0) u->negative.multiplier = -u->negative.multiplier;
    }
    return true;
}

int32_t qc_tflite_unary_one(const struct qc_tflite_unary *u, int32_t q)
{
    const int32_t v = q - u->input.zero_point, zo = u->output.zero_point;
    if (u->kind == QC_TFLITE_HARD_SWISH) return qc_saturate(hard_swish(u, q), u->levels);
    if (u->kind == QC_TFLITE_LEAKY_RELU)
        return qc_saturate((int64_t)qc_fixed_multiply(QC_REQUANTIZE_DOUBLE, v, v >= 0 ? u->identity : u->negative) + zo,
                           u->levels);
    const float inverse = 1.0f / u->output.scale,
                y = roundf(u->function(u->input.scale * (float)v, u->context) * inverse);
    if (!(y > (float)(u->levels.lo - zo))) return u->levels.lo;
    return y < (float)(u->levels.hi - zo) ? (int32_t)y + zo : u->levels.hi;
}
