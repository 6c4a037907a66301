// SPDX-License-Identifier: Apache-2.0
/* Passes "equalize" to "collect". */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "calib/ablation.h"
#include "calib/ranges/calibrate.h"
#include "calib/ranges/quantizer_channels.h"
#include "calib/statistics/collection.h"
#include "calib/weights/round_weights.h"
#include "graph/core/qlinear.h"
#include "quantize/make/make.h"
#include "rewrite/canonical/canonical.h"
#include "rewrite/passes/channels.h"
#include "rewrite/passes/functions.h"

/* ---- The float network ---- */

static struct qc_float_form *form_new(const struct qc_setup *s, struct qc_status *st)
{
    struct qc_float_form *f = calloc(1, sizeof *f);
    if (!f || !(f->arena = qc_arena_new())) {
        free(f);
        qc_fail_memory(st, sizeof *f);
        return NULL;
    }
    f->holders = 1;
    f->graph = s->normalised;
    return f;
}

struct qc_float_form *qc_float_form_ref(struct qc_float_form *f)
{
    if (f) f->holders++;
    return f;
}

void qc_float_form_free(struct qc_float_form *f)
{
    if (!f || --f->holders) return;
    qc_graph_free(f->centred);
    qc_graph_free(f->scaled);
    qc_graph_free(f->equalized);
    qc_arena_free(f->arena);
    free(f);
}

bool qc_float_form_unscaled(struct qc_float_form **out, const struct qc_float_form *f, const struct qc_setup *s,
                            struct qc_status *st)
{
    if (!(*out = form_new(s, st))) return false;
    if (f->equalized) (*out)->graph = (*out)->equalized = qc_graph_ref(f->equalized);
    return true;
}

void qc_float_form_scale(struct qc_float_form *f, struct qc_channel_scaling *scaling, struct qc_graph *scaled)
{
    f->scaling = scaling;
    f->scaled = scaled;
    if (scaled) f->graph = scaled;
}

void qc_float_form_centre(struct qc_float_form *f, struct qc_channel_centring *centring, struct qc_graph *centred,
                          const struct qc_setup *s)
{
    qc_graph_free(f->centred);
    f->centring = centring;
    f->centred = centred;
    f->graph = centred ? centred : f->scaled ? f->scaled : f->equalized ? f->equalized : s->normalised;
}

/* Equalizes channels if the options ask for it. */
static bool make_form(struct qc_float_form **out, const struct qc_setup *s, const struct qc_options *o,
                      struct qc_warnings *w, struct qc_status *st)
{
    const bool statistics = qc_has_statistics(s->in), automatic = o->method.equalize == QC_EQUALIZATION_AUTO,
               part = o->method.equalize == QC_EQUALIZATION_FREE,
               on = automatic ? o->types.per_tensor && !statistics : o->method.equalize != QC_EQUALIZATION_OFF;
    struct qc_equalized done;
    if (!on && statistics && o->types.per_tensor && automatic)
        qc_warn(w, "channels are not equalized, as --per-tensor does with --data: --stats holds statistics from before "
                   "equalization; use --data, or --per-channel");
    if (on && s->given.count && !automatic)
        return qc_fail(st, QC_USAGE, "--equalize on changes weights, but those of %s are quantized in part already",
                       s->model.path);
    if (on && statistics)
        return qc_fail(st, QC_USAGE,
                       "--equalize on needs --data without --stats: --stats holds statistics from before equalization");
    if (!(*out = form_new(s, st))) return false;
    if (!on || s->given.count) return true;
    if (!qc_equalize(&(*out)->equalized, &done, s->normalised, part ? QC_EQUALIZE_FREE : QC_EQUALIZE_ALL, st))
        return false;
    (*out)->graph = (*out)->equalized;
    return true;
}

/* ---- From the float network to the simulated one ---- */

static bool is_empty(const struct qc_partition *p)
{
    return !p->matches.count && !p->weight_only_count && !p->cache_count;
}

