// SPDX-License-Identifier: Apache-2.0
/* Observers: how a range is chosen from merged statistics, and the registry of them. docs/observer-formulas.md
   has each formula and its source.

   An observer says what it needs to see (extremes, the histogram, extremes sample by sample, or the values themselves);
   scanning and merging are the same for all (observers/histogram.h): begin = qc_scan_new(observer->need), scan =
   qc_scan_sample, merge = qc_histogram_add_scan, finish = qc_observer_solve. Series (observers/series.h) and the states
   of plugins (observers/plugin.h) are kept beside the histogram.

   Answers at the edges, the same for every observer but `fixed`, which gives its own numbers whatever was seen:
   - no finite value, or nothing but zeros: lo = hi = 0, clipped_fraction 0, no objective (qc_affine_from_range then
   gives scale 1);
   - one value c other than 0: [min(0, c), max(0, c)], so that c is a level (minmax, mse, kl, percentile, ema, avgmax;
   `gaussian` too, whose threshold is never below the mean magnitude, and c is it);
   - one side only (min >= 0 or max <= 0): the other end is 0, all levels of an asymmetric quantizer serve the side that
   is used;
   - ties: of ranges with equal objectives the widest that was tried first stays; wider ones are always tried first;
   - denormals and 1e38: ends are finite; the scale is never below FLT_MIN (arith/params.h);
   - NaN and infinity: counted (nan, inf), and left out of everything. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arith/params.h"
#include "base/status.h"
#include "observers/histogram.h"

struct qc_statistics {
    uint64_t count;    /* finite values, zeros included */
    uint64_t zeros;    /* +0 and -0 */
    uint64_t nan, inf; /* excluded from everything else */
    uint64_t samples;
    double min, max;                      /* of the finite values; 0 when count is 0 */
    const struct qc_histogram *histogram; /* borrowed; its counts are NULL when only extremes were scanned */
    const struct qc_series *series;       /* borrowed; NULL when no observer needed it */
    const struct qc_plugin_state *state;  /* borrowed; the merged state of a plugin's observer, NULL for others */
};

/* The statistics of a histogram, which must outlive them. */
struct qc_statistics qc_statistics_of(const struct qc_histogram *h);

enum { QC_CURVE_POINTS = 64 };

/* What the solver tried, for a reader who asks why. */
struct qc_tried {
    double lo, hi, objective; /* objective +INFINITY: not admitted */
    double refused;           /* what the objective would be of a range that is not admitted; NaN: admitted, unknown */
};

/* The objective over thresholds: of ranges [lo, hi], the threshold is max(-lo, hi). Points run from the widest range
   inwards, on the solver's own grid (every n-th point where it has more than QC_CURVE_POINTS). count 0: the observer
   has no objective. */
struct qc_curve {
    size_t count;
    struct qc_tried points[QC_CURVE_POINTS];
    bool has_runner_up;
    struct qc_tried runner_up; /* the best point whose threshold is at least one step of the grid (2^(1/8)) away from
                                  the chosen one */
    size_t stride, seen;       /* while it is being filled */
};

/* A function that the values go through before anything else reads them, f(x[i]) -> y[i] for i < n. Observers whose
   objective is an error take that of f(dequantized) against f(x). */
struct qc_output_function {
    void (*run)(void *user, double *y, const double *x, size_t n);
    void *user;
};

/* What the range is for. The solver never leaves [known_lo, known_hi] (say [0, 1] for a sigmoid), but 0 is always
 * included. */
struct qc_solve {
    struct qc_levels levels;
    enum qc_symmetry symmetry;
    double known_lo, known_hi; /* -INFINITY, INFINITY when nothing is known */
    struct qc_curve *curve;    /* filled when not NULL; what is computed for it alone are `refused` of its points */
    const struct qc_output_function *behind; /* NULL: none */
};
#define QC_SOLVE_INIT(levels_, symmetry_)                                                                              \
    ((struct qc_solve){                                                                                                \
        .levels = (levels_), .symmetry = (symmetry_), .known_lo = -(double)INFINITY, .known_hi = (double)INFINITY})

