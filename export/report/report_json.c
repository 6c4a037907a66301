// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>

#include "export/report/report.h"
#include "export/report/report_parts.h"

enum { PARAMETERS_LISTED = 16384 }; /* of a layer with more scales, only their number, minimum and maximum */

static struct qc_json *text(const char *s)
{
    return qc_json_string(s);
}

static struct qc_json *count(size_t n)
{
    return qc_json_integer((int64_t)n);
}

static struct qc_json *file(const char *name, const char *sha256)
{
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "file", text(name));
    qc_json_set(o, "sha256", text(sha256));
    return o;
}

static struct qc_json *interval(double low, double high)
{
    if (isnan(low)) return qc_json_null();
    struct qc_json *a = qc_json_array();
    qc_json_add(a, qc_json_number(low));
    qc_json_add(a, qc_json_number(high));
    return a;
}

static struct qc_json *accuracy(const struct qc_report *r)
{
    if (!r->metric) return qc_json_null();
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "file", text(r->eval_file));
    qc_json_set(o, "metric", text(r->metric));
    qc_json_set(o, "samples", count(r->eval_samples));
    qc_json_set(o, "fp32", qc_json_number(r->fp32));
    qc_json_set(o, "int8", qc_json_number(r->int8));
    qc_json_set(o, "fp32_interval", interval(r->fp32_low, r->fp32_high));
    qc_json_set(o, "int8_interval", interval(r->int8_low, r->int8_high));
    qc_json_set(o, "fp32_top5", qc_json_number(r->fp32_top5));
    qc_json_set(o, "int8_top5", qc_json_number(r->int8_top5));
    if (r->eval_positions) {
        qc_json_set(o, "positions", count(r->eval_positions));
        qc_json_set(o, "fp32_nll", qc_json_number(r->fp32_nll));
        qc_json_set(o, "int8_nll", qc_json_number(r->int8_nll));
    }
    return o;
}

/* Embedding tables and large weights in blocks have millions of scales, which are in the model file. */
static struct qc_json *extent(const struct qc_layer *l, bool zero_point)
{
    struct qc_json *o = qc_json_object();
    size_t lo = 0, hi = 0;
    for (size_t i = 1; i < l->count; i++) {
        const bool below = zero_point ? l->zero_point[i] < l->zero_point[lo] : l->scale[i] < l->scale[lo],
                   above = zero_point ? l->zero_point[i] > l->zero_point[hi] : l->scale[i] > l->scale[hi];
        lo = below ? i : lo;
        hi = above ? i : hi;
    }
    qc_json_set(o, "count", count(l->count));
    qc_json_set(o, "min", zero_point ? qc_json_integer(l->zero_point[lo]) : qc_json_float(l->scale[lo]));
    qc_json_set(o, "max", zero_point ? qc_json_integer(l->zero_point[hi]) : qc_json_float(l->scale[hi]));
    return o;
}

static struct qc_json *parameters(const struct qc_layer *l, bool zero_point)
{
    if (l->axis < 0) return zero_point ? qc_json_integer(l->zero_point[0]) : qc_json_float(l->scale[0]);
    if (l->count > PARAMETERS_LISTED) return extent(l, zero_point);
    struct qc_json *a = qc_json_array();
    for (size_t i = 0; i < l->count; i++)
        qc_json_add(a, zero_point ? qc_json_integer(l->zero_point[i]) : qc_json_float(l->scale[i]));
    return a;
}

/* Writes the number with a float's digits if it is a float. */
static struct qc_json *brief(double v)
{
    float f = (float)v;
    return isnormal(f) || v == 0 ? qc_json_float(f) : qc_json_number(v);
}

