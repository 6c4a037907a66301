// SPDX-License-Identifier: Apache-2.0
/* --method auto: chooses the observer by the output error of the quantized network
   (docs/decisions/0030-ranges-by-the-outputs.md).

   Several observers choose a range for each quantizer. For each observer the network is quantized as it would be
   written and runs on some samples. The observers are compared by the noise of the outputs relative to their signals,
   and for probabilities by their divergence too (calib/trials/trial_run.h). Another observer replaces mse only if its
   gain is statistically significant. */
#pragma once

#include "calib/ranges/calibrate.h"
#include "calib/weights/round_weights.h"
#include "export/report/report.h"

struct qc_pipeline;

struct qc_auto_method {
    struct qc_arena *arena;
    size_t trial_count;
    struct qc_report_trial *trials;      /* mse first, without observers whose ranges equal those of an earlier one */
    const struct qc_method **methods;    /* [qparams_count + 1], for struct qc_calibration_options */
    struct qc_report_choice *choices;    /* [qparams_count + 1], of the quantizers that have a method */
    struct qc_weight_rounding *rounding; /* with the ranges of mse; NULL: rounded to nearest, or taken over */
    struct qc_graph *rounded;
    double seconds;          /* without rounding */
    double rounding_seconds; /* of rounding that was not taken over (qc_auto_method_take_rounded) */
};

/* Sets p->auto_method; p->simulated is unbound before and after. Needs p->from->data and its statistics. rounding: how
   weights are rounded with the moments m; NULL: to nearest. Errors: those of observers, rounding and runs. */
bool qc_auto_method_find(struct qc_pipeline *p, const struct qc_second_moments *m,
                         const struct qc_round_weights_options *rounding, struct qc_status *st);
/* Takes over the weights rounded for the trials, since their grid does not depend on the ranges of activations. If
 *taken, p->rounded and p->weight_rounding hold them, with the activation parameters of p->simulated, which is bound.
 *taken is false if a weight scale changed, for its bias or for a narrow accumulator. */
bool qc_auto_method_take_rounded(bool *taken, struct qc_pipeline *p, struct qc_status *st);
void qc_auto_method_free(struct qc_auto_method *m); /* NULL-safe */
