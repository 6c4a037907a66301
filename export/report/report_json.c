// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "export/report/report.h"
#include "graph/types/dtype.h"
#include "rewrite/passes/operator_times.h"

enum { QC_REPORT_SCHEMA = 1 };      /* version of report.schema.json */
enum { PARAMETERS_LISTED = 16384 }; /* of a layer with more scales, only their number, minimum and maximum */

static struct qc_json *interval(double low, double high)
{
    return isnan(low) ? qc_json_null() : qc_json_pair(qc_json_number(low), qc_json_number(high));
}

static struct qc_json *accuracy(const struct qc_report *r)
{
    if (!r->metric) return qc_json_null();
    struct qc_json *o = qc_json_object();
    if (r->lower_is_better) qc_json_put(o, "lower_is_better %hhd", r->lower_is_better);
    qc_json_put(o, "file %s metric %s samples %zu fp32 %g int8 %g", r->eval_file, r->metric, r->eval_samples, r->fp32,
                r->int8);
    qc_json_set(o, "fp32_interval", interval(r->fp32_low, r->fp32_high));
    qc_json_set(o, "int8_interval", interval(r->int8_low, r->int8_high));
    qc_json_put(o, "fp32_top5 %g int8_top5 %g", r->fp32_top5, r->int8_top5);
    if (r->eval_positions)
        qc_json_put(o, "positions %zu fp32_nll %g int8_nll %g", r->eval_positions, r->fp32_nll, r->int8_nll);
    return o;
}

/* Writes the number with a float's digits if it is a float. */
static struct qc_json *brief(double v)
{
    float f = (float)v;
    return isnormal(f) || v == 0 ? qc_json_float(f) : qc_json_number(v);
}

/* Embedding tables and large weights in blocks have millions of scales, which are in the model file. */
static struct qc_json *parameter_extent(const struct qc_layer *l, bool zero_point)
{
    double low = (double)INFINITY, high = -low;
    for (size_t i = 0; i < l->count; i++) {
        const double v = zero_point ? l->zero_point[i] : (double)l->scale[i];
        low = fmin(low, v);
        high = fmax(high, v);
    }
    struct qc_json *o = QC_JSON("count %zu", l->count);
    qc_json_set(o, "min", brief(low));
    qc_json_set(o, "max", brief(high));
    return o;
}

static struct qc_json *parameters(const struct qc_layer *l, bool zero_point)
{
    if (l->axis < 0) return zero_point ? qc_json_integer(l->zero_point[0]) : qc_json_float(l->scale[0]);
    if (l->count > PARAMETERS_LISTED) return parameter_extent(l, zero_point);
    struct qc_json *a = qc_json_array();
    for (size_t i = 0; i < l->count; i++)
        qc_json_add(a, zero_point ? qc_json_integer(l->zero_point[i]) : qc_json_float(l->scale[i]));
    return a;
}

static struct qc_json *solver_json(const struct qc_layer_solver *s)
{
    struct qc_json *o = qc_json_object(), *curve, *other, *refused = qc_json_array();
    qc_json_set(o, "known", QC_JSON("min %f max %f", s->known_min, s->known_max));
    qc_json_put(o, "behind %s", s->behind);
    qc_json_set(o, "objective", brief(s->objective));
    qc_json_set(o, "objective_minmax", brief(s->objective_minmax));
    qc_json_set(o, "candidates", s->candidates ? qc_json_integer(s->candidates) : qc_json_null());
    curve = s->curve_count ? qc_json_array() : qc_json_null();
    for (size_t i = 0; i < s->curve_count; i++) { /* thresholds and their objectives; null: not admitted */
        const double threshold = fmax(-s->curve[i].min, s->curve[i].max);
        qc_json_add(curve, qc_json_pair(brief(threshold), brief(s->curve[i].objective)));
        if (isfinite(s->curve[i].refused))
            qc_json_add(refused, qc_json_pair(brief(threshold), brief(s->curve[i].refused)));
    }
    qc_json_set(o, "curve", curve);
    if (qc_json_size(refused))
        qc_json_set(o, "refused", refused);
    else
        qc_json_free(refused);
    other = s->runner_up ? QC_JSON("min %f max %f", s->runner_up->min, s->runner_up->max) : qc_json_null();
    if (s->runner_up) qc_json_set(other, "objective", brief(s->runner_up->objective));
    qc_json_set(o, "runner_up", other);
    return o;
}

