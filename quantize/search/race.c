// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/race.h"

#include <math.h>

#include "base/scope.h"
#include "quantize/make/make.h"
#include "quantize/search/searches.h"

/* Candidates run on 1/16 of the units first, at least QC_RACE_UNITS_FIRST. The winner has run on all units: clipping
   affects few samples, and costs nothing if they do not run. */
static const size_t shares[] = {16, 4, 2, 1};
enum { SHARES = sizeof shares / sizeof *shares };

struct runner {
    struct qc_error *errors; /* [units][outputs] */
    struct qc_error *judged; /* the same with divergences; equals `errors` if no output is a probability */
    struct qc_race_result *result;
};

struct race {
    const struct qc_race_field *field;
    const struct qc_race_terms *terms;
    struct runner *of;           /* [count] */
    size_t *running, left;       /* running[0] is 0, the baseline */
    struct qc_error **errors[2]; /* [left]: those of the running candidates */
    size_t done, runs;           /* units that have run, and runs of candidates on units */
};

static double doubt(const struct race *r, size_t units)
{
    return r->terms->expected ? 0 : fmin(QC_RACE_ERRORS_MOST, QC_RACE_ERRORS_OF / (double)units);
}

static bool weigh_by(struct qc_race_result *to, const struct race *r, const struct qc_error *from,
                     const struct qc_error *errors, struct qc_status *st)
{
    const size_t outputs = r->field->outputs;
    double without;
    if (!qc_trials_gain_error(&to->error, &without, from, errors, outputs, r->done, st)) return false;
    to->gain =
        qc_trials_gain(qc_trials_noise(from, outputs, 0, r->done, 1), qc_trials_noise(errors, outputs, 0, r->done, 1));
    to->worth = fmin(to->gain - doubt(r, r->done) * to->error, without);
    return true;
}

/* Sets the result of a candidate on the units so far. */
static bool weigh(const struct race *r, const struct runner *c, struct qc_status *st)
{
    const struct runner *from = &r->of[0];
    struct qc_race_result by_error = {0}, more, other;
    if (c != from && !weigh_by(&by_error, r, from->errors, c->errors, st)) return false;
    more = other = by_error;
    if (c != from && c->judged != c->errors && !weigh_by(&other, r, from->judged, c->judged, st)) return false;
    if (other.worth > more.worth) {
        more = other;
        other = by_error;
    }
    *c->result = more;
    c->result->units = r->done;
    c->result->sqnr_db = -10 * log10(qc_trials_noise(c->errors, r->field->outputs, 0, r->done, 1));
    if (!(other.worth > -QC_RACE_LOSS_DB)) c->result->worth = other.worth;
    return true;
}

/* Stops candidates that cannot win, then those of least gain until the others can run to `end` within the budget. */
static void stop_early(struct race *r, size_t end)
{
    const size_t spare = r->terms->budget > r->runs ? r->terms->budget - r->runs : 0,
                 room = r->terms->budget && end > r->done ? spare / (end - r->done) : r->field->count;
    const double share = (double)r->done / (double)r->field->units;
    size_t left = 1;
    /* A candidate may win if it may be worth more than asked for on all units. Its gain on all units differs from the
       gain so far by the standard error of the remaining units. */
    for (size_t k = 1; k < r->left; k++) {
        const struct qc_race_result *c = r->of[r->running[k]].result;
        if (!isfinite(c->error) || c->gain + QC_RACE_CHANCE * c->error * sqrt(1 - share) >
                                       r->terms->least_db + doubt(r, r->field->units) * c->error * sqrt(share))
            r->running[left++] = r->running[k];
    }
    for (; left > 2 && left > room; left--) {
        size_t least = 1;
        for (size_t k = 2; k < left; k++)
            if (r->of[r->running[k]].result->gain < r->of[r->running[least]].result->gain) least = k;
        for (size_t k = least; k + 1 < left; k++) r->running[k] = r->running[k + 1];
    }
    r->left = left;
}

