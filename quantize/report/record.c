// SPDX-License-Identifier: Apache-2.0
#include "quantize/report/record.h"

#include <math.h>
#include <string.h>

#include "graph/core/multiply_adds.h"
#include "graph/core/recurrent.h"
#include "quantize/make/evidence.h"
#include "quantize/make/make.h"
#include "quantize/options/option_value.h"
#include "rewrite/canonical/canonical.h"

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
    qc_json_set(r->record, "advice", qc_json_array());
    qc_json_set(r->record, "advice_left_out", qc_json_array());
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

void qc_record_accuracy(struct qc_json *record, const struct qc_metric *real, const struct qc_metric *now,
                        const char *file)
{
    struct qc_json *o = qc_json_object();
    if (real->lower_is_better) qc_json_put(o, "lower_is_better %hhd", real->lower_is_better);
    qc_json_put(o, "file %s metric %s samples %zu fp32 %g int8 %g", file, real->name, real->samples, real->value,
                now->value);
    qc_json_set(o, "fp32_interval", interval(real->low, real->high));
    qc_json_set(o, "int8_interval", interval(now->low, now->high));
    qc_json_put(o, "fp32_top5 %g int8_top5 %g", real->top5, now->top5);
    if (real->positions) qc_json_put(o, "positions %zu fp32_nll %g int8_nll %g", real->positions, real->nll, now->nll);
    qc_json_set(record, "accuracy", o);
}

void qc_record_sensitivity(struct qc_report *r, const struct qc_sensitivity *s)
{
    struct qc_json *list = qc_json_array();
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

void qc_record_accumulator(struct qc_report *r, const struct qc_network *net, const struct qc_overflows *overflows,
                           const char *file, size_t samples)
{
    const struct qc_accumulator *a = &net->scheme.settings->plan.accumulator;
    size_t raised = 0, bounded = 0;
    if (!a->bits || a->bits == 32) return;
    for (size_t i = 0; i < r->layer_count; i++) raised += r->layers[i].is_weight ? r->layers[i].choice->raised : 0;
    for (size_t i = 0; net->weight_rounding && i < net->weight_rounding->count; i++)
        bounded += net->weight_rounding->layers[i].bounded;
    struct qc_json *o =
        QC_JSON("bits %u overflow %s bound %s file %s samples %zu scales_raised %zu channels_bounded %zu", a->bits,
                a->overflow == QC_OVERFLOW_SATURATE ? "saturate" : "wrap",
                qc_options_text(net->scheme.options, QC_OPTION_ACCUMULATOR_BOUND), file, samples, raised, bounded);
    qc_json_set(o, "layers", overflows ? qc_overflows_json(overflows) : qc_json_array());
    qc_json_set(r->record, "accumulator", o);
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

bool qc_record_results(struct qc_report *r, const struct qc_network *net, const struct qc_overflows *overflows,
                       struct qc_status *st)
{
    /* The name of the quantized network in texts: the type of weights in the options, without its sign: "int4", "fp8".
       If it is not known, the type of most weights, otherwise of most activations, otherwise "quantized". --size
       chooses the types itself. */
    const struct qc_options *o = net->setup->options;
    const char *type = o->demand.size ? NULL : o->types.weights.items[0];
    if (!type || strcmp(type, "none") == 0) type = most_common(r, true);
    if (!type) type = most_common(r, false);
    qc_json_put(r->record, "network %s",
                !type                                            ? "quantized"
                : strncmp(type, "float8", strlen("float8")) == 0 ? "fp8"
                : strncmp(type, "float4", strlen("float4")) == 0 ? "fp4"
                                                                 : type + (*type == 'u'));
    return qc_record_layers(r, net, overflows, st) && qc_record_groups(r, net, st) && qc_record_graph(r, net, st);
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

void qc_record_network(struct qc_report *r, const struct qc_network *net, const struct qc_graph *sized,
                       const struct qc_measurement *m)
{
    struct qc_json *o = r->record;
    const struct qc_collect_cost *cost = &net->evidence->cost;
    const double floats = qc_product_share(sized, QC_PRODUCT_SMALL_FLOATS),
                 blocks = qc_product_share(sized, QC_PRODUCT_BLOCKS);
    qc_json_put(o, "int8_share %g integer_share %g measured_samples %zu", qc_product_share(sized, QC_PRODUCT_INT8),
                qc_product_share(sized, QC_PRODUCT_INTEGERS), m ? m->samples : (size_t)0);
    if (floats > 0) qc_json_put(o, "small_float_share %g", floats);
    if (blocks > 0) qc_json_put(o, "block_share %g", blocks);
    put_recurrent(o, net);
    /* what the model had quantized already */
    const struct qc_setup *s = net->setup;
    const struct qc_kept kept = qc_kept_of(net->simulated);
    size_t unrounded = 0;
    for (size_t i = 0; i < s->given.count; i++) unrounded += !s->given.of[i].weight;
    if (qc_is_quantized(s->model.graph))
        qc_json_put(o, "reference %s unrounded %zu linear_left %zu", "quantized in part", unrounded, s->given.literal);
    if (kept.given) qc_json_set(o, "given", QC_JSON("kept %zu quantizers %zu", kept.given, kept.quantizers));
    /* Put in the results of searches that are parts of the network. */
    const struct qc_partition *p = net->partition;
    const size_t edges = qc_types_count_edges(p);
    if (p->cache_count)
        qc_json_set(o, "caches",
                    QC_JSON("count %zu type %s", p->cache_count,
                            qc_options_text(net->setup->options, QC_OPTION_KV_TYPE)));
    if (edges) qc_json_put(o, "edge_layers %zu", edges);
    if (net->setup->options->graph.bias == QC_BIAS_NARROWED) qc_json_put(o, "bias_narrowed %hhd", (bool)true);
    if (net->auto_method && net->auto_method->trial_count) qc_json_set(o, "trials", trials(net->auto_method));
    if (net->crossed.tried)
        qc_json_set(o, "rounded_on_what_is_read",
                    QC_JSON("gain_db %g kept %hhd", net->crossed.gain_db, net->crossed.kept));
    if (net->output_bias.outputs)
        qc_json_set(o, "biases_of_outputs",
                    QC_JSON("outputs %zu expected_gain_db %g runs %zu", net->output_bias.outputs,
                            net->output_bias.gain_db, net->output_bias.units));
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