/* Returns null for activations and other constants. */
static struct qc_json *rounding_json(const struct qc_report_rounding *r)
{
    if (!r) return qc_json_null();
    struct qc_json *o = qc_json_object();
    qc_json_put(o, "method %s reason %s", r->method, r->reason);
    qc_json_set(o, "judged_on", r->judged ? qc_json_string(r->held ? "held back" : "all") : qc_json_null());
    qc_json_put(o, "error_nearest %g error %g outputs %zu outputs_nearest %zu blocks %zu",
                r->judged ? r->error_nearest : (double)NAN, r->judged ? r->error : (double)NAN, r->outputs,
                r->nearest_outputs, r->blocks);
    return o;
}

static struct qc_json *histogram(const struct qc_report_histogram *h)
{
    if (!h) return qc_json_null();
    struct qc_json *o = qc_json_object(), *bars = qc_json_array();
    for (size_t i = 0; i < h->bar_count; i++) qc_json_add(bars, qc_json_integer((int64_t)h->bars[i]));
    qc_json_put(o, "min %f max %f zeros %" PRIu64, h->lo, h->hi, h->zeros);
    qc_json_set(o, "counts", bars);
    return o;
}

static struct qc_json *index_json(size_t index)
{
    return index == QC_NO_INDEX ? qc_json_null() : qc_json_whole(index);
}

static struct qc_json *suggestion(const struct qc_report_suggestion *s)
{
    struct qc_json *o = QC_JSON("name %s op %s sqnr_db_before %g sqnr_db_after %g why %s", s->node, s->op, s->before_db,
                                s->after_db, s->why);
    qc_json_set(o, "layer", index_json(s->layer));
    return o;
}

static struct qc_json *cost_json(const struct qc_report_cost *c)
{
    struct qc_json *o = QC_JSON("latency %g bytes %zu", c->latency, c->bytes), *on = qc_json_object();
    for (int i = 0; i < QC_PROCESSORS; i++) qc_json_set(on, qc_processor_names[i], qc_json_number(c->on[i]));
    qc_json_set(o, "processors", on);
    return o;
}

static struct qc_json *advice_json(const struct qc_report_advice *a, const struct qc_report *r)
{
    struct qc_json *o = qc_json_object(), *list = qc_json_array(),
                   *measured = QC_JSON("sqnr_db_before %g sqnr_db_after %g", a->before_db, a->after_db);
    qc_json_set(o, "command", qc_json_strings(a->words, a->word_count));
    qc_json_put(o, "shell %s action %s node %s", a->command, a->action, a->node);
    for (size_t i = 0; i < r->output_count; i++) {
        qc_json_add(list, QC_JSON("name %s sqnr_db_before %g sqnr_db_after %g", r->outputs[i].name,
                                  a->outputs_before_db[i], a->outputs_after_db[i]));
    }
    qc_json_set(measured, "outputs", list);
    qc_json_set(measured, "held_back",
                QC_JSON("sqnr_db_before %g sqnr_db_after %g", a->held_before_db, a->held_after_db));
    qc_json_set(o, "measured", measured);
    qc_json_set(o, "cost", cost_json(&a->cost));
    return o;
}

/* Returns the ranges of a weight's channels: of neighbours together if there are more than CHANNELS_LISTED. */
static struct qc_json *channels(const struct qc_layer *l)
{
    enum { CHANNELS_LISTED = 256 };
    const size_t each = (l->channel_count + CHANNELS_LISTED - 1) / CHANNELS_LISTED;
    struct qc_json *o = QC_JSON("count %zu", l->channel_count), *low = qc_json_array(), *high = qc_json_array();
    for (size_t first = 0; first < l->channel_count; first += each) {
        float least = l->channel_low[first], most = l->channel_high[first];
        for (size_t k = first + 1; k < first + each && k < l->channel_count; k++) {
            least = fminf(least, l->channel_low[k]);
            most = fmaxf(most, l->channel_high[k]);
        }
        qc_json_add(low, qc_json_float(least));
        qc_json_add(high, qc_json_float(most));
    }
    qc_json_set(o, "min", low);
    qc_json_set(o, "max", high);
    return o;
}

