// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: the state of sequential calibration. */
#pragma once

#include "calib/sequential/sequential.h"
#include "graph/core/graph.h"
#include "graph/core/rebuild.h"
#include "graph/core/uses.h"
#include "simq/core/view.h"

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

/* Inside calib/: values of a simulated graph for every unit of data, kept between runs of its parts. Quantized values
   are kept as the integers or the floats of few bits that they are, which is exact, others in float32. Values are in
   memory or in a temporary file. */

struct qc_activation_cache;

/* The form in which a value is kept. */
struct qc_kept_form {
    /* Bound qparams of the kept integers: of the value, or of the Quantize of a real value; QC_REAL: float32. */
    qc_id qparams;
    struct qc_shape shape;
    enum qc_layout layout; /* order of the elements */
};

/* Makes an empty cache. reuse: freed memory is reused, which saves the system from mapping pages again. Beyond `most`
   bytes, values then go to a temporary file (base/file_map.h) while it has room. */
bool qc_activation_cache_new(struct qc_activation_cache **out, const struct qc_graph *g, size_t units, bool reuse,
                             size_t most, struct qc_status *st);
void qc_activation_cache_free(struct qc_activation_cache *f); /* NULL-safe */

/* Prepares a new value, or another form of a kept one; until qc_activation_cache_commit reading gives the old form.
   spilled: to a file in `folder` (base/file_map.h). The first unit decides shape and layout. */
bool qc_activation_cache_prepare(struct qc_activation_cache *f, qc_id value, qc_id qparams, bool spilled,
                                 const char *folder, struct qc_status *st);

/* Keeps a unit of a prepared value: the value itself for float32, the centred integers of `qparams` otherwise. Thread
   safe; each unit once. */
bool qc_activation_cache_put(struct qc_activation_cache *f, qc_id value, size_t unit, const struct qc_view *v,
                             struct qc_status *st);
void qc_activation_cache_commit(struct qc_activation_cache *f, qc_id value);
void qc_activation_cache_drop(struct qc_activation_cache *f, qc_id value);

bool qc_activation_cache_has(const struct qc_activation_cache *f, qc_id value);
const struct qc_kept_form *qc_activation_cache_form(const struct qc_activation_cache *f, qc_id value);

/* Reads the real value of a unit, in the order of its form. last: frees the unit's memory; it must not be read again in
   this form. */
bool qc_activation_cache_get(float *out, struct qc_activation_cache *f, qc_id value, size_t unit, bool last,
                             struct qc_status *st);

/* Returns the bytes of a unit of `elements` numbers in a form. */
size_t qc_activation_cache_bytes(const struct qc_graph *g, qc_id qparams, size_t elements);
