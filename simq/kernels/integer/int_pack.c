// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/int_pack.h"

#include "graph/types/small_float.h"
#include "simq/kernels/integer/tile.h"

/* Weight at an element offset, less its zero point. */
static int32_t weight_at(const struct qc_int_pack *p, const void *weights, int64_t at, size_t channel)
{
    const int32_t zero = p->scales->zero_point[p->scales->count > 1 ? channel : 0];
    switch (p->type) {
    case QC_F32: return (int32_t)((const float *)weights)[at];
    case QC_U8:
    case QC_U4:
    case QC_U2: return ((const uint8_t *)weights)[at] - zero;
    case QC_I8:
    case QC_I4:
    case QC_I2: return ((const int8_t *)weights)[at] - zero;
    case QC_U16: return ((const uint16_t *)weights)[at] - zero;
    case QC_I16: return ((const int16_t *)weights)[at] - zero;
    case QC_NONE:
    case QC_I32:
    case QC_I64:
    case QC_BOOL:
    case QC_F16:
    case QC_F64:
    case QC_U32:
    case QC_U64:
    case QC_BF16:
    QC_CASE_SMALL_FLOATS:
    case QC_DTYPE_COUNT: break;
    }
    return 0;
}

/* Position i of the kernel along dimension d, in the order that the data is read: that of a transposed one is flipped.
 */
static int64_t position(const struct qc_int_shape *s, int d, int64_t i)
{
    return s->transposed ? s->kernel[d] - 1 - i : i;
}

/* Element j of run r. */
static int64_t offset_of(const struct qc_int_pack *p, int64_t run, int64_t j)
{
    const struct qc_int_shape *s = p->shape;
    const int64_t last = p->joined ? 1 : s->kernel[2], c = j % s->inputs, l = p->joined ? j / s->inputs : run % last;
    const int64_t k = run / last % s->kernel[1], i = run / last / s->kernel[1];
    return c * p->stride[2] + position(s, 0, i) * p->stride[3] + position(s, 1, k) * p->stride[4] +
           position(s, 2, l) * p->stride[5];
}

static uint8_t *pack_channel(uint8_t *to, int32_t *sum, const struct qc_int_pack *p, const void *weights, int64_t base,
                             size_t channel, int64_t run, size_t quad, bool real)
{
    const size_t per_quad = p->wide ? 2 : 4;
    const size_t elements = (size_t)(p->shape->inputs * (p->joined ? p->shape->kernel[2] : 1));
    for (size_t i = 0; i < per_quad; i++) {
        const size_t j = quad * per_quad + i;
        const int32_t w =
            real && j < elements ? weight_at(p, weights, base + offset_of(p, run, (int64_t)j), channel) : 0;
        *sum = (int32_t)((uint32_t)*sum + (uint32_t)w);
        *to++ = (uint8_t)w;
        if (p->wide) *to++ = (uint8_t)(w >> 8);
    }
    return to;
}

void qc_int_pack(uint8_t *to, int32_t *bias, const struct qc_int_pack *p, const void *weights, const int32_t *given)
{
    const struct qc_int_shape *s = p->shape;
    const int64_t runs = s->kernel[0] * s->kernel[1] * (p->joined ? 1 : s->kernel[2]);
    for (int64_t g = 0; g < s->groups; g++, bias += p->channels, given += s->outputs) {
        size_t first = 0;
        for (size_t c = 0; c < p->channels; c++) bias[c] = 0;
        for (size_t panel = 0; panel < p->panels; panel++) {
            const size_t width = (size_t)p->blocks[panel] * QC_TILE_CHANNELS;
            for (int64_t r = 0; r < runs; r++)
                for (size_t q = 0; q < p->quads; q++)
                    for (size_t c = first; c < first + width; c++)
                        to = pack_channel(to, &bias[c], p, weights, (int64_t)c * p->stride[0] + g * p->stride[1],
                                          (size_t)(g * s->outputs) + c, r, q, c < (size_t)s->outputs);
            first += width;
        }
        for (size_t c = 0; c < p->channels; c++)
            bias[c] = (int32_t)((c < (size_t)s->outputs ? (uint32_t)given[c] : 0) -
                                (uint32_t)(p->zeros ? p->zeros[g] : p->zero) * (uint32_t)bias[c]);
    }
}

void qc_int_pack_taps(int32_t *to, int32_t *bias, const struct qc_int_pack *p, const void *weights,
                      const int32_t *given)
{
    const struct qc_int_shape *s = p->shape;
    const int64_t runs = s->kernel[0] * s->kernel[1] * (p->joined ? 1 : s->kernel[2]);
    for (int64_t g = 0; g < s->groups; g++) {
        uint32_t sum = 0;
        for (int64_t r = 0; r < runs; r++) {
            const int32_t w = weight_at(p, weights, g * p->stride[1] + offset_of(p, r, 0), (size_t)g);
            to[r * s->groups + g] = w;
            sum += (uint32_t)w;
        }
        bias[g] = (int32_t)((uint32_t)given[g] - (uint32_t)(p->zeros ? p->zeros[g] : p->zero) * sum);
    }
}