static struct qc_json *layer(const struct qc_layer *l)
{
    struct qc_json *o = qc_json_object();
    qc_json_put(o, "name %s op %s node %s kind %s type %s", l->name, l->op, l->node, l->kind, l->type);
    qc_json_set(o, "scale", parameters(l, false));
    qc_json_set(o, "zero_point", parameters(l, true));
    qc_json_set(o, "axis", l->axis < 0 ? qc_json_null() : qc_json_integer(l->axis));
    if (l->block) qc_json_set(o, "block", qc_json_integer(l->block));
    qc_json_put(o, "one_scale %s method %s", l->one_scale, l->method);
    const struct qc_report_trial *t = l->choice ? l->choice->trial : NULL;
    if (l->choice)
        qc_json_set(o, "choice",
                    QC_JSON("taken_for %s gain_db %g worth_db %g", l->choice->steps ? "steps" : "network",
                            t ? t->gain_db : (double)NAN, t ? t->worth_db : (double)NAN));
    qc_json_set(o, "observed",
                QC_JSON("min %f max %f count %" PRIu64 " nan %" PRIu64 " inf %" PRIu64, l->observed_min,
                        l->observed_max, l->observed_count, l->observed_nan, l->observed_inf));
    qc_json_set(o, "chosen", QC_JSON("min %g max %g", l->chosen_min, l->chosen_max));
    qc_json_put(o, "clipped_fraction %g", l->clipped_fraction);
    qc_json_set(o, "solver", solver_json(&l->solver));
    qc_json_put(o, "sqnr_db %g sqnr_alone_db %g cosine %g max_abs %g saturated_fraction %g", l->sqnr_db, l->alone_db,
                l->cosine, l->max_abs, l->saturated_fraction);
    qc_json_set(o, "weight_rounding", rounding_json(l->rounding));
    const struct qc_report_rounding *r = l->rounding;
    qc_json_set(o, "bias_correction",
                r && r->bias_corrected ? QC_JSON("rms %g max %g", r->bias_rms, r->bias_max) : qc_json_null());
    qc_json_set(o, "accumulator_bits", l->accumulator_bits ? qc_json_integer(l->accumulator_bits) : qc_json_null());
    qc_json_set(o, "accumulator_bits_seen",
                l->accumulator_bits_seen ? qc_json_integer(l->accumulator_bits_seen) : qc_json_null());
    qc_json_put(o, "lost_fraction %g", l->lost_fraction);
    qc_json_set(o, "histogram", histogram(l->histogram));
    const bool fitted = l->scale_raise_max > 0;
    qc_json_set(o, "scales_raised", fitted ? qc_json_whole(l->scales_raised) : qc_json_null());
    qc_json_set(o, "scale_raise_max", fitted ? qc_json_number(l->scale_raise_max) : qc_json_null());
    qc_json_put(o, "clipping_share %g in_body %hhd", l->clipping_share, l->in_body);
    if (l->accumulator_of) qc_json_set(o, "accumulator_of", qc_json_string(l->accumulator_of));
    if (l->channel_count > 1) qc_json_set(o, "channels", channels(l));
    return o;
}

/* Names of a list of the report, for the lookup of its members by the names of layers. */
struct names {
    size_t count;
    struct name {
        const char *name;
        size_t index;
    } * sorted;
};

