// SPDX-License-Identifier: Apache-2.0
/* One-pass statistics of float values: extremes, counts, and a histogram keyed by the float's own bits.

   The key of a value is the top of its magnitude's bit pattern: 8 bits of exponent and 8 of mantissa. So a bin is 1/256
   of an octave [2^e, 2^(e+1)), and no range is needed in advance. For each sign the window keeps the 8191 keys (almost
   32 octaves) that end with the octave of the largest finite magnitude; smaller values go to one "tiny" counter per
   sign.

   The order of values does not matter. Let E be the exponent of the largest magnitude of the whole multiset. The window
   always ends at some e <= E, so a value counted as tiny also lies below the final window. Each move of the window
   sends to tiny exactly the values that fall below it. In the end E alone decides whether a value is in its own bin or
   in tiny. Merging moves the lower window to the higher. Counts are integers, so the merged content depends only on the
   multiset of values: the same bytes for any order, number of workers or merge tree.

   Exact zeros (+0 and -0), NaN, +Inf and -Inf have counters of their own and enter nothing else. Denormals are ordinary
   values: their keys (exponent field 0) are 256 bins of equal width below FLT_MIN. */
#pragma once

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

enum {
    QC_KEY_SHIFT = 15,     /* key = magnitude bits >> 15: exponent and 8 bits of mantissa */
    QC_OCTAVE_BINS = 256,  /* bins per octave */
    QC_WINDOW_BINS = 8192, /* counters per sign; counter 0 is "tiny" */
};

/* The statistics that an observer needs. The last two include a histogram (for the clipped fraction) and: */
enum qc_need {
    QC_NEED_EXTREMES,
    QC_NEED_HISTOGRAM,
    QC_NEED_SERIES, /* the extremes of every sample (observers/observer.h) */
    QC_NEED_VALUES  /* the values themselves, passed to a plugin (observers/plugin.h) */
};

/* The scan for a need: QC_NEED_EXTREMES or QC_NEED_HISTOGRAM. */
static inline enum qc_need qc_need_of_scan(enum qc_need need)
{
    return need == QC_NEED_EXTREMES ? QC_NEED_EXTREMES : QC_NEED_HISTOGRAM;
}

#define QC_NO_SAMPLE UINT64_MAX

struct qc_tally {
    uint64_t count; /* finite values, zeros included */
    uint64_t zeros; /* +0 and -0 */
    uint64_t nan, pos_inf, neg_inf;
    uint64_t samples;          /* calls of qc_scan_sample */
    uint64_t first_bad_sample; /* smallest number of a sample with a NaN or infinity, or QC_NO_SAMPLE */
    uint64_t min_sample,
        max_sample; /* smallest number of a sample with min, max; QC_NO_SAMPLE: none, or values outside of samples */
    float min, max; /* of the finite values; -0 reads as 0; both 0 if count is 0 */
};

/* State of one worker for one quantizer: a list of at most 16 KiB while there are few values, then 64 KiB of counters
   (neither for QC_NEED_EXTREMES). Not thread safe. */
struct qc_scan;

bool qc_scan_new(struct qc_scan **out, enum qc_need need, struct qc_status *st);
void qc_scan_free(struct qc_scan *s);  /* NULL-safe */
void qc_scan_reset(struct qc_scan *s); /* as new */

/* Adds n values. qc_scan_sample also counts a sample and records the smallest sample numbers of the extremes and of a
   non-finite value. Fails if memory is out: after 2^32 values in one scan its counters are widened. */
bool qc_scan_values(struct qc_scan *s, const float *x, size_t n, struct qc_status *st);
bool qc_scan_sample(struct qc_scan *s, const float *x, size_t n, uint64_t sample, struct qc_status *st);
/* Returns the most bytes that a scan of so many values takes; 0: their number is unknown. */
size_t qc_scan_bytes(enum qc_need need, size_t values);
/* Returns the largest magnitude of the last sample; +infinity if it had a non-finite value. */
float qc_scan_last_peak(const struct qc_scan *s);

