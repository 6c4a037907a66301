// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/compensation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 48 }; /* rows of the factor that are processed together */

/* Part of the target's change that is applied without held-out samples, which would tell the best part. */
static const double PART_UNKNOWN = 0.5;

bool qc_crossed_new(struct qc_crossed *c, const struct qc_second_moments_layer *paired, struct qc_status *st)
{
    const size_t w = paired->columns / 2, square = w * w * sizeof(double);
    double *all = malloc(9 * square + 4 * w * sizeof *all + w * sizeof(size_t));
    if (!all) return qc_fail_memory(st, 9 * square);
    *c = (struct qc_crossed){.w = w,
                             .both = all,
                             .h = all + 4 * w * w,
                             .cross = all + 5 * w * w,
                             .factor = all + 6 * w * w,
                             .held_h = all + 7 * w * w,
                             .held_cross = all + 8 * w * w,
                             .means = all + 9 * w * w,
                             .order = (size_t *)(void *)(all + 9 * w * w + 4 * w)};
    return true;
}

void qc_crossed_free(struct qc_crossed *c)
{
    free(c->both); /* all arrays */
    *c = (struct qc_crossed){0};
}

/* Returns the index of a weight's column among the columns of the pairs: [tap][twice the channels]. */
static size_t crossed_place(const struct qc_second_moments_layer *paired, size_t column)
{
    const size_t each = paired->channels / 2;
    return column / each * 2 * each + column % each;
}

/* Reads moments of some samples about the means of all. own: [2 w] */
static void read_crossed_part(double *h, double *cross, struct qc_crossed *c,
                              const struct qc_second_moments_layer *paired, unsigned parts, const double *all,
                              double *own)
{
    const size_t w = c->w, each = paired->channels / 2;
    qc_second_moments_read(c->both, own, paired, parts, 0, 0);
    for (size_t i = 0; all && i < 2 * w; i++)
        for (size_t j = 0; j < 2 * w; j++)
            c->both[i * 2 * w + j] += all[i] * all[j] - all[i] * own[j] - own[i] * all[j];
    for (size_t i = 0; i < w; i++) {
        const double *row = c->both + crossed_place(paired, i) * 2 * w;
        for (size_t j = 0; j < w; j++) {
            h[i * w + j] = row[crossed_place(paired, j)];
            cross[i * w + j] = row[crossed_place(paired, j) + each];
        }
    }
}

void qc_crossed_read(struct qc_crossed *c, double *real, double *quantized,
                     const struct qc_second_moments_layer *paired, unsigned fit, unsigned judge, bool centred)
{
    const size_t w = c->w, each = paired->channels / 2;
    double *all = c->means, *own = c->means + 2 * w;
    qc_second_moments_read_mean(all, paired, (1 << QC_MOMENTS_PARTS) - 1, 0, 0, 2 * w);
    read_crossed_part(c->h, c->cross, c, paired, fit, centred ? all : NULL, own);
    c->held = judge != fit;
    if (c->held) read_crossed_part(c->held_h, c->held_cross, c, paired, judge, centred ? all : NULL, own);
    for (size_t i = 0; i < w; i++) {
        const size_t at = crossed_place(paired, i);
        quantized[i] = all[at];
        real[i] = all[at] + all[at + each];
    }
}

void qc_crossed_keep(struct qc_crossed *c, const double *square, const size_t *order)
{
    memcpy(c->factor, square, c->w * c->w * sizeof *square);
    memcpy(c->order, order, c->w * sizeof *order);
}

/* Solves h z = b, with h = L L' in the order of the factor: L below the diagonal, L' above it divided by its diagonal.
 */
void qc_crossed_target(double *to, const struct qc_crossed *c, const double *x, double *scratch)
{
    const size_t n = c->w;
    double *b = scratch, *y = scratch + n * QC_LANES;
    memset(b, 0, n * QC_LANES * sizeof *b);
    qc_lanes_add_up(b, n, c->cross, n, x, n);
    for (size_t first = 0; first < n; first += ROWS) { /* the terms of earlier columns for ROWS rows together */
        const size_t rows = n - first < ROWS ? n - first : ROWS;
        double sums[ROWS * QC_LANES] = {0};
        qc_lanes_add_up(sums, rows, c->factor + first * n, n, y, first);
        for (size_t k = first; k < first + rows; k++) {
            double *sum = sums + (k - first) * QC_LANES, *at = y + k * QC_LANES;
            const double *from = b + c->order[k] * QC_LANES, diagonal = c->factor[k * n + k];
            qc_lanes_add_up(sum, 1, c->factor + k * n + first, n, y + first * QC_LANES, k - first);
            for (size_t l = 0; l < QC_LANES; l++) at[l] = (from[l] - sum[l]) / diagonal;
        }
    }
    for (size_t k = n; k-- > 0;) {
        double sum[QC_LANES] = {0}, *at = y + k * QC_LANES;
        const double diagonal = c->factor[k * n + k];
        qc_lanes_add_up(sum, 1, c->factor + k * n + k + 1, n, at + QC_LANES, n - k - 1);
        for (size_t l = 0; l < QC_LANES; l++) at[l] = at[l] / diagonal - sum[l];
    }
    for (size_t k = 0; k < n; k++) memcpy(to + c->order[k] * QC_LANES, y + k * QC_LANES, QC_LANES * sizeof *y);
    double part = PART_UNKNOWN;
    if (c->held) {
        /* The part p of z, 0 to 1, with the least error on the held-out samples: |w e - p z x'|^2 over all rows, b =
           E[x' e'] w. */
        double errors[QC_LANES] = {0}, with = 0, of = 0;
        memset(b, 0, n * QC_LANES * sizeof *b);
        qc_lanes_add_up(b, n, c->held_cross, n, x, n);
        for (size_t i = 0; i < n * QC_LANES; i++) with += b[i] * to[i];
        qc_row_errors(errors, to, c->held_h, n);
        for (size_t l = 0; l < QC_LANES; l++) of += errors[l];
        part = of > 0 ? fmin(fmax(with / of, 0), 1) : 0;
    }
    for (size_t i = 0; i < n * QC_LANES; i++) to[i] = x[i] + part * to[i];
}
