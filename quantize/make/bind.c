// SPDX-License-Identifier: Apache-2.0
/* Passes "bind" and "round". */
#include <stdlib.h>

#include "base/file_map.h"
#include "calib/accumulator/fit_accumulator.h"
#include "calib/sequential/sequential.h"
#include "calib/weights/round_weights.h"
#include "quantize/make/make.h"

/* ---- Rounding to nearest, and rounding that --method auto has done ---- */

bool qc_network_store_nearest(struct qc_graph **out, const struct qc_network *net, struct qc_status *st)
{
    const enum qc_constant_forms forms = net->scheme.options->run.memory_limit ? QC_FORMS_NOT_KEPT : QC_FORMS_KEPT;
    return qc_store_weights(out, net->simulated, forms, qc_evaluate, st);
}

/* Takes over the weights that --method auto rounded, since their grid does not depend on the ranges of activations. If
   *taken, net->rounded and net->weight_rounding hold them, with the activation parameters of net->simulated, which is
   bound. *taken is false if a weight scale changed, for its bias or for a narrow accumulator. */
static bool network_take_rounded(bool *taken, struct qc_network *net, struct qc_status *st)
{
    struct qc_auto_method *m = net->auto_method;
    *taken = m && m->rounded;
    for (qc_id s = 1; *taken && s <= net->simulated->qparams_count; s++) {
        const struct qc_qparams *q = &net->simulated->qparams_of[s];
        if (q->is_weight && q->state == QC_QPARAMS_BOUND) {
            const struct qc_qparams *b = &m->rounded->qparams_of[s];
            bool same = q->count == b->count;
            for (size_t i = 0; same && i < q->count; i++)
                same =
                    !(q->scale[i] < b->scale[i] || q->scale[i] > b->scale[i]) && q->zero_point[i] == b->zero_point[i];
            *taken = same;
        }
    }
    for (qc_id s = 1; *taken && s <= net->simulated->qparams_count; s++) {
        const struct qc_qparams *q = &net->simulated->qparams_of[s];
        if (q->is_weight || q->kind != QC_QPARAMS_QUANTIZER || q->state != QC_QPARAMS_BOUND) continue;
        m->rounded->qparams_of[s].dtype = q->dtype; /* a target may have changed it (quantize/make/target_limits.c) */
        if (!qc_graph_bind_quantizer(m->rounded, s, q->count, q->scale, q->zero_point, st)) return false;
    }
    if (!*taken) return true;
    net->rounded = m->rounded;
    net->weight_rounding = m->rounding;
    m->rounded = NULL;
    m->rounding = NULL;
    m->rounding_seconds = 0;
    return true;
}

/* ---- The network without --propagate ---- */

void qc_network_exchange_plain(struct qc_network *net)
{
    struct qc_plain *plain = net->unpropagated;
    const struct qc_plain own = {.calibration = net->calibration,
                                 .weight_rounding = net->weight_rounding,
                                 .simulated = net->simulated,
                                 .rounded = net->rounded};
    net->calibration = plain->calibration;
    net->weight_rounding = plain->weight_rounding;
    net->simulated = plain->simulated;
    net->rounded = plain->rounded;
    *plain = own;
}

/* ---- Bind ---- */

/* With --propagate: binds quantizers layer by layer, each on the outputs of those that are bound. */
static bool propagate(struct qc_network *net, struct qc_status *st)
{
    const struct qc_round_weights_options r = qc_network_rounding(net);
    const bool rounds = qc_rounds_weights(net->scheme.settings);
    if (qc_network_wants_ranges(net)) {
        /* Make it from the statistics of the float network: net->unpropagated. net->simulated is unbound before and
           after. rounding: how weights are rounded; NULL: to nearest. */
        const struct qc_round_weights_options *rounding = rounds && qc_network_moments(net) ? &r : NULL;
        struct qc_plain *plain = net->unpropagated = calloc(1, sizeof *plain);
        bool taken = false;
        if (!plain) return qc_fail_memory(st, sizeof *plain);
        const bool ok = qc_choose(&plain->calibration, net->simulated, net->evidence->statistics,
                                  qc_dataset_file(net->setup->data), &net->scheme.calibration, st) &&
                        qc_keep_target_limits(net->simulated, net->scheme.options->graph.runs_on, st) &&
                        network_take_rounded(&taken, net, st) &&
                        (taken || (rounding ? qc_round_weights(&net->weight_rounding, &net->rounded, net->simulated,
                                                               qc_network_moments(net), rounding, st)
                                            : qc_network_store_nearest(&net->rounded, net, st)));
        plain->simulated = net->simulated;
        plain->rounded = net->rounded;
        plain->weight_rounding = net->weight_rounding;
        net->simulated = net->rounded = NULL;
        net->weight_rounding = NULL;
        if (!ok || !qc_simulate(&net->simulated, net->partition, st)) return false;
    }
    if (rounds && !qc_weight_rounder_new(&net->weight_rounder, net->simulated, qc_network_moments(net), &r, st))
        return false;
    const struct qc_sequential_options o = {.calibration = &net->scheme.calibration,
                                            .keys = net->evidence->keys,
                                            .weight_rounder = net->weight_rounder,
                                            .folder = qc_temporary_folder(net->setup->in->scratch)};
    qc_progress_phase(net->setup->progress, "calibrating");
    const bool ok = qc_calibrate_sequentially(&net->calibration, net->simulated, net->setup->data, &o, st);
    qc_progress_end(net->setup->progress);
    if (!ok) return false;
    const struct qc_collect_cost *cost = &net->calibration->cost;
    if (cost->statistics_bytes + cost->runner_bytes >
        net->evidence->cost.statistics_bytes + net->evidence->cost.runner_bytes)
        net->evidence->cost = *cost;
    net->evidence->seconds += net->calibration->collect_seconds;
    return true;
}

