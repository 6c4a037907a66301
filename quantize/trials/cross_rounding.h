// SPDX-License-Identifier: Apache-2.0
/* Weights of few bits, and of many where the network loses much, that make good what the quantized network reads, kept
   where that serves the outputs
   (docs/decisions/0045-rounding-on-what-is-read.md). */
#pragma once

#include "quantize/pipeline_state.h"

/* Where weights have few bits, or the trials of --method auto lost much, and are compensated, there are samples of one
   size and no limit of memory: rounds the layers again, one after the other (calib/sequential/sequential.h), runs both
   networks on samples, and leaves the better one in place of p->rounded and p->weight_rounding; p->crossed says what
   came of it. Errors: those of runs. */
bool qc_round_crossed(struct qc_pipeline *p, struct qc_status *st);
