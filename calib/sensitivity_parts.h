// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: layers of a simulated graph, and parts of it that begin at a cut. */
#ifndef QC_CALIB_SENSITIVITY_PARTS_H
#define QC_CALIB_SENSITIVITY_PARTS_H

#include "calib/sensitivity.h"

struct qc_cut_layer {
    qc_id first;        /* its first node */
    qc_id cut;          /* the node that the cut is in front of: the first that its sites change */
    size_t site_count;
    const qc_id *sites; /* its own */
    bool has_weights;
};

struct qc_cut_layers {
    size_t count;
    struct qc_cut_layer *layers; /* in the order of their cuts */
    qc_id *of_node;              /* [node_count + 1]: layer + 1, or 0 */
};

/* Arrays from the arena. */
bool qc_cut_layers_find(struct qc_cut_layers *out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Real values made in front of node `at` (or inputs) that the outputs need from there on; ascending. */
bool qc_cut_values(qc_id **values, size_t *count, const struct qc_graph *g, qc_id at, struct qc_arena *a, struct qc_status *st);

/* A part of g: its inputs are those of g, then the given values that are not inputs of g. */
struct qc_cut_part {
    struct qc_graph *graph;
    size_t input_count;
    qc_id *inputs; /* [input_count]: values of g */
};

/* Which sites stay on, of a layer. */
enum qc_cut_sites { QC_CUT_ALL, QC_CUT_WEIGHTS };

/* From values to other values, in float. */
bool qc_cut_between(struct qc_cut_part *out, const struct qc_graph *g, size_t from_count, const qc_id *from, size_t to_count, const qc_id *to, struct qc_arena *a,
                    struct qc_status *st);
/* From values to the outputs of g, with one layer quantized; its constants are those of `reweighed` where that is given. */
bool qc_cut_behind(struct qc_cut_part *out, const struct qc_graph *g, const struct qc_graph *reweighed, size_t from_count, const qc_id *from,
                   const struct qc_cut_layers *all, size_t layer, enum qc_cut_sites which, struct qc_arena *a, struct qc_status *st);

#endif
