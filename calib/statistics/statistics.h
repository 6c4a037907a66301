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

/* The data sets of a statistics file in memory; docs/statistics-file.md describes the columns. */

enum {
    QC_COLUMNS_VALUES = 1 << 16, /* upper limits */
    QC_COLUMNS_PARTS = 1 << 20,
    QC_COLUMNS_SIZES = 1 << 16,
    QC_COLUMNS_RANGES = 1 << 28,
    QC_COLUMNS_BINS = 2 * QC_WINDOW_BINS, /* of a histogram */
    QC_COLUMNS_CHANNELS = 1 << 28         /* of all values */
};
#define QC_COLUMNS_SUMS ((size_t)1 << 40)
#define QC_COLUMNS_CLASSES ((size_t)QC_COLUMNS_VALUES * QC_MOMENTS_PARTS * QC_MOMENTS_CLASSES)

enum qc_column {
#define QC_COLUMN(id, path, dtype, rows, columns, exists, most) QC_COLUMN_##id,
#include "calib/statistics/statistics.def"
    QC_COLUMN_COUNT
};

struct qc_column_info {
    const char *path;
    enum qc_dtype dtype; /* QC_NONE: texts */
    enum qc_column rows; /* the first column with as many rows */
    size_t columns;      /* 0: no second dimension */
    enum { QC_COLUMN_ALWAYS, QC_COLUMN_KEPT, QC_COLUMN_CHANNELS, QC_COLUMN_SIZES } exists;
    size_t most; /* rows */
};

struct qc_columns {
    bool kept, channels, sizes;   /* some rows are in place of products; there are statistics of channels; the sizes of
                                     the largest sample */
    size_t rows[QC_COLUMN_COUNT]; /* by the first column with as many */
    void *of[QC_COLUMN_COUNT];    /* of texts: const char ** */
};

const struct qc_column_info *qc_column_info(enum qc_column k);
/* Returns the bytes of a row of a column in memory. */
size_t qc_column_bytes(enum qc_column k);
bool qc_columns_have(const struct qc_columns *t, enum qc_column k);

/* Makes a collection from columns. Fails with QC_BAD_INPUT if they are inconsistent. */
bool qc_columns_take(struct qc_collection **out, const struct qc_columns *t, enum qc_need need, bool extremes,
                     bool moments, struct qc_status *st);
