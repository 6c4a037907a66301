// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/record.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "graph/core/multiply_adds.h"
#include "graph/core/recurrent.h"
#include "quantize/make/evidence.h"
#include "quantize/make/make.h"
#include "quantize/options/option_value.h"
#include "rewrite/canonical/canonical.h"
#include "rewrite/passes/operator_times.h"

enum { QC_REPORT_SCHEMA = 1 }; /* version of report.schema.json */

bool qc_record_begin(struct qc_report *r, struct qc_status *st)
{
    static const char *const keys[] = {"command",       "verdict",      "network",          "model",
                                       "data",          "statistics",   "options",          "accuracy",
                                       "accumulator",   "outputs",      "measured_samples", "measured_on",
                                       "quantized_ops", "processors",   "float_ops",        "int8_share",
                                       "integer_share", "cost",         "sensitivity",      "sensitivity_samples",
                                       "fallback",      "groups",       "ranking",          "suggestions",
                                       "advice",        "advice_tried", "advice_left",      "advice_state",
                                       "cheaper",       "warnings",     "layers",           "graph",
                                       "files",         "memory"};
    static const char *const seconds[] = {"total_seconds",  "import_seconds",      "collect_seconds",
                                          "solve_seconds",  "rounding_seconds",    "measure_seconds",
                                          "advice_seconds", "sensitivity_seconds", "fallback_seconds",
                                          "eval_seconds",   "export_seconds"};
    r->record = QC_JSON("tool %s version %s schema %d", "qcalib", QC_VERSION, QC_REPORT_SCHEMA);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) qc_json_set(r->record, keys[i], qc_json_null());
    qc_json_set(r->record, "suggestions", qc_json_array());
    qc_json_set(r->record, "ranking", qc_json_array());
    qc_json_set(r->record, "advice_left_out", r->left_out = qc_json_array());
    r->timing = qc_json_object();
    for (size_t i = 0; i < sizeof seconds / sizeof *seconds; i++) qc_json_set(r->timing, seconds[i], qc_json_number(0));
    qc_json_set(r->record, "timing", r->timing);
    qc_json_set(r->record, "sensitivity", qc_json_array());
    qc_json_set(r->record, "sensitivity_samples", qc_json_integer(0));
    return qc_json_is_whole(r->record) || qc_fail_memory(st, 1);
}

static struct qc_json *interval(double low, double high)
{
    return isnan(low) ? qc_json_null() : qc_json_pair(qc_json_number(low), qc_json_number(high));
}

void qc_record_accuracy(struct qc_report *r, const char *file)
{
    const struct qc_metric *real = r->accuracy[0], *now = r->accuracy[1];
    struct qc_json *o = qc_json_object();
    if (real->lower_is_better) qc_json_put(o, "lower_is_better %hhd", real->lower_is_better);
    qc_json_put(o, "file %s metric %s samples %zu fp32 %g int8 %g", file, real->name, real->samples, real->value,
                now->value);
    qc_json_set(o, "fp32_interval", interval(real->low, real->high));
    qc_json_set(o, "int8_interval", interval(now->low, now->high));
    qc_json_put(o, "fp32_top5 %g int8_top5 %g", real->top5, now->top5);
    if (real->positions) qc_json_put(o, "positions %zu fp32_nll %g int8_nll %g", real->positions, real->nll, now->nll);
    qc_json_set(r->record, "accuracy", o);
}

void qc_record_sensitivity(struct qc_report *r, const struct qc_sensitivity *s)
{
    struct qc_json *list = qc_json_array();
    r->sensitivity = s;
    for (size_t i = 0; i < s->count; i++) {
        const struct qc_layer_effect *e = &s->layers[i];
        qc_json_add(list,
                    QC_JSON("node %s op %s sqnr_db %g weights_sqnr_db %g value %g drop %g", e->name, e->op,
                            qc_effect_sqnr_db(e->noise), qc_effect_sqnr_db(e->noise_weights), e->metric, e->lost));
    }
    qc_json_set(r->record, "sensitivity", list);
    qc_json_put(r->record, "sensitivity_samples %zu", s->samples);
    qc_json_put(r->timing, "sensitivity_seconds %g", s->seconds);
}

