// SPDX-License-Identifier: Apache-2.0
/* The extremes of every value in every sample (observers/series.h): 8 bytes for each pair, and 8 per sample. Samples
   ascend, so the table does not depend on the order of collection. */
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