static struct qc_json *solver(const struct qc_layer_solver *s)
{
    struct qc_json *o = qc_json_object(), *known = qc_json_object(), *curve, *other;
    qc_json_set(known, "min", brief(s->known_min));
    qc_json_set(known, "max", brief(s->known_max));
    qc_json_set(o, "known", known);
    qc_json_set(o, "behind", s->behind ? text(s->behind) : qc_json_null());
    qc_json_set(o, "objective", brief(s->objective));
    qc_json_set(o, "objective_minmax", brief(s->objective_minmax));
    qc_json_set(o, "candidates", s->candidates ? qc_json_integer(s->candidates) : qc_json_null());
    curve = s->curve_count ? qc_json_array() : qc_json_null();
    for (size_t i = 0; i < s->curve_count; i++) {
        struct qc_json *point = qc_json_array();
        qc_json_add(point, brief(fmax(-s->curve[i].min, s->curve[i].max)));
        qc_json_add(point, brief(s->curve[i].objective));
        qc_json_add(curve, point);
    }
    qc_json_set(o, "curve", curve);
    other = s->runner_up ? qc_json_object() : qc_json_null();
    if (s->runner_up) {
        qc_json_set(other, "min", brief(s->runner_up->min));
        qc_json_set(other, "max", brief(s->runner_up->max));
        qc_json_set(other, "objective", brief(s->runner_up->objective));
    }
    qc_json_set(o, "runner_up", other);
    return o;
}

/* Returns null for activations and other constants. */
static struct qc_json *rounding(const struct qc_report_rounding *r)
{
    if (!r) return qc_json_null();
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "method", text(r->method));
    qc_json_set(o, "reason", r->reason ? text(r->reason) : qc_json_null());
    qc_json_set(o, "judged_on", r->judged ? text(r->held ? "held back" : "all") : qc_json_null());
    qc_json_set(o, "error_nearest", r->judged ? qc_json_number(r->error_nearest) : qc_json_null());
    qc_json_set(o, "error", r->judged ? qc_json_number(r->error) : qc_json_null());
    qc_json_set(o, "outputs", count(r->outputs));
    qc_json_set(o, "outputs_nearest", count(r->nearest_outputs));
    qc_json_set(o, "blocks", count(r->blocks));
    return o;
}

static struct qc_json *bias_correction(const struct qc_report_rounding *r)
{
    if (!r || !r->bias_corrected) return qc_json_null();
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "rms", qc_json_number(r->bias_rms));
    qc_json_set(o, "max", qc_json_number(r->bias_max));
    return o;
}

static struct qc_json *histogram(const struct qc_report_histogram *h)
{
    if (!h) return qc_json_null();
    struct qc_json *o = qc_json_object(), *bars = qc_json_array();
    for (size_t i = 0; i < h->bar_count; i++) qc_json_add(bars, qc_json_integer((int64_t)h->bars[i]));
    qc_json_set(o, "min", qc_json_float((float)h->lo));
    qc_json_set(o, "max", qc_json_float((float)h->hi));
    qc_json_set(o, "zeros", qc_json_integer((int64_t)h->zeros));
    qc_json_set(o, "counts", bars);
    return o;
}

static struct qc_json *rank(const struct qc_report_rank *e)
{
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "node", text(e->node));
    qc_json_set(o, "op", text(e->op));
    qc_json_set(o, "output_sqnr_db", qc_json_number(e->sqnr_db));
    qc_json_set(o, "measured", qc_json_bool(e->measured));
    return o;
}

static struct qc_json *suggestion(const struct qc_report_suggestion *s)
{
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "name", text(s->node));
    qc_json_set(o, "op", text(s->op));
    qc_json_set(o, "sqnr_db_before", qc_json_number(s->before_db));
    qc_json_set(o, "sqnr_db_after", qc_json_number(s->after_db));
    qc_json_set(o, "why", text(s->why));
    return o;
}

