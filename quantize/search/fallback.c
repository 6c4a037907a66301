// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/fallback.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "graph/core/multiply_adds.h"
#include "graph/types/number_format.h"
#include "quantize/report/quantize_report.h"
#include "quantize/search/cost.h"
#include "quantize/search/limits.h"
#include "quantize/search/own_metric.h"
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
    bool rounds_again;  /* ... and rounds inputs of products with stored weights to 8 bits again (MatMulNBits) */
};

struct search {
    struct qc_candidate *c;
    struct qc_demand *demand;
    const struct qc_sensitivity *s;
    struct qc_scheme base;
    struct qc_standing best; /* results of the last attempt that was measured */
    struct terms terms;
    enum rung first, end;       /* the rungs that are tried: first .. end - 1 */
    struct qc_report_cost most; /* more than this is not worth it; 0 bytes: no limit */
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
    ok = ok && (!eval || !net->scheme.options->sensitivity || net->scheme.options->metric ||
                run_layers(&s, net, eval, believed, most, st));
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
                          .rounds_again = base->options->runs_on->onnxruntime && !integer,
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
    const bool again = t->rounds_again && isfinite(e->noise_weights) && strcmp(e->op, "Conv") != 0;
    if (!weights && activation && activation <= 8 && weight <= 8 && !again) return WIDE_ACTIVATIONS;
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
    const struct qc_network *net = s->c->network;
    const bool eval = qc_measures_accuracy(s->c->setup) && !s->demand->outputs_alone;
    step->value = eval ? s->best.metric.value : (double)NAN;
    step->drop = eval ? qc_metric_drop(&s->demand->fp32, &s->best.metric) : (double)NAN;
    step->nll = eval ? s->best.metric.nll : (double)NAN;
    step->sqnr_db = s->best.sqnr_db;
    step->int8_share = s->terms.wide_is_float ? qc_int8_share_stored(net->produced) : qc_int8_share(net->produced);
}

/* Sets *reason if the step costs more than s->most. */
static void refuse_cost(const char **reason, const struct search *s, const struct qc_report_fallback_step *step)
{
    if (!s->most.bytes) return;
    if (step->cost.bytes > s->most.bytes) *reason = "the file would be larger than the float model";
    if (step->cost.latency > s->most.latency) *reason = "it would take longer than the float model";
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
        (ran && !qc_cost_of(&step->cost, s->c->network, st)))
        return false;
    if (ran && !step->reason) refuse_cost(&step->reason, s, step);
    if (ran && !step->reason && !score(s, st)) return false;
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

/* Returns the price of what a step costs at run time, in units of the float latency. Without known shapes the share of
 * integers stands for latency. */
static double price_of_cost(const struct search *s, const struct qc_report_fallback_step *step)
{
    const double bytes = (double)step->cost.bytes / (double)s->c->setup->model.graph->budget.model_bytes,
                 share = isfinite(step->int8_share) ? step->int8_share : 0,
                 latency = isfinite(step->cost.latency) ? step->cost.latency : 1 - share / 2;
    return s->base.partition.prefer == QC_PREFER_SIZE ? bytes : latency + QC_PRICE_OF_BYTES * bytes;
}

/* Chooses the cheaper of the two ways. in_float, in_wide: the number of layers that each needs, 0: it does not meet the
   demand. Of equally cheap ways float wins if the target computes wider types in float. *layers: number of the chosen
   way; the candidate is brought to it. */
