// SPDX-License-Identifier: Apache-2.0
/* Estimated times of operators in a runtime, in float and in integers, from the work that shapes tell
   (operator_times.def). A free batch counts as one. */
#pragma once

#include "graph/core/uses.h"
#include "rewrite/language/match.h"

/* Nanoseconds. */
struct qc_operator_times {
    int64_t real, integer;
};

/* Returns the number of elements of a value; 0 if a dimension behind the first is free. */
int64_t qc_elements_of_one(const struct qc_graph *g, qc_id value);

/* The times of a match of a pattern. Those in integers are without conversions of inputs and results. Returns false if
   a shape is unknown. */
bool qc_times_of_match(struct qc_operator_times *out, const struct qc_uses *uses, const struct qc_match *m);

/* The time of a node that no pattern matches, roughly; 0 if it is computed once. */
int64_t qc_time_of_float(const struct qc_graph *g, qc_id node);

/* The times of an operator that moves elements. */
bool qc_times_of_move(struct qc_operator_times *out, const struct qc_graph *g, const struct qc_node *n);

/* Returns the time to quantize a value, or to dequantize it. layout: an operator on one of both sides orders channels
   otherwise. */
int64_t qc_time_to_convert(const struct qc_graph *g, qc_id value, bool quantize, bool layout);
