// SPDX-License-Identifier: Apache-2.0
/* The kernels against plain loops in 64 bits. */
#include "calib/moments/moments_kernel.h"
#include "calib_case.h"

enum { ROWS = QC_MOMENTS_ROWS, COLUMNS = 45 };

static int16_t *random_rows(size_t count, size_t columns, uint64_t seed)
{
    int16_t *x = malloc(count * columns * sizeof *x);
    cr_assert(x);
    for (size_t i = 0; i < count * columns; i++)
        x[i] = (int16_t)((int64_t)(test_random(&seed) % (2 * QC_MOMENTS_LEVEL + 1)) - QC_MOMENTS_LEVEL);
    return x;
}

static int64_t product(const int16_t *x, size_t count, size_t stride, size_t i, size_t j)
{
    int64_t s = 0;
    for (size_t r = 0; r < count; r++) s += (int64_t)x[r * stride + i] * x[r * stride + j];
    return s;
}

/* A full buffer, an odd one, a single row; all entries at their largest magnitude in the first. */
Test(gram_kernel, tiles_are_sums_of_products)
{
    static const size_t counts[] = {ROWS, 33, 1};
    for (size_t c = 0; c < 3; c++) {
        const size_t count = counts[c], pairs = (count + 1) / 2;
        QC_FREED int16_t *x = random_rows(count, COLUMNS, c),
                         *panels = malloc(3 * pairs * QC_MOMENTS_PAIR_SIZE * sizeof *panels);
        int32_t tile[QC_MOMENTS_TILE * QC_MOMENTS_TILE];
        for (size_t i = 0; !c && i < count * COLUMNS; i++) x[i] = x[i] < 0 ? -QC_MOMENTS_LEVEL : QC_MOMENTS_LEVEL;
        qc_second_moments_pack(panels, x, count, COLUMNS, 5, 40); /* columns 5 to 44 */
        for (size_t a = 0; a < 3; a++)
            for (size_t b = a; b < 3; b++) {
                for (size_t i = 0; i < QC_MOMENTS_TILE_SIZE; i++) tile[i] = 7; /* overwritten */
                qc_second_moments_tile(tile, panels + a * pairs * QC_MOMENTS_PAIR_SIZE,
                                       panels + b * pairs * QC_MOMENTS_PAIR_SIZE, pairs);
                for (size_t i = 0; i < QC_MOMENTS_TILE; i++)
                    for (size_t j = 0; j < QC_MOMENTS_TILE; j++) {
                        const size_t p = a * QC_MOMENTS_TILE + i, q = b * QC_MOMENTS_TILE + j;
                        const int64_t want = p < 40 && q < 40 ? product(x, count, COLUMNS, 5 + p, 5 + q) : 0;
                        cr_assert_eq(tile[i * QC_MOMENTS_TILE + j], want, "%zu rows, columns %zu and %zu: %d, not %lld",
                                     count, p, q, tile[i * QC_MOMENTS_TILE + j], (long long)want);
                    }
                for (size_t i = 0; i < QC_MOMENTS_TILE; i++) {
                    int64_t row[QC_MOMENTS_TILE];
                    for (size_t j = 0; j < QC_MOMENTS_TILE; j++) row[j] = 7;
                    qc_second_moments_row_of_tile(row, panels + a * pairs * QC_MOMENTS_PAIR_SIZE, i,
                                                  panels + b * pairs * QC_MOMENTS_PAIR_SIZE, pairs, (int)c);
                    for (size_t j = 0; j < QC_MOMENTS_TILE; j++)
                        cr_assert_eq(row[j], 7 + (int64_t)tile[i * QC_MOMENTS_TILE + j] * (1 << c), "row %zu", i);
                }
            }
    }
}

Test(gram_kernel, lanes_are_matrices_side_by_side)
{
    enum { K = 6, LANES = 37, COUNT = 130 };
    QC_FREED int16_t *x = random_rows(COUNT, K * LANES, 3);
    int64_t to[K * (K + 1) / 2 * LANES] = {0}, sums[K * LANES] = {0};
    int32_t scratch[LANES];
    int16_t panels[K * 48 * COUNT];
    qc_second_moments_lanes(&(struct qc_second_moments_sink){.wide = to, .shift = 3}, x, COUNT, K, LANES, scratch,
                            panels);
    qc_second_moments_sums(sums, x, COUNT, K * LANES, 5);
    for (size_t k = 0; k < K; k++)
        for (size_t j = 0; j <= k; j++)
            for (size_t l = 0; l < LANES; l++)
                cr_assert_eq(to[(k * (k + 1) / 2 + j) * LANES + l],
                             product(x, COUNT, K * LANES, k * LANES + l, j * LANES + l) * 8);
    for (size_t i = 0; i < K * LANES; i++) {
        int64_t s = 0;
        for (size_t r = 0; r < COUNT; r++) s += x[r * K * LANES + i];
        cr_assert_eq(sums[i], s * 32);
    }
}

Test(gram_kernel, entries_are_rounded_half_to_even_and_clamped)
{
    const float x[] = {0.5f, 1.5f,  2.5f,     -0.5f, -1.5f, 2047.4f, 2047.6f, -3e38f, 1e30f,
                       0,    -0.0f, 1000.49f, 7,     8,     9,       10,      11,     -12};
    enum { N = sizeof x / sizeof *x };
    int16_t dense[N], strided[N];
    float apart[3 * N];
    for (size_t i = 0; i < N; i++) apart[3 * i] = x[i];
    qc_second_moments_quantize(dense, x, N, 1, 1);
    qc_second_moments_quantize(strided, apart, N, 3, 1);
    for (size_t i = 0; i < N; i++) {
        const double want = fmax(-QC_MOMENTS_LEVEL, fmin(QC_MOMENTS_LEVEL, nearbyint((double)x[i])));
        cr_expect_eq(dense[i], (int16_t)want, "%g: %d", (double)x[i], dense[i]);
        cr_expect_eq(strided[i], dense[i]);
    }
}

Test(gram_kernel, the_peak_sees_every_value)
{
    float x[40] = {0};
    for (size_t i = 0; i < 40; i++) {
        x[i] = -3;
        cr_expect_eq(qc_second_moments_peak(x, 40, 1), 3.0f, "at %zu", i);
        cr_expect_eq(qc_second_moments_peak(x + i % 4, 10, 4), 3.0f, "strided, at %zu", i);
        x[i] = NAN;
        cr_expect(isinf(qc_second_moments_peak(x, 40, 1)));
        x[i] = 0;
    }
    cr_expect_eq(qc_second_moments_peak(x, 40, 1), 0.0f);
}
