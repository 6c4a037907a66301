// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/clock.h"
#include "calib/ranges/quantizer_channels.h"
#include "calib/statistics/stream.h"
#include "calib/weights/channel_imbalance.h"
#include "graph/core/qlinear.h"
#include "quantize/collect/collecting.h"
#include "quantize/opening/sample_warnings.h"
#include "quantize/stages/stage_list.h"
#include "quantize/trials/trial_graph.h"
#include "rewrite/canonical/canonical.h"
#include "rewrite/passes/functions.h"

/* Fails before anything runs if an option does not support samples of different sizes. */
static bool check_sizes(const struct qc_dataset *data, const struct qc_options *o, struct qc_status *st)
{
    return !data || ((!o->propagate || qc_stream_one_size(data, "--propagate", st)) &&
                     (!o->accumulator || qc_stream_one_size(data, "--accumulator", st)));
}

bool qc_stage_import(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_options *o = p->options;
    const struct qc_job_inputs *in = p->in;
    const struct qc_data_request samples = {.use = QC_USE_INPUTS,
                                            .choose = QC_CHOOSE_SAMPLES,
                                            .team = in->team,
                                            .progress = p->progress},
                                 truth = {.use = QC_USE_TRUTH, .choose = QC_CHOOSE_ALL, .progress = p->progress};
    double t0 = qc_seconds();
    if (!qc_model_open(&p->from->model, &in->model, p->options, p->warnings, st) ||
        !qc_model_warn_carried(&p->from->model, p->warnings, st) || !qc_model_split(&p->from->model, st) ||
        !qc_model_widen(&p->from->model, QC_WIDEN_LAYERS, st))
        return false;
    if (qc_has_data(&in->data) &&
        !qc_model_data(&p->from->data, p->from->model.graph, &in->data, &samples, o, p->warnings, st))
        return false;
    if (p->from->data) qc_warn_input_range(p->warnings, p->from->model.graph, p->from->data, o);
    if (qc_has_data(&in->eval) &&
        !qc_model_data(&p->from->eval, p->from->model.graph, &in->eval, &truth, o, p->warnings, st))
        return false;
    if (!check_sizes(p->from->data, o, st) || !check_sizes(p->from->eval, o, st)) return false;
    if (in->statistics.file && !qc_budget_file(&p->from->model.graph->budget, in->statistics.file, 2, st))
        return qc_where(st, "%s", in->statistics.file); /* factor 2: the file, and the parsed statistics */
    if (qc_has_statistics(in) && !qc_collecting_load(&p->seen, p->from->data, in, st)) return false;
    p->from->import_seconds = qc_seconds() - t0;
    return true;
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

/* Applies rules that split what other rules join (biases become operators, batch norms convolutions); so it comes after
   all other rules. */
static bool set_apart(struct qc_pipeline *p, const char *file, struct qc_status *st)
{
    struct qc_rules *rules = qc_rules_new(st);
    struct qc_graph *apart = NULL;
    bool ok = rules && qc_rules_add_builtin(rules, file, st) &&
              qc_normalise(&apart, p->from->normalised, rules, qc_evaluate, st);
    qc_rules_free(rules);
    if (ok) qc_graph_free(p->from->normalised);
    if (ok) p->from->normalised = apart;
    return ok;
}

/* If all given quantizers have one type, new quantizers get this type too, unless an option says otherwise. */
static void take_types(struct qc_pipeline *p)
{
    enum qc_dtype activation = QC_NONE, weight = QC_NONE;
    bool one[2] = {true, true};
    for (size_t i = 0; i < p->from->given.count; i++) {
        const bool is_weight = p->from->given.of[i].weight != NULL;
        enum qc_dtype *t = is_weight ? &weight : &activation, is = p->from->given.of[i].parameters.dtype;
        one[is_weight] = one[is_weight] && (*t == QC_NONE || *t == is);
        *t = is;
    }
    const struct qc_options *o = p->options;
    if (activation != QC_NONE && one[0] && !o->given[QC_OPTION_ACTIVATION_TYPE])
        p->scheme.activation.dtype = activation;
    if (weight != QC_NONE && one[1] && !o->given[QC_OPTION_WEIGHT_TYPE]) p->scheme.weight.dtype = weight;
    p->scheme.given = &p->from->given;
}

/* Separates the QDQ quantization of a model from its float graph. Leaves models with integer operators alone. */
static bool set_given_apart(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_graph *g = p->from->model.graph;
    struct qc_qlinear q;
    bool linear = false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        if (qc_qlinear_of(&q, &g->nodes[id])) return true;
        linear |= g->nodes[id].op == QC_OP_DequantizeLinear;
    }
    if (!linear) return true;
    if (!qc_take_given(&p->from->plain, &p->from->given, g, st)) return false;
    if (p->from->given.literal)
        qc_warn(p->warnings,
                "%zu QuantizeLinear and DequantizeLinear operators of the model stay unchanged: their scales are "
                "computed, are those of blocks or of channels of activations, or other operators read the integers",
                p->from->given.literal);
    take_types(p);
    return true;
}

