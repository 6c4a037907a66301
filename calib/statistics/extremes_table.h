// SPDX-License-Identifier: Apache-2.0
/* The extremes of every value in every sample (observers/series.h): 8 bytes for each pair, and 8 a sample. In ascending
   order of samples, so that it is the same however it came about. */
#pragma once

#include "base/status.h"
#include "observers/series.h"

struct qc_ends {
    float min, max; /* as struct qc_extremes */
};

struct qc_extremes_table {
    size_t values, count;
    uint64_t *samples;    /* [count] ascending ids (QC_SAMPLE_ID) */
    struct qc_ends *ends; /* [values][count] */
};

/* count samples, all ids and ends 0: to be filled. */
bool qc_extremes_table_new(struct qc_extremes_table **out, size_t values, size_t count, struct qc_status *st);
void qc_extremes_table_free(struct qc_extremes_table *t); /* NULL-safe */
size_t qc_extremes_table_bytes(size_t values, size_t count);

/* Adds the samples of another table of as many values; no sample is in both. */
bool qc_extremes_table_add(struct qc_extremes_table *to, const struct qc_extremes_table *from, struct qc_status *st);

/* One value as a series joined to one that is there already, which has no samples or the same ones. series->items is
 * the caller's to free. */
bool qc_extremes_table_join(struct qc_series *series, const struct qc_extremes_table *t, size_t value,
                            struct qc_status *st);
/* Joins the n values of a constant to every sample of the series; to one of its own, when there is none. */
bool qc_series_add_constant(struct qc_series *series, const float *x, size_t n, struct qc_status *st);
