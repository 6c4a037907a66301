// SPDX-License-Identifier: Apache-2.0
/* kl: the range whose quantizer loses the least information about where a value lies.

   P is the density of the values that are not exactly zero (zero is always a level, so no scale harms it). It has
   `bins` bins of equal width D over [a, b], the observed extremes widened to 0. It is smoothed by the triangular kernel
   (two box filters of 2w + 1 bins, mirrored at a and b) whose standard deviation is nearest to Silverman's rule
   (Density Estimation, 1986, eq. 3.31): h = 0.9 min(standard deviation, interquartile range / 1.349) N^(-1/5). Without
   smoothing, few samples and repeated values (8-bit images, constant channels) look like structure that only a finer
   scale could keep.

   Q is the density that the quantized values imply: the mass of level k is spread evenly over its cell, the part of [a,
   b] that quantizes to k under the real scale and zero point. The cell of an end level reaches to a or b, so clipped
   values count for every place in the clipped range where they could have been. Q > 0 wherever P > 0, hence no further
   smoothing. With m_k = P(cell k) and w_k its width:
     KL(P || Q) = integral of p ln(p / q) = sum_i p_i ln(p_i / D) - sum_k m_k ln(m_k / w_k).
   The first sum is the same for all ranges (D goes into the logarithms of the second); the second takes one look-up in
   the cumulative P per level.

   The divergence knows shapes, not distances: to resolve a sharp peak with most of the mass it would clip every large
   value. So a range is admitted only if its squared error (observers/moments.h) is not above that of the widest range,
   with errors of clipped values counted 16 times (clip=16). Large values are few but can carry the signal of gates and
   logits, where finer rounding does not make up for clipping. Behind a function (struct qc_output_function) the error
   there must not be larger either. The divergence itself does not change under a monotone function: the image of a cell
   is a cell.

   With as many levels as bins, cells are narrower than bins from the start: the widest range is the answer.

   variant=symmetric uses the Jensen-Shannon divergence of the same P and Q (bin by bin, M = (P + Q) / 2) instead:
     JS = (KL(P || M) + KL(Q || M)) / 2,
   which is symmetric in P and Q and never above ln 2. Behind a function both use the squared error there, because a
   monotone function does not change the divergence. The other variants follow other tools (below). */
#include <math.h>
#include <stdlib.h>

#include "arith/float_level.h"
#include "base/simd.h"
#include "observers/elementary.h"
#include "observers/moments.h"
#include "observers/observer.h"
#include "observers/search.h"

/* In the order of the choices of option `variant`. */
enum qc_kl_variant { QC_KL_QUANTIZER, QC_KL_SYMMETRIC, QC_KL_TENSORRT, QC_KL_MXNET, QC_KL_ONNXRUNTIME, QC_KL_VARIANTS };

/* Entropy calibration as other tools define it (docs/observer-formulas.md names the sources).

   All use counts on bins of equal width, exact zeros included, and try thresholds T at bin edges. P is the counts
   within T, with the counts beyond added to its end bins. Q is the counts within T merged to the quantizer's levels and
   spread evenly over those bins of each level where P is not 0. The T of least KL(P || Q) wins; of equal ones the
   widest. The range is [-T, T] cut to the limits.
     tensorrt     |x| on `bins` bins (2048); the first bin is given the count of the second; T from 128 bins up;
                  Q == 0 where P > 0 rules T out
     mxnet        x on `bins` bins (8001) over [-max, max]; 255 levels, 511 on data >= 0 with unsigned types; zeros of
                  P and Q are smoothed by 1e-4
     onnxruntime  as mxnet on 128 bins with 128 levels: a single T, hence min-max; Q is truncated to integer counts, its
                  remainder bins are empty */

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

enum { TENSORRT_START = 128 };        /* levels of a range of magnitudes in int8, as in TensorRT */
static const double ZERO_MASS = 1e-4; /* of an empty bin, as in MXNet */

struct work {
    size_t bins, levels;
    double top;
    bool whole;
    double *count;  /* [bins], integers; one allocation with the others */
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

static bool fill_bins(struct work *w, const struct qc_statistics *s, bool magnitudes, struct qc_status *st)
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
    /* Round counts to integers whose running sums are the rounded running sums */
    double exact = 0, given = 0;
    for (size_t i = 0; i < w->bins; i++) {
        exact += w->count[i];
        double upto = nearbyint(exact);
        w->count[i] = upto - given;
        given = upto;
    }
    return true;
}

/* KL divergence of two vectors that need not be normalised: scipy.stats.entropy(p, q). */
static double entropy(const double *p, const double *q, size_t n)
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
    return entropy(w->p, w->q, i);
}

