// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "calib/ablation.h"
#include "calib/ranges/expected_error.h"
#include "calib/sequential/sequential.h"
#include "calib/statistics/collect_channels.h"
#include "calib/weights/tied_tables.h"
#include "quantize/collect/collecting.h"
#include "quantize/options/option_value.h"
#include "quantize/scaling/centre_channels.h"
#include "quantize/scaling/scale_channels.h"
#include "quantize/stages/stage_list.h"
#include "quantize/trials/auto_method.h"
#include "quantize/trials/cross_rounding.h"
#include "quantize/trials/output_bias.h"
#include "quantize/trials/propagate_check.h"
#include "quantize/trials/target_limits.h"
#include "quantize/trials/trial_graph.h"

/* Memory for samples: trials, the report and advice read them repeatedly. */
enum { KEPT_BYTES = 16 << 20 };

/* Fits ranges to narrow accumulators. With statistics alone the data are NULL and sums are not observed. */
static bool fit_accumulators(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_fit_options o = {.accumulator = p->how.accumulator,
                               .bound = qc_accumulator_bound(p->options),
                               .run = qc_run_options_of(p->options, p->progress)};
    if (!o.accumulator.bits || o.accumulator.bits == 32) return true;
    qc_progress_phase(p->progress, "fitting accumulators");
    bool ok = qc_fit_accumulators(p->calibration, p->simulated, p->from->data, &o, st);
    qc_progress_end(p->progress);
    return ok;
}

/* True if ranges of the float network are needed. With --propagate quantizers are calibrated on the quantized network,
   but --method auto and second moments need the float one: then the job without --propagate is made too. */
static bool wants_ranges(const struct qc_pipeline *p)
{
    return !p->options->propagate || p->calibration_options.activation->of_network || p->calibration_options.moments;
}

/* True if there are so few samples that further ones will likely exceed their ranges. Always false with --stats and
   with several processes. */
static bool few_samples(const struct qc_pipeline *p)
{
    const size_t batch =
        p->from->data && qc_dataset_batch(p->from->data) > 1 ? (size_t)qc_dataset_batch(p->from->data) : 1;
    return p->calibration_options.activation->of_network && p->from->data && !qc_has_statistics(p->in) &&
           !p->in->team && qc_dataset_units(p->from->data) * batch < QC_MANY_SAMPLES;
}

/* True if the extremes of each sample are kept: with few samples, and if their number is unknown. Processes that share
   the work do not know it, and statistics may come from other samples than the data. */
static bool may_go_further(const struct qc_pipeline *p)
{
    const struct qc_observer *by = p->calibration_options.activation;
    return (by->of_network || strcmp(by->name, "mse") == 0) &&
           (p->in->team || qc_has_statistics(p->in) ||
            (p->from->data && qc_dataset_units(p->from->data) <= QC_UNSEEN_MOST));
}

/* Collects second moments and the statistics of the quantizers. */
static bool collect(struct qc_pipeline *p, struct qc_collect_cost *cost, struct qc_status *st)
{
    size_t count = 0;
    qc_id *values = NULL;
    const char **names = NULL;
    const int *axes = NULL;
    if (wants_ranges(p) &&
        (!qc_observed_values(&count, &values, &names, p->simulated, p->arena, st) ||
         (p->calibration_options.channels && !qc_named_channel_axes(&axes, count, names, p->from->normalised, p->arena,
                                                                    st)))) /* the same axes as 'qcalib collect' */
        return false;
    const struct qc_collecting what = {.graph = p->simulated,
                                       .count = count,
                                       .values = values,
                                       .names = names,
                                       .channel_axes = axes,
                                       .chooser = &p->calibration_options};
    const bool trials = p->calibration_options.activation->of_network || p->options->propagate;
    if (trials && !p->in->team && !p->from->keys &&
        !(p->from->keys = QC_NEW_ARRAY(p->from->arena, uint64_t, qc_dataset_units(p->from->data), st)))
        return false;
    qc_progress_phase(p->progress, wants_ranges(p) ? "calibrating" : "collecting second moments");
    const bool ok = qc_collecting_run(&p->seen, cost, p, &what, st);
    qc_progress_end(p->progress);
    p->collected = p->collected || ok;
    return ok;
}

