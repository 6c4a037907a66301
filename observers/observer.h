// SPDX-License-Identifier: Apache-2.0
/* Observers choose a range from merged statistics; they are kept in a registry. docs/observer-formulas.md has each
   formula and its source.

   An observer declares what it needs: extremes, the histogram, the extremes of each sample, or the values themselves.
   Scanning and merging are the same for all (observers/histogram.h): begin = qc_scan_new(observer->need), scan =
   qc_scan_sample, merge = qc_histogram_add_scan, finish = qc_observer_solve. Series (observers/observer.h) and the
   states of plugins (observers/plugin.h) are kept beside the histogram.

   Edge cases are the same for every observer except `fixed`, which always returns its own numbers:
   - no finite value, or only zeros: lo = hi = 0, clipped_fraction 0, no objective (qc_affine_from_range then gives
     scale 1);
   - one value c other than 0: [min(0, c), max(0, c)], so that c is a level (the threshold of `gaussian` is never below
     the mean magnitude, which is c);
   - one side only (min >= 0 or max <= 0): the other end is 0, and all levels of an asymmetric quantizer serve the
     side that is used;
   - ties: of ranges with equal objectives the first one tried wins; wider ranges are always tried first;
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
    uint64_t nan, inf; /* excluded from all else */
    uint64_t samples;
    double min, max;                      /* of the finite values; 0 if count is 0 */
    const struct qc_histogram *histogram; /* borrowed; its counts are NULL if only extremes were scanned */
    const struct qc_series *series;       /* borrowed; NULL if no observer needs it */
    const struct qc_plugin_state *state;  /* borrowed; the merged state of a plugin's observer, else NULL */
};

/* Returns the statistics of a histogram, which must outlive them. */
struct qc_statistics qc_statistics_of(const struct qc_histogram *h);

enum { QC_CURVE_POINTS = 64 };

/* A range that the solver tried, for the report. */
struct qc_tried {
    double lo, hi, objective; /* objective +INFINITY: not admitted */
    double refused;           /* the objective of a range that is not admitted; NaN: admitted, or unknown */
};

/* The objective over thresholds; the threshold of a range [lo, hi] is max(-lo, hi). Points run from the widest range
   inwards on the solver's grid (every n-th point if it has more than QC_CURVE_POINTS). count 0: the observer has no
   objective. */
struct qc_curve {
    size_t count;
    struct qc_tried points[QC_CURVE_POINTS];
    bool has_runner_up;
    struct qc_tried runner_up; /* the best point at least one grid step (2^(1/8)) from the chosen threshold */
    size_t stride, seen;       /* used while filling */
};

/* A function through which all values pass before anything else reads them: y[i] = f(x[i]) for i < n. Observers whose
   objective is an error use that of f(dequantized) against f(x). */
struct qc_output_function {
    void (*run)(void *user, double *y, const double *x, size_t n);
    void *user;
};

/* The purpose of the range. It stays within [known_lo, known_hi] (for example [0, 1] for a sigmoid), but always
   includes 0. */
struct qc_solve {
    struct qc_levels levels;
    enum qc_symmetry symmetry;
    double known_lo, known_hi; /* -INFINITY, INFINITY if unknown */
    struct qc_curve *curve;    /* filled if not NULL; only `refused` of its points is computed just for it */
    const struct qc_output_function *behind; /* NULL: none */
};
#define QC_SOLVE_INIT(levels_, symmetry_)                                                                              \
    ((struct qc_solve){                                                                                                \
        .levels = (levels_), .symmetry = (symmetry_), .known_lo = -(double)INFINITY, .known_hi = (double)INFINITY})

/* A range for qc_affine_from_range: lo <= 0 <= hi, within the observed extremes (widened to 0) and the known bounds. */
struct qc_range {
    double lo, hi;
    double objective;        /* the observer's objective of this range; NaN if it has none (minmax, percentile) */
    double objective_minmax; /* the same of the observed extremes */
    double clipped_fraction; /* fraction of count that is clipped (qc_clipped_share; uniform within a bin) */
    uint32_t candidates;     /* number of ranges tried */
    bool behind;             /* errors are those after the function of the request */
};

