// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "calib/statistics/statistics_parts.h"

enum { BINS = QC_COLUMNS_BINS, TALLY_COLUMNS = QC_COLUMNS_TALLY };

/* ---- Columns and collection ---- */

static void count_rows(struct qc_columns *t, const struct qc_collection *c)
{
    *t = (struct qc_columns){.part_count = c->part_count,
                             .range_count = c->range_count,
                             .count = c->count,
                             .edge_count = c->count + 1};
    for (size_t i = 0; i < c->count; i++) t->bin_count += c->values[i].histogram->used;
    qc_columns_count_more(t, c);
    qc_columns_count_channels(t, c);
}

static bool new_columns(struct qc_columns *t, struct qc_arena *a, struct qc_status *st)
{
    bool ok = true;
#define QC_TEXTS(path, rows, field, most) ok = ok && (t->field = QC_NEW_ARRAY(a, const char *, t->rows, st));
#define QC_COLUMN(path, dtype, rows, columns, field, most)                                                             \
    ok = ok && (t->field = qc_arena_get(a, t->rows * (columns ? columns : 1), sizeof *t->field, st));
#define QC_MORE_COLUMN(part, path, dtype, rows, columns, field, most) QC_COLUMN(path, dtype, rows, columns, field, most)
#include "calib/statistics/statistics.def"
    return ok;
}

static void put_where(uint64_t out[2], uint64_t id)
{
    out[0] = id == QC_NO_SAMPLE ? QC_NO_SAMPLE : QC_SAMPLE_PART(id);
    out[1] = id == QC_NO_SAMPLE ? QC_NO_SAMPLE : QC_SAMPLE_NUMBER(id);
}

static void fill_columns(struct qc_columns *t, const struct qc_collection *c)
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
        memcpy(t->tallies + TALLY_COLUMNS * i,
               (uint64_t[TALLY_COLUMNS]){s->count, s->zeros, s->nan, s->pos_inf, s->neg_inf, s->samples},
               TALLY_COLUMNS * sizeof *t->tallies);
        t->extremes[2 * i] = s->min;
        t->extremes[2 * i + 1] = s->max;
        put_where(t->where + 6 * i, s->min_sample);
        put_where(t->where + 6 * i + 2, s->max_sample);
        put_where(t->where + 6 * i + 4, s->first_bad_sample);
        t->exponent[i] = h->exponent;
        t->low_bits[i] = h->low_bits;
        t->first_bin[i] = bin;
        for (size_t k = 0; k < h->used; k++) {
            t->bin[bin] = h->slots[k];
            t->bin_values[bin++] = h->counts[k];
        }
    }
    t->first_bin[c->count] = bin;
}

bool qc_columns_of(struct qc_columns *t, const struct qc_collection *c, struct qc_arena *a, struct qc_status *st)
{
    count_rows(t, c);
    if (!new_columns(t, a, st)) return false;
    fill_columns(t, c);
    qc_columns_of_channels(t, c);
    return qc_columns_of_more(t, c, st);
}

/* ---- Checks of a file's content ---- */

static bool is_sha256(const char *s)
{
    return !*s || (strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64);
}

static bool take_parts(struct qc_collection *c, const struct qc_columns *t, struct qc_status *st)
{
    for (size_t i = 0; i < t->part_count; i++) {
        struct qc_part p = {.samples = t->part_samples[2 * i], .chosen = t->part_samples[2 * i + 1]};
        size_t index;
        if (!is_sha256(t->part_sha256[i]) || p.chosen > p.samples || p.samples >> QC_SAMPLE_BITS)
            return qc_fail(st, QC_BAD_INPUT, "part %zu of the data is invalid", i);
        memcpy(p.sha256, t->part_sha256[i], strlen(t->part_sha256[i]) + 1);
        if (!qc_collection_add_part(&index, c, &p, st)) return false;
        if (index != i || c->part_count != i + 1)
            return qc_fail(st, QC_BAD_INPUT, "the parts of the data are not in order");
    }
    for (size_t i = 0; i < t->range_count; i++) {
        struct qc_sample_range r = {.part = t->ranges[3 * i],
                                    .first = t->ranges[3 * i + 1],
                                    .count = t->ranges[3 * i + 2]};
        if (r.part >= c->part_count || !r.count || r.count > c->parts[r.part].samples ||
            r.first > c->parts[r.part].samples - r.count)
            return qc_fail(st, QC_BAD_INPUT, "the range of samples %zu is not in the data", i);
        if (!qc_collection_add_range(c, r, st)) return false;
    }
    return c->range_count == t->range_count || qc_fail(st, QC_BAD_INPUT, "the ranges of samples are not in order");
}

