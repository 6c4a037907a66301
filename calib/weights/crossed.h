// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: weights that make good what the quantized network reads. A layer computes w x; in the quantized
   network it reads x' = x - e. Of all weights v those with the least mean square of w x - v x' are w + w E[e x''] E[x'
   x'']^-1, and rounding goes by the moments of x' about them (asymmetric calibration, GPTAQ, Li et al. 2025). */
#pragma once

#include "base/status.h"
#include "calib/moments/second_moments.h"

struct qc_crossed {
    size_t w;
    double *both;                /* [2 w][2 w], scratch */
    double *h;                   /* [w][w]: moments of x' */
    double *cross;               /* [w][w]: row j has E[x'_j e_i] */
    double *factor;              /* [w][w]: of h, damped (qc_factorise) */
    double *held_h, *held_cross; /* of the samples held back, as h and cross */
    bool held;
    double *means; /* [4 w], scratch: of the pairs, of all samples and of some */
    size_t *order; /* [w] */
};

/* Room for a layer of qc_second_moments_new_pairs, of one block. free: zeroed is fine. */
bool qc_crossed_new(struct qc_crossed *c, const struct qc_second_moments_layer *paired, struct qc_status *st);
void qc_crossed_free(struct qc_crossed *c);

/* h and cross of the samples that weights are fitted to, about the means of all where `centred`; real and quantized
   [w]: means of x and x' over all. */
void qc_crossed_read(struct qc_crossed *c, double *real, double *quantized,
                     const struct qc_second_moments_layer *paired, unsigned fit, unsigned judge, bool centred);

/* square, order: what qc_factorise made of h. */
void qc_crossed_keep(struct qc_crossed *c, const double *square, const size_t *order);

/* What QC_LANES rows of weights x become, to [w][QC_LANES]. scratch: [2 w][QC_LANES]. */
void qc_crossed_target(double *to, const struct qc_crossed *c, const double *x, double *scratch);
