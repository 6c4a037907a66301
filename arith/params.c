// SPDX-License-Identifier: Apache-2.0
#include "arith/params.h"

#include <float.h>
#include <math.h>

bool qc_scale_usable(float scale, const char *what, struct qc_status *st)
{
    if (scale > 0 && scale <= FLT_MAX) return true;
    return qc_fail(st, QC_BAD_INPUT, "scale of the %s is %g: it must be positive and finite", what, (double)scale);
}

static float usable_scale(double s)
{
    if (!(s > 0)) return 1.0f;
    if (s < (double)QC_SCALE_MIN) return QC_SCALE_MIN;
    if (s > (double)FLT_MAX) return FLT_MAX;
    return (float)s;
}

static int32_t clamp_level(double z, struct qc_levels levels)
{
    if (!(z > levels.lo)) return levels.lo;
    return z < levels.hi ? (int32_t)z : levels.hi;
}

struct qc_affine qc_affine_from_range(double lo, double hi, struct qc_levels levels, enum qc_symmetry symmetry)
{
    lo = lo < 0 ? lo : 0;
    hi = hi > 0 ? hi : 0;
    double steps = (double)levels.hi - (double)levels.lo;
    if (lo == 0 && hi == 0) return (struct qc_affine){.scale = 1.0f, .zero_point = clamp_level(0, levels)};
    switch (symmetry) {
    case QC_SYMMETRIC: {
        double top = -lo > hi ? -lo : hi;
        if (levels.lo < 0) return (struct qc_affine){.scale = usable_scale(top / levels.hi), .zero_point = 0};
        if (lo < 0) {
            int32_t middle = levels.hi / 2 + 1;
            return (struct qc_affine){.scale = usable_scale(top / (levels.hi - middle)), .zero_point = middle};
        }
        return (struct qc_affine){.scale = usable_scale(top / levels.hi), .zero_point = levels.lo};
    }
    case QC_ASYMMETRIC: break;
    }
    float scale = usable_scale((hi - lo) / steps);
    return (struct qc_affine){.scale = scale,
                              .zero_point = clamp_level(nearbyint(levels.lo - lo / (double)scale), levels)};
}

unsigned qc_short_bias_shift(double most)
{
    unsigned s = 0;
    while (s < 15 && most > ldexp(127, (int)s)) s++;
    return s;
}

struct qc_affine qc_affine_power_of_two(double lo, double hi, struct qc_levels levels, enum qc_symmetry symmetry,
                                        bool above)
{
    struct qc_affine p = qc_affine_from_range(lo, hi, levels, symmetry);
    int exponent;
    const float significand = frexpf(p.scale, &exponent); /* in [1/2, 1) */
    const bool exact = !(significand > 0.5f);
    if (exact) return p;
    p.scale = usable_scale(ldexp(0.5, above ? exponent + 1 : exponent));
    if (symmetry == QC_ASYMMETRIC)
        p.zero_point = clamp_level(nearbyint(levels.lo - (lo < 0 ? lo : 0) / (double)p.scale), levels);
    return p;
}

struct qc_affine qc_dynamic_parameters(const float *x, size_t n)
{
    float lo = 0, hi = 0;
    for (size_t i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    const float scale = hi == lo ? 1.0f : (hi - lo) / 255.0f, zero = -lo / scale;
    return (struct qc_affine){.scale = scale,
                              .zero_point = (int32_t)nearbyintf(zero > 255 ? 255
                                                                : zero > 0 ? zero
                                                                           : 0)};
}

void qc_dynamic_round(float *y, const float *x, size_t n)
{
    const struct qc_affine p = qc_dynamic_parameters(x, n);
    for (size_t i = 0; i < n; i++)
        y[i] = p.scale * (float)(qc_quantize_one(x[i], p, (struct qc_levels){.lo = 0, .hi = 255}) - p.zero_point);
}
