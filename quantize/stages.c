// SPDX-License-Identifier: Apache-2.0
#include "quantize/stages.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "calib/statistics/stream.h"
#include "graph/core/qlinear.h"
#include "quantize/auto_method.h"
#include "quantize/collecting.h"
#include "quantize/cross_rounding.h"
#include "quantize/input_range.h"
#include "quantize/propagate_check.h"
#include "quantize/round_options.h"
#include "quantize/runtime_limits.h"
#include "quantize/stage_bodies.h"
#include "quantize/stage_calibrate.h"
#include "quantize/stage_simulate.h"
#include "quantize/used_bias.h"
#include "rewrite/passes/dynamic.h"
#include "rewrite/passes/float_types.h"

/* What cannot be done with samples of different sizes is said before anything runs. */
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
        !qc_model_warn_carried(&p->from->model, p->warnings, st) ||
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
        return qc_where(st, "%s", in->statistics.file); /* its bytes, and what they say */
    if (qc_has_statistics(in) && !qc_collecting_load(&p->seen, p->from->data, in, st)) return false;
    p->from->import_seconds = qc_seconds() - t0;
    return true;
}

/* Values that a rule has made get names, by which statistics of this graph are found again in a graph that is made from
   it. */
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

/* Biases become ops of their own, batch norms convolutions: only when all rules that join them are through. */
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

/* Where all that is quantized is of one type, what is added is of that type too. */
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

/* The model without the quantization that it has; not where that is in operators of integers. */
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
                "%zu QuantizeLinear and DequantizeLinear operators of the model stay as they are: their scales are "
                "computed, of blocks or of channels of activations, or something else reads the integers",
                p->from->given.literal);
    take_types(p);
    return true;
}

bool qc_stage_normalise(struct qc_pipeline *p, struct qc_status *st)
{
    if (!set_given_apart(p, st)) return false;
    return qc_normalise(&p->from->normalised, p->from->plain ? p->from->plain : p->from->model.graph, p->from->rules,
                        qc_evaluate, st) &&
           (p->scheme.activation.dtype == QC_NONE || set_apart(p, "as_convs.rules", st)) &&
           (!qc_narrows_bias(p->options) || set_apart(p, "bias_apart.rules", st)) &&
           name_values(p->from->normalised, st);
}

static bool stage_equalize(struct qc_pipeline *p, struct qc_status *st)
{
    const char *when = p->options->equalize;
    const bool on =
        strcmp(when, "on") == 0 || (strcmp(when, "auto") == 0 && p->options->per_tensor && !qc_has_statistics(p->in));
    if (!on && qc_has_statistics(p->in) && p->options->per_tensor && strcmp(when, "auto") == 0)
        qc_warn(p->warnings, "channels are not evened out, as --per-tensor does with --data: statistics are of the "
                             "model as it is; take --data, or --per-channel");
    if (on && p->from->given.count && strcmp(when, "on") == 0)
        return qc_fail(st, QC_USAGE, "--equalize on changes weights, but those of %s are quantized in part already",
                       p->from->model.path);
    if (on && qc_has_statistics(p->in))
        return qc_fail(st, QC_USAGE, "--equalize on needs --data alone: what --stats has was seen before equalization");
    p->real = p->from->normalised;
    if (!on || p->from->given.count) return true;
    if (!qc_equalize(&p->equalized, &p->equalization, p->from->normalised, st)) return false;
    p->real = p->equalized;
    return true;
}

/* Blocks and weights left alone are said once, not layer by layer; the report has each. */
static void warn_of_blocks(struct qc_pipeline *p)
{
    size_t count = 0;
    const char *first = NULL;
    for (size_t i = 0; i < p->weight_rounding->count; i++) {
        if (p->weight_rounding->layers[i].blocks < 2) continue;
        first = first ? first : p->weight_rounding->layers[i].name;
        count++;
    }
    if (first)
        qc_warn(p->warnings,
                "second moments of %zu layer%s ('%s' first) were taken in blocks of columns: they are too wide, or "
                "--memory-limit too low; errors are "
                "not made good from block to block",
                count, count == 1 ? "" : "s", first);
}

