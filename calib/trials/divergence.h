// SPDX-License-Identifier: Apache-2.0
/* Outputs that are probabilities, and how far those of two networks are apart. */
#pragma once

#include "calib/metrics/compare.h"

enum qc_probabilities {
    QC_NO_PROBABILITIES,
    QC_PARTS_OF_ONE, /* of a Softmax */
    QC_OF_TWO        /* each p stands beside 1 - p: of a Sigmoid */
};

/* What output o of a float network is: made by Softmax or Sigmoid, through what only moves and joins its elements. */
enum qc_probabilities qc_probabilities_of(const struct qc_graph *g, size_t o);

/* Adds n pairs of probabilities: to signal p, to noise the triangular divergence (p - q)^2 / ((p + q) / 2), which is
   twice the Kullback-Leibler divergence where the two are close (Topsoe, "Some inequalities for information
   divergence", 2000), and finite without a floor where one of them is 0; of two also that of 1 - p and 1 - q. */
void qc_divergence_add(struct qc_error *e, enum qc_probabilities kind, const float *p, const float *q, size_t n);