/* Fails because nothing is quantized. Names --prefer integers if the model has operators for it. */
static bool nothing_to_quantize(const struct qc_network *net, struct qc_status *st)
{
    struct qc_partition_options integers = net->scheme.partition;
    const bool fewer = integers.only_count || integers.skip_count || integers.weight.dtype == QC_NONE ||
                       integers.activation.dtype == QC_NONE;
    struct qc_partition *all = NULL;
    integers.prefer = QC_PREFER_INTEGERS;
    if (net->partition->cost_count && !qc_partition_new(&all, net->joined, net->setup->rules, &integers, st))
        return false;
    const bool faster = all && !is_empty(all);
    qc_partition_free(all);
    if (faster)
        return qc_fail(st, QC_UNSUPPORTED,
                       "nothing to quantize: ONNX Runtime computes all of this model faster in float, and its weights "
                       "are too small to store them in 8 bits only to save space; --prefer integers quantizes it");
    return qc_fail(st, QC_UNSUPPORTED, "nothing to quantize: no pattern of 'qcalib list rules' matches%s%s",
                   fewer ? " what --only, --skip and types of none leave" : "",
                   net->setup->model.graph->carried ? " before the operators that are not handled" : "");
}

/* Sets the shapes of values in the largest sample, by which operators are placed. */
static bool find_shapes(struct qc_network *net, struct qc_status *st)
{
    const struct qc_evidence *e = net->evidence;
    struct qc_status unfit = QC_STATUS_INIT;
    struct qc_shape *shapes;
    net->scheme.partition.shapes = NULL;
    if (!e->sizes || e->sizes_of_eval) return true;
    if (!(shapes = QC_NEW_ARRAY(net->arena, struct qc_shape, net->joined->value_count + 1, st))) return false;
    if (qc_shapes_of_values(shapes, net->joined, e->sizes, qc_evaluate, &unfit)) net->scheme.partition.shapes = shapes;
    return unfit.code != QC_MACHINE || qc_fail(st, unfit.code, "%s", unfit.message);
}

static bool find_partition(struct qc_network *net, struct qc_status *st)
{
    net->scheme.partition.part = net->joined->depth || net->setup->of_body;
    if (!find_shapes(net, st)) return false;
    if (!qc_partition_new(&net->partition, net->joined, net->setup->rules, &net->scheme.partition, st)) return false;
    /* Everything that could be quantized stays in float for speed. */
    const struct qc_partition *p = net->partition;
    const bool for_size = p->cost_count && !p->placed_count && p->options.prefer == QC_PREFER_SPEED &&
                          !p->matches.count && !p->weight_only_count && !p->options.unfed_count &&
                          !net->scheme.partition.part;
    const char *all = net->setup->of_body ? "body" : net->joined->depth ? "model but its bodies" : "model";
    if (for_size) {
        qc_partition_free(net->partition);
        net->partition = NULL;
        net->scheme.partition.prefer = QC_PREFER_SIZE;
        if (!qc_partition_new(&net->partition, net->joined, net->setup->rules, &net->scheme.partition, st))
            return false;
    }
    const bool whole = !net->scheme.partition.skip_count; /* else --skip or mending left operators in float */
    if (for_size && whole && !is_empty(net->partition))
        qc_warn(net->listener->warnings,
                "ONNX Runtime computes all %s faster in float; weights are stored in 8 bits only to save space "
                "(--prefer size)",
                qc_is_quantized(net->setup->model.graph) ? "that the model has in float" : "of this model");
    for (size_t i = 0; i < net->partition->warnings.count; i++)
        qc_warn(net->listener->warnings, "%s", net->partition->warnings.lines[i]);
    if (net->partition->placed_count && whole && !net->partition->matches.count && !is_empty(net->partition))
        qc_warn(
            net->listener->warnings,
            "ONNX Runtime computes all of this %s faster in float, by an estimated %.0f us of %.0f: only weights are "
            "stored in 8 bits, which costs no time; --prefer size or --prefer integers computes in integers",
            all, net->partition->placed_gain, net->partition->placed_gain + net->partition->placed_time);
    if (!is_empty(net->partition)) return true;
    if (net->partition->placed_count && !net->scheme.may_be_float) {
        net->scheme.may_be_float = true;
        qc_warn(
            net->listener->warnings,
            "nothing is quantized: ONNX Runtime computes all of this %s faster in float, by an estimated %.0f us of "
            "%.0f; --prefer size or --prefer integers quantizes it",
            all, net->partition->placed_gain, net->partition->placed_gain + net->partition->placed_time);
    }
    if (net->joined->depth) return true; /* there are bodies */
    if (net->scheme.may_be_float) return true;
    if (net->scheme.partition.unfed_count)
        return qc_fail(st, QC_BAD_INPUT,
                       "nothing is left to quantize: '%s' has no elements in any sample; give samples that reach it",
                       net->scheme.partition.unfed[0]);
    if (qc_is_quantized(net->setup->model.graph))
        return qc_fail(st, QC_UNSUPPORTED,
                       "%s is quantized already; give the float model it was made from ('qcalib convert' brings one "
                       "quantized form into another, 'qcalib run' and 'qcalib compare' take it as it is)",
                       net->setup->model.path);
    if (net->scheme.partition.weight.dtype == QC_NONE && !net->scheme.partition.only_count &&
        !net->scheme.partition.skip_count)
        return qc_fail(
            st, QC_UNSUPPORTED,
            "nothing to quantize: --weight-type none leaves operators with weights in float, and activations "
            "are quantized only with such operators; give a --weight-type such as int8, or leave it out");
    return nothing_to_quantize(net, st);
}

