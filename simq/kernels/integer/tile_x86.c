// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/tile_body.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define QC_TARGET_AVX_VNNI __attribute__((target("avx2,fma,avxvnni")))
#define QC_BODY(name, target, dot)                                                                                     \
    QC_TILE_BODY(name, target, __m256i, 8, 2, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi32, dot)         \
    QC_TILE_SMALL(name, target, 8, 2, 3)
#define QC_WIDE(acc, a, b) _mm256_add_epi32(acc, _mm256_madd_epi16(a, b))
#define QC_PAIRS(acc, a, b) _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)))

QC_BODY(qc_tile_wide_avx2, QC_TARGET_AVX2, QC_WIDE)
QC_BODY(qc_tile_pairs_avx2, QC_TARGET_AVX2, QC_PAIRS)
QC_BODY(qc_tile_narrow_avx_vnni, QC_TARGET_AVX_VNNI, _mm256_dpbusd_avx_epi32)
#undef QC_BODY
#undef QC_WIDE
#undef QC_PAIRS

#define QC_BODY(name, target, dot)                                                                                     \
    QC_TILE_BODY(name, target, __m512i, 16, 1, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi32, dot)        \
    QC_TILE_ALL(name, target)
#define QC_WIDE(acc, a, b) _mm512_add_epi32(acc, _mm512_madd_epi16(a, b))
#define QC_PAIRS(acc, a, b) _mm512_add_epi32(acc, _mm512_madd_epi16(_mm512_maddubs_epi16(a, b), _mm512_set1_epi16(1)))

QC_BODY(qc_tile_wide_avx512, QC_TARGET_AVX512, QC_WIDE)
QC_BODY(qc_tile_pairs_avx512, QC_TARGET_AVX512, QC_PAIRS)
QC_BODY(qc_tile_wide_vnni, QC_TARGET_VNNI, _mm512_dpwssd_epi32)
QC_BODY(qc_tile_narrow_vnni, QC_TARGET_VNNI, _mm512_dpbusd_epi32)
#endif
