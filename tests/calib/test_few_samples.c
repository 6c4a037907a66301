// SPDX-License-Identifier: Apache-2.0
/* Ranges from few samples. */
#include "calib/ranges/quantizer_channels.h"
#include "calib_case.h"

static struct qc_histogram *seen(bool integers)
{
    struct qc_histogram *h = NULL;
    OWN(qc_scan) *scan = NULL;
    float x[4096];
    uint64_t seed = 3;
    for (size_t i = 0; i < 4096; i++) x[i] = integers ? (float)(i % 200) : (float)case_normal(&seed);
    cr_assert(qc_histogram_new(&h, QC_NEED_HISTOGRAM, ST) && qc_scan_new(&scan, QC_NEED_HISTOGRAM, ST));
    MUST(qc_scan_values(scan, x, 4096, ST));
    MUST(qc_histogram_add_scan(h, scan, ST));
    return h;
}

/* Largest values 10, 12, 8, 14 have the deviation sqrt(20 / 3); the least ones are all -1. */
static const struct qc_extremes four[] = {{0, -1, 10}, {1, -1, 12}, {2, -1, 8}, {3, -1, 14}};
static const double WIDER = 1 + 0.77969680 * 2.58198890 * 2.07944154 / 14; /* log(32 / 4) */

static const struct {
    const struct qc_extremes *items;
    size_t count;
    bool integers;
    double known_hi, hi; /* of a range that ended at 7 */
} cases[] = {
    {four, 4, false, 1e9, 7 * 1.29902}, {four, 4, true, 1e9, 7}, {four, 4, false, 7.5, 7.5},
    {four, 1, false, 1e9, 7},           {four, 4, false, 6, 7},
};

Test(few_samples, the_next_sample_goes_further)
{
    cr_assert(fabs(WIDER - 1.29902) < 1e-5);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        OWN(qc_histogram) *h = seen(cases[i].integers);
        struct qc_range range = {.lo = -1, .hi = 7};
        const struct qc_series series = {.count = cases[i].count, .items = cases[i].items};
        qc_widen_for_few(&range, h, &series, -1e9, cases[i].known_hi);
        cr_expect(fabs(range.hi - cases[i].hi) < 1e-4, "case %zu: %.6f", i, range.hi);
        cr_expect_eq(range.lo, -1, "case %zu: %g", i, range.lo);
    }
    struct qc_extremes many[QC_MANY_SAMPLES];
    for (size_t i = 0; i < QC_MANY_SAMPLES; i++) many[i] = four[i % 4];
    OWN(qc_histogram) *h = seen(false);
    struct qc_range range = {.lo = -1, .hi = 7};
    qc_widen_for_few(&range, h, &(struct qc_series){.count = QC_MANY_SAMPLES, .items = many}, -1e9, 1e9);
    cr_expect_eq(range.hi, 7);
    h->tally.count = 1 << 22; /* of so many values what is rarer still costs a fourth */
    qc_widen_for_few(&range, h, &(struct qc_series){.count = 4, .items = four}, -1e9, 1e9);
    cr_expect(fabs(range.hi - 7 * (1 + (WIDER - 1) / 4)) < 1e-6, "%.9g", range.hi);
}
