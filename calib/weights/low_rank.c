// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/compensation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/simd.h"

enum { COLUMNS_MIN = 256 }; /* with fewer columns a matrix is cheap */
enum { COLUMNS_PER_ROW = 3 };
enum { TILE = 512 }; /* doubles that stay in the L1 cache */
enum { BLOCK = QC_LOW_RANK_BLOCK };
enum { TILES = BLOCK / QC_TILE };
enum { PART = 64 }; /* rows of s processed while they are in the L1 cache */
enum { TRIES = QC_FACTORISE_TRIES };
enum { SHARED_LEAST = 1 << 25 };          /* multiply-adds of a block from which workers share it */
static const double NOTHING_LEFT = 1e-13; /* of the mean diagonal: rounding errors of the subtraction */

/* Returns the number of rows, or before collection the most that may come. */
static uint64_t rows_of(const struct qc_second_moments_layer *l, unsigned parts)
{
    const uint64_t seen = qc_second_moments_rows(l, parts);
    return seen ? seen : l->rows_max;
}

bool qc_low_rank_pays(const struct qc_second_moments_layer *l, unsigned parts)
{
    return !l->lanes && l->product_count && l->block >= COLUMNS_MIN && rows_of(l, parts) <= l->block / COLUMNS_PER_ROW;
}

static size_t rows_room(const struct qc_second_moments_layer *l, unsigned parts)
{
    return (size_t)rows_of(l, parts) + 1;
}

static size_t panels_of(size_t rank)
{
    return (rank + QC_TILE - 1) / QC_TILE;
}

/* Returns the doubles of -U_b', P', P and the factor of a block. */
static size_t block_size(size_t room)
{
    return 3 * BLOCK * QC_TILE * panels_of(room) + BLOCK * BLOCK;
}

static size_t inner_size(size_t room)
{
    return panels_of(room) * panels_of(room) * QC_TILE * QC_TILE;
}

size_t qc_low_rank_bytes(const struct qc_second_moments_layer *l, unsigned parts, bool rounding)
{
    const size_t w = l->block, room = rows_room(l, parts);
    return sizeof(float) * w * room + sizeof(double) * 3 * w + sizeof(size_t) * w +
           (rounding ? sizeof(float) * w * (room + BLOCK) + sizeof(double) * (inner_size(room) + block_size(room)) : 0);
}

void qc_low_rank_free(struct qc_low_rank *f)
{
    free(f->turned);
    free(f->shares);
    free(f->within);
    free(f->inner);
    free(f->block);
    free(f->scratch);
    free(f->order);
    *f = (struct qc_low_rank){0};
}

bool qc_low_rank_new(struct qc_low_rank *f, const struct qc_second_moments_layer *l, unsigned parts, bool rounding,
                     struct qc_status *st)
{
    const size_t w = l->block, room = rows_room(l, parts);
    *f = (struct qc_low_rank){.room = room,
                              .turned = malloc(room * w * sizeof(float)),
                              .scratch = malloc(3 * w * sizeof(double)),
                              .order = malloc(w * sizeof(size_t))};
    bool ok = f->turned && f->scratch && f->order;
    if (ok && rounding) {
        f->shares = malloc(room * w * sizeof(float));
        f->within = malloc(w * BLOCK * sizeof(float));
        f->inner = malloc(inner_size(room) * sizeof(double));
        f->block = malloc(block_size(room) * sizeof(double));
        ok = f->shares && f->within && f->inner && f->block;
    }
    if (ok) return true;
    qc_low_rank_free(f);
    return qc_fail_memory(st, qc_low_rank_bytes(l, parts, rounding));
}

/* x[i] -= sum over s < count of u[s][column] u[s][i], s ascending; rows of u are `stride` apart. */
QC_VECTOR(take_off,
          (double *restrict x, const double *restrict u, size_t stride, size_t column, size_t count, size_t w),
          (x, u, stride, column, count, w))
{
    for (size_t first = 0; first < w; first += TILE) {
        const size_t end = w - first < TILE ? w : first + TILE;
        for (size_t s = 0; s < count; s++) {
            const double *row = u + s * stride, by = -row[column];
            for (size_t i = first; i < end; i++) x[i] = __builtin_fma(by, row[i], x[i]);
        }
    }
}

