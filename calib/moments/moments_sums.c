// SPDX-License-Identifier: Apache-2.0
#include "calib/moments/moments_parts.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/file_map.h"
#include "base/resident.h"

/* Returns the largest sum of squares after adding rows that are `up` steps above the lowest, in units of the step
   `base`. */
static int64_t largest_square(const struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                              const int32_t *squares, int up, int base)
{
    const int64_t there = (int64_t)1 << (4 * (s->base - base)), more = (int64_t)1 << (4 * (up - base));
    const size_t lanes = l->lanes ? l->groups : 1;
    int64_t most = 0;
    for (size_t g = 0; g < l->groups; g++)
        for (size_t b = 0; b < l->blocks; b++) {
            const size_t first = l->lanes ? g : g * l->columns + b * l->block;
            const int32_t *entry = s->narrow + qc_second_moments_product_at(l, g, b, 0, 0);
            for (size_t k = 0; k < qc_second_moments_width(l, b); k++, entry += (k + 1) * lanes) {
                const int64_t all = *entry * there + squares[first + k * lanes] * more;
                most = all > most ? all : most;
            }
        }
    return most;
}

static bool new_narrow(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l, int base,
                       struct qc_status *st)
{
    if (!(s->narrow = calloc(l->product_count, sizeof *s->narrow)))
        return qc_fail_memory(st, l->product_count * sizeof *s->narrow);
    s->base = base;
    return true;
}

bool qc_second_moments_make_room(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                                 const int16_t *rows, size_t count, int up, int32_t *squares, struct qc_status *st)
{
    if (s->products && !s->away) return true;
    if (l->spills || s->away) return qc_second_moments_widen(s, l, st);
    const int base = s->narrow && s->base < up ? s->base : up;
    const int64_t more = qc_second_moments_squares(squares, rows, count, qc_second_moments_row(l)),
                  there = s->narrow ? s->most * ((int64_t)1 << (4 * (s->base - base))) : 0;
    int64_t most = there + more * ((int64_t)1 << (4 * (up - base)));
    if (most > INT32_MAX && s->narrow) most = largest_square(s, l, squares, up, base);
    if (most > INT32_MAX) return qc_second_moments_widen(s, l, st);
    s->most = most;
    if (!s->narrow) return new_narrow(s, l, base, st);
    for (size_t i = 0; s->base > base && i < l->product_count; i++) s->narrow[i] *= 1 << (4 * (s->base - base));
    s->base = base;
    return true;
}

struct qc_second_moments_sink qc_second_moments_sink_of(const struct qc_second_moments_sums *s, int up)
{
    return (struct qc_second_moments_sink){.wide = s->products,
                                           .narrow = s->narrow,
                                           .shift = 4 * (up - (s->narrow ? s->base : 0))};
}

void qc_second_moments_add_panels(const struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                                  size_t group, size_t block, const int16_t *panels, size_t pairs, int up)
{
    const struct qc_second_moments_sink to = qc_second_moments_sink_of(s, up);
    const size_t w = qc_second_moments_width(l, block), panel = pairs * QC_MOMENTS_PAIR_SIZE;
    for (size_t right = 0, k = 0; k < w; right++, k += QC_MOMENTS_TILE)
        for (size_t left = 0; left <= right; left++)
            qc_second_moments_add_tile(&to, qc_second_moments_product_at(l, group, block, left * QC_MOMENTS_TILE, k), k,
                                       w - k < QC_MOMENTS_TILE ? w - k : QC_MOMENTS_TILE, left == right,
                                       panels + right * panel, panels + left * panel, pairs);
}

