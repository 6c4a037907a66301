// SPDX-License-Identifier: Apache-2.0
/* Floats of at most 8 bits. Reference: the Python package ml_dtypes 0.6. */
#include "arith/float_level.h"
#include "graph/types/number_format.h"
#include "tests/check.h"

static const double given[] = {
    0.3, -1.7, 17.0, 300.0, 464.0, 465.0, 1e-3, -0.0, 0.00146484375, 61440.0, (double)INFINITY, (double)NAN};
enum { GIVEN = sizeof given / sizeof *given };

Test(small_float, rounds_as_ml_dtypes)
{
    static const struct {
        enum qc_dtype type;
        uint8_t bits[GIVEN];
    } cases[] = {
        {QC_F8E4M3, {0x2a, 0xbe, 0x58, 0x79, 0x7e, 0x7f, 0x1, 0x80, 0x1, 0x7f, 0x7f, 0x7f}},
        {QC_F8E4M3Z, {0x32, 0xc6, 0x60, 0x80, 0x80, 0x80, 0x1, 0x0, 0x2, 0x80, 0x80, 0x80}},
        {QC_F8E5M2, {0x35, 0xbf, 0x4c, 0x5d, 0x5f, 0x5f, 0x14, 0x80, 0x16, 0x7c, 0x7c, 0x7e}},
        {QC_F8E5M2Z, {0x39, 0xc3, 0x50, 0x61, 0x63, 0x63, 0x18, 0x0, 0x1a, 0x80, 0x80, 0x80}},
        {QC_F4E2M1, {0x1, 0xb, 0x7, 0x7, 0x7, 0x7, 0x0, 0x8, 0x0, 0x7, 0x7, 0x8}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (size_t i = 0; i < GIVEN; i++)
            cr_expect_eq(qc_float_to_small(cases[k].type, given[i], QC_SMALL_OVERFLOWS, QC_SMALL_NEAREST),
                         cases[k].bits[i], "%s of %g", qc_dtype_info(cases[k].type)->name, given[i]);
}

/* What is stored comes back with the same bits, and what is too large as the largest number when that is wanted. */
Test(small_float, every_pattern_comes_back)
{
    static const enum qc_dtype types[] = {QC_F8E4M3, QC_F8E4M3Z, QC_F8E5M2, QC_F8E5M2Z, QC_F8E8M0, QC_F4E2M1};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        const int patterns = types[k] == QC_F4E2M1 ? 16 : 256;
        for (int i = 0; i < patterns; i++) {
            const float v = qc_small_to_float(types[k], (uint8_t)i);
            const uint8_t back = qc_float_to_small(types[k], (double)v, QC_SMALL_OVERFLOWS, QC_SMALL_UP);
            cr_expect(isnan(v) ? isnan(qc_small_to_float(types[k], back)) : back == i, "%s, pattern %d",
                      qc_dtype_info(types[k])->name, i);
        }
        const uint8_t most = qc_float_to_small(types[k], 1e39, QC_SMALL_SATURATES, QC_SMALL_NEAREST);
        cr_expect(isfinite(qc_small_to_float(types[k], most)));
    }
}

/* The levels of a type are its finite numbers: rounding to them is writing the bits and reading them. */
Test(small_float, levels_are_the_numbers_of_the_type)
{
    static const enum qc_dtype types[] = {QC_F8E4M3, QC_F8E4M3Z, QC_F8E5M2, QC_F8E5M2Z, QC_F4E2M1};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        const struct qc_levels l = qc_levels_of(types[k], false);
        for (float v = 1e-8f; v < 2e5f; v *= 1.0007f) {
            const uint8_t bits = qc_float_to_small(types[k], (double)-v, QC_SMALL_SATURATES, QC_SMALL_NEAREST);
            const float level = qc_float_level(-v, (float)l.lo, (float)l.hi, l.mantissa, l.least),
                        want = qc_small_to_float(types[k], bits);
            cr_assert(level >= want && level <= want, "%s of %g: %g, not %g", qc_dtype_info(types[k])->name, (double)-v,
                      (double)level, (double)want);
        }
    }
}

/* With the scale over all scales every product with a number of E4M3 is exact, and the largest scale is 448 of it. */
Test(small_float, scale_over_scales_is_exact)
{
    for (float largest = 1e-6f; largest < 1e6f; largest *= 1.37f) {
        const float over = qc_scale_over(largest);
        cr_expect(over * 448 >= largest && over * 448 < largest * 1.0001f);
        for (int i = 1; i < 0x7f; i++) {
            const float code = qc_small_to_float(QC_F8E4M3, (uint8_t)i), scale = code * over;
            cr_expect((double)scale >= (double)code * (double)over && (double)scale <= (double)code * (double)over);
            cr_expect(scale / over >= code && scale / over <= code);
        }
    }
}
