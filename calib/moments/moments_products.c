// SPDX-License-Identifier: Apache-2.0
#include "calib/moments/moments_products.h"

#include <stdint.h>
#include <stdlib.h>

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

bool qc_second_moments_make_room_for(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                                     int64_t largest, int up, struct qc_status *st)
{
    s->most = largest >> (4 * up);
    if (l->spills || s->most > INT32_MAX) return qc_second_moments_widen(s, l, st);
    return new_narrow(s, l, up, st);
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
