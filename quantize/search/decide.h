// SPDX-License-Identifier: Apache-2.0
/* Makes a network, and decides by measurement what its scheme leaves open: factors and centres of channels, the
   observer of each quantizer, a second rounding of weights, and biases of the outputs. */
#pragma once

#include "quantize/make/make.h"

/* All arguments but out are borrowed, and must outlive the network. Fails if a pass or a run fails. */
bool qc_decide(struct qc_network **out, const struct qc_setup *setup, const struct qc_scheme *scheme,
               struct qc_evidence *evidence, const struct qc_listener *listener, struct qc_status *st);