/* Makes a column of H minus the earlier rows row t of U'; updates the remaining diagonal. */
QC_VECTOR(keep_row, (double *restrict row, double *restrict left, double root, size_t w), (row, left, root, w))
{
    for (size_t i = 0; i < w; i++) {
        row[i] /= root;
        left[i] = __builtin_fma(-row[i], row[i], left[i]);
    }
}

/* Computes U' from products, by pivoted Cholesky. */
static bool read_pivoted(struct qc_low_rank *f, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                         size_t block, const double *centre, struct qc_status *st)
{
    const size_t w = f->w;
    double *rows = malloc(f->room * w * sizeof *rows);
    if (!rows) return qc_fail_memory(st, f->room * w * sizeof *rows);
    double *left = f->scratch, *mean = f->scratch + w, sum = 0;
    qc_second_moments_read_mean(mean, l, parts, group, block * l->block, w);
    qc_second_moments_read_diagonal(left, l, parts, group, block);
    for (size_t i = 0; centre && i < w; i++) left[i] += centre[i] * (centre[i] - 2 * mean[i]);
    for (size_t i = 0; i < w; i++) sum += f->diagonal[i] = left[i];
    for (f->rank = 0; f->rank < f->room; f->rank++) {
        double *row = rows + f->rank * w;
        size_t at = 0; /* of the largest */
        for (size_t i = 1; i < w; i++)
            if (left[i] > left[at]) at = i;
        if (!(left[at] > NOTHING_LEFT * (sum / (double)w))) break;
        qc_second_moments_read_column(row, l, parts, group, block, at);
        for (size_t i = 0; centre && i < w; i++)
            row[i] += centre[i] * centre[at] - centre[i] * mean[at] - mean[i] * centre[at];
        take_off(row, rows, w, at, f->rank, w);
        keep_row(row, left, sqrt(left[at]), w);
        left[at] = 0;
    }
    for (size_t i = 0; i < f->rank * w; i++) f->turned[i] = (float)rows[i];
    free(rows);
    return true;
}

QC_VECTOR(add_squares, (double *restrict to, const float *restrict x, size_t n), (to, x, n))
{
    for (size_t i = 0; i < n; i++) to[i] += (double)x[i] * (double)x[i];
}

bool qc_low_rank_read(struct qc_low_rank *f, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                      size_t block, const double *centre, struct qc_status *st)
{
    const size_t w = f->w = qc_second_moments_width(l, block);
    f->diagonal = f->scratch + 2 * w;
    f->ordered = false;
    if (!qc_second_moments_are_rows(l, parts)) return read_pivoted(f, l, parts, group, block, centre, st);
    if (!qc_second_moments_read_rows(f->turned, &f->rank, l, parts, group, block, centre, st)) return false;
    for (size_t i = 0; i < w; i++) f->diagonal[i] = 0;
    for (size_t t = 0; t < f->rank; t++) add_squares(f->diagonal, f->turned + t * w, w);
    return true;
}

/* One block of columns during factorisation. Panels: [panels][rows][QC_TILE]. */
struct block {
    struct qc_low_rank *f;
    size_t first, width, panels, depth; /* depth: rank, rounded up to whole tiles */
    double *minus;                      /* -U_b': [TILES][depth][QC_TILE] of columns */
    double *p;                          /* P' and then L^-1 P': [panels][BLOCK][QC_TILE] of rows of M */
    double *turned;                     /* P: [TILES][depth][QC_TILE] of columns */
    double *factor;                     /* [BLOCK][BLOCK]: L */
};

static void pack_columns(const struct block *b)
{
    const struct qc_low_rank *f = b->f;
    for (size_t tile = 0; tile < TILES; tile++)
        for (size_t t = 0; t < b->depth; t++)
            for (size_t k = 0; k < QC_TILE; k++) {
                const size_t at = tile * QC_TILE + k;
                b->minus[(tile * b->depth + t) * QC_TILE + k] =
                    at < b->width && t < f->rank ? -(double)f->turned[t * f->w + b->first + at] : 0;
            }
}

