// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: products of small blocks of doubles, the inner loops of factorisation and compensated rounding. Each
   element is one chain of fused multiply-adds in a fixed order, so the bits are those of the plain loop on every
   machine, for any block size or vector width. */
#pragma once

#include <stddef.h>

enum { QC_TILE = 16 };  /* rows and columns of a tile */
enum { QC_LANES = 32 }; /* rows of weights processed in parallel */

/* c[i][j] = c[i][j] - a[0][i] b[0][j] - a[1][i] b[1][j] - ..., i and j below QC_TILE, rows of c `stride` apart.
   a, b: [depth][QC_TILE]. */
void qc_tile_subtract(double *c, size_t stride, const double *a, const double *b, size_t depth);

/* sum[r][lane] += f[r][t] d[t][lane], t ascending from 0 to count - 1, or descending to 0. sum: [rows][QC_LANES],
   f: rows `stride` apart, d: [count][QC_LANES]. */
void qc_lanes_add_up(double *sum, size_t rows, const double *f, size_t stride, const double *d, size_t count);
void qc_lanes_add_down(double *sum, size_t rows, const double *f, size_t stride, const double *d, size_t count);

/* qc_lanes_add_up in float32. */
void qc_lanes_add_up_f32(float *sum, size_t rows, const float *f, size_t stride, const float *d, size_t count);

/* sum[r][lane] += f[r] d[lane]. sum: [rows][QC_LANES] */
void qc_lanes_carry(double *sum, const double *f, const double *d, size_t rows);

/* sum[r][lane] += f[t][r] d[t][lane] for r from first to end - 1, t ascending from 0 to count - 1. */
void qc_lanes_carry_all(double *sum, const double *const *f, const double *d, size_t first, size_t end, size_t count);