/* Merged totals. Read the fields; change them only through the functions below. */
struct qc_histogram {
    struct qc_tally tally;
    int32_t exponent;  /* biased exponent field of the largest finite magnitude; -1 if all values are zeros */
    uint32_t low_bits; /* OR of the mantissa bits below the key; 0: every value lies on the inner edge of its bin */
    bool binned;       /* false: only extremes, no counters */
    size_t used;       /* number of nonzero counters */
    uint16_t *slots;   /* [used]: indices in [2][QC_WINDOW_BINS], ascending, positive values first */
    uint64_t *counts;  /* [used] */
};

bool qc_histogram_new(struct qc_histogram **out, enum qc_need need, struct qc_status *st);
void qc_histogram_free(struct qc_histogram *h); /* NULL-safe */

/* Returns the most bytes that a histogram of so many values takes; 0: their number is unknown. */
size_t qc_histogram_bytes(enum qc_need need, size_t values);

/* Adds the content of a scan or histogram, which is unchanged. The needs must be the same (assert). Fails if memory is
   out; then the histogram must not be used. */
bool qc_histogram_add_scan(struct qc_histogram *h, const struct qc_scan *s, struct qc_status *st);
bool qc_histogram_add(struct qc_histogram *h, const struct qc_histogram *other, struct qc_status *st);
/* Sets only the counters, which must ascend; zero counts are dropped. Fails if memory is out. */
bool qc_histogram_set(struct qc_histogram *h, size_t used, const uint16_t *slots, const uint64_t *counts,
                      struct qc_status *st);
/* Returns how many of the used counters (the first ones) are of positive values. */
size_t qc_histogram_positive(const struct qc_histogram *h);

/* `count` values in [lo, hi]; lo == hi if all are exactly there. */
struct qc_bin {
    double lo, hi;
    uint64_t count;
};

/* Returns the non-empty bins in ascending order, without the exact zeros; edges are tightened to the observed extremes.
   A tiny counter is a bin that touches 0. *out is owned by the caller (free); *n may be 0. The histogram must be binned
   (assert). Fails if memory is out. */
bool qc_histogram_bins(struct qc_bin **out, size_t *n, const struct qc_histogram *h, struct qc_status *st);

/* Returns the magnitude at the inner edge (nearer to 0) of a key, 0 <= key <= 255 * QC_OCTAVE_BINS; the last one gives
   2^128. */
double qc_key_edge(int32_t key);

/* Returns the key of counter 0 (tiny) of a window; counter i has key qc_window_base + i. */
int32_t qc_window_base(int32_t exponent);

/* ---- Private to observers/: shared by scans and histograms ---- */

enum { QC_COUNTERS = 2 * QC_WINDOW_BINS, QC_NO_EXPONENT = -1 };

#define QC_EMPTY_TALLY                                                                                                 \
    ((struct qc_tally){.first_bad_sample = QC_NO_SAMPLE, .min_sample = QC_NO_SAMPLE, .max_sample = QC_NO_SAMPLE})

/* Returns the number of bins by which a window that ends at `from` moves to end at `to`. */
static inline size_t qc_window_distance(int32_t from, int32_t to)
{
    assert(from <= to);
    size_t d = (size_t)(to - from) * QC_OCTAVE_BINS;
    return from == QC_NO_EXPONENT ? 0 : d < QC_WINDOW_BINS ? d : QC_WINDOW_BINS - 1;
}

/* Adds min and max of `count` finite values to a tally. Adding 0 turns -0 into 0. */
static inline void qc_tally_extremes(struct qc_tally *t, float min, float max, uint64_t count)
{
    if (count == 0) return;
    min += 0.0f;
    max += 0.0f;
    if (t->count == 0 || min < t->min) t->min = min;
    if (t->count == 0 || max > t->max) t->max = max;
    t->count += count;
}

void qc_tally_add(struct qc_tally *t, const struct qc_tally *other);

/* Adds counters [QC_COUNTERS] of a window that ends at `exponent`. Fails if memory is out. */
bool qc_histogram_add_counters(struct qc_histogram *h, int32_t exponent, const uint32_t *counters,
                               struct qc_status *st);
