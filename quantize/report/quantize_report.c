// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/quantize_report.h"

#include <math.h>
#include <string.h>

#include "base/index.h"
#include "graph/core/parameters.h"
#include "graph/core/uses.h"
#include "quantize/report/layer_detail.h"

static struct qc_layer_tried tried(const struct qc_tried *t)
{
    return (struct qc_layer_tried){.min = t->lo, .max = t->hi, .objective = t->objective, .refused = t->refused};
}

/* Fills the solver of an activation. Weights have a solution for each channel, so there is no single curve. */
static bool fill_solver(struct qc_layer_solver *s, const struct qc_choice *c, struct qc_arena *a, struct qc_status *st)
{
    *s = (struct qc_layer_solver){.objective = c->range.objective,
                                  .objective_minmax = c->range.objective_minmax,
                                  .behind = c->behind,
                                  .candidates = c->range.candidates,
                                  .known_min = c->known_lo,
                                  .known_max = c->known_hi};
    if (!c->curve || !c->curve->count) return true;
    struct qc_layer_tried *points = QC_NEW_ARRAY(a, struct qc_layer_tried, c->curve->count + 1, st);
    if (!points) return false;
    for (size_t i = 0; i < c->curve->count; i++) points[i] = tried(&c->curve->points[i]);
    s->curve = points;
    s->curve_count = c->curve->count;
    if (!c->curve->has_runner_up) return true;
    points[s->curve_count] = tried(&c->curve->runner_up);
    s->runner_up = &points[s->curve_count];
    return true;
}

static void fill_parameters(struct qc_layer *l, const struct qc_network *net, const struct qc_graph *g, qc_id stored)
{
    const struct qc_parameters s = qc_value_parameters(g, stored);
    const struct qc_choice *c = &net->calibration->choices[s.qparams];
    l->name = s.quantizer;
    l->type = qc_dtype_info(s.dtype)->name;
    l->axis = s.axis;
    l->block = s.block;
    l->count = s.count;
    l->scale = s.scale;
    l->zero_point = s.zero_point;
    l->method = c->method;
    if (net->auto_method && net->auto_method->methods[s.qparams]) l->choice = &net->auto_method->choices[s.qparams];
    l->observed_min = (double)c->seen.min;
    l->observed_max = (double)c->seen.max;
    l->observed_count = c->seen.count;
    l->observed_nan = c->seen.nan;
    l->observed_inf = c->seen.pos_inf + c->seen.neg_inf;
    l->chosen_min = c->range.lo;
    l->chosen_max = c->range.hi;
    l->clipped_fraction = c->range.clipped_fraction;
    l->sqnr_db = l->cosine = l->max_abs = l->saturated_fraction = l->alone_db = l->clipping_share = l->lost_fraction =
        (double)NAN;
}

static const char *one_scale(const struct qc_network *net, const char *quantizer)
{
    const qc_id v = qc_graph_find_value(net->joined, quantizer);
    return v ? net->partition->one_scale[net->partition->class_of[v]] : NULL;
}

static bool fill_activation(struct qc_layer *l, const struct qc_network *net, const struct qc_measurement *m,
                            qc_id quantizer, qc_id stored, struct qc_status *st)
{
    const struct qc_graph *g = net->folded;
    qc_id made = qc_maker(g, stored);
    fill_parameters(l, net, g, stored);
    l->kind = "activation";
    l->one_scale = one_scale(net, l->name);
    l->op = made ? qc_op_info(g->nodes[made].op)->name : "Input";
    if (!fill_solver(&l->solver, &net->calibration->choices[quantizer], net->arena, st)) return false;
    if (!qc_layer_activation(l, net, m, quantizer, made, st)) return false;
    if (made && !qc_accumulator_bits(&l->accumulator_bits, g, made, st)) return false;
    if (l->accumulator_bits && !(l->accumulator_of = qc_node_name(g, &g->nodes[made], net->arena, st))) return false;
    if (!m || !m->quantizers[quantizer].count) return true;
    const struct qc_error *e = &m->quantizers[quantizer];
    l->sqnr_db = qc_error_sqnr_db(e);
    l->cosine = qc_error_cosine(e);
    l->max_abs = e->max_abs;
    l->saturated_fraction = (double)e->saturated / (double)e->count;
    const struct qc_layer_overflow *of = made ? qc_overflow_of(&m->overflows, made) : NULL;
    if (of) {
        l->accumulator_bits_seen = of->bits;
    } else if (l->accumulator_bits) {
        double seen = m->accumulator_max[g->values[g->nodes[made].outputs].type.qparams];
        if (seen > 0) l->accumulator_bits_seen = qc_bits_for(seen);
    }
    return true;
}

