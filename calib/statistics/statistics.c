// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/scope.h"
#include "calib/moments/moments_parts.h"
#include "calib/statistics/collection.h"
#include "datasets/hdf5/archive.h"

/* Converts statistics of channels to columns of a statistics file and back. */

enum { COUNTERS = 2 * QC_CHANNEL_WINDOW_BINS };

static void columns_of_channels(struct qc_columns *t, const struct qc_collection *c)
{
    size_t at = 0, bin = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct qc_channel_histogram *h = c->values[i].channels;
        t->channel_axis[i] = h ? h->axis : -1;
        t->first_channel[i] = at;
        for (size_t k = 0; h && k < h->channels; k++, at++) {
            const struct qc_channel_tally *s = &h->tallies[k];
            t->channel_tally[2 * at] = s->count;
            t->channel_tally[2 * at + 1] = s->zeros;
            t->channel_extremes[2 * at] = s->min;
            t->channel_extremes[2 * at + 1] = s->max;
            t->channel_exponent[at] = s->exponent;
            t->channel_first_bin[at] = bin;
            for (size_t b = 0; b < COUNTERS; b++) {
                if (!h->counts[k * COUNTERS + b]) continue;
                t->channel_bin[bin] = (uint16_t)b;
                t->channel_bin_values[bin++] = h->counts[k * COUNTERS + b];
            }
        }
    }
    t->first_channel[c->count] = at;
    t->channel_first_bin[at] = bin;
}

/* Reads a channel. Returns false unless its tally and its bins agree. */
static bool take_channel(struct qc_channel_histogram *h, size_t k, const struct qc_columns *t, size_t at)
{
    struct qc_channel_tally s = {.count = t->channel_tally[2 * at],
                                 .zeros = t->channel_tally[2 * at + 1],
                                 .min = t->channel_extremes[2 * at],
                                 .max = t->channel_extremes[2 * at + 1],
                                 .exponent = t->channel_exponent[at]};
    const float magnitude = fmaxf(fabsf(s.min), fabsf(s.max));
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    if (s.zeros > s.count || !isfinite(s.min) || !isfinite(s.max) || s.min > s.max ||
        s.exponent != (s.count == s.zeros ? -1 : (int32_t)(bits >> 23)) || (s.count == s.zeros && magnitude != 0))
        return false;
    uint64_t left = s.count - s.zeros;
    for (uint64_t b = t->channel_first_bin[at]; b < t->channel_first_bin[at + 1]; b++) {
        const bool ascending = b == t->channel_first_bin[at] || t->channel_bin[b] > t->channel_bin[b - 1],
                   possible = t->channel_bin[b] < QC_CHANNEL_WINDOW_BINS ? s.max > 0 : s.min < 0;
        if (!ascending || !possible || t->channel_bin[b] >= COUNTERS || !t->channel_bin_values[b] ||
            t->channel_bin_values[b] > left)
            return false;
        left -= t->channel_bin_values[b];
        h->counts[k * COUNTERS + t->channel_bin[b]] = t->channel_bin_values[b];
    }
    h->tallies[k] = s;
    return !left;
}

static bool columns_take_channels(struct qc_collection *c, const struct qc_columns *t, struct qc_status *st)
{
    c->channels = t->channels;
    if (!t->channels) return true;
    bool ok = t->edge_count == t->count + 1 && t->channel_edge_count == t->channel_count + 1 &&
              t->first_channel[0] == 0 && t->first_channel[t->count] == t->channel_count &&
              t->channel_first_bin[0] == 0 && t->channel_first_bin[t->channel_count] == t->channel_bin_count;
    for (size_t i = 0; ok && i < t->count; i++) {
        ok =
            t->first_channel[i] <= t->first_channel[i + 1] &&
            t->first_channel[i + 1] - t->first_channel[i] <= QC_CHANNELS_MAX &&
            (t->first_channel[i] < t->first_channel[i + 1] ? t->channel_axis[i] >= 0 && t->channel_axis[i] < QC_RANK_MAX
                                                           : t->channel_axis[i] == -1);
    }
    for (size_t i = 0; ok && i < t->channel_count; i++) ok = t->channel_first_bin[i] <= t->channel_first_bin[i + 1];
    if (!ok) return qc_fail(st, QC_BAD_INPUT, "the statistics of channels are invalid");
    for (size_t i = 0; i < t->count; i++) {
        const size_t first = (size_t)t->first_channel[i], count = (size_t)t->first_channel[i + 1] - first;
        if (!qc_collection_add_channels(c, i, t->channel_axis[i], (int64_t)count, st)) return false;
        for (size_t k = 0; k < count; k++)
            if (!take_channel(c->values[i].channels, k, t, first + k))
                return qc_fail(st, QC_BAD_INPUT, "the statistics of channel %zu of tensor '%s' are inconsistent", k,
                               t->names[i]);
    }
    return true;
}

