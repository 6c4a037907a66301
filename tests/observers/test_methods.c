// SPDX-License-Identifier: Apache-2.0
/* Methods against their formulas, which are computed independently here; series, curves, and edge cases of the plain
   functions. */
#include "observers/elementary.h"
#include "observers/moments.h"
#include "observers/observer.h"
#include "samples.h"
#include "tests/check.h"

static const struct qc_levels u8 = {.lo = 0, .hi = 255}, u4 = {.lo = 0, .hi = 15}, i8 = {.lo = -127, .hi = 127};

Test(elementary, functions_agree_with_libm)
{
    for (double x = 1e-30; x < 1e30; x *= 1.37) {
        cr_assert_float_eq(qc_logarithm(x), log(x), 1e-15 * fmax(1, fabs(log(x))), "ln %g", x);
        for (double p = 1; p <= 9; p += 0.7)
            cr_assert_float_eq(qc_power(x, p), pow(x, p), 1e-12 * pow(x, p), "%g^%g: %.17g", x, p, qc_power(x, p));
    }
    for (double x = -690; x < 690; x += 0.83)
        cr_assert_float_eq(qc_exponential(x), exp(x), 1e-13 * exp(x), "exp %g", x);
    cr_assert_eq(qc_power(0, 2.4), 0);
    cr_assert_eq(qc_power(1e-300, 8), 0);
}

Test(series, extremes_pass_over_what_is_not_finite)
{
    float x[5000];
    for (int i = 0; i < 5000; i++) x[i] = (float)(i % 100) - 20;
    struct qc_extremes e = qc_extremes_of(x, 5000, 7);
    cr_assert(e.min == -20 && e.max == 79 && e.sample == 7);
    x[4999] = INFINITY;
    x[4998] = NAN;
    x[4997] = -300;
    e = qc_extremes_of(x, 5000, 7);
    cr_assert(e.min == -300 && e.max == 79);
    e = qc_extremes_of(x + 4998, 2, 7);
    cr_assert(e.min > e.max);
    e = qc_extremes_join(e, qc_extremes_of(x, 1, 0));
    cr_assert(e.min == -20 && e.max == -20 && e.sample == 7);
}

/* Ten samples, one without a finite value, one far out. */
static const struct qc_extremes items[] = {{0, -1, 2},     {1, -2, 3},    {2, INFINITY, -INFINITY}, {3, -1, 2.5f},
                                           {4, -0.5f, 40}, {5, -1, 2},    {6, -1.25f, 2.5f},        {7, -3, 1},
                                           {8, -1, 2},     {9, -1, 2.25f}};
enum { ITEMS = sizeof items / sizeof *items };

Test(methods, averages_over_samples_are_their_formulas)
{
    struct qc_series series = {.count = ITEMS, .items = items};
    struct qc_statistics s = {.count = 1000, .samples = ITEMS, .min = -3, .max = 40, .series = &series};
    double lo = 0, hi = 0, mean_lo = 0, mean_hi = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        if (i == 2) continue;
        lo = i ? 0.75 * lo + 0.25 * (double)items[i].min : (double)items[i].min;
        hi = i ? 0.75 * hi + 0.25 * (double)items[i].max : (double)items[i].max;
        mean_lo += (double)items[i].min / (ITEMS - 1);
        mean_hi += (double)items[i].max / (ITEMS - 1);
    }
    struct qc_solve request = QC_SOLVE_INIT(u8, QC_ASYMMETRIC);
    struct qc_range r = samples_solve("ema:momentum=0.75", &s, request);
    cr_assert(fabs(r.lo - lo) < 1e-12 && fabs(r.hi - hi) < 1e-12, "[%g, %g], expected [%g, %g]", r.lo, r.hi, lo, hi);
    r = samples_solve("ema:momentum=0", &s, request);
    cr_assert(r.lo == -1 && r.hi == 2.25);
    r = samples_solve("ema:momentum=1", &s, request);
    cr_assert(r.lo == -1 && r.hi == 2);
    r = samples_solve("avgmax", &s, request);
    cr_assert(fabs(r.lo - mean_lo) < 1e-12 && fabs(r.hi - mean_hi) < 1e-12, "[%g, %g]", r.lo, r.hi);
    request.known_hi = 1;
    r = samples_solve("avgmax", &s, request);
    cr_assert(r.hi == 1);
    const struct qc_observer *o;
    struct qc_observer_values v;
    s.series = NULL;
    MUST(qc_observer_parse(&o, &v, "avgmax", ST));
    FAILS(qc_observer_solve(&r, o, &v, &s, &request, ST), "needs the extremes of every sample");
}