struct qc_kept qc_kept_of(const struct qc_graph *simulated)
{
    struct qc_kept k = {0, 0};
    for (qc_id id = 1; id <= simulated->qparams_count; id++) {
        k.quantizers += simulated->qparams_of[id].kind == QC_QPARAMS_QUANTIZER;
        k.given += simulated->qparams_of[id].given != NULL;
    }
    return k;
}

static bool simulate(struct qc_network *net, struct qc_status *st)
{
    struct qc_calibration_options *c = &net->scheme.calibration;
    if (!qc_simulate(&net->simulated, net->partition, st)) return false;
    const struct qc_graph *g = net->simulated;
    const struct qc_given_values *given = &net->setup->given;
    if (given->count) {
        /* In a partly quantized model something must be left to quantize; warn if given parameters are lost. */
        const struct qc_kept kept = qc_kept_of(g);
        if (kept.given == kept.quantizers && !net->setup->of_body && !net->setup->options->method.encodings)
            return qc_fail(st, QC_UNSUPPORTED,
                           "%s is quantized already, all %zu quantizers of it; 'qcalib convert' brings it into another "
                           "quantized form, 'qcalib run' and 'qcalib compare' take it as it is",
                           net->setup->model.path, kept.given);
        size_t lost = 0, first = 0;
        for (size_t i = 0; i < given->count; i++) {
            bool there = false;
            for (qc_id id = 1; !there && id <= g->qparams_count; id++)
                there = g->qparams_of[id].given && qc_given_same(g->qparams_of[id].given, &given->of[i].parameters);
            if (!there && !lost++) first = i;
        }
        if (lost)
            qc_warn(net->listener->warnings,
                    "parameters of %zu of %zu quantized tensors of the model are not kept ('%s' first): these tensors "
                    "are no longer stored in integers",
                    lost, given->count, given->of[first].name);
    }
    const bool channels = qc_quantizers_have_channels(net->simulated);
    c->channels = channels || c->activation->of_output;
    if (channels && (c->activation->need == QC_NEED_SERIES || c->activation->need == QC_NEED_VALUES))
        return qc_fail(st, QC_USAGE,
                       "--method %s needs whole tensors, not channels; give another method, or leave out "
                       "--per-channel=activations",
                       c->activation->name);
    /* Warn if one scale per weight is too coarse for channels of very different magnitudes. Not after equalization:
       there such channels are small in the layers that read them, too. */
    struct qc_channel_imbalance s;
    char label[QC_LABEL];
    if (net->form->equalized) return true;
    if (!qc_weight_imbalance(&s, net->simulated, st) || !s.layers) return st->code == QC_OK;
    const struct qc_node *n = &net->simulated->nodes[s.worst];
    qc_warn(net->listener->warnings,
            "one scale per weight is too coarse for %zu layer%s: in '%s' %zu of %zu output channels stay below 1/100 "
            "of the largest weight; use --equalize on, or --per-channel",
            s.layers, s.layers == 1 ? "" : "s", qc_node_label(label, net->simulated, n), s.small, s.channels);
    return true;
}