/* Chooses the observer of each quantizer by runs of the network. Without data all get mse. */
bool qc_stage_choose(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_calibration_options *c = &p->calibration_options;
    c->methods = NULL;
    if (!c->activation->of_network || (!p->from->data && !qc_has_statistics(p->in))) return true;
    if (!p->from->data) {
        qc_warn(p->warnings, "--method auto uses mse: statistics do not show the effect of a range on the network's "
                             "outputs; give --data too");
        return true;
    }
    if (!p->options->memory_limit && !qc_dataset_keep(p->from->data, KEPT_BYTES, st)) return false;
    qc_progress_phase(p->progress, "choosing observers");
    const struct qc_round_weights_options r = qc_round_weights_options_of(p);
    const bool ok =
        qc_auto_method_find(p, qc_moments_of(p), qc_rounds_weights(p->options) && qc_moments_of(p) ? &r : NULL, st);
    qc_progress_end(p->progress);
    if (ok) c->methods = p->auto_method->methods;
    return ok;
}

/* Weight-only quantization without samples. Fails with QC_USAGE if something needs samples. */
static bool do_without(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_calibration_options *c = &p->calibration_options;
    const struct qc_graph *g = p->simulated;
    for (qc_id id = 1; id <= g->qparams_count; id++) {
        const struct qc_qparams *s = &g->qparams_of[id];
        if (s->kind == QC_QPARAMS_QUANTIZER && !s->is_weight && !s->given)
            return qc_fail(st, QC_USAGE, "a rule quantizes '%s', whose range needs samples: give --data", s->name);
    }
    if (c->weight->of_output)
        return qc_fail(st, QC_USAGE, "--weight-method %s needs samples: give --data, or choose another method",
                       c->weight->name);
    c->moments = c->channels = false;
    return p->seen || qc_collection_new(&p->seen, 0, NULL, QC_NEED_HISTOGRAM, st);
}

/* Lets later runs keep the outputs of the float network, which they compare with: of large models in files, of others
   in memory. The memory plan has no room for them there, so with --memory-limit the float network runs again. */
static bool know_outputs(struct qc_pipeline *p, struct qc_status *st)
{
    const enum qc_known_place place = p->real->spills ? QC_KNOWN_IN_FILES : QC_KNOWN_IN_MEMORY;
    if (p->known || !p->from->data || (p->options->memory_limit && place == QC_KNOWN_IN_MEMORY)) return true;
    p->known_of = p->real;
    return qc_known_outputs_new(&p->known, p->real->output_count, place, st);
}

/* Collects the statistics if they are missing. */
static bool collect_once(struct qc_pipeline *p, struct qc_status *st)
{
    const double t0 = qc_seconds();
    if (p->seen || !wants_ranges(p)) return true;
    if (!collect(p, &p->cost, st)) return false;
    if (p->seen->second_moments && !p->options->memory_limit && !p->in->team &&
        !qc_second_moments_put_away(p->seen->second_moments, p->simulated->budget.model_bytes, st))
        return false;
    p->collect_seconds = qc_seconds() - t0;
    return true;
}

static const char *source_of(const struct qc_pipeline *p)
{
    return qc_has_statistics(p->in) ? qc_statistics_name(p->in) : p->from->data ? qc_dataset_file(p->from->data) : NULL;
}

bool qc_stage_collect(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_calibration_options *c = &p->calibration_options;
    if (!p->memory_planned && !qc_memory_plan(p, st)) return false;
    p->memory_planned = true;
    if (p->options->checkpoint && !p->rounded_file && qc_rounds_weights(p->options) &&
        !qc_collecting_layers(&p->rounded_file, p, st))
        return false;
    if (!know_outputs(p, st)) return false;
    c->few = few_samples(p) && !qc_ablated("few");
    c->unseen = may_go_further(p) && !qc_ablated("unseen");
    if (!(source_of(p) ? collect_once(p, st) : do_without(p, st))) return false;
    if (qc_has_statistics(p->in) && c->moments && !p->second_moments && p->seen->second_moments &&
        !qc_second_moments_bind(&p->seen->second_moments, p->seen->second_moments, p->simulated, source_of(p), st))
        return false;
    c->second_moments = qc_moments_of(p);
    return true;
}

/* Runs the stages from "functions" to "simulate" again, on the graph p->real. */
static bool simulate_again(struct qc_pipeline *p, struct qc_status *st)
{
    qc_partition_free(p->partition);
    qc_graph_free(p->simulated);
    qc_graph_free(p->joined);
    p->partition = NULL;
    p->simulated = p->joined = NULL;
    if (!qc_stage_functions(p, st) || !qc_stage_partition(p, st) || !qc_stage_simulate(p, st)) return false;
    struct qc_second_moments **second_moments = p->second_moments ? &p->second_moments
                                                : p->seen         ? &p->seen->second_moments
                                                                  : NULL;
    return !second_moments ||
           qc_second_moments_bind(second_moments, *second_moments, p->simulated, p->from->model.path, st);
}

