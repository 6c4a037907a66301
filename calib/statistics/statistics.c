// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/statistics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/scope.h"
#include "calib/statistics/statistics_parts.h"
#include "datasets/hdf5/archive.h"

static const char format_key[] = "qcalib_statistics", content_key[] = "content_sha256";

/* ---- The file ---- */

/* 2 is the oldest version that is read. Statistics of channels add 1, rows add 2. */
static unsigned version_of(bool channels, bool kept)
{
    return 2 + (unsigned)channels + 2 * (unsigned)kept;
}

unsigned qc_statistics_version(const struct qc_collection *c)
{
    return version_of(c->channels, c->second_moments && qc_second_moments_keeps_rows(c->second_moments));
}

/* Computes the SHA-256 of the content: a line for each text, and for the SHA-256 of each column. */
static bool content_sha256(char hex[65], const struct qc_collection *c, const struct qc_columns *t,
                           struct qc_status *st)
{
    char *bytes = NULL;
    size_t size = 0;
    char column[65] = "";
    bool ok = true;
    FILE *f = open_memstream(&bytes, &size);
    if (!f) return qc_fail_memory(st, 1);
    fprintf(f, "%s\n%s\n%d %d %d\n", c->model_sha256, c->inputs, (int)c->need, c->extremes != NULL,
            c->second_moments != NULL);
#define QC_TEXTS(path, rows, field, most)                                                                              \
    for (size_t i = 0; i < t->rows; i++) fprintf(f, "%s\n", t->field[i]);
#define QC_COLUMN(path, dtype, rows, columns, field, most)                                                             \
    ok = ok && qc_sha256(column, t->field, sizeof *t->field * t->rows * (columns ? columns : 1), st);                  \
    fprintf(f, "%s\n", column);
#define QC_MORE_COLUMN(part, path, dtype, rows, columns, field, most)                                                  \
    if (t->part) {                                                                                                     \
        ok = ok && qc_sha256(column, t->field, sizeof *t->field * t->rows * (columns ? columns : 1), st);              \
        fprintf(f, "%s\n", column);                                                                                    \
    }
#include "calib/statistics/statistics.def"
    ok = fclose(f) == 0 ? ok && qc_sha256(hex, bytes, size, st) : qc_fail_memory(st, size);
    free(bytes);
    return ok;
}

/* Fails if a data set has more rows than a reader accepts. */
static bool within(const char *path, size_t rows, size_t most, struct qc_status *st)
{
    return rows <= most || qc_fail(st, QC_UNSUPPORTED,
                                   "data set '%s' would have %zu rows, but a reader accepts %zu; collect from fewer "
                                   "samples or a smaller model",
                                   path, rows, most);
}

bool qc_statistics_encode(void **bytes, size_t *size, const struct qc_collection *c, struct qc_status *st)
{
    struct qc_columns columns, *t = &columns;
    struct qc_archive *f = NULL;
    struct qc_arena *a = qc_arena_new();
    char sha[65];
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_columns_of(t, c, a, st) && content_sha256(sha, c, t, st) && qc_archive_new(&f, st) &&
              qc_archive_put_number(f, format_key, version_of(t->channels, t->kept), st) &&
              qc_archive_put_text(f, "model_sha256", c->model_sha256, st) &&
              qc_archive_put_text(f, "inputs", c->inputs, st) &&
              qc_archive_put_number(f, "histograms", c->need == QC_NEED_HISTOGRAM, st) &&
              qc_archive_put_number(f, "sample_extremes", c->extremes != NULL, st) &&
              qc_archive_put_number(f, "second_moments", c->second_moments != NULL, st) &&
              qc_archive_put_text(f, content_key, sha, st);
#define QC_TEXTS(path, rows, field, most)                                                                              \
    ok = ok && within(path, t->rows, most, st) && qc_archive_put_texts(f, path, t->rows, t->field, st);
#define QC_COLUMN(path, dtype, rows, columns, field, most)                                                             \
    ok = ok && within(path, t->rows, most, st) && qc_archive_put(f, path, dtype, t->rows, columns, t->field, st);
#define QC_MORE_COLUMN(part, path, dtype, rows, columns, field, most)                                                  \
    ok = ok && (!t->part ||                                                                                            \
                (within(path, t->rows, most, st) && qc_archive_put(f, path, dtype, t->rows, columns, t->field, st)));
#include "calib/statistics/statistics.def"
    ok = ok && qc_archive_bytes(bytes, size, f, st);
    qc_archive_free(f);
    qc_arena_free(a);
    return ok;
}

/* Fails if columns that belong together differ in their rows. */
static bool set_rows(size_t *rows, size_t got, bool *known, const char *path, struct qc_status *st)
{
    if (*known && *rows != got)
        return qc_fail(st, QC_BAD_INPUT, "data set '%s' has %zu rows, expected %zu", path, got, *rows);
    *known = true;
    *rows = got;
    return true;
}

