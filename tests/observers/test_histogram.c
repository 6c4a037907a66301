// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <gsl/gsl_randist.h>
#include <gsl/gsl_rng.h>

#include "observers/histogram.h"
#include "observers/scan_kernel.h"
#include "samples.h"
#include "tests/check.h"

enum { COUNTERS = 2 * QC_WINDOW_BINS };

static bool same_counters(const struct qc_histogram *a, const struct qc_histogram *b)
{
    return a->used == b->used && memcmp(a->slots, b->slots, a->used * sizeof *a->slots) == 0 &&
           memcmp(a->counts, b->counts, a->used * sizeof *a->counts) == 0;
}

/* Are the counters these [COUNTERS], and those that are 0 left out? */
static bool has_counters(const struct qc_histogram *h, const uint64_t *expected)
{
    size_t at = 0;
    for (size_t i = 0; i < COUNTERS; i++) {
        if (!expected[i]) continue;
        if (at == h->used || h->slots[at] != i || h->counts[at] != expected[i]) return false;
        at++;
    }
    return at == h->used;
}

static void assert_same(const struct qc_histogram *a, const struct qc_histogram *b, const char *what)
{
    const struct qc_tally *s = &a->tally, *t = &b->tally;
    cr_assert(s->count == t->count && s->zeros == t->zeros && s->nan == t->nan && s->pos_inf == t->pos_inf &&
                  s->neg_inf == t->neg_inf && s->samples == t->samples && s->first_bad_sample == t->first_bad_sample,
              "%s: tallies differ", what);
    cr_assert(memcmp(&s->min, &t->min, sizeof s->min) == 0 && memcmp(&s->max, &t->max, sizeof s->max) == 0,
              "%s: extremes differ", what);
    cr_assert_eq(a->exponent, b->exponent, "%s", what);
    cr_assert_eq(a->low_bits, b->low_bits, "%s", what);
    cr_assert(same_counters(a, b), "%s: counters differ", what);
}

/* Values over the whole range of float, denormals and zeros included, with runs of equal ones. */
static void fill_wild(float *x, size_t n, unsigned long seed)
{
    gsl_rng *r = gsl_rng_alloc(gsl_rng_mt19937);
    gsl_rng_set(r, seed);
    for (size_t i = 0; i < n; i++) {
        double u = gsl_rng_uniform(r);
        if (u < 0.2)
            x[i] = u < 0.1 ? 0.0f : -0.0f;
        else if (u < 0.3 && i)
            x[i] = x[i - 1];
        else if (u < 0.4)
            x[i] = (float)ldexp(gsl_ran_gaussian(r, 1), -140);
        else if (u < 0.41)
            x[i] = (float)ldexp(gsl_ran_flat(r, -1, 1), (int)(gsl_rng_uniform(r) * 250) - 125);
        else
            x[i] = (float)gsl_ran_gaussian(r, 1);
    }
    gsl_rng_free(r);
}

/* Bins of the definition in histogram.h, found with frexp instead of bits. */
static void count_by_definition(uint64_t *counts, const float *x, size_t n)
{
    int top = -1000;
    for (size_t i = 0; i < n; i++)
        if (x[i] != 0.0f && ilogb((double)x[i]) > top) top = ilogb((double)x[i]);
    int last = (top < -126 ? -127 : top) + 127; /* exponent field */
    for (size_t i = 0; i < n; i++) {
        if (x[i] == 0.0f) continue;
        double m = fabs((double)x[i]);
        int e = ilogb(m) < -126 ? -126 : ilogb(m);
        int inside = (int)floor((m / ldexp(1, e) - (m < ldexp(1, -126) ? 0 : 1)) * 256); /* 1/256 of the octave */
        int field = m < ldexp(1, -126) ? 0 : e + 127;
        int slot = QC_WINDOW_BINS - 1 - ((last - field) * 256 + 255 - inside);
        counts[(x[i] < 0 ? QC_WINDOW_BINS : 0) + (slot > 0 ? slot : 0)]++;
    }
}

