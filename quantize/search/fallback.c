// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/fallback.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "calib/ablation.h"
#include "graph/core/multiply_adds.h"
#include "graph/core/recurrent.h"
#include "graph/types/number_format.h"
#include "quantize/options/option_value.h"
#include "quantize/report/report_nodes.h"
#include "quantize/search/limits.h"
#include "quantize/search/score.h"
#include "quantize/setup/model.h"

/* What changes for a layer. */
enum remedy { KEEP, WIDE_ACTIVATIONS, WIDE_WEIGHTS, WIDE_BLOCKS, FLOAT_INPUTS, IN_FLOAT };
enum rung { WIDE, FLOATS, RUNGS };

/* The most accurate format of activations in blocks. */
static const char WIDE_FORMAT[] = "bfp16";

/* The base types, and the limits on wider ones. */
struct terms {
    const struct qc_partition_options *base;
    bool integer;       /* --require-integer: no operator may stay in float */
    bool wide_is_float; /* the target has only 8-bit integer kernels */
};

struct search {
    struct qc_candidate *c;
    struct qc_demand *demand;
    const struct qc_sensitivity *s;
    struct qc_scheme base;
    struct qc_standing best; /* results of the last attempt that was measured */
    struct terms terms;
    enum rung first, end; /* the rungs that are tried: first .. end - 1 */
    struct qc_report_fallback_step *steps;
    size_t step_count;
    size_t at_layers;  /* the state of c: so many layers are changed; SIZE_MAX: unknown */
    enum rung at_rung; /* and how */
};

/* Runs the layers on data: sets *out if it is NULL, else adds the accuracy of each layer. */
static bool run_layers(struct qc_sensitivity **out, const struct qc_network *net, const struct qc_dataset *data,
                       const double *believed, size_t most, struct qc_status *st)
{
    const struct qc_sensitivity_options how = {.settings = net->scheme.settings,
                                               .most = most,
                                               .first = (2 * most + QC_FALLBACK_FIRST_OF - 1) / QC_FALLBACK_FIRST_OF,
                                               .weights_of = believed ? QC_FALLBACK_WEIGHTS_OF : 0,
                                               .believed = believed};
    qc_progress_phase(net->setup->progress, *out ? "accuracy of layers" : "sensitivity");
    const struct qc_graph *rounded = net->uncorrected ? net->uncorrected : net->rounded;
    const bool ok = *out ? qc_sensitivity_score(*out, net->simulated, rounded, data, &how, st)
                         : qc_sensitivity_measure(out, net->simulated, rounded, data, &how, st);
    qc_progress_end(net->setup->progress);
    return ok;
}

bool qc_measure_sensitivity(struct qc_sensitivity **out, const struct qc_network *net, struct qc_dataset *eval,
                            size_t batches, const double *believed, size_t most, struct qc_status *st)
{
    if (believed && !most) return qc_sensitivity_believed(out, net->simulated, believed, st);
    struct qc_dataset *data = net->setup->data ? net->setup->data : eval;
    if (!data)
        return qc_fail(st, QC_USAGE, "--sensitivity runs samples: give --data FILE, or --eval FILE beside --stats");
    const size_t batch = qc_dataset_batch(data) > 1 ? (size_t)qc_dataset_batch(data) : 1;
    const struct qc_selection some = {.samples = batches * batch};
    const bool fewer = qc_dataset_samples(data) > some.samples;
    struct qc_sensitivity *s = NULL;
    bool ok = (!fewer || qc_dataset_select(data, &some, st)) && run_layers(&s, net, data, believed, most, st);
    if (fewer && !qc_model_select_again(data, data == eval ? NULL : net->scheme.options, st)) {
        qc_sensitivity_free(s);
        return false;
    }
    ok = ok && (!eval || !net->scheme.options->sensitivity || run_layers(&s, net, eval, believed, most, st));
    if (!ok && believed && st->code == QC_UNSUPPORTED) { /* shapes depend on data */
        qc_sensitivity_free(s);
        *st = QC_STATUS_INIT;
        return qc_sensitivity_believed(out, net->simulated, believed, st);
    }
    return QC_HAND_OVER(ok, out, s, qc_sensitivity_free);
}

static unsigned bits(enum qc_dtype t)
{
    return t == QC_NONE ? 0 : qc_dtype_info(t)->bits;
}