void qc_record_ideas(struct qc_report *r, const struct qc_report_idea *ideas, size_t count, double seconds)
{
    if (!count) return;
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < count; i++) {
        const struct qc_report_idea *t = &ideas[i];
        struct qc_json *o = QC_JSON("name %s", t->name);
        qc_json_set(o, "options", qc_json_strings(t->options, t->option_count));
        qc_json_put(o, "gain_db %g error_db %g samples %zu kept %hhd", t->gain_db, t->error_db, t->samples, t->kept);
        if (t->reason) qc_json_put(o, "reason %s", t->reason);
        qc_json_add(all, o);
    }
    qc_json_set(r->record, "free_changes", all);
    qc_json_put(r->timing, "free_changes_seconds %g", seconds);
}

void qc_record_accumulator(struct qc_report *r, const struct qc_network *net, const char *file, size_t samples)
{
    const struct qc_accumulator *a = &net->scheme.settings->plan.accumulator;
    size_t raised = 0, bounded = 0;
    if (!a->bits || a->bits == 32) return;
    for (size_t i = 0; i < r->layer_count; i++) raised += r->layers[i].is_weight ? r->layers[i].choice->raised : 0;
    for (size_t i = 0; net->weight_rounding && i < net->weight_rounding->count; i++)
        bounded += net->weight_rounding->layers[i].bounded;
    struct qc_json *layers = qc_json_array(),
                   *o = QC_JSON(
                       "bits %u overflow %s bound %s file %s samples %zu scales_raised %zu channels_bounded %zu",
                       a->bits, a->overflow == QC_OVERFLOW_SATURATE ? "saturate" : "wrap",
                       qc_options_text(net->scheme.options, QC_OPTION_ACCUMULATOR_BOUND), file, samples, raised,
                       bounded);
    for (size_t i = 0; r->overflows && i < r->overflows->count; i++) {
        const struct qc_layer_overflow *l = &r->overflows->layers[i];
        qc_json_add(layers, QC_JSON("name %s overflows %" PRIu64 " results %" PRIu64 " bits %u", l->name,
                                    l->sums.overflows, l->sums.results, l->bits));
    }
    qc_json_set(o, "layers", layers);
    qc_json_set(r->record, "accumulator", o);
}

struct qc_json *qc_cost_json(const struct qc_report_cost *c)
{
    struct qc_json *o = QC_JSON("latency %g bytes %zu", c->latency, c->bytes), *on = qc_json_object();
    for (int i = 0; i < QC_PROCESSORS; i++) qc_json_set(on, qc_processor_names[i], qc_json_number(c->on[i]));
    qc_json_set(o, "processors", on);
    return o;
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
        if (s->cost.bytes) qc_json_set(step, "cost", qc_cost_json(&s->cost));
        qc_json_add(steps,
                    qc_json_put(step, "value %g drop %g sqnr_db %g nll %g int8_share %g met %hhd chosen %hhd reason %s",
                                s->value, s->drop, s->sqnr_db, s->nll, s->int8_share, s->met, s->chosen, s->reason));
    }
    qc_json_set(o, "steps", steps);
    return o;
}

static struct qc_json *advice_json(const struct qc_report_advice *a, const struct qc_graph *g, double now)
{
    struct qc_json *o = qc_json_object(), *list = qc_json_array(),
                   *measured = QC_JSON("sqnr_db_before %g sqnr_db_after %g", a->before_db, a->after_db);
    qc_json_set(o, "command", qc_json_strings(a->words, a->word_count));
    qc_json_put(o, "shell %s action %s node %s", a->command, a->action, a->node);
    for (size_t i = 0; i < g->output_count; i++) {
        qc_json_add(list, QC_JSON("name %s sqnr_db_before %g sqnr_db_after %g", g->outputs[i].name,
                                  a->outputs_before_db[i], a->outputs_after_db[i]));
    }
    qc_json_set(measured, "outputs", list);
    qc_json_set(measured, "held_back",
                QC_JSON("sqnr_db_before %g sqnr_db_after %g", a->held_before_db, a->held_after_db));
    if (!isnan(a->accuracy)) qc_json_put(measured, "accuracy_before %g accuracy_after %g", now, a->accuracy);
    qc_json_set(o, "measured", measured);
    qc_json_set(o, "cost", qc_cost_json(&a->cost));
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
    struct qc_json *placement = l->all_float ? qc_json_null() : QC_JSON("prefer %s", l->prefer);
    if (!l->all_float) qc_json_set(placement, "skip", qc_json_strings(l->skip, l->skip_count));
    qc_json_set(o, "placement", placement);
    qc_json_set(o, "seconds", qc_json_number(l->seconds));
    return o;
}