bool qc_second_moments_widen(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                             struct qc_status *st)
{
    struct qc_second_moments_sums was = *s;
    if ((s->products && !s->away) || !l->product_count) return true;
    if (l->spills) {
        struct qc_file_map *file;
        if (!qc_file_map_scratch(&file, l->product_count * sizeof *s->products, st)) return false;
        s->file = file;
        s->products = qc_file_map_room(file);
    } else {
        int64_t *products = calloc(l->product_count, sizeof *products);
        if (!products) return qc_fail_memory(st, l->product_count * sizeof *products);
        s->file = NULL;
        s->products = products;
    }
    s->narrow = NULL;
    s->away = false;
    for (size_t i = 0; qc_second_moments_has_products(&was) && i < l->product_count; i++)
        s->products[i] = qc_second_moments_product(&was, i);
    qc_second_moments_drop_products(&was);
    return true;
}

void qc_second_moments_drop_products(struct qc_second_moments_sums *s)
{
    if (s->file) {
        qc_file_map_unref(s->file);
    } else {
        free(s->products);
        free(s->narrow);
    }
    s->file = NULL;
    s->away = false;
    s->products = NULL;
    s->narrow = NULL;
}

/* ---- In a temporary file ---- */

enum { AWAY_LEAST = 1 << 16 }; /* least bytes of a class to move */

/* Returns the bytes of a class that can be moved; else 0. */
static size_t away_bytes(const struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l)
{
    const size_t bytes = l->product_count * (s->narrow ? sizeof *s->narrow : sizeof *s->products);
    return qc_second_moments_has_products(s) && !s->file && !l->borrowed && bytes >= AWAY_LEAST ? bytes : 0;
}

/* Returns the next class that can be moved, from number *at on; NULL: none. */
static struct qc_second_moments_sums *next(struct qc_second_moments_layer **l, const struct qc_second_moments *m,
                                           size_t *at)
{
    enum { EACH = QC_MOMENTS_PARTS * QC_MOMENTS_CLASSES };
    while (*at < m->count * EACH) {
        const size_t k = (*at)++;
        *l = m->layers[k / EACH];
        struct qc_second_moments_sums *s = &(*l)->parts[k % EACH / QC_MOMENTS_CLASSES].of[k % QC_MOMENTS_CLASSES];
        if (away_bytes(s, *l)) return s;
    }
    return NULL;
}

/* Writes all such classes to a file. *out stays NULL if there is no room. */
static bool write_all(struct qc_file_map **out, const struct qc_second_moments *m, struct qc_status *st)
{
    struct qc_second_moments_layer *l;
    struct qc_second_moments_sums *s;
    struct qc_status ignored = QC_STATUS_INIT;
    struct qc_scratch_file *file = NULL;
    bool room = qc_scratch_file_new(&file, NULL, &ignored);
    for (size_t at = 0; room && (s = next(&l, m, &at));) {
        const size_t bytes = away_bytes(s, l);
        int64_t place;
        const void *data = s->narrow ? (const void *)s->narrow : s->products;
        room = qc_scratch_file_grow(&place, file, qc_scratch_file_whole(bytes), &ignored) &&
               qc_scratch_file_write(file, place, data, bytes, &ignored);
    }
    const bool ok = !room || qc_scratch_file_map(out, file, st);
    qc_scratch_file_free(file);
    return ok;
}

bool qc_second_moments_put_away(struct qc_second_moments *m, size_t most, struct qc_status *st)
{
    struct qc_second_moments_layer *l;
    struct qc_second_moments_sums *s;
    struct qc_file_map *map = NULL;
    size_t bytes = 0, place = 0;
    for (size_t at = 0; (s = next(&l, m, &at));) bytes += away_bytes(s, l);
    if (bytes <= most) return true;
    if (!write_all(&map, m, st)) return false;
    for (size_t at = 0; map && (s = next(&l, m, &at));) {
        const uintptr_t data = (uintptr_t)qc_file_map_data(map) + place; /* read-only while `away` is set */
        place += qc_scratch_file_whole(away_bytes(s, l));
        if (s->narrow) {
            free(s->narrow);
            s->narrow = (int32_t *)data;
        } else {
            free(s->products);
            s->products = (int64_t *)data;
        }
        s->file = qc_file_map_ref(map);
        s->away = true;
    }
    if (map) qc_resident_give_back();
    qc_file_map_unref(map);
    return true;
}

