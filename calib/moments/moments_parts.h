// SPDX-License-Identifier: Apache-2.0
/* Inside calib/: what qc_second_moments is made of. */
#pragma once

#include <pthread.h>

#include "base/index.h"
#include "calib/moments/moments_kernel.h"
#include "calib/moments/second_moments.h"

/* Rows of one worker that wait for a layer: all of one part and step of magnitude. A layer has several, so that samples
   of neighbouring steps and those held back do not make each other's rows be added up before there are many. A sample
   that fills half of a buffer waits for no other: its rows go through a buffer that all layers share. */
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
    int16_t *panels;          /* of the layer with the most */
    int32_t *lanes, *squares; /* of the layer with the most lanes; with the most columns */
};

struct qc_second_moments {
    struct qc_arena *arena;
    size_t count, node_count, value_count;
    size_t block;                               /* at most so many columns of a matrix */
    struct qc_second_moments_layer **layers;    /* [count] */
    pthread_mutex_t *locks;                     /* [count] */
    size_t *capacity, *shared_capacity;         /* [count]: rows of a buffer */
    size_t *by_node;                            /* [node_count + 1]: layer + 1, or 0 */
    size_t *of_recurrent[QC_MOMENTS_RECURRENT]; /* [node_count + 1]: layer + 1, or 0 */
    const char **reasons;                       /* [node_count + 1] */
    qc_id *values;                              /* [value_count] */
    struct qc_index by_name, by_value;          /* layer + 1, by the name and the number of their value */
    size_t panel_size, lane_size, shared_size, square_size;
    bool one_by_one; /* layers are seen one after the other: there are buffers of one alone */
    unsigned worker_count;
    struct qc_second_moments_worker *workers;
};

/* Of the Quantize of a weight; NULL: of none. */
bool qc_second_moments_few_levels(const struct qc_graph *g, const struct qc_node *quantize);

static inline size_t qc_second_moments_row(const struct qc_second_moments_layer *l)
{
    return l->groups * l->columns;
}

/* Panels of a block, entries of a triangle, and where that of a matrix begins. */
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

/* The lowest step of a class: its unit. */
static inline int32_t qc_second_moments_lowest(int32_t c)
{
    return c * QC_MOMENTS_STEPS + QC_MOMENTS_LOWEST;
}

static inline size_t qc_second_moments_slot(int32_t c)
{
    return (size_t)((c % QC_MOMENTS_CLASSES + QC_MOMENTS_CLASSES) % QC_MOMENTS_CLASSES);
}

/* Second moments of no layers, with room for one of each node. */
bool qc_second_moments_make(struct qc_second_moments **out, size_t nodes, struct qc_status *st);
/* Columns, blocks and the place of products, from the other sizes. Blocks laid out again by their own size stay as they
 * are. */
void qc_second_moments_lay_out(struct qc_second_moments_layer *l, size_t block);
bool qc_second_moments_same(const struct qc_second_moments_layer *a, const struct qc_second_moments_layer *b);
/* Adds a layer that is laid out, and its value. Errors: memory. */
bool qc_second_moments_append(struct qc_second_moments *m, struct qc_second_moments_layer *l, struct qc_status *st);
/* Adds a layer, or finds one that is the same: *index is its number + 1. Errors: memory. */
bool qc_second_moments_put(size_t *index, struct qc_second_moments *m, struct qc_second_moments_layer *l, size_t block,
                           struct qc_status *st);
/* The layers of a recurrent node, if it has some (calib/moments/moments_recurrent.c). */
bool qc_second_moments_add_recurrent(struct qc_second_moments *m, const struct qc_graph *g, qc_id id,
                                     enum qc_second_moments_layers layers, size_t block, struct qc_status *st);
/* The layer that is the same, or NULL. */
struct qc_second_moments_layer *qc_second_moments_find(const struct qc_second_moments *m,
                                                       const struct qc_second_moments_layer *like);

/* The sums of a class, made when they are not there; *out is NULL for a class below the window. */
bool qc_second_moments_class(struct qc_second_moments_sums **out, struct qc_second_moments_layer *l,
                             enum qc_second_moments_part part, int32_t c, struct qc_status *st);
