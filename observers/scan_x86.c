// SPDX-License-Identifier: Apache-2.0
/* The scan's loops for AVX-512 and AVX2. Only functions with these attributes use the instructions; usable() guards
   them. */
#include "observers/scan_kernel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <string.h>

#include "observers/histogram.h"

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,popcnt")))
#define AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))

enum { SIGN_SHIFT = 18, SIGN_SLOT = QC_WINDOW_BINS }; /* bit 31 goes to bit 13 = QC_WINDOW_BINS */
_Static_assert(SIGN_SLOT == 1 << (31 - SIGN_SHIFT), "the sign bit selects the half of the counters");

static bool have_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt");
}

static bool have_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
}

AVX512 static void facts_avx512(struct qc_block *out, const float *restrict x, size_t n)
{
    const __m512i magnitude_mask = _mm512_set1_epi32((int)QC_MAGNITUDE_MASK);
    __m512 lo = _mm512_set1_ps(x[0]), hi = lo;
    __m512i magnitude = _mm512_setzero_si512(), low = magnitude;
    uint32_t nonzero = 0;
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        __m512 v = _mm512_loadu_ps(x + i);
        __m512i u = _mm512_castps_si512(v);
        lo = _mm512_min_ps(lo, v);
        hi = _mm512_max_ps(hi, v);
        magnitude = _mm512_max_epu32(magnitude, _mm512_and_si512(u, magnitude_mask));
        low = _mm512_or_si512(low, u);
        nonzero += (uint32_t)_mm_popcnt_u32(_mm512_test_epi32_mask(u, magnitude_mask));
    }
    if (i < n) {
        __mmask16 k = (__mmask16)((1u << (n - i)) - 1);
        __m512 v = _mm512_maskz_loadu_ps(k, x + i);
        __m512i u = _mm512_castps_si512(v);
        lo = _mm512_mask_min_ps(lo, k, lo, v);
        hi = _mm512_mask_max_ps(hi, k, hi, v);
        magnitude = _mm512_max_epu32(magnitude, _mm512_and_si512(u, magnitude_mask));
        low = _mm512_or_si512(low, u);
        nonzero += (uint32_t)_mm_popcnt_u32(_mm512_test_epi32_mask(u, magnitude_mask));
    }
    *out = (struct qc_block){.magnitude = _mm512_reduce_max_epu32(magnitude),
                             .low_bits = (uint32_t)_mm512_reduce_or_epi32(low) & ((1u << QC_KEY_SHIFT) - 1),
                             .zeros = (uint32_t)n - nonzero,
                             .min = _mm512_reduce_min_ps(lo),
                             .max = _mm512_reduce_max_ps(hi)};
}

/* The block's own extremes (a ReLU6 at 6, a saturated pixel) are counted by popcount: many increments of one counter in
   a row would each wait for the one before. */
AVX512 static void count_avx512(uint32_t *restrict counts, int32_t base, const struct qc_block *f,
                                const float *restrict x, size_t n)
{
    uint16_t index[QC_SCAN_BLOCK + 32];
    const __m512i magnitude_mask = _mm512_set1_epi32((int)QC_MAGNITUDE_MASK), zero = _mm512_setzero_si512();
    const __m512i bases = _mm512_set1_epi32(base), sign_slot = _mm512_set1_epi32(SIGN_SLOT);
    uint32_t min_bits = qc_float_bits(f->min), max_bits = qc_float_bits(f->max), at_min = 0, at_max = 0;
    const __m512i lowest = _mm512_set1_epi32((int)min_bits), highest = _mm512_set1_epi32((int)max_bits);
    size_t kept = 0;
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 k = (__mmask16)(n - i >= 16 ? 0xffffu : (1u << (n - i)) - 1);
        __m512i u = _mm512_maskz_loadu_epi32(k, x + i);
        k = _mm512_mask_test_epi32_mask(k, u, magnitude_mask);
        __mmask16 top = _mm512_mask_cmpeq_epi32_mask(k, u, highest);
        __mmask16 bottom = _mm512_mask_cmpeq_epi32_mask((__mmask16)(k & ~top), u, lowest);
        at_max += (uint32_t)_mm_popcnt_u32(top);
        at_min += (uint32_t)_mm_popcnt_u32(bottom);
        k = (__mmask16)(k & ~top & ~bottom);
        __m512i slot = _mm512_sub_epi32(_mm512_srli_epi32(_mm512_and_si512(u, magnitude_mask), QC_KEY_SHIFT), bases);
        slot = _mm512_max_epi32(slot, zero);
        slot = _mm512_or_si512(slot, _mm512_and_si512(_mm512_srli_epi32(u, SIGN_SHIFT), sign_slot));
        slot = _mm512_maskz_compress_epi32(k, slot);
        _mm256_storeu_si256((__m256i *)(void *)(index + kept), _mm512_cvtepi32_epi16(slot));
        kept += (size_t)_mm_popcnt_u32(k);
    }
    _mm256_zeroupper(); /* gcc 12 leaves it out here, and SSE code would run at a third of its speed from then on */
    qc_scan_increment(counts, index, kept);
    counts[qc_scan_slot(max_bits, base)] += at_max;
    counts[qc_scan_slot(min_bits, base)] += at_min;
}

