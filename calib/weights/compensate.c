// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/compensate.h"

#include <math.h>
#include <string.h>

#include "base/simd.h"

enum { TRIES = 4 };
static const double DAMPING = 0.001;

/* a[j] -= sum over p of l[p] * t[p][j]; depth: a multiple of 4. */
_Static_assert(QC_FACTOR_PANEL % 4 == 0, "only whole panels have rows below them");
static QC_INLINE void update_body(double *restrict a, const double *l, const double *restrict t, size_t stride,
                                  size_t n, size_t depth)
{
    for (size_t p = 0; p < depth; p += 4) {
        const double *t0 = t + p * stride, *t1 = t0 + stride, *t2 = t1 + stride, *t3 = t2 + stride;
        const double l0 = l[p], l1 = l[p + 1], l2 = l[p + 2], l3 = l[p + 3];
        for (size_t j = 0; j < n; j++) a[j] -= (l0 * t0[j] + l1 * t1[j]) + (l2 * t2[j] + l3 * t3[j]);
    }
}
QC_SIMD(update, (double *a, const double *l, const double *t, size_t stride, size_t n, size_t depth),
        (a, l, t, stride, n, depth))

/* Columns first .. first + width of the lower factor, below what earlier panels have taken off. */
static bool factor_panel(double *a, size_t n, size_t first, size_t width)
{
    for (size_t j = first; j < first + width; j++) {
        double s = a[j * n + j];
        for (size_t p = first; p < j; p++) s -= a[j * n + p] * a[j * n + p];
        if (!(s > 0) || !isfinite(s)) return false;
        const double root = sqrt(s);
        a[j * n + j] = root;
        for (size_t i = j + 1; i < n; i++) {
            double t = a[i * n + j];
            for (size_t p = first; p < j; p++) t -= a[i * n + p] * a[j * n + p];
            a[i * n + j] = t / root;
        }
    }
    return true;
}

/* Lower Cholesky factor in place, right looking by panels. scratch: a panel transposed, [QC_FACTOR_PANEL][n]. */
static bool cholesky(double *a, size_t n, double *scratch)
{
    for (size_t first = 0; first < n; first += QC_FACTOR_PANEL) {
        const size_t width = n - first < QC_FACTOR_PANEL ? n - first : QC_FACTOR_PANEL, rest = first + width;
        if (!factor_panel(a, n, first, width)) return false;
        for (size_t i = rest; i < n; i++)
            for (size_t p = 0; p < width; p++) scratch[p * n + (i - rest)] = a[i * n + first + p];
        for (size_t i = rest; i < n; i++) update(a + i * n + rest, a + i * n + first, scratch, n, i - rest + 1, width);
    }
    return true;
}

/* Ascending diagonal; of equal ones the last column comes first. */
static bool comes_before(size_t x, size_t y, const double *diagonal)
{
    return diagonal[x] < diagonal[y] || (!(diagonal[x] > diagonal[y]) && x > y);
}

/* Puts order[root] where it belongs in the heap of order[0 .. n), the last column in front. */
static void sift(size_t *order, size_t root, size_t n, const double *diagonal)
{
    const size_t column = order[root];
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && comes_before(order[child], order[child + 1], diagonal)) child++;
        if (!comes_before(column, order[child], diagonal)) break;
        order[root] = order[child];
    }
    order[root] = column;
}

/* Rows and columns of a in ascending order of the diagonal, in place: row by row, then column by column. scratch: [2
   n]; memory that were refused here could not be told from a matrix that has no factor. */
