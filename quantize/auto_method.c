// SPDX-License-Identifier: Apache-2.0
#include "quantize/auto_method.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "calib/trials/trial_run.h"
#include "graph/core/rebuild.h"
#include "quantize/pipeline_state.h"

/* The observers that are tried, the one that is fallen back to first. */
static const char *const tried[] = {"mse", "mse:clip=2", "mse:clip=4", "mse:clip=16", "minmax", "percentile", "kl"};
enum { METHODS = sizeof tried / sizeof *tried };

/* Units that are run: a share of all, so that it stays below the time of calibration. */
enum { SHARE = 2, UNITS_MIN = 16, UNITS_MAX = 256 };

/* What is so far behind the best after the first quarter of the units is not run on. */
static const double BEHIND_DB = 2;
/* What is asked of each half. */
static const double GAIN_DB = 0.03;

struct finding {
    struct qc_pipeline *p;
    struct qc_auto_method *m;
    struct qc_trials *trials;
    const struct qc_graph *base; /* bound with mse, weights rounded */
    size_t spaces, outputs;
    struct qc_method *methods; /* [METHODS] */
    struct qc_affine *params;  /* [METHODS][space_count + 1] */
    size_t running;            /* candidates that are run */
    size_t which[METHODS];     /* their methods */
    struct qc_error *errors[METHODS];
};

/* The graph that would be written, with the ranges of one method. */
static bool make_graph(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct finding *f = user;
    const struct qc_affine *params = f->params + f->which[k] * (f->spaces + 1);
    struct qc_graph *bound = NULL, *expanded = NULL, *folded = NULL;
    struct qc_rebuild copy;
    bool ok = qc_rebuild_begin(&copy, f->base, st) && qc_rebuild_finish(&bound, &copy, st);
    qc_rebuild_free(&copy);
    for (qc_id s = 1; ok && s <= f->spaces; s++)
        ok = params[s].scale <= 0 || qc_graph_bind_quantizer(bound, s, 1, &params[s].scale, &params[s].zero_point, st);
    ok = ok && qc_propagate_qdq(&expanded, bound, f->p->rules, f->p->scheme.one_scale_joins, st) &&
         qc_fold(&folded, expanded, f->p->fold_rules, st) && qc_to_integer(out, folded, qc_evaluate, st);
    qc_graph_free(folded);
    qc_graph_free(expanded);
    qc_graph_free(bound);
    return ok;
}

/* Noise to signal over units first, first + step, ..., below end: the mean over the outputs, each relative to its own
   signal, so that the worst decides. */
static double noise(const struct finding *f, size_t k, size_t first, size_t end, size_t step)
{
    double mean = 0;
    size_t counted = 0;
    for (size_t o = 0; o < f->outputs; o++) {
        struct qc_error e = {0};
        for (size_t u = first; u < end; u += step) qc_error_add(&e, &f->errors[k][u * f->outputs + o]);
        if (!e.count || !(e.signal > 0)) continue;
        mean += isnan(e.noise) ? (double)INFINITY : e.noise / e.signal;
        counted++;
    }
    return counted ? mean / (double)counted : 0;
}

/* How much less noise candidate k has than the first; 0 where both have none. */
static double gain(const struct finding *f, size_t k, size_t first, size_t end, size_t step)
{
    const double base = noise(f, 0, first, end, step), other = noise(f, k, first, end, step);
    return base > 0 || other > 0 ? 10 * log10(base / other) : 0;
}

static bool same_params(const struct finding *f, size_t a, size_t b)
{
    for (size_t s = 1; s <= f->spaces; s++) {
        const struct qc_affine *x = &f->params[a * (f->spaces + 1) + s], *y = &f->params[b * (f->spaces + 1) + s];
        if (x->scale < y->scale || x->scale > y->scale || x->zero_point != y->zero_point) return false;
    }
    return true;
}

/* Methods that give no other range than an earlier one are not run. */
static bool begin(struct finding *f, struct qc_status *st)
{
    struct qc_arena *a = f->m->arena;
    const size_t units = qc_trials_units(f->trials);
    for (size_t m = 0; m < METHODS; m++) {
        bool known = false;
        for (size_t k = 0; k < m; k++) known = known || same_params(f, k, m);
        if (known) continue;
        f->which[f->running] = m;
        if (!(f->errors[f->running++] = QC_NEW_ARRAY(a, struct qc_error, units * f->outputs, st))) return false;
    }
    f->m->trial_count = f->running;
    f->m->trials = QC_NEW_ARRAY(a, struct qc_report_trial, f->running, st);
    return f->m->trials != NULL;
}

