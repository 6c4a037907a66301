// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/propagate_check.h"

#include <stdlib.h>

#include "quantize/make/evidence.h"
#include "quantize/make/target_limits.h"
#include "quantize/search/auto_method.h"
#include "quantize/search/cross_rounding.h"
#include "quantize/search/limits.h"
#include "quantize/search/score.h"

/* Counts the cost of both jobs in p->calibration. */
static void spend(struct qc_network *net)
{
    net->calibration->cost = net->unpropagated->calibration->cost;
    net->calibration->solve_seconds += net->unpropagated->calibration->solve_seconds;
}

/* Compares the outputs of the plain job and of the propagated one. */
static bool compare_with_plain(bool *better, struct qc_trial_gain *g, const struct qc_network *net,
                               struct qc_status *st)
{
    const struct qc_plain *plain = net->unpropagated;
    const struct qc_graph *const graphs[2] = {plain->rounded, net->rounded};
    if (!qc_trial_compare(g, net, graphs, QC_PROPAGATE_UNITS, false, st)) return false;
    *better = g->of_half[0] > QC_PROPAGATE_GAIN_DB && g->of_half[1] > QC_PROPAGATE_GAIN_DB &&
              g->gain > QC_PROPAGATE_ERRORS * g->error;
    return true;
}

bool qc_plain_or_propagated(struct qc_network *net, struct qc_status *st)
{
    bool better = false;
    struct qc_trial_gain g;
    bool ok = compare_with_plain(&better, &g, net, st);
    if (!ok) return false;
    /* If the plain job keeps refined weights, --propagate must be better than these. */
    qc_network_exchange_plain(net);
    ok = qc_round_crossed(net, st);
    if (ok && better && net->crossed.kept) {
        qc_network_exchange_plain(net);
        ok = compare_with_plain(&better, &g, net, st);
        qc_network_exchange_plain(net);
    }
    if (ok && better) {
        qc_network_exchange_plain(net);
        net->crossed = (struct qc_crossed_rounding){0};
        qc_graph_free(net->uncorrected);
        net->uncorrected = NULL;
    } else if (ok) {
        const size_t batch = qc_dataset_batch(net->setup->data) > 1 ? (size_t)qc_dataset_batch(net->setup->data) : 1;
        qc_warn(net->warnings,
                "--propagate is left out: on two halves of %zu samples the outputs are not %g dB better with it (%+.2f "
                "dB in all)",
                g.units * batch, QC_PROPAGATE_GAIN_DB, g.gain);
        spend(net);
    }
    return ok;
}