/* Rows of one step, in panels as products need them (qc_second_moments_pack): [panels][pairs][16][2] for each group and
   block. */
struct qc_second_moments_chunk {
    struct qc_second_moments_chunk *next;
    size_t count, pairs;
    int up;
    int16_t *panels; /* after this struct, or in the file */
};

static size_t panels_of_group(const struct qc_second_moments_layer *l)
{
    return (l->blocks - 1) * qc_second_moments_panels(l->block) +
           qc_second_moments_panels(qc_second_moments_width(l, l->blocks - 1));
}

static const int16_t *panel_of(const struct qc_second_moments_chunk *c, const struct qc_second_moments_layer *l,
                               size_t group, size_t block, size_t panel)
{
    const size_t at = group * panels_of_group(l) + block * qc_second_moments_panels(l->block) + panel;
    return c->panels + at * c->pairs * QC_MOMENTS_PAIR_SIZE;
}

/* Opens the file of a class, with room for all rows that may be kept. */
static bool open_rows(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l, struct qc_status *st)
{
    const size_t most = l->rows_max && l->rows_max < l->keep ? l->rows_max : l->keep;
    s->row_bytes = 0;
    s->row_room = qc_second_moments_kept_bytes(l, most + QC_MOMENTS_ROWS);
    return qc_file_map_scratch(&s->row_file, s->row_room, st);
}

static bool new_chunk(struct qc_second_moments_chunk **out, struct qc_second_moments_sums *s,
                      const struct qc_second_moments_layer *l, size_t count, struct qc_status *st)
{
    const size_t pairs = (count + 1) / 2;
    size_t bytes;
    if (!qc_mul_size(&bytes, l->groups * panels_of_group(l), pairs * QC_MOMENTS_PAIR_SIZE * sizeof(int16_t)))
        return qc_fail_memory(st, SIZE_MAX);
    if (l->spills && !s->row_file && !open_rows(s, l, st)) return false;
    const bool filed = s->row_file && bytes <= s->row_room - s->row_bytes;
    struct qc_second_moments_chunk *c = malloc(sizeof *c + (filed ? 0 : bytes));
    if (!c) return qc_fail_memory(st, bytes);
    *c = (struct qc_second_moments_chunk){.count = count, .pairs = pairs, .panels = (int16_t *)(c + 1)};
    if (filed) c->panels = (int16_t *)(void *)((char *)qc_file_map_room(s->row_file) + s->row_bytes);
    if (filed) s->row_bytes += bytes;
    *out = c;
    return true;
}

size_t qc_second_moments_kept_bytes(const struct qc_second_moments_layer *l, size_t count)
{
    return l->groups * panels_of_group(l) * (count + 1) / 2 * QC_MOMENTS_PAIR_SIZE * sizeof(int16_t) +
           count * sizeof(struct qc_second_moments_chunk);
}

void qc_second_moments_kept_diagonal(int64_t *to, const struct qc_second_moments_layer *l,
                                     const struct qc_second_moments_sums *s, size_t group, size_t block, size_t panel)
{
    memset(to, 0, QC_MOMENTS_TILE * sizeof *to);
    for (const struct qc_second_moments_chunk *c = s->rows; c; c = c->next) {
        const int16_t *x = panel_of(c, l, group, block, panel);
        for (size_t p = 0; p < c->pairs; p++, x += QC_MOMENTS_PAIR_SIZE)
            for (size_t i = 0; i < QC_MOMENTS_TILE; i++)
                to[i] += ((int64_t)x[2 * i] * x[2 * i] + (int64_t)x[2 * i + 1] * x[2 * i + 1]) << (4 * c->up);
    }
}