/* Tables for the lookup of single layers. */
struct lookup {
    struct qc_stored_values simulated;
    size_t *rounded; /* [qparams_count + 1 of p->simulated]: index + 1 of the first rounded layer, or 0 */
    const struct qc_tensor **stored; /* [qparams_count + 1 of p->produced]: the first constant, or NULL */
};

static bool look_up(struct lookup *u, const struct qc_network *net, struct qc_status *st)
{
    const struct qc_weight_rounding *w = net->weight_rounding;
    const size_t most = net->simulated->qparams_count;
    u->rounded = QC_NEW_ARRAY(net->arena, size_t, most + 1, st);
    u->stored = QC_NEW_ARRAY(net->arena, const struct qc_tensor *, net->produced->qparams_count + 1, st);
    if (!u->rounded || !u->stored || !qc_stored_values_of(&u->simulated, net->simulated, net->arena, st)) return false;
    for (size_t i = w ? w->count : 0; i-- > 0;)
        if (w->layers[i].quantizer <= most) u->rounded[w->layers[i].quantizer] = i + 1;
    for (qc_id v = (qc_id)net->produced->value_count; v >= 1; v--)
        if (qc_constant_of(net->produced, v))
            u->stored[net->produced->values[v].type.qparams] = qc_constant_of(net->produced, v);
    return true;
}

static bool fill_rounding(struct qc_layer *l, const struct qc_network *net, const struct lookup *u, qc_id quantizer,
                          struct qc_status *st)
{
    const size_t found = quantizer <= net->simulated->qparams_count ? u->rounded[quantizer] : 0;
    if (!found) return true;
    const struct qc_rounded_weights *x = &net->weight_rounding->layers[found - 1];
    struct qc_report_rounding *r = QC_NEW_ARRAY(net->arena, struct qc_report_rounding, 1, st);
    if (!r) return false;
    *r = (struct qc_report_rounding){.method = x->compensated ? "compensated" : "nearest",
                                     .reason = x->reason,
                                     .judged = !x->reason,
                                     .held = x->held,
                                     .outputs = x->outputs,
                                     .nearest_outputs = x->nearest,
                                     .blocks = x->blocks,
                                     .error_nearest = x->error_nearest,
                                     .error = x->error,
                                     .bias_corrected = x->bias_corrected,
                                     .bias_rms = x->bias_rms,
                                     .bias_max = x->bias_max};
    l->rounding = r;
    return true;
}

/* uses: of net->folded; for products that quantize their input at run time, of the graph before they were made. */
static bool fill_weight(struct qc_weight_look *look, struct qc_layer *l, const struct qc_network *net,
                        const struct qc_uses *uses, const struct lookup *u, qc_id value, struct qc_status *st)
{
    const struct qc_graph *g = uses->graph;
    const qc_id quantizer = g->values[value].type.qparams;
    fill_parameters(l, net, g, value);
    l->kind = "weight";
    l->solver.objective = l->solver.objective_minmax = l->solver.known_min = l->solver.known_max = (double)NAN;
    const struct qc_choice *choice = &net->calibration->choices[quantizer];
    l->scales_raised = choice->raised;
    l->scale_raise_max = choice->raise_max;
    l->op = "Constant";
    const struct qc_use_list readers = qc_readers(uses, value);
    const qc_id reader = readers.count ? readers.of[0].node : 0;
    if (reader) l->op = qc_op_info(g->nodes[reader].op)->name;
    return fill_rounding(l, net, u, quantizer, st) &&
           qc_layer_weight(look, l, net, g, &u->simulated, quantizer, value,
                           qc_constant_of(g, value) ? qc_constant_of(g, value) : u->stored[quantizer], reader,
                           l->rounding && l->rounding->judged, st);
}

/* Adds weights whose integers are constants of net->folded. */
static bool fill_dynamic(struct qc_layer *layers, struct qc_weight_look *looks, size_t *count, bool *done,
                         const struct qc_network *net, const struct lookup *u, struct qc_status *st)
{
    const struct qc_graph *g = qc_network_with_bodies(net);
    struct qc_uses uses;
    if (!net->dynamic) return true;
    if (!qc_uses_of(&uses, g, net->arena, st)) return false;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const qc_id s = g->values[v].type.qparams;
        if (s == QC_REAL || !qc_constant_of(g, v) || done[s]) continue;
        struct qc_layer *l = &layers[*count];
        done[s] = true;
        if (!fill_weight(&looks[(*count)++], l, net, &uses, u, v, st)) return false;
    }
    return true;
}

