// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: the sums of products of one class, a triangle for each matrix. They are kept in 32 bits as long as all
   of them fit. The diagonal decides: no sum of products exceeds the largest sum of squares in magnitude. */
#pragma once

#include "calib/moments/moments_parts.h"

/* Returns true if a class has products, in either width. */
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

/* Prepares products for `count` more rows [count][groups * columns], `up` steps above the lowest of their class: makes
   them if missing, and widens them to 64 bits if 32 do not suffice. squares: scratch [groups * columns]. */
bool qc_second_moments_make_room(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                                 const int16_t *rows, size_t count, int up, int32_t *squares, struct qc_status *st);

/* The same for a class whose kept rows become products. largest: the largest sum of squares, in units of the lowest
   step. up: the lowest step of the rows. */
bool qc_second_moments_make_room_for(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                                     int64_t largest, int up, struct qc_status *st);

/* Returns the destination for products of rows `up` steps above the lowest. */
struct qc_second_moments_sink qc_second_moments_sink_of(const struct qc_second_moments_sums *s, int up);

/* Adds the products of the rows in the panels of one matrix; they must fit. */
void qc_second_moments_add_panels(const struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                                  size_t group, size_t block, const int16_t *panels, size_t pairs, int up);

/* Converts products to 64 bits. */
bool qc_second_moments_widen(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                             struct qc_status *st);

void qc_second_moments_drop_products(struct qc_second_moments_sums *s);