/* *all: the statistics have every observed value. */
static bool find_statistics(bool *all, const struct qc_pipeline *p, struct qc_status *st)
{
    size_t count;
    qc_id *values;
    const char **names;
    if (!qc_observed_values(&count, &values, &names, p->simulated, p->arena, st)) return false;
    *all = true;
    for (size_t i = 0; i < count; i++) *all = *all && qc_collection_find(p->seen, names[i]);
    return true;
}

/* Centres inputs. If the target quantizes an Add that gives a MatMul its bias, the product in front of it has no
   statistics: such products are left as they are. */
static bool centre(struct qc_pipeline *p, struct qc_status *st)
{
    bool again, all;
    const struct qc_graph *const before = p->real;
    if (!qc_centre_channels(&again, p, true, st)) return false;
    if (!again) return true;
    if (!simulate_again(p, st) || !find_statistics(&all, p, st)) return false;
    if (all) return true;
    qc_warnings_drop(p->warnings, p->warnings_from, qc_warnings_count(p->warnings));
    qc_graph_free(p->centred);
    p->centred = NULL;
    p->centring = NULL;
    p->real = before;
    return simulate_again(p, st) && qc_centre_channels(&again, p, false, st) && (!again || simulate_again(p, st));
}

bool qc_stage_scale(struct qc_pipeline *p, struct qc_status *st)
{
    bool again;
    if (!qc_scale_channels(&again, p, st) || (again && !simulate_again(p, st)) || !collect_once(p, st)) return false;
    if (!centre(p, st)) return false;
    p->calibration_options.second_moments = qc_moments_of(p);
    return true;
}

/* With --propagate: binds quantizers layer by layer, each on the outputs of those that are bound. */
static bool propagate(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_round_weights_options r = qc_round_weights_options_of(p);
    const bool rounds = qc_rounds_weights(p->options);
    if (wants_ranges(p) && !qc_plain_make(p, qc_moments_of(p), rounds && qc_moments_of(p) ? &r : NULL, st))
        return false;
    if (rounds && !qc_weight_rounder_new(&p->weight_rounder, p->simulated, qc_moments_of(p), &r, st)) return false;
    const struct qc_sequential_options o = {.calibration = &p->calibration_options,
                                            .weight_rounder = p->weight_rounder,
                                            .correct_bias = r.correct_bias,
                                            .folder = getenv("TMPDIR") ? NULL
                                                      : p->in->scratch ? p->in->scratch
                                                                       : "."};
    qc_progress_phase(p->progress, "calibrating");
    const bool ok = qc_calibrate_sequentially(&p->calibration, p->simulated, p->from->data, &o, st);
    qc_progress_end(p->progress);
    if (!ok) return false;
    const struct qc_collect_cost *cost = &p->calibration->cost;
    if (cost->statistics_bytes + cost->runner_bytes > p->cost.statistics_bytes + p->cost.runner_bytes) p->cost = *cost;
    p->collect_seconds += p->calibration->collect_seconds;
    return true;
}

static bool bind_all(struct qc_pipeline *p, struct qc_status *st)
{
    return qc_choose(&p->calibration, p->simulated, p->seen, source_of(p), &p->calibration_options, st) &&
           fit_accumulators(p, st);
}

bool qc_stage_bind(struct qc_pipeline *p, struct qc_status *st)
{
    if (!(p->options->propagate ? propagate(p, st) : bind_all(p, st))) return false;
    if (!qc_keep_target_limits(p->simulated, p->options->runs_on, st)) return false;
    for (size_t i = 0; i < p->calibration->warnings.count; i++)
        qc_warn(p->warnings, "%s", p->calibration->warnings.lines[i]);
    return true;
}

bool qc_reuse_statistics(struct qc_pipeline *p, struct qc_status *st)
{
    size_t count;
    qc_id *values;
    const char **names;
    struct qc_second_moments *second_moments = NULL;
    if (!p->seen) return true; /* --propagate without second moments */
    if (!qc_observed_values(&count, &values, &names, p->simulated, p->arena, st)) return false;
    bool there = !p->moments_dropped && (!wants_ranges(p) || !p->calibration_options.channels || p->seen->channels);
    /* Values without a name are identified by their ids, which differ between graphs. */
    for (size_t i = 0; there && wants_ranges(p) && i < count; i++)
        there = *names[i] != '%' && qc_collection_find(p->seen, names[i]);
    if (there && p->seen->second_moments) {
        if (!qc_second_moments_for(&second_moments, p->seen->second_moments, p->simulated, st)) return false;
        there = second_moments != NULL;
        for (size_t i = 0; there && !p->scaled && i < qc_second_moments_count(second_moments); i++)
            qc_second_moments_at(second_moments, i)->divisor =
                NULL; /* scales of another branch; this graph is not scaled */
    }
    if (there) {
        p->second_moments = second_moments;
        return true;
    }
    if (qc_has_statistics(p->in) || p->in->team)
        return qc_fail(st, QC_UNSUPPORTED, "the statistics lack values that become inputs or results of quantized ops");
    qc_collection_free(p->seen);
    p->seen = NULL;
    p->moments_dropped = false;
    return true;
}

