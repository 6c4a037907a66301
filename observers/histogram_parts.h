// SPDX-License-Identifier: Apache-2.0
/* Inside observers/: what scans and histograms share. */
#ifndef QC_OBSERVERS_HISTOGRAM_PARTS_H
#define QC_OBSERVERS_HISTOGRAM_PARTS_H

#include <assert.h>

#include "observers/histogram.h"

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

#endif