static int by_name(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* list: [count] structures of `size` bytes that begin with their names. Returns no names if memory runs out. */
static struct names names_of(const void *list, size_t count, size_t size, bool *whole)
{
    struct names n = {.count = count, .sorted = calloc(count + 1, sizeof *n.sorted)};
    *whole = *whole && n.sorted;
    if (!n.sorted) n.count = 0;
    for (size_t i = 0; i < n.count; i++)
        n.sorted[i] = (struct name){.name = *(const char *const *)((const char *)list + i * size), .index = i};
    if (n.count) qsort(n.sorted, n.count, sizeof *n.sorted, by_name);
    return n;
}

/* Returns the index of the member with that name, or QC_NO_INDEX. */
static size_t index_of(const struct names *n, const char *name)
{
    const struct name key = {.name = name},
                      *found = name && *name ? bsearch(&key, n->sorted, n->count, sizeof key, by_name) : NULL;
    return found ? found->index : QC_NO_INDEX;
}

/* Adds what other parts of the report know of a layer: the effect of its operator, and overflows. */
static void add_effects(struct qc_json *o, const struct qc_report *r, const struct qc_layer *l,
                        const struct names names[3])
{
    const size_t rank = index_of(&names[0], l->node), effect = index_of(&names[1], l->node),
                 overflow = index_of(&names[2], l->accumulator_of);
    const bool counted = r->accumulator && r->accumulator->samples && l->accumulator_of && !l->in_body;
    qc_json_put(o, "output_sqnr_db %g", rank == QC_NO_INDEX ? (double)NAN : r->ranks[rank].sqnr_db);
    if (effect != QC_NO_INDEX)
        qc_json_put(o, "isolated_sqnr_db %g isolated_value %g isolated_drop %g", r->effects[effect].sqnr_db,
                    r->effects[effect].metric, r->effects[effect].lost);
    qc_json_put(o, "accumulator_overflows %g",
                !counted                  ? (double)NAN
                : overflow == QC_NO_INDEX ? 0
                                          : (double)r->accumulator->layers[overflow].overflows);
}

static struct qc_json *layers(const struct qc_report *r)
{
    struct qc_json *list = qc_json_array();
    bool whole = true;
    const struct qc_report_accumulator none = {0}, *a = r->accumulator ? r->accumulator : &none;
    const struct names names[] = {names_of(r->ranks, r->rank_count, sizeof *r->ranks, &whole),
                                  names_of(r->effects, r->effect_count, sizeof *r->effects, &whole),
                                  names_of(a->layers, a->layer_count, sizeof *a->layers, &whole)};
    for (size_t i = 0; whole && i < r->layer_count; i++) {
        struct qc_json *o = layer(&r->layers[i]);
        add_effects(o, r, &r->layers[i], names);
        qc_json_add(list, o);
    }
    for (size_t i = 0; i < 3; i++) free(names[i].sorted);
    if (whole) return list;
    qc_json_free(list);
    return NULL;
}

static const char *state_of(double sqnr_db)
{
    if (isnan(sqnr_db)) return "not measured";
    return isfinite(sqnr_db) ? "measured" : sqnr_db > 0 ? "equal" : "not finite";
}

static struct qc_json *outputs(const struct qc_report *r)
{
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < r->output_count; i++) {
        const struct qc_report_output *out = &r->outputs[i];
        struct qc_json *item =
            QC_JSON("name %s sqnr_db %g cosine %g max_abs %g", out->name, out->sqnr_db, out->cosine, out->max_abs);
        qc_json_put(item, "state %s", state_of(out->sqnr_db));
        if (out->judging != QC_JUDGED)
            qc_json_put(item, "ordered %hhd written %hhd", (bool)(out->judging == QC_NOT_JUDGED),
                        (bool)(out->judging == QC_NOT_JUDGED));
        if (out->part_count > 1) {
            struct qc_json *parts = qc_json_array();
            for (size_t k = 0; k < out->part_count; k++)
                qc_json_add(parts, QC_JSON("name %s sqnr_db %g", out->parts[k].name, out->parts[k].sqnr_db));
            qc_json_set(item, "parts", parts);
        }
        qc_json_add(list, item);
    }
    return list;
}

/* The graph as the viewer draws it; see struct qc_report_node. */
static struct qc_json *graph(const struct qc_report *r)
{
    static const char *const kinds[] = {[QC_NODE_INPUT] = "input",
                                        [QC_NODE_INTEGER] = "integer",
                                        [QC_NODE_FLOAT] = "float",
                                        [QC_NODE_SHAPE] = "shape",
                                        [QC_NODE_OUTPUT] = "output"};
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < r->node_count; i++) {
        const struct qc_report_node *n = &r->nodes[i];
        struct qc_json *o = QC_JSON("kind %s name %s op %s shape %s", kinds[n->kind], n->name, n->label, n->shape),
                       *inputs = qc_json_array();
        if (n->reason) qc_json_set(o, "reason", qc_json_string(n->reason));
        for (size_t k = 0; k < n->input_count; k++) qc_json_add(inputs, qc_json_whole(n->inputs[k]));
        qc_json_set(o, "inputs", inputs);
        qc_json_set(o, "layer", index_json(n->layer));
        qc_json_add(list, o);
    }
    return list;
}

static struct qc_json *left_out(const struct qc_report *r)
{
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; r->advice_left_out && i < r->advice_left; i++)
        qc_json_add(list, QC_JSON("action %s node %s", r->advice_left_out[i].action, r->advice_left_out[i].node));
    return list;
}

static struct qc_json *accumulator(const struct qc_report_accumulator *a)
{
    if (!a) return qc_json_null();
    struct qc_json *o = qc_json_object(), *layers = qc_json_array();
    qc_json_put(o, "bits %u overflow %s bound %s file %s samples %zu scales_raised %zu channels_bounded %zu", a->bits,
                a->overflow, a->bound, a->file, a->samples, a->scales_raised, a->channels_bounded);
    for (size_t i = 0; i < a->layer_count; i++) {
        qc_json_add(layers, QC_JSON("name %s overflows %" PRIu64 " results %" PRIu64 " bits %u", a->layers[i].name,
                                    a->layers[i].overflows, a->layers[i].results, a->layers[i].bits));
    }
    qc_json_set(o, "layers", layers);
    return o;
}

static struct qc_json *group(const struct qc_report_group *g)
{
    struct qc_json *o = QC_JSON("name %s op %s", g->name, g->op);
    qc_json_set(o, "ops", qc_json_strings(g->ops, g->op_count));
    qc_json_put(o, "type %s one_piece %hhd", g->type, g->one_piece);
    qc_json_set(o, "breaks_at",
                g->one_piece ? qc_json_null()
                             : QC_JSON("name %s op %s reason %s", g->break_name, g->break_op, g->reason));
    return o;
}

