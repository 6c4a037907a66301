// SPDX-License-Identifier: Apache-2.0
/* Facts of a block and counts of the previous one in a single pass, for AVX-512 with VBMI2 (which compresses 16-bit
   lanes: Ice Lake, Zen 4 and later). */
#include "observers/scan_kernel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#include <string.h>

#include "observers/histogram.h"

#define VBMI2 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,bmi,bmi2,popcnt")))
#define VBMI2_INLINE                                                                                                   \
    __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,bmi,bmi2,popcnt"),                           \
                   always_inline)) static inline

enum { LANES = 32, NOTHING = -1 /* the bits of a NaN, which no counted block has */ };

bool qc_scan_have_vbmi2(void)
{
    return qc_scan_avx512.usable() && __builtin_cpu_supports("avx512vbmi2");
}

/* Result of one pass over the vectors of a block. */
struct pass {
    size_t kept; /* indices, except of zeros and the two frequent values */
    uint32_t at_top, at_bottom;
};

/* The queue that is counted meanwhile: `each` counters, a multiple of 4, per vector. */
struct meanwhile {
    uint32_t *counts;
    const uint16_t *index;
    size_t each;
};

/* with_sign is constant after inlining. Without it, a block with a negative value gets a magnitude that is not
   finite. */
VBMI2_INLINE struct pass pass_over(struct qc_block *out, uint16_t *restrict index, struct meanwhile m, int32_t base,
                                   uint32_t top, uint32_t bottom, const float *restrict x, size_t n,
                                   const bool with_sign)
{
    uint32_t *restrict counts = m.counts;
    const uint16_t *restrict queued = m.index;
    static const uint16_t upper_halves[LANES] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
                                                 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    const __m512i upper = _mm512_loadu_si512(upper_halves), bases = _mm512_set1_epi16((short)base),
                  minus_one = _mm512_set1_epi32(-1);
    const __m512i tops = _mm512_set1_epi32((int)top), bottoms = _mm512_set1_epi32((int)bottom),
                  sign_slot = _mm512_set1_epi16((short)QC_WINDOW_BINS);
    __m512i magnitude = _mm512_setzero_si512(), low = magnitude, at_top = magnitude, at_bottom = magnitude,
            least = _mm512_set1_epi32(-1);
    __m512 lo = _mm512_set1_ps(x[0]), hi = lo;
    struct pass p = {0};
    for (size_t i = 0; i < n; i += LANES) {
        const __m512 a = _mm512_loadu_ps(x + i), b = _mm512_loadu_ps(x + i + LANES / 2);
        const __m512i ua = _mm512_castps_si512(a), ub = _mm512_castps_si512(b);
        const __m512i da = _mm512_slli_epi32(ua, 1), db = _mm512_slli_epi32(ub, 1); /* without signs */
        low = _mm512_ternarylogic_epi32(low, ua, ub, 0xfe);                         /* OR of the three */
        __mmask16 other_a = _mm512_cmpneq_epi32_mask(ua, tops), other_b = _mm512_cmpneq_epi32_mask(ub, tops);
        at_top = _mm512_mask_sub_epi32(at_top, (__mmask16)~other_a, at_top, minus_one);
        at_top = _mm512_mask_sub_epi32(at_top, (__mmask16)~other_b, at_top, minus_one);
        /* Keys are the upper 16 bits after the sign is shifted out; below the window they saturate to 0, the tiny
           counter. */
        __m512i slot = _mm512_subs_epu16(_mm512_permutex2var_epi16(da, upper, db), bases);
        if (with_sign) {
            lo = _mm512_min_ps(lo, _mm512_min_ps(a, b));
            hi = _mm512_max_ps(hi, _mm512_max_ps(a, b));
            magnitude = _mm512_max_epu32(magnitude, _mm512_max_epu32(da, db));
            const __mmask16 low_a = _mm512_cmpeq_epi32_mask(ua, bottoms), low_b = _mm512_cmpeq_epi32_mask(ub, bottoms);
            at_bottom = _mm512_mask_sub_epi32(at_bottom, low_a, at_bottom, minus_one);
            at_bottom = _mm512_mask_sub_epi32(at_bottom, low_b, at_bottom, minus_one);
            other_a = (__mmask16)(other_a & ~low_a);
            other_b = (__mmask16)(other_b & ~low_b);
            const __m512i signs = _mm512_srli_epi16(_mm512_permutex2var_epi16(ua, upper, ub), 2);
            slot = _mm512_ternarylogic_epi32(slot, signs, sign_slot, 0xf8); /* slot | (signs & sign_slot) */
        } else {
            magnitude = _mm512_max_epu32(magnitude, _mm512_max_epu32(ua, ub));
            least = _mm512_min_epu32(least, _mm512_min_epu32(ua, ub));
        }
        const __mmask32 keep =
            _mm512_kunpackw(_mm512_mask_test_epi32_mask(other_b, db, db), _mm512_mask_test_epi32_mask(other_a, da, da));
        _mm512_storeu_si512(index + p.kept, _mm512_maskz_compress_epi16(keep, slot));
        p.kept += (size_t)_mm_popcnt_u32(keep);
        for (const uint16_t *end = queued + m.each; queued < end; queued += 4) {
            uint64_t four;
            memcpy(&four, queued, sizeof four);
            counts[four & 0xffff]++;
            counts[four >> 16 & 0xffff]++;
            counts[four >> 32 & 0xffff]++;
            counts[four >> 48]++;
        }
    }
    p.at_top = (uint32_t)_mm512_reduce_add_epi32(at_top);
    p.at_bottom = (uint32_t)_mm512_reduce_add_epi32(at_bottom);
    const uint32_t largest = _mm512_reduce_max_epu32(magnitude);
    *out =
        (struct qc_block){.magnitude = with_sign ? largest >> 1 : largest,
                          .low_bits = (uint32_t)_mm512_reduce_or_epi32(low) & ((1u << QC_KEY_SHIFT) - 1),
                          .zeros = (uint32_t)(n - p.kept) - p.at_top - p.at_bottom,
                          .min = with_sign ? _mm512_reduce_min_ps(lo) : qc_bits_float(_mm512_reduce_min_epu32(least)),
                          .max = with_sign ? _mm512_reduce_max_ps(hi) : qc_bits_float(largest)};
    _mm256_zeroupper(); /* some compilers omit it here; SSE code would then run at a third of its speed */
    return p;
}

