// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/auto_trials.h"

#include <math.h>

#include "calib/trials/trial_run.h"
#include "graph/core/rebuild.h"
#include "quantize/pipeline_state.h"
#include "quantize/trials/trial_graph.h"

/* All candidates run on 1/16 of the units, at least UNITS_FIRST; those that may still gain run on more, up to all. The
   chosen one has run on all units: clipping affects few samples, and costs nothing if they do not run. */
static const size_t shares[] = {16, 4, 2, 1};
enum { SHARES = sizeof shares / sizeof *shares, UNITS_FIRST = 8, UNITS_MAX = 256 };
/* On n units the worth of a candidate is its gain over mse minus ERRORS_OF / n standard errors: ranges are chosen and
   compared on the same units, which matters less with more of them. The worth is at most the gain without the best
   unit. A candidate replaces mse only if it is worth more than GAIN_DB
   (docs/decisions/0030-ranges-by-the-outputs.md). A candidate stops if it would need a gain on the remaining units that
   is CHANCE standard errors above the gain so far. */
static const double ERRORS_OF = 64, GAIN_DB = 0.2, CHANCE = 2;
/* For outputs of Softmax or Sigmoid both divergence and squared error count: a candidate that gains by one of them and
   may lose more than LOSS_DB by the other is rejected. */
static const double LOSS_DB = 0.1;

struct candidate {
    size_t method;
    struct qc_error *errors;   /* [units][outputs] */
    struct qc_error *judged;   /* the same with divergences; equals `errors` if no output is a probability */
    size_t done;               /* number of units it has run on */
    double gain, error, worth; /* over the first candidate, dB */
    struct qc_report_trial *trial;
};

struct race {
    struct qc_auto_found *found;
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
static bool make_graph(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct race *r = user;
    struct qc_graph *bound = NULL;
    struct qc_rebuild copy;
    bool ok = qc_rebuild_begin(&copy, r->found->base, st) && qc_rebuild_finish(&bound, &copy, st);
    qc_rebuild_free(&copy);
    for (qc_id s = 1; ok && s <= r->found->qparams; s++) {
        const struct qc_affine q = params_of(r, r->running[k], s);
        ok = q.scale <= 0 || qc_graph_bind_quantizer(bound, s, 1, &q.scale, &q.zero_point, st);
    }
    ok = ok && qc_trial_graph(out, r->found->p, bound, st);
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
static bool add(struct race *r, size_t method, struct qc_status *st)
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

static bool measure(struct gain *g, const struct race *r, const struct qc_error *from, const struct qc_error *errors,
                    size_t end, struct qc_status *st)
{
    double without;
    if (!qc_trials_gain_error(&g->error, &without, from, errors, r->outputs, end, st)) return false;
    g->gain =
        qc_trials_gain(qc_trials_noise(from, r->outputs, 0, end, 1), qc_trials_noise(errors, r->outputs, 0, end, 1));
    g->worth = fmin(g->gain - ERRORS_OF / (double)end * g->error, without);
    return true;
}

/* Sets the gain, error and worth of a candidate on `end` units. For probabilities the worth is the greater one of both
   measures, or the smaller one if that may be a loss. */
static bool weigh(struct candidate *c, const struct race *r, size_t end, struct qc_status *st)
{
    const struct candidate *from = &r->of[0];
    struct gain more, other;
    if (!measure(&more, r, from->errors, c->errors, end, st)) return false;
    other = more;
    if (c->judged != c->errors && !measure(&other, r, from->judged, c->judged, end, st)) return false;
    if (other.worth > more.worth) {
        const struct gain swapped = more;
        more = other;
        other = swapped;
    }
    c->gain = more.gain;
    c->error = more.error;
    c->worth = other.worth > -LOSS_DB ? more.worth : other.worth;
    return true;
}

static void note(const struct race *r, const struct candidate *c, size_t end)
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
    ok = qc_trials_run(errors, r->of[0].judged != r->of[0].errors ? judged : NULL, r->trials, make_graph, r, count,
                       done, end - done, st);
    for (size_t k = 0; ok && k < count; k++) {
        r->running[k]->done = end;
        ok = !k || weigh(r->running[k], r, end, st);
        if (ok) note(r, r->running[k], end);
    }
    return ok;
}

/* True if c may be worth more than GAIN_DB on all units. Its gain on all units differs from the gain so far by the
   standard error of the remaining units. */
static bool may_gain(const struct race *r, const struct candidate *c)
{
    const double all = (double)qc_trials_units(r->trials), share = (double)c->done / all;
    return !isfinite(c->error) ||
           c->gain + CHANCE * c->error * sqrt(1 - share) > GAIN_DB + ERRORS_OF / all * c->error * sqrt(share);
}

static size_t units_of(const struct race *r, size_t share)
{
    const size_t all = qc_trials_units(r->trials), part = all / share, least = all < UNITS_FIRST ? all : UNITS_FIRST;
    return part > least ? part : least;
}

/* Runs all candidates on some units and those that may gain on more, and chooses the one with the greatest worth. */
static bool run_race(struct race *r, struct qc_status *st)
{
    const struct candidate *best = &r->of[0];
    size_t running = 0;
    for (size_t m = 0; m < r->found->tried; m++)
        if (!add(r, m, st)) return false;
    for (; running < r->count; running++) r->running[running] = &r->of[running];
    for (size_t h = 0; h < SHARES && (!h || running > 1); h++) {
        size_t left = 1;
        if (!run_on(r, running, units_of(r, shares[h]), st)) return false;
        for (size_t k = 1; k < running; k++)
            if (may_gain(r, r->running[k])) r->running[left++] = r->running[k];
        running = left;
    }
    for (size_t k = 1; k < running; k++)
        if (r->running[k]->worth > fmax(GAIN_DB, best->worth)) best = r->running[k];
    best->trial->chosen = true;
    r->found->chosen = best->trial;
    r->found->taken = best->method;
    return true;
}

bool qc_auto_try_all(struct qc_auto_found *f, struct qc_status *st)
{
    struct race r = {.found = f, .arena = qc_arena_new(), .outputs = f->p->real->output_count};
    const struct qc_trial_options how = qc_trial_options_of(f->p);
    f->trials = QC_NEW_ARRAY(f->arena, struct qc_report_trial, QC_AUTO_METHODS, st);
    const bool ok = (r.arena || qc_fail_memory(st, 1)) && f->trials &&
                    qc_trials_new(&r.trials, f->p->real, f->p->from->data, UNITS_MAX, &how, st) && run_race(&r, st);
    qc_forget_integers(f->p);
    qc_trials_free(r.trials);
    qc_arena_free(r.arena);
    return ok;
}

bool qc_auto_ranges_differ(const struct qc_auto_found *found)
{
    const size_t row = found->qparams + 1;
    for (qc_id s = 1; s < row; s++) {
        if (found->steps[s] || (found->tried == 1 && found->params[s].scale > 0)) return true;
        for (size_t m = 1; m < found->tried; m++)
            if (!same_affine(found->params[s], found->params[m * row + s])) return true;
    }
    return false;
}