/* ---- Statistics ---- */

bool qc_network_wants_ranges(const struct qc_network *net)
{
    return !net->scheme.options->method.propagate || net->scheme.calibration.activation->of_network ||
           net->scheme.calibration.moments;
}

/* Collects second moments and the statistics of the quantizers. */
static bool collect_samples(struct qc_network *net, struct qc_status *st)
{
    struct qc_named_values values = {0};
    const int *axes = NULL;
    if (qc_network_wants_ranges(net) &&
        (!qc_observed_values(&values, net->simulated, net->arena, st) ||
         !qc_add_sized_values(&values, net->simulated, net->arena, st) ||
         (net->scheme.calibration.channels && !qc_named_channel_axes(&axes, &values, net->setup->normalised, net->arena,
                                                                     st)))) /* the same axes as 'qcalib collect' */
        return false;
    struct qc_collecting what = {.options = net->scheme.options,
                                 .settings = net->scheme.settings,
                                 .graph = net->simulated,
                                 .values = values,
                                 .channel_axes = axes,
                                 .chooser = &net->scheme.calibration};
    if (!net->setup->in->team && !net->evidence->keys &&
        !(net->evidence->keys = QC_NEW_ARRAY(net->setup->arena, uint64_t, qc_dataset_units(net->setup->data), st)))
        return false;
    what.keys = net->evidence->keys;
    what.known = qc_evidence_outputs(net->evidence, net->real);
    what.again = net->evidence->collected;
    qc_progress_phase(net->setup->progress, qc_network_wants_ranges(net) ? "calibrating" : "collecting second moments");
    const bool ok =
        qc_collecting_run(&net->evidence->statistics, &net->evidence->cost, net->setup, &what, net->arena, st);
    qc_progress_end(net->setup->progress);
    net->evidence->collected = net->evidence->collected || ok;
    return ok;
}

/* Lets runs of the float network keep its outputs, which later runs compare with: of large models in files, of others
   in memory. The memory plan has no room for them there, so with --memory-limit the float network runs again. */
static bool keep_outputs(struct qc_network *net, struct qc_status *st)
{
    struct qc_evidence *e = net->evidence;
    const enum qc_known_place place = net->real->spills ? QC_KNOWN_IN_FILES : QC_KNOWN_IN_MEMORY;
    if (!net->setup->data || (net->scheme.options->run.memory_limit && place == QC_KNOWN_IN_MEMORY)) return true;
    qc_known_outputs_free(e->known);
    e->known = NULL;
    e->known_of = net->real;
    return qc_known_outputs_new(&e->known, net->real->output_count, place, net->setup->budget, st);
}

bool qc_network_collect(struct qc_network *net, struct qc_status *st)
{
    const double t0 = qc_seconds();
    if (net->evidence->statistics || !qc_network_wants_ranges(net)) return true;
    /* Outputs of the network before its channels were scaled are of no use. */
    if (net->evidence->known && !qc_evidence_outputs(net->evidence, net->real) && !keep_outputs(net, st)) return false;
    if (!collect_samples(net, st)) return false;
    if (net->evidence->statistics->second_moments && !net->scheme.options->run.memory_limit && !net->setup->in->team &&
        !qc_second_moments_put_away(net->evidence->statistics->second_moments, net->simulated->budget.model_bytes, st))
        return false;
    net->evidence->seconds = qc_seconds() - t0;
    net->scheme.calibration.second_moments = qc_network_moments(net);
    return true;
}

const char *qc_network_source(const struct qc_network *net)
{
    return qc_has_statistics(net->setup->in) ? qc_statistics_name(net->setup->in)
           : net->setup->data                ? qc_dataset_file(net->setup->data)
                                             : NULL;
}