static struct terms terms_of(const struct qc_scheme *base)
{
    const bool integer = base->options->require_integer;
    return (struct terms){.base = &base->partition,
                          .integer = integer,
                          .wide_is_float = base->options->runs_on->wide_is_float && !integer};
}

/* Weights below 8 bits go to 8 if the target computes 16-bit weights in float. */
static enum qc_dtype wide_weight(const struct terms *t)
{
    return t->wide_is_float && bits(t->base->weight.dtype) < 8 ? QC_I8 : QC_I16;
}

/* Returns true if inputs are rounded in blocks that may be wider. */
static bool has_wide_blocks(const struct qc_partition_options *base)
{
    return base->activation.format && strcmp(base->activation.format->name, WIDE_FORMAT) != 0;
}

/* Returns true if inputs of products are rounded to floats of few bits. No such type is wider than 8 bits: a layer gets
   float inputs and keeps its weights, or is float. */
static bool has_small_floats(const struct qc_partition_options *base)
{
    return qc_is_small_float(base->activation.dtype);
}

/* Widens the weights or the activations, whichever lose more: 32-bit sums have no room for both. With activations in
   blocks, whose noise is not measured, both. */
static enum remedy remedy_in(const struct terms *t, const struct qc_layer_effect *e, enum rung rung)
{
    const unsigned activation = bits(t->base->activation.dtype), weight = bits(t->base->weight.dtype);
    if (!*e->name) return KEEP;
    if (rung == FLOATS) return t->integer ? KEEP : IN_FLOAT;
    if (has_wide_blocks(t->base)) return WIDE_BLOCKS;
    const bool weights = isfinite(e->noise_weights) && e->noise_weights > e->noise / 2;
    if (has_small_floats(t->base)) return weights ? IN_FLOAT : FLOAT_INPUTS;
    if (weights && weight < bits(wide_weight(t)) && activation <= 8) return WIDE_WEIGHTS;
    if (!weights && activation && activation <= 8 && weight <= 8) return WIDE_ACTIVATIONS;
    return t->integer ? KEEP : IN_FLOAT;
}

static enum remedy remedy_of(const struct search *s, const struct qc_layer_effect *e, enum rung rung)
{
    return remedy_in(&s->terms, e, rung);
}

static const char *rung_name(const struct search *s, enum rung rung)
{
    if (rung == FLOATS) return "float";
    if (has_small_floats(s->terms.base)) return "float with quantized weights";
    return has_wide_blocks(s->terms.base) || wide_weight(&s->terms) == QC_I8 ? "wider types" : "16 bits";
}

static enum qc_dtype wide_activation(const struct qc_partition_options *base)
{
    const enum qc_dtype t = base->activation.dtype;
    return t == QC_I8 || t == QC_I4 ? QC_I16 : QC_U16;
}

enum { OPTIONS = 2 }; /* most that change a layer */

/* Sets the options that change a layer; names are NULL if it keeps its types, or one option is enough. */
static bool option(struct qc_option_text out[OPTIONS], const struct terms *t, const struct qc_layer_effect *e,
                   enum rung rung, struct qc_arena *a, struct qc_status *st)
{
    const char *glob = qc_glob_of_name(e->name, a, st);
    out[0] = out[1] = (struct qc_option_text){NULL, NULL};
    if (!glob) return false;
    switch (remedy_in(t, e, rung)) {
    case KEEP: return true;
    case WIDE_ACTIVATIONS:
        out->name = "activation-type";
        out->value = qc_arena_printf(a, st, "%s:%s", wide_activation(t->base) == QC_I16 ? "int16" : "uint16", glob);
        break;
    case WIDE_WEIGHTS:
        out->name = "weight-type";
        out->value = qc_arena_printf(a, st, "%s:%s", wide_weight(t) == QC_I16 ? "int16" : "int8", glob);
        break;
    case WIDE_BLOCKS:
        out->name = "activation-type";
        out->value = qc_arena_printf(a, st, "%s:%s", WIDE_FORMAT, glob);
        if (bits(t->base->weight.dtype) >= 8) break;
        out[1].name = "weight-type";
        if (!(out[1].value = qc_arena_printf(a, st, "int8:%s", glob))) return false;
        break;
    case FLOAT_INPUTS:
        out->name = "activation-type";
        out->value = qc_arena_printf(a, st, "none:%s", glob);
        break;
    case IN_FLOAT: *out = (struct qc_option_text){"skip", glob}; break;
    }
    return out->value != NULL;
}

