// SPDX-License-Identifier: Apache-2.0
#include <float.h>

#include "simq/core/convert.h"
#include "tests/check.h"

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

Test(rounding, baseline_trick_is_nearbyint)
{
    for (uint64_t u = 0; u <= UINT32_MAX; u += 4099) {
        const float x = of_bits((uint32_t)u), got = qc_round_even(x, false), want = nearbyintf(x);
        cr_assert(isnan(x) ? isnan(got) : bits_of(got) == bits_of(want), "%a: %a, expected %a", (double)x, (double)got,
                  (double)want);
    }
    for (float x = -70; x <= 70; x += 0.5f) cr_assert_eq(bits_of(qc_round_even(x, false)), bits_of(nearbyintf(x)));
    const float edge[] = {0x1p22f + 0.5f,  0x1p22f + 1.5f, 0x1.fffffep22f, 0x1p23f, 0x1p23f + 1,
                          -0x1p22f - 0.5f, -0.0f,          0.5f,           -0.5f};
    for (size_t i = 0; i < sizeof edge / sizeof *edge; i++)
        cr_assert_eq(bits_of(qc_round_even(edge[i], false)), bits_of(nearbyintf(edge[i])));
}

enum { COUNT = 203 };

static void fill(float x[COUNT], float scale)
{
    static const float special[] = {0, -0.0f, NAN, INFINITY, -INFINITY, FLT_MAX, -FLT_MAX, FLT_MIN, 1e-40f};
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i - 100) * 1.5f * scale;
    memcpy(x, special, sizeof special);
}

static const struct qc_scales real =
    FIELDS(.identity = true, .count = 1, .scale = (const float[]){1}, .zero_point = (const int32_t[]){0});

static struct qc_scales quantizer(const float *scale, const int32_t *zero, size_t count, int32_t lo, int32_t hi)
{
    return (struct qc_scales)FIELDS(.qparams = 1, .rounds = true, .count = count, .scale = scale, .zero_point = zero,
                                    .levels = {.lo = lo, .hi = hi});
}

/* Reference: the scalar functions of arith/. */
Test(rounding, quantize_is_that_of_numerics_for_any_length)
{
    static const float scales[] = {0.5f, 0.1f, 3.0f, 1e-3f};
    static const int32_t zeros[] = {0, 128, 255, 7};
    for (int k = 0; k < 4; k++) {
        const struct qc_scales to = quantizer(&scales[k], &zeros[k], 1, 0, 255);
        struct qc_rounding r;
        float x[COUNT], y[COUNT];
        MUST(qc_rounding_of(&r, &real, &to, -INFINITY, INFINITY, test_arena(), ST));
        cr_assert_eq(r.kind, QC_ROUNDING_QUANTIZE);
        for (size_t n = 0; n < COUNT; n++) {
            fill(x, scales[k]);
            memset(y, 0x55, sizeof y);
            const float behind = y[n];
            qc_rounding_run(&r, y, x, n);
            for (size_t i = 0; i < n; i++) {
                const struct qc_affine p = {.scale = scales[k], .zero_point = zeros[k]};
                const int32_t want = qc_quantize_one(x[i], p, to.levels) - zeros[k];
                cr_assert_eq((int32_t)y[i], want, "x %a scale %a: %g, expected %d", (double)x[i], (double)scales[k],
                             (double)y[i], want);
            }
            cr_assert_eq(bits_of(y[n]), bits_of(behind), "wrote behind the end");
        }
    }
}

Test(rounding, channels_have_their_own_parameters)
{
    const float scale[] = {0.5f, 0.25f, 2.0f}, one = 1.0f;
    const int32_t zero[] = {0, 0, 0}, none = 10;
    struct qc_scales from = quantizer(scale, zero, 3, INT32_MIN, INT32_MAX), to = quantizer(&one, &none, 1, 0, 255);
    from.product = true;
    struct qc_rounding r;
    MUST(qc_rounding_of(&r, &from, &to, 0, INFINITY, test_arena(), ST));
    cr_assert_eq(r.kind, QC_ROUNDING_REQUANTIZE);
    float x[] = {1, 2, 3, -4, -6, 250, 3, 6, 1000}, y[9];
    const float want[] = {0, 0, 6, 0, 0, 245, 2, 2, 245}; /* 0.5 and 1.5 to even; at least 0, at most 255 - 10 */
    qc_rounding_run(&r, y, x, 9);
    for (int i = 0; i < 9; i++) cr_assert_eq(y[i], want[i], "%d: %g, expected %g", i, (double)y[i], (double)want[i]);
    qc_rounding_run(&r, x, x, 9);
    cr_assert_eq(memcmp(x, y, sizeof x), 0, "in place");
    /* The same numbers with the channels along another axis. */
    float planes[] = {1, -4, 3, 2, -6, 6, 3, 250, 1000};
    const struct qc_shape s = QC_SHAPE(3, 3);
    const struct qc_view v = qc_view_of(QC_F32, &s, QC_LAYOUT_ROW, planes);
    qc_rounding_view(&r, 0, &v, &v);
    for (int i = 0; i < 9; i++) cr_assert_eq(planes[i], want[i % 3 * 3 + i / 3]);
}

Test(rounding, real_results_keep_nan_and_products_without_a_factor_are_not_rounded)
{
    const float scale = 0.3f;
    const int32_t zero = 0;
    struct qc_scales half = quantizer(&scale, &zero, 1, INT32_MIN, INT32_MAX);
    struct qc_rounding r;
    float x[] = {NAN, 1.0f, -2.0f}, y[3];
    half.product = true;
    half.rounds = false;
    MUST(qc_rounding_of(&r, &real, &half, -INFINITY, INFINITY, test_arena(), ST));
    qc_rounding_run(&r, y, x, 3);
    cr_assert(isnan(y[0]) && y[1] == 1.0f / 0.3f && y[2] == -2.0f / 0.3f);
    MUST(qc_rounding_of(&r, &half, &real, -0.5f, INFINITY, test_arena(), ST));
    qc_rounding_run(&r, y, x, 3);
    cr_assert(isnan(y[0]) && y[1] == 0.3f && y[2] == -0.5f);
    struct qc_scales two = quantizer((const float[]){1, 2}, (const int32_t[]){0, 0}, 2, 0, 255),
                     three = quantizer((const float[]){1, 2, 3}, (const int32_t[]){0, 0, 0}, 3, 0, 255);
    REFUSES(qc_rounding_of(&r, &two, &three, -INFINITY, INFINITY, test_arena(), ST), QC_BAD_INPUT, "");
}
