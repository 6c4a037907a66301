// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/compensation.h"

#include <math.h>
#include <string.h>

#include "base/simd.h"

enum { TRIES = QC_FACTORISE_TRIES };

/* One panel of the lower factor, and the rest of the matrix. Element (i, j) of the factor is a[i][j] minus l[i][p]
   l[j][p] for p = 0, 1, ..., j - 1 in this order, by fused multiply-adds, then divided by l[j][j]. So the result does
   not depend on blocks or workers. */
struct panel {
    double *a, *packed; /* packed: rows of the panel below its diagonal block, in tiles [tile][width][QC_TILE] */
    size_t n, first, width, rest; /* rest: first row and column after it */
};

/* Subtracts column j of the factor from the rows below it, up to the diagonal. a: a block of `width` columns, rows
   `stride` apart. */
QC_VECTOR(take_column_off, (double *restrict a, size_t stride, size_t j, size_t width, double *restrict column),
          (a, stride, j, width, column))
{
    for (size_t i = j + 1; i < width; i++) column[i] = a[i * stride + j];
    for (size_t i = j + 1; i < width; i++) {
        double *row = a + i * stride;
        const double by = -column[i];
        for (size_t k = j + 1; k <= i; k++) row[k] = __builtin_fma(by, column[k], row[k]);
    }
}

bool qc_factor_block(double *a, size_t stride, size_t width)
{
    double column[QC_FACTOR_PANEL];
    for (size_t j = 0; j < width; j++) {
        const double s = a[j * stride + j];
        if (!(s > 0) || !isfinite(s)) return false;
        const double root = sqrt(s);
        a[j * stride + j] = root;
        for (size_t i = j + 1; i < width; i++) a[i * stride + j] /= root;
        take_column_off(a, stride, j, width, column);
    }
    return true;
}

QC_VECTOR_EXPORTED(qc_factor_solve_tile, (double *restrict tile, const double *diagonal, size_t stride, size_t width),
                   (tile, diagonal, stride, width))
{
    for (size_t j = 0; j < width; j++) {
        double *x = tile + j * QC_TILE;
        for (size_t k = 0; k < j; k++) {
            const double l = -diagonal[j * stride + k];
            const double *y = tile + k * QC_TILE;
            QC_IVDEP
            for (size_t i = 0; i < QC_TILE; i++) x[i] = __builtin_fma(l, y[i], x[i]);
        }
        for (size_t i = 0; i < QC_TILE; i++) x[i] /= diagonal[j * stride + j];
    }
}

static size_t tile_height(const struct panel *p, size_t tile)
{
    const size_t left = p->n - p->rest - tile * QC_TILE;
    return left < QC_TILE ? left : QC_TILE;
}

/* Packs, solves and writes back QC_TILE rows of the panel. */
static bool factor_rows(void *user, size_t tile, unsigned worker, struct qc_status *st)
{
    const struct panel *p = user;
    const size_t n = p->n, height = tile_height(p, tile), width = p->width;
    double *rows = p->a + (p->rest + tile * QC_TILE) * n + p->first, *to = p->packed + tile * width * QC_TILE;
    for (size_t k = 0; k < width; k++)
        for (size_t i = 0; i < QC_TILE; i++) to[k * QC_TILE + i] = i < height ? rows[i * n + k] : 0;
    qc_factor_solve_tile(to, p->a + p->first * n + p->first, n, width);
    for (size_t i = 0; i < height; i++)
        for (size_t k = 0; k < width; k++) rows[i * n + k] = to[k * QC_TILE + i];
    return true;
}

