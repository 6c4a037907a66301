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
   monotone function does not change the divergence. The other variants follow other tools: observers/kl_tools.h. */
#include <math.h>
#include <stdlib.h>

#include "arith/float_level.h"
#include "base/simd.h"
#include "observers/elementary.h"
#include "observers/kl_tools.h"
#include "observers/moments.h"
#include "observers/observer.h"
#include "observers/search.h"

enum { OWN_BINS = 2048 };

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

static void spread(struct density *d, const struct qc_bin *bins, size_t n)
{
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

static bool smooth(struct density *d, double h, struct qc_status *st)
{
    /* Two boxes of 2w + 1 bins have the variance ((2w + 1)^2 - 1) D^2 / 6. */
    double ratio = h / d->step, w = nearbyint((sqrt(6 * ratio * ratio + 1) - 1) / 2);
    if (!(w >= 1)) return true;
    size_t half = w < (double)(d->bins / 4) ? (size_t)w : d->bins / 4;
    size_t bytes = (d->bins + 2 * half + 1) * sizeof(double);
    double *sums = calloc(d->bins + 2 * half + 1, sizeof(double));
    if (!sums) return qc_fail_memory(st, bytes);
    box(d->mass, d->bins, half, sums);
    box(d->mass, d->bins, half, sums);
    free(sums);
    return true;
}

static bool build_density(struct density *d, const struct qc_statistics *s, const struct qc_bin *bins, size_t n,
                          size_t count, struct qc_status *st)
{
    *d = (struct density){.a = s->min < 0 ? s->min : 0, .b = s->max > 0 ? s->max : 0, .bins = count};
    d->step = (d->b - d->a) / (double)count;
    d->mass = calloc(2 * count + 1, sizeof(double));
    if (!d->mass) return qc_fail_memory(st, (2 * count + 1) * sizeof(double));
    d->cumulative = d->mass + count;
    spread(d, bins, n);
    if (!smooth(d, bandwidth(bins, n), st)) return false;
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

static QC_INLINE void logarithms_body(double *y, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = qc_logarithm(x[i]);
}
QC_SIMD(logarithms, (double *y, const double *x, size_t n), (y, x, n))

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

static double objective(const void *user, double lo, double hi, double enough)
{
    (void)enough;
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

static bool solve(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                  struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    enum qc_kl_variant variant = (enum qc_kl_variant)values->v[1];
    if (variant >= QC_KL_TENSORRT) return qc_kl_tool(out, variant, (size_t)values->v[0], s, request, limits, st);
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
            .limits = limits, .request = request, .objective = objective, .refused = divergence_of, .user = &p};
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
    .solve = solve,
};