/* Computes one panel of P' = U_b M, and of P. */
static bool multiply(void *user, size_t panel, unsigned worker, struct qc_status *st)
{
    const struct block *b = user;
    double *p = b->p + panel * BLOCK * QC_TILE;
    memset(p, 0, BLOCK * QC_TILE * sizeof *p);
    for (size_t tile = 0; tile < TILES; tile++) {
        double *to = p + tile * QC_TILE * QC_TILE, *turned = b->turned + (tile * b->depth + panel * QC_TILE) * QC_TILE;
        qc_tile_subtract(to, QC_TILE, b->minus + tile * b->depth * QC_TILE, b->f->inner + panel * b->depth * QC_TILE,
                         b->depth);
        for (size_t i = 0; i < QC_TILE; i++)
            for (size_t k = 0; k < QC_TILE; k++) turned[i * QC_TILE + k] = to[k * QC_TILE + i];
    }
    return true;
}

/* Computes L of d I + U_b P. */
static bool factor_block(const struct block *b, double damping)
{
    memset(b->factor, 0, BLOCK * BLOCK * sizeof *b->factor);
    for (size_t k = 0; k < BLOCK; k++) b->factor[k * BLOCK + k] = damping;
    for (size_t i = 0; i < TILES; i++)
        for (size_t j = 0; j <= i; j++)
            qc_tile_subtract(b->factor + i * QC_TILE * BLOCK + j * QC_TILE, BLOCK, b->turned + i * b->depth * QC_TILE,
                             b->minus + j * b->depth * QC_TILE, b->depth);
    if (!qc_factor_block(b->factor, BLOCK, b->width)) return false;
    for (size_t k = 0; k < b->width; k++)
        for (size_t j = k + 1; j < b->width; j++)
            b->f->within[(b->first + k) * BLOCK + j] = (float)(b->factor[j * BLOCK + k] / b->factor[k * BLOCK + k]);
    return true;
}

/* Computes one panel of L^-1 P', and c from it. */
static bool solve_panel(void *user, size_t panel, unsigned worker, struct qc_status *st)
{
    const struct block *b = user;
    const struct qc_low_rank *f = b->f;
    double *p = b->p + panel * BLOCK * QC_TILE;
    qc_factor_solve_tile(p, b->factor, BLOCK, b->width);
    for (size_t k = 0; k < b->width; k++)
        for (size_t i = 0; i < QC_TILE && panel * QC_TILE + i < f->rank; i++)
            f->shares[(b->first + k) * f->rank + panel * QC_TILE + i] =
                (float)(p[k * QC_TILE + i] / b->factor[k * BLOCK + k]);
    return true;
}

/* Subtracts these columns from M: a row of tiles up to the diagonal, and its mirror column. */
static bool take_block_off(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct block *b = user;
    const size_t row = b->panels - 1 - item; /* the longest first */
    for (size_t column = 0; column <= row; column++) {
        double *to = b->f->inner + (column * b->depth + row * QC_TILE) * QC_TILE,
               *across = b->f->inner + (row * b->depth + column * QC_TILE) * QC_TILE;
        qc_tile_subtract(to, QC_TILE, b->p + row * BLOCK * QC_TILE, b->p + column * BLOCK * QC_TILE, b->width);
        for (size_t i = 0; column < row && i < QC_TILE; i++)
            for (size_t j = 0; j < QC_TILE; j++) across[j * QC_TILE + i] = to[i * QC_TILE + j];
    }
    return true;
}

static bool factorise(bool *found, struct qc_low_rank *f, double damping, const struct qc_pool_options *team,
                      struct qc_status *st)
{
    const size_t panels = panels_of(f->rank), depth = panels * QC_TILE;
    struct block b = {.f = f, .panels = panels, .depth = depth, .minus = f->block};
    b.p = b.minus + BLOCK * depth;
    b.turned = b.p + BLOCK * depth;
    b.factor = b.turned + BLOCK * depth;
    memset(f->inner, 0, depth * depth * sizeof *f->inner);
    for (size_t i = 0; i < depth; i++) f->inner[(i / QC_TILE * depth + i) * QC_TILE + i % QC_TILE] = 1;
    /* Workers synchronise three times a block, so small blocks use one worker. */
    const struct qc_pool_options alone = {.workers = 1};
    if (depth * depth * BLOCK < SHARED_LEAST) team = &alone;
    *found = true;
    for (b.first = 0; *found && b.first < f->w; b.first += BLOCK) {
        b.width = f->w - b.first < BLOCK ? f->w - b.first : BLOCK;
        pack_columns(&b);
        if (!qc_pool_run(panels, multiply, &b, team, st)) return false;
        *found = factor_block(&b, damping);
        if (*found &&
            (!qc_pool_run(panels, solve_panel, &b, team, st) || !qc_pool_run(panels, take_block_off, &b, team, st)))
            return false;
    }
    return true;
}

