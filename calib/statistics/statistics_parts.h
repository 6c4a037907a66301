// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: the data sets of a statistics file in memory; docs/statistics-file.md describes the columns. */
#pragma once

#include "calib/statistics/collection.h"

enum {
    QC_COLUMNS_VALUES = 1 << 16, /* upper limits */
    QC_COLUMNS_PARTS = 1 << 20,
    QC_COLUMNS_RANGES = 1 << 28,
    QC_COLUMNS_BINS = 2 * QC_WINDOW_BINS, /* of a histogram */
    QC_COLUMNS_CHANNELS = 1 << 28,        /* of all values */
    QC_COLUMNS_TALLY = 6,
    QC_COLUMNS_SIZES = 5 /* of a layer */
};
#define QC_COLUMNS_SUMS ((size_t)1 << 40)

struct qc_columns {
    size_t part_count, range_count, count, edge_count, bin_count, series_count, end_count, layer_count, moment_count,
        class_count, sum_count, product_count;
    const char **part_sha256, **names;
    uint64_t *part_samples; /* [part_count][2] */
    uint64_t *ranges;       /* [range_count][3] */
    uint64_t *tallies;      /* [count][QC_COLUMNS_TALLY] */
    float *extremes;        /* [count][2] */
    uint64_t *where;        /* [count][6] */
    int32_t *exponent;
    uint32_t *low_bits;
    uint64_t *first_bin; /* [count + 1] */
    uint16_t *bin;
    uint64_t *bin_values;
    uint64_t *series; /* [series_count][2] */
    float *ends;      /* [count * series_count][2] */
    const char **layer_inputs, **layer_geometry;
    uint64_t *layer_sizes; /* [layer_count][QC_COLUMNS_SIZES] */
    uint64_t *moments;     /* [layer_count * QC_MOMENTS_PARTS][3] */
    int32_t *classes;      /* [class_count][3] */
    int64_t *sums, *products;
    bool kept; /* some rows are in place of products */
    size_t kept_count, entry_count;
    uint64_t *class_rows; /* [class_count]; 0: products */
    uint8_t *kept_steps;  /* [kept_count] */
    int16_t *entries;
    bool channels; /* there are statistics of channels */
    size_t channel_count, channel_edge_count, channel_bin_count;
    int32_t *channel_axis;   /* [count]; -1: none */
    uint64_t *first_channel; /* [count + 1] */
    uint64_t *channel_tally; /* [channel_count][2] */
    float *channel_extremes; /* [channel_count][2] */
    int32_t *channel_exponent;
    uint64_t *channel_first_bin; /* [channel_count + 1] */
    uint16_t *channel_bin;
    uint64_t *channel_bin_values;
};

/* Makes the columns of a collection; arrays from the arena, strings borrowed. */
bool qc_columns_of(struct qc_columns *t, const struct qc_collection *c, struct qc_arena *a, struct qc_status *st);
/* Makes a collection from columns. Fails with QC_BAD_INPUT if they are inconsistent. */
bool qc_columns_take(struct qc_collection **out, const struct qc_columns *t, enum qc_need need, bool extremes,
                     bool moments, struct qc_status *st);

/* The part of both that is not histograms. The first one counts rows, the second one fills allocated columns. */
void qc_columns_count_more(struct qc_columns *t, const struct qc_collection *of);
bool qc_columns_of_more(struct qc_columns *t, const struct qc_collection *c, struct qc_status *st);
bool qc_columns_take_more(struct qc_collection *c, const struct qc_columns *t, bool extremes, bool moments,
                          struct qc_status *st);

/* The part of both that is channels. */
void qc_columns_count_channels(struct qc_columns *t, const struct qc_collection *c);
void qc_columns_of_channels(struct qc_columns *t, const struct qc_collection *c);
bool qc_columns_take_channels(struct qc_collection *c, const struct qc_columns *t, struct qc_status *st);
