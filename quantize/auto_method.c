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

/* What is too far behind the best after a part of the units is not run on, nor what so many are better than. */
static const struct {
    size_t part; /* one in so many units */
    double behind_db;
    size_t places; /* beside mse */
} heats[] = {{8, 1.5, 5}, {3, 0.7, 2}, {1, 0, 0}};
enum { HEATS = sizeof heats / sizeof *heats, UNITS_FIRST = 8, UNITS_MIN = 32, UNITS_MAX = 128 };
/* A gain counts less so many standard errors of it, with DOUBT_UNITS units or fewer; with more of them less by their
   number, since ranges are made from the samples that they are judged on. What is then worth less than GAIN_DB over the
   first is not taken (docs/decisions/0030-ranges-by-the-outputs.md). */
static const double DOUBT = 2, DOUBT_UNITS = 32, GAIN_DB = 0.1;

struct finding {
    struct qc_pipeline *p;
    struct qc_auto_method *m;
    struct qc_trials *trials;
    const struct qc_graph *base;        /* bound with mse, weights rounded */
    struct qc_folded_constants *shared; /* weights in integers, the same in all trials */
    size_t qparams, outputs;
    struct qc_method *methods; /* [SOLVED] */
    struct qc_affine *params;  /* [SOLVED][qparams + 1] */
    bool *whole;               /* [qparams + 1]: quantizers of inputs that keep all that was seen, whatever is taken */
    size_t running;            /* candidates that are run */
    size_t which[METHODS];     /* their methods */
    double worth[METHODS];     /* on the units that were run */
    struct qc_error *errors[METHODS];
};

/* The graph that would be written, with the ranges of one method. */
static bool make_graph(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct finding *f = user;
    const struct qc_affine *params = f->params + f->which[k] * (f->qparams + 1);
    struct qc_graph *bound = NULL;
    struct qc_rebuild copy;
    bool ok = qc_rebuild_begin(&copy, f->base, st) && qc_rebuild_finish(&bound, &copy, st);
    qc_rebuild_free(&copy);
    for (qc_id s = 1; ok && s <= f->qparams; s++)
        ok = params[s].scale <= 0 || qc_graph_bind_quantizer(bound, s, 1, &params[s].scale, &params[s].zero_point, st);
    ok = ok && qc_trial_graph(out, f->shared, f->p, bound, st);
    qc_graph_free(bound);
    return ok;
}

static double noise(const struct finding *f, size_t k, size_t first, size_t end, size_t step)
{
    return qc_trials_noise(f->errors[k], f->outputs, first, end, step);
}

/* How much less noise candidate k has than the first. */
static double gain(const struct finding *f, size_t k, size_t first, size_t end, size_t step)
{
    return qc_trials_gain(noise(f, 0, first, end, step), noise(f, k, first, end, step));
}

