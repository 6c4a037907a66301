// SPDX-License-Identifier: Apache-2.0
#include "calib/statistics/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/scope.h"
#include "base/sha256.h"
#include "calib/moments/moments_parts.h"
#include "datasets/hdf5/archive.h"

const struct qc_column_info *qc_column_info(enum qc_column k)
{
    static const struct qc_column_info all[] = {
#define QC_COLUMN(id, path, dtype, rows, columns, exists, most)                                                        \
    [QC_COLUMN_##id] = {path, dtype, QC_COLUMN_##rows, columns, QC_COLUMN_##exists, most},
#include "calib/statistics/statistics.def"
    };
    return &all[k];
}

size_t qc_column_bytes(enum qc_column k)
{
    const struct qc_column_info *i = qc_column_info(k);
    return (i->columns ? i->columns : 1) * (i->dtype == QC_NONE ? sizeof(char *) : qc_dtype_size(i->dtype));
}

bool qc_columns_have(const struct qc_columns *t, enum qc_column k)
{
    const struct qc_column_info *i = qc_column_info(k);
    switch (i->exists) {
    case QC_COLUMN_ALWAYS: return true;
    case QC_COLUMN_KEPT: return t->kept;
    case QC_COLUMN_CHANNELS: return t->channels;
    case QC_COLUMN_SIZES: return t->sizes;
    }
    return false;
}

/* ---- Visiting the content: one description for counting rows, writing and reading ---- */

/* COUNT: counts the rows of all columns. PUT: fills the columns of a collection, except for products and entries, which
   qc_moment_source_next computes. TAKE: fills a collection, and fails if the columns are inconsistent. */
struct visitor {
    enum visit_pass { COUNT, PUT, TAKE } pass;
    const struct qc_columns *t;
    size_t at[QC_COLUMN_COUNT]; /* rows passed */
    struct qc_status *st;
};

/* Copies the next rows between a column and x. */
static void move_rows(struct visitor *v, enum qc_column k, void *x, size_t rows)
{
    const size_t bytes = qc_column_bytes(k);
    char *column = v->t->of[k];
    if (v->pass != COUNT && column && rows)
        memcpy(v->pass == PUT ? column + v->at[k] * bytes : x, v->pass == PUT ? x : column + v->at[k] * bytes,
               rows * bytes);
    v->at[k] += rows;
}

/* The same for the n elements of one row. */
static void move_row(struct visitor *v, enum qc_column k, void *const x[], size_t n)
{
    const size_t size = qc_column_bytes(k) / n;
    char *row = v->pass == COUNT || !v->t->of[k] ? NULL : (char *)v->t->of[k] + v->at[k] * n * size;
    for (size_t i = 0; row && i < n; i++, row += size)
        memcpy(v->pass == PUT ? row : x[i], v->pass == PUT ? x[i] : row, size);
    v->at[k]++;
}
#define MOVE(v, id, ...)                                                                                               \
    move_row(v, QC_COLUMN_##id, (void *[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))

/* Returns the rows to visit. */
static size_t rows_of(const struct visitor *v, enum qc_column rows, size_t count)
{
    return v->pass == TAKE ? v->t->rows[rows] : count;
}

/* Returns the edge after the one that was passed last. */
static size_t next_edge(const struct visitor *v, enum qc_column k)
{
    return (size_t)((const uint64_t *)v->t->of[k])[v->at[k]];
}

static bool visit_largest(struct visitor *v, struct qc_collection *c)
{
    struct qc_largest_sample *s = &c->largest;
    const size_t count = rows_of(v, QC_COLUMN_LARGEST, s->count);
    if (v->pass == TAKE) {
        if (!(s->sizes = QC_NEW_ARRAY(c->arena, int64_t, count + 1, v->st))) return false;
        s->count = count;
    }
    for (size_t i = 0; i < count; i++) {
        MOVE(v, LARGEST, &s->sizes[i]);
        if (s->sizes[i] < 0) return qc_fail(v->st, QC_BAD_INPUT, "a size of the largest sample is negative");
    }
    return true;
}

static bool visit_data(struct visitor *v, struct qc_collection *c)
{
    const bool take = v->pass == TAKE;
    const size_t parts = rows_of(v, QC_COLUMN_PART_SHA256, c->part_count),
                 ranges = rows_of(v, QC_COLUMN_RANGES, c->range_count);
    for (size_t i = 0; i < parts; i++) {
        struct qc_part p = take ? (struct qc_part){.samples = 0} : c->parts[i];
        const char *sha = take ? NULL : c->parts[i].sha256;
        size_t index;
        MOVE(v, PART_SHA256, &sha);
        MOVE(v, PART_SAMPLES, &p.samples, &p.chosen);
        if (!take) continue;
        if ((*sha && (strlen(sha) != 64 || strspn(sha, "0123456789abcdef") != 64)) || p.chosen > p.samples ||
            p.samples >> QC_SAMPLE_BITS)
            return qc_fail(v->st, QC_BAD_INPUT, "part %zu of the data is invalid", i);
        memcpy(p.sha256, sha, strlen(sha) + 1);
        if (!qc_collection_add_part(&index, c, &p, v->st)) return false;
        if (index != i || c->part_count != i + 1)
            return qc_fail(v->st, QC_BAD_INPUT, "the parts of the data are not in order");
    }
    for (size_t i = 0; i < ranges; i++) {
        struct qc_sample_range r = take ? (struct qc_sample_range){.part = 0} : c->ranges[i];
        MOVE(v, RANGES, &r.part, &r.first, &r.count);
        if (!take) continue;
        if (r.part >= c->part_count || !r.count || r.count > c->parts[r.part].samples ||
            r.first > c->parts[r.part].samples - r.count)
            return qc_fail(v->st, QC_BAD_INPUT, "the range of samples %zu is not in the data", i);
        if (!qc_collection_add_range(c, r, v->st)) return false;
    }
    if (c->range_count != ranges) return qc_fail(v->st, QC_BAD_INPUT, "the ranges of samples are not in order");
    return visit_largest(v, c);
}

/* Moves the numbers of three samples. Returns false if one of them is not in the data. */
static bool move_where(struct visitor *v, const struct qc_collection *c, uint64_t *const ids[3])
{
    uint64_t w[3][2];
    for (size_t k = 0; k < 3; k++) {
        w[k][0] = *ids[k] == QC_NO_SAMPLE ? QC_NO_SAMPLE : QC_SAMPLE_PART(*ids[k]);
        w[k][1] = *ids[k] == QC_NO_SAMPLE ? QC_NO_SAMPLE : QC_SAMPLE_NUMBER(*ids[k]);
    }
    move_rows(v, QC_COLUMN_WHERE, w, 1);
    for (size_t k = 0; v->pass == TAKE && k < 3; k++) {
        const bool none = w[k][0] == QC_NO_SAMPLE && w[k][1] == QC_NO_SAMPLE;
        if (!none && (w[k][0] >= c->part_count || w[k][1] >= c->parts[w[k][0]].samples)) return false;
        *ids[k] = none ? QC_NO_SAMPLE : QC_SAMPLE_ID(w[k][0], w[k][1]);
    }
    return true;
}

/* Returns true if extremes and the exponent of the largest magnitude are possible for a tally. */
static bool tally_agrees(uint64_t count, uint64_t zeros, float min, float max, int32_t exponent)
{
    const float magnitude = fmaxf(fabsf(min), fabsf(max));
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    return zeros <= count && isfinite(min) && isfinite(max) && min <= max &&
           exponent == (count == zeros ? -1 : (int32_t)(bits >> 23)) && (count != zeros || magnitude == 0);
}

/* Returns true if bins ascend, are possible, and hold `left` values together. window: bins of a sign. */
static bool bins_agree(uint64_t left, float min, float max, size_t window, const uint16_t *bin, const uint64_t *values,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const bool possible = bin[i] < window ? max > 0 : min < 0;
        if ((i && bin[i] <= bin[i - 1]) || !possible || bin[i] >= 2 * window || !values[i] || values[i] > left)
            return false;
        left -= values[i];
    }
    return !left;
}

/* Returns false unless the tally of a histogram and its bins agree. */
static bool visit_value(struct visitor *v, struct qc_collection *c, size_t i)
{
    struct qc_histogram *h = c->values[i].histogram;
    struct qc_tally *s = &h->tally;
    const char *name = c->values[i].name;
    uint64_t first = v->at[QC_COLUMN_BIN];
    MOVE(v, NAME, &name);
    MOVE(v, TALLY, &s->count, &s->zeros, &s->nan, &s->pos_inf, &s->neg_inf, &s->samples);
    MOVE(v, EXTREMES, &s->min, &s->max);
    if (!move_where(v, c, (uint64_t *[]){&s->min_sample, &s->max_sample, &s->first_bad_sample})) return false;
    MOVE(v, EXPONENT, &h->exponent);
    MOVE(v, LOW_BITS, &h->low_bits);
    MOVE(v, FIRST_BIN, &first);
    if (v->pass != TAKE) {
        move_rows(v, QC_COLUMN_BIN, h->slots, h->used);
        move_rows(v, QC_COLUMN_BIN_VALUES, h->counts, h->used);
        return true;
    }
    const size_t n = next_edge(v, QC_COLUMN_FIRST_BIN) - first;
    const uint16_t *bin = (const uint16_t *)v->t->of[QC_COLUMN_BIN] + first;
    const uint64_t *values = (const uint64_t *)v->t->of[QC_COLUMN_BIN_VALUES] + first;
    return tally_agrees(s->count, s->zeros, s->min, s->max, h->exponent) && !(h->low_bits >> QC_KEY_SHIFT) &&
           (!h->binned || (bins_agree(s->count - s->zeros, s->min, s->max, QC_WINDOW_BINS, bin, values, n) &&
                           qc_histogram_set(h, n, bin, values, v->st)));
}

static bool visit_values(struct visitor *v, struct qc_collection *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (!visit_value(v, c, i))
            return v->st->code == QC_OK &&
                   qc_fail(v->st, QC_BAD_INPUT, "the statistics of tensor '%s' are inconsistent", c->values[i].name);
    MOVE(v, FIRST_BIN, &(uint64_t){v->at[QC_COLUMN_BIN]});
    return true;
}

/* Extremes of every sample. */
static bool visit_series(struct visitor *v, struct qc_collection *c)
{
    struct qc_extremes_table *e = c->extremes;
    for (size_t i = 0; e && i < e->count; i++) {
        uint64_t part = QC_SAMPLE_PART(e->samples[i]), number = QC_SAMPLE_NUMBER(e->samples[i]);
        MOVE(v, SERIES, &part, &number);
        if (v->pass != TAKE) continue;
        e->samples[i] = QC_SAMPLE_ID(part, number);
        if (part >= c->part_count || number >= c->parts[part].samples || !qc_collection_has_sample(c, part, number) ||
            (i && e->samples[i - 1] >= e->samples[i]))
            return qc_fail(v->st, QC_BAD_INPUT,
                           "the extremes belong to samples that were not seen, or are not in order");
    }
    for (size_t i = 0; e && i < e->values * e->count; i++) {
        const struct qc_ends *s = &e->ends[i];
        MOVE(v, ENDS, &e->ends[i].min, &e->ends[i].max);
        if (v->pass == TAKE &&
            (isnan(s->min) || isnan(s->max) || (s->min <= s->max && (isinf(s->min) || isinf(s->max)))))
            return qc_fail(v->st, QC_BAD_INPUT, "an extreme of a sample is not finite");
    }
    return true;
}

/* In the file each matrix of lanes is a triangle of its own; other matrices have the same layout in memory. */
static void unpack_products(int64_t *products, const int64_t *packed, const struct qc_second_moments_layer *l)
{
    for (size_t g = 0; g < l->groups; g++)
        for (size_t b = 0; b < l->blocks; b++)
            for (size_t k = 0; k < qc_second_moments_width(l, b); k++)
                for (size_t j = 0; j <= k; j++) products[qc_second_moments_product_at(l, g, b, j, k)] = *packed++;
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

/* Reads the rows of a class. Fails unless they add up to the sums in the file. */
static bool take_rows(struct qc_second_moments_sums *s, struct visitor *v, uint64_t count,
                      const struct qc_second_moments_layer *l, const int64_t *sums)
{
    const size_t row = qc_second_moments_row(l);
    const uint8_t *steps = (const uint8_t *)v->t->of[QC_COLUMN_STEPS] + v->at[QC_COLUMN_STEPS];
    const int16_t *entries = (const int16_t *)v->t->of[QC_COLUMN_ENTRIES] + v->at[QC_COLUMN_ENTRIES];
    bool ok = true;
    for (size_t i = 0; i < count * row; i++)
        ok = ok && entries[i] >= -QC_MOMENTS_LEVEL && entries[i] <= QC_MOMENTS_LEVEL;
    for (size_t i = 0; i < count; i++) ok = ok && steps[i] < QC_MOMENTS_STEPS;
    for (size_t i = 0, n; ok && i < count; i += n) {
        for (n = 1; i + n < count && n < QC_MOMENTS_ROWS && steps[i + n] == steps[i]; n++) {
        }
        qc_second_moments_sums(s->sums, entries + i * row, n, row, 2 * steps[i]);
        if (!qc_second_moments_keep(s, l, entries + i * row, n, steps[i], v->st)) return false;
    }
    return (ok && memcmp(s->sums, sums, row * sizeof *s->sums) == 0) ||
           qc_fail(v->st, QC_BAD_INPUT, "the rows of '%s' contradict their sums", l->name);
}

static bool take_class(struct visitor *v, const struct qc_second_moments *m, size_t at)
{
    enum { LARGEST = 64 };
    const struct qc_columns *t = v->t;
    size_t *const passed = v->at;
    const int32_t *key = (const int32_t *)t->of[QC_COLUMN_CLASS] + 3 * at, *before = at ? key - 3 : NULL;
    const bool ascends = !before || key[0] > before[0] ||
                         (key[0] == before[0] && (key[1] > before[1] || (key[1] == before[1] && key[2] > before[2])));
    if (key[0] < 0 || (size_t)key[0] >= t->rows[QC_COLUMN_LAYER_INPUT] || key[1] < 0 || key[1] >= QC_MOMENTS_PARTS ||
        key[2] < -LARGEST || key[2] > LARGEST || !ascends)
        return qc_fail(v->st, QC_BAD_INPUT, "class %zu of the second moments is invalid", at);
    struct qc_second_moments_layer *l = qc_second_moments_at(m, (size_t)key[0]);
    struct qc_second_moments_moments *part = &l->parts[key[1]];
    const uint64_t rows = t->kept ? ((const uint64_t *)t->of[QC_COLUMN_CLASS_ROWS])[at] : 0;
    const size_t row = qc_second_moments_row(l), packed = rows ? 0 : qc_moment_packed_count(l);
    const int64_t *sums = (const int64_t *)t->of[QC_COLUMN_SUMS] + passed[QC_COLUMN_SUMS];
    const int64_t *products = (const int64_t *)t->of[QC_COLUMN_PRODUCTS] + passed[QC_COLUMN_PRODUCTS];
    struct qc_second_moments_sums *s = NULL;
    if ((before && before[0] == key[0] && before[1] == key[1] && key[2] - before[2] >= QC_MOMENTS_CLASSES) ||
        row > t->rows[QC_COLUMN_SUMS] - passed[QC_COLUMN_SUMS] ||
        packed > t->rows[QC_COLUMN_PRODUCTS] - passed[QC_COLUMN_PRODUCTS] || rows > l->keep || rows > part->rows ||
        rows > t->rows[QC_COLUMN_STEPS] - passed[QC_COLUMN_STEPS] ||
        rows * row > t->rows[QC_COLUMN_ENTRIES] - passed[QC_COLUMN_ENTRIES] || !sums_fit(sums, row, part->rows, 17) ||
        !sums_fit(products, packed, part->rows, 34))
        return qc_fail(v->st, QC_BAD_INPUT, "the second moments of '%s' are inconsistent", l->name);
    if (!qc_second_moments_class(&s, l, (enum qc_second_moments_part)key[1], key[2], v->st)) return false;
    if (rows) {
        if (!take_rows(s, v, rows, l, sums)) return false;
    } else {
        if (!qc_second_moments_widen(s, l, v->st)) return false;
        memcpy(s->sums, sums, row * sizeof *s->sums);
        unpack_products(s->products, products, l);
    }
    passed[QC_COLUMN_SUMS] += row;
    passed[QC_COLUMN_PRODUCTS] += packed;
    passed[QC_COLUMN_STEPS] += rows;
    passed[QC_COLUMN_ENTRIES] += rows * row;
    return true;
}

/* Counts or writes the classes of a part of a layer. */
static bool put_classes(struct visitor *v, struct qc_second_moments_layer *l, int32_t layer, int32_t part)
{
    const struct qc_second_moments_moments *m = &l->parts[part];
    for (int32_t c = m->top - QC_MOMENTS_CLASSES + 1; m->seen && c <= m->top; c++) {
        const struct qc_second_moments_sums *s = qc_moment_sums_of(m, c);
        if (!s) continue;
        MOVE(v, CLASS, &layer, &part, &c);
        MOVE(v, CLASS_ROWS, &(uint64_t){s->row_count});
        move_rows(v, QC_COLUMN_SUMS, s->sums, qc_second_moments_row(l));
        if (v->pass == PUT && s->rows &&
            !qc_moment_steps((uint8_t *)v->t->of[QC_COLUMN_STEPS] + v->at[QC_COLUMN_STEPS], l, s, v->st))
            return false;
        v->at[QC_COLUMN_STEPS] += s->row_count;
        v->at[QC_COLUMN_ENTRIES] += s->row_count * qc_second_moments_row(l);
        v->at[QC_COLUMN_PRODUCTS] += s->rows ? 0 : qc_moment_packed_count(l);
    }
    return true;
}

static bool visit_moments(struct visitor *v, struct qc_collection *c)
{
    const bool take = v->pass == TAKE;
    const size_t layers = rows_of(v, QC_COLUMN_LAYER_INPUT, take ? 0 : qc_second_moments_count(c->second_moments));
    struct qc_second_moments_layer *made = NULL;
    if (take && v->t->rows[QC_COLUMN_MOMENTS] != layers * QC_MOMENTS_PARTS)
        return qc_fail(v->st, QC_BAD_INPUT, "the second moments are invalid");
    if (take && !(made = QC_NEW_ARRAY(c->arena, struct qc_second_moments_layer, layers, v->st))) return false;
    for (size_t i = 0; i < layers; i++) {
        struct qc_second_moments_layer *l = take ? &made[i] : qc_second_moments_at(c->second_moments, i);
        MOVE(v, LAYER_INPUT, &l->name);
        MOVE(v, LAYER_GEOMETRY, &l->geometry);
        MOVE(v, LAYER_SIZES, &l->groups, &l->outputs, &l->channels, &l->taps, &l->block);
    }
    if (take && !qc_second_moments_restore(&c->second_moments, layers, made, v->st)) return false;
    for (size_t i = 0; i < layers * QC_MOMENTS_PARTS; i++) {
        const int32_t layer = (int32_t)(i / QC_MOMENTS_PARTS), part = i % QC_MOMENTS_PARTS;
        struct qc_second_moments_layer *l = qc_second_moments_at(c->second_moments, (size_t)layer);
        struct qc_second_moments_moments *m = &l->parts[part];
        MOVE(v, MOMENTS, &m->rows, &m->samples, &m->skipped);
        if (take && m->rows > QC_MOMENTS_ROWS_MAX)
            return qc_fail(v->st, QC_BAD_INPUT, "the second moments of '%s' have too many rows", l->name);
        if (!take && !put_classes(v, l, layer, part)) return false;
    }
    const size_t *rows = v->t->rows;
    for (size_t i = 0; take && i < rows[QC_COLUMN_CLASS]; i++)
        if (!take_class(v, c->second_moments, i)) return false;
    return !take ||
           (v->at[QC_COLUMN_SUMS] == rows[QC_COLUMN_SUMS] && v->at[QC_COLUMN_PRODUCTS] == rows[QC_COLUMN_PRODUCTS] &&
            v->at[QC_COLUMN_STEPS] == rows[QC_COLUMN_STEPS] && v->at[QC_COLUMN_ENTRIES] == rows[QC_COLUMN_ENTRIES]) ||
           qc_fail(v->st, QC_BAD_INPUT, "there are more second moments than layers for them");
}

/* Returns false unless the tally of a channel and its bins agree. */
static bool visit_channel(struct visitor *v, struct qc_channel_histogram *h, size_t k)
{
    enum { COUNTERS = 2 * QC_CHANNEL_WINDOW_BINS };
    struct qc_channel_tally *s = &h->tallies[k];
    uint64_t *counts = h->counts + k * COUNTERS, first = v->at[QC_COLUMN_CHANNEL_BIN];
    MOVE(v, CHANNEL_TALLY, &s->count, &s->zeros);
    MOVE(v, CHANNEL_EXTREMES, &s->min, &s->max);
    MOVE(v, CHANNEL_EXPONENT, &s->exponent);
    MOVE(v, CHANNEL_FIRST_BIN, &first);
    for (size_t b = 0; v->pass != TAKE && b < COUNTERS; b++) {
        if (!counts[b]) continue;
        MOVE(v, CHANNEL_BIN, &(uint16_t){(uint16_t)b});
        MOVE(v, CHANNEL_BIN_VALUES, &counts[b]);
    }
    if (v->pass != TAKE) return true;
    const size_t n = next_edge(v, QC_COLUMN_CHANNEL_FIRST_BIN) - first;
    const uint16_t *bin = (const uint16_t *)v->t->of[QC_COLUMN_CHANNEL_BIN] + first;
    const uint64_t *values = (const uint64_t *)v->t->of[QC_COLUMN_CHANNEL_BIN_VALUES] + first;
    if (!tally_agrees(s->count, s->zeros, s->min, s->max, s->exponent) ||
        !bins_agree(s->count - s->zeros, s->min, s->max, QC_CHANNEL_WINDOW_BINS, bin, values, n))
        return false;
    for (size_t b = 0; b < n; b++) counts[bin[b]] = values[b];
    return true;
}

static bool visit_channels(struct visitor *v, struct qc_collection *c)
{
    for (size_t i = 0; i < c->count; i++) {
        int32_t axis = c->values[i].channels ? c->values[i].channels->axis : -1;
        uint64_t first = v->at[QC_COLUMN_CHANNEL_TALLY];
        MOVE(v, CHANNEL_AXIS, &axis);
        MOVE(v, FIRST_CHANNEL, &first);
        if (v->pass == TAKE &&
            !qc_collection_add_channels(c, i, axis, (int64_t)(next_edge(v, QC_COLUMN_FIRST_CHANNEL) - first), v->st))
            return false;
        struct qc_channel_histogram *h = c->values[i].channels;
        for (size_t k = 0; h && k < h->channels; k++)
            if (!visit_channel(v, h, k))
                return qc_fail(v->st, QC_BAD_INPUT, "the statistics of channel %zu of tensor '%s' are inconsistent", k,
                               c->values[i].name);
    }
    MOVE(v, FIRST_CHANNEL, &(uint64_t){v->at[QC_COLUMN_CHANNEL_TALLY]});
    MOVE(v, CHANNEL_FIRST_BIN, &(uint64_t){v->at[QC_COLUMN_CHANNEL_BIN]});
    return true;
}

/* Counts the rows of the columns of a collection and fills them, except for those that qc_moment_source_next computes,
   which are NULL. Arrays are from the arena, strings borrowed. */
static bool columns_of(struct qc_columns *t, const struct qc_collection *from, struct qc_arena *a, struct qc_status *st)
{
    struct qc_collection *c = (struct qc_collection *)(uintptr_t)from; /* these passes do not change it */
    *t = (struct qc_columns){.channels = c->channels, .sizes = c->largest.count != 0};
    for (enum visit_pass pass = COUNT; pass <= PUT; pass++) {
        struct visitor v = {.pass = pass, .t = t, .st = st};
        if (!visit_data(&v, c) || !visit_values(&v, c) || !visit_series(&v, c) ||
            (c->second_moments && !visit_moments(&v, c)) || (c->channels && !visit_channels(&v, c)))
            return false;
        for (enum qc_column k = 0; pass == COUNT && k < QC_COLUMN_COUNT; k++)
            if (v.at[k]) t->rows[qc_column_info(k)->rows] = v.at[k];
        t->kept = t->rows[QC_COLUMN_STEPS] != 0;
        for (enum qc_column k = 0; pass == COUNT && k < QC_COLUMN_COUNT; k++)
            if (qc_moment_column_of(qc_column_info(k)->path) == QC_MOMENT_NONE && qc_columns_have(t, k) &&
                !(t->of[k] = qc_arena_get(a, t->rows[qc_column_info(k)->rows], qc_column_bytes(k), st)))
                return false;
    }
    return true;
}

/* Returns true if a column is the ascending list of the first rows of `rows` groups of other rows. */
static bool is_list_of_edges(const struct qc_columns *t, enum qc_column k, enum qc_column rows, enum qc_column of)
{
    const uint64_t *edge = t->of[k];
    const size_t n = t->rows[rows];
    bool ok = t->rows[qc_column_info(k)->rows] == n + 1 && edge[0] == 0 && edge[n] == t->rows[of];
    for (size_t i = 0; ok && i < n; i++) ok = edge[i] <= edge[i + 1];
    return ok;
}

static bool check_channels(const struct qc_columns *t, struct qc_status *st)
{
    bool ok = is_list_of_edges(t, QC_COLUMN_FIRST_CHANNEL, QC_COLUMN_NAME, QC_COLUMN_CHANNEL_TALLY) &&
              is_list_of_edges(t, QC_COLUMN_CHANNEL_FIRST_BIN, QC_COLUMN_CHANNEL_TALLY, QC_COLUMN_CHANNEL_BIN);
    const uint64_t *first = t->of[QC_COLUMN_FIRST_CHANNEL];
    const int32_t *axis = t->of[QC_COLUMN_CHANNEL_AXIS];
    for (size_t i = 0; ok && i < t->rows[QC_COLUMN_NAME]; i++)
        ok = first[i + 1] - first[i] <= QC_CHANNELS_MAX &&
             (first[i] < first[i + 1] ? axis[i] >= 0 && axis[i] < QC_RANK_MAX : axis[i] == -1);
    return ok || qc_fail(st, QC_BAD_INPUT, "the statistics of channels are invalid");
}

bool qc_columns_take(struct qc_collection **out, const struct qc_columns *t, enum qc_need need, bool extremes,
                     bool moments, struct qc_status *st)
{
    const size_t *n = t->rows;
    struct qc_collection *c = NULL;
    struct visitor v = {.pass = TAKE, .t = t, .st = st};
    bool ok = (is_list_of_edges(t, QC_COLUMN_FIRST_BIN, QC_COLUMN_NAME, QC_COLUMN_BIN) &&
               (need == QC_NEED_HISTOGRAM || !n[QC_COLUMN_BIN])) ||
              qc_fail(st, QC_BAD_INPUT, "the histograms are invalid");
    ok = ok && qc_collection_new(&c, n[QC_COLUMN_NAME], t->of[QC_COLUMN_NAME], need, st) && visit_data(&v, c) &&
         visit_values(&v, c);
    if (ok &&
        ((!extremes && (n[QC_COLUMN_SERIES] || n[QC_COLUMN_ENDS])) ||
         (!moments && (n[QC_COLUMN_LAYER_INPUT] || n[QC_COLUMN_MOMENTS] || n[QC_COLUMN_CLASS] || n[QC_COLUMN_SUMS] ||
                       n[QC_COLUMN_PRODUCTS] || n[QC_COLUMN_STEPS] || n[QC_COLUMN_ENTRIES]))))
        ok = qc_fail(st, QC_BAD_INPUT, "the file holds statistics that its attributes exclude");
    if (ok && extremes)
        ok = (n[QC_COLUMN_ENDS] == n[QC_COLUMN_NAME] * n[QC_COLUMN_SERIES] ||
              qc_fail(st, QC_BAD_INPUT, "the extremes of samples are invalid")) &&
             qc_extremes_table_new(&c->extremes, n[QC_COLUMN_NAME], n[QC_COLUMN_SERIES], st) && visit_series(&v, c);
    ok = ok && (!moments || visit_moments(&v, c));
    if (ok) c->channels = t->channels;
    ok = ok && (!t->channels || (check_channels(t, st) && visit_channels(&v, c)));
    return QC_HAND_OVER(ok, out, c, qc_collection_free);
}

/* ---- The file ---- */

static const char format_key[] = "qcalib_statistics", content_key[] = "content_sha256";

/* 2 is the oldest version that is read. */
enum { OLDEST = 2, CHANNELS = 1, ROWS = 2, SIZES = 4 };

static unsigned version_of(bool channels, bool kept, bool sizes)
{
    return OLDEST + CHANNELS * (unsigned)channels + ROWS * (unsigned)kept + SIZES * (unsigned)sizes;
}

unsigned qc_statistics_version(const struct qc_collection *c)
{
    return version_of(c->channels, c->second_moments && qc_second_moments_keeps_rows(c->second_moments),
                      c->largest.count != 0);
}

/* Computes the SHA-256 of a column, of one that is not in memory from the second moments of c. */
static bool column_sha256(char hex[65], const struct qc_columns *t, enum qc_column k, const struct qc_collection *c,
                          struct qc_status *st)
{
    enum { PART = 1 << 14 };
    const size_t bytes = qc_column_bytes(k);
    size_t rows = t->rows[qc_column_info(k)->rows];
    if (t->of[k]) {
        qc_sha256(hex, t->of[k], rows * bytes);
        return true;
    }
    struct qc_sha256_sum sum;
    qc_sha256_begin(&sum);
    QC_FREED void *part = malloc(PART * bytes);
    struct qc_moment_source from = qc_moment_source_of(c->second_moments, qc_moment_column_of(qc_column_info(k)->path));
    bool ok = part || qc_fail_memory(st, PART * bytes);
    for (size_t n; ok && rows; rows -= n) {
        n = rows < PART ? rows : PART;
        if ((ok = qc_moment_source_next(&from, part, n, st))) qc_sha256_add(&sum, part, n * bytes);
    }
    qc_sha256_end(hex, &sum);
    qc_moment_source_end(&from);
    return ok;
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
    for (enum qc_column k = 0; ok && k < QC_COLUMN_COUNT; k++) {
        const bool texts = qc_column_info(k)->dtype == QC_NONE;
        const char *const *text = t->of[k];
        for (size_t i = 0; texts && i < t->rows[qc_column_info(k)->rows]; i++) fprintf(f, "%s\n", text[i]);
        if (texts || !qc_columns_have(t, k)) continue;
        ok = column_sha256(column, t, k, c, st);
        fprintf(f, "%s\n", column);
    }
    ok = fclose(f) == 0 ? ok : qc_fail_memory(st, size);
    if (ok) qc_sha256(hex, bytes, size);
    free(bytes);
    return ok;
}

/* Adds a column to an archive. Fails if it has more rows than a reader accepts. */
static bool put_column(struct qc_archive *f, const struct qc_columns *t, enum qc_column k,
                       const struct qc_collection *c, struct qc_status *st)
{
    const struct qc_column_info *i = qc_column_info(k);
    const size_t rows = t->rows[i->rows];
    if (rows > i->most)
        return qc_fail(st, QC_UNSUPPORTED,
                       "data set '%s' would have %zu rows, but a reader accepts %zu; collect from fewer samples or a "
                       "smaller model",
                       i->path, rows, i->most);
    if (i->dtype == QC_NONE) return qc_archive_put_texts(f, i->path, rows, t->of[k], st);
    if (t->of[k]) return qc_archive_put(f, i->path, i->dtype, rows, i->columns, t->of[k], st);
    struct qc_moment_source from = qc_moment_source_of(c->second_moments, qc_moment_column_of(i->path));
    const bool ok = qc_archive_put_from(f, i->path, i->dtype, rows, i->columns, qc_moment_source_next, &from, st);
    qc_moment_source_end(&from);
    return ok;
}

/* Makes the archive of a collection. */
static bool archive_of(struct qc_archive **out, const struct qc_collection *c, struct qc_status *st)
{
    struct qc_columns t;
    struct qc_archive *f = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    char sha[65];
    if (!a) return qc_fail_memory(st, 1);
    bool ok = columns_of(&t, c, a, st) && content_sha256(sha, c, &t, st) && qc_archive_new(&f, st) &&
              qc_archive_put_number(f, format_key, version_of(t.channels, t.kept, t.sizes), st) &&
              qc_archive_put_text(f, "model_sha256", c->model_sha256, st) &&
              qc_archive_put_text(f, "inputs", c->inputs, st) &&
              qc_archive_put_number(f, "histograms", c->need == QC_NEED_HISTOGRAM, st) &&
              qc_archive_put_number(f, "sample_extremes", c->extremes != NULL, st) &&
              qc_archive_put_number(f, "second_moments", c->second_moments != NULL, st) &&
              qc_archive_put_text(f, content_key, sha, st);
    for (enum qc_column k = 0; ok && k < QC_COLUMN_COUNT; k++)
        ok = !qc_columns_have(&t, k) || put_column(f, &t, k, c, st);
    return QC_HAND_OVER(ok, out, f, qc_archive_free);
}

bool qc_statistics_encode(void **bytes, size_t *size, const struct qc_collection *c, struct qc_status *st)
{
    struct qc_archive *f = NULL;
    const bool ok = archive_of(&f, c, st) && qc_archive_bytes(bytes, size, f, st);
    qc_archive_free(f);
    return ok;
}

/* Reads the columns. Fails if some that belong together differ in their rows. */
static bool read_columns(struct qc_columns *t, const struct qc_archive *f, uint64_t version, struct qc_arena *a,
                         struct qc_status *st)
{
    bool known[QC_COLUMN_COUNT] = {false};
    const unsigned has = (unsigned)version - OLDEST;
    *t = (struct qc_columns){.channels = has & CHANNELS, .kept = has & ROWS, .sizes = has & SIZES};
    for (enum qc_column k = 0; k < QC_COLUMN_COUNT; k++) {
        const struct qc_column_info *i = qc_column_info(k);
        const char **texts = NULL;
        size_t rows = 0;
        if (!qc_columns_have(t, k)) continue;
        const struct qc_archive_set set = {.path = i->path, .dtype = i->dtype, .columns = i->columns, .most = i->most};
        if (i->dtype == QC_NONE ? !qc_archive_get_texts(&texts, &rows, f, i->path, i->most, a, st)
                                : !qc_archive_get(&t->of[k], &rows, f, &set, a, st))
            return false;
        if (texts) t->of[k] = texts;
        if (known[i->rows] && t->rows[i->rows] != rows)
            return qc_fail(st, QC_BAD_INPUT, "data set '%s' has %zu rows, expected %zu", i->path, rows,
                           t->rows[i->rows]);
        known[i->rows] = true;
        t->rows[i->rows] = rows;
    }
    return true;
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
    const unsigned oldest = OLDEST, newest = version_of(true, true, true);
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