static struct qc_json *advice(const struct qc_report_advice *a, const struct qc_report *r)
{
    struct qc_json *o = qc_json_object(), *measured = qc_json_object(), *held = qc_json_object(),
                   *list = qc_json_array();
    for (size_t i = 0; i < a->word_count; i++) qc_json_add(list, text(a->words[i]));
    qc_json_set(o, "command", list);
    qc_json_set(o, "action", text(a->action));
    qc_json_set(o, "node", text(a->node));
    qc_json_set(measured, "sqnr_db_before", qc_json_number(a->before_db));
    qc_json_set(measured, "sqnr_db_after", qc_json_number(a->after_db));
    list = qc_json_array();
    for (size_t i = 0; i < r->output_count; i++) {
        struct qc_json *item = qc_json_object();
        qc_json_set(item, "name", text(r->outputs[i].name));
        qc_json_set(item, "sqnr_db_before", qc_json_number(a->outputs_before_db[i]));
        qc_json_set(item, "sqnr_db_after", qc_json_number(a->outputs_after_db[i]));
        qc_json_add(list, item);
    }
    qc_json_set(measured, "outputs", list);
    qc_json_set(held, "sqnr_db_before", qc_json_number(a->held_before_db));
    qc_json_set(held, "sqnr_db_after", qc_json_number(a->held_after_db));
    qc_json_set(measured, "held_back", held);
    qc_json_set(o, "measured", measured);
    return o;
}

static struct qc_json *choice(const struct qc_report_choice *c)
{
    struct qc_json *o = qc_json_object();
    const struct qc_report_trial *t = c->trial;
    qc_json_set(o, "taken_for", text(c->steps ? "steps" : "network"));
    qc_json_set(o, "gain_db", qc_json_number(t ? t->gain_db : (double)NAN));
    qc_json_set(o, "worth_db", qc_json_number(t ? t->worth_db : (double)NAN));
    return o;
}

static struct qc_json *layer(const struct qc_layer *l)
{
    struct qc_json *o = qc_json_object(), *seen = qc_json_object(), *chosen = qc_json_object();
    qc_json_set(o, "name", text(l->name));
    qc_json_set(o, "op", text(l->op));
    qc_json_set(o, "node", text(l->node));
    qc_json_set(o, "kind", text(l->kind));
    qc_json_set(o, "type", text(l->type));
    qc_json_set(o, "scale", parameters(l, false));
    qc_json_set(o, "zero_point", parameters(l, true));
    qc_json_set(o, "axis", l->axis < 0 ? qc_json_null() : qc_json_integer(l->axis));
    if (l->block) qc_json_set(o, "block", qc_json_integer(l->block));
    qc_json_set(o, "one_scale", l->one_scale ? text(l->one_scale) : qc_json_null());
    qc_json_set(o, "method", text(l->method));
    if (l->choice) qc_json_set(o, "choice", choice(l->choice));
    qc_json_set(seen, "min", qc_json_float((float)l->observed_min));
    qc_json_set(seen, "max", qc_json_float((float)l->observed_max));
    qc_json_set(seen, "count", qc_json_integer((int64_t)l->observed_count));
    qc_json_set(seen, "nan", qc_json_integer((int64_t)l->observed_nan));
    qc_json_set(seen, "inf", qc_json_integer((int64_t)l->observed_inf));
    qc_json_set(o, "observed", seen);
    qc_json_set(chosen, "min", qc_json_number(l->chosen_min));
    qc_json_set(chosen, "max", qc_json_number(l->chosen_max));
    qc_json_set(o, "chosen", chosen);
    qc_json_set(o, "clipped_fraction", qc_json_number(l->clipped_fraction));
    qc_json_set(o, "solver", solver(&l->solver));
    qc_json_set(o, "sqnr_db", qc_json_number(l->sqnr_db));
    qc_json_set(o, "sqnr_alone_db", qc_json_number(l->alone_db));
    qc_json_set(o, "cosine", qc_json_number(l->cosine));
    qc_json_set(o, "max_abs", qc_json_number(l->max_abs));
    qc_json_set(o, "saturated_fraction", qc_json_number(l->saturated_fraction));
    qc_json_set(o, "weight_rounding", rounding(l->rounding));
    qc_json_set(o, "bias_correction", bias_correction(l->rounding));
    qc_json_set(o, "accumulator_bits", l->accumulator_bits ? qc_json_integer(l->accumulator_bits) : qc_json_null());
    qc_json_set(o, "accumulator_bits_seen",
                l->accumulator_bits_seen ? qc_json_integer(l->accumulator_bits_seen) : qc_json_null());
    qc_json_set(o, "accumulator_overflows", qc_json_number(l->accumulator_overflows));
    qc_json_set(o, "lost_fraction", qc_json_number(l->lost_fraction));
    qc_json_set(o, "histogram", histogram(l->histogram));
    const bool fitted = l->scale_raise_max > 0;
    qc_json_set(o, "scales_raised", fitted ? count(l->scales_raised) : qc_json_null());
    qc_json_set(o, "scale_raise_max", fitted ? qc_json_number(l->scale_raise_max) : qc_json_null());
    return o;
}

