// SPDX-License-Identifier: Apache-2.0
/* Factors of second moments, and the compensation of rounding errors with them. */
#pragma once

#include <stddef.h>

#include "base/pool.h"
#include "base/status.h"
#include "calib/moments/second_moments.h"

/* Inside calib/: products of small blocks of doubles, the inner loops of factorisation and compensated rounding. Each
   element is one chain of fused multiply-adds in a fixed order, so the bits are those of the plain loop on every
   machine, for any block size or vector width. */

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

/* The factor of second moments that compensated rounding (calib/weights/compensation.h) uses. */

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
    const double *h; /* [n][n] symmetric, stays; NULL: from `read` */
    void (*read)(void *user, double *a);
    void *user;
    size_t n;
    struct qc_damping damping;
};

/* Reads, damps and factorises in place. After a failure it repeats with ten times the part, up to four tries. */
bool qc_factorise_read(bool *definite, double *a, size_t *order, const struct qc_factorised *of, double *scratch,
                       const struct qc_pool_options *team, struct qc_status *st);

/* Compensated rounding of the weights of a linear layer y = w x: columns are rounded one at a time, and columns not yet
   rounded compensate the error. Sources: Optimal Brain Quantizer (Frantar, Alistarh 2022); GPTQ (Frantar et al. 2023)
   with the order by descending diagonal. The form is Babai's nearest plane, which gives the same integers without an
   inverse (Chen et al. 2025, "The geometry of LLM quantization").

   With H = E[x x'] and H = R R', R upper triangular, the error of a row is |R' d|^2, d = w - q. Term k of R' d is R_kk
   d_k + sum over j < k of R_jk d_j. So column k is rounded from w_k + sum over j < k of (R_jk / R_kk) d_j: the least
   error that column k can still reach.

   All arithmetic is in double, in a fixed order, with fused multiply-adds where the code says so: every machine
   computes the same bits. */

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

/* Inside calib/: compensated rounding (calib/weights/compensation.h) with fewer observed rows than columns. The second
   moments are H = U U' with U [w][rank]; neither H nor the factor of U U' + D is ever formed. U' holds the observed
   rows if they were kept; else it comes from a Cholesky factorisation with the largest remaining diagonal first, which
   ends after `rank` columns.

   For damping D = d I, R is the factor of U U' + D, upper triangular in the rounding order, with R_jk = u_j . v_k for j
   < k. From the last column to the first, with M = I at first: p = M u_k, R_kk^2 = d + u_k . p, M = M - p p' / R_kk^2,
   and R_jk / R_kk = u_j . c_k, c_k = p / R_kk^2 (the matrix inversion lemma). So the error that columns rounded before
   add to column k is c_k . s. A row of weights keeps only s, the sum of u_j d_j over those columns. This takes n rank^2
   steps instead of n^3 / 3 and gives the same integers except for ties.

   QC_LOW_RANK_BLOCK columns go together, so that all work is products of matrices. With U_b their rows of U and P = M
   U_b', the lower Cholesky factor L of d I + U_b P gives L_kk = R_kk, the rows of L^-1 P' are p_k / R_kk, and c_k . u_j
   = L_jk / L_kk within the block. */

enum { QC_LOW_RANK_BLOCK = 64, QC_FACTORISE_TRIES = 4 /* each with ten times the damping of the one before */ };

struct qc_low_rank {
    size_t w, rank, room; /* room: capacity in rows */
    float *turned;        /* [room][w]: U'; columns by place in the order once `ordered` */
    float *shares;        /* [w][rank]: c, by place in the order */
    float *within;        /* [w][QC_LOW_RANK_BLOCK]: c_k . u_j of the columns of a block */
    double *inner;        /* M, during qc_low_rank_factorise: in panels of QC_TILE columns */
    double *block;        /* buffers of one block of columns */
    double *diagonal;     /* [w]: of H; part of scratch */
    double *scratch;      /* [3 w] */
    size_t *order;        /* [w]: from qc_order_by_diagonal; columns are rounded from its end */
    bool ordered;         /* `turned` is in that order */
};

