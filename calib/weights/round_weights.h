// SPDX-License-Identifier: Apache-2.0
/* The weights of a bound simulated graph, rounded with regard to the data: compensated rounding
   (calib/weights/compensate.h) and bias correction, from the second moments of each layer's inputs. The new graph has
   other constants and is the same otherwise: weights that lie on their grid, so that rounding to nearest gives the
   chosen integers, and biases that take up what rounding does to the mean of each output. A layer that has no bias gets
   one, if it is not zero as integers: a MatMul of two dimensions becomes a Gemm; one of more stays as it is, since ONNX
   has no such product with a bias. */
#pragma once

#include "base/pool.h"
#include "calib/moments/second_moments.h"
#include "graph/core/rebuild.h"
#include "graph/core/uses.h"

struct qc_rounded_layers;
struct qc_rounded_file;

struct qc_round_weights_options {
    bool compensate, correct_bias;
    bool add_ops;              /* an Add in float may be made for a bias that no op takes */
    unsigned accumulator_bits; /* 2 to 32; 0 is 32. A channel whose sums fit by proof (calib/weights/sum_bound.h) with
                                  nearest rounding and the old bias fits afterwards too */
    unsigned workers;
    size_t memory_limit; /* bytes; 0: none */
    size_t judged; /* 0: all outputs of a layer are rounded; else about so many, spread evenly, of which the errors are:
                      what is rounded then is of no use */
    size_t nodes;  /* 0: all of the graph; else the network is its first nodes, and others stand beside them */
    bool cross_all; /* layers of many levels can cross as well as those of few (qc_weight_rounder_can_cross) */
    struct qc_rounded_layers *known; /* layers that were solved before, and where others are kept; NULL: none */
    struct qc_rounded_file *file;    /* the same, by a job that was stopped */
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* What happened to one layer. Errors are mean squares over rows and outputs, of the layer's own output, from the
   rounding of its weights alone, on the samples held back (what remains after bias correction, if that is on). */
struct qc_rounded_weights {
    qc_id quantizer;         /* qparams of the weight; 0: not a layer */
    const char *name;        /* of those qparams; a copy */
    const char *reason;      /* why its weights were left at nearest; NULL otherwise */
    bool compensated;        /* some output's weights are not the nearest */
    bool held;               /* judged on samples held back; else there were too few, and it was judged on all */
    size_t outputs, nearest; /* nearest: outputs that stayed so */
    size_t bounded; /* outputs that are nearest, or whose bias is corrected in part, for accumulator_bits alone */
    size_t blocks;  /* of the moments; more than 1: products between blocks were left out */
    double error_nearest, error;
    bool bias_corrected;
    double bias_rms, bias_max; /* of what was added to the bias, real units */
};

struct qc_weight_rounding {
    struct qc_arena *arena;
    size_t count;
    struct qc_rounded_weights *layers; /* [count], in the order of the graph */
    unsigned workers;
    double seconds;
};

/* The op that a layer is with a bias: itself, or Gemm for a MatMul of two dimensions. MatMul: it can have none. */
enum qc_op qc_round_weights_biased_op(const struct qc_graph *g, const struct qc_node *n);

/* Where the correction of a MatMul that can have no bias goes: the Add of a constant behind it; with `make` its
   Dequantize, behind which an Add is made, where float ops alone read that. 0: nowhere. */
qc_id qc_bias_after_matmul(const struct qc_uses *u, qc_id node, bool make);

/* Layer by layer, for graphs that are bound bit by bit (calib/sequential/sequential.h). g and m are borrowed and
 * outlive it, as does the arena of g. */
struct qc_weight_rounder;
bool qc_weight_rounder_new(struct qc_weight_rounder **out, const struct qc_graph *g, const struct qc_second_moments *m,
                           const struct qc_round_weights_options *options, struct qc_status *st);
void qc_weight_rounder_free(struct qc_weight_rounder *r); /* NULL-safe */

/* Is node a layer that has no new constants yet, but will get some? And can it have them now, since its weight is
 * bound? */
bool qc_weight_rounder_expects(const struct qc_weight_rounder *r, qc_id node);
bool qc_weight_rounder_waits(const struct qc_weight_rounder *r, qc_id node);

/* Can its weights make good what the quantized network reads (calib/weights/crossed.h)? Not too wide, and of few bits;
   with options.cross_all others as well where the part `share` of all samples has many rows to a column. */
bool qc_weight_rounder_can_cross(const struct qc_weight_rounder *r, qc_id node, double share);

/* New constants of a layer. quantized: NULL, or means of what it reads in the quantized network, of the same positions
   as those of m (qc_second_moments_new_means): the bias then takes up all that the mean of the output is off by, W E[x]
   - Q E[x'], not the rounding of the weights alone, (W - Q) E[x]; or pairs (qc_second_moments_new_pairs), by which the
   weights do so too. Once for each layer. */
bool qc_weight_rounder_solve(struct qc_weight_rounder *r, qc_id node, const struct qc_second_moments *quantized,
                             struct qc_status *st);

/* What happened to a layer that was solved. Borrowed. */
const struct qc_rounded_weights *qc_weight_rounder_result(const struct qc_weight_rounder *r, qc_id node);

/* Copies a layer, or the node behind it that takes its bias, with its new constants; *copied is false, and nothing
 * done, where it has none. */
bool qc_weight_rounder_copy(bool *copied, struct qc_rebuild *b, const struct qc_weight_rounder *r, qc_id node,
                            struct qc_status *st);

/* Solves what waits, and makes the new graph. Layers that were solved one by one stay as they are. */
bool qc_weight_rounder_finish(struct qc_weight_rounding **out, struct qc_graph **graph, struct qc_weight_rounder *r,
                              struct qc_status *st);

/* g: simulated and bound, of which m was made. *out and *graph are owned by the caller. The result does not depend on
 * the number of workers. */
bool qc_round_weights(struct qc_weight_rounding **out, struct qc_graph **graph, const struct qc_graph *g,
                      const struct qc_second_moments *m, const struct qc_round_weights_options *options,
                      struct qc_status *st);
/* What one worker takes for the layer that needs most, beside new weights for all of them. */
size_t qc_round_weights_bytes_of_all(const struct qc_second_moments *m);
/* Multiply-adds of taking the moments of all layers, and of rounding by them. */
void qc_round_weights_work_of_all(double *taking, double *rounding, const struct qc_second_moments *m);
void qc_weight_rounding_free(struct qc_weight_rounding *r); /* NULL-safe */