Test(methods, fixed_is_what_was_asked_for_whatever_was_seen)
{
    struct qc_statistics s = {.count = 0};
    struct qc_solve request = QC_SOLVE_INIT(u8, QC_ASYMMETRIC);
    request.known_hi = 1;
    struct qc_range r = samples_solve("fixed:min=-2,max=6", &s, request);
    cr_assert(r.lo == -2 && r.hi == 6);
    const struct qc_observer *o;
    struct qc_observer_values v;
    MUST(qc_observer_parse(&o, &v, "fixed:min=0,max=0", ST));
    cr_assert(!qc_observer_solve(&r, o, &v, &s, &request, ST) && failure.code == QC_USAGE);
    MUST(strstr(failure.message, "both 0"));
}

/* |error|^norm of ONNX's quantize and dequantize, value by value; what is clipped by more than half a step counts
   `clip` times. Infinity if the mean is above `most`. */
static double norm_error(const float *x, double lo, double hi, struct qc_levels levels, double norm, double clip,
                         double most)
{
    struct qc_affine p = qc_affine_from_range(lo, hi, levels, QC_ASYMMETRIC);
    double sum = 0;
    for (size_t i = 0; i < SAMPLE_SIZE; i++) {
        const double e = fabs((double)qc_dequantize_one(qc_quantize_one(x[i], p, levels), p) - (double)x[i]);
        sum += (norm == 1 ? e : pow(e, norm)) * (e > 0.5 * (double)p.scale ? clip : 1);
        if (sum > most * SAMPLE_SIZE) return (double)INFINITY;
    }
    return sum / SAMPLE_SIZE;
}

Test(methods, norms_of_the_error_find_what_brute_force_finds)
{
    static float x[SAMPLE_SIZE];
    static const struct {
        const char *spec;
        double norm, clip;
    } cases[] = {{"mse:norm=1", 1, 1}, {"mse:norm=2.4", 2.4, 1}, {"mse:norm=4", 4, 1}, {"mse:clip=4", 2, 4}};
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, (enum sample_kind)kind);
        struct qc_statistics s = qc_statistics_of(h);
        double min = fmin(0, s.min), max = fmax(0, s.max);
        for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
            if (((size_t)kind + c) % test_one_of(1, 4)) continue;
            struct qc_range r = samples_solve(cases[c].spec, &s, QC_SOLVE_INIT(u4, QC_ASYMMETRIC));
            double real = norm_error(x, r.lo, r.hi, u4, cases[c].norm, cases[c].clip, (double)INFINITY), best = real;
            for (int i = min < 0 ? 1 : 16; i <= 16; i++)
                for (int k = max > 0 ? 1 : 16; k <= 16; k++)
                    best =
                        fmin(best, norm_error(x, min * i / 16, max * k / 16, u4, cases[c].norm, cases[c].clip, best));
            cr_assert_leq(real, 1.03 * best, "%s, %s: %g in [%g, %g], brute force %g", sample_names[kind],
                          cases[c].spec, real, r.lo, r.hi, best);
            cr_assert_float_eq(r.objective, real, 0.03 * real, "%s, %s: objective %g, real %g", sample_names[kind],
                               cases[c].spec, r.objective, real);
        }
    }
}

/* Norm 2 by the general way is norm 2 by prefix sums. */
Test(methods, power_error_of_two_is_the_squared_error)
{
    static float x[SAMPLE_SIZE];
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, (enum sample_kind)kind);
        OWN(qc_moments) *m = NULL;
        double lo = 0.7 * (double)h->tally.min, hi = 0.6 * (double)h->tally.max;
        MUST(qc_moments_new(&m, h, NULL, ST));
        double a = qc_moments_squared_error(m, lo, hi, u8, QC_ASYMMETRIC),
               b = 9 * qc_moments_power_error(m, lo, hi, u8, QC_ASYMMETRIC, 2, 3, (double)INFINITY);
        cr_assert_float_eq(a, b, 1e-7 * a, "%s: %.12g, %.12g", sample_names[kind], a, b);
    }
}