static struct qc_json *accumulator(const struct qc_report_accumulator *a)
{
    if (!a) return qc_json_null();
    struct qc_json *o = qc_json_object(), *layers = qc_json_array();
    qc_json_set(o, "bits", qc_json_integer(a->bits));
    qc_json_set(o, "overflow", text(a->overflow));
    qc_json_set(o, "bound", text(a->bound));
    qc_json_set(o, "file", text(a->file));
    qc_json_set(o, "samples", count(a->samples));
    qc_json_set(o, "scales_raised", count(a->scales_raised));
    qc_json_set(o, "channels_bounded", count(a->channels_bounded));
    for (size_t i = 0; i < a->layer_count; i++) {
        struct qc_json *l = qc_json_object();
        qc_json_set(l, "name", text(a->layers[i].name));
        qc_json_set(l, "overflows", qc_json_integer((int64_t)a->layers[i].overflows));
        qc_json_set(l, "results", qc_json_integer((int64_t)a->layers[i].results));
        qc_json_set(l, "bits", qc_json_integer(a->layers[i].bits));
        qc_json_add(layers, l);
    }
    qc_json_set(o, "layers", layers);
    return o;
}

static struct qc_json *group(const struct qc_report_group *g)
{
    struct qc_json *o = qc_json_object(), *ops = qc_json_array(),
                   *at = g->one_piece ? qc_json_null() : qc_json_object();
    for (size_t i = 0; i < g->op_count; i++) qc_json_add(ops, text(g->ops[i]));
    qc_json_set(o, "name", text(g->name));
    qc_json_set(o, "op", text(g->op));
    qc_json_set(o, "ops", ops);
    qc_json_set(o, "type", text(g->type));
    qc_json_set(o, "one_piece", qc_json_bool(g->one_piece));
    if (!g->one_piece) {
        qc_json_set(at, "name", g->break_name ? text(g->break_name) : qc_json_null());
        qc_json_set(at, "op", g->break_op ? text(g->break_op) : qc_json_null());
        qc_json_set(at, "reason", text(g->reason));
    }
    qc_json_set(o, "breaks_at", at);
    return o;
}

static struct qc_json *effects(const struct qc_report *r)
{
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < r->effect_count; i++) {
        struct qc_json *o = qc_json_object();
        qc_json_set(o, "node", text(r->effects[i].node));
        qc_json_set(o, "op", text(r->effects[i].op));
        qc_json_set(o, "sqnr_db", qc_json_number(r->effects[i].sqnr_db));
        qc_json_set(o, "weights_sqnr_db", qc_json_number(r->effects[i].weights_sqnr_db));
        qc_json_set(o, "value", qc_json_number(r->effects[i].metric));
        qc_json_set(o, "drop", qc_json_number(r->effects[i].lost));
        qc_json_add(list, o);
    }
    return list;
}

