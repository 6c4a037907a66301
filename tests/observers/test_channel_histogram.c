// SPDX-License-Identifier: Apache-2.0
/* Histograms of channels against their definition, and the ranges that observers choose from them. */
#include "graph/types/dtype.h"
#include "observers/channel_histogram.h"
#include "samples.h"
#include "tests/check.h"

enum { CHANNELS = 3, VALUES = 200, COUNTERS = 2 * QC_CHANNEL_WINDOW_BINS };

/* Values of all sizes: any bits at all, small numbers, zeros, and those that are not finite. */
static float any(uint64_t *state)
{
    const uint64_t u = test_random(state);
    const uint32_t bits = (uint32_t)(u >> 32);
    float x;
    memcpy(&x, &bits, sizeof x);
    switch (u % 8) {
    case 0: return x;
    case 1: return u & 16 ? 0.0f : -0.0f;
    case 2: return ldexpf((float)(int32_t)bits, -40 - (int)(u >> 8 & 15));
    default: return (float)(int32_t)bits * 0x1p-31f;
    }
}

static struct qc_channel_histogram *make(void)
{
    struct qc_channel_histogram *h = NULL;
    MUST(qc_channel_histogram_new(&h, 1, CHANNELS, ST));
    return h;
}

static uint32_t magnitude_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u & 0x7fffffff;
}

/* By the definition, all values at once. */
static void define(struct qc_channel_tally *t, uint64_t counts[COUNTERS], const float *x, size_t n)
{
    uint32_t most = 0;
    *t = (struct qc_channel_tally){.exponent = -1};
    memset(counts, 0, COUNTERS * sizeof *counts);
    for (size_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) continue;
        t->min = !t->count || x[i] < t->min ? x[i] + 0.0f : t->min;
        t->max = !t->count || x[i] > t->max ? x[i] + 0.0f : t->max;
        t->count++;
        t->zeros += x[i] == 0;
        most = magnitude_of(x[i]) > most ? magnitude_of(x[i]) : most;
    }
    if (!most) return;
    t->exponent = (int32_t)(most >> 23);
    const int32_t base =
        (t->exponent + 1) * 16 - 256; /* 16 octaves, the first key of which stands for everything below too */
    for (size_t i = 0; i < n; i++) {
        const int32_t key = (int32_t)(magnitude_of(x[i]) >> 19) - base;
        if (isfinite(x[i]) && x[i] != 0) counts[(x[i] < 0) * QC_CHANNEL_WINDOW_BINS + (key > 0 ? key : 0)]++;
    }
}

Test(channel_histogram, is_the_same_in_any_order_and_merge_tree)
{
    enum { ROUNDS = 200, PARTS = 4 };
    uint64_t random = 11;
    for (int round = 0; round < ROUNDS; round++) {
        static float x[CHANNELS][VALUES];
        struct qc_channel_histogram *parts[PARTS];
        for (int k = 0; k < PARTS; k++) parts[k] = make();
        for (int c = 0; c < CHANNELS; c++)
            for (int i = 0; i < VALUES; i++) x[c][i] = any(&random);
        /* Columns go to parts at random, some alone and some in runs. */
        for (size_t at = 0; at < VALUES;) {
            const size_t n = 1 + (size_t)(test_random(&random) % 7), m = at + n < VALUES ? n : VALUES - at;
            float block[CHANNELS * 7];
            for (size_t c = 0; c < CHANNELS; c++) memcpy(block + c * m, x[c] + at, m * sizeof *block);
            qc_channel_histogram_take(parts[test_random(&random) % PARTS], block, m);
            at += m;
        }
        for (int left = PARTS; left > 1; left--) {
            const int from = (int)(test_random(&random) % (uint64_t)left), last = left - 1;
            OWN(qc_channel_histogram) *a = parts[from];
            parts[from] = parts[last];
            qc_channel_histogram_add(parts[test_random(&random) % (uint64_t)last], a);
        }
        for (size_t c = 0; c < CHANNELS; c++) {
            struct qc_channel_tally t;
            uint64_t counts[COUNTERS];
            define(&t, counts, x[c], VALUES);
            const struct qc_channel_tally *got = &parts[0]->tallies[c];
            cr_assert(got->count == t.count && got->zeros == t.zeros && got->exponent == t.exponent &&
                          memcmp(&got->min, &t.min, 4) == 0 && memcmp(&got->max, &t.max, 4) == 0,
                      "round %d", round);
            cr_assert_eq(memcmp(parts[0]->counts + c * COUNTERS, counts, sizeof counts), 0, "round %d channel %zu",
                         round, c);
        }
        qc_channel_histogram_free(parts[0]);
    }
}

/* The least squared error that the coarse bins lead to is that of the values themselves but for a few percent, on every
 * distribution. */
