// SPDX-License-Identifier: Apache-2.0
#include "simq/core/view.h"

#include <string.h>

#include "base/simd.h"

struct qc_view qc_view_of(enum qc_dtype dtype, const struct qc_shape *shape, enum qc_layout layout, void *data)
{
    struct qc_view v = {.dtype = dtype, .rank = shape->rank, .data = data};
    const bool last = layout == QC_LAYOUT_LAST && shape->rank >= 3 && shape->rank <= 5;
    int64_t step = 1;
    for (int i = 0; i < v.rank; i++) v.dim[i] = shape->dim[i];
    if (last) {
        v.stride[1] = 1;
        step = v.dim[1];
    }
    for (int i = v.rank; i-- > 0;) {
        if (last && i == 1) continue;
        v.stride[i] = step;
        step *= v.dim[i];
    }
    return v;
}

size_t qc_view_count(const struct qc_view *v)
{
    size_t n = 1;
    for (int i = 0; i < v->rank; i++) n *= (size_t)v->dim[i];
    return n;
}

size_t qc_view_bytes(const struct qc_view *v)
{
    return qc_view_count(v) * qc_dtype_size(v->dtype);
}

/* One loop of a nest over several views. */
struct loop {
    int64_t n;
    int64_t stride[4];
};

static int64_t magnitude(int64_t a)
{
    return a < 0 ? -a : a;
}

/* Makes loops over the dimensions of more than one element, outermost first, and returns their number. They are
   sorted by the strides of the first view; dimensions with stride 0 keep their logical order. Loops are joined if
   all views step evenly. */
static int make_loops(struct loop loops[QC_RANK_MAX], unsigned count, const struct qc_view *const views[])
{
    int rank = 0;
    for (int d = 0; d < views[0]->rank; d++) {
        if (views[0]->dim[d] == 1) continue;
        struct loop l = {.n = views[0]->dim[d]};
        for (unsigned k = 0; k < count; k++) l.stride[k] = views[k]->stride[d];
        int at = rank++;
        for (; at > 0 && magnitude(loops[at - 1].stride[0]) < magnitude(l.stride[0]); at--) loops[at] = loops[at - 1];
        loops[at] = l;
    }
    int joined = 0;
    for (int i = 0; i < rank; i++) {
        bool even = joined > 0;
        for (unsigned k = 0; even && k < count; k++)
            even = loops[joined - 1].stride[k] == loops[i].stride[k] * loops[i].n;
        if (even) {
            int64_t n = loops[joined - 1].n * loops[i].n;
            loops[joined - 1] = loops[i];
            loops[joined - 1].n = n;
        } else {
            loops[joined++] = loops[i];
        }
    }
    return joined;
}

bool qc_view_dense(const struct qc_view *v)
{
    struct loop loops[QC_RANK_MAX] = {0};
    const struct qc_view *views[] = {v};
    if (qc_view_count(v) <= 1) return true;
    int rank = make_loops(loops, 1, views);
    return rank == 1 && loops[0].stride[0] == 1;
}

bool qc_view_row_major(const struct qc_view *v)
{
    int64_t step = 1;
    if (qc_view_count(v) <= 1) return true;
    for (int i = v->rank; i-- > 0;) {
        if (v->dim[i] != 1 && v->stride[i] != step) return false;
        step *= v->dim[i];
    }
    return true;
}

bool qc_view_same_order(const struct qc_view *a, const struct qc_view *b)
{
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i] || (a->dim[i] > 1 && a->stride[i] != b->stride[i])) return false;
    return qc_view_dense(a);
}

struct qc_view qc_view_turned(const struct qc_view *v, bool turn)
{
    struct qc_view r = *v;
    for (int i = 0; turn && i < 2; i++) {
        r.dim[i] = v->dim[1 - i];
        r.stride[i] = v->stride[1 - i];
    }
    return r;
}

struct qc_view qc_view_with_one(const struct qc_view *v, int at)
{
    struct qc_view r = *v;
    for (int i = r.rank++; i > at; i--) {
        r.dim[i] = v->dim[i - 1];
        r.stride[i] = v->stride[i - 1];
    }
    r.dim[at] = 1;
    r.stride[at] = at < v->rank ? v->dim[at] * v->stride[at] : 1;
    return r;
}

struct qc_view qc_view_broadcast(const struct qc_view *v, const struct qc_view *to)
{
    struct qc_view r = *to;
    r.dtype = v->dtype;
    r.data = v->data;
    for (int i = 0; i < to->rank; i++) {
        int from = i - (to->rank - v->rank);
        r.stride[i] = from < 0 || v->dim[from] == 1 ? 0 : v->stride[from];
    }
    return r;
}

void qc_view_each(unsigned count, const struct qc_view *const views[], qc_view_run_fn *fn, void *user)
{
    struct loop loops[QC_RANK_MAX] = {0};
    if (qc_view_count(views[0]) == 0) return;
    int rank = make_loops(loops, count, views);
    const struct loop inner = rank ? loops[--rank] : (struct loop){.n = 1},
                      next = rank ? loops[--rank] : (struct loop){.n = 1};
    int64_t index[QC_RANK_MAX] = {0}, size[4], step[4];
    void *data[4];
    for (unsigned k = 0; k < count; k++) {
        data[k] = views[k]->data;
        size[k] = (int64_t)qc_dtype_size(views[k]->dtype);
        step[k] = size[k] * next.stride[k];
    }
    for (;;) {
        for (int64_t i = 1;; i++) { /* runs may be short */
            fn(user, inner.n, data, inner.stride);
            if (i == next.n) break;
            for (unsigned k = 0; k < count; k++) data[k] = (char *)data[k] + step[k];
        }
        for (unsigned k = 0; k < count; k++) data[k] = (char *)data[k] - (next.n - 1) * step[k];
        int d = rank;
        while (d-- > 0) {
            const bool more = ++index[d] < loops[d].n;
            for (unsigned k = 0; k < count; k++)
                data[k] = (char *)data[k] + size[k] * loops[d].stride[k] * (more ? 1 : 1 - loops[d].n);
            if (more) break;
            index[d] = 0;
        }
        if (d < 0) return;
    }
}

