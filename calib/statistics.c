// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "datasets/archive.h"

static const char format_key[] = "qcalib_statistics", content_key[] = "content_sha256";

enum { VALUES_MAX = 1 << 16, PARTS_MAX = 1 << 20, RANGES_MAX = 1 << 28, BINS = 2 * QC_WINDOW_BINS };

/* The data sets of the file in memory; what is in which column: docs/statistics-file.md. */
enum { TALLY_COLUMNS = 6 };

struct columns {
    size_t part_count, range_count, count, edge_count, bin_count;
    const char **part_sha256, **names;
    uint64_t *part_samples; /* [part_count][2] */
    uint64_t *ranges;       /* [range_count][3] */
    uint64_t *tallies;      /* [count][TALLY_COLUMNS] */
    float *extremes;        /* [count][2] */
    uint64_t *where;        /* [count][6] */
    int32_t *exponent;
    uint32_t *low_bits;
    uint64_t *first_bin; /* [count + 1] */
    uint16_t *bin;
    uint64_t *bin_values;
};

/* ---- Columns <-> collection ---- */

static bool new_columns(struct columns *t, const struct qc_collection *c, struct qc_arena *a, struct qc_status *st)
{
    size_t n = c->count, bins = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; c->need == QC_NEED_HISTOGRAM && k < BINS; k++) bins += c->values[i].histogram->counts[k] != 0;
    *t = (struct columns){.part_count = c->part_count, .range_count = c->range_count, .count = n, .bin_count = bins, .edge_count = n + 1};
    t->part_sha256 = QC_NEW_ARRAY(a, const char *, c->part_count, st);
    t->part_samples = QC_NEW_ARRAY(a, uint64_t, c->part_count * 2, st);
    t->ranges = QC_NEW_ARRAY(a, uint64_t, c->range_count * 3, st);
    t->names = QC_NEW_ARRAY(a, const char *, n, st);
    t->tallies = QC_NEW_ARRAY(a, uint64_t, n * TALLY_COLUMNS, st);
    t->extremes = QC_NEW_ARRAY(a, float, n * 2, st);
    t->where = QC_NEW_ARRAY(a, uint64_t, n * 6, st);
    t->exponent = QC_NEW_ARRAY(a, int32_t, n, st);
    t->low_bits = QC_NEW_ARRAY(a, uint32_t, n, st);
    t->first_bin = QC_NEW_ARRAY(a, uint64_t, n + 1, st);
    t->bin = QC_NEW_ARRAY(a, uint16_t, bins, st);
    t->bin_values = QC_NEW_ARRAY(a, uint64_t, bins, st);
    return t->part_sha256 && t->part_samples && t->ranges && t->names && t->tallies && t->extremes && t->where && t->exponent && t->low_bits &&
           t->first_bin && t->bin && t->bin_values;
}

static void put_where(uint64_t out[2], uint64_t id)
{
    out[0] = id == QC_NO_SAMPLE ? QC_NO_SAMPLE : QC_SAMPLE_PART(id);
    out[1] = id == QC_NO_SAMPLE ? QC_NO_SAMPLE : QC_SAMPLE_NUMBER(id);
}

static void fill_columns(struct columns *t, const struct qc_collection *c)
{
    size_t bin = 0;
    for (size_t i = 0; i < c->part_count; i++) {
        t->part_sha256[i] = c->parts[i].sha256;
        t->part_samples[2 * i] = c->parts[i].samples;
        t->part_samples[2 * i + 1] = c->parts[i].chosen;
    }
    for (size_t i = 0; i < c->range_count; i++) {
        const struct qc_sample_range *r = &c->ranges[i];
        memcpy(t->ranges + 3 * i, (uint64_t[]){r->part, r->first, r->count}, 3 * sizeof *t->ranges);
    }
    for (size_t i = 0; i < c->count; i++) {
        const struct qc_histogram *h = c->values[i].histogram;
        const struct qc_tally *s = &h->tally;
        t->names[i] = c->values[i].name;
        memcpy(t->tallies + TALLY_COLUMNS * i, (uint64_t[TALLY_COLUMNS]){s->count, s->zeros, s->nan, s->pos_inf, s->neg_inf, s->samples},
               TALLY_COLUMNS * sizeof *t->tallies);
        t->extremes[2 * i] = s->min;
        t->extremes[2 * i + 1] = s->max;
        put_where(t->where + 6 * i, s->min_sample);
        put_where(t->where + 6 * i + 2, s->max_sample);
        put_where(t->where + 6 * i + 4, s->first_bad_sample);
        t->exponent[i] = h->exponent;
        t->low_bits[i] = h->low_bits;
        t->first_bin[i] = bin;
        for (size_t k = 0; h->counts && k < BINS; k++) {
            if (!h->counts[k]) continue;
            t->bin[bin] = (uint16_t)k;
            t->bin_values[bin++] = h->counts[k];
        }
    }
    t->first_bin[c->count] = bin;
}

