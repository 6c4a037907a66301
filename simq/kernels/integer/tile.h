// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: the innermost loops of integer multiply-accumulate ops: exact modulo 2^32 whatever the instructions, so
   all variants give the same bits.

   Data is a byte string per row (a pixel, or a row of a matrix), read in runs of whole groups of four bytes:
     narrow  four uint8 times four int8     (VNNI's vpdpbusd, which does not saturate)
     wide    two int16 times two int16      (vpmaddwd, vpdpwssd)
   Weights are packed in panels of 1 to 3 blocks of 16 channels: for each group of four bytes, for each block, for each
   channel, four bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simq/core/accumulator.h"
#include "simq/core/isa.h"
#include "simq/kernels/integer/depthwise.h"

enum { QC_TILE_ROWS = 8, QC_TILE_CHANNELS = 16, QC_TILE_BLOCKS = 3, QC_TILE_WIDTH = QC_TILE_CHANNELS * QC_TILE_BLOCKS };

struct qc_tile {
    const uint8_t *a;
    ptrdiff_t step;       /* bytes from row to row */
    const ptrdiff_t *run; /* [runs] bytes from a row's begin to that of its runs */
    size_t runs, quads;   /* groups of four bytes per run */
    const uint8_t *w;     /* a panel */
    const int32_t *bias;  /* [16 * blocks] the sums start from */
    int32_t *acc;         /* [rows][16 * blocks] */
};

/* rows: 1, 2, 4 or 8; blocks: 1 to 3. */
typedef void qc_tile_fn(const struct qc_tile *t, int rows, int blocks);

/* The same sums one addition after the other, in an accumulator that they may leave (simq/core/accumulator.h). */
struct qc_tile_narrow {
    struct qc_accumulator accumulator;
    bool wide;
    bool narrow_sums;       /* no sum can leave int32 */
    int32_t zero;           /* point of the data; not in the bias */
    size_t first, channels; /* of the layer: number of the tile's first, how many of its channels are there */
};
/* Adds what it sees to *sums. */
void qc_tile_narrow(const struct qc_tile *t, int rows, int blocks, const struct qc_tile_narrow *how,
                    struct qc_sums *sums);

/* By instruction set, where the processor has it. narrow: exact; pairs: narrow, where sums of the products 2i and 2i +
   1 of a group fit in 16 bits. */
qc_tile_fn qc_tile_wide_plain, qc_tile_narrow_plain;
#if defined(__x86_64__) && defined(__GNUC__)
qc_tile_fn qc_tile_wide_avx2, qc_tile_pairs_avx2, qc_tile_narrow_avx_vnni;
qc_tile_fn qc_tile_wide_avx512, qc_tile_pairs_avx512, qc_tile_wide_vnni, qc_tile_narrow_vnni;
#elif defined(__aarch64__) && defined(__GNUC__)
qc_tile_fn qc_tile_wide_neon, qc_tile_pairs_neon, qc_tile_narrow_dot, qc_tile_narrow_i8mm;
#endif

/* Which of them an instruction set has. */
struct qc_tile_set {
    qc_tile_fn *narrow, *wide;
    bool pairs;     /* narrow adds two products in 16 bits: qc_int_pack_fits tells where it may */
    bool is_signed; /* narrow multiplies data less 128, which the bias has to know */
    qc_depthwise_fn *narrow_depthwise, *wide_depthwise; /* both always there */
    qc_depthwise_pair_fn *depthwise_pair;               /* NULL: there is none */
    qc_depthwise_line_fn *depthwise_line;               /* the same */
    enum qc_taps taps;                                  /* how narrow_depthwise wants its weights */
    bool amx;                                           /* simq/kernels/integer/tile_amx.h */
};
struct qc_tile_set qc_tile_set_of(enum qc_isa isa);
