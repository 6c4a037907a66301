// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: layers of a simulated graph, parts of it that begin at a cut, and how these run over a block of
 * samples. */
#pragma once

#include "calib/metrics/scoring.h"
#include "calib/metrics/sensitivity.h"
#include "graph/core/uses.h"

struct qc_cut_layer {
    qc_id first; /* its first node */
    qc_id cut;   /* the node that the cut is in front of: the first that its quantizers change */
    size_t quantizer_count;
    const qc_id *quantizers; /* its own */
    bool has_weights;
};

struct qc_cut_layers {
    size_t count;
    struct qc_cut_layer *layers;    /* in the order of their cuts */
    qc_id *of_node;                 /* [node_count + 1]: layer + 1, or 0 */
    qc_id *next;                    /* [node_count + 1]: the node behind this one in its layer, or 0 */
    struct qc_uses uses;            /* of the graph */
    const struct qc_graph *rounded; /* the graph that has other constants for layers; NULL: none. With it: */
    struct qc_uses rounded_uses;
    qc_id *rounded_weights; /* [qparams_count + 1]: a quantized constant of it in this quantizer, or 0, ... */
    qc_id *next_weight;     /* [value_count + 1]: ... and another one in the same, or 0 */
};

/* Arrays from the arena. rounded: NULL, or g with new constants; it is to outlive *out, as g is. */
bool qc_cut_layers_find(struct qc_cut_layers *out, const struct qc_graph *g, const struct qc_graph *rounded,
                        struct qc_arena *a, struct qc_status *st);

/* Real values made in front of node `at` (or inputs) that the outputs need from there on; ascending. */
bool qc_cut_values(qc_id **values, size_t *count, const struct qc_graph *g, qc_id at, struct qc_arena *a,
                   struct qc_status *st);

/* A part of g: its inputs are those of g, then the given values that are not inputs of g. */
struct qc_cut_part {
    struct qc_graph *graph;
    size_t input_count;
    qc_id *inputs; /* [input_count]: values of g */
};

/* Which quantizers stay on, of a layer. */
enum qc_cut_quantizers { QC_CUT_ALL, QC_CUT_WEIGHTS };

/* Values that a part begins with; those that are known ([value_count + 1], NULL where they are not) are constants. */
struct qc_cut {
    size_t count;
    const qc_id *values;
    struct qc_tensor *const *known;
};

/* From values to other values, in float. */
bool qc_cut_between(struct qc_cut_part *out, const struct qc_graph *g, const struct qc_cut *from, size_t to_count,
                    const qc_id *to, struct qc_arena *a, struct qc_status *st);
/* From values to the outputs of g, with one layer quantized; its constants are those of the rounded graph where there
 * is one. */
bool qc_cut_behind(struct qc_cut_part *out, const struct qc_graph *g, const struct qc_cut *from,
                   const struct qc_cut_layers *all, size_t layer, enum qc_cut_quantizers which, struct qc_arena *a,
                   struct qc_status *st);

enum { QC_CUT_PLANS = 2 }; /* of a layer: one for each of enum qc_cut_quantizers */

/* What layers are measured on, a block of units after the other. */
struct qc_cut_run {
    const struct qc_graph *g;
    const struct qc_dataset *data;
    const struct qc_sensitivity_options *options;
    bool scored; /* for the metric, with scores; else outputs are compared, with errors */
    struct qc_scoring scoring;
    const size_t *order; /* of the units, where their sizes differ; else NULL */
    size_t first, end;   /* units at hand, in that order, all of one size */
    size_t units;        /* where a round ends */
    size_t block;        /* units that a block has at most */
    size_t begin, count; /* the block at hand */
    char **kept;         /* [value_count + 1]: [count][bytes] of a value, or NULL */
    size_t *bytes;       /* [value_count + 1]: of one unit */
    struct qc_shape
        *shapes; /* [value_count + 1]: of one unit of what is kept, as run: the graph may not know all of them */
    /* [value_count + 1]: what is kept and the same for all units of the block, as sizes of things are; else NULL */
    struct qc_tensor **known;
    char **wanted;           /* [output_count]: [count][elements] of the float network's outputs; NULL: not float32 */
    char *truth;             /* [count][qc_scoring_truth_bytes] */
    struct qc_error *errors; /* [QC_CUT_PLANS][block][output_count] */
    struct qc_score *scores; /* [block] */
};

/* What plans and a worker take beside the blocks, and a block for each unit: cuts[k] are cut_counts[k] values. */
bool qc_cut_run_bytes(size_t *runner, size_t *each, struct qc_cut_run *r, size_t cut_count, qc_id *const *cuts,
                      const size_t *cut_counts, struct qc_arena *a, struct qc_status *st);
/* Arrays for blocks as large as memory allows. Errors: as qc_sensitivity_measure. */
bool qc_cut_run_new(struct qc_cut_run *r, size_t cut_count, qc_id *const *cuts, const size_t *cut_counts,
                    struct qc_arena *a, struct qc_status *st);
void qc_cut_run_free(struct qc_cut_run *r);

struct qc_shape qc_cut_run_shape(const struct qc_cut_run *r, size_t input); /* in the units at hand */
/* A block of units: inputs, truth, and the outputs of the float network with their scores. */
bool qc_cut_run_begin(struct qc_cut_run *r, size_t begin, struct qc_arena *a, struct qc_status *st);
/* The values of the next cut from those of this one; what it does not need is let go. */
bool qc_cut_run_advance(struct qc_cut_run *r, size_t from_count, const qc_id *from, size_t count, const qc_id *cut,
                        struct qc_arena *a, struct qc_status *st);
/* Fills errors and scores with what one layer does, quantized in the ways first .. last. */
bool qc_cut_run_layer(struct qc_cut_run *r, const struct qc_cut_layers *layers, size_t i, size_t count,
                      const qc_id *cut, enum qc_cut_quantizers first, enum qc_cut_quantizers last, struct qc_arena *a,
                      struct qc_status *st);