static struct qc_json *effects(const struct qc_report *r)
{
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < r->effect_count; i++) {
        qc_json_add(list, QC_JSON("node %s op %s sqnr_db %g weights_sqnr_db %g value %g drop %g", r->effects[i].node,
                                  r->effects[i].op, r->effects[i].sqnr_db, r->effects[i].weights_sqnr_db,
                                  r->effects[i].metric, r->effects[i].lost));
    }
    return list;
}

static struct qc_json *fallback(const struct qc_report_fallback *f)
{
    if (!f) return qc_json_null();
    struct qc_json *o = qc_json_object(), *steps = qc_json_array();
    qc_json_put(o, "max_drop %g min_sqnr %g max_nll %g met %hhd", f->limit, f->min_sqnr, f->max_nll, f->met);
    qc_json_set(o, "options", qc_json_strings(f->options, f->option_count));
    qc_json_put(o, "command %s mended %hhd", f->command, f->mended);
    for (size_t i = 0; i < f->step_count; i++) {
        const struct qc_report_fallback_step *s = &f->steps[i];
        struct qc_json *step = QC_JSON("layers %zu", s->layers);
        qc_json_set(step, "type", *s->type ? qc_json_string(s->type) : qc_json_null());
        if (s->cost.bytes) qc_json_set(step, "cost", cost_json(&s->cost));
        qc_json_add(steps,
                    qc_json_put(step, "value %g drop %g sqnr_db %g nll %g int8_share %g met %hhd chosen %hhd reason %s",
                                s->value, s->drop, s->sqnr_db, s->nll, s->int8_share, s->met, s->chosen, s->reason));
    }
    qc_json_set(o, "steps", steps);
    return o;
}

static struct qc_json *trials(const struct qc_report *r)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < r->trial_count; i++) {
        const struct qc_report_trial *t = &r->trials[i];
        qc_json_add(all, QC_JSON("method %s sqnr_db %g gain_db %g error_db %g worth_db %g samples %zu chosen %hhd",
                                 t->method, t->sqnr_db, t->gain_db, t->error_db, t->worth_db, t->samples, t->chosen));
    }
    return all;
}

/* Changes that cost nothing at run time, each with its gain; those that are kept are part of the result. */
static struct qc_json *free_changes(const struct qc_report *r)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < r->idea_count; i++) {
        const struct qc_report_idea *t = &r->ideas[i];
        struct qc_json *o = QC_JSON("name %s", t->name);
        qc_json_set(o, "options", qc_json_strings(t->options, t->option_count));
        qc_json_put(o, "gain_db %g error_db %g samples %zu kept %hhd", t->gain_db, t->error_db, t->samples, t->kept);
        if (t->reason) qc_json_put(o, "reason %s", t->reason);
        qc_json_add(all, o);
    }
    return all;
}

static struct qc_json *centred(const struct qc_report *r)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < r->centred_count; i++) {
        const struct qc_report_centred *c = &r->centred[i];
        qc_json_add(all, QC_JSON("name %s channels %zu layers %zu error_ratio %g", c->value, c->channels, c->layers,
                                 c->error));
    }
    return all;
}

static struct qc_json *scaled_json(const struct qc_report *r)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < r->scaled_count; i++) {
        const struct qc_report_scaled *s = &r->scaled[i];
        struct qc_json *o = QC_JSON("name %s kind %s", s->value, s->kind);
        qc_json_set(o, "layers", qc_json_strings(s->nodes, s->layers));
        qc_json_put(o, "channels %zu activation_power %g weight_power %g error_ratio %g", s->channels,
                    s->kind ? s->activation_power : (double)NAN, s->kind ? s->weight_power : (double)NAN, s->error);
        qc_json_add(all, o);
    }
    return all;
}

struct qc_json *qc_latency_placement(const struct qc_report_latency *l)
{
    struct qc_json *o = QC_JSON("prefer %s", l->prefer);
    qc_json_set(o, "skip", qc_json_strings(l->skip, l->skip_count));
    return o;
}