/* Smooths zeros; returns false if that is impossible. */
static bool smooth_zeros(double *v, size_t n)
{
    size_t zeros = 0;
    for (size_t i = 0; i < n; i++) zeros += !(v[i] > 0);
    if (zeros == n) return false;
    double taken = ZERO_MASS * (double)zeros / (double)(n - zeros);
    if (!(taken < 1)) return false;
    for (size_t i = 0; i < n; i++) v[i] += v[i] > 0 ? -taken : ZERO_MASS;
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
    return smooth_zeros(w->p, n) && smooth_zeros(w->q, n) ? entropy(w->p, w->q, n) : (double)INFINITY;
}

/* Solves one of the last three variants; bins 0: the tool's own number. Sets lo, hi, objectives and candidates. Fails
   if memory is out. */
static bool kl_tool(struct qc_range *out, enum qc_kl_variant variant, size_t bins, const struct qc_statistics *s,
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
    w.bins = bins ? bins : t->bins;
    w.count = calloc(4 * w.bins + 1, sizeof(double));
    if (!w.count) return qc_fail_memory(st, (4 * w.bins + 1) * sizeof(double));
    w.before = w.count + w.bins;
    w.p = w.before + w.bins + 1;
    w.q = w.p + w.bins;
    const bool ok = fill_bins(&w, s, t->magnitudes, st);
    size_t most = t->magnitudes ? w.bins : w.bins / 2, least = t->magnitudes ? (size_t)TENSORRT_START : w.levels / 2;
    *out = limits;
    if (ok && t->magnitudes && w.bins > 1) w.count[0] = w.count[1];
    for (size_t i = 0; ok && i < w.bins; i++) w.before[i + 1] = w.before[i] + w.count[i];
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
    return ok;
}

enum { OWN_BINS = 2048 }; /* as many as TensorRT has */

struct density {
    double a, b, step;
    size_t bins;
    double *mass;       /* [bins], sum 1 */
    double *cumulative; /* [bins + 1], mass below the lower edge of a bin */
    double information; /* sum of p_i ln p_i */
};

struct problem {
    struct density density;
    struct qc_moments *moments, *behind; /* behind: NULL if there is no function */
    const struct qc_solve *request;
    double most_error, clip, count;
    bool symmetric;
};

static size_t bin_of(const struct density *d, double x)
{
    double i = (x - d->a) / d->step;
    return i <= 0 ? 0 : i >= (double)d->bins ? d->bins - 1 : (size_t)i;
}

/* Box filter of 2w + 1 bins, mirrored at both ends; w < bins. sums: [bins + 2w + 1]. */
static void box(double *mass, size_t bins, size_t w, double *sums)
{
    sums[0] = 0;
    for (size_t i = 0; i < bins + 2 * w; i++) {
        size_t at = i < w ? w - 1 - i : i - w < bins ? i - w : 2 * bins - 1 - (i - w);
        sums[i + 1] = sums[i] + mass[at];
    }
    for (size_t i = 0; i < bins; i++) mass[i] = (sums[i + 2 * w + 1] - sums[i]) / (double)(2 * w + 1);
}

static double bandwidth(const struct qc_bin *bins, size_t n)
{
    double count = 0, mean = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        count += (double)bins[i].count;
        mean += (double)bins[i].count * (0.5 * (bins[i].lo + bins[i].hi));
    }
    mean /= count;
    for (size_t i = 0; i < n; i++) {
        double x = 0.5 * (bins[i].lo + bins[i].hi) - mean;
        square += (double)bins[i].count * x * x;
    }
    double deviation = sqrt(square / count);
    double quartiles = (qc_bins_value(bins, n, 0.75 * count) - qc_bins_value(bins, n, 0.25 * count)) / 1.349;
    double width = quartiles > 0 && quartiles < deviation ? quartiles : deviation;
    return 0.9 * width * pow(count, -0.2);
}

