// SPDX-License-Identifier: Apache-2.0
/* Confidence interval of a proportion. */
#pragma once

#include <stdint.h>

/* Computes the two-sided interval for hits of n, n >= 1: 0 <= low <= hits / n <= high <= 1. confidence in (0, 1), such
   as 0.95. interval_beta.c: the exact one (Clopper and Pearson 1934), whose ends are quantiles of the beta
   distribution: low at (1 - c) / 2 of Beta(hits, n - hits + 1), high at (1 + c) / 2 of Beta(hits + 1, n - hits).
   interval_wilson.c, in a build without GSL: Wilson's (1927), from the normal distribution. */
void qc_interval(double *low, double *high, uint64_t hits, uint64_t n, double confidence);