Test(histogram, equals_its_definition)
{
    enum { N = 30000 };
    static float x[N];
    static uint64_t expected[COUNTERS];
    for (unsigned long seed = 1; seed < 5; seed++) {
        fill_wild(x, N, seed);
        if (seed == 4) /* denormals alone */
            for (size_t i = 0; i < N; i++) x[i] = (float)ldexp(1.0 + (double)(i % 1000), i & 1 ? -149 : -140);
        memset(expected, 0, sizeof expected);
        count_by_definition(expected, x, N);
        OWN(qc_histogram) *h = samples_histogram(x, N);
        cr_assert(has_counters(h, expected), "seed %lu", seed);
        cr_assert_eq(h->tally.count, N);
    }
}

/* Every first and last bin of 45 octaves: each move of the window sends whole octaves, edges included, to tiny. */
Test(histogram, moves_its_window_by_whole_octaves)
{
    enum { OCTAVES = 45, N = OCTAVES * 4 };
    float up[N], down[N];
    static uint64_t expected[COUNTERS];
    for (int i = 0; i < N; i++) {
        double m = i % 2 ? 511.0 / 256 : 1;
        up[i] = (float)(ldexp(m, i / 4 - 20) * (i % 4 < 2 ? 1 : -1));
        down[N - 1 - i] = up[i];
    }
    memset(expected, 0, sizeof expected);
    count_by_definition(expected, up, N);
    OWN(qc_histogram) *all = samples_histogram(down, N), *merged = NULL;
    cr_assert(has_counters(all, expected));
    OWN(qc_scan) *scan = NULL;
    MUST(qc_scan_new(&scan, QC_NEED_HISTOGRAM, ST));
    MUST(qc_histogram_new(&merged, QC_NEED_HISTOGRAM, ST));
    for (int i = 0; i < N; i++) {
        OWN(qc_histogram) *one = samples_histogram(&up[i], 1);
        MUST(qc_scan_values(scan, &up[i], 1, ST));
        MUST(qc_histogram_add(merged, one, ST));
    }
    cr_assert(has_counters(merged, expected));
    OWN(qc_histogram) *scanned = NULL;
    MUST(qc_histogram_new(&scanned, QC_NEED_HISTOGRAM, ST));
    MUST(qc_histogram_add_scan(scanned, scan, ST));
    cr_assert(has_counters(scanned, expected));
}

/* Deals the values in a random order to random workers in chunks of random length and merges in a random tree. */
static struct qc_histogram *shuffled(const float *values, size_t n, gsl_rng *r)
{
    enum { WORKERS = 5 };
    struct qc_scan *scans[WORKERS];
    struct qc_histogram *parts[WORKERS];
    QC_FREED float *x = malloc(n * sizeof *x);
    cr_assert(x);
    memcpy(x, values, n * sizeof *x);
    gsl_ran_shuffle(r, x, n, sizeof *x);
    for (size_t w = 0; w < WORKERS; w++) MUST(qc_scan_new(&scans[w], QC_NEED_HISTOGRAM, ST));
    for (size_t at = 0; at < n;) {
        size_t m = 1 + (size_t)gsl_rng_uniform_int(r, gsl_rng_uniform(r) < 0.5 ? 40 : 6000);
        if (m > n - at) m = n - at;
        MUST(qc_scan_values(scans[gsl_rng_uniform_int(r, WORKERS)], x + at, m, ST));
        at += m;
    }
    for (size_t w = 0; w < WORKERS; w++) {
        MUST(qc_histogram_new(&parts[w], QC_NEED_HISTOGRAM, ST));
        MUST(qc_histogram_add_scan(parts[w], scans[w], ST));
        qc_scan_free(scans[w]);
    }
    for (size_t left = WORKERS; left > 1; left--) {
        size_t to = gsl_rng_uniform_int(r, left), from = gsl_rng_uniform_int(r, left - 1);
        if (from >= to) from++;
        MUST(qc_histogram_add(parts[to], parts[from], ST));
        qc_histogram_free(parts[from]);
        parts[from] = parts[left - 1];
    }
    return parts[0];
}

