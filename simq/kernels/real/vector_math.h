// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: elementary functions in plain C without branches or calls, for loops of QC_SIMD_ROUND. They compute
   in float32, with the same bits on every processor, within about 2 units in the last place of the exact value (a
   test measures it). NaN and infinities as in libm. `native` is that of qc_round_even. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/simd.h"

/* Returns a or b by size; if b is NaN, returns NaN. */
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

/* e^x = 2^n e^r with |r| <= ln(2)/2; ln 2 in two parts, polynomial of Cephes' expf. The power is applied in two
   steps, so that denormal results and infinity are correct. Inputs below -104, whose result rounds to 0, are
   skipped: denormal products are about a hundred times slower, and masked attention scores have such inputs. */
static QC_INLINE float qc_vector_exp(const bool native, float x)
{
    float c = x < 89.0f ? x : 89.0f;
    const bool nothing = c < -104.0f;
    c = nothing ? 0.0f : c;
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
    return x != x ? x : nothing ? 0.0f : y;
}

static QC_INLINE float qc_vector_within(float x, float lo, float hi)
{
    return qc_vector_min(hi, qc_vector_max(lo, x));
}

/* ONNX Runtime's kernels of Sigmoid and Tanh on x86-64, to the bit (onnxruntime/core/mlas/lib/logistic.cpp and
   tanh.cpp; every step except the division is a fused multiply-add). A table of a function then stores what ONNX
   Runtime stores, also near ties. Within 2e-7 of the exact value. */
static QC_INLINE float qc_vector_logistic(float x)
{
    const float c = qc_vector_within(x, -18.0f, 18.0f), z = c * c;
    float p = fmaf(z, 4.37031012579801e-11f, 1.15627324459942e-07f);
    p = fmaf(p, z, 6.08574864600143e-05f);
    p = fmaf(p, z, 8.51377133304701e-03f);
    p = fmaf(p, z, 2.48287947061529e-01f) * c;
    float q = fmaf(z, 6.10247389755681e-13f, 5.76102136993427e-09f);
    q = fmaf(q, z, 6.29106785017040e-06f);
    q = fmaf(q, z, 1.70198817374094e-03f);
    q = fmaf(q, z, 1.16817656904453e-01f);
    q = fmaf(q, z, 9.93151921023180e-01f);
    return qc_vector_within(p / q + 0.5f, 0.0f, 1.0f);
}

static QC_INLINE float qc_vector_tanh(float x)
{
    const float c = qc_vector_within(x, -9.0f, 9.0f), z = c * c;
    float p = fmaf(z, -2.76076847742355e-16f, 2.00018790482477e-13f);
    p = fmaf(p, z, -8.60467152213735e-11f);
    p = fmaf(p, z, 5.12229709037114e-08f);
    p = fmaf(p, z, 1.48572235717979e-05f);
    p = fmaf(p, z, 6.37261928875436e-04f);
    p = fmaf(p, z, 4.89352455891786e-03f) * c;
    float q = fmaf(z, 1.19825839466702e-06f, 1.18534705686654e-04f);
    q = fmaf(q, z, 2.26843463243900e-03f);
    q = fmaf(q, z, 4.89352518554385e-03f);
    return p / q;
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
    const float size = fabsf(x);
    return size < 0.5f ? small : large;
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
    const float large = copysignf(1.0f - qc_vector_exp(native, t < 4.0f ? q : -50.0f), x);
    float p = -5.96761703e-4f;
    p = p * s + 4.99119423e-3f;
    p = p * s - 2.67681349e-2f;
    p = p * s + 1.12819925e-1f;
    p = p * s - 3.76125336e-1f;
    p = p * s + 1.28379166e-1f;
    const float y = t > 0.927734375f ? large : p * x + x;
    return x != x ? x : y;
}

/* ln(m 2^e) with m in [sqrt(1/2), sqrt(2)), polynomial of Cephes' logf. x must be normal and positive. */
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
    const float positive = x < INFINITY ? y : x; /* infinity and NaN are returned unchanged */
    return x > 0 || x != x ? positive : x < 0 ? NAN : -INFINITY;
}

/* ln(1 + x): ln u + (x - (u - 1)) / u with u = 1 + x rounded. */
static QC_INLINE float qc_vector_log1p(float x)
{
    const float u = 1.0f + x;
    const float y = qc_vector_log(u) + (x - (u - 1.0f)) / u;
    return x > -1.0f && x < INFINITY ? y : qc_vector_log(u);
}
