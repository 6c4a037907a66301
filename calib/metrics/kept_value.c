// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics/kept_value.h"

#include <stdlib.h>
#include <string.h>

#include "base/simd.h"
#include "simq/core/convert.h"

bool qc_room_make(struct qc_room *r, size_t bytes, struct qc_status *st)
{
    if (r->data && r->bytes >= bytes) return true;
    void *more = realloc(r->data, bytes + 1);
    if (!more) return qc_fail_memory(st, bytes);
    *r = (struct qc_room){.data = more, .bytes = bytes};
    return true;
}

struct qc_view qc_view_kept(void *to, const struct qc_view *v)
{
    struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    struct qc_view copy = qc_view_of(v->dtype, &shape, QC_LAYOUT_ROW, to);
    if (qc_view_dense(v)) {
        memcpy(copy.stride, v->stride, sizeof copy.stride);
        memcpy(to, v->data, qc_view_count(v) * qc_dtype_size(v->dtype));
    } else {
        qc_view_copy(&copy, v);
    }
    return copy;
}

int32_t qc_zero_of(const struct qc_qparams *s)
{
    return s && s->count == 1 ? s->zero_point[0] : 0;
}

struct qc_view qc_view_centred(float *to, const struct qc_view *v, int32_t zero_point)
{
    enum { BLOCK = 256 };
    int32_t level[BLOCK];
    if (v->dtype == QC_F32) return *v;
    const size_t n = qc_view_count(v), size = qc_dtype_size(v->dtype);
    struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    char *tail = (char *)to + n * (sizeof *to - size); /* reads stay ahead of writes */
    struct qc_view copy = qc_view_of(v->dtype, &shape, QC_LAYOUT_ROW, tail);
    if (qc_view_dense(v)) memcpy(copy.stride, v->stride, sizeof copy.stride);
    qc_view_copy(&copy, v);
    for (size_t i = 0; i < n; i += BLOCK) {
        const size_t count = n - i < BLOCK ? n - i : BLOCK;
        qc_load_levels(level, v->dtype, tail + i * size, count);
        for (size_t k = 0; k < count; k++) to[i + k] = (float)(level[k] - zero_point);
    }
    copy.dtype = QC_F32;
    copy.data = to;
    return copy;
}

/* Converts levels to bytes and back: x[i] = to[i] + lowest. *any: some x is no such level. */
static QC_INLINE void to_bytes_body(bool *any, uint8_t *restrict to, const float *restrict x, size_t n, float lowest)
{
    uint32_t off = 0;
    for (size_t i = 0; i < n; i++) {
        const float up = x[i] - lowest + 0x1p23f; /* the lowest bits hold the level */
        uint32_t bits;
        memcpy(&bits, &up, sizeof bits);
        to[i] = (uint8_t)bits;
        const float off_by = (float)(int32_t)(bits & UINT8_MAX) + lowest - x[i];
        memcpy(&bits, &off_by, sizeof bits); /* not 0 if x is no level, or NaN */
        off |= bits;
    }
    *any = off << 1 != 0; /* ignores the sign of 0 */
}
QC_SIMD(to_bytes, (bool *any, uint8_t *to, const float *x, size_t n, float lowest), (any, to, x, n, lowest))

static QC_INLINE void from_bytes_body(float *restrict to, const uint8_t *restrict x, size_t n, float lowest)
{
    for (size_t i = 0; i < n; i++) to[i] = (float)x[i] + lowest;
}
QC_SIMD(from_bytes, (float *to, const uint8_t *x, size_t n, float lowest), (to, x, n, lowest))

bool qc_fits_byte(float *lowest, const struct qc_qparams *s)
{
    if (!s || s->count != 1) return false;
    const struct qc_levels levels = qc_qparams_levels(s);
    *lowest = (float)(levels.lo - s->zero_point[0]);
    return (int64_t)levels.hi - levels.lo <= UINT8_MAX;
}

bool qc_keep_value(struct qc_kept_value *k, const struct qc_view *v, const struct qc_qparams *s, struct qc_status *st)
{
    const size_t n = qc_view_count(v);
    float lowest;
    k->as_bytes = v->dtype == QC_F32 && qc_view_dense(v) && qc_fits_byte(&lowest, s);
    if (k->as_bytes) {
        bool others;
        if (!qc_room_make(&k->room, n, st)) return false;
        k->view = *v;
        k->view.data = k->room.data;
        to_bytes(&others, k->room.data, v->data, n, lowest);
        if (!others) return true;
        k->as_bytes = false;
    }
    if (!qc_room_make(&k->room, n * qc_dtype_size(v->dtype), st)) return false;
    k->view = qc_view_kept(k->room.data, v);
    return true;
}

struct qc_view qc_kept_levels(float *to, const struct qc_kept_value *k, const struct qc_qparams *s)
{
    float lowest;
    if (!k->as_bytes || !qc_fits_byte(&lowest, s)) return qc_view_centred(to, &k->view, qc_zero_of(s));
    struct qc_view v = k->view;
    v.data = to;
    from_bytes(to, k->room.data, qc_view_count(&v), lowest);
    return v;
}

void qc_kept_part(float *to, const struct qc_kept_value *k, const struct qc_qparams *s, size_t first, size_t n)
{
    float lowest = 0;
    (void)qc_fits_byte(&lowest, s);
    from_bytes(to, (const uint8_t *)k->room.data + first, n, lowest);
}
