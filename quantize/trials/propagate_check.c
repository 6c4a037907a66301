// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/propagate_check.h"

#include <stdlib.h>

#include "quantize/trials/auto_method.h"
#include "quantize/trials/cross_rounding.h"
#include "quantize/trials/target_limits.h"
#include "quantize/trials/trial_graph.h"

/* --propagate must gain GAIN_DB on each half of the samples, and ERRORS standard errors on all of them. Ranges and
   biases are fitted to these samples: on held-out samples a gain is 0.5 dB smaller, on one network 1.5 dB
   (docs/decisions/0018-propagate-keeps-activations.md). UNITS: an EfficientNet gains 2.6 dB on 32 units, but loses 0.3
   dB on 256 and 1.7 dB on held-out samples. */
static const double GAIN_DB = 1, ERRORS = 2;
enum { UNITS = 256 };

struct qc_plain {
    struct qc_calibration *calibration;
    struct qc_weight_rounding *weight_rounding;
    struct qc_graph *simulated, *rounded; /* rounded: NULL with weights to nearest */
};

bool qc_plain_make(struct qc_pipeline *p, const struct qc_second_moments *m,
                   const struct qc_round_weights_options *rounding, struct qc_status *st)
{
    struct qc_plain *plain = p->unpropagated = calloc(1, sizeof *plain);
    bool taken = false;
    if (!plain) return qc_fail_memory(st, sizeof *plain);
    const bool ok =
        qc_choose(&plain->calibration, p->simulated, p->seen, qc_dataset_file(p->from->data), &p->calibration_options,
                  st) &&
        qc_keep_target_limits(p->simulated, p->options->runs_on, st) &&
        (!rounding || qc_auto_method_take_rounded(&taken, p, st)) &&
        (!rounding || taken || qc_round_weights(&p->weight_rounding, &p->rounded, p->simulated, m, rounding, st));
    plain->simulated = p->simulated;
    plain->rounded = p->rounded;
    plain->weight_rounding = p->weight_rounding;
    p->simulated = p->rounded = NULL;
    p->weight_rounding = NULL;
    return ok && qc_simulate(&p->simulated, p->partition, st);
}

/* Exchanges the results of the job with those in p->unpropagated. */
static void swap(struct qc_pipeline *p)
{
    struct qc_plain *plain = p->unpropagated;
    const struct qc_plain own = {.calibration = p->calibration,
                                 .weight_rounding = p->weight_rounding,
                                 .simulated = p->simulated,
                                 .rounded = p->rounded};
    p->calibration = plain->calibration;
    p->weight_rounding = plain->weight_rounding;
    p->simulated = plain->simulated;
    p->rounded = plain->rounded;
    *plain = own;
}

/* Counts the cost of both jobs in p->calibration. */
static void spend(struct qc_pipeline *p)
{
    p->calibration->cost = p->unpropagated->calibration->cost;
    p->calibration->solve_seconds += p->unpropagated->calibration->solve_seconds;
}

/* Compares the outputs of the plain job and of the propagated one. */
static bool compare_with_plain(bool *better, struct qc_trial_gain *g, const struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_plain *plain = p->unpropagated;
    const struct qc_graph *const graphs[2] = {plain->rounded ? plain->rounded : plain->simulated,
                                              p->rounded ? p->rounded : p->simulated};
    if (!qc_trial_compare(g, p, graphs, UNITS, false, st)) return false;
    *better = g->of_half[0] > GAIN_DB && g->of_half[1] > GAIN_DB && g->gain > ERRORS * g->error;
    return true;
}

bool qc_plain_or_propagated(struct qc_pipeline *p, struct qc_status *st)
{
    bool better = false;
    struct qc_trial_gain g;
    bool ok = compare_with_plain(&better, &g, p, st);
    if (!ok) return false;
    /* If the plain job keeps refined weights, --propagate must be better than these. */
    swap(p);
    ok = qc_round_crossed(p, st);
    if (ok && better && p->crossed.kept) {
        swap(p);
        ok = compare_with_plain(&better, &g, p, st);
        swap(p);
    }
    if (ok && better) {
        swap(p);
        p->crossed = (struct qc_crossed_rounding){0};
        qc_graph_free(p->uncorrected);
        p->uncorrected = NULL;
    } else if (ok) {
        const size_t batch = qc_dataset_batch(p->from->data) > 1 ? (size_t)qc_dataset_batch(p->from->data) : 1;
        qc_warn(p->warnings,
                "--propagate is left out: on two halves of %zu samples the outputs are not %g dB better with it (%+.2f "
                "dB in all)",
                g.units * batch, GAIN_DB, g.gain);
        spend(p);
    }
    if (p->shared) qc_folded_constants_trim(p->shared, 0); /* half of them belong to weights that are dropped */
    return ok;
}

void qc_plain_free(struct qc_plain *plain)
{
    if (!plain) return;
    qc_calibration_free(plain->calibration);
    qc_weight_rounding_free(plain->weight_rounding);
    qc_graph_free(plain->rounded);
    qc_graph_free(plain->simulated);
    free(plain);
}