static void add_size(struct qc_json *o, const struct qc_report_size *s)
{
    struct qc_json *size = qc_json_object(), *list = qc_json_array();
    qc_json_put(size, "limit %zu bytes %zu expected_error %g error_of %s", s->limit, s->bytes, s->error,
                s->of_outputs ? "outputs" : "weights");
    for (size_t i = 0; i < s->layer_count; i++) {
        qc_json_add(list, QC_JSON("node %s bits %u bytes %zu expected_error %g", s->layers[i].node, s->layers[i].bits,
                                  s->layers[i].bytes, s->layers[i].error));
    }
    qc_json_set(size, "layers", list);
    list = qc_json_array();
    for (size_t i = 0; i < s->uniform_count; i++) {
        qc_json_add(list, QC_JSON("bits %u bytes %zu expected_error %g", s->uniform[i].bits, s->uniform[i].bytes,
                                  s->uniform[i].error));
    }
    qc_json_set(size, "uniform", list);
    if (s->blocks_count) {
        qc_json_put(size, "weight_block %lld", (long long)s->block);
        list = qc_json_array();
        for (size_t i = 0; i < s->blocks_count; i++)
            qc_json_add(list, QC_JSON("weight_block %lld fits %hhd expected_error %g", (long long)s->blocks[i].block,
                                      s->blocks[i].fits, s->blocks[i].error));
        qc_json_set(size, "blocks", list);
    }
    qc_json_set(size, "options", qc_json_strings(s->options, s->option_count));
    qc_json_set(size, "command", qc_json_string(s->command));
    qc_json_set(o, "size", size);
    list = qc_json_array();
    for (size_t i = 0; i < s->row_count; i++) {
        qc_json_add(list, QC_JSON("bytes %zu expected_error %g chosen %hhd", s->rows[i].bytes, s->rows[i].error,
                                  s->rows[i].chosen));
    }
    qc_json_set(o, "frontier", list);
}

static struct qc_json *latency(const struct qc_report_latency *l)
{
    struct qc_json *o = qc_json_object(), *list = qc_json_array();
    qc_json_put(o,
                "command %s float_ms %g default_ms %g integers_ms %g best_ms %g default_sqnr_db %g integers_sqnr_db %g "
                "best_sqnr_db %g reverted %hhd all_float %hhd",
                l->command, l->float_ms, l->default_ms, l->integers_ms, l->best_ms, l->default_db, l->integers_db,
                l->best_db, l->reverted, l->all_float);
    for (size_t i = 0; i < l->step_count; i++) {
        const struct qc_report_latency_step *s = &l->steps[i];
        qc_json_add(list, QC_JSON("group %s ops %zu to %s before_ms %g after_ms %g sqnr_db %g kept %hhd reason %s",
                                  s->group, s->op_count, s->to_float ? "float" : "integers", s->before_ms, s->after_ms,
                                  s->sqnr_db, s->kept, s->reason));
    }
    qc_json_set(o, "changes", list);
    qc_json_set(o, "groups_left", qc_json_whole(l->left));
    qc_json_set(o, "placement", l->all_float ? qc_json_null() : qc_latency_placement(l));
    qc_json_set(o, "seconds", qc_json_number(l->seconds));
    return o;
}

static struct qc_json *timing(const struct qc_report *r)
{
    struct qc_json *o = qc_json_object();
    qc_json_put(o,
                "total_seconds %g import_seconds %g collect_seconds %g solve_seconds %g rounding_seconds %g "
                "measure_seconds %g advice_seconds %g sensitivity_seconds %g fallback_seconds %g",
                r->total_seconds, r->import_seconds, r->collect_seconds, r->solve_seconds, r->rounding_seconds,
                r->measure_seconds, r->advice_seconds, r->sensitivity_seconds, r->fallback_seconds);
    if (r->size) qc_json_set(o, "size_seconds", qc_json_number(r->size->seconds));
    if (r->latency) qc_json_set(o, "benchmark", latency(r->latency));
    if (r->idea_count) qc_json_set(o, "free_changes_seconds", qc_json_number(r->ideas_seconds));
    qc_json_put(o, "eval_seconds %g export_seconds %g", r->eval_seconds, r->export_seconds);
    qc_json_set(o, "workers", qc_json_integer(r->workers)); /* here, because no other key depends on it */
    return o;
}

/* Returns a written file; with "data" if weights are in a file beside it, of which "bytes" has both. */
static struct qc_json *written(const char *path, size_t bytes)
{
    struct qc_json *o = QC_JSON("file %s bytes %zu", path, bytes);
    char beside[4096];
    struct stat model, data;
    const int n = snprintf(beside, sizeof beside, "%s.data", path);
    if (n > 0 && (size_t)n < sizeof beside && stat(path, &model) == 0 && stat(beside, &data) == 0 &&
        (size_t)model.st_size + (size_t)data.st_size == bytes)
        qc_json_put(o, "data %s data_bytes %zu", beside, (size_t)data.st_size);
    return o;
}

