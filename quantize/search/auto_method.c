// SPDX-License-Identifier: Apache-2.0
/* --method auto: chooses the observer by the output error of the quantized network
   (docs/decisions/0030-ranges-by-the-outputs.md).

   Several observers choose a range for each quantizer. For each observer the network is quantized as it would be
   written and runs on some samples. The observers are compared by the noise of the outputs relative to their signals,
   and for probabilities by their divergence too (calib/trials/trials.h). Another observer replaces mse only if its
   gain is statistically significant. */
#include "quantize/search/searches.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "calib/ablation.h"
#include "calib/ranges/calibrate.h"
#include "calib/trials/trials.h"
#include "quantize/make/make.h"
#include "quantize/search/race.h"

/* The trials of --method auto: compares the ranges of several observers by the output error of the quantized network
   (docs/decisions/0030-ranges-by-the-outputs.md). */

/* The observers that are tried, and on how many units at least; the first is the default. */
static const struct {
    const char *name;
    size_t units;
} tried[] = {
    {"mse", 0},
#define QC_OBSERVER(name, units, what) {name, units},
#include "quantize/search/limits.def"
};
enum { OBSERVERS = sizeof tried / sizeof *tried };

/* The ranges of the observers, and the choice. */
struct found {
    struct qc_network *net;
    struct qc_arena *arena; /* owns the arrays */
    size_t qparams;
    size_t tried;                     /* at most OBSERVERS; 1 if there are too few samples to compare observers */
    struct qc_method *methods;        /* [tried + 1]: the last one is minmax */
    struct qc_affine *params;         /* [tried + 1][qparams + 1] */
    const struct qc_method **steps;   /* [qparams + 1]: the fixed range of an input on an integer grid, which replaces
                                         every observer; NULL for all other quantizers */
    struct qc_report_choice *choices; /* [qparams + 1] */
    /* Set by race_observers: */
    size_t method_of[OBSERVERS]; /* of each candidate; candidates have different ranges */
    size_t taken;                /* the method of all quantizers without `steps` */
    struct qc_report_trial *trials;
    const struct qc_report_trial *chosen;
    size_t trial_count;
};

static struct qc_affine params_of(const struct found *f, size_t method, qc_id s)
{
    return f->params[method * (f->qparams + 1) + s];
}

/* Makes the graph that would be written with the ranges of candidate k. */
static bool make_candidate(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct found *f = user;
    struct qc_graph *bound = NULL;
    bool ok = qc_graph_copy(&bound, f->net->auto_method->rounded, st);
    for (qc_id s = 1; ok && s <= f->qparams; s++) {
        const struct qc_affine q = params_of(f, f->method_of[k], s);
        ok = q.scale <= 0 || qc_graph_bind_quantizer(bound, s, 1, &q.scale, &q.zero_point, st);
    }
    ok = ok && qc_network_realise(out, f->net, bound, st);
    qc_graph_free(bound);
    return ok;
}

static bool same_affine(struct qc_affine a, struct qc_affine b)
{
    return !(a.scale < b.scale || a.scale > b.scale) && a.zero_point == b.zero_point;
}

