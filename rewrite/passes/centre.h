// SPDX-License-Identifier: Apache-2.0
/* Centred inputs of products. The error of a floating-point level is in proportion to the value, so a constant part of
   a channel costs precision. It is subtracted in front of the quantizer, and the layer's bias takes its product with
   the weights: W x + b = W (x - c) + (b + W c). Padding is explicit, since zeros of x are -c behind the subtraction. */
#pragma once

#include "graph/core/infer.h"
#include "graph/core/uses.h"

/* What a product computes of its first input. Channels: of all groups. */
struct qc_centre_product {
    const struct qc_tensor *weight; /* float32 */
    int64_t outputs, channels, groups, taps;
    bool rows;   /* the weight is [outputs][channels / groups][taps]; else [channels][outputs] */
    bool padded; /* `window` has padding */
    struct qc_window window;
};

/* Describes a Conv, Gemm or MatMul with a constant weight, whose bias, if any, is a constant. Returns false for other
   nodes, and if the padding depends on free dimensions. */
bool qc_centre_product_of(struct qc_centre_product *out, const struct qc_graph *g, qc_id node);

/* Returns true if a MatMul, which has no bias, is not followed by an Add of a constant that could take W c: qc_centre
   then adds one. */
bool qc_centre_adds(const struct qc_graph *g, const struct qc_uses *uses, qc_id node);

/* Makes *out, a copy of g in which products that read value v get v - centre[v]. centre: [value_count + 1], each NULL
   or, for a value with a name, one number per channel. products: [node_count + 1], the nodes to change, which fit
   qc_centre_product_of. */
bool qc_centre(struct qc_graph **out, const struct qc_graph *g, const float *const *centre, const bool *products,
               struct qc_status *st);

/* Returns the Quantize to floating-point levels that makes the input of a product, before its Dequantize; NULL: none.
 */
const struct qc_node *qc_small_float_input(const struct qc_graph *g, const struct qc_node *product);

/* Value v if it is x minus a constant per channel. */
struct qc_centred {
    qc_id value;                    /* x in front of the padding; 0: v is none */
    const struct qc_tensor *centre; /* one number per channel */
    const struct qc_node *pad;      /* or NULL */
    double lo, hi;                  /* of the centre */
};
/* Returns the value whose elements operators like Reshape and Transpose move to v: a quantizer in front of them has the
   same levels. */
qc_id qc_unmoved(const struct qc_graph *g, qc_id v);
/* Recognises what qc_centre makes, in front of a quantizer with floating-point levels. */
struct qc_centred qc_centred_of(const struct qc_graph *g, qc_id v, qc_id qparams);
/* The same for the first input of a product, quantized to such levels or real. */
struct qc_centred qc_centred_input(const struct qc_graph *g, const struct qc_node *product);
