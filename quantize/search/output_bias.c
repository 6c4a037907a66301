// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/output_bias.h"


#include "calib/ablation.h"
#include "calib/metrics/measure.h"
#include "calib/trials/trials.h"
#include "quantize/make/collecting.h"
#include "quantize/make/make.h"
#include "quantize/search/auto_method.h"
#include "quantize/search/limits.h"
#include "quantize/search/score.h"
#include "quantize/setup/model.h"

static bool can_correct(const struct qc_network *net)
{
    return net->setup->data && net->weight_rounding && net->scheme.settings->correct_bias &&
           net->scheme.settings->plan.accumulator.bits % 32 == 0;
}

static bool make_rounded(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct qc_network *net = user;
    (void)k;
    return qc_network_realise(out, net, net->rounded, st);
}

bool qc_correct_output_biases(struct qc_network *net, struct qc_status *st)
{
    const struct qc_trial_options how = qc_trial_options_of(net);
    struct qc_trials *trials = NULL;
    struct qc_graph *corrected = NULL;
    if (!net->auto_method || !net->auto_method->trial_count || !can_correct(net)) return true;
    if (qc_dataset_units(net->setup->data) < QC_OUTPUT_BIAS_UNITS || qc_ablated("output_bias")) return true;
    bool ok = qc_trials_new(&trials, net->real, net->setup->data, QC_OUTPUT_BIAS_UNITS, &how, st) &&
              qc_correct_outputs(&corrected, &net->output_bias, net->rounded, trials, make_rounded, net, st);
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
