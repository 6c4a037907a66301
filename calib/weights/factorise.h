// SPDX-License-Identifier: Apache-2.0
/* The factor that compensated rounding (calib/weights/compensate.h) goes by, from second moments. */
#pragma once

#include "base/pool.h"
#include "calib/weights/tile_products.h"

#define QC_DAMPING                                                                                                     \
    0.001 /* of the mean of the diagonal (GPTQ takes a hundredth; the noise of a rounded input is the                  \
             greater part where it matters) */

/* Columns by ascending diagonal, the order in reverse in which they are rounded; of equal ones the last comes first.
   order: [n]. */
void qc_order_by_diagonal(size_t *order, const double *diagonal, size_t n);

enum { QC_FACTOR_PANEL = 128 };
/* Doubles of scratch that a factorisation of n columns takes. */
#define QC_FACTOR_SCRATCH(n) ((size_t)QC_FACTOR_PANEL * ((n) + QC_TILE))

/* The lower Cholesky factor in place of a symmetric block of at most QC_FACTOR_PANEL columns, rows `stride` apart; what
   is above the diagonal stays. false: not positive definite. */
bool qc_factor_block(double *a, size_t stride, size_t width);
/* tile [width][QC_TILE], by that factor from the left: x = factor^-1 x. */
void qc_factor_solve_tile(double *tile, const double *factor, size_t stride, size_t width);

/* Overwrites symmetric a [n][n] by the factor: row and column i stand for column order[i] (ascending diagonal, equal
   ones by number), columns are rounded from the last to the first, and a[i][j], j > i, is what the error of column
   order[j] adds to order[i]. damping is added to the diagonal. Not definite: a is destroyed. scratch:
   [QC_FACTOR_SCRATCH(n)]. team: workers; the result does not depend on their number. */
bool qc_factorise(bool *definite, double *a, size_t *order, size_t n, double damping, double *scratch,
                  const struct qc_pool_options *team, struct qc_status *st);

/* How a matrix is damped: noise, and a part of the mean of its diagonal. */
struct qc_damping {
    double part, noise;
};

/* The matrix that a factor is wanted of. */
struct qc_factorised {
    void (*read)(void *user, double *a);
    void *user;
    size_t n;
    struct qc_damping damping;
};

/* The factor of what is read, in its place: damped, ten times more by the part, and read again, as often as that fails,
   up to four times. */
bool qc_factorise_read(bool *definite, double *a, size_t *order, const struct qc_factorised *of, double *scratch,
                       const struct qc_pool_options *team, struct qc_status *st);

/* The same of symmetric h [n][n], which stays as it is, damped by QC_DAMPING and noise. */
bool qc_factorise_damped(bool *definite, double *factor, size_t *order, const double *h, size_t n, double noise,
                         double *scratch, const struct qc_pool_options *team, struct qc_status *st);