/* Sets *out to the options that change the first `layers` layers, in the arena of the candidate. */
static bool change_layers(struct qc_change *out, const struct search *s, size_t layers, enum rung rung,
                          struct qc_status *st)
{
    struct qc_arena *a = s->c->arena;
    struct qc_option_text *options = QC_NEW_ARRAY(a, struct qc_option_text, OPTIONS * (layers + 1), st);
    if (!options) return false;
    *out = (struct qc_change){.options = options, .met = true};
    for (size_t i = 0; i < layers; i++) {
        struct qc_option_text *o = &options[out->count];
        if (!option(o, &s->terms, &s->s->layers[i], rung, a, st)) return false;
        out->count += (size_t)(o[0].name != NULL) + (o[1].name != NULL);
    }
    return true;
}

/* Makes the network with the first layers changed. If that is not possible, *ran is false and *reason is set. */
static bool rerun(struct search *s, size_t layers, enum rung rung, bool *ran, const char **reason, struct qc_status *st)
{
    struct qc_status why = QC_STATUS_INIT;
    struct qc_change change;
    *ran = false;
    if (!change_layers(&change, s, layers, rung, st)) return false;
    if (qc_candidate_change(s->c, &s->base, &change, &why)) {
        s->at_layers = layers;
        s->at_rung = rung;
        return *ran = true;
    }
    if (why.code != QC_UNSUPPORTED && why.code != QC_USAGE) return qc_fail(st, why.code, "%s", why.message);
    s->at_layers = SIZE_MAX;
    return (*reason = qc_arena_strdup(s->c->arena, why.message, st)) != NULL;
}

static bool score(struct search *s, struct qc_status *st)
{
    qc_progress_phase(s->c->setup->progress, "accuracy, %zu layers in %s", s->at_layers, rung_name(s, s->at_rung));
    return qc_demand_measure(&s->best, s->demand, st);
}

static struct qc_report_fallback_step *step_of(const struct search *s, size_t layers, enum rung rung)
{
    for (size_t i = 0; i < s->step_count; i++)
        if (s->steps[i].layers == layers && strcmp(s->steps[i].type, rung_name(s, rung)) == 0) return &s->steps[i];
    return NULL;
}

/* With --require-integer: sets *reason if an operator would stay in float. */
static bool forbidden(const char **reason, const struct search *s, struct qc_status *st)
{
    const struct qc_float_op *ops;
    size_t count, quantized;
    if (!s->terms.integer) return true;
    if (!qc_float_ops(&ops, &count, &quantized, s->c->network, st)) return false;
    if (count) *reason = qc_arena_printf(s->c->arena, st, "'%.80s' (%s) would stay in float", ops[0].name, ops[0].op);
    return !count || *reason;
}

static void fill_step(struct qc_report_fallback_step *step, const struct search *s)
{
    const bool eval = s->c->setup->eval && !s->demand->outputs_alone;
    step->value = eval ? s->best.metric.value : (double)NAN;
    step->drop = eval ? qc_metric_drop(&s->demand->fp32, &s->best.metric) : (double)NAN;
    step->nll = eval ? s->best.metric.nll : (double)NAN;
    step->sqnr_db = s->best.sqnr_db;
    step->int8_share =
        s->terms.wide_is_float ? qc_int8_share_stored(s->c->network->produced) : qc_int8_share(s->c->network->produced);
}

/* Makes and measures one attempt and adds it to the steps. */
static bool attempt(struct qc_report_fallback_step **out, struct search *s, size_t layers, enum rung rung,
                    struct qc_status *st)
{
    struct qc_report_fallback_step *step = &s->steps[s->step_count];
    bool ran;
    *step = (struct qc_report_fallback_step){.layers = layers,
                                             .type = rung_name(s, rung),
                                             .value = (double)NAN,
                                             .drop = (double)NAN,
                                             .sqnr_db = (double)NAN,
                                             .nll = (double)NAN,
                                             .int8_share = (double)NAN};
    if (!rerun(s, layers, rung, &ran, &step->reason, st) || (ran && !forbidden(&step->reason, s, st)) ||
        (ran && !step->reason && !score(s, st)))
        return false;
    s->step_count++;
    *out = step;
    if (step->reason) return true;
    fill_step(step, s);
    step->met = qc_demand_met(s->demand, &s->best);
    return true;
}