/* Converts second moments and the extremes of every sample to columns of a statistics file and back. */

/* In the file each matrix of lanes is a triangle of its own; other matrices have the same layout in memory. */
static void unpack_products(int64_t *products, const int64_t *packed, const struct qc_second_moments_layer *l)
{
    for (size_t g = 0; g < l->groups; g++)
        for (size_t b = 0; b < l->blocks; b++)
            for (size_t k = 0; k < qc_second_moments_width(l, b); k++)
                for (size_t j = 0; j <= k; j++) products[qc_second_moments_product_at(l, g, b, j, k)] = *packed++;
}

/* ---- To columns ---- */

/* The part of both that is not histograms. The first one counts rows, the second one fills allocated columns. */
static void columns_count_more(struct qc_columns *t, const struct qc_collection *of)
{
    const struct qc_second_moments *m = of->second_moments;
    t->series_count = of->extremes ? of->extremes->count : 0;
    t->end_count = of->extremes ? of->extremes->values * of->extremes->count : 0;
    t->layer_count = m ? qc_second_moments_count(m) : 0;
    t->moment_count = t->layer_count * QC_MOMENTS_PARTS;
    for (size_t i = 0; i < t->moment_count; i++) {
        const struct qc_second_moments_layer *l = qc_second_moments_at(m, i / QC_MOMENTS_PARTS);
        const struct qc_second_moments_moments *part = &l->parts[i % QC_MOMENTS_PARTS];
        for (int32_t c = part->top - QC_MOMENTS_CLASSES + 1; part->seen && c <= part->top; c++) {
            const struct qc_second_moments_sums *s = qc_moment_sums_of(part, c);
            if (!s) continue;
            t->class_count++;
            t->sum_count += qc_second_moments_row(l);
            t->product_count += s->rows ? 0 : qc_moment_packed_count(l);
            t->kept_count += s->row_count;
            t->entry_count += s->row_count * qc_second_moments_row(l);
        }
    }
    t->kept = t->kept_count != 0;
}

/* Fills the columns except for products and entries, which qc_moment_source_next computes. */
static bool fill_moments(struct qc_columns *t, const struct qc_second_moments *m, struct qc_status *st)
{
    int64_t *sums = t->sums;
    int32_t *class = t->classes;
    uint64_t *rows = t->class_rows;
    uint8_t *steps = t->kept_steps;
    for (size_t i = 0; i < t->layer_count; i++) {
        const struct qc_second_moments_layer *l = qc_second_moments_at(m, i);
        t->layer_inputs[i] = l->name;
        t->layer_geometry[i] = l->geometry;
        memcpy(t->layer_sizes + QC_COLUMNS_SIZES * i,
               (uint64_t[QC_COLUMNS_SIZES]){l->groups, l->outputs, l->channels, l->taps, l->block},
               QC_COLUMNS_SIZES * sizeof *t->layer_sizes);
        for (size_t p = 0; p < QC_MOMENTS_PARTS; p++) {
            const struct qc_second_moments_moments *part = &l->parts[p];
            memcpy(t->moments + 3 * (i * QC_MOMENTS_PARTS + p), (uint64_t[3]){part->rows, part->samples, part->skipped},
                   3 * sizeof *t->moments);
            for (int32_t c = part->top - QC_MOMENTS_CLASSES + 1; part->seen && c <= part->top; c++) {
                const struct qc_second_moments_sums *s = qc_moment_sums_of(part, c);
                if (!s) continue;
                memcpy(class, (int32_t[3]){(int32_t)i, (int32_t)p, c}, 3 * sizeof *class);
                memcpy(sums, s->sums, qc_second_moments_row(l) * sizeof *sums);
                class += 3;
                sums += qc_second_moments_row(l);
                *rows++ = s->row_count;
                if (s->rows && !qc_moment_steps(steps, l, s, st)) return false;
                steps += s->row_count;
            }
        }
    }
    return true;
}

/* ---- From columns ---- */