Test(histogram, any_order_partition_and_tree_gives_the_same_bytes)
{
    enum { N = 20000, TRIES = 12 };
    static float x[N];
    gsl_rng *r = gsl_rng_alloc(gsl_rng_mt19937);
    for (unsigned long seed = 10; seed < 13; seed++) {
        fill_wild(x, N, seed);
        for (size_t i = 0; i < 30; i++)
            x[i * 37] = i % 3 == 0 ? (float)NAN : i % 3 == 1 ? (float)INFINITY : -(float)INFINITY;
        gsl_rng_set(r, seed);
        OWN(qc_histogram) *first = shuffled(x, N, r);
        MUST_HOLD(first->tally.count == N - 30, first->tally.nan == 10);
        for (int k = 0; k < TRIES; k++) {
            OWN(qc_histogram) *again = shuffled(x, N, r);
            assert_same(first, again, "shuffled");
        }
    }
    gsl_rng_free(r);
}

Test(histogram, counts_special_values_apart)
{
    const float x[] = {0.0f, -0.0f,    (float)NAN,   (float)INFINITY, -(float)INFINITY,
                       1.5f, -FLT_MAX, FLT_TRUE_MIN, (float)NAN};
    OWN(qc_histogram) *h = samples_histogram(x, sizeof x / sizeof *x);
    const struct qc_tally *t = &h->tally;
    MUST_HOLD(t->count == 5, t->zeros == 2, t->nan == 2, t->pos_inf == 1, t->neg_inf == 1, t->min == -FLT_MAX,
              t->max == 1.5f, t->first_bad_sample == 0);
    QC_FREED struct qc_bin *bins = NULL;
    size_t n;
    MUST(qc_histogram_bins(&bins, &n, h, ST));
    cr_assert_eq(n, 2); /* -FLT_MAX, and 1.5 with the denormal in tiny, far below the window */
    MUST_HOLD(bins[0].lo == -(double)FLT_MAX, bins[1].count == 2, bins[1].lo == 0);
}

Test(histogram, a_negative_zero_is_no_extreme)
{
    const float x[] = {-0.0f, -0.0f};
    OWN(qc_histogram) *h = samples_histogram(x, 2);
    MUST_HOLD(signbit(h->tally.min) == 0, signbit(h->tally.max) == 0, h->exponent == -1);
}

Test(histogram, remembers_the_first_bad_sample)
{
    OWN(qc_scan) *scan = NULL;
    struct qc_histogram *h;
    float good = 1, bad = (float)NAN;
    MUST(qc_scan_new(&scan, QC_NEED_EXTREMES, ST));
    MUST(qc_histogram_new(&h, QC_NEED_EXTREMES, ST));
    MUST(qc_scan_sample(scan, &good, 1, 3, ST));
    MUST(qc_scan_sample(scan, &bad, 1, 9, ST));
    MUST(qc_scan_sample(scan, &bad, 1, 7, ST));
    MUST(qc_histogram_add_scan(h, scan, ST));
    MUST_HOLD(h->tally.first_bad_sample == 7, h->tally.samples == 3, !h->binned && !h->used);
    qc_scan_reset(scan);
    MUST(qc_scan_sample(scan, &good, 1, 1, ST));
    qc_histogram_free(h);
    MUST(qc_histogram_new(&h, QC_NEED_EXTREMES, ST));
    MUST(qc_histogram_add_scan(h, scan, ST));
    MUST_HOLD(h->tally.first_bad_sample == QC_NO_SAMPLE, h->tally.samples == 1);
    qc_histogram_free(h);
}

