// SPDX-License-Identifier: Apache-2.0
/* The search for the range of least objective, shared by observers. Private to observers/.

   Ends are tried on a geometric grid of 8 steps per octave, from the limits inwards to the median magnitude of their
   side: first both ends in proportion; then, from that result and from the limits, one end at a time until neither
   moves. The better result is refined by moving either end or both by a step that halves from 1/16 octave to 1/2048. A
   range that is only as good as a wider one is not taken. If the ends are coupled (symmetric) or only one is not 0,
   there is one threshold T and the range is [max(lo, -T), min(hi, T)]. */
#pragma once

#include "observers/observer.h"

#define QC_GRID_STEP 0.917004043204671232 /* 2^(-1/8) */

struct qc_search {
    struct qc_range limits;
    const struct qc_solve *request;
    /* Smallest thresholds tried, > 0. */
    double floor_lo, floor_hi;
    /* Smaller is better. +INFINITY for a range that is not admitted (never at the limits); also allowed for a value
       above `enough` if that is known sooner. */
    double (*objective)(const void *user, double lo, double hi, double enough);
    /* The objective of a range that is not admitted, for the report; NULL: unknown. */
    double (*refused)(const void *user, double lo, double hi);
    const void *user;
};

/* Sets lo, hi, objective, objective_minmax (at the limits) and candidates of *out. */
void qc_search_run(struct qc_range *out, const struct qc_search *search);

/* Curves (NULL-safe). begin announces the number of ranges, added widest first; end finds the runner-up of the chosen
   range. */
void qc_curve_begin(struct qc_curve *c, size_t count);
void qc_curve_add(struct qc_curve *c, const struct qc_tried *tried);
void qc_curve_end(struct qc_curve *c, const struct qc_range *chosen);

/* Sets the floors to the median magnitude of each side: no sensible threshold clips half of a side. */
void qc_search_floors(struct qc_search *search, const struct qc_bin *bins, size_t n);

/* Lowers the floors to 1/64 of the limits: after a function that is flat there, most of a side may be irrelevant. */
void qc_search_deeper(struct qc_search *search);

/* Returns the value below which `rank` of the counts of ascending bins lie, uniform within a bin. 0 <= rank <= total, n
   > 0. */
double qc_bins_value(const struct qc_bin *bins, size_t n, double rank);
