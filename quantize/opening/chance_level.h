// SPDX-License-Identifier: Apache-2.0
/* Warns if a float model is no better than guessing: its samples are probably not preprocessed as in training. */
#pragma once

#include "calib/metrics/accuracy.h"
#include "quantize/interface/warnings.h"

/* Warns if the best of `count` metrics is at chance level (qc_metric_is_chance_level). data: the file with the labels.
 */
void qc_warn_chance_level(struct qc_warnings *w, const struct qc_metric *const metrics[], size_t count,
                          const char *data);
