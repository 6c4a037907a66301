// SPDX-License-Identifier: Apache-2.0
/* The cost of a scheme: the estimated latency of its network in the runtime of the target, and the bytes of its file.

   The latency is a sum of operators' times (rewrite/passes/operator_times.h). Free sizes are those of the largest
   sample, and a free batch is one. */
#pragma once

#include "quantize/report/job_report.h"

struct qc_cost {
    double latency; /* estimated, relative to the float model; NaN: shapes are unknown */
    double
        on[QC_PROCESSORS]; /* the same for each kind of processor; `latency` is that of the option, or of the first */
    size_t bytes;          /* of the largest file */
};
struct qc_json *qc_cost_json(const struct qc_cost *c);

/* Sets *time to the estimated time of g in nanoseconds; NaN: the shape of a product is unknown. wide_is_float: the
   runtime computes products of 16 bits in float. Fails if out of memory. */
bool qc_estimate_time(double *time, enum qc_processor on, const struct qc_graph *g, bool wide_is_float,
                      struct qc_status *st);

/* Sets *out to the cost of a finished network. Errors: those of exporters. */
bool qc_cost_of(struct qc_cost *out, const struct qc_network *net, struct qc_status *st);

/* Puts the cost of a finished network into the record, with the estimated latency of each type of operator
   in the float network and in the finished one, relative to the float network. Quantize is all rounding between types.
 */
bool qc_record_cost(struct qc_json *record, const struct qc_network *net, struct qc_status *st);

/* Sets *time to the estimated time of the float model in nanoseconds, and *more ([node_count + 1] of made, from a) to
   the estimated latency that each operator on integers would add if it alone were in float, relative to the float
   model; infinity for other operators. It may be negative. made: net->produced, or a copy for the sizes of samples. */
bool qc_latency_in_float(double **more, double *time, const struct qc_network *net, const struct qc_graph *made,
                         struct qc_arena *a, struct qc_status *st);
