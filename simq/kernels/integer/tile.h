// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: the innermost loops of integer multiply-accumulate ops. Sums are exact modulo 2^32, so all
   instruction sets give the same bits.

   Data is a byte string per row (a pixel, or a row of a matrix), read in runs of whole groups of four bytes:
   narrow  four uint8 times four int8 (VNNI's vpdpbusd, which does not saturate)
   wide    two int16 times two int16 (vpmaddwd, vpdpwssd)
   Weights are packed in panels of 1 to 3 blocks of 16 channels: for each group of four bytes, for each block, for
   each channel, four bytes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "simq/core/kernel.h"
#include "simq/kernels/integer/depthwise.h"

enum {
    QC_TILE_ROWS = 8,
    QC_TILE_MOST = 16,
    QC_TILE_CHANNELS = 16,
    QC_TILE_BLOCKS = 3,
    QC_TILE_WIDTH = QC_TILE_CHANNELS * QC_TILE_BLOCKS
};

struct qc_tile {
    const uint8_t *a;
    ptrdiff_t step;       /* bytes from row to row */
    const ptrdiff_t *run; /* byte distance between rows */
    size_t runs, quads;   /* [runs] byte offset of each run from the start of a row */
    const uint8_t *w;     /* a panel */
    const int32_t *bias;  /* [16 * blocks] the sums start from */
    int32_t *acc;         /* [16 * blocks] initial value of the sums */
};

/* rows: 1, 2, 4, 8 or qc_tile_set.rows[blocks]; blocks: 1 to 3. */
typedef void qc_tile_fn(const struct qc_tile *t, int rows, int blocks);

/* The same sums, one addition at a time, in an accumulator that may overflow (simq/core/kernel.h). */
struct qc_tile_narrow {
    struct qc_accumulator accumulator;
    bool wide;
    bool narrow_sums;       /* no sum can leave int32 */
    int32_t zero;           /* zero point of the data; not included in the bias */
    size_t first, channels; /* of the layer: index of the tile's first channel, number of valid channels in the tile */
};
/* Adds the statistics of its sums to *sums. */
void qc_tile_narrow(const struct qc_tile *t, int rows, int blocks, const struct qc_tile_narrow *how,
                    struct qc_sums *sums);

/* Tiles by instruction set. narrow: exact. pairs: narrow tiles for weights whose sums of the products 2i and 2i + 1
   of a group fit in 16 bits. */
qc_tile_fn qc_tile_wide_plain, qc_tile_narrow_plain;
#if defined(__x86_64__) && defined(__GNUC__)
qc_tile_fn qc_tile_wide_avx2, qc_tile_pairs_avx2, qc_tile_narrow_avx_vnni;
qc_tile_fn qc_tile_wide_avx512, qc_tile_pairs_avx512, qc_tile_wide_vnni, qc_tile_narrow_vnni;
#elif defined(__aarch64__) && defined(__GNUC__)
qc_tile_fn qc_tile_wide_neon, qc_tile_pairs_neon, qc_tile_narrow_dot, qc_tile_narrow_i8mm;
#endif

/* The functions of one instruction set. */
struct qc_tile_set {
    qc_tile_fn *narrow, *wide;
    /* By blocks: rows of the fastest tile, whose sums fill the registers; 8 to QC_TILE_MOST. */
    int rows[QC_TILE_BLOCKS + 1];
    bool pairs;     /* narrow adds two products in 16 bits: allowed only if qc_int_pack_fits */
    bool is_signed; /* narrow subtracts 128 from the data; the bias must include it */
    qc_depthwise_fn *narrow_depthwise, *wide_depthwise; /* never NULL */
    qc_depthwise_pair_fn *depthwise_pair;               /* NULL: not available */
    qc_depthwise_line_fn *depthwise_line;               /* NULL: not available */
    enum qc_taps taps;                                  /* weight packing of narrow_depthwise */
    bool amx;                                           /* simq/kernels/integer/tile.h */
};
struct qc_tile_set qc_tile_set_of(enum qc_isa isa);

/* Inside simq/: the sums of simq/kernels/integer/tile.h for many rows at a time, with AMX registers of 16 rows of 64
   bytes. Uint8 times int8, exact modulo 2^32. */

enum { QC_AMX_ROWS = 16, QC_AMX_TILES = 4 /* of sums at a time */, QC_AMX_SUMS = 16 * 16 * QC_AMX_TILES };

/* Configures the registers of this thread for tiles of 1 to 16 rows and runs of `quads` groups of four bytes, until
   qc_amx_end. */
void qc_amx_begin(int rows, size_t quads);
void qc_amx_end(void);

/* Computes `tiles` tiles, one below the other, each of the rows given to qc_amx_begin. tiles * blocks is at most
   QC_AMX_TILES. t->acc: [tiles * rows][16 * blocks]. */
void qc_amx_tile(const struct qc_tile *t, int rows, int tiles, int blocks);