static bool changes(const struct search *s, size_t layers, enum rung rung)
{
    for (size_t i = 0; i < layers; i++)
        if (remedy_of(s, &s->s->layers[i], rung) != KEEP) return true;
    return false;
}

/* Sets *out: the demand is met with so many layers changed, in wider types or in float. */
static bool holds(bool *out, struct search *s, size_t layers, struct qc_status *st)
{
    *out = false;
    for (int rung = (int)s->first; rung < (int)s->end && !*out; rung++) {
        struct qc_report_fallback_step *step;
        if (!changes(s, layers, (enum rung)rung)) continue;
        if (!attempt(&step, s, layers, (enum rung)rung, st)) return false;
        *out = step->met;
    }
    return true;
}

/* Finds the least number of layers that meets the demand; 0 if none does. */
static bool search(size_t *out, struct search *s, struct qc_status *st)
{
    const size_t all = s->s->count;
    size_t fails = 0, works = 0;
    bool ok = true, met = false;
    for (size_t n = 1; ok && !works && fails < all;) {
        ok = holds(&met, s, n, st);
        if (met)
            works = n;
        else
            fails = n;
        /* try one layer fewer than all first: with all layers in float nothing is quantized */
        n = 2 * n < all ? 2 * n : n + 1 < all ? all - 1 : all;
    }
    while (ok && works > fails + 1) {
        const size_t middle = fails + (works - fails) / 2;
        ok = holds(&met, s, middle, st);
        if (met)
            works = middle;
        else
            fails = middle;
    }
    *out = works;
    return ok;
}

/* Brings the candidate to a state that meets the demand. */
static bool bring(struct search *s, size_t layers, enum rung rung, struct qc_status *st)
{
    bool ran = true;
    const char *reason = NULL;
    if (s->at_layers == layers && s->at_rung == rung) return true;
    return rerun(s, layers, rung, &ran, &reason, st) && (ran || qc_fail(st, QC_UNSUPPORTED, "%s", reason)) &&
           score(s, st);
}

/* Returns the estimated time of a step relative to the float network; layers that are not in 8-bit integers take `rest`
   times their float time. An unknown share (free shapes) counts as 0. Infinity if the step does not meet the demand. */
static double time_of(const struct qc_report_fallback_step *step, double rest)
{
    if (!step || !step->met) return (double)INFINITY;
    const double share = isfinite(step->int8_share) ? step->int8_share : 0;
    return rest - (rest - QC_FALLBACK_INTEGER_TIME) * share;
}

/* Chooses the faster of the two ways, by the share of multiply-adds in integers. in_float, in_wide: the number of
   layers that each needs, 0: it does not meet the demand. wide_time: time of a layer in wider types, relative to float.
   Of equally fast ways float wins if the target computes wider types in float. *layers: number of the chosen way; p is
   brought to it. */
static bool settle_rung(size_t *layers, struct search *s, size_t in_float, size_t in_wide, double wide_time,
                        struct qc_status *st)
{
    struct qc_report_fallback_step *wide = in_wide ? step_of(s, in_wide, WIDE) : NULL,
                                   *floats = in_float ? step_of(s, in_float, FLOATS) : NULL;
    if (in_float && !floats && wide && wide->int8_share < 1 && changes(s, in_float, FLOATS) &&
        !attempt(&floats, s, in_float, FLOATS, st))
        return false;
    const double of_float = time_of(floats, 1), of_wide = time_of(wide, wide_time);
    const bool takes_wide =
        wide && wide->met && (of_wide < of_float || (!s->terms.wide_is_float && !(of_float < of_wide)));
    *layers = takes_wide ? in_wide : in_float;
    if (!*layers) return true;
    (takes_wide ? wide : floats)->chosen = true;
    return bring(s, *layers, takes_wide ? WIDE : FLOATS, st);
}

bool qc_layer_remedy(struct qc_option_text *out, const struct qc_scheme *scheme, const struct qc_layer_effect *e,
                     bool in_float, struct qc_arena *a, struct qc_status *st)
{
    const struct terms t = terms_of(scheme);
    struct qc_option_text options[OPTIONS];
    if (!option(options, &t, e, in_float ? FLOATS : WIDE, a, st)) return false;
    *out = options[0];
    return true;
}

