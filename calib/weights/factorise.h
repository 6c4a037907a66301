// SPDX-License-Identifier: Apache-2.0
/* The factor of second moments that compensated rounding (calib/weights/compensate.h) uses. */
#pragma once

#include "base/pool.h"
#include "calib/weights/tile_products.h"

#define QC_DAMPING                                                                                                     \
    0.001 /* of the mean of the diagonal; GPTQ uses 0.01. Where damping matters, the noise of the rounded input is     \
             larger */

/* Sorts columns by ascending diagonal, equal ones by descending number; columns are rounded in reverse order. order:
   [n]. */
void qc_order_by_diagonal(size_t *order, const double *diagonal, size_t n);

enum { QC_FACTOR_PANEL = 128 };
/* Doubles of scratch for a factorisation of n columns. */
#define QC_FACTOR_SCRATCH(n) ((size_t)QC_FACTOR_PANEL * ((n) + QC_TILE))

/* Replaces a symmetric block of at most QC_FACTOR_PANEL columns, rows `stride` apart, by its lower Cholesky factor;
   elements above the diagonal stay. Returns false if the block is not positive definite. */
bool qc_factor_block(double *a, size_t stride, size_t width);
/* Solves for a tile [width][QC_TILE] with that factor: x = factor^-1 x. */
void qc_factor_solve_tile(double *tile, const double *factor, size_t stride, size_t width);

/* Overwrites symmetric a [n][n] with the factor. Row and column i stand for column order[i] (qc_order_by_diagonal);
   columns are rounded from the last to the first. a[i][j], j > i, is the share of the error of column order[j] added to
   column order[i]. damping is added to the diagonal. If *definite is false, a is destroyed. scratch:
   [QC_FACTOR_SCRATCH(n)]. team: workers; the result does not depend on their number. */
bool qc_factorise(bool *definite, double *a, size_t *order, size_t n, double damping, double *scratch,
                  const struct qc_pool_options *team, struct qc_status *st);

/* Damping of a matrix: `noise`, plus `part` of the mean of its diagonal. */
struct qc_damping {
    double part, noise;
};

/* The matrix to factorise. */
struct qc_factorised {
    void (*read)(void *user, double *a);
    void *user;
    size_t n;
    struct qc_damping damping;
};

/* Reads, damps and factorises in place. After a failure it repeats with ten times the part, up to four tries. */
bool qc_factorise_read(bool *definite, double *a, size_t *order, const struct qc_factorised *of, double *scratch,
                       const struct qc_pool_options *team, struct qc_status *st);

/* The same for symmetric h [n][n], which stays, with QC_DAMPING and noise. */
bool qc_factorise_damped(bool *definite, double *factor, size_t *order, const double *h, size_t n, double noise,
                         double *scratch, const struct qc_pool_options *team, struct qc_status *st);
