// SPDX-License-Identifier: Apache-2.0
/* Tied tables: the table of an embedding is also the matrix of a product. Both get the integers of the product, so that
   a file needs them once (export/formats/unshared.c). */
#pragma once

#include "graph/core/graph.h"

/* Gives each Gather the rounded weights and scales of a product with the same numbers, if both have the same type and
   arrangement of scales. before: a simulated graph, bound; after: the same with weights in integers.
   *out: NULL if there is nothing to do. */
bool qc_tie_tables(struct qc_graph **out, const struct qc_graph *after, const struct qc_graph *before,
                   struct qc_status *st);
