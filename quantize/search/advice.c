// SPDX-License-Identifier: Apache-2.0
/* Advice: changes of options that were tried, with their effect on the outputs.

   Ideas come from the causes of error (quantize/report/quantize_suggest.h) and from the effect of each single layer on
   the outputs (calib/metrics/sensitivity.h). Each idea is made as a candidate (quantize/search/candidate.h), so its
   figure is what the command gives. If the network is the same, the command names the observer that --method auto
   chose. A gain must show on the samples of the report and on held-out ones. */
#include "quantize/search/searches.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "quantize/search/attempts.h"
#include "quantize/search/cost.h"
#include "quantize/search/race.h"

/* The work of advice, in multiply-adds of the float network (quantize/search/cost.h). Work, not time, decides what
   advice tries, so the report does not depend on the machine or its load. */
struct advice_work {
    double job;             /* the whole job, roughly */
    double unit, quantized; /* one unit of the data through the float network, and through the produced graph */
    double layer_plans;     /* plans for the effect of one layer (calib/metrics/sensitivity.h), without runs */
    double made;            /* a candidate, without runs */
};

/* A piece of advice. */
struct advice {
    struct qc_json *json;
    const char *command;        /* for a shell */
    double before_db, after_db; /* SQNR of the outputs from their mean noise-to-signal ratio; infinity without noise */
    struct qc_cost cost;
    bool raced; /* it took part in the race */
};

struct trying {
    struct qc_candidate *c;
    const struct qc_network *net; /* of c */
    struct qc_report *r;
    size_t outputs;
    const struct qc_measurement *m; /* of p, or NULL */
    const struct qc_error *now;     /* [outputs], of p on the samples of the report, or NULL */
    uint64_t *keys;                 /* of the units of the report; NULL until they are run */
    const char *method;             /* chosen by --method auto; NULL: the method of the options */
    bool few;                       /* --method auto tried mse alone, because there are few samples */
    struct advice_work work;
    double left;        /* budget that is left, in the unit of `work` */
    size_t evaluations; /* runs of --eval that are left */
    struct advice list[QC_IDEAS];
    size_t count, tried;
    struct qc_json *left_out; /* changes that are too much work for --advice auto */
};

static bool select_all(const struct trying *t, struct qc_status *st)
{
    return qc_model_select(t->net->setup->data, t->net->scheme.options, NULL, st);
}

/* ---- One trial ---- */

/* Work of an idea before it takes part in the race. weights: all of them are rounded again by sequential rounding
   (quantize/search/cross_rounding.c), which costs as much as a job. The same happens if this job tried sequential
   rounding: of weights of few bits always, of others if the command has --method auto. */
static double work_of(const struct trying *t, const struct qc_idea *idea, bool weights)
{
    const bool again =
        idea->anew || t->net->scheme.options->method.propagate; /* the candidate runs the samples again */
    const bool rounded = weights || (t->net->crossed.tried && (t->few || !t->net->crossed.all));
    return t->work.made + (again ? t->work.job : 0) + (rounded ? t->work.job : 0) +
           t->work.quantized * QC_MEASURED_BATCHES;
}

/* Returns true if a change costs and saves nothing in the runtime and replaces no option that was given. The job has
   looked for such changes itself (quantize/search/free_ideas.c). */
static bool is_free(const struct trying *t, const struct qc_cost *cost, const struct qc_change *change)
{
    const struct qc_options *o = t->net->setup->options;
    const double latency = qc_json_find_number(t->r->record, "cost.latency"),
                 bytes = qc_json_find_number(t->r->record, "cost.bytes");
    if (!qc_looks_for_free(t->c) || !o->graph.runs_on->onnxruntime ||
        !(fabs(cost->latency - latency) < QC_ADVICE_COST * latency) ||
        !(fabs((double)cost->bytes - bytes) < QC_ADVICE_COST * bytes))
        return false;
    for (size_t i = 0; i <= change->count; i++) {
        const char *name = i < change->count ? change->options[i].name : change->without;
        struct qc_status none = QC_STATUS_INIT;
        enum qc_option which;
        if (name && qc_options_find(&which, o, name, &none) && o->given[which]) return false;
    }
    return true;
}

