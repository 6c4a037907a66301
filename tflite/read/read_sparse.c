// SPDX-License-Identifier: Apache-2.0
/* Sparse constants. Their elements are the leaves of a tree with one level for each axis and each axis inside blocks,
   in the order of traversal. A level is dense, or lists for each node above which children it has: indices[segments[k]]
   to indices[segments[k + 1] - 1]. Source: tensorflow/lite/schema/schema.fbs, SparsityParameters. */
#include <string.h>

#include "tflite/read/tflite_reading.h"

enum { LEVELS_MAX = 2 * QC_RANK_MAX };

struct level {
    bool dense;
    int64_t size; /* dense */
    struct qc_fb_vector segments, indices;
};

struct tree {
    int rank, count;
    int axis[LEVELS_MAX];     /* of the tensor that a level belongs to */
    int64_t step[LEVELS_MAX]; /* elements along that axis that one index of the level stands for */
    struct level level[LEVELS_MAX];
    const struct qc_shape *shape;
    size_t stride[QC_RANK_MAX], each;
    const uint8_t *data; /* leaves, in order */
    size_t leaves, next, steps;
    uint8_t *out;
};

static bool damaged(struct qc_status *st)
{
    return qc_fail(st, QC_BAD_INPUT, "is sparse, and its indices do not fit its shape and data");
}

/* The children of node number `node` of a level; at: what the levels above add up to. At most LEVELS_MAX deep. */
static bool walk(struct tree *t, int depth, int64_t node, const int64_t at[QC_RANK_MAX], struct qc_status *st)
{
    if (depth == t->count) {
        size_t to = 0;
        for (int i = 0; i < t->rank; i++) {
            if (at[i] < 0 || at[i] >= t->shape->dim[i]) return damaged(st);
            to += (size_t)at[i] * t->stride[i];
        }
        if (t->next == t->leaves) return damaged(st);
        memcpy(t->out + to * t->each, t->data + t->next++ * t->each, t->each);
        return true;
    }
    const struct level *l = &t->level[depth];
    int64_t first = 0, last = l->size, own[QC_RANK_MAX];
    if (!l->dense) {
        if (node >= (int64_t)l->segments.count - 1) return damaged(st);
        first = qc_fb_vector_int(&l->segments, (size_t)node);
        last = qc_fb_vector_int(&l->segments, (size_t)node + 1);
        if (first < 0 || last > (int64_t)l->indices.count) return damaged(st);
    }
    for (int64_t i = first; i < last; i++) {
        if (!t->steps--) return damaged(st);
        memcpy(own, at, sizeof own);
        own[t->axis[depth]] += t->step[depth] * (l->dense ? i : qc_fb_vector_int(&l->indices, (size_t)i));
        if (!walk(t, depth + 1, l->dense ? node * l->size + i : i, own, st)) return false;
    }
    return true;
}

static struct qc_fb_vector index_vector(const struct qc_fb_table *m, enum qc_tfl_field type, enum qc_tfl_field field)
{
    static const enum qc_tfl_field values[] = {QC_TFL_Int32Vector_values, QC_TFL_Uint16Vector_values,
                                               QC_TFL_Uint8Vector_values};
    const int64_t kind = qc_fb_int(m, type);
    if (kind < 1 || kind > 3) return (struct qc_fb_vector){.schema = m->schema};
    const struct qc_fb_table v = qc_fb_child(m, field);
    return qc_fb_vector(&v, values[kind - 1]);
}

/* Levels of the axes first, then those inside blocks. */
static bool read_levels(struct tree *t, const struct qc_fb_table *sparsity, struct qc_status *st)
{
    const struct qc_fb_vector order = qc_fb_vector(sparsity, QC_TFL_SparsityParameters_traversal_order),
                              blocks = qc_fb_vector(sparsity, QC_TFL_SparsityParameters_block_map),
                              metadata = qc_fb_vector(sparsity, QC_TFL_SparsityParameters_dim_metadata);
    bool seen[LEVELS_MAX] = {false};
    int64_t block[QC_RANK_MAX];
    for (int i = 0; i < t->rank; i++) block[i] = 1;
    if (blocks.count > QC_RANK_MAX || order.count != (size_t)t->rank + blocks.count || metadata.count != order.count)
        return damaged(st);
    t->count = (int)order.count;
    for (int i = t->count; i-- > 0;) {
        const struct qc_fb_table m = qc_fb_vector_table(&metadata, (size_t)i);
        const int64_t own = qc_fb_int(&m, QC_TFL_DimensionMetadata_format), axis = qc_fb_vector_int(&order, (size_t)i);
        const bool inside = i >= t->rank;
        if (axis < (inside ? t->rank : 0) || axis >= (inside ? t->count : t->rank) || seen[axis]) return damaged(st);
        seen[axis] = true;
        const int64_t of = inside ? qc_fb_vector_int(&blocks, (size_t)(axis - t->rank)) : axis;
        if (of < 0 || of >= t->rank || (inside && block[of] != 1)) return damaged(st);
        struct level *l = &t->level[i];
        *l = (struct level){.dense = own == 0, .size = qc_fb_int(&m, QC_TFL_DimensionMetadata_dense_size)};
        if (own != 0 && own != 1) return qc_fail(st, QC_UNSUPPORTED, "is sparse in a format of its own");
        if ((l->dense || inside) && (l->size < 1 || l->size > t->shape->dim[of])) return damaged(st);
        if (!l->dense) {
            l->segments =
                index_vector(&m, QC_TFL_DimensionMetadata_array_segments_type, QC_TFL_DimensionMetadata_array_segments);
            l->indices =
                index_vector(&m, QC_TFL_DimensionMetadata_array_indices_type, QC_TFL_DimensionMetadata_array_indices);
        }
        t->axis[i] = (int)of;
        t->step[i] = inside ? 1 : block[of];
        if (inside) block[of] = l->size;
    }
    return true;
}

bool qc_tfl_dense_data(const uint8_t **out, struct qc_arena *a, const struct qc_tfl_value *v, struct qc_status *st)
{
    const size_t each = qc_dtype_size(v->dtype);
    struct tree t = {
        .rank = v->shape.rank, .shape = &v->shape, .each = each, .data = v->data, .leaves = v->data_size / each};
    const int64_t origin[QC_RANK_MAX] = {0};
    const size_t count = qc_shape_elements(&v->shape);
    if (!read_levels(&t, &v->sparsity, st)) return false;
    t.steps = LEVELS_MAX * (count + 1);
    for (size_t i = (size_t)t.rank, inner = 1; i-- > 0; inner *= (size_t)v->shape.dim[i]) t.stride[i] = inner;
    if (!(t.out = qc_arena_get(a, count, each, st))) return false;
    memset(t.out, 0, count * each);
    if (!walk(&t, 0, 0, origin, st)) return false;
    if (t.next != t.leaves) return damaged(st);
    *out = t.out;
    return true;
}
