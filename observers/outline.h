// SPDX-License-Identifier: Apache-2.0
/* Summary of a histogram for reports: 64 bars, and the error of rounding to given parameters. */
#pragma once

#include "arith/params.h"
#include "observers/histogram.h"

enum { QC_OUTLINE_BARS = 64 };

struct qc_outline {
    double lo, hi;                  /* the observed extremes, widened to 0; the bars have equal widths between them */
    uint64_t zeros;                 /* +0 and -0; in no bar */
    uint64_t bars[QC_OUTLINE_BARS]; /* sum + zeros = count of the histogram */
};

/* Sums over the finite values x of a histogram, with the given qparams. Estimates: values are taken as uniform within a
   bin of 1/256 octave. */
struct qc_loss {
    double signal;   /* x^2 */
    double rounding; /* inside the range: scale^2 / 12 per value, but x^2 if x rounds to zero */
    double clipping; /* beyond the range: (x - limit)^2 */
    double lost;     /* fraction of nonzero values that round to zero: 0 to 1 */
};

/* The histogram must have counts (assert). Both fail if memory is out. */
bool qc_outline_of(struct qc_outline *out, const struct qc_histogram *h, struct qc_status *st);
bool qc_loss_of(struct qc_loss *out, const struct qc_histogram *h, const struct qc_affine *to, struct qc_levels levels,
                struct qc_status *st);

/* 10 log10(signal / (rounding + clipping)) in dB; NaN without signal, infinity without noise. */
double qc_loss_db(const struct qc_loss *l);
