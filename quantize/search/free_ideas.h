// SPDX-License-Identifier: Apache-2.0
/* Takes what is free: changes of the scheme that cost neither latency nor bytes, if the outputs gain on samples.

   An idea that needs other statistics is first made on few samples, beside the job's scheme made the same way. All
   ideas of one kind that gain there are made in full, and compared with the job's network on units held out from second
   moments; the best is kept. */
#pragma once

#include "quantize/report/job_report.h"
#include "quantize/search/candidate.h"

/* Returns true if the job looks for free changes: with samples, without --effort low, and if there is memory for a
   second network. */
bool qc_looks_for_free(const struct qc_candidate *c);
/* c has its first network. Ideas that gain are kept: then c has their schemes. An option that is given is not
   overruled. Warns if --memory-limit leaves no room for them. Puts the ideas that were tried into r. *changed: c has
   another network. Errors: those of making and of runs. */
bool qc_take_free_ideas(struct qc_report *r, bool *changed, struct qc_candidate *c, struct qc_status *st);
