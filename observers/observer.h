// SPDX-License-Identifier: Apache-2.0
/* Observers: how a range is chosen from merged statistics, and the registry of them.

   An observer says what it needs to see (extremes or the histogram); scanning and merging are the same for all (observers/histogram.h):
   begin = qc_scan_new(observer->need), scan = qc_scan_sample, merge = qc_histogram_add_scan, finish = qc_observer_solve. */
#ifndef QC_OBSERVERS_OBSERVER_H
#define QC_OBSERVERS_OBSERVER_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "graph/numerics.h"
#include "observers/histogram.h"

struct qc_statistics {
    uint64_t count;    /* finite values, zeros included */
    uint64_t zeros;    /* +0 and -0 */
    uint64_t nan, inf; /* excluded from everything else */
    uint64_t samples;
    double min, max;                      /* of the finite values; 0 when count is 0 */
    const struct qc_histogram *histogram; /* borrowed; its counts are NULL when only extremes were scanned */
};

/* The statistics of a histogram, which must outlive them. */
struct qc_statistics qc_statistics_of(const struct qc_histogram *h);

/* What the range is for. The solver never leaves [known_lo, known_hi] (say [0, 1] for a sigmoid), but 0 is always included. */
struct qc_solve {
    struct qc_levels levels;
    enum qc_symmetry symmetry;
    double known_lo, known_hi; /* -INFINITY, INFINITY when nothing is known */
};
#define QC_SOLVE_INIT(levels_, symmetry_)                                                                              \
    ((struct qc_solve){                                                                                                \
        .levels = (levels_), .symmetry = (symmetry_), .known_lo = -(double)INFINITY, .known_hi = (double)INFINITY})

/* The range to give to qc_affine_from_range: lo <= 0 <= hi, inside the observed extremes (widened to 0) and the known bounds.
   No finite value, or all zero: lo = hi = 0. */
struct qc_range {
    double lo, hi;
    double objective;        /* the observer's objective at the choice; NaN when it has none (minmax, percentile) */
    double objective_minmax; /* the same at the observed extremes */
    double clipped_fraction; /* of count: values beyond lo or hi (within a bin taken as uniform) */
    uint32_t candidates;     /* ranges that were tried */
};

struct qc_observer_option {
    const char *name, *help; /* one line */
    double preset, min, max; /* default and limits, both included */
    bool integer;
};

enum { QC_OBSERVER_OPTIONS = 4 }; /* at most, per observer */

/* Values of the options, in the order of the observer's table. */
struct qc_observer_values {
    double v[QC_OBSERVER_OPTIONS];
};

struct qc_observer {
    const char *name, *summary;
    enum qc_need need;
    const struct qc_observer_option *options; /* option_count of them */
    size_t option_count;
    /* Called through qc_observer_solve, which has dealt with empty statistics: here some value is not zero, and `limits` is
       the widest range allowed, limits.lo <= 0 <= limits.hi, limits.lo < limits.hi. Sets lo, hi, objectives and candidates. Errors: memory. */
    bool (*solve)(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                  struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st);
};

/* All observers, in the order of observers.def: 0 <= i < qc_observer_count(). */
size_t qc_observer_count(void);
const struct qc_observer *qc_observer_at(size_t i);

/* NULL when unknown. */
const struct qc_observer *qc_observer_find(const char *name);

/* Parses "NAME" or "NAME:key=value,key=value". Errors (QC_USAGE) name what is known and what may have been meant. */
bool qc_observer_parse(const struct qc_observer **out, struct qc_observer_values *values, const char *spec,
                       struct qc_status *st);

/* The range of merged statistics. Errors: memory; QC_USAGE when the statistics lack the histogram that the observer needs. */
bool qc_observer_solve(struct qc_range *out, const struct qc_observer *observer,
                       const struct qc_observer_values *values, const struct qc_statistics *s,
                       const struct qc_solve *request, struct qc_status *st);

/* Scan and solve in one go: n values in memory, say one output channel of a weight. */
bool qc_observer_solve_values(struct qc_range *out, const struct qc_observer *observer,
                              const struct qc_observer_values *values, const float *x, size_t n,
                              const struct qc_solve *request, struct qc_status *st);

#endif
