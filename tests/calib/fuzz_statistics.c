// SPDX-License-Identifier: Apache-2.0
/* libFuzzer target: any bytes as the data sets of a statistics file, without HDF5 and its checksum, which mutations of
   a file would not pass. Invalid input is refused with a status; accepted statistics can be merged, written and read
   back. Layout: flags (1 histograms, 2 extremes, 4 moments, 8 channels, 16 rows); a 16-bit count for each number of
   rows of calib/statistics/statistics.def in the order of COUNTS; the columns in the order of that table, texts
   terminated by 0. Missing bytes at the end are 0. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calib/statistics/statistics.h"

enum { ROWS_MAX = 512 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *at;
    size_t left;
};

/* Of the exact size, so that reading behind it is seen. */
static void *take(struct input *in, size_t bytes)
{
    uint8_t *p = calloc(bytes ? bytes : 1, 1);
    const size_t n = bytes < in->left ? bytes : in->left;
    if (!p) abort();
    memcpy(p, in->at, n);
    in->at += n;
    in->left -= n;
    return p;
}

static const char **take_texts(struct input *in, size_t count)
{
    const char **texts = calloc(count + 1, sizeof *texts);
    if (!texts) abort();
    for (size_t i = 0; i < count; i++) {
        const size_t n = strnlen((const char *)in->at, in->left);
        char *s = take(in, n + (n < in->left));
        texts[i] = n ? realloc(s, n + 1) : s;
        if (!texts[i]) abort();
        ((char *)(uintptr_t)texts[i])[n] = '\0';
    }
    return texts;
}

static size_t take_count(struct input *in)
{
    uint8_t *p = take(in, 2);
    const size_t n = p[0] + 256U * p[1];
    free(p);
    return n % (ROWS_MAX + 1);
}

static struct qc_collection *taken(const struct qc_columns *t, unsigned flags)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_collection *c = NULL;
    const bool ok = qc_columns_take(&c, t, flags & 1 ? QC_NEED_HISTOGRAM : QC_NEED_EXTREMES, (flags & 2) != 0,
                                    (flags & 4) != 0, &st);
    if (ok != (st.code == QC_OK)) abort();
    if (!ok) return NULL;
    if (!(c->inputs = "x:none")) abort();
    return c;
}

/* Twice the same samples may be refused; where they are not, the sum is as good. */
static void use(struct qc_collection *c, struct qc_collection *other)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_collection *again = NULL;
    void *bytes = NULL;
    size_t size;
    if (!qc_statistics_encode(&bytes, &size, c, &st) || !qc_statistics_decode(&again, bytes, size, &st)) {
        fprintf(stderr, "what was read cannot be written and read again: %s\n", st.message);
        abort();
    }
    free(bytes);
    qc_collection_merge(again, other, &st);
    qc_collection_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum qc_column COUNTS[] = {QC_COLUMN_PART_SHA256,   QC_COLUMN_RANGES,
                                            QC_COLUMN_NAME,          QC_COLUMN_FIRST_BIN,
                                            QC_COLUMN_BIN,           QC_COLUMN_SERIES,
                                            QC_COLUMN_ENDS,          QC_COLUMN_LAYER_INPUT,
                                            QC_COLUMN_MOMENTS,       QC_COLUMN_CLASS,
                                            QC_COLUMN_SUMS,          QC_COLUMN_PRODUCTS,
                                            QC_COLUMN_CHANNEL_TALLY, QC_COLUMN_CHANNEL_FIRST_BIN,
                                            QC_COLUMN_CHANNEL_BIN,   QC_COLUMN_STEPS,
                                            QC_COLUMN_ENTRIES};
    struct input in = {data, size};
    struct qc_columns t = {0};
    uint8_t *flags = take(&in, 1);
    t.channels = (*flags & 8) != 0;
    t.kept = (*flags & 16) != 0;
    for (size_t i = 0; i < sizeof COUNTS / sizeof *COUNTS - (t.kept ? 0 : 2); i++) t.rows[COUNTS[i]] = take_count(&in);
    for (enum qc_column k = 0; k < QC_COLUMN_COUNT; k++) {
        const size_t rows = t.rows[qc_column_info(k)->rows];
        if (qc_column_info(k)->dtype == QC_NONE)
            t.of[k] = take_texts(&in, rows);
        else if (qc_columns_have(&t, k))
            t.of[k] = take(&in, rows * qc_column_bytes(k));
    }
    struct qc_collection *c = taken(&t, *flags), *other = c ? taken(&t, *flags) : NULL;
    if (c && other) use(c, other);
    qc_collection_free(c);
    qc_collection_free(other);
    for (enum qc_column k = 0; k < QC_COLUMN_COUNT; k++) {
        const char **texts = qc_column_info(k)->dtype == QC_NONE ? t.of[k] : NULL;
        for (size_t i = 0; texts && i < t.rows[qc_column_info(k)->rows]; i++) free((void *)(uintptr_t)texts[i]);
        free(t.of[k]);
    }
    free(flags);
    return 0;
}
