// SPDX-License-Identifier: Apache-2.0
/* Trials of a job (calib/trials/trial_run.h): graphs as they would be written, against the float network. */
#pragma once

#include "calib/trials/trial_run.h"
#include "quantize/pipeline_state.h"

/* What is written of a bound simulated graph; its weights out of p->shared. */
bool qc_trial_graph(struct qc_graph **out, const struct qc_pipeline *p, const struct qc_graph *bound,
                    struct qc_status *st);

/* Two that are run beside each other: user of qc_trials_run. */
struct qc_trial_pair {
    const struct qc_pipeline *p;
    const struct qc_graph *graphs[2]; /* bound and simulated */
};
bool qc_trial_of_pair(void *pair, struct qc_graph **out, size_t k, struct qc_status *st);

/* Trials are through: under --memory-limit their integers go. */
void qc_forget_integers(const struct qc_pipeline *p);

/* A third of the units, and at least 16 and at most 256 of them: so trials stay below the time of calibration. */
size_t qc_trial_units(const struct qc_pipeline *p);
struct qc_trial_options qc_trial_options_of(const struct qc_pipeline *p);