/* Of equal extremes the sample with the smaller number is named, in whatever order they come. */
Test(histogram, names_the_first_sample_of_an_extreme)
{
    static const float x[][2] = {{1, 5}, {-2, 4}, {-2, 5}};
    for (int turn = 0; turn < 2; turn++) {
        struct qc_histogram *h[2];
        for (int k = 0; k < 2; k++) {
            OWN(qc_scan) *scan = NULL;
            cr_assert(qc_scan_new(&scan, QC_NEED_EXTREMES, ST) && qc_histogram_new(&h[k], QC_NEED_EXTREMES, ST));
            if (k == turn)
                cr_assert(qc_scan_sample(scan, x[0], 2, 3, ST) && qc_scan_sample(scan, x[1], 2, 8, ST));
            else
                MUST(qc_scan_sample(scan, x[2], 2, 6, ST));
            MUST(qc_histogram_add_scan(h[k], scan, ST));
        }
        MUST(qc_histogram_add(h[0], h[1], ST));
        HOLD(h[0]->tally.min_sample == 6, h[0]->tally.max_sample == 3);
        for (int k = 0; k < 2; k++) qc_histogram_free(h[k]);
    }
}

Test(histogram, bins_cover_the_values_in_order)
{
    static float x[SAMPLE_SIZE];
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_histogram) *h = samples_of(x, SAMPLE_SIZE, (enum sample_kind)kind);
        QC_FREED struct qc_bin *bins = NULL;
        size_t n;
        MUST(qc_histogram_bins(&bins, &n, h, ST));
        uint64_t total = h->tally.zeros;
        for (size_t i = 0; i < n; i++) {
            uint64_t inside = 0;
            total += bins[i].count;
            cr_assert(i == 0 || bins[i].lo >= bins[i - 1].hi);
            cr_assert_leq(bins[i].hi - bins[i].lo, fmax(fabs(bins[i].lo), fabs(bins[i].hi)) / 256);
            if (i % 97) continue;
            for (size_t k = 0; k < SAMPLE_SIZE; k++) inside += (double)x[k] >= bins[i].lo && (double)x[k] <= bins[i].hi;
            cr_assert_geq(inside, bins[i].count);
        }
        MUST_HOLD(total == SAMPLE_SIZE, (bins[0].lo < 0 ? bins[0].lo : (double)h->tally.min) == (double)h->tally.min,
                  h->tally.max <= 0 || bins[n - 1].hi == (double)h->tally.max);
    }
}

Test(histogram, whole_numbers_up_to_255_are_points)
{
    float x[512];
    for (size_t i = 0; i < 512; i++) x[i] = (float)(i % 256);
    OWN(qc_histogram) *h = samples_histogram(x, 512);
    QC_FREED struct qc_bin *bins = NULL;
    size_t n;
    MUST(qc_histogram_bins(&bins, &n, h, ST));
    cr_assert_eq(n, 255);
    for (size_t i = 0; i < n; i++)
        cr_assert(bins[i].lo == (double)(i + 1) && bins[i].hi == bins[i].lo && bins[i].count == 2);
}

/* Counters hold 32 bits: more than 2^32 values must go on in wider ones. */
Test(histogram, goes_on_beyond_two_to_the_32)
{
    enum { N = 1 << 18 };
    OWN(qc_scan) *scan = NULL;
    OWN(qc_histogram) *h = NULL;
    float *zeros = calloc(N, sizeof *zeros), some[] = {3, -2, 0.5f};
    cr_assert(zeros);
    MUST(qc_scan_new(&scan, QC_NEED_HISTOGRAM, ST));
    MUST(qc_histogram_new(&h, QC_NEED_HISTOGRAM, ST));
    MUST(qc_scan_values(scan, some, 3, ST));
    for (uint64_t k = 0; k < (UINT64_C(1) << 32) / N; k++) MUST(qc_scan_values(scan, zeros, N, ST));
    some[0] = 100; /* the window moves on after the counters were emptied */
    MUST(qc_scan_values(scan, some, 3, ST));
    MUST(qc_histogram_add_scan(h, scan, ST));
    MUST_HOLD(h->tally.count == (UINT64_C(1) << 32) + 6, h->tally.zeros == UINT64_C(1) << 32);
    OWN(qc_histogram) *expected = samples_histogram((const float[]){3, -2, 0.5f, 100, -2, 0.5f}, 6);
    cr_assert(same_counters(h, expected));
    free(zeros);
}

