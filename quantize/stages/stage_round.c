// SPDX-License-Identifier: Apache-2.0
#include "quantize/stages/stage_list.h"

#include <string.h>

#include "calib/weights/tied_tables.h"
#include "quantize/collect/memory_plan.h"
#include "quantize/trials/auto_method.h"
#include "quantize/trials/cross_rounding.h"
#include "quantize/trials/output_bias.h"
#include "quantize/trials/propagate_check.h"
#include "quantize/trials/round_options.h"
#include "quantize/trials/target_limits.h"

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
