// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/int_pairs.h"

#include <string.h>

#include "arith/pair_product.h"
#include "base/simd.h"

static size_t inputs_of(const struct qc_int_mac *m)
{
    return m->runs * m->run_elements;
}

/* Adds a0 * w[c] + a1 * w[n + c], saturated as one pair, to acc[c]. */
static QC_INLINE void add_pair_body(int32_t *restrict acc, int32_t a0, int32_t a1, const int8_t *restrict w, size_t n)
{
    for (size_t c = 0; c < n; c++) acc[c] += qc_pair_product(a0, w[c], a1, w[n + c]);
}
QC_SIMD(add_pair, (int32_t *restrict acc, int32_t a0, int32_t a1, const int8_t *restrict w, size_t n),
        (acc, a0, a1, w, n))

size_t qc_int_pairs_bytes(const struct qc_int_mac *m)
{
    return (inputs_of(m) + 1) / 2 * 2 * m->channels;
}

size_t qc_int_pairs_scratch(const struct qc_int_mac *m)
{
    return m->channels * sizeof(int32_t) + inputs_of(m) + 1;
}

/* Gathers the data of one result in the order of the weights; *sum: their sum. */
static void gather(uint8_t *row, int32_t *sum, const struct qc_int_mac *m, const uint8_t *data)
{
    const size_t n = inputs_of(m);
    for (size_t r = 0; r < m->runs; r++) memcpy(row + r * m->run_elements, data + m->run[r], m->run_elements);
    row[n] = 0; /* partner of the last element of an odd count */
    *sum = 0;
    for (size_t i = 0; i < n; i++) *sum += row[i];
}

static void run_pixel(const struct qc_int_mac *m, int64_t group, const uint8_t *data, const uint8_t *weights,
                      const int32_t *bias, char *y, int32_t *acc)
{
    const size_t n = m->channels, pairs = (inputs_of(m) + 1) / 2, first = (size_t)group * n;
    const int32_t *zero = m->weight_scales.zero_point;
    uint8_t *row = (uint8_t *)(acc + n);
    int32_t sum;
    gather(row, &sum, m, data);
    for (size_t c = 0; c < n; c++)
        acc[c] =
            (int32_t)((uint32_t)bias[c] - (uint32_t)zero[m->weight_scales.count > 1 ? first + c : 0] * (uint32_t)sum);
    for (size_t i = 0; i < pairs; i++)
        add_pair(acc, row[2 * i], row[2 * i + 1], (const int8_t *)weights + 2 * i * n, n);
    qc_convert_rows(&m->d.finish, first, y, m->d.out_stride[4], acc, n, 1, n);
}

void qc_int_pairs_run(const struct qc_int_mac *m, int64_t group, const uint8_t *data, const uint8_t *weights,
                      const int32_t *bias, char *y, void *scratch)
{
    const struct qc_int_shape *s = &m->d.shape;
    const int64_t size = (int64_t)qc_dtype_size(m->d.finish.to), *out = m->d.out_stride;
    for (int64_t i = 0; i < s->out[0]; i++)
        for (int64_t k = 0; k < s->out[1]; k++)
            for (int64_t l = 0; l < s->out[2]; l++)
                run_pixel(m, group,
                          data + i * s->stride[0] * m->plane_step[0] + k * s->stride[1] * m->plane_step[1] +
                              l * s->stride[2] * m->plane_step[2],
                          weights, bias, y + (i * out[2] + k * out[3] + l * out[4]) * size, scratch);
}