static void warn_of_bounds(struct qc_pipeline *p)
{
    size_t outputs = 0, bounded = 0;
    for (size_t i = 0; i < p->weight_rounding->count; i++) {
        outputs += p->weight_rounding->layers[i].outputs;
        bounded += p->weight_rounding->layers[i].bounded;
    }
    if (bounded)
        qc_warn(p->warnings,
                "%zu of %zu output channels of weights are rounded to nearest, or their biases corrected in part: more "
                "could overflow accumulators of %u bits",
                bounded, outputs, p->how.accumulator.bits);
}

/* Second moments are the largest thing there is. Only where a demand can be missed may these stages come again, and for
   advice, where they are small or it is asked for. */
static void drop_moments(struct qc_pipeline *p)
{
    static const size_t small = (size_t)128 << 20;
    const char *advice = p->options->advice;
    if (qc_options_repeats(p->options) || qc_has_statistics(p->in) || p->in->team || qc_collection_is_shared(p->seen))
        return;
    if (strcmp(advice, "on") == 0 ||
        (strcmp(advice, "auto") == 0 && !p->options->memory_limit && qc_second_moments_bytes(p->seen->gram) <= small))
        return;
    qc_second_moments_free(p->seen->gram);
    p->seen->gram = NULL;
    p->calibration_options.gram = NULL;
    p->moments_dropped = true;
}

static bool stage_round(struct qc_pipeline *p, struct qc_status *st)
{
    if (!qc_round_weightss(p->options)) return !p->unpropagated || qc_plain_or_propagated(p, st);
    if (!p->seen->gram) {
        if (!qc_has_statistics(p->in)) return true; /* without samples: the summary and the report say so */
        qc_warn(p->warnings,
                "weights are rounded to nearest and biases left alone: %s holds no second moments (--second-moments "
                "off); collect again",
                qc_statistics_name(p->in));
        return true;
    }
    const struct qc_round_weights_options r = qc_round_weights_options_of(p);
    bool taken = false;
    if (!p->weight_rounder && r.accumulator_bits % 32 == 0 && !qc_auto_method_take_rounded(&taken, p, st)) return false;
    if (!taken && p->shared && !p->is_branch) qc_folded_constants_trim(p->shared, 0); /* other weights come */
    qc_progress_phase(p->progress, "rounding weights");
    bool ok = taken ? true
              : p->weight_rounder
                  ? qc_weight_rounder_finish(&p->weight_rounding, &p->rounded, p->weight_rounder, st)
                  : qc_round_weights(&p->weight_rounding, &p->rounded, p->simulated, qc_moments_of(p), &r, st);
    qc_progress_end(p->progress);
    ok = ok && (p->unpropagated ? qc_plain_or_propagated(p, st) : p->options->propagate || qc_round_crossed(p, st)) &&
         qc_correct_used_biases(p, st) && qc_correct_output_biases(p, st);
    if (!ok) return false;
    warn_of_blocks(p);
    warn_of_bounds(p);
    drop_moments(p);
    return true;
}

static const struct qc_graph *graph_round(const struct qc_pipeline *p)
{
    return p->rounded ? p->rounded : p->simulated;
}

static bool stage_dynamic(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_make_dynamic(&p->dynamic, qc_graph_with_bodies(p), p->partition, st);
}

static bool stage_expand(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_graph *g = p->dynamic ? p->dynamic : qc_graph_with_bodies(p);
    return qc_propagate_qdq(&p->expanded, g, p->from->rules, p->scheme.one_scale_joins, st);
}

static bool stage_fold(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_fold(&p->folded, p->expanded, p->from->fold_rules, st);
}

static bool stage_realise(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_to_integer_shared(&p->produced, p->shared, p->folded, qc_evaluate, st);
}

const struct qc_graph *qc_graph_written(const struct qc_pipeline *p)
{
    return p->narrowed ? p->narrowed : p->produced;
}

static bool stage_export(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_lower_options o = {.accuracy_level = p->options->accuracy_level[0] - '0'};
    double t0 = qc_seconds();
    if (strcmp(p->options->target, "fused") != 0 && !qc_check_runtime_limits(p->produced, st)) return false;
    if (p->from->model.widened && !qc_narrow_floats(&p->narrowed, p->produced, p->from->model.imported, st))
        return false;
    for (size_t i = 0; i < p->from->lowered_count; i++)
        if (p->from->exporters[i]->lower && !p->from->exporters[i]->lower(&p->lowered[i], qc_graph_written(p), &o, st))
            return qc_where(st, "format %s", p->from->exporters[i]->name);
    for (size_t i = 0; i < p->from->lowered_count; i++)
        if (p->lowered[i] && !qc_lower_bodies(&p->lowered[i], p->from->exporters[i], &o, st))
            return qc_where(st, "format %s", p->from->exporters[i]->name);
    p->export_seconds += qc_seconds() - t0;
    return true;
}

