// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: layers of a simulated graph, parts of it that begin at a cut, and runs of these over a block of
   samples. */
#pragma once

#include "calib/metrics/accuracy.h"
#include "calib/metrics/sensitivity.h"
#include "graph/core/uses.h"

struct qc_cut_layer {
    qc_id first; /* its first node */
    qc_id cut;   /* the cut is before this node, the first that its quantizers affect */
    size_t quantizer_count;
    const qc_id *quantizers; /* of this layer */
    bool has_weights;
};

struct qc_cut_layers {
    size_t count;
    struct qc_cut_layer *layers;    /* in the order of their cuts */
    qc_id *of_node;                 /* [node_count + 1]: layer + 1, or 0 */
    qc_id *next;                    /* [node_count + 1]: the next node of the same layer, or 0 */
    struct qc_uses uses;            /* of the graph */
    const struct qc_graph *rounded; /* graph with other constants for layers, or NULL; then with: */
    struct qc_uses rounded_uses;
    qc_id *rounded_weights; /* [qparams_count + 1]: a quantized constant of it in this quantizer, or 0 */
    qc_id *next_weight;     /* [value_count + 1]: the next one in the same quantizer, or 0 */
};

/* Finds the layers; arrays from the arena. rounded: NULL, or g with new constants. g and rounded must outlive *out.
   Fails if memory is out. */
bool qc_cut_layers_find(struct qc_cut_layers *out, const struct qc_graph *g, const struct qc_graph *rounded,
                        struct qc_arena *a, struct qc_status *st);

/* Lists the real values (or inputs) from before node `at` that the outputs need from there on; ascending. */
bool qc_cut_values(qc_id **values, size_t *count, const struct qc_graph *g, qc_id at, struct qc_arena *a,
                   struct qc_status *st);

/* A part of g. Its inputs are those of g, then the given values that are not inputs of g. */
struct qc_cut_part {
    struct qc_graph *graph;
    size_t input_count;
    qc_id *inputs; /* [input_count]: values of g */
};

/* Quantizers of a layer that stay on. */
enum qc_cut_quantizers { QC_CUT_ALL, QC_CUT_WEIGHTS };

/* Values that a part begins with. A known value ([value_count + 1], NULL if unknown) becomes a constant. */
struct qc_cut {
    size_t count;
    const qc_id *values;
    struct qc_tensor *const *known;
};

/* Makes the part from values to other values, in float. */
bool qc_cut_between(struct qc_cut_part *out, const struct qc_graph *g, const struct qc_cut *from, size_t to_count,
                    const qc_id *to, struct qc_arena *a, struct qc_status *st);
/* Makes the part from values to the outputs of g, with one layer quantized; the layer has the constants of the rounded
   graph, if there is one. */
bool qc_cut_behind(struct qc_cut_part *out, const struct qc_graph *g, const struct qc_cut *from,
                   const struct qc_cut_layers *all, size_t layer, enum qc_cut_quantizers which, struct qc_arena *a,
                   struct qc_status *st);

/* Makes the whole of g with one layer quantized, as above, without the quantizers of other layers. */
bool qc_cut_alone(struct qc_graph **out, const struct qc_graph *g, const struct qc_cut_layers *all, size_t layer,
                  struct qc_arena *a, struct qc_status *st);

enum { QC_CUT_PLANS = 2 }; /* of a layer: one for each enum qc_cut_quantizers */

/* A run over the units, block after block. */
struct qc_cut_run {
    struct qc_arena *arena; /* of the arrays for the current units */
    const struct qc_graph *g;
    const struct qc_dataset *data;
    const struct qc_sensitivity_options *options;
    bool scored; /* outputs are scored with the metric; else compared, with errors */
    struct qc_scoring scoring;
    const size_t *order; /* of the units, if their sizes differ; else NULL */
    size_t first, end;   /* current units in that order, all of one size */
    size_t units;        /* end of a round */
    size_t block;        /* most units of a block */
    size_t begin, count; /* the current block */
    char **kept;         /* [value_count + 1]: [count][bytes] of a kept value, or NULL */
    size_t *bytes;       /* [value_count + 1]: bytes of one unit */
    struct qc_shape
        *shapes; /* [value_count + 1]: of one unit of a kept value, from a run: the graph may not know all of them */
    /* [value_count + 1]: kept values that are the same for all units of the block, such as shapes; else NULL */
    struct qc_tensor **known;
    char **wanted; /* [output_count]: [count][elements] of the float network's outputs; NULL: not float32 */
    char *truth;   /* [count][qc_scoring_truth_bytes] */
    struct qc_output_parts parts; /* of the outputs */
    struct qc_error *errors;      /* [QC_CUT_PLANS][block][parts.count] */
    struct qc_score *scores;      /* [block] */
};

/* Computes the bytes of plans and one worker besides the blocks, and of a block for each unit. cuts[k] has
   cut_counts[k] values. */
bool qc_cut_run_bytes(size_t *runner, size_t *each, struct qc_cut_run *r, size_t cut_count, qc_id *const *cuts,
                      const size_t *cut_counts, struct qc_arena *a, struct qc_status *st);
/* Allocates arrays for blocks as large as memory allows. Fails as qc_sensitivity_measure. */
bool qc_cut_run_new(struct qc_cut_run *r, size_t cut_count, qc_id *const *cuts, const size_t *cut_counts,
                    struct qc_arena *a, struct qc_status *st);
void qc_cut_run_free(struct qc_cut_run *r);

struct qc_shape qc_cut_run_shape(const struct qc_cut_run *r, size_t input); /* of the current units */
/* Begins a block of units: reads inputs and truth, and computes the outputs of the float network and their scores. */
bool qc_cut_run_begin(struct qc_cut_run *r, size_t begin, struct qc_arena *a, struct qc_status *st);
/* Computes the values of the next cut from those of this one, and frees those it does not need. */
bool qc_cut_run_advance(struct qc_cut_run *r, size_t from_count, const qc_id *from, size_t count, const qc_id *cut,
                        struct qc_arena *a, struct qc_status *st);
/* Fills in errors and scores of one layer, quantized in the ways first .. last. */
bool qc_cut_run_layer(struct qc_cut_run *r, const struct qc_cut_layers *layers, size_t i, const struct qc_cut *begin,
                      enum qc_cut_quantizers first, enum qc_cut_quantizers last, struct qc_arena *a,
                      struct qc_status *st);