/* Updates a column of tiles after the panel, from the diagonal down. */
static bool take_off(void *user, size_t column, unsigned worker, struct qc_status *st)
{
    const struct panel *p = user;
    const size_t n = p->n, rest = p->rest, each = p->width * QC_TILE, tiles = (n - rest + QC_TILE - 1) / QC_TILE;
    for (size_t row = column; row < tiles; row++) {
        const size_t height = tile_height(p, row), width = tile_height(p, column);
        double *c = p->a + (rest + row * QC_TILE) * n + rest + column * QC_TILE;
        if (height == QC_TILE && width == QC_TILE) {
            qc_tile_subtract(c, n, p->packed + row * each, p->packed + column * each, p->width);
            continue;
        }
        double edge[QC_TILE * QC_TILE] = {0};
        for (size_t i = 0; i < height; i++) memcpy(edge + i * QC_TILE, c + i * n, width * sizeof *edge);
        qc_tile_subtract(edge, QC_TILE, p->packed + row * each, p->packed + column * each, p->width);
        for (size_t i = 0; i < height; i++) memcpy(c + i * n, edge + i * QC_TILE, width * sizeof *edge);
    }
    return true;
}

/* Compares by ascending diagonal; equal ones by descending number. */
static bool comes_before(size_t x, size_t y, const double *diagonal)
{
    return diagonal[x] < diagonal[y] || (!(diagonal[x] > diagonal[y]) && x > y);
}

/* Sifts order[root] down in the heap order[0 .. n), whose front is the last column in order. */
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

void qc_order_by_diagonal(size_t *order, const double *diagonal, size_t n)
{
    for (size_t i = 0; i < n; i++) order[i] = i;
    for (size_t i = n / 2; i-- > 0;) sift(order, i, n, diagonal);
    for (size_t end = n; end-- > 1;) {
        const size_t last = order[0];
        order[0] = order[end];
        order[end] = last;
        sift(order, 0, end, diagonal);
    }
}

/* Fills in the shares above the diagonal from the lower factor. Tile by tile, for the cache. */
static void upper_from_lower(double *a, size_t n)
{
    for (size_t top = 0; top < n; top += QC_TILE)
        for (size_t left = top; left < n; left += QC_TILE)
            for (size_t i = top; i < n && i < top + QC_TILE; i++)
                for (size_t j = left > i ? left : i + 1; j < n && j < left + QC_TILE; j++)
                    a[i * n + j] = a[j * n + i] / a[i * n + i];
}

bool qc_factorise(bool *definite, double *a, size_t *order, size_t n, double damping, double *scratch,
                  const struct qc_pool_options *team, struct qc_status *st)
{
    /* Permute rows and columns of a into ascending order of the diagonal, in place: columns within each row, then rows.
       scratch: [2 n], so that nothing can fail here. */
    double *row = scratch, *diagonal = scratch + n, *done = scratch + n;
    for (size_t i = 0; i < n; i++) diagonal[i] = a[i * n + i];
    qc_order_by_diagonal(order, diagonal, n);
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
    for (size_t i = 0; i < n; i++) a[i * n + i] += damping;
    *definite = true;
    for (size_t first = 0; *definite && first < n; first += QC_FACTOR_PANEL) {
        const size_t width = n - first < QC_FACTOR_PANEL ? n - first : QC_FACTOR_PANEL;
        struct panel p = {.a = a, .packed = scratch, .n = n, .first = first, .width = width, .rest = first + width};
        const size_t tiles = (n - p.rest + QC_TILE - 1) / QC_TILE;
        *definite = qc_factor_block(a + first * n + first, n, width);
        if (*definite &&
            (!qc_pool_run(tiles, factor_rows, &p, team, st) || !qc_pool_run(tiles, take_off, &p, team, st)))
            return false;
    }
    if (*definite) upper_from_lower(a, n);
    return true;
}

bool qc_factorise_read(bool *definite, double *a, size_t *order, const struct qc_factorised *of, double *scratch,
                       const struct qc_pool_options *team, struct qc_status *st)
{
    const size_t n = of->n;
    struct qc_damping damping = of->damping;
    *definite = false;
    for (int i = 0; i < TRIES && !*definite; i++, damping.part *= 10) {
        double sum = 0;
        if (of->h)
            memcpy(a, of->h, n * n * sizeof *a);
        else
            of->read(of->user, a);
        for (size_t k = 0; k < n; k++) sum += a[k * n + k];
        const double added = damping.part * sum / (double)n + damping.noise;
        if (added > 0 && !qc_factorise(definite, a, order, n, added, scratch, team, st)) return false;
    }
    return true;
}
