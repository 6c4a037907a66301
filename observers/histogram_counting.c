// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "observers/histogram.h"
#include "observers/scan_kernel.h"

/* Few values are kept as a list of keys with signs; more are counted. */
enum { LIST_MAX = 4096, LIST_MIN = 64 };

struct qc_scan {
    const struct qc_scan_kernels *kernels;
    qc_scan_both_fn *both;  /* or NULL */
    struct qc_block before; /* facts of the last block that was all finite */
    float last_peak;        /* of the last sample */
    struct qc_tally tally;
    int32_t exponent;
    uint32_t low_bits;
    bool binned;      /* counters are wanted */
    uint32_t *counts; /* [2][QC_WINDOW_BINS], or NULL while there are few values, which are in ... */
    uint32_t *list;   /* ... this list: bits >> QC_KEY_SHIFT */
    size_t list_count, list_capacity;
    uint64_t pending;             /* values in counts: at most UINT32_MAX, so no counter can overflow */
    struct qc_histogram *widened; /* receives counts before they overflow; NULL until needed */
};

bool qc_scan_new(struct qc_scan **out, enum qc_need need, struct qc_status *st)
{
    struct qc_scan *s = calloc(1, sizeof *s);
    if (!s) return qc_fail_memory(st, sizeof *s);
    *s = (struct qc_scan){.kernels = qc_scan_best(),
                          .both = qc_scan_both(),
                          .tally = QC_EMPTY_TALLY,
                          .exponent = QC_NO_EXPONENT,
                          .binned = need != QC_NEED_EXTREMES};
    *out = s;
    return true;
}

void qc_scan_free(struct qc_scan *s)
{
    if (!s) return;
    qc_histogram_free(s->widened);
    free(s->counts);
    free(s->list);
    free(s);
}

void qc_scan_reset(struct qc_scan *s)
{
    qc_histogram_free(s->widened);
    s->widened = NULL;
    s->tally = QC_EMPTY_TALLY;
    s->exponent = QC_NO_EXPONENT;
    s->low_bits = 0;
    s->before = (struct qc_block){0};
    s->pending = 0;
    s->list_count = 0;
    if (s->counts) memset(s->counts, 0, QC_COUNTERS * sizeof *s->counts);
}

static void raise_scan_exponent(struct qc_scan *s, uint32_t magnitude)
{
    if (magnitude == 0) return;
    int32_t e = (int32_t)(magnitude >> 23);
    if (e <= s->exponent) return;
    uint32_t *counts = s->counts;
    const size_t d = counts ? qc_window_distance(s->exponent, e) : 0;
    s->exponent = e;
    for (int sign = 0; d && sign < 2; sign++, counts += QC_WINDOW_BINS) {
        for (size_t i = 1; i <= d; i++) counts[0] += counts[i];
        memmove(counts + 1, counts + 1 + d, (QC_WINDOW_BINS - 1 - d) * sizeof *counts);
        memset(counts + QC_WINDOW_BINS - d, 0, d * sizeof *counts);
    }
}

/* Scans a block with NaN or infinity: adds the finite values one by one. */
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
            qc_tally_extremes(&s->tally, x[i], x[i], 1);
            s->tally.zeros += one.zeros;
            s->low_bits |= one.low_bits;
            raise_scan_exponent(s, magnitude);
            if (s->counts && magnitude) qc_scan_plain.count(s->counts, qc_window_base(s->exponent), &one, x + i, 1);
            if (s->binned && !s->counts && magnitude) s->list[s->list_count++] = u >> QC_KEY_SHIFT;
        }
    }
}

size_t qc_scan_bytes(enum qc_need need, size_t values)
{
    size_t list = LIST_MIN;
    if (need == QC_NEED_EXTREMES) return sizeof(struct qc_scan);
    if (!values || values > LIST_MAX) return sizeof(struct qc_scan) + QC_COUNTERS * sizeof(uint32_t);
    while (list < values) list *= 2;
    return sizeof(struct qc_scan) + list * sizeof(uint32_t);
}

static void count_list(uint32_t *counts, const struct qc_scan *s)
{
    const int32_t base = qc_window_base(s->exponent);
    memset(counts, 0, QC_COUNTERS * sizeof *counts);
    for (size_t i = 0; i < s->list_count; i++) counts[qc_scan_slot(s->list[i] << QC_KEY_SHIFT, base)]++;
}

/* Returns counters [QC_COUNTERS], not cleared, or NULL if memory is out. */
static uint32_t *new_counters(struct qc_status *st)
{
    uint32_t *counts = aligned_alloc(64, QC_COUNTERS * sizeof *counts);
    if (!counts) qc_fail_memory(st, QC_COUNTERS * sizeof *counts);
    return counts;
}

/* Appends to the list; at most LIST_MAX values in all. */
static bool list_values(struct qc_scan *s, const float *x, size_t n, struct qc_status *st)
{
    size_t capacity = s->list_capacity ? s->list_capacity : LIST_MIN;
    while (capacity < s->list_count + n) capacity *= 2;
    if (capacity > s->list_capacity) {
        uint32_t *list = realloc(s->list, capacity * sizeof *list);
        if (!list) return qc_fail_memory(st, capacity * sizeof *list);
        s->list = list;
        s->list_capacity = capacity;
    }
    s->pending += n;
    for (size_t at = 0; at < n; at += QC_SCAN_BLOCK) {
        const size_t m = n - at < QC_SCAN_BLOCK ? n - at : QC_SCAN_BLOCK;
        struct qc_block f;
        s->kernels->facts(&f, x + at, m);
        if (f.magnitude >= QC_INFINITY_BITS) {
            scan_mixed(s, x + at, m);
            continue;
        }
        qc_tally_extremes(&s->tally, f.min, f.max, m);
        s->tally.zeros += f.zeros;
        s->low_bits |= f.low_bits;
        s->before = f;
        raise_scan_exponent(s, f.magnitude);
        for (size_t i = at; i < at + m; i++) {
            const uint32_t u = qc_float_bits(x[i]);
            if (u & QC_MAGNITUDE_MASK) s->list[s->list_count++] = u >> QC_KEY_SHIFT;
        }
    }
    return true;
}

