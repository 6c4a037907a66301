// SPDX-License-Identifier: Apache-2.0
/* Trials of a job (calib/trials/trial_run.h): compare graphs as they would be written with the float network. */
#pragma once

#include "calib/trials/trial_run.h"
#include "quantize/pipeline_state.h"

/* Makes the produced graph of a bound simulated graph; its integer weights are shared through p->shared. */
bool qc_trial_graph(struct qc_graph **out, const struct qc_pipeline *p, const struct qc_graph *bound,
                    struct qc_status *st);

/* Gain of the second graph over the first: how much less noise its outputs have, dB. */
struct qc_trial_gain {
    size_t units;      /* run by both */
    double gain;       /* on all units */
    double error;      /* standard error of the gain; infinity with one unit */
    double of_half[2]; /* gain on the units with even and with odd index; NaN with one unit */
};
/* Compares two bound simulated graphs on at most `units` units. held: of those held out from second moments, if there
   are enough. */
bool qc_trial_compare(struct qc_trial_gain *out, const struct qc_pipeline *p, const struct qc_graph *const graphs[2],
                      size_t units, bool held, struct qc_status *st);

/* Frees the integer weights of the trials if --memory-limit is given. */
void qc_forget_integers(const struct qc_pipeline *p);

/* Returns a third of the number of units, at least 16 and at most 256, so that trials take less time than calibration.
 */
size_t qc_trial_units(const struct qc_pipeline *p);
struct qc_trial_options qc_trial_options_of(const struct qc_pipeline *p);

/* How weights are rounded and biases corrected, and from which moments. */

/* Is the bias added after the accumulator is narrowed? Are biases corrected? (Not if the bias is added after
   narrowing.) Are weights compensated or biases corrected? */
bool qc_narrows_bias(const struct qc_options *o);
bool qc_corrects_bias(const struct qc_options *o);
bool qc_rounds_weights(const struct qc_options *o);
struct qc_round_weights_options qc_round_weights_options_of(const struct qc_pipeline *p);

/* Returns the second moments for p->simulated, or NULL. */
const struct qc_second_moments *qc_moments_of(const struct qc_pipeline *p);
