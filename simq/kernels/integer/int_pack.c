// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/int_mac.h"

#include <string.h>

#include "base/pool.h"
#include "simq/kernels/integer/tile.h"

/* Returns the weight at an element offset, less its zero point. */
static int32_t weight_at(const struct qc_int_pack *p, const void *weights, int64_t at, size_t channel)
{
    const int32_t zero = p->scales->zero_point[p->scales->count > 1 ? channel : 0];
    const bool is_signed = p->type == QC_I8 || p->type == QC_I4 || p->type == QC_I2;
    if (p->type == QC_F32) return (int32_t)((const float *)weights)[at];
    if (p->type == QC_U16) return ((const uint16_t *)weights)[at] - zero;
    if (p->type == QC_I16) return ((const int16_t *)weights)[at] - zero;
    return (is_signed ? ((const int8_t *)weights)[at] : ((const uint8_t *)weights)[at]) - zero;
}

/* Returns position i of the kernel along dimension d in the order that data is read; a transposed convolution flips
   it. */
static int64_t position(const struct qc_int_shape *s, int d, int64_t i)
{
    return s->transposed ? s->kernel[d] - 1 - i : i;
}

/* Returns the offset of element j of a run. */
static int64_t offset_of(const struct qc_int_pack *p, int64_t run, int64_t j)
{
    const struct qc_int_shape *s = p->shape;
    const int64_t last = p->joined ? 1 : s->kernel[2], c = j % s->inputs, l = p->joined ? j / s->inputs : run % last;
    const int64_t k = run / last % s->kernel[1], i = run / last / s->kernel[1];
    return c * p->stride[2] + position(s, 0, i) * p->stride[3] + position(s, 1, k) * p->stride[4] +
           position(s, 2, l) * p->stride[5];
}

/* The elements of a run in one quad of bytes. */
struct quad {
    size_t count; /* elements present */
    int64_t at[4];
};

static struct quad quad_of(const struct qc_int_pack *p, int64_t run, size_t quad)
{
    const size_t per_quad = p->wide ? 2 : 4,
                 elements = (size_t)(p->shape->inputs * (p->joined ? p->shape->kernel[2] : 1));
    struct quad q = {.count = 0};
    for (size_t j = quad * per_quad; q.count < per_quad && j < elements; j++)
        q.at[q.count++] = offset_of(p, run, (int64_t)j);
    return q;
}

/* Packs one quad of `count` channels, starting at `first`; adds the weights to `sum`. */
static inline void pack_quad(uint8_t *to, int32_t *sum, const struct qc_int_pack *p, const void *weights,
                             const struct quad *q, size_t first, size_t count)
{
    for (size_t c = 0; c < count; c++, to += 4) {
        uint32_t all = 0;
        for (size_t i = 0; i < q->count; i++) {
            const int32_t w = weight_at(p, weights, (int64_t)c * p->stride[0] + q->at[i], first + c);
            all += (uint32_t)w;
            to[p->wide ? 2 * i : i] = (uint8_t)w;
            if (p->wide) to[2 * i + 1] = (uint8_t)(w >> 8);
        }
        sum[c] = (int32_t)((uint32_t)sum[c] + all);
    }
}

/* The same for full quads of bytes, the most frequent case. */
static inline void pack_bytes(uint8_t *to, int32_t *sum, const struct qc_int_pack *p, const uint8_t *weights,
                              const struct quad *q, size_t first, size_t count)
{
    const bool is_signed = p->type == QC_I8 || p->type == QC_I4 || p->type == QC_I2;
    const int32_t *zero = p->scales->zero_point + (p->scales->count > 1 ? first : 0);
    const size_t by = p->scales->count > 1;
    for (size_t c = 0; c < count; c++, to += 4, weights += p->stride[0]) {
        uint32_t all = 0;
        for (size_t i = 0; i < 4; i++) {
            const uint8_t x = weights[q->at[i]];
            const int32_t w = (is_signed ? (int8_t)x : x) - zero[c * by];
            all += (uint32_t)w;
            to[i] = (uint8_t)w;
        }
        sum[c] = (int32_t)((uint32_t)sum[c] + all);
    }
}

/* Fewer bytes than this are packed faster on one thread than with panels in parallel. */
enum { SHARED_LEAST = 1 << 18 };

struct packing {
    const struct qc_int_pack *p;
    const void *weights;
    uint8_t *to;
    int32_t *sums;
    size_t runs, group_blocks; /* blocks of channels of all panels of one group */
};

