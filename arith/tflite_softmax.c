// SPDX-License-Identifier: Apache-2.0
/* Qm.n below: a fixed-point number of m integer bits and n = 31 - m fractional bits in an int32. */
#include "arith/tflite_softmax.h"

/* exp(a) in Q0.31 of a in Q0.31, -1/4 <= a < 0: Taylor's polynomial of the fourth degree around -1/8. */
static int32_t exp_of_quarter(int32_t a)
{
    const int32_t at_center = 1895147668 /* exp(-1/8) */, third = 715827883;
    const int32_t x = a + (1 << 28), x2 = qc_high_mul(x, x), x3 = qc_high_mul(x2, x), x4 = qc_high_mul(x2, x2);
    const int32_t high = qc_divide_by_pot(qc_high_mul(qc_divide_by_pot(x4, 2) + x3, third) + x2, 1);
    return at_center + qc_high_mul(at_center, x + high);
}

/* exp(a) in Q0.31 of a <= 0 in Q5.26: the part below 1/4 by the polynomial, each bit above it by a factor. */
static int32_t exp_of_negative(int32_t a)
{
    static const int32_t factor[] = {1672461947, 1302514674, 790015084, 290630308,
                                     39332535,   720401,     242}; /* exp(-2^(i-2)) */
    const int32_t quarter = 1 << 24, low = (a & (quarter - 1)) - quarter;
    const uint32_t rest = (uint32_t)low - (uint32_t)a;
    if (a == 0) return INT32_MAX;
    int32_t result = exp_of_quarter(qc_fixed_raise(low, 5));
    for (int i = 0; i < 7; i++)
        if (rest & (UINT32_C(1) << (24 + i))) result = qc_high_mul(result, factor[i]);
    return result;
}

/* 1 / (1 + a) in Q0.31 of a in Q0.31, 0 <= a < 1: three steps of Newton in Q2.29. */
static int32_t inverse_of_one_plus(int32_t a)
{
    const int64_t sum = (int64_t)a + INT32_MAX;
    const int32_t half = (int32_t)((sum + 1) / 2);
    int32_t x = 1515870810 /* 48/17 */ + qc_high_mul(half, -1010580540 /* -32/17 */);
    for (int i = 0; i < 3; i++) x += qc_fixed_raise(qc_high_mul(x, (1 << 29) - qc_high_mul(half, x)), 2);
    return qc_fixed_raise(x, 1);
}

struct qc_tflite_softmax qc_tflite_softmax_of(float input_scale, float beta)
{
    const double real = (double)beta * (double)input_scale * (double)(1 << 26), most = 0x1p31 - 1.0;
    const struct qc_fixed m = qc_fixed_of(real < most ? real : most);
    const double radius = floor(31.0 * (double)(1 << 26) / (double)(INT64_C(1) << (m.shift > 0 ? m.shift : 0)));
    return (struct qc_tflite_softmax){.multiplier = m.multiplier,
                                      .left_shift = m.shift > 0 ? m.shift : 0,
                                      .diff_min = -qc_saturate32((int64_t)radius)};
}

static int32_t exp_of_difference(const struct qc_tflite_softmax *s, int32_t difference)
{
    return exp_of_negative(qc_high_mul((int32_t)((uint32_t)difference << s->left_shift), s->multiplier));
}

void qc_tflite_softmax_row(const struct qc_tflite_softmax *s, int32_t *y, const int32_t *x, size_t n, int32_t lowest)
{
    int32_t largest = INT32_MIN, sum = 0; /* Q12.19 */
    for (size_t i = 0; i < n; i++) largest = x[i] > largest ? x[i] : largest;
    for (size_t i = 0; i < n; i++)
        if (x[i] - largest >= s->diff_min)
            sum = qc_saturate32((int64_t)sum + qc_divide_by_pot(exp_of_difference(s, x[i] - largest), 12));
    int headroom = 0;
    while (headroom < 31 && !((uint32_t)sum & (UINT32_C(0x80000000) >> headroom))) headroom++;
    const int32_t inverse = inverse_of_one_plus((int32_t)(((uint32_t)sum << headroom) - UINT32_C(0x80000000)));
    const int right = 12 - headroom + 31 - 8;
    for (size_t i = 0; i < n; i++) {
        const int32_t difference = x[i] - largest;
        int32_t level = 0;
        if (difference >= s->diff_min && right <= 31)
            level = qc_divide_by_pot(qc_high_mul(inverse, exp_of_difference(s, difference)), right);
        y[i] = lowest + (level < 0 ? 0 : level > 255 ? 255 : level);
    }
}