VBMI2 static struct pass pass_signed(struct qc_block *out, uint16_t *restrict index, struct meanwhile m, int32_t base,
                                     uint32_t top, uint32_t bottom, const float *restrict x, size_t n)
{
    return pass_over(out, index, m, base, top, bottom, x, n, true);
}

VBMI2 static struct pass pass_positive(struct qc_block *out, uint16_t *restrict index, struct meanwhile m, int32_t base,
                                       uint32_t top, const float *restrict x, size_t n)
{
    return pass_over(out, index, m, base, top, (uint32_t)NOTHING, x, n, false);
}

/* The extremes of the previous block may be frequent in this one (a ReLU6 at 6, a saturated pixel). They are counted
   separately: many increments of one counter in a row would each wait for the one before. */
bool qc_scan_both_vbmi2(struct qc_block *out, struct qc_scan_queue *q, uint32_t *restrict counts, int32_t base,
                        const struct qc_block *before, const float *restrict x, size_t n)
{
    const size_t whole = n / LANES * LANES, vectors = n / LANES;
    if (whole == 0 || base < 0) {
        qc_scan_flush(q, counts);
        return false;
    }
    const struct meanwhile m = {.counts = counts, .index = q->index[q->at], .each = q->count / vectors / 4 * 4};
    uint16_t *index = q->index[1 - q->at];
    uint32_t top = qc_float_bits(before->max), bottom = qc_float_bits(before->min);
    if (!(top & QC_MAGNITUDE_MASK)) top = (uint32_t)NOTHING;
    if (!(bottom & QC_MAGNITUDE_MASK) || bottom == top) bottom = (uint32_t)NOTHING;
    const struct pass p = before->min < 0 ? pass_signed(out, index, m, base, top, bottom, x, whole)
                                          : pass_positive(out, index, m, base, top, x, whole);
    qc_scan_increment(counts, m.index + vectors * m.each, q->count - vectors * m.each);
    q->count = 0;
    const uint32_t outside = (uint32_t)(base + QC_WINDOW_BINS) << QC_KEY_SHIFT;
    if (out->magnitude >= outside || out->magnitude >= QC_INFINITY_BITS) return false;
    if (whole < n) {
        struct qc_block rest;
        qc_scan_plain.facts(&rest, x + whole, n - whole);
        if (rest.magnitude >= outside || rest.magnitude >= QC_INFINITY_BITS) return false;
        qc_scan_plain.count(counts, base, &rest, x + whole, n - whole);
        if (rest.magnitude > out->magnitude) out->magnitude = rest.magnitude;
        out->low_bits |= rest.low_bits;
        out->zeros += rest.zeros;
        out->min = rest.min < out->min ? rest.min : out->min;
        out->max = rest.max > out->max ? rest.max : out->max;
    }
    q->at = 1 - q->at;
    q->count = p.kept;
    if (p.at_top) counts[qc_scan_slot(top, base)] += p.at_top;
    if (p.at_bottom) counts[qc_scan_slot(bottom, base)] += p.at_bottom;
    return true;
}

#else
typedef int qc_scan_vbmi2_unused;
#endif
