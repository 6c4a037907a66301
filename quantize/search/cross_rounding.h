// SPDX-License-Identifier: Apache-2.0
/* Refines rounded weights: layer by layer they compensate for the error of the layer's quantized input
   (docs/decisions/0045-rounding-on-what-is-read.md). */
#pragma once

#include "quantize/make/network.h"

/* Rounds the layers again, one after the other (calib/sequential/sequential.h), and compares both networks on samples.
   The better one becomes p->rounded and p->weight_rounding; p->crossed has the result. Does nothing unless weights are
   compensated and have few bits (or --method auto found a low SQNR), all samples have one size, and memory is not
   limited. Errors: those of runs. */
bool qc_round_crossed(struct qc_network *p, struct qc_status *st);