static bool read_columns(struct qc_columns *t, const struct qc_archive *f, uint64_t version, struct qc_arena *a,
                         struct qc_status *st)
{
    struct {
        bool part_count, range_count, count, edge_count, bin_count, series_count, end_count, layer_count, moment_count,
            class_count, sum_count, product_count, kept_count, entry_count, channel_count, channel_edge_count,
            channel_bin_count;
    } known = {0};
    size_t rows = 0;
    void *data = NULL;
    bool ok = true;
    *t = (struct qc_columns){.channels = version == version_of(true, false) || version == version_of(true, true),
                             .kept = version >= version_of(false, true)};
#define QC_TEXTS(path, n, field, most)                                                                                 \
    ok = ok && qc_archive_get_texts(&t->field, &rows, f, path, most, a, st) &&                                         \
         set_rows(&t->n, rows, &known.n, path, st);
#define QC_COLUMN(path, dtype, n, columns, target, most)                                                               \
    ok = ok && qc_archive_get(&data, &rows, f, path, dtype, columns, most, a, st) &&                                   \
         set_rows(&t->n, rows, &known.n, path, st);                                                                    \
    t->target = data;
#define QC_MORE_COLUMN(part, path, dtype, n, columns, target, most)                                                    \
    if (t->part) {                                                                                                     \
        ok = ok && qc_archive_get(&data, &rows, f, path, dtype, columns, most, a, st) &&                               \
             set_rows(&t->n, rows, &known.n, path, st);                                                                \
        t->target = data;                                                                                              \
    }
#include "calib/statistics/statistics.def"
    return ok;
}

bool qc_statistics_decode(struct qc_collection **out, const void *bytes, size_t size, struct qc_status *st)
{
    struct qc_columns t;
    struct qc_collection *c = NULL;
    struct qc_archive *f = NULL;
    struct qc_arena *a = qc_arena_new();
    uint64_t version, histograms, extremes, moments;
    const char *model, *inputs, *content;
    char sha[65];
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_archive_open(&f, bytes, size, st);
    ok = ok && qc_archive_number(&version, f, format_key, st);
    if (!ok && f && st->code == QC_BAD_INPUT) { /* not if memory is out */
        *st = QC_STATUS_INIT;
        ok = qc_fail(st, QC_BAD_INPUT,
                     "this HDF5 file holds no statistics of qcalib; 'qcalib collect' writes such files");
    }
    const unsigned oldest = version_of(false, false), newest = version_of(true, true);
    if (ok && (version < oldest || version > newest))
        ok = qc_fail(st, QC_UNSUPPORTED, "the statistics have version %llu; this program reads versions %u to %u",
                     (unsigned long long)version, oldest, newest);
    ok = ok && qc_archive_text(&model, f, "model_sha256", a, st) && qc_archive_text(&inputs, f, "inputs", a, st) &&
         qc_archive_number(&histograms, f, "histograms", st) &&
         qc_archive_number(&extremes, f, "sample_extremes", st) &&
         qc_archive_number(&moments, f, "second_moments", st) && qc_archive_text(&content, f, content_key, a, st) &&
         read_columns(&t, f, version, a, st) &&
         (!*model || (strlen(model) == 64 && strspn(model, "0123456789abcdef") == 64) ||
          qc_fail(st, QC_BAD_INPUT, "the model's SHA-256 is malformed")) &&
         qc_columns_take(&c, &t, histograms ? QC_NEED_HISTOGRAM : QC_NEED_EXTREMES, extremes != 0, moments != 0, st) &&
         (c->inputs = qc_arena_strdup(c->arena, inputs, st));
    if (ok) {
        memcpy(c->model_sha256, model, strlen(model) + 1);
        ok = content_sha256(sha, c, &t, st) &&
             (strcmp(sha, content) == 0 ||
              qc_fail(st, QC_BAD_INPUT,
                      "the file is damaged: its content does not match its SHA-256; make or copy it again"));
    }
    if (ok)
        *out = c;
    else
        qc_collection_free(c);
    qc_archive_free(f);
    qc_arena_free(a);
    return ok;
}

bool qc_statistics_save(const char *path, const struct qc_collection *c, struct qc_status *st)
{
    QC_FREED void *bytes = NULL;
    size_t size;
    return qc_statistics_encode(&bytes, &size, c, st) && qc_file_write(path, bytes, size, st);
}

bool qc_statistics_load(struct qc_collection **out, const char *path, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    void *bytes;
    size_t size;
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_file_read(&bytes, &size, path, a, st) &&
              (qc_statistics_decode(out, bytes, size, st) || qc_where(st, "%s", path));
    qc_arena_free(a);
    return ok;
}

bool qc_statistics_is(bool *is, const char *path, struct qc_status *st)
{
    return qc_archive_marked(is, path, format_key, st);
}
