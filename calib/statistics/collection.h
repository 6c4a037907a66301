// SPDX-License-Identifier: Apache-2.0
/* The statistics of a graph's values over calibration data: one histogram per value, and the origin of the data.
   Collecting is separate from choosing ranges (calib/ranges/calibrate.h). A collection can be written
   (calib/statistics/statistics.h), merged, and used by any observer. Its content depends only on the model, the samples
   and the list of values, not on workers, order, shards or merge order. */
#pragma once

#include "calib/moments/second_moments.h"
#include "calib/statistics/known_outputs.h"
#include "calib/statistics/per_sample.h"
#include "calib/statistics/stream.h"
#include "observers/channel_histogram.h"
#include "observers/histogram.h"

/* Ids that order the samples of all parts: by part, then by number in the file. Tallies hold such ids
   (qc_tally.min_sample, ...). */
enum { QC_SAMPLE_BITS = 40 };
#define QC_SAMPLE_ID(part, number) ((uint64_t)(part) << QC_SAMPLE_BITS | (uint64_t)(number))
#define QC_SAMPLE_PART(id) ((id) >> QC_SAMPLE_BITS)
#define QC_SAMPLE_NUMBER(id) ((id) & ((UINT64_C(1) << QC_SAMPLE_BITS) - 1))

/* A data file, identified by its content. */
struct qc_part {
    char sha256[65];
    uint64_t samples; /* in the file */
    uint64_t chosen;  /* samples chosen from the file, over all shards */
};

/* `count` samples of a part, beginning with number `first`. */
struct qc_sample_range {
    uint64_t part, first, count;
};

struct qc_collected {
    const char *name;                      /* of the value; unique */
    struct qc_histogram *histogram;        /* owned */
    struct qc_channel_histogram *channels; /* owned; NULL: not collected, or the value has no channel axis */
};

struct qc_collection {
    size_t holders; /* references beside the first */
    struct qc_arena *arena;
    char model_sha256[65]; /* empty if unknown */
    const char *inputs;    /* description of the data for each input (qc_dataset_inputs) */
    enum qc_need need;
    size_t part_count, part_capacity;
    struct qc_part *parts; /* by ascending SHA-256 */
    size_t range_count, range_capacity;
    struct qc_sample_range *ranges; /* ascending, disjoint, merged */
    size_t count;
    struct qc_collected *values;              /* in the order of the list */
    struct qc_collected **by_name;            /* [count]: the same, by ascending name */
    bool channels;                            /* statistics of channels are collected */
    struct qc_second_moments *second_moments; /* owned; second moments of the graph's layers; NULL: not collected */
    struct qc_extremes_table *extremes;       /* owned; of every value in every sample; NULL: not collected */
    struct qc_per_sample *samples;            /* owned; states of a plugin; NULL: none. Neither written nor merged */
};

struct qc_collect_options {
    const char *model_sha256, *data_sha256; /* 64 hex digits, or NULL */
    const char *inputs;                     /* or NULL */
    enum qc_need need;                      /* QC_NEED_EXTREMES or QC_NEED_HISTOGRAM */
    const struct qc_observer *observer; /* NULL, or an observer that may need more than histograms, with its options */
    const struct qc_observer_values *observer_values;
    bool series;   /* keep the extremes of every sample, for this job only */
    bool extremes; /* keep the extremes of every sample, for a file that serves every observer */
    bool sends;    /* the collection will be made a file in memory (qc_statistics_encode) */
    bool moments;  /* collect second moments of `layers` of g */
    enum qc_second_moments_layers layers;
    const int *channel_axes; /* [count]: the axis of each value's channels, whose size g knows, or -1; NULL: no
                                statistics of channels */
    uint64_t *keys; /* NULL, or [units]: receives the keys of units that run (calib/statistics/stream.h); others stay */
    struct qc_known_outputs *known;     /* NULL, or receives the outputs of g */
    const struct qc_settings *settings; /* workers, memory_limit and progress */
    size_t later_bytes; /* bytes that later stages need besides the collection; memory_limit covers them, too */
    size_t (*later_with)(const struct qc_second_moments *m); /* bytes they need for the second moments; NULL: none */
    struct qc_collection
        *so_far; /* NULL, or the collection of an interrupted run of this job, whose samples are skipped; taken over */
    size_t so_far_bytes;     /* of memory that it takes */
    const char *so_far_name; /* its file, for messages */
    /* Called with the collection so far, on interruption, at the end, and when save_seconds, and save_times the
       duration of the last call, have passed since that call; may be NULL. */
    bool (*save)(void *user, const struct qc_collection *c, struct qc_status *st);
    void *save_user;
    double save_seconds, save_times;
};

