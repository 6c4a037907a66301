// SPDX-License-Identifier: Apache-2.0
#include "observers/kl_tools.h"

#include <math.h>
#include <stdlib.h>

#include "observers/elementary.h"
#include "observers/search.h"

struct tool {
    size_t bins;
    bool magnitudes; /* counts of |x| over [0, top]; else of x over [-top, top] */
    bool whole;      /* Q has integer counts, and none in the remainder bins */
    size_t levels;   /* 0: the quantizer's levels on this data */
};

static const struct tool tools[QC_KL_VARIANTS] = {
    [QC_KL_TENSORRT] = {.bins = 2048, .magnitudes = true},
    [QC_KL_MXNET] = {.bins = 8001},
    [QC_KL_ONNXRUNTIME] = {.bins = 128, .whole = true, .levels = 128},
};

enum { TENSORRT_START = 128 };
static const double SMOOTH = 1e-4;

struct work {
    size_t bins, levels;
    double top;
    bool whole;
    double *count;  /* [bins], integers */
    double *before; /* [bins + 1], counts before a bin */
    double *p, *q;  /* [bins] */
};

static void spread_one(struct work *w, double a, double step, double lo, double hi, double c)
{
    double first = floor((lo - a) / step), last = floor((hi - a) / step), most = (double)w->bins - 1;
    size_t i = first < 0 ? 0 : (size_t)fmin(first, most), end = last < 0 ? 0 : (size_t)fmin(last, most);
    double left = c, width = hi - lo;
    for (; i < end; i++) {
        double to = a + step * (double)(i + 1), from = fmax(lo, a + step * (double)i),
               part = fmin(left, c * ((to - from) / width));
        w->count[i] += part;
        left -= part;
    }
    w->count[end] += left;
}

/* Rounds counts to integers whose running sums are the rounded running sums. */
static void make_whole(struct work *w)
{
    double exact = 0, given = 0;
    for (size_t i = 0; i < w->bins; i++) {
        exact += w->count[i];
        double upto = nearbyint(exact);
        w->count[i] = upto - given;
        given = upto;
    }
}

static void sum_up(struct work *w)
{
    for (size_t i = 0; i < w->bins; i++) w->before[i + 1] = w->before[i] + w->count[i];
}

static bool fill(struct work *w, const struct qc_statistics *s, bool magnitudes, struct qc_status *st)
{
    struct qc_bin *bins = NULL;
    size_t n = 0;
    if (!qc_histogram_bins(&bins, &n, s->histogram, st)) return false;
    w->top = fmax(-s->min, s->max);
    double a = magnitudes ? 0 : -w->top, step = (w->top - a) / (double)w->bins;
    for (size_t i = 0; i < n; i++) {
        bool turn = magnitudes && bins[i].lo < 0;
        spread_one(w, a, step, turn ? -bins[i].hi : bins[i].lo, turn ? -bins[i].lo : bins[i].hi, (double)bins[i].count);
    }
    if (s->zeros) spread_one(w, a, step, 0, 0, (double)s->zeros);
    free(bins);
    make_whole(w);
    return true;
}

/* KL divergence of two vectors that need not be normalised: scipy.stats.entropy(p, q). */
static double divergence(const double *p, const double *q, size_t n)
{
    double sum_p = 0, sum_q = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum_p += p[i];
        sum_q += q[i];
    }
    for (size_t i = 0; i < n; i++) {
        if (!(p[i] > 0)) continue;
        if (!(q[i] > 0)) return (double)INFINITY;
        sum += p[i] / sum_p * qc_logarithm(p[i] / sum_p / (q[i] / sum_q));
    }
    return sum;
}

/* Divergence with the first i bins of |x|; bin k belongs to level floor(k * levels / i). */
static double tensorrt(struct work *w, size_t i)
{
    for (size_t k = 0; k < i; k++) w->p[k] = w->count[k];
    w->p[i - 1] += w->before[w->bins] - w->before[i];
    for (size_t k = 0; k < i;) {
        size_t level = k * w->levels / i, end = k, used = 0;
        double sum = 0;
        for (; end < i && end * w->levels / i == level; end++) {
            sum += w->count[end];
            used += w->count[end] > 0;
        }
        for (; k < end; k++) w->q[k] = w->count[k] > 0 ? sum / (double)used : 0;
    }
    return divergence(w->p, w->q, i);
}