/* ---- Checks of what a file says ---- */

static bool is_sha256(const char *s, bool may_be_empty)
{
    return (may_be_empty && !*s) || (strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64);
}

static bool take_parts(struct qc_collection *c, const struct columns *t, struct qc_status *st)
{
    for (size_t i = 0; i < t->part_count; i++) {
        struct qc_part p = {.samples = t->part_samples[2 * i], .chosen = t->part_samples[2 * i + 1]};
        size_t index;
        if (!is_sha256(t->part_sha256[i], true) || p.chosen > p.samples || p.samples >> QC_SAMPLE_BITS)
            return qc_fail(st, QC_BAD_INPUT, "part %zu of the data makes no sense", i);
        memcpy(p.sha256, t->part_sha256[i], strlen(t->part_sha256[i]) + 1);
        if (!qc_collection_add_part(&index, c, &p, st)) return false;
        if (index != i || c->part_count != i + 1) return qc_fail(st, QC_BAD_INPUT, "the parts of the data are not in order");
    }
    for (size_t i = 0; i < t->range_count; i++) {
        struct qc_sample_range r = {.part = t->ranges[3 * i], .first = t->ranges[3 * i + 1], .count = t->ranges[3 * i + 2]};
        if (r.part >= c->part_count || !r.count || r.count > c->parts[r.part].samples || r.first > c->parts[r.part].samples - r.count)
            return qc_fail(st, QC_BAD_INPUT, "the range of samples %zu is not in the data", i);
        if (!qc_collection_add_range(c, r, st)) return false;
    }
    return c->range_count == t->range_count || qc_fail(st, QC_BAD_INPUT, "the ranges of samples are not in order");
}

static bool take_where(uint64_t *id, const uint64_t from[2], const struct qc_collection *c)
{
    if (from[0] == QC_NO_SAMPLE && from[1] == QC_NO_SAMPLE) *id = QC_NO_SAMPLE;
    else if (from[0] < c->part_count && from[1] < c->parts[from[0]].samples) *id = QC_SAMPLE_ID(from[0], from[1]);
    else return false;
    return true;
}

static int32_t exponent_of(const struct qc_tally *t)
{
    float magnitude = fmaxf(fabsf(t->min), fabsf(t->max));
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    return t->count == t->zeros ? -1 : (int32_t)(bits >> 23);
}

/* What must hold of any histogram: the tally and the bins speak of the same values. */
static bool take_value(struct qc_collection *c, const struct columns *t, size_t i)
{
    struct qc_histogram *h = c->values[i].histogram;
    const uint64_t *n = t->tallies + TALLY_COLUMNS * i, *where = t->where + 6 * i;
    struct qc_tally s = {.count = n[0], .zeros = n[1], .nan = n[2], .pos_inf = n[3], .neg_inf = n[4], .samples = n[5], .min = t->extremes[2 * i], .max = t->extremes[2 * i + 1]};
    if (!take_where(&s.min_sample, where, c) || !take_where(&s.max_sample, where + 2, c) || !take_where(&s.first_bad_sample, where + 4, c)) return false;
    if (s.zeros > s.count || !isfinite(s.min) || !isfinite(s.max) || s.min > s.max || (s.count == s.zeros && (s.min != 0 || s.max != 0))) return false;
    if (t->exponent[i] != exponent_of(&s) || t->low_bits[i] >> QC_KEY_SHIFT) return false;
    uint64_t left = s.count - s.zeros;
    for (uint64_t b = t->first_bin[i]; b < t->first_bin[i + 1]; b++) {
        bool ascending = b == t->first_bin[i] || t->bin[b] > t->bin[b - 1], possible = t->bin[b] < QC_WINDOW_BINS ? s.max > 0 : s.min < 0;
        if (!ascending || !possible || t->bin[b] >= BINS || !t->bin_values[b] || t->bin_values[b] > left) return false;
        left -= t->bin_values[b];
        h->counts[t->bin[b]] = t->bin_values[b];
    }
    h->tally = s;
    h->exponent = t->exponent[i];
    h->low_bits = t->low_bits[i];
    return !left || !h->counts;
}