/* Measures the network of an idea. Returns its measurements in out->json if it gains at least QC_ADVICE_GAIN_DB (with
   `cheaper`: loses at most 1 dB) on the samples of the report and in the race, and if it has a price; else NULL. */
static bool judge_idea(struct advice *out, struct trying *t, const struct qc_network *made, const struct qc_idea *idea,
                       bool cheaper, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_checked checked = qc_checked_samples(t->net->setup);
    const struct qc_race_terms terms = {.units = QC_ADVICE_UNITS,
                                        .budget = QC_ADVICE_UNITS,
                                        .expected = true,
                                        .least_db = cheaper ? -QC_ADVICE_LOSS_DB : QC_ADVICE_GAIN_DB};
    const struct qc_network *const networks[] = {t->net, made};
    struct qc_error *then = QC_NEW_ARRAY(a, struct qc_error, t->outputs, st);
    struct qc_race_result results[2];
    size_t best;
    if (!then || !qc_cost_of(&out->cost, made, st)) return false;
    if (!cheaper && is_free(t, &out->cost, &idea->change)) return true;
    if (!qc_measure_outputs(then, &t->keys, made, checked.data, &checked.some, st)) return false;
    out->before_db = qc_outputs_sqnr_db(t->now, t->outputs);
    out->after_db = qc_outputs_sqnr_db(then, t->outputs);
    /* without any error nothing is quantized: no advice */
    if (!(out->after_db - out->before_db >= terms.least_db) || isinf(out->after_db)) return true;
    if (!qc_race_of_networks(results, &best, t->net, networks, 2, &terms, st)) return false;
    out->raced = isfinite(results[0].sqnr_db);
    if (best != 1) return true;
    struct qc_json *outputs = qc_json_array();
    for (size_t i = 0; i < t->outputs; i++)
        qc_json_add(outputs, QC_JSON("name %s sqnr_db_before %g sqnr_db_after %g", t->net->folded->outputs[i].name,
                                     qc_error_sqnr_db(&t->now[i]), qc_error_sqnr_db(&then[i])));
    out->json = QC_JSON("sqnr_db_before %g sqnr_db_after %g", out->before_db, out->after_db);
    qc_json_set(out->json, "outputs", outputs);
    qc_json_set(out->json, "held_back",
                QC_JSON("sqnr_db_before %g sqnr_db_after %g", results[0].sqnr_db,
                        results[0].sqnr_db + results[1].gain));
    return true;
}

/* Measures the accuracy of the network of good advice on --eval, with --advice auto at most of two, each better than
   those before: the job itself runs --eval twice. */
static bool score_idea(const struct advice *out, struct trying *t, const struct qc_network *idea, struct qc_arena *a,
                       struct qc_status *st)
{
    const struct qc_json *accuracy = qc_json_find(t->r->record, "accuracy");
    const struct qc_settings *settings = idea->scheme.settings;
    struct qc_metric metric;
    struct qc_overflows overflows;
    if (!accuracy || t->net->scheme.options->data.metric || !t->evaluations) return true;
    for (size_t i = 0; i < t->count && t->evaluations <= 2; i++)
        if (t->list[i].after_db > out->after_db) return true;
    const struct qc_evaluation e = {.graph = idea->produced,
                                    .data = t->net->setup->eval,
                                    .how = &settings->plan,
                                    .settings = settings};
    t->evaluations--;
    if (!qc_evaluate_sums(&metric, &overflows, &e, a, st)) return false;
    qc_json_put(out->json, "accuracy_before %g accuracy_after %g", qc_json_find_number(accuracy, "int8"), metric.value);
    return true;
}

/* Completes the advice of an idea, whose measurements are in out->json. */
static bool describe(struct advice *out, const struct trying *t, const struct qc_idea *idea,
                     const struct qc_change *change, struct qc_status *st)
{
    const struct qc_network *net = t->net;
    struct qc_text_list words;
    if (!qc_job_words(&words, net->setup->in, net->scheme.options, change, net->arena, st) ||
        !qc_words_text(&out->command, net->arena, &words, st))
        return false;
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "command", qc_json_strings(words.items, words.count));
    qc_json_put(o, "shell %s action %s node %s", out->command, idea->action, idea->node);
    qc_json_set(o, "measured", out->json);
    qc_json_set(o, "cost", qc_cost_json(&out->cost));
    out->json = o;
    return true;
}