static bool settle_rung(size_t *layers, struct search *s, size_t in_float, size_t in_wide, struct qc_status *st)
{
    struct qc_report_fallback_step *wide = in_wide ? step_of(s, in_wide, WIDE) : NULL,
                                   *floats = in_float ? step_of(s, in_float, FLOATS) : NULL;
    if (in_float && !floats && wide && changes(s, in_float, FLOATS) && !attempt(&floats, s, in_float, FLOATS, st))
        return false;
    const double of_float = floats && floats->met ? price_of_cost(s, floats) : (double)INFINITY,
                 of_wide = wide && wide->met ? price_of_cost(s, wide) : (double)INFINITY;
    const bool takes_wide =
        isfinite(of_wide) && (of_wide < of_float || (!s->terms.wide_is_float && !(of_float < of_wide)));
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

/* Starts a search from the state of the candidate. */
static bool begin(struct search *s, struct qc_demand *d, const struct qc_sensitivity *effects,
                  const struct qc_standing *has, struct qc_status *st)
{
    *s = (struct search){.c = d->c, .demand = d, .s = effects, .base = d->c->scheme, .best = *has};
    s->terms = terms_of(&s->base);
    /* Each step doubles a number of layers or halves an interval, on two rungs. */
    s->steps = QC_NEW_ARRAY(d->c->arena, struct qc_report_fallback_step, 2 * (4 * 8 * sizeof(size_t) + 8), st);
    if (!s->steps) return false;
    s->steps[0] = (struct qc_report_fallback_step){.type = ""};
    fill_step(&s->steps[s->step_count++], s);
    return qc_cost_of(&s->steps[0].cost, d->c->network, st);
}

/* Brings the candidate back if no step was chosen, and fills in the report. */
static bool end(struct qc_report_fallback **out, struct qc_standing *has, struct search *s, size_t layers,
                struct qc_status *st)
{
    struct qc_report_fallback *to = QC_NEW(s->c->arena, struct qc_report_fallback, st);
    if (layers)
        *has = s->best;
    else if (s->step_count > 1 && !qc_candidate_make(s->c, &s->base, NULL, st)) /* the first state, for the report */
        return false;
    if (!to || !fill_fallback_report(to, s, layers, st)) return false;
    *out = to;
    return true;
}

bool qc_fall_back(struct qc_report_fallback **out, struct qc_standing *has, struct qc_demand *d,
                  const struct qc_sensitivity *effects, struct qc_status *st)
{
    struct search s;
    size_t layers = 0;
    if (!begin(&s, d, effects, has, st)) return false;
    /* With --prefer speed the rungs are searched apart if the target would dequantize the weights of wide layers in
       every run. */
    const bool small = has_small_floats(s.terms.base);
    const bool apart =
        !small && s.terms.wide_is_float && s.base.partition.prefer == QC_PREFER_SPEED && wide_weight(&s.terms) != QC_I8;
    s.first = apart ? FLOATS : WIDE;
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
    if (apart) {
        s.first = WIDE;
        s.end = FLOATS;
        if (!search(&wide, &s, st)) return false;
    }
    return settle_rung(&layers, &s, layers, wide, st) && end(out, has, &s, layers, st);
}

/* ---- Without a demand ---- */

static double noise_price(const struct qc_report_fallback_step *step)
{
    return QC_PRICE_OF_NOISE * pow(10, -step->sqnr_db / 10);
}

static double price_of(const struct search *s, const struct qc_report_fallback_step *step)
{
    return step->reason ? (double)INFINITY : price_of_cost(s, step) + noise_price(step);
}

/* Tries so many layers. *over: more of them cannot be worth it, since what they cost alone exceeds the best price. */
static bool try_layers(struct qc_report_fallback_step **best, bool *over, struct search *s, size_t layers,
                       enum rung rung, struct qc_status *st)
{
    struct qc_report_fallback_step *step;
    if (!changes(s, layers, rung)) return true;
    if (!attempt(&step, s, layers, rung, st)) return false;
    step->met = false;
    *over = (step->reason && s->at_layers == layers) || price_of_cost(s, step) >= price_of(s, *best);
    if (price_of(s, step) < price_of(s, *best)) *best = step;
    return true;
}

/* Follows one rung: doubles the number of layers while that can be worth it, then tries fewer than the best. */
static bool follow_rung(struct qc_report_fallback_step **best, struct search *s, enum rung rung, struct qc_status *st)
{
    const size_t all = s->s->count;
    const struct qc_report_fallback_step *before = *best;
    bool over = false;
    for (size_t n = 1; n <= all && !over; n = 2 * n < all || n == all ? 2 * n : all)
        if (!try_layers(best, &over, s, n, rung, st)) return false;
    for (size_t low = *best != before ? (*best)->layers / 2 : 0, high = low ? (*best)->layers : 0; high > low + 1;) {
        const size_t middle = low + (high - low) / 2;
        if (!try_layers(best, &over, s, middle, rung, st)) return false;
        if ((*best)->layers == middle)
            high = middle;
        else
            low = middle;
    }
    return true;
}

bool qc_widen_while_worth(struct qc_report_fallback **out, struct qc_standing *has, struct qc_demand *d,
                          const struct qc_sensitivity *effects, struct qc_status *st)
{
    struct search s;
    if (!begin(&s, d, effects, has, st)) return false;
    struct qc_report_fallback_step *best = &s.steps[0];
    const size_t float_bytes = d->c->setup->model.graph->budget.model_bytes,
                 bytes = best->cost.bytes > float_bytes ? best->cost.bytes : float_bytes;
    /* A slow file is worth more than a useless one. */
    const bool useless = best->sqnr_db < QC_FALLBACK_USELESS_DB;
    s.most = (struct qc_report_cost){.latency = useless ? (double)INFINITY : fmax(1, best->cost.latency),
                                     .bytes = useless ? bytes + bytes / 20 : bytes};
    if (!follow_rung(&best, &s, WIDE, st) || !follow_rung(&best, &s, FLOATS, st)) return false;
    if (best == s.steps) return end(out, has, &s, 0, st);
    best->chosen = best->met = true;
    const enum rung rung = strcmp(best->type, rung_name(&s, FLOATS)) == 0 ? FLOATS : WIDE;
    return bring(&s, best->layers, rung, st) && end(out, has, &s, best->layers, st);
}
