// SPDX-License-Identifier: Apache-2.0
/* Compensated rounding of the weights of a linear layer y = w x: columns are rounded one at a time, and columns not yet
   rounded compensate the error. Sources: Optimal Brain Quantizer (Frantar, Alistarh 2022); GPTQ (Frantar et al. 2023)
   with the order by descending diagonal. The form is Babai's nearest plane, which gives the same integers without an
   inverse (Chen et al. 2025, "The geometry of LLM quantization").

   With H = E[x x'] and H = R R', R upper triangular, the error of a row is |R' d|^2, d = w - q. Term k of R' d is R_kk
   d_k + sum over j < k of R_jk d_j. So column k is rounded from w_k + sum over j < k of (R_jk / R_kk) d_j: the least
   error that column k can still reach.

   All arithmetic is in double, in a fixed order, with fused multiply-adds where the code says so: every machine
   computes the same bits. */
#pragma once

#include "calib/weights/tile_products.h"

/* Limit on pairs: integers of one sign in columns 2i and 2i + 1 may add up to at most `limit`
   (graph/core/pair_order.h). If a pair would exceed it, the column rounded first takes half of the excess and its
   neighbour the rest. Later columns compensate both errors. */
struct qc_round_pairs {
    double limit;
    size_t count;         /* columns; with an odd count the last one has no neighbour */
    double *level;        /* [count][QC_LANES]: the integers */
    unsigned char *known; /* [count]: column is rounded; zeroed before each call of the functions below */
};

/* The grid of QC_LANES rows: levels in [lo, hi] with the zero point subtracted, times `scale` if there is one. */
struct qc_round_grid {
    const double *lo, *hi;        /* [QC_LANES], or by column [n][QC_LANES] */
    const double *scale;          /* the same; NULL: weights are in units of the scale */
    size_t step;                  /* distance from one column to the next: 0 or QC_LANES */
    int mantissa, least;          /* of floating-point levels (struct qc_levels); 0: integers */
    struct qc_round_pairs *pairs; /* only without `scale`; NULL: no limit */
};

/* Rounds QC_LANES rows. w, d: [n][QC_LANES] by column; d = w - q on return, q on the grid. factor, order: of
   qc_factorise. scratch: [2 n][QC_LANES]. */
void qc_round_compensated(double *d, const double *w, const double *factor, const size_t *order, size_t n,
                          const struct qc_round_grid *grid, double *scratch);
/* Coordinate descent after qc_round_compensated (as in QuantEase, Behdin et al. 2023): rounds one column after the
   other to the level of least d' h d while all others stay. GPTQ never revisits a column. d: from qc_round_compensated.
   h: symmetric [n][n], damped. scratch: [n][QC_LANES]. */
void qc_round_again(double *d, const double *w, const double *h, size_t n, const struct qc_round_grid *grid,
                    double *scratch);
/* Refits the scale of each block of `block` columns, one block after the other: the float32 of least d' h d while the
   integers stay, between half and twice the old scale. scale: [n][QC_LANES], as in the grid. scratch: [2 n][QC_LANES].
 */
void qc_round_rescale(double *d, double *scale, const double *w, const double *h, size_t n, size_t block,
                      double *scratch);
void qc_round_nearest(double *d, const double *w, size_t n, const struct qc_round_grid *grid);

/* Rounds one column: d = w - q, q rounded from w + sum; all [QC_LANES]. With pairs, w points into an array of all
   columns. */
void qc_round_lanes(double *d, const double *w, const double *sum, const struct qc_round_grid *grid, size_t column);

/* error[lane] += d' h d, h symmetric [n][n], d [n][QC_LANES]. */
void qc_row_errors(double *error, const double *d, const double *h, size_t n);
