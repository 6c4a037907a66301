// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/advice.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "calib/weights/round_weights.h"
#include "export/report/report.h"
#include "graph/core/multiply_adds.h"
#include "graph/core/recurrent.h"
#include "quantize/report/layer_detail.h"
#include "quantize/report/quantize_suggest.h"
#include "quantize/search/cost.h"
#include "quantize/search/fallback.h"
#include "quantize/search/limits.h"
#include "quantize/search/output_bias.h"
#include "quantize/search/score.h"

/* The work of a job and of advice, in multiply-adds of the float network. Work, not time, decides what advice tries, so
   the report does not depend on the machine or its load. The cost of other operations relative to a multiply-add is
   measured (docs/decisions/0036-advice-is-tried.md). */
struct advice_work {
    double job;             /* the whole job */
    double unit, quantized; /* one unit of the data through the float network, and through the produced graph */
    double layer_plans;     /* plans for the effect of one layer (calib/metrics/sensitivity.h), without runs */
    double branch;          /* making a branch of the job (quantize/search/candidate.h), without runs */
};

static double elements_of(const struct qc_shape *s)
{
    double n = 1;
    for (int i = 0; i < s->rank; i++) n *= s->dim[i] > 0 ? (double)s->dim[i] : 1;
    return n;
}

static enum qc_dtype stored_type(const struct qc_graph *g, qc_id value)
{
    const struct qc_type *t = &qc_value(g, value)->type;
    return t->qparams == QC_REAL ? t->dtype : g->qparams_of[t->qparams].dtype;
}

/* Returns the cost of one multiply-add of the node, whose sums have `depth` products. */
static double rate(const struct qc_graph *g, const struct qc_node *n, double depth)
{
    const struct qc_dtype_info *x = qc_dtype_info(stored_type(g, n->inputs[0])),
                               *w = qc_dtype_info(stored_type(g, n->inputs[1]));
    if (qc_is_recurrent(n->op) || x->is_float || w->is_float) return 1;
    if (x->bits <= 8 && w->bits <= 8) return QC_JOB_BYTES;
    return depth > QC_JOB_LONG_SUM ? QC_JOB_WIDEST : QC_JOB_WIDE;
}

static double count(double *values, const struct qc_graph *g)
{
    double work = 0;
    *values = 0;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        double made = 0;
        uint64_t products;
        bool data = false;
        for (unsigned i = 0; i < n->input_count; i++) data = data || (n->inputs[i] && !qc_constant_of(g, n->inputs[i]));
        for (unsigned i = 0; data && i < n->output_count; i++)
            made += elements_of(&g->values[n->outputs + i].type.shape);
        if (!data) continue;
        *values += made;
        work +=
            QC_JOB_NODE + made * (qc_dtype_info(stored_type(g, n->outputs))->is_float ? QC_JOB_VALUE : QC_JOB_INTEGER);
        if (qc_multiplies(n->op) && qc_multiply_adds(&products, g, id))
            work += (double)products * rate(g, n, made > 0 ? (double)products / made : 0);
    }
    return work;
}

/* Sets *out to the work of reading one unit of the data and running it through g. Free shapes are those of unit 0. */
static bool unit_of(double *out, double *values, const struct qc_graph *g, const struct qc_dataset *data,
                    struct qc_status *st)
{
    struct qc_graph *fixed;
    int64_t dims[QC_DATA_RANK_MAX];
    if (!qc_graph_of_unit(&fixed, g, data, st)) return false; /* NULL: count with the known shapes */
    *out = count(values, fixed ? fixed : g);
    for (size_t i = 0; i < g->input_count; i++) {
        const unsigned rank = qc_dataset_unit_dims(dims, data, i, 0);
        const struct qc_shape s = qc_shape_of((int)rank, dims);
        *out += QC_JOB_READ * elements_of(&s);
    }
    qc_graph_free(fixed);
    return true;
}