/* Runs the race of the observers whose ranges differ, and sets the members above. Errors: those of runs. */
static bool race_observers(struct found *f, struct qc_status *st)
{
    const struct qc_race_terms terms = {.units = QC_OBSERVER_UNITS,
                                        .budget = QC_OBSERVER_BUDGET,
                                        .least_db = QC_OBSERVER_GAIN_DB};
    struct qc_race_result results[OBSERVERS];
    size_t best;
    for (size_t m = 0; m < f->tried; m++) {
        bool other = true;
        for (size_t k = 0; other && k < f->trial_count; k++) {
            bool same = true;
            for (qc_id s = 1; same && s <= f->qparams; s++)
                same = same_affine(params_of(f, f->method_of[k], s), params_of(f, m, s));
            other = !same;
        }
        if (other) f->method_of[f->trial_count++] = m;
    }
    if (!(f->trials = QC_NEW_ARRAY(f->arena, struct qc_report_trial, f->trial_count, st)) ||
        !qc_race(results, &best, f->net, &(const struct qc_trial_graphs){make_candidate, f, f->trial_count}, &terms,
                 st))
        return false;
    for (size_t k = 0; k < f->trial_count; k++)
        f->trials[k] = (struct qc_report_trial){.method = f->methods[f->method_of[k]].name,
                                                .sqnr_db = results[k].sqnr_db,
                                                .gain_db = results[k].gain,
                                                .error_db = results[k].error,
                                                .worth_db = results[k].worth,
                                                .samples = results[k].units,
                                                .chosen = k == best};
    f->chosen = &f->trials[best];
    f->taken = f->method_of[best];
    return true;
}

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
                            (double)levels.hi - levels.lo, f->net->scheme.settings->workers, st))
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

static bool solve(struct found *f, struct qc_status *st)
{
    struct qc_network *net = f->net;
    struct qc_arena *a = f->arena;
    f->qparams = net->simulated->qparams_count;
    const size_t units = qc_dataset_units(net->setup->data);
    f->methods = QC_NEW_ARRAY(a, struct qc_method, OBSERVERS + 1, st);
    f->params = QC_NEW_ARRAY(a, struct qc_affine, (OBSERVERS + 1) * (f->qparams + 1), st);
    f->steps = QC_NEW_ARRAY(a, const struct qc_method *, f->qparams + 1, st);
    f->choices = QC_NEW_ARRAY(a, struct qc_report_choice, f->qparams + 1, st);
    if (!f->methods || !f->params || !f->steps || !f->choices) return false;
    for (size_t m = 0; m < OBSERVERS; m++)
        if (net->scheme.sketch ? strcmp(tried[m].name, net->scheme.sketch) == 0
                               : units >= tried[m].units && (!m || !qc_ablated(tried[m].name)))
            f->methods[f->tried++].name = tried[m].name;
    f->methods[f->tried].name = whole;
    for (size_t m = 0; m <= f->tried; m++)
        if (!qc_observer_parse(&f->methods[m].observer, &f->methods[m].values, f->methods[m].name, st)) return false;
    if (!qc_solve_methods(f->params, net->simulated, net->evidence->statistics, qc_dataset_file(net->setup->data),
                          f->methods, f->tried + 1, &net->scheme.calibration, st))
        return false;
    /* Look for inputs that were integers. */
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
    /* True if the observers give some quantizer different ranges, or an input is on an integer grid. If only one
       observer is tried: if there is a quantizer with a range. */
    bool differ = false;
    const size_t row = f.qparams + 1;
    for (qc_id s = 1; s < row; s++) {
        differ = differ || f.steps[s] || (f.tried == 1 && f.params[s].scale > 0);
        for (size_t k = 1; k < f.tried; k++) differ = differ || !same_affine(f.params[s], f.params[k * row + s]);
    }
    if (!differ) { /* weight-only quantization, or all activations are zero */
        net->scheme.calibration.methods = m->methods;
        return true;
    }
    /* Make the graph that all trials start from: ranges of mse, weights rounded. */
    struct qc_calibration *usual = NULL;
    const struct qc_round_weights_options how = qc_network_rounding(net);
    const bool rounds = qc_rounds_weights(net->scheme.settings) && qc_network_moments(net);
    const bool based =
        qc_bind_params(&usual, net->simulated, net->evidence->statistics, qc_dataset_file(net->setup->data), f.params,
                       &net->scheme.calibration, st) &&
        (rounds ? qc_round_weights(&m->rounding, &m->rounded, net->simulated, qc_network_moments(net), &how, st)
                : qc_network_store_nearest(&m->rounded, net, st));
    qc_calibration_free(usual);
    const bool ok = based && race_observers(&f, st) && qc_simulate(&unbound, net->partition, st);
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
