// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/: types that options give to nodes by name, and ops with only quantized weights. */
#pragma once

#include "rewrite/passes/partition.h"

/* The choices of the options that fitted a node. */
struct qc_types_used {
    bool *activation, *weight; /* [activation_type_count], [weight_type_count] */
};

/* Finds the number of elements below which a weight is slight (struct qc_partition). */
bool qc_types_find_slight(struct qc_partition *p, struct qc_status *st);

/* Returns true if the types let the match be quantized. Else notes the reason, and the weight if it alone is
   quantized. */
bool qc_types_accept(struct qc_partition *p, const struct qc_match *m, struct qc_types_used *used);

/* Returns true if the template quantizes weights only (an embedding, an LSTM). */
bool qc_types_weights_alone(const struct qc_partition *p, const struct qc_match *m);

/* Returns true if the match reads floats of few bits: it computes in float32, and only its readers round the result. */
bool qc_types_small_floats(const struct qc_partition *p, const struct qc_match *m);

/* Returns true for the table of an embedding: only weights, of which the op copies elements. */
bool qc_types_is_table(const struct qc_partition *p, const struct qc_match *m);

/* Returns the pattern's scheme with the types of the matched nodes. NULL and a status if memory is out. */
const struct qc_scheme_source *qc_scheme_source_of(struct qc_partition *p, const struct qc_match *m,
                                                   struct qc_status *st);

/* Fails (QC_USAGE) if a glob fitted no node. */
bool qc_types_check(const struct qc_partition_options *o, const struct qc_types_used *used, struct qc_status *st);

/* Fails (QC_UNSUPPORTED), naming the ops, if factors have more than 24 bits together. A product of 16 by 16 bits fills
   the 32-bit accumulator; of 16 by 8 bits, 256 of the largest fit. */
bool qc_types_check_products(const struct qc_graph *g, struct qc_status *st);
