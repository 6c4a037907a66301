// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/output_bias.h"

#include "calib/ablation.h"
#include "calib/trials/output_means.h"
#include "quantize/trials/auto_method.h"
#include "quantize/trials/round_options.h"
#include "quantize/trials/trial_graph.h"

/* Number of units that the mean output error is measured on. With fewer units biases stay as they are: ranges and
   weights are fitted to the same samples, and on other samples the mean error differs. */
enum { OUTPUT_UNITS = 64 };
static bool can_correct(const struct qc_pipeline *p)
{
    return p->from->data && p->rounded && qc_corrects_bias(p->options) && p->how.accumulator.bits % 32 == 0;
}

static bool make_rounded(void *user, struct qc_graph **out, size_t k, struct qc_status *st)
{
    const struct qc_pipeline *p = user;
    (void)k;
    return qc_trial_graph(out, p, p->rounded, st);
}

bool qc_correct_output_biases(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_trial_options how = qc_trial_options_of(p);
    struct qc_trials *trials = NULL;
    struct qc_graph *corrected = NULL;
    if (!p->auto_method || !p->auto_method->trial_count || !can_correct(p)) return true;
    if (qc_dataset_units(p->from->data) < OUTPUT_UNITS || qc_ablated("output_bias")) return true;
    bool ok = qc_trials_new(&trials, p->real, p->from->data, OUTPUT_UNITS, &how, st) &&
              qc_correct_outputs(&corrected, &p->output_bias, p->rounded, trials, make_rounded, p, st);
    if (ok && corrected) {
        if (p->uncorrected)
            qc_graph_free(p->rounded);
        else
            p->uncorrected = p->rounded;
        p->rounded = corrected;
    }
    qc_trials_free(trials);
    return ok;
}
