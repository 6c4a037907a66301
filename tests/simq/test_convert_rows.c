// SPDX-License-Identifier: Apache-2.0
/* Rows of accumulators to bytes against the formula, one number at a time: RNE(clamp(f(acc * factor))) + zero point.
   All counts of channels that fill vectors and that do not, rows side by side and apart, sums at the ends of an int32.
 */
#include "random_graph.h"
#include "simq/core/convert.h"
#include "tests/check.h"

enum { ROWS = 19, WIDE = 144, FIRST = 5, MOST = WIDE + FIRST };

struct conversion {
    enum qc_dtype to;
    bool channels;
    int32_t zero, lo, hi;
    float top; /* of the factors */
    float low, high;
};

static const struct conversion cases[] = {
    {QC_U8, true, 7, 0, 255, 0.9999999f, -INFINITY, INFINITY},
    {QC_U8, false, 0, 0, 255, 1e-3f, -INFINITY, INFINITY},
    {QC_U8, true, 255, 0, 255, 1e-6f, -INFINITY, INFINITY},
    {QC_I8, true, -128, -128, 127, 1e-2f, 0, 200},
    {QC_I8, false, 127, -128, 127, 0.5f, -INFINITY, INFINITY},
    {QC_U4, true, 8, 0, 15, 1e-4f, -3, INFINITY},
    {QC_I4, true, -1, -8, 7, 1e-7f, -INFINITY, INFINITY},
    {QC_U8, true, 3, 0, 255, 4.0f, -INFINITY, 100},
    {QC_U8, true, 0, 0, 255, 0.9f, 0, INFINITY},
    {QC_I8, true, 0, -128, 127, 0.3f, -INFINITY, INFINITY},
    {QC_U8, true, 0, 0, 255, 0.9f, 0, 254},
};

static int32_t sum_of(struct random_source *random)
{
    static const int32_t ends[] = {INT32_MIN, INT32_MIN + 1, INT32_MAX, INT32_MAX - 1, 0, -1, 1, 1 << 24};
    if (random_int(random, 0, 9) == 0) return ends[random_int(random, 0, 7)];
    return (int32_t)random_int(random, -1, 1) * (int32_t)(UINT32_C(1) << random_int(random, 0, 30)) +
           (int32_t)random_int(random, -70000, 70000);
}

static void check(const struct conversion *t, size_t n, size_t x_step, ptrdiff_t y_step, size_t rows)
{
    static int32_t x[ROWS * (WIDE + 64)];
    static uint8_t y[ROWS * (WIDE + 64)];
    struct random_source random = {n + rows};
    float from_scale[MOST];
    int32_t none[MOST] = {0};
    for (int c = 0; c < MOST; c++) from_scale[c] = t->top / (float)(1 + (t->channels ? c % 11 : 0));
    const struct qc_scales from = FIELDS(.qparams = 1, .rounds = true, .product = true, .count = t->channels ? MOST : 1,
                                         .axis = 1, .scale = from_scale, .zero_point = none,
                                         .levels = {.lo = INT32_MIN, .hi = INT32_MAX}),
                           to = FIELDS(.qparams = 2, .rounds = true, .count = 1, .scale = (const float[]){1},
                                       .zero_point = &t->zero, .levels = {.lo = t->lo, .hi = t->hi});
    struct qc_convert c;
    MUST(qc_convert_of(&c, (struct qc_convert_end){QC_I32, &from}, (struct qc_convert_end){t->to, &to}, t->low, t->high,
                       NULL, test_arena(), ST));
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = sum_of(&random);
    memset(y, 0x5a, sizeof y);
    qc_convert_rows(&c, FIRST, y, y_step, x, x_step, rows, n);
    size_t wrong = 0, outside = 0;
    const float lo = fmaxf(t->low, (float)(t->lo - t->zero)), hi = fminf(t->high, (float)(t->hi - t->zero));
    for (size_t r = 0; r < rows; r++)
        for (size_t i = 0; i < (size_t)y_step; i++) {
            const uint8_t got = y[r * (size_t)y_step + i];
            if (i >= n) {
                outside += got != 0x5a;
                continue;
            }
            const float v = (float)x[r * x_step + i] * from_scale[t->channels ? FIRST + i : 0];
            wrong += got != (uint8_t)((int32_t)nearbyintf(fminf(fmaxf(v, lo), hi)) + t->zero);
        }
    cr_expect(wrong == 0 && outside == 0, "%s, %zu channels of %zu, %zu rows: %zu are wrong, %zu outside",
              qc_dtype_info(t->to)->name, n, x_step, rows, wrong, outside);
}

Test(convert, rows_of_accumulators_are_the_formula)
{
    static const size_t counts[] = {1,  3,  8,  15, 16, 17, 31,  32,  33,  47, 48,
                                    49, 63, 64, 65, 80, 96, 112, 127, 128, 144};
    static const size_t rows[] = {1, 2, 3, 8, ROWS};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
            for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
                const size_t n = counts[i], blocks = (n + 15) / 16 * 16;
                check(&cases[k], n, n, (ptrdiff_t)n, rows[r]);
                check(&cases[k], n, blocks, (ptrdiff_t)n + 3, rows[r]);
            }
}