static struct qc_json *fallback(const struct qc_report_fallback *f)
{
    if (!f) return qc_json_null();
    struct qc_json *o = qc_json_object(), *steps = qc_json_array(), *options = qc_json_array();
    qc_json_set(o, "max_drop", qc_json_number(f->limit));
    qc_json_set(o, "min_sqnr", qc_json_number(f->min_sqnr));
    qc_json_set(o, "max_nll", qc_json_number(f->max_nll));
    qc_json_set(o, "met", qc_json_bool(f->met));
    for (size_t i = 0; i < f->option_count; i++) qc_json_add(options, text(f->options[i]));
    qc_json_set(o, "options", options);
    qc_json_set(o, "command", f->command ? text(f->command) : qc_json_null());
    for (size_t i = 0; i < f->step_count; i++) {
        const struct qc_report_fallback_step *s = &f->steps[i];
        struct qc_json *step = qc_json_object();
        qc_json_set(step, "layers", count(s->layers));
        qc_json_set(step, "type", *s->type ? text(s->type) : qc_json_null());
        qc_json_set(step, "value", qc_json_number(s->value));
        qc_json_set(step, "drop", qc_json_number(s->drop));
        qc_json_set(step, "sqnr_db", qc_json_number(s->sqnr_db));
        qc_json_set(step, "nll", qc_json_number(s->nll));
        qc_json_set(step, "int8_share", qc_json_number(s->int8_share));
        qc_json_set(step, "met", qc_json_bool(s->met));
        qc_json_set(step, "chosen", qc_json_bool(s->chosen));
        qc_json_set(step, "reason", s->reason ? text(s->reason) : qc_json_null());
        qc_json_add(steps, step);
    }
    qc_json_set(o, "steps", steps);
    return o;
}

static struct qc_json *demand(const struct qc_report_demand *d)
{
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "met", qc_json_bool(d->met));
    qc_json_set(o, "min_sqnr", qc_json_number(d->min_sqnr));
    qc_json_set(o, "sqnr_db", qc_json_number(d->sqnr_db));
    qc_json_set(o, "output", d->output ? text(d->output) : qc_json_null());
    qc_json_set(o, "file", d->file ? text(d->file) : qc_json_null());
    qc_json_set(o, "samples", count(d->samples));
    qc_json_set(o, "max_nll", qc_json_number(d->max_nll));
    qc_json_set(o, "nll", qc_json_number(d->nll));
    return o;
}

static struct qc_json *trials(const struct qc_report *r)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < r->trial_count; i++) {
        const struct qc_report_trial *t = &r->trials[i];
        struct qc_json *o = qc_json_object();
        qc_json_set(o, "method", text(t->method));
        qc_json_set(o, "sqnr_db", qc_json_number(t->sqnr_db));
        qc_json_set(o, "gain_db", qc_json_number(t->gain_db));
        qc_json_set(o, "error_db", qc_json_number(t->error_db));
        qc_json_set(o, "worth_db", qc_json_number(t->worth_db));
        qc_json_set(o, "samples", count(t->samples));
        qc_json_set(o, "chosen", qc_json_bool(t->chosen));
        qc_json_add(all, o);
    }
    return all;
}

static struct qc_json *crossed(const struct qc_report *r)
{
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "gain_db", qc_json_number(r->crossed_gain_db));
    qc_json_set(o, "kept", qc_json_bool(r->crossed_kept));
    return o;
}

static struct qc_json *output_bias(const struct qc_report *r)
{
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "outputs", count(r->output_bias_outputs));
    qc_json_set(o, "expected_gain_db", qc_json_number(r->output_bias_gain_db));
    qc_json_set(o, "runs", count(r->output_bias_units));
    return o;
}

static struct qc_json *centred(const struct qc_report *r)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < r->centred_count; i++) {
        const struct qc_report_centred *c = &r->centred[i];
        struct qc_json *o = qc_json_object();
        qc_json_set(o, "name", text(c->value));
        qc_json_set(o, "channels", count(c->channels));
        qc_json_set(o, "layers", count(c->layers));
        qc_json_set(o, "error_ratio", qc_json_number(c->error));
        qc_json_add(all, o);
    }
    return all;
}

static struct qc_json *scaled(const struct qc_report *r)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < r->scaled_count; i++) {
        const struct qc_report_scaled *s = &r->scaled[i];
        struct qc_json *o = qc_json_object(), *nodes = qc_json_array();
        qc_json_set(o, "name", text(s->value));
        qc_json_set(o, "kind", s->kind ? text(s->kind) : qc_json_null());
        for (size_t k = 0; k < s->layers; k++) qc_json_add(nodes, text(s->nodes[k]));
        qc_json_set(o, "layers", nodes);
        qc_json_set(o, "channels", count(s->channels));
        qc_json_set(o, "activation_power", s->kind ? qc_json_number(s->activation_power) : qc_json_null());
        qc_json_set(o, "weight_power", s->kind ? qc_json_number(s->weight_power) : qc_json_null());
        qc_json_set(o, "error_ratio", qc_json_number(s->error));
        qc_json_add(all, o);
    }
    return all;
}

