// SPDX-License-Identifier: Apache-2.0
#include "observers/moments.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "observers/elementary.h"

/* A slot is a counter of the window on one side, over magnitudes [inner, outer]. */
struct slot {
    double inner, outer, count;
    double density;    /* count / (outer - inner); 0 for a point */
    double m0, m1, m2; /* integrals of x^0, x^1, x^2 over all slots further in */
};

struct side {
    struct slot *slots; /* `used` of them, then one whose m0..m2 are the totals */
    int32_t first;      /* counter that slots[0] stands for */
    int32_t used;
};

struct qc_moments {
    int32_t base;
    struct side sides[2]; /* positive, negative */
};

struct integrals {
    double m0, m1, m2;
};

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static bool fill_side(struct side *out, const struct qc_histogram *h, int32_t base, bool negative, struct qc_status *st)
{
    const uint64_t *counts = h->counts + (negative ? QC_WINDOW_BINS : 0);
    double least = (double)(negative ? -h->tally.max : h->tally.min),
           most = (double)(negative ? -h->tally.min : h->tally.max);
    int32_t first = 0, end = QC_WINDOW_BINS;
    while (first < end && !counts[first]) first++;
    while (end > first && !counts[end - 1]) end--;
    struct slot *slots = calloc((size_t)(end - first) + 1, sizeof *slots);
    if (!slots) return qc_fail_memory(st, ((uint64_t)(end - first) + 1) * sizeof *slots);
    double m0 = 0, m1 = 0, m2 = 0;
    for (int32_t i = first; i < end; i++) {
        struct slot *s = &slots[i - first];
        double inner = i ? qc_key_edge(base + i) : 0, outer = qc_key_edge(base + i + 1);
        if (i && h->low_bits == 0) outer = inner;
        double a = clamp(inner, least, most), b = clamp(outer, least, most), c = (double)counts[i];
        *s = (struct slot){
            .inner = a, .outer = b, .count = c, .density = b > a ? c / (b - a) : 0, .m0 = m0, .m1 = m1, .m2 = m2};
        m0 += c;
        m1 += c * (0.5 * (a + b));
        m2 += c * ((a * a + a * b + b * b) / 3);
    }
    slots[end - first] =
        (struct slot){.inner = (double)INFINITY, .outer = (double)INFINITY, .m0 = m0, .m1 = m1, .m2 = m2};
    *out = (struct side){.slots = slots, .first = first, .used = end - first};
    return true;
}

bool qc_moments_new(struct qc_moments **out, const struct qc_histogram *h, struct qc_status *st)
{
    assert(h->counts);
    struct qc_moments *m = calloc(1, sizeof *m);
    if (!m) return qc_fail_memory(st, sizeof *m);
    m->base = qc_window_base(h->exponent);
    bool ok = fill_side(&m->sides[0], h, m->base, false, st) && fill_side(&m->sides[1], h, m->base, true, st);
    if (!ok) {
        qc_moments_free(m);
        return false;
    }
    *out = m;
    return true;
}

void qc_moments_free(struct qc_moments *m)
{
    if (!m) return;
    free(m->sides[0].slots);
    free(m->sides[1].slots);
    free(m);
}

/* Key of a magnitude, by the bits of the double: its exponent, biased as a float's (1023 - 127 = 896 less), and 8 bits of mantissa. */
static int32_t key_of(double t)
{
    if (t < 0x1p-126) return t > 0 ? (int32_t)(t * 0x1p134) : 0;
    uint64_t u;
    memcpy(&u, &t, sizeof u);
    int64_t key = (int64_t)(u >> 44) - (INT64_C(896) << 8);
    return key < 255 * QC_OCTAVE_BINS ? (int32_t)key : 255 * QC_OCTAVE_BINS;
}

/* Integrals over the magnitudes below t. */
static struct integrals below(const struct side *side, int32_t base, double t)
{
    int32_t i = key_of(t) - base;
    i = (i > 0 ? i : 0) - side->first;
    if (i < 0) return (struct integrals){0, 0, 0};
    if (i > side->used) i = side->used;
    const struct slot *s = &side->slots[i];
    double a = s->inner;
    if (t <= a) return (struct integrals){s->m0, s->m1, s->m2};
    if (t > s->outer || s->density <= 0) return (struct integrals){s[1].m0, s[1].m1, s[1].m2};
    /* (t^2 - a^2) / 2 and (t^3 - a^3) / 3 with the difference taken out */
    double part = s->density * (t - a);
    return (struct integrals){s->m0 + part, s->m1 + part * (0.5 * (t + a)),
                              s->m2 + part * ((t * t + t * a + a * a) * (1.0 / 3))};
}

