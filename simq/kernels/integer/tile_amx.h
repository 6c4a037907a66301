// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: the sums of simq/kernels/integer/tile.h for many rows at a time, with AMX registers of 16 rows of 64
   bytes. Uint8 times int8, exact modulo 2^32. */
#pragma once

#include "simq/kernels/integer/tile.h"

enum { QC_AMX_ROWS = 16, QC_AMX_TILES = 4 /* of sums at a time */, QC_AMX_SUMS = 16 * 16 * QC_AMX_TILES };

/* Configures the registers of this thread for tiles of 1 to 16 rows and runs of `quads` groups of four bytes, until
   qc_amx_end. */
void qc_amx_begin(int rows, size_t quads);
void qc_amx_end(void);

/* Computes `tiles` tiles, one below the other, each of the rows given to qc_amx_begin. tiles * blocks is at most
   QC_AMX_TILES. t->acc: [tiles * rows][16 * blocks]. */
void qc_amx_tile(const struct qc_tile *t, int rows, int tiles, int blocks);
