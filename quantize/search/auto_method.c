// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/auto_method.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "calib/ablation.h"
#include "calib/ranges/calibrate.h"
#include "calib/trials/input_steps.h"
#include "calib/trials/trial_run.h"
#include "export/report/report.h"
#include "graph/core/rebuild.h"
#include "quantize/make/make.h"
#include "quantize/options/agree.h"
#include "quantize/search/limits.h"
#include "quantize/search/score.h"

/* The trials of --method auto: compares the ranges of several observers by the output error of the quantized network
   (docs/decisions/0030-ranges-by-the-outputs.md). */

enum { QC_AUTO_METHODS = 5 }; /* observers that are tried; the first is the default */

/* The ranges of the observers, and the choice. */
struct found {
    struct qc_network *net;
    struct qc_arena *arena; /* owns the arrays */
    size_t qparams;
    size_t tried;                     /* QC_AUTO_METHODS, or 1 if there are too few samples to compare observers */
    struct qc_method *methods;        /* [tried + 1]: the last one is minmax */
    struct qc_affine *params;         /* [tried + 1][qparams + 1] */
    const struct qc_method **steps;   /* [qparams + 1]: the fixed range of an input on an integer grid, which replaces
                                         every observer; NULL for all other quantizers */
    struct qc_report_choice *choices; /* [qparams + 1] */
    /* Set by try_all: */
    size_t taken; /* the method of all quantizers without `steps` */
    struct qc_report_trial *trials;
    const struct qc_report_trial *chosen;
    size_t trial_count;
};

/* All candidates run on 1/16 of the units; those that may still gain run on more, up to all. The chosen one has run on
   all units: clipping affects few samples, and costs nothing if they do not run. */
static const size_t shares[] = {16, 4, 2, 1};
enum { SHARES = sizeof shares / sizeof *shares };

struct candidate {
    size_t method;
    struct qc_error *errors;   /* [units][outputs] */
    struct qc_error *judged;   /* the same with divergences; equals `errors` if no output is a probability */
    size_t done;               /* number of units it has run on */
    double gain, error, worth; /* over the first candidate, dB */
    struct qc_report_trial *trial;
};

struct race {
    struct found *found;
    struct qc_arena *arena; /* holds the errors of all candidates */
    struct qc_trials *trials;
    size_t outputs, count;
    struct candidate of[QC_AUTO_METHODS];
    struct candidate *running[QC_AUTO_METHODS]; /* running[0] is of[0], the baseline of the others */
};

static struct qc_affine params_of(const struct race *r, const struct candidate *c, qc_id s)
{
    return r->found->params[c->method * (r->found->qparams + 1) + s];
}

/* Makes the graph that would be written with the ranges of running candidate k. */
static bool make_candidate(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct race *r = user;
    struct qc_graph *bound = NULL;
    bool ok = qc_graph_copy(&bound, r->found->net->auto_method->rounded, st);
    for (qc_id s = 1; ok && s <= r->found->qparams; s++) {
        const struct qc_affine q = params_of(r, r->running[k], s);
        ok = q.scale <= 0 || qc_graph_bind_quantizer(bound, s, 1, &q.scale, &q.zero_point, st);
    }
    ok = ok && qc_network_realise(out, r->found->net, bound, st);
    qc_graph_free(bound);
    return ok;
}

static double noise(const struct race *r, const struct candidate *c, size_t end)
{
    return qc_trials_noise(c->errors, r->outputs, 0, end, 1);
}

static bool same_affine(struct qc_affine a, struct qc_affine b)
{
    return !(a.scale < b.scale || a.scale > b.scale) && a.zero_point == b.zero_point;
}

static bool same_params(const struct race *r, const struct candidate *a, const struct candidate *b)
{
    for (qc_id s = 1; s <= r->found->qparams; s++)
        if (!same_affine(params_of(r, a, s), params_of(r, b, s))) return false;
    return true;
}

static bool make_room(struct candidate *c, struct race *r, struct qc_status *st)
{
    const size_t count = qc_trials_units(r->trials) * r->outputs;
    c->errors = c->judged = QC_NEW_ARRAY(r->arena, struct qc_error, count, st);
    if (qc_trials_have_probabilities(r->trials)) c->judged = QC_NEW_ARRAY(r->arena, struct qc_error, count, st);
    return c->errors && c->judged;
}

