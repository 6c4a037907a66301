// SPDX-License-Identifier: Apache-2.0
/* What calibration data say about the values of a graph: one histogram per value, and where it comes from. Collecting
   is apart from choosing (calib/ranges/calibrate.h): a collection can be written (calib/statistics/statistics.h),
   merged, and serve any observer. Its content is a pure function of the model, the samples and the list of values: not
   of workers, order, shards or the way they were merged. */
#pragma once

#include "calib/moments/second_moments.h"
#include "calib/statistics/extremes_table.h"
#include "calib/statistics/known_outputs.h"
#include "calib/statistics/per_sample.h"
#include "calib/statistics/stream.h"
#include "observers/channel_histogram.h"
#include "observers/histogram.h"

/* Samples of all parts in one order: by part, then by number in the file. Tallies hold such ids (qc_tally.min_sample,
 * ...). */
enum { QC_SAMPLE_BITS = 40 };
#define QC_SAMPLE_ID(part, number) ((uint64_t)(part) << QC_SAMPLE_BITS | (uint64_t)(number))
#define QC_SAMPLE_PART(id) ((id) >> QC_SAMPLE_BITS)
#define QC_SAMPLE_NUMBER(id) ((id) & ((UINT64_C(1) << QC_SAMPLE_BITS) - 1))

/* A data file, known by its content. */
struct qc_part {
    char sha256[65];
    uint64_t samples; /* in the file */
    uint64_t chosen;  /* of these, what is to be seen in all: the samples of every shard together */
};

/* `count` samples of a part from number `first` on. */
struct qc_sample_range {
    uint64_t part, first, count;
};

struct qc_collected {
    const char *name;                      /* of the value: unique */
    struct qc_histogram *histogram;        /* owned */
    struct qc_channel_histogram *channels; /* owned; NULL: not asked for, or there are no channels to speak of */
};

struct qc_collection {
    size_t holders; /* beside the first */
    struct qc_arena *arena;
    char model_sha256[65]; /* empty when nobody said */
    const char *inputs;    /* what each input is fed with (qc_dataset_inputs) */
    enum qc_need need;
    size_t part_count, part_capacity;
    struct qc_part *parts; /* by ascending SHA-256 */
    size_t range_count, range_capacity;
    struct qc_sample_range *ranges; /* ascending, disjoint, as few as can be */
    size_t count;
    struct qc_collected *values;        /* in the order of the list */
    struct qc_collected **by_name;      /* [count]: the same, ascending */
    bool channels;                      /* statistics of channels were asked for */
    struct qc_second_moments *gram;     /* owned; second moments of the layers of the graph. NULL: not taken */
    struct qc_extremes_table *extremes; /* owned; of every value in every sample. NULL: not kept */
    struct qc_per_sample *samples;      /* owned; states of a plugin. NULL: none. Neither written nor merged */
};

struct qc_collect_options {
    const char *model_sha256, *data_sha256;           /* 64 hex digits, or NULL */
    const char *inputs;                               /* or NULL */
    enum qc_need need;                                /* QC_NEED_EXTREMES or QC_NEED_HISTOGRAM */
    const struct qc_observer *observer;               /* NULL, or one that may need more of every sample, ... */
    const struct qc_observer_values *observer_values; /* ... with its options */
    bool series;                                      /* keep the extremes of every sample for this job alone */
    bool extremes; /* keep the extremes of every sample, whoever may need them: for a file that serves all */
    bool moments;  /* second moments too, ... */
    enum qc_second_moments_layers layers; /* ... of these layers of g */
    const int *channel_axes; /* [count]: the axis of the channels of each value, which g knows the size of, or -1. NULL:
                                no statistics of channels */
    uint64_t *keys; /* NULL, or [units]: the keys of units that are run (calib/statistics/stream.h); others stay */
    struct qc_known_outputs *known; /* NULL, or where the outputs of g go */
    unsigned workers;
    size_t memory_limit; /* bytes; 0: none */
    size_t later_bytes;  /* that stages behind this one take beside what is collected: memory_limit is to hold for them
                            too ... */
    size_t (*later_with)(
        const struct qc_second_moments *m); /* ... and what they take because of the second moments; NULL: nothing */
    qc_pool_progress_fn *progress;
    void *progress_user;
    struct qc_collection
        *so_far; /* NULL, or what an interrupted run of the same job has: its samples are not run again. Taken over. */
    const char *so_far_name; /* its file, for messages */
    /* Given what is known so far: every save_seconds, when the run is interrupted, and at its end. NULL: nobody wants
     * it. */
    bool (*save)(void *user, const struct qc_collection *c, struct qc_status *st);
    void *save_user;
    double save_seconds;
};

