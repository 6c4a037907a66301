// SPDX-License-Identifier: Apache-2.0
/* Outputs that are probabilities, and the divergence of those of two networks. */
#pragma once

#include "calib/metrics/compare.h"

enum qc_probabilities {
    QC_NO_PROBABILITIES,
    QC_PARTS_OF_ONE, /* of a Softmax */
    QC_OF_TWO        /* of a Sigmoid: each p implies 1 - p */
};

/* Returns the kind of output o of a float network: the result of Softmax or Sigmoid, through operators that only move
   and join elements. */
enum qc_probabilities qc_probabilities_of(const struct qc_graph *g, size_t o);

/* Adds n pairs of probabilities. The signal is the sum of p. The noise is the triangular divergence (p - q)^2 / ((p +
   q) / 2), for QC_OF_TWO plus that of 1 - p and 1 - q. It is twice the Kullback-Leibler divergence if both are close
   (Topsoe, "Some inequalities for information divergence", 2000), and finite if one of them is 0. */
void qc_divergence_add(struct qc_error *e, enum qc_probabilities kind, const float *p, const float *q, size_t n);
