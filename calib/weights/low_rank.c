// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/low_rank.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/simd.h"
#include "calib/weights/compensate.h"

enum { COLUMNS_MIN = 256 }; /* below, a matrix is no work */
enum { COLUMNS_PER_ROW = 8 };
enum { TILE = 512 };                      /* doubles that stay in the first cache */
static const double NOTHING_LEFT = 1e-13; /* of the mean diagonal: rounding of what was taken off */

/* Before anything is seen: as many as may come. */
static uint64_t rows_of(const struct qc_second_moments_layer *l, unsigned parts)
{
    const uint64_t seen = qc_second_moments_rows(l, parts);
    return seen ? seen : l->rows_max;
}

bool qc_low_rank_pays(const struct qc_second_moments_layer *l, unsigned parts)
{
    return !l->lanes && l->product_count && l->block >= COLUMNS_MIN && rows_of(l, parts) <= l->block / COLUMNS_PER_ROW;
}

static size_t room_of(const struct qc_second_moments_layer *l, unsigned parts)
{
    return (size_t)rows_of(l, parts) + 1;
}

size_t qc_low_rank_bytes(const struct qc_second_moments_layer *l, unsigned parts, bool rounding)
{
    const size_t w = l->block, room = room_of(l, parts);
    return sizeof(double) * ((rounding ? 3 : 1) * w * room + (rounding ? room * room : 0) + 3 * w + room) +
           sizeof(size_t) * w;
}

void qc_low_rank_free(struct qc_low_rank *f)
{
    free(f->turned);
    free(f->columns);
    free(f->shares);
    free(f->inner);
    free(f->scratch);
    free(f->order);
    *f = (struct qc_low_rank){0};
}

bool qc_low_rank_new(struct qc_low_rank *f, const struct qc_second_moments_layer *l, unsigned parts, bool rounding,
                     struct qc_status *st)
{
    const size_t w = l->block, room = room_of(l, parts);
    *f = (struct qc_low_rank){.room = room,
                              .turned = malloc(room * w * sizeof(double)),
                              .scratch = malloc((3 * w + room) * sizeof(double)),
                              .order = malloc(w * sizeof(size_t))};
    bool ok = f->turned && f->scratch && f->order;
    if (ok && rounding) {
        f->columns = malloc(room * w * sizeof(double));
        f->shares = malloc(room * w * sizeof(double));
        f->inner = malloc(room * room * sizeof(double));
        ok = f->columns && f->shares && f->inner;
    }
    if (ok) return true;
    qc_low_rank_free(f);
    return qc_fail_memory(st, qc_low_rank_bytes(l, parts, rounding));
}

/* x[i] -= sum over s < count of u[s][column] u[s][i], s ascending; rows of u are `stride` apart. */
static QC_INLINE void take_off_body(double *restrict x, const double *restrict u, size_t stride, size_t column,
                                    size_t count, size_t w)
{
    for (size_t first = 0; first < w; first += TILE) {
        const size_t end = w - first < TILE ? w : first + TILE;
        for (size_t s = 0; s < count; s++) {
            const double *row = u + s * stride, by = -row[column];
            for (size_t i = first; i < end; i++) x[i] = __builtin_fma(by, row[i], x[i]);
        }
    }
}
QC_SIMD(take_off, (double *x, const double *u, size_t stride, size_t column, size_t count, size_t w),
        (x, u, stride, column, count, w))

/* Row t of U' from a column of H of which the earlier ones were taken off; what is left of the diagonal. */
static QC_INLINE void keep_row_body(double *restrict row, double *restrict left, const double *restrict column,
                                    double root, size_t w)
{
    for (size_t i = 0; i < w; i++) {
        row[i] = column[i] / root;
        left[i] = __builtin_fma(-row[i], row[i], left[i]);
    }
}
QC_SIMD(keep_row, (double *row, double *left, const double *column, double root, size_t w),
        (row, left, column, root, w))

static size_t largest(const double *x, size_t n)
{
    size_t at = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[at]) at = i;
    return at;
}

void qc_low_rank_read(struct qc_low_rank *f, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                      size_t block, const double *centre)
{
    const size_t w = f->w = qc_second_moments_width(l, block);
    double *left = f->scratch, *mean = f->scratch + w, sum = 0;
    f->diagonal = mean + w;
    qc_second_moments_read_mean(mean, l, parts, group, block * l->block, w);
    qc_second_moments_read_diagonal(left, l, parts, group, block);
    for (size_t i = 0; centre && i < w; i++) left[i] += centre[i] * (centre[i] - 2 * mean[i]);
    for (size_t i = 0; i < w; i++) sum += f->diagonal[i] = left[i];
    for (f->rank = 0; f->rank < f->room; f->rank++) {
        const size_t at = largest(left, w);
        double *row = f->turned + f->rank * w;
        if (!(left[at] > NOTHING_LEFT * (sum / (double)w))) break;
        qc_second_moments_read_column(row, l, parts, group, block, at);
        for (size_t i = 0; centre && i < w; i++)
            row[i] += centre[i] * centre[at] - centre[i] * mean[at] - mean[i] * centre[at];
        take_off(row, f->turned, w, at, f->rank, w);
        keep_row(row, left, row, sqrt(left[at]), w);
        left[at] = 0;
    }
}