static bool build_density(struct density *d, const struct qc_statistics *s, const struct qc_bin *bins, size_t n,
                          size_t count, struct qc_status *st)
{
    *d = (struct density){.a = s->min < 0 ? s->min : 0, .b = s->max > 0 ? s->max : 0, .bins = count};
    d->step = (d->b - d->a) / (double)count;
    d->mass = calloc(2 * count + 1, sizeof(double));
    if (!d->mass) return qc_fail_memory(st, (2 * count + 1) * sizeof(double));
    d->cumulative = d->mass + count;
    for (size_t i = 0; i < n; i++) {
        const struct qc_bin *q = &bins[i];
        size_t first = bin_of(d, q->lo), last = bin_of(d, q->hi);
        double c = (double)q->count, left = c, width = q->hi - q->lo;
        for (size_t k = first; k < last; k++) {
            double from = d->a + d->step * (double)k, to = from + d->step;
            double part = c * ((to - (q->lo > from ? q->lo : from)) / width);
            part = part < 0 ? 0 : part > left ? left : part;
            d->mass[k] += part;
            left -= part;
        }
        d->mass[last] += left;
    }
    /* Two boxes of 2w + 1 bins have the variance ((2w + 1)^2 - 1) D^2 / 6. */
    double ratio = bandwidth(bins, n) / d->step, w = nearbyint((sqrt(6 * ratio * ratio + 1) - 1) / 2);
    if (w >= 1) {
        size_t half = w < (double)(count / 4) ? (size_t)w : count / 4;
        double *sums = calloc(count + 2 * half + 1, sizeof(double));
        if (!sums) return qc_fail_memory(st, (count + 2 * half + 1) * sizeof(double));
        box(d->mass, count, half, sums);
        box(d->mass, count, half, sums);
        free(sums);
    }
    double total = 0;
    for (size_t i = 0; i < count; i++) total += d->mass[i];
    for (size_t i = 0; i < count; i++) {
        double p = d->mass[i] > 0 ? d->mass[i] / total : 0; /* running sums may give -1e-17 */
        d->mass[i] = p;
        d->cumulative[i + 1] = d->cumulative[i] + p;
        if (p > 0x1p-1000) d->information += p * qc_logarithm(p);
    }
    return true;
}

static double mass_below(const struct density *d, double t)
{
    double u = (t - d->a) / d->step;
    if (u <= 0) return 0;
    if (u >= (double)d->bins) return d->cumulative[d->bins];
    size_t i = (size_t)u;
    return d->cumulative[i] + (u - (double)i) * d->mass[i];
}

QC_VECTOR(logarithms, (double *y, const double *x, size_t n), (y, x, n))
{
    for (size_t i = 0; i < n; i++) y[i] = qc_logarithm(x[i]);
}

/* Masses of cells, and the ratios whose logarithms they are multiplied by. */
struct cells {
    size_t count;
    double mass[64], ratio[64];
};

/* Returns sum + m ln(ratio) over the cells, and empties them. */
static double add_cells(double sum, struct cells *c)
{
    double logarithm[sizeof c->ratio / sizeof *c->ratio];
    logarithms(logarithm, c->ratio, c->count);
    for (size_t i = 0; i < c->count; i++) sum += c->mass[i] * logarithm[i];
    c->count = 0;
    return sum;
}

static double divergence(const struct density *d, struct qc_affine p, struct qc_levels levels)
{
    double s = (double)p.scale, from = d->a, below = 0, sum = 0;
    struct cells cells = {.count = 0};
    int64_t first, last;
    qc_level_numbers(&first, &last, levels, p.zero_point);
    for (int64_t k = first; k <= last && from < d->b; k++) {
        double to = k < last ? qc_level_edge(k, levels) * s : d->b;
        if (to <= from) continue;
        if (to > d->b) to = d->b;
        double upto = mass_below(d, to), m = upto - below;
        if (m > 0x1p-1000) {
            cells.mass[cells.count] = m;
            cells.ratio[cells.count++] = m * (d->step / (to - from));
        }
        if (cells.count == sizeof cells.mass / sizeof *cells.mass) sum = add_cells(sum, &cells);
        from = to;
        below = upto;
    }
    return d->information - add_cells(sum, &cells);
}

/* p ln(p / m) of one bin, m = (p + q) / 2. */
static double against_mean(double p, double q)
{
    return p > 0x1p-1000 ? p * qc_logarithm(p / (0.5 * (p + q))) : 0;
}

static double jensen_shannon(const struct density *d, struct qc_affine p, struct qc_levels levels)
{
    double s = (double)p.scale, from = d->a, below = 0, q = 0, sum = 0;
    size_t bin = 0;
    int64_t first, last;
    qc_level_numbers(&first, &last, levels, p.zero_point);
    for (int64_t k = first; k <= last && from < d->b; k++) {
        double to = k < last ? qc_level_edge(k, levels) * s : d->b;
        if (to <= from) continue;
        if (to > d->b) to = d->b;
        double upto = mass_below(d, to), density = (upto - below) / (to - from);
        for (; bin < d->bins; bin++) {
            double edge = bin + 1 < d->bins ? d->a + d->step * (double)(bin + 1) : d->b;
            if (edge > to) break;
            q += density * (edge - from);
            sum += against_mean(d->mass[bin], q) + against_mean(q, d->mass[bin]);
            q = 0;
            from = edge;
        }
        q += density * (to - from);
        from = to;
        below = upto;
    }
    return 0.5 * sum;
}

