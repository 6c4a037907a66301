// SPDX-License-Identifier: Apache-2.0
/* Ranges that look through functions, against ONNX's quantize and dequantize and the function, value by value. */
#include "observers/moments.h"
#include "observers/observer.h"
#include "samples.h"
#include "tests/check.h"

/* Of what samples_fill gives, the first few: every range tried is a pass over them. */
enum { COUNT = 3000 };

static const struct qc_levels u4 = {.lo = 0, .hi = 15}, u8 = {.lo = 0, .hi = 255}, u16 = {.lo = 0, .hi = 65535};

struct formula {
    const char *name;
    double (*f)(double x);
    struct qc_output_function behind;
};

static void run(void *user, double *y, const double *x, size_t n)
{
    const struct formula *f = user;
    for (size_t i = 0; i < n; i++) y[i] = f->f(x[i]);
}

static double leaky(double x)
{
    return x < 0 ? 0.1 * x : x;
}
static double hard_swish(double x)
{
    return x * fmax(0, fmin(1, x / 6 + 0.5));
}
static double silu(double x)
{
    return x / (1 + exp(-x));
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double gelu(double x)
{
    return 0.5 * x * (1 + erf(x / sqrt(2)));
}
static double identity(double x)
{
    return x;
}
static double shifted(double x)
{
    return x + 1000;
}
static double reciprocal(double x)
{
    return 1 / x;
}
static double constant(double x)
{
    return 0 * x + 3;
}

static struct formula formulas[] = {{"LeakyRelu", leaky, {0}}, {"HardSwish", hard_swish, {0}},
                                    {"SiLU", silu, {0}},       {"Sigmoid", sigmoid, {0}},
                                    {"Tanh", tanh, {0}},       {"Gelu", gelu, {0}}};
enum { FORMULAS = sizeof formulas / sizeof *formulas };

static const struct qc_output_function *behind(struct formula *f)
{
    f->behind = (struct qc_output_function){.run = run, .user = f};
    return &f->behind;
}

static struct qc_range solve(const char *spec, const struct qc_statistics *s, struct qc_levels levels,
                             const struct qc_output_function *f)
{
    struct qc_solve request = QC_SOLVE_INIT(levels, QC_ASYMMETRIC);
    request.behind = f;
    return samples_solve(spec, s, request);
}

/* Infinity if it is above `most`. */
static double error_within(double most, const float *x, double lo, double hi, struct qc_levels levels,
                           double (*f)(double), double norm)
{
    struct qc_affine p = qc_affine_from_range(lo, hi, levels, QC_ASYMMETRIC);
    double sum = 0;
    for (size_t i = 0; i < COUNT; i++) {
        double d = fabs(f((double)qc_dequantize_one(qc_quantize_one(x[i], p, levels), p)) - f((double)x[i]));
        sum += norm == 2 ? d * d : pow(d, norm);
        if (sum > most * COUNT) return (double)INFINITY;
    }
    return sum / COUNT;
}

static double error(const float *x, double lo, double hi, struct qc_levels levels, double (*f)(double), double norm)
{
    return error_within((double)INFINITY, x, lo, hi, levels, f, norm);
}

/* No range of a grid is better by more than 3 %, and the objective is the error, which is never above that of the plain
 * choice. */
Test(behind, the_choice_is_what_brute_force_finds)
{
    static float x[COUNT];
    static const struct {
        const char *spec;
        double norm;
    } cases[] = {{"mse", 2}, {"mse:norm=1", 1}, {"mse:norm=2.4", 2.4}};
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, COUNT, (enum sample_kind)kind);
        struct qc_statistics s = qc_statistics_of(h);
        const double min = fmin(0, s.min), max = fmax(0, s.max);
        for (size_t k = 0; k < FORMULAS * 3; k++) {
            struct formula *f = &formulas[k / 3];
            const double norm = cases[k % 3].norm;
            if (norm != 2 && k / 3 > 1) continue; /* LeakyRelu and HardSwish will do */
            if (((size_t)kind + k) % test_one_of(1, 4)) continue;
            struct qc_range r = solve(cases[k % 3].spec, &s, u4, behind(f)),
                            plain = solve(cases[k % 3].spec, &s, u4, NULL);
            double real = error(x, r.lo, r.hi, u4, f->f, norm),
                   best = fmin(real, error(x, plain.lo, plain.hi, u4, f->f, norm));
            for (int i = min < 0 ? 1 : 12; i <= 12; i++)
                for (int j = max > 0 ? 1 : 12; j <= 12; j++)
                    best = fmin(best, error_within(best, x, min * i / 12, max * j / 12, u4, f->f, norm));
            cr_assert(r.behind && !plain.behind);
            cr_assert_leq(real, 1.03 * best, "%s, %s, %s: %g in [%g, %g], brute force %g", sample_names[kind], f->name,
                          cases[k % 3].spec, real, r.lo, r.hi, best);
            cr_assert_float_eq(r.objective, real, 0.03 * real, "%s, %s, %s: objective %g, real %g", sample_names[kind],
                               f->name, cases[k % 3].spec, r.objective, real);
        }
    }
}

