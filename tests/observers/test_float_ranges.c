// SPDX-License-Identifier: Apache-2.0
/* Ranges of floating-point levels: every observer's error is that of rounding each value to these levels. */
#include "arith/float_level.h"
#include "graph/types/dtype.h"
#include "graph/types/number_format.h"
#include "observers/moments.h"
#include "observers/outline.h"
#include "tests/check.h"
#include "tests/observers/samples.h"

static const enum qc_dtype types[] = {QC_F8E4M3, QC_F8E5M2, QC_F4E2M1, QC_F8E4M3Z};
enum { TYPES = sizeof types / sizeof *types };

static struct qc_range solve(const char *spec, const struct qc_histogram *h, struct qc_levels levels)
{
    const struct qc_statistics s = qc_statistics_of(h);
    return samples_solve(spec, &s, QC_SOLVE_INIT(levels, QC_SYMMETRIC));
}

/* Mean |error|^norm of quantizing each value, or infinity if it is above `most`. */
static double direct(const float *x, size_t n, double top, struct qc_levels levels, double norm, double most)
{
    const double scale = (double)qc_affine_from_range(-top, top, levels, QC_SYMMETRIC).scale;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs(scale * qc_nearest_level((double)x[i] / scale, levels, 0) - (double)x[i]);
        sum += norm > 2 ? pow(d, norm) : d * d;
        if (sum > most * (double)n) return (double)INFINITY;
    }
    return sum / (double)n;
}

static double top_of(const struct qc_range *r)
{
    return fmax(-r->lo, r->hi);
}

/* Bit patterns of nonnegative numbers are their order. */
Test(float_ranges, levels_are_numbered_as_bit_patterns)
{
    for (size_t t = 0; t < TYPES; t++) {
        const struct qc_levels l = qc_levels_of(types[t], false);
        int64_t first, last;
        qc_level_numbers(&first, &last, l, 0);
        cr_assert(first == -last && qc_level_count(l) == 2 * last + 1);
        for (int64_t k = 0; k <= last; k++) {
            const double want = (double)qc_small_to_float(types[t], (uint8_t)k), at = qc_level_at(k, l),
                         above = qc_level_at(k + 1, l);
            cr_assert(at == want && qc_level_at(-k, l) == -want, "%s %d: %g", qc_dtype_info(types[t])->name, (int)k,
                      at);
            cr_assert(qc_float_level_number(at, l.mantissa, l.least) == k);
            cr_assert(qc_float_level_number(-at, l.mantissa, l.least) == -k);
            cr_assert(qc_level_step(at, l) == above - at && qc_level_edge(k, l) == (at + above) / 2);
        }
        cr_assert(qc_level_at(last, l) == l.hi);
    }
}

/* Mean squared errors of x = 0.37, 1.37, ... 99.37 by ml_dtypes 0.6: ((x / s).astype(float8) * s - x)^2 with s = 100 /
   448 and 100 / 57344 in float32, after numpy's clip. */
Test(float_ranges, error_is_that_of_ml_dtypes)
{
    static const double want[] = {2.1718944, 8.6866367};
    static float x[100];
    for (size_t i = 0; i < 100; i++) x[i] = (float)i + 0.37f;
    OWN(qc_histogram) *h = samples_histogram(x, 100);
    OWN(qc_moments) *m = NULL;
    MUST(qc_moments_new(&m, h, NULL, ST));
    for (size_t t = 0; t < 2; t++) {
        const struct qc_levels l = qc_levels_of(types[t], false);
        const double found = qc_moments_squared_error(m, -100, 100, l, QC_SYMMETRIC) / 100;
        cr_expect_float_eq(direct(x, 100, 100, l, 2, (double)INFINITY), want[t], 1e-6 * want[t]);
        cr_expect_float_eq(found, want[t], 0.05 * want[t], "%g, not %g", found, want[t]);
    }
}