static double divergence_of(const void *user, double lo, double hi)
{
    const struct problem *p = user;
    const struct qc_solve *r = p->request;
    struct qc_affine affine = qc_affine_from_range(lo, hi, r->levels, r->symmetry);
    return p->symmetric ? jensen_shannon(&p->density, affine, r->levels) : divergence(&p->density, affine, r->levels);
}

static double objective_kl(const void *user, double lo, double hi, double enough)
{
    const struct problem *p = user;
    const struct qc_solve *r = p->request;
    if (qc_moments_above(p->moments, p->most_error, lo, hi, r->levels, r->symmetry, p->clip)) return (double)INFINITY;
    return divergence_of(user, lo, hi);
}

/* Squared error after the function: a monotone function does not change the divergence, so only the error shows its
   effect. */
static double objective_behind(const void *user, double lo, double hi, double enough)
{
    const struct problem *p = user;
    const struct qc_solve *r = p->request;
    const double bound = enough * p->count * (1 + 1e-12); /* margin for the rounding of the division below */
    if (isfinite(bound) && qc_moments_above(p->behind, bound, lo, hi, r->levels, r->symmetry, 1))
        return (double)INFINITY;
    return qc_moments_squared_error(p->behind, lo, hi, r->levels, r->symmetry) / p->count;
}

static bool solve_kl(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                     struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    enum qc_kl_variant variant = (enum qc_kl_variant)values->v[1];
    if (variant >= QC_KL_TENSORRT) return kl_tool(out, variant, (size_t)values->v[0], s, request, limits, st);
    size_t count = values->v[0] > 0 ? (size_t)values->v[0] : OWN_BINS, n = 0;
    if (qc_level_count(request->levels) >= (int64_t)count) {
        *out = limits;
        return true;
    }
    const struct qc_output_function *look = qc_moments_look(request);
    struct problem p = {.request = request, .symmetric = variant == QC_KL_SYMMETRIC};
    struct qc_bin *bins = NULL;
    bool ok = qc_histogram_bins(&bins, &n, s->histogram, st) && build_density(&p.density, s, bins, n, count, st) &&
              qc_moments_new(&p.moments, s->histogram, NULL, st) &&
              (!look || qc_moments_new(&p.behind, s->histogram, look, st));
    if (ok) {
        p.most_error = qc_moments_squared_error(p.moments, limits.lo, limits.hi, request->levels, request->symmetry);
        p.clip = values->v[2];
        p.count = (double)s->count;
        struct qc_search search = {
            .limits = limits, .request = request, .objective = objective_kl, .refused = divergence_of, .user = &p};
        qc_search_floors(&search, bins, n);
        const bool behind = p.behind && qc_moments_behind(p.behind);
        if (behind) {
            search.objective = objective_behind;
            search.refused = NULL;
            qc_search_deeper(&search);
        }
        qc_search_run(out, &search);
        out->behind = behind;
    }
    qc_moments_free(p.behind);
    qc_moments_free(p.moments);
    free(p.density.mass);
    free(bins);
    return ok;
}

static const char *const variants[QC_KL_VARIANTS] = {
    [QC_KL_QUANTIZER] = "quantizer", [QC_KL_SYMMETRIC] = "symmetric",     [QC_KL_TENSORRT] = "tensorrt",
    [QC_KL_MXNET] = "mxnet",         [QC_KL_ONNXRUNTIME] = "onnxruntime",
};

static const struct qc_observer_option options[] = {
    {.name = "bins",
     .help = "bins of the compared density; 0: those of the variant (2048, mxnet 8001, onnxruntime 128)",
     .max = 65536,
     .integer = true},
    {.name = "variant",
     .help = "definition of the divergence: qcalib's quantizer cells, the same with Jensen-Shannon, or that of a tool",
     .max = QC_KL_VARIANTS - 1,
     .choice_count = QC_KL_VARIANTS,
     .choices = variants},
    {.name = "clip",
     .help = "qcalib's variants: weight of clipping errors when a range is compared with min-max",
     .preset = 16,
     .min = 1,
     .max = 1e6},
};

const struct qc_observer qc_observer_kl = {
    .name = "kl",
    .summary = "least KL(P || Q) of the nonzero values and their quantized form, among ranges no worse than min-max in "
               "MSE",
    .need = QC_NEED_HISTOGRAM,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .solve = solve_kl,
};