Test(behind, eight_bits_behind_a_leaky_relu_gain)
{
    static float x[COUNT];
    OWN(qc_histogram) *h = samples_of(x, COUNT, SAMPLE_normal);
    struct qc_statistics s = qc_statistics_of(h);
    struct qc_range r = solve("mse", &s, u8, behind(&formulas[0])), plain = solve("mse", &s, u8, NULL);
    cr_assert_lt(error(x, r.lo, r.hi, u8, leaky, 2), 0.9 * error(x, plain.lo, plain.hi, u8, leaky, 2));
    cr_assert_gt(r.lo, plain.lo);
}

/* The general way, in pieces, and the prefix sums are the same for norm 2; the identity changes nothing, nor does a
 * summand. */
Test(behind, both_ways_agree_and_the_identity_is_nothing)
{
    static float x[COUNT];
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, COUNT, (enum sample_kind)kind);
        struct formula same = {"identity", identity, {0}}, far = {"x + 1000", shifted, {0}};
        struct qc_moments *plain, *m;
        double lo = 0.7 * (double)h->tally.min, hi = 0.6 * (double)h->tally.max;
        MUST(qc_moments_new(&plain, h, NULL, ST));
        double expected = qc_moments_squared_error(plain, lo, hi, u8, QC_ASYMMETRIC);
        for (int k = 0; k < FORMULAS + 2; k++) {
            struct formula *f = k < FORMULAS ? &formulas[k] : k == FORMULAS ? &same : &far;
            cr_assert(qc_moments_new(&m, h, behind(f), ST) && qc_moments_behind(m));
            double a = qc_moments_squared_error(m, lo, hi, u8, QC_ASYMMETRIC),
                   b = 9 * qc_moments_power_error(m, lo, hi, u8, QC_ASYMMETRIC, 2, 3, (double)INFINITY);
            cr_assert_float_eq(a, b, 1e-6 * a, "%s, %s: %.12g, %.12g", sample_names[kind], f->name, a, b);
            if (k >= FORMULAS)
                cr_assert_float_eq(a, expected, 1e-6 * a, "%s, %s: %.12g, %.12g", sample_names[kind], f->name, a,
                                   expected);
            qc_moments_free(m);
        }
        qc_moments_free(plain);
    }
}

/* What cannot be looked through leaves the plain choice: not finite, flat, or levels in plenty. */
Test(behind, what_says_nothing_is_left_aside)
{
    static float x[COUNT];
    OWN(qc_histogram) *h = samples_of(x, COUNT, SAMPLE_normal);
    struct qc_statistics s = qc_statistics_of(h);
    struct formula bad[] = {{"1 / x", reciprocal, {0}}, {"3", constant, {0}}};
    static const char *const methods[] = {"mse", "kl", "minmax", "percentile"};
    for (size_t k = 0; k < 2; k++)
        for (size_t m = 0; m < 4; m++) {
            struct qc_range r = solve(methods[m], &s, u8, behind(&bad[k])), plain = solve(methods[m], &s, u8, NULL);
            cr_assert(!r.behind && r.lo == plain.lo && r.hi == plain.hi, "%s behind %s", methods[m], bad[k].name);
        }
    struct qc_range r = solve("mse", &s, u16, behind(&formulas[0])), plain = solve("mse", &s, u16, NULL);
    cr_assert(!r.behind && r.lo == plain.lo && r.hi == plain.hi);
}

/* kl: the divergence does not see a monotone function, so its choice is that of the squared error behind it. */
Test(behind, kl_takes_the_squared_error)
{
    static float x[COUNT];
    bool narrower = false;
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, COUNT, (enum sample_kind)kind);
        struct qc_statistics s = qc_statistics_of(h);
        for (size_t k = 0; k < FORMULAS; k++) {
            double (*f)(double) = formulas[k].f;
            struct qc_range r = solve("kl", &s, u4, behind(&formulas[k])), plain = solve("kl", &s, u4, NULL);
            cr_assert(r.behind);
            cr_assert_leq(error(x, r.lo, r.hi, u4, f, 2), 1.01 * error(x, s.min, s.max, u4, f, 2), "%s, %s",
                          sample_names[kind], formulas[k].name);
            const struct qc_range mse = solve("mse", &s, u4, behind(&formulas[k]));
            cr_assert(r.lo == mse.lo && r.hi == mse.hi, "%s, %s", sample_names[kind], formulas[k].name);
            narrower = narrower || r.lo != plain.lo || r.hi != plain.hi;
        }
    }
    cr_assert(narrower);
}