static double weights_of(const struct qc_graph *g)
{
    double n = 0;
    for (qc_id v = 1; v <= g->value_count; v++)
        if (qc_constant_of(g, v)) n += (double)qc_constant_of(g, v)->count;
    return n;
}

/* Sets *out to the work of reading one unit and running it through the produced graph of a branch. */
static bool advice_work_of_unit(double *out, const struct qc_network *net, struct qc_status *st)
{
    double values;
    return unit_of(out, &values, net->produced, net->setup->data, st);
}

/* Computes the work of p, which has run. r: its report, with trials and sample counts. */
static bool advice_work_of(struct advice_work *out, const struct qc_network *net, const struct qc_report *r,
                           struct qc_status *st)
{
    double moments = 0, rounding = 0, trials = 0, solved = 0, values, written;
    if (!unit_of(&out->unit, &values, net->real, net->setup->data, st) ||
        !unit_of(&out->quantized, &written, net->produced, net->setup->data, st))
        return false;
    if (net->weight_rounding && net->evidence->statistics->second_moments)
        qc_round_weights_work_of_all(&moments, &rounding, net->evidence->statistics->second_moments);
    /* Sequential rounding (docs/decisions/0045-rounding-on-what-is-read.md) is not counted: it may be a quarter of a
       job, and would raise the budget of advice just where weights are improved already. */
    for (size_t i = 0; i < r->trial_count; i++) {
        trials += (double)r->trials[i].samples;
        solved += (double)r->layer_count;
    }
    const double weights = weights_of(net->real),
                 batch = qc_dataset_batch(net->setup->data) > 1 ? (double)qc_dataset_batch(net->setup->data) : 1,
                 run = (double)r->data_samples / batch, measured = (double)r->measured_samples / batch;
    out->layer_plans = QC_JOB_PLANNED * weights;
    out->branch = QC_JOB_BRANCHED * weights + QC_JOB_MADE * (double)net->produced->node_count;
    out->job = run * (out->unit + QC_JOB_SCANNED * values) + QC_JOB_MOMENT * moments + QC_JOB_ROUND * rounding +
               QC_JOB_SOLVED * solved + trials / batch * out->quantized +
               measured * (out->unit + out->quantized + QC_JOB_COMPARED * values) + QC_JOB_HANDLED * weights;
    return true;
}

/* The samples of the report, and the held-out ones. */
enum samples { OF_REPORT, HELD_BACK, SAMPLES };

struct trying {
    struct qc_candidate *c;
    const struct qc_network *net; /* of c */
    struct qc_report *r;
    size_t outputs;
    const struct qc_measurement *m; /* of p, or NULL */
    const struct qc_error *now;     /* [outputs], of p on the samples of the report, or NULL */
    struct qc_error *held;          /* [outputs], of p on the held-out samples; NULL until needed */
    uint64_t *keys[SAMPLES];        /* keys of their units; NULL until they are run */
    const char *method;             /* chosen by --method auto; NULL: the method of the options */
    bool few;                       /* --method auto tried mse alone, because there are few samples */
    struct advice_work work;
    double left; /* budget that is left, in the unit of `work` */
    struct qc_report_advice *list;
    struct qc_report_left *left_out; /* [QC_IDEAS] */
};

/* ---- Samples ---- */

static bool select_all(const struct trying *t, struct qc_status *st)
{
    return qc_model_select(t->net->setup->data, t->net->scheme.options, NULL, st);
}

/* True if the samples of the report are all there are: nothing can be held out. */
static bool only_those(const struct trying *t)
{
    const struct qc_checked c = qc_checked_samples(t->net->setup);
    return !t->net->setup->eval && !c.some.others && qc_dataset_samples(c.data) <= c.some.samples;
}

/* Measures the output errors of p, or of a branch of it, on the samples of the report or on held-out ones, drawn from
   --data. *out: [outputs], from the arena. */
