// SPDX-License-Identifier: Apache-2.0
/* The states that a plugin (observers/plugin.h) makes of every sample. Workers may add them in any order; the result is
   the same. States are merged as soon as siblings of a binary tree exist, so at most workers * log2(samples) states of
   a value wait at a time. */
#pragma once

#include "base/status.h"
#include "observers/observer.h"
#include "observers/plugin.h"
#include "observers/series.h"

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

/* The extremes of every value in every sample (observers/series.h): 8 bytes for each pair, and 8 per sample. Samples
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
