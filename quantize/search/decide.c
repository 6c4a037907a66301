// SPDX-License-Identifier: Apache-2.0
/* Makes a network, and decides by measurement what its scheme leaves open: factors and centres of channels, the
   observer of each quantizer, a second rounding of weights, and biases of the outputs. */
#include "quantize/search/searches.h"

#include "base/scope.h"
#include "calib/ablation.h"
#include "calib/metrics/measure.h"
#include "calib/trials/trials.h"
#include "quantize/make/evidence.h"
#include "quantize/make/make.h"
#include "quantize/search/race.h"
#include "quantize/setup/model.h"

/* Keeps --propagate only if it improves the outputs: the job without it is made too, and both run on samples.
   Calibration on quantized inputs is closer to inference, but ranges and biases that are fitted one by one can be worse
   in total (docs/decisions/0018-propagate-keeps-activations.md). */

/* Compares the outputs of the plain job and of the propagated one. */
static bool compare_with_plain(bool *better, struct qc_race_result *g, const struct qc_network *net,
                               struct qc_status *st)
{
    const struct qc_race_terms terms = {.units = QC_PROPAGATE_UNITS, .least_db = QC_PROPAGATE_GAIN_DB};
    const struct qc_graph *const graphs[2] = {net->unpropagated->rounded, net->rounded};
    return qc_race_of_graphs(g, better, net, graphs, &terms, st);
}

/* Refines weights. With --propagate both jobs run: unless --propagate gains (quantize/search/race.h), the job without
   it takes its place, with refined weights if these gain (quantize/search/cross_rounding.c), and with a warning. */
static bool refine(struct qc_network *net, struct qc_status *st)
{
    bool better = false;
    struct qc_race_result g;
    if (!net->unpropagated) return net->scheme.options->method.propagate || qc_round_crossed(net, st);
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
        /* the cost of both jobs counts */
        net->calibration->cost = net->unpropagated->calibration->cost;
        net->calibration->solve_seconds += net->unpropagated->calibration->solve_seconds;
    }
    return ok;
}

/* Corrects the biases of the last layers for the mean error of the outputs
   (docs/decisions/0037-biases-of-the-outputs.md). */

static bool make_rounded(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct qc_network *net = user;
    (void)k;
    return qc_network_realise(out, net, net->rounded, st);
}

/* Subtracts the mean error of the outputs from the biases of the layers that compute them
   (calib/trials/trials.h). Changes net->rounded; net->output_bias has the result. Does nothing unless --method
   auto ran trials, there are at least 64 units, biases are corrected and sums have 32 bits. Errors: those of runs. */
static bool correct_output_biases(struct qc_network *net, struct qc_status *st)
{
    const struct qc_trial_options how = qc_trial_options_of(net);
    struct qc_trials *trials = NULL;
    struct qc_graph *corrected = NULL;
    if (net->scheme.sketch || !net->auto_method || !net->auto_method->trial_count || !net->setup->data ||
        !net->weight_rounding || !net->scheme.settings->correct_bias ||
        net->scheme.settings->plan.accumulator.bits % 32)
        return true;
    if (qc_dataset_units(net->setup->data) < QC_OUTPUT_BIAS_UNITS || qc_ablated("output_bias")) return true;
    bool ok = qc_trials_new(&trials, net->real, net->setup->data, QC_OUTPUT_BIAS_UNITS, &how, st) &&
              qc_correct_outputs(&corrected, &net->output_bias, net->rounded, trials,
                                 &(const struct qc_trial_graphs){make_rounded, net, 1}, st);
    if (ok && corrected) {
        if (net->uncorrected)
            qc_graph_free(net->rounded);
        else
            net->uncorrected = net->rounded;
        net->rounded = corrected;
    }
    qc_trials_free(trials);
    return ok;
}

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
    qc_progress_phase(s->progress, "choosing observers");
    const bool ok = qc_auto_method_find(net, st);
    qc_progress_end(s->progress);
    return ok;
}

static bool quantize_bodies(struct qc_network *net, struct qc_status *st)
{
    struct qc_body_set *bodies;
    if (net->evidence->bodies) return true;
    if (!qc_quantize_bodies(&bodies, net, qc_decide, st)) return false;
    net->evidence->bodies = bodies;
    return true;
}

bool qc_decide(struct qc_network **out, const struct qc_setup *setup, const struct qc_scheme *scheme,
               struct qc_evidence *evidence, const struct qc_listener *listener, struct qc_status *st)
{
    struct qc_network *net = NULL;
    const bool ok =
        qc_network_observe(&net, setup, scheme, evidence, listener, st) && qc_scale_channels(net, st) &&
        qc_centre_channels(net, st) &&
        (!setup->data || scheme->options->run.memory_limit || qc_dataset_keep(setup->data, setup->budget, st)) &&
        qc_network_passed(net, QC_PASS_scale, net->simulated, net->simulated, st) && choose_observers(net, st) &&
        qc_network_passed(net, QC_PASS_choose, net->simulated, net->simulated, st) && qc_network_bind(net, st) &&
        refine(net, st) && qc_network_passed(net, QC_PASS_refine, net->simulated, net->rounded, st) &&
        correct_output_biases(net, st) && qc_network_settle(net, st) &&
        qc_network_passed(net, QC_PASS_correct, net->simulated, net->rounded, st) && quantize_bodies(net, st) &&
        qc_network_finish(net, st);
    return QC_HAND_OVER(ok, out, net, qc_network_free);
}