/* Makes products large enough for the rows. */
static bool make_room_for_rows(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                               struct qc_status *st)
{
    int64_t most = 0;
    int up = QC_MOMENTS_STEPS - 1;
    for (const struct qc_second_moments_chunk *c = s->rows; c; c = c->next) up = c->up < up ? c->up : up;
    for (size_t g = 0; g < l->groups; g++)
        for (size_t b = 0; b < l->blocks; b++)
            for (size_t p = 0; p < qc_second_moments_panels(qc_second_moments_width(l, b)); p++) {
                int64_t squares[QC_MOMENTS_TILE];
                qc_second_moments_kept_diagonal(squares, l, s, g, b, p);
                for (size_t i = 0; i < QC_MOMENTS_TILE; i++) most = squares[i] > most ? squares[i] : most;
            }
    s->most = most >> (4 * up);
    if (l->spills || s->most > INT32_MAX) return qc_second_moments_widen(s, l, st);
    return new_narrow(s, l, up, st);
}

/* Adds the products of kept rows to existing products. */
static void add_kept_products(struct qc_second_moments_sums *to, const struct qc_second_moments_sums *from,
                              const struct qc_second_moments_layer *l)
{
    for (size_t g = 0; g < l->groups; g++)
        for (size_t b = 0; b < l->blocks; b++)
            for (const struct qc_second_moments_chunk *c = from->rows; c; c = c->next)
                qc_second_moments_add_panels(to, l, g, b, panel_of(c, l, g, b, 0), c->pairs, c->up);
}

/* Replaces the rows by their products, whatever their number. */
static bool square(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l, struct qc_status *st)
{
    if (!s->rows) return true;
    if (!make_room_for_rows(s, l, st)) return false;
    add_kept_products(s, s, l);
    qc_second_moments_drop_rows(s);
    return true;
}

static bool append_chunk(struct qc_second_moments_sums *s, struct qc_second_moments_chunk *c,
                         const struct qc_second_moments_layer *l, struct qc_status *st)
{
    c->next = s->rows;
    s->rows = c;
    s->row_count += c->count;
    return s->row_count <= l->keep || square(s, l, st);
}

bool qc_second_moments_keep(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                            const int16_t *rows, size_t count, int up, struct qc_status *st)
{
    struct qc_second_moments_chunk *c;
    if (!new_chunk(&c, s, l, count, st)) return false;
    int16_t *to = c->panels;
    c->up = up;
    for (size_t g = 0; g < l->groups; g++)
        for (size_t b = 0; b < l->blocks; b++) {
            const size_t width = qc_second_moments_width(l, b);
            qc_second_moments_pack(to, rows, count, qc_second_moments_row(l), g * l->columns + b * l->block, width);
            to += qc_second_moments_panels(width) * c->pairs * QC_MOMENTS_PAIR_SIZE;
        }
    return append_chunk(s, c, l, st);
}

struct listed {
    const int16_t *row;
    size_t width;
    int up;
};

static int by_content(const void *a, const void *b)
{
    const struct listed *x = a, *y = b;
    if (x->up != y->up) return x->up < y->up ? -1 : 1;
    for (size_t i = 0; i < x->width; i++)
        if (x->row[i] != y->row[i]) return x->row[i] < y->row[i] ? -1 : 1;
    return 0;
}

/* Reads a row of a chunk from its panels. */
static void unpack_row(int16_t *row, const struct qc_second_moments_chunk *c, const struct qc_second_moments_layer *l,
                       size_t r)
{
    for (size_t g = 0; g < l->groups; g++)
        for (size_t b = 0; b < l->blocks; b++)
            for (size_t i = 0; i < qc_second_moments_width(l, b); i++)
                *row++ = panel_of(c, l, g, b,
                                  i / QC_MOMENTS_TILE)[r / 2 * QC_MOMENTS_PAIR_SIZE + i % QC_MOMENTS_TILE * 2 + r % 2];
}