/* p = M u, each element one chain over the rows of symmetric M. */
static QC_INLINE void times_body(double *restrict p, const double *restrict m, const double *restrict u, size_t n)
{
    for (size_t i = 0; i < n; i++) p[i] = 0;
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < n; i++) p[i] = __builtin_fma(u[r], m[r * n + i], p[i]);
}
QC_SIMD(times, (double *p, const double *m, const double *u, size_t n), (p, m, u, n))

/* M -= p p' / s, and next = M u of the M that comes of it, as `times` makes it: M goes through the caches once. */
static QC_INLINE void downdate_times_body(double *restrict next, double *restrict m, const double *restrict p, double s,
                                          const double *restrict u, size_t n)
{
    for (size_t i = 0; i < n; i++) next[i] = 0;
    for (size_t r = 0; r < n; r++) {
        const double by = -p[r] / s, times = u[r];
        double *restrict row = m + r * n;
        for (size_t i = 0; i < n; i++) {
            row[i] = __builtin_fma(by, p[i], row[i]);
            next[i] = __builtin_fma(times, row[i], next[i]);
        }
    }
}
QC_SIMD(downdate_times,
        (double *restrict next, double *restrict m, const double *restrict p, double s, const double *restrict u,
         size_t n),
        (next, m, p, s, u, n))

bool qc_low_rank_factorise(struct qc_low_rank *f, struct qc_damping by)
{
    const size_t n = f->rank;
    const double *diagonal = f->diagonal;
    double *p = f->scratch, *next = p + n, sum = 0; /* of 2 w */
    for (size_t i = 0; i < f->w; i++) sum += diagonal[i];
    const double damping = by.part * sum / (double)f->w + by.noise;
    if (!(damping > 0) || !isfinite(damping)) return false;
    qc_order_by_diagonal(f->order, diagonal, f->w);
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < n; i++) f->inner[r * n + i] = r == i;
    /* Ascending diagonal: the last to be rounded comes first. */
    for (size_t k = 0; k < f->w; k++)
        for (size_t t = 0; t < n; t++) f->columns[k * n + t] = f->turned[t * f->w + f->order[k]];
    times(p, f->inner, f->columns, n);
    for (size_t k = 0; k < f->w; k++) {
        const double *u = f->columns + k * n;
        double *c = f->shares + k * n, s = damping;
        for (size_t t = 0; t < n; t++) s = __builtin_fma(u[t], p[t], s);
        for (size_t t = 0; t < n; t++) c[t] = p[t] / s;
        if (k + 1 == f->w) break;
        downdate_times(next, f->inner, p, s, u + n, n);
        double *const before = p;
        p = next;
        next = before;
    }
    return true;
}

void qc_low_rank_round(double *d, const double *w, const struct qc_low_rank *f, const struct qc_round_grid *grid,
                       double *scratch)
{
    memset(scratch, 0, f->rank * QC_LANES * sizeof *scratch);
    for (size_t k = f->w; k-- > 0;) {
        double sum[QC_LANES] = {0};
        const double *x = w + f->order[k] * QC_LANES;
        double *e = d + f->order[k] * QC_LANES;
        qc_lanes_add_up(sum, 1, f->shares + k * f->rank, f->rank, scratch, f->rank);
        qc_round_lanes(e, x, sum, grid, f->order[k]);
        qc_lanes_carry(scratch, f->columns + k * f->rank, e, f->rank);
    }
}

void qc_low_rank_errors(double *error, const double *d, const struct qc_low_rank *f)
{
    enum { ROWS = 4 };
    for (size_t t = 0; t < f->rank; t += ROWS) {
        const size_t rows = f->rank - t < ROWS ? f->rank - t : ROWS;
        double sum[ROWS * QC_LANES] = {0};
        qc_lanes_add_up(sum, rows, f->turned + t * f->w, f->w, d, f->w);
        for (size_t r = 0; r < rows; r++)
            for (size_t l = 0; l < QC_LANES; l++) error[l] += sum[r * QC_LANES + l] * sum[r * QC_LANES + l];
    }
}
