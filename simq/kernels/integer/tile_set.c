// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/tile_set.h"

#include "simq/kernels/integer/depthwise_avx2.h"
#include "simq/kernels/integer/depthwise_vnni.h"

struct qc_tile_set qc_tile_set_of(enum qc_isa isa)
{
    struct qc_tile_set s = {.narrow = qc_tile_narrow_plain,
                            .wide = qc_tile_wide_plain,
                            .narrow_depthwise = qc_depthwise_narrow,
                            .wide_depthwise = qc_depthwise_wide};
#if defined(__x86_64__) && defined(__GNUC__)
    if (isa >= QC_ISA_AVX512_VNNI) {
        s.amx = isa == QC_ISA_AMX;
        s.narrow = qc_tile_narrow_vnni;
        s.wide = qc_tile_wide_vnni;
        s.narrow_depthwise = qc_depthwise_vnni;
        s.depthwise_pair = qc_depthwise_pair_vnni;
        s.depthwise_line = qc_depthwise_line_vnni;
        s.taps = QC_TAPS_QUADS;
    } else if (isa >= QC_ISA_AVX2) {
        s.narrow = isa == QC_ISA_AVX512     ? qc_tile_pairs_avx512
                   : isa == QC_ISA_AVX_VNNI ? qc_tile_narrow_avx_vnni
                                            : qc_tile_pairs_avx2;
        s.wide = isa == QC_ISA_AVX512 ? qc_tile_wide_avx512 : qc_tile_wide_avx2;
        s.pairs = isa != QC_ISA_AVX_VNNI;
        s.narrow_depthwise = qc_depthwise_avx2;
        s.depthwise_line = qc_depthwise_line_avx2;
        s.taps = QC_TAPS_PAIRS;
    }
#elif defined(__aarch64__) && defined(__GNUC__)
    if (isa >= QC_ISA_NEON) {
        s.wide = qc_tile_wide_neon;
        s.narrow = isa >= QC_ISA_NEON_I8MM  ? qc_tile_narrow_i8mm
                   : isa == QC_ISA_NEON_DOT ? qc_tile_narrow_dot
                                            : qc_tile_pairs_neon;
        s.pairs = isa == QC_ISA_NEON;
        s.is_signed = isa < QC_ISA_NEON_I8MM;
    }
#else
    (void)isa;
#endif
    return s;
}
