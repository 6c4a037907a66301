// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/: types that options give to nodes by name, and ops of which only the weights are quantized. */
#pragma once

#include "rewrite/passes/partition.h"

/* Which of the options' choices fitted a node. */
struct qc_types_used {
    bool *activation, *weight; /* [activation_type_count], [weight_type_count] */
};

/* Finds how few elements make a weight slight (struct qc_partition). */
bool qc_types_find_slight(struct qc_partition *p, struct qc_status *st);

/* Is the match quantized, as far as types go? Notes the reason where it is not, and the weight where that alone is. */
bool qc_types_accept(struct qc_partition *p, const struct qc_match *m, struct qc_types_used *used);

/* Does the template quantize weights and nothing else (an embedding, an LSTM)? */
bool qc_types_weights_alone(const struct qc_partition *p, const struct qc_match *m);

/* Is it the table of an embedding: weights alone, of which the op copies elements? */
bool qc_types_is_table(const struct qc_partition *p, const struct qc_match *m);

/* The pattern's scheme with the types of the matched nodes. NULL and a status when memory is out. */
const struct qc_scheme_source *qc_scheme_source_of(struct qc_partition *p, const struct qc_match *m,
                                                   struct qc_status *st);

/* QC_USAGE: a glob that fitted nothing. */
bool qc_types_check(const struct qc_partition_options *o, const struct qc_types_used *used, struct qc_status *st);

/* QC_UNSUPPORTED, naming the ops: factors of more than 24 bits together. A product of 16 by 16 bits needs all of the
   32-bit accumulator for itself; of 16 by 8 bits, 256 of the largest fit. */
bool qc_types_check_products(const struct qc_graph *g, struct qc_status *st);
