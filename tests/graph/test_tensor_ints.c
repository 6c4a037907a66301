// SPDX-License-Identifier: Apache-2.0
#include "base/pool.h"
#include "graph/types/tensor.h"
#include "tests/check.h"

/* Of every type, whole and in parts: as element by element. */
Test(tensor_ints, are_the_elements)
{
    static const enum qc_dtype types[] = {QC_U8, QC_I8, QC_U4, QC_I4, QC_BOOL, QC_U16, QC_I16, QC_I32, QC_F32};
    enum { N = 1300 };
    const struct qc_shape shape = qc_shape_of(1, (const int64_t[]){N});
    int32_t got[N];
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        OWN(qc_tensor) *t = qc_tensor_new(types[k], &shape, ST);
        cr_assert(t);
        for (size_t i = 0; i < t->bytes; i++) ((unsigned char *)t->data)[i] = (unsigned char)(i * 37 + i / 7);
        for (size_t i = 0; types[k] == QC_F32 && i < N; i++) ((float *)t->data)[i] = (float)((int)i * 997 - 60000);
        for (size_t first = 0; first < N; first += 259) {
            const size_t n = N - first < 300 ? N - first : 300;
            qc_tensor_ints(got, t, first, n);
            for (size_t i = 0; i < n; i++)
                cr_assert_eq(got[i], qc_tensor_int(t, first + i), "%s, element %zu", qc_dtype_info(types[k])->name,
                             first + i);
        }
    }
}

/* Axes in front, in the middle and at the end, channels shorter and longer than what is read at once. */
Test(tensor_ints, parts_are_sums_by_channel)
{
    static const int64_t shapes[][3] = {{1, 5, 1200}, {7, 3, 1},    {2, 700, 3}, {3, 4, 33},    {1, 1, 5},
                                        {513, 2, 1},  {2, 1, 1024}, {9, 700, 1}, {1, 70, 4096}, {1, 3, 90000}};
    qc_pool_share(3); /* large ones are looked at side by side */
    for (size_t k = 0; k < 2 * (sizeof shapes / sizeof *shapes); k++) {
        const struct qc_shape shape = qc_shape_of(3, shapes[k / 2]);
        const size_t channels = (size_t)shape.dim[1], inner = (size_t)shape.dim[2];
        OWN(qc_tensor) *t = qc_tensor_new(k % 3 ? QC_I8 : QC_U16, &shape, ST);
        QC_FREED int32_t *zero = malloc(channels * sizeof *zero);
        int64_t *above = malloc(4 * channels * sizeof *above), *below = above + channels, *up = below + channels,
                *down = up + channels;
        cr_assert(t && zero && above);
        for (size_t i = 0; i < t->bytes; i++) ((unsigned char *)t->data)[i] = (unsigned char)(i * 91 + i / 3);
        for (size_t c = 0; c < channels; c++) {
            zero[c] = (int32_t)(c * 13 % 50) - 20;
            up[c] = down[c] = 0;
        }
        const size_t zeros = k % 2 ? channels : 1;
        for (size_t i = 0; i < t->count; i++) {
            const size_t c = i / inner % channels;
            const int64_t d = qc_tensor_int(t, i) - zero[zeros > 1 ? c : 0];
            *(d > 0 ? &up[c] : &down[c]) += d;
        }
        qc_tensor_parts(above, below, t, channels, inner, zero, zeros);
        for (size_t c = 0; c < channels; c++)
            cr_expect(above[c] == up[c] && below[c] == down[c], "case %zu, channel %zu", k, c);
        free(above);
    }
    qc_pool_share(1);
}

/* Wherever they are, also behind the last whole lane; they are kept. */
Test(tensor, extremes)
{
    static const size_t counts[] = {1, 3, 16, 17, 100};
    for (size_t k = 0; k < 5 * sizeof counts / sizeof *counts; k++) {
        const size_t n = counts[k / 5], low = n * (k % 5) / 5, high = n - 1 - low;
        const struct qc_shape shape = qc_shape_of(1, (const int64_t[]){(int64_t)n});
        struct qc_tensor *t = qc_tensor_new(QC_F32, &shape, ST);
        float lo = 9, hi = 9, *x = t->data;
        for (size_t i = 0; i < n; i++) x[i] = 0.5f;
        x[high] = 2;
        x[low] = -3;
        cr_expect(qc_tensor_extremes(&lo, &hi, t));
        const float most = low != high ? 2 : n > 1 ? 0.5f : -3;
        cr_expect(lo <= -3 && lo >= -3 && hi <= most && hi >= most, "%zu", k);
        cr_expect(qc_tensor_extremes(&lo, &hi, t) && lo <= -3);
        qc_tensor_unref(t);
        t = qc_tensor_new(QC_F32, &shape, ST);
        ((float *)t->data)[high] = NAN;
        cr_expect_not(qc_tensor_extremes(&lo, &hi, t));
        cr_expect_not(qc_tensor_extremes(&lo, &hi, t));
        qc_tensor_unref(t);
    }
}

/* A dimension of 0 makes up for nothing: strides of the others have to fit too. */
Test(tensor, count_of_a_shape)
{
    static const struct {
        struct qc_shape shape;
        bool fits;
        size_t count;
    } cases[] = {{{.rank = 0}, true, 1},
                 {{.rank = 3, .dim = {2, 3, 4}}, true, 24},
                 {{.rank = 3, .dim = {2, 0, 4}}, true, 0},
                 {{.rank = 2, .dim = {2, QC_FREE}}, false, 0},
                 {{.rank = -1}, false, 0},
                 {{.rank = 3, .dim = {INT64_C(1) << 40, INT64_C(1) << 40, 2}}, false, 0},
                 {{.rank = 3, .dim = {INT64_C(1) << 40, 0, INT64_C(1) << 40}}, false, 0},
                 {{.rank = 2, .dim = {0, INT64_MAX}}, true, 0},
                 {{.rank = 2, .dim = {INT64_MAX, 2}}, false, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = 99;
        cr_expect_eq(qc_shape_count(&n, &cases[i].shape), cases[i].fits, "case %zu", i);
        cr_expect_eq(n, cases[i].fits ? cases[i].count : 99, "case %zu: %zu", i, n);
    }
}
