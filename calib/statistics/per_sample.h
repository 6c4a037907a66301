// SPDX-License-Identifier: Apache-2.0
/* The states that a plugin (observers/plugin.h) makes of every sample. Filled by the workers in any order, the same in
   the end for any number of them: states are merged as soon as neighbours of the tree are there, so that at most
   workers * log2(samples) of a value wait at a time. */
#pragma once

#include "observers/observer.h"
#include "observers/plugin.h"
#include "observers/series.h"

struct qc_per_sample;

/* For `watches` values. *out is NULL when the observer is no plugin; every function takes that. */
bool qc_per_sample_new(struct qc_per_sample **out, const struct qc_observer *observer,
                       const struct qc_observer_values *values, size_t watches, struct qc_status *st);
void qc_per_sample_free(struct qc_per_sample *p);

/* The n values of a watch in a unit. From any thread, each pair once. */
bool qc_per_sample_take(struct qc_per_sample *p, size_t watch, size_t unit, const float *x, size_t n,
                        struct qc_status *st);

/* All of one quantizer, in what the caller owns (qc_quantizer_samples_free). */
struct qc_quantizer_samples {
    struct qc_series series; /* calib/statistics/extremes_table.h */
    struct qc_plugin_state state;
};

/* The states of a watch go to the quantizer, behind what that has, and are gone from here. */
bool qc_per_sample_join(struct qc_quantizer_samples *quantizer, struct qc_per_sample *p, size_t watch,
                        struct qc_status *st);
/* Adds a constant that the quantizer takes too, as the last state. */
bool qc_per_sample_add_constant(struct qc_quantizer_samples *quantizer, struct qc_per_sample *p, const float *x,
                                size_t n, struct qc_status *st);
void qc_quantizer_samples_free(struct qc_quantizer_samples *quantizer);