static bool fill_fallback_report(struct qc_report_fallback *out, const struct search *s, size_t layers,
                                 struct qc_status *st)
{
    struct qc_change change;
    if (!change_layers(&change, s, layers, s->at_rung, st)) return false;
    out->option_count = change.count;
    out->met = layers > 0;
    out->limit = s->demand->max_drop;
    out->min_sqnr = s->demand->min_sqnr;
    out->max_nll = s->demand->max_nll;
    out->steps = s->steps;
    out->step_count = s->step_count;
    return !out->met ||
           qc_job_change(&out->options, &out->command, s->c->setup->in, s->base.options, &change, s->c->arena, st);
}

bool qc_fall_back(struct qc_report_fallback **out, struct qc_standing *has, struct qc_demand *d,
                  const struct qc_sensitivity *effects, struct qc_status *st)
{
    struct qc_candidate *c = d->c;
    struct search s = {.c = c, .demand = d, .s = effects, .base = c->scheme, .best = *has};
    struct qc_report_fallback *to = QC_NEW(c->arena, struct qc_report_fallback, st);
    size_t layers = 0;
    s.terms = terms_of(&s.base);
    /* Each step doubles a number of layers or halves an interval, on two rungs. */
    s.steps = QC_NEW_ARRAY(c->arena, struct qc_report_fallback_step, 2 * (4 * 8 * sizeof layers + 8), st);
    if (!to || !s.steps) return false;
    s.steps[0] = (struct qc_report_fallback_step){.type = ""};
    fill_step(&s.steps[s.step_count++], &s);
    /* With --prefer speed float is tried first if the target would dequantize the weights of wide layers in every run.
     */
    const bool small = has_small_floats(s.terms.base);
    const bool fast = !small && s.terms.wide_is_float && c->network->scheme.partition.prefer == QC_PREFER_SPEED &&
                      wide_weight(&s.terms) != QC_I8;
    const bool both = fast && !d->outputs_alone;
    s.first = fast ? FLOATS : WIDE;
    s.end = small ? FLOATS : RUNGS;
    if (!search(&layers, &s, st)) return false;
    size_t wide = layers;
    if (small && !layers) { /* float weights too: only if float inputs are not enough */
        s.first = FLOATS;
        s.end = RUNGS;
        if (!search(&layers, &s, st)) return false;
    } else if (small) {
        layers = 0;
    }
    if (both) {
        s.first = WIDE;
        s.end = FLOATS;
        if (!search(&wide, &s, st)) return false;
    }
    if (!settle_rung(&layers, &s, layers, wide, both ? QC_FALLBACK_WIDE_TIME : 1, st)) return false;
    if (layers)
        *has = s.best;
    else if (s.step_count > 1 && !qc_candidate_make(c, &s.base, NULL, st)) /* the first state, for the report */
        return false;
    if (!fill_fallback_report(to, &s, layers, st)) return false;
    *out = to;
    return true;
}

enum { RECURRENT_OPS = 3 };

/* Types are changed only if no option gives them and neither a demand nor --size decides them. */
static bool may_mend(const struct qc_candidate *c)
{
    const struct qc_setup *s = c->setup;
    const struct qc_options *o = s->options;
    const unsigned bits = c->scheme.settings->plan.accumulator.bits;
    return c->scheme.calibration.activation->of_network && s->data && !s->in->team && !o->size && !o->propagate &&
           !qc_options_demand(o) && (!bits || bits == 32) && !o->given[QC_OPTION_WEIGHT_TYPE] && !o->per_tensor;
}

/* ---- Recurrent weights ---- */

/* Lists the recurrent operators with quantized weights; *layers: number of such nodes. Returns the number of names. */
static size_t recurrent_ops(const char *names[RECURRENT_OPS], size_t *layers, const struct qc_partition *p)
{
    size_t count = 0;
    *layers = 0;
    for (qc_id id = 1; id <= p->graph->node_count; id++) {
        const enum qc_op op = p->graph->nodes[id].op;
        bool known = false;
        if (!p->matches.at[id] || !qc_is_recurrent(op)) continue;
        ++*layers;
        for (size_t i = 0; i < count; i++) known = known || strcmp(names[i], qc_op_info(op)->name) == 0;
        if (!known) names[count++] = qc_op_info(op)->name;
    }
    return count;
}

