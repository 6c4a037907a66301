// SPDX-License-Identifier: Apache-2.0
/* Values of known distributions with fixed seeds (GSL), for the tests of this folder. */
#pragma once

#include <stddef.h>

#include "observers/observer.h"

/* Name and what GSL draws. */
#define SAMPLES(X)                                                                                                     \
    X(normal, gsl_ran_gaussian(r, 1.0))                                                                                \
    X(shifted, 0.8 + gsl_ran_gaussian(r, 0.5))                                                                         \
    X(laplace, gsl_ran_laplace(r, 0.3))                                                                                \
    X(lognormal, gsl_ran_lognormal(r, 0.0, 1.0))                                                                       \
    X(after_relu, positive(gsl_ran_gaussian(r, 2.0)))                                                                  \
    X(uniform, gsl_ran_flat(r, -3.0, 1.0))                                                                             \
    X(bimodal, gsl_ran_gaussian(r, 0.3) + (gsl_rng_uniform(r) < 0.3 ? 4 : -1))                                         \
    X(long_tail, gsl_ran_tdist(r, 2.5))                                                                                \
    X(negative, -gsl_ran_exponential(r, 5.0))                                                                          \
    X(outlier, gsl_rng_uniform(r) < 1e-4 ? 60.0 : gsl_ran_gaussian(r, 1.0))                                            \
    X(clipped, clip(gsl_ran_gaussian(r, 3.0) + 1, 0, 6))

enum sample_kind {
#define X(name, draw) SAMPLE_##name,
    SAMPLES(X)
#undef X
        SAMPLE_KINDS
};

enum { SAMPLE_SIZE = 20000 };

extern const char *const sample_names[SAMPLE_KINDS];
void samples_fill(float *x, size_t n, enum sample_kind kind);

/* A histogram of n values; aborts the test when memory is out. Freed with qc_histogram_free. */
struct qc_histogram *samples_histogram(const float *x, size_t n);
/* samples_fill and samples_histogram. */
struct qc_histogram *samples_of(float *x, size_t n, enum sample_kind kind);

/* Mean squared error of ONNX's quantize and dequantize of each value, in float as the runtime does it. */
double samples_squared_error(const float *x, size_t n, double lo, double hi, struct qc_levels levels,
                             enum qc_symmetry symmetry);

/* The same, or infinity once the sum shows that the error is above `most`: what a search for the least needs. */
double samples_squared_error_within(double most, const float *x, size_t n, double lo, double hi,
                                    struct qc_levels levels, enum qc_symmetry symmetry);

/* The range that an observer chooses; ends the test on errors. */
struct qc_range samples_solve(const char *spec, const struct qc_statistics *s, struct qc_solve request);
