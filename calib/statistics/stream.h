// SPDX-License-Identifier: Apache-2.0
/* Runs samples through plans: each worker holds one unit of data at a time. */
#pragma once

#include "base/pool.h"
#include "calib/statistics/overflow.h"
#include "datasets/samples/dataset.h"

enum { QC_STREAM_PLANS = 4 };

/* The position of a callback. */
struct qc_unit {
    size_t unit, plan;
    uint64_t sample; /* number in the file of the unit's first sample */
    unsigned worker;
    uint64_t key; /* if keyed: a hash of the bytes of the unit's inputs; a choice by key does not depend on the order of
                     samples */
};

/* How runs over data use the machine. */
struct qc_run_options {
    unsigned workers;    /* upper limit */
    size_t memory_limit; /* bytes; 0: none */
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* Called for an observed value of a plan (qc_observe_fn), and at the end of a unit, when all plans have run. Either may
   be NULL. */
typedef bool qc_stream_observe_fn(void *user, const struct qc_unit *at, size_t index, const struct qc_view *v,
                                  struct qc_status *st);
typedef bool qc_stream_unit_fn(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                               struct qc_dataset_scratch *scratch, struct qc_status *st);

struct qc_stream {
    const struct qc_dataset *data;
    size_t input_count; /* of the graph */
    size_t plan_count;
    const struct qc_plan *plans[QC_STREAM_PLANS]; /* each has the inputs of the data set, in order */
    const size_t *units;                          /* the units to run, ascending; NULL: all of the data set */
    size_t unit_count;
    struct qc_overflows *overflows[QC_STREAM_PLANS]; /* NULL, or overflows of the plan, added to after the run */
    unsigned workers;
    bool keyed;     /* compute the keys of units */
    uint64_t *keys; /* with keyed: NULL, or [units of the data set]: receives the key of each unit that runs */
    /* NULL, or returns true to skip plan at->plan for the unit; with keyed not called for plan 0, which computes the
       key. */
    bool (*skips)(void *user, const struct qc_unit *at);
    /* The plans from number `apart` on share one buffer for each worker: the values of a plan are valid until the next
       one runs, for `ran`. */
    bool share_buffer;
    size_t apart;
    qc_stream_unit_fn *ran; /* NULL, or called after each plan at->plan of a unit */
    bool in_order;          /* keep the order of units by and large, even if their sizes differ */
    qc_stream_observe_fn *observe;
    qc_stream_unit_fn *unit;
    void *user;
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* Runs the units. Units of different sizes are sorted: equal sizes together, the largest first. The first failing unit
   decides the error, which names file and sample. */
bool qc_stream_run(const struct qc_stream *s, struct qc_status *st);

/* Returns the bytes that the runners of one worker need. */
size_t qc_stream_runner_bytes(const struct qc_stream *s);

/* Returns the input specifications of a graph for qc_dataset_open, in the arena. Fails (NULL) with QC_UNSUPPORTED if an
   input has no shape. */
struct qc_input_spec *qc_stream_specs(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);
/* Scale and zero point of inputs of 8 or 16 bits that only dequantizers with one constant scale read, all with the
   same; nodes that move elements may stand between. Part of qc_stream_specs. (input_levels.c) */
bool qc_stream_levels(struct qc_input_spec *specs, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Inputs of a decoder that can be made from its tokens: a cache of keys or values to which a Concat appends, and beside
   one `attention_mask` and `position_ids`. Free dimensions of a cache but batch and length become those of what is
   appended. Part of qc_stream_specs. (past_inputs.c) */
bool qc_stream_past(struct qc_input_spec *specs, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Returns the shapes of the graph's inputs over all units; dimensions that differ between samples are free. */
struct qc_shape *qc_stream_shapes(const struct qc_graph *g, const struct qc_dataset *data, struct qc_arena *a,
                                  struct qc_status *st);

/* Makes a plan of g for the units of a data set: qc_plan_new with those shapes, planned for the largest samples. Fails
   as qc_plan_new does, naming the sample if sizes differ. */
bool qc_stream_plan(struct qc_plan **out, const struct qc_graph *g, const struct qc_dataset *data,
                    const struct qc_plan_options *options, struct qc_status *st);

/* Sets the shapes of one unit in a runner of such a plan, before its inputs are filled. */
bool qc_stream_unit_shapes(struct qc_runner *r, const struct qc_dataset *data, size_t input_count, size_t unit,
                           struct qc_status *st);

/* Fails with QC_UNSUPPORTED if samples differ in size; `who` needs them equal. Call before anything runs. */
bool qc_stream_one_size(const struct qc_dataset *data, const char *who, struct qc_status *st);

/* Computes the number of workers, at most `wanted`, such that fixed + workers * each <= limit (0: the memory of the
   machine). fixed: bytes the process holds already (qc_stream_held_bytes: program, weights, plans, merged statistics).
   each: bytes a worker will add. Fails with QC_MACHINE, naming the bytes needed, if not even one worker fits. */
bool qc_stream_workers(unsigned *workers, unsigned wanted, size_t limit, size_t fixed, size_t each,
                       struct qc_status *st);

/* Returns the bytes for reading ahead beside one worker (fixed and each as above). If they exceed the limit, fewer
   units are read ahead from then on. Results do not depend on it. */
size_t qc_stream_ahead(const struct qc_dataset *data, size_t limit, size_t fixed, size_t each);

/* Both together for a run over data, beside what the process holds. */
bool qc_stream_fit(unsigned *workers, const struct qc_run_options *o, const struct qc_dataset *data, size_t each,
                   struct qc_status *st);

/* Returns the bytes that the process holds, plus a reserve for code first touched during the run and for buffers of
   files. limit: bytes, 0: none. Without a limit and with plenty of memory left, freed memory that the allocator keeps
   counts as held. */
enum { QC_STREAM_RESERVE = 8 << 20 };
size_t qc_stream_held_bytes(size_t limit);

/* Extends the key of a unit (struct qc_unit) by bytes; the first key is 0. */
uint64_t qc_stream_key(uint64_t key, const void *bytes, size_t size);
