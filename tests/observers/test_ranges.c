// SPDX-License-Identifier: Apache-2.0
/* The solvers against brute force: every threshold of a grid, on the values themselves or by the definition. */
#include "observers/moments.h"
#include "observers/observer.h"
#include "samples.h"
#include "tests/check.h"

static const struct qc_levels u8 = {.lo = 0, .hi = 255}, u4 = {.lo = 0, .hi = 15}, i8 = {.lo = -127, .hi = 127},
                              u16 = {.lo = 0, .hi = 65535};

static struct qc_range solve(const char *spec, const struct qc_histogram *h, struct qc_levels levels,
                             enum qc_symmetry symmetry)
{
    const struct qc_statistics s = qc_statistics_of(h);
    return samples_solve(spec, &s, QC_SOLVE_INIT(levels, symmetry));
}

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Is v the value below which `rank` of the sorted values lie, give or take one value and one bin (1/256 of an octave)?
 */
static bool has_rank(const float *sorted, size_t n, double rank, double v)
{
    double below = floor(rank) - 1, above = ceil(rank) + 1;
    double lo = (double)sorted[below > 0 ? (size_t)below : 0],
           hi = (double)sorted[above < (double)n ? (size_t)above : n - 1];
    return v >= lo - fabs(lo) / 256 && v <= hi + fabs(hi) / 256;
}

Test(ranges, percentile_equals_that_of_the_sorted_values)
{
    static float x[SAMPLE_SIZE];
    static const double ps[] = {99, 95, 80};
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, (enum sample_kind)kind);
        qsort(x, SAMPLE_SIZE, sizeof *x, compare_floats);
        for (size_t k = 0; k < sizeof ps / sizeof *ps; k++) {
            char spec[40];
            snprintf(spec, sizeof spec, "percentile:p=%g", ps[k]);
            struct qc_range r = solve(spec, h, u8, QC_ASYMMETRIC);
            bool both = x[0] < 0 && x[SAMPLE_SIZE - 1] > 0;
            double tail = (100 - ps[k]) / (both ? 2 : 1);
            double cut = SAMPLE_SIZE * tail / 100;
            cr_assert(r.lo < 0 ? has_rank(x, SAMPLE_SIZE, cut, r.lo) : x[(size_t)cut] >= 0, "%s p %g: lo %g",
                      sample_names[kind], ps[k], r.lo);
            cr_assert(r.hi > 0 ? has_rank(x, SAMPLE_SIZE, SAMPLE_SIZE - cut, r.hi)
                               : x[SAMPLE_SIZE - 1 - (size_t)cut] <= 0,
                      "%s p %g: hi %g", sample_names[kind], ps[k], r.hi);
        }
        struct qc_range all = solve("percentile:p=100", h, u8, QC_ASYMMETRIC),
                        most = solve("minmax", h, u8, QC_ASYMMETRIC);
        cr_assert(all.lo == most.lo && all.hi == most.hi);
    }
}

/* The least error on the values themselves, over `steps` thresholds an end (their square when both ends are free). */
static double brute_force_error(const float *x, double min, double max, struct qc_levels levels,
                                enum qc_symmetry symmetry, int steps, double best)
{
    if (symmetry == QC_SYMMETRIC || min == 0 || max == 0) {
        double top = fmax(-min, max);
        for (int i = 1; i <= steps * steps / 8; i++) {
            double t = top * i / (steps * steps / 8);
            best = fmin(best, samples_squared_error_within(best, x, SAMPLE_SIZE, fmax(min, -t), fmin(max, t), levels,
                                                           symmetry));
        }
        return best;
    }
    for (int i = 1; i <= steps; i++)
        for (int k = 1; k <= steps; k++)
            best = fmin(best, samples_squared_error_within(best, x, SAMPLE_SIZE, min * i / steps, max * k / steps,
                                                           levels, symmetry));
    return best;
}

