// SPDX-License-Identifier: Apache-2.0
/* Chains of unary functions become one op Table (graph/core/function.h): one table on affine values instead of one for
 * each op. */
#pragma once

#include "rewrite/passes/partition.h"

/* Joins float ops that the rules list (allow table ...) where several of them are a function of one value: constants
   are numbers, nothing else uses what is between, and a clamp that comes first stays outside, because the value behind
   it is what is stored. Only where a pattern then takes the Table: what stays in float stays as it was. graph:
   canonical (qc_normalise). */
bool qc_join_functions(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules,
                       const struct qc_partition_options *options, struct qc_status *st);

/* The same in a model that is quantized already: whatever lies between one DequantizeLinear and one QuantizeLinear and
   is a function of one value is a Table, listed or not, since the file rounds nothing between. */
bool qc_join_quantized_functions(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules,
                                 struct qc_status *st);
