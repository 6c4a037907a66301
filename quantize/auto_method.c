// SPDX-License-Identifier: Apache-2.0
#include "quantize/auto_method.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "calib/trials/clipped_units.h"
#include "calib/trials/trial_run.h"
#include "graph/core/rebuild.h"
#include "quantize/pipeline_state.h"
#include "quantize/trial_graph.h"

/* The observers that are tried, the one that is fallen back to first; and the one that cuts nothing off, for inputs. */
static const char *const solved[] = {"mse",        "mse:clip=3", "mse:clip=6", "mse:clip=16",
                                     "percentile", "kl:clip=1",  "minmax"};
enum { SOLVED = sizeof solved / sizeof *solved, METHODS = SOLVED - 1, WHOLE = METHODS };

/* An input whose clipping comes from fewer samples than this keeps all that was seen, since what it cuts off is not
   known (calib/trials/clipped_units.h); not where its steps would be so much coarser, for one odd sample. With many
   samples it is known. */
static const double CLIPPED_UNITS = 2.5;
static const float COARSER = 1.25F;
enum { UNITS_READ = 256 };

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
/* What is no more than this part of it without one unit is that one's luck. */
static const double LEFT = 0.25;
/* Where outputs are of Softmax or Sigmoid, divergence counts as squared errors do: what gains by one of them and may
   lose more than this by the other is not taken. */
static const double LOSS_DB = 0.1;

/* Where another observer is tried while the rest stays, once one is taken for all: in each fourth of the quantizers in
   the order of the network; not with fewer than so many units, which cannot tell that from luck. */
enum { PARTS = 4, WIDER_LITTLE = PARTS, WIDER_MORE, WHOLE_NETWORK, AS_TAKEN, PART_UNITS = 150 };
static const char *const part_names[] = {"part 1 of 4", "part 2 of 4", "part 3 of 4", "part 4 of 4", "all", "all"};
/* How many times as far ranges reach that are tried last: what they cut off of samples that they were not made from is
   more than these show, and it is another draw of rounding. That counts for them, so less is asked of them. */
static const double widths[] = {1, 1.02, 1.04}, WIDER_DB = 0.1;
enum { WIDTHS = sizeof widths / sizeof *widths };
static const size_t in_parts[] = {0, 3, 4, 5}; /* of `solved` */
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

struct finding {
    struct qc_pipeline *p;
    struct qc_auto_method *m;
    struct qc_arena *scratch; /* of errors */
    struct qc_trials *trials;
    const struct qc_graph *base; /* bound with mse, weights rounded */
    size_t qparams, outputs;
    struct qc_method *methods; /* [SOLVED] */
    struct qc_affine *params;  /* [WIDTHS][SOLVED][qparams + 1] */
    bool *whole;               /* [qparams + 1]: quantizers of inputs that keep all that was seen, whatever is taken */
    size_t *part_of, *taken;   /* [qparams + 1]: the part of each quantizer, and its method */
    qc_id *before;             /* [qparams + 1]: the quantizer whose scale it may take, or 0 */
    struct candidate *running[CANDIDATES + 1];
    size_t first; /* of `running`: the first of those whose graphs are made */
};

static bool is_in(const struct finding *f, qc_id s, size_t part)
{
    return part == WHOLE_NETWORK || part == f->part_of[s];
}

static size_t width_of(size_t part)
{
    return part == WIDER_LITTLE ? 1 : part == WIDER_MORE ? 2 : 0;
}

static struct qc_affine params_of(const struct finding *f, const struct candidate *c, qc_id s)
{
    const size_t method = is_in(f, s, c->part) ? c->method : f->taken[s];
    return f->params[(width_of(c->part) * SOLVED + method) * (f->qparams + 1) + s];
}

/* The graph that would be written, with the ranges of one candidate. */
static bool make_graph(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct finding *f = user;
    struct qc_graph *bound = NULL;
    struct qc_rebuild copy;
    bool ok = qc_rebuild_begin(&copy, f->base, st) && qc_rebuild_finish(&bound, &copy, st);
    qc_rebuild_free(&copy);
    for (qc_id s = 1; ok && s <= f->qparams; s++) {
        const struct qc_affine q = params_of(f, f->running[f->first + k], s);
        ok = q.scale <= 0 || qc_graph_bind_quantizer(bound, s, 1, &q.scale, &q.zero_point, st);
    }
    ok = ok && qc_trial_graph(out, f->p, bound, st);
    qc_graph_free(bound);
    return ok;
}

