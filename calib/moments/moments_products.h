// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: the sums of products of one class, a triangle for each matrix. They are held in 32 bits as long as all
   of them fit. The diagonal tells: no sum of products is larger in magnitude than the largest sum of squares. */
#pragma once

#include "calib/moments/moments_parts.h"

/* Does a class have products, in either width? */
static inline bool qc_second_moments_has_products(const struct qc_second_moments_sums *s)
{
    return s->products || s->narrow;
}

/* The product of columns j <= k of a matrix is at qc_second_moments_matrix_at + triangle(k) + j; of lanes at
   (triangle(k) + j) * groups + group. */
static inline size_t qc_second_moments_product_at(const struct qc_second_moments_layer *l, size_t group, size_t block,
                                                  size_t j, size_t k)
{
    const size_t entry = qc_second_moments_triangle(k) + j;
    return l->lanes ? entry * l->groups + group : qc_second_moments_matrix_at(l, group, block) + entry;
}

static inline int64_t qc_second_moments_product(const struct qc_second_moments_sums *s, size_t at)
{
    return s->narrow ? s->narrow[at] * ((int64_t)1 << (4 * s->base)) : s->products[at];
}

/* Makes products of `count` more rows [count][groups * columns], `up` steps above the lowest of their class, fit: there
   are products afterwards, in 64 bits if 32 do not do. squares: scratch [groups * columns]. */
bool qc_second_moments_make_room(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                                 const int16_t *rows, size_t count, int up, int32_t *squares, struct qc_status *st);

/* The same of sums of squares of a whole class that has rows in place of products, in units of the lowest step:
   `largest` of them. up: the lowest of the rows. */
bool qc_second_moments_make_room_for(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                                     int64_t largest, int up, struct qc_status *st);

/* Where products of rows `up` steps above the lowest are added. */
struct qc_second_moments_sink qc_second_moments_sink_of(const struct qc_second_moments_sums *s, int up);

/* Adds the products of the rows in the panels of one matrix; there is room for them. */
void qc_second_moments_add_panels(const struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                                  size_t group, size_t block, const int16_t *panels, size_t pairs, int up);

/* Holds products in 64 bits from now on. */
bool qc_second_moments_widen(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                             struct qc_status *st);

void qc_second_moments_drop_products(struct qc_second_moments_sums *s);
