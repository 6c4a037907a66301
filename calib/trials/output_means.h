// SPDX-License-Identifier: Apache-2.0
/* Biases of the layers that make the network's outputs: they take up the mean error that is seen there, of all that was
   quantized before.

   The mean over n samples has an error of its own, with variance v_c for channel c of an output. Of means m_c the part
   1 - sum v / sum m^2 is taken (James and Stein 1961, positive part): what only luck may have made is left alone. */
#pragma once

#include "calib/trials/trial_run.h"

struct qc_output_correction {
    size_t outputs; /* whose layers got other biases */
    size_t units;   /* that were run */
    double gain_db; /* what is expected of it, of the output that gains most */
};

/* *out: g with other biases; NULL where nothing is to be gained. g: simulated and bound; `make` and `user` give the
   trial number 0, what is written of g. Corrected are outputs of layers with a bias, through what keeps the order of
   elements, if nothing else reads them, where 0.05 dB is expected of it. All units of the trials are run, where the
   first ones show that it may be worth it. The result does not depend on workers or on the order of samples. Errors:
   those of runs. */
bool qc_correct_outputs(struct qc_graph **out, struct qc_output_correction *done, const struct qc_graph *g,
                        struct qc_trials *trials, qc_trial_graph_fn *make, void *user, struct qc_status *st);