static bool take_series(struct qc_collection *c, const struct qc_columns *t, struct qc_status *st)
{
    if (t->end_count != t->count * t->series_count)
        return qc_fail(st, QC_BAD_INPUT, "the extremes of samples are invalid");
    if (!qc_extremes_table_new(&c->extremes, t->count, t->series_count, st)) return false;
    for (size_t i = 0; i < t->series_count; i++) {
        const uint64_t part = t->series[2 * i], number = t->series[2 * i + 1];
        c->extremes->samples[i] = QC_SAMPLE_ID(part, number);
        if (part >= c->part_count || number >= c->parts[part].samples || !qc_collection_has_sample(c, part, number) ||
            (i && c->extremes->samples[i - 1] >= c->extremes->samples[i]))
            return qc_fail(st, QC_BAD_INPUT, "the extremes belong to samples that were not seen, or are not in order");
    }
    for (size_t i = 0; i < t->end_count; i++) {
        const struct qc_ends e = {.min = t->ends[2 * i], .max = t->ends[2 * i + 1]};
        if (isnan(e.min) || isnan(e.max) || (e.min <= e.max && (isinf(e.min) || isinf(e.max))))
            return qc_fail(st, QC_BAD_INPUT, "an extreme of a sample is not finite");
        c->extremes->ends[i] = e;
    }
    return true;
}

/* Returns true if no entry exceeds `rows` products of two entries of the largest magnitude, at the highest step of a
   class. */
static bool sums_fit(const int64_t *x, size_t n, uint64_t rows, int shift)
{
    const int64_t most = rows > (uint64_t)INT64_MAX >> shift ? INT64_MAX : (int64_t)(rows << shift);
    for (size_t i = 0; i < n; i++)
        if (x[i] > most || x[i] < -most) return false;
    return true;
}

/* Positions in the columns. */
struct taken {
    size_t sums, products, rows, entries;
};

/* Reads the rows of a class. Fails unless they add up to the sums in the file. */
static bool take_rows(struct qc_second_moments_sums *s, const struct qc_columns *t, struct taken *at, uint64_t count,
                      const struct qc_second_moments_layer *l, struct qc_status *st)
{
    const size_t row = qc_second_moments_row(l);
    const uint8_t *steps = t->kept_steps + at->rows;
    const int16_t *entries = t->entries + at->entries;
    bool ok = true;
    for (size_t i = 0; i < count * row; i++)
        ok = ok && entries[i] >= -QC_MOMENTS_LEVEL && entries[i] <= QC_MOMENTS_LEVEL;
    for (size_t i = 0; i < count; i++) ok = ok && steps[i] < QC_MOMENTS_STEPS;
    for (size_t i = 0, n; ok && i < count; i += n) {
        for (n = 1; i + n < count && n < QC_MOMENTS_ROWS && steps[i + n] == steps[i]; n++) {
        }
        qc_second_moments_sums(s->sums, entries + i * row, n, row, 2 * steps[i]);
        if (!qc_second_moments_keep(s, l, entries + i * row, n, steps[i], st)) return false;
    }
    ok = ok && memcmp(s->sums, t->sums + at->sums, row * sizeof *s->sums) == 0;
    at->rows += count;
    at->entries += count * row;
    return ok || qc_fail(st, QC_BAD_INPUT, "the rows of '%s' contradict their sums", l->name);
}

