// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: scores of the classifiers of ai.onnx.ml, as ONNX Runtime computes them. */
#pragma once

#include "graph/core/graph.h"

/* Attribute post_transform. */
enum qc_scores { QC_SCORES_NONE, QC_SCORES_LOGISTIC, QC_SCORES_SOFTMAX, QC_SCORES_SOFTMAX_ZERO, QC_SCORES_PROBIT };

bool qc_scores_of(enum qc_scores *out, const struct qc_node *n, struct qc_status *st);

/* What the one score s of two classes means. */
enum qc_scores_form {
    QC_SCORES_PLAIN, /* nothing: there are as many scores as classes, or the other one stays 0 */
    QC_SCORES_SHARE, /* 1 - s and s */
    QC_SCORES_SIGN   /* -s and s */
};

/* Writes `width` scores from count sums. */
void qc_scores_set(float *y, size_t width, const double *v, size_t count, enum qc_scores transform,
                   enum qc_scores_form form);