/* n: levels beyond zero on this side; 0 means that everything becomes zero. */
static double side_by_levels(const struct side *side, int32_t base, double s, int64_t n)
{
    struct integrals from = {0, 0, 0};
    double sum = 0;
    const struct slot *all = &side->slots[side->used];
    for (int64_t k = 0; k <= n && from.m0 < all->m0; k++) {
        struct integrals to = {all->m0, all->m1, all->m2};
        if (k < n) to = below(side, base, ((double)k + 0.5) * s);
        double level = (double)k * s;
        double cell = (to.m2 - from.m2) - level * (2 * (to.m1 - from.m1) - level * (to.m0 - from.m0));
        if (cell > 0) sum += cell; /* below 0 by rounding only */
        from = to;
    }
    return sum;
}

/* Integral of (x - nearest multiple of s)^2 over [a, b], of the width b - a: whole cells give s^3 / 12 each. */
static double rounding_integral(double a, double b, double s)
{
    double ka = nearbyint(a / s), kb = nearbyint(b / s), fa = a - ka * s, fb = b - kb * s;
    return (kb - ka) * (s * s * s / 12) + (fb * fb * fb - fa * fa * fa) / 3;
}

static double side_by_bins(const struct side *side, double s, int64_t n)
{
    double last = (double)n * s, sum = 0;
    for (int32_t i = 0; i < side->used; i++) {
        const struct slot *q = &side->slots[i];
        if (q->count <= 0) continue;
        double a = q->inner, b = q->outer;
        if (q->density <= 0) {
            double level = nearbyint(a / s) * s, d = a - (level < last ? level : last);
            sum += q->count * d * d;
            continue;
        }
        double in = b < last ? b : a > last ? a : last; /* [a, in] rounds, [in, b] is clipped */
        double clipped = ((b - last) * (b - last) * (b - last) - (in - last) * (in - last) * (in - last)) / 3;
        sum += q->density * ((in > a ? rounding_integral(a, in, s) : 0) + (b > in ? clipped : 0));
    }
    return sum;
}

double qc_moments_error_by_levels(const struct qc_moments *m, struct qc_affine p, struct qc_levels levels)
{
    double s = (double)p.scale;
    return side_by_levels(&m->sides[0], m->base, s, (int64_t)levels.hi - p.zero_point) +
           side_by_levels(&m->sides[1], m->base, s, (int64_t)p.zero_point - levels.lo);
}

double qc_moments_error_by_bins(const struct qc_moments *m, struct qc_affine p, struct qc_levels levels)
{
    double s = (double)p.scale;
    return side_by_bins(&m->sides[0], s, (int64_t)levels.hi - p.zero_point) +
           side_by_bins(&m->sides[1], s, (int64_t)p.zero_point - levels.lo);
}

double qc_moments_squared_error(const struct qc_moments *m, double lo, double hi, struct qc_levels levels,
                                enum qc_symmetry symmetry)
{
    struct qc_affine p = qc_affine_from_range(lo, hi, levels, symmetry);
    bool many = (int64_t)levels.hi - levels.lo > QC_MOMENTS_LEVELS;
    return many ? qc_moments_error_by_bins(m, p, levels) : qc_moments_error_by_levels(m, p, levels);
}

/* F(b) - F(a), F(f) = sign(f) |f|^(p + 1) / (p + 1), the integral of |f|^p. */
static double power_between(double a, double b, double p)
{
    double fa = qc_power(fabs(a), p + 1), fb = qc_power(fabs(b), p + 1);
    return ((b < 0 ? -fb : fb) - (a < 0 ? -fa : fa)) / (p + 1);
}

/* All lengths in units. */
static double side_by_power(const struct side *side, double s, int64_t n, double p, double unit)
{
    double last = (double)n * s, cell = 2 * power_between(0, 0.5 * s, p), sum = 0;
    for (int32_t i = 0; i < side->used; i++) {
        const struct slot *q = &side->slots[i];
        if (q->count <= 0) continue;
        double a = q->inner / unit, b = q->outer / unit;
        if (q->density <= 0) {
            double level = nearbyint(a / s) * s;
            sum += q->count * qc_power(fabs(a - (level < last ? level : last)), p);
            continue;
        }
        double in = b < last ? b : a > last ? a : last, part = 0; /* [a, in] rounds, [in, b] is clipped */
        if (in > a) {
            double ka = nearbyint(a / s), kb = nearbyint(in / s), fa = a - ka * s, fb = in - kb * s;
            part = ka == kb ? power_between(fa, fb, p)
                            : power_between(fa, 0.5 * s, p) + (kb - ka - 1) * cell + power_between(-0.5 * s, fb, p);
        }
        if (b > in) part += power_between(in - last, b - last, p);
        sum += q->count * (part / (b - a));
    }
    return sum;
}

double qc_moments_power_error(const struct qc_moments *m, double lo, double hi, struct qc_levels levels, enum qc_symmetry symmetry,
                              double power, double unit)
{
    struct qc_affine p = qc_affine_from_range(lo, hi, levels, symmetry);
    double s = (double)p.scale / unit;
    return side_by_power(&m->sides[0], s, (int64_t)levels.hi - p.zero_point, power, unit) +
           side_by_power(&m->sides[1], s, (int64_t)p.zero_point - levels.lo, power, unit);
}