/* Returns the type of most layers of a kind, or NULL if there are none. */
static const char *most_common(const struct qc_report *r, bool weights)
{
    size_t count[QC_DTYPE_COUNT] = {0};
    enum qc_dtype most = QC_NONE;
    for (size_t i = 0; i < r->layer_count; i++)
        if (r->layers[i].is_weight == weights) count[r->layers[i].stored.dtype]++;
    for (int t = QC_NONE + 1; t < QC_DTYPE_COUNT; t++)
        if (count[t] > (most == QC_NONE ? 0 : count[most])) most = (enum qc_dtype)t;
    return most == QC_NONE ? NULL : qc_dtype_long_name(most);
}

/* Returns the name of the quantized network in texts: the type of weights in the options, without its sign: "int4",
   "fp8". If it is not known, the type of most weights, otherwise of most activations, otherwise "quantized". */
static const char *network_name(const struct qc_report *r, const struct qc_options *o)
{
    const char *type = r->size ? NULL : o->weight_types.items[0]; /* --size chooses the types itself */
    if (!type || strcmp(type, "none") == 0) type = most_common(r, true);
    if (!type) type = most_common(r, false);
    if (!type) return "quantized";
    if (strncmp(type, "float8", strlen("float8")) == 0) return "fp8";
    if (strncmp(type, "float4", strlen("float4")) == 0) return "fp4";
    return type + (*type == 'u');
}

static const char *const advice_states[] = {
    [QC_ADVICE_NOT_ASKED] = "off",     [QC_ADVICE_NO_DATA] = "no data",           [QC_ADVICE_NOT_NEEDED] = "not needed",
    [QC_ADVICE_MET] = "demand met",    [QC_ADVICE_SIZED] = "size chosen",         [QC_ADVICE_SHARED] = "data shared",
    [QC_ADVICE_LARGE] = "large model", [QC_ADVICE_CONSTANT] = "outputs constant", [QC_ADVICE_TRIED] = "tried",
};

static void put_advice(struct qc_report *r, const struct qc_graph *g)
{
    struct qc_json *o = r->record, *list = qc_json_array();
    const double now = r->accuracy[1] ? r->accuracy[1]->value : (double)NAN;
    for (size_t i = 0; i < r->advice_count; i++) qc_json_add(list, advice_json(&r->advice[i], g, now));
    qc_json_set(o, "advice", list);
    qc_json_put(o, "advice_tried %zu advice_left %zu advice_state %s", r->advice_tried, qc_json_size(r->left_out),
                advice_states[r->advice_state]);
    qc_json_set(o, "cheaper", r->cheaper ? advice_json(r->cheaper, g, now) : qc_json_null());
}

bool qc_record_results(struct qc_report *r, const struct qc_network *net, struct qc_status *st)
{
    struct qc_json *o = r->record;
    qc_json_put(o, "network %s", network_name(r, net->setup->options));
    qc_json_set(o, "fallback", fallback(r->fallback));
    if (r->size) add_size(o, r->size);
    if (r->size) qc_json_put(r->timing, "size_seconds %g", r->size->seconds);
    if (r->latency) qc_json_set(r->timing, "benchmark", latency(r->latency));
    put_advice(r, net->folded);
    return qc_record_layers(r, net, st) && qc_record_groups(r, net, st) && qc_record_graph(r, net, st);
}

/* ---- The network ---- */

static struct qc_json *trials(const struct qc_auto_method *m)
{
    struct qc_json *all = qc_json_array();
    for (size_t i = 0; i < m->trial_count; i++) {
        const struct qc_report_trial *t = &m->trials[i];
        qc_json_add(all, QC_JSON("method %s sqnr_db %g gain_db %g error_db %g worth_db %g samples %zu chosen %hhd",
                                 t->method, t->sqnr_db, t->gain_db, t->error_db, t->worth_db, t->samples, t->chosen));
    }
    return all;
}

