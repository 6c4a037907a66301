// SPDX-License-Identifier: Apache-2.0
#include "observers/search.h"

#include <math.h>

/* 2^(-1/16), 2^(-1/32), ... 2^(-1/2048), written out so as not to depend on the libm. */
static const double refinements[] = {
    [0] = 0.957603280698573647, [1] = 0.978572062087700134, [2] = 0.989228013193975484, [3] = 0.994599423483633175,
    [4] = 0.997296056085470127, [5] = 0.998647112890970173, [6] = 0.999323327502650752, [7] = 0.999661606496243707,
};

struct walk {
    const struct qc_search *search;
    double lo, hi, best;
    uint32_t candidates;
    bool one; /* a single threshold */
};

/* Returns true if the curve keeps the next range. */
static bool curve_takes(const struct qc_curve *c)
{
    return c && c->seen % c->stride == 0 && c->count < QC_CURVE_POINTS;
}

static bool try_on_curve(struct walk *w, double lo, double hi, struct qc_curve *curve)
{
    const struct qc_range *limits = &w->search->limits;
    lo = lo > limits->lo ? lo : limits->lo;
    hi = hi < limits->hi ? hi : limits->hi;
    if (lo == w->lo && hi == w->hi) return false;
    double v = w->search->objective(w->search->user, lo, hi, curve ? (double)INFINITY : w->best);
    if (curve) {
        const bool known = isinf(v) && w->search->refused && curve_takes(curve);
        qc_curve_add(curve,
                     &(struct qc_tried){.lo = lo,
                                        .hi = hi,
                                        .objective = v,
                                        .refused = known ? w->search->refused(w->search->user, lo, hi) : (double)NAN});
    }
    w->candidates++;
    if (!(v < w->best)) return false;
    w->best = v;
    w->lo = lo;
    w->hi = hi;
    return true;
}

static bool try_range(struct walk *w, double lo, double hi)
{
    return try_on_curve(w, lo, hi, NULL);
}

/* Scales both ends, or the one threshold; this gives the reported curve. */
static void joint_grid(struct walk *w)
{
    const struct qc_search *s = w->search;
    double lo = s->limits.lo, hi = s->limits.hi;
    const struct qc_tried widest = {.lo = lo, .hi = hi, .objective = w->best, .refused = (double)NAN};
    if (w->one) {
        double top = -lo > hi ? -lo : hi, floor = lo == 0   ? s->floor_hi
                                                  : hi == 0 ? s->floor_lo
                                                            : fmin(s->floor_lo, s->floor_hi);
        size_t count = 1;
        for (double t = top * QC_GRID_STEP; t >= floor; t *= QC_GRID_STEP) count++;
        qc_curve_begin(s->request->curve, count);
        qc_curve_add(s->request->curve, &widest);
        for (double t = top * QC_GRID_STEP; t >= floor; t *= QC_GRID_STEP) try_on_curve(w, -t, t, s->request->curve);
        return;
    }
    size_t count = 1;
    for (double f = QC_GRID_STEP; - lo * f >= s->floor_lo || hi * f >= s->floor_hi; f *= QC_GRID_STEP) count++;
    qc_curve_begin(s->request->curve, count);
    qc_curve_add(s->request->curve, &widest);
    for (double f = QC_GRID_STEP; - lo * f >= s->floor_lo || hi * f >= s->floor_hi; f *= QC_GRID_STEP)
        try_on_curve(w, lo * f, hi * f, s->request->curve);
}

static void descend(struct walk *w)
{
    const struct qc_search *s = w->search;
    enum { ROUNDS = 6 };
    for (int round = 0; round < ROUNDS; round++) {
        bool moved = false;
        for (double t = s->limits.hi; t >= s->floor_hi; t *= QC_GRID_STEP) moved |= try_range(w, w->lo, t);
        for (double t = -s->limits.lo; t >= s->floor_lo; t *= QC_GRID_STEP) moved |= try_range(w, -t, w->hi);
        if (!moved) return;
    }
}

