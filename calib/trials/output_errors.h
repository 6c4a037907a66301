// SPDX-License-Identifier: Apache-2.0
/* Errors of a quantized graph's outputs against the float network. The float network runs only for units whose outputs
   are not known yet. */
#pragma once

#include "calib/metrics/measure.h"
#include "calib/statistics/known_outputs.h"

/* Runs the chosen units of data. sums: [output_count], the same numbers as `outputs` of qc_measure for a graph that
   computes the same as `quantized`. known: NULL, or outputs of `real`, extended. keys: NULL, or [units of data]: keys
   of the units, 0 if unknown; filled in. Fails if a run fails, or with QC_BAD_INPUT if the graphs have different inputs
   or outputs. */
bool qc_output_errors(struct qc_error *sums, struct qc_known_outputs *known, uint64_t *keys,
                      const struct qc_graph *real, const struct qc_graph *quantized, const struct qc_dataset *data,
                      const struct qc_measure_options *options, struct qc_status *st);
