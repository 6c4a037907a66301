// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: rows of a class, kept in place of the sums of their products. For wide layers with few positions they
   take a fraction of the memory. Sums computed from them are the same integers. */
#pragma once

#include "calib/moments/moments_parts.h"

/* Keeps `count` rows [count][groups * columns] that are `up` steps above the lowest of their class. If a class has more
   than l->keep rows, they become products. */
bool qc_second_moments_keep(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                            const int16_t *rows, size_t count, int up, struct qc_status *st);

/* Releases the memory of products and rows that are mapped from a file. */
void qc_second_moments_rest(const struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l);

/* Adds the sums of a class of another layer with the same sizes. */
bool qc_second_moments_add_sums(struct qc_second_moments_sums *to, const struct qc_second_moments_sums *from,
                                const struct qc_second_moments_layer *l, struct qc_status *st);

/* Computes the products of two panels of kept rows, i <= j, into [QC_MOMENTS_TILE_SIZE]. */
void qc_second_moments_kept_tile(int64_t *tile, const struct qc_second_moments_layer *l,
                                 const struct qc_second_moments_sums *s, size_t group, size_t block, size_t i,
                                 size_t j);

/* Computes the products of a column with the columns of one panel, and the squares of those, into [QC_MOMENTS_TILE];
   for a class that keeps rows. */
void qc_second_moments_kept_column(int64_t *to, const struct qc_second_moments_layer *l,
                                   const struct qc_second_moments_sums *s, size_t group, size_t block, size_t panel,
                                   size_t column);
void qc_second_moments_kept_diagonal(int64_t *to, const struct qc_second_moments_layer *l,
                                     const struct qc_second_moments_sums *s, size_t group, size_t block, size_t panel);

/* Returns the largest memory of `count` rows. Chunks hold an even number of rows: a run with an odd number adds one. */
size_t qc_second_moments_kept_bytes(const struct qc_second_moments_layer *l, size_t count);

/* Lists the rows of a class, [row_count][groups * columns], and the steps each is above the lowest of the class. They
   are sorted by content, so the list does not depend on their order of arrival. */
bool qc_second_moments_list_rows(int16_t *rows, uint8_t *steps, const struct qc_second_moments_layer *l,
                                 const struct qc_second_moments_sums *s, struct qc_status *st);

/* Reads the distinct kept rows of one block of a group times `unit`, [count][w], and how often each occurs, sorted by
   content. to, weights: room for row_count. */
bool qc_second_moments_kept_rows(float *to, double *weights, size_t *count, const struct qc_second_moments_layer *l,
                                 const struct qc_second_moments_sums *s, double unit, size_t group, size_t block,
                                 struct qc_status *st);

void qc_second_moments_drop_rows(struct qc_second_moments_sums *s);

/* the sums of products of one class, a triangle for each matrix. They are kept in 32 bits as long as all
   of them fit. The diagonal decides: no sum of products exceeds the largest sum of squares in magnitude. */

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

/* Returns the destination for products of rows `up` steps above the lowest. */
struct qc_second_moments_sink qc_second_moments_sink_of(const struct qc_second_moments_sums *s, int up);

/* Adds the products of the rows in the panels of one matrix; they must fit. */
void qc_second_moments_add_panels(const struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                                  size_t group, size_t block, const int16_t *panels, size_t pairs, int up);

/* Converts products to 64 bits. */
bool qc_second_moments_widen(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                             struct qc_status *st);

void qc_second_moments_drop_products(struct qc_second_moments_sums *s);