bool qc_second_moments_list_rows(int16_t *rows, uint8_t *steps, const struct qc_second_moments_layer *l,
                                 const struct qc_second_moments_sums *s, struct qc_status *st)
{
    const size_t width = qc_second_moments_row(l), bytes = s->row_count * width * sizeof *rows;
    struct listed *list = malloc(s->row_count * sizeof *list + 1);
    int16_t *came = malloc(bytes + 1);
    size_t n = 0;
    const bool ok = list && came;
    for (const struct qc_second_moments_chunk *c = s->rows; ok && c; c = c->next)
        for (size_t r = 0; r < c->count; r++, n++) {
            list[n] = (struct listed){.row = came + n * width, .width = width, .up = c->up};
            unpack_row(came + n * width, c, l, r);
        }
    if (ok) qsort(list, n, sizeof *list, by_content);
    for (size_t i = 0; ok && i < n; i++) {
        memcpy(rows + i * width, list[i].row, width * sizeof *rows);
        steps[i] = (uint8_t)list[i].up;
    }
    free(list);
    free(came);
    return ok || qc_fail_memory(st, bytes);
}

struct placed {
    const struct qc_second_moments_layer *layer;
    const struct qc_second_moments_chunk *chunk;
    size_t row;
};

/* Column i of the row is at [i / 16 * panel + i % 16 * 2]. */
static const int16_t *kept_row(const struct placed *p, size_t group, size_t block, size_t *panel)
{
    *panel = p->chunk->pairs * QC_MOMENTS_PAIR_SIZE;
    return panel_of(p->chunk, p->layer, group, block, 0) + p->row / 2 * QC_MOMENTS_PAIR_SIZE + p->row % 2;
}

/* Compares all groups and blocks, like by_content. */
static int by_kept_content(const void *a, const void *b)
{
    const struct placed *x = a, *y = b;
    const struct qc_second_moments_layer *l = x->layer;
    if (x->chunk->up != y->chunk->up) return x->chunk->up < y->chunk->up ? -1 : 1;
    for (size_t g = 0; g < l->groups; g++)
        for (size_t block = 0; block < l->blocks; block++) {
            size_t steps[2];
            const int16_t *of[2] = {kept_row(x, g, block, &steps[0]), kept_row(y, g, block, &steps[1])};
            const size_t w = qc_second_moments_width(l, block);
            for (size_t i = 0; i < w; i++) {
                const size_t at = i % QC_MOMENTS_TILE * 2, panel = i / QC_MOMENTS_TILE;
                const int16_t p = of[0][panel * steps[0] + at], q = of[1][panel * steps[1] + at];
                if (p != q) return p < q ? -1 : 1;
            }
        }
    return 0;
}

static void read_row(float *to, const struct placed *p, size_t group, size_t block, double unit)
{
    size_t panel;
    const int16_t *x = kept_row(p, group, block, &panel);
    const double by = ldexp(unit, 2 * p->chunk->up);
    const size_t w = qc_second_moments_width(p->layer, block);
    for (size_t first = 0; first < w; first += QC_MOMENTS_TILE, x += panel)
        for (size_t i = first; i < w && i < first + QC_MOMENTS_TILE; i++) to[i] = (float)(by * x[2 * (i - first)]);
}

bool qc_second_moments_kept_rows(struct qc_distinct_rows *to, const struct qc_second_moments_layer *l,
                                 const struct qc_second_moments_sums *s, double unit, size_t group, size_t block,
                                 struct qc_status *st)
{
    const size_t w = qc_second_moments_width(l, block);
    struct placed *list = malloc((s->row_count + 1) * sizeof *list);
    size_t n = 0;
    if (!list) return qc_fail_memory(st, s->row_count * sizeof *list);
    for (const struct qc_second_moments_chunk *c = s->rows; c; c = c->next)
        for (size_t r = 0; r < c->count; r++) list[n++] = (struct placed){.layer = l, .chunk = c, .row = r};
    if (n) qsort(list, n, sizeof *list, by_kept_content);
    for (size_t i = 0, same; i < n; i += same) {
        for (same = 1; i + same < n && by_kept_content(&list[i], &list[i + same]) == 0;) same++;
        to->counts[to->count] = (double)same;
        read_row(to->rows + to->count++ * w, &list[i], group, block, unit);
    }
    qc_second_moments_rest(s, l);
    free(list);
    return true;
}

