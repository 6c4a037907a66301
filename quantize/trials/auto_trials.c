// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/auto_trials.h"

#include <math.h>

#include "calib/trials/trial_run.h"
#include "graph/core/rebuild.h"
#include "quantize/pipeline_state.h"
#include "quantize/trials/trial_graph.h"

/* What is too far behind the best after a part of the units is not run on, nor what so many are better than. What is
   taken has run on all: what a range cuts off is of a few samples, and costs nothing where these do not run. */
static const struct {
    size_t part; /* one in so many units */
    double behind_db;
    size_t places; /* beside mse */
} heats[] = {{16, 1.5, 5}, {6, 0.7, 2}, {2, 0.5, 2}, {1, 0, 0}};
enum { HEATS = sizeof heats / sizeof *heats, UNITS_FIRST = 8, UNITS_MAX = 256 };
/* A gain counts less so many standard errors of it, of DOUBT_UNITS units or fewer DOUBT_FEW; with more of them less by
   their number, since ranges are made from the samples that they are judged on. What is then worth less than GAIN_DB
   over the first is not taken (docs/decisions/0030-ranges-by-the-outputs.md). What could be worth that only if its gain
   on the units to come were so many standard errors from what it is, is not run on. */
static const double DOUBT = 2, DOUBT_FEW = 3, DOUBT_UNITS = 32, GAIN_DB = 0.2, CHANCE = 1.5;
/* Of parts the best of sixteen is taken, so its gain is luck more often than that of the best of five: it counts less
   so many times as many errors. */
static const double DOUBT_PARTS = 2;
/* What gains so many errors with the first few units is not behind another yet. */
static const double SURE = 2;
/* What is no more than this part of it without one unit is that one's luck. */
static const double LEFT = 0.25;
/* Where outputs are of Softmax or Sigmoid, divergence counts as squared errors do: what gains by one of them and may
   lose more than this by the other is not taken. */
static const double LOSS_DB = 0.1;

/* Where another observer is tried while the rest stays, once one is taken for all: in each fourth of the quantizers in
   the order of the network; not with fewer than so many units, which cannot tell that from luck. */
enum { PARTS = 4, WIDER_LITTLE = PARTS, WIDER_MORE, WHOLE_NETWORK, AS_TAKEN, PART_UNITS = 150 };
static const char *const part_names[] = {"part 1 of 4", "part 2 of 4", "part 3 of 4", "part 4 of 4", "all", "all"};
/* What reaches further cuts off less of samples that it was not made from than these show, and is another draw of
   rounding. That counts for it, so less is asked of it. */
static const double WIDER_DB = 0.1;
static const size_t in_parts[] = {0, 3, 4, 5}; /* of the methods */
enum { IN_PARTS = sizeof in_parts / sizeof *in_parts, CANDIDATES = PARTS * IN_PARTS + 1 };

struct candidate {
    size_t method;
    size_t part;               /* where: below PARTS, WHOLE_NETWORK; with AS_TAKEN and WIDER_...: nowhere */
    struct qc_error *errors;   /* [units][outputs] */
    struct qc_error *judged;   /* the same with divergences; without outputs that are probabilities: `errors` */
    size_t done;               /* units that it has run */
    double gain, error, worth; /* over the first of its round, dB */
    struct qc_report_trial *trial;
};

struct race {
    struct qc_auto_found *found;
    struct qc_arena *arena; /* of the race alone: errors of all candidates */
    struct qc_trials *trials;
    size_t outputs;
    size_t *part_of; /* [qparams + 1]: the part of each quantizer */
    struct candidate *running[CANDIDATES + 1];
    size_t first; /* of `running`: the first of those whose graphs are made */
};

static bool is_in(const struct race *r, qc_id s, size_t part)
{
    return part == WHOLE_NETWORK || part == r->part_of[s];
}

static size_t width_of(size_t part)
{
    return part == WIDER_LITTLE ? 1 : part == WIDER_MORE ? 2 : 0;
}