static struct qc_json *timing(const struct qc_report *r)
{
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "total_seconds", qc_json_number(r->total_seconds));
    qc_json_set(o, "import_seconds", qc_json_number(r->import_seconds));
    qc_json_set(o, "collect_seconds", qc_json_number(r->collect_seconds));
    qc_json_set(o, "solve_seconds", qc_json_number(r->solve_seconds));
    qc_json_set(o, "rounding_seconds", qc_json_number(r->rounding_seconds));
    qc_json_set(o, "measure_seconds", qc_json_number(r->measure_seconds));
    qc_json_set(o, "advice_seconds", qc_json_number(r->advice_seconds));
    qc_json_set(o, "sensitivity_seconds", qc_json_number(r->sensitivity_seconds));
    qc_json_set(o, "fallback_seconds", qc_json_number(r->fallback_seconds));
    if (r->size) qc_json_set(o, "size_seconds", qc_json_number(r->size->seconds));
    if (r->latency) qc_json_set(o, "benchmark", qc_json_latency(r->latency));
    qc_json_set(o, "eval_seconds", qc_json_number(r->eval_seconds));
    qc_json_set(o, "export_seconds", qc_json_number(r->export_seconds));
    qc_json_set(o, "workers", qc_json_integer(r->workers)); /* here, because no other key depends on it */
    return o;
}

