// SPDX-License-Identifier: Apache-2.0
#include "observers/histogram.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "observers/scan_kernel.h"

enum { COUNTERS = 2 * QC_WINDOW_BINS, NO_EXPONENT = -1 };

struct qc_scan {
    const struct qc_scan_kernels *kernels;
    qc_scan_both_fn *both;  /* or NULL */
    struct qc_block before; /* facts of the block scanned last that was all finite */
    float last_peak;        /* of the sample scanned last */
    struct qc_tally tally;
    int32_t exponent;
    uint32_t low_bits;
    uint32_t *counts;             /* [2][QC_WINDOW_BINS] or NULL */
    uint64_t pending;             /* values in counts: never more than UINT32_MAX, so no counter can overflow */
    struct qc_histogram *widened; /* where counts were emptied to; NULL until needed */
};

static const struct qc_tally empty_tally = {.first_bad_sample = QC_NO_SAMPLE,
                                            .min_sample = QC_NO_SAMPLE,
                                            .max_sample = QC_NO_SAMPLE};

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

bool qc_scan_new(struct qc_scan **out, enum qc_need need, struct qc_status *st)
{
    struct qc_scan *s = calloc(1, sizeof *s);
    if (!s) return qc_fail_memory(st, sizeof *s);
    *s = (struct qc_scan){.kernels = qc_scan_best(),
                          .both = qc_scan_both(),
                          .tally = empty_tally,
                          .exponent = NO_EXPONENT};
    if (need != QC_NEED_EXTREMES) {
        s->counts = aligned_alloc(64, COUNTERS * sizeof *s->counts);
        if (!s->counts) {
            free(s);
            return qc_fail_memory(st, COUNTERS * sizeof *s->counts);
        }
        memset(s->counts, 0, COUNTERS * sizeof *s->counts);
    }
    *out = s;
    return true;
}

void qc_scan_free(struct qc_scan *s)
{
    if (!s) return;
    qc_histogram_free(s->widened);
    free(s->counts);
    free(s);
}

void qc_scan_reset(struct qc_scan *s)
{
    qc_histogram_free(s->widened);
    s->widened = NULL;
    s->tally = empty_tally;
    s->exponent = NO_EXPONENT;
    s->low_bits = 0;
    s->before = (struct qc_block){0};
    s->pending = 0;
    if (s->counts) memset(s->counts, 0, COUNTERS * sizeof *s->counts);
}

/* Bins by which a window that ends at `from` moves up to end at `to`. */
static size_t distance(int32_t from, int32_t to)
{
    assert(from <= to);
    size_t d = (size_t)(to - from) * QC_OCTAVE_BINS;
    return from == NO_EXPONENT ? 0 : d < QC_WINDOW_BINS ? d : QC_WINDOW_BINS - 1;
}

static void move_narrow(uint32_t *counts, size_t d)
{
    if (d == 0) return;
    for (int sign = 0; sign < 2; sign++, counts += QC_WINDOW_BINS) {
        for (size_t i = 1; i <= d; i++) counts[0] += counts[i];
        memmove(counts + 1, counts + 1 + d, (QC_WINDOW_BINS - 1 - d) * sizeof *counts);
        memset(counts + QC_WINDOW_BINS - d, 0, d * sizeof *counts);
    }
}

static void move_wide(uint64_t *counts, size_t d)
{
    if (d == 0) return;
    for (int sign = 0; sign < 2; sign++, counts += QC_WINDOW_BINS) {
        for (size_t i = 1; i <= d; i++) counts[0] += counts[i];
        memmove(counts + 1, counts + 1 + d, (QC_WINDOW_BINS - 1 - d) * sizeof *counts);
        memset(counts + QC_WINDOW_BINS - d, 0, d * sizeof *counts);
    }
}

/* Takes min and max of `count` finite values into a tally. The + 0 turns -0 into 0. */
static void take_extremes(struct qc_tally *t, float min, float max, uint64_t count)
{
    if (count == 0) return;
    min += 0.0f;
    max += 0.0f;
    if (t->count == 0 || min < t->min) t->min = min;
    if (t->count == 0 || max > t->max) t->max = max;
    t->count += count;
}

static void raise_exponent(struct qc_scan *s, uint32_t magnitude)
{
    if (magnitude == 0) return;
    int32_t e = (int32_t)(magnitude >> 23);
    if (e <= s->exponent) return;
    if (s->counts) move_narrow(s->counts, distance(s->exponent, e));
    s->exponent = e;
}

