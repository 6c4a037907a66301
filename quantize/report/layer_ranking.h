// SPDX-License-Identifier: Apache-2.0
/* The ranking of layers by their effect on the outputs. The worst layers of the summary, the causes of error and the
   advice follow it. */
#pragma once

#include "calib/metrics/sensitivity.h"
#include "export/report/report.h"
#include "quantize/pipeline_state.h"

/* Fills the ranking of r. The layers of `effects` come first, in that order: they were measured. The others follow by
   the estimate of qc_noise_believed. effects: of the layers of p->simulated; NULL: none was measured. Leaves the
   ranking empty without a measurement (m NULL). Needs the layers and outputs of r. */
bool qc_fill_ranking(struct qc_report *r, const struct qc_pipeline *p, const struct qc_measurement *m,
                     const struct qc_sensitivity *effects, struct qc_status *st);
