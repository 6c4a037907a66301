// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/decide.h"

#include "base/scope.h"
#include "quantize/search/auto_method.h"
#include "quantize/search/centre_channels.h"
#include "quantize/search/cross_rounding.h"
#include "quantize/search/output_bias.h"
#include "quantize/search/propagate_check.h"
#include "quantize/search/quantize_bodies.h"
#include "quantize/search/scale_channels.h"

static bool choose_observers(struct qc_network *net, struct qc_status *st)
{
    const struct qc_setup *s = net->setup;
    if (!net->scheme.calibration.activation->of_network || (!s->data && !qc_has_statistics(s->in))) return true;
    if (!s->data) {
        qc_warn(net->listener->warnings,
                "--method auto uses mse: statistics do not show the effect of a range on the network's "
                "outputs; give --data too");
        return true;
    }
    if (!net->scheme.options->memory_limit && !qc_dataset_keep(s->data, s->budget, st)) return false;
    qc_progress_phase(s->progress, "choosing observers");
    const bool ok = qc_auto_method_find(net, st);
    qc_progress_end(s->progress);
    return ok;
}

static bool refine(struct qc_network *net, struct qc_status *st)
{
    if (net->unpropagated) return qc_plain_or_propagated(net, st);
    return net->scheme.options->propagate || qc_round_crossed(net, st);
}

static bool quantize_bodies(struct qc_network *net, struct qc_status *st)
{
    struct qc_body_set *bodies;
    if (net->evidence->bodies) return true;
    if (!qc_quantize_bodies(&bodies, net, qc_decide, st)) return false;
    qc_evidence_set_bodies(net->evidence, bodies);
    return true;
}

bool qc_decide(struct qc_network **out, const struct qc_setup *setup, const struct qc_scheme *scheme,
               struct qc_evidence *evidence, const struct qc_listener *listener, struct qc_status *st)
{
    struct qc_network *net = NULL;
    const bool ok =
        qc_network_observe(&net, setup, scheme, evidence, listener, st) && qc_scale_channels(net, st) &&
        qc_centre_channels(net, st) && qc_network_passed(net, QC_PASS_scale, net->simulated, net->simulated, st) &&
        choose_observers(net, st) && qc_network_passed(net, QC_PASS_choose, net->simulated, net->simulated, st) &&
        qc_network_bind(net, st) && refine(net, st) &&
        qc_network_passed(net, QC_PASS_refine, net->simulated, net->rounded, st) && qc_correct_output_biases(net, st) &&
        qc_network_settle(net, st) && qc_network_passed(net, QC_PASS_correct, net->simulated, net->rounded, st) &&
        quantize_bodies(net, st) && qc_network_finish(net, st);
    return QC_HAND_OVER(ok, out, net, qc_network_free);
}