/* Whether the samples of an input have no elements. Free dimensions may then be 0, and a convolution would be refused.
 */
static bool has_empty_input(const struct qc_pipeline *p)
{
    for (size_t i = 0; p->from->data && i < p->from->model.graph->input_count; i++)
        if (qc_dataset_elements(p->from->data, i) == 0) return true;
    return false;
}

bool qc_stage_normalise(struct qc_pipeline *p, struct qc_status *st)
{
    if (!set_given_apart(p, st)) return false;
    /* `collect` has no scheme: its file serves all of them */
    const bool as_convs =
        (p->options->command == QC_COMMAND_collect || p->scheme.activation.dtype != QC_NONE) && !has_empty_input(p);
    return qc_normalise(&p->from->normalised, p->from->plain ? p->from->plain : p->from->model.graph, p->from->rules,
                        qc_evaluate, st) &&
           (!as_convs || set_apart(p, "as_convs.rules", st)) &&
           (!qc_narrows_bias(p->options) || set_apart(p, "bias_apart.rules", st)) &&
           name_values(p->from->normalised, st);
}

bool qc_stage_equalize(struct qc_pipeline *p, struct qc_status *st)
{
    const char *when = p->options->equalize;
    const bool on =
        strcmp(when, "on") == 0 || (strcmp(when, "auto") == 0 && p->options->per_tensor && !qc_has_statistics(p->in));
    if (!on && qc_has_statistics(p->in) && p->options->per_tensor && strcmp(when, "auto") == 0)
        qc_warn(p->warnings, "channels are not equalized, as --per-tensor does with --data: --stats holds statistics "
                             "from before equalization; use --data, or --per-channel");
    if (on && p->from->given.count && strcmp(when, "on") == 0)
        return qc_fail(st, QC_USAGE, "--equalize on changes weights, but those of %s are quantized in part already",
                       p->from->model.path);
    if (on && qc_has_statistics(p->in))
        return qc_fail(st, QC_USAGE,
                       "--equalize on needs --data without --stats: --stats holds statistics from before equalization");
    p->real = p->from->normalised;
    if (!on || p->from->given.count) return true;
    if (!qc_equalize(&p->equalized, &p->equalization, p->from->normalised, st)) return false;
    p->real = p->equalized;
    return true;
}

bool qc_stage_functions(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_join_functions(&p->joined, p->real, p->from->rules, &p->scheme, st);
}

/* True if everything that could be quantized stays in float for speed. */
static bool is_all_faster(const struct qc_partition *p)
{
    return p->cost_count && p->options.prefer == QC_PREFER_SPEED && !p->matches.count && !p->weight_only_count;
}