/* Tries an idea; out->json is NULL if it is no good. Leaves it out if it exceeds the budget, unless it mends a broken
   network or is the best one. */
static bool try_idea(struct advice *out, struct trying *t, const struct qc_idea *idea, bool cheaper, bool best,
                     struct qc_status *st)
{
    const double work = work_of(t, idea, cheaper);
    struct qc_change change;
    struct qc_candidate *then = NULL;
    struct qc_status why = QC_STATUS_INIT;
    const bool always = idea->mends || (best && !t->tried);
    *out = (struct advice){.json = NULL};
    if (always) t->left += work;
    if (!(work <= t->left)) {
        const char *action = cheaper ? "Use 4-bit weights" : idea->action; /* no claim about an unmeasured loss */
        qc_json_add(t->left_out, QC_JSON("action %s node %s", action, idea->node));
        return true;
    }
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    /* The change of an idea; one without --method names the observer that --method auto chose, or mse if
       the network changes and with it the ranges. */
    bool has_method = !t->method;
    change = (struct qc_change){.without = idea->change.without};
    for (size_t i = 0; i < idea->change.count; i++)
        has_method = has_method || strcmp(idea->change.options[i].name, "method") == 0;
    if ((!has_method && !qc_change_add(&change, "method", idea->anew ? "mse" : t->method, t->net->arena, st)) ||
        !qc_change_join(&change, &idea->change, t->net->arena, st))
        return false;
    t->left -= work;
    t->tried++;
    const bool ok = qc_candidate_derive(&then, t->c, &change, idea->anew ? QC_ANOTHER_FORM : QC_SAME_FORM, &why) &&
                    judge_idea(out, t, then->network, idea, cheaper, a, &why) &&
                    (!out->json || (score_idea(out, t, then->network, a, &why) &&
                                    qc_change_settle(&change, then->network, t->net->arena, &why) &&
                                    describe(out, t, idea, &change, &why)));
    qc_candidate_free(then);
    if (!always && out->raced) t->left -= t->work.quantized * 2 * QC_ADVICE_UNITS;
    if (ok) return true;
    qc_json_free(out->json);
    out->json = NULL;
    return qc_candidate_refused(NULL, t->c, &why, st) && select_all(t, st); /* it may leave other samples selected */
}

/* ---- Ideas ---- */

static bool is_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* True if one of the first `count` ideas makes the same change. */
static bool has_change(const struct qc_ideas *ideas, size_t count, const struct qc_change *c)
{
    for (size_t i = 0; i < count; i++) {
        const struct qc_change *k = &ideas->of[i].change;
        bool same = k->count == c->count && is_text(k->without, c->without);
        for (size_t j = 0; same && j < c->count; j++)
            same = is_text(k->options[j].name, c->options[j].name) && is_text(k->options[j].value, c->options[j].value);
        if (same) return true;
    }
    return false;
}

