// SPDX-License-Identifier: Apache-2.0
/* Floating-point levels. Reference: the Python package ml_dtypes 0.6, after numpy's clip, with astype. */
#include "arith/float_level.h"
#include "arith/real_steps.h"
#include "tests/check.h"

static const float given[] = {0.3f,  -0.7f,   1.0625f, 1.1875f, 5.25f, 7.25f,  7.6f,
                              -9.0f, 0.0624f, 0.0626f, 0.19f,   3.3f,  -0.01f, 2.125f};
enum { GIVEN = sizeof given / sizeof *given };

static const struct {
    const char *name;
    float most;
    int mantissa, least;
    float want[GIVEN];
} formats[] = {
    {"float6_e2m3fn",
     7.5f,
     3,
     0,
     {0.25f, -0.75f, 1.0f, 1.25f, 5.0f, 7.0f, 7.5f, -7.5f, 0.0f, 0.125f, 0.25f, 3.25f, -0.0f, 2.0f}},
    {"float6_e3m2fn",
     28,
     2,
     -2,
     {0.3125f, -0.75f, 1.0f, 1.25f, 5.0f, 7.0f, 8.0f, -8.0f, 0.0625f, 0.0625f, 0.1875f, 3.5f, -0.0f, 2.0f}},
    {"float4_e2m1fn", 6, 1, 0, {0.5f, -0.5f, 1.0f, 1.0f, 6.0f, 6.0f, 6.0f, -6.0f, 0.0f, 0.0f, 0.0f, 3.0f, -0.0f, 2.0f}},
    {"float8_e4m3fn",
     448,
     3,
     -6,
     {0.3125f, -0.6875f, 1.0f, 1.25f, 5.0f, 7.0f, 7.5f, -9.0f, 0.0625f, 0.0625f, 0.1875f, 3.25f, -0.009765625f, 2.0f}},
    {"float8_e5m2",
     57344,
     2,
     -14,
     {0.3125f, -0.75f, 1.0f, 1.25f, 5.0f, 7.0f, 8.0f, -8.0f, 0.0625f, 0.0625f, 0.1875f, 3.5f, -0.009765625f, 2.0f}},
};

static bool same(double a, double b)
{
    return !(a < b) && !(a > b) && signbit(a) == signbit(b);
}

Test(float_level, rounds_as_ml_dtypes)
{
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++)
        for (size_t i = 0; i < GIVEN; i++) {
            const double most = (double)formats[k].most, want = (double)formats[k].want[i];
            const float level =
                qc_float_level(given[i], -formats[k].most, formats[k].most, formats[k].mantissa, formats[k].least);
            cr_expect(same((double)level, want), "%s of %g: %g", formats[k].name, (double)given[i], (double)level);
            const double wide =
                qc_float_level_double((double)given[i], -most, most, formats[k].mantissa, formats[k].least);
            cr_expect(same(wide, want), "%s of %g in double: %g", formats[k].name, (double)given[i], wide);
        }
}

Test(float_level, saturates_and_keeps_nan)
{
    cr_expect(same((double)qc_float_level(INFINITY, -448, 448, 3, -6), 448));
    cr_expect(same((double)qc_float_level(-INFINITY, -448, 448, 3, -6), -448));
    cr_expect(isnan(qc_float_level(NAN, -448, 448, 3, -6)));
    cr_expect(isnan(qc_float_level_double((double)NAN, -448, 448, 3, -6)));
    const struct qc_levels integers = {.lo = -8, .hi = 7}, eighths = {.lo = -60, .hi = 60, .mantissa = 3, .least = 3};
    cr_expect(same(qc_nearest_level(6.5, integers, 0), 6));
    cr_expect(same(qc_nearest_level(9, integers, -2), 9));
    cr_expect(same(qc_nearest_level(33, eighths, 0), 32), "E2M3 in eighths: 33 lies between 32 and 36");
}

/* The loop over arrays is that of one number, divided by the scale first. */
Test(float_level, loop_divides_first)
{
    float y[GIVEN];
    const float scale[] = {0.37f}, lo[] = {-6}, hi[] = {6};
    const struct qc_rounding r = {
        .kind = QC_ROUNDING_FLOAT, .count = 1, .a = scale, .b = scale, .lo = lo, .hi = hi, .mantissa = 1, .least = 0};
    qc_rounding_run(&r, y, given, GIVEN);
    for (size_t i = 0; i < GIVEN; i++)
        cr_expect(same((double)y[i], (double)qc_float_level(given[i] / *scale, -6, 6, 1, 0)));
}
