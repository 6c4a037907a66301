// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: what qc_calibrate_sequentially is made of. */
#pragma once

#include "calib/sequential/activation_cache.h"
#include "calib/sequential/sequential.h"
#include "graph/core/uses.h"

struct qc_propagation {
    const struct qc_sequential_options *options;
    struct qc_graph *g;
    struct qc_uses uses; /* of g */
    const struct qc_dataset *data;
    struct qc_arena *arena;
    struct qc_collection *seen;
    struct qc_chooser *chooser;
    const qc_id *floats; /* [value_count + 1]: NULL, or where the graph has the float form of a value that layers read;
                            0: nowhere */
    struct qc_second_moments *means; /* NULL: biases are left alone, or take up the rounding of their weights only */
    struct qc_activation_cache *frontier;
    struct qc_channel_locks *locks; /* NULL: no statistics of channels */
    const struct qc_shape *shapes;  /* of the graph's inputs */
    size_t units;
    const size_t *drawn;         /* [units]: of the data set; NULL: all of it, in order */
    uint64_t *keys;              /* [units] */
    unsigned workers;            /* at most */
    size_t *watch;               /* [value_count + 1]: place in `seen` + 1 */
    struct qc_collect_cost cost; /* the largest of all runs */
    size_t done, total;          /* for progress */
};

/* What is looked at in a run. */
struct qc_segment_observed {
    qc_id value;
    bool scan;    /* a quantizer's value */
    bool means;   /* layers read it: those of qc_segment.layers */
    bool paired;  /* of some of them beside its float form */
    qc_id beside; /* 0, or it is the float form of this value, of which means are taken */
    qc_id keep;   /* 0, or what is kept of it: the value itself, or the real one that it is the quantized form of */
};

/* One run of a part of the graph over all units. Arrays by id of the graph. */
struct qc_segment {
    bool *nodes;  /* [node_count + 1]: what is computed */
    bool *inputs; /* [value_count + 1]: what is read: kept values, and inputs of the graph */
    bool *leaves; /* [value_count + 1]: kept values that are not kept on in their present form */
    bool *layers; /* [node_count + 1]: whose means are taken */
    size_t observed_count;
    struct qc_segment_observed *observed;
    bool counts; /* for progress */
};

/* Runs it; kept values are as asked for afterwards. */
bool qc_segment_run(struct qc_propagation *p, const struct qc_segment *part, struct qc_status *st);