static void reorder(double *a, size_t *order, size_t n, double *scratch)
{
    double *row = scratch, *diagonal = scratch + n, *done = scratch + n;
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
        diagonal[i] = a[i * n + i];
    }
    for (size_t i = n / 2; i-- > 0;) sift(order, i, n, diagonal);
    for (size_t end = n; end-- > 1;) {
        const size_t last = order[0];
        order[0] = order[end];
        order[end] = last;
        sift(order, 0, end, diagonal);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) row[j] = a[i * n + order[j]];
        for (size_t j = 0; j < n; j++) a[i * n + j] = row[j];
    }
    for (size_t i = 0; i < n; i++) done[i] = 0;
    for (size_t start = 0; start < n; start++) { /* cycles of the permutation */
        if (done[start] > 0) continue;
        for (size_t j = 0; j < n; j++) row[j] = a[start * n + j];
        size_t at = start;
        for (; order[at] != start; at = order[at]) {
            for (size_t j = 0; j < n; j++) a[at * n + j] = a[order[at] * n + j];
            done[at] = 1;
        }
        for (size_t j = 0; j < n; j++) a[at * n + j] = row[j];
        done[at] = 1;
    }
}

bool qc_factorise(double *a, size_t *order, size_t n, double damping, double *scratch)
{
    reorder(a, order, n, scratch);
    for (size_t i = 0; i < n; i++) a[i * n + i] += damping;
    if (!cholesky(a, n, scratch)) return false;
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++) a[i * n + j] = a[j * n + i] / a[i * n + i];
    return true;
}

bool qc_factorise_damped(double *factor, size_t *order, const double *h, size_t n, double noise, double *scratch)
{
    double sum = 0, part = DAMPING;
    for (size_t i = 0; i < n; i++) sum += h[i * n + i];
    for (int i = 0; i < TRIES; i++, part *= 10) {
        const double damping = part * sum / (double)n + noise;
        memcpy(factor, h, n * n * sizeof *factor);
        if (damping > 0 && qc_factorise(factor, order, n, damping, scratch)) return true;
    }
    return false;
}

/* Half to even; |x| is far below 2^51 once clamped to the levels. */
static QC_INLINE double round_level(double x, double lo, double hi)
{
    const double magic = 0x1.8p52;
    x = x < lo ? lo : x;
    x = x > hi ? hi : x;
    return (x + magic) - magic;
}

static QC_INLINE void compensated_body(double *restrict d, const double *restrict w, const double *restrict factor,
                                       const size_t *order, size_t n, const double *restrict lo,
                                       const double *restrict hi)
{
    for (size_t i = n; i-- > 0;) {
        const double *f = factor + i * n;
        double sum[QC_LANES] = {0};
        for (size_t j = i + 1; j < n; j++) {
            const double *e = d + order[j] * QC_LANES;
            for (size_t l = 0; l < QC_LANES; l++) sum[l] += f[j] * e[l];
        }
        const double *x = w + order[i] * QC_LANES;
        double *to = d + order[i] * QC_LANES;
        for (size_t l = 0; l < QC_LANES; l++) to[l] = x[l] - round_level(x[l] + sum[l], lo[l], hi[l]);
    }
}
QC_SIMD(compensated,
        (double *d, const double *w, const double *factor, const size_t *order, size_t n, const double *lo,
         const double *hi),
        (d, w, factor, order, n, lo, hi))

void qc_round_compensated(double *d, const double *w, const double *factor, const size_t *order, size_t n,
                          const double *lo, const double *hi)
{
    compensated(d, w, factor, order, n, lo, hi);
}

void qc_round_nearest(double *d, const double *w, size_t n, const double *lo, const double *hi)
{
    for (size_t i = 0; i < n; i++)
        for (size_t l = 0; l < QC_LANES; l++)
            d[i * QC_LANES + l] = w[i * QC_LANES + l] - round_level(w[i * QC_LANES + l], lo[l], hi[l]);
}

static QC_INLINE void errors_body(double *restrict error, const double *restrict d, const double *restrict h, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double sum[QC_LANES] = {0};
        for (size_t j = 0; j < n; j++)
            for (size_t l = 0; l < QC_LANES; l++) sum[l] += h[i * n + j] * d[j * QC_LANES + l];
        for (size_t l = 0; l < QC_LANES; l++) error[l] += d[i * QC_LANES + l] * sum[l];
    }
}
QC_SIMD(errors, (double *error, const double *d, const double *h, size_t n), (error, d, h, n))

void qc_row_errors(double *error, const double *d, const double *h, size_t n)
{
    errors(error, d, h, n);
}
