// SPDX-License-Identifier: Apache-2.0
#ifndef QC_REWRITE_PASSES_LIMIT_PAIRS_H
#define QC_REWRITE_PASSES_LIMIT_PAIRS_H

#include "rewrite/passes/partition.h"

/* Sets qparams.pair_limit of the int8 weights that a kernel adds in pairs, with o->overflow_fix PAIRS; with
   REDUCE_RANGE gives them 7 bits. g: simulated, no quantizer of weights bound. Left alone are weights whose parameters
   the model gives, weights in blocks, and weights that are not symmetric: no scale could keep their pairs. */
void qc_limit_pairs(struct qc_graph *g, const struct qc_partition_options *o);

#endif