/* The range to give to qc_affine_from_range: lo <= 0 <= hi, inside the observed extremes (widened to 0) and the known
 * bounds. */
struct qc_range {
    double lo, hi;
    double objective;        /* the observer's objective at the choice; NaN when it has none (minmax, percentile) */
    double objective_minmax; /* the same at the observed extremes */
    double clipped_fraction; /* of count: values that are clipped (qc_clipped_share; uniform within a bin) */
    uint32_t candidates;     /* ranges that were tried */
    bool behind;             /* the errors were those behind the function of the request */
};

/* A number, or one of the names in choices (values 0, 1, ... in their order). */
struct qc_observer_option {
    const char *name, *help; /* one line */
    double preset, min, max; /* default (NaN: must be given) and limits, both included */
    bool integer;
    size_t choice_count; /* 0: a number; else min is 0 and max choice_count - 1 */
    const char *const *choices;
};

enum { QC_OBSERVER_OPTIONS = 8 }; /* at most, per observer */

/* The default of an option and what it may be, as text: "default 2048; 0 to 65536", "default mse; one of mse, mae",
 * "must be given; ...". */
const char *qc_observer_option_text(char *buf, unsigned size, const struct qc_observer_option *o);

/* Values of the options, in the order of the observer's table. */
struct qc_observer_values {
    double v[QC_OBSERVER_OPTIONS];
};

struct qc_observer {
    const char *name, *summary;
    enum qc_need need;
    const struct qc_observer_option *options; /* option_count of them */
    size_t option_count;
    bool fixed;      /* solve is called whatever was seen, and the answer may leave the limits */
    bool of_output;  /* chosen by the error of the layers' outputs (calib/ranges/output_error.h,
                        calib/ranges/output_quantizers.h); solve: where that is not known */
    bool of_network; /* chosen by the error of the network's outputs (quantize/trials/auto_method.h);
                        of activations only. solve: where there are no data to run */
    const struct qcalib_observer *plugin; /* the foreign part; NULL for our own */
    /* Called through qc_observer_solve, which has dealt with empty statistics: here some value is not zero, and
       `limits` is the widest range allowed, limits.lo <= 0 <= limits.hi, limits.lo < limits.hi. Sets lo, hi, objectives
       and candidates. Errors: memory. */
    bool (*solve)(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                  struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st);
};

struct qc_plugins; /* observers/plugin.h */

/* All observers, in the order of observers.def: 0 <= i < qc_observer_count(). */
size_t qc_observer_count(void);
const struct qc_observer *qc_observer_at(size_t i);

/* NULL when unknown. */
const struct qc_observer *qc_observer_find(const char *name);

/* Parses "NAME" or "NAME:key=value,key=value". Errors (QC_USAGE) name what is known and what may have been meant. */
bool qc_observer_parse(const struct qc_observer **out, struct qc_observer_values *values, const char *spec,
                       struct qc_status *st);
/* The same among our observers and those of plugins (NULL: none). */
bool qc_observer_parse_among(const struct qc_observer **out, struct qc_observer_values *values, const char *spec,
                             const struct qc_plugins *plugins, struct qc_status *st);

/* The range of merged statistics. Errors: memory; QC_USAGE when the statistics lack what the observer needs. */
bool qc_observer_solve(struct qc_range *out, const struct qc_observer *observer,
                       const struct qc_observer_values *values, const struct qc_statistics *s,
                       const struct qc_solve *request, struct qc_status *st);

/* Share of the values that are clipped: more than half a step outside the levels of the range [lo, hi]. NaN if only a
   histogram, which is not there, could tell. Errors: memory. */
bool qc_clipped_share(double *out, const struct qc_statistics *s, double lo, double hi, struct qc_levels levels,
                      enum qc_symmetry symmetry, struct qc_status *st);

/* Scan and solve in one go: n values in memory, say one output channel of a weight. */
bool qc_observer_solve_values(struct qc_range *out, const struct qc_observer *observer,
                              const struct qc_observer_values *values, const float *x, size_t n,
                              const struct qc_solve *request, struct qc_status *st);