bool qc_fill_layers(struct qc_report *r, const struct qc_network *net, const struct qc_measurement *m,
                    struct qc_status *st)
{
    const struct qc_graph *g = net->folded;
    struct qc_layer *layers = QC_NEW_ARRAY(net->arena, struct qc_layer, g->qparams_count, st);
    struct qc_weight_look *looks = QC_NEW_ARRAY(net->arena, struct qc_weight_look, g->qparams_count, st);
    bool *done = QC_NEW_ARRAY(net->arena, bool, g->qparams_count + 1, st);
    size_t count = 0;
    struct qc_uses uses;
    struct lookup u;
    if (!layers || !looks || !done || !qc_uses_of(&uses, g, net->arena, st) || !look_up(&u, net, st)) return false;
    for (qc_id v = 1; v <= g->value_count; v++) {
        qc_id s = g->values[v].type.qparams;
        if (!s || done[s] || g->qparams_of[s].kind != QC_QPARAMS_QUANTIZER || !net->calibration->choices[s].chosen)
            continue;
        done[s] = true;
        struct qc_layer *l = &layers[count];
        struct qc_weight_look *look = &looks[count++];
        if (!(qc_quantized_constant(g, v) ? fill_weight(look, l, net, &uses, &u, v, st)
                                          : fill_activation(l, net, m, s, v, st)))
            return false;
    }
    if (!fill_dynamic(layers, looks, &count, done, net, &u, st) ||
        !qc_layer_weights_look(looks, count, (unsigned)net->scheme.options->threads, st))
        return false;
    r->layers = layers;
    r->layer_count = count;
    return qc_layers_index(r, net->arena, st);
}

bool qc_fill_accumulator(struct qc_report *r, const struct qc_network *net, const struct qc_overflows *o,
                         const char *file, size_t samples, struct qc_status *st)
{
    const struct qc_accumulator *a = &net->scheme.settings->plan.accumulator;
    if (!a->bits || a->bits == 32) return true;
    struct qc_report_accumulator *to = QC_NEW(net->arena, struct qc_report_accumulator, st);
    struct qc_report_overflow *layers = QC_NEW_ARRAY(net->arena, struct qc_report_overflow, o->count, st);
    if (!to || !layers) return false;
    for (size_t i = 0; i < o->count; i++)
        layers[i] = (struct qc_report_overflow){.name = o->layers[i].name,
                                                .bits = o->layers[i].bits,
                                                .overflows = o->layers[i].sums.overflows,
                                                .results = o->layers[i].sums.results};
    *to = (struct qc_report_accumulator){.bits = a->bits,
                                         .overflow = a->overflow == QC_OVERFLOW_SATURATE ? "saturate" : "wrap",
                                         .bound = qc_options_text(net->scheme.options, QC_OPTION_ACCUMULATOR_BOUND),
                                         .file = file,
                                         .samples = samples,
                                         .layer_count = o->count,
                                         .layers = layers};
    for (size_t i = 0; i < r->layer_count; i++) to->scales_raised += r->layers[i].scales_raised;
    for (size_t i = 0; net->weight_rounding && i < net->weight_rounding->count; i++)
        to->channels_bounded += net->weight_rounding->layers[i].bounded;
    r->accumulator = to;
    return true;
}

bool qc_fill_effects(struct qc_report *r, const struct qc_sensitivity *s, struct qc_arena *a, struct qc_status *st)
{
    struct qc_report_effect *effects = QC_NEW_ARRAY(a, struct qc_report_effect, s->count, st);
    if (!effects) return false;
    for (size_t i = 0; i < s->count; i++)
        effects[i] = (struct qc_report_effect){.node = s->layers[i].name,
                                               .op = s->layers[i].op,
                                               .sqnr_db = qc_effect_sqnr_db(s->layers[i].noise),
                                               .weights_sqnr_db = qc_effect_sqnr_db(s->layers[i].noise_weights),
                                               .metric = s->layers[i].metric,
                                               .lost = s->layers[i].lost};
    r->effects = effects;
    r->effect_count = s->count;
    r->effect_samples = s->samples;
    r->sensitivity_seconds = s->seconds;
    return true;
}