struct qc_json *qc_report_json(const struct qc_report *r)
{
    struct qc_json *o = qc_json_object(), *list, *item;
    qc_json_set(o, "tool", text("qcalib"));
    qc_json_set(o, "version", text(r->version));
    qc_json_set(o, "command", text(r->command));
    item = file(r->model_file, r->model_sha256);
    qc_json_set(item, "bytes", count(r->model_bytes));
    qc_json_set(o, "model", item);
    item = file(r->data_file, r->data_sha256);
    qc_json_set(item, "samples", count(r->data_samples));
    qc_json_set(item, "samples_in_file", count(r->data_total));
    qc_json_set(item, "samples_dropped", count(r->data_dropped));
    if (r->data_made) qc_json_set(item, "inputs_made", count(r->data_made));
    qc_json_set(o, "data", item);
    if (r->caches) {
        item = qc_json_object();
        qc_json_set(item, "count", count(r->caches));
        qc_json_set(item, "type", text(r->cache_type));
        qc_json_set(o, "caches", item);
    }
    item = r->statistics_file ? file(r->statistics_file, r->statistics_sha256) : qc_json_null();
    if (r->statistics_file) qc_json_set(item, "samples", count(r->statistics_samples));
    qc_json_set(o, "statistics", item);
    qc_json_set(o, "options", r->options ? r->options : qc_json_object());
    if (r->quantized_in_part) qc_json_set(o, "reference", text("quantized in part"));
    qc_json_set(o, "accuracy", accuracy(r));
    qc_json_set(o, "accumulator", accumulator(r->accumulator));
    list = qc_json_array();
    for (size_t i = 0; i < r->output_count; i++) {
        item = qc_json_object();
        qc_json_set(item, "name", text(r->outputs[i].name));
        qc_json_set(item, "sqnr_db", qc_json_number(r->outputs[i].sqnr_db));
        qc_json_set(item, "cosine", qc_json_number(r->outputs[i].cosine));
        qc_json_set(item, "max_abs", qc_json_number(r->outputs[i].max_abs));
        qc_json_add(list, item);
    }
    qc_json_set(o, "outputs", list);
    qc_json_set(o, "measured_samples", count(r->measured_samples));
    qc_json_set(o, "quantized_ops", count(r->quantized_ops));
    item = qc_json_object();
    qc_json_set(item, "exact_without_vnni", qc_json_bool(!r->pairs.saturating));
    qc_json_set(item, "products", count(r->pairs.products));
    qc_json_set(item, "saturating", count(r->pairs.saturating));
    qc_json_set(item, "first", r->pairs.first ? text(r->pairs.first) : qc_json_null());
    qc_json_set(item, "channels_limited", count(r->pairs.channels));
    qc_json_set(o, "processors", item);
    list = qc_json_array();
    for (size_t i = 0; i < r->float_op_count; i++) {
        item = qc_json_object();
        qc_json_set(item, "name", text(r->float_ops[i].name));
        qc_json_set(item, "op", text(r->float_ops[i].op));
        qc_json_set(item, "reason", text(r->float_ops[i].reason));
        qc_json_add(list, item);
    }
    qc_json_set(o, "float_ops", list);
    if (r->kept) {
        struct qc_json *kept = qc_json_object();
        qc_json_set(kept, "kept", count(r->kept));
        qc_json_set(kept, "quantizers", count(r->quantizers));
        qc_json_set(o, "given", kept);
    }
    qc_json_set(o, "int8_share", qc_json_number(r->int8_share));
    qc_json_set(o, "integer_share", qc_json_number(r->integer_share));
    if (r->small_float_share > 0) qc_json_set(o, "small_float_share", qc_json_number(r->small_float_share));
    if (r->block_share > 0) qc_json_set(o, "block_share", qc_json_number(r->block_share));
    qc_json_set(o, "sensitivity", effects(r));
    qc_json_set(o, "sensitivity_samples", count(r->effect_samples));
    if (r->demand) qc_json_set(o, "demand", demand(r->demand));
    qc_json_set(o, "fallback", fallback(r->fallback));
    if (r->size) qc_json_size_choice(o, r->size);
    if (r->trial_count) qc_json_set(o, "trials", trials(r));
    if (r->crossed) qc_json_set(o, "rounded_on_what_is_read", crossed(r));
    if (r->output_bias_outputs) qc_json_set(o, "biases_of_outputs", output_bias(r));
    if (r->centred_count) qc_json_set(o, "centred_inputs", centred(r));
    if (r->scaled_count) qc_json_set(o, "scaled_channels", scaled(r));
    list = qc_json_array();
    for (size_t i = 0; i < r->group_count; i++) qc_json_add(list, group(&r->groups[i]));
    qc_json_set(o, "groups", list);
    list = qc_json_array();
    for (size_t i = 0; i < r->rank_count; i++) qc_json_add(list, rank(&r->ranks[i]));
    qc_json_set(o, "ranking", list);
    list = qc_json_array();
    for (size_t i = 0; i < r->suggestion_count; i++) qc_json_add(list, suggestion(&r->suggestions[i]));
    qc_json_set(o, "suggestions", list);
    list = qc_json_array();
    for (size_t i = 0; i < r->advice_count; i++) qc_json_add(list, advice(&r->advice[i], r));
    qc_json_set(o, "advice", list);
    qc_json_set(o, "advice_tried", count(r->advice_tried));
    qc_json_set(o, "advice_left", count(r->advice_left));
    qc_json_set(o, "cheaper", r->cheaper ? advice(r->cheaper, r) : qc_json_null());
    list = qc_json_array();
    for (size_t i = 0; i < r->warning_count; i++) qc_json_add(list, text(r->warnings[i]));
    qc_json_set(o, "warnings", list);
    list = qc_json_array();
    for (size_t i = 0; i < r->layer_count; i++) qc_json_add(list, layer(&r->layers[i]));
    qc_json_set(o, "layers", list);
    list = qc_json_array();
    for (size_t i = 0; i < r->file_count; i++) {
        item = qc_json_object();
        qc_json_set(item, "file", text(r->files[i]));
        qc_json_set(item, "bytes", count(r->file_bytes[i]));
        qc_json_add(list, item);
    }
    qc_json_set(o, "files", list);
    item = qc_json_object();
    qc_json_set(item, "constants_bytes", count(r->constant_bytes));
    qc_json_set(item, "per_worker_bytes", count(r->worker_bytes));
    qc_json_set(item, "statistics_per_worker_bytes", count(r->statistics_bytes));
    qc_json_set(o, "memory", item);
    qc_json_set(o, "timing", timing(r));
    return o;
}
