// SPDX-License-Identifier: Apache-2.0
/* Trials of a job (calib/trials/trial_run.h): graphs as they would be written, against the float network. */
#ifndef QC_QUANTIZE_TRIAL_GRAPH_H
#define QC_QUANTIZE_TRIAL_GRAPH_H

#include "calib/trials/trial_run.h"
#include "quantize/pipeline_state.h"
#include "rewrite/passes/folded_constants.h"

/* What is written of a bound simulated graph. shared: NULL, or of trials that have the same weights. */
bool qc_trial_graph(struct qc_graph **out, struct qc_folded_constants *shared, const struct qc_pipeline *p,
                    const struct qc_graph *bound, struct qc_status *st);

/* A third of the units, and at least 16 and at most 256 of them: so trials stay below the time of calibration. */
size_t qc_trial_units(const struct qc_pipeline *p);
struct qc_trial_options qc_trial_options_of(const struct qc_pipeline *p);

#endif
