// SPDX-License-Identifier: Apache-2.0
/* The statistics of a graph's values over calibration data: one histogram per value, and the origin of the data.
   Collecting is separate from choosing ranges (calib/ranges/calibrate.h). A collection can be written
   (calib/statistics/statistics.h), merged, and used by any observer. Its content depends only on the model, the samples
   and the list of values, not on workers, order, shards or merge order. */
#pragma once

#include "base/memo.h"
#include "base/status.h"
#include "calib/moments/second_moments.h"
#include "calib/statistics/stream.h"
#include "graph/core/graph.h"
#include "observers/channel_histogram.h"
#include "observers/histogram.h"
#include "observers/observer.h"
#include "observers/plugin.h"
#include "simq/core/view.h"
#include "simq/plan/plan.h"

/* Cache of a graph's outputs on units of data. Units are identified by the key of their inputs (struct qc_unit), so any
   run on any selection of samples can fill and use it. */

/* Where outputs are kept, and how many: up to 64 MiB in memory, or those of up to 48 units in temporary files, for
   large models: there a run takes much longer than to read a file, and --memory-limit need not count it. */
enum qc_known_place { QC_KNOWN_IN_MEMORY, QC_KNOWN_IN_FILES };
enum { QC_KNOWN_OUTPUTS_BYTES = 64 << 20, QC_KNOWN_OUTPUTS_FILES = 48 };

struct qc_known_outputs;

/* count: outputs of the graph. budget: of memory, borrowed; NULL: none. The functions below are thread safe, except ref
 * and free. */
bool qc_known_outputs_new(struct qc_known_outputs **out, size_t count, enum qc_known_place place,
                          struct qc_memo_budget *budget, struct qc_status *st);
/* Adds a reference; the last qc_known_outputs_free frees. NULL-safe. Only the thread of the job may call both. */
struct qc_known_outputs *qc_known_outputs_ref(struct qc_known_outputs *k);
void qc_known_outputs_free(struct qc_known_outputs *k); /* NULL-safe */

/* Marks that the plan of the graph knew all output shapes before the run. */
void qc_known_outputs_settle(struct qc_known_outputs *k);
bool qc_known_outputs_settled(const struct qc_known_outputs *k); /* false if k is NULL */

/* Returns true if outputs of a unit should be kept in advance. Trials ask for at most 256 units, those of the lowest
   keys. In a larger data set of `units` units about 384 of the lowest keys are kept, so that memory does not grow with
   samples. In files about 24: most trials end after 8 or 16 units. k may be NULL. */
bool qc_known_outputs_wanted(const struct qc_known_outputs *k, uint64_t key, size_t units);

/* Copies the outputs of a runner for the unit of this key, unless they are known or there is no room, also on the disk.
   Does nothing if k is NULL. */
bool qc_known_outputs_keep(struct qc_known_outputs *k, uint64_t key, struct qc_runner *r, struct qc_status *st);
/* Returns the outputs of a unit, valid as long as k; NULL if unknown or k is NULL. */
struct qc_known;
const struct qc_known *qc_known_outputs_find(struct qc_known_outputs *k, uint64_t key);
/* Returns an output as the runner had it. */
struct qc_view qc_known_view(const struct qc_known *u, size_t output);

/* The states that a plugin (observers/plugin.h) makes of every sample. Workers may add them in any order; the result is
   the same. States are merged as soon as siblings of a binary tree exist, so at most workers * log2(samples) states of
   a value wait at a time. */

struct qc_per_sample;

/* Makes states for `watches` values. *out is NULL if the observer is no plugin; every function accepts that. */
bool qc_per_sample_new(struct qc_per_sample **out, const struct qc_observer *observer,
                       const struct qc_observer_values *values, size_t watches, struct qc_status *st);
void qc_per_sample_free(struct qc_per_sample *p);

/* Adds the n values of a watch in a unit. Thread safe; each pair once. */
bool qc_per_sample_take(struct qc_per_sample *p, size_t watch, size_t unit, const float *x, size_t n,
                        struct qc_status *st);

/* Per-sample data of one quantizer, owned by the caller (qc_quantizer_samples_free). */
struct qc_quantizer_samples {
    struct qc_series series;
    struct qc_plugin_state state;
};

/* Moves the states of a watch to the quantizer, after those it has. */
bool qc_per_sample_join(struct qc_quantizer_samples *quantizer, struct qc_per_sample *p, size_t watch,
                        struct qc_status *st);
/* Adds the values of a constant of the quantizer, as the last state. */
bool qc_per_sample_add_constant(struct qc_quantizer_samples *quantizer, struct qc_per_sample *p, const float *x,
                                size_t n, struct qc_status *st);
void qc_quantizer_samples_free(struct qc_quantizer_samples *quantizer);

/* The extremes of every value in every sample (observers/observer.h): 8 bytes for each pair, and 8 per sample. Samples
   ascend, so the table does not depend on the order of collection. */

struct qc_ends {
    float min, max; /* as struct qc_extremes */
};