static bool take_class(struct qc_collection *c, const struct qc_columns *t, size_t at, struct taken *taken,
                       struct qc_status *st)
{
    enum { LARGEST = 64 };
    const int32_t *key = t->classes + 3 * at, *before = at ? key - 3 : NULL;
    const bool ascends = !before || key[0] > before[0] ||
                         (key[0] == before[0] && (key[1] > before[1] || (key[1] == before[1] && key[2] > before[2])));
    if (key[0] < 0 || (size_t)key[0] >= t->layer_count || key[1] < 0 || key[1] >= QC_MOMENTS_PARTS ||
        key[2] < -LARGEST || key[2] > LARGEST || !ascends)
        return qc_fail(st, QC_BAD_INPUT, "class %zu of the second moments is invalid", at);
    struct qc_second_moments_layer *l = qc_second_moments_at(c->second_moments, (size_t)key[0]);
    struct qc_second_moments_moments *part = &l->parts[key[1]];
    const uint64_t rows = t->kept ? t->class_rows[at] : 0;
    const size_t row = qc_second_moments_row(l), packed = rows ? 0 : qc_moment_packed_count(l);
    struct qc_second_moments_sums *s = NULL;
    if ((before && before[0] == key[0] && before[1] == key[1] && key[2] - before[2] >= QC_MOMENTS_CLASSES) ||
        row > t->sum_count - taken->sums || packed > t->product_count - taken->products || rows > l->keep ||
        rows > part->rows || rows > t->kept_count - taken->rows || rows * row > t->entry_count - taken->entries ||
        !sums_fit(t->sums + taken->sums, row, part->rows, 17) ||
        !sums_fit(t->products + taken->products, packed, part->rows, 34))
        return qc_fail(st, QC_BAD_INPUT, "the second moments of '%s' are inconsistent", l->name);
    if (!qc_second_moments_class(&s, l, (enum qc_second_moments_part)key[1], key[2], st)) return false;
    if (rows) {
        if (!take_rows(s, t, taken, rows, l, st)) return false;
    } else {
        if (!qc_second_moments_widen(s, l, st)) return false;
        memcpy(s->sums, t->sums + taken->sums, row * sizeof *s->sums);
        unpack_products(s->products, t->products + taken->products, l);
    }
    taken->sums += row;
    taken->products += packed;
    return true;
}

static bool take_moments(struct qc_collection *c, const struct qc_columns *t, struct qc_status *st)
{
    struct taken taken = {0};
    if (t->moment_count != t->layer_count * QC_MOMENTS_PARTS)
        return qc_fail(st, QC_BAD_INPUT, "the second moments are invalid");
    /* Restore the layers from the sizes in the file */
    struct qc_second_moments_layer *layers = QC_NEW_ARRAY(c->arena, struct qc_second_moments_layer, t->layer_count, st);
    if (!layers) return false;
    for (size_t i = 0; i < t->layer_count; i++) {
        const uint64_t *n = t->layer_sizes + QC_COLUMNS_SIZES * i;
        layers[i] = (struct qc_second_moments_layer){.name = t->layer_inputs[i],
                                                     .geometry = t->layer_geometry[i],
                                                     .groups = (size_t)n[0],
                                                     .outputs = (size_t)n[1],
                                                     .channels = (size_t)n[2],
                                                     .taps = (size_t)n[3],
                                                     .block = (size_t)n[4]};
    }
    if (!qc_second_moments_restore(&c->second_moments, t->layer_count, layers, st)) return false;
    for (size_t i = 0; i < t->moment_count; i++) {
        const uint64_t *n = t->moments + 3 * i;
        struct qc_second_moments_layer *l = qc_second_moments_at(c->second_moments, i / QC_MOMENTS_PARTS);
        if (n[0] > QC_MOMENTS_ROWS_MAX)
            return qc_fail(st, QC_BAD_INPUT, "the second moments of '%s' have too many rows", l->name);
        qc_second_moments_add_counts(&l->parts[i % QC_MOMENTS_PARTS], n[0], n[1], n[2]);
    }
    for (size_t i = 0; i < t->class_count; i++)
        if (!take_class(c, t, i, &taken, st)) return false;
    return (taken.sums == t->sum_count && taken.products == t->product_count && taken.rows == t->kept_count &&
            taken.entries == t->entry_count) ||
           qc_fail(st, QC_BAD_INPUT, "there are more second moments than layers for them");
}

static bool columns_take_more(struct qc_collection *c, const struct qc_columns *t, bool extremes, bool moments,
                              struct qc_status *st)
{
    if ((!extremes && (t->series_count || t->end_count)) ||
        (!moments && (t->layer_count || t->moment_count || t->class_count || t->sum_count || t->product_count ||
                      t->kept_count || t->entry_count)))
        return qc_fail(st, QC_BAD_INPUT, "the file holds statistics that its attributes exclude");
    return (!extremes || take_series(c, t, st)) && (!moments || take_moments(c, t, st));
}

enum { BINS = QC_COLUMNS_BINS, TALLY_COLUMNS = QC_COLUMNS_TALLY };

/* ---- Columns and collection ---- */