bool qc_race_among(struct qc_race_result *results, size_t *best, const struct qc_race_field *field,
                   const struct qc_race_terms *terms, struct qc_status *st)
{
    struct race r = {.field = field, .terms = terms};
    QC_ARENA_SCOPE *a = qc_arena_new();
    const bool all_at_once = !terms->budget || field->count * field->units <= terms->budget;
    const size_t least = field->units < QC_RACE_UNITS_FIRST ? field->units : QC_RACE_UNITS_FIRST;
    if (!a) return qc_fail_memory(st, 1);
    r.of = QC_NEW_ARRAY(a, struct runner, field->count, st);
    r.running = QC_NEW_ARRAY(a, size_t, field->count, st);
    for (size_t i = 0; i < 2; i++) r.errors[i] = QC_NEW_ARRAY(a, struct qc_error *, field->count, st);
    if (!r.of || !r.running || !r.errors[0] || !r.errors[1]) return false;
    for (size_t k = 0; k < field->count; k++) {
        struct runner *c = &r.of[k];
        c->errors = c->judged = QC_NEW_ARRAY(a, struct qc_error, field->units * field->outputs + 1, st);
        if (field->probabilities) c->judged = QC_NEW_ARRAY(a, struct qc_error, field->units * field->outputs + 1, st);
        if (!c->errors || !c->judged) return false;
        c->result = &results[k];
        r.running[r.left++] = k;
    }
    for (size_t h = all_at_once ? SHARES - 1 : 0; h < SHARES && (!r.done || r.left > 1); h++) {
        const size_t part = field->units / shares[h], end = part > least ? part : least;
        if (r.done) stop_early(&r, end);
        if (!r.done || r.left > 1) {
            /* Run the running candidates on the units up to `end`. */
            for (size_t k = 0; k < r.left; k++) {
                r.errors[0][k] = r.of[r.running[k]].errors;
                r.errors[1][k] = r.of[r.running[k]].judged;
            }
            bool ok = field->run(field->user, r.errors[0], field->probabilities ? r.errors[1] : NULL, r.running, r.left,
                                 r.done, end - r.done, st);
            r.runs += r.left * (end - r.done);
            r.done = end;
            for (size_t k = 0; ok && k < r.left; k++) ok = weigh(&r, &r.of[r.running[k]], st);
            if (!ok) return false;
        }
    }
    *best = 0;
    for (size_t k = 1; k < field->count; k++)
        if (results[k].units == results[0].units && results[k].worth > (*best ? results[*best].worth : terms->least_db))
            *best = k;
    return true;
}

/* ---- Graphs as candidates ---- */

struct graphs {
    struct qc_trials *trials;
    const struct qc_trial_graphs *all;
    const size_t *which;
};

static bool make_running(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct graphs *g = user;
    return g->all->make(g->all->user, out, g->which[k], st);
}

static bool run_graphs(void *user, struct qc_error *const *errors, struct qc_error *const *judged, const size_t *which,
                       size_t count, size_t first, size_t n, struct qc_status *st)
{
    struct graphs *g = user;
    g->which = which;
    const struct qc_trial_graphs running = {make_running, g, count};
    return qc_trials_run(errors, judged, g->trials, &running, first, n, st);
}

bool qc_race(struct qc_race_result *results, size_t *best, const struct qc_network *net,
             const struct qc_trial_graphs *graphs, const struct qc_race_terms *terms, struct qc_status *st)
{
    struct qc_trial_options how = qc_trial_options_of(net);
    struct graphs g = {.all = graphs};
    how.held = terms->held;
    if (!qc_trials_new(&g.trials, net->real, net->setup->data, terms->units, &how, st)) return false;
    const struct qc_race_field field = {.count = graphs->count,
                                        .units = qc_trials_units(g.trials),
                                        .outputs = qc_trials_parts(g.trials)->count,
                                        .probabilities = qc_trials_have_probabilities(g.trials),
                                        .run = run_graphs,
                                        .user = &g};
    const bool ok = qc_race_among(results, best, &field, terms, st);
    qc_trials_free(g.trials);
    return ok;
}

struct pair {
    const struct qc_network *net;
    const struct qc_graph *const *graphs;
};

static bool realise(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct pair *p = user;
    return qc_network_realise(out, p->net, p->graphs[k], st);
}

bool qc_race_of_graphs(struct qc_race_result *second, bool *gains, const struct qc_network *net,
                       const struct qc_graph *const graphs[2], const struct qc_race_terms *terms, struct qc_status *st)
{
    struct pair p = {net, graphs};
    struct qc_race_result results[2];
    size_t best;
    if (!qc_race(results, &best, net, &(const struct qc_trial_graphs){realise, &p, 2}, terms, st)) return false;
    *second = results[1];
    *gains = best == 1;
    return true;
}

struct networks {
    const struct qc_network *const *of;
};

static bool copy_produced(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct networks *n = user;
    return qc_graph_copy(out, n->of[k]->produced, st);
}

bool qc_race_of_networks(struct qc_race_result *results, size_t *best, const struct qc_network *job,
                         const struct qc_network *const *networks, size_t count, const struct qc_race_terms *terms,
                         struct qc_status *st)
{
    struct networks n = {networks};
    return qc_race(results, best, job, &(const struct qc_trial_graphs){copy_produced, &n, count}, terms, st);
}