/* Puts in recurrent operators with weights in float. */
static void put_recurrent(struct qc_json *o, const struct qc_network *net)
{
    const struct qc_graph *g = net->produced;
    size_t count = 0, elements = 0, all = 0;
    const char *op = NULL;
    for (qc_id v = 1; v <= g->value_count; v++) all += qc_constant_of(g, v) ? qc_constant_of(g, v)->count : 0;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        size_t own = 0;
        for (unsigned i = 1; qc_is_recurrent(n->op) && i < 3 && i < n->input_count; i++) {
            const struct qc_tensor *w = qc_constant_of(g, n->inputs[i]);
            own += w && w->dtype == QC_F32 ? w->count : 0;
        }
        if (!own) continue;
        op = qc_op_info(n->op)->name;
        elements += own;
        count++;
    }
    if (count)
        qc_json_set(o, "recurrent_in_float",
                    QC_JSON("operators %zu op %s weight_share %g", count, op, (double)elements / (double)all));
}

/* Puts in what the model had quantized already. */
static void put_given(struct qc_json *o, const struct qc_network *net)
{
    const struct qc_setup *s = net->setup;
    const struct qc_kept kept = qc_kept_of(net->simulated);
    size_t unrounded = 0;
    for (size_t i = 0; i < s->given.count; i++) unrounded += !s->given.of[i].weight;
    if (qc_is_quantized(s->model.graph))
        qc_json_put(o, "reference %s unrounded %zu linear_left %zu", "quantized in part", unrounded, s->given.literal);
    if (kept.given) qc_json_set(o, "given", QC_JSON("kept %zu quantizers %zu", kept.given, kept.quantizers));
}

/* Puts in the results of searches that are parts of the network. */
static void put_decisions(struct qc_json *o, const struct qc_network *net)
{
    const struct qc_partition *p = net->partition;
    const size_t edges = qc_types_count_edges(p);
    if (p->cache_count)
        qc_json_set(o, "caches",
                    QC_JSON("count %zu type %s", p->cache_count,
                            qc_options_text(net->setup->options, QC_OPTION_KV_TYPE)));
    if (edges) qc_json_put(o, "edge_layers %zu", edges);
    if (net->setup->options->bias == QC_BIAS_NARROWED) qc_json_put(o, "bias_narrowed %hhd", (bool)true);
    if (net->auto_method && net->auto_method->trial_count) qc_json_set(o, "trials", trials(net->auto_method));
    if (net->crossed.tried)
        qc_json_set(o, "rounded_on_what_is_read",
                    QC_JSON("gain_db %g kept %hhd", net->crossed.gain_db, net->crossed.kept));
    if (net->output_bias.outputs)
        qc_json_set(o, "biases_of_outputs",
                    QC_JSON("outputs %zu expected_gain_db %g runs %zu", net->output_bias.outputs,
                            net->output_bias.gain_db, net->output_bias.units));
}

void qc_record_network(struct qc_report *r, const struct qc_network *net, const struct qc_graph *sized,
                       const struct qc_measurement *m)
{
    struct qc_json *o = r->record;
    const struct qc_collect_cost *cost = &net->evidence->cost;
    const double floats = qc_small_float_share(sized), blocks = qc_block_share(sized);
    qc_json_put(o, "int8_share %g integer_share %g measured_samples %zu", qc_int8_share(sized), qc_integer_share(sized),
                m ? m->samples : (size_t)0);
    if (floats > 0) qc_json_put(o, "small_float_share %g", floats);
    if (blocks > 0) qc_json_put(o, "block_share %g", blocks);
    put_recurrent(o, net);
    put_given(o, net);
    put_decisions(o, net);
    qc_json_set(o, "memory",
                QC_JSON("constants_bytes %zu per_worker_bytes %zu statistics_per_worker_bytes %zu",
                        cost->constant_bytes, cost->runner_bytes, cost->statistics_bytes));
    const struct qc_auto_method *a = net->auto_method;
    const double rounding = net->weight_rounding ? net->weight_rounding->seconds : 0;
    qc_json_put(r->timing,
                "import_seconds %g collect_seconds %g solve_seconds %g rounding_seconds %g measure_seconds %g "
                "export_seconds %g workers %u", /* here, because no other key depends on it */
                net->setup->seconds, net->evidence->seconds, net->calibration->solve_seconds + (a ? a->seconds : 0),
                rounding + (a ? a->rounding_seconds : 0), m ? m->seconds : 0, net->export_seconds, cost->workers);
    qc_record_outputs(r, net, m);
}