/* What a run took. */
struct qc_collect_cost {
    unsigned workers; /* used */
    size_t runner_bytes, constant_bytes,
        statistics_bytes; /* a worker's memory, the plan's, the statistics of a worker */
};

/* Runs g (real, or simulated with unbound qparams) over the chosen units of data (there may be none). values[count]:
   float32 values of g that are no constants, each once, with the names they get here. cost may be NULL. Errors: those
   of the run; so_far is of another model, other data, samples that are not chosen, or other values (QC_BAD_INPUT); a
   plugin, with so_far or save (QC_USAGE); --memory-limit below what one worker, or a stage behind, needs (QC_MACHINE);
   QC_INTERRUPTED when progress says so: the samples at hand are finished, and saved. */
bool qc_collect(struct qc_collection **out, struct qc_collect_cost *cost, const struct qc_graph *g, size_t count,
                const qc_id *values, const char *const *names, const struct qc_dataset *data,
                const struct qc_collect_options *options, struct qc_status *st);
/* Of nothing yet; no model, inputs or parts. Names are copied. */
bool qc_collection_new(struct qc_collection **out, size_t count, const char *const *names, enum qc_need need,
                       struct qc_status *st);

/* Makes room for statistics of the channels of value i. More than QC_CHANNELS_MAX, or none: it gets none. Errors:
 * memory. */
bool qc_collection_add_channels(struct qc_collection *c, size_t i, int axis, int64_t channels, struct qc_status *st);

/* Adds what another collection of the same model, inputs and values has seen. Errors (QC_BAD_INPUT) name what differs,
   or a sample that both have seen; `to` then is not to be used any more. */
bool qc_collection_merge(struct qc_collection *to, const struct qc_collection *from, struct qc_status *st);

/* Has every sample that was chosen been seen? Else QC_BAD_INPUT says how many of which part are missing. */
bool qc_collection_check_whole(const struct qc_collection *c, struct qc_status *st);

/* A part by its SHA-256, added when it is new: *index. Known parts behind it move up, in ranges and tallies too. */
bool qc_collection_add_part(size_t *index, struct qc_collection *c, const struct qc_part *part, struct qc_status *st);
/* Adds samples; false with QC_BAD_INPUT when one of them is there already. */
bool qc_collection_add_range(struct qc_collection *c, struct qc_sample_range r, struct qc_status *st);
bool qc_collection_has_sample(const struct qc_collection *c, uint64_t part, uint64_t number);

/* Another holder: freed when as many have let go. NULL-safe; all of them belong to the thread of the job. */
struct qc_collection *qc_collection_ref(struct qc_collection *c);
bool qc_collection_is_shared(const struct qc_collection *c); /* has it more than one holder? */
void qc_collection_free(struct qc_collection *c);            /* NULL-safe */

/* NULL when there is no such value. */
const struct qc_collected *qc_collection_value(const struct qc_collection *c, const char *name);
const struct qc_histogram *qc_collection_find(const struct qc_collection *c, const char *name);

/* Adds what is kept of a value's samples to a quantizer; nothing when nothing is. */
bool qc_collection_join(struct qc_quantizer_samples *quantizer, const struct qc_collection *c, const char *name,
                        struct qc_status *st);

/* Samples that were seen. */
uint64_t qc_collection_samples(const struct qc_collection *c);