static void pack_panel_int_pack(void *user, size_t item)
{
    const struct packing *k = user;
    const struct qc_int_pack *p = k->p;
    const struct qc_int_shape *s = p->shape;
    const size_t group = item / p->panels, panel = item % p->panels, outputs = (size_t)s->outputs,
                 of_group = group * outputs, size = qc_dtype_size(p->type),
                 width = (size_t)p->blocks[panel] * QC_TILE_CHANNELS;
    size_t before = 0;
    for (size_t i = 0; i < panel; i++) before += (size_t)p->blocks[i];
    const size_t first = before * QC_TILE_CHANNELS, count = first >= outputs          ? 0
                                                            : width < outputs - first ? width
                                                                                      : outputs - first;
    const char *from =
        (const char *)k->weights + ((int64_t)first * p->stride[0] + (int64_t)group * p->stride[1]) * (int64_t)size;
    uint8_t *to = k->to + (group * k->group_blocks + before) * QC_TILE_CHANNELS * 4 * p->quads * k->runs;
    int32_t *sums = k->sums + group * p->channels + first;
    memset(sums, 0, width * sizeof *sums);
    for (size_t r = 0; r < k->runs; r++)
        for (size_t quad = 0; quad < p->quads; quad++, to += 4 * width) {
            const struct quad q = quad_of(p, (int64_t)r, quad);
            if (q.count < 4 || count < width) memset(to, 0, 4 * width);
            if (q.count == 4 && size == 1)
                pack_bytes(to, sums, p, (const uint8_t *)from, &q, of_group + first, count);
            else
                pack_quad(to, sums, p, from, &q, of_group + first, count);
        }
}

void qc_int_pack(uint8_t *to, int32_t *sums, const struct qc_int_pack *p, const void *weights)
{
    const struct qc_int_shape *s = p->shape;
    struct packing k = {.p = p,
                        .weights = weights,
                        .to = to,
                        .sums = sums,
                        .runs = (size_t)(s->kernel[0] * s->kernel[1] * (p->joined ? 1 : s->kernel[2]))};
    const size_t panels = (size_t)s->groups * p->panels;
    for (size_t i = 0; i < p->panels; i++) k.group_blocks += (size_t)p->blocks[i];
    if ((size_t)s->groups * k.group_blocks * QC_TILE_CHANNELS * 4 * p->quads * k.runs >= SHARED_LEAST)
        qc_pool_loop(panels, pack_panel_int_pack, &k);
    else
        for (size_t item = 0; item < panels; item++) pack_panel_int_pack(&k, item);
}

void qc_int_pack_bias(int32_t *bias, const struct qc_int_pack *p, const int32_t *sums, const int32_t *given)
{
    const struct qc_int_shape *s = p->shape;
    const size_t outputs = (size_t)s->outputs;
    for (int64_t g = 0; g < s->groups; g++, bias += p->channels, sums += p->channels, given += s->outputs)
        for (size_t c = 0; c < p->channels; c++)
            bias[c] = (int32_t)((c < outputs ? (uint32_t)given[c] : 0) -
                                (uint32_t)((p->zeros ? p->zeros[g] : p->zero) - p->less) * (uint32_t)sums[c]);
}

/* Two data values x, y in 0 to most give (x - less) * a + (y - less) * b; the extremes are at the ends. */
static bool pair_fits(const struct qc_int_pack *p, int32_t a, int32_t b, int32_t most)
{
    const int32_t x = -p->less, y = most - p->less, up = (a > 0 ? y : x) * a + (b > 0 ? y : x) * b,
                  down = (a > 0 ? x : y) * a + (b > 0 ? x : y) * b;
    return up <= INT16_MAX && down >= INT16_MIN;
}

bool qc_int_pack_fits(const struct qc_int_pack *p, const void *weights, int32_t most)
{
    const struct qc_int_shape *s = p->shape;
    const int64_t runs = s->kernel[0] * s->kernel[1] * (p->joined ? 1 : s->kernel[2]);
    for (int64_t g = 0; g < s->groups; g++)
        for (int64_t r = 0; r < runs; r++)
            for (size_t i = 0; i < p->quads; i++) {
                const struct quad q = quad_of(p, r, i);
                for (int64_t c = 0; c < s->outputs; c++) {
                    const size_t channel = (size_t)(g * s->outputs + c);
                    const int64_t at = c * p->stride[0] + g * p->stride[1];
                    int32_t w[4] = {0};
                    for (size_t k = 0; k < q.count; k++) w[k] = weight_at(p, weights, at + q.at[k], channel);
                    if (!pair_fits(p, w[0], w[1], most) || !pair_fits(p, w[2], w[3], most)) return false;
                }
            }
    return true;
}

void qc_int_pack_pairs(int8_t *to, int32_t *sums, const struct qc_int_pack *p, const void *weights)
{
    const struct qc_int_shape *s = p->shape;
    const int64_t runs = s->kernel[0] * s->kernel[1] * (p->joined ? 1 : s->kernel[2]),
                  elements = s->inputs * (p->joined ? s->kernel[2] : 1), n = s->outputs;
    memset(sums, 0, (size_t)(s->groups * n) * sizeof *sums);
    for (int64_t g = 0; g < s->groups; g++, sums += n) {
        for (int64_t r = 0; r < runs; r++)
            for (int64_t j = 0; j < elements; j++)
                for (int64_t c = 0; c < n; c++) {
                    const size_t channel = (size_t)(g * n + c);
                    const int32_t w =
                        weight_at(p, weights, c * p->stride[0] + g * p->stride[1] + offset_of(p, r, j), channel);
                    sums[c] = (int32_t)((uint32_t)sums[c] + (uint32_t)w);
                    *to++ = (int8_t)(w + p->scales->zero_point[p->scales->count > 1 ? channel : 0]);
                }
        if (runs * elements % 2) {
            memset(to, 0, (size_t)n);
            to += n;
        }
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