static struct qc_report_fallback_step *add_step(struct qc_report_fallback_step *steps, size_t layers, const char *type,
                                                double sqnr_db)
{
    *steps = (struct qc_report_fallback_step){.layers = layers,
                                              .type = type,
                                              .value = (double)NAN,
                                              .drop = (double)NAN,
                                              .nll = (double)NAN,
                                              .int8_share = (double)NAN,
                                              .sqnr_db = sqnr_db};
    return steps;
}

/* Gives all recurrent weights 16 bits, if half of the output noise comes from them. */
static bool widen_recurrent(struct qc_report_fallback **out, struct qc_standing *has, struct qc_demand *d,
                            struct qc_status *st)
{
    struct qc_candidate *c = d->c;
    struct qc_arena *a = c->arena;
    const struct qc_scheme base = c->scheme;
    const double before = has->sqnr_db;
    const char *ops[RECURRENT_OPS];
    size_t layers;
    const size_t count = recurrent_ops(ops, &layers, c->network->partition);
    if (!count) return true;
    struct qc_option_text *options = QC_NEW_ARRAY(a, struct qc_option_text, count, st);
    struct qc_report_fallback *to = QC_NEW(a, struct qc_report_fallback, st);
    struct qc_report_fallback_step *steps = QC_NEW_ARRAY(a, struct qc_report_fallback_step, 2, st);
    if (!options || !to || !steps) return false;
    for (size_t i = 0; i < count; i++) {
        options[i] = (struct qc_option_text){"weight-type", qc_arena_printf(a, st, "int16:%s", ops[i])};
        if (!options[i].value) return false;
    }
    const struct qc_change change = {.count = count, .options = options};
    struct qc_status why = QC_STATUS_INIT;
    const bool made = qc_candidate_change(c, &base, &change, &why);
    if (!made && why.code != QC_UNSUPPORTED && why.code != QC_USAGE) return qc_fail(st, why.code, "%s", why.message);
    if (made && !qc_demand_measure(has, d, st)) return false;
    if (!made || !(has->sqnr_db - before >= QC_FALLBACK_HALF_DB) || has->sqnr_db < QC_FALLBACK_USELESS_DB) {
        has->sqnr_db = before;
        return qc_candidate_make(c, &base, NULL, st);
    }
    add_step(&steps[0], 0, "", before);
    add_step(&steps[1], layers, "16 bits", has->sqnr_db)->chosen = true;
    steps[1].met = true;
    *to = (struct qc_report_fallback){.limit = (double)NAN,
                                      .min_sqnr = before + QC_FALLBACK_HALF_DB,
                                      .max_nll = (double)NAN,
                                      .met = true,
                                      .option_count = count,
                                      .steps = steps,
                                      .step_count = 2};
    *out = to;
    return qc_job_change(&to->options, &to->command, c->setup->in, base.options, &change, a, st);
}

/* ---- Any layer ---- */

static double best_of(const struct qc_report_fallback *f)
{
    double best = -(double)INFINITY;
    for (size_t i = 0; i < f->step_count; i++) best = fmax(best, f->steps[i].sqnr_db);
    return best;
}

static bool widen_worst(struct qc_report_fallback **out, struct qc_standing *has, struct qc_demand *d,
                        struct qc_status *st)
{
    struct qc_sensitivity *effects = NULL;
    struct qc_status why = QC_STATUS_INIT;
    /* Unsupported: shapes depend on data, so there is no worst layer to know. */
    if (!qc_measure_sensitivity(&effects, d->c->network, NULL, QC_FALLBACK_BATCHES, NULL, 0, &why))
        return why.code == QC_UNSUPPORTED || qc_fail(st, why.code, "%s", why.message);
    qc_sensitivity_sort(effects, QC_EFFECTS_BY_NOISE);
    const struct qc_standing before = *has;
    bool ok = qc_fall_back(out, has, d, effects, st);
    if (ok && !(*out)->met && best_of(*out) >= QC_FALLBACK_USELESS_DB) {
        d->min_sqnr = QC_FALLBACK_USELESS_DB;
        *has = before;
        ok = qc_fall_back(out, has, d, effects, st);
    }
    qc_sensitivity_free(effects);
    return ok;
}

