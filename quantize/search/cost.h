// SPDX-License-Identifier: Apache-2.0
/* The cost of a scheme: the estimated latency of its network in the runtime of the target, and the bytes of its file.

   The latency is a sum of counted work times the rates of cost_rates.def. Work is counted for one unit of --data, or
   without it for a batch of one. Compare estimates with each other, not with a clock. */
#pragma once

#include "quantize/make/network.h"

/* The kinds of work, in the order of cost_rates.def. */
enum qc_work {
#define QC_WORK(name, time, what) QC_WORK_##name,
#include "quantize/search/cost_rates.def"
#undef QC_WORK
    QC_WORKS
};

/* Adds the work of g to amount[QC_WORKS]. wide_is_float: the runtime computes products of 16 bits in float. A free
   batch counts as 1; if the shape of a product is unknown otherwise, the number of nodes is NaN. Fails if out of
   memory. */
bool qc_count_work(double amount[QC_WORKS], const struct qc_graph *g, bool wide_is_float, struct qc_status *st);

/* Sets *time to the estimated time of g, in float multiply-adds; NaN: unknown. Fails if out of memory. */
bool qc_estimate_time(double *time, const struct qc_graph *g, bool wide_is_float, struct qc_status *st);

/* Sets *out to the cost of a finished network. Errors: those of exporters. */
bool qc_cost_of(struct qc_report_cost *out, const struct qc_network *net, struct qc_status *st);

/* Sets *more ([node_count + 1] of net->produced, from a) to the estimated latency that each operator on integers would
   add if it alone were in float, relative to the float network; infinity for nodes that are no such operators. It may
   be negative. Free dimensions count as 1. */
bool qc_latency_in_float(double **more, const struct qc_network *net, struct qc_arena *a, struct qc_status *st);
