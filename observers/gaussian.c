// SPDX-License-Identifier: Apache-2.0
/* gaussian: the optimal threshold if the values had a Gaussian or Laplace distribution (ACIQ: Banner, Nahshan, Soudry,
   "Post training 4-bit quantization of convolutional networks for rapid-deployment", NeurIPS 2019, eq. 5 and 8, with
   our number of steps in place of their 2^M).

   Over the values that are not zero: centre c (their mean if the range is free at both ends; 0 if it is symmetric or
   one-sided), d = mean |x - c|, sigma^2 = mean (x - c)^2. With u = T / b, b = sigma (Gaussian) or d (Laplace), step = T
   / h, h = steps per T:
     error / b^2 = clip(u) + u^2 / (12 h^2)
     Gaussian: clip(u) = 2 ((1 + u^2) Q(u) - u phi(u)),  derivative zero at u / (6 h^2) = 4 (phi(u) - u Q(u))
     Laplace:  clip(u) = 2 exp(-u),                      derivative zero at u / (6 h^2) = 2 exp(-u)
   u is found by bisection and rounded to 1/1024, so that the last bits of erfc do not matter. The range is [c - T, c +
   T], cut to the limits. law=auto chooses the law whose d / sigma is nearer: sqrt(2/pi) = 0.798 or 1/sqrt(2) = 0.707.
   The objective is the error, b^2 times the formula. Floating-point levels have errors in proportion to the values,
   whatever the range; their range is the widest. */
#include <math.h>
#include <stdlib.h>

#include "observers/observer.h"
#include "observers/search.h"

enum { LAW_AUTO, LAW_GAUSSIAN, LAW_LAPLACE, LAWS };

static double gaussian_tail(double u)
{
    return 0.5 * erfc(u * 0.70710678118654752440);
}

static double gaussian_density(double u)
{
    return 0.39894228040143267794 * exp(-0.5 * u * u);
}

static double error_of(bool laplace, double u, double h)
{
    double clip = laplace ? 2 * exp(-u) : 2 * ((1 + u * u) * gaussian_tail(u) - u * gaussian_density(u));
    return clip + u * u / (12 * h * h);
}

static double best_threshold(bool laplace, double h)
{
    double lo = 0, hi = 64;
    for (int i = 0; i < 60; i++) {
        double u = 0.5 * (lo + hi), gain = laplace ? 2 * exp(-u) : 4 * (gaussian_density(u) - u * gaussian_tail(u));
        if (u / (6 * h * h) < gain)
            lo = u;
        else
            hi = u;
    }
    return nearbyint(lo * 1024) / 1024;
}

struct moments {
    double centre, mean, deviation; /* d, sigma */
};

static struct moments moments_of(const struct qc_bin *bins, size_t n, bool centred)
{
    double count = 0, sum = 0, absolute = 0, square = 0;
    for (size_t i = 0; i < n; i++) {
        count += (double)bins[i].count;
        sum += (double)bins[i].count * (0.5 * (bins[i].lo + bins[i].hi));
    }
    struct moments m = {.centre = centred ? sum / count : 0};
    for (size_t i = 0; i < n; i++) {
        double x = fabs(0.5 * (bins[i].lo + bins[i].hi) - m.centre);
        absolute += (double)bins[i].count * x;
        square += (double)bins[i].count * x * x;
    }
    m.mean = absolute / count;
    m.deviation = sqrt(square / count);
    return m;
}

static bool solve_gaussian(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                           struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    struct qc_bin *bins = NULL;
    size_t n = 0;
    if (!qc_histogram_bins(&bins, &n, s->histogram, st)) return false;
    bool one_sided = limits.lo == 0 || limits.hi == 0, symmetric = request->symmetry == QC_SYMMETRIC;
    struct moments m = moments_of(bins, n, !one_sided && !symmetric);
    free(bins);
    double steps = (double)((int64_t)request->levels.hi - request->levels.lo),
           h = one_sided && !symmetric ? steps : steps / 2;
    bool laplace = values->v[0] == LAW_LAPLACE || (values->v[0] == LAW_AUTO && m.mean < 0.7525 * m.deviation);
    double b = laplace ? m.mean : m.deviation, u = best_threshold(laplace, h), T = fmax(u * b, m.mean);
    *out = limits;
    if (!(b > 0) || request->levels.mantissa) return true; /* one value: [min(0, c), max(0, c)] */
    out->lo = fmin(0, fmax(limits.lo, m.centre - T));
    out->hi = fmax(0, fmin(limits.hi, m.centre + T));
    double widest = fmax(limits.hi - m.centre, m.centre - limits.lo);
    out->objective = b * b * error_of(laplace, fmin(T, widest) / b, h);
    out->objective_minmax = b * b * error_of(laplace, widest / b, h);
    if (request->curve) {
        qc_curve_begin(request->curve, QC_CURVE_POINTS);
        for (double t = widest; t >= b && request->curve->count < QC_CURVE_POINTS; t *= QC_GRID_STEP)
            qc_curve_add(request->curve, &(struct qc_tried){.lo = fmin(0, fmax(limits.lo, m.centre - t)),
                                                            .hi = fmax(0, fmin(limits.hi, m.centre + t)),
                                                            .objective = b * b * error_of(laplace, t / b, h),
                                                            .refused = (double)NAN});
        qc_curve_end(request->curve, out);
    }
    return true;
}

static const char *const laws[LAWS] = {[LAW_AUTO] = "auto", [LAW_GAUSSIAN] = "gaussian", [LAW_LAPLACE] = "laplace"};

static const struct qc_observer_option options[] = {
    {.name = "law", .help = "of the values that are not zero", .max = LAWS - 1, .choice_count = LAWS, .choices = laws},
};

const struct qc_observer qc_observer_gaussian = {
    .name = "gaussian",
    .summary = "least MSE in closed form for a Gaussian or Laplace law (ACIQ); for few samples or few bits",
    .need = QC_NEED_HISTOGRAM,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .solve = solve_gaussian,
};
