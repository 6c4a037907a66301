// SPDX-License-Identifier: Apache-2.0
#include "observers/channel_histogram.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "observers/scan_kernel.h"

enum {
    BINS = QC_CHANNEL_WINDOW_BINS,
    COUNTERS = 2 * BINS,
    KEY_SHIFT = 19,
    NO_EXPONENT = -1,
    FINE = QC_OCTAVE_BINS / QC_CHANNEL_OCTAVE_BINS, /* fine bins per coarse bin */
    COARSE_KEYS = QC_WINDOW_BINS / FINE,            /* coarse keys of a fine window */
    FIRST_FINE = QC_WINDOW_BINS -
                 BINS * FINE /* the first fine counter of the coarse window; both windows end with the same octave */
};

bool qc_channel_histogram_new(struct qc_channel_histogram **out, int axis, size_t channels, struct qc_status *st)
{
    struct qc_channel_histogram *h = calloc(1, sizeof *h);
    if (!h) return qc_fail_memory(st, sizeof *h);
    *h = (struct qc_channel_histogram){.axis = axis,
                                       .channels = channels,
                                       .tallies = malloc((channels + 1) * sizeof *h->tallies),
                                       .counts = malloc((channels * COUNTERS + 1) * sizeof *h->counts)};
    if (!h->tallies || !h->counts) {
        qc_channel_histogram_free(h);
        return qc_fail_memory(st, qc_channel_histogram_bytes(channels));
    }
    memset(h->counts, 0, channels * COUNTERS * sizeof *h->counts); /* not calloc: all memory is touched here, so that
                                                                      peak memory does not grow with the samples */
    for (size_t c = 0; c < channels; c++) h->tallies[c] = (struct qc_channel_tally){.exponent = NO_EXPONENT};
    *out = h;
    return true;
}

void qc_channel_histogram_free(struct qc_channel_histogram *h)
{
    if (!h) return;
    free(h->tallies);
    free(h->counts);
    free(h);
}

size_t qc_channel_histogram_bytes(size_t channels)
{
    return channels * (sizeof(struct qc_channel_tally) + COUNTERS * sizeof(uint64_t));
}

/* Returns the coarse key of counter 0 of a window. */
static int32_t base_of(int32_t exponent)
{
    return (exponent + 1) * QC_CHANNEL_OCTAVE_BINS - BINS;
}

/* Returns the number of counters by which a window that ends at `from` moves to end at `to`. */
static size_t distance(int32_t from, int32_t to)
{
    const size_t d = (size_t)(to - from) * QC_CHANNEL_OCTAVE_BINS;
    return from == NO_EXPONENT ? 0 : d < BINS ? d : BINS - 1;
}

static void raise_channel_exponent(struct qc_channel_tally *t, uint64_t *counts, int32_t exponent)
{
    if (exponent <= t->exponent) return;
    const size_t d = distance(t->exponent, exponent);
    t->exponent = exponent;
    for (int sign = 0; d && sign < 2; sign++, counts += BINS) {
        for (size_t i = 1; i <= d; i++) counts[0] += counts[i];
        memmove(counts + 1, counts + 1 + d, (BINS - 1 - d) * sizeof *counts);
        memset(counts + BINS - d, 0, d * sizeof *counts);
    }
}

static void take_extremes(struct qc_channel_tally *t, float min, float max, uint64_t count)
{
    if (!count) return;
    min += 0.0f; /* -0 is 0 */
    max += 0.0f;
    if (!t->count || min < t->min) t->min = min;
    if (!t->count || max > t->max) t->max = max;
    t->count += count;
}