static bool measure_samples(struct qc_error **out, struct trying *t, const struct qc_network *net, enum samples which,
                            struct qc_arena *a, struct qc_status *st)
{
    struct qc_checked c = qc_checked_samples(t->net->setup);
    if (which == HELD_BACK) {
        const size_t batch = c.some.samples / QC_MEASURED_BATCHES;
        c.data = t->net->setup->data;
        c.some = (struct qc_selection){.samples = batch * QC_ADVICE_HELD, .drawn = true, .seed = QC_ADVICE_HELD_SEED};
    }
    struct qc_error *sums = QC_NEW_ARRAY(a, struct qc_error, t->outputs, st);
    if (!sums || !qc_measure_outputs(sums, &t->keys[which], net, c.data, &c.some, st)) return false;
    *out = sums;
    return true;
}

static double decibels(const struct trying *t, const struct qc_error *outputs)
{
    return qc_outputs_sqnr_db(outputs, t->outputs);
}

/* ---- One trial ---- */

/* Adds --method to a change without one: the observer that --method auto chose, or mse if the network changes (`anew`)
   and with it the ranges. */
static bool with_method(struct qc_change *change, const struct trying *t, bool anew, struct qc_status *st)
{
    const size_t n = change->count;
    struct qc_option_text *options = QC_NEW_ARRAY(t->net->arena, struct qc_option_text, n + 1, st);
    if (!options) return false;
    options[0] = (struct qc_option_text){"method", anew ? "mse" : t->method};
    for (size_t i = 0; i < n; i++) {
        options[i + 1] = change->options[i];
        if (strcmp(change->options[i].name, "method") == 0) return true;
    }
    change->options = options;
    change->count = n + 1;
    return true;
}

/* True if the error concerns the idea alone: it is not possible, or not within --memory-limit. */
static bool only_the_idea(const struct trying *t, const struct qc_status *why)
{
    return why->code == QC_UNSUPPORTED || why->code == QC_USAGE || why->code == QC_DEMAND ||
           (why->code == QC_MACHINE && t->net->scheme.options->memory_limit);
}

static bool fill_outputs(struct qc_report_advice *out, const struct trying *t, const struct qc_error *then,
                         struct qc_status *st)
{
    const size_t n = t->outputs;
    double *before = QC_NEW_ARRAY(t->net->arena, double, n, st), *after = QC_NEW_ARRAY(t->net->arena, double, n, st);
    if (!before || !after) return false;
    for (size_t i = 0; i < n; i++) {
        before[i] = qc_error_sqnr_db(&t->now[i]);
        after[i] = qc_error_sqnr_db(&then[i]);
    }
    out->before_db = decibels(t, t->now);
    out->after_db = decibels(t, then);
    out->outputs_before_db = before;
    out->outputs_after_db = after;
    return true;
}

/* Number of units in a measurement on the samples of the report; held_of: on the held-out ones. */
static double measured_units(const struct trying *t)
{
    const struct qc_checked c = qc_checked_samples(t->net->setup);
    const size_t all = c.some.others ? QC_MEASURED_BATCHES : qc_dataset_units(c.data);
    return (double)(all < QC_MEASURED_BATCHES ? all : QC_MEASURED_BATCHES);
}

static double held_of(const struct trying *t)
{
    return fmin(measured_units(t), QC_ADVICE_HELD);
}

/* Work of an idea before it is measured. weights: all of them are rounded again by sequential rounding
   (quantize/search/cross_rounding.h), which costs as much as a job. The same happens if this job tried sequential
   rounding: of weights of few bits always, of others if the command has --method auto. */
static double work_before(const struct trying *t, const struct qc_idea *idea, bool weights)
{
    const bool again = idea->anew || t->net->scheme.options->propagate; /* the branch runs the samples again */
    const bool rounded = weights || (t->net->crossed.tried && (t->few || !t->net->crossed.all));
    return t->work.branch + (again ? t->work.job : 0) + (rounded ? t->work.job : 0);
}

/* Work of the measurement, if the new network is as fast as the old one. */
static double work_behind(const struct trying *t)
{
    return t->work.quantized * (measured_units(t) + (only_those(t) ? 0 : held_of(t) * (t->held ? 1 : 2)));
}

