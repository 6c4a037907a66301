// SPDX-License-Identifier: Apache-2.0
/* What a quantized graph's outputs lose against those of the float network, and nothing else of it: the float network
   runs only for units whose outputs nobody knows yet. */
#pragma once

#include "calib/metrics/measure.h"
#include "calib/statistics/known_outputs.h"

/* Runs the chosen units of data. sums: [output_count], the same numbers as qc_measure's `outputs` where `quantized`
   computes the same as the graph given there. known: NULL, or of `real`; added to. keys: NULL, or [units of data]: keys
   of the units, 0 where not known yet; filled. Errors: those of the run, graphs with other outputs (QC_BAD_INPUT). */
bool qc_output_errors(struct qc_error *sums, struct qc_known_outputs *known, uint64_t *keys,
                      const struct qc_graph *real, const struct qc_graph *quantized, const struct qc_dataset *data,
                      const struct qc_measure_options *options, struct qc_status *st);