/* Transposes in tiles that stay in cache: to[i * to_step + j] = from[i + j * from_step]. */
#define QC_TILED(T)                                                                                                    \
    static void tiled_##T(T *to, const T *from, int64_t rows, int64_t columns, int64_t to_step, int64_t from_step)     \
    {                                                                                                                  \
        enum { TILE = 16 };                                                                                            \
        for (int64_t i0 = 0; i0 < rows; i0 += TILE) {                                                                  \
            const int64_t i1 = i0 + TILE < rows ? i0 + TILE : rows;                                                    \
            for (int64_t j0 = 0; j0 < columns; j0 += TILE) {                                                           \
                const int64_t j1 = j0 + TILE < columns ? j0 + TILE : columns;                                          \
                for (int64_t i = i0; i < i1; i++)                                                                      \
                    for (int64_t j = j0; j < j1; j++) to[i * to_step + j] = from[i + j * from_step];                   \
            }                                                                                                          \
        }                                                                                                              \
    }
QC_TILED(uint8_t)
QC_TILED(uint16_t)
QC_TILED(uint32_t)
QC_TILED(uint64_t)

/* Contiguous rows of three, as in images of three colours. */
#define QC_THREE(T)                                                                                                    \
    static QC_INLINE void three_##T##_body(T *restrict to, const T *restrict a, const T *restrict b,                   \
                                           const T *restrict c, int64_t rows)                                          \
    {                                                                                                                  \
        for (int64_t i = 0; i < rows; i++) {                                                                           \
            to[3 * i] = a[i];                                                                                          \
            to[3 * i + 1] = b[i];                                                                                      \
            to[3 * i + 2] = c[i];                                                                                      \
        }                                                                                                              \
    }                                                                                                                  \
    QC_SIMD(three_##T, (T *restrict to, const T *restrict a, const T *restrict b, const T *restrict c, int64_t rows),  \
            (to, a, b, c, rows))
QC_THREE(uint8_t)
QC_THREE(uint32_t)

static void copy_run(size_t size, char *to, const char *from, int64_t n, int64_t to_stride, int64_t from_stride)
{
    if (to_stride == 1 && from_stride == 1) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
#define QC_STRIDED(T)                                                                                                  \
    for (int64_t i = 0; i < n; i++) ((T *)to)[i * to_stride] = ((const T *)from)[i * from_stride]
    switch (size) {
    case 1: QC_STRIDED(uint8_t); break;
    case 2: QC_STRIDED(uint16_t); break;
    case 4: QC_STRIDED(uint32_t); break;
    case 8: QC_STRIDED(uint64_t); break;
    }
#undef QC_STRIDED
}

static void copy_tile(size_t size, char *to, const char *from, const struct loop *across, const struct loop *inner)
{
    if (inner->n == 3 && across->stride[0] == 3 && (size == 1 || size == 4)) {
        const uint8_t *x = (const uint8_t *)(const void *)from;
        const uint32_t *z = (const uint32_t *)(const void *)from;
        const int64_t step = inner->stride[1];
        if (size == 1)
            three_uint8_t((uint8_t *)(void *)to, x, x + step, x + 2 * step, across->n);
        else
            three_uint32_t((uint32_t *)(void *)to, z, z + step, z + 2 * step, across->n);
        return;
    }
    switch (size) {
#define QC_CASE(bytes, T)                                                                                              \
    case bytes: tiled_##T((T *)to, (const T *)from, across->n, inner->n, across->stride[0], inner->stride[1]); break
        QC_CASE(1, uint8_t);
        QC_CASE(2, uint16_t);
        QC_CASE(4, uint32_t);
        QC_CASE(8, uint64_t);
#undef QC_CASE
    }
}

void qc_view_copy(const struct qc_view *to, const struct qc_view *from)
{
    const struct qc_view *views[] = {to, from};
    const size_t size = qc_dtype_size(to->dtype);
    struct loop loops[QC_RANK_MAX] = {0};
    if (qc_view_count(to) == 0) return;
    int rank = make_loops(loops, 2, views);
    if (rank == 0) {
        memcpy(to->data, from->data, size);
        return;
    }
    /* The loop contiguous in `from`; if another loop is contiguous in `to`, the two are tiled. */
    const struct loop inner = loops[--rank];
    int across = -1;
    if (inner.stride[0] == 1 && inner.stride[1] != 1)
        for (int i = 0; i < rank; i++)
            if (loops[i].stride[1] == 1) across = i;
    struct loop tile = {0};
    if (across >= 0) {
        tile = loops[across];
        rank--;
        for (int i = across; i < rank; i++) loops[i] = loops[i + 1];
    }
    int64_t index[QC_RANK_MAX] = {0};
    char *t = to->data;
    const char *f = from->data;
    for (;;) {
        if (across >= 0)
            copy_tile(size, t, f, &tile, &inner);
        else
            copy_run(size, t, f, inner.n, inner.stride[0], inner.stride[1]);
        int d = rank;
        while (d-- > 0) {
            const bool more = ++index[d] < loops[d].n;
            const int64_t steps = more ? 1 : 1 - loops[d].n;
            t += (int64_t)size * loops[d].stride[0] * steps;
            f += (int64_t)size * loops[d].stride[1] * steps;
            if (more) break;
            index[d] = 0;
        }
        if (d < 0) return;
    }
}