/* Other norms too stop where a bound is passed, and nowhere else. */
Test(methods, a_power_error_above_a_bound_is_infinite)
{
    static float x[SAMPLE_SIZE];
    static const double norms[] = {1, 2.4, 3}, share[] = {0.05, 0.3, 0.7, 1};
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, (enum sample_kind)kind);
        OWN(qc_moments) *m = NULL;
        MUST(qc_moments_new(&m, h, NULL, ST));
        for (size_t n = 0; n < sizeof norms / sizeof *norms; n++)
            for (size_t k = 0; k < sizeof share / sizeof *share; k++) {
                const double lo = share[k] * (double)h->tally.min, hi = share[k] * (double)h->tally.max, p = norms[n],
                             sum = qc_moments_power_error(m, lo, hi, u8, QC_ASYMMETRIC, p, 3, (double)INFINITY);
                cr_assert(isfinite(sum));
                cr_expect_eq(qc_moments_power_error(m, lo, hi, u8, QC_ASYMMETRIC, p, 3, sum * (1 + 1e-12)), sum, "%s",
                             sample_names[kind]);
                cr_expect(sum <= 0 ||
                              isinf(qc_moments_power_error(m, lo, hi, u8, QC_ASYMMETRIC, p, 3, sum * (1 - 1e-9))),
                          "%s, norm %g, %g of the range", sample_names[kind], p, share[k]);
            }
    }
}

static void run_leaky(void *user, double *y, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = x[i] < 0 ? x[i] / 8 : x[i];
}

/* Whether an error is above a bound is known without the whole sum, and is what the sum says, at the sum itself too. */
Test(methods, above_a_bound_is_what_the_error_says)
{
    static float x[SAMPLE_SIZE];
    static const struct qc_levels types[] = {{.lo = 0, .hi = 255},
                                             {.lo = -128, .hi = 127},
                                             {.lo = -127, .hi = 127},
                                             {.lo = 0, .hi = 15},
                                             {.lo = 0, .hi = 65535}};
    static const struct qc_output_function leaky = {.run = run_leaky};
    size_t above = 0, tried = 0;
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, (enum sample_kind)kind);
        OWN(qc_moments) *m = NULL;
        MUST(qc_moments_new(&m, h, kind % 2 ? &leaky : NULL, ST));
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            for (int k = 1; k <= 16; k++) {
                const double lo = fmin(0, (double)h->tally.min) * k / 16,
                             hi = fmax(0, (double)h->tally.max) * (17 - k) / 16;
                const enum qc_symmetry symmetry = types[t].lo < 0 ? QC_SYMMETRIC : QC_ASYMMETRIC;
                const double e = qc_moments_squared_error(m, lo, hi, types[t], symmetry);
                const double bounds[] = {0,    0.01 * e, 0.9 * e, nextafter(e, 0), e, nextafter(e, (double)INFINITY),
                                         2 * e};
                for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++, tried++) {
                    cr_expect_eq(qc_moments_above(m, bounds[b], lo, hi, types[t], symmetry, 1), e > bounds[b],
                                 "%s, type %zu, range %d, bound %zu", sample_names[kind], t, k, b);
                    above += e > bounds[b];
                }
            }
    }
    cr_expect(above > tried / 8 && above < tried, "%zu of %zu", above, tried);
}

/* ACIQ's published thresholds: Laplace 2.83 b, 3.89 b, 5.03 b, 9.89 b at 2, 3, 4, 8 bits for 2^M steps; Gaussian 2.55
   sigma at 4 bits, 3.92 at 8. Ours have 2^M - 1 steps, which moves them by less than 3 % at 4 bits. */
Test(methods, gaussian_gives_the_thresholds_of_its_law)
{
    enum { N = 400000 };
    static float x[N];
    static const struct {
        enum sample_kind kind;
        const char *spec;
        double b;
        struct qc_levels levels;
        double expected, slack;
    } cases[] = {
        {SAMPLE_normal, "gaussian:law=gaussian", 1, {.lo = 0, .hi = 15}, 2.55, 0.03},
        {SAMPLE_normal, "gaussian", 1, {.lo = 0, .hi = 15}, 2.55, 0.03},
        {SAMPLE_normal, "gaussian", 1, {.lo = 0, .hi = 255}, 3.92, 0.02},
        {SAMPLE_laplace, "gaussian:law=laplace", 0.3, {.lo = 0, .hi = 15}, 5.03, 0.03},
        {SAMPLE_laplace, "gaussian", 0.3, {.lo = 0, .hi = 15}, 5.03, 0.03},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        OWN(qc_histogram) *h = samples_of(x, N, cases[c].kind);
        struct qc_statistics s = qc_statistics_of(h);
        struct qc_range r = samples_solve(cases[c].spec, &s, QC_SOLVE_INIT(cases[c].levels, QC_SYMMETRIC));
        cr_assert_float_eq(r.hi / cases[c].b, cases[c].expected, cases[c].slack * cases[c].expected, "%s on %s: %g",
                           cases[c].spec, sample_names[cases[c].kind], r.hi / cases[c].b);
        cr_assert(r.objective <= r.objective_minmax);
    }
}