/* Fills in the command and the description of the idea. */
static bool describe(struct qc_report_advice *out, const struct trying *t, const struct qc_idea *idea,
                     const struct qc_change *change, struct qc_status *st)
{
    const struct qc_network *net = t->net;
    struct qc_text_list words;
    if (!qc_job_words(&words, net->setup->in, net->scheme.options, change, net->arena, st) ||
        !qc_words_text(&out->command, net->arena, &words, st))
        return false;
    out->words = words.items;
    out->word_count = words.count;
    out->action = idea->action;
    out->node = idea->node;
    out->layer = idea->layer;
    return true;
}

/* Measures the network of an idea. Sets *good and fills *out if it gains at least QC_ADVICE_GAIN_DB on both sets of
   samples (with `cheaper`: loses at most 1 dB). *tried is false if the budget has no room for the measurement. */
static bool judge_idea(bool *tried, bool *good, struct qc_report_advice *out, struct trying *t,
                       const struct qc_network *idea, bool cheaper, struct qc_arena *a, struct qc_status *st)
{
    struct qc_error *then, *held;
    const double asked = cheaper ? -1 : QC_ADVICE_GAIN_DB;
    double unit;
    *good = *tried = false;
    if (!advice_work_of_unit(&unit, idea, st)) return false;
    const double once = measured_units(t) * unit,
                 rest = only_those(t) ? 0 : held_of(t) * (unit + (t->held ? 0 : t->work.quantized));
    if (once + rest > t->left) return true;
    if (!qc_cost_of(&out->cost, idea, st)) return false;
    *tried = true;
    t->left -= once;
    if (!measure_samples(&then, t, idea, OF_REPORT, a, st)) return false;
    if (!(decibels(t, then) - decibels(t, t->now) >= asked)) return true;
    t->left -= rest;
    if (only_those(t)) {
        *good = true;
        out->held_before_db = decibels(t, t->now);
        out->held_after_db = decibels(t, then);
        return fill_outputs(out, t, then, st);
    }
    if ((!t->held && !measure_samples(&t->held, t, t->net, HELD_BACK, t->net->arena, st)) ||
        !measure_samples(&held, t, idea, HELD_BACK, a, st))
        return false;
    out->held_before_db = decibels(t, t->held);
    out->held_after_db = decibels(t, held);
    *good = out->held_after_db - out->held_before_db >= asked;
    return !*good || fill_outputs(out, t, then, st);
}

/* Adds an idea that exceeds the budget to the list of ideas left out. */
static void leave(struct trying *t, const struct qc_idea *idea, bool cheaper)
{
    const char *action = cheaper ? "Give weights 4 bits" : idea->action; /* no claim about an unmeasured loss */
    t->left_out[t->r->advice_left++] = (struct qc_report_left){.action = action, .node = idea->node};
    t->r->advice_left_out = t->left_out;
}

