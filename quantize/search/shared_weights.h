// SPDX-License-Identifier: Apache-2.0
/* Weights of the outer graph that several bodies read (branches of an If, bodies of Loops): each body is quantized as a
   separate model, but the file stores such a weight once. A body gets the integers of the first one that was quantized
   with it; a body that no sample runs reads them through DequantizeLinear. */
#pragma once

#include "quantize/make/network.h"

struct qc_shared_weights;

/* g: the graph whose bodies share weights; borrowed. */
bool qc_shared_weights_new(struct qc_shared_weights **out, const struct qc_graph *g, struct qc_status *st);
void qc_shared_weights_free(struct qc_shared_weights *s); /* NULL-safe */

/* Returns true if the body has weights that another graph has too. Its channels must keep their sizes then. */
bool qc_shared_weights_in(const struct qc_shared_weights *s, const struct qc_graph *body);

/* Adds the weights of a body's graph that its network has stored in integers of 4 or 8 bits. */
bool qc_shared_weights_add(struct qc_shared_weights *s, const struct qc_graph *body, const struct qc_network *net,
                           struct qc_status *st);

/* PRODUCTS: only weights that all readers take as the weight of a product, and none in blocks, with which no integers
   are multiplied. */
enum qc_shared_readers { QC_SHARED_ALL, QC_SHARED_PRODUCTS };

/* *out: the body with these weights as DequantizeLinear of the stored integers; NULL if it has none of them. */
bool qc_shared_weights_put(struct qc_graph **out, const struct qc_shared_weights *s, const struct qc_graph *body,
                           enum qc_shared_readers readers, struct qc_status *st);
