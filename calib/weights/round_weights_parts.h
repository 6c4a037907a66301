// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: one layer on its way through compensated rounding and bias correction. */
#pragma once

#include "calib/weights/round_weights.h"
#include "graph/core/scale_layout.h"

struct qc_round_weights_output;

struct qc_round_weights_layer {
    const struct qc_graph *g;
    const struct qc_uses *uses; /* of g */
    qc_id node;
    const struct qc_second_moments_layer *moments;
    const struct qc_second_moments_layer
        *quantized; /* NULL, or means - or pairs - of what the layer reads in the quantized network */
    const struct qc_tensor *weight, *bias; /* bias: NULL when the op has none */
    const struct qc_qparams *qparams;      /* of the weight */
    struct qc_scale_layout scales;         /* of its elements */
    const struct qc_qparams *input;        /* of what it is multiplied with */
    unsigned at;                           /* the weight is input number `at` of the node */
    bool recurrent;                        /* W or R of an RNN, GRU or LSTM: a row of it is an output */
    size_t fitted;    /* so many outputs of a group are compensated, all but those whose input has no moments */
    bool correctable; /* the op can take a bias, or one can be added behind it: */
    qc_id behind;     /* qc_bias_after_matmul, where the op itself takes none; else 0 */
    struct qc_rounded_weights *result;
    struct qc_tensor *rounded;            /* like weight; owned; NULL until it is solved */
    float *new_weight;                    /* its numbers, while it is solved */
    float *new_scale;                     /* [scales.count]: NULL, or what those of its blocks become; owned */
    struct qc_round_weights_output *made; /* [outputs]; owned */
};

/* What was chosen for one output, and what nearest rounding is beside it. */
struct qc_round_weights_output {
    bool moved;                  /* its weights are not the nearest */
    float scale;                 /* of its weights, where it is another than that of the quantizer; else 0 */
    double shift, nearest_shift; /* to be added to the bias, real units */
    double error, nearest_error; /* mean square over rows */
};

/* Element of the weight tensor for an output and a column of its group (calib/moments/second_moments.h). */
size_t qc_round_weights_element(const struct qc_round_weights_layer *l, size_t output, size_t column);
/* How far apart the elements of an output and the next one of its group are, of the same column. */
size_t qc_round_weights_step(const struct qc_round_weights_layer *l);

/* Are there enough samples held back to judge by them? */
bool qc_round_weights_holds(const struct qc_second_moments_layer *l);

/* Second moments h [w][w] with mean m about `centre`: E[x x'] - centre m' - m centre' + centre centre'. */
void qc_round_weights_centre(double *h, const double *m, const double *centre, size_t w);

/* What rounding of the input adds to each second moment about zero: a twelfth of a step squared, which the float
 * statistics do not show. */
double qc_round_weights_input_noise(const struct qc_qparams *input, size_t group);

/* So many rows to a column tell what a layer of many levels is to make good; with fewer it is luck. */
enum { QC_CROSSED_ROWS = 16 };

/* Has it moments from which qc_crossed_read could be told, and few levels, or with `all` many rows in that share of the
 * samples? */
bool qc_round_weights_can_cross(const struct qc_round_weights_layer *l, bool all, double share);

/* *pays becomes false where the error of the nearest weights is nothing beside what rounding of the input adds; where
 * it is false it stays so. */
bool qc_round_weights_pays(bool *pays, const struct qc_round_weights_layer *l, struct qc_status *st);

/* Rounds one layer: fills new_weight and shift and what there is to say in *result. The result does not depend on the
 * number of workers. */
bool qc_round_weights_solve(struct qc_round_weights_layer *l, const struct qc_round_weights_options *options,
                            unsigned workers, struct qc_status *st);

/* Takes back what an accumulator of so many bits may not hold: of the compensated and the nearest weights, each with as
   much of the bias correction as fits, the better ones are left, and nearest ones with the old bias where neither fits.
 */
void qc_round_weights_bound(struct qc_round_weights_layer *l, unsigned bits);

/* The constant of the Add behind a MatMul; NULL: there is none. */
const struct qc_tensor *qc_round_weights_addend(const struct qc_uses *u, qc_id node);

/* Copies the node behind a MatMul (qc_bias_after_matmul) with this bias: an Add gets it as its constant, a Dequantize
 * an Add behind it. */
bool qc_round_weights_copy_behind(struct qc_rebuild *b, const struct qc_uses *u, qc_id product, qc_id node,
                                  struct qc_tensor *bias, struct qc_status *st);

/* The same with the bias of a layer that is corrected. */
bool qc_round_weights_shift_behind(struct qc_rebuild *b, const struct qc_round_weights_layer *l, struct qc_status *st);

/* A weight of a recurrent node as a layer; false: it is none. u, moments and result are borrowed. */
bool qc_round_weights_recurrent(struct qc_round_weights_layer *l, const struct qc_uses *u, qc_id node,
                                enum qc_second_moments_recurrent which, const struct qc_second_moments *moments,
                                struct qc_rounded_weights *result);
/* Copies a recurrent node of g with those of its weights that are not NULL. */
bool qc_round_weights_copy_recurrent(struct qc_rebuild *b, const struct qc_graph *g, qc_id node,
                                     const struct qc_round_weights_layer *const of[QC_MOMENTS_RECURRENT],
                                     struct qc_status *st);

/* Multiply-adds that qc_round_weights_solve takes, about. */
double qc_round_weights_work(const struct qc_second_moments_layer *l);
/* Bytes that qc_round_weights_solve takes for a layer: for all workers, for each, and with one worker. */
size_t qc_round_weights_shared_bytes(const struct qc_second_moments_layer *l);
size_t qc_round_weights_worker_bytes(const struct qc_second_moments_layer *l);
size_t qc_round_weights_bytes(const struct qc_second_moments_layer *l);