static const struct qc_graph *graph_import(const struct qc_pipeline *p)
{
    return p->from->model.graph;
}
static const struct qc_graph *graph_normalise(const struct qc_pipeline *p)
{
    return p->from->normalised;
}
static const struct qc_graph *graph_equalize(const struct qc_pipeline *p)
{
    return p->real;
}
static const struct qc_graph *graph_functions(const struct qc_pipeline *p)
{
    return p->joined;
}
static const struct qc_graph *graph_simulate(const struct qc_pipeline *p)
{
    return p->simulated;
}
static const struct qc_graph *graph_dynamic(const struct qc_pipeline *p)
{
    return p->dynamic ? p->dynamic : qc_graph_with_bodies(p);
}
static const struct qc_graph *graph_expand(const struct qc_pipeline *p)
{
    return p->expanded;
}
static const struct qc_graph *graph_fold(const struct qc_pipeline *p)
{
    return p->folded;
}
static const struct qc_graph *graph_realise(const struct qc_pipeline *p)
{
    return p->produced;
}
static const struct qc_graph *graph_export(const struct qc_pipeline *p)
{
    return p->lowered[0] ? p->lowered[0] : p->produced;
}

static const struct qc_stage stages[] = {
    {.name = "import", .summary = "the model in canonical form", .run = qc_stage_import, .graph = graph_import},
    {.name = "normalise",
     .summary = "constants and batch norm folded: normalise.rules",
     .run = qc_stage_normalise,
     .graph = graph_normalise},
    {.name = "equalize",
     .summary = "channels evened out across layers (--equalize)",
     .run = stage_equalize,
     .graph = graph_equalize},
    {.name = "functions",
     .summary = "chains of unary functions joined into tables: allow.rules",
     .run = qc_stage_functions,
     .graph = graph_functions,
     .repeated = true},
    {.name = "partition",
     .summary = "what is quantized, and why the rest is not: patterns.rules",
     .run = qc_stage_partition,
     .repeated = true},
    {.name = "simulate",
     .summary = "simulated quantize and dequantize with unbound parameters",
     .run = qc_stage_simulate,
     .graph = graph_simulate,
     .repeated = true,
     .reuse = qc_reuse_statistics},
    {.name = "calibrate",
     .summary = "the same with parameters chosen from the data",
     .run = qc_stage_calibrate,
     .graph = graph_simulate,
     .repeated = true},
    {.name = "round",
     .summary = "weights rounded and biases corrected by the moments of their inputs",
     .run = stage_round,
     .graph = graph_round,
     .repeated = true},
    {.name = "bodies",
     .summary = "bodies of If, Loop and Scan, each as a model of its own",
     .run = qc_stage_bodies,
     .graph = qc_graph_with_bodies,
     .repeated = true},
    {.name = "dynamic",
     .summary = "products of inputs that are quantized as they come (--activation-type dynamic)",
     .run = stage_dynamic,
     .graph = graph_dynamic,
     .repeated = true},
    {.name = "expand",
     .summary = "quantize pushed up, dequantize pushed down: allow.rules",
     .run = stage_expand,
     .graph = graph_expand,
     .repeated = true},
    {.name = "fold",
     .summary = "dequantize and quantize folded into requantize: requantize.rules",
     .run = stage_fold,
     .graph = graph_fold,
     .repeated = true},
    {.name = "realise",
     .summary = "the same graph in integers",
     .run = stage_realise,
     .graph = graph_realise,
     .repeated = true},
    {.name = "export",
     .summary = "operators of the file format",
     .run = stage_export,
     .graph = graph_export,
     .repeated = true},
};

size_t qc_stage_count(void)
{
    return sizeof stages / sizeof *stages;
}

const struct qc_stage *qc_stage_at(size_t i)
{
    return &stages[i];
}

const struct qc_stage *qc_stage_find(const char *name)
{
    size_t i = 0;
    while (strcmp(stages[i].name, name) != 0) i++;
    return &stages[i];
}
