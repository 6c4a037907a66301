// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: elementary functions in plain C without branches or calls, for loops of QC_SIMD_ROUND. Float32 throughout, the
   same bits on every processor, within about 2 units in the last place of the exact value (a test measures it); NaN and infinities
   as in libm. `native` is that of qc_round_even. */
#ifndef QC_SIMQ_VECTOR_MATH_H
#define QC_SIMQ_VECTOR_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/simd.h"

/* a or b by size; NaN in the second wins. */
static QC_INLINE float qc_vector_max(float a, float b)
{
    return a > b ? a : b;
}

static QC_INLINE float qc_vector_min(float a, float b)
{
    return a < b ? a : b;
}

/* 2^n for -126 <= n <= 127 */
static QC_INLINE float qc_vector_power_of_two(int32_t n)
{
    const uint32_t bits = (uint32_t)(n + 127) << 23;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* e^x = 2^n e^r with |r| <= ln(2)/2; ln 2 in two parts, polynomial of Cephes' expf. The power is applied in two steps, so that
   denormal results and infinity come out by themselves. */
static QC_INLINE float qc_vector_exp(const bool native, float x)
{
    float c = x < 89.0f ? x : 89.0f;
    c = c > -105.0f ? c : -105.0f;
    const float n = qc_round_even(c * 1.44269504f, native);
    const float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = (p * r * r + r) + 1.0f;
    const int32_t k = (int32_t)n, half = k / 2;
    const float y = p * qc_vector_power_of_two(half) * qc_vector_power_of_two(k - half);
    return x != x ? x : y;
}

/* Odd polynomial of Cephes' tanhf near 0, 1 - 2 / (e^2|x| + 1) elsewhere. */
static QC_INLINE float qc_vector_tanh(const bool native, float x)
{
    const float t = fabsf(x), z = x * x;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float small = p * z * x + x;
    const float large = copysignf(1.0f - 2.0f / (qc_vector_exp(native, 2.0f * t) + 1.0f), x);
    return t < 0.625f ? small : large;
}

/* e^x - 1 = 2 t / (1 - t) with t = tanh(x/2) near 0. */
static QC_INLINE float qc_vector_expm1(const bool native, float x)
{
    const float h = 0.5f * x, z = h * h;
    float p = -5.70498872745e-3f;
    p = p * z + 2.06390887954e-2f;
    p = p * z - 5.37397155531e-2f;
    p = p * z + 1.33314422036e-1f;
    p = p * z - 3.33332819422e-1f;
    const float t = p * z * h + h;
    const float small = 2.0f * t / (1.0f - t), large = qc_vector_exp(native, x) - 1.0f;
    return fabsf(x) < 0.5f ? small : large;
}

/* Two minimax polynomials: x + x P(x^2), and 1 - e^Q(|x|) from 475/512 on. */
static QC_INLINE float qc_vector_erf(const bool native, float x)
{
    const float t = fabsf(x), s = x * x;
    float q = (-1.72853470e-5f * t + 3.83197126e-4f) * s + (-3.88396438e-3f * t + 2.42546219e-2f);
    q = q * t - 1.06777877e-1f;
    q = q * t - 6.34846687e-1f;
    q = q * t - 1.28717512e-1f;
    q = q * t - t;
    const float large = copysignf(1.0f - qc_vector_exp(native, t < 4.0f ? q : -100.0f), x);
    float p = -5.96761703e-4f;
    p = p * s + 4.99119423e-3f;
    p = p * s - 2.67681349e-2f;
    p = p * s + 1.12819925e-1f;
    p = p * s - 3.76125336e-1f;
    p = p * s + 1.28379166e-1f;
    const float y = t > 0.927734375f ? large : p * x + x;
    return x != x ? x : y;
}

/* ln(m 2^e) with m in [sqrt(1/2), sqrt(2)), polynomial of Cephes' logf. For normal positive numbers. */
static QC_INLINE float qc_vector_log_normal(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t shifted = bits - 0x3f3504f3U; /* sqrt(1/2) */
    const float e = (float)((int32_t)shifted >> 23);
    const uint32_t mantissa = (shifted & 0x007fffffU) + 0x3f3504f3U;
    float m;
    memcpy(&m, &mantissa, sizeof m);
    const float z = m - 1.0f, s = z * z;
    float p = 7.0376836292e-2f;
    p = p * z - 1.1514610310e-1f;
    p = p * z + 1.1676998740e-1f;
    p = p * z - 1.2420140846e-1f;
    p = p * z + 1.4249322787e-1f;
    p = p * z - 1.6668057665e-1f;
    p = p * z + 2.0000714765e-1f;
    p = p * z - 2.4999993993e-1f;
    p = p * z + 3.3333331174e-1f;
    p = p * z * s + e * -2.12194440e-4f;
    p = p - 0.5f * s;
    return (z + p) + e * 0.693359375f;
}

static QC_INLINE float qc_vector_log(float x)
{
    const bool tiny = x < 0x1p-126f;
    const float y = qc_vector_log_normal(tiny ? x * 0x1p25f : x) - (tiny ? 17.3286795f : 0.0f); /* 25 ln 2 */
    const float positive = x < INFINITY ? y : x; /* infinity and NaN stay */
    return x > 0 || x != x ? positive : x < 0 ? NAN : -INFINITY;
}

/* ln(1 + x): ln u + (x - (u - 1)) / u with u = 1 + x rounded. */
static QC_INLINE float qc_vector_log1p(float x)
{
    const float u = 1.0f + x;
    const float y = qc_vector_log(u) + (x - (u - 1.0f)) / u;
    return x > -1.0f && x < INFINITY ? y : qc_vector_log(u);
}

#endif
