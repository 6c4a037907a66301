// SPDX-License-Identifier: Apache-2.0
/* Advice: changes of options that were tried, with their effect on the outputs.

   Ideas come from the causes of error (quantize/report/quantize_suggest.h) and from the effect of each single layer on
   the outputs (calib/metrics/sensitivity.h). Each idea is made as a candidate (quantize/search/candidate.h), so its
   figure is what the command gives. If the network is the same, the command names the observer that --method auto
   chose. A gain must show on the samples of the report and on held-out ones. */
#pragma once

#include "calib/metrics/sensitivity.h"
#include "quantize/report/quantize_suggest.h"
#include "quantize/search/candidate.h"

/* Puts the ranking of layers, the suggestions and the advice into the record. effects: of the layers of c; if NULL,
   they are measured here on a few samples. Ideas are added to `ideas`, those that cannot be tried are left out. Selects
   the samples of --data that the options ask for. Fails if samples cannot be read, or with QC_INTERRUPTED. */
bool qc_fill_advice(struct qc_report *r, struct qc_ideas *ideas, struct qc_candidate *c, const struct qc_measurement *m,
                    const struct qc_sensitivity *effects, struct qc_status *st);
