// SPDX-License-Identifier: Apache-2.0
/* What a person should hear when a float model does no better than guessing: its samples are prepared in another way
   than it was trained. */
#pragma once

#include "calib/metrics/accuracy.h"
#include "quantize/interface/warnings.h"

/* A warning when the best of count metrics is what guessing gives (qc_metric_is_chance_level). data: the file with the
   labels. */
void qc_warn_chance_level(struct qc_warnings *w, const struct qc_metric *const metrics[], size_t count,
                          const char *data);
