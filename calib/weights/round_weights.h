// SPDX-License-Identifier: Apache-2.0
/* Weight rounding from data: compensated rounding (calib/weights/compensation.h) and bias correction of a bound
   simulated graph, from the second moments of each layer's inputs. The new graph differs in constants and added biases
   only. All of its weights are integers (affine constants); its biases absorb the mean error of each output. A layer
   without a bias gets one unless it is zero in integers. A MatMul of two dimensions becomes a Gemm; one of more
   dimensions stays, since ONNX has no such product with a bias. */
#pragma once

#include "calib/moments/second_moments.h"
#include "calib/statistics/stream.h"
#include "graph/core/graph.h"
#include "graph/core/rebuild.h"
#include "graph/core/uses.h"

struct qc_memo;
struct qc_rounded_file;

struct qc_round_weights_options {
    /* plan.accumulator: a channel whose sums provably fit (calib/weights/sum_bound.h) with nearest rounding and the old
       bias also fits afterwards */
    const struct qc_settings *settings;
    size_t judged;  /* 0: round all outputs of a layer; else only about this many, evenly spaced, to measure errors: the
                       weights are then not usable */
    size_t nodes;   /* 0: all nodes of the graph belong to the network; else only this many, the first ones */
    bool cross_all; /* layers of many levels may compensate the error of their input, too (qc_weight_rounder_can_cross)
                     */
    struct qc_memo *known;        /* of solved layers (calib/weights/rounded_layers.h), extended; NULL: none */
    struct qc_rounded_file *file; /* the same in a file, for a job that is resumed; NULL: none */
};

/* Returns true if output `o` of a group of `outputs` is rounded: with `judged` only some are. */
bool qc_round_weights_is_judged(size_t o, size_t outputs, size_t judged);

/* Result of one layer. Errors are mean squares over rows and outputs of the layer's own output, from rounding its
   weights alone, on the held-out samples; after bias correction if that is on. */
struct qc_rounded_weights {
    qc_id quantizer;         /* qparams of the weight; 0: not a layer */
    const char *name;        /* name of those qparams; a copy */
    const char *reason;      /* why the moments did not round its weights; NULL: they did */
    bool compensated;        /* some output's weights differ from nearest rounding */
    bool held;               /* judged on held-out samples; else there were too few, and all samples judged */
    size_t outputs, nearest; /* nearest: outputs rounded to nearest */
    size_t bounded; /* outputs rounded to nearest, or with a partly corrected bias, because of the accumulator */
    size_t blocks;  /* blocks of the moments; with more than 1, products between blocks are left out */
    double error_nearest, error;
    bool bias_corrected;
    double bias_rms, bias_max; /* of the change of the bias, real units */
};

struct qc_weight_rounding {
    struct qc_arena *arena;
    size_t count;
    struct qc_rounded_weights *layers; /* [count], in the order of the graph */
    unsigned workers;
    double seconds;
};

/* Returns the operator of a layer with a bias: its own, or Gemm for a MatMul of two dimensions. MatMul: the layer can
   have no bias. */
enum qc_op qc_round_weights_biased_op(const struct qc_graph *g, const struct qc_node *n);

/* Returns the node that can take the bias correction of a MatMul: the Add of a constant after its Dequantize. With
   `make`, if only float operators read that Dequantize, returns the Dequantize: an Add will be made after it. Returns 0
   if there is none. */
qc_id qc_bias_after_matmul(const struct qc_uses *u, qc_id node, bool make);

/* Rounding layer by layer, for graphs that are bound step by step (calib/sequential/sequential.h). g and its arena, m
   and options->settings are borrowed and outlive the rounder. */
struct qc_weight_rounder;
bool qc_weight_rounder_new(struct qc_weight_rounder **out, const struct qc_graph *g, const struct qc_second_moments *m,
                           const struct qc_round_weights_options *options, struct qc_status *st);
void qc_weight_rounder_free(struct qc_weight_rounder *r); /* NULL-safe */

/* expects: node is a layer without new constants yet that will get some. waits: the same, and its weight is bound, so
   that it can be solved. */
bool qc_weight_rounder_expects(const struct qc_weight_rounder *r, qc_id node);
bool qc_weight_rounder_waits(const struct qc_weight_rounder *r, qc_id node);

/* Returns true if the layer's weights can compensate the error of its quantized input (calib/weights/compensation.h).
   It must be narrow enough and of few levels. With options.cross_all other layers may, if the part `share` of all
   samples has many rows per column. */
bool qc_weight_rounder_can_cross(const struct qc_weight_rounder *r, qc_id node, double share);

/* Computes the new constants of a layer, once for each layer. quantized: NULL, or means of the layer's input in the
   quantized network, at the same positions as those of m (qc_second_moments_new_means). The bias then absorbs the whole
   mean error of the output, W E[x] - Q E[x'], not only that of rounding the weights, (W - Q) E[x]. With pairs
   (qc_second_moments_new_pairs) the weights compensate as well. */
bool qc_weight_rounder_solve(struct qc_weight_rounder *r, qc_id node, const struct qc_second_moments *quantized,
                             struct qc_status *st);

/* Returns the result of a solved layer; borrowed. */
const struct qc_rounded_weights *qc_weight_rounder_result(const struct qc_weight_rounder *r, qc_id node);

/* Copies a layer, or the node that takes its bias, with its new constants. If there are none, sets *copied to false and
   does nothing. */
bool qc_weight_rounder_copy(bool *copied, struct qc_rebuild *b, const struct qc_weight_rounder *r, qc_id node,
                            struct qc_status *st);

/* Solves the remaining layers and makes the new graph. Layers solved one by one stay as they are. */
bool qc_weight_rounder_finish(struct qc_weight_rounding **out, struct qc_graph **graph, struct qc_weight_rounder *r,
                              struct qc_status *st);

/* g: simulated and bound; m was collected on it. The caller owns *out and *graph. The result does not depend on the
   number of workers. */
bool qc_round_weights(struct qc_weight_rounding **out, struct qc_graph **graph, const struct qc_graph *g,
                      const struct qc_second_moments *m, const struct qc_round_weights_options *options,
                      struct qc_status *st);
/* Returns the bytes that one worker needs for the largest layer, without the new weights of other layers. */
size_t qc_round_weights_bytes_of_all(const struct qc_second_moments *m);
void qc_weight_rounding_free(struct qc_weight_rounding *r); /* NULL-safe */

/* Weights whose channels differ too much for one scale. */

struct qc_channel_imbalance {
    size_t layers; /* number of layers with one weight scale and at least one small channel in four (zero channels
                      aside). In a small channel no element reaches 1/100 of the tensor's largest, so an 8-bit scale
                      leaves it about three levels */
    qc_id worst;   /* node with the largest share of such channels, 0: none */
    size_t small, channels; /* of the worst layer */
};

/* g: simulated, bound or not. Fails if memory is out. */
bool qc_weight_imbalance(struct qc_channel_imbalance *out, const struct qc_graph *g, struct qc_status *st);

/* Tied tables: the table of an embedding is also the matrix of a product. Both get the integers of the product, so that
   a file needs them once (export/formats/unshared.c). */

/* Gives each Gather the rounded weights and scales of a product with the same numbers, if both have the same type and
   arrangement of scales. before: a simulated graph, bound; after: the same with weights in integers.
   *out: NULL if there is nothing to do. */
bool qc_tie_tables(struct qc_graph **out, const struct qc_graph *after, const struct qc_graph *before,
                   struct qc_status *st);
