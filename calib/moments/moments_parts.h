// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: the parts of qc_second_moments. */
#pragma once

#include <pthread.h>

#include "base/index.h"
#include "calib/moments/moments_kernel.h"
#include "calib/moments/second_moments.h"

/* Buffered rows of one worker for a layer, all of one part and one step of magnitude. A layer has several buffers, so
   that samples of neighbouring steps and held-out samples do not force each other's rows out early. A sample that fills
   half of a buffer goes through a buffer that all layers share. */
enum { QC_MOMENTS_BUFFERS = 3 };
struct qc_second_moments_buffer {
    int16_t *rows; /* [capacity][groups * columns]; of lanes [capacity][columns][groups] */
    size_t count;
    int32_t step;
    enum qc_second_moments_part part;
};

struct qc_second_moments_worker {
    struct qc_second_moments_buffer *buffers; /* [layers][QC_MOMENTS_BUFFERS] */
    struct qc_second_moments_buffer shared;
    int16_t *panels;          /* for the layer that needs most */
    int32_t *lanes, *squares; /* for the most lanes of a layer; for the most columns */
};

struct qc_second_moments {
    struct qc_arena *arena;
    size_t count, node_count, value_count;
    size_t block;                               /* largest number of columns of a matrix */
    struct qc_second_moments_layer **layers;    /* [count] */
    pthread_mutex_t *locks;                     /* [count] */
    size_t *capacity, *shared_capacity;         /* [count]: rows of a buffer */
    size_t *by_node;                            /* [node_count + 1]: layer + 1, or 0 */
    size_t *of_recurrent[QC_MOMENTS_RECURRENT]; /* [node_count + 1]: layer + 1, or 0 */
    const char **reasons;                       /* [node_count + 1] */
    qc_id *values;                              /* [value_count] */
    struct qc_index by_name, by_value;          /* layer + 1, by the name and the id of their value */
    size_t panel_size, lane_size, shared_size, square_size;
    bool one_by_one; /* layers are observed one after the other: buffers exist for one at a time */
    unsigned worker_count;
    struct qc_second_moments_worker *workers;
};

static inline size_t qc_second_moments_row(const struct qc_second_moments_layer *l)
{
    return l->groups * l->columns;
}

/* Numbers of panels of a block and of entries of a triangle, and the offset of a matrix. */
static inline size_t qc_second_moments_panels(size_t width)
{
    return (width + QC_MOMENTS_TILE - 1) / QC_MOMENTS_TILE;
}
static inline size_t qc_second_moments_triangle(size_t width)
{
    return width * (width + 1) / 2;
}
size_t qc_second_moments_matrix_at(const struct qc_second_moments_layer *l, size_t group, size_t block);

static inline int32_t qc_second_moments_class_of(int32_t step)
{
    const int32_t up = step - QC_MOMENTS_LOWEST;
    return up >= 0 ? up / QC_MOMENTS_STEPS : -((QC_MOMENTS_STEPS - 1 - up) / QC_MOMENTS_STEPS);
}

/* Returns the lowest step of a class: its unit. */
static inline int32_t qc_second_moments_lowest(int32_t c)
{
    return c * QC_MOMENTS_STEPS + QC_MOMENTS_LOWEST;
}

static inline size_t qc_second_moments_slot(int32_t c)
{
    return (size_t)((c % QC_MOMENTS_CLASSES + QC_MOMENTS_CLASSES) % QC_MOMENTS_CLASSES);
}

/* Computes columns, blocks and offsets of products from the other sizes. Calling it again with the resulting block size
   changes nothing. */
void qc_second_moments_lay_out(struct qc_second_moments_layer *l, size_t block);
/* Adds a layer unless an equal one exists; *index: its number + 1. Fails if memory is out. */
bool qc_second_moments_put(size_t *index, struct qc_second_moments *m, struct qc_second_moments_layer *l, size_t block,
                           struct qc_status *st);

/* Finds or makes the sums of a class; *out is NULL for a class below the window. */
bool qc_second_moments_class(struct qc_second_moments_sums **out, struct qc_second_moments_layer *l,
                             enum qc_second_moments_part part, int32_t c, struct qc_status *st);

/* Inside calib/: rows of a class, kept in place of the sums of their products. For wide layers with few positions they
   take a fraction of the memory. Sums computed from them are the same integers. */

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

/* Distinct rows of one block of a group. */
struct qc_distinct_rows {
    float *rows;    /* [count][w] */
    double *counts; /* [count]: how often each occurs */
    size_t count;
};
/* Appends the distinct kept rows of a class times `unit`, sorted by content. to: room for row_count more. */
bool qc_second_moments_kept_rows(struct qc_distinct_rows *to, const struct qc_second_moments_layer *l,
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