/* A block that holds NaN or infinity: the finite values one by one. */
static void scan_mixed(struct qc_scan *s, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t u = qc_float_bits(x[i]), magnitude = u & QC_MAGNITUDE_MASK;
        if (magnitude > QC_INFINITY_BITS) {
            s->tally.nan++;
        } else if (magnitude == QC_INFINITY_BITS) {
            *(u >> 31 ? &s->tally.neg_inf : &s->tally.pos_inf) += 1;
        } else {
            struct qc_block one;
            qc_scan_plain.facts(&one, x + i, 1);
            take_extremes(&s->tally, x[i], x[i], 1);
            s->tally.zeros += one.zeros;
            s->low_bits |= one.low_bits;
            raise_exponent(s, magnitude);
            if (s->counts && magnitude) qc_scan_plain.count(s->counts, qc_window_base(s->exponent), &one, x + i, 1);
        }
    }
}

static bool widen(struct qc_scan *s, struct qc_status *st);

bool qc_scan_values(struct qc_scan *s, const float *x, size_t n, struct qc_status *st)
{
    const bool both = s->counts && s->both;
    const size_t most = both ? QC_SCAN_SHORT_BLOCK : QC_SCAN_BLOCK;
    struct qc_scan_queue queue;
    QC_SCAN_QUEUE_EMPTY(&queue);
    for (size_t at = 0; at < n; at += most) {
        const float *block = x + at;
        size_t m = n - at < most ? n - at : most;
        if (s->counts && s->pending + m > UINT32_MAX) {
            qc_scan_flush(&queue, s->counts);
            if (!widen(s, st)) return false;
        }
        s->pending += m;
        struct qc_block f;
        const bool counted = both && s->exponent != NO_EXPONENT &&
                             s->both(&f, &queue, s->counts, qc_window_base(s->exponent), &s->before, block, m);
        if (!counted) s->kernels->facts(&f, block, m);
        if (f.magnitude >= QC_INFINITY_BITS) {
            scan_mixed(s, block, m);
            continue;
        }
        take_extremes(&s->tally, f.min, f.max, m);
        s->tally.zeros += f.zeros;
        s->low_bits |= f.low_bits;
        s->before = f;
        if (counted) continue;
        raise_exponent(s, f.magnitude);
        if (s->counts && f.magnitude) s->kernels->count(s->counts, qc_window_base(s->exponent), &f, block, m);
    }
    if (both) qc_scan_flush(&queue, s->counts);
    return true;
}

static void add_tally(struct qc_tally *t, const struct qc_tally *o)
{
    if (o->count) {
        bool lower = t->count == 0 || o->min < t->min, higher = t->count == 0 || o->max > t->max;
        if (lower || (o->min == t->min && o->min_sample < t->min_sample)) t->min_sample = o->min_sample;
        if (higher || (o->max == t->max && o->max_sample < t->max_sample)) t->max_sample = o->max_sample;
    }
    take_extremes(t, o->min, o->max, o->count);
    t->zeros += o->zeros;
    t->nan += o->nan;
    t->pos_inf += o->pos_inf;
    t->neg_inf += o->neg_inf;
    t->samples += o->samples;
    if (o->first_bad_sample < t->first_bad_sample) t->first_bad_sample = o->first_bad_sample;
}

bool qc_scan_sample(struct qc_scan *s, const float *x, size_t n, uint64_t sample, struct qc_status *st)
{
    struct qc_tally before = s->tally;
    s->tally = empty_tally;
    bool ok = qc_scan_values(s, x, n, st);
    struct qc_tally *t = &s->tally;
    t->samples = ok;
    s->last_peak = t->max > -t->min ? t->max : -t->min;
    if (t->nan + t->pos_inf + t->neg_inf) {
        s->last_peak = INFINITY;
        t->first_bad_sample = sample;
    }
    if (t->count) t->min_sample = t->max_sample = sample;
    add_tally(t, &before);
    return ok;
}

float qc_scan_last_peak(const struct qc_scan *s)
{
    return s->last_peak;
}

bool qc_histogram_new(struct qc_histogram **out, enum qc_need need, struct qc_status *st)
{
    struct qc_histogram *h = calloc(1, sizeof *h);
    if (!h) return qc_fail_memory(st, sizeof *h);
    *h = (struct qc_histogram){.tally = empty_tally, .exponent = NO_EXPONENT};
    if (need != QC_NEED_EXTREMES) {
        h->counts = aligned_alloc(64, COUNTERS * sizeof *h->counts);
        if (!h->counts) {
            free(h);
            return qc_fail_memory(st, COUNTERS * sizeof(uint64_t));
        }
        /* Not calloc, whose pages come one by one as values fall into them: peak memory would grow with the samples. */
        memset(h->counts, 0, COUNTERS * sizeof *h->counts);
    }
    *out = h;
    return true;
}