/* Makes g the rounded graph, unless it is NULL. */
static void take(struct qc_network *net, struct qc_graph *g)
{
    if (!g) return;
    qc_graph_free(net->rounded);
    net->rounded = g;
}

/* Drops the second moments, which need most memory, unless networks may be made again: for a demand, for advice that is
   asked for, or if moments are small for advice and changes that cost nothing. */
static void drop_moments(struct qc_network *net)
{
    static const size_t small = (size_t)128 << 20;
    const struct qc_options *o = net->scheme.options;
    const struct qc_collection *c = net->evidence->statistics;
    if (qc_options_repeats(o) || qc_has_statistics(net->setup->in) || net->setup->in->team ||
        qc_collection_is_shared(c))
        return;
    const bool searches = o->method.advice == QC_ADVISE_AUTO || o->method.effort != QC_EFFORT_LOW;
    if (o->method.advice == QC_ADVISE_ON ||
        (searches && qc_memory_ample(net) && qc_second_moments_bytes(c->second_moments) <= small))
        return;
    qc_second_moments_free(net->evidence->statistics->second_moments);
    net->evidence->statistics->second_moments = NULL;
    net->evidence->moments_dropped = true;
    net->scheme.calibration.second_moments = NULL;
}

bool qc_network_settle(struct qc_network *net, struct qc_status *st)
{
    /* Tie tables, which the file of another runtime than ONNX Runtime has twice (qc_lower_options), and shorten biases.
     */
    const struct qc_target *t = net->scheme.options->graph.runs_on;
    struct qc_graph *g = NULL;
    if (t->onnxruntime && !qc_tie_tables(&g, net->rounded, net->simulated, st)) return false;
    take(net, g);
    if (!qc_shorten_biases(&g, net->rounded, t, st)) return false;
    take(net, g);
    if (!net->weight_rounding) return true;
    /* Warn once for all layers; the report has each. */
    size_t count = 0;
    const char *first = NULL;
    for (size_t i = 0; i < net->weight_rounding->count; i++) {
        if (net->weight_rounding->layers[i].blocks < 2) continue;
        first = first ? first : net->weight_rounding->layers[i].name;
        count++;
    }
    if (first)
        qc_warn(net->listener->warnings,
                "second moments of %zu layer%s ('%s' first) were taken in blocks of columns, because the layer is too "
                "wide or --memory-limit too low; errors are not compensated across blocks",
                count, count == 1 ? "" : "s", first);
    size_t outputs = 0, bounded = 0;
    for (size_t i = 0; i < net->weight_rounding->count; i++) {
        outputs += net->weight_rounding->layers[i].outputs;
        bounded += net->weight_rounding->layers[i].bounded;
    }
    if (bounded)
        qc_warn(net->listener->warnings,
                "%zu of %zu output channels of weights are rounded to nearest, or their biases corrected in part; "
                "otherwise accumulators of %u bits could overflow",
                bounded, outputs, net->scheme.settings->plan.accumulator.bits);
    drop_moments(net);
    return true;
}

bool qc_network_bind(struct qc_network *net, struct qc_status *st)
{
    const bool propagates = net->scheme.options->method.propagate;
    if (propagates ? !propagate(net, st)
                   : !qc_choose(&net->calibration, net->simulated, net->evidence->statistics, qc_network_source(net),
                                &net->scheme.calibration, st))
        return false;
    const bool narrow = net->scheme.settings->plan.accumulator.bits % 32 != 0;
    bool ok = true;
    if (narrow && !propagates) {
        /* Fit ranges to narrow accumulators. With statistics alone the data are NULL and sums are not observed. */
        qc_progress_phase(net->setup->progress, "fitting accumulators");
        ok = qc_fit_accumulators(net->calibration, net->simulated, net->setup->data, net->scheme.settings, st);
        qc_progress_end(net->setup->progress);
        if (!ok) return false;
    }
    if (!qc_keep_target_limits(net->simulated, net->scheme.options->graph.runs_on, st)) return false;
    for (size_t i = 0; i < net->calibration->warnings.count; i++)
        qc_warn(net->listener->warnings, "%s", net->calibration->warnings.lines[i]);
    if (!qc_network_passed(net, QC_PASS_bind, net->simulated, net->simulated, st)) return false;
    const bool rounds = qc_rounds_weights(net->scheme.settings),
               nearest = !rounds || !net->evidence->statistics->second_moments;
    if (nearest && rounds && qc_has_statistics(net->setup->in)) /* else the summary and the report say so */
        qc_warn(net->listener->warnings,
                "weights are rounded to nearest and biases are not corrected: %s holds no second moments "
                "(--second-moments off); collect again",
                qc_statistics_name(net->setup->in));
    const struct qc_round_weights_options r = qc_network_rounding(net);
    bool taken = false;
    if (!net->weight_rounder && (nearest || !narrow) && !network_take_rounded(&taken, net, st)) return false;
    if (!taken && nearest)
        ok = qc_network_store_nearest(&net->rounded, net, st);
    else if (!taken) {
        qc_progress_phase(net->setup->progress, "rounding weights");
        ok = net->weight_rounder
                 ? qc_weight_rounder_finish(&net->weight_rounding, &net->rounded, net->weight_rounder, st)
                 : qc_round_weights(&net->weight_rounding, &net->rounded, net->simulated, qc_network_moments(net), &r,
                                    st);
        qc_progress_end(net->setup->progress);
    }
    return ok && qc_network_passed(net, QC_PASS_round, net->simulated, net->rounded, st);
}
