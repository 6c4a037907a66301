// SPDX-License-Identifier: Apache-2.0
/* Runs samples through plans: each worker holds one unit of data at a time. */
#pragma once

#include "calib/settings.h"
#include "datasets/samples/dataset.h"
#include "simq/plan/plan.h"

enum { QC_STREAM_PLANS = 4 };

/* The position of a callback. */
struct qc_unit {
    size_t unit, plan;
    uint64_t sample; /* number in the file of the unit's first sample */
    unsigned worker;
    uint64_t key; /* if keyed: a hash of the bytes of the unit's inputs; a choice by key does not depend on the order of
                     samples */
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
    /* NULL, or returns whether `ran` or `unit` reads outputs of plan at->plan for the unit (else qc_runner_observe). */
    bool (*reads_outputs)(void *user, const struct qc_unit *at);
    /* The plans from number `apart` on share one buffer for each worker: the values of a plan are valid until the next
       one runs, for `ran`. */
    bool share_buffer;
    size_t apart;
    qc_stream_unit_fn *ran; /* NULL, or called after each plan at->plan of a unit */
    /* Plans before number `fed` read the states that they returned for the unit before, and the units of a sequence run
       in order, in one worker. Other plans read those of the data set. */
    size_t fed;
    bool in_order; /* keep the order of units by and large, even if their sizes differ */
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

/* Returns the shapes of the graph's inputs over all units; dimensions that differ between samples are free. */
struct qc_shape *qc_stream_shapes(const struct qc_graph *g, const struct qc_dataset *data, struct qc_arena *a,
                                  struct qc_status *st);

/* The largest sample of a data set, by elements of all inputs, then by dimensions: so it does not depend on their
   order. sizes: the elements, then the dimensions of each input. */
struct qc_largest_sample {
    size_t count; /* 0: the graph has no free dimension but the batch, or the data are not known */
    int64_t *sizes;
};

bool qc_stream_largest(struct qc_largest_sample *out, const struct qc_graph *g, const struct qc_dataset *data,
                       struct qc_arena *a, struct qc_status *st);
/* Sets shapes[g->input_count] to those of the sample. Returns false if it is not known or of other inputs. */
bool qc_largest_shapes(struct qc_shape *shapes, const struct qc_largest_sample *s, const struct qc_graph *g);

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
bool qc_stream_fit(unsigned *workers, const struct qc_settings *o, const struct qc_dataset *data, size_t each,
                   struct qc_status *st);

/* Returns the bytes that the process holds, plus a reserve for code first touched during the run and for buffers of
   files. limit: bytes, 0: none. Without a limit and with plenty of memory left, freed memory that the allocator keeps
   counts as held. */
enum { QC_STREAM_RESERVE = 8 << 20 };
size_t qc_stream_held_bytes(size_t limit);

/* Extends the key of a unit (struct qc_unit) by bytes; the first key is 0. */
uint64_t qc_stream_key(uint64_t key, const void *bytes, size_t size);

/* Overflow of narrow accumulators over a whole data set: integers, so the same for any number of workers. */

/* One multiply-accumulate node whose accumulator can overflow, judged by its weights and levels. */
struct qc_layer_overflow {
    qc_id node;       /* of the graph that was run */
    const char *name; /* of the node, or of its result */
    unsigned bits;    /* least bits that hold every sum seen; 0 before a run */
    struct qc_sums sums;
};

struct qc_overflows {
    size_t count;
    struct qc_layer_overflow *layers; /* in the order of the plan */
};

/* Makes an empty list for a plan of graph g, in the arena. Fails if memory is out. */
bool qc_overflows_new(struct qc_overflows *out, const struct qc_plan *p, const struct qc_graph *g, struct qc_arena *a,
                      struct qc_status *st);

/* Returns the entry of a node; NULL if its accumulator cannot overflow. */
const struct qc_layer_overflow *qc_overflow_of(const struct qc_overflows *o, qc_id node);

/* the order of samples of different sizes, and the largest ones. */

/* Sorts 0 to count - 1 by the sizes of those units (units NULL: units 0, 1, ...): most elements first, equal shapes
   together, ties in the given order. QC_ORDER_KEPT sorts blocks of QC_ORDER_UNITS units, or of QC_ORDER_BYTES of
   inputs, separately. *order is owned by the caller (free). Fails if memory is out. */
enum qc_order { QC_ORDER_FREE, QC_ORDER_KEPT };
enum { QC_ORDER_UNITS = 1024, QC_ORDER_BYTES = 4 << 20 };
bool qc_order_by_size(size_t **order, const struct qc_dataset *data, size_t inputs, const size_t *units, size_t count,
                      enum qc_order how, struct qc_status *st);

/* Returns units that have the most elements or the largest size of some free dimension: the unit that needs most memory
   is among them. In the arena, *count of them; NULL if memory is out. */
size_t *qc_largest_units(size_t *count, const struct qc_dataset *data, size_t inputs, struct qc_arena *a,
                         struct qc_status *st);

/* Units of a data set by their content: a choice of the first ones does not depend on the order of samples. */

struct qc_keyed_unit {
    uint64_t key; /* hash of the bytes of the first `inputs` inputs (qc_stream_key) */
    size_t unit;
};

/* Makes all units in order of their keys, equal keys in order of units. keys: NULL, or [units]: those that are not 0
   are not computed again. The array is in the arena. */
bool qc_keyed_units(struct qc_keyed_unit **out, const struct qc_dataset *data, size_t inputs, const uint64_t *keys,
                    unsigned workers, struct qc_arena *a, struct qc_status *st);

/* States of a recurrent network: its outputs of one sample are inputs of the next one (docs/states.md). */

/* Finds the shapes of states that change from step to step, such as caches that grow, from those of the inputs. Of
   opened data, whose units are all chosen. Does nothing without states. */
bool qc_find_state_sizes(struct qc_dataset *data, const struct qc_graph *g, struct qc_status *st);

/* Runs the chosen units of data in sequence through g and records the states that they read; nothing without states.
   Later reads of these units give the recorded states, as ordinary data. Fails if a run fails, or with QC_BAD_INPUT if
   an output does not have the type and shape of its input. */
bool qc_record_states(struct qc_dataset *data, const struct qc_graph *g, const struct qc_settings *settings,
                      struct qc_status *st);
