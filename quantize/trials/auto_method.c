// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/auto_method.h"

#include <stdlib.h>

#include "base/clock.h"
#include "calib/ablation.h"
#include "calib/trials/input_steps.h"
#include "quantize/pipeline_state.h"
#include "quantize/trials/auto_trials.h"

static const char *const tried[QC_AUTO_METHODS] = {"mse", "mse:clip=3", "mse:clip=6", "mse:clip=16", "percentile"};
static const char *const whole = "minmax"; /* the full range, in which look_at_inputs looks for a step */

/* With at most UNITS_FEW units only mse is tried: on 8 and on 32 samples none of 34 networks chose another observer
   (docs/ablation.md). */
enum { UNITS_FEW = 32 };

/* Finds the network input that a quantizer observes, directly or through Transpose and Reshape. Returns false if there
   is none, or if the input is not float32. */
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

/* If all values of an input are multiples of one step, sets the quantizer's scale from the step: lossless. */
static bool take_steps(struct qc_auto_found *f, qc_id s, size_t input, struct qc_status *st)
{
    const size_t row = f->qparams + 1;
    const struct qc_qparams *q = &f->p->simulated->qparams_of[s];
    const struct qc_levels levels = qc_qparams_levels(q);
    const struct qc_affine *all = &f->params[f->tried * row + s];
    if (levels.mantissa) return true; /* float types: levels far from zero are more than one step apart */
    double step, lo = (double)all->scale * (levels.lo - all->zero_point),
                 hi = (double)all->scale * (levels.hi - all->zero_point);
    if (!qc_input_step_once(&step, &f->p->from->steps[input], f->p->from->data, input, (double)levels.hi - levels.lo,
                            st))
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
static bool look_at_inputs(struct qc_auto_found *f, struct qc_status *st)
{
    const struct qc_graph *g = f->p->simulated;
    if (!f->p->from->steps &&
        !(f->p->from->steps = QC_NEW_ARRAY(f->p->from->arena, struct qc_input_steps, g->input_count, st)))
        return false;
    for (qc_id s = 1; s <= f->qparams; s++) {
        size_t input;
        if (f->params[s].scale > 0 && input_of(&input, g, &g->qparams_of[s]) && !take_steps(f, s, input, st))
            return false;
    }
    return true;
}

static bool solve(struct qc_auto_found *f, struct qc_status *st)
{
    struct qc_pipeline *p = f->p;
    struct qc_arena *a = f->arena;
    f->qparams = p->simulated->qparams_count;
    f->tried = qc_dataset_units(p->from->data) > UNITS_FEW ? QC_AUTO_METHODS : 1;
    f->methods = QC_NEW_ARRAY(a, struct qc_method, f->tried + 1, st);
    f->params = QC_NEW_ARRAY(a, struct qc_affine, (f->tried + 1) * (f->qparams + 1), st);
    f->steps = QC_NEW_ARRAY(a, const struct qc_method *, f->qparams + 1, st);
    f->choices = QC_NEW_ARRAY(a, struct qc_report_choice, f->qparams + 1, st);
    if (!f->methods || !f->params || !f->steps || !f->choices) return false;
    for (size_t m = 0; m <= f->tried; m++) {
        f->methods[m].name = m < f->tried ? tried[m] : whole;
        if (!qc_observer_parse(&f->methods[m].observer, &f->methods[m].values, f->methods[m].name, st)) return false;
    }
    return qc_solve_methods(f->params, p->simulated, p->seen, qc_dataset_file(p->from->data), f->methods, f->tried + 1,
                            &p->calibration_options, st) &&
           look_at_inputs(f, st);
}

/* Makes the graph that all trials start from: ranges of mse, weights rounded. */
static bool make_base(struct qc_auto_found *f, const struct qc_second_moments *moments,
                      const struct qc_round_weights_options *rounding, struct qc_status *st)
{
    struct qc_pipeline *p = f->p;
    struct qc_auto_method *m = p->auto_method;
    struct qc_calibration *usual = NULL;
    const bool ok = qc_bind_params(&usual, p->simulated, p->seen, qc_dataset_file(p->from->data), f->params,
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
    struct qc_auto_found f = {.p = p};
    struct qc_graph *unbound = NULL;
    if (!m || !(m->arena = qc_arena_new())) {
        free(m);
        return qc_fail_memory(st, sizeof *m);
    }
    p->auto_method = m;
    f.arena = m->arena;
    if (!solve(&f, st)) return false;
    if (!(m->methods = QC_NEW_ARRAY(m->arena, const struct qc_method *, f.qparams + 1, st))) return false;
    if (!qc_auto_ranges_differ(&f)) return true; /* weight-only quantization, or all activations are zero */
    const bool ok =
        make_base(&f, moments, rounding, st) && qc_auto_try_all(&f, st) && qc_simulate(&unbound, p->partition, st);
    for (qc_id s = 1; ok && s <= f.qparams; s++)
        if (f.params[s].scale > 0) {
            m->methods[s] = f.steps[s] ? f.steps[s] : &f.methods[f.taken];
            f.choices[s] = (struct qc_report_choice){.trial = f.steps[s] ? NULL : f.chosen, .steps = f.steps[s]};
        }
    if (ok) {
        m->trials = f.trials;
        m->trial_count = f.trial_count;
        m->choices = f.choices;
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
        if (q->is_weight || q->kind != QC_QPARAMS_QUANTIZER || q->state != QC_QPARAMS_BOUND) continue;
        m->rounded->qparams_of[s].dtype = q->dtype; /* a target may have changed it (quantize/trials/target_limits.c) */
        if (!qc_graph_bind_quantizer(m->rounded, s, q->count, q->scale, q->zero_point, st)) return false;
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