static void check_mse(enum sample_kind kind, struct qc_levels levels, enum qc_symmetry symmetry)
{
    static float x[SAMPLE_SIZE];
    OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, kind);
    double min = fmin(0, (double)h->tally.min), max = fmax(0, (double)h->tally.max);
    struct qc_range r = solve("mse", h, levels, symmetry);
    double real = samples_squared_error(x, SAMPLE_SIZE, r.lo, r.hi, levels, symmetry);
    double brute = brute_force_error(x, min, max, levels, symmetry, 32, real);
    double widest = samples_squared_error(x, SAMPLE_SIZE, min, max, levels, symmetry);
    cr_assert_leq(real, 1.02 * brute, "%s: error %g in [%g, %g], brute force finds %g", sample_names[kind], real, r.lo,
                  r.hi, brute);
    cr_assert_float_eq(r.objective, real, 0.03 * real, "%s: objective %g, error %g", sample_names[kind], r.objective,
                       real);
    cr_assert_float_eq(r.objective_minmax, widest, 0.03 * widest, "%s: %g, %g", sample_names[kind], r.objective_minmax,
                       widest);
    cr_assert(r.objective <= r.objective_minmax && r.candidates > 1);
}

Test(ranges, mse_finds_what_brute_force_finds)
{
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) check_mse((enum sample_kind)kind, u8, QC_ASYMMETRIC);
}

Test(ranges, mse_with_four_bits_and_with_symmetric_levels)
{
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        check_mse((enum sample_kind)kind, u4, QC_ASYMMETRIC);
        check_mse((enum sample_kind)kind, i8, QC_SYMMETRIC);
    }
}

/* 8-bit images: scale 1 has no error at all. */
Test(ranges, whole_numbers_keep_scale_one)
{
    float x[256];
    for (size_t i = 0; i < 256; i++) x[i] = (float)i;
    OWN(qc_histogram) *h = samples_histogram(x, 256);
    for (size_t i = 0; i < 2; i++) {
        struct qc_range r = solve(i ? "mse" : "kl", h, u8, QC_ASYMMETRIC);
        cr_assert(r.lo == 0 && r.hi == 255, "[%g, %g]", r.lo, r.hi);
        cr_assert(i == 0 || r.objective == 0);
    }
}

/* Prefix sums over cells (up to QC_MOMENTS_LEVELS) and sums bin by bin (more levels) against the closed form of any
   norm. */
Test(ranges, both_ways_to_the_squared_error_agree)
{
    static float x[SAMPLE_SIZE];
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, (enum sample_kind)kind);
        struct qc_moments *m;
        MUST(qc_moments_new(&m, h, NULL, ST));
        for (int f = 1; f <= 20; f++) {
            const double lo = (double)h->tally.min * f / 20, hi = (double)h->tally.max * f / 20;
            for (int wide = 0; wide < 2; wide++) {
                const struct qc_levels levels = wide ? u16 : u8;
                double a = qc_moments_squared_error(m, lo, hi, levels, QC_ASYMMETRIC),
                       b = qc_moments_power_error(m, lo, hi, levels, QC_ASYMMETRIC, 2, 1, (double)INFINITY);
                cr_assert_float_eq(a, b, 1e-7 * b, "%s at %d/20, %d levels: %.17g, %.17g", sample_names[kind], f,
                                   levels.hi + 1, a, b);
            }
        }
        qc_moments_free(m);
        struct qc_range r = solve("mse", h, u16, QC_ASYMMETRIC);
        double real = samples_squared_error(x, SAMPLE_SIZE, r.lo, r.hi, u16, QC_ASYMMETRIC);
        double widest =
            samples_squared_error(x, SAMPLE_SIZE, (double)h->tally.min, (double)h->tally.max, u16, QC_ASYMMETRIC);
        cr_assert_leq(real, 1.05 * widest);
        struct qc_range whole = solve("kl", h, u16, QC_ASYMMETRIC); /* as many levels as bins: nothing to search */
        cr_assert(whole.hi == fmax(0, (double)h->tally.max));
        cr_assert_eq(whole.candidates, 1, "%u ranges were tried", whole.candidates);
    }
}

/* KL by its definition (observers/kl.c): P on 2048 bins with the triangular kernel written out, Q from the cells, the
   integral of p ln(p / q) piece by piece between all edges of bins and cells. */
enum { BINS = 2048 };

struct density {
    double a, b, step, p[BINS];
};

static double quantile(const struct qc_bin *bins, size_t n, double rank)
{
    size_t i = 0;
    while (i + 1 < n && rank > (double)bins[i].count) rank -= (double)bins[i++].count;
    return bins[i].lo + (bins[i].hi - bins[i].lo) * rank / (double)bins[i].count;
}

