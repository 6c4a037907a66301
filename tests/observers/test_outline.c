// SPDX-License-Identifier: Apache-2.0
/* Bars and losses against the values themselves. */
#include "observers/outline.h"
#include "tests/check.h"

enum { COUNT = 20000 };

static struct qc_histogram *seen(const float *x, size_t n)
{
    OWN(qc_scan) *s = NULL;
    struct qc_histogram *h;
    cr_assert(qc_scan_new(&s, QC_NEED_HISTOGRAM, ST) && qc_histogram_new(&h, QC_NEED_HISTOGRAM, ST) &&
              qc_scan_values(s, x, n, ST));
    MUST(qc_histogram_add_scan(h, s, ST));
    return h;
}

/* Something with a long tail and many zeros. */
static void fill(float *x)
{
    for (int i = 0; i < COUNT; i++) {
        double t = (double)(i % 997) / 997 * 6 - 3;
        x[i] = i % 5 == 0 ? 0.0f : (float)(t * t * t / (i % 7 + 1));
    }
}

Test(outline, bars_add_up_and_lie_where_the_values_are)
{
    static float x[COUNT];
    struct qc_outline o;
    uint64_t sum = 0, expected[QC_OUTLINE_BARS] = {0}, zeros = 0;
    fill(x);
    OWN(qc_histogram) *h = seen(x, COUNT);
    MUST(qc_outline_of(&o, h, ST));
    for (int b = 0; b < QC_OUTLINE_BARS; b++) sum += o.bars[b];
    for (int i = 0; i < COUNT; i++) {
        int b = (int)(((double)x[i] - o.lo) / (o.hi - o.lo) * QC_OUTLINE_BARS);
        if (x[i] == 0.0f)
            zeros++;
        else
            expected[b < QC_OUTLINE_BARS ? b : QC_OUTLINE_BARS - 1]++;
    }
    HOLD(o.zeros == zeros, sum + o.zeros == COUNT, (float)o.lo == h->tally.min, (float)o.hi == h->tally.max);
    /* A value may fall into the neighbour when its bin of the histogram crosses the edge of a bar. */
    for (int b = 0; b < QC_OUTLINE_BARS; b++)
        cr_expect(fabs((double)o.bars[b] - (double)expected[b]) <= 5 + 0.1 * (double)expected[b],
                  "bar %d has %llu of %llu", b, (unsigned long long)o.bars[b], (unsigned long long)expected[b]);
}

Test(outline, equal_values_are_one_bar)
{
    static const float x[4] = {2, 2, 2, 2}, none[3] = {0, 0, -0.0f};
    struct qc_outline o;
    struct qc_histogram *h = seen(x, 4);
    MUST(qc_outline_of(&o, h, ST));
    HOLD(o.bars[QC_OUTLINE_BARS - 1] == 4, o.lo == 0 && o.hi == 2);
    qc_histogram_free(h);
    h = seen(none, 3);
    MUST(qc_outline_of(&o, h, ST));
    for (int b = 0; b < QC_OUTLINE_BARS; b++) cr_expect_eq(o.bars[b], 0);
    cr_expect(o.zeros == 3 && o.lo == 0 && o.hi == 0);
    qc_histogram_free(h);
}

/* The same by rounding every value. */
static struct qc_loss exact(const float *x, size_t n, const struct qc_affine *p, struct qc_levels levels)
{
    struct qc_loss l = {0};
    double lost = 0, nonzero = 0;
    for (size_t i = 0; i < n; i++) {
        double v = (double)x[i], q = nearbyint(v / (double)p->scale) + p->zero_point,
               kept = fmin(fmax(q, levels.lo), levels.hi);
        double off = v - (double)p->scale * (kept - p->zero_point);
        l.signal += v * v;
        if (kept == q)
            l.rounding += off * off;
        else
            l.clipping += off * off;
        nonzero += v != 0;
        lost += v != 0 && kept == p->zero_point;
    }
    l.lost = lost / nonzero;
    return l;
}

Test(outline, loss_is_that_of_rounding_every_value)
{
    static float x[COUNT];
    static const struct qc_levels levels = {.lo = 0, .hi = 255};
    static const struct qc_affine to[3] = {{.scale = 0.25f, .zero_point = 128},
                                           {.scale = 0.08f, .zero_point = 100},
                                           {.scale = 3.0f, .zero_point = 20}};
    fill(x);
    OWN(qc_histogram) *h = seen(x, COUNT);
    for (int k = 0; k < 3; k++) {
        struct qc_loss l, e = exact(x, COUNT, &to[k], levels);
        MUST(qc_loss_of(&l, h, &to[k], levels, ST));
        cr_expect(fabs(l.signal / e.signal - 1) < 0.01);
        cr_expect(fabs(l.rounding / e.rounding - 1) < 0.1, "case %d: rounding %g, exactly %g", k, l.rounding,
                  e.rounding);
        cr_expect(fabs(l.clipping - e.clipping) <= 0.02 * e.clipping + 1e-9, "case %d: clipping %g, exactly %g", k,
                  l.clipping, e.clipping);
        cr_expect(fabs(l.lost - e.lost) < 0.01, "case %d: lost %g, exactly %g", k, l.lost, e.lost);
        cr_expect(fabs(qc_loss_db(&l) - 10 * log10(e.signal / (e.rounding + e.clipping))) < 0.5);
    }
    cr_expect(isnan(qc_loss_db(&(struct qc_loss){0})));
    cr_expect(isinf(qc_loss_db(&(struct qc_loss){.signal = 1})));
}
