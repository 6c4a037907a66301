// SPDX-License-Identifier: Apache-2.0
/* A collection as an HDF5 file (docs/statistics-file.md). The bytes depend only on the collection. */
#pragma once

#include "calib/statistics/collection.h"

/* Returns the file version of a collection: the lowest that can hold its content. */
unsigned qc_statistics_version(const struct qc_collection *c);

/* Encodes a collection as the bytes of the file, owned by the caller (free), or decodes it. Decoding fails with
   QC_BAD_INPUT if the bytes are no statistics, truncated, damaged (the SHA-256 of the content differs) or inconsistent,
   and with QC_UNSUPPORTED on another version. */
bool qc_statistics_encode(void **bytes, size_t *size, const struct qc_collection *c, struct qc_status *st);
bool qc_statistics_decode(struct qc_collection **out, const void *bytes, size_t size, struct qc_status *st);

/* Writes or reads a whole file. An existing file keeps its content until the new one is complete. Errors name the path.
 */
bool qc_statistics_save(const char *path, const struct qc_collection *c, struct qc_status *st);
bool qc_statistics_load(struct qc_collection **out, const char *path, struct qc_status *st);

/* Sets *is if PATH is a statistics file of any version and state. Fails only if memory is out. */
bool qc_statistics_is(bool *is, const char *path, struct qc_status *st);

/* the data sets of a statistics file in memory; docs/statistics-file.md describes the columns. */

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
/* Makes a collection from columns. Fails with QC_BAD_INPUT if they are inconsistent. */
bool qc_columns_take(struct qc_collection **out, const struct qc_columns *t, enum qc_need need, bool extremes,
                     bool moments, struct qc_status *st);