/* Adds one idea that changes the layers from .. end - 1 of the effects together. */
static bool add_layers(struct qc_ideas *ideas, const struct trying *t, const struct qc_sensitivity *s, size_t from,
                       size_t end, bool in_float, struct qc_status *st)
{
    struct qc_arena *a = t->net->arena;
    struct qc_idea idea = {.node = NULL};
    size_t layers = 0;
    for (size_t i = from; i < end; i++) {
        const size_t before = idea.change.count;
        if (!qc_layer_remedies(&idea.change, t->net, s, i, i + 1, in_float, a, st)) return false;
        if (idea.change.count == before) continue;
        idea.node = layers++ ? qc_arena_printf(a, st, "%s, %s", idea.node, s->layers[i].name)
                             : qc_arena_strdup(a, s->layers[i].name, st);
        if (!idea.node) return false;
    }
    if (!layers || has_change(ideas, ideas->count, &idea.change) || ideas->count == QC_IDEAS) return true;
    static const struct {
        const char *name, *value, *action; /* value: its beginning */
    } actions[] = {{"skip", "", "Keep in float"},
                   {"weight-type", "int8:", "Use 8-bit weights"},
                   {"weight-type", "int16:", "Use 16-bit weights"},
                   {"activation-type", "bfp16:", "Round the input to bfp16"},
                   {"activation-type", "none:", "Leave the input in float"},
                   {"activation-type", "", "Use 16-bit activations"}};
    const struct qc_option_text *o = idea.change.options;
    size_t k = 0;
    while (strcmp(o->name, actions[k].name) != 0 || strncmp(o->value, actions[k].value, strlen(actions[k].value)) != 0)
        k++;
    idea.action = layers > 1 ? "Keep the layers that lose most in float" : actions[k].action;
    ideas->of[ideas->count++] = idea;
    return true;
}

/* ---- Entry ---- */

static int by_advice_gain(const void *a, const void *b)
{
    const struct advice *x = a, *y = b;
    const double p = x->after_db - x->before_db, q = y->after_db - y->before_db;
    return p < q || p > q ? (p < q ? 1 : -1) : strcmp(x->command, y->command);
}

/* Measures the effect of single layers as far as the budget allows; else estimates it. */
static bool find_effects(struct qc_sensitivity **out, bool *measured, struct trying *t, struct qc_status *st)
{
    const struct qc_network *net = t->net;
    const size_t share = qc_dataset_units(net->setup->data) / QC_ADVICE_UNITS_A_BATCH,
                 batches = share < 1                        ? 1
                           : share < QC_ADVICE_BATCHES_MOST ? share
                                                            : QC_ADVICE_BATCHES_MOST;
    const struct qc_idea any = {.node = NULL};
    const double each = t->work.layer_plans + (double)batches * t->work.unit, idea = work_of(t, &any, false),
                 room = fmin(t->left / 3, t->left - QC_ADVICE_SPARE * idea) / each;
    const size_t most = room < QC_ADVICE_LAYERS_LEAST  ? 0
                        : room < QC_ADVICE_LAYERS_MOST ? (size_t)room
                                                       : QC_ADVICE_LAYERS_MOST;
    double *believed;
    struct qc_status why = QC_STATUS_INIT;
    if (!qc_noise_believed(&believed, net->folded, t->m, t->r, net->arena, st)) return false;
    const struct qc_sensitivity_options which = {.most = most,
                                                 .first = (2 * most + QC_FALLBACK_FIRST_OF - 1) / QC_FALLBACK_FIRST_OF,
                                                 .weights_of = QC_FALLBACK_WEIGHTS_OF,
                                                 .believed = believed};
    *measured = most && qc_measure_sensitivity(out, net, net->setup->eval, batches, &which, &why);
    if (most) t->left -= (double)most * each;
    if (*measured) return true;
    if (most && why.code != QC_UNSUPPORTED) return qc_fail(st, why.code, "%s", why.message);
    return qc_sensitivity_believed(out, net->simulated, believed, st); /* shapes depend on data, or it is much work */
}

/* Ranks the layers, names the causes of the worst ones, and adds ideas from both. effects: NULL if none was measured.
 */
static bool rank_layers(struct trying *t, struct qc_ideas *ideas, const struct qc_sensitivity *effects,
                        struct qc_status *st)
{
    const bool met =
        qc_json_find_number(t->r->record, "fallback.met") > 0; /* effects: of the network without wider types */
    return qc_fill_ranking(t->r, t->net, t->m, met ? NULL : effects, st) &&
           (met || qc_fill_suggestions(t->r, ideas, t->net, t->m, st));
}