/* The formula's error is that of the values, where the law holds. */
Test(methods, gaussian_predicts_the_error_on_gaussian_values)
{
    static float x[SAMPLE_SIZE];
    OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, SAMPLE_normal);
    struct qc_statistics s = qc_statistics_of(h);
    struct qc_range r = samples_solve("gaussian", &s, QC_SOLVE_INIT(u4, QC_ASYMMETRIC));
    double real = samples_squared_error(x, SAMPLE_SIZE, r.lo, r.hi, u4, QC_ASYMMETRIC);
    cr_assert_float_eq(r.objective, real, 0.1 * real, "%g, %g", r.objective, real);
}

Test(methods, onnxruntime_s_entropy_is_min_max)
{
    static float x[SAMPLE_SIZE];
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, (enum sample_kind)kind);
        struct qc_statistics s = qc_statistics_of(h);
        struct qc_solve request = QC_SOLVE_INIT(u8, QC_ASYMMETRIC);
        struct qc_range a = samples_solve("kl:variant=onnxruntime", &s, request),
                        b = samples_solve("minmax", &s, request);
        cr_assert(a.lo == b.lo && a.hi == b.hi && a.candidates == 1, "%s", sample_names[kind]);
    }
}

static double threshold(double lo, double hi)
{
    return fmax(-lo, hi);
}

Test(curve, holds_the_widest_and_a_runner_up_and_stays_bounded)
{
    static const char *const specs[] = {
        "mse",     "mse:norm=2.4", "kl", "kl:variant=symmetric", "kl:variant=tensorrt", "kl:variant=mxnet,bins=1001",
        "gaussian"};
    static float x[SAMPLE_SIZE];
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        samples_fill(x, SAMPLE_SIZE, (enum sample_kind)kind);
        if (kind == SAMPLE_normal) x[0] = 1e6f; /* a grid far longer than the curve */
        OWN(qc_histogram) *h = samples_histogram(x, SAMPLE_SIZE);
        struct qc_statistics s = qc_statistics_of(h);
        for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
            struct qc_curve c = {.count = 99};
            struct qc_solve request = QC_SOLVE_INIT(i % 2 ? i8 : u8, i % 2 ? QC_SYMMETRIC : QC_ASYMMETRIC);
            struct qc_range without = samples_solve(specs[i], &s, request);
            request.curve = &c;
            struct qc_range r = samples_solve(specs[i], &s, request);
            cr_assert(r.lo == without.lo && r.hi == without.hi && r.objective == without.objective,
                      "a curve changes nothing");
            cr_assert(c.count >= 1 && c.count <= QC_CURVE_POINTS, "%s on %s: %zu points", specs[i], sample_names[kind],
                      c.count);
            cr_assert(c.points[0].objective == r.objective_minmax || i == 6, "%s on %s", specs[i], sample_names[kind]);
            double best = (double)INFINITY, t = threshold(r.lo, r.hi);
            for (size_t k = 0; k < c.count; k++) {
                double at = threshold(c.points[k].lo, c.points[k].hi);
                cr_assert(k == 0 || at <= threshold(c.points[k - 1].lo, c.points[k - 1].hi));
                cr_assert(c.points[k].objective >= r.objective * (1 - 1e-12) || i == 6,
                          "%s on %s: %g below the choice's %g", specs[i], sample_names[kind], c.points[k].objective,
                          r.objective);
                if (at >= t * 1.09051 || at <= t / 1.09051) best = fmin(best, c.points[k].objective);
            }
            cr_assert(c.has_runner_up ? c.runner_up.objective <= best && threshold(c.runner_up.lo, c.runner_up.hi) != t
                                      : isinf(best));
        }
        struct qc_curve none = {.count = 99, .has_runner_up = true};
        struct qc_solve request = QC_SOLVE_INIT(u8, QC_ASYMMETRIC);
        request.curve = &none;
        samples_solve("percentile", &s, request);
        cr_assert(none.count == 0 && !none.has_runner_up);
    }
}