Test(histogram, every_instruction_set_gives_the_same)
{
    enum { N = QC_SCAN_BLOCK };
    static float x[N];
    static uint32_t expected[COUNTERS], got[COUNTERS];
    size_t n;
    for (unsigned long seed = 0; seed < 200; seed++) {
        fill_wild(x, N, seed);
        if (seed % 4 == 1)
            for (size_t i = 0; i < N; i++) x[i] = x[i] > 1.0f ? 1.0f : x[i] < 0.25f ? 0.25f : x[i];
        if (seed % 4 == 2)
            for (size_t i = 0; i < N; i++) x[i] = x[i] > 0.0f ? -x[i] : x[i];
        n = seed < 100 ? seed + 1 : N - (seed - 100);
        struct qc_block f, g;
        qc_scan_plain.facts(&f, x, n);
        int32_t base = qc_window_base((int32_t)(f.magnitude >> 23) + (int32_t)(seed % 3));
        memset(expected, 0, sizeof expected);
        qc_scan_plain.count(expected, base, &f, x, n);
        for (const struct qc_scan_kernels *const *set = qc_scan_sets; *set; set++) {
            if (!(*set)->usable()) continue;
            (*set)->facts(&g, x, n);
            cr_assert(f.magnitude == g.magnitude && f.low_bits == g.low_bits && f.zeros == g.zeros && f.min == g.min &&
                          f.max == g.max,
                      "%s seed %lu", (*set)->name, seed);
            memset(got, 0, sizeof got);
            (*set)->count(got, base, &g, x, n);
            cr_assert_eq(memcmp(got, expected, sizeof got), 0, "%s seed %lu", (*set)->name, seed);
        }
    }
    for (const struct qc_scan_kernels *const *set = qc_scan_sets; *set; set++) { /* one NaN anywhere is seen */
        if (!(*set)->usable()) continue;
        for (n = 1; n < 70; n++) {
            for (size_t i = 0; i < n; i++) x[i] = 1.0f;
            x[n * 7 % n] = (float)NAN;
            struct qc_block f;
            (*set)->facts(&f, x, n);
            cr_assert_gt(f.magnitude, QC_INFINITY_BITS, "%s", (*set)->name);
        }
    }
}

Test(histogram, one_pass_is_two)
{
    enum { N = QC_SCAN_SHORT_BLOCK };
    static float x[N];
    static struct qc_scan_queue queue;
    static uint32_t expected[COUNTERS], got[COUNTERS];
    qc_scan_both_fn *both = qc_scan_both();
    if (!both) cr_skip_test("this processor has no such kernel");
    size_t counted = 0;
    for (unsigned long seed = 0; seed < 400; seed++) {
        fill_wild(x, N, seed);
        const unsigned long kind = seed % 4;
        for (size_t i = 0; i < N; i++) {
            if (kind == 1) x[i] = x[i] > 1.0f ? 1.0f : x[i] < 0.25f ? 0.25f : x[i];
            if (kind == 2) x[i] = x[i] > 0.0f ? -x[i] : x[i];
            if (kind == 3) x[i] = x[i] > 1.0f ? 1.0f : x[i] > 0.0f ? x[i] : 0.0f;
        }
        const size_t n = seed < 200 ? seed + 1 : N - (seed - 200);
        struct qc_block f, g, before;
        qc_scan_plain.facts(&f, x, n);
        /* The block before had the same extremes, or none that occur here, or no sign. */
        before = seed % 3 == 0 ? f : seed % 3 == 1 ? (struct qc_block){.min = -3, .max = 7} : (struct qc_block){0};
        const int32_t exponent = (int32_t)(f.magnitude >> 23),
                      base = qc_window_base(exponent + (int32_t)(seed % 5) - 1);
        memset(expected, 0, sizeof expected);
        memset(got, 0, sizeof got);
        /* Something waits already, more or less than there are vectors. */
        queue.count = seed * 7 % N;
        queue.at = seed / 4 % 2;
        for (size_t i = 0; i < queue.count; i++) {
            queue.index[queue.at][i] = (uint16_t)(i * i % COUNTERS);
            expected[i * i % COUNTERS]++;
        }
        if (!both(&g, &queue, got, base, &before, x, n)) {
            cr_assert_eq(queue.count, 0);
            cr_assert_eq(memcmp(got, expected, sizeof got), 0, "seed %lu", seed);
            cr_assert(n < 32 || base < 0 || seed % 5 == 0 || f.min < 0 || signbit(f.min), "seed %lu", seed);
            continue;
        }
        counted++;
        cr_assert(seed % 5 != 0, "seed %lu: above the window", seed);
        qc_scan_plain.count(expected, base, &f, x, n);
        qc_scan_flush(&queue, got);
        cr_assert(f.magnitude == g.magnitude && f.low_bits == g.low_bits && f.zeros == g.zeros && f.min == g.min &&
                      f.max == g.max,
                  "seed %lu", seed);
        cr_assert_eq(memcmp(got, expected, sizeof got), 0, "seed %lu", seed);
    }
    cr_assert_gt(counted, 100);
    for (size_t at = 0; at < 70; at++) { /* one NaN or infinity anywhere */
        struct qc_block g;
        for (size_t i = 0; i < 70; i++) x[i] = 1.0f;
        x[at] = at % 2 ? (float)NAN : (float)INFINITY;
        cr_assert_not(both(&g, &queue, got, qc_window_base(127),
                           &(struct qc_block){.min = at % 3 ? -1.0f : 0.0f, .max = 1}, x, 70));
    }
}