void qc_second_moments_drop_rows(struct qc_second_moments_sums *s)
{
    while (s->rows) {
        struct qc_second_moments_chunk *c = s->rows;
        s->rows = c->next;
        free(c);
    }
    s->row_count = 0;
    qc_file_map_unref(s->row_file);
    s->row_file = NULL;
}

void qc_second_moments_kept_tile(int64_t *tile, const struct qc_second_moments_layer *l,
                                 const struct qc_second_moments_sums *s, size_t group, size_t block, size_t i, size_t j)
{
    memset(tile, 0, QC_MOMENTS_TILE_SIZE * sizeof *tile);
    for (const struct qc_second_moments_chunk *c = s->rows; c; c = c->next) {
        int32_t sum[QC_MOMENTS_TILE_SIZE];
        qc_second_moments_tile(sum, panel_of(c, l, group, block, i), panel_of(c, l, group, block, j), c->pairs);
        for (size_t k = 0; k < QC_MOMENTS_TILE_SIZE; k++) tile[k] += sum[k] * ((int64_t)1 << (4 * c->up));
    }
}

void qc_second_moments_kept_column(int64_t *to, const struct qc_second_moments_layer *l,
                                   const struct qc_second_moments_sums *s, size_t group, size_t block, size_t panel,
                                   size_t column)
{
    memset(to, 0, QC_MOMENTS_TILE * sizeof *to);
    for (const struct qc_second_moments_chunk *c = s->rows; c; c = c->next)
        qc_second_moments_row_of_tile(to, panel_of(c, l, group, block, column / QC_MOMENTS_TILE),
                                      column % QC_MOMENTS_TILE, panel_of(c, l, group, block, panel), c->pairs,
                                      4 * c->up);
}

void qc_second_moments_rest(const struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l)
{
    if (s->file && s->narrow) qc_file_map_forget(s->narrow, l->product_count * sizeof *s->narrow);
    if (s->file && s->products) qc_file_map_forget(s->products, l->product_count * sizeof *s->products);
    if (s->row_file) qc_file_map_forget(qc_file_map_room(s->row_file), s->row_bytes);
}

bool qc_second_moments_add_sums(struct qc_second_moments_sums *to, const struct qc_second_moments_sums *from,
                                const struct qc_second_moments_layer *l, struct qc_status *st)
{
    for (size_t i = 0; i < qc_second_moments_row(l); i++) to->sums[i] += from->sums[i];
    const bool many = qc_second_moments_has_products(from) || qc_second_moments_has_products(to) ||
                      to->row_count + from->row_count > l->keep;
    if (many && (!square(to, l, st) || !qc_second_moments_widen(to, l, st))) return false;
    for (size_t i = 0; qc_second_moments_has_products(from) && i < l->product_count; i++)
        to->products[i] += qc_second_moments_product(from, i);
    if (to->products && from->rows) add_kept_products(to, from, l);
    for (const struct qc_second_moments_chunk *c = from->rows; c && !to->products; c = c->next) {
        struct qc_second_moments_chunk *copy;
        if (!new_chunk(&copy, to, l, c->count, st)) return false;
        copy->up = c->up;
        memcpy(copy->panels, c->panels,
               l->groups * panels_of_group(l) * c->pairs * QC_MOMENTS_PAIR_SIZE * sizeof *c->panels);
        if (!append_chunk(to, copy, l, st)) return false;
    }
    return true;
}
