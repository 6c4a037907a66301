// SPDX-License-Identifier: Apache-2.0
/* Compensated rounding of the weights of a linear layer y = w x: columns are rounded one at a time, and what rounding
   did to y is made good by the columns not yet rounded. Source: Optimal Brain Quantizer (Frantar, Alistarh 2022), GPTQ
   (Frantar et al. 2023) with the order by descending diagonal; in the form of Babai's nearest plane, which gives the
   same integers without an inverse (Chen et al. 2025, "The geometry of LLM quantization").

   With H = E[x x'] and H = R R', R upper triangular, the error of a row is |R' d|^2, d = w - q. Term k of R' d is R_kk
   d_k + sum over j < k of R_jk d_j, so column k is rounded from w_k + sum over j < k of (R_jk / R_kk) d_j: the least
   error that column k can still bring about.

   All arithmetic is in double, in one order, fused multiply-adds where the code says so: the same bits on every
   machine. */
#pragma once

#include "calib/weights/tile_products.h"

/* Columns 2i and 2i + 1 are a pair: integers of one sign may add up to `limit` (graph/core/pair_order.h). If a pair
   would exceed it, the column that is rounded first takes half of the excess, and its neighbour what is left; the
   errors of both are made good by the columns behind them, as any other. */
struct qc_round_pairs {
    double limit;
    size_t count;         /* of columns; the last of an odd count has no neighbour */
    double *level;        /* [count][QC_LANES]: the integers */
    unsigned char *known; /* [count]: is this column rounded? Zeroed before each call of the functions below */
};

/* What QC_LANES rows are rounded to: the levels in [lo, hi], zero point taken off; with `scale` times that. */
struct qc_round_grid {
    const double *lo, *hi;        /* [QC_LANES], or by column [n][QC_LANES] */
    const double *scale;          /* the same; NULL: what is rounded is in units of the scale */
    size_t step;                  /* from one column to the next: 0 or QC_LANES */
    int mantissa, least;          /* of floating-point levels (struct qc_levels); 0: integers */
    struct qc_round_pairs *pairs; /* without `scale` alone; NULL: no limit */
};

/* Rounds QC_LANES rows. w, d: [n][QC_LANES] by column; d = w - q on return, q on the grid. factor, order: of
   qc_factorise. scratch: [2 n][QC_LANES]. */
void qc_round_compensated(double *d, const double *w, const double *factor, const size_t *order, size_t n,
                          const struct qc_round_grid *grid, double *scratch);
/* Then, one column after the other, what rounding of it lowers d' h d most while all others stay: GPTQ looks back at no
   column (coordinate descent, as in QuantEase, Behdin et al. 2023). d: as qc_round_compensated left it. h: symmetric
   [n][n], damped. scratch: [n][QC_LANES]. */
void qc_round_again(double *d, const double *w, const double *h, size_t n, const struct qc_round_grid *grid,
                    double *scratch);
/* Then the scale of each block of `block` columns, one block after the other: what lowers d' h d most while the
   integers stay as they are; at least half and at most twice what it was, and a float32. scale: [n][QC_LANES], as in
   the grid. scratch: [2 n][QC_LANES]. */
void qc_round_rescale(double *d, double *scale, const double *w, const double *h, size_t n, size_t block,
                      double *scratch);
void qc_round_nearest(double *d, const double *w, size_t n, const struct qc_round_grid *grid);

/* d = w - q of one column, q rounded from w + sum; all [QC_LANES]. With pairs, w is part of an array of all columns.
 */
void qc_round_lanes(double *d, const double *w, const double *sum, const struct qc_round_grid *grid, size_t column);

/* error[lane] += d' h d, h symmetric [n][n], d [n][QC_LANES]. */
void qc_row_errors(double *error, const double *d, const double *h, size_t n);