static struct qc_affine params_of(const struct race *r, const struct candidate *c, qc_id s)
{
    const size_t method = is_in(r, s, c->part) ? c->method : r->found->taken[s];
    return r->found->params[(width_of(c->part) * QC_AUTO_SOLVED + method) * (r->found->qparams + 1) + s];
}

/* The graph that would be written, with the ranges of one candidate. */
static bool make_graph(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct race *r = user;
    struct qc_graph *bound = NULL;
    struct qc_rebuild copy;
    bool ok = qc_rebuild_begin(&copy, r->found->base, st) && qc_rebuild_finish(&bound, &copy, st);
    qc_rebuild_free(&copy);
    for (qc_id s = 1; ok && s <= r->found->qparams; s++) {
        const struct qc_affine q = params_of(r, r->running[r->first + k], s);
        ok = q.scale <= 0 || qc_graph_bind_quantizer(bound, s, 1, &q.scale, &q.zero_point, st);
    }
    ok = ok && qc_trial_graph(out, r->found->p, bound, st);
    qc_graph_free(bound);
    return ok;
}

static double noise(const struct race *r, const struct candidate *c, size_t first, size_t end, size_t step)
{
    return qc_trials_noise(c->errors, r->outputs, first, end, step);
}

/* How much less noise c has than `from`. */
static double gain(const struct race *r, const struct candidate *from, const struct candidate *c, size_t first,
                   size_t end, size_t step)
{
    return qc_trials_gain(noise(r, from, first, end, step), noise(r, c, first, end, step));
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

/* One more candidate, unless an earlier one of its round has the same ranges. `all`: room for CANDIDATES. */
static bool add(struct candidate *all, size_t *count, struct race *r, size_t method, size_t part, struct qc_status *st)
{
    struct candidate *c = &all[*count];
    *c = (struct candidate){.method = method, .part = part, .trial = &r->found->trials[r->found->trial_count]};
    for (size_t k = 0; k < *count; k++)
        if (same_params(r, &all[k], c)) return true;
    if (!make_room(c, r, st)) return false;
    ++*count;
    r->found->trial_count++;
    return true;
}

static double doubt_of(const struct candidate *c, size_t units)
{
    if ((double)units <= DOUBT_UNITS) return DOUBT_FEW;
    return DOUBT * fmin(1, (c->part < PARTS || c->part == AS_TAKEN ? DOUBT_PARTS : 1) * DOUBT_UNITS / (double)units);
}

struct gain {
    double gain, error, worth; /* dB */
};

static bool measure(struct gain *g, const struct race *r, const struct qc_error *from, const struct qc_error *errors,
                    double doubt, size_t end, struct qc_status *st)
{
    double without;
    if (!qc_trials_gain_error(&g->error, &without, from, errors, r->outputs, end, st)) return false;
    g->gain =
        qc_trials_gain(qc_trials_noise(from, r->outputs, 0, end, 1), qc_trials_noise(errors, r->outputs, 0, end, 1));
    g->worth = g->gain - doubt * g->error;
    if (!(without > LEFT * g->gain)) g->worth = fmin(g->worth, without);
    return true;
}

/* What candidates are worth after `end` units beside the first of their round: their gain, less what may be luck; or
   no more than it is without the one unit that speaks most for them, where that one has nearly all of it. Where outputs
   are probabilities that is the greater of both measures, unless the other may be a loss. */
static bool weigh(struct race *r, const struct candidate *from, size_t count, size_t end, struct qc_status *st)
{
    for (size_t k = 0; k < count; k++) {
        struct candidate *c = r->running[k];
        struct gain more, other;
        if (c == from) continue;
        const double doubt = doubt_of(c, end);
        if (!measure(&more, r, from->errors, c->errors, doubt, end, st)) return false;
        other = more;
        if (c->judged != c->errors && !measure(&other, r, from->judged, c->judged, doubt, end, st)) return false;
        if (other.worth > more.worth) {
            const struct gain swapped = more;
            more = other;
            other = swapped;
        }
        c->gain = more.gain;
        c->error = more.error;
        c->worth = other.worth > -LOSS_DB ? more.worth : other.worth;
    }
    return true;
}

/* What is known of the candidates after `end` units. */
static void note(struct race *r, const struct candidate *from, size_t count, size_t end)
{
    for (size_t k = 0; k < count; k++) {
        struct candidate *c = r->running[k];
        *c->trial = (struct qc_report_trial){.method = r->found->methods[c->method].name,
                                             .part = c->part < WHOLE_NETWORK ? part_names[c->part] : NULL,
                                             .wider = qc_auto_widths[width_of(c->part)],
                                             .sqnr_db = -10 * log10(noise(r, c, 0, end, 1)),
                                             .gain_db = c->gain,
                                             .error_db = c->error,
                                             .worth_db = c->worth,
                                             .gains_db = {(double)NAN, (double)NAN},
                                             .samples = end};
        const bool last = end == qc_trials_units(r->trials);
        for (size_t h = 0; last && h < 2; h++) c->trial->gains_db[h] = gain(r, from, c, h, end, 2);
    }
}

/* Those that run, and the one that they are compared with, up to `end` units. */
static bool run_on(struct race *r, struct candidate *from, size_t count, size_t end, struct qc_status *st)
{
    struct qc_error *errors[CANDIDATES + 1] = {NULL}, *judged[CANDIDATES + 1] = {NULL};
    const bool otherwise = from->judged != from->errors;
    size_t all = count;
    bool ok = true;
    if (from->done < end && r->running[0] != from) r->running[all++] = from;
    for (size_t k = 0; k < all; k++) {
        errors[k] = r->running[k]->errors;
        judged[k] = r->running[k]->judged;
    }
    /* Those that have run as many go together. */
    for (size_t k = 0, next; ok && k < all; k = next) {
        const size_t done = r->running[k]->done;
        for (next = k + 1; next < all && r->running[next]->done == done;) next++;
        r->first = k;
        ok = qc_trials_run(errors + k, otherwise ? judged + k : NULL, r->trials, make_graph, r, next - k, done,
                           end - done, st);
        for (size_t i = k; ok && i < next; i++) r->running[i]->done = end;
    }
    if (!ok || !weigh(r, from, count, end, st)) return false;
    note(r, from, count, end);
    return true;
}

static double asked_of(const struct candidate *c)
{
    return width_of(c->part) ? WIDER_DB : GAIN_DB;
}

/* Is there a chance that c, after its units, is worth something with all of them? Its gain then differs by what the
   error is of the units to come. */
static bool may_gain(const struct race *r, const struct candidate *c)
{
    const size_t all = qc_trials_units(r->trials);
    const double share = (double)c->done / (double)all;
    return !isfinite(c->error) ||
           c->gain + CHANCE * c->error * sqrt(1 - share) > asked_of(c) + doubt_of(c, all) * c->error * sqrt(share);
}

static size_t units_of_heat(const struct race *r, size_t h)
{
    const size_t all = qc_trials_units(r->trials), part = all / heats[h].part,
                 least = all < UNITS_FIRST ? all : UNITS_FIRST;
    return part > least ? part : least;
}

/* How many candidates behind the first are better than k; of equal ones the earlier is. */
static size_t rank(const struct race *r, size_t count, size_t k)
{
    size_t better = 0;
    for (size_t i = 1; i < count; i++) {
        const double a = r->running[i]->gain, b = r->running[k]->gain;
        better += a > b || (i < k && !(a < b));
    }
    return better;
}

static void take(struct race *r, const struct candidate *c)
{
    c->trial->chosen = true;
    for (qc_id s = 1; s <= r->found->qparams; s++) {
        if (!is_in(r, s, c->part)) continue;
        r->found->taken[s] = c->method;
        r->found->choices[s].trial = c->trial;
    }
}

/* Those that run, on more and more units from heat h on, while they may gain. *left: so many are still in `running`,
   worth what is asked of them after all units. */
static bool run_heats(size_t *left, struct race *r, struct candidate *from, size_t count, size_t h,
                      struct qc_status *st)
{
    for (; h < HEATS && count; h++) {
        const size_t ran = count;
        if (!run_on(r, from, ran, units_of_heat(r, h), st)) return false;
        count = 0;
        for (size_t k = 0; k < ran; k++)
            if (h + 1 == HEATS ? r->running[k]->worth > asked_of(r->running[k]) : may_gain(r, r->running[k]))
                r->running[count++] = r->running[k];
    }
    *left = count;
    return true;
}

/* NULL: of none. */
static struct candidate *most_worth(struct candidate *const *of, size_t count)
{
    struct candidate *best = NULL;
    for (size_t k = 0; k < count; k++)
        if (!best || of[k]->worth > best->worth) best = of[k];
    return best;
}

/* Whole networks: all on some units, those that keep up on more. *best: what is taken, with its errors. */
static bool run_race(struct candidate *best, struct race *r, struct qc_status *st)
{
    struct candidate all[CANDIDATES];
    size_t running = 0;
    for (size_t m = 0; m < QC_AUTO_METHODS; m++)
        if (!add(all, &running, r, m, WHOLE_NETWORK, st)) return false;
    for (size_t k = 0; k < running; k++) r->running[k] = &all[k];
    for (size_t h = 0; h < HEATS && (!h || running > 1); h++) {
        bool kept[CANDIDATES] = {true};
        size_t left = 0;
        double ahead = 0;
        if (!run_on(r, all, running, units_of_heat(r, h), st)) return false;
        if (h + 1 == HEATS) break;
        for (size_t k = 0; k < running; k++) ahead = fmax(ahead, r->running[k]->gain);
        for (size_t k = 1; k < running; k++)
            kept[k] = may_gain(r, r->running[k]) && rank(r, running, k) < heats[h].places &&
                      (r->running[k]->gain > ahead - heats[h].behind_db ||
                       (!h && r->running[k]->gain > SURE * r->running[k]->error));
        for (size_t k = 0; k < running; k++)
            if (kept[k]) r->running[left++] = r->running[k];
        running = left;
    }
    *best = all[0];
    for (size_t k = 1; k < running; k++)
        if (r->running[k]->worth > fmax(GAIN_DB, best->worth)) *best = *r->running[k];
    take(r, best);
    return true;
}

/* Parts that gain each for itself, all together: only if that is worth more than the best of them alone. *from: what
   is taken then, with its errors. */
static bool take_parts(struct race *r, struct candidate *from, struct candidate *const *parts, size_t count,
                       struct qc_status *st)
{
    const size_t all = qc_trials_units(r->trials);
    struct qc_report_trial trial;
    struct candidate together = {.part = AS_TAKEN, .trial = &trial};
    struct candidate *best = most_worth(parts, count);
    if (!best) return true;
    if (count > 1) {
        if (!make_room(&together, r, st)) return false;
        for (size_t k = 0; k < count; k++) take(r, parts[k]);
        r->running[0] = &together;
        if (!run_on(r, from, 1, all, st)) return false;
        together.trial = from->trial;
        if (together.worth > best->worth) {
            *from = together;
            return true;
        }
        for (size_t k = 0; k < count; k++) parts[k]->trial->chosen = false;
        take(r, from);
    }
    take(r, best);
    *from = *best;
    return true;
}

/* Other observers in one part of the network each, beside what was taken for the whole. */
static bool refine(struct race *r, struct candidate *from, struct qc_status *st)
{
    const size_t all = qc_trials_units(r->trials);
    struct candidate tried[CANDIDATES] = {*from}, *kept[WHOLE_NETWORK];
    size_t count = 1, left = 0;
    for (size_t part = 0; all >= PART_UNITS && part < PARTS; part++)
        for (size_t i = 0; i < IN_PARTS; i++)
            if (!add(tried, &count, r, in_parts[i], part, st)) return false;
    for (size_t k = 1; k < count; k++) r->running[k - 1] = &tried[k];
    if (count < 2 || !run_on(r, from, count - 1, units_of_heat(r, 0), st)) return count < 2;
    /* The best of each part is run on, where it may still be a gain. */
    for (size_t part = 0; part < WHOLE_NETWORK; part++) {
        struct candidate *best = NULL;
        for (size_t k = 1; k < count; k++)
            if (tried[k].part == part && (!best || tried[k].gain > best->gain)) best = &tried[k];
        if (best && may_gain(r, best)) r->running[left++] = best;
    }
    if (!run_heats(&left, r, from, left, 1, st)) return false;
    for (size_t k = 0; k < left; k++) kept[k] = r->running[k];
    return take_parts(r, from, kept, left, st);
}

/* What was taken, by ranges a little wider. method: that of most of it, for the report. */
static bool widen(struct race *r, struct candidate *from, size_t method, struct qc_status *st)
{
    struct candidate tried[QC_AUTO_WIDTHS] = {*from};
    size_t count = 1, left;
    if (!add(tried, &count, r, method, WIDER_LITTLE, st) || !add(tried, &count, r, method, WIDER_MORE, st))
        return false;
    for (size_t k = 1; k < count; k++) r->running[k - 1] = &tried[k];
    if (!run_heats(&left, r, from, count - 1, 0, st)) return false;
    struct candidate *best = most_worth(r->running, left);
    if (!best) return true;
    best->trial->chosen = true;
    r->found->wider = qc_auto_widths[width_of(best->part)];
    return true;
}

/* Parts have as many quantizers each, in the order in which they were made; two of one scale are in one. */
static void part(struct race *r)
{
    size_t count = 0, at = 0;
    for (qc_id s = 1; s <= r->found->qparams; s++) count += r->found->params[s].scale > 0;
    for (qc_id s = 1; s <= r->found->qparams; s++)
        if (r->found->params[s].scale > 0) r->part_of[s] = at++ * PARTS / count;
    for (qc_id s = 1; s <= r->found->qparams; s++)
        if (r->found->before[s]) r->part_of[s] = r->part_of[r->found->before[s]];
}

/* What the report says of each quantizer: the part that it is in, where others were tried there; no trial of those that
   have a range of their own. */
static void note_choices(struct race *r)
{
    const struct qc_auto_found *f = r->found;
    for (qc_id s = 1; s <= f->qparams; s++) {
        struct qc_report_choice *c = &f->choices[s];
        if (f->whole[s]) c->trial = NULL;
        c->steps = f->whole[s] && f->whole[s]->observer->fixed;
        for (size_t k = 0; k < f->trial_count && !c->part; k++)
            if (f->trials[k].part == part_names[r->part_of[s]]) c->part = f->trials[k].part;
    }
}

static bool run_all(struct race *r, const struct qc_trial_options *how, struct qc_status *st)
{
    const struct qc_pipeline *p = r->found->p;
    struct candidate best = {.method = 0};
    if (!qc_trials_new(&r->trials, p->real, p->from->data, UNITS_MAX, how, st) || !run_race(&best, r, st)) return false;
    const size_t method = best.method;
    return refine(r, &best, st) && widen(r, &best, method, st);
}

bool qc_auto_try_all(struct qc_auto_found *f, struct qc_status *st)
{
    struct race r = {.found = f, .arena = qc_arena_new(), .outputs = f->p->real->output_count};
    const struct qc_trial_options how = qc_trial_options_of(f->p);
    f->trials = QC_NEW_ARRAY(f->arena, struct qc_report_trial, QC_AUTO_METHODS + CANDIDATES + QC_AUTO_WIDTHS, st);
    f->choices = QC_NEW_ARRAY(f->arena, struct qc_report_choice, f->qparams + 1, st);
    bool ok = r.arena || qc_fail_memory(st, 1);
    ok = ok && (r.part_of = QC_NEW_ARRAY(r.arena, size_t, f->qparams + 1, st)) && f->trials && f->choices;
    if (ok) part(&r);
    ok = ok && run_all(&r, &how, st);
    if (ok) note_choices(&r);
    qc_forget_integers(f->p);
    qc_trials_free(r.trials);
    qc_arena_free(r.arena);
    return ok;
}

bool qc_auto_ranges_differ(const struct qc_auto_found *found)
{
    const size_t row = found->qparams + 1;
    for (qc_id s = 1; s < row; s++) {
        if (found->whole[s]) return true;
        for (size_t m = 1; m < QC_AUTO_METHODS; m++)
            if (!same_affine(found->params[s], found->params[m * row + s])) return true;
    }
    return false;
}
