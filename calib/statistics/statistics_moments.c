// SPDX-License-Identifier: Apache-2.0
/* Converts second moments and the extremes of every sample to columns of a statistics file and back. */
#include <math.h>
#include <string.h>

#include "calib/moments/moments_products.h"
#include "calib/moments/moments_rows.h"
#include "calib/statistics/statistics_parts.h"

/* Returns the number of products of one class in the file: a triangle for each group and block. */
static size_t packed_count(const struct qc_second_moments_layer *l)
{
    const size_t last = qc_second_moments_width(l, l->blocks - 1);
    return l->groups * ((l->blocks - 1) * qc_second_moments_triangle(l->block) + qc_second_moments_triangle(last));
}

/* In the file each matrix of lanes is a triangle of its own; other matrices have the same layout in memory. */
static void unpack_products(int64_t *products, const int64_t *packed, const struct qc_second_moments_layer *l)
{
    for (size_t g = 0; g < l->groups; g++)
        for (size_t b = 0; b < l->blocks; b++)
            for (size_t k = 0; k < qc_second_moments_width(l, b); k++)
                for (size_t j = 0; j <= k; j++) products[qc_second_moments_product_at(l, g, b, j, k)] = *packed++;
}

/* Copies the part of a tile that lies in the triangle. */
static void pack_tile(int64_t *packed, const int64_t *tile, size_t left, size_t right, size_t width)
{
    for (size_t k = right; k < width && k < right + QC_MOMENTS_TILE; k++)
        for (size_t j = left; j <= k && j < left + QC_MOMENTS_TILE; j++)
            packed[qc_second_moments_triangle(k) + j] = tile[(j - left) * QC_MOMENTS_TILE + k - right];
}

static void pack_products(int64_t *packed, const struct qc_second_moments_sums *s,
                          const struct qc_second_moments_layer *l)
{
    const bool products = qc_second_moments_has_products(s);
    int64_t tile[QC_MOMENTS_TILE_SIZE];
    for (size_t g = 0; g < l->groups; g++)
        for (size_t b = 0; b < l->blocks; b++) {
            const size_t width = qc_second_moments_width(l, b);
            for (size_t k = 0; products && k < width; k++)
                for (size_t j = 0; j <= k; j++)
                    packed[qc_second_moments_triangle(k) + j] =
                        qc_second_moments_product(s, qc_second_moments_product_at(l, g, b, j, k));
            for (size_t k = 0; !products && k < qc_second_moments_panels(width); k++)
                for (size_t j = 0; j <= k; j++) {
                    qc_second_moments_kept_tile(tile, l, s, g, b, j, k);
                    pack_tile(packed, tile, j * QC_MOMENTS_TILE, k * QC_MOMENTS_TILE, width);
                }
            packed += qc_second_moments_triangle(width);
        }
}

/* ---- To columns ---- */

static void fill_series(struct qc_columns *t, const struct qc_extremes_table *e)
{
    for (size_t i = 0; i < t->series_count; i++) {
        t->series[2 * i] = QC_SAMPLE_PART(e->samples[i]);
        t->series[2 * i + 1] = QC_SAMPLE_NUMBER(e->samples[i]);
    }
    for (size_t i = 0; i < t->end_count; i++) {
        t->ends[2 * i] = e->ends[i].min;
        t->ends[2 * i + 1] = e->ends[i].max;
    }
}

/* Returns the sums of class c of a part of a layer; NULL if there are none. */
static const struct qc_second_moments_sums *sums_of(const struct qc_second_moments_moments *m, int32_t c)
{
    const struct qc_second_moments_sums *s = &m->of[qc_second_moments_slot(c)];
    return m->seen && c <= m->top && c > m->top - QC_MOMENTS_CLASSES && s->sums ? s : NULL;
}

void qc_columns_count_more(struct qc_columns *t, const struct qc_collection *of)
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
            const struct qc_second_moments_sums *s = sums_of(part, c);
            if (!s) continue;
            t->class_count++;
            t->sum_count += qc_second_moments_row(l);
            t->product_count += s->rows ? 0 : packed_count(l);
            t->kept_count += s->row_count;
            t->entry_count += s->row_count * qc_second_moments_row(l);
        }
    }
    t->kept = t->kept_count != 0;
}

static bool fill_moments(struct qc_columns *t, const struct qc_second_moments *m, struct qc_status *st)
{
    int64_t *sums = t->sums, *products = t->products;
    int32_t *class = t->classes;
    uint64_t *rows = t->class_rows;
    uint8_t *steps = t->kept_steps;
    int16_t *entries = t->entries;
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
                const struct qc_second_moments_sums *s = sums_of(part, c);
                if (!s) continue;
                memcpy(class, (int32_t[3]){(int32_t)i, (int32_t)p, c}, 3 * sizeof *class);
                memcpy(sums, s->sums, qc_second_moments_row(l) * sizeof *sums);
                class += 3;
                sums += qc_second_moments_row(l);
                *rows++ = s->row_count;
                if (s->rows) {
                    if (!qc_second_moments_list_rows(entries, steps, l, s, st)) return false;
                    steps += s->row_count;
                    entries += s->row_count * qc_second_moments_row(l);
                } else {
                    pack_products(products, s, l);
                    products += packed_count(l);
                }
            }
        }
    }
    return true;
}

bool qc_columns_of_more(struct qc_columns *t, const struct qc_collection *c, struct qc_status *st)
{
    fill_series(t, c->extremes);
    return fill_moments(t, c->second_moments, st);
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
static bool within(const int64_t *x, size_t n, uint64_t rows, int shift)
{
    const int64_t most = (int64_t)(rows << shift);
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
    const size_t row = qc_second_moments_row(l), packed = rows ? 0 : packed_count(l);
    struct qc_second_moments_sums *s = NULL;
    if ((before && before[0] == key[0] && before[1] == key[1] && key[2] - before[2] >= QC_MOMENTS_CLASSES) ||
        row > t->sum_count - taken->sums || packed > t->product_count - taken->products || rows > l->keep ||
        rows > part->rows || rows > t->kept_count - taken->rows || rows * row > t->entry_count - taken->entries ||
        !within(t->sums + taken->sums, row, part->rows, 17) ||
        !within(t->products + taken->products, packed, part->rows, 34))
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

/* Restores the layers from the sizes in the file. */
static bool take_layers(struct qc_collection *c, const struct qc_columns *t, struct qc_arena *a, struct qc_status *st)
{
    struct qc_second_moments_layer *layers = QC_NEW_ARRAY(a, struct qc_second_moments_layer, t->layer_count, st);
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
    return qc_second_moments_restore(&c->second_moments, t->layer_count, layers, st);
}

static bool take_moments(struct qc_collection *c, const struct qc_columns *t, struct qc_status *st)
{
    struct taken taken = {0};
    if (t->moment_count != t->layer_count * QC_MOMENTS_PARTS)
        return qc_fail(st, QC_BAD_INPUT, "the second moments are invalid");
    if (!take_layers(c, t, c->arena, st)) return false;
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

bool qc_columns_take_more(struct qc_collection *c, const struct qc_columns *t, bool extremes, bool moments,
                          struct qc_status *st)
{
    if ((!extremes && (t->series_count || t->end_count)) ||
        (!moments && (t->layer_count || t->moment_count || t->class_count || t->sum_count || t->product_count ||
                      t->kept_count || t->entry_count)))
        return qc_fail(st, QC_BAD_INPUT, "the file holds statistics that its attributes exclude");
    return (!extremes || take_series(c, t, st)) && (!moments || take_moments(c, t, st));
}
