// SPDX-License-Identifier: Apache-2.0
/* Corrects the biases of the last layers for the mean error of the outputs
   (docs/decisions/0037-biases-of-the-outputs.md). */
#pragma once

#include "quantize/make/network.h"

/* Subtracts the mean error of the outputs from the biases of the layers that compute them
   (calib/trials/trials.h). Changes net->rounded; net->output_bias has the result. Does nothing unless --method
   auto ran trials, there are at least 64 units, biases are corrected and sums have 32 bits. Errors: those of runs. */
bool qc_correct_output_biases(struct qc_network *net, struct qc_status *st);
