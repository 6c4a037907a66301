// SPDX-License-Identifier: Apache-2.0
/* Second moments in real units: integers of all classes and parts times their units, divided by the rows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib/moments/moments_parts.h"

static size_t least_moments(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Adds the products of a class of one matrix, times `square`, on and below the diagonal. */
static void read_products(double *h, const struct qc_second_moments_layer *l, const struct qc_second_moments_sums *s,
                          double square, size_t group, size_t block)
{
    const size_t w = qc_second_moments_width(l, block);
    for (size_t k = 0; k < w; k++) {
        const size_t at = qc_second_moments_product_at(l, group, block, 0, k), step = l->lanes ? l->groups : 1;
        double *row = h + k * w;
        if (s->narrow) {
            const int64_t unit = (int64_t)1 << (4 * s->base);
            for (size_t j = 0; j <= k; j++) row[j] += (double)(s->narrow[at + j * step] * unit) * square;
        } else {
            for (size_t j = 0; j <= k; j++) row[j] += (double)s->products[at + j * step] * square;
        }
    }
}

/* The same for kept rows. */
static void read_kept(double *h, const struct qc_second_moments_layer *l, const struct qc_second_moments_sums *s,
                      double square, size_t group, size_t block)
{
    const size_t w = qc_second_moments_width(l, block);
    for (size_t right = 0; right < qc_second_moments_panels(w); right++)
        for (size_t left = 0; left <= right; left++) {
            int64_t scratch[QC_MOMENTS_TILE_SIZE];
            const int64_t *tile = scratch;
            qc_second_moments_kept_tile(scratch, l, s, group, block, left, right);
            const size_t begin = right * QC_MOMENTS_TILE, end = least_moments(w, begin + QC_MOMENTS_TILE);
            for (size_t j = left * QC_MOMENTS_TILE; j < least_moments(end, (left + 1) * QC_MOMENTS_TILE);
                 j++, tile += QC_MOMENTS_TILE)
                for (size_t k = begin > j ? begin : j; k < end; k++) h[k * w + j] += (double)tile[k - begin] * square;
        }
}

/* Adds the products of a class in one column. */
static void read_column_of_class(double *to, const struct qc_second_moments_layer *l,
                                 const struct qc_second_moments_sums *s, double unit, size_t group, size_t block,
                                 size_t column)
{
    const size_t w = qc_second_moments_width(l, block);
    for (size_t panel = 0; !qc_second_moments_has_products(s) && panel < qc_second_moments_panels(w); panel++) {
        const size_t begin = panel * QC_MOMENTS_TILE, end = least_moments(w, begin + QC_MOMENTS_TILE);
        int64_t row[QC_MOMENTS_TILE];
        qc_second_moments_kept_column(row, l, s, group, block, panel, column);
        for (size_t i = begin; i < end; i++) to[i] += (double)row[i - begin] * (unit * unit);
    }
    for (size_t i = 0; qc_second_moments_has_products(s) && i < w; i++) {
        const size_t at =
            qc_second_moments_product_at(l, group, block, least_moments(i, column), i > column ? i : column);
        to[i] += (double)qc_second_moments_product(s, at) * (unit * unit);
    }
}

static void read_diagonal_of_class(double *to, const struct qc_second_moments_layer *l,
                                   const struct qc_second_moments_sums *s, double unit, size_t group, size_t block)
{
    const size_t w = qc_second_moments_width(l, block);
    for (size_t panel = 0; panel < qc_second_moments_panels(w); panel++) {
        const size_t begin = panel * QC_MOMENTS_TILE, end = least_moments(w, begin + QC_MOMENTS_TILE);
        int64_t squares[QC_MOMENTS_TILE];
        if (qc_second_moments_has_products(s))
            for (size_t i = begin; i < end; i++)
                squares[i - begin] = qc_second_moments_product(s, qc_second_moments_product_at(l, group, block, i, i));
        else
            qc_second_moments_kept_diagonal(squares, l, s, group, block, panel);
        for (size_t i = begin; i < end; i++) to[i] += (double)squares[i - begin] * (unit * unit);
    }
}

uint64_t qc_second_moments_rows(const struct qc_second_moments_layer *l, unsigned parts)
{
    uint64_t rows = 0;
    for (int p = 0; p < QC_MOMENTS_PARTS; p++) rows += parts & 1u << p ? l->parts[p].rows : 0;
    return rows;
}

/* Returns the factor of a column of a group. */
static double column_factor(const struct qc_second_moments_layer *l, size_t group, size_t column)
{
    const size_t each = l->channels / l->groups;
    return l->divisor ? 1 / l->divisor[group * each + column % each] : 1;
}