/* All candidates on some units, those that keep up on all; *best: the method to take. */
static bool race(size_t *best, struct finding *f, struct qc_status *st)
{
    const size_t all = qc_trials_units(f->trials), quarter = all / 4, some = quarter > 8 ? quarter : all < 8 ? all : 8;
    size_t trial[METHODS], kept = 0, at = 0;
    if (!qc_trials_run(f->errors, f->trials, make_graph, f, f->running, 0, some, st)) return false;
    double ahead = 0, most = 0;
    for (size_t k = 0; k < f->running; k++) ahead = fmax(ahead, gain(f, k, 0, some, 1));
    for (size_t k = 0; k < f->running; k++) {
        const double db = gain(f, k, 0, some, 1);
        f->m->trials[k] = (struct qc_report_trial){.method = f->methods[f->which[k]].name,
                                                   .sqnr_db = -10 * log10(noise(f, k, 0, some, 1)),
                                                   .gain_db = db,
                                                   .gains_db = {(double)NAN, (double)NAN},
                                                   .samples = some};
        if (k && !(db > ahead - BEHIND_DB)) continue;
        f->which[kept] = f->which[k];
        f->errors[kept] = f->errors[k];
        trial[kept++] = k;
    }
    f->running = kept;
    if (!qc_trials_run(f->errors, f->trials, make_graph, f, kept, some, all - some, st)) return false;
    for (size_t k = 0; k < kept; k++) {
        struct qc_report_trial *t = &f->m->trials[trial[k]];
        bool holds = all > 1;
        t->sqnr_db = -10 * log10(noise(f, k, 0, all, 1));
        t->gain_db = gain(f, k, 0, all, 1);
        t->samples = all;
        for (size_t h = 0; h < 2; h++) {
            t->gains_db[h] = gain(f, k, h, all, 2);
            holds = holds && t->gains_db[h] > GAIN_DB;
        }
        if (!holds || !(t->gain_db > most)) continue;
        most = t->gain_db;
        at = k;
    }
    f->m->trials[trial[at]].chosen = true;
    *best = f->which[at];
    return true;
}

static bool solve(struct finding *f, struct qc_status *st)
{
    struct qc_pipeline *p = f->p;
    struct qc_arena *a = f->m->arena;
    f->spaces = p->simulated->qparams_count;
    f->outputs = p->real->output_count;
    f->methods = QC_NEW_ARRAY(a, struct qc_method, METHODS, st);
    f->params = QC_NEW_ARRAY(a, struct qc_affine, METHODS * (f->spaces + 1), st);
    f->m->methods = QC_NEW_ARRAY(a, const struct qc_method *, f->spaces + 1, st);
    if (!f->methods || !f->params || !f->m->methods) return false;
    for (size_t m = 0; m < METHODS; m++) {
        f->methods[m].name = tried[m];
        if (!qc_observer_parse(&f->methods[m].observer, &f->methods[m].values, tried[m], st)) return false;
    }
    return qc_solve_methods(f->params, p->simulated, p->seen, qc_dataset_file(p->data), f->methods, METHODS,
                            &p->calibration_options, st);
}

static bool try_all(size_t *best, struct finding *f, struct qc_status *st)
{
    const struct qc_pipeline *p = f->p;
    const struct qc_trial_options how = {
        .how = {.rounding = QC_CONTRACT_ONNX}, /* what is written does not depend on --rounding */
        .workers = (unsigned)p->options->threads,
        .memory_limit = (size_t)p->options->memory_limit,
        .progress = qc_progress_step,
        .progress_user = p->progress};
    size_t wanted = qc_dataset_units(p->data) / SHARE;
    wanted = wanted < UNITS_MIN ? UNITS_MIN : wanted > UNITS_MAX ? UNITS_MAX : wanted;
    const bool ok = qc_trials_new(&f->trials, p->real, p->data, wanted, &how, st) && begin(f, st) && race(best, f, st);
    qc_trials_free(f->trials);
    return ok;
}

/* The network with the ranges of mse and its weights rounded: what trials are made of. *rounded: NULL, or owned. */
static bool make_base(struct finding *f, struct qc_graph **rounded, const struct qc_second_moments *moments,
                      const struct qc_round_weights_options *rounding, struct qc_status *st)
{
    struct qc_pipeline *p = f->p;
    struct qc_calibration *usual = NULL;
    struct qc_weight_rounding *done = NULL;
    const bool ok = qc_choose(&usual, p->simulated, p->seen, qc_dataset_file(p->data), &p->calibration_options, st) &&
                    (!rounding || qc_round_weights(&done, rounded, p->simulated, moments, rounding, st));
    qc_weight_rounding_free(done);
    qc_calibration_free(usual);
    f->base = *rounded ? *rounded : p->simulated;
    return ok;
}

bool qc_auto_method_find(struct qc_pipeline *p, const struct qc_second_moments *moments,
                         const struct qc_round_weights_options *rounding, struct qc_status *st)
{
    const double t0 = qc_seconds();
    struct qc_auto_method *m = calloc(1, sizeof *m);
    struct finding f = {.p = p, .m = m};
    struct qc_graph *rounded = NULL, *unbound = NULL;
    size_t best = 0;
    if (!m || !(m->arena = qc_arena_new())) {
        free(m);
        return qc_fail_memory(st, sizeof *m);
    }
    p->auto_method = m;
    const bool ok = solve(&f, st) && make_base(&f, &rounded, moments, rounding, st) && try_all(&best, &f, st) &&
                    qc_simulate(&unbound, p->partition, st);
    for (qc_id s = 1; ok && s <= f.spaces; s++)
        if (f.params[s].scale > 0) m->methods[s] = &f.methods[best];
    if (ok) {
        qc_graph_free(p->simulated);
        p->simulated = unbound;
    }
    qc_graph_free(rounded);
    m->seconds = qc_seconds() - t0;
    return ok;
}

void qc_auto_method_free(struct qc_auto_method *m)
{
    if (!m) return;
    qc_arena_free(m->arena);
    free(m);
}