bool qc_mend(struct qc_report_fallback **out, bool *changed, struct qc_candidate *c, const struct qc_measurement *m,
             struct qc_status *st)
{
    const char *ops[RECURRENT_OPS];
    const struct qc_partition_options *types = &c->scheme.partition;
    size_t layers, worst;
    struct qc_demand d = {.c = c};
    struct qc_standing has = {.sqnr_db = (double)NAN};
    *out = NULL;
    *changed = false;
    if (!m || !may_mend(c)) return true;
    const double db = qc_worst_output(&worst, c->network, m);
    const bool recurrent = db < QC_FALLBACK_RECURRENT_DB && !types->dynamic && !types->activation_type_count &&
                           recurrent_ops(ops, &layers, c->network->partition);
    const bool any = db < QC_FALLBACK_USELESS_DB && !c->setup->options->given[QC_OPTION_ACTIVATION_TYPE];
    if ((!recurrent && !any) || qc_ablated("mend")) return true;
    *changed = true;
    bool ok = qc_demand_begin_outputs(&d, c, QC_FALLBACK_MENDED_DB, st) && qc_demand_measure(&has, &d, st);
    ok = ok && (!recurrent || widen_recurrent(out, &has, &d, st));
    if (ok && !*out && any && !(has.sqnr_db >= QC_FALLBACK_MENDED_DB)) ok = widen_worst(out, &has, &d, st);
    if (ok && *out) (*out)->mended = true;
    qc_demand_end(&d);
    return ok;
}

/* ---- The warning ---- */

/* Returns the layer of the best advice, else of the first cause of error, else the one whose result has the least SQNR,
   or with weight-only quantization the weight with the least SQNR. */
static const char *layer_to_name(const struct qc_report *r, const struct qc_ideas *ideas)
{
    const struct qc_layer *worst = NULL;
    if (r->advice_count && r->advice[0].node) return r->advice[0].node;
    for (size_t i = 0; i < ideas->count; i++)
        if (ideas->of[i].node) return ideas->of[i].node;
    for (size_t i = 0; i < r->layer_count; i++)
        if (!isnan(r->layers[i].sqnr_db) && (!worst || r->layers[i].sqnr_db < worst->sqnr_db)) worst = &r->layers[i];
    if (worst) return worst->node ? worst->node : worst->name;
    for (size_t i = 0; i < r->layer_count; i++)
        if (!worst || r->layers[i].alone_db < worst->alone_db) worst = &r->layers[i];
    return worst ? worst->name : NULL;
}

/* Returns the remedy: a measured command, one that follows from the cause of error, or a demand. */
static const char *remedy_text(const struct qc_report *r, const struct qc_ideas *ideas, struct qc_network *net,
                               struct qc_status *st)
{
    static const char demand[] = "--min-sqnr 10 widens the worst layers";
    const char *command;
    if (r->advice_count && r->advice[0].after_db >= QC_FALLBACK_USELESS_DB)
        return qc_arena_printf(net->arena, st, "%.2f dB with: %s", r->advice[0].after_db, r->advice[0].command);
    if (r->fallback)
        return "wider types for the worst layers do not help: leave activations in float with --activation-type none";
    if (r->advice_tried || !ideas->count) return demand;
    if (!qc_job_command(&command, net->setup->in, net->scheme.options, &ideas->of[0].change, net->arena, st))
        return NULL;
    return qc_arena_printf(net->arena, st, "%s, or try: %s", demand, command);
}

bool qc_warn_useless(const struct qc_report *r, const struct qc_ideas *ideas, struct qc_network *net,
                     const struct qc_measurement *m, struct qc_status *st)
{
    size_t output;
    const double db = qc_worst_output(&output, net, m);
    if (!(db < QC_FALLBACK_USELESS_DB)) return true;
    const char *layer = layer_to_name(r, ideas), *remedy = remedy_text(r, ideas, net, st);
    if (!remedy) return false;
    qc_warn(net->warnings, "output '%.80s' has %.2f dB, too low to be useful%s%.200s%s; %s",
            net->real->outputs[output].name, db, layer ? "; most is lost in '" : "", layer ? layer : "",
            layer ? "'" : "", remedy);
    return true;
}