static bool check_columns(const struct columns *t, enum qc_need need, struct qc_status *st)
{
    bool ok = t->edge_count == t->count + 1 && t->first_bin[0] == 0 && t->first_bin[t->count] == t->bin_count && (need == QC_NEED_HISTOGRAM || !t->bin_count);
    for (size_t i = 0; ok && i < t->count; i++) ok = t->first_bin[i] <= t->first_bin[i + 1];
    return ok || qc_fail(st, QC_BAD_INPUT, "the histograms make no sense");
}

static bool take_columns(struct qc_collection **out, const struct columns *t, enum qc_need need, struct qc_status *st)
{
    struct qc_collection *c = NULL;
    bool ok = check_columns(t, need, st) && qc_collection_new(&c, t->count, t->names, need, st) && take_parts(c, t, st);
    for (size_t i = 0; ok && i < t->count; i++)
        if (!take_value(c, t, i)) ok = qc_fail(st, QC_BAD_INPUT, "the statistics of tensor '%s' contradict themselves", t->names[i]);
    if (ok) *out = c;
    else qc_collection_free(c);
    return ok;
}

/* ---- The file ---- */

/* SHA-256 over what the file says: a line for each text and column. */
static bool content_sha256(char hex[65], const struct qc_collection *c, const struct columns *t, struct qc_status *st)
{
    char *bytes = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&bytes, &size);
    if (!f) return qc_fail_memory(st, 1);
    fprintf(f, "%s\n%s\n%d\n", c->model_sha256, c->inputs, (int)c->need);
#define QC_TEXTS(path, rows, field, most)                                                                              \
    for (size_t i = 0; i < t->rows; i++) fprintf(f, "%s\n", t->field[i]);
#define QC_COLUMN(path, dtype, rows, columns, field, most) fwrite(t->field, sizeof *t->field, t->rows * (columns ? columns : 1), f);
#include "calib/statistics.def"
    bool ok = fclose(f) == 0 ? qc_sha256(hex, bytes, size, st) : qc_fail_memory(st, size);
    free(bytes);
    return ok;
}

bool qc_statistics_encode(void **bytes, size_t *size, const struct qc_collection *c, struct qc_status *st)
{
    struct columns columns, *t = &columns;
    struct qc_archive *f = NULL;
    struct qc_arena *a = qc_arena_new();
    char sha[65];
    if (!a) return qc_fail_memory(st, 1);
    bool ok = new_columns(t, c, a, st);
    if (ok) fill_columns(t, c);
    ok = ok && content_sha256(sha, c, t, st) && qc_archive_new(&f, st) && qc_archive_put_number(f, format_key, QC_STATISTICS_VERSION, st) &&
         qc_archive_put_text(f, "model_sha256", c->model_sha256, st) && qc_archive_put_text(f, "inputs", c->inputs, st) &&
         qc_archive_put_number(f, "histograms", c->need == QC_NEED_HISTOGRAM, st) && qc_archive_put_text(f, content_key, sha, st);
#define QC_TEXTS(path, rows, field, most) ok = ok && qc_archive_put_texts(f, path, t->rows, t->field, st);
#define QC_COLUMN(path, dtype, rows, columns, field, most) ok = ok && qc_archive_put(f, path, dtype, t->rows, columns, t->field, st);
#include "calib/statistics.def"
    ok = ok && qc_archive_bytes(bytes, size, f, st);
    qc_archive_free(f);
    qc_arena_free(a);
    return ok;
}

