// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: weights that compensate the error of the layer's input in the quantized network. A layer computes w x;
   in the quantized network it reads x' = x - e. The weights v of least mean square of w x - v x' are w + w E[e x'']
   E[x' x'']^-1, and they are rounded with the moments of x' (asymmetric calibration, GPTAQ, Li et al. 2025). */
#pragma once

#include "base/status.h"
#include "calib/moments/second_moments.h"

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
