// SPDX-License-Identifier: Apache-2.0
/* mse: the range whose quantizer has the least mean |error|^norm; norm 2 is the mean squared error. The quantizer has
   the scale and zero point of qc_affine_from_range, with saturation and the rounding of the zero point. The objective
   is that mean over all finite values (exact zeros cost nothing but count), or of f(dequantized) - f(x) after a
   function. clip=C counts errors of clipped values C times: they lie in few places, always to the same side, and do not
   average out in the next layer as rounding errors do. The signal's power is constant, so the least squared error is
   also the best SQNR. */
#include <math.h>
#include <stdlib.h>

#include "observers/elementary.h"
#include "observers/moments.h"
#include "observers/observer.h"
#include "observers/search.h"

struct problem {
    const struct qc_moments *moments;
    const struct qc_solve *request;
    double count, norm, clip, unit;
};

static double objective_mse(const void *user, double lo, double hi, double enough)
{
    const struct problem *p = user;
    const struct qc_solve *r = p->request;
    const double bound = enough * p->count * (1 + 1e-12); /* whatever the division below rounds to */
    if (isfinite(bound) && qc_moments_above(p->moments, bound, lo, hi, r->levels, r->symmetry, p->clip))
        return (double)INFINITY;
    return qc_moments_clip_error(p->moments, lo, hi, r->levels, r->symmetry, p->clip) / p->count;
}

static double objective_of_norm(const void *user, double lo, double hi, double enough)
{
    const struct problem *p = user;
    const struct qc_solve *r = p->request;
    const double bound = enough * p->count * (1 + 1e-12); /* whatever the division below rounds to */
    return qc_moments_power_error(p->moments, lo, hi, r->levels, r->symmetry, p->norm, p->unit, bound) / p->count;
}

static bool solve_mse(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                      struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    struct qc_moments *moments = NULL;
    struct qc_bin *bins = NULL;
    size_t n = 0;
    bool ok = qc_histogram_bins(&bins, &n, s->histogram, st) &&
              qc_moments_new(&moments, s->histogram, qc_moments_look(request), st);
    if (ok) {
        struct problem p = {.moments = moments,
                            .request = request,
                            .count = (double)s->count,
                            .norm = values->v[0],
                            .clip = values->v[1]};
        p.unit = -limits.lo > limits.hi ? -limits.lo : limits.hi;
        struct qc_search search = {.limits = limits, .request = request, .objective = objective_mse, .user = &p};
        qc_search_floors(&search, bins, n);
        if (qc_moments_behind(moments)) qc_search_deeper(&search);
        if (p.norm != 2) search.objective = objective_of_norm;
        qc_search_run(out, &search);
        out->behind = qc_moments_behind(moments);
        if (p.norm != 2) { /* errors were in units of p.unit */
            const double factor = qc_power(p.unit, p.norm);
            struct qc_curve *curve = request->curve;
            out->objective *= factor;
            out->objective_minmax *= factor;
            for (size_t i = 0; curve && i < curve->count; i++) curve->points[i].objective *= factor;
            if (curve && curve->has_runner_up) curve->runner_up.objective *= factor;
        }
    }
    qc_moments_free(moments);
    free(bins);
    return ok;
}

static const struct qc_observer_option options[] = {
    {.name = "norm", .help = "power of the error that is minimized", .preset = 2, .min = 1, .max = 8},
    {.name = "clip", .help = "with norm 2, weight of the errors of clipped values", .preset = 1, .min = 1, .max = 1e6},
};

const struct qc_observer qc_observer_mse = {
    .name = "mse",
    .summary = "the least mean |error|^norm after quantization (norm 2: best SQNR); for outputs that are numbers",
    .need = QC_NEED_HISTOGRAM,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .solve = solve_mse,
};

/* Solves with norm 2, ignoring the options. */
static bool solve_squared(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                          struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    const struct qc_observer_values squared = {.v = {2, 1}};
    return solve_mse(out, s, request, limits, &squared, st);
}

/* auto: each tensor gets the range of the observer that serves the outputs of the network best, which is found by
   running the network (quantize/search/auto_method.c). With a histogram alone it is mse with norm 2. */
const struct qc_observer qc_observer_auto = {
    .name = "auto",
    .summary = "for each tensor the observer that gives the network's outputs the least error, found by running the "
               "network; the default",
    .need = QC_NEED_HISTOGRAM,
    .of_network = true,
    .solve = solve_squared,
};

/* output: the error of the layers' outputs. For weights it is d' E[x x'] d for an output with weight errors d and
   inputs x (calib/ranges/calibrate_parts.h). For activations it is the error of each channel times the squared weights
   that read it; solve gets a histogram weighted so (calib/ranges/calibrate_choose.c). If either is unknown it is mse
   with norm 2. */
const struct qc_observer qc_observer_output = {
    .name = "output",
    .summary = "the least mean squared error of the next layers' outputs",
    .need = QC_NEED_HISTOGRAM,
    .of_output = true,
    .solve = solve_squared,
};