static bool take_where(uint64_t *id, const uint64_t from[2], const struct qc_collection *c)
{
    if (from[0] == QC_NO_SAMPLE && from[1] == QC_NO_SAMPLE)
        *id = QC_NO_SAMPLE;
    else if (from[0] < c->part_count && from[1] < c->parts[from[0]].samples)
        *id = QC_SAMPLE_ID(from[0], from[1]);
    else
        return false;
    return true;
}

static int32_t exponent_of(const struct qc_tally *t)
{
    float magnitude = fmaxf(fabsf(t->min), fabsf(t->max));
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    return t->count == t->zeros ? -1 : (int32_t)(bits >> 23);
}

/* Reads a histogram. Returns false unless its tally and its bins agree. */
static bool take_value(struct qc_collection *c, const struct qc_columns *t, size_t i, struct qc_status *st)
{
    struct qc_histogram *h = c->values[i].histogram;
    const uint64_t *n = t->tallies + TALLY_COLUMNS * i, *where = t->where + 6 * i;
    struct qc_tally s = {.count = n[0],
                         .zeros = n[1],
                         .nan = n[2],
                         .pos_inf = n[3],
                         .neg_inf = n[4],
                         .samples = n[5],
                         .min = t->extremes[2 * i],
                         .max = t->extremes[2 * i + 1]};
    if (!take_where(&s.min_sample, where, c) || !take_where(&s.max_sample, where + 2, c) ||
        !take_where(&s.first_bad_sample, where + 4, c))
        return false;
    if (s.zeros > s.count || !isfinite(s.min) || !isfinite(s.max) || s.min > s.max ||
        (s.count == s.zeros && (s.min != 0 || s.max != 0)))
        return false;
    if (t->exponent[i] != exponent_of(&s) || t->low_bits[i] >> QC_KEY_SHIFT) return false;
    uint64_t left = s.count - s.zeros;
    for (uint64_t b = t->first_bin[i]; b < t->first_bin[i + 1]; b++) {
        bool ascending = b == t->first_bin[i] || t->bin[b] > t->bin[b - 1],
             possible = t->bin[b] < QC_WINDOW_BINS ? s.max > 0 : s.min < 0;
        if (!ascending || !possible || t->bin[b] >= BINS || !t->bin_values[b] || t->bin_values[b] > left) return false;
        left -= t->bin_values[b];
    }
    h->tally = s;
    h->exponent = t->exponent[i];
    h->low_bits = t->low_bits[i];
    if (!h->binned) return true;
    return !left && qc_histogram_set(h, t->first_bin[i + 1] - t->first_bin[i], t->bin + t->first_bin[i],
                                     t->bin_values + t->first_bin[i], st);
}

static bool check_columns(const struct qc_columns *t, enum qc_need need, struct qc_status *st)
{
    bool ok = t->edge_count == t->count + 1 && t->first_bin[0] == 0 && t->first_bin[t->count] == t->bin_count &&
              (need == QC_NEED_HISTOGRAM || !t->bin_count);
    for (size_t i = 0; ok && i < t->count; i++) ok = t->first_bin[i] <= t->first_bin[i + 1];
    return ok || qc_fail(st, QC_BAD_INPUT, "the histograms are invalid");
}

bool qc_columns_take(struct qc_collection **out, const struct qc_columns *t, enum qc_need need, bool extremes,
                     bool moments, struct qc_status *st)
{
    struct qc_collection *c = NULL;
    bool ok = check_columns(t, need, st) && qc_collection_new(&c, t->count, t->names, need, st) && take_parts(c, t, st);
    for (size_t i = 0; ok && i < t->count; i++)
        if (!take_value(c, t, i, st))
            ok = st->code == QC_OK &&
                 qc_fail(st, QC_BAD_INPUT, "the statistics of tensor '%s' are inconsistent", t->names[i]);
    ok = ok && qc_columns_take_more(c, t, extremes, moments, st) && qc_columns_take_channels(c, t, st);
    if (ok)
        *out = c;
    else
        qc_collection_free(c);
    return ok;
}
