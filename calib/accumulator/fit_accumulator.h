// SPDX-License-Identifier: Apache-2.0
/* Raises scales of weights so that narrow accumulators do not overflow (docs/decisions/0013-narrow-accumulators.md). */
#pragma once

#include "calib/ranges/calibrate.h"

/* g: simulated, all quantizers bound; accumulators of 2 to 31 bits. Raises the scale of each weight channel (or the
   weight's only scale) in steps of 1/64 until the accumulators of its layers fit, and binds the quantizers again.
   c->choices of these quantizers tell how many scales were raised and how far. With AUTO and SEEN the chosen samples
   run until none overflows, with at most four raises; data may be NULL with PROVEN. Warnings name what still overflows,
   products of two activations included. Fails if a run fails. */
bool qc_fit_accumulators(struct qc_calibration *c, struct qc_graph *g, const struct qc_dataset *data,
                         const struct qc_settings *settings, struct qc_status *st);
