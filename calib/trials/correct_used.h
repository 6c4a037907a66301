// SPDX-License-Identifier: Apache-2.0
/* Biases take up the mean error of what is used (calib/trials/used_points.h): at the end of each layer's way, per
   channel, the mean of the quantized network is made that of the float network.

   ONE PASS. e is the mean error at the end of a way, in the network as it is. What will be left of it when all that
   lies before is corrected is e - u, with u the part that comes along: the mean error of the layer's own result, and of
   what is added on the way, each function on the way taken as linear with its mean slope in the float
   network. The bias gets -(e - u) / g, g the product of the slopes. So all layers are corrected at once, each for what
   its way adds: clipping, and what a function makes of noise. What rounded weights add is in the biases before
   (calib/weights/round_weights.h). */
#ifndef QC_CALIB_TRIALS_CORRECT_USED_H
#define QC_CALIB_TRIALS_CORRECT_USED_H

#include "calib/trials/trial_run.h"

struct qc_used_correction {
    size_t layers; /* whose biases were changed */
    size_t units;  /* that were looked at */
};

/* *out: g with other biases; NULL where there is nothing to correct. g: simulated and bound; real: the float network
   that it was made of. The first units that the trials drew are run, at most `wanted`; no more memory is taken for
   their means than 32 MiB, nor half of a memory limit. The result does not depend on workers or on the order of
   samples. Errors: those of runs. */
bool qc_correct_used(struct qc_graph **out, struct qc_used_correction *done, const struct qc_graph *g,
                     const struct qc_graph *real, const struct qc_dataset *data, const struct qc_trials *trials,
                     size_t wanted, const struct qc_trial_options *options, struct qc_status *st);

#endif
