// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: compensated rounding (calib/weights/compensate.h) with fewer observed rows than columns. The second
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
#pragma once

#include "calib/moments/second_moments.h"
#include "calib/weights/compensate.h"
#include "calib/weights/factorise.h"

enum { QC_LOW_RANK_BLOCK = 64 };

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
