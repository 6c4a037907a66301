// SPDX-License-Identifier: Apache-2.0
/* Wider types that --method auto chooses by itself: for recurrent weights, and for layers of a network with a noisy
   output. Outputs that stay useless get a warning. */
#pragma once

#include "quantize/report/job_report.h"
#include "quantize/report/quantize_suggest.h"
#include "quantize/search/candidate.h"

/* db: SQNR of the worst output on samples that calibrated. Sets *out to "fallback" of the record, owned by the caller,
   or to NULL. If it is met, c has the wider types afterwards, else its scheme is unchanged. *changed: the network was
   made again, so everything that borrows from its graphs must be made again, too. Errors: those of making and of runs.
 */
bool qc_mend(struct qc_json **out, bool *changed, struct qc_candidate *c, double db, struct qc_status *st);

/* Warns if an output has less than 10 dB. The warning names the layer that loses most, and a remedy: a command of the
   advice, one that follows from the cause of error (ideas), or a demand. */
bool qc_warn_useless(const struct qc_report *r, const struct qc_ideas *ideas, struct qc_network *net,
                     const struct qc_measurement *m, struct qc_status *st);
