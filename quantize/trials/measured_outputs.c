// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/measured_outputs.h"

#include <math.h>

#include "calib/trials/output_errors.h"
#include "calib/trials/trial_run.h"
#include "quantize/collect/collecting.h"
#include "quantize/opening/model.h"

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
