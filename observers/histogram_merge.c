// SPDX-License-Identifier: Apache-2.0
#include "observers/histogram.h"

#include <stdlib.h>
#include <string.h>

int32_t qc_window_base(int32_t exponent)
{
    return (exponent + 1) * QC_OCTAVE_BINS - QC_WINDOW_BINS;
}

static inline double edge_of(int32_t key)
{
    if (key < QC_OCTAVE_BINS) return (double)key * 0x1p-134; /* denormals: key * 2^15 * 2^-149 */
    uint64_t u = (uint64_t)(key + (1023 - 127) * QC_OCTAVE_BINS) << 44;
    double edge;
    memcpy(&edge, &u, sizeof edge);
    return edge;
}

double qc_key_edge(int32_t key)
{
    return edge_of(key);
}

void qc_tally_add(struct qc_tally *t, const struct qc_tally *o)
{
    if (o->count) {
        bool lower = t->count == 0 || o->min < t->min, higher = t->count == 0 || o->max > t->max;
        if (lower || (o->min == t->min && o->min_sample < t->min_sample)) t->min_sample = o->min_sample;
        if (higher || (o->max == t->max && o->max_sample < t->max_sample)) t->max_sample = o->max_sample;
    }
    qc_tally_extremes(t, o->min, o->max, o->count);
    t->zeros += o->zeros;
    t->nan += o->nan;
    t->pos_inf += o->pos_inf;
    t->neg_inf += o->neg_inf;
    t->samples += o->samples;
    if (o->first_bad_sample < t->first_bad_sample) t->first_bad_sample = o->first_bad_sample;
}

bool qc_histogram_new(struct qc_histogram **out, enum qc_need need, struct qc_status *st)
{
    struct qc_histogram *h = calloc(1, sizeof *h);
    if (!h) return qc_fail_memory(st, sizeof *h);
    *h = (struct qc_histogram){.tally = QC_EMPTY_TALLY, .exponent = QC_NO_EXPONENT, .binned = need != QC_NEED_EXTREMES};
    *out = h;
    return true;
}

void qc_histogram_free(struct qc_histogram *h)
{
    if (!h) return;
    free(h->slots);
    free(h->counts);
    free(h);
}

size_t qc_histogram_bytes(enum qc_need need, size_t values)
{
    const size_t most = values && values < QC_COUNTERS ? values : QC_COUNTERS;
    return sizeof(struct qc_histogram) + (need == QC_NEED_EXTREMES ? 0 : most * (sizeof(uint16_t) + sizeof(uint64_t)));
}

static bool reserve(struct qc_histogram *to, size_t count, struct qc_status *st)
{
    to->slots = malloc((count + 1) * sizeof *to->slots);
    to->counts = malloc((count + 1) * sizeof *to->counts);
    if (to->slots && to->counts) return true;
    free(to->slots);
    free(to->counts);
    return qc_fail_memory(st, count * (sizeof *to->slots + sizeof *to->counts));
}

/* Replaces the counters by those of `from`, shrunk to the memory they need. */
static void replace(struct qc_histogram *h, const struct qc_histogram *from)
{
    uint16_t *slots = realloc(from->slots, (from->used + 1) * sizeof *slots);
    uint64_t *counts = realloc(from->counts, (from->used + 1) * sizeof *counts);
    free(h->slots);
    free(h->counts);
    h->slots = slots ? slots : from->slots; /* shrinking that fails is harmless */
    h->counts = counts ? counts : from->counts;
    h->used = from->used;
}

static void append(struct qc_histogram *to, uint16_t slot, uint64_t count)
{
    if (!to->used || to->slots[to->used - 1] != slot) {
        to->slots[to->used] = slot;
        to->counts[to->used++] = 0;
    }
    to->counts[to->used - 1] += count;
}

/* Returns the slot of a counter after its window moved up by d bins. */
static uint16_t moved(uint16_t slot, size_t d)
{
    const unsigned counter = slot % QC_WINDOW_BINS, sign = slot - counter;
    return (uint16_t)(sign + (counter > d ? counter - d : 0));
}

