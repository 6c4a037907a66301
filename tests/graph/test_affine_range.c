// SPDX-License-Identifier: Apache-2.0
/* Levels, scale and zero point from a range, one number to its level and back. Expected values by hand from the
   formulas of ONNX's DynamicQuantizeLinear-11 and QuantizeLinear-13. */
#include <float.h>

#include "graph/types/dtype.h"
#include "tests/check.h"

Test(numerics, levels)
{
    static const struct {
        enum qc_dtype dtype;
        bool restricted;
        int32_t lo, hi;
    } cases[] = {{QC_U8, false, 0, 255},        {QC_U8, true, 0, 255},         {QC_I8, false, -128, 127},
                 {QC_I8, true, -127, 127},      {QC_I4, false, -8, 7},         {QC_I4, true, -7, 7},
                 {QC_U4, true, 0, 15},          {QC_I16, true, -32767, 32767}, {QC_U16, false, 0, 65535},
                 {QC_I16, false, -32768, 32767}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_levels l = qc_levels_of(cases[i].dtype, cases[i].restricted);
        cr_expect(l.lo == cases[i].lo && l.hi == cases[i].hi, "case %zu: [%d, %d]", i, l.lo, l.hi);
    }
}

Test(numerics, scale_and_zero_point_of_a_range)
{
    static const struct {
        double lo, hi;
        int32_t bottom, top;
        enum qc_symmetry symmetry;
        float scale;
        int32_t zero_point;
    } cases[] = {
        {-1, 1.55, 0, 255, QC_ASYMMETRIC, 0.01f, 100},
        {1, 2.55, 0, 255, QC_ASYMMETRIC, 0.01f, 0}, /* widened to 0 */
        {-2.55, -1, 0, 255, QC_ASYMMETRIC, 0.01f, 255},
        {-1.006, 1.544, 0, 255, QC_ASYMMETRIC, 0.01f, 101}, /* rounded, not cut: 100.6 */
        {-1, 1.54, -127, 127, QC_ASYMMETRIC, 0.01f, -27},
        {0, 0, 0, 255, QC_ASYMMETRIC, 1, 0},
        {0, 0, -128, 127, QC_SYMMETRIC, 1, 0},
        {-2.54, 1, -127, 127, QC_SYMMETRIC, 0.02f, 0}, /* the larger side decides */
        {-1, 2.54, -127, 127, QC_SYMMETRIC, 0.02f, 0},
        {-1.27, 0.5, 0, 255, QC_SYMMETRIC, 0.01f, 128}, /* middle level */
        {0, 2.55, 0, 255, QC_SYMMETRIC, 0.01f, 0},
        {0.5, 2.55, 0, 255, QC_SYMMETRIC, 0.01f, 0},
        {0, 1e-44, 0, 255, QC_ASYMMETRIC, QC_SCALE_MIN, 0},
        {-1e-44, 0, 0, 255, QC_ASYMMETRIC, QC_SCALE_MIN, 0}, /* 1e-44 is far less than a step */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct qc_levels levels = {.lo = cases[i].bottom, .hi = cases[i].top};
        struct qc_affine p = qc_affine_from_range(cases[i].lo, cases[i].hi, levels, cases[i].symmetry);
        cr_expect_float_eq(p.scale, cases[i].scale, cases[i].scale * 1e-6f, "case %zu: scale %g", i, (double)p.scale);
        cr_expect_eq(p.zero_point, cases[i].zero_point, "case %zu: zero point %d", i, p.zero_point);
    }
}

/* A float32 scale that was rounded down would put the zero point of [-x, 0] above the top level. */
Test(numerics, zero_points_stay_in_their_levels)
{
    for (enum qc_dtype t = QC_U8; t <= QC_I16; t++) {
        const struct qc_levels levels = qc_levels_of(t, false);
        for (int i = 1; i < 20000; i++) {
            struct qc_affine p = qc_affine_from_range(-i * 0.0137 * (i % 7 + 1), 0, levels, QC_ASYMMETRIC);
            cr_assert(p.zero_point <= levels.hi && p.zero_point >= levels.lo, "%d of range -%d", p.zero_point, i);
        }
    }
    struct qc_affine huge = qc_affine_from_range(-1.7e308, 0, qc_levels_of(QC_U8, false),
                                                 QC_ASYMMETRIC); /* the scale saturates, its quotient does not */
    cr_expect(huge.scale == FLT_MAX && huge.zero_point == 255);
}

Test(numerics, one_number)
{
    static const struct {
        float x, scale;
        int32_t zero_point, lo, hi, q;
    } cases[] = {
        {0.5f, 1, 10, 0, 255, 10},          {1.5f, 1, 10, 0, 255, 12},
        {2.5f, 1, 10, 0, 255, 12},          {-0.5f, 1, 10, 0, 255, 10},
        {-1.5f, 1, 10, 0, 255, 8},          {-2.5f, 1, 10, 0, 255, 8},
        {300, 1, 10, 0, 255, 255},          {-300, 1, 10, 0, 255, 0},
        {250, 1, 10, 0, 255, 255},          {-11, 1, 10, 0, 255, 0},
        {1, 0.25f, -3, -128, 127, 1},       {INFINITY, 1, 3, -128, 127, 127},
        {-INFINITY, 1, 3, -128, 127, -128}, {NAN, 1, 3, -128, 127, -128},
        {-200, 1, 0, -127, 127, -127},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct qc_affine p = {.scale = cases[i].scale, .zero_point = cases[i].zero_point};
        int32_t q = qc_quantize_one(cases[i].x, p, (struct qc_levels){.lo = cases[i].lo, .hi = cases[i].hi});
        cr_expect_eq(q, cases[i].q, "%g / %g + %d: %d", (double)cases[i].x, (double)cases[i].scale, cases[i].zero_point,
                     q);
    }
    cr_expect_eq(qc_dequantize_one(7, (struct qc_affine){.scale = 0.5f, .zero_point = 10}), -1.5f);
}
