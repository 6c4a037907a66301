// SPDX-License-Identifier: Apache-2.0
/* --method auto: which observer serves the outputs of the network best, by runs of the quantized network
   (docs/decisions/0030-ranges-by-the-outputs.md).

   Several observers choose a range for each quantizer. The network is quantized with the ranges of each, as it would be
   written, and runs on some samples; what is judged is the noise of its outputs relative to their signals, of
   probabilities their divergence (calib/trials/divergence.h). What is not
   better than mse by more than may be luck is not taken. */
#pragma once

#include "calib/ranges/calibrate.h"
#include "calib/weights/round_weights.h"
#include "export/report/report.h"

struct qc_pipeline;

struct qc_auto_method {
    struct qc_arena *arena;
    size_t trial_count;
    struct qc_report_trial *trials;   /* mse first; those that give no other range than an earlier one are left out */
    const struct qc_method **methods; /* [qparams_count + 1], for struct qc_calibration_options */
    struct qc_report_choice *choices; /* [qparams_count + 1], of those that have a method there */
    struct qc_weight_rounding *rounding; /* with the ranges of mse; NULL: to nearest, or taken */
    struct qc_graph *rounded;
    double seconds;          /* but for rounding, which is: */
    double rounding_seconds; /* of weights that no other stage has taken (qc_auto_method_take_rounded) */
};

/* Finds p->auto_method; p->simulated is not bound before and after. Needs p->from->data and what was seen of it.
   rounding: how weights are rounded by the moments m, NULL: to nearest. Errors: those of observers, rounding and runs.
 */
bool qc_auto_method_find(struct qc_pipeline *p, const struct qc_second_moments *m,
                         const struct qc_round_weights_options *rounding, struct qc_status *st);
/* Weights that were rounded for the trials serve the job, since their grid does not depend on ranges of activations:
   *taken, and p->rounded and p->weight_rounding are these with the parameters of p->simulated, which is bound. Not
   where scales of weights became others, for their biases or for narrow accumulators. */
bool qc_auto_method_take_rounded(bool *taken, struct qc_pipeline *p, struct qc_status *st);
void qc_auto_method_free(struct qc_auto_method *m); /* NULL-safe */