/* Merges sorted counters, which stay sorted when windows move. Values that fall below the window become tiny. */
static bool add_sorted(struct qc_histogram *h, int32_t exponent, size_t used, const uint16_t *slots,
                       const uint64_t *counts, struct qc_status *st)
{
    if (exponent == QC_NO_EXPONENT) return true;
    const int32_t top = exponent > h->exponent ? exponent : h->exponent;
    if (h->binned && (used || top != h->exponent)) {
        const size_t own = qc_window_distance(h->exponent, top), other = qc_window_distance(exponent, top);
        struct qc_histogram sum = {0};
        if (!reserve(&sum, h->used + used, st)) return false;
        for (size_t i = 0, k = 0; i < h->used || k < used;) {
            const uint16_t a = i < h->used ? moved(h->slots[i], own) : QC_COUNTERS,
                           b = k < used ? moved(slots[k], other) : QC_COUNTERS;
            if (a <= b)
                append(&sum, a, h->counts[i++]);
            else
                append(&sum, b, counts[k++]);
        }
        replace(h, &sum);
    }
    h->exponent = top;
    return true;
}

bool qc_histogram_add_counters(struct qc_histogram *h, int32_t exponent, const uint32_t *counters, struct qc_status *st)
{
    struct qc_histogram list = {0};
    size_t used = 0;
    if (exponent == QC_NO_EXPONENT) return true;
    for (size_t i = 0; i < QC_COUNTERS; i++) used += counters[i] != 0;
    if (!reserve(&list, used, st)) return false;
    for (size_t i = 0; i < QC_COUNTERS; i++)
        if (counters[i]) append(&list, (uint16_t)i, counters[i]);
    const bool ok = add_sorted(h, exponent, list.used, list.slots, list.counts, st);
    free(list.slots);
    free(list.counts);
    return ok;
}

bool qc_histogram_add(struct qc_histogram *h, const struct qc_histogram *other, struct qc_status *st)
{
    assert(h->binned == other->binned);
    if (!add_sorted(h, other->exponent, other->used, other->slots, other->counts, st)) return false;
    qc_tally_add(&h->tally, &other->tally);
    h->low_bits |= other->low_bits;
    return true;
}

bool qc_histogram_set(struct qc_histogram *h, size_t used, const uint16_t *slots, const uint64_t *counts,
                      struct qc_status *st)
{
    struct qc_histogram list = {0};
    assert(h->binned);
    if (!reserve(&list, used, st)) return false;
    for (size_t i = 0; i < used; i++)
        if (counts[i]) append(&list, slots[i], counts[i]);
    replace(h, &list);
    return true;
}

size_t qc_histogram_positive(const struct qc_histogram *h)
{
    size_t low = 0, high = h->used;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (h->slots[middle] < QC_WINDOW_BINS)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

bool qc_histogram_bins(struct qc_bin **out, size_t *n, const struct qc_histogram *h, struct qc_status *st)
{
    assert(h->binned);
    struct qc_bin *bins = malloc((h->used + 1) * sizeof *bins);
    if (!bins) return qc_fail_memory(st, h->used * sizeof *bins);
    const int32_t base = qc_window_base(h->exponent);
    const double min = (double)h->tally.min, max = (double)h->tally.max;
    const size_t positive = qc_histogram_positive(h);
    for (size_t k = 0; k < h->used; k++) { /* ascending: from the largest negative magnitude inwards */
        const bool negative = k < h->used - positive;
        const size_t at = negative ? h->used - 1 - k : k - (h->used - positive);
        const int32_t counter = h->slots[at] % QC_WINDOW_BINS;
        double inner = counter ? edge_of(base + counter) : 0, outer = edge_of(base + counter + 1);
        if (counter && h->low_bits == 0) outer = inner;
        bins[k] = (struct qc_bin){.lo = clamp(negative ? -outer : inner, min, max),
                                  .hi = clamp(negative ? -inner : outer, min, max),
                                  .count = h->counts[at]};
    }
    *out = bins;
    *n = h->used;
    return true;
}