static void refine(struct walk *w)
{
    enum { MOVES = 8 };
    for (size_t r = 0; r < sizeof refinements / sizeof *refinements; r++) {
        double in = refinements[r], out = 1 / in;
        bool moved = true;
        for (int k = 0; k < MOVES && moved; k++) {
            if (w->one) {
                double t = -w->lo > w->hi ? -w->lo : w->hi;
                moved = try_range(w, -t * in, t * in) || try_range(w, -t * out, t * out);
                continue;
            }
            moved = try_range(w, w->lo, w->hi * in) || try_range(w, w->lo, w->hi * out) ||
                    try_range(w, w->lo * in, w->hi) || try_range(w, w->lo * out, w->hi) ||
                    try_range(w, w->lo * in, w->hi * in) || try_range(w, w->lo * out, w->hi * out) ||
                    try_range(w, w->lo * in, w->hi * out) || try_range(w, w->lo * out, w->hi * in);
        }
    }
}

void qc_search_run(struct qc_range *out, const struct qc_search *s)
{
    double widest = s->objective(s->user, s->limits.lo, s->limits.hi, (double)INFINITY);
    struct walk near = {.search = s,
                        .lo = s->limits.lo,
                        .hi = s->limits.hi,
                        .best = widest,
                        .candidates = 1,
                        .one = s->request->symmetry == QC_SYMMETRIC || s->limits.lo == 0 || s->limits.hi == 0};
    struct walk far = near;
    joint_grid(&near);
    uint32_t extra = 0;
    if (!near.one) {
        descend(&near);
        descend(&far);
        extra = far.candidates - 1;
        if (far.best < near.best) {
            extra = near.candidates - 1;
            near = far;
        }
    }
    refine(&near);
    out->lo = near.lo;
    out->hi = near.hi;
    out->objective = near.best;
    out->objective_minmax = widest;
    out->candidates = near.candidates + extra;
    qc_curve_end(s->request->curve, out);
}

void qc_curve_begin(struct qc_curve *c, size_t count)
{
    if (!c) return;
    c->count = c->seen = 0;
    c->has_runner_up = false;
    c->stride = (count + QC_CURVE_POINTS - 1) / QC_CURVE_POINTS;
}

void qc_curve_add(struct qc_curve *c, const struct qc_tried *tried)
{
    if (!c) return;
    if (curve_takes(c)) c->points[c->count++] = *tried;
    c->seen++;
}

static double threshold(double lo, double hi)
{
    return -lo > hi ? -lo : hi;
}

void qc_curve_end(struct qc_curve *c, const struct qc_range *chosen)
{
    if (!c) return;
    double t = threshold(chosen->lo, chosen->hi);
    for (size_t i = 0; i < c->count; i++) {
        const struct qc_tried *p = &c->points[i];
        double at = threshold(p->lo, p->hi);
        if (isinf(p->objective) || (at > t * QC_GRID_STEP && at * QC_GRID_STEP < t)) continue;
        if (c->has_runner_up && !(p->objective < c->runner_up.objective)) continue;
        c->has_runner_up = true;
        c->runner_up = *p;
    }
}

double qc_bins_value(const struct qc_bin *bins, size_t n, double rank)
{
    double seen = 0;
    for (size_t i = 0; i < n; i++) {
        double c = (double)bins[i].count;
        if (seen + c >= rank) {
            double part = rank > seen ? (rank - seen) / c : 0;
            return bins[i].lo + part * (bins[i].hi - bins[i].lo);
        }
        seen += c;
    }
    return bins[n - 1].hi;
}

void qc_search_floors(struct qc_search *s, const struct qc_bin *bins, size_t n)
{
    size_t negative = 0;
    double below = 0, above = 0;
    for (size_t i = 0; i < n; i++) {
        if (bins[i].lo < 0) {
            negative = i + 1;
            below += (double)bins[i].count;
        } else {
            above += (double)bins[i].count;
        }
    }
    /* Not below the smallest float, where a threshold could reach 0. */
    double deepest = 0x1p-149;
    s->floor_lo = negative ? fmax(deepest, -qc_bins_value(bins, negative, below / 2)) : (double)INFINITY;
    s->floor_hi =
        negative < n ? fmax(deepest, qc_bins_value(bins + negative, n - negative, above / 2)) : (double)INFINITY;
}

void qc_search_deeper(struct qc_search *s)
{
    if (s->limits.lo < 0) s->floor_lo = fmin(s->floor_lo, -s->limits.lo / 64);
    if (s->limits.hi > 0) s->floor_hi = fmin(s->floor_hi, s->limits.hi / 64);
}