static const char *const advice_states[] = {
    [QC_ADVICE_NOT_ASKED] = "off",     [QC_ADVICE_NO_DATA] = "no data",   [QC_ADVICE_NOT_NEEDED] = "not needed",
    [QC_ADVICE_MET] = "demand met",    [QC_ADVICE_SIZED] = "size chosen", [QC_ADVICE_SHARED] = "data shared",
    [QC_ADVICE_LARGE] = "large model", [QC_ADVICE_TRIED] = "tried",
};

static struct qc_json *integer_ports(const struct qc_report *r)
{
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < r->port_count; i++)
        qc_json_add(list, QC_JSON("name %s direction %s type %s scale %f zero_point %d", r->ports[i].name,
                                  r->ports[i].input ? "input" : "output", r->ports[i].type, (double)r->ports[i].scale,
                                  r->ports[i].zero_point));
    return list;
}

struct qc_json *qc_report_json(const struct qc_report *r)
{
    struct qc_json *o = qc_json_object(), *list, *item;
    qc_json_put(o, "tool %s version %s schema %d command %s", "qcalib", r->version, QC_REPORT_SCHEMA, r->command);
    qc_json_set(o, "verdict", qc_verdict_json(r));
    qc_json_set(o, "network", qc_json_string(qc_report_type(r)));
    item = QC_JSON("file %s sha256 %s", r->model_file, r->model_sha256);
    qc_json_set(item, "bytes", qc_json_whole(r->model_bytes));
    qc_json_set(o, "model", item);
    item = QC_JSON("file %s sha256 %s", r->data_file, r->data_sha256);
    qc_json_put(item, "samples %zu samples_in_file %zu samples_dropped %zu", r->data_samples, r->data_total,
                r->data_dropped);
    if (r->data_made) qc_json_set(item, "inputs_made", qc_json_whole(r->data_made));
    qc_json_set(o, "data", item);
    if (r->caches) qc_json_set(o, "caches", QC_JSON("count %zu type %s", r->caches, r->cache_type));
    item = r->statistics_file ? QC_JSON("file %s sha256 %s", r->statistics_file, r->statistics_sha256) : qc_json_null();
    if (r->statistics_file) qc_json_set(item, "samples", qc_json_whole(r->statistics_samples));
    qc_json_set(o, "statistics", item);
    qc_json_set(o, "options", r->options ? r->options : qc_json_object());
    if (r->quantized_in_part)
        qc_json_put(o, "reference %s unrounded %zu linear_left %zu", "quantized in part", r->unrounded, r->linear_left);
    if (r->bias_narrowed) qc_json_put(o, "bias_narrowed %hhd", r->bias_narrowed);
    qc_json_set(o, "accuracy", accuracy(r));
    qc_json_set(o, "accumulator", accumulator(r->accumulator));
    qc_json_set(o, "outputs", outputs(r));
    if (r->port_count) qc_json_set(o, "integer_ports", integer_ports(r));
    qc_json_put(o, "measured_samples %zu measured_on %s quantized_ops %zu", r->measured_samples, r->measured_on,
                r->quantized_ops);
    qc_json_set(
        o, "processors",
        QC_JSON("onnxruntime %hhd exact_without_vnni %hhd products %zu saturating %zu first %s channels_limited %zu",
                r->pairs.onnxruntime, (bool)!r->pairs.saturating, r->pairs.products, r->pairs.saturating,
                r->pairs.first, r->pairs.channels));
    list = qc_json_array();
    for (size_t i = 0; i < r->float_op_count; i++) {
        qc_json_add(list, QC_JSON("name %s op %s reason %s", r->float_ops[i].name, r->float_ops[i].op,
                                  r->float_ops[i].reason));
    }
    qc_json_set(o, "float_ops", list);
    if (r->kept) {
        struct qc_json *kept = qc_json_object();
        qc_json_put(kept, "kept %zu quantizers %zu", r->kept, r->quantizers);
        qc_json_set(o, "given", kept);
    }
    qc_json_put(o, "int8_share %g integer_share %g", r->int8_share, r->integer_share);
    if (r->small_float_share > 0) qc_json_set(o, "small_float_share", qc_json_number(r->small_float_share));
    if (r->block_share > 0) qc_json_set(o, "block_share", qc_json_number(r->block_share));
    qc_json_set(o, "cost", cost_json(&r->cost));
    if (r->edge_layers) qc_json_put(o, "edge_layers %zu", r->edge_layers);
    qc_json_set(o, "sensitivity", effects(r));
    qc_json_set(o, "sensitivity_samples", qc_json_whole(r->effect_samples));
    const struct qc_report_demand *d = r->demand;
    if (d)
        qc_json_set(o, "demand",
                    QC_JSON("met %hhd min_sqnr %g sqnr_db %g output %s file %s samples %zu max_nll %g nll %g", d->met,
                            d->min_sqnr, d->sqnr_db, d->output, d->file, d->samples, d->max_nll, d->nll));
    qc_json_set(o, "fallback", fallback(r->fallback));
    if (r->size) add_size(o, r->size);
    if (r->trial_count) qc_json_set(o, "trials", trials(r));
    if (r->idea_count) qc_json_set(o, "free_changes", free_changes(r));
    if (r->crossed)
        qc_json_set(o, "rounded_on_what_is_read", QC_JSON("gain_db %g kept %hhd", r->crossed_gain_db, r->crossed_kept));
    if (r->output_bias_outputs)
        qc_json_set(o, "biases_of_outputs",
                    QC_JSON("outputs %zu expected_gain_db %g runs %zu", r->output_bias_outputs, r->output_bias_gain_db,
                            r->output_bias_units));
    if (r->centred_count) qc_json_set(o, "centred_inputs", centred(r));
    if (r->scaled_count) qc_json_set(o, "scaled_channels", scaled_json(r));
    list = qc_json_array();
    for (size_t i = 0; i < r->group_count; i++) qc_json_add(list, group(&r->groups[i]));
    qc_json_set(o, "groups", list);
    list = qc_json_array();
    for (size_t i = 0; i < r->rank_count; i++)
        qc_json_add(list, QC_JSON("node %s op %s output_sqnr_db %g measured %hhd", r->ranks[i].node, r->ranks[i].op,
                                  r->ranks[i].sqnr_db, r->ranks[i].measured));
    qc_json_set(o, "ranking", list);
    list = qc_json_array();
    for (size_t i = 0; i < r->suggestion_count; i++) qc_json_add(list, suggestion(&r->suggestions[i]));
    qc_json_set(o, "suggestions", list);
    list = qc_json_array();
    for (size_t i = 0; i < r->advice_count; i++) qc_json_add(list, advice_json(&r->advice[i], r));
    qc_json_set(o, "advice", list);
    qc_json_put(o, "advice_tried %zu advice_left %zu advice_state %s", r->advice_tried, r->advice_left,
                advice_states[r->advice_state]);
    if (r->advice_left_out) qc_json_set(o, "advice_left_out", left_out(r));
    qc_json_set(o, "cheaper", r->cheaper ? advice_json(r->cheaper, r) : qc_json_null());
    qc_json_set(o, "warnings", qc_json_strings(r->warnings, r->warning_count));
    qc_json_set(o, "layers", layers(r));
    qc_json_set(o, "graph", graph(r));
    list = qc_json_array();
    for (size_t i = 0; i < r->file_count; i++) qc_json_add(list, written(r->files[i], r->file_bytes[i]));
    qc_json_set(o, "files", list);
    qc_json_set(o, "memory",
                QC_JSON("constants_bytes %zu per_worker_bytes %zu statistics_per_worker_bytes %zu", r->constant_bytes,
                        r->worker_bytes, r->statistics_bytes));
    qc_json_set(o, "timing", timing(r));
    return o;
}