/* Returns what is subtracted from a column of a group. */
static double centre_of(const struct qc_second_moments_layer *l, size_t group, size_t column)
{
    const size_t each = l->channels / l->groups;
    return l->centre[group * each + column % each];
}

enum { DIAGONAL = -1 };

/* Returns how much the mean product of two columns exceeds that of the centred ones, whose means are given:
   E(m + a)(n + b) - E m n for the centres a and b. */
static double moved_moments(const struct qc_second_moments_layer *l, size_t group, size_t i, size_t j, double mean_i,
                            double mean_j)
{
    const double a = centre_of(l, group, i), b = centre_of(l, group, j);
    return a * mean_j + b * mean_i + a * b;
}

static void read_some(double *to, const struct qc_second_moments_layer *l, unsigned parts, size_t group, size_t block,
                      ptrdiff_t column)
{
    const size_t w = qc_second_moments_width(l, block);
    const double rows = (double)qc_second_moments_rows(l, parts);
    memset(to, 0, w * sizeof *to);
    for (int p = 0; p < QC_MOMENTS_PARTS; p++) {
        const struct qc_second_moments_moments *m = &l->parts[p];
        if (!(parts & 1u << p)) continue;
        for (int32_t c = m->top - QC_MOMENTS_CLASSES + 1; m->seen && c <= m->top; c++) {
            const struct qc_second_moments_sums *s = &m->of[qc_second_moments_slot(c)];
            const double unit = ldexp(1, 2 * qc_second_moments_lowest(c) - 11);
            if (!s->sums) continue;
            if (column == DIAGONAL)
                read_diagonal_of_class(to, l, s, unit, group, block);
            else
                read_column_of_class(to, l, s, unit, group, block, (size_t)column);
            if (!s->away || group + 1 == l->groups) qc_second_moments_rest(s, l); /* once for all groups */
        }
    }
    for (size_t i = 0; rows > 0 && i < w; i++) to[i] /= rows;
    for (size_t i = 0; l->divisor && i < w; i++) {
        const size_t first = block * l->block;
        to[i] *= column_factor(l, group, first + i) *
                 column_factor(l, group, first + (column == DIAGONAL ? i : (size_t)column));
    }
    for (size_t i = 0; l->centre && rows > 0 && i < w; i++) {
        const size_t first = block * l->block, j = column == DIAGONAL ? i : (size_t)column;
        double mean[2];
        qc_second_moments_read_mean(&mean[0], l, parts, group, first + i, 1);
        qc_second_moments_read_mean(&mean[1], l, parts, group, first + j, 1);
        to[i] -= moved_moments(l, group, first + i, first + j, mean[0], mean[1]);
    }
}

void qc_second_moments_read_column(double *to, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                                   size_t block, size_t column)
{
    read_some(to, l, parts, group, block, (ptrdiff_t)column);
}

void qc_second_moments_read_diagonal(double *to, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                                     size_t block)
{
    read_some(to, l, parts, group, block, DIAGONAL);
}

void qc_second_moments_read_mean(double *mean, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                                 size_t first, size_t count)
{
    double rows = 0;
    memset(mean, 0, count * sizeof *mean);
    for (int p = 0; p < QC_MOMENTS_PARTS; p++) {
        const struct qc_second_moments_moments *m = &l->parts[p];
        if (!(parts & 1u << p)) continue;
        rows += (double)m->rows;
        for (int32_t c = m->top - QC_MOMENTS_CLASSES + 1; m->seen && c <= m->top; c++) {
            const int64_t *sums = m->of[qc_second_moments_slot(c)].sums;
            const double unit = ldexp(1, 2 * qc_second_moments_lowest(c) - 11);
            for (size_t k = 0; sums && k < count; k++)
                mean[k] +=
                    (double)sums[l->lanes ? (first + k) * l->groups + group : group * l->columns + first + k] * unit;
        }
    }
    for (size_t k = 0; rows > 0 && k < count; k++) mean[k] /= rows;
    for (size_t k = 0; l->divisor && k < count; k++) mean[k] *= column_factor(l, group, first + k);
    for (size_t k = 0; l->centre && rows > 0 && k < count; k++) mean[k] -= centre_of(l, group, first + k);
}

bool qc_second_moments_are_rows(const struct qc_second_moments_layer *l, unsigned parts)
{
    bool kept = !l->lanes;
    for (int p = 0; p < QC_MOMENTS_PARTS; p++)
        for (int c = 0; c < QC_MOMENTS_CLASSES && parts & 1u << p; c++)
            kept = kept && !qc_second_moments_has_products(&l->parts[p].of[c]);
    return kept;
}