static bool try_all_ideas(struct trying *t, struct qc_ideas *ideas, const struct qc_sensitivity *effects,
                          struct qc_status *st)
{
    struct qc_sensitivity *own = NULL;
    struct qc_status why = QC_STATUS_INIT;
    bool measured = effects != NULL, ok = effects || find_effects(&own, &measured, t, &why);
    if (!ok) /* sensitivity needs fixed shapes, and memory within the limit */
        ok = qc_candidate_refused(NULL, t->c, &why, st) && select_all(t, st);
    const struct qc_sensitivity *found = effects ? effects : own;
    ok = ok && rank_layers(t, ideas, measured ? found : NULL, st);
    const size_t causes = ideas->count;
    /* Add ideas for the layers with the greatest effect on the outputs: QC_ADVICE_SINGLE of them in 16 bits each,
       QC_ADVICE_TOP together in float. */
    const size_t top = !found ? 0 : found->count < QC_ADVICE_TOP ? found->count : QC_ADVICE_TOP;
    for (size_t i = 0; ok && i < top && i < QC_ADVICE_SINGLE; i++)
        ok = add_layers(ideas, t, found, i, i + 1, false, st);
    if (ok && top >= 2 && top < found->count) ok = add_layers(ideas, t, found, 0, top, true, st);
    /* With --propagate an idea costs nearly a whole job: only the one for the worst layer is tried. */
    const bool one = t->net->scheme.options->method.propagate && ideas->count;
    const size_t first = one && causes < ideas->count ? causes : 0, end = one ? 1 : ideas->count;
    size_t order[QC_IDEAS];
    /* Order the ideas by expected gain: those that mend a broken network, the worst layer, the worst layers together,
       other layers, other causes. The first `causes` ideas come from causes of error. */
    size_t n = 0;
    for (size_t i = 0; i < causes; i++)
        if (ideas->of[i].mends) order[n++] = i;
    if (causes < ideas->count) order[n++] = causes;
    if (causes + 1 < ideas->count) order[n++] = ideas->count - 1;
    for (size_t i = causes + 1; i + 1 < ideas->count; i++) order[n++] = i;
    for (size_t i = 0; i < causes; i++)
        if (!ideas->of[i].mends) order[n++] = i;
    for (size_t k = 0; ok && k < end; k++) {
        const size_t i = one ? first : order[k];
        if (has_change(ideas, i, &ideas->of[i].change)) continue;
        ok = try_idea(&t->list[t->count], t, &ideas->of[i], false, !one, st);
        if (ok && t->list[t->count].json) t->count++;
    }
    qc_sensitivity_free(own);
    struct qc_json *advice = qc_json_array();
    qsort(t->list, t->count, sizeof *t->list, by_advice_gain);
    for (size_t i = 0; i < t->count; i++) qc_json_add(advice, t->list[i].json);
    qc_json_set(t->r->record, "advice", advice);
    return ok;
}

/* Tries 4-bit weights on a network that loses little. */
static bool try_cheaper(struct trying *t, struct qc_status *st)
{
    static const struct qc_option_text option = {"weight-type", "int4"};
    const struct qc_idea idea = {.change = {.count = 1, .options = &option, .without = option.name},
                                 .action = "Weights of 4 bits lose no more than a decibel"};
    struct advice cheaper;
    if (t->net->scheme.options->types.weights.count != 1 ||
        strcmp(t->net->scheme.options->types.weights.items[0], "int8") != 0)
        return true;
    if (!try_idea(&cheaper, t, &idea, true, false, st)) return false;
    if (cheaper.json) qc_json_set(t->r->record, "cheaper", cheaper.json);
    return true;
}

/* Returns true if the accuracy falls by more than one sample of --eval, or the PSNR by QC_ADVICE_PSNR_DB. */
static bool loses_accuracy(const struct qc_json *accuracy)
{
    const double positions = qc_json_find_number(accuracy, "positions"),
                 count = positions > 0 ? positions : qc_json_find_number(accuracy, "samples"),
                 one = strcmp(qc_json_find_text(accuracy, "metric"), "psnr") == 0 ? QC_ADVICE_PSNR_DB : 1.5 / count;
    return qc_json_find_number(accuracy, "fp32") - qc_json_find_number(accuracy, "int8") > one;
}

/* "advice_state" of the record: changes were tried, or the outputs have lost little; else why there is no advice. */
static const char TRIED[] = "tried", NOT_NEEDED[] = "not needed";

