// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: exact integer sums of products of rows of small integers. Every instruction set gives the same
   numbers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    QC_MOMENTS_TILE = 16,    /* columns of a panel; a tile of products is [16][16] */
    QC_MOMENTS_LEVEL = 2047, /* largest magnitude of an entry */
    QC_MOMENTS_ROWS = 512    /* rows that one sum may span: 512 * 2047^2 < 2^31 */
};
#define QC_MOMENTS_TILE_SIZE ((size_t)QC_MOMENTS_TILE * QC_MOMENTS_TILE)
#define QC_MOMENTS_PAIR_SIZE ((size_t)QC_MOMENTS_TILE * 2)

/* to[i] = x[i * stride] * factor, rounded half to even and clamped to +-QC_MOMENTS_LEVEL. x must be finite. */
void qc_second_moments_quantize(int16_t *to, const float *x, size_t n, int64_t stride, float factor);

/* Returns the largest |x[i * stride]|; +infinity if one of them is NaN. */
float qc_second_moments_peak(const float *x, size_t n, int64_t stride);

/* The same of x and of real - x. */
float qc_second_moments_pair_peak(const float *x, const float *real, size_t n);

/* Packs `width` columns (from `first` on) of rows [rows][stride] into panels [ceil(width/16)][pairs][16][2]: two rows
   interleaved, missing ones 0; pairs = ceil(rows/2). */
void qc_second_moments_pack(int16_t *panels, const int16_t *rows, size_t count, size_t stride, size_t first,
                            size_t width);

/* sum[i][j] = the sum over the rows of a[i] * b[j]; a and b are one panel each. */
void qc_second_moments_tile(int32_t *sum, const int16_t *a, const int16_t *b, size_t pairs);

/* Destination of sums of products, in 64 or 32 bits. Values added are shifted first; the result must fit. */
struct qc_second_moments_sink {
    int64_t *wide; /* NULL: narrow */
    int32_t *narrow;
    int shift;
};

/* Adds the tile of two panels to a triangle. a holds `columns` columns from k on; b holds earlier ones or, on the
   diagonal, the same. at: the entry of column k and the first column of b. */
void qc_second_moments_add_tile(const struct qc_second_moments_sink *to, size_t at, size_t k, size_t columns,
                                bool diagonal, const int16_t *a, const int16_t *b, size_t pairs);

/* Adds one row of that tile, that of this column of a, to [QC_MOMENTS_TILE]. */
void qc_second_moments_row_of_tile(int64_t *to, const int16_t *a, size_t column, const int16_t *b, size_t pairs,
                                   int shift);

/* sums[i] += 2^shift times the sum over the rows of column i. */
void qc_second_moments_sums(int64_t *sums, const int16_t *rows, size_t count, size_t stride, int shift);

/* squares[i] = the sum of the squares of column i over at most QC_MOMENTS_ROWS rows. Returns the largest. */
int32_t qc_second_moments_squares(int32_t *squares, const int16_t *rows, size_t count, size_t stride);

/* Adds products of many small matrices in lanes: rows [count][columns][lanes]; to[pair of columns j <= k, at k(k+1)/2 +
   j][lanes] += the sum over the rows. scratch: [lanes]; panels: room for the lanes of each column as
   qc_second_moments_pack lays them out. */
void qc_second_moments_lanes(const struct qc_second_moments_sink *to, const int16_t *rows, size_t count, size_t columns,
                             size_t lanes, int32_t *scratch, int16_t *panels);