/* Adds a block of finite values, whose facts are in f. */
static void take_block(struct qc_channel_tally *t, uint64_t *counts, const struct qc_block *f, const float *x, size_t n)
{
    take_extremes(t, f->min, f->max, n);
    t->zeros += f->zeros;
    if (!f->magnitude) return;
    raise_channel_exponent(t, counts, (int32_t)(f->magnitude >> 23));
    const int32_t base = base_of(t->exponent);
    for (size_t i = 0; i < n; i++) {
        const uint32_t u = qc_float_bits(x[i]), magnitude = u & QC_MAGNITUDE_MASK;
        const int32_t slot = (int32_t)(magnitude >> KEY_SHIFT) - base;
        counts[(slot > 0 ? (uint32_t)slot : 0) | (u >> 31) * BINS] += magnitude != 0;
    }
}

void qc_channel_histogram_take(struct qc_channel_histogram *h, const float *x, size_t n)
{
    const struct qc_scan_kernels *kernels = qc_scan_best();
    for (size_t c = 0; c < h->channels; c++)
        for (size_t at = 0; at < n; at += QC_SCAN_BLOCK) {
            const float *block = x + c * n + at;
            const size_t m = n - at < QC_SCAN_BLOCK ? n - at : QC_SCAN_BLOCK;
            struct qc_block f;
            kernels->facts(&f, block, m);
            if (f.magnitude < QC_INFINITY_BITS) {
                take_block(&h->tallies[c], h->counts + c * COUNTERS, &f, block, m);
                continue;
            }
            for (size_t i = 0; i < m; i++) {
                qc_scan_plain.facts(&f, block + i, 1);
                if (f.magnitude < QC_INFINITY_BITS)
                    take_block(&h->tallies[c], h->counts + c * COUNTERS, &f, block + i, 1);
            }
        }
}

void qc_channel_histogram_add(struct qc_channel_histogram *to, const struct qc_channel_histogram *from)
{
    assert(to->channels == from->channels);
    for (size_t c = 0; c < to->channels; c++) {
        struct qc_channel_tally *t = &to->tallies[c];
        const struct qc_channel_tally *f = &from->tallies[c];
        uint64_t *counts = to->counts + c * COUNTERS;
        const uint64_t *other = from->counts + c * COUNTERS;
        take_extremes(t, f->min, f->max, f->count);
        t->zeros += f->zeros;
        if (f->exponent == NO_EXPONENT) continue;
        raise_channel_exponent(t, counts, f->exponent);
        const size_t d = distance(f->exponent, t->exponent);
        for (size_t i = 0; i < COUNTERS; i++) {
            const size_t slot = i % BINS;
            counts[i - slot + (slot > d ? slot - d : 0)] += other[i];
        }
    }
}

/* Returns the fine key of a magnitude. */
static int32_t fine_key(float magnitude)
{
    return (int32_t)(qc_float_bits(magnitude) >> QC_KEY_SHIFT);
}

/* All counters of a histogram, including zero counts. */
struct counters {
    uint16_t slots[2 * QC_WINDOW_BINS];
    uint64_t counts[2 * QC_WINDOW_BINS];
};