static const char *state_of(const struct trying *t)
{
    const struct qc_json *record = t->r->record, *accuracy = qc_json_find(record, "accuracy");
    const struct qc_network *net = t->net;
    if (net->scheme.options->method.advice == QC_ADVISE_OFF) return "off";
    if (!net->setup->data || !t->now) return "no data";
    if (qc_json_find_number(record, "fallback.met") > 0) return "demand met";
    if (qc_json_find(record, "size")) return "size chosen";
    if (net->setup->in->team) return "data shared";
    if (net->evidence->moments_dropped) return "large model"; /* moments are too large to keep without --advice on */
    if (qc_json_find(record, "constant_outputs")) return "outputs constant";
    const double enough = net->scheme.options->method.advice != QC_ADVISE_AUTO ? QC_ADVICE_ENOUGH_ASKED_DB
                          : accuracy                                           ? QC_ADVICE_ENOUGH_MEASURED_DB
                                                                               : QC_ADVICE_ENOUGH_DB;
    return (accuracy && loses_accuracy(accuracy)) || qc_outputs_sqnr_db(t->now, t->outputs) < enough ? TRIED
                                                                                                     : NOT_NEEDED;
}

bool qc_fill_advice(struct qc_report *r, struct qc_ideas *ideas, struct qc_candidate *c, const struct qc_measurement *m,
                    const struct qc_sensitivity *effects, struct qc_status *st)
{
    const double t0 = qc_seconds();
    const struct qc_network *net = c->network;
    struct trying t = {
        .c = c, .net = net, .r = r, .outputs = net->real->output_count, .m = m, .now = m ? m->outputs : NULL};
    /* With few samples --method auto chooses wider ranges than the same observer given by name. */
    const struct qc_report_trial *chosen = qc_auto_method_chosen(net->auto_method);
    t.few = chosen && net->scheme.calibration.few;
    if (chosen && !t.few) t.method = chosen->method;
    const char *const state = state_of(&t);
    bool ok = true;
    t.left_out = qc_json_array();
    if (state == TRIED || state == NOT_NEEDED) {
        qc_progress_phase(net->setup->progress, "trying advice");
        /* If shapes are not known, work is infinite, and only the best idea is tried. */
        const struct qc_setup *s = t.net->setup;
        const double weights = (double)s->model.graph->budget.model_bytes / sizeof(float),
                     real = t.net->evidence->float_times[QC_PROCESSOR_AVX512_VNNI] * QC_JOB_RATE,
                     unit = isfinite(real) ? real : (double)INFINITY;
        t.work =
            (struct advice_work){.job =
                                     QC_JOB_RUNS * unit * (double)qc_dataset_units(s->data) + QC_JOB_HANDLED * weights,
                                 .unit = unit,
                                 .quantized = unit * qc_json_find_number(t.r->record, "cost.latency"),
                                 .layer_plans = QC_JOB_PLANNED * weights,
                                 .made = QC_JOB_BRANCHED * weights + QC_JOB_MADE * (double)t.net->produced->node_count};
        t.left = t.net->scheme.options->method.advice != QC_ADVISE_AUTO
                     ? (double)INFINITY
                     : fmax(QC_ADVICE_WORK_LEAST, isfinite(unit) ? t.work.job / QC_ADVICE_PART : 0);
        t.evaluations = net->scheme.options->method.advice != QC_ADVISE_AUTO ? SIZE_MAX : 2;
        ok = select_all(&t, st) && (state == TRIED ? try_all_ideas(&t, ideas, effects, st)
                                                   : rank_layers(&t, ideas, effects, st) && try_cheaper(&t, st));
        qc_progress_end(net->setup->progress);
        qc_json_put(r->timing, "advice_seconds %g", qc_seconds() - t0);
    } else {
        ok = rank_layers(&t, ideas, effects, st);
    }
    qc_json_put(r->record, "advice_tried %zu advice_left %zu advice_state %s", t.tried, qc_json_size(t.left_out),
                state);
    qc_json_set(r->record, "advice_left_out", t.left_out);
    return ok;
}