/* Adds a candidate, unless an earlier one has the same ranges. */
static bool add_candidate(struct race *r, size_t method, struct qc_status *st)
{
    struct candidate *c = &r->of[r->count];
    *c = (struct candidate){.method = method, .trial = &r->found->trials[r->count]};
    for (size_t k = 0; k < r->count; k++)
        if (same_params(r, &r->of[k], c)) return true;
    if (!make_room(c, r, st)) return false;
    r->found->trial_count = ++r->count;
    return true;
}

struct gain {
    double gain, error, worth; /* dB */
};

static bool measure_gain(struct gain *g, const struct race *r, const struct qc_error *from,
                         const struct qc_error *errors, size_t end, struct qc_status *st)
{
    double without;
    if (!qc_trials_gain_error(&g->error, &without, from, errors, r->outputs, end, st)) return false;
    g->gain =
        qc_trials_gain(qc_trials_noise(from, r->outputs, 0, end, 1), qc_trials_noise(errors, r->outputs, 0, end, 1));
    g->worth = fmin(g->gain - QC_RACE_ERRORS_OF / (double)end * g->error, without);
    return true;
}

/* Sets the gain, error and worth of a candidate on `end` units: its gain over mse less QC_RACE_ERRORS_OF / end standard
   errors, at most the gain without the best unit (docs/decisions/0030-ranges-by-the-outputs.md). For probabilities the
   worth is the greater one of both measures, or the smaller one if that may be a loss. */
static bool weigh(struct candidate *c, const struct race *r, size_t end, struct qc_status *st)
{
    const struct candidate *from = &r->of[0];
    struct gain more, other;
    if (!measure_gain(&more, r, from->errors, c->errors, end, st)) return false;
    other = more;
    if (c->judged != c->errors && !measure_gain(&other, r, from->judged, c->judged, end, st)) return false;
    if (other.worth > more.worth) {
        const struct gain swapped = more;
        more = other;
        other = swapped;
    }
    c->gain = more.gain;
    c->error = more.error;
    c->worth = other.worth > -QC_RACE_LOSS_DB ? more.worth : other.worth;
    return true;
}

static void note_trial(const struct race *r, const struct candidate *c, size_t end)
{
    *c->trial = (struct qc_report_trial){.method = r->found->methods[c->method].name,
                                         .sqnr_db = -10 * log10(noise(r, c, end)),
                                         .gain_db = c->gain,
                                         .error_db = c->error,
                                         .worth_db = c->worth,
                                         .samples = end};
}

/* Runs the first `count` running candidates on the units up to `end`. */
static bool run_on(struct race *r, size_t count, size_t end, struct qc_status *st)
{
    struct qc_error *errors[QC_AUTO_METHODS] = {NULL}, *judged[QC_AUTO_METHODS] = {NULL};
    const size_t done = r->of[0].done;
    bool ok = true;
    for (size_t k = 0; k < count; k++) {
        errors[k] = r->running[k]->errors;
        judged[k] = r->running[k]->judged;
    }
    ok = qc_trials_run(errors, r->of[0].judged != r->of[0].errors ? judged : NULL, r->trials, make_candidate, r, count,
                       done, end - done, st);
    for (size_t k = 0; ok && k < count; k++) {
        r->running[k]->done = end;
        ok = !k || weigh(r->running[k], r, end, st);
        if (ok) note_trial(r, r->running[k], end);
    }
    return ok;
}

/* True if c may be worth more than QC_RACE_GAIN_DB on all units. Its gain on all units differs from the gain so far by
   the standard error of the remaining units. */
static bool may_gain(const struct race *r, const struct candidate *c)
{
    const double all = (double)qc_trials_units(r->trials), share = (double)c->done / all;
    return !isfinite(c->error) || c->gain + QC_RACE_CHANCE * c->error * sqrt(1 - share) >
                                      QC_RACE_GAIN_DB + QC_RACE_ERRORS_OF / all * c->error * sqrt(share);
}

static size_t share_units(const struct race *r, size_t share)
{
    const size_t all = qc_trials_units(r->trials), part = all / share,
                 least = all < QC_RACE_UNITS_FIRST ? all : QC_RACE_UNITS_FIRST;
    return part > least ? part : least;
}