bool qc_channel_histogram_fine(struct qc_histogram *out, const struct qc_channel_histogram *h, size_t c,
                               struct qc_status *st)
{
    const struct qc_channel_tally *t = &h->tallies[c];
    const uint64_t *counts = h->counts + c * COUNTERS;
    const int32_t base = qc_window_base(t->exponent);
    out->tally = (struct qc_tally){.count = t->count,
                                   .zeros = t->zeros,
                                   .samples = 1,
                                   .first_bad_sample = QC_NO_SAMPLE,
                                   .min_sample = QC_NO_SAMPLE,
                                   .max_sample = QC_NO_SAMPLE,
                                   .min = t->min,
                                   .max = t->max};
    out->exponent = t->exponent;
    out->low_bits = t->exponent == NO_EXPONENT ? 0 : 1; /* values may lie off the bin edges */
    struct counters *all = calloc(1, sizeof *all);
    if (!all) return qc_fail_memory(st, sizeof *all);
    for (int sign = 0; sign < 2 && t->exponent != NO_EXPONENT; sign++) {
        const float least = sign ? -t->max : t->min, most = sign ? -t->min : t->max;
        const int32_t top = most > 0 ? fine_key(most) - base : 0, bottom = least > 0 ? fine_key(least) - base : 0;
        for (int32_t i = 0; i < BINS; i++) {
            const uint64_t n = counts[sign * BINS + i];
            int32_t first = FIRST_FINE + i * FINE, last = first + FINE - 1;
            if (!n) continue;
            if (last > top) last = top;
            if (first < bottom) first = bottom;
            if (last < first) first = last = last < 0 ? 0 : last; /* tiny values, below the fine window */
            const uint64_t bins = (uint64_t)(last - first + 1), each = n / bins, rest = n % bins;
            for (uint64_t k = 0; k < bins; k++) /* the remainder is spread evenly */
                all->counts[sign * QC_WINDOW_BINS + first + (int32_t)k] +=
                    each + ((k + 1) * rest / bins - k * rest / bins);
        }
    }
    for (size_t i = 0; i < (size_t)2 * QC_WINDOW_BINS; i++) all->slots[i] = (uint16_t)i;
    const bool ok = qc_histogram_set(out, (size_t)2 * QC_WINDOW_BINS, all->slots, all->counts, st);
    free(all);
    return ok;
}

/* Mass at each coarse key of a tensor's window: all values, and weighted values. */
struct shares {
    double all[2][COARSE_KEYS], weighted[2][COARSE_KEYS];
};

bool qc_channel_histogram_weigh(struct qc_histogram *to, const struct qc_histogram *h,
                                const struct qc_channel_histogram *c, const double *gain, struct qc_status *st)
{
    struct qc_histogram *own = NULL;
    struct shares *s = malloc(sizeof *s);
    uint64_t *weighted = malloc((h->used + 1) * sizeof *weighted);
    if (!s || !weighted || !qc_histogram_new(&own, QC_NEED_HISTOGRAM, st)) {
        free(s);
        free(weighted);
        return qc_fail_memory(st, sizeof *s + h->used * sizeof *weighted);
    }
    double mean = 0;
    for (size_t k = 0; c && k < c->channels; k++) mean += gain[k] / (double)c->channels;
    if (!c) mean = gain[0];
    own->tally = h->tally;
    own->tally.count *= QC_CHANNEL_UNIT;
    own->tally.zeros *= QC_CHANNEL_UNIT;
    own->exponent = h->exponent;
    own->low_bits = h->low_bits;
    *s = (struct shares){0};
    if (c && h->exponent != NO_EXPONENT) {
        for (size_t k = 0; k < c->channels; k++) {
            const uint64_t *counts = c->counts + k * COUNTERS;
            if (c->tallies[k].exponent == NO_EXPONENT) continue;
            const int32_t shift = base_of(c->tallies[k].exponent) - qc_window_base(h->exponent) / FINE;
            for (int32_t i = 0; i < COUNTERS; i++) {
                const int32_t at = i % BINS + shift, key = at < 0 ? 0 : at;
                if (!counts[i] || key >= COARSE_KEYS) continue;
                s->all[i / BINS][key] += (double)counts[i];
                s->weighted[i / BINS][key] += gain[k] * (double)counts[i];
            }
        }
    }
    for (size_t i = 0; i < h->used; i++) {
        const size_t sign = h->slots[i] / QC_WINDOW_BINS, key = h->slots[i] % QC_WINDOW_BINS / FINE;
        const double all = s->all[sign][key], share = all > 0 ? s->weighted[sign][key] / all : mean;
        weighted[i] = (uint64_t)llround((double)h->counts[i] * share * QC_CHANNEL_UNIT);
    }
    const bool ok = qc_histogram_set(own, h->used, h->slots, weighted, st) && qc_histogram_add(to, own, st);
    qc_histogram_free(own);
    free(weighted);
    free(s);
    return ok;
}
