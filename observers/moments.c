// SPDX-License-Identifier: Apache-2.0
#include "observers/moments.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arith/float_level.h"
#include "base/scope.h"
#include "base/simd.h"
#include "observers/elementary.h"

/* A slot is one counter of one side's window, with magnitudes [inner, outer]. */
struct slot {
    double inner, outer, count;
    double density;          /* count / (outer - inner); 0 for a point */
    double f_inner, f_outer; /* f(x) - f(0) at the edges, if there is a function */
    double m0, m1, m2; /* integrals of x^0, x^1, x^2 over all slots further in; of f(x) - f(0) if there is a function */
};

struct side {
    struct slot *slots; /* `used` slots, then one whose m0..m2 are the totals, then one that is only read */
    int32_t first;      /* counter of slots[0] */
    int32_t used;
};

struct qc_moments {
    int32_t base;
    struct side sides[2]; /* positive, negative */
    const struct qc_output_function *behind;
    double f_zero;
};

struct integrals {
    double m0, m1, m2;
};

/* The levels on one side of zero: number 0 is zero, number n the last one. */
struct grid {
    struct qc_levels levels;
    double s; /* scale */
    int64_t n;
};

static double level_at(const struct grid *g, int64_t k)
{
    return qc_level_at(k, g->levels) * g->s;
}

/* The upper end of cell k. */
static double edge_of(const struct grid *g, int64_t k)
{
    return qc_level_edge(k, g->levels) * g->s;
}

/* Returns the number of the level nearest to a magnitude. */
static int64_t cell_of(const struct grid *g, double x)
{
    const double last = level_at(g, g->n), t = (x < last ? x : last) / g->s;
    if (!g->levels.mantissa) return (int64_t)fmin(qc_nearest(x / g->s), (double)g->n);
    return qc_float_level_number(qc_nearest_level(t, g->levels, 0), g->levels.mantissa, g->levels.least);
}

/* out: the positive side, then the negative one. */
static void grids_of(struct grid out[2], struct qc_affine p, struct qc_levels levels)
{
    int64_t first, last;
    qc_level_numbers(&first, &last, levels, p.zero_point);
    out[0] = (struct grid){.levels = levels, .s = (double)p.scale, .n = last};
    out[1] = (struct grid){.levels = levels, .s = (double)p.scale, .n = -first};
}