/* Runs all candidates on some units and those that may gain on more, and chooses the one with the greatest worth. */
static bool run_race(struct race *r, struct qc_status *st)
{
    const struct candidate *best = &r->of[0];
    size_t running = 0;
    for (size_t m = 0; m < r->found->tried; m++)
        if (!add_candidate(r, m, st)) return false;
    for (; running < r->count; running++) r->running[running] = &r->of[running];
    for (size_t h = 0; h < SHARES && (!h || running > 1); h++) {
        size_t left = 1;
        if (!run_on(r, running, share_units(r, shares[h]), st)) return false;
        for (size_t k = 1; k < running; k++)
            if (may_gain(r, r->running[k])) r->running[left++] = r->running[k];
        running = left;
    }
    for (size_t k = 1; k < running; k++)
        if (r->running[k]->worth > fmax(QC_RACE_GAIN_DB, best->worth)) best = r->running[k];
    best->trial->chosen = true;
    r->found->chosen = best->trial;
    r->found->taken = best->method;
    return true;
}

/* Runs the trials and sets the members above. Errors: those of runs. */
static bool try_all_observers(struct found *f, struct qc_status *st)
{
    struct race r = {.found = f, .arena = qc_arena_new()};
    const struct qc_trial_options how = qc_trial_options_of(f->net);
    f->trials = QC_NEW_ARRAY(f->arena, struct qc_report_trial, QC_AUTO_METHODS, st);
    bool ok = (r.arena || qc_fail_memory(st, 1)) && f->trials &&
              qc_trials_new(&r.trials, f->net->real, f->net->setup->data, QC_RACE_UNITS_MAX, &how, st);
    if (ok) r.outputs = qc_trials_parts(r.trials)->count;
    ok = ok && run_race(&r, st);
    qc_trials_free(r.trials);
    qc_arena_free(r.arena);
    return ok;
}

/* Returns true if the observers give some quantizer different ranges, or an input is on an integer grid. If only one
   observer is tried: if there is a quantizer with a range. */
static bool ranges_differ(const struct found *found)
{
    const size_t row = found->qparams + 1;
    for (qc_id s = 1; s < row; s++) {
        if (found->steps[s] || (found->tried == 1 && found->params[s].scale > 0)) return true;
        for (size_t m = 1; m < found->tried; m++)
            if (!same_affine(found->params[s], found->params[m * row + s])) return true;
    }
    return false;
}

static const char *const tried[QC_AUTO_METHODS] = {"mse", "mse:clip=3", "mse:clip=6", "mse:clip=16", "percentile"};
static const char *const whole = "minmax"; /* the full range, in which look_at_inputs looks for a step */

/* Finds the network input that a quantizer observes, directly or through Transpose and Reshape. Returns false if there
   is none, or if the input is not float32. */
static bool network_input(size_t *input, const struct qc_graph *g, const struct qc_qparams *q)
{
    qc_id v = q->observed_count == 1 ? q->observed[0] : 0;
    for (const struct qc_node *n; v && (n = qc_node_of(g, v)); v = n->inputs[0])
        if (n->op != QC_OP_Transpose && n->op != QC_OP_Reshape) return false;
    for (size_t i = 0; v && i < g->input_count; i++) {
        if (g->inputs[i].value != v) continue;
        *input = i;
        return g->values[v].type.dtype == QC_F32;
    }
    return false;
}

/* If all values of an input are multiples of one step, sets the quantizer's scale from the step: lossless. */
static bool take_steps(struct found *f, qc_id s, size_t input, struct qc_status *st)
{
    const size_t row = f->qparams + 1;
    const struct qc_qparams *q = &f->net->simulated->qparams_of[s];
    const struct qc_levels levels = qc_qparams_levels(q);
    const struct qc_affine *all = &f->params[f->tried * row + s];
    if (levels.mantissa) return true; /* float types: levels far from zero are more than one step apart */
    double step, lo = (double)all->scale * (levels.lo - all->zero_point),
                 hi = (double)all->scale * (levels.hi - all->zero_point);
    if (!qc_input_step_once(&step, &f->net->evidence->steps[input], f->net->setup->data, input,
                            (double)levels.hi - levels.lo, st))
        return false;
    if (!qc_range_of_step(&lo, &hi, step, levels, q->symmetry) || qc_ablated("input_steps")) return true;
    struct qc_method *own = QC_NEW_ARRAY(f->arena, struct qc_method, 1, st);
    char name[64];
    qc_text(name, sizeof name, "fixed:min=%.9g,max=%.9g", lo, hi);
    if (!own || !(own->name = qc_arena_strdup(f->arena, name, st)) ||
        !qc_observer_parse(&own->observer, &own->values, own->name, st))
        return false;
    f->steps[s] = own;
    for (size_t k = 0; k <= f->tried; k++) f->params[k * row + s] = qc_affine_from_range(lo, hi, levels, q->symmetry);
    return true;
}

