// SPDX-License-Identifier: Apache-2.0
/* Advice: changes of options that were tried, with what they do to the outputs.

   Ideas come from the causes of error (quantize/report/quantize_suggest.h) and from what each layer alone does to the
   outputs (calib/metrics/sensitivity.h). Each becomes a job beside the one that has run (qc_pipeline_branch), so that
   the figure is that of the command, which names the observer that --method auto found where the network is the same. A
   gain has to show on the samples that the report measures and on others. */
#pragma once

#include "calib/metrics/sensitivity.h"
#include "quantize/report/quantize_suggest.h"

/* Fills the ranking of layers, the suggestions and the advice of r. effects: of the layers of p, or NULL: they are
   measured here on a few samples. Ideas are added to `ideas`. The chosen samples of --data are all of them afterwards.
   Errors: of reading samples; QC_INTERRUPTED. What cannot be tried is left out. */
bool qc_fill_advice(struct qc_report *r, struct qc_ideas *ideas, struct qc_pipeline *p, const struct qc_measurement *m,
                    const struct qc_sensitivity *effects, struct qc_status *st);
