// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: one layer during compensated rounding and bias correction. */
#pragma once

#include "calib/weights/round_weights.h"
#include "graph/core/parameters.h"

struct qc_round_weights_output;

struct qc_round_weights_layer {
    const struct qc_graph *g;
    const struct qc_uses *uses; /* of g */
    qc_id node;
    const struct qc_second_moments_layer *moments;
    const struct qc_second_moments_layer
        *quantized;                        /* NULL, or means or pairs of the layer's input in the quantized network */
    const struct qc_tensor *weight, *bias; /* bias: NULL if the operator has none */
    const struct qc_qparams *qparams;      /* of the weight */
    struct qc_scale_layout scales;         /* of its elements */
    const struct qc_qparams *input;        /* of the layer's input */
    unsigned at;                           /* the weight is input number `at` of the node */
    bool recurrent;                        /* W or R of an RNN, GRU or LSTM: each row is an output */
    size_t fitted;    /* outputs of a group that are compensated: all but those whose input has no moments */
    bool correctable; /* the bias can be corrected, in the layer or in `behind` */
    qc_id behind;     /* qc_bias_after_matmul, if the layer itself takes no bias; else 0 */
    struct qc_rounded_weights *result;
    struct qc_tensor *rounded;            /* stored integers in the shape of weight; owned; NULL until solved */
    float *new_scale;                     /* [scales.count]: new scales of blocks, or NULL; owned */
    struct qc_round_weights_output *made; /* [outputs]; owned */
};

/* Result for one output, beside that of nearest rounding. */
struct qc_round_weights_output {
    bool moved;                  /* its weights differ from nearest rounding */
    float scale;                 /* scale of its weights if it differs from the quantizer's; else 0 */
    double shift, nearest_shift; /* to add to the bias, real units */
    double error, nearest_error; /* mean square over rows */
};

/* Returns the element of the weight tensor for an output and a column of its group (calib/moments/second_moments.h). */
size_t qc_round_weights_element(const struct qc_round_weights_layer *l, size_t output, size_t column);
/* Stores an integer of the new weight. */
static inline void qc_round_weights_put(const struct qc_round_weights_layer *l, size_t element, int32_t q)
{
    if (qc_dtype_size(l->rounded->dtype) == 1)
        ((uint8_t *)l->rounded->data)[element] = (uint8_t)q;
    else
        ((uint16_t *)l->rounded->data)[element] = (uint16_t)q;
}
/* Returns the distance between elements of neighbouring outputs of a group in the same column. */
size_t qc_round_weights_step(const struct qc_round_weights_layer *l);

/* Returns true if there are enough held-out samples to judge by. */
bool qc_round_weights_holds(const struct qc_second_moments_layer *l);

/* Changes second moments h [w][w] with mean m to moments about `centre`: E[x x'] - centre m' - m centre' + centre
   centre'. */
void qc_round_weights_centre(double *h, const double *m, const double *centre, size_t w);

/* Returns the error variance of the rounded input, a twelfth of its squared step: it adds to each diagonal second
   moment and is absent from float statistics. */
double qc_round_weights_input_noise(const struct qc_qparams *input, size_t group);

/* Least rows per column for crossing a layer of many levels: fewer would fit noise. */
enum { QC_CROSSED_ROWS = 16 };

/* Returns true if the layer's moments have one group and one block, and its levels are few or, with `all`, that share
   of the samples has many rows. */
bool qc_round_weights_can_cross(const struct qc_round_weights_layer *l, bool all, double share);

/* Sets *pays to false if the error of nearest weights is negligible beside that of the rounded input; a *pays of false
   stays. */
bool qc_round_weights_pays(bool *pays, const struct qc_round_weights_layer *l, struct qc_status *st);

/* Rounds one layer: fills `rounded`, `made` and *result. The result does not depend on the number of workers. */
bool qc_round_weights_solve(struct qc_round_weights_layer *l, const struct qc_round_weights_options *options,
                            unsigned workers, struct qc_status *st);

/* Keeps the sums within an accumulator of `bits` bits. Each output takes the better of the compensated and the nearest
   weights, each with as much of the bias correction as fits; nearest weights with the old bias if neither fits. */
void qc_round_weights_bound(struct qc_round_weights_layer *l, unsigned bits);

/* Returns the constant of the Add after a MatMul; NULL: none. */
const struct qc_tensor *qc_round_weights_addend(const struct qc_uses *u, qc_id node);

/* Copies the node after a MatMul (qc_bias_after_matmul) with this bias: as the constant of an Add, or in a new Add
   after a Dequantize. */
bool qc_round_weights_copy_behind(struct qc_rebuild *b, const struct qc_uses *u, qc_id product, qc_id node,
                                  struct qc_tensor *bias, struct qc_status *st);

/* Estimates the multiply-adds of qc_round_weights_solve. */
double qc_round_weights_work(const struct qc_second_moments_layer *l);
/* Bytes that qc_round_weights_solve needs for a layer: shared by all workers, for each worker, and with one worker. */
size_t qc_round_weights_shared_bytes(const struct qc_second_moments_layer *l);
size_t qc_round_weights_worker_bytes(const struct qc_second_moments_layer *l);
size_t qc_round_weights_bytes(const struct qc_second_moments_layer *l);