static double clamp(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

static bool fill_side(struct side *out, const struct qc_histogram *h, int32_t base, bool negative, struct qc_status *st)
{
    const size_t positive = qc_histogram_positive(h), begin = negative ? positive : 0,
                 stop = negative ? h->used : positive;
    double least = (double)(negative ? -h->tally.max : h->tally.min),
           most = (double)(negative ? -h->tally.min : h->tally.max);
    const int32_t first = begin < stop ? h->slots[begin] % QC_WINDOW_BINS : 0,
                  end = begin < stop ? h->slots[stop - 1] % QC_WINDOW_BINS + 1 : 0;
    size_t at = begin;
    struct slot *slots = calloc((size_t)(end - first) + 2, sizeof *slots);
    if (!slots) return qc_fail_memory(st, ((uint64_t)(end - first) + 2) * sizeof *slots);
    double m0 = 0, m1 = 0, m2 = 0;
    for (int32_t i = first; i < end; i++) {
        struct slot *s = &slots[i - first];
        double inner = i ? qc_key_edge(base + i) : 0, outer = qc_key_edge(base + i + 1);
        if (i && h->low_bits == 0) outer = inner;
        double a = clamp(inner, least, most), b = clamp(outer, least, most), c = 0;
        if (h->slots[at] % QC_WINDOW_BINS == i) c = (double)h->counts[at++];
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

enum { BLOCK = 256 };

/* Evaluates f - f(0) at both edges of each slot; returns false if it is not finite. */
static bool evaluate_moments(struct side *side, const struct qc_output_function *f, double f_zero, double sign)
{
    double x[2 * BLOCK], y[2 * BLOCK];
    for (int32_t first = 0; first < side->used; first += BLOCK) {
        const int32_t n = side->used - first < BLOCK ? side->used - first : BLOCK;
        struct slot *s = side->slots + first;
        for (int32_t i = 0; i < n; i++) {
            x[2 * i] = sign * s[i].inner;
            x[2 * i + 1] = sign * s[i].outer;
        }
        f->run(f->user, y, x, (size_t)n * 2);
        for (int32_t i = 0; i < n; i++) {
            s[i].f_inner = y[2 * i] - f_zero;
            s[i].f_outer = y[2 * i + 1] - f_zero;
            if (!isfinite(s[i].f_inner) || !isfinite(s[i].f_outer)) return false;
        }
    }
    return true;
}

static void integrate(struct side *side)
{
    double m0 = 0, m1 = 0, m2 = 0;
    for (int32_t i = 0; i <= side->used; i++) {
        struct slot *s = &side->slots[i];
        const double a = s->f_inner, b = s->f_outer, c = s->count;
        s->m0 = m0;
        s->m1 = m1;
        s->m2 = m2;
        m0 += c;
        m1 += c * (0.5 * (a + b));
        m2 += c * ((a * a + a * b + b * b) / 3);
    }
}

/* Replaces integrals of x by those of f(x), unless f is not finite or constant. */
static void look_behind(struct qc_moments *m, const struct qc_output_function *f)
{
    const double zero = 0;
    f->run(f->user, &m->f_zero, &zero, 1);
    if (!isfinite(m->f_zero) || !evaluate_moments(&m->sides[0], f, m->f_zero, 1) ||
        !evaluate_moments(&m->sides[1], f, m->f_zero, -1))
        return;
    bool flat = true;
    for (int k = 0; k < 2; k++)
        for (int32_t i = 0; i < m->sides[k].used; i++)
            flat = flat && m->sides[k].slots[i].f_inner == 0 && m->sides[k].slots[i].f_outer == 0;
    if (flat) return;
    integrate(&m->sides[0]);
    integrate(&m->sides[1]);
    m->behind = f;
}

bool qc_moments_behind(const struct qc_moments *m)
{
    return m->behind != NULL;
}

/* Returns true if errors are summed bin by bin. */
static bool too_many(struct qc_levels levels)
{
    return qc_level_count(levels) > QC_MOMENTS_LEVELS + 1;
}

const struct qc_output_function *qc_moments_look(const struct qc_solve *request)
{
    return too_many(request->levels) ? NULL : request->behind;
}

bool qc_moments_new(struct qc_moments **out, const struct qc_histogram *h, const struct qc_output_function *behind,
                    struct qc_status *st)
{
    assert(h->binned);
    struct qc_moments *m = calloc(1, sizeof *m);
    if (!m) return qc_fail_memory(st, sizeof *m);
    m->base = qc_window_base(h->exponent);
    bool ok = fill_side(&m->sides[0], h, m->base, false, st) && fill_side(&m->sides[1], h, m->base, true, st);
    if (ok && behind) look_behind(m, behind);
    return QC_HAND_OVER(ok, out, m, qc_moments_free);
}

void qc_moments_free(struct qc_moments *m)
{
    if (!m) return;
    free(m->sides[0].slots);
    free(m->sides[1].slots);
    free(m);
}

/* Returns the key of a magnitude from the bits of the double: its exponent, biased as a float's (1023 - 127 = 896
   less), and 8 bits of mantissa. */
static QC_INLINE int32_t key_of(double t)
{
    uint64_t u;
    memcpy(&u, &t, sizeof u);
    const int32_t key = (int32_t)(u >> 44) - (896 << 8), most = 255 * QC_OCTAVE_BINS,
                  tiny = (int32_t)((t < 0x1p-126 ? t : 0) * 0x1p134); /* denormal floats */
    return t < 0x1p-126 ? tiny : key < most ? key : most;
}

/* Integrals over the magnitudes below t, 0 <= t < infinity. Branch-free, since many are computed at a time: for t
   before or after a slot the slot's part is 0. */
static QC_INLINE struct integrals below(const struct side *side, int32_t base, double t, const bool behind)
{
    int32_t i = key_of(t) - base;
    i = (i > 0 ? i : 0) - side->first;
    i = i > 0 ? i : 0;
    i = i < side->used ? i : side->used;
    const struct slot *s = &side->slots[i];
    const double inner = s->inner, outer = s->outer, density = s->density, count = s->count;
    const int32_t next = t > inner && (t > outer || !(density > 0)) ? i + 1 : i;
    const double a = inner < t ? inner : t,
                 part = (t > outer ? 0 : density) * (t - a); /* (t^2 - a^2) / 2 and (t^3 - a^3) / 3 have the factor t -
                                                                a taken out */
    const double from = behind ? s->f_inner : a,
                 to = behind ? from + (s->f_outer - from) * (part / (count > 1 ? count : 1)) : t;
    const struct slot *sums = &side->slots[next];
    return (struct integrals){sums->m0 + part, sums->m1 + part * (0.5 * (to + from)),
                              sums->m2 + part * ((to * to + to * from + from * from) * (1.0 / 3))};
}

/* f(level) - f(0) of levels k = first to n <= QC_MOMENTS_LEVELS of a side; returns false if one is not finite. */
static bool behind_levels(double *level, const struct qc_moments *m, double sign, const struct grid *g, int64_t first)
{
    const int64_t n = g->n;
    double x[BLOCK];
    for (int64_t k = first; k <= n; k += BLOCK) {
        const int64_t count = n + 1 - k < BLOCK ? n + 1 - k : BLOCK;
        for (int64_t i = 0; i < count; i++) x[i] = sign * level_at(g, k + i);
        m->behind->run(m->behind->user, level + (k - first), x, (size_t)count);
        for (int64_t i = 0; i < count; i++) {
            level[k - first + i] -= m->f_zero;
            if (!isfinite(level[k - first + i])) return false;
        }
    }
    return true;
}

static double cell_error(struct integrals from, struct integrals to, double level)
{
    double cell = (to.m2 - from.m2) - level * (2 * (to.m1 - from.m1) - level * (to.m0 - from.m0));
    return cell > 0 ? cell : 0; /* below 0 only by rounding */
}

static struct integrals total(const struct side *side)
{
    const struct slot *all = &side->slots[side->used];
    return (struct integrals){all->m0, all->m1, all->m2};
}

/* Integrals below the edges [count], count <= CELLS. */
QC_VECTOR(below_cells,
          (double *restrict m0, double *restrict m1, double *restrict m2, const struct side *side, int32_t base,
           const double *restrict edge, int32_t count, bool behind),
          (m0, m1, m2, side, base, edge, count, behind))
{
    const struct side of = *side;
    if (behind)
        for (int32_t k = 0; k < count; k++) {
            const struct integrals x = below(&of, base, edge[k], true);
            m0[k] = x.m0;
            m1[k] = x.m1;
            m2[k] = x.m2;
        }
    else
        for (int32_t k = 0; k < count; k++) {
            const struct integrals x = below(&of, base, edge[k], false);
            m0[k] = x.m0;
            m1[k] = x.m1;
            m2[k] = x.m2;
        }
}

enum { CELLS = 64 }; /* computed together */

/* levels: their values of the function, or NULL. Stops when the sum exceeds `enough`. */
static double side_by_levels(const struct side *side, int32_t base, const struct grid *g, const double *levels,
                             double enough)
{
    const int64_t n = g->n;
    double m0[CELLS], m1[CELLS], m2[CELLS], edge[CELLS], sum = 0;
    const struct integrals all = total(side);
    struct integrals from = {0, 0, 0};
    for (int64_t first = 0; first <= n; first += CELLS) {
        const int64_t count = n + 1 - first < CELLS ? n + 1 - first : CELLS,
                      inner = first + count > n ? count - 1 : count;
        for (int64_t i = 0; i < inner; i++) edge[i] = edge_of(g, first + i);
        below_cells(m0, m1, m2, side, base, edge, (int32_t)inner, levels != NULL);
        for (int64_t i = 0; i < count; i++) {
            if (!(from.m0 < all.m0 && sum <= enough)) return sum;
            const int64_t k = first + i;
            const struct integrals to = i < inner ? (struct integrals){m0[i], m1[i], m2[i]} : all;
            sum += cell_error(from, to, levels ? levels[k] : level_at(g, k));
            from = to;
        }
    }
    return sum;
}

/* Error of the values more than half a step beyond the last level. */
static double side_beyond(const struct side *side, int32_t base, const struct grid *g, const double *levels)
{
    const double last = level_at(g, g->n), half = qc_level_step(last / g->s, g->levels) * g->s / 2,
                 reach = g->levels.mantissa ? last + half : edge_of(g, g->n);
    const struct integrals from = below(side, base, reach, levels != NULL), all = total(side);
    return from.m0 < all.m0 ? cell_error(from, all, levels ? levels[g->n] : last) : 0;
}

/* A lower bound of the error: the last level's cell, which holds the clipped values. level: the function of the last
   level, or NULL. */
static double side_clipped(const struct side *side, int32_t base, const struct grid *g, const double *level)
{
    if (g->n == 0) return 0;
    const struct integrals from = below(side, base, edge_of(g, g->n - 1), level != NULL), all = total(side);
    return from.m0 < all.m0 ? cell_error(from, all, level ? *level : level_at(g, g->n)) : 0;
}

/* Integral of (x - nearest multiple of s)^2 over [a, b]: each whole cell gives s^3 / 12. */
static double rounding_integral(double a, double b, double s)
{
    double ka = qc_nearest(a / s), kb = qc_nearest(b / s), fa = a - ka * s, fb = b - kb * s;
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
            double level = qc_nearest(a / s) * s, d = a - (level < last ? level : last);
            sum += q->count * d * d;
            continue;
        }
        double in = b < last ? b : a > last ? a : last; /* [a, in] rounds, [in, b] is clipped */
        double clipped = ((b - last) * (b - last) * (b - last) - (in - last) * (in - last) * (in - last)) / 3;
        sum += q->density * ((in > a ? rounding_integral(a, in, s) : 0) + (b > in ? clipped : 0));
    }
    return sum;
}

/* Error of the bins that are clipped entirely, outermost first. Stops above `enough`. */
static double side_clipped_by_bins(const struct side *side, double s, int64_t n, double enough)
{
    const double last = (double)n * s;
    double sum = 0;
    for (int32_t i = side->used; i-- > 0 && side->slots[i].inner > last && sum <= enough;) {
        const struct slot *q = &side->slots[i];
        const double a = q->inner - last, b = q->outer - last;
        if (q->count > 0) sum += q->density > 0 ? q->density * ((b * b * b - a * a * a) / 3) : q->count * a * a;
    }
    return sum;
}

static double error_by_bins(const struct qc_moments *m, struct qc_affine p, struct qc_levels levels)
{
    double s = (double)p.scale;
    return side_by_bins(&m->sides[0], s, (int64_t)levels.hi - p.zero_point) +
           side_by_bins(&m->sides[1], s, (int64_t)p.zero_point - levels.lo);
}

double qc_moments_clip_error(const struct qc_moments *m, double lo, double hi, struct qc_levels levels,
                             enum qc_symmetry symmetry, double clip)
{
    const struct qc_affine p = qc_affine_from_range(lo, hi, levels, symmetry);
    if (too_many(levels)) return error_by_bins(m, p, levels);
    double behind[QC_MOMENTS_LEVELS + 1], sum = 0;
    struct grid grids[2];
    grids_of(grids, p, levels);
    for (int k = 0; k < 2; k++) {
        if (!m->sides[k].used) continue;
        if (m->behind && !behind_levels(behind, m, k ? -1 : 1, &grids[k], 0)) return (double)INFINITY;
        const double *of = m->behind ? behind : NULL;
        sum += side_by_levels(&m->sides[k], m->base, &grids[k], of, (double)INFINITY);
        if (clip > 1) sum += (clip - 1) * side_beyond(&m->sides[k], m->base, &grids[k], of);
    }
    return sum;
}

double qc_moments_squared_error(const struct qc_moments *m, double lo, double hi, struct qc_levels levels,
                                enum qc_symmetry symmetry)
{
    return qc_moments_clip_error(m, lo, hi, levels, symmetry, 1);
}

bool qc_moments_above(const struct qc_moments *m, double bound, double lo, double hi, struct qc_levels levels,
                      enum qc_symmetry symmetry, double clip)
{
    const struct qc_affine p = qc_affine_from_range(lo, hi, levels, symmetry);
    if (!too_many(levels)) {
        /* Rounded sums of nonnegative terms never decrease, so a partial sum above the bound decides. The last cells,
           which hold the clipped values, usually suffice. */
        struct grid grids[2];
        grids_of(grids, p, levels);
        double behind[2][QC_MOMENTS_LEVELS + 1], last, sum = 0;
        for (int k = 0; k < 2; k++) {
            if (!m->sides[k].used) continue;
            if (m->behind && !behind_levels(&last, m, k ? -1 : 1, &grids[k], grids[k].n)) return true;
            sum += side_clipped(&m->sides[k], m->base, &grids[k], m->behind ? &last : NULL);
        }
        if (sum > bound) return true;
        sum = 0;
        for (int k = 0; k < 2; k++) {
            const double *of = m->behind ? behind[k] : NULL;
            if (m->sides[k].used && m->behind && !behind_levels(behind[k], m, k ? -1 : 1, &grids[k], 0)) return true;
            if (m->sides[k].used && clip > 1) sum += (clip - 1) * side_beyond(&m->sides[k], m->base, &grids[k], of);
        }
        for (int k = 0; k < 2 && sum <= bound; k++)
            if (m->sides[k].used)
                sum += side_by_levels(&m->sides[k], m->base, &grids[k], m->behind ? behind[k] : NULL, bound);
        return sum > bound;
    }
    const double s = (double)p.scale;
    const int64_t beyond[2] = {(int64_t)levels.hi - p.zero_point, (int64_t)p.zero_point - levels.lo};
    return side_clipped_by_bins(&m->sides[0], s, beyond[0], bound) +
                   side_clipped_by_bins(&m->sides[1], s, beyond[1], bound) >
               bound ||
           error_by_bins(m, p, levels) > bound;
}

/* F(b) - F(a), F(f) = sign(f) |f|^(p + 1) / (p + 1), the integral of |f|^p. */
static QC_INLINE double power_between(double a, double b, double p)
{
    double fa = qc_power(fabs(a), p + 1), fb = qc_power(fabs(b), p + 1);
    return ((b < 0 ? -fb : fb) - (a < 0 ? -fa : fa)) / (p + 1);
}

/* Error of the bins that are clipped entirely, outermost first; all lengths in units. Stops above `enough`. */
static double side_clipped_by_power(const struct side *side, double s, int64_t n, double p, double unit, double enough)
{
    const double last = (double)n * s;
    double sum = 0;
    for (int32_t i = side->used; i-- > 0 && side->slots[i].inner / unit > last && sum <= enough;) {
        const struct slot *q = &side->slots[i];
        const double a = q->inner / unit - last, b = q->outer / unit - last;
        if (q->count > 0) sum += q->count * (q->density > 0 ? power_between(a, b, p) / (b - a) : qc_power(a, p));
    }
    return sum;
}

static QC_INLINE double sum_by_power(const struct side *side, double s, int64_t n, double p, double unit, double enough)
{
    double last = (double)n * s, cell = 2 * power_between(0, 0.5 * s, p), sum = 0;
    for (int32_t i = 0; i < side->used && sum <= enough; i++) {
        const struct slot *q = &side->slots[i];
        if (q->count <= 0) continue;
        double a = q->inner / unit, b = q->outer / unit;
        if (q->density <= 0) {
            double level = qc_nearest(a / s) * s;
            sum += q->count * qc_power(fabs(a - (level < last ? level : last)), p);
            continue;
        }
        double in = b < last ? b : a > last ? a : last, part = 0; /* [a, in] rounds, [in, b] is clipped */
        if (in > a) {
            double ka = qc_nearest(a / s), kb = qc_nearest(in / s), fa = a - ka * s, fb = in - kb * s;
            part = ka == kb ? power_between(fa, fb, p)
                            : power_between(fa, 0.5 * s, p) + (kb - ka - 1) * cell + power_between(-0.5 * s, fb, p);
        }
        if (b > in) part += power_between(in - last, b - last, p);
        sum += q->count * (part / (b - a));
    }
    return sum;
}

/* All lengths in units. Stops when the sum exceeds `enough`. The most frequent power, 3, gets inlined products. */
static double side_by_power(const struct side *side, double s, int64_t n, double p, double unit, double enough)
{
    return p == 3 ? sum_by_power(side, s, n, 3, unit, enough) : sum_by_power(side, s, n, p, unit, enough);
}

/* Integral of |f(x) - level|^p over the unit interval, f linear from a to b. */
static double power_of_line(double a, double b, double p)
{
    double larger = fmax(fabs(a), fabs(b));
    return fabs(b - a) > 1e-9 * larger ? power_between(a, b, p) / (b - a) : qc_power(larger, p);
}

/* The error after the function, or of floating-point levels: each bin is split at the cells. Edges are in x, values of
   f in units. level: NULL without a function. Stops when the sum exceeds `enough`. */
static double side_split_by_power(const struct side *side, const struct grid *g, const double *level, double p,
                                  double unit, double enough)
{
    double sum = 0;
    for (int32_t i = 0; i < side->used && sum <= enough; i++) {
        const struct slot *q = &side->slots[i];
        const double f_inner = level ? q->f_inner : q->inner, f_outer = level ? q->f_outer : q->outer,
                     width = q->outer - q->inner, slope = width > 0 ? (f_outer - f_inner) / width : 0;
        if (q->count <= 0) continue;
        double from = q->inner, part = 0;
        int64_t k = cell_of(g, from);
        while (from < q->outer) {
            const double edge = k < g->n ? edge_of(g, k) : q->outer, to = edge < q->outer ? edge : q->outer,
                         l = level ? level[k] : level_at(g, k);
            if (to > from)
                part += (to - from) / width *
                        power_of_line((f_inner + slope * (from - q->inner) - l) / unit,
                                      (f_inner + slope * (to - q->inner) - l) / unit, p);
            if (to > from) from = to;
            if (from < q->outer) k++;
        }
        if (width <= 0) part = qc_power(fabs(f_inner - (level ? level[k] : level_at(g, k))) / unit, p);
        sum += q->count * part;
    }
    return sum;
}

double qc_moments_power_error(const struct qc_moments *m, double lo, double hi, struct qc_levels levels,
                              enum qc_symmetry symmetry, double power, double unit, double enough)
{
    struct qc_affine p = qc_affine_from_range(lo, hi, levels, symmetry);
    double s = (double)p.scale / unit;
    if (m->behind) {
        double behind[QC_MOMENTS_LEVELS + 1], sum = 0;
        struct grid grids[2];
        grids_of(grids, p, levels);
        for (int k = 0; k < 2; k++) {
            if (!m->sides[k].used) continue;
            if (!behind_levels(behind, m, k ? -1 : 1, &grids[k], 0)) return (double)INFINITY;
            sum += side_split_by_power(&m->sides[k], &grids[k], behind, power, unit, (double)INFINITY);
        }
        return sum;
    }
    if (levels.mantissa) {
        struct grid grids[2];
        grids_of(grids, p, levels);
        const double above = side_split_by_power(&m->sides[0], &grids[0], NULL, power, unit, enough);
        const double sum =
            above > enough ? above
                           : above + side_split_by_power(&m->sides[1], &grids[1], NULL, power, unit, enough - above);
        return sum > enough ? (double)INFINITY : sum;
    }
    const int64_t up = (int64_t)levels.hi - p.zero_point, down = (int64_t)p.zero_point - levels.lo;
    if (isfinite(enough) && side_clipped_by_power(&m->sides[0], s, up, power, unit, enough) +
                                    side_clipped_by_power(&m->sides[1], s, down, power, unit, enough) >
                                enough)
        return (double)INFINITY;
    const double above = side_by_power(&m->sides[0], s, up, power, unit, enough);
    const double sum =
        above > enough ? above : above + side_by_power(&m->sides[1], s, down, power, unit, enough - above);
    return sum > enough ? (double)INFINITY : sum;
}