/* Smooths zeros; returns false if that is impossible. */
static bool smooth(double *v, size_t n)
{
    size_t zeros = 0;
    for (size_t i = 0; i < n; i++) zeros += !(v[i] > 0);
    if (zeros == n) return false;
    double taken = SMOOTH * (double)zeros / (double)(n - zeros);
    if (!(taken < 1)) return false;
    for (size_t i = 0; i < n; i++) v[i] += v[i] > 0 ? -taken : SMOOTH;
    return true;
}

/* Divergence with i bins on each side of the middle one. */
static double mxnet(struct work *w, size_t i)
{
    size_t middle = w->bins / 2, from = middle - i, end = middle + i + 1 < w->bins ? middle + i + 1 : w->bins,
           n = end - from;
    size_t merged = n / w->levels;
    for (size_t k = 0; k < n; k++) {
        w->p[k] = w->count[from + k];
        w->q[k] = 0;
    }
    w->p[0] += w->before[from];
    w->p[n - 1] += w->before[w->bins] - w->before[end];
    for (size_t level = 0; level < w->levels; level++) {
        bool last = level + 1 == w->levels;
        size_t start = level * merged, stop = last ? n : start + merged,
               shown = last && w->whole ? start + merged : stop, used = 0;
        double sum = w->before[from + stop] - w->before[from + start];
        for (size_t k = start; k < shown; k++) used += w->p[k] > 0;
        double each = used ? sum / (double)used : 0;
        for (size_t k = start; k < shown; k++) w->q[k] = w->whole ? floor(each) : w->p[k] > 0 ? each : 0;
    }
    return smooth(w->p, n) && smooth(w->q, n) ? divergence(w->p, w->q, n) : (double)INFINITY;
}

static bool grow(struct work *w, size_t bins, struct qc_status *st)
{
    w->bins = bins;
    w->count = calloc(bins, sizeof(double));
    w->before = calloc(bins + 1, sizeof(double));
    w->p = calloc(bins, sizeof(double));
    w->q = calloc(bins, sizeof(double));
    return (w->count && w->before && w->p && w->q) || qc_fail_memory(st, 4 * bins * sizeof(double));
}

bool qc_kl_tool(struct qc_range *out, enum qc_kl_variant variant, size_t bins, const struct qc_statistics *s,
                const struct qc_solve *request, struct qc_range limits, struct qc_status *st)
{
    const struct tool *t = &tools[variant];
    struct work w = {.whole = t->whole};
    size_t all = (size_t)((int64_t)request->levels.hi - request->levels.lo) + 1;
    bool one_sided = s->min >= 0 && request->levels.lo >= 0;
    size_t half = t->magnitudes ? (one_sided ? all : (all + 1) / 2)
                  : one_sided   ? 2 * ((all - 1) | 1) + 1
                                : (all - 1) | 1;
    w.levels = t->levels ? t->levels : half;
    bool ok = grow(&w, bins ? bins : t->bins, st) && fill(&w, s, t->magnitudes, st);
    size_t most = t->magnitudes ? w.bins : w.bins / 2, least = t->magnitudes ? (size_t)TENSORRT_START : w.levels / 2;
    *out = limits;
    if (ok && t->magnitudes && w.bins > 1) w.count[0] = w.count[1];
    if (ok) sum_up(&w);
    if (ok && w.levels <= w.bins && least <= most) {
        double best = (double)INFINITY;
        qc_curve_begin(request->curve, most - least + 1);
        for (size_t i = most + 1; i-- > least;) {
            double edge = t->magnitudes ? (double)i / (double)w.bins : (2 * (double)i + 1) / (double)w.bins;
            double T = i == most ? w.top : fmin(1, edge) * w.top, lo = fmax(limits.lo, -T), hi = fmin(limits.hi, T);
            double v = t->magnitudes ? tensorrt(&w, i) : mxnet(&w, i);
            qc_curve_add(request->curve,
                         &(struct qc_tried){.lo = lo, .hi = hi, .objective = v, .refused = (double)NAN});
            if (i == most) out->objective_minmax = out->objective = v;
            out->candidates = (uint32_t)(most - least + 1);
            if (!(v < best)) continue;
            best = out->objective = v;
            out->lo = lo;
            out->hi = hi;
        }
        qc_curve_end(request->curve, out);
    }
    free(w.count);
    free(w.before);
    free(w.p);
    free(w.q);
    return ok;
}