bool qc_second_moments_read_rows(float *to, size_t *count, const struct qc_second_moments_layer *l, unsigned parts,
                                 size_t group, size_t block, const double *centre, struct qc_status *st)
{
    const size_t w = qc_second_moments_width(l, block);
    const uint64_t rows = qc_second_moments_rows(l, parts);
    double left = (double)rows;
    struct qc_distinct_rows d = {.rows = to, .counts = malloc(((size_t)rows + 1) * sizeof *d.counts)};
    if (!d.counts) return qc_fail_memory(st, (size_t)rows * sizeof *d.counts);
    bool ok = true;
    for (int p = 0; p < QC_MOMENTS_PARTS; p++) {
        const struct qc_second_moments_moments *m = &l->parts[p];
        for (int32_t c = m->top - QC_MOMENTS_CLASSES + 1; ok && parts & 1u << p && m->seen && c <= m->top; c++) {
            const struct qc_second_moments_sums *s = &m->of[qc_second_moments_slot(c)];
            const double unit = ldexp(1, 2 * qc_second_moments_lowest(c) - 11);
            ok = !s->rows || qc_second_moments_kept_rows(&d, l, s, unit, group, block, st);
            left -= (double)s->row_count;
        }
    }
    if (ok && (centre || l->centre) && left > 0) { /* rows that count as zeros */
        memset(to + d.count * w, 0, w * sizeof *to);
        d.counts[d.count++] = left;
    }
    for (size_t r = 0; ok && r < d.count; r++) { /* times the square root of their weight, about the centre */
        const double by = sqrt(d.counts[r] / (double)rows);
        float *x = to + r * w;
        for (size_t i = 0; l->divisor && i < w; i++)
            x[i] = (float)((double)x[i] * column_factor(l, group, block * l->block + i));
        for (size_t i = 0; l->centre && i < w; i++)
            x[i] = (float)((double)x[i] - centre_of(l, group, block * l->block + i));
        for (size_t i = 0; i < w; i++) x[i] = (float)(by * ((double)x[i] - (centre ? centre[i] : 0)));
    }
    *count = ok ? d.count : 0;
    free(d.counts);
    return ok;
}

void qc_second_moments_read_lower(double *h, double *mean, const struct qc_second_moments_layer *l, unsigned parts,
                                  size_t group, size_t block)
{
    const size_t w = qc_second_moments_width(l, block), first = block * l->block;
    const double rows = (double)qc_second_moments_rows(l, parts);
    qc_second_moments_read_mean(mean, l, parts, group, first, w);
    for (size_t i = 0; i < w; i++) memset(h + i * w, 0, (i + 1) * sizeof *h);
    for (int p = 0; p < QC_MOMENTS_PARTS; p++) {
        const struct qc_second_moments_moments *m = &l->parts[p];
        if (!(parts & 1u << p)) continue;
        for (int32_t c = m->top - QC_MOMENTS_CLASSES + 1; m->seen && c <= m->top; c++) {
            const struct qc_second_moments_sums *s = &m->of[qc_second_moments_slot(c)];
            const double unit = ldexp(1, 2 * qc_second_moments_lowest(c) - 11);
            if (!s->sums) continue;
            if (qc_second_moments_has_products(s))
                read_products(h, l, s, unit * unit, group, block);
            else
                read_kept(h, l, s, unit * unit, group, block);
            if (!s->away || group + 1 == l->groups) qc_second_moments_rest(s, l); /* once for all groups */
        }
    }
    for (size_t k = 0; rows > 0 && k < w; k++)
        for (size_t j = 0; j <= k; j++) h[k * w + j] /= rows;
    for (size_t k = 0; l->divisor && k < w; k++) {
        const double own = column_factor(l, group, first + k);
        for (size_t j = 0; j <= k; j++) h[k * w + j] *= own * column_factor(l, group, first + j);
    }
    for (size_t k = 0; l->centre && rows > 0 && k < w; k++)
        for (size_t j = 0; j <= k; j++) h[k * w + j] -= moved_moments(l, group, first + k, first + j, mean[k], mean[j]);
}

void qc_second_moments_read(double *h, double *mean, const struct qc_second_moments_layer *l, unsigned parts,
                            size_t group, size_t block)
{
    const size_t w = qc_second_moments_width(l, block);
    qc_second_moments_read_lower(h, mean, l, parts, group, block);
    for (size_t top = 0; top < w; top += QC_MOMENTS_TILE) /* tile by tile, for the cache */
        for (size_t left = top; left < w; left += QC_MOMENTS_TILE)
            for (size_t j = top; j < least_moments(w, top + QC_MOMENTS_TILE); j++)
                for (size_t k = left > j ? left : j + 1; k < least_moments(w, left + QC_MOMENTS_TILE); k++)
                    h[j * w + k] = h[k * w + j];
}
