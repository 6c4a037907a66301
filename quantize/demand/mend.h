// SPDX-License-Identifier: Apache-2.0
/* Wider types that --method auto chooses by itself: for recurrent weights, and for layers of a network with a useless
   output. Outputs that stay useless get a warning. */
#pragma once

#include "calib/metrics/measure.h"
#include "export/report/report.h"
#include "quantize/report/quantize_suggest.h"

/* p has run; m: its outputs. Sets *out (from the arena of p) to the steps tried, or to NULL. If (*out)->met, p has the
   wider types afterwards, else it is unchanged. *again: stages of p have run again, so everything that borrows from its
   graphs must be made again. Errors: those of the pipeline and of runs. */
bool qc_mend(struct qc_report_fallback **out, bool *again, struct qc_pipeline *p, const struct qc_measurement *m,
             struct qc_status *st);

/* Warns if an output has less than 10 dB. The warning names the layer that loses most, and a remedy: a command of the
   advice, one that follows from the cause of error (ideas), or a demand. */
bool qc_warn_useless(const struct qc_report *r, const struct qc_ideas *ideas, struct qc_pipeline *p,
                     const struct qc_measurement *m, struct qc_status *st);