const char *qc_type_word(const char *type)
{
    const enum qc_dtype t = qc_dtype_from_name(type);
    return t == QC_NONE ? type : qc_dtype_long_name(t);
}

/* Returns the type of most layers of a kind, or NULL if there are none. */
static const char *most_common(const struct qc_report *r, const char *kind)
{
    size_t count[QC_DTYPE_COUNT] = {0};
    enum qc_dtype most = QC_NONE;
    for (size_t i = 0; i < r->layer_count; i++)
        if (strcmp(r->layers[i].kind, kind) == 0) count[qc_dtype_from_name(r->layers[i].type)]++;
    for (int t = QC_NONE + 1; t < QC_DTYPE_COUNT; t++)
        if (count[t] > (most == QC_NONE ? 0 : count[most])) most = (enum qc_dtype)t;
    return most == QC_NONE ? NULL : qc_dtype_long_name(most);
}

const char *qc_report_type(const struct qc_report *r)
{
    const char *type = r->size ? NULL : r->weight_type; /* --size chooses the types itself */
    if (!type || strcmp(type, "none") == 0) type = most_common(r, "weight");
    if (!type) type = most_common(r, "activation");
    if (!type) return "quantized";
    if (strncmp(type, "float8", strlen("float8")) == 0) return "fp8";
    if (strncmp(type, "float4", strlen("float4")) == 0) return "fp4";
    return type + (*type == 'u');
}