static bool new_columns(struct qc_columns *t, struct qc_arena *a, struct qc_status *st)
{
    bool ok = true;
#define QC_TEXTS(path, rows, field, most) ok = ok && (t->field = QC_NEW_ARRAY(a, const char *, t->rows, st));
#define QC_COLUMN(path, dtype, rows, columns, field, most)                                                             \
    ok = ok && (qc_moment_column_of(path) != QC_MOMENT_NONE ||                                                         \
                (t->field = qc_arena_get(a, t->rows * (columns ? columns : 1), sizeof *t->field, st)));
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

/* Makes the columns of a collection except for those of struct qc_moment_source, which are NULL; arrays from the arena,
   strings borrowed. */
static bool columns_of(struct qc_columns *t, const struct qc_collection *c, struct qc_arena *a, struct qc_status *st)
{
    *t = (struct qc_columns){.part_count = c->part_count,
                             .range_count = c->range_count,
                             .count = c->count,
                             .edge_count = c->count + 1};
    for (size_t i = 0; i < c->count; i++) t->bin_count += c->values[i].histogram->used;
    columns_count_more(t, c);
    t->channels = c->channels;
    for (size_t i = 0; i < c->count; i++) {
        const struct qc_channel_histogram *h = c->values[i].channels;
        t->channel_count += h ? h->channels : 0;
        for (size_t k = 0; h && k < h->channels * COUNTERS; k++) t->channel_bin_count += h->counts[k] != 0;
    }
    t->channel_edge_count = t->channel_count + 1;
    if (!new_columns(t, a, st)) return false;
    fill_columns(t, c);
    columns_of_channels(t, c);
    for (size_t i = 0; i < t->series_count; i++) {
        t->series[2 * i] = QC_SAMPLE_PART(c->extremes->samples[i]);
        t->series[2 * i + 1] = QC_SAMPLE_NUMBER(c->extremes->samples[i]);
    }
    for (size_t i = 0; i < t->end_count; i++) {
        t->ends[2 * i] = c->extremes->ends[i].min;
        t->ends[2 * i + 1] = c->extremes->ends[i].max;
    }
    return fill_moments(t, c->second_moments, st);
}

/* ---- Checks of a file's content ---- */

static bool is_sha256(const char *s)
{
    return !*s || (strlen(s) == 64 && strspn(s, "0123456789abcdef") == 64);
}

static bool take_data_parts(struct qc_collection *c, const struct qc_columns *t, struct qc_status *st)
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
    bool ok =
        check_columns(t, need, st) && qc_collection_new(&c, t->count, t->names, need, st) && take_data_parts(c, t, st);
    for (size_t i = 0; ok && i < t->count; i++)
        if (!take_value(c, t, i, st))
            ok = st->code == QC_OK &&
                 qc_fail(st, QC_BAD_INPUT, "the statistics of tensor '%s' are inconsistent", t->names[i]);
    ok = ok && columns_take_more(c, t, extremes, moments, st) && columns_take_channels(c, t, st);
    return QC_HAND_OVER(ok, out, c, qc_collection_free);
}

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

/* Computes the SHA-256 of a column that is not in memory. */
static bool computed_sha256(char hex[65], const char *path, size_t rows, size_t element, const struct qc_collection *c,
                            struct qc_status *st)
{
    enum { PART = 1 << 14 };
    QC_FREED void *part = malloc(PART * element);
    struct qc_moment_source from = qc_moment_source_of(c->second_moments, qc_moment_column_of(path));
    struct qc_sha256_sum *sum = NULL;
    bool ok = part ? qc_sha256_begin(&sum, st) : qc_fail_memory(st, PART * element);
    for (size_t n; ok && rows; rows -= n) {
        n = rows < PART ? rows : PART;
        ok = qc_moment_source_next(&from, part, n, st) && qc_sha256_add(sum, part, n * element, st);
    }
    ok = ok && qc_sha256_end(hex, sum, st);
    qc_sha256_free(sum);
    qc_moment_source_end(&from);
    return ok;
}

static bool column_sha256(char hex[65], const char *path, const void *data, size_t rows, size_t element,
                          const struct qc_collection *c, struct qc_status *st)
{
    return data ? qc_sha256(hex, data, rows * element, st) : computed_sha256(hex, path, rows, element, c, st);
}

static bool put_column(struct qc_archive *f, const char *path, enum qc_dtype dtype, size_t rows, size_t columns,
                       const void *data, const struct qc_collection *c, struct qc_status *st)
{
    if (data) return qc_archive_put(f, path, dtype, rows, columns, data, st);
    struct qc_moment_source from = qc_moment_source_of(c->second_moments, qc_moment_column_of(path));
    const bool ok = qc_archive_put_from(f, path, dtype, rows, columns, qc_moment_source_next, &from, st);
    qc_moment_source_end(&from);
    return ok;
}

