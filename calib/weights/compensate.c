// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/compensation.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "arith/float_level.h"
#include "base/simd.h"

enum { ROWS = 6 };   /* rows of a quadratic form computed together */
enum { PASSES = 3 }; /* passes of coordinate descent at most */
enum { BLOCK = 64 }; /* columns rounded before their errors are added to all later columns */

/* Rounds half to even; |x| is far below 2^51 once clamped to the levels. */
static QC_INLINE double round_level(double x, double lo, double hi)
{
    const double magic = 0x1.8p52;
    x = x < lo ? lo : x;
    x = x > hi ? hi : x;
    return (x + magic) - magic;
}

QC_VECTOR(round_steps,
          (double *restrict d, const double *restrict w, const double *restrict sum, const double *restrict lo,
           const double *restrict hi),
          (d, w, sum, lo, hi))
{
    for (size_t l = 0; l < QC_LANES; l++) d[l] = w[l] - round_level(w[l] + sum[l], lo[l], hi[l]);
}

QC_VECTOR(round_scaled,
          (double *restrict d, const double *restrict w, const double *restrict sum, const double *restrict lo,
           const double *restrict hi, const double *restrict scale),
          (d, w, sum, lo, hi, scale))
{
    for (size_t l = 0; l < QC_LANES; l++)
        d[l] = w[l] - scale[l] * round_level((w[l] + sum[l]) / scale[l], lo[l], hi[l]);
}