bool qc_low_rank_factorise(bool *found, struct qc_low_rank *f, struct qc_damping by, const struct qc_pool_options *team,
                           struct qc_status *st)
{
    double sum = 0;
    for (size_t i = 0; i < f->w; i++) sum += f->diagonal[i];
    *found = false;
    for (int i = 0; i < TRIES && !*found; i++, by.part *= 10) {
        const double damping = by.part * sum / (double)f->w + by.noise;
        if (!(damping > 0) || !isfinite(damping)) return true;
        if (!f->ordered) {
            float *row = (float *)(void *)f->scratch;
            qc_order_by_diagonal(f->order, f->diagonal, f->w);
            for (size_t t = 0; t < f->rank; t++) {
                float *of = f->turned + t * f->w;
                for (size_t k = 0; k < f->w; k++) row[k] = of[f->order[k]];
                memcpy(of, row, f->w * sizeof *row);
            }
            f->ordered = true;
        }
        if (!factorise(found, f, damping, team, st)) return false;
    }
    return true;
}

static void add_norms(double *error, const float *s, size_t rank)
{
    for (size_t t = 0; t < rank; t++)
        for (size_t l = 0; l < QC_LANES; l++) error[l] += (double)s[t * QC_LANES + l] * (double)s[t * QC_LANES + l];
}

void qc_low_rank_round(double *error, double *d, const double *w, const struct qc_low_rank *f,
                       const struct qc_round_grid *grid, float *scratch)
{
    float *s = scratch, *sum = s + f->rank * QC_LANES, *e = sum + BLOCK * QC_LANES;
    memset(s, 0, f->rank * QC_LANES * sizeof *s);
    for (size_t end = f->w, first; end > 0; end = first) {
        first = (end - 1) / BLOCK * BLOCK;
        const size_t width = end - first;
        memset(sum, 0, width * QC_LANES * sizeof *sum);
        for (size_t t = 0; t < f->rank; t += PART)
            qc_lanes_add_up_f32(sum, width, f->shares + first * f->rank + t, f->rank, s + t * QC_LANES,
                                f->rank - t < PART ? f->rank - t : PART);
        for (size_t k = width; k-- > 0;) {
            const size_t column = f->order[first + k];
            double from[QC_LANES], *to = d + column * QC_LANES;
            qc_lanes_add_up_f32(sum + k * QC_LANES, 1, f->within + (first + k) * BLOCK + k + 1, BLOCK,
                                e + (k + 1) * QC_LANES, width - k - 1);
            for (size_t l = 0; l < QC_LANES; l++) from[l] = (double)sum[k * QC_LANES + l];
            qc_round_lanes(to, w + column * QC_LANES, from, grid, column);
            for (size_t l = 0; l < QC_LANES; l++) e[k * QC_LANES + l] = (float)to[l];
        }
        qc_lanes_add_up_f32(s, f->rank, f->turned + first, f->w, e, width); /* s += U_b' e */
    }
    add_norms(error, s, f->rank);
}

void qc_low_rank_errors(double *error, const double *d, const struct qc_low_rank *f, float *scratch)
{
    float *s = scratch, *e = s + f->rank * QC_LANES;
    memset(s, 0, f->rank * QC_LANES * sizeof *s);
    for (size_t first = 0; first < f->w; first += BLOCK) {
        const size_t width = f->w - first < BLOCK ? f->w - first : BLOCK;
        for (size_t k = 0; k < width; k++) {
            const double *from = d + (f->ordered ? f->order[first + k] : first + k) * QC_LANES;
            for (size_t l = 0; l < QC_LANES; l++) e[k * QC_LANES + l] = (float)from[l];
        }
        qc_lanes_add_up_f32(s, f->rank, f->turned + first, f->w, e, width);
    }
    add_norms(error, s, f->rank);
}