/* What was said twice must agree: rows of columns that belong together. */
static bool set_rows(size_t *rows, size_t got, bool *known, const char *path, struct qc_status *st)
{
    if (*known && *rows != got) return qc_fail(st, QC_BAD_INPUT, "data set '%s' has %zu rows, expected %zu", path, got, *rows);
    *known = true;
    *rows = got;
    return true;
}

static bool read_columns(struct columns *t, const struct qc_archive *f, struct qc_arena *a, struct qc_status *st)
{
    struct {
        bool part_count, range_count, count, edge_count, bin_count;
    } known = {0};
    size_t rows = 0;
    void *data = NULL;
    bool ok = true;
    *t = (struct columns){0};
#define QC_TEXTS(path, n, field, most)                                                                                 \
    ok = ok && qc_archive_get_texts(&t->field, &rows, f, path, most, a, st) && set_rows(&t->n, rows, &known.n, path, st);
#define QC_COLUMN(path, dtype, n, columns, target, most)                                                               \
    ok = ok && qc_archive_get(&data, &rows, f, path, dtype, columns, most, a, st) && set_rows(&t->n, rows, &known.n, path, st);   \
    t->target = data;
#include "calib/statistics.def"
    return ok;
}

bool qc_statistics_decode(struct qc_collection **out, const void *bytes, size_t size, struct qc_status *st)
{
    struct columns t;
    struct qc_collection *c = NULL;
    struct qc_archive *f = NULL;
    struct qc_arena *a = qc_arena_new();
    uint64_t version, histograms;
    const char *model, *inputs, *content;
    char sha[65];
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_archive_open(&f, bytes, size, st);
    if (ok && !qc_archive_number(&version, f, format_key, st)) {
        *st = QC_STATUS_INIT;
        ok = qc_fail(st, QC_BAD_INPUT, "this HDF5 file holds no statistics of qcalib; 'qcalib collect' makes them");
    }
    if (ok && version != QC_STATISTICS_VERSION)
        ok = qc_fail(st, QC_UNSUPPORTED, "statistics of version %llu; this program knows version %d", (unsigned long long)version, (int)QC_STATISTICS_VERSION);
    ok = ok && qc_archive_text(&model, f, "model_sha256", a, st) && qc_archive_text(&inputs, f, "inputs", a, st) &&
         qc_archive_number(&histograms, f, "histograms", st) && qc_archive_text(&content, f, content_key, a, st) && read_columns(&t, f, a, st) &&
         (is_sha256(model, true) || qc_fail(st, QC_BAD_INPUT, "the model's SHA-256 makes no sense")) &&
         take_columns(&c, &t, histograms ? QC_NEED_HISTOGRAM : QC_NEED_EXTREMES, st) && (c->inputs = qc_arena_strdup(c->arena, inputs, st));
    if (ok) {
        memcpy(c->model_sha256, model, strlen(model) + 1);
        ok = content_sha256(sha, c, &t, st) && (strcmp(sha, content) == 0 || qc_fail(st, QC_BAD_INPUT, "the file is damaged: its content does not fit its SHA-256; make or copy it again"));
    }
    if (ok) *out = c;
    else qc_collection_free(c);
    qc_archive_free(f);
    qc_arena_free(a);
    return ok;
}

bool qc_statistics_save(const char *path, const struct qc_collection *c, struct qc_status *st)
{
    struct qc_output *o = NULL;
    void *bytes = NULL;
    size_t size;
    bool ok = qc_statistics_encode(&bytes, &size, c, st) && qc_output_open(&o, path, st) && qc_output_write(o, bytes, size, st) && qc_output_commit(o, st);
    qc_output_free(o);
    free(bytes);
    return ok;
}

bool qc_statistics_load(struct qc_collection **out, const char *path, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    void *bytes;
    size_t size;
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_file_read(&bytes, &size, path, a, st) && (qc_statistics_decode(out, bytes, size, st) || qc_where(st, "%s", path));
    qc_arena_free(a);
    return ok;
}

bool qc_statistics_is(const char *path)
{
    return qc_archive_marked(path, format_key);
}
