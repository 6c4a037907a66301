// SPDX-License-Identifier: Apache-2.0
/* --method auto: chooses the observer by the output error of the quantized network
   (docs/decisions/0030-ranges-by-the-outputs.md).

   Several observers choose a range for each quantizer. For each observer the network is quantized as it would be
   written and runs on some samples. The observers are compared by the noise of the outputs relative to their signals,
   and for probabilities by their divergence too (calib/trials/trials.h). Another observer replaces mse only if its
   gain is statistically significant. */
#pragma once

#include "quantize/make/network.h"

/* Sets net->auto_method, and with it the methods of the scheme. net->simulated is unbound before and after. Needs data
   and their statistics. Errors: those of observers, rounding and runs. */
bool qc_auto_method_find(struct qc_network *net, struct qc_status *st);
