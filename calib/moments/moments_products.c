// SPDX-License-Identifier: Apache-2.0
#include "calib/moments/moments_products.h"

#include <stdlib.h>

#include "base/file_map.h"

/* The largest sum of squares with those of more rows that are `up` steps above the lowest, in units of the step `base`. */
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
    if (s->products) return true;
    if (l->spills) return qc_second_moments_widen(s, l, st);
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
    return (struct qc_second_moments_sink){
        .wide = s->products, .narrow = s->narrow, .shift = 4 * (up - (s->narrow ? s->base : 0))};
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
    if (s->products || !l->product_count) return true;
    if (l->spills) {
        if (!qc_file_map_scratch(&s->file, l->product_count * sizeof *s->products, st)) return false;
        s->products = qc_file_map_room(s->file);
    } else if (!(s->products = calloc(l->product_count, sizeof *s->products))) {
        return qc_fail_memory(st, l->product_count * sizeof *s->products);
    }
    for (size_t i = 0; s->narrow && i < l->product_count; i++) s->products[i] = qc_second_moments_product(s, i);
    free(s->narrow);
    s->narrow = NULL;
    return true;
}

void qc_second_moments_drop_products(struct qc_second_moments_sums *s)
{
    if (s->file)
        qc_file_map_unref(s->file);
    else
        free(s->products);
    free(s->narrow);
    s->file = NULL;
    s->products = NULL;
    s->narrow = NULL;
}