/* Cuts a range to lo .. hi; it still holds 0. */
static inline void qc_range_cut(struct qc_range *r, double lo, double hi)
{
    if (lo > r->lo) r->lo = lo < 0 ? lo : 0;
    if (hi < r->hi) r->hi = hi > 0 ? hi : 0;
}

/* A number, or one of the names in choices (values 0, 1, ... in order). */
struct qc_observer_option {
    const char *name, *help; /* one line */
    double preset, min, max; /* default (NaN: must be given) and limits, both included */
    bool integer;
    size_t choice_count; /* 0: a number; else min is 0 and max choice_count - 1 */
    const char *const *choices;
};

enum { QC_OBSERVER_OPTIONS = 8 }; /* maximum per observer */

/* Describes the default and the allowed values of an option: "default 2048; 0 to 65536", "default mse; one of mse,
   mae", "must be given; ...". */
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
    bool fixed;      /* solve is always called, and the range may leave the limits */
    bool of_output;  /* chosen by the error of the layers' outputs (calib/ranges/calibrate_parts.h,
                        calib/ranges/calibrate_choose.c); solve: if that is unknown */
    bool of_network; /* chosen by the error of the network's outputs (quantize/search/auto_method.c), for activations
                        only; solve: if there are no data to run */
    const struct qcalib_observer *plugin; /* the plugin's functions; NULL for our own */
    /* Called by qc_observer_solve, which handles empty statistics: here some value is not zero. `limits` is the widest
       allowed range, limits.lo <= 0 <= limits.hi, limits.lo < limits.hi. Sets lo, hi, objectives and candidates. Fails
       if memory is out. */
    bool (*solve)(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                  struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st);
};

#define QC_OBSERVER(symbol) extern const struct qc_observer qc_observer_##symbol;
#include "observers/observers.def"
#undef QC_OBSERVER

struct qc_plugins; /* observers/plugin.h */

/* All observers, in the order of observers.def: 0 <= i < qc_observer_count(). */
size_t qc_observer_count(void);
const struct qc_observer *qc_observer_at(size_t i);

/* Returns NULL if the name is unknown. */
const struct qc_observer *qc_observer_find(const char *name);

/* Parses "NAME" or "NAME:key=value,key=value". Fails with QC_USAGE, naming the known names and the closest one. */
bool qc_observer_parse(const struct qc_observer **out, struct qc_observer_values *values, const char *spec,
                       struct qc_status *st);
/* The same among built-in observers and those of plugins (may be NULL). */
bool qc_observer_parse_among(const struct qc_observer **out, struct qc_observer_values *values, const char *spec,
                             const struct qc_plugins *plugins, struct qc_status *st);

/* Computes the range of merged statistics. Fails if memory is out; with QC_USAGE if the statistics lack what the
   observer needs. */
bool qc_observer_solve(struct qc_range *out, const struct qc_observer *observer,
                       const struct qc_observer_values *values, const struct qc_statistics *s,
                       const struct qc_solve *request, struct qc_status *st);

/* Computes the fraction of values that are clipped: more than half a step outside the levels of [lo, hi]. NaN if that
   needs a histogram and there is none. Fails if memory is out. */
bool qc_clipped_share(double *out, const struct qc_statistics *s, double lo, double hi, struct qc_levels levels,
                      enum qc_symmetry symmetry, struct qc_status *st);

/* Scans and solves n values in memory, for example one output channel of a weight. */
bool qc_observer_solve_values(struct qc_range *out, const struct qc_observer *observer,
                              const struct qc_observer_values *values, const float *x, size_t n,
                              const struct qc_solve *request, struct qc_status *st);

/* The extremes of every sample, by sample number (QC_NEED_SERIES). A sample is one run of the model: with a fixed
   batch, one batch. */

struct qc_extremes {
    uint64_t sample;
    float min, max; /* of the finite values; -0 reads as 0. min > max: there are none, and observers skip the sample */
};

/* Ordered by sample number. A quantizer with several values has their joint extremes in one entry. */
struct qc_series {
    size_t count;
    const struct qc_extremes *items;
};

/* Returns the extremes of n values; NaN and infinities are skipped. */
struct qc_extremes qc_extremes_of(const float *x, size_t n, uint64_t sample);

/* Returns the extremes of both; the sample number is a's. */
struct qc_extremes qc_extremes_join(struct qc_extremes a, struct qc_extremes b);
