// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/int_copy.h"

#include <string.h>

#include "base/simd.h"

/* Writes n elements of padding, starting at channel 0. */
static void fill(const struct qc_int_mac *m, uint8_t *to, size_t n)
{
    const size_t channels = (size_t)m->d.shape.groups;
    for (size_t i = 0; m->zeros && i < n; i++) {
        if (m->element == 1)
            to[i] = (uint8_t)m->zeros[i % channels];
        else
            ((int16_t *)(void *)to)[i] = (int16_t)m->zeros[i % channels];
    }
    if (m->zeros) return;
    if (m->element == 1) {
        memset(to, m->zero, n);
        return;
    }
    int16_t *y = (int16_t *)(void *)to;
    for (size_t i = 0; i < n; i++) y[i] = (int16_t)m->zero;
}

#define QC_MOVE(NAME, S, T)                                                                                            \
    static QC_INLINE void NAME##_body(T *restrict y, const S *restrict x, size_t n, int64_t stride, int32_t shift)     \
    {                                                                                                                  \
        if (stride == 1)                                                                                               \
            for (size_t i = 0; i < n; i++) y[i] = (T)((int32_t)x[i] - shift);                                          \
        else                                                                                                           \
            for (size_t i = 0; i < n; i++) y[i] = (T)((int32_t)x[(int64_t)i * stride] - shift);                        \
    }                                                                                                                  \
    QC_SIMD(NAME, (T *restrict y, const S *restrict x, size_t n, int64_t stride, int32_t shift),                       \
            (y, x, n, stride, shift))
QC_MOVE(move_u8_u8, uint8_t, uint8_t)
QC_MOVE(move_i8_u8, int8_t, uint8_t)
QC_MOVE(move_u8_i16, uint8_t, int16_t)
QC_MOVE(move_i8_i16, int8_t, int16_t)
QC_MOVE(move_u16_i16, uint16_t, int16_t)
QC_MOVE(move_i16_i16, int16_t, int16_t)
QC_MOVE(move_f32_i16, float, int16_t)
QC_MOVE(move_f32_u8, float, uint8_t)

static void move(const struct qc_int_mac *m, uint8_t *y, const void *x, size_t n, int64_t stride)
{
    const enum qc_dtype t = m->d.data_type;
    int16_t *wide = (int16_t *)(void *)y;
    if (t == QC_F32 && !m->wide)
        move_f32_u8(y, x, n, stride, m->shift);
    else if (t == QC_F32)
        move_f32_i16(wide, x, n, stride, m->shift);
    else if (t == QC_I16)
        move_i16_i16(wide, x, n, stride, m->shift);
    else if (t == QC_U16)
        move_u16_i16(wide, x, n, stride, m->shift);
    else if ((t == QC_I8 || t == QC_I4) && m->wide)
        move_i8_i16(wide, x, n, stride, m->shift);
    else if (t == QC_I8 || t == QC_I4)
        move_i8_u8(y, x, n, stride, m->shift);
    else if (m->wide)
        move_u8_i16(wide, x, n, stride, m->shift);
    else if (stride == 1 && m->shift == 0)
        memcpy(y, x, n);
    else
        move_u8_u8(y, x, n, stride, m->shift);
}

/* Returns the data position for position i of the copy's dimension d, or -1 for padding. */
static int64_t source(const struct qc_int_mac *m, int d, int64_t i)
{
    const int64_t k = i - m->origin[d];
    return k < 0 || k % m->up[d] || k / m->up[d] >= m->d.shape.in[d] ? -1 : k / m->up[d];
}

static void copy_data_line(const struct qc_int_mac *m, uint8_t *to, const char *from)
{
    const size_t size = qc_dtype_size(m->d.data_type), channels = (size_t)(m->d.shape.groups * m->d.shape.inputs);
    const int64_t *stride = m->d.data_stride;
    const bool dense = (stride[1] == 1 || channels == 1) && stride[4] == (int64_t)channels && m->up[2] == 1;
    int64_t first = 0, last = m->plane[2];
    if (!dense) {
        for (int64_t i = 0; i < m->plane[2]; i++, to += m->plane_step[2]) {
            const int64_t k = source(m, 2, i);
            if (k < 0)
                fill(m, to, channels);
            else
                move(m, to, from + k * stride[4] * (int64_t)size, channels, stride[1]);
        }
        return;
    }
    if (m->origin[2] > 0) first = m->origin[2] < last ? m->origin[2] : last;
    if (last > m->origin[2] + m->d.shape.in[2]) last = m->origin[2] + m->d.shape.in[2];
    if (last < first) last = first;
    fill(m, to, (size_t)first * channels);
    move(m, to + first * m->plane_step[2], from + (first - m->origin[2]) * stride[4] * (int64_t)size,
         (size_t)(last - first) * channels, 1);
    fill(m, to + last * m->plane_step[2], (size_t)(m->plane[2] - last) * channels);
}

void qc_int_copy_line(const struct qc_int_mac *m, uint8_t *to, const char *from, int64_t i, int64_t k)
{
    const int64_t size = (int64_t)qc_dtype_size(m->d.data_type), *stride = m->d.data_stride, a = source(m, 0, i),
                  b = source(m, 1, k);
    if (a < 0 || b < 0)
        fill(m, to, (size_t)(m->d.shape.groups * m->d.shape.inputs * m->plane[2]));
    else
        copy_data_line(m, to, from + (a * stride[2] + b * stride[3]) * size);
}

void qc_int_copy(const struct qc_int_mac *m, uint8_t *to, const char *from)
{
    for (int64_t i = 0; i < m->plane[0]; i++)
        for (int64_t k = 0; k < m->plane[1]; k++)
            qc_int_copy_line(m, to + i * m->plane_step[0] + k * m->plane_step[1], from, i, k);
}
