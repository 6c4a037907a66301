// SPDX-License-Identifier: Apache-2.0
/* Samples through plans: one unit of data per worker at a time, never more in memory. */
#pragma once

#include "base/pool.h"
#include "calib/statistics/overflow.h"
#include "datasets/samples/dataset.h"

enum { QC_STREAM_PLANS = 4 };

/* What a callback knows of where it is. */
struct qc_unit {
    size_t unit, plan;
    uint64_t sample; /* number in the file of the unit's first sample */
    unsigned worker;
    uint64_t key; /* where it is asked for, a hash of the bytes of the unit's inputs: what is drawn by it does not
                     depend on the order of samples */
};

/* An observed value of one plan (qc_observe_fn), and the end of a unit: all plans have run on it. Either may be NULL.
 */
typedef bool qc_stream_observe_fn(void *user, const struct qc_unit *at, size_t index, const struct qc_view *v,
                                  struct qc_status *st);
typedef bool qc_stream_unit_fn(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                               struct qc_dataset_scratch *scratch, struct qc_status *st);

struct qc_stream {
    const struct qc_dataset *data;
    size_t input_count; /* of the graph */
    size_t plan_count;
    const struct qc_plan *plans[QC_STREAM_PLANS]; /* each takes the inputs of the data set, in order */
    const size_t *units;                          /* the units to run, ascending; NULL: all of the data set */
    size_t unit_count;
    struct qc_overflows *overflows[QC_STREAM_PLANS]; /* NULL, or of the plan: added to behind the run */
    unsigned workers;
    bool keyed;     /* whether units have a key */
    uint64_t *keys; /* with keyed: NULL, or [units of the data set]: the key of each that is run */
    /* NULL, or whether plan at->plan has nothing to do for the unit; not of the first where units have keys, which are
       known then. */
    bool (*skips)(void *user, const struct qc_unit *at);
    /* Plans but the first `apart` have their values in one buffer for each worker: what one has made is there until the
       next one runs, for `ran`. */
    bool share_buffer;
    size_t apart;
    qc_stream_unit_fn *ran; /* NULL, or called when at->plan has run on a unit */
    bool in_order;          /* units run more or less as they come, whatever their sizes: for who wants them so */
    qc_stream_observe_fn *observe;
    qc_stream_unit_fn *unit;
    void *user;
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* Runs the units; those of one size after each other where they differ, the largest first. The first failing unit
   decides the error, which names file and sample. */
bool qc_stream_run(const struct qc_stream *s, struct qc_status *st);

/* What the runners of one worker take. */
size_t qc_stream_runner_bytes(const struct qc_stream *s);

/* Input specifications of a graph for qc_dataset_open; arrays from the arena. */
struct qc_input_spec *qc_stream_specs(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);
/* Scale and zero point of inputs of 8 or 16 bits that only dequantizers with one constant scale read, all with the
   same; nodes that move elements may stand between. Part of qc_stream_specs. (input_levels.c) */
bool qc_stream_levels(struct qc_input_spec *specs, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Shapes of the graph's inputs for the units of a data set; free where samples differ. */
struct qc_shape *qc_stream_shapes(const struct qc_graph *g, const struct qc_dataset *data, struct qc_arena *a,
                                  struct qc_status *st);

/* A plan of g for the units of a data set: qc_plan_new with those shapes, planned for the largest samples there are.
   Errors: of qc_plan_new, naming the sample where they differ. */
bool qc_stream_plan(struct qc_plan **out, const struct qc_graph *g, const struct qc_dataset *data,
                    const struct qc_plan_options *options, struct qc_status *st);

/* Says the shapes of one unit to a runner of such a plan, before its inputs are filled. */
bool qc_stream_unit_shapes(struct qc_runner *r, const struct qc_dataset *data, size_t input_count, size_t unit,
                           struct qc_status *st);

/* Whoever needs samples of one size (`who`) says so before anything runs: QC_UNSUPPORTED where they differ. */
bool qc_stream_one_size(const struct qc_dataset *data, const char *who, struct qc_status *st);

/* Workers that fit: at most `wanted`, such that fixed + workers * each <= limit (0: what the machine has). fixed is
   what the process has already (qc_stream_held_bytes: program, weights, plans, merged statistics), each what a worker
   will add. With a limit that not even one worker fits: QC_MACHINE, saying how much is needed. */
bool qc_stream_workers(unsigned *workers, unsigned wanted, size_t limit, size_t fixed, size_t each,
                       struct qc_status *st);

/* Bytes that reading ahead takes beside one worker (fixed and each as above): where they do not fit into the limit,
   fewer units are read ahead from now on. Results do not depend on it. */
size_t qc_stream_ahead(const struct qc_dataset *data, size_t limit, size_t fixed, size_t each);

/* The two together for a run over data, beside what the process holds now. */
bool qc_stream_fit(unsigned *workers, unsigned wanted, size_t limit, const struct qc_dataset *data, size_t each,
                   struct qc_status *st);

/* What the process holds now, with a reserve for code that is first touched while it runs (libraries count as they are
   used), and for the buffers of files: behind a run some of it is held, and the next one wants it again. limit: bytes,
   0: none; then memory that was freed is held, too, while the machine has plenty. */
enum { QC_STREAM_RESERVE = 8 << 20 };
size_t qc_stream_held_bytes(size_t limit);

/* Adds bytes to the key of a unit (struct qc_unit), which begins with 0. */
uint64_t qc_stream_key(uint64_t key, const void *bytes, size_t size);