void qc_histogram_free(struct qc_histogram *h)
{
    if (!h) return;
    free(h->counts);
    free(h);
}

/* Adds counters whose window ends at `exponent`, given as 32-bit or 64-bit ones (the other is NULL). */
static void add_counts(struct qc_histogram *h, int32_t exponent, const uint32_t *narrow, const uint64_t *wide)
{
    if (exponent == NO_EXPONENT) return;
    if (exponent > h->exponent) {
        if (h->counts) move_wide(h->counts, distance(h->exponent, exponent));
        h->exponent = exponent;
    }
    if (!h->counts) return;
    size_t d = distance(exponent, h->exponent);
    for (size_t side = 0; side < COUNTERS; side += QC_WINDOW_BINS) {
        uint64_t *to = h->counts + side;
        for (size_t i = 0; i <= d; i++) to[0] += narrow ? narrow[side + i] : wide[side + i];
        for (size_t i = d + 1; narrow && i < QC_WINDOW_BINS; i++) to[i - d] += narrow[side + i];
        for (size_t i = d + 1; wide && i < QC_WINDOW_BINS; i++) to[i - d] += wide[side + i];
    }
}

void qc_histogram_add_scan(struct qc_histogram *h, const struct qc_scan *s)
{
    assert(!h->counts == !s->counts);
    add_tally(&h->tally, &s->tally);
    h->low_bits |= s->low_bits;
    add_counts(h, s->exponent, s->counts, NULL);
    if (s->widened) add_counts(h, s->widened->exponent, NULL, s->widened->counts);
}

void qc_histogram_add(struct qc_histogram *h, const struct qc_histogram *other)
{
    assert(!h->counts == !other->counts);
    add_tally(&h->tally, &other->tally);
    h->low_bits |= other->low_bits;
    add_counts(h, other->exponent, NULL, other->counts);
}

/* Empties the 32-bit counters into 64-bit ones; the tally stays in the scan. */
static bool widen(struct qc_scan *s, struct qc_status *st)
{
    if (!s->widened && !qc_histogram_new(&s->widened, QC_NEED_HISTOGRAM, st)) return false;
    add_counts(s->widened, s->exponent, s->counts, NULL);
    memset(s->counts, 0, COUNTERS * sizeof *s->counts);
    s->pending = 0;
    return true;
}

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* Counters of one side that are not 0 lie in [*first, *end). Returns how many there are. */
static size_t occupied(size_t *first, size_t *end, const uint64_t *counts)
{
    size_t used = 0;
    *first = 0;
    *end = QC_WINDOW_BINS;
    while (*end > *first && !counts[*end - 1]) --*end;
    while (*first < *end && !counts[*first]) ++*first;
    for (size_t i = *first; i < *end; i++) used += counts[i] != 0;
    return used;
}

bool qc_histogram_bins(struct qc_bin **out, size_t *n, const struct qc_histogram *h, struct qc_status *st)
{
    assert(h->counts);
    size_t first[2], end[2], used = 0;
    for (int side = 0; side < 2; side++) used += occupied(&first[side], &end[side], h->counts + side * QC_WINDOW_BINS);
    struct qc_bin *bins = malloc((used ? used : 1) * sizeof *bins);
    if (!bins) return qc_fail_memory(st, used * sizeof *bins);
    const int32_t base = qc_window_base(h->exponent);
    const double min = (double)h->tally.min, max = (double)h->tally.max;
    size_t k = 0;
    for (int negative = 1; negative >= 0; negative--) /* ascending: from the largest negative magnitude inwards */
        for (size_t i = first[negative]; i < end[negative]; i++) {
            const size_t slot = negative ? first[1] + end[1] - 1 - i : i;
            const uint64_t c = h->counts[(negative ? QC_WINDOW_BINS : 0) + slot];
            if (!c) continue;
            double inner = slot ? edge_of(base + (int32_t)slot) : 0, outer = edge_of(base + (int32_t)slot + 1);
            if (slot && h->low_bits == 0) outer = inner;
            bins[k++] = (struct qc_bin){.lo = clamp(negative ? -outer : inner, min, max),
                                        .hi = clamp(negative ? -inner : outer, min, max),
                                        .count = c};
        }
    *out = bins;
    *n = k;
    return true;
}