/* Leaves ops in float that no sample reaches, and warns of them. */
static bool leave_unfed(struct qc_network *net, struct qc_status *st)
{
    struct qc_partition_options *o = &net->scheme.partition;
    size_t more = 1, count = 0;
    const struct qc_node *first = NULL;
    while (net->evidence->statistics && more) {
        const char **names;
        if (!qc_unfed_values(&more, &names, o->unfed_count, o->unfed, net->simulated, net->evidence->statistics,
                             net->setup->arena, st))
            return false;
        o->unfed = names;
        o->unfed_count += more;
        if (more && !qc_network_simulate(net, st)) return false;
    }
    for (qc_id id = 1; id <= net->joined->node_count; id++) {
        if (net->partition->reason[id] != qc_partition_unfed) continue;
        if (!count++) first = &net->joined->nodes[id];
    }
    if (first)
        qc_warn(net->listener->warnings, "'%s' (%s) has no elements in any sample and stays in float%s",
                QC_NODE_LABEL(net->joined, first), qc_op_info(first->op)->name,
                count > 1 ? ", and so do more ops (the report has each)" : "");
    return true;
}

static bool collect(struct qc_network *net, struct qc_status *st)
{
    struct qc_calibration_options *c = &net->scheme.calibration;
    if (!net->evidence->memory_planned && !qc_memory_plan(net, st)) return false;
    net->evidence->memory_planned = true;
    c->later_bytes = net->evidence->later_bytes;
    if (net->scheme.options->run.checkpoint && !net->scheme.bare && !net->evidence->layer_file &&
        qc_rounds_weights(net->scheme.settings) && !qc_collecting_layers(&net->evidence->layer_file, net, st))
        return false;
    if (!net->evidence->known && !keep_outputs(net, st)) return false;
    /* True if there are so few samples that further ones will likely exceed their ranges. Always false with --stats and
       with several processes. */
    c->few = net->scheme.calibration.activation->of_network && net->setup->data && !qc_has_statistics(net->setup->in) &&
             !net->setup->in->team && qc_dataset_samples(net->setup->data) < QC_MANY_SAMPLES && !qc_ablated("few");
    /* True if the extremes of each sample are kept: with few samples, and if their number is unknown. Processes that
       share the work do not know it, and statistics may come from other samples than the data. */
    const struct qc_observer *by = net->scheme.calibration.activation;
    c->unseen = (by->of_network || strcmp(by->name, "mse") == 0) &&
                (net->setup->in->team || qc_has_statistics(net->setup->in) ||
                 (net->setup->data && qc_dataset_units(net->setup->data) <= QC_UNSEEN_MOST)) &&
                !qc_ablated("unseen");
    if (qc_network_source(net)) {
        if (!qc_network_collect(net, st)) return false;
    } else {
        /* Weight-only quantization without samples. */
        for (qc_id id = 1; id <= net->simulated->qparams_count; id++) {
            const struct qc_qparams *s = &net->simulated->qparams_of[id];
            if (s->kind == QC_QPARAMS_QUANTIZER && !s->is_weight && !s->given)
                return qc_fail(st, QC_USAGE, "a rule quantizes '%s', whose range needs samples: give --data", s->name);
        }
        if (c->weight->of_output)
            return qc_fail(st, QC_USAGE, "--weight-method %s needs samples: give --data, or choose another method",
                           c->weight->name);
        c->moments = c->channels = false;
        if (!net->evidence->statistics &&
            !qc_collection_new(&net->evidence->statistics, 0, NULL, QC_NEED_HISTOGRAM, st))
            return false;
    }
    if (qc_has_statistics(net->setup->in) && c->moments && !net->moments && net->evidence->statistics->second_moments &&
        !qc_second_moments_bind(&net->evidence->statistics->second_moments, net->evidence->statistics->second_moments,
                                net->simulated, qc_network_source(net), st))
        return false;
    if (!leave_unfed(net, st)) return false;
    c->second_moments = qc_network_moments(net);
    return true;
}

/* Keeps the statistics if they have everything that the simulated graph needs; else drops them, to be collected again.
   Fails with QC_UNSUPPORTED if they cannot be collected again. */