/* Resources of a run. */
struct qc_collect_cost {
    unsigned workers; /* used */
    size_t runner_bytes, constant_bytes,
        statistics_bytes; /* memory of a worker, of the plan, of a worker's statistics */
};

/* Runs g (float, or simulated with unbound qparams) over the chosen units of data, possibly none. values [count]:
   float32 values of g that are not constants, each once, with their names in the collection. cost may be NULL. Fails if
   a run fails; with QC_BAD_INPUT if so_far has another model, other data, samples that are not chosen, or other values;
   with QC_USAGE for a plugin with so_far or save; with QC_MACHINE if memory_limit is too low for one worker or a later
   stage. If progress asks to stop, finishes and saves the running samples and fails with QC_INTERRUPTED. */
bool qc_collect(struct qc_collection **out, struct qc_collect_cost *cost, const struct qc_graph *g, size_t count,
                const qc_id *values, const char *const *names, const struct qc_dataset *data,
                const struct qc_collect_options *options, struct qc_status *st);
/* Makes an empty collection without model, inputs or parts. Names are copied. */
bool qc_collection_new(struct qc_collection **out, size_t count, const char *const *names, enum qc_need need,
                       struct qc_status *st);

/* Makes room for statistics of the channels of value i. Does nothing for no channels or more than QC_CHANNELS_MAX.
   Fails if memory is out. */
bool qc_collection_add_channels(struct qc_collection *c, size_t i, int axis, int64_t channels, struct qc_status *st);

/* Moves both descriptions of inputs (qc_collection.inputs) to the first line that differs. */
void qc_collection_inputs_differ(const char **a, const char **b);

/* Adds a collection of the same model, inputs and values. Fails with QC_BAD_INPUT if they differ or share a sample;
   `to` must then not be used any more. */
bool qc_collection_merge(struct qc_collection *to, const struct qc_collection *from, struct qc_status *st);

/* Fails with QC_BAD_INPUT, with numbers for the first incomplete part, unless every chosen sample was seen. */
bool qc_collection_check_whole(const struct qc_collection *c, struct qc_status *st);

/* Finds a part by its SHA-256 or adds it; *index: its position. Existing parts after it move up, in ranges and tallies
   too. Fails with QC_BAD_INPUT if the part exists with other numbers of samples. */
bool qc_collection_add_part(size_t *index, struct qc_collection *c, const struct qc_part *part, struct qc_status *st);
/* Adds samples. Fails with QC_BAD_INPUT if one of them exists already. */
bool qc_collection_add_range(struct qc_collection *c, struct qc_sample_range r, struct qc_status *st);
bool qc_collection_has_sample(const struct qc_collection *c, uint64_t part, uint64_t number);

/* Adds a reference; the last qc_collection_free frees. NULL-safe. Only the thread of the job may call it. */
struct qc_collection *qc_collection_ref(struct qc_collection *c);
bool qc_collection_is_shared(const struct qc_collection *c); /* more than one reference */
void qc_collection_free(struct qc_collection *c);            /* NULL-safe */

/* Each returns NULL if there is no such value. */
const struct qc_collected *qc_collection_value(const struct qc_collection *c, const char *name);
const struct qc_histogram *qc_collection_find(const struct qc_collection *c, const char *name);

/* Adds the per-sample data of a value to a quantizer; does nothing without such data. */
bool qc_collection_join(struct qc_quantizer_samples *quantizer, const struct qc_collection *c, const char *name,
                        struct qc_status *st);

/* Returns the number of samples seen. */
uint64_t qc_collection_samples(const struct qc_collection *c);