/* Few values are a list and many are counted; what comes of it is the same, in whatever pieces they come. */
Test(histogram, is_the_same_from_a_list_and_from_counters)
{
    enum { MOST = 5000, PIECE = 7 };
    static float x[MOST];
    static const size_t sizes[] = {1, 63, 64, 65, 4095, 4096, 4097, MOST};
    static uint64_t expected[COUNTERS];
    fill_wild(x, MOST, 11);
    OWN(qc_scan) *scan = NULL;
    MUST(qc_scan_new(&scan, QC_NEED_HISTOGRAM, ST));
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const size_t n = sizes[k];
        OWN(qc_histogram) *pieces = NULL, *whole = samples_histogram(x, n);
        memset(expected, 0, sizeof expected);
        count_by_definition(expected, x, n);
        cr_assert(has_counters(whole, expected), "%zu at once", n);
        MUST(qc_histogram_new(&pieces, QC_NEED_HISTOGRAM, ST));
        for (size_t i = 0; i < n; i += PIECE) MUST(qc_scan_values(scan, x + i, n - i < PIECE ? n - i : PIECE, ST));
        MUST(qc_histogram_add_scan(pieces, scan, ST));
        cr_assert(has_counters(pieces, expected), "%zu in pieces", n);
        qc_scan_reset(scan); /* a list the first times, counters after 4097 */
        cr_assert(qc_histogram_add_scan(pieces, scan, ST) && has_counters(pieces, expected), "%zu and nothing", n);
    }
}

Test(histogram, takes_memory_for_what_is_seen)
{
    enum { N = 300 };
    static float x[N];
    for (int i = 0; i < N; i++) x[i] = (float)(i % 20) - 8;
    struct qc_histogram *h = samples_histogram(x, N);
    cr_assert_eq(h->used, 19, "%zu", h->used); /* without zero */
    cr_assert_eq(qc_histogram_positive(h), 11);
    qc_histogram_free(h);
    cr_assert(qc_scan_bytes(QC_NEED_EXTREMES, 0) < 512 && qc_histogram_bytes(QC_NEED_EXTREMES, 0) < 512);
    cr_assert(qc_scan_bytes(QC_NEED_HISTOGRAM, N) < 4096 && qc_histogram_bytes(QC_NEED_HISTOGRAM, N) < 4096);
    cr_assert(qc_scan_bytes(QC_NEED_HISTOGRAM, 0) == qc_scan_bytes(QC_NEED_HISTOGRAM, 1 << 20));
    cr_assert(qc_histogram_bytes(QC_NEED_HISTOGRAM, 0) == qc_histogram_bytes(QC_NEED_HISTOGRAM, 1 << 20));
}