/* Tries an idea. Leaves it out if it exceeds the budget, unless it mends a broken network or is the best one. */
static bool try_idea(bool *good, struct qc_report_advice *out, struct trying *t, const struct qc_idea *idea,
                     bool cheaper, bool best, struct qc_status *st)
{
    struct qc_change change = idea->change;
    struct qc_status why = QC_STATUS_INIT;
    *good = false;
    if (idea->mends || (best && !t->r->advice_tried)) t->left += work_before(t, idea, cheaper) + 2 * work_behind(t);
    if (work_before(t, idea, cheaper) + work_behind(t) > t->left) {
        leave(t, idea, cheaper);
        return true;
    }
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    bool ok = (!t->method || with_method(&change, t, idea->anew, st)) && describe(out, t, idea, &change, st);
    if (ok) {
        struct qc_candidate *then = NULL;
        bool tried = true;
        t->left -= work_before(t, idea, cheaper);
        bool done = qc_candidate_derive(&then, t->c, &change, idea->anew ? QC_ANOTHER_FORM : QC_SAME_FORM, &why) &&
                    judge_idea(&tried, good, out, t, then->network, cheaper, a, &why);
        if (tried)
            t->r->advice_tried++;
        else
            leave(t, idea, cheaper);
        qc_candidate_free(then);
        if (!done && !only_the_idea(t, &why)) ok = qc_fail(st, why.code, "%s", why.message);
        if (!done && ok) ok = select_all(t, st); /* a failed idea may leave other samples selected */
        if (!done) *good = false;
    }
    return ok;
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

static size_t layer_at(const struct qc_report *r, const char *node)
{
    for (size_t i = 0; i < r->layer_count; i++)
        if (r->layers[i].node && strcmp(r->layers[i].node, node) == 0) return i;
    return QC_NO_INDEX;
}

/* Adds one idea that changes the layers from .. end - 1 of the effects together. */
static bool add_layers(struct qc_ideas *ideas, const struct trying *t, const struct qc_sensitivity *s, size_t from,
                       size_t end, bool in_float, struct qc_status *st)
{
    struct qc_arena *a = t->net->arena;
    struct qc_option_text *options = QC_NEW_ARRAY(a, struct qc_option_text, end - from, st);
    if (!options) return false;
    struct qc_idea idea = {.change = {.options = options}, .layer = QC_NO_INDEX};
    for (size_t i = from; i < end; i++) {
        struct qc_option_text *o = &options[idea.change.count];
        if (!qc_layer_remedy(o, &t->net->scheme, &s->layers[i], in_float, a, st)) return false;
        if (!o->name) continue;
        idea.change.count++;
        idea.node = idea.node ? qc_arena_printf(a, st, "%s, %s", idea.node, s->layers[i].name) : s->layers[i].name;
        if (!idea.node) return false;
    }
    if (!idea.change.count || has_change(ideas, ideas->count, &idea.change) || ideas->count == QC_IDEAS) return true;
    const bool wide = strcmp(options->name, "skip") != 0, weights = strcmp(options->name, "weight-type") == 0,
               blocks = wide && !weights && strncmp(options->value, "bfp16:", strlen("bfp16:")) == 0,
               real = wide && !weights && strncmp(options->value, "none:", strlen("none:")) == 0;
    if (idea.change.count == 1) idea.layer = layer_at(t->r, idea.node);
    idea.action = idea.change.count > 1 ? "Keep the layers that lose most in float"
                  : weights ? strncmp(options->value, "int8:", strlen("int8:")) == 0 ? "Give its weights 8 bits"
                                                                                     : "Give its weights 16 bits"
                  : blocks  ? "Round its input to bfp16"
                  : real    ? "Leave its input in float"
                  : wide    ? "Store it in 16 bits"
                            : "Keep it in float";
    idea.node = qc_arena_strdup(a, idea.node, st);
    ideas->of[ideas->count++] = idea;
    return idea.node != NULL;
}

/* Adds ideas for the layers with the greatest effect on the outputs: QC_ADVICE_SINGLE of them in 16 bits each,
   QC_ADVICE_TOP together in float. */
static bool add_worst(struct qc_ideas *ideas, const struct trying *t, const struct qc_sensitivity *s,
                      struct qc_status *st)
{
    const size_t top = s->count < QC_ADVICE_TOP ? s->count : QC_ADVICE_TOP;
    for (size_t i = 0; i < top && i < QC_ADVICE_SINGLE; i++)
        if (!add_layers(ideas, t, s, i, i + 1, false, st)) return false;
    return top < 2 || top == s->count || add_layers(ideas, t, s, 0, top, true, st);
}

static bool is_named(const struct qc_options *o, const char *type)
{
    return o->weight_types.count == 1 && strcmp(o->weight_types.items[0], type) == 0;
}

/* ---- Entry ---- */

static int by_advice_gain(const void *a, const void *b)
{
    const struct qc_report_advice *x = a, *y = b;
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
    const struct qc_idea any = {.layer = QC_NO_INDEX};
    const double each = t->work.layer_plans + (double)batches * t->work.unit,
                 idea = work_before(t, &any, false) + work_behind(t),
                 room = fmin(t->left / 3, t->left - QC_ADVICE_SPARE * idea) / each;
    const size_t most = room < QC_ADVICE_LAYERS_LEAST  ? 0
                        : room < QC_ADVICE_LAYERS_MOST ? (size_t)room
                                                       : QC_ADVICE_LAYERS_MOST;
    double *believed;
    if (!qc_noise_believed(&believed, net->folded, t->m, t->r, net->arena, st)) return false;
    if (most) t->left -= (double)most * each;
    *measured = most > 0;
    return qc_measure_sensitivity(out, net, net->setup->eval, batches, believed, most, st);
}

/* Orders the ideas by expected gain: those that mend a broken network, the worst layer, the worst layers together,
   other layers, other causes. The first `causes` ideas come from causes of error. */
static void in_order(size_t order[QC_IDEAS], const struct qc_ideas *ideas, size_t causes)
{
    size_t n = 0;
    for (size_t i = 0; i < causes; i++)
        if (ideas->of[i].mends) order[n++] = i;
    if (causes < ideas->count) order[n++] = causes;
    if (causes + 1 < ideas->count) order[n++] = ideas->count - 1;
    for (size_t i = causes + 1; i + 1 < ideas->count; i++) order[n++] = i;
    for (size_t i = 0; i < causes; i++)
        if (!ideas->of[i].mends) order[n++] = i;
}

/* Ranks the layers, names the causes of the worst ones, and adds ideas from both. effects: NULL if none was measured.
 */
static bool rank_layers(struct trying *t, struct qc_ideas *ideas, const struct qc_sensitivity *effects,
                        struct qc_status *st)
{
    const bool same = !t->r->fallback; /* else the effects are those of the network without wider types */
    return qc_fill_ranking(t->r, t->net, t->m, same ? effects : NULL, st) &&
           ((t->r->fallback && t->r->fallback->met) || qc_fill_suggestions(t->r, ideas, t->net, t->m, st));
}

static bool try_all_ideas(struct trying *t, struct qc_ideas *ideas, const struct qc_sensitivity *effects,
                          struct qc_status *st)
{
    struct qc_report *r = t->r;
    struct qc_sensitivity *own = NULL;
    bool measured = effects != NULL, ok = effects || find_effects(&own, &measured, t, st);
    if (!ok && only_the_idea(t, st)) { /* sensitivity needs fixed shapes, and memory within the limit */
        *st = QC_STATUS_INIT;
        ok = select_all(t, st);
    }
    const struct qc_sensitivity *found = effects ? effects : own;
    ok = ok && rank_layers(t, ideas, measured ? found : NULL, st);
    const size_t causes = ideas->count;
    if (ok && found) ok = add_worst(ideas, t, found, st);
    t->list = QC_NEW_ARRAY(t->net->arena, struct qc_report_advice, QC_IDEAS, st);
    ok = ok && t->list;
    /* With --propagate an idea costs nearly a whole job: only the one for the worst layer is tried. */
    const bool one = t->net->scheme.options->propagate && ideas->count;
    const size_t first = one && causes < ideas->count ? causes : 0, end = one ? 1 : ideas->count;
    size_t order[QC_IDEAS];
    in_order(order, ideas, causes);
    for (size_t k = 0; ok && k < end; k++) {
        const size_t i = one ? first : order[k];
        bool good;
        if (has_change(ideas, i, &ideas->of[i].change)) continue;
        ok = try_idea(&good, &t->list[r->advice_count], t, &ideas->of[i], false, !one, st);
        if (ok && good) r->advice_count++;
    }
    qc_sensitivity_free(own);
    if (ok && r->advice_count) qsort(t->list, r->advice_count, sizeof *t->list, by_advice_gain);
    r->advice = t->list;
    return ok;
}

/* Tries 4-bit weights on a network that loses little. */
static bool try_cheaper(struct trying *t, struct qc_status *st)
{
    static const struct qc_option_text option = {"weight-type", "int4"};
    const struct qc_idea idea = {.change = {.count = 1, .options = &option, .without = option.name},
                                 .action = "Weights of 4 bits lose no more than a decibel",
                                 .layer = QC_NO_INDEX};
    bool good;
    if (!is_named(t->net->scheme.options, "int8")) return true;
    t->list = QC_NEW(t->net->arena, struct qc_report_advice, st);
    if (!t->list || !try_idea(&good, t->list, t, &idea, true, false, st)) return false;
    if (good) t->r->cheaper = t->list;
    return true;
}

/* Returns true if the accuracy falls by more than one sample of --eval, or the PSNR by QC_ADVICE_PSNR_DB. */
static bool loses_accuracy(const struct qc_report *r)
{
    const size_t count = r->eval_positions ? r->eval_positions : r->eval_samples;
    const double one = strcmp(r->metric, "psnr") == 0 ? QC_ADVICE_PSNR_DB : 1.5 / (double)count;
    return r->fp32 - r->int8 > one;
}

static enum qc_advice_state state_of(const struct trying *t)
{
    const struct qc_report *r = t->r;
    const struct qc_network *net = t->net;
    const bool falls = r->metric && loses_accuracy(r);
    if (net->scheme.options->advice == QC_ADVISE_OFF) return QC_ADVICE_NOT_ASKED;
    if (!net->setup->data || !t->now) return QC_ADVICE_NO_DATA;
    if (r->fallback && r->fallback->met) return QC_ADVICE_MET;
    if (r->size) return QC_ADVICE_SIZED;
    if (net->setup->in->team) return QC_ADVICE_SHARED;
    if (net->evidence->moments_dropped) return QC_ADVICE_LARGE;
    const double enough = net->scheme.options->advice != QC_ADVISE_AUTO ? QC_ADVICE_ENOUGH_ASKED_DB
                          : r->metric                                   ? QC_ADVICE_ENOUGH_MEASURED_DB
                                                                        : QC_ADVICE_ENOUGH_DB;
    return falls || decibels(t, t->now) < enough ? QC_ADVICE_TRIED : QC_ADVICE_NOT_NEEDED;
}

bool qc_fill_advice(struct qc_report *r, struct qc_ideas *ideas, struct qc_candidate *c, const struct qc_measurement *m,
                    const struct qc_sensitivity *effects, struct qc_status *st)
{
    const double t0 = qc_seconds();
    const struct qc_network *net = c->network;
    struct trying t = {
        .c = c, .net = net, .r = r, .outputs = net->real->output_count, .m = m, .now = m ? m->outputs : NULL};
    /* With few samples --method auto chooses wider ranges than the same observer given by name. */
    t.few = r->trial_count && net->scheme.calibration.few;
    for (size_t i = 0; i < r->trial_count; i++)
        if (r->trials[i].chosen && !t.few) t.method = r->trials[i].method;
    r->advice_state = state_of(&t);
    bool ok = true;
    if (r->advice_state == QC_ADVICE_TRIED || r->advice_state == QC_ADVICE_NOT_NEEDED) {
        qc_progress_phase(net->setup->progress, "trying advice");
        ok = select_all(&t, st) && advice_work_of(&t.work, net, r, st);
        t.left_out = QC_NEW_ARRAY(net->arena, struct qc_report_left, QC_IDEAS + 1, st);
        ok = ok && t.left_out;
        t.left = net->scheme.options->advice != QC_ADVISE_AUTO
                     ? (double)INFINITY
                     : fmax(QC_ADVICE_WORK_LEAST, t.work.job / QC_ADVICE_PART);
        ok = ok && (r->advice_state == QC_ADVICE_TRIED ? try_all_ideas(&t, ideas, effects, st)
                                                       : rank_layers(&t, ideas, effects, st) && try_cheaper(&t, st));
        qc_progress_end(net->setup->progress);
        r->advice_seconds = qc_seconds() - t0;
    } else {
        ok = rank_layers(&t, ideas, effects, st);
    }
    return ok;
}
