// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: the loops of simq/kernels/integer/tile.h by instruction set, where the processor has it. */
#ifndef QC_SIMQ_KERNELS_INTEGER_TILE_SETS_H
#define QC_SIMQ_KERNELS_INTEGER_TILE_SETS_H

#include "simq/kernels/integer/tile.h"

/* narrow: exact; pairs: narrow, with sums of two products in 16 bits (enum qc_tile_pairs). */
#if defined(__x86_64__) && defined(__GNUC__)
qc_tile_fn qc_tile_wide_avx2, qc_tile_pairs_avx2, qc_tile_narrow_avx_vnni;
qc_tile_fn qc_tile_wide_avx512, qc_tile_pairs_avx512, qc_tile_wide_vnni, qc_tile_narrow_vnni;
#elif defined(__aarch64__) && defined(__GNUC__)
qc_tile_fn qc_tile_wide_neon, qc_tile_pairs_neon, qc_tile_narrow_dot, qc_tile_narrow_i8mm;
#endif

#endif