static void density_by_definition(struct density *d, const struct qc_histogram *h)
{
    static double raw[BINS];
    QC_FREED struct qc_bin *bins = NULL;
    size_t n;
    MUST(qc_histogram_bins(&bins, &n, h, ST));
    d->a = fmin(0, (double)h->tally.min);
    d->b = fmax(0, (double)h->tally.max);
    d->step = (d->b - d->a) / BINS;
    memset(raw, 0, sizeof raw);
    double count = 0, mean = 0, variance = 0;
    for (size_t i = 0; i < n; i++) {
        double c = (double)bins[i].count, lo = bins[i].lo, hi = bins[i].hi;
        count += c;
        mean += c * (lo + hi) / 2;
        for (int k = 0; k < BINS; k++) {
            double from = fmax(lo, d->a + k * d->step), to = fmin(hi, k + 1 < BINS ? d->a + (k + 1) * d->step : d->b);
            if (hi > lo && to > from)
                raw[k] += c * (to - from) / (hi - lo);
            else if (hi == lo && lo >= from && (lo < d->a + (k + 1) * d->step || k + 1 == BINS) &&
                     lo >= d->a + k * d->step)
                raw[k] += c;
        }
    }
    mean /= count;
    for (size_t i = 0; i < n; i++)
        variance += (double)bins[i].count * pow((bins[i].lo + bins[i].hi) / 2 - mean, 2) / count;
    double spread = (quantile(bins, n, 0.75 * count) - quantile(bins, n, 0.25 * count)) / 1.349, sd = sqrt(variance);
    double bandwidth = 0.9 * (spread > 0 && spread < sd ? spread : sd) * pow(count, -1.0 / 5);
    int w = 0; /* the two boxes of 2w + 1 bins whose standard deviation sqrt(((2w + 1)^2 - 1) / 6) is nearest in w */
    while (sqrt((4.0 * (w + 0.5) * (w + 0.5) + 4 * (w + 0.5)) / 6) * d->step < bandwidth) w++;
    if (w > BINS / 4) w = BINS / 4;
    double total = 0;
    for (int i = 0; i < BINS; i++) {
        double sum = 0;
        for (int u = -w; u <= w; u++) { /* mirrored twice: first the inner box's argument, then the outer one's */
            int j = i + u < 0 ? -1 - (i + u) : i + u >= BINS ? 2 * BINS - 1 - (i + u) : i + u;
            for (int v = -w; v <= w; v++) {
                int k = j + v < 0 ? -1 - (j + v) : j + v >= BINS ? 2 * BINS - 1 - (j + v) : j + v;
                sum += raw[k];
            }
        }
        d->p[i] = sum;
        total += sum;
    }
    for (int i = 0; i < BINS; i++) d->p[i] /= total;
}

/* Visits the pieces between consecutive edges of bins and of the cell [from, to): mass below `to`, or the integral
 * against q. */
static double over_cell(const struct density *d, double from, double to, double q)
{
    double sum = 0;
    int first = (int)((from - d->a) / d->step) - 1;
    for (int i = first > 0 ? first : 0; i < BINS; i++) {
        double lo = fmax(from, d->a + i * d->step), hi = fmin(to, i + 1 < BINS ? d->a + (i + 1) * d->step : d->b);
        if (d->a + i * d->step >= to) break;
        if (hi <= lo || d->p[i] <= 0) continue;
        double p = d->p[i] / d->step;
        sum += q > 0 ? (hi - lo) * p * log(p / q) : (hi - lo) * p;
    }
    return sum;
}

static double divergence_by_definition(const struct density *d, double lo, double hi)
{
    struct qc_affine p = qc_affine_from_range(lo, hi, u8, QC_ASYMMETRIC);
    double sum = 0;
    for (int q = u8.lo; q <= u8.hi; q++) {
        double from = q > u8.lo ? (q - p.zero_point - 0.5) * (double)p.scale : d->a;
        double to = q < u8.hi ? (q - p.zero_point + 0.5) * (double)p.scale : d->b;
        from = fmax(from, d->a);
        to = fmin(to, d->b);
        if (to <= from) continue;
        double mass = over_cell(d, from, to, 0);
        if (mass > 0) sum += over_cell(d, from, to, mass / (to - from));
    }
    return sum;
}

