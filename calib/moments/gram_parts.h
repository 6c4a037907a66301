// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: what qc_gram is made of. */
#ifndef QC_CALIB_MOMENTS_GRAM_PARTS_H
#define QC_CALIB_MOMENTS_GRAM_PARTS_H

#include <pthread.h>

#include "calib/moments/gram.h"
#include "calib/moments/gram_kernel.h"

/* Rows of one worker that wait for a layer: all of one part and step of magnitude. A layer has several, so that samples of neighbouring steps and those held back do
   not make each other's rows be added up before there are many. */
enum { QC_GRAM_BUFFERS = 3 };
struct qc_gram_buffer {
    int16_t *rows; /* [capacity][groups * columns]; of lanes [capacity][columns][groups] */
    size_t count;
    int32_t step;
    enum qc_gram_part part;
};

struct qc_gram_worker {
    struct qc_gram_buffer *buffers; /* [layers][QC_GRAM_BUFFERS] */
    int16_t *panels;                /* of the layer with the most */
    int32_t *lanes;
};

struct qc_gram {
    struct qc_arena *arena;
    size_t count, node_count, value_count;
    size_t block; /* at most so many columns of a matrix */
    struct qc_gram_layer **layers; /* [count] */
    pthread_mutex_t *locks;        /* [count] */
    size_t *capacity;              /* [count]: rows of a buffer */
    size_t *by_node;               /* [node_count + 1]: layer + 1, or 0 */
    const char **reasons;          /* [node_count + 1] */
    qc_id *values;                 /* [value_count] */
    size_t panel_size, lane_size;
    unsigned worker_count;
    struct qc_gram_worker *workers;
};

static inline size_t qc_gram_row(const struct qc_gram_layer *l)
{
    return l->groups * l->columns;
}

/* Panels of block b, and where the tiles of a matrix begin. */
static inline size_t qc_gram_panels(size_t width)
{
    return (width + QC_GRAM_TILE - 1) / QC_GRAM_TILE;
}
static inline size_t qc_gram_tiles(size_t width)
{
    return qc_gram_panels(width) * (qc_gram_panels(width) + 1) / 2 * QC_GRAM_TILE_SIZE;
}
size_t qc_gram_matrix_at(const struct qc_gram_layer *l, size_t group, size_t block);

static inline int32_t qc_gram_class_of(int32_t step)
{
    const int32_t up = step - QC_GRAM_LOWEST;
    return up >= 0 ? up / QC_GRAM_STEPS : -((QC_GRAM_STEPS - 1 - up) / QC_GRAM_STEPS);
}

/* The lowest step of a class: its unit. */
static inline int32_t qc_gram_lowest(int32_t c)
{
    return c * QC_GRAM_STEPS + QC_GRAM_LOWEST;
}

static inline size_t qc_gram_slot(int32_t c)
{
    return (size_t)((c % QC_GRAM_CLASSES + QC_GRAM_CLASSES) % QC_GRAM_CLASSES);
}

/* A gram of no layers, with room for one of each node. */
bool qc_gram_make(struct qc_gram **out, size_t nodes, struct qc_status *st);
/* Columns, blocks and the place of products, from the other sizes. Blocks laid out again by their own size stay as they are. */
void qc_gram_lay_out(struct qc_gram_layer *l, size_t block);
bool qc_gram_same(const struct qc_gram_layer *a, const struct qc_gram_layer *b);
/* The layer that is the same, or NULL. */
struct qc_gram_layer *qc_gram_find(const struct qc_gram *m, const struct qc_gram_layer *like);

/* The sums of a class, made when they are not there; *out is NULL for a class below the window. */
bool qc_gram_class(struct qc_gram_sums **out, struct qc_gram_layer *l, enum qc_gram_part part, int32_t c, struct qc_status *st);

#endif
