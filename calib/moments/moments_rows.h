// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: rows of a class kept as they came, in place of the sums of their products. Of wide layers that saw few
   positions they are a fraction of the memory, and the same integers: sums are taken from them where they are read. */
#pragma once

#include "calib/moments/moments_parts.h"

/* Keeps `count` rows [count][groups * columns] that are `up` steps above the lowest of their class. More than l->keep
   rows in all: they become products. */
bool qc_second_moments_keep(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                            const int16_t *rows, size_t count, int up, struct qc_status *st);

/* Products in place of the rows, whatever their number. */
bool qc_second_moments_square(struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l,
                              struct qc_status *st);

/* Gives what is in memory of products and rows that lie in a file back. */
void qc_second_moments_rest(const struct qc_second_moments_sums *s, const struct qc_second_moments_layer *l);

/* Adds what another layer of the same sizes has of a class. */
bool qc_second_moments_add_sums(struct qc_second_moments_sums *to, const struct qc_second_moments_sums *from,
                                const struct qc_second_moments_layer *l, struct qc_status *st);

/* The products of two panels of kept rows, i <= j, to [QC_MOMENTS_TILE_SIZE]. */
void qc_second_moments_kept_tile(int64_t *tile, const struct qc_second_moments_layer *l,
                                 const struct qc_second_moments_sums *s, size_t group, size_t block, size_t i,
                                 size_t j);

/* Products of a column with the columns of one panel, and the squares of those, to [QC_MOMENTS_TILE]; of a class that
 * has rows. */
void qc_second_moments_kept_column(int64_t *to, const struct qc_second_moments_layer *l,
                                   const struct qc_second_moments_sums *s, size_t group, size_t block, size_t panel,
                                   size_t column);
void qc_second_moments_kept_diagonal(int64_t *to, const struct qc_second_moments_layer *l,
                                     const struct qc_second_moments_sums *s, size_t group, size_t block, size_t panel);

/* Memory of `count` rows at most. Chunks hold an even number: a run that shows an odd number makes one more. */
size_t qc_second_moments_kept_bytes(const struct qc_second_moments_layer *l, size_t count);

/* The rows of a class as they came, [row_count][groups * columns], and how many steps each is above the lowest of the
   class; sorted, so that nothing depends on who came first. */
bool qc_second_moments_list_rows(int16_t *rows, uint8_t *steps, const struct qc_second_moments_layer *l,
                                 const struct qc_second_moments_sums *s, struct qc_status *st);

/* Kept rows of one block of a group times `unit`, [count][w], and how often each came; in an order of content alone.
   to, weights: room for row_count. */
bool qc_second_moments_kept_rows(float *to, double *weights, size_t *count, const struct qc_second_moments_layer *l,
                                 const struct qc_second_moments_sums *s, double unit, size_t group, size_t block,
                                 struct qc_status *st);

void qc_second_moments_drop_rows(struct qc_second_moments_sums *s);
