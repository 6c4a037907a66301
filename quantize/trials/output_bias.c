// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/output_bias.h"

#include <math.h>

#include "calib/ablation.h"
#include "calib/metrics/measure.h"
#include "calib/trials/output_means.h"
#include "calib/trials/trial_run.h"
#include "quantize/collect/collecting.h"
#include "quantize/opening/model.h"
#include "quantize/trials/auto_method.h"
#include "quantize/trials/trial_graph.h"

struct qc_selection qc_measured_samples(const struct qc_dataset *data)
{
    const size_t batch = qc_dataset_batch(data) > 1 ? (size_t)qc_dataset_batch(data) : 1;
    return (struct qc_selection){.samples = QC_MEASURED_BATCHES * batch};
}

struct qc_measure_options qc_measure_options_of(const struct qc_pipeline *p)
{
    return (struct qc_measure_options){.accumulator = p->how.accumulator,
                                       .rounding = p->how.rounding,
                                       .run = qc_run_options_of(p->options, p->progress)};
}

bool qc_measure_outputs(struct qc_error *sums, uint64_t **keys, const struct qc_pipeline *p, struct qc_dataset *data,
                        const struct qc_selection *some, struct qc_status *st)
{
    const struct qc_measure_options o = qc_measure_options_of(p);
    const bool fewer = qc_dataset_samples(data) > some->samples;
    bool ok = !fewer || qc_dataset_select(data, some, st);
    if (ok && !*keys) ok = (*keys = QC_NEW_ARRAY(p->from->arena, uint64_t, qc_dataset_units(data), st)) != NULL;
    ok = ok && qc_output_errors(sums, qc_outputs_known(p), *keys, p->real, p->produced, data, &o, st);
    if (fewer && !qc_model_select_again(data, data == p->from->eval ? NULL : p->options, st)) return false;
    return ok;
}

double qc_outputs_sqnr_db(const struct qc_error *sums, size_t outputs)
{
    return -10 * log10(qc_trials_noise(sums, outputs, 0, 1, 1));
}

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