static bool same_params(const struct finding *f, size_t a, size_t b)
{
    for (size_t s = 1; s <= f->qparams; s++) {
        const struct qc_affine *x = &f->params[a * (f->qparams + 1) + s], *y = &f->params[b * (f->qparams + 1) + s];
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

/* What candidates are worth after `end` units: their gain, less what may be luck. */
static bool weigh(struct finding *f, size_t end, struct qc_status *st)
{
    const double doubt = DOUBT * fmin(1, DOUBT_UNITS / (double)end);
    f->worth[0] = 0;
    for (size_t k = 1; k < f->running; k++) {
        double error;
        if (!qc_trials_gain_error(&error, f->errors[0], f->errors[k], f->outputs, end, st)) return false;
        f->worth[k] = gain(f, k, 0, end, 1) - doubt * error;
    }
    return true;
}

/* What is known of the candidates after `end` units; trial[k]: of candidate k. */
static void note(struct finding *f, const size_t *trial, size_t end, bool last)
{
    for (size_t k = 0; k < f->running; k++) {
        struct qc_report_trial *t = &f->m->trials[trial[k]];
        *t = (struct qc_report_trial){.method = f->methods[f->which[k]].name,
                                      .sqnr_db = -10 * log10(noise(f, k, 0, end, 1)),
                                      .gain_db = gain(f, k, 0, end, 1),
                                      .worth_db = f->worth[k],
                                      .gains_db = {(double)NAN, (double)NAN},
                                      .samples = end};
        for (size_t h = 0; last && h < 2; h++) t->gains_db[h] = gain(f, k, h, end, 2);
    }
}

/* How many candidates behind the first are better than k; of equal ones the earlier is. */
static size_t rank(const double *value, size_t count, size_t k)
{
    size_t better = 0;
    for (size_t i = 1; i < count; i++) better += value[i] > value[k] || (i < k && !(value[i] < value[k]));
    return better;
}

/* All candidates on some units, those that keep up on more; *best: the method to take. */
static bool race(size_t *best, struct finding *f, struct qc_status *st)
{
    const size_t all = qc_trials_units(f->trials);
    size_t trial[METHODS], done = 0, at = 0;
    for (size_t k = 0; k < f->running; k++) trial[k] = k;
    for (size_t h = 0; h < HEATS; h++) {
        const size_t part = all / heats[h].part, least = all < UNITS_FIRST ? all : UNITS_FIRST,
                     end = part > least ? part : least;
        if (!qc_trials_run(f->errors, f->trials, make_graph, f, f->running, done, end - done, st)) return false;
        done = end;
        if (!weigh(f, end, st)) return false;
        note(f, trial, end, h + 1 == HEATS);
        double ahead = 0, value[METHODS];
        size_t kept = 0;
        for (size_t k = 0; k < f->running; k++) {
            value[k] = gain(f, k, 0, end, 1);
            ahead = fmax(ahead, value[k]);
        }
        for (size_t k = 0; h + 1 < HEATS && k < f->running; k++) {
            if (k && (!(value[k] > ahead - heats[h].behind_db) || rank(value, f->running, k) >= heats[h].places))
                continue;
            f->which[kept] = f->which[k];
            f->errors[kept] = f->errors[k];
            trial[kept++] = trial[k];
        }
        if (kept) f->running = kept;
    }
    double most = GAIN_DB;
    for (size_t k = 1; k < f->running; k++) {
        if (!(f->worth[k] > most)) continue;
        most = f->worth[k];
        at = k;
    }
    f->m->trials[trial[at]].chosen = true;
    *best = f->which[at];
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
        if (!(usual->scale > 0) || f->params[WHOLE * row + s].scale > COARSER * usual->scale) continue;
        if (!input_of(&input, g, &g->qparams_of[s])) continue;
        if (qc_dataset_units(f->p->data) > UNITS_READ) continue;
        const double lo = (double)usual->scale * (levels.lo - usual->zero_point),
                     hi = (double)usual->scale * (levels.hi - usual->zero_point);
        if (!qc_clipped_units(&units, f->p->data, input, lo, hi, st)) return false;
        f->whole[s] = units > 0 && units < CLIPPED_UNITS;
        for (size_t m = 0; f->whole[s] && m < METHODS; m++) f->params[m * row + s] = f->params[WHOLE * row + s];
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
    f->params = QC_NEW_ARRAY(a, struct qc_affine, SOLVED * (f->qparams + 1), st);
    f->whole = QC_NEW_ARRAY(a, bool, f->qparams + 1, st);
    f->m->methods = QC_NEW_ARRAY(a, const struct qc_method *, f->qparams + 1, st);
    if (!f->methods || !f->params || !f->whole || !f->m->methods) return false;
    for (size_t m = 0; m < SOLVED; m++) {
        f->methods[m].name = solved[m];
        if (!qc_observer_parse(&f->methods[m].observer, &f->methods[m].values, solved[m], st)) return false;
    }
    return qc_solve_methods(f->params, p->simulated, p->seen, qc_dataset_file(p->data), f->methods, SOLVED,
                            &p->calibration_options, st) &&
           look_at_inputs(f, st);
}

static bool try_all(size_t *best, struct finding *f, struct qc_status *st)
{
    const struct qc_pipeline *p = f->p;
    const struct qc_trial_options how = qc_trial_options_of(p);
    const size_t share = qc_dataset_units(p->data) * 2 / 3;
    const size_t units = share < UNITS_MIN ? UNITS_MIN : share > UNITS_MAX ? UNITS_MAX : share;
    const bool ok = qc_trials_new(&f->trials, p->real, p->data, units, &how, st) &&
                    qc_folded_constants_new(&f->shared, st) && begin(f, st) && race(best, f, st);
    qc_folded_constants_free(f->shared);
    qc_trials_free(f->trials);
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

bool qc_auto_method_find(struct qc_pipeline *p, const struct qc_second_moments *moments,
                         const struct qc_round_weights_options *rounding, struct qc_status *st)
{
    const double t0 = qc_seconds();
    struct qc_auto_method *m = calloc(1, sizeof *m);
    struct finding f = {.p = p, .m = m};
    struct qc_graph *unbound = NULL;
    size_t best = 0;
    if (!m || !(m->arena = qc_arena_new())) {
        free(m);
        return qc_fail_memory(st, sizeof *m);
    }
    p->auto_method = m;
    if (!solve(&f, st)) return false;
    bool differ = false;
    for (size_t k = 1; k < METHODS; k++) differ = differ || !same_params(&f, 0, k);
    for (qc_id s = 1; s <= f.qparams; s++) differ = differ || f.whole[s];
    if (!differ) return true; /* weights alone, or nothing but zeros */
    const bool ok =
        make_base(&f, moments, rounding, st) && try_all(&best, &f, st) && qc_simulate(&unbound, p->partition, st);
    for (qc_id s = 1; ok && s <= f.qparams; s++)
        if (f.params[s].scale > 0) m->methods[s] = &f.methods[f.whole[s] ? WHOLE : best];
    if (ok) {
        qc_graph_free(p->simulated);
        p->simulated = unbound;
    }
    m->seconds = qc_seconds() - t0;
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
