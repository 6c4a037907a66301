// SPDX-License-Identifier: Apache-2.0
/* Warnings about the samples: too few, or the same ones for calibration and evaluation. */
#pragma once

#include "calib/metrics/accuracy.h"
#include "datasets/samples/dataset.h"
#include "graph/core/graph.h"
#include "quantize/interface/inputs.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"

/* Warns if calibration has one sample only, and if --eval reads the data set of --data. samples: number of chosen
   samples of --data, 0 without --data. Errors: memory; a malformed FILE:DATASET. */
bool qc_warn_samples(struct qc_warnings *w, size_t samples, const struct qc_job_inputs *in, struct qc_arena *a,
                     struct qc_status *st);

/* Warns if a float model is no better than guessing: its samples are probably not preprocessed as in training. */

/* Warns if the best of `count` metrics is at chance level (qc_metric_is_chance_level). data: the file with the labels.
 */
void qc_warn_chance_level(struct qc_warnings *w, const struct qc_metric *const metrics[], size_t count,
                          const char *data);

/* Checks whether the data have the range of the training data, by the mean and variance stored in a batch norm near the
   input. */

/* Warns if the first samples of an input reach the first batch norm, directly or through one Conv or Gemm, with another
   standard deviation than it stores: 8 times as large, or 1/8, in the median of its channels. Without such a batch
   norm, warns if images have values like pixels and neither data nor options define a preprocessing. Ignores errors:
   the job itself reports them. */
void qc_warn_input_range(struct qc_warnings *w, const struct qc_graph *imported, const struct qc_dataset *data,
                         const struct qc_options *o);

/* Warns of each float32 input whose first samples have a standard deviation that is 4 times as large in one of the data
   as in the other, or means that are 3 deviations apart. Ignores errors, as above. */
void qc_warn_prepared_otherwise(struct qc_warnings *w, const struct qc_graph *g, const struct qc_dataset *data,
                                const struct qc_dataset *eval);