static const double ones[QC_LANES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                      1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

/* Rounds to floating-point levels. scale: 1 where there is none. */
QC_VECTOR(round_floats,
          (double *restrict d, const double *restrict w, const double *restrict sum, const double *restrict lo,
           const double *restrict hi, const double *restrict scale, int mantissa, int least),
          (d, w, sum, lo, hi, scale, mantissa, least))
{
    for (size_t l = 0; l < QC_LANES; l++)
        d[l] = w[l] - scale[l] * qc_float_level_double((w[l] + sum[l]) / scale[l], lo[l], hi[l], mantissa, least);
}

/* Bounds of the first column of a pair; its neighbour, not rounded yet, would be `other`. */
QC_VECTOR(bound_first,
          (double *restrict lo, double *restrict hi, const double *restrict x, const double *restrict sum,
           const double *restrict other, double limit),
          (lo, hi, x, sum, other, limit))
{
    for (size_t l = 0; l < QC_LANES; l++) {
        const double is = x[l] + sum[l], above = is + other[l] - limit, below = -is - other[l] - limit,
                     most = is - above / 2, least = is + below / 2;
        if (is > 0 && other[l] > 0 && above > 0) hi[l] = most > 0 ? (most < hi[l] ? most : hi[l]) : 0;
        if (is < 0 && other[l] < 0 && below > 0) lo[l] = least < 0 ? (least > lo[l] ? least : lo[l]) : 0;
    }
}

/* Bounds of the second column of a pair; its neighbour is `level`. */
QC_VECTOR(bound_second, (double *restrict lo, double *restrict hi, const double *restrict level, double limit),
          (lo, hi, level, limit))
{
    for (size_t l = 0; l < QC_LANES; l++) {
        const double above = limit - (level[l] > 0 ? level[l] : 0), below = -limit - (level[l] < 0 ? level[l] : 0);
        hi[l] = above < hi[l] ? above : hi[l];
        lo[l] = below > lo[l] ? below : lo[l];
    }
}

static void round_pairs(double *d, const double *w, const double *sum, const double *lo, const double *hi,
                        const struct qc_round_pairs *p, size_t column)
{
    const size_t other = column ^ 1;
    double least[QC_LANES], most[QC_LANES], *level = p->level + column * QC_LANES;
    memcpy(least, lo, sizeof least);
    memcpy(most, hi, sizeof most);
    if (other < p->count && p->known[other])
        bound_second(least, most, p->level + other * QC_LANES, p->limit);
    else if (other < p->count)
        bound_first(least, most, w, sum, other > column ? w + QC_LANES : w - QC_LANES, p->limit);
    round_steps(d, w, sum, least, most);
    for (size_t l = 0; l < QC_LANES; l++) level[l] = round_level(w[l] - d[l], -0x1p20, 0x1p20);
    p->known[column] = 1;
}

void qc_round_lanes(double *d, const double *w, const double *sum, const struct qc_round_grid *grid, size_t column)
{
    const double *lo = grid->lo + column * grid->step, *hi = grid->hi + column * grid->step;
    if (grid->mantissa)
        round_floats(d, w, sum, lo, hi, grid->scale ? grid->scale + column * grid->step : ones, grid->mantissa,
                     grid->least);
    else if (grid->scale)
        round_scaled(d, w, sum, lo, hi, grid->scale + column * grid->step);
    else if (grid->pairs)
        round_pairs(d, w, sum, lo, hi, grid->pairs, column);
    else
        round_steps(d, w, sum, lo, hi);
}

/* The sum of a column adds the errors of columns order[n - 1], order[n - 2], ... in this order for any BLOCK. */
void qc_round_compensated(double *d, const double *w, const double *factor, const size_t *order, size_t n,
                          const struct qc_round_grid *grid, double *scratch)
{
    double *sum = scratch, *error = scratch + n * QC_LANES; /* both by place in the order */
    memset(sum, 0, n * QC_LANES * sizeof *sum);
    for (size_t end = n; end > 0;) {
        const size_t begin = end > BLOCK ? end - BLOCK : 0;
        for (size_t i = end; i-- > begin;) {
            double *s = sum + i * QC_LANES, *e = error + i * QC_LANES;
            const double *x = w + order[i] * QC_LANES;
            qc_lanes_add_down(s, 1, factor + i * n + i + 1, n, e + QC_LANES, end - i - 1);
            qc_round_lanes(e, x, s, grid, order[i]);
            memcpy(d + order[i] * QC_LANES, e, QC_LANES * sizeof *e);
        }
        qc_lanes_add_down(sum, begin, factor + begin, n, error + begin * QC_LANES, end - begin);
        end = begin;
    }
}

/* Changes of the errors of some columns, which are added to the sums of all columns together. Each sum adds them in the
   order of the columns, so the result does not depend on BLOCK. */
struct changes {
    size_t count;
    const double *row[BLOCK];    /* rows of h */
    double by[BLOCK * QC_LANES]; /* [count][QC_LANES] */
};

/* The minimum for column i is where (h d)_i is 0: at d_i - (h d)_i / h_ii. */
void qc_round_again(double *d, const double *w, const double *h, size_t n, const struct qc_round_grid *grid,
                    double *scratch)
{
    memset(scratch, 0, n * QC_LANES * sizeof *scratch);
    qc_lanes_add_up(scratch, n, h, n, d, n);
    bool moved = true;
    for (int pass = 0; moved && pass < PASSES; pass++) {
        moved = false;
        for (size_t begin = 0; begin < n; begin += BLOCK) {
            const size_t end = n - begin < BLOCK ? n : begin + BLOCK;
            struct changes c;
            c.count = 0;
            for (size_t i = begin; i < end; i++) {
                double *e = d + i * QC_LANES, *by = c.by + c.count * QC_LANES, sum[QC_LANES];
                bool any = false;
                if (!(h[i * n + i] > 0)) continue;
                for (size_t l = 0; l < QC_LANES; l++) {
                    sum[l] = scratch[i * QC_LANES + l] / h[i * n + i] - e[l];
                    by[l] = -e[l];
                }
                qc_round_lanes(e, w + i * QC_LANES, sum, grid, i);
                for (size_t l = 0; l < QC_LANES; l++) {
                    by[l] += e[l];
                    any = any || by[l] < 0 || by[l] > 0;
                }
                if (!any) continue;
                qc_lanes_carry(scratch + begin * QC_LANES, h + i * n + begin, by, end - begin);
                c.row[c.count++] = h + i * n;
                moved = true;
            }
            qc_lanes_carry_all(scratch, c.row, c.by, 0, begin, c.count);
            qc_lanes_carry_all(scratch, c.row, c.by, end, n, c.count);
        }
    }
}

/* With d = w - k s and k the integers, the best change of s is (k' h d) / (k' h k). */
void qc_round_rescale(double *d, double *scale, const double *w, const double *h, size_t n, size_t block,
                      double *scratch)
{
    double *gradient = scratch, *level = scratch + n * QC_LANES;
    memset(gradient, 0, n * QC_LANES * sizeof *gradient);
    qc_lanes_add_up(gradient, n, h, n, d, n);
    for (size_t i = 0; i < n * QC_LANES; i++) level[i] = nearbyint((w[i] - d[i]) / scale[i]);
    for (size_t first = 0; first < n; first += block) {
        const size_t end = n - first < block ? n : first + block;
        double with[QC_LANES] = {0}, of[QC_LANES] = {0}, to[QC_LANES];
        struct changes c;
        c.count = 0;
        for (size_t i = first; i < end; i++) {
            double sum[QC_LANES] = {0};
            qc_lanes_add_up(sum, 1, h + i * n + first, n, level + first * QC_LANES, end - first);
            for (size_t l = 0; l < QC_LANES; l++) {
                with[l] += level[i * QC_LANES + l] * gradient[i * QC_LANES + l];
                of[l] += level[i * QC_LANES + l] * sum[l];
            }
        }
        for (size_t l = 0; l < QC_LANES; l++) {
            const double was = scale[first * QC_LANES + l], best = of[l] > 0 ? was + with[l] / of[l] : was;
            to[l] = (double)(float)fmin(fmax(best, was / 2), was * 2);
        }
        for (size_t i = first; i < end; i++) {
            for (size_t l = 0; l < QC_LANES; l++) {
                const size_t at = i * QC_LANES + l;
                const double by = c.by[c.count * QC_LANES + l] = level[at] * (scale[at] - to[l]);
                d[at] += by;
                scale[at] = to[l];
            }
            c.row[c.count++] = h + i * n;
            if (c.count < BLOCK && i + 1 < end) continue;
            qc_lanes_carry_all(gradient, c.row, c.by, 0, n, c.count);
            c.count = 0;
        }
    }
}

void qc_round_nearest(double *d, const double *w, size_t n, const struct qc_round_grid *grid)
{
    const double none[QC_LANES] = {0};
    for (size_t i = 0; i < n; i++) qc_round_lanes(d + i * QC_LANES, w + i * QC_LANES, none, grid, i);
}

/* d' h d is the sum over i of d_i (h_ii d_i + 2 times the sum over j < i of h_ij d_j). */
void qc_row_errors(double *error, const double *d, const double *h, size_t n)
{
    for (size_t top = 0; top < n; top += ROWS) {
        const size_t rows = n - top < ROWS ? n - top : ROWS;
        double sum[ROWS * QC_LANES] = {0};
        qc_lanes_add_up(sum, rows, h + top * n, n, d, top);
        for (size_t r = 0; r < rows; r++) {
            const size_t i = top + r;
            const double *e = d + i * QC_LANES, diagonal = h[i * n + i];
            double *s = sum + r * QC_LANES;
            qc_lanes_add_up(s, 1, h + i * n + top, n, d + top * QC_LANES, r);
            for (size_t l = 0; l < QC_LANES; l++) error[l] += e[l] * (diagonal * e[l] + 2 * s[l]);
        }
    }
}
