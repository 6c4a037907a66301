// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/propagate_check.h"


#include "quantize/make/evidence.h"
#include "quantize/make/target_limits.h"
#include "quantize/search/auto_method.h"
#include "quantize/search/cross_rounding.h"
#include "quantize/search/limits.h"
#include "quantize/search/race.h"

/* Counts the cost of both jobs in p->calibration. */
static void spend(struct qc_network *net)
{
    net->calibration->cost = net->unpropagated->calibration->cost;
    net->calibration->solve_seconds += net->unpropagated->calibration->solve_seconds;
}

/* Compares the outputs of the plain job and of the propagated one. */
static bool compare_with_plain(bool *better, struct qc_race_result *g, const struct qc_network *net,
                               struct qc_status *st)
{
    const struct qc_race_terms terms = {.units = QC_PROPAGATE_UNITS, .least_db = QC_PROPAGATE_GAIN_DB};
    const struct qc_graph *const graphs[2] = {net->unpropagated->rounded, net->rounded};
    return qc_race_of_graphs(g, better, net, graphs, &terms, st);
}

bool qc_plain_or_propagated(struct qc_network *net, struct qc_status *st)
{
    bool better = false;
    struct qc_race_result g;
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
        qc_warn(net->listener->warnings,
                "--propagate is left out: on %zu samples the outputs gain %+.2f dB with it, which is worth %+.2f dB, "
                "less than %g",
                g.units * qc_dataset_unit_samples(net->setup->data), g.gain, g.worth, QC_PROPAGATE_GAIN_DB);
        spend(net);
    }
    return ok;
}
