// SPDX-License-Identifier: Apache-2.0
/* The stage that runs the data: statistics, and parameters from them. */
#ifndef QC_QUANTIZE_STAGE_CALIBRATE_H
#define QC_QUANTIZE_STAGE_CALIBRATE_H

#include "quantize/pipeline_state.h"

bool qc_stage_calibrate(struct qc_pipeline *p, struct qc_status *st);

/* Keeps of the statistics what the simulated graph needs; when something is missing all of it goes, to be collected
   again. Errors: QC_UNSUPPORTED where it cannot be collected again. */
bool qc_reuse_statistics(struct qc_pipeline *p, struct qc_status *st);

/* What the options say of weights and biases: is the bias added behind the accumulator's narrowing; are biases
   corrected (an accumulator that takes no bias takes no correction either); does either change a constant. */
bool qc_narrows_bias(const struct qc_options *o);
bool qc_corrects_bias(const struct qc_options *o);
bool qc_round_weightss(const struct qc_options *o);
struct qc_round_weights_options qc_round_weights_options_of(const struct qc_pipeline *p);

/* Second moments for the simulated graph at hand; NULL: none. */
const struct qc_second_moments *qc_moments_of(const struct qc_pipeline *p);

#endif