/* Computes the SHA-256 of the content: a line for each text, and for the SHA-256 of each column. Columns that are NULL
   are computed from the second moments of c. */
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
    ok = ok && column_sha256(column, path, t->field, t->rows * (columns ? columns : 1), sizeof *t->field, c, st);      \
    fprintf(f, "%s\n", column);
#define QC_MORE_COLUMN(part, path, dtype, rows, columns, field, most)                                                  \
    if (t->part) {                                                                                                     \
        ok = ok && column_sha256(column, path, t->field, t->rows * (columns ? columns : 1), sizeof *t->field, c, st);  \
        fprintf(f, "%s\n", column);                                                                                    \
    }
    ok = fclose(f) == 0 ? ok && qc_sha256(hex, bytes, size, st) : qc_fail_memory(st, size);
    free(bytes);
    return ok;
}

/* Fails if a data set has more rows than a reader accepts. */
static bool rows_fit(const char *path, size_t rows, size_t most, struct qc_status *st)
{
    return rows <= most || qc_fail(st, QC_UNSUPPORTED,
                                   "data set '%s' would have %zu rows, but a reader accepts %zu; collect from fewer "
                                   "samples or a smaller model",
                                   path, rows, most);
}

/* Makes the archive of a collection. */
static bool archive_of(struct qc_archive **out, const struct qc_collection *c, struct qc_status *st)
{
    struct qc_columns columns, *t = &columns;
    struct qc_archive *f = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    char sha[65];
    if (!a) return qc_fail_memory(st, 1);
    bool ok = columns_of(t, c, a, st) && content_sha256(sha, c, t, st) && qc_archive_new(&f, st) &&
              qc_archive_put_number(f, format_key, version_of(t->channels, t->kept), st) &&
              qc_archive_put_text(f, "model_sha256", c->model_sha256, st) &&
              qc_archive_put_text(f, "inputs", c->inputs, st) &&
              qc_archive_put_number(f, "histograms", c->need == QC_NEED_HISTOGRAM, st) &&
              qc_archive_put_number(f, "sample_extremes", c->extremes != NULL, st) &&
              qc_archive_put_number(f, "second_moments", c->second_moments != NULL, st) &&
              qc_archive_put_text(f, content_key, sha, st);
#define QC_TEXTS(path, rows, field, most)                                                                              \
    ok = ok && rows_fit(path, t->rows, most, st) && qc_archive_put_texts(f, path, t->rows, t->field, st);
#define QC_COLUMN(path, dtype, rows, columns, field, most)                                                             \
    ok = ok && rows_fit(path, t->rows, most, st) && put_column(f, path, dtype, t->rows, columns, t->field, c, st);
#define QC_MORE_COLUMN(part, path, dtype, rows, columns, field, most)                                                  \
    ok = ok && (!t->part ||                                                                                            \
                (rows_fit(path, t->rows, most, st) && put_column(f, path, dtype, t->rows, columns, t->field, c, st)));
    return QC_HAND_OVER(ok, out, f, qc_archive_free);
}

bool qc_statistics_encode(void **bytes, size_t *size, const struct qc_collection *c, struct qc_status *st)
{
    struct qc_archive *f = NULL;
    const bool ok = archive_of(&f, c, st) && qc_archive_bytes(bytes, size, f, st);
    qc_archive_free(f);
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
    return ok;
}

bool qc_statistics_decode(struct qc_collection **out, const void *bytes, size_t size, struct qc_status *st)
{
    struct qc_columns t;
    struct qc_collection *c = NULL;
    struct qc_archive *f = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
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
    return ok;
}

bool qc_statistics_save(const char *path, const struct qc_collection *c, struct qc_status *st)
{
    struct qc_archive *f = NULL;
    const bool ok = archive_of(&f, c, st) && qc_archive_save(path, f, st);
    qc_archive_free(f);
    return ok;
}

bool qc_statistics_load(struct qc_collection **out, const char *path, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    void *bytes;
    size_t size;
    if (!a) return qc_fail_memory(st, 1);
    return qc_file_read(&bytes, &size, path, a, st) &&
           (qc_statistics_decode(out, bytes, size, st) || qc_where(st, "%s", path));
}

bool qc_statistics_is(bool *is, const char *path, struct qc_status *st)
{
    return qc_archive_marked(is, path, format_key, st);
}