/* Warns once for all layers; the report has each. */
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
                "second moments of %zu layer%s ('%s' first) were taken in blocks of columns, because the layer is too "
                "wide or --memory-limit too low; errors are not compensated across blocks",
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
                "%zu of %zu output channels of weights are rounded to nearest, or their biases corrected in part; "
                "otherwise accumulators of %u bits could overflow",
                bounded, outputs, p->how.accumulator.bits);
}

/* Drops the second moments, which need most memory, unless these stages may run again: for a demand, or for advice that
   is asked for or whose moments are small. */
static void drop_moments(struct qc_pipeline *p)
{
    static const size_t small = (size_t)128 << 20;
    const char *advice = p->options->advice;
    if (qc_options_repeats(p->options) || qc_has_statistics(p->in) || p->in->team || qc_collection_is_shared(p->seen))
        return;
    if (strcmp(advice, "on") == 0 || (strcmp(advice, "auto") == 0 && qc_memory_ample(p) &&
                                      qc_second_moments_bytes(p->seen->second_moments) <= small))
        return;
    qc_second_moments_free(p->seen->second_moments);
    p->seen->second_moments = NULL;
    p->calibration_options.second_moments = NULL;
    p->moments_dropped = true;
}

bool qc_stage_round(struct qc_pipeline *p, struct qc_status *st)
{
    if (!qc_rounds_weights(p->options)) return true;
    if (!p->seen->second_moments) {
        if (!qc_has_statistics(p->in)) return true; /* no samples: the summary and the report say so */
        qc_warn(p->warnings,
                "weights are rounded to nearest and biases are not corrected: %s holds no second moments "
                "(--second-moments off); collect again",
                qc_statistics_name(p->in));
        return true;
    }
    const struct qc_round_weights_options r = qc_round_weights_options_of(p);
    bool taken = false;
    if (!p->weight_rounder && r.accumulator_bits % 32 == 0 && !qc_auto_method_take_rounded(&taken, p, st)) return false;
    if (taken) return true;
    if (p->shared && !p->is_branch) qc_folded_constants_trim(p->shared, 0); /* the weights change */
    qc_progress_phase(p->progress, "rounding weights");
    const bool ok = p->weight_rounder
                        ? qc_weight_rounder_finish(&p->weight_rounding, &p->rounded, p->weight_rounder, st)
                        : qc_round_weights(&p->weight_rounding, &p->rounded, p->simulated, qc_moments_of(p), &r, st);
    qc_progress_end(p->progress);
    return ok;
}

bool qc_stage_refine(struct qc_pipeline *p, struct qc_status *st)
{
    if (p->unpropagated) return qc_plain_or_propagated(p, st);
    return p->options->propagate || qc_round_crossed(p, st);
}

/* Makes g the rounded graph, unless it is NULL. */
static void take(struct qc_pipeline *p, struct qc_graph *g)
{
    if (!g) return;
    qc_graph_free(p->rounded);
    p->rounded = g;
}

/* Ties tables, which the file of another runtime than ONNX Runtime has twice (qc_lower_options), and shortens biases.
 */
static bool suit_target(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_target *t = p->options->runs_on;
    struct qc_graph *g = NULL;
    if (t->onnxruntime && !qc_tie_tables(&g, p->rounded ? p->rounded : p->simulated, p->simulated, st)) return false;
    take(p, g);
    if (!qc_shorten_biases(&g, p->rounded ? p->rounded : p->simulated, t, st)) return false;
    take(p, g);
    return true;
}

bool qc_stage_correct(struct qc_pipeline *p, struct qc_status *st)
{
    if (!p->weight_rounding) return suit_target(p, st);
    if (!qc_correct_output_biases(p, st) || !suit_target(p, st)) return false;
    warn_of_blocks(p);
    warn_of_bounds(p);
    drop_moments(p);
    return true;
}
