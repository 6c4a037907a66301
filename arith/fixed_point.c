// SPDX-License-Identifier: Apache-2.0
#include "arith/fixed_point.h"

#include <assert.h>
#include <stdlib.h>

struct qc_fixed qc_fixed_of(double m)
{
    int shift;
    double multiplier = round(frexp(m, &shift) * 0x1p31);
    if (multiplier == 0x1p31) {
        multiplier = 0x1p30;
        shift++;
    }
    if (shift < -31) return (struct qc_fixed){0};
    return (struct qc_fixed){.multiplier = (int32_t)multiplier, .shift = shift};
}

bool qc_fixed_ratio(struct qc_fixed *out, double m, struct qc_status *st)
{
    if (m < 0x1p30) {
        *out = qc_fixed_of(m);
        return true;
    }
    return qc_fail(st, QC_BAD_INPUT, "scale of the input is %g times that of the result: fixed point ends at 2^30", m);
}

int32_t qc_high_mul(int32_t a, int32_t b)
{
    if (a == INT32_MIN && b == INT32_MIN) return INT32_MAX;
    const int64_t ab = (int64_t)a * b, nudge = ab >= 0 ? INT64_C(1) << 30 : 1 - (INT64_C(1) << 30);
    return (int32_t)((ab + nudge) / (INT64_C(1) << 31));
}

int32_t qc_divide_by_pot(int32_t x, int n)
{
    assert(n >= 0 && n <= 31);
    const int64_t one = INT64_C(1) << n, remainder = x & (one - 1), threshold = ((one - 1) >> 1) + (x < 0);
    return (int32_t)((x - remainder) / one + (remainder > threshold));
}

/* Returns the magnitude of round(+-x / 2^n), half upward or half away from zero. x is a magnitude. */
static uint64_t round_shift(uint64_t x, int n, bool negative, bool away)
{
    if (n == 0) return x;
    const uint64_t half = UINT64_C(1) << (n - 1);
    return (x + half - (negative && !away)) >> n;
}

int64_t qc_fixed_multiply_wide(enum qc_requantize_rule rule, int64_t x, struct qc_fixed m)
{
    assert(rule != QC_REQUANTIZE_FLOAT && m.shift >= -31 && m.shift <= 31 && x > -(INT64_C(1) << 32) &&
           x < INT64_C(1) << 32);
    const bool negative = (x < 0) != (m.multiplier < 0);
    /* The product is below 2^63, so adding any half stays below 2^64. */
    const uint64_t product = (uint64_t)(x < 0 ? -x : x) * (uint64_t)llabs((int64_t)m.multiplier);
    uint64_t result;
    if (rule == QC_REQUANTIZE_DOUBLE && m.shift < 0)
        result = round_shift(round_shift(product, 31, negative, false), -m.shift, negative, true);
    else
        result = round_shift(product, 31 - m.shift, negative, rule == QC_REQUANTIZE_NEAREST);
    return negative ? -(int64_t)result : (int64_t)result;
}

int32_t qc_fixed_multiply(enum qc_requantize_rule rule, int64_t x, struct qc_fixed m)
{
    return qc_saturate32(qc_fixed_multiply_wide(rule, x, m));
}