AVX2 static void facts_avx2(struct qc_block *out, const float *restrict x, size_t n)
{
    const __m256i magnitude_mask = _mm256_set1_epi32((int)QC_MAGNITUDE_MASK), zero = _mm256_setzero_si256();
    size_t whole = n / 8 * 8;
    struct qc_block rest;
    qc_scan_plain.facts(&rest, x + (whole < n ? whole : 0), whole < n ? n - whole : 1);
    if (whole == n)
        rest.zeros = 0; /* its one value is counted below; seeing it twice does not change the other
                           facts */
    __m256 lo = _mm256_set1_ps(rest.min), hi = _mm256_set1_ps(rest.max);
    __m256i magnitude = zero, low = zero, zeros = zero;
    for (size_t i = 0; i < whole; i += 8) {
        __m256 v = _mm256_loadu_ps(x + i);
        __m256i u = _mm256_castps_si256(v), m = _mm256_and_si256(u, magnitude_mask);
        lo = _mm256_min_ps(lo, v);
        hi = _mm256_max_ps(hi, v);
        magnitude = _mm256_max_epu32(magnitude, m);
        low = _mm256_or_si256(low, u);
        zeros = _mm256_sub_epi32(zeros, _mm256_cmpeq_epi32(m, zero));
    }
    float fl[8], fh[8];
    uint32_t um[8], ul[8], uz[8];
    _mm256_storeu_ps(fl, lo);
    _mm256_storeu_ps(fh, hi);
    _mm256_storeu_si256((__m256i *)(void *)um, magnitude);
    _mm256_storeu_si256((__m256i *)(void *)ul, low);
    _mm256_storeu_si256((__m256i *)(void *)uz, zeros);
    *out = rest;
    for (size_t i = 0; i < 8; i++) {
        out->min = fl[i] < out->min ? fl[i] : out->min;
        out->max = fh[i] > out->max ? fh[i] : out->max;
        out->magnitude = um[i] > out->magnitude ? um[i] : out->magnitude;
        out->low_bits |= ul[i] & ((1u << QC_KEY_SHIFT) - 1);
        out->zeros += uz[i];
    }
}

AVX2 static void count_avx2(uint32_t *restrict counts, int32_t base, const struct qc_block *f, const float *restrict x,
                            size_t n)
{
    uint16_t index[QC_SCAN_BLOCK + 8];
    const __m256i magnitude_mask = _mm256_set1_epi32((int)QC_MAGNITUDE_MASK), zero = _mm256_setzero_si256();
    const __m256i bases = _mm256_set1_epi32(base), sign_slot = _mm256_set1_epi32(SIGN_SLOT);
    uint32_t min_bits = qc_float_bits(f->min), max_bits = qc_float_bits(f->max), at_min = 0, at_max = 0;
    const __m256i lowest = _mm256_set1_epi32((int)min_bits), highest = _mm256_set1_epi32((int)max_bits);
    size_t kept = 0, i = 0;
    for (; i + 8 <= n; i += 8) {
        __m256i u = _mm256_loadu_si256((const __m256i *)(const void *)(x + i)), m = _mm256_and_si256(u, magnitude_mask);
        __m256i is_zero = _mm256_cmpeq_epi32(m, zero);
        __m256i top = _mm256_andnot_si256(is_zero, _mm256_cmpeq_epi32(u, highest));
        __m256i bottom = _mm256_andnot_si256(_mm256_or_si256(is_zero, top), _mm256_cmpeq_epi32(u, lowest));
        __m256i skip = _mm256_or_si256(is_zero, _mm256_or_si256(top, bottom));
        __m256i slot = _mm256_max_epi32(_mm256_sub_epi32(_mm256_srli_epi32(m, QC_KEY_SHIFT), bases), zero);
        slot = _mm256_or_si256(slot, _mm256_and_si256(_mm256_srli_epi32(u, SIGN_SHIFT), sign_slot));
        uint32_t drop = (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(skip));
        at_max += (uint32_t)_mm_popcnt_u32((uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(top)));
        at_min += (uint32_t)_mm_popcnt_u32((uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(bottom)));
        /* Narrow to 16 bits, then drop unwanted lanes with pext on the two halves. */
        __m128i narrow = _mm_packus_epi32(_mm256_castsi256_si128(slot), _mm256_extracti128_si256(slot, 1));
        if (drop == 0) {
            _mm_storeu_si128((__m128i *)(void *)(index + kept), narrow);
            kept += 8;
            continue;
        }
        uint32_t keep = ~drop & 0xffu;
        uint64_t half[2];
        _mm_storeu_si128((__m128i *)(void *)half, narrow);
        for (int h = 0; h < 2; h++, keep >>= 4) {
            uint64_t lanes = _pdep_u64(keep & 15u, UINT64_C(0x0001000100010001)) * 0xffffu;
            uint64_t four = _pext_u64(half[h], lanes);
            memcpy(index + kept, &four, sizeof four);
            kept += (size_t)_mm_popcnt_u32(keep & 15u);
        }
    }
    _mm256_zeroupper(); /* gcc 12 leaves it out here, and SSE code would run at a third of its speed from then on */
    qc_scan_increment(counts, index, kept);
    counts[qc_scan_slot(max_bits, base)] += at_max;
    counts[qc_scan_slot(min_bits, base)] += at_min;
    for (; i < n; i++)
        if (qc_float_bits(x[i]) & QC_MAGNITUDE_MASK) counts[qc_scan_slot(qc_float_bits(x[i]), base)]++;
}

const struct qc_scan_kernels qc_scan_avx512 = {.name = "avx512",
                                               .usable = have_avx512,
                                               .facts = facts_avx512,
                                               .count = count_avx512};
const struct qc_scan_kernels qc_scan_avx2 = {.name = "avx2",
                                             .usable = have_avx2,
                                             .facts = facts_avx2,
                                             .count = count_avx2};

#else
typedef int qc_scan_x86_unused;
#endif