bool qc_scan_values(struct qc_scan *s, const float *x, size_t n, struct qc_status *st)
{
    if (s->binned && !s->counts) {
        if (s->list_count + n <= LIST_MAX) return list_values(s, x, n, st);
        /* Move the list to counters */
        if (!(s->counts = new_counters(st))) return false;
        count_list(s->counts, s);
        free(s->list);
        s->list = NULL;
        s->list_count = s->list_capacity = 0;
    }
    const bool both = s->counts && s->both;
    const size_t most = both ? QC_SCAN_SHORT_BLOCK : QC_SCAN_BLOCK;
    struct qc_scan_queue queue;
    QC_SCAN_QUEUE_EMPTY(&queue);
    for (size_t at = 0; at < n; at += most) {
        const float *block = x + at;
        size_t m = n - at < most ? n - at : most;
        if (s->counts && s->pending + m > UINT32_MAX) {
            /* Move the 32-bit counters to 64-bit ones; the tally stays in the scan. */
            qc_scan_flush(&queue, s->counts);
            if ((!s->widened && !qc_histogram_new(&s->widened, QC_NEED_HISTOGRAM, st)) ||
                !qc_histogram_add_counters(s->widened, s->exponent, s->counts, st))
                return false;
            memset(s->counts, 0, QC_COUNTERS * sizeof *s->counts);
            s->pending = 0;
        }
        s->pending += m;
        struct qc_block f;
        const bool counted = both && s->exponent != QC_NO_EXPONENT &&
                             s->both(&f, &queue, s->counts, qc_window_base(s->exponent), &s->before, block, m);
        if (!counted) s->kernels->facts(&f, block, m);
        if (f.magnitude >= QC_INFINITY_BITS) {
            scan_mixed(s, block, m);
            continue;
        }
        qc_tally_extremes(&s->tally, f.min, f.max, m);
        s->tally.zeros += f.zeros;
        s->low_bits |= f.low_bits;
        s->before = f;
        if (counted) continue;
        raise_scan_exponent(s, f.magnitude);
        if (s->counts && f.magnitude) s->kernels->count(s->counts, qc_window_base(s->exponent), &f, block, m);
    }
    if (both) qc_scan_flush(&queue, s->counts);
    return true;
}

bool qc_scan_sample(struct qc_scan *s, const float *x, size_t n, uint64_t sample, struct qc_status *st)
{
    struct qc_tally before = s->tally;
    s->tally = QC_EMPTY_TALLY;
    bool ok = qc_scan_values(s, x, n, st);
    struct qc_tally *t = &s->tally;
    t->samples = ok;
    s->last_peak = t->max > -t->min ? t->max : -t->min;
    if (t->nan + t->pos_inf + t->neg_inf) {
        s->last_peak = INFINITY;
        t->first_bad_sample = sample;
    }
    if (t->count) t->min_sample = t->max_sample = sample;
    qc_tally_add(t, &before);
    return ok;
}

float qc_scan_last_peak(const struct qc_scan *s)
{
    return s->last_peak;
}

bool qc_histogram_add_scan(struct qc_histogram *h, const struct qc_scan *s, struct qc_status *st)
{
    assert(h->binned == s->binned);
    const struct qc_histogram *w = s->widened;
    bool ok = true;
    if (s->counts) {
        ok = qc_histogram_add_counters(h, s->exponent, s->counts, st);
    } else if (s->list_count) {
        uint32_t *counts = new_counters(st);
        ok = counts != NULL;
        if (ok) count_list(counts, s);
        ok = ok && qc_histogram_add_counters(h, s->exponent, counts, st);
        free(counts);
    } else if (s->exponent > h->exponent) {
        h->exponent = s->exponent;
    }
    ok = ok && (!w || qc_histogram_add(h, w, st));
    if (!ok) return false;
    qc_tally_add(&h->tally, &s->tally);
    h->low_bits |= s->low_bits;
    return true;
}

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

static void append_counters(struct qc_histogram *to, uint16_t slot, uint64_t count)
{
    if (!to->used || to->slots[to->used - 1] != slot) {
        to->slots[to->used] = slot;
        to->counts[to->used++] = 0;
    }
    to->counts[to->used - 1] += count;
}

/* Returns the slot of a counter after its window moved up by d bins. */
static uint16_t moved_counters(uint16_t slot, size_t d)
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
            const uint16_t a = i < h->used ? moved_counters(h->slots[i], own) : QC_COUNTERS,
                           b = k < used ? moved_counters(slots[k], other) : QC_COUNTERS;
            if (a <= b)
                append_counters(&sum, a, h->counts[i++]);
            else
                append_counters(&sum, b, counts[k++]);
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
        if (counters[i]) append_counters(&list, (uint16_t)i, counters[i]);
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
        if (counts[i]) append_counters(&list, slots[i], counts[i]);
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