Test(ranges, kl_is_its_definition_and_finds_what_brute_force_finds)
{
    static float x[SAMPLE_SIZE];
    static struct density d;
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, (enum sample_kind)kind);
        struct qc_range r = solve("kl:clip=1", h, u8, QC_ASYMMETRIC);
        density_by_definition(&d, h);
        double direct = divergence_by_definition(&d, r.lo, r.hi), widest = divergence_by_definition(&d, d.a, d.b);
        cr_assert_float_eq(r.objective, direct, 1e-7 * direct + 1e-11, "%s: %.12g, by definition %.12g",
                           sample_names[kind], r.objective, direct);
        cr_assert_float_eq(r.objective_minmax, widest, 1e-7 * widest + 1e-11, "%s: %.12g, by definition %.12g",
                           sample_names[kind], r.objective_minmax, widest);
        /* Never more squared error than the widest range, measured on the values themselves. */
        double limit = samples_squared_error(x, SAMPLE_SIZE, d.a, d.b, u8, QC_ASYMMETRIC);
        cr_assert_leq(samples_squared_error(x, SAMPLE_SIZE, r.lo, r.hi, u8, QC_ASYMMETRIC), 1.03 * limit, "%s",
                      sample_names[kind]);
        double best = widest;
        int steps = 40;
        for (int i = d.a < 0 ? 1 : steps; i <= steps; i++) {
            for (int k = d.b > 0 ? 1 : steps; k <= steps; k++) {
                double lo = d.a * i / steps, hi = d.b * k / steps;
                if (isinf(samples_squared_error_within(0.97 * limit, x, SAMPLE_SIZE, lo, hi, u8, QC_ASYMMETRIC)))
                    continue;
                best = fmin(best, divergence_by_definition(&d, lo, hi));
            }
        }
        cr_assert_leq(r.objective, 1.01 * best + 1e-12, "%s: %g in [%g, %g], brute force finds %g", sample_names[kind],
                      r.objective, r.lo, r.hi, best);
    }
}

/* Share of the observed range that is kept. */
static double kept(const char *spec, enum sample_kind kind)
{
    enum { N = 400000 };
    static float x[N];
    OWN(qc_histogram) *h = samples_of(x, N, kind);
    struct qc_range r = solve(spec, h, u8, QC_ASYMMETRIC), all = solve("minmax", h, u8, QC_ASYMMETRIC);
    return (r.hi - r.lo) / (all.hi - all.lo);
}

Test(ranges, kl_clips_long_tails_and_leaves_uniform_values_alone)
{
    cr_assert_lt(kept("kl:clip=1", SAMPLE_long_tail), 0.7);
    cr_assert_lt(kept("kl:clip=1", SAMPLE_lognormal), 0.7);
    cr_assert_lt(kept("kl:clip=1", SAMPLE_laplace), 0.85);
    cr_assert_lt(kept("kl:clip=1", SAMPLE_negative), 0.9);
    cr_assert_gt(kept("kl:clip=1", SAMPLE_uniform), 0.98);
    cr_assert_gt(kept("kl:clip=1", SAMPLE_clipped), 0.98);
    /* Few large values count more by default. */
    static const enum sample_kind tails[] = {SAMPLE_long_tail, SAMPLE_lognormal, SAMPLE_laplace};
    for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
        const double often = kept("kl", tails[i]);
        cr_assert(often > kept("kl:clip=1", tails[i]) && often <= 1, "%s: %g", sample_names[tails[i]], often);
    }
}

/* Half the values being exact zeros says nothing about the scale of the others. */
Test(ranges, exact_zeros_do_not_move_mse_or_kl)
{
    static float x[2 * SAMPLE_SIZE];
    samples_fill(x, SAMPLE_SIZE, SAMPLE_long_tail);
    memset(x + SAMPLE_SIZE, 0, sizeof x / 2);
    OWN(qc_histogram) *without = samples_histogram(x, SAMPLE_SIZE), *with = samples_histogram(x, 2 * SAMPLE_SIZE);
    for (size_t i = 0; i < 2; i++) {
        struct qc_range a = solve(i ? "mse" : "kl", without, u8, QC_ASYMMETRIC),
                        b = solve(i ? "mse" : "kl", with, u8, QC_ASYMMETRIC);
        cr_assert(a.lo == b.lo && a.hi == b.hi);
    }
}
