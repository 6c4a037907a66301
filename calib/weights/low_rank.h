// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: compensated rounding (calib/weights/compensate.h) where fewer positions were seen than there are
   columns. Their second moments are H = U U' with U [w][rank]; neither H nor the factor of U U' + D is ever formed.

   U' has the rows that were seen, where they were kept; else it comes from a Cholesky factorisation with the largest
   remaining diagonal first, which ends after `rank` columns. For damping D = d I the factor R of U U' + D (R upper
   triangular in the order in which columns are rounded) has R_jk = u_j . v_k for j < k: from the last column to the
   first, with M = I at first, p = M u_k,  R_kk^2 = d + u_k . p,  M = M - p p' / R_kk^2, and R_jk / R_kk = u_j . c_k,
   c_k = p / R_kk^2 (the matrix inversion lemma). So the error that columns rounded before bring to column k is c_k . s,
   where s, the sum of u_j d_j over them, is all that a row of weights keeps. n rank^2 steps instead of n^3 / 3, the
   same integers but for ties.

   QC_LOW_RANK_BLOCK columns go together, so that all of it is products of matrices: with U_b their rows of U and P = M
   U_b', the lower Cholesky factor L of d I + U_b P gives L_kk = R_kk, the rows of L^-1 P' are p_k / R_kk, and c_k . u_j
   = L_jk / L_kk within the block. */
#pragma once

#include "calib/moments/second_moments.h"
#include "calib/weights/compensate.h"
#include "calib/weights/factorise.h"

enum { QC_LOW_RANK_BLOCK = 64 };

struct qc_low_rank {
    size_t w, rank, room; /* room: rows that fit */
    float *turned;        /* [room][w]: U'; by place in the order, once there is one */
    float *shares;        /* [w][rank]: c, by place in the order */
    float *within;        /* [w][QC_LOW_RANK_BLOCK]: c_k . u_j of the columns of a block */
    double *inner;        /* M, while there is none of the above: in panels of QC_TILE columns */
    double *block;        /* what one block of columns takes meanwhile */
    double *diagonal;     /* [w]: of H; part of scratch */
    double *scratch;      /* [3 w] */
    size_t *order;        /* [w]: qc_order_by_diagonal; columns are rounded from its end */
    bool ordered;         /* turned is by place */
};

/* Have the parts of a layer (bits 1 << part) so few rows that this is less work? Decided by counts alone. */
bool qc_low_rank_pays(const struct qc_second_moments_layer *l, unsigned parts);

/* Room for the parts of a layer, for errors alone (turned) or for rounding too. Bytes of it. free: zeroed is fine. */
bool qc_low_rank_new(struct qc_low_rank *f, const struct qc_second_moments_layer *l, unsigned parts, bool rounding,
                     struct qc_status *st);
size_t qc_low_rank_bytes(const struct qc_second_moments_layer *l, unsigned parts, bool rounding);
void qc_low_rank_free(struct qc_low_rank *f);

/* U of one block of a group, about `centre` [w] when that is not NULL. */
bool qc_low_rank_read(struct qc_low_rank *f, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                      size_t block, const double *centre, struct qc_status *st);

/* What rounding goes by. *found is false: nothing was seen, there is no damping. team: the result does not depend on
   it. */
bool qc_low_rank_factorise(bool *found, struct qc_low_rank *f, struct qc_damping damping,
                           const struct qc_pool_options *team, struct qc_status *st);

/* As qc_round_compensated, and error[lane] += |U' d|^2. Sums are of float32: weights in steps have no more digits.
   scratch: [rank + 2 QC_LOW_RANK_BLOCK][QC_LANES]. */
void qc_low_rank_round(double *error, double *d, const double *w, const struct qc_low_rank *f,
                       const struct qc_round_grid *grid, float *scratch);

/* error[lane] += |U' d|^2. scratch: the same. */
void qc_low_rank_errors(double *error, const double *d, const struct qc_low_rank *f, float *scratch);