static bool reuse_statistics(struct qc_network *net, struct qc_status *st)
{
    struct qc_named_values values;
    struct qc_second_moments *second_moments = NULL;
    if (!net->evidence->statistics) return true; /* --propagate without second moments */
    if (!qc_observed_values(&values, net->simulated, net->arena, st)) return false;
    /* The states of a plugin are used up when a range is chosen from them. */
    bool there =
        net->scheme.calibration.activation->need != QC_NEED_VALUES && !net->evidence->moments_dropped &&
        (!qc_network_wants_ranges(net) || !net->scheme.calibration.channels || net->evidence->statistics->channels);
    /* Values without a name are identified by their ids, which differ between graphs. */
    for (size_t i = 0; there && qc_network_wants_ranges(net) && i < values.count; i++)
        there = *values.names[i] != '%' && qc_collection_find(net->evidence->statistics, values.names[i]);
    if (there && net->evidence->statistics->second_moments) {
        if (!qc_second_moments_for(&second_moments, net->evidence->statistics->second_moments, net->simulated, st))
            return false;
        there = second_moments != NULL;
        for (size_t i = 0; there && !net->form->scaled && i < qc_second_moments_count(second_moments); i++)
            qc_second_moments_at(second_moments, i)->divisor =
                NULL; /* scales of another branch; this graph is not scaled */
    }
    if (there) {
        net->moments = second_moments;
        return true;
    }
    if (qc_has_statistics(net->setup->in) || net->setup->in->team)
        return qc_fail(st, QC_UNSUPPORTED, "the statistics lack values that become inputs or results of quantized ops");
    qc_evidence_set_statistics(net->evidence, NULL);
    return true;
}

/* Passes "functions" to "simulate". */
static bool simulate_form(struct qc_network *net, struct qc_status *st)
{
    return qc_join_functions(&net->joined, net->real, net->setup->rules, &net->scheme.partition, st) &&
           qc_network_passed(net, QC_PASS_functions, net->real, net->joined, st) && find_partition(net, st) &&
           qc_network_passed(net, QC_PASS_partition, net->joined, NULL, st) && simulate(net, st) &&
           qc_network_passed(net, QC_PASS_simulate, net->joined, net->simulated, st);
}

bool qc_network_simulate(struct qc_network *net, struct qc_status *st)
{
    struct qc_evidence *e = net->evidence;
    qc_partition_free(net->partition);
    qc_graph_free(net->simulated);
    qc_graph_free(net->joined);
    net->partition = NULL;
    net->simulated = net->joined = NULL;
    net->real = net->form->graph;
    const struct qc_listener quiet = {.warnings = net->listener->warnings}, *const listener = net->listener;
    net->listener = &quiet;
    const bool ok = simulate_form(net, st);
    net->listener = listener;
    if (!ok) return false;
    struct qc_second_moments **moments = net->moments    ? &net->moments
                                         : e->statistics ? &e->statistics->second_moments
                                                         : NULL;
    if (moments && !qc_second_moments_bind(moments, *moments, net->simulated, net->setup->model.path, st)) return false;
    net->scheme.calibration.second_moments = qc_network_moments(net);
    return true;
}

bool qc_network_observe(struct qc_network **out, const struct qc_setup *setup, const struct qc_scheme *scheme,
                        struct qc_evidence *evidence, const struct qc_listener *listener, struct qc_status *st)
{
    struct qc_network *net = *out = calloc(1, sizeof *net);
    const bool repeated = evidence->memory_planned;
    if (!net || !(net->arena = qc_arena_new())) return qc_fail_memory(st, sizeof *net);
    net->setup = setup;
    net->scheme = *scheme;
    net->evidence = evidence;
    net->listener = listener;
    if (!(net->lowered = QC_NEW_ARRAY(net->arena, struct qc_graph *, setup->format_count, st))) return false;
    net->form = qc_float_form_ref(scheme->form);
    if (!net->form && (!make_form(&net->form, setup, scheme->options, net->listener->warnings, st) ||
                       !qc_network_passed(net, QC_PASS_equalize, setup->normalised, net->form->graph, st)))
        return false;
    net->real = net->form->graph;
    net->warnings_from = qc_warnings_count(net->listener->warnings);
    return simulate_form(net, st) && (!repeated || reuse_statistics(net, st)) && collect(net, st) &&
           qc_network_passed(net, QC_PASS_collect, net->simulated, net->simulated, st);
}