static double noise(const struct finding *f, const struct candidate *c, size_t first, size_t end, size_t step)
{
    return qc_trials_noise(c->errors, f->outputs, first, end, step);
}

/* How much less noise c has than `from`. */
static double gain(const struct finding *f, const struct candidate *from, const struct candidate *c, size_t first,
                   size_t end, size_t step)
{
    return qc_trials_gain(noise(f, from, first, end, step), noise(f, c, first, end, step));
}

static bool same_params(const struct finding *f, const struct candidate *a, const struct candidate *b)
{
    for (qc_id s = 1; s <= f->qparams; s++) {
        const struct qc_affine x = params_of(f, a, s), y = params_of(f, b, s);
        if (x.scale < y.scale || x.scale > y.scale || x.zero_point != y.zero_point) return false;
    }
    return true;
}

static bool make_room(struct candidate *c, struct finding *f, struct qc_status *st)
{
    const size_t count = qc_trials_units(f->trials) * f->outputs;
    c->errors = c->judged = QC_NEW_ARRAY(f->scratch, struct qc_error, count, st);
    if (qc_trials_have_probabilities(f->trials)) c->judged = QC_NEW_ARRAY(f->scratch, struct qc_error, count, st);
    return c->errors && c->judged;
}

/* One more candidate, unless an earlier one of its round has the same ranges. `all`: room for CANDIDATES. */
static bool add(struct candidate *all, size_t *count, struct finding *f, size_t method, size_t part,
                struct qc_status *st)
{
    struct candidate *c = &all[*count];
    *c = (struct candidate){.method = method, .part = part, .trial = &f->m->trials[f->m->trial_count]};
    for (size_t k = 0; k < *count; k++)
        if (same_params(f, &all[k], c)) return true;
    if (!make_room(c, f, st)) return false;
    ++*count;
    f->m->trial_count++;
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

static bool measure(struct gain *g, const struct finding *f, const struct qc_error *from, const struct qc_error *errors,
                    double doubt, size_t end, struct qc_status *st)
{
    double without;
    if (!qc_trials_gain_error(&g->error, &without, from, errors, f->outputs, end, st)) return false;
    g->gain =
        qc_trials_gain(qc_trials_noise(from, f->outputs, 0, end, 1), qc_trials_noise(errors, f->outputs, 0, end, 1));
    g->worth = g->gain - doubt * g->error;
    if (!(without > LEFT * g->gain)) g->worth = fmin(g->worth, without);
    return true;
}

/* What candidates are worth after `end` units beside the first of their round: their gain, less what may be luck; or
   no more than it is without the one unit that speaks most for them, where that one has nearly all of it. Where outputs
   are probabilities that is the greater of both measures, unless the other may be a loss. */
static bool weigh(struct finding *f, const struct candidate *from, size_t count, size_t end, struct qc_status *st)
{
    for (size_t k = 0; k < count; k++) {
        struct candidate *c = f->running[k];
        struct gain more, other;
        if (c == from) continue;
        const double doubt = doubt_of(c, end);
        if (!measure(&more, f, from->errors, c->errors, doubt, end, st)) return false;
        other = more;
        if (c->judged != c->errors && !measure(&other, f, from->judged, c->judged, doubt, end, st)) return false;
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
static void note(struct finding *f, const struct candidate *from, size_t count, size_t end)
{
    for (size_t k = 0; k < count; k++) {
        struct candidate *c = f->running[k];
        *c->trial = (struct qc_report_trial){.method = f->methods[c->method].name,
                                             .part = c->part < WHOLE_NETWORK ? part_names[c->part] : NULL,
                                             .wider = widths[width_of(c->part)],
                                             .sqnr_db = -10 * log10(noise(f, c, 0, end, 1)),
                                             .gain_db = c->gain,
                                             .error_db = c->error,
                                             .worth_db = c->worth,
                                             .gains_db = {(double)NAN, (double)NAN},
                                             .samples = end};
        const bool last = end == qc_trials_units(f->trials);
        for (size_t h = 0; last && h < 2; h++) c->trial->gains_db[h] = gain(f, from, c, h, end, 2);
    }
}

/* Those that run, and the one that they are compared with, up to `end` units. */
static bool run_on(struct finding *f, struct candidate *from, size_t count, size_t end, struct qc_status *st)
{
    struct qc_error *errors[CANDIDATES + 1] = {NULL}, *judged[CANDIDATES + 1] = {NULL};
    const bool otherwise = from->judged != from->errors;
    size_t all = count;
    bool ok = true;
    if (from->done < end && f->running[0] != from) f->running[all++] = from;
    for (size_t k = 0; k < all; k++) {
        errors[k] = f->running[k]->errors;
        judged[k] = f->running[k]->judged;
    }
    /* Those that have run as many go together. */
    for (size_t k = 0, next; ok && k < all; k = next) {
        const size_t done = f->running[k]->done;
        for (next = k + 1; next < all && f->running[next]->done == done;) next++;
        f->first = k;
        ok = qc_trials_run(errors + k, otherwise ? judged + k : NULL, f->trials, make_graph, f, next - k, done,
                           end - done, st);
        for (size_t i = k; ok && i < next; i++) f->running[i]->done = end;
    }
    if (!ok || !weigh(f, from, count, end, st)) return false;
    note(f, from, count, end);
    return true;
}

static double asked_of(const struct candidate *c)
{
    return width_of(c->part) ? WIDER_DB : GAIN_DB;
}

/* Is there a chance that c, after its units, is worth something with all of them? Its gain then differs by what the
   error is of the units to come. */
static bool may_gain(const struct finding *f, const struct candidate *c)
{
    const size_t all = qc_trials_units(f->trials);
    const double share = (double)c->done / (double)all;
    return !isfinite(c->error) ||
           c->gain + CHANCE * c->error * sqrt(1 - share) > asked_of(c) + doubt_of(c, all) * c->error * sqrt(share);
}

static size_t units_of_heat(const struct finding *f, size_t h)
{
    const size_t all = qc_trials_units(f->trials), part = all / heats[h].part,
                 least = all < UNITS_FIRST ? all : UNITS_FIRST;
    return part > least ? part : least;
}

/* How many candidates behind the first are better than k; of equal ones the earlier is. */
static size_t rank(const struct finding *f, size_t count, size_t k)
{
    size_t better = 0;
    for (size_t i = 1; i < count; i++) {
        const double a = f->running[i]->gain, b = f->running[k]->gain;
        better += a > b || (i < k && !(a < b));
    }
    return better;
}

static void take(struct finding *f, const struct candidate *c)
{
    c->trial->chosen = true;
    for (qc_id s = 1; s <= f->qparams; s++) {
        if (!is_in(f, s, c->part)) continue;
        f->taken[s] = c->method;
        f->m->choices[s].trial = c->trial;
    }
}

/* Whole networks: all on some units, those that keep up on more. *best: what is taken, with its errors. */
static bool race(struct candidate *best, struct finding *f, struct qc_status *st)
{
    struct candidate all[CANDIDATES];
    size_t running = 0;
    for (size_t m = 0; m < METHODS; m++)
        if (!add(all, &running, f, m, WHOLE_NETWORK, st)) return false;
    for (size_t k = 0; k < running; k++) f->running[k] = &all[k];
    for (size_t h = 0; h < HEATS && (!h || running > 1); h++) {
        bool kept[CANDIDATES] = {true};
        size_t left = 0;
        double ahead = 0;
        if (!run_on(f, all, running, units_of_heat(f, h), st)) return false;
        if (h + 1 == HEATS) break;
        for (size_t k = 0; k < running; k++) ahead = fmax(ahead, f->running[k]->gain);
        for (size_t k = 1; k < running; k++)
            kept[k] = may_gain(f, f->running[k]) && f->running[k]->gain > ahead - heats[h].behind_db &&
                      rank(f, running, k) < heats[h].places;
        for (size_t k = 0; k < running; k++)
            if (kept[k]) f->running[left++] = f->running[k];
        running = left;
    }
    *best = all[0];
    for (size_t k = 1; k < running; k++)
        if (f->running[k]->worth > fmax(GAIN_DB, best->worth)) *best = *f->running[k];
    take(f, best);
    return true;
}

/* Parts that gain each for itself, all together: only if that is worth more than the best of them alone. *from: what
   is taken then, with its errors. */
static bool take_parts(struct finding *f, struct candidate *from, struct candidate *const *parts, size_t count,
                       struct qc_status *st)
{
    const size_t all = qc_trials_units(f->trials);
    struct qc_report_trial trial;
    struct candidate together = {.part = AS_TAKEN, .trial = &trial};
    size_t best = 0;
    for (size_t k = 1; k < count; k++)
        if (parts[k]->worth > parts[best]->worth) best = k;
    if (count > 1) {
        if (!make_room(&together, f, st)) return false;
        for (size_t k = 0; k < count; k++) take(f, parts[k]);
        f->running[0] = &together;
        if (!run_on(f, from, 1, all, st)) return false;
        together.trial = from->trial;
        if (together.worth > parts[best]->worth) {
            *from = together;
            return true;
        }
        for (size_t k = 0; k < count; k++) parts[k]->trial->chosen = false;
        take(f, from);
    }
    if (!count) return true;
    take(f, parts[best]);
    *from = *parts[best];
    return true;
}

/* Other observers in one part of the network each, beside what was taken for the whole. */
static bool refine(struct finding *f, struct candidate *from, struct qc_status *st)
{
    const size_t all = qc_trials_units(f->trials);
    struct candidate tried[CANDIDATES] = {*from}, *kept[WHOLE_NETWORK];
    size_t count = 1, left = 0;
    for (size_t part = 0; all >= PART_UNITS && part < PARTS; part++)
        for (size_t i = 0; i < IN_PARTS; i++)
            if (!add(tried, &count, f, in_parts[i], part, st)) return false;
    for (size_t k = 1; k < count; k++) f->running[k - 1] = &tried[k];
    if (count < 2 || !run_on(f, from, count - 1, units_of_heat(f, 0), st)) return count < 2;
    /* The best of each part is run on, where it may still be a gain. */
    for (size_t part = 0; part < WHOLE_NETWORK; part++) {
        struct candidate *best = NULL;
        for (size_t k = 1; k < count; k++)
            if (tried[k].part == part && (!best || tried[k].gain > best->gain)) best = &tried[k];
        if (best && may_gain(f, best)) f->running[left++] = best;
    }
    for (size_t h = 1; h < HEATS && left; h++) {
        const size_t ran = left;
        if (!run_on(f, from, ran, units_of_heat(f, h), st)) return false;
        left = 0;
        for (size_t k = 0; k < ran; k++)
            if (h + 1 == HEATS ? f->running[k]->worth > GAIN_DB : may_gain(f, f->running[k]))
                f->running[left++] = f->running[k];
    }
    for (size_t k = 0; k < left; k++) kept[k] = f->running[k];
    return take_parts(f, from, kept, left, st);
}

/* What was taken, by ranges a little wider. method: that of most of it, for the report. */
static bool widen(struct finding *f, struct candidate *from, size_t method, struct qc_status *st)
{
    struct candidate tried[WIDTHS] = {*from}, *best = NULL;
    size_t count = 1, left = 0;
    if (!add(tried, &count, f, method, WIDER_LITTLE, st) || !add(tried, &count, f, method, WIDER_MORE, st))
        return false;
    for (size_t k = 1; k < count; k++) f->running[left++] = &tried[k];
    for (size_t h = 0; h < HEATS && left; h++) {
        const size_t ran = left;
        if (!run_on(f, from, ran, units_of_heat(f, h), st)) return false;
        left = 0;
        for (size_t k = 0; k < ran; k++)
            if (h + 1 == HEATS ? f->running[k]->worth > WIDER_DB : may_gain(f, f->running[k]))
                f->running[left++] = f->running[k];
    }
    for (size_t k = 0; k < left; k++)
        if (!best || f->running[k]->worth > best->worth) best = f->running[k];
    if (!best) return true;
    best->trial->chosen = true;
    f->m->wider = widths[width_of(best->part)];
    return true;
}

/* The input of the network that a quantizer is of, through what only moves its elements; false: it is of none. */
static bool input_of(size_t *input, const struct qc_graph *g, const struct qc_qparams *q)
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

/* Inputs of which the first method cuts something off that few samples have keep all that was seen. */
static bool look_at_inputs(struct finding *f, struct qc_status *st)
{
    const struct qc_graph *g = f->p->simulated;
    const size_t row = f->qparams + 1;
    for (qc_id s = 1; s <= f->qparams; s++) {
        const struct qc_affine *usual = &f->params[s];
        const struct qc_levels levels = qc_qparams_levels(&g->qparams_of[s]);
        size_t input;
        double units;
        if (!(usual->scale > 0) || !input_of(&input, g, &g->qparams_of[s]) ||
            f->params[WHOLE * row + s].scale > COARSER * usual->scale)
            continue;
        if (qc_dataset_units(f->p->data) > UNITS_READ) continue;
        const double lo = (double)usual->scale * (levels.lo - usual->zero_point),
                     hi = (double)usual->scale * (levels.hi - usual->zero_point);
        if (!qc_clipped_units(&units, f->p->data, input, lo, hi,
                              f->p->options->memory_limit ? 1 : (unsigned)f->p->options->threads, st))
            return false;
        f->whole[s] = units > 0 && units < CLIPPED_UNITS;
        for (size_t k = 0; f->whole[s] && k < WIDTHS * SOLVED; k++)
            f->params[k * row + s] = f->params[(k / SOLVED * SOLVED + WHOLE) * row + s];
    }
    return true;
}

static bool solve(struct finding *f, struct qc_status *st)
{
    struct qc_pipeline *p = f->p;
    struct qc_arena *a = f->m->arena;
    f->qparams = p->simulated->qparams_count;
    f->outputs = p->real->output_count;
    f->methods = QC_NEW_ARRAY(a, struct qc_method, SOLVED, st);
    f->params = QC_NEW_ARRAY(a, struct qc_affine, WIDTHS * SOLVED * (f->qparams + 1), st);
    f->whole = QC_NEW_ARRAY(a, bool, f->qparams + 1, st);
    f->part_of = QC_NEW_ARRAY(a, size_t, f->qparams + 1, st);
    f->taken = QC_NEW_ARRAY(a, size_t, f->qparams + 1, st);
    f->before = QC_NEW_ARRAY(a, qc_id, f->qparams + 1, st);
    f->m->trials = QC_NEW_ARRAY(a, struct qc_report_trial, METHODS + CANDIDATES + WIDTHS, st);
    f->m->choices = QC_NEW_ARRAY(a, struct qc_report_choice, f->qparams + 1, st);
    f->m->methods = QC_NEW_ARRAY(a, const struct qc_method *, f->qparams + 1, st);
    if (!f->methods || !f->params || !f->whole || !f->part_of || !f->taken || !f->before || !f->m->choices ||
        !f->m->methods || !f->m->trials)
        return false;
    for (size_t m = 0; m < SOLVED; m++) {
        f->methods[m].name = solved[m];
        if (!qc_observer_parse(&f->methods[m].observer, &f->methods[m].values, solved[m], st)) return false;
    }
    return qc_solve_methods(f->params, f->before, p->simulated, p->seen, qc_dataset_file(p->data), f->methods, SOLVED,
                            widths, WIDTHS, &p->calibration_options, st) &&
           look_at_inputs(f, st);
}

/* Parts have as many quantizers each, in the order in which they were made; two of one scale are in one. */
static void part(struct finding *f)
{
    size_t count = 0, at = 0;
    for (qc_id s = 1; s <= f->qparams; s++) count += f->params[s].scale > 0;
    for (qc_id s = 1; s <= f->qparams; s++)
        if (f->params[s].scale > 0) f->part_of[s] = at++ * PARTS / count;
    for (qc_id s = 1; s <= f->qparams; s++)
        if (f->before[s]) f->part_of[s] = f->part_of[f->before[s]];
}

static bool try_all(struct finding *f, struct qc_status *st)
{
    const struct qc_pipeline *p = f->p;
    const struct qc_trial_options how = qc_trial_options_of(p);
    struct candidate best = {.method = 0};
    part(f);
    bool ok = ((f->scratch = qc_arena_new()) || qc_fail_memory(st, 1)) &&
              qc_trials_new(&f->trials, p->real, p->data, UNITS_MAX, &how, st) && race(&best, f, st);
    const size_t method = best.method;
    ok = ok && refine(f, &best, st) && widen(f, &best, method, st);
    qc_forget_integers(p);
    qc_trials_free(f->trials);
    qc_arena_free(f->scratch);
    return ok;
}

/* The network with the ranges of mse and its weights rounded: what trials are made of. */
static bool make_base(struct finding *f, const struct qc_second_moments *moments,
                      const struct qc_round_weights_options *rounding, struct qc_status *st)
{
    struct qc_pipeline *p = f->p;
    struct qc_auto_method *m = f->m;
    struct qc_calibration *usual = NULL;
    const bool ok = qc_bind_params(&usual, p->simulated, p->seen, qc_dataset_file(p->data), f->params,
                                   &p->calibration_options, st) &&
                    (!rounding || qc_round_weights(&m->rounding, &m->rounded, p->simulated, moments, rounding, st));
    qc_calibration_free(usual);
    f->base = m->rounded ? m->rounded : p->simulated;
    return ok;
}

static void note_choice(struct finding *f, qc_id s)
{
    struct qc_report_choice *c = &f->m->choices[s];
    f->m->methods[s] = &f->methods[f->whole[s] ? WHOLE : f->taken[s]];
    if (f->whole[s]) c->trial = NULL;
    for (size_t k = 0; k < f->m->trial_count && !c->part; k++)
        if (f->m->trials[k].part == part_names[f->part_of[s]]) c->part = part_names[f->part_of[s]];
}

bool qc_auto_method_find(struct qc_pipeline *p, const struct qc_second_moments *moments,
                         const struct qc_round_weights_options *rounding, struct qc_status *st)
{
    const double t0 = qc_seconds();
    struct qc_auto_method *m = calloc(1, sizeof *m);
    struct finding f = {.p = p, .m = m};
    struct qc_graph *unbound = NULL;
    if (!m || !(m->arena = qc_arena_new())) {
        free(m);
        return qc_fail_memory(st, sizeof *m);
    }
    p->auto_method = m;
    if (!solve(&f, st)) return false;
    bool differ = false;
    const struct candidate first = {.method = 0, .part = WHOLE_NETWORK};
    for (size_t k = 1; k < METHODS; k++) {
        const struct candidate other = {.method = k, .part = WHOLE_NETWORK};
        differ = differ || !same_params(&f, &first, &other);
    }
    for (qc_id s = 1; s <= f.qparams; s++) differ = differ || f.whole[s];
    if (!differ) return true; /* weights alone, or nothing but zeros */
    const bool ok = make_base(&f, moments, rounding, st) && try_all(&f, st) && qc_simulate(&unbound, p->partition, st);
    for (qc_id s = 1; ok && s <= f.qparams; s++)
        if (f.params[s].scale > 0) note_choice(&f, s);
    if (ok) {
        qc_graph_free(p->simulated);
        p->simulated = unbound;
    }
    m->rounding_seconds = m->rounding ? m->rounding->seconds : 0;
    m->seconds = qc_seconds() - t0 - m->rounding_seconds;
    return ok;
}

static bool same_scales(const struct qc_qparams *a, const struct qc_qparams *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = !(a->scale[i] < b->scale[i] || a->scale[i] > b->scale[i]) && a->zero_point[i] == b->zero_point[i];
    return same;
}

bool qc_auto_method_take_rounded(bool *taken, struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_auto_method *m = p->auto_method;
    *taken = m && m->rounded;
    for (qc_id s = 1; *taken && s <= p->simulated->qparams_count; s++) {
        const struct qc_qparams *q = &p->simulated->qparams_of[s];
        if (q->is_weight && q->state == QC_QPARAMS_BOUND) *taken = same_scales(q, &m->rounded->qparams_of[s]);
    }
    for (qc_id s = 1; *taken && s <= p->simulated->qparams_count; s++) {
        const struct qc_qparams *q = &p->simulated->qparams_of[s];
        if (!q->is_weight && q->kind == QC_QPARAMS_QUANTIZER && q->state == QC_QPARAMS_BOUND &&
            !qc_graph_bind_quantizer(m->rounded, s, q->count, q->scale, q->zero_point, st))
            return false;
    }
    if (!*taken) return true;
    p->rounded = m->rounded;
    p->weight_rounding = m->rounding;
    m->rounded = NULL;
    m->rounding = NULL;
    m->rounding_seconds = 0;
    return true;
}

void qc_auto_method_free(struct qc_auto_method *m)
{
    if (!m) return;
    qc_weight_rounding_free(m->rounding);
    qc_graph_free(m->rounded);
    qc_arena_free(m->arena);
    free(m);
}