/* Looks for inputs that were integers. */
static bool look_at_inputs(struct found *f, struct qc_status *st)
{
    const struct qc_graph *g = f->net->simulated;
    if (!f->net->evidence->steps &&
        !(f->net->evidence->steps = QC_NEW_ARRAY(f->net->setup->arena, struct qc_input_steps, g->input_count, st)))
        return false;
    for (qc_id s = 1; s <= f->qparams; s++) {
        size_t input;
        if (f->params[s].scale > 0 && network_input(&input, g, &g->qparams_of[s]) && !take_steps(f, s, input, st))
            return false;
    }
    return true;
}

static bool solve(struct found *f, struct qc_status *st)
{
    struct qc_network *net = f->net;
    struct qc_arena *a = f->arena;
    f->qparams = net->simulated->qparams_count;
    f->tried = qc_dataset_units(net->setup->data) > QC_OBSERVER_UNITS_FEW ? QC_AUTO_METHODS : 1;
    f->methods = QC_NEW_ARRAY(a, struct qc_method, f->tried + 1, st);
    f->params = QC_NEW_ARRAY(a, struct qc_affine, (f->tried + 1) * (f->qparams + 1), st);
    f->steps = QC_NEW_ARRAY(a, const struct qc_method *, f->qparams + 1, st);
    f->choices = QC_NEW_ARRAY(a, struct qc_report_choice, f->qparams + 1, st);
    if (!f->methods || !f->params || !f->steps || !f->choices) return false;
    for (size_t m = 0; m <= f->tried; m++) {
        f->methods[m].name = m < f->tried ? tried[m] : whole;
        if (!qc_observer_parse(&f->methods[m].observer, &f->methods[m].values, f->methods[m].name, st)) return false;
    }
    return qc_solve_methods(f->params, net->simulated, net->evidence->statistics, qc_dataset_file(net->setup->data),
                            f->methods, f->tried + 1, &net->scheme.calibration, st) &&
           look_at_inputs(f, st);
}

/* Makes the graph that all trials start from: ranges of mse, weights rounded. */
static bool make_base(struct found *f, struct qc_status *st)
{
    struct qc_network *net = f->net;
    struct qc_auto_method *m = net->auto_method;
    struct qc_calibration *usual = NULL;
    const struct qc_round_weights_options how = qc_network_rounding(net);
    const bool rounds = qc_rounds_weights(net->scheme.settings) && qc_network_moments(net);
    const bool ok =
        qc_bind_params(&usual, net->simulated, net->evidence->statistics, qc_dataset_file(net->setup->data), f->params,
                       &net->scheme.calibration, st) &&
        (rounds ? qc_round_weights(&m->rounding, &m->rounded, net->simulated, qc_network_moments(net), &how, st)
                : qc_network_store_nearest(&m->rounded, net, st));
    qc_calibration_free(usual);
    return ok;
}

bool qc_auto_method_find(struct qc_network *net, struct qc_status *st)
{
    const double t0 = qc_seconds();
    struct qc_auto_method *m = calloc(1, sizeof *m);
    struct found f = {.net = net};
    struct qc_graph *unbound = NULL;
    if (!m || !(m->arena = qc_arena_new())) {
        free(m);
        return qc_fail_memory(st, sizeof *m);
    }
    net->auto_method = m;
    f.arena = m->arena;
    if (!solve(&f, st)) return false;
    if (!(m->methods = QC_NEW_ARRAY(m->arena, const struct qc_method *, f.qparams + 1, st))) return false;
    if (!ranges_differ(&f)) { /* weight-only quantization, or all activations are zero */
        net->scheme.calibration.methods = m->methods;
        return true;
    }
    const bool ok = make_base(&f, st) && try_all_observers(&f, st) && qc_simulate(&unbound, net->partition, st);
    for (qc_id s = 1; ok && s <= f.qparams; s++)
        if (f.params[s].scale > 0) {
            m->methods[s] = f.steps[s] ? f.steps[s] : &f.methods[f.taken];
            f.choices[s] = (struct qc_report_choice){.trial = f.steps[s] ? NULL : f.chosen, .steps = f.steps[s]};
        }
    if (ok) {
        m->trials = f.trials;
        m->trial_count = f.trial_count;
        m->choices = f.choices;
        qc_graph_free(net->simulated);
        net->simulated = unbound;
    }
    if (ok) net->scheme.calibration.methods = m->methods;
    m->rounding_seconds = m->rounding ? m->rounding->seconds : 0;
    m->seconds = qc_seconds() - t0 - m->rounding_seconds;
    return ok;
}
