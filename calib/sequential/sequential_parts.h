// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: the state of sequential calibration. */
#pragma once

#include "calib/sequential/activation_cache.h"
#include "calib/sequential/sequential.h"
#include "graph/core/rebuild.h"
#include "graph/core/uses.h"

struct qc_propagation {
    const struct qc_sequential_options *options;
    struct qc_graph *g;
    struct qc_uses uses; /* of g */
    const struct qc_dataset *data;
    struct qc_arena *arena;
    struct qc_collection *seen;
    struct qc_chooser *chooser;
    const qc_id *floats; /* [value_count + 1]: NULL, or the float form of a layer's input in the graph; 0: none */
    struct qc_second_moments *means; /* NULL: biases stay, or absorb only the rounding of their weights */
    struct qc_activation_cache *frontier;
    struct qc_channel_locks *locks; /* NULL: no statistics of channels */
    const struct qc_shape *shapes;  /* of the graph's inputs */
    struct qc_rebuild_room room;    /* for the graphs of parts */
    size_t units;
    const size_t *drawn;         /* [units]: units of the data set; NULL: all, in order */
    uint64_t *keys;              /* [units] */
    unsigned workers;            /* upper limit */
    size_t *watch;               /* [value_count + 1]: index in `seen` + 1 */
    struct qc_collect_cost cost; /* maxima over all runs */
    size_t done, total;          /* units, for progress */
};

/* A value observed in a run. */
struct qc_segment_observed {
    qc_id value;
    bool scan;    /* collect it for a quantizer */
    bool means;   /* collect it for the layers that read it (qc_segment.layers) */
    bool paired;  /* some of them need it together with its float form */
    qc_id beside; /* 0, or the value whose float form this is */
    qc_id keep;   /* 0, or the value to keep: this one, or the real value that this one quantizes */
};

/* Ids of nodes or values. */
struct qc_id_set {
    bool *has; /* by id */
    size_t count;
    qc_id *of; /* [count] */
};

/* One run of a part of the graph over all units. */
struct qc_segment {
    struct qc_id_set nodes;  /* computed; ascending */
    struct qc_id_set inputs; /* values read: kept values, and inputs of the graph; ascending */
    struct qc_id_set leaves; /* kept values whose present form is dropped afterwards */
    struct qc_id_set layers; /* layers whose moments are collected; ascending */
    size_t observed_count;
    struct qc_segment_observed *observed;
    bool counts; /* the run counts for progress */
};

/* Runs the part; then values are kept as requested. */
bool qc_segment_run(struct qc_propagation *p, const struct qc_segment *part, struct qc_status *st);
