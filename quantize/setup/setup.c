// SPDX-License-Identifier: Apache-2.0
#include "quantize/setup/setup.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/scope.h"
#include "calib/statistics/stream.h"
#include "graph/core/qlinear.h"
#include "graph/core/verify.h"
#include "quantize/options/changes.h"
#include "quantize/options/partition_options.h"
#include "quantize/setup/model.h"
#include "rewrite/canonical/canonical.h"
#include "rewrite/passes/constant_products.h"

/* Budget of the memos of a job: samples, outputs, and the rounded layers of a network of a billion weights. */
enum { MEMO_BYTES = 1 << 30 };

static bool begin(struct qc_setup *s, struct qc_status *st)
{
    const struct qc_options *o = s->options;
    if (o->command == QC_COMMAND_collect && !qc_has_data(&s->in->data))
        return qc_fail(st, QC_USAGE,
                       "collect needs --data FILE with samples of what the model is used on: HDF5, .npz, .npy, or a "
                       "folder of images");
    if (o->command == QC_COMMAND_quantize && !qc_options_agree(o, s->in, st)) return false;
    if (!(s->arena = qc_arena_new())) return qc_fail_memory(st, 1);
    if (!(s->budget = QC_NEW(s->arena, struct qc_memo_budget, st))) return false;
    s->budget->left = MEMO_BYTES;
    static const char *const files[] = {"normalise.rules", "patterns.rules", "islands.rules", "costs.rules",
                                        "allow.rules"};
    if (!(s->rules = qc_rules_new(st)) || !(s->fold_rules = qc_rules_new(st))) return false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (!qc_rules_add_builtin(s->rules, files[i], st)) return false;
    if (!qc_rules_add_builtin(s->fold_rules, "requantize.rules", st) ||
        !qc_rules_add_builtin(s->fold_rules, "requantize_once.rules", st) ||
        (o->graph.bias == QC_BIAS_NARROWED && !qc_rules_add_builtin(s->rules, "bias_narrowed.rules", st)) ||
        !qc_rules_take_target(s->rules, o->graph.runs_on, st))
        return false;
    for (size_t i = 0; i < o->graph.rules.count; i++)
        if (!qc_rules_add_file(s->rules, o->graph.rules.items[i], st)) return false;
    if (!qc_plugins_new(&s->plugins, st)) return false;
    for (size_t i = 0; i < o->method.plugins.count; i++)
        if (!qc_plugins_load(s->plugins, o->method.plugins.items[i], st)) return qc_where(st, "--plugin");
    const struct qc_text_list *formats = &s->options->graph.formats;
    if (!(s->exporters = QC_NEW_ARRAY(s->arena, const struct qc_exporter *, formats->count, st))) return false;
    for (size_t i = 0; i < formats->count; i++)
        if (!(s->exporters[i] = qc_exporter_find(formats->items[i])))
            return qc_fail(st, QC_USAGE, "--format %s: there is no such format; see 'qcalib list formats'",
                           formats->items[i]);
    s->format_count = formats->count;
    return true;
}

bool qc_setup_begin(struct qc_setup **out, const struct qc_options *o, const struct qc_job_inputs *in,
                    struct qc_progress *progress, bool of_body, struct qc_status *st)
{
    struct qc_setup *s = calloc(1, sizeof *s);
    if (!s) return qc_fail_memory(st, sizeof *s);
    *s = (struct qc_setup){.options = o, .in = in, .progress = progress, .of_body = of_body};
    const bool ok = begin(s, st);
    return QC_HAND_OVER(ok, out, s, qc_setup_free);
}

void qc_setup_free(struct qc_setup *s)
{
    if (!s) return;
    qc_graph_free(s->normalised);
    qc_graph_free(s->plain);
    qc_dataset_free(s->eval);
    qc_dataset_free(s->data);
    qc_model_close(&s->model);
    qc_rules_free(s->rules);
    qc_rules_free(s->fold_rules);
    qc_plugins_free(s->plugins);
    qc_arena_free(s->arena);
    free(s);
}

/* Fails before anything runs if an option does not support samples of different sizes. */
static bool check_sizes(const struct qc_dataset *data, const struct qc_options *o, struct qc_status *st)
{
    return !data || ((!o->method.propagate || qc_stream_one_size(data, "--propagate", st)) &&
                     (!o->types.accumulator || qc_stream_one_size(data, "--accumulator", st)));
}

/* Names the values that rules have made: statistics are found by name in the graphs made from this one. */
static bool name_values(struct qc_graph *g, struct qc_status *st)
{
    char name[QC_LABEL];
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_node *n = qc_node_of(g, v);
        if (!n || g->values[v].name || g->values[v].type.dtype != QC_F32) continue;
        if (n->name && *n->name)
            qc_text(name, sizeof name, "%.200s_output", n->name);
        else
            qc_text(name, sizeof name, "%s_%u_output", qc_op_info(n->op)->name, g->values[v].node);
        if (!qc_graph_name_value(g, v, name, st)) return false;
    }
    return true;
}

/* Applies rules of some jobs alone, after all other rules: they split what these join (biases become operators, batch
   norms convolutions). */
