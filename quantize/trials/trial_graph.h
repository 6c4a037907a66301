// SPDX-License-Identifier: Apache-2.0
/* Trials of a job (calib/trials/trial_run.h): graphs as they would be written, against the float network. */
#pragma once

#include "calib/trials/trial_run.h"
#include "quantize/pipeline_state.h"

/* What is written of a bound simulated graph; its weights out of p->shared. */
bool qc_trial_graph(struct qc_graph **out, const struct qc_pipeline *p, const struct qc_graph *bound,
                    struct qc_status *st);

/* What the second of two graphs gains over the first, dB of noise of the outputs. */
struct qc_trial_gain {
    size_t units;      /* that both ran */
    double gain;       /* over all of them */
    double error;      /* the standard error of that; infinity with one unit */
    double of_half[2]; /* over every other unit, from the first and from the second on; NaN with one unit */
};
/* Runs two bound and simulated graphs on at most `units` units; held: of those that second moments hold back. */
bool qc_trial_compare(struct qc_trial_gain *out, const struct qc_pipeline *p, const struct qc_graph *const graphs[2],
                      size_t units, bool held, struct qc_status *st);

/* Trials are through: under --memory-limit their integers go. */
void qc_forget_integers(const struct qc_pipeline *p);

/* A third of the units, and at least 16 and at most 256 of them: so trials stay below the time of calibration. */
size_t qc_trial_units(const struct qc_pipeline *p);
struct qc_trial_options qc_trial_options_of(const struct qc_pipeline *p);
