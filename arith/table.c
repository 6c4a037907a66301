// SPDX-License-Identifier: Apache-2.0
#include "arith/requantize.h"

#include "base/simd.h"

void qc_table_ramp(float x[256], bool is_signed, struct qc_affine p)
{
    for (int b = 0; b < 256; b++) x[b] = qc_dequantize_one(is_signed ? (int8_t)b : b, p);
}

void qc_table_quantize(uint8_t table[256], const float x[256], enum qc_contract c, struct qc_affine p,
                       struct qc_levels levels)
{
    for (int b = 0; b < 256; b++) table[b] = (uint8_t)qc_quantize_by(c, x[b], p, levels);
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define QC_TARGET_VBMI __attribute__((target("avx512f,avx512bw,avx512vl,avx512vbmi")))

/* 256 entries are four vectors: two look-ups in 128 entries each; the top bit selects the result. */
QC_TARGET_VBMI static void table_vbmi(const uint8_t table[256], uint8_t *y, const uint8_t *x, size_t n)
{
    const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64),
                  t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
    for (size_t i = 0; i < n; i += 64) {
        const __mmask64 mask = n - i < 64 ? (__mmask64)((UINT64_C(1) << (n - i)) - 1) : ~(__mmask64)0;
        const __m512i v = _mm512_maskz_loadu_epi8(mask, x + i);
        const __m512i low = _mm512_permutex2var_epi8(t0, v, t1), high = _mm512_permutex2var_epi8(t2, v, t3);
        _mm512_mask_storeu_epi8(y + i, mask, _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high));
    }
}
#endif

void qc_table_run(const uint8_t table[256], uint8_t *y, const uint8_t *x, size_t n)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (QC_HAS_AVX512() && __builtin_cpu_supports("avx512vbmi")) {
        table_vbmi(table, y, x, n);
        return;
    }
#endif
    for (size_t i = 0; i < n; i++) y[i] = table[x[i]];
}