static bool set_apart(struct qc_setup *s, const char *file, struct qc_status *st)
{
    struct qc_rules *rules = qc_rules_new(st);
    struct qc_graph *apart = NULL;
    bool ok =
        rules && qc_rules_add_builtin(rules, file, st) && qc_normalise(&apart, s->normalised, rules, qc_evaluate, st);
    qc_rules_free(rules);
    if (ok) qc_graph_free(s->normalised);
    if (ok) s->normalised = apart;
    return ok;
}

static bool normalise(struct qc_setup *s, struct qc_warnings *w, struct qc_status *st)
{
    struct qc_partition_options scheme;
    struct qc_graph *judged = NULL;
    const struct qc_options *o = s->options;
    /* Separate the QDQ quantization of a model from its float graph. Leave models with integer operators alone. */
    const struct qc_graph *given = s->model.graph;
    struct qc_qlinear q;
    bool linear = false, integers = false;
    for (qc_id id = 1; !integers && id <= given->node_count; id++) {
        integers = qc_qlinear_of(&q, &given->nodes[id]);
        linear |= given->nodes[id].op == QC_OP_DequantizeLinear || given->nodes[id].op == QC_OP_QuantizeLinear;
    }
    if (linear && !integers && !qc_take_given(&s->plain, &s->given, given, st)) return false;
    if (linear && !integers && s->given.literal)
        qc_warn(w,
                "%zu QuantizeLinear and DequantizeLinear operators of the model stay unchanged: their scales are "
                "computed, are those of blocks or of channels of activations, or other operators read the integers",
                s->given.literal);
    if ((o->method.encodings && !s->of_body &&
         !qc_add_encodings(&s->given, o->method.encodings, s->plain ? s->plain : s->model.graph, s->arena, w, st)) ||
        !qc_partition_options_of(&scheme, s->options, qc_setup_given(s), s->arena, st))
        return false;
    /* `collect` has no scheme: its file serves all of them */
    bool as_convs = s->options->command == QC_COMMAND_collect || scheme.activation.dtype != QC_NONE;
    /* Of inputs without elements, free dimensions may be 0, and a convolution would be refused. */
    for (size_t i = 0; s->data && i < s->model.graph->input_count; i++)
        as_convs = as_convs && qc_dataset_elements(s->data, i) > 0;
    const bool ok = qc_normalise(&s->normalised, s->plain ? s->plain : s->model.graph, s->rules, qc_evaluate, st) &&
                    (!as_convs || set_apart(s, "as_convs.rules", st)) &&
                    (scheme.cache == QC_NONE || set_apart(s, "full_caches.rules", st)) &&
                    (s->options->graph.bias != QC_BIAS_NARROWED || set_apart(s, "bias_apart.rules", st)) &&
                    name_values(s->normalised, st) &&
                    (s->of_body || qc_judge_before_ordering(&judged, s->normalised, st));
    if (judged) {
        qc_graph_free(s->normalised);
        s->normalised = judged;
    }
    return ok;
}

bool qc_setup_open(struct qc_setup *s, const struct qc_listener *l, struct qc_status *st)
{
    const double t0 = qc_seconds();
    const struct qc_options *o = s->options;
    const struct qc_job_inputs *in = s->in;
    const struct qc_data_request samples = {.use = QC_USE_CLASSES,
                                            .choose = QC_CHOOSE_SAMPLES,
                                            .states = QC_STATES_RECORDED,
                                            .team = in->team,
                                            .progress = s->progress},
                                 truth = {.use = QC_USE_TRUTH,
                                          .choose = QC_CHOOSE_ALL,
                                          .states = QC_STATES_RECORDED,
                                          .progress = s->progress};
    if (!qc_model_open(&s->model, &in->model, o, l->warnings, st) || !qc_model_warn_carried(&s->model, l->warnings, st))
        return false;
    struct qc_graph *parts;
    if (!qc_replace_products(&parts, s->model.graph, st)) return qc_where(st, "%s", s->model.path);
    if (parts) {
        s->model.whole = s->model.graph; /* holds the texts of info */
        s->model.graph = parts;
    }
    if (!qc_model_widen(&s->model, QC_WIDEN_LAYERS, st)) return false;
    if (qc_has_data(&in->data) && !qc_model_data(&s->data, s->model.graph, &in->data, &samples, o, l->warnings, st))
        return false;
    if (s->data && !s->of_body) {
        qc_warn_input_range(l->warnings, s->model.graph, s->data, o);
        qc_warn_states(l->warnings, s->model.graph, s->data);
    }
    if (qc_has_data(&in->eval) && !qc_model_data(&s->eval, s->model.graph, &in->eval, &truth, o, l->warnings, st))
        return false;
    if (s->data && s->eval) qc_warn_prepared_otherwise(l->warnings, s->model.graph, s->data, s->eval);
    if (!check_sizes(s->data, o, st) || !check_sizes(s->eval, o, st)) return false;
    s->seconds = qc_seconds() - t0;
    if (!qc_graph_verify(s->model.graph, st)) return qc_where(st, "after pass 'import'");
    return qc_pass_done(l, QC_PASS_import, s->model.graph, NULL, st) && normalise(s, l->warnings, st) &&
           (qc_graph_verify(s->normalised, st) || qc_where(st, "after pass 'normalise'")) &&
           qc_model_ops_of(&s->model_ops, s->plain ? s->plain : s->model.graph, s->normalised, s->arena, st) &&
           qc_pass_done(l, QC_PASS_normalise, s->normalised, NULL, st);
}
