// SPDX-License-Identifier: Apache-2.0
/* One-pass statistics of float values: extremes, counts, and a histogram keyed by the float's own bits.

   The key of a value is the top of its magnitude's bit pattern: 8 bits of exponent and 8 of mantissa, so a bin is 1/256
   of an octave [2^e, 2^(e+1)) and no range is needed in advance. Kept are the 8191 keys (almost 32 octaves) that end
   with the octave of the largest finite magnitude seen, for each sign; what is smaller goes to one "tiny" counter per
   sign. Order does not matter: let E be the exponent of the largest magnitude of the whole multiset. At any time the
   window ends at some e <= E, so a value that was counted as tiny lies below the final window too, and each move of the
   window sends to tiny exactly what falls below it. In the end a value is in its own bin or in tiny according to E
   alone. Merging moves the lower window to the higher. Counts are integers, so the merged content is a pure function of
   the multiset of values: same bytes for any order, number of workers or merge tree.

   Exact zeros (+0 and -0) are counted apart, as are NaN, +Inf and -Inf, which enter nothing else. Denormals are values
   like others: their keys (exponent field 0) are 256 bins of equal width below FLT_MIN. */
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

/* What an observer needs to see. The last two are a histogram here (so that the share that is clipped can be told), and
 * something beside: */
enum qc_need {
    QC_NEED_EXTREMES,
    QC_NEED_HISTOGRAM,
    QC_NEED_SERIES, /* the extremes of every sample (observers/series.h) */
    QC_NEED_VALUES  /* the values themselves, given to a plugin (observers/plugin.h) */
};

/* What is scanned for a need: QC_NEED_EXTREMES or QC_NEED_HISTOGRAM. */
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
    uint64_t first_bad_sample; /* smallest sample number that held a NaN or infinity, or QC_NO_SAMPLE */
    uint64_t min_sample,
        max_sample; /* smallest sample number that holds min, max; QC_NO_SAMPLE: none, or values outside of samples */
    float min, max; /* of the finite values; -0 reads as 0; both 0 when count is 0 */
};

/* State of one worker for one quantizer: a list of at most 16 KiB as long as there are few values, then 64 KiB of
   counters (neither for QC_NEED_EXTREMES). Not thread safe. */
struct qc_scan;

bool qc_scan_new(struct qc_scan **out, enum qc_need need, struct qc_status *st);
void qc_scan_free(struct qc_scan *s);  /* NULL-safe */
void qc_scan_reset(struct qc_scan *s); /* as new */

/* Adds n values. qc_scan_sample also counts a sample and remembers the smallest numbers that hold the extremes, and a
   value that is not finite. Errors: memory, when more than 2^32 values have gone into one scan and its counters must be
   widened. */
bool qc_scan_values(struct qc_scan *s, const float *x, size_t n, struct qc_status *st);
bool qc_scan_sample(struct qc_scan *s, const float *x, size_t n, uint64_t sample, struct qc_status *st);
/* Bytes of memory that a scan takes at most when so many values go in; 0: nobody knows how many. */
size_t qc_scan_bytes(enum qc_need need, size_t values);
/* Largest magnitude of the sample that went in last; +infinity when it had a value that is not finite. */
float qc_scan_last_peak(const struct qc_scan *s);

/* Merged totals. Read the fields; change them only through the functions below. */
struct qc_histogram {
    struct qc_tally tally;
    int32_t exponent; /* biased exponent field of the largest finite magnitude; -1 when there is no value but zeros */
    uint32_t
        low_bits; /* OR of the mantissa bits below the key: 0 says that every value lies on the inner edge of its bin */
    bool binned;  /* false: only extremes were needed, and there are no counters */
    size_t used;  /* counters that are not 0 */
    uint16_t *slots;  /* [used]: which of [2][QC_WINDOW_BINS] they are, ascending, those of positive values first */
    uint64_t *counts; /* [used] */
};

bool qc_histogram_new(struct qc_histogram **out, enum qc_need need, struct qc_status *st);
void qc_histogram_free(struct qc_histogram *h); /* NULL-safe */

/* Bytes of memory that one takes at most when so many values were seen; 0: nobody knows how many. */
size_t qc_histogram_bytes(enum qc_need need, size_t values);

/* Adds what a scan or another histogram holds; the argument stays as it is. The needs must be the same (assert).
   Errors: memory; the histogram is not to be used then. */
bool qc_histogram_add_scan(struct qc_histogram *h, const struct qc_scan *s, struct qc_status *st);
bool qc_histogram_add(struct qc_histogram *h, const struct qc_histogram *other, struct qc_status *st);
/* Sets the counters alone, which must ascend; those that are 0 are left out. Errors: memory. */
bool qc_histogram_set(struct qc_histogram *h, size_t used, const uint16_t *slots, const uint64_t *counts,
                      struct qc_status *st);
/* How many of the used counters, the first ones, are of positive values. */
size_t qc_histogram_positive(const struct qc_histogram *h);

/* `count` values in [lo, hi]. lo == hi when the values are known to be exactly there. */
struct qc_bin {
    double lo, hi;
    uint64_t count;
};

/* The non-empty bins in ascending order, without the exact zeros; edges are tightened to the observed extremes. A tiny
   counter is a bin that touches 0. *out is owned by the caller (free); *n may be 0. Errors: memory. The histogram must
   be binned (assert). */
bool qc_histogram_bins(struct qc_bin **out, size_t *n, const struct qc_histogram *h, struct qc_status *st);

/* Magnitude at the inner (nearer to 0) edge of a key, 0 <= key <= 255 * QC_OCTAVE_BINS; the last one gives 2^128. */
double qc_key_edge(int32_t key);

/* Key that counter 0 (tiny) of a window stands for; counter i holds key qc_window_base + i. */
int32_t qc_window_base(int32_t exponent);

/* ---- Private to observers/: what scans and histograms share ---- */

enum { QC_COUNTERS = 2 * QC_WINDOW_BINS, QC_NO_EXPONENT = -1 };

#define QC_EMPTY_TALLY                                                                                                 \
    ((struct qc_tally){.first_bad_sample = QC_NO_SAMPLE, .min_sample = QC_NO_SAMPLE, .max_sample = QC_NO_SAMPLE})

/* Bins by which a window that ends at `from` moves up to end at `to`. */
static inline size_t qc_window_distance(int32_t from, int32_t to)
{
    assert(from <= to);
    size_t d = (size_t)(to - from) * QC_OCTAVE_BINS;
    return from == QC_NO_EXPONENT ? 0 : d < QC_WINDOW_BINS ? d : QC_WINDOW_BINS - 1;
}

/* Takes min and max of `count` finite values into a tally. The + 0 turns -0 into 0. */
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

/* Adds counters [QC_COUNTERS] of a window that ends at `exponent`. Errors: memory. */
bool qc_histogram_add_counters(struct qc_histogram *h, int32_t exponent, const uint32_t *counters,
                               struct qc_status *st);
