// SPDX-License-Identifier: Apache-2.0
/* --benchmark: what is in integers and what in float, by the latency of the model file. The fastest of the float model,
   the default and everything in integers is the start; from there groups of operators
   (quantize/placement/placement_groups.h) change sides one at a time, and a change that makes the file faster is kept.
 */
#pragma once

#include "export/report/report.h"
#include "quantize/pipeline_state.h"

/* Runs the command once on the model file, if there is one: its errors are known before any work begins. */
bool qc_placement_check(const struct qc_pipeline *p, struct qc_status *st);

/* p: has run. Afterwards p->options, p->scheme and the stages are those of the fastest placement, with --prefer
   integers and a --skip for each operator in float; as before where nothing is faster. Errors: those of the command
   (quantize/placement/latency.h), of the stages, of temporary files. */
bool qc_place_by_latency(struct qc_report_latency **out, struct qc_pipeline *p, struct qc_status *st);

/* The latency and the error of p as it has become since: best_ms, best_db. */
bool qc_placement_measure_again(struct qc_report_latency *r, struct qc_pipeline *p, struct qc_status *st);