Test(float_ranges, mse_finds_what_brute_force_finds)
{
    static float x[SAMPLE_SIZE];
    static const struct {
        const char *spec;
        double norm;
    } cases[] = {{"mse", 2}, {"mse:norm=2.4", 2.4}};
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, (enum sample_kind)kind);
        const double top = fmax(-(double)h->tally.min, (double)h->tally.max);
        for (size_t t = 0; t < TYPES; t++)
            for (size_t c = 0; c < (t ? 1 : sizeof cases / sizeof *cases); c++) {
                const struct qc_levels l = qc_levels_of(types[t], false);
                const struct qc_range r = solve(cases[c].spec, h, l);
                const double real = direct(x, SAMPLE_SIZE, top_of(&r), l, cases[c].norm, (double)INFINITY),
                             widest = direct(x, SAMPLE_SIZE, top, l, cases[c].norm, (double)INFINITY);
                double best = fmin(real, widest);
                for (int i = 1; i < 48; i++)
                    best = fmin(best, direct(x, SAMPLE_SIZE, top * exp2(-i / 12.), l, cases[c].norm, best));
                cr_expect_leq(real, 1.02 * best, "%s, %s, %s: %g at %g of %g, brute force %g", sample_names[kind],
                              qc_dtype_info(types[t])->name, cases[c].spec, real, top_of(&r), top, best);
                cr_expect_float_eq(r.objective, real, 0.03 * real, "%s, %s, %s: objective %g, real %g",
                                   sample_names[kind], qc_dtype_info(types[t])->name, cases[c].spec, r.objective, real);
                cr_expect_float_eq(r.objective_minmax, widest, 0.03 * widest);
            }
    }
}

/* Both sums of squared errors, the bound, and the loss of the report agree. */
Test(float_ranges, all_errors_agree)
{
    static float x[SAMPLE_SIZE];
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, (enum sample_kind)kind);
        OWN(qc_moments) *m = NULL;
        MUST(qc_moments_new(&m, h, NULL, ST));
        for (size_t t = 0; t < TYPES; t++) {
            const struct qc_levels l = qc_levels_of(types[t], false);
            const double top = 0.4 * fmax(-(double)h->tally.min, (double)h->tally.max);
            const struct qc_affine p = qc_affine_from_range(-top, top, l, QC_SYMMETRIC);
            const double a = qc_moments_squared_error(m, -top, top, l, QC_SYMMETRIC),
                         b = qc_moments_power_error(m, -top, top, l, QC_SYMMETRIC, 2, 1, (double)INFINITY);
            struct qc_loss loss;
            cr_expect_float_eq(a, b, 1e-6 * b, "%s, %s: %.12g, %.12g", sample_names[kind],
                               qc_dtype_info(types[t])->name, a, b);
            cr_expect(qc_moments_above(m, 0.999 * a, -top, top, l, QC_SYMMETRIC, 1));
            cr_expect(!qc_moments_above(m, 1.001 * a, -top, top, l, QC_SYMMETRIC, 1));
            cr_expect(qc_moments_clip_error(m, -top, top, l, QC_SYMMETRIC, 4) >= a);
            MUST(qc_loss_of(&loss, h, &p, l, ST));
            if (types[t] != QC_F4E2M1)
                cr_expect_float_eq(loss.rounding + loss.clipping, a, 0.15 * a, "%s, %s: %g, %g", sample_names[kind],
                                   qc_dtype_info(types[t])->name, loss.rounding + loss.clipping, a);
        }
    }
}

/* The relative error hardly depends on the scale, so clipping has no gain, whatever the law of the values. */
Test(float_ranges, others_do_not_clip_long_tails)
{
    static float x[SAMPLE_SIZE];
    static const char *const specs[] = {"gaussian", "mse"};
    const struct qc_levels l = qc_levels_of(QC_F8E4M3, false);
    OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, SAMPLE_outlier);
    const double top = fmax(-(double)h->tally.min, (double)h->tally.max);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        const struct qc_range r = solve(specs[i], h, l);
        cr_expect(top_of(&r) > 0.9 * top, "%s: %g of %g", specs[i], top_of(&r), top);
    }
}