Test(channel_histogram, ranges_are_nearly_those_of_the_values)
{
    static float x[SAMPLE_SIZE];
    const struct qc_levels levels = qc_levels_of(QC_U8, false);
    const struct qc_solve request = QC_SOLVE_INIT(levels, QC_ASYMMETRIC);
    const struct qc_observer *mse = qc_observer_find("mse");
    const struct qc_observer_values values = {.v = {2}};
    for (int kind = 0; kind < SAMPLE_KINDS; kind++) {
        OWN(qc_channel_histogram) *h = NULL;
        OWN(qc_histogram) *fine = NULL;
        struct qc_range coarse, exact;
        samples_fill(x, SAMPLE_SIZE, (enum sample_kind)kind);
        cr_assert(qc_channel_histogram_new(&h, 0, 1, ST) && qc_histogram_new(&fine, QC_NEED_HISTOGRAM, ST));
        qc_channel_histogram_take(h, x, SAMPLE_SIZE);
        MUST(qc_channel_histogram_fine(fine, h, 0, ST));
        OWN(qc_histogram) *all = samples_histogram(x, SAMPLE_SIZE);
        const struct qc_statistics a = qc_statistics_of(fine), b = qc_statistics_of(all);
        cr_expect(a.count == b.count && a.zeros == b.zeros && a.min == b.min && a.max == b.max, "%s",
                  sample_names[kind]);
        uint64_t sum = 0;
        for (size_t i = 0; i < fine->used; i++) sum += fine->counts[i];
        cr_expect_eq(sum, a.count - a.zeros, "%s", sample_names[kind]);
        cr_assert(qc_observer_solve(&coarse, mse, &values, &a, &request, ST) &&
                  qc_observer_solve(&exact, mse, &values, &b, &request, ST));
        const double got = samples_squared_error(x, SAMPLE_SIZE, coarse.lo, coarse.hi, levels, QC_ASYMMETRIC),
                     best = samples_squared_error(x, SAMPLE_SIZE, exact.lo, exact.hi, levels, QC_ASYMMETRIC);
        cr_expect(got <= 1.03 * best, "%s: %g, %g by the exact histogram", sample_names[kind], got, best);
    }
}

Test(channel_histogram, a_constant_stays_a_constant)
{
    const float x[4] = {0.3f, 0.3f, 0.3f, 0.3f};
    OWN(qc_channel_histogram) *h = NULL;
    OWN(qc_histogram) *fine = NULL;
    QC_FREED struct qc_bin *bins = NULL;
    size_t n = 0;
    cr_assert(qc_channel_histogram_new(&h, 0, 1, ST) && qc_histogram_new(&fine, QC_NEED_HISTOGRAM, ST));
    qc_channel_histogram_take(h, x, 4);
    MUST(qc_channel_histogram_fine(fine, h, 0, ST));
    MUST(qc_histogram_bins(&bins, &n, fine, ST));
    cr_expect(n == 1 && bins[0].lo == (double)0.3f && bins[0].hi == (double)0.3f && bins[0].count == 4);
}

/* Two channels, one of small and one of large values: each counts by its own weight. */
Test(channel_histogram, values_count_by_their_channel)
{
    enum { N = 1000 };
    static float x[2 * N];
    OWN(qc_channel_histogram) *h = NULL;
    struct qc_histogram *to = NULL;
    uint64_t random = 5;
    for (int i = 0; i < N; i++) {
        x[i] = 1 + (float)(test_random(&random) % 1000) / 1000;
        x[N + i] = -(64 + (float)(test_random(&random) % 64));
    }
    MUST(qc_channel_histogram_new(&h, 0, 2, ST));
    qc_channel_histogram_take(h, x, N);
    OWN(qc_histogram) *all = samples_histogram(x, 2 * N);
    static const double gains[][2] = {{1, 1}, {1, 0}, {0.25, 1}};
    for (size_t k = 0; k < sizeof gains / sizeof *gains; k++) {
        cr_assert(qc_histogram_new(&to, QC_NEED_HISTOGRAM, ST) && qc_channel_histogram_weigh(to, all, h, gains[k], ST));
        size_t at = 0;
        for (size_t i = 0; i < all->used; i++) {
            const uint64_t expected =
                (uint64_t)((double)all->counts[i] * gains[k][all->slots[i] / QC_WINDOW_BINS] * QC_CHANNEL_UNIT);
            if (!expected) continue;
            cr_assert(at < to->used && to->slots[at] == all->slots[i], "%zu", i);
            cr_assert_eq(to->counts[at++], expected, "%zu", i);
        }
        cr_assert_eq(at, to->used);
        cr_expect(to->tally.min == all->tally.min && to->tally.max == all->tally.max &&
                  to->tally.count == 2 * N * (uint64_t)QC_CHANNEL_UNIT);
        qc_histogram_free(to);
        to = NULL;
    }
}
