// SPDX-License-Identifier: Apache-2.0
/* Joins chains of unary functions to one op Table (graph/core/function.h): one table on affine values instead of one
   per op. */
#pragma once

#include "rewrite/passes/partition.h"

/* Joins float ops that the rules list (allow table ...) if several of them are a function of one value: constants are
   numbers and no other node uses the values in between. A clamp at the start stays outside, because its result is
   stored. If no pattern matches the Table, the ops stay as they were. graph: canonical (qc_normalise).
   options NULL: the model is quantized already. Then any ops between one DequantizeLinear and one QuantizeLinear that
   are a function of one value become a Table, listed or not, since the file rounds nothing in between. */
bool qc_join_functions(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules,
                       const struct qc_partition_options *options, struct qc_status *st);