bool qc_stage_partition(struct qc_pipeline *p, struct qc_status *st)
{
    p->scheme.part = p->joined->depth || p->of_body;
    if (!qc_partition_new(&p->partition, p->joined, p->from->rules, &p->scheme, st)) return false;
    if (is_all_faster(p->partition) && !p->scheme.part) {
        qc_warn(p->warnings, "ONNX Runtime computes all of this model faster in float; weights are stored in 8 bits "
                             "only to save space (--prefer size)");
        qc_partition_free(p->partition);
        p->partition = NULL;
        p->scheme.prefer = QC_PREFER_SIZE;
        if (!qc_partition_new(&p->partition, p->joined, p->from->rules, &p->scheme, st)) return false;
    }
    for (size_t i = 0; i < p->partition->warnings.count; i++)
        qc_warn(p->warnings, "%s", p->partition->warnings.lines[i]);
    if (p->partition->matches.count || p->partition->weight_only_count || p->partition->cache_count) return true;
    if (p->joined->depth && p->quantize_body) return true; /* there are bodies */
    if (p->may_be_float) return true;
    if (qc_is_quantized(p->from->model.graph))
        return qc_fail(st, QC_UNSUPPORTED,
                       "%s is quantized already; give the float model it was made from ('qcalib convert' brings one "
                       "quantized form into another, 'qcalib run' and 'qcalib compare' take it as it is)",
                       p->from->model.path);
    if (p->scheme.weight.dtype == QC_NONE && !p->scheme.only_count && !p->scheme.skip_count)
        return qc_fail(
            st, QC_UNSUPPORTED,
            "nothing to quantize: --weight-type none leaves operators with weights in float, and activations "
            "are quantized only with such operators; give a --weight-type such as int8, or leave it out");
    const bool fewer = p->scheme.only_count || p->scheme.skip_count || p->scheme.weight.dtype == QC_NONE ||
                       p->scheme.activation.dtype == QC_NONE;
    return qc_fail(st, QC_UNSUPPORTED, "nothing to quantize: no pattern of 'qcalib list rules' matches%s%s",
                   fewer ? " what --only, --skip and types of none leave" : "",
                   p->from->model.graph->carried ? " before the operators that are not handled" : "");
}

/* Warns if one scale per weight is too coarse for channels of very different magnitudes. Not after equalization: there
   such channels are small in the layers that read them, too. */
static bool warn_spread(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_channel_imbalance s;
    char label[QC_LABEL];
    if (p->equalized) return true;
    if (!qc_weight_imbalance(&s, p->simulated, st) || !s.layers) return st->code == QC_OK;
    const struct qc_node *n = &p->simulated->nodes[s.worst];
    qc_warn(p->warnings,
            "one scale per weight is too coarse for %zu layer%s: in '%s' %zu of %zu output channels stay below 1/100 "
            "of the largest weight; use --equalize on, or --per-channel",
            s.layers, s.layers == 1 ? "" : "s", qc_node_label(label, p->simulated, n), s.small, s.channels);
    return true;
}

static bool is_kept(const struct qc_graph *g, const struct qc_given *given)
{
    for (qc_id id = 1; id <= g->qparams_count; id++)
        if (g->qparams_of[id].given && qc_given_same(g->qparams_of[id].given, given)) return true;
    return false;
}

/* For a partly quantized model: fails if nothing is left to quantize, warns if given parameters are lost. */
static bool check_given(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_graph *g = p->simulated;
    size_t lost = 0, first = 0;
    p->kept = p->quantizers = 0;
    for (qc_id id = 1; id <= g->qparams_count; id++) {
        p->quantizers += g->qparams_of[id].kind == QC_QPARAMS_QUANTIZER;
        p->kept += g->qparams_of[id].given != NULL;
    }
    if (!p->from->given.count) return true;
    if (p->kept == p->quantizers)
        return qc_fail(st, QC_UNSUPPORTED,
                       "%s is quantized already, all %zu quantizers of it; 'qcalib convert' brings it into another "
                       "quantized form, 'qcalib run' and 'qcalib compare' take it as it is",
                       p->from->model.path, p->kept);
    for (size_t i = 0; i < p->from->given.count; i++)
        if (!is_kept(g, &p->from->given.of[i].parameters) && !lost++) first = i;
    if (lost)
        qc_warn(p->warnings,
                "parameters of %zu of %zu quantized tensors of the model are not kept ('%s' first): these tensors are "
                "no longer stored in integers",
                lost, p->from->given.count, p->from->given.of[first].name);
    return true;
}

bool qc_stage_simulate(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_calibration_options *c = &p->calibration_options;
    if (!qc_simulate(&p->simulated, p->partition, st) || !check_given(p, st)) return false;
    const bool channels = qc_quantizers_have_channels(p->simulated);
    c->channels = channels || c->activation->of_output;
    if (channels && (c->activation->need == QC_NEED_SERIES || c->activation->need == QC_NEED_VALUES))
        return qc_fail(st, QC_USAGE,
                       "--method %s needs whole tensors, not channels; give another method, or leave out "
                       "--per-channel=activations",
                       c->activation->name);
    return warn_spread(p, st);
}