/* Returns true if the parts of a layer (bits 1 << part) have few enough rows for this to be less work. Depends only on
   counts. */
bool qc_low_rank_pays(const struct qc_second_moments_layer *l, unsigned parts);

/* qc_low_rank_new allocates buffers for the parts of a layer; without `rounding` only those for errors.
   qc_low_rank_bytes returns their size. qc_low_rank_free accepts a zeroed struct. */
bool qc_low_rank_new(struct qc_low_rank *f, const struct qc_second_moments_layer *l, unsigned parts, bool rounding,
                     struct qc_status *st);
size_t qc_low_rank_bytes(const struct qc_second_moments_layer *l, unsigned parts, bool rounding);
void qc_low_rank_free(struct qc_low_rank *f);

/* Reads U of one block of a group, about `centre` [w] unless NULL. */
bool qc_low_rank_read(struct qc_low_rank *f, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                      size_t block, const double *centre, struct qc_status *st);

/* Computes `shares` and `within` for rounding. *found is false if the moments are zero and there is no damping, or if
   no damping makes them definite. The result does not depend on team. */
bool qc_low_rank_factorise(bool *found, struct qc_low_rank *f, struct qc_damping damping,
                           const struct qc_pool_options *team, struct qc_status *st);

/* Rounds as qc_round_compensated does, and adds |U' d|^2 to error[lane]. Sums are float32: weights in steps have no
   more digits. scratch: [rank + 2 QC_LOW_RANK_BLOCK][QC_LANES]. */
void qc_low_rank_round(double *error, double *d, const double *w, const struct qc_low_rank *f,
                       const struct qc_round_grid *grid, float *scratch);

/* error[lane] += |U' d|^2. scratch: the same. */
void qc_low_rank_errors(double *error, const double *d, const struct qc_low_rank *f, float *scratch);

/* Inside calib/: weights that compensate the error of the layer's input in the quantized network. A layer computes w x;
   in the quantized network it reads x' = x - e. The weights v of least mean square of w x - v x' are w + w E[e x'']
   E[x' x'']^-1, and they are rounded with the moments of x' (asymmetric calibration, GPTAQ, Li et al. 2025). */

struct qc_crossed {
    size_t w;
    double *both;                /* [2 w][2 w], scratch */
    double *h;                   /* [w][w]: moments of x' */
    double *cross;               /* [w][w]: row j has E[x'_j e_i] */
    double *factor;              /* [w][w]: of h, damped (qc_factorise) */
    double *held_h, *held_cross; /* of the held-out samples, as h and cross */
    bool held;
    double *means; /* [4 w], scratch: means of the pairs, over all samples and over a part */
    size_t *order; /* [w] */
};

/* Allocates buffers for a layer of qc_second_moments_new_pairs with one block. Fails if memory is out. qc_crossed_free
   accepts a zeroed struct. */
bool qc_crossed_new(struct qc_crossed *c, const struct qc_second_moments_layer *paired, struct qc_status *st);
void qc_crossed_free(struct qc_crossed *c);

/* Reads h and cross from the samples of `fit`, and from those of `judge` if they differ; with `centred` about the means
   of all samples. real, quantized: [w], means of x and x' over all samples. */
void qc_crossed_read(struct qc_crossed *c, double *real, double *quantized,
                     const struct qc_second_moments_layer *paired, unsigned fit, unsigned judge, bool centred);

/* Keeps the factor of h. square, order: as qc_factorise left them. */
void qc_crossed_keep(struct qc_crossed *c, const double *square, const size_t *order);

/* Computes the target weights of QC_LANES rows of weights x, [w][QC_LANES]. scratch: [2 w][QC_LANES]. */
void qc_crossed_target(double *to, const struct qc_crossed *c, const double *x, double *scratch);
