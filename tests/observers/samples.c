// SPDX-License-Identifier: Apache-2.0
#include "samples.h"
#include "tests/check.h"

#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>

const char *const sample_names[SAMPLE_KINDS] = {
#define X(name, draw) [SAMPLE_##name] = #name,
    SAMPLES(X)
#undef X
};

static double positive(double x)
{
    return x > 0 ? x : 0;
}

static double clip(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static double draw_one(gsl_rng *r, enum sample_kind kind)
{
    switch (kind) {
#define X(name, draw)                                                                                                  \
    case SAMPLE_##name: return draw;
        SAMPLES(X)
#undef X
    case SAMPLE_KINDS: break;
    }
    return 0;
}

void samples_fill(float *x, size_t n, enum sample_kind kind)
{
    gsl_rng *r = gsl_rng_alloc(gsl_rng_mt19937);
    gsl_rng_set(r, 20240 + (unsigned long)kind);
    for (size_t i = 0; i < n; i++) x[i] = (float)draw_one(r, kind);
    gsl_rng_free(r);
}

struct qc_histogram *samples_histogram(const float *x, size_t n)
{
    OWN(qc_scan) *scan = NULL;
    struct qc_histogram *h;
    MUST(qc_scan_new(&scan, QC_NEED_HISTOGRAM, ST));
    MUST(qc_histogram_new(&h, QC_NEED_HISTOGRAM, ST));
    MUST(qc_scan_sample(scan, x, n, 0, ST));
    MUST(qc_histogram_add_scan(h, scan, ST));
    return h;
}

struct qc_histogram *samples_of(float *x, size_t n, enum sample_kind kind)
{
    samples_fill(x, n, kind);
    return samples_histogram(x, n);
}

double samples_squared_error_within(double most, const float *x, size_t n, double lo, double hi,
                                    struct qc_levels levels, enum qc_symmetry symmetry)
{
    struct qc_affine p = qc_affine_from_range(lo, hi, levels, symmetry);
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        double d = (double)qc_dequantize_one(qc_quantize_one(x[i], p, levels), p) - (double)x[i];
        sum += d * d;
        if (sum > most * (double)n) return (double)INFINITY;
    }
    return sum / (double)n;
}

double samples_squared_error(const float *x, size_t n, double lo, double hi, struct qc_levels levels,
                             enum qc_symmetry symmetry)
{
    return samples_squared_error_within((double)INFINITY, x, n, lo, hi, levels, symmetry);
}

struct qc_range samples_solve(const char *spec, const struct qc_statistics *s, struct qc_solve request)
{
    const struct qc_observer *o;
    struct qc_observer_values v;
    struct qc_range r;
    cr_assert(qc_observer_parse(&o, &v, spec, ST) && qc_observer_solve(&r, o, &v, s, &request, ST), "%s: %s", spec,
              failure.message);
    return r;
}
