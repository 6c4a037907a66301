// SPDX-License-Identifier: Apache-2.0
/* Ranges extend to the expected values of unseen samples. */
#include "arith/float_level.h"
#include "calib/ranges/quantizer_channels.h"
#include "calib_case.h"

enum { EACH = 4096, SAMPLES = 40 };

/* Samples of a few thousand values below 1, and one large value each: 1 plus times -log of even steps, so that maxima
   have an exponential law with the mean `spread`. */
struct seen {
    struct qc_histogram *h;
    struct qc_extremes of[QC_UNSEEN_MOST + 1];
    struct qc_series series;
};

static void see(struct seen *s, size_t samples, double spread)
{
    struct qc_scan *scan = NULL;
    cr_assert(qc_histogram_new(&s->h, QC_NEED_HISTOGRAM, ST) && qc_scan_new(&scan, QC_NEED_HISTOGRAM, ST));
    uint64_t seed = 5;
    for (size_t u = 0; u < samples; u++) {
        float x[EACH];
        for (size_t i = 0; i < EACH; i++) x[i] = (float)fmin(1, fabs(case_normal(&seed)) / 3);
        x[0] = (float)(1 - spread * log(((double)u + 0.5) / (double)samples));
        MUST(qc_scan_values(scan, x, EACH, ST));
        s->of[u] = qc_extremes_of(x, EACH, u);
    }
    MUST(qc_histogram_add_scan(s->h, scan, ST));
    qc_scan_free(scan);
    s->series = (struct qc_series){.count = samples, .items = s->of};
}

static double end_of(const struct seen *s, double from, double clip, double known_hi)
{
    struct qc_range range = {.lo = 0, .hi = from};
    const struct qc_unseen what = {.clip = clip, .levels = {0, 255}, .known_lo = 0, .known_hi = known_hi};
    MUST(qc_widen_for_unseen(&range, s->h, &s->series, &what, ST));
    cr_expect(range.lo == 0);
    return range.hi;
}

Test(expected_error, ends_move_to_the_least_of_rounding_and_what_is_expected)
{
    struct seen s;
    see(&s, SAMPLES, 0.5);
    double top = 0, height = 0, sum = 0;
    for (size_t u = 0; u < SAMPLES; u++) top = fmax(top, (double)s.of[u].max); /* descending by how they are made */
    /* sqrt(32 * 40) / 2 = 17 go beyond the height. */
    height = (double)s.of[17].max;
    for (size_t u = 0; u < 17; u++) sum += (double)s.of[u].max - height;
    const double from = 0.6 * top, part = SAMPLES / (SAMPLES + 16.);
    /* The same by hand, at many more ends. */
    double best = 0, least = INFINITY;
    for (double end = from; end <= 1.06 * top; end += top / 4096) {
        double there = 0, seen = 0;
        for (size_t u = 0; u < SAMPLES; u++) {
            const double x = (double)s.of[u].max;
            there += x > height ? (x - height) * (x - height) : 0;
            seen += x > end ? (x - end) * (x - end) : 0;
        }
        const double law = there * pow(1 + (end - height) / sum, -17),
                     cut = end > height ? law * pow(fmax(0.1, seen / law), part) : seen,
                     error = SAMPLES * EACH * end * end / 255 / 255 / 12 + cut;
        if (error < least) {
            least = error;
            best = end;
        }
    }
    const double hi = end_of(&s, from, 1, INFINITY);
    cr_expect(best > 1.05 * from && best < 1.05 * top && fabs(hi - best) < 0.02 * top, "%g, by hand %g of %g", hi, best,
              top);
    cr_expect(end_of(&s, from, 16, INFINITY) > hi, "clipped values that count more");
    cr_expect(fabs(end_of(&s, from, 1, 0.65 * top) - 0.65 * top) < 1e-9, "not beyond what is known");
    cr_expect(end_of(&s, 1.2 * top, 1, INFINITY) <= 1.2 * top && end_of(&s, 1.2 * top, 1, INFINITY) >= 1.2 * top,
              "never inwards");
    qc_histogram_free(s.h);
}

/* Rounding of floating-point levels costs what it costs the values seen: the range has the least sum by hand. */
Test(expected_error, floats_are_rounded_in_proportion)
{
    static float x[SAMPLES * EACH];
    const struct qc_levels floats = {.lo = -448, .hi = 448, .mantissa = 3, .least = -6};
    struct seen s;
    see(&s, SAMPLES, 0.5);
    uint64_t seed = 5;
    for (size_t u = 0; u < SAMPLES; u++) {
        for (size_t i = 0; i < EACH; i++) x[u * EACH + i] = (float)fmin(1, fabs(case_normal(&seed)) / 3);
        x[u * EACH] = s.of[u].max;
    }
    double top = 0, sum = 0, there = 0, least = INFINITY, found = INFINITY;
    for (size_t u = 0; u < SAMPLES; u++) top = fmax(top, (double)s.of[u].max);
    const double height = (double)s.of[17].max, from = 0.6 * top;
    for (size_t u = 0; u < 17; u++) {
        sum += (double)s.of[u].max - height;
        there += ((double)s.of[u].max - height) * ((double)s.of[u].max - height);
    }
    struct qc_range range = {.lo = 0, .hi = from};
    const struct qc_unseen what = {
        .clip = 1, .levels = floats, .symmetry = QC_SYMMETRIC, .known_lo = 0, .known_hi = INFINITY};
    MUST(qc_widen_for_unseen(&range, s.h, &s.series, &what, ST));
    for (int k = 0; k <= 128; k++) {
        const double end = k < 128 ? from + (1.06 * top - from) * k / 127 : range.hi,
                     scale = (double)qc_affine_from_range(0, end, floats, QC_SYMMETRIC).scale;
        double within = 0, seen = 0;
        for (size_t i = 0; i < SAMPLES * EACH; i++) {
            const double v = (double)x[i], d = v - scale * qc_nearest_level(v / scale, floats, 0);
            *(v > end ? &seen : &within) += d * d;
        }
        const double law = there * pow(1 + (end - height) / sum, -17),
                     cut = end > height ? law * pow(fmax(0.1, seen / law), SAMPLES / (SAMPLES + 16.)) : seen;
        *(k < 128 ? &least : &found) = fmin(k < 128 ? least : found, within + cut);
    }
    cr_expect(range.hi > from && found < 1.02 * least, "%g at %g, by hand %g", found, range.hi, least);
    qc_histogram_free(s.h);
}

Test(expected_error, left_alone)
{
    static const struct {
        size_t samples;
        double spread;
    } cases[] = {{QC_MANY_SAMPLES - 1, 0.5}, {QC_UNSEEN_MOST + 1, 0.5}, {SAMPLES, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct seen s;
        see(&s, cases[i].samples, cases[i].spread);
        const double hi = end_of(&s, 0.7, 1, INFINITY);
        cr_expect(hi >= 0.7 && hi <= 0.7, "case %zu: %g", i, hi);
        qc_histogram_free(s.h);
    }
    struct seen s;
    see(&s, QC_UNSEEN_MOST, 0.5);
    cr_expect(end_of(&s, 0.7, 1, INFINITY) > 0.71, "as many as are looked at");
    qc_histogram_free(s.h);
}
