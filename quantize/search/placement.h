// SPDX-License-Identifier: Apache-2.0
/* --benchmark: chooses which operators run in integers and which in float, by the latency of the model file. The search
   starts from the fastest of the float model, the default and everything in integers. It measures the change of one
   group of operators (quantize/search/placement_groups.h) to float or to integers, and then of all groups together
   whose change is faster. */
#pragma once

#include "quantize/report/job_report.h"
#include "quantize/search/candidate.h"

/* Runs the command once on the model file, if there is one, so that it fails before any work begins. */
bool qc_placement_check(const struct qc_setup *s, struct qc_arena *a, struct qc_status *st);

/* Afterwards c has the fastest placement, with --prefer integers and a --skip for each operator in float; if nothing is
   faster, they are unchanged. *out: "timing.benchmark" of the record, owned by the caller. Errors: those of the command
   (quantize/search/latency.h), of the stages, of temporary files. job_seconds: of the job before, which bound the time
   of the search (QC_PLACEMENT_BUDGET). */
bool qc_place_by_latency(struct qc_json **out, struct qc_candidate *c, double job_seconds, struct qc_status *st);

/* Measures the latency and the error of c again, after it has changed, and puts them into *to. */
bool qc_placement_measure_again(struct qc_json *to, struct qc_candidate *c, struct qc_status *st);