struct qc_extremes_table {
    size_t values, count;
    uint64_t *samples;    /* [count] ascending ids (QC_SAMPLE_ID) */
    struct qc_ends *ends; /* [values][count] */
};

/* Makes a table of `count` samples, with ids and ends 0. */
bool qc_extremes_table_new(struct qc_extremes_table **out, size_t values, size_t count, struct qc_status *st);
void qc_extremes_table_free(struct qc_extremes_table *t); /* NULL-safe */
size_t qc_extremes_table_bytes(size_t values, size_t count);

/* Adds the samples of another table with the same number of values; no sample may be in both. */
bool qc_extremes_table_add(struct qc_extremes_table *to, const struct qc_extremes_table *from, struct qc_status *st);

/* Joins the extremes of one value to a series that is empty or has the same samples. The caller frees series->items. */
bool qc_extremes_table_join(struct qc_series *series, const struct qc_extremes_table *t, size_t value,
                            struct qc_status *st);
/* Joins the n values of a constant to every sample of the series; an empty series gets one sample. */
bool qc_series_add_constant(struct qc_series *series, const float *x, size_t n, struct qc_status *st);

/* Values of a graph, each with its name in a collection. The arrays are in the arena of whoever lists them. */
struct qc_named_values {
    size_t count;
    qc_id *ids;         /* [count] */
    const char **names; /* [count] */
};

/* Collects statistics of channels. All workers share one table per value: counts add up to the same in any order. */

/* Computes *axes: [count], for each name the axis of the channels of the value of g with that name
   (rewrite/passes/channel_layout.h), or -1; in the arena. Fails if memory is out. */
bool qc_named_channel_axes(const int **axes, const struct qc_named_values *values, const struct qc_graph *g,
                           struct qc_arena *a, struct qc_status *st);

struct qc_channel_locks;
bool qc_channel_locks_new(struct qc_channel_locks **out, size_t count, struct qc_status *st);
void qc_channel_locks_free(struct qc_channel_locks *l); /* NULL-safe */

/* Adds a float32 value. at: index of its lock. scratch: room for all its elements. Fails with QC_BAD_INPUT if the value
   has another number of channels. Thread safe. */
bool qc_channels_take(struct qc_channel_histogram *h, struct qc_channel_locks *l, size_t at, const struct qc_view *v,
                      float *scratch, struct qc_status *st);

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
    struct qc_largest_sample largest;
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

/* Runs g (float, or simulated with unbound qparams) over the chosen units of data, possibly none. values: float32
   values of g that are not constants, each once. cost may be NULL. Fails if
   a run fails; with QC_BAD_INPUT if so_far has another model, other data, samples that are not chosen, or other values;
   with QC_USAGE for a plugin with so_far or save; with QC_MACHINE if memory_limit is too low for one worker or a later
   stage. If progress asks to stop, finishes and saves the running samples and fails with QC_INTERRUPTED. */
bool qc_collect(struct qc_collection **out, struct qc_collect_cost *cost, const struct qc_graph *g,
                const struct qc_named_values *values, const struct qc_dataset *data,
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

/* The two large columns of a statistics file, second moments and kept rows, computed piece by piece: both together
   could be as large as everything else in memory. */

enum qc_moment_column { QC_MOMENT_NONE, QC_MOMENT_PRODUCTS, QC_MOMENT_ENTRIES };

/* Returns which of them a data set is (calib/statistics/statistics.def). */
enum qc_moment_column qc_moment_column_of(const char *path);

/* A column in the order of the file. Holds one class of one layer at a time. */
struct qc_moment_source {
    const struct qc_second_moments *m; /* NULL: none */
    enum qc_moment_column column;
    size_t layer, part;
    int32_t next_class; /* the next class of this part is that many after the lowest */
    void *values;       /* of the current class */
    size_t count, at;   /* its elements, and those already read */
};

struct qc_moment_source qc_moment_source_of(const struct qc_second_moments *m, enum qc_moment_column column);
/* Reads the next `count` elements, int64_t or int16_t; there must be so many. user: struct qc_moment_source. Fails if
   memory is out. */
bool qc_moment_source_next(void *user, void *to, size_t count, struct qc_status *st);
void qc_moment_source_end(struct qc_moment_source *s);

/* Returns the bytes that writing a file needs at most besides the second moments themselves. */
size_t qc_moment_source_bytes(const struct qc_second_moments *m);

/* Returns the sums of class c of a part of a layer; NULL if there are none. */
const struct qc_second_moments_sums *qc_moment_sums_of(const struct qc_second_moments_moments *m, int32_t c);
/* Returns the number of products of one class in the file: a triangle for each group and block. */
size_t qc_moment_packed_count(const struct qc_second_moments_layer *l);
/* Lists the steps of the kept rows of a class (qc_second_moments_list_rows). */
bool qc_moment_steps(uint8_t *steps, const struct qc_second_moments_layer *l, const struct qc_second_moments_sums *s,
                     struct qc_status *st);
